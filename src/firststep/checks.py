"""Checks at the door: a value as it should be, or an ``InvalidParameter`` that says why not."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from firststep.errors import InvalidParameter, nearest

if TYPE_CHECKING:
    from firststep.typing import Array

# Of any of d, n, N, n0: far beyond any memory, near enough that no arithmetic overflows.
MAX_SIZE = 10**9
LARGEST_RIDGE = 1e30  # its square is still a number
RIDGE_ALLOWED = (
    "a number from 0 to 1e30, several of them, or a range such as 1e-4..1e2:13 "
    "(13 values, evenly spaced in the logarithm)"
)


_NO_NUMBERS = "bcSUmMO"  # kinds of entries: truth, complex, bytes, texts, times, anything


class Bounds(NamedTuple):
    """What a number may be: at least ``low`` (more, if ``strict``) and at most ``high``."""

    low: float
    strict: bool = False
    high: float = math.inf


def number(
    parameter: str, value: Any, low: float, strict: bool = False, high: float = math.inf
) -> float:
    """``value`` as a finite float in [low, high] (or (low, high] if ``strict``)."""
    allowed = f"a finite number {'>' if strict else '>='} {low:g}" + (
        f" and <= {high:g}" if high < math.inf else ""
    )
    try:
        if isinstance(value, bool):
            raise TypeError
        result = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameter(parameter, allowed, value) from None
    if not math.isfinite(result) or result > high or (result <= low if strict else result < low):
        raise InvalidParameter(parameter, allowed, value)
    return result


def whole(parameter: str, value: Any, low: int, high: int | None = None) -> int:
    """``value`` as an integer in [low, high], exactly: no digit of a long seed is lost."""
    allowed = f"a whole number >= {low}" + (
        f" and <= {high if high < 10**6 else f'{high:.0e}'}" if high is not None else ""
    )
    try:
        if isinstance(value, bool):
            raise TypeError
        try:
            result = int(value) if isinstance(value, str) else operator.index(value)
        except (TypeError, ValueError):
            result = int(float(value))
            if result != float(value):
                raise ValueError from None
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameter(parameter, allowed, value) from None
    if result < low or (high is not None and result > high):
        raise InvalidParameter(parameter, allowed, value)
    return result


def real_array(parameter: str, source: object, allowed: str, hint: str = "") -> Array:
    """``source`` as an array of real numbers, nothing lost on the way.

    Masked entries, imaginary parts, truth values, dates and texts are no numbers, though NumPy
    would make some of them.
    """
    try:
        array = np.asarray(source)
        if array.dtype.kind in _NO_NUMBERS or isinstance(source, np.ma.MaskedArray):
            raise TypeError
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # PyTorch's tensors: the last
        kind = getattr(getattr(source, "dtype", None), "name", type(source).__name__)
        masked = "masked " if isinstance(source, np.ma.MaskedArray) else ""
        given = source if isinstance(source, str) else f"{masked}entries of type {kind}"
        raise InvalidParameter(parameter, allowed, given, hint) from None


def flag(parameter: str, value: object) -> bool:
    """true or false."""
    if isinstance(value, bool):
        return value
    raise InvalidParameter(parameter, "true or false", value)


def choice(parameter: str, value: object, options: Iterable[str]) -> str:
    """``value`` if it is one of ``options``."""
    options = tuple(options)
    if not isinstance(value, str) or value not in options:
        raise InvalidParameter(
            parameter, "one of " + ", ".join(options), value, nearest(str(value), options)
        )
    return value


def ridge_values(source: object) -> float | tuple[float, ...]:
    """One ridge value, or a tuple of several, from numbers, sequences and texts.

    Such as ``0.1,1`` or ``1e-4..1e2:13``.
    """
    if isinstance(source, np.ma.MaskedArray):
        raise InvalidParameter("ridge", RIDGE_ALLOWED, source)
    if isinstance(source, str):
        parts = [part for part in source.replace(",", " ").split() if part]
        values = [value for part in parts for value in _ridge_text(part, source)]
        several = len(values) != 1
    elif isinstance(source, Sequence) or (isinstance(source, np.ndarray) and source.ndim > 0):
        nested = [ridge_values(each) for each in source]
        values = [v for each in nested for v in (each if isinstance(each, tuple) else (each,))]
        several = len(values) != 1 or not isinstance(source, list)
    else:
        values, several = [_ridge_number(source)], False
    if not values:
        raise InvalidParameter("ridge", RIDGE_ALLOWED, source)
    return tuple(values) if several else values[0]


def _ridge_number(value: object) -> float:
    try:
        return number("ridge", value, 0.0, high=LARGEST_RIDGE)
    except InvalidParameter:
        raise InvalidParameter("ridge", RIDGE_ALLOWED, value) from None


def _ridge_text(part: str, whole_text: str) -> list[float]:
    if ".." not in part:
        return [_ridge_number(part)]
    try:
        ends, count_text = part.split(":")
        low, high = (float(end) for end in ends.split(".."))
        count = int(count_text)
    except ValueError:
        raise InvalidParameter("ridge", RIDGE_ALLOWED, whole_text) from None
    if not (0 < low < high < math.inf) or not 2 <= count <= 10_000:
        hint = "a range needs 0 < first < last and 2 to 10000 values"
        raise InvalidParameter("ridge", RIDGE_ALLOWED, whole_text, hint)
    return [float(value) for value in np.geomspace(low, high, count)]


def dimension_value(source: object) -> float:
    """A whole number >= 2, or infinity."""
    allowed = "a whole number >= 2 and <= 1e9, or inf where only theory is asked"
    try:
        if isinstance(source, str) and source.strip().lower() in ("inf", "infinity"):
            return math.inf
        if isinstance(source, float) and source == math.inf:
            return math.inf
        return whole("dimension", source, 2, MAX_SIZE)
    except InvalidParameter:
        raise InvalidParameter("dimension", allowed, source) from None
