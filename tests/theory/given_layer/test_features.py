"""The theory of a given first layer: against its equations written plainly, against the exact
theory, and in all its forms.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray

import firststep
from firststep import InvalidParameter, Problem, predict
from firststep.numerics.neuron_moments import Family
from firststep.numerics.quadrature import gaussian_product
from firststep.simulation.running.layer import first_layer
from firststep.theory.given_layer import fit, risk
from firststep.theory.given_layer.directions import choose_directions, leading_singular_vectors
from firststep.theory.given_layer.predict import predict_features
from tests.backends import needs_jax

Array = NDArray[np.float64]


def plain_prediction(
    weights: Array,
    problem: Problem,
    teacher: Array,
    directions: Array,
    ridge: float,
    bias: Array,
    nodes: int = 24,
) -> tuple[float, float]:
    """Risk and training error by the equations as they stand: explicit Sigma_k, dense Q,
    Gauss-Hermite nodes, plain iteration.
    """
    d, width = weights.shape
    n, k = problem.sizes(d).samples, directions.shape[1]
    points, masses = hermegauss(nodes)
    kappa = np.array(list(itertools.product(points, repeat=k))).reshape(nodes**k, k)
    omega = np.array([np.prod(each) for each in itertools.product(masses, repeat=k)])
    keep = omega > 1e-10 * omega.max()
    kappa, omega = kappa[keep], omega[keep] / omega[keep].sum()
    z, inner = hermegauss(80)
    inner = inner / inner.sum()

    along = directions.T @ weights
    across = weights - directions @ along
    scale = np.linalg.norm(across, axis=0)
    values = problem.student((bias + kappa @ along)[..., None] + scale[:, None] * z)
    mu0, linear = values @ inner, values @ (inner * z)
    mu1, mu2 = linear / scale, values**2 @ inner - mu0**2 - linear**2
    gamma = directions.T @ teacher
    zeta = teacher - directions @ gamma
    rho = np.linalg.norm(zeta)
    labels = problem.teacher((kappa @ gamma)[:, None] + rho * z)
    h0, h1, h2 = labels @ inner, labels @ (inner * z), labels**2 @ inner + problem.noise**2
    side = across.T @ (zeta / rho)

    gram = across.T @ across
    sigma = [
        gram * np.outer(b, b) + np.diag(c) + np.outer(a, a)
        for a, b, c in zip(mu0, mu1, mu2, strict=True)
    ]
    s = np.full(len(omega), 0.5)
    for _ in range(2000):
        inverse = np.linalg.inv(np.einsum("k,kij->ij", omega * s, sigma) + ridge * np.eye(width))
        new = 1 / (1 + np.array([np.sum(each * inverse) for each in sigma]) / n)
        if np.abs(new / s - 1).max() < 1e-12:
            break
        s = np.sqrt(s * new)
    a = inverse @ ((omega * s) @ (mu0 * h0[:, None] + mu1 * side * h1[:, None]))
    m, t = mu0 @ a, (mu1 * side) @ a
    q = np.array([a @ (each - np.outer(b, b)) @ a for each, b in zip(sigma, mu0, strict=True)])
    edet = h2 - 2 * m * h0 + m**2 - 2 * t * h1 + q
    products = [inverse @ each for each in sigma]
    response = np.array([[np.sum(b * c.T) for c in products] for b in products]) / n
    e = np.linalg.solve(np.eye(len(s)) - response * (omega * s**2), edet)
    return float(omega @ e - problem.noise**2), float((omega * s**2) @ e)


@pytest.fixture(scope="module")
def layer() -> tuple[Any, Problem]:
    problem = Problem(
        student="tanh(z+0.4)",
        teacher="sin(z) + 0.3*z**2",
        alpha=2.5,
        beta=1.5,
        alpha0=3.0,
        step=0.5,
        ridge=(0.02, 0.5),
        noise=0.2,
    )
    return first_layer(problem, 60, seed=3), problem


@pytest.mark.parametrize(
    ("alpha", "count", "biased"), [(2.5, 1, True), (0.7, 1, False), (2.5, 2, False), (1.0, 2, True)]
)
def test_equations_as_written(
    layer: tuple[Any, Problem], alpha: float, count: int, biased: bool
) -> None:
    made, problem = layer
    problem = problem.replace(alpha=alpha)
    width = made.after.shape[1]
    bias = np.random.default_rng(1).standard_normal(width) / 3 if biased else np.zeros(width)
    vectors = leading_singular_vectors(made.after - made.before, count)[0]
    found = predict_features(
        made.after, problem, made.teacher, directions=vectors, bias=bias if biased else None
    )
    for place, ridge in enumerate(problem.ridges):
        nodes = 24 if count == 1 else 14
        risk, training = plain_prediction(
            made.after, problem, made.teacher, vectors, ridge, bias, nodes
        )
        assert found.risk[place] == pytest.approx(risk, rel=3e-5)
        assert found.training_error[place] == pytest.approx(training, rel=3e-5)


def test_small_copy_changes_nothing(
    layer: tuple[Any, Problem], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, problem = layer
    whole = predict_features(made.after, problem, made.teacher, initial=made.before)
    monkeypatch.setattr(risk, "SMALL", 30)
    copied = predict_features(made.after, problem, made.teacher, initial=made.before)
    assert copied.risk == pytest.approx(whole.risk, rel=1e-4)
    assert copied.training_error == pytest.approx(whole.training_error, rel=1e-4)
    monkeypatch.setattr(risk, "LAST_STEP", 1e-6)
    careful = predict_features(made.after, problem, made.teacher, initial=made.before)
    assert careful.risk == pytest.approx(whole.risk, rel=1e-5)
    assert copied.residual <= fit.TOLERANCE


@pytest.mark.parametrize("student", ["relu", "tanh"])
@needs_jax
def test_backends_agree(student: str) -> None:
    problem = Problem(
        student=student, teacher="tanh", alpha=1.5, beta=0.8, step=2.0, ridge=0.05, noise=0.1
    )
    made = first_layer(problem, 100)
    host = predict_features(made.after, problem, made.teacher, initial=made.before, directions=2)
    device = predict_features(
        made.after,
        problem,
        made.teacher,
        initial=made.before,
        directions=2,
        backend="jax",
        device="cpu",
    )
    assert device.risk == pytest.approx(host.risk, rel=1e-9)
    assert device.training_error == pytest.approx(host.training_error, rel=1e-9)
    assert device.backend == "jax"
    assert "jax" in device.versions


def test_near_the_exact_theory() -> None:
    """The layers of one problem differ; their mean is the theory's number at that size."""
    problem = Problem(
        student="relu",
        teacher="tanh",
        alpha=2.0,
        beta=1.0,
        alpha0=1.0,
        step=2.0,
        ridge=0.05,
        noise=0.1,
        readout="signs",
    )
    made = [first_layer(problem, 240, replicate=number) for number in range(6)]
    risks = [
        predict_features(each.after, problem, each.teacher, initial=each.before).risk
        for each in made
    ]
    error = np.std(risks, ddof=1) / np.sqrt(len(risks))
    assert abs(np.mean(risks) - predict(problem.replace(dimension=240)).risk) < 4 * error
    assert error < 0.01


