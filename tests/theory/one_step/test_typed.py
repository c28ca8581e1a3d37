"""Typed neurons in ``predict``: the oracle, simulated risks, where they are used, and where not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firststep import InvalidParameter, Prediction, Problem, predict
from firststep.theory.one_step.question import broadcast, medium_of, model_of, numbers_of
from firststep.theory.one_step.solve import solve
from firststep.theory.one_step.typed import NODES, STEEP, TYPED_CUT, typed_model
from tests.theory import typed_oracle

TABLES = json.loads(
    (Path(__file__).parents[2] / "data" / "structured_tables.json").read_text(encoding="utf-8")
)
STEEP_ROWS = [row for row in TABLES["rows"] if row["set"] == "steep"]
# (largest, root mean square) of the risk less the simulated one, relative: 0.3 to 0.7 % of it are
# errors of the simulations.
BOUNDS = {"power-law:0.45": (0.016, 0.008), "power-law:0.6": (0.042, 0.017)}


def row_name(row: dict[str, Any]) -> str:
    words = ("student", "inputs", "overlaps", "alpha0", "step", "alpha")
    return " ".join(str(row[word]) for word in words)


def problem_of_row(row: dict[str, Any], **changes: object) -> Problem:
    names = ("student", "teacher", "readout", "init", "inputs", "alpha", "beta", "alpha0", "step")
    fields = {name: row[name] for name in names}
    fields |= dict(teacher_overlaps=row["overlaps"], ridge=tuple(row["ridges"]))
    return Problem(**fields | dict(noise=TABLES["noise"], dimension=TABLES["dimension"]) | changes)


def problem_of(**changes: object) -> Problem:
    """Cheap: a short step at a small d."""
    fields = dict(
        student="tanh",
        teacher="sin",
        readout="ones",
        inputs="power-law:0.6",
        alpha=1.7,
        beta=1.2,
        alpha0=2.3,
        step=0.6,
        ridge=0.03,
        noise=0.2,
        dimension=200,
    )
    return Problem(**fields | changes)


# The equations ------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 13, 23], ids=lambda place: row_name(STEEP_ROWS[place]))
def test_the_oracle(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Risk and training error, without what the oracle leaves out; derivatives by complex steps."""
    row = STEEP_ROWS[place]
    problem = problem_of_row(row, ridge=row["ridges"][1])
    values, _ = broadcast(problem, {})
    model = typed_model(model_of(problem, "exact", True), problem)
    assert model.is_typed
    model = model._replace(has_own_output=False, has_common_mode=False)
    (point,) = solve(model, problem.readout, numbers_of(problem, values, model))
    monkeypatch.setattr(typed_oracle, "RANK_CUT", 3 * TYPED_CUT)  # no function lies between
    question = typed_oracle.Question.of_row(
        row, row["ridges"][1], dimension=TABLES["dimension"], noise=TABLES["noise"]
    )
    found = typed_oracle.solve(replace(question, nodes=NODES, is_whole=False))
    assert point.is_good
    assert point.risk == pytest.approx(found.risk, rel=1e-5)
    assert point.training_error == pytest.approx(found.training_error, rel=1e-5)
    whole = typed_oracle.solve(question)
    assert found.risk == pytest.approx(whole.risk, rel=2e-4)
    assert found.risk != pytest.approx(whole.risk, rel=1e-6)


# Simulated risks ----------------------------------------------------------------------------------


def off_by(row: dict[str, Any], neurons: str = "auto") -> np.ndarray:
    found = predict(problem_of_row(row), neurons=neurons)
    word = "typed" if neurons == "auto" else "plain"
    assert np.all(found.neurons == word)
    return np.asarray(found.risk) / row["simulated"] - 1


@pytest.mark.parametrize("place", [5, 8], ids=lambda place: row_name(STEEP_ROWS[place]))
def test_two_steep_rows(place: int) -> None:
    """Nearer to the networks than the plain equations by more than half."""
    row = STEEP_ROWS[place]
    typed, plain = off_by(row), off_by(row, "plain")
    assert np.all(np.abs(typed) < 0.5 * np.abs(plain))
    assert np.all(np.abs(typed) < 0.022)


@pytest.mark.slow
@pytest.mark.parametrize("inputs", BOUNDS)
def test_all_steep_rows(inputs: str) -> None:
    rows = [row for row in STEEP_ROWS if row["inputs"] == inputs]
    typed, plain = (
        np.concatenate([off_by(row, neurons) for row in rows]) for neurons in ("auto", "plain")
    )
    largest, size = BOUNDS[inputs]
    assert np.abs(typed).max() < largest
    assert np.sqrt(np.mean(typed**2)) < size
    assert np.sqrt(np.mean(typed**2)) < 0.6 * np.sqrt(np.mean(plain**2))


