"""A teacher of several directions: y = sum_b s_b(<x, theta_b'>) + noise, theta_b' orthonormal.

The step's gradient points along sum_b c*_b theta_b', c*_b = E[z s_b]. Rotated directions
theta_a = sum_b O_ab theta_b' have theta_1 along it,

    O_1b = c*_b/|c*|,   the other rows an orthonormal completion;   O = 1 if all c*_b = 0,

so that E[G_1 y] = |c*| and E[G_a y] = 0 for a >= 2. Given G_1 = u the coordinates of two terms are
Gaussian of means O_1b u, O_1c u, variances 1 - O_1b^2, 1 - O_1c^2 and covariance -O_1b O_1c, and
the terms are not independent:

    P(u) = 2 sum_{b<c} E[s_b s_c | G_1 = u]
    E[y^2 | G_1 = u] = noise^2 + sum_b E[s_b^2 | G_1 = u] + P(u).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.activations import Activation
from firststep.numerics.chebyshev import Table
from firststep.numerics.quadrature import REACH, gaussian_panels, shifted_moments
from firststep.problem import Problem

if TYPE_CHECKING:
    from firststep.numerics.quadrature import Function
    from firststep.typing import Array, Float

MOST = 4  # directions: the label rule grows with their number
_FURTHEST = 12.5  # of u: gamma kappa + rho z with both at the ends of their rules
_FURTHEST_TERM = 22.0  # of the coordinate of a term, given such a u
_NO_LINEAR = 1e-13  # of the root mean square: smaller linear parts are rounding
_NARROW = 1e-7  # a width that counts as none: what varies over it has no mass
_NODES = 12  # of a panel
_PANELS, _INNER = 10, 240  # of a Gaussian integral, and nodes of one that is not split
_FINEST = 16  # times as many, for what is steep
_SAME = 1e-12  # of the size of the sum: what finer integrals must leave alone
_AROUND = np.array([-9.0, -3.0, -1.0, 0.0, 1.0, 3.0, 9.0])  # widths, of a kink that is smoothed


class SumMoments(NamedTuple):
    """Gaussian moments of a sum of independent terms, by the names of ``activations.Moments``."""

    mean: float
    linear: float  # |c*|
    second_moment: float
    nonlinear_variance: float  # E y^2 - (E y)^2 - |c*|^2


@dataclass(frozen=True)
class TermSum:
    """The terms s_b; two or more of them."""

    terms: tuple[Activation, ...]

    def __str__(self) -> str:
        return " + ".join(map(str, self.terms))

    @property
    def count(self) -> int:
        """m."""
        return len(self.terms)

    @cached_property
    def kinks(self) -> tuple[float, ...]:
        """Those of all terms, each along its own direction."""
        return tuple(sorted({kink for term in self.terms for kink in term.kinks}))

    @cached_property
    def linear_parts(self) -> Float[Array, " m"]:
        """c*_b; rounding is none."""
        found = [term.moments for term in self.terms]
        size = math.sqrt(sum(each.second_moment for each in found))
        return np.array(
            [c if abs(c) > _NO_LINEAR * size else 0.0 for c in (e.linear for e in found)]
        )

    @cached_property
    def moments(self) -> SumMoments:
        """Of the sum."""
        found = [term.moments for term in self.terms]
        mean, nonlinear = (
            sum(getattr(each, n) for each in found) for n in ("mean", "nonlinear_variance")
        )
        square = float(self.linear_parts @ self.linear_parts)
        return SumMoments(mean, math.sqrt(square), nonlinear + square + mean**2, nonlinear)

    @cached_property
    def rotation(self) -> Float[Array, "m m"]:
        """O, by the reflection that takes the direction of c* to the first axis."""
        size = float(np.linalg.norm(self.linear_parts))
        if size == 0:
            return np.eye(self.count)
        first = self.linear_parts / size
        normal = first + (1.0 if first[0] >= 0 else -1.0) * np.eye(self.count)[0]
        found = np.eye(self.count) - 2 * np.outer(normal, normal) / (normal @ normal)
        found[0] = first
        return found

    @property
    def shares(self) -> Float[Array, " m"]:
        """O_1b: the overlaps of theta_1 with the terms' own directions."""
        return self.rotation[0]

    @cached_property
    def left(self) -> Float[Array, " m"]:
        """1 - O_1b^2, without its cancellation."""
        return np.array([_square(np.delete(self.shares, b)) for b in range(self.count)])

    @cached_property
    def together(self) -> Together:
        """P."""
        return Together(self)


def teacher_of(problem: Problem) -> Activation | TermSum:
    """The function of one direction, or the terms of several."""
    if not problem.teacher_terms:
        return problem.teacher
    return _kept((problem.teacher, *problem.teacher_terms))


@lru_cache(maxsize=128)
def _kept(terms: tuple[Activation, ...]) -> TermSum:
    """With the tables that it makes when they are asked for."""
    return TermSum(terms)


