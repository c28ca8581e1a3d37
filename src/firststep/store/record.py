"""One result as it is kept: what it is of, its key, its numbers and the checksum of all of it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

DONE = "done"  # computed
REFUSED = "refused"  # has no answer
LOST = "lost"  # its worker died: worth another try
# The columns of a result in the order of its checksum, which stands behind them.
COLUMNS = (
    "key",
    "problem",
    "computation",
    "replicate",
    "status",
    "numbers",
    "arrays",
    "reason",
    "seconds",
    "finished",
    "run",
)
Row = Sequence[Any]  # the values of these columns; texts as bytes or str


def canonical(table: Mapping[str, Any]) -> str:
    """One text for equal tables: sorted keys, numbers to their last digit."""
    return json.dumps(table, sort_keys=True, separators=(",", ":"), allow_nan=False)


def key_of(problem: str, computation: str, replicate: int) -> str:
    return hashlib.sha256(f"{problem}\n{computation}\n{replicate}".encode()).hexdigest()[:32]


def clean(value: float) -> float | None:
    """A number fit for JSON; nan and infinity are None."""
    number = float(value)
    return number if math.isfinite(number) else None


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

    def row(self, finished: float, run: int) -> tuple[Any, ...]:
        """The columns that are kept of it, with their checksum."""
        texts = {
            name: json.dumps(getattr(self, name), separators=(",", ":"), allow_nan=False)
            for name in ("numbers", "arrays")
        }
        values = (self.key, *{**self._asdict(), **texts}.values(), finished, run)
        return (*values, checksum(values))

    @classmethod
    def from_row(cls, row: Row) -> Record:
        """The record of sound columns, texts as bytes."""
        named = dict(zip(COLUMNS, row, strict=False))
        tables = {name: json.loads(named[name]) for name in ("numbers", "arrays")}
        texts = {name: named[name].decode() for name in _TEXTS}
        return cls(**{name: named[name] for name in cls._fields} | texts | tables)


_TEXTS = ("problem", "computation", "status", "reason")


def checksum(row: Row) -> str:
    """A short hash of all columns: 64 bits, so that no damage of a disk passes."""
    parts = (each if isinstance(each, bytes) else _written(each) for each in row[: len(COLUMNS)])
    return hashlib.blake2b(b"\x1f".join(parts), digest_size=8).hexdigest()


def _written(value: object) -> bytes:
    text = value if isinstance(value, str) else repr(value)
    return text.encode("utf-8", "surrogateescape")


def is_sound(row: Row) -> bool:
    """Whether a row is what was written: its key that of its question, its checksum that of all.

    Texts are bytes, as a file has them. A row without a checksum, of a store of firststep 0.6 or
    older, is held against its key, and its numbers have to be JSON.
    """
    *values, kept = row
    try:
        if kept:
            return checksum(values).encode() == kept
        key, problem, computation, replicate, _, numbers, arrays, *_ = values
        is_of_key = key_of(problem.decode(), computation.decode(), replicate).encode() == key
        tables = (json.loads(text) for text in (numbers, arrays))
        return is_of_key and all(isinstance(table, dict) for table in tables)
    except (ValueError, TypeError, AttributeError):  # damaged in a way that cannot even be read
        return False
