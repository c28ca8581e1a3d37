"""The channel: what the samples of a fit pull at it, by node of kappa. It knows no matrices.

On a sample that was not in the fit the prediction is, given kappa and the rest zeta of the
teacher's direction, f0 ~ N(m + t zeta, v - t^2), and u = gamma.kappa + rho zeta is what the teacher
sees. On one that was, it is the proximal point f = f0 + V g(y, f0; V) of ``losses``. The fit asks
for

    s = E[-dg/df0],   E g,   E zeta g,   E g^2     at every node,

and these are all that a loss or a law of the labels is to it. Square loss: s = 1/(1 + V) and
E g = s (h0 - m).

Binary labels. With w = (f0 - m)/sqrt v and c = t/sqrt v, zeta = c w + sqrt(1 - c^2) zeta', and with
P+-(w), Z+-(w) of ``binary`` (Z- = c w - Z+) every expectation is one integral over w:

    E g^j = sum_+- int phi P+- g(+-1, m + sqrt v w)^j,   E zeta g = sum_+- int phi Z+- g,

by Gauss-Legendre panels that are split where g or P+ bends.

Real labels. x = y - f0 is Gaussian given zeta and the component j of the noise, of mean
mu = s*(u) - m - t zeta and variance D^2 = v - t^2 + s_j^2. For g = clip(k x, k x1, k x2) with
A = (x1 - mu)/D, B = (x2 - mu)/D, Pi = Phi(B) - Phi(A):

    s = k Pi,   E g = k [x1 Phi(A) + x2 Phi(-B) + mu Pi - D (phi(B) - phi(A))]
    E g^2 = k^2 [x1^2 Phi(A) + x2^2 Phi(-B) + (mu^2 + D^2) Pi - 2 mu D (phi(B) - phi(A))
                 - D^2 (B phi(B) - A phi(A))]

and one integral over zeta is left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.activations import Activation
from firststep.losses import Loss
from firststep.noise_laws import NoiseLaw
from firststep.numerics.library import library_of
from firststep.numerics.quadrature import REACH, gaussian_panels
from firststep.theory.binary import BinaryLabels

if TYPE_CHECKING:
    from firststep.problem import Problem
    from firststep.typing import Array, Float, Int

SMALLEST_LEVERAGE = 1e-6  # of the largest: 1/V of a hinge cancels where no feature is alive
SMALLEST_SLOPE = 1e-9  # of the largest s, which vanishes where a class is certain
# Of the square loss's s, where s vanishes everywhere (a hinge with every sample within its margin):
# v feels rounding as 1e-16/s^2, and the floor as itself.
SLOPE_OF_NONE = 3e-5
_PANELS = 12  # over +-8.5, each of _NODES: 1e-9 for a Gaussian alone
_NODES = 7
_NEGLIGIBLE = 1e-17  # weight of a node
_FAR = 99.0  # an edge that is nowhere


class Output(NamedTuple):
    """What the fit says on a sample that it has not seen, by node, and how one moves it."""

    leverage: Float[Array, " K"]  # V
    mean: Float[Array, " K"]  # m
    slope: Float[Array, "*terms K"]  # t; a row for each coordinate, where there are several
    variance: Float[Array, " K"]  # v, given kappa: t^2 and the rest


class Pull(NamedTuple):
    """The four expectations."""

    slope: Float[Array, " K"]  # s
    mean: Float[Array, " K"]  # E g
    along: Float[Array, "*terms K"]  # E zeta g
    square: Float[Array, " K"]  # E g^2


@dataclass(frozen=True)
class RealLabels:
    """y = s*(u) + noise, the noise a mixture of Gaussians."""

    teacher: Activation
    noise: tuple[tuple[float, float], ...]  # (weight, standard deviation)

    @classmethod
    def of(cls, problem: Problem) -> RealLabels:
        deviation = problem.noise * problem.noise_law.deviation
        return cls.of_deviation(problem.teacher, problem.noise_law, deviation)

    @classmethod
    def of_deviation(cls, teacher: Activation, law: NoiseLaw, deviation: float) -> RealLabels:
        """With noise from a law, scaled to a standard deviation."""
        by = deviation / law.deviation if law.deviation > 0 else 0.0
        return cls(teacher, tuple((weight, by * scale) for weight, scale in law.gaussians()))

    @property
    def noise_variance(self) -> float:
        return sum(weight * scale**2 for weight, scale in self.noise)

    def seen_by(self, loss: Loss) -> tuple[tuple[float, float], ...]:
        """The noise as far as a loss can tell: the score of the square loss is linear."""
        if loss.name == "square" and len(self.noise) > 1:
            return ((1.0, math.sqrt(self.noise_variance)),)
        return self.noise


class Flat(NamedTuple):
    """The nodes of all integrals over w, one after the other."""

    node: Int[Array, " z"]  # k
    first: Int[Array, " K"]  # where each k begins
    w: Float[Array, " z"]
    mass: Float[Array, " z"]

    def total(self, values: Float[Array, " z"]) -> Float[Array, " K"]:
        weighted = self.mass * values
        if library_of(weighted).is_numpy:
            return np.asarray(np.add.reduceat(weighted, self.first))
        return weighted.reshape(len(self.first), -1).sum(-1)  # there no node is left out


@dataclass(frozen=True)
class Channel:
    """A loss and a law of labels on the nodes."""

    loss: Loss
    labels: BinaryLabels | RealLabels
    shift: Float[Array, " K"]  # gamma.kappa
    scale: float  # rho
    floor: float = SMALLEST_SLOPE

    def pull(self, output: Output) -> Pull:
        """The four expectations; s not below ``floor`` of its largest, or of the square loss's, and
        not nothing everywhere.
        """
        output = tame(output)
        found = self._real(output) if isinstance(self.labels, RealLabels) else self._binary(output)
        lib = library_of(output.mean)
        usual = lib.xp.max(1 / (1 + output.leverage))
        largest, usual = lib.frozen(lib.xp.max(found.slope)), lib.frozen(usual)
        least = self.floor * lib.xp.maximum(largest, usual)
        least = lib.xp.maximum(least, SLOPE_OF_NONE * usual - largest)
        return found._replace(slope=lib.xp.maximum(found.slope, least))

    # Binary labels ------------------------------------------------------------------------------

    def flat(self, output: Output, *, at_zero: bool = False) -> Flat:
        """The nodes in w; ``at_zero``: split also where a prediction changes sign."""
        assert isinstance(self.labels, BinaryLabels)
        lib = library_of(output.mean)
        xp, root = lib.xp, lib.xp.sqrt(output.variance)
        share = output.slope / root
        edges = [0 * root + x for x in np.linspace(-REACH, REACH, _PANELS + 1)]
        places_of_bends = bends(self.loss, output.leverage, at_zero)
        edges += [(f - output.mean) / root for f in places_of_bends]
        if self.labels.rises:
            tilt = self.scale * share
            flat = xp.abs(tilt) < 1e-9
            rest = self.scale**2 * (1 - share**2)
            for r, own in self.labels.rises:
                width = xp.sqrt(rest + own**2)
                places = [r - self.shift + x * width for x in (-2.0, 0.0, 2.0)]
                edges += [xp.where(flat, _FAR, x / xp.where(flat, 1.0, tilt)) for x in places]
        bounds = xp.sort(xp.clip(xp.stack(edges, -1), -REACH, REACH), -1)
        w, mass = gaussian_panels(bounds, _NODES)
        if not lib.is_numpy:
            count, size = mass.shape
            every = np.repeat(np.arange(count), size)
            return Flat(every, size * np.arange(count), w.ravel(), mass.ravel())
        node, place = np.nonzero(mass > _NEGLIGIBLE)
        first = np.searchsorted(node, np.arange(len(root)))
        return Flat(node, first, w[node, place], mass[node, place])

    def classes(
        self, output: Output, at: Flat
    ) -> tuple[Float[Array, " z"], list[tuple[float, Float[Array, " z"], Float[Array, " z"]]]]:
        """f0 at the nodes, and for y = +-1 the label with its P and Z."""
        assert isinstance(self.labels, BinaryLabels)
        root = library_of(output.variance).xp.sqrt(output.variance)
        share = (output.slope / root)[at.node]
        plus, along = self.labels.given(at.w, share, self.shift[at.node], self.scale)
        f0 = output.mean[at.node] + root[at.node] * at.w
        return f0, [(1.0, plus, along), (-1.0, 1 - plus, share * at.w - along)]

    def _binary(self, output: Output) -> Pull:
        at = self.flat(output)
        f0, classes = self.classes(output, at)
        leverage = output.leverage[at.node]
        totals = 4 * [0 * output.mean]
        for y, mass, along in classes:
            g, slope, _ = self.loss.score(np.array(y), f0, leverage)
            each = (mass * slope, mass * g, along * g, mass * g * g)
            totals = [total + at.total(x) for total, x in zip(totals, each, strict=True)]
        return Pull(*totals)

    # Real labels --------------------------------------------------------------------------------

    def rest(self) -> tuple[Float[Array, "K z"], Float[Array, "K z"], Float[Array, "K z"]]:
        """Nodes of zeta with their masses, and what the teacher says there."""
        xp = library_of(self.shift).xp
        edges = [0 * self.shift + x for x in np.linspace(-REACH, REACH, _PANELS + 1)]
        edges += [(kink - self.shift) / self.scale for kink in self.labels.teacher.kinks]
        bounds = xp.sort(xp.clip(xp.stack(edges, -1), -REACH, REACH), -1)
        zeta, mass = gaussian_panels(bounds, _NODES)
        return zeta, mass, self.labels.teacher.evaluate(self.shift[:, None] + self.scale * zeta)

    def residuals(
        self, output: Output
    ) -> list[tuple[Float[Array, "K z"], Float[Array, "K z"], Clipped]]:
        """By component of the noise: zeta, the masses and the residual's expectations."""
        assert isinstance(self.labels, RealLabels)
        zeta, mass, target = self.rest()
        mu = target - output.mean[:, None] - output.slope[:, None] * zeta
        line = self.loss.clip(output.leverage[:, None])
        if line is None:
            raise TypeError(f"{self.loss} is a loss of labels +-1")
        inner, sqrt = output.variance - output.slope**2, library_of(mu).xp.sqrt
        return [
            (zeta, weight * mass, Clipped.of(mu, sqrt(inner + scale**2)[:, None], *line))
            for weight, scale in self.labels.seen_by(self.loss)
        ]

    def _real(self, output: Output) -> Pull:
        totals = 4 * [0 * output.mean]
        for zeta, mass, of in self.residuals(output):
            each = (of.slope, of.mean, zeta * of.mean, of.square)
            totals = [total + (mass * x).sum(-1) for total, x in zip(totals, each, strict=True)]
        return Pull(*totals)


