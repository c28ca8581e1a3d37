"""Parts of the theory: constants, labels, the resolvent and its response, the frozen gradient."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

from firststep import Problem
from firststep.activations import activation
from firststep.noise_laws import noise_law_of
from firststep.numerics.linear_algebra import thin_svd
from firststep.theory.one_step.fit import Solution, from_above
from firststep.theory.one_step.fit import solve as solve_fit
from firststep.theory.one_step.labels import label_rule, mixed_label_rule
from firststep.theory.one_step.moments import Conditional, assemble
from firststep.theory.one_step.nodes import READOUT_SPACING, choose, gaussian_readout, rules_for
from firststep.theory.one_step.question import broadcast, model_of, numbers_of
from firststep.theory.one_step.resolvent import Pencil, equations, overlaps_of, resolvent_map, start
from firststep.theory.one_step.response import respond
from firststep.theory.one_step.system import State, System, triangle, unfold
from firststep.theory.step import step_law
from firststep.theory.student import slope_constants


def prepared(problem: Problem) -> tuple[System, Solution]:
    """The equations of a problem, and their solution."""
    values, _ = broadcast(problem, {})
    model = model_of(problem, "exact", True)
    numbers = numbers_of(problem, values, model)
    rules = rules_for(model, problem.readout, choose(model, problem.readout, numbers)[0], numbers)
    given = Conditional.of(model, rules, numbers)
    system = assemble(model, rules, numbers, given, cut=3e-5)
    return system, solve_fit(system, from_above(system))


def test_constants_by_another_rule() -> None:
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / np.sqrt(2 * np.pi)
    for text in ("tanh(z+0.5)", "z+0.5*(z**2-1)+tanh(z)", "softplus"):
        student = activation(text)
        found = slope_constants(student)
        slope = student.evaluate_derivative(nodes)
        q = slope - np.sum(weights * slope) - np.sum(weights * nodes * slope) * nodes
        assert found.tau == pytest.approx(np.sum(weights * q**2), rel=1e-7)
        assert found.c3 == pytest.approx(np.sum(weights * q * (nodes**2 - 1)), abs=1e-9)
        assert found.b2 == pytest.approx(np.sum(weights * q * (nodes**3 - nodes)) / 2, abs=1e-9)
        assert found.s3 == pytest.approx(np.sum(weights * q**3), abs=1e-9)
    assert slope_constants(activation("centered(relu)")).has_linear_fluctuation is False
    assert slope_constants(activation("tanh")).is_odd
    assert slope_constants(activation("sigmoid")).is_odd is False


@pytest.mark.parametrize(
    ("teacher", "noise"), [("relu", 0.1), ("tanh", 0.0), ("sin(z) + 0.3*z**2", 0.3), ("sign", 0.2)]
)
@pytest.mark.parametrize("width", [1.0, 0.1])
def test_label_rule_integrates_rational_functions(teacher: str, noise: float, width: float) -> None:
    rule = label_rule(activation(teacher), 0.2, noise, width, 2)
    z = np.linspace(-9, 9, 12_001)
    kinked = np.unique(np.concatenate([z, [0.0]]))
    z = (kinked[1:] + kinked[:-1]) / 2  # midpoints: no node on the kink at zero
    mass = np.diff(kinked) * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    eps, eps_mass = (np.zeros(1), np.ones(1)) if noise == 0 else (np.linspace(-8, 8, 801), None)
    if eps_mass is None:
        eps_mass = np.exp(-(eps**2) / 2) / np.exp(-(eps**2) / 2).sum()
    for strength in (0.0, 0.5 / width**2):
        for a in range(3):
            exact = 0.0
            for shift, part in zip(eps, eps_mass, strict=True):
                y = activation(teacher).evaluate(z) - 0.2 + noise * shift
                exact += part * np.sum(mass * z**a * y**2 / (1 + strength * y**2))
            found = np.sum(rule.weights[a] * rule.nodes**2 / (1 + strength * rule.nodes**2))
            assert found == pytest.approx(exact, rel=3e-6, abs=3e-7)


@pytest.mark.parametrize(
    ("noise", "width"),
    [(((1.0, 0.4),), 0.3), (((0.6, 0.0), (0.3, 0.2), (0.1, 3.0)), 0.5), ("t:5", 4.0)],
)
def test_label_rule_of_a_mixture(noise, width: float) -> None:  # type: ignore[no-untyped-def]
    """Moments and rational functions: sums over the rules of its Gaussians."""
    teacher = activation("sin(z) + 0.3*z**2")
    if noise == "t:5":
        noise = tuple((w, 0.3 * s) for w, s in noise_law_of(noise).gaussians(1e-8))
    rule = mixed_label_rule(teacher, 0.2, noise, width, 2)
    parts = [(weight, label_rule(teacher, 0.2, scale, width, 3)) for weight, scale in noise]
    for power, strength in ((1, 0.0), (2, 0.0), (3, 0.0), (4, 0.0), (2, 0.3 / width**2)):
        for a in range(3):

            def integral(r, a=a, power=power, strength=strength):  # type: ignore[no-untyped-def]
                return np.sum(r.weights[a] * r.nodes**power / (1 + strength * r.nodes**2))

            exact = sum(weight * integral(part) for weight, part in parts)
            assert integral(rule) == pytest.approx(exact, rel=1e-6, abs=1e-7)


def test_label_rule_moves_with_the_noise() -> None:
    """Its derivative, by differences of integrals (nodes themselves need not move smoothly)."""
    teacher = activation("relu")
    rule = label_rule(teacher, 0.1, 0.3, 0.5, 2)
    for power, a in ((2, 0), (3, 1), (1, 2)):

        def integral(r, power=power, a=a):  # type: ignore[no-untyped-def]
            return np.sum(r.weights[a] * r.nodes**power / (1 + r.nodes**2))

        h = 1e-4
        difference = (
            integral(label_rule(teacher, 0.1, 0.3 + h, 0.5, 2))
            - integral(label_rule(teacher, 0.1, 0.3 - h, 0.5, 2))
        ) / (2 * h)
        y, w, dy, dw = rule.nodes, rule.weights[a], rule.nodes_by_noise, rule.weights_by_noise[a]
        slope = power * y ** (power - 1) / (1 + y**2) - 2 * y ** (power + 1) / (1 + y**2) ** 2
        assert np.sum(dw * y**power / (1 + y**2) + w * dy * slope) == pytest.approx(
            difference, rel=1e-4, abs=1e-8
        )


def test_step_constants_match_a_sampled_step() -> None:
    """c, d Var(c), d Cov(u, c) of a real gradient step at d = 1500 (one draw of the data, many
    neurons).
    """
    rng = np.random.default_rng(0)
    d, width, alpha0, rate, noise = 1500, 3000, 1.0, 2.0, 0.1
    student, teacher = activation("tanh(z+0.5)"), activation("tanh")
    n0 = int(alpha0 * d)
    inputs = rng.standard_normal((n0, d))
    theta = np.eye(d)[0]
    label = teacher(inputs @ theta) + noise * rng.standard_normal(n0) - student.moments.mean
    weights = rng.standard_normal((d, width))
    weights /= np.linalg.norm(weights, axis=0)
    moved = weights + rate * inputs.T @ (label[:, None] * student.derivative(inputs @ weights)) / n0
    v = inputs.T @ label / n0
    along = moved.T @ v / np.linalg.norm(v)
    size = np.sum(moved**2, 0) - along**2
    rule = label_rule(teacher, student.moments.mean, noise, 0.3, 2)
    one = np.ones(1)
    law = step_law(
        slope_constants(student),
        rule.nodes[None],
        rule.weights[None],
        alpha0=alpha0 * one,
        rate=rate * one,
        readout=one[None],
    )
    assert along.mean() == pytest.approx(float(law.spike[0, 0]), rel=0.03)
    assert size.mean() == pytest.approx(float(law.variance[0, 0]), rel=0.03)
    h, products = law.linear_chaos[0, 0], law.vector_products[0]
    total = float(law.norm_variance[0, 0]) + h @ products @ h
    assert d * size.var() == pytest.approx(total, rel=0.12)


@pytest.mark.parametrize("student", ["tanh", "relu", "tanh(z+0.5)"])
@pytest.mark.parametrize("readout", ["-1:0.25,0.5:0.5,2:0.25", "gaussian"])
def test_response_of_the_resolvent_by_differences(student: str, readout: str) -> None:
    """dE/dy and dZ/dy keep the equations true, and dv/dy is symmetric: it is the Hessian of a
    potential.
    """
    problem = Problem(
        student=student,
        teacher="sin(z) + 0.3*z**2",
        alpha=2,
        beta=1.3,
        alpha0=0.8,
        step=1.5,
        ridge=0.05,
        noise=0.2,
        readout=readout,
    )
    system, solution = prepared(problem)
    bulk, state = system.bulk, solution.state
    assert solution.residual < 1e-11
    at_solution = equations(bulk, state)
    found = respond(bulk, state, at_solution)
    size, n = state.overlaps.shape[-1], state.resolvent.shape[-1]
    rng = np.random.default_rng(1)
    change = rng.standard_normal((1, at_solution.force.shape[1])) * 1e-3
    rows = triangle(size)[0]

    def moved(by: float) -> tuple[np.ndarray, np.ndarray]:
        at = State(
            state.overlaps + by * unfold(change[:, : rows.size], size),
            state.diagonal + by * change[:, rows.size :],
            state.energy + by * (found.energy_by_overlap @ change[..., None])[..., 0],
            state.resolvent
            + by * unfold((found.resolvent_by_overlap @ change[..., None])[..., 0], n),
        )
        again = equations(bulk, at)
        pencil = Pencil.of(bulk, at.overlaps, at.energy)
        return again.force, resolvent_map(bulk, pencil, at.resolvent).z - at.resolvent

    h = 1e-3
    up, down = moved(h), moved(-h)
    slope = (up[0] - down[0]) / (2 * h)
    expected = (found.force_by_overlap @ change[..., None])[..., 0]
    assert slope == pytest.approx(expected, rel=1e-4, abs=1e-6 * np.abs(expected).max())
    assert np.abs(up[1] - down[1]).max() / (2 * h) < 1e-5 * np.abs(expected).max()
    mapping = system.overlap_map
    curvature = np.swapaxes(mapping, 1, 2) @ found.force_by_overlap @ mapping
    limit = 1e-4 if readout == "gaussian" else 1e-9  # a Gaussian readout is cut at 3e-5
    asymmetry = float(np.abs(curvature - np.swapaxes(curvature, 1, 2)).max())
    assert asymmetry < limit * float(np.abs(curvature).max())


def test_newton_comes_down_from_above() -> None:
    """Overlaps fall monotonically for one block, at the interpolation peak with a tiny ridge."""
    problem = Problem(
        student="tanh",
        teacher="sin",
        alpha=1.0,
        beta=1.0,
        alpha0=0.5,
        step=2,
        ridge=1e-8,
        readout="ones",
    )
    system, solution = prepared(problem)
    assert np.all(start(system).energy >= solution.state.energy)
    assert np.all(system.omega >= solution.shrunk)
    assert solution.iterations < 40
    packed = (system.overlap_map @ solution.shrunk[..., None])[..., 0]
    matrix, diagonal = overlaps_of(system, packed)
    assert matrix == pytest.approx(solution.state.overlaps, rel=1e-8)
    assert diagonal == pytest.approx(solution.state.diagonal, rel=1e-8)


@pytest.mark.parametrize("shape", [(3, 2, 7), (3, 7, 2), (2, 1, 5), (2, 5, 1), (2, 6, 9)])
def test_thin_svd(shape: tuple[int, ...]) -> None:
    matrix = np.random.default_rng(2).standard_normal(shape)
    left, size, right = thin_svd(matrix)
    assert left @ (size[..., None] * right) == pytest.approx(matrix, abs=1e-12)
    assert size == pytest.approx(np.linalg.svd(matrix, compute_uv=False), rel=1e-10)


@pytest.mark.parametrize("scale", [1.0, 0.125, 2.0**-9])
def test_readout_rule_has_the_moments_of_a_gaussian(scale: float) -> None:
    for fold in (False, True):
        _, values, weights = gaussian_readout(scale, READOUT_SPACING, fold)
        for power, moment in ((0, 1.0), (2, 1.0), (4, 3.0), (6, 15.0)):
            assert np.sum(weights * values**power) == pytest.approx(moment, rel=1e-9 * (1 + power))
        assert np.sum(weights / (1 + values**2)) == pytest.approx(
            np.sqrt(np.pi / 2) * np.exp(0.5) * scipy.special.erfc(np.sqrt(0.5)), rel=1e-8
        )
