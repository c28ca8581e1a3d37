"""From a problem's numbers to the arrays of the equations: quadrature nodes, conditional moments, bases."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from firststep.activations import Activation
from firststep.numerics.quadrature import ShiftedMoments, shifted_moments
from firststep.theory.one_step.resolvent import Bulk, thin_svd
from firststep.theory.one_step.risk import Mean
from firststep.theory.one_step.step import StepLaw, step_law
from firststep.theory.student import SlopeConstants


class Numbers(NamedTuple):
    """The numeric fields of a batch of problems, each (.)."""

    alpha: Any
    beta: Any
    alpha0: Any
    ridge: Any
    noise: Any
    rate: Any  # etat = eta/sqrt N: zero in the small-step limit
    spike: Any  # eta in the small-step limit at d = infinity, else zero
    dimension: Any  # d, or None for infinity


class Model(NamedTuple):
    """What does not change in a batch."""

    student: Activation
    teacher: Activation
    constants: SlopeConstants
    isotropic: bool
    gaussian_rows: bool
    readout_mean: float
    readout_square: float
    steps: bool  # whether the weights move at all
    common_mode: bool  # whether the shared fluctuation of |x|^2 counts
    own_output: bool  # whether the network's output before the step counts
    free_degrees: (
        tuple[float, float] | None
    )  # even and odd degrees the mean fits freely (Gaussian readout, d = infinity)


class InnerRule(NamedTuple):
    """How ``shifted_moments`` integrates a function."""

    nodes: int
    cuts: tuple[float, ...]


class Rules(NamedTuple):
    """Quadrature nodes."""

    kappa: Any  # (K,)
    omega: Any  # (K,)
    values: Any  # readout values (., P)
    masses: Any  # their weights (., P)
    labels: Any  # (., J)
    label_weights: Any  # (., 3, J)
    student: InnerRule
    teacher: InnerRule


class Setup(NamedTuple):
    bulk: Bulk
    mean: Mean
    variance: Any  # c_p

    def part(self, places: Any) -> Setup:
        """Some of the problems."""
        return Setup(self.bulk.part(places), self.mean.part(places), self.variance[places])


def kappa_rule(spacing: float, reach: float = 8.5) -> tuple[np.ndarray, np.ndarray]:
    """Trapezoid nodes and weights for N(0, 1), weights summing to one; every other node is the rule of twice the spacing."""
    half = 2 * math.ceil(reach / spacing / 2)
    kappa = spacing * np.arange(-half, half + 1)
    weights = np.exp(-(kappa**2) / 2)
    return kappa, weights / weights.sum()


def readout_rule(scale: float, spacing: float, fold: bool) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for a Gaussian readout: at = scale sinh(t), trapezoid in t; ``fold`` keeps at >= 0 only."""
    count = 2 * math.ceil(np.arcsinh(8.0 / scale) / spacing / 2)
    t = spacing * np.arange(0 if fold else -count, count + 1)
    values = scale * np.sinh(t)
    weights = np.cosh(t) * np.exp(-(values**2) / 2)
    if fold:
        weights[0] /= 2
    return values, weights / weights.sum()


class Conditional(NamedTuple):
    """Everything that is a function of kappa and the readout value."""

    law: StepLaw
    student: ShiftedMoments  # mu0, mu1, mu2, mu0' (., P, K)
    target: tuple[Any, ...]  # h0, h1, h2 (., K)
    alignment: Any  # gamma
    rest: Any  # rho


def shared_conditional(model: Model, rules: Rules, numbers: Numbers, special: Any) -> Conditional:
    """``conditional`` in NumPy, computed once for problems that differ only in alpha, beta and ridge."""
    keys = np.stack([numbers.alpha0, numbers.rate, numbers.noise], axis=1)
    unique, first, places = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    if len(unique) == len(keys):
        return conditional(model, rules, numbers, np, special)
    per_problem = ("values", "masses", "labels", "label_weights")
    few_rules = rules._replace(**{name: getattr(rules, name)[first] for name in per_problem})
    few = Numbers(*[None if each is None else each[first] for each in numbers])
    found = conditional(model, few_rules, few, np, special)
    places = places.ravel()
    return Conditional(
        StepLaw(*[each[places] for each in found.law]),
        ShiftedMoments(*[each[places] for each in found.student]),
        tuple(each[places] for each in found.target),
        found.alignment[places],
        found.rest[places],
    )


