"""What the figures of [Cui] share: looks, and a figure whose panels have one legend below them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from firststep.figures.core import Figure, Row, Scale

LOOKS = (("blue", "o"), ("orange", "s"), ("green", "^"), ("red", "D"), ("pink", "v"))
CENTERED_RELU = "relu(z) - 0.3989422804014327"  # relu minus its Gaussian mean


@dataclass(frozen=True)
class SharedLegend(Figure):
    """Panels with the same curves: their labels stand once, below all of them, where they hide nothing."""

    legend_columns: int = 5

    def draw(self, rows: Sequence[Row], scale: Scale, drawing: Any) -> None:
        super().draw(rows, scale, drawing)
        legend_below(drawing, scale, self.legend_columns)


def legend_below(drawing: Any, scale: Scale, columns: int, title: str = "") -> None:
    """One legend for all axes of a picture, below them, points first, with the size of the simulations as its title."""
    pairs = [
        pair
        for axes in drawing.axes
        for pair in zip(*axes.get_legend_handles_labels(), strict=True)
    ]
    pairs.sort(
        key=lambda pair: not hasattr(pair[0], "lines")
    )  # simulated points come with their error bars
    found = {label: handle for handle, label in pairs}
    title = (
        title
        or f"lines: theory; points: simulation, d = {scale.dimension}, mean ± s.e. of {scale.replicates}"
    )
    drawing.legend(
        list(found.values()),
        list(found),
        loc="outside lower center",
        ncols=columns,
        fontsize=9,
        title=title,
        title_fontsize=9,
    )
