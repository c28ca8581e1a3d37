"""Leading singular values of trained weights, and bins of the spike coordinate kappa."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep.simulation.backends import Backend

if TYPE_CHECKING:
    from types import ModuleType

    from firststep.typing import Array, Float

KAPPA_EDGES = np.linspace(-3.0, 3.0, 25)
KAPPA_CENTERS = (KAPPA_EDGES[:-1] + KAPPA_EDGES[1:]) / 2


@dataclass(frozen=True)
class SingularTriplets:
    """Leading singular values and the top left vector."""

    values: Float[Array, " count"]
    left: Float[Array, " rows"]


class LeadingSingularValues:
    """Golub-Kahan-Lanczos bidiagonalisation of a matrix minus, if asked, a rank-one part.

    Reorthogonalised in full. Stops when the residual of each of the ``count`` leading triplets is
    below ``tolerance`` times its value. The error of a value is at most its residual and in
    practice far below 1e-3, with one known exception: where several values crowd at the edge of a
    bulk, the second may be the third (one draw in a hundred, less than 1 % off); exactly equal
    values are seen once. A value that has not converged after ``max_iterations`` is nan.
    """

    STRIDE = 4  # iterations between two looks at convergence: one compiled call each

    def __init__(
        self, backend: Backend, tolerance: float = 0.001, max_iterations: int = 300
    ) -> None:
        self._backend, self._tolerance, self._limit = backend, tolerance, max_iterations
        self._advance = backend.compile(self._advance_stage)

    def _advance_stage(
        self,
        target: tuple[
            Float[Array, "rows columns"], Float[Array, " rows"], Float[Array, " columns"]
        ],
        bases: tuple[Float[Array, "room rows"], Float[Array, "room columns"]],
        vectors: tuple[Float[Array, " rows"], Float[Array, " columns"]],
        beta: Float[Array, ""],
        first: int,
    ) -> Any:
        """STRIDE iterations from number ``first``: new bases, vectors, and diagonals they add."""
        xp, set_row = self._backend.xp, self._backend.set_row
        (matrix, column, row), (left_basis, right_basis), (left, right) = target, bases, vectors
        alphas, betas = [], []
        tiny = np.finfo(self._backend.dtype).tiny
        for j in range(self.STRIDE):
            right_basis = set_row(right_basis, first + j, right)
            left = matrix @ right - column * (row @ right) - beta * left
            left = left - left_basis.T @ (left_basis @ left)
            alpha = xp.linalg.norm(left)
            left = left / xp.maximum(alpha, tiny)
            left_basis = set_row(left_basis, first + j, left)
            right = left @ matrix - row * (column @ left) - alpha * right
            right = right - right_basis.T @ (right_basis @ right)
            beta = xp.linalg.norm(right)
            right = right / xp.maximum(beta, tiny)
            alphas.append(alpha)
            betas.append(beta)
        return (left_basis, right_basis), (left, right), xp.stack(alphas), xp.stack(betas)

    def __call__(
        self,
        matrix: Float[Array, "rows columns"],
        start: Float[Array, " columns"],
        count: int = 1,
        minus: tuple[Float[Array, " rows"], Float[Array, " columns"]] | None = None,
    ) -> SingularTriplets:
        """The ``count`` largest singular values of matrix - column row^T (``minus``)."""
        backend, xp = self._backend, self._backend.xp
        rows, columns = matrix.shape
        count = min(count, rows, columns)
        room = 24 * self.STRIDE
        bases = (backend.zeros((room, rows)), backend.zeros((room, columns)))
        vectors = (backend.zeros((rows,)), start / xp.linalg.norm(start))
        minus = (backend.zeros((rows,)), backend.zeros((columns,))) if minus is None else minus
        alphas: list[float] = []  # diagonal and
        betas: list[float] = []  # upper diagonal of the bidiagonal matrix
        closed = False
        while not closed and len(alphas) < min(self._limit, rows + 1):
            if len(alphas) == room:
                bases = tuple(xp.concatenate([each, backend.zeros(each.shape)]) for each in bases)
                room *= 2
            beta = backend.to_device(betas[-1] if betas else 0.0)
            bases, vectors, more_alphas, more_betas = self._advance(
                (matrix, *minus), bases, vectors, beta, len(alphas)
            )
            more = (backend.to_host(each).tolist() for each in (more_alphas, more_betas))
            for alpha, beta in zip(*more, strict=True):
                # the Krylov space is invariant: [B, beta e_j] is all there is
                if alpha <= 1e-7 * max([1e-30, *alphas]):
                    closed = True
                    break
                alphas.append(alpha)
                betas.append(beta)
                if beta <= 1e-7 * max(alphas):
                    closed = True
                    break
            if alphas:
                left, values, residuals = _bidiagonal(alphas, betas, closed)
                if len(values) >= count and np.all(
                    residuals[:count] <= self._tolerance * values[:count]
                ):
                    break
        if not alphas:
            return SingularTriplets(np.zeros(count), backend.zeros((rows,)))
        padding = np.zeros(max(0, count - len(values)))
        values = np.where(residuals <= self._tolerance * values, values, np.nan)
        weights = backend.to_device(np.concatenate([left[:, 0], np.zeros(room - len(alphas))]))
        return SingularTriplets(np.concatenate([values[:count], padding]), bases[0].T @ weights)


@lru_cache(maxsize=8)
def leading_singular_values(backend: Backend) -> LeadingSingularValues:
    """One solver per backend, so that its compiled code serves every design of the same shape."""
    return LeadingSingularValues(backend)


def _bidiagonal(alphas: list[float], betas: list[float], closed: bool) -> tuple[Any, Any, Any]:
    """Left vectors, singular values, residuals; ``closed``: the last column is part of it."""
    size = len(alphas)
    small = np.zeros((size, size + 1))
    small[np.arange(size), np.arange(size)] = alphas
    small[np.arange(size), np.arange(1, size + 1)] = betas
    vectors, values, _ = np.linalg.svd(small if closed else small[:, :-1], full_matrices=False)
    residuals = np.zeros(size) if closed else betas[-1] * np.abs(vectors[-1])
    return vectors, values, residuals


def kappa_indicators(
    kappa: Float[Array, " n"], xp: ModuleType, dtype: np.dtype[Any]
) -> Float[Array, "n bins"]:
    """One row per sample: 1 in the column of its bin of kappa, 0 elsewhere."""
    edges = xp.asarray(KAPPA_EDGES, dtype=dtype)
    inside = (kappa[:, None] >= edges[:-1]) & (kappa[:, None] < edges[1:])
    return inside.astype(dtype)
