"""Nodes for the coordinates kappa along up to three directions of a given layer and teacher."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.activations import Activation
from firststep.errors import InvalidParameter, NotConverged
from firststep.numerics.batches import Places
from firststep.numerics.neuron_moments import Family, TooSteep
from firststep.numerics.quadrature import gaussian_product, shifted_moments
from firststep.theory.binary import BinaryLabels
from firststep.theory.terms import LabelMoments, Terms

if TYPE_CHECKING:
    from firststep.typing import Array, Float, Int

REACH = 6.0  # the grid ends at |kappa| = 6, where the density is 1.5e-8 of its maximum
# Relative, on what the matrices of the layer are made of, by the number of directions: every one
# of them multiplies the number of nodes.
TOLERANCES = {1: 1e-6, 2: 1e-5, 3: 1e-4}
OF_JUMPS = 1e-4  # the same where a label of several terms jumps: its own integrals are as good
ACCEPTED = 1e-3  # where the grid may not become finer
MOST_NODES = 6000  # with as many neurons the tables of moments take a gigabyte
TEACHER_NODES = 480  # of its inner integrals, which cost nothing
NARROW = 1e-9  # width of a teacher that lies inside the directions
_PROBES = 20  # neurons whose integrals are watched
# Spacings for a loss other than the square, by the number of directions: its error rates vary over
# sqrt(v)/m', which says nothing in the layer.
FOR_A_LOSS = {1: 0.1, 2: 0.25, 3: 1.0}


class TooManyNodes(InvalidParameter):
    """The grid would be too large for what it has to resolve."""


@dataclass(frozen=True)
class Neurons:
    """The neurons in the coordinates of the directions: s(bias_i + u_i.kappa + sqrt(c_i) z)."""

    student: Activation
    bias: Float[Array, " N"]
    along: Float[Array, "k N"]  # u
    scale: Float[Array, " N"]  # sqrt(c_i)

    def moments(
        self, kappa: Float[Array, "K k"]
    ) -> tuple[Float[Array, "K N"], Float[Array, "K N"], Float[Array, "K N"]]:
        """mu0, mu1 and mu2."""
        strength, place = np.zeros_like(self.scale), np.zeros((len(kappa), 1))
        if len(self.along) == 1:
            strength, place = self.along[0], kappa
        if len(self.along) > 1:
            strength = np.linalg.norm(self.along, axis=0)
            place = kappa @ (self.along / np.maximum(strength, 1e-300))
        evaluate, kinks = self.student.evaluate, self.student.kinks
        try:
            return Family(evaluate, kinks, self.bias, strength, self.scale).moments(place)
        except TooSteep as error:
            raise NotConverged(f"the student: {error}") from None

    def some(self, places: Places) -> Neurons:
        return Neurons(self.student, self.bias[places], self.along[:, places], self.scale[places])


@dataclass(frozen=True)
class Target:
    """The teacher in them: y = sum_j s_j(gamma_j.kappa + <theta_j, x_perp>) + noise.

    Or labels +-1 whose law is a function of such a sum. Several terms that make labels +-1 have
    their moments in the coordinates of ``mixing``, in which <theta_j, x_perp> = sum_l R_jl zeta_l.
    """

    terms: tuple[Activation, ...]  # s_j
    gamma: Float[Array, "k J"]
    across: Float[Array, "J J"]  # Gram matrix of the theta_j without their parts along
    noise: float  # standard deviation
    binary: BinaryLabels | None = None
    mixing: Float[Array, "J r"] | None = None  # R, where there are several terms

    @property
    def several(self) -> Terms | None:
        """The terms in their coordinates across."""
        return None if self.mixing is None else Terms(self.terms, self.mixing, self.binary)

    def moments(self, kappa: Float[Array, "K k"]) -> LabelMoments:
        """h0 = E y, h1_j = E s_j' and h2 = E y^2, all given kappa."""
        shift = kappa @ self.gamma
        if self.several is not None and self.binary is not None:
            return self.several.moments(shift)
        if self.binary is not None:
            a, b = shift[:, 0], np.full(len(shift), self.width)
            label = shifted_moments(self.binary.mean, a, b, self.binary.cuts, TEACHER_NODES)
            return LabelMoments(label.mean, label.slope[:, None], np.ones(len(shift)))
        widths = np.maximum(np.sqrt(np.diag(self.across)), NARROW)
        single = [
            shifted_moments(term.evaluate, a, np.full_like(a, width), term.kinks, TEACHER_NODES)
            for term, a, width in zip(self.terms, shift.T, widths, strict=True)
        ]
        h0 = np.sum([each.mean for each in single], axis=0)
        h1 = np.stack([each.slope for each in single], axis=1)
        second = h0**2 + self.noise**2
        for j, (one, each) in enumerate(zip(self.terms, single, strict=True)):
            second = second + each.scatter + (widths[j] * each.slope) ** 2
            for other in range(j):
                correlation = float(self.across[j, other] / (widths[j] * widths[other]))
                pair = gaussian_product(
                    (one.evaluate, self.terms[other].evaluate),
                    (one.kinks, self.terms[other].kinks),
                    (shift[:, j], shift[:, other]),
                    (widths[j], widths[other]),
                    correlation,
                )
                second = second + 2 * (pair - each.mean * single[other].mean)
        return LabelMoments(h0, h1 if self.mixing is None else h1 @ self.mixing, second)

    @property
    def width(self) -> float:
        """rho of a single term: what the directions leave of it; of several, of coordinates."""
        if self.mixing is not None:
            return 1.0
        return max(float(np.sqrt(self.across[0, 0])), NARROW)

    def label_variance(self, kappa: Float[Array, "K k"]) -> Float[Array, " K"]:
        """Of y given kappa and the teacher's coordinates: what no fit explains."""
        if self.binary is None:
            return np.full(len(kappa), self.noise**2)
        if self.several is not None:
            return self.several.label_variance(kappa @ self.gamma)
        return self.binary.variance((kappa @ self.gamma)[:, 0], self.width)

    @property
    def steepness(self) -> Float[Array, " k"]:
        """By direction: how fast the teacher changes against its width across."""
        widths = np.sqrt(np.diag(self.across))
        return (np.abs(self.gamma) / np.maximum(widths, 0.05)).max(axis=1)


