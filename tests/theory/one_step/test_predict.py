"""``predict`` against an independent transcription of the equations, closed forms and reference
networks, and its own promises.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firststep import InvalidParameter, NotConverged, Problem, predict, small_step
from firststep.theory.one_step import fit as ridge_equations
from firststep.theory.one_step import question as verb
from firststep.theory.one_step import solve as solver
from firststep.theory.one_step.nodes import choose
from firststep.theory.one_step.predict import step_constants
from tests.theory import oracle

DATA = Path(__file__).parents[2] / "data"
ORACLE = json.loads((DATA / "theory_oracle.json").read_text())
ORACLE = ORACLE if isinstance(ORACLE, list) else ORACLE["entries"]
REFERENCE = json.loads((DATA / "reference.json").read_text())["entries"]


def solve(problem: Problem, bulk: str = "exact", **changes: Any) -> solver.Point:
    """One problem, with the model changed: at finite d the oracle has neither the common mode of
    |x|^2 nor the own output, and all d dimensions in its bulk.
    """
    values, _ = verb.broadcast(problem, {})
    steps = bool(verb.moves(problem, values)[0])
    model = verb.model_of(problem, bulk, steps)._replace(**changes)
    return solver.solve(model, problem.readout, verb.numbers_of(problem, values, model))[0]


def _same_model(entry: dict[str, Any]) -> bool:
    """The network's isotropic approximation with Gaussian rows is another model than ours; at
    finite d no step has no direction.
    """
    problem = entry["problem"]
    other = (
        "exact" in entry["function"]
        and entry["bulk"] == "isotropic"
        and problem["init"] == "gaussian"
    )
    still = problem["step"] == 0 and problem["dimension"] != "inf"
    return not (other or still)


@pytest.mark.parametrize(
    "entry",
    [e for e in ORACLE if _same_model(e)],
    ids=lambda e: f"{e['problem']['student']}, {e['problem']['readout']}",
)
def test_agrees_with_an_independent_transcription(entry: dict[str, Any]) -> None:
    problem = Problem(**entry["problem"])
    small = problem.dimension == np.inf and problem.step_exponent == 0
    found = solve(
        problem,
        entry["bulk"],
        has_common_mode=small and problem.readout.mean != 0,
        has_own_output=False,
    )
    assert found.risk == pytest.approx(entry["risk"], rel=2e-9 + 2 * entry["accuracy"])
    assert found.training_error == pytest.approx(entry["training_error"], rel=1e-6, abs=1e-11)


@pytest.mark.parametrize(
    "changes",
    [
        dict(student="tanh", teacher="tanh", alpha0=0.5, step=4.0, ridge=0.1, dimension=2000),
        dict(student="erf", teacher="sin", alpha0=3.0, step=1.5, ridge=1e-3, init="gaussian"),
        dict(
            student="sin",
            teacher="tanh",
            alpha0=0.8,
            step=2.0,
            ridge=1.0,
            dimension=700,
            init="gaussian",
            noise=0.3,
        ),
    ],
)
def test_agrees_with_the_special_case_of_odd_students(changes: dict[str, Any]) -> None:
    problem = Problem(**{"alpha": 2.0, "beta": 1.3, "readout": "ones", "init": "sphere", **changes})
    found = solve(problem, has_common_mode=False, has_own_output=False)
    expected = oracle.odd_single(problem)
    assert found.risk == pytest.approx(expected["risk"], rel=1e-8)


def test_agrees_with_the_reference_networks() -> None:
    """59 simulated networks at two ridges: each risk within 3 standard errors or 1.5 %, no bias."""
    scores = []
    for entry in REFERENCE:
        fields = (
            "student",
            "teacher",
            "dimension",
            "alpha",
            "beta",
            "alpha0",
            "step",
            "step_exponent",
            "noise",
            "readout",
            "init",
        )
        found = predict(
            Problem(**{name: entry[name] for name in fields}, ridge=tuple(entry["ridge"]))
        )
        for quantity in ("risk", "training_error"):
            mean, error = (
                np.array(entry[f"{quantity}_mean"]),
                np.array(entry[f"{quantity}_standard_error"]),
            )
            theory = getattr(found, quantity)
            off = (np.abs(theory - mean) > 3 * error) & (np.abs(theory / mean - 1) > 0.015)
            assert not off.any(), (entry, theory)
            if quantity == "risk":
                scores.extend((theory - mean) / error)
    assert len(scores) == 118
    assert np.sqrt(np.mean(np.square(scores))) < 1.1


@pytest.mark.parametrize("seed", range(12))
def test_small_steps_and_random_features_agree_with_closed_forms(seed: int) -> None:
    rng = np.random.default_rng(seed)
    students = ("tanh", "relu", "centered(relu)", "gelu", "tanh(z+0.5)", "z+0.9*(z**2-1)")
    readouts = ("gaussian", "ones", "signs", "0:0.5,2:0.5")
    alpha, beta, alpha0, step = 10 ** rng.uniform(-1, 1, 4)
    problem = Problem(
        student=students[seed % 6],
        teacher=("tanh", "centered(relu)", "sin")[seed % 3],
        alpha=alpha,
        beta=beta,
        alpha0=alpha0,
        step=step,
        step_exponent=0,
        ridge=10 ** rng.uniform(-6, 1),
        noise=0.2 * (seed % 2),
        readout=readouts[rng.integers(4)],
        init=("sphere", "gaussian")[seed % 2],
    )
    closed, found = small_step(problem), predict(problem)
    assert found.risk == pytest.approx(closed.risk, rel=1e-8)
    assert found.random_features_risk == pytest.approx(closed.random_features_risk, rel=1e-8)
    assert found.gain == pytest.approx(closed.gain, rel=1e-6, abs=1e-10)


def test_small_step_at_finite_dimension_tends_to_its_limit() -> None:
    problem = Problem(
        student="relu",
        teacher="tanh",
        alpha=2,
        beta=1.5,
        alpha0=2,
        step=2,
        step_exponent=0,
        ridge=0.1,
        noise=0.1,
    )
    limit = predict(problem).risk
    gaps = [abs(predict(problem.replace(dimension=d)).risk - limit) for d in (10**4, 10**6, 10**8)]
    assert gaps[0] < 1e-3 * limit
    assert gaps[1] < gaps[0] / 4  # like 1/sqrt d: the own output of the network
    assert gaps[2] < gaps[1] / 5
    assert gaps[2] < 1e-5 * limit


def test_no_step_does_not_depend_on_what_the_step_would_have_been() -> None:
    base = dict(student="relu", teacher="sin(z) + 0.3*z**2", alpha=2, beta=1, ridge=0.05, noise=0.2)
    risks = [predict(Problem(**base, step=s, alpha0=a)).risk for s, a in ((0, 1), (0, 7), (1, 0))]
    assert risks[1] == pytest.approx(risks[0], rel=1e-13)
    assert risks[2] == pytest.approx(risks[0], rel=1e-13)


@pytest.mark.parametrize(
    ("student", "teacher", "limit"),
    [("tanh", "erf", 1e-8), ("gelu", "sin", 1e-8), ("relu", "abs", 1e-6), ("abs", "sign", 1e-6)],
)
@pytest.mark.parametrize("readout", ["ones", "signs", "gaussian"])
def test_doubling_every_rule_changes_nothing(
    student: str, teacher: str, limit: float, readout: str
) -> None:
    """Against half the spacings, more label nodes, and more student nodes; and the reported error
    covers the true one.
    """
    problem = Problem(
        student=student,
        teacher=teacher,
        alpha=1.7,
        beta=1.2,
        alpha0=1.5,
        step=1.3,
        ridge=0.02,
        noise=0.1,
        readout=readout,
    )
    found = predict(problem)
    values, _ = verb.broadcast(problem, {})
    model = verb.model_of(problem, "exact", True)
    numbers = verb.numbers_of(problem, values, model)
    resolution = choose(model, problem.readout, numbers)[0].finer()
    resolution = resolution._replace(
        student=resolution.student._replace(nodes=2 * resolution.student.nodes)
    )
    resolution = resolution._replace(
        teacher=resolution.teacher._replace(nodes=2 * resolution.teacher.nodes)
    )
    doubled = solver._solve_batch(solver.Batch(model, problem.readout, resolution, numbers))[0]
    gap = abs(found.risk - doubled.risk)
    assert gap <= limit * found.risk
    assert gap <= found.quadrature_error


RIDGES = np.array([1e-8, 1e-4, 1.0, 1e4])


@pytest.mark.parametrize("ratio", [0.05, 1.0, 100.0])
@pytest.mark.parametrize("alpha0", [0.05, 0.7, 100.0])
@pytest.mark.parametrize(
    ("student", "readout"),
    [("tanh", "ones"), ("relu", "signs"), pytest.param("softplus", "ones", marks=pytest.mark.slow)],
)
def test_converges_at_the_interpolation_peak(
    student: str, readout: str, alpha0: float, ratio: float
) -> None:
    """alpha = beta, ridge 1e-8 to 1e4, steps from none to 50, with an atom in the bulk or not."""
    problem = Problem(
        student=student,
        teacher="tanh",
        alpha=ratio,
        beta=ratio,
        alpha0=alpha0,
        noise=0.1,
        readout=readout,
    )
    for step in (0.0, 0.3, 50.0):
        found = predict(problem, ridge=RIDGES, step=step)
        assert list(found.status) == ["converged"] * 4
        assert np.all(found.risk > 0)
        assert np.all(found.training_error > 0)
        assert np.all(found.residual < 1e-9)


@pytest.mark.parametrize(("alpha", "beta"), [(0.05, 100.0), (100.0, 0.05), (2.0, 2.0)])
def test_converges_with_a_gaussian_readout(alpha: float, beta: float) -> None:
    problem = Problem(
        student="relu", teacher="tanh", alpha=alpha, beta=beta, alpha0=0.7, step=2.0, noise=0.1
    )
    found = predict(problem, ridge=RIDGES)
    assert list(found.status) == ["converged"] * 4
    odd = predict(problem.replace(student="tanh", step=20.0), ridge=RIDGES)
    assert list(odd.status) == ["converged"] * 4


def test_converges_where_the_width_is_a_handful_of_neurons() -> None:
    problem = Problem(
        student="gelu",
        teacher="relu",
        alpha=0.5,
        beta=0.5,
        alpha0=1.0,
        step=1.0,
        noise=0.1,
        dimension=40,
    )
    assert list(predict(problem, ridge=RIDGES).status) == ["converged"] * 4


def test_scalar_and_batched_calls_agree() -> None:
    problem = Problem(
        student="relu",
        teacher="tanh",
        alpha=2,
        beta=1,
        alpha0=2,
        step=1,
        ridge=0.02,
        noise=0.1,
        readout="signs",
    )
    alphas, steps = np.geomspace(0.2, 20, 5)[:, None], np.array([0.0, 0.5, 4.0])
    batch = predict(problem, alpha=alphas, step=steps)
    assert batch.shape == (5, 3)
    for i in range(5):
        for j in range(3):
            single = predict(problem, alpha=float(alphas[i, 0]), step=float(steps[j]))
            assert batch.risk[i, j] == pytest.approx(single.risk, rel=1e-10)
            assert batch.training_error[i, j] == pytest.approx(single.training_error, rel=1e-10)
            assert batch[i, j].risk == batch.risk[i, j]
            assert batch[i, j].problem == single.problem
    gaussian = problem.replace(readout="gaussian")
    many = predict(gaussian, ridge=np.geomspace(1e-4, 10, 4))
    for i in range(4):
        assert many.risk[i] == pytest.approx(predict(many[i].problem).risk, rel=1e-10)


def test_never_returns_a_number_it_does_not_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(
        student="relu",
        teacher="tanh",
        alpha=2,
        beta=1,
        alpha0=2,
        step=1,
        ridge=0.02,
        readout="signs",
    )
    monkeypatch.setattr(ridge_equations, "MOST_ITERATIONS", 2)
    with pytest.raises(NotConverged, match="did not converge"):
        predict(problem)
    several = predict(problem, ridge=np.array([0.02, 1.0]))
    assert list(several.status) == ["not converged"] * 2
    assert np.all(np.isnan(several.risk))
    assert np.all(np.isnan(several.training_error))
    monkeypatch.undo()
    monkeypatch.setattr(solver, "RESOLVED", -1.0)
    with pytest.raises(NotConverged, match="could not be resolved"):
        predict(problem)


def test_functions_of_kappa_add_up() -> None:
    for step in (0.0, 1.0):
        problem = Problem(
            student="relu",
            teacher="sin(z) + 0.3*z**2",
            alpha=2,
            beta=1,
            alpha0=2,
            step=step,
            ridge=0.02,
            noise=0.3,
        )
        found = predict(problem)
        point = found.points[0]
        assert np.sum(point.omega * point.error) - 0.09 == pytest.approx(found.risk, rel=1e-12)
        density = np.exp(-(found.kappa**2) / 2)
        density /= density.sum()
        assert np.sum(density * found.error_by_kappa) == pytest.approx(
            found.risk, rel=1e-3
        )  # shown to |kappa| = 5 only
        assert (
            found.kappa.shape
            == found.learned_function.shape
            == found.target_function.shape
            == found.linear_coefficient.shape
        )
    linear = predict(Problem(student="tanh", teacher="z", alpha=50, beta=20, ridge=1e-6, step=0))
    assert np.polyfit(linear.kappa, linear.learned_function, 1)[0] == pytest.approx(1.0, abs=1e-2)
    assert linear.learned_function == pytest.approx(linear.target_function, abs=0.06)


def test_the_mean_features_are_fitted_freely_at_infinite_dimension() -> None:
    """The projection limit: what is left of the target is orthogonal to the mean features; dense
    readouts leave only a parity.
    """
    ones = predict(
        Problem(
            student="tanh",
            teacher="sin",
            alpha=3,
            beta=1,
            alpha0=5,
            step=2,
            ridge=0.1,
            readout="ones",
        )
    ).points[0]
    left = ones.shrunk * (ones.target[0] - ones.learned)
    problem = Problem(
        student="tanh", teacher="sin", alpha=3, beta=1, alpha0=5, step=2, ridge=0.1, readout="ones"
    )
    values, _ = verb.broadcast(problem, {})
    constants = step_constants(problem, "exact", values)
    z = np.linspace(-9, 9, 2001)
    weight = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * (z[1] - z[0])
    feature = (
        np.tanh(
            constants["spike_strength"] * ones.kappa[:, None]
            + np.sqrt(constants["bulk_variance"]) * z
        )
        @ weight
    )
    assert abs(np.sum(left * feature)) < 1e-10 * np.sum(np.abs(left * feature))
    dense = predict(problem.replace(readout="gaussian"))
    middle = np.abs(dense.kappa) < 3
    assert dense.learned_function[middle] == pytest.approx(dense.target_function[middle], abs=2e-3)
    assert np.max(np.abs(ones.learned - ones.target[0])[np.abs(ones.kappa) < 3]) > 0.02


def test_limits_of_many_samples_and_a_strong_ridge() -> None:
    problem = Problem(
        student="tanh",
        teacher="sin(z) + 0.3*z**2",
        alpha=3,
        beta=1,
        alpha0=5,
        step=2,
        ridge=0.1,
        noise=0.2,
        dimension=500,
    )
    target = problem.teacher.moments.second_moment
    heavy = predict(problem, ridge=1e9)
    assert heavy.risk == pytest.approx(target, rel=1e-4)
    assert heavy.training_error == pytest.approx(target + 0.04, rel=1e-4)
    rich = predict(problem.replace(dimension="inf"), alpha=np.array([1e2, 1e3, 1e4]))
    steps = np.abs(np.diff(rich.risk))
    assert steps[1] < steps[0] / 5
    assert rich.training_error[2] == pytest.approx(rich.risk[2] + 0.04, rel=1e-3)
    assert np.all(np.diff(rich.degrees_of_freedom) < 0)


def test_odd_students_do_not_see_the_sign_of_the_readout() -> None:
    problem = Problem(
        student="tanh", teacher="relu", alpha=2, beta=1, alpha0=2, step=2, ridge=0.02, noise=0.1
    )
    assert predict(problem.replace(readout="ones")).risk == pytest.approx(
        predict(problem.replace(readout="signs")).risk, rel=1e-12
    )


def test_the_bulks_differ_and_agree_where_they_must() -> None:
    problem = Problem(
        student="relu",
        teacher="tanh",
        alpha=2,
        beta=1,
        alpha0=0.5,
        step=4,
        ridge=0.01,
        noise=0.1,
        readout="signs",
        init="sphere",
    )
    exact, isotropic = predict(problem).risk, predict(problem, bulk="isotropic").risk
    assert exact / isotropic > 1.15
    small = problem.replace(step_exponent=0)
    assert predict(small).risk == pytest.approx(predict(small, bulk="isotropic").risk, rel=1e-12)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"reuse": True}, "reuse must be left out of predict"),
        ({"steps": 3}, "steps must be left out of predict"),
        ({"alpah": 1.0}, "did you mean alpha"),
        ({"inputs": "power-law:0.3"}, r"inputs must be a field of the problem.*replace\(inputs=…"),
        ({"teacher_terms": "relu"}, r"a field of the problem.*replace\(teacher_terms=…"),
        ({"loss": "huber:1"}, r"loss must be a field of the problem.*replace\(loss=…"),
        ({"ridge": 0.0}, "ridge must be"),
        ({"ridge": [0.1, -1.0]}, "ridge must be finite and > 0; got -1.0"),
        ({"alpha": [1.0, np.nan]}, "alpha must be finite and > 0; got nan"),
        ({"noise": [[-0.1]]}, "noise must be finite and >= 0; got -0.1"),
        ({"alpha": []}, "alpha must be at least one number"),
        (
            {"alpha": [1.0, 2.0], "beta": [1.0, 2.0, 3.0]},
            "fields must be arrays that broadcast together",
        ),
        ({"alpha": "many"}, "alpha must be"),
        ({"step": 1e-9}, "step must be 0, or at least"),
    ],
)
def test_what_it_refuses(fields: dict[str, Any], words: str) -> None:
    problem = Problem(student="tanh", teacher="sin", alpha=3, beta=1, alpha0=2)
    with pytest.raises(InvalidParameter, match=words):
        predict(problem, **fields)


def test_regimes_without_a_limit_are_refused() -> None:
    problem = Problem(student="tanh", teacher="sin", alpha=3, beta=1, alpha0=2, step_exponent=0.75)
    with pytest.raises(InvalidParameter, match=r"step-exponent must be from 0 to 0\.5 at d = inf"):
        predict(problem)
    assert predict(problem.replace(dimension=10**6)).status == "converged"
    with pytest.raises(InvalidParameter, match="bulk must be one of exact, isotropic"):
        predict(problem, bulk="isotopic")


@pytest.mark.parametrize(
    "student", ["sign", "abs", "z", "z**2", "z + 0.5*(z**2-1)", "relu(z-1)", "sin(3*z)"]
)
@pytest.mark.parametrize("teacher", ["sign", "z**2", "tanh"])
def test_unusual_activations(student: str, teacher: str) -> None:
    """Students the gradient does not see, without a linear part, polynomial, oscillating: solved,
    or refused with a reason.
    """
    for readout in ("ones", "gaussian"):
        found = predict(
            Problem(
                student=student,
                teacher=teacher,
                alpha=2,
                beta=1,
                alpha0=1.5,
                step=0.8,
                ridge=0.1,
                noise=0.1,
                readout=readout,
            )
        )
        assert found.status == "converged"
        assert 0 < found.risk < 50


def test_a_prediction_shows_itself() -> None:
    found = predict(
        Problem(
            student="erf",
            teacher="erf",
            alpha=3,
            beta=2,
            ridge=0.01,
            noise=0.1,
            step=4,
            step_exponent=0,
        )
    )
    text = str(found)
    assert "test risk" in text
    assert "converged" in text
    table = found.to_dict()
    json.dumps(table, allow_nan=False)
    asked = (
        "problem risk training_error alignment spike_strength bulk_variance "
        "random_features_risk kernel_lower_bound tau_star status"
    )
    assert set(asked.split()) | {"residual", "iterations", "quadrature_error", "seconds"} <= set(
        table
    )
    assert found.tau_star == pytest.approx(0.0, abs=1e-12)
    assert found.tau_minimiser == pytest.approx(np.sqrt(3), abs=1e-6)
    assert found.outlier > 1 + np.sqrt(2)
    assert 0 < found.outlier_overlap < 1
    several = predict(found.problem, alpha=np.array([1.0, 2.0]))
    assert len(several) == 2
    assert "alpha" in str(several)
    json.dumps(several.to_dict(), allow_nan=False)
    with pytest.raises(AttributeError, match="single points"):
        _ = several.kappa
    assert several[0].kappa.size > 10


@pytest.mark.parametrize("count", [8, 9, 10, 11, 12, 13])
def test_a_finite_readout_law_may_have_any_number_of_values(count: int) -> None:
    """Values close to each other are one value, and d = infinity is the limit of finite d."""
    problem = Problem(student="tanh", teacher="sin", alpha=3, beta=1, alpha0=2, step=2, ridge=0.03)
    finite = problem.replace(noise=0.1, dimension=300)
    law = {1.5 + 1e-4 * float(shift): 1 / count for shift in np.linspace(-1, 1, count)}
    one = predict(finite.replace(readout={1.5: 1.0})).risk
    assert predict(finite.replace(readout=law)).risk == pytest.approx(one, rel=1e-5)
    wide = problem.replace(readout={float(v): 1 / count for v in np.linspace(-1, 3, count)})
    found = predict(wide)
    assert found.quadrature_error < 1e-6 * found.risk
    assert found.risk == pytest.approx(predict(wide.replace(dimension=10**8)).risk, rel=1e-3)


@pytest.mark.parametrize("teacher", ["z + 1", "z + 0.5*(z*z - 1)", "z + 0.5*z*z"])
@pytest.mark.parametrize(
    "student", ["z + 0.3*(z*z - 1)", "z + 0.3*z*z", "sin(z) + 0.3*(z*z - 1)", "z**3 - 3*z"]
)
def test_gaussian_readouts_fit_the_span_of_their_mean_features(student: str, teacher: str) -> None:
    """A centred square has one even mean feature, not a constant and a square."""
    problem = Problem(
        student=student,
        teacher=teacher,
        readout="gaussian",
        alpha=3,
        beta=0.6,
        alpha0=3.8,
        step=1.24,
        ridge=0.009,
        noise=0.3,
    )
    limit, large = (predict(problem.replace(dimension=d)).risk for d in (math.inf, 10**8))
    assert large == pytest.approx(limit, rel=3e-4)


@pytest.mark.parametrize("dimension", [200, math.inf])
def test_a_readout_of_zeros_takes_no_step(dimension: float) -> None:
    asked = Problem(
        student="tanh", teacher="sin", alpha=2, beta=1, step=2, readout="0:1", dimension=dimension
    )
    still = asked.replace(readout="ones", step=0.0)
    found, expected = predict(asked), predict(still)
    assert not asked.moves_weights
    assert found.risk == pytest.approx(expected.risk, rel=1e-12)
    assert found.alignment == 0
