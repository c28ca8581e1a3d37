"""A look at one matrix: its bulk, what stands out of it, and how much of it that is."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy  # whose parts load when they are used: special takes a twentieth of the import

from firststep.results import plain
from firststep.trained import noise
from firststep.trained.bulk import Fit, fit_bulk
from firststep.trained.outliers import Outlier

if TYPE_CHECKING:
    from firststep.typing import Array, Float

KEPT = 5  # directions whose vectors are kept for overlaps
_KINDS = {
    "equal": "noise",
    "scaled": "noise, rows and columns scaled",
    "edge": "an edge",
    "gap": "no sharp edge",
    "none": "none",
}


@dataclass(frozen=True, eq=False)
class Look:
    """What a matrix looks like.

    ``values`` are its singular values, ``fitted`` those that the bulk was fitted to: the same, but
    of a scaled matrix. Values of outliers and the edge are in units of ``fitted``, sizes in those
    of the matrix itself.
    """

    shape: tuple[int, int]
    zero_rows: int  # left out, as are the columns
    zero_columns: int
    kind: str  # equal, scaled, edge, gap or none
    reason: str
    # How many stand out; none: cannot be said.
    count: int | None
    outliers: tuple[Outlier, ...]
    values: Float[Array, " short"]
    fitted: Float[Array, " short"]
    deviation: float  # of an entry of the noise
    edge: float
    threshold: float
    distance: float
    bound: float
    kurtosis: float
    is_scaled: bool  # rows and columns were brought to one size
    left: Float[Array, "m k"]  # unit vectors of the first directions, zeros put back
    right: Float[Array, "n k"]

    @property
    def words(self) -> str:
        return _KINDS[self.kind]

    @property
    def is_noise(self) -> bool:
        """Whether the bulk is that of independent entries: sizes then have their full meaning."""
        return self.kind in ("equal", "scaled")

    @property
    def norm(self) -> float:
        return float(np.sqrt((self.values**2).sum()))

    @property
    def ratio(self) -> float:
        """The largest value over the second."""
        if len(self.values) < 2 or self.values[1] == 0:
            return math.inf
        return float(self.values[0] / self.values[1])

    @property
    def share(self) -> float:
        """The share of the squared norm in the directions that stand out, in the first if that
        cannot be said.
        """
        squares = self.values**2
        count = 1 if self.count is None else self.count
        return float(squares[:count].sum() / squares.sum())

    @property
    def effective_rank(self) -> float:
        """exp of the entropy of the squared values: how many of one size would be as spread out."""
        shares = self.values**2 / (self.values**2).sum()
        shares = shares[shares > 0]
        return float(np.exp(-(shares * np.log(shares)).sum()))

    @property
    def density(self) -> tuple[Float[Array, " s"], Float[Array, " s"]] | None:
        """The fitted law as places and a density over all values; none where there is no law."""
        if not self.is_noise:
            return None
        count = self.count or 0
        sides = [side - zeros - count for side, zeros in zip(self.shape, self._zeros, strict=True)]
        long, short = max(sides), min(sides)
        low, high = (math.sqrt(long) + sign * math.sqrt(short) for sign in (-1, 1))
        places = np.linspace(self.deviation * low, self.deviation * high, 400)
        part = short / (short + count)
        return places, part * noise.density(long, short, self.deviation, places)

    @property
    def _zeros(self) -> tuple[int, int]:
        return self.zero_rows, self.zero_columns

    def to_dict(self) -> dict[str, Any]:
        fits = ("deviation", "edge", "threshold", "distance", "bound", "kurtosis")
        numbers = (*fits, "norm", "ratio", "share", "effective_rank", "values")
        return {
            "shape": list(self.shape),
            "zero_rows": self.zero_rows,
            "zero_columns": self.zero_columns,
            "bulk": self.kind,
            "reason": self.reason,
            "scaled": self.is_scaled,
            "count": self.count,
            "outliers": [
                {name: plain(value) for name, value in asdict(each).items()}
                for each in self.outliers
            ],
            **{name: plain(getattr(self, name)) for name in numbers},
        }


def look_at(matrix: Float[Array, "m n"]) -> Look | None:
    """A look at a matrix of finite numbers; none if all are zero."""
    size = float(np.max(np.abs(matrix), initial=0.0))
    if size == 0:
        return None
    rows, columns = (np.asarray(matrix.any(axis=axis)) for axis in (1, 0))
    # Of order one, so that no square is lost or infinite.
    part = matrix[np.ix_(rows, columns)] / size
    fit = fit_bulk(part)
    left, right = fit.vectors(KEPT)
    return _look(matrix.shape, fit, size, (_back(left, rows), _back(right, columns)))


def _back(vectors: Float[Array, "some k"], kept: Array) -> Float[Array, "all k"]:
    """Vectors of the rows that are kept, with zeros where others were."""
    found = np.zeros((len(kept), vectors.shape[1]))
    found[kept] = vectors
    return found


def _look(
    shape: tuple[int, ...],
    fit: Fit,
    size: float,
    vectors: tuple[Float[Array, "m k"], Float[Array, "n k"]],
) -> Look:
    outliers = tuple(
        Outlier(
            value=size * each.value,
            p_value=each.p_value,
            size=size * each.size,
            size_error=size * each.size_error,
            rows_overlap=each.rows_overlap,
            columns_overlap=each.columns_overlap,
        )
        for each in fit.outliers
    )
    return Look(
        shape=(shape[0], shape[1]),
        zero_rows=shape[0] - len(fit.row_scales),
        zero_columns=shape[1] - len(fit.column_scales),
        kind=fit.kind,
        reason=fit.reason,
        count=fit.count,
        outliers=outliers,
        values=size * fit.whole.values,
        fitted=size * fit.singular.values,
        deviation=size * fit.deviation,
        edge=size * fit.edge,
        threshold=size * fit.threshold,
        distance=fit.distance,
        bound=fit.bound,
        kurtosis=fit.kurtosis,
        is_scaled=fit.singular is not fit.whole,
        left=vectors[0],
        right=vectors[1],
    )


def look_at_factors(
    down: Float[Array, "r n"], up: Float[Array, "m r"], scale: float
) -> Look | None:
    """A look at scale B A, from its thin factors: it has no bulk."""
    left, upper = np.linalg.qr(up)
    right, lower = np.linalg.qr(down.T)
    inner, values, outer = np.linalg.svd(scale * upper @ lower.T)
    if not len(values) or values[0] == 0:
        return None
    rank = int(np.count_nonzero(values > 1e-12 * values[0]))
    nothing = math.nan
    return Look(
        shape=(up.shape[0], down.shape[1]),
        zero_rows=0,
        zero_columns=0,
        kind="none",
        reason=f"a product of factors of rank {down.shape[0]}: there is no bulk",
        count=None,
        outliers=(),
        values=values,
        fitted=values,
        deviation=nothing,
        edge=nothing,
        threshold=nothing,
        distance=nothing,
        bound=nothing,
        kurtosis=nothing,
        is_scaled=False,
        left=(left @ inner)[:, : min(KEPT, rank)],
        right=(right @ outer.T)[:, : min(KEPT, rank)],
    )


class Overlaps(NamedTuple):
    """Squared overlaps of the first directions of two matrices, and what chance makes of them."""

    rows: Float[Array, "k j"]
    columns: Float[Array, "k j"]
    # What the largest of the table exceeds by chance in 1 of 100.
    rows_chance: float
    columns_chance: float

    def to_dict(self) -> dict[str, Any]:
        return {name: plain(value) for name, value in self._asdict().items()}


def overlaps(one: Look, other: Look) -> Overlaps:
    """Of the directions that stand out of each, at least the first, with those of the other."""
    firsts = [max(1, min(look.count or 1, look.left.shape[1])) for look in (one, other)]
    k, j = firsts
    tables = [
        (getattr(one, side)[:, :k].T @ getattr(other, side)[:, :j]) ** 2
        for side in ("left", "right")
    ]
    chances = [_chance(length, k * j) for length in one.shape]
    return Overlaps(*tables, *chances)


def _chance(length: int, pairs: int) -> float:
    """Squares of a component of a random unit vector are Beta(1/2, (length - 1)/2)."""
    if length < 2:
        return 1.0
    return float(scipy.special.betaincinv(0.5, (length - 1) / 2, (1 - noise.LEVEL) ** (1 / pairs)))
