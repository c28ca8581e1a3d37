"""Where a step function jumps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.numerics.quadrature import REACH

if TYPE_CHECKING:
    from firststep.typing import Array, Float

_SCAN = 4001  # points of the search: jumps nearer to each other than 0.004 are not told apart
_OFF = 1.2345e-4  # of the scan, so that no jump stands on a point
_HALVINGS = 60  # of an interval of the scan: down to rounding


class Jumps(NamedTuple):
    """A step function: its value at -infinity, and its jumps."""

    start: float  # L
    places: Float[Array, " j"]  # r
    sizes: Float[Array, " j"]  # J


def jumps_of(
    level: Callable[[Float[Array, " z"]], Float[Array, " z"]], kinks: tuple[float, ...] = ()
) -> Jumps:
    """The jumps of ``level`` within the reach of a Gaussian; ``kinks`` are looked at closely."""
    inside = [k + side for k in kinks for side in (-1e-9, 1e-9)]
    scan = np.linspace(-REACH, REACH, _SCAN) + _OFF
    scan = np.sort(np.concatenate([scan, [x for x in inside if abs(x) < REACH]]))
    values = level(scan)
    changes = np.flatnonzero(np.diff(values))
    low, high = scan[changes], scan[changes + 1]
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        before = level(middle) == values[changes]
        low, high = np.where(before, middle, low), np.where(before, high, middle)
    return Jumps(float(values[0]), (low + high) / 2, np.diff(values)[changes])
