"""Networks of a problem with a spectrum of its inputs, against the plain version and closed forms;
what is measured as the inputs see it; and the options that the verbs had before.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firststep import (
    InvalidParameter,
    Problem,
    SpectrumInputs,
    baselines,
    compare,
    compare_features,
    first_layer,
    input_law,
    simulate,
    simulate_features,
    training_path,
)
from firststep.inputs import CovarianceInputs, StructuredInputs
from firststep.simulation.fit.features import chebyshev_basis, conditional_table
from firststep.simulation.kinds import MODELS
from firststep.simulation.randomness import HostDraws
from firststep.simulation.running.spectra import layer_spectrum
from tests.backends import SLOW_IN_JAX, needs_jax
from tests.simulation import naive

D, TESTS = 30, 500
CASES = [
    ("power-law:0.7", "equal"),
    ("power-law:0.7", "random"),
    ("two-level:5:0.3", "top:0.2"),
    ("two-level:0.2:0.4", "bottom:0.5"),
    ("power-law:0.4", "decay:1.5"),
    ("power-law:1", "rise:0.8"),
    ("spectrum", "numbers"),
]
NETWORK_MODELS = [name for name in MODELS.where("is_network") if name != "spiked"]
BASELINES = tuple(MODELS.where("is_baseline"))


def structured(problem: Problem, inputs: str, overlaps: str) -> Problem:
    rng = np.random.default_rng(3)
    law = SpectrumInputs.of(rng.exponential(size=D)) if inputs == "spectrum" else inputs
    numbers = rng.normal(size=D) if overlaps == "numbers" else overlaps
    return problem.replace(inputs=law, teacher_overlaps=numbers)


def spectrum_and_teacher(problem: Problem, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Omega's diagonal and theta of replicate 0, from their definitions."""
    assert isinstance(problem.inputs, StructuredInputs)
    varpi = problem.inputs.eigenvalues(d)
    theta = problem.teacher_overlaps.components(d)
    if problem.teacher_overlaps.is_random:
        theta = HostDraws(seed, 0).vector("teacher", d)
    return varpi, theta / math.sqrt(theta @ (varpi * theta))


def plain(problem: Problem, seed: int, **options: Any) -> tuple[dict[str, Any], np.ndarray]:
    varpi, theta = spectrum_and_teacher(problem, D, seed)
    law = "spectrum:" + ",".join(map(repr, map(float, varpi)))
    return naive.network(problem, D, seed, 0, TESTS, inputs=law, theta=theta, **options), varpi


@pytest.mark.parametrize(("inputs", "overlaps"), CASES)
@pytest.mark.parametrize("alpha", [2.5, 0.6])
def test_networks_agree_with_the_plain_version(
    inputs: str, overlaps: str, alpha: float, generic: Problem
) -> None:
    problem = structured(generic, inputs, overlaps).replace(alpha=alpha, ridge=(0.05, 1.0))
    found = simulate(problem, D, 1, seed=5, test_samples=TESTS, block=128)
    told, varpi = plain(problem, 5)
    assert found.risk.values[0] == pytest.approx(told["risk"], rel=1e-9)
    assert found.training_error.values[0] == pytest.approx(told["training"], rel=1e-8)
    layer = first_layer(problem, D, 5)
    assert layer.after == pytest.approx(told["w"], abs=1e-10)
    assert layer.teacher == pytest.approx(told["theta"], rel=1e-12)
    assert layer.teacher @ (varpi * layer.teacher) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize(("inputs", "overlaps"), CASES[:3])
def test_measurements_are_as_the_inputs_see_them(
    inputs: str, overlaps: str, generic: Problem
) -> None:
    """v, theta and singular vectors from the plain weights, with Omega as a matrix."""
    problem = structured(generic, inputs, overlaps)
    found = simulate(problem, D, 1, seed=5, test_samples=TESTS)
    told, varpi = plain(problem, 5)
    theta, w0, w, at = told["theta"], told["w0"], told["w"], told["at"]
    omega, a = np.diag(varpi), told["at"] / math.sqrt(len(told["at"]))
    draws, n0 = HostDraws(5, 0), problem.sizes(D).step_samples
    law = "spectrum:" + ",".join(map(repr, map(float, varpi)))
    x, y = naive.data(problem, draws, D, n0, "step", theta, law=law)
    v = x.T @ (y - problem.student(x @ w0) @ a / math.sqrt(len(a))) / n0
    length = math.sqrt(v @ omega @ v)

    def close(name: str, expected: float, rel: float = 1e-9) -> None:
        assert getattr(found, name).values[0] == pytest.approx(expected, rel=rel), name

    close("gradient_norm", float(np.linalg.norm(v)))
    close("alignment", theta @ omega @ v / length)
    close("spike_strength", v @ omega @ (w - w0) @ at / (length * (at @ at)))
    for name, matrix in (("weights", w), ("update", w - w0)):
        top = np.linalg.svd(matrix)[0][:, 0]
        cosine = theta @ omega @ top / math.sqrt(top @ omega @ top)
        close(f"teacher_overlap_{name}", cosine**2, rel=5e-3)  # of a Lanczos iteration
    tests = naive.rows(draws, D, TESTS, "test", 0, law)
    kappa = tests @ v / length
    counts = np.histogram(kappa, np.linspace(-3, 3, 25))[0]
    assert np.array_equal(found.kappa_counts.values[0], counts)
    assert np.mean(kappa**2) == pytest.approx(1, abs=5 * math.sqrt(2 / TESTS))


