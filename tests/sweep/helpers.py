"""A small experiment, and the command line in a process of its own."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from firststep import cli
from firststep.store import Store
from firststep.sweep.experiment import Experiment
from tests.processes import eventually

PROBLEM = dict(student="tanh", teacher="sin", beta=1, alpha0=2, noise=0.1, readout="signs")


def table(**changes: Any) -> dict[str, Any]:
    """Six points, theory and two models."""
    base: dict[str, Any] = dict(
        name="small",
        problem=dict(PROBLEM),
        axes=dict(alpha=[1, 2, 4], ridge=[0.01, 0.1]),
        predict=dict(dimension=["inf", "simulated"]),
        simulate=dict(models=["network", "linear"], dimension=30, replicates=3),
    )
    return {**base, **changes}


LONG = 183  # results of the experiment of ``long_file``


def long_file(folder: Path, replicates: int = 60, dimension: int = 80) -> Path:
    """An experiment file that takes two or three seconds."""
    path = folder / "long.toml"
    path.write_text(
        'seed = 3\n[problem]\nstudent = "tanh"\nteacher = "sin"\nbeta = 1\nalpha0 = 4\n'
        "[axes]\nalpha = [1, 2, 4]\n"
        '[predict]\n[simulate]\nmodels = ["network"]\n'
        f"dimension = {dimension}\nreplicates = {replicates}\n"
    )
    return path


def run(*arguments: object) -> int:
    """The exit code of a firststep command in this process, which spares the start of another."""
    return cli.run([str(each) for each in arguments])


def start(*arguments: object, largest_file: int | None = None) -> subprocess.Popen[str]:
    """A firststep command in a process of its own; ``largest_file``: kilobytes a file may have."""
    environment = {**os.environ, "COLUMNS": "200"}
    command = [sys.executable, "-m", "firststep.cli", *map(str, arguments)]
    if largest_file is not None:
        command = ["bash", "-c", f"ulimit -f {largest_file}; exec {shlex.join(command)}"]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def finish(process: subprocess.Popen[str], timeout: float = 120) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err


def done(path: Path) -> dict[str, str]:
    """The results a store holds so far, by their keys."""
    if not path.exists():
        return {}
    with Store(path, create=False) as store:
        return store.statuses()


def wait_for_results(path: Path, count: int) -> None:
    def there() -> bool:
        return path.exists() and path.stat().st_size > 0 and len(done(path)) >= count

    assert eventually(there), f"{path} did not reach {count} results"


def wanted_keys(path: Path) -> set[str]:
    return {wanted.key for unit in Experiment.from_toml(path).units() for wanted in unit.wanted}


def contents(path: Path) -> dict[str, Any]:
    """Everything a store holds that must not depend on how it was computed: key, status, numbers
    but the times, arrays.
    """
    with Store(path, create=False) as store:
        return {
            record.key: (
                record.status,
                {k: v for k, v in record.numbers.items() if k != "replicate_seconds"},
                record.arrays,
            )
            for record in store.records()
        }
