"""Gradients of losses, error rates and alignments against differences of the NumPy numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from firststep import InvalidParameter, Problem, predict
from firststep.theory import loss_fixed_point
from tests.backends import jax, jnp, needs_jax

pytestmark = needs_jax

FIELDS = ("alpha", "beta", "alpha0", "step", "ridge", "noise")
NUMBERS = (
    "risk",
    "test_loss",
    "training_loss",
    "error_rate",
    "training_error_rate",
    "output_alignment",
)


def asked(**changes: Any) -> Problem:
    usual = {"student": "tanh", "teacher": "z", "readout": "ones", "alpha": 2, "beta": 1}
    usual |= {"alpha0": 4, "step": 1.5, "ridge": 0.03, "labels": "sign"}
    return Problem(**{**usual, **changes})


LOGISTIC = asked(loss="logistic", flip=0.1)
HUBER = asked(
    student="relu",
    readout="signs",
    teacher="tanh(z+0.5)",
    labels="real",
    noise=0.3,
    loss="huber:0.5",
    intercept=True,
    dimension=300,
)
RELU = {"student": "relu", "readout": "signs", "teacher": "tanh"}
REAL = {"labels": "real", "noise": 0.4, "teacher": "tanh"}
OTHERS = {
    "a step on the logistic loss, logit": asked(
        loss="logistic", labels="logit:3", step_loss="logistic", dimension=300
    ),
    "noise in the sign": asked(loss="logistic", noise=0.5),
    "logistic, constant": asked(**RELU, loss="logistic", threshold=0.3, intercept=True, flip=0.1),
    "logistic, Gaussian": asked(readout="gaussian", loss="logistic", flip=0.05),
    "logistic, Gaussian, d = 400": asked(
        student="relu", readout="gaussian", loss="logistic"
    ).replace(dimension=400),
    "small ridge": asked(loss="logistic", ridge=1e-4),
    "squared hinge": asked(**RELU, loss="squared-hinge", flip=0.1),
    "hinge": asked(loss="hinge", flip=0.1),
    "Huber, constant, d = 300": HUBER,
    "hinge, constant, d = 500": asked(
        loss="hinge", threshold=0.4, flip=0.1, intercept=True, dimension=500
    ),
    "Huber": asked(**REAL, loss="huber:0.5"),
    "quantile, constant": asked(**REAL, loss="quantile:0.7", intercept=True),
    "quantile, Gaussian, d = 300": asked(
        **REAL, loss="quantile:0.5", readout="gaussian", dimension=300
    ),
    "least squares": asked(readout="signs", loss="square"),
    "least squares, constant": asked(loss="square", threshold=-0.4, intercept=True),
    "small step": asked(student="relu", loss="logistic", step_exponent=0),
    "no step": asked(loss="logistic", step=0, dimension=200),
}


def gradients(problem: Problem, **options: Any) -> tuple[dict[str, float], dict[str, Any]]:
    """Numbers, and their derivatives by every field."""

    def numbers(values: dict[str, Any]) -> Any:
        found = predict(problem, **options, **values)
        kept = {name: getattr(found, name) for name in NUMBERS}
        return kept, kept

    values = {name: float(getattr(problem, name)) for name in FIELDS}
    with jax.enable_x64(True):
        slopes, found = jax.jacrev(numbers, has_aux=True)(values)
    return found, slopes


def difference(problem: Problem, name: str, **options: Any) -> dict[str, float]:
    """Derivatives by four points."""
    at = float(getattr(problem, name))
    h = 0.01 * at
    found = predict(problem, **options, **{name: at + h * np.array([-2, -1, 1, 2])})
    weights = np.array([1, -8, 8, -1]) / (12 * h)
    return {number: float(weights @ getattr(found, number)) for number in NUMBERS}


def check(problem: Problem, fields: tuple[str, ...] = FIELDS, **options: Any) -> None:
    found, slopes = gradients(problem, **options)
    plain = predict(problem, **options)
    for number in NUMBERS:
        assert float(found[number]) == pytest.approx(getattr(plain, number), rel=1e-8, nan_ok=True)
    for name in fields:
        at = float(getattr(problem, name))
        if at == 0:
            assert all(float(slopes[number][name]) == 0 for number in NUMBERS)
            continue
        expected = difference(problem, name, **options)
        for number in NUMBERS:
            value, mine = float(found[number]), float(slopes[number][name])
            if math.isnan(value):
                assert mine == 0
                continue
            small = 3e-6 * max(abs(value), 0.01) / at
            assert mine == pytest.approx(expected[number], rel=3e-5, abs=small), (name, number)


@pytest.mark.parametrize(
    ("problem", "fields"),
    [(LOGISTIC, FIELDS), pytest.param(HUBER, ("beta", "step", "noise"), marks=pytest.mark.slow)],
    ids=["logistic, infinite", "Huber, constant, d = 300"],
)
def test_gradients_are_those_of_the_numpy_numbers(
    problem: Problem, fields: tuple[str, ...]
) -> None:
    check(problem, fields)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_gradients_of_other_losses_labels_and_readouts(name: str) -> None:
    check(OTHERS[name])


@pytest.mark.slow
def test_gradients_of_the_spiked_model() -> None:
    check(LOGISTIC, bulk="isotropic")


@pytest.mark.slow
def test_huber_loss_beyond_all_labels_has_the_gradient_of_ridge_regression() -> None:
    """Which is solved and differentiated in another way."""
    problem = asked(**REAL, dimension=300)
    values = {name: float(getattr(problem, name)) for name in FIELDS}
    with jax.enable_x64(True):
        of_ridge, of_huber = (
            jax.grad(lambda v, problem=problem: predict(problem, **v).risk)(values)
            for problem in (problem, problem.replace(loss="huber:50"))
        )
    for name in FIELDS:
        assert float(of_huber[name]) == pytest.approx(float(of_ridge[name]), rel=1e-5), name


def test_arrays_are_their_points() -> None:
    alphas, ridges = np.array([[1.98], [2.0]]), np.array([0.03, 0.031])
    with jax.enable_x64(True):
        slopes = jax.jacrev(
            lambda ridge: predict(LOGISTIC, ridge=ridge, alpha=jnp.asarray(alphas)).error_rate
        )(jnp.asarray(ridges))
        one = jax.jvp(
            lambda ridge: predict(LOGISTIC, ridge=ridge, alpha=1.98).error_rate, (0.031,), (1.0,)
        )
        known = predict(LOGISTIC, ridge=jnp.asarray(ridges))
    assert slopes.shape == (2, 2, 2)
    assert np.all(np.asarray(slopes)[:, [0, 1], [1, 0]] == 0)
    assert float(slopes[0, 1, 1]) == pytest.approx(float(one[1]), rel=1e-6)
    plain = predict(LOGISTIC, ridge=ridges)
    assert np.asarray(known.error_rate) == pytest.approx(plain.error_rate, rel=1e-12)
    assert known.prediction.status.tolist() == ["converged", "converged"]
    assert not jax.config.jax_enable_x64  # the user's own setting is left alone


def test_no_solution_is_no_number_and_no_derivative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_fixed_point, "MOST_EVALUATIONS", 2)
    with jax.enable_x64(True):
        value, slope = jax.value_and_grad(
            lambda ridge: predict(LOGISTIC, ridge=ridge).error_rate.sum()
        )(jnp.array([0.03]))
    assert math.isnan(float(value))
    assert math.isnan(float(slope[0]))


@pytest.mark.parametrize("transform", ["jit", "vmap"])
def test_values_must_be_known(transform: str) -> None:
    at = 0.03 if transform == "jit" else np.array([0.03, 0.1])
    function = getattr(jax, transform)(lambda ridge: predict(LOGISTIC, ridge=ridge).risk)
    with (
        jax.enable_x64(True),
        pytest.raises(InvalidParameter, match="ridge must be known where it is used, with binary"),
    ):
        function(at)


def test_second_derivatives_are_refused() -> None:
    slope = jax.grad(lambda ridge: predict(LOGISTIC, ridge=ridge).risk)
    with (
        jax.enable_x64(True),
        pytest.raises(InvalidParameter, match="derivative must be a first one"),
    ):
        jax.grad(slope)(0.03)


def test_noise_laws_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="noise-law must be gaussian in arrays of JAX"):
        predict(HUBER.replace(noise_law="t:5"), ridge=jnp.array(0.1))
