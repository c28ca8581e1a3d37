"""Intervals: their arithmetic, their words, and how often they hold the truth."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from firststep.advice.intervals import Interval, mean_of_repeats, mean_of_rows, plain


def test_around_is_student() -> None:
    wide, narrow = Interval.around(1.0, 0.1, 4), Interval.around(1.0, 0.1)
    assert narrow.high == pytest.approx(1.196, abs=1e-3)
    assert wide.high == pytest.approx(1.2776, abs=1e-3)
    assert not narrow.scaled(-1).is_positive
    assert narrow.scaled(-1).is_negative
    assert 1.19 in narrow
    assert 1.2 not in narrow


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        (Interval(0.1234, 0.1, 0.15), "0.123 (0.100 to 0.150)"),
        (Interval(12.34, 2.0, 22.0), "12 (2 to 22)"),
        (Interval(1.0, 1.0, 1.0), "1"),
        (Interval(1.0, math.nan, math.nan), "1 (error not known)"),
    ],
)
def test_words(interval: Interval, words: str) -> None:
    assert str(interval) == words


def test_a_mean_over_folds_is_that_of_nadeau_and_bengio() -> None:
    folds = np.arange(40) % 4
    values = np.array([1.0, 2.0, 4.0, 5.0])[folds]
    found = mean_of_rows(values, folds)
    error = np.std([1, 2, 4, 5], ddof=1) * math.sqrt(1 / 4 + 1 / 3)
    assert found.value == 3
    assert found.high - 3 == pytest.approx(3.18245 * error, rel=1e-5)


def test_repeats_have_the_error_of_fits_and_of_rows() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(300):
        rows, fits = rng.standard_normal(100), 0.3 * rng.standard_normal(4)
        sets = [rows[rng.permutation(100)[:60]] + fit for fit in fits]
        hits += 0.0 in mean_of_repeats(sets, 100)
    assert 0.87 <= hits / 300 <= 1.0


def test_plain_is_fit_for_json() -> None:
    given = {"a": Interval(1.0, -math.inf, 2.0), "b": (np.array([1.0, np.nan]), None, "c", True)}
    assert json.loads(json.dumps(plain(given), allow_nan=False)) == {
        "a": {"value": 1.0, "low": None, "high": 2.0},
        "b": [[1.0, None], None, "c", True],
    }


def test_repeated_folds_count_as_folds() -> None:
    """The corrected test of repeated cross-validation: rows are no more than they were."""
    folds = np.array([np.arange(40) % 4, np.arange(40)[::-1] // 10])
    values = np.array([1.0, 2.0, 4.0, 5.0])[folds]
    found = mean_of_rows(values, folds)
    error = np.std([1, 2, 4, 5] * 2, ddof=1) * math.sqrt(1 / 8 + 1 / 3)
    assert found.high - found.value == pytest.approx(2.36462 * error, rel=1e-5)
