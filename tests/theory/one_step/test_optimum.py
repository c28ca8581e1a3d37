"""``optimal``: minimisers, their curvature, and optima at the end of the range."""

from __future__ import annotations

import json

import numpy as np
import pytest

from firststep import InvalidParameter, Problem, optimal, predict

PROBLEM = Problem(
    student="tanh",
    teacher="sin",
    alpha=3,
    beta=1,
    alpha0=5,
    step=1,
    ridge=0.01,
    noise=0.1,
    readout="ones",
)


def test_optimal_ridge_against_a_fine_grid() -> None:
    found = optimal(PROBLEM, "ridge")
    grid = np.geomspace(found.values["ridge"] / 3, found.values["ridge"] * 3, 61)
    risks = predict(PROBLEM, ridge=grid).risk
    assert found.risk <= risks.min() * (1 + 1e-9)
    assert grid[np.argmin(risks)] == pytest.approx(found.values["ridge"], rel=0.05)
    h = 0.02
    around = predict(PROBLEM, ridge=found.values["ridge"] * np.exp([-h, 0, h])).risk
    assert found.curvature[0, 0] == pytest.approx(
        (around[0] - 2 * around[1] + around[2]) / h**2, rel=0.02
    )
    assert (around[2] - around[0]) / (2 * h) == pytest.approx(0, abs=1e-6)
    assert found.boundary == {}


def test_optimal_ridge_and_step_together() -> None:
    found = optimal(PROBLEM, ("ridge", "step"))
    assert found.risk < optimal(PROBLEM, "step").risk
    assert found.risk < optimal(PROBLEM, "ridge").risk
    for name in ("ridge", "step"):
        for factor in (0.97, 1.03):
            assert predict(
                found.problem, **{name: found.values[name] * factor}
            ).risk >= found.risk * (1 - 1e-10)
    assert np.all(np.linalg.eigvalsh(found.curvature) > 0)
    assert found.curvature == pytest.approx(found.curvature.T)
    json.dumps(found.to_dict(), allow_nan=False)
    assert "optimum over ridge, step" in str(found)


def test_optima_at_the_end_of_the_range_are_said_to_be() -> None:
    linear = Problem(
        student="z",
        teacher="z",
        alpha=3,
        beta=2,
        alpha0=2,
        step=0.5,
        ridge=0.1,
        readout="signs",
        step_exponent=0,
    )
    found = optimal(linear, "ridge")  # realisable and without noise: any ridge costs
    assert found.boundary == {"ridge": "0"}
    assert "at the end of the range: ridge -> 0" in str(found)
    hopeless = PROBLEM.replace(
        teacher="z**2 - 1", student="tanh", step_exponent=0.5
    )  # odd student, even teacher: nothing to learn
    assert optimal(hopeless, "ridge").boundary == {"ridge": "infinity"}
    inside = optimal(PROBLEM, "ridge", ranges={"ridge": (1e-4, 1e-3)})
    assert inside.boundary == {"ridge": "0.001"}


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ("ridge,stp", "did you mean step"),
        ((), "one or two different names"),
        (("ridge", "ridge"), "one or two different names"),
        (("ridge", "step", "beta"), "one or two different names"),
    ],
)
def test_what_it_refuses(over: object, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        optimal(PROBLEM, over)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="alpha0 must be positive"):
        optimal(PROBLEM.replace(alpha0=0), "step")
    with pytest.raises(InvalidParameter, match="low < high"):
        optimal(PROBLEM, "ridge", ranges={"ridge": (1.0, 0.1)})
    with pytest.raises(InvalidParameter, match="objective must be one of"):
        optimal(PROBLEM, "ridge", objective="accuracy")
    with pytest.raises(InvalidParameter, match="real labels have no error rate"):
        optimal(PROBLEM, "ridge", objective="error-rate")


CLASSES = PROBLEM.replace(labels="sign", flip=0.1, noise=0.0)


@pytest.mark.parametrize(
    ("changes", "objective", "minimised"),
    [
        ({"loss": "logistic"}, None, "error_rate"),
        pytest.param({"loss": "logistic"}, "test-loss", "test_loss", marks=pytest.mark.slow),
        ({"loss": "square"}, None, "error_rate"),
        ({"loss": "huber:0.3", "labels": "real", "flip": 0}, None, "test_loss"),
    ],
)
def test_another_objective_against_a_fine_grid(changes, objective, minimised) -> None:
    problem = CLASSES.replace(**changes)
    found = optimal(problem, "ridge", objective=objective, ranges={"ridge": (1e-4, 10)})
    assert found.objective == minimised
    grid = np.geomspace(found.values["ridge"] / 2, found.values["ridge"] * 2, 21)
    values = getattr(predict(problem, ridge=grid), minimised)
    assert found.value <= values.min() * (1 + 1e-7)
    assert values[[0, -1]].min() > found.value * (1 + 1e-4)
    assert found.to_dict()["objective"] == minimised
    assert minimised.replace("_", " ") in str(found)
