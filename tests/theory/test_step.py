"""Constants of the step where the inputs have a covariance: published numbers, and drawn data."""

from __future__ import annotations

import math

import numpy as np
import pytest

from firststep import Problem, predict
from firststep.activations import activation
from firststep.structure import structure_of
from firststep.theory.medium import ISOTROPIC, Medium
from firststep.theory.one_step.labels import label_rule
from firststep.theory.one_step.question import medium_of
from firststep.theory.step import (
    OwnOutput,
    Residual,
    StepConstants,
    gradient_square,
    plain_gradient_square,
    residual_of,
    step_law,
)
from firststep.theory.student import slope_constants

# tanh learns sin, alpha0 2, step 2, noise 0.1, rows on the sphere, d = 1500: inputs, overlaps; then
# |v|_Omega, gamma, u and c, simulated on real steps and as the equations had them.
STEP_DATA = [
    ("power-law:0.3", "equal", "0.977 0.7336 1.182 1.1009", "0.979 0.7326 1.186 1.1020"),
    ("power-law:0.3", "top:0.1", "1.571 0.8637 1.901 1.1003", "1.571 0.8629 1.903 1.1020"),
    ("two-level:5:0.2", "equal", "1.426 0.7634 1.726 1.1544", "1.423 0.7633 1.723 1.1544"),
    ("two-level:5:0.2", "top:0.1", "1.800 0.9367 2.179 1.1550", "1.799 0.9368 2.179 1.1544"),
    ("two-level:5:0.2", "bottom:0.5", "0.715 0.4722 0.865 1.1542", "0.714 0.4721 0.865 1.1544"),
    # neurons differ beyond first order: u and c are not theirs
    ("power-law:0.6", "equal", "4.276 0.4763 5.14 nan", "4.267 0.4742 5.17 1.288"),
    ("power-law:1", "equal", "45.2 0.5332 nan nan", "45.1 0.5327 54.6 4.4"),
]


def problem_of(inputs: str, overlaps: str, **changes: object) -> Problem:
    fields = dict(
        student="tanh",
        teacher="sin",
        alpha=2,
        beta=1,
        alpha0=2,
        step=2,
        noise=0.1,
        readout="ones",
        init="sphere",
        dimension=1500,
    )
    return Problem(**fields | changes, inputs=inputs, teacher_overlaps=overlaps)


def constants_of(problem: Problem) -> tuple[Residual, StepConstants]:
    """Without the output before the step."""
    one = np.ones(1)
    residual = residual_of(problem.teacher, 0.0, problem.noise)
    constants = StepConstants.of(
        slope_constants(problem.student),
        residual,
        problem.alpha0 * one,
        problem.step * one,
        medium=medium_of(problem),
    )
    return residual, constants


@pytest.mark.parametrize(("inputs", "overlaps", "simulated", "theory"), STEP_DATA)
def test_the_table_of_the_step(inputs: str, overlaps: str, simulated: str, theory: str) -> None:
    _, step = constants_of(problem_of(inputs, overlaps))
    length, gamma, rho = step.direction
    found = (length[0], gamma[0], step.spike[0], step.variance(1.0, 1.0)[0])
    for value, number, measured in zip(found, theory.split(), simulated.split(), strict=True):
        last = 10.0 ** -len(number.partition(".")[2])
        assert value == pytest.approx(float(number), abs=0.6 * last)
        if measured != "nan":
            assert value == pytest.approx(float(measured), rel=6e-3)
    assert rho[0] == pytest.approx(math.sqrt(1 - gamma[0] ** 2), rel=1e-12)


def test_what_a_prediction_says_of_the_step() -> None:
    """The alignment is that of what a sample sees; |v| is the plain length of the gradient."""
    problem = problem_of("two-level:5:0.2", "top:0.1")
    found = predict(problem)
    residual, step = constants_of(problem)
    assert found.alignment == pytest.approx(step.direction.alignment[0], rel=1e-3)
    assert found.spike_strength == pytest.approx(step.spike[0], rel=1e-3)
    assert found.bulk_variance == pytest.approx(step.variance(1.0, 1.0)[0], rel=1e-3)
    plain = plain_gradient_square(residual, np.full(1, 2.0), medium_of(problem))[0]
    assert found.gradient_norm == pytest.approx(math.sqrt(plain), rel=1e-3)
    assert found.gradient_norm < 0.7 * step.direction.length[0]


