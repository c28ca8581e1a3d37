"""Claim: two workers on two cores finish at least 1.8 times the replicates per second of one.

    python benchmarks/workers.py [--dimension 1000] [--rounds 3]

Both use one BLAS thread per process; starting the workers is part of the time, as it is for a user.
Rounds alternate, because a shared machine changes its speed from minute to minute.
"""

from __future__ import annotations

import argparse
import statistics
import time

from firststep import Problem, Workers, simulate


def rate(problem: Problem, dimension: int, replicates: int, workers: int | Workers) -> float:
    started = time.perf_counter()
    simulate(problem, dimension, replicates, workers=workers)
    return replicates / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dimension", type=int, default=1000)
    parser.add_argument("--replicates", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    problem = Problem(student="tanh", teacher="sin", alpha=3, alpha0=2, beta=1, step=3, ridge=0.03)
    rate(problem, arguments.dimension, 2, 1)
    ratios = []
    for _ in range(arguments.rounds):
        one = rate(problem, arguments.dimension, arguments.replicates, 1)
        two = rate(problem, arguments.dimension, arguments.replicates, 2)
        ratios.append(two / one)
        print(
            f"d = {arguments.dimension}: one worker {one:.2f} replicates/s, two workers {two:.2f}"
        )
    print(f"two workers / one: {statistics.median(ratios):.2f} (claim: at least 1.80)")


if __name__ == "__main__":
    main()
