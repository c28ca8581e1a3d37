"""(results, axes) -> artists. Nothing is computed here; matplotlib is imported when needed."""

from __future__ import annotations

import importlib.util
import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from firststep.errors import BackendUnavailable, InvalidParameter
from firststep.writing import write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from firststep.typing import Array, Float

    Numbers: TypeAlias = Sequence[float] | Float[Array, " points"]

# Okabe and Ito's palette: distinguishable with any colour vision, and in print.
COLORS = {
    "blue": "#0072B2",
    "orange": "#E69F00",
    "green": "#009E73",
    "red": "#D55E00",
    "grey": "#555555",
    "pink": "#CC79A7",
    "sky": "#56B4E9",
}
MARKERS = ("o", "s", "^", "D", "v")
_LOWEST = 0.02  # of a line: as far as a band goes down, which on a logarithmic axis has no end
_STYLE = {
    "figure.dpi": 120,
    "savefig.dpi": 200,
    "savefig.bbox": "tight",
    "pdf.fonttype": 42,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "legend.facecolor": "white",
    "legend.edgecolor": "none",
    "legend.framealpha": 0.9,
    "lines.linewidth": 1.6,
}


def require() -> None:
    """Say so plainly if matplotlib is missing."""
    if importlib.util.find_spec("matplotlib") is None:
        raise BackendUnavailable(
            "matplotlib", "installed to draw figures", "nothing", "try: pip install matplotlib"
        )


def prepare(folder: Path) -> None:
    """Find out before the work whether files can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InvalidParameter(
            "out", "a folder that can be written", str(folder), error.strerror or ""
        ) from None


@contextmanager
def blank(width: float, height: float) -> Iterator[Figure]:
    """An empty figure in the house style; needs no display and no LaTeX."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Empty

    with matplotlib.rc_context(_STYLE):
        yield FigureCanvasAgg(Empty(figsize=(width, height), layout="constrained")).figure


@contextmanager
def figure(width: float = 6.4, height: float = 4.4) -> Iterator[tuple[Figure, Axes]]:
    """A figure and its only axes."""
    with blank(width, height) as drawing:
        yield drawing, drawing.add_subplot()


def grid(drawing: Figure, count: int, columns: int) -> list[Axes]:
    """``count`` axes, row by row."""
    across = min(count, columns)
    return [drawing.add_subplot(-(-count // across), across, place + 1) for place in range(count)]


def points(
    axes: Axes,
    x: Sequence[float],
    mean: Sequence[float],
    error: Sequence[float],
    *,
    label: str,
    color: str,
    marker: str,
) -> Any:
    """Simulated means with one standard error."""
    return axes.errorbar(
        x,
        mean,
        yerr=error,
        fmt=marker,
        markersize=5,
        capsize=2.5,
        linewidth=1.2,
        color=COLORS[color],
        label=label,
    )


def curve(
    axes: Axes, x: Numbers, y: Numbers, color: str, *, label: str | None = None, style: str = "-"
) -> Any:
    """A theory line."""
    return axes.plot(x, y, color=COLORS[color], label=label, linestyle=style)


def band(axes: Axes, x: Numbers, y: Numbers, error: Numbers, color: str) -> Any:
    """y ± error behind a line; where the error is not known, nothing."""
    ends = zip(y, error, strict=True)
    pairs = [(max(mid - err, _LOWEST * abs(mid)), mid + err) for mid, err in ends]
    low, high = zip(*pairs, strict=True)
    return axes.fill_between(x, low, high, color=COLORS[color], alpha=0.18, linewidth=0, zorder=0.5)


def level(axes: Axes, height: float, label: str, color: str = "grey") -> Any:
    """A horizontal dashed line."""
    return axes.axhline(height, linestyle="--", color=COLORS[color], label=label)


def plain_ticks(axes: Axes, x: Sequence[float], y: Sequence[float]) -> None:
    """Ticks of logarithmic axes written as ordinary numbers; an axis without any is left alone."""
    for axis, places in ((axes.xaxis, x), (axes.yaxis, y)):
        if not len(places):
            continue
        axis.set_ticks(places, [f"{place:g}" for place in places])
        axis.set_ticks([], minor=True)


def readable_logs(axes: Axes) -> None:
    """Ticks of logarithmic axes at 1, 2 and 5 times powers of ten, as ordinary numbers.

    Of more than four decades only matplotlib's own ticks are readable, of more than two and a half
    only the powers of ten.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_scale() == "log":
            low, high = sorted(axis.get_view_interval())
            decades = math.log10(high / low)
            if decades <= 4:
                axis.set_major_locator(
                    LogLocator(subs=(1.0, 2.0, 5.0) if decades <= 2.5 else (1.0,))
                )
                axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
                axis.set_minor_locator(NullLocator())


def style_key(axes: Axes, label: str, style: str) -> None:
    """An entry of the legend for a kind of line, whatever its colour."""
    axes.plot([], [], color="black", linestyle=style, label=label)


def save(drawing: Figure, path: Path, told: str = "") -> Path:
    """Write the figure; the ending of the name chooses the format.

    ``told`` is kept inside the file: where it came from.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    key = "Subject" if path.suffix.lower() == ".pdf" else "Description"
    metadata = {key: told} if told else None
    write_file(path, lambda new: drawing.savefig(new, metadata=metadata))
    return path
