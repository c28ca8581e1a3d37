"""Claim: on a GPU one float64 replicate runs at 60 % or more of the rate of matrix products.

Both are measured in the same process.

    python benchmarks/gpu_replicate.py [--dimension 8192] [--ratio 4]

d = N, n0 = n = ratio * d, one ridge value, test set t = 4 d. The operations counted are those that
cannot be avoided: 4 n0 d N for the step, 2 n d N + n N^2 for the features and their Gram matrix (a
symmetric product needs half of a general one), N^3/3 for the Cholesky factorisation and 2 t d N for
the test set.
"""

from __future__ import annotations

import argparse
import time

import jax
import jax.numpy as jnp

from firststep import Problem, simulate


def matrix_rate(size: int, repeats: int = 5) -> float:
    """Best float64 matrix-product rate, FLOP/s."""
    with jax.enable_x64(True):
        left = jax.random.normal(jax.random.key(0), (size, size), jnp.float64)
        product = jax.jit(lambda a, b: a @ b)
        product(left, left).block_until_ready()
        best = 0.0
        for _ in range(repeats):
            started = time.perf_counter()
            product(left, left).block_until_ready()
            best = max(best, 2 * size**3 / (time.perf_counter() - started))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dimension", type=int, default=8192)
    parser.add_argument("--ratio", type=float, default=4.0)
    parser.add_argument("--student", default="tanh")
    parser.add_argument("--replicates", type=int, default=4)
    arguments = parser.parse_args()
    d, n = arguments.dimension, round(arguments.ratio * arguments.dimension)
    problem = Problem(
        student=arguments.student, teacher="sin", alpha=arguments.ratio, beta=1, step=1, ridge=0.01
    )
    tests = 4 * d
    work = 4 * n * d * d + 2 * n * d * d + n * d * d + d**3 / 3 + 2 * tests * d * d
    rate = matrix_rate(8192)
    simulate(problem, d, 1, backend="jax", test_samples=tests)  # compile
    found = simulate(problem, d, arguments.replicates, backend="jax", test_samples=tests)
    seconds = found.replicate_seconds.values
    print(f"device {jax.devices()[0]}, jax {jax.__version__}")
    print(f"matrix product {rate / 1e12:.1f} TFLOP/s")
    for each in seconds:
        print(
            f"replicate {each:.3f} s, {work / each / 1e12:.1f} TFLOP/s, {work / each / rate:.1%} "
            "of the matrix product"
        )
    print(f"risk {found.risk}")


if __name__ == "__main__":
    main()
