"""Inputs N(0, Omega) as the theory sees them: levels of the spectrum and their moments.

Omega has eigenvalues varpi_j of mean 1; the teacher is scaled to theta^T Omega theta = 1. Averages
over the spectrum and over the teacher's part in it are

    <f> = (1/d) sum_j f(varpi_j),   <f>_t = sum_j t_j f(varpi_j),   t_j = varpi_j theta_j^2
    O_k = <varpi^k>,  O_1 = 1,      T_k = <varpi^k>_t,  T_0 = 1.

Moments are those of all eigenvalues. Functions of varpi that the equations average have their poles
at varpi <= 0, so the ``levels`` are fewer: panels on which varpi changes by a factor of at most
four, each with the Gauss nodes of its eigenvalues, at which the teacher's weights keep its moments
(they may be negative).

Traces of words in M = X0^T diag(yhat) X0/n0, S' = X0^T diag(yhat^2) X0/n0 and Omega: the letters
of a word are powers of yhat (M: 1, S': 2), each followed by a power of Omega, and

    (1/d) tr prod_i (letter_i Omega^(p_i)) = sum over the non-crossing partitions of the letters of
        prod over blocks E[yhat^(sum of letters)]/alpha0^(size - 1)
        prod over blocks of the complement O_(sum (p_i + 1)).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from firststep.typing import Array, Float

# Of the ends of a panel: seen from its middle the poles are 5/3 of its half-width away.
_RATIO = 4.0
_NODES = 12  # of a panel: the risk is then that of all eigenvalues to 1e-9
_SMALL = 1e-6  # of the largest eigenvalue: those below are one panel
_HIGHEST = 7  # moment: tr (Omega M^2)^2 has O_6
_CLUSTERED = 1e-8  # of a panel's half-width: fewer nodes are all there are
_SAME = 1e-12  # eigenvalues that differ by less are one level
_LEAST = 1e-12  # of a level: the equations of a pencil of two blocks divide by it


class Spectrum(Protocol):
    """Eigenvalues, the masses of their average, and the shares t of the teacher."""

    @property
    def eigenvalues(self) -> Float[Array, " s"]: ...
    @property
    def masses(self) -> Float[Array, " s"]: ...
    @property
    def shares(self) -> Float[Array, " s"]: ...


class Medium(NamedTuple):
    """Levels and moments. Tuples of numbers, so that it can key what is kept."""

    levels: tuple[float, ...]  # varpi, the largest first
    masses: tuple[float, ...]
    shares: tuple[float, ...]
    o: tuple[float, ...]  # O_0, O_1, ...
    t: tuple[float, ...]  # T_0, T_1, ...

    @classmethod
    def of(cls, spectrum: Spectrum) -> Medium:
        """The levels of a spectrum."""
        values, masses, shares = _grouped(spectrum)
        powers = values[:, None] ** np.arange(_HIGHEST + 1)
        levels, few, parts = _compressed(values, masses, shares)
        return cls(
            levels=tuple(map(float, np.maximum(levels, _LEAST))),
            masses=tuple(map(float, few)),
            shares=tuple(map(float, parts)),
            o=(1.0, 1.0, *map(float, (masses @ powers)[2:])),
            t=(1.0, *map(float, (shares @ powers)[1:])),
        )

    def on_levels(self) -> Medium:
        """With the moments of the levels, where what cancels exactly must be averaged alike."""
        powers = np.array(self.levels)[:, None] ** np.arange(_HIGHEST + 1)
        o, t = np.array(self.masses) @ powers, np.array(self.shares) @ powers
        return self._replace(o=tuple(map(float, o)), t=tuple(map(float, t)))


_ONES = (1.0,) * (_HIGHEST + 1)
ISOTROPIC = Medium((1.0,), (1.0,), (1.0,), _ONES, _ONES)  # Omega = 1


# Fewer levels than eigenvalues --------------------------------------------------------------------


def _grouped(
    spectrum: Spectrum,
) -> tuple[Float[Array, " s"], Float[Array, " s"], Float[Array, " s"]]:
    """Eigenvalues from the largest, equal ones as one."""
    order = np.argsort(-spectrum.eigenvalues, kind="stable")
    values = spectrum.eigenvalues[order]
    gaps = values[:-1] - values[1:] > _SAME * values[0]
    group = np.concatenate([[0], np.cumsum(gaps)])
    masses = np.bincount(group, spectrum.masses[order])
    shares = np.bincount(group, spectrum.shares[order])
    return values[np.concatenate([[True], gaps])], masses / masses.sum(), shares / shares.sum()


def _compressed(
    values: Float[Array, " s"], masses: Float[Array, " s"], shares: Float[Array, " s"]
) -> tuple[Float[Array, " levels"], Float[Array, " levels"], Float[Array, " levels"]]:
    """The nodes of all panels, with their masses and shares."""
    if values.size <= 2 * _NODES:
        return values, masses, shares
    span = values[0] / max(values[-1], _SMALL * values[0])
    count = max(math.ceil(math.log(span) / math.log(_RATIO)), 1)
    ends = values[0] * span ** (-np.arange(1, count) / count)
    cuts = [0, *np.searchsorted(-values, -ends, side="right"), values.size]
    parts = [
        _gauss(values[a:b], masses[a:b], shares[a:b]) for a, b in itertools.pairwise(cuts) if b > a
    ]
    levels, few, some = np.concatenate(parts, axis=1)
    return levels, few, some


def _gauss(
    values: Float[Array, " s"], masses: Float[Array, " s"], shares: Float[Array, " s"]
) -> Float[Array, "3 nodes"]:
    """The Gauss nodes x_i of the values under their masses, by Lanczos' method; shares t_i that
    integrate the orthonormal polynomials p_k: t_i = sum_k lambda_i p_k(x_i) <p_k>_t.
    """
    if values.size <= _NODES:
        return np.stack([values, masses, shares])
    centre, half = (values[0] + values[-1]) / 2, (values[0] - values[-1]) / 2
    x, total = (values - centre) / half, masses.sum()
    vectors, polynomials = [np.sqrt(masses / total)], [np.ones_like(x), np.zeros_like(x)]
    diagonal, beside = [], [0.0]
    for k in range(_NODES):
        moved = x * vectors[k]
        diagonal.append(vectors[k] @ moved)
        basis = np.stack(vectors)
        for _ in range(2):  # once more takes off what rounding left
            moved = moved - basis.T @ (basis @ moved)
        size = float(np.linalg.norm(moved))
        if k == _NODES - 1 or size < _CLUSTERED:
            break
        following = ((x - diagonal[k]) * polynomials[k] - beside[k] * polynomials[k - 1]) / size
        polynomials.insert(k + 1, following)
        vectors.append(moved / size)
        beside.append(size)
    side = np.diag(beside[1:], 1)
    nodes, rotation = np.linalg.eigh(np.diag(diagonal) + side + side.T)
    some = rotation[0] * (rotation.T @ (np.stack(polynomials[:-1]) @ shares))
    return np.stack([centre + half * nodes, total * rotation[0] ** 2, some])[:, ::-1]


# Words --------------------------------------------------------------------------------------------


class Words(NamedTuple):
    """Traces of words over some labels: ``trace(letters, powers)``."""

    medium: Medium
    moment: Callable[[int], Float[Array, "batch 1"]]  # mh_j
    alpha0: Float[Array, "batch 1"]

    def trace(self, letters: Sequence[int], powers: Sequence[int]) -> Float[Array, "batch 1"]:
        """(1/d) tr of the word whose letters are each followed by Omega to a power."""
        total = 0 * self.alpha0
        for blocks, gaps in non_crossing(len(letters)):
            product = 1.0 + 0 * self.alpha0
            for block in blocks:
                size = self.alpha0 ** (len(block) - 1)
                product = product * self.moment(sum(letters[i] for i in block)) / size
            for gap in gaps:
                product = product * self.medium.o[sum(powers[i] + 1 for i in gap)]
            total = total + product
        return total


Partition = tuple[tuple[int, ...], ...]


@lru_cache(maxsize=16)
def non_crossing(count: int) -> tuple[tuple[Partition, Partition], ...]:
    """The non-crossing partitions of ``count`` points on a circle, each with its complement: the
    coarsest partition of the gaps after the points that crosses none of its blocks.
    """
    return tuple(
        (blocks, _complement(blocks, count))
        for blocks in _partitions(tuple(range(count)))
        if not any(_cross(a, b) for a in blocks for b in blocks if a < b)
    )


def _partitions(points: tuple[int, ...]) -> list[Partition]:
    if not points:
        return [()]
    first, rest = points[0], points[1:]
    found: list[Partition] = []
    for smaller in _partitions(rest):
        found.append(((first,), *smaller))
        for i, block in enumerate(smaller):
            found.append(((first, *block), *smaller[:i], *smaller[i + 1 :]))
    return found


def _cross(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether two blocks alternate around the circle."""
    sides = [x for _, x in sorted([*((i, 0) for i in a), *((i, 1) for i in b)])]
    changes = sum(x != y for x, y in zip(sides, [*sides[1:], sides[0]], strict=True))
    return changes > 2


def _complement(blocks: Partition, count: int) -> Partition:
    """Gap i lies after point i: two gaps are together where no block has points on both sides."""
    groups: list[list[int]] = []
    for gap in range(count):
        for group in groups:
            between = set(range(group[0] + 1, gap + 1))
            if all(set(block) <= between or not set(block) & between for block in blocks):
                group.append(gap)
                break
        else:
            groups.append([gap])
    return tuple(tuple(group) for group in groups)
