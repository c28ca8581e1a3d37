"""The risk with other numbers of rows, from the spectrum of the features at hand.

For ridge regression on given features, whatever their population covariance and the target,

    R(n, ridge) = T(kappa)/(1 - df2(kappa)/n),      n ridge = kappa (n - df1(kappa)),

where T(kappa) (the squared bias before it is inflated, and the noise) and df1, df2 do not depend on
n: they are properties of the population (Hastie et al. 2022; Simon et al. 2023; Wei, Hu and
Steinhardt 2022). On a sample all three can be read off. With e the eigenvalues of the centred
features' Gram matrix, m = n - 1 (a free constant) and p = n ridge,

    df1 = sum e/(e + p),   s2 = sum e^2/(e + p)^2,   kappa = p/(m - df1),
    df2 = df1 - (df1 - s2) (m - df1)/(m - 2 df1 + s2),
    T   = (leave-one-out risk at this ridge) (1 - df2/m),

and the risk at another number m' with its best ridge is the least of T/(1 - df2/m') over kappa. No
eigenvalue of the population is estimated. Where the best kappa is the smallest that this sample can
reach (its ridge is 0), the risk of more rows may be lower than is said.

A step moves the features themselves. T is measured with steps taken on a half and on a quarter of
the rows, the readout on the other half, and the least risk is continued in 1 - q, q the squared
overlap of the step with the direction there is at so many rows (``direction``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.advice.direction import Direction
from firststep.advice.intervals import Interval, mean_of_repeats
from firststep.advice.measured import MANY, NO_STEP, ONE_STEP, in_parallel, regressor
from firststep.advice.ridge import SMALLEST_GAP, Spectrum
from firststep.errors import NotConverged
from firststep.estimators import OneStepFeatures

if TYPE_CHECKING:
    from firststep.typing import Array, Float

MULTIPLES = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the rows
RIDGES = 49  # of a path
NEAREST = 0.9  # df1 over m up to which T is read off
LEAST = 0.25  # of a risk: how far it is continued downwards
LOWEST, HIGHEST = 1e-6, 1e3  # ridges n ridge over the largest eigenvalue, and over the mean one
CUTS = 2  # ways to cut the rows into halves
FEWEST_STEPPED = 40  # rows, to be cut into quarters
REPEATS_FEW, REPEATS_MANY = 4, 2  # fits on a part of the rows
STEEPEST = 3.0  # how far a change between half and quarter of the rows is continued, over itself
# Standard error of a predicted change of the risk: so much of the change itself, and so much over
# the root of the rows. Chosen so that 95 % of the intervals hold what fits realise: the table is in
# docs/validation.md.
ERRORS = {NO_STEP: (0.35, 1.0), ONE_STEP: (0.6, 1.6)}


class Levels(NamedTuple):
    """On a path of ridges, the largest first: what a sample of features says of its population."""

    kappa: Float[Array, " ridges"]
    df2: Float[Array, " ridges"]
    df1: Float[Array, " ridges"]
    total: Float[Array, " ridges"]  # T

    def least_risk(self, rows: float) -> tuple[float, bool]:
        """At another number of rows, and whether a smaller kappa might do better."""
        m = rows - 1
        allowed = self.df1 < 0.999 * m  # a ridge below 0 otherwise
        risks = np.where(allowed, self.total / np.maximum(1 - self.df2 / m, 1e-9), np.inf)
        place = int(np.argmin(risks))
        return float(risks[place]), place == len(risks) - 1


@dataclass(frozen=True)
class Point:
    """Of a learning curve, for one model."""

    rows: int
    change: Interval  # the risk over that of all rows there are, predicted
    predicted: Interval
    measured: Interval | None  # by leaving rows out; of all rows and fewer


@dataclass(frozen=True)
class Curve:
    """Risks by number of rows; ``bounded``: with more rows they may be lower than is said."""

    points: dict[str, tuple[Point, ...]]
    bounded: dict[str, bool]

    def gain_of(self, model: str, multiple: float) -> Interval:
        """Share of today's risk that so many times the rows save."""
        change = self._at(model, multiple).change
        return Interval(1 - change.value, 1 - change.high, 1 - change.low)

    def _at(self, model: str, multiple: float) -> Point:
        return self.points[model][MULTIPLES.index(multiple)]


