"""Fits of every loss against scikit-learn, tall and wide, with and without a constant; and what
holds of any minimum.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import HuberRegressor, LogisticRegression, QuantileRegressor, Ridge
from sklearn.svm import SVC, LinearSVC

from firststep import NotConverged
from firststep.losses import loss_of
from firststep.simulation.fit import geometry
from firststep.simulation.fit.convex import GAP, Fit, Question, Solution
from firststep.simulation.fit.geometry import Dual, geometry_of

SHAPES = {"tall": (160, 40), "square": (60, 60), "wide": (50, 110)}
RIDGES = (10.0, 1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
CLOSE = 1e-6  # of the objective
HARD = ("squared-hinge", "tall")  # liblinear's dual methods give up below ridge 0.1


def data(shape: str, binary: bool) -> tuple[np.ndarray, np.ndarray]:
    n, width = SHAPES[shape]
    rng = np.random.default_rng(len(shape))
    inputs = rng.standard_normal((n, 30))
    features = np.maximum(inputs @ rng.standard_normal((30, width)) / 30**0.5, -0.3)
    signal = inputs[:, 0] + 0.5 * inputs[:, 1] ** 2 - 0.2
    real = signal + 0.3 * rng.standard_t(3, n)
    return features, np.sign(real) if binary else real


def fitted(
    text: str, shape: str, intercept: bool, ridges: tuple[float, ...]
) -> tuple[np.ndarray, np.ndarray, list[tuple[Solution, float]]]:
    """Features, labels, and solutions with their objectives."""
    loss = loss_of(text)
    features, labels = data(shape, loss.is_margin)
    fit = Fit(Question(loss, labels, intercept), geometry_of(features))
    found = fit.path(ridges)
    return features, labels, [(s, fit.objective(s, r)) for s, r in zip(found, ridges, strict=True)]


def objective(
    text: str, ridge: float, rows: tuple[np.ndarray, np.ndarray], b: np.ndarray, b0: float
) -> float:
    features, labels = rows
    return float(loss_of(text).value(labels, features @ b + b0).mean() + ridge * b @ b)


@pytest.mark.filterwarnings("ignore")  # of scikit-learn, where it stops early
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("text", ["logistic", "squared-hinge", "hinge", "square"])
def test_agrees_with_scikit_learn(text: str, shape: str, intercept: bool) -> None:
    """Nobody finds a lower objective, and those that are exact find the same."""
    ridges = RIDGES[:6] if text == "hinge" else RIDGES
    features, labels, found = fitted(text, shape, intercept, ridges)
    n = len(labels)
    for ridge, (_, ours) in zip(ridges, found, strict=True):
        C, options = 1 / (2 * n * ridge), dict(tol=1e-10, max_iter=20_000)
        if text == "logistic":
            model = LogisticRegression(
                C=C, fit_intercept=intercept, solver="newton-cholesky", **options
            )
        elif text == "square":
            model = Ridge(alpha=n * ridge, fit_intercept=intercept)
        elif intercept and text == "hinge":
            model = SVC(C=C, kernel="linear", tol=1e-8)
        elif intercept:  # liblinear's is penalised: on a column of 1e3 it hardly is
            continue
        else:
            loss = text.replace("-", "_")
            model = LinearSVC(
                C=C,
                loss=loss,
                fit_intercept=False,
                dual=text == "hinge" or shape != "tall",
                **options,
            )
        model.fit(features, labels)
        constant = float(np.ravel(model.intercept_)[0]) if intercept else 0.0
        b = np.ravel(model.coef_)
        theirs = objective(text, ridge, (features, labels), b, constant)
        assert ours <= theirs * (1 + 1e-8) + 1e-15
        if ridge >= 0.1 or text in ("logistic", "square") or (text, shape) == HARD:
            assert ours == pytest.approx(theirs, rel=CLOSE)


@pytest.mark.parametrize("intercept", [False, True])
def test_huber_agrees_with_scikit_learn(intercept: bool) -> None:
    """Its regressor fits the scale too; at that scale it minimises ours with delta = epsilon scale
    and ridge alpha scale/n.
    """
    features, labels = data("tall", False)
    model = HuberRegressor(epsilon=1.3, alpha=2.0, fit_intercept=intercept, tol=1e-10)
    model.set_params(max_iter=100_000).fit(features, labels)
    text, ridge = f"huber:{1.3 * model.scale_}", 2.0 * model.scale_ / len(labels)
    _, _, [(_, ours)] = fitted(text, "tall", intercept, (ridge,))
    theirs = objective(text, ridge, (features, labels), model.coef_, float(model.intercept_))
    assert ours == pytest.approx(theirs, rel=CLOSE)


@pytest.mark.parametrize("theta", [0.2, 0.5])
def test_quantile_agrees_with_scikit_learn(theta: float) -> None:
    """Whose penalty is another one: both without."""
    text = f"quantile:{theta}"
    features, labels, [*_, (_, ours)] = fitted(text, "tall", True, (1e-3, 1e-6, 1e-9))
    model = QuantileRegressor(quantile=theta, alpha=0.0, solver="highs").fit(features, labels)
    theirs = objective(text, 0.0, (features, labels), model.coef_, float(model.intercept_))
    assert ours == pytest.approx(theirs, abs=CLOSE)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "text", ["logistic", "squared-hinge", "hinge", "huber:0.4", "quantile:0.7", "square"]
)
def test_derivative_along_the_path_is_the_penalty(text: str, shape: str, intercept: bool) -> None:
    """d/d ridge (training loss + ridge |b|^2) = |b|^2, at any minimum."""
    h = 3e-3
    for ridge in (1.0, 1e-2, 1e-5):
        ridges = (ridge * (1 + h), ridge, ridge * (1 - h))
        _, _, ((_, up), (middle, value), (_, down)) = fitted(text, shape, intercept, ridges)
        gap = 2 * GAP * value / (2 * h * ridge)
        found = (up - down) / (2 * h * ridge)
        assert found == pytest.approx(middle.penalty, rel=2e-4, abs=gap)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("shape", ["wide", "square"])
@pytest.mark.parametrize(
    "text", ["logistic", "squared-hinge", "hinge", "huber:0.4", "quantile:0.7"]
)
def test_both_geometries_find_the_same(text: str, shape: str, intercept: bool) -> None:
    """Where n < N, in the space of samples; the same on features turned into a tall triangle."""
    loss, ridges = loss_of(text), (1.0, 1e-2, 1e-4)
    features, labels = data(shape, loss.is_margin)
    turned = np.linalg.qr(features.T)[1].T  # F F^T is the same, and n >= N
    one, other = (
        Fit(Question(loss, labels, intercept), way)
        for way in (Dual(features @ features.T), geometry_of(turned))
    )
    for ridge, a, b in zip(ridges, one.path(ridges), other.path(ridges), strict=True):
        assert one.objective(a, ridge) == pytest.approx(other.objective(b, ridge), rel=1e-7)
        assert a.predicted == pytest.approx(b.predicted, abs=2e-4 * (1 + np.abs(a.predicted).max()))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("text", ["logistic", "squared-hinge", "huber:0.4"])
def test_products_and_factorisations_find_the_same(
    text: str, intercept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Conjugate gradients are for many unknowns; here for these few too."""
    ridges = (10.0, 0.3, 0.01)
    _, _, exact = fitted(text, "tall", intercept, ridges)
    monkeypatch.setattr(geometry, "PRODUCTS_FROM", 1)
    monkeypatch.setattr(geometry, "PRODUCTS", 1000)
    _, _, found = fitted(text, "tall", intercept, ridges)
    for (a, one), (b, other) in zip(exact, found, strict=True):
        assert one == pytest.approx(other, rel=3e-9)
        assert a.predicted == pytest.approx(b.predicted, abs=2e-4)


