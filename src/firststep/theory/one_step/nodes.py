"""Quadrature nodes, and how fine they are: the same for a problem alone and in a batch."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.activations import Activation
from firststep.errors import NotConverged
from firststep.numerics.library import library_of
from firststep.numerics.quadrature import REACH, shifted_moments
from firststep.readouts import ReadoutLaw
from firststep.theory.binary import BinaryLabels
from firststep.theory.one_step.labels import Mixture, label_rule, mixed_label_rule
from firststep.theory.one_step.question import Model, Numbers
from firststep.theory.one_step.step_noise import step_mixtures
from firststep.theory.one_step.term_labels import still_rule, term_label_rule
from firststep.theory.one_step.typed import TYPED_CUT, type_nodes
from firststep.theory.step import StepConstants, StepDirection
from firststep.theory.teacher import TermSum, Together

if TYPE_CHECKING:
    from firststep.typing import Array, Float

SPACING = 0.32  # of kappa where nothing is narrow: the trapezoid then has some 1e-9 of error
FINEST = 0.01  # of kappa: 1700 nodes, beyond which the linear algebra costs more than it gives
READOUT_SPACING = 0.17  # of t in at = scale sinh(t), for the same error as SPACING
RANK_CUT = 4e-5  # of the basis of mu1: the risk feels its square
_MOST_NODES = 10_000

# How neurons differ in their readout: not at all, by the values of a finite law, or by the nodes
# that stand for a Gaussian one, every second of which is a coarser rule.
ALIKE, FINITE, GAUSSIAN = "alike", "finite", "gaussian"


class InnerRule(NamedTuple):
    """How ``shifted_moments`` integrates a function."""

    nodes: int
    cuts: tuple[float, ...]


class TermRules(NamedTuple):
    """How every term of a teacher of several directions is integrated, and their products."""

    terms: tuple[InnerRule, ...]
    together: InnerRule

    @property
    def nodes(self) -> int:
        return sum(each.nodes for each in (*self.terms, self.together))

    @property
    def cuts(self) -> tuple[float, ...]:
        return tuple(cut for each in (*self.terms, self.together) for cut in each.cuts)


class ReadoutRule(NamedTuple):
    """Values of the readout with weights, and what kind of rule they are."""

    kind: str  # ALIKE, FINITE or GAUSSIAN
    values: Float[Array, " P"]
    masses: Float[Array, " P"]


class Rules(NamedTuple):
    """The nodes of a batch of problems."""

    kappa: Float[Array, " K"]
    omega: Float[Array, " K"]
    kind: str  # of the readout's nodes
    readout: Float[Array, "batch P"]  # at_p
    masses: Float[Array, "batch P"]  # pi_p
    labels: Float[Array, "batch J"]
    label_weights: Float[Array, "batch 3 J"]
    student: InnerRule
    teacher: InnerRule | TermRules
    amplitudes: Float[Array, "batch m1 J"] | None = None  # of a teacher of several directions


class Resolution(NamedTuple):
    """All that fixes the nodes of a problem, in rounded numbers so that problems share them."""

    kappa_spacing: float
    readout_scale: float
    readout_spacing: float
    label_width: float
    label_detail: int
    student: InnerRule
    teacher: InnerRule | TermRules
    rank_cut: float  # of the basis of mu1; the risk feels its square
    reach: float = REACH  # of kappa

    def finer(self) -> Resolution:
        """Half the spacings, more label nodes.

        The basis of typed neurons stays: a finer one is lost in rounding.
        """
        return self._replace(
            kappa_spacing=self.kappa_spacing / 2,
            readout_spacing=self.readout_spacing / 2,
            label_width=self.label_width / 2,
            label_detail=min(self.label_detail + 1, 4),
            rank_cut=self.rank_cut if self.rank_cut >= TYPED_CUT else self.rank_cut / 10,
        )


def kappa_rule(
    spacing: float, reach: float = REACH
) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
    """Trapezoid nodes and weights for N(0, 1); every other one is the rule of twice the spacing."""
    half = 2 * math.ceil(reach / spacing / 2)
    kappa = spacing * np.arange(-half, half + 1)
    weights = np.exp(-(kappa**2) / 2)
    return kappa, weights / weights.sum()


def gaussian_readout(scale: float, spacing: float, fold: bool) -> ReadoutRule:
    """at = scale sinh(t), trapezoid in t; ``fold`` keeps at >= 0 only."""
    count = 2 * math.ceil(np.arcsinh(8.0 / scale) / spacing / 2)
    t = spacing * np.arange(0 if fold else -count, count + 1)
    values = scale * np.sinh(t)
    weights = np.cosh(t) * np.exp(-(values**2) / 2)
    if fold:
        weights[0] /= 2
    return ReadoutRule(GAUSSIAN, values, weights / weights.sum())


def finite_readout(readout: ReadoutLaw, is_odd: bool) -> ReadoutRule:
    """The values of a finite law; for an odd student at and -at are one neuron up to a sign."""
    weights: dict[float, float] = {}
    for value, weight in zip(readout.values, readout.weights, strict=True):
        size = abs(value) if is_odd else value
        weights[size] = weights.get(size, 0.0) + weight
    return ReadoutRule(FINITE, np.array(list(weights)), np.array(list(weights.values())))


def readout_rule(
    model: Model, readout: ReadoutLaw, resolution: Resolution, differ: bool
) -> ReadoutRule:
    """The readout's nodes; one value where all neurons are alike."""
    is_odd = model.constants.is_odd
    if model.is_typed:
        *_, masses = type_nodes()
        return ReadoutRule(FINITE, np.full(masses.size, abs(readout.values[0])), masses)
    if not differ:
        return ReadoutRule(ALIKE, np.array([1.0]), np.array([1.0]))
    if readout.is_gaussian:
        return gaussian_readout(resolution.readout_scale, resolution.readout_spacing, is_odd)
    return finite_readout(readout, is_odd)


