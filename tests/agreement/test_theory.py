"""Theory against simulated networks at generic problems: small sizes here, full sizes behind the
slow marker.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from firststep import InvalidParameter, Problem, compare
from tests.scripts import theory_table
from tests.scripts.theory_table import CASES, agrees, full_size, name, problem


@pytest.mark.parametrize("case", CASES[::3], ids=name)
def test_small_networks_land_on_the_theory(case: tuple[Any, ...]) -> None:
    """At d = 400 the theory keeps its corrections of order 1/d only in part: 3 standard errors, or
    3 %.
    """
    found = compare(problem(case), 400, 10, 7)
    assert agrees(found, tolerance=0.03) == []


@pytest.mark.parametrize("case", [CASES[i] for i in (0, 6, 9, 16)], ids=name)
def test_spiked_models_land_on_the_isotropic_theory(case: tuple[Any, ...]) -> None:
    found = compare(problem(case), 400, 10, 8, model="spiked")
    assert found.prediction.bulk == "isotropic"
    assert agrees(found, tolerance=0.03) == []


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=name)
def test_networks_land_on_the_theory(case: tuple[Any, ...]) -> None:
    """Each risk and training error within 3 standard errors or 1.5 %."""
    found = compare(problem(case), full_size(case), 40, theory_table.SEED + CASES.index(case))
    assert agrees(found) == []


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES[::3], ids=name)
def test_spiked_models_land_on_the_isotropic_theory_at_full_size(case: tuple[Any, ...]) -> None:
    found = compare(problem(case), 2000, 24, theory_table.SEED, model="spiked")
    assert agrees(found) == []


def test_a_comparison_shows_itself() -> None:
    question = Problem(
        student="relu",
        teacher="tanh",
        alpha=2,
        beta=1,
        alpha0=2,
        step=1,
        ridge=(0.01, 1.0),
        noise=0.1,
        readout="signs",
    )
    found = compare(question, 150, 4)
    assert [row.quantity for row in found.quantities[:4]] == [
        "risk",
        "risk",
        "training_error",
        "training_error",
    ]
    row = found["risk"]
    assert row.z == pytest.approx((row.theory - row.simulated) / row.standard_error)
    assert found.largest_z == max(abs(each.z) for each in found.quantities)
    text = str(found)
    assert "theory" in text
    assert "ridge 0.01" in text
    json.dumps(found.to_dict(), allow_nan=False)
    single = compare(question.replace(ridge=0.1), 100, 1)
    assert np.isnan(single["risk"].z)
    json.dumps(single.to_dict(), allow_nan=False)
    still = compare(question, 150, 4, model="random-features")
    assert still.prediction.problem.alpha0 == 0
    assert all(row.quantity in ("risk", "training_error") for row in still.quantities)


def test_a_comparison_uses_the_whole_numbers_of_the_simulation() -> None:
    question = Problem(
        student="tanh", teacher="sin", alpha=1.26, beta=0.74, alpha0=0.51, ridge=0.1, readout="ones"
    )
    found = compare(question, 10, 2)
    assert found.prediction.problem.alpha == 1.3
    assert found.prediction.problem.beta == 0.7
    assert found.prediction.problem.dimension == 10


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "ntk"}, "model must be one of network, spiked, random-features"),
        ({"steps": 3}, "steps must be left at its default"),
        ({"reuse": True}, "reuse must be left at its default"),
    ],
)
def test_comparisons_the_theory_does_not_cover_are_refused(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidParameter, match=words):
        compare(Problem(student="tanh", teacher="sin", alpha=1, beta=1), 100, 2, **options)
