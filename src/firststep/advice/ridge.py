"""Ridge regression with a free constant on a table of numbers, by one eigendecomposition.

With f and y centred, e and V the eigenvalues and eigenvectors of f^T f (or those of f f^T, U, where
rows are fewer than columns) and a penalty p, the residuals, what leave-one-out divides them by, and
the solution are

    rows > columns   Z = f V:  r = y - Z (V^T f^T y/(e + p)),  1 - h_i = 1 - 1/n - [Z^2/(e + p)]_i
    else             r = U (p/(e + p)) U^T y,                  1 - h_i = [U^2 p/(e + p)]_i - 1/n
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import scipy.linalg

from firststep.errors import NotConverged

if TYPE_CHECKING:
    from firststep.typing import Array, Float

LINEAR_PENALTIES = np.geomspace(1e6, 1e-4, 31)  # over the rows, of columns of variance one
SMALLEST_GAP = 1e-9  # 1 - h below this is rounding


@dataclass(frozen=True)
class Spectrum:
    """The eigendecomposition of centred features, and what it says for any penalty.

    Of more columns than rows it is that of f f^T across the constant, which is left out exactly:
    the free constant fits it, and to take its 1/n off afterwards would leave rounding where gaps
    are small.
    """

    features: Float[Array, "n N"]
    target: Float[Array, " n"]
    values: Float[Array, " k"]
    vectors: Float[Array, "m k"]

    @classmethod
    def of(cls, features: Float[Array, "n N"], target: Float[Array, " n"]) -> Self:
        f, y = features - features.mean(axis=0), target - target.mean()
        is_tall = len(f) > f.shape[1]
        gram = f.T @ f if is_tall else f @ f.T
        size = float(np.linalg.norm(gram))  # no eigenvalue is larger
        if not size > 0:
            raise NotConverged("the features do not vary")
        if not is_tall:  # the constant, of no variance here, goes to the top, where it is alone
            gram = gram + 2 * size / len(f)
        values, vectors = scipy.linalg.eigh(gram, driver="evd", check_finite=False)
        if not is_tall:
            values, vectors = values[:-1], vectors[:, :-1]
        return cls(f, y, np.maximum(values, 0.0), vectors)

    @property
    def is_tall(self) -> bool:
        return len(self.target) > self.features.shape[1]

    def residuals(
        self, penalties: Float[Array, " p"]
    ) -> tuple[Float[Array, "n p"], Float[Array, "n p"]]:
        """Residuals, and 1 - h; their ratio is the error when the row is left out."""
        if self.is_tall:
            n = len(self.target)
            rotated = self.features @ self.vectors
            inverse = 1 / (self.values[:, None] + penalties)
            right = self.vectors.T @ (self.features.T @ self.target)
            fitted = rotated @ (inverse * right[:, None])
            return self.target[:, None] - fitted, 1 - 1 / n - rotated**2 @ inverse
        shrunk = penalties / (self.values[:, None] + penalties)
        residual = self.vectors @ (shrunk * (self.vectors.T @ self.target)[:, None])
        return residual, self.vectors**2 @ shrunk

    def solution(self, penalty: float) -> Float[Array, " N"]:
        """b of f b."""
        inverse = 1 / (self.values + penalty)
        if self.is_tall:
            right = self.vectors.T @ (self.features.T @ self.target)
            return self.vectors @ (inverse * right)
        return self.features.T @ (self.vectors @ (inverse * (self.vectors.T @ self.target)))


class LinearFit:
    """Ridge regression on the columns in standard units, the penalty by leave-one-out."""

    def fit(self, x: Float[Array, "n d"], y: Float[Array, " n"]) -> Self:
        self._mean, spread = x.mean(axis=0), x.std(axis=0)
        self._scale = np.where(spread > 0, spread, 1.0)
        self._constant, self._solution = float(y.mean()), np.zeros(x.shape[1])
        scaled = (x - self._mean) / self._scale
        if not spread.any():
            return self
        found, penalties = Spectrum.of(scaled, y), len(y) * LINEAR_PENALTIES
        residual, gap = found.residuals(penalties)
        errors = np.where(
            gap.min(axis=0) > SMALLEST_GAP,
            ((residual / np.maximum(gap, SMALLEST_GAP)) ** 2).mean(axis=0),
            np.inf,
        )
        self._solution = found.solution(float(penalties[int(np.argmin(errors))]))
        return self

    def predict(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        return (x - self._mean) / self._scale @ self._solution + self._constant
