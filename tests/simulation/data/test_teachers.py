"""Teachers of several terms: directions, labels, what one step finds of them, and the baselines."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from firststep import InvalidParameter, Problem, baselines, simulate
from firststep.activations import activation
from firststep.simulation.backends import make_backend
from firststep.simulation.data.teachers import draw_directions
from firststep.simulation.design import Training, make_design
from firststep.simulation.randomness import HostDraws
from firststep.teacher_terms import teacher_terms
from tests.backends import BACKENDS, jnp, needs_jax
from tests.simulation import naive

D, TESTS, TERMS = 30, 400, ("relu", "hermite3", "z**2")


@pytest.mark.parametrize("backend_name", BACKENDS)
def test_directions_are_orthonormal_and_the_first_is_that_of_one_term(
    backend_name: str, generic: Problem
) -> None:
    backend = make_backend(backend_name)

    def directions(terms, d=D):  # type: ignore[no-untyped-def]
        design = make_design(
            generic,
            "network",
            Training(),
            generic.sizes(d),
            2,
            128,
            None,
            teacher_terms=teacher_terms(terms),
        )
        with backend.scope():
            return np.asarray(draw_directions(backend, backend.draws(backend.key(3, 0)), design))

    single, several = directions(()), directions(TERMS)
    assert single.shape == (D,)
    assert np.array_equal(single, several[:, 0])
    assert several.T @ several == pytest.approx(np.eye(4), abs=1e-12)
    assert np.array_equal(directions(TERMS[:1])[:, 1], several[:, 1])
    full = directions(["z"] * 5, 6)
    assert full.T @ full == pytest.approx(np.eye(6), abs=1e-10)
    if backend_name == "numpy":
        assert several == pytest.approx(naive.directions(HostDraws(3, 0), D, 3), abs=1e-12)


@pytest.mark.parametrize("alpha", [2.5, 0.6])
@pytest.mark.parametrize("model", ["network", "random-features"])
def test_agrees_with_the_plain_version(alpha: float, model: str, generic: Problem) -> None:
    problem = generic.replace(alpha=alpha, ridge=(0.05, 1.0))
    found = simulate(
        problem, D, 1, seed=5, test_samples=TESTS, block=128, teacher_terms=TERMS, model=model
    )
    step = {} if model == "network" else {"alpha0": 0}
    plain = naive.network(problem.replace(**step), D, 5, 0, TESTS, teacher_terms=TERMS)
    assert found.risk.values[0] == pytest.approx(plain["risk"], rel=1e-9)
    assert found.training_error.values[0] == pytest.approx(plain["training"], rel=1e-8)
    if model == "network":
        draws = HostDraws(5, 0)
        x, y = naive.data(
            problem, draws, D, problem.sizes(D).step_samples, "step", plain["theta"], terms=TERMS
        )
        a = plain["at"] / math.sqrt(len(plain["at"]))
        v = x.T @ (y - problem.student(x @ plain["w0"]) @ a / math.sqrt(len(a)))
        assert found.teacher_overlaps.values[0] == pytest.approx(
            plain["theta"].T @ v / np.linalg.norm(v), rel=1e-9
        )
        left = np.linalg.svd(plain["w"] - plain["w0"])[0][:, 0]
        assert found.teacher_overlaps_update.values[0] == pytest.approx(
            (plain["theta"].T @ left) ** 2, abs=2e-3
        )
        assert found.teacher_overlaps.values[0, 0] == pytest.approx(
            found.alignment.values[0], rel=1e-12
        )
        assert found.teacher_overlaps_update.values[0, 0] == pytest.approx(
            found.teacher_overlap_update.values[0], rel=1e-12
        )
    else:
        assert np.all(np.isnan(found.teacher_overlaps.values))


def test_one_step_finds_the_mean_direction_of_two_neurons() -> None:
    """Two ReLUs: v tends to sum_j c1_j theta_j plus noise: <vh, theta_j> = c1_j/|v|, |v|^2 = sum_j
    c1_j^2 + E yh^2/alpha0.
    """
    problem = Problem(
        student="tanh", teacher="relu", alpha=1, beta=0.5, alpha0=8, step=1, noise=0.2
    )
    d, count = 300, 16
    found = simulate(problem, d, count, teacher_terms="1.5*relu(z)", test_samples=100)
    relu = activation("relu").moments
    c1 = np.array([relu.linear, 1.5 * relu.linear])
    square = 3.25 * relu.second_moment + 2 * 1.5 * relu.mean**2 + 0.2**2
    norm = math.sqrt(c1 @ c1 + square / 8)
    estimate = found.teacher_overlaps
    assert np.all(np.abs(estimate.mean - c1 / norm) < 4 * estimate.standard_error + 0.003)
    assert np.all(estimate.standard_error < 0.01)
    assert abs(found.gradient_norm.mean - norm) < 4 * found.gradient_norm.standard_error + 0.01
    update = found.teacher_overlaps_update
    assert np.all(np.abs(update.mean - (c1 / norm) ** 2) < 0.03)


def test_the_kernel_bound_of_a_sum(generic: Problem) -> None:
    """Second moment of the sum beyond its mean and its linear part, by sampling; and no linear fit
    beats it.
    """
    found = simulate(generic, D, 2, test_samples=100, teacher_terms=TERMS)
    x = np.random.default_rng(0).standard_normal((400_000, 4))
    y = generic.teacher(x[:, 0]) + sum(
        activation(term)(x[:, j + 1]) for j, term in enumerate(TERMS)
    )
    design = np.hstack([np.ones((len(x), 1)), x])
    residual = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    assert found.kernel_lower_bound == pytest.approx(np.mean(residual**2), rel=0.03)
    assert f"{found.kernel_lower_bound:.6g}" in str(found)


def test_baselines_learn_the_sum(generic: Problem) -> None:
    found = baselines(generic, D, 1, 9, test_samples=TESTS, teacher_terms=TERMS)
    draws, sizes = HostDraws(9, 0), generic.sizes(D)
    theta = naive.directions(draws, D, 3)
    x, y = naive.data(generic, draws, D, sizes.samples, "ridge", theta, terms=TERMS)
    x_test, y_test = naive.data(generic, draws, D, TESTS, "test", theta, terms=TERMS)
    expected = np.mean(
        (Ridge(alpha=sizes.samples * generic.ridge).fit(x, y).predict(x_test) - y_test) ** 2
    )
    assert found["linear"].risk.values[0] == pytest.approx(expected, rel=1e-8)
    assert len({each.risk.mean for each in found}) == 5


def test_no_terms_change_nothing(generic: Problem) -> None:
    plain = simulate(generic, D, 2, test_samples=100)
    for nothing in ((), [], "", None):
        found = simulate(generic, D, 2, test_samples=100, teacher_terms=nothing)
        assert np.array_equal(found.risk.values, plain.risk.values)
        assert set(found.measurements) == set(plain.measurements)
        assert "teacher_terms" not in found.options


def test_texts_and_tables(generic: Problem) -> None:
    assert [str(term) for term in teacher_terms("relu, maximum(z, 0.5*z), tanh(2*z)")] == [
        "relu",
        "maximum(z, 0.5*z)",
        "tanh(2*z)",
    ]
    assert [str(term) for term in teacher_terms(["relu", activation("tanh")])] == ["relu", "tanh"]
    found = simulate(generic, D, 2, test_samples=100, teacher_terms="relu,tanh", workers=2)
    assert "+ relu + tanh (3 directions)" in str(found)
    assert "alignment of the step with each direction" in str(found)
    listed = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert listed["options"]["teacher_terms"] == ["relu", "tanh"]
    assert len(listed["teacher_overlaps"]["mean"]) == 3


@needs_jax
def test_functions_of_jax_as_terms(generic: Problem) -> None:
    foreign = simulate(generic, D, 1, test_samples=100, teacher_terms=(lambda z: jnp.tanh(z),))
    assert foreign.risk.mean == pytest.approx(
        simulate(generic, D, 1, test_samples=100, teacher_terms="tanh").risk.mean, rel=1e-9
    )


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ("relu,", "teacher-terms must be"),
        ("exp(z**2)", "teacher-terms must be an activation that is square integrable"),
        (3, "teacher-terms must be activations"),
        ([3], "teacher-terms must be"),
        (["z"] * D, "teacher-terms must be fewer than the dimension, 30; got 30 terms"),
    ],
    ids=str,
)
def test_nonsense(terms: object, words: str, generic: Problem) -> None:
    with pytest.raises(InvalidParameter, match=words):
        simulate(generic, D, 1, teacher_terms=terms)


def test_the_spiked_model_has_one_direction(generic: Problem) -> None:
    with pytest.raises(InvalidParameter, match="model must be any but spiked with teacher-terms"):
        simulate(generic, D, 1, model="spiked", teacher_terms="relu")
