"""What commands print: results, progress, complaints."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol


class Result(Protocol):
    """What can be printed as text and as JSON."""

    def to_dict(self) -> dict[str, Any]: ...


LINE = 96  # characters of a line of sentences


def show(result: Result, as_json: bool, words: str = "") -> int:
    """Print a result, and some sentences on it; the exit code of a command that has nothing else to
    say.
    """
    if as_json:
        told = {"words": words} if words else {}
        print(json.dumps({**result.to_dict(), **told}, allow_nan=False))
        return 0
    print(result)
    if words:
        whole = words.replace(" %", "\N{NO-BREAK SPACE}%")
        lines = textwrap.wrap(whole, width=LINE, break_on_hyphens=False)
        print("\n" + "\n".join(f"  {line}" for line in lines))
    return 0


def complain(message: str) -> None:
    for line in message.splitlines():
        print(f"error: {line}", file=sys.stderr)


def show_and_draw(
    result: Result, as_json: bool, out: Path | None, write: Callable[[Path], Iterable[Path]]
) -> None:
    """Print a result and, where a picture is asked for, write it and say what was written."""
    show(result, as_json)
    if out is None:
        return
    written = write(out)
    if not as_json:
        tell_files(written)


def tell_files(written: Iterable[Path]) -> None:
    print("wrote " + " and ".join(map(os.fspath, written)))


class Bar:
    """A progress bar on stderr, silent where that is no terminal or JSON is asked."""

    def __init__(self, silent: bool, words: str, parts: int = 1) -> None:
        self._silent = silent or not sys.stderr.isatty()
        self._words, self._parts, self._before, self._last = words, parts, 0, 0

    def __enter__(self) -> Callable[[int, int], None] | None:
        if self._silent:
            return None
        from rich import progress
        from rich.console import Console

        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
        )
        self._progress = progress.Progress(*columns, console=Console(stderr=True), transient=True)
        self._progress.start()
        self._task = self._progress.add_task(self._words, total=None)
        return self._advance

    def _advance(self, finished: int, total: int) -> None:
        if finished <= self._last:  # the next of several runs has begun
            self._before += self._last
        self._last = finished
        self._progress.update(
            self._task, completed=self._before + finished, total=total * self._parts
        )

    def __exit__(self, *_: object) -> None:
        if not self._silent:
            self._progress.stop()