def levels(features: Float[Array, "n N"], y: Float[Array, " n"]) -> Levels:
    """kappa, df1, df2 and T of a sample, for a path of ridges."""
    m, found = len(y) - 1, Spectrum.of(features, y)
    values = found.values
    largest = float(values[-1])
    ends = max(HIGHEST * float(values.mean()), 10 * largest), LOWEST * largest
    penalties = np.geomspace(*ends, RIDGES)
    residual, gap = found.residuals(penalties)
    share = values[:, None] / (values[:, None] + penalties)
    df1, s2 = share.sum(axis=0), (share**2).sum(axis=0)
    # Nearer to interpolation 1 - df2/m is small, and what leave-one-out is wrong by is large.
    good = (gap.min(axis=0) > SMALLEST_GAP) & (df1 < NEAREST * m)
    df1, s2, p = df1[good], s2[good], penalties[good]
    risk = ((residual[:, good] / gap[:, good]) ** 2).mean(axis=0)
    df2 = df1 - (df1 - s2) * (m - df1) / (m - 2 * df1 + s2)
    return Levels(kappa=p / (m - df1), df2=df2, df1=df1, total=risk * (1 - df2 / m))


def _risks(found: Levels, rows: int) -> tuple[Float[Array, " multiples"], bool]:
    told = [found.least_risk(multiple * rows) for multiple in MULTIPLES]
    return np.array([risk for risk, _ in told]), any(at_end for _, at_end in told[-2:])


def _stepped_levels(
    x: Float[Array, "n d"], y: Float[Array, " n"], rows: tuple[Array, Array], layer: OneStepFeatures
) -> Levels:
    """With the step on the first of two sets of rows and the readout on the second."""
    train, fit = rows
    return levels(layer.fit(x[train], y[train]).transform(x[fit]), y[fit])


def _with_step(
    x: Float[Array, "n d"], y: Float[Array, " n"], *, width: int, step: float, seed: int
) -> tuple[Float[Array, " multiples"], Float[Array, " multiples"], bool]:
    """Risks where the step sees half of the rows, and a quarter; means over ways to cut them."""
    n = len(y)
    halves, quarters = [], []
    for cut in range(CUTS):
        order = np.random.default_rng((seed, 5, cut)).permutation(n)
        for half in np.array_split(order, 2):
            rest = np.setdiff1d(order, half)
            halves.append((cut, half, rest))
            quarters += [(cut, part, rest) for part in np.array_split(half, 2)]

    def task(cut: int, train: Array, fit: Array) -> Callable[[], Levels]:
        layer = OneStepFeatures(width=width, steps=1, step=step, random_state=seed + cut)
        return lambda: _stepped_levels(x, y, (train, fit), layer)

    found = [_risks(each, n) for each in in_parallel([task(*each) for each in halves + quarters])]
    risks, count = [risk for risk, _ in found], len(halves)
    half, quarter = (np.mean(each, axis=0) for each in (risks[:count], risks[count:]))
    at_end = sum(end for _, end in found[:count]) > count / 2
    return half, quarter, at_end


def _continued(
    half: Float[Array, " multiples"],
    quarter: Float[Array, " multiples"],
    direction: Direction,
    rows: int,
) -> Float[Array, " multiples"]:
    """Risks with the step on as many rows as the readout."""
    found = []
    for place, multiple in enumerate(MULTIPLES):
        factor = _further(direction, rows, multiple)
        one, two = half[place], quarter[place]
        found.append(max(one + (one - two) * factor, LEAST * one))
    return np.array(found)


def _further(direction: Direction, rows: int, multiple: float) -> float:
    """How far to continue from half of the rows, in units of the way from a quarter to a half.

    Linear in 1 - q. Where there is no linear part but a curved one, nothing is known of q, and 1/n
    takes the place of 1 - q; where there is neither, the features stay what they are.
    """
    if not direction.is_known:
        return 1 - 1 / (2 * multiple) if direction.is_curved else 0.0
    q, half, quarter = (direction.overlap_squared(rows * m) for m in (multiple, 0.5, 0.25))
    way = half - quarter
    return float(np.clip((q - half) / way, -STEEPEST, STEEPEST)) if way > 1e-6 else 0.0


