"""The estimators against the same thing written plainly, against scikit-learn, and against what
scikit-learn asks of estimators.
"""

from __future__ import annotations

import math
import pickle
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import firststep
from firststep import (
    InvalidParameter,
    NotConverged,
    NotEnoughMemory,
    OneStepFeatures,
    OneStepRegressor,
    Problem,
    activation,
)
from firststep.estimators import ridge_path
from firststep.estimators.kernel import Outputs, make_kernel
from firststep.estimators.rows import CHUNK, Split, regroup
from firststep.estimators.targets import Running
from firststep.estimators.training import MOVES, leading_update
from firststep.simulation.backends import NumpyBackend
from firststep.simulation.randomness import HostDraws
from tests.backends import BACKENDS, jax, jnp, needs_jax
from tests.estimators.helpers import (
    GENERIC,
    RIDGES,
    expected_failures,
    plain_start,
    plain_step,
    streamed,
    teacher_data,
)

Array = np.ndarray[Any, Any]

# Written plainly ----------------------------------------------------------------------------------


def brute_force(features: Array, y: Array, ridges: Array) -> Array:
    """Mean squared leave-one-out errors: one fit by scikit-learn for every row and ridge."""
    n, errors = len(y), np.zeros(len(ridges))
    for i in range(n):
        others = np.arange(n) != i
        for j, ridge in enumerate(ridges):
            fit = Ridge(alpha=n * ridge, solver="svd").fit(features[others], y[others])
            errors[j] += (y[i] - fit.predict(features[[i]])[0]) ** 2 / n
    return errors


def plain_fit(model: OneStepRegressor, x: Array, y: Array, tests: Array) -> tuple[Array, Array]:
    """Errors (candidates x ridges) and predictions of a model with a given step, with every matrix
    formed.
    """
    x, tests, scaled = (
        (x - x.mean(0)) / x.std(0),
        (tests - x.mean(0)) / x.std(0),
        (y - y.mean()) / y.std(),
    )
    weights, at, seed = plain_start(model, x.shape[1])
    reuses = model.step_fraction in (1.0, "all")
    first = Split(0.75 if reuses else model.step_fraction, seed).is_first(0, len(y))
    fitted = first if reuses else ~first
    s = activation(model.student)

    def trained(part: Array) -> Array:
        return plain_step(
            model.student, x[part], scaled[part], weights, at, model.step, model.steps_
        )

    after, count = trained(first), int(fitted.sum())
    if reuses:
        fits = [
            Ridge(alpha=count * ridge, solver="svd").fit(s(x[first] @ after), y[first])
            for ridge in model.ridges
        ]
        errors = np.array(
            [((fit.predict(s(x[~first] @ after)) - y[~first]) ** 2).mean() for fit in fits]
        )
    else:
        errors = brute_force(s(x[fitted] @ after), y[fitted], model.ridges)
    ridge = model.ridges[int(np.argmin(errors))]
    part = fitted if model.refit == "none" else np.ones(len(y), dtype=bool)
    after = trained(part) if model.refit == "all" else after
    final = Ridge(alpha=part.sum() * ridge, solver="svd").fit(s(x[part] @ after), y[part])
    return errors, final.predict(s(tests @ after))


@pytest.mark.parametrize(
    "width", [12, 20, 29, 30, 31, 70]
)  # 30 rows for the readout: tall, square and wide
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"refit": "none"},
        {"refit": "readout", "step": 0.2, "steps": 3},
        {"step": 0.0, "refit": "none"},
    ],
)
@pytest.mark.parametrize("few", [1, 100])  # with 1, N <= 30 takes the first form of ridge_path.py
def test_the_fit_is_that_of_explicit_matrices(
    width: int, options: dict[str, Any], few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ridge_path, "FEW", few)
    x, y, _ = teacher_data()
    tests = teacher_data(seed=1)[0]
    settings = {"step": 1.5, **options}
    model = OneStepRegressor(
        width=width, student=GENERIC, ridges=RIDGES, random_state=3, block=7, **settings
    ).fit(x, y)
    errors, predicted = plain_fit(model, x, y, tests)
    np.testing.assert_allclose(model.loo_errors_[0], errors, rtol=1e-7)
    np.testing.assert_allclose(model.predict(tests), predicted, rtol=1e-7)
    assert model.ridge_ == RIDGES[np.argmin(errors)]


