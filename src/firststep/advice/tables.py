"""A table as ``advise`` takes it: which column is the target, what is wrong, a sample of its rows.

All rows are read once, in pieces: missing and infinite values, texts and constant columns are found
on all of them. What is computed afterwards sees a random sample of the rows, drawn in the same
pass, so that memory does not grow with the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep.advice.direction import MOST_PAIRED
from firststep.advice.sources import CHUNK, Source, as_numbers, open_source
from firststep.errors import Fault, InvalidParameter, NotEnoughMemory, nearest, shown
from firststep.simulation.backends import make_backend

if TYPE_CHECKING:
    from firststep.typing import Array, Bool, Float

FEWEST_ROWS = 10
MOST_ROWS = 20_000  # that are looked at
MOST_NUMBERS = 20_000_000  # of the sample, rows x columns; at least a thousand rows
COPY = 0.99999  # a correlation beyond which a column is the target in other units
NAMED = 8  # columns that a message names
REMEDY = "leave those rows out, or fill them in: scikit-learn has SimpleImputer"


@dataclass(frozen=True)
class Table:
    """Rows to learn from, and what was found on the way."""

    name: str
    inputs: Float[Array, "n d"]
    target: Float[Array, " n"]
    columns: tuple[str, ...]
    target_name: str
    total_rows: int  # of the table; ``inputs`` has a sample of them
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """What is going to be read, known before any row is."""

    source: Source
    places: tuple[int, ...]  # of the inputs
    target: int | None  # place of the target; None: labels were given by themselves
    labels: Float[Array, " n"] | None
    target_name: str
    most_rows: int
    memory: float  # bytes, at most

    def __str__(self) -> str:
        columns = f"{len(self.places)} columns and {self.target_name}"
        told = f"{columns}, read in pieces"
        if self.source.rows is not None:
            told = f"{self.source.rows} rows x {columns}"
        kept = f"at most {self.most_rows} rows and about {_size(self.memory)} in memory"
        return f"{self.source.name}: {told}; {kept}"


def _size(count: float) -> str:
    """Bytes in words."""
    return f"{count / 1e9:.2g} GB" if count >= 1e9 else f"{max(1, round(count / 1e6))} MB"


def make_plan(
    source: Any, y: Any, target: object, drop: object, *, rows: int | None, width: int
) -> Plan:
    """Open the table, find the target and the columns, and see that memory suffices."""
    opened = open_source(source)
    if y is not None and target is not None:
        raise InvalidParameter("target", "left out where y is given", str(target))
    if y is None and target is None:
        columns = shown(", ".join(opened.columns[-NAMED:]), 120)
        hint = f"the last columns are {columns}"
        raise InvalidParameter("target", "the name or place of a column", "nothing", hint)
    at = None if target is None else _place(opened, target, "target")
    dropped = {_place(opened, each, "drop") for each in _several(drop)}
    if at is not None and at in dropped:
        raise InvalidParameter("drop", "columns other than the target", opened.columns[at])
    places = tuple(
        place for place in range(len(opened.columns)) if place != at and place not in dropped
    )
    if not places:
        raise InvalidParameter("X", "a table with at least one column beside the target", "none")
    labels, name = (None, opened.columns[at]) if at is not None else _labels(y, opened.rows)
    d = len(places)
    most = min(MOST_ROWS, max(1000, MOST_NUMBERS // d)) if rows is None else rows
    most = most if opened.rows is None else min(most, opened.rows)
    # Measured, rounded up: features of two fits at a time with what is made of them, the sample
    # in folds and standard units, Gram matrices, pairs of rows (``direction``), a piece as read.
    piece = CHUNK if opened.rows is None else min(CHUNK, opened.rows)
    numbers = 10 * most * width + 6 * most * (d + 1) + 12 * width**2 + 3 * width * d
    numbers += 3 * min(most, MOST_PAIRED) ** 2 + 4 * piece * d
    limit = make_backend("numpy").memory_limit()
    if limit is not None and 8 * numbers > limit:
        hint = f"it needs {_size(8 * numbers)} and {_size(limit)} is free; try fewer"
        raise NotEnoughMemory("rows", "few enough to fit in memory", most, hint)
    return Plan(
        source=opened,
        places=places,
        target=at,
        labels=labels,
        target_name=name,
        most_rows=most,
        memory=8.0 * numbers,
    )


def _several(given: object) -> list[object]:
    if given is None:
        return []
    if isinstance(given, str):
        return [part.strip() for part in given.split(",") if part.strip()]
    return list(given) if isinstance(given, Iterable) else [given]


def _place(source: Source, given: object, parameter: str) -> int:
    """A column by its name, or by its place: 1 the first, -1 the last."""
    columns = source.columns
    if str(given) in columns:
        return columns.index(str(given))
    try:
        place = int(str(given))
    except ValueError:
        hint = nearest(str(given), columns) or f"they are {shown(', '.join(columns), 200)}"
        allowed = f"a column of {source.name}, by name or by place from 1 to {len(columns)}"
        raise InvalidParameter(parameter, allowed, given, hint) from None
    if not (1 <= abs(place) <= len(columns)):
        allowed = f"the place of a column, from 1 to {len(columns)}, or -1 for the last"
        raise InvalidParameter(parameter, allowed, given)
    return place - 1 if place > 0 else len(columns) + place


def _labels(y: Any, rows: int | None) -> tuple[Float[Array, " n"], str]:
    """Labels that are given by themselves."""
    name = str(getattr(y, "name", None) or "y")
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        given = f"an array of shape {' x '.join(map(str, values.shape)) or 'a single number'}"
        raise InvalidParameter("y", "one number for every row", given)
    found, text = as_numbers(values)
    if text is not None:
        raise InvalidParameter("y", "numbers", f"texts such as {text}", _OF_CLASSES)
    if rows is not None and rows != len(found):
        raise InvalidParameter("y", f"{rows} numbers, one for every row", f"{len(found)}")
    return found, name


_OF_CLASSES = "two classes can be 0 and 1; OneStepClassifier takes texts"


class _Seen:
    """What one pass over all rows finds: faults by column, ranges, and a sample of the rows."""

    def __init__(self, columns: int, most: int, seed: int) -> None:
        self.missing = np.zeros(columns, dtype=int)
        self.infinite = np.zeros(columns, dtype=int)
        self.low, self.high = np.full(columns, np.inf), np.full(columns, -np.inf)
        self.rows = 0
        self._most, self._rng = most, np.random.default_rng(seed)
        self._kept = np.empty((0, columns))
        self._keys, self._places = np.empty(0), np.empty(0, dtype=int)

    def add(self, piece: Float[Array, "rows columns"]) -> None:
        self.missing += np.isnan(piece).sum(axis=0)
        self.infinite += np.isinf(piece).sum(axis=0)
        # fmin and fmax pass over what is missing
        self.low = np.fmin(self.low, np.fmin.reduce(piece, axis=0))
        self.high = np.fmax(self.high, np.fmax.reduce(piece, axis=0))
        # The rows with the smallest of uniform keys are a random sample, however many follow.
        self._keys = np.concatenate([self._keys, self._rng.random(len(piece))])
        self._places = np.concatenate([self._places, self.rows + np.arange(len(piece))])
        self._kept = np.concatenate([self._kept, piece])
        self.rows += len(piece)
        if len(self._keys) > self._most:
            kept = np.sort(np.argpartition(self._keys, self._most)[: self._most])
            self._keys, self._places = self._keys[kept], self._places[kept]
            self._kept = self._kept[kept]

    @property
    def sample(self) -> Float[Array, "n columns"]:
        return self._kept


def read_table(
    plan: Plan, *, seed: int, progress: Callable[[int, int], None] | None = None
) -> Table:
    """Read all rows once; refuse what cannot be learned from, in one line."""
    source = plan.source
    places = list(plan.places) if plan.target is None else [*plan.places, plan.target]
    names = [*(source.columns[place] for place in plan.places), plan.target_name]
    seen, at = _Seen(len(names), plan.most_rows, seed), 0
    for piece in source.pieces(places):
        if plan.labels is not None:
            piece = np.column_stack([piece, plan.labels[at : at + len(piece)]])
        at += len(piece)
        if not source.texts:
            seen.add(piece)
        if progress is not None and source.rows:
            progress(at, source.rows)
    _refuse(source, seen, names, at)
    if plan.labels is not None and at != len(plan.labels):
        raise InvalidParameter("y", f"{at} numbers, one for every row", f"{len(plan.labels)}")
    inputs, target = seen.sample[:, :-1], seen.sample[:, -1]
    varying = seen.high[:-1] - seen.low[:-1] > 0
    notes, kept = _useful(inputs, names[:-1], varying)
    if not kept.any():
        raise InvalidParameter("X", "a table with a column that is not constant", "none")
    sampled = len(target) < seen.rows
    if sampled:
        told = f"{len(target)} of the {seen.rows} rows, drawn at random, were looked at"
        notes.append(f"{told}; faults were searched in all of them")
    if len(np.unique(target)) == 2:
        told = f"{plan.target_name} has two values and is taken as a number"
        notes.append(f"{told}: errors are Brier scores; OneStepClassifier fits classes")
    columns = tuple(name for name, keep in zip(names[:-1], kept, strict=True) if keep)
    inputs = np.ascontiguousarray(inputs[:, kept])
    return Table(
        name=source.name,
        inputs=inputs,
        target=np.ascontiguousarray(target),
        columns=columns,
        target_name=plan.target_name,
        total_rows=seen.rows,
        notes=tuple(notes),
        warnings=tuple(_leaks(inputs, target, columns)),
    )


def _refuse(source: Source, seen: _Seen, names: Sequence[str], rows: int) -> None:
    if source.texts:
        columns = shown(", ".join(list(source.texts)[:NAMED]), 120)
        column, text = next(iter(source.texts.items()))
        if names[-1] in source.texts:
            given = f"texts in it, such as {shown(source.texts[names[-1]], 30)}"
            raise InvalidParameter("target", f"numbers in {names[-1]}", given, _OF_CLASSES)
        hint = f"drop={columns.replace(', ', ',')}, or encode them as numbers with scikit-learn"
        given = f"texts in {columns}, such as {shown(text, 30)} in {column}"
        raise _fault("X", "columns of numbers", given, hint)
    if rows < FEWEST_ROWS:
        raise InvalidParameter("X", f"a table of at least {FEWEST_ROWS} rows", f"{rows}")
    for counts, word, hint in (
        (seen.missing, "missing values", REMEDY),
        (seen.infinite, "infinite values", "leave those rows out"),
    ):
        if counts.any():
            worst = [place for place in np.argsort(-counts, kind="stable") if counts[place]]
            told = ", ".join(f"{counts[place]} in {names[place]}" for place in worst[:NAMED])
            more = f" and {len(worst) - NAMED} other columns" if len(worst) > NAMED else ""
            given = f"{word}: {shown(told, 300)}{more}"
            raise _fault("X", "finite numbers", given, hint)
    if not seen.high[-1] > seen.low[-1]:
        given = f"one value, {seen.high[-1]:g}"
        raise InvalidParameter("target", f"a column that varies: {names[-1]}", given)
    largest = float(np.maximum(np.abs(seen.low), np.abs(seen.high)).max())
    if largest > 1e100:  # squares of squares are still numbers
        raise InvalidParameter("X", "numbers up to 1e100", f"{largest:g}", "rescale the columns")


def _fault(parameter: str, allowed: str, given: str, hint: str) -> InvalidParameter:
    """With names of columns in full, which are more than messages usually show."""
    return InvalidParameter.from_faults([Fault(parameter, allowed, given, hint)])


def _useful(
    inputs: Float[Array, "n d"], names: Sequence[str], varying: Bool[Array, " d"]
) -> tuple[list[str], Bool[Array, " d"]]:
    """Which columns say something that no other says, and words on the others."""
    notes, kept = [], varying & (inputs.max(axis=0) > inputs.min(axis=0))
    if not kept.all():
        left = [name for name, keep in zip(names, kept, strict=True) if not keep]
        notes.append(f"constant and left out: {shown(', '.join(left), 200)}")
    first: dict[bytes, str] = {}
    copies = []
    for place in np.flatnonzero(kept).tolist():
        content = np.ascontiguousarray(inputs[:, place] + 0.0).tobytes()  # -0.0 is 0.0
        if content in first:
            copies.append(f"{names[place]} (of {first[content]})")
            kept[place] = False
        else:
            first[content] = names[place]
    if copies:
        notes.append(f"copies and left out: {shown(', '.join(copies), 200)}")
    return notes, kept


def _leaks(
    inputs: Float[Array, "n d"], target: Float[Array, " n"], columns: Sequence[str]
) -> list[str]:
    """Columns that are the target itself, in the same or in other units."""
    centred, labels = inputs - inputs.mean(axis=0), target - target.mean()
    lengths = np.linalg.norm(centred, axis=0) * np.linalg.norm(labels)
    correlations = labels @ centred / np.where(lengths > 0, lengths, np.inf)
    found = []
    for place in np.flatnonzero(np.abs(correlations) > COPY).tolist():
        told = f"{columns[place]} is a copy of the target (correlation {correlations[place]:.5f})"
        found.append(f"{told}: leave it out unless it is known before the target is")
    return found