# How fine -----------------------------------------------------------------------------------------


def choose(model: Model, readout: ReadoutLaw, numbers: Numbers) -> list[Resolution]:
    """The resolution of each problem of a batch.

    kappa: features vary over sqrt(c)/u and the target over rho/gamma, smoothed by the activation
    itself where it has no kink. Readout: everything is a function of at/scale with
    u(scale)^2 + c(scale) - 1 about 1. Labels: the poles of the resolvent lie no nearer than
    alpha0/(etat at sqrt(tau' + c2^2)).
    """
    residual, own = model.residual(numbers), model.own_output(numbers)
    step = StepConstants.of(
        model.constants, residual, numbers.alpha0, numbers.rate, own, medium=model.medium
    )
    extremes = np.array(readout.values or (-5.0, -2.0, -0.5, 0.5, 2.0, 5.0))[:, None]
    variances = np.maximum(step.variance(extremes, extremes**2), 0.0)
    broadest = np.sqrt(np.max(variances, axis=0))
    if readout.is_gaussian:
        broadest = np.maximum(broadest, np.sqrt(step.variance(8.0, 64.0)))
    misalignment = step.direction.misalignment if model.steps else np.ones_like(broadest)
    kappa = _kappa_spacing(model, step, extremes, variances)
    size = np.sqrt(step.by_square + step.spike**2) + 1e-300
    scale = 2.0 ** np.minimum(0, np.floor(-np.log2(size) + 1e-9))
    label_width = _label_width(model, readout, numbers)
    return [
        Resolution(
            kappa_spacing=float(kappa[i]),
            readout_scale=float(scale[i]),
            readout_spacing=READOUT_SPACING,
            label_width=float(label_width[i]),
            label_detail=1 if model.is_isotropic else 2,
            student=inner_rule(model.student, _bucket(broadest[i])),
            teacher=_teacher_rule(model, _bucket(misalignment[i])),
            rank_cut=TYPED_CUT if model.is_typed else RANK_CUT,
        )
        for i in range(kappa.size)
    ]


def _kappa_spacing(
    model: Model,
    step: StepConstants,
    readout: Float[Array, "P 1"],
    variances: Float[Array, "P batch"],
) -> Float[Array, " batch"]:
    """Half the narrowest width, rounded down to a power of sqrt 2."""
    smooth_student = _smoothing(model.student)
    spike = np.maximum(np.abs(step.spike) * np.abs(readout), 1e-300)
    narrowest = np.min(np.sqrt(variances + smooth_student) / spike, axis=0)
    if model.steps:
        narrowest = np.minimum(narrowest, _teacher_width(model, step.direction))
    spacing = np.maximum(np.minimum(SPACING, 0.5 * narrowest), FINEST)
    return SPACING * 2.0 ** (np.floor(2 * np.log2(spacing / SPACING) + 1e-9) / 2)


