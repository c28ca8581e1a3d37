"""The answers of the explorer on classifiers and other losses are the library's numbers."""

from __future__ import annotations

import base64
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import pytest

from firststep import InvalidParameter, Problem, optimal, predict, simulate
from firststep.cli import run
from firststep.cli.explore import _checked, _fragment
from firststep.sweep.experiment import Experiment
from firststep.web import answers, export
from firststep.web.asked import PageProblem
from firststep.web.presets import DEFAULTS, presets
from firststep.web.presets import PROBLEM as PROBLEM_OF_THE_PAGE
from tests.web.serving import CURVE, NETWORKS, PROBLEM

# Slow to solve, with sums over its labels; fast, by the equations of the ridge; another loss.
LOGISTIC = {
    **PROBLEM,
    **{"teacher": "z", "noise": 0.0, "labels": "sign", "loss": "logistic", "flip": 0.1},
}
SIGNS = {**PROBLEM, "labels": "sign", "threshold": 0.2, "noise": 0.0, "flip": 0.05}
HUBER = {**PROBLEM, "loss": "huber:0.6", "noise": 0.5}


def curve_of(problem: dict[str, Any], quantity: str, **changes: Any) -> dict[str, Any]:
    return {**CURVE, "problem": problem, "points": 3, "quantity": quantity, **changes}


@pytest.mark.parametrize(
    ("problem", "quantity"),
    [
        (LOGISTIC, "error_rate"),
        (LOGISTIC, "training_error_rate"),
        (HUBER, "test_loss"),
        (SIGNS, "error_rate"),
        ({**PROBLEM, "intercept": True}, "training_loss"),
    ],
)
def test_a_curve_is_predict_whole_and_in_parts(problem: dict[str, Any], quantity: str) -> None:
    body = curve_of(problem, quantity)
    whole, x = answers.curve(body), np.geomspace(0.25, 16, 3)
    expected = getattr(predict(Problem(**problem), alpha=x), quantity)
    np.testing.assert_allclose(whole["y"], expected, rtol=1e-10)
    parts = [answers.curve({**body, "places": places}) for places in ([2, 0], [1])]
    assert [part["places"] for part in parts] == [[2, 0], [1]]
    np.testing.assert_allclose(parts[0]["x"], x[[2, 0]])
    # A point may begin at another, and ends within the tolerance of the fixed point.
    np.testing.assert_allclose(parts[0]["y"], expected[[2, 0]], rtol=1e-5)
    np.testing.assert_allclose(parts[1]["y"], expected[[1]], rtol=1e-5)
    assert whole["unsolved"] == parts[0]["unsolved"] == 0


def test_lines_beside_the_exact_one() -> None:
    problem, x = Problem(**SIGNS), np.geomspace(0.25, 16, 3)
    found = answers.curve(curve_of(SIGNS, "error_rate", axis="alpha0"))["levels"]
    expected = predict(problem, alpha0=x)
    assert found["bayes_error_rate"] == problem.bayes_error_rate > 0.01
    np.testing.assert_allclose(found["direction_error_rate"], expected.direction_error_rate)
    assert np.ptp(found["direction_error_rate"]) > 0.05
    assert answers.curve(curve_of(SIGNS, "test_loss"))["levels"] == {}
    still = answers.curve(curve_of(SIGNS, "error_rate", line="random-features"))
    at_rest = predict(problem.replace(alpha0=0.0), alpha=x).error_rate
    np.testing.assert_allclose(still["y"], at_rest, rtol=1e-10)
    assert still["levels"] == {}
    isotropic = answers.curve(curve_of(SIGNS, "error_rate", line="isotropic"))
    of_bulk = predict(problem, bulk="isotropic", alpha=x).error_rate
    np.testing.assert_allclose(isotropic["y"], of_bulk, rtol=1e-10)


def test_what_does_not_depend_on_the_axis_comes_whole() -> None:
    body = curve_of(SIGNS, "error_rate", line="random-features", axis="step", places=[1])
    found = answers.curve(body)
    assert found["places"] == [0, 1, 2]
    still = predict(Problem(**SIGNS).replace(alpha0=0.0)).error_rate
    np.testing.assert_allclose(found["y"], [still] * 3, rtol=1e-10)


def test_the_best_ridge_is_that_of_the_least_error_rate() -> None:
    found = answers.curve(curve_of(SIGNS, "test_loss", line="optimal-ridge", places=[1]))
    (ridge,), (x,), (y,) = found["extra"]["ridge"], found["x"], found["y"]
    problem = Problem(**SIGNS).replace(alpha=x)
    best = optimal(problem, "ridge")
    assert best.objective == "error_rate"
    there = predict(problem, ridge=ridge)
    assert there.error_rate == pytest.approx(best.value, rel=1e-4)
    assert y == pytest.approx(there.test_loss, rel=1e-9)


