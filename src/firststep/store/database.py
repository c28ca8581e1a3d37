"""The open store: one SQLite file, one transaction for each finished piece of work.

A row is one result: its problem and computation as canonical JSON text, the number of its
replicate, a status, the numbers and a checksum of it all. The first three together are its key, so
a result is computed once, whoever asks for it; and each row tells by itself what it is, so what can
be read of a damaged file can be used. Write-ahead logging lets several processes write and read at
once; a committed row survives the death of any of them.

Whether a file is whole is asked of SQLite, never of the file: part of it may stand in the log.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from weakref import WeakSet

from firststep.errors import StoreDamaged, StoreError
from firststep.store.record import COLUMNS, Record, Row, canonical, checksum, is_sound

APPLICATION = 0x46535450  # "FSTP", in the header of the file
SCHEMA = 2  # 1: no checksums (firststep 0.6 and older); they are added when it is next written
_PATIENCE = 60.0  # seconds to wait for another writer: a transaction takes milliseconds
_PAUSE = 0.05  # seconds between two tries
_TABLES = """
CREATE TABLE IF NOT EXISTS runs (
    id INTEGER PRIMARY KEY, started REAL NOT NULL, versions TEXT NOT NULL, experiment TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS results (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, problem TEXT NOT NULL,
    computation TEXT NOT NULL, replicate INTEGER NOT NULL, status TEXT NOT NULL,
    numbers TEXT NOT NULL, arrays TEXT NOT NULL, reason TEXT NOT NULL, seconds REAL NOT NULL,
    finished REAL NOT NULL, run INTEGER NOT NULL, checksum TEXT
);
"""
_RUN_COLUMNS = "id, started, versions, experiment"
_INSERT_RUN = "INSERT INTO runs (started, versions, experiment) VALUES (?, ?, ?)"
_COLUMNS = ", ".join((*COLUMNS, "checksum"))
_INSERT = (
    f"INSERT INTO results ({_COLUMNS}) VALUES ({', '.join('?' * (len(COLUMNS) + 1))}) "
    "ON CONFLICT(key) DO UPDATE SET status=excluded.status, numbers=excluded.numbers, "
    "arrays=excluded.arrays, reason=excluded.reason, seconds=excluded.seconds, "
    "finished=excluded.finished, run=excluded.run, checksum=excluded.checksum "
    "WHERE results.status != 'done'"
)


# The stores this process has open: locks between processes do not tell.
_open_here: WeakSet[Store] = WeakSet()


def is_open_here(path: Path) -> bool:
    """Whether this process has the store open."""
    return any(store._file == _identity(path) for store in _open_here)


class Store:
    """An open store.

    ``with Store(path) as store`` closes it; ``create=False`` refuses a path that does not exist;
    ``readonly=True`` changes nothing, so that a store on a read-only medium can be read.

    Rows that are not what was written, by their checksum, are never given out; ``spoiled`` names
    those that were met, and a result that is computed again takes the place of its spoiled row.
    """

    def __init__(self, path: str | Path, create: bool = True, readonly: bool = False) -> None:
        self.path = Path(path)
        self.spoiled: dict[int, str] = {}  # the key, by the number of the row
        self._readonly = readonly
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        if not self.path.exists():
            if readonly or not create:
                raise StoreError(f"there is no store {self.path}: firststep sweep run makes one")
            if not self.path.parent.is_dir():
                raise StoreError(f"the folder of the store does not exist: {self.path.parent}")
            self._create()
        self._refuse_what_is_no_file()
        self._open()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        _open_here.discard(self)
        self._connection.close()
        if self._copy is not None:
            self._copy.cleanup()

    # Opening --------------------------------------------------------------------------------------

    def _refuse_what_is_no_file(self) -> None:
        """SQLite makes a database of an empty file."""
        try:
            is_file, size = self.path.is_file(), self.path.stat().st_size
        except OSError as error:
            raise StoreError(f"{self.path} cannot be read: {error.strerror}") from None
        if not is_file:
            raise StoreError(f"{self.path} cannot be read: it is not a file")
        if not size:
            raise StoreDamaged(
                f"{self.path} is empty: it is not a store, or has lost everything; "
                "delete it to start again"
            )

    def _open(self) -> None:
        """Connect to what has the path's name, also after waiting for somebody who changed that."""
        while True:
            self._file = _identity(self.path)
            with self._errors():
                self._connection = self._reading() if self._readonly else _writing(self.path)
                try:
                    self._check()
                except BaseException:
                    self.close()
                    raise
            if _identity(self.path) == self._file:
                _open_here.add(self)
                return
            self.close()

    def _reading(self) -> sqlite3.Connection:
        """A connection that changes no result, where nothing can be written beside the file too.

        It may write where that is allowed: the last to leave a store takes its log away.
        """
        try:
            connection = _connected(self.path, "mode=rw")
            connection.execute("PRAGMA query_only=ON")
            return connection
        except sqlite3.OperationalError as error:
            if "unable to open" not in str(error) and "readonly" not in str(error):
                raise
        log = beside(self.path, "-wal")
        if not log.exists() or not log.stat().st_size:
            return _connected(self.path, "immutable=1")
        self._copy = tempfile.TemporaryDirectory()  # the log can be read only where it can be used
        copy = Path(self._copy.name) / "copy.db"
        for end in ("", "-wal"):
            shutil.copyfile(beside(self.path, end), beside(copy, end))
        return _connected(copy, "mode=rw")

    def _create(self) -> None:
        """A store that appears whole: others that open it at that moment find all of it or none."""
        try:
            with tempfile.TemporaryDirectory(dir=self.path.parent, prefix=".store") as folder:
                new = Path(folder) / "new.db"
                with self._errors(), contextlib.closing(_writing(new)) as connection:
                    for statement in _TABLES.split(";"):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id={APPLICATION}")
                    connection.execute(f"PRAGMA user_version={SCHEMA}")
                with contextlib.suppress(FileExistsError):
                    os.link(new, self.path)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be made: {error.strerror}") from None

    def _check(self) -> None:
        """A whole file, of ours, of a schema we know; an older one gets its checksums."""
        application, schema = (
            self._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version")
        )
        found = self._connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != b"ok":
            raise StoreDamaged(_damage(self.path))
        names = {each for (each,) in self._connection.execute("SELECT name FROM sqlite_schema")}
        is_ours = {b"runs", b"results"} <= names
        if application != APPLICATION:
            if is_ours:  # all of it is there but its sign
                raise StoreDamaged(_damage(self.path))
            raise StoreError(f"{self.path} is a SQLite file, but not a firststep store")
        if not is_ours or schema < 1:
            raise StoreDamaged(_damage(self.path))
        if schema > SCHEMA:
            told = f"schema {schema}, this one knows {SCHEMA}"
            raise StoreError(
                f"{self.path} was written by a newer firststep ({told}): update firststep, or "
                f"firststep sweep repair {self.path} if there is none"
            )
        self._has_checksums = schema >= SCHEMA
        if not self._has_checksums and not self._readonly:
            self._add_checksums()

    def _add_checksums(self) -> None:
        """Schema 2 from schema 1: what is sound by its key gets the checksum it has now."""
        with self._transaction():
            if self._connection.execute("PRAGMA user_version").fetchone()[0] < SCHEMA:
                self._connection.execute("ALTER TABLE results ADD COLUMN checksum TEXT")
                rows = self._connection.execute(f"SELECT id, {_COLUMNS} FROM results").fetchall()
                sums = [(checksum(row), number) for number, *row in rows if is_sound(row)]
                self._connection.executemany("UPDATE results SET checksum=? WHERE id=?", sums)
                self._connection.execute(f"PRAGMA user_version={SCHEMA}")
        self._has_checksums = True

    # Writing --------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """All of it or nothing, in the file that has the name of the store now."""
        self._still_there()
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise
        self._still_there()

    def _still_there(self) -> None:
        """Whoever writes to a file that was moved away or replaced writes to nobody."""
        if _identity(self.path) != self._file:
            raise StoreError(
                f"{self.path} was moved away or replaced while it was open: what was written "
                "last is not in it; run it again to compute what is missing"
            )

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """SQLite's errors in our words."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            text = str(error)
            if "malformed" in text or "not a database" in text or "decode" in text:
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
            return int(self._connection.execute(_INSERT_RUN, values).lastrowid or 0)

    def add(self, records: Iterable[Record], run: int) -> None:
        """Results in one transaction.

        A result that is there already stays; one without an answer, or spoiled, is replaced.
        """
        now = time.time()
        rows = [record.row(now, run) for record in records]
        keys = {row[0] for row in rows}
        replaced = [number for number, key in self.spoiled.items() if key in keys]
        with self._errors(), self._transaction():
            self._connection.executemany(
                "DELETE FROM results WHERE id=?", [(number,) for number in replaced]
            )
            self._connection.executemany(_INSERT, rows)
        for number in replaced:
            del self.spoiled[number]

    def take_over(self, runs: Iterable[Row], results: Iterable[Row]) -> None:
        """Sound rows of another store, as they are; their checksums are made here."""
        with self._errors(), self._transaction():
            self._connection.executemany(
                f"INSERT OR IGNORE INTO runs ({_RUN_COLUMNS}) VALUES (?, ?, ?, ?)",
                ([_text(value) for value in run] for run in runs),
            )
            self._connection.executemany(_INSERT, (_sealed(row) for row in results))

    def merge(self, other: str | Path) -> int:
        """Copy the results of another store; how many were new."""
        with Store(other, readonly=True) as source, self._errors(), self._transaction():
            renumbered = {}
            for run, *values in source._connection.execute(f"SELECT {_RUN_COLUMNS} FROM runs"):
                texts = [_text(value) for value in values]
                renumbered[run] = self._connection.execute(_INSERT_RUN, texts).lastrowid
            before = self._connection.total_changes
            for row in source._sound():
                *values, run, _ = row
                self._connection.execute(_INSERT, _sealed((*values, renumbered.get(run, 0))))
            return self._connection.total_changes - before

    # Reading --------------------------------------------------------------------------------------

    def _sound(self, where: str = "", given: tuple[object, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows that are what was written; the others are kept in mind.

        Whoever may write reads what has the name of the store now, as it would write there.
        """
        if not self._readonly:
            self._still_there()
        kept = "checksum" if self._has_checksums else "NULL"
        query = f"SELECT id, {', '.join(COLUMNS)}, {kept} FROM results NOT INDEXED {where}"
        for number, *row in self._connection.execute(query, given):
            if is_sound(row):
                yield tuple(row)
            else:
                self.spoiled[number] = str(_text(row[0]))

    def statuses(self) -> dict[str, str]:
        """The status of every key."""
        with self._errors():
            return {row[0].decode(): row[4].decode() for row in self._sound()}

    def records(
        self, keys: Iterable[str] | None = None, status: str | None = None
    ) -> Iterator[Record]:
        """Results, all or those of some keys."""
        wanted = None if keys is None else {key.encode() for key in keys}
        with self._errors():
            for row in self._sound(*(("WHERE status=?", (status,)) if status else ())):
                if wanted is None or row[0] in wanted:
                    yield Record.from_row(row)

    def numbers(self) -> dict[str, tuple[str, str, str, float]]:
        """Status, numbers as JSON text, reason and seconds of every key."""
        with self._errors():
            return {
                key.decode(): (status.decode(), numbers.decode(), reason.decode(), seconds)
                for key, _, _, _, status, numbers, _, reason, seconds, *_ in self._sound()
            }

    def runs(self) -> list[dict[str, Any]]:
        """When and with what results were made."""
        with self._errors():
            found = self._connection.execute(f"SELECT {_RUN_COLUMNS} FROM runs ORDER BY id")
            return [
                {"id": i, "started": t, "versions": json.loads(v), "experiment": _text(e)}
                for i, t, v, e in found
            ]


def beside(path: Path, end: str) -> Path:
    """SQLite's files of a store: the log (-wal) and its index (-shm)."""
    return path.with_name(path.name + end)


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file has this name."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    """A connection that gives texts as bytes: a text that is none is a matter of its checksum."""
    address = f"{path.resolve().as_uri()}?{mode}"
    connection = sqlite3.connect(address, timeout=_PATIENCE, isolation_level=None, uri=True)
    connection.text_factory = bytes
    try:
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # reads the first page
    except BaseException:
        connection.close()
        raise
    return connection


def _writing(path: Path) -> sqlite3.Connection:
    connection = _connected(path, "mode=rwc")
    try:
        _patiently(connection, "PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def _patiently(connection: sqlite3.Connection, statement: str) -> None:
    """Changing the journal does not wait for other processes by itself."""
    give_up = time.monotonic() + _PATIENCE
    while True:
        try:
            connection.execute(statement)
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > give_up:
                raise
            time.sleep(_PAUSE)


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _sealed(row: Row) -> tuple[Any, ...]:
    """A sound row with texts instead of bytes, and the checksum of what it is now."""
    values = tuple(_text(value) for value in row[: len(COLUMNS)])
    return (*values, checksum(values))


def _damage(path: Path) -> str:
    return (
        f"{path} is damaged or cut short: "
        f"firststep sweep repair {path} saves the results that can be read"
    )
