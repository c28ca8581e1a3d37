"""How far networks of that size may be from the number: an estimate from the equations themselves.

At finite d the equations keep some terms of order 1/d and drop the others. What is dropped is large
where one of these is large (``Doubts``), all of them relative and read off the solution:

    size        1/min(d, n, N)
    peak        1/(n (1 - r)), r the largest eigenvalue of Top: near the interpolation peak
    scatter     peak times amp, amp = sum omega e/sum omega e_det: what the scatter of the fit makes
                of an error
    direction   V_v = [4 c1*^2 (g_2 - c1*^2)/n0 + (mh_2/alpha0)^2 (2/d + k/n0)]/|v|^4 with
                k = mh_4/mh_2^2 - 1, the relative variance of |v|^2 from draw to draw
    few         1/n0: each step sample is a direction of its own
    norms       q = sum_p pi_p l_p^2 (nu_p + [2 (dc/dQ)^2, Gaussian rows] + |X[h + k]|^2)/(c_p^2 d),
                l_p = (c_p/B_p) d log E s(sqrt(B_p) z)^2/d log B_p at B_p = u_p^2 + c_p: neurons'
                sizes differ so much that first order is not enough
    second      what He2 across the step, which one direction leaves out, would take from the risk
    own_noise   tau_f^2/mh_2 and
    own_spike   eps^2/|v|^2: the share of the own output in the labels and in the spike

with mh_j = E yhat^j, x_j = E[G yhat^j], g_j = E[G^2 yhat^j]. The estimate is a sum of them with the
weights of ``TERMS``, found on simulated networks by tests/scripts/model_error.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.numerics.quadrature import shifted_moments
from firststep.theory.one_step.fit import Solution
from firststep.theory.one_step.moments import Conditional
from firststep.theory.one_step.nodes import Rules
from firststep.theory.one_step.question import Model, Numbers, own_variance
from firststep.theory.one_step.risk import Outcome
from firststep.theory.one_step.system import System, apply, flip
from firststep.theory.step import gradient_square, residual_of

if TYPE_CHECKING:
    from firststep.activations import Activation
    from firststep.theory.step import StepLaw
    from firststep.typing import Array, Float

FLAGGED = 0.03  # of the risk: a number with a larger estimate is not to be trusted
MOST = 2.0  # of a ratio: beyond, nothing is known but that the number is useless
_POWER_STEPS = 40  # of the power iteration: r to a percent where it matters, near 1
_COARSE = np.linspace(-6.0, 6.0, 121)  # z of the size of a feature: a percent will do
_COARSE_MASS = np.exp(-(_COARSE**2) / 2) / np.sum(np.exp(-(_COARSE**2) / 2))


class Doubts(NamedTuple):
    """The reasons to doubt a number at finite d, of one problem or of a batch."""

    size: Float[Array, " batch"]
    peak: Float[Array, " batch"]
    scatter: Float[Array, " batch"]
    direction: Float[Array, " batch"]
    few: Float[Array, " batch"]
    norms: Float[Array, " batch"]
    second: Float[Array, " batch"]
    own_noise: Float[Array, " batch"]
    own_spike: Float[Array, " batch"]


class Term(NamedTuple):
    """A part of the estimate: its weight, how it follows from the doubts, and why, in words."""

    weight: float
    of: Callable[[Doubts], Float[Array, " batch"]]
    reason: str


def _at_most(values: Float[Array, " batch"]) -> Float[Array, " batch"]:
    return np.minimum(values, MOST)


# Weights: see the module's docstring. Two digits: the fit on another two thirds moves the second.
TERMS: dict[str, Term] = {
    "size": Term(
        0.0025,
        lambda doubts: np.ones_like(doubts.size),
        "what the equations leave out at this size",
    ),
    "peak": Term(
        0.28,
        lambda doubts: _at_most(doubts.scatter),
        "few samples for each free parameter and a small ridge: near the interpolation peak "
        "networks differ widely",
    ),
    "norms": Term(
        0.36,
        lambda doubts: _at_most(np.sqrt(doubts.norms)),
        "the sizes of the neurons differ by more than the equations resolve",
    ),
    "second": Term(
        0.37,
        lambda doubts: _at_most(doubts.second),
        "even parts of student and teacher: a second direction is learned in part",
    ),
    "own": Term(
        0.7,
        lambda doubts: _at_most(doubts.own_noise),
        "the output of the network before its step is not small beside the labels",
    ),
}


class ModelError(NamedTuple):
    """An estimate, relative to the risk, and its largest part in words."""

    relative: float
    reason: str

    @property
    def is_flagged(self) -> bool:
        return not self.relative <= FLAGGED


def estimated(doubts: Doubts) -> ModelError:
    """The estimate for one problem."""
    parts = {name: term.weight * float(term.of(doubts)) for name, term in TERMS.items()}
    largest = max(parts, key=lambda name: parts[name])
    return ModelError(sum(parts.values()), TERMS[largest].reason)


class StepDoubts(NamedTuple):
    """What is known before the fit."""

    direction: Float[Array, " batch"]
    few: Float[Array, " batch"]
    norms: Float[Array, " batch"]
    own_noise: Float[Array, " batch"]
    own_spike: Float[Array, " batch"]
    across: Float[Array, "batch P"]  # C_zz: the covariance of the rows along zeta
    bend: Float[Array, "batch K"]  # E[t He2(z)]/sqrt 2 given kappa


def of_the_step(model: Model, rules: Rules, numbers: Numbers, given: Conditional) -> StepDoubts:
    """The doubts that the step alone raises; numbers are those of a finite d."""
    assert numbers.dimension is not None
    d, n0 = numbers.dimension, numbers.alpha0 * numbers.dimension
    moments = _LabelMoments.of(rules)
    zero = np.zeros_like(d)
    direction = few = own_noise = own_spike = zero
    if model.steps:
        plain = residual_of(model.teacher, model.offset, numbers.step_noise)
        square = gradient_square(plain, numbers.alpha0)
        aligned, spread = moments.x[1], moments.m[2] / numbers.alpha0
        kurtosis = moments.m[4] / moments.m[2] ** 2 - 1
        direction = 4 * aligned**2 * (moments.g[2] - aligned**2) / n0
        direction = (direction + spread**2 * (2 / d + kurtosis / n0)) / square**2
        few = 1 / n0
        if given.law.own_shift is not None:
            own_noise = own_variance(model, numbers.beta * d) / moments.m[2]
            own_spike = given.law.own_shift / square
    return StepDoubts(
        direction=direction,
        few=few,
        norms=_norms(model, rules, numbers, given.law),
        own_noise=own_noise,
        own_spike=own_spike,
        across=_covariance_across(moments, numbers, given.law)
        if model.steps
        else given.law.variance,
        bend=_bend(model, rules, given.law),
    )


class _LabelMoments(NamedTuple):
    """E yhat^j, E[G yhat^j], E[G^2 yhat^j] for j = 0 to 4."""

    m: list[Float[Array, " batch"]]
    x: list[Float[Array, " batch"]]
    g: list[Float[Array, " batch"]]

    @classmethod
    def of(cls, rules: Rules) -> _LabelMoments:
        powers = [rules.labels**j for j in range(5)]
        return cls(*([np.sum(rules.label_weights[:, a] * y, -1) for y in powers] for a in range(3)))


def _norms(model: Model, rules: Rules, numbers: Numbers, law: StepLaw) -> Float[Array, " batch"]:
    """q of the module's docstring."""
    assert numbers.dimension is not None
    wide = law.spike**2 + law.variance  # B
    size = _log_size_slope(model.student, np.sqrt(wide)) * law.variance / wide
    both = law.linear_chaos + law.higher_chaos
    spread = np.maximum(law.norm_variance, 0) if model.steps else 0 * law.variance
    if model.steps and model.constants.has_linear_fluctuation:
        spread = spread + np.einsum("bpi,bij,bpj->bp", both, law.vector_products, both)
    if model.has_gaussian_rows:
        spread = spread + 2 * law.variance_by_norm**2
    relative = size**2 * spread / law.variance**2
    return np.sum(rules.masses * relative, -1) / numbers.dimension


