"""Inputs N(0, Omega) as the theory sees them: levels of the spectrum and their moments.

Omega has eigenvalues varpi_j of mean 1; the teacher is scaled to theta^T Omega theta = 1. Averages
over the spectrum and over the teacher's part in it are

    <f> = (1/d) sum_j f(varpi_j),   <f>_t = sum_j t_j f(varpi_j),   t_j = varpi_j theta_j^2
    O_k = <varpi^k>,  O_1 = 1,      T_k = <varpi^k>_t,  T_0 = 1.

Moments are those of all eigenvalues. Functions of varpi that the equations average are smooth, so
the ``levels`` are fewer: the largest eigenvalues one by one, the others in bins of geometric width
with two Gauss nodes each, at which the teacher's weights keep the bin's sums of t and t varpi (they
may be negative).

Traces of words in M = X0^T diag(yhat) X0/n0, S' = X0^T diag(yhat^2) X0/n0 and Omega: the letters
of a word are powers of yhat (M: 1, S': 2), each followed by a power of Omega, and

    (1/d) tr prod_i (letter_i Omega^(p_i)) = sum over the non-crossing partitions of the letters of
        prod over blocks E[yhat^(sum of letters)]/alpha0^(size - 1)
        prod over blocks of the complement O_(sum (p_i + 1)).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from firststep.typing import Array, Float

_ALONE = 40  # of the largest eigenvalues
_BINS = 40  # of the others: the risk is then that of all eigenvalues to 1e-6
_HIGHEST = 7  # moment: tr (Omega M^2)^2 has O_6
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
    if values.size <= _ALONE + 2 * _BINS:
        return values, masses, shares
    cuts = np.geomspace(_ALONE, values.size, _BINS + 1).round().astype(int)
    parts = [np.stack([values[:_ALONE], masses[:_ALONE], shares[:_ALONE]])]
    parts += [
        _two_nodes(values[a:b], masses[a:b], shares[a:b])
        for a, b in itertools.pairwise(cuts)
        if b > a
    ]
    levels, few, some = np.concatenate(parts, axis=1)
    return levels, few, some


def _two_nodes(
    values: Float[Array, " s"], masses: Float[Array, " s"], shares: Float[Array, " s"]
) -> Float[Array, "3 nodes"]:
    """The two Gauss nodes of the values of a bin, with masses and shares."""
    total, centre = masses.sum(), masses @ values / masses.sum()
    apart = values - centre
    variance = masses @ apart**2 / total
    if values.size < 3 or variance <= (_SAME * values[0]) ** 2:
        return np.stack([values, masses, shares])
    skew = masses @ apart**3 / (total * variance)  # the sum of the two nodes
    root = np.sqrt(skew**2 / 4 + variance)
    nodes = np.array([skew / 2 + root, skew / 2 - root])
    upper = -nodes[1] / (nodes[0] - nodes[1])
    t, along = shares.sum(), shares @ apart
    t_upper = (along - t * nodes[1]) / (nodes[0] - nodes[1])
    return np.stack([centre + nodes, total * np.array([upper, 1 - upper]), [t_upper, t - t_upper]])


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
