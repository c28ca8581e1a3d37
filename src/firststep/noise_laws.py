"""Laws of the label noise: y = s + noise eps, eps from one of

    gaussian                N(0, 1)
    t:NU                    Student's t with NU > 2 degrees of freedom: noise is its scale, its
                            standard deviation is noise sqrt(NU/(NU - 2))
    mixture:S@W,S@W,...     N(0, S^2) with probability W; the weights sum to 1

So one rule holds for all: ``noise`` multiplies eps, and is the standard deviation where eps has
variance one.

All are mixtures of Gaussians. Student's t is N(0, NU/chi^2) with chi^2 of NU degrees of freedom; in
x = log(chi^2/NU), of density proportional to exp[NU (x + 1 - e^x)/2], a trapezoid rule is as good
as exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from firststep.errors import InvalidParameter, nearest

ALLOWED = "gaussian, t:NU with NU > 2, or mixture:S@W,S@W,... with weights W that sum to 1"
KINDS = ("gaussian", "t", "mixture")
LARGEST = 1e30  # of a scale: its square is still a number
# Spacing of the trapezoid in x, and that times sqrt(NU): the error is some exp(-pi^2/spacing), or
# exp[-(2 pi/spacing)^2/NU] where NU is large.
_SPACING, _SPACING_BY_WIDTH = 0.5, 1.3
_MOST = 1000  # nodes on either side
_NORMAL = 1e8  # degrees of freedom beyond which x is all rounding, and the law is Gaussian
TRUE = 2e-6  # error of E |eps|, in standard deviations, where the widest Gaussians are made one


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

    @property
    def deviation(self) -> float:
        """sqrt(E eps^2)."""
        return math.sqrt(self.second_moment)

    def has_moment(self, power: int) -> bool:
        """Whether E |eps|^power is finite."""
        return power < self.freedom

    def gaussians(self, least: float | None = None) -> tuple[tuple[float, float], ...]:
        """As a mixture of them: (weight, standard deviation), of the variance of the law.

        Those of a t that weigh less than ``least`` are made one; left out, E |eps| is right.
        """
        return _gaussians(self, least)

    def __str__(self) -> str:
        if self.kind == "t":
            return f"t:{self.freedom!r}"
        if self.kind == "mixture":
            pairs = zip(self.scales, self.weights, strict=True)
            return "mixture:" + ",".join(f"{scale!r}@{weight!r}" for scale, weight in pairs)
        return self.kind


@lru_cache(maxsize=64)
def _gaussians(law: NoiseLaw, least: float | None) -> tuple[tuple[float, float], ...]:
    if law.kind == "mixture":
        return tuple(zip(law.weights, law.scales, strict=True))
    if law.kind == "gaussian" or law.freedom > _NORMAL:
        return ((1.0, law.deviation),)
    if least is None:  # what is beyond has of E |eps| some least^((NU - 1)/NU)
        least = (TRUE / law.deviation) ** (law.freedom / (law.freedom - 1))
    return _of_student(law.freedom, least)


def _of_student(freedom: float, least: float) -> tuple[tuple[float, float], ...]:
    """Weights w_j and scales s_j = exp(-x_j/2) of the t.

    Where e^x is nothing the terms fall like geometric series, w_j with the ratio exp(-NU h/2) and
    w_j s_j^2 with exp(-(NU/2 - 1) h): what lies below ``least`` is summed and made one Gaussian.
    """
    h = min(_SPACING, _SPACING_BY_WIDTH / math.sqrt(freedom))
    x = h * np.arange(-_MOST, _MOST + 1)
    with np.errstate(over="ignore"):
        weights = np.exp(freedom * (x - np.expm1(x)) / 2)
        kept = np.flatnonzero(weights >= least * weights.sum())
        weights, squares = weights[kept], np.exp(-x[kept])
        beyond = weights[0] / np.expm1(freedom * h / 2)
        beyond_square = weights[0] * squares[0] / np.expm1((freedom / 2 - 1) * h)
    if beyond > 0:
        weights = np.append(beyond, weights)
        squares = np.append(beyond_square / beyond, squares)
    weights = weights / weights.sum()
    squares = squares * (freedom / (freedom - 2) / float(weights @ squares))
    return tuple(zip(map(float, weights), map(float, np.sqrt(squares)), strict=True))


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
