"""Small dense linear algebra: thin singular value decompositions, tall QR, sums over a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.numerics.library import library_of

if TYPE_CHECKING:
    from firststep.typing import Array, Float, Int

ROWS = 2048  # of a block of a tall matrix: its columns stay in the cache


def thin_svd(
    matrix: Float[Array, "*batch m n"],
) -> tuple[Float[Array, "*batch m k"], Float[Array, "*batch k"], Float[Array, "*batch k n"]]:
    """Left vectors, singular values (descending) and right vectors.

    With few rows or columns they come from the eigenvectors of the small Gram matrix and the norms
    of their images, which is as accurate where it matters and fast in large batches on a GPU.
    """
    lib = library_of(matrix)
    xp = lib.xp
    rows, columns = matrix.shape[-2:]
    if min(rows, columns) > 4:
        left, values, right = lib.linalg.svd(matrix, full_matrices=False)
        return left, values, right
    wide = matrix if rows <= columns else matrix.swapaxes(-1, -2)
    small = lib.linalg.eigh(wide @ wide.swapaxes(-1, -2))[1][..., ::-1]
    images = small.swapaxes(-1, -2) @ wide
    size = xp.sqrt(xp.sum(images**2, -1))
    unit = images / xp.where(size > 0, size, 1.0)[..., None]
    if rows <= columns:
        return small, size, unit
    return unit.swapaxes(-1, -2), size, small.swapaxes(-1, -2)


def block_matrix(
    a: Float[Array, "*batch m k"],
    b: Float[Array, "*batch m columns"],
    c: Float[Array, "*batch rows k"],
    d: Float[Array, "*batch rows columns"],
) -> Float[Array, "*batch m+rows k+columns"]:
    """((a, b), (c, d)); in NumPy written into one new array, which is faster."""
    lib = library_of(a)
    if not lib.is_numpy:
        xp = lib.xp
        return xp.concatenate([xp.concatenate([a, b], -1), xp.concatenate([c, d], -1)], -2)
    (*batch, m, k), (rows, columns) = a.shape, d.shape[-2:]
    whole = np.empty((*batch, m + rows, k + columns), np.result_type(a, b, c, d))
    whole[..., :m, :k], whole[..., :m, k:] = a, b
    whole[..., m:, :k], whole[..., m:, k:] = c, d
    return whole


class Factors(NamedTuple):
    """The LU factors of a batch of matrices, kept for more right-hand sides than one (NumPy)."""

    lower_upper: Float[Array, "batch n n"]
    pivots: Int[Array, "batch n"]

    @classmethod
    def of(cls, matrices: Float[Array, "batch n n"]) -> Factors:
        """Of real matrices; a singular one raises LinAlgError."""
        from scipy.linalg import lapack  # slow to load

        # LAPACK reads the rows as columns: these are the factors of the transposes.
        found = [lapack.dgetrf(matrix.T) for matrix in matrices]
        if any(info > 0 for *_, info in found):
            raise np.linalg.LinAlgError("Singular matrix")
        return cls(np.stack([lu.T for lu, _, _ in found]), np.stack([p for _, p, _ in found]))

    def solve(self, right: Float[Array, "batch n m"]) -> Float[Array, "batch n m"]:
        """The inverse matrices times the right-hand sides."""
        from scipy.linalg import lapack

        answer = np.empty(right.shape)
        for i, (lu, pivots) in enumerate(zip(self.lower_upper, self.pivots, strict=True)):
            answer[i] = lapack.dgetrs(lu.T, pivots, right[i], trans=1)[0]
        return answer


def solve_linear(
    matrices: Float[Array, "batch n n"], right: Float[Array, "batch n m"], *, is_kept: bool
) -> tuple[Factors | None, Float[Array, "batch n m"]]:
    """The inverse matrices times the right-hand sides, with the factors if they are to be kept.

    Only NumPy's real matrices have any.
    """
    lib = library_of(matrices)
    if not (is_kept and lib.is_numpy and np.isrealobj(matrices)):
        return None, lib.linalg.solve(matrices, right)
    factors = Factors.of(matrices)
    return factors, factors.solve(right)


def tall_qr(matrix: Float[Array, "m n"]) -> tuple[Float[Array, "m n"], Float[Array, "n n"]]:
    """Q and R of a matrix with many more rows than columns, two to three times faster.

    Block by block: A = diag(Q_1, ..., Q_k) [R_1; ...; R_k], then the QR of the stack.
    """
    count, columns = matrix.shape
    blocks = -(-count // ROWS)
    if blocks < 3 or columns > ROWS // 4:
        q, r = np.linalg.qr(matrix)
        return q, r
    padded = np.zeros((blocks * ROWS, columns))
    padded[:count] = matrix
    first, upper = np.linalg.qr(padded.reshape(blocks, ROWS, columns))
    second, r = np.linalg.qr(upper.reshape(-1, columns))
    q = (first @ second.reshape(blocks, columns, columns)).reshape(-1, columns)
    return q[:count], r
