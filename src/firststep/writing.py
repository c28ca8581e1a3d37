"""Files are written whole or not at all, and never in the place of what is no plain file."""

from __future__ import annotations

import contextlib
import csv
import errno
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

# Names of streams that are open already. Opened once more by name, a file behind one of them would
# be written from its beginning, over what the stream wrote before.
_STREAMS = {"-": 1, "/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_NUMBERED = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")


def write_file(path: str | Path, write: Callable[[Path], object]) -> None:
    """Call ``write`` with the path of a new file, and put that in the place of ``path``.

    Links are followed: the file they lead to is replaced. A device, a pipe or an open stream
    (``-`` and /dev/stdout: standard output) gets the bytes and stays what it is.
    """
    if _stream(path) is None:
        target = Path(os.path.realpath(path))
        if target.is_file() or not target.exists():
            _replace(target, write)
            return
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    _through(path, write)


def write_text(path: str | Path, text: str) -> None:
    """A text, in UTF-8."""
    write_file(path, lambda new: new.write_text(text, encoding="utf-8", newline=""))


def write_csv(path: str | Path, lines: Iterable[Iterable[object]]) -> None:
    """A table; None is an empty cell."""

    def write(new: Path) -> None:
        with new.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(lines)

    write_file(path, write)


def is_standard_output(path: str | Path) -> bool:
    """Whether what is written there is what this process prints."""
    return _stream(path) == 1


def _stream(path: str | Path) -> int | None:
    """The number of the open stream that has this name."""
    found = _NUMBERED.fullmatch(str(path))
    return _STREAMS.get(str(path)) if found is None else int(found[1])


def _replace(target: Path, write: Callable[[Path], object]) -> None:
    partial = target.with_name(f".{target.stem}.{os.getpid()}.part{target.suffix}")
    try:
        try:
            write(partial)
        except PermissionError:
            if partial.exists() or not target.exists():
                raise
            _through(target, write)  # the folder is closed, the file in it is not
            return
        if target.exists():
            shutil.copymode(target, partial)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _through(path: str | Path, write: Callable[[Path], object]) -> None:
    """Write elsewhere, then copy: some formats go back and forth in their file."""
    with tempfile.TemporaryDirectory() as folder:
        new = Path(folder) / f"new{Path(path).suffix}"
        write(new)
        with new.open("rb") as file, _opened(path) as target:
            shutil.copyfileobj(file, target)


@contextlib.contextmanager
def _opened(path: str | Path) -> Iterator[BinaryIO]:
    number = _stream(path)
    if number is None:
        with Path(path).open("wb") as file:
            yield file
        return
    if number == 1:
        sys.stdout.flush()  # what was printed before comes first
    with os.fdopen(os.dup(number), "wb") as file:
        yield file
