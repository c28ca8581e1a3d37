"""What a running sweep shows: a live line on a terminal, plain lines now and then elsewhere."""

from __future__ import annotations

import json
import math
import sys
import time
from typing import TYPE_CHECKING

from firststep.label_faults import LATER
from firststep.sweep.engine import Tally

if TYPE_CHECKING:
    from rich.progress import Progress

_EVERY = 10.0  # seconds between plain lines


def text(tally: Tally, names: tuple[str, ...] = ()) -> str:
    """One line: how many are done and failed, how fast, how long still, and the least risk.

    ``names``: the fields that say where it is.
    """
    failed = tally.refused + tally.lost
    parts = [f"{tally.finished} of {tally.wanted} results"]
    if failed:
        parts.append(f"{failed} failed")
    if tally.done and tally.finished < tally.wanted:
        parts += [f"{tally.rate:.3g}/s", f"{duration(tally.seconds_left)} left"]
    if tally.best is not None:
        problem = {**LATER, **json.loads(tally.best.problem)}
        where = ", ".join(f"{name} {_short(problem[name])}" for name in names)
        parts.append(
            f"least risk {tally.best.numbers['risk']:.4g}" + (f" at {where}" if where else "")
        )
    return ", ".join(parts)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def duration(seconds: float | None) -> str:
    """A time in words."""
    if seconds is None or not math.isfinite(seconds):
        return "?"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


class Watch:
    """``with Watch(names) as watch: run_sweep(..., watch=watch)`` writes to stderr."""

    def __init__(self, names: tuple[str, ...] = ()) -> None:
        self._names = names
        self._live: Progress | None = None
        self._last = time.monotonic()

    def __enter__(self) -> Watch:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            columns = (BarColumn(bar_width=24), TextColumn("{task.description}"))
            self._live = Progress(*columns, console=Console(stderr=True), transient=True)
            self._live.start()
            self._task = self._live.add_task("starting", total=None)
        return self

    def __call__(self, tally: Tally) -> None:
        if self._live is not None:
            self._live.update(
                self._task,
                completed=tally.finished,
                total=tally.wanted,
                description=text(tally, self._names),
            )
        elif time.monotonic() - self._last > _EVERY:
            self._last = time.monotonic()
            print(text(tally, self._names), file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
