"""Laws of the inputs in the kernel: moments against closed forms on both backends, runs against the
plain version, rows of data.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from firststep import InvalidParameter, Problem, baselines, simulate
from firststep.inputs import CovarianceInputs, DataInputs, input_law
from firststep.inputs.laws import interpolate, scale_table, student_table
from firststep.simulation.backends import make_backend
from firststep.simulation.data.rows import Data, InputArrays, Replicate
from firststep.simulation.design import Training, make_design
from firststep.simulation.kinds import MODELS
from tests.backends import BACKENDS, needs_jax
from tests.simulation import naive

NETWORK_MODELS = tuple(MODELS.where("is_network"))
BASELINES = tuple(MODELS.where("is_baseline"))
LAWS = (
    "gaussian",
    "rademacher",
    "uniform",
    "student-t:9",
    "elliptical-t:9",
    "power-law:0.7",
    "mixture:2",
)
D, TESTS = 30, 500


def drawn(
    law,
    rows: int,
    d: int,
    backend_name: str,
    data: str = "ridge",
    batch: int = 0,
    seed: int = 0,
    **changes,
):  # type: ignore[no-untyped-def]
    """Rows as the kernel sees them."""
    backend = make_backend(backend_name)
    problem = Problem(
        student="tanh", teacher="tanh", alpha=rows / d, beta=1, alpha0=changes.pop("alpha0", 1.0)
    )
    training = changes.pop("training", Training())
    design = make_design(
        problem,
        "network",
        training,
        problem.sizes(d),
        changes.pop("tests", 2),
        rows,
        None,
        input_law(law),
    )
    with backend.scope():
        found = Data.of(design, backend, Replicate(InputArrays(design, backend).key(seed, 0)))
        count = {"ridge": rows, "test": design.test_samples, "step": design.sizes.step_samples}[
            data
        ]
        return np.asarray(found.inputs(data, 0, count, batch))


def moments(law: str, d: int):  # type: ignore[no-untyped-def]
    """Variances of the columns, and E x1^4, E x1^2 x2^2 over the squares of variances."""
    kind, _, number = law.partition(":")
    p = float(number or 0)
    variances = np.arange(1, d + 1) ** -p if kind == "power-law" else np.ones(d)
    fourth = {
        "gaussian": 3,
        "rademacher": 1,
        "uniform": 9 / 5,
        "power-law": 3,
        "student-t": 3 * (p - 2) / (p - 4) if p > 4 else 0,
        "elliptical-t": 3 * (p - 2) / (p - 4) if p > 4 else 0,
    }.get(kind, math.nan)
    return (
        variances * d / variances.sum(),
        fourth,
        (p - 2) / (p - 4) if kind == "elliptical-t" else 1.0,
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("law", LAWS)
def test_moments_against_closed_forms(law: str, backend: str) -> None:
    d, count = 4, 300_000
    x = drawn(law, count, d, backend)
    variances, fourth, mixed = moments(law, d)
    scaled = x / np.sqrt(variances)

    def close(sample, expected) -> None:  # type: ignore[no-untyped-def]
        error = sample.std(axis=0) / math.sqrt(count)
        assert np.all(np.abs(sample.mean(axis=0) - expected) < 4.5 * error + 1e-9), law

    close(scaled, 0)
    close(scaled**2, 1)
    close(scaled**3, 0)
    if law.startswith("mixture"):
        key = InputArrays(_design(law, d), make_backend()).key(0, 0)
        if backend == "numpy":
            axis = key.own[0]
            along, across = x @ axis, x @ np.linalg.svd(axis[None])[2][1]
            close(along**4, 3 - 2 * 2**4 / (1 + 2**2) ** 2)
            close(across**4, 3)
            assert kstest_of_two_clusters(along) > 1e-3
        mixed = None
    else:
        close(scaled**4, fourth)
    for i in range(d):
        for j in range(i):
            close(scaled[:, i] * scaled[:, j], 0)
            if mixed is not None:
                close(scaled[:, i] ** 2 * scaled[:, j] ** 2, mixed)


def _design(law: str, d: int):  # type: ignore[no-untyped-def]
    problem = Problem(student="tanh", teacher="tanh", alpha=1, beta=1)
    return make_design(
        problem, "network", Training(), problem.sizes(d), 2, 128, None, input_law(law)
    )


def kstest_of_two_clusters(along: np.ndarray) -> float:
    """Two Gaussians at +-2/sqrt 5 of standard deviation 1/sqrt 5."""
    scale = math.sqrt(5)

    def cdf(z):  # type: ignore[no-untyped-def]
        return (stats.norm.cdf(z * scale - 2) + stats.norm.cdf(z * scale + 2)) / 2

    return float(stats.kstest(along, cdf).pvalue)


@pytest.mark.parametrize("freedom", [2.05, 3.0, 4.5, 30.0, 1e4])
def test_tables_are_quantile_functions_far_into_the_tails(freedom: float) -> None:
    points = np.concatenate([np.linspace(-8.9, 8.9, 997), [-1e-3, 0.0, 1e-3]])
    exact = (
        np.sign(points)
        * stats.t.isf(stats.norm.sf(np.abs(points)), freedom)
        * math.sqrt((freedom - 2) / freedom)
    )
    found = interpolate(np, student_table(freedom), points)
    assert np.abs(found - exact).max() <= 2e-5 * np.abs(exact).max()
    assert np.all(np.abs(found - exact) <= 2e-5 * np.abs(exact) + 2e-6)
    lower = stats.chi2.ppf(stats.norm.sf(points), freedom)
    upper = stats.chi2.isf(stats.norm.cdf(points), freedom)
    scales = np.sqrt((freedom - 2) / np.where(points > 0, lower, upper))
    assert np.exp(interpolate(np, scale_table(freedom), points)) == pytest.approx(scales, rel=2e-5)
    for table in (student_table(freedom), scale_table(freedom)):
        assert np.all(np.diff(table) > 0)
        assert np.all(np.isfinite(table))
        beyond = interpolate(np, table, np.array([-50.0, 50.0]))
        assert beyond == pytest.approx([table[0], table[-1]], rel=1e-3)


@pytest.mark.parametrize("law", LAWS[1:])
@pytest.mark.parametrize("alpha", [2.5, 0.6])
def test_laws_agree_with_the_plain_version(law: str, alpha: float, generic: Problem) -> None:
    problem = generic.replace(alpha=alpha, ridge=(0.05, 1.0))
    found = simulate(problem, D, 1, seed=5, test_samples=TESTS, block=128, inputs=law)
    plain = naive.network(problem, D, 5, 0, TESTS, inputs=law)
    accuracy = 1e-4 if "-t:" in law else 1e-9  # quantiles are interpolated
    assert found.risk.values[0] == pytest.approx(plain["risk"], rel=accuracy)
    assert found.training_error.values[0] == pytest.approx(plain["training"], rel=accuracy)


@pytest.mark.parametrize(
    ("law", "backend"),
    [*((law, "numpy") for law in LAWS[1:]), pytest.param("elliptical-t:9", "jax", marks=needs_jax)],
)
def test_blocks_do_not_matter(law: str, backend: str, generic: Problem) -> None:
    options = dict(inputs=law, test_samples=TESTS, backend=backend)
    small, large = (simulate(generic, D, 1, block=block, **options) for block in (128, 4096))
    assert small.risk.values == pytest.approx(large.risk.values, rel=1e-8)
    assert small.options["inputs"] == law
    assert f"{law} inputs" in str(small)


@pytest.mark.parametrize("model", [*NETWORK_MODELS, *BASELINES[1:]])
def test_every_model_takes_every_law(model: str, generic: Problem) -> None:
    risks = [
        simulate(generic, 12, 1, inputs=law, model=model, test_samples=100).risk.mean
        for law in LAWS
    ]
    assert np.all(np.isfinite(risks))
    assert len(set(risks)) == len(LAWS)


@needs_jax
def test_backends_agree_within_error_bars(generic: Problem) -> None:
    options = dict(inputs="elliptical-t:9", test_samples=TESTS, block=128)  # compiled above
    left, right = (simulate(generic, D, 30, backend=name, **options) for name in ("numpy", "jax"))
    for name in ("risk", "alignment", "gradient_norm"):
        a, b = getattr(left, name), getattr(right, name)
        assert abs(a.mean - b.mean) < 4 * math.hypot(a.standard_error, b.standard_error), name


def test_single_precision(generic: Problem) -> None:
    problem = generic.replace(student="tanh", ridge=1.0)
    for law in LAWS:
        double, single = (
            simulate(problem, D, 1, inputs=law, test_samples=TESTS, dtype=name)
            for name in ("float64", "float32")
        )
        assert single.risk.values == pytest.approx(double.risk.values, rel=5e-3), law


def test_the_kernel_lower_bound_is_for_gaussian_inputs_only(generic: Problem) -> None:
    assert (
        simulate(generic, D, 1, test_samples=100).kernel_lower_bound == generic.kernel_lower_bound
    )
    found = baselines(generic, D, 1, test_samples=100, inputs="uniform", models=["linear"])
    assert math.isnan(found.kernel_lower_bound)
    assert found.to_dict()["kernel_lower_bound"] is None
    assert "kernel lower bound" not in str(found)
    assert "kernel lower bound" not in str(found["linear"])


def test_gaussian_covariance_is_that_of_its_matrix() -> None:
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((5, 5))
    covariance = factor @ factor.T
    x = drawn(CovarianceInputs.of(covariance), 200_000, 5, "numpy")
    assert x.T @ x / len(x) == pytest.approx(covariance, abs=0.03 * np.trace(covariance))
    assert (
        stats.kstest(x @ np.linalg.inv(np.linalg.cholesky(covariance)).T[:, 0], "norm").pvalue
        > 1e-3
    )


@needs_jax
def test_singular_covariances_on_jax() -> None:
    singular = CovarianceInputs.of(np.diag([1.0, 1.0, 0.0]))
    assert np.all(drawn(singular, 100, 3, "jax")[:, 2] == 0)


# Rows of data -------------------------------------------------------------------------------------


def table(rows: int = 2000, d: int = D, seed: int = 1) -> np.ndarray:
    """Distinct rows whose first column is their number."""
    found = np.random.default_rng(seed).standard_normal((rows, d))
    found[:, 0] = np.arange(rows)
    return found


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_of_a_replicate_are_disjoint(backend: str) -> None:
    data = DataInputs.of(table())
    options = dict(training=Training(steps=3), alpha0=6.0, tests=TESTS)
    parts = [
        drawn(data, 300, D, backend, "ridge", **options),
        drawn(data, 300, D, backend, "test", **options),
    ]
    parts += [drawn(data, 300, D, backend, "step", batch, **options) for batch in range(3)]
    assert [len(part) for part in parts] == [300, TESTS, 180, 180, 180]
    numbers = np.concatenate([part[:, 0] for part in parts]).astype(int)
    assert len(set(numbers)) == len(numbers) == 300 + TESTS + 540
    for part in parts:
        assert np.array_equal(part, data.array[part[:, 0].astype(int)])
    other = drawn(data, 300, D, backend, "ridge", seed=1, **options)
    assert len(set(other[:, 0]) & set(parts[0][:, 0])) < 120  # 45 by chance
    without = drawn(data, 300, D, backend, "test", tests=TESTS)
    assert np.array_equal(without, parts[1])


@pytest.mark.parametrize(
    "options",
    [
        dict(),
        dict(steps=2),
        dict(reuse=True),
        dict(steps=2, batches="same", reuse=True, optimizer="adam"),
    ],
    ids=str,
)
def test_data_agree_with_the_plain_version(options: dict[str, object], generic: Problem) -> None:
    problem = generic.replace(alpha0=generic.alpha) if options.get("reuse") else generic
    rows = np.random.default_rng(3).standard_normal((1000, D)) ** 3 / 4
    found = simulate(
        problem, None, 2, seed=5, test_samples=TESTS, block=128, inputs=rows, **options
    )
    for number in range(2):
        plain = naive.network(problem, D, 5, number, TESTS, table=rows, **options)
        assert found.risk.values[number] == pytest.approx(plain["risk"][0], rel=1e-8)
        assert found.training_error.values[number] == pytest.approx(plain["training"][0], rel=1e-7)


def test_data_in_workers_and_in_every_model(generic: Problem) -> None:
    data = DataInputs.of(np.random.default_rng(3).standard_normal((1000, D)))
    options = dict(inputs=data, test_samples=TESTS)
    one, two = (
        simulate(generic, D, 4, workers=1, **options),
        simulate(generic, D, 4, workers=2, **options),
    )
    assert np.array_equal(one.risk.values, two.risk.values)
    assert one.options["inputs"].startswith("array,sha256=")
    assert one.options["inputs_array"] == {
        "name": "array",
        "shape": [1000, D],
        "sha256": data.sha256,
    }
    for model in BASELINES:
        assert np.isfinite(simulate(generic, D, 1, model=model, **options).risk.mean)


@needs_jax
def test_data_on_both_backends(generic: Problem) -> None:
    data = DataInputs.of(np.random.default_rng(3).standard_normal((1000, D)))
    options = dict(inputs=data, test_samples=TESTS)
    host, device = (simulate(generic, D, 4, backend=name, **options) for name in ("numpy", "jax"))
    assert device.risk.mean == pytest.approx(host.risk.mean, rel=0.5)


@pytest.mark.parametrize(
    ("changes", "options", "words"),
    [
        (
            {},
            {},
            r"at least 1095 rows \(75 for the fit, 930 for the test, 90 for the steps\); "
            r"got 1000 rows \(test-samples and",
        ),
        ({}, dict(test_samples=920), r"got 1000 rows \(test-samples and alpha0 leave none\)"),
        (
            {"alpha0": 2.0},
            dict(test_samples=880),
            r"at least 1015 rows .* \(alpha up to 2 would fit\)",
        ),
        (
            {"alpha0": 1.0},
            dict(test_samples=880, steps=2),
            r"got 1000 rows \(alpha up to 2 would fit\)",
        ),
        ({"alpha0": 2.5}, dict(test_samples=970, reuse=True), r"alpha up to 1 would fit"),
    ],
    ids=str,
)
def test_too_few_rows(
    changes: dict[str, float], options: dict[str, object], words: str, generic: Problem
) -> None:
    options = {"test_samples": 930, **options}
    with pytest.raises(InvalidParameter, match=words):
        simulate(
            generic.replace(**changes),
            None,
            1,
            inputs=np.random.default_rng(0).standard_normal((1000, D)),
            **options,
        )


def test_what_the_hint_says_fits(generic: Problem) -> None:
    rows = np.random.default_rng(0).standard_normal((1000, D))
    problem = Problem(student="tanh", teacher="sin", alpha=20, beta=1)
    with pytest.raises(InvalidParameter, match=r"1700 rows .* \(alpha up to 8\.333 would fit\)"):
        simulate(problem, None, 1, inputs=rows, test_samples=500)
    assert (
        simulate(
            problem.replace(alpha=8.333), None, 1, inputs=rows, test_samples=500
        ).sizes.step_samples
        == 250
    )


def test_the_dimension_is_that_of_the_data(generic: Problem) -> None:
    rows = np.random.default_rng(0).standard_normal((1000, D))
    assert simulate(generic, None, 1, inputs=rows, test_samples=100).dimension == D
    with pytest.raises(
        InvalidParameter, match="dimension must be 30, the number of columns of the inputs; got 31"
    ):
        simulate(generic, 31, 1, inputs=rows, test_samples=100)
    with pytest.raises(InvalidParameter, match="dimension must be 30, the number of columns"):
        simulate(generic.replace(dimension=20), None, 1, inputs=rows, test_samples=100)
