"""The few operations on N x N matrices that NumPy and JAX do differently."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import lapack

from firststep.checks import choice
from firststep.errors import BackendUnavailable, InvalidParameter, NotConverged
from firststep.numerics.devices import jax_device

if TYPE_CHECKING:
    from firststep.typing import Array, Float

NOT_POSITIVE = (
    "a matrix of the layer is not positive definite: the ridge is too small for these weights"
)
_BLOCK = 256  # rows copied or multiplied at once: two megabytes of a matrix of width 1000


class Matrices:
    """NumPy's way."""

    xp: Any = np
    backend: str = "numpy"
    packages: tuple[str, ...] = ()  # beyond those of every result

    def put(self, array: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The array where the matrices live."""
        return np.asarray(array, dtype=np.float64)

    def get(self, array: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The array on the host."""
        return np.asarray(array)

    def inverse(self, matrix: Float[Array, "N N"]) -> Float[Array, "N N"]:
        """The inverse of a symmetric positive definite matrix, which is used up."""
        factor, info = lapack.dpotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
        if info == 0:
            factor, info = lapack.dpotri(factor, lower=1, overwrite_c=1)
        if info:
            raise NotConverged(NOT_POSITIVE)
        return _symmetric(factor.T)

    def plus_diagonal(
        self, matrix: Float[Array, "N N"], values: Float[Array, " N"] | float
    ) -> Float[Array, "N N"]:
        """matrix + diag(values), or + values times the identity; the matrix is used up."""
        np.einsum("ii->i", matrix)[:] += values
        return matrix

    def symmetric_product(
        self, left: Float[Array, "N N"], right: Float[Array, "N N"]
    ) -> Float[Array, "N N"]:
        """left @ right, which is known to be symmetric: only half of the blocks are computed."""
        product = np.empty_like(left)
        size = len(left)
        block = max(_BLOCK, -(-size // 8))
        for start in range(0, size, block):
            rows = slice(start, start + block)
            np.matmul(left[rows], right[:, start:], out=product[rows, start:])
        return _symmetric(product)


def _symmetric(matrix: Float[Array, "N N"]) -> Float[Array, "N N"]:
    """Copies the upper triangle to the lower one, in place."""
    for start in range(0, len(matrix), _BLOCK):
        stop = start + _BLOCK
        square = matrix[start:stop, start:stop]
        square[:] = np.triu(square) + np.triu(square, 1).T
        matrix[stop:, start:stop] = matrix[start:stop, stop:].T
    return matrix


class DeviceMatrices(Matrices):
    """The same on a JAX device; to be used where JAX is in double precision."""

    backend, packages = "jax", ("jax", "jaxlib")

    def __init__(self, jax: ModuleType) -> None:
        self.xp, self._linalg = jax.numpy, jax.scipy.linalg

    def put(self, array: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return self.xp.asarray(array, dtype=self.xp.float64)

    def inverse(self, matrix: Float[Array, "N N"]) -> Float[Array, "N N"]:
        factor = self._linalg.cho_factor(matrix, lower=True)
        inverse = self._linalg.cho_solve(factor, self.xp.eye(len(matrix)))
        if not bool(self.xp.isfinite(inverse[0, 0])):
            raise NotConverged(NOT_POSITIVE)
        return (inverse + inverse.T) / 2

    def plus_diagonal(
        self, matrix: Float[Array, "N N"], values: Float[Array, " N"] | float
    ) -> Float[Array, "N N"]:
        return matrix + self.xp.diag(self.xp.broadcast_to(values, (len(matrix),)))

    def symmetric_product(
        self, left: Float[Array, "N N"], right: Float[Array, "N N"]
    ) -> Float[Array, "N N"]:
        return left @ right


@contextlib.contextmanager
def matrices_on(backend: str, device: str) -> Iterator[Matrices]:
    """The matrices of a backend and a device; JAX in double precision for the calls inside."""
    choice("backend", backend, ("numpy", "jax"))
    choice("device", device, ("auto", "cpu", "gpu"))
    if backend == "numpy":
        if device == "gpu":
            allowed = "cpu or auto for the numpy backend"
            raise InvalidParameter("device", allowed, "gpu", 'try backend="jax"')
        yield Matrices()
        return
    try:
        import jax
        import jax.scipy.linalg
    except ImportError:
        hint = "try: pip install 'firststep[jax]'"
        raise BackendUnavailable("backend", "one that is installed", "jax", hint) from None
    with (
        jax.enable_x64(True),
        jax.default_device(jax_device(jax, device)),
        jax.default_matmul_precision("highest"),
    ):
        yield DeviceMatrices(jax)
