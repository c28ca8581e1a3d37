"""What the equations of a given layer are known to miss: rough estimates, to warn by."""

from __future__ import annotations

import math

import numpy as np

from firststep.activations import Activation
from firststep.problem import Problem
from firststep.theory.binary import BinaryLabels

# Largest (c2/c0)^2 of the estimate: a constant fitted by features of mean zero lost 12/(2d) of
# itself.
LARGEST_RATIO = 12.0


def heaviness(student: Activation) -> float:
    """E s^4/(E s^2)^2: the norm of N features fluctuates by this over N, and so do their samples.

    A rough rule is enough for a rough limit, and has an answer for whatever grows too fast.
    """
    z = np.linspace(-12, 12, 24001)
    weight = np.exp(-z * z / 2)
    with np.errstate(all="ignore"):
        squares = np.asarray(student.evaluate(z), float) ** 2
        found = (weight @ squares**2) * weight.sum() / (weight @ squares) ** 2
    return float(found) if math.isfinite(found) else math.inf


def common_mode(problem: Problem, dimension: float) -> float:
    """About how much the risk lacks without the shared fluctuation of |x|^2.

    Features move together by (c2/2)(|x|^2/d - 1), and those that fit the constant E s* with their
    means c0 move the prediction by E s* (c2/2c0)(|x|^2/d - 1): E[s*]^2 (c2/c0)^2/(2d) of the risk.
    Of binary labels s* is their mean; a free constant needs no features.
    """
    student, constant, second = problem.student.moments, *_constant(problem)
    bent = student.quadratic**2
    small = 1e-16 * student.second_moment  # of squares: rounding
    if problem.intercept or bent <= small or constant**2 <= 1e-16 * second:
        return 0.0
    ratio = min(bent / max(student.mean**2, small), LARGEST_RATIO)
    return float(constant**2 * ratio / (2 * dimension))


def _constant(problem: Problem) -> tuple[float, float]:
    """E y and about E y^2 of what is learned."""
    if not problem.labels.is_binary:
        return problem.teacher.moments.mean, problem.teacher.moments.second_moment
    plus, minus = BinaryLabels.of(problem).moments[0]
    return float(plus - minus), 1.0