def conditional(model: Model, rules: Rules, numbers: Numbers, xp: Any, special: Any) -> Conditional:
    """The step's constants and the conditional moments on the nodes."""
    law = step_law(
        model.constants,
        rules.labels,
        rules.label_weights,
        numbers.alpha0,
        numbers.rate,
        rules.values,
        xp,
    )
    shift = law.spike[:, :, None] * rules.kappa
    scale = xp.broadcast_to(xp.sqrt(law.variance)[:, :, None], shift.shape)
    student, teacher = model.student, model.teacher
    moments = shifted_moments(
        lambda x: student.evaluate(x, xp, special),
        shift,
        scale,
        rules.student.cuts,
        rules.student.nodes,
        xp,
    )
    gamma, rho = law.alignment, law.remainder
    target = teacher_moments(
        teacher, gamma, rho, numbers.noise, rules.kappa, rules.teacher, xp, special
    )
    return Conditional(law, moments, target, gamma, rho)


def assemble(
    model: Model,
    rules: Rules,
    numbers: Numbers,
    given: Conditional,
    rank: int | None,
    xp: Any,
    stop: Any,
    cut: float,
) -> Setup:
    """The arrays of the equations. ``rank`` fixes the size of the basis B where shapes must be known; ``cut`` is its accuracy."""
    law, moments = given.law, given.student
    bulk = _bulk(model, rules, numbers, law, moments, rank, cut, xp, stop)
    fluctuations = _fluctuations(model, numbers, law, moments, rules.kappa, xp)
    features = moments.mean
    if model.common_mode:
        size = (
            0.0 if numbers.dimension is None else 1 / xp.sqrt(numbers.dimension)
        ) * xp.ones_like(numbers.alpha)
        features = xp.concatenate([features, size[:, None, None] * common_mode(law, moments)], -1)
    chaos = model.constants.has_linear_fluctuation and not model.isotropic and model.steps
    feedback = None
    if (
        model.own_output
    ):  # beyond q E[at^2] = 1 the shift is part of the spike, and takes no more out of the rows
        feedback = xp.minimum(numbers.rate * model.constants.slope**2, 1 / model.readout_square)
    mean = Mean(
        features,
        moments.spread,
        fluctuations,
        rules.kappa,
        given.target,
        law.gradient_norm,
        given.alignment,
        given.rest,
        law.linear_chaos if chaos else None,
        law.higher_chaos if chaos else None,
        law.vector_products if chaos else None,
        numbers.dimension,
        None
        if model.free_degrees is None
        else xp.asarray(free_functions(rules.kappa, *model.free_degrees)),
        rules.values,
        feedback,
    )
    return Setup(bulk, mean, law.variance)


def common_mode(law: StepLaw, moments: Any) -> Any:
    """sqrt 2 c mu0': the change of the mean feature when |x|^2, or |w|^2 at fixed direction, moves by sqrt(2/d)."""
    return np.sqrt(2) * law.variance[..., None] * moments.spread


def free_functions(kappa: Any, even: float, odd: float) -> np.ndarray:
    """Functions of kappa (K, .) that span what a Gaussian readout fits freely at d = infinity.

    The mean features mu0(at, .) of all readout values at span, by their derivatives at at = 0, the monomials kappa^j for which some
    Hermite coefficient j, j + 2, j + 4, ... of s does not vanish: every even (odd) function if the even (odd) part of s is no
    polynomial, polynomials up to its degree if it is.
    """
    nodes = np.asarray(kappa)
    half = nodes.size // 2
    columns = []
    for degree, parity in ((even, 0), (odd, 1)):
        if degree == np.inf:
            pairs = np.eye(nodes.size)[:, half:]
            mirrored = np.eye(nodes.size)[:, half::-1]
            columns.append((pairs + mirrored) / 2 if parity == 0 else (pairs - mirrored)[:, 1:] / 2)
        elif degree >= 0:
            columns.append(
                np.stack(
                    [(nodes / nodes[-1]) ** power for power in range(parity, int(degree) + 1, 2)],
                    axis=1,
                )
            )
    return np.concatenate(columns, axis=1)


def teacher_moments(
    teacher: Activation,
    gamma: Any,
    rho: Any,
    noise: Any,
    kappa: Any,
    rule: InnerRule,
    xp: Any,
    special: Any,
) -> tuple[Any, Any, Any]:
    """h0 = E t, h1 = E[z t], h2 = E t^2 + noise^2 with t = s*(gamma kappa + rho z)."""
    shift = gamma[:, None] * kappa
    scale = xp.broadcast_to(rho[:, None], shift.shape)
    found = shifted_moments(
        lambda x: teacher.evaluate(x, xp, special), shift, scale, rule.cuts, rule.nodes, xp
    )
    h1 = found.slope * scale
    return found.mean, h1, found.rest + found.mean**2 + h1**2 + (noise**2)[:, None]