def test_no_step_is_random_features() -> None:
    problem = Problem(
        student="relu", teacher="tanh", alpha=2.0, beta=1.0, alpha0=0.0, ridge=0.05, noise=0.1
    )
    made = [first_layer(problem, 200, replicate=number) for number in range(8)]
    found = [
        predict_features(each.before, problem, each.teacher, initial=each.before) for each in made
    ]
    assert found[0].directions.matrix == "W1"
    risks = [each.risk for each in found]
    error = np.std(risks, ddof=1) / np.sqrt(len(risks))
    assert abs(np.mean(risks) - predict(problem.replace(dimension=200)).risk) < 4 * error
    assert error < 0.01


def test_layouts_and_shapes(layer: tuple[Any, Problem]) -> None:
    made, problem = layer
    several = predict_features(made.after, problem, made.teacher, initial=made.before)
    rows = predict_features(
        made.after.T.tolist(), problem, made.teacher, initial=made.before.T, neurons="rows"
    )
    assert several.risk.shape == (2,)
    assert rows.risk == pytest.approx(several.risk, rel=1e-12)
    one = predict_features(
        made.after, problem.replace(ridge=0.5), made.teacher, initial=made.before
    )
    assert isinstance(one.risk, float)
    assert one.risk == pytest.approx(several.risk[1], rel=1e-12)
    assert (
        one.kappa.shape
        == one.learned_function.shape
        == one.target_function.shape
        == one.error_by_kappa.shape
    )
    assert one.alignments[0, 0] > 0.5
    assert several.learned_function.shape == (2, len(one.kappa))
    table = one.to_dict()
    assert table["risk"] == one.risk
    assert table["directions"]["count"] == 1
    assert "directions conditioned on" in str(one)
    assert "<table>" in one._repr_html_()


