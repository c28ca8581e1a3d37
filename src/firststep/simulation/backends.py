"""The two array libraries behind one kernel.

A backend offers the few operations where NumPy and JAX differ: loops over blocks of rows, in-place
accumulation, random streams and compilation. Everything else in the kernel is written with
``backend.xp``.
"""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np
import scipy.linalg.blas
from threadpoolctl import threadpool_limits

from firststep.checks import choice
from firststep.errors import BackendUnavailable, InvalidParameter
from firststep.numerics.devices import jax_device
from firststep.numerics.library import NUMPY, Library, jax_library
from firststep.simulation.randomness import CHUNK, DeviceDraws, HostDraws

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from firststep.typing import Array, Float, Int

    Place: TypeAlias = int | Int[Array, ""]  # of a row; traced inside a compiled loop

Carry = TypeVar("Carry")
BACKENDS = ("numpy", "jax")
DEVICES = ("auto", "cpu", "gpu")
DTYPES = ("float64", "float32")


class Draws(Protocol):
    """Random numbers of one replicate, by purpose; ``start`` may be traced."""

    def vector(self, purpose: str, length: int, index: int = 0) -> Float[Array, " length"]: ...
    def uniform(self, purpose: str, length: int, index: int = 0) -> Float[Array, " length"]: ...
    def rows(
        self, purpose: str, start: Any, count: int, columns: int, index: int = 0
    ) -> Float[Array, "count columns"]: ...


class Backend(ABC):
    """What the kernel needs of an array library."""

    name: str
    device: str
    library: Library
    dtype: np.dtype[Any]

    @property
    def xp(self) -> Any:
        """NumPy, or jax.numpy."""
        return self.library.xp

    @abstractmethod
    def scope(self) -> contextlib.AbstractContextManager[Any]: ...
    @abstractmethod
    def key(self, seed: int, replicate: int) -> Any: ...
    @abstractmethod
    def draws(self, key: Any) -> Draws: ...
    @abstractmethod
    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]: ...
    @abstractmethod
    def zeros(self, shape: tuple[int, ...]) -> Float[Array, "*shape"]: ...
    @abstractmethod
    def to_host(self, array: Float[Array, "*shape"]) -> Float[Array, "*shape"]: ...
    @abstractmethod
    def to_device(self, array: ArrayLike) -> Float[Array, "*shape"]: ...
    @abstractmethod
    def slice(
        self, array: Float[Array, "n *rest"], start: Place, count: int
    ) -> Float[Array, "count *rest"]: ...
    @abstractmethod
    def set_row(
        self, matrix: Float[Array, "m n"], row: int, values: Float[Array, " n"]
    ) -> Float[Array, "m n"]: ...
    @abstractmethod
    def fold(
        self, body: Callable[[Carry, Any, int], Carry], carry: Carry, rows: int, block: int
    ) -> Carry: ...
    @abstractmethod
    def collect(
        self, rows_of: Callable[[Any, int], Any], rows: int, columns: tuple[int, ...], block: int
    ) -> Any: ...
    @abstractmethod
    def add_product(
        self, total: Float[Array, "k m"], left: Float[Array, "n k"], right: Float[Array, "n m"]
    ) -> Float[Array, "k m"]: ...
    @abstractmethod
    def add_gram(
        self, total: Float[Array, "N N"], features: Float[Array, "n N"]
    ) -> Float[Array, "N N"]: ...
    @abstractmethod
    def outer_gram(self, features: Float[Array, "n N"]) -> Float[Array, "n n"]: ...
    @abstractmethod
    def memory_limit(self) -> int | None: ...