def _fluctuations(
    model: Model, numbers: Numbers, law: StepLaw, moments: Any, kappa: Any, xp: Any
) -> tuple[Any, ...]:
    """The psi^q: fluctuations of the mean feature that know nothing of the bulk rows.

    Gaussian rows (|w|^2 = 1 + sqrt(2/d) xi): sqrt 2 (kappa mu1 du/dQ + mu0' dc/dQ); for the isotropic model, whose rows are scaled
    by sqrt c, sqrt 2 c mu0'. Norm fluctuation at fixed |w|: sqrt(nu) mu0'. Small step at d = infinity: the spike
    eta at c1 |v| kappa mu1/sqrt beta, where a student with a mean fits a constant freely and only the spread of at is left.
    """
    found = []
    by_variance = moments.spread
    if model.gaussian_rows and model.isotropic:
        found.append(
            common_mode(law, moments)
        )  # scaling a row and scaling an input are the same to the mean
    elif model.gaussian_rows:
        along = law.spike_by_norm[..., None] * kappa * moments.slope
        found.append(np.sqrt(2) * (along + law.variance_by_norm[..., None] * by_variance))
    if model.steps and not model.isotropic:
        found.append(xp.sqrt(xp.maximum(law.norm_variance, 0.0) + 1e-300)[..., None] * by_variance)
    if model.steps and numbers.dimension is None:
        size = numbers.spike * model.constants.slope * law.gradient_norm / xp.sqrt(numbers.beta)
        spike = size[:, None, None] * kappa * moments.slope
        found.append(np.sqrt(max(model.readout_square - model.readout_mean**2, 0.0)) * spike)
        if model.constants.mean == 0 and not model.common_mode:
            found.append(model.readout_mean * spike)
    if model.common_mode:
        found = [xp.pad(psi, ((0, 0), (0, 0), (0, kappa.size))) for psi in found]
        if numbers.dimension is None:
            found.append(
                xp.concatenate([model.readout_mean * spike, common_mode(law, moments)], -1)
            )
    return tuple(found)


def _bulk(
    model: Model,
    rules: Rules,
    numbers: Numbers,
    law: StepLaw,
    moments: Any,
    rank: int | None,
    cut: float,
    xp: Any,
    stop: Any,
) -> Bulk:
    slope = moments.slope
    u, basis, idle = low_rank(slope, rules.masses, rules.omega, rank, cut, xp, stop)
    zero = xp.zeros_like(law.noise)
    mass = numbers.beta[:, None] * rules.masses
    common = (mass, moments.rest, rules.labels, rules.label_weights, numbers.alpha0)
    if model.isotropic or not model.steps:
        return Bulk(basis, idle, u, None, law.variance, zero, *common)
    return Bulk(
        basis,
        idle,
        u,
        None if model.constants.linear == 0 else law.tilt,
        zero + 1.0,
        law.noise,
        *common,
    )


def low_rank(
    slope: Any, masses: Any, omega: Any, rank: int | None, cut: float, xp: Any, stop: Any
) -> tuple[Any, Any, Any]:
    """mu1 = U B: rows of B are combinations of rows of mu1 that are orthonormal under omega; idle rows are zero."""
    root = xp.sqrt(masses)
    left, sigma, _ = thin_svd(stop(root[..., None] * slope * xp.sqrt(omega)), xp)
    used = (sigma > cut * sigma[:, :1]) & (sigma > 1e-13)
    size = max(1, int(xp.max(xp.sum(used, -1)))) if rank is None else rank
    left, sigma, used = left[..., :size], sigma[..., :size], used[..., :size]
    combination = (
        xp.where(used[:, None, :], left / xp.where(used, sigma, 1.0)[:, None, :], 0.0)
        * stop(root)[..., None]
    )
    basis = xp.swapaxes(combination, 1, 2) @ slope
    idle = 1.0 - used
    gram = (basis * omega) @ xp.swapaxes(basis, 1, 2) + idle[:, :, None] * np.eye(idle.shape[-1])
    u = xp.swapaxes(xp.linalg.solve(gram, (basis * omega) @ xp.swapaxes(slope, 1, 2)), 1, 2)
    return u, basis, idle
