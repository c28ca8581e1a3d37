"""Small dense linear algebra: thin singular value decompositions, tall QR, sums over a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from firststep.numerics.library import library_of

if TYPE_CHECKING:
    from firststep.typing import Array, Float

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