def test_order_and_repetition_of_ridges_do_not_matter() -> None:
    _, _, one = fitted("logistic", "tall", True, (0.1, 1.0, 0.1))
    _, _, other = fitted("logistic", "tall", True, (1.0, 0.1))
    assert [value for _, value in one] == [other[k][1] for k in (1, 0, 1)]


def test_huber_far_out_is_the_square() -> None:
    for intercept in (False, True):
        _, _, one = fitted("huber:50", "tall", intercept, RIDGES)
        _, _, other = fitted("square", "tall", intercept, RIDGES)
        for (a, _), (b, _) in zip(one, other, strict=True):
            assert a.coordinates == pytest.approx(b.coordinates, abs=1e-7)


def test_one_class_only_has_no_minimum_with_a_constant() -> None:
    features, _ = data("tall", True)
    ones = np.ones(len(features))
    with pytest.raises(NotConverged, match="one class"):
        Fit(Question(loss_of("logistic"), ones, True), geometry_of(features))
    (found,) = Fit(Question(loss_of("logistic"), ones, False), geometry_of(features)).path((0.1,))
    assert np.all(np.isfinite(found.predicted))


def test_what_is_not_finite_is_refused() -> None:
    features, labels = data("tall", True)
    features[3, 4] = np.nan
    with pytest.raises(NotConverged):
        Fit(Question(loss_of("logistic"), labels, False), geometry_of(features)).path((0.1,))
