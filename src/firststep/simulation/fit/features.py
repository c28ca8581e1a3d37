"""Feature maps of the models: what the readout is fitted on. All without the 1/sqrt N, which the ridge convention absorbs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from firststep.activations import Activation
from firststep.errors import NotConverged
from firststep.numerics.neuron_moments import chebyshev_coefficients
from firststep.numerics.quadrature import shifted_moments
from firststep.simulation.backends import Backend, Draws
from firststep.simulation.design import FEATURES, Design

Array = NDArray[np.float64]
KAPPA_REACH = 7.0  # P(|kappa| > 7) = 3e-12


def feature_map(
    backend: Backend, draws: Draws, design: Design, weights: Any, table: Any, data: str
) -> Callable[[Any, Any, int], Any]:
    """The map (inputs, start, count) -> features, count x N, for a block of the data set called ``data`` (ridge or test).

    network, spiked, random-features:  s(W1^T x)
    features (given weights):           s(W^T x + b)
    gaussian ([Ba] section 4.1):        c0 + c1 W1^T x + sqrt(m2 - c0^2 - c1^2) xi,  xi ~ N(0, I_N)
    conditional:                        mu0_i(kappa) + mu1_i(kappa) <w_i, x_perp> + sqrt(mu2_i(kappa)) xi_i,  kappa = <x, vh>
    """
    xp, width = backend.xp, design.sizes.width

    if design.model == "gaussian":
        moments = design.student.moments
        spread = math.sqrt(max(moments.nonlinear_variance, 0.0))

        def noisy_linear(inputs: Any, start: Any, count: int) -> Any:
            noise = draws.rows(f"{data} feature noise", start, count, width)
            return moments.mean + moments.linear * (inputs @ weights) + spread * noise

        return noisy_linear

    if design.model == "conditional":
        direction, mean, slope, variance = table

        def conditional(inputs: Any, start: Any, count: int) -> Any:
            noise = draws.rows(f"{data} feature noise", start, count, width)
            basis = chebyshev_basis(inputs @ direction, mean.shape[0], xp)
            spread = xp.sqrt(xp.maximum(basis @ variance, 0))
            return basis @ mean + (basis @ slope) * (inputs @ weights) + spread * noise

        return conditional

    if design.model == FEATURES and table is not None:
        return lambda inputs, start, count: design.student.evaluate(
            inputs @ weights + table, xp, backend.special
        )
    return lambda inputs, start, count: design.student.evaluate(
        inputs @ weights, xp, backend.special
    )


def chebyshev_basis(kappa: Any, count: int, xp: Any) -> Any:
    """T_j(kappa/7), j < count, one row per sample; kappa beyond 7 is taken as 7."""
    angle = xp.arccos(xp.clip(kappa / KAPPA_REACH, -1.0, 1.0))
    return xp.cos(angle[:, None] * xp.arange(count))


def conditional_table(
    student: Activation, weights: Array, direction: Array
) -> tuple[Array, Array, Array, Array]:
    """Chebyshev coefficients in kappa of mu0, mu1, mu2 for every neuron (terms x N), and the weights without their part along vh.

    Neuron i has u_i = <w_i, vh> and c_i = |w_i|^2 - u_i^2; its moments are those of s(u_i kappa + sqrt(c_i) z). The number of terms
    doubles until the last quarter of them is below 1e-7 of the largest.
    """
    along = direction @ weights
    rest = weights - np.outer(direction, along)
    scale = np.sqrt(np.maximum(np.einsum("ij,ij->j", rest, rest), 1e-24))
    resolution = _resolution(student, along, scale)
    terms = 64
    while terms <= 2048:
        nodes = KAPPA_REACH * chebyshev.chebpts1(terms)
        moments = _moments_on_nodes(student, np.outer(nodes, along), scale, resolution)
        tables = [chebyshev_coefficients(values) for values in moments]
        if all(
            np.abs(t[-terms // 4 :]).max() <= 1e-7 * max(np.abs(t).max(), 1e-300) for t in tables
        ):
            return tables[0], tables[1], tables[2], rest
        terms *= 2
    raise NotConverged(
        "the conditional moments are too steep in kappa for 2048 Chebyshev terms; try a smaller step"
    )


def _resolution(student: Activation, along: Array, scale: Array) -> int:
    """Quadrature nodes at which doubling them moves the moments of the widest neurons by less than 1e-7."""
    some = np.argsort(scale)[-4:]
    shift = np.outer(np.linspace(-3, 3, 13), along[some])
    nodes, coarse = 240, _moments_on_nodes(student, shift, scale[some], 240)
    while nodes < 8000:
        fine = _moments_on_nodes(student, shift, scale[some], 2 * nodes)
        size = max(float(np.abs(fine[0]).max()), 1e-300)
        if all(
            np.abs(a - b).max() <= 1e-7 * max(size, float(np.abs(b).max()))
            for a, b in zip(coarse, fine, strict=True)
        ):
            return nodes
        nodes, coarse = 2 * nodes, fine
    raise NotConverged(
        "the conditional moments need more than 8000 quadrature nodes: the student is too steep, or has a hidden kink"
    )


def _moments_on_nodes(
    student: Activation, shift: Array, scale: Array, nodes: int
) -> tuple[Array, Array, Array]:
    """mu0, mu1, mu2 on nodes x neurons, a few neurons at a time to bound the memory."""
    batch = max(1, 2**18 // (nodes * shift.shape[0]))
    parts = []
    for first in range(0, shift.shape[1], batch):
        some = slice(first, first + batch)
        parts.append(
            shifted_moments(
                student.evaluate, shift[:, some], scale[None, some], student.kinks, nodes
            )
        )
    mean, slope, variance, _ = (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
    return mean, slope, variance
