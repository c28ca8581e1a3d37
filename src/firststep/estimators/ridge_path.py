"""Ridge regression with a free intercept for a path of ridges, with exact leave-one-out errors.

With features F = s(X W), n rows, their mean f and the mean m of y, the fit for a ridge minimises
over b and b0

    (1/n) |y - b0 - F b|^2 + ridge |b|^2,    so    b = (Fc^T Fc + n ridge)^-1 Fc^T (y - m),
    b0 = m - f.b,    Fc = F - 1 f^T.

Leaving out row i, with the penalty n ridge as it is, changes its residual r_i to r_i/(1 - h_i),
h = diag of the hat matrix:

    n >= N   Fc^T Fc = V diag(e) V^T and z_i = V^T (F_i - f):
             h_i = 1/n + sum_j z_ij^2/(e_j + n ridge)
    n <  N   P a reflection that takes 1 to the first axis, Q = P without its first column,
             A = Q^T F,   A A^T = U diag(e) U^T,   c = U^T Q^T y,   p = n ridge/(e + n ridge):
             r = Q U diag(p) c,   1 - h_i = sum_j (Q U)_ij^2 p_j

so that one eigendecomposition serves all ridge values, and in the second form nothing cancels
however small the ridge.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import scipy.linalg

from firststep.errors import NotConverged
from firststep.estimators.kernel import Affine, Kernel, Turned
from firststep.simulation.backends import Backend
from firststep.simulation.fit.ridge import solve_gram

if TYPE_CHECKING:
    from firststep.estimators.kernel import Blocks, Weights
    from firststep.typing import Array, Bool, Float

    Ridges: TypeAlias = Float[Array, " ridges"]

# A penalty below this, times precision and trace, is rounding: thirty times the bound on the error
# of eigenvalues in simulation.fit.ridge.
ROUNDING = 1000
SMALLEST_GAP = 1000  # 1 - h below this, times precision, is what rounding leaves of 0
# Rows below which the second form is taken, whatever N: it costs nothing, and ties between ridges
# stay ties.
FEW = 100


@dataclass(frozen=True)
class RidgePath:
    """The fits for every ridge, on the device; their leave-one-out errors, and which are sound."""

    fits: Affine
    errors: Ridges  # mean squares; nan with one row, infinite where not trusted
    trusted: Bool[Array, " ridges"]

    @classmethod
    def judged(cls, fits: Affine, errors: Ridges, trusted: Bool[Array, " ridges"]) -> RidgePath:
        return cls(fits, np.where(trusted & np.isfinite(errors), errors, np.inf), trusted)


def ridge_path(
    kernel: Kernel, blocks: Callable[[], Blocks], count: int, weights: Weights, ridges: Ridges
) -> RidgePath | None:
    """The path on the ``count`` rows that ``blocks()`` gives every time it is called.

    None where the features are not finite.
    """
    if count >= max(FEW, weights.shape[1]):
        return _primal(kernel, blocks, count, weights, count * ridges)
    return _dual(kernel, blocks(), weights, count * ridges)


def _primal(
    kernel: Kernel, blocks: Callable[[], Blocks], count: int, weights: Weights, penalties: Ridges
) -> RidgePath | None:
    backend = kernel.backend
    gram, right, centre, offset = kernel.moments(blocks(), count, weights)
    trace = float(gram.trace())
    if not math.isfinite(trace):
        return None
    eigenvalues, vectors = _eigh(backend, gram)
    turned = Turned(
        centre=centre,
        offset=offset,
        vectors=vectors,
        inverse=1 / (eigenvalues[:, None] + backend.to_device(penalties)),
        coordinates=vectors.T @ right,
    )
    errors, least = kernel.left_out(blocks(), count, weights, turned)
    precision = float(np.finfo(backend.dtype).eps)
    trusted = (penalties > ROUNDING * precision * trace) & (least > SMALLEST_GAP * precision)
    return RidgePath.judged(Affine(turned.solutions, centre, offset), errors, trusted)


def _dual(kernel: Kernel, blocks: Blocks, weights: Weights, penalties: Ridges) -> RidgePath | None:
    backend, xp = kernel.backend, kernel.backend.xp
    reduced = _without_mean(kernel, blocks, weights)
    if reduced.count == 1:
        nothing = backend.zeros((weights.shape[1], len(penalties)))
        nan, every = np.full(len(penalties), np.nan), np.ones(len(penalties), dtype=bool)
        return RidgePath(Affine(nothing, reduced.centre, reduced.offset), nan, every)
    gram = backend.outer_gram(reduced.features)
    trace = float(gram.trace())
    if not math.isfinite(trace):
        return None
    eigenvalues, vectors = _eigh(backend, gram)
    coordinates = vectors.T @ reduced.targets
    shift = backend.to_device(penalties)
    inverse = 1 / (eigenvalues[:, None] + shift)
    solutions = reduced.features.T @ (vectors @ (inverse * coordinates[:, None]))
    rows = reduced.reflect(xp.concatenate([backend.zeros((1, reduced.count - 1)), vectors]))
    residual = rows @ (shift * inverse * coordinates[:, None])
    gap = (rows * rows) @ (shift * inverse)
    errors = backend.to_host(((residual / gap) ** 2).mean(axis=0)).astype(float)
    trusted = penalties > ROUNDING * float(np.finfo(backend.dtype).eps) * trace
    return RidgePath.judged(Affine(solutions, reduced.centre, reduced.offset), errors, trusted)


def ridge_fit(kernel: Kernel, blocks: Blocks, count: int, weights: Weights, ridge: float) -> Affine:
    """The fit for one ridge, without leave-one-out errors: one Cholesky factorisation."""
    penalty = (count * ridge,)
    if count >= weights.shape[1]:
        gram, right, centre, offset = kernel.moments(blocks, count, weights)
        return Affine(solve_gram(kernel.backend, gram, right, penalty)[:, 0], centre, offset)
    reduced = _without_mean(kernel, blocks, weights)
    if count == 1:
        nothing = kernel.backend.zeros((weights.shape[1],))
        return Affine(nothing, reduced.centre, reduced.offset)
    gram = kernel.backend.outer_gram(reduced.features)
    dual = solve_gram(kernel.backend, gram, reduced.targets, penalty)
    return Affine(reduced.features.T @ dual[:, 0], reduced.centre, reduced.offset)


@dataclass(frozen=True)
class Reduced:
    """Features and targets in the n - 1 dimensions orthogonal to the mean."""

    features: Float[Array, "m N"]  # A, m = n - 1
    targets: Float[Array, " m"]  # Q^T y
    centre: Float[Array, " N"]
    offset: Float[Array, ""]
    normal: Float[Array, " n"]  # u of the reflection P x = x - 2 u (u.x)

    @property
    def count(self) -> int:
        return len(self.normal)

    def reflect(self, columns: Float[Array, "n k"]) -> Float[Array, "n k"]:
        return _reflected(self.normal, columns)


def _reflected(normal: Float[Array, " n"], columns: Float[Array, "n k"]) -> Float[Array, "n k"]:
    return columns - (2 * normal)[:, None] * (normal @ columns)


def _without_mean(kernel: Kernel, blocks: Blocks, weights: Weights) -> Reduced:
    features, targets = kernel.collect(blocks, weights)
    count = len(targets)
    direction = np.full(count, 1 / math.sqrt(count))
    direction[0] -= 1
    length = max(float(np.linalg.norm(direction)), 1e-300)  # one row: 0, and nothing is reflected
    normal = kernel.backend.to_device(direction / length)
    centre, offset = features.mean(axis=0), targets.mean()
    return Reduced(
        features=_reflected(normal, features - centre)[1:],
        targets=_reflected(normal, (targets - offset)[:, None])[1:, 0],
        centre=centre,
        offset=offset,
        normal=normal,
    )


def _eigh(
    backend: Backend, gram: Float[Array, "N N"]
) -> tuple[Float[Array, " N"], Float[Array, "N N"]]:
    """Eigenvalues, none below zero, and eigenvectors of what add_gram or outer_gram filled.

    On the device; with NumPy they are computed in double precision.
    """
    if backend.name == "numpy":
        # NumPy's gram holds the upper triangle in C order.
        matrix = np.asarray(gram.T, dtype=np.float64, order="F")
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
