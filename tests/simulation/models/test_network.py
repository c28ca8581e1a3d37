"""The kernel against the plain version, automatic differentiation, and its own invariances."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass

import numpy as np
import pytest

from firststep import (
    InvalidParameter,
    NotConverged,
    NotEnoughMemory,
    Problem,
    Workers,
    input_law,
    simulate,
)
from firststep.simulation.backends import JaxBackend, NumpyBackend, make_backend
from firststep.simulation.data.rows import Data, Key, Replicate
from firststep.simulation.data.teachers import draw_teacher
from firststep.simulation.design import Training, make_design
from firststep.simulation.kinds import MODELS
from firststep.simulation.randomness import HostDraws
from firststep.simulation.running import execute
from firststep.simulation.weights.draw import SpikedLaw, draw_readout, draw_weights, gradient
from firststep.teacher_terms import teacher_terms
from tests.backends import BACKENDS, HAS_JAX, SLOW_IN_JAX, jax, jnp, needs_jax
from tests.simulation import naive

NETWORK_MODELS = tuple(MODELS.where("is_network"))
D, TESTS = 40, 600


def same(left, right, tolerance=0.0):  # type: ignore[no-untyped-def]
    """All measurements agree (timing aside)."""
    for name in left.measurements:
        if name != "replicate_seconds":
            a, b = left.measurements[name], right.measurements[name]
            assert np.array_equal(np.isnan(a), np.isnan(b)), name
            assert np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True), name


VARIANTS = {
    "generic": dict(),
    "dual": dict(alpha=0.6),
    "square": dict(alpha=1.5, ridge=0.3),
    "several ridges": dict(ridge=(1e-3, 0.1, 3.0)),
    "many ridges": dict(ridge="1e-3..10:9"),
    "dual ridges": dict(alpha=0.5, ridge="1e-3..10:9"),
    "sphere": dict(init="sphere", readout="signs"),
    "gaussian readout": dict(readout="gaussian", student="relu", step=2.0),
    "small step": dict(step=2.0, step_exponent=0.0),
    "no step": dict(alpha0=0),
    "sign": dict(student="sign"),
    "tiny": dict(alpha=0.1, beta=0.05, alpha0=0.1, ridge=1.0),
    "one feature": dict(beta=0.03, ridge="1e-3..10:9"),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_agrees_with_the_plain_version(name: str, generic: Problem) -> None:
    problem = generic.replace(**VARIANTS[name])
    found = simulate(problem, D, 2, seed=5, test_samples=TESTS, block=128)
    for number in range(2):
        plain = naive.network(problem, D, 5, number, TESTS)
        assert np.atleast_1d(found.risk.values[number]) == pytest.approx(plain["risk"], rel=1e-9)
        assert np.atleast_1d(found.training_error.values[number]) == pytest.approx(
            plain["training"], rel=1e-8, abs=1e-12
        )
        if problem.takes_step and name != "sign":
            singular = np.linalg.svd(plain["w"] - plain["w0"], compute_uv=False)
            assert found.singular_values_update.values[number, 0] == pytest.approx(
                singular[0], rel=2e-3
            )


@pytest.mark.parametrize(
    "options",
    [
        dict(parameterization="ntk"),
        dict(steps=3),
        dict(steps=3, batches="same"),
        dict(reuse=True),
        dict(steps=2, batches="same", reuse=True, parameterization="ntk"),
    ],
    ids=str,
)
@pytest.mark.parametrize("alpha", [2.0, 0.5])
def test_training_options_agree_with_the_plain_version(
    options: dict[str, object], alpha: float, generic: Problem
) -> None:
    problem = generic.replace(alpha=alpha, alpha0=alpha if options.get("reuse") else 3.0)
    if options.get("parameterization") == "ntk":
        problem = problem.replace(step_exponent=0.0)
    found = simulate(problem, D, 1, seed=3, test_samples=TESTS, **options)
    plain = naive.network(problem, D, 3, 0, TESTS, **options)
    assert found.risk.values[0] == pytest.approx(plain["risk"][0], rel=1e-9)
    assert found.training_error.values[0] == pytest.approx(plain["training"][0], rel=1e-8)


@pytest.mark.parametrize("parameterization", ["mean-field", "ntk"])
@pytest.mark.parametrize("backend_name", BACKENDS)
@pytest.mark.parametrize("student", ["tanh(1.3*z) + 0.4*(z**2-1)", "relu", "gelu", "erf"])
@needs_jax
def test_gradient_step_is_the_gradient_of_the_written_loss(
    parameterization: str, backend_name: str, student: str, generic: Problem
) -> None:
    """G = -sqrt N grad of the mean-field loss (1/2n)|f(X) - y|^2, f = a.s(X W)/sqrt N ([Ba] section
    2.1); -grad for ntk.
    """
    problem = generic.replace(student=student)
    backend = make_backend(backend_name)
    sizes = problem.sizes(30)
    design = make_design(
        problem, "network", Training(parameterization=parameterization), sizes, 100, 128, None
    )
    with backend.scope():
        draws = backend.draws(backend.key(7, 0))
        theta = draw_teacher(backend, draws, 30)
        w0 = draw_weights(backend, draws, design)
        at = draw_readout(backend, draws, problem.readout, sizes.width)
        replicate = Replicate(Key(backend.key(7, 0)), theta, problem.noise)
        got, _ = gradient(Data.of(design, backend, replicate), w0, at, 0)
        x = np.asarray(draws.rows("step inputs", 0, sizes.step_samples, 30))
        noise = np.asarray(draws.vector("step noise", sizes.step_samples))
        w0, at, theta, got = (np.asarray(each) for each in (w0, at, theta, got))
    y = problem.teacher(x @ theta) + problem.noise * noise
    front = 1 / math.sqrt(sizes.width) if parameterization == "mean-field" else 1.0

    def loss(w):  # type: ignore[no-untyped-def]
        hidden = problem.student.evaluate(jnp.asarray(x) @ w)
        outputs = front * hidden @ jnp.asarray(at / math.sqrt(sizes.width))
        return 0.5 * jnp.mean((outputs - y) ** 2)

    with jax.enable_x64(True):
        automatic = np.asarray(jax.grad(loss)(jnp.asarray(w0)))
    expected = -automatic * (math.sqrt(sizes.width) if parameterization == "mean-field" else 1.0)
    assert np.abs(got - expected).max() <= 1e-10 * np.abs(expected).max()


def test_observables_of_the_update(generic: Problem) -> None:
    found = simulate(generic, 60, 1, seed=2, test_samples=100)
    plain = naive.network(generic, 60, 2, 0, 100)
    sizes, draws = generic.sizes(60), HostDraws(2, 0)
    x0, y0 = naive.data(generic, draws, 60, sizes.step_samples, "step", plain["theta"])
    a = plain["at"] / math.sqrt(sizes.width)
    v = (
        x0.T
        @ (y0 - generic.student(x0 @ plain["w0"]) @ a / math.sqrt(sizes.width))
        / sizes.step_samples
    )
    update = plain["w"] - plain["w0"]
    assert found.gradient_norm.values[0] == pytest.approx(np.linalg.norm(v), rel=1e-10)
    assert found.alignment.values[0] == pytest.approx(
        v @ plain["theta"] / np.linalg.norm(v), rel=1e-10
    )
    strength = (v / np.linalg.norm(v)) @ update @ plain["at"] / (plain["at"] @ plain["at"])
    assert found.spike_strength.values[0] == pytest.approx(strength, rel=1e-9)
    g0 = update / (generic.step * sizes.width**0.5 * math.sqrt(sizes.width))
    rank_one = (
        generic.student.moments.linear
        / (sizes.step_samples * math.sqrt(sizes.width))
        * np.outer(x0.T @ y0, a)
    )
    ratio = np.linalg.norm(g0 - rank_one, 2) / np.linalg.norm(g0, 2)
    assert found.rank_one_error.values[0] == pytest.approx(ratio, rel=5e-3)
    left, values, _ = np.linalg.svd(plain["w"])
    assert found.singular_values_weights.values[0] == pytest.approx(values[:2], rel=5e-3)
    assert found.teacher_overlap_weights.values[0] == pytest.approx(
        (left[:, 0] @ plain["theta"]) ** 2, rel=2e-2
    )


def test_learned_function_is_the_binned_prediction(generic: Problem) -> None:
    problem = generic.replace(ridge=(0.05, 1.0))
    found = simulate(problem, D, 1, seed=4, test_samples=5000)
    assert found.learned_function.values.shape == (1, 2, 24)
    assert found.kappa_counts.values.sum() == pytest.approx(5000 * 0.9973, rel=0.01)
    middle = np.abs(found.kappa) < 1.5
    aligned = found.alignment.mean
    expected = [
        np.mean(problem.teacher(aligned * k + math.sqrt(1 - aligned**2) * np.linspace(-4, 4, 81)))
        for k in found.kappa[middle]
    ]
    assert np.corrcoef(found.target_function.mean[middle], expected)[0, 1] > 0.9


# Invariances --------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", NETWORK_MODELS)
def test_workers_order_and_blocks_do_not_matter(model: str, generic: Problem) -> None:
    options = dict(model=model, test_samples=500, seed=11)
    one = simulate(generic, D, 4, workers=1, **options)
    same(one, simulate(generic, D, 4, workers=2, **options))
    tail = simulate(generic, D, 2, workers=1, first_replicate=2, **options)
    assert np.array_equal(one.risk.values[2:], tail.risk.values)
    same(one, simulate(generic, D, 4, workers=1, block=128, **options), 1e-9)
    same(one, simulate(generic, D, 4, workers=1, block=100_000, **options), 1e-9)


def test_seeds_and_replicates_differ(generic: Problem) -> None:
    first = simulate(generic, D, 3, seed=0, test_samples=300)
    assert len(set(first.risk.values)) == 3
    assert not set(first.risk.values) & set(
        simulate(generic, D, 3, seed=1, test_samples=300).risk.values
    )
    assert not set(first.risk.values) & set(
        simulate(generic, D, 3, seed=2**70, test_samples=300).risk.values
    )


@dataclass(frozen=True)
class HostKey:
    """A key of NumPy's streams that compiled code knows: part of the program, no argument of it."""

    seed: int
    replicate: int


