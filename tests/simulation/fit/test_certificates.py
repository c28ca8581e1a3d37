"""Fits of every loss against lower bounds of what any fit can reach, by a method of another kind.

For pulls p_i of the samples (p = -l'(f) at the minimum, sum p = 0 with a free constant)

    (1/n) sum l(y_i, f_i) + ridge |b|^2 >= (1/n) sum -l*(-p_i) - |F^T p|^2/(4 ridge n^2)

for every b. With n times the right side c.p - p G p/2 and low <= p <= high it is a quadratic
problem of n unknowns, solved here by an interior-point method.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import expit, xlog1py, xlogy

from firststep.losses import loss_of
from firststep.simulation.fit.convex import Fit, Question
from firststep.simulation.fit.geometry import geometry_of

SHAPES = {"tall": (160, 40), "square": (60, 60), "wide": (50, 110)}
LOSSES = ("hinge", "squared-hinge", "huber:0.4", "quantile:0.7", "quantile:0.5")
CLOSE = 1e-6  # of the objective


class Dual(NamedTuple):
    """c, what the loss adds to the diagonal of G, and the bounds."""

    linear: np.ndarray
    diagonal: float
    low: np.ndarray
    high: np.ndarray


def dual_of(text: str, y: np.ndarray) -> Dual:
    name, _, number = text.partition(":")
    one = np.ones_like(y)
    if name == "hinge":  # p = y a, l* = -a, 0 <= a <= 1
        return Dual(y, 0.0, np.minimum(0, y), np.maximum(0, y))
    if name == "squared-hinge":  # -a + a^2/4, 0 <= a; a pull beyond 1e4 needs a margin of -5e3
        return Dual(y, 0.5, 1e4 * np.minimum(0, y), 1e4 * np.maximum(0, y))
    if name == "huber":
        return Dual(y, 0.5, -2 * float(number) * one, 2 * float(number) * one)
    return Dual(y, 0.0, (float(number) - 1) * one, float(number) * one)


def lower_bound(text: str, rows: tuple[np.ndarray, np.ndarray], ridge: float, free: bool) -> float:
    """The largest right side, by Newton's method for c - G p + nu + left - right = 0 with
    (p - low) left = (high - p) right = mu and mu to zero; p stays inside its bounds.
    """
    features, y = rows
    n = len(y)
    linear, diagonal, low, high = dual_of(text, y)
    G = features @ features.T / (2 * ridge * n) + diagonal * np.eye(n)
    p = (low + high) / 2
    if free:  # inside the bounds, and of sum zero
        share = (0 - low.sum()) / (high.sum() - low.sum())
        p = low + share * (high - low)
    left, right, nu, mu = np.ones(n), np.ones(n), 0.0, 1.0
    ones = np.ones(n)
    for _ in range(200):
        below, above = p - low, high - p
        M = G + np.diag(left / below + right / above)
        force = linear - G @ p + nu + mu / below - mu / above
        move = np.linalg.solve(M, force)
        slide = 0.0
        if free:
            across = np.linalg.solve(M, ones)
            slide = -(p + move).sum() / across.sum()
            move = move + slide * across
        new_left = mu / below - left - left / below * move
        new_right = mu / above - right + right / above * move
        steps = [1.0]
        for value, change in ((below, move), (above, -move), (left, new_left), (right, new_right)):
            falling = change < 0
            steps += [0.99 * float(np.min(-value[falling] / change[falling], initial=np.inf))]
        step = min(steps)
        p, nu = p + step * move, nu + step * slide
        left, right = left + step * new_left, right + step * new_right
        gap = float(left @ (p - low) + right @ (high - p))
        mu, value = 0.1 * gap / (2 * n), float(linear @ p - p @ (G @ p) / 2)
        if gap < 1e-9 * value:
            break
    return value / n


def data(shape: str, binary: bool, separable: bool = False) -> tuple[np.ndarray, np.ndarray]:
    n, width = SHAPES[shape]
    rng = np.random.default_rng(n)
    inputs = rng.standard_normal((n, 30))
    features = np.maximum(inputs @ rng.standard_normal((30, width)) / 30**0.5, -0.3)
    real = inputs[:, 0] + 0.5 * inputs[:, 1] ** 2 - 0.2 + 0.3 * rng.standard_t(3, n)
    if separable:
        real = features @ rng.standard_normal(width)
        real = real - np.median(real)
        features = features[np.abs(real) > 0.3]
        real = real[np.abs(real) > 0.3]
    return features, np.sign(real) if binary else real


def objectives(
    text: str, rows: tuple[np.ndarray, np.ndarray], ridges: tuple[float, ...], free: bool
) -> list[float]:
    fit = Fit(Question(loss_of(text), rows[1], free), geometry_of(rows[0]))
    return [fit.objective(s, r) for s, r in zip(fit.path(ridges), ridges, strict=True)]


@pytest.mark.parametrize("free", [False, True], ids=["", "constant"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("text", LOSSES)
def test_fits_reach_the_lower_bound(text: str, shape: str, free: bool) -> None:
    rows, ridges = data(shape, loss_of(text).is_margin), (1.0, 0.01, 1e-4, 1e-6)
    for ridge, ours in zip(ridges, objectives(text, rows, ridges, free), strict=True):
        bound = lower_bound(text, rows, ridge, free)
        assert bound <= ours * (1 + 1e-9) + 1e-13
        assert ours - bound < CLOSE * ours, ridge


@pytest.mark.parametrize("free", [False, True], ids=["", "constant"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("text", ["hinge", "squared-hinge"])
def test_separable_data_with_tiny_ridges(text: str, shape: str, free: bool) -> None:
    rows, ridges = data(shape, True, separable=True), (1e-4, 1e-7, 1e-9)
    for ridge, ours in zip(ridges, objectives(text, rows, ridges, free), strict=True):
        bound = lower_bound(text, rows, ridge, free)
        assert bound <= ours * (1 + 1e-9) + 1e-16
        assert ours - bound < CLOSE * ours, ridge


@pytest.mark.parametrize("free", [False, True], ids=["", "constant"])
@pytest.mark.parametrize("separable", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_logistic_fits_and_their_own_pulls(shape: str, separable: bool, free: bool) -> None:
    """The bound at the pulls p = y a, a = sigmoid(-y f), of the fit: l* = a log a + (1 - a)
    log(1 - a). Those of the class that pulls more are scaled until both pull alike.
    """
    rows, ridges = data(shape, True, separable), (1.0, 1e-3, 1e-6, 1e-9)
    features, y = rows
    fit = Fit(Question(loss_of("logistic"), y, free), geometry_of(features))
    for ridge, found in zip(ridges, fit.path(ridges), strict=True):
        ours = fit.objective(found, ridge)
        a = expit(-y * found.predicted)
        if free:
            plus, minus = a[y > 0].sum(), a[y < 0].sum()
            assert plus == pytest.approx(minus, rel=1e-3)
            a = a * np.where(y > 0, min(1, minus / plus), min(1, plus / minus))
        pull = features.T @ (y * a) / len(y)
        bound = -float(np.mean(xlogy(a, a) + xlog1py(1 - a, -a))) - float(pull @ pull) / (4 * ridge)
        assert ours - bound < CLOSE * ours, ridge
