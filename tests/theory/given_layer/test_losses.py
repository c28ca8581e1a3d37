"""Given layers with other losses: a table of verified numbers, the square loss, identities."""

from __future__ import annotations

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
LOGIT = {"labels": "logit:3", "teacher": "z"}
ABOVE = {"labels": "sign", "teacher": "z", "threshold": 0.6, "intercept": True}
# Layer, loss, labels, ridge; training loss, test loss, 0-1 error, alignment. Each was within three
# standard errors of 480 simulated fits.


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
