"""A real Dask cluster: a scheduler and two workers, killed one after the other during runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from firststep import InvalidParameter, run_sweep
from firststep.sweep import executors
from firststep.sweep.executors import Dask
from tests.processes import eventually
from tests.sweep.helpers import contents, finish, long_file, start, wait_for_results


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Its address, its two workers and its scheduler. One for the whole file: the tests that kill
    some of it come last.
    """
    folder = tmp_path_factory.mktemp("cluster")
    file = folder / "scheduler.json"
    environment = {**os.environ, "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "10s"}

    def launch(*words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *words],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
        )

    scheduler = launch(
        "scheduler",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--no-dashboard",
        "--scheduler-file",
        str(file),
    )
    started = [scheduler]
    try:
        assert eventually(file.exists)
        workers = [
            launch(
                "worker",
                "--scheduler-file",
                str(file),
                "--nthreads",
                "1",
                "--no-dashboard",
                "--no-nanny",
            )
            for _ in range(2)
        ]
        started += workers
        address = json.loads(file.read_text())["address"]
        from distributed import Client

        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        yield address, [*workers, scheduler]
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


def test_a_client_of_the_user(
    tmp_path: Path, cluster: tuple[str, list[subprocess.Popen[bytes]]]
) -> None:
    from distributed import Client

    with Client(cluster[0], set_as_default=False) as client:
        executor = Dask(client)
        assert executor.describe() == "a Dask cluster of 2 workers"
        done = run_sweep(long_file(tmp_path, replicates=3), dask=client)
        assert done.complete
        assert client.status == "running"  # ours to close, not firststep's


def test_a_cluster_that_loses_a_worker_gives_the_same_results(
    tmp_path: Path, cluster: tuple[str, list[subprocess.Popen[bytes]]]
) -> None:
    address, workers = cluster
    path = long_file(tmp_path, replicates=30)
    process = start("sweep", "run", path, "--dask", address)
    store = path.with_suffix(".db")
    wait_for_results(store, 20)
    workers[0].send_signal(signal.SIGKILL)
    code, out, err = finish(process)
    assert code == 0, err
    assert "93 of 93 results" in out
    assert run_sweep(path, tmp_path / "local.db", workers=1).complete
    assert contents(store) == contents(tmp_path / "local.db")


def test_a_scheduler_that_is_killed_is_told_in_one_line(
    tmp_path: Path, cluster: tuple[str, list[subprocess.Popen[bytes]]]
) -> None:
    address, (_, _, scheduler) = cluster
    path = long_file(tmp_path, replicates=200)
    process = start("sweep", "run", path, "--dask", address)
    store = path.with_suffix(".db")
    wait_for_results(store, 20)
    scheduler.send_signal(signal.SIGKILL)
    code, out, err = finish(process)
    assert code == 1
    assert "of 603 results" not in out
    assert err.splitlines()[-1].startswith("error: the Dask cluster does not answer any more")
    assert "Traceback" not in err
    assert 20 <= len(contents(store)) < 603
    before = contents(store)
    short = long_file(tmp_path, replicates=10)  # the same seeds: resumed on this machine
    assert run_sweep(short, store, workers=1).complete
    assert before.items() <= contents(store).items()


def test_no_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "_DASK_TIMEOUT", "1s")
    with pytest.raises(InvalidParameter, match="dask must be the address of a running scheduler"):
        run_sweep(
            {
                "problem": {"student": "tanh", "teacher": "sin", "alpha": 1, "beta": 1},
                "predict": {},
            },
            dask="tcp://127.0.0.1:1",
        )
    with pytest.raises(InvalidParameter, match="workers must be left out with dask"):
        run_sweep(
            {
                "problem": {"student": "tanh", "teacher": "sin", "alpha": 1, "beta": 1},
                "predict": {},
            },
            dask="x",
            workers=2,
        )