@pytest.mark.parametrize("width", [20, 70])
@pytest.mark.parametrize("refit", ["all", "readout", "none"])
def test_with_the_step_s_own_rows_the_choice_is_made_on_others(
    width: int, refit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ridge_path, "FEW", 1)
    x, y, _ = teacher_data()
    tests = teacher_data(seed=1)[0]
    options: dict[str, Any] = {
        "width": width,
        "student": GENERIC,
        "ridges": RIDGES,
        "random_state": 3,
        "step": 1.5,
        "refit": refit,
    }
    model = OneStepRegressor(step_fraction="all", **options).fit(x, y)
    errors, predicted = plain_fit(model, x, y, tests)
    np.testing.assert_allclose(model.loo_errors_[0], errors, rtol=1e-7)
    np.testing.assert_allclose(model.predict(tests), predicted, rtol=1e-7)
    np.testing.assert_array_equal(
        OneStepRegressor(step_fraction=1.0, **options).fit(x, y).predict(tests),
        model.predict(tests),
    )


def test_leave_one_out_holds_for_ridges_near_zero() -> None:
    """Where the fit interpolates, residuals and 1 - h vanish together; their ratio must not."""
    x, y, _ = teacher_data(40)
    model = OneStepRegressor(
        width=60, step=1.0, ridges=[1e-9, 1e-7], refit="none", random_state=0
    ).fit(x, y)
    errors, _ = plain_fit(model, x, y, x)
    np.testing.assert_allclose(model.loo_errors_[0], errors, rtol=1e-4)


@needs_jax
def test_the_gradient_is_that_of_automatic_differentiation() -> None:
    rng = np.random.default_rng(0)
    x, y, w, at = (
        rng.standard_normal((50, 4)),
        rng.standard_normal(50),
        rng.standard_normal((4, 6)),
        rng.standard_normal(6),
    )
    kernel = make_kernel(activation("tanh(z+0.3)"), "numpy", "auto", "float64")
    found = kernel.gradient([(x[:20], y[:20]), (x[20:], y[20:])], 50, w, Outputs(at))
    with jax.enable_x64(True):
        loss = lambda weights: ((y - jnp.tanh(x @ weights + 0.3) @ at / 6) ** 2).mean() / 2  # noqa: E731
        expected = -6 * np.asarray(jax.grad(loss)(jnp.asarray(w)))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_the_step_is_that_of_the_simulation() -> None:
    problem = Problem(
        student=GENERIC,
        teacher="sin(z) + 0.3*z**2",
        alpha=1,
        beta=1.5,
        alpha0=3,
        step=0.7,
        step_exponent=0.5,
        noise=0.2,
    )
    d, seed = 20, 5
    layer, draws = firststep.first_layer(problem, d, seed), HostDraws(seed, 0)
    x = draws.rows("step inputs", 0, 60, d)
    y = problem.teacher(x @ layer.teacher) + 0.2 * draws.vector("step noise", 60)
    kernel = make_kernel(activation(GENERIC), "numpy", "auto", "float64")
    after = layer.before + 0.7 * kernel.gradient([(x, y)], 60, layer.before, Outputs(layer.readout))
    np.testing.assert_allclose(after, layer.after, rtol=1e-10)


# The rules ----------------------------------------------------------------------------------------