def test_the_step_follows_the_spectrum() -> None:
    """|v|^2 = c1*^2 T_1 + E yh^2/alpha0, |v|_Omega^2 = c1*^2 T_2 + O_2 E yh^2/alpha0 and gamma =
    c1* T_1/|v|_Omega, with O_k = sum_j varpi_j^k/d and T_k = sum_j varpi_j^(k+1) theta_j^2.
    """
    problem = Problem(
        student="tanh",
        teacher="sin(z) + 0.3*z**2",
        alpha=1,
        beta=0.4,
        alpha0=4,
        noise=0.3,
        step=1,
        readout="signs",
        inputs="two-level:3:0.4",
        teacher_overlaps="decay:0.5",
        dimension=400,
    )
    found = simulate(problem, replicates=16, test_samples=100)
    varpi, theta = spectrum_and_teacher(problem, 400, 0)
    o2, shares = np.mean(varpi**2), varpi * theta**2
    t1, t2 = shares @ varpi, shares @ varpi**2
    moments = problem.teacher.moments
    second = moments.second_moment + 0.3**2  # signs: the output before the step has mean zero
    second += problem.student.moments.second_moment / 160  # and this variance
    plain = math.sqrt(moments.linear**2 * t1 + second / 4)
    seen = math.sqrt(moments.linear**2 * t2 + o2 * second / 4)
    spike = math.sqrt(1 / 1) * problem.student.slope_moments.mean * seen
    for name, value in (
        ("gradient_norm", plain),
        ("alignment", moments.linear * t1 / seen),
        ("spike_strength", spike),
    ):
        estimate = getattr(found, name)
        assert abs(estimate.mean - value) < 4 * estimate.standard_error + 0.01 * value, name
        assert estimate.standard_error < 0.02 * value


@pytest.mark.parametrize("model", [*NETWORK_MODELS, *BASELINES])
def test_a_flat_spectrum_is_none(model: str, generic: Problem) -> None:
    """Omega = I by way of a spectrum, and a teacher that is drawn: the numbers of N(0, I)."""
    flat = generic.replace(inputs="two-level:1:0.5", teacher_overlaps="random")
    options = dict(seed=2, model=model, test_samples=TESTS)
    left, right = (simulate(each, D, 2, **options) for each in (generic, flat))
    for name, values in left.measurements.items():
        if name != "replicate_seconds":
            assert right.measurements[name] == pytest.approx(values, rel=1e-6, nan_ok=True), name
    assert math.isnan(right.kernel_lower_bound)
    assert math.isfinite(left.kernel_lower_bound)


@pytest.mark.parametrize("model", [*NETWORK_MODELS, *BASELINES])
@pytest.mark.parametrize("backend", SLOW_IN_JAX)
def test_every_model_has_a_spectrum(model: str, backend: str, generic: Problem) -> None:
    problem = generic.replace(inputs="power-law:0.6", teacher_overlaps="top:0.2")
    options = dict(test_samples=200, backend=backend)
    found = simulate(problem, 20, 2, model=model, **options)
    assert np.all(np.isfinite(found.risk.values))
    assert "power-law:0.6 inputs, teacher top:0.2, " in str(found)
    assert found.options["inputs"] == "power-law:0.6"
    listed = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert listed["problem"]["teacher_overlaps"] == "top:0.2"
    assert Problem(**listed["problem"]) == found.problem