def _log_size_slope(student: Activation, scale: Float[Array, "batch P"]) -> Float[Array, "batch P"]:
    """d log E s(b z)^2/d log b^2 = E[s^2 (z^2 - 1)]/(2 E s^2)."""
    squares = student.evaluate(scale[..., None] * _COARSE) ** 2 @ np.stack(
        [_COARSE_MASS, _COARSE_MASS * (_COARSE**2 - 1)], -1
    )
    slope: Float[Array, "batch P"] = squares[..., 1] / (2 * np.maximum(squares[..., 0], 1e-300))
    return slope


def _covariance_across(
    moments: _LabelMoments, numbers: Numbers, law: StepLaw
) -> Float[Array, "batch P"]:
    """C_zz = 1 + 2 e M_zz + e^2 (M^2)_zz + chi S'_zz, with

    Q_zz = rho^2 Q_tt - 2 (gamma/|v|) Q_tg + (gamma/(rho |v|))^2 (Q_gg + eps^2 Q_UU)

    for Q = 1, M, M^2, S', where g = v - c1* theta.
    """
    (m, x, g), a = moments, numbers.alpha0
    one, zero = np.ones_like(a), np.zeros_like(a)
    along_teacher = [one, g[1], g[1] ** 2 + g[2] / a, g[2]]
    mixed = [zero, x[2] / a, (g[1] + m[1]) * x[2] / a + x[3] / a**2, x[3] / a]
    square = (x[2] / a) ** 2 + m[4] / a**3 + (2 * m[1] * m[3] + m[2] ** 2) / a**2
    along_rest = [
        m[2] / a,
        m[3] / a**2 + m[1] * m[2] / a,
        square + m[1] ** 2 * m[2] / a,
        m[4] / a**2 + m[2] ** 2 / a,
    ]
    plain = [one, m[1], m[1] ** 2 + m[2] / a, m[2]]
    length, gamma, rho = law.direction
    shift = zero if law.own_shift is None else law.own_shift
    turned = [
        (rho**2 * tt - 2 * gamma / length * tg + (gamma / (rho * length)) ** 2 * (gg + shift * uu))
        for tt, tg, gg, uu in zip(along_teacher, mixed, along_rest, plain, strict=True)
    ]
    one, by_data, by_square, by_jitter = (each[:, None] for each in turned)
    return one + 2 * law.tilt * by_data + law.tilt**2 * by_square + law.jitter * by_jitter


