"""Which bulk a matrix has, and how many of its singular values stand out of it.

Tried in this order, the first three at 1 false alarm in 100 matrices:

equal   the values keep to the law of entries of equal variance (``noise``): those beyond its edge
        count, one after the other, by the law of the largest value (Tracy and Widom).
scaled  they do once rows and columns are brought to one size, M_ij/(a_i b_j): those of the scaled
        matrix count. a and b are the root mean squares of what is left without the outliers.
edge    they do not, but end in an edge, as they are or scaled: values apart from an edge fitted to
        those after them.
gap     they fall off slowly: values apart from such an edge and 25 % above the next.
none    no count: values that single entries make, no edge, a low rank, too few values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.trained import noise
from firststep.trained.noise_fit import NoiseFit, noise_fit
from firststep.trained.outliers import Bulk, Outlier
from firststep.trained.scaling import in_own_units, is_even, scaled_matrix, wide
from firststep.trained.singular import Singular

if TYPE_CHECKING:
    from firststep.typing import Array, Float

_LOW = 0.98  # of the values: a matrix of lower rank is no noise
GAP = 1.25  # as for the directions of a given layer
# Of ``slowness``: noise is below the first (99 %), power laws beyond the second.
_SLOW, _TOO_SLOW = 1.25, 2.5
_ORDER = ("edge", "gap", "none")  # the better first
# Excess kurtosis of entries, for a short side of 1: it moves an edge by kurtosis/n, which scatters
# by n^(-2/3).
_UNEVEN = 0.45
# Product of the largest squared components of both vectors: narrower ones may be one entry.
_ONE_ENTRY = 0.1
_HEAVY = 3.0  # excess kurtosis that is worth a word
# An entry of (m n)^(1/4) standard deviations makes an outlier of its own.
_SINGLE = 0.8
_ALIKE = 0.01  # spread of the middle 80 % of the values: noise has 0.1 and more
_TINY = 1e-4  # chance of a Gaussian entry beyond the largest that counts as one


@dataclass(frozen=True, eq=False)
class Fit:
    """A bulk and what stands out of it."""

    kind: str  # equal, scaled, edge, gap or none
    reason: str
    count: int | None  # none: nothing can be said
    whole: Singular  # of the matrix itself
    singular: Singular  # the same, or of the scaled one
    outliers: tuple[Outlier, ...]
    deviation: float  # of an entry; nan where the bulk is not that of noise
    edge: float  # where the bulk ends
    threshold: float  # what the first value beyond has to exceed; nan where there is no such number
    distance: float  # of the values to the law of noise, as a share
    bound: float  # what 99 % of noise matrices are below
    kurtosis: float  # of the entries that are left, beyond that of a Gaussian
    row_scales: Float[Array, " m"]
    column_scales: Float[Array, " n"]

    def vectors(self, count: int) -> tuple[Float[Array, "m k"], Float[Array, "n k"]]:
        """Unit vectors of the first values; of a scaled matrix brought back to its own units."""
        left, right = self.singular.leading(count)
        left, right = left * self.row_scales[:, None], right * self.column_scales[:, None]
        return left / np.linalg.norm(left, axis=0), right / np.linalg.norm(right, axis=0)


def fit_bulk(matrix: Float[Array, "m n"]) -> Fit:
    """The bulk of a matrix without rows or columns of zeros."""
    plain = Singular(matrix)
    rows, columns = np.ones(matrix.shape[0]), np.ones(matrix.shape[1])
    short = min(matrix.shape)
    first = None
    if short >= noise.SMALLEST and plain.rank >= _LOW * short:
        first = noise_fit(plain.values, matrix.shape, "equal")
        if first.is_noise and is_even(plain, first.count):
            why = "entries of equal variance"
            found = _noisy(why, plain, first)
            return found or _general(plain, first)
        for start in sorted({0, wide(plain, _apart(plain.values))}, reverse=True):
            scaled, rows, columns = scaled_matrix(plain, start)
            second = noise_fit(scaled.values, matrix.shape, "scaled")
            if second.is_noise:
                spreads = " and ".join(f"{100 * s.std() / s.mean():.0f}" for s in (rows, columns))
                why = (
                    "entries of equal variance once rows and columns are brought to one size "
                    f"(they vary by {spreads} %)"
                )
                if found := _noisy(why, scaled, second):
                    return replace(
                        found,
                        kind="scaled",
                        whole=plain,
                        outliers=in_own_units(found.outliers, scaled, rows, columns),
                        row_scales=rows,
                        column_scales=columns,
                    )
    return _general(plain, first)


def _apart(values: Float[Array, " short"], gap: float = 1.0) -> int:
    """How many values stand apart from an edge fitted to those after them."""
    heights = noise.apart(values)
    bound = noise.APART[noise.neighbours(len(values))]
    ratios = values[: len(heights)] / np.maximum(values[1 : len(heights) + 1], 1e-300)
    standing = np.flatnonzero((heights > bound) & (ratios > gap))
    return int(standing[-1]) + 1 if len(standing) else 0


def _tails(rest: Float[Array, "m n"]) -> tuple[float, float]:
    """Excess kurtosis of the entries, and the largest in units of one that makes an outlier."""
    squares = rest**2
    variance = float(squares.mean())
    if variance == 0:
        return 0.0, 0.0
    kurtosis = float((squares**2).mean()) / variance**2 - 3
    size = rest.size
    largest = max(_SINGLE * size**0.25, math.sqrt(2 * math.log(size / _TINY)))
    return kurtosis, math.sqrt(float(squares.max()) / variance) / largest


def _noisy(reason: str, singular: Singular, fit: NoiseFit) -> Fit | None:
    """A bulk of noise, unless tails of the entries move its edge: then nothing."""
    shape = singular.matrix.shape
    long, short = max(shape) - fit.count, min(shape) - fit.count
    deviation = math.sqrt(fit.variance)
    places, shares = noise.nodes(long, short)
    bulk = Bulk(deviation * np.sqrt(places), shares, *shape)
    kurtosis, largest = _tails(singular.without(fit.count))
    uneven = largest > 1 or kurtosis > _UNEVEN * short ** (1 / 3)
    if uneven or _single(singular, fit.count):
        return None
    edges = [deviation * math.sqrt(noise.edge(long, short, level)) for level in (0.5, noise.LEVEL)]
    return Fit(
        kind="equal",
        reason=reason,
        count=fit.count,
        whole=singular,
        singular=singular,
        outliers=_outliers(singular, bulk, fit.p_values),
        deviation=deviation,
        edge=edges[0],
        threshold=edges[1],
        distance=fit.distance,
        bound=fit.bound,
        kurtosis=kurtosis,
        row_scales=np.ones(shape[0]),
        column_scales=np.ones(shape[1]),
    )


def _single(singular: Singular, count: int) -> str:
    """Words for the first of these values that is made by one entry; none if there is no such.

    Where the vectors of a value are narrow, it is one if it sinks to less than half its height
    above the bulk as soon as that entry is zero: a row or a column of large weights keeps it.
    """
    left, right = (vectors**2 for vectors in singular.leading(count))
    values = singular.values
    for k in np.flatnonzero(left.max(axis=0) * right.max(axis=0) > _ONE_ENTRY):
        row, column = int(left[:, k].argmax()), int(right[:, k].argmax())
        rest = singular.matrix.copy()
        rest[row, column] = 0.0
        if Singular(rest).values[k] < (values[k] + values[count]) / 2:
            return (
                f"value {k + 1} is made by one entry, row {row + 1}, column {column + 1}: the "
                "entries have heavy tails"
            )
    return ""


def _outliers(singular: Singular, bulk: Bulk, p_values: tuple[float, ...]) -> tuple[Outlier, ...]:
    pairs = zip(singular.values, p_values, strict=False)
    return tuple(bulk.outlier(float(value), p) for value, p in pairs)


def _general(plain: Singular, fit: NoiseFit | None) -> Fit:
    """A bulk that is not that of noise: what stands apart from an edge, if it has one."""
    rank, shape = plain.rank, plain.matrix.shape
    kurtosis, edge = math.nan, _Edge("none", "", None)
    rows, columns, chosen = np.ones(shape[0]), np.ones(shape[1]), plain
    if min(shape) < noise.SMALLEST_EDGE:
        why = f"{min(shape)} values are too few for a bulk that is not that of noise"
        edge = edge._replace(reason=why)
    elif rank < noise.SMALLEST_EDGE:
        why = f"of rank {rank}, {noise.SMALLEST_EDGE} values are needed for an edge"
        edge = edge._replace(reason=why)
    else:
        edge = _by_its_edge(plain.values[:rank])
        if edge.kind != "edge":
            start = wide(plain, _apart(plain.values[:rank], GAP))
            scaled, *sizes = scaled_matrix(plain, start, 1)
            other = _by_its_edge(scaled.values[:rank])
            if _ORDER.index(other.kind) < _ORDER.index(edge.kind):
                words = f"{other.reason}, rows and columns brought to one size"
                edge, chosen, (rows, columns) = other._replace(reason=words), scaled, sizes
        count = edge.found or 0
        kurtosis = _tails(chosen.without(count))[0]
        if single := _single(chosen, count):
            edge = _Edge("none", single, None)
        elif kurtosis > _HEAVY:
            words = f"; its entries have heavy tails, excess kurtosis {kurtosis:.3g}"
            edge = edge._replace(reason=edge.reason + words)
    outliers: tuple[Outlier, ...] = ()
    end = math.nan
    if edge.found is not None:
        rest = chosen.values[edge.found :]
        end = noise.edge_fit(rest[: noise.neighbours(rank)])[0]
        bulk = Bulk(rest, np.full(len(rest), 1 / len(rest)), *shape)
        outliers = _outliers(chosen, bulk, (math.nan,) * edge.found)
        outliers = in_own_units(outliers, chosen, rows, columns)
    return Fit(
        kind=edge.kind,
        reason=edge.reason,
        count=edge.found,
        whole=plain,
        singular=chosen,
        outliers=outliers,
        deviation=math.nan,
        edge=end,
        threshold=math.nan,
        distance=math.nan if fit is None else fit.distance,
        bound=math.nan if fit is None else fit.bound,
        kurtosis=kurtosis,
        row_scales=rows,
        column_scales=columns,
    )


class _Edge(NamedTuple):
    kind: str
    reason: str
    found: int | None  # values that stand out


def _by_its_edge(values: Float[Array, " rank"]) -> _Edge:
    """Kind, reason and count for values that are not those of noise."""
    low, middle, high = np.quantile(values, (0.1, 0.5, 0.9))
    by_gaps = f"counted by gaps of {100 * (GAP - 1):.0f} %"
    if high - low < _ALIKE * middle:
        words = "its values are all alike, as those of an orthogonal matrix"
        return _Edge("gap", f"{words}: {by_gaps}", _apart(values, GAP))
    count = _apart(values)
    if noise.slowness(values[count:]) <= _SLOW:
        return _Edge("edge", "counted above an edge that is fitted to the values below", count)
    count = _apart(values, GAP)
    slow = noise.slowness(values[count:])
    words = f"its largest values fall off slowly ({slow:.2g} times an edge)"
    if slow <= _TOO_SLOW:
        return _Edge("gap", f"{words}: {by_gaps}", count)
    ratios = values[: noise.MOST] / values[1 : noise.MOST + 1]
    after = int(ratios.argmax())
    words += f": it has no edge to stand out of; the largest gap, {ratios[after]:.3g} times, is "
    return _Edge("none", f"{words}after number {after + 1}", None)
