"""How far networks of that size may be from the number: an estimate from the equations themselves.

At finite d the equations keep some terms of order 1/d and drop the others. What is dropped is large
where one of these is large (``Doubts``), all of them relative to the risk and read off the
solution, with amp = sum omega e/sum omega e_det what the scatter of the fit makes of an error:

    peak     amp/(n (1 - r)), r the largest eigenvalue of Top: near the interpolation peak
    overlap  amp sum_p pi_p b_p tr C_p^2/(tr C_p)^2, with b_p the share of the Hermite degrees two
             and three in E s^2 at the variance B_p = u_p^2 + c_p. Two rows have a squared cosine of
             tr C^2/(tr C)^2 = 1/(number of directions that the bulk has), and the conditional
             Gaussian equivalent keeps the first power of it only
    norms    sum_p pi_p l_p^2 (nu_p + [2 (dc/dQ)^2, Gaussian rows] + |X[h + k]|^2)/(c_p^2 d) with
             l_p = (c_p/B_p) d log E s(sqrt(B_p) z)^2/d log B_p: the fluctuation of the neurons'
             sizes, of which the equations keep the first order
    second   what He2 across the step, which one direction leaves out, would take from the risk:
             amp times E[2 mt ht - mt^2] over the risk, where ht = E[t He2(z)]/sqrt 2 and mt its fit
             by the kernel (6/d) sum_p Theta_p C_zz^2 mu0' mu0'^T
    own      tau_f^2/mh_2: the share of the own output in the labels of the step
    steep    amp varpi_max/sqrt(d) (1/4 + sum_p pi_p u_p^2/B_p), of the largest eigenvalue of the
             inputs: each neuron then sees a few directions of its own, of which the equations keep
             the mean and the variance; the more so the more of it lies along the step, and the
             step's direction itself differs between networks
    focus    (T_1^2 - 1)/d, of inputs with a spectrum: of a teacher on a handful of leading
             eigenvectors functions of degree three are learned in part, step or no step
    drawn    (2/d) (O_6/O_3^2 + O_2 - 2 O_4/O_3) where each network draws its own teacher in the
             spectrum: the variance of T_2 over its square. The equations have equal components
    constant the share of the scatter of a free constant in E f^2, with losses that are not smooth:
             where few samples pull at it (a hinge with all of them within its margin) it differs by
             its own size from one data set to the next, and its law is no Gaussian

The estimate of a number is a sum of them with its ``WEIGHTS``, found on simulated networks by
tests/scripts/model_error.py, loss_model_error.py and structured_model_error.py; docs/validation.md
has its coverage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.numerics.quadrature import shifted_moments
from firststep.theory.medium import ISOTROPIC, Medium, Words
from firststep.theory.one_step.fit import Iterate
from firststep.theory.one_step.moments import Conditional
from firststep.theory.one_step.nodes import InnerRule, Rules
from firststep.theory.one_step.question import Model, Numbers, own_variance
from firststep.theory.one_step.risk import Outcome
from firststep.theory.one_step.system import System, apply, flip, solve_each
from firststep.theory.one_step.term_doubts import bends, covariances_across, gain_of_bends
from firststep.theory.step import data_traces
from firststep.theory.teacher import TermSum

if TYPE_CHECKING:
    from firststep.activations import Activation
    from firststep.theory.step import StepLaw
    from firststep.typing import Array, Float

FLAGGED = 0.03  # of the risk: a number with a larger estimate is not to be trusted
MOST = 2.0  # of a doubt: beyond, nothing is known but that the number is useless
AT_PEAK = 10.0  # amplification above which any doubt is owed to it
_POWER_STEPS = 40  # of the power iteration: r to a percent where it matters, near 1
_Z = np.linspace(-6.0, 6.0, 121)  # of the size and the bend of a feature: a percent will do
_MASS = np.exp(-(_Z**2) / 2) / np.sum(np.exp(-(_Z**2) / 2))
_HE2, _HE3 = (_Z**2 - 1) / np.sqrt(2), (_Z**3 - 3 * _Z) / np.sqrt(6)


class Doubts(NamedTuple):
    """The reasons to doubt a number at finite d, of one problem or of a batch."""

    peak: Float[Array, " batch"]
    overlap: Float[Array, " batch"]
    norms: Float[Array, " batch"]
    second: Float[Array, " batch"]
    own: Float[Array, " batch"]
    constant: Float[Array, " batch"]  # 0 without one
    steep: Float[Array, " batch"]  # 0 where Omega is 1
    focus: Float[Array, " batch"]  # 0 where Omega is 1
    drawn: Float[Array, " batch"]  # 0 but for teachers drawn in a spectrum
    amplification: Float[Array, " batch"]  # amp, which is in the others


class Term(NamedTuple):
    """A part of the estimate: its weight, and why, in words."""

    weight: float
    reason: str


class Weights(NamedTuple):
    """What the doubts weigh in the estimate of one number, in the order of ``Doubts``."""

    floor: float  # what is left where no doubt is large
    peak: float
    overlap: float
    norms: float
    second: float
    own: float
    constant: float = 0.0
    steep: float = 0.0
    focus: float = 0.3
    drawn: float = 0.1


# Of the risk of ridge regression the fit of tests/scripts/model_error.py on the safe side (it finds
# 0.0033, 0.19, 9.1, 0.13, 0.23 and the least it is given); of the test loss of other losses and of
# error rates those of tests/scripts/loss_model_error.py (0.002, 1.7 and nothing; 0.004, 0, 0, 0.28,
# 0.57, 0.93), made a little larger where they are nothing. Of the constant the error rate alone
# feels more than its width: 3.6 % at a share of 0.15, 1.2 % at 0.035. What steep inputs weigh is
# from tests/scripts/structured_model_error.py, with the other weights as they are; what drawn
# teachers do, from averages of the theory over 40 of them (1.4 to 7.5 % at 0.15 to 0.8). A focus of
# 0.49 without a step is 12.8 +- 1.6 %, one of 0.38 and 2.1 on j^-1 up to 5 and 11 %.
WEIGHTS = {
    "risk": Weights(
        floor=0.005, peak=0.25, overlap=9.0, norms=0.26, second=0.25, own=0.12, steep=0.04
    ),
    "test_loss": Weights(
        floor=0.003, peak=1.7, overlap=2.0, norms=0.0, second=0.0, own=0.1, steep=0.02
    ),
    "error_rate": Weights(
        floor=0.005,
        peak=0.05,
        overlap=2.0,
        norms=0.3,
        second=0.6,
        own=0.9,
        constant=0.25,
        steep=0.02,
    ),
}
_AT_REST = 0.25  # of the doubt ``steep``: networks without a step are off by a fifth of long ones
REASONS = {
    "floor": "what the equations leave out at any size",
    "peak": "few samples for each free parameter and a small ridge: near the interpolation peak "
    "networks differ widely",
    "overlap": "the trained neurons overlap and bend: they are less independent than the equations "
    "take them to be",
    "norms": "the sizes of the neurons fluctuate by more than the equations can resolve",
    "second": "even parts of student and teacher: a second direction is learned in part",
    "own": "the output of the network before its step is not small beside the labels",
    "steep": "the largest eigenvalue of the inputs is not small beside sqrt d: neurons differ by "
    "what they see of a few directions (a check by layers may tell)",
    "focus": "the teacher lies on a handful of leading eigenvectors of the inputs, of which more "
    "than linear functions are learned",
    "drawn": "each network draws its own teacher in the spectrum, and their mean is not that of "
    "equal components",
    "constant": "few samples hold the free constant: it differs widely between networks",
}
NEAR_SEPARABLE = (
    "few samples for each free parameter and a small ridge: near the threshold where samples can "
    "be separated networks differ widely"
)


class ModelError(NamedTuple):
    """An estimate, relative to the number, and its largest part in words."""

    relative: float
    reason: str

    @property
    def is_flagged(self) -> bool:
        return not self.relative <= FLAGGED


def estimated(doubts: Doubts, of: str = "risk", *, of_margins: bool = False) -> ModelError:
    """The estimate for one number of one problem; ``of_margins``: whether the fit can separate."""
    weights = WEIGHTS[of]
    parts = {
        name: weight * min(float(getattr(doubts, name)), MOST)
        for name, weight in weights._asdict().items()
        if name != "floor"
    }
    relative = weights.floor + sum(parts.values())
    largest = max(parts, key=lambda name: parts[name])
    if float(doubts.amplification) > AT_PEAK:
        largest = "peak"
    why = largest if parts[largest] > weights.floor else "floor"
    return ModelError(relative, NEAR_SEPARABLE if why == "peak" and of_margins else REASONS[why])


class StepDoubts(NamedTuple):
    """What is known before the fit."""

    overlap: Float[Array, " batch"]  # without amp
    norms: Float[Array, " batch"]
    own: Float[Array, " batch"]
    steep: Float[Array, " batch"]  # without amp
    focus: Float[Array, " batch"]
    drawn: Float[Array, " batch"]
    across: Float[Array, "batch *m P"]  # C_zz: the covariance of the rows along zeta
    bend: Float[Array, "batch *m K"]  # ht; of several terms along the direction of each


def of_the_step(model: Model, rules: Rules, numbers: Numbers, given: Conditional) -> StepDoubts:
    """The doubts that the step alone raises; numbers are those of a finite d."""
    assert numbers.dimension is not None
    law, labels = given.law, LabelMoments.of(rules)
    bent, slope = _bent(model.student, np.sqrt(law.spike**2 + law.variance))
    across, squared, own = law.variance, law.variance**2, 0 * numbers.alpha
    steep, focus, drawn = (0 * numbers.alpha for _ in range(3))
    several = model.several
    if model.medium is not ISOTROPIC:
        across, squared = across * model.medium.t[1], squared * model.medium.o[2]
        along = np.sum(rules.masses * law.spike**2 / (law.spike**2 + law.variance), -1)
        steep = max(model.medium.levels) / np.sqrt(numbers.dimension) * (_AT_REST + along)
        focus = focus + max(model.medium.t[1] ** 2 - 1, 0.0) / numbers.dimension
        drawn = drawn + model.draws_teacher * drawn_spread(model.medium) / numbers.dimension
    if several is not None:
        across = np.repeat(across[:, None], several.count, axis=1)
    if model.steps:
        if model.medium is not ISOTROPIC:
            squared = squared_in_medium(labels, numbers, law, model.medium)
        else:
            squared = squared_covariance(labels, numbers, law)
            across = (
                covariance_across(labels, numbers, law)
                if several is None
                else covariances_across(several, rules, numbers.alpha0, law)
            )
        if law.own_shift is not None:
            own = own_variance(model, numbers.beta * numbers.dimension) / labels.m[2]
    cosines = squared / law.variance**2
    return StepDoubts(
        overlap=np.sum(rules.masses * bent * cosines, -1) / numbers.dimension,
        norms=np.sum(rules.masses * _norms(model, law, slope), -1) / numbers.dimension,
        own=own,
        steep=steep,
        focus=focus,
        drawn=drawn,
        across=across,
        bend=_bend(model, rules, law) if several is None else bends(several, rules, law),
    )


def drawn_spread(medium: Medium) -> float:
    """d times the variance of T_2/E T_2 over teachers with random components."""
    _, _, o2, o3, o4, _, o6, *_ = medium.o
    return 2 * (o6 / o3**2 + o2 - 2 * o4 / o3)


class LabelMoments(NamedTuple):
    """E yhat^j, E[G yhat^j], E[G^2 yhat^j] for j = 0 to 4."""

    m: list[Float[Array, " batch"]]
    x: list[Float[Array, " batch"]]
    g: list[Float[Array, " batch"]]

    @classmethod
    def of(cls, rules: Rules) -> LabelMoments:
        powers = [rules.labels**j for j in range(5)]
        return cls(*([np.sum(rules.label_weights[:, a] * y, -1) for y in powers] for a in range(3)))


def _bent(
    student: Activation, scale: Float[Array, "batch P"]
) -> tuple[Float[Array, "batch P"], Float[Array, "batch P"]]:
    """b and d log E s^2/d log B = E[s^2 (z^2 - 1)]/(2 E s^2) of s(sqrt(B) z)."""
    values = student.evaluate(scale[..., None] * _Z)
    square = np.maximum(values**2 @ _MASS, 1e-300)
    bend = (values @ (_MASS * _HE2)) ** 2 + (values @ (_MASS * _HE3)) ** 2
    return bend / square, values**2 @ (_MASS * _HE2) / (np.sqrt(2) * square)


def _norms(model: Model, law: StepLaw, slope: Float[Array, "batch P"]) -> Float[Array, "batch P"]:
    """The summand of ``norms``, times d."""
    size = slope * law.variance / (law.spike**2 + law.variance)
    spread = np.maximum(law.norm_variance, 0) if model.steps else 0 * law.variance
    if model.steps and model.constants.has_linear_fluctuation:
        both = law.linear_chaos + law.higher_chaos
        spread = spread + np.einsum("bpi,bij,bpj->bp", both, law.vector_products, both)
    if model.row_spread > 0:
        spread = spread + 2 * model.row_spread * law.variance_by_norm**2
    norms: Float[Array, "batch P"] = size**2 * spread / law.variance**2
    return norms


def squared_covariance(
    labels: LabelMoments, numbers: Numbers, law: StepLaw
) -> Float[Array, "batch P"]:
    """tr C^2/d of C = 1 + 2 e M + e^2 M^2 + chi S'."""
    moments = tuple(each[:, None] for each in labels.m[1:])
    traces = data_traces(moments, numbers.alpha0[:, None])
    return traces.of_square(2 * law.tilt, law.tilt**2, law.jitter)


