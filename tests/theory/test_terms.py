"""The channel of a teacher of several terms: drawn samples, a single term, identities."""

from __future__ import annotations

import numpy as np
import pytest

from firststep.activations import activation
from firststep.label_laws import label_law
from firststep.losses import loss_of
from firststep.theory.binary import BinaryLabels
from firststep.theory.channel import Channel, Output, RealLabels
from firststep.theory.loss_report import report
from firststep.theory.terms import Coordinates, Terms
from firststep.theory.terms_channel import TermsChannel

MIXING = np.array([[0.8, 0.0], [0.3, 0.7]])
SHIFT = np.random.default_rng(0).standard_normal((4, 2))
OUTPUT = Output(
    np.array([0.3, 1.0, 4.0, 30.0]),
    np.array([-0.7, 0.1, 0.4, 1.3]),
    np.array([[0.2, -0.3, 0.5, 0.0], [0.1, 0.4, -0.2, 0.3]]),
    np.array([0.5, 1.1, 0.7, 2.0]),
)
SIGN = label_law("sign")
TEACHER = activation("z")  # of labels, whose terms say what they are
CASES = [
    ("logistic", ("tanh", "relu"), BinaryLabels(TEACHER, SIGN, flip=0.1)),
    ("squared-hinge", ("z", "z**2-1"), BinaryLabels(TEACHER, SIGN, threshold=0.3)),
    ("hinge", ("tanh", "tanh"), BinaryLabels(TEACHER, SIGN, noise=0.2)),
    ("square", ("z", "relu"), BinaryLabels(TEACHER, label_law("logit:5"), threshold=-0.2)),
    ("huber:0.5", ("relu", "tanh"), None),
    ("quantile:0.3", ("z", "z**2-1"), None),
]
NOISE = ((0.9, 0.3), (0.1, 2.0))


def channel(loss, terms, labels, places=slice(None)):
    made = Terms(tuple(map(activation, terms)), MIXING, labels)
    real = None if labels else RealLabels(TEACHER, NOISE)
    shift = SHIFT[places]
    return TermsChannel(loss_of(loss), made, real, shift[:, 0], made.rest(shift))


@pytest.mark.parametrize(("loss", "terms", "labels"), CASES, ids=[case[0] for case in CASES])
def test_against_drawn_samples(loss, terms, labels) -> None:
    """The expectations and the report, on 300 000 draws at every node."""
    of, draw, count = channel(loss, terms, labels), np.random.default_rng(1), 300_000
    found, kind = of.pull(OUTPUT), loss_of(loss)
    for k in range(len(SHIFT)):
        zeta, z = draw.standard_normal((2, count)), draw.standard_normal(count)
        V, m, t, v = (each[..., k] for each in OUTPUT)
        f0 = m + t @ zeta + np.sqrt(v - t @ t) * z
        said = sum(
            term.evaluate(SHIFT[k, j] + MIXING[j] @ zeta) for j, term in enumerate(of.terms.terms)
        )
        if labels:
            y = np.where(draw.random(count) < of.terms.chance(said), 1.0, -1.0)
        else:
            weights, scales = np.array(NOISE).T
            y = said + draw.choice(scales, count, p=weights) * draw.standard_normal(count)
        g, slope, point = kind.score(y, f0, V)
        pairs = [(found.slope[k], slope), (found.mean[k], g), (found.square[k], g * g)]
        pairs += [(found.along[i, k], zeta[i] * g) for i in range(2)]
        here = slice(k, k + 1)
        told = channel(loss, terms, labels, here).report(
            Output(*(each[..., here] for each in OUTPUT)), np.ones(1)
        )
        clean = 2 * of.terms.chance(said) - 1 if labels else said
        pairs += [(told.training_loss, kind.value(y, point)), (told.test_loss, kind.value(y, f0))]
        pairs += [(told.risk, (clean - f0) ** 2)]
        if labels:
            pairs += [(told.error_rate, 1.0 * (y * f0 < 0))]
            pairs += [(told.training_error_rate, 1.0 * (y * point < 0))]
        for mine, drawn in pairs:
            assert abs(mine - drawn.mean()) < 5 * drawn.std() / np.sqrt(count) + 3e-5


@pytest.mark.parametrize(("loss", "terms", "labels"), CASES, ids=[case[0] for case in CASES])
def test_slope_is_the_derivative_of_the_mean(loss, terms, labels) -> None:
    """d E g/dm = -s."""
    of, h = channel(loss, terms, labels), 1e-3
    up, down = (of.pull(OUTPUT._replace(mean=OUTPUT.mean + x)).mean for x in (h, -h))
    np.testing.assert_allclose((up - down) / (2 * h), -of.pull(OUTPUT).slope, atol=1e-6)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_two_terms_that_are_one(loss) -> None:
    """z and z/2 along one direction, against the channel of a single term."""
    labels = BinaryLabels(activation("1.5*z"), SIGN, threshold=0.4, flip=0.05)
    mixing, shift = np.array([[0.8], [0.8]]), SHIFT[:, :1]
    terms = Terms((activation("z"), activation("z/2")), mixing, labels)
    single = OUTPUT._replace(slope=OUTPUT.slope[0])
    both = np.repeat(shift, 2, axis=1)
    mine = TermsChannel(loss_of(loss), terms, None, shift[:, 0], terms.rest(both))
    other = Channel(loss_of(loss), labels, shift[:, 0], 0.8)
    for one, two in zip(mine.pull(single), other.pull(single), strict=True):
        np.testing.assert_allclose(one, two, atol=2e-6)
    omega = np.full(4, 0.25)
    pairs = zip(mine.report(single, omega), report(other, single, omega), strict=True)
    for one, two in pairs:
        assert one == pytest.approx(two, abs=5e-6)


def test_coordinates() -> None:
    """theta_j = R basis, orthonormal; directions that depend on each other share one."""
    teachers = np.random.default_rng(2).standard_normal((7, 3))
    teachers[:, 1] = 0.6 * teachers[:, 0]
    basis, mixing = Coordinates.of(teachers)
    assert basis.shape == (7, 2)
    np.testing.assert_allclose(basis.T @ basis, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(basis @ mixing.T, teachers, atol=1e-6)
    assert mixing[0, 1] == 0
    nothing = Coordinates.of(np.zeros((7, 2)))
    assert nothing.mixing.shape == (2, 1)
    assert not nothing.mixing.any()
