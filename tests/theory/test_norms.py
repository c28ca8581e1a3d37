"""How neurons fluctuate where the inputs have a covariance: against a real step, and Omega = 1."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest

from firststep import Problem
from firststep.structure import structure_of
from firststep.theory.medium import ISOTROPIC, Medium, Spectrum
from firststep.theory.norms import norms_in_medium, row_spread
from firststep.theory.one_step.labels import label_rule
from firststep.theory.one_step.mean import forms
from firststep.theory.one_step.resolvent import equations
from firststep.theory.step import StepLaw, _norm_fluctuations, step_law
from firststep.theory.student import slope_constants
from tests.theory.one_step.test_parts import prepared

FIELDS = dict(
    teacher="sin(z) + 0.3*z**2",
    alpha=2,
    alpha0=1,
    step=2,
    ridge=0.1,
    noise=0.2,
    readout="ones",
    inputs="two-level:5:0.2",
)


def structure(problem: Problem) -> Spectrum:
    found = structure_of(problem)
    assert found is not None
    return found


def law_of(problem: Problem, medium: Medium) -> StepLaw:
    """The step of one readout value 1, without the output before it."""
    student, one = problem.student, np.ones(1)
    rule = label_rule(problem.teacher, student.moments.mean, problem.noise, 0.3, 2)
    return step_law(
        slope_constants(student),
        rule.nodes[None],
        rule.weights[None],
        alpha0=problem.alpha0 * one,
        rate=problem.step * one,
        readout=one[None],
        medium=medium,
        on_sphere=problem.init == "sphere",
    )


@pytest.mark.parametrize("on_sphere", [True, False], ids=["sphere", "gaussian"])
@pytest.mark.parametrize("student", ["tanh", "relu", "tanh(z+0.5)", "z+0.5*(z**2-1)+tanh(z)"])
def test_equal_eigenvalues_are_omega_one(student: str, on_sphere: bool) -> None:
    """On the sphere nothing is left of Q: dc/dQ is not asked for, and is zero."""
    asked = FIELDS | {"student": student, "inputs": "two-level:1:0.5"}
    problem = Problem(**asked, dimension=900, beta=1)
    medium = Medium.of(structure(problem))
    assert medium is not ISOTROPIC
    rng = np.random.default_rng(5)
    a = rng.uniform(-2, 2, (3, 4))
    constants = slope_constants(problem.student)
    e, chi = a * constants.c2, a**2 * constants.tau / 0.7
    moments = tuple(rng.uniform(0.5, 1.5, (3, 1)) * size for size in (0.4, 1, 1.5, 4))
    alpha0 = np.full((3, 1), 0.7)
    found = norms_in_medium(
        constants, (a, e, chi), moments, alpha0, medium=medium, on_sphere=on_sphere
    )
    trace, variance = _norm_fluctuations(constants, (a, e, chi), moments, alpha0)
    assert found[0] == pytest.approx(0 * trace if on_sphere else trace, rel=1e-11)
    assert found[1] == pytest.approx(variance, rel=1e-10)
    assert row_spread(medium, on_sphere) == (0 if on_sphere else pytest.approx(1, rel=1e-12))


class Drawn(NamedTuple):
    """Of neurons after a real step: the mean of u and c, and d times their covariances."""

    spike: float
    variance: float
    u: float  # d Var u
    c: float  # d Var c
    u_c: float
    u_q: float  # Q = w^T Omega w of the rows before the step
    c_q: float
    q: float


def drawn(problem: Problem, draws: int, width: int) -> tuple[Drawn, Drawn]:
    """Means over draws of the step's data, and their standard errors."""
    rng, d = np.random.default_rng(0), int(problem.dimension)
    spectrum, student = structure(problem), problem.student
    values, n0 = spectrum.eigenvalues, round(problem.alpha0 * d)
    theta = np.sqrt(spectrum.shares / values)
    found = []
    for _ in range(draws):
        x = rng.standard_normal((n0, d)) * np.sqrt(values)
        y = problem.teacher(x @ theta) + problem.noise * rng.standard_normal(n0)
        y = y - student.moments.mean
        w = rng.standard_normal((d, width)) / math.sqrt(d)
        if problem.init == "sphere":
            w /= np.linalg.norm(w, axis=0)
        moved = w + problem.step * x.T @ (y[:, None] * student.derivative(x @ w)) / n0
        v = x.T @ y / n0
        u = (values * v) @ moved / math.sqrt(v @ (values * v))
        c = values @ moved**2 - u**2
        spread = d * np.cov(np.stack([u, c, values @ w**2]))
        found.append((u.mean(), c.mean(), *spread[[0, 1, 0, 0, 1, 2], [0, 1, 1, 2, 2, 2]]))
    many = np.array(found)
    return Drawn(*many.mean(0)), Drawn(*many.std(0, ddof=1) / math.sqrt(draws))