@needs_jax
@pytest.mark.parametrize("overlaps", ["rise:1", pytest.param("random", marks=pytest.mark.slow)])
def test_backends_agree_within_error_bars(overlaps: str, generic: Problem) -> None:
    problem = generic.replace(inputs="power-law:0.6", teacher_overlaps=overlaps)
    options = dict(test_samples=TESTS, block=128)
    left, right = (simulate(problem, D, 30, backend=name, **options) for name in ("numpy", "jax"))
    for name in ("risk", "alignment", "gradient_norm", "spike_strength"):
        a, b = getattr(left, name), getattr(right, name)
        assert abs(a.mean - b.mean) < 4 * math.hypot(a.standard_error, b.standard_error), name


def test_blocks_workers_and_single_precision(generic: Problem) -> None:
    problem = generic.replace(
        student="tanh", inputs="power-law:0.6", teacher_overlaps="decay:1", ridge=1.0
    )
    usual = simulate(problem, D, 2, test_samples=TESTS)
    several = simulate(problem, D, 2, test_samples=TESTS, workers=2)
    assert np.array_equal(several.risk.values, usual.risk.values)
    assert np.array_equal(several.alignment.values, usual.alignment.values)
    blocks = simulate(problem, D, 2, test_samples=TESTS, block=128)
    assert blocks.risk.values == pytest.approx(usual.risk.values, rel=1e-8)
    single = simulate(problem, D, 2, test_samples=TESTS, dtype="float32")
    assert single.risk.values == pytest.approx(usual.risk.values, rel=5e-3)


def test_several_steps_and_none(generic: Problem) -> None:
    """kappa keeps its variance; without a step it is <x, theta>."""
    problem = generic.replace(inputs="power-law:1", teacher_overlaps="top:0.3", dimension=D)
    inside = math.erf(3 / math.sqrt(2))
    for options in (dict(steps=3, optimizer="adam"), dict(model="random-features")):
        found = simulate(problem, replicates=8, test_samples=2000, **options)
        counted = found.kappa_counts.values.sum() / 16_000
        assert abs(counted - inside) < 5 * math.sqrt(inside * (1 - inside) / 16_000)
    told, _ = plain(problem, 4, steps=3, optimizer="adam")
    last = list(training_path(problem, seed=4, steps=3, optimizer="adam", test_samples=TESTS))[-1]
    assert last.after == pytest.approx(told["w"], abs=1e-9)
    found = simulate(problem, seed=4, replicates=1, test_samples=TESTS, steps=3, optimizer="adam")
    assert found.risk.values[0] == pytest.approx(told["risk"][0], rel=1e-9)


def test_conditional_features_know_the_spectrum() -> None:
    """Of z^2 the mean given kappa is u^2 kappa^2 + c, with u = w^T Omega vh, c = w^T Omega w - u^2;
    what is left of the weights sees nothing of kappa.
    """
    rng = np.random.default_rng(0)
    weights, root = rng.normal(size=(12, 5)), rng.exponential(size=12)
    direction = rng.normal(size=12)
    direction /= np.linalg.norm(root * direction)
    square = Problem(student="z**2", teacher="sin", alpha=1, beta=1).student
    mean, _, _, across = conditional_table(square, weights, direction, root)
    along = direction @ np.diag(root**2) @ weights
    width = np.diag(weights.T @ np.diag(root**2) @ weights) - along**2
    kappa = np.array([-1.7, 0.3, 2.2])
    found = chebyshev_basis(kappa, len(mean), np) @ mean
    assert found == pytest.approx(np.outer(kappa**2, along**2) + width, rel=1e-9)
    assert direction @ np.diag(root**2) @ across == pytest.approx(np.zeros(5), abs=1e-12)
    assert np.outer(direction, along) + across == pytest.approx(weights)


def test_other_losses_and_labels() -> None:
    problem = Problem(
        student="tanh",
        teacher="sin",
        alpha=2,
        beta=1,
        labels="sign",
        loss="logistic",
        flip=0.1,
        ridge=0.1,
        inputs="power-law:0.5",
        teacher_overlaps="equal",
    )
    found = simulate(problem, 60, 6, test_samples=2000)
    assert 0.1 < found.error_rate.mean < 0.5
    assert 0 < found.output_alignment.mean < 1
    table = baselines(problem, 40, 1, test_samples=200)
    assert table.bayes_error_rate == pytest.approx(0.1)
    unscaled = baselines(
        problem.replace(inputs="gaussian"), 40, 1, test_samples=200, inputs="power-law:0.5"
    )
    assert math.isnan(unscaled.bayes_error_rate)


# Terms --------------------------------------------------------------------------------------------


