"""How long the theory takes: twelve laws, one problem each and 60-point curves along five axes.

``python benchmarks/theory_curves.py [--times 3] [--write now.json] [--before then.json]``

Processor time of one thread, warm, the least of a few repeats. Beside every figure stands the time
of a reference of fixed size in the same process, a matrix product and LAPACK solves, so that
ratios can be compared over machines and loads.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from firststep import Problem, predict
from structured import seconds

POINTS = 60
AXES = {
    "alpha": np.geomspace(0.3, 10, POINTS),
    "beta": np.geomspace(0.3, 10, POINTS),
    "ridge": np.geomspace(1e-4, 10, POINTS),
    "step": np.linspace(0.1, 3, POINTS),
    "alpha0": np.geomspace(0.3, 10, POINTS),
}
FIELDS = dict(teacher="tanh", alpha=2, beta=1, alpha0=2, step=1, ridge=0.01, noise=0.1)
# Student, readout and dimension, with what a curve may take in milliseconds.
LAWS = (
    ("tanh", "ones", np.inf, 60),
    ("relu", "ones", np.inf, 60),
    ("tanh(z+0.5)", "ones", np.inf, 60),
    ("tanh", "signs", np.inf, 60),
    ("relu", "signs", np.inf, 60),
    ("tanh(z+0.5)", "signs", np.inf, 60),
    ("tanh", "gaussian", np.inf, 120),
    ("relu", "gaussian", np.inf, 120),
    ("gelu", "gaussian", np.inf, 120),
    ("tanh(z+0.5)", "gaussian", np.inf, 500),
    ("tanh", "gaussian", 500, 120),
    ("relu", "gaussian", 500, 120),
)
FIRST = (
    "import time; t = time.perf_counter(); from firststep import Problem, predict;"
    "predict(Problem(student={!r}, teacher='sin', alpha=3, beta=1, alpha0=2, step=1, "
    "ridge=0.03, noise=0.1, readout={!r})); print(time.perf_counter() - t, time.process_time())"
)


def least(run: Callable[[], Any], times: int) -> float:
    """Milliseconds of processor time, the least of some repeats after one that warms up."""
    return 1e3 * seconds(run, times)


def reference() -> float:
    """A product of two 600 x 600 matrices and 40 solves of 120 x 120 with 120 right-hand sides."""
    rng = np.random.default_rng(0)
    large, small = rng.normal(size=(600, 600)), rng.normal(size=(40, 120, 120))

    def run() -> None:
        large @ large
        np.linalg.solve(small, small)

    return least(run, 9)


def problem_of(student: str, readout: str, dimension: float) -> Problem:
    return Problem(student=student, readout=readout, dimension=dimension, **FIELDS)


def table(times: int) -> dict[str, dict[str, float]]:
    """Milliseconds by law and axis; ``unit`` is the reference, measured beside each law."""
    found = {}
    heads = ["one", *AXES]
    print(f"{'law':28}{'unit':>8}" + "".join(f"{head:>9}" for head in heads))
    for student, readout, dimension, _ in LAWS:
        problem = problem_of(student, readout, dimension)
        row = {"unit": reference(), "one": least(lambda p=problem: predict(p), 5 * times)}
        for name, values in AXES.items():
            row[name] = least(lambda p=problem, n=name, v=values: predict(p, **{n: v}), times)
        row["unit"] = min(row["unit"], reference())
        words = f"{student}, {readout}" + ("" if dimension == np.inf else f", d = {dimension}")
        found[words] = row
        print(f"{words:28}" + "".join(f"{v:>8.1f} " for v in row.values()), flush=True)
    return found


def compare(now: dict[str, dict[str, float]], then: dict[str, dict[str, float]]) -> None:
    """The table of docs/benchmarks.md: times before and after, in units of the reference."""
    heads = ["one", *AXES]
    print("\n| law | " + " | ".join(heads) + " |\n|" + " --- |" * (len(heads) + 1))
    for words, row in now.items():
        cells = []
        for head in heads:
            before, after = then[words][head] / then[words]["unit"], row[head] / row["unit"]
            cells.append(f"{before:.1f} → {after:.1f}")
        print(f"| {words} | " + " | ".join(cells) + " |")


def first_call() -> None:
    """Seconds of a first call in a new process, on the clock and of processor time."""
    for student, readout in (("tanh", "ones"), ("relu", "gaussian"), ("tanh(z+0.5)", "gaussian")):
        command = [sys.executable, "-c", FIRST.format(student, readout)]
        runs = [subprocess.run(command, capture_output=True, text=True).stdout for _ in range(5)]
        clock, work = np.min([[float(x) for x in run.split()] for run in runs], axis=0)
        print(f"first call, {student}, {readout}: {clock:.2f} s, {work:.2f} s of processor time")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--before", type=Path)
    asked = parser.parse_args()
    with threadpool_limits(1):
        found = table(asked.times)
    if asked.write:
        asked.write.write_text(json.dumps(found, indent=1))
    if asked.before:
        compare(found, json.loads(asked.before.read_text()))
    first_call()


if __name__ == "__main__":
    main()
