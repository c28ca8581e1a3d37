"""``OneStepRegressor`` with Huber's and the quantile loss: against scikit-learn's regressors on the
same features, and against outliers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import HuberRegressor, QuantileRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from firststep import InvalidParameter, OneStepClassifier, OneStepRegressor, activation
from firststep.estimators.learners import DELTA
from firststep.estimators.rows import Split
from firststep.estimators.targets import DEVIATION, RobustNumbers
from firststep.losses import loss_of
from firststep.simulation.fit.convex import Fit, Question
from firststep.simulation.fit.geometry import geometry_of
from tests.backends import needs_jax
from tests.estimators.helpers import GENERIC, expected_failures, plain_start, streamed, teacher_data

Array = np.ndarray[Any, Any]
RIDGES = np.geomspace(1e-2, 10, 4)


def features(model: OneStepRegressor, x: Array) -> Array:
    return activation(model.student)((x - model.mean_) / model.scale_ @ model.weights_)


def robust(y: Array) -> tuple[float, float]:
    """Median and robust standard deviation."""
    return float(np.median(y)), float(DEVIATION * np.median(np.abs(y - np.median(y))))


def test_robust_units() -> None:
    rng = np.random.default_rng(0)
    normal = 3 + 2 * rng.standard_normal(100_000)
    for values, mean, scale in (
        (normal, 3.0, 2.0),
        (np.where(rng.random(100_000) < 0.01, 1e9, normal), 3.0, 2.0),
        (np.array([1.0, 1.0, 1.0, 4.0]), 1.0, 0.75),  # of the mean deviation
        (np.full(5, 0.1), 0.1, 1.0),
    ):
        units = RobustNumbers()
        for piece in np.array_split(values, 3):
            units.add(piece)
        units.finish()
        assert units.mean == pytest.approx(mean, abs=0.05)
        assert units.scale == pytest.approx(scale, rel=0.03)


@pytest.mark.parametrize("width", [12, 130])
def test_huber_is_scikit_learn_s_on_the_same_features(width: int) -> None:
    """Its regressor fits a scale too; at that scale it minimises ours."""
    x, y, _ = teacher_data(90, noise=0.5)
    y[::9] += 20
    start = OneStepRegressor(width, step=0, ridges=[1.0], random_state=1, loss="huber").fit(x, y)
    f, n, (_, unit) = features(start, x), len(y), robust(y)
    theirs = HuberRegressor(epsilon=1.2, alpha=2.0, tol=1e-10, max_iter=100_000).fit(f, y)
    delta, ridge = 1.2 * theirs.scale_, 2.0 * theirs.scale_ / n
    model = OneStepRegressor(
        width, step=0, ridges=[ridge], random_state=1, loss=f"huber:{float(delta / unit)!r}"
    ).fit(x, y)
    loss = loss_of(f"huber:{float(delta)!r}")

    def objective(b: Array, b0: float) -> float:
        return float(loss.value(y, f @ b + b0).mean() + ridge * b @ b)

    ours = objective(model.coef_ / math.sqrt(width), model.intercept_)
    assert ours == pytest.approx(objective(theirs.coef_, float(theirs.intercept_)), rel=1e-6)
    np.testing.assert_allclose(model.predict(x), theirs.predict(f), atol=5e-3)


@pytest.mark.parametrize("theta", [0.2, 0.5])
def test_a_quantile_is_scikit_learn_s_on_the_same_features(theta: float) -> None:
    """Whose penalty is another one: both next to none."""
    x, y, _ = teacher_data(90, noise=0.5)
    model = OneStepRegressor(
        8, step=1.0, ridges=[1e-8], random_state=1, loss=f"quantile:{theta}"
    ).fit(x, y)
    f = features(model, x)
    theirs = QuantileRegressor(quantile=theta, alpha=0.0, solver="highs").fit(f, y)
    loss = loss_of(f"quantile:{theta}")
    ours, other = (float(loss.value(y, p).mean()) for p in (model.predict(x), theirs.predict(f)))
    assert ours == pytest.approx(other, rel=1e-5)
    assert np.mean(y < model.predict(x)) == pytest.approx(theta, abs=0.06)


@pytest.mark.parametrize("loss", ["huber", "quantile:0.3"])
def test_the_step_pulls_no_more_than_delta(loss: str) -> None:
    x, y, _ = teacher_data(60)
    y[::7] -= 1e6
    model = OneStepRegressor(10, GENERIC, step=1.3, ridges=[1.0], random_state=2, loss=loss).fit(
        x, y
    )
    weights, at, _ = plain_start(model, 5)
    s, z, (middle, unit) = activation(GENERIC), (x - model.mean_) / model.scale_, robust(y)
    residual = np.clip((y - middle) / unit - s(z @ weights) @ at / 10, -DELTA, DELTA)
    g = z.T @ (np.outer(residual, at) * s.derivative(z @ weights)) / 60
    np.testing.assert_allclose(model.weights_, weights + 1.3 * g, rtol=1e-9)


def test_leave_one_out_errors_are_those_of_refits_in_the_units_of_y() -> None:
    x, y, _ = teacher_data(80, noise=0.4)
    y[::9] += 20
    for text, close in (("huber:0.8", 0.05), ("quantile:0.4", 0.12)):
        model = OneStepRegressor(
            12, step=1.0, ridges=[0.05, 0.5], random_state=3, refit="none", loss=text
        ).fit(x, y)
        rows = ~Split(0.5, plain_start(model, 5)[2]).is_first(0, 80)
        f, (middle, unit) = features(model, x)[rows], robust(y)
        wanted, count = (y[rows] - middle) / unit, int(rows.sum())
        found, loss = np.zeros(2), loss_of(text)
        for i in range(count):
            others = np.arange(count) != i
            fit = Fit(Question(loss, wanted[others], True), geometry_of(f[others]))
            kept = tuple(ridge * count / (count - 1) for ridge in model.ridges)
            for k, at in enumerate(fit.path(kept)):
                out = f[[i]] @ at.coordinates + at.intercept
                found[k] += float(loss.value(wanted[[i]], out)[0]) / count
        scale = unit**2 if text.startswith("huber") else unit
        np.testing.assert_allclose(model.loo_errors_[0], scale * found, rtol=close)


def test_outliers_do_not_steer_it() -> None:
    """A twentieth of the targets is nonsense of any size: only the square loss is lost."""
    x, y, direction = teacher_data(400, 10, noise=0.1)
    tests = np.random.default_rng(9).standard_normal((1000, 10))
    truth = 7 + 3 * np.tanh(2 * tests @ direction)
    tests = tests * np.geomspace(0.1, 10, 10) + np.linspace(-3, 5, 10)
    spoiled = np.where(np.arange(400) % 20 == 3, y + 1e7, y)
    scores = {
        loss: OneStepRegressor(60, step=8.0, ridges=0.1 * RIDGES, random_state=0, loss=loss)
        .fit(x, spoiled)
        .score(tests, truth)
        for loss in ("square", "huber", "quantile:0.5")
    }
    assert scores["huber"] > 0.9
    assert scores["quantile:0.5"] > 0.9
    assert scores["square"] < 0.7


@pytest.mark.parametrize("loss", ["huber", "quantile:0.3"])
def test_units_do_not_matter(loss: str) -> None:
    x, y, _ = teacher_data(80)
    options: dict[str, Any] = {
        **{"width": 12, "ridges": RIDGES, "random_state": 4, "loss": loss, "step": 1.0}
    }
    plain = OneStepRegressor(**options).fit(x, y)
    other = OneStepRegressor(**options).fit(x, 100 * y - 3e3)
    np.testing.assert_allclose(other.predict(x), 100 * plain.predict(x) - 3e3, atol=0.1)
    factor = 1e4 if loss == "huber" else 1e2
    np.testing.assert_allclose(other.loo_errors_, factor * plain.loo_errors_, rtol=1e-3)


def test_far_out_huber_is_the_square() -> None:
    x, y, _ = teacher_data(90)
    options: dict[str, Any] = {"width": 14, "ridges": RIDGES, "random_state": 0, "step": 0}
    square = OneStepRegressor(**options).fit(x, y)
    huber = OneStepRegressor(loss="huber:1e6", **options).fit(x, y)
    np.testing.assert_allclose(huber.loo_errors_, square.loo_errors_, rtol=1e-7)
    np.testing.assert_allclose(huber.predict(x), square.predict(x), rtol=1e-5)
    assert huber.ridge_ == square.ridge_


def test_a_stream_gives_what_the_array_gives() -> None:
    x, y, _ = teacher_data(1100)
    options: dict[str, Any] = {"width": 9, "ridges": RIDGES, "random_state": 0, "loss": "huber"}
    whole = OneStepRegressor(**options).fit(x, y)
    pieces = OneStepRegressor(**options).fit_stream(streamed(x, y, [1, 700, 1024]))
    np.testing.assert_array_equal(pieces.predict(x), whole.predict(x))
    np.testing.assert_array_equal(pieces.loo_errors_, whole.loo_errors_)


@needs_jax
def test_jax_gives_the_numbers_of_numpy() -> None:
    x, y, _ = teacher_data(100)
    host, device = (
        OneStepRegressor(
            9, step=1.0, ridges=RIDGES, random_state=0, loss="huber", backend=name
        ).fit(x, y)
        for name in ("numpy", "jax")
    )
    np.testing.assert_allclose(device.predict(x), host.predict(x), rtol=1e-6)


@parametrize_with_checks(
    [
        OneStepRegressor(width=9, loss="huber", ridges=(0.1, 1.0)),
        OneStepRegressor(width=9, loss="quantile:0.6", step=1.0, ridges=(0.1, 1.0)),
    ],
    expected_failed_checks=expected_failures,
)
def test_what_scikit_learn_asks_of_estimators(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize(
    "loss",
    ["hubber", "huber:0", "huber:-1", "huber:x", "quantile", "quantile:1", "logistic", 2, None],
)
def test_losses_that_there_are_not(loss: Any) -> None:
    x, y, _ = teacher_data(20)
    with pytest.raises(InvalidParameter, match=r"^loss must be square, huber, ") as caught:
        OneStepRegressor(5, loss=loss).fit(x, y)
    assert "\n" not in str(caught.value)


def test_what_is_not_finite_is_refused_in_a_line() -> None:
    x, y, _ = teacher_data(20)
    for model, wrong, words in (
        (OneStepRegressor(5), (np.where(x == x[0, 0], math.nan, x), y), "X must be finite .* NaN"),
        (OneStepRegressor(5), (x, np.where(y == y[0], math.inf, y)), "y must be finite .* inf"),
        (OneStepRegressor(5, loss="huber"), (x, 1e300 * y), "y must be numbers whose squares"),
    ):
        with pytest.raises(InvalidParameter, match=words) as caught:
            model.fit(*wrong)
        assert "\n" not in str(caught.value)
    with pytest.raises(InvalidParameter, match="OneStepClassifier has the losses of classes"):
        OneStepRegressor(5, loss="hinge").fit(x, y)
    with pytest.raises(InvalidParameter, match="OneStepRegressor takes numbers"):
        OneStepClassifier(5).fit(x, y)