if HAS_JAX:
    jax.tree_util.register_static(HostKey)


class JaxOnHostDraws(JaxBackend):
    """JAX arithmetic on NumPy's random numbers: shows that both backends compute the same thing.

    Keys and batches are known when a stage is compiled, and its loops are plain ones.
    """

    fold = NumpyBackend.fold

    def compile(self, function):  # type: ignore[no-untyped-def]
        known = [name for name in inspect.signature(function).parameters if name == "batch"]
        return jax.jit(function, static_argnames=known)

    def key(self, seed, replicate):  # type: ignore[no-untyped-def]
        return HostKey(seed, replicate)

    def draws(self, key):  # type: ignore[no-untyped-def]
        outer, convert = HostDraws(key.seed, key.replicate), self.to_device

        class Converted:
            def __getattr__(self, name):  # type: ignore[no-untyped-def]
                return lambda *arguments, **options: convert(
                    getattr(outer, name)(*arguments, **options)
                )

        return Converted()

    def slice(self, array, start, count):  # type: ignore[no-untyped-def]
        return array[start : start + count]

    def collect(self, rows_of, rows, columns, block):  # type: ignore[no-untyped-def]
        return rows_of(0, rows)


@pytest.mark.parametrize("model", NETWORK_MODELS)
@pytest.mark.parametrize("alpha", [2.5, 0.6])
@needs_jax
def test_numpy_and_jax_compute_the_same_thing(model: str, alpha: float, generic: Problem) -> None:
    problem = generic.replace(alpha=alpha, ridge=(0.0, 0.05, 1.0) if alpha > 1 else (0.05, 1.0))
    sizes = problem.sizes(D)
    design = make_design(problem, model, Training(), sizes, 400, 128, None)
    results = []
    for backend in (NumpyBackend(), JaxOnHostDraws()):
        with backend.scope():
            results.append(design.model(design, backend).replicate(problem, 1, 0))
    for name, expected in results[0].items():
        assert np.allclose(expected, results[1][name], rtol=1e-8, atol=1e-10, equal_nan=True), name


