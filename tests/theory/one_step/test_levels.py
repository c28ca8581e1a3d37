"""The equations on the levels of a covariance: their response, the frozen gradient, the blocks of
the resolvent against drawn matrices.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest

from firststep import Problem
from firststep.activations import activation
from firststep.structure import Structure, structure_of
from firststep.theory.medium import Medium
from firststep.theory.one_step import level_response, response
from firststep.theory.one_step.fit import Solution, from_above
from firststep.theory.one_step.fit import solve as solve_fit
from firststep.theory.one_step.labels import label_rule
from firststep.theory.one_step.mean import _blocks, forms
from firststep.theory.one_step.moments import Conditional, assemble
from firststep.theory.one_step.nodes import choose, rules_for
from firststep.theory.one_step.projection import projection, row_vectors
from firststep.theory.one_step.question import across, broadcast, model_of, numbers_of
from firststep.theory.one_step.resolvent import Equations, equations, resolvent_map
from firststep.theory.one_step.response import respond
from firststep.theory.one_step.risk import Solved, spread
from firststep.theory.one_step.system import Bulk, Levels, State, System, apply, unfold, unpack

TWO, POWER = "two-level:5:0.2", "power-law:0.5"
SEVERAL = "-1:0.25,0.5:0.5,2:0.25"


def problem_of(student: str, **changes: object) -> Problem:
    fields = dict(
        student=student,
        teacher="sin(z) + 0.3*z**2",
        alpha=2,
        beta=1.3,
        alpha0=0.8,
        step=1.5,
        ridge=0.05,
        noise=0.2,
        readout=SEVERAL,
        inputs=TWO,
        teacher_overlaps="top:0.3",
    )
    return Problem(**fields | changes)


def prepared(problem: Problem, bulk: str = "exact") -> tuple[System, Solution]:
    """The equations of a problem, and their solution."""
    values, _ = broadcast(problem, {})
    model = model_of(problem, bulk, problem.takes_step)
    numbers = across(numbers_of(problem, values, model))
    rules = rules_for(model, problem.readout, choose(model, problem.readout, numbers)[0], numbers)
    given = Conditional.of(model, rules, numbers)
    system = assemble(model, rules, numbers, given, cut=3e-5)
    assert system.bulk.levels is not None
    solution = solve_fit(system, from_above(system))
    assert solution.residual < 1e-10
    return system, solution


def resolved(bulk: Bulk, state: State) -> tuple[State, Equations]:
    """(E, Z) solved again at the overlaps of a state, by Newton's method."""
    for _ in range(12):
        at = equations(bulk, state)
        if at.residual < 1e-14:
            break
        found = respond(bulk, state, at)
        still = np.zeros((1, at.force.shape[1]))
        state = state.moved(still, state.energy + found.energy_shift, found.resolvent_shift)
    assert at.residual < 1e-12
    return state, at


def displaced(state: State, change: np.ndarray) -> State:
    matrix, diagonal = unpack(change, state.overlaps.shape[-1])
    return state._replace(overlaps=state.overlaps + matrix, diagonal=state.diagonal + diagonal)


CASES = [
    ("tanh", {}, "exact"),
    ("relu", {}, "exact"),
    ("tanh(z+0.5)", {}, "exact"),
    ("tanh(z+0.5)", {"inputs": POWER, "dimension": 400}, "exact"),
    ("tanh(z+0.5)", {"inputs": POWER, "dimension": 400}, "isotropic"),
    ("erf", {"inputs": POWER, "dimension": 400, "init": "sphere"}, "exact"),
    ("softplus", {"dimension": 300, "readout": "signs"}, "exact"),
    ("tanh(z+0.5)", {"step": 0}, "exact"),
]
NAMES = [f"{c[0]}, {c[2]}, {', '.join(map(str, c[1].values()))}" for c in CASES]