def test_auto_tries_the_moves_it_says_and_takes_the_least() -> None:
    x, y, _ = teacher_data(200)
    model = OneStepRegressor(width=30, random_state=1, ridges=RIDGES, refit="none").fit(x, y)
    scaled, (weights, at, seed) = (x - x.mean(0)) / x.std(0), plain_start(model, 5)
    first = Split(0.5, seed).is_first(0, 200)
    labels = (y - y.mean()) / y.std()
    sizes = []
    for step, errors in zip(model.step_candidates_, model.loo_errors_, strict=True):
        moved = plain_step(model.student, scaled[first], labels[first], weights, at, step) - weights
        sizes.append(
            np.linalg.norm(scaled[first] @ moved) / np.linalg.norm(scaled[first] @ weights)
        )
        alone = OneStepRegressor(width=30, random_state=1, ridges=RIDGES, step=step).fit(x, y)
        np.testing.assert_allclose(alone.loo_errors_[0], errors, rtol=1e-9)
    np.testing.assert_allclose(sizes, [0, *MOVES], rtol=1e-9)
    best = np.unravel_index(np.argmin(model.loo_errors_), model.loo_errors_.shape)
    assert (model.step_, model.ridge_) == (model.step_candidates_[best[0]], RIDGES[best[1]])


def test_a_step_pays_on_a_single_index_teacher() -> None:
    x, y, direction = teacher_data(800, 40, noise=0.3)
    tests = np.random.default_rng(9).standard_normal((2000, 40))
    truth = 7 + 3 * np.tanh(2 * tests @ direction)
    tests = tests * np.geomspace(0.1, 10, 40) + np.linspace(-3, 5, 40)
    model = OneStepRegressor(width=150, random_state=0).fit(x, y)
    fixed = OneStepRegressor(width=150, random_state=0, step=0).fit(x, y)
    assert model.step_ > 0
    assert model.score(tests, truth) > 0.9 > 0.85 > fixed.score(tests, truth)
    assert abs(model.direction_ @ direction) > 0.9
    assert model.spike_ratio_ > 3
    assert math.isnan(fixed.spike_ratio_)
    assert not fixed.direction_.any()


def test_the_leave_one_out_error_is_that_of_new_data() -> None:
    rng = np.random.default_rng(2)
    x, direction = rng.standard_normal((6000, 30)), np.ones(30) / math.sqrt(30)
    y = np.tanh(2 * x @ direction) + 0.4 * rng.standard_normal(6000)
    model = OneStepRegressor(width=100, step=5.0, ridges=[1.0], refit="none", random_state=0).fit(
        x[:2000], y[:2000]
    )
    error = (model.predict(x[2000:]) - y[2000:]) ** 2
    assert abs(model.loo_errors_[0, 0] - error.mean()) < 3 * error.std() * math.sqrt(
        1 / 1000 + 1 / 4000
    )
    seen = OneStepRegressor(width=100, step=5.0, ridges=[1.0], random_state=0).fit(
        x[:2000], y[:2000]
    )
    assert (
        (seen.predict(x[2000:]) - y[2000:]) ** 2
    ).mean() < error.mean()  # refitted on all rows, it is better still


def test_units_do_not_matter() -> None:
    x, y, _ = teacher_data(80)
    options: dict[str, Any] = {"width": 25, "random_state": 4}
    plain = OneStepRegressor(**options).fit(x, y)
    other = OneStepRegressor(**options).fit(x * np.geomspace(1e-3, 1e3, 5) + 9, 100 * y - 3e3)
    np.testing.assert_allclose(
        other.predict(x * np.geomspace(1e-3, 1e3, 5) + 9), 100 * plain.predict(x) - 3e3, rtol=1e-7
    )
    assert other.ridge_ == plain.ridge_
    np.testing.assert_allclose(other.loo_errors_, 1e4 * plain.loo_errors_, rtol=1e-6)
    standard = (x - x.mean(0)) / x.std(0)
    raw = OneStepRegressor(standardize=False, **options).fit(standard, y)
    np.testing.assert_allclose(raw.predict(standard), plain.predict(x), rtol=1e-7)
    assert not raw.mean_.any()