@pytest.mark.parametrize("problem", [LOGISTIC, HUBER, SIGNS])
def test_a_point(problem: dict[str, Any]) -> None:
    found, expected = answers.point({"problem": problem}), predict(Problem(**problem))
    values = {row["name"]: row["value"] for row in found["values"]}
    still = predict(Problem(**problem).replace(alpha0=0.0))
    if "random_features_error_rate" in values:
        assert values.pop("random_features_error_rate") == pytest.approx(still.error_rate)
    for name, value in values.items():
        library = getattr(expected, name)
        if np.isnan(library):
            assert value is None
        else:
            assert value == pytest.approx(library, rel=1e-6, abs=1e-9), name
    np.testing.assert_allclose(found["learned"], expected.learned_function)
    np.testing.assert_allclose(found["target"], expected.target_function)
    if expected.problem.loss.is_margin:
        assert found["split"] == []
        assert "logistic" in found["split_note"]
        assert {"error_rate", "bayes_error_rate", "direction_error_rate"} <= set(values)
        assert "risk" not in values
    else:
        parts = {part["name"]: part["value"] for part in found["split"]}
        assert sum(parts.values()) == pytest.approx(found["total"])
        assert found["total"] - parts["learned"] == pytest.approx(expected.risk)
    assert found["gain"] is None or problem is HUBER


def test_weights_of_a_classifier_are_drawn_without_a_prediction() -> None:
    found = answers.weights({"problem": SIGNS, "dimension": 60})
    assert found["edge"] is found["outlier"] is None
    assert "real labels" in found["notes"][0]
    assert len(found["values"]) == 60
    drawn = simulate(Problem(**SIGNS), 60, 1).singular_values_weights.values[0]
    np.testing.assert_allclose(found["values"][:2], drawn, rtol=1e-5)
    # The first layer does not know how the readout is fitted.
    fits = [{"problem": {**each, "noise": 0.1}, "dimension": 60} for each in (HUBER, PROBLEM)]
    one, other = map(answers.weights, fits)
    assert one == other
    assert one["outlier"] is not None


def test_a_map_of_a_classifier() -> None:
    side = {"from": 0.5, "to": 8.0, "scale": "log", "count": 3}
    body = {
        "problem": SIGNS,
        "x": {"axis": "alpha", **side},
        "y": {"axis": "step", **side},
        "rows": [2],
    }
    x, problem = np.geomspace(0.5, 8, 3), Problem(**SIGNS)
    error = predict(problem.replace(step=8.0), alpha=x).error_rate
    still = predict(problem.replace(alpha0=0.0), alpha=x).error_rate
    for quantity, expected in (("error_rate", error), ("error_gain", still - error)):
        found = answers.map_({**body, "quantity": quantity})
        np.testing.assert_allclose(found["values"], [expected], rtol=1e-9)
    with pytest.raises(InvalidParameter, match="quantity must be one of error_rate"):
        answers.map_({**body, "quantity": "ratio"})


@pytest.mark.parametrize(("problem", "name"), [(LOGISTIC, "error_rate"), (HUBER, "test_loss")])
def test_a_replicate_is_that_of_simulate(problem: dict[str, Any], name: str) -> None:
    task = {"request": {**NETWORKS, "problem": problem}, "index": 1, "number": 1}
    found = answers.replicate(task)
    expected = simulate(Problem(**problem).replace(alpha=2.0), 60, 2, workers=1)
    assert found[name] == getattr(expected, name).values[1]
    assert found["risk"] == expected.risk.values[1]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"problem": {**PROBLEM, "loss": "logistic"}}, "loss"),
    ({"problem": {**PROBLEM, "loss": 3}}, "loss"),
    ({"problem": {**PROBLEM, "loss": "huber:" + "1" * 300}}, "loss"),
    ({"problem": {**PROBLEM, "labels": "sing"}}, "labels"),
    ({"problem": {**PROBLEM, "flip": 0.1, "threshold": 1.0}}, "flip threshold"),
    ({"problem": {**SIGNS, "flip": 0.5}}, "flip"),
    ({"problem": {**SIGNS, "flip": True}}, "flip"),
    ({"problem": {**SIGNS, "threshold": 500.0}}, "threshold"),
    ({"problem": {**SIGNS, "noise": 0.1, "labels": "logit:1"}}, "noise"),
    ({"problem": {**PROBLEM, "intercept": "yes"}}, "intercept"),
    ({"problem": {**SIGNS, "step_loss": "hinge"}}, "step-loss"),
    ({"problem": {**SIGNS, "noise_law": "t:3"}}, "noise-law"),
    ({"places": []}, "places"),
    ({"places": [1, 20]}, "places"),
    ({"places": [1.5]}, "places"),
    ({"places": "all"}, "places"),
    ({"quantity": "error_rate"}, "quantity"),
    ({"problem": SIGNS, "quantity": "gain"}, "quantity"),
    ({"line": "bayes_error_rate"}, "line"),
]


