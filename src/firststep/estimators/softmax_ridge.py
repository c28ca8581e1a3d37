"""Logistic regression of several classes with a free constant, a ridge and weighted rows.

The loss of ``class_fits`` is here -log P(class), in nats: with P = softmax(f), or for the single
column of two classes P = sigmoid(f), it is minimised by Newton's method. The gradient is
F^T v (P - Y) + 2 p B, and a step solves

    F^T v (P o D - P sum_k P o D) + 2 p dB = -gradient,    D = F dB + db0

(one column: P (1 - P) D) by conjugate gradients, preconditioned with h F^T v F + 2 p, h the mean of
P (1 - P): one Cholesky factorisation serves until h has changed by half. With fewer rows than
features F is replaced by the Cholesky factor L of F F^T, which has the same products, and B is
F^T L^-T times what is found.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import lapack, solve_triangular
from scipy.special import expit, log_softmax, softmax

from firststep.errors import NotConverged
from firststep.estimators.class_fits import ClassFit, Solved
from firststep.estimators.weighted_ridge import FLOOR

if TYPE_CHECKING:
    from firststep.typing import Array, Float

STEPS = 100  # of Newton's method: 4 to 10 are usual
PRODUCTS = 300  # with the Hessian, for one step
CURVED = 1e-4  # least h: rows that are fitted perfectly have no curvature
OLD = 2.0  # factor by which h may have changed before there is another factorisation
HALVINGS = 40


class Care(NamedTuple):
    """How exact a minimum has to be."""

    decrement: float  # what Newton's last step promises to gain, over the objective
    residual: float  # of Newton's equations, squared, in the metric of the preconditioner


EXACT = Care(1e-9, 1e-6)
# What is left after the last step is some hundredth of what it gains: held-out losses are those of
# the minimum to two or three digits, and errors are alike at neighbouring ridges.
ROUGH = Care(2e-2, 1e-2)


def probabilities(outputs: Float[Array, "n K"]) -> Float[Array, "n K"]:
    """Of the classes; of the second of two from their single column."""
    return expit(outputs) if outputs.shape[1] == 1 else softmax(outputs, axis=1)


def log_losses(outputs: Float[Array, "n K"], labels: Float[Array, "n K"]) -> Float[Array, " n"]:
    """-log P(class) of every row."""
    if outputs.shape[1] == 1:
        return np.logaddexp(0, outputs[:, 0]) - labels[:, 0] * outputs[:, 0]
    return -(labels * log_softmax(outputs, axis=1)).sum(axis=1)


class Pair(NamedTuple):
    """Of B in the coordinates of the factor, and of b0."""

    slopes: Float[Array, "r K"]
    constant: Float[Array, " K"]

    def plus(self, length: float, other: Pair) -> Pair:
        return Pair(self.slopes + length * other.slopes, self.constant + length * other.constant)

    def times(self, other: Pair) -> float:
        return float(np.vdot(self.slopes, other.slopes) + self.constant @ other.constant)


class SoftmaxRidge(ClassFit):
    """Logistic regression on the features of one layer."""

    def __init__(
        self,
        features: Float[Array, "n N"],
        labels: Float[Array, "n K"],
        weights: Float[Array, " n"],
    ) -> None:
        super().__init__(features, labels, weights)
        if not self.is_finite:
            return
        self._is_wide = len(features) <= features.shape[1]
        self._rows = self._factor() if self._is_wide else self.features
        self._gram = self._rows.T @ (weights[:, None] * self._rows)
        columns = labels.shape[1]
        self._at = Pair(np.zeros((self._rows.shape[1], columns)), np.zeros(columns))
        self._smooth = (0.0, 0.0, np.empty(0))  # penalty, h and factor of the preconditioner

    def descend(self, penalties: list[float]) -> Iterator[Solved]:
        for penalty in sorted(penalties, reverse=True):
            yield self._solve(penalty, ROUGH)

    def fit(self, penalty: float) -> Solved:
        return self._solve(penalty, EXACT)

    def _solve(self, penalty: float, care: Care) -> Solved:
        """From the last minimum that was found."""
        at, weights = self._at, self.weights[:, None]
        outputs = self._rows @ at.slopes + at.constant
        value = self._value(outputs, at, penalty)
        for _ in range(STEPS):
            chances = probabilities(outputs)
            pull = weights * (chances - self.labels)
            gradient = Pair(self._rows.T @ pull + 2 * penalty * at.slopes, pull.sum(axis=0))
            move = self._newton(gradient, chances, penalty, care.residual)
            descent = -gradient.times(move)
            if not descent > 0:
                break
            is_last = descent <= care.decrement * value
            moved, length = self._rows @ move.slopes + move.constant, 1.0
            for _ in range(HALVINGS):
                there = at.plus(length, move)
                fallen = self._value(outputs + length * moved, there, penalty)
                if fallen <= value - 1e-4 * length * descent:
                    break
                length /= 2
            else:
                break  # rounding leaves no descent
            at, value, outputs = there, fallen, outputs + length * moved
            if is_last:
                break
        else:
            raise NotConverged("logistic regression did not end: try larger ridges")
        self._at = at
        return Solved(self._readout(at.slopes), at.constant)

    def _readout(self, slopes: Float[Array, "r K"]) -> Float[Array, "N K"]:
        if not self._is_wide:
            return slopes
        inner = solve_triangular(self._rows, slopes, lower=True, trans="T")
        return np.asarray(self.features.T @ inner)

    def _factor(self) -> Float[Array, "n n"]:
        gram, floor = self.features @ self.features.T, FLOOR * self.unit
        while True:
            matrix = gram.copy()
            matrix.flat[:: len(matrix) + 1] += floor
            factor, failed = lapack.dpotrf(matrix.T, lower=1, clean=1, overwrite_a=1)
            if not failed:
                return np.ascontiguousarray(factor)
            floor *= 100

    def _value(self, outputs: Float[Array, "n K"], at: Pair, penalty: float) -> float:
        square = float(np.vdot(at.slopes, at.slopes))
        return float(self.weights @ log_losses(outputs, self.labels)) + penalty * square

    def _smoothing(self, chances: Float[Array, "n K"], penalty: float) -> tuple[float, Array]:
        """h and the Cholesky factor of h F^T v F + 2 p, as they were if they still serve."""
        shares = self.weights / self.total
        mean = max(CURVED, float(shares @ (chances * (1 - chances)).mean(axis=1)))
        known, old, factor = self._smooth
        if known == penalty and old / OLD <= mean <= old * OLD:
            return old, factor
        matrix = mean * self._gram
        matrix.flat[:: len(matrix) + 1] += 2 * penalty
        factor, failed = lapack.dpotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
        if failed:
            raise NotConverged("no ridge gave a fit that can be trusted: try larger ridges")
        self._smooth = (penalty, mean, factor)
        return mean, factor

    def _hessian(self, move: Pair, chances: Float[Array, "n K"], penalty: float) -> Pair:
        bent = chances * (self._rows @ move.slopes + move.constant)
        bent -= chances * bent.sum(axis=1, keepdims=True)
        bent *= self.weights[:, None]
        return Pair(self._rows.T @ bent + 2 * penalty * move.slopes, bent.sum(axis=0))

    def _newton(
        self, gradient: Pair, chances: Float[Array, "n K"], penalty: float, residual: float
    ) -> Pair:
        """Newton's step by conjugate gradients."""
        mean, factor = self._smoothing(chances, penalty)

        def smoothed(pull: Pair) -> Pair:
            solved, _ = lapack.dpotrs(factor, pull.slopes, lower=1)
            return Pair(solved, pull.constant / (mean * self.total))

        found = Pair(np.zeros_like(gradient.slopes), np.zeros_like(gradient.constant))
        left = found.plus(-1.0, gradient)
        along = smoothed(left)
        square = left.times(along)
        wanted = residual * square
        for _ in range(PRODUCTS):
            turned = self._hessian(along, chances, penalty)
            bend = along.times(turned)
            if not bend > 0:
                break
            found, left = found.plus(square / bend, along), left.plus(-square / bend, turned)
            near = smoothed(left)
            before, square = square, left.times(near)
            if not square > wanted:
                break
            along = near.plus(square / before, along)
        return found
