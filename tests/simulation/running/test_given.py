"""Ridge regression on a first layer that is given."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from firststep import (
    InvalidParameter,
    NotEnoughMemory,
    Problem,
    Simulation,
    first_layer,
    simulate,
    simulate_features,
)
from firststep.simulation.backends import NumpyBackend
from firststep.simulation.randomness import HostDraws
from tests.backends import BACKENDS

D, TESTS = 30, 400


@pytest.mark.parametrize("alpha", [2.5, 0.6])
@pytest.mark.parametrize(
    "options",
    [
        dict(),
        dict(steps=2, optimizer="adam"),
        dict(inputs="student-t:6"),
        dict(teacher_terms="relu,tanh", inputs="mixture:2"),
    ],
    ids=str,
)
def test_a_replicate_of_simulate_is_found_again(
    options: dict[str, object], alpha: float, generic: Problem
) -> None:
    problem = generic.replace(alpha=alpha, ridge=(0.05, 1.0))
    whole = simulate(problem, D, 3, seed=7, test_samples=TESTS, **options)
    data = {name: options[name] for name in ("inputs", "teacher_terms") if name in options}
    for number in range(3):
        layer = first_layer(problem, D, 7, number, **options)
        teacher = layer.directions if "teacher_terms" in options else layer.teacher
        found = simulate_features(
            layer.after,
            problem,
            teacher,
            replicates=1,
            seed=7,
            first_replicate=number,
            test_samples=TESTS,
            **data,
        )
        assert np.array_equal(found.risk.values[0], whole.risk.values[number])
        assert np.array_equal(found.training_error.values[0], whole.training_error.values[number])


@pytest.mark.parametrize("backend", BACKENDS)
def test_bias_and_covariance_against_plain_ridge(backend: str, generic: Problem) -> None:
    rng = np.random.default_rng(0)
    width = generic.sizes(D).width
    weights, bias = rng.standard_normal((D, width)) / math.sqrt(D), rng.standard_normal(width)
    factor = rng.standard_normal((D, D)) / math.sqrt(D)
    covariance = factor @ factor.T + 0.3 * np.eye(D)
    theta = np.eye(D)[0]
    options = dict(bias=bias, covariance=covariance, test_samples=TESTS, seed=3, replicates=1)
    found = simulate_features(weights, generic, theta, backend=backend, **options)
    if backend == "jax":  # other random numbers
        plain = simulate_features(weights, generic, theta, **{**options, "replicates": 20})
        other = simulate_features(
            weights, generic, theta, **{**options, "replicates": 20}, backend="jax"
        )
        error = math.hypot(plain.risk.standard_error, other.risk.standard_error)
        assert abs(plain.risk.mean - other.risk.mean) < 4 * error
        return
    values, vectors = np.linalg.eigh(covariance)
    root = vectors @ np.diag(np.sqrt(values)) @ vectors.T
    draws, n = HostDraws(3, 0), generic.sizes(D).samples
    x, x_test = (
        draws.rows("ridge inputs", 0, n, D) @ root,
        draws.rows("test inputs", 0, TESTS, D) @ root,
    )
    y = generic.teacher(x[:, 0]) + generic.noise * draws.vector("ridge noise", n)
    phi, phi_test = generic.student(x @ weights + bias), generic.student(x_test @ weights + bias)
    b = np.linalg.solve(phi.T @ phi / n + generic.ridge * np.eye(width), phi.T @ y / n)
    assert found.risk.values[0] == pytest.approx(
        np.mean((phi_test @ b - generic.teacher(x_test[:, 0])) ** 2), rel=1e-9
    )
    assert found.training_error.values[0] == pytest.approx(np.mean((phi @ b - y) ** 2), rel=1e-8)
    without = simulate_features(weights, generic, theta, **{**options, "bias": None})
    assert without.risk.values[0] != found.risk.values[0]


def test_a_covariance_of_one_is_none(generic: Problem) -> None:
    layer = first_layer(generic, D)
    left = simulate_features(layer.after, generic, layer.teacher, replicates=2, test_samples=TESTS)
    right = simulate_features(
        layer.after, generic, layer.teacher, replicates=2, test_samples=TESTS, covariance=np.eye(D)
    )
    assert left.risk.values == pytest.approx(right.risk.values, rel=1e-9)
    assert math.isfinite(left.kernel_lower_bound)
    assert math.isnan(right.kernel_lower_bound)
    assert right.options["inputs"] == "covariance"


def test_only_the_data_are_drawn_again(generic: Problem) -> None:
    """The scatter over data alone is smaller than over networks and data; workers and blocks do not
    matter.
    """
    layer = first_layer(generic, D, 1)
    options = dict(replicates=4, test_samples=TESTS, seed=1)
    found = simulate_features(layer.after, generic, layer.teacher, workers=1, **options)
    assert isinstance(found, Simulation)
    assert found.model == "features"
    assert len(set(found.risk.values)) == 4
    assert np.array_equal(
        found.risk.values,
        simulate_features(layer.after, generic, layer.teacher, workers=2, **options).risk.values,
    )
    assert found.risk.values == pytest.approx(
        simulate_features(layer.after, generic, layer.teacher, block=128, **options).risk.values,
        rel=1e-9,
    )
    assert "features: " in str(found)
    assert "alignment" not in str(found)
    assert found.to_dict()["options"]["bias"] is False
    assert np.array_equal(pickle.loads(pickle.dumps(found)).risk.values, found.risk.values)
    listed = simulate_features(layer.after.tolist(), generic, layer.teacher.tolist(), **options)
    assert np.array_equal(listed.risk.values, found.risk.values)


def test_data_of_a_table(generic: Problem) -> None:
    rows = np.random.default_rng(0).standard_normal((900, D))
    whole = simulate(generic, None, 1, seed=2, inputs=rows, test_samples=TESTS)
    layer = first_layer(generic, seed=2, inputs=rows, test_samples=TESTS)
    found = simulate_features(
        layer.after, generic, layer.teacher, replicates=1, seed=2, inputs=rows, test_samples=TESTS
    )
    assert np.array_equal(found.risk.values, whole.risk.values)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            dict(weights=np.ones((D, 40))),
            r"beta must be N/d = 40/30 for these weights; got 1\.5 \(problem\.replace",
        ),
        (
            dict(weights=np.ones(D)),
            r"weights must be a matrix of numbers; got an array of shape \(30,\)",
        ),
        (dict(weights="none"), "weights must be a matrix of numbers; got none"),
        (dict(weights=np.full((D, 45), np.nan)), "got an array with 1350 that are not finite"),
        (
            dict(teacher=np.ones(D)),
            r"teacher must be a direction of norm 1; got one of norm 5\.47723",
        ),
        (dict(teacher=np.eye(D)[:, :2]), "teacher must be a vector of numbers"),
        (dict(teacher=np.eye(D + 1)[0]), r"teacher must be .* got an array of shape \(31,\)"),
        (
            dict(teacher=np.eye(D)[:, :2], teacher_terms="relu,relu"),
            "teacher must be of 30 numbers, one an input, and 3 columns, one a term",
        ),
        (dict(teacher=np.ones((D, 2)), teacher_terms="relu"), r"one of norm 5\.47723"),
        (dict(bias=np.zeros(44)), "bias must be 45 numbers, one for every neuron; got 44"),
        (dict(bias=np.zeros((45, 1))), "bias must be"),
        (
            dict(covariance=np.eye(D), inputs="uniform"),
            "inputs must be gaussian where a covariance is given; got uniform",
        ),
        (
            dict(covariance=np.eye(D - 1)),
            r"covariance must be a 30 x 30 matrix; got an array of shape \(29, 29\)",
        ),
        (dict(covariance=-np.eye(D)), "covariance must be a positive semi-definite matrix"),
        (dict(covariance=np.triu(np.ones((D, D)))), "got a matrix that is not symmetric"),
        (dict(covariance=np.full((D, D), np.inf)), "got not finite"),
        (dict(covariance=np.ones(D)), r"got an array of shape \(30,\)"),
        (
            dict(problem=Problem(student="tanh", teacher="sin", alpha=1, beta=1.5, dimension=31)),
            "dimension must be 30",
        ),
        (dict(problem="tanh"), "problem must be a Problem"),
        (dict(replicates=0), "replicates must be"),
        (dict(test_samples=1), "test-samples must be"),
        (dict(inputs=np.ones((5, 3))), "inputs must be"),
    ],
    ids=str,
)
def test_nonsense(changes: dict[str, object], words: str, generic: Problem) -> None:
    layer = first_layer(generic, D)
    given = {"weights": layer.after, "problem": generic, "teacher": layer.teacher, **changes}
    with pytest.raises(InvalidParameter, match=words):
        simulate_features(given.pop("weights"), given.pop("problem"), given.pop("teacher"), **given)


def test_too_large_is_said_before_starting(
    monkeypatch: pytest.MonkeyPatch, generic: Problem
) -> None:
    layer = first_layer(generic, D)
    monkeypatch.setattr(NumpyBackend, "memory_limit", lambda self: 10**5)
    with pytest.raises(NotEnoughMemory, match=r"features needs .* GB and 0\.0001 GB is free"):
        simulate_features(layer.after, generic, layer.teacher, replicates=1)
