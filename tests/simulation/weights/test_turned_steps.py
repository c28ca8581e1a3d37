"""Whitened, sign and orthogonalised steps, and weight decay, against a few plain lines each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from firststep import (
    InvalidParameter,
    NotConverged,
    Problem,
    compare,
    first_layer,
    predict,
    simulate,
    training_path,
)
from firststep.inputs import CovarianceInputs, DataInputs, input_law
from firststep.simulation.backends import block_rows, make_backend
from firststep.simulation.design import Training, make_design
from firststep.simulation.kinds import OPTIMIZERS
from firststep.simulation.randomness import HostDraws
from firststep.simulation.weights.whitening import Inverse
from tests.backends import BACKENDS, needs_jax
from tests.memory import bytes_used, needs_proc
from tests.simulation import naive

D, TESTS = 30, 200
TURNED = ("whitened", "whitened-exact", "sign", "muon")


def gradient_of(problem: Problem, d: int = D, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """G and the readout of the first step of the gradient."""
    layer = first_layer(problem, d, optimizer="gradient", **options)
    rate = problem.learning_rate(problem.sizes(d).width)
    return (layer.after - layer.before) / rate, layer.readout


def change_of(problem: Problem, d: int = D, **options: Any) -> np.ndarray:
    """The change of one step over the learning rate."""
    layer = first_layer(problem, d, **options)
    return (layer.after - layer.before) / problem.learning_rate(problem.sizes(d).width)


def step_inputs(problem: Problem, d: int = D, law: str = "gaussian") -> np.ndarray:
    return naive.rows(HostDraws(0, 0), d, problem.sizes(d).step_samples, "step", 0, law)


@pytest.mark.parametrize("optimizer", TURNED)
@pytest.mark.parametrize(
    "options",
    [
        dict(),
        dict(steps=3, weight_decay=0.3),
        dict(steps=3, batches="same", inputs="power-law:1"),
        dict(steps=2, parameterization="ntk", inputs="power-law:0.5"),
    ],
    ids=str,
)
def test_they_agree_with_the_plain_version(
    optimizer: str, options: dict[str, Any], generic: Problem
) -> None:
    ntk = options.get("parameterization") == "ntk"
    problem = generic.replace(step_exponent=0.0) if ntk else generic
    if "white" in optimizer:
        options = options | dict(damping=0.02)
    found = simulate(problem, D, 1, seed=3, test_samples=TESTS, optimizer=optimizer, **options)
    plain = naive.network(problem, D, 3, 0, TESTS, optimizer=optimizer, **options)
    layer = first_layer(problem, D, 3, 0, optimizer=optimizer, **options)
    assert np.abs(layer.after - plain["w"]).max() < 1e-9
    assert found.risk.values[0] == pytest.approx(plain["risk"][0], rel=1e-7)
    along = (plain["w"] - plain["w0"]) @ plain["at"]
    cosine = along @ plain["theta"] / np.linalg.norm(along)
    assert found.update_alignment.values[0] == pytest.approx(cosine, rel=1e-8)
    assert found.options["optimizer"] == optimizer
    assert found.options.get("weight_decay", 0.0) == options.get("weight_decay", 0.0)
    assert found.options.get("damping") == options.get("damping")


@pytest.mark.parametrize("alpha0", [0.4, 3.0])
@pytest.mark.parametrize("optimizer", TURNED)
def test_a_change_has_the_size_of_that_of_the_gradient(
    optimizer: str, alpha0: float, generic: Problem
) -> None:
    problem = generic.replace(alpha0=alpha0)
    size = np.linalg.norm(gradient_of(problem, inputs="power-law:1")[0])
    turned = change_of(problem, optimizer=optimizer, inputs="power-law:1")
    assert np.linalg.norm(turned) == pytest.approx(size, rel=1e-12)


# Whitened -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha0", [0.4, 1.0, 4.0])
@pytest.mark.parametrize("damping", [0.1, 1e-6])
def test_whitening_is_ridge_regression_of_the_residuals(
    alpha0: float, damping: float, generic: Problem
) -> None:
    """In the space of samples: (X^T X/n0 + m)^-1 X^T R/n0 = X^T (X X^T/n0 + m)^-1 R/n0."""
    problem, law = generic.replace(alpha0=alpha0), "power-law:1"
    x, (g, _) = step_inputs(problem, law=law), gradient_of(problem, inputs=law)
    n0 = len(x)
    shift = damping * np.trace(x.T @ x / n0) / D
    pulls = np.linalg.lstsq(x.T / n0, g, rcond=None)[0]  # R: G = X^T R/n0
    expected = x.T @ np.linalg.solve(x @ x.T / n0 + shift * np.eye(n0), pulls / n0)
    expected *= np.linalg.norm(g) / np.linalg.norm(expected)
    found = change_of(problem, optimizer="whitened", damping=damping, inputs=law)
    assert np.abs(found - expected).max() < 1e-7 * np.abs(expected).max()


@pytest.mark.parametrize("alpha0", [0.4, 4.0])
def test_whitening_without_damping_is_the_pseudo_inverse(alpha0: float, generic: Problem) -> None:
    problem = generic.replace(alpha0=alpha0)
    x, (g, _) = step_inputs(problem), gradient_of(problem)
    expected = np.linalg.pinv(x.T @ x / len(x), rcond=1e-12) @ g
    expected *= np.linalg.norm(g) / np.linalg.norm(expected)
    found = change_of(problem, optimizer="whitened", damping=0)
    assert np.abs(found - expected).max() < 1e-9


def test_whitening_a_linear_student_finds_theta_without_noise(generic: Problem) -> None:
    """Linear student and teacher: the residuals are X (theta - w), w that of the network before
    the step, and least squares without damping finds theta - w exactly, where n0 > d.
    """
    problem = generic.replace(student="identity", teacher="identity", noise=0.0)
    layer = first_layer(problem, D, optimizer="whitened", damping=0)
    width = problem.sizes(D).width
    w = layer.before @ layer.readout / width
    expected = (layer.teacher - w) / np.linalg.norm(layer.teacher - w)
    along = (layer.after - layer.before) @ layer.readout
    assert along / np.linalg.norm(along) == pytest.approx(expected, abs=1e-9)


def test_the_exact_covariance(generic: Problem) -> None:
    law = "power-law:1.5"
    g, _ = gradient_of(generic, inputs=law)
    variances = np.arange(1, D + 1) ** -1.5
    variances /= variances.mean()
    for damping in (0.0, 0.1):
        expected = g / (variances[:, None] + damping)
        expected *= np.linalg.norm(g) / np.linalg.norm(expected)
        found = change_of(generic, optimizer="whitened-exact", damping=damping, inputs=law)
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
    # of a covariance I it is the gradient, whatever the law and the damping
    for law in ("gaussian", "mixture:2", "student-t:6"):
        g, _ = gradient_of(generic, inputs=law)
        found = change_of(generic, optimizer="whitened-exact", inputs=law)
        assert found == pytest.approx(g, rel=1e-10, abs=1e-14)


def test_the_exact_covariance_of_a_matrix(generic: Problem) -> None:
    rng = np.random.default_rng(0)
    root = rng.standard_normal((D, D)) / math.sqrt(D)
    c = root @ root.T
    g, _ = gradient_of(generic, inputs=CovarianceInputs.of(c))
    expected = np.linalg.solve(c + 0.1 * np.trace(c) / D * np.eye(D), g)
    expected *= np.linalg.norm(g) / np.linalg.norm(expected)
    found = change_of(generic, optimizer="whitened-exact", inputs=CovarianceInputs.of(c))
    assert found == pytest.approx(expected, rel=1e-7, abs=1e-9)
    singular = CovarianceInputs.of(root[:, :12] @ root[:, :12].T)  # its range is where G is
    g, _ = gradient_of(generic, inputs=singular)
    expected = np.linalg.pinv(root[:, :12] @ root[:, :12].T, rcond=1e-10) @ g
    expected *= np.linalg.norm(g) / np.linalg.norm(expected)
    found = change_of(generic, optimizer="whitened-exact", damping=0, inputs=singular)
    assert np.abs(found - expected).max() < 1e-7


@pytest.mark.parametrize("law", ["gaussian", "uniform", "mixture:1", "power-law:1.5", "covariance"])
def test_laws_know_their_covariance(law: str) -> None:
    """Against the second moments of many rows."""
    rng = np.random.default_rng(3)
    root = rng.standard_normal((4, 4))
    made = CovarianceInputs.of(root @ root.T) if law == "covariance" else input_law(law)
    values, vectors = made.spectrum(4)
    told = np.diag(values) if vectors is None else (vectors * values) @ vectors.T
    rows, g = 200_000, rng.standard_normal((200_000, 4))
    if law == "covariance":
        x = g @ made.shared_arrays(4)[0]
    else:
        x = naive.rows(HostDraws(1, 0), 4, rows, "test", 0, law)
    products = x[:, :, None] * x[:, None, :]
    error = products.std(axis=0) / math.sqrt(rows)
    assert np.all(np.abs(products.mean(axis=0) - told) < 4.5 * error + 1e-9)


def test_an_inverse_drops_what_is_zero_to_rounding() -> None:
    values = np.array([2.0, 1.0, 1e-17, -1e-17])
    assert Inverse.of(values, None, 0.0).values.tolist() == [0.5, 1.0, 0.0, 0.0]
    damped = Inverse.of(values, None, 0.4).values
    assert damped == pytest.approx([1 / 2.3, 1 / 1.3, 1 / 0.3, 1 / 0.3], rel=1e-12)
    assert Inverse.of(np.zeros(3), None, 0.1).values.tolist() == [0.0, 0.0, 0.0]


# Sign and muon ------------------------------------------------------------------------------------


def test_the_sign_step_is_the_first_of_adam_rescaled(generic: Problem) -> None:
    g, _ = gradient_of(generic, 100)
    found = change_of(generic, 100, optimizer="sign")
    assert np.abs(found) == pytest.approx(
        np.full(g.shape, np.linalg.norm(g) / math.sqrt(g.size)), rel=1e-10
    )
    assert np.array_equal(found > 0, g > 0)
    adam = change_of(generic, 100, optimizer="adam")
    cosine = (adam * found).sum() / np.linalg.norm(adam) / np.linalg.norm(found)
    assert cosine > 0.999


def test_entries_of_the_gradient_that_are_zero_stay(generic: Problem) -> None:
    """A readout value of zero: such neurons have no gradient."""
    problem = generic.replace(readout="0:0.5,1:0.5")
    for optimizer in ("sign", "muon", "whitened"):
        layer = first_layer(problem, D, optimizer=optimizer)
        idle = layer.readout == 0
        assert idle.any()
        assert np.abs((layer.after - layer.before)[:, idle]).max() < 1e-13
        assert np.abs((layer.after - layer.before)[:, ~idle]).min() > 1e-6


@pytest.mark.parametrize(("alpha0", "beta"), [(0.3, 1.5), (3.0, 1.5), (3.0, 0.5)])
def test_the_orthogonalised_step_is_the_polar_factor(
    alpha0: float, beta: float, generic: Problem
) -> None:
    """D^T D and D D^T are projectors of rank min(n0, d, N), D^T G is symmetric and positive."""
    problem = generic.replace(alpha0=alpha0, beta=beta)
    g, _ = gradient_of(problem)
    sizes = problem.sizes(D)
    rank = min(sizes.step_samples, D, sizes.width)
    factor = change_of(problem, optimizer="muon") * math.sqrt(rank) / np.linalg.norm(g)
    values = np.linalg.svd(factor, compute_uv=False)
    assert values == pytest.approx([1.0] * rank + [0.0] * (min(g.shape) - rank), abs=1e-9)
    product = factor.T @ g
    assert np.abs(product - product.T).max() < 1e-12
    assert np.linalg.eigvalsh(product).min() > -1e-12
    nuclear = np.linalg.svd(g, compute_uv=False).sum()
    assert np.trace(product) == pytest.approx(nuclear, rel=1e-9)


def test_of_rank_one_the_orthogonalised_step_is_the_gradient(generic: Problem) -> None:
    """Of a linear student G = v a^T; its other singular values are rounding, and left out."""
    problem = generic.replace(student="identity")
    g, _ = gradient_of(problem, 60)
    assert change_of(problem, 60, optimizer="muon") == pytest.approx(g, rel=1e-8, abs=1e-14)


def test_a_student_without_a_slope_stays(generic: Problem) -> None:
    problem = generic.replace(student="sign", teacher="tanh")
    for optimizer in TURNED:
        layer = first_layer(problem, D, optimizer=optimizer)
        assert np.array_equal(layer.after, layer.before)


def test_what_one_flat_step_does_not_have(generic: Problem) -> None:
    one = simulate(generic, D, 2, optimizer="muon", test_samples=TESTS, teacher_terms="relu")
    for name in ("singular_values_update", "teacher_overlap_update", "teacher_overlaps_update"):
        assert np.isnan(getattr(one, name).values).all(), name
    assert np.isfinite(one.teacher_overlap_weights.values).all()
    two = simulate(generic, D, 2, optimizer="muon", steps=2, test_samples=TESTS)
    assert np.isfinite(two.singular_values_update.values).all()
    for optimizer in TURNED:
        found = simulate(generic, D, 1, optimizer=optimizer, test_samples=TESTS)
        assert np.isnan(found.rank_one_error.values).all()
        assert "change of the weights" in str(found)
    without = simulate(generic.replace(step=0), D, 1, optimizer="sign", test_samples=TESTS)
    assert np.isnan(without.update_alignment.values).all()


# Weight decay -------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["gradient", "momentum", "adam", *TURNED])
def test_one_step_with_decay(optimizer: str, generic: Problem) -> None:
    """W1 = (1 - step decay) W0 + what the optimizer adds without it."""
    plain = first_layer(generic, D, optimizer=optimizer)
    decayed = first_layer(generic, D, optimizer=optimizer, weight_decay=0.4)
    expected = plain.after - generic.step * 0.4 * plain.before
    assert np.abs(decayed.after - expected).max() < 1e-13


@pytest.mark.parametrize("optimizer", ["gradient", "momentum", "adam"])
def test_several_steps_with_decay(optimizer: str, generic: Problem) -> None:
    options: dict[str, Any] = dict(optimizer=optimizer, steps=3, weight_decay=0.5, inputs="uniform")
    plain = naive.network(generic, D, 3, 0, TESTS, **options)
    layer = first_layer(generic, D, 3, 0, **options)
    assert np.abs(layer.after - plain["w"]).max() < 1e-10
    found = simulate(generic, D, 1, seed=3, test_samples=TESTS, **options)
    assert found.risk.values[0] == pytest.approx(plain["risk"][0], rel=1e-7)
    assert found.options["weight_decay"] == 0.5


def test_decay_alone_shrinks(generic: Problem) -> None:
    """A student without a slope has no gradient: what is left is (1 - step decay)^t W0."""
    problem = generic.replace(student="sign", teacher="tanh")
    path = list(training_path(problem, D, steps=3, weight_decay=0.5))
    for t, layer in enumerate(path):
        assert layer.after == pytest.approx((1 - 0.7 * 0.5) ** t * layer.before, rel=1e-12)
    gone = first_layer(problem, D, weight_decay=1 / 0.7)
    assert np.abs(gone.after).max() < 1e-15


def test_what_is_measured_of_one_decayed_step(generic: Problem) -> None:
    found = simulate(generic, D, 1, test_samples=TESTS, weight_decay=0.4)
    layer = first_layer(generic, D, weight_decay=0.4)
    singular = np.linalg.svd(layer.after - layer.before, compute_uv=False)
    assert found.singular_values_update.values[0] == pytest.approx(singular[:2], rel=5e-3)
    assert np.isnan(found.rank_one_error.values).all()
    plain = simulate(generic, D, 1, test_samples=TESTS)
    assert np.array_equal(found.alignment.values, plain.alignment.values)
    learned = found.measurements["kappa_counts"], plain.measurements["kappa_counts"]
    assert np.array_equal(*learned)  # along the same direction, that of v
    assert "update_alignment" not in {*found.measurements, *plain.measurements}


# Everywhere ---------------------------------------------------------------------------------------

OPTIONS = dict(steps=2, weight_decay=0.2, inputs="power-law:1", test_samples=TESTS)


@pytest.mark.parametrize("optimizer", TURNED)
def test_single_precision(optimizer: str, generic: Problem) -> None:
    problem = generic.replace(student="tanh", ridge=1.0)
    double, single = (
        simulate(problem, D, 1, dtype=name, optimizer=optimizer, **OPTIONS)
        for name in ("float64", "float32")
    )
    assert single.risk.values == pytest.approx(double.risk.values, rel=2e-2)
    assert single.update_alignment.values == pytest.approx(double.update_alignment.values, abs=2e-2)


@pytest.mark.parametrize("optimizer", TURNED)
def test_rank_is_found_in_single_precision(optimizer: str, generic: Problem) -> None:
    """n0 < d: what has no sample stays without a change, also where rounding left something."""
    problem = generic.replace(alpha0=0.4, student="tanh")
    options: dict[str, Any] = dict(optimizer=optimizer, inputs="power-law:1", test_samples=TESTS)
    double, single = (
        simulate(problem, 60, 1, dtype=name, **options) for name in ("float64", "float32")
    )
    assert single.update_alignment.values == pytest.approx(double.update_alignment.values, abs=1e-3)


@pytest.mark.parametrize("optimizer", TURNED)
def test_blocks_and_workers_do_not_matter(optimizer: str, generic: Problem) -> None:
    options: dict[str, Any] = dict(optimizer=optimizer, **OPTIONS)
    problem = generic.replace(alpha0=12.0)  # 360 samples, more than a block
    one = simulate(problem, D, 2, block=128, workers=1, **options)
    other = simulate(problem, D, 2, block=4096, workers=2, **options)
    assert one.risk.values == pytest.approx(other.risk.values, rel=1e-8)
    assert one.update_alignment.values == pytest.approx(other.update_alignment.values, rel=1e-8)


@needs_jax
@pytest.mark.parametrize("optimizer", TURNED)
def test_backends_agree_within_error_bars(optimizer: str, generic: Problem) -> None:
    """JAX's own random numbers, compiled loops over two blocks."""
    problem = generic.replace(student="tanh", ridge=1.0, alpha0=6.0)
    options: dict[str, Any] = dict(optimizer=optimizer, block=128, **OPTIONS)
    left, right = (simulate(problem, D, 12, backend=name, **options) for name in ("numpy", "jax"))
    for name in ("risk", "update_alignment"):
        a, b = getattr(left, name), getattr(right, name)
        assert abs(a.mean - b.mean) < 4 * math.hypot(a.standard_error, b.standard_error), name


