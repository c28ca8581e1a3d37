"""Ridge regression with a free intercept on weighted rows, for a few penalties.

With features F (n x N), targets Y (n x T), weights v and p > 0, B minimises

    sum_i v_i |y_i - b0 - F_i B|^2 + p |B|^2,    so    B = (Fc^T Fc + p)^-1 Fc^T Yc,
    Fc = sqrt(v) (F - mean),  Yc = sqrt(v) (Y - mean),    means with the weights,

by one Cholesky factorisation for each penalty, of N x N or, with fewer rows than features, of
Fc Fc^T: B = Fc^T (Fc Fc^T + p)^-1 Yc. A row of weight 2 counts as two rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import lapack

if TYPE_CHECKING:
    from firststep.typing import Array, Float

# Of the mean squared length of the features, added to each penalty: what rounding does to the Gram
# matrix is below it.
FLOOR = 1e-11


class WeightedRidge:
    """Features and targets of one layer, centred; ``features`` is used up."""

    def __init__(
        self,
        features: Float[Array, "n N"],
        targets: Float[Array, "n T"],
        weights: Float[Array, " n"],
    ) -> None:
        total = weights.sum()
        self.centre, self.offset = weights @ features / total, weights @ targets / total
        features -= self.centre
        root = np.sqrt(weights)[:, None]
        features *= root
        self._features, wanted = features, root * (targets - self.offset)
        self._is_wide = len(features) <= features.shape[1]
        left = features if self._is_wide else features.T
        self._gram = left @ left.T
        self._right = wanted if self._is_wide else features.T @ wanted
        # the mean squared length of a centred row: the natural unit of a penalty
        self.unit = max(float(np.trace(self._gram) / total), np.finfo(float).tiny)

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.unit))

    def solve(self, penalty: float) -> Float[Array, "N T"] | None:
        """B, or None where rounding leaves the matrix without a Cholesky factor."""
        matrix = self._gram.copy()
        matrix.flat[:: len(matrix) + 1] += penalty + FLOOR * self.unit
        factor, failed = lapack.dpotrf(matrix.T, overwrite_a=1, clean=0)
        if failed:
            return None
        found, _ = lapack.dpotrs(factor, self._right)
        return self._features.T @ found if self._is_wide else np.asarray(found)