def test_terms_of_the_problem_are_those_of_the_option(generic: Problem) -> None:
    own = generic.replace(teacher_terms="relu,z**2")
    left = simulate(own, D, 2, test_samples=TESTS)
    right = simulate(generic, D, 2, test_samples=TESTS, teacher_terms="relu,z**2")
    for name, values in left.measurements.items():
        if name != "replicate_seconds":
            assert np.array_equal(right.measurements[name], values, equal_nan=True), name
    assert left.options == right.options
    assert left.kernel_lower_bound == right.kernel_lower_bound
    assert str(left) == str(right)
    assert np.array_equal(
        first_layer(own, D).after, first_layer(generic, D, teacher_terms="relu,z**2").after
    )
    again = simulate(own, D, 2, test_samples=TESTS, teacher_terms=("relu", "z**2"))
    assert np.array_equal(again.risk.values, left.risk.values)


def test_terms_beside_a_spectrum_are_uncorrelated(generic: Problem) -> None:
    """An option of the simulation: the problem itself takes none."""
    problem = generic.replace(inputs="power-law:1", teacher_overlaps="top:0.1")
    layer = first_layer(problem, D, 7, teacher_terms="relu,tanh")
    varpi, theta = spectrum_and_teacher(problem, D, 7)
    gram = layer.directions.T @ np.diag(varpi) @ layer.directions
    assert gram == pytest.approx(np.eye(3), abs=1e-12)
    assert layer.teacher == pytest.approx(theta)
    found = simulate(problem, D, 1, 7, teacher_terms="relu,tanh", test_samples=100)
    assert found.teacher_overlaps.values[0, 0] == pytest.approx(found.alignment.values[0])


# Given layers, spectra ----------------------------------------------------------------------------


def test_given_layers_take_the_spectrum_of_their_problem(generic: Problem) -> None:
    problem = generic.replace(inputs="power-law:0.6", teacher_overlaps="top:0.2")
    layer = first_layer(problem, D, 3, 1)
    options = dict(seed=3, first_replicate=1, replicates=1, test_samples=TESTS)
    fitted = simulate_features(layer.after, problem, layer.teacher, **options)
    whole = simulate(problem, D, **options)
    assert fitted.risk.values[0] == pytest.approx(whole.risk.values[0], rel=1e-10)
    varpi, _ = spectrum_and_teacher(problem, D, 3)
    same = simulate_features(
        layer.after, problem, layer.teacher, covariance=np.diag(varpi), **options
    )
    assert np.array_equal(same.risk.values, fitted.risk.values)
    with pytest.raises(InvalidParameter, match="covariance must be left out where the problem has"):
        simulate_features(layer.after, problem, layer.teacher, covariance=np.eye(D), **options)
    with pytest.raises(InvalidParameter, match="have the variance 1; got one of standard dev"):
        simulate_features(layer.after, problem, np.eye(D)[0], **options)


def test_predictions_from_the_weights_know_the_spectrum() -> None:
    problem = Problem(
        student="tanh",
        teacher="sin",
        alpha=2,
        beta=1.5,
        alpha0=3,
        ridge=0.05,
        noise=0.1,
        inputs="two-level:6:0.2",
        teacher_overlaps="rise:1",
    )
    layer = first_layer(problem, 120, 1)
    found = compare_features(
        layer.after, problem, layer.teacher, initial=layer.before, replicates=20
    )
    assert found.largest_z < 4
    assert abs(found["risk"].relative) < 0.04
    terms = problem.replace(inputs="gaussian", teacher_overlaps="equal", teacher_terms="relu")
    layer = first_layer(terms, 100, 1)
    several = compare_features(
        layer.after, terms, layer.directions, initial=layer.before, directions=1, replicates=20
    )
    assert several.largest_z < 4
    with pytest.raises(InvalidParameter, match="teacher-terms must be left out"):
        compare_features(layer.after, terms, layer.directions, teacher_terms="tanh")


@pytest.mark.parametrize("alpha", [2.0, 0.5])
def test_spectra_of_layers_see_the_inputs(alpha: float, generic: Problem) -> None:
    problem = generic.replace(alpha=alpha, inputs="power-law:0.6", teacher_overlaps="decay:1")
    found = layer_spectrum(problem, "kernel", D, seed=5)
    told, varpi = plain(problem, 5)
    law = "spectrum:" + ",".join(map(repr, map(float, varpi)))
    n = problem.sizes(D).samples
    features = problem.student(naive.rows(HostDraws(5, 0), D, n, "ridge", 0, law) @ told["w"])
    values = np.linalg.svd(features, compute_uv=False) ** 2 / n
    assert found == pytest.approx(values[: len(found)], rel=1e-8, abs=1e-10)


# Both ways of asking ------------------------------------------------------------------------------


