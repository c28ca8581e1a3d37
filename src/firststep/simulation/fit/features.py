"""Features of a first layer: what the readout is fitted on, without the 1/sqrt N of the model.

The ridge convention absorbs the 1/sqrt N.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev

from firststep.errors import NotConverged
from firststep.numerics.neuron_moments import chebyshev_coefficients
from firststep.numerics.quadrature import shifted_moments

if TYPE_CHECKING:
    from types import ModuleType

    from firststep.activations import Activation
    from firststep.simulation.data.rows import Data, Predictions
    from firststep.typing import Array, Float

KAPPA_REACH = 7.0  # P(|kappa| > 7) = 3e-12


class Layer(NamedTuple):
    """The first layer as its features need it. Compiled code takes it as an argument."""

    weights: Float[Array, "d N"]
    extra: Any = None  # a bias, or the direction and tables of the conditional features


# (data, layer, "ridge" or "test") -> the map from a block of inputs to its features, count x N
FeatureMap = Callable[["Data", Layer, str], "Predictions"]


def chebyshev_basis(
    kappa: Float[Array, " n"], count: int, xp: ModuleType
) -> Float[Array, "n count"]:
    """T_j(kappa/7), j < count, one row per sample; kappa beyond 7 is taken as 7."""
    angle = xp.arccos(xp.clip(kappa / KAPPA_REACH, -1.0, 1.0))
    return xp.cos(angle[:, None] * xp.arange(count))


def conditional_table(
    student: Activation,
    weights: Float[Array, "d N"],
    direction: Float[Array, " d"],
    root: Float[Array, " d"] | None = None,
) -> tuple[Array, Array, Array, Float[Array, "d N"]]:
    """Chebyshev coefficients in kappa of mu0, mu1, mu2 (terms x N), and the weights across vh.

    Neuron i has u_i = <w_i, vh> and c_i = |w_i|^2 - u_i^2; its moments are those of
    s(u_i kappa + sqrt(c_i) z). Inputs N(0, Omega), Omega = diag(root^2): u_i = w_i^T Omega vh and
    c_i = w_i^T Omega w_i - u_i^2, with vh^T Omega vh = 1. The number of terms doubles until the
    last quarter of them is below 1e-7 of the largest.
    """
    along = (direction if root is None else root**2 * direction) @ weights
    across = weights - np.outer(direction, along)
    seen = across if root is None else root[:, None] * across
    # 1e-24: a neuron that lies along vh keeps a width, far below the 1e-7 of the table
    scale = np.sqrt(np.maximum(np.einsum("ij,ij->j", seen, seen), 1e-24))
    resolution = _resolution(student, along, scale)
    terms = 64
    while terms <= 2048:
        nodes = KAPPA_REACH * chebyshev.chebpts1(terms)
        moments = _moments_on_nodes(student, np.outer(nodes, along), scale, resolution)
        tables = [chebyshev_coefficients(values) for values in moments]
        if all(
            np.abs(t[-terms // 4 :]).max() <= 1e-7 * max(np.abs(t).max(), 1e-300) for t in tables
        ):
            return tables[0], tables[1], tables[2], across
        terms *= 2
    steep = "the conditional moments are too steep in kappa for 2048 Chebyshev terms"
    raise NotConverged(f"{steep}; try a smaller step")


def _resolution(student: Activation, along: Float[Array, " N"], scale: Float[Array, " N"]) -> int:
    """Quadrature nodes; doubling them moves the moments of the widest neurons by less than 1e-7."""
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
    many = "the conditional moments need more than 8000 quadrature nodes"
    raise NotConverged(f"{many}: the student is too steep, or has a hidden kink")


def _moments_on_nodes(
    student: Activation, shift: Float[Array, "K N"], scale: Float[Array, " N"], nodes: int
) -> tuple[Float[Array, "K N"], Float[Array, "K N"], Float[Array, "K N"]]:
    """mu0, mu1, mu2 on nodes x neurons, a few neurons at a time to bound the memory."""
    batch = max(1, 2**18 // (nodes * shift.shape[0]))  # some MB of integrand at a time
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