@pytest.mark.parametrize("backend", BACKENDS)
def test_whitening_raises_the_alignment_on_a_steep_spectrum(backend: str) -> None:
    problem = Problem(student="tanh", teacher="tanh", alpha=1, beta=1, alpha0=3, noise=0.1)
    options: dict[str, Any] = dict(inputs="power-law:1", test_samples=50, backend=backend)
    found = {
        name: simulate(problem, 100, 8, optimizer=name, **options).update_alignment
        for name in TURNED
    }
    plain = simulate(problem, 100, 8, **options).alignment
    for name in ("whitened", "whitened-exact", "sign"):
        error = math.hypot(found[name].standard_error, plain.standard_error)
        assert found[name].mean > plain.mean + 5 * error, name
    assert found["whitened"].mean > found["whitened-exact"].mean
    assert found["whitened"].mean > 0.85


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(weight_decay=-1), "weight-decay must be a finite number >= 0; got -1"),
        (dict(weight_decay="much"), "weight-decay must be a finite number >= 0"),
        (dict(weight_decay=1.5), r"weight-decay must be at most 1/step = 1\.429; got 1\.5"),
        (dict(damping=-0.1, optimizer="whitened"), "damping must be a finite number >= 0"),
        (
            dict(damping=0.2, optimizer="sign"),
            "damping must be left at 0.1 with optimizer sign; got 0.2 "
            r"\(it is for whitened or whitened-exact\)",
        ),
        (dict(optimizer="whiten"), "did you mean whitened"),
    ],
    ids=str,
)
def test_nonsense_is_one_line(options: dict[str, Any], words: str, generic: Problem) -> None:
    for verb in (simulate, first_layer):
        with pytest.raises(InvalidParameter, match=words) as caught:
            verb(generic, D, **options)
        assert "\n" not in str(caught.value)


