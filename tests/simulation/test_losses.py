"""Simulations of other losses and labels, from the data to what is measured, by a second route."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression

import firststep
from firststep import InvalidParameter, NotEnoughMemory, Problem, first_layer, simulate
from firststep.losses import loss_of
from firststep.simulation.backends import make_backend
from firststep.simulation.data.rows import Data, Key, Replicate
from firststep.simulation.data.teachers import draw_teacher
from firststep.simulation.design import Training, make_design
from firststep.simulation.fit.convex import Fit, Question
from firststep.simulation.fit.geometry import geometry_of
from firststep.simulation.kinds import MODELS
from firststep.simulation.randomness import PURPOSES, HostDraws
from firststep.simulation.weights.draw import SpikedLaw, draw_weights
from tests.backends import BACKENDS, jax, jnp, needs_jax

D, TESTS = 24, 300


def problem(**changes: Any) -> Problem:
    base: dict[str, Any] = dict(
        student="tanh(z + 0.2)",
        teacher="sin(z) + 0.3*z",
        alpha=2.0,
        beta=1.3,
        alpha0=3.0,
        step=1.5,
        ridge=(0.02, 0.3),
        labels="sign",
        threshold=0.2,
        flip=0.1,
        loss="logistic",
    )
    return Problem(**{**base, **changes})


def design_of(asked: Problem, d: int = D) -> Any:
    return make_design(
        asked,
        model="random-features",
        training=Training(),
        sizes=asked.sizes(d),
        test_samples=TESTS,
        block=128,
    )


CASES = {
    "logistic": {},
    "constant": {"intercept": True, "labels": "logit:2.0", "noise": 0.0},
    "hinge": {"loss": "hinge", "noise": 0.3},
    "wide": {"alpha": 0.6, "loss": "squared-hinge", "intercept": True},
    "square": {"loss": "square"},
    "huber": {"loss": "huber:0.5", "labels": "real", "flip": 0, "threshold": 0, "noise": 0.4},
    "heavy": {
        **{"loss": "quantile:0.7", "labels": "real", "flip": 0, "threshold": 0, "noise": 0.4},
        **{"noise_law": "t:3", "intercept": True},
    },
    "mixture": {
        **{"loss": "square", "labels": "real", "flip": 0, "threshold": 0, "noise": 0.4},
        **{"noise_law": "mixture:0.3@0.8,2@0.2", "intercept": True},
    },
}


@pytest.mark.parametrize("backend_name", BACKENDS)
@pytest.mark.parametrize("case", CASES)
def test_one_replicate_by_hand(case: str, backend_name: str) -> None:
    """Random features: the same data, fitted and measured as plainly as possible."""
    asked = problem(**CASES[case])
    found = simulate(
        asked, D, 1, seed=4, model="random-features", test_samples=TESTS, backend=backend_name
    )
    design, backend = design_of(asked), make_backend(backend_name)
    sizes, theta, n = design.sizes, None, design.sizes.samples
    with backend.scope():
        draws = backend.draws(backend.key(4, 0))
        theta = np.asarray(draw_teacher(backend, draws, D))
        weights = np.asarray(draw_weights(backend, draws, design))
        x, tests = (
            np.asarray(draws.rows(f"{name} inputs", 0, count, D))
            for name, count in (("ridge", n), ("test", TESTS))
        )
        errors, later = (
            np.asarray(draws.vector(f"{name} noise", count))
            for name, count in (("ridge", n), ("test", TESTS))
        )
        chances, _ = (
            np.asarray(draws.uniform(f"{name} labels", count))
            for name, count in (("ridge", n), ("test", TESTS))
        )
        tested = np.asarray(draws.uniform("test labels", TESTS))
    s, s_test = (asked.teacher(each @ theta) for each in (x, tests))
    f_train, f_test = (asked.student(each @ weights) for each in (x, tests))
    assert f_train.shape == (n, sizes.width)
    up = None
    if asked.labels.is_binary:
        up = _chance(asked, s_test)
        y = np.where(chances < _chance(asked, s), 1.0, -1.0)
    else:
        y = s + asked.noise * _law(asked, errors, chances)
        y_test = s_test + asked.noise * _law(asked, later, tested)
    loss = loss_of(str(asked.loss))
    fit = Fit(Question(loss, y, asked.intercept), geometry_of(f_train))
    for place, (ridge, at) in enumerate(zip(asked.ridges, fit.path(asked.ridges), strict=True)):
        b = at.coordinates if n >= sizes.width else f_train.T @ at.coordinates
        f = f_test @ b + at.intercept
        mine = {"training_loss": loss.value(y, at.predicted).mean()}
        mine["training_error"] = ((y - at.predicted) ** 2).mean()
        u = tests @ theta
        mine["output_alignment"] = (f * u).mean() / math.sqrt((f**2).mean())
        if up is not None:
            mine["test_loss"] = (up * loss.value(1.0, f) + (1 - up) * loss.value(-1.0, f)).mean()
            mine["error_rate"] = (up * (f < 0) + (1 - up) * (f > 0)).mean()
            mine["training_error_rate"] = (y * at.predicted < 0).mean()
            mine["risk"] = ((2 * up - 1 - f) ** 2).mean()
        else:
            mine["risk"] = ((f - s_test) ** 2).mean()
            noise = asked.noise**2 * asked.noise_law.second_moment
            square = mine["risk"] + noise
            mine["test_loss"] = square if loss.name == "square" else loss.value(y_test, f).mean()
            assert "error_rate" not in found.measurements
        for name, value in mine.items():
            assert getattr(found, name).mean[place] == pytest.approx(value, rel=2e-4), name
        assert ridge > 0


def _chance(asked: Problem, s: np.ndarray) -> np.ndarray:
    above = s - asked.threshold
    if asked.labels.kind == "logit":
        sure = 1 / (1 + np.exp(-asked.labels.slope * above))
    else:
        sure = stats.norm.cdf(above / asked.noise) if asked.noise else 1.0 * (above > 0)
    return asked.flip + (1 - 2 * asked.flip) * sure


def _law(asked: Problem, normal: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    law = asked.noise_law
    if law.kind == "t":
        return stats.t.ppf(stats.norm.cdf(normal), law.freedom)
    if law.kind == "mixture":
        return np.where(uniform < law.weights[0], *law.scales) * normal
    return normal


def test_the_whole_network_against_scikit_learn() -> None:
    asked = problem(intercept=True, step_loss="logistic", ridge=0.05)
    found, layer = simulate(asked, D, 1, seed=2, test_samples=TESTS), first_layer(asked, D, 2)
    n, draws = asked.sizes(D).samples, HostDraws(2, 0)
    x, tests = (
        draws.rows(f"{name} inputs", 0, rows, D) for name, rows in (("ridge", n), ("test", TESTS))
    )
    chance = _chance(asked, asked.teacher(x @ layer.teacher))
    y = np.where(draws.uniform("ridge labels", n) < chance, 1.0, -1.0)
    model = LogisticRegression(C=1 / (2 * n * 0.05), solver="newton-cholesky", tol=1e-10)
    model.fit(asked.student(x @ layer.after), y)
    f, up = (
        model.decision_function(asked.student(tests @ layer.after)),
        _chance(asked, asked.teacher(tests @ layer.teacher)),
    )
    assert found.error_rate.mean == pytest.approx((up * (f < 0) + (1 - up) * (f > 0)).mean())
    loss = up * np.logaddexp(0, -f) + (1 - up) * np.logaddexp(0, f)
    assert found.test_loss.mean == pytest.approx(loss.mean(), rel=1e-5)


# The step -----------------------------------------------------------------------------------------


def _of_the_step(asked: Problem, seed: int) -> tuple[Any, np.ndarray, np.ndarray]:
    layer, draws = first_layer(asked, D, seed), HostDraws(seed, 0)
    n0 = asked.sizes(D).step_samples
    x = draws.rows("step inputs", 0, n0, D)
    chance = _chance(asked, asked.teacher(x @ layer.teacher))
    return layer, x, np.where(draws.uniform("step labels", n0) < chance, 1.0, -1.0)


def test_the_step_descends_the_loss_it_is_told() -> None:
    """W1 - W0 = -eta sqrt N d/dW (1/n0) sum log(1 + exp(-y f)), by differences."""
    asked = problem(step_loss="logistic", readout="ones")
    layer, x, y = _of_the_step(asked, 3)
    width = asked.sizes(D).width

    def loss(weights: np.ndarray) -> float:
        f = asked.student(x @ weights) @ layer.readout / width
        return float(np.logaddexp(0, -y * f).mean())

    rate = asked.learning_rate(width) * math.sqrt(width)
    for place in [(0, 0), (3, 5), (20, 11)]:
        nudge = np.zeros_like(layer.before)
        nudge[place] = 1e-4
        slope = (loss(layer.before + nudge) - loss(layer.before - nudge)) / 2e-4
        moved = layer.after[place] - layer.before[place]
        assert moved == pytest.approx(-rate * slope, rel=1e-6, abs=1e-9)


@needs_jax
def test_the_step_is_the_gradient_of_jax() -> None:
    asked = problem(step_loss="logistic", student="tanh(z + 0.2)")
    layer, x, y = _of_the_step(asked, 5)
    width = asked.sizes(D).width

    def loss(weights: Any) -> Any:
        f = jnp.tanh(x @ weights + 0.2) @ layer.readout / width
        return jnp.logaddexp(0, -y * f).mean()

    with jax.enable_x64(True):
        slope = np.asarray(jax.grad(loss)(jnp.asarray(layer.before)))
    rate = asked.learning_rate(width) * math.sqrt(width)
    assert layer.after - layer.before == pytest.approx(-rate * slope, rel=1e-8, abs=1e-12)


def test_an_odd_network_steps_half_as_far_on_the_logistic_loss() -> None:
    """At f = 0 the pull is y/2: with an output of order 1/sqrt N, nearly."""
    one, half = (
        problem(student="tanh", step_loss=loss, step=step, ridge=0.1)
        for loss, step in (("square", 1.0), ("logistic", 2.0))
    )
    moved = [(layer.after - layer.before) for layer in (first_layer(p, 400) for p in (one, half))]
    cosine = np.sum(moved[0] * moved[1]) / math.prod(np.linalg.norm(each) for each in moved)
    assert cosine > 0.995
    assert np.linalg.norm(moved[0]) == pytest.approx(np.linalg.norm(moved[1]), rel=0.02)


@pytest.mark.parametrize("loss", ["square", "logistic"])
@pytest.mark.parametrize("labels", ["sign", "logit:2"])
def test_the_spiked_model_has_the_moments_of_the_labels(labels: str, loss: str) -> None:
    asked = problem(student="relu", readout="ones", labels=labels, step_loss=loss, threshold=0.4)
    law = SpikedLaw.of(asked, asked.sizes(100))
    rng = np.random.default_rng(0)
    z = rng.standard_normal(2_000_000)
    y = np.where(rng.random(z.size) < _chance(asked, asked.teacher(z)), 1.0, -1.0)
    output = asked.student.moments.mean
    pull = y - output if loss == "square" else y / (1 + np.exp(y * output))
    linear, square = (pull * z).mean(), (pull**2).mean()
    norm = math.sqrt(linear**2 + square / asked.alpha0)
    assert law.gradient_norm == pytest.approx(norm, rel=3e-3)
    assert law.alignment == pytest.approx(linear / norm, rel=4e-3)


# Labels and noise ---------------------------------------------------------------------------------


@pytest.mark.parametrize("backend_name", BACKENDS)
@pytest.mark.parametrize(
    "changes", [{}, {"labels": "logit:3"}, {"noise": 0.5}, {"flip": 0.0, "threshold": 0.0}]
)
def test_labels_have_their_probabilities(changes: dict[str, Any], backend_name: str) -> None:
    asked = problem(alpha=2000, **changes)
    design, backend = design_of(asked, 10), make_backend(backend_name)
    with backend.scope():
        key, n = backend.key(1, 0), design.sizes.samples
        theta = draw_teacher(backend, backend.draws(key), 10)
        replicate = Replicate(Key(key), theta, backend.to_device(asked.noise))
        data = Data.of(design, backend, replicate)
        inputs, labels = data.labelled("ridge", 0, n, data.errors("ridge", n))
        signal, y = np.asarray(data.clean_labels(inputs)), np.asarray(labels)
    chance = _chance(asked, signal)
    assert set(np.unique(y)) == {-1.0, 1.0}
    assert abs(np.mean(y == 1) - chance.mean()) < 4 / math.sqrt(n)
    for weight in (signal, signal**2):
        difference = (weight * (y - (2 * chance - 1))).mean()
        assert abs(difference) < 4 * weight.std() / math.sqrt(n)


@pytest.mark.parametrize("backend_name", BACKENDS)
@pytest.mark.parametrize("text", ["t:4", "mixture:0.2@0.9,3@0.1"])
def test_noise_has_its_law(text: str, backend_name: str) -> None:
    asked = problem(
        loss="huber:1", labels="real", flip=0, threshold=0, noise=1, noise_law=text, alpha=4000
    )
    design, backend = design_of(asked, 10), make_backend(backend_name)
    with backend.scope():
        key, n = backend.key(1, 0), design.sizes.samples
        data = Data.of(design, backend, Replicate(Key(key), None, 1.0))
        eps = np.asarray(data.errors("ridge", n))
    points = np.array([-3, -1, -0.3, 0.1, 0.5, 2.0])
    law = asked.noise_law
    if law.kind == "t":
        below = stats.t.cdf(points, law.freedom)
    else:
        pairs = zip(law.weights, law.scales, strict=True)
        below = sum(weight * stats.norm.cdf(points / scale) for weight, scale in pairs)
    found = (eps[:, None] < points).mean(axis=0)
    assert np.all(np.abs(found - below) < 4 * np.sqrt(below * (1 - below) / n) + 1e-6)


def test_new_streams_come_last() -> None:
    assert [*PURPOSES][-4:] == ["step labels", "ridge labels", "test noise", "test labels"]
    assert PURPOSES["data rows"] == 17


# What is measured, and what is refused ------------------------------------------------------------


@pytest.mark.parametrize("model", [*MODELS])
def test_every_model_has_every_loss(model: str) -> None:
    for changes in ({}, {"loss": "hinge", "intercept": True}, {"loss": "square"}):
        asked = problem(ridge=0.2, **changes)
        found = simulate(asked, D, 2, model=model, test_samples=TESTS)
        assert 0 <= found.error_rate.mean <= 0.5
        assert found.training_error_rate.mean <= found.error_rate.mean + 0.05
        assert math.isfinite(found.test_loss.mean)
        assert found.training_loss.mean < found.test_loss.mean
        assert math.isnan(found.kernel_lower_bound)
        assert "error rate" in str(found)


def test_a_kernel_is_a_fit_on_its_own_features() -> None:
    """The inner-product kernel with g = z is linear regression without a constant on x/sqrt d."""
    asked = problem(ridge=0.3, loss="squared-hinge")
    found = simulate(asked, D, 1, model="inner-product-kernel", kernel="z", test_samples=TESTS)
    draws, n = HostDraws(0, 0), asked.sizes(D).samples
    x, theta = draws.rows("ridge inputs", 0, n, D), draws.vector("teacher", D)
    chance = _chance(asked, asked.teacher(x @ theta / np.linalg.norm(theta)))
    y = np.where(draws.uniform("ridge labels", n) < chance, 1.0, -1.0)
    fit = Fit(Question(asked.loss, y, False), geometry_of(x / math.sqrt(D)))
    (at,) = fit.path((0.3 / n,))
    expected = asked.loss.value(y, at.predicted).mean()
    assert found.training_loss.mean == pytest.approx(expected, rel=1e-6)


def test_plain_problems_measure_what_they_did() -> None:
    plain = problem(loss="square", labels="real", flip=0, threshold=0)
    assert plain.is_plain
    found = simulate(plain, D, 1, test_samples=TESTS)
    assert not {"test_loss", "training_loss", "error_rate"} & set(found.measurements)


def test_an_output_of_exactly_zero_is_half_an_error() -> None:
    """Weights of zero are dead: the network says nothing."""
    asked = problem(student="relu", ridge=0.1)
    nothing, theta = np.zeros((D, asked.sizes(D).width)), np.eye(D)[0]
    found = firststep.simulate_features(nothing, asked, theta, replicates=2, test_samples=TESTS)
    assert found.error_rate.mean == found.training_error_rate.mean == 0.5


def test_blocks_and_workers_do_not_matter() -> None:
    asked = problem(intercept=True)
    one = simulate(asked, 60, 2, test_samples=TESTS, block=128)
    two = simulate(asked, 60, 2, test_samples=TESTS, workers=2)
    for name in ("test_loss", "error_rate", "training_loss"):
        assert getattr(one, name).values == pytest.approx(getattr(two, name).values, rel=1e-9)


def test_memory_counts_the_features() -> None:
    with pytest.raises(NotEnoughMemory, match="fit in memory"):
        simulate(problem(ridge=0.1, alpha=400.0, beta=2.0, alpha0=1e-3), 20_000, 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": "huber:1"},
        {"labels": "sign"},
        {"intercept": True},
        {"noise_law": "t:3", "noise": 0.1},
    ],
)
def test_the_theory_refuses_what_it_does_not_know(changes: dict[str, Any]) -> None:
    asked = Problem(student="tanh", teacher="tanh", alpha=2, beta=1, **changes)
    name = next(iter(changes)).replace("_", "-")
    asks = [
        lambda: firststep.spectral_law(asked),
        lambda: firststep.small_step(asked.replace(step_exponent=0)),
        lambda: firststep.spectrum(asked, "weights", 20),
    ]
    if name == "noise-law":
        asks += [
            lambda: firststep.predict(asked),
            lambda: firststep.optimal(asked),
            lambda: firststep.compare(asked.replace(noise_law="t:2.5"), 20),
        ]
    for ask in asks:
        with pytest.raises(InvalidParameter, match=f"{name} must be ") as caught:
            ask()
        assert "\n" not in str(caught.value)


def test_a_row_of_a_published_table() -> None:
    """A given layer of d = 400: means over 480 data sets 0.14800 ± 0.00053, 0.34384 ± 0.00047,
    0.15358 ± 0.00020 and 0.86148 ± 0.00034.
    """
    asked = Problem(
        student="tanh", teacher="sign", readout="ones", alpha=2, beta=1, alpha0=4, step=2
    )
    layer = first_layer(asked, 400, 1)
    classified = asked.replace(loss="logistic", labels="sign", ridge=0.01)
    found = firststep.simulate_features(
        layer.after, classified, layer.teacher, replicates=8, test_samples=8000, workers=1
    )
    for name, value, error in (
        ("training_loss", 0.14800, 0.00053),
        ("test_loss", 0.34384, 0.00047),
        ("error_rate", 0.15358, 0.00020),
        ("output_alignment", 0.86148, 0.00034),
    ):
        scatter = 4 * error * math.sqrt(480 / 8)  # as there, with 8 data sets
        assert abs(getattr(found, name).mean - value) < scatter, name
