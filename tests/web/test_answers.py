"""The answers of the explorer are the library's numbers."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firststep import InvalidParameter, Problem, optimal, predict, simulate
from firststep.figures import catalogue
from firststep.problem import LATER
from firststep.simulation.running.layer import first_layer
from firststep.sweep.experiment import Experiment
from firststep.theory.closed_forms.weights import isotropic_spectrum, weight_spectrum
from firststep.theory.one_step.prediction import Prediction
from firststep.web import answers, asked, export, takeaway
from firststep.web.about import about
from firststep.web.pages import read_static
from firststep.web.presets import DEFAULTS, presets
from firststep.web.presets import PROBLEM as PROBLEM_OF_THE_PAGE
from firststep.web.simulations import Simulations, usual_seconds
from firststep.web.words import FIELDS
from tests.web.serving import CURVE, NETWORKS, PROBLEM

LIBRARY = Problem(**PROBLEM)


@pytest.mark.parametrize("axis", asked.AXES)
@pytest.mark.parametrize("quantity", ["risk", "training_error", "alignment", "gain"])
def test_a_curve_is_predict(axis: str, quantity: str) -> None:
    found = answers.curve({**CURVE, "axis": axis, "quantity": quantity, "points": 5})
    x = np.geomspace(0.25, 16, 5)
    expected = getattr(predict(LIBRARY, **{axis: x}), quantity)  # type: ignore[arg-type]
    np.testing.assert_allclose(found["x"], x, rtol=1e-14)
    np.testing.assert_allclose(found["y"], expected, rtol=1e-12)
    shown = {"kernel-bound": LIBRARY.kernel_lower_bound} if quantity == "risk" else {}
    assert found["levels"] == shown


def test_other_lines() -> None:
    x = np.geomspace(0.25, 16, 5)
    isotropic = answers.curve({**CURVE, "points": 5, "line": "isotropic"})
    np.testing.assert_allclose(
        isotropic["y"], predict(LIBRARY, bulk="isotropic", alpha=x).risk, rtol=1e-12
    )
    still = answers.curve({**CURVE, "points": 5, "line": "random-features"})
    np.testing.assert_allclose(
        still["y"], predict(LIBRARY.replace(alpha0=0.0), alpha=x).risk, rtol=1e-12
    )
    along_step = answers.curve({**CURVE, "points": 5, "line": "random-features", "axis": "step"})
    np.testing.assert_allclose(along_step["y"], predict(LIBRARY).random_features_risk, rtol=1e-9)


def edges(found: Any) -> dict[str, Any]:
    """Where the risk of networks may be."""
    risk, error = np.asarray(found.risk), np.asarray(found.model_error)
    return {"low": np.maximum(risk - error, 1e-3 * risk), "high": risk + error, "error": error}


@pytest.mark.parametrize("line", ["exact", "random-features"])
@pytest.mark.parametrize("dimension", ["inf", 200])
def test_a_band_is_the_finite_size_error(line: str, dimension: str | int) -> None:
    """With the line at a finite d; at d = infinity it is a question of its own."""
    problem = {**PROBLEM, "dimension": dimension}
    body = {**CURVE, "points": 5, "line": line, "problem": problem}
    with_line, later = answers.curve(body)["band"], answers.band(body)["band"]
    assert with_line == (None if dimension == "inf" else later)
    asked_of = Problem(**problem).replace(**({} if line == "exact" else {"alpha0": 0.0}))
    expected = edges(predict(asked_of, alpha=np.geomspace(0.25, 16, 5)))
    for name, values in expected.items():
        np.testing.assert_allclose(later[name], values, rtol=1e-10)
    level = answers.band({**body, "axis": "step"})["band"]
    if line == "random-features":
        at_rest = edges(predict(asked_of))
        np.testing.assert_allclose(level["high"], [at_rest["high"]] * 5, rtol=1e-10)


def test_what_has_no_band() -> None:
    problem = {**PROBLEM, "dimension": 200}
    for changes in ({"line": "isotropic"}, {"quantity": "training_error"}, {"quantity": "gain"}):
        body = {**CURVE, "points": 3, "problem": problem, **changes}
        assert answers.curve(body)["band"] is answers.band(body)["band"] is None
    best = answers.curve({**CURVE, "points": 3, "problem": problem, "line": "optimal-ridge"})
    there = [
        predict(Problem(**{**problem, "alpha": x, "ridge": ridge}))
        for x, ridge in zip(best["x"], best["extra"]["ridge"], strict=True)
    ]
    np.testing.assert_allclose(best["band"]["error"], [each.model_error for each in there])


def test_a_band_never_reaches_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Prediction, "model_error", property(lambda found: 3 * found.risk))
    found = answers.band({**CURVE, "points": 3})["band"]
    risk = predict(LIBRARY, alpha=np.geomspace(0.25, 16, 3)).risk
    np.testing.assert_allclose(found["high"], 4 * risk)
    assert all(0 < low < 0.01 * each for low, each in zip(found["low"], risk, strict=True))


@pytest.mark.parametrize(
    "changes", [{}, {"dimension": 200}, {"student": "10*tanh(z)", "step": 0.5, "dimension": 200}]
)
def test_a_point_says_how_far_networks_may_be(changes: dict[str, Any]) -> None:
    problem = {**PROBLEM, **changes}
    found, expected = answers.point({"problem": problem}), predict(Problem(**problem))
    row = next(row for row in found["values"] if row["name"] == "model_error")
    assert (row["value"], row["share"]) == (
        expected.model_error,
        expected.model_error / expected.risk,
    )
    assert found["model_error_reason"] == expected.model_error_reason
    assert found["is_flagged"] == expected.is_flagged


def test_the_best_ridge_is_the_optimum() -> None:
    found = answers.curve({**CURVE, "points": 4, "line": "optimal-ridge"})
    for x, y, ridge in zip(found["x"], found["y"], found["extra"]["ridge"], strict=True):
        best = optimal(LIBRARY.replace(alpha=x), "ridge")
        assert y == pytest.approx(best.risk, rel=1e-4)
        assert y == pytest.approx(predict(LIBRARY.replace(alpha=x, ridge=ridge)).risk, rel=1e-9)


def test_a_point_and_its_split() -> None:
    found, expected = answers.point({"problem": PROBLEM}), predict(LIBRARY)
    assert found["risk"] == expected.risk
    np.testing.assert_allclose(found["learned"], expected.learned_function)
    parts = {part["name"]: part["value"] for part in found["split"]}
    assert sum(parts.values()) == pytest.approx(found["total"], rel=1e-12)
    assert sum(value for name, value in parts.items() if name != "learned") == pytest.approx(
        expected.risk, rel=1e-12
    )
    assert all(value > -1e-12 for value in parts.values())


@pytest.mark.parametrize(
    "changes",
    [{}, {"alpha0": 0.0}, {"dimension": 300}, {"step_exponent": 0.0}, {"readout": "gaussian"}],
)
def test_the_parts_of_the_error(generic: Problem, changes: dict[str, Any]) -> None:
    found = predict(generic.replace(**changes))
    split = found.error_split
    assert split.risk == pytest.approx(found.risk, rel=1e-10)
    assert split.total == pytest.approx(generic.teacher.moments.second_moment, rel=1e-9)
    assert min(split.along, split.across, split.out_of_reach, split.fluctuation) > -1e-10
    if not found.problem.takes_step:
        assert split.out_of_reach == pytest.approx(found.kernel_lower_bound, rel=1e-9)


def test_the_scatter_of_the_fit_is_what_networks_scatter() -> None:
    """along = E(mean - target)^2 by bins of kappa, averaged over networks.

    Its mean is a part that simulation sees.
    """
    problem = LIBRARY.replace(dimension=300)
    split = predict(problem).error_split
    found = simulate(problem, replicates=12)
    width = found.kappa[1] - found.kappa[0]
    weights = np.exp(-(found.kappa**2) / 2) * width / np.sqrt(2 * np.pi)
    missed = (
        np.nanmean(found.learned_function.values, axis=0)
        - np.nanmean(found.target_function.values, axis=0)
    ) ** 2
    assert float(np.nansum(weights * missed)) == pytest.approx(split.along, rel=0.25)


def test_the_weights_are_those_of_simulate() -> None:
    found = answers.weights({"problem": PROBLEM, "dimension": 200})
    expected = simulate(LIBRARY, 200, 1)
    np.testing.assert_allclose(
        found["values"][:2], expected.singular_values_weights.values[0], rtol=1e-5
    )
    assert found["outlier"] == pytest.approx(found["values"][0], rel=0.05)
    assert found["edge"][1] == pytest.approx(found["values"][1], rel=0.05)
    assert answers.weights({"problem": {**PROBLEM, "dimension": 120}})["dimension"] == 120
    layer = first_layer(LIBRARY, 200)
    np.testing.assert_allclose(
        np.linalg.svd(layer.after - layer.before, compute_uv=False)[0],
        found["values"][0],
        rtol=0.05,
    )


def test_the_isotropic_spectrum_is_that_of_the_small_step() -> None:
    small = weight_spectrum(LIBRARY.replace(step_exponent=0.0, step=6.0, beta=2.0))
    found = isotropic_spectrum(2.0, 1.0, small.strength)
    assert (found.low, found.high, found.top) == pytest.approx(
        (small.bulk_low, small.bulk_high, small.top)
    )
    rng = np.random.default_rng(0)
    matrix = 1.5 * rng.standard_normal((400, 800)) / 20
    matrix += 4 * np.outer(np.ones(400) / 20, np.ones(800) / np.sqrt(800))
    values = np.linalg.svd(matrix, compute_uv=False)
    drawn = isotropic_spectrum(2.0, 2.25, 4.0)
    assert values[0] == pytest.approx(drawn.top, rel=0.03)
    assert values[1] == pytest.approx(drawn.high, rel=0.03)
    assert values[-1] == pytest.approx(drawn.low, rel=0.1)
    assert not isotropic_spectrum(2.0, 2.25, 0.1).has_outlier


def test_a_map_has_the_rows_asked_for() -> None:
    side = {"from": 0.5, "to": 8.0, "scale": "log", "count": 5}
    body = {
        "problem": PROBLEM,
        "x": {"axis": "alpha", **side},
        "y": {"axis": "step", **side},
        "rows": [4, 1],
        "quantity": "ratio",
    }
    found = answers.map_(body)
    assert found["rows"] == [4, 1]
    expected = (
        predict(LIBRARY.replace(step=8.0), alpha=np.geomspace(0.5, 8, 5)).risk
        / LIBRARY.kernel_lower_bound
    )
    np.testing.assert_allclose(found["values"][0], expected, rtol=1e-10)


def test_a_replicate_is_that_of_simulate() -> None:
    found = answers.replicate({"request": NETWORKS, "index": 1, "number": 2})
    assert found["risk"] == simulate(LIBRARY.replace(alpha=2.0), 60, 3, workers=1).risk.values[2]


TAKE = {name: CURVE[name] for name in ("problem", "axis", "from", "to", "scale", "points")}
RUN = {name: NETWORKS[name] for name in ("at", "dimension", "replicates", "seed", "model")}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("curve", {**CURVE, "problem": {**PROBLEM, "student": "tahn"}}, "student"),
    ("curve", {**CURVE, "problem": {**PROBLEM, "student": "z" * 300}}, "student"),
    ("curve", {**CURVE, "problem": {**PROBLEM, "student": "__import__('os')"}}, "student"),
    ("curve", {**CURVE, "problem": {**PROBLEM, "alpha": -1}}, "alpha"),
    ("curve", {**CURVE, "problem": {**PROBLEM, "ridge": "1e-4..1e2:10000"}}, "ridge"),
    ("curve", {**CURVE, "problem": {**PROBLEM, "alpha": 1e9}}, "alpha"),
    ("curve", {**CURVE, "points": 10**9}, "points"),
    ("curve", {**CURVE, "from": 16.0}, "to"),
    ("curve", {**CURVE, "from": 0.0, "axis": "step"}, "from"),
    ("curve", {**CURVE, "line": "exakt"}, "line"),
    ("curve", {**CURVE, "axis": "ridge", "line": "optimal-ridge"}, "line"),
    ("curve", {**CURVE, "hello": 1}, "request.hello"),
    ("curve", {**CURVE, "problem": 3}, "problem"),
    ("point", {}, "problem"),
    ("map", {"problem": PROBLEM, "x": {}, "y": {}, "rows": [0]}, "x.axis x.count y.axis y.count"),
    (
        "curve",
        {
            **CURVE,
            "problem": {**PROBLEM, "student": 3, "alpha": 1e9, "hello": 1},
            "axis": "up",
            "points": 1,
            "line": "exakt",
            "hello": 1,
        },
        "request.hello axis problem.hello student alpha points line",
    ),
    (
        "map",
        {"problem": 3, "x": {"axis": "alpha", "from": -1, "to": "a", "count": 5, "no": 1}, "y": 4},
        "problem x.no x.from x.to y",
    ),
    ("take", {**TAKE, "simulate": {**RUN, "at": 3, "axis": "step"}}, "simulate.axis at"),
    ("take", {**TAKE, "axis": "up", "simulate": {**RUN, "at": 3}}, "axis"),
    ("replicate", {"request": NETWORKS, "index": 2, "number": 3}, "index number"),
    ("replicate", {"request": {**NETWORKS, "seed": -1}, "index": 2, "number": 3}, "seed"),
    ("weights", {"problem": {**PROBLEM, "alpha0": 1e4, "alpha": 1e-3}}, "alpha"),
    ("weights", {"problem": {**PROBLEM, "alpha0": None, "alpha": 1e-3}}, "alpha"),
    ("weights", {"problem": PROBLEM, "dimension": 5000}, "dimension"),
    ("cost", {**NETWORKS, "dimension": 10**6}, "dimension"),
    ("cost", {**NETWORKS, "replicates": 10**6}, "replicates"),
    ("cost", {**NETWORKS, "at": []}, "at"),
    ("cost", {**NETWORKS, "at": [1.0] * 100}, "at"),
    (
        "cost",
        {**NETWORKS, "dimension": 2000, "replicates": 200, "problem": {**PROBLEM, "alpha0": 100.0}},
        "replicates",
    ),
    ("cost", {**NETWORKS, "dimension": 2000, "problem": {**PROBLEM, "beta": 50.0}}, "dimension"),
]


@pytest.mark.parametrize(("call", "body", "parameter"), REFUSED)
def test_nonsense_is_refused(call: str, body: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        answers.CALLS[call](body)
    assert " ".join(fault.parameter for fault in caught.value.faults) == parameter
    assert not any("\n" in str(fault) for fault in caught.value.faults)


def test_what_is_taken_away_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where the program puts its picture
    monkeypatch.setenv("MPLBACKEND", "agg")
    for extra in ({}, {"simulate": RUN}):
        found = answers.take({**TAKE, **extra})
        experiment = Experiment.from_dict(tomllib.loads(found["toml"]))
        assert experiment.axes[0].name == "alpha"
        alone: dict[str, Any] = {"__name__": "__main__"}  # it imports whatever it uses
        exec(compile(found["python"], "taken away", "exec"), alone)
        np.testing.assert_allclose(
            alone["curve"].risk, predict(LIBRARY, alpha=np.geomspace(0.25, 16, 20)).risk
        )
        picture = tmp_path / "curve.png"
        assert picture.read_bytes().startswith(b"\x89PNG")
        picture.unlink()
        lines = alone["axes"].get_lines()
        np.testing.assert_allclose(lines[0].get_ydata(), alone["curve"].risk)
        assert (alone["axes"].get_xscale(), alone["axes"].get_yscale()) == ("log", "log")
        if extra:
            np.testing.assert_allclose(
                np.asarray(lines[1].get_ydata(), float),
                [network.risk.mean for network in alone["networks"]],
            )
        command = (
            found["command"]
            .splitlines()[-1]
            .replace("firststep", f"{sys.executable} -m firststep", 1)
        )
        told = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, check=True, timeout=120
        )
        assert "test risk" in told.stdout


def test_presets_are_states_that_can_be_computed() -> None:
    names = [preset["name"] for preset in presets()]
    # The page is about one gradient step on Gaussian inputs, with its theory.
    others = {name for name in catalogue.NAMES if name.startswith("beyond-")}
    others |= {"steep-steps", "sample-budget"}  # a share of samples is no axis of the page
    one_step = set(catalogue.NAMES) - others
    assert one_step <= set(names)
    assert len(names) == len(set(names))
    for preset in presets():
        state = preset["state"]
        assert set(state) == set(DEFAULTS), preset["name"]
        problem = asked.PageProblem.of({name: state[name] for name in PROBLEM_OF_THE_PAGE})
        body = {
            "problem": {name: state[name] for name in PROBLEM_OF_THE_PAGE},
            "points": 3,
            "scale": state["xscale"],
        }
        found = answers.curve(
            {**CURVE, **body, **{name: state[name] for name in ("axis", "from", "to", "quantity")}}
        )
        assert all(y is not None and np.isfinite(y) for y in found["y"]), preset["name"]
        assert str(problem.student)


PRESETS_OF_CURVES = {  # the presets that are a curve of a figure, with the panel and the curve
    "ba-fig1": (0, 2),
    "ba-fig3a": (0, 1),
    "ba-fig3b": (0, 1),
    "ba-fig3c": (0, 2),
    "cui-learning-curves": (0, 2),
    "cui-alignment": (0, 0),
    "cui-step-size": (0, 2),
    "cui-equivalence": (0, 0),
}


@pytest.mark.parametrize("name", PRESETS_OF_CURVES)
def test_presets_have_the_parameters_of_their_figures(name: str) -> None:
    figure = catalogue.figure(name)
    panel, curve = PRESETS_OF_CURVES[name]
    state = next(preset["state"] for preset in presets() if preset["name"] == name)
    drawn = (
        figure.panels(figure.quick)[panel]
        .curves[curve]
        .problem(float(state[state["axis"]]))
        .to_dict()
    )
    shown = asked.PageProblem.of({field: state[field] for field in PROBLEM_OF_THE_PAGE}).to_dict()
    assert {k: v for k, v in shown.items() if k != "dimension"} == {
        k: v for k, v in drawn.items() if k != "dimension"
    }


def test_every_field_of_a_problem_is_on_the_page() -> None:
    """In the order of Problem: one table says how a field is shown, asked for and taken away."""
    fields = list(Problem.model_fields)
    assert list(FIELDS) == list(PROBLEM_OF_THE_PAGE) == fields
    told = about()
    assert [field["name"] for field in told["fields"]] == fields
    in_groups = [name for group in told["groups"] for name in group["fields"]]
    assert sorted(in_groups) == sorted(fields)
    assert list(takeaway.ORDER) == [name for name in fields if name != "dimension"]
    assert set(export.ORDER) == set(asked.AXES) == set(export.ENDS)
    assert Problem(**PROBLEM_OF_THE_PAGE).all_values() == PROBLEM_OF_THE_PAGE
    assert {field["name"] for field in told["fields"] if field["later"]} == set(LATER)
    assert {name: PROBLEM_OF_THE_PAGE[name] for name in LATER} == LATER  # links leave them out


def test_the_page_keeps_no_list_of_fields() -> None:
    """Its scripts have at most the axes of the shipped grid beside each other."""
    named = re.compile("'(" + "|".join(Problem.model_fields) + ")'")
    for name, source in read_static().items():
        for line in source.decode().splitlines():
            assert len(set(named.findall(line))) <= 3, f"{name}: {line}"


def test_what_is_registered_is_offered() -> None:
    """A new activation or law of the readout needs no second list."""
    program = (
        "from firststep import activations, expressions, readouts\n"
        "expressions.ACTIVATIONS['toy'] = expressions.ACTIVATIONS['tanh']\n"
        "readouts._NAMED['toys'] = ((2.0,), (1.0,))\n"
        "from firststep.web.about import about\n"
        "told = {field['name']: field['options'] for field in about()['fields']}\n"
        "assert 'toy' in told['student'] and 'toy' in told['teacher'] and 'toys' in told['readout']"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_about_is_plain_json() -> None:
    told = json.loads(json.dumps(about(), allow_nan=False))
    assert {field["name"] for field in told["fields"]} == set(PROBLEM) | set(LATER)
    assert told["limits"]["points"] == asked.MOST_POINTS


@pytest.mark.parametrize(
    "text",
    ["spectrum:secret.npy", "secret.npy", " Spectrum: secret.npy", "rademacher", "", 3, None],
)
def test_the_page_reads_no_file(text: object, tmp_path: Path, monkeypatch: Any) -> None:
    """Inputs that are asked for over the network: laws alone, and those with a theory."""
    np.save(tmp_path / "secret.npy", [1.0, 2.0])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidParameter) as caught:
        answers.point({"problem": {**PROBLEM, "inputs": text}})
    assert "in the explorer" in str(caught.value)
    assert caught.value.faults[0].parameter.endswith("inputs")


def test_the_page_asks_for_inputs_components_and_terms() -> None:
    own = dict(inputs="two-level:4:0.2", teacher_overlaps="top:0.1", teacher_terms="")
    made = asked.PageProblem.of({**PROBLEM, **own})
    assert made.to_dict() == Problem(**PROBLEM, **own).to_dict()
    for wrong, message in (
        ({"teacher_overlaps": "top:0.1"}, "equal or random with inputs gaussian"),
        ({**own, "teacher_overlaps": "1,0,2"}, "a law such as top:0.1 in the explorer"),
        ({**own, "teacher_overlaps": "file"}, "another than file"),
        ({**own, "teacher_terms": "relu"}, "none with inputs two-level"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            asked.PageProblem.of({**PROBLEM, **wrong})
    for given, name in (
        ({"inputs": "power-law:0.3"}, "dimension"),
        ({"teacher_terms": "z,z,z,z"}, "teacher-terms"),
        ({"step_exponent": 0.7}, "step-exponent"),
    ):
        with pytest.raises(InvalidParameter, match=f"^{name} must be"):
            answers.point({"problem": {**PROBLEM, **given}})


def test_a_point_of_several_terms_has_an_alignment_with_each() -> None:
    """And the bound is that of all terms, on the curve and the map too."""
    fields = {**PROBLEM, "teacher_terms": "relu,0.5*tanh(2*z) + 0.1*z"}
    found = predict(Problem(**fields))
    rows = {row["name"]: row for row in answers.point({"problem": fields})["values"]}
    told = [rows[f"alignment_{number}"] for number in (1, 2, 3)]
    assert [row["value"] for row in told] == pytest.approx(found.alignments.tolist(), rel=1e-12)
    assert len({round(row["value"], 3) for row in told}) == 3
    ends = ("with 1: sin", "with 2: relu", "with 3: 0.5*tanh(2*z) + …")
    assert all(row["label"].endswith(end) for row, end in zip(told, ends, strict=True))
    assert "alignment" not in rows
    bound = rows["kernel_lower_bound"]["value"]
    assert bound > Problem(**fields).kernel_lower_bound
    level = answers.curve({**CURVE, "problem": fields, "points": 2})["levels"]["kernel-bound"]
    side = {"from": 1.0, "to": 2.0, "scale": "log", "count": 2}
    sides = {"x": {**side, "axis": "alpha"}, "y": {**side, "axis": "alpha0"}, "rows": [0]}
    ratio, risk = (
        answers.map_({"problem": fields, **sides, "quantity": name})["values"][0][0]
        for name in ("ratio", "risk")
    )
    assert bound == found.kernel_lower_bound == level == pytest.approx(risk / ratio, rel=1e-12)


def test_weights_that_no_theory_knows_are_drawn_all_the_same() -> None:
    fields = {**PROBLEM, "teacher_terms": "relu"}
    found = answers.weights({"problem": fields, "dimension": 40})
    assert len(found["values"]) == 40
    assert (found["edge"], found["outlier"]) == (None, None)
    assert "teachers of one direction" in found["notes"][0]
    still = answers.weights({"problem": {**fields, "step": 0.0}, "dimension": 40})
    assert still["notes"] == []  # no data has touched them
    assert still["edge"][1] == pytest.approx(2, rel=1e-3)


def test_weights_of_inputs_with_a_spectrum_have_their_outlier() -> None:
    fields = {**PROBLEM, "inputs": "two-level:4:0.2", "teacher_overlaps": "top:0.2"}
    found = answers.weights({"problem": fields, "dimension": 200})
    assert found["notes"] == []
    assert found["outlier"] == pytest.approx(found["values"][0], rel=0.1)
    assert found["edge"][1] == pytest.approx(found["values"][1], rel=0.05)


@pytest.mark.parametrize(("dimension", "seconds"), [(100, 0.0087), (400, 0.115), (1000, 1.0)])
def test_the_time_of_a_network_is_that_of_its_size(dimension: int, seconds: float) -> None:
    """The rate of small networks, measured first, made six minutes of d = 1000 half an hour.

    ``seconds`` are those of one core of docs/benchmarks.md; another may be three times as fast.
    """
    cost = answers.cost({**NETWORKS, "at": [2.0], "dimension": dimension})
    usual = usual_seconds(cost["work"][0])
    assert seconds / 2 < usual < 2 * seconds


def test_what_was_measured_of_small_networks_says_how_long_large_ones_take() -> None:
    """A machine half as fast takes twice as long at every size."""

    class Theory:
        async def ask(self, _: str, body: Any) -> Any:
            return answers.cost(body)

    class Cores:
        size = 1

    simulations = Simulations(Cores(), Theory())  # type: ignore[arg-type]
    large = {**NETWORKS, "dimension": 1000}
    before = asyncio.run(simulations.estimate(large))["seconds"]
    small = answers.cost({**NETWORKS, "dimension": 60})["work"]
    for work in 2000 * small:
        simulations.learn(work, 2 * usual_seconds(work))
    after = asyncio.run(simulations.estimate(large))["seconds"]
    assert after == pytest.approx(2 * before, rel=0.05)
