"""Binary labels in the coordinates of the theory.

y = +-1 with P(y = 1 | u) = pi(u), u = <x, theta>. Without noise the sign law is a step function,

    pi(u) = p + (1 - 2 p) [L + sum_j J_j 1(u > r_j)],

L its value at -infinity and J_j its jumps at the r_j where the teacher crosses the threshold. Given
u = a + b zeta with zeta = c w + sqrt(1 - c^2) zeta', over zeta':

    x_j = (a + b c w - r_j)/(b sqrt(1 - c^2))
    P+(w) = E pi = p + (1 - 2 p) [L + sum_j J_j Phi(x_j)]
    Z+(w) = E zeta pi = c w P+ + (1 - 2 p) sqrt(1 - c^2) sum_j J_j phi(x_j).

Any other pi is integrated over zeta', split around the r_j where it rises steeply: with little
noise, or a large slope of the logit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.activations import Activation
from firststep.bayes import least_error
from firststep.label_laws import LabelLaw
from firststep.losses import Loss
from firststep.numerics.crossings import Jumps, jumps_of
from firststep.numerics.library import is_zero, library_of
from firststep.numerics.quadrature import REACH, gaussian_panels, shifted_moments

if TYPE_CHECKING:
    from firststep.problem import Problem
    from firststep.typing import Array, Float

_INNER = 80  # nodes of the integral over zeta' where nothing is narrow
_OUTER = 240  # of integrals over zeta that are done once
# Where pi rises within less than this, its integrals are split there: wider ones are resolved
# without. In widths, where: beyond the last Phi and the sigmoid are constant to 1e-13.
_NARROW = 0.06
_SPLITS = {"sign": (2.5, 8.0), "logit": (3.0, 10.0, 30.0)}
_REACH = 6.5  # of such places: what is beyond is some 1e-10
_WIDE = 0.2  # from which on _INNER nodes are enough: 1e-11
_LEAST_WIDTH = 1e-9  # of such a rise
_STEEPEST = 100.0  # slope of a teacher that is looked at
_EACH = 20  # of the nodes between two splits


class Given(NamedTuple):
    """Of a label given w."""

    plus: Float[Array, "*shape"]  # P(y = 1)
    along: Float[Array, "*shape"]  # E[zeta 1(y = 1)]


def step_pull(loss: Loss, y: Float[Array, "*s"], offset: float) -> Float[Array, "*s"]:
    """-dl/df of the loss of a step; its square loss is (y - f)^2/2."""
    slope = loss.slope(y, np.full_like(y, offset))
    return -slope / 2 if loss.name == "square" else -slope


def step_curvature(loss: Loss, offset: float) -> float:
    """d^2 l/df^2 of the loss of a step where the network says ``offset``, for either label."""
    if loss.name == "square":
        return 1.0
    return float(loss.curvature(np.array(1.0), np.array(offset)))


@dataclass(frozen=True)
class BinaryLabels:
    """The law of y = +-1 given u."""

    teacher: Activation
    law: LabelLaw
    noise: float = 0.0
    threshold: float = 0.0
    flip: float = 0.0
    # Where pi rises steeply without a jump, (place, width): of a noise that is known. A copy with
    # another noise keeps them, as derivatives by it ask for.
    narrow: tuple[tuple[float, float], ...] | None = None

    def __post_init__(self) -> None:
        if self.narrow is None:
            object.__setattr__(self, "narrow", tuple(self._rises()))

    @classmethod
    def of(cls, problem: Problem) -> BinaryLabels:
        return cls(problem.teacher, problem.labels, problem.noise, problem.threshold, problem.flip)

    def probability(self, u: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """pi(u)."""
        return self.law.probability(
            self.teacher.evaluate(u), noise=self.noise, threshold=self.threshold, flip=self.flip
        )

    def __str__(self) -> str:
        return f"labels {self.law} of {self.teacher}"

    def evaluate(self, u: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The mean of a label, which is to a square loss what a teacher is."""
        return self.mean(u)

    @property
    def kinks(self) -> tuple[float, ...]:
        """Where that jumps or bends."""
        return self.cuts

    def mean(self, u: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """E[y | u] = 2 pi - 1."""
        return 2 * self.probability(u) - 1

    def label_variance(self, u: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Var(y | u) = 4 pi (1 - pi)."""
        plus = self.probability(u)
        return 4 * plus * (1 - plus)

    @property
    def is_step(self) -> bool:
        """Whether pi is a step function."""
        return self.law.kind == "sign" and is_zero(self.noise)

    @cached_property
    def cuts(self) -> tuple[float, ...]:
        """Where pi jumps or bends."""
        splits = [0.0] if self.is_step else [x for a in _SPLITS[self.law.kind] for x in (-a, a)]
        around = {place + x * width for place, width in self.rises for x in splits}
        return tuple(sorted({*around, *self.teacher.kinks}))

    @cached_property
    def rises(self) -> tuple[tuple[float, float], ...]:
        """Where pi jumps or rises steeply: places and widths."""
        if self.is_step:
            return tuple((float(place), 0.0) for place in self.jumps.places)
        return tuple(one for one in self.narrow or () if one[1] < _NARROW)

    @cached_property
    def inner_nodes(self) -> int:
        """Of the integral over zeta'."""
        if self.rises:
            return max(_INNER, _EACH * (1 + len(self.cuts)))
        return math.ceil(_INNER * max([1.0, *(_WIDE / width for _, width in self.narrow or ())]))

    def _rises(self) -> Iterator[tuple[float, float]]:
        """Where the teacher crosses the threshold, and how soon it is beyond by the noise."""
        unit = 1 / self.law.slope if self.law.kind == "logit" else self.noise
        if not isinstance(unit, float | int) or not 0 < unit < _WIDE * _STEEPEST:
            return
        widths = np.geomspace(_LEAST_WIDTH, _WIDE, 200)
        for place in map(float, self.jumps.places):
            sides = self.teacher.evaluate(place + np.stack([-widths, widths]))
            beyond = np.abs(sides - self.threshold).max(0) >= unit
            # a jump of the teacher is one of its kinks
            if abs(place) < _REACH and np.any(beyond[1:]) and not beyond[0]:
                yield place, float(widths[np.argmax(beyond)])

    @cached_property
    def jumps(self) -> Jumps:
        """Of the sign law without noise and flips."""
        return jumps_of(self._level, self.teacher.kinks)

    @property
    def is_sure(self) -> bool:
        """Whether the teacher is nowhere at the threshold for a while, where a coin is thrown."""
        start, _, sizes = self.jumps
        return bool(start != 0.5 and np.all(np.abs(sizes) == 1))

    def _level(self, u: Float[Array, " z"]) -> Float[Array, " z"]:
        above = self.teacher.evaluate(u) - self.threshold
        return np.where(above == 0, 0.5, 1.0 * (above > 0))

    def given(
        self,
        w: Float[Array, "*shape"],
        share: Float[Array, "*shape"],
        shift: Float[Array, "*shape"],
        scale: float,
    ) -> Given:
        """P+ and Z+ of u = shift + scale zeta, zeta = share w + sqrt(1 - share^2) zeta'."""
        lib = library_of(share)
        rest = lib.xp.sqrt(1 - share**2)
        place, width = shift + scale * share * w, scale * rest
        if not self.is_step:
            found = shifted_moments(self.probability, place, width, self.cuts, self.inner_nodes)
            return Given(found.mean, share * w * found.mean + rest * width * found.slope)
        start, places, sizes = self.jumps
        above, density = start + 0 * w, 0 * w
        for r, size in zip(places, sizes, strict=True):
            x = (place - r) / width
            above = above + size * lib.special.ndtr(x)
            density = density + size * lib.xp.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        plus = self.flip + (1 - 2 * self.flip) * above
        return Given(plus, share * w * plus + (1 - 2 * self.flip) * rest * density)

    @cached_property
    def moments(self) -> Float[Array, "3 2"]:
        """E[G^a 1(y)] for a = 0, 1, 2 and y = +1, -1, G ~ N(0, 1)."""
        inside = [cut for cut in self.cuts if abs(cut) < REACH]
        edges = np.unique(np.concatenate([np.linspace(-REACH, REACH, 69), inside]))
        edges = edges + 0 * self.noise  # in the array library of the noise
        g, mass = gaussian_panels(edges, 12)
        plus = self.probability(g)
        xp = library_of(plus).xp
        both = xp.stack([mass * plus, mass * (1 - plus)])
        return xp.stack([(g**a * both).sum(-1) for a in range(3)])

    def variance(self, shift: Float[Array, " K"], scale: float) -> Float[Array, " K"]:
        """E Var(y | u) = 1 - E (E[y | u])^2 of u = shift + scale zeta: what no fit explains."""
        if self.is_step and self.is_sure:
            return 0 * shift + (1 - (1 - 2 * self.flip) ** 2)
        width = 0 * shift + scale
        return shifted_moments(self.label_variance, shift, width, self.cuts, _OUTER).mean

    @cached_property
    def total_variance(self) -> float:
        """E Var(y | u), u ~ N(0, 1)."""
        return float(self.variance(np.zeros(1), 1.0)[0])

    def step_rule(
        self, loss: Loss, offset: float, noise: float
    ) -> tuple[Float[Array, " J"], Float[Array, "3 J"]]:
        """What a label pulls at a network that says ``offset``: y_l and weights w^a_l with
        E[G^a f(yhat)] = sum_l w^a_l f(y_l) for a = 0, 1, 2.

        yhat = -dl/df(y, offset), two values; the square loss of a step is (y - f)^2/2. ``noise`` is
        a small Gaussian on top, by three Gauss-Hermite nodes.
        """
        pulls = step_pull(loss, np.array([1.0, -1.0]), offset)
        if is_zero(noise):
            return pulls, self.moments
        nodes = pulls[:, None] + noise * np.sqrt(3.0) * np.array([-1.0, 0.0, 1.0])
        weights = self.moments[:, :, None] * np.array([1.0, 4.0, 1.0]) / 6
        return nodes.ravel(), weights.reshape(3, -1)

    def direction_error(self, gamma: float, rho: float) -> float:
        """E min(P, 1 - P), P(kappa) = P(y = 1 | kappa): the least 0-1 error of whoever knows the
        law of the labels and of an input only kappa = x . v/|v|; u = gamma kappa + rho zeta.
        """

        def probability(kappa: Float[Array, " z"]) -> Float[Array, " z"]:
            return self.given(0 * kappa, 0 * kappa, gamma * kappa, rho).plus

        return least_error(self.probability if rho == 0 else probability)
