"""Measurements on trained weights: leading singular values, and averages over bins of the spike coordinate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firststep.simulation.backends import Backend

KAPPA_EDGES = np.linspace(-3.0, 3.0, 25)
KAPPA_CENTERS = (KAPPA_EDGES[:-1] + KAPPA_EDGES[1:]) / 2


@dataclass(frozen=True)
class SingularTriplets:
    """Leading singular values and the top left vector."""

    values: NDArray[np.float64]
    left: Any


def leading_singular_values(
    forward: Callable[[Any], Any],
    backward: Callable[[Any], Any],
    start: Any,
    rows: int,
    backend: Backend,
    count: int = 1,
    tolerance: float = 0.01,
    max_iterations: int = 300,
) -> SingularTriplets:
    """Golub-Kahan-Lanczos bidiagonalisation with full reorthogonalisation, from the start vector in R^N.

    Stops when the residual of each of the ``count`` leading triplets is below tolerance times its value. The error of a value is at
    most its residual, and in practice of order residual^2: about 1e-3 at the edge of a bulk, rounding for an outlier. A value
    that has not converged after ``max_iterations`` is nan.
    """
    xp = backend.xp
    columns = start.shape[0]
    count = min(count, rows, columns)
    limit = min(max_iterations, rows + 1)
    room = 48
    left_basis, right_basis = backend.zeros((room, rows)), backend.zeros((room, columns))
    alphas: list[float] = []  # diagonal and
    betas: list[float] = []  # upper diagonal of the bidiagonal matrix
    right = start / xp.linalg.norm(start)
    left = backend.zeros((rows,))
    for j in range(limit):
        if j == room:
            left_basis = xp.concatenate([left_basis, backend.zeros((room, rows))])
            right_basis = xp.concatenate([right_basis, backend.zeros((room, columns))])
            room *= 2
        right_basis = backend.set_row(right_basis, j, right)
        left = forward(right) - (betas[-1] if betas else 0.0) * left
        left = left - left_basis.T @ (left_basis @ left)
        alpha = float(xp.linalg.norm(left))
        if alpha <= 1e-7 * max([1e-300, *alphas]):  # the Krylov space is invariant: [B, beta e_j] is all there is
            break
        left = left / alpha
        left_basis = backend.set_row(left_basis, j, left)
        right = backward(left) - alpha * right
        right = right - right_basis.T @ (right_basis @ right)
        beta = float(xp.linalg.norm(right))
        alphas.append(alpha)
        betas.append(beta)
        if beta <= 1e-7 * max(alphas):
            break
        if j >= count and j % 3 == 0:
            _, values, residuals = _bidiagonal(alphas, betas, closed=False)
            if np.all(residuals[:count] <= tolerance * values[:count]):
                break
        right = right / beta
    if not alphas:
        return SingularTriplets(np.zeros(count), left)
    vectors, values, residuals = _bidiagonal(alphas, betas, closed=alpha <= 1e-7 * max(alphas))
    padding = np.zeros(max(0, count - len(values)))
    values = np.where(residuals <= tolerance * values, values, np.nan)
    weights = backend.to_device(np.concatenate([vectors[:, 0], np.zeros(room - len(alphas))]))
    return SingularTriplets(np.concatenate([values[:count], padding]), left_basis.T @ weights)


def _bidiagonal(alphas: list[float], betas: list[float], closed: bool) -> tuple[Any, Any, Any]:
    """Left vectors, singular values and residuals of the small matrix; ``closed``: its last column is part of it."""
    size = len(alphas)
    small = np.zeros((size, size + 1))
    small[np.arange(size), np.arange(size)] = alphas
    small[np.arange(size), np.arange(1, size + 1)] = betas
    vectors, values, _ = np.linalg.svd(small if closed else small[:, :-1], full_matrices=False)
    residuals = np.zeros(size) if closed else betas[-1] * np.abs(vectors[-1])
    return vectors, values, residuals


def kappa_indicators(kappa: Any, xp: Any, dtype: Any) -> Any:
    """One row per sample: 1 in the column of its bin of kappa, 0 elsewhere."""
    edges = xp.asarray(KAPPA_EDGES, dtype=dtype)
    inside = (kappa[:, None] >= edges[:-1]) & (kappa[:, None] < edges[1:])
    return inside.astype(dtype)
