"""Linear algebra of batches in JAX, in parts that cannot make XLA wait for itself.

On CPUs jaxlib 0.10.0 to 0.11.0 divides a batch of matrices among the threads of XLA's pool, and
the thread that does so waits for them. It is itself one of the pool: a program that comes to this
in as many places at once as the pool has threads, two on a machine with two cores, waits for ever.
Small batches, and single matrices, LAPACK computes where it is called. So larger ones are taken in
parts here, one after another; every matrix goes through the same routines as in ``jax.numpy``,
whose names these functions have.

``vmap`` only makes a batch larger; it has a rule of its own, as it would make the parts larger too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap

if TYPE_CHECKING:
    from firststep.typing import Array, Float, Int

    Shape = tuple[int, int]

DIVIDED = 200_000  # operations, as jaxlib counts them, from which on it divides a batch
_DIVIDES, _NO_LONGER = (0, 10, 0), (0, 11, 1)  # versions of JAX


def is_needed() -> bool:
    """Whether batches must be taken in parts."""
    return jax.default_backend() == "cpu" and _DIVIDES <= jax.__version_info__ < _NO_LONGER


def in_parts(function: Callable[..., Any], operations: Callable[..., int]) -> Callable[..., Any]:
    """A function of batches of matrices, called with so few at once that jaxlib leaves them whole.

    ``operations`` counts those of one matrix, from the shapes of the arguments.
    """

    def by_parts(*batches: Float[Array, "*batch m n"]) -> Any:
        batch = batches[0].shape[:-2]
        each = operations(*(one.shape[-2:] for one in batches))
        count, most = math.prod(batch), max(1, (DIVIDED - 1) // max(1, each))
        if count <= most:
            return function(*batches)
        parts = math.ceil(count / most)
        size = math.ceil(count / parts)
        divided = [_divided(one, parts, size) for one in batches]
        found = lax.map(lambda part: function(*part), divided)
        return jax.tree.map(partial(_joined, batch), found)

    def mapped_too(size: int, mapped: Sequence[bool], *batches: Float[Array, "*batch m n"]) -> Any:
        larger = [
            one if is_mapped else jnp.broadcast_to(one, (size, *one.shape))
            for one, is_mapped in zip(batches, mapped, strict=True)
        ]
        found = whole(*larger)
        return found, jax.tree.map(lambda _: True, found)

    whole: Callable[..., Any] = custom_vmap(by_parts)
    whole.def_vmap(mapped_too)  # type: ignore[attr-defined]
    return whole


def _divided(
    matrices: Float[Array, "*batch m n"], parts: int, size: int
) -> Float[Array, "parts size m n"]:
    """Equal parts: the last matrix is repeated where they have room for more."""
    flat = matrices.reshape(-1, *matrices.shape[-2:])
    missing = parts * size - flat.shape[0]
    full = jnp.pad(flat, ((0, missing), (0, 0), (0, 0)), "edge")
    return full.reshape(parts, size, *flat.shape[1:])


def _joined(
    batch: tuple[int, ...], found: Float[Array, "parts size *rest"]
) -> Float[Array, "*batch *rest"]:
    rest = found.shape[2:]
    return found.reshape(-1, *rest)[: math.prod(batch)].reshape(*batch, *rest)


def _lu(
    matrix: Float[Array, "*batch n n"],
) -> tuple[Float[Array, "*batch n n"], Int[Array, "*batch n 1"]]:
    """L and U of P A = L U in one matrix, and the rows of A in the order of P."""
    factors, _, order = lax.linalg.lu(matrix)
    return factors, order[..., None]


def _lu_solve(
    factors: Float[Array, "*batch n n"],
    order: Int[Array, "*batch n 1"],
    right: Float[Array, "*batch n k"],
) -> Float[Array, "*batch n k"]:
    """U^-1 L^-1 P b."""
    right = jnp.take_along_axis(right, order, -2)
    right = _triangular_solve(factors, right, lower=True, unit_diagonal=True)
    return _triangular_solve(factors, right)


def _lu_solve_transposed(
    factors: Float[Array, "*batch n n"],
    order: Int[Array, "*batch n 1"],
    right: Float[Array, "*batch n k"],
) -> Float[Array, "*batch n k"]:
    """P^T L^-T U^-T b."""
    right = _triangular_solve(factors, right, transpose_a=True)
    right = _triangular_solve(factors, right, lower=True, unit_diagonal=True, transpose_a=True)
    return jnp.take_along_axis(right, jnp.argsort(order, -2), -2)


_triangular_solve = partial(lax.linalg.triangular_solve, left_side=True)


def _of_factors(shape: Shape) -> int:
    return shape[0] * shape[1] * min(shape)


def _of_spectrum(shape: Shape) -> int:
    return 10 * _of_factors(shape)  # of singular values; half of it of eigenvalues


def _of_solution(factors: Shape, order: Shape, right: Shape) -> int:
    return factors[0] * right[0] * right[1]


_factors = in_parts(_lu, _of_factors)
_solution = in_parts(_lu_solve, _of_solution)
_solution_transposed = in_parts(_lu_solve_transposed, _of_solution)
_thin_svd = in_parts(partial(jnp.linalg.svd, full_matrices=False), _of_spectrum)

eigh = in_parts(jnp.linalg.eigh, _of_spectrum)
eigvalsh = in_parts(jnp.linalg.eigvalsh, _of_spectrum)


def svd(
    matrix: Float[Array, "*batch m n"], full_matrices: bool
) -> tuple[Float[Array, "*batch m k"], Float[Array, "*batch k"], Float[Array, "*batch k n"]]:
    """The thin one."""
    assert not full_matrices
    left, values, right = _thin_svd(matrix)
    return left, values, right


def solve(
    matrix: Float[Array, "*batch n n"], right: Float[Array, "*batch n k"]
) -> Float[Array, "*batch n k"]:
    """A^-1 b. Derivatives use the same factors."""
    batch = np.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    matrix = jnp.broadcast_to(matrix, (*batch, *matrix.shape[-2:]))
    factors = _factors(lax.stop_gradient(matrix))
    found: Float[Array, "*batch n k"] = lax.custom_linear_solve(
        lambda x: matrix @ x,
        jnp.broadcast_to(right, (*batch, *right.shape[-2:])),
        solve=lambda _, b: _solution(*factors, b),
        transpose_solve=lambda _, b: _solution_transposed(*factors, b),
    )
    return found


def inv(matrix: Float[Array, "*batch n n"]) -> Float[Array, "*batch n n"]:
    """A^-1."""
    return solve(matrix, jnp.eye(matrix.shape[-1], dtype=matrix.dtype))


def _cholesky_and_its_change(
    matrices: tuple[Float[Array, "*batch n n"]], changes: tuple[Float[Array, "*batch n n"]]
) -> tuple[Float[Array, "*batch n n"], Float[Array, "*batch n n"]]:
    """L, and dL = L low(L^-1 dA L^-T): the lower triangle with half of the diagonal."""
    (matrix,), (change,) = matrices, changes
    lower, change = cholesky(matrix), (change + change.swapaxes(-1, -2)) / 2
    inner = solve(lower, solve(lower, change).swapaxes(-1, -2))
    return lower, lower @ (jnp.tril(inner) - inner * jnp.eye(inner.shape[-1]) / 2)


cholesky = jax.custom_jvp(in_parts(jnp.linalg.cholesky, _of_factors))  # L of A = L L^T
cholesky.defjvp(_cholesky_and_its_change)
