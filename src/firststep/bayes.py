"""The 0-1 error that no classifier can beat."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from firststep.numerics.crossings import jumps_of
from firststep.numerics.quadrature import REACH, gaussian_panels

if TYPE_CHECKING:
    from firststep.typing import Array, Float

_PANELS = 136  # over +-8.5: some 1e-12 for what varies over a tenth
_NODES = 8
_AROUND = 0.06 * 3.0 ** -np.arange(16)  # of a change of the guess: with little noise it is sudden


def least_error(
    probability: Callable[[Float[Array, " z"]], Float[Array, " z"]], kinks: tuple[float, ...] = ()
) -> float:
    """E min(P, 1 - P) of P(y = 1 | u) = ``probability``(u), u ~ N(0, 1).

    The best guess is the likelier label; panels are split at ``kinks`` and where that changes.
    """
    guess = jumps_of(lambda u: np.sign(probability(u) - 0.5), kinks)
    around = [r + side * x for r in guess.places for x in _AROUND for side in (-1, 1)]
    inside = [x for x in (*kinks, *guess.places, *around) if abs(x) < REACH]
    edges = np.unique(np.concatenate([np.linspace(-REACH, REACH, _PANELS + 1), inside]))
    u, mass = gaussian_panels(edges, _NODES)
    above = probability(u)
    return float(np.sum(mass * np.minimum(above, 1 - above)))
