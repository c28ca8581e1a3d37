"""Risks on rows held out: against fits written plainly, and on data whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from firststep.advice.measured import (
    GAINS,
    LINEAR,
    MEAN,
    MODELS,
    NO_STEP,
    ONE_STEP,
    REDRAWS,
    fit_count,
    folds_of,
    in_parallel,
    measure,
    models_of,
    regressor,
)
from firststep.advice.ridge import LinearFit
from firststep.estimators import OneStepRegressor

RNG = np.random.default_rng(0)
X = RNG.standard_normal((150, 8))
Y = np.tanh(2 * X[:, 0]) + 0.1 * RNG.standard_normal(150)


def test_every_row_is_judged_by_a_fit_that_did_not_see_it() -> None:
    found = measure(X, Y, width=32, seed=3)
    folds = folds_of(150, 3)
    assert found.folds == 20
    assert sorted(np.bincount(folds[1])) == [15] * 10
    assert not np.array_equal(folds[0], folds[1])
    for name in (LINEAR, NO_STEP, ONE_STEP):
        squares = []
        for place in range(20):
            held = folds[place // 10] == place % 10
            model = LinearFit() if name == LINEAR else regressor(name, width=32, seed=3 + place)
            model.fit(X[~held], Y[~held])
            squares.append(np.mean((Y[held] - model.predict(X[held])) ** 2))
        assert found.risks[name].value == pytest.approx(np.mean(squares), rel=1e-12)
    for words, (worse, better) in GAINS.items():
        difference = found.risks[worse].value - found.risks[better].value
        assert found.gains[words].value == pytest.approx(difference, rel=1e-9)


def test_units_do_not_matter() -> None:
    one, other = (
        measure(X, Y, width=32, seed=0),
        measure(100 * X - 5, 1000 * Y + 7, width=32, seed=0),
    )
    for name in (LINEAR, *MODELS):
        assert other.determination[name].value == pytest.approx(
            one.determination[name].value, rel=1e-6
        )
        assert other.risks[name].low == pytest.approx(1e6 * one.risks[name].low, rel=1e-6)


def test_the_share_explained_is_over_the_mean() -> None:
    found = measure(X, Y, width=32, seed=0)
    share = 1 - found.risks[LINEAR].value / found.risks[MEAN].value
    assert found.determination[LINEAR].value == pytest.approx(share)
    assert found.is_learned
    noise = measure(X, RNG.standard_normal(150), width=32, seed=0)
    assert not noise.is_learned


def test_redraws_are_measured_on_small_tables() -> None:
    found = measure(X, Y, width=32, seed=0)
    folds, squares = folds_of(len(Y), 0), []
    for place in range(20):
        held = folds[place // 10] == place % 10
        fitted = OneStepRegressor(random_state=place).fit(X[~held], Y[~held])
        squares.append(np.mean((Y[held] - fitted.predict(X[held])) ** 2))
    assert found.risks[REDRAWS].value == pytest.approx(np.mean(squares), rel=1e-9)
    difference = found.risks[ONE_STEP].value - found.risks[REDRAWS].value
    assert found.gains["redraws over one"].value == pytest.approx(difference, rel=1e-9)
    assert found.relative("redraws over one").high <= 1
    assert REDRAWS not in models_of(2001, 5)
    assert REDRAWS not in models_of(50, 201)
    assert fit_count(150, 5) == 20 * len(models_of(150, 5))
    assert fit_count(2001, 5) == 5 * len(models_of(2001, 5))


def test_a_target_that_hardly_varies_is_no_failure() -> None:
    found = measure(X[:20], (np.arange(20) == 3).astype(float), width=16, seed=0)
    assert np.isfinite(found.risks[ONE_STEP].value)


def test_tasks_keep_their_order_and_their_faults() -> None:
    assert in_parallel([lambda k=k: k**2 for k in range(9)]) == [k**2 for k in range(9)]  # type: ignore[misc]

    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        in_parallel([fails])
