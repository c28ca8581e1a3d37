"""Singular values of one matrix and as many of its vectors as are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy  # whose parts load when they are used: sparse takes long

if TYPE_CHECKING:
    from firststep.typing import Array, Float

# Short sides up to here: all vectors at once. Beyond, the values come from the product of the
# matrix with itself, twice as fast, and vectors from Lanczos iterations on it.
_WHOLE = 400
# Of the largest value: smaller ones are lost in the rounding of single precision or of the product.
LOST = 1e-6


@dataclass(frozen=True, eq=False)
class Singular:
    """A matrix and its singular values, largest first."""

    matrix: Float[Array, "m n"]

    @cached_property
    def values(self) -> Float[Array, " short"]:
        if min(self.matrix.shape) <= _WHOLE:
            return self._parts[1]
        squares = scipy.linalg.eigh(self._product, eigvals_only=True, check_finite=False)[::-1]
        return np.sqrt(np.maximum(squares, 0.0))

    @property
    def rank(self) -> int:
        """How many values are not lost in rounding."""
        return int(np.count_nonzero(self.values > LOST * self.values[0]))

    def leading(self, count: int) -> tuple[Float[Array, "m k"], Float[Array, "n k"]]:
        """The singular vectors of the first values, in columns."""
        count = min(count, len(self.values))
        if not count:
            rows, columns = self.matrix.shape
            return np.empty((rows, 0)), np.empty((columns, 0))
        if min(self.matrix.shape) <= _WHOLE:
            left, _, right = self._parts
            return left[:, :count], right[:count].T
        start = np.ones(len(self._product))  # the same every time
        _, vectors = scipy.sparse.linalg.eigsh(
            self._product, count, which="LA", v0=start, ncv=max(4 * count, 40)
        )
        vectors = vectors[:, ::-1]
        is_tall = self.matrix.shape[0] >= self.matrix.shape[1]
        others = (self.matrix if is_tall else self.matrix.T) @ vectors
        others = others / np.linalg.norm(others, axis=0)
        return (others, vectors) if is_tall else (vectors, others)

    def without(self, count: int) -> Float[Array, "m n"]:
        """The matrix less its first singular directions."""
        left, right = self.leading(count)
        return self.matrix - left @ (self.values[:count, None] * right.T)

    @cached_property
    def _parts(
        self,
    ) -> tuple[Float[Array, "m short"], Float[Array, " short"], Float[Array, "short n"]]:
        left, values, right = np.linalg.svd(self.matrix, full_matrices=False)
        return left, values, right

    @cached_property
    def _product(self) -> Float[Array, "short short"]:
        rows, columns = self.matrix.shape
        return self.matrix.T @ self.matrix if rows >= columns else self.matrix @ self.matrix.T