class Clipped(NamedTuple):
    """Of g = clip(k x, k low, k high) with x ~ N(mu, D^2)."""

    slope: Float[Array, "*shape"]  # E dg/dx
    mean: Float[Array, "*shape"]  # E g
    square: Float[Array, "*shape"]  # E g^2
    crossed: Float[Array, "*shape"]  # E g x = mu E g + D^2 E dg/dx

    @classmethod
    def of(
        cls,
        mu: Float[Array, "*shape"],
        spread: Float[Array, "*shape"],
        k: Float[Array, "*shape"],
        low: Float[Array, "*shape"],
        high: Float[Array, "*shape"],
    ) -> Clipped:
        lib = library_of(mu)
        xp, ndtr = lib.xp, lib.special.ndtr
        low, high = xp.maximum(low, -1e30), xp.minimum(high, 1e30)  # the square loss has no ends
        a, b = (low - mu) / spread, (high - mu) / spread
        below, above = ndtr(a), ndtr(-b)
        inside = ndtr(b) - below
        # Beyond 37 standard deviations nothing is left, and squares of far ends would overflow.
        da, db = (xp.exp(-(xp.clip(x, -37, 37) ** 2) / 2) / math.sqrt(2 * math.pi) for x in (a, b))
        slopes = spread * (db - da)
        ends = spread**2 * (xp.clip(b, -60, 60) * db - xp.clip(a, -60, 60) * da)
        mean = k * (low * below + high * above + mu * inside - slopes)
        square = (mu**2 + spread**2) * inside - 2 * mu * slopes - ends
        square = k**2 * (low * (low * below) + high * (high * above) + square)
        return cls(k * inside, mean, square, mu * mean + spread**2 * k * inside)


