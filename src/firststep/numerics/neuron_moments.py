"""Gaussian moments of many neurons on many nodes: s(a + b z) for every shift a of a matrix and one scale b a column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy.special import ndtr

from firststep.numerics.quadrature import shifted_moments

Array = NDArray[np.float64]
TOLERANCE = 1e-7  # of the largest moment
MOST_NODES = 8000
MOST_TERMS = 2048
_DIRECT = 4e8  # function values up to which every node of one coordinate is integrated; more of them are interpolated


class TooSteep(ValueError):
    """The function needs more quadrature nodes, or more polynomials, than are reasonable."""


def neuron_moments(
    function: Callable[[Any], Any],
    kinks: Sequence[float],
    bias: Array,
    strength: Array,
    place: Array,
    scale: Array,
) -> tuple[Array, Array, Array]:
    """mu0, mu1, mu2 of s(a + b z) at a[k, i] = bias[i] + strength[i] place[k, i], b = scale[i] > 0; ``place`` may have one column.

    mu0 = E s, mu1 = E[z s]/b, mu2 = E s^2 - mu0^2 - b^2 mu1^2. In closed form where s is two half-lines (relu, abs, ...).
    Otherwise, with one coordinate and few nodes, each value is an integral; or they are read from Chebyshev tables in ``place``,
    one a neuron.
    """
    bent = _half_lines(function, kinks)
    if bent is not None:
        return _bent_moments(bent, bias + strength * place, scale)
    nodes = _resolution(function, kinks, bias, strength, scale, float(np.abs(place).max()))
    if place.shape[1] == 1 and len(place) * len(bias) * nodes <= _DIRECT:
        return _integrals(function, kinks, bias + strength * place, scale, nodes)
    return _from_table(function, kinks, bias, strength, place, scale, nodes)


def _half_lines(
    function: Callable[[Any], Any], kinks: Sequence[float]
) -> tuple[float, float, float, float] | None:
    """Kink, value there and the slopes on its left and right, if s is made of two half-lines; None if it is not."""
    if len(kinks) != 1:
        return None
    steps = np.array([1e-3, 0.1, 0.7, 3.0, 20.0])
    left, here, right = (np.asarray(function(kinks[0] + at)) for at in (-steps, np.zeros(1), steps))
    slopes = (here - left) / steps, (right - here) / steps
    if any(np.ptp(each) > 1e-9 * (1 + np.abs(each).max()) for each in slopes):
        return None
    return float(kinks[0]), float(here[0]), float(slopes[0][-1]), float(slopes[1][-1])


def _bent_moments(
    bent: tuple[float, float, float, float], shift: Array, scale: Array
) -> tuple[Array, Array, Array]:
    """f0 + s_left (x - kink) + D relu(x - kink), D = s_right - s_left, at x - kink = a + b z with t = a/b:

    mu0 = f0 + s_left a + D (a Phi(t) + b phi(t)), mu1 = s_left + D Phi(t),
    mu2 = D^2 [ (a^2 + b^2) Phi + a b phi - (a Phi + b phi)^2 - b^2 Phi^2 ].
    """
    kink, value, left, right = bent
    a, bend = shift - kink, right - left
    t = a / scale
    below, density = ndtr(t), np.exp(-t * t / 2) / np.sqrt(2 * np.pi)
    positive = a * below + scale * density
    rest = (
        (a * a + scale * scale) * below + a * scale * density - positive**2 - (scale * below) ** 2
    )
    return value + left * a + bend * positive, left + bend * below, bend**2 * np.maximum(rest, 0.0)


def _resolution(
    function: Callable[[Any], Any],
    kinks: Sequence[float],
    bias: Array,
    strength: Array,
    scale: Array,
    reach: float,
) -> int:
    """Quadrature nodes at which doubling them moves the moments of the widest neurons by less than the tolerance."""
    some = np.unique(np.concatenate([np.argsort(scale)[-4:], np.argsort(np.abs(strength))[-2:]]))
    shift = bias[some] + np.outer(np.linspace(-reach, reach, 17), strength[some])
    nodes = 80
    coarse = _integrals(function, kinks, shift, scale[some], nodes)
    while nodes <= MOST_NODES:
        fine = _integrals(function, kinks, shift, scale[some], 2 * nodes)
        widest = float(scale[some].max())
        size = max(
            float(np.abs(fine[0]).max()),
            widest * float(np.abs(fine[1]).max()),
            float(np.sqrt(fine[2].max())),
            1e-300,
        )
        sizes = (
            size,
            size / widest,
            size**2,
        )  # of mu0, mu1 and mu2 of a function as large as this one
        gaps = (np.abs(a - b).max() / each for a, b, each in zip(coarse, fine, sizes, strict=True))
        if max(gaps) <= TOLERANCE:
            return nodes
        nodes, coarse = 2 * nodes, fine
    raise TooSteep(
        f"its conditional moments need more than {MOST_NODES} quadrature nodes: it is too steep, or has a hidden kink"
    )


def _integrals(
    function: Callable[[Any], Any], kinks: Sequence[float], shift: Array, scale: Array, nodes: int
) -> tuple[Array, Array, Array]:
    mean, slope, rest, _ = shifted_moments(
        function, shift, np.broadcast_to(scale, shift.shape), kinks, nodes
    )
    return mean, slope, rest


def _from_table(
    function: Callable[[Any], Any],
    kinks: Sequence[float],
    bias: Array,
    strength: Array,
    place: Array,
    scale: Array,
    nodes: int,
) -> tuple[Array, Array, Array]:
    """The number of polynomials doubles until the last quarter of them is below the tolerance."""
    reach = float(np.abs(place).max())
    terms = 32
    while terms <= MOST_TERMS:
        at = reach * chebyshev.chebpts1(terms)
        values = _integrals(function, kinks, bias + np.outer(at, strength), scale, nodes)
        tables = [chebyshev_coefficients(each) for each in values]
        sizes = [max(float(np.abs(t).max()), 1e-300) for t in tables]
        if all(
            np.abs(t[-terms // 4 :]).max() <= TOLERANCE * s
            for t, s in zip(tables, sizes, strict=True)
        ):
            small = [0.1 * TOLERANCE * size for size in sizes]
            mean, slope, rest = (
                _read(place / reach, t, limit) for t, limit in zip(tables, small, strict=True)
            )
            return mean, slope, np.maximum(rest, 0.0)
        terms *= 2
    raise TooSteep(
        f"its conditional moments need more than {MOST_TERMS} polynomials: the spike is too strong"
    )


def _read(x: Array, table: Array, small: float) -> Array:
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


def _clenshaw(x: Array, table: Array) -> Array:
    one = two = np.zeros((x.shape[0], table.shape[1]))
    for row in table[:0:-1]:
        one, two = row + 2 * x * one - two, one
    return np.asarray(table[0] + x * one - two)


def chebyshev_coefficients(values: Array) -> Array:
    """Coefficients of the interpolant through values at the ``chebpts1`` nodes (ascending), along axis 0."""
    terms = values.shape[0]
    angles = np.arccos(chebyshev.chebpts1(terms))
    transform = np.cos(np.outer(np.arange(terms), angles)) * (2 / terms)
    transform[0] /= 2
    return np.asarray(transform @ values)
