"""How finely to discretise a problem: chosen from the scales of its own functions, the same alone and in a batch."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from firststep.activations import Activation
from firststep.errors import NotConverged
from firststep.numerics.quadrature import shifted_moments
from firststep.readouts import ReadoutLaw
from firststep.theory.one_step.labels import label_rule
from firststep.theory.one_step.moments import (
    InnerRule,
    Model,
    Numbers,
    Rules,
    kappa_rule,
    readout_rule,
)
from firststep.theory.student import residual_moments

Array = NDArray[np.float64]

SPACING = 0.32  # of kappa where nothing is narrow
READOUT_SPACING = 0.17
RANK_CUT = 4e-5
_MOST_NODES = 10_000


class Resolution(NamedTuple):
    """Everything that fixes the quadrature nodes of one problem, in rounded numbers so that problems can share them."""

    kappa_spacing: float
    readout_scale: float
    readout_spacing: float
    label_width: float
    label_detail: int
    student: InnerRule
    teacher: InnerRule
    rank_cut: float  # of the basis of mu1; the risk feels its square

    def finer(self) -> Resolution:
        """Half the spacings, more label nodes."""
        return self._replace(
            kappa_spacing=self.kappa_spacing / 2,
            readout_spacing=self.readout_spacing / 2,
            label_width=self.label_width / 2,
            label_detail=min(self.label_detail + 1, 4),
            rank_cut=self.rank_cut / 10,
        )


def choose(model: Model, readout: ReadoutLaw, numbers: Numbers) -> list[Resolution]:
    """The resolution of each problem of a batch.

    kappa: features vary over sqrt(c)/u and the target over rho/gamma, smoothed by the activation itself where it has no kink.
    Readout: everything is a function of at/scale with u(scale)^2 + c(scale) - 1 about 1. Labels: the poles of the resolvent lie
    no nearer than alpha0/(etat at sqrt(tau' + c2^2)).
    """
    constants, student, teacher = model.constants, model.student, model.teacher
    moments = teacher.moments
    first, second = residual_moments(teacher, constants.mean * model.readout_mean, numbers.noise)
    norm = np.sqrt(moments.linear**2 + second / numbers.alpha0)
    gamma = np.abs(moments.linear) / norm if model.steps else np.zeros_like(norm)
    rho = np.sqrt(second / numbers.alpha0) / norm if model.steps else np.ones_like(norm)
    spike = numbers.rate * abs(constants.slope) * norm
    quadratic = numbers.rate**2 * constants.growth(first, second, numbers.alpha0)
    linear = 2 * numbers.rate * constants.linear * first

    def variance(at: Any) -> Any:
        return 1 + linear * at + quadratic * at**2

    extremes = [np.array([v]) for v in readout.values] or [
        np.array([v]) for v in (-5.0, -2.0, -0.5, 0.5, 2.0, 5.0)
    ]
    smooth_student = 0.0 if student.kinks else 0.36
    smooth_teacher = 0.0 if teacher.kinks else 0.36
    widths = [
        np.sqrt(np.maximum(variance(v), 0) + smooth_student) / np.maximum(spike * np.abs(v), 1e-300)
        for v in extremes
    ]
    widths.append(np.sqrt(rho**2 + smooth_teacher) / np.maximum(gamma, 1e-300))
    spacing = np.minimum(SPACING, 0.5 * np.min(widths, axis=0))
    kappa = SPACING * 2.0 ** (np.floor(2 * np.log2(np.maximum(spacing, 0.01) / SPACING) + 1e-9) / 2)
    scale = 2.0 ** np.minimum(0, np.floor(-np.log2(np.sqrt(quadratic + spike**2) + 1e-300) + 1e-9))
    steepness = math.sqrt(constants.rest + constants.linear**2) * max(
        (abs(v) for v in readout.values), default=2.0
    )
    width = numbers.alpha0 / np.maximum(numbers.rate * steepness, 1e-300)
    width = 4.0 ** np.floor(np.log2(np.clip(width, 1e-8, 16.0)) / 2 + 1e-9)
    if model.isotropic:
        width = np.full_like(width, 16.0)
    broadest = np.sqrt(np.max([np.maximum(variance(v), 0.0) for v in extremes], axis=0))
    if not readout.values:
        broadest = np.maximum(broadest, np.sqrt(variance(8.0)))
    return [
        Resolution(
            float(h),
            float(s),
            READOUT_SPACING,
            float(w),
            1 if model.isotropic else 2,
            inner_rule(student, _bucket(b)),
            inner_rule(teacher, _bucket(r)),
            RANK_CUT,
        )
        for h, s, w, b, r in zip(kappa, scale, width, broadest, rho, strict=True)
    ]


def _bucket(scale: float) -> int:
    return max(0, math.ceil(2 * math.log2(max(scale, 1e-9)) - 1e-9))


@lru_cache(maxsize=512)
def inner_rule(function: Activation, bucket: int) -> InnerRule:
    """The rule of ``shifted_moments`` at which doubling its nodes moves nothing by more than 1e-11, for scales up to 2^(bucket/2).

    Over broad Gaussians a smooth function looks like one with kinks, so it is split around the origin as well.
    """
    scale = 2.0 ** (bucket / 2)
    shift = scale * np.linspace(-3, 3, 13) + 0.3
    broad = tuple(
        sorted(
            {
                0.0,
                *function.kinks,
                *(sign * 1.5 * 3.0**power for power in range(4) for sign in (-1, 1)),
            }
        )
    )
    for cuts, most in (
        ((broad, 4000), (function.kinks, _MOST_NODES))
        if scale > 4
        else ((function.kinks, _MOST_NODES),)
    ):
        nodes = 20
        coarse = shifted_moments(function.evaluate, shift, np.full_like(shift, scale), cuts, nodes)
        while nodes < most:
            fine = shifted_moments(
                function.evaluate, shift, np.full_like(shift, scale), cuts, 2 * nodes
            )
            size = max(float(np.sqrt(np.max(fine.mean**2 + fine.rest))), 1e-300)
            powers = (1.0, scale, 1 / size, scale**2)
            if all(
                np.abs(a - b).max() * power <= 1e-11 * size
                for a, b, power in zip(coarse, fine, powers, strict=True)
            ):
                return InnerRule(nodes, cuts)
            nodes, coarse = 2 * nodes, fine
    raise NotConverged(
        f"the Gaussian moments of {function} need more than {_MOST_NODES} nodes: too steep, or a hidden kink"
    )


def rules_for(model: Model, readout: ReadoutLaw, resolution: Resolution, numbers: Numbers) -> Rules:
    """The nodes and weights of problems that share a resolution (their noise may differ)."""
    count = numbers.alpha.size
    kappa, omega = kappa_rule(resolution.kappa_spacing)
    values, masses = readout_nodes(model, readout, resolution, bool(np.any(numbers.rate)))
    labels, label_weights = label_arrays(model, resolution, numbers.noise)
    return Rules(
        kappa,
        omega,
        np.broadcast_to(values, (count, values.size)),
        np.broadcast_to(masses, (count, masses.size)),
        labels,
        label_weights,
        resolution.student,
        resolution.teacher,
    )


def label_arrays(model: Model, resolution: Resolution, noise: Array) -> tuple[Array, Array]:
    """The label rules of several noises, padded with weight zero to one length.

    Without a step the bulk knows nothing of labels, and a direction v that knows nothing of the teacher will do: one label with
    gamma = 0.
    """
    if not model.steps:
        return np.ones((noise.size, 1)), np.broadcast_to(
            np.array([[1.0], [0.0], [1.0]]), (noise.size, 3, 1)
        )
    offset = model.constants.mean * model.readout_mean
    found = [
        label_rule(model.teacher, offset, float(s), resolution.label_width, resolution.label_detail)
        for s in noise
    ]
    most = max(rule.nodes.size for rule in found)
    labels, label_weights = np.zeros((noise.size, most)), np.zeros((noise.size, 3, most))
    for row, rule in enumerate(found):
        labels[row, : rule.nodes.size], label_weights[row, :, : rule.nodes.size] = (
            rule.nodes,
            rule.weights,
        )
    return labels, label_weights


def readout_nodes(
    model: Model, readout: ReadoutLaw, resolution: Resolution, differ: bool
) -> tuple[Array, Array]:
    """Values and weights of the readout; one value where all neurons are alike."""
    if not differ:
        return np.array([1.0]), np.array([1.0])
    if readout.is_gaussian:
        return readout_rule(
            resolution.readout_scale, resolution.readout_spacing, model.constants.is_odd
        )
    return folded(readout, model.constants.is_odd)


def folded(readout: ReadoutLaw, is_odd: bool) -> tuple[Array, Array]:
    """Values and weights; for an odd student at and -at are the same neuron up to the sign of its readout."""
    if not is_odd:
        return np.array(readout.values), np.array(readout.weights)
    weights: dict[float, float] = {}
    for value, weight in zip(readout.values, readout.weights, strict=True):
        weights[abs(value)] = weights.get(abs(value), 0.0) + weight
    return np.array(list(weights)), np.array(list(weights.values()))
