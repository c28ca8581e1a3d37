"""The answers of the explorer: a checked request in, plain JSON values out.

All numbers come from the library.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from firststep.errors import InvalidParameter, NotConverged, NotEnoughMemory
from firststep.problem import Problem
from firststep.results import plain
from firststep.simulation.running.layer import first_layer
from firststep.simulation.running.simulate import replicate_cost, simulate
from firststep.theory.one_step.predict import predict
from firststep.theory.one_step.prediction import CONVERGED, Prediction
from firststep.theory.spectrum.law import spectral_law
from firststep.web import asked, takeaway
from firststep.web.asked import MEASURED
from firststep.web.checked import Json, Request
from firststep.web.words import LINES, QUANTITIES, SPLIT, WORDS

if TYPE_CHECKING:
    from firststep.typing import Array, Float

# With a smaller ridge the peak at n = N is narrower than the points of a curve lie apart; these are
# put about it, closer where it is sharper.
SMALL_RIDGE = 0.01
AROUND_PEAK = np.array([-0.15, -0.08, -0.04, -0.02, -0.01, 0.0, 0.01, 0.02, 0.04, 0.08, 0.15])
# Where the best ridge is looked for; a point costs 20 predictions, so that fewer are drawn.
RIDGES = np.geomspace(1e-5, 1e2, 13)
BEST_RIDGE_POINTS = 31
ROUNDING = 1e-12  # of the power of the teacher: what is smaller is shown as 0
LEAST_OF_A_BAND = 1e-3  # of the risk: a lower edge at 0 or below has no place on a log axis
LARGEST_MEMORY = 2 * 10**9  # bytes of one replicate, less than a worker may have
LARGEST_WORK = 2e14  # operations of one simulation: some hours of one core
POINT_VALUES = (
    "risk",
    "model_error",
    "random_features_risk",
    "gain",
    "kernel_lower_bound",
    "training_error",
    "alignment",
    "gradient_norm",
    "spike_strength",
    "bulk_variance",
    "degrees_of_freedom",
    "quadrature_error",
)
ERRORS = ("model_error", "quadrature_error")  # shown however small they are
Asked = TypeVar("Asked", bound=Request)


def _answers(model: type[Asked]) -> Callable[[Callable[[Asked], Json]], Callable[[Any], Json]]:
    """A function of a checked request as one of what was sent."""

    def checked(function: Callable[[Asked], Json]) -> Callable[[Any], Json]:
        @functools.wraps(function)
        def answer(body: object) -> Json:
            return function(model.of(body))

        return answer

    return checked


@_answers(asked.Curve)
def curve(wanted: asked.Curve) -> Json:
    """One line of the curve panel, with its band.

    At d = infinity the band takes ten times as long as the line, so that it is asked for later.
    """
    axis, found, extra = _line(wanted)
    return {
        "x": plain(axis.values),
        "y": plain(_along(axis, getattr(found, wanted.quantity))),
        "band": None if wanted.problem.dimension == math.inf else _band(wanted, axis, found),
        "extra": extra,
        "kernel_lower_bound": wanted.problem.kernel_lower_bound,
        "notes": _unsolved(found),
    }


@_answers(asked.Curve)
def band(wanted: asked.Curve) -> Json:
    """The band of one line of the curve panel."""
    axis, found, _ = _line(wanted)
    return {"band": _band(wanted, axis, found)}


def _line(wanted: asked.Curve) -> tuple[asked.Axis, Prediction, Json]:
    """The points of a line, what the theory says of them, and what else belongs to the line."""
    problem = wanted.problem
    axis = _with_peak(problem, wanted.spaced(wanted.points))
    if wanted.line == "optimal-ridge":
        axis = asked.Axis(axis.name, _thinned(axis.values))
        found, ridges = _best_ridge(problem, axis)
        return axis, found, {"ridge": plain(ridges)}
    if wanted.line == "random-features":
        return axis, _without_step(problem, axis), {}
    return axis, _predict(problem, wanted.line, {axis.name: axis.values}), {}


def _along(axis: asked.Axis, values: object) -> Float[Array, " points"]:
    """What does not depend on the axis is a level."""
    return np.broadcast_to(np.asarray(values, float), axis.values.shape)


def _band(wanted: asked.Curve, axis: asked.Axis, found: Prediction) -> Json | None:
    """Where the risk of networks may be; none where the line is not of the network."""
    if wanted.quantity != "risk" or not LINES[wanted.line].band:
        return None
    risk, error = _along(axis, found.risk), _along(axis, found.model_error)
    return {
        "low": plain(np.maximum(risk - error, LEAST_OF_A_BAND * risk)),
        "high": plain(risk + error),
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


def _predict(
    problem: Problem, bulk: str, fields: Mapping[str, Float[Array, "*axes"]]
) -> Prediction:
    found: Prediction = predict(problem, bulk=bulk, **fields)
    return found


def _without_step(problem: Problem, axis: asked.Axis) -> Prediction:
    """alpha0 and step change nothing where no step is taken."""
    fields = {} if axis.name in ("alpha0", "step") else {axis.name: axis.values}
    return _predict(problem.replace(alpha0=0.0), "exact", fields)


def _thinned(values: Float[Array, " points"]) -> Float[Array, " fewer"]:
    kept = np.linspace(0, len(values) - 1, min(len(values), BEST_RIDGE_POINTS)).round().astype(int)
    return np.asarray(values[np.unique(kept)])


def _best_ridge(problem: Problem, axis: asked.Axis) -> tuple[Prediction, Float[Array, " points"]]:
    """The prediction at the ridge of least risk for every point, and that ridge.

    A grid, then twice the vertex of a parabola through the three lowest neighbours.
    """
    places = axis.values
    logs = np.log(RIDGES)

    def risks(log_ridge: Float[Array, "points ridges"]) -> Float[Array, "points ridges"]:
        found = _predict(problem, "exact", {axis.name: places[:, None], "ridge": np.exp(log_ridge)})
        return np.asarray(np.where(np.isfinite(found.risk), found.risk, np.inf))

    level = risks(np.broadcast_to(logs, (len(places), len(logs))))
    middle = np.clip(level.argmin(axis=1), 1, len(logs) - 2)
    rows = np.arange(len(places))
    around = logs[middle[:, None] + np.array([-1, 0, 1])]
    heights = level[rows[:, None], middle[:, None] + np.array([-1, 0, 1])]
    for _ in range(2):
        vertex = np.clip(_vertex(around, heights), logs[0], logs[-1])
        width = (around[:, 2] - around[:, 0]) / 8  # the next parabola is a quarter as wide
        around = np.sort(np.stack([vertex - width, vertex, vertex + width], axis=1), axis=1)
        around = np.clip(around, logs[0], logs[-1])
        heights = risks(around)
    best = around[rows, heights.argmin(axis=1)]
    ridges = np.exp(best)
    return _predict(problem, "exact", {axis.name: places, "ridge": ridges}), ridges


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


def _unsolved(found: Prediction) -> list[str]:
    bad, count = int(np.sum(np.asarray(found.status) != CONVERGED)), max(1, math.prod(found.shape))
    return [f"{bad} of {count} points could not be solved and are left out"] if bad else []


@_answers(asked.Point)
def point(wanted: asked.Point) -> Json:
    """Everything about the current problem."""
    try:
        found = predict(wanted.problem)
    except NotConverged as error:
        nothing: Json = {
            name: [] for name in ("values", "kappa", "learned", "target", "density", "split")
        }
        unknown = dict.fromkeys((*QUANTITIES, "total", "model_error_reason", "is_flagged"))
        return {**nothing, **unknown, "notes": [str(error)]}
    split, words = found.error_split, point_words()
    for word in words["values"]:
        word["value"] = _value(found, word["name"])
        if word["name"] == "model_error":
            word["share"] = plain(found.model_error / found.risk) if found.risk else None
    for word in words["split"]:
        word["value"] = _rounded(getattr(split, word["name"]), split.total)
    return {
        **words,
        **{name: plain(getattr(found, name)) for name in QUANTITIES},
        "model_error_reason": found.model_error_reason,
        "is_flagged": found.is_flagged,
        "kappa": plain(found.kappa),
        "learned": plain(found.learned_function),
        "target": plain(found.target_function),
        "density": density(found.kappa),
        "total": plain(split.total),
        "notes": [],
    }


def density(kappa: Float[Array, " nodes"]) -> list[float]:
    """How often an input has this kappa."""
    told: list[float] = plain(np.exp(-(kappa**2) / 2) / math.sqrt(2 * math.pi))
    return told


def _value(found: Prediction, name: str) -> float | None:
    value, total = getattr(found, name), found.problem.teacher.moments.second_moment
    return _rounded(value, 0.0 if name in ERRORS else total)


def _rounded(value: float, total: float) -> float | None:
    """Without what is only rounding."""
    kept: float | None = 0.0 if abs(value) < ROUNDING * total else plain(value)
    return kept


def point_words() -> dict[str, list[Json]]:
    """How the values and the parts of the error of a point are called."""
    words = {**WORDS, **QUANTITIES}
    return {
        "values": [words[name].about() for name in POINT_VALUES],
        "split": [{**word.about(), "anchor": "split"} for word in SPLIT.values()],
    }


@_answers(asked.Weights)
def weights(wanted: asked.Weights) -> Json:
    """Singular values of the first layer of one network.

    With the predicted edges and outlier at its dimension.
    """
    sized = wanted.problem.replace(dimension=wanted.dimension)
    layer = first_layer(sized)
    told: Json = {"edge": None, "outlier": None, "notes": []}
    try:
        law = spectral_law(sized)
        above = (value for value in law.outliers if value > law.edges[1])
        told |= {"edge": list(law.edges), "outlier": next(above, None)}
    except NotConverged as error:
        told["notes"] = [str(error)]
    return {
        **told,
        "dimension": wanted.dimension,
        "width": layer.after.shape[1],
        "values": plain(np.linalg.svd(layer.after, compute_uv=False)),
        "before": plain(np.linalg.svd(layer.before, compute_uv=False)),
    }


@_answers(asked.Map)
def map_(wanted: asked.Map) -> Json:
    """Some rows of a phase diagram."""
    across, up = wanted.x.spaced(wanted.x.count), wanted.y.spaced(wanted.y.count)
    fields = {across.name: across.values[None, :], up.name: up.values[wanted.rows][:, None]}
    found = _predict(wanted.problem, "exact", fields)
    values = found.gain if wanted.quantity == "gain" else found.risk
    if wanted.quantity == "ratio":
        values = values / wanted.problem.kernel_lower_bound
    return {
        "x": plain(across.values),
        "y": plain(up.values),
        "rows": wanted.rows,
        "values": plain(values),
        "notes": _unsolved(found),
    }


@_answers(asked.Networks)
def cost(wanted: asked.Networks) -> Json:
    """Operations of every point of a simulation, and of all of it; too large ones are refused."""
    costs = [replicate_cost(problem, wanted.model) for problem in wanted.problems]
    memory = max(memory for _, memory in costs)
    if memory > LARGEST_MEMORY:
        hint = (
            f"one network needs {memory / 1e9:.2g} GB, "
            f"at most {LARGEST_MEMORY / 1e9:g} in the explorer"
        )
        raise NotEnoughMemory("dimension", "smaller with these ratios", wanted.dimension, hint)
    total = sum(work for work, _ in costs) * wanted.replicates
    if total > LARGEST_WORK:
        allowed = "fewer, or a smaller dimension: this would take hours"
        hint = "firststep sweep runs as much as you like"
        raise InvalidParameter("replicates", allowed, wanted.replicates, hint)
    return {
        "work": [work for work, _ in costs],
        "total": total,
        "tasks": len(costs) * wanted.replicates,
        "x": wanted.at,
        "replicates": wanted.replicates,
    }


@_answers(asked.Task)
def replicate(task: asked.Task) -> Json:
    """One replicate of one point of a simulation."""
    wanted = task.request
    found = simulate(
        wanted.problems[task.index],
        replicates=1,
        seed=wanted.seed,
        model=wanted.model,
        first_replicate=task.number,
        workers=1,
    )
    return {name: plain(float(getattr(found, name).values[0])) for name in MEASURED}


@_answers(asked.Take)
def take(wanted: asked.Take) -> Json:
    """The question as Python, as a command and as an experiment."""
    return takeaway.texts(takeaway.question(wanted))


CALLS: Mapping[str, Callable[[Any], Json]] = {
    "curve": curve,
    "band": band,
    "point": point,
    "weights": weights,
    "map": map_,
    "cost": cost,
    "replicate": replicate,
    "take": take,
}
