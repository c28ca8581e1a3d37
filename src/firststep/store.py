"""Results on disk: one SQLite file, one transaction for each finished piece of work.

A row is one result: its problem and computation as canonical JSON text, the number of its
replicate, a status and the numbers. The three together are its key, so a result is computed once,
whoever asks for it; and each row tells by itself what it is, so what can be read of a damaged file
can be used. Write-ahead logging lets several processes write and read at once; a committed row
survives the death of any of them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from firststep.errors import StoreDamaged, StoreError

APPLICATION = 0x46535450  # "FSTP", in the header of the file
SCHEMA = 1
DONE = "done"  # computed
REFUSED = "refused"  # has no answer
LOST = "lost"  # its worker died: worth another try
_PATIENCE = 60.0  # seconds to wait for another writer: a transaction takes milliseconds
_PAUSE = 0.05  # seconds between two tries
_BLOCK = 500  # rows read at once from a damaged file
_SMALLEST_ROW = 100  # bytes: no row takes fewer
_HEADER = 100  # bytes of the header of an SQLite file
_TABLES = """
CREATE TABLE IF NOT EXISTS runs (
    id INTEGER PRIMARY KEY, started REAL NOT NULL, versions TEXT NOT NULL, experiment TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS results (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, problem TEXT NOT NULL,
    computation TEXT NOT NULL, replicate INTEGER NOT NULL, status TEXT NOT NULL,
    numbers TEXT NOT NULL, arrays TEXT NOT NULL, reason TEXT NOT NULL, seconds REAL NOT NULL,
    finished REAL NOT NULL, run INTEGER NOT NULL
);
"""
_RUN_COLUMNS = "id, started, versions, experiment"
_COLUMNS = (
    "key, problem, computation, replicate, status, numbers, arrays, reason, seconds, finished, run"
)


def canonical(table: Mapping[str, Any]) -> str:
    """One text for equal tables: sorted keys, numbers to their last digit."""
    return json.dumps(table, sort_keys=True, separators=(",", ":"), allow_nan=False)


def key_of(problem: str, computation: str, replicate: int) -> str:
    return hashlib.sha256(f"{problem}\n{computation}\n{replicate}".encode()).hexdigest()[:32]


class Record(NamedTuple):
    """One result."""

    problem: str  # canonical JSON
    computation: str  # canonical JSON
    replicate: int
    status: str
    numbers: Mapping[str, float | None]
    arrays: Mapping[str, Any]
    reason: str = ""
    seconds: float = 0.0

    @property
    def key(self) -> str:
        return key_of(self.problem, self.computation, self.replicate)


def clean(value: float) -> float | None:
    """A number fit for JSON; nan and infinity are None."""
    number = float(value)
    return number if math.isfinite(number) else None


class Store:
    """An open store.

    ``with Store(path) as store`` closes it; ``create=False`` refuses a path that does not exist.
    """

    def __init__(self, path: str | Path, create: bool = True) -> None:
        self.path = Path(path)
        if not self.path.exists():
            if not create:
                raise StoreError(f"there is no store {self.path}: firststep sweep run makes one")
            if not self.path.parent.is_dir():
                raise StoreError(f"the folder of the store does not exist: {self.path.parent}")
            self._create()
        _look_at(self.path)
        self._connect(self.path, _PATIENCE)
        try:
            with self._errors():
                self._check()
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def _connect(self, path: Path, patience: float) -> None:
        with self._errors():
            self._connection = sqlite3.connect(path, timeout=patience, isolation_level=None)
            try:
                self._patiently("PRAGMA journal_mode=WAL")
                self._connection.execute("PRAGMA synchronous=FULL")
            except BaseException:
                self._connection.close()
                raise

    def _create(self) -> None:
        """A store that appears whole: others that open it at that moment find all of it or none."""
        try:
            with tempfile.TemporaryDirectory(dir=self.path.parent, prefix=".store") as folder:
                new = Path(folder) / "new.db"
                self._connect(new, _PATIENCE)
                with self._errors():
                    for statement in _TABLES.split(";"):
                        self._connection.execute(statement)
                    self._connection.execute(f"PRAGMA application_id={APPLICATION}")
                    self._connection.execute(f"PRAGMA user_version={SCHEMA}")
                    self._connection.close()
                with contextlib.suppress(FileExistsError):
                    os.link(new, self.path)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be made: {error.strerror}") from None

    def _check(self) -> None:
        application, schema = (
            self._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in _NAMES
        )
        if application != APPLICATION:
            raise StoreError(f"{self.path} is a SQLite file, but not a firststep store")
        if schema > SCHEMA:
            told = f"schema {schema}, this one knows {SCHEMA}"
            raise StoreError(
                f"{self.path} was written by a newer firststep ({told}): update firststep"
            )
        if schema < SCHEMA:
            raise StoreError(
                f"{self.path} has the unknown schema {schema}: "
                "start a new store, or use the firststep that made it"
            )

    def _patiently(self, statement: str) -> None:
        """Changing the journal does not wait for other processes by itself."""
        give_up = time.monotonic() + _PATIENCE
        while True:
            try:
                self._connection.execute(statement)
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > give_up:
                    raise
                time.sleep(_PAUSE)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """SQLite's errors in our words."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            text = str(error)
            if "malformed" in text or "not a database" in text:
                raise StoreDamaged(_damage(self.path)) from None
            if "full" in text or "I/O" in text:
                what = "the disk is full" if "full" in text else "the disk failed"
                raise StoreError(
                    f"{what}: {self.path} keeps all results until now; "
                    "free some space and run it again"
                ) from None
            if "locked" in text:
                raise StoreError(f"{self.path} is kept locked by another program") from None
            raise StoreError(f"{self.path} cannot be used as a store: {text}") from None

    def begin_run(self, versions: Mapping[str, str], experiment: str) -> int:
        """A number for the results of this run: what they were made with."""
        with self._errors(), self._transaction():
            values = (time.time(), canonical(versions), experiment)
            found = self._connection.execute(
                "INSERT INTO runs (started, versions, experiment) VALUES (?, ?, ?)", values
            )
            return int(found.lastrowid or 0)

    def add(self, records: Iterable[Record], run: int) -> None:
        """Results in one transaction.

        A result that is there already stays; one without an answer is replaced.
        """
        now = time.time()
        rows = [(*_row(record), now, run) for record in records]
        with self._errors(), self._transaction():
            self._connection.executemany(_INSERT, rows)

    def statuses(self) -> dict[str, str]:
        """The status of every key."""
        with self._errors():
            return dict(self._connection.execute("SELECT key, status FROM results"))

    def records(
        self, keys: Iterable[str] | None = None, status: str | None = None
    ) -> Iterator[Record]:
        """Results, all or those of some keys."""
        wanted = None if keys is None else set(keys)
        query = f"SELECT key, {', '.join(Record._fields)} FROM results"
        with self._errors():
            found = self._connection.execute(
                *(f"{query} WHERE status=?", (status,)) if status else (query,)
            )
            for key, *values in found:
                if wanted is None or key in wanted:
                    kept = dict(zip(Record._fields, values, strict=True))
                    tables = {name: json.loads(kept[name]) for name in ("numbers", "arrays")}
                    yield Record(**{**kept, **tables})

    def numbers(self) -> dict[str, tuple[str, str, str, float]]:
        """Status, numbers as JSON text, reason and seconds of every key."""
        with self._errors():
            found = self._connection.execute(
                "SELECT key, status, numbers, reason, seconds FROM results"
            )
            return {
                key: (status, numbers, reason, seconds)
                for key, status, numbers, reason, seconds in found
            }

    def runs(self) -> list[dict[str, Any]]:
        """When and with what results were made."""
        with self._errors():
            found = self._connection.execute(f"SELECT {_RUN_COLUMNS} FROM runs ORDER BY id")
            return [
                {"id": i, "started": t, "versions": json.loads(v), "experiment": e}
                for i, t, v, e in found
            ]

    def _take_over(self, runs: Iterable[Any], results: Iterable[Any]) -> None:
        """Raw rows of another store, as they are."""
        with self._errors(), self._transaction():
            self._connection.executemany(
                f"INSERT OR IGNORE INTO runs ({_RUN_COLUMNS}) VALUES (?, ?, ?, ?)", runs
            )
            self._connection.executemany(_INSERT, results)

    def merge(self, other: str | Path) -> int:
        """Copy the results of another store; how many were new."""
        with Store(other, create=False) as source, self._errors(), self._transaction():
            renumbered = {}
            for run, *values in source._connection.execute(f"SELECT {_RUN_COLUMNS} FROM runs"):
                sql = "INSERT INTO runs (started, versions, experiment) VALUES (?, ?, ?)"
                renumbered[run] = self._connection.execute(sql, values).lastrowid
            before = self._connection.total_changes
            for *values, run in source._connection.execute(f"SELECT {_COLUMNS} FROM results"):
                self._connection.execute(_INSERT, (*values, renumbered.get(run, 0)))
            return self._connection.total_changes - before


_NAMES = ("application_id", "user_version")
_INSERT = (
    f"INSERT INTO results ({_COLUMNS}) VALUES ({', '.join('?' * 11)}) "
    "ON CONFLICT(key) DO UPDATE SET status=excluded.status, numbers=excluded.numbers, "
    "arrays=excluded.arrays, reason=excluded.reason, seconds=excluded.seconds, "
    "finished=excluded.finished, run=excluded.run WHERE results.status != 'done'"
)


def _row(record: Record) -> tuple[Any, ...]:
    texts = {
        name: json.dumps(getattr(record, name), separators=(",", ":"), allow_nan=False)
        for name in ("numbers", "arrays")
    }
    return (record.key, *{**record._asdict(), **texts}.values())


def _damage(path: Path) -> str:
    return (
        f"{path} is damaged or cut short: "
        f"firststep sweep repair {path} saves the results that can be read"
    )


def _look_at(path: Path) -> None:
    """Refuse what SQLite would not: an empty file, and one shorter than its header says."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from None
    if not head:
        raise StoreDamaged(
            f"{path} is empty: it is not a store, or has lost everything; delete it to start again"
        )
    if len(head) < _HEADER or size < _pages(head) * _page_size(head):
        raise StoreDamaged(_damage(path))


def _page_size(head: bytes) -> int:
    size = int.from_bytes(head[16:18], "big")
    return 65536 if size == 1 else size


def _pages(head: bytes) -> int:
    return int.from_bytes(head[28:32], "big")


def repair(path: str | Path) -> tuple[int, Path]:
    """Save the readable results of a damaged store in a new one at its place.

    The damaged file is kept beside it. Returns how many results were saved, and where it is.
    """
    path = Path(path)
    if not path.is_file():
        raise StoreError(f"there is no store {path}")
    kept = path.with_name(path.name + ".damaged")
    if kept.exists():
        raise StoreError(f"{kept} exists already, from an earlier repair: move it away first")
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        copy = Path(folder) / "copy.db"
        for end in ("", "-wal"):
            source = path.with_name(path.name + end)
            if source.exists():
                shutil.copyfile(source, copy.with_name(copy.name + end))
        head = copy.read_bytes()[:_HEADER]
        if len(head) < _HEADER:
            raise StoreDamaged(f"{path} has no header left: nothing can be saved")
        whole = _pages(head) * _page_size(head)
        if copy.stat().st_size < whole:
            os.truncate(copy, whole)  # zeros where pages are missing: SQLite reads the others
        new = Path(folder) / "new.db"
        count = 0
        with Store(new) as store:
            store._take_over(_readable_runs(copy), [])
            for rows in _readable(copy):
                store._take_over([], rows)
                count += len(rows)
            store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if not count:
            raise StoreDamaged(f"no result of {path} can be read: nothing can be saved")
        path.rename(kept)
        for end in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                path.with_name(path.name + end).unlink()
        new.rename(path)
    return count, kept


def _readable_runs(path: Path) -> list[Any]:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        return connection.execute(f"SELECT {_RUN_COLUMNS} FROM runs").fetchall()
    except sqlite3.DatabaseError:
        return []
    finally:
        connection.close()


def _readable(path: Path) -> Iterator[list[Any]]:
    """Rows by their numbers, block by block, one by one where a block cannot be read.

    Only those that are what their key says.
    """
    connection = sqlite3.connect(path, isolation_level=None)
    query = f"SELECT {_COLUMNS} FROM results NOT INDEXED"
    try:
        last = path.stat().st_size // _SMALLEST_ROW + _BLOCK
        for first in range(1, last, _BLOCK):
            rows: list[Any] = []
            try:
                ends = (first, first + _BLOCK - 1)
                rows = connection.execute(f"{query} WHERE id BETWEEN ? AND ?", ends).fetchall()
            except sqlite3.DatabaseError:
                for number in range(first, first + _BLOCK):
                    with contextlib.suppress(sqlite3.DatabaseError):
                        rows += connection.execute(f"{query} WHERE id = ?", (number,)).fetchall()
            sound = [row for row in rows if _is_sound(row)]
            if sound:
                yield sound
    finally:
        connection.close()


def _is_sound(row: Any) -> bool:
    key, problem, computation, replicate, _, numbers, arrays, *_ = row
    try:
        return (
            isinstance(json.loads(numbers), dict)
            and isinstance(json.loads(arrays), dict)
            and (key_of(problem, computation, replicate) == key)
        )
    except (ValueError, TypeError):
        return False
