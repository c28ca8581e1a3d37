"""The readout of any convex loss: a path of ridges from the largest down, each from the one above.

Minimised is P = (1/n) sum_i l(y_i, f_i) + ridge |b|^2, f = F b (+ b0), by Newton's method with a
line search. With m = l'(y, f) and d = l''(y, f) the gradient is F^T m/n + 2 ridge b and the Hessian
F^T diag(d) F/n + 2 ridge; rows without curvature are left out of it. In two geometries:

    primal (n >= N)   unknown b; one N x N Cholesky factorisation a step
    dual   (n <  N)   unknown c, b = F^T c, f = K c with K = F F^T, formed once; by Woodbury one
                      factorisation of the size of the rows with curvature a step. A kernel is this
                      with its own K.

A loss with kinks (hinge, quantile) is minimised by the method of multipliers on z = f: with the
envelope e_V(y, f) = min_z l(y, z) + (z - f)^2/V, whose slope is -2 g and whose curvature is 2
(-dg/df) of ``Loss.score``, minimise (1/n) sum_i e_V(y_i, f_i + V m_i/2) + ridge |b|^2 by Newton's
method, then m = -2 g, and V a tenth of what it was.

An answer has a duality gap of at most GAP times P: for a smooth loss the gap is |gradient|^2/(4
ridge) (the dual point is m = l'(y, f)), for the others P + (1/n) sum_i m_i y_i + |F^T m/n|^2/(4
ridge), as l* (m) = m y. With a free constant the mean of m, which must vanish, is at most BALANCE
times its mean size. If that cannot be reached, ``NotConverged``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.linalg.blas
from scipy.linalg import lapack

from firststep.errors import NotConverged

if TYPE_CHECKING:
    from firststep.losses import Loss
    from firststep.typing import Array, Float

GAP = 1e-9  # duality gap over the objective
BALANCE = 1e-7
ROUNDING = 1e-6  # a gap that is accepted where rounding ends the progress
ENVELOPE = 1e-11  # gap of the smooth problems inside the method of multipliers
STEPS = 200  # of Newton's method; a path rarely needs more than 20 at one ridge
ROUNDS = 60  # of the method of multipliers: 5 to 12 are usual
SHORTER = 10.0  # factor by which V falls from round to round
ROWS = 1024  # handled at a time while a Hessian is summed up
HALVINGS = 60


class Solution(NamedTuple):
    """A fit: b in the coordinates of its geometry, the constant, predictions on the data."""

    coordinates: Float[Array, " k"]
    intercept: float
    predicted: Float[Array, " n"]
    penalty: float  # |b|^2
    steps: int = 0


class Move(NamedTuple):
    """A direction: of the coordinates, of the constant, of the predictions, and of |b|^2."""

    coordinates: Float[Array, " k"]
    intercept: float
    predicted: Float[Array, " n"]
    cross: float  # <b, p>
    square: float  # |p|^2


class Geometry(ABC):
    """How b is written and how Newton's equations are solved."""

    def __init__(self, samples: int, unknowns: int) -> None:
        self.samples, self.unknowns = samples, unknowns

    @abstractmethod
    def predict(self, coordinates: Float[Array, " k"]) -> Float[Array, " n"]:
        """F b."""

    @abstractmethod
    def gradient(
        self, slopes: Float[Array, " n"], coordinates: Float[Array, " k"], ridge: float
    ) -> tuple[Float[Array, " k"], float]:
        """F^T m/n + 2 ridge b in the coordinates, and its squared norm."""

    @abstractmethod
    def solve(
        self, bends: Float[Array, " n"], ridge: float, *right: Float[Array, " k"]
    ) -> list[Float[Array, " k"]]:
        """Coordinates of H^-1 times vectors in the same coordinates, H the Hessian."""

    @abstractmethod
    def pull(self, weights: Float[Array, " n"]) -> Float[Array, " k"]:
        """Coordinates of F^T weights."""

    @abstractmethod
    def product(
        self, left: Float[Array, " k"], right: Float[Array, " k"], predicted: Float[Array, " n"]
    ) -> float:
        """<b, b'> of two coordinates, given F b'."""


