"""Optimisers, first layers and training paths against plain NumPy and against formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from firststep import (
    InvalidParameter,
    NotConverged,
    Problem,
    first_layer,
    input_law,
    simulate,
    training_path,
)
from firststep.simulation.backends import block_rows, make_backend
from firststep.simulation.design import Training, make_design
from firststep.simulation.randomness import HostDraws
from tests.backends import needs_jax
from tests.memory import bytes_used, needs_proc
from tests.simulation import naive

D, TESTS = 30, 400


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
@pytest.mark.parametrize(
    "options",
    [dict(), dict(steps=4), dict(steps=3, batches="same"), dict(steps=2, parameterization="ntk")],
    ids=str,
)
def test_optimizers_agree_with_the_plain_version(
    optimizer: str, options: dict[str, object], generic: Problem
) -> None:
    problem = (
        generic.replace(step_exponent=0.0) if options.get("parameterization") == "ntk" else generic
    )
    found = simulate(problem, D, 1, seed=3, test_samples=TESTS, optimizer=optimizer, **options)
    plain = naive.network(problem, D, 3, 0, TESTS, optimizer=optimizer, **options)
    assert found.risk.values[0] == pytest.approx(plain["risk"][0], rel=1e-8)
    assert found.training_error.values[0] == pytest.approx(plain["training"][0], rel=1e-7)
    assert found.options["optimizer"] == optimizer
    layer = first_layer(problem, D, 3, 0, optimizer=optimizer, **options)
    assert np.abs(layer.after - plain["w"]).max() < 1e-11
    singular = np.linalg.svd(plain["w"] - plain["w0"], compute_uv=False)
    assert found.singular_values_update.values[0] == pytest.approx(singular[:2], rel=5e-3)


def test_the_first_step_of_adam_is_a_sign(generic: Problem) -> None:
    """W1 - W0 = (step/sqrt d) G/(|G| + 1e-8), entry by entry; G from the step of the gradient."""
    d = 200
    layer = first_layer(generic, d, optimizer="adam")
    gradient = first_layer(generic, d)
    g = (gradient.after - gradient.before) / generic.learning_rate(generic.sizes(d).width)
    expected = generic.step / math.sqrt(d) * g / (np.abs(g) + 1e-8)
    assert np.abs(layer.after - layer.before - expected).max() < 1e-9
    assert np.mean(np.abs(expected * math.sqrt(d) / generic.step) > 0.999) > 0.95
    found = simulate(generic, d, 2, optimizer="adam", test_samples=100)
    assert np.isnan(found.rank_one_error.mean)
    plain = simulate(generic, d, 2, test_samples=100)
    assert np.array_equal(found.gradient_norm.values, plain.gradient_norm.values)
    assert np.array_equal(found.alignment.values, plain.alignment.values)


def test_the_first_step_with_momentum_is_that_of_the_gradient(generic: Problem) -> None:
    left, right = (
        simulate(generic, D, 2, optimizer=name, test_samples=100)
        for name in ("gradient", "momentum")
    )
    for name in left.measurements:
        if name != "replicate_seconds":
            assert np.array_equal(
                left.measurements[name], right.measurements[name], equal_nan=True
            ), name


def test_momentum_on_a_quadratic_loss(generic: Problem) -> None:
    """Identity student, one batch: G(W) is affine in W, so the heavy ball has the closed recursion
    W_{t+1} = W_t + eta G(W_t) +
    0.9 (W_t - W_{t-1}); G is taken from steps of the gradient alone."""
    problem = generic.replace(student="identity")
    options = dict(batches="same", dimension=D, seed=2)
    ball = [
        layer.after for layer in training_path(problem, steps=4, optimizer="momentum", **options)
    ]
    plain = [layer.after for layer in training_path(problem, steps=2, **options)]
    x, y, at = _step_data(problem, 2)
    a = at / math.sqrt(problem.sizes(D).width)
    eta = problem.learning_rate(problem.sizes(D).width)

    def gradient(w):  # type: ignore[no-untyped-def]
        return x.T @ np.outer(y - x @ w @ a / math.sqrt(len(a)), a) / len(x)

    assert plain[1] == pytest.approx(plain[0] + eta * gradient(plain[0]), rel=1e-10)
    for t in range(1, 4):
        assert ball[t + 1] == pytest.approx(
            ball[t] + eta * gradient(ball[t]) + 0.9 * (ball[t] - ball[t - 1]), rel=1e-9
        )


def _step_data(problem: Problem, seed: int):  # type: ignore[no-untyped-def]
    draws = HostDraws(seed, 0)
    x, y = naive.data(
        problem, draws, D, problem.sizes(D).step_samples, "step", naive.directions(draws, D, 0)
    )
    return x, y, naive.network(problem, D, seed, 0, 10)["at"]


@pytest.mark.parametrize("optimizer", ["gradient", "momentum", "adam"])
def test_single_precision(optimizer: str, generic: Problem) -> None:
    options = dict(steps=3, optimizer=optimizer, test_samples=TESTS)
    problem = generic.replace(student="tanh", ridge=1.0)
    double, single = (
        simulate(problem, D, 1, dtype=name, **options) for name in ("float64", "float32")
    )
    assert single.risk.values == pytest.approx(double.risk.values, rel=2e-2)


@needs_jax
@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_backends_agree_within_error_bars(optimizer: str, generic: Problem) -> None:
    options = dict(steps=3, optimizer=optimizer, test_samples=TESTS)
    problem = generic.replace(student="tanh", ridge=1.0)
    left, right = (
        simulate(problem, D, 12, backend=name, **options).risk for name in ("numpy", "jax")
    )
    assert abs(left.mean - right.mean) < 4 * math.hypot(left.standard_error, right.standard_error)


# Layers and paths ---------------------------------------------------------------------------------

OPTIONS = dict(
    batches="same",
    optimizer="adam",
    inputs="student-t:6",
    teacher_terms="relu",
    parameterization="mean-field",
)


def test_a_path_ends_where_the_layers_are(generic: Problem) -> None:
    path = list(training_path(generic, D, 4, 1, steps=3, **OPTIONS))
    assert len(path) == 4
    assert np.array_equal(path[0].after, path[0].before)
    for steps in (1, 2, 3):
        layer = first_layer(generic, D, 4, 1, steps=steps, **OPTIONS)
        for name in ("before", "after", "readout", "teacher", "directions"):
            assert np.array_equal(getattr(layer, name), getattr(path[steps], name)), name
    assert path[3].directions.shape == (D, 2)
    assert np.array_equal(path[3].teacher, path[3].directions[:, 0])


def test_layers_are_those_of_the_simulation(generic: Problem) -> None:
    plain = naive.network(
        generic, D, 4, 1, TESTS, steps=2, inputs="uniform", teacher_terms=("relu", "tanh")
    )
    layer = first_layer(generic, D, 4, 1, steps=2, inputs="uniform", teacher_terms="relu,tanh")
    assert layer.after == pytest.approx(plain["w"], rel=1e-10, abs=1e-12)
    assert layer.directions == pytest.approx(plain["theta"], abs=1e-12)
    assert np.array_equal(layer.readout, plain["at"])


def test_a_path_without_a_step_stays(generic: Problem) -> None:
    path = list(training_path(generic.replace(step=0), D, steps=2))
    assert [np.array_equal(layer.after, layer.before) for layer in path] == [True, True, True]


def test_a_path_leaves_the_threads_alone(generic: Problem) -> None:
    before = [pool["num_threads"] for pool in threadpool_info()]
    path = training_path(generic, D, steps=2)
    next(path)
    assert [pool["num_threads"] for pool in threadpool_info()] == before


def test_data_of_a_layer_are_those_of_the_simulation(generic: Problem) -> None:
    rows = np.random.default_rng(0).standard_normal((900, D))
    layer = first_layer(generic, seed=5, steps=2, inputs=rows, test_samples=TESTS)
    plain = naive.network(generic, D, 5, 0, TESTS, steps=2, table=rows)
    assert layer.after == pytest.approx(plain["w"], rel=1e-10, abs=1e-12)


def test_what_overflows_is_refused(generic: Problem) -> None:
    with pytest.raises(NotConverged, match="overflow"):
        list(training_path(generic.replace(step=1e300), D, steps=2))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(optimizer="sgd"), "optimizer must be one of gradient, momentum, adam"),
        (dict(steps=0), "steps must be"),
        (dict(inputs="cauchy"), "inputs must be"),
        (dict(teacher_terms="reluu"), "teacher-terms must be .*did you mean relu"),
        (dict(replicate=-1), "replicate must be"),
        (dict(seed=-1), "seed must be"),
    ],
    ids=str,
)
def test_nonsense_is_said_at_once(options: dict[str, object], words: str, generic: Problem) -> None:
    with pytest.raises(InvalidParameter, match=words):
        training_path(generic, D, **{"steps": 1, **options})  # not only when the path is walked
    with pytest.raises(InvalidParameter, match=words):
        first_layer(generic, D, **options)


def test_optimizers_are_for_models_that_are_trained(generic: Problem) -> None:
    for model in ("spiked", "linear", "random-features"):
        with pytest.raises(InvalidParameter, match="with these training options"):
            simulate(generic, D, 1, model=model, optimizer="adam")


MEASURED = dict(student="tanh", teacher="sin", alpha=1.0, alpha0=1.0, beta=1.0, ridge=0.1)
MEASURED_DIMENSION = 1000
KINDS = [("momentum", "gaussian"), ("adam", "gaussian"), ("gradient", "student-t:5")]


@pytest.fixture(scope="module")
def used() -> dict[tuple[str, str], int]:
    cases = [dict(steps=2, optimizer=optimizer, inputs=inputs) for optimizer, inputs in KINDS]
    return dict(zip(KINDS, bytes_used(MEASURED, MEASURED_DIMENSION, cases), strict=True))


@needs_proc
@pytest.mark.parametrize(("optimizer", "inputs"), KINDS)
def test_memory_is_estimated_from_above(
    optimizer: str, inputs: str, used: dict[tuple[str, str], int]
) -> None:
    problem, d = Problem(**MEASURED), MEASURED_DIMENSION
    sizes = problem.sizes(d)
    block = block_rows(sizes.width, d, make_backend())
    training = Training(steps=2, optimizer=optimizer)
    design = make_design(problem, "network", training, sizes, 4 * d, block, None, input_law(inputs))
    peak = used[optimizer, inputs]
    assert 0.9 * peak < design.memory(8) < 3 * peak
