"""The lines of the curve panel: the points of an axis, and what the theory says there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from firststep.problem import Problem
from firststep.results import plain
from firststep.theory.one_step.functions import CONVERGED
from firststep.theory.one_step.predict import predict
from firststep.theory.one_step.prediction import Prediction
from firststep.web import asked
from firststep.web.checked import Json
from firststep.web.meaning import main_quantity, offered
from firststep.web.words import LINES

if TYPE_CHECKING:
    from firststep.typing import Array, Float

# With a smaller ridge the peak at n = N is narrower than the points of a curve lie apart; these are
# put about it, closer where it is sharper.
SMALL_RIDGE = 0.01
AROUND_PEAK = np.array([-0.15, -0.08, -0.04, -0.02, -0.01, 0.0, 0.01, 0.02, 0.04, 0.08, 0.15])
# Where the best ridge is looked for; a point costs 20 predictions, so that fewer are drawn.
RIDGES = np.geomspace(1e-5, 1e2, 13)
BEST_RIDGE_POINTS = 31
LEAST_OF_A_BAND = 1e-3  # of the value: a lower edge at 0 or below has no place on a log axis


def line_of(wanted: asked.Curve) -> tuple[asked.Axis, Prediction, Json]:
    """The points of a line, what the theory says of them, and what else belongs to the line.

    Of a line that does not depend on the axis all points, whatever the places asked for.
    """
    problem, axis = wanted.problem, wanted.spaced(wanted.points)
    part = _with_peak(problem, axis) if wanted.places is None else axis.at(wanted.places)
    if wanted.line == "optimal-ridge":
        part = _thinned(part) if wanted.places is None else part
        found, ridges = _best_ridge(problem, part)
        return part, found, {"ridge": plain(ridges)}
    if wanted.line == "random-features":
        found = without_step(problem, {part.name: part.values})
        return axis if found.shape == () else part, found, {}
    return part, predicted(problem, {part.name: part.values}, wanted.line), {}


def along(axis: asked.Axis, values: object) -> Float[Array, " points"]:
    """What does not depend on the axis is a level."""
    return np.broadcast_to(np.asarray(values, float), axis.values.shape)


def levels_of(wanted: asked.Curve, found: Prediction) -> Json:
    """The lines that come with the exact one: a number where they do not depend on the axis."""
    if wanted.line != "exact":
        return {}
    told: Json = {}
    for name in offered(LINES, wanted.problem):
        level = LINES[name].level
        if level and wanted.quantity in LINES[name].quantities:
            told[name] = plain(level_of(level, found))
    return told


def level_of(name: str, found: Prediction) -> float | Float[Array, "*shape"]:
    """A number where it is the same at every point: that of the problem, if it has one; but its
    bound is that of the first term of the teacher.
    """
    value = getattr(found, name)
    if isinstance(value, float):
        return value
    level: float | Float[Array, "*shape"] = getattr(found.problem, name, value)
    return level


def band_of(wanted: asked.Curve, axis: asked.Axis, found: Prediction) -> Json | None:
    """Where the numbers of networks may be; none where the line is not of the network, or where the
    finite-size error is not known.
    """
    names = {number: name for name, number in found.sized.items()}
    if wanted.quantity not in names or not LINES[wanted.line].band:
        return None
    value = along(axis, getattr(found, wanted.quantity))
    error = along(axis, getattr(found, names[wanted.quantity]))
    if not np.isfinite(error).any():
        return None
    return {
        "low": plain(np.maximum(value - error, LEAST_OF_A_BAND * value)),
        "high": plain(value + error),
        "error": plain(error),
    }


def _with_peak(problem: Problem, axis: asked.Axis) -> asked.Axis:
    """More points about n = N, where the risk peaks if the ridge is small."""
    if axis.name not in ("alpha", "beta") or problem.ridges[0] >= SMALL_RIDGE:
        return axis
    peak = problem.beta if axis.name == "alpha" else problem.alpha
    around = peak * (1 + AROUND_PEAK)
    inside = around[(around > axis.values[0]) & (around < axis.values[-1])]
    return asked.Axis(axis.name, np.unique(np.concatenate([axis.values, inside])))


def predicted(
    problem: Problem, fields: Mapping[str, Float[Array, "*axes"]], bulk: str = "exact"
) -> Prediction:
    found: Prediction = predict(problem, bulk=bulk, **fields)
    return found


def without_step(problem: Problem, fields: Mapping[str, Float[Array, "*axes"]]) -> Prediction:
    """alpha0 and step change nothing where no step is taken."""
    left = {name: values for name, values in fields.items() if name not in ("alpha0", "step")}
    return predicted(problem.replace(alpha0=0.0), left)


def _thinned(axis: asked.Axis) -> asked.Axis:
    count = len(axis.values)
    kept = np.linspace(0, count - 1, min(count, BEST_RIDGE_POINTS)).round().astype(int)
    return axis.at(np.unique(kept))


def _best_ridge(problem: Problem, axis: asked.Axis) -> tuple[Prediction, Float[Array, " points"]]:
    """The prediction at the best ridge of every point, and that ridge.

    Best is least in what the problem is about: the risk, the test loss or the error rate. A grid,
    then twice the vertex of a parabola through the three lowest neighbours.
    """
    places = axis.values
    logs = np.log(RIDGES)

    def heights_at(log_ridge: Float[Array, "points ridges"]) -> Float[Array, "points ridges"]:
        found = predicted(problem, {axis.name: places[:, None], "ridge": np.exp(log_ridge)})
        values = np.asarray(getattr(found, main_quantity(problem)))
        return np.asarray(np.where(np.isfinite(values), values, np.inf))

    level = heights_at(np.broadcast_to(logs, (len(places), len(logs))))
    middle = np.clip(level.argmin(axis=1), 1, len(logs) - 2)
    rows = np.arange(len(places))
    around = logs[middle[:, None] + np.array([-1, 0, 1])]
    heights = level[rows[:, None], middle[:, None] + np.array([-1, 0, 1])]
    for _ in range(2):
        vertex = np.clip(_vertex(around, heights), logs[0], logs[-1])
        width = (around[:, 2] - around[:, 0]) / 8  # the next parabola is a quarter as wide
        around = np.sort(np.stack([vertex - width, vertex, vertex + width], axis=1), axis=1)
        around = np.clip(around, logs[0], logs[-1])
        heights = heights_at(around)
    best = around[rows, heights.argmin(axis=1)]
    ridges = np.exp(best)
    return predicted(problem, {axis.name: places, "ridge": ridges}), ridges


def _vertex(x: Float[Array, "points 3"], y: Float[Array, "points 3"]) -> Float[Array, " points"]:
    """Where the parabola through three points is least.

    The best of them where it has no minimum between them.
    """
    best = x[np.arange(len(x)), y.argmin(axis=1)]
    with np.errstate(all="ignore"):
        left, right = (np.diff(y, axis=1) / np.diff(x, axis=1)).T
        bend = (right - left) / (x[:, 2] - x[:, 0])
        vertex = (x[:, 0] + x[:, 1]) / 2 - left / (2 * bend)
    good = np.isfinite(vertex) & (bend > 0) & (vertex >= x[:, 0]) & (vertex <= x[:, 2])
    return np.where(good, vertex, best)


def unsolved(found: Prediction) -> int:
    """How many points have no number."""
    return int(np.sum(np.asarray(found.status) != CONVERGED))


def notes_on(bad: int, count: int) -> list[str]:
    """What is said of points without a number."""
    return [f"{bad} of {count} points could not be solved and are left out"] if bad else []
