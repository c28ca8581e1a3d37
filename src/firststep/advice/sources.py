"""Where rows come from: arrays, frames, .npy by memory map, .parquet and .csv in pieces.

A source says the names of its columns before anything is read, and gives pieces of numbers as
often as it is asked: a missing value is nan there, and a column that holds texts is named in
``texts`` with one of them.
"""

from __future__ import annotations

import csv
import itertools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep.checks import real_array
from firststep.errors import InvalidParameter, shown

if TYPE_CHECKING:
    from firststep.typing import Array, Float

SUFFIXES = (".csv", ".parquet", ".npy")
TABLE = "a table of numbers, samples x columns"
CHUNK = 20_000  # rows that are read at once
DELIMITERS = ",;\t"
# What tables write where a number is missing, in small letters.
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "-"})


class Source(ABC):
    """Rows x columns of numbers, in pieces."""

    def __init__(self, name: str, columns: Sequence[str], rows: int | None) -> None:
        self.name, self.columns, self.rows = name, tuple(columns), rows
        self.texts: dict[str, str] = {}
        self.missing_rows_dropped = 0
        repeated = [column for column, count in Counter(self.columns).items() if count > 1]
        if repeated:
            given = f"{shown(', '.join(repeated))} more than once in {name}"
            raise InvalidParameter("X", "columns with names of their own", given)

    @abstractmethod
    def pieces(self, places: Sequence[int]) -> Iterator[Float[Array, "rows columns"]]:
        """These columns of all rows, in order."""


class ArraySource(Source):
    """An array in memory or mapped from a file."""

    def __init__(self, name: str, array: Array) -> None:
        shape = " x ".join(map(str, array.shape)) or "a single number"
        if array.ndim != 2:
            hint = "reshape it to samples x columns" if array.ndim > 2 else ""
            raise InvalidParameter("X", TABLE, f"an array of shape {shape}", hint)
        if array.dtype.kind not in "biuf":
            given = f"entries of type {array.dtype.name}"
            raise InvalidParameter("X", TABLE, given, "encode texts as numbers first")
        columns = [f"column {place + 1}" for place in range(array.shape[1])]
        super().__init__(name, columns, len(array))
        self._array = array

    def pieces(self, places: Sequence[int]) -> Iterator[Float[Array, "rows columns"]]:
        for start in range(0, len(self._array), CHUNK):
            yield np.asarray(self._array[start : start + CHUNK], dtype=float)[:, list(places)]


class FrameSource(Source):
    """A data frame: anything with ``columns`` that gives each of them by its name."""

    def __init__(self, name: str, frame: Any) -> None:
        super().__init__(name, [str(column) for column in frame.columns], len(frame))
        self._frame, self._names = frame, list(frame.columns)

    def pieces(self, places: Sequence[int]) -> Iterator[Float[Array, "rows columns"]]:
        held = [self._numbers(place) for place in places]
        for start in range(0, len(self._frame), CHUNK):
            yield np.stack([column[start : start + CHUNK] for column in held], axis=1)

    def _numbers(self, place: int) -> Float[Array, " rows"]:
        values = np.asarray(self._frame[self._names[place]])
        found, text = as_numbers(values)
        if text is not None:
            self.texts[self.columns[place]] = text
        return found


class ParquetSource(Source):
    """A .parquet file, row group by row group."""

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow.parquet
        except ImportError:
            allowed = "a file that can be read here: .parquet needs pyarrow"
            hint = "try: pip install 'firststep[tables]'"
            raise InvalidParameter("X", allowed, str(path), hint) from None
        self._file = pyarrow.parquet.ParquetFile(path)
        super().__init__(str(path), self._file.schema_arrow.names, self._file.metadata.num_rows)

    def pieces(self, places: Sequence[int]) -> Iterator[Float[Array, "rows columns"]]:
        names = [self.columns[place] for place in places]
        for batch in self._file.iter_batches(batch_size=CHUNK, columns=names):
            columns = []
            for name in names:
                values = batch.column(batch.schema.get_field_index(name))
                found, text = as_numbers(values.to_numpy(zero_copy_only=False))
                if text is not None:
                    self.texts.setdefault(name, text)
                columns.append(found)
            yield np.stack(columns, axis=1)


