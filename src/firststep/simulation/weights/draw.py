"""The first layer: drawn, moved along the gradient, or replaced by the spiked model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep.numerics.quadrature import gaussian_expectation
from firststep.problem import Problem, Sizes
from firststep.readouts import ReadoutLaw

if TYPE_CHECKING:
    from firststep.simulation.backends import Backend, Draws, Place
    from firststep.simulation.data.rows import Data
    from firststep.simulation.design import Design, Targets
    from firststep.typing import Array, Float


def draw_weights(backend: Backend, draws: Draws, design: Design) -> Float[Array, "d N"]:
    """W0, d x N: columns N(0, I/d), or uniform on the unit sphere."""
    xp, d, width = backend.xp, design.sizes.dimension, design.sizes.width
    weights: Float[Array, "d N"] = draws.rows("weights", 0, d, width)
    weights /= xp.linalg.norm(weights, axis=0) if design.init == "sphere" else math.sqrt(d)
    return weights


def draw_readout(backend: Backend, draws: Draws, law: ReadoutLaw, width: int) -> Float[Array, " N"]:
    """at_i, i.i.d. from the readout law; the readout itself is a_i = at_i/sqrt N."""
    if law.is_gaussian:
        return draws.vector("readout", width)
    steps = backend.to_device(np.cumsum(law.weights)[:-1])
    places = backend.xp.searchsorted(steps, draws.uniform("readout", width), side="right")
    return backend.to_device(np.array(law.values))[places]


def gradient(
    data: Data, weights: Float[Array, "d N"], readout: Float[Array, " N"], batch: int
) -> tuple[Float[Array, "d N"], Float[Array, "d 2"]]:
    """G = (1/n0) X^T [(r a^T) o s'(X W)], r = y - p s(X W) a, and (1/n0) X^T [r, y].

    With another loss of the step r = -l'(y, p s(X W) a), and -l'(y, 0) stands for y in the second.

    p = 1/sqrt N (mean-field) or 1 (ntk), a = at/sqrt N. In the mean-field case G = sqrt N times G0
    of [Ba] (2.1), so that either way the step is W + eta G. Data come in blocks: nothing of size
    n0 x N or n0 x d is kept.
    """
    design, backend = data.design, data.backend
    xp, n0, (d, width) = backend.xp, design.sizes.step_samples, weights.shape
    amplitudes = readout / math.sqrt(width)
    prefactor = 1 / math.sqrt(width) if design.training.parameterization == "mean-field" else 1.0
    errors = data.errors("step", n0, batch)

    def add_block(carry: tuple[Any, Any], start: Place, count: int) -> tuple[Any, Any]:
        total, moments = carry
        inputs = data.inputs("step", start, count, batch)
        targets = data.labels(inputs, backend.slice(errors, start, count))
        value, slope = design.student.evaluate_both(inputs @ weights)
        output = prefactor * (value @ amplitudes)
        residual, targets = _pull(design.targets, targets, output)
        slope = slope * residual[:, None]
        slope *= amplitudes
        total = backend.add_product(total, inputs, slope)
        return total, moments + inputs.T @ xp.stack([residual, targets], axis=1)

    start_at = (backend.zeros((d, width)), backend.zeros((d, 2)))
    total, moments = backend.fold(add_block, start_at, n0, design.block)
    total /= n0
    return total, moments / n0


def _pull(
    targets: Targets, labels: Float[Array, " n"], output: Float[Array, " n"]
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """-l' at the output and at zero; of the square loss, (y - f)^2/2, the residual and y."""
    loss = targets.step_loss
    if loss.name == "square":
        return labels - output, labels
    return -loss.slope(labels, output), -loss.slope(labels, 0 * output)


@dataclass(frozen=True)
class SpikedLaw:
    """The constants of the spiked random features model of [Cui] at given sizes.

    With yhat = y - E[at] c0 (-l'(y, E[at] c0) of another loss of the step), c1* = E[z yhat],
    etat = eta/sqrt N and alpha0 = n0/d: |v|^2 = c1*^2 + E[yhat^2]/alpha0, gamma = c1*/|v|, r =
    etat E[s'] |v|, and the bulk variance of a neuron is c(at) = (1 + etat at E[z s'] E[yhat])^2 +
    etat^2 at^2 Var(s') E[yhat^2]/alpha0.
    """

    gradient_norm: float
    alignment: float
    spike_strength: float
    bulk_shift: float  # etat E[z s'] E[yhat]
    bulk_variance: float  # etat^2 Var(s') E[yhat^2]/alpha0

    @classmethod
    def of(cls, problem: Problem, sizes: Sizes) -> SpikedLaw:
        rate = problem.learning_rate(sizes.width) / math.sqrt(sizes.width)
        alpha0 = sizes.step_samples / sizes.dimension
        slope, output = problem.student.slope_moments, problem.readout.mean
        mean, linear, square = _pull_moments(problem, output * problem.student.moments.mean)
        norm = math.sqrt(linear**2 + square / alpha0)
        if norm == 0:
            return cls(0.0, 0.0, 0.0, 0.0, 0.0)
        return cls(
            gradient_norm=norm,
            alignment=linear / norm,
            spike_strength=rate * slope.mean * norm,
            bulk_shift=rate * slope.linear * mean,
            bulk_variance=rate**2 * slope.variance * square / alpha0,
        )


def _pull_moments(problem: Problem, output: float) -> tuple[float, float, float]:
    """E yhat, E[z yhat] and E[yhat^2] of the labels of the step, at the output before it."""
    teacher = problem.teacher.moments
    if not problem.labels.is_binary:
        noise = problem.noise**2 * problem.noise_law.second_moment
        mean, second = teacher.mean, teacher.second_moment
        return mean - output, teacher.linear, second + noise - 2 * output * mean + output**2
    up, along = _chance_moments(problem)
    loss, at = problem.step_loss, np.full(2, output)
    labels = np.array([1.0, -1.0])
    high, low = labels - at if loss.name == "square" else -loss.slope(labels, at)
    return up * high + (1 - up) * low, along * (high - low), up * high**2 + (1 - up) * low**2


def _chance_moments(problem: Problem) -> tuple[float, float]:
    """E P and E[z P], P = P(y = 1 | z): split where the teacher crosses the threshold."""

    def above(z: Float[Array, " z"]) -> Float[Array, " z"]:
        return problem.teacher.evaluate(z) - problem.threshold

    def integrands(z: Float[Array, " z"]) -> Float[Array, "2 z"]:
        chance = problem.labels.probability(
            above(z) + problem.threshold,
            noise=problem.noise,
            threshold=problem.threshold,
            flip=problem.flip,
        )
        return np.stack([chance, z * chance])

    points = np.unique(np.concatenate([np.linspace(-9, 9, 18001), problem.teacher.kinks]))
    signs = np.sign(above(points))
    low, high = (points[where] for where in (slice(None, -1), slice(1, None)))
    crossing = signs[:-1] * signs[1:] < 0
    low, high = low[crossing], high[crossing]
    for _ in range(60):
        middle = (low + high) / 2
        right = above(middle) * above(low) > 0
        low, high = np.where(right, middle, low), np.where(right, high, middle)
    found = gaussian_expectation(integrands, [*problem.teacher.kinks, *low.tolist()])
    return float(found.value[0]), float(found.value[1])


def spiked_weights(
    data: Data, weights: Float[Array, "d N"], readout: Float[Array, " N"], law: Float[Array, " 4"]
) -> tuple[Float[Array, "d N"], Float[Array, " d"]]:
    """w_i = sqrt(c(at_i)) w_i0 + r at_i vh, vh = gamma theta + sqrt(1 - gamma^2) zeta: W1 and vh.

    ``law`` is the array (gamma, r, bulk_shift, bulk_variance) of a SpikedLaw.
    """
    xp, teacher = data.backend.xp, data.teacher
    alignment, strength, bulk_shift, bulk_variance = law
    other = data.draws.vector("spike direction", data.design.sizes.dimension)
    other = other - teacher * (other @ teacher)
    direction = alignment * teacher + xp.sqrt(1 - alignment**2) * other / xp.linalg.norm(other)
    variance = (1 + bulk_shift * readout) ** 2 + bulk_variance * readout**2
    spike = direction[:, None] * (strength * readout)
    spike += weights * xp.sqrt(variance)
    return spike, direction
