"""The errors of the fit of a given layer: (2) and (3) of ``fit``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firststep.errors import NotConverged
from firststep.theory.channel import Output
from firststep.theory.given_layer.fit import (
    NEAR_PEAK,
    ROUGH,
    Fixed,
    Jacobian,
    Scaling,
    first_guess,
    solve,
)
from firststep.theory.given_layer.layer import Layer, quadratic_forms
from firststep.theory.given_layer.loss_fit import LossFit
from firststep.theory.loss_fixed_point import FixedPoint
from firststep.theory.terms import LabelMoments

if TYPE_CHECKING:
    from firststep.typing import Array, Float

# How much of the risk the last step, which is not checked, may change: it leaves about the square.
LAST_STEP = 5e-3
MOST_PRODUCTS = 40  # with Q: ten times what a layer away from the peak at n = N needs
_SMALLEST = 1e-12  # of a shrinkage that stands for zero: ridgeless fits have V = infinity
SMALL = 320  # neurons of the small copy, at least: fewer of them say little of the layer


@dataclass(frozen=True)
class Solution:
    """Errors and functions on the nodes, for one ridge."""

    error: Float[Array, " K"]  # e_k, with the label noise
    shrinkage: Float[Array, " K"]  # s_k
    learned: Float[Array, " K"]  # m_k
    linear_coefficient: Float[Array, "K J"]  # t_kj
    residual: float
    evaluations: int  # of V
    products: int  # with Q
    output: Output  # what the fit says on a new sample


class Solver:
    """Solves one layer for several ridges, each first for a small copy that is made once."""

    def __init__(
        self, layer: Layer, across: Float[Array, "d N"], width_across: float = 1.0
    ) -> None:
        """``across``: the weights without their part along the directions; and rho."""
        self.layer, self.width_across = layer, width_across
        neurons = max(SMALL, layer.width // 4)
        self.small = layer.small(neurons, across) if layer.width > 1.5 * neurons else None

    def __call__(self, ridge: float, target: LabelMoments, along: Float[Array, "J N"]) -> Solution:
        """(1) to (3) for one ridge; along = zeta_j^T W_perp."""
        layer, scaling = self.layer, Scaling.of(self.layer, ridge)
        jacobian, start = None, first_guess(self.small or layer, scaling)
        if self.small is not None:
            rough = solve(self.small, scaling, start, None, ROUGH)
            jacobian, start = Jacobian(self.small, rough.inverse), rough.level
        fixed = solve(layer, scaling, start, jacobian)
        learned, linear, edet = deterministic_errors(layer, fixed, target, along)
        error, products = amplified(layer, fixed, jacobian, edet)
        over = layer.samples < layer.width
        shrinkage = fixed.shrinkage * ridge if over else fixed.shrinkage
        h0, h1, h2 = target
        variance = error - h2 + 2 * learned * h0 - learned**2 + 2 * (linear * h1).sum(axis=1)
        slope = linear.T / self.width_across  # on unit vectors
        slope = slope[0] if len(slope) == 1 else slope
        leverage = 1 / np.maximum(shrinkage, _SMALLEST) - 1
        return Solution(
            error=error,
            shrinkage=shrinkage,
            learned=learned,
            linear_coefficient=linear,
            residual=fixed.residual,
            evaluations=fixed.evaluations,
            products=products,
            output=Output(leverage, learned, slope, variance),
        )


def solved_with_a_loss(
    fit: LossFit, ridges: tuple[float, ...], target: LabelMoments, width: float
) -> tuple[Solution, ...]:
    """The same for another loss than the square, or with a free constant.

    e_k = E (y - f0)^2 = h2 - 2 (m h0 + t h1) + m^2 + v, with rho = ``width``.
    """

    def one(found: FixedPoint) -> Solution:
        _, m, t, v = output = found.output
        h0, h1, h2 = target.h0, target.h1 * width, target.h2
        slopes = np.atleast_2d(t).T
        return Solution(
            error=h2 - 2 * (m * h0 + (slopes * h1).sum(axis=1)) + m**2 + v,
            shrinkage=fit.channel.pull(output).slope,
            learned=m,
            linear_coefficient=slopes * width,
            residual=found.residual,
            evaluations=found.evaluations,
            products=found.evaluations,
            output=output,
        )

    path = fit.path(ridges)
    return tuple(one(path[ridge]) for ridge in ridges)


def deterministic_errors(
    layer: Layer, fixed: Fixed, target: LabelMoments, along: Float[Array, "J N"]
) -> tuple[Float[Array, " K"], Float[Array, "K J"], Float[Array, " K"]]:
    """m_k, t_kj and edet_k."""
    get, put, mean, slope = layer.matrices.get, layer.matrices.put, layer.mean, layer.slope
    h0, h1, h2 = target
    weights = layer.omega * fixed.shrinkage
    right = put((weights * h0) @ mean.nodes) @ mean.neurons
    slopes = put((weights[:, None] * h1).T @ slope.nodes) @ slope.neurons  # J x N
    a = fixed.inverse @ (right + (slopes * along).sum(axis=0))
    learned = mean.nodes @ get(mean.neurons @ a)
    linear = slope.nodes @ get(slope.neurons @ (along * a).T)
    scaled = slope.neurons * a
    across = quadratic_forms(slope.nodes, get((scaled @ layer.gram) @ scaled.T))
    square = across + get(layer.scatter @ (a * a))
    edet = h2 - 2 * learned * h0 + learned**2 - 2 * (linear * h1).sum(axis=1) + square
    return learned, linear, edet


def amplified(
    layer: Layer, fixed: Fixed, jacobian: Jacobian | None, edet: Float[Array, " K"]
) -> tuple[Float[Array, " K"], int]:
    """e of (3), and how many products with Q it took.

    By conjugate gradients for f = sqrt(D) e, D = omega s^2:
    (I - sqrt D Q sqrt D) f = sqrt D edet. They stop when what a step of the small copy's Jacobian
    would still change of sum omega e is small, and that step is taken: it needs no product.
    (Without a small copy the steps are those of the identity, and what is left must be smaller.)
    """
    root = np.sqrt(layer.omega) * fixed.shrinkage
    enough = LAST_STEP**2 if jacobian is None else LAST_STEP

    def product(vector: Float[Array, " K"]) -> Float[Array, " K"]:
        return vector - root * layer.response(fixed.inverse, root * vector)

    def condition(vector: Float[Array, " K"]) -> Float[Array, " K"]:
        return vector if jacobian is None else jacobian.solve(root, root, vector)

    right = root * edet
    size = float(np.linalg.norm(right))
    functional = condition(np.sqrt(layer.omega) / fixed.shrinkage)  # of what is left
    f = condition(right)
    left = right - product(f)
    count = 1
    direction = image = condition(left)
    norm = float(left @ image)
    while True:
        total = float(layer.omega @ (f / root))
        left_over = 0.25 * float(np.linalg.norm(left)) / size
        if max(abs(float(functional @ left) / total), left_over) <= enough:
            return (f + image) / root, count
        if count >= MOST_PRODUCTS:
            raise NotConverged(NEAR_PEAK)
        moved = product(direction)
        count += 1
        step = norm / float(direction @ moved)
        f, left = f + step * direction, left - step * moved
        image = condition(left)
        before, norm = norm, float(left @ image)
        direction = image + norm / before * direction
