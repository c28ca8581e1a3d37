"""Laws of the inputs: what the rows of data are drawn from. A description; the simulator draws.

gaussian            x ~ N(0, I)
rademacher          entries -1 or 1, i.i.d.
uniform             entries uniform in [-sqrt 3, sqrt 3], i.i.d.
student-t:NU        entries t_NU sqrt((NU - 2)/NU), i.i.d.
elliptical-t:NU     x = g sqrt((NU - 2)/q), g ~ N(0, I), one q ~ chi^2_NU for every sample
power-law:A         x ~ N(0, C), C diagonal with entries proportional to j^-A and trace d
mixture:R           two equal clusters at +-R along a random unit vector u, scaled along u to variance one:
                    x = g + u ((e R + g_u)/sqrt(1 + R^2) - g_u), g_u = <g, u>, e = +-1
covariance          x ~ N(0, C) for a given matrix C
data                rows of a given array, without replacement

All but the last three have entries of mean zero and variance one; all but power-law, covariance and data have the covariance I.
"""

from __future__ import annotations

import hashlib
import math
import re
import warnings
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firststep.errors import Fault, InvalidParameter, nearest, shown

Array = NDArray[np.float64]
PLAIN = ("gaussian", "rademacher", "uniform")
# Laws with a number: what it is called, what it must exceed, and what it may not exceed.
NUMBERED = {
    "student-t": ("the degrees of freedom", 2.0, 1e6),
    "elliptical-t": ("the degrees of freedom", 2.0, 1e6),
    "power-law": ("the exponent", 0.0, 10.0),
    "mixture": ("the distance of a cluster from the origin", 0.0, 1e6),
}
# Of the largest entry or eigenvalue: a product such as Q D Q^T leaves 1e-13, a text of nine digits 1e-9.
COVARIANCE_ROUNDING = 1e-8
SUFFIXES = (".npy", ".npz", ".parquet", ".csv")
ALLOWED = (
    "gaussian, rademacher, uniform, student-t:NU, elliptical-t:NU, power-law:A, mixture:R, "
    "a file (.npy, .npz, .parquet, .csv) or an array of samples x columns"
)


class Held:
    """An array that does not change, compared by its content."""

    def __init__(self, array: Any) -> None:
        self.array: Array = np.array(
            array, dtype=np.float64, order="C"
        )  # a copy: what is given may change
        self.array.flags.writeable = False
        head = "x".join(str(size) for size in self.array.shape)
        self.sha256 = hashlib.sha256(head.encode() + self.array.data).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held) and self.sha256 == other.sha256

    def __hash__(self) -> int:
        return hash(self.sha256)

    def __repr__(self) -> str:
        return (
            f"Held({' x '.join(str(size) for size in self.array.shape)}, sha256={self.sha256[:12]})"
        )


@dataclass(frozen=True)
class InputLaw:
    """A law of the inputs. Build it with ``input_law(...)``, ``DataInputs.load(path)`` or ``CovarianceInputs.of(matrix)``."""

    kind: str = "gaussian"
    parameter: float | None = None
    held: Held | None = field(default=None, repr=False)

    @property
    def is_gaussian(self) -> bool:
        """x ~ N(0, I): what the theory is about."""
        return self.kind == "gaussian"

    @property
    def dimension(self) -> int | None:
        """d, where the law fixes it."""
        return self.held.array.shape[1] if self.held is not None else None

    def describe(self) -> dict[str, Any]:
        """What a result keeps of the law besides its text: nothing, or the name, shape and hash of its array."""
        return {}

    def __str__(self) -> str:
        if self.parameter is None:
            return self.kind
        whole = int(self.parameter) if self.parameter == int(self.parameter) else self.parameter
        return f"{self.kind}:{whole!r}"


GAUSSIAN = InputLaw()


@dataclass(frozen=True)
class CovarianceInputs(InputLaw):
    """x ~ N(0, C); ``held`` is the symmetric root of C."""

    @classmethod
    def of(cls, covariance: Any) -> CovarianceInputs:
        """The law of a symmetric matrix without negative eigenvalues."""
        return cls.of_checked(checked_covariance(covariance))

    @classmethod
    def of_checked(cls, matrix: Array) -> CovarianceInputs:
        """The law of what ``checked_covariance`` gave back."""
        values, vectors = np.linalg.eigh(matrix)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        return cls("covariance", None, Held((root + root.T) / 2))

    def describe(self) -> dict[str, Any]:
        assert self.held is not None
        return {"shape": list(self.held.array.shape), "sha256_of_root": self.held.sha256}


