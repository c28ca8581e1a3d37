"""Functions of two lines that meet at a point, and their Gaussian moments in closed form.

f(x) = v + l (x - k) + j (x - k)_+ with a jump j of the slope at k (relu, abs, leaky relu). With
x = a + b z, t = (a - k)/b and the density phi and distribution Phi of N(0, 1),

    E (x - k)_+ = b (phi(t) + t Phi(t)),   E[z (x - k)_+]/b = Phi(t)
    E[(z^2 - 1)(x - k)_+]/(2 b^2) = phi(t)/(2 b)
    scatter of (x - k)_+ = b^2 ((1 + t^2) Phi + t phi - (phi + t Phi)^2 - Phi^2)

and as (x - k)_+ and (k - x)_+ differ by a line, which has no scatter, the last at -|t|, where
nothing cancels.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.numerics.quadrature import ShiftedMoments
from firststep.numerics.special import doubled_normal

if TYPE_CHECKING:
    from firststep.numerics.quadrature import Function
    from firststep.typing import Array, Float

# Distances from the bend at which a function has to be on its line: no period fits all of them.
_PLACES = np.array([0.01, 0.37, 1.0, 1.7320508, 2.7182818, 5.1, 9.8696044, 31.006277, 130.7])
_EQUAL = 1e-13  # relative


class Hinge(NamedTuple):
    """Two lines that meet."""

    bend: float  # k
    value: float  # v
    slope: float  # l, below the bend
    jump: float  # j

    @classmethod
    def of(cls, function: Function, bend: float) -> Hinge | None:
        """The hinge that a function is, if it bends nowhere else; None if it is none."""
        with np.errstate(all="ignore"):
            above, below = function(bend + _PLACES), function(bend - _PLACES)
            rise = (above[-1] - above[2]) / (_PLACES[-1] - _PLACES[2])
            fall = (below[2] - below[-1]) / (_PLACES[-1] - _PLACES[2])
            value = float(above[2] - rise * _PLACES[2])
            gaps = [above - value - rise * _PLACES, below - value + fall * _PLACES]
            size = abs(value) + max(abs(rise), abs(fall)) * (abs(bend) + _PLACES)
            is_hinge = all(np.all(np.abs(gap) <= _EQUAL * size) for gap in gaps)
        return cls(bend, value, float(fall), float(rise - fall)) if is_hinge else None

    def moments(
        self, shift: Float[Array, "*shape"], scale: Float[Array, "*shape"]
    ) -> ShiftedMoments:
        """Those of ``shifted_moments``, in NumPy."""
        shift, scale = np.broadcast_arrays(shift, scale)
        t = (shift - self.bend) / scale
        density = np.exp(-t * t / 2) / math.sqrt(2 * math.pi)
        tail = doubled_normal(-np.abs(t)) / 2  # Phi(-|t|)
        share = np.where(t > 0, 1 - tail, tail)
        low = density - np.abs(t) * tail
        spread = (1 + t * t) * tail - np.abs(t) * density - low**2 - tail**2
        hinge = scale * (low + np.maximum(t, 0.0))
        return ShiftedMoments(
            mean=self.value + self.slope * (shift - self.bend) + self.jump * hinge,
            slope=self.slope + self.jump * share,
            scatter=np.maximum(self.jump**2 * scale**2 * spread, 0.0),
            by_variance=self.jump * density / (2 * scale),
        )
