"""What a look into a matrix costs, in units of the eigenvalues of its short side.

    python benchmarks/inspect_weights.py

One BLAS thread. The unit is timed in the same process just before: the product of the matrix with
itself and its eigenvalues, the least that any look at singular values takes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

from firststep.trained.look import look_at
from firststep.typing import Array


def seconds(function: Callable[[], object], repeats: int = 3) -> float:
    """The least of a few."""
    found = []
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        found.append(time.perf_counter() - begin)
    return min(found)


def matrices(m: int, n: int) -> dict[str, Array]:
    generator = np.random.default_rng(0)
    noise = generator.standard_normal((m, n))
    rows = generator.standard_normal((m, 1))
    return {
        "noise": noise,
        "noise and two directions": noise
        + generator.standard_normal((m, 2)) @ generator.standard_normal((2, n)) / 20,
        "rows of unequal size": noise * np.exp(0.3 * rows),
        "product of two": noise @ generator.standard_normal((n, n)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", nargs="+", default=["1000x1000", "4096x1024", "2048x2048"])
    for shape in parser.parse_args().shapes:
        m, n = map(int, shape.split("x"))
        for name, matrix in matrices(m, n).items():
            unit = seconds(lambda matrix=matrix: np.linalg.eigvalsh(matrix.T @ matrix))
            took = seconds(lambda matrix=matrix: look_at(matrix), 1)
            look = look_at(matrix)
            assert look is not None
            told = f"{took / unit:.1f} times ({took:.2f} s), {look.kind}, {look.count} stand out"
            print(f"{m} x {n}, {name}: {told}", flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
