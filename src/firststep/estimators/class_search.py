"""The ridge of a readout of classes, by its loss on rows held out.

The layers are those of ``redraw_search``, one for each part; ridges are tried from the largest down
until the loss has risen. Where the best is hardly better than the largest ridge, which leaves
little but the shares of the classes, it may be luck and the largest ridge is taken.

A class without rows in a part's fit has no say there: its rows held out are left out, and a part
whose fit has one class is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.errors import NotConverged
from firststep.estimators.class_fits import ClassFit, OneVsRest, Solved
from firststep.estimators.fits import OVERFLOW
from firststep.estimators.softmax_ridge import SoftmaxRidge, log_losses
from firststep.losses import Logistic, Loss

if TYPE_CHECKING:
    from firststep.typing import Array, Bool, Float

RIDGES = 10.0 ** np.arange(3, -6.01, -0.5)  # in units of ``ClassFit.unit``, from the largest
RISEN = 1.03  # a loss over the least so far that ends the path
WORSE = 3  # ridges one after the other that are no better: they end it too
# Nats, summed over the rows held out, by which the best must be below the largest ridge: half the
# square of a t statistic of 2.4, as in ``redraw_search``.
DOUBT = 3.0


class Part(NamedTuple):
    """A layer of one part: features and labels of rows to fit and of rows held out."""

    features: Callable[[], Float[Array, "n N"]]
    labels: Float[Array, "n K"]
    weights: Float[Array, " n"]
    held: Callable[[], Float[Array, "m N"]]
    wanted: Float[Array, "m K"]
    counted: Float[Array, " m"]


@dataclass(frozen=True)
class Chosen:
    """A ridge, and what was found for all that were tried."""

    place: int
    loss: float  # held out; nan where nothing could be
    error_rate: float


def make_fit(
    loss: Loss,
    features: Float[Array, "n N"],
    labels: Float[Array, "n K"],
    weights: Float[Array, " n"],
) -> ClassFit:
    made: ClassFit
    if isinstance(loss, Logistic):
        made = SoftmaxRidge(features, labels, weights)
    else:
        made = OneVsRest(features, labels, weights, loss)
    if not made.is_finite:
        raise NotConverged(OVERFLOW)
    return made


def row_losses(
    loss: Loss, outputs: Float[Array, "n K"], labels: Float[Array, "n K"]
) -> Float[Array, " n"]:
    """Of every row; of losses of labels +-1 the mean over the columns."""
    if isinstance(loss, Logistic):
        return log_losses(outputs, labels)
    return loss.value(2 * labels - 1, outputs).mean(axis=1)


def are_wrong(outputs: Float[Array, "n K"], labels: Float[Array, "n K"]) -> Bool[Array, " n"]:
    """Whether the class of a row is not the one predicted."""
    if outputs.shape[1] == 1:
        return np.asarray((outputs[:, 0] > 0) != (labels[:, 0] > 0))
    return np.asarray(np.argmax(outputs, axis=1) != np.argmax(labels, axis=1))


def present(labels: Float[Array, "n K"]) -> Bool[Array, " K"]:
    """The columns of classes that have rows; of a single column, whether both have."""
    found = np.asarray(labels.any(axis=0))
    return np.asarray(found & ~labels.all(axis=0)) if labels.shape[1] == 1 else found


class _Tried:
    """One part on its way down the ridges."""

    def __init__(self, part: Part, loss: Loss, ridges: Float[Array, " ridges"] | None) -> None:
        self._loss, columns = loss, present(part.labels)
        labels, wanted = part.labels[:, columns], part.wanted[:, columns]
        # rows held out of a class that the fit has not seen tell nothing
        judged = np.ones(len(wanted), dtype=bool) if len(columns) == 1 else wanted.any(axis=1)
        if columns.sum() == 2:
            labels, wanted = labels[:, 1:], wanted[:, 1:]
        self._fit = make_fit(loss, part.features(), labels, part.weights)
        self._held = (part.held() - self._fit.centre)[judged]
        self._wanted, self._counted = wanted[judged], part.counted[judged]
        self._steps = self._fit.descend(penalties(self._fit, ridges))

    def next(self) -> tuple[float, float, float]:
        """At the next ridge: loss, wrong rows and rows, weighted."""
        found: Solved = next(self._steps)
        outputs = found.constant + self._held @ found.readout
        loss = self._counted @ row_losses(self._loss, outputs, self._wanted)
        wrong = self._counted @ are_wrong(outputs, self._wanted)
        return float(loss), float(wrong), float(self._counted.sum())


def penalties(fit: ClassFit, ridges: Float[Array, " ridges"] | None) -> list[float]:
    """p from the largest down; given ridges are those of (1/n) sum l + ridge |B|^2."""
    if ridges is None:
        return [float(each) * fit.unit for each in RIDGES]
    return [fit.total * float(each) for each in sorted(ridges, reverse=True)]


def choose(parts: list[Part], loss: Loss, ridges: Float[Array, " ridges"] | None) -> Chosen:
    """The place of the best ridge among ``penalties``."""
    usable = [each for each in parts if present(each.labels).sum() > (each.labels.shape[1] > 1)]
    tried = [_Tried(each, loss, ridges) for each in usable]
    count = len(RIDGES if ridges is None else ridges)
    found: list[tuple[float, float]] = []
    rows, best = 0.0, 0
    while tried and len(found) < count:
        try:
            sums = np.sum([each.next() for each in tried], axis=0)
        except NotConverged:  # as far down as it goes
            break
        rows = float(sums[2])
        if not rows > 0 or not np.isfinite(sums[0]):
            break
        found.append((float(sums[0]) / rows, float(sums[1]) / rows))
        best = best if found[-1][0] >= found[best][0] else len(found) - 1
        if found[-1][0] > RISEN * found[best][0] or len(found) > best + WORSE:
            break
    if not found:
        return Chosen(0, float("nan"), float("nan"))
    if (
        ridges is None
        and isinstance(loss, Logistic)
        and rows * (found[0][0] - found[best][0]) < DOUBT
    ):
        best = 0
    return Chosen(best, *found[best])