def _smoothing(function: Activation | BinaryLabels) -> float:
    """An activation without kinks smooths over about 0.6, whose square this is."""
    return 0.0 if function.kinks else 0.36


def _teacher_width(model: Model, direction: StepDirection) -> Float[Array, " batch"]:
    """Over which kappa the teacher varies: rho/gamma, of the narrowest term."""
    _, gamma, rho = direction
    teacher = model.target
    if not isinstance(teacher, TermSum):
        return np.sqrt(rho**2 + _smoothing(teacher)) / np.maximum(np.abs(gamma), 1e-300)
    scales = term_scales(teacher, gamma, rho)
    smooth = np.array([_smoothing(term) for term in teacher.terms])
    along = np.maximum(np.abs(gamma[:, None] * teacher.shares), 1e-300)
    return np.min(np.sqrt(scales**2 + smooth) / along, axis=1)


def term_scales(
    teacher: TermSum, gamma: Float[Array, " batch"], rho: Float[Array, " batch"]
) -> Float[Array, "batch m"]:
    """rho_b of the terms' own directions, rho_b^2 = 1 - (O_1b gamma)^2, without cancellation."""
    xp = library_of(rho).xp
    return xp.sqrt(rho[:, None] ** 2 + gamma[:, None] ** 2 * teacher.left)


def _label_width(model: Model, readout: ReadoutLaw, numbers: Numbers) -> Float[Array, " batch"]:
    """How near to zero the poles may come, rounded down to a power of 4."""
    if model.is_isotropic:
        return np.full_like(numbers.alpha0, 16.0)  # no poles at all
    largest = max((abs(v) for v in readout.values), default=2.0)
    steepness = math.sqrt(model.constants.tau + model.constants.c2**2) * largest
    width = numbers.alpha0 / np.maximum(numbers.rate * steepness, 1e-300)
    return 4.0 ** np.floor(np.log2(np.clip(width, 1e-8, 16.0)) / 2 + 1e-9)


def _bucket(scale: float) -> int:
    return max(0, math.ceil(2 * math.log2(max(scale, 1e-9)) - 1e-9))


def _teacher_rule(model: Model, bucket: int) -> InnerRule | TermRules:
    teacher = model.target
    if not isinstance(teacher, TermSum):
        return inner_rule(teacher, bucket)
    rules = tuple(inner_rule(term, 0) for term in teacher.terms)  # their scales are below 1
    return TermRules(rules, inner_rule(teacher.together, 0))


@lru_cache(maxsize=512)
def inner_rule(function: Activation | BinaryLabels | Together, bucket: int) -> InnerRule:
    """The rule of ``shifted_moments`` at which doubling its nodes moves nothing by more than 1e-11.

    For scales up to 2^(bucket/2). Over broad Gaussians a smooth function looks like one with
    kinks, so it is split around the origin as well.
    """
    scale = 2.0 ** (bucket / 2)
    shift = scale * np.linspace(-3, 3, 13) + 0.3
    around = (sign * 1.5 * 3.0**power for power in range(4) for sign in (-1, 1))
    broad = tuple(sorted({0.0, *function.kinks, *around}))
    plain = (function.kinks, _MOST_NODES)
    scales = np.full_like(shift, scale)
    for cuts, most in ((broad, 4000), plain) if scale > 4 else (plain,):
        nodes = 20
        coarse = shifted_moments(function.evaluate, shift, scales, cuts, nodes)
        while nodes < most:
            fine = shifted_moments(function.evaluate, shift, scales, cuts, 2 * nodes)
            size = max(float(np.sqrt(np.max(fine.mean**2 + fine.scatter))), 1e-300)
            pairs = zip(coarse, fine, (1.0, scale, 1 / size, scale**2), strict=True)
            if all(np.abs(a - b).max() * power <= 1e-11 * size for a, b, power in pairs):
                return InnerRule(nodes, cuts)
            nodes, coarse = 2 * nodes, fine
    need = f"the Gaussian moments of {function} need more than {_MOST_NODES} nodes"
    raise NotConverged(f"{need}: too steep, or a hidden kink")