def test_constant_columns_change_nothing_but_the_seed_of_weights() -> None:
    x, y, _ = teacher_data(50)
    model = OneStepRegressor(width=10, random_state=0).fit(
        np.column_stack([np.full(50, 1e8 / 3), x]), y
    )
    assert not model.weights_[0].any()
    assert model.scale_[0] == 1
    before = model.predict(np.column_stack([np.full(50, 1e8 / 3), x]))
    np.testing.assert_allclose(
        model.predict(np.column_stack([np.zeros(50), x])), before, rtol=1e-12
    )


@pytest.mark.parametrize("count", [2, 3, 4, 5])
@pytest.mark.parametrize("fraction", [0.5, 0.01, 0.99, "all"])
@pytest.mark.parametrize("refit", ["all", "none"])
def test_few_samples(count: int, fraction: Any, refit: str) -> None:
    x, y, _ = teacher_data(count)
    for width in (1, 3, 50):
        predicted = (
            OneStepRegressor(width=width, step_fraction=fraction, refit=refit, random_state=0)
            .fit(x, y)
            .predict(x)
        )
        assert np.all(np.abs(predicted - y.mean()) <= 2 * np.ptp(y))


def test_constant_targets_and_constant_inputs() -> None:
    x, y, _ = teacher_data(30)
    for target in (0.0, 0.1, -1e9 / 7):
        model = OneStepRegressor(width=10, random_state=0).fit(x, np.full(30, target))
        np.testing.assert_allclose(model.predict(x), target, rtol=1e-12)
    model = OneStepRegressor(width=10, random_state=0).fit(np.ones((30, 2)), y)
    np.testing.assert_allclose(model.predict(np.ones((3, 2))), y.mean(), rtol=1e-9)
    np.testing.assert_array_equal(model.step_candidates_, [0.0])


