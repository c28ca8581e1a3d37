"""Gaussian integrals of possibly kinked functions, each with an error estimate.

``gaussian_expectation`` is adaptive: Gauss-Legendre panels, split at the kinks and wherever 16 and
32 nodes disagree, on an interval that grows until its last part no longer counts.
``shifted_moments`` evaluates many integrals of one function at once, E f(a + b z) for arrays a and
b, by a fixed rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from firststep.numerics.library import library_of

if TYPE_CHECKING:
    from firststep.typing import Array, Float

    # Of an array, entry by entry; of several integrands, one row each.
    Function: TypeAlias = Callable[[Float[Array, "*shape"]], Float[Array, "*shape"]]
    Integrands: TypeAlias = Callable[[Float[Array, " z"]], Float[Array, "*functions z"]]

REACH = 8.5  # of Gaussian integrals: P(|z| > 8.5) = 2e-17

_REACHES = (9.0, 13.0, 19.0, 27.0, 38.0)  # phi(38) is the smallest normal double
_NODES = 16
_MAX_PANELS = 20_000
_AT_ONCE = 50_000  # function values of shifted_moments at once: a few such arrays stay in the cache


class NotIntegrable(ArithmeticError):
    """The integral does not exist, or could not be computed to six digits."""


@dataclass(frozen=True)
class Expectation:
    """Gaussian expectations of several functions, with a bound on the numerical error of each."""

    value: Float[Array, " functions"]
    error: Float[Array, " functions"]


@lru_cache(maxsize=16)
def legendre(count: int) -> tuple[Float[Array, " z"], Float[Array, " z"]]:
    """Gauss-Legendre nodes and weights on [-1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return nodes, weights


def panels(
    edges: Float[Array, "*shape edges"], count: int
) -> tuple[Float[Array, "*shape z"], Float[Array, "*shape z"]]:
    """Gauss-Legendre nodes and weights on the panels between ``edges``, ``count`` on each."""
    unit, weights = legendre(count)
    half = library_of(edges).xp.diff(edges)[..., None] / 2
    middle = (edges[..., :-1] + edges[..., 1:])[..., None] / 2
    shape = (*edges.shape[:-1], -1)
    return (middle + half * unit).reshape(shape), (half * weights).reshape(shape)


def gaussian_panels(
    edges: Float[Array, "*shape edges"], count: int
) -> tuple[Float[Array, "*shape z"], Float[Array, "*shape z"]]:
    """The same, with the density of N(0, 1) in the weights."""
    z, weights = panels(edges, count)
    density = library_of(z).xp.exp(-z * z / 2)
    return z, weights * density / math.sqrt(2 * math.pi)


def _panel_integrals(
    function: Integrands, left: Float[Array, " panels"], right: Float[Array, " panels"], count: int
) -> tuple[Float[Array, "functions panels"], Float[Array, "functions panels"]]:
    """Integrals of ``function`` and of its modulus against the Gaussian density, by panel."""
    nodes, weights = legendre(count)
    half = (right - left) / 2
    z = (left + right)[:, None] / 2 + half[:, None] * nodes
    density = np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        values = np.atleast_2d(function(z.ravel())).reshape(-1, *z.shape) * density
    if not np.all(np.isfinite(values)):
        bad = z[~np.all(np.isfinite(values), axis=0)]
        raise NotIntegrable(f"not finite at z = {bad[np.argmin(np.abs(bad))]:.3g}")
    integral = np.einsum("fpn,n,p->fp", values, weights, half)
    modulus = np.einsum("fpn,n,p->fp", np.abs(values), weights, half)
    return integral, modulus


def _integrate(
    function: Integrands,
    edges: Float[Array, " edges"],
    tolerance: float,
    scale: Float[Array, " functions"] | None,
) -> tuple[Float[Array, " functions"], Float[Array, " functions"], Float[Array, " functions"]]:
    """Adaptive integral over [edges[0], edges[-1]]: value, error, integral of the modulus."""
    left, right = edges[:-1], edges[1:]
    total = error = modulus = np.zeros(1)
    panels = 0
    while left.size:
        panels += left.size
        coarse, _ = _panel_integrals(function, left, right, _NODES)
        fine, size = _panel_integrals(function, left, right, 2 * _NODES)
        gap = np.abs(fine - coarse)
        if scale is None:
            scale = np.maximum(size.sum(axis=1), 1e-300)
        good = np.all(gap <= tolerance * scale[:, None], axis=0)
        narrow = (right - left) < 1e-13 * np.maximum(1.0, np.abs(left))
        if panels > _MAX_PANELS:
            narrow[:] = True
        done = good | narrow
        total = total + fine[:, done].sum(axis=1)
        error = error + gap[:, done].sum(axis=1)
        modulus = modulus + size[:, done].sum(axis=1)
        middle = (left + right)[~done] / 2
        left, right = np.concatenate([left[~done], middle]), np.concatenate([middle, right[~done]])
    return total, error, modulus


def gaussian_expectation(
    function: Integrands, kinks: Sequence[float] = (), tolerance: float = 1e-14, floor: float = 0.0
) -> Expectation:
    """E f(z), z ~ N(0, 1), for a function returning one row per integrand.

    The error adds the disagreement between 16 and 32 nodes on every final panel, the last part of
    the tail and the rounding of the sum. Raises ``NotIntegrable`` if the tails do not vanish or the
    error exceeds 1e-6 of the integral of |f|, or of ``floor``, below which f is rounding.
    """

    def edges(low: float, high: float) -> Float[Array, " edges"]:
        inside = [k for k in kinks if low < k < high]
        return np.unique(np.concatenate([np.arange(low, high), [high], inside]))

    reach = _REACHES[0]
    total, error, modulus = _integrate(function, edges(-reach, reach), tolerance, None)
    scale = np.maximum(modulus, max(floor, 1e-300))
    tail = np.full_like(scale, np.inf)
    for further in _REACHES[1:]:
        tail = np.zeros_like(scale)
        for low, high in ((-further, -reach), (reach, further)):
            try:
                part, part_error, part_modulus = _integrate(
                    function, edges(low, high), tolerance, scale
                )
            except NotIntegrable:
                raise NotIntegrable("its Gaussian integral diverges") from None
            total, error, tail = total + part, error + part_error, tail + part_modulus
        reach, scale = further, np.maximum(scale, tail)
        if np.all(tail <= 1e-16 * scale):
            break
    if np.any(tail > 1e-8 * scale):
        raise NotIntegrable("its Gaussian integral diverges")
    error = error + tail + 4 * np.finfo(float).eps * scale
    if np.any(error > 1e-6 * scale):
        raise NotIntegrable("its Gaussian integral could not be computed to six digits")
    return Expectation(total, error)


class ShiftedMoments(NamedTuple):
    """Moments of f(a + b z), z ~ N(0, 1)."""

    mean: Float[Array, "*shape"]  # mu0 = E f
    slope: Float[Array, "*shape"]  # mu1 = E[z f]/b, which is d mu0/da
    scatter: Float[Array, "*shape"]  # mu2 = E f^2 - mu0^2 - b^2 mu1^2, a variance
    by_variance: Float[Array, "*shape"]  # mu0' = E[(z^2 - 1) f]/(2 b^2), which is d mu0/d(b^2)


def shifted_moments(
    function: Function,
    shift: Float[Array, "*shape"],
    scale: Float[Array, "*shape"],
    kinks: Sequence[float] = (),
    nodes: int = 240,
) -> ShiftedMoments:
    """The moments of f(a + b z) for arrays a = shift, b = scale > 0, in the library of a.

    Smooth f: trapezoid on [-8.5, 8.5] with ``nodes`` intervals (spectrally accurate). Kinked f: the
    interval is split at (kink - a)/b and each piece gets panels of Gauss-Legendre nodes, 2
    ``nodes`` in all and at least 16 a piece. mu2 is computed as the mean square of f - mu0 - b mu1
    z, so it is never negative.
    """
    lib = library_of(shift)
    xp = lib.xp
    shift, scale = xp.broadcast_arrays(xp.asarray(shift, float), xp.asarray(scale, float))
    if lib.is_numpy and shift.size > 1 and shift.size * nodes > _AT_ONCE:
        each = max(1, _AT_ONCE // nodes)
        flat_shift, flat_scale = shift.ravel(), scale.ravel()
        pieces = [slice(i, i + each) for i in range(0, shift.size, each)]
        parts = [
            shifted_moments(function, flat_shift[some], flat_scale[some], kinks, nodes)
            for some in pieces
        ]
        whole = (np.concatenate(part).reshape(shift.shape) for part in zip(*parts, strict=True))
        return ShiftedMoments(*whole)
    z, weights = _split_rule(shift, scale, kinks, nodes) if kinks else _smooth_rule(nodes)
    weights = weights * xp.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    values = function(shift[..., None] + scale[..., None] * z)
    if kinks:
        weighted = weights * values
        mean, linear = weighted.sum(-1), (weighted * z).sum(-1)
        quadratic = (weighted * (z * z - 1)).sum(-1)
    else:
        projected = values @ xp.stack([weights, weights * z, weights * (z * z - 1)], axis=-1)
        mean, linear, quadratic = projected[..., 0], projected[..., 1], projected[..., 2]
    left = values - mean[..., None] - linear[..., None] * z
    scatter = (weights * left * left).sum(-1) if kinks else (left * left) @ weights
    return ShiftedMoments(mean, linear / scale, scatter, quadratic / (2 * scale**2))


def _smooth_rule(nodes: int) -> tuple[Float[Array, " z"], Float[Array, " z"]]:
    return np.linspace(-REACH, REACH, nodes + 1), np.full(nodes + 1, 2 * REACH / nodes)


def _split_rule(
    shift: Float[Array, "*shape"], scale: Float[Array, "*shape"], kinks: Sequence[float], nodes: int
) -> tuple[Float[Array, "*shape z"], Float[Array, "*shape z"]]:
    """Gauss-Legendre panels between the kinks, for every pair of shift and scale."""
    xp = library_of(shift).xp
    cuts = [xp.clip((kink - shift) / scale, -REACH, REACH) for kink in sorted(kinks)]
    ends = xp.full_like(shift, -REACH), xp.full_like(shift, REACH)
    bounds = xp.stack([ends[0], *cuts, ends[1]], axis=-1)
    each = max(16, 2 * nodes // (len(cuts) + 1))
    panels = max(1, each // 40)
    unit, unit_weights = legendre(each // panels)
    offsets = (np.arange(panels)[:, None] + (1 + unit) / 2).ravel() / panels
    widths = xp.diff(bounds, axis=-1)[..., None]
    z = (bounds[..., :-1, None] + widths * offsets).reshape(*shift.shape, -1)
    weights = widths * (np.tile(unit_weights, panels) / (2 * panels))
    return z, weights.reshape(*shift.shape, -1)


def gaussian_product(
    functions: tuple[Function, Function],
    kinks: tuple[Sequence[float], Sequence[float]],
    shifts: tuple[Float[Array, " K"], Float[Array, " K"]],
    scales: tuple[float, float],
    correlation: float,
    nodes: int = 160,
) -> Float[Array, " K"]:
    """E f(a + b z) g(a' + b' z'), z and z' standard Gaussians of the given correlation.

    For vectors a and a' of one length. z' = correlation z + sqrt(1 - correlation^2) w: the mean
    over w first, then Gauss-Legendre over z, split at the kinks of f and, where the mean over w
    hardly smooths them, of g.
    """
    (f, g), (first, second), (b, other) = functions, kinks, scales
    correlation = min(1.0, max(-1.0, correlation))
    rest = math.sqrt(max(1 - correlation**2, 1e-18))
    cuts = [(kink - shifts[0]) / b for kink in first]
    if abs(correlation) > 1e-3:
        cuts += [(kink - shifts[1]) / (other * correlation) for kink in second]
    steps = 4 if not cuts else 1  # panels, where nothing else splits the line
    ends = [np.full_like(shifts[0], end) for end in np.linspace(-REACH, REACH, steps + 1)]
    bounds = np.sort(np.clip(np.stack([*ends, *cuts], axis=-1), -REACH, REACH), axis=-1)
    z, weights = gaussian_panels(bounds, max(24, nodes // (bounds.shape[1] - 1)))
    shift, scale = shifts[1][:, None] + other * correlation * z, np.full_like(z, other * rest)
    inner = shifted_moments(g, shift, scale, second, nodes).mean
    return np.asarray((weights * f(shifts[0][:, None] + b * z) * inner).sum(axis=-1))
