"""``input_law``: the law meant by a text, an array, a path or a law."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from firststep.errors import InvalidParameter, nearest, shown
from firststep.inputs.data import DataInputs
from firststep.inputs.files import SUFFIXES, refuse_another, stamp
from firststep.inputs.law import LAWS, InputLaw


def allowed() -> str:
    """What can be asked for, in words."""
    forms = ", ".join(law.form() for law in LAWS.values())
    return f"{forms}, a file ({', '.join(SUFFIXES)}) or an array of samples x columns"


def input_law(source: object) -> InputLaw:
    """The law meant by a text, an array of samples x columns, a path or an InputLaw.

    A text is a law such as ``student-t:5``, or a file with options after commas:
    ``data.npz,key=train,standardize``. With ``sha256=…`` (as the text of a DataInputs has it) the
    array read must have this hash.
    """
    if isinstance(source, InputLaw):
        return source
    if isinstance(source, Path):
        return DataInputs.load(source)
    if hasattr(source, "__array__"):  # NumPy, JAX, a data frame
        return DataInputs.of(source)
    if not isinstance(source, str):
        raise InvalidParameter("inputs", allowed(), source)
    text = source.strip()
    kind, _, number = text.partition(":")
    kind = kind.strip().lower()
    if kind in LAWS:
        return LAWS[kind].of_text(number, source)
    path = text.split(",")[0].strip()
    if Path(path).suffix.lower() in SUFFIXES or (path and Path(path).exists()):
        return _from_text(text)
    raise InvalidParameter("inputs", allowed(), source, nearest(kind, LAWS))


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
    made = _loaded(path, stamp(path), *sorted(known.items()))
    if wanted is not None:
        refuse_another(path, wanted, made.sha256)
    return made


@lru_cache(maxsize=2)
def _loaded(path: str, stamp: tuple[int, int], *options: tuple[str, Any]) -> DataInputs:
    """The replicates of a sweep read their file once."""
    return DataInputs.load(path, **dict(options))