@pytest.mark.parametrize("shape", [(6, 9), (9, 6), (1, 5), (5, 1)])
def test_the_leading_singular_values_of_the_update(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    before, change = rng.standard_normal(shape), rng.standard_normal(shape)
    values, direction = leading_update(before, before + change)
    left, expected, _ = np.linalg.svd(change)
    np.testing.assert_allclose(values, [*expected, 0.0][:2], rtol=1e-9)
    assert abs(direction @ left[:, 0]) > 1 - 1e-12
    assert direction[np.argmax(np.abs(direction))] > 0


# Streams, blocks, memory, backends ----------------------------------------------------------------


@given(st.floats(0.01, 0.99), st.integers(2, 3000), st.integers(0, 5))
def test_the_split_is_by_row_number(fraction: float, count: int, seed: int) -> None:
    split = Split(fraction, seed)
    chunks = [split.is_first(k, min(CHUNK, count - k * CHUNK)) for k in range(-(-count // CHUNK))]
    first = sum(int(chunk.sum()) for chunk in chunks)
    assert 1 <= first <= count - 1
    assert abs(first - fraction * count) <= 1.5
    if count > CHUNK:
        np.testing.assert_array_equal(split.is_first(0, CHUNK), chunks[0])


def test_running_moments_and_regrouping() -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((100, 3)) + 1e7
    running = Running()
    sizes = [0, 1, 30, 31, 99, 100]
    pieces = [(values[a:b], values[a:b, 0]) for a, b in pairwise(sizes)]
    for piece, _ in pieces:
        running.add(piece)
    np.testing.assert_allclose(running.mean, values.mean(0), rtol=1e-14)
    np.testing.assert_allclose(running.spread()[0], values.std(0), rtol=1e-8)
    again = list(regroup(pieces, 7))
    assert [len(y) for _, y in again] == [7] * 14 + [2]
    np.testing.assert_array_equal(np.concatenate([x for x, _ in again]), values)


@pytest.mark.parametrize(
    "options",
    [
        {"width": 16},
        {"width": 16, "step_fraction": "all", "steps": 2},
        {"width": 1400, "step": 1.0},
    ],
)
def test_a_stream_gives_what_the_array_gives(options: dict[str, Any]) -> None:
    x, y, _ = teacher_data(2500)
    whole = OneStepRegressor(random_state=0, **options).fit(x, y)
    pieces = OneStepRegressor(random_state=0, **options).fit_stream(
        streamed(x, y, [0, 1, 700, 700, 1024, 2499])
    )
    for name in (
        "weights_",
        "coef_",
        "intercept_",
        "loo_errors_",
        "step_",
        "ridge_",
        "mean_",
        "scale_",
    ):
        np.testing.assert_array_equal(getattr(pieces, name), getattr(whole, name), err_msg=name)


def test_streams_that_cannot_be_read() -> None:
    x, y, _ = teacher_data(30)
    model = OneStepRegressor(width=5, random_state=0)
    with pytest.raises(InvalidParameter, match="batches must be a function without arguments"):
        model.fit_stream([(x, y)])  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="pairs"):
        model.fit_stream(lambda: iter([x]))  # type: ignore[arg-type,list-item]
    with pytest.raises(InvalidParameter, match="at least 2 rows"):
        model.fit_stream(lambda: iter([(x[:1], y[:1])]))
    with pytest.raises(InvalidParameter, match="at least 2 rows"):
        model.fit_stream(lambda: iter([]))
    with pytest.raises(ValueError, match="features"):
        model.fit_stream(lambda: iter([(x, y), (x[:, :3], y)]))
    used_up = iter([(x, y)])
    with pytest.raises(InvalidParameter, match=r"same rows every time.*30 rows, then 0"):
        model.fit_stream(lambda: used_up)


def test_the_size_of_blocks_does_not_matter() -> None:
    x, y, _ = teacher_data(300)
    for width in (20, 200):
        small, large = (
            OneStepRegressor(width=width, block=block, random_state=0).fit(x, y)
            for block in (13, 10_000)
        )
        np.testing.assert_allclose(small.predict(x), large.predict(x), rtol=1e-8)


def test_memory_does_not_grow_with_the_data(tmp_path: Path) -> None:
    count, d = 60_000, 40
    x = np.memmap(tmp_path / "x", dtype=np.float64, mode="w+", shape=(count, d))
    rng = np.random.default_rng(0)
    for start in range(0, count, 10_000):
        x[start : start + 10_000] = rng.standard_normal((10_000, d))
    y = np.tanh(x[:, 0]) + 0.1 * rng.standard_normal(count)
    x.flush()
    mapped = np.memmap(tmp_path / "x", dtype=np.float64, mode="r", shape=(count, d))
    tracemalloc.start()
    model = OneStepRegressor(width=32, step=1.0, ridges=[0.1, 1.0], random_state=0).fit(mapped, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6 < count * d * 8 / 3
    assert model.score(mapped[:1000], y[:1000]) > 0.65


@pytest.mark.parametrize(("width", "fraction"), [(25, 0.5), (120, 0.5), (25, "all")])
@needs_jax
def test_jax_gives_the_numbers_of_numpy(width: int, fraction: Any) -> None:
    x, y, _ = teacher_data(150)
    models = [
        OneStepRegressor(
            width=width, steps=2, step_fraction=fraction, backend=name, block=64, random_state=0
        )
        for name in ("numpy", "jax")
    ]
    host, device = (model.fit(x, y) for model in models)
    assert host.ridge_ == device.ridge_
    np.testing.assert_allclose(device.step_, host.step_, rtol=1e-10)
    np.testing.assert_allclose(device.loo_errors_, host.loo_errors_, rtol=1e-8)
    np.testing.assert_allclose(device.predict(x), host.predict(x), rtol=1e-8)


@needs_jax
def test_data_are_kept_on_a_device_where_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, _ = teacher_data(300)
    calls: list[int] = []

    def batches() -> Iterator[tuple[Any, Any]]:
        calls.append(1)
        yield x, y

    plain = OneStepRegressor(width=20, backend="jax", random_state=0).fit_stream(batches)
    passes = len(calls)
    backend = make_kernel(activation(plain.student), "jax", "auto", "float64").backend
    monkeypatch.setattr(backend, "device", "pretended")
    monkeypatch.setattr(type(backend), "memory_limit", lambda self: 10**9)
    kept = OneStepRegressor(width=20, backend="jax", random_state=0, block=1024).fit_stream(batches)
    assert passes == 19  # as docs/estimators.md says
    assert len(calls) - passes == 3  # means, the rows of the step, those of the readout
    np.testing.assert_allclose(kept.predict(x), plain.predict(x), rtol=1e-9)


@pytest.mark.parametrize("backend", BACKENDS)
def test_single_precision_is_close(backend: str) -> None:
    x, y, _ = teacher_data(300)
    single = OneStepRegressor(width=40, dtype="float32", backend=backend, random_state=0).fit(x, y)
    double = OneStepRegressor(
        width=40, step=single.step_, ridges=[single.ridge_], random_state=0
    ).fit(x, y)
    assert single.weights_.dtype == np.float32
    # ridges that single precision cannot tell from none
    assert np.isinf(single.loo_errors_).any()
    np.testing.assert_allclose(single.predict(x), double.predict(x), rtol=0, atol=2e-3 * y.std())


# scikit-learn -------------------------------------------------------------------------------------


@parametrize_with_checks(
    [
        OneStepRegressor(),
        OneStepRegressor(width=7, step_fraction="all", refit="readout", steps=2),
        OneStepFeatures(width=9),
        OneStepFeatures(width=9, step=1.0),
    ],
    expected_failed_checks=expected_failures,
)
def test_what_scikit_learn_asks_of_estimators(estimator: Any, check: Any) -> None:
    check(estimator)


def test_pipelines_searches_copies_and_tables() -> None:
    import pandas as pd

    x, y, _ = teacher_data(120)
    table = pd.DataFrame(x, columns=list("abcde"))
    model = OneStepRegressor(width=20, random_state=0).fit(table, y)
    assert list(model.feature_names_in_) == list("abcde")
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).predict(table), model.predict(table)
    )
    np.testing.assert_allclose(clone(model).fit(x, y).predict(x), model.predict(table), rtol=1e-12)
    stream = OneStepRegressor(width=20, random_state=0).fit_stream(
        lambda: iter([(table[:50], y[:50]), (table[50:], y[50:])])
    )
    np.testing.assert_array_equal(stream.predict(table), model.predict(table))
    search = GridSearchCV(
        OneStepRegressor(random_state=0), {"width": [5, 20], "student": ["relu", "tanh(z+1)"]}, cv=2
    ).fit(x, y)
    assert search.best_params_["width"] in (5, 20)
    pipeline = make_pipeline(OneStepFeatures(width=20, random_state=0), Ridge(alpha=1e-3)).fit(
        table, y
    )
    assert pipeline.score(table, y) > 0.8
    features = pipeline[0].set_output(transform="pandas").transform(table)
    assert list(features.columns) == [f"onestepfeatures{i}" for i in range(20)]


def test_the_features_are_those_of_the_regressor() -> None:
    x, y, _ = teacher_data(120)
    for options in (
        {},
        {"step": 2.0},
        {"step": 2.0, "refit": "none"},
        {"refit": "readout", "step_fraction": "all"},
    ):
        model = OneStepRegressor(width=20, random_state=0, **options).fit(x, y)
        features = OneStepFeatures(width=20, random_state=0, **options).fit(x, y)
        np.testing.assert_array_equal(features.weights_, model.weights_)
        np.testing.assert_allclose(
            features.transform(x) @ model.coef_ + model.intercept_, model.predict(x), rtol=1e-10
        )
        assert hasattr(features, "ridge_") == ("step" not in options)
        s, scaled = activation(model.student), (x - model.mean_) / model.scale_
        np.testing.assert_allclose(
            features.transform(x), s(scaled @ model.weights_) / math.sqrt(20), rtol=1e-12
        )


def test_the_examples_of_the_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "estimators.md").read_text()
    scope: dict[str, Any] = {}
    examples = re.findall(r"^```python\n(.*?)^```", page, flags=re.S | re.M)
    assert len(examples) == 6
    for code in examples:
        exec(compile(code, "estimators.md", "exec"), scope)
    words = capsys.readouterr().out.splitlines()
    assert len(words) == 9
    for line in words:
        assert line[:12] in page  # numbers to two digits


# What is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameter", "values"),
    [
        ("width", [0, -3, 2.5, "many", None]),
        ("student", ["no such", 3, lambda z: np.where(z > 0, z, 0)]),
        ("step", ["large", -1, math.nan, None, [1.0]]),
        ("steps", [0, 1.5, "two"]),
        ("step_fraction", [0, -0.5, 1.5, "some", None]),
        ("refit", ["both", True, None]),
        ("ridges", [0, [1.0, 0.0], -1, [], "many", [math.inf], math.nan]),
        ("readout", ["uniform", 3, "1:0.5"]),
        ("standardize", ["yes", None, 2]),
        ("backend", ["torch", None, ["jax"]]),
        ("device", ["tpu", {}]),
        ("dtype", ["float16", np.float32]),
        ("block", [0, 1.5, "all"]),
        ("random_state", ["seed", -1, 1.5]),
    ],
)
def test_nonsense_is_refused_by_name(parameter: str, values: list[Any]) -> None:
    x, y, _ = teacher_data(10)
    for value in values:
        for kind in (OneStepRegressor, OneStepFeatures):
            with pytest.raises(InvalidParameter, match=f"^{parameter} must be") as caught:
                kind(**{"width": 5, parameter: value}).fit(x, y)
            assert "\n" not in str(caught.value)