def squared_in_medium(
    labels: LabelMoments, numbers: Numbers, law: StepLaw, medium: Medium
) -> Float[Array, "batch P"]:
    """tr (Omega C)^2/d of the same C where the inputs have the covariance Omega."""
    words = Words(medium, lambda j: labels.m[j][:, None], numbers.alpha0[:, None])
    e, chi, (_, _, o2, *_) = law.tilt, law.jitter, medium.o
    total = o2 + 4 * e * words.trace((1,), (2,)) + 2 * chi * words.trace((2,), (2,))
    total = total + e**2 * (4 * words.trace((1, 1), (1, 1)) + 2 * words.trace((1, 1), (0, 2)))
    total = total + 4 * e**3 * words.trace((1, 1, 1), (0, 1, 1))
    total = total + e**4 * words.trace((1, 1, 1, 1), (0, 1, 0, 1))
    total = total + 4 * e * chi * words.trace((1, 2), (1, 1))
    total = total + 2 * e**2 * chi * words.trace((1, 1, 2), (0, 1, 1))
    return total + chi**2 * words.trace((2, 2), (1, 1))


def covariance_across(
    labels: LabelMoments, numbers: Numbers, law: StepLaw
) -> Float[Array, "batch P"]:
    """C_zz = 1 + 2 e M_zz + e^2 (M^2)_zz + chi S'_zz, with

    Q_zz = rho^2 Q_tt - 2 (gamma/|v|) Q_tg + (gamma/(rho |v|))^2 (Q_gg + eps^2 Q_UU)

    for Q = 1, M, M^2, S', where g = v - c1* theta.
    """
    (m, x, g), a = labels, numbers.alpha0
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
    """ht = E[t He2(z)]/sqrt 2 = sqrt 2 rho^2 d E t/d rho^2 with t = s*(gamma kappa + rho z)."""
    rho = law.direction.misalignment[:, None]
    assert isinstance(rules.teacher, InnerRule)
    assert not isinstance(model.target, TermSum)
    shift, rule = law.direction.alignment[:, None] * rules.kappa, rules.teacher
    found = shifted_moments(model.target.evaluate, shift, rho, rule.cuts, rule.nodes)
    return np.sqrt(2) * rho**2 * found.by_variance


