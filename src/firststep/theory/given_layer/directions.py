"""The directions of a first layer to condition on: where its weights stand out of their bulk."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from firststep.checks import whole
from firststep.errors import InvalidParameter

if TYPE_CHECKING:
    from firststep.typing import Array, Float

MOST = 3  # directions: the nodes are a grid in as many dimensions
# A singular value stands out if it is this much larger than the next one: neighbours at the edge
# of a bulk never are.
GAP = 1.25
_SHOWN = 5  # singular values computed


@dataclass(frozen=True)
class Directions:
    """Orthonormal directions in the space of inputs, and why these."""

    vectors: Float[Array, "d k"]
    singular_values: Float[Array, " some"]  # the leading ones; empty if directions were given
    matrix: str  # of which matrix: W1 - W0, W1, or given
    reason: str

    @property
    def count(self) -> int:
        return int(self.vectors.shape[1])

    def fewer(self) -> Directions:
        """All but the last, because the layer is too steep along so many for a grid."""
        why = f"number {self.count} is left out, the layer is too steep along so many"
        return replace(self, vectors=self.vectors[:, :-1], reason=f"{self.reason}; {why}")

    def towards(self, teachers: Float[Array, "d J"]) -> Directions:
        """The same, each singular vector with the sign of its overlap with the teacher."""
        if self.matrix == "given":
            return self
        signs = np.where(teachers.sum(axis=1) @ self.vectors < 0, -1.0, 1.0)
        return replace(self, vectors=self.vectors * signs)


def choose_directions(
    weights: Float[Array, "d N"], initial: Float[Array, "d N"] | None, asked: object
) -> Directions:
    """The leading left singular vectors of W1 - W0 (of W1 if W0 is not known), or those given.

    How many: the largest k <= 3 with a gap, sigma_k > 1.25 sigma_(k+1), and with
    |W1^T v_k| > 1.25 |W1|/sqrt d, the value along a direction that is like any other; at least 1.
    A direction without a gap behind it belongs to a bulk of many like it, and conditioning on it
    alone changes nothing.
    """
    if isinstance(asked, str) and asked == "auto":
        count = None
    elif np.asarray(asked).ndim > 0:
        return _given(np.asarray(asked, dtype=float), weights.shape[0])
    else:
        count = whole("directions", asked, 0, MOST)
    matrix, name = (weights, "W1") if initial is None else (weights - initial, "W1 - W0")
    if not np.any(matrix):  # no step was taken
        matrix, name = weights, "W1"
    vectors, values = leading_singular_vectors(matrix, _SHOWN)
    most = min(MOST, vectors.shape[1])
    if count is not None:
        if count > most:
            raise InvalidParameter("directions", f"at most {most} for these weights", count)
        reason = "none, as asked: the Gaussian equivalent of the layer"
        if count:
            reason = f"the {count} leading of {name}, as asked"
        return Directions(vectors[:, :count], values, name, reason)
    usual = float(np.linalg.norm(weights)) / math.sqrt(len(weights))
    along = np.linalg.norm(vectors.T @ weights, axis=1)
    has_gap = values > GAP * np.append(values[1:], -math.inf)  # nothing is behind the last
    standing = [j + 1 for j in range(most) if has_gap[j] and along[j] > GAP * usual]
    count = max(standing, default=1)
    shown = ", ".join(f"{value:.3g}" for value in values[: count + 1])
    why = f"the last gap larger than {GAP:g} is after number {count}"
    if not standing:
        why = f"no gap larger than {GAP:g} among the first {most}, one direction is kept"
    reason = f"singular values of {name}: {shown}; {why}"
    return Directions(vectors[:, :count], values, name, reason)


def _given(vectors: Float[Array, "d k"], dimension: int) -> Directions:
    vectors = vectors[:, None] if vectors.ndim == 1 else vectors
    allowed = (
        f"auto, a number from 0 to {MOST}, or an array of {dimension} rows and at most {MOST} "
        "independent columns"
    )
    if (
        vectors.ndim != 2
        or vectors.shape[0] != dimension
        or not 1 <= vectors.shape[1] <= MOST
        or not np.all(np.isfinite(vectors))
    ):
        raise InvalidParameter("directions", allowed, f"an array of shape {vectors.shape}")
    basis, upper = np.linalg.qr(vectors)
    pivots = np.abs(np.diag(upper))
    if pivots.min() <= 1e-9 * max(float(np.linalg.norm(vectors)), 1e-300):
        raise InvalidParameter("directions", allowed, "columns that depend on each other")
    basis *= np.sign(np.diag(upper))  # the first column keeps its sign
    return Directions(basis, np.empty(0), "given", "given")


def leading_singular_vectors(
    matrix: Float[Array, "d N"], count: int, blocks: int = 6
) -> tuple[Float[Array, "d count"], Float[Array, " count"]]:
    """Left vectors and values, by a block Krylov space from fixed start vectors.

    A value that stands out of a bulk is exact; those at its edge come out a little too small.
    """
    rows, columns = matrix.shape
    width = min(count + 3, rows, columns)
    block = matrix @ np.random.default_rng(0).standard_normal((columns, width))
    basis = np.empty((rows, 0))
    for _ in range(blocks):
        block = block - basis @ (basis.T @ block)
        block = block - basis @ (basis.T @ block)
        block, upper = np.linalg.qr(block)
        kept = np.abs(np.diag(upper)) > 1e-10 * max(float(np.abs(upper).max()), 1e-300)
        if not kept.any() or basis.shape[1] + kept.sum() > min(rows, columns):
            break
        basis = np.concatenate([basis, block[:, kept]], axis=1)
        block = matrix @ (matrix.T @ block[:, kept])
    if basis.shape[1] + width > min(rows, columns):  # small matrices: everything
        left, values, _ = np.linalg.svd(matrix, full_matrices=False)
    else:
        small, values, _ = np.linalg.svd(basis.T @ matrix, full_matrices=False)
        left = basis @ small
    return left[:, :count], values[:count]