def test_covariance_is_a_change_of_coordinates(layer: tuple[Any, Problem]) -> None:
    made, problem = layer
    problem = problem.replace(ridge=0.1)
    generator = np.random.default_rng(0)
    root = generator.standard_normal((60, 60)) / np.sqrt(60) + np.eye(60)
    covariance = root @ root.T
    same = predict_features(made.after, problem, made.teacher, covariance=np.eye(60))
    assert same.risk == pytest.approx(
        predict_features(made.after, problem, made.teacher).risk, rel=1e-9
    )
    # A teacher whose direction keeps norm 1 in the other coordinates.
    inside = generator.standard_normal(60)
    inside /= np.linalg.norm(inside)
    outside = np.linalg.solve(root.T, inside)
    size = np.linalg.norm(outside)
    moved = predict_features(made.after, problem, outside / size, covariance=covariance * size**2)
    plain = predict_features(size * root.T @ made.after, problem, inside)
    assert moved.risk == pytest.approx(plain.risk, rel=1e-7)
    first = np.eye(60)[:, :1]
    given = predict_features(
        made.after, problem, outside / size, covariance=covariance * size**2, directions=first
    )
    turned = predict_features(
        size * root.T @ made.after, problem, inside, directions=root.T @ first
    )
    assert given.risk == pytest.approx(turned.risk, rel=1e-7)


def test_ridgeless() -> None:
    problem = Problem(
        student="relu", teacher="tanh", alpha=0.6, beta=1.5, step=1.0, ridge=(0, 1e-8), noise=0.1
    )
    made = first_layer(problem, 80)
    found = predict_features(made.after, problem, made.teacher)
    assert found.risk[0] == pytest.approx(found.risk[1], rel=1e-4)
    assert found.training_error[0] == 0
    under = predict_features(made.after, problem.replace(alpha=3.0), made.teacher)
    assert under.risk[0] == pytest.approx(under.risk[1], rel=1e-4)
    assert under.training_error[0] > 0


