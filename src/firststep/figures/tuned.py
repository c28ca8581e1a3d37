"""The best ridge, or ridge and step, of a row of problems, and of those between them.

``firststep.optimal`` is for one problem; here those of a whole curve are solved together. A grid
over the range, then stencils of half the size around the best point so far, and at the end the
vertex of a quadratic through the last: for a figure three digits are plenty, the optima are flat.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator

from firststep.problem import Problem
from firststep.theory.one_step.predict import predict

if TYPE_CHECKING:
    from firststep.typing import Array, Float

    Fields = Mapping[str, Sequence[float] | Float[Array, " points"]]

FIRST = {1: 9, 2: 7}  # points of the first grid along each axis: valleys are wider than its cells
HALVINGS = 3  # to a stencil of a thirtieth of a decade, where ln R is a quadratic


class Chosen(NamedTuple):
    """Values at places along an axis, and a smooth curve through their logarithms."""

    places: tuple[float, ...]
    values: Mapping[str, Float[Array, " places"]]

    def between(self, name: str) -> Callable[[float], float]:
        """A value as a function of the place; at the places themselves exactly what was chosen."""
        nodes = dict(zip(self.places, map(float, self.values[name]), strict=True))
        smooth = PchipInterpolator(np.log(self.places), np.log(self.values[name]))
        return lambda x: nodes.get(float(x)) or float(np.exp(smooth(np.log(x))))


def tuned(
    problem: Problem, ranges: Mapping[str, tuple[float, float]], fields: Fields
) -> dict[str, Float[Array, " points"]]:
    """The values of ``ranges`` (one or two fields) with the least predicted risk, at every point.

    ``fields`` are the others that differ between the points. Three digits, so that every machine
    simulates the same problems.
    """
    names = tuple(ranges)
    fixed = {name: np.asarray(values, float)[:, None] for name, values in fields.items()}
    count = len(next(iter(fixed.values())))
    low, high = np.log10(np.array([ranges[name] for name in names])).T

    def risks(at: Float[Array, "points grid k"]) -> Float[Array, "points grid"]:
        asked: dict[str, Any] = {name: 10 ** at[..., i] for i, name in enumerate(names)}
        found = np.asarray(predict(problem, **{**fixed, **asked}).risk)
        return np.where(np.isfinite(found), np.log(found), np.inf)

    size = (high - low) / (FIRST[len(names)] - 1)
    grid = _offsets(np.arange(FIRST[len(names)]), len(names)) * size + low
    best = _least(grid := np.broadcast_to(grid, (count, *grid.shape)), risks(grid))
    around = _offsets(np.arange(-1, 2), len(names))
    for halving in range(HALVINGS):
        size = size / 2
        # Inside the range, so that an optimum at its end is found there.
        centre = np.clip(best, low + size, high - size)
        at = centre[:, None] + around * size
        level = risks(at)
        best = _least(at, level)
        if halving == HALVINGS - 1:
            best = centre + size * _vertices(around, level, (best - centre) / size)
    return {name: _three_digits(10 ** best[:, i]) for i, name in enumerate(names)}


def _offsets(along: Float[Array, " each"], count: int) -> Float[Array, "grid k"]:
    return np.array(list(itertools.product(along, repeat=count)), float)


def _least(
    at: Float[Array, "points grid k"], level: Float[Array, "points grid"]
) -> Float[Array, "points k"]:
    places = np.argmin(level, axis=1)
    found: Float[Array, "points k"] = at[np.arange(len(at)), places]
    return found


def _vertices(
    around: Float[Array, "grid k"],
    level: Float[Array, "points grid"],
    otherwise: Float[Array, "points k"],
) -> Float[Array, "points k"]:
    """Where quadratics through the stencils are least; the best point where that is outside."""
    k = around.shape[1]
    pairs = list(itertools.combinations_with_replacement(range(k), 2))
    squares = [around[:, i] * around[:, j] * (0.5 if i == j else 1.0) for i, j in pairs]
    design = np.stack([np.ones(len(around)), *around.T, *squares], axis=1)
    found = np.array(otherwise)
    for place, values in enumerate(level):
        if not np.all(np.isfinite(values)):
            continue
        fit = np.linalg.lstsq(design, values, rcond=None)[0]
        second = np.zeros((k, k))
        for (i, j), value in zip(pairs, fit[1 + k :], strict=True):
            second[i, j] = second[j, i] = value
        if np.all(np.linalg.eigvalsh(second) > 0):
            vertex = -np.linalg.solve(second, fit[1 : 1 + k])
            if np.max(np.abs(vertex)) <= 1:
                found[place] = vertex
    return found


def _three_digits(values: Float[Array, " points"]) -> Float[Array, " points"]:
    return np.array([float(f"{value:.3g}") for value in values])
