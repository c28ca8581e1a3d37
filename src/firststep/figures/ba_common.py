"""What the figures of [Ba] share: looks of curves, guide lines of a rate, lines through points that have no theory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from firststep import plots

LOOKS = (
    ("grey", "v"),
    ("green", "^"),
    ("orange", "s"),
    ("blue", "o"),
    ("red", "D"),
)  # from no step to the largest


def spaced(low: float, high: float, count: int) -> list[float]:
    """Points evenly spaced in the logarithm, of few digits."""
    return [float(f"{x:.3g}") for x in np.geomspace(low, high, count)]


def around(peak: float, low: float, high: float, count: int = 21) -> list[float]:
    """Points from low to high that crowd at a peak in between."""
    share = np.linspace(0, 1, count) ** 1.5
    left, right = peak * (low / peak) ** share[::-1], peak * (high / peak) ** share[1:]
    return [float(x) for x in (*left, *right)]


def guide(
    rate: Callable[[Any], Any], ends: tuple[float, float], label: str, color: str = "red"
) -> Callable[[Any], None]:
    """Decoration: a thin dotted line of a rate, which says nothing about constants."""
    along = np.geomspace(*ends, 64)

    def draw(axes: Any) -> None:
        axes.plot(
            along,
            rate(along),
            color=plots.COLORS[color],
            linestyle=(0, (1, 1.5)),
            linewidth=1.6,
            label=label,
        )

    return draw


def joined(axes: Any) -> None:
    """Decoration: faint lines through simulated points, to lead the eye where there is no theory."""
    for container in list(axes.containers):
        points = container[0]
        axes.plot(
            *points.get_data(), color=points.get_color(), linewidth=1, linestyle=":", alpha=0.7
        )
