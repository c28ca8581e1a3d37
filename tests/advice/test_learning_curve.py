"""What a sample of features says of other numbers of rows: against fits on so many of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict

from firststep.advice.direction import find_direction
from firststep.advice.intervals import Interval
from firststep.advice.learning_curve import (
    MULTIPLES,
    NEAREST,
    change_of,
    learning_curve,
    levels,
    predicted_risks,
)
from firststep.advice.measured import NO_STEP, ONE_STEP

SPECTRUM = np.arange(1, 61.0) ** -1.0
BETA = np.random.default_rng(5).standard_normal(60)
NOISE = 0.5


def features(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    f = rng.standard_normal((n, 60)) * np.sqrt(SPECTRUM)
    return f, f @ BETA + NOISE * rng.standard_normal(n)


def population(kappa: float) -> tuple[float, float]:
    """df2 and T from the covariance itself."""
    df2 = float(np.sum((SPECTRUM / (SPECTRUM + kappa)) ** 2))
    return df2, float(np.sum(BETA**2 * SPECTRUM * (kappa / (SPECTRUM + kappa)) ** 2)) + NOISE**2


@pytest.mark.parametrize("n", [40, 300])  # fewer and more rows than features
def test_levels_are_those_of_the_population(n: int) -> None:
    rng = np.random.default_rng(0)
    grid = np.geomspace(0.15 if n == 40 else 0.02, 1.0, 5)
    df2, total = [], []
    for _ in range(40):
        found = levels(*features(rng, n))
        order = np.argsort(found.kappa)
        df2.append(np.interp(np.log(grid), np.log(found.kappa[order]), found.df2[order]))
        total.append(np.interp(np.log(grid), np.log(found.kappa[order]), found.total[order]))
    for place, kappa in enumerate(grid):
        true_df2, true_total = population(float(kappa))
        for values, truth in ((df2, true_df2), (total, true_total)):
            column = np.array(values)[:, place]
            error = column.std() / math.sqrt(40)
            assert abs(column.mean() - truth) < 4 * error + 0.04 * truth, (kappa, truth)


@pytest.mark.parametrize("n", [30, 90])
def test_risks_are_leave_one_out(n: int) -> None:
    """T/(1 - df2/m) at a kappa is the leave-one-out error at the ridge that it belongs to."""
    f, y = features(np.random.default_rng(1), n)
    found, m = levels(f, y), n - 1
    for place in (5, 15, 25):
        penalty = float(found.kappa[place] * (m - found.df1[place]))
        fitted = cross_val_predict(Ridge(alpha=penalty), f, y, cv=LeaveOneOut())
        exact = float(np.mean((y - fitted) ** 2))
        told = float(found.total[place] / (1 - found.df2[place] / m))
        assert told == pytest.approx(exact, rel=1e-8)


def test_more_rows_and_fewer() -> None:
    """The least risk at other numbers of rows, against the population's equations."""
    rng, told = np.random.default_rng(2), {}
    for n in (60, 120, 240, 480):
        told[n] = np.mean([levels(*features(rng, 120)).least_risk(n)[0] for _ in range(30)])
    grid = np.geomspace(1e-3, 10, 400)
    for n, risk in told.items():
        both = [population(float(kappa)) for kappa in grid]
        df1 = [float(np.sum(SPECTRUM / (SPECTRUM + kappa))) for kappa in grid]
        least = min(
            total / (1 - df2 / (n - 1))
            for (df2, total), one in zip(both, df1, strict=True)
            if one < NEAREST * (n - 1)
        )
        assert risk == pytest.approx(least, rel=0.07), n


def _standard(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    y = np.tanh(3 * x[:, 0]) + 0.2 * rng.standard_normal(n)
    return (x - x.mean(axis=0)) / x.std(axis=0), (y - y.mean()) / y.std()


def test_the_curve_of_a_table() -> None:
    x, y = _standard(240, 20, 0)
    direction = find_direction(x, y, width=64, seed=0)
    now = {NO_STEP: Interval(0.4, 0.35, 0.45), ONE_STEP: Interval(0.2, 0.15, 0.25)}
    made = learning_curve(x, y, direction, risks=now, step=8.0, width=64, seed=0)
    risks, _ = predicted_risks(x, y, direction, step=8.0, width=64, seed=0)
    for name in (NO_STEP, ONE_STEP):
        points = made.points[name]
        assert [point.rows for point in points] == [60, 120, 240, 480, 960]
        assert points[2].predicted.value == now[name].value
        assert np.all(np.diff([point.predicted.value for point in points]) < 0)
        for point in points[:2]:
            assert point.measured is not None
            assert point.measured.value > now[name].value / 2
        ratio = risks[name][MULTIPLES.index(4.0)] / risks[name][MULTIPLES.index(1.0)]
        assert points[4].predicted.value == pytest.approx(now[name].value * ratio)
        assert points[4].measured is None
        gain = made.gain_of(name, 4.0)
        assert gain.value == pytest.approx(1 - ratio)
        assert gain.low < gain.value < gain.high
    assert made.gain_of(ONE_STEP, 4.0).value > made.gain_of(NO_STEP, 4.0).value


def test_errors_grow_with_the_change_and_shrink_with_the_rows() -> None:
    wide = [
        change_of(NO_STEP, ratio, rows) for ratio, rows in ((0.9, 100), (0.5, 100), (0.9, 9999))
    ]
    first, more, longer = (each.high - each.low for each in wide)
    assert more > first > longer
    assert change_of(NO_STEP, 1.0, 100) == Interval(1.0, 1.0, 1.0)
