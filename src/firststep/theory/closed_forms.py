"""What has a closed form: the small step at d = infinity, the spectrum of the trained weights, the bound of [Ba] for large steps.

[Ba] is arXiv 2205.01445. Letters as in ``Problem``; c0, c1, c2 are the Hermite coefficients of the student s,
mu2^2 = E s^2 - c0^2 - c1^2, c1s = E s' almost everywhere (c1 unless s jumps), stars mark the teacher, at is the readout.
Nothing here depends on ``problem.dimension`` or ``problem.init``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PPoly, make_interp_spline
from scipy.optimize import brentq, minimize_scalar

from firststep.activations import Activation, activation
from firststep.errors import InvalidParameter, NotConverged
from firststep.numerics.quadrature import legendre, shifted_moments
from firststep.problem import Problem, number
from firststep.theory.student import NO_MEAN

Array = NDArray[np.float64]

# Below this part of the root mean square a linear coefficient counts as zero.
_ROUNDING = 1e-13


# The small step -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SmallStep:
    """Risks at d = infinity without a step and with one of size eta = step = O(1), and the scalars they are made of."""

    problem: Problem
    random_features_risk: float  # R0
    risk: float  # R1 = R0 - delta
    gain: float  # delta
    residual_ratio: float  # S in (0, 1]: training residual over the residual on a new sample
    variance_share: float  # Gamma in [0, 1): both risks carry a factor 1/(1 - Gamma)
    effective_ridge: float  # rho = (ridge + mu2^2 S)/(c1^2 S)
    resolvent: float  # m = (1/d) Tr (W0 W0^T + rho)^-1


@dataclass(frozen=True)
class _Constants:
    """The numbers of a problem that the small step depends on."""

    beta: float
    linear: float  # c1^2
    nonlinear: float  # mu2^2
    quadratic: float  # c2^2/2, or infinity where c0 != 0
    teacher_linear: float  # c1*^2
    teacher_nonlinear: float  # mu2*^2
    noise: float  # variance of the label noise
    step: float  # (eta c1s)^2
    readout_mean: float  # (E at)^2
    readout_variance: float  # Var at
    gradient: float  # |v|^2 = c1*^2 + E[yhat^2]/alpha0; 0 without a step


def small_step(problem: Problem) -> SmallStep:
    """R0, R1 and delta = R0 - R1 of [Ba] Thm 5, for one ridge > 0 and step_exponent = 0.

    S in (0, 1) is the root of alpha (1 - S) = beta [1 - ridge/(D (1 + m))] with D = ridge + mu2^2 S, rho = D/(c1^2 S) and m > 0 the
    root of rho m^2 + (rho + beta - 1) m - 1 = 0. With g = rho m, so that m' = dm/drho = -m^2 (1 + m)/(1 + m g), and
    r(S) = alpha (1 - S) seen as the right-hand side above,

        1 - Gamma = S (1 + r'(S)/alpha),   r' = beta ridge/(D^2 (1 + m)) [mu2^2 + ridge c1^2 g^2/(D (1 + m g))]
        R0 = (mu2*^2 + noise^2 Gamma + c1*^2 [mu2^2 S g/D + (ridge/D) g^2 (1 + m)/(1 + m g)])/(1 - Gamma)
        delta = c1*^4/(1 - Gamma) d/dS { S g Z/(1 + |v|^2 Z) }
        Z = (eta c1s)^2 { Var(at) m/(1 + m) + (E at)^2 w m/(1 + w m) },   |v|^2 = c1*^2 + E[(y - E[at] c0)^2]/alpha0.

    w is what is left of the direction (1, ..., 1) of the readout. If c0 != 0 the fit spends that direction on a free constant:
    w = 0, and a mean of the teacher costs nothing. If c0 = 0, all features still share the fluctuation of |x|^2, as noise of
    variance c2^2/(2d) along that direction: w = D/(D + beta S c2^2/2). Where E at = 0 (all of [Ba]), c0 != 0 or c2 = 0, delta >= 0;
    else the step may harm. A teacher with a mean and a student without one is refused.
    """
    constants = _constants(problem)
    ridge = _positive_ridge(problem)
    return _assemble(
        problem, constants, ridge, problem.alpha, _residual_ratio(constants, ridge, problem.alpha)
    )


def small_step_limit_alpha(problem: Problem) -> SmallStep:
    """``small_step`` for alpha -> infinity with alpha0 as it is: S = 1, Gamma = 0."""
    return _assemble(problem, _constants(problem), _positive_ridge(problem), math.inf, 1.0)


def small_step_limit_beta(problem: Problem) -> float:
    """lim beta * delta for beta -> infinity; delta itself vanishes. It depends neither on the ridge (> 0) nor on |v|.

    beta S/ridge -> t, the positive root of alpha = mu2^2 t + x with x = c1^2 t/(1 + c1^2 t) = beta m and g = 1 - x; then
    1 - Gamma = (mu2^2 t + x g)/alpha, w = 1/(1 + t c2^2/2), or 0 if c0 != 0, and

        beta delta = c1*^4 (eta c1s)^2 x g [2 g Var(at) + w (2 g - 1 + w) (E at)^2]/(1 - Gamma).
    """
    it = _constants(problem)
    _positive_ridge(problem)
    a, b = it.nonlinear * it.linear, it.nonlinear + it.linear * (1 - problem.alpha)
    root = math.sqrt(b * b + 4 * a * problem.alpha)
    if it.linear == 0 or b + root == 0 or (b < 0 and a == 0):
        return 0.0  # nothing linear to learn with, or a linear student, for which S does not vanish and delta does faster
    t = 2 * problem.alpha / (b + root) if b >= 0 else (root - b) / (2 * a)
    x, g = it.linear * t / (1 + it.linear * t), 1 / (1 + it.linear * t)
    w = 1 / (1 + it.quadratic * t)
    readout = 2 * g * it.readout_variance + w * (2 * g - 1 + w) * it.readout_mean
    return (
        it.teacher_linear**2
        * it.step
        * x
        * g
        * readout
        * problem.alpha
        / (it.nonlinear * t + x * g)
    )


def _constants(problem: Problem) -> _Constants:
    student, teacher, mean = problem.student.moments, problem.teacher.moments, problem.readout.mean
    has_mean = abs(student.mean) > NO_MEAN * math.sqrt(student.second_moment)
    if not has_mean and abs(teacher.mean) > NO_MEAN * math.sqrt(teacher.second_moment):
        hint = f"take {teacher.mean:.12g} off the teacher, or add a constant to the student"
        raise InvalidParameter(
            "teacher",
            "of Gaussian mean zero where the student's is zero",
            f"mean {teacher.mean:.6g}",
            hint,
        )
    return _Constants(
        beta=problem.beta,
        linear=student.linear**2
        if abs(student.linear) > _ROUNDING * math.sqrt(student.second_moment)
        else 0.0,
        nonlinear=student.nonlinear_variance,
        quadratic=math.inf if has_mean else student.quadratic**2 / 2,
        teacher_linear=teacher.linear**2,
        teacher_nonlinear=teacher.nonlinear_variance,
        noise=problem.noise**2,
        step=(_small_rate(problem) * problem.student.slope_moments.mean) ** 2,
        readout_mean=mean**2,
        readout_variance=max(problem.readout.second_moment - mean**2, 0.0),
        gradient=_gradient_square(problem),
    )


def _small_rate(problem: Problem) -> float:
    """eta, which must not grow with the width; 0 if no step is taken."""
    if problem.takes_step and problem.step_exponent != 0:
        hint = "the closed forms are those of eta = step, whatever the width"
        raise InvalidParameter("step-exponent", "0, or step 0", problem.step_exponent, hint)
    return problem.step if problem.takes_step else 0.0


def _gradient_square(problem: Problem) -> float:
    """|v|^2 = c1*^2 + E[yhat^2]/alpha0, yhat = y - E[at] c0; 0 if no samples are used."""
    if problem.alpha0 == 0:
        return 0.0
    teacher, output = problem.teacher.moments, problem.readout.mean * problem.student.moments.mean
    centred = teacher.linear**2 + teacher.nonlinear_variance
    return (
        teacher.linear**2
        + (centred + (teacher.mean - output) ** 2 + problem.noise**2) / problem.alpha0
    )


def _positive_ridge(problem: Problem) -> float:
    if len(problem.ridges) > 1:
        raise InvalidParameter(
            "ridge", "a single value", f"{len(problem.ridges)} values", "call once for each"
        )
    if problem.ridges[0] == 0:
        raise InvalidParameter(
            "ridge", "a number > 0", 0, "a small ridge such as 1e-8 comes close to none"
        )
    return problem.ridges[0]


def _resolvent(it: _Constants, ridge: float, S: float) -> tuple[float, float, float]:
    """D, m and g = rho m from D m^2 + b m - k = 0, k = c1^2 S, b = D + k (beta - 1); nothing cancels, and c1 = 0 is allowed."""
    D, k = ridge + it.nonlinear * S, it.linear * S
    b = D + k * (it.beta - 1)
    root = math.hypot(b, 2 * math.sqrt(D) * math.sqrt(k))
    if b >= 0:
        return D, 2 * k / (b + root), 2 * D / (b + root)
    return D, (root - b) / (2 * D), (root - b) / (2 * k)


def _rise(it: _Constants, ridge: float, D: float, m: float, g: float) -> float:
    """r'(S) of ``small_step``."""
    return (
        it.beta
        * (ridge / D)
        / (D * (1 + m))
        * (it.nonlinear + (ridge / D) * it.linear * g * g / (1 + m * g))
    )


def _residual_ratio(it: _Constants, ridge: float, alpha: float) -> float:
    """S, the root of S (alpha + r(S)/S) = alpha; r(S)/S = beta (mu2^2 + c1^2 g)/(D (1 + m)) falls, the left side grows with S."""

    def total(S: float) -> float:
        D, m, g = _resolvent(it, ridge, S)
        return alpha + it.beta * (it.nonlinear + it.linear * g) / (D * (1 + m))

    lowest = -math.log1p(it.beta * (it.nonlinear + it.linear) / (alpha * ridge))
    log_root = brentq(
        lambda log_S: math.log(alpha / total(math.exp(log_S))) - log_S,
        lowest - 1e-6,
        1e-6,
        xtol=1e-13,
    )
    S = math.exp(log_root)
    for _ in range(2):
        S -= (S * total(S) - alpha) / (alpha + _rise(it, ridge, *_resolvent(it, ridge, S)))
    return min(S, 1.0)


def _assemble(problem: Problem, it: _Constants, ridge: float, alpha: float, S: float) -> SmallStep:
    D, m, g = _resolvent(it, ridge, S)
    nonlinear_part = it.nonlinear * S / D  # 1 - ridge/D
    kept = S * (1 + _rise(it, ridge, D, m, g) / alpha) if alpha < math.inf else 1.0  # 1 - Gamma
    rest = (
        m * g + it.beta * m / (1 + m) + g * nonlinear_part * (1 + ridge / D)
    )  # Gamma with every term positive
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
    return SmallStep(problem, before, before - gain, gain, S, Gamma, rho, m)


# The spectrum of the weights ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WeightSpectrum:
    """Singular values of W1 = W0 + eta c1s v a^T (d x N) and the squared overlaps of its top singular vectors, d = infinity."""

    problem: Problem
    strength: float  # theta = eta |c1s| |v| |a|, |a|^2 = E at^2
    threshold: (
        float  # eta_c: the step above which a singular value leaves the bulk; infinity if none does
    )
    bulk_low: float  # |sqrt(beta) - 1|
    bulk_high: float  # sqrt(beta) + 1
    top: float  # the outlier, or bulk_high
    gradient_overlap: float  # of the top left vector with v/|v|, squared
    readout_overlap: float  # of the top right vector with a/|a|, squared
    teacher_overlap: float  # of the top left vector with the teacher's direction, squared

    @property
    def has_outlier(self) -> bool:
        return self.top > self.bulk_high


def weight_spectrum(problem: Problem) -> WeightSpectrum:
    """The spectrum after a small step (step_exponent = 0); the rest of the gradient has vanishing operator norm ([Ba] Prop. 2).

    theta = eta |c1s| |v| sqrt(E at^2). If theta^4 > beta, that is eta > eta_c = beta^(1/4)/(|c1s| |v| sqrt(E at^2)):

        top^2 = (1 + theta^2)(beta + theta^2)/theta^2
        gradient_overlap = (theta^4 - beta)/(theta^2 (theta^2 + 1)),   teacher_overlap = gradient_overlap * c1*^2/|v|^2
        readout_overlap = (theta^4 - beta)/(theta^2 (theta^2 + beta)).

    Otherwise the top singular value is the edge of the bulk and the overlaps are 0. v and a are those of ``small_step``.
    """
    beta, gradient = problem.beta, _gradient_square(problem)
    unit = abs(problem.student.slope_moments.mean) * math.sqrt(
        gradient * problem.readout.second_moment
    )
    theta = _small_rate(problem) * unit
    square, bulk = theta * theta, isotropic_spectrum(beta, 1.0, theta)
    threshold = beta**0.25 / unit if unit > 0 else math.inf
    if square <= math.sqrt(beta):
        return WeightSpectrum(
            problem, math.sqrt(square), threshold, bulk.low, bulk.high, bulk.high, 0.0, 0.0, 0.0
        )
    excess = 1 - beta / square / square
    left, right = excess / (1 + 1 / square), excess / (1 + beta / square)
    towards_teacher = left * problem.teacher.moments.linear**2 / gradient
    return WeightSpectrum(
        problem,
        math.sqrt(square),
        threshold,
        bulk.low,
        bulk.high,
        bulk.top,
        left,
        right,
        towards_teacher,
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
    """sqrt(c) |1 -+ sqrt(beta)|, and the outlier top^2 = (c + theta^2)(beta c + theta^2)/theta^2 if theta^4 > beta c^2."""
    scale = math.sqrt(variance)
    low, high = scale * abs(math.sqrt(beta) - 1), scale * (math.sqrt(beta) + 1)
    square = theta * theta
    top = (
        math.sqrt((1 + variance / square) * (beta * variance + square))
        if square > math.sqrt(beta) * variance
        else high
    )
    return IsotropicSpectrum(low, high, top)


# The bound for large steps ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TauStar:
    """tau* of [Ba] (5.1). ``minimiser`` is kappa*, infinite (with its sign) if no finite kappa attains the infimum."""

    value: float
    minimiser: float
    error: float  # numerical error of ``value``


def theorem_seven_bound(problem: Problem, constant: float = 1.0) -> float:
    """10 tau* + C (sqrt(tau* d/n) + d/n), d/n = 1/alpha: the bound of [Ba] Thm 7 on the risk after a large step.

    The theorem says that some C exists; ``constant`` is C, so only the shape in alpha and the term 10 tau* are meaningful. It holds
    for alpha large enough, a bounded student, student and teacher of mean zero, a Gaussian readout, step_exponent = 1/2 and a ridge
    with N^-1 ridge between n^(eps - 1) and n^-eps; none of this is checked here.
    """
    constant = number("constant", constant, 0.0)
    tau = tau_star(problem.student, problem.teacher).value
    return 10 * tau + constant * (math.sqrt(tau / problem.alpha) + 1 / problem.alpha)


def tau_star(student: Any, teacher: Any) -> TauStar:
    """inf over real kappa of E[(s*(x1) - E_x2 s(kappa x1 + x2))^2], x1, x2 i.i.d. N(0, 1): [Ba] (5.1).

    The functions enter as they are given. [Ba] Assumption 1 has both of mean zero and Thm 7 a bounded student; (5.1) has neither a
    free amplitude nor a free constant. F(t) = E s(t + x2) is tabulated once; the infimum is searched on a grid of both signs up to
    |kappa| = 1e4, refined in the deepest valleys, and compared with the limits kappa -> +-infinity where F has finite limits.
    """
    return _tau_star(
        activation(student, parameter="student"), activation(teacher, parameter="teacher")
    )


_TABLE_REACH, _TABLE_STEP = 32, 1 / 32
_TAIL_NODES, _TAIL_WEIGHTS = np.polynomial.hermite_e.hermegauss(12)


@lru_cache(maxsize=256)
def _tau_star(student: Activation, teacher: Activation) -> TauStar:
    scale = teacher.moments.second_moment + student.moments.second_moment
    table = _smoothed_table(student)
    misfit, finer = (_Misfit(student, teacher, table, density) for density in (1, 2))
    positive = np.concatenate([np.arange(0.25, 12, 0.25), np.geomspace(12, 1e4, 25)])
    grid = np.concatenate([-positive[::-1], [0.0], positive])
    with np.errstate(
        all="ignore"
    ):  # fast growing students overflow far out, where they are of no use
        pairs = np.array([misfit.of_both_signs(kappa) for kappa in positive])
        values = np.concatenate([pairs[::-1, 1], [misfit(0.0)], pairs[:, 0]])
        valleys = 1 + np.flatnonzero((values[1:-1] <= values[:-2]) & (values[1:-1] <= values[2:]))
        deepest = valleys[np.argsort(values[valleys])][:4]
        found = [misfit.minimum(grid[i - 1], grid[i + 1]) for i in deepest] + [
            0.0,
            grid[0],
            grid[-1],
            math.inf,
            -math.inf,
        ]
        depth = {kappa: misfit(kappa) for kappa in found}
        # Of equally good ones the smallest, and the positive of two signs.
        good = [kappa for kappa in found if depth[kappa] <= min(depth.values()) + 1e-12 * scale]
        kappa = float(min(good, key=lambda kappa: (abs(kappa), kappa < 0)))
        value, other = finer(kappa), misfit(kappa, use_table=False)
    error = abs(value - other) + 1e-15 * scale
    if abs(kappa) == grid[-1] or not error <= 1e-8 * scale:
        what = f"tau* of student {student} and teacher {teacher}"
        raise NotConverged(f"{what} could not be computed: kappa = {kappa:g}, error {error:.1e}")
    return TauStar(value, kappa, error)


class _Misfit:
    """E[(s*(x) - F(kappa x))^2] as a function of kappa, by a fixed rule in x that is graded towards 0 for large kappa."""

    def __init__(
        self, student: Activation, teacher: Activation, table: PPoly, density: int
    ) -> None:
        self.student, self.table = student, table
        near = 2.0 ** (-np.arange(2 * density, 14 * density + 1) / density)
        far = np.arange(1, 18 * density + 1) / (2 * density)
        half = np.concatenate([near, far, [abs(k) for k in teacher.kinks if abs(k) < 9]])
        self.x, weights = _panels(
            np.unique(np.concatenate([-half, [0.0], half])), 8 + 2 * density
        )  # symmetric
        self.weights = weights * np.exp(-(self.x**2) / 2) / math.sqrt(2 * math.pi)
        self.target = teacher.evaluate(self.x)

    def __call__(self, kappa: float, use_table: bool = True) -> float:
        if math.isinf(kappa):
            return self._at_infinity(math.copysign(1.0, kappa))
        t = kappa * self.x
        if use_table:
            return self._mean_square(self.smoothed(t))
        return self._mean_square(
            shifted_moments(self.student.evaluate, t, np.ones_like(t), self.student.kinks)[0]
        )

    def of_both_signs(self, kappa: float) -> tuple[float, float]:
        fitted = self.smoothed(kappa * self.x)
        return self._mean_square(fitted), self._mean_square(fitted[::-1])

    def _mean_square(self, fitted: Array) -> float:
        value = float(self.weights @ (self.target - fitted) ** 2)
        return value if math.isfinite(value) else math.inf

    def _at_infinity(self, sign: float) -> float:
        """The limit kappa -> +-infinity, or infinity where F has no finite limits: then there is none, or it is no infimum."""
        once, again = (
            self.smoothed(sign * reach * np.array([-1.0, 1.0])) for reach in (1e12, 1e13)
        )
        if not np.all(np.abs(once - again) <= 1e-10 * (1 + np.abs(once))):
            return math.inf
        return self._mean_square(np.where(self.x > 0, again[1], again[0]))

    def smoothed(self, t: Array, order: int = 0) -> Array:
        """F, or its derivative of order 1 or 2, from the table; beyond the table by twelve Gauss-Hermite nodes."""
        values: Array = self.table(np.clip(t, -_TABLE_REACH, _TABLE_REACH), nu=order)
        if np.any(far := np.abs(t) > _TABLE_REACH):
            weights = (
                _TAIL_WEIGHTS
                * np.polynomial.hermite_e.hermeval(_TAIL_NODES, np.eye(3)[order])
                / math.sqrt(2 * math.pi)
            )
            values[far] = self.student.evaluate(t[far][:, None] + _TAIL_NODES) @ weights
        return values

    def minimum(self, left: float, right: float) -> float:
        """The lowest point of a valley: Brent's method, then Newton steps while they lower the misfit."""
        kappa = float(
            minimize_scalar(
                self,
                bounds=(left, right),
                method="bounded",
                options={"xatol": 1e-5 * (right - left)},
            ).x
        )
        value = self(kappa)
        for _ in range(4):
            t = kappa * self.x
            residual, slope = self.target - self.smoothed(t), self.x * self.smoothed(t, 1)
            curvature = self.weights @ (slope**2 - residual * self.x**2 * self.smoothed(t, 2))
            shift = float(self.weights @ (residual * slope) / curvature) if curvature > 0 else 0.0
            if shift == 0 or not (trial := self(kappa + shift)) <= value * (1 + 1e-15):
                break
            kappa, value = kappa + shift, trial
        return kappa


def _panels(edges: Array, count: int) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on the panels between ``edges``."""
    nodes, weights = legendre(count)
    half = np.diff(edges)[:, None] / 2
    return ((edges[:-1] + edges[1:])[:, None] / 2 + half * nodes).ravel(), (half * weights).ravel()


def _smoothed_table(student: Activation) -> PPoly:
    """F(t) = integral of s(y) exp(-(y - t)^2/2)/sqrt(2 pi) for |t| <= 32 as a spline: F is analytic, kinks or not."""
    reach, block = 9.0, int(4 / _TABLE_STEP)
    t = np.arange(-_TABLE_REACH, _TABLE_REACH + _TABLE_STEP, _TABLE_STEP)
    edges = np.arange(t[0] - reach, t[-1] + reach + 0.25, 0.25)
    y, weights = _panels(
        np.unique(np.concatenate([edges, [k for k in student.kinks if abs(k) < edges[-1]]])), 10
    )
    weighted = student.evaluate(y) * weights / math.sqrt(2 * math.pi)
    values = np.empty_like(t)
    for start in range(0, t.size, block):
        here = t[start : start + block]
        close = slice(*np.searchsorted(y, [here[0] - reach, here[-1] + reach]))
        values[start : start + block] = (
            np.exp(-((y[close] - here[:, None]) ** 2) / 2) @ weighted[close]
        )
    return PPoly.from_spline(make_interp_spline(t, values, k=7))