# All nodes ----------------------------------------------------------------------------------------


def rules_for(model: Model, readout: ReadoutLaw, resolution: Resolution, numbers: Numbers) -> Rules:
    """The nodes and weights of problems that share a resolution (their noise may differ)."""
    count = numbers.alpha.size
    kappa, omega = kappa_rule(resolution.kappa_spacing, resolution.reach)
    kind, values, masses = readout_rule(model, readout, resolution, bool(np.any(numbers.rate)))
    mixtures = step_mixtures(model, numbers)
    amplitudes = None
    if model.several is None:
        labels, label_weights = label_arrays(model, resolution, numbers.step_noise, mixtures)
    else:
        labels, amplitudes = amplitude_arrays(model, resolution, numbers.step_noise)
        label_weights = first_weights(amplitudes)
    return Rules(
        kappa=kappa,
        omega=omega,
        kind=kind,
        readout=np.broadcast_to(values, (count, values.size)),
        masses=np.broadcast_to(masses, (count, masses.size)),
        labels=labels,
        label_weights=label_weights,
        student=resolution.student,
        teacher=resolution.teacher,
        amplitudes=amplitudes,
    )


def label_arrays(
    model: Model,
    resolution: Resolution,
    noise: Float[Array, " batch"],
    mixtures: list[Mixture] | None = None,
) -> tuple[Float[Array, "batch J"], Float[Array, "batch 3 J"]]:
    """The label rules of several noises, padded with weight zero to one length.

    ``mixtures`` of Gaussians, where one is not enough.

    Without a step the bulk knows nothing of labels, and a direction v that knows nothing of the
    teacher will do: one label with gamma = 0.
    """
    if not model.steps:
        alone = np.array([[1.0], [0.0], [1.0]])
        return np.ones((noise.size, 1)), np.broadcast_to(alone, (noise.size, 3, 1))
    width, detail = resolution.label_width, resolution.label_detail
    offset, binary = model.offset, model.labels
    if binary is not None:
        pairs = [binary.step_rule(model.step_loss, offset, float(s)) for s in noise]
    else:
        teacher = model.teacher
        assert not isinstance(teacher, TermSum)
        if mixtures is None:
            rules = [label_rule(teacher, offset, float(s), width, detail) for s in noise]
        else:
            rules = [mixed_label_rule(teacher, offset, m, width, detail) for m in mixtures]
        pairs = [(rule.nodes, rule.weights) for rule in rules]
    most = max(nodes.size for nodes, _ in pairs)
    labels, label_weights = np.zeros((noise.size, most)), np.zeros((noise.size, 3, most))
    for row, (nodes, weights) in enumerate(pairs):
        labels[row, : nodes.size] = nodes
        label_weights[row, :, : nodes.size] = weights
    return labels, label_weights


def amplitude_arrays(
    model: Model, resolution: Resolution, noise: Float[Array, " batch"]
) -> tuple[Float[Array, "batch J"], Float[Array, "batch m1 J"]]:
    """Labels and amplitudes of a teacher of several directions, padded in the same way.

    Without a step, labels that know nothing of the teacher.
    """
    teacher = model.several
    assert teacher is not None
    rules = [still_rule(teacher.count, 1.0)] * noise.size
    if model.steps:
        width, detail = resolution.label_width, resolution.label_detail
        rules = [term_label_rule(teacher, model.offset, float(s), width, detail) for s in noise]
    most = max(rule.nodes.size for rule in rules)
    labels = np.zeros((noise.size, most))
    amplitudes = np.zeros((noise.size, 1 + teacher.count, most))
    for row, rule in enumerate(rules):
        labels[row, : rule.nodes.size] = rule.nodes
        amplitudes[row, :, : rule.nodes.size] = rule.amplitudes
    return labels, amplitudes


def first_weights(amplitudes: Float[Array, "batch m1 J"]) -> Float[Array, "batch 3 J"]:
    """w^0, w^1 and w^2 of the first direction."""
    xp, one, first = library_of(amplitudes).xp, amplitudes[:, 0], amplitudes[:, 1]
    return xp.stack([one * one, one * first, first * first], 1)