def test_whitening_rows_of_a_table(generic: Problem) -> None:
    """The covariance is that of the rows the step takes: a batch for each, or those of the fit."""
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((900, D)) @ np.diag(np.linspace(0.3, 2, D))
    for problem, options in (
        (generic, dict(steps=2)),
        (generic.replace(alpha=3.0), dict(reuse=True)),
    ):
        layer = first_layer(
            problem, inputs=rows, test_samples=TESTS, optimizer="whitened", **options
        )
        plain = naive.network(problem, D, 0, 0, TESTS, table=rows, optimizer="whitened", **options)
        assert np.abs(layer.after - plain["w"]).max() < 1e-10


def test_a_table_of_data_is_no_law(generic: Problem) -> None:
    law = DataInputs.of(np.random.default_rng(0).standard_normal((700, D)), name="rows")
    with pytest.raises(InvalidParameter, match="inputs must be a law that knows its covariance"):
        simulate(generic, inputs=law, optimizer="whitened-exact", test_samples=TESTS)
    simulate(generic, inputs=law, optimizer="whitened", replicates=1, test_samples=TESTS)
    still = generic.replace(step=0)
    simulate(still, inputs=law, optimizer="whitened-exact", replicates=1, test_samples=TESTS)


@pytest.mark.parametrize("optimizer", TURNED)
def test_what_overflows_is_refused(optimizer: str, generic: Problem) -> None:
    """The weights of the first step, or the gradient of the second while W is still finite."""
    for problem in (generic.replace(step=1e300), generic.replace(student="z**3 + z", step=1e85)):
        with pytest.raises(NotConverged, match="overflow"):
            list(training_path(problem, D, steps=2, optimizer=optimizer))