# Where it is used ---------------------------------------------------------------------------------


def test_it_says_so_and_can_be_switched_off() -> None:
    problem = problem_of()
    typed, plain = predict(problem), predict(problem, neurons="plain")
    assert (typed.neurons, plain.neurons) == ("typed", "plain")
    assert typed.risk != pytest.approx(plain.risk, rel=1e-3)
    assert "(exact bulk, typed neurons)" in typed.title
    assert plain.title == typed.title.replace(", typed neurons", "")
    assert typed.to_dict()["neurons"] == "typed"
    assert "neurons" not in plain.to_dict()
    with pytest.raises(InvalidParameter, match="neurons must be one of auto, plain"):
        predict(problem, neurons="typed")


@pytest.mark.parametrize(
    "changes",
    [
        {"student": "relu"},
        {"student": "tanh(z+0.5)"},
        {"readout": "gaussian"},
        {"readout": "1:0.5,2:0.5"},
        {"step": 0.0},
        {"inputs": "power-law:0.1"},
        {"inputs": "gaussian"},
        {"inputs": "gaussian", "dimension": 12},
        {"inputs": "two-level:30:0.01", "dimension": "inf"},
        {"labels": "sign", "loss": "logistic"},
        {"loss": "huber:1"},
        {"intercept": True},
    ],
    ids=str,
)
def test_where_neurons_are_plain(changes: dict[str, object]) -> None:
    problem = problem_of(**changes)
    assert predict(problem).neurons == "plain"


def test_the_isotropic_bulk_is_plain() -> None:
    assert predict(problem_of(), bulk="isotropic").neurons == "plain"


def test_signs_are_ones_of_an_odd_student() -> None:
    """But for the mean of the readout, which an odd student does not feel."""
    ones, signs = predict(problem_of()), predict(problem_of(readout="signs"))
    assert signs.neurons == "typed"
    assert signs.risk == pytest.approx(ones.risk, rel=1e-12)


def test_arrays_are_their_points() -> None:
    problem = problem_of()
    steps, ridges = np.array([0.0, 0.6, 0.9])[:, None], np.array([0.03, 0.3])
    found: Prediction = predict(problem, step=steps, ridge=ridges)
    assert found.neurons.tolist() == [["plain"] * 2] + [["typed"] * 2] * 2
    assert found.to_dict()["neurons"] == found.neurons.tolist()
    for i, j in ((0, 0), (1, 1), (2, 0)):
        alone = predict(problem.replace(step=float(steps[i, 0]), ridge=float(ridges[j])))
        assert alone.neurons == found[i, j].neurons
        assert found.risk[i, j] == pytest.approx(alone.risk, rel=1e-8)


def test_the_size_of_a_step_matters_and_not_its_name() -> None:
    """At finite d step N^exponent is all there is; and without a step there are no types."""
    problem = problem_of()
    width = problem.sizes().width
    other = problem.replace(step_exponent=0.0, step=0.6 * (1.2 * 200) ** 0.5)
    assert width == 240
    assert predict(other).risk == pytest.approx(predict(problem).risk, rel=1e-9)
    tiny, none = predict(problem.replace(step=1e-4)), predict(problem.replace(step=0.0))
    assert (tiny.neurons, none.neurons) == ("typed", "plain")
    assert tiny.risk == pytest.approx(none.risk, rel=3e-3)


@pytest.mark.parametrize("changes", [{}, {"step": 2.0, "ridge": 0.01}, {"init": "sphere"}], ids=str)
@pytest.mark.parametrize("overlaps", ["equal", "top:0.1"])
def test_nothing_jumps_where_it_begins(changes: dict[str, object], overlaps: str) -> None:
    """Risks at the threshold move by half of the error that is claimed of them, at most."""
    d = 1500
    problem = problem_of(
        dimension=d, inputs="power-law:0.355", teacher_overlaps=overlaps, **changes
    )
    typed, plain = predict(problem), predict(problem, neurons="plain")
    assert STEEP < max(medium_of(problem).levels) ** 2 / d < 1.2 * STEEP
    assert typed.neurons == "typed"
    assert abs(typed.risk - plain.risk) < 0.5 * typed.model_error
    assert typed.risk == pytest.approx(plain.risk, rel=5e-3)