@dataclass(frozen=True)
class Together:
    """P(u), on a table."""

    teacher: TermSum

    def __str__(self) -> str:
        return f"the products of the terms {self.teacher}"

    @cached_property
    def kinks(self) -> tuple[float, ...]:
        """Where P may bend: at kinks of a term that is a function of u, and where two terms that
        are one function of (u, z) have kinks at the same z.
        """
        shares, found = self.teacher.shares, set()
        for b, term in enumerate(self.teacher.terms):
            if self.teacher.left[b] == 0:
                found |= {kink * shares[b] for kink in term.kinks}
        for b, c in self._pairs():
            if self._rest(b, c) < _NARROW:
                first, second = (self.teacher.terms[i].kinks for i in (b, c))
                found |= {
                    shares[b] * one + shares[c] * other
                    for one, other in itertools.product(first, second)
                }
        return tuple(sorted(float(each) for each in found if abs(each) < _FURTHEST))

    def evaluate(self, u: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """P(u), in the array library of u."""
        return self._table.evaluate(u)

    @cached_property
    def _table(self) -> Table:
        edges = [*np.linspace(-_FURTHEST, _FURTHEST, 26), *self.kinks]
        times = self._fineness
        return Table.of(lambda u: self._total(u, times), edges)

    @cached_property
    def _fineness(self) -> int:
        """How much finer than usual the integrals must be."""
        u = np.linspace(-4.0, 4.0, 9) + 0.1
        size = max(self.teacher.moments.second_moment, 1e-300)
        times, coarse = 1, self._total(u, 1)
        while times < _FINEST:
            fine = self._total(u, 2 * times)
            if np.abs(fine - coarse).max() <= _SAME * max(size, np.abs(fine).max()):
                break
            times, coarse = 2 * times, fine
        return times

    def _pairs(self) -> list[tuple[int, int]]:
        """Pairs of terms that are correlated given u."""
        shares = self.teacher.shares
        pairs = itertools.combinations(range(self.teacher.count), 2)
        return [(b, c) for b, c in pairs if shares[b] * shares[c] != 0]

    def _rest(self, b: int, c: int) -> float:
        """The standard deviation of the coordinate of c given u and that of b."""
        others = np.delete(self.teacher.shares, [b, c])
        return math.sqrt(_square(others) / self.teacher.left[b])

    def _total(self, u: Float[Array, " u"], times: int) -> Float[Array, " u"]:
        """2 sum_{b<c}: products of means where terms are independent given u."""
        means = [self.mean_of(b, u, times) for b in range(self.teacher.count)]
        crossed = self._pairs()
        found = np.zeros_like(u)
        for b, c in itertools.combinations(range(self.teacher.count), 2):
            found += self._product((b, c), u, times) if (b, c) in crossed else means[b] * means[c]
        return 2 * found

    def square_of(self, b: int, u: Float[Array, " u"]) -> Float[Array, " u"]:
        """E[s_b^2 | G_1 = u]."""
        return self._mean_of(lambda z: self.teacher.terms[b].evaluate(z) ** 2, b, u, self._fineness)

    def mean_of(
        self, b: int, u: Float[Array, " u"], times: int | None = None
    ) -> Float[Array, " u"]:
        """E[s_b | G_1 = u]."""
        return self._mean_of(self.teacher.terms[b].evaluate, b, u, times or self._fineness)

    def _mean_of(
        self, function: Function, b: int, u: Float[Array, " u"], times: int
    ) -> Float[Array, " u"]:
        nodes, kinks = _INNER * times, self.teacher.terms[b].kinks
        width = math.sqrt(self.teacher.left[b])
        shift = self.teacher.shares[b] * u
        if width == 0:
            return np.asarray(function(shift))
        return shifted_moments(function, shift, np.full_like(u, width), kinks, nodes).mean

    def _product(
        self, pair: tuple[int, int], u: Float[Array, " u"], times: int
    ) -> Float[Array, " u"]:
        """E[s_b s_c | u]: s_b at O_1b u + sqrt(1 - O_1b^2) z, and the mean of s_c given u and z,
        integrated over z.
        """
        b, c = pair
        shares, first, second = self.teacher.shares, self.teacher.terms[b], self.teacher.terms[c]
        width, rest = math.sqrt(self.teacher.left[b]), self._rest(b, c)
        slant = shares[b] * shares[c] / width  # of the mean of c's coordinate, against z
        inner = _smoothed(second, rest, times)
        fixed = np.linspace(-REACH, REACH, _PANELS * times + 1)
        edges = [np.broadcast_to(fixed, (u.size, fixed.size))]
        edges += [((kink - shares[b] * u) / width)[:, None] for kink in first.kinks]
        for kink in second.kinks:
            place = ((shares[c] * u - kink) / slant)[:, None]
            edges.append(place + (_AROUND if rest > _NARROW else np.zeros(1)) * rest / abs(slant))
        bounds = np.sort(np.clip(np.concatenate(edges, 1), -REACH, REACH), axis=1)
        z, weights = gaussian_panels(bounds, _NODES)
        one = first.evaluate(shares[b] * u[:, None] + width * z)
        return np.asarray(np.sum(weights * one * inner(shares[c] * u[:, None] - slant * z), 1))


@lru_cache(maxsize=64)
def _smoothed(term: Activation, width: float, times: int) -> Function:
    """E s(x + width z) as a function of x."""
    if width < _NARROW:
        return term.evaluate

    def mean(x: Float[Array, " x"]) -> Float[Array, " x"]:
        scale = np.full_like(x, width)
        return shifted_moments(term.evaluate, x, scale, term.kinks, _INNER * times).mean

    edges = [*np.linspace(-_FURTHEST_TERM, _FURTHEST_TERM, 45), *term.kinks]
    return Table.of(mean, [each for each in edges if abs(each) <= _FURTHEST_TERM]).evaluate


def _square(values: Float[Array, " m"]) -> float:
    return float(values @ values)


def given_variance(teacher: TermSum, u: Float[Array, " u"]) -> Float[Array, " u"]:
    """Var[y | G_1 = u], without the noise."""
    square = teacher.together.evaluate(u)
    for b in range(teacher.count):
        square = square + teacher.together.square_of(b, u)
    return square - given_mean(teacher, u) ** 2


def given_mean(teacher: TermSum, u: Float[Array, " u"]) -> Float[Array, " u"]:
    """E[y | G_1 = u]."""
    found = np.zeros_like(u)
    for b in range(teacher.count):
        found += teacher.together.mean_of(b, u)
    return found
