"""Laws of the label noise: y = s + noise eps, eps from one of

    gaussian                N(0, 1)
    t:NU                    Student's t with NU > 2 degrees of freedom: noise is its scale, its
                            standard deviation is noise sqrt(NU/(NU - 2))
    mixture:S@W,S@W,...     N(0, S^2) with probability W; the weights sum to 1

So one rule holds for all: ``noise`` multiplies eps, and is the standard deviation where eps has
variance one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from firststep.errors import InvalidParameter, nearest

ALLOWED = "gaussian, t:NU with NU > 2, or mixture:S@W,S@W,... with weights W that sum to 1"
KINDS = ("gaussian", "t", "mixture")
LARGEST = 1e30  # of a scale: its square is still a number


@dataclass(frozen=True)
class NoiseLaw:
    """The law of eps."""

    kind: str = "gaussian"
    freedom: float = math.inf  # NU of the t
    scales: tuple[float, ...] = ()  # of a mixture
    weights: tuple[float, ...] = ()

    @property
    def is_gaussian(self) -> bool:
        return self.kind == "gaussian"

    @property
    def second_moment(self) -> float:
        """E eps^2."""
        if self.kind == "t":
            return self.freedom / (self.freedom - 2)
        if self.kind == "mixture":
            pairs = zip(self.scales, self.weights, strict=True)
            return math.fsum(weight * scale**2 for scale, weight in pairs)
        return 1.0

    def __str__(self) -> str:
        if self.kind == "t":
            return f"t:{self.freedom!r}"
        if self.kind == "mixture":
            pairs = zip(self.scales, self.weights, strict=True)
            return "mixture:" + ",".join(f"{scale!r}@{weight!r}" for scale, weight in pairs)
        return self.kind


def noise_law_of(source: object) -> NoiseLaw:
    """The law meant by a text, or a NoiseLaw."""

    def wrong(hint: str = "") -> InvalidParameter:
        return InvalidParameter("noise-law", ALLOWED, source, hint)

    if isinstance(source, NoiseLaw):
        return source
    if not isinstance(source, str):
        raise wrong()
    name, colon, given = source.strip().lower().partition(":")
    if name not in KINDS:
        raise wrong(nearest(name, KINDS))
    if (name == "gaussian") == bool(colon):
        forms = "gaussian has no parameter; write t:NU or mixture:S@W,..."
        raise wrong(forms)
    if name == "gaussian":
        return NoiseLaw()
    if name == "t":
        freedom = _number(given)
        if not 2 < freedom < LARGEST:
            raise wrong("NU must be a number above 2: the variance is then finite")
        return NoiseLaw("t", freedom=freedom)
    parts = [part.partition("@") for part in given.split(",")]
    pairs = sorted((_number(scale), _number(weight)) for scale, _, weight in parts)
    if not all(0 <= scale < LARGEST and 0 < weight < math.inf for scale, weight in pairs):
        raise wrong("each part is S@W, a scale S >= 0 and a weight W > 0")
    total = math.fsum(weight for _, weight in pairs)
    if abs(total - 1) > 1e-9:
        raise wrong(f"the weights sum to {total:.6g}")
    scales, weights = zip(*pairs, strict=True)
    return NoiseLaw("mixture", scales=scales, weights=tuple(w / total for w in weights))


def _number(text: str) -> float:
    """The number that is written; nan if none is."""
    try:
        return float(text)
    except ValueError:
        return math.nan
