"""The direction that one step learns: how well it is known, how far it stands out, what lies on it.

With columns x and target y in standard units, the step is led by g = (1/n) sum y_i x_i, an estimate
of v = E[y x]. Two halves of the rows give two of them, whose product is |v|^2 in the mean: what is
noise differs between them. The mean over all ways to halve the rows is

    |v|^2 = (n^2 |g|^2 - sum_i |y_i x_i|^2)/(n (n - 1)),    overlap^2 = <g, v>^2/(|g| |v|)^2 -> q,
    q = |v|^2/E|g|^2,    E|g|^2 = |v|^2 + (E|y x|^2 - |v|^2)/n

with the standard error of a U-statistic: 4 Var(h_i)/n - 2 tr S^2/n^2, h_i = <y_i x_i, g without i>,
S = E[y^2 x x^T]. It is unbiased: without a linear part it is negative as often as positive.

The function along it is measured crosswise: kappa = <x, g> of one half of the rows is looked at
with g of the other half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firststep.advice.intervals import Interval
from firststep.errors import NotConverged
from firststep.estimators import OneStepFeatures

if TYPE_CHECKING:
    from firststep.typing import Array, Float

BINS = 12  # of kappa, with as many rows each
SHUFFLES = 8  # of the target: what the spike would be of noise
HALVES = 20  # random ways to halve the rows: for the cosine that is shown
COLUMNS_SHOWN = 10
MOST_PAIRED = 2000  # rows whose pairs are looked at
LARGEST_GRAM = 3000  # columns up to which S is made


@dataclass(frozen=True)
class Direction:
    """The learned direction in the space of the columns in standard units."""

    vector: Float[Array, " d"]  # of norm 1
    vector_error: Float[Array, " d"]  # standard error of every component
    strength: Interval  # |v|^2, of y of variance one
    overlap: Interval  # cosine with the direction there is, from 0 to 1
    halves_cosine: float  # of the directions of two halves of the rows: mean, and
    halves_scatter: float  # standard deviation over ways to halve them
    samples_for_half: float  # rows for an overlap of 1/sqrt 2; inf without a linear part
    heaviest: float  # share of sum |y_i x_i|^2 that one row in a hundred makes, the largest
    spike_ratio: float  # of the two leading singular values of W1 - W0
    spike_of_noise: float  # the same with the target shuffled: mean, and
    spike_of_noise_scatter: float
    kappa: Float[Array, " bins"]
    mean: Float[Array, " bins"]  # of the target, in standard units
    mean_error: Float[Array, " bins"]
    explained: Interval  # share of the variance of y that is a function of kappa
    explained_linear: float
    # |E[r (x x^T - C)]|_F^2, r what least squares leaves of y: of a part that is even along some
    # direction, which the first step hardly sees; and its standard error if there were none
    curvature: float
    curvature_of_noise: float

    @property
    def is_known(self) -> bool:
        """Whether there is a linear part at 95 %."""
        return self.strength.is_positive

    @property
    def is_curved(self) -> bool:
        """Whether there is a part that is even along some direction.

        Three errors and not two: what noise gives has a long tail upwards.
        """
        return self.curvature > 3 * self.curvature_of_noise

    @property
    def spike_stands_out(self) -> bool:
        """Above what noise gives, by more than two standard deviations and a tenth."""
        beyond = 2 * self.spike_of_noise_scatter + 0.1 * self.spike_of_noise
        return self.spike_ratio > self.spike_of_noise + beyond

    def overlap_squared(self, rows: float) -> float:
        """q at another number of rows."""
        if self.strength.value <= 0:
            return 0.0
        return rows / (rows + self.samples_for_half)

    def leading_columns(self) -> list[tuple[int, float, float]]:
        """Place, share of the squared direction with its sign, standard error of the share."""
        shares = np.sign(self.vector) * self.vector**2
        errors = 2 * np.abs(self.vector) * self.vector_error
        order = np.argsort(-np.abs(shares), kind="stable")[:COLUMNS_SHOWN]
        return [(int(place), float(shares[place]), float(errors[place])) for place in order]


def find_direction(
    x: Float[Array, "n d"], y: Float[Array, " n"], *, width: int, seed: int
) -> Direction:
    """Of columns and target in standard units."""
    n = len(y)
    rng = np.random.default_rng((seed, 2))
    total = y @ x
    vector, length = total / n, float(np.linalg.norm(total)) / n
    strength, noise = _strength(x, y, total)
    variance = (y**2 @ x**2) / n - vector**2
    divisor = length if length > 0 else 1.0
    cosines = [_halves_cosine(x, y, rng) for _ in range(HALVES)]
    square = strength.clipped(0.0, math.inf)
    q = [each / (each + noise / n) if each > 0 else 0.0 for each in vars(square).values()]
    ratio, null, scatter = _spikes(x, y, width=width, seed=seed)
    kappa, mean, error, explained, linear = _along(x, y, rng)
    curvature, of_noise = _curvature(x, y, seed)
    return Direction(
        vector=vector / divisor,
        vector_error=np.sqrt(np.maximum(variance, 0) / n) / divisor,
        strength=strength,
        overlap=Interval(*(math.sqrt(each) for each in q)),
        halves_cosine=float(np.mean(cosines)),
        halves_scatter=float(np.std(cosines, ddof=1)),
        samples_for_half=noise / strength.value if strength.value > 0 else math.inf,
        heaviest=_heaviest(x, y),
        spike_ratio=ratio,
        spike_of_noise=null,
        spike_of_noise_scatter=scatter,
        kappa=kappa,
        mean=mean,
        mean_error=error,
        explained=explained,
        explained_linear=linear,
        curvature=curvature,
        curvature_of_noise=of_noise,
    )


def _strength(
    x: Float[Array, "n d"], y: Float[Array, " n"], total: Float[Array, " d"]
) -> tuple[Interval, float]:
    """|v|^2 with its interval, and E|y x|^2 - |v|^2."""
    n, d = x.shape
    own = y**2 * np.einsum("ij,ij->i", x, x)
    value = float((total @ total - own.sum()) / (n * (n - 1)))
    left_out = (y * (x @ total) - own) / (n - 1)
    squared = 4 * float(left_out.var()) / n
    if d <= LARGEST_GRAM:
        second = (x * (y**2)[:, None]).T @ x / n
        # the part of Var(h_i) that is the noise of g, counted once too often
        squared = max(squared - 2 * float((second**2).sum()) / n**2, squared / 2)
    return Interval.around(value, math.sqrt(squared)), float(own.mean()) - max(value, 0.0)


def _heaviest(x: Float[Array, "n d"], y: Float[Array, " n"]) -> float:
    squares = np.sort(y**2 * np.einsum("ij,ij->i", x, x))
    return float(squares[-math.ceil(len(y) / 100) :].sum() / (squares.sum() or 1.0))


def _curvature(x: Float[Array, "n d"], y: Float[Array, " n"], seed: int) -> tuple[float, float]:
    """The mean of <H_i, H_j> over pairs of rows, H = r (x x^T - C), without making any H.

    <H_i, H_j> = r_i r_j ((x_i . x_j)^2 - x_i^T C x_i - x_j^T C x_j + tr C^2)
    """
    kept = np.sort(np.random.default_rng((seed, 9)).permutation(len(y))[:MOST_PAIRED])
    x, r = x[kept], y[kept]
    n, d = x.shape
    if n > 1.5 * d + 5:
        r = r - x @ np.linalg.lstsq(x, r, rcond=None)[0]
    r = r - r.mean()
    products = x @ x.T
    quadratic = (products**2).sum(axis=1) / n  # x^T C x
    kernel = products**2 - quadratic[:, None] - quadratic + quadratic.mean()
    np.fill_diagonal(kernel, 0.0)
    variance = (float(r @ r) / n) or 1.0
    of_noise = math.sqrt(2 * float((kernel**2).mean())) / n
    return float(r @ kernel @ r) / (n * (n - 1)) / variance, of_noise


def _halves_cosine(
    x: Float[Array, "n d"], y: Float[Array, " n"], rng: np.random.Generator
) -> float:
    """Of g of two random halves of the rows."""
    first = rng.permutation(len(y)) < len(y) // 2
    one, two = y[first] @ x[first], y[~first] @ x[~first]
    lengths = float(np.linalg.norm(one) * np.linalg.norm(two))
    return float(one @ two) / lengths if lengths > 0 else 0.0


def _spikes(
    x: Float[Array, "n d"], y: Float[Array, " n"], *, width: int, seed: int
) -> tuple[float, float, float]:
    """Ratio of the leading singular values of the step; of the target and of shuffled targets."""
    kept = np.random.default_rng((seed, 3)).permutation(len(y))[:5000]  # enough for a ratio
    x, y = x[kept], y[kept]
    rng = np.random.default_rng((seed, 4))
    shuffled = [_spike(x, rng.permutation(y), width, seed) for _ in range(SHUFFLES)]
    finite = [each for each in shuffled if math.isfinite(each)] or [math.nan]
    scatter = float(np.std(finite, ddof=1)) if len(finite) > 1 else math.nan
    return _spike(x, y, width, seed), float(np.mean(finite)), scatter


def _spike(x: Float[Array, "n d"], y: Float[Array, " n"], width: int, seed: int) -> float:
    # the ratio is that of the gradient whatever the size of the step
    step = OneStepFeatures(width=width, steps=1, step=1e-3, random_state=seed)
    try:
        return float(step.fit(x, y).spike_ratio_)
    except NotConverged:
        return math.nan


def _along(
    x: Float[Array, "n d"], y: Float[Array, " n"], rng: np.random.Generator
) -> tuple[Float[Array, " b"], Float[Array, " b"], Float[Array, " b"], Interval, float]:
    """Means of y in bins of kappa, and the share of its variance that they are.

    The share is corrected for what means of noise would be; its error is that of the correlation
    of y with the means of the other rows.
    """
    first = rng.permutation(len(y)) < len(y) // 2
    kappa = np.empty(len(y))
    for half in (first, ~first):
        g = y[~half] @ x[~half]
        along = x[half] @ g
        spread = float(along.std())
        kappa[half] = (along - along.mean()) / (spread if spread > 0 else 1.0)
    count = max(3, min(BINS, len(y) // 8))
    edges = np.quantile(kappa, np.linspace(0, 1, count + 1)[1:-1])
    places = np.searchsorted(edges, kappa)
    numbers = np.bincount(places, minlength=count)
    kept = numbers > 1
    means = np.bincount(places, y, count) / np.maximum(numbers, 1)
    squares = np.bincount(places, y**2, count) - numbers * means**2
    errors = np.sqrt(np.maximum(squares, 0) / np.maximum((numbers - 1) * numbers, 1))
    centres = np.bincount(places, kappa, count) / np.maximum(numbers, 1)
    # y_i times the mean of the others of its bin: unbiased for the share
    others = (numbers[places] * means[places] - y) / np.maximum(numbers[places] - 1, 1)
    products = np.where(kept[places], y * others, 0.0)
    explained = Interval.around(
        float(products.mean()), 2 * float(products.std()) / math.sqrt(len(y))
    )
    slope = float(np.mean(y * kappa))
    linear = max(0.0, (slope**2 * len(y) - float(np.mean((y * kappa) ** 2))) / (len(y) - 1))
    return centres[kept], means[kept], errors[kept], explained.clipped(0.0, 1.0), linear
