"""Readouts of classes on weighted rows: a loss and a ridge, for one ridge or a descent of several.

With features F (n x N), centred, labels Y (n x K; 1 for the class of a row and 0; two classes have
the column of the second alone), weights v and p > 0,

    sum_i v_i l(Y_i, b0 + F_i B) + p |B|^2

is minimised over B (N x K) and b0. A row of weight 2 counts as two rows. ``softmax_ridge`` has the
logistic loss; the others are those of labels +-1, a fit for every column, by the fits of the
simulator on the loss v l.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.losses import Loss, Score
from firststep.simulation.fit.convex import Fit, Question, Solution
from firststep.simulation.fit.geometry import Dual, geometry_of

if TYPE_CHECKING:
    from firststep.typing import Array, Float


class Solved(NamedTuple):
    """B and b0: the outputs are constant + (F - centre) B."""

    readout: Float[Array, "N K"]
    constant: Float[Array, " K"]


class ClassFit(ABC):
    """Features and labels of one layer; ``features`` is used up."""

    def __init__(
        self,
        features: Float[Array, "n N"],
        labels: Float[Array, "n K"],
        weights: Float[Array, " n"],
    ) -> None:
        self.labels, self.weights, self.total = labels, weights, float(weights.sum())
        self.centre = weights @ features / self.total
        features -= self.centre
        self.features = features
        squares = np.einsum("ij,ij->i", features, features)
        # the mean squared length of a centred row: the natural unit of a penalty
        self.unit = max(float(weights @ squares / self.total), np.finfo(float).tiny)

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.unit))

    @abstractmethod
    def descend(self, penalties: list[float]) -> Iterator[Solved]:
        """Penalties from the largest down, each solved when it is asked for, to three digits or
        better: to be compared.
        """

    @abstractmethod
    def fit(self, penalty: float) -> Solved:
        """One, exactly."""


@dataclass(frozen=True)
class WeightedLoss(Loss):
    """v l(y, f) for all rows at once."""

    loss: Loss
    weights: Float[Array, " n"]

    # Of another loss: ``name`` and ``meaning`` are those of a registry, which this is no part of.
    @property
    def is_margin(self) -> bool:  # type: ignore[override]
        return self.loss.is_margin

    @property
    def is_smooth(self) -> bool:  # type: ignore[override]
        return self.loss.is_smooth

    def value(self, y: Float[Array, " n"], f: Float[Array, " n"]) -> Float[Array, " n"]:
        return self.weights * self.loss.value(y, f)

    def slope(self, y: Float[Array, " n"], f: Float[Array, " n"]) -> Float[Array, " n"]:
        return self.weights * self.loss.slope(y, f)

    def curvature(self, y: Float[Array, " n"], f: Float[Array, " n"]) -> Float[Array, " n"]:
        return self.weights * self.loss.curvature(y, f)

    def score(
        self, y: Float[Array, " n"], f0: Float[Array, " n"], leverage: Float[Array, " n"]
    ) -> Score:
        """min_f v l + (f - f0)^2/V has the point of l with V v, and g = (f - f0)/V is v times."""
        g, slope, point = self.loss.score(y, f0, leverage * self.weights)
        return Score(self.weights * g, self.weights * slope, point)


class OneVsRest(ClassFit):
    """A loss of labels +-1, for every column by itself."""

    def __init__(
        self,
        features: Float[Array, "n N"],
        labels: Float[Array, "n K"],
        weights: Float[Array, " n"],
        loss: Loss,
    ) -> None:
        super().__init__(features, labels, weights)
        if not self.is_finite:
            return
        shared = geometry_of(self.features)
        # means over rows become sums of weights
        weighted = WeightedLoss(loss, weights * (len(weights) / self.total))
        # what a geometry learns on the way is of use for its own column only
        self._fits = [
            Fit(Question(weighted, np.ascontiguousarray(column), True), copy.copy(shared))
            for column in (2 * labels - 1).T
        ]

    def descend(self, penalties: list[float]) -> Iterator[Solved]:
        ridges = tuple(each / self.total for each in penalties)
        for steps in zip(*(fit.descend(ridges) for fit in self._fits), strict=True):
            yield self._solved([at for _, at in steps])

    def fit(self, penalty: float) -> Solved:
        # from larger ones down: the first descents from nothing can be long
        ridges = tuple(penalty / self.total * factor for factor in (100.0, 10.0, 1.0))
        return self._solved([fit.path(ridges)[-1] for fit in self._fits])

    def _solved(self, found: list[Solution]) -> Solved:
        columns = [
            self.features.T @ at.coordinates if isinstance(fit.geometry, Dual) else at.coordinates
            for fit, at in zip(self._fits, found, strict=True)
        ]
        return Solved(np.stack(columns, axis=1), np.array([at.intercept for at in found]))