class NumpyBackend(Backend):
    """NumPy and SciPy on the CPU. BLAS adds in place; of a Gram matrix one triangle is filled."""

    name = "numpy"
    device = "cpu"
    library = NUMPY

    def __init__(self, dtype: str = "float64", threads: int = 1) -> None:
        self.dtype = np.dtype(dtype)
        self._threads = threads
        prefix = "d" if self.dtype == np.float64 else "s"
        self._gemm = getattr(scipy.linalg.blas, prefix + "gemm")
        self._syrk = getattr(scipy.linalg.blas, prefix + "syrk")

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """One BLAS thread, or as many as asked: their number changes the rounding."""
        with threadpool_limits(self._threads):
            yield

    def key(self, seed: int, replicate: int) -> Any:
        return seed, replicate

    def draws(self, key: Any) -> Draws:
        seed, replicate = key
        return HostDraws(seed, replicate, self.dtype)

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    def zeros(self, shape: tuple[int, ...]) -> Float[Array, "*shape"]:
        return np.zeros(shape, dtype=self.dtype)

    def to_host(self, array: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return np.asarray(array)

    def to_device(self, array: ArrayLike) -> Float[Array, "*shape"]:
        return np.asarray(array, dtype=self.dtype)

    def slice(
        self, array: Float[Array, "n *rest"], start: Place, count: int
    ) -> Float[Array, "count *rest"]:
        return array[start : start + count]

    def set_row(
        self, matrix: Float[Array, "m n"], row: int, values: Float[Array, " n"]
    ) -> Float[Array, "m n"]:
        matrix[row] = values
        return matrix

    def fold(
        self, body: Callable[[Carry, Any, int], Carry], carry: Carry, rows: int, block: int
    ) -> Carry:
        """carry = body(carry, start, count) over consecutive blocks of rows."""
        for start in range(0, rows, block):
            carry = body(carry, start, min(block, rows - start))
        return carry

    def collect(
        self, rows_of: Callable[[Any, int], Any], rows: int, columns: tuple[int, ...], block: int
    ) -> Any:
        """The matrices, one per entry of ``columns``, with blocks of rows rows_of(start, count)."""
        whole = tuple(np.empty((rows, width), dtype=self.dtype) for width in columns)
        for start in range(0, rows, block):
            for out, part in zip(whole, rows_of(start, min(block, rows - start)), strict=True):
                out[start : start + block] = part
        return whole

    def add_product(
        self, total: Float[Array, "k m"], left: Float[Array, "n k"], right: Float[Array, "n m"]
    ) -> Float[Array, "k m"]:
        """total + left^T right, in place (C-ordered total: its transpose is what BLAS sees)."""
        self._gemm(1.0, right.T, left.T, beta=1.0, c=total.T, trans_b=True, overwrite_c=True)
        return total

    def add_gram(
        self, total: Float[Array, "N N"], features: Float[Array, "n N"]
    ) -> Float[Array, "N N"]:
        """total + features^T features in the lower triangle of total^T, in place."""
        self._syrk(1.0, features.T, beta=1.0, c=total.T, lower=True, overwrite_c=True)
        return total

    def outer_gram(self, features: Float[Array, "n N"]) -> Float[Array, "n n"]:
        """features features^T, in the same form as ``add_gram``."""
        return self._syrk(1.0, features.T, trans=True, lower=True).T

    def memory_limit(self) -> int | None:
        return available_memory()


class JaxBackend(Backend):
    """JAX on its own device; loops are compiled, data never visits the host."""

    name = "jax"

    def __init__(self, dtype: str = "float64", device: str = "auto") -> None:
        import jax
        import jax.scipy.linalg

        self._jax = jax
        self.library = jax_library()
        self.dtype = np.dtype(dtype)
        self._device = jax_device(jax, device)
        self.device = self._device.platform
        self.cholesky_solve = self.compile(self._cholesky_solve)

    def _cholesky_solve(
        self, matrix: Float[Array, "n n"], right: Float[Array, " n"], shift: float
    ) -> Float[Array, " n"]:
        """(matrix + shift)^-1 right from the lower triangle; nan if it is not positive definite."""
        linalg = self._jax.scipy.linalg
        shifted = matrix + shift * self.xp.eye(matrix.shape[0], dtype=matrix.dtype)
        return linalg.cho_solve(linalg.cho_factor(shifted, lower=True), right)

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Double precision for the calls inside, without touching the user's own settings."""
        x64 = self.dtype == np.float64
        with self._jax.enable_x64(x64), self._jax.default_device(self._device):
            with self._jax.default_matmul_precision("highest"):
                yield

    def key(self, seed: int, replicate: int) -> Any:
        """Seeds beyond 32 bits are folded in word by word, so that all of their bits count."""
        key = self._jax.random.key(seed & 0xFFFFFFFF, impl="threefry2x32")
        while seed := seed >> 32:
            key = self._jax.random.fold_in(key, seed & 0xFFFFFFFF)
        return self._jax.random.fold_in(key, replicate)

    def draws(self, key: Any) -> Draws:
        return DeviceDraws(key, self.dtype)

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        compiled: Callable[..., Any] = self._jax.jit(function)
        return compiled

    def zeros(self, shape: tuple[int, ...]) -> Float[Array, "*shape"]:
        return self.xp.zeros(shape, dtype=self.dtype)

    def to_host(self, array: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return np.asarray(array)

    def to_device(self, array: ArrayLike) -> Float[Array, "*shape"]:
        return self.xp.asarray(array, dtype=self.dtype)

    def slice(
        self, array: Float[Array, "n *rest"], start: Place, count: int
    ) -> Float[Array, "count *rest"]:
        return self._jax.lax.dynamic_slice_in_dim(array, start, count)

    def set_row(
        self, matrix: Float[Array, "m n"], row: int, values: Float[Array, " n"]
    ) -> Float[Array, "m n"]:
        return matrix.at[row].set(values)  # type: ignore[attr-defined]

    def fold(
        self, body: Callable[[Carry, Any, int], Carry], carry: Carry, rows: int, block: int
    ) -> Carry:
        full, rest = divmod(rows, block)
        if full:
            carry = self._jax.lax.fori_loop(0, full, lambda i, c: body(c, i * block, block), carry)
        return body(carry, full * block, rest) if rest else carry

    def collect(
        self, rows_of: Callable[[Any, int], Any], rows: int, columns: tuple[int, ...], block: int
    ) -> Any:
        full, rest = divmod(rows, block)
        parts = []
        if full:
            stacked = self._jax.lax.map(
                lambda start: rows_of(start, block), block * self.xp.arange(full)
            )
            parts.append(
                tuple(
                    s.reshape(full * block, width)
                    for s, width in zip(stacked, columns, strict=True)
                )
            )
        if rest:
            parts.append(rows_of(full * block, rest))
        return tuple(self.xp.concatenate(each) for each in zip(*parts, strict=True))

    def add_product(
        self, total: Float[Array, "k m"], left: Float[Array, "n k"], right: Float[Array, "n m"]
    ) -> Float[Array, "k m"]:
        return total + left.T @ right

    def add_gram(
        self, total: Float[Array, "N N"], features: Float[Array, "n N"]
    ) -> Float[Array, "N N"]:
        """total + features^T features in the lower triangle: a GPU computes no more than that."""
        return self._jax.lax.linalg.symmetric_product(features.T, total, alpha=1.0, beta=1.0)

    def outer_gram(self, features: Float[Array, "n N"]) -> Float[Array, "n n"]:
        size = features.shape[0]
        return self._jax.lax.linalg.symmetric_product(features, self.zeros((size, size)))

    def memory_limit(self) -> int | None:
        if self.device == "cpu":
            return available_memory()
        stats = self._device.memory_stats() or {}
        return stats.get("bytes_limit")


def make_backend(
    name: str = "numpy", device: str = "auto", dtype: str = "float64", threads: int = 1
) -> Backend:
    """The backend asked for, or a message that says why it cannot be had."""
    choice("backend", name, BACKENDS)
    choice("device", device, DEVICES)
    choice("dtype", dtype, DTYPES)
    if name == "numpy":
        if device == "gpu":
            raise InvalidParameter(
                "device", "cpu or auto for the numpy backend", "gpu", "try --backend jax"
            )
        return NumpyBackend(dtype, threads)
    try:
        return JaxBackend(dtype, device)
    except ImportError:
        raise BackendUnavailable(
            "backend", "one that is installed", "jax", "try: pip install 'firststep[jax]'"
        ) from None


def block_rows(width: int, dimension: int, backend: Backend) -> int:
    """Rows per block, a multiple of the chunk.

    CPU: a few MB, so that two processes share a cache without slowing each other.
    """
    largest = max(width, dimension)
    rows = (
        max(256, min(1024, 2**19 // largest))
        if backend.device == "cpu"
        else max(CHUNK, 2**26 // largest)
    )
    return rows // CHUNK * CHUNK


def available_memory() -> int | None:
    """Bytes this process may still use: the machine's free memory, or less in a container."""
    limits = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open("/proc/meminfo", encoding="ascii") as lines:
            fields = dict(line.split(":", 1) for line in lines)
        limits.append(1024 * int(fields["MemAvailable"].split()[0]))
    with contextlib.suppress(OSError, ValueError):
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as maximum:
            limit = int(maximum.read())
        with open("/sys/fs/cgroup/memory.current", encoding="ascii") as current:
            used = int(current.read())
        with open("/sys/fs/cgroup/memory.stat", encoding="ascii") as stat:
            cache = int(
                dict(line.split() for line in stat).get("inactive_file", 0)
            )  # given back when needed
        limits.append(limit - used + cache)
    if not limits:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(limits) if limits else None
