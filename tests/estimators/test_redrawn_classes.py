"""``OneStepClassifier`` with redraws: its readouts against scikit-learn's and repeated rows, the
choice of the ridge against all fits written plainly, and what users do with classifiers.
"""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from firststep import (
    InvalidParameter,
    NotConverged,
    NotEnoughMemory,
    OneStepClassifier,
    OneStepFeatures,
    activation,
)
from firststep.estimators.class_fits import OneVsRest, WeightedLoss
from firststep.estimators.class_search import Part, choose, make_fit, penalties
from firststep.estimators.redraw_search import held_out
from firststep.estimators.redrawn_classes import indicators
from firststep.estimators.redraws import Sample
from firststep.estimators.softmax_ridge import SoftmaxRidge, log_losses
from firststep.losses import loss_of
from firststep.simulation.backends import NumpyBackend
from tests.estimators.helpers import streamed

Array = np.ndarray[Any, Any]
LOSSES = ("logistic", "squared-hinge", "hinge", "square")
AUTO: dict[str, Any] = {"width": 60, "steps": "auto", "random_state": 0}
NAMES = np.array(["oak", "ash", "birch"])


def band(n: int, seed: int = 0, d: int = 20) -> tuple[Array, Array]:
    """Between two planes or not: no plane tells the two apart."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    along = x @ np.linalg.qr(np.random.default_rng(7).standard_normal((d, 1)))[0][:, 0]
    return x, np.where((along > -0.5) & (along < 1), "in", "out")


def three(n: int, seed: int = 0, d: int = 6) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    scores = np.stack([2 * x[:, 0], 3 * np.abs(x[:, 1]) - 2, np.sin(x[:, 2])], axis=1)
    return x, NAMES[np.argmax(scores + 0.4 * rng.gumbel(size=(n, 3)), axis=1)]


def some(shape: tuple[int, int], count: int) -> tuple[Array, Array, Array]:
    """Features with means, classes and weights."""
    rng = np.random.default_rng(0)
    weights = rng.integers(1, 4, shape[0]).astype(float)
    return rng.standard_normal(shape) + 1, rng.integers(0, count, shape[0]), weights


# Readouts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(60, 20), (60, 200), (60, 60)])
@pytest.mark.parametrize("count", [2, 3])
def test_logistic_regression_is_scikit_learn_s(shape: tuple[int, int], count: int) -> None:
    f, codes, v = some(shape, count)
    for penalty in (20.0, 0.01):
        fit = SoftmaxRidge(f.copy(), indicators(codes, count), v)
        readout, constant = fit.fit(penalty)
        outputs = (f - fit.centre) @ readout + constant
        model = LogisticRegression(C=1 / (2 * penalty), solver="newton-cg", tol=1e-10)
        theirs = model.set_params(max_iter=5000).fit(f, codes, sample_weight=v)
        np.testing.assert_allclose(
            outputs, theirs.decision_function(f).reshape(60, -1), rtol=2e-4, atol=2e-4
        )
        # the gradient vanishes, which is what a minimum of a convex function is
        chances = theirs.predict_proba(f)[:, 1:] if count == 2 else theirs.predict_proba(f)
        pull = v[:, None] * (chances - indicators(codes, count))
        scale = np.abs((f - fit.centre).T @ (v[:, None] * chances)).max()
        left = (f - fit.centre).T @ pull + 2 * penalty * readout
        assert np.abs(left).max() < 1e-4 * scale


def test_a_descent_is_good_to_three_digits() -> None:
    f, codes, v = some((80, 150), 4)
    fit = SoftmaxRidge(f.copy(), indicators(codes, 4), v)
    path = [fit.unit * 10.0**power for power in (2, 0, -2, -4)]
    for penalty, (readout, constant) in zip(path, fit.descend(path), strict=True):
        exact = SoftmaxRidge(f.copy(), indicators(codes, 4), v).fit(penalty)

        def objective(b: Array, b0: Array, p: float = penalty) -> float:
            outputs = (f - fit.centre) @ b + b0
            return float(v @ log_losses(outputs, indicators(codes, 4)) + p * (b**2).sum())

        least = objective(*exact)
        assert least <= objective(readout, constant) <= least * 1.002


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("width", [20, 90])
def test_weights_of_readouts_are_repeated_rows(loss: str, width: int) -> None:
    f, codes, v = some((40, width), 3)
    rows = np.repeat(np.arange(40), v.astype(int))
    labels = indicators(codes, 3)
    weighted = make_fit(loss_of(loss), f.copy(), labels, v)
    repeated = make_fit(loss_of(loss), f[rows], labels[rows], np.ones(len(rows)))
    assert weighted.unit == pytest.approx(repeated.unit)
    for penalty in (3.0, 0.3):
        ours, theirs = weighted.fit(penalty), repeated.fit(penalty)
        np.testing.assert_allclose(ours.readout, theirs.readout, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(ours.constant, theirs.constant, rtol=1e-3, atol=1e-4)


def test_the_hinge_with_weights_is_scikit_learn_s() -> None:
    f, codes, v = some((50, 8), 2)
    fit = OneVsRest(f.copy(), indicators(codes, 2), v, loss_of("hinge"))
    readout, constant = fit.fit(0.5)
    theirs = SVC(C=1.0, kernel="linear", tol=1e-10).fit(f, codes, sample_weight=v)
    np.testing.assert_allclose(readout[:, 0], theirs.coef_[0], rtol=1e-3, atol=1e-4)
    outputs = (f - fit.centre) @ readout + constant
    np.testing.assert_allclose(outputs[:, 0], theirs.decision_function(f), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_proximal_point_of_a_weighted_loss(loss: str) -> None:
    weights, y, f0 = np.array([0.3, 1.0, 2.5]), np.array([1.0, -1.0, 1.0]), np.array([0.2, 0.7, -2])
    weighted, v = WeightedLoss(loss_of(loss), weights), np.array([0.8, 1.5, 0.4])
    score = weighted.score(y, f0, v)
    for place in range(3):

        def envelope(z: float, i: int = place) -> float:
            one = slice(i, i + 1)
            lost = loss_of(loss).value(y[one], np.array([z]))[0]
            return float(weights[i] * lost + (z - f0[i]) ** 2 / v[i])

        found = minimize_scalar(envelope, bounds=(-5, 5), method="bounded", options={"xatol": 1e-9})
        assert score.point[place] == pytest.approx(found.x, abs=1e-4)
    np.testing.assert_allclose(score.g, (score.point - f0) / v, rtol=1e-6, atol=1e-9)
    moved = weighted.score(y, f0 + 1e-6, v)
    np.testing.assert_allclose((score.g - moved.g) / 1e-6, score.slope, rtol=1e-3, atol=1e-4)


# The choice ---------------------------------------------------------------------------------------


def part_of(f: Array, codes: Array, v: Array, held: Array, count: int) -> Part:
    labels = indicators(codes, count)
    return Part(lambda: f[~held], labels[~held], v[~held], lambda: f[held], labels[held], v[held])


@pytest.mark.parametrize("loss", ["logistic", "squared-hinge"])
def test_the_ridge_is_that_of_the_least_loss_held_out(loss: str) -> None:
    rng = np.random.default_rng(1)
    f, v = rng.standard_normal((150, 30)), rng.integers(1, 3, 150).astype(float)
    codes = np.argmax(f[:, :3] + 0.5 * rng.standard_normal((150, 3)), axis=1)
    held = rng.random(150) < 0.3
    part, chosen_by = part_of(f, codes, v, held, 3), loss_of(loss)
    chosen = choose([part, part], chosen_by, None)
    fit = make_fit(chosen_by, f[~held], part.labels, part.weights)
    found = []
    for penalty in penalties(fit, None)[:15]:
        readout, constant = fit.fit(penalty)
        outputs = (f[held] - fit.centre) @ readout + constant
        if loss == "logistic":
            chances = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
            found.append(log_loss(codes[held], chances, sample_weight=v[held]))
        else:
            lost = chosen_by.value(2 * part.wanted - 1, outputs)
            found.append(float(np.average(lost.mean(axis=1), weights=v[held])))
    assert chosen.place == int(np.argmin(found))
    assert chosen.loss == pytest.approx(min(found), rel=5e-3)
    readout, constant = fit.fit(penalties(fit, None)[chosen.place])
    outputs = (f[held] - fit.centre) @ readout + constant
    wrong = np.average(outputs.argmax(axis=1) != codes[held], weights=v[held])
    assert chosen.error_rate == pytest.approx(wrong, abs=0.03)


def test_what_may_be_luck_is_not_taken() -> None:
    """By default: ridges that were given are taken as they are."""
    places = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        f, codes, held = rng.standard_normal((80, 10)), rng.integers(0, 2, 80), np.arange(80) < 20
        part = part_of(f, codes, np.ones(80), held, 2)
        places.append(choose([part], loss_of("logistic"), None).place)
        given = choose([part], loss_of("logistic"), np.array([0.1, 1.0, 1e4]))
        assert given.place in (0, 1, 2)
    assert places.count(0) >= 7


def test_classes_that_a_part_does_not_know() -> None:
    rng = np.random.default_rng(0)
    f, codes = rng.standard_normal((60, 5)), np.arange(60) % 2
    codes[:3] = 2
    held = np.arange(60) < 20
    with_two = choose([part_of(f, codes, np.ones(60), held, 3)], loss_of("logistic"), None)
    without = choose(
        [part_of(f[3:], codes[3:], np.ones(57), held[3:], 2)], loss_of("logistic"), None
    )
    assert with_two.place == without.place
    assert with_two.loss == pytest.approx(without.loss, rel=5e-3)
    alone = choose(
        [part_of(f, (held & (codes == 0)).astype(int), np.ones(60), held, 2)],
        loss_of("logistic"),
        None,
    )
    assert alone.place == 0
    assert math.isnan(alone.loss)


def test_every_class_has_its_share_of_the_rows_held_out() -> None:
    codes = np.repeat([0, 1, 2], [60, 30, 10])
    sample = Sample(np.arange(100.0)[:, None], np.zeros((100, 1)), np.ones(100))
    parts = held_out(sample, np.random.default_rng(0), codes)
    seen = np.concatenate([test.inputs[:, 0] for _, test in parts]).astype(int)
    assert len(parts) == 5
    assert len(np.unique(seen)) == 100
    for train, test in parts:
        np.testing.assert_array_equal(np.bincount(codes[test.inputs[:, 0].astype(int)]), [12, 6, 2])
        assert len(train.inputs) == 80


# The estimator ------------------------------------------------------------------------------------


def test_redraws_find_the_direction_of_a_band() -> None:
    x, y = band(500)
    tests, truth = band(2000, 1)
    model = OneStepClassifier(random_state=0).fit(x, y)
    one = OneStepClassifier(width=200, step=1.0, random_state=0).fit(x, y)
    assert model.score(tests, truth) > 0.9 > 0.1 + one.score(tests, truth)
    loss = log_loss(truth, model.predict_proba(tests))
    assert loss < 0.25
    assert model.held_loss_ == pytest.approx(loss, abs=0.1)
    assert model.held_error_rate_ == pytest.approx(1 - model.score(tests, truth), abs=0.06)
    direction = np.linalg.qr(np.random.default_rng(7).standard_normal((20, 1)))[0][:, 0]
    assert direction @ model.moments_ @ direction > 0.7
    assert model.steps_ >= 1
    assert model.weights_.shape == (20, 2000)
    assert model.coef_.shape == (1, 2000)


@pytest.mark.parametrize("loss", LOSSES)
def test_what_it_says_is_what_it_computes(loss: str) -> None:
    """Outputs from the attributes, and logistic regression on the features."""
    for (x, y), count in ((band(100, d=4), 2), (three(100), 3)):
        model = OneStepClassifier(loss=loss, **AUTO).fit(x, y)
        before = (x - model.mean_) / model.scale_ @ model.weights_ + model.biases_
        f = activation(model.student)(before)
        outputs = f @ model.coef_.T / math.sqrt(60) + model.intercept_
        found = model.decision_function(x)
        np.testing.assert_allclose(found, outputs[:, 0] if count == 2 else outputs, rtol=1e-7)
        places = (outputs[:, 0] > 0).astype(int) if count == 2 else outputs.argmax(axis=1)
        np.testing.assert_array_equal(model.predict(x), model.classes_[places])
        assert model.score(x, y) > 0.75
        assert hasattr(model, "predict_proba") == (loss == "logistic")
        if loss != "logistic":
            continue
        theirs = LogisticRegression(C=1 / (2 * 100 * model.ridge_), solver="newton-cg", tol=1e-9)
        theirs.set_params(max_iter=5000).fit(f, y)
        np.testing.assert_allclose(model.predict_proba(x), theirs.predict_proba(f), atol=2e-3)
        np.testing.assert_allclose(
            model.predict_log_proba(x), np.log(model.predict_proba(x)), rtol=1e-6, atol=1e-9
        )
        np.testing.assert_allclose(model.predict_proba(x).sum(axis=1), 1.0)


def test_weights_are_repeated_rows_in_any_order() -> None:
    x, y = three(120)
    rng = np.random.default_rng(3)
    weights = rng.integers(0, 4, 120)
    rows = rng.permutation(np.repeat(np.arange(120), weights))
    weighted = OneStepClassifier(**AUTO).fit(x, y, sample_weight=weights)
    repeated = OneStepClassifier(**AUTO).fit(x[rows], y[rows])
    np.testing.assert_allclose(weighted.predict_proba(x), repeated.predict_proba(x), rtol=1e-6)
    plain = OneStepClassifier(**AUTO).fit(x, y)
    assert np.abs(plain.predict_proba(x) - weighted.predict_proba(x)).max() > 1e-3
    left_out = OneStepClassifier(**AUTO).fit(x, y, sample_weight=(y != "ash").astype(float))
    np.testing.assert_array_equal(left_out.classes_, ["birch", "oak"])


def test_nothing_to_learn_gives_the_shares_of_the_classes() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((1300, 8)), rng.choice(3, 1300, p=[0.6, 0.3, 0.1])
    model = OneStepClassifier(**AUTO).fit(x[:300], y[:300])
    shares = np.bincount(y[:300]) / 300
    least = log_loss(y[300:], np.tile(shares, (1000, 1)))
    assert log_loss(y[300:], model.predict_proba(x[300:])) < least + 0.03


def test_a_class_of_one_row_and_two_rows_in_all() -> None:
    x, y = band(40, d=3)
    rare = np.where(np.arange(40) == 7, "rare", y)
    model = OneStepClassifier(**AUTO).fit(x, rare)
    assert model.predict_proba(x).shape == (40, 3)
    assert np.all(np.isfinite(model.predict_log_proba(x)))
    for loss in LOSSES:
        pair = OneStepClassifier(loss=loss, **AUTO).fit(x[:2], np.array([3, 5]))
        assert set(pair.predict(x)) <= {3, 5}
    flat = OneStepClassifier(**AUTO).fit(np.ones((30, 2)), np.arange(30) % 3 == 0)
    np.testing.assert_allclose(flat.predict_proba(np.ones((1, 2))), [[2 / 3, 1 / 3]], atol=1e-3)


def test_pipelines_searches_copies_and_tables() -> None:
    import pandas as pd

    x, y = three(120)
    table, column = pd.DataFrame(x, columns=list("abcdef")), pd.Series(y, dtype="category")
    model = OneStepClassifier(**AUTO).fit(table, column)
    assert list(model.feature_names_in_) == list("abcdef")
    np.testing.assert_array_equal(model.classes_, sorted(NAMES))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(table), model.predict_proba(table))
    np.testing.assert_array_equal(clone(model).fit(x, y).predict(x), model.predict(table))
    search = GridSearchCV(
        make_pipeline(StandardScaler(), clone(model)),
        [{"onestepclassifier__biases": [0.0, 1.0]}, {"onestepclassifier__steps": [1]}],
        cv=2,
        scoring="neg_log_loss",
    ).fit(table, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    chain = make_pipeline(
        OneStepFeatures(8, step=1.0, random_state=0).set_output(transform="pandas"), clone(model)
    ).fit(table, (y == "oak").astype(int))
    assert list(chain[-1].feature_names_in_) == [f"onestepfeatures{place}" for place in range(8)]
    # a one-step network after redraws is what it would have been without them
    fresh = OneStepClassifier(9, step=1.0, ridges=[0.1], random_state=0).fit(x, y)
    model.set_params(width=9, steps=None, step=1.0, ridges=[0.1]).fit(x, y)
    np.testing.assert_array_equal(model.predict_proba(x), fresh.predict_proba(x))


def test_what_the_default_is() -> None:
    """Redraws where they can be done; a step of the theory with a width, a stream and so on."""
    x, y = three(60)
    for loss in ("logistic", "square"):
        model = OneStepClassifier(random_state=0, loss=loss).fit(x[:, :3], y)
        assert model.weights_.shape == (3, 500)
        assert model.biases_.any()
    for options in ({"width": 20}, {"step": 0}, {"intercept": False}, {"dtype": "float32"}):
        model = OneStepClassifier(random_state=0, ridges=[0.1], **options).fit(x, y)
        assert model.steps_ == 1
        assert not model.biases_.any()
        assert model.loo_errors_.shape[1] == 1
    options = {"ridges": [0.1], "random_state": 0}
    stream = OneStepClassifier(**options).fit_stream(streamed(x, y, [20]))
    explicit = OneStepClassifier(512, steps=1, **options).fit(x, y)
    np.testing.assert_array_equal(stream.predict_proba(x), explicit.predict_proba(x))


def test_given_ridges_are_those_of_the_readout() -> None:
    x, y = band(100, d=4)
    model = OneStepClassifier(ridges=[0.3, 0.003], **AUTO).fit(x, y)
    assert model.ridge_ in (pytest.approx(0.3), pytest.approx(0.003))


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = band(40, d=3)
    for options, name in (
        ({**AUTO, "step": 1.0}, "step"),
        ({**AUTO, "intercept": False}, "intercept"),
        ({**AUTO, "intercept": "yes"}, "intercept"),
        ({**AUTO, "loss": "huber"}, "loss"),
        ({**AUTO, "backend": "jax"}, "backend"),
        ({**AUTO, "dtype": "float32"}, "dtype"),
        ({**AUTO, "biases": -1}, "biases"),
        ({**AUTO, "width": 0}, "width"),
        ({**AUTO, "width": "wide"}, "width"),
        ({**AUTO, "steps": "some"}, "steps"),
        ({**AUTO, "ridges": [0.0]}, "ridges"),
        ({"width": 20, "biases": 1.0}, "biases"),
    ):
        with pytest.raises(InvalidParameter, match=f"^{name} must be") as caught:
            OneStepClassifier(**options).fit(x, y)
        assert "\n" not in str(caught.value)
    with pytest.raises(InvalidParameter, match="steps must be a whole number with fit_stream"):
        OneStepClassifier(**AUTO).fit_stream(streamed(x, y, [10]))
    holes = np.where(x == x[0, 0], math.nan, x)
    one = np.full(40, "in")
    positive = np.where(y == "in", 1.0, 0.0)
    for inputs, labels, weights, words in (
        (holes, y, None, "X must be finite numbers; got NaN"),
        (np.where(np.isnan(holes), math.inf, x), y, None, "X must be finite numbers; got infinity"),
        (x, one, None, "y must be labels of at least two classes; got one class, in"),
        (x, y, positive, "y must be labels of at least two classes; got one class, in"),
        (x, y, np.zeros(40), "at least one non-zero number"),
        (x, np.linspace(0, 1, 40), None, "y must be labels of classes"),
        (x, y, -positive, "Negative values in data passed to `sample_weight`"),
        (x, y, np.full(40, math.nan), "sample_weight contains NaN"),
        (1e300 * x, y, None, "X must be numbers whose squares"),
    ):
        with pytest.raises(ValueError, match=words):
            OneStepClassifier(**AUTO).fit(inputs, labels, sample_weight=weights)
    with pytest.raises(InvalidParameter, match="sample_weight must be equal and positive"):
        OneStepClassifier(20).fit(x, y, sample_weight=positive)
    with pytest.raises(NotConverged, match="not finite"):
        OneStepClassifier(**AUTO, student="exp(exp(z**2*9))").fit(x, y)
    monkeypatch.setattr(NumpyBackend, "memory_limit", lambda self: 10**4)
    with pytest.raises(NotEnoughMemory, match=r"^width must be"):
        OneStepClassifier(**AUTO).fit(x, y)
