"""erf and its kin in units of np.tanh, beside SciPy's; and a replicate with either.

    python benchmarks/special_functions.py                 values in a block, and half a million
    python benchmarks/special_functions.py --replicate     d = 1000, against its floor, a minute

CPU time of one process, the least of several rounds in which all take turns.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import scipy.special

import cpu_replicate
from firststep import Problem, evaluation, simulate
from firststep.activations import activation
from firststep.numerics import special
from firststep.simulation.backends import NumpyBackend

D = 1000
FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "np.tanh": np.tanh,
    "erf": special.erf,
    "  scipy.special.erf": scipy.special.erf,
    "1 + erf(z/sqrt 2)": special.doubled_normal,
    "exp(-z^2), accurate": special.gaussian,
    "sigmoid": special.sigmoid,
    "  scipy.special.expit": scipy.special.expit,
    "softplus": special.softplus,
    "  np.logaddexp(0, z)": lambda z: np.logaddexp(0.0, z),
    "gelu": activation("gelu").evaluate,
    "gelu'": activation("gelu").evaluate_derivative,
}
# As they were: SciPy's erf, and every operation on the whole array.
BEFORE = {
    "erf": lambda lib, u: scipy.special.erf(u),
    "sigmoid": lambda lib, u: 1 / (1 + np.exp(-u)),
    "softplus": lambda lib, u: np.maximum(u, 0) + np.log1p(np.exp(-np.abs(u))),
}


def seconds(function: Callable[[], object]) -> float:
    begin = time.process_time()
    function()
    return time.process_time() - begin


def through(function: Callable[[np.ndarray], np.ndarray], arrays: list[np.ndarray]) -> None:
    for z in arrays:
        function(z)


def values(rounds: int = 9) -> None:
    rng = np.random.default_rng(0)
    for size, count in ((special.BLOCK, 40), (2**19, 2)):
        arrays = [rng.standard_normal(size) for _ in range(count)]
        best = dict.fromkeys(FUNCTIONS, np.inf)
        for _ in range(rounds):
            for name, function in FUNCTIONS.items():
                took = seconds(partial(through, function, arrays))
                best[name] = min(best[name], took)
        print(f"{size} values at a time")
        for name, took in best.items():
            each = 1e9 * took / size / count
            print(f"  {name:24s} {took / best['np.tanh']:5.1f} times np.tanh ({each:.2f} ns)")


@contextlib.contextmanager
def as_it_was() -> Iterator[None]:
    kept, recognised, block = dict(evaluation.EVALUATE), evaluation._recognised, special.BLOCK
    evaluation.EVALUATE.update(BEFORE)
    evaluation._recognised, special.BLOCK = (lambda node: None), 10**12
    try:
        yield
    finally:
        evaluation.EVALUATE.update(kept)
        evaluation._recognised, special.BLOCK = recognised, block


def replicates(rounds: int = 5) -> None:
    cpu_replicate.D, cpu_replicate.N0, cpu_replicate.N, cpu_replicate.TESTS = D, 2 * D, 3 * D, 4 * D
    backend, floor = NumpyBackend(), []
    asked = dict(teacher="sin", alpha=3, beta=1, alpha0=2, step=3, ridge=0.03)
    problems = {
        name: Problem(student=name, **asked) for name in ("tanh", "erf", "gelu", "softplus")
    }
    now: dict[str, list[float]] = {name: [] for name in problems}
    before: dict[str, list[float]] = {name: [] for name in problems}

    def one(problem: Problem, number: int) -> float:
        more = dict(workers=1, first_replicate=number, test_samples=cpu_replicate.TESTS)
        return seconds(lambda: simulate(problem, D, 1, **more))

    with backend.scope():
        for number in range(rounds):
            floor.append(seconds(lambda: cpu_replicate.floor_seconds(backend)))
            for name, problem in problems.items():
                now[name].append(one(problem, number))
                with as_it_was():
                    before[name].append(one(problem, number))
    for name in problems:
        print(
            f"replicate / unavoidable linear algebra, d = {D}, {name}: "
            f"{min(now[name]) / min(floor):.2f} (was {min(before[name]) / min(floor):.2f})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicate", action="store_true")
    replicates() if parser.parse_args().replicate else values()


if __name__ == "__main__":
    main()
