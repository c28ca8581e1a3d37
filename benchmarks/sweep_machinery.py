"""What the machinery of sweeps costs: ``python benchmarks/sweep_machinery.py``.

Overhead over a bare loop at tasks of about a second, resuming a finished sweep of 20 000 tasks,
exporting 100 000 rows.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from firststep import Problem, simulate
from firststep.store import DONE, Store
from firststep.sweep.experiment import Experiment
from firststep.sweep.run import results, run_sweep

PROBLEM = dict(student="tanh", teacher="sin", beta=1, alpha0=2, noise=0.1, readout="signs")


def overhead(folder: Path, tasks: int = 12, dimension: int = 1300) -> None:
    """The same replicates in a bare loop and in a sweep, one process, in pairs."""
    problem = Problem(**PROBLEM, alpha=2, ridge=0.01, dimension=dimension)
    simulate(problem, replicates=1, workers=1)
    bare, swept = [], []
    for number in range(tasks):
        begin = time.perf_counter()
        simulate(problem, replicates=1, first_replicate=number, workers=1)
        bare.append(time.perf_counter() - begin)
        grid = dict(
            problem=dict(PROBLEM, alpha=2, ridge=0.01),
            simulate=dict(dimension=dimension, replicates=number + 1),
        )
        begin = time.perf_counter()
        run_sweep(grid, folder / "overhead.db", workers=1)
        swept.append(time.perf_counter() - begin)
    ratio = float(np.median(np.array(swept) / np.array(bare)))
    print(
        f"overhead of a sweep over a bare loop: {100 * (ratio - 1):.1f} % at tasks of "
        f"{np.median(bare):.2f} s (asked: at most 5 %)"
    )


def pretend(experiment: Experiment, path: Path) -> int:
    """Fill a store with made-up numbers for every result: only the machinery is timed."""
    numbers = dict.fromkeys(
        ("risk", "risk_test_error", "training_error", "alignment", "spike_strength"),
        0.123456789012345,
    )
    records = [
        wanted.record(DONE, numbers=numbers, arrays={"learned_function": [0.1] * 24}, seconds=1.0)
        for unit in experiment.units()
        for wanted in unit.wanted
    ]
    with Store(path) as store:
        store.add(records, store.begin_run({}, "benchmark"))
    return len(records)


def resume(folder: Path) -> None:
    grid = dict(
        problem=PROBLEM,
        axes=dict(alpha={"linspace": [0.5, 10, 100]}, step={"linspace": [0, 3, 10]}),
        simulate=dict(dimension=100, replicates=20),
    )
    count = pretend(Experiment.from_dict(grid), folder / "resume.db")
    begin = time.perf_counter()
    done = run_sweep(grid, folder / "resume.db")
    print(
        f"resuming a finished sweep of {count} tasks: {time.perf_counter() - begin:.2f} s (asked: "
        "under 3 s)"
    )
    assert done.complete


def export(folder: Path) -> None:
    grid = dict(
        problem=PROBLEM,
        axes=dict(
            alpha={"linspace": [0.5, 10, 100]},
            step={"linspace": [0, 3, 10]},
            ridge=[0.01, 0.1, 1, 10],
        ),
        simulate=dict(dimension=100, replicates=25),
    )
    experiment = Experiment.from_dict(grid)
    count = pretend(experiment, folder / "export.db")
    for kind in ("csv", "parquet", "netcdf"):
        fresh = Experiment.from_dict(grid)
        begin = time.perf_counter()
        with Store(folder / "export.db") as store:
            held = results(fresh, store)
        getattr(held, f"to_{kind}")(folder / f"table.{kind}")
        print(
            f"export of {count} rows as {kind}: {time.perf_counter() - begin:.2f} s (asked: under "
            "3 s)"
        )


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        overhead(folder)
        resume(folder)
        export(folder)


if __name__ == "__main__":
    main()
