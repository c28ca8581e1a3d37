"""Rows of a table of data, as a law of the inputs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep.checks import real_array
from firststep.errors import Fault, InvalidParameter
from firststep.inputs.files import read_array
from firststep.inputs.law import Held, InputLaw

if TYPE_CHECKING:
    from types import ModuleType

    from firststep.inputs.law import Block, Streams
    from firststep.typing import Array, Float


@dataclass(frozen=True)
class DataInputs(InputLaw):
    """Rows of an array; every replicate takes disjoint random rows for the step, the fit, the test.

    ``DataInputs.load(path)`` reads a file, ``DataInputs.of(array)`` takes an array in memory.
    ``notes`` says what was done to it.
    """

    kind, meaning = "data", "rows of a given array, without replacement"
    has_unit_covariance = knows_covariance = False

    name: str = "array"
    standardize: bool = False
    whiten: bool = False
    key: str | None = field(default=None, compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def of(
        cls, array: object, *, standardize: bool = False, whiten: bool = False, name: str = "array"
    ) -> DataInputs:
        """The law of an array of samples x columns.

        Constant columns are dropped. ``standardize``: every column minus its mean, over its
        standard deviation. ``whiten``: the rows in the basis of their principal components, each
        scaled to variance one; components without variance are dropped.
        """
        given, notes = _table(array, name), []
        for option, value in (("standardize", standardize), ("whiten", whiten)):
            if not isinstance(value, bool):
                raise InvalidParameter(option, "True or False", value)
        varies = given.max(axis=0) - given.min(axis=0) > 0
        if not np.all(varies):
            constant = f"{int(np.sum(~varies))} of {given.shape[1]} columns are constant"
            notes.append(f"{constant} and were dropped")
            given = given[:, varies]
        if given.shape[1] < 2:
            raise InvalidParameter(
                "inputs",
                "at least two columns that are not constant",
                f"{given.shape[1]} in {name}",
            )
        if standardize or whiten:
            given = given - given.mean(axis=0)
        with np.errstate(all="ignore"):
            if standardize and not whiten:
                given /= given.std(axis=0)
        if whiten:
            given, note = _whitened(given, name)
            notes.append(note)
        if not np.all(np.isfinite(given)):
            raise InvalidParameter(
                "inputs",
                "a table of numbers that can be standardized",
                "some too large or too small",
                name,
            )
        return cls(
            held=Held(given), name=name, standardize=standardize, whiten=whiten, notes=tuple(notes)
        )

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        key: str | None = None,
        standardize: bool = False,
        whiten: bool = False,
    ) -> DataInputs:
        """The rows of a file: .npy; .npz with one array, or that called ``key``; .parquet; .csv."""
        array, notes = read_array(Path(path), key)
        made = cls.of(array, standardize=standardize, whiten=whiten, name=str(path))
        return replace(made, key=key, notes=(*notes, *made.notes))

    def own_arrays(self, xp: ModuleType, streams: Streams, dimension: int) -> tuple[Array, ...]:
        return (xp.argsort(streams.uniform("data rows", len(self.array))),)

    def rows(self, block: Block) -> Float[Array, "rows d"]:
        table, order = block.arrays
        return block.xp.take(table, block.part(order), axis=0)

    @property
    def available_rows(self) -> int:
        return len(self.array)

    @property
    def array(self) -> Float[Array, "rows d"]:
        assert self.held is not None
        return self.held.array

    @property
    def sha256(self) -> str:
        """Of the array as used: after columns were dropped, standardised or whitened."""
        assert self.held is not None
        return self.held.sha256

    def describe(self) -> dict[str, Any]:
        options = {name: True for name in ("standardize", "whiten") if getattr(self, name)}
        notes = {"notes": list(self.notes)} if self.notes else {}
        return {
            "name": self.name,
            "shape": list(self.array.shape),
            "sha256": self.sha256,
            **options,
            **notes,
        }

    def __str__(self) -> str:
        options = [name for name in ("standardize", "whiten") if getattr(self, name)]
        key = [f"key={self.key}"] if self.key is not None else []
        return ",".join([self.name, *key, *options, f"sha256={self.sha256[:16]}"])

    def __repr__(self) -> str:
        return (
            f"DataInputs({str(self)!r}, {self.array.shape[0]} rows x {self.array.shape[1]} columns)"
        )


def _table(source: object, name: str) -> Float[Array, "rows d"]:
    """A table of finite numbers, samples x columns."""
    allowed, file = "a table of finite numbers, samples x columns", "" if name == "array" else name
    array = real_array("inputs", source, allowed, file)
    shape = " x ".join(str(size) for size in array.shape) or "a single number"
    if array.ndim != 2:
        hint = ", ".join(
            filter(None, [file, "reshape it to samples x columns" if array.ndim > 2 else ""])
        )
        raise InvalidParameter("inputs", allowed, shape, hint)
    if array.shape[0] < 2 or array.shape[1] < 2:
        raise InvalidParameter(
            "inputs", "a table of at least two rows and two columns", shape, file
        )
    good = np.isfinite(array)
    if not good.all():
        row, column = (int(place) + 1 for place in np.argwhere(~good)[0])
        count = int(np.sum(~good))
        first = f"the first in row {row}, column {column}"
        given = f"{count} that {'is' if count == 1 else 'are'} not finite, {first}"
        raise InvalidParameter("inputs", allowed, given, file)
    return array


def _whitened(centred: Float[Array, "rows d"], name: str) -> tuple[Float[Array, "rows rank"], str]:
    """Principal components of variance one, and the sentence that says how many there are."""
    rows, columns = centred.shape
    values, vectors = np.linalg.eigh(centred.T @ centred / rows)
    kept = values > max(rows, columns) * np.finfo(float).eps * values[-1]
    rank = int(kept.sum())
    if rank < 2 or rank >= rows - 1:
        fault = Fault(
            "whiten", "asked for more rows than columns", f"{rows} rows of rank {rank} in {name}"
        )
        raise InvalidParameter.from_faults([fault])
    effective = float(values.sum() ** 2 / (values**2).sum())
    before = f"effective rank (tr C)^2/tr C^2 = {effective:.1f} before"
    note = f"whitened: rank {rank} of {columns} columns ({before})"
    return centred @ (vectors[:, kept] / np.sqrt(values[kept])), note
