"""The readout of any convex loss: a path of ridges from the largest down, each from the one above.

Minimised is P = (1/n) sum_i l(y_i, f_i) + ridge |b|^2, f = F b (+ b0), by Newton's method with a
line search. With m = l'(y, f) and d = l''(y, f) the gradient is F^T m/n + 2 ridge b and the Hessian
F^T diag(d) F/n + 2 ridge; its equations are solved in one of two geometries (``fit.geometry``).

A loss with kinks (hinge, quantile) is minimised by the method of multipliers on z = f: with the
envelope e_V(y, f) = min_z l(y, z) + (z - f)^2/V, whose slope is -2 g and whose curvature is 2
(-dg/df) of ``Loss.score``, minimise (1/n) sum_i e_V(y_i, f_i + V m_i/2) + ridge |b|^2 by Newton's
method, then m = -2 g, and V a tenth of what it was where that did not help enough.

An answer has a duality gap of at most GAP times P: P + (1/n) sum_i l*(m_i) + |F^T m/n|^2/(4 ridge),
which for m = l'(y, f) is |gradient|^2/(4 ridge). With a free constant |mean m| max |f| is added, as
the mean of m must vanish. P counts as at least 1e-12 of what it is at f = 0. Where Newton's method
is slow (Huber with labels thousands of times DELTA) the multipliers take over. If rounding ends the
progress, ROUNDING will do; else ``NotConverged``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.errors import NotConverged
from firststep.simulation.fit.geometry import Asked, Geometry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firststep.losses import Loss, Score
    from firststep.typing import Array, Float

GAP = 1e-9  # duality gap over the objective
ROUNDING = 1e-6  # a gap that is accepted where rounding ends the progress
ENVELOPE = 1e-10  # gap of the smooth problems inside the method of multipliers
IDLE = 5  # steps or rounds without progress, after which rounding is the reason
STEPS = 200  # of Newton's method; a path rarely needs more than 20 at one ridge
ROUNDS = 60  # of the method of multipliers: 5 to 12 are usual
SHORTER = 10.0  # factor by which V falls from round to round
HALVINGS = 60


class Solution(NamedTuple):
    """A fit: b in the coordinates of its geometry, the constant, predictions on the data."""

    coordinates: Float[Array, " k"]
    intercept: float
    predicted: Float[Array, " n"]
    penalty: float  # |b|^2
    steps: int = 0  # of Newton's method
    gap: float = np.inf  # duality gap over the objective
    slopes: Float[Array, " n"] | None = None  # m: on a kink, the subgradient that is in balance
    bends: Float[Array, " n"] | None = None  # l'' at the predictions, infinite on a kink


class Move(NamedTuple):
    """A direction: of the coordinates, of the constant, of the predictions, and of |b|^2."""

    coordinates: Float[Array, " k"]
    intercept: float
    predicted: Float[Array, " n"]
    cross: float  # <b, p>
    square: float  # |p|^2


class Curve(NamedTuple):
    """A sum of losses as a function of the predictions: value, slopes and curvatures."""

    value: Float[Array, " n"]
    slopes: Float[Array, " n"]
    bends: Float[Array, " n"]


class _Smooth:
    """A loss with a slope everywhere."""

    def __init__(self, loss: Loss, labels: Float[Array, " n"]) -> None:
        self._loss, self._labels = loss, labels

    def curve(self, f: Float[Array, " n"]) -> Curve:
        loss, y = self._loss, self._labels
        return Curve(loss.value(y, f), loss.slope(y, f), loss.curvature(y, f))


class _Envelope:
    """e_V(y, f + V m/2) of a loss with kinks."""

    def __init__(self, loss: Loss, labels: Float[Array, " n"], width: float) -> None:
        self._loss, self._labels, self.width = loss, labels, width
        self.multipliers = np.zeros_like(labels)

    def score(self, f: Float[Array, " n"]) -> Score:
        at = f + self.width / 2 * self.multipliers
        return self._loss.score(self._labels, at, np.full_like(at, self.width))

    def curve(self, f: Float[Array, " n"]) -> Curve:
        score = self.score(f)
        value = self._loss.value(self._labels, score.point) + self.width * score.g**2
        return Curve(value, -2 * score.g, 2 * score.slope)


class Question(NamedTuple):
    """A loss, labels, and whether there is a free constant."""

    loss: Loss
    labels: Float[Array, " n"]
    intercept: bool


class Fit:
    """A question on data in a geometry."""

    def __init__(self, question: Question, geometry: Geometry) -> None:
        self.loss, self.labels, self.has_intercept = question
        self.geometry = geometry
        if self.loss.is_margin and self.has_intercept and np.all(self.labels == self.labels[0]):
            told = "all labels of the fit are of one class, and the intercept is free"
            raise NotConverged(f"{told}: no minimum; try more samples or a smaller threshold")
        nothing = np.zeros_like(self.labels)
        # an objective that can be told from zero by the rounding of the losses
        self._smallest = 1e-12 * float(self.loss.value(self.labels, nothing).mean()) + 1e-300

    def path(self, ridges: tuple[float, ...]) -> list[Solution]:
        """One solution a ridge, in the order given; solved from the largest down."""
        found = dict(self.descend(ridges))
        return [found[ridge] for ridge in ridges]

    def descend(self, ridges: tuple[float, ...]) -> Iterator[tuple[float, Solution]]:
        """Ridges from the largest down and their solutions, each solved when it is asked for."""
        nothing = Solution(np.zeros(self.geometry.unknowns), 0.0, np.zeros_like(self.labels), 0.0)
        last, multipliers = nothing, np.zeros_like(self.labels)
        for ridge in sorted(set(ridges), reverse=True):
            if self.loss.is_smooth:
                found_here = self._newton(_Smooth(self.loss, self.labels), last, ridge, GAP)
            if not self.loss.is_smooth or found_here.gap > ROUNDING:
                found_here, multipliers = self._multipliers(last, multipliers, ridge)
            last = self._accepted(found_here, ridge)
            yield ridge, last

    def objective(self, at: Solution, ridge: float) -> float:
        return float(self.loss.value(self.labels, at.predicted).mean()) + ridge * at.penalty

    # Newton's method ------------------------------------------------------------------------------

    def _newton(
        self, sum_of: _Smooth | _Envelope, at: Solution, ridge: float, tolerance: float
    ) -> Solution:
        """To the tolerance, or as far as rounding lets it: ``Solution.gap`` says how far."""
        best = at._replace(gap=np.inf)
        idle = 0  # steps since the gap has last fallen to a half
        for number in range(STEPS):
            curve = sum_of.curve(at.predicted)
            objective = float(curve.value.mean()) + ridge * at.penalty
            gradient, square = self.geometry.gradient(curve.slopes, at.coordinates, ridge)
            if not np.isfinite(objective + square):
                raise NotConverged("the fit of the readout is not finite: the features overflow")
            gap = square / (4 * ridge) + self._imbalance(curve.slopes, at)
            gap /= max(objective, self._smallest)
            idle = 0 if gap < best.gap / 2 else idle + 1
            if gap < best.gap:
                best = at._replace(gap=gap, steps=number, slopes=curve.slopes, bends=curve.bends)
            if gap <= tolerance or (idle >= IDLE and best.gap <= ROUNDING):
                break
            slope = float(curve.slopes.mean())
            # as exact as this step has to be: the gap falls with the square of the residual
            accuracy = float(np.clip(0.3 * np.sqrt(tolerance / gap), 0.01, 0.1))
            free = slope if self.has_intercept else None
            move = self._move(at, Asked(curve.bends, ridge, gradient, free, accuracy))
            length = self._length(sum_of, at, move, ridge)
            if length == 0.0:
                break
            at = self._moved(at, move, length)
        return best

    def _imbalance(self, slopes: Float[Array, " n"], at: Solution) -> float:
        """|mean m| max |f|, with a free constant, which makes it vanish."""
        largest = float(np.abs(at.predicted).max())
        return abs(float(slopes.mean())) * largest if self.has_intercept else 0.0

    @staticmethod
    def _accepted(found: Solution, ridge: float) -> Solution:
        if found.gap <= ROUNDING:
            return found
        told = (
            f"the fit of the readout stopped at a duality gap of {found.gap:.1e} of its objective"
        )
        raise NotConverged(f"{told} at ridge {ridge:g}; try a larger ridge")

    def _moved(self, at: Solution, move: Move, length: float) -> Solution:
        """Computed anew: sums of many steps would collect their rounding."""
        coordinates = at.coordinates + length * move.coordinates
        intercept = at.intercept + length * move.intercept
        predicted = self.geometry.predict(coordinates)
        penalty = self.geometry.product(coordinates, coordinates, predicted)
        return Solution(coordinates, intercept, predicted + intercept, penalty)

    def _move(self, at: Solution, asked: Asked) -> Move:
        geometry = self.geometry
        step, shift = geometry.newton(asked)
        moved = geometry.predict(step)
        cross = geometry.product(at.coordinates, step, moved)
        square = geometry.product(step, step, moved)
        return Move(step, shift, moved + shift, cross, square)

    def _length(self, sum_of: _Smooth | _Envelope, at: Solution, move: Move, ridge: float) -> float:
        """A step length where the slope along the line has halved and the objective fallen.

        The slope is increasing in the length, so it is bracketed and halved; 0 if rounding leaves
        no descent.
        """
        mean = np.mean

        def along(t: float) -> tuple[float, float]:
            curve = sum_of.curve(at.predicted + t * move.predicted)
            penalty = at.penalty + 2 * t * move.cross + t * t * move.square
            slope = mean(curve.slopes * move.predicted) + 2 * ridge * (move.cross + t * move.square)
            return float(mean(curve.value)) + ridge * penalty, float(slope)

        start, descent = along(0.0)
        if not descent < 0:
            return 0.0
        low, high, t = 0.0, np.inf, 1.0
        noise = 1e-14 * abs(start)
        for _ in range(HALVINGS):
            value, slope = along(t)
            if not np.isfinite(value) or value > start + 1e-4 * t * descent + noise:
                high = t
            elif slope < 0.5 * descent:
                low = t
            elif slope > -0.5 * descent and np.isfinite(slope) and slope > noise / max(t, 1e-300):
                high = t
            else:
                return t
            t = 2 * t if high == np.inf else (low + high) / 2
        return low

    # The method of multipliers --------------------------------------------------------------------

    def _multipliers(
        self, at: Solution, multipliers: Float[Array, " n"], ridge: float
    ) -> tuple[Solution, Float[Array, " n"]]:
        """V falls where a round has not brought the gap to a tenth."""
        inside = _Envelope(self.loss, self.labels, 4 * _spread(self.labels))
        inside.multipliers, steps = multipliers, 0
        best, known = at._replace(gap=np.inf), multipliers
        idle = 0
        for _ in range(ROUNDS):
            at = self._newton(inside, at, ridge, ENVELOPE)
            steps += at.steps
            score = inside.score(at.predicted)
            inside.multipliers = -2 * score.g
            gap = self._gap(inside.multipliers, score.point, at, ridge)
            if not gap <= best.gap / SHORTER:
                inside.width /= SHORTER
            idle = 0 if gap < best.gap / 2 else idle + 1
            if gap < best.gap:
                known, bends = inside.multipliers, self._bends(score)
                best = at._replace(gap=gap, steps=steps, slopes=known, bends=bends)
            if gap <= GAP or (idle >= IDLE and best.gap <= ROUNDING):
                break
        return best, known

    def _bends(self, score: Score) -> Float[Array, " n"]:
        """l'': infinite where a loss with kinks holds its prediction on one."""
        if self.loss.is_smooth:
            return self.loss.curvature(self.labels, score.point)
        return np.where(score.slope > 0, np.inf, 0.0)

    def _gap(
        self,
        multipliers: Float[Array, " n"],
        points: Float[Array, " n"],
        at: Solution,
        ridge: float,
    ) -> float:
        """P + (1/n) sum l*(m) + |F^T m/n|^2/(4 ridge), over P; l*(m) = m z - l(y, z)."""
        zero, objective = np.zeros(self.geometry.unknowns), self.objective(at, ridge)
        _, square = self.geometry.gradient(multipliers, zero, ridge)
        conjugate = multipliers * points - self.loss.value(self.labels, points)
        gap = objective + float(conjugate.mean()) + square / (4 * ridge)
        return (gap + self._imbalance(multipliers, at)) / max(objective, self._smallest)


def _spread(labels: Float[Array, " n"]) -> float:
    """The size of labels that are not all equal, else 1."""
    return float(labels.std()) or 1.0


def solve_losses(
    question: Question, geometry: Geometry, ridges: tuple[float, ...]
) -> tuple[Float[Array, "k ridges"], Float[Array, " ridges"]]:
    """Coordinates and constants for every ridge."""
    found = Fit(question, geometry).path(ridges)
    constants = np.array([each.intercept for each in found])
    return np.stack([each.coordinates for each in found], axis=1), constants
