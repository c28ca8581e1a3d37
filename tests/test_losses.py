"""Losses against their definitions: slopes by differences, proximal points by minimisation; laws of
labels and of noise against their texts and probabilities.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from firststep import InvalidParameter
from firststep.label_laws import label_law
from firststep.losses import LOSSES, Loss, loss_of
from firststep.noise_laws import noise_law_of
from tests.backends import BACKENDS, jnp

TEXTS = (
    "square",
    "huber:0.7",
    "quantile:0.3",
    "quantile:0.5",
    "logistic",
    "hinge",
    "squared-hinge",
)
LEVERAGES = (1e-3, 0.3, 4.0, 300.0)


def points(loss: Loss) -> tuple[np.ndarray, np.ndarray]:
    """Labels and predictions that are at no kink."""
    rng = np.random.default_rng(0)
    f = 3 * rng.standard_normal(60)
    return (np.sign(rng.standard_normal(60)) if loss.is_margin else rng.standard_normal(60)), f


def test_every_loss_is_tried() -> None:
    assert {text.split(":")[0] for text in TEXTS} == set(LOSSES)


@pytest.mark.parametrize("text", TEXTS)
def test_slopes_and_curvatures_are_differences(text: str) -> None:
    loss = loss_of(text)
    (y, f), h = points(loss), 1e-5
    slope = (loss.value(y, f + h) - loss.value(y, f - h)) / (2 * h)
    assert loss.slope(y, f) == pytest.approx(slope, abs=1e-8)
    bend = (loss.slope(y, f + h) - loss.slope(y, f - h)) / (2 * h)
    assert loss.curvature(y, f) == pytest.approx(bend, abs=1e-8)
    assert np.all(loss.value(y, f) >= 0)


@pytest.mark.parametrize("leverage", LEVERAGES)
@pytest.mark.parametrize("text", TEXTS)
def test_the_score_is_that_of_the_proximal_point(text: str, leverage: float) -> None:
    loss = loss_of(text)
    y, f0 = points(loss)
    f0 = f0 * math.sqrt(1 + leverage)
    score = loss.score(y, f0, np.full_like(f0, leverage))
    assert score.point == pytest.approx(f0 + leverage * score.g, abs=1e-12 * (1 + leverage))

    def objective(f: np.ndarray, place: int) -> float:
        return float(loss.value(y[place], np.float64(f)) + (f - f0[place]) ** 2 / leverage)

    for place in range(0, 60, 7):
        around = (score.point[place] - 1, score.point[place] + 1)
        best = minimize_scalar(
            objective, bounds=around, args=(place,), method="bounded", options={"xatol": 1e-10}
        )
        assert objective(score.point[place], place) <= best.fun + 1e-12
        assert score.point[place] == pytest.approx(best.x, abs=3e-4)
    h = 1e-6 * (1 + leverage)
    up, down = (loss.score(y, f0 + sign * h, np.full_like(f0, leverage)) for sign in (1, -1))
    slope = -(up.g - down.g) / (2 * h)
    assert np.sum(np.abs(score.slope - slope) > 1e-5) <= 1  # one may sit beside a kink


@pytest.mark.parametrize("leverage", [1e-6, 1.0, 1e3, 1e7, 1e10])
def test_logistic_proximal_points_of_any_leverage(leverage: float) -> None:
    """u = q + (V/2) sigmoid(-u), wherever q is."""
    ends = np.array([0.0, -0.25, -0.5])[:, None] * leverage
    far = np.linspace(-1.5, 1, 500) * leverage
    q = np.concatenate([(ends + np.linspace(-60, 60, 500)).ravel(), far])
    u = loss_of("logistic").score(np.ones_like(q), q, np.full_like(q, leverage)).point
    left = u - q - leverage / 2 * special.expit(-u)
    rate = 1 + leverage / 2 * special.expit(u) * special.expit(-u)
    assert np.abs(left / rate).max() < 1e-12 + 1e-15 * np.abs(q).max()


@pytest.mark.parametrize("leverage", LEVERAGES)
@pytest.mark.parametrize("text", ["square", "logistic", "hinge", "squared-hinge"])
def test_where_a_proximal_point_changes_its_sign(text: str, leverage: float) -> None:
    loss, one = loss_of(text), np.ones(2)
    at = loss.zero(np.float64(leverage)) + np.array([-1e-6, 1e-6]) * (1 + leverage)
    low, high = loss.score(one, at, leverage * one).point
    assert low < 0 < high


@pytest.mark.parametrize("text", ["logistic", "hinge", "quantile:0.2"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_both_libraries(text: str, backend: str) -> None:
    loss = loss_of(text)
    y, f = points(loss)
    put = np.asarray if backend == "numpy" else jnp.asarray
    found = loss.score(put(y), put(f), put(np.full_like(f, 2.0)))
    for one, other in zip(found, loss.score(y, f, np.full_like(f, 2.0)), strict=True):
        assert np.asarray(one) == pytest.approx(np.asarray(other), abs=1e-5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("logistc", "did you mean logistic"),
        ("huber", "write huber:DELTA"),
        ("hinge:2", "write hinge"),
        ("huber:-1", "loss must be huber:DELTA with DELTA > 0; got huber:-1"),
        ("quantile:1", "between 0 and 1; got quantile:1"),
        ("quantile:-1", "between 0 and 1; got quantile:-1"),
        ("quantile:0", "quantile:THETA with THETA between 0 and 1; got quantile:0"),
        ("huber:x", "finite number"),
        (3, "square, logistic"),
    ],
)
def test_faults_of_a_loss(text: object, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        loss_of(text)


@pytest.mark.parametrize("text", TEXTS)
def test_a_loss_is_its_text(text: str) -> None:
    assert loss_of(str(loss_of(text))) == loss_of(text)


# Laws of the labels -------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_probabilities_of_labels(backend: str) -> None:
    s = np.linspace(-2, 2, 40)
    put = np.asarray if backend == "numpy" else jnp.asarray
    rest = dict(threshold=0.3, flip=0.1)
    sharp = label_law("sign").probability(put(s), noise=0.0, **rest)
    assert np.asarray(sharp) == pytest.approx(np.where(s > 0.3, 0.9, 0.1))
    soft = label_law("sign").probability(put(s), noise=0.5, **rest)
    assert np.asarray(soft) == pytest.approx(0.1 + 0.8 * special.ndtr((s - 0.3) / 0.5), abs=1e-6)
    logit = label_law("logit:4").probability(put(s), noise=0.0, **rest)
    assert np.asarray(logit) == pytest.approx(0.1 + 0.8 / (1 + np.exp(-4 * (s - 0.3))), abs=1e-6)


@pytest.mark.parametrize("text", ["real", "sign", "logit:2.5"])
def test_a_law_of_labels_is_its_text(text: str) -> None:
    assert str(label_law(text)) == text


@pytest.mark.parametrize("text", ["signs", "logit", "sign:2", "logit:-1", "logit:x", 3])
def test_faults_of_a_law_of_labels(text: object) -> None:
    with pytest.raises(InvalidParameter, match="labels must be real, sign or logit:SLOPE"):
        label_law(text)


@pytest.mark.parametrize("text", ["gaussian", "t:3.0", "mixture:0.2@0.9,3.0@0.1"])
def test_a_law_of_noise_is_its_text(text: str) -> None:
    law = noise_law_of(text)
    assert str(law) == text
    assert noise_law_of(law) is law


def test_second_moments_of_noise() -> None:
    assert noise_law_of("gaussian").second_moment == 1
    assert noise_law_of("t:5").second_moment == pytest.approx(5 / 3)
    assert noise_law_of("mixture:0.2@0.9,3@0.1").second_moment == pytest.approx(0.936)


@pytest.mark.parametrize("freedom", [2.1, 3, 10, 1000, 1e9])
def test_a_t_is_a_mixture_of_gaussians(freedom: float) -> None:
    """Its variance to rounding, its distribution function and its mean size."""
    law, t = noise_law_of(f"t:{freedom!r}"), stats.t(freedom)
    weights, scales = np.array(law.gaussians()).T
    assert weights @ scales**2 == pytest.approx(law.second_moment, rel=1e-12)
    x = np.array([-20.0, -1.0, 0.3, 4.0])
    np.testing.assert_allclose(ndtr(x[:, None] / scales) @ weights, t.cdf(x), atol=1e-6)
    size = t.expect(abs) if freedom > 3 else None
    if size is not None:
        assert weights @ scales * np.sqrt(2 / np.pi) == pytest.approx(size, rel=1e-5)
    fourth = 3 * (weights @ scales**4)
    if freedom == 10:
        assert fourth == pytest.approx(3 * 10**2 / (8 * 6), rel=1e-4)


def test_other_laws_are_mixtures_already() -> None:
    assert noise_law_of("gaussian").gaussians() == ((1.0, 1.0),)
    assert noise_law_of("mixture:0.2@0.9,3@0.1").gaussians() == ((0.9, 0.2), (0.1, 3.0))


@pytest.mark.parametrize(
    "text", ["t", "t:2", "t:x", "gauss", "gaussian:1", "mixture:1", "mixture:1@0.5", 3]
)
def test_faults_of_a_law_of_noise(text: object) -> None:
    with pytest.raises(InvalidParameter, match="noise-law must be gaussian, t:NU"):
        noise_law_of(text)
