"""Singular values against the law of noise: variance, outliers, distance.

The variance v is first that of the lower 90 % of the values against their law, which outliers do
not move, then

    m n v = sum of s_i^2 beyond the outliers + sum over outliers (s^2 - theta^2),

with theta^2 the signal behind an outlier, until the count stays the same. Value k is tested with v
from k - 1 outliers, against noise of (m - k + 1) x (n - k + 1) entries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firststep.trained import noise

if TYPE_CHECKING:
    from firststep.typing import Array, Float

_KEPT = 0.9  # of the values, for a variance that outliers do not move
# Of the values: with more of them taken out, what is left of a small matrix fits any law.
_SHARE = 0.2
_ROUNDS = 20  # until the count stays the same: two or three


@dataclass(frozen=True, eq=False)
class NoiseFit:
    """Singular values against the law of noise."""

    variance: float
    p_values: tuple[float, ...]  # one an outlier
    distance: float
    bound: float

    @property
    def count(self) -> int:
        return len(self.p_values)

    short: int

    @property
    def is_noise(self) -> bool:
        return self.distance <= self.bound and self.count <= _SHARE * self.short


def noise_fit(values: Float[Array, " short"], shape: tuple[int, ...], kind: str) -> NoiseFit:
    """Variance, outliers and distance to the law."""
    long, short = max(shape), min(shape)
    squares = values**2
    variance, count = _lower_variance(squares, long, short), -1
    for _ in range(_ROUNDS):
        found = _count(squares, variance, long, short)
        variance = _variance(squares, found, variance, long, short)
        if found == count:
            break
        count = found
    p_values: list[float] = []
    for k in range(count):
        v = _variance(squares, k, variance, long, short)
        p_values.append(noise.beyond(long - k, short - k, float(squares[k] / v)))
    while p_values and p_values[-1] > noise.LEVEL:
        p_values.pop()
    count = len(p_values)
    variance = _variance(squares, count, variance, long, short)
    long, short, rest = long - count, short - count, squares[count:]
    shares = noise.below(long, short, rest[::-1] / _lower_variance(rest, long, short))
    return NoiseFit(
        variance=variance,
        p_values=tuple(p_values),
        distance=float(np.max(np.abs(shares - noise.middles(short)))),
        bound=noise.farthest(short, kind),
        short=short + count,
    )


def _count(squares: Float[Array, " short"], variance: float, long: int, short: int) -> int:
    """How many values in a row are beyond what noise of what is left would have."""
    count = 0
    while count < short // 2 and squares[count] > variance * noise.edge(
        long - count, short - count, noise.LEVEL
    ):
        count += 1
    return count


def _lower_variance(squares: Float[Array, " short"], long: int, short: int) -> float:
    """From the lower 90 % of the values."""
    kept = math.ceil(_KEPT * short)
    expected = noise.quantile(long, short, noise.middles(short))
    return float(squares[-kept:].sum() / expected[:kept].sum())


def _variance(
    squares: Float[Array, " short"], count: int, variance: float, long: int, short: int
) -> float:
    """From all values, less the signal behind the first ``count``."""
    for _ in range(4):  # the signal depends on it but little
        excess = np.maximum(squares[:count] - (long + short) * variance, 0.0)
        product = 4 * long * short * variance**2
        signal = (excess + np.sqrt(np.maximum(excess**2 - product, 0.0))) / 2
        left = squares[count:].sum() + (squares[:count] - signal).sum()
        variance = float(left / (long * short))
    return variance