BEYOND = {
    "uniform": dict(inputs="uniform"),
    "student": dict(inputs="student-t:6", model="ntk"),
    "elliptical": dict(inputs="elliptical-t:6", model="conditional"),
    "mixture": dict(inputs="mixture:2", model="linear"),
    "power law": dict(inputs="power-law:1", teacher_terms="relu,tanh"),
    "data": dict(
        inputs=np.random.default_rng(0).standard_normal((900, D)), training=Training(steps=2)
    ),
    "momentum": dict(training=Training(steps=3, optimizer="momentum", batches="same")),
    "adam": dict(training=Training(steps=3, optimizer="adam"), teacher_terms="relu"),
    "whitened": dict(
        inputs="power-law:1", training=Training(steps=2, optimizer="whitened", batches="same")
    ),
    "whitened-exact": dict(
        inputs="power-law:1", training=Training(steps=2, optimizer="whitened-exact", damping=0)
    ),
    "sign": dict(training=Training(optimizer="sign", weight_decay=0.3), teacher_terms="relu"),
    "muon": dict(training=Training(steps=2, optimizer="muon", weight_decay=0.3)),
}


@pytest.mark.parametrize("name", BEYOND)
@needs_jax
def test_numpy_and_jax_compute_the_same_thing_beyond_the_ideal_step(
    name: str, generic: Problem
) -> None:
    asked = {
        "model": "network",
        "inputs": "gaussian",
        "teacher_terms": (),
        "training": Training(),
        **BEYOND[name],
    }
    law, terms = input_law(asked["inputs"]), teacher_terms(asked["teacher_terms"])
    design = make_design(
        generic, asked["model"], asked["training"], generic.sizes(D), 400, 128, None, law, terms
    )
    results = []
    for backend in (NumpyBackend(), JaxOnHostDraws()):
        with backend.scope():
            results.append(design.model(design, backend).replicate(generic, 1, 0))
    for quantity, expected in results[0].items():
        assert np.allclose(expected, results[1][quantity], rtol=1e-7, atol=1e-9, equal_nan=True), (
            quantity
        )


