"""The noise of the step's labels where it is no Gaussian: as a mixture, and with which tails.

Of t:NU the moments E |eps|^p with p >= NU are infinite. The direction of the step has the second
moment of its labels alone, but neurons differ in their norms by the fourth, and by the sixth where
those share a part linear in X[yhat^3]. At d = infinity these must exist. At finite d those of the
n0 labels of a step are meant: Gaussians of the mixture that are rarer than 1/n0 are replaced by one
of the same variance.
"""

from __future__ import annotations

import math

import numpy as np

from firststep.errors import InvalidParameter
from firststep.problem import Problem
from firststep.theory.one_step.labels import Mixture
from firststep.theory.one_step.question import Model, Numbers, model_of

LOST = 1e-4  # of a moment of the labels: less than the n0 labels of a step know of it
MARGIN = 1.0  # of the degrees of freedom of a t, above the highest moment that is used
HEAVIEST = 3.0  # degrees of freedom: below, the second moment of n0 labels is far from its mean


def has_moments(model: Model) -> bool:
    """Whether the noise has all that the equations use, and not barely."""
    power = model.highest_moment
    return power == 2 or model.noise_law.freedom >= power + MARGIN


def check_noise(problem: Problem, bulk: str) -> None:
    """Refuse a step on labels that differ too widely.

    At d = infinity it needs all moments that its equations use. At finite d those of n0 labels are
    meant, but their second must be near its mean.
    """
    law, model = problem.noise_law, model_of(problem, bulk, True)
    if has_moments(model):
        return
    if problem.dimension == math.inf:
        least, needed = model.highest_moment + MARGIN, model.highest_moment
        why = f"a large step needs {needed} moments of its labels; a finite dimension does not"
        raise InvalidParameter(
            "noise-law", f"t:NU with NU >= {least:g} at d = infinity", str(law), why
        )
    if law.freedom < HEAVIEST:
        why = "few labels outweigh all others in the step; simulate(...) has it"
        raise InvalidParameter(
            "noise-law", f"t:NU with NU >= {HEAVIEST:g} for a step", str(law), why
        )


def step_mixtures(model: Model, numbers: Numbers) -> list[Mixture] | None:
    """The noise of the step's labels as Gaussians, to each of which the own output adds; None where
    one is enough.
    """
    law = model.noise_law
    if model.labels is not None or law.is_gaussian or not model.steps:
        return None
    own = np.maximum(numbers.step_noise**2 - numbers.noise**2, 0.0)
    square = numbers.noise**2 / (law.second_moment or 1.0)
    samples = numbers.alpha0 * (math.inf if numbers.dimension is None else numbers.dimension)
    return [
        tuple(
            (weight, math.sqrt(a * scale**2 + b))
            for weight, scale in law.gaussians(_rarest(model, n0))
        )
        for a, b, n0 in zip(map(float, square), map(float, own), map(float, samples), strict=True)
    ]


def _rarest(model: Model, samples: float) -> float | None:
    """The least weight of a Gaussian of a t in the step, by which lighter ones are replaced.

    What they add to the highest moment is lost, at most 1e-4 of it; where there is no such moment
    they are not among the n0 labels, up to a power of ten, so that rules are shared.
    """
    freedom, power = model.noise_law.freedom, model.highest_moment
    if math.isinf(freedom) or power == 2:  # the variance is kept in any case
        return None
    if has_moments(model):
        return float(LOST ** (freedom / (freedom - power)))
    return float(10.0 ** -math.ceil(math.log10(max(samples, 10.0))))
