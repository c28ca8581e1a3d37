"""Ridge regression for a whole path of ridge values from one Gram matrix.

With features F (n x N, without the 1/sqrt N) and b = a/sqrt N, the estimator minimises (1/n)|y - F
b|^2 + ridge |b|^2:

    primal (n >= N)  b = (F^T F/n + ridge)^-1 F^T y/n,
                     training error |y|^2/n - b.F^T y/n - ridge |b|^2
    dual   (n <  N)  b = F^T c, c = (F F^T/n + ridge)^-1 y/n,   residual y - F b = n ridge c

A few ridge values: one Cholesky factorisation each. Many: the Gram matrix is reduced once to a
tridiagonal T = Q^T A Q (a third of the work of an eigendecomposition), after which every value
costs O(N^2). Ridge 0 is the minimum-norm least-squares solution, by an eigendecomposition that
drops the numerically zero part. No inverse is formed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from firststep.errors import NotConverged
from firststep.simulation.backends import Backend, JaxBackend

if TYPE_CHECKING:
    from types import ModuleType

    from firststep.typing import Array, Float

    Gram: TypeAlias = Float[Array, "N N"]
    Vector: TypeAlias = Float[Array, " N"]
    Ridges: TypeAlias = Float[Array, " ridges"]
    Solutions: TypeAlias = Float[Array, "N ridges"]

NOT_POSITIVE = (
    "the ridge system is not positive definite: "
    "the kernel function is not a kernel, or the features are not finite"
)
NOT_FINITE = "the ridge system could not be solved: the features or labels are not finite"
# Above this many ridge values one tridiagonal reduction is faster (docs/benchmarks.md).
CHOLESKY_AT_MOST = 5


def solve_gram(backend: Backend, gram: Gram, right: Vector, ridges: tuple[float, ...]) -> Solutions:
    """(gram + ridge)^-1 right for every ridge, on the backend's device.

    ``gram`` comes from Backend.add_gram or outer_gram, which fill one triangle (NumPy: the upper,
    JAX: the lower), and is used up.
    """
    if isinstance(backend, JaxBackend):
        return _solve_on_device(backend, gram, right, ridges)
    # NumPy's gram holds the upper triangle in C order.
    matrix = np.asarray(gram.T, dtype=np.float64, order="F")
    precision = float(np.finfo(backend.dtype).eps)
    return backend.to_device(
        solve_path(matrix, np.asarray(right, dtype=np.float64), ridges, precision)
    )


def is_nearly_singular(matrix: Gram, ridges: tuple[float, ...], precision: float) -> bool:
    """Whether a ridge is within rounding of zero.

    Then eigenvectors are used, and ``matrix`` is left untouched. Rounding moves the eigenvalues of
    A by less than 30 * precision * trace A. Single precision cannot tell such a ridge from none, so
    there it is refused.
    """
    trace = float(matrix.trace())
    if not np.isfinite(trace):
        raise NotConverged(NOT_FINITE)
    floor = 30 * precision * trace
    if min(ridges) > floor:
        return False
    if precision > 1e-10:
        larger = f", or a ridge {floor / min(ridges):.2g} times larger" if min(ridges) > 0 else ""
        raise NotConverged(f"float32 cannot resolve a ridge this small: try float64{larger}")
    return True


def _solve_on_device(
    backend: JaxBackend, gram: Gram, right: Vector, ridges: tuple[float, ...]
) -> Solutions:
    """A Cholesky factorisation per ridge, or eigenvectors if a ridge is too small.

    On a GPU that is cheaper than any reduction.
    """
    xp = backend.xp
    precision = float(np.finfo(backend.dtype).eps)
    if is_nearly_singular(gram, ridges, precision):
        eigenvalues, vectors = xp.linalg.eigh(gram, UPLO="L", symmetrize_input=False)
        shifts = backend.to_device(ridges)
        solutions = _from_eigenvectors(xp, (eigenvalues, vectors), right, shifts, precision)
    else:
        solutions = xp.stack(
            [backend.cholesky_solve(gram, right, ridge) for ridge in ridges], axis=1
        )
    if not bool(xp.all(xp.isfinite(solutions))):  # a failed Cholesky factorisation gives nan
        raise NotConverged(NOT_POSITIVE)
    return solutions


def solve_path(
    matrix: Gram, right: Vector, ridges: tuple[float, ...], precision: float = 2.0**-52
) -> Solutions:
    """x(ridge) = (A + ridge)^-1 b for every ridge, as columns.

    A is symmetric positive semi-definite, its lower triangle is read. Ridge 0 gives the
    minimum-norm solution. ``precision`` is the relative rounding of A's entries. ``matrix`` is
    destroyed if it is Fortran-ordered.
    """
    values = np.asarray(ridges)
    if is_nearly_singular(matrix, ridges, precision):
        solutions = _by_eigenvectors(matrix, right, values, precision)
    elif len(values) <= CHOLESKY_AT_MOST or len(right) < 3:  # LAPACK wants a real tridiagonal
        last = len(values) - 1
        solutions = np.stack(
            [_by_cholesky(matrix, right, r, i == last) for i, r in enumerate(values)], axis=1
        )
    else:
        solutions = _by_tridiagonal(matrix, right, values)
    if not np.all(np.isfinite(solutions)):
        raise NotConverged(NOT_FINITE)
    return solutions


def _by_cholesky(matrix: Gram, right: Vector, ridge: float, overwrite: bool) -> Vector:
    shifted = matrix if overwrite else np.array(matrix, order="F")
    np.einsum("ii->i", shifted)[:] += ridge
    factor, info = lapack.dpotrf(shifted, lower=1, clean=0, overwrite_a=1)
    if info:
        raise NotConverged(NOT_POSITIVE)
    solution, _ = lapack.dpotrs(factor, right, lower=1)
    return solution


def _by_tridiagonal(matrix: Gram, right: Vector, ridges: Ridges) -> Solutions:
    """A = Q T Q^T once (LAPACK sytrd), then (T + ridge)^-1 Q^T b; Q is applied, never formed."""
    size = len(right)
    work = np.asfortranarray(matrix)
    reflectors, diagonal, beside, tau, _ = lapack.dsytrd(
        work, lower=1, lwork=64 * size, overwrite_a=1
    )
    rotated = _apply(reflectors, tau, right[:, None], transpose=True)[:, 0]
    solved = np.empty((size, len(ridges)))
    for column, ridge in enumerate(ridges):
        _, _, x, info = lapack.dptsv(diagonal + ridge, beside, rotated)
        if info:
            raise NotConverged(NOT_POSITIVE)
        solved[:, column] = np.ravel(x)
    return _apply(reflectors, tau, solved, transpose=False)


def _apply(
    reflectors: Gram, tau: Float[Array, " m"], columns: Float[Array, "N k"], transpose: bool
) -> Float[Array, "N k"]:
    """Q or Q^T times columns: sytrd's reflectors act on all coordinates but the first, as QR's."""
    out = np.array(columns, order="F")
    if len(tau):
        lower = np.asfortranarray(reflectors[1:, :-1])
        side, trans = "L", "T" if transpose else "N"
        product, _, info = lapack.dormqr(
            side, trans, lower, tau, np.asfortranarray(out[1:]), lwork=64 * max(out.shape)
        )
        if info:
            raise NotConverged(f"LAPACK dormqr failed with code {info}")
        out[1:] = product
    return out


def _by_eigenvectors(matrix: Gram, right: Vector, ridges: Ridges, precision: float) -> Solutions:
    """Any ridge >= 0, by LAPACK's divide and conquer."""
    try:
        eigenvalues, vectors = scipy.linalg.eigh(
            matrix, lower=True, driver="evd", check_finite=False
        )
    except np.linalg.LinAlgError:
        raise NotConverged(NOT_FINITE) from None
    return _from_eigenvectors(np, (eigenvalues, vectors), right, ridges, precision)


def _from_eigenvectors(
    xp: ModuleType, system: tuple[Vector, Gram], right: Vector, ridges: Ridges, precision: float
) -> Solutions:
    """Solutions for any ridge >= 0.

    Where eigenvalue + ridge is within rounding of zero, that part is left out. That is exact: F^T y
    has no part in the null space, and F^T annihilates the part a dual solution would have there.
    """
    eigenvalues, vectors = system
    cut = len(eigenvalues) * precision * float(xp.abs(eigenvalues).max())
    if float(eigenvalues[0]) < -10 * cut:
        raise NotConverged(NOT_POSITIVE)
    shifted = xp.maximum(eigenvalues, 0.0)[:, None] + ridges
    inverse = xp.where(shifted > cut, 1 / xp.where(shifted > cut, shifted, 1.0), 0.0)
    return vectors @ (inverse * (vectors.T @ right)[:, None])
