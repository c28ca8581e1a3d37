"""The channel of a loss: identities that hold for any loss and label law, and Monte Carlo."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from firststep.activations import activation
from firststep.label_laws import label_law
from firststep.losses import loss_of
from firststep.theory.binary import BinaryLabels
from firststep.theory.channel import Channel, Output, RealLabels
from firststep.theory.loss_report import report

KAPPA = np.array([-2.0, -0.3, 0.0, 1.1, 2.5])
OUTPUT = Output(
    np.array([0.3, 1.0, 4.0, 30.0, 0.05]),
    np.array([-0.7, 0.1, 0.4, 1.3, -2.0]),
    np.array([0.2, -0.3, 0.5, 0.4, 0.0]),
    np.array([0.5, 1.1, 0.7, 2.0, 0.3]),
)
BINARY = {
    "sign": BinaryLabels(activation("tanh"), label_law("sign"), threshold=0.3, flip=0.1),
    "jumps": BinaryLabels(activation("z**3 - z"), label_law("sign"), threshold=0.1),
    "noisy": BinaryLabels(activation("tanh"), label_law("sign"), noise=0.4),
    "steep": BinaryLabels(activation("z**3 - z"), label_law("sign"), noise=0.004, threshold=0.1),
    "logit": BinaryLabels(activation("z"), label_law("logit:3"), threshold=-0.2, flip=0.05),
}
REAL = {
    "gaussian": RealLabels(activation("tanh"), ((1.0, 0.3),)),
    "mixture": RealLabels(activation("relu"), ((0.9, 0.2), (0.1, 3.0))),
}
MARGIN = ("square", "logistic", "hinge", "squared-hinge", "huber:0.6", "quantile:0.3")
RESIDUAL = ("square", "huber:0.5", "quantile:0.8")
CASES = [(loss, labels) for loss in MARGIN for labels in BINARY.values()]
CASES += [(loss, labels) for loss in RESIDUAL for labels in REAL.values()]
NAMES = [f"{loss}-{name}" for loss in MARGIN for name in BINARY]
NAMES += [f"{loss}-{name}" for loss in RESIDUAL for name in REAL]


@pytest.mark.parametrize("noise", [1e-6, 0.003, 0.04, 0.1, 0.3])
def test_a_line_with_any_noise_is_known(noise) -> None:
    """P(y = 1 | u) = Phi((u - tau)/noise) over Gaussians: another Phi; nothing is too steep."""
    tau, w = 0.3, np.linspace(-8, 8, 33)
    labels = BinaryLabels(activation("z"), label_law("sign"), noise=noise, threshold=tau)
    spread = np.sqrt(1 + noise**2)
    exact = [ndtr(-tau / spread), norm.pdf(tau / spread) / spread]
    np.testing.assert_allclose(labels.moments[:2, 0], exact, atol=1e-12)
    for share, scale in ((0.3, 0.8), (0.99, 0.8), (0.3, 0.01)):
        rest = np.sqrt(1 - share**2)
        width = np.sqrt((scale * rest) ** 2 + noise**2)
        x = (0.2 + scale * share * w - tau) / width
        along = share * w * ndtr(x) + rest * (scale * rest / width) * norm.pdf(x)
        found = labels.given(w, np.full_like(w, share), np.full_like(w, 0.2), scale)
        np.testing.assert_allclose(found.plus, ndtr(x), atol=1e-12)
        np.testing.assert_allclose(found.along, along, atol=1e-12)


def channel(loss, labels):
    return Channel(loss_of(loss), labels, 0.6 * KAPPA, 0.8)


@pytest.mark.parametrize(("loss", "labels"), CASES, ids=NAMES)
def test_slope_is_the_derivative_of_the_mean(loss, labels) -> None:
    """d E g/dm = -s."""
    of, h = channel(loss, labels), 1e-4
    up, down = (of.pull(OUTPUT._replace(mean=OUTPUT.mean + x)).mean for x in (h, -h))
    np.testing.assert_allclose((up - down) / (2 * h), -of.pull(OUTPUT).slope, atol=2e-7, rtol=1e-6)


@pytest.mark.parametrize(("loss", "labels"), CASES, ids=NAMES)
def test_against_drawn_samples(loss, labels) -> None:
    """The four expectations and the report, on 400 000 draws at every node."""
    of, draw, count = channel(loss, labels), np.random.default_rng(1), 400_000
    found, kind = of.pull(OUTPUT), loss_of(loss)
    for k in range(len(KAPPA)):
        zeta, z = draw.standard_normal((2, count))
        V, m, t, v = (np.float64(each[k]) for each in OUTPUT)
        f0 = m + t * zeta + np.sqrt(v - t**2) * z
        u = of.shift[k] + of.scale * zeta
        y = _drawn(labels, u, draw)
        g, slope, point = kind.score(y, f0, V)
        for mine, drawn in zip(found, (slope, g, zeta * g, g * g), strict=True):
            assert abs(mine[k] - drawn.mean()) < 5 * drawn.std() / np.sqrt(count) + 2e-5
        alone = Channel(kind, labels, of.shift[k : k + 1], of.scale)
        told = report(alone, Output(*(each[k : k + 1] for each in OUTPUT)), np.ones(1))
        pairs = [(told.training_loss, kind.value(y, point)), (told.test_loss, kind.value(y, f0))]
        if isinstance(labels, BinaryLabels):
            pairs += [(told.error_rate, 1.0 * (y * f0 < 0))]
            pairs += [(told.training_error_rate, 1.0 * (y * point < 0))]
        else:
            pairs += [(told.risk, (labels.teacher.evaluate(u) - f0) ** 2)]
        for mine, drawn in pairs:
            assert abs(mine - drawn.mean()) < 5 * drawn.std() / np.sqrt(count) + 2e-5


def _drawn(labels, u, draw):
    if isinstance(labels, BinaryLabels):
        return np.where(draw.random(u.size) < labels.probability(u), 1.0, -1.0)
    weights, scales = np.array(labels.noise).T
    scale = draw.choice(scales, u.size, p=weights)
    return labels.teacher.evaluate(u) + scale * draw.standard_normal(u.size)


@pytest.mark.parametrize(("loss", "labels"), CASES[:24], ids=NAMES[:24])
def test_steins_identity(loss, labels) -> None:
    """Cov(f0, g) = t E zeta g - s (v - t^2)."""
    of = channel(loss, labels)
    pull, at = of.pull(OUTPUT), of.flat(OUTPUT)
    f0, classes = of.classes(OUTPUT, at)
    moved = f0 - OUTPUT.mean[at.node]
    scores = [of.loss.score(np.array(y), f0, OUTPUT.leverage[at.node]).g for y, _, _ in classes]
    covariance = sum(
        at.total(mass * moved * g) for (_, mass, _), g in zip(classes, scores, strict=True)
    )
    _, _, t, v = OUTPUT
    expected = t * pull.along - pull.slope * (v - t**2)
    np.testing.assert_allclose(covariance, expected, atol=1e-8)


def test_jumps_of_a_teacher_that_crosses_three_times() -> None:
    start, places, sizes = BINARY["jumps"].jumps
    assert start == 0
    assert np.allclose(sizes, [1, -1, 1])
    assert np.allclose(places**3 - places, 0.1)


def test_step_function_where_the_teacher_is_the_threshold() -> None:
    """relu without threshold: a coin below zero."""
    labels = BinaryLabels(activation("relu"), label_law("sign"))
    assert labels.jumps.start == 0.5
    assert np.allclose(labels.jumps.sizes, 0.5)
    np.testing.assert_allclose(labels.jumps.places, 0, atol=1e-8)
    assert labels.direction_error(1.0, 0.0) == pytest.approx(0.25, abs=1e-9)
