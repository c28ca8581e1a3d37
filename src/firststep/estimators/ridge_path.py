"""Ridge regression with a free intercept for a whole path of ridge values, and its exact leave-one-out errors.

With features F = s(X W), n rows, their mean f and the mean m of y, the fit for a ridge minimises over b and b0

    (1/n) |y - b0 - F b|^2 + ridge |b|^2,    so    b = (Fc^T Fc + n ridge)^-1 Fc^T (y - m),  b0 = m - f.b,  Fc = F - 1 f^T.

Leaving out row i, with the penalty n ridge as it is, changes its residual r_i to r_i/(1 - h_i), h = diag of the hat matrix:

    n >= N   Fc^T Fc = V diag(e) V^T and z_i = V^T (F_i - f):   h_i = 1/n + sum_j z_ij^2/(e_j + n ridge)
    n <  N   P a reflection that takes 1 to the first axis, Q = P without its first column, A = Q^T F, A A^T = U diag(e) U^T,
             c = U^T Q^T y:   r = Q U diag(p) c,   1 - h_i = sum_j (Q U)_ij^2 p_j,   p = n ridge/(e + n ridge)

so that one eigendecomposition serves all ridge values, and in the second form nothing cancels however small the ridge.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from firststep.errors import NotConverged
from firststep.estimators.kernel import Blocks, Kernel
from firststep.simulation.backends import Backend
from firststep.simulation.fit.ridge import solve_gram

Array = NDArray[np.float64]
ROUNDING = 1000  # times precision times the trace: thirty times the bound on the rounding of eigenvalues in simulation.ridge
FEW = 100  # rows below which the second form is taken, whatever N: it costs nothing, and ties between ridges stay ties


@dataclass(frozen=True)
class RidgePath:
    """b (N x ridges), the mean of the features and of y on the device; leave-one-out errors, and which ridges can be trusted."""

    solutions: Any
    centre: Any
    offset: Any
    errors: Array  # mean squared leave-one-out error; nan with one row, infinite where not trusted
    trusted: NDArray[np.bool_]


def ridge_path(
    kernel: Kernel, blocks: Callable[[], Blocks], count: int, weights: Any, ridges: Array
) -> RidgePath | None:
    """The path on ``count`` rows that ``blocks()`` gives again and again; None where the features are not finite."""
    form = _primal if count >= max(FEW, weights.shape[1]) else _dual
    return form(kernel, blocks, count, weights, count * ridges)


def _primal(
    kernel: Kernel, blocks: Callable[[], Blocks], count: int, weights: Any, penalties: Array
) -> RidgePath | None:
    backend = kernel.backend
    gram, right, centre, offset = kernel.moments(blocks(), count, weights)
    trace = float(gram.trace())
    if not math.isfinite(trace):
        return None
    eigenvalues, vectors = _eigh(backend, gram)
    coordinates = vectors.T @ right
    inverse = 1 / (eigenvalues[:, None] + backend.to_device(penalties))
    errors, least = kernel.left_out(
        blocks(), count, weights, (centre, offset, vectors, inverse, coordinates)
    )
    precision = float(np.finfo(backend.dtype).eps)
    trusted = (penalties > ROUNDING * precision * trace) & (least > 1000 * precision)
    solutions = vectors @ (inverse * coordinates[:, None])
    return RidgePath(
        solutions, centre, offset, np.where(trusted & np.isfinite(errors), errors, np.inf), trusted
    )


def _dual(
    kernel: Kernel, blocks: Callable[[], Blocks], count: int, weights: Any, penalties: Array
) -> RidgePath | None:
    backend, xp = kernel.backend, kernel.backend.xp
    reduced, targets, centre, offset, reflect = _without_mean(kernel, blocks(), weights)
    if count == 1:
        nothing = backend.zeros((weights.shape[1], len(penalties)))
        return RidgePath(
            nothing,
            centre,
            offset,
            np.full(len(penalties), np.nan),
            np.ones(len(penalties), dtype=bool),
        )
    gram = backend.outer_gram(reduced)
    trace = float(gram.trace())
    if not math.isfinite(trace):
        return None
    eigenvalues, vectors = _eigh(backend, gram)
    coordinates = vectors.T @ targets
    shift = backend.to_device(penalties)
    inverse = 1 / (eigenvalues[:, None] + shift)
    solutions = reduced.T @ (vectors @ (inverse * coordinates[:, None]))
    rows = reflect(xp.concatenate([backend.zeros((1, count - 1)), vectors]))
    residual, gap = (
        rows @ (shift * inverse * coordinates[:, None]),
        (rows * rows) @ (shift * inverse),
    )
    errors = backend.to_host(((residual / gap) ** 2).mean(axis=0)).astype(float)
    trusted = penalties > ROUNDING * float(np.finfo(backend.dtype).eps) * trace
    return RidgePath(
        solutions, centre, offset, np.where(trusted & np.isfinite(errors), errors, np.inf), trusted
    )


def ridge_fit(
    kernel: Kernel, blocks: Blocks, count: int, weights: Any, ridge: float
) -> tuple[Any, Any, Any]:
    """b for one ridge, and the means of the features and of y, without leave-one-out errors: one Cholesky factorisation."""
    penalty = (count * ridge,)
    if count >= weights.shape[1]:
        gram, right, centre, offset = kernel.moments(blocks, count, weights)
        return solve_gram(kernel.backend, gram, right, penalty)[:, 0], centre, offset
    reduced, targets, centre, offset, _ = _without_mean(kernel, blocks, weights)
    if count == 1:
        return kernel.backend.zeros((weights.shape[1],)), centre, offset
    dual = solve_gram(kernel.backend, kernel.backend.outer_gram(reduced), targets, penalty)
    return reduced.T @ dual[:, 0], centre, offset


def _without_mean(
    kernel: Kernel, blocks: Blocks, weights: Any
) -> tuple[Any, Any, Any, Any, Callable[[Any], Any]]:
    """A and P y without its first entry, the means of features and y, and the reflection P x = x - 2 u (u.x)."""
    features, targets = kernel.collect(blocks, weights)
    count = len(targets)
    direction = np.full(count, 1 / math.sqrt(count))
    direction[0] -= 1
    normal = kernel.backend.to_device(direction / max(float(np.linalg.norm(direction)), 1e-300))

    def reflect(columns: Any) -> Any:
        return columns - (2 * normal)[:, None] * (normal @ columns)

    centre, offset = features.mean(axis=0), targets.mean()
    return (
        reflect(features - centre)[1:],
        reflect((targets - offset)[:, None])[1:, 0],
        centre,
        offset,
        reflect,
    )


def _eigh(backend: Backend, gram: Any) -> tuple[Any, Any]:
    """Eigenvalues, none below zero, and eigenvectors of what add_gram or outer_gram filled, on the device; NumPy: in double."""
    if backend.name == "numpy":
        matrix = np.asarray(
            gram.T, dtype=np.float64, order="F"
        )  # NumPy's gram holds the upper triangle in C order
        try:
            eigenvalues, vectors = scipy.linalg.eigh(
                matrix, lower=True, driver="evd", overwrite_a=True, check_finite=False
            )
        except np.linalg.LinAlgError:
            raise NotConverged(
                "the eigenvalues of the features' Gram matrix could not be found"
            ) from None
    else:
        eigenvalues, vectors = backend.xp.linalg.eigh(gram, UPLO="L", symmetrize_input=False)
    return backend.to_device(backend.xp.maximum(eigenvalues, 0.0)), backend.to_device(vectors)