@pytest.mark.parametrize(("student", "changes", "bulk"), CASES, ids=NAMES)
def test_the_response_by_differences(student: str, changes: dict[str, object], bulk: str) -> None:
    """dE/dy, dZ/dy and dv/dy against equations that are solved again; dv/dy is symmetric."""
    system, solution = prepared(problem_of(student, **changes), bulk)
    state, at = resolved(system.bulk, solution.state)
    found = respond(system.bulk, state, at)
    rng = np.random.default_rng(1)
    size = np.sqrt(np.abs(at.force))  # of y: what it is worth in v
    change = rng.standard_normal((1, at.force.shape[1])) * 1e-4 / np.maximum(size, 1)
    (up, at_up), (down, at_down) = (
        resolved(system.bulk, displaced(state, sign * change)) for sign in (1, -1)
    )
    n = state.resolvent.shape[-1]
    pairs = [
        ((up.energy - down.energy) / 2, apply(found.energy_by_overlap, change)),
        ((up.resolvent - down.resolvent) / 2, unfold(apply(found.resolvent_by_overlap, change), n)),
        ((at_up.force - at_down.force) / 2, apply(found.force_by_overlap, change)),
    ]
    for difference, slope in pairs:
        largest = np.abs(slope).max()
        assert difference == pytest.approx(slope, rel=1e-5, abs=3e-6 * largest)
    mapping = system.overlap_map
    curvature = np.swapaxes(mapping, 1, 2) @ found.force_by_overlap @ mapping
    asymmetry = np.abs(curvature - np.swapaxes(curvature, 1, 2)).max()
    assert asymmetry < 1e-9 * np.abs(curvature).max()
    assert np.abs(curvature).max() > 0


