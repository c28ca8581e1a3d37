"""Tensors in files: .safetensors, .npz and .npy, one read at a time and nothing ever executed.

A .safetensors file is 8 bytes with the length of its header, the header (JSON: for every tensor its
dtype, shape and place) and raw little-endian numbers, which are mapped into memory, not read.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from firststep.errors import InvalidParameter, shown

if TYPE_CHECKING:
    from firststep.typing import Array, Float

_KINDS = ".safetensors, .npz or .npy"
FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
# Other types of the format, by the bytes of an entry; their tensors are listed, not read.
_OTHERS = {"BOOL": 1, "U8": 1, "I8": 1, "U16": 2, "I16": 2, "U32": 4, "I32": 4, "U64": 8, "I64": 8}
_OTHERS |= {"F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "C64": 8}
_LONGEST_HEADER = 100_000_000  # bytes, the format's own limit
_MOST_ENTRIES = 2**53


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor by name: what it is, and its numbers when they are asked for."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    is_float: bool
    load: Callable[[], Float[Array, "..."]]  # as stored, or as float32 where NumPy has no such type

    @property
    def entries(self) -> int:
        return math.prod(self.shape)


def open_tensors(path: Path, parameter: str) -> dict[str, Tensor]:
    """The tensors of a file by name, in its order; only what describes them is read.

    What kind of file it is, its first bytes say, not its name.
    """
    try:
        with path.open("rb") as file:
            start = file.read(9)
        if start.startswith(b"\x93NUMPY"):
            return _npy(path, parameter)
        if start.startswith(b"PK"):
            return _npz(path, parameter)
        if path.suffix.lower() == ".safetensors" or start[8:] == b"{":
            return _safetensors(path, parameter)
    except InvalidParameter:
        raise
    except OSError as error:
        raise InvalidParameter(
            parameter, f"a readable {_KINDS} file", str(path), error.strerror or shown(str(error))
        ) from None
    except Exception:  # broken files fail in as many ways as there are readers
        pass
    _broken(parameter, path, "it cannot be read as such")


def _broken(parameter: str, path: Path, why: str) -> NoReturn:
    raise InvalidParameter(parameter, f"a valid {_KINDS} file of numbers", str(path), why)


def _safetensors(path: Path, parameter: str) -> dict[str, Tensor]:
    size = os.stat(path).st_size
    with path.open("rb") as file:
        start = file.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or length > min(size - 8, _LONGEST_HEADER):
            _broken(parameter, path, "it ends before its header does")
        try:
            header = json.loads(file.read(length), object_pairs_hook=_no_name_twice)
        except (ValueError, RecursionError):
            _broken(parameter, path, "its header is no JSON with one entry a name")
    if not isinstance(header, dict):
        _broken(parameter, path, "its header is no table of tensors")
    header.pop("__metadata__", None)
    found, places = {}, []
    for name, entry in header.items():
        described = _described(entry, size - 8 - length)
        if isinstance(described, str):
            _broken(parameter, path, f"{shown(name, 40)}: {described}")
        dtype, shape, begin, end = described
        places.append((begin, end))
        load = _mapped(path, dtype, shape, 8 + length + begin)
        found[name] = Tensor(name, shape, dtype, dtype in FLOATS, load)
    places = sorted(place for place in places if place[0] < place[1])
    if any(first[1] > second[0] for first, second in pairwise(places)):
        _broken(parameter, path, "its tensors overlap")
    return found


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _described(entry: object, room: int) -> tuple[str, tuple[int, ...], int, int] | str:
    """Type, shape, begin and end of a tensor, or what is wrong with what the header says of it."""

    if not isinstance(entry, dict):
        return "it has no dtype, shape and data_offsets"
    dtype = entry.get("dtype")
    shape, offsets = (_whole_numbers(entry.get(key)) for key in ("shape", "data_offsets"))
    if shape is None or offsets is None or len(offsets) != 2:
        return "its shape or place is not of whole numbers"
    if not isinstance(dtype, str):
        return "its dtype is no name"
    begin, end = offsets
    if not begin <= end <= room:
        return "it lies beyond the end of the file"
    bytes_of = {**{name: int(code[2]) for name, code in FLOATS.items()}, **_OTHERS}.get(dtype)
    if bytes_of is not None and math.prod(shape) * bytes_of != end - begin:
        return f"a {dtype} of shape {shown(str(shape), 40)} does not take {end - begin} bytes"
    return dtype, tuple(shape), begin, end


def _whole_numbers(values: object) -> list[int] | None:
    if isinstance(values, list) and all(
        type(each) is int and 0 <= each < _MOST_ENTRIES for each in values
    ):
        return values
    return None


def _mapped(
    path: Path, dtype: str, shape: tuple[int, ...], offset: int
) -> Callable[[], Float[Array, "..."]]:
    def load() -> Float[Array, "..."]:
        if math.prod(shape) == 0:
            return np.zeros(shape, np.float32)
        raw = np.memmap(path, FLOATS[dtype], "r", offset, shape)
        if dtype != "BF16":
            return raw
        # The upper half of a float32.
        return (raw.astype(np.uint32) << 16).view(np.float32)

    return load


def _npy(path: Path, parameter: str) -> dict[str, Tensor]:
    """One array; its name is the file's."""
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        _broken(parameter, path, "it is an archive: name it .npz")
    return {path.stem: held(path.stem, array)}


def _npz(path: Path, parameter: str) -> dict[str, Tensor]:
    """Arrays by name; of each only its header is read until it is asked for."""
    found: dict[str, Tensor] = {}
    with zipfile.ZipFile(path) as archive:
        if any(entry.filename.endswith((".pkl", "/version")) for entry in archive.infolist()):
            why = "files of PyTorch may run code when they are read: save it as .safetensors"
            _broken(parameter, path, why)
        for entry in archive.infolist():
            if not entry.filename.endswith(".npy"):
                continue
            name = entry.filename.removesuffix(".npy")
            with archive.open(entry) as file:
                version = np.lib.format.read_magic(file)
                read = {
                    (1, 0): np.lib.format.read_array_header_1_0,
                    (2, 0): np.lib.format.read_array_header_2_0,
                }.get(version)
                if read is None:
                    _broken(parameter, path, f"{shown(name, 40)} is of another version")
                shape, _, dtype = read(file)
            if math.prod(shape) * dtype.itemsize > entry.file_size:
                _broken(parameter, path, f"{shown(name, 40)} is cut off")
            load = _from_archive(path, parameter, name)
            found[name] = Tensor(name, shape, dtype.name, dtype.kind == "f", load)
    return found


def _from_archive(path: Path, parameter: str, name: str) -> Callable[[], Float[Array, "..."]]:
    def load() -> Float[Array, "..."]:
        try:
            with np.load(path, allow_pickle=False) as archive:
                return np.asarray(archive[name])
        except OSError as error:
            why = error.strerror or shown(str(error))
        except Exception:  # broken archives fail in as many ways as there are readers
            why = f"{shown(name, 40)} is damaged"
        _broken(parameter, path, why)

    return load


def held(name: str, array: Array) -> Tensor:
    """An array that is there already."""
    return Tensor(name, array.shape, array.dtype.name, array.dtype.kind == "f", lambda: array)


def names_of(tensors: dict[str, Tensor], most: int = 8) -> str:
    """The first names, for a message."""

    def parts() -> Iterator[str]:
        yield from list(tensors)[:most]
        if len(tensors) > most:
            yield f"... ({len(tensors)} in all)"

    return ", ".join(parts()) or "no tensor"
