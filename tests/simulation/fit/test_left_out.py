"""Leverages against dense matrices, and approximate leave-one-out against fits without each row."""

from __future__ import annotations

import numpy as np
import pytest

from firststep.losses import loss_of
from firststep.simulation.fit.convex import Fit, Question
from firststep.simulation.fit.geometry import geometry_of
from firststep.simulation.fit.left_out import Held, half_leverages

SHAPES = {"tall": (60, 20), "square": (30, 30), "wide": (40, 70)}


def data(n: int, width: int, binary: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    x = rng.standard_normal((n, 10))
    features = np.tanh(x @ rng.standard_normal((10, width)) / 10**0.5 + 0.5)
    u = x.sum(axis=1) / 10**0.5
    return features, np.sign(u + 0.6 * rng.standard_normal(n)) if binary else (
        u + 0.4 * rng.standard_t(3, n)
    )


def left_out(
    text: str, rows: tuple[np.ndarray, np.ndarray], ridges: tuple[float, ...], intercept: bool
) -> np.ndarray:
    """What is tested: ridges x rows."""
    features, labels = rows
    geometry, found = geometry_of(features), []
    for ridge, at in Fit(Question(loss_of(text), labels, intercept), geometry).descend(ridges):
        assert at.slopes is not None
        assert at.bends is not None
        u = half_leverages(geometry, Held(at.bends, ridge, intercept))
        found.append(at.predicted + np.where(at.slopes == 0, 0, u) * at.slopes)
    return np.array(found)


def refitted(
    text: str, rows: tuple[np.ndarray, np.ndarray], ridges: tuple[float, ...], intercept: bool
) -> np.ndarray:
    """The same from n fits, each without one row, with the penalty n ridge as it is."""
    features, labels = rows
    n, found = len(labels), np.zeros((len(ridges), len(labels)))
    kept = tuple(ridge * n / (n - 1) for ridge in ridges)
    for i in range(n):
        others = np.arange(n) != i
        few = features[others]
        fit = Fit(Question(loss_of(text), labels[others], intercept), geometry_of(few))
        for k, at in enumerate(fit.path(kept)):
            is_primal = len(few) >= few.shape[1]
            b = at.coordinates if is_primal else few.T @ at.coordinates
            found[k, i] = features[i] @ b + at.intercept
    return found


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["smooth", "few", "kinks"])
def test_leverages_are_those_of_dense_matrices(kind: str, shape: str, intercept: bool) -> None:
    n, width = SHAPES[shape]
    features, _ = data(n, width, False)
    rng = np.random.default_rng(1)
    bends, ridge = rng.uniform(0.01, 2.0, n), 0.03
    if kind != "smooth":
        bends[rng.permutation(n)[: n - 9]] = 0.0
    if kind == "kinks":
        bends[np.flatnonzero(bends)[:5]] = np.inf
    found = half_leverages(geometry_of(features), Held(bends, ridge, intercept))
    columns = np.column_stack([np.ones(n), features]) if intercept else features
    penalty = np.diag(np.append(np.zeros(int(intercept)), np.full(width, 2 * n * ridge)))
    dense = np.minimum(bends, 1e7)
    for i in range(n):
        others = dense * (np.arange(n) != i)
        matrix = columns.T @ (others[:, None] * columns) + penalty
        expected = columns[i] @ np.linalg.solve(matrix, columns[i])
        assert found[i] == pytest.approx(expected, rel=1e-4 if kind == "kinks" else 1e-9)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_of_the_square_loss_it_is_exact(shape: str, intercept: bool) -> None:
    rows, ridges = data(*SHAPES[shape], False), (10.0, 0.1, 1e-4)
    exact = refitted("square", rows, ridges, intercept)
    assert left_out("square", rows, ridges, intercept) == pytest.approx(exact, rel=1e-6, abs=1e-8)


# Of the mean loss, relative, at ridges 1, 0.1 and 0.01: the least error is at one of the last two.
# With kinks, rows leave and enter them as one is left out, which the approximation does not see;
# below the best ridge, with a hundred rows, it can be tens of percent off (docs/estimators.md).
CLOSE = {
    "logistic": (1e-3, 2e-3, 0.02),
    "squared-hinge": (2e-3, 0.01, 0.03),
    "huber:0.5": (0.01, 0.02, 0.04),
    "hinge": (0.02, 0.1),
    "quantile:0.7": (0.02, 0.1),
}
CASES = [(text, "tall") for text in CLOSE] + [(text, "wide") for text in list(CLOSE)[:3]]


@pytest.mark.parametrize(("text", "shape"), CASES)
def test_of_other_losses_it_is_close_down_to_the_best_ridge(text: str, shape: str) -> None:
    loss = loss_of(text)
    n, width = SHAPES[shape]
    ridges = (1.0, 0.1, 0.01)[: len(CLOSE[text])]
    rows = data(2 * n if loss.is_smooth else 90, width, loss.is_margin)  # kinks take their time
    fit = Fit(Question(loss, rows[1], False), geometry_of(rows[0]))
    ours, theirs, seen = (
        np.array([loss.value(rows[1], f).mean() for f in each])
        for each in (
            left_out(text, rows, ridges, False),
            refitted(text, rows, ridges, False),
            [at.predicted for at in fit.path(ridges)],
        )
    )
    for mine, true, close in zip(ours, theirs, CLOSE[text], strict=True):
        assert mine == pytest.approx(true, rel=close)
    # it undoes most of what the fit owes to its own rows
    assert np.all(np.abs(ours - theirs) < 0.35 * (theirs - seen))


def test_a_row_that_alone_holds_the_constant_is_infinitely_free() -> None:
    """One label against the others, without features: leaving it out has no minimum."""
    nothing = np.zeros((4, 1))
    bends = np.array([0.5, 0.0, 0.0, 0.0])
    held = half_leverages(geometry_of(nothing), Held(bends, 0.1, True))
    assert not np.any(np.isnan(held))
    only = half_leverages(geometry_of(nothing), Held(np.zeros(4), 0.1, True))
    assert not only.any()