def test_interpolation_peak_is_refused() -> None:
    problem = Problem(
        student="relu", teacher="tanh", alpha=1.5, beta=1.5, step=1.0, ridge=0, noise=0.1
    )
    made = first_layer(problem, 80)
    with pytest.raises(firststep.NotConverged, match="larger ridge"):
        predict_features(made.after, problem, made.teacher)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_planted_directions_are_found(count: int) -> None:
    generator = np.random.default_rng(count)
    bulk = generator.standard_normal((120, 150)) / np.sqrt(120)
    planted = np.linalg.qr(generator.standard_normal((120, count)))[0]
    weights = bulk + planted @ np.diag([1.0, 0.8, 0.6][:count]) @ generator.standard_normal(
        (count, 150)
    )
    for initial in (None, bulk):
        chosen = choose_directions(weights, initial, "auto")
        assert chosen.count == count
        overlap = np.linalg.svd(chosen.vectors.T @ planted, compute_uv=False)
        assert overlap.min() > 0.95
        assert f"after number {count}" in chosen.reason
    alone = choose_directions(bulk, None, "auto")
    assert alone.count == 1
    assert "no gap" in alone.reason
    exact = np.linalg.svd(weights, compute_uv=False)
    assert leading_singular_vectors(weights, 5)[1][:count] == pytest.approx(exact[:count], rel=1e-6)


def test_more_directions_agree_where_there_is_one(layer: tuple[Any, Problem]) -> None:
    """Conditioning on a direction of the bulk changes the answer by no more than the size of
    finite-size effects.
    """
    made, problem = layer
    risks = [
        predict_features(made.after, problem, made.teacher, directions=k).risk for k in (1, 2, 3)
    ]
    assert risks[1] == pytest.approx(risks[0], rel=0.01)
    assert risks[2] == pytest.approx(risks[0], rel=0.01)


def test_two_directions_matter_where_there_are_two() -> None:
    """Two strong spikes: one direction leaves a strongly non-Gaussian feature, two do not."""
    generator = np.random.default_rng(0)
    d, width = 80, 100
    bulk = generator.standard_normal((d, width)) / np.sqrt(d)
    planted = np.linalg.qr(generator.standard_normal((d, 2)))[0]
    weights = bulk + planted @ (np.array([[1.5], [1.2]]) * generator.standard_normal((2, width)))
    teacher = planted[:, 1]
    problem = Problem(
        student="relu", teacher="cos(z)", alpha=3.0, beta=width / d, ridge=0.05, noise=0.1
    )
    one, two = (
        predict_features(weights, problem, teacher, directions=planted[:, :k]) for k in (1, 2)
    )
    direct = plain_simulation(weights, problem, teacher, draws=24)
    assert abs(two.risk - direct.mean()) < 4 * direct.std(ddof=1) / np.sqrt(24)
    assert abs(one.risk - direct.mean()) > 8 * direct.std(ddof=1) / np.sqrt(24)


def plain_simulation(weights: Array, problem: Problem, teacher: Array, draws: int) -> Array:
    d, width = weights.shape
    n = problem.sizes(d).samples
    generator = np.random.default_rng(5)
    risks = []
    for _ in range(draws):
        inputs, test = generator.standard_normal((n, d)), generator.standard_normal((4000, d))
        labels = problem.teacher(inputs @ teacher) + problem.noise * generator.standard_normal(n)
        features = problem.student(inputs @ weights)
        fitted = np.linalg.solve(
            features.T @ features / n + problem.ridges[0] * np.eye(width), features.T @ labels / n
        )
        risks.append(
            np.mean(
                (problem.student(test @ weights) @ fitted - problem.teacher(test @ teacher)) ** 2
            )
        )
    return np.array(risks)


