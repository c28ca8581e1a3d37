"""erf and its kin at the speed of NumPy's own functions, to two units in the last place.

SciPy computes erf one value at a time; here it is a dozen passes of NumPy, which computes several
at once, over blocks that stay in the cache. An integral of a Gaussian is known on a grid of spacing
h = 2^-11, and from the nearest point p of the grid to x = p + d it grows by

    int_p^x exp(-s t^2) dt = d exp((a - 2) q - a) (1 + O(d^4)),   a = s p x,   q = s d^2/6

(the mean and half the variance of the exponent over the step, to third order in d). What is left
out is (2/45) (s d^2)^2 at p = 0, less of the value elsewhere. The values on the grid are made once,
in whole numbers of 192 bits.

    erf(x)                  = (2/sqrt pi) int_0^x exp(-t^2) dt
    doubled_normal(x)       = 1 + erf(x/sqrt 2), without its cancellation where x < 0
    gaussian(x, s)          = exp(-s x^2), with what x^2 loses when it is rounded
    sigmoid(x), softplus(x) = 1/(1 + exp(-x)), log(1 + exp(x))

In JAX they are JAX's own.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from firststep.numerics.library import library_of

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from firststep.typing import Array, Float

    # (values, where the results go, as many rows of memory as the kernel asks for)
    Kernel: TypeAlias = Callable[
        [Float[Array, " n"], Float[Array, " n"], Float[Array, "rows n"]], None
    ]

BLOCK = 16_384  # values: the arrays of a block take half of a cache of 1 MB, and calls 1 ns in 16
_ROWS = 5  # of memory, at most
_FINE = 11  # h = 2^-11, which makes tables of 200 to 300 kB
# For the 2 of the growth: what is left out at p = 0, (2/45) d^4, is 1.6e-16 at d = h/2. Some of d^2
# taken away leaves a sixth of it: (2/45) (d^4 - 0.83 (h/2)^2 d^2).
_TWO = 2.0 - 6 * (2 / 45) * 0.83 * (0.5 / 2**_FINE) ** 2
_BITS = 192  # of the tables: 128 for the smallest value on the grid, 2^-64, and room for rounding
_ROOT_PI = 0x1C5BF891B4EF6AA79C3B0520D5DB9383FE3921546F63B252D  # sqrt(pi), in units of 2^-192
_ERF_ENDS = 6.0  # 1 - erf(6) = 2e-17
_NORMAL_ENDS = 9.0  # below it a continued fraction, which has then 14 levels
_LEVELS = 14
_GAUSSIAN_ENDS = 40.0  # exp(-40^2/2) = 0
# A number of this size added to x and taken away leaves x rounded to a multiple of h; the last bits
# of the sum are that multiple.
_TO_GRID = 1.5 * 2.0 ** (52 - _FINE)
_ZEROS = {np.dtype(kind): np.zeros(BLOCK, kind) for kind in (np.float64, np.float32)}
_TO_26_BITS = 1.5 * 2.0**32  # of x < 64: a number whose square has no rounding


_kept = threading.local()


def _memory(kind: DTypeLike) -> Float[Array, "5 n"]:
    """Room for a block, kept by each thread: to ask for it anew costs as much as to fill it."""
    name = np.dtype(kind).name
    found: Float[Array, "5 n"] | None = getattr(_kept, name, None)
    if found is None:
        found = np.empty(
            (_ROWS, BLOCK + 64), kind
        )  # rows a power of two apart share places in caches
        setattr(_kept, name, found)
    return found


def _by_blocks(
    kernel: Kernel, rows: int, u: Float[Array, "*s"], wide: bool = False
) -> Float[Array, "*s"]:
    """The kernel on blocks of u, with memory of the type of u or, where ``wide``, float64."""
    u = np.asarray(u)
    if u.dtype not in (np.float64, np.float32):
        u = u.astype(float)
    flat, out = u.reshape(-1), np.empty(u.size, u.dtype)
    memory = _memory(float if wide else u.dtype)[:rows]
    with np.errstate(all="ignore"):
        for start in range(0, u.size, BLOCK):
            part = flat[start : start + BLOCK]
            kernel(part, out[start : start + BLOCK], memory[:, : part.size])
    return out.reshape(u.shape)[()]


class _Table(NamedTuple):
    """An integral of exp(-s t^2), times a height, on the grid from -ends to ends."""

    values: Float[Array, " grid"]
    rate: float  # s
    height: float
    ends: float

    def fill(
        self, u: Float[Array, " n"], out: Float[Array, " n"], memory: Float[Array, "5 n"]
    ) -> None:
        """The integral at u. The names of the memory are what it holds last."""
        x, nearest, product, step, power = memory
        np.clip(u, -self.ends, self.ends, out=x)
        np.add(x, _TO_GRID, out=nearest)
        np.subtract(nearest, _TO_GRID, out=product)
        np.subtract(x, product, out=step)
        np.multiply(product, x, out=product)
        if self.rate != 1.0:
            np.multiply(product, self.rate, out=product)
        place = nearest.view(np.int64)
        np.subtract(place, self._first, out=place)
        values = np.take(self.values, place, out=x, mode="clip")  # clip: for what nan becomes
        square = np.multiply(step, step, out=nearest)
        np.multiply(square, self.rate / 6, out=square)
        np.subtract(product, _TWO, out=power)
        np.multiply(power, square, out=power)
        np.subtract(power, product, out=power)
        np.exp(power, out=power)
        np.multiply(step, power, out=step)  # first: at the other order 2.04 units in the last place
        np.multiply(step, self.height, out=step)
        np.add(values, step, out=out, casting="same_kind")

    @property
    def _first(self) -> np.int64:
        """The bits of _TO_GRID - ends: of the sum that belongs to the first place."""
        return np.float64(_TO_GRID - self.ends).view(np.int64)


def _rests(rate: float, ends: float) -> list[int]:
    """int_x^inf exp(-s t^2) dt at x = 0, h, 2 h, .. ends, in units of 2^-192; s is 1 or 1/2.

    The sum of the trapezoids T of G = exp(-s x^2), by Euler and Maclaurin: int_0^x G = T - (h^2/12)
    G'(x) + (h^4/720) G'''(x) - .., where the next term is 1e-24. G itself by its ratios, which have
    a constant ratio.
    """
    one, halves = 1 << _BITS, 2 if rate == 1.0 else 1  # halves: 2 s
    ratio, change = _exponential(halves, 1), _exponential(halves, 2)
    height, total, count = one, -one // 2, int(ends) << _FINE
    whole = _ROOT_PI // 2 if rate == 1.0 else math.isqrt(_ROOT_PI * _ROOT_PI // 2)
    rests = [whole]
    for k in range(1, count + 1):
        total += height
        height = height * ratio >> _BITS
        ratio = ratio * change >> _BITS
        # h^2/12 2 s x = s k h^3/6;  h^4/720 (12 s^2 x - 8 s^3 x^3) = s^2 k h^5/60 - s^3 k^3 h^7/90
        first = (height * halves * k) // (12 << 3 * _FINE)
        third = (height * halves**2 * k) // (240 << 5 * _FINE)
        third -= (height * halves**3 * k**3) // (720 << 7 * _FINE)
        rests.append(whole - ((2 * total + height) >> _FINE + 1) - first - third)
    return rests


def _exponential(halves: int, times: int) -> int:
    """exp(-times s h^2) in units of 2^-192, by its series."""
    term, total, k = 1 << _BITS, 0, 0
    while abs(term) > 1:
        total, k = total + term, k + 1
        term = -term * halves * times // (k << 2 * _FINE + 1)
    return total


@cache
def _erf_table() -> _Table:
    rests = _rests(1.0, _ERF_ENDS)
    whole = rests[0]
    right = [(whole - rest) / whole for rest in rests[1:]]
    # -0.0 in the middle: added to a step of either zero it leaves that zero
    return _table([-value for value in right[::-1]] + [-0.0] + right, 1.0, _ERF_ENDS)


@cache
def _normal_table() -> _Table:
    rests = _rests(0.5, _NORMAL_ENDS)
    whole = rests[0]
    left = [rest / whole for rest in rests[:0:-1]]
    return _table(left + [(2 * whole - rest) / whole for rest in rests], 0.5, _NORMAL_ENDS)


def _table(values: list[float], rate: float, ends: float) -> _Table:
    return _Table(np.array(values), rate, 2 * math.sqrt(rate / math.pi), ends)


def erf(u: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """erf(u)."""
    lib = library_of(u)
    return _by_blocks(_erf_table().fill, 5, u, wide=True) if lib.is_numpy else lib.special.erf(u)


def doubled_normal(u: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """2 P(z < u) = 1 + erf(u/sqrt 2), z ~ N(0, 1): of NumPy arrays."""
    return _by_blocks(_fill_normal, 5, u, wide=True)


def _fill_normal(
    u: Float[Array, " n"], out: Float[Array, " n"], memory: Float[Array, "5 n"]
) -> None:
    _normal_table().fill(u, out, memory)
    if not np.minimum.reduce(u) >= -_NORMAL_ENDS:  # nan comes here too
        far = np.flatnonzero(u < -_NORMAL_ENDS)
        out[far] = _far_left(u[far].astype(float))


def _far_left(u: Float[Array, " n"]) -> Float[Array, " n"]:
    """2 phi(u)/(y + 1/(y + 2/(y + 3/(y + ..)))), y = -u: the continued fraction of Mills.

    To three units in the last place: the values are below 1e-18.
    """
    y = np.minimum(-u, 1e3)  # where it is 0, as it would not be of inf
    below = y
    for k in range(_LEVELS, 0, -1):
        below = y + k / below
    return gaussian(y, 0.5) * (math.sqrt(2 / math.pi) / below)


def gaussian(u: Float[Array, "*s"], rate: float = 1.0) -> Float[Array, "*s"]:
    """exp(-rate u^2) of NumPy arrays, where rate is a power of two."""

    def fill(u: Float[Array, " n"], out: Float[Array, " n"], memory: Float[Array, "4 n"]) -> None:
        """With q = x^2 rounded and x = y + z, y of 26 bits: exp(-q) (1 - (y^2 - q + (x + y) z))."""
        x, short, rest, square = memory
        np.clip(u, -_GAUSSIAN_ENDS, _GAUSSIAN_ENDS, out=x)
        np.multiply(x, x, out=square)
        np.add(x, _TO_26_BITS, out=short)
        np.subtract(short, _TO_26_BITS, out=short)
        np.subtract(x, short, out=rest)
        np.add(x, short, out=x)
        np.multiply(rest, x, out=rest)
        np.multiply(short, short, out=short)
        np.subtract(short, square, out=short)
        np.add(rest, short, out=rest)
        if rate != 1.0:
            np.multiply(rest, rate, out=rest)
        np.multiply(square, -rate, out=square)
        np.exp(square, out=square)
        np.multiply(rest, square, out=rest)
        np.subtract(square, rest, out=out, casting="same_kind")

    return _by_blocks(fill, 4, u, wide=True)


def sigmoid(u: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """1/(1 + exp(-u)); 0 where exp(-u) overflows."""
    lib = library_of(u)
    return _by_blocks(_fill_sigmoid, 0, u) if lib.is_numpy else lib.special.expit(u)


def _fill_sigmoid(
    u: Float[Array, " n"], out: Float[Array, " n"], memory: Float[Array, "0 n"]
) -> None:
    np.negative(u, out=out)
    np.exp(out, out=out)
    np.add(out, 1.0, out=out)
    np.divide(1.0, out, out=out)


def softplus(u: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """log(1 + exp(u)) = max(u, 0) + log1p(exp(-|u|))."""
    lib = library_of(u)
    return _by_blocks(_fill_softplus, 1, u) if lib.is_numpy else lib.xp.logaddexp(0.0, u)


def _fill_softplus(
    u: Float[Array, " n"], out: Float[Array, " n"], memory: Float[Array, "1 n"]
) -> None:
    (small,) = memory
    np.abs(u, out=small)
    np.negative(small, out=small)
    np.exp(small, out=small)
    np.log1p(small, out=small)
    np.maximum(u, _ZEROS[u.dtype][: u.size], out=out)  # a number in its place costs four times that
    np.add(out, small, out=out)
