"""The matched problem: what is read off the data, against what they were drawn with."""

from __future__ import annotations

import math

import numpy as np
import pytest

from firststep.advice.matched import judge_inputs, linear_part, match_problem
from firststep.advice.measured import NO_STEP, ONE_STEP


def drawn(seed: int, n: int, d: int, noise: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    y = np.tanh(2 * x[:, 0]) + noise * rng.standard_normal(n)
    return (x - x.mean(axis=0)) / x.std(axis=0), (y - y.mean()) / y.std()


def test_the_linear_part_is_unbiased_and_its_interval_holds() -> None:
    big, labels = drawn(99, 400_000, 5)
    truth = float(np.mean(labels * big[:, 0])) ** 2
    found = [linear_part(*drawn(seed, 120, 30)) for seed in range(80)]
    values = [each.value for each in found if each is not None]
    assert len(values) == 80
    assert abs(np.mean(values) - truth) < 4 * np.std(values) / math.sqrt(80)
    assert sum(truth in each for each in found if each is not None) >= 70  # 76 expected
    assert linear_part(*drawn(0, 40, 30)) is None


def test_the_theory_of_the_matched_problem_is_what_is_measured() -> None:
    """On Gaussian inputs with one direction; the measured risk has the larger error."""
    x, y = drawn(1, 2500, 50)
    trust = judge_inputs(x, seed=0)
    assert trust.holds
    ridges = {NO_STEP: 0.3, ONE_STEP: 0.3}
    matched, why = match_problem(x, y, trust, step=6.0, ridges=ridges, width=100, seed=0)
    assert matched is not None, why
    truth = 0.3**2 / float(
        np.var(np.tanh(2 * np.random.default_rng(0).standard_normal(10**5))) + 0.09
    )
    assert matched.noise**2 == pytest.approx(truth, abs=0.03)
    assert matched.problem.alpha == pytest.approx(2500 * 0.8 / 2 / 50)
    for name in (NO_STEP, ONE_STEP):
        told, measured = matched.predicted[name], matched.measured[name]
        risk = told.value
        assert told.low < risk < told.high
        reach = (measured.high - measured.low) / 2 + 0.05 * risk + 0.02
        assert abs(risk - measured.value) < reach, name
    assert matched.predicted[ONE_STEP].high < matched.predicted[NO_STEP].low
    assert matched.to_dict()["problem"]["inputs"] == "gaussian"


def test_no_problem_where_there_is_none() -> None:
    ridges = {NO_STEP: 0.3, ONE_STEP: 0.3}
    rng = np.random.default_rng(0)
    x, _ = drawn(0, 300, 20)
    trust = judge_inputs(x, seed=0)
    for rows, words in ((30, "too few"), (300, "no linear part")):
        labels = rng.standard_normal(rows)
        found, why = match_problem(
            x[:rows], labels - labels.mean(), trust, step=1.0, ridges=ridges, width=20, seed=0
        )
        assert found is None
        assert words in why


def test_inputs_are_judged_in_one_word() -> None:
    rng = np.random.default_rng(0)
    few = judge_inputs(rng.standard_normal((50, 5)), seed=0)
    assert few.word == "not known"
    assert "needs 200" in few.reasons[0]
    heavy = judge_inputs(rng.standard_normal((3000, 20)) * rng.standard_t(3, (3000, 1)), seed=0)
    assert heavy.word == "not trusted"
    assert not heavy.holds
    wide = rng.standard_normal((4000, 30)) @ np.diag(np.arange(1, 31.0) ** -0.4)
    mixed = wide @ np.linalg.qr(rng.standard_normal((30, 30)))[0]
    assert judge_inputs(mixed / mixed.std(axis=0), seed=0).word in ("covariance only", "not known")
