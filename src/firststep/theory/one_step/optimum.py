"""``optimal``: the ridge, step or other field that minimises the predicted risk."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firststep.errors import InvalidParameter, NotConverged, nearest
from firststep.problem import Problem, number
from firststep.results import plain
from firststep.theory.one_step.predict import predict
from firststep.theory.one_step.prediction import Prediction

Array = NDArray[np.float64]

# Where the search looks, and what the ends of the range stand for.
RANGES: dict[str, tuple[float, float]] = {
    "ridge": (1e-8, 1e4),
    "step": (1e-3, 50.0),
    "alpha0": (0.05, 100.0),
    "beta": (0.05, 100.0),
}
LIMITS = ("0", "infinity")
_FINEST = 0.01  # of log10: the last stencil, from which the curvature is read


@dataclass(frozen=True, eq=False)
class Optimum:
    """The minimiser of the risk. ``curvature`` is the Hessian of the risk in the natural logarithms of ``over``."""

    over: tuple[str, ...]
    values: Mapping[str, float]
    prediction: Prediction
    curvature: Array
    boundary: Mapping[
        str, str
    ]  # names whose optimum lies at an end of the range, and the limit it stands for
    evaluations: int
    seconds: float

    @property
    def risk(self) -> float:
        return float(self.prediction.risk)

    @property
    def problem(self) -> Problem:
        return self.prediction.problem

    def to_dict(self) -> dict[str, Any]:
        return {
            "over": list(self.over),
            "optimum": dict(self.values),
            "risk": self.risk,
            "curvature": plain(self.curvature),
            "boundary": dict(self.boundary),
            "evaluations": self.evaluations,
            "prediction": self.prediction.to_dict(),
            "seconds": self.seconds,
        }

    def __str__(self) -> str:
        lines = [f"optimum over {', '.join(self.over)}"]
        for name in self.over:
            end = (
                f"  (at the end of the range: {name} -> {self.boundary[name]})"
                if name in self.boundary
                else ""
            )
            lines.append(f"  {name:<8} {self.values[name]:.6g}{end}")
        lines.append(f"  risk     {self.risk:.8g}")
        for i, j in itertools.combinations_with_replacement(range(len(self.over)), 2):
            names = (
                f"d2 risk/(dlog {self.over[i]})^2"
                if i == j
                else f"d2 risk/(dlog {self.over[i]} dlog {self.over[j]})"
            )
            lines.append(f"  {names}  {self.curvature[i, j]:.4g}")
        lines.append(f"  {self.evaluations} predictions")
        return "\n".join(lines)

    __repr__ = __str__


def optimal(
    problem: Problem,
    over: Sequence[str] | str = ("ridge", "step"),
    *,
    bulk: str = "exact",
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> Optimum:
    """Minimise the predicted risk over one or two of ridge, step, alpha0 and beta, in logarithms.

    A grid over the whole range finds the valley; quadratic models on shrinking stencils walk to its bottom. An optimum at an end of
    the range is said to be one (``boundary``): ridge -> 0, step -> infinity and so on.
    """
    begin = time.perf_counter()
    names = tuple(over.replace(",", " ").split()) if isinstance(over, str) else tuple(over)
    bounds = _bounds(problem, names, ranges or {})
    if len(problem.ridges) > 1:
        if "ridge" not in names:
            raise InvalidParameter(
                "ridge", "a single value when it is not optimised", str(problem.ridge)
            )
        problem = problem.replace(ridge=problem.ridges[0])
    search = _Search(problem, names, bulk)
    low, high = np.log10(np.array(list(bounds.values()))).T
    counts = {1: 41, 2: 15}[len(names)]
    axes = [np.linspace(a, b, counts) for a, b in zip(low, high, strict=True)]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    risks = search(grid)
    if not np.any(np.isfinite(risks)):
        raise NotConverged(
            "no point of the search could be solved; try a narrower range, a larger ridge or a smaller step"
        )
    best = grid[int(np.argmin(risks))]
    size = (high - low) / (counts - 1)
    while True:
        best, hessian = search.stencil(best, size, low, high)
        if np.all(size <= _FINEST):
            break
        size = np.maximum(size / 2.5, _FINEST)
    at_end = {}
    for i, name in enumerate(names):
        ends = LIMITS if name not in (ranges or {}) else tuple(f"{end:.4g}" for end in bounds[name])
        if best[i] <= low[i] + 1e-9:
            at_end[name] = ends[0]
        elif best[i] >= high[i] - 1e-9:
            at_end[name] = ends[1]
    values = {name: float(10 ** best[i]) for i, name in enumerate(names)}
    found = predict(problem, bulk=bulk, **values)
    return Optimum(
        names, values, found, hessian, at_end, search.count + 1, time.perf_counter() - begin
    )


def _bounds(
    problem: Problem, names: tuple[str, ...], ranges: Mapping[str, tuple[float, float]]
) -> dict[str, tuple[float, float]]:
    if not 1 <= len(names) <= 2 or len(set(names)) < len(names):
        raise InvalidParameter("over", "one or two different names", ", ".join(names) or "none")
    for name in names:
        if name not in RANGES:
            raise InvalidParameter("over", "of " + ", ".join(RANGES), name, nearest(name, RANGES))
    if "step" in names and problem.alpha0 == 0:
        raise InvalidParameter("alpha0", "positive when the step is optimised", problem.alpha0)
    if "alpha0" in names and problem.step == 0:
        raise InvalidParameter("step", "positive when alpha0 is optimised", problem.step)
    bounds = {}
    for name in names:
        pair = ranges.get(name, RANGES[name])
        if len(pair) != 2:
            raise InvalidParameter(f"range of {name}", "two numbers, low and high", str(pair))
        low, high = (number(f"range of {name}", end, 0, strict=True, high=1e30) for end in pair)
        if not low < high:
            raise InvalidParameter(f"range of {name}", "low < high", f"{low:g} to {high:g}")
        bounds[name] = (low, high)
    return bounds


class _Search:
    """Risks at points given by log10 of the fields; what cannot be solved counts as infinite."""

    def __init__(self, problem: Problem, names: tuple[str, ...], bulk: str) -> None:
        self.problem, self.names, self.bulk = problem, names, bulk
        self.count = 0

    def __call__(self, points: Array) -> Array:
        self.count += len(points)
        fields = {name: 10.0 ** points[:, i] for i, name in enumerate(self.names)}
        risks = np.asarray(predict(self.problem, bulk=self.bulk, **fields).risk)
        return np.where(np.isfinite(risks), risks, math.inf)

    def stencil(self, centre: Array, size: Array, low: Array, high: Array) -> tuple[Array, Array]:
        """The best point found around ``centre``, and the Hessian in natural logarithms there.

        Points centre + {-1, 0, 1} size, moved inside the range; a quadratic through them says where to go, not far away, and is
        believed only if the risk there is lower.
        """
        value, hessian = math.inf, np.full((centre.size, centre.size), math.nan)
        for _ in range(12):
            middle = np.clip(centre, low + size, high - size)
            offsets = np.array(list(itertools.product((-1, 0, 1), repeat=centre.size)))
            points = middle + offsets * size
            risks = self(np.concatenate([points, centre[None]]))
            around, value = risks[:-1], float(risks[-1])
            gradient, second = _quadratic(offsets, around)
            hessian = second / np.outer(size, size) / math.log(10) ** 2
            candidates = [points[int(np.argmin(around))]]
            if np.all(np.isfinite(second)) and np.all(np.linalg.eigvalsh(second) > 0):
                move = np.clip(-np.linalg.solve(second, gradient), -2, 2)
                candidates.append(np.clip(middle + move * size, low, high))
            tried = self(np.array(candidates))
            better = candidates[int(np.argmin(tried))]
            moved = np.max(np.abs(better - centre) / size)
            if not float(tried.min()) < value:
                break
            centre, value = better, float(tried.min())
            if moved < 0.5:
                break
        return centre, hessian


def _quadratic(offsets: Array, risks: Array) -> tuple[Array, Array]:
    """Gradient and Hessian at the middle of the quadratic through the stencil (least squares in two dimensions)."""
    k = offsets.shape[1]
    pairs = list(itertools.combinations_with_replacement(range(k), 2))
    columns = [np.ones(len(offsets)), *offsets.T]
    columns += [offsets[:, i] * offsets[:, j] * (0.5 if i == j else 1.0) for i, j in pairs]
    if not np.all(np.isfinite(risks)):
        return np.full(k, math.nan), np.full((k, k), math.nan)
    found = np.linalg.lstsq(np.stack(columns, axis=1), risks, rcond=None)[0]
    second = np.zeros((k, k))
    for (i, j), value in zip(pairs, found[1 + k :], strict=True):
        second[i, j] = second[j, i] = value
    return found[1 : 1 + k], second
