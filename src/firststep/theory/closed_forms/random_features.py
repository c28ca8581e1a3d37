"""Random features, that is no step, on inputs N(0, Omega): risk and training error.

Letters as in ``Problem``; c0, c1 are Hermite coefficients of the student s,
mu2^2 = E s^2 - c0^2 - c1^2, stars mark the teacher. Omega has eigenvalues varpi_j of mean one, the
teacher the components theta_j with theta^T Omega theta = 1, and

    <f> = (1/d) sum_j f(varpi_j),   <f>_t = sum_j t_j f(varpi_j),   t_j = varpi_j theta_j^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy  # whose parts load when they are used: optimize takes long

from firststep.errors import InvalidParameter
from firststep.problem import Problem
from firststep.structure import Structure
from firststep.theory.step import spectrum_alone
from firststep.theory.student import NO_MEAN

_ROUNDING = 1e-13  # of the root mean square: a smaller linear coefficient counts as zero
_ISOTROPIC = Structure(np.ones(1), np.ones(1), np.ones(1))


@dataclass(frozen=True)
class RandomFeaturesFit:
    """The ridge fit of a network without a step: its risk, and what it is made of."""

    problem: Problem
    risk: float  # R0
    training_error: float  # S^2 (R0 + noise^2)
    residual_ratio: float  # S in (0, 1]: training residual over the residual on a new sample
    variance_share: float  # Gamma in [0, 1): the risk carries a factor 1/(1 - Gamma)
    response: float  # Theta
    steepness: float  # varpi_max^2/d, 0 at d = infinity: the theory is for small ones

    @property
    def degrees_of_freedom(self) -> float:
        """Trace of the hat matrix over n, 1 - S."""
        return 1 - self.residual_ratio


def random_features(problem: Problem) -> RandomFeaturesFit:
    """Risk and training error without a step, whatever ``problem.step`` is, for one ridge > 0.

    With M = c1^2 S, D = ridge + mu2^2 S and x = Theta M, S in (0, 1) and Theta > 0 solve

        beta = Theta D + <x varpi/(1 + x varpi)>,   alpha (1 - S) = beta - ridge Theta.

    With A2 = <varpi/(1 + x varpi)^2>, zeta = (mu2^2 S + M A2)/(D + M A2),

        1 - Gamma = S + ridge Theta zeta/alpha
        R0 (1 - Gamma) = mu2*^2 + noise^2 Gamma
            + c1*^2 [<1/(1 + x varpi)^2>_t + zeta <x varpi/(1 + x varpi)^2>_t]

    and the mean square residual of the fit is S^2 (R0 + noise^2). At finite d the averages are over
    the d eigenvalues and nothing else is of that size; d = infinity needs a bounded spectrum.
    Omega = 1 gives R0 of ``small_step``. The features are those of Gaussian equivalence: where a
    few eigenvalues dominate, so that ``steepness`` is beyond 0.05, networks learn more of the
    leading components than their linear part, and the risk here may be some percent too high.
    Where c0 != 0 a mean of the teacher costs nothing; a teacher with a mean and a student without
    one is refused.
    """
    structure, ridge = spectrum_alone(problem) or _ISOTROPIC, single_ridge(problem)
    features = features_of(problem)
    teacher, noise = problem.teacher.moments, problem.noise**2
    fit = fit_of(features, structure, problem.alpha, problem.beta, ridge)
    kept = teacher.linear**2 * fit.unlearned(structure)
    risk = (teacher.nonlinear_variance + noise * fit.variance_share + kept) / fit.share_kept
    largest = float(structure.eigenvalues[0])
    return RandomFeaturesFit(
        problem=problem,
        risk=risk,
        training_error=fit.residual_ratio**2 * (risk + noise),
        residual_ratio=fit.residual_ratio,
        variance_share=fit.variance_share,
        response=fit.response,
        steepness=largest**2 / problem.dimension,
    )


# At the door --------------------------------------------------------------------------------------


def single_ridge(problem: Problem) -> float:
    first, *others = problem.ridges
    if others:
        given = f"{len(problem.ridges)} values"
        raise InvalidParameter("ridge", "a single value", given, "call once for each")
    if first == 0:
        hint = "a small ridge such as 1e-8 comes close to none"
        raise InvalidParameter("ridge", "a number > 0", 0, hint)
    return first


class Features(NamedTuple):
    """What the fit knows of the student."""

    linear: float  # c1^2
    nonlinear: float  # mu2^2
    quadratic: float  # c2^2/2, or infinity where c0 != 0


def features_of(problem: Problem) -> Features:
    """The student's; refuses a teacher with a mean where the student has none."""
    student, teacher = problem.student.moments, problem.teacher.moments
    has_mean = abs(student.mean) > NO_MEAN * math.sqrt(student.second_moment)
    if not has_mean and abs(teacher.mean) > NO_MEAN * math.sqrt(teacher.second_moment):
        hint = f"take {teacher.mean:.12g} off the teacher, or add a constant to the student"
        allowed = "of Gaussian mean zero where the student's is zero"
        raise InvalidParameter("teacher", allowed, f"mean {teacher.mean:.6g}", hint)
    is_linear = abs(student.linear) > _ROUNDING * math.sqrt(student.second_moment)
    return Features(
        linear=student.linear**2 if is_linear else 0.0,
        nonlinear=student.nonlinear_variance,
        quadratic=math.inf if has_mean else student.quadratic**2 / 2,
    )