def bends(
    loss: Loss, leverage: Float[Array, "*shape"], at_zero: bool
) -> list[Float[Array, "*shape"] | float]:
    """The f0 at which the score of labels +-1 bends; and where f0 and the proximal point vanish."""
    found: list[Float[Array, "*shape"] | float] = []
    for y in (1.0, -1.0):
        kinks = loss.kinks(leverage)
        found += [y * kink if loss.is_margin else y - kink for kink in kinks]
        if at_zero:  # f = f0 + V g = 0 at f0 = (V/2) dl/df(y, 0)
            slope = float(loss.slope(np.array(y), np.array(0.0)))
            found.append(leverage / 2 * slope)
    return [*found, 0.0] if at_zero else found


def square_slope(slope: Float[Array, "*terms K"]) -> Float[Array, " K"]:
    """|t|^2."""
    return slope**2 if slope.ndim == 1 else np.sum(slope**2, 0)


def tame(output: Output) -> Output:
    """V not below 1e-6 of its largest (which at enormous ridges is rounding), and v above t^2."""
    xp = library_of(output.mean).xp
    least = SMALLEST_LEVERAGE * xp.maximum(xp.max(output.leverage), 1e-300)
    return output._replace(
        leverage=xp.maximum(output.leverage, least),
        variance=xp.maximum(output.variance, square_slope(output.slope) * (1 + 1e-9) + 1e-300),
    )
