"""The readout of any convex loss, for a path of ridges with approximate leave-one-out errors.

For every column of labels (one, or one a class) with the same features F = s(X W),

    (1/n) sum_i l(y_i, b0 + F_i b) + ridge |b|^2

is minimised by the simulator's fits (``simulation.fit.convex``), the ridges from the largest down
and each fit from the one before. ``simulation.fit.left_out`` gives what each would predict at a row
without that row; a ridge's error is the mean of l there, over rows and columns. The features of all
rows of the fit are in memory at once, on the host in double precision.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.errors import InvalidParameter, NotConverged
from firststep.estimators.fits import OVERFLOW, Judged, ReadoutFit
from firststep.estimators.kernel import Affine, Kernel
from firststep.estimators.rows import Rows
from firststep.estimators.targets import Classes
from firststep.losses import Loss
from firststep.simulation.fit.convex import Fit, Question, Solution
from firststep.simulation.fit.geometry import Dual, Geometry, geometry_of
from firststep.simulation.fit.left_out import Held, half_leverages

if TYPE_CHECKING:
    from firststep.estimators.kernel import Weights
    from firststep.estimators.ridge_path import Ridges
    from firststep.typing import Array, Bool, Float

# The path ends where the error is this many times its least so far. What is left are small ridges,
# which take most of the time and where leave-one-out is at its worst.
BEYOND = 2.0
# It also ends where predictions move by less than this share of their spread: the fit has reached
# its limit of no ridge (of the hinge the largest margin), which smaller ridges would only repeat.
SAME = 1e-4


class Sample(NamedTuple):
    """Features and labels on the host, in double precision, a column of labels a class."""

    features: Float[Array, "n N"]
    labels: Float[Array, "n K"]


class LossFit(ReadoutFit):
    """A convex loss, with or without a free constant."""

    def __init__(
        self, kernel: Kernel, rows: Rows, ridges: Ridges, *, loss: Loss, intercept: bool
    ) -> None:
        super().__init__(kernel, rows, ridges)
        self.loss, self.intercept = loss, intercept

    def judge(self, weights: Weights, part: str, held: str | None) -> Judged:
        sample = self._sample(weights, part)
        tests = None if held is None else self._sample(weights, held)
        finite = all(np.all(np.isfinite(each.features)) for each in (sample, tests) if each)
        if not finite:
            return self._judged(np.full((2, len(self.ridges)), np.inf))
        usable = self._usable(sample.labels)
        if not usable.any() or (held is None and len(sample.labels) == 1):
            return self._judged(np.full((2, len(self.ridges)), np.nan))
        found = np.full((2, len(self.ridges)), np.inf)
        least, last = np.inf, np.full(1, np.inf)
        for ridge, predicted in self._predictions(sample, usable, tests):
            wanted = (sample if tests is None else tests).labels
            error = float(self.loss.value(wanted, predicted)[:, usable].mean())
            if np.isfinite(error):
                found[:, self.ridges == ridge] = [[error], [_error_rate(wanted, predicted)]]
                least = min(least, error)
            if error > BEYOND * least or _is_same(last, predicted):
                break
            last = predicted
        return self._judged(found)

    def _judged(self, found: Float[Array, "2 ridges"]) -> Judged:
        errors, rates = found
        return Judged(errors, rates if isinstance(self.rows.targets, Classes) else None)

    def _predictions(
        self, sample: Sample, usable: Bool[Array, " K"], tests: Sample | None
    ) -> Iterator[tuple[float, Float[Array, "rows K"]]]:
        """For ridges from the largest down, what is predicted at rows that the fit has not seen.

        Ends where a fit does not converge. A column of one label stands for itself.
        """
        shared = geometry_of(sample.features)
        # what a geometry learns on the way is of use for its own column only
        geometries = [copy.copy(shared) for _ in range(int(usable.sum()))]
        ridges = tuple(self.ridges.tolist())
        descents = [
            self._fit(column, each).descend(ridges)
            for column, each in zip(sample.labels.T[usable], geometries, strict=True)
        ]
        count = len(sample.labels if tests is None else tests.labels)
        try:
            for steps in zip(*descents, strict=True):
                predicted = np.broadcast_to(sample.labels[0], (count, len(usable))).copy()
                for place, geometry, (ridge, at) in zip(
                    np.flatnonzero(usable), geometries, steps, strict=True
                ):
                    predicted[:, place] = (
                        self._left_out(geometry, ridge, at)
                        if tests is None
                        else tests.features @ _readout(sample.features, geometry, at) + at.intercept
                    )
                yield ridge, predicted
        except NotConverged:
            return

    def _left_out(self, geometry: Geometry, ridge: float, at: Solution) -> Float[Array, " n"]:
        assert at.slopes is not None, "every solution has its slopes"
        assert at.bends is not None, "and its curvatures"
        u = half_leverages(geometry, Held(at.bends, ridge, self.intercept))
        return at.predicted + np.where(at.slopes == 0, 0.0, u) * at.slopes

    def fit(self, weights: Weights, part: str, ridge: float) -> Affine:
        features, labels = self._sample(weights, part)
        if not np.all(np.isfinite(features)):
            raise NotConverged(OVERFLOW)
        self._refuse_missing(labels)
        shared = geometry_of(features)
        solutions, constants = [], []
        for column in labels.T:
            geometry = copy.copy(shared)
            at = self._single(self._fit(column, geometry), ridge)
            solutions.append(_readout(features, geometry, at))
            constants.append(at.intercept)
        centre = np.zeros(features.shape[1])
        if len(solutions) == 1:
            return Affine(solutions[0], centre, np.asarray(constants[0]))
        return Affine(np.stack(solutions, axis=1), centre, np.array(constants))

    def _single(self, fit: Fit, ridge: float) -> Solution:
        """From nothing, or where that fails from the larger ridges of the path, one by one."""
        try:
            return fit.path((ridge,))[0]
        except NotConverged:
            above = self.ridges[self.ridges > ridge]
            if not len(above):
                raise
            return fit.path((ridge, *above.tolist()))[0]

    def memory(self, count: int, width: int) -> int:
        """All features on the device, on the host and scaled, and a Hessian or the Gram matrix."""
        held = 4 * count * width + (4 * width**2 if count >= width else 5 * count**2)
        return held * (8 // self.kernel.backend.dtype.itemsize)  # the host's are doubles

    def _fit(self, labels: Float[Array, " n"], geometry: Geometry) -> Fit:
        return Fit(Question(self.loss, np.ascontiguousarray(labels), self.intercept), geometry)

    def _sample(self, weights: Weights, part: str) -> Sample:
        host = self.kernel.backend.to_host
        features, labels = (
            np.asarray(host(each), np.float64)
            for each in self.kernel.collect(self.rows.blocks(part), weights)
        )
        return Sample(features, labels[:, None] if labels.ndim == 1 else labels)

    def _usable(self, labels: Float[Array, "n K"]) -> Bool[Array, " K"]:
        """A margin loss with a free constant has no minimum where all labels are equal."""
        constant = np.all(labels == labels[0], axis=0)
        return ~constant if self.loss.is_margin and self.intercept else np.ones_like(constant)

    def _refuse_missing(self, labels: Float[Array, "n K"]) -> None:
        usable, targets = self._usable(labels), self.rows.targets
        if usable.all():
            return
        assert isinstance(targets, Classes), "only classes have margins"
        place = int(np.argmax(~usable & (labels[0] < 0)))
        missing = targets.values[place if targets.count > 2 else int(labels[0, 0] < 0)]
        raise InvalidParameter(
            "refit",
            "all or readout where a class has few rows",
            "none",
            f"no row of the readout is of class {missing!s}",
        )


def _readout(features: Float[Array, "n N"], geometry: Geometry, at: Solution) -> Float[Array, " N"]:
    """b of a solution."""
    return features.T @ at.coordinates if isinstance(geometry, Dual) else at.coordinates


def _is_same(before: Float[Array, "n ..."], after: Float[Array, "n K"]) -> bool:
    moved = np.abs(after - before).max()
    return bool(moved <= SAME * after.std(axis=0).max())


def _error_rate(labels: Float[Array, "n K"], predicted: Float[Array, "n K"]) -> float:
    """The share of rows whose class is not the one predicted: by sign, or the largest of many."""
    if labels.shape[1] == 1:
        return float(np.mean((predicted > 0) != (labels > 0)))
    return float(np.mean(np.argmax(predicted, axis=1) != np.argmax(labels, axis=1)))
