"""How the readout is fitted on the features and how a fit is judged: the ridge, exactly.

Other losses are in ``loss_fit``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.errors import NotConverged
from firststep.estimators.kernel import Affine, Kernel
from firststep.estimators.ridge_path import ridge_fit, ridge_path
from firststep.estimators.rows import Rows

if TYPE_CHECKING:
    from firststep.estimators.kernel import Weights
    from firststep.estimators.ridge_path import Ridges

OVERFLOW = (
    "the features are not finite: the student overflows on these inputs; "
    "try a smaller step or a bounded student"
)


class Judged(NamedTuple):
    """For every ridge, the error; infinite where it cannot be trusted, nan where nothing tells."""

    errors: Ridges
    rates: Ridges | None = None  # the share of rows in the wrong class


class ReadoutFit(ABC):
    """A loss, its data and a path of ridges. To be used inside ``kernel.scope()``."""

    def __init__(self, kernel: Kernel, rows: Rows, ridges: Ridges) -> None:
        self.kernel, self.rows, self.ridges = kernel, rows, ridges

    @abstractmethod
    def judge(self, weights: Weights, part: str, held: str | None) -> Judged:
        """Of fits on a part: leave-one-out errors, or errors on the rows of the part held out."""

    @abstractmethod
    def fit(self, weights: Weights, part: str, ridge: float) -> Affine:
        """One fit, on the host in double precision."""

    @abstractmethod
    def memory(self, count: int, width: int) -> int:
        """Numbers that a fit on ``count`` rows holds at once: rather too many than too few."""


class RidgeFit(ReadoutFit):
    """Ridge regression with a free intercept (``ridge_path``)."""

    def judge(self, weights: Weights, part: str, held: str | None) -> Judged:
        kernel, rows, ridges = self.kernel, self.rows, self.ridges
        path = ridge_path(kernel, lambda: rows.blocks(part), rows.count(part), weights, ridges)
        if path is None:
            return Judged(np.full(len(ridges), np.inf))
        if held is None:
            return Judged(path.errors)
        found = kernel.errors(rows.blocks(held), rows.count(held), weights, path.fits)
        return Judged(np.where(path.trusted & np.isfinite(found), found, np.inf))

    def fit(self, weights: Weights, part: str, ridge: float) -> Affine:
        rows, host = self.rows, self.kernel.backend.to_host
        fit = ridge_fit(self.kernel, rows.blocks(part), rows.count(part), weights, ridge)
        found = Affine(*(host(each).astype(float) for each in fit))
        if not np.all(np.isfinite(found.solutions)):
            raise NotConverged(OVERFLOW)
        return found

    def memory(self, count: int, width: int) -> int:
        """The Gram matrix, its eigenvectors and their workspace; few rows: all features."""
        return 5 * width**2 if count >= width else 4 * count * width + 5 * count**2
