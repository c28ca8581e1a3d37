"""The theory of a given first layer against factorisations of one N x N matrix, in the same run.

python benchmarks/trained_layer.py [--width 2000] [--backend numpy|jax] [--threads 1]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

from firststep import Problem
from firststep.simulation.running.layer import first_layer
from firststep.theory.given_layer.predict import predict_features

CASES = (
    ("tanh learns tanh, one direction", dict(student="tanh", teacher="tanh", step=1.0), 1),
    ("relu learns tanh, one direction", dict(student="relu", teacher="tanh", step=1.0), 1),
    ("relu learns tanh, two directions", dict(student="relu", teacher="tanh", step=1.0), 2),
)


def best(function: Callable[[], Any], times: int = 3) -> float:
    spent = []
    for _ in range(times):
        begin = time.perf_counter()
        function()
        spent.append(time.perf_counter() - begin)
    return min(spent)


def factorisations(matrix: np.ndarray, backend: str) -> tuple[float, float]:
    """Seconds of a Cholesky factorisation and of an eigendecomposition."""
    if backend == "numpy":
        tall = np.asfortranarray(matrix)
        return best(lambda: scipy.linalg.lapack.dpotrf(tall, lower=1)), best(
            lambda: scipy.linalg.eigh(matrix, driver="evd"), 1
        )
    import jax
    import jax.numpy as jnp

    with jax.enable_x64(True):
        there = jnp.asarray(matrix)
        cholesky, eigh = jax.jit(jnp.linalg.cholesky), jax.jit(jnp.linalg.eigh)
        return best(lambda: cholesky(there).block_until_ready()), best(
            lambda: eigh(there)[0].block_until_ready()
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=2000)
    parser.add_argument("--backend", default="numpy")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    dimension = round(given.width / 1.25)
    features = np.random.default_rng(0).standard_normal((given.width, 2 * given.width))
    with threadpool_limits(given.threads):
        cholesky, eigen = factorisations(features @ features.T / given.width, given.backend)
        print(
            f"{given.backend}, {given.threads} BLAS threads, N = {given.width}: eigendecomposition "
            f"{eigen / cholesky:.1f} Choleskys"
        )
        for words, settings, directions in CASES:
            problem = Problem(
                alpha=2.0,
                beta=given.width / dimension,
                alpha0=1.0,
                ridge=0.01,
                noise=0.1,
                **settings,
            )
            made = first_layer(problem, dimension)

            def predict(
                made: Any = made, problem: Problem = problem, directions: int = directions
            ) -> Any:
                return predict_features(
                    made.after,
                    problem,
                    made.teacher,
                    initial=made.before,
                    directions=directions,
                    backend=given.backend,
                )

            found = predict()
            seconds = best(predict, 2)
            only = found.solutions[0]
            print(
                f"  {words}: {seconds / cholesky:.1f} Choleskys, {seconds / eigen:.2f} "
                "eigendecompositions "
                f"({seconds:.2f} s, {only.evaluations} inverses, {only.products} pairs of "
                f"products, {len(found.grid.omega)} nodes)",
                flush=True,
            )


if __name__ == "__main__":
    main()
