"""The shape of a figure: where its curves are simulated and drawn, and what may depend on x."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from firststep import Problem, predict
from firststep.figures.core import Figure
from firststep.figures.shape import Axis, Curve, Panel, Scale, family
from firststep.figures.verdict import row_of

SCALE = Scale(dimension=40, replicates=2, points=3)
SAMPLES = Axis("alpha", "samples", (0.5, 8.0))


def problem(alpha: float, step: float = 1.0) -> Problem:
    return Problem(student="tanh", teacher="sin", alpha=alpha, beta=1, alpha0=2, step=step)


def figure(panel: Panel) -> Figure:
    return Figure("shape", "Title", "firststep", "Caption.", lambda _: [panel], SCALE, SCALE)


def test_a_family_differs_in_arguments_and_looks() -> None:
    curves = family(problem, {"short": {"step": 0.5}, "long": {"step": 2.0}}, bulk="isotropic")
    assert [curve.label for curve in curves] == ["short", "long"]
    assert [curve.problem(3.0) for curve in curves] == [problem(3.0, 0.5), problem(3.0, 2.0)]
    assert len({(curve.color, curve.marker) for curve in curves}) == 2
    assert {curve.theory for curve in curves} == {"isotropic"}
    with pytest.raises(ValueError, match="shorter"):  # more curves than looks: none is left out
        family(problem, {"short": {"step": 0.5}, "long": {"step": 2.0}}, looks=(("blue", "o"),))


def test_curves_are_simulated_at_the_points_of_their_axis_or_their_own() -> None:
    follows, own = Curve("follows", problem), Curve("own", problem, at=(1.0,))
    theory = Curve("theory", problem, model=None)
    panel = Panel([follows, own, theory], SAMPLES)
    assert [panel.at(curve, SCALE) for curve in panel.curves] == [[0.5, 2.0, 8.0], (1.0,), ()]
    x, y, _ = panel.line(follows, SCALE)
    assert (len(x), x[0], x[-1]) == (41, 0.5, 8.0)
    assert y[0] == pytest.approx(predict(problem(0.5).replace(dimension=40)).risk, rel=1e-10)
    x, *_ = Panel([own], replace(SAMPLES, line=(1.0, 2.0))).line(own, SCALE)
    assert list(x) == [1.0, 2.0]
    still = replace(own, model="random-features", line=(1.0,))
    _, y, _ = panel.line(still, SCALE)
    assert y == pytest.approx(predict(problem(1.0).replace(dimension=40)).random_features_risk)


def test_size_options_and_judgement_may_depend_on_x() -> None:
    curve = Curve(
        "growing",
        problem,
        at=(1.0, 2.0),
        dimension=lambda x: int(20 * x),
        options=lambda x: {"steps": int(x)},
        judged=lambda x: x > 1,
        bulk=None,
    )
    panel = Panel([curve], SAMPLES)
    points = figure(panel).points(panel, curve, SCALE)
    assert [point.units[0].problem.dimension for point in points] == [20, 40]
    assert [unit.options for point in points for unit in point.units] == [
        {"steps": 1},
        {"steps": 1},
        {"steps": 2},
        {"steps": 2},
    ]
    simulated = np.array([1.0, 2.0])
    rows = [
        row_of(panel, curve, x, problem=problem(x), simulated=simulated, theory=1.5, seed=0)
        for x in curve.at or ()
    ]
    assert [row["judged"] for row in rows] == [False, True]