class CsvSource(Source):
    """Lines of numbers between commas, semicolons or tabs; a first line with a word is a header."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open(encoding="utf-8-sig", newline="") as lines:
            first = lines.readline()
        if not first.strip():
            raise InvalidParameter("X", TABLE, str(path), "its first line is empty")
        self._delimiter = max(DELIMITERS, key=first.count)
        head = next(csv.reader([first], delimiter=self._delimiter))
        self._has_header = any(_text(cell) is not None for cell in head)
        names = [cell.strip() or f"column {place + 1}" for place, cell in enumerate(head)]
        if not self._has_header:
            names = [f"column {place + 1}" for place in range(len(head))]
        super().__init__(str(path), names, None)

    def pieces(self, places: Sequence[int]) -> Iterator[Float[Array, "rows columns"]]:
        number = int(self._has_header)
        with self._path.open(encoding="utf-8-sig", newline="") as file:
            lines = itertools.islice(file, number, None)
            while chunk := list(itertools.islice(lines, CHUNK)):
                # an open quote goes on in the next line
                while sum(line.count('"') for line in chunk) % 2 and (more := next(lines, "")):
                    chunk.append(more)
                found = self._parsed(chunk, list(places), number)
                number += len(chunk)
                if len(found):
                    yield found

    def _parsed(
        self, lines: list[str], places: list[int], before: int
    ) -> Float[Array, "rows columns"]:
        """Fast where all is well: numbers only, one width."""
        filled = [line for line in lines if line.strip()]
        if not filled:
            return np.empty((0, len(places)))
        try:
            every = np.loadtxt(filled, delimiter=self._delimiter, ndmin=2, comments=None)
            if every.shape[1] == len(self.columns):
                return every[:, places]
        except ValueError:
            pass
        return self._slowly(lines, places, before)

    def _slowly(
        self, lines: list[str], places: list[int], before: int
    ) -> Float[Array, "rows columns"]:
        """Cell by cell, which knows what is missing and what is a text."""
        rows = []
        for number, cells in enumerate(csv.reader(lines, delimiter=self._delimiter), before + 1):
            if not cells:
                continue
            if len(cells) != len(self.columns):
                given = f"{len(cells)} in line {number} of {self.name}"
                allowed = f"a table with {len(self.columns)} cells in every line, as in the first"
                raise InvalidParameter("X", allowed, given)
            rows.append([cells[place] for place in places])
        table = np.full((len(rows), len(places)), np.nan)
        for column, place in enumerate(places):
            for row, cells in enumerate(rows):
                text = _text(cells[column])
                if text is not None:
                    self.texts.setdefault(self.columns[place], text)
                elif cells[column].strip().lower() not in MISSING:
                    table[row, column] = float(cells[column])
        return table


def _text(cell: str) -> str | None:
    """A cell that is neither a number nor missing."""
    stripped = cell.strip()
    if stripped.lower() in MISSING:
        return None
    try:
        float(stripped)
    except ValueError:
        return stripped
    return None


def as_numbers(values: Array) -> tuple[Float[Array, " rows"], str | None]:
    """A column as numbers, nan where one is missing; the first text, if there is one."""
    if values.dtype.kind in "biuf":
        return values.astype(float), None
    found = np.full(len(values), np.nan)
    if values.dtype.kind != "O":
        return found, shown(str(values[0]) if len(values) else "", 30)
    for place, value in enumerate(values.tolist()):
        if value is None or type(value).__name__ in ("NAType", "NaTType"):
            continue
        if isinstance(value, str):
            return found, shown(value, 30)
        try:
            found[place] = float(value)
        except (TypeError, ValueError):
            return found, shown(str(value), 30)
    return found, None


def open_source(source: Any) -> Source:
    """What ``advise`` is given as X: a file, a frame or an array."""
    if isinstance(source, str | Path):
        return _opened(Path(source))
    if hasattr(source, "columns") and hasattr(source, "__getitem__"):
        return FrameSource("the frame", source)
    array = np.asarray(source) if hasattr(source, "shape") and hasattr(source, "dtype") else None
    is_masked = isinstance(source, np.ma.MaskedArray)
    if array is None or is_masked or array.dtype.kind not in "biuf":
        array = real_array("X", source, TABLE, "encode texts as numbers first")
    return ArraySource("the array", array)


def _opened(path: Path) -> Source:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InvalidParameter("X", "a file of type " + ", ".join(SUFFIXES), str(path))
    try:
        if suffix == ".npy":
            return ArraySource(str(path), np.load(path, mmap_mode="r", allow_pickle=False))
        return CsvSource(path) if suffix == ".csv" else ParquetSource(path)
    except InvalidParameter:
        raise
    except FileNotFoundError:
        raise InvalidParameter("X", "a file that exists", str(path)) from None
    except OSError as error:
        why = error.strerror or shown(str(error))
        raise InvalidParameter("X", "a readable file", str(path), why) from None
    except Exception as error:  # broken files fail in as many ways as there are readers
        why = shown(str(error), 120)
        raise InvalidParameter("X", f"a valid {suffix} file", str(path), why) from None
