"""Linear maps of symmetric matrices as matrices on their upper triangles."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from firststep.numerics.library import library_of
from firststep.theory.one_step.system import flip, triangle

if TYPE_CHECKING:
    from firststep.typing import Array, Float, Int


def congruences(
    weights: Float[Array, "batch s"], matrices: Float[Array, "batch s n m"]
) -> Float[Array, "batch n2 m2"]:
    """The matrix of X -> sum_s w_s Y_s X Y_s^T."""
    xp = library_of(matrices).xp
    batch, count, n, m = matrices.shape
    flat = matrices.reshape(batch, count, n * m)
    table = (flip(flat * weights[:, :, None]) @ flat).reshape(batch, (n * m) ** 2)
    straight, crossed = pair_places(n, m)  # [a, c, b, d]: X_cd moves ab, and so does X_dc
    found = xp.take(table, straight, axis=1)
    return found + xp.take(table, crossed, axis=1) * (triangle(m)[2] == 2)


@lru_cache(maxsize=64)
def pair_places(n: int, m: int) -> tuple[Int[Array, "n2 m2"], Int[Array, "n2 m2"]]:
    """Where Y_ac Y_bd and Y_ad Y_bc stand in a table [a, c, b, d], for pairs a <= b and c <= d."""
    (a, b), (c, d) = (pair[:2] for pair in (triangle(n), triangle(m)))
    a, b, c, d = a[:, None], b[:, None], c[None], d[None]
    table = np.arange((n * m) ** 2).reshape(n, m, n, m)
    return table[a, c, b, d], table[a, d, b, c]