@dataclass(frozen=True)
class DataInputs(InputLaw):
    """Rows of an array; every replicate takes disjoint random rows for the step, the ridge fit and the test set.

    ``DataInputs.load(path)`` reads a file, ``DataInputs.of(array)`` takes an array in memory. ``notes`` says what was done to it.
    """

    name: str = "array"
    standardize: bool = False
    whiten: bool = False
    key: str | None = field(default=None, compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def of(
        cls, array: Any, *, standardize: bool = False, whiten: bool = False, name: str = "array"
    ) -> DataInputs:
        """The law of an array of samples x columns.

        Constant columns are dropped. ``standardize``: every column minus its mean, over its standard deviation. ``whiten``: the
        rows in the basis of their principal components, each scaled to variance one; components without variance are dropped.
        """
        given, notes = _table(array, name), []
        for option, value in (("standardize", standardize), ("whiten", whiten)):
            if not isinstance(value, bool):
                raise InvalidParameter(option, "True or False", value)
        spread = given.max(axis=0) - given.min(axis=0)
        if not np.all(spread > 0):
            notes.append(
                f"{int(np.sum(spread == 0))} of {given.shape[1]} columns are constant and were dropped"
            )
            given = given[:, spread > 0]
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
        return cls("data", None, Held(given), name, standardize, whiten, None, tuple(notes))

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        key: str | None = None,
        standardize: bool = False,
        whiten: bool = False,
    ) -> DataInputs:
        """The rows of a file: .npy; .npz with one array, or the one called ``key``; .parquet, its numeric columns; .csv."""
        array, notes = _read(Path(path), key)
        made = cls.of(array, standardize=standardize, whiten=whiten, name=str(path))
        return cls(
            "data", None, made.held, str(path), standardize, whiten, key, (*notes, *made.notes)
        )

    @property
    def array(self) -> Array:
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


def input_law(source: Any) -> InputLaw:
    """The law meant by a text, an array of samples x columns, a path or an InputLaw.

    A text is a law such as ``student-t:5``, or a file with options after commas: ``data.npz,key=train,standardize``. With
    ``sha256=…`` (as the text of a DataInputs has it) the array read must have this hash.
    """
    if isinstance(source, InputLaw):
        return source
    if isinstance(source, Path):
        return DataInputs.load(source)
    if hasattr(source, "__array__"):  # NumPy, JAX, a data frame
        return DataInputs.of(source)
    if not isinstance(source, str):
        raise InvalidParameter("inputs", ALLOWED, source)
    text = source.strip()
    kind, _, number = text.partition(":")
    kind = kind.strip().lower()
    if kind in NUMBERED:
        return InputLaw(kind, _parameter(kind, number, source))
    if kind in PLAIN:
        if number:
            raise InvalidParameter("inputs", f"{kind} without a number", source)
        return InputLaw(kind)
    path = text.split(",")[0].strip()
    if Path(path).suffix.lower() in SUFFIXES or (path and Path(path).exists()):
        return _from_text(text)
    raise InvalidParameter("inputs", ALLOWED, source, nearest(kind, (*PLAIN, *NUMBERED)))


def _parameter(kind: str, text: str, source: str) -> float:
    words, low, high = NUMBERED[kind]
    allowed = f"{kind}:{'R' if kind == 'mixture' else 'A' if kind == 'power-law' else 'NU'}, {words}, > {low:g} and <= {high:g}"
    try:
        value = float(text)
    except ValueError:
        raise InvalidParameter("inputs", allowed, source) from None
    if not low < value <= high:
        raise InvalidParameter("inputs", allowed, source)
    return value


def _from_text(text: str) -> DataInputs:
    path, *options = (part.strip() for part in text.split(","))
    known: dict[str, Any] = {"key": None, "standardize": False, "whiten": False, "sha256": None}
    for option in options:
        name, equals, value = option.partition("=")
        if name not in known or bool(equals) != (known[name] is not False):
            allowed = (
                "a file followed by any of key=NAME, standardize, whiten, sha256=HASH, after commas"
            )
            raise InvalidParameter("inputs", allowed, text, f"{shown(option)} is none of them")
        known[name] = value if equals else True
    wanted = known.pop("sha256")
    made = _loaded(path, _stamp(path), *sorted(known.items()))
    if wanted is not None and not (
        re.fullmatch("[0-9a-f]{8,64}", wanted) and made.sha256.startswith(wanted)
    ):
        hint = "the file is no longer the one this was written for"
        raise InvalidParameter(
            "inputs", f"{path} with sha256={wanted}", f"sha256={made.sha256[:16]}", hint
        )
    return made


def _stamp(path: str) -> tuple[int, int]:
    """Changes when the file does."""
    try:
        found = Path(path).stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=2)
def _loaded(path: str, stamp: tuple[int, int], *options: tuple[str, Any]) -> DataInputs:
    """The replicates of a sweep read their file once."""
    return DataInputs.load(path, **dict(options))


def checked_covariance(source: Any, dimension: int | None = None) -> Array:
    """``source`` as a covariance matrix, of this dimension if one is given; it may be singular."""
    allowed = "a symmetric d x d matrix of finite numbers without negative eigenvalues"
    matrix = _numbers("covariance", source, allowed)
    d = len(matrix) if dimension is None and matrix.ndim == 2 else dimension
    if matrix.shape != (d, d) or len(matrix) < 2:
        shape = allowed if dimension is None else f"a {d} x {d} matrix"
        raise InvalidParameter("covariance", shape, f"an array of shape {matrix.shape}")
    size = float(np.abs(matrix).max())
    if not math.isfinite(size):
        raise InvalidParameter("covariance", allowed, "not finite")
    if np.abs(matrix - matrix.T).max() > COVARIANCE_ROUNDING * size:
        raise InvalidParameter("covariance", allowed, "a matrix that is not symmetric")
    values = np.linalg.eigvalsh(matrix)
    if not values[-1] > 0 or values[0] < -COVARIANCE_ROUNDING * values[-1]:
        raise InvalidParameter(
            "covariance",
            "a positive semi-definite matrix that is not zero",
            f"eigenvalues from {values[0]:.3g} to {values[-1]:.3g}",
        )
    return matrix