class Scatter(NamedTuple):
    """What the scatter of the fit makes of an error: E (y - f0)^2 with it and without."""

    total: Float[Array, " batch"]  # sum omega e
    plain: Float[Array, " batch"]  # sum omega e_det
    top: Float[Array, "batch K K"]  # e - e_det = Top e, or how the scatter follows itself

    @classmethod
    def of(cls, outcome: Outcome, omega: Float[Array, " K"]) -> Scatter:
        """Of a ridge fit."""
        plain = np.sum(omega * outcome.deterministic, -1)
        return cls(outcome.test_error, plain, outcome.top)


def doubts_of(
    system: System,
    iterate: Iterate,
    scatter: Scatter,
    step: StepDoubts,
    noise: Float[Array, " batch"],
) -> Doubts:
    """All doubts of a solved batch but that of a constant; ``noise``: the variance of a label that
    no fit explains.
    """
    d = system.mean.dimension
    assert d is not None
    amplified = scatter.total / np.maximum(scatter.plain, 1e-300)
    risk = np.maximum(np.abs(scatter.total - noise), 1e-300)
    samples = system.alpha * d
    return Doubts(
        peak=amplified / (samples * np.maximum(1 - largest(scatter.top), 1e-3)),
        overlap=amplified * step.overlap,
        norms=step.norms,
        second=amplified * _across_gain(system, iterate, step) / risk,
        own=step.own,
        constant=0 * amplified,
        steep=amplified * step.steep,
        focus=step.focus,
        drawn=step.drawn,
        amplification=amplified,
    )


