"""Targets: their units, and what the network is to give for them.

Numbers are brought to mean 0 and variance 1, for losses that outliers shall not rule to median 0
and robust standard deviation 1. Classes become labels +-1: one column for two classes (+1 is the
second), one column a class (+1 is the class, -1 the rest) for more.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep.errors import InvalidParameter

if TYPE_CHECKING:
    from firststep.typing import Array, Bool, Float

# Of a Gaussian, over its median absolute deviation.
DEVIATION = 1.482602218505602


class Running:
    """Mean and variance of columns that come in pieces (Chan, Golub and LeVeque 1983).

    Nothing is squared before it is centred.
    """

    def __init__(self) -> None:
        self.count = 0
        self.mean: Any = 0.0
        self._square: Any = 0.0

    def add(self, values: Float[Array, "rows ..."]) -> None:
        count, mean = len(values), values.mean(axis=0, dtype=np.float64)
        square = ((values - mean) ** 2).sum(axis=0)
        apart, total = mean - self.mean, self.count + count
        self._square = self._square + square + apart**2 * (self.count * count / total)
        self.mean = self.mean + apart * (count / total)
        self.count = total

    def spread(self) -> tuple[Float[Array, " ..."], Bool[Array, " ..."]]:
        """Standard deviations, 1 where a column is constant to rounding, and which those are."""
        variance, rounding = self._square / self.count, np.finfo(np.float64).eps * self.count
        constant = variance <= rounding * variance + (rounding * self.mean) ** 2
        return np.where(constant, 1.0, np.sqrt(variance)), constant


class Targets(ABC):
    """Seen once in pieces by ``add``, then ``finish``ed; after that ``standard`` translates."""

    @abstractmethod
    def add(self, targets: Array) -> None:
        """Pieces, in their order."""

    @abstractmethod
    def finish(self) -> None:
        """All pieces were seen; refuses what cannot be learned."""

    @abstractmethod
    def standard(self, targets: Array) -> Float[Array, "rows ..."]:
        """What the network is to give: numbers, or a column a class."""

    @property
    def constant(self) -> float | Float[Array, " K"]:
        """What the network gives before it has features; the step pulls at the rest."""
        return 0.0

    @property
    def outputs(self) -> int:
        """Of the network."""
        return 1


class Numbers(Targets):
    """Numbers: (y - mean)/scale."""

    def __init__(self) -> None:
        self._seen = Running()
        self.mean, self.scale = 0.0, 1.0

    def add(self, targets: Array) -> None:
        self._seen.add(targets)

    def finish(self) -> None:
        scale, _ = self._seen.spread()
        self.mean, self.scale = float(self._seen.mean), float(scale)
        if not math.isfinite(self.scale):
            raise too_large("y")

    def standard(self, targets: Array) -> Float[Array, " rows"]:
        return (targets - self.mean) / self.scale


class RobustNumbers(Numbers):
    """Numbers, with the median and the median absolute deviation: an outlier moves neither.

    Where half of the targets are one number that deviation is 0, and the mean one serves.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[Array] = []

    def add(self, targets: Array) -> None:
        super().add(targets)
        self._kept.append(np.array(targets, dtype=np.float64))

    def finish(self) -> None:
        super().finish()
        values, self._kept = np.concatenate(self._kept), []
        _, is_constant = self._seen.spread()
        self.mean = float(np.median(values))
        apart = np.abs(values - self.mean)
        middle = DEVIATION * float(np.median(apart))
        self.scale = middle or (1.0 if is_constant else float(apart.mean()) or 1.0)


class Classes(Targets):
    """Labels of classes. The constant is the mean of each column of labels, which is nearly -1 with
    many classes: a step would mostly pull at that, which tells nothing (docs/estimators.md). A
    single column without a free constant is taken as it is, as in a ``Problem``.
    """

    def __init__(self, has_constant: bool) -> None:
        self._has_constant = has_constant
        self._counts: dict[Any, int] = {}
        self.values: Array = np.empty(0)

    def add(self, targets: Array) -> None:
        kinds = {isinstance(value, str) for value in [*self._counts, *targets.tolist()]}
        if len(kinds) > 1:
            raise InvalidParameter("y", "texts, or numbers, throughout", "both")
        found, counts = np.unique(targets, return_counts=True)
        for value, count in zip(found.tolist(), counts.tolist(), strict=True):
            self._counts[value] = self._counts.get(value, 0) + count
        # of the widest kind: texts of a later piece may be longer
        self.values = np.union1d(self.values, found) if len(self.values) else found

    def finish(self) -> None:
        if len(self.values) < 2:
            only = self.values[0] if len(self.values) else "none"
            given = f"one class, {only!s}"
            raise InvalidParameter("y", "labels of at least two classes", given)

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def outputs(self) -> int:
        return 1 if self.count == 2 else self.count

    def standard(self, targets: Array) -> Float[Array, "rows ..."]:
        """One column for two classes: a vector."""
        if self.count == 2:
            return np.where(targets == self.values[1], 1.0, -1.0)
        return np.where(targets[:, None] == self.values, 1.0, -1.0)

    @property
    def constant(self) -> float | Float[Array, " K"]:
        if self.count == 2 and not self._has_constant:
            return 0.0
        counts = np.array([self._counts[value] for value in self.values.tolist()])
        means = 2 * counts / counts.sum() - 1
        return float(means[1]) if self.count == 2 else means


def too_large(name: str) -> InvalidParameter:
    """Of inputs or targets whose variance overflows."""
    return InvalidParameter(
        name, "numbers whose squares can be summed", "larger ones", "divide them by a constant"
    )