def _numbers(parameter: str, source: Any, allowed: str, hint: str = "") -> Array:
    """``source`` as an array of real numbers."""
    try:
        array = np.asarray(source)
        if array.dtype.kind not in "biuf":
            raise TypeError
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        kind = getattr(getattr(source, "dtype", None), "name", type(source).__name__)
        raise InvalidParameter(parameter, allowed, f"entries of type {kind}", hint) from None


def _table(source: Any, name: str) -> Array:
    """A table of finite numbers, samples x columns."""
    allowed, file = "a table of finite numbers, samples x columns", "" if name == "array" else name
    array = _numbers("inputs", source, allowed, file)
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
        given = f"{count} that {'is' if count == 1 else 'are'} not finite, the first in row {row}, column {column}"
        raise InvalidParameter("inputs", allowed, given, file)
    return array


def _whitened(centred: Array, name: str) -> tuple[Array, str]:
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
    note = f"whitened: rank {rank} of {columns} columns (effective rank (tr C)^2/tr C^2 = {effective:.1f} before)"
    return centred @ (vectors[:, kept] / np.sqrt(values[kept])), note


# Files ------------------------------------------------------------------------------------------------------------------------


def _read(path: Path, key: str | None) -> tuple[Any, list[str]]:
    """The array in a file, and what was left out of it."""
    suffix = path.suffix.lower()
    if key is not None and suffix != ".npz":
        raise InvalidParameter("key", "given only for .npz files", key, str(path))
    readers = {".npy": _read_npy, ".npz": _read_npz, ".parquet": _read_parquet, ".csv": _read_csv}
    if suffix not in readers:
        raise InvalidParameter("inputs", "a file of type " + ", ".join(SUFFIXES), str(path))
    try:
        return readers[suffix](path, key)
    except InvalidParameter:
        raise
    except OSError as error:
        raise InvalidParameter(
            "inputs", "a readable file", str(path), error.strerror or shown(str(error))
        ) from None
    except Exception as error:  # broken files fail in as many ways as there are readers
        raise InvalidParameter(
            "inputs", f"a valid {suffix} file of numbers", str(path), shown(str(error), 160)
        ) from None


def _read_npy(path: Path, key: str | None) -> tuple[Any, list[str]]:
    return np.load(path, allow_pickle=False), []


def _read_npz(path: Path, key: str | None) -> tuple[Any, list[str]]:
    with np.load(path, allow_pickle=False) as archive:
        names = list(archive)
        if key is None and len(names) != 1:
            hint = f"{path} holds {', '.join(names[:12]) or 'nothing'}"
            raise InvalidParameter("key", "the name of one array of the file", "nothing", hint)
        if key is not None and key not in names:
            raise InvalidParameter(
                "key",
                f"one of {', '.join(names[:12]) or 'no array'} in {path}",
                key,
                nearest(key, names),
            )
        return archive[names[0] if key is None else key], []


def _read_parquet(path: Path, key: str | None) -> tuple[Any, list[str]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        hint = "try: pip install 'firststep[tables]'"
        raise InvalidParameter(
            "inputs", "a file that can be read here: .parquet needs pyarrow", str(path), hint
        ) from None
    table = pyarrow.parquet.read_table(path)
    kinds = pyarrow.types
    numeric = [
        f.name
        for f in table.schema
        if kinds.is_integer(f.type) or kinds.is_floating(f.type) or kinds.is_decimal(f.type)
    ]
    others = [name for name in table.column_names if name not in numeric]
    if not numeric:
        raise InvalidParameter(
            "inputs",
            "a file with numeric columns",
            str(path),
            f"its columns are {', '.join(others[:12])}",
        )
    notes = (
        [f"{len(others)} columns that are not numeric were dropped: {', '.join(others[:12])}"]
        if others
        else []
    )
    columns = [
        table.column(name).cast(pyarrow.float64()).to_numpy(zero_copy_only=False)
        for name in numeric
    ]
    return np.stack(columns, axis=1), notes


def _read_csv(path: Path, key: str | None) -> tuple[Any, list[str]]:
    """Numbers between commas; a first line with a word in it is a header."""
    with path.open(encoding="utf-8") as lines:
        first = lines.readline().strip()
    if not first:
        raise InvalidParameter(
            "inputs", "a file with numbers in it", str(path), "its first line is empty"
        )
    skip = int(any(_is_word(cell) for cell in first.split(",")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty table is refused with its own words
        return np.loadtxt(path, delimiter=",", skiprows=skip, ndmin=2, encoding="utf-8"), []


def _is_word(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return bool(cell.strip())
    return False
