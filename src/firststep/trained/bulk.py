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

The variance v is first that of the lower 90 % of the values against their law, which outliers do
not move, then

    m n v = sum of s_i^2 beyond the outliers + sum over outliers (s^2 - theta^2),

with theta^2 the signal behind an outlier, until the count stays the same. Value k is tested with v
from k - 1 outliers, against noise of (m - k + 1) x (n - k + 1) entries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import chdtrc

from firststep.trained import noise
from firststep.trained.outliers import Bulk, Outlier
from firststep.trained.singular import Singular

if TYPE_CHECKING:
    from firststep.typing import Array, Bool, Float

_KEPT = 0.9  # of the values, for a variance that outliers do not move
# Rounds of taking the outliers out and bringing rows and columns to one size; none is tried any
# more where the values are this many times too far from their law.
_SCALINGS, _HOPELESS = 3, 5.0
_LOW = 0.98  # of the values: a matrix of lower rank is no noise
# Of the values: with more of them taken out, what is left of a small matrix fits any law.
_SHARE = 0.2
_EVEN = 1e-3  # chance that noise has rows or columns of such different sizes
_ROUNDS = 20  # until the count stays the same: two or three
GAP = 1.25  # as for the directions of a given layer
# Of ``slowness``: noise is below the first (99 %), power laws beyond the second.
_SLOW, _TOO_SLOW = 1.25, 2.5
_ORDER = ("edge", "gap", "none")  # the better first
# Excess kurtosis of entries, for a short side of 1: it moves an edge by kurtosis/n, which scatters
# by n^(-2/3).
_UNEVEN = 0.45
_NARROW = 0.3  # square of one component of a unit vector
_LARGE = 20.0  # times the share of a row or column: log-normal sizes have up to 10
_ONE_ENTRY = 0.1  # the same of both vectors together
# Of the squared length of a scaled vector: what is left without noise is no smaller.
_NEVER_LESS = 0.1
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


@dataclass(frozen=True, eq=False)
class _NoiseFit:
    """Singular values against the law of noise."""

    variance: float
    p_values: tuple[float, ...]  # one an outlier
    distance: float
    bound: float

    @property
    def count(self) -> int:
        return len(self.p_values)

    short: int

    @property
    def is_noise(self) -> bool:
        return self.distance <= self.bound and self.count <= _SHARE * self.short


def fit_bulk(matrix: Float[Array, "m n"]) -> Fit:
    """The bulk of a matrix without rows or columns of zeros."""
    plain = Singular(matrix)
    rows, columns = np.ones(matrix.shape[0]), np.ones(matrix.shape[1])
    short = min(matrix.shape)
    first = None
    if short >= noise.SMALLEST and plain.rank >= _LOW * short:
        first = _noise_fit(plain.values, matrix.shape, "equal")
        if first.is_noise and _is_even(plain, first.count):
            why = "entries of equal variance"
            found = _noisy(why, plain, first)
            return found or _general(plain, first)
        for start in sorted({0, _wide(plain, _apart(plain.values))}, reverse=True):
            scaled, rows, columns = _scaled(plain, start)
            second = _noise_fit(scaled.values, matrix.shape, "scaled")
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
                        outliers=_in_own_units(found.outliers, scaled, rows, columns),
                        row_scales=rows,
                        column_scales=columns,
                    )
    return _general(plain, first)


def _noise_fit(values: Float[Array, " short"], shape: tuple[int, ...], kind: str) -> _NoiseFit:
    """Variance, outliers and distance to the law."""
    long, short = max(shape), min(shape)
    squares = values**2
    variance, count = _lower_variance(squares, long, short), -1
    for _ in range(_ROUNDS):
        found = _count(squares, variance, long, short)
        variance = _variance(squares, found, variance, long, short)
        if found == count:
            break
        count = found
    p_values: list[float] = []
    for k in range(count):
        v = _variance(squares, k, variance, long, short)
        p_values.append(noise.beyond(long - k, short - k, float(squares[k] / v)))
    while p_values and p_values[-1] > noise.LEVEL:
        p_values.pop()
    count = len(p_values)
    variance = _variance(squares, count, variance, long, short)
    long, short, rest = long - count, short - count, squares[count:]
    shares = noise.below(long, short, rest[::-1] / _lower_variance(rest, long, short))
    return _NoiseFit(
        variance=variance,
        p_values=tuple(p_values),
        distance=float(np.max(np.abs(shares - noise.middles(short)))),
        bound=noise.farthest(short, kind),
        short=short + count,
    )