class PlainJax(JaxBackend):
    """JAX's own random numbers, but loops written out block by block."""

    fold = NumpyBackend.fold
    slice = JaxOnHostDraws.slice

    def collect(self, rows_of, rows, columns, block):  # type: ignore[no-untyped-def]
        starts = range(0, rows, block)
        parts = [rows_of(start, min(block, rows - start)) for start in starts]
        return tuple(jnp.concatenate(each) for each in zip(*parts, strict=True))


@pytest.mark.parametrize(
    ("model", "alpha"),
    [pytest.param("network", 2.5, marks=pytest.mark.slow), ("random-features", 1.4)],
)
@needs_jax
def test_compiled_loops_agree_with_plain_ones(model: str, alpha: float, generic: Problem) -> None:
    """More than a block of rows each for the step, the fit (primal and dual) and the test."""
    problem = generic.replace(alpha=alpha)
    design = make_design(problem, model, Training(), problem.sizes(100), 300, 128, None)
    results = []
    for backend in (PlainJax(), JaxBackend()):
        with backend.scope():
            results.append(design.model(design, backend).replicate(problem, 1, 0))
    for name, expected in results[0].items():
        assert np.allclose(expected, results[1][name], rtol=1e-7, atol=1e-9, equal_nan=True), name


# One design for the tests of JAX as it is used: compiled once for all of them.
ON_JAX = dict(backend="jax", test_samples=500, block=128)


