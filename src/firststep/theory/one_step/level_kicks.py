"""The source along theta and tau on every level of the inputs' covariance, and what it becomes.

With the letters of ``risk``: s = z_t/sqrt varpi + sqrt varpi b~, b~ = b - F^T d P, and

    p = Z(varpi) s,   phi = F p + D s,   p~ = p - sqrt varpi D d P

under the teacher's weights t; and, at finite d, the own output's source s = (xi/|v|, 0) under the
masses times (A/N) b^2, whose p~ is p.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.numerics.library import library_of
from firststep.theory.one_step.resolvent import Equations, Pencil, stretch
from firststep.theory.one_step.system import System, apply, flip

if TYPE_CHECKING:
    from firststep.typing import Array, Float


class _Part(NamedTuple):
    """One source on the levels."""

    weight: Float[Array, "batch s"]
    p: Float[Array, "batch s n"]
    phi: Float[Array, "batch s n"]


class LevelKicks(NamedTuple):
    """What the sources become on the levels."""

    value: Float[Array, "batch s"]  # varpi
    teacher: _Part  # p is p~ here; its first block is that of p
    own: _Part | None
    stretch: Float[Array, "batch s P"] | None = None  # of typed neurons: 1 + eps g_p varpi

    @property
    def parts(self) -> list[_Part]:
        return [self.teacher] if self.own is None else [self.teacher, self.own]

    @property
    def along_samples(self) -> Float[Array, "batch n"]:
        """<sqrt varpi p~>_t."""
        return _sum(
            self.teacher.weight * library_of(self.value).xp.sqrt(self.value), self.teacher.p
        )

    @property
    def along_teacher(self) -> Float[Array, "batch n"]:
        """<p~/sqrt varpi>_t."""
        return _sum(
            self.teacher.weight / library_of(self.value).xp.sqrt(self.value), self.teacher.p
        )

    def inner_squares(self, r: int) -> Float[Array, "batch r r"]:
        """<p_1 p_1^T/varpi>_t, and the own output's."""
        squares = []
        for part in self.parts:
            inner = part.p[..., :r]
            weighted = inner * (part.weight / self.value)[..., None]
            squares.append(flip(weighted) @ inner)
        return squares[0] if len(squares) == 1 else squares[0] + squares[1]

    def spread(self, big: Float[Array, "batch n"]) -> Float[Array, "batch n n"]:
        """<varpi phi phi^T>_t - P P^T, and the own output's."""
        total = -big[:, :, None] * big[:, None, :]
        for part in self.parts:
            weighted = part.phi * (part.weight * self.value)[..., None]
            total = total + flip(weighted) @ part.phi
        return total

    def squares(
        self, ends: Float[Array, "batch P n"], by_eta: Float[Array, "batch P"] | None
    ) -> Float[Array, "batch P"]:
        """<(a_p.p~ - sqrt varpi l_p.eta/alpha0)^2>_t, and the own output's. Of typed neurons a_p is
        that of the level.
        """
        xp = library_of(self.value).xp
        seen = self.teacher.p @ flip(ends)
        if self.stretch is not None:
            seen = seen * self.stretch
        if by_eta is not None:
            seen = seen - xp.sqrt(self.value)[..., None] * by_eta[:, None]
        total = _sum(self.teacher.weight, seen**2)
        if self.own is not None:
            seen = self.own.p @ flip(ends)
            if self.stretch is not None:
                seen = seen * self.stretch
            total = total + _sum(self.own.weight, seen**2)
        return total


def on_levels(
    system: System,
    at: Equations,
    sources: tuple[Float[Array, "batch n"], Float[Array, "batch n"], Float[Array, "batch n"]],
    own: Float[Array, "batch n"],
) -> LevelKicks:
    """Of the sources (z_t, b, d P), and (xi/|v|, 0)."""
    levels, z, pencil = system.bulk.levels, at.image.levels, at.pencil
    assert levels is not None
    assert z is not None
    xp = library_of(own).xp
    z_t, b, pushed = sources
    root = xp.sqrt(levels.value)[..., None]
    moved = b - (pushed if pencil.frame is None else apply(flip(pencil.frame), pushed))
    kicked = z_t[:, None] / root + root * moved[:, None]
    p = _applied(z, kicked)
    phi = _framed(pencil, p, kicked)
    if pencil.frame is not None:
        p = p - root * _second(pushed)[:, None]
    teacher = _Part(levels.share, p, phi)
    shift = system.mean.own_shift
    stretched = None if pencil.lean is None else stretch(pencil.lean, levels)
    if shift is None:
        return LevelKicks(levels.value, teacher, None, stretched)
    every = xp.broadcast_to(own[:, None], kicked.shape)
    p = _applied(z, every)
    drawn = _Part(levels.mass * shift, p, _framed(pencil, p, every))
    return LevelKicks(levels.value, teacher, drawn, stretched)


def _applied(
    z: Float[Array, "batch s n n"], vectors: Float[Array, "batch s n"]
) -> Float[Array, "batch s n"]:
    return (z @ vectors[..., None])[..., 0]


def _framed(
    pencil: Pencil, p: Float[Array, "batch s n"], kicked: Float[Array, "batch s n"]
) -> Float[Array, "batch s n"]:
    """F p + D s."""
    return p if pencil.frame is None else p @ flip(pencil.frame) + _second(kicked)


def _second(vectors: Float[Array, "*batch n"]) -> Float[Array, "*batch n"]:
    """D x: the second block alone."""
    n = vectors.shape[-1]
    return vectors * (np.arange(n) >= n // 2)


def _sum(
    weights: Float[Array, "batch s"], values: Float[Array, "batch s m"]
) -> Float[Array, "batch m"]:
    return (weights[:, None, :] @ values)[:, 0]
