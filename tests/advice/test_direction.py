"""The learned direction: unbiased strengths, overlaps that come true, and what is even."""

from __future__ import annotations

import numpy as np
import pytest

from firststep.advice.direction import Direction, find_direction


def drawn(seed: int, n: int, d: int, kind: str = "tanh") -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    z = x[:, 0]
    y = {"tanh": np.tanh(2 * z), "even": z**2 - 1, "linear": z, "noise": 0 * z}[kind]
    y = y + 0.5 * rng.standard_normal(n)
    return (x - x.mean(axis=0)) / x.std(axis=0), (y - y.mean()) / y.std()


def found(seed: int, n: int, d: int, kind: str = "tanh") -> Direction:
    return find_direction(*drawn(seed, n, d, kind), width=32, seed=seed)


def test_the_strength_is_the_mean_over_pairs() -> None:
    """Of <y_i x_i, y_j x_j>, every pair of rows once: no halves are drawn."""
    x, y = drawn(0, 40, 5)
    pulls = y[:, None] * x
    products = pulls @ pulls.T
    np.fill_diagonal(products, 0)
    strength = find_direction(x, y, width=16, seed=0).strength
    assert strength.value == pytest.approx(products.sum() / (40 * 39), rel=1e-10)


def test_strength_and_overlap_are_those_of_the_population() -> None:
    """v = E[y x] of the law, by a sample of 200 000; overlaps with it by each small sample."""
    x, y = drawn(99, 200_000, 20)
    v = y @ x / len(y)
    strengths, held, misses = [], 0, []
    for seed in range(60):
        direction = found(seed, 150, 20)
        strengths.append(direction.strength.value)
        held += float(v @ v) in direction.strength
        overlap = float(direction.vector @ v) / np.linalg.norm(v)
        misses.append(direction.overlap.value - overlap)
    error = np.std(strengths) / np.sqrt(60)
    assert abs(np.mean(strengths) - v @ v) < 4 * error
    assert held >= 51  # 57 expected
    assert abs(np.mean(misses)) < 0.03


def test_noise_has_no_direction() -> None:
    known = sum(found(seed, 100, 20, "noise").is_known for seed in range(40))
    assert known <= 5  # one in forty is expected
    curved = sum(found(seed, 100, 20, "noise").is_curved for seed in range(40))
    assert curved <= 3


def test_what_is_even_is_seen_as_such() -> None:
    even, linear = found(0, 600, 20, "even"), found(0, 600, 20, "linear")
    assert even.is_curved
    assert not even.is_known
    assert linear.is_known
    assert not linear.is_curved


def test_the_curvature_is_the_mean_over_pairs() -> None:
    x, y = drawn(3, 30, 40)  # more columns than rows: nothing is taken off before
    r = y - y.mean()
    matrices = r[:, None, None] * (x[:, :, None] * x[:, None] - x.T @ x / 30)
    products = np.einsum("iab,jab->ij", matrices, matrices)
    np.fill_diagonal(products, 0)
    told = find_direction(x, y, width=16, seed=0).curvature
    assert told == pytest.approx(products.sum() / (30 * 29) / (r @ r / 30), rel=1e-9)


def test_the_function_along_it() -> None:
    direction = found(1, 4000, 10)
    x, y = drawn(98, 200_000, 10)
    straight = float(np.mean(y * x[:, 0])) ** 2
    explained = 1 - 0.25 / float(np.var(np.tanh(2 * x[:, 0])) + 0.25)
    del y
    assert abs(direction.explained.value - explained) < 0.05
    assert abs(direction.explained_linear - straight) < 0.05
    assert np.all(np.diff(direction.mean) > -4 * direction.mean_error[1:])
    place, share, error = direction.leading_columns()[0]
    assert place == 0
    assert 0.9 < share <= 1
    assert 0 < error < 0.1


def test_few_rows_that_make_the_gradient() -> None:
    x, y = drawn(0, 2000, 10)
    scale = 1 / np.random.default_rng(1).gamma(0.75, 1, 2000)  # as of Student's t, 1.5 degrees
    light = find_direction(x, y, width=16, seed=0).heaviest
    heavy = find_direction(x * np.sqrt(scale)[:, None], y, width=16, seed=0).heaviest
    assert 0.02 < light < 0.12
    assert heavy > 0.25


def test_the_spike_is_compared_with_shuffled_targets() -> None:
    teacher, noise = found(0, 500, 20), found(0, 500, 20, "noise")
    assert teacher.spike_stands_out
    assert not noise.spike_stands_out
    assert teacher.spike_ratio > 3 * teacher.spike_of_noise
