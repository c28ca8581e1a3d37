"""What happens to a sweep in the real world: kill -9, Ctrl-C, a full disk, two sweeps at once.
Nothing finished may be lost.

Commands that are disturbed have a process of their own; those that finish the work run in this one.
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

from firststep.errors import WorkerFailed
from firststep.simulation.running.workers import Workers
from firststep.store import Store
from tests.jobs import die_at_three
from tests.processes import alive, children, eventually
from tests.sweep.helpers import (
    LONG,
    contents,
    done,
    finish,
    long_file,
    run,
    start,
    wait_for_results,
    wanted_keys,
)

Undisturbed = tuple[Path, dict[str, object]]


def kill(process: subprocess.Popen[str]) -> list[int]:
    """End a process at once; no worker of it may live on. Returns its workers."""
    workers = children(process.pid)
    process.kill()
    finish(process)
    assert eventually(lambda: not any(alive(pid) for pid in workers))
    return workers


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """The long experiment, run in peace."""
    path = long_file(tmp_path_factory.mktemp("peace"))
    assert run("sweep", "run", path, "--workers", 1) == 0
    found = contents(path.with_suffix(".db"))
    assert len(found) == LONG
    return path, found


def test_kill_nine_of_the_main_process_at_random_moments(
    tmp_path: Path, undisturbed: Undisturbed, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing finished is lost, and no worker outlives its sweep."""
    path = long_file(tmp_path)
    store = path.with_suffix(".db")
    rng = random.Random(5)
    before: dict[str, str] = {}
    for moment in ("created", "written", "written", "started"):
        process = start("sweep", "run", path, "--workers", 2)
        if moment == "created":  # the store is a file, but perhaps not yet a store
            assert eventually(store.exists)
        elif moment == "written":
            wait_for_results(store, len(before) + rng.randrange(1, 30))
        time.sleep(rng.uniform(0.0, 1.0 if moment == "started" else 0.05))
        workers = kill(process)
        assert len(workers) == 2 or moment != "written"
        after = {} if moment == "created" else done(store)
        assert set(before) <= set(after), "a finished result was lost"
        before = after
    assert 0 < len(before) < LONG
    capsys.readouterr()
    assert run("sweep", "run", path, "--workers", 1) == 0
    assert f"{LONG} of {LONG} results" in capsys.readouterr().out
    assert contents(store) == undisturbed[1]


def test_kill_nine_of_workers(tmp_path: Path, undisturbed: Undisturbed) -> None:
    """Of both, and of one that has taken the place of another."""
    path = long_file(tmp_path)
    process = start("sweep", "run", path, "--workers", 2)
    killed = 0
    while process.poll() is None and killed < 3:
        wait_for_results(path.with_suffix(".db"), 20 * (killed + 1))
        for pid in sorted(children(process.pid))[:1]:
            os.kill(pid, signal.SIGKILL)
            killed += 1
    code, out, err = finish(process)
    assert (code, killed) == (0, 3), err
    assert f"{LONG} of {LONG} results" in out
    assert contents(path.with_suffix(".db")) == undisturbed[1]


def test_a_unit_that_kills_its_workers_is_given_up_and_the_rest_goes_on() -> None:
    """Three deaths on one unit: it is lost, with its reason; the others are done."""
    with Workers(2) as workers:
        answers = dict(workers.survive(die_at_three, [1, 2, 3, 4, 5]))
    assert isinstance(answers[2], WorkerFailed)
    assert "SIGKILL" in str(answers[2])
    assert {place: answer for place, answer in answers.items() if place != 2} == {
        0: 1,
        1: 4,
        3: 16,
        4: 25,
    }


def test_control_c_says_how_to_go_on(tmp_path: Path, undisturbed: Undisturbed) -> None:
    path = long_file(tmp_path)
    for workers in (2, 1):
        process = start("sweep", "run", path, "--workers", workers)
        wait_for_results(path.with_suffix(".db"), len(done(path.with_suffix(".db"))) + 15)
        process.send_signal(signal.SIGINT)
        code, _, err = finish(process)
        assert code == 130
        assert "the same command continues" in err
        assert "Traceback" not in err
    assert run("sweep", "resume", path, "--workers", 1) == 0
    assert contents(path.with_suffix(".db")) == undisturbed[1]


def test_two_sweeps_in_one_store(tmp_path: Path, undisturbed: Undisturbed) -> None:
    path = long_file(tmp_path)
    processes = [start("sweep", "run", path, "--workers", 1) for _ in range(2)]
    results = [finish(process) for process in processes]
    assert [code for code, _, _ in results] == [0, 0], results
    assert contents(path.with_suffix(".db")) == undisturbed[1]


def test_a_disk_that_is_full(tmp_path: Path, undisturbed: Undisturbed) -> None:
    """The system's own limit on the size of a file stops the writing, as a quota does."""
    path = long_file(tmp_path)
    code, _, err = finish(start("sweep", "run", path, "--workers", 1, largest_file=150))
    assert code == 1
    assert err.splitlines()[-1].startswith("error: the disk")
    assert "Traceback" not in err
    kept = done(path.with_suffix(".db"))
    assert 0 < len(kept) < LONG
    assert run("sweep", "run", path, "--workers", 1) == 0
    assert set(kept) <= wanted_keys(path)
    assert contents(path.with_suffix(".db")) == undisturbed[1]


def test_a_truncated_store_is_repaired_and_finished(
    tmp_path: Path, undisturbed: Undisturbed, capsys: pytest.CaptureFixture[str]
) -> None:
    path = long_file(tmp_path)
    store = path.with_suffix(".db")
    with Store(undisturbed[0].with_suffix(".db")) as source:
        source._connection.execute("VACUUM INTO ?", (str(store),))
    with store.open("r+b") as file:
        file.truncate(store.stat().st_size * 2 // 3)
    for command in ("run", "status"):
        assert run("sweep", command, path) == 1
        assert f"firststep sweep repair {store}" in capsys.readouterr().err
    assert run("sweep", "repair", store) == 0
    assert "saved" in capsys.readouterr().out
    assert LONG // 4 < len(done(store)) < LONG
    assert run("sweep", "run", path, "--workers", 1) == 0
    assert contents(store) == undisturbed[1]


def test_failures_are_listed_and_the_exit_code_tells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fails.toml"
    path.write_text(
        '[problem]\nstudent="tanh"\nteacher="sin"\nbeta=1\nalpha=2\n'
        "[axes]\nridge=[0.0, 0.1]\n[predict]\n"
    )
    assert run("sweep", "run", path) == 1
    told = capsys.readouterr()
    assert "2 of 2 results, 1 failed" in told.out
    assert "failed: theory (exact bulk): tanh learns sin" in told.err
    assert run("sweep", "status", path, "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["wanted"], found["finished"], found["failed"]) == (2, 2, 1)
    assert "ridge must be" in found["failures"][0]
