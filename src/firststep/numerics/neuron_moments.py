"""Gaussian moments of many neurons on many nodes: s(a + b z) for every shift a of a matrix and one scale b a column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from firststep.numerics.quadrature import shifted_moments

Array = NDArray[np.float64]
TOLERANCE = 1e-7  # of the largest moment
MOST_NODES = 8000
MOST_TERMS = 1024
_DIRECT = 160  # nodes up to which every one is integrated; more of them are interpolated


class TooSteep(ValueError):
    """The function needs more quadrature nodes, or more polynomials, than are reasonable."""


def neuron_moments(
    function: Callable[[Any], Any], kinks: Sequence[float], bias: Array, strength: Array, place: Array, scale: Array
) -> tuple[Array, Array, Array]:
    """mu0, mu1, mu2 of s(a + b z) at a[k, i] = bias[i] + strength[i] place[k, i], b = scale[i] > 0; ``place`` may have one column.

    mu0 = E s, mu1 = E[z s]/b, mu2 = E s^2 - mu0^2 - b^2 mu1^2. With one coordinate and few nodes each value is an integral;
    otherwise they are read from a Chebyshev table in ``place``, one a neuron.
    """
    nodes = _resolution(function, kinks, bias, strength, scale, float(np.abs(place).max()))
    if place.shape[1] == 1 and place.shape[0] <= _DIRECT:
        return _integrals(function, kinks, bias + strength * place, scale, nodes)
    return _from_table(function, kinks, bias, strength, place, scale, nodes)


def _resolution(
    function: Callable[[Any], Any], kinks: Sequence[float], bias: Array, strength: Array, scale: Array, reach: float
) -> int:
    """Quadrature nodes at which doubling them moves the moments of the widest neurons by less than the tolerance."""
    some = np.unique(np.concatenate([np.argsort(scale)[-4:], np.argsort(np.abs(strength))[-2:]]))
    shift = bias[some] + np.outer(np.linspace(-reach, reach, 17), strength[some])
    nodes = 80
    coarse = _integrals(function, kinks, shift, scale[some], nodes)
    while nodes <= MOST_NODES:
        fine = _integrals(function, kinks, shift, scale[some], 2 * nodes)
        size = max(float(np.abs(fine[0]).max()), 1e-300)
        gaps = (np.abs(a - b).max() / max(size, float(np.abs(b).max())) for a, b in zip(coarse, fine, strict=True))
        if max(gaps) <= TOLERANCE:
            return nodes
        nodes, coarse = 2 * nodes, fine
    raise TooSteep(f"its conditional moments need more than {MOST_NODES} quadrature nodes: it is too steep, or has a hidden kink")


def _integrals(
    function: Callable[[Any], Any], kinks: Sequence[float], shift: Array, scale: Array, nodes: int
) -> tuple[Array, Array, Array]:
    mean, slope, rest, _ = shifted_moments(function, shift, np.broadcast_to(scale, shift.shape), kinks, nodes)
    return mean, slope, rest


def _from_table(
    function: Callable[[Any], Any], kinks: Sequence[float], bias: Array, strength: Array, place: Array, scale: Array, nodes: int
) -> tuple[Array, Array, Array]:
    """The number of polynomials doubles until the last quarter of them is below the tolerance."""
    reach = float(np.abs(place).max())
    terms = 32
    while terms <= MOST_TERMS:
        at = reach * chebyshev.chebpts1(terms)
        values = _integrals(function, kinks, bias + np.outer(at, strength), scale, nodes)
        tables = [chebyshev_coefficients(each) for each in values]
        sizes = [max(float(np.abs(t).max()), 1e-300) for t in tables]
        if all(np.abs(t[-terms // 4 :]).max() <= TOLERANCE * s for t, s in zip(tables, sizes, strict=True)):
            kept = [_trimmed(t, 0.1 * TOLERANCE * s) for t, s in zip(tables, sizes, strict=True)]
            mean, slope, rest = (_clenshaw(place / reach, table) for table in kept)
            return mean, slope, np.maximum(rest, 0.0)
        terms *= 2
    raise TooSteep(f"its conditional moments need more than {MOST_TERMS} polynomials: the spike is too strong")


def _trimmed(table: Array, small: float) -> Array:
    needed = np.flatnonzero(np.abs(table).max(axis=1) > small)
    return table[: needed[-1] + 1] if needed.size else table[:1]


def _clenshaw(x: Array, table: Array) -> Array:
    """sum_j table[j, i] T_j(x[k, i])."""
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
