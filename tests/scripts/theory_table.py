"""Generic problems on which theory and simulated networks are compared: ``python
tests/scripts/theory_table.py [--backend jax]``.

Students: odd, even up to a linear term, neither. Teachers: odd, even, mixed. All readout laws, both
init laws, under- and over-parameterised, alpha0 below and above 1, small, intermediate and large
steps, noise on and off. Ridge 0.02 and 0.5.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from firststep import Comparison, Problem, compare

THREE = "-1:0.25,0.5:0.5,2:0.25"
MIX = "sin(z) + 0.3*z**2"
BENT = "tanh(1.3*z) + 0.4*(z**2-1)"
SHIFTED = "tanh(z+0.5)"
SEED = 900  # of the first case
COLUMNS = (
    "student",
    "teacher",
    "readout",
    "init",
    "alpha",
    "beta",
    "alpha0",
    "step",
    "step_exponent",
    "noise",
)
CASES: tuple[tuple[Any, ...], ...] = (
    # large steps
    ("tanh", "sin", "ones", "sphere", 3.0, 1.0, 5.0, 3.0, 0.5, 0.0),
    ("tanh", "tanh", "gaussian", "gaussian", 2.0, 1.5, 0.5, 2.0, 0.5, 0.1),
    ("erf", "relu", "signs", "gaussian", 0.7, 1.6, 1.5, 1.0, 0.5, 0.2),
    ("sin", MIX, THREE, "sphere", 1.5, 0.6, 0.4, 1.0, 0.5, 0.0),
    ("relu", "tanh", "ones", "gaussian", 2.5, 0.8, 3.0, 1.0, 0.5, 0.2),
    ("relu", "relu", "signs", "sphere", 1.0, 2.0, 0.6, 2.0, 0.5, 0.0),
    ("relu", "abs", "gaussian", "gaussian", 3.0, 1.2, 2.0, 1.0, 0.5, 0.1),
    ("centered(relu)", MIX, THREE, "gaussian", 1.2, 1.2, 4.0, 1.5, 0.5, 0.2),
    ("softplus", "sin", "gaussian", "sphere", 2.0, 0.5, 1.0, 3.0, 0.5, 0.0),
    ("softplus", "relu", "ones", "gaussian", 0.5, 1.0, 2.5, 4.0, 0.5, 0.1),
    ("gelu", "erf", "signs", "gaussian", 3.5, 2.0, 0.7, 1.5, 0.5, 0.2),
    ("gelu", MIX, "gaussian", "gaussian", 1.0, 0.7, 3.0, 0.7, 0.5, 0.0),
    (SHIFTED, "tanh", "ones", "sphere", 2.0, 1.0, 0.5, 2.0, 0.5, 0.1),
    (SHIFTED, "abs", "signs", "gaussian", 1.5, 1.8, 2.0, 1.0, 0.5, 0.0),
    (SHIFTED, "relu", "gaussian", "gaussian", 3.0, 1.0, 1.2, 2.5, 0.5, 0.2),
    (BENT, "sin", "ones", "gaussian", 2.2, 1.1, 1.5, 1.0, 0.5, 0.1),
    (BENT, MIX, THREE, "gaussian", 2.5, 1.5, 3.0, 0.7, 0.5, 0.2),
    (BENT, "erf", "gaussian", "sphere", 0.8, 1.3, 0.8, 0.8, 0.5, 0.0),
    # small steps
    ("tanh", "tanh", "gaussian", "gaussian", 2.0, 1.0, 2.0, 3.0, 0.0, 0.1),
    ("relu", "sin", "signs", "sphere", 3.0, 1.5, 1.0, 2.0, 0.0, 0.2),
    ("centered(relu)", "tanh", "ones", "gaussian", 2.0, 1.5, 2.0, 2.0, 0.0, 0.1),
    ("softplus", "relu", "gaussian", "gaussian", 0.8, 2.0, 0.6, 4.0, 0.0, 0.0),
    (BENT, "tanh", THREE, "gaussian", 1.5, 0.8, 3.0, 2.0, 0.0, 0.1),
    # between
    ("erf", MIX, "ones", "sphere", 1.0, 1.5, 4.0, 1.5, 0.25, 0.1),
    ("gelu", "tanh", "gaussian", "gaussian", 3.0, 1.0, 2.0, 1.5, 0.25, 0.0),
    (SHIFTED, "relu", "signs", "gaussian", 0.7, 1.0, 0.5, 2.0, 0.25, 0.2),
    ("relu", "tanh", THREE, "sphere", 2.0, 2.0, 1.5, 1.0, 0.35, 0.1),
    # no step
    ("relu", MIX, "gaussian", "gaussian", 2.0, 1.0, 1.0, 0.0, 0.5, 0.1),
)


def problem(case: tuple[Any, ...]) -> Problem:
    return Problem(**dict(zip(COLUMNS, case, strict=True)), ridge=(0.02, 0.5))


def name(case: tuple[Any, ...]) -> str:
    student, teacher, readout, init, alpha, beta, alpha0, step, exponent, noise = case
    ratios = f"{alpha:g}/{beta:g}/{alpha0:g}"
    step_and_noise = f"step {step:g} N^{exponent:g} noise {noise:g}"
    return f"{student}/{teacher} {readout} {init} {ratios} {step_and_noise}"


def agrees(found: Comparison, tolerance: float = 0.015, errors: float = 3.0) -> list[str]:
    """The risks off by more than ``errors`` standard errors and by more than ``tolerance``;
    training errors get a third more.
    """
    wrong = []
    for row in found.quantities:
        room = {"risk": 1.0, "training_error": 4 / 3}.get(row.quantity)
        if room and abs(row.z) > room * errors and abs(row.relative) > room * tolerance:
            wrong.append(f"{row}, z = {row.z:+.1f}")
    return wrong


def full_size(case: tuple[Any, ...]) -> int:
    """Small and intermediate steps come closer to their limit only slowly."""
    return 4000 if case[7] > 0 and case[8] < 0.5 else 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--dimension", type=int, help="default: 2000, and 4000 for small and intermediate steps"
    )
    parser.add_argument("--replicates", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--last", type=int, default=len(CASES), help="number after the last case")
    parser.add_argument("--backend", default="numpy")
    parser.add_argument("--model", default="network")
    arguments = parser.parse_args()
    heads = (
        "student, teacher",
        "readout, rows",
        "d",
        "α, β, α₀",
        "step",
        "noise",
        "ridge",
        "theory",
        "simulation",
        "difference",
        "z",
    )
    print("| " + " | ".join((*heads, "training error", "z")) + " |")
    print("|" + " --- |" * 13)
    scores, relative = [], []
    for number, case in list(enumerate(CASES))[arguments.first : arguments.last]:
        size = arguments.dimension or full_size(case)
        options = dict(model=arguments.model, backend=arguments.backend)
        found = compare(problem(case), size, arguments.replicates, SEED + number, **options)
        for ridge in found.problem.ridges:
            risk, training = (
                next(
                    row
                    for row in found.quantities
                    if row.quantity == quantity and row.ridge == ridge
                )
                for quantity in ("risk", "training_error")
            )
            student, teacher, readout, init, alpha, beta, alpha0, step, exponent, noise = case
            cells = (
                f"{student}, {teacher}",
                f"{readout}, {init}",
                f"{found.simulation.dimension}",
                f"{alpha:g}, {beta:g}, {alpha0:g}",
                f"{step:g} N^{exponent:g}",
                f"{noise:g}",
                f"{ridge:g}",
                f"{risk.theory:.5f}",
                f"{risk.simulated:.5f} ± {risk.standard_error:.5f}",
                f"{100 * risk.relative:+.2f} %",
                f"{risk.z:+.1f}",
                f"{100 * training.relative:+.2f} %",
                f"{training.z:+.1f}",
            )
            print("| " + " | ".join(cells) + " |", flush=True)
            scores += [risk.z, training.z]
            relative += [risk.relative]
    inside = np.mean(np.abs(scores) < 3)
    print(
        f"\n{len(scores)} numbers, {inside:.1%} within 3 standard errors, "
        f"rms z {np.sqrt(np.mean(np.square(scores))):.2f}, "
        f"largest |z| {np.max(np.abs(scores)):.1f}; "
        f"risk: rms difference {100 * np.sqrt(np.mean(np.square(relative))):.2f} %, "
        f"largest {100 * np.max(np.abs(relative)):.2f} %"
    )


if __name__ == "__main__":
    main()
