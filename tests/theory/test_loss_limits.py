"""Other losses where something is known without simulation: many samples, strong ridges, mirror
images, what the objective does along the ridge, and what no classifier can beat.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import ndtr

from firststep import (
    FirstLayer,
    FirststepError,
    NotConverged,
    Problem,
    first_layer,
    predict,
    predict_features,
)
from firststep.given_layer import GivenLayer
from firststep.theory.channel import Channel, Output
from firststep.theory.given_layer.loss_fit import LossFit
from firststep.theory.given_layer.matrices import Matrices
from firststep.theory.given_layer.predict import Conditioned
from firststep.theory.loss_report import on_a_line
from firststep.theory.one_step import solve_loss
from tests.agreement import loss_tables as tables
from tests.theory.loss_oracle import Overlaps, Spectrum, binary, loss_named, moments, panels, split

MANY = 1e6  # samples per dimension
MARGINS = ("logistic", "squared-hinge", "hinge")


def asked(**changes: Any) -> Problem:
    base = dict(student="tanh", teacher="z", alpha=2, beta=1, alpha0=4, readout="ones", ridge=0.1)
    return Problem(**{**base, "labels": "sign", "loss": "logistic", **changes})


# Many samples: the readout that minimises the loss of the population ------------------------------


def least_population_loss(problem: Problem) -> tuple[float, float]:
    """The loss and E f u/sqrt(E f^2) of random features: least over the readouts
    a (c + Omega)^-1 Phi theta and a constant, among which the best is.
    """
    loss, (_, c1, rest, _) = loss_named(str(problem.loss)), moments(problem)
    spectrum, beta = Spectrum.of(c1, rest, problem.beta), problem.beta

    def overlaps(at: np.ndarray) -> tuple[Overlaps, float]:
        size, inverse = at[0], 1 / (np.exp(at[1]) + spectrum.omega)
        m = size * beta * spectrum.trace(spectrum.shared * inverse)
        q = size**2 * beta * spectrum.trace(spectrum.shared * spectrum.omega * inverse**2)
        norm = size**2 * beta * spectrum.trace(spectrum.shared * inverse**2)
        return Overlaps(1.0, q, m, at[2] if problem.intercept else 0.0), norm

    def objective(at: np.ndarray) -> float:
        seen, norm = overlaps(at)
        y, w, Z, _ = binary(loss, problem, seen)
        return float(np.sum(Z * loss.value(y, w))) + problem.ridges[0] * norm

    options = dict(xatol=1e-7, fatol=1e-13, maxiter=2000)
    best = minimize(objective, [0.5, 0.0, 0.1], method="Nelder-Mead", options=options)
    seen, norm = overlaps(best.x)
    value = float(best.fun) - problem.ridges[0] * norm
    return value, seen.m / math.sqrt(seen.q + seen.b**2)


@pytest.mark.parametrize("loss", MARGINS)
@pytest.mark.parametrize(
    "case",
    [
        {"beta": 0.7, "flip": 0.1},
        {"student": "erf", "threshold": 0.4, "intercept": True, "ridge": 0.01},
    ],
    ids=str,
)
def test_random_features_on_many_samples(case: dict[str, Any], loss: str) -> None:
    problem = asked(loss=loss, step=0, alpha=MANY, **case)
    value, alignment = least_population_loss(problem)
    found = predict(problem)
    assert found.test_loss == pytest.approx(value, rel=1e-5)
    assert found.training_loss == pytest.approx(value, rel=1e-5)
    assert found.output_alignment == pytest.approx(alignment, rel=2e-4)
    assert found.error_rate == pytest.approx(found.training_error_rate, rel=1e-4)


class Population:
    """The mean loss of a readout b on a layer: Gaussian features given kappa = <x, v>, labels of
    u = gamma kappa + rho zeta, f = m + t zeta + sqrt(v - t^2) eta on nodes of all three.
    """

    def __init__(self, problem: Problem, layer: FirstLayer, along: np.ndarray) -> None:
        self.problem, self.loss = problem, loss_named(str(problem.loss))
        self.kappa, self.omega = panels(split(width=1.0), 2)
        self.zeta, mass = panels(split(width=0.75), 3)
        self.eta, inner = np.polynomial.hermite_e.hermegauss(40)
        self.mass = np.outer(mass, inner / inner.sum())
        gamma = float(along @ layer.teacher)
        rest = layer.teacher - gamma * along
        rho = float(np.linalg.norm(rest))
        across = layer.after - np.outer(along, along @ layer.after)
        self.gram, toward = across.T @ across, layer.after.T @ rest / rho
        scale = np.linalg.norm(across, axis=0)
        z, weight = panels(split(problem.student.kinks, width=0.75), 4)
        at = (self.kappa[:, None] * (along @ layer.after))[..., None] + scale[:, None] * z
        s = np.asarray(problem.student.evaluate(at))
        self.mean, self.slope = s @ weight, (s * z) @ weight / scale
        self.left = (s * s) @ weight - self.mean**2 - (scale * self.slope) ** 2
        self.toward = self.slope * toward
        u = gamma * self.kappa[:, None] + rho * self.zeta
        if problem.labels.kind == "logit":
            self.plus = 1 / (1 + np.exp(-float(str(problem.labels).partition(":")[2]) * u))
        else:
            self.plus = ndtr(u / problem.noise)

    def __call__(self, b: np.ndarray) -> tuple[float, np.ndarray]:
        """Loss and ridge, and their gradient."""
        scaled = self.slope * b
        m, t, image = self.mean @ b, self.toward @ b, scaled @ self.gram
        v = np.einsum("ki,ki->k", image, scaled) + self.left @ b**2
        width = np.sqrt(v - t**2)[:, None, None]
        f = m[:, None, None] + t[:, None, None] * self.zeta[:, None] + width * self.eta
        value, pull, h = np.zeros(f.shape), np.zeros(f.shape), 1e-6
        for y, chance in ((1.0, self.plus), (-1.0, 1 - self.plus)):
            low, here, high = (self.loss.value(np.array(y), f + x) for x in (-h, 0, h))
            value += chance[..., None] * here
            pull += chance[..., None] * (high - low) / (2 * h)
        pull = pull * self.mass
        of_v = np.sum(pull * self.eta / (2 * width), (1, 2))
        of_t = np.sum(pull * self.zeta[:, None], (1, 2)) - 2 * t * of_v
        of_m = np.sum(pull, (1, 2))
        gradient = (self.omega * of_m) @ self.mean + (self.omega * of_t) @ self.toward
        quadratic = (self.omega * of_v)[:, None] * (image * self.slope + self.left * b)
        ridge = self.problem.ridges[0]
        total = float(self.omega @ np.sum(value * self.mass, (1, 2))) + ridge * float(b @ b)
        return total, gradient + 2 * quadratic.sum(0) + 2 * ridge * b


@pytest.mark.parametrize(
    "case",
    [
        {"student": "tanh(z + 0.3)", "labels": "logit:3", "readout": "signs"},
        {"loss": "squared-hinge", "noise": 0.5, "ridge": 0.03},
    ],
    ids=str,
)
def test_a_given_layer_on_many_samples(case: dict[str, Any]) -> None:
    """The limit of the fixed point is the minimum over b, found by a method that knows nothing of
    it: where the samples pull no more, nothing is left but the loss of the population.
    """
    problem = asked(step=2, **case)
    layer = first_layer(problem, 60, 3)
    along = np.linalg.svd(layer.after - layer.before)[0][:, 0]
    population = Population(problem, layer, along)
    start = np.full(layer.after.shape[1], 1e-3)
    best = minimize(population, start, jac=True, method="L-BFGS-B", options={"maxiter": 500})
    value = float(best.fun) - problem.ridges[0] * float(best.x @ best.x)
    given = (layer.after, problem.replace(alpha=MANY, alpha0=4), layer.teacher)
    found = predict_features(*given, directions=along[:, None])
    assert found.training_loss == pytest.approx(value, rel=1e-4)
    assert found.test_loss == pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize("case", [{"flip": 0.1}, {"student": "relu", "readout": "gaussian"}])
def test_networks_on_many_samples_are_their_layers(case: dict[str, Any]) -> None:
    """The mean over layers of what the population says of each."""
    problem = asked(step=1.5, alpha=MANY, dimension=200, **case)
    found, losses = predict(problem), []
    for seed in range(6):
        layer = first_layer(problem.replace(alpha=1), 200, seed)
        losses.append(predict_features(layer.after, problem, layer.teacher, directions=1).test_loss)
    error = np.std(losses, ddof=1) / math.sqrt(len(losses))
    assert abs(found.test_loss - np.mean(losses)) < 3 * error
    assert error < 0.02 * found.test_loss
    assert found.training_loss == pytest.approx(found.test_loss, rel=1e-4)
    assert found.test_loss < predict(problem.replace(alpha=10)).test_loss


@pytest.mark.parametrize("laws", [{"noise": 1e-3}, {"noise": 0.02}, {"labels": "logit:300"}])
def test_little_noise_is_nearly_none(laws: dict[str, Any]) -> None:
    """It moves the labels of inputs near the threshold, where a fit is undecided: by its square.
    The error that nothing beats is arctan(noise)/pi, or about log(2)/slope times a density.
    """
    problem = asked(teacher="z", loss="logistic")
    without, found = predict(problem), predict(problem.replace(**laws))
    size = problem.replace(**laws).noise or math.pi / math.sqrt(3) / 300
    assert 0 < found.error_rate / without.error_rate - 1 < 5 * size**2
    assert 0 < found.test_loss / without.test_loss - 1 < 10 * size**2
    least = math.atan(size) / math.pi
    if "labels" in laws:
        least = 2 * math.log(2) / 300 / math.sqrt(2 * math.pi)
    assert found.bayes_error_rate == pytest.approx(least, rel=1e-4)


# Strong ridges and mirror images ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dimension", "ridge"), [(math.inf, 1e3), pytest.param(500, 1e5, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("case", [{}, {"student": "relu", "readout": "signs", "flip": 0.1}])
def test_strong_ridges_make_all_losses_of_networks_one(
    case: dict[str, Any], dimension: float, ridge: float
) -> None:
    """Only dl/df at 0 counts: square, squared hinge, and logistic at a quarter. (A hinge at half is
    one for given layers; of networks it is not returned where no margin is reached.)
    """
    scales, numbers = {"square": 1, "squared-hinge": 1, "logistic": 0.25}, []
    for loss, by in scales.items():
        found = predict(asked(loss=loss, ridge=ridge * by, dimension=dimension, **case))
        numbers.append((found.error_rate, found.training_error_rate, found.output_alignment))
    np.testing.assert_allclose(numbers, np.broadcast_to(numbers[0], (3, 3)), rtol=3e-4)


@pytest.mark.parametrize("loss", ["square", *MARGINS])
def test_enormous_ridges_have_their_limit_or_no_number(loss: str) -> None:
    """Random features then classify by sum_i y_i phi_i.phi: with q = E y u, of
    c1^2 q beta/sqrt(c1^2 q^2 (c1^2 beta (1 + beta) + c beta) + (beta/alpha) tr Omega^2/N) the
    alignment, which is nan where what the fit says is rounding; so is an error rate.
    """
    problem = asked(loss=loss, step=0)
    alpha, beta, q = problem.alpha, problem.beta, math.sqrt(2 / math.pi)
    c1, rest = (float(x) for x in moments(problem)[1:3])
    share = c1**4 * (1 + beta) + 2 * c1**2 * rest + rest**2
    square = c1**2 * q**2 * (c1**2 * beta * (1 + beta) + rest * beta) + beta / alpha * share
    limit = math.acos(c1 * c1 * q * beta / math.sqrt(square)) / math.pi
    found = predict(problem, ridge=np.array([2e1, 5e3, 1e9]))
    known = found.error_rate[np.isfinite(found.error_rate)]
    assert 1 <= len(known) <= 2
    np.testing.assert_allclose(known[1:], limit, rtol=5e-3)
    if loss == "square":
        with pytest.raises(NotConverged, match="try a smaller one"):
            predict(problem, ridge=1e12, step=1)


@pytest.mark.parametrize("loss", MARGINS)
def test_a_threshold_of_networks_and_its_mirror_image(loss: str) -> None:
    """Of an odd student, whose readout may change its sign."""
    problem = asked(loss=loss, intercept=True, dimension=500)
    one, other = (predict(problem.replace(threshold=tau)) for tau in (0.5, -0.5))
    for name in ("test_loss", "training_loss", "error_rate", "training_error_rate"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-6), name


# The objective along the ridge --------------------------------------------------------------------


def norm(channel: Channel, output: Output, omega: np.ndarray) -> float:
    """ridge |b|^2 = (1/n) sum_i g_i f_i, as at a minimum ridge b = (1/n) sum_i g_i phi_i."""
    at = channel.flat(output)
    f0, classes = channel.classes(output, at)
    total = np.zeros(len(omega))
    for y, mass, _ in classes:
        score = channel.loss.score(np.array(y), f0, output.leverage[at.node])
        total += at.total(mass * score.g * score.point)
    return float(omega @ total)


@pytest.mark.parametrize("loss", MARGINS)
@pytest.mark.parametrize(
    "case", [{"dimension": 1000}, {"student": "relu", "readout": "gaussian", "flip": 0.1}]
)
def test_the_objective_of_networks_changes_by_the_norm(
    case: dict[str, Any], loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """d(training loss + ridge |b|^2)/d ridge = |b|^2."""
    fits: list[tuple[Channel, Output, np.ndarray]] = []
    told = solve_loss.on_a_line

    def spy(channel: Channel, output: Output, kappa: np.ndarray) -> Any:
        fits.append((channel, output, kappa))
        return told(channel, output, kappa)

    monkeypatch.setattr(solve_loss, "on_a_line", spy)
    objectives, penalties, h = [], [], 3e-3
    for by in (1 - h, 1, 1 + h):
        found = predict(asked(loss=loss, ridge=0.05 * by, **case))
        channel, output, kappa = fits[-1]
        omega = np.exp(-(kappa**2) / 2)
        penalties.append(norm(channel, output, omega / omega.sum()))
        objectives.append(found.training_loss + penalties[-1])
    change = (objectives[2] - objectives[0]) / (2 * h * 0.05)
    assert change == pytest.approx(penalties[1] / 0.05, rel=1e-4)


# Of one layer at ridge 0.01, by other code; simulated: 5.867 +- 0.012, 5.215 +- 0.020,
# 6.474 +- 0.021.
NORMS = {"logistic": 5.87114, "squared-hinge": 5.21908, "hinge": 6.48189}


@pytest.mark.parametrize("loss", MARGINS)
def test_the_objective_of_a_given_layer_changes_by_the_norm(loss: str) -> None:
    ridges, made = (0.01 * (1 - 3e-3), 0.01, 0.01 * (1 + 3e-3)), tables.layer("L1")
    problem = asked(loss=loss, ridge=ridges)
    given = GivenLayer.checked(
        weights=made.after,
        problem=problem,
        teacher=made.teacher,
        teacher_terms=(),
        initial=made.before,
        bias=None,
        covariance=None,
        neurons="columns",
    )
    seen = Conditioned.of(given, 1)
    channel = seen.channel(problem)
    assert channel is not None
    along = (seen.teachers.T @ seen.across)[0] / seen.target.width
    fits = LossFit(seen.layer(Matrices(), given.sizes.samples), channel, along, False).path(ridges)
    penalties = [norm(channel, fits[ridge].output, seen.grid.omega) for ridge in ridges]
    losses = [
        on_a_line(channel, fits[ridge].output, seen.grid.kappa[:, 0]).training_loss
        for ridge in ridges
    ]
    change = (losses[2] + penalties[2] - losses[0] - penalties[0]) / (ridges[2] - ridges[0])
    assert change == pytest.approx(NORMS[loss], rel=1e-4)
    assert penalties[1] / 0.01 == pytest.approx(NORMS[loss], rel=1e-4)


@pytest.mark.slow
def test_small_ridges_on_separable_data_find_the_hard_margin() -> None:
    """Both hinges have one limit, which the logistic loss approaches like 1/log."""
    made, rates = tables.layer("L1"), {}
    for loss in MARGINS:
        problem = asked(loss=loss, ridge=(1e-4, 1e-6, 1e-8))
        found = predict_features(
            made.after, problem, made.teacher, initial=made.before, directions=1
        )
        rates[loss] = found.error_rate
    for loss in ("hinge", "squared-hinge"):
        assert rates[loss][2] == pytest.approx(0.181528, abs=3e-5)
    np.testing.assert_allclose(rates["logistic"], [0.1715, 0.1765, 0.1783], atol=6e-5)


# What no classifier can beat ----------------------------------------------------------------------


def drawn(rng: np.random.Generator) -> Problem:
    """A question at random, d infinite."""
    loss = str(rng.choice([*MARGINS, "square"]))
    labels = str(rng.choice(["sign", "logit:2"]))
    return Problem(
        student=str(rng.choice(["tanh", "relu", "erf", "softplus", "tanh(z+0.5)"])),
        teacher=str(rng.choice(["z", "tanh", "sin(2*z)", "z + 0.5*(z**2-1)"])),
        readout=str(rng.choice(["ones", "signs"])),
        alpha=float(10 ** rng.uniform(-0.3, 1.3)),
        beta=float(10 ** rng.uniform(-0.5, 0.5)),
        alpha0=float(10 ** rng.uniform(-0.5, 1.3)),
        step=float(10 ** rng.uniform(-1, 0.5)),
        ridge=float(10 ** rng.uniform(-3, 1)),
        loss=loss,
        labels=labels,
        noise=float(rng.choice([0, 0.5])) if labels == "sign" else 0.0,
        flip=float(rng.choice([0, 0.1])),
        threshold=float(rng.choice([0, 0.3])),
    )


def least_losses(problem: Problem) -> dict[str, float]:
    """E min_f E[l(y, f) | u]: of whoever may say anything of u."""
    u, mass = panels(split(problem.teacher.kinks, width=0.01), 2)
    plus = np.clip(problem.label_probability(u), 1e-300, 1.0)
    minus = np.clip(1 - plus, 1e-300, 1.0)
    least = {
        "square": 4 * plus * minus,
        "squared-hinge": 4 * plus * minus,
        "hinge": 2 * np.minimum(plus, minus),
        "logistic": -plus * np.log(plus) - minus * np.log(minus),
    }
    return {name: float(mass @ each) for name, each in least.items()}


def assert_nothing_beats_bayes(problem: Problem) -> None:
    try:
        found = predict(problem)
    except FirststepError as error:
        pytest.skip(str(error))
    assert found.error_rate >= found.bayes_error_rate
    assert found.direction_error_rate >= found.bayes_error_rate - 1e-9
    assert found.test_loss >= least_losses(problem)[problem.loss.name] - 1e-3
    assert found.test_loss >= found.training_loss
    assert 0 < found.degrees_of_freedom < 1


@pytest.mark.parametrize("seed", range(12))
def test_nothing_beats_bayes(seed: int) -> None:
    assert_nothing_beats_bayes(drawn(np.random.default_rng(seed)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12, 72))
def test_nothing_beats_bayes_all_over(seed: int) -> None:
    assert_nothing_beats_bayes(drawn(np.random.default_rng(seed)))


def test_a_step_on_many_samples_knows_the_teacher() -> None:
    """Its direction is the teacher's: what kappa says is then all that can be said."""
    rates = [
        predict(asked(alpha0=alpha0, flip=0.1)).direction_error_rate for alpha0 in (1, 10, 1e4)
    ]
    assert rates[0] > rates[1] > rates[2]
    assert rates[2] == pytest.approx(0.1, abs=5e-3)