@pytest.mark.parametrize(
    "student", ["tanh(2*z)", "relu", "abs(z-0.3)+0.2*z", "relu(z)-relu(z-1)", "gelu"]
)
def test_moments_of_many_neurons(student: str) -> None:
    """Closed form or integral, and the table, against a very fine sum."""
    function = firststep.activation(student)
    generator = np.random.default_rng(0)
    bias, strength, scale = (
        generator.standard_normal(40),
        3 * generator.standard_normal(40),
        0.5 + generator.random(40),
    )
    place = np.linspace(-6, 6, 41)[:, None] * np.ones(40)
    family = Family(function.evaluate, function.kinks, bias=bias, strength=strength, scale=scale)
    direct, table = family.moments(place[:, :1]), family.moments(place)
    for one, other in zip(direct, table, strict=True):
        assert other == pytest.approx(one, abs=1e-6 * np.abs(one).max())
    z = np.linspace(-9, 9, 200_001)
    mass = np.exp(-z * z / 2) / np.sqrt(2 * np.pi) * (z[1] - z[0])
    for k, i in ((3, 4), (20, 7), (30, 35)):
        values = function(bias[i] + strength[i] * place[k, i] + scale[i] * z)
        mean, linear, square = mass @ values, mass @ (z * values), mass @ values**2
        for found, value in zip(
            direct, (mean, linear / scale[i], square - mean**2 - linear**2), strict=True
        ):
            assert found[k, i] == pytest.approx(value, abs=1e-6 * np.abs(found).max())


