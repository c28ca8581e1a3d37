"""What a Gaussian readout fits freely at d = infinity: the span of all mean features.

A neuron of readout value at has the mean feature mu0(at, kappa) = E s(r at kappa + sqrt(c) z) with
c - 1 = b1 at + b2 at^2. In Hermite coefficients s = sum_k h_k He_k it is a series in at,

    mu0 = sum_k h_k sum_i k!/(2^i i! (k - 2i)!) (r at kappa)^(k - 2i) (b1 at + b2 at^2)^i
        = sum_m at^m p_m(kappa),

and all values of at together span the p_m. If s is a polynomial they are few. Where its even (odd)
part is none, the p_m of high m span every even (odd) function, whatever the other part adds to the
first few; the other part then spans what its own p_m do.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from firststep.numerics.library import library_of
from firststep.theory.step import StepConstants
from firststep.theory.student import Parts

if TYPE_CHECKING:
    from firststep.typing import Array, Float


_ROUNDING = 1e-10  # b1 is the mean of the labels of the step, which is often zero


def free_functions(
    kappa: Float[Array, " K"], parts: Parts, step: StepConstants
) -> Float[Array, "batch K functions"]:
    """Functions on the nodes with that span; one that vanishes if nothing is free."""
    xp = library_of(step.spike).xp
    nodes, shape = np.asarray(kappa), (*step.spike.shape, kappa.size)
    known = [part for part in parts if part]
    columns = [
        xp.broadcast_to(xp.asarray(every), (*shape, every.shape[1]))
        for every, part in zip(_all_functions(nodes), parts, strict=True)
        if part is None
    ]
    if known:
        degrees = range(max(map(len, known)))
        hermite = [sum(part[k] for part in known if k < len(part)) for k in degrees]
        columns.append(_polynomials(nodes, hermite, step))
    return xp.concatenate(columns, axis=2) if columns else xp.zeros((*shape, 1))


def _all_functions(
    nodes: Float[Array, " K"],
) -> tuple[Float[Array, "K even"], Float[Array, "K odd"]]:
    """Every even and every odd function on symmetric nodes, with zero among them or not."""
    half, middle = divmod(nodes.size, 2)
    every = np.eye(nodes.size)
    pairs, mirrored = every[:, half:], every[:, ::-1][:, half:]
    return (pairs + mirrored) / 2, (pairs - mirrored)[:, middle:] / 2


def _polynomials(
    nodes: Float[Array, " K"], hermite: list[float], step: StepConstants
) -> Float[Array, "batch K functions"]:
    """The p_m, at in units in which the step is about 1, and each with a largest value of 1."""
    xp = library_of(step.spike).xp
    square = step.spike**2 + step.by_readout**2 + xp.abs(step.by_square)
    unit = xp.sqrt(xp.where(square > 0, square, 1.0))
    spike, first = step.spike / unit, step.by_readout / unit
    second = step.by_square / unit**2
    shift = spike[:, None] * nodes
    found = dict.fromkeys(range(len(hermite)), 0 * shift)
    terms = [(k, i) for k, h in enumerate(hermite) if h for i in range(k // 2 + 1)]
    for k, i in terms:
        factor = math.factorial(k) / (2**i * math.factorial(i) * math.factorial(k - 2 * i))
        for j in range(i + 1):
            scale = hermite[k] * factor * math.comb(i, j) * first ** (i - j) * second**j
            found[k - i + j] = found[k - i + j] + scale[:, None] * shift ** (k - 2 * i)
    largest = max(map(abs, hermite))
    each = []
    for p in found.values():
        size = xp.max(xp.abs(p), -1, keepdims=True)
        is_there = size > _ROUNDING * largest
        each.append(xp.where(is_there, p / xp.where(is_there, size, 1.0), 0.0))
    return xp.stack(each, -1)
