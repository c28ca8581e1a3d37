"""The 0-1 errors that no classifier can beat, at every point of a prediction."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from firststep.problem import Problem
from firststep.theory.binary import BinaryLabels

if TYPE_CHECKING:
    from firststep.typing import Array, Float

LeastError = Callable[[Problem, float], float]  # of a problem and gamma


def bayes_error(problem: Problem, alignment: float) -> float:
    """Of whoever knows the teacher; whatever the step does."""
    return problem.bayes_error_rate


def direction_error(problem: Problem, alignment: float) -> float:
    """Of whoever knows of an input only kappa = x . v/|v|; nan without a step."""
    if not problem.labels.is_binary or alignment == 0:
        return math.nan
    rho = math.sqrt(max(1 - alignment**2, 0.0))
    return BinaryLabels.of(problem).direction_error(alignment, rho)


def least_errors(
    error: LeastError,
    problem: Problem,
    noises: Float[Array, " points"],
    alignments: Float[Array, " points"],
) -> Float[Array, " points"]:
    """One of them at every point; equal ones are computed once."""
    unique, places = np.unique(np.stack([noises, alignments]), axis=1, return_inverse=True)
    found = [error(problem.replace(noise=float(n)), float(g)) for n, g in unique.T]
    return np.array(found)[places.ravel()]
