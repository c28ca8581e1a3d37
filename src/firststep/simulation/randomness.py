"""Random numbers by name.

Every array has a purpose (the teacher, the weights, the inputs of the step, ...) with its own
stream, made from the seed and the number of the replicate. Rows of data come in chunks of a fixed
size with a stream each, so a block of rows is the same whatever the size of the blocks it is read
in, and no array ever depends on another having been drawn before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from firststep.typing import Array, Float, Int

CHUNK = 128
PURPOSES = {
    name: code
    for code, name in enumerate(
        (
            "teacher",
            "weights",
            "readout",
            "step inputs",
            "step noise",
            "ridge inputs",
            "ridge noise",
            "test inputs",
            "spike direction",
            "ridge feature noise",
            "test feature noise",
            "singular vectors",
            "teacher terms",
            "step scales",
            "ridge scales",
            "test scales",
            "mixture direction",
            "data rows",
            "step labels",
            "ridge labels",
            "test noise",
            "test labels",
        )
    )
}


class HostDraws:
    """Streams of one replicate drawn by NumPy (SFC64): float64, then rounded to ``dtype``."""

    def __init__(self, seed: int, replicate: int, dtype: DTypeLike = np.float64) -> None:
        self._seed, self._replicate, self._dtype = seed, replicate, np.dtype(dtype)

    def _generator(self, purpose: str, index: int, chunk: int = 0) -> np.random.Generator:
        key = (self._replicate, PURPOSES[purpose], index, chunk)
        return np.random.Generator(
            np.random.SFC64(np.random.SeedSequence(self._seed, spawn_key=key))
        )

    def vector(self, purpose: str, length: int, index: int = 0) -> Float[Array, " length"]:
        """A Gaussian vector."""
        return (
            self._generator(purpose, index).standard_normal(length).astype(self._dtype, copy=False)
        )

    def uniform(self, purpose: str, length: int, index: int = 0) -> Float[Array, " length"]:
        """A vector of uniforms in [0, 1)."""
        return self._generator(purpose, index).random(length).astype(self._dtype, copy=False)

    def rows(
        self, purpose: str, start: int, count: int, columns: int, index: int = 0
    ) -> Float[Array, "count columns"]:
        """Rows start .. start + count of a Gaussian matrix; ``start``: a multiple of the chunk."""
        block = np.empty((count, columns))
        for offset in range(0, count, CHUNK):
            part = block[offset : offset + CHUNK]
            self._generator(purpose, index, 1 + (start + offset) // CHUNK).standard_normal(out=part)
        return block.astype(self._dtype, copy=False)


class DeviceDraws:
    """The same streams drawn by JAX (threefry) on its device; the numbers are other ones."""

    def __init__(self, key: Any, dtype: np.dtype[Any]) -> None:
        self._key, self._dtype = key, dtype

    def _stream(self, purpose: str, index: int) -> Any:
        import jax

        return jax.random.fold_in(jax.random.fold_in(self._key, PURPOSES[purpose]), index)

    def vector(self, purpose: str, length: int, index: int = 0) -> Float[Array, " length"]:
        import jax

        return jax.random.normal(self._stream(purpose, index), (length,), self._dtype)

    def uniform(self, purpose: str, length: int, index: int = 0) -> Float[Array, " length"]:
        import jax

        return jax.random.uniform(self._stream(purpose, index), (length,), self._dtype)

    def rows(
        self, purpose: str, start: int | Int[Array, ""], count: int, columns: int, index: int = 0
    ) -> Float[Array, "count columns"]:
        import jax
        import jax.numpy as jnp

        stream = self._stream(purpose, index)
        chunks = 1 + start // CHUNK + jnp.arange(-(-count // CHUNK))
        draw = jax.vmap(
            lambda c: jax.random.normal(
                jax.random.fold_in(stream, c), (CHUNK, columns), self._dtype
            )
        )
        return draw(chunks).reshape(-1, columns)[:count]