class Primal(Geometry):
    """Coordinates are b."""

    def __init__(self, features: Float[Array, "n N"]) -> None:
        super().__init__(*features.shape)
        self._features = features

    def predict(self, coordinates: Float[Array, " k"]) -> Float[Array, " n"]:
        return self._features @ coordinates

    def gradient(
        self, slopes: Float[Array, " n"], coordinates: Float[Array, " k"], ridge: float
    ) -> tuple[Float[Array, " k"], float]:
        found = self.pull(slopes / self.samples) + 2 * ridge * coordinates
        return found, float(found @ found)

    def pull(self, weights: Float[Array, " n"]) -> Float[Array, " k"]:
        return weights @ self._features

    def product(
        self, left: Float[Array, " k"], right: Float[Array, " k"], predicted: Float[Array, " n"]
    ) -> float:
        return float(left @ right)

    def solve(
        self, bends: Float[Array, " n"], ridge: float, *right: Float[Array, " k"]
    ) -> list[Float[Array, " k"]]:
        active = np.flatnonzero(bends)
        hessian = np.zeros((self.unknowns, self.unknowns), order="F")
        for first in range(0, len(active), ROWS):
            some = active[first : first + ROWS]
            rows = self._features[some] * np.sqrt(bends[some] / self.samples)[:, None]
            hessian = scipy.linalg.blas.dsyrk(
                1.0, rows.T, beta=1.0, c=hessian, lower=1, overwrite_c=1
            )
        np.einsum("ii->i", hessian)[:] += 2 * ridge
        factor = _cholesky(hessian)
        return [lapack.dpotrs(factor, each, lower=1)[0] for each in right]


class Dual(Geometry):
    """Coordinates are c, b = F^T c; K = F F^T, or a kernel."""

    def __init__(self, gram: Float[Array, "n n"]) -> None:
        super().__init__(len(gram), len(gram))
        self._gram = gram

    def predict(self, coordinates: Float[Array, " k"]) -> Float[Array, " n"]:
        return self._gram @ coordinates

    def gradient(
        self, slopes: Float[Array, " n"], coordinates: Float[Array, " k"], ridge: float
    ) -> tuple[Float[Array, " k"], float]:
        found = slopes / self.samples + 2 * ridge * coordinates
        return found, float(found @ (self._gram @ found))

    def pull(self, weights: Float[Array, " n"]) -> Float[Array, " k"]:
        return weights

    def product(
        self, left: Float[Array, " k"], right: Float[Array, " k"], predicted: Float[Array, " n"]
    ) -> float:
        return float(left @ predicted)

    def solve(
        self, bends: Float[Array, " n"], ridge: float, *right: Float[Array, " k"]
    ) -> list[Float[Array, " k"]]:
        """x = (r - s v)/(2 ridge), (1 + s K s) v = s K r, s = sqrt(d/(2 ridge n))."""
        active = np.flatnonzero(bends)
        roots = np.sqrt(bends[active] / (2 * ridge * self.samples))
        small = np.asfortranarray(self._gram[np.ix_(active, active)])
        small *= roots[:, None]
        small *= roots
        np.einsum("ii->i", small)[:] += 1.0
        factor = _cholesky(small) if len(active) else small
        found = []
        for each in right:
            x = each.copy()
            if len(active):
                known = roots * (self._gram[active] @ each)
                x[active] -= roots * lapack.dpotrs(factor, known, lower=1)[0]
            found.append(x / (2 * ridge))
        return found


