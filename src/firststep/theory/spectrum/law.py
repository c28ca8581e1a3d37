"""The spectrum of the first layer and of its conjugate kernel after the step.

Bulk density, edges, atoms and outliers.

``spectral_law(problem, "weights")`` is the law of the singular values s of W1,
``spectral_law(problem, "kernel")`` that of the eigenvalues of F^T F/n, F = s(X W1) on n fresh
samples. The equations are in ``resolvent``, those of the outliers in ``outliers``.

The bulk is looked for on a logarithmic grid of eigenvalues x. Where the density begins or ends it
falls like the square root of the distance to the edge, so its square is extrapolated to zero. In
each band the density is then computed at

    s = (low + high)/2 + (high - low)/2 cos(t_j),   t_j = (j - 1/2) pi/J,   s = sqrt x,

(a band that begins at zero: s = high cos(t_j/2)^3), where the midpoint rule in t integrates a
density with such edges to many digits. Its total with the atoms is ``mass``, which has to be 1.

Labels and readouts without a bound give the bulk a tail without an edge. Their nodes turn its end
into separate small pieces: those with less than 1 % of the mass count as part of the band next to
them, those with less than 0.03 % as nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from firststep.checks import choice
from firststep.errors import NotConverged
from firststep.numerics.threads import one_thread
from firststep.problem import Problem
from firststep.results import per_cent, plain
from firststep.theory.one_step.question import BULKS
from firststep.theory.spectrum import outliers
from firststep.theory.spectrum.resolvent import LIMIT, MATRICES, SPACING, Track, ensemble
from firststep.theory.step import spectrum_alone

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from firststep.typing import Array, Float

# Of each band: more only where they are needed, the last only where they cost little.
POINTS = (96, 192, 384)
TOLERANCE = 1e-3  # of the mass
# Resolution, spacing of log x in the search for bands, and mass of a band that is left out.
_ATTEMPTS = (
    (0, SPACING, 3e-4),
    (0, 0.05, 3e-4),
    (0, 0.05, 3e-5),
    (1, SPACING, 3e-4),
    (1, 0.05, 3e-5),
    (1, 0.012, 3e-5),
)
_SECTIONS = 24  # of the interval of log x that holds an edge
_INNER = 4  # places inside from which it is extrapolated
_FLOOR = 3e-6  # density per unit of log x that counts as none
_MOST_BANDS = 3  # of a Gaussian readout
# Places of the grid beyond the last with a density, where the largest eigenvalues of the inputs may
# have small bands of their own, of mass 1/N each.
_BEYOND = 5
_TAIL = 1e-2  # mass of one that is joined to its neighbour


@dataclass(frozen=True, eq=False)
class SpectralLaw:
    """The limiting law of N values: singular values of W1, or eigenvalues of F^T F/n.

    ``density`` is with respect to ``values`` and, with the weights of the atoms, has the total
    ``mass`` = 1. Outliers are single values of weight 1/N; at d = infinity those that grow with N
    are infinite.
    """

    problem: Problem
    of: str  # weights or kernel
    bulk: str  # exact or isotropic
    values: Float[Array, " x"]  # ascending, from edge to edge of every band
    density: Float[Array, " x"]
    bands: tuple[tuple[float, float], ...]  # where the density is positive, ascending
    # (place, weight): the zeros of a matrix without full rank
    atoms: tuple[tuple[float, float], ...]
    outliers: tuple[float, ...]  # largest first
    mass: float
    steps: Float[Array, " s"]  # places between which ``cumulative`` is known, ascending
    heights: Float[Array, " s"]  # its values there, without the atoms

    @property
    def edges(self) -> tuple[float, float]:
        """The lowest and the highest value of the bulk."""
        return self.bands[0][0], self.bands[-1][1]

    @property
    def zeros(self) -> float:
        """The share of values that are zero."""
        return math.fsum(weight for _, weight in self.atoms)

    def cumulative(self, values: ArrayLike) -> Float[Array, "*shape"]:
        """The share of the bulk below each value; without zeros and outliers, so it ends at 1."""
        below = np.interp(np.asarray(values, float), self.steps, self.heights)
        return np.asarray(below / self.heights[-1])

    def quantile(self, share: ArrayLike) -> Float[Array, "*shape"]:
        """The value below which this share of the bulk lies."""
        return np.asarray(np.interp(np.asarray(share) * self.heights[-1], self.heights, self.steps))

    def to_dict(self) -> dict[str, Any]:
        """Plain values fit for JSON."""
        return {
            "problem": self.problem.to_dict(),
            "of": self.of,
            "bulk": self.bulk,
            "edges": list(self.edges),
            "bands": [list(band) for band in self.bands],
            "atoms": [list(atom) for atom in self.atoms],
            "outliers": [plain(value) for value in self.outliers],
            "mass": self.mass,
            "values": plain(self.values),
            "density": plain(self.density),
        }


@one_thread
def spectral_law(problem: Problem, of: str = "weights", bulk: str = "exact") -> SpectralLaw:
    """The predicted spectrum ``of`` the first layer or of its kernel, after the step.

    weights: the singular values of W1 (d x N), with the zeros of W1^T W1 if N > d. kernel: the
    eigenvalues of F^T F/n for the features F = s(X W1) of n fresh samples, without 1/sqrt N: the
    ridge is added to these. ``bulk="isotropic"`` replaces the covariance of the trained rows by a
    multiple of the identity.

    d = infinity: as for ``predict``. Raises ``NotConverged`` if the mass is not 1 to 0.001.
    """
    of, bulk = choice("of", of, MATRICES), choice("bulk", bulk, BULKS)
    spectrum_alone(problem)
    try:
        with np.errstate(all="ignore"):
            track, bands, shape = _bulk(problem, of, bulk)
            found = _outliers(track, bands)
            if problem.dimension == math.inf:  # what grows with N is infinite
                smaller = Track(ensemble(problem, of, bulk, limit=LIMIT // 100))
                settled = np.array(_outliers(smaller, bands) or [0.0])
                found = [z if np.min(np.abs(settled / z - 1)) < 0.01 else math.inf for z in found]
    except np.linalg.LinAlgError:
        told = f"the equations of the spectrum of the {of} are singular; try a smaller step"
        raise NotConverged(told) from None
    zeros = track.made.zeros

    def unit(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return np.sqrt(x) if of == "weights" else x

    edges = unit(np.array(bands))
    above = unit(np.array(sorted(found, reverse=True)))

    return SpectralLaw(
        problem=problem,
        of=of,
        bulk=bulk,
        values=unit(shape.places),
        density=shape.density * (2 * np.sqrt(shape.places) if of == "weights" else 1.0),
        bands=tuple((float(low), float(high)) for low, high in edges),
        atoms=((0.0, zeros),) if zeros > 0 else (),
        outliers=tuple(float(z) for z in above),
        mass=shape.mass + zeros,
        steps=unit(shape.steps),
        heights=shape.heights,
    )


def _outliers(track: Track, bands: list[tuple[float, float]]) -> list[float]:
    """Eigenvalues above the bulk and in its gaps."""
    found = outliers.above(track, bands[-1][1])
    for (_, low), (high, _) in pairwise(bands):
        found += outliers.between(track, low, high)
    return found


def _bulk(problem: Problem, of: str, bulk: str) -> tuple[Track, list[tuple[float, float]], _Shape]:
    """The bulk at the first resolution that holds all of its mass."""
    for level, spacing, sliver in _ATTEMPTS:
        if spacing == SPACING:
            track = Track(ensemble(problem, of, bulk, level))
        bands = _bands(track, spacing, sliver)
        if not bands:
            total = track.made.zeros
            continue
        if problem.readout.is_gaussian and len(bands) > 1:
            _check_gaps(problem, of, bulk, bands)
        shape = _resolved(track, bands)
        total = shape.mass + track.made.zeros
        if abs(total - 1) <= TOLERANCE * track.share and not (shape.has_gap and spacing == SPACING):
            return track, bands, shape
        if level == 0 and sliver < _ATTEMPTS[0][2] and track.made.has_many_values:
            break  # more of them would take minutes
    missed = f"{per_cent(abs(total - 1) / (1 - track.made.zeros))} of its mass"
    reached = f"{missed} is missing or too much, and it is not returned; try a smaller step"
    raise NotConverged(f"the spectrum of the {of} could not be resolved: {reached}")


def _check_gaps(problem: Problem, of: str, bulk: str, bands: list[tuple[float, float]]) -> None:
    """Refuse gaps between the values that stand for a Gaussian readout: many, or moving ones."""
    fewer = Track(ensemble(problem, of, bulk, 2))
    if not fewer.made.has_many_values:
        return
    inside = [np.linspace(low, high, 9)[2:-2] for (_, low), (high, _) in pairwise(bands)]
    if len(bands) > _MOST_BANDS or np.any(
        fewer.density(np.concatenate(inside)) > _FLOOR * fewer.share
    ):
        hint = "try a larger beta, a smaller step or a readout of few values"
        needs = "needs more values of the Gaussian readout than can be computed"
        raise NotConverged(f"the spectrum of the {of} {needs}; {hint}")


def _bands(track: Track, spacing: float, sliver: float) -> list[tuple[float, float]]:
    """Intervals of x where the density is positive."""
    x, density = track.x, track.density_on_grid
    gap = math.log(x[-1] / x[-2])
    floor = _FLOOR * track.share
    seen = np.flatnonzero(density > floor)
    if not seen.size:  # between two places of the grid
        smoothed = track.smoothed(track.state, x)
        seen = np.flatnonzero(smoothed > min(0.05 * track.share, smoothed.max() / 2))
    if spacing < gap:
        levels = track.made.system.bulk.levels
        beyond = 1 if levels is None or levels.value.shape[1] == 1 else _BEYOND
        last = min(seen[-1] + beyond, x.size - 1)
        low, high = math.log(x[max(seen[0] - 1, 0)]), math.log(x[last])
        x = np.exp(np.linspace(low, high, math.ceil((high - low) / spacing)))
        density, gap = track.density(x), math.log(x[1] / x[0])
    inside = density > floor
    ends = np.flatnonzero(np.diff(np.concatenate([[False], inside, [False]]).astype(int)))
    masses = [(a, b, density[a:b].sum() * gap) for a, b in ends.reshape(-1, 2)]
    # Masses are those of the values that are no zeros.
    runs = _joined(
        [(a, b, mass / track.share) for a, b, mass in masses if mass > sliver * track.share]
    )
    brackets = [(x[a - 1], x[a]) for a, _ in runs if a > 0]
    brackets += [(x[b], x[b - 1]) for _, b in runs if b < x.size]
    edges = iter(_edges(track, np.array(brackets).reshape(-1, 2)))
    lows = [float(next(edges)) if a > 0 else 0.0 for a, _ in runs]
    highs = [float(next(edges)) if b < x.size else float(x[-1]) for _, b in runs]
    return list(zip(lows, highs, strict=True))


def _joined(runs: list[tuple[int, int, float]]) -> list[tuple[int, int]]:
    """Runs of places with their mass, tails joined to the band next to them."""
    kept: list[tuple[int, int, float]] = []
    for run in runs:
        if kept and min(run[2], kept[-1][2]) < _TAIL:
            first, _, mass = kept.pop()
            run = (first, run[1], mass + run[2])
        kept.append(run)
    return [(first, last) for first, last, _ in kept]


def _edges(track: Track, brackets: Float[Array, "edges 2"]) -> Float[Array, " edges"]:
    """The edges between places outside and inside: where the density's square extrapolates to 0."""
    if not len(brackets):
        return np.empty(0)
    logs = np.log(brackets)
    step = (logs[:, 1] - logs[:, 0]) / _SECTIONS
    fine = logs[:, :1] + step[:, None] * np.arange(_SECTIONS + _INNER)
    density = np.zeros_like(fine)
    density[:, 1:] = track.density(np.exp(fine[:, 1:]).ravel()).reshape(len(fine), -1)
    # The end of the bracket is always inside.
    first = np.argmax(density[:, : _SECTIONS + 1] > _FLOOR * track.share, axis=1)
    rows = np.arange(len(fine))[:, None]
    inner = first[:, None] + np.arange(_INNER)
    square, place = density[rows, inner] ** 2, fine[rows, inner]
    at = np.zeros(len(fine))
    for j in range(_INNER):  # log x as a polynomial in density^2, by Lagrange's formula at zero
        others = np.delete(square, j, axis=1)
        at += place[:, j] * np.prod(others / (others - square[:, j : j + 1]), axis=1)
    outer = fine[rows[:, 0], first - 1]
    low, high = np.minimum(outer, place[:, 0]), np.maximum(outer, place[:, 0])
    return np.asarray(np.exp(np.where((at >= low) & (at <= high), at, (low + high) / 2)))


