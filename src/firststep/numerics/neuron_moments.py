"""Gaussian moments of many neurons on many nodes: s(a + b z), a scale b and a line of a each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import scipy  # whose parts load when they are used: special takes a twentieth of the import
from numpy.polynomial import chebyshev

from firststep.numerics.quadrature import shifted_moments

if TYPE_CHECKING:
    from firststep.numerics.quadrature import Function
    from firststep.typing import Array, Float, Int

    Moments: TypeAlias = tuple[Float[Array, "K N"], Float[Array, "K N"], Float[Array, "K N"]]

TOLERANCE = 1e-7  # of the largest moment
MOST_NODES = 8000  # of an integral: beyond, a function is too steep, or has a kink nobody told of
MOST_TERMS = 2048  # of a Chebyshev series, for the same reason
# Function values up to which every node of one coordinate is integrated (some seconds); more of
# them are interpolated.
_DIRECT = 4e8


class TooSteep(ValueError):
    """The function needs more quadrature nodes, or more polynomials, than are reasonable."""


@dataclass(frozen=True)
class Family:
    """Neurons s(a + b z) at a[k, i] = bias[i] + strength[i] place[k, i], b = scale[i] > 0."""

    function: Function  # s
    kinks: Sequence[float]
    bias: Float[Array, " N"]
    strength: Float[Array, " N"]
    scale: Float[Array, " N"]

    def moments(self, place: Float[Array, "K N"]) -> Moments:
        """mu0 = E s, mu1 = E[z s]/b, mu2 = E s^2 - mu0^2 - b^2 mu1^2.

        ``place`` may have one column.

        In closed form where s is two half-lines (relu, abs, ...). Otherwise, with one coordinate
        and few nodes, each value is an integral; or they are read from Chebyshev tables in
        ``place``, one a neuron.
        """
        bent = _half_lines(self.function, self.kinks)
        if bent is not None:
            return _bent_moments(bent, self._shift(place), self.scale)
        nodes = self._resolution(float(np.abs(place).max()))
        if place.shape[1] == 1 and len(place) * len(self.bias) * nodes <= _DIRECT:
            return self._integrals(self._shift(place), nodes)
        return self._from_table(place, nodes)

    def _shift(self, place: Float[Array, "K N"]) -> Float[Array, "K N"]:
        return self.bias + self.strength * place

    def _some(self, places: Int[Array, " some"]) -> Family:
        own = (each[places] for each in (self.bias, self.strength, self.scale))
        return Family(self.function, self.kinks, *own)

    def _integrals(self, shift: Float[Array, "K N"], nodes: int) -> Moments:
        scale = np.broadcast_to(self.scale, shift.shape)
        mean, slope, scatter, _ = shifted_moments(self.function, shift, scale, self.kinks, nodes)
        return mean, slope, scatter

    def _resolution(self, reach: float) -> int:
        """Nodes at which doubling them moves the moments of the widest neurons by nothing."""
        widest, strongest = np.argsort(self.scale)[-4:], np.argsort(np.abs(self.strength))[-2:]
        some = self._some(np.unique(np.concatenate([widest, strongest])))
        shift = some.bias + np.outer(np.linspace(-reach, reach, 17), some.strength)
        nodes = 80
        coarse = some._integrals(shift, nodes)
        while nodes <= MOST_NODES:
            fine = some._integrals(shift, 2 * nodes)
            width = float(some.scale.max())
            mean, slope, scatter = (float(np.abs(each).max()) for each in fine)
            size = max(mean, width * slope, float(np.sqrt(scatter)), 1e-300)
            sizes = (size, size / width, size**2)  # of mu0, mu1, mu2 of a function as large
            pairs = zip(coarse, fine, sizes, strict=True)
            if all(np.abs(a - b).max() <= TOLERANCE * each for a, b, each in pairs):
                return nodes
            nodes, coarse = 2 * nodes, fine
        raise TooSteep(
            f"its conditional moments need more than {MOST_NODES} quadrature nodes: "
            "it is too steep, or has a hidden kink"
        )

    def _from_table(self, place: Float[Array, "K N"], nodes: int) -> Moments:
        """The number of polynomials doubles until the last quarter of them is small."""
        reach = float(np.abs(place).max())
        terms = 32
        while terms <= MOST_TERMS:
            at = reach * chebyshev.chebpts1(terms)
            values = self._integrals(self.bias + np.outer(at, self.strength), nodes)
            tables = [chebyshev_coefficients(each) for each in values]
            sizes = [max(float(np.abs(t).max()), 1e-300) for t in tables]
            tails = (np.abs(t[-terms // 4 :]).max() for t in tables)
            if all(tail <= TOLERANCE * size for tail, size in zip(tails, sizes, strict=True)):
                mean, slope, scatter = (
                    _read(place / reach, table, 0.1 * TOLERANCE * size)
                    for table, size in zip(tables, sizes, strict=True)
                )
                return mean, slope, np.maximum(scatter, 0.0)
            terms *= 2
        raise TooSteep(
            f"its conditional moments need more than {MOST_TERMS} polynomials: "
            "the spike is too strong"
        )


class _Bent(NamedTuple):
    """A function of two half-lines."""

    kink: float
    value: float  # there
    left: float  # slopes
    right: float


def _half_lines(function: Function, kinks: Sequence[float]) -> _Bent | None:
    """The half-lines that s is made of; None if it is not."""
    if len(kinks) != 1:
        return None
    steps = np.array([1e-3, 0.1, 0.7, 3.0, 20.0])
    left, here, right = (np.asarray(function(kinks[0] + at)) for at in (-steps, np.zeros(1), steps))
    slopes = (here - left) / steps, (right - here) / steps
    if any(np.ptp(each) > 1e-9 * (1 + np.abs(each).max()) for each in slopes):
        return None
    return _Bent(float(kinks[0]), float(here[0]), float(slopes[0][-1]), float(slopes[1][-1]))


def _bent_moments(bent: _Bent, shift: Float[Array, "K N"], scale: Float[Array, " N"]) -> Moments:
    """f0 + s_left (x - kink) + D relu(x - kink), D = s_right - s_left, at x - kink = a + b z.

    With t = a/b:  mu0 = f0 + s_left a + D (a Phi(t) + b phi(t)),  mu1 = s_left + D Phi(t),
    mu2 = D^2 [ (a^2 + b^2) Phi + a b phi - (a Phi + b phi)^2 - b^2 Phi^2 ].
    """
    a, bend = shift - bent.kink, bent.right - bent.left
    t = a / scale
    below, density = scipy.special.ndtr(t), np.exp(-t * t / 2) / np.sqrt(2 * np.pi)
    positive = a * below + scale * density
    square = (a * a + scale * scale) * below + a * scale * density
    scatter = square - positive**2 - (scale * below) ** 2
    mean = bent.value + bent.left * a + bend * positive
    return mean, bent.left + bend * below, bend**2 * np.maximum(scatter, 0.0)


def _read(
    x: Float[Array, "K N"], table: Float[Array, "terms N"], small: float
) -> Float[Array, "K N"]:
    """sum_j table[j, i] T_j(x[k, i]), neurons that need about as many polynomials together."""
    needed = len(table) - np.argmax(np.abs(table[::-1]) > small, axis=0)
    needed[~np.any(np.abs(table) > small, axis=0)] = 1
    values = np.empty((x.shape[0], table.shape[1]))
    low, high = 0, 16
    while low < len(table):
        some = np.flatnonzero((needed > low) & (needed <= high))
        if some.size:
            values[:, some] = _clenshaw(x if x.shape[1] == 1 else x[:, some], table[:high, some])
        low, high = high, high * 3 // 2
    return values


def _clenshaw(x: Float[Array, "K N"], table: Float[Array, "terms N"]) -> Float[Array, "K N"]:
    one = two = np.zeros((x.shape[0], table.shape[1]))
    for row in table[:0:-1]:
        one, two = row + 2 * x * one - two, one
    return table[0] + x * one - two


def chebyshev_coefficients(values: Float[Array, "terms N"]) -> Float[Array, "terms N"]:
    """Coefficients of the interpolant through values at the ``chebpts1`` nodes (ascending)."""
    terms = values.shape[0]
    angles = np.arccos(chebyshev.chebpts1(terms))
    transform = np.cos(np.outer(np.arange(terms), angles)) * (2 / terms)
    transform[0] /= 2
    return transform @ values
