"""What the main computations cost, in units of a reference in the same process: a minute.

    python benchmarks/quick.py                  beside benchmarks/quick.json; exit code 1 if slower
    python benchmarks/quick.py --keep           writes that file anew
    python benchmarks/quick.py --only theory    those with this in their name

A computation that costs more than a quarter over its kept ratio is measured again a few times and
then named. Ratios depend on the machine and on the versions of NumPy and SciPy: the file says with
which it was made, and on another machine a first look may name what nobody has changed.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy.linalg import lapack
from threadpoolctl import threadpool_limits

import guard
from firststep import Problem, predict, run_sweep, simulate, spectral_law

KEPT = Path(__file__).with_name("quick.json")
POINTS = 60
D = 300  # of networks

Run = Callable[[], object]


def products() -> Run:
    """Matrix products and a Cholesky factorisation: what networks cannot do without."""
    matrix = np.random.default_rng(0).standard_normal((500, 500))
    positive = np.asfortranarray(matrix @ matrix.T + 500 * np.eye(500))

    def run() -> None:
        for _ in range(4):
            matrix @ matrix
            lapack.dpotrf(positive, lower=1)

    return run


def solves() -> Run:
    """Batches of small linear systems and passes over small arrays, as in Newton's method."""
    rng = np.random.default_rng(0)
    matrices = rng.standard_normal((60, 40, 40)) + 10 * np.eye(40)
    right, values = rng.standard_normal((60, 40, 4)), rng.standard_normal(3000)

    def run() -> None:
        for _ in range(6):
            np.linalg.solve(matrices, right)
            for _ in range(40):
                np.tanh(values) * values + values

    return run


def passes() -> Run:
    """np.tanh over blocks that stay in the cache."""
    values = np.random.default_rng(0).standard_normal(16_384)
    out = np.empty_like(values)

    def run() -> None:
        for _ in range(400):
            np.tanh(values, out=out)

    return run


def process(program: str) -> Run:
    """A new process."""
    return lambda: subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def question(**changes: object) -> Problem:
    plain = dict(student="tanh", teacher="sin", alpha=3, beta=1, alpha0=2, step=2, ridge=0.03)
    return Problem(**{**plain, "noise": 0.1, "readout": "ones", **changes})


def theory() -> Iterator[tuple[str, Run]]:
    alphas, steps = np.geomspace(0.3, 10, POINTS), np.linspace(0.1, 3, POINTS)
    ridges = np.geomspace(1e-3, 10, POINTS)
    for student, readout in (("tanh", "ones"), ("relu", "gaussian"), ("erf", "gaussian")):
        one = question(student=student, readout=readout)
        yield (
            f"theory, a problem: {student}, {readout}",
            lambda one=one: [predict(one) for _ in range(3)],
        )
    ones, signs, gaussian = (question(readout=each) for each in ("ones", "signs", "gaussian"))
    relu = signs.replace(student="relu")
    yield "theory, along alpha: tanh, ones", lambda: predict(ones, alpha=alphas)
    yield "theory, along the ridge: tanh, ones", lambda: predict(ones, ridge=ridges)
    yield "theory, along the step: relu, signs", lambda: predict(relu, step=steps)
    yield "theory, along alpha: tanh, gaussian", lambda: predict(gaussian, alpha=alphas)
    yield (
        "theory, a problem: logistic loss, ones",
        lambda: predict(ones.replace(loss="logistic", labels="sign", dimension=1000)),
    )
    yield "spectra: weights, tanh, ones", lambda: spectral_law(ones)


def networks() -> Iterator[tuple[str, Run]]:
    def replicate(**changes: object) -> Run:
        problem = question(**changes)
        return lambda: simulate(problem, D, 2, workers=1)

    for student in ("tanh", "erf", "relu"):
        yield f"networks, two replicates: {student}", replicate(student=student)
    yield "networks, 32 ridges: tanh", replicate(ridge="1e-4..1e2:32")
    logistic = dict(loss="logistic", labels="sign", flip=0.05, ridge=0.01)
    yield "networks, a logistic fit: tanh", replicate(**logistic)


def functions() -> Iterator[tuple[str, Run]]:
    values = np.random.default_rng(0).standard_normal(2**19)
    for name in ("erf", "gelu", "softplus"):
        student = question(student=name).student
        yield f"activations, value and slope: {name}", lambda s=student: s.evaluate_both(values)


def machinery(folder: Path) -> Iterator[tuple[str, Run]]:
    """A sweep of problems that cost next to nothing, its results in a new store every time."""
    count = iter(range(10**6))
    asked = dict(student="tanh", teacher="sin", beta=1, alpha0=2, readout="ones", ridge=0.1, step=0)

    def run() -> None:
        grid = dict(
            problem=asked,
            axes=dict(alpha={"linspace": [0.5, 10, 20]}),
            simulate=dict(dimension=20, replicates=4),
        )
        run_sweep(grid, folder / f"{next(count)}.db", workers=1)

    yield "sweep, 80 networks of d = 20", run


def starts() -> Iterator[tuple[str, Run]]:
    yield "a process: import firststep", process("import firststep")
    asked = "student='tanh', teacher='sin', alpha=3, beta=1, alpha0=2, step=1, ridge=0.03"
    first = f"from firststep import Problem, predict; predict(Problem({asked}))"
    yield "a process: its first prediction", process(first)


def computations(folder: Path) -> Iterator[guard.Measured]:
    for reference, runs in (
        (solves(), theory()),
        (products(), networks()),
        (passes(), functions()),
        (solves(), machinery(folder)),
        (process("import numpy, scipy.linalg"), starts()),
    ):
        for name, run in runs:
            yield guard.Measured(name, run, reference)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keep", action="store_true", help=f"write {KEPT.name} anew")
    parser.add_argument("--only", default="", metavar="TEXT", help="those with TEXT in their name")
    given = parser.parse_args()
    if given.keep and given.only:
        parser.error("--keep measures all of it: it must stand without --only")
    if not given.keep and not KEPT.exists():
        parser.error(f"{KEPT} is not there: --keep writes it")
    kept, where = ({}, guard.machine()) if given.keep else guard.read(KEPT)
    if where != guard.machine():
        print(f"kept on another machine or with other versions: {where}")
    with tempfile.TemporaryDirectory() as name, threadpool_limits(1):
        chosen = [each for each in computations(Path(name)) if given.only in each.name]
        if not chosen:
            parser.error(f"--only must be in a name of a computation, got {given.only!r}")
        found = guard.measure_all(chosen, kept)
    if given.keep:
        guard.write(KEPT, found)
        print(f"written to {KEPT}")
        return 0
    verdict = guard.compared(found, {n: r for n, r in kept.items() if given.only in n})
    print("\n".join(guard.told(verdict, found, kept)) or "nothing is slower than it was")
    return int(bool(verdict.slower))


if __name__ == "__main__":
    sys.exit(main())