def _count(squares: Float[Array, " short"], variance: float, long: int, short: int) -> int:
    """How many values in a row are beyond what noise of what is left would have."""
    count = 0
    while count < short // 2 and squares[count] > variance * noise.edge(
        long - count, short - count, noise.LEVEL
    ):
        count += 1
    return count


def _lower_variance(squares: Float[Array, " short"], long: int, short: int) -> float:
    """From the lower 90 % of the values."""
    kept = math.ceil(_KEPT * short)
    expected = noise.quantile(long, short, noise.middles(short))
    return float(squares[-kept:].sum() / expected[:kept].sum())


def _variance(
    squares: Float[Array, " short"], count: int, variance: float, long: int, short: int
) -> float:
    """From all values, less the signal behind the first ``count``."""
    for _ in range(4):  # the signal depends on it but little
        excess = np.maximum(squares[:count] - (long + short) * variance, 0.0)
        product = 4 * long * short * variance**2
        signal = (excess + np.sqrt(np.maximum(excess**2 - product, 0.0))) / 2
        left = squares[count:].sum() + (squares[:count] - signal).sum()
        variance = float(left / (long * short))
    return variance


def _scaled(
    plain: Singular, count: int, rounds: int = _SCALINGS
) -> tuple[Singular, Float[Array, " m"], Float[Array, " n"]]:
    """The matrix with rows and columns of one size, and their sizes.

    What is left without the outliers sets the sizes: ``count`` of them at first, those beyond the
    edge of noise of the scaled matrix in the next rounds.
    """
    rows, columns = np.ones(plain.matrix.shape[0]), np.ones(plain.matrix.shape[1])
    large_rows, large_columns = _large(plain)
    current = plain
    for number in range(rounds):
        rest = _left_over(current, count)
        a, b = np.ones(len(rows)), np.ones(len(columns))
        for _ in range(3):
            a = np.maximum((rest / b).mean(axis=1), np.finfo(float).tiny)
            b = np.maximum((rest / a[:, None]).mean(axis=0), np.finfo(float).tiny)
        rows, columns = rows * np.sqrt(a), columns * np.sqrt(b)
        rows[large_rows] = np.median(rows[~large_rows])
        columns[large_columns] = np.median(columns[~large_columns])
        rows, columns = rows / _root_mean_square(rows), columns / _root_mean_square(columns)
        current = Singular(plain.matrix / rows[:, None] / columns)
        if number == rounds - 1:
            break
        fit = _noise_fit(current.values, plain.matrix.shape, "scaled")
        before, count = count, _wide(current, fit.count)
        if count == before or fit.distance > _HOPELESS * fit.bound:
            break
    return current, rows, columns


def _is_even(singular: Singular, count: int) -> bool:
    """Whether rows and columns differ in size by no more than those of noise do."""
    squares = _left_over(singular, count)
    variance = squares.mean()
    spread = max(float((squares**2).mean() / variance**2) - 1, 0.5)  # 2 of a Gaussian
    for axis in (0, 1):
        sizes = squares.mean(axis=axis) / variance
        total = float(((sizes - 1) ** 2).sum()) * squares.shape[axis] / spread
        if chdtrc(len(sizes) - 1, total) < _EVEN:
            return False
    return True


def _left_over(singular: Singular, count: int) -> Float[Array, "m n"]:
    """Squares of the entries without the first directions, made up for what these took of each row
    and column of the noise.
    """
    left, right = singular.leading(count)
    kept = [np.maximum(1 - (each**2).sum(axis=1), 1e-3) for each in (left, right)]
    return singular.without(count) ** 2 / kept[0][:, None] / kept[1]


def _wide(singular: Singular, count: int) -> int:
    """How many of the first ``count`` directions come before one that is a single row or column.

    Such a one belongs to the sizes of rows and columns: taken out, nothing would be left of it. But
    a row or column that holds a large part of the matrix is no size, it is a direction.
    """
    large_rows, large_columns = _large(singular)
    left, right = singular.leading(count)
    sides = left[~large_rows] ** 2, right[~large_columns] ** 2
    largest = np.maximum(*(side.max(axis=0, initial=0.0) for side in sides))
    narrow = np.flatnonzero(largest > _NARROW)
    return int(narrow[0]) if len(narrow) else count


