"""A teacher of several terms across some directions: coordinates, and nodes in them.

s = sum_j s_j(u_j) with u_j = <theta_j, x>. Given the coordinates kappa of an input along some
directions, u_j = a_j(kappa) + sum_l R_jl zeta_l, zeta ~ N(0, I) the coordinates of the input along
an orthonormal basis of what the directions leave of the theta_j. The basis is made of one theta_j
after the other, so that R_jl = 0 for l > j: the integral over zeta_l is split where the terms bend
that end there, and the last one where a label jumps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.activations import Activation
from firststep.errors import NotConverged
from firststep.numerics.quadrature import gaussian_panels
from firststep.theory.binary import BinaryLabels

if TYPE_CHECKING:
    from firststep.typing import Array, Float, Int

MOST = 3  # coordinates: the nodes are a grid in as many dimensions
MOST_NODES = 12_000_000  # of kappa and zeta together: half a gigabyte of coordinates
_SCANNED = 4  # how many more places may be looked at, which are not kept
REACH = 6.5  # of a coordinate: beyond, there is 1e-10 of it
_PANELS = {1: (12, 7), 2: (8, 5), 3: (6, 4)}  # and nodes on each, by the number of coordinates
_DEPENDENT = 1e-6  # length of what a direction adds to the basis, below which it adds nothing
_FAR = 99.0  # an edge that is nowhere
_SCAN = np.linspace(-REACH, REACH, 97)  # where a label is looked at for jumps
_MOST_JUMPS = 6  # along one line
_BISECTIONS = 30
# A place where jumps begin, by the number of coordinates: with three there are enough nodes.
_AROUND = {2: (-0.5, -0.1, 0.0, 0.1, 0.5), 3: (0.0,)}
_SIDES = (-6.0, -2.0, 2.0, 6.0)  # widths around a jump that noise makes smooth
_LOGIT = 1.7  # the width of a sigmoid, in Gaussians


class Coordinates(NamedTuple):
    """theta_j = sum_l mixing_jl basis_l, without their parts along the directions."""

    basis: Float[Array, "d r"]
    mixing: Float[Array, "J r"]  # R

    @classmethod
    def of(cls, teachers: Float[Array, "d J"]) -> Coordinates:
        """By Gram and Schmidt; one coordinate at least, of no width if there is none."""
        basis: list[Float[Array, " d"]] = []
        for theta in teachers.T:
            left = theta
            for _ in range(2):  # once leaves rounding of the first pass
                for one in basis:
                    left = left - one * (one @ left)
            size = float(np.linalg.norm(left))
            if size > _DEPENDENT:
                basis.append(left / size)
        if not basis:
            basis.append(np.zeros(len(teachers)))
        columns = np.stack(basis, axis=1)
        mixing = teachers.T @ columns
        return cls(columns, np.where(np.abs(mixing) > _DEPENDENT, mixing, 0.0))


class LabelMoments(NamedTuple):
    """The teacher given kappa: y = h0 + sum_j h1_j <theta_j, x_perp> + the rest; of several terms
    h0 + sum_l h1_l zeta_l.
    """

    h0: Float[Array, " K"]
    h1: Float[Array, "K J"]
    h2: Float[Array, " K"]  # E y^2, with the label noise


class Rest(NamedTuple):
    """Nodes of zeta with their masses, and what the teacher says there."""

    zeta: Float[Array, "r K z"]
    mass: Float[Array, "K z"]
    said: Float[Array, "K z"]  # s


@dataclass(frozen=True)
class Terms:
    """The teacher, and the law of its labels if they are +-1."""

    terms: tuple[Activation, ...]  # s_j
    mixing: Float[Array, "J r"]
    labels: BinaryLabels | None = None

    @property
    def count(self) -> int:
        """r."""
        return int(self.mixing.shape[1])

    def chance(self, said: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """P(y = 1 | s)."""
        law = self.labels
        assert law is not None
        return law.law.probability(said, noise=law.noise, threshold=law.threshold, flip=law.flip)

    @cached_property
    def width(self) -> float:
        """Of a jump of P in s: zero where it is sharp."""
        if self.labels is None:
            return math.inf
        return _LOGIT / self.labels.law.slope if self.labels.law.kind == "logit" else self.noise

    @property
    def noise(self) -> float:
        """Of binary labels."""
        return 0.0 if self.labels is None else self.labels.noise

    def moments(self, shift: Float[Array, "K J"]) -> LabelMoments:
        """Of labels +-1: E y and E zeta y."""
        zeta, mass, said = self.rest(shift)
        weighted = mass * (2 * self.chance(said) - 1)
        return LabelMoments(weighted.sum(-1), (zeta * weighted).sum(-1).T, np.ones(len(shift)))

    def label_variance(self, shift: Float[Array, "K J"]) -> Float[Array, " K"]:
        """Of labels +-1 given zeta: 1 - E (E[y | s])^2."""
        _, mass, said = self.rest(shift)
        return 1 - np.sum(mass * (2 * self.chance(said) - 1) ** 2, -1)

    def rest(self, shift: Float[Array, "K J"]) -> Rest:
        """The nodes given a_j = ``shift``."""
        nodes, (panels, on_each) = len(shift), _PANELS[self.count]
        fixed = np.linspace(-REACH, REACH, panels + 1)
        zeta: list[Float[Array, "K z"]] = []
        mass, u = np.ones((nodes, 1)), shift[:, None, :]
        for place in range(self.count):
            _refuse_beyond(u.shape[0] * u.shape[1] * _SCAN.size / _SCANNED)
            shape = u.shape[:2]
            edges = [np.broadcast_to(fixed, (*shape, fixed.size)), *self._bends(u, place)]
            if self.labels is not None and place + 2 == self.count:
                edges.append(self._changes(u))
            if self.labels is not None and place + 1 == self.count:
                edges.append(self._jumps(u))
            bounds = np.sort(np.clip(np.concatenate(edges, -1), -REACH, REACH), -1)
            _refuse_beyond(bounds.size * on_each)
            new, weights = gaussian_panels(bounds, on_each)
            mass = (mass[..., None] * weights).reshape(nodes, -1)
            zeta = [np.repeat(each, new.shape[-1], axis=1) for each in zeta]
            zeta.append(new.reshape(nodes, -1))
            u = (u[:, :, None, :] + new[..., None] * self.mixing[:, place]).reshape(
                nodes, -1, len(self.terms)
            )
        return Rest(np.stack(zeta), mass, self._said(u))

    def _said(self, u: Float[Array, "*shape J"]) -> Float[Array, "*shape"]:
        return np.sum([term.evaluate(u[..., j]) for j, term in enumerate(self.terms)], axis=0)

    def _along(
        self, u: Float[Array, "K z J"], x: Float[Array, "*shape places"], by: Float[Array, " J"]
    ) -> Float[Array, "K z places"]:
        """s on the lines u + x by."""
        both = enumerate(zip(self.terms, by, strict=True))
        return np.sum([term.evaluate(u[..., j, None] + x * b) for j, (term, b) in both], axis=0)

    def _bends(self, u: Float[Array, "K z J"], place: int) -> list[Float[Array, "K z edges"]]:
        """Where the terms bend that depend on this coordinate and on none after it."""
        found = []
        for j, term in enumerate(self.terms):
            by = self.mixing[j, place]
            if by != 0 and not np.any(self.mixing[j, place + 1 :]) and term.kinks:
                found.append((np.array(term.kinks) - u[..., j, None]) / by)
        return found

    def _jumps(self, u: Float[Array, "K z J"]) -> Float[Array, "K z edges"]:
        """Where s crosses the threshold along the last coordinate, by bisection; and around it,
        where that is smooth.
        """
        assert self.labels is not None
        threshold, last = self.labels.threshold, self.mixing[:, -1]

        def above(x: Float[Array, "K z places"]) -> Float[Array, "K z places"]:
            return self._along(u, x, last) - threshold

        values = above(np.broadcast_to(_SCAN, (*u.shape[:2], _SCAN.size)))
        order, places = _where_it_changes(np.sign(values), lambda x: np.sign(above(x)))
        rise = np.take_along_axis(np.abs(np.diff(values)), order, -1) / (_SCAN[1] - _SCAN[0])
        edges = [places]
        if self.width > 0:
            edges += [places + x * self.width / np.maximum(rise, 1e-9) for x in _SIDES]
        return np.concatenate(edges, -1)

    def _changes(self, u: Float[Array, "K z J"]) -> Float[Array, "K z edges"]:
        """Where, along the last coordinate but one, the number of jumps along the last changes; and
        around it, where P goes like a root.
        """
        assert self.labels is not None
        threshold, (by, last) = self.labels.threshold, self.mixing[:, -2:].T

        def pattern(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
            """The first sign and the number of its changes, as one number."""
            found = np.empty(x.shape)
            for place in range(x.shape[-1]):
                start = u + x[..., place, None] * by
                signs = np.sign(self._along(start, _SCAN, last) - threshold)
                found[..., place] = 3 * (signs[..., 1:] != signs[..., :-1]).sum(-1) + signs[..., 0]
            return found

        every = np.broadcast_to(_SCAN[::4], (*u.shape[:2], _SCAN[::4].size))
        _, places = _where_it_changes(pattern(every), pattern, every)
        return np.concatenate([places + x for x in _AROUND[self.count]], -1)


def _refuse_beyond(count: float) -> None:
    """Say so before the arrays become too large."""
    if count > MOST_NODES:
        raise NotConverged(
            f"several terms and so many directions need more than {MOST_NODES:.0e} nodes; "
            "try fewer directions"
        )


def _where_it_changes(
    seen: Float[Array, "K z scan"],
    function: Callable[[Float[Array, "K z places"]], Float[Array, "K z places"]],
    grid: Float[Array, "*shape scan"] = _SCAN,
) -> tuple[Int[Array, "K z places"], Float[Array, "K z places"]]:
    """The first few places where a function with steps changes, which is ``seen`` on the grid: the
    cells they are in, and where, by bisection.
    """
    grid = np.broadcast_to(grid, seen.shape)
    changes = seen[..., 1:] != seen[..., :-1]
    most = min(int(changes.sum(-1).max()), _MOST_JUMPS)
    order = np.argsort(~changes, axis=-1, kind="stable")[..., :most]
    low, high, side = (
        np.take_along_axis(each, order + i, -1) for each, i in ((grid, 0), (grid, 1), (seen, 0))
    )
    for _ in range(_BISECTIONS if most else 0):
        middle = (low + high) / 2
        same = function(middle) == side
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    found = np.take_along_axis(changes, order, -1)
    return order, np.where(found, (low + high) / 2, _FAR)