@needs_jax
def test_jax_blocks_do_not_matter(generic: Problem) -> None:
    in_one = {**ON_JAX, "block": 4096}
    same(simulate(generic, D, 2, seed=3, **ON_JAX), simulate(generic, D, 2, seed=3, **in_one), 1e-8)


@needs_jax
def test_backends_agree_within_error_bars(generic: Problem) -> None:
    """Different random numbers, same law."""
    left = simulate(generic, D, 60, test_samples=500)
    right = simulate(generic, D, 60, **ON_JAX)
    for name in ("risk", "training_error", "alignment", "spike_strength", "gradient_norm"):
        a, b = getattr(left, name), getattr(right, name)
        assert abs(a.mean - b.mean) < 4 * math.hypot(a.standard_error, b.standard_error), name


@pytest.mark.parametrize("backend", SLOW_IN_JAX)
def test_single_precision_is_close(backend: str, generic: Problem) -> None:
    double = simulate(generic, D, 3, test_samples=500)
    options = dict(test_samples=500) if backend == "numpy" else ON_JAX
    single = simulate(generic, D, 3, dtype="float32", **options)
    if backend == "numpy":  # the same random numbers, rounded
        assert single.risk.values == pytest.approx(double.risk.values, rel=1e-3)
    else:
        assert single.risk.mean == pytest.approx(double.risk.mean, rel=0.5)


@pytest.mark.parametrize("backend", SLOW_IN_JAX)
@pytest.mark.parametrize("student", ["relu", "sigmoid", "softplus"])
def test_single_precision_is_close_or_refused(student: str, backend: str) -> None:
    """Students with a mean have one huge eigenvalue: single precision loses the small ones."""
    problem = Problem(student=student, teacher="sin", alpha=4, beta=3, alpha0=2, ridge=(0.1, 1.0))
    d = 200 if backend == "numpy" else 100
    options = dict(backend=backend, test_samples=1000)
    single = simulate(problem, d, 2, dtype="float32", **options)
    double = simulate(problem, d, 2, test_samples=1000)
    if backend == "numpy":
        assert single.risk.values == pytest.approx(double.risk.values, rel=0.01)
        assert single.training_error.values == pytest.approx(double.training_error.values, rel=0.01)
    else:
        assert single.risk.mean == pytest.approx(double.risk.mean, rel=0.4)
    with pytest.raises(NotConverged, match="float32 cannot resolve a ridge this small"):
        simulate(problem.replace(ridge=1e-8), d, 1, dtype="float32", **options)


def test_long_seeds_keep_all_their_digits(generic: Problem) -> None:
    runs = [
        simulate(generic, 20, 1, seed=seed, test_samples=100).risk.mean
        for seed in (2**53, 2**53 + 1, str(2**53))
    ]
    assert runs[0] != runs[1]
    assert runs[0] == runs[2]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "changes",
    [
        dict(step=1e300),
        dict(noise=1e160),
        dict(student="exp(z)", teacher="sin", step=300),
        dict(teacher="exp(z)", noise=1e200),
    ],
    ids=str,
)
def test_what_overflows_is_refused(
    changes: dict[str, object], backend: str, generic: Problem
) -> None:
    options = dict(test_samples=100) if backend == "numpy" else ON_JAX
    with pytest.raises(NotConverged, match=r"overflow|finite|positive"):
        simulate(generic.replace(**changes), D, 1, **options)


def test_a_readout_of_zeros_takes_no_step(generic: Problem) -> None:
    found = simulate(generic.replace(readout="0:1"), 20, 1, test_samples=100)
    assert found.spike_strength.mean == 0
    assert found.risk.mean == pytest.approx(
        simulate(generic, 20, 1, test_samples=100, model="random-features").risk.mean
    )


def test_conditional_without_a_step_is_not_random_features(generic: Problem) -> None:
    problem = generic.replace(alpha0=0)
    left = simulate(problem, 60, 6, model="conditional")
    right = simulate(problem, 60, 6, model="random-features")
    assert not np.any(left.risk.values == right.risk.values)
    assert left.risk.mean == pytest.approx(right.risk.mean, rel=0.3)