def _large(singular: Singular) -> tuple[Bool[Array, " m"], Bool[Array, " n"]]:
    """The rows and the columns that hold many times their share of the squared norm."""
    squares = singular.matrix**2
    sizes = squares.sum(axis=1), squares.sum(axis=0)
    rows, columns = (size > _LARGE * size.mean() for size in sizes)
    return rows, columns


def _root_mean_square(values: Float[Array, " k"]) -> float:
    return float(np.sqrt(np.mean(values**2)))


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


def _noisy(reason: str, singular: Singular, fit: _NoiseFit) -> Fit | None:
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


def _in_own_units(
    outliers: tuple[Outlier, ...],
    scaled: Singular,
    rows: Float[Array, " m"],
    columns: Float[Array, " n"],
) -> tuple[Outlier, ...]:
    """Signals behind outliers of a scaled matrix, as large as they are in the matrix itself.

    theta u v^T of the scaled matrix is theta |a u| |b v| there. The vectors found are u with the
    share c^2 of their square and noise, along which a^2 has the mean 1, with the rest:
    |a u|^2 = (|a u_found|^2 - 1 + c^2)/c^2. Noise at random makes that scatter by

        var |a u|^2 = (4 c^2 (1 - c^2) + 2 (1 - c^2)^2) (<a^4> - 1)/(m c^4).
    """
    left, right = scaled.leading(len(outliers))
    found = []
    for k, each in enumerate(outliers):
        factor, spread = 1.0, 0.0
        for scales, vector, overlap in (
            (rows, left[:, k], each.rows_overlap),
            (columns, right[:, k], each.columns_overlap),
        ):
            length = float(((scales * vector) ** 2).sum())
            own, lost = (length - 1 + overlap) / overlap, 1 - overlap
            own = max(own, _NEVER_LESS * length)
            uneven = float(np.mean(scales**4)) - 1
            scatter = (4 * overlap * lost + 2 * lost**2) * uneven / len(scales) / overlap**2
            factor, spread = factor * own, spread + scatter / own**2
        root = math.sqrt(factor)
        error = math.hypot(each.size_error, each.size * math.sqrt(spread) / 2)
        found.append(replace(each, size=root * each.size, size_error=root * error))
    return tuple(found)


def _general(plain: Singular, fit: _NoiseFit | None) -> Fit:
    """A bulk that is not that of noise: what stands apart from an edge, if it has one."""
    rank, shape = plain.rank, plain.matrix.shape
    kurtosis, found = math.nan, _Edge("none", "", None)
    rows, columns, chosen = np.ones(shape[0]), np.ones(shape[1]), plain
    if min(shape) < noise.SMALLEST_EDGE:
        why = f"{min(shape)} values are too few for a bulk that is not that of noise"
        found = found._replace(reason=why)
    elif rank < noise.SMALLEST_EDGE:
        why = f"of rank {rank}, {noise.SMALLEST_EDGE} values are needed for an edge"
        found = found._replace(reason=why)
    else:
        found = _by_its_edge(plain.values[:rank])
        if found.kind != "edge":
            start = _wide(plain, _apart(plain.values[:rank], GAP))
            scaled, *sizes = _scaled(plain, start, 1)
            other = _by_its_edge(scaled.values[:rank])
            if _ORDER.index(other.kind) < _ORDER.index(found.kind):
                words = f"{other.reason}, rows and columns brought to one size"
                found, chosen, (rows, columns) = other._replace(reason=words), scaled, sizes
        count = found.count or 0
        kurtosis = _tails(chosen.without(count))[0]
        if single := _single(chosen, count):
            found = _Edge("none", single, None)
        elif kurtosis > _HEAVY:
            words = f"; its entries have heavy tails, excess kurtosis {kurtosis:.3g}"
            found = found._replace(reason=found.reason + words)
    outliers: tuple[Outlier, ...] = ()
    end = math.nan
    if found.count is not None:
        rest = chosen.values[found.count :]
        end = noise.edge_fit(rest[: noise.neighbours(rank)])[0]
        bulk = Bulk(rest, np.full(len(rest), 1 / len(rest)), *shape)
        outliers = _outliers(chosen, bulk, (math.nan,) * found.count)
        outliers = _in_own_units(outliers, chosen, rows, columns)
    return Fit(
        kind=found.kind,
        reason=found.reason,
        count=found.count,
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
    count: int | None


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
