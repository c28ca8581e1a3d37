"""What the finite-size terms of the theory cost: ``python benchmarks/finite_size.py``.

Curves of 30 points at d = 300, one core, one process: along alpha (one law of the step's labels)
and along beta (each width has its own label noise, and so its own label rule), the first time and
again; and the share of the finite-size error in a prediction.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from firststep import Problem, predict
from firststep.theory.one_step import solve

PAIRS = (("tanh", "tanh"), ("relu", "relu"), ("tanh", "sign"), ("tanh", "sin"))
POINTS = np.linspace(0.5, 3, 30)


def seconds(run: Callable[[], Any]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def main() -> None:
    print("| student, teacher | alpha, s | beta first, over alpha | again | finite-size error |")
    print("| --- | --- | --- | --- | --- |")
    for student, teacher in PAIRS:
        problem = Problem(
            student=student,
            teacher=teacher,
            readout="signs",
            alpha=2,
            beta=1,
            alpha0=2,
            ridge=0.05,
            noise=0.1,
            dimension=300,
        )
        predict(problem)
        first = seconds(lambda problem=problem: predict(problem, beta=POINTS))
        again = min(seconds(lambda problem=problem: predict(problem, beta=POINTS)) for _ in "123")
        along = min(seconds(lambda problem=problem: predict(problem, alpha=POINTS)) for _ in "123")
        kept = solve.doubts_of, solve.of_the_step
        solve.doubts_of = solve.of_the_step = lambda *_: None  # type: ignore[assignment]
        without = min(
            seconds(lambda problem=problem: predict(problem, alpha=POINTS)) for _ in "123"
        )
        solve.doubts_of, solve.of_the_step = kept
        print(
            f"| {student}, {teacher} | {along:.3f} | {first / along:.1f} | {again / along:.1f} "
            f"| {100 * (along / without - 1):.0f} % |"
        )


if __name__ == "__main__":
    main()
