"""A number with its interval, and the error of a mean over rows that were held out in folds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.stats

if TYPE_CHECKING:
    from firststep.typing import Array, Float, Int

LEVEL = 0.95  # of every interval


@dataclass(frozen=True)
class Interval:
    """``value`` with the interval from ``low`` to ``high`` that holds the truth at 95 %."""

    value: float
    low: float
    high: float

    @classmethod
    def around(cls, value: float, error: float, freedom: float = math.inf) -> Interval:
        """value -+ t error, t of Student's law with so many degrees of freedom."""
        reach = float(scipy.stats.t.ppf((1 + LEVEL) / 2, freedom)) * error
        return cls(value, value - reach, value + reach)

    @property
    def is_positive(self) -> bool:
        """Whether zero and all below it are outside."""
        return self.low > 0

    @property
    def is_negative(self) -> bool:
        return self.high < 0

    def scaled(self, factor: float) -> Interval:
        """In other units; a negative factor turns the ends."""
        low, high = sorted((self.low * factor, self.high * factor))
        return Interval(self.value * factor, low, high)

    def clipped(self, low: float, high: float) -> Interval:
        """As a number that is known to lie between two others."""
        return Interval(*(min(max(each, low), high) for each in (self.value, self.low, self.high)))

    def __contains__(self, number: float) -> bool:
        return self.low <= number <= self.high

    def __str__(self) -> str:
        width = self.high - self.low
        if not math.isfinite(width):
            return f"{self.value:.3g} (error not known)"
        if width <= 0:
            return f"{self.value:.4g}"
        digits = max(0, 1 - math.floor(math.log10(width)))
        if digits > 6 or abs(self.value) >= 1e6:
            return f"{self.value:.4g} ({self.low:.4g} to {self.high:.4g})"
        value, low, high = (f"{each:.{digits}f}" for each in (self.value, self.low, self.high))
        return f"{value} ({low} to {high})"

    def to_dict(self) -> dict[str, float | None]:
        """Plain values fit for JSON."""
        return {name: value if math.isfinite(value) else None for name, value in vars(self).items()}


def mean_of_rows(values: Float[Array, "repeats n"], folds: Int[Array, "repeats n"]) -> Interval:
    """The mean of a quantity measured for every row by a fit that did not see it, once a repeat.

    With D_k the means of all J = repeats x K folds and S^2 their variance, the error of the mean is
    that of Nadeau and Bengio (2003), which knows that the fits share rows,

        error^2 = S^2 (1/J + 1/(K - 1)),    J - 1 degrees of freedom.

    What is covered is the mean over fits on so many rows; docs/validation.md has how often, and how
    often the interval holds what a single fit on all rows gives.
    """
    count = int(folds.max()) + 1
    pairs = list(zip(np.atleast_2d(values), np.atleast_2d(folds), strict=True))
    means = np.array([v[f == number].mean() for v, f in pairs for number in range(count)])
    scatter = float(means.std(ddof=1))
    error = scatter * math.sqrt(1 / len(means) + 1 / (count - 1))
    return Interval.around(float(values.mean()), error, len(means) - 1)


def share_of_rows(
    part: Float[Array, "repeats n"],
    whole: Float[Array, "repeats n"],
    folds: Int[Array, "repeats n"],
) -> Interval:
    """The mean of one quantity over that of another, both measured for every row.

    With r the ratio of the means its error is that of the mean of (part - r whole)/<whole>: rows
    that are hard for both say nothing of the ratio, which stays below 1 where the part does.
    """
    ratio, size = float(part.mean() / whole.mean()), float(whole.mean())
    left = mean_of_rows((part - ratio * whole) / size, folds)
    return Interval(ratio, ratio + left.low, ratio + left.high)


def mean_of_repeats(sets: Sequence[Float[Array, " held"]], rows: int) -> Interval:
    """The mean of sets of values, one a fit on rows drawn anew, judged on the others of ``rows``.

    Two errors: that of fits, Var D_j/J, and that of the rows, s^2/n, which all sets share.
    """
    means = np.array([each.mean() for each in sets])
    of_rows = float(np.mean([each.var(ddof=1) for each in sets])) / rows
    of_fits = float(means.var(ddof=1)) / len(sets)
    return Interval.around(float(means.mean()), math.sqrt(of_rows + of_fits))


def plain(value: Any) -> Any:
    """Records, arrays and intervals as plain values, what is not finite as None, for JSON."""
    if isinstance(value, Interval):
        return value.to_dict()
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list | np.ndarray):
        return [plain(each) for each in value]
    if isinstance(value, str | bool | int) or value is None:
        return value
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    number = float(value)
    return number if math.isfinite(number) else None
