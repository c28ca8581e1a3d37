"""Laws of the readout weights: what the neurons' fixed outputs are drawn from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from firststep.errors import InvalidParameter, nearest

ALLOWED = (
    "gaussian, ones, signs, or values with weights that sum to 1 such as -1:0.25,0.5:0.5,2:0.25"
)
_NAMED: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "gaussian": ((), ()),
    "ones": ((1.0,), (1.0,)),
    "signs": ((-1.0, 1.0), (0.5, 0.5)),
}


@dataclass(frozen=True)
class ReadoutLaw:
    """The law of at_i = sqrt(N) a_i: standard Gaussian (no values), or values with weights."""

    values: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.values) != len(self.weights) or (
            self.values and abs(math.fsum(self.weights) - 1) > 1e-9
        ):
            raise InvalidParameter(
                "readout", "one weight per value, with sum 1", f"{self.values}, {self.weights}"
            )

    @property
    def is_gaussian(self) -> bool:
        return not self.values

    @property
    def mean(self) -> float:
        return math.fsum(v * w for v, w in zip(self.values, self.weights, strict=True))

    @property
    def second_moment(self) -> float:
        if self.is_gaussian:
            return 1.0
        return math.fsum(v * v * w for v, w in zip(self.values, self.weights, strict=True))

    @property
    def third_moment(self) -> float:
        return math.fsum(v**3 * w for v, w in zip(self.values, self.weights, strict=True))

    def __str__(self) -> str:
        for name, law in _NAMED.items():
            if (self.values, self.weights) == law:
                return name
        return ",".join(f"{v!r}:{w!r}" for v, w in zip(self.values, self.weights, strict=True))


def readout_law(source: object) -> ReadoutLaw:
    """The law meant by a name, ``value:weight,...``, a mapping {value: weight} or a ReadoutLaw."""

    def wrong(hint: str = "") -> InvalidParameter:
        return InvalidParameter("readout", ALLOWED, source, hint)

    if isinstance(source, ReadoutLaw):
        return source
    pairs: list[tuple[Any, Any]]
    if isinstance(source, str):
        text = source.strip().lower()
        if text in _NAMED:
            return ReadoutLaw(*_NAMED[text])
        if ":" not in text:
            raise wrong(nearest(text, _NAMED))
        parts = (part.partition(":") for part in text.split(",") if part.strip())
        pairs = [(value, weight) for value, _, weight in parts]
    elif isinstance(source, Mapping):
        pairs = list(source.items())
    else:
        raise wrong()
    try:
        numbers = sorted((float(value), float(weight)) for value, weight in pairs)
    except (TypeError, ValueError, OverflowError):
        raise wrong("each part is value:weight") from None
    if not numbers or not all(abs(v) <= 1e30 and math.isfinite(w) for v, w in numbers):
        raise wrong("values must be finite, at most 1e30 in size, and weights finite")
    if any(weight <= 0 for _, weight in numbers):
        raise wrong("weights must be positive")
    values = tuple(v for v, _ in numbers)
    if len(set(values)) < len(values):
        raise wrong("a value is given twice")
    total = math.fsum(w for _, w in numbers)
    if abs(total - 1) > 1e-9:
        raise wrong(f"the weights sum to {total:.6g}")
    return ReadoutLaw(values, tuple(w / total for _, w in numbers))


def names() -> tuple[str, ...]:
    """The named laws."""
    return tuple(_NAMED)