# The equations ------------------------------------------------------------------------------------


class Fit(NamedTuple):
    """The root, and the numbers that risks are made of."""

    residual_ratio: float  # S
    response: float  # Theta
    strength: float  # x
    filled: float  # <x varpi/(1 + x varpi)>, the share of directions that is learned
    noise: float  # D, ridge and nonlinear part of the features as noise
    growth: float  # d log x/d log S = ridge/(D + M A2)
    nonlinear_share: float  # zeta = 1 - growth, without its cancellation
    variance_share: float  # Gamma
    share_kept: float  # 1 - Gamma

    def unlearned(self, structure: Structure) -> float:
        """d/dS (S <1/(1 + x varpi)>_t)."""
        left = 1 / (1 + self.strength * structure.eigenvalues)
        learned = self.strength * structure.eigenvalues * left
        return float(structure.shares @ (left * (left + self.nonlinear_share * learned)))


def fit_of(
    features: Features, structure: Structure, alpha: float, beta: float, ridge: float
) -> Fit:
    """S and Theta from one equation in y = S Theta, J(y) = mu2^2 y + <x varpi/(1 + x varpi)> with
    x = c1^2 y: the two equations are

        ridge y = S (beta - J),   alpha (1 - S) = J.

    With u = min(alpha, beta) - J and gap = |alpha - beta| they give u (u + gap) = alpha ridge y, so
    that

        J(y) + u(y) = min(alpha, beta),   u = 2 alpha ridge y/(gap + sqrt(gap^2 + 4 alpha ridge y)),

    of which the left side grows with y, without any difference of large numbers; the smaller of
    alpha S and ridge Theta is u, the other is u + gap. (alpha = infinity: u = ridge y = ridge Theta
    and S = 1.) Gamma is a sum of positive terms,

        alpha Gamma = Theta (D + M A2) zeta^2 + <(x varpi/(1 + x varpi))^2>.
    """
    values, masses = structure.eigenvalues, structure.masses

    def used(y: float) -> tuple[float, float]:
        """J and u."""
        x = features.linear * y
        filled = float(masses @ (x * values / (1 + x * values)))
        return features.nonlinear * y + filled, _left_over(alpha, beta, ridge * y)

    y = _root(lambda y: sum(used(y)) - min(alpha, beta), beta / ridge)
    left, gap = used(y)[1], abs(alpha - beta)
    S = 1.0
    if alpha < math.inf:
        S = min((left if alpha <= beta else left + gap) / alpha, 1.0)
    return _numbers(features, structure, alpha, ridge, (S, y))


def _left_over(alpha: float, beta: float, ridged: float) -> float:
    """u, of alpha ridge y."""
    if alpha == math.inf:
        return ridged
    gap = abs(alpha - beta)
    return 2 * alpha * ridged / (gap + math.hypot(gap, 2 * math.sqrt(alpha * ridged)))


def _root(excess: Callable[[float], float], highest: float) -> float:
    """y: u = min(alpha, beta) at the highest, so that the excess there is J > 0."""
    high = math.log(highest)
    low = high - 1.0
    while excess(math.exp(low)) > 0:
        low -= high - low
    found = scipy.optimize.brentq(
        lambda log_y: excess(math.exp(log_y)), low, high, xtol=1e-15, rtol=1e-15
    )
    return math.exp(found)


def _numbers(
    features: Features, structure: Structure, alpha: float, ridge: float, root: tuple[float, float]
) -> Fit:
    S, y = root
    response, x = y / S, features.linear * y
    left = 1 / (1 + x * structure.eigenvalues)
    learned = x * structure.eigenvalues * left
    masses = structure.masses
    D = ridge + features.nonlinear * S
    spread = features.linear * S * float(masses @ (structure.eigenvalues * left**2))  # M A2
    share = (features.nonlinear * S + spread) / (D + spread)
    squares = response * (D + spread) * share**2 + float(masses @ learned**2)
    rest = ridge * response * share
    return Fit(
        residual_ratio=S,
        response=response,
        strength=x,
        filled=float(masses @ learned),
        noise=D,
        growth=ridge / (D + spread),
        nonlinear_share=share,
        variance_share=squares / alpha,
        share_kept=S + rest / alpha if alpha < math.inf else 1.0,
    )
