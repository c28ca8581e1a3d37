"""A sweep says what is on the disk: nothing more, and to the last bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from firststep import run_sweep
from firststep.errors import StoreError
from firststep.store import Store
from firststep.sweep.run import advance, read
from tests.processes import alive, children, eventually
from tests.store.making import changed
from tests.sweep.helpers import contents, finish, long_file, run, start, table

RIDGES = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0]  # long enough for another solver than few


@pytest.mark.parametrize("missing", [1, 3, 6])
def test_some_ridges_of_a_unit_are_computed_to_the_same_bit(tmp_path: Path, missing: int) -> None:
    asked = table(axes=dict(alpha=[0.7, 2], ridge=RIDGES))
    path = tmp_path / "a.db"
    run_sweep(asked, path, workers=1)
    before = contents(path)
    gone = " OR ".join(f"problem LIKE '%\"ridge\":{ridge}%'" for ridge in RIDGES[:missing])
    assert changed(path, f"DELETE FROM results WHERE {gone}") > 10
    assert len(contents(path)) < len(before)
    run_sweep(asked, path, workers=1)
    assert contents(path) == before


def small_file(folder: Path) -> Path:
    """An experiment of three predictions."""
    path = folder / "small.toml"
    path.write_text(
        '[problem]\nstudent="tanh"\nteacher="sin"\nbeta=1\nalpha=2\n'
        "[axes]\nridge=[0.01, 0.1, 1.0]\n[predict]\n"
    )
    return path


def test_a_spoiled_result_is_told_left_out_and_computed_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = small_file(tmp_path)
    store = path.with_suffix(".db")
    assert run("sweep", "run", path, "--workers", 1) == 0
    before = contents(store)
    changed(store, "UPDATE results SET numbers='{\"risk\":0.123456}' WHERE id=2")
    capsys.readouterr()
    assert run("sweep", "status", path) == 0
    said = capsys.readouterr()
    assert "2 of 3 results" in said.out
    assert "warning: 1 rows of the store are not what was written" in said.err
    assert run("sweep", "export", path, "--csv", tmp_path / "a.csv") == 0
    assert "left out" in capsys.readouterr().err
    assert "0.123456" not in (tmp_path / "a.csv").read_text()
    assert run("sweep", "run", path, "--workers", 1) == 0
    said = capsys.readouterr()
    assert "3 of 3 results" in said.out
    assert "computed again" in said.err
    assert contents(store) == before
    assert run("sweep", "status", path) == 0
    assert "warning" not in capsys.readouterr().err


def test_repair_is_refused_while_a_sweep_runs(tmp_path: Path) -> None:
    path = long_file(tmp_path, replicates=2000)
    store = path.with_suffix(".db")
    process = start("sweep", "run", path, "--workers", 1)
    assert eventually(lambda: store.exists() and len(contents(store)) > 3)
    for _ in range(2):
        before = contents(store)
        code, _, err = finish(start("sweep", "repair", store))
        assert (code, process.poll()) == (1, None)
        assert "is in use" in err
        assert before.items() <= contents(store).items()
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 130
    assert f"interrupted: {len(contents(store))} of 6003 results" in err


def test_a_sweep_whose_store_is_replaced_notices(tmp_path: Path) -> None:
    """Moved away by hand: the sweep does not go on writing to nobody."""
    path = long_file(tmp_path, replicates=60)
    store = path.with_suffix(".db")
    process = start("sweep", "run", path, "--workers", 1)
    assert eventually(lambda: store.exists() and len(contents(store)) > 3)
    store.rename(tmp_path / "elsewhere.db")
    code, out, err = finish(process)
    assert code == 1
    assert "moved away or replaced" in err
    assert "183 of 183" not in out
    assert "Traceback" not in err


def test_what_is_said_to_be_done_is_counted_on_the_disk(tmp_path: Path) -> None:
    """Another program takes results away at the last moment."""
    asked = read(table())
    path = tmp_path / "a.db"

    def take_away(tally: object) -> None:
        if getattr(tally, "finished") == getattr(tally, "wanted"):  # noqa: B009
            changed(path, "DELETE FROM results WHERE id=1")

    with Store(path) as store, pytest.raises(StoreError, match="the same command computes"):
        advance(asked, store, workers=1, watch=take_away)
    assert run_sweep(table(), path, workers=1).complete


def test_workers_whose_sweep_was_killed_say_nothing(tmp_path: Path) -> None:
    path = long_file(tmp_path)
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "firststep.cli", "sweep", "run", str(path), "--workers", "2"],
            stdout=said,
            stderr=said,
        )
        store = path.with_suffix(".db")
        assert eventually(lambda: store.exists() and len(contents(store)) > 20)
        workers = children(process.pid)
        process.kill()
        process.wait()
    assert eventually(lambda: not any(alive(pid) for pid in workers))
    assert "Error" not in (tmp_path / "said").read_text()


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1"])
def test_export_to_standard_output(tmp_path: Path, name: str) -> None:
    """Behind what the shell has written to the same file, which stays there."""
    path = small_file(tmp_path)
    run_sweep(path, path.with_suffix(".db"), workers=1).to_csv(tmp_path / "direct.csv")
    command = [sys.executable, "-m", "firststep.cli", "sweep", "export", path, "--csv", name]
    with (tmp_path / "out.csv").open("w") as file:
        file.write("before\n")
        file.flush()
        done = subprocess.run(command, stdout=file, stderr=subprocess.PIPE, check=True)
    assert b"wrote" in done.stderr
    out = (tmp_path / "out.csv").read_bytes()
    assert out == b"before\n" + (tmp_path / "direct.csv").read_bytes()


def test_export_through_links_and_pipes(tmp_path: Path) -> None:
    held = run_sweep(table(simulate={"dimension": 20, "replicates": 1}), workers=1)
    real, link, pipe = tmp_path / "real.csv", tmp_path / "link.csv", tmp_path / "pipe.csv"
    real.write_text("old")
    real.chmod(0o600)
    link.symlink_to(real)
    held.to_csv(link)
    assert link.is_symlink()
    assert real.read_text().startswith("verb,")
    assert real.stat().st_mode & 0o777 == 0o600
    os.mkfifo(pipe)
    read_from: list[str] = []
    reader = threading.Thread(target=lambda: read_from.append(pipe.read_text()))
    reader.start()
    held.to_csv(pipe)
    reader.join(timeout=30)
    assert pipe.is_fifo()
    assert read_from == [real.read_text()]
    hanging = tmp_path / "hanging.csv"
    hanging.symlink_to(tmp_path / "new.csv")
    held.to_csv(hanging)
    assert hanging.is_symlink()
    assert (tmp_path / "new.csv").read_text() == real.read_text()
    with pytest.raises(IsADirectoryError):
        held.to_csv(tmp_path)
