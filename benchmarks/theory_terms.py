"""What further directions of the teacher cost the theory, next to one direction, on one thread.

``python benchmarks/theory_terms.py``
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from firststep import Problem, predict

TERMS = ("0.6*tanh(z)", "0.5*(z**2-1)", "0.3*sin(2*z)")
STUDENTS = (("tanh", "ones"), ("relu", "signs"), ("tanh(z+0.5)", "ones"), ("relu", "gaussian"))
RIDGES = np.geomspace(0.01, 1, 40)


def seconds(run: Callable[[], Any]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def ratios(runs: list[Callable[[], Any]], times: int) -> str:
    """By the number of directions, the fastest of several; the first call makes what is kept."""
    first = [seconds(run) for run in runs]
    fastest = np.min([[seconds(run) for run in runs] for _ in range(times)], axis=0)
    words = ", ".join(f"{each / fastest[0]:.2f}" for each in fastest[1:])
    return f"{1e3 * fastest[0]:7.1f} ms, times {words}; first calls {max(first):.2f} s at most"


def main() -> None:
    for dimension in (1500, float("inf")):
        for student, readout in STUDENTS:
            problems = [
                Problem(
                    student=student,
                    readout=readout,
                    teacher="relu",
                    teacher_terms=list(TERMS[:count]),
                    alpha=2,
                    beta=1,
                    alpha0=2,
                    step=2,
                    ridge=0.1,
                    noise=0.1,
                    dimension=dimension,
                )
                for count in range(len(TERMS) + 1)
            ]
            alone = [lambda p=p: predict(p) for p in problems]
            curves = [lambda p=p: predict(p, ridge=RIDGES) for p in problems]
            print(f"{student}, {readout}, d = {dimension:g}: one problem {ratios(alone, 7)}")
            print(f"    {RIDGES.size} ridges {ratios(curves, 2)}", flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