def _bend(model: Model, rules: Rules, law: StepLaw) -> Float[Array, "batch K"]:
    """E[t He2(z)]/sqrt 2 = sqrt 2 rho^2 d E t/d rho^2 with t = s*(gamma kappa + rho z)."""
    rho = law.direction.misalignment[:, None]
    shift = law.direction.alignment[:, None] * rules.kappa
    found = shifted_moments(
        model.teacher.evaluate, shift, rho, rules.teacher.cuts, rules.teacher.nodes
    )
    return np.sqrt(2) * rho**2 * found.by_variance


def doubts_of(
    system: System,
    solution: Solution,
    outcome: Outcome,
    step: StepDoubts,
    noise: Float[Array, " b"],
) -> Doubts:
    """All doubts of a solved batch."""
    d = system.mean.dimension
    assert d is not None
    samples, width = system.alpha * d, np.sum(system.bulk.neurons, -1) * d
    peak = 1 / (samples * np.maximum(1 - _largest(outcome.top), 1e-3))
    plain = np.sum(system.omega * outcome.deterministic, -1)
    amplified = outcome.test_error / np.maximum(plain, 1e-300)
    theta = system.bulk.neurons / solution.state.energy
    weight = np.sqrt(6 / d[:, None] * theta) * step.across
    functions = weight[..., None] * system.mean.by_variance * np.sqrt(solution.shrunk)[:, None]
    gram = np.eye(theta.shape[-1]) + functions @ flip(functions)
    wanted = np.sqrt(solution.shrunk) * step.bend
    fitted = apply(flip(functions), _solved(gram, apply(functions, wanted)))
    fitted = fitted / np.sqrt(solution.shrunk)
    gained = np.sum(system.omega * (2 * fitted * step.bend - fitted**2), -1)
    risk = np.maximum(np.abs(outcome.test_error - noise**2), 1e-300)
    return Doubts(
        size=1 / np.minimum(np.minimum(samples, width), d),
        peak=peak,
        scatter=peak * amplified,
        direction=step.direction,
        few=step.few,
        norms=step.norms,
        second=np.maximum(gained, 0) * amplified / risk,
        own_noise=step.own_noise,
        own_spike=step.own_spike,
    )


def _solved(
    matrix: Float[Array, "batch n n"], vector: Float[Array, "batch n"]
) -> Float[Array, "batch n"]:
    solved: Float[Array, "batch n"] = np.linalg.solve(matrix, vector[..., None])[..., 0]
    return solved


def _largest(top: Float[Array, "batch K K"]) -> Float[Array, " batch"]:
    """The largest eigenvalue of matrices of nearly positive elements, by power iteration."""
    vector = np.ones(top.shape[:2])
    size = np.zeros(top.shape[0])
    for _ in range(_POWER_STEPS):
        vector = apply(top, vector)
        size = np.max(np.abs(vector), -1)
        vector = vector / np.maximum(size, 1e-300)[:, None]
    return size
