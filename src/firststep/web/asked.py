"""What the page may ask: every request is checked here, with bounds on the work it can cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firststep.errors import InvalidParameter, nearest
from firststep.problem import Problem, choice, number, whole

AXES = ("alpha", "beta", "alpha0", "step", "ridge")
SCALES = ("log", "linear")
MODELS = ("network", "random-features", "spiked")
PREDICTED_LINES = ("exact", "isotropic", "random-features", "optimal-ridge")

# Bounds: on texts, on numbers that enter sizes or quadratures, on grids, on simulations.
LONGEST_TEXT = 200
RANGES = {
    "alpha": (1e-3, 1e4),
    "beta": (1e-3, 1e3),
    "alpha0": (0.0, 1e4),
    "step": (0.0, 1e3),
    "ridge": (1e-10, 1e6),
    "noise": (0.0, 100.0),
}
MOST_POINTS = 120
MOST_MAP_POINTS = 400
MOST_MAP_SIDE = 96
MOST_AT = 24
LARGEST_DIMENSION = 2000
MOST_REPLICATES = 200
LARGEST_WEIGHTS = 600
PROBLEM_FIELDS = tuple(Problem.model_fields)


def table(name: str, given: Any, allowed: tuple[str, ...]) -> dict[str, Any]:
    """A JSON object with known names."""
    if not isinstance(given, Mapping):
        raise InvalidParameter(name, "a JSON object", given)
    for key in given:
        if key not in allowed:
            raise InvalidParameter(
                f"{name}.{key}",
                "one of " + ", ".join(allowed),
                given[key],
                nearest(str(key), allowed),
            )
    return dict(given)


def problem_of(given: Any) -> Problem:
    """A problem within the bounds of the page."""
    fields = table("problem", given, PROBLEM_FIELDS)
    if fields.get("alpha0", 0) is None:
        del fields["alpha0"]
    for name in ("student", "teacher", "readout"):
        value = fields.get(name)
        if not isinstance(value, str):
            raise InvalidParameter(name, "a text", value)
        if len(value) > LONGEST_TEXT:
            raise InvalidParameter(name, f"at most {LONGEST_TEXT} characters long", value)
    for name in RANGES:
        if name in fields and (
            isinstance(fields[name], bool) or not isinstance(fields[name], int | float)
        ):
            raise InvalidParameter(name, "a number", fields[name])
    problem = Problem(**fields)
    for name, (low, high) in RANGES.items():
        if not low <= getattr(problem, name) <= high:
            raise InvalidParameter(
                name, f"from {low:g} to {high:g} in the explorer", getattr(problem, name)
            )
    return problem


@dataclass(frozen=True)
class Axis:
    """A field and the values it takes."""

    name: str
    values: NDArray[np.float64]


def axis_of(given: Mapping[str, Any], most: int, prefix: str = "") -> Axis:
    """An axis from axis, from, to, scale and points."""
    name = choice(f"{prefix}axis", given.get("axis"), AXES)
    low, high = RANGES[name]
    scale = choice(f"{prefix}scale", given.get("scale", "log"), SCALES)
    first, last = (
        number(f"{prefix}{end}", given.get(end), low, high=high) for end in ("from", "to")
    )
    if not first < last:
        raise InvalidParameter(f"{prefix}to", "larger than from", last)
    if scale == "log" and first <= 0:
        raise InvalidParameter(f"{prefix}from", "larger than 0 on a logarithmic axis", first)
    count = whole(f"{prefix}points", given.get("points"), 2, most)
    spaced = np.geomspace(first, last, count) if scale == "log" else np.linspace(first, last, count)
    spaced[0], spaced[-1] = first, last
    return Axis(name, spaced)


def places_of(given: Mapping[str, Any]) -> Axis:
    """Where networks are simulated: the values of ``at``."""
    name = choice("axis", given.get("axis"), AXES)
    values = given.get("at")
    if not isinstance(values, list) or not 1 <= len(values) <= MOST_AT:
        raise InvalidParameter("at", f"a list of 1 to {MOST_AT} numbers", values)
    low, high = RANGES[name]
    return Axis(name, np.array([number("at", value, low, high=high) for value in values]))


@dataclass(frozen=True)
class Networks:
    """A simulation that the page asks for."""

    problems: tuple[Problem, ...]
    axis: Axis
    dimension: int
    replicates: int
    seed: int
    model: str


def networks_of(given: Any) -> Networks:
    body = table(
        "request", given, ("problem", "axis", "at", "dimension", "replicates", "seed", "model")
    )
    problem, axis = problem_of(body.get("problem")), places_of(body)
    dimension = whole("dimension", body.get("dimension"), 10, LARGEST_DIMENSION)
    replicates = whole("replicates", body.get("replicates"), 1, MOST_REPLICATES)
    seed = whole("seed", body.get("seed", 0), 0, 10**9)
    model = choice("model", body.get("model", "network"), MODELS)
    problems = tuple(
        problem.replace(dimension=dimension, **{axis.name: float(x)}) for x in axis.values
    )
    for each in problems:
        each.sizes()
    return Networks(problems, axis, dimension, replicates, seed, model)