def _across_gain(system: System, iterate: Iterate, step: StepDoubts) -> Float[Array, " batch"]:
    """E[2 mt ht - mt^2]: what the fit of ht by its kernel alone would gain."""
    assert system.mean.dimension is not None
    root = np.sqrt(iterate.shrunk)
    theta = system.bulk.neurons / iterate.state.energy
    if step.bend.ndim == 3:
        size = np.sqrt(theta / system.mean.dimension[:, None])[:, None] * step.across
        return gain_of_bends(
            size, system.mean.by_variance, step.bend, root=root, omega=system.omega
        )
    weight = np.sqrt(6 / system.mean.dimension[:, None] * theta) * step.across
    functions = weight[..., None] * system.mean.by_variance * root[:, None]
    gram = np.eye(theta.shape[-1]) + functions @ flip(functions)
    fitted = apply(flip(functions), solve_each(gram, apply(functions, root * step.bend))) / root
    return np.maximum(np.sum(system.omega * (2 * step.bend - fitted) * fitted, -1), 0)


def largest(top: Float[Array, "batch K K"]) -> Float[Array, " batch"]:
    """The largest eigenvalue of matrices of nearly positive elements, by power iteration."""
    vector = np.ones(top.shape[:2])
    size = np.zeros(top.shape[0])
    for _ in range(_POWER_STEPS):
        vector = apply(top, vector)
        size = np.max(np.abs(vector), -1)
        vector = vector / np.maximum(size, 1e-300)[:, None]
    return size