def test_an_option_leaves_the_teacher_as_it_was(generic: Problem) -> None:
    """theta uniform on the unit sphere, as for N(0, I)."""
    law = "power-law:0.7"
    layer = first_layer(generic, D, 5, inputs=law)
    assert np.array_equal(layer.teacher, first_layer(generic, D, 5).teacher)
    found = simulate(generic, D, 1, seed=5, test_samples=TESTS, inputs=law)
    told = naive.network(generic, D, 5, 0, TESTS, inputs=law)
    assert found.risk.values[0] == pytest.approx(told["risk"][0], rel=1e-9)
    own = simulate(generic.replace(inputs=law), D, 1, seed=5, test_samples=TESTS)
    assert own.risk.values[0] != found.risk.values[0]
    again = simulate(generic.replace(inputs=law), D, 1, seed=5, test_samples=TESTS, inputs=law)
    assert np.array_equal(again.risk.values, own.risk.values)
    matrix = CovarianceInputs.of(np.eye(D))
    assert np.isfinite(simulate(generic, D, 1, test_samples=TESTS, inputs=matrix).risk.mean)


@pytest.mark.parametrize("law", ["rademacher", "student-t:5", "mixture:2"])
def test_laws_of_unit_covariance_mean_the_same_both_ways(law: str, generic: Problem) -> None:
    left = simulate(generic, D, 2, test_samples=TESTS, inputs=law)
    for overlaps in ("equal", "random"):
        own = generic.replace(inputs=law, teacher_overlaps=overlaps)
        right = simulate(own, D, 2, test_samples=TESTS)
        assert np.array_equal(right.risk.values, left.risk.values)
        assert np.array_equal(right.alignment.values, left.alignment.values)


def test_data_of_a_problem(tmp_path: Path, generic: Problem) -> None:
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).normal(size=(900, 12)))
    law = input_law(f"{tmp_path / 'rows.npy'},standardize")
    own = generic.replace(inputs=law)
    left, right = (
        simulate(own, replicates=2, test_samples=200),
        simulate(generic, replicates=2, test_samples=200, inputs=law),
    )
    assert np.array_equal(left.risk.values, right.risk.values)
    assert left.dimension == 12
    assert Problem(**own.to_dict()) == own


def test_arrays_of_the_question_have_its_dimension(generic: Problem) -> None:
    spectrum = generic.replace(inputs=SpectrumInputs.of(np.linspace(1, 2, 17)))
    assert simulate(spectrum, replicates=1, test_samples=50).dimension == 17
    numbers = generic.replace(inputs="power-law:1", teacher_overlaps=np.arange(1, 14))
    assert simulate(numbers, replicates=1, test_samples=50).dimension == 13
    for problem in (spectrum, numbers):
        with pytest.raises(InvalidParameter, match="dimension must be"):
            simulate(problem, 15, 1)


@pytest.mark.parametrize(
    ("own", "option", "words"),
    [
        (
            dict(inputs="power-law:0.3"),
            dict(inputs="student-t:5"),
            "inputs must be left out where the problem has inputs power-law:0.3; got student-t:5",
        ),
        (dict(inputs="power-law:0.3"), dict(inputs="gaussian"), "inputs must be left out"),
        (
            dict(teacher_terms="relu"),
            dict(teacher_terms="tanh"),
            "teacher-terms must be left out where the problem has teacher-terms relu; got tanh",
        ),
        (
            dict(inputs="power-law:0.3"),
            dict(model="spiked"),
            "model must be any but spiked with inputs power-law:0.3",
        ),
        (dict(teacher_terms="relu"), dict(model="spiked"), "any but spiked with teacher-terms"),
    ],
)
def test_one_question_has_one_answer(
    own: dict[str, Any], option: dict[str, Any], words: str, generic: Problem
) -> None:
    problem = generic.replace(**own)
    with pytest.raises(InvalidParameter, match=words) as caught:
        simulate(problem, D, 1, **option)
    assert "\n" not in str(caught.value)
    if "model" not in option:
        with pytest.raises(InvalidParameter, match=words):
            first_layer(problem, D, **option)
    with pytest.raises(InvalidParameter):
        compare(problem, D, 1, **option)


def test_a_comparison_has_the_inputs_of_its_problem(generic: Problem) -> None:
    with pytest.raises(InvalidParameter, match=r"Problem\(\.\.\., inputs='power-law:0\.3'\)"):
        compare(generic, D, 1, inputs="power-law:0.3")
    assert compare(generic, D, 1, inputs="gaussian", test_samples=100).quantities
