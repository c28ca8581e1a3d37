"""Given layers with other losses: a table of verified numbers, the square loss, identities."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import pytest

from firststep import Problem, first_layer, predict_features, simulate_features
from firststep.errors import InvalidParameter

# Student, readout, alpha, beta, alpha0, step, seed, teacher of the step.
LAYERS = {
    "L1": ("tanh", "ones", 2, 1, 4, 2, 1, "sign"),
    "L2": ("relu", "gaussian", 3, 1, 3, 1.5, 2, "sign"),
    "L3": ("erf", "ones", 4, 0.8, 8, 3, 3, "sign"),
    "L4": ("tanh", "gaussian", 2, 1.2, 4, 2, 4, "sign"),
    "L5": ("relu", "ones", 3, 1, 2, 1, 5, "sign"),
    "L6": ("relu", "gaussian", 3, 1, 3, 1.5, 6, "tanh"),
    "L7": ("erf", "ones", 2.5, 1, 5, 2, 7, "erf"),
    "L9": ("relu", "ones", 4, 1.2, 4, 3, 9, "sign"),
}
SIGN = {"labels": "sign"}
FLIPS = {"labels": "sign", "flip": 0.1}
LOGIT = {"labels": "logit:3", "teacher": "z"}
ABOVE = {"labels": "sign", "teacher": "z", "threshold": 0.6, "intercept": True}
# Layer, loss, labels, ridge; training loss, test loss, 0-1 error, alignment. Each was within three
# standard errors of 480 simulated fits.
TABLE = [
    ("L1", "logistic", SIGN, 1, (0.37307, 0.38381, 0.17375, 0.84014)),
    ("L1", "logistic", SIGN, 0.01, (0.14781, 0.34379, 0.15359, 0.86070)),
    ("L1", "logistic", SIGN, 1e-6, (0.0001861, 1.6190, 0.17650, 0.80168)),
    ("L1", "square", SIGN, 0.01, (0.16063, 0.6031, 0.18499, 0.77109)),
    ("L1", "squared-hinge", SIGN, 1e-5, (9.17e-8, 1.1317, 0.18151, 0.79020)),
    ("L1", "hinge", SIGN, 0.01, (0.03797, 0.41011, 0.16978, 0.81927)),
    ("L2", "logistic", FLIPS, 0.01, (0.34289, 0.58051, 0.27037, 0.78117)),
    ("L2", "squared-hinge", FLIPS, 0.1, (0.4347, 0.79866, 0.27248, 0.77643)),
    ("L3", "logistic", LOGIT, 1, (0.44174, 0.44701, 0.208669, 0.87693)),
    ("L3", "hinge", LOGIT, 0.3, (0.41696, 0.466, 0.204694, 0.88198)),
    ("L4", "logistic", ABOVE, 0.1, (0.23224, 0.29356, 0.13146, 0.66874)),
    ("L4", "squared-hinge", ABOVE, 0.1, (0.10466, 0.37697, 0.12900, 0.70058)),
    ("L5", "logistic", ABOVE, 0.01, (0.20136, 0.35406, 0.15798, 0.64973)),
    ("L9", "square", {**SIGN, "intercept": True}, 0.03, (0.37058, 0.68546, 0.20645, 0.75132)),
]


@lru_cache
def layer(name):
    student, readout, alpha, beta, alpha0, step, seed, teacher = LAYERS[name]
    problem = Problem(
        student=student,
        teacher=teacher,
        readout=readout,
        alpha=alpha,
        beta=beta,
        alpha0=alpha0,
        step=step,
    )
    return problem, first_layer(problem, 400, seed)


def predicted(name, **changes):
    problem, made = layer(name)
    asked = problem.replace(**changes)
    return predict_features(made.after, asked, made.teacher, initial=made.before, directions=1)


@pytest.mark.parametrize(
    ("name", "loss", "labels", "ridge", "expected"),
    TABLE,
    ids=[f"{name}-{loss}-{ridge}" for name, loss, _, ridge, _ in TABLE],
)
def test_verified_numbers(name, loss, labels, ridge, expected) -> None:
    found = predicted(name, loss=loss, ridge=ridge, **labels)
    numbers = (found.training_loss, found.test_loss, found.error_rate, found.output_alignment)
    np.testing.assert_allclose(numbers, expected, rtol=3e-4)
    assert found.training_error_rate <= found.error_rate
    assert 0 < found.degrees_of_freedom < 1


STUDENT = {"noise": 0.3, "noise_law": "t:3"}
MIXTURE = {"noise": 1.0, "noise_law": "mixture:0.2@0.9,3@0.1"}
# Layer, loss, noise, ridge; training loss, test loss, risk, alignment.
REGRESSION = [
    ("L6", "huber:0.5", STUDENT, 0.1, (0.18190, 0.25952, 0.12378, 0.86329)),
    ("L6", "square", STUDENT, 0.1, (0.2509, 0.4180, 0.1480, 0.83419)),
    (
        "L6",
        "quantile:0.8",
        {**STUDENT, "intercept": True},
        0.1,
        (0.1231, 0.16572, 0.26597, 0.70849),
    ),
    ("L7", "huber:1.0", MIXTURE, 1, (0.4587, 0.49359, 0.075717, 0.92063)),
    ("L7", "quantile:0.5", MIXTURE, 0.1, (0.19517, 0.24208, 0.07708, 0.91564)),
]
MORE_REGRESSION = [
    ("L6", "huber:0.5", STUDENT, 0.01, (0.16719, 0.29619, 0.18195, 0.80585)),
    ("L7", "huber:1.0", MIXTURE, 0.01, (0.3747, 0.6056, 0.1995, 0.80890)),
    ("L7", "huber:0.3", MIXTURE, 1, (0.20776, 0.21948, 0.077411, 0.91923)),
    ("L7", "huber:0.3", MIXTURE, 0.01, (0.16505, 0.23726, 0.11047, 0.88098)),
]


def _agrees(name, loss, noise, ridge, expected) -> None:
    found = predicted(name, loss=loss, ridge=ridge, **noise)
    numbers = (found.training_loss, found.test_loss, found.risk, found.output_alignment)
    np.testing.assert_allclose(numbers, expected, rtol=5e-4)
    assert math.isnan(found.error_rate)


@pytest.mark.parametrize(("name", "loss", "noise", "ridge", "expected"), REGRESSION)
def test_verified_numbers_of_regression(name, loss, noise, ridge, expected) -> None:
    """With noise of heavy tails, which is a mixture of Gaussians to the channel."""
    _agrees(name, loss, noise, ridge, expected)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "loss", "noise", "ridge", "expected"), MORE_REGRESSION)
def test_more_verified_numbers_of_regression(name, loss, noise, ridge, expected) -> None:
    _agrees(name, loss, noise, ridge, expected)


@pytest.mark.slow
def test_three_directions() -> None:
    """Three steps on fresh batches; 24 simulated fits have 0.7630 ± 0.0032 and 1.377 ± 0.013."""
    problem = Problem(
        student="relu", teacher="z**2-1", readout="gaussian", alpha=3, beta=1, alpha0=4, step=2
    )
    made = first_layer(problem, 400, 1, steps=3)
    asked = problem.replace(loss="huber:0.5", ridge=(0.1, 0.01), **MIXTURE)
    found = predict_features(made.after, asked, made.teacher, initial=made.before)
    assert found.directions.count == 3
    np.testing.assert_allclose(found.test_loss, (0.7606, 0.8522), rtol=3e-4)
    np.testing.assert_allclose(found.risk, (1.377, 1.524), rtol=5e-4)


def test_a_covariance_with_a_loss_is_a_change_of_coordinates() -> None:
    """A scale of the coordinates of the inputs, taken out of the weights."""
    problem, made = layer("L4")
    scales = np.linspace(0.7, 1.3, 400)
    asked = problem.replace(loss="logistic", ridge=0.1, **ABOVE)
    same = predict_features(made.after, asked, made.teacher, directions=1)
    moved = made.teacher / scales
    size = np.linalg.norm(moved)
    found = predict_features(
        made.after / scales[:, None] / size,
        asked.replace(teacher="z"),
        moved / size,
        covariance=np.diag(scales * scales) * size**2,
        directions=1,
    )
    for name in ("test_loss", "training_loss", "error_rate", "output_alignment"):
        assert getattr(found, name) == pytest.approx(getattr(same, name), rel=1e-7), name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("L1", {"loss": "logistic", "labels": "sign", "flip": 0.05, "teacher": "z"}),
        ("L4", {"loss": "squared-hinge", "ridge": 0.1, **ABOVE}),
        ("L6", {"loss": "huber:0.5", "intercept": True, "noise": 0.5, "noise_law": "t:3"}),
        ("L3", {"loss": "square", "intercept": True, **LOGIT}),
    ],
)
def test_a_covariance_against_simulated_fits(name, asked) -> None:
    problem, made = layer(name)
    problem = problem.replace(**{"ridge": 0.05, **asked})
    q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((400, 400)))
    spread = np.exp(0.5 * np.random.default_rng(1).standard_normal(400))
    covariance = (q * (spread / spread.mean())) @ q.T
    found = predict_features(
        made.after, problem, made.teacher, initial=made.before, covariance=covariance
    )
    drawn = simulate_features(
        made.after, problem, made.teacher, covariance=covariance, replicates=60, seed=7
    )
    binary = problem.labels.is_binary
    for quantity in ("test_loss", "training_loss", "output_alignment", *(["error_rate"] * binary)):
        gap = getattr(found, quantity) - getattr(drawn, quantity).mean
        assert abs(gap) < 3.5 * getattr(drawn, quantity).standard_error, quantity


@pytest.mark.parametrize("name", ["L4", "L6"])
def test_huber_loss_beyond_all_labels_is_the_square_loss(name) -> None:
    real = {"labels": "real", "teacher": "tanh", "noise": 0.3, "ridge": 0.1}
    square, huber = predicted(name, **real), predicted(name, loss="huber:50", **real)
    assert huber.risk == pytest.approx(square.risk, rel=2e-5)
    assert huber.training_loss == pytest.approx(square.training_error, rel=2e-5)
    assert square.test_loss == pytest.approx(square.risk + 0.09, rel=1e-5)
    assert huber.degrees_of_freedom == pytest.approx(square.degrees_of_freedom, rel=2e-5)


def test_large_ridges_make_all_losses_one() -> None:
    """Only dl/df at 0 counts: square, squared hinge, hinge at half and logistic at a quarter."""
    asked = {"square": 1, "squared-hinge": 1, "hinge": 0.5, "logistic": 0.25}
    rates = [
        predicted("L1", loss=loss, ridge=1e4 * by, labels="sign").error_rate
        for loss, by in asked.items()
    ]
    np.testing.assert_allclose(rates, 0.177155, atol=1e-5)


def test_a_threshold_and_its_mirror_image() -> None:
    asked = {"loss": "logistic", "labels": "sign", "teacher": "z", "intercept": True, "ridge": 0.1}
    rates = [predicted("L1", threshold=x, **asked).error_rate for x in (0.6, -0.6)]
    assert rates[0] == pytest.approx(rates[1], abs=1e-8)


# Several terms of the teacher ---------------------------------------------------------------------

TWO = {
    "student": "relu",
    "readout": "gaussian",
    "alpha": 3,
    "beta": 1,
    "alpha0": 4,
    "step": 2,
    "teacher": "tanh",
}
# Labels and loss, further terms, directions.
TERMS = [
    ({"loss": "huber:0.5", "noise": 0.3, "ridge": 0.05}, ("z**2-1",), 1),
    ({"loss": "quantile:0.7", "noise": 0.5, "intercept": True}, ("relu",), 1),
    ({"loss": "logistic", "labels": "sign", "flip": 0.05}, ("relu",), 1),
    (
        {"loss": "squared-hinge", "labels": "sign", "threshold": 0.3, "intercept": True},
        ("tanh",),
        2,
    ),
    ({"loss": "square", "labels": "sign", "noise": 0.3}, ("tanh",), 1),
    ({"loss": "logistic", "labels": "logit:2", "intercept": True}, ("z/2",), 1),
    ({"loss": "huber:0.3", "noise": 0.5, "noise_law": "t:3"}, ("tanh", "relu"), 1),
    ({"loss": "hinge", "labels": "sign"}, ("tanh", "z"), 1),
]


def _of_terms(asked, terms, directions, dimension, replicates):
    """The largest difference from simulated fits, in standard errors."""
    problem = Problem(**TWO, **{"ridge": 0.1, **asked})
    made = first_layer(Problem(**TWO), dimension, 3, teacher_terms=terms)
    theta = made.directions
    found = predict_features(
        made.after, problem, theta, initial=made.before, teacher_terms=terms, directions=directions
    )
    drawn = simulate_features(
        made.after, problem, theta, teacher_terms=terms, replicates=replicates, seed=5
    )
    names = ["test_loss", "training_loss", "risk", "output_alignment"]
    names += ["error_rate", "training_error_rate"] * problem.labels.is_binary
    estimates = {name: getattr(drawn, name) for name in names}
    return max(
        abs(getattr(found, name) - each.mean) / each.standard_error
        for name, each in estimates.items()
    )


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "terms", "directions"), TERMS)
def test_several_terms_against_simulated_fits(asked, terms, directions) -> None:
    assert _of_terms(asked, terms, directions, 300, 60) < 3.8


@pytest.mark.parametrize("place", [0, 2])
def test_two_terms_against_simulated_fits(place) -> None:
    asked, terms, directions = TERMS[place]
    assert _of_terms(asked, terms, directions, 100, 40) < 4


@pytest.mark.parametrize(
    "asked",
    [
        {"loss": "huber:0.5", "noise": 0.3},
        {"loss": "logistic", "labels": "sign", "flip": 0.1, "intercept": True, "threshold": 0.2},
        {"loss": "square", "labels": "sign"},
        {"loss": "square", "noise": 0.3, "noise_law": "t:3"},
    ],
)
def test_a_term_that_says_nothing_changes_nothing(asked) -> None:
    """0 z along another direction: one more coordinate, in which there is nothing."""
    made = first_layer(Problem(**TWO), 80, 1)
    problem = Problem(**TWO, ridge=0.1).replace(**asked)
    other = np.roll(made.teacher, 1)
    other = other - made.teacher * (made.teacher @ other)
    both = np.stack([made.teacher, other / np.linalg.norm(other)], axis=1)
    one = predict_features(made.after, problem, made.teacher, directions=1)
    two = predict_features(made.after, problem, both, teacher_terms=("0*z",), directions=1)
    names = ["test_loss", "training_loss", "risk", "output_alignment", "degrees_of_freedom"]
    names += ["error_rate", "training_error_rate"] * problem.labels.is_binary
    for name in names:
        assert getattr(two, name) == pytest.approx(getattr(one, name), rel=2e-4), name


def test_what_is_not_covered_is_refused() -> None:
    problem, made = layer("L1")
    other = problem.replace(loss="logistic", labels="sign")
    four = np.stack([np.roll(made.teacher, shift) for shift in range(4)], axis=1)
    terms = ("tanh", "relu", "z")
    with pytest.raises(InvalidParameter, match="teacher-terms must be along at most 3"):
        predict_features(made.after, other, four, teacher_terms=terms)
    plain = problem.replace(alpha=2, ridge=0.1)
    found = predict_features(made.after, plain, four, teacher_terms=terms, directions=1)
    assert found.risk > 0
    with pytest.raises(AttributeError, match="the risk alone"):
        _ = found.test_loss
    with pytest.raises(InvalidParameter, match="ridge"):
        predict_features(made.after, other.replace(ridge=0), made.teacher)