def test_steep_and_kinked_students_have_conditional_features(generic: Problem) -> None:
    for student in ("tanh(20*z)", "abs(sin(3*z))"):
        assert (
            simulate(
                generic.replace(student=student, step=0.3),
                20,
                1,
                model="conditional",
                test_samples=100,
            ).risk.mean
            > 0
        )


@needs_jax
def test_jax_leaves_the_users_settings_alone(generic: Problem) -> None:
    simulate(generic, D, 1, **ON_JAX)
    assert not jax.config.jax_enable_x64
    assert jnp.ones(1).dtype == jnp.float32


def test_callable_activations(generic: Problem) -> None:
    named = simulate(generic.replace(student="tanh"), D, 2, test_samples=300)
    traced = simulate(
        generic.replace(student=lambda z: np.tanh(z)), D, 2, test_samples=300, workers=2
    )
    same(named, traced)


@needs_jax
def test_jax_functions_as_activations(generic: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    named = simulate(generic.replace(student="tanh"), D, 2, test_samples=300)
    foreign = generic.replace(student=lambda z: jnp.tanh(z))
    same(named, simulate(foreign, D, 2, test_samples=300, workers=1), 1e-9)
    assert simulate(foreign, D, 2, test_samples=300, backend="jax").risk.mean > 0
    with pytest.raises(InvalidParameter, match="workers must be 1"):
        simulate(foreign, D, 2, test_samples=300, workers=2)
    monkeypatch.setattr(execute, "_SECONDS_WORTH_A_POOL", 0.0)  # where others get workers
    assert simulate(foreign, D, 2, test_samples=300).options["workers"] == 1


def test_nested_activations_reach_the_workers(generic: Problem) -> None:
    problem = generic.replace(student="gelu(gelu(gelu(gelu(gelu(gelu(z))))))")
    same(
        simulate(problem, 20, 2, test_samples=100, workers=2),
        simulate(problem, 20, 2, test_samples=100, workers=1),
    )


def test_not_a_problem() -> None:
    with pytest.raises(InvalidParameter, match="problem must be a Problem"):
        simulate({"student": "tanh"}, 20)  # type: ignore[arg-type]


def test_shared_workers(generic: Problem) -> None:
    with Workers(2) as workers:
        for seed in range(3):
            same(
                simulate(generic, 20, 3, seed, test_samples=200, workers=workers),
                simulate(generic, 20, 3, seed, test_samples=200),
            )


# Models -------------------------------------------------------------------------------------------


def test_spiked_constants(generic: Problem) -> None:
    """Against averages over samples of the written definitions."""
    law = SpikedLaw.of(generic, generic.sizes(4000))
    rng = np.random.default_rng(0)
    g, eps, z = rng.standard_normal((3, 4_000_000))
    yhat = (
        generic.teacher(g) + generic.noise * eps - generic.readout.mean * generic.student(z).mean()
    )
    slope = generic.student.derivative(z)
    c1 = np.mean(g * yhat)
    norm = math.sqrt(c1**2 + np.mean(yhat**2) / 3)
    assert law.gradient_norm == pytest.approx(norm, rel=3e-3)
    assert law.alignment == pytest.approx(c1 / norm, rel=3e-3)
    assert law.spike_strength == pytest.approx(0.7 * slope.mean() * norm, rel=3e-3)
    assert law.bulk_shift == pytest.approx(0.7 * np.mean(z * slope) * yhat.mean(), rel=1e-2)
    assert law.bulk_variance == pytest.approx(0.49 * slope.var() * np.mean(yhat**2) / 3, rel=3e-3)


def test_spiked_and_network_agree_on_the_spike(generic: Problem) -> None:
    network = simulate(generic, 300, 8, test_samples=100)
    spiked = simulate(generic, 300, 8, test_samples=100, model="spiked")
    for name in ("gradient_norm", "alignment", "spike_strength"):
        estimate = getattr(network, name)
        assert (
            abs(estimate.mean - getattr(spiked, name).mean) < 4 * estimate.standard_error + 0.01
        ), name


def test_conditional_features_follow_the_network(generic: Problem) -> None:
    """Same weights, same data: the conditional-Gaussian risk is near the network's, the linear
    equivalent's is not.
    """
    problem = generic.replace(
        student="tanh", teacher="tanh", step=3.0, readout="ones", alpha=4, alpha0=8
    )
    network = simulate(problem, 300, 4)
    conditional = simulate(problem, 300, 4, model="conditional")
    linear = simulate(problem, 300, 4, model="gaussian")
    assert conditional.risk.mean == pytest.approx(network.risk.mean, rel=0.08)
    assert linear.risk.mean > 1.3 * network.risk.mean


def test_gaussian_equivalence_without_a_step(generic: Problem) -> None:
    problem = generic.replace(alpha0=0, readout="gaussian")
    left = simulate(problem, 250, 12, model="random-features")
    right = simulate(problem, 250, 12, model="gaussian")
    assert left.risk.mean == pytest.approx(right.risk.mean, rel=0.05)


# Refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(replicates=0), "replicates must be a whole number >= 1"),
        (dict(replicates=2.5), "replicates"),
        (dict(seed=-1), "seed must be a whole number >= 0"),
        (dict(model="netwrk"), "did you mean network"),
        (dict(steps=0), "steps must be"),
        (dict(batches="old"), "batches must be one of fresh, same"),
        (dict(parameterization="standard"), "parameterization must be one of mean-field, ntk"),
        (dict(reuse=True), "alpha0 must be equal to alpha with reuse"),
        (dict(reuse=True, steps=2), "batches must be same"),
        (dict(model="spiked", steps=2), "with these training options"),
        (dict(model="linear", reuse=True), "with these training options"),
        (dict(kernel="exp(z)"), "kernel must be given only for"),
        (dict(model="distance-kernel", kernel="exp(x)"), "kernel must be"),
        (dict(backend="torch"), "backend must be one of numpy, jax"),
        (dict(device="gpu"), "try --backend jax"),
        (dict(dtype="float16"), "dtype must be one of float64, float32"),
        (dict(workers=0), "workers must be a whole number >= 1"),
        pytest.param(
            dict(workers=2, backend="jax"),
            "workers must be 1 with the jax backend",
            marks=needs_jax,
        ),
        (dict(threads=0), "threads must be"),
        (dict(test_samples=1), "test-samples must be"),
        (dict(block=0), "block must be"),
        (dict(reuse="no"), "reuse must be True or False"),
        (dict(backend=["numpy"]), "backend must be one of"),
        (dict(test_samples=10**15), "test-samples must be"),
        (dict(first_replicate=2**40), "first-replicate must be"),
    ],
    ids=str,
)
def test_bad_options(options: dict[str, object], words: str, generic: Problem) -> None:
    with pytest.raises(InvalidParameter, match=words):
        simulate(generic, 20, **options)


@needs_jax
@pytest.mark.skipif(HAS_JAX and jax.default_backend() == "gpu", reason="there is a GPU")
def test_a_missing_gpu(generic: Problem) -> None:
    with pytest.raises(
        InvalidParameter, match=r"device must be one that JAX finds here \(cpu\); got gpu"
    ):
        simulate(generic, 20, backend="jax", device="gpu")


@pytest.mark.parametrize("model", ["network", "ntk", "distance-kernel", "linear"])
def test_too_large_is_said_before_starting(model: str, generic: Problem) -> None:
    with pytest.raises(NotEnoughMemory, match=r"needs .* TB and .* GB is free"):
        simulate(generic, 10_000_000, model=model)


def test_too_small_for_the_ratios(generic: Problem) -> None:
    with pytest.raises(
        InvalidParameter, match=r"dimension must be at least 250 for alpha = 0\.002"
    ):
        simulate(generic.replace(alpha=0.002), 100)


def test_smallest_possible(generic: Problem) -> None:
    found = simulate(generic.replace(alpha=0.5, beta=0.5, alpha0=0.5), 2, 2, test_samples=2)
    assert np.all(np.isfinite(found.risk.values))
