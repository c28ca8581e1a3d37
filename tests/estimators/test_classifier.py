"""``OneStepClassifier`` against the same thing written plainly, against scikit-learn's linear
classifiers on the same features, and against what scikit-learn asks of classifiers.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from firststep import (
    InvalidParameter,
    NotConverged,
    OneStepClassifier,
    OneStepRegressor,
    Problem,
    activation,
    first_layer,
)
from firststep.estimators.kernel import Outputs, make_kernel
from firststep.estimators.rows import CHUNK, Split
from firststep.estimators.targets import Classes
from firststep.losses import loss_of
from firststep.simulation.fit.convex import Fit
from firststep.simulation.randomness import HostDraws
from tests.backends import jax, jnp, needs_jax
from tests.estimators.helpers import (
    GENERIC,
    expected_failures,
    plain_start,
    plain_step,
    streamed,
    teacher_data,
)

Array = np.ndarray[Any, Any]
RIDGES = np.geomspace(1e-2, 10, 4)
LOSSES = ("logistic", "squared-hinge", "hinge", "square")
NAMES = np.array(["oak", "ash", "birch"])


def two(n: int = 90, d: int = 5, seed: int = 0) -> tuple[Array, Array]:
    """About a third of the rows are of the second class."""
    x, y, _ = teacher_data(n, d, seed, noise=0.4)
    return x, np.where(y > 8, "yes", "no")


def three(n: int = 150, d: int = 6, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    scores = x @ np.linalg.qr(np.random.default_rng(5).standard_normal((d, 3)))[0]
    return x, NAMES[np.argmax(scores + 0.4 * rng.standard_normal((n, 3)), axis=1)]


def standard(model: OneStepClassifier, x: Array) -> Array:
    return (x - model.mean_) / model.scale_


def features(model: OneStepClassifier, x: Array) -> Array:
    return activation(model.student)(standard(model, x) @ model.weights_)


# The step -----------------------------------------------------------------------------------------


def test_the_step_is_that_of_the_simulation() -> None:
    """Of binary labels +-1, without a constant."""
    problem = Problem(
        student=GENERIC,
        teacher="sin(z) + 0.3*z**2",
        alpha=1,
        beta=1.5,
        alpha0=3,
        step=0.7,
        step_exponent=0.5,
        labels="sign",
        threshold=0.3,
        flip=0.1,
    )
    d, seed = 20, 5
    layer, draws = first_layer(problem, d, seed), HostDraws(seed, 0)
    x = draws.rows("step inputs", 0, 60, d)
    clean = np.sign(problem.teacher(x @ layer.teacher) - 0.3)
    targets = Classes(has_constant=False)
    y = np.where(draws.uniform("step labels", 60) < np.where(clean > 0, 0.9, 0.1), "b", "a")
    targets.add(y)
    targets.finish()
    outputs = Outputs(layer.readout, targets.constant)
    kernel = make_kernel(activation(GENERIC), "numpy", "auto", "float64")
    g = kernel.gradient([(x, targets.standard(y))], 60, layer.before, outputs)
    np.testing.assert_allclose(layer.before + 0.7 * g, layer.after, rtol=1e-10)


@needs_jax
def test_the_gradient_of_several_classes_is_that_of_automatic_differentiation() -> None:
    """Of -N times half the sum of the square losses of K outputs, centred; in blocks."""
    rng = np.random.default_rng(0)
    x, w, at = (rng.standard_normal(shape) for shape in ((50, 4), (4, 6), (6, 3)))
    codes = rng.integers(3, size=50)
    targets = Classes(has_constant=True)
    targets.add(codes)
    targets.finish()
    y = targets.standard(codes)
    np.testing.assert_array_equal(y, 2.0 * (codes[:, None] == np.arange(3)) - 1)
    np.testing.assert_allclose(targets.constant, y.mean(axis=0), rtol=1e-12)
    kernel = make_kernel(activation("tanh(z+0.3)"), "numpy", "auto", "float64")
    blocks = [(x[:20], y[:20]), (x[20:], y[20:])]
    found = kernel.gradient(blocks, 50, w, Outputs(at, targets.constant))
    with jax.enable_x64(True):

        def loss(weights: Any) -> Any:
            outputs = y.mean(axis=0) + jnp.tanh(x @ weights + 0.3) @ at / 6
            return ((y - outputs) ** 2).sum(axis=1).mean() / 2

        expected = -6 * np.asarray(jax.grad(loss)(jnp.asarray(w)))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_the_estimator_takes_that_step() -> None:
    x, y = two()
    model = OneStepClassifier(14, GENERIC, 1.3, ridges=[0.1], random_state=2, intercept=False)
    model.fit(x, y)
    weights, at, _ = plain_start(model, 5)
    signs = np.where(y == "yes", 1.0, -1.0)
    expected = plain_step(GENERIC, standard(model, x), signs, weights, at, 1.3)
    np.testing.assert_allclose(model.weights_, expected, rtol=1e-9)
    centred = OneStepClassifier(14, GENERIC, 1.3, ridges=[0.1], random_state=2).fit(x, y)
    expected = plain_step(GENERIC, standard(model, x), signs - signs.mean(), weights, at, 1.3)
    np.testing.assert_allclose(centred.weights_, expected, rtol=1e-9)


def test_several_classes_share_a_layer_that_has_a_direction_for_each() -> None:
    """Three directions orthogonal in 30 columns: one step finds more than one of them."""
    x, y = three(1500, 30)
    options: dict[str, Any] = {"loss": "square", "ridges": 10 * RIDGES, "random_state": 0}
    model = OneStepClassifier(100, **options).fit(x, y)
    assert model.step_ > 0
    assert model.readout_.shape == (100, 3)
    np.testing.assert_array_equal(model.readout_[:, 0], plain_start(model, 30)[1])
    left = np.linalg.svd(model.weights_ - plain_start(model, 30)[0])[0]
    truth = np.linalg.qr(np.random.default_rng(5).standard_normal((30, 3)))[0]
    contrasts = np.linalg.svd(truth @ (np.eye(3) - 1 / 3))[0][:, :2]  # what argmax depends on
    assert np.linalg.norm(contrasts.T @ left[:, :2]) ** 2 > 1.8  # of 2
    tests, truth_of_tests = three(3000, 30, seed=1)
    fixed = OneStepClassifier(100, step=0, **options).fit(x, y)
    assert model.score(tests, truth_of_tests) > fixed.score(tests, truth_of_tests) + 0.02


# The fit ------------------------------------------------------------------------------------------


def rival(loss: str, intercept: bool, C: float) -> Any:
    if loss == "logistic":
        return LogisticRegression(
            C=C, fit_intercept=intercept, solver="newton-cholesky", tol=1e-12, max_iter=1000
        )
    if loss == "hinge" and intercept:
        return SVC(C=C, kernel="linear", tol=1e-10)
    return LinearSVC(
        C=C,
        loss=loss.replace("-", "_"),
        fit_intercept=False,
        dual=loss == "hinge",
        tol=1e-12,
        max_iter=100_000,
    )


@pytest.mark.parametrize(
    ("loss", "intercept"),
    [
        ("logistic", True),
        ("logistic", False),
        ("squared-hinge", False),
        ("hinge", True),
        ("hinge", False),
    ],
)
@pytest.mark.filterwarnings("ignore")  # of liblinear, which does not reach its tolerance
@pytest.mark.parametrize("width", [12, 130])  # fewer than rows, and more
def test_the_readout_is_scikit_learn_s_on_the_same_features(
    loss: str, intercept: bool, width: int
) -> None:
    x, y = two()
    ridge = 0.1
    model = OneStepClassifier(
        width, step=1.0, ridges=[ridge], random_state=1, loss=loss, intercept=intercept
    ).fit(x, y)
    f, signs, n = features(model, x), np.where(y == "yes", 1.0, -1.0), len(y)
    theirs = rival(loss, intercept, 1 / (2 * n * ridge)).fit(f, y)

    def objective(b: Array, b0: float) -> float:
        return float(loss_of(loss).value(signs, f @ b + b0).mean() + ridge * b @ b)

    ours = objective(model.coef_[0] / math.sqrt(width), float(model.intercept_[0]))
    constant = float(np.ravel(theirs.intercept_)[0]) if intercept else 0.0
    other = objective(np.ravel(theirs.coef_), constant)
    assert ours <= other * (1 + 1e-8)
    assert ours == pytest.approx(other, rel=1e-6)
    assert np.mean(model.predict(x) == theirs.predict(f)) == 1.0


def test_probabilities_are_those_of_logistic_regression() -> None:
    for (x, y), wrap in ((two(), lambda m: m), (three(), OneVsRestClassifier)):
        model = OneStepClassifier(20, step=1.0, ridges=[0.02], random_state=1).fit(x, y)
        theirs = wrap(rival("logistic", True, 1 / (2 * len(y) * 0.02))).fit(features(model, x), y)
        expected = theirs.predict_proba(features(model, x))
        np.testing.assert_allclose(model.predict_proba(x), expected, atol=1e-5)
        np.testing.assert_allclose(model.predict_log_proba(x), np.log(expected), atol=1e-4)
        np.testing.assert_array_equal(model.classes_, theirs.classes_)
        np.testing.assert_array_equal(model.predict(x), theirs.predict(features(model, x)))


def test_probabilities_of_outputs_beyond_any_number() -> None:
    x, y = three()
    model = OneStepClassifier(20, step=1.0, ridges=[0.02], random_state=1).fit(x, y)
    model.coef_, model.intercept_ = 1e-9 * model.coef_, np.array([-800.0, -801.0, -900.0])
    found = model.predict_proba(x[:1])[0]
    np.testing.assert_allclose(found, [1 / (1 + math.exp(-1)), 1 / (1 + math.e), 0], atol=1e-6)
    assert model.predict_log_proba(x[:1])[0, 2] == pytest.approx(-100.3, abs=0.1)


@pytest.mark.parametrize("loss", LOSSES)
def test_probabilities_are_for_the_logistic_loss(loss: str) -> None:
    x, y = two()
    model = OneStepClassifier(10, step=1.0, ridges=[1.0], random_state=1, loss=loss)
    assert hasattr(model, "predict_proba") == hasattr(model, "predict_log_proba")
    assert hasattr(model, "predict_proba") == (loss == "logistic")
    if loss == "logistic":
        return
    with pytest.raises(AttributeError, match="predict_proba"):
        model.fit(x, y).predict_proba(x)
    calibrated = CalibratedClassifierCV(model, cv=2).fit(x, y)
    assert calibrated.predict_proba(x).shape == (90, 2)


# The choice ---------------------------------------------------------------------------------------


def brute_force(model: OneStepClassifier, x: Array, y: Array) -> tuple[Array, Array]:
    """Losses and error rates of fits by scikit-learn, one for every row of the readout and ridge.

    The weights of ``model`` are those of the step: it was fitted with refit="none".
    """
    seed = plain_start(model, x.shape[1])[2]
    rows = ~Split(0.5, seed).is_first(0, len(y))
    f, labels, n = features(model, x)[rows], y[rows], int(rows.sum())
    losses, rates = np.zeros((2, len(model.ridges)))
    for k, ridge in enumerate(model.ridges):
        for i in range(n):
            others = np.arange(n) != i
            fit = OneVsRestClassifier(rival("logistic", True, 1 / (2 * n * ridge)))
            fit.fit(f[others], labels[others])
            scores = fit.decision_function(f[[i]])[0]
            if len(fit.classes_) == 2:
                signs, scores = np.array([2.0 * (labels[i] == fit.classes_[1]) - 1]), scores[None]
                rates[k] += (scores[0] * signs[0] < 0) / n
            else:
                signs = 2.0 * (labels[i] == fit.classes_) - 1
                rates[k] += (fit.classes_[np.argmax(scores)] != labels[i]) / n
            losses[k] += np.log1p(np.exp(-signs * scores)).mean() / n
    return losses, rates


@pytest.mark.parametrize(("data", "width"), [(two, 14), (three, 60)])
def test_the_choice_is_that_of_leave_one_out(data: Any, width: int) -> None:
    x, y = data(80)
    model = OneStepClassifier(
        width, step=1.0, ridges=[0.04, 0.2, 1.0], random_state=3, refit="none"
    ).fit(x, y)
    losses, rates = brute_force(model, x, y)
    np.testing.assert_allclose(model.loo_errors_[0], losses, rtol=0.03)
    np.testing.assert_allclose(model.loo_error_rates_[0], rates, atol=1.5 / 40)
    assert model.ridge_ == model.ridges[np.argmin(losses)]


def test_auto_takes_the_step_and_ridge_of_the_least_error() -> None:
    x, y = two(200)
    model = OneStepClassifier(20, random_state=1, ridges=RIDGES, refit="none").fit(x, y)
    assert model.loo_errors_.shape == model.loo_error_rates_.shape == (7, 4)
    best = np.unravel_index(np.argmin(model.loo_errors_), model.loo_errors_.shape)
    assert (model.step_, model.ridge_) == (model.step_candidates_[best[0]], RIDGES[best[1]])
    alone = OneStepClassifier(
        20, step=float(model.step_candidates_[3]), random_state=1, ridges=RIDGES
    ).fit(x, y)
    np.testing.assert_allclose(alone.loo_errors_[0], model.loo_errors_[3], rtol=1e-6)


def test_the_path_of_ridges_ends_where_nothing_is_left_to_find() -> None:
    x, y = two(200)
    ridges = 80 * np.geomspace(1e-8, 1e2, 21)
    noise = np.random.default_rng(0).permutation(y)
    model = OneStepClassifier(80, step=1.0, random_state=1, refit="none").fit(x, noise)
    errors = model.loo_errors_[0]
    np.testing.assert_allclose(model.ridges_, ridges)
    tried = np.isfinite(errors)
    assert not tried[0]
    assert tried[-1]
    assert np.all(np.diff(tried.astype(int)) >= 0)  # from the largest down, without holes
    assert errors[tried][0] > 2 * errors[tried][1:].min()
    apart = OneStepClassifier(60, step=1.0, random_state=1, loss="hinge").fit(*two(40))
    assert not np.isfinite(apart.loo_errors_[0, 0])  # the largest margin was reached before


def test_a_last_fit_that_fails_alone_is_led_there(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = two()
    model = OneStepClassifier(9, step=1.0, ridges=RIDGES, random_state=1).fit(x, y)
    path = Fit.path

    def only_led(self: Fit, ridges: tuple[float, ...]) -> Any:
        if len(ridges) == 1:
            raise NotConverged("alone")
        return path(self, ridges)

    monkeypatch.setattr(Fit, "path", only_led)
    led = clone(model).fit(x, y)
    assert model.ridge_ < RIDGES[-1]
    np.testing.assert_allclose(led.coef_, model.coef_, atol=1e-4 * np.abs(model.coef_).max())
    with pytest.raises(NotConverged, match="alone"):
        clone(model).set_params(ridges=[1.0]).fit(x, y)


def test_the_leave_one_out_error_is_that_of_new_data() -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((6000, 20))
    y = x.sum(axis=1) / math.sqrt(20) + 0.5 * rng.standard_normal(6000) > 0.4
    model = OneStepClassifier(80, step=4.0, ridges=[0.05], refit="none", random_state=0)
    model.fit(x[:1600], y[:1600])
    signs = np.where(y[1600:], 1.0, -1.0)
    losses = loss_of("logistic").value(signs, model.decision_function(x[1600:]))
    error = losses.std() * math.sqrt(1 / 800 + 1 / 4400)
    assert abs(model.loo_errors_[0, 0] - losses.mean()) < 3 * error
    wrong = model.predict(x[1600:]) != y[1600:]
    assert model.loo_error_rates_[0, 0] == pytest.approx(wrong.mean(), abs=3 * 0.45 / 800**0.5)


def test_with_the_step_s_own_rows_the_choice_is_made_on_others() -> None:
    x, y = two(100)
    model = OneStepClassifier(
        15, step=1.0, step_fraction="all", ridges=RIDGES, random_state=3, refit="none"
    ).fit(x, y)
    first = Split(0.75, plain_start(model, 5)[2]).is_first(0, 100)
    f, signs = features(model, x), np.where(y == "yes", 1.0, -1.0)
    for ridge, error, rate in zip(
        RIDGES, model.loo_errors_[0], model.loo_error_rates_[0], strict=True
    ):
        fit = rival("logistic", True, 1 / (2 * first.sum() * ridge)).fit(f[first], y[first])
        outputs = fit.decision_function(f[~first])
        losses = loss_of("logistic").value(signs[~first], outputs)
        assert error == pytest.approx(losses.mean(), rel=1e-4)
        assert rate == pytest.approx(np.mean(outputs * signs[~first] < 0))


def test_leaving_a_class_out_of_the_readout() -> None:
    """Its rows are so few that all went to the step: what can be judged is, and a fit on all rows
    knows it; a fit on those of the readout alone cannot.
    """
    x, y = three(60)
    model = OneStepClassifier(8, step=1.0, ridges=RIDGES, random_state=3).fit(x, y)
    first = Split(0.5, plain_start(model, 6)[2]).is_first(0, 60)
    for labels in (y, np.where(y == "oak", "oak", "ash")):  # three classes, and two
        rare = np.where(~first & (labels == "oak"), "ash", labels)
        found = model.fit(x, rare)
        assert "oak" in found.classes_
        assert np.all(np.isfinite(found.coef_))
        with pytest.raises(InvalidParameter, match=r"refit must be .*no row .* class oak"):
            clone(model).set_params(refit="none").fit(x, rare)


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("loss", LOSSES)
def test_few_samples(count: int, loss: str) -> None:
    x, _ = two(count)
    y = np.arange(count) % 2
    for fraction in (0.5, "all"):
        model = OneStepClassifier(
            4, step_fraction=fraction, random_state=0, loss=loss, ridges=RIDGES
        ).fit(x, y)
        assert set(model.predict(x)) <= {0, 1}
        assert np.all(np.isfinite(model.decision_function(x)))


# Streams, blocks, backends ------------------------------------------------------------------------


def test_a_stream_gives_what_the_array_gives() -> None:
    """A class may come late, and its name be longer than those before."""
    x, y = three(1300)
    y = np.where((np.arange(1300) > 1100) & (y == "oak"), "hornbeam", y)
    options: dict[str, Any] = {"width": 12, "random_state": 0, "step": 1.0, "ridges": RIDGES}
    whole = OneStepClassifier(**options).fit(x, y)
    pieces = OneStepClassifier(**options).fit_stream(
        streamed(x, y.astype(object), [0, 1, 700, CHUNK, 1100])
    )
    np.testing.assert_array_equal(whole.classes_, ["ash", "birch", "hornbeam", "oak"])
    for name in ("classes_", "weights_", "coef_", "intercept_", "loo_errors_", "loo_error_rates_"):
        np.testing.assert_array_equal(getattr(pieces, name), getattr(whole, name), err_msg=name)
    with pytest.raises(InvalidParameter, match="y must be texts, or numbers, throughout; got both"):
        OneStepClassifier(**options).fit_stream(lambda: iter([(x[:9], y[:9]), (x[:9], range(9))]))


def test_the_size_of_blocks_does_not_matter() -> None:
    x, y = three(200)
    for width in (15, 150):
        small, large = (
            OneStepClassifier(width, step=1.0, ridges=RIDGES, block=block, random_state=0)
            .fit(x, y)
            .decision_function(x)
            for block in (13, 10_000)
        )
        np.testing.assert_allclose(small, large, rtol=1e-6, atol=1e-6)


@needs_jax
def test_jax_gives_the_numbers_of_numpy() -> None:
    for x, y in (two(120), three(120)):
        host, device = (
            OneStepClassifier(
                20, step=1.0, steps=2, ridges=RIDGES, backend=name, block=64, random_state=0
            ).fit(x, y)
            for name in ("numpy", "jax")
        )
        np.testing.assert_allclose(device.loo_errors_, host.loo_errors_, rtol=1e-6)
        np.testing.assert_allclose(device.predict_proba(x), host.predict_proba(x), atol=1e-6)


def test_single_precision_is_close() -> None:
    x, y = three(120)
    single, double = (
        OneStepClassifier(20, step=1.0, ridges=[0.1], dtype=dtype, random_state=0).fit(x, y)
        for dtype in ("float32", "float64")
    )
    assert single.weights_.dtype == np.float32
    np.testing.assert_allclose(single.predict_proba(x), double.predict_proba(x), atol=2e-5)


# scikit-learn -------------------------------------------------------------------------------------


@parametrize_with_checks(
    [
        OneStepClassifier(width=8, ridges=(0.1, 1.0)),
        OneStepClassifier(
            width=7,
            step_fraction="all",
            refit="readout",
            steps=2,
            loss="squared-hinge",
            ridges=(0.1, 1.0),
        ),
        OneStepClassifier(width=6, loss="hinge", step=1.0, ridges=(0.1, 1.0)),
        OneStepClassifier(width=6, loss="square", intercept=False, refit="none", ridges=(0.1, 1.0)),
        OneStepClassifier(width=40, steps="auto"),
    ],
    expected_failed_checks=expected_failures,
)
def test_what_scikit_learn_asks_of_classifiers(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [OneStepClassifier(), OneStepClassifier(512), OneStepClassifier(loss="hinge", width=20)],
    expected_failed_checks=expected_failures,
)
def test_what_scikit_learn_asks_of_the_defaults(estimator: Any, check: Any) -> None:
    check(estimator)


def test_pipelines_searches_copies_and_tables() -> None:
    import pandas as pd

    x, y = three(120)
    table, column = pd.DataFrame(x, columns=list("abcdef")), pd.Series(y, dtype="category")
    model = OneStepClassifier(10, step=1.0, ridges=RIDGES, random_state=0).fit(table, column)
    assert list(model.feature_names_in_) == list("abcdef")
    np.testing.assert_array_equal(model.classes_, sorted(NAMES))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(table), model.predict_proba(table))
    np.testing.assert_array_equal(clone(model).fit(x, y).predict(x), model.predict(table))
    search = GridSearchCV(
        make_pipeline(StandardScaler(), clone(model)),
        {"onestepclassifier__loss": ["logistic", "square"]},
        cv=2,
        scoring="accuracy",
    ).fit(x, y)
    assert search.best_score_ > 0.6
    assert cross_val_score(model, x, y, cv=3, scoring="neg_log_loss").mean() > -0.9


@pytest.mark.parametrize("labels", [[False, True], [-1, 1], [2.0, 7.0]])
def test_labels_of_any_kind(labels: list[Any]) -> None:
    x, y = two()
    options: dict[str, Any] = {"width": 6, "step": 1.0, "ridges": [1.0], "random_state": 0}
    expected = OneStepClassifier(**options).fit(x, y).predict(x) == "yes"
    model = OneStepClassifier(**options).fit(x, np.array(labels)[(y == "yes").astype(int)])
    np.testing.assert_array_equal(model.predict(x), np.array(labels)[expected.astype(int)])


# What is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameter", "values"),
    [
        ("width", [0, 2.5]),
        ("ridges", [0, [1.0, 0.0], "many"]),
        ("loss", ["logit", "huber:1", "quantile:0.5", "hinge:2", 3, None]),
        ("intercept", ["yes", None, 2]),
        ("readout", ["uniform", "ones"]),
    ],
)
def test_nonsense_is_refused_by_name(parameter: str, values: list[Any]) -> None:
    x, y = three(20)
    for value in values:
        with pytest.raises(InvalidParameter, match=f"^{parameter} must be") as caught:
            OneStepClassifier(**{"width": 5, "ridges": [1.0], parameter: value}).fit(x, y)
        assert "\n" not in str(caught.value)


def test_what_goes_where_is_said() -> None:
    with pytest.raises(InvalidParameter, match="did you mean logistic"):
        OneStepClassifier(loss="logisic").fit(*two())
    with pytest.raises(InvalidParameter, match="OneStepRegressor has the losses of numbers"):
        OneStepClassifier(loss="huber:1").fit(*two())
    same = OneStepClassifier(5, step=0, readout="ones", ridges=[1.0]).fit(*three())
    assert np.all(np.isfinite(same.coef_))  # no step: nothing to refuse


def bad_data() -> Iterator[tuple[Any, Any, str]]:
    x, y = two(20)
    holes, numbers = x.copy(), np.arange(20.0) % 2
    holes[3, 1] = math.nan
    yield holes, y, r"^X must be finite numbers; got NaN"
    yield np.where(np.isnan(holes), math.inf, holes), y, r"^X must be finite numbers; got infinity"
    yield x, np.where(numbers == 0, math.nan, 1.0), r"^y must be finite numbers; got NaN"
    yield x, np.linspace(0, 1.3, 20), r"^y must be labels of classes; .*continuous"
    yield x, np.full(20, "yes"), r"^y must be labels of at least two classes; got one class, yes"
    yield x, np.array([1, "a", None, 2.5] * 5, dtype=object), r"^y must be labels of classes"
    yield x, y[:-1], "inconsistent numbers of samples"
    yield x, np.column_stack([y, y]), "1d array"


@pytest.mark.parametrize("case", range(8))
def test_data_that_are_no_classes_are_refused_in_a_line(case: int) -> None:
    x, y, words = list(bad_data())[case]
    with pytest.raises(ValueError, match=words) as caught:
        OneStepClassifier(5).fit(x, y)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=words):
        OneStepClassifier(5).fit_stream(lambda: iter([(x, y)]))


def test_new_inputs_are_checked_too() -> None:
    x, y = two(40)
    model = OneStepClassifier(5, step=1.0, ridges=[1.0], random_state=0).fit(x, y)
    with pytest.raises(InvalidParameter, match="X must be finite numbers; got NaN"):
        model.predict(np.where(x == x[0, 0], math.nan, x))
    with pytest.raises(InvalidParameter, match=r"y must be numbers; .*OneStepClassifier"):
        OneStepRegressor(5).fit(x, y)
    wild = OneStepClassifier(5, "exp(z**2)", step=0, ridges=[1.0], random_state=0).fit(x, y)
    with pytest.raises(NotConverged, match="student overflows"):
        wild.predict(1e3 * x)