def test_lengths_and_products_of_drawn_data() -> None:
    """X[yhat^i] . X[yhat^j], |v|_Omega, gamma and |v| of 200 drawn gradients."""
    problem = problem_of("two-level:5:0.2", "bottom:0.9", dimension=300, alpha0=1.3)
    structure = structure_of(problem)
    assert structure is not None
    values, d, n0 = structure.eigenvalues, 300, 390
    theta = np.sqrt(structure.shares / values)
    teacher, noise = activation("sin(z) + 0.4*cos(z)"), 0.3
    rng = np.random.default_rng(3)
    found = []
    for _ in range(200):
        x = rng.standard_normal((n0, d)) * np.sqrt(values)
        y = teacher(x @ theta) + noise * rng.standard_normal(n0)
        means = np.stack([x.T @ y**j for j in (1, 2, 3)]) / n0
        v = means[0]
        products = (means @ means.T)[np.triu_indices(3)]
        found.append([v @ (values * v), (theta * values) @ v, *products])
    many = np.array(found)
    mean, error = many.mean(0), many.std(0, ddof=1) / math.sqrt(200)
    rule, one, medium = label_rule(teacher, 0.0, noise, 0.3, 2), np.ones(1), Medium.of(structure)
    law = step_law(
        slope_constants(activation("tanh")),
        rule.nodes[None],
        rule.weights[None],
        alpha0=1.3 * one,
        rate=one,
        readout=one[None],
        medium=medium,
    )
    residual = residual_of(teacher, 0.0, noise)
    square = gradient_square(residual, 1.3 * one, medium)[0]
    along = law.direction.alignment[0] * law.direction.length[0]
    expected = np.array([square, along, *law.vector_products[0][np.triu_indices(3)]])
    assert np.all(error < 0.03 * np.abs(expected))
    assert np.all(np.abs(mean - expected) < 4 * error + 0.006 * np.abs(expected))  # 1/d
    plain = plain_gradient_square(residual, 1.3 * one, medium)[0]
    assert plain == pytest.approx(law.vector_products[0, 0, 0], rel=1e-6)
    assert plain < 0.8 * square


def test_the_share_of_the_old_row_and_of_the_readout_on_the_levels() -> None:
    """phi = <varpi (1 + e mh_1 varpi)^2>/c, and (A/N) b(varpi)^2, whose average is eps^2."""
    problem = problem_of("two-level:5:0.2", "equal", student="tanh(z+0.5)", dimension=math.inf)
    medium, student = medium_of(problem), slope_constants(problem.student)
    one, first, rate = np.ones(2), np.array([0.3, -0.7]), np.array([0.8, 1.7])
    own = OwnOutput(width=700 * one, readout_square=1.3, readout_cube=0.4)
    levels, masses = np.array(medium.levels), np.array(medium.masses)
    shift = own.shift_on_levels(student, first, rate, medium)
    lift = rate * student.c2 * first * 0.4 / 1.3 - rate * student.c1**2 * 1.3
    by_hand = (1 + lift[:, None] * levels) / (rate * student.c1 * 1.3)[:, None]
    assert shift == pytest.approx(by_hand**2 * 1.3 / 700, rel=1e-13)
    mean = own.squared_shift(student, first, rate, medium)
    assert shift @ (masses * levels) == pytest.approx(mean, rel=1e-12)
    same = OwnOutput(width=700 * one, readout_square=1.3, readout_cube=0.4)
    plain = same.squared_shift(student, first, rate)
    unit = medium_of(problem.replace(inputs="two-level:1:0.5"))
    assert unit is not ISOTROPIC
    assert same.squared_shift(student, first, rate, unit) == pytest.approx(plain, rel=1e-12)
    rule = label_rule(problem.teacher, student.c0, 0.1, 0.3, 2)
    law = step_law(
        student,
        rule.nodes[None],
        rule.weights[None],
        alpha0=2 * one[:1],
        rate=one[:1],
        readout=np.array([[1.0, -0.6]]),
        medium=medium,
    )
    m1 = rule.weights[0] @ rule.nodes
    kept = (1 + np.outer(law.tilt[0] * m1, levels)) ** 2 @ (masses * levels) / law.variance[0]
    assert law.kept[0] == pytest.approx(kept, rel=1e-12)
