"""Functions of one variable on a table: Chebyshev polynomials on panels that are halved as needed.

For functions that are integrals themselves and asked for at many places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firststep.errors import NotConverged
from firststep.numerics.library import library_of

if TYPE_CHECKING:
    from firststep.numerics.quadrature import Function
    from firststep.typing import Array, Float

_DEGREE = 23  # of a panel's polynomial: panels of length 1 then do for what varies over about 0.3
_LAST = 4  # coefficients that must be rounding
_TOLERANCE = 1e-13  # of them, relative to the largest value on the panel
_MOST_HALVINGS = 14


@dataclass(frozen=True, eq=False)
class Table:
    """A function between the first and the last edge; beyond, its values there."""

    edges: Float[Array, " edges"]
    coefficients: Float[Array, "panels degrees"]

    @classmethod
    def of(cls, function: Function, edges: Sequence[float]) -> Table:
        """The table of a smooth function, or of one that is smooth between the edges."""
        places = np.arange(_DEGREE + 1)
        angles = np.pi * (places + 0.5) / (_DEGREE + 1)
        transform = np.cos(np.outer(places, angles)) * (2 / (_DEGREE + 1))
        transform[0] /= 2
        bounds = np.unique(np.asarray(edges, float))
        left, right = bounds[:-1], bounds[1:]
        done: list[tuple[Float[Array, " panels"], Float[Array, "panels degrees"]]] = []
        for halving in range(_MOST_HALVINGS + 1):
            middle, half = (left + right) / 2, (right - left) / 2
            at = middle[:, None] + half[:, None] * np.cos(angles)
            values = function(at.ravel()).reshape(at.shape)
            found = values @ transform.T
            size = np.maximum(np.abs(values).max(1), 1e-300)
            good = np.abs(found[:, -_LAST:]).max(1) <= _TOLERANCE * size
            if halving == _MOST_HALVINGS:  # what is left are jumps, which have no width
                good[:] = True
            done.append((left[good], found[good]))
            if good.all():
                break
            left, middle, right = left[~good], middle[~good], right[~good]
            left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
        starts = np.concatenate([each for each, _ in done])
        order = np.argsort(starts)
        rows = np.concatenate([each for _, each in done])[order]
        if not np.all(np.isfinite(rows)):
            raise NotConverged("a mean over the terms of the teacher is not finite")
        return cls(np.append(starts[order], bounds[-1]), rows)

    def evaluate(self, x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """By Clenshaw's recurrence, in the array library of x."""
        xp = library_of(x).xp
        edges, rows = xp.asarray(self.edges), xp.asarray(self.coefficients)
        panel = xp.clip(xp.searchsorted(edges, x, side="right") - 1, 0, len(self.edges) - 2)
        low, high = edges[panel], edges[panel + 1]
        t = xp.clip((2 * x - low - high) / (high - low), -1.0, 1.0)
        one = two = xp.zeros_like(t)
        for degree in range(self.coefficients.shape[1] - 1, 0, -1):
            one, two = 2 * t * one - two + rows[panel, degree], one
        return t * one - two + rows[panel, 0]
