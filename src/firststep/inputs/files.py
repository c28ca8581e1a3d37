"""Arrays from files: .npy, .npz, .parquet and .csv."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from firststep.errors import InvalidParameter, nearest, shown

SUFFIXES = (".npy", ".npz", ".parquet", ".csv")


def stamp(path: str) -> tuple[int, int]:
    """Changes when the file does."""
    try:
        found = Path(path).stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def refuse_another(path: str, wanted: str, found: str) -> None:
    """Say so if what was read does not have the hash, or its beginning, that is wanted."""
    if re.fullmatch("[0-9a-f]{8,64}", wanted) and found.startswith(wanted):
        return
    hint = "the file is no longer the one this was written for"
    allowed = f"{path} with sha256={wanted}"
    raise InvalidParameter("inputs", allowed, f"sha256={found[:16]}", hint)


def read_array(path: Path, key: str | None) -> tuple[Any, list[str]]:
    """The array in a file, and what was left out of it."""
    suffix = path.suffix.lower()
    if key is not None and suffix != ".npz":
        raise InvalidParameter("key", "given only for .npz files", key, str(path))
    if suffix not in SUFFIXES:
        raise InvalidParameter("inputs", "a file of type " + ", ".join(SUFFIXES), str(path))
    try:
        if suffix == ".parquet":
            return _read_parquet(path)
        if suffix == ".csv":
            return _read_csv(path), []
        return _read_npz(path, key) if suffix == ".npz" else np.load(path, allow_pickle=False), []
    except InvalidParameter:
        raise
    except OSError as error:
        raise InvalidParameter(
            "inputs", "a readable file", str(path), error.strerror or shown(str(error))
        ) from None
    except Exception as error:  # broken files fail in as many ways as there are readers
        raise InvalidParameter(
            "inputs", f"a valid {suffix} file of numbers", str(path), _wrong_with(error)
        ) from None


def _wrong_with(error: Exception) -> str:
    """What a reader of files says, without its advice to programmers."""
    text = str(error)
    if "pickle" in text:
        return "it is damaged, or holds objects of Python"
    return shown(text.partition("; use `usecols`")[0], 160)


def _read_npz(path: Path, key: str | None) -> Any:
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
        return archive[names[0] if key is None else key]


def _read_parquet(path: Path) -> tuple[Any, list[str]]:
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
    dropped = f"{len(others)} columns that are not numeric were dropped: {', '.join(others[:12])}"
    columns = [
        table.column(name).cast(pyarrow.float64()).to_numpy(zero_copy_only=False)
        for name in numeric
    ]
    return np.stack(columns, axis=1), [dropped] if others else []


def _read_csv(path: Path) -> Any:
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
        return np.loadtxt(path, delimiter=",", skiprows=skip, ndmin=2, encoding="utf-8")


def _is_word(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return bool(cell.strip())
    return False
