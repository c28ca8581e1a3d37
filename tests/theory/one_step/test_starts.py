"""Newton's method from fewer nodes, the fit of the mean with a set of nodes eliminated, responses a
few at a time: each against the plain way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from firststep import Problem, predict
from firststep.numerics.batches import take
from firststep.numerics.linear_algebra import block_matrix
from firststep.numerics.quadrature import shifted_moments
from firststep.theory.one_step import moments, response, solve, starts
from firststep.theory.one_step.fit import from_above
from firststep.theory.one_step.fit import solve as solve_fit
from firststep.theory.one_step.mean import forms
from firststep.theory.one_step.moments import Conditional, assemble
from firststep.theory.one_step.nodes import choose, rules_for
from firststep.theory.one_step.projection import projection, smoother
from firststep.theory.one_step.question import across, broadcast, model_of, numbers_of
from firststep.theory.one_step.resolvent import equations
from firststep.theory.one_step.system import System, apply, flip

FIELDS: dict[str, Any] = dict(
    teacher="sin(z) + 0.3*(z**2 - 1)",
    alpha=1.7,
    beta=1.2,
    alpha0=2.3,
    step=1.4,
    ridge=0.03,
    noise=0.2,
    readout="gaussian",
)
STUDENTS = ("tanh", "relu", "tanh(z+0.5)")


def parts_of(problem: Problem) -> tuple[Any, ...]:
    """Model, rules and numbers of a problem."""
    values, _ = broadcast(problem, {})
    model = model_of(problem, "exact", True)
    numbers = across(numbers_of(problem, values, model))
    rules = rules_for(model, problem.readout, choose(model, problem.readout, numbers)[0], numbers)
    return model, rules, numbers


def ladder_of(problem: Problem) -> starts.Ladder:
    model, rules, numbers = parts_of(problem)
    given, systems = Conditional.of(model, rules, numbers), []
    for cut in (4e-5, 4e-4):
        systems.append(assemble(model, rules, numbers, given, cut=cut))
        rules, given = starts.thinned(rules, given)
    return starts.Ladder(*systems)


@pytest.mark.parametrize("student", STUDENTS)
@pytest.mark.parametrize("dimension", [np.inf, 300])
def test_the_way_up_ends_where_the_way_down_does(student: str, dimension: float) -> None:
    ladder = ladder_of(Problem(student=student, dimension=dimension, **FIELDS))
    found = starts.raised(ladder, starts.lower(ladder))
    plain = solve_fit(ladder.fine, from_above(ladder.fine))
    assert found.residual[0] < 1e-12
    assert plain.residual[0] < 1e-12
    assert np.allclose(found.shrunk, plain.shrunk, rtol=1e-10, atol=1e-13)
    assert np.allclose(found.state.energy, plain.state.energy, rtol=1e-10, atol=0)
    assert int(found.iterations[0]) < int(plain.iterations[0])


@pytest.mark.parametrize("student", STUDENTS)
def test_a_start_that_leads_astray_is_replaced(
    student: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Problem(student=student, **FIELDS)
    wanted = predict(problem)
    monkeypatch.setattr(starts, "carried", lambda *_: np.nan)
    found = predict(problem)
    assert found.risk == pytest.approx(wanted.risk, rel=1e-10)
    assert found.training_error == pytest.approx(wanted.training_error, rel=1e-10)


@pytest.mark.parametrize("count", [9, 10, 28])
def test_between(count: int) -> None:
    half = np.linspace(-1, 1, count)
    for size in (2 * count - 1, 2 * count):
        full = np.linspace(-1, 1 + (size % 2 == 0) / (count - 1), size)
        found = starts.between((half**2 + half)[None], size)[0]
        assert np.allclose(found[3:-4], (full**2 + full)[3:-4], rtol=0, atol=1e-14)
        assert np.allclose(found, full**2 + full, rtol=0, atol=3.01 / (count - 1) ** 2)


def solved_at(dimension: float, student: str) -> tuple[System, Any]:
    ladder = ladder_of(Problem(student=student, dimension=dimension, **FIELDS))
    return ladder.coarse, starts.lower(ladder)


@pytest.mark.parametrize("student", STUDENTS)
def test_the_common_mode_is_eliminated(student: str) -> None:
    system, solution = solved_at(200, student)
    state, at = solution.state, equations(system.bulk, solution.state)
    fit = projection(system, state, at, forms(system, state, at), solution.shrunk)
    nodes = fit.root.shape[-1]
    assert fit.smooth.shape[-1] * 2 == nodes
    # The whole bordered matrix, both sets of nodes in it.
    root, kernel = fit.root, fit.kernel
    smooth = np.eye(nodes) + root[:, :, None] * kernel * root[:, None, :]
    corner = -fit.slack[:, :, None] * np.eye(fit.slack.shape[-1])
    whole = block_matrix(smooth, fit.directions, flip(fit.directions), corner)
    right = np.random.default_rng(1).normal(size=(1, nodes))
    padded = np.pad(right, ((0, 0), (0, corner.shape[-1])))
    answer = apply(np.linalg.inv(whole), padded)
    nu, weights = fit.solve(right)
    assert np.allclose(np.concatenate([nu, weights], 1), answer, rtol=1e-9, atol=1e-11)
    matrix = np.eye(nodes) - np.linalg.inv(whole)[:, :nodes, :nodes]
    matrix = (matrix / (root[:, :, None] * root[:, None, :]))[0]
    count = system.omega.size
    diagonal, squares = smoother(fit, count)
    wanted = np.diag(matrix).reshape(2, count).sum(0)
    gap = (diagonal[0] - wanted) * solution.shrunk[0]
    assert np.abs(gap).max() < 1e-12 * np.abs(wanted * solution.shrunk[0]).max()
    wanted = (matrix * matrix.T).reshape(2, count, 2, count).sum((0, 2))
    weights = np.outer(solution.shrunk[0], solution.shrunk[0])
    assert np.abs((squares[0] - wanted) * weights).max() < 1e-12 * np.abs(wanted * weights).max()


def test_responses_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    system, solution = solved_at(np.inf, "tanh(z+0.5)")
    several = np.zeros(5, int)
    bulk, state = take(system.bulk, several), take(solution.state, several)
    at = equations(bulk, state)
    whole = response.respond(bulk, state, at)
    monkeypatch.setattr(response, "_AT_ONCE", 1)
    apart = response.respond(bulk, state, at)
    for one, other in zip(whole[:6], apart[:6], strict=True):
        assert np.allclose(one, other, rtol=1e-12, atol=1e-14)
    assert (whole.chord is None) == (apart.chord is None)


@pytest.mark.parametrize("student", ["tanh", "relu"])
def test_moments_by_the_plain_rule(student: str) -> None:
    model, rules, numbers = parts_of(Problem(student=student, **FIELDS))
    found = Conditional.of(model, rules, numbers)
    shift, scale = found.law.spike[:, :, None] * rules.kappa, np.sqrt(found.law.variance)
    rule = rules.student
    wanted = shifted_moments(
        model.student.evaluate, shift, scale[:, :, None], rule.cuts, 2 * rule.nodes
    )
    for one, other in zip(found.student, wanted, strict=True):
        assert np.abs(one - other).max() <= 1e-11 * np.abs(other).max()
    assert (moments._hinge(model.student) is not None) == (student == "relu")


@pytest.mark.parametrize(
    "fields",
    [
        {"ridge": 1e-8},
        {"ridge": 1e4},
        {"alpha": 1.2, "ridge": 1e-6},  # n = N
        {"step": 50.0, "alpha0": 6.0},
        {"dimension": 150, "alpha": 1.2},
        {"dimension": 400, "inputs": "power-law:0.3"},
    ],
)
@pytest.mark.parametrize("student", ["tanh", "relu"])
def test_as_from_above(
    student: str, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers of the start from above at every level, by statuses too."""
    problem = Problem(student=student, **{**FIELDS, **fields})
    ridges = problem.ridge * np.array([1.0, 3.0])
    found = predict(problem, ridge=ridges)
    monkeypatch.setattr(starts, "_carried", lambda *_: None)
    plain = predict(problem, ridge=ridges)
    assert np.array_equal(found.status, plain.status)
    for name in ("risk", "training_error", "degrees_of_freedom"):
        one, other = getattr(found, name), getattr(plain, name)
        assert np.allclose(one, other, rtol=2e-10, atol=0, equal_nan=True), name
    assert solve.raised is starts.raised
