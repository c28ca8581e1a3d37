"""Networks with other losses: simulated numbers, the square loss, limits, what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from firststep import Problem, compare, predict, spectral_law
from firststep.errors import InvalidParameter
from firststep.label_laws import label_law
from firststep.losses import loss_of
from firststep.theory.binary import BinaryLabels

NETWORKS = {
    "N1": ("tanh", "ones", 2, 1, 4, 1),
    "N2": ("relu", "ones", 3, 1, 3, 1.5),
    "N3": ("erf", "signs", 2, 1.2, 6, 2),
    "N4": ("relu", "gaussian", 3, 1, 3, 1.5),
    "G1": ("tanh", "ones", 2, 1, 4, 2),
    "G2": ("relu", "ones", 3, 1, 3, 3),
}


def asked(name, **changes):
    names = ("student", "readout", "alpha", "beta", "alpha0", "step")
    own = dict(zip(names, NETWORKS[name], strict=True))
    return Problem(**{**own, "teacher": "z", "labels": "sign", "dimension": 1000, **changes})


def test_the_spiked_model() -> None:
    found = predict(asked("N1", loss="logistic", ridge=0.1), bulk="isotropic")
    assert abs(found.test_loss - 0.34492) < 3 * 0.00030
    assert abs(found.error_rate - 0.15858) < 3 * 0.00023


@pytest.mark.parametrize("dimension", [1000, math.inf])
@pytest.mark.parametrize("bulk", ["exact", "isotropic"])
@pytest.mark.parametrize(
    ("student", "readout"), [("tanh(z+0.5)", "ones"), ("relu", "1:0.5,-0.5:0.5")]
)
def test_huber_loss_beyond_all_labels_is_the_square_loss(student, readout, bulk, dimension) -> None:
    problem = Problem(
        student=student,
        readout=readout,
        teacher="tanh",
        alpha=2,
        beta=1,
        alpha0=4,
        noise=0.3,
        ridge=0.05,
        dimension=dimension,
    )
    square = predict(problem, bulk=bulk)
    huber = predict(problem.replace(loss="huber:50"), bulk=bulk)
    assert huber.risk == pytest.approx(square.risk, rel=2e-7)
    assert huber.training_loss == pytest.approx(square.training_error, rel=2e-7)
    assert huber.degrees_of_freedom == pytest.approx(square.degrees_of_freedom, rel=2e-7)
    assert square.test_loss == pytest.approx(square.risk + 0.09, rel=1e-6)
    assert square.training_loss == pytest.approx(square.training_error, rel=1e-6)
    assert math.isnan(huber.error_rate)
    assert huber.error_split.fluctuation == pytest.approx(square.error_split.fluctuation, rel=1e-5)
    assert huber.error_by_kappa.min() > 0


def test_the_square_loss_with_a_constant_where_the_student_has_one_at_infinity() -> None:
    """relu with ones fits a constant freely at d = infinity: an intercept changes nothing."""
    problem = asked("N2", dimension=math.inf, ridge=0.1, step=0)
    plain, other = predict(problem), predict(problem.replace(intercept=True))
    assert other.risk == pytest.approx(plain.risk, rel=1e-6)
    assert other.error_rate == pytest.approx(plain.error_rate, rel=1e-6)
    assert other.training_loss == pytest.approx(plain.training_loss, rel=1e-6)


def test_large_dimensions_approach_the_limit() -> None:
    problem = asked("N1", step=1.5, loss="logistic", ridge=0.01)
    far, limit = (predict(problem.replace(dimension=d)) for d in (1e6, math.inf))
    assert limit.training_loss == pytest.approx(0.142164, abs=1e-6)
    assert limit.error_rate == pytest.approx(0.150798, abs=1e-6)
    assert far.training_loss == pytest.approx(limit.training_loss, rel=3e-6)


def test_arrays_of_ridges_and_noises_are_their_points() -> None:
    problem = asked("N1", loss="logistic", noise=0.2)
    many = predict(problem, ridge=np.array([1.0, 0.01]), noise=np.array([0.2, 0.4]))
    one = predict(problem, ridge=0.01, noise=0.4)
    assert many.error_rate[1] == pytest.approx(one.error_rate, rel=1e-5)
    assert many[1].test_loss == pytest.approx(one.test_loss, rel=1e-5)
    assert many.error_rate[0] < many.error_rate[1]


def test_labels_without_a_step_know_nothing_of_kappa() -> None:
    found = predict(asked("N1", step=0, loss="logistic", ridge=0.1))
    assert found.error_rate > predict(asked("N1", loss="logistic", ridge=0.1)).error_rate
    np.testing.assert_allclose(found.target_function, np.sign(found.kappa))


@pytest.mark.parametrize("loss", ["square", "logistic"])
def test_labels_of_a_step_are_two_nodes(loss) -> None:
    """E[G^a yhat^j] of the rule and of drawn labels."""
    labels = BinaryLabels(asked("N1").teacher, label_law("sign"), threshold=0.3, flip=0.1)
    y, w = labels.step_rule(loss_of(loss), 0.4, 0.05)
    draw = np.random.default_rng(0)
    g, eps = draw.standard_normal((2, 1_000_000))
    drawn = np.where(draw.random(g.size) < labels.probability(g), 1.0, -1.0)
    pull = drawn - 0.4 if loss == "square" else drawn / (1 + np.exp(drawn * 0.4))
    pull = pull + 0.05 * eps
    for a in range(3):
        for j in range(5):
            values = g**a * pull**j
            assert abs(w[a] @ y**j - values.mean()) < 5 * values.std() / 1000 + 1e-9


def test_what_is_not_covered_is_refused() -> None:
    other = asked("N1", loss="logistic")
    with pytest.raises(InvalidParameter, match="loss"):
        predict(other.replace(labels="real"))
    with pytest.raises(InvalidParameter, match="loss"):
        spectral_law(other)


@pytest.mark.parametrize("loss", ["logistic", "squared-hinge", "hinge"])
@pytest.mark.parametrize(
    ("student", "readout", "intercept"),
    [("tanh", "signs", False), ("relu", "signs", False), ("relu", "ones", True)],
)
def test_small_steps_are_the_limit_of_finite_sizes(student, readout, intercept, loss) -> None:
    """A student with a mean learns along the mean of its readout where a constant is free."""
    problem = asked("N1", student=student, readout=readout, loss=loss, ridge=0.2, flip=0.05)
    problem = problem.replace(intercept=intercept)
    small = problem.replace(step_exponent=0, step=1.5)
    limit, large = (predict(small.replace(dimension=d)) for d in (math.inf, 10**6))
    still = predict(small.replace(dimension=math.inf, step=0))
    for name in ("test_loss", "training_loss", "error_rate", "output_alignment"):
        assert getattr(large, name) == pytest.approx(getattr(limit, name), rel=5e-4), name
    assert still.error_rate > limit.error_rate * 1.01


@pytest.mark.parametrize(
    ("student", "options"),
    [
        ("tanh", {"loss": "logistic", "flip": 0.1}),
        ("relu", {"loss": "logistic"}),
        ("relu", {"loss": "squared-hinge", "threshold": 0.4, "intercept": True}),
        ("z + 0.3*(z*z - 1)", {"loss": "logistic", "threshold": 0.4, "flip": 0.05}),
        ("erf", {"loss": "huber:0.5", "labels": "real", "noise": 0.3}),
        ("z + 0.3*(z*z - 1)", {"loss": "quantile:0.3", "labels": "real", "noise": 0.3}),
    ],
)
def test_gaussian_readouts_are_the_limit_of_finite_sizes(student, options) -> None:
    problem = asked("N4", student=student, ridge=0.1, **options)
    limit, large = (predict(problem.replace(dimension=d)) for d in (math.inf, 10**7))
    names = ("test_loss", "training_loss", "output_alignment", "error_rate")
    for name in names if problem.labels.is_binary else names[:3]:
        assert getattr(large, name) == pytest.approx(getattr(limit, name), rel=3e-4), name


def test_a_comparison_shows_losses_and_error_rates() -> None:
    """Theory and simulation of a classifier side by side, within the errors of the simulation."""
    problem = Problem(
        student="tanh",
        teacher="z",
        readout="ones",
        alpha=2,
        beta=1,
        alpha0=4,
        ridge=0.1,
        loss="logistic",
        labels="sign",
        flip=0.05,
    )
    found = compare(problem, dimension=150, replicates=24, seed=3)
    names = [row.quantity for row in found.quantities]
    assert names[:4] == ["test_loss", "training_loss", "error_rate", "training_error_rate"]
    assert "training_error" not in names
    for name in ("test_loss", "error_rate"):
        row = found[name]
        assert abs(row.relative) < 0.02 or abs(row.z) < 3, name
    assert "nan" not in str(found)


def test_a_comparison_of_real_labels_has_no_error_rates() -> None:
    problem = Problem(
        student="erf", teacher="sin", alpha=2, beta=1, ridge=0.05, loss="huber:0.5", noise=0.5
    )
    found = compare(problem, dimension=100, replicates=8)
    names = [row.quantity for row in found.quantities]
    assert names[:4] == ["test_loss", "training_loss", "output_alignment", "risk"]
    assert abs(found["test_loss"].z) < 4


# Noise laws -----------------------------------------------------------------------------------

MIXTURE = "mixture:0.2@0.9,3@0.1"
NOISY = {
    "relu-huber": dict(student="relu", teacher="tanh", readout="ones", alpha=3, beta=1, alpha0=3),
    "mixed-square": dict(
        student="tanh(z+0.5)", teacher="sin(z)+0.3*z**2", readout="gaussian", alpha=2, beta=1
    ),
    "erf-huber": dict(student="erf", teacher="z", readout="signs", alpha=2, beta=1, alpha0=2),
    "relu-quantile": dict(student="relu", teacher="tanh", alpha=2.5, beta=1.2, alpha0=3),
    "tanh-still": dict(student="tanh", teacher="z", readout="ones", alpha=2, beta=1, alpha0=0),
}
# Problem, loss, step, ridge, law, noise.
NOISE_TABLE = [
    ("relu-huber", "huber:0.5", 1.5, 0.1, MIXTURE, 0.5),
    ("relu-huber", "huber:0.5", 1.5, 0.1, "t:3", 0.3),
    ("mixed-square", "square", 1, 0.1, MIXTURE, 1),
    ("mixed-square", "square", 2, 0.1, "t:5", 1),
    ("erf-huber", "huber:0.3", 2, 0.05, "t:7", 1),
    ("erf-huber", "huber:0.3", 2, 0.05, "t:3", 0.7),
    ("relu-quantile", "quantile:0.7", 1.5, 0.05, "t:5", 0.5),
    ("tanh-still", "huber:0.3", 0, 0.1, "t:3", 1),
]


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [400, 1000])
@pytest.mark.parametrize(("name", "loss", "step", "ridge", "law", "noise"), NOISE_TABLE)
def test_simulated_networks_of_noise_laws(name, loss, step, ridge, law, noise, dimension) -> None:
    asked = dict(loss=loss, step=step, ridge=ridge, noise_law=law, noise=noise)
    problem = Problem(**NOISY[name], **asked, dimension=dimension)
    found = compare(problem, replicates=24 if dimension == 400 else 12, seed=21)
    for quantity in ("test_loss", "training_loss", "risk"):
        row = found[quantity]
        assert abs(row.z) < 3.5 or abs(row.relative) < 0.01, quantity


def test_a_simulated_network_with_noise_of_heavy_tails() -> None:
    problem = Problem(**NOISY["relu-huber"], loss="huber:0.5", ridge=0.1, noise=0.3)
    found = compare(problem.replace(noise_law="t:3"), dimension=200, replicates=24, seed=4)
    for quantity in ("test_loss", "risk"):
        assert abs(found[quantity].z) < 3.5, quantity


@pytest.mark.parametrize("dimension", [500, math.inf])
@pytest.mark.parametrize("loss", ["square", "huber:0.5"])
def test_a_mixture_of_equal_gaussians_is_one(loss, dimension) -> None:
    problem = Problem(**NOISY["relu-huber"], loss=loss, noise=0.4, dimension=dimension)
    plain, mixed = predict(problem), predict(problem.replace(noise_law="mixture:1@0.3,1@0.7"))
    for name in ("risk", "test_loss", "training_loss", "alignment"):
        assert getattr(mixed, name) == pytest.approx(getattr(plain, name), rel=1e-7), name


def test_the_square_loss_knows_the_variance_of_the_noise_alone_without_a_step() -> None:
    problem = Problem(**NOISY["tanh-still"], ridge=0.1, noise=0.5, dimension=300)
    heavy = predict(problem.replace(noise_law="t:3"))
    plain = predict(problem.replace(noise=0.5 * math.sqrt(3)))
    for name in ("risk", "training_error", "test_loss", "model_error", "quadrature_error"):
        assert getattr(heavy, name) == pytest.approx(getattr(plain, name), rel=1e-9), name
    assert heavy.test_loss == pytest.approx(heavy.risk + 0.75, rel=1e-9)
    assert heavy.error_split.fluctuation == pytest.approx(plain.error_split.fluctuation, rel=1e-9)
    assert heavy.random_features_risk == pytest.approx(heavy.risk, rel=1e-6)


def test_arrays_of_noises_of_a_law_are_their_points() -> None:
    problem = Problem(**NOISY["relu-huber"], ridge=0.1, noise_law=MIXTURE, dimension=400)
    many = predict(problem, noise=np.array([0.1, 0.5]))
    one = predict(problem.replace(noise=0.5))
    assert many.risk[1] == pytest.approx(one.risk, rel=1e-9)
    assert many[1].error_by_kappa.min() > 0


@pytest.mark.parametrize(
    ("law", "changes", "allowed"),
    [
        ("t:2.5", {"dimension": 400}, "NU >= 3 for a step"),
        ("t:4", {}, "NU >= 5 at d = infinity"),  # relu: fourth moments
        ("t:6", {"student": "tanh"}, "NU >= 7 at d = infinity"),  # the sixth as well
    ],
)
def test_a_step_on_labels_without_moments_is_refused(law, changes, allowed) -> None:
    problem = Problem(**{**NOISY["relu-huber"], "noise": 0.3, "noise_law": law, **changes})
    with pytest.raises(InvalidParameter, match="noise-law must be") as caught:
        predict(problem)
    assert allowed in str(caught.value)
    assert predict(problem.replace(alpha0=0)).risk > 0
    assert predict(problem, bulk="isotropic").risk > 0
    assert predict(problem.replace(step_exponent=0, dimension=math.inf)).risk > 0


def test_least_error_rates() -> None:
    """Sign labels of a linear teacher: flips alone, and the angle between step and teacher."""
    problem = Problem(
        student="tanh", teacher="z", alpha=2, beta=1, readout="ones", labels="sign", flip=0.1
    )
    found = predict(problem, alpha0=np.array([0.0, 2.0, 5.0]))
    np.testing.assert_allclose(found.bayes_error_rate, 0.1, atol=1e-12)
    angle = np.arccos(found.alignment) / np.pi
    np.testing.assert_allclose(found.direction_error_rate[1:], 0.1 + 0.8 * angle[1:], atol=1e-9)
    assert np.isnan(found.direction_error_rate[0])
    assert np.all(found.error_rate[1:] > found.bayes_error_rate[1:])
    assert "least error rate of any classifier" in str(found[1])


def test_bayes_error_rate_by_sampling() -> None:
    problem = Problem(
        student="tanh", teacher="z*z-1", alpha=2, beta=1, labels="sign", noise=0.5, threshold=0.3
    )
    u = np.random.default_rng(0).standard_normal(400_000)
    plus = problem.label_probability(u)
    sampled = np.minimum(plus, 1 - plus)
    error = sampled.std() / np.sqrt(u.size)
    assert abs(problem.bayes_error_rate - sampled.mean()) < 4 * error
    assert np.isnan(problem.replace(labels="real", threshold=0.0).bayes_error_rate)


# Each with the test loss and the 0-1 error of simulated networks (8 and 758 of them).
STUBBORN = {
    "whole steps go round": (
        dict(student="tanh", teacher="z", alpha=2, alpha0=4, step=1.5, readout="ones", ridge=5)
        | dict(loss="hinge", flip=0.1, intercept=True, dimension=800),
        (0.6310, 21e-4),
        (0.2631, 20e-4),
    ),
    "the resolvent of the pass before is far": (
        dict(student="sin", teacher="z", alpha=177 / 234, beta=94 / 234, alpha0=1231 / 234)
        | dict(step=0.74, readout="signs", ridge=3.11e-5, loss="logistic", flip=0.05)
        | dict(threshold=0.4, intercept=True, dimension=234),
        (3.009, 0.1),  # near the separability threshold: 3.5 % above the theory
        (0.30757, 12e-4),
    ),
}


@pytest.mark.parametrize("name", STUBBORN)
def test_fits_that_did_not_converge(name) -> None:
    fields, (loss, loss_error), (rate, rate_error) = STUBBORN[name]
    found = predict(Problem(**{"beta": 1, "labels": "sign", **fields}))
    assert abs(found.test_loss - loss) < 2 * loss_error
    assert abs(found.error_rate - rate) < 2 * rate_error


@pytest.mark.parametrize("readout", ["ones", "gaussian"])
def test_points_of_a_curve_are_those_alone_with_fewer_passes(readout) -> None:
    problem = asked("N1", readout=readout, loss="logistic", ridge=0.1)
    alphas = np.linspace(0.5, 5, 12)
    curve = predict(problem, alpha=alphas)
    alone = [predict(problem.replace(alpha=alpha)) for alpha in map(float, alphas)]
    for name in ("test_loss", "error_rate", "training_loss"):
        expected = [getattr(each, name) for each in alone]
        assert getattr(curve, name) == pytest.approx(expected, rel=1e-6)
    assert np.sum(curve.iterations) < 0.7 * sum(each.iterations for each in alone)


def test_a_curve_that_jumps_or_stays_begins_at_the_last_point() -> None:
    problem = asked("N1", loss="logistic", ridge=0.1)
    alphas = np.array([1.0, 1.0, 4.0, 1.0, 1.1, 1.2, 0.4])
    curve = predict(problem, alpha=alphas)
    for alpha, loss in zip(alphas, curve.test_loss, strict=True):
        assert loss == pytest.approx(predict(problem, alpha=float(alpha)).test_loss, rel=1e-6)
