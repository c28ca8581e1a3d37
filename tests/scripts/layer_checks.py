"""The average theory, first layers that are drawn, and simulated networks of the same problems:
``python tests/scripts/layer_checks.py [case ...]``.

Layer i of a check is that of replicate i of the simulation. Printed are risks with standard errors,
what the check says, the seconds of each in one process, and how much longer a simulation takes to
the standard error of the check: (seconds times squared spread) of the one over those of the other.
``--steep`` takes problems on inputs with a steep spectrum instead (best at d = 300, 40 layers).
``--limits`` prints instead where the layers themselves are off, with the two numbers that
``firststep.layer_check`` judges that by; its limits were chosen on these problems. ``--unseen 21``
does the same for problems made at random, on which they were not.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from firststep import Problem, check_layers, predict, simulate
from firststep.errors import FirststepError
from firststep.layer_check import LayerCheck, common_mode, heaviness
from firststep.results import Estimate, with_error

USUAL: dict[str, Any] = dict(
    student="tanh",
    teacher="tanh",
    readout="signs",
    alpha=2,
    beta=1,
    alpha0=2,
    step=1,
    ridge=0.05,
    noise=0.1,
)
CASES: dict[str, dict[str, Any]] = {
    "tanh learns tanh, signs": {},
    "10 tanh(z)": dict(student="10*tanh(z)"),
    "relu, gaussian readout": dict(student="relu", readout="gaussian"),
    "n = N, ridge 1e-6": dict(alpha=1, ridge=1e-6),
    "alpha0 = 0.02": dict(alpha0=0.02),
}
STEEP_BASE: dict[str, Any] = dict(
    teacher="sin", readout="ones", inputs="power-law:0.6", step=2, ridge=0.1
)
STEEP: dict[str, dict[str, Any]] = {
    "power-law:0.6, teacher on top": STEEP_BASE | dict(teacher_overlaps="top:0.1"),
    "power-law:0.6, equal": STEEP_BASE,
    "power-law:0.6, top, step 0.6, ridge 0.01": STEEP_BASE
    | dict(teacher_overlaps="top:0.1", step=0.6, ridge=0.01),
}
# Constant teachers, features without a linear part, heavy tails, and others.
LIMITS: dict[str, dict[str, Any]] = {
    "relu(z-0.5), constant": dict(student="relu(z-0.5)", teacher="1+0*z", noise=0),
    "relu, constant": dict(student="relu", teacher="1+0*z"),
    "softplus, constant": dict(student="softplus", teacher="1+0*z", noise=0),
    "tanh(z+0.5), constant": dict(student="tanh(z+0.5)", teacher="1+0*z"),
    "sigmoid, constant": dict(student="sigmoid", teacher="1+0*z"),
    "cos, constant": dict(student="cos", teacher="1+0*z", noise=0),
    "features of mean 0, constant": dict(student="tanh(z)+0.3*(z**2-1)", teacher="1+0*z"),
    "relu, 2 + 0.3 tanh": dict(student="relu", teacher="2+0.3*tanh(z)"),
    "gelu, 1 + z/5": dict(student="gelu", teacher="1+0.2*z", readout="gaussian"),
    "hermite2": dict(student="hermite2"),
    "hermite3": dict(student="hermite3"),
    "hermite4": dict(student="hermite4"),
    "z**3": dict(student="z**3"),
    "relu(z)**2": dict(student="relu(z)**2"),
    "tanh + 0.3 hermite3": dict(student="tanh(z)+0.3*hermite3(z)"),
    "exp(z/2)": dict(student="exp(z/2)"),
    "abs": dict(student="abs"),
    "abs, hermite2": dict(student="abs", teacher="hermite2"),
    "abs, hermite2, ones, alpha0 = 8": dict(
        student="abs", teacher="hermite2", readout="ones", alpha0=8
    ),
    "relu, abs": dict(student="relu", teacher="abs"),
    "relu, z": dict(student="relu", teacher="z", noise=0),
    "tanh, step 5": dict(step=5),
    "10 tanh(z)": dict(student="10*tanh(z)"),
}

# Of --unseen: every student twice, the rest at random.
STUDENTS = "relu,tanh(z-1),softplus(2*z),gelu,sin(z)+0.5*z**2,erf,z*sigmoid(z),hermite2(z)+z,z**3-z"
STUDENTS += ",relu(z)**3,cosh(z),abs(z)+z,relu(z-0.5)+0.5,relu(z-1),0.2*z**4,sin(2*z),exp(0.8*z)"
STUDENTS += ",arctan(z)+1,z**2,tanh(3*z)"
TEACHERS = "tanh,sin(2*z),3+0*z,1+0.5*tanh(z),relu,z**2,2-z,abs,erf(z)+0.5,hermite3"
NUMBERS: dict[str, list[Any]] = {
    "alpha": [0.6, 1.5, 3, 5],
    "beta": [0.5, 1, 2],
    "alpha0": [0.5, 1.5, 4],
    "step": [0.3, 1, 3],
    "ridge": [0.01, 0.1, 1],
    "noise": [0, 0.1, 0.3],
    "readout": ["ones", "signs", "gaussian"],
    "dimension": [60, 150],
}


def unseen(seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    rng = random.Random(seed)
    for student in STUDENTS.split(",") * 2:
        fields: dict[str, Any] = dict(student=student, teacher=rng.choice(TEACHERS.split(",")))
        fields |= {name: rng.choice(values) for name, values in NUMBERS.items()}
        told = ", ".join(f"{fields[name]}" for name in NUMBERS)
        yield f"{student}, {fields['teacher']}; {told}", fields


def checked(problem: Problem, layers: int, seed: int) -> tuple[LayerCheck, float]:
    """The check, and the seconds of the theory alone."""
    begin = time.perf_counter()
    predict(problem)
    seconds = time.perf_counter() - begin
    return check_layers(problem, layers, seed=seed), seconds


def row(name: str, problem: Problem, given: argparse.Namespace) -> list[str]:
    """Theory, check and simulation of one problem."""
    check, seconds = checked(problem, given.layers, given.seed)
    found = simulate(problem, None, given.replicates, given.seed, workers=1)
    costs = check.seconds / given.layers, found.seconds / given.replicates
    spreads = check.spread, float(np.std(found.risk.values, ddof=1))
    ratio = costs[1] * spreads[1] ** 2 / (costs[0] * spreads[0] ** 2)
    return [
        name,
        f"{check.theory:.5g}",
        with_error(check.mean, check.standard_error),
        str(found.risk),
        f"{100 * (check.theory / found.risk.mean - 1):+.1f} %",
        f"{100 * (check.mean / found.risk.mean - 1):+.1f} %",
        check.outcome,
        f"{seconds:.2f}, {check.seconds:.2f}, {found.seconds:.2f}",
        f"{costs[1] / costs[0]:.2g}",
        f"{ratio:.2g}",
    ]


def limit(name: str, problem: Problem, given: argparse.Namespace) -> list[str]:
    """Layers less the simulation of the same networks, beside what should tell it."""
    check, _ = checked(problem, given.layers, given.seed)
    found = simulate(problem, None, given.layers, given.seed, workers=1, test_samples=10_000)
    risk = float(found.risk.mean)
    apart = Estimate(100 * (check.risks - found.risk.values) / risk)
    return [
        name,
        f"{risk:.4g}",
        f"{100 * (check.theory / risk - 1):+.1f}",
        f"{apart.mean:+.1f} ± {apart.standard_error:.1f}",
        f"{heaviness(problem.student) / problem.sizes().width:.2f}",
        f"{100 * common_mode(problem, problem.dimension) / check.mean:.1f}",
        check.outcome,
    ]


HEADS = {
    row: "problem | theory | layers | simulation | theory − sim. | layers − sim. | check | "
    "seconds of each | time of a network over a layer | to the same error",
    limit: "student, teacher | risk | theory − sim., % | layers − sim., % | tails | common mode, % "
    "| check",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help="some of the cases; default: all")
    parser.add_argument("--steep", action="store_true", help="inputs with a steep spectrum")
    parser.add_argument("--limits", action="store_true", help="where the layers are off")
    parser.add_argument("--unseen", type=int, help="the same for random problems of this seed")
    parser.add_argument("--dimension", type=int, help="default: 200, and 100 for the limits")
    parser.add_argument("--layers", type=int, default=20)
    parser.add_argument("--replicates", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    make, cases = (limit, LIMITS) if given.limits else (row, STEEP if given.steep else CASES)
    if given.unseen is not None:
        make, cases = limit, dict(unseen(given.unseen))
    size = given.dimension or (100 if given.limits else 200)
    print(f"| {HEADS[make]} |")
    print("|" + " --- |" * (HEADS[make].count("|") + 1))
    for name in given.cases or cases:
        problem = Problem(**{**USUAL, "dimension": size, **cases[name]})
        try:
            cells = make(name, problem, given)
        except FirststepError as error:
            cells = [name, " ".join(str(error).split())]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