@dataclass(frozen=True)
class Grid:
    """Nodes with weights that add up to 1, and how much a finer grid would change."""

    kappa: Float[Array, "K k"]
    omega: Float[Array, " K"]
    spacing: tuple[float, ...]
    error: float


def make_grid(neurons: Neurons, target: Target, for_a_loss: bool = False) -> Grid:
    """A product of trapezoid rules inside the ball |kappa| <= 6.

    Each direction is refined until halving its spacing changes nothing. Watched, for some neurons
    with the steepest among them: sum omega f f' for f, f' among mu0, mu1, h0, h1, and sum omega f
    for mu2 and h2, relative to their size.
    """
    if not len(neurons.along):
        return Grid(np.zeros((1, 0)), np.ones(1), (), 0.0)
    steep = np.abs(neurons.along) / neurons.scale
    probes = neurons.some(_probes(neurons.along, steep))
    steepest = np.maximum(steep.max(axis=1), target.steepness)
    widest = FOR_A_LOSS[len(steepest)] if for_a_loss else 1.0
    spacing = [min(widest, 1.0 / float(np.hypot(1.0, s))) for s in steepest]
    while _size(spacing) > MOST_NODES and max(spacing) < 1.0:
        spacing = [min(1.0, 1.1 * each) for each in spacing]
    current = _watched(probes, target, spacing)
    errors = [0.0] * len(spacing)
    enough = TOLERANCES[len(spacing)]
    if target.several is not None and target.binary is not None:
        enough = max(enough, OF_JUMPS)
    for place in range(len(spacing)):
        while True:
            finer = [each / 2 if j == place else each for j, each in enumerate(spacing)]
            next_one = _watched(probes, target, finer)
            errors[place] = _gap(current, next_one)
            if errors[place] <= enough or _size(finer) > MOST_NODES:
                break
            spacing, current = finer, next_one
    error = sum(errors)
    if not error <= ACCEPTED:
        allowed = "directions along which the layer and the teacher are smoother"
        given = f"{len(spacing)} that need more than {MOST_NODES} nodes"
        raise TooManyNodes("directions", allowed, given, "try fewer directions")
    return Grid(*_grid(spacing), tuple(spacing), error)


def _probes(along: Float[Array, "k N"], steep: Float[Array, "k N"]) -> Int[Array, " some"]:
    steepest = [np.argsort(row)[-3:] for row in steep]
    spread = np.linspace(0, along.shape[1] - 1, min(_PROBES, along.shape[1])).astype(int)
    by_strength = np.argsort(along[0])[spread]
    return np.unique(np.concatenate([*steepest, by_strength]))


def _size(spacing: list[float]) -> float:
    """About how many nodes a grid has: the ball's volume over that of a cell."""
    ball = {1: 2 * REACH, 2: np.pi * REACH**2, 3: 4 / 3 * np.pi * REACH**3}[len(spacing)]
    return float(ball / np.prod(spacing))


def _grid(spacing: list[float]) -> tuple[Float[Array, "K k"], Float[Array, " K"]]:
    axes = [h * np.arange(-np.floor(REACH / h), np.floor(REACH / h) + 1) for h in spacing]
    kappa = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(spacing))
    kappa = kappa[(kappa**2).sum(axis=1) <= REACH**2]
    omega = np.exp(-(kappa**2).sum(axis=1) / 2)
    return kappa, omega / omega.sum()


class _Watched(NamedTuple):
    products: Float[Array, "f f"]
    means: Float[Array, " g"]


def _watched(probes: Neurons, target: Target, spacing: list[float]) -> _Watched:
    kappa, omega = _grid(spacing)
    mean, slope, scatter = probes.moments(kappa)
    h0, h1, h2 = target.moments(kappa)
    functions = np.concatenate([mean, slope, h0[:, None], h1], axis=1)
    means = np.concatenate([omega @ scatter, [omega @ h2]])
    return _Watched(functions.T @ (omega[:, None] * functions), means)


def _gap(coarse: _Watched, fine: _Watched) -> float:
    """The largest change, relative to the root mean squares of the two, or to the largest mean."""
    size = np.sqrt(np.maximum(np.diag(fine.products), 0.0))
    # What is next to nothing need not be exact.
    size = np.maximum(size, 1e-3 * max(float(size.max()), 1e-300))
    second = np.abs(coarse.products - fine.products) / np.outer(size, size)
    first = np.abs(coarse.means - fine.means) / max(float(fine.means.max()), 1e-300)
    return float(max(second.max(), first.max()))