@pytest.mark.parametrize(("changes", "parameters"), REFUSED)
def test_nonsense_is_refused(changes: dict[str, Any], parameters: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        answers.curve({**CURVE, **changes})
    assert " ".join(fault.parameter for fault in caught.value.faults) == parameters
    assert not any("\n" in str(fault) for fault in caught.value.faults)


def test_what_is_taken_away_runs(capsys: pytest.CaptureFixture[str]) -> None:
    problem = {**SIGNS, "intercept": True, "flip": 0.2, "loss": "squared-hinge", "noise": 0.0}
    body = {name: CURVE[name] for name in ("axis", "from", "to", "scale")}
    size = {name: NETWORKS[name] for name in ("at", "dimension", "replicates", "seed", "model")}
    found = answers.take({**body, "problem": problem, "points": 2, "simulate": size})
    experiment = Experiment.from_dict(tomllib.loads(found["toml"]))
    assert experiment.problem["intercept"] is True
    alone: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(found["python"], "taken away", "exec"), alone)
    expected = predict(Problem(**problem), alpha=np.array([0.25, 16.0]))
    np.testing.assert_allclose(alone["curve"].error_rate, expected.error_rate)
    assert [network.dimension for network in alone["networks"]] == [60, 60]
    capsys.readouterr()
    for command, words in zip(
        found["command"].splitlines(), ("theory (exact", "network: tanh"), strict=True
    ):
        assert run(command.split()[1:]) == 0
        said = capsys.readouterr().out
        assert words in said
        assert "test error rate" in said
    plain = answers.take({**body, "problem": PROBLEM, "points": 2})
    assert "loss" not in plain["command"]
    assert "intercept" not in plain["python"]


def test_the_command_begins_with_what_the_problem_is_about() -> None:
    def begun(**fields: Any) -> set[str]:
        return set(_fragment(_checked({**PROBLEM, **fields})).removeprefix("#").split("&"))

    assert {"labels=sign", "quantity=error_rate"} <= begun(labels="sign")
    assert {"loss=huber%3A1.0", "quantity=test_loss"} <= begun(loss="huber:1")
    assert {"intercept=true", "quantity=test_loss"} <= begun(intercept=True)
    assert not [part for part in begun() if part.startswith(("loss", "quantity"))]


# The exported page --------------------------------------------------------------------------------


def test_what_is_shipped_of_a_classifier() -> None:
    """A grid of two problems, whose numbers are those of predict."""
    problem = Problem(**LOGISTIC)
    axes = {name: [float(getattr(problem, name))] for name in export.ORDER}
    axes["alpha"] = [1.0, 2.0]
    told = export.shipped(problem, axes, 1)
    arrays = told["arrays"]
    assert told["about"]["defaults"]["quantity"] == "error_rate"
    assert "isotropic" not in {line["name"] for line in told["about"]["lines"]}
    assert told["levels"]["bayes_error_rate"] == problem.bayes_error_rate
    assert told["besides"]["random_features_error_rate"] in arrays
    assert told["levels"]["direction_error_rate"] in arrays
    assert "logistic" in told["split_note"]
    assert "real labels" in told["weights_notes"][0]
    assert not any(name.startswith("isotropic") for name in arrays)
    expected = predict(problem, alpha=np.array(axes["alpha"]))
    for name in ("error_rate", "test_loss", "training_error_rate", "direction_error_rate"):
        np.testing.assert_allclose(unpacked(arrays[name]), getattr(expected, name), rtol=1e-5)
    without = predict(problem.replace(alpha0=0.0), alpha=np.array(axes["alpha"])).error_rate
    np.testing.assert_allclose(
        unpacked(arrays["error_gain"]), without - expected.error_rate, rtol=1e-4
    )


def unpacked(packed: dict[str, Any]) -> Any:
    return np.frombuffer(base64.b64decode(packed["data"]), "<f4")


def test_the_grid_is_as_fine_as_time_allows() -> None:
    assert export._sizes(1e-4) == export.FINE
    assert export._sizes(0.03) == export.COARSE
    assert export._sizes(0.3) == export.COARSEST
    with pytest.raises(InvalidParameter, match="export must be of a problem that is solved faster"):
        export._sizes(30.0)


# The documents ------------------------------------------------------------------------------------


def test_the_story_of_the_documents_is_a_state_and_true() -> None:
    text = (Path(__file__).parents[2] / "docs" / "explorer.md").read_text("utf-8")
    (link,) = [line for line in text.splitlines() if line.startswith("http://127.0.0.1:8000/#")]
    state = dict(parse_qsl(link.split("#")[1]))
    assert set(state) <= set(DEFAULTS)
    preset = next(each["state"] for each in presets() if each["name"] == "label-flips")
    assert {name: str(preset[name]) for name in state} == {
        name: str(type(preset[name])(value)) for name, value in state.items()
    }
    problem = PageProblem.of({name: preset[name] for name in PROBLEM_OF_THE_PAGE})
    with_step = predict(problem, alpha=np.array([0.5, 32.0]))
    without = predict(problem.replace(alpha0=0.0, alpha=32.0)).error_rate
    at_one = predict(problem.replace(alpha=1.0))
    told = " ".join(text[text.index("**What one step buys") :].split())
    for number in (*with_step.error_rate, without, at_one.direction_error_rate):
        assert f"{100 * number:.1f} %" in told
    assert at_one.error_rate < at_one.direction_error_rate < with_step.error_rate[0] < without
