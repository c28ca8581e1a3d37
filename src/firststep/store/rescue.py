"""A new store of what can be read of a damaged one."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be renamed anyway
    fcntl = None  # type: ignore[assignment]

from firststep.errors import StoreDamaged, StoreError
from firststep.store import pages
from firststep.store.database import Store, beside, is_open_here
from firststep.store.record import COLUMNS, DONE, is_sound

# Every open connection holds a shared lock on these bytes of the file ("File Locking And
# Concurrency" of SQLite's documentation; the numbers are part of the format).
_FIRST_SHARED, _SHARED = 0x40000002, 510


class Rescue(NamedTuple):
    """What a repair has done."""

    saved: int  # results in the new store
    spoiled: int  # rows that were there, but not as they were written
    kept: Path  # the damaged file


def repair(path: str | Path) -> Rescue:
    """Save the sound results of a damaged store in a new one at its place.

    The damaged file is kept beside it, with its log. Refused while anybody has the store open.
    """
    path = Path(path).resolve()
    if not path.is_file():
        raise StoreError(f"there is no store {path}")
    kept = path.with_name(path.name + ".damaged")
    if kept.exists():
        raise StoreError(f"{kept} exists already, from an earlier repair: move it away first")
    with (
        _alone(path) as data,
        tempfile.TemporaryDirectory(dir=path.parent, prefix=".store") as folder,
    ):
        log = beside(path, "-wal")
        runs, results, spoiled = _read(data, log.read_bytes() if log.exists() else b"")
        if not results:
            raise StoreDamaged(f"no result of {path} can be read: nothing can be saved")
        new = Path(folder) / "new.db"
        with Store(new) as store:
            store.take_over(runs.values(), results.values())
        # In this order: at every moment one of the two has everything, and no log meets a file it
        # is not of.
        for end in ("", "-wal"):
            if beside(path, end).exists():
                _second_name(beside(path, end), beside(kept, end))
        for end in ("-wal", "-shm"):
            beside(path, end).unlink(missing_ok=True)
        new.replace(path)
    return Rescue(len(results), spoiled, kept)


def _second_name(path: Path, other: Path) -> None:
    try:
        os.link(path, other)
    except OSError:  # a file system without links
        shutil.copyfile(path, other)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[bytes]:
    """What the file holds, while nobody has the store open and no other process can open it.

    The file must not be opened a second time meanwhile: closing that would end the lock.
    """
    in_use = StoreError(
        f"{path} is in use: a sweep or another program has it open; repair it when that has ended"
    )
    if is_open_here(path):  # before its file is opened: closing that would take away its locks
        raise in_use
    try:
        file = path.open("r+b")
    except OSError as error:
        raise StoreError(f"{path} cannot be repaired here: {error.strerror}") from None
    with file:
        try:
            if fcntl is not None:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, _SHARED, _FIRST_SHARED)
        except BlockingIOError:
            raise in_use from None
        except OSError as error:  # a file system without locks: nobody can be asked
            raise StoreError(f"{path} cannot be locked: {error.strerror}") from None
        yield file.read()


def _read(data: bytes, log: bytes) -> tuple[dict[int, Any], dict[bytes, Any], int]:
    """Runs by their number, sound results by their key, and how many rows are spoiled.

    Of two versions of a result the better one, then the newer one counts.
    """
    runs: dict[int, Any] = {}
    results: dict[bytes, Any] = {}
    spoiled: set[int] = set()
    sound: set[int] = set()
    for number, values in pages.rows(data, log):
        if len(values) == 4:  # id, started, versions, experiment
            if _is_run(values):
                runs[number] = (number, *values[1:])
        elif len(values) - 1 in (len(COLUMNS), len(COLUMNS) + 1):  # without and with a checksum
            row = _row(values)
            if not is_sound(row):
                spoiled.add(number)
                continue
            sound.add(number)
            if row[0] not in results or _rank(results[row[0]]) <= _rank(row):
                results[row[0]] = row
    return runs, results, len(spoiled - sound)


def _row(values: tuple[pages.Value, ...]) -> tuple[Any, ...]:
    """The columns and the checksum, if there is one. SQLite keeps 2.0 as the whole number 2."""
    row: list[Any] = [*values[1:], *([None] if len(values) - 1 == len(COLUMNS) else [])]
    for name in ("seconds", "finished"):
        place = COLUMNS.index(name)
        if isinstance(row[place], int):
            row[place] = float(row[place])
    return tuple(row)


def _rank(row: Any) -> tuple[bool, float]:
    return row[4] == DONE.encode(), row[9]


def _is_run(values: tuple[pages.Value, ...]) -> bool:
    _, started, versions, experiment = values
    return (
        isinstance(started, float | int)
        and isinstance(versions, bytes)
        and isinstance(experiment, bytes)
    )
