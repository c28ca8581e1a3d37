"""Claims: one CPU replicate costs at most 1.3 times its unavoidable linear algebra, 32 ridges 2.5.

The latter in units of one ridge.

    python benchmarks/cpu_replicate.py [--student tanh] [--repeats 5]

d = N = 2000, n0 = 4000, n = 6000, test set 4 d, float64, one BLAS thread. The floor is the products
and the Cholesky factorisation that every replicate needs, timed alone in the same process on
preallocated arrays, in blocks of the same shape: X0 W0 and X0^T M for the step, X W1 and the
symmetric F^T F for the fit, X W1 for the test set. Seconds are CPU time: with one thread that is
the time of an idle machine, whatever else runs.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
from scipy.linalg import lapack

from firststep import Problem, simulate
from firststep.simulation.backends import NumpyBackend, block_rows

D, N0, N = 2000, 4000, 6000
TESTS = 4 * D


def floor_seconds(backend: NumpyBackend) -> float:
    """The linear algebra of one replicate, alone."""
    rng = np.random.default_rng(0)
    rows = block_rows(D, D, backend)
    inputs, features = rng.standard_normal((rows, D)), rng.standard_normal((rows, D))
    weights, out = rng.standard_normal((D, D)), np.empty((rows, D))
    total, gram = np.zeros((D, D)), np.zeros((D, D))
    positive = np.asfortranarray(weights @ weights.T + np.eye(D))

    def blocks(count: int) -> list[int]:
        return [min(rows, count - start) for start in range(0, count, rows)]

    started = time.process_time()
    for size in blocks(N0):
        np.matmul(inputs[:size], weights, out=out[:size])
        backend.add_product(total, inputs[:size], features[:size])
    for size in blocks(N):
        np.matmul(inputs[:size], weights, out=out[:size])
        backend.add_gram(gram, features[:size])
    lapack.dpotrf(positive, lower=1, overwrite_a=1)
    for size in blocks(TESTS):
        np.matmul(inputs[:size], weights, out=out[:size])
    return time.process_time() - started


def replicate_seconds(problem: Problem, number: int) -> float:
    started = time.process_time()
    simulate(problem, D, 1, workers=1, first_replicate=number, test_samples=TESTS)
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--student", default="tanh")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    one = Problem(
        student=arguments.student,
        teacher="sin",
        alpha=N / D,
        alpha0=N0 / D,
        beta=1,
        step=3,
        ridge=0.03,
    )
    many = one.replace(ridge="1e-4..1e2:32")
    backend = NumpyBackend()
    with backend.scope():
        floor_seconds(backend)
        replicate_seconds(one, 0)
        ratios, grids = [], []
        for number in range(arguments.repeats):
            alone = floor_seconds(backend)
            single = replicate_seconds(one, number)
            grid = replicate_seconds(many, number)
            ratios.append(single / alone)
            grids.append(grid / single)
            print(f"floor {alone:.2f} s, one ridge {single:.2f} s, 32 ridges {grid:.2f} s")
    print(
        f"replicate / unavoidable linear algebra ({arguments.student}): "
        f"{statistics.median(ratios):.2f} (claim: at most 1.30)"
    )
    print(f"32 ridge values / one: {statistics.median(grids):.2f} (claim: at most 2.50)")


if __name__ == "__main__":
    main()
