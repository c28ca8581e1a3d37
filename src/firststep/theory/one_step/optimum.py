"""``optimal``: the ridge, step or other field that minimises what is predicted."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep.checks import choice, number
from firststep.errors import InvalidParameter, NotConverged, nearest
from firststep.problem import Problem
from firststep.results import Shown, per_cent, plain
from firststep.theory.loss_numbers import has_other_loss, main_number
from firststep.theory.one_step.predict import predict
from firststep.theory.one_step.prediction import Prediction
from firststep.theory.one_step.question import model_of

if TYPE_CHECKING:
    from firststep.typing import Array, Float

# Where the search looks, and what the ends of the range stand for.
RANGES: dict[str, tuple[float, float]] = {
    "ridge": (1e-8, 1e4),
    "step": (1e-3, 50.0),
    "alpha0": (0.05, 100.0),
    "beta": (0.05, 100.0),
}
LOSS_RIDGES = (1e-6, 1e4)  # with another loss: below, its iteration is slow
LIMITS = ("0", "infinity")
# What may be minimised; by default the main number of the problem.
OBJECTIVES = ("risk", "test_loss", "error_rate")
_FINEST = 0.01  # of log10: the last stencil, from which the curvature is read
_POINTS = {1: 41, 2: 15}  # of the first grid along each axis: valleys are wider than its cells
_SHRINK = 2.5  # of the stencil: the minimum of a quadratic is inside the next one
_MOST_MOVES = 12  # of one stencil
_NEXT_TO = 0.05  # of log10: nearer to an end than the grid can tell
_SAME_RISK = 1e-13  # the rounding of a risk of order one


@dataclass(frozen=True, eq=False, repr=False)
class Optimum(Shown):
    """The minimiser of the ``objective``; ``curvature`` is its Hessian in the logarithms of
    ``over``.
    """

    over: tuple[str, ...]
    values: Mapping[str, float]
    prediction: Prediction
    curvature: Float[Array, "k k"]
    # Names whose optimum lies at an end of the range, and the limit it stands for.
    boundary: Mapping[str, str]
    evaluations: int
    seconds: float
    objective: str = "risk"

    @property
    def risk(self) -> float:
        return float(self.prediction.risk)

    @property
    def value(self) -> float:
        """Of the objective, at the optimum."""
        return float(getattr(self.prediction, self.objective))

    @property
    def problem(self) -> Problem:
        return self.prediction.problem

    def to_dict(self) -> dict[str, Any]:
        return {
            "over": list(self.over),
            "optimum": dict(self.values),
            "objective": self.objective,
            "value": self.value,
            "risk": self.risk,
            "curvature": plain(self.curvature),
            "boundary": dict(self.boundary),
            "evaluations": self.evaluations,
            "prediction": self.prediction.to_dict(),
            "seconds": self.seconds,
        }

    @property
    def title(self) -> str:
        return f"optimum over {', '.join(self.over)}"

    def rows(self) -> Iterator[tuple[str, str]]:
        """The values, the risk, and how sharp the optimum is."""
        for name in self.over:
            limit = self.boundary.get(name)
            end = "" if limit is None else f"  (at the end of the range: {name} -> {limit})"
            yield name, f"{self.values[name]:.6g}{end}"
        words = self.objective.replace("_", " ")
        yield words, f"{self.value:.8g}"
        for name, about in self.prediction.sized.items():
            error = float(getattr(self.prediction, name))
            if math.isfinite(error) and self.objective == about:
                share = per_cent(error / self.value)
                yield "its finite-size error, about", f"{error:.2g} ({share})"
        for i, j in itertools.combinations_with_replacement(range(len(self.over)), 2):
            one, other = self.over[i], self.over[j]
            below = f"(dlog {one})^2" if i == j else f"(dlog {one} dlog {other})"
            yield f"d2 {words}/{below}", f"{self.curvature[i, j]:.4g}"

    def body(self) -> Iterator[str]:
        """Names of the same width; the curvatures have long ones."""
        width = max(8, len(self.objective))
        for name, value in self.rows():
            yield f"  {name:<{width}}{' ' if len(name) <= width else '  '}{value}"

    def notes(self) -> Iterator[str]:
        yield f"  {self.evaluations} predictions"


def optimal(
    problem: Problem,
    over: Sequence[str] | str = ("ridge", "step"),
    *,
    bulk: str = "exact",
    ranges: Mapping[str, tuple[float, float]] | None = None,
    objective: str | None = None,
) -> Optimum:
    """Minimise a predicted number over one or two of ridge, step, alpha0 and beta, in logarithms.

    ``objective`` is ``risk``, ``test_loss`` or ``error_rate``; left out, the error rate of binary
    labels, the test loss of another loss of real ones, and the risk of ridge regression.

    A grid over the whole range finds the valley; quadratic models on shrinking stencils walk to its
    bottom. An optimum at an end of the range is said to be one (``boundary``): ridge -> 0, step ->
    infinity and so on.
    """
    begin = time.perf_counter()
    problem = Problem.asked(problem)
    objective = _objective(problem, objective)
    names = tuple(over.replace(",", " ").split()) if isinstance(over, str) else tuple(over)
    bounds = _bounds(problem, names, ranges or {})
    if len(problem.ridges) > 1:
        if "ridge" not in names:
            allowed = "a single value when it is not optimised"
            raise InvalidParameter("ridge", allowed, str(problem.ridge))
        problem = problem.replace(ridge=problem.ridges[0])
    low, high = np.log10(np.array(list(bounds.values()))).T
    search = _Search(problem, names, bulk, (low, high), objective)
    counts = _POINTS[len(names)]
    axes = [np.linspace(a, b, counts) for a, b in zip(low, high, strict=True)]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    risks = search(grid)
    if not np.any(np.isfinite(risks)):
        hint = "try a narrower range, a larger ridge or a smaller step"
        raise NotConverged(f"no point of the search could be solved; {hint}")
    best = grid[int(np.argmin(risks))]
    size = (high - low) / (counts - 1)
    while True:
        best, hessian = search.stencil(best, size)
        if np.all(size <= _FINEST):
            break
        size = np.maximum(size / _SHRINK, _FINEST)
    best = search.to_the_end(best)
    at_end = {}
    for i, name in enumerate(names):
        ends = LIMITS if name not in (ranges or {}) else tuple(f"{end:.4g}" for end in bounds[name])
        if best[i] <= low[i] + 1e-9:
            at_end[name] = ends[0]
        elif best[i] >= high[i] - 1e-9:
            at_end[name] = ends[1]
    values = {name: float(10 ** best[i]) for i, name in enumerate(names)}
    return Optimum(
        over=names,
        values=values,
        prediction=predict(problem, bulk=bulk, **values),
        curvature=hessian,
        boundary=at_end,
        evaluations=search.count + 1,
        seconds=time.perf_counter() - begin,
        objective=objective,
    )


def _objective(problem: Problem, given: object) -> str:
    """The number to minimise, or what speaks against it."""
    binary = problem.labels.is_binary
    if given is None:
        return main_number(problem)
    name = choice("objective", str(given).replace("-", "_"), OBJECTIVES)
    if name == "error_rate" and not binary:
        hint = "real labels have no error rate: try labels sign"
        raise InvalidParameter("objective", "risk or test_loss with real labels", name, hint)
    return name


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
    if "step" in names:
        _refuse_flat(problem, names)
    bounds = {}
    for name in names:
        usual = LOSS_RIDGES if name == "ridge" and has_other_loss(problem) else RANGES[name]
        pair = ranges.get(name, usual)
        if len(pair) != 2:
            raise InvalidParameter(f"range of {name}", "two numbers, low and high", str(pair))
        low, high = (number(f"range of {name}", end, 0, strict=True, high=1e30) for end in pair)
        if not low < high:
            raise InvalidParameter(f"range of {name}", "low < high", f"{low:g} to {high:g}")
        bounds[name] = (low, high)
    return bounds


def _refuse_flat(problem: Problem, names: tuple[str, ...]) -> None:
    """Say so if no step is better than another: at d = infinity between the small and the large
    step, where no function is penalised.
    """
    if problem.dimension != math.inf or not 0 < problem.step_exponent < 0.5:
        return
    orders = model_of(problem, "exact", True).orders
    if orders is not None and orders.penalised is None:
        given = f"step-exponent {problem.step_exponent:g}"
        hint = f"at d = infinity and {given} all steps are alike; give a finite dimension"
        raise InvalidParameter("over", "without step", ", ".join(names), hint)


class _Search:
    """The objective at log10 of the fields; what cannot be solved counts as infinite."""

    def __init__(
        self,
        problem: Problem,
        names: tuple[str, ...],
        bulk: str,
        ends: tuple[Float[Array, " k"], Float[Array, " k"]],
        objective: str,
    ) -> None:
        self.problem, self.names, self.bulk, self.ends = problem, names, bulk, ends
        self.objective = objective
        self.count = 0

    def __call__(self, points: Float[Array, "points k"]) -> Float[Array, " points"]:
        self.count += len(points)
        fields = {name: 10.0 ** points[:, i] for i, name in enumerate(self.names)}
        found = predict(self.problem, bulk=self.bulk, **fields)
        risks = np.asarray(getattr(found, self.objective))
        return np.where(np.isfinite(risks), risks, math.inf)

    def to_the_end(self, best: Float[Array, " k"]) -> Float[Array, " k"]:
        """The end of the range, where the best point is next to it and no better.

        On the way to a limit the risk may be rounding, whose least is anywhere near the end.
        """
        for i in range(best.size):
            for end in (bounds[i] for bounds in self.ends):
                moved = np.where(np.arange(best.size) == i, end, best)
                if 0 < abs(best[i] - end) <= _NEXT_TO:
                    risk, other = self(np.array([best, moved]))
                    if other <= risk + _SAME_RISK:
                        best = moved
        return best

    def stencil(
        self, centre: Float[Array, " k"], size: Float[Array, " k"]
    ) -> tuple[Float[Array, " k"], Float[Array, "k k"]]:
        """The best point found around ``centre``, and the Hessian in natural logarithms there.

        Points centre + {-1, 0, 1} size, moved inside the range; a quadratic through them says where
        to go, not far away, and is believed only if the risk there is lower.
        """
        low, high = self.ends
        value, hessian = math.inf, np.full((centre.size, centre.size), math.nan)
        for _ in range(_MOST_MOVES):
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


def _quadratic(
    offsets: Float[Array, "points k"], risks: Float[Array, " points"]
) -> tuple[Float[Array, " k"], Float[Array, "k k"]]:
    """Gradient and Hessian of the quadratic through the stencil, in 2D by least squares."""
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
