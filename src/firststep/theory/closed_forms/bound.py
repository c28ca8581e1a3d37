"""The bound of [Ba] (arXiv 2205.01445) for large steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from firststep.activations import Activation, activation
from firststep.checks import number
from firststep.errors import NotConverged
from firststep.numerics.quadrature import gaussian_panels, panels, shifted_moments
from firststep.problem import Problem
from firststep.theory.step import refuse_other_losses

if TYPE_CHECKING:
    from firststep.typing import Array, Float


@dataclass(frozen=True)
class TauStar:
    """tau* of [Ba] (5.1).

    ``minimiser`` is kappa*, infinite (with its sign) if no finite kappa attains the infimum.
    """

    value: float
    minimiser: float
    error: float  # numerical error of ``value``


def theorem_seven_bound(problem: Problem, constant: float = 1.0) -> float:
    """10 tau* + C (sqrt(tau* d/n) + d/n), d/n = 1/alpha: [Ba] Thm 7 on the risk of a large step.

    The theorem says that some C exists; ``constant`` is C, so only the shape in alpha and the term
    10 tau* are meaningful. It holds for alpha large enough, a bounded student, student and teacher
    of mean zero, a Gaussian readout, step_exponent = 1/2 and a ridge with N^-1 ridge between n^(eps
    - 1) and n^-eps; none of this is checked here.
    """
    refuse_other_losses(problem)
    constant = number("constant", constant, 0.0)
    tau = tau_star(problem.student, problem.teacher).value
    return 10 * tau + constant * (math.sqrt(tau / problem.alpha) + 1 / problem.alpha)


def tau_star(student: object, teacher: object) -> TauStar:
    """[Ba] (5.1): inf over real kappa of E[(s*(x1) - E_x2 s(kappa x1 + x2))^2], x1, x2 ~ N(0, 1).

    The functions enter as they are given. [Ba] Assumption 1 has both of mean zero and Thm 7 a
    bounded student; (5.1) has neither a free amplitude nor a free constant. F(t) = E s(t + x2) is
    tabulated once; the infimum is searched on a grid of both signs up to |kappa| = 1e4, refined in
    the deepest valleys, and compared with the limits kappa -> +-infinity where F has finite limits.
    """
    return _tau_star(
        activation(student, parameter="student"), activation(teacher, parameter="teacher")
    )


_TABLE_REACH, _TABLE_STEP = 32, 1 / 8
_TERMS = 11  # of Taylor's there: coarser grids need more of them, finer ones take longer to fill
_TAIL_NODES, _TAIL_WEIGHTS = np.polynomial.hermite_e.hermegauss(12)


@lru_cache(maxsize=256)
def _tau_star(student: Activation, teacher: Activation) -> TauStar:
    scale = teacher.moments.second_moment + student.moments.second_moment
    table = _Smoothed(student)
    misfit, finer = (_Misfit(student, teacher, table, density) for density in (1, 2))
    positive = np.concatenate([np.arange(0.25, 12, 0.25), np.geomspace(12, 1e4, 25)])
    grid = np.concatenate([-positive[::-1], [0.0], positive])
    with np.errstate(all="ignore"):  # fast growing students overflow far out, and are no use there
        pairs = np.array([misfit.of_both_signs(kappa) for kappa in positive])
        values = np.concatenate([pairs[::-1, 1], [misfit(0.0)], pairs[:, 0]])
        valleys = 1 + np.flatnonzero((values[1:-1] <= values[:-2]) & (values[1:-1] <= values[2:]))
        deepest = valleys[np.argsort(values[valleys])][:4]
        found = [misfit.minimum(grid[i - 1], grid[i + 1]) for i in deepest]
        found += [0.0, grid[0], grid[-1], math.inf, -math.inf]
        depth = {kappa: misfit(kappa) for kappa in found}
        # Of equally good ones the smallest, and the positive of two signs (but for rounding).
        good = [kappa for kappa in found if depth[kappa] <= min(depth.values()) + 1e-12 * scale]
        kappa = float(min(good, key=lambda kappa: (float(f"{abs(kappa):.8g}"), kappa < 0)))
        value, other = finer(kappa), misfit(kappa, use_table=False)
    error = abs(value - other) + 1e-15 * scale
    if abs(kappa) == grid[-1] or not error <= 1e-8 * scale:
        what = f"tau* of student {student} and teacher {teacher}"
        raise NotConverged(f"{what} could not be computed: kappa = {kappa:g}, error {error:.1e}")
    return TauStar(value, kappa, error)


class _Misfit:
    """E[(s*(x) - F(kappa x))^2] by a fixed rule in x, graded towards 0 for large kappa."""

    def __init__(
        self, student: Activation, teacher: Activation, table: _Smoothed, density: int
    ) -> None:
        self.student, self.table = student, table
        near = 2.0 ** (-np.arange(2 * density, 14 * density + 1) / density)
        far = np.arange(1, 18 * density + 1) / (2 * density)
        half = np.concatenate([near, far, [abs(k) for k in teacher.kinks if abs(k) < 9]])
        edges = np.unique(np.concatenate([-half, [0.0], half]))  # symmetric
        self.x, self.weights = gaussian_panels(edges, 8 + 2 * density)
        self.target = teacher.evaluate(self.x)

    def __call__(self, kappa: float, use_table: bool = True) -> float:
        if math.isinf(kappa):
            return self._at_infinity(math.copysign(1.0, kappa))
        t = kappa * self.x
        if use_table:
            return self._mean_square(self.smoothed(t))
        moments = shifted_moments(self.student.evaluate, t, np.ones_like(t), self.student.kinks)
        return self._mean_square(moments.mean)

    def of_both_signs(self, kappa: float) -> tuple[float, float]:
        fitted = self.smoothed(kappa * self.x)
        return self._mean_square(fitted), self._mean_square(fitted[::-1])

    def _mean_square(self, fitted: Float[Array, " x"]) -> float:
        value = float(self.weights @ (self.target - fitted) ** 2)
        return value if math.isfinite(value) else math.inf

    def _at_infinity(self, sign: float) -> float:
        """The limit kappa -> +-infinity; infinity where F has none: it is no infimum then."""
        ends = sign * np.array([-1.0, 1.0])
        once, again = (self.smoothed(reach * ends) for reach in (1e12, 1e13))
        if not np.all(np.abs(once - again) <= 1e-10 * (1 + np.abs(once))):
            return math.inf
        return self._mean_square(np.where(self.x > 0, again[1], again[0]))

    def smoothed(self, t: Float[Array, " t"], order: int = 0) -> Float[Array, " t"]:
        """F, or its derivative of order 1 or 2: from the table, or by Gauss-Hermite beyond it."""
        values: Float[Array, " t"] = self.table(np.clip(t, -_TABLE_REACH, _TABLE_REACH), order)
        if np.any(far := np.abs(t) > _TABLE_REACH):
            hermite = np.polynomial.hermite_e.hermeval(_TAIL_NODES, np.eye(3)[order])
            weights = _TAIL_WEIGHTS * hermite / math.sqrt(2 * math.pi)
            values[far] = self.student.evaluate(t[far][:, None] + _TAIL_NODES) @ weights
        return values

    def minimum(self, left: float, right: float) -> float:
        """The lowest point of a valley: golden sections, then Newton steps while they help."""
        golden, ends = (math.sqrt(5) - 1) / 2, 1e-5 * (right - left)
        low, high = right - golden * (right - left), left + golden * (right - left)
        at_low, at_high = self(low), self(high)
        while right - left > ends:
            if at_low <= at_high:
                right, high, at_high = high, low, at_low
                low = right - golden * (right - left)
                at_low = self(low)
            else:
                left, low, at_low = low, high, at_high
                high = left + golden * (right - left)
                at_high = self(high)
        kappa = low if at_low <= at_high else high
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


class _Smoothed:
    """F(t) = E s(t + z), |t| <= 32, by its Taylor polynomial at the nearest point of a grid.

    F is analytic: F^(m)(t) = E[s(t + z) He_m(z)] is at most sqrt(m! E s(t + z)^2), and
    half a step to the power 11 leaves 1e-17 of that root.
    """

    def __init__(self, student: Activation) -> None:
        reach, block = 9.0, int(4 / _TABLE_STEP)
        t = np.arange(-_TABLE_REACH, _TABLE_REACH + _TABLE_STEP, _TABLE_STEP)
        edges = np.arange(t[0] - reach, t[-1] + reach + 0.25, 0.25)
        kinks = [kink for kink in student.kinks if abs(kink) < edges[-1]]
        y, weights = panels(np.unique(np.concatenate([edges, kinks])), 10)
        weighted = student.evaluate(y) * weights / math.sqrt(2 * math.pi)
        self.coefficients = np.empty((_TERMS, t.size))  # F^(m)/m!
        for start in range(0, t.size, block):
            here = t[start : start + block]
            close = slice(*np.searchsorted(y, [here[0] - reach, here[-1] + reach]))
            z = y[close] - here[:, None]
            before, term = np.zeros_like(z), np.exp(-(z**2) / 2)  # He_m(z)/m! times the bell
            for m in range(_TERMS):
                self.coefficients[m, start : start + block] = term @ weighted[close]
                before, term = term, (z * term - before) / (m + 1)

    def __call__(self, t: Float[Array, " t"], order: int) -> Float[Array, " t"]:
        """F, or its derivative of some order."""
        places = np.rint((t + _TABLE_REACH) / _TABLE_STEP)
        short = t - (places * _TABLE_STEP - _TABLE_REACH)
        near = self.coefficients[:, places.astype(int)]
        found = np.zeros_like(t)
        for m in range(_TERMS - 1, order - 1, -1):
            found = found * short + math.perm(m, order) * near[m]
        return found
