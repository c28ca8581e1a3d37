"""The answers of the explorer: a checked request in, plain JSON values out. All numbers come from the library."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firststep.errors import InvalidParameter, NotConverged, NotEnoughMemory
from firststep.problem import Problem, choice, whole
from firststep.results import plain
from firststep.simulation.running.layer import first_layer
from firststep.simulation.running.simulate import replicate_cost, simulate
from firststep.theory.one_step.predict import predict
from firststep.theory.one_step.prediction import CONVERGED, Prediction
from firststep.theory.spectrum.law import spectral_law
from firststep.web import asked, takeaway
from firststep.web.words import MAP_QUANTITIES, QUANTITIES, SPLIT_WORDS, WORDS

Array = NDArray[np.float64]
SMALL_RIDGE = 0.01
AROUND_PEAK = np.array([-0.15, -0.08, -0.04, -0.02, -0.01, 0.0, 0.01, 0.02, 0.04, 0.08, 0.15])
RIDGES = np.geomspace(1e-5, 1e2, 13)  # where the best ridge is looked for
ROUNDING = 1e-12  # of the power of the teacher
BEST_RIDGE_POINTS = 31
LARGEST_MEMORY = 2 * 10**9  # of one replicate
LARGEST_WORK = 2e14  # of one simulation: some hours of one core
POINT_VALUES = (
    "risk",
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
CURVE = ("problem", "axis", "from", "to", "scale", "points", "line", "quantity")


def curve(body: Any) -> dict[str, Any]:
    """One line of the curve panel."""
    given = asked.table("request", body, CURVE)
    problem = asked.problem_of(given.get("problem"))
    line = choice("line", given.get("line", "exact"), asked.PREDICTED_LINES)
    quantity = choice("quantity", given.get("quantity", "risk"), QUANTITIES)
    axis = _with_peak(problem, asked.axis_of(given, asked.MOST_POINTS))
    extra: dict[str, Any] = {}
    if line == "optimal-ridge":
        axis = asked.Axis(axis.name, _thinned(axis.values))
        found, ridges = _best_ridge(problem, axis)
        extra["ridge"] = plain(ridges)
    elif line == "random-features":
        found = _without_step(problem, axis)
    else:
        found = _predict(problem, line, {axis.name: axis.values})
    level = np.broadcast_to(np.asarray(getattr(found, quantity), float), axis.values.shape)
    return {
        "x": plain(axis.values),
        "y": plain(level),
        "extra": extra,
        "kernel_lower_bound": problem.kernel_lower_bound,
        "notes": _unsolved(found),
    }


def _with_peak(problem: Problem, axis: asked.Axis) -> asked.Axis:
    """More points about n = N, where the risk peaks if the ridge is small."""
    if axis.name not in ("alpha", "beta") or problem.ridge >= SMALL_RIDGE:  # type: ignore[operator]
        return axis
    peak = problem.beta if axis.name == "alpha" else problem.alpha
    around = peak * (1 + AROUND_PEAK)
    inside = around[(around > axis.values[0]) & (around < axis.values[-1])]
    return asked.Axis(axis.name, np.unique(np.concatenate([axis.values, inside])))


def _predict(problem: Problem, bulk: str, fields: Mapping[str, Array]) -> Prediction:
    found: Prediction = predict(problem, bulk=bulk, **fields)
    return found


def _without_step(problem: Problem, axis: asked.Axis) -> Prediction:
    """alpha0 and step change nothing where no step is taken."""
    fields = {} if axis.name in ("alpha0", "step") else {axis.name: axis.values}
    return _predict(problem.replace(alpha0=0.0), "exact", fields)


def _thinned(values: Array) -> Array:
    kept = np.linspace(0, len(values) - 1, min(len(values), BEST_RIDGE_POINTS)).round().astype(int)
    return np.asarray(values[np.unique(kept)])


def _best_ridge(problem: Problem, axis: asked.Axis) -> tuple[Prediction, Array]:
    """The prediction at the ridge of least risk for every point: a grid, then twice the vertex of a parabola."""
    if axis.name == "ridge":
        raise InvalidParameter(
            "line", "another than optimal-ridge along the ridge", "optimal-ridge"
        )
    places = axis.values
    logs = np.log(RIDGES)

    def risks(log_ridge: Array) -> Array:
        found = _predict(problem, "exact", {axis.name: places[:, None], "ridge": np.exp(log_ridge)})
        return np.asarray(np.where(np.isfinite(found.risk), found.risk, np.inf))

    level = risks(np.broadcast_to(logs, (len(places), len(logs))))
    middle = np.clip(level.argmin(axis=1), 1, len(logs) - 2)
    rows = np.arange(len(places))
    around = logs[middle[:, None] + np.array([-1, 0, 1])]
    heights = level[rows[:, None], middle[:, None] + np.array([-1, 0, 1])]
    for _ in range(2):
        vertex = np.clip(_vertex(around, heights), logs[0], logs[-1])
        width = (around[:, 2] - around[:, 0]) / 8
        around = np.sort(np.stack([vertex - width, vertex, vertex + width], axis=1), axis=1)
        around = np.clip(around, logs[0], logs[-1])
        heights = risks(around)
    best = around[rows, heights.argmin(axis=1)]
    ridges = np.exp(best)
    return _predict(problem, "exact", {axis.name: places, "ridge": ridges}), ridges


def _vertex(x: Array, y: Array) -> Array:
    """Where the parabola through three points is least; the best of them where it has no minimum between."""
    best = x[np.arange(len(x)), y.argmin(axis=1)]
    with np.errstate(all="ignore"):
        left, right = (
            (y[:, 1] - y[:, 0]) / (x[:, 1] - x[:, 0]),
            (y[:, 2] - y[:, 1]) / (x[:, 2] - x[:, 1]),
        )
        bend = (right - left) / (x[:, 2] - x[:, 0])
        vertex = (x[:, 0] + x[:, 1]) / 2 - left / (2 * bend)
    good = np.isfinite(vertex) & (bend > 0) & (vertex >= x[:, 0]) & (vertex <= x[:, 2])
    return np.where(good, vertex, best)


def _unsolved(found: Prediction) -> list[str]:
    bad = int(np.sum(np.asarray(found.status) != CONVERGED))
    return (
        [f"{bad} of {max(1, math.prod(found.shape))} points could not be solved and are left out"]
        if bad
        else []
    )


def point(body: Any) -> dict[str, Any]:
    """Everything about the current problem."""
    problem = asked.problem_of(asked.table("request", body, ("problem",)).get("problem"))
    try:
        found = predict(problem)
    except NotConverged as error:
        nothing: dict[str, Any] = {
            name: [] for name in ("values", "kappa", "learned", "target", "density", "split")
        }
        return {**nothing, **dict.fromkeys((*QUANTITIES, "total")), "notes": [str(error)]}
    split = found.error_split
    return {
        "values": [_value(found, name) for name in POINT_VALUES],
        **{name: plain(getattr(found, name)) for name in QUANTITIES},
        "kappa": plain(found.kappa),
        "learned": plain(found.learned_function),
        "target": plain(found.target_function),
        "density": density(found.kappa),
        "split": [
            {**words, "value": _rounded(getattr(split, words["name"]), split.total)}
            for words in point_words()["split"]
        ],
        "total": plain(split.total),
        "notes": [],
    }


def density(kappa: Array) -> Any:
    """How often an input has this kappa."""
    return plain(np.exp(-(kappa**2) / 2) / math.sqrt(2 * math.pi))


def _value(found: Prediction, name: str) -> dict[str, Any]:
    value, total = getattr(found, name), found.problem.teacher.moments.second_moment
    return {
        **_words(name),
        "value": plain(value) if name == "quadrature_error" else _rounded(value, total),
    }


def _rounded(value: float, total: float) -> Any:
    """Without what is only rounding."""
    return 0.0 if abs(value) < ROUNDING * total else plain(value)


def _words(name: str) -> dict[str, Any]:
    label, explanation = (
        QUANTITIES[name] if name in QUANTITIES else (WORDS[name].label, WORDS[name].explanation)
    )
    return {"name": name, "label": label, "explanation": explanation, "anchor": name}


def point_words() -> dict[str, list[dict[str, Any]]]:
    """How the values and the parts of the error of a point are called."""
    split = [
        {"name": name, "label": label, "explanation": why, "anchor": "split"}
        for name, (label, why) in SPLIT_WORDS.items()
    ]
    return {"values": [_words(name) for name in POINT_VALUES], "split": split}


def weights(body: Any) -> dict[str, Any]:
    """Singular values of the first layer of one network, with the predicted edge and outlier at its dimension."""
    given = asked.table("request", body, ("problem", "dimension"))
    problem = asked.problem_of(given.get("problem"))
    dimension = _weights_dimension(problem, given.get("dimension"))
    sized = problem.replace(dimension=dimension)
    layer = first_layer(sized)
    notes = []
    edge, outlier = None, None
    try:
        law = spectral_law(sized)
        edge, outlier = (
            list(law.edges),
            next((value for value in law.outliers if value > law.edges[1]), None),
        )
    except NotConverged as error:
        notes.append(str(error))
    return {
        "dimension": dimension,
        "width": layer.after.shape[1],
        "edge": edge,
        "outlier": outlier,
        "notes": notes,
        "values": plain(np.linalg.svd(layer.after, compute_uv=False)),
        "before": plain(np.linalg.svd(layer.before, compute_uv=False)),
    }


def _weights_dimension(problem: Problem, given: Any) -> int:
    """At most 600 rows and columns and 4e9 operations in the step."""
    work = max(problem.alpha0, 0.01) * problem.beta
    most = int(min(asked.LARGEST_WEIGHTS / max(1.0, problem.beta), (1e9 / work) ** (1 / 3)))
    least = math.ceil(
        max(
            2.0,
            *(1 / ratio for ratio in (problem.alpha, problem.beta, problem.alpha0) if ratio > 0),
        )
    )
    if least > max(most, 2):
        raise InvalidParameter("alpha0", "small enough to draw the weights", problem.alpha0)
    usual = int(min(problem.dimension, most)) if problem.dimension < math.inf else min(300, most)
    return (
        max(least, usual) if given is None else whole("dimension", given, least, max(least, most))
    )


def map_(body: Any) -> dict[str, Any]:
    """Some rows of a phase diagram."""
    given = asked.table("request", body, ("problem", "x", "y", "quantity", "rows"))
    problem = asked.problem_of(given.get("problem"))
    quantity = choice("quantity", given.get("quantity", "risk"), MAP_QUANTITIES)
    axes = []
    for side in ("x", "y"):
        part = asked.table(side, given.get(side), ("axis", "from", "to", "scale", "count"))
        axes.append(
            asked.axis_of({**part, "points": part.get("count")}, asked.MOST_MAP_SIDE, f"{side}.")
        )
    across, up = axes
    if across.name == up.name:
        raise InvalidParameter("y.axis", "another than x.axis", up.name)
    rows = given.get("rows")
    if (
        not isinstance(rows, list)
        or not 1 <= len(rows) * len(across.values) <= asked.MOST_MAP_POINTS
    ):
        raise InvalidParameter(
            "rows", f"a list, with at most {asked.MOST_MAP_POINTS} points in all its rows", rows
        )
    chosen = [whole("rows", row, 0, len(up.values) - 1) for row in rows]
    fields = {across.name: across.values[None, :], up.name: up.values[chosen][:, None]}
    found = _predict(problem, "exact", fields)
    values = found.gain if quantity == "gain" else found.risk
    if quantity == "ratio":
        if problem.kernel_lower_bound <= 1e-12:
            raise InvalidParameter(
                "quantity",
                "risk or gain for a linear teacher",
                "ratio",
                "its kernel lower bound is 0",
            )
        values = values / problem.kernel_lower_bound
    return {
        "x": plain(across.values),
        "y": plain(up.values),
        "rows": chosen,
        "values": plain(values),
        "notes": _unsolved(found),
    }


def cost(body: Any) -> dict[str, Any]:
    """Operations of every point of a simulation, and of all of it; too large ones are refused."""
    wanted = asked.networks_of(body)
    costs = [replicate_cost(problem, wanted.model) for problem in wanted.problems]
    memory = max(memory for _, memory in costs)
    if memory > LARGEST_MEMORY:
        hint = f"one network needs {memory / 1e9:.2g} GB, at most {LARGEST_MEMORY / 1e9:g} in the explorer"
        raise NotEnoughMemory("dimension", "smaller with these ratios", wanted.dimension, hint)
    total = sum(work for work, _ in costs) * wanted.replicates
    if total > LARGEST_WORK:
        hint = "firststep sweep runs as much as you like"
        raise InvalidParameter(
            "replicates",
            "fewer, or a smaller dimension: this would take hours",
            wanted.replicates,
            hint,
        )
    return {
        "work": [work for work, _ in costs],
        "total": total,
        "tasks": len(costs) * wanted.replicates,
        "x": plain(wanted.axis.values),
        "replicates": wanted.replicates,
    }


def replicate(body: Any) -> dict[str, Any]:
    """One replicate of one point of a simulation; ``request`` is that of the page."""
    given = asked.table("task", body, ("request", "index", "number"))
    wanted = asked.networks_of(given.get("request"))
    problem = wanted.problems[whole("index", given.get("index"), 0, len(wanted.problems) - 1)]
    number = whole("number", given.get("number"), 0, wanted.replicates - 1)
    found = simulate(
        problem,
        replicates=1,
        seed=wanted.seed,
        model=wanted.model,
        first_replicate=number,
        workers=1,
    )
    values = {
        name: float(getattr(found, name).values[0])
        for name in ("risk", "training_error", "alignment")
    }
    return {name: plain(value) for name, value in values.items()}


def take(body: Any) -> dict[str, Any]:
    """The question as Python, as a command and as an experiment."""
    given = asked.table(
        "request", body, ("problem", "axis", "from", "to", "scale", "points", "simulate")
    )
    problem, axis = asked.problem_of(given.get("problem")), asked.axis_of(given, asked.MOST_POINTS)
    simulated = asked.table(
        "simulate", given.get("simulate") or {}, ("at", "dimension", "replicates", "seed", "model")
    )
    networks = (
        asked.networks_of({**simulated, "problem": given["problem"], "axis": axis.name})
        if simulated
        else None
    )
    scale = str(given.get("scale", "log"))
    return takeaway.texts(takeaway.question(problem, axis, scale, networks))


CALLS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "curve": curve,
    "point": point,
    "weights": weights,
    "map": map_,
    "cost": cost,
    "replicate": replicate,
    "take": take,
}
