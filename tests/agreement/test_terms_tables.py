"""Teachers of several directions against networks simulated by other code, and by ours.

tests/data/terms_tables.json holds 78 problems with three ridges each: simulated risks with their
standard errors (of networks; of ``layers`` the risk that given layers predict), and the theory of
the other code. That theory had an earlier form of the terms of order 1/d, of one direction as of
several (without "the direction counted once", and less of the own output), so that it is met to
0.15 % and not to its digits.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firststep import Problem, predict, simulate

ROWS = json.loads((Path(__file__).parents[1] / "data" / "terms_tables.json").read_text())
DIGITS, SHARE = 6e-5, 1.3e-3  # of the other theory: what it is printed with, and its terms in 1/d
# Rows of the fast tests: two and three terms, every kind of student and of readout.
FAST = (2, 14, 22, 33, 36, 50, 58, 62, 68, 71)


def _name(row: dict[str, Any]) -> str:
    problem = row["problem"]
    teacher = f"{problem['teacher']},{problem['teacher_terms']}"
    where = f"{problem['alpha0']:g} {problem['step']:g} d {problem['dimension']}"
    return f"{row['source']} {problem['student']} {problem['readout']} {teacher} {where}"


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=[] if i in FAST else [pytest.mark.slow])
        for i, row in enumerate(ROWS)
    ],
    ids=_name,
)
def test_theory_lands_on_the_tables(row: dict[str, Any]) -> None:
    found = predict(Problem(ridge=tuple(row["ridges"]), **row["problem"]))
    simulated, error = np.array(row["simulated"]), np.array(row["standard_error"])
    gap = np.abs(found.risk - simulated)
    # The one row beyond: eight layers of it, and twenty more in the same place, are 1.6 and 0.5 %
    # from the theory; between layers its risk differs by twice its standard error.
    assert np.all(gap <= np.maximum(3 * error, 0.01 * simulated))
    other = np.array(row["theory"])
    assert np.all(np.abs(found.risk - other) <= DIGITS + SHARE * other)


def test_all_rows_together_scatter_as_their_errors_say() -> None:
    """A fifth of the rows: the other code's rms is 1.2 standard errors, that of all ours 1.3."""
    scores = []
    for row in ROWS[::5]:
        found = predict(Problem(ridge=tuple(row["ridges"]), **row["problem"]))
        scores += list((found.risk - np.array(row["simulated"])) / np.array(row["standard_error"]))
    assert np.sqrt(np.mean(np.square(scores))) < 1.6
    assert abs(np.mean(scores)) < 0.8


GENERIC = (
    Problem(
        student="tanh(z+0.5)",
        teacher="relu",
        teacher_terms="sin(2*z)",
        alpha=2.4,
        beta=1.3,
        alpha0=1.6,
        step=1.7,
        ridge=(0.02, 0.3),
        noise=0.2,
        readout="-1:0.4,1.5:0.6",
    ),
    Problem(
        student="relu",
        teacher="0.8*tanh(2*z)",
        teacher_terms="0.5*z+0.3*(z**2-1),-0.6*sin(z)",
        alpha=1.5,
        beta=0.8,
        alpha0=3.0,
        step=1.2,
        ridge=(0.05, 0.5),
        noise=0.15,
        init="sphere",
    ),
    Problem(
        student="erf",
        teacher="z",
        teacher_terms="0.7*relu(z),tanh,0.4*sin(2*z)",
        alpha=3.0,
        beta=1.1,
        alpha0=0.9,
        step=2.5,
        ridge=(0.02, 0.2),
        noise=0.3,
        readout="signs",
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("problem", GENERIC, ids=str)
def test_own_simulations_of_two_three_and_four_terms(problem: Problem) -> None:
    d, terms = 350, problem.teacher_terms
    plain = problem.replace(dimension=d)
    simulated = simulate(plain, d, replicates=24, seed=5, teacher_terms=terms)
    found = predict(plain)
    for name in ("risk", "training_error"):
        estimate = getattr(simulated, name)
        gap = np.abs(getattr(found, name) - estimate.mean)
        assert np.all(gap <= 3 * estimate.standard_error + 0.01 * estimate.mean)
    overlaps = simulated.teacher_overlaps
    assert np.all(np.abs(found.alignments[0] - overlaps.mean) <= 3 * overlaps.standard_error + 0.01)