@pytest.mark.parametrize(("student", "changes", "bulk"), CASES[2:5], ids=NAMES[2:5])
def test_a_newton_step_squares_the_gap(student: str, changes: dict[str, object], bulk: str) -> None:
    system, solution = prepared(problem_of(student, **changes), bulk)
    state, at = resolved(system.bulk, solution.state)
    rng = np.random.default_rng(2)
    still = np.zeros((1, at.force.shape[1]))
    gaps = []
    n = state.resolvent.shape[-1]
    for size in (1e-2, 1e-4):
        off = size * rng.standard_normal((1, n * (n + 1) // 2)) * state.resolvent.max()
        away = state.moved(still, state.energy * (1 + size), off)
        at = equations(system.bulk, away)
        found = respond(system.bulk, away, at)
        nearer = away.moved(still, away.energy + found.energy_shift, found.resolvent_shift)
        gaps.append((at.residual[0], equations(system.bulk, nearer).residual[0]))
    assert gaps[0][1] < 0.3 * gaps[0][0]
    assert gaps[1][1] < 1e-3 * gaps[1][0]


@pytest.mark.parametrize(("student", "changes", "bulk"), CASES[2:5], ids=NAMES[2:5])
def test_a_chord_is_the_newton_step_of_other_gaps(
    student: str, changes: dict[str, object], bulk: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (response, level_response):
        monkeypatch.setattr(module, "LARGE", 1)
    system, solution = prepared(problem_of(student, **changes), bulk)
    state, at = resolved(system.bulk, solution.state)
    rng = np.random.default_rng(2)
    still = np.zeros((1, at.force.shape[1]))
    n = state.resolvent.shape[-1]
    off = 1e-3 * rng.standard_normal((1, n * (n + 1) // 2)) * state.resolvent.max()
    away = state.moved(still, state.energy * 1.001, off)
    at = equations(system.bulk, away)
    found = respond(system.bulk, away, at)
    assert found.chord is not None
    again = found.chord.renewed(found, at)
    for name in ("force_shift", "energy_shift", "resolvent_shift"):
        expected = getattr(found, name)
        off_by = np.abs(getattr(again, name) - expected).max()
        assert off_by < 1e-9 * np.abs(expected).max()
    residuals = [at.residual[0]]
    for _ in range(3):  # the derivatives of the first place lead on, digit by digit
        energy = away.energy + again.energy_shift
        away = away.moved(still, energy, again.resolvent_shift)
        at = equations(system.bulk, away)
        residuals.append(at.residual[0])
        again = found.chord.renewed(found, at)
    falls = np.divide(residuals[1:], residuals[:-1])
    assert np.all((falls < 0.1) | (np.array(residuals[1:]) < 1e-11))


def spread_of(system: System, state: State, at: Equations, g: np.ndarray, b: np.ndarray) -> float:
    """J = g^T Kmean g + 2 b_v^T X b_z + 2 t^T X_c b_z + b_z^T T b_z."""
    shapes = forms(system, state, at)
    fit = projection(system, state, at, shapes, np.ones((1, system.omega.size)))
    total = np.einsum("bk,bkl,bl->", g, fit.kernel, g)
    if system.mean.dimension is not None:
        total += system.mean.dimension[0] * np.sum(apply(np.swapaxes(fit.free, 1, 2), g) ** 2)
    rows = apply(row_vectors(system), g)
    total += 2 * np.einsum("bm,bmr,br->", rows, shapes.cross, b)
    return float(total + np.einsum("br,brs,bs->", b, shapes.across, b))


@pytest.mark.parametrize(("student", "changes", "bulk"), CASES, ids=NAMES)
def test_the_frozen_gradient_by_differences(
    student: str, changes: dict[str, object], bulk: str
) -> None:
    """dJ/dS at frozen g and f, with (E, Z) solved again at every S."""
    system, solution = prepared(problem_of(student, **changes), bulk)
    state, _ = resolved(system.bulk, solution.state)
    solved = Solved.of(system, state)
    rng = np.random.default_rng(4)
    nodes = row_vectors(system).shape[-1]
    weight = np.sqrt(np.tile(system.omega, nodes // system.omega.size))
    scale = 1.0 if system.mean.dimension is None else 0.1  # mean features count d times
    for _ in range(2):
        g = scale * weight * rng.standard_normal((1, nodes))
        b = rng.standard_normal((1, system.bulk.basis.shape[1]))
        _, by_weight = spread(solved, g, b)
        direction = 1e-4 * solution.shrunk * rng.standard_normal(solution.shrunk.shape)
        change = apply(system.overlap_map, direction)
        up, down = (
            spread_of(system, *resolved(system.bulk, displaced(state, sign * change)), g, b)
            for sign in (1, -1)
        )
        slope = float(np.sum(by_weight * direction))
        assert slope == pytest.approx((up - down) / 2, rel=1e-5)
        assert abs(slope) > 1e-7 * abs(up)  # nothing to find otherwise


def test_terms_that_the_frozen_gradient_has() -> None:
    """The cases above have what they are to test: two blocks, own output, linear fluctuations."""
    parts = {}
    for (student, changes, bulk), name in zip(CASES, NAMES, strict=True):
        system, _ = prepared(problem_of(student, **changes), bulk)
        parts[name] = (
            system.bulk.tilt is not None,
            system.mean.linear_chaos is not None,
            system.mean.own_shift is not None,
        )
    assert set(parts.values()) >= {
        (False, True, False),
        (True, False, False),
        (True, True, False),
        (True, True, True),
        (False, True, True),
        (False, False, False),
    }


# The blocks of the resolvent ----------------------------------------------------------------------

U = np.array([[1, 0.3], [0.7, -0.6]])
THETA, E, CHI = np.array([0.8, 0.5]), np.array([0.5, -0.4]), np.array([0.4, 0.3])
M = np.array([[1, 0.2], [0.2, 0.6]])
ALPHA0, NOISE, OFFSET = 1.2, 0.1, 0.2


class Blocks(NamedTuple):
    """Averages of the resolvent, and its blocks in the coordinates (1, M_data)."""

    plain: np.ndarray  # tr G/d, with M_data on either side
    minus: np.ndarray  # tr Omega^-1 G/d
    teacher: np.ndarray  # theta, theta: the first block
    to_teacher: np.ndarray  # theta, X[yhat^j]: (3, 4, 4)
    between: np.ndarray  # X[yhat^i], X[yhat^j]: (3, 3, 4, 4)


def structure_at(dimension: int) -> Structure:
    found = structure_of(problem_of("tanh", dimension=dimension))
    assert found is not None
    return found


def blocks_of_theory(structure: Structure) -> Blocks:
    medium = Medium.of(structure)
    rule = label_rule(activation("tanh"), OFFSET, NOISE, 0.3, 2)
    rows = (np.array(each)[None] for each in medium[:3])
    bulk = Bulk(
        basis=np.eye(2)[None],
        idle=np.zeros((1, 2)),
        coordinates=U[None],
        tilt=E[None],
        isotropic=np.ones((1, 2)),
        jitter=CHI[None],
        neurons=THETA[None],
        scatter=np.zeros((1, 2, 2)),
        labels=rule.nodes[None],
        label_weights=rule.weights[None],
        alpha0=np.array([ALPHA0]),
        levels=Levels(*rows, teacher=np.array([medium.t[1]])),
    )
    state = State(M[None], np.zeros((1, 2)), np.ones((1, 2)), np.eye(4)[None] / 2)
    for _ in range(200):
        at = equations(bulk, state)
        state = state._replace(resolvent=(state.resolvent + at.image.z) / 2)
    assert np.abs(resolvent_map(bulk, at.pencil, state.resolvent).z - state.resolvent).max() < 1e-12
    found = _blocks(bulk, state, at, (1, 2, 3))
    assert at.image.levels is not None
    return Blocks(
        plain=np.einsum("s,sij->ij", np.array(medium.masses), at.image.levels[0]),
        minus=at.inner[0],
        teacher=found.known.teacher[0, :2, :2],
        to_teacher=np.stack([found.to_teacher[j][0] for j in (1, 2, 3)]),
        between=np.array([[found.between[i, j][0] for j in (1, 2, 3)] for i in (1, 2, 3)]),
    )


def test_the_table_of_resolvent_blocks() -> None:
    """Its columns: direct inversions at d = 1000 with their errors, and the equations."""
    found = blocks_of_theory(structure_at(1000))
    first, second = slice(0, 2), slice(2, 4)
    elements = [
        (found.plain[first, first], "0.3940 0.0784 . 0.4378"),
        (found.minus, "0.5389 0.1017 . 0.5011"),
        (found.plain[first, second], "-0.1104 -0.0530 . -0.1249"),
        (found.teacher, "0.2064 0.0347 . 0.3474"),
        (found.to_teacher[0, first, first], "0.2482 0.0484 0.0518 0.4915"),
        (found.between[0, 0, first, first], "0.522 0.130 . 1.001"),
        (found.to_teacher[0, first, second], "-0.239 -0.133 -0.162 -0.352"),
    ]
    for matrix, numbers in elements:
        for value, number in zip(matrix.ravel(), numbers.split(), strict=True):
            if number != ".":
                last = 10.0 ** -len(number.partition(".")[2])
                assert value == pytest.approx(float(number), abs=0.7 * last)
        if "." in numbers.split():
            assert matrix == pytest.approx(matrix.T, abs=2e-3)


def blocks_drawn(structure: Structure, rng: np.random.Generator) -> Blocks:
    """By inversion of the matrix in R^2 (x) R^d."""
    values = structure.eigenvalues
    d = values.size
    n0, theta = round(ALPHA0 * d), np.sqrt(structure.shares / values)
    x = rng.standard_normal((n0, d)) * np.sqrt(values)
    y = np.tanh(x @ theta) - OFFSET + NOISE * rng.standard_normal(n0)
    m, s = (x.T * y) @ x / n0, (x.T * y**2) @ x / n0
    once = np.eye(d) + E[:, None, None] * m
    covariances = once @ once + CHI[:, None, None] * s
    system = np.kron(np.linalg.inv(M), np.diag(1 / values))
    for row, theta_p, covariance in zip(U, THETA, covariances, strict=True):
        system += np.kron(theta_p * np.outer(row, row), covariance)
    inverse = np.linalg.inv(system).reshape(2, d, 2, d)
    sides = np.stack([theta, *(x.T @ y**j / n0 for j in (1, 2, 3))])
    both = np.stack([sides, sides @ m])  # (with M_data, side, d)
    seen = np.einsum("mia,raqb,njb->ijmrnq", both, inverse, both, optimize=True)
    seen = seen.reshape(4, 4, 4, 4)
    traces = np.stack([inverse, np.einsum("raqb,bc->raqc", inverse, m, optimize=True)])
    plain = np.zeros((4, 4))
    plain[:2, :2], plain[:2, 2:] = (np.einsum("raqa->rq", each) / d for each in traces)
    plain[2:, :2] = plain[:2, 2:].T
    plain[2:, 2:] = np.einsum("ab,rbqa->rq", m, traces[1], optimize=True) / d
    minus = np.einsum("raqa,a->rq", inverse, 1 / values, optimize=True) / d
    return Blocks(plain, minus, seen[0, 0, :2, :2], seen[0, 1:], seen[1:, 1:])


def test_resolvent_blocks_by_direct_inversion() -> None:
    structure, rng, draws = structure_at(400), np.random.default_rng(0), 24
    drawn = [blocks_drawn(structure, rng) for _ in range(draws)]
    theory = blocks_of_theory(structure)
    for name, expected in theory._asdict().items():
        many = np.stack([getattr(each, name) for each in drawn])
        mean, error = many.mean(0), many.std(0, ddof=1) / math.sqrt(draws)
        size = np.abs(expected).max()
        assert error.max() < 0.07 * size, name
        # beyond the scatter corrections of order 1/d
        assert np.all(np.abs(mean - expected) < 4 * error + 0.012 * size), name
