"""The spectrum of the trained weights after a small step, and of a spiked matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass

from firststep.problem import Problem
from firststep.theory.closed_forms.small_step import gradient_norm_square, small_rate


@dataclass(frozen=True)
class WeightSpectrum:
    """Singular values of W1 = W0 + eta c1s v a^T (d x N), overlaps of top vectors; d = infinity."""

    problem: Problem
    strength: float  # theta = eta |c1s| |v| |a|, |a|^2 = E at^2
    threshold: float  # eta_c: the step above which a singular value leaves the bulk, or infinity
    bulk_low: float  # |sqrt(beta) - 1|
    bulk_high: float  # sqrt(beta) + 1
    top: float  # the outlier, or bulk_high
    gradient_overlap: float  # of the top left vector with v/|v|, squared
    readout_overlap: float  # of the top right vector with a/|a|, squared
    # Of the top left vector with the teacher's direction, squared; of several with the first.
    teacher_overlap: float

    @property
    def has_outlier(self) -> bool:
        return self.top > self.bulk_high


def weight_spectrum(problem: Problem) -> WeightSpectrum:
    """After a small step (step_exponent = 0): the rest of the gradient vanishes ([Ba] Prop. 2).

    theta = eta |c1s| |v| sqrt(E at^2). If theta^4 > beta, that is
    eta > eta_c = beta^(1/4)/(|c1s| |v| sqrt(E at^2)):

        top^2 = (1 + theta^2)(beta + theta^2)/theta^2
        gradient_overlap = (theta^4 - beta)/(theta^2 (theta^2 + 1))
        teacher_overlap = gradient_overlap * c1*^2/|v|^2
        readout_overlap = (theta^4 - beta)/(theta^2 (theta^2 + beta))

    Otherwise the top singular value is the edge of the bulk and the overlaps are 0. v and a are
    those of ``small_step``.
    """
    beta, gradient = problem.beta, gradient_norm_square(problem)
    readout = gradient * problem.readout.second_moment
    unit = abs(problem.student.slope_moments.mean) * math.sqrt(readout)
    theta = small_rate(problem) * unit
    square, bulk = theta * theta, isotropic_spectrum(beta, 1.0, theta)
    left = right = towards_teacher = 0.0
    if square > math.sqrt(beta):
        excess = 1 - beta / square / square
        left, right = excess / (1 + 1 / square), excess / (1 + beta / square)
        towards_teacher = left * problem.teacher.moments.linear**2 / gradient
    return WeightSpectrum(
        problem=problem,
        strength=math.sqrt(square),
        threshold=beta**0.25 / unit if unit > 0 else math.inf,
        bulk_low=bulk.low,
        bulk_high=bulk.high,
        top=bulk.top,
        gradient_overlap=left,
        readout_overlap=right,
        teacher_overlap=towards_teacher,
    )


@dataclass(frozen=True)
class IsotropicSpectrum:
    """Singular values of a d x N matrix with rows of variance c/d and a spike of norm theta."""

    low: float
    high: float
    top: float  # the outlier, or the edge

    @property
    def has_outlier(self) -> bool:
        return self.top > self.high


def isotropic_spectrum(beta: float, variance: float, theta: float) -> IsotropicSpectrum:
    """sqrt(c) |1 -+ sqrt(beta)|, and the outlier if theta^4 > beta c^2.

    top^2 = (c + theta^2)(beta c + theta^2)/theta^2.
    """
    scale = math.sqrt(variance)
    low, high = scale * abs(math.sqrt(beta) - 1), scale * (math.sqrt(beta) + 1)
    square, top = theta * theta, high
    if square > math.sqrt(beta) * variance:
        top = math.sqrt((1 + variance / square) * (beta * variance + square))
    return IsotropicSpectrum(low, high, top)