def test_what_overflows_or_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, _ = teacher_data(60)
    careful = OneStepRegressor(width=10, student="exp(z**2)", random_state=0).fit(x, y)
    assert np.isinf(careful.loo_errors_[-1]).all()  # that step overflows; another is taken
    with pytest.raises(NotConverged, match="student overflows"):
        careful.predict(1e3 * x)
    with pytest.raises(NotConverged, match="trusted"):
        OneStepRegressor(width=10, student="exp(z**2)", step=1e6, random_state=0).fit(x, y)
    with pytest.raises(NotConverged, match="weights overflowed"):
        OneStepRegressor(width=10, student="exp(z)", step=1e30, steps=3, random_state=0).fit(x, y)
    with pytest.raises(NotConverged, match="trusted"):
        OneStepRegressor(width=10, ridges=[1e-25], random_state=0).fit(x, y)
    monkeypatch.setattr(NumpyBackend, "memory_limit", lambda self: 10**6)
    with pytest.raises(NotEnoughMemory, match=r"^width must be"):
        OneStepRegressor(width=1000).fit(x, y)
    monkeypatch.undo()
    with pytest.raises(InvalidParameter, match=r"^X must be"):
        OneStepRegressor(width=10).fit(1e300 * x, y)
    with pytest.raises(InvalidParameter, match=r"^y must be"):
        OneStepRegressor(width=10).fit(x, 1e300 * y)
    with pytest.raises(ValueError, match="1d array"):
        OneStepRegressor(width=10).fit(x, np.column_stack([y, y]))


def test_without_scikit_learn_only_the_estimators_are_missing() -> None:
    program = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import firststep\n"
        "assert 'OneStepRegressor' in dir(firststep) and firststep.activation('tanh')(0.0) == 0\n"
        "try:\n    firststep.OneStepRegressor\nexcept ImportError as error:\n    print(error)\n"
        "try:\n    firststep.nonsense\nexcept AttributeError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    missing, nonsense = done.stdout.splitlines()
    assert "need scikit-learn" in missing
    assert "firststep[learn]" in missing
    assert nonsense == "module 'firststep' has no attribute 'nonsense'"
