"""The small step at d = infinity: risks with and without it.

[Ba] is arXiv 2205.01445. Letters as in ``Problem``; c0, c1, c2 are the Hermite coefficients of the
student s, mu2^2 = E s^2 - c0^2 - c1^2, c1s = E s' almost everywhere (c1 unless s jumps), stars mark
the teacher, at is the readout. Nothing here depends on ``problem.init``, and on
``problem.dimension`` only the eigenvalues of inputs N(0, Omega), whose averages <.> and <.>_t are
those of ``random_features``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import scipy  # whose parts load when they are used: interpolate and optimize take long

from firststep.errors import InvalidParameter
from firststep.problem import Problem
from firststep.structure import Structure, structure_of, without_structure
from firststep.theory.closed_forms.random_features import (
    Features,
    Fit,
    features_of,
    fit_of,
    single_ridge,
)
from firststep.theory.step import Residual, gradient_square, refuse_other_losses, residual_of
from firststep.theory.teacher import teacher_of

_FAR = 100.0  # |log t| beyond which nothing is left to learn


@dataclass(frozen=True)
class SmallStep:
    """Risks at d = infinity without a step and with one of size eta = step = O(1), and why."""

    problem: Problem
    random_features_risk: float  # R0
    risk: float  # R1 = R0 - delta
    gain: float  # delta
    residual_ratio: float  # S in (0, 1]: training residual over the residual on a new sample
    variance_share: float  # Gamma in [0, 1): both risks carry a factor 1/(1 - Gamma)
    effective_ridge: float  # rho = (ridge + mu2^2 S)/(c1^2 S)
    resolvent: float  # m = (1/d) Tr (W0 W0^T + rho)^-1, W0 of d rows (Omega^(1/2) W0 with Omega)


@dataclass(frozen=True)
class _Constants:
    """The numbers of a problem that the small step depends on."""

    beta: float
    linear: float  # c1^2
    nonlinear: float  # mu2^2
    quadratic: float  # c2^2 <varpi^2>/2, or infinity where c0 != 0
    teacher_linear: float  # c1*^2
    teacher_nonlinear: float  # mu2*^2
    noise: float  # variance of the label noise
    step: float  # (eta c1s)^2
    readout_mean: float  # (E at)^2
    readout_variance: float  # Var at
    gradient: float  # |v|^2 = c1*^2 + E[yhat^2]/alpha0; 0 without a step


def small_step(problem: Problem) -> SmallStep:
    """R0, R1 and delta = R0 - R1 of [Ba] Thm 5, for one ridge > 0 and step_exponent = 0.

    S in (0, 1) is the root of alpha (1 - S) = beta [1 - ridge/(D (1 + m))] with D = ridge + mu2^2
    S, rho = D/(c1^2 S) and m > 0 the root of rho m^2 + (rho + beta - 1) m - 1 = 0. With g = rho m,
    so that m' = dm/drho = -m^2 (1 + m)/(1 + m g), and r(S) = alpha (1 - S) seen as the right-hand
    side above,

        1 - Gamma = S (1 + r'(S)/alpha)
        r' = beta ridge/(D^2 (1 + m)) [mu2^2 + ridge c1^2 g^2/(D (1 + m g))]
        R0 (1 - Gamma) = mu2*^2 + noise^2 Gamma
                         + c1*^2 [mu2^2 S g/D + (ridge/D) g^2 (1 + m)/(1 + m g)]
        delta = c1*^4/(1 - Gamma) d/dS { S g Z/(1 + |v|^2 Z) }
        Z = (eta c1s)^2 { Var(at) m/(1 + m) + (E at)^2 w m/(1 + w m) }
        |v|^2 = c1*^2 + E[(y - E[at] c0)^2]/alpha0

    w is what is left of the direction (1, ..., 1) of the readout. If c0 != 0 the fit spends that
    direction on a free constant: w = 0, and a mean of the teacher costs nothing. If c0 = 0, all
    features still share the fluctuation of |x|^2, as noise of variance c2^2/(2d) along that
    direction: w = D/(D + beta S c2^2/2). Where E at = 0 (all of [Ba]), c0 != 0 or c2 = 0, delta >=
    0; else the step may harm. A teacher with a mean and a student without one is refused. Of a
    teacher of several directions c1*^2 = sum_b c1*_b^2 and mu2*^2 = E y^2 - (E y)^2 - c1*^2.

    Inputs N(0, Omega): S, x, D, zeta and Gamma are those of ``random_features``, and the gradient
    v = c1* Omega theta + noise of covariance E[yhat^2] Omega/(alpha0 d). With q, p its elements in
    the resolvent (1 + x Omega)^-1 (of Omega^(1/2) v with Omega^(1/2) theta over c1*, and with
    itself), and k the trace of the fit over N,

        q = <varpi/(1 + x varpi)>_t,   k = <x varpi/(1 + x varpi)>/beta
        p = c1*^2 <varpi^2/(1 + x varpi)>_t + E[yhat^2] <varpi^2/(1 + x varpi)>/alpha0
        delta = c1*^4/(1 - Gamma) d/dS {S q^2 Z/(1 + p Z)}
        Z = (eta c1s)^2 (x/beta) {Var(at) + (E at)^2 w/(1 - k (1 - w))}

    with c2^2 <varpi^2>/2 for c2^2/2 in w, and d log x/d log S = 1 - zeta. Omega = 1 gives the
    formulas above, where q = g, p = |v|^2 g, k = m/(1 + m) and x = m beta/(g (1 + m)).
    """
    return _solved(problem, problem.alpha)


def small_step_limit_alpha(problem: Problem) -> SmallStep:
    """``small_step`` for alpha -> infinity with alpha0 as it is: S = 1, Gamma = 0."""
    return _solved(problem, math.inf)


def _solved(problem: Problem, alpha: float) -> SmallStep:
    structure, it, ridge = structure_of(problem), _constants(problem), single_ridge(problem)
    if structure is not None:
        return _in_medium(problem, it, structure, alpha, ridge)
    S = _residual_ratio(it, ridge, alpha) if alpha < math.inf else 1.0
    return _assemble(problem, it, ridge, alpha, S)


def small_step_limit_beta(problem: Problem) -> float:
    """lim beta * delta for beta -> infinity, whatever the ridge (> 0) and |v|; delta vanishes.

    beta S/ridge -> t, the positive root of alpha = mu2^2 t + x with x = c1^2 t/(1 + c1^2 t) = beta
    m and g = 1 - x; then 1 - Gamma = (mu2^2 t + x g)/alpha, w = 1/(1 + t c2^2/2), or 0 if c0 != 0,
    and

        beta delta = c1*^4 (eta c1s)^2 x g [2 g Var(at) + w (2 g - 1 + w) (E at)^2]/(1 - Gamma).

    Inputs N(0, Omega), with c2^2 <varpi^2>/2 for c2^2/2 in w: t is the root of
    alpha = mu2^2 t + <x varpi/(1 + x varpi)> with x = c1^2 t, and, with q = <varpi/(1 + x varpi)>_t
    and q' = x <varpi^2/(1 + x varpi)^2>_t,

        1 - Gamma = (mu2^2 t + <x varpi/(1 + x varpi)^2>)/alpha
        beta delta = c1*^4 (eta c1s)^2 x q [2 (q - q') (Var(at) + w (E at)^2)
                                            - q w (1 - w) (E at)^2]/(1 - Gamma).
    """
    it, structure = _constants(problem), structure_of(problem)
    single_ridge(problem)
    if structure is not None:
        return _limit_beta_in_medium(it, structure, problem.alpha)
    a, b = it.nonlinear * it.linear, it.nonlinear + it.linear * (1 - problem.alpha)
    root = math.sqrt(b * b + 4 * a * problem.alpha)
    if it.linear == 0 or b + root == 0 or (b < 0 and a == 0):
        # Nothing linear to learn with, or a linear student, for which S does not vanish and delta
        # does faster.
        return 0.0
    t = 2 * problem.alpha / (b + root) if b >= 0 else (root - b) / (2 * a)
    x, g = it.linear * t / (1 + it.linear * t), 1 / (1 + it.linear * t)
    w = 1 / (1 + it.quadratic * t)
    readout = 2 * g * it.readout_variance + w * (2 * g - 1 + w) * it.readout_mean
    kept = (it.nonlinear * t + x * g) / problem.alpha  # 1 - Gamma
    return it.teacher_linear**2 * it.step * x * g * readout / kept


def _constants(problem: Problem) -> _Constants:
    plain, structure = without_structure(problem), structure_of(problem)
    rate, teacher, mean = small_rate(plain), teacher_of(problem).moments, problem.readout.mean
    features, width = features_of(problem), 1.0
    if structure is not None:
        width = float(structure.masses @ structure.eigenvalues**2)
    return _Constants(
        beta=problem.beta,
        linear=features.linear,
        nonlinear=features.nonlinear,
        quadratic=features.quadratic * width,
        teacher_linear=teacher.linear**2,
        teacher_nonlinear=teacher.nonlinear_variance,
        noise=problem.noise**2,
        step=(rate * problem.student.slope_moments.mean) ** 2,
        readout_mean=mean**2,
        readout_variance=max(problem.readout.second_moment - mean**2, 0.0),
        gradient=gradient_norm_square(plain),
    )


def small_rate(problem: Problem) -> float:
    """eta, which must not grow with the width; 0 if no step is taken."""
    refuse_other_losses(problem, terms=True)
    if problem.moves_weights and problem.step_exponent != 0:
        hint = "the closed forms are those of eta = step, whatever the width"
        raise InvalidParameter("step-exponent", "0, or step 0", problem.step_exponent, hint)
    return problem.step if problem.moves_weights else 0.0


def gradient_norm_square(problem: Problem) -> float:
    """|v|^2 = c1*^2 + E[yhat^2]/alpha0, yhat = y - E[at] c0; 0 if no samples are used."""
    if problem.alpha0 == 0:
        return 0.0
    return float(gradient_square(_residual(problem), problem.alpha0))


def _residual(problem: Problem) -> Residual:
    output = problem.readout.mean * problem.student.moments.mean
    return residual_of(teacher_of(problem), output, problem.noise)


def _resolvent(it: _Constants, ridge: float, S: float) -> tuple[float, float, float]:
    """D, m and g = rho m from D m^2 + b m - k = 0, k = c1^2 S, b = D + k (beta - 1)."""
    D, k = ridge + it.nonlinear * S, it.linear * S
    b = D + k * (it.beta - 1)
    root = math.hypot(b, 2 * math.sqrt(D) * math.sqrt(k))
    if b >= 0:
        return D, 2 * k / (b + root), 2 * D / (b + root)
    return D, (root - b) / (2 * D), (root - b) / (2 * k)


def _rise(it: _Constants, ridge: float, D: float, m: float, g: float) -> float:
    """r'(S) of ``small_step``."""
    share = it.nonlinear + (ridge / D) * it.linear * g * g / (1 + m * g)
    return it.beta * (ridge / D) / (D * (1 + m)) * share


def _residual_ratio(it: _Constants, ridge: float, alpha: float) -> float:
    """S, the root of S (alpha + r(S)/S) = alpha, whose left side grows with S.

    r(S)/S = beta (mu2^2 + c1^2 g)/(D (1 + m)) falls.
    """

    def total(S: float) -> float:
        D, m, g = _resolvent(it, ridge, S)
        return alpha + it.beta * (it.nonlinear + it.linear * g) / (D * (1 + m))

    def gap(log_S: float) -> float:
        return math.log(alpha / total(math.exp(log_S))) - log_S

    lowest = -math.log1p(it.beta * (it.nonlinear + it.linear) / (alpha * ridge))
    S = math.exp(scipy.optimize.brentq(gap, lowest - 1e-6, 1e-6, xtol=1e-13))
    for _ in range(2):
        S -= (S * total(S) - alpha) / (alpha + _rise(it, ridge, *_resolvent(it, ridge, S)))
    return min(S, 1.0)


def _assemble(problem: Problem, it: _Constants, ridge: float, alpha: float, S: float) -> SmallStep:
    D, m, g = _resolvent(it, ridge, S)
    nonlinear_part = it.nonlinear * S / D  # 1 - ridge/D
    kept = S * (1 + _rise(it, ridge, D, m, g) / alpha) if alpha < math.inf else 1.0  # 1 - Gamma
    # Gamma with every term positive.
    rest = m * g + it.beta * m / (1 + m) + g * nonlinear_part * (1 + ridge / D)
    share = it.nonlinear * nonlinear_part + it.linear * g * rest / (1 + m * g)
    Gamma = it.beta * S / (alpha * D * (1 + m)) * share
    unlearned = nonlinear_part * g + (ridge / D) * g * g * (1 + m) / (1 + m * g)
    before = (it.teacher_nonlinear + it.noise * Gamma + it.teacher_linear * unlearned) / kept

    growth = (ridge / D) * g * (1 + m) / (S * (1 + m * g))  # d log m/dS
    w, w_growth = 0.0, 0.0  # w and d log w/dS
    if it.quadratic < math.inf:
        q = it.beta * it.quadratic
        w, w_growth = D / (D + q * S), -(ridge / D) * q / (D + q * S)
    Z = it.step * (it.readout_variance * m / (1 + m) + it.readout_mean * w * m / (1 + w * m))
    dZ = it.step * m * it.readout_variance * growth / (1 + m) ** 2
    dZ += it.step * m * it.readout_mean * w * (growth + w_growth) / (1 + w * m) ** 2
    saturation = 1 + it.gradient * Z
    slope = S * g * (Z * (it.nonlinear / D + growth) + dZ / saturation) / saturation
    gain = it.teacher_linear**2 * slope / kept
    rho = D / (it.linear * S) if it.linear > 0 else math.inf
    return SmallStep(
        problem=problem,
        random_features_risk=before,
        risk=before - gain,
        gain=gain,
        residual_ratio=S,
        variance_share=Gamma,
        effective_ridge=rho,
        resolvent=m,
    )


def _in_medium(
    problem: Problem, it: _Constants, structure: Structure, alpha: float, ridge: float
) -> SmallStep:
    """The last part of ``small_step``."""
    features = Features(it.linear, it.nonlinear, it.quadratic)
    fit = fit_of(features, structure, alpha, it.beta, ridge)
    S, Gamma = fit.residual_ratio, fit.variance_share
    unlearned = it.teacher_linear * fit.unlearned(structure)
    before = (it.teacher_nonlinear + it.noise * Gamma + unlearned) / fit.share_kept
    noise = float(_residual(problem).second) / problem.alpha0 if problem.alpha0 > 0 else 0.0
    gain = it.teacher_linear**2 * _slope_in_medium(it, structure, fit, noise) / fit.share_kept
    rho = fit.noise / (it.linear * S) if it.linear > 0 else math.inf
    left = float(structure.masses @ (1 / (1 + fit.strength * structure.eigenvalues)))
    return SmallStep(
        problem=problem,
        random_features_risk=before,
        risk=before - gain,
        gain=gain,
        residual_ratio=S,
        variance_share=Gamma,
        effective_ridge=rho,
        resolvent=left / rho,
    )


def _slope_in_medium(it: _Constants, structure: Structure, fit: Fit, noise: float) -> float:
    """d/dS {S q^2 Z/(1 + p Z)}; ``noise`` is E[yhat^2]/alpha0."""
    if it.step == 0 or it.linear == 0:
        return 0.0
    values, x, growth = structure.eigenvalues, fit.strength, fit.growth
    left = 1 / (1 + x * values)
    along = it.teacher_linear * structure.shares + noise * structure.masses
    q = float(structure.shares @ (values * left))
    p = float(along @ (values**2 * left))
    k = fit.filled / it.beta
    # d/d log S of each
    dq = -growth * x * float(structure.shares @ (values * left) ** 2)
    dp = -growth * x * float(along @ (values**3 * left**2))
    dk = growth * x * float(structure.masses @ (values * left**2)) / it.beta
    w, dw = 0.0, 0.0
    if it.quadratic < math.inf:
        crowd = it.beta * it.quadratic * fit.residual_ratio
        w = fit.noise / (fit.noise + crowd)
        dw = -w * (1 - w) * (1 - it.nonlinear * fit.residual_ratio / fit.noise)
    kept = 1 - k * (1 - w)
    parts = it.readout_variance + it.readout_mean * w / kept
    dparts = it.readout_mean * (dw / kept + w * (dk * (1 - w) - k * dw) / kept**2)
    Z = it.step * x / it.beta * parts
    dZ = growth * Z + it.step * x / it.beta * dparts
    saturation = 1 + p * Z
    rise = q * q * Z + 2 * q * dq * Z + q * q * (dZ - dp * Z * Z) / saturation
    return rise / saturation


def _limit_beta_in_medium(it: _Constants, structure: Structure, alpha: float) -> float:
    """The last part of ``small_step_limit_beta``."""
    values, masses = structure.eigenvalues, structure.masses

    def excess(log_t: float) -> float:
        t = math.exp(log_t)
        x = it.linear * t
        return it.nonlinear * t + float(masses @ (x * values / (1 + x * values))) - alpha

    low, high = -_FAR, _FAR
    if it.linear == 0 or excess(high) <= 0:  # as without Omega: delta vanishes faster, or is zero
        return 0.0
    t = math.exp(scipy.optimize.brentq(excess, low, high, xtol=1e-14))
    x = it.linear * t
    left, w = 1 / (1 + x * values), 1 / (1 + it.quadratic * t)
    q = float(structure.shares @ (values * left))
    q_slope = x * float(structure.shares @ (values * left) ** 2)
    kept = (it.nonlinear * t + x * float(masses @ (values * left**2))) / alpha  # 1 - Gamma
    readout = 2 * (q - q_slope) * (it.readout_variance + w * it.readout_mean)
    readout -= q * w * (1 - w) * it.readout_mean
    return it.teacher_linear**2 * it.step * x * q * readout / kept
