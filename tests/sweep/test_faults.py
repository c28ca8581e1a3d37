"""What happens to a sweep in the real world: kill -9, Ctrl-C, a full disk, two sweeps at once.
Nothing finished may be lost.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from firststep.store import Store
from tests.sweep.helpers import contents, finish, long_file, start, wanted_keys


def done(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    with Store(path, create=False) as store:
        return store.statuses()


def wait_for_results(path: Path, count: int, timeout: float = 60) -> None:
    give_up = time.monotonic() + timeout
    while time.monotonic() < give_up:
        if path.exists() and path.stat().st_size > 0 and len(done(path)) >= count:
            return
        time.sleep(0.02)
    raise AssertionError(f"{path} did not reach {count} results")


def children(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(word) for word in found.stdout.split()]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """The long experiment, run in peace."""
    folder = tmp_path_factory.mktemp("peace")
    path = long_file(folder)
    code, out, err = finish(start("sweep", "run", path, "--workers", 2))
    assert code == 0, err
    assert "453 of 453 results" in out
    return path, contents(path.with_suffix(".db"))


def test_kill_nine_of_the_main_process_at_random_moments(
    tmp_path: Path, undisturbed: tuple[Path, dict[str, object]]
) -> None:
    path = long_file(tmp_path)
    store = path.with_suffix(".db")
    rng = random.Random(5)
    before: dict[str, str] = {}
    for kill in range(6):
        process = start("sweep", "run", path, "--workers", 2)
        if kill % 3 == 2:  # while it starts
            time.sleep(rng.uniform(0.0, 1.5))
        else:  # while results are being written
            wait_for_results(store, len(before) + rng.randrange(1, 60))
            time.sleep(rng.uniform(0, 0.05))
        process.kill()
        finish(process)
        after = done(store)
        assert set(before) <= set(after), "a finished result was lost"
        before = after
    assert len(before) < 453
    code, out, err = finish(start("sweep", "run", path, "--workers", 2))
    assert code == 0, err
    assert "453 of 453 results" in out
    assert contents(store) == undisturbed[1]


def test_kill_nine_of_workers(tmp_path: Path, undisturbed: tuple[Path, dict[str, object]]) -> None:
    path = long_file(tmp_path)
    process = start("sweep", "run", path, "--workers", 2)
    killed = 0
    while process.poll() is None and killed < 4:
        wait_for_results(path.with_suffix(".db"), 30 * (killed + 1))
        for pid in children(process.pid)[:1]:
            os.kill(pid, signal.SIGKILL)
            killed += 1
    code, out, err = finish(process)
    assert (code, killed) == (0, 4), err
    assert "453 of 453 results" in out
    assert contents(path.with_suffix(".db")) == undisturbed[1]


def test_a_unit_that_kills_its_workers_is_given_up_and_the_rest_goes_on(tmp_path: Path) -> None:
    """Three deaths on one unit: it is lost, with its reason; the others are done."""
    import firststep.simulation.running.workers as module
    from firststep.errors import WorkerFailed

    with module.Workers(2) as workers:
        answers = dict(workers.survive(_deadly, [1, 2, 3, 4, 5]))
    assert isinstance(answers[2], WorkerFailed)
    assert "SIGKILL" in str(answers[2])
    assert {place: answer for place, answer in answers.items() if place != 2} == {
        0: 1,
        1: 4,
        3: 16,
        4: 25,
    }


def _deadly(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2


def test_no_worker_outlives_its_sweep(tmp_path: Path) -> None:
    path = long_file(tmp_path)
    process = start("sweep", "run", path, "--workers", 2)
    wait_for_results(path.with_suffix(".db"), 20)
    workers = children(process.pid)
    assert len(workers) == 2
    process.kill()
    finish(process)
    give_up = time.monotonic() + 10
    while time.monotonic() < give_up and any(Path(f"/proc/{pid}").exists() for pid in workers):
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


def test_control_c_says_how_to_go_on(
    tmp_path: Path, undisturbed: tuple[Path, dict[str, object]]
) -> None:
    path = long_file(tmp_path)
    for workers in (2, 1):
        process = start("sweep", "run", path, "--workers", workers)
        wait_for_results(path.with_suffix(".db"), len(done(path.with_suffix(".db"))) + 30)
        process.send_signal(signal.SIGINT)
        code, _, err = finish(process)
        assert code == 130
        assert "the same command continues" in err
        assert "Traceback" not in err
    code, _, _ = finish(start("sweep", "resume", path))
    assert code == 0
    assert contents(path.with_suffix(".db")) == undisturbed[1]


def test_two_sweeps_in_one_store(
    tmp_path: Path, undisturbed: tuple[Path, dict[str, object]]
) -> None:
    path = long_file(tmp_path)
    processes = [start("sweep", "run", path, "--workers", 1) for _ in range(2)]
    results = [finish(process) for process in processes]
    assert [code for code, _, _ in results] == [0, 0], results
    assert contents(path.with_suffix(".db")) == undisturbed[1]


def test_a_disk_that_is_full(tmp_path: Path, undisturbed: tuple[Path, dict[str, object]]) -> None:
    """The system's own limit on the size of a file stops the writing, as a quota does."""
    path = long_file(tmp_path)
    code, _, err = finish(start("sweep", "run", path, "--workers", 1, largest_file=150))
    assert code == 1
    assert err.splitlines()[-1].startswith("error: the disk")
    assert "Traceback" not in err
    kept = done(path.with_suffix(".db"))
    assert 0 < len(kept) < 453
    code, _, err = finish(start("sweep", "run", path))
    assert code == 0, err
    assert set(kept) <= wanted_keys(path)
    assert contents(path.with_suffix(".db")) == undisturbed[1]


def test_a_truncated_store_is_repaired_and_finished(
    tmp_path: Path, undisturbed: tuple[Path, dict[str, object]]
) -> None:
    path = long_file(tmp_path)
    store = path.with_suffix(".db")
    with Store(undisturbed[0].with_suffix(".db")) as source:
        source._connection.execute("VACUUM INTO ?", (str(store),))
    with store.open("r+b") as file:
        file.truncate(store.stat().st_size * 2 // 3)
    for command in ("run", "status"):
        code, _, err = finish(start("sweep", command, path))
        assert code == 1
        assert f"firststep sweep repair {store}" in err
    code, out, err = finish(start("sweep", "repair", store))
    assert code == 0, err
    assert "saved" in out
    assert 100 < len(done(store)) < 453
    assert finish(start("sweep", "run", path))[0] == 0
    assert contents(store) == undisturbed[1]


def test_failures_are_listed_and_the_exit_code_tells(tmp_path: Path) -> None:
    path = tmp_path / "fails.toml"
    path.write_text(
        '[problem]\nstudent="tanh"\nteacher="sin"\nbeta=1\nalpha=2\n'
        "[axes]\nridge=[0.0, 0.1]\n[predict]\n"
    )
    code, out, err = finish(start("sweep", "run", path))
    assert code == 1
    assert "2 of 2 results, 1 failed" in out
    assert "failed: theory (exact bulk): tanh learns sin" in err
    code, out, err = finish(start("sweep", "status", path, "--json"))
    assert code == 1
    told = json.loads(out)
    assert (told["wanted"], told["finished"], told["failed"]) == (2, 2, 1)
    assert "ridge must be" in told["failures"][0]
