"""Baselines against direct computations on the same data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge

from firststep import InvalidParameter, NotConverged, Problem, baselines, simulate
from firststep.simulation.kinds import MODELS
from firststep.simulation.randomness import HostDraws
from tests.backends import BACKENDS
from tests.simulation import naive

BASELINES = tuple(MODELS.where("is_baseline"))
D, TESTS, SEED = 25, 400, 9


def sets(problem: Problem):  # type: ignore[no-untyped-def]
    draws, sizes = HostDraws(SEED, 0), problem.sizes(D)
    theta = draws.vector("teacher", D)
    theta /= np.linalg.norm(theta)
    w0 = draws.rows("weights", 0, D, sizes.width) / math.sqrt(D)
    train = naive.data(problem, draws, D, sizes.samples, "ridge", theta)
    return sizes, w0, *train, *naive.data(problem, draws, D, TESTS, "test", theta)


def run(problem: Problem, model: str, **options):  # type: ignore[no-untyped-def]
    return simulate(problem, D, 1, SEED, model=model, test_samples=TESTS, **options)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("alpha", [0.8, 4.0])
@pytest.mark.parametrize("student", ["tanh", "relu"])
def test_ntk_agrees_with_its_features(
    backend: str, alpha: float, student: str, generic: Problem
) -> None:
    """The N d features formed explicitly: (1/sqrt(N d)) vec(s'(W0^T x) x^T), ridge as in [Ba]
    (3.1).
    """
    problem = generic.replace(alpha=alpha, student=student, ridge=(0.01, 1.0))
    sizes, w0, x, y, x_test, y_test = sets(problem)

    def features(inputs):  # type: ignore[no-untyped-def]
        slopes = problem.student.derivative(inputs @ w0)
        return np.einsum("si,sj->sij", slopes, inputs).reshape(len(inputs), -1) / math.sqrt(
            sizes.width * D
        )

    phi, phi_test = features(x), features(x_test)
    if backend == "jax":  # other random numbers: only the law is the same
        assert run(problem, "ntk", backend="jax").risk.mean == pytest.approx(
            run(problem, "ntk").risk.mean, rel=0.8
        )
        return
    found = run(problem, "ntk")
    for column, ridge in enumerate(problem.ridges):
        model = Ridge(
            alpha=sizes.samples * ridge / sizes.width, fit_intercept=False, solver="svd"
        ).fit(phi, y)
        assert found.risk.values[0, column] == pytest.approx(
            np.mean((model.predict(phi_test) - y_test) ** 2), rel=1e-8
        )
        assert found.training_error.values[0, column] == pytest.approx(
            np.mean((model.predict(phi) - y) ** 2), rel=1e-7
        )


@pytest.mark.parametrize(
    ("model", "text", "function"),
    [
        ("inner-product-kernel", "exp(z)", lambda p, q, r: np.exp(p)),
        ("inner-product-kernel", "(1 + z)**3", lambda p, q, r: (1 + p) ** 3),
        ("distance-kernel", "exp(-0.5*z)", lambda p, q, r: np.exp(-0.5 * (q - 2 * p + r))),
        ("distance-kernel", "1/(1 + z)", lambda p, q, r: 1 / (1 + q - 2 * p + r)),
    ],
)
@pytest.mark.parametrize("alpha", [0.8, 4.0])
def test_kernels_agree_with_scikit_learn(
    model: str, text: str, function, alpha: float, generic: Problem
) -> None:  # type: ignore[no-untyped-def]
    problem = generic.replace(alpha=alpha, ridge=(0.01, 1.0))
    _, _, x, y, x_test, y_test = sets(problem)

    def gram(left, right):  # type: ignore[no-untyped-def]
        return function(left @ right.T / D, (left**2).sum(1)[:, None] / D, (right**2).sum(1) / D)

    found = run(problem, model, kernel=text)
    for column, ridge in enumerate(problem.ridges):
        expected = (
            KernelRidge(alpha=ridge, kernel="precomputed")
            .fit(gram(x, x), y)
            .predict(gram(x_test, x))
        )
        assert found.risk.values[0, column] == pytest.approx(
            np.mean((expected - y_test) ** 2), rel=1e-8
        )


@pytest.mark.parametrize("alpha", [0.5, 0.96, 1.0, 4.0])
def test_linear_agrees_with_scikit_learn(alpha: float, generic: Problem) -> None:
    problem = generic.replace(alpha=alpha, ridge=(0.01, 1.0))
    sizes, _, x, y, x_test, y_test = sets(problem)
    found = run(problem, "linear")
    for column, ridge in enumerate(problem.ridges):
        model = Ridge(alpha=sizes.samples * ridge).fit(x, y)
        assert found.risk.values[0, column] == pytest.approx(
            np.mean((model.predict(x_test) - y_test) ** 2), rel=1e-8
        )
        assert found.training_error.values[0, column] == pytest.approx(
            np.mean((model.predict(x) - y) ** 2), rel=1e-7
        )


def test_random_features_is_the_network_without_a_step(generic: Problem) -> None:
    left = run(generic, "random-features")
    assert left.risk.values == pytest.approx(
        run(generic.replace(alpha0=0), "network").risk.values, rel=1e-12
    )
    assert np.isnan(left.alignment.mean)


@pytest.mark.parametrize("model", BASELINES)
def test_ridgeless_and_singular(model: str, generic: Problem) -> None:
    """Ridge 0 in both shapes; identity features have rank d < N, a quadratic kernel has finite
    rank.
    """
    for alpha in (0.5, 3.0):
        problem = generic.replace(alpha=alpha, student="identity", ridge=0.0)
        options = {
            "inner-product-kernel": dict(kernel="z**2 + z"),
            "distance-kernel": dict(kernel="exp(-z)"),
        }.get(model, {})
        found = run(problem, model, **options)
        small = run(problem.replace(ridge=1e-9), model, **options)
        assert found.risk.values == pytest.approx(small.risk.values, rel=1e-3), alpha
        assert found.training_error.values == pytest.approx(
            small.training_error.values, rel=1e-3, abs=1e-9
        )


@pytest.mark.parametrize("model", BASELINES)
def test_no_baseline_beats_the_kernel_bound(model: str, generic: Problem) -> None:
    """[Ba] Prop. 1, best ridge of a grid, many samples: risk near or above the bound, and it gets
    near for the linear model.
    """
    problem = generic.replace(
        teacher="tanh(2*z)", noise=0.0, alpha=6.0, ridge="1e-3..10:7", student="tanh"
    )
    best = simulate(problem, 100, 4, model=model).risk.mean.min()
    assert best > 0.95 * problem.kernel_lower_bound
    if model == "linear":
        assert best < 1.5 * problem.kernel_lower_bound


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_function_that_is_no_kernel_is_refused(backend: str, generic: Problem) -> None:
    for ridge in (0.0, 1e-3, "1e-3..1:9") if backend == "numpy" else (generic.ridge,):
        with pytest.raises(NotConverged, match="not a kernel"):
            run(generic.replace(ridge=ridge), "distance-kernel", kernel="z**2 + z", backend=backend)


def test_baselines_together(generic: Problem) -> None:
    found = baselines(generic, D, 2, SEED, test_samples=TESTS, distance_kernel="exp(-z)")
    assert [each.model for each in found] == list(BASELINES)
    assert found["distance-kernel"].options["kernel"] == "exp(-z)"
    assert found["linear"].risk.values[0] == run(generic, "linear").risk.values[0]
    text = str(found)
    for word in (*BASELINES, "kernel lower bound", "test risk"):
        assert word in text
    assert "<table>" in found._repr_html_()
    listed = found.to_dict()
    assert len(listed["baselines"]) == 5
    with pytest.raises(InvalidParameter, match="did you mean linear"):
        baselines(generic, D, models=["linnear"])
    with pytest.raises(InvalidParameter, match="models must be"):
        baselines(generic, D, models=[])
    with pytest.raises(KeyError):
        found["network"]


def test_classifiers_are_shown_by_their_errors(generic: Problem) -> None:
    """The linear one is scikit-learn's; the table has what was measured, and the Bayes error."""
    ridges = (0.02, 0.3)
    asked = generic.replace(
        labels="sign", loss="logistic", flip=0.1, noise=0.0, ridge=ridges, alpha=4.0
    )
    found = baselines(asked, D, 1, SEED, models=["linear", "ntk"], test_samples=TESTS)
    draws, n = HostDraws(SEED, 0), asked.sizes(D).samples
    theta = draws.vector("teacher", D)
    theta /= np.linalg.norm(theta)
    x, x_test = (
        draws.rows(f"{name} inputs", 0, m, D) for name, m in (("ridge", n), ("test", TESTS))
    )
    chances = [asked.label_probability(each @ theta) for each in (x, x_test)]
    y = np.where(draws.uniform("ridge labels", n) < chances[0], 1.0, -1.0)
    rates = found["linear"].error_rate.values[0]
    for ridge, rate in zip(ridges, rates, strict=True):
        model = LogisticRegression(C=1 / (2 * n * ridge), tol=1e-10, max_iter=1000).fit(x, y)
        says = model.decision_function(x_test) > 0
        wrong = np.where(says, 1 - chances[1], chances[1]).mean()
        assert rate == pytest.approx(wrong, abs=1e-12)
    assert found.head[2:] == ("error rate", "training error rate", "test loss", "training loss")
    first, *_, last = found.rows()
    assert first[:3] == ("linear", "0.02", found["linear"].error_rate.texts()[0])
    assert last[:3] == ("Bayes error", "", "0.1")
    table = found.to_dict()
    assert table["bayes_error_rate"] == pytest.approx(0.1, abs=1e-12)
    assert table["baselines"][0]["error_rate"]["mean"] == list(rates)


def test_tables_of_other_losses_of_real_labels(generic: Problem) -> None:
    found = baselines(generic.replace(loss="huber:0.5"), D, 2, SEED, models=["linear"])
    assert found.head[2:] == ("test loss", "training loss", "test risk")
    assert math.isnan(found.bayes_error_rate)
    assert "Bayes" not in str(found)
    plain = baselines(generic, D, 2, SEED, models=["linear"])
    assert plain.head[2:] == ("test risk", "training error")
    assert not {"test_loss", "bayes_error_rate"} & {
        *plain.to_dict(),
        *plain.to_dict()["baselines"][0],
    }


def test_the_bayes_error_of_other_inputs_is_not_known(generic: Problem) -> None:
    asked = generic.replace(labels="sign", loss="logistic")
    for more in ({"inputs": "rademacher"}, {"teacher_terms": ("z**2 - 1",)}):
        found = baselines(asked, D, 1, SEED, models=["linear"], test_samples=TESTS, **more)
        assert math.isnan(found.bayes_error_rate)
        assert "Bayes" not in str(found)
