"""Random features without a step, any loss: the theory at d = infinity against other equations."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from firststep import Problem, predict
from tests.theory.loss_oracle import LOSSES, Answer, random_features

CLOSE = 2e-7  # the two agree to 1e-8 or better; fixed points are solved to 1e-8
AIM = 1e-5  # with small ridges, where a logistic score varies over very different scales
REAL = {"labels": "real", "teacher": "tanh(1.2*z) + 0.3", "noise": 0.3}
CASES: tuple[dict[str, Any], ...] = (
    {"loss": "logistic"},
    {"loss": "logistic", "ridge": 1e-3, "student": "erf", "flip": 0.1},
    {"loss": "square", "alpha": 0.7},
    {"loss": "hinge", "beta": 1.7, "noise": 0.4},
    {"loss": "squared-hinge", "flip": 0.1, "alpha": 4, "ridge": 0.01},
    {"loss": "logistic", "labels": "logit:3", "student": "relu", "beta": 0.6, "ridge": 0.03},
    {"loss": "squared-hinge", "labels": "logit:1.5", "threshold": 0.3, "intercept": True},
    # a constant: free, of the mean features, of the norms of the neurons, none
    {"loss": "logistic", "threshold": 0.4, "intercept": True, "beta": 1.7, "alpha": 0.8},
    {"loss": "hinge", "threshold": 0.4, "student": "softplus", "alpha": 3},
    {"loss": "logistic", "threshold": 0.4, "student": "z + 0.3*(z*z - 1)"},
    {"loss": "logistic", "threshold": 0.4, "student": "z + 0.3*(z*z - 1)", "init": "sphere"},
    {"loss": "huber:0.4", **REAL, "student": "relu"},
    {"loss": "huber:0.4", **REAL, "student": "z + 0.3*(z*z - 1)", "ridge": 0.02},
    {"loss": "square", **REAL, "student": "erf", "alpha": 0.6},
)


def asked(**changes: Any) -> Problem:
    base = dict(student="tanh", teacher="z", alpha=2, beta=1, step=0, labels="sign", ridge=0.1)
    return Problem(**{**base, **changes})


def assert_agree(problem: Problem, close: float = CLOSE) -> None:
    known, found = random_features(problem), predict(problem)
    is_binary = problem.labels.is_binary
    for name in Answer._fields[:-1]:
        value, ours = getattr(known, name), float(getattr(found, name))
        if name == "risk" and is_binary:  # the oracle does not say
            continue
        assert math.isnan(ours) == math.isnan(value) == ("rate" in name and not is_binary), name
        if not math.isnan(value):
            assert ours == pytest.approx(value, rel=close, abs=1e-9), name


@pytest.mark.parametrize("case", CASES, ids=str)
def test_random_features(case: dict[str, Any]) -> None:
    """Losses, error rates, alignment and degrees of freedom."""
    assert_agree(asked(**case))


@pytest.mark.parametrize(
    ("alpha", "ridge"),
    [(2, 1e-5), *(pytest.param(x, 1e-6, marks=pytest.mark.slow) for x in (1, 3))],
)
def test_the_logistic_loss_with_small_ridges(alpha: float, ridge: float) -> None:
    """V is some thousands, and the score bends over one and over V."""
    assert_agree(asked(loss="logistic", alpha=alpha, ridge=ridge, flip=0.05), AIM)


@pytest.mark.slow
@pytest.mark.parametrize("student", ["tanh", "relu", "sin(z) + 0.5*z**2"])
@pytest.mark.parametrize(
    ("labels", "loss"),
    [*(("sign", loss) for loss in LOSSES), ("logit:2", "logistic"), ("logit:2", "hinge")],
)
def test_random_features_all_over(labels: str, student: str, loss: str) -> None:
    for alpha, beta, ridge in itertools.product((0.5, 6), (0.5, 1.5), (0.3, 1e-4)):
        ratios = dict(alpha=alpha, beta=beta, ridge=ridge)
        assert_agree(asked(loss=loss, student=student, labels=labels, flip=0.05, **ratios), AIM)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "huber:0.4"])
def test_the_training_loss_falls_as_the_penalty_rises(loss: str) -> None:
    """At any minimum d(training loss) = -ridge d|b|^2: training losses of the theory, and norms of
    the other equations.
    """
    problem, h = asked(loss=loss, **(REAL if loss.startswith("huber") else {})), 0.02
    low, high = (problem.replace(ridge=0.1 * (1 + sign * h)) for sign in (-1, 1))
    risen = random_features(low).penalty - random_features(high).penalty
    fallen = predict(high).training_loss - predict(low).training_loss
    assert fallen == pytest.approx(0.1 * risen, rel=h**2)
