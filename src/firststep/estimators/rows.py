"""Rows of data: where they come from, which part each belongs to, their units, their blocks.

Data are read in chunks of 1024 rows, as often as a pass over them is needed; nothing of the size of
the data is kept, except on a GPU where they fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firststep.errors import InvalidParameter
from firststep.estimators.targets import Running, too_large
from firststep.simulation.backends import Backend, block_rows

if TYPE_CHECKING:
    from firststep.estimators.kernel import Block
    from firststep.estimators.targets import Targets
    from firststep.typing import Array, Bool, Float

    Piece = tuple[Float[Array, "rows d"], Array]  # inputs and targets, as given
    Reader = Callable[[], Iterator[Piece]]

CHUNK = 1024  # rows: what belongs to which part depends on it, so it never changes
FIRST, SECOND, BOTH = "first", "second", "both"


def array_reader(inputs: Float[Array, "n d"], targets: Array) -> Reader:
    """Chunks of arrays in memory or mapped from a file."""

    def read() -> Iterator[Piece]:
        for start in range(0, len(targets), CHUNK):
            yield inputs[start : start + CHUNK], targets[start : start + CHUNK]

    return read


def regroup(pieces: Iterable[Piece], size: int) -> Iterator[Piece]:
    """The same rows in pieces of ``size``; only the last may be shorter.

    Always row by row in memory: sums round by order.
    """
    waiting: list[Piece] = []
    count = 0
    for inputs, targets in pieces:
        while len(targets):
            taken = min(size - count, len(targets))
            waiting.append((inputs[:taken], targets[:taken]))
            inputs, targets, count = inputs[taken:], targets[taken:], count + taken
            if count == size:
                yield _joined(waiting)
                waiting, count = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(pieces: list[Piece]) -> Piece:
    if len(pieces) == 1:
        inputs, targets = pieces[0]
    else:
        parts, wanted = zip(*pieces, strict=True)
        kinds = {each.dtype.kind in "US" for each in wanted}
        # numbers beside texts stay numbers, which NumPy would write out
        kind = object if len(kinds) > 1 else None
        inputs, targets = np.concatenate(parts), np.concatenate(wanted, dtype=kind)
    return np.ascontiguousarray(inputs), targets


@dataclass(frozen=True)
class Split:
    """Two parts of the rows, by row number and seed alone: a stream is split as an array is.

    Of the rows before the end of any chunk, floor(fraction * end + 1/2) belong to the first part;
    which ones within a chunk is random. At least one of the first chunk's rows belongs to each
    part.
    """

    fraction: float
    seed: int

    def is_first(self, number: int, count: int) -> Bool[Array, " rows"]:
        """For the ``count`` rows of a chunk, whether each belongs to the first part."""
        start = number * CHUNK
        before, after = (math.floor(self.fraction * rows + 0.5) for rows in (start, start + count))
        share = after - before
        if number == 0:
            share = min(max(share, 1), count - 1)
        # A key of two numbers: the streams of simulation.randomness have four, so none of them is
        # met again here.
        stream = np.random.SFC64(np.random.SeedSequence(self.seed, spawn_key=(0, number)))
        chosen = np.zeros(count, dtype=bool)
        chosen[np.random.Generator(stream).permutation(count)[:share]] = True
        return chosen


class Rows:
    """The data of one fit, in standard units: mean 0 and variance 1 over all rows.

    What becomes of the targets is up to ``Targets``. Without ``standardize`` the inputs are left as
    they are. ``varying`` says which columns are of any use.
    """

    def __init__(
        self,
        reader: Reader,
        split: Split,
        backend: Backend,
        *,
        targets: Targets,
        width: int,
        block: int | None,
        standardize: bool,
    ) -> None:
        self._reader, self._split, self._backend = reader, split, backend
        self._counts = {FIRST: 0, SECOND: 0}
        self._kept: dict[str, list[Block]] = {}
        self.targets, inputs = targets, Running()
        with np.errstate(over="ignore", invalid="ignore"):
            for number, (x, y) in enumerate(regroup(reader(), CHUNK)):
                inputs.add(x)
                targets.add(y)
                first = int(self._split.is_first(number, len(y)).sum())
                self._counts[FIRST] += first
                self._counts[SECOND] += len(y) - first
            if inputs.count < 2:
                raise InvalidParameter(
                    "batches", "a function that gives at least 2 rows", f"{inputs.count}"
                )
            self.scale, constant = inputs.spread()
            if not np.all(np.isfinite(self.scale)):
                raise too_large("X")
            targets.finish()
        self.mean = inputs.mean
        self.varying = ~constant
        if not standardize:
            self.mean, self.scale = np.zeros_like(self.mean), np.ones_like(self.scale)
            self.varying = np.ones_like(constant)
        # What rounding left of a constant column becomes 0.
        self._divisor = np.where(self.varying, self.scale, np.inf)
        self.columns = len(self.mean)
        self.block = block_rows(width, self.columns, backend) if block is None else block
        self._keep = self._fits_on_device()

    def _fits_on_device(self) -> bool:
        """Whether a GPU may hold the standardised data between passes.

        A quarter of its memory at most: the passes need theirs.
        """
        limit = None if self._backend.device == "cpu" else self._backend.memory_limit()
        return (
            limit is not None
            and 4 * self.count(BOTH) * self.columns * self._backend.dtype.itemsize <= limit
        )

    def count(self, part: str) -> int:
        return sum(self._counts.values()) if part == BOTH else self._counts[part]

    def standard(self, inputs: Float[Array, "rows d"]) -> Float[Array, "rows d"]:
        """Inputs in standard units, on the device.

        In double precision until then: single would lose small spreads.
        """
        return self._backend.to_device((inputs - self.mean) / self._divisor)

    def blocks(self, part: str) -> Iterator[Block]:
        """Inputs and targets of a part in standard units, on the device.

        Both parts: in one pass, or as each was kept.
        """
        if part == BOTH and self._keep:
            yield from self.blocks(FIRST)
            yield from self.blocks(SECOND)
            return
        if part in self._kept:
            yield from self._kept[part]
            return
        kept = []
        for inputs, targets in regroup(self._rows_of(part), self.block):
            wanted = self._backend.to_device(self.targets.standard(targets))
            block = self.standard(inputs), wanted
            if self._keep:
                kept.append(block)
            yield block
        if self._keep:
            self._kept[part] = kept

    def _rows_of(self, part: str) -> Iterator[Piece]:
        seen = 0
        for number, (inputs, targets) in enumerate(regroup(self._reader(), CHUNK)):
            seen += len(targets)
            if part != BOTH:
                mine = self._split.is_first(number, len(targets)) == (part == FIRST)
                inputs, targets = inputs[mine], targets[mine]
            yield inputs, targets
        if seen != self.count(BOTH):
            given = f"{self.count(BOTH)} rows, then {seen}"
            raise InvalidParameter(
                "batches", "a function that gives the same rows every time it is called", given
            )