class _Shape(NamedTuple):
    """The bulk in x."""

    places: Float[Array, " x"]
    density: Float[Array, " x"]  # with respect to x, zero at the edges
    mass: float
    steps: Float[Array, " s"]
    heights: Float[Array, " s"]
    has_gap: bool  # a place inside a band without density


def _resolved(track: Track, bands: list[tuple[float, float]]) -> _Shape:
    """The density on as many points as its mass needs."""
    shape = _density(track, bands, POINTS[0])
    for points in POINTS[1:2] if track.made.has_many_values else POINTS[1:]:
        if abs(shape.mass + track.made.zeros - 1) < TOLERANCE / 5 * track.share:
            break
        finer = _density(track, bands, points)
        settled = abs(finer.mass - shape.mass) < TOLERANCE / 20 * track.share
        shape = finer
        if settled:
            break
    return shape


def _density(track: Track, bands: list[tuple[float, float]], points: int) -> _Shape:
    t = (np.arange(points) + 0.5) * math.pi / points
    cells = np.arange(points + 1) * math.pi / points
    places, density, steps, heights = [], [], [], []
    total, has_gap = 0.0, False
    for low, high in bands:
        if low == 0:
            top = math.sqrt(high)
            s, borders = top * np.cos(t / 2) ** 3, top * np.cos(cells / 2) ** 3
            weights = 1.5 * top * np.cos(t / 2) ** 2 * np.sin(t / 2) * math.pi / points
        else:
            middle = (math.sqrt(high) + math.sqrt(low)) / 2
            half = (math.sqrt(high) - math.sqrt(low)) / 2
            s, borders = middle + half * np.cos(t), middle + half * np.cos(cells)
            weights = half * np.sin(t) * math.pi / points
        s, borders, weights = s[::-1], borders[::-1], weights[::-1]
        floor = track.x[0]  # below this a density that reaches down to zero goes on as a power of x
        per_log = track.density(np.maximum(s**2, floor))
        if s[0] ** 2 < floor:
            near, far = track.density(np.array([floor, 3 * floor]))
            per_log *= np.minimum(s**2 / floor, 1.0) ** (math.log(far / near) / math.log(3))
        below = np.cumsum(2 * per_log / s * weights)
        least = _TAIL * track.share
        split = (per_log < _FLOOR * track.share) & (below > least) & (below[-1] - below > least)
        has_gap = has_gap or bool(split.any())
        start = 0 if low > 0 else 1  # no density is known at zero itself
        places.append(np.array([low, *s**2, high])[start:])
        density.append(np.array([0.0, *per_log / s**2, 0.0])[start:])
        steps.append(borders**2)
        heights.append(total + np.array([0.0, *below]))
        total += float(below[-1])
    return _Shape(
        places=np.concatenate(places),
        density=np.concatenate(density),
        mass=total,
        steps=np.concatenate(steps),
        heights=np.concatenate(heights),
        has_gap=has_gap,
    )