def _cholesky(matrix: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """The lower factor, in place."""
    factor, info = lapack.dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
    if info:
        raise NotConverged("the fit of the readout failed: the features or the kernel are not fit")
    return factor


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

    def curve(self, f: Float[Array, " n"]) -> Curve:
        at = f + self.width / 2 * self.multipliers
        score = self._loss.score(self._labels, at, np.full_like(at, self.width))
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

    def path(self, ridges: tuple[float, ...]) -> list[Solution]:
        """One solution a ridge, in the order given; solved from the largest down."""
        nothing = Solution(np.zeros(self.geometry.unknowns), 0.0, np.zeros_like(self.labels), 0.0)
        found: dict[float, Solution] = {}
        last, multipliers = nothing, np.zeros_like(self.labels)
        for ridge in sorted(set(ridges), reverse=True):
            if self.loss.is_smooth:
                last = self._newton(_Smooth(self.loss, self.labels), last, ridge, GAP)
            else:
                last, multipliers = self._multipliers(last, multipliers, ridge)
            found[ridge] = last
        return [found[ridge] for ridge in ridges]

    def objective(self, at: Solution, ridge: float) -> float:
        return float(self.loss.value(self.labels, at.predicted).mean()) + ridge * at.penalty

    # Newton's method ------------------------------------------------------------------------------

    def _newton(
        self, sum_of: _Smooth | _Envelope, at: Solution, ridge: float, tolerance: float
    ) -> Solution:
        gap = np.inf
        for number in range(STEPS):
            curve = sum_of.curve(at.predicted)
            objective = float(curve.value.mean()) + ridge * at.penalty
            gradient, square = self.geometry.gradient(curve.slopes, at.coordinates, ridge)
            if not np.isfinite(objective + square):
                raise NotConverged("the fit of the readout is not finite: the features overflow")
            drift = float(curve.slopes.mean()) if self.has_intercept else 0.0
            gap = square / (4 * ridge)
            level = float(np.abs(curve.slopes).mean())
            if gap <= tolerance * objective and abs(drift) <= BALANCE * level:
                return at._replace(steps=number)
            move = self._move(curve, at, (gradient, drift), ridge)
            length = self._length(sum_of, at, move, ridge)
            if length == 0.0:
                break
            at = _moved(at, move, length)
        if gap <= ROUNDING * objective and abs(drift) <= 10 * BALANCE * level:
            return at
        raise NotConverged(
            f"the fit of the readout stopped at a duality gap of {gap / objective:.1e} of its "
            f"objective at ridge {ridge:g}; try a larger ridge"
        )

    def _move(
        self, curve: Curve, at: Solution, gradient: tuple[Float[Array, " k"], float], ridge: float
    ) -> Move:
        """Newton's direction; with a constant, by its Schur complement."""
        geometry, (slope, drift) = self.geometry, gradient
        n = geometry.samples
        step, shift = None, 0.0
        if self.has_intercept:
            beside = geometry.pull(curve.bends / n)
            inner, other = geometry.solve(curve.bends, ridge, slope, beside)
            schur = float(curve.bends.mean() - curve.bends @ geometry.predict(other) / n)
            # without curvature the constant moves by ten at most
            schur = max(schur, 0.1 * abs(drift), 1e-14)
            shift = (float(curve.bends @ geometry.predict(inner)) / n - drift) / schur
            step = -(inner + shift * other)
        else:
            (inner,) = geometry.solve(curve.bends, ridge, slope)
            step = -inner
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
        inside = _Envelope(self.loss, self.labels, 4 * _spread(self.labels))
        inside.multipliers, steps, gap = multipliers, 0, np.inf
        for _ in range(ROUNDS):
            at = self._newton(inside, at, ridge, ENVELOPE)
            steps += at.steps
            inside.multipliers = inside.curve(at.predicted).slopes
            objective = self.objective(at, ridge)
            gap = self._gap(inside.multipliers, objective, ridge)
            if gap <= GAP * objective:
                return at._replace(steps=steps), inside.multipliers
            inside.width /= SHORTER
        if gap <= ROUNDING * objective:
            return at, inside.multipliers
        raise NotConverged(
            f"the fit of the readout stopped at a duality gap of {gap / objective:.1e} of its "
            f"objective at ridge {ridge:g}; try a larger ridge"
        )

    def _gap(self, multipliers: Float[Array, " n"], objective: float, ridge: float) -> float:
        zero = np.zeros(self.geometry.unknowns)
        _, square = self.geometry.gradient(multipliers, zero, ridge)
        return objective + float((multipliers * self.labels).mean()) + square / (4 * ridge)


def _spread(labels: Float[Array, " n"]) -> float:
    """The size of labels that are not all equal, else 1."""
    return float(labels.std()) or 1.0


def _moved(at: Solution, move: Move, length: float) -> Solution:
    return Solution(
        at.coordinates + length * move.coordinates,
        at.intercept + length * move.intercept,
        at.predicted + length * move.predicted,
        at.penalty + 2 * length * move.cross + length**2 * move.square,
    )


def solve_losses(
    question: Question, geometry: Geometry, ridges: tuple[float, ...]
) -> tuple[Float[Array, "k ridges"], Float[Array, " ridges"]]:
    """Coordinates and constants for every ridge."""
    found = Fit(question, geometry).path(ridges)
    constants = np.array([each.intercept for each in found])
    return np.stack([each.coordinates for each in found], axis=1), constants


def geometry_of(features: Float[Array, "n N"]) -> Geometry:
    """Of the smaller side of the features."""
    samples, width = features.shape
    if samples >= width:
        return Primal(features)
    gram = scipy.linalg.blas.dsyrk(1.0, features.T, trans=1, lower=1)
    gram += np.tril(gram, -1).T
    return Dual(gram)