def test_the_theory_does_not_know_them(generic: Problem) -> None:
    for options in (dict(weight_decay=0.1), *(dict(optimizer=name) for name in TURNED)):
        with pytest.raises(InvalidParameter, match="left at its default in a comparison"):
            compare(generic, 20, 2, **options)
        with pytest.raises(InvalidParameter):
            predict(generic, **options)
        with pytest.raises(InvalidParameter, match="with these training options"):
            simulate(generic, 20, 1, model="spiked", **options)


MEASURED = dict(student="tanh", teacher="sin", alpha=1.0, alpha0=1.0, beta=1.0, ridge=0.1)
MEASURED_DIMENSION = 1000


@needs_proc
def test_memory_is_estimated_from_above() -> None:
    problem, d = Problem(**MEASURED), MEASURED_DIMENSION
    sizes = problem.sizes(d)
    block = block_rows(sizes.width, d, make_backend())
    used = bytes_used(MEASURED, d, [dict(optimizer=name, test_samples=100) for name in TURNED])
    for name, peak in zip(TURNED, used, strict=True):
        training = Training(optimizer=name)
        design = make_design(problem, "network", training, sizes, 100, block)
        assert 0.9 * peak < design.memory(8) < 3 * peak, name
        assert OPTIMIZERS[name].work(sizes) >= 0