def test_two_terms_of_the_teacher() -> None:
    """E[y^2 | kappa] and the linear part of a sum of two terms, in and outside the directions."""
    generator = np.random.default_rng(0)
    d, width = 80, 100
    planted = np.linalg.qr(generator.standard_normal((d, 3)))[0]
    weights = generator.standard_normal((d, width)) / np.sqrt(d) + 1.2 * np.outer(
        planted[:, 0], generator.standard_normal(width)
    )
    pair = np.stack(
        [0.8 * planted[:, 0] + 0.6 * planted[:, 1], 0.8 * planted[:, 0] - 0.6 * planted[:, 1]],
        axis=1,
    )
    problem = Problem(
        student="tanh(z+0.3)", teacher="relu", alpha=3.0, beta=width / d, ridge=0.05, noise=0.1
    )
    found = predict_features(
        weights, problem, pair, teacher_terms="relu(z)-0.5*z", directions=planted[:, :1]
    )
    target = found.target
    z = generator.standard_normal((4_000_000, 2))
    for place in (len(found.grid.omega) // 2, len(found.grid.omega) // 3):
        at = 0.8 * found.grid.kappa[place, 0]
        y = (
            np.maximum(at + 0.6 * z[:, 0], 0)
            + np.maximum(at - 0.6 * z[:, 0], 0)
            - 0.5 * (at - 0.6 * z[:, 0])
            + 0.1 * z[:, 1]
        )
        assert target[0][place] == pytest.approx(y.mean(), abs=2e-3)
        assert target[2][place] == pytest.approx((y**2).mean(), abs=4e-3)
        # along the one coordinate that the direction leaves of both
        assert target[1][place, 0] == pytest.approx((y * z[:, 0]).mean(), abs=2e-3)
    first, second = problem.teacher, firststep.activation("relu(z)-0.5*z")
    generator = np.random.default_rng(5)
    risks = []
    for _ in range(24):
        inputs, test = generator.standard_normal((240, d)), generator.standard_normal((4000, d))
        truth = [first(x @ pair[:, 0]) + second(x @ pair[:, 1]) for x in (inputs, test)]
        features = problem.student(inputs @ weights)
        right = features.T @ (truth[0] + 0.1 * generator.standard_normal(240)) / 240
        fitted = np.linalg.solve(features.T @ features / 240 + 0.05 * np.eye(width), right)
        risks.append(np.mean((problem.student(test @ weights) @ fitted - truth[1]) ** 2))
    assert abs(found.risk - np.mean(risks)) < 4 * np.std(risks, ddof=1) / np.sqrt(24)


@pytest.mark.parametrize("correlation", [0.0, 0.4, -0.97, 1.0, -1.0])
def test_product_of_two_functions(correlation: float) -> None:
    """Closed form: E relu(z) relu(z') (the arc-cosine kernel), and Mehler's sum for smooth
    functions.
    """
    relu, tanh = firststep.activation("relu"), firststep.activation("tanh(2*z)")
    zero = np.zeros(1)
    angle = np.arccos(correlation)
    found = gaussian_product(
        (relu.evaluate,) * 2, (relu.kinks,) * 2, (zero, zero), (1.0, 1.0), correlation
    )
    assert found[0] == pytest.approx(
        (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi), abs=1e-9
    )
    z, mass = hermegauss(120)
    mass = mass / mass.sum()
    other = correlation * z[:, None] + np.sqrt(1 - correlation**2) * z
    direct = mass @ (tanh(0.3 + 0.5 * z)[:, None] * np.sin(0.2 + other)) @ mass
    functions = (tanh.evaluate, np.sin)
    found = gaussian_product(
        functions, ((), ()), (np.full(1, 0.3), np.full(1, 0.2)), (0.5, 1.0), correlation
    )
    assert found[0] == pytest.approx(direct, abs=1e-7)


def test_no_direction_is_the_gaussian_equivalent(layer: tuple[Any, Problem]) -> None:
    """Noisy linear features: c0_i + c1_i <w_i, x> + noise, moments at each neuron's own norm."""
    made, problem = layer
    found = predict_features(made.after, problem, made.teacher, directions=0)
    assert found.kappa.shape[1] == 0
    assert len(found.grid.omega) == 1
    risk, _ = plain_prediction(
        made.after, problem, made.teacher, np.zeros((60, 0)), 0.5, np.zeros(90)
    )
    assert found.risk[1] == pytest.approx(risk, rel=3e-5)
    assert "Gaussian equivalent" in str(found)
    one = predict_features(made.after, problem, made.teacher)
    assert not np.allclose(one.risk, found.risk, rtol=0.05)
    odd = predict_features(
        made.after, problem.replace(student="tanh"), made.teacher, directions=0
    )  # every mu0 is zero
    assert 0 < odd.risk[1] < 2


NONSENSE = [
    (dict(weights=np.ones(60)), "weights must be a matrix"),
    (dict(weights=np.full((60, 90), np.nan)), "weights must be a matrix of finite"),
    (dict(weights="W1"), "weights must be a matrix of numbers"),
    (dict(weights=np.ones((60, 80))), "beta must be N/d = 80/60"),
    (dict(teacher=np.ones(90) / np.sqrt(90)), 'neurons="rows"'),
    (dict(teacher=np.ones(7)), "teacher must be of 60 numbers"),
    (dict(teacher=np.ones(60)), "teacher must be a direction of norm 1"),
    (dict(initial=np.ones((60, 80))), "initial must be of the shape"),
    (dict(bias=np.ones(3)), "bias must be 90 numbers"),
    (dict(covariance=np.ones((3, 3))), "covariance must be a 60 x 60 matrix"),
    (dict(covariance=-np.eye(60)), "covariance must be a positive semi-definite"),
    (dict(covariance=np.triu(np.ones((60, 60)))), "covariance must be a symmetric"),
    (dict(directions=4), "directions must be a whole number >= 0 and <= 3"),
    (dict(directions=np.ones((60, 2))), "directions must be auto"),
    (dict(directions=np.ones((50, 1))), "directions must be auto"),
    (dict(directions="many"), "directions must be"),
    (dict(neurons="both"), "neurons must be one of"),
    (dict(backend="torch"), "backend must be one of"),
    (dict(device="gpu"), "device must be cpu or auto"),
    (dict(problem="tanh"), "problem must be a Problem"),
]


@pytest.mark.parametrize(("changes", "words"), NONSENSE)
def test_nonsense_is_refused_in_one_line(
    layer: tuple[Any, Problem], changes: dict[str, Any], words: str
) -> None:
    made, problem = layer
    arguments: dict[str, Any] = {
        "weights": made.after,
        "problem": problem,
        "teacher": made.teacher,
        **changes,
    }
    with pytest.raises(InvalidParameter) as caught:
        predict_features(
            arguments.pop("weights"),
            arguments.pop("problem"),
            arguments.pop("teacher"),
            **arguments,
        )
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