def predicted_risks(
    x: Float[Array, "n d"],
    y: Float[Array, " n"],
    direction: Direction,
    *,
    step: float,
    width: int,
    seed: int,
) -> tuple[dict[str, Float[Array, " multiples"]], dict[str, bool]]:
    """Of the equations alone, by model, at all MULTIPLES of the rows."""
    n = len(y)
    still = OneStepFeatures(width=width, steps=1, step=0, random_state=seed).fit(x, y)
    told, at_end = _risks(levels(still.transform(x), y), n)
    predicted, bounded = {NO_STEP: told}, {NO_STEP: at_end}
    if step > 0 and n >= FEWEST_STEPPED:
        half, quarter, at_end = _with_step(x, y, width=width, step=step, seed=seed)
        predicted[ONE_STEP] = _continued(half, quarter, direction, n)
        bounded[ONE_STEP] = at_end
    return predicted, bounded


def learning_curve(
    x: Float[Array, "n d"],
    y: Float[Array, " n"],
    direction: Direction,
    *,
    risks: dict[str, Interval],
    step: float,
    width: int,
    seed: int,
    done: Callable[[], None] | None = None,
) -> Curve:
    """Columns and target in standard units; ``risks`` were measured with all rows, in these units.

    The prediction says how the risk changes; its level is the one that was measured. Its interval
    has the error of that level, a share of the change and a share of the risk.
    """
    n = len(y)
    predicted, bounded = predicted_risks(x, y, direction, step=step, width=width, seed=seed)
    measured = _measured(x, y, list(predicted), width=width, seed=seed, done=done)
    points, now = {}, MULTIPLES.index(1.0)
    for name, told in predicted.items():
        changes = [change_of(name, float(risk / told[now]), n) for risk in told]
        points[name] = tuple(
            Point(
                rows=max(2, round(multiple * n)),
                change=change,
                predicted=anchored(risks[name], change),
                measured=risks[name] if multiple == 1 else measured.get((name, multiple)),
            )
            for multiple, change in zip(MULTIPLES, changes, strict=True)
        )
    return Curve(points=points, bounded=bounded)


def change_of(model: str, ratio: float, rows: int) -> Interval:
    """The change of the risk from so many rows on, with the error of the equations."""
    if ratio == 1:
        return Interval(1.0, 1.0, 1.0)
    of_change, of_rows = ERRORS[model]
    found = Interval.around(ratio, math.hypot(of_change * (1 - ratio), of_rows / math.sqrt(rows)))
    return found.clipped(0.0, math.inf)


def anchored(now: Interval, change: Interval) -> Interval:
    """The risk measured, times the change that is predicted; their errors are independent."""
    value = now.value * change.value
    of_level = (now.high - now.low) / 2 * change.value
    width = math.hypot(of_level, now.value * (change.high - change.low) / 2)
    return Interval(value, max(0.0, value - width), value + width)


def _measured(
    x: Float[Array, "n d"],
    y: Float[Array, " n"],
    names: list[str],
    *,
    width: int,
    seed: int,
    done: Callable[[], None] | None,
) -> dict[tuple[str, float], Interval | None]:
    """Fits on a half and on a quarter of the rows, judged on others.

    Several ways to draw them where rows are few; every row is judged as often as can be.
    """
    n = len(y)
    jobs = [(name, multiple) for name in names for multiple in MULTIPLES if multiple < 1]
    jobs = [job for job in jobs if job[1] * n >= 10]

    def task(name: str, multiple: float) -> Callable[[], Interval | None]:
        def run() -> Interval | None:
            squares = []
            for repeat in range(REPEATS_FEW if n <= MANY else REPEATS_MANY):
                order = np.random.default_rng((seed, 6, repeat)).permutation(n)
                fitted, held = np.split(order, [round(multiple * n)])
                model = regressor(name, width=width, seed=seed + repeat)
                try:
                    predicted = model.fit(x[fitted], y[fitted]).predict(x[held])
                except NotConverged:
                    continue
                squares.append((y[held] - predicted) ** 2)
            return mean_of_repeats(squares, n) if len(squares) > 1 else None

        return run

    return dict(zip(jobs, in_parallel([task(*job) for job in jobs], done), strict=True))