def expected(problem: Problem) -> Drawn:
    """What the equations have of it. What knows of the rows is in the forms F: at beta -> 0 they
    are Theta times the covariances of u and c.
    """
    medium = Medium.of(structure(problem))
    law, spread = law_of(problem, medium), row_spread(medium, problem.init == "sphere")
    asked = problem.replace(dimension=math.inf, beta=1e-6)
    system, solution = prepared(asked)
    at = equations(system.bulk, solution.state)
    shapes = forms(system, solution.state, at)
    theta, slope = at.pencil.theta[0, 0], system.bulk.coordinates[0, 0, 0]
    rows = shapes.rows[0] / theta
    along = rows[0, 0] / slope**2
    crossed, norms = (rows[0, 1] / slope, rows[1, 1]) if len(rows) > 1 else (0.0, 0.0)
    beta, by_norm = law.variance_by_norm[0, 0], law.spike_by_norm[0, 0]
    return Drawn(
        spike=law.spike[0, 0],
        variance=law.variance[0, 0],
        u=along + 2 * spread * by_norm**2,
        c=norms + 2 * spread * beta**2 + law.norm_variance[0, 0],
        u_c=crossed + 2 * spread * by_norm * beta,
        u_q=2 * spread * by_norm,
        c_q=2 * spread * beta,
        q=2 * spread,
    )


@pytest.mark.parametrize(
    ("student", "init", "changes"),
    [
        ("tanh", "sphere", {}),
        ("tanh", "gaussian", {}),
        ("tanh(z+0.5)", "sphere", {}),
        # Labels of a large mean, and neurons that bend: all parts of h and k.
        ("tanh(2*z+1)", "gaussian", {"teacher": "tanh(z) + 1", "step": 1.5}),
    ],
)
def test_neurons_of_a_real_step(student: str, init: str, changes: dict[str, object]) -> None:
    """Variances and covariances of u, c and Q over neurons, averaged over the step's data."""
    asked = FIELDS | {"student": student, "init": init} | changes
    problem = Problem(**asked, dimension=400, beta=1)
    measured, error = drawn(problem, 24, 1000)
    wanted = expected(problem)
    for name, value in wanted._asdict().items():
        found, scatter = getattr(measured, name), getattr(error, name)
        assert scatter < 0.06 * abs(value), name
        beyond = 0.015 if name in ("spike", "variance") else 0.05  # corrections of order 1/d
        assert found == pytest.approx(value, rel=beyond, abs=2.5 * scatter), name


def test_on_the_sphere_the_norms_still_move() -> None:
    """They do not where Omega = 1."""
    problem = Problem(**FIELDS, student="tanh", init="sphere", dimension=500, beta=1)
    assert row_spread(Medium.of(structure(problem)), True) == pytest.approx(0.7901, rel=1e-3)
    assert row_spread(ISOTROPIC, True) == 0
    assert row_spread(ISOTROPIC, False) == 1
