"""Teachers of several directions: labels, blocks and derivatives by other routes, exact identities
of the answers, and what is refused.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from firststep import Problem, compare, predict
from firststep.activations import activation
from firststep.errors import InvalidParameter
from firststep.theory.closed_forms.small_step import small_step
from firststep.theory.one_step.fit import Solution, from_above
from firststep.theory.one_step.fit import solve as solve_fit
from firststep.theory.one_step.mean import forms
from firststep.theory.one_step.model_error import of_the_step
from firststep.theory.one_step.moments import Conditional, assemble
from firststep.theory.one_step.nodes import Rules, choose, rules_for
from firststep.theory.one_step.projection import projection
from firststep.theory.one_step.question import Model, Numbers, broadcast, model_of, numbers_of
from firststep.theory.one_step.resolvent import equations, overlaps_of
from firststep.theory.one_step.response import respond
from firststep.theory.one_step.risk import Solved, spread
from firststep.theory.one_step.system import State, System
from firststep.theory.one_step.term_labels import term_label_rule
from firststep.theory.teacher import TermSum

GENERIC: dict[str, Any] = {
    "alpha": 2.3,
    "beta": 1.2,
    "alpha0": 1.7,
    "step": 1.9,
    "ridge": 0.07,
    "noise": 0.13,
}
# One and two blocks, with and without fluctuations of the norms that know the rows.
STUDENTS = (
    ("tanh", "ones"),
    ("relu", "signs"),
    ("tanh(z+0.5)", "-1:0.3,2:0.7"),
    ("relu", "gaussian"),
)
THREE = ("relu", "0.7*sin(2*z)", "0.3*(z**2-1)")


def learns(*terms: str, **given: Any) -> Problem:
    fields = {**GENERIC, "student": "tanh", "readout": "ones", **given}
    return Problem(teacher=terms[0], teacher_terms=list(terms[1:]), **fields)


# Labels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "noise", "width"),
    [
        (("relu", "0.7*sin(2*z)"), 0.2, 0.3),
        (("tanh", "z**2 - 1"), 0.0, 1.0),
        (("abs", "tanh"), 0.3, 0.05),
    ],
)
def test_label_rule_integrates_on_a_product_grid(
    terms: tuple[str, str], noise: float, width: float
) -> None:
    """E[G_a G_b f(yhat)] for rational f, by a fine grid in both directions and the noise."""
    teacher = TermSum(tuple(map(activation, terms)))
    rule = term_label_rule(teacher, 0.2, noise, width, 2)
    z = (np.arange(-420, 420) + 0.5) / 60  # no node on a kink
    mass = np.exp(-(z**2) / 2)
    mass /= mass.sum()
    one, two = (term.evaluate(z) for term in teacher.terms)
    clean = one[:, None] + two - 0.2
    own = [np.ones_like(clean), z[:, None] + 0 * clean, z + 0 * clean]
    turned = [own[0], *np.tensordot(teacher.rotation, np.stack(own[1:]), 1)]
    eps = np.linspace(-6, 6, 121) if noise else np.zeros(1)
    density = np.exp(-(eps**2) / 2) / np.exp(-(eps**2) / 2).sum()
    for strength in (0.0, 0.5 / width**2):
        seen = np.zeros_like(clean)
        for shift, part in zip(eps, density, strict=True):
            y = clean + noise * shift
            seen += part * (y**2 + 0.3 * y) / (1 + strength * y**2)
        weighted = np.outer(mass, mass) * seen
        exact = [[np.sum(weighted * a * b) for a in turned] for b in turned]
        y = rule.nodes
        values = (y**2 + 0.3 * y) / (1 + strength * y**2)
        found = (rule.amplitudes * values) @ rule.amplitudes.T
        assert found == pytest.approx(np.array(exact), abs=2e-4 * np.abs(exact).max())


def test_label_rule_does_not_mind_the_order_of_terms_nor_one_that_is_zero() -> None:
    terms = ("relu", "0.7*sin(2*z)", "0.3*(z**2-1)")
    rules = [
        term_label_rule(TermSum(tuple(map(activation, each))), 0.2, 0.15, 0.25, 2)
        for each in (terms, terms[::-1], (*terms, "0*z"))
    ]

    def moments(rule: Any) -> list[float]:
        one, first, rest = rule.amplitudes[0], rule.amplitudes[1], rule.amplitudes[2:]
        y = rule.nodes
        f = y / (1 + 4 * y**2)
        crossed = [float(np.sum(one * other * f)) for other in rest]
        return [
            np.sum(one**2 * f),
            np.sum(one * first * f),
            np.sum(first**2 * f),
            math.hypot(*crossed),
        ]

    expected = moments(rules[0])
    for rule in rules[1:]:
        assert moments(rule) == pytest.approx(expected, abs=1e-9)
        assert rule.amplitudes[2:] @ (rule.amplitudes[0] * rule.nodes) == pytest.approx(0, abs=1e-9)


def test_label_rule_moves_with_the_noise() -> None:
    teacher = TermSum(tuple(map(activation, ("relu", "0.7*sin(2*z)"))))

    def total(noise: float) -> Any:
        rule = term_label_rule(teacher, 0.1, noise, 0.5, 2)
        return (rule.amplitudes / (1 + rule.nodes**2)) @ rule.amplitudes.T

    rule = term_label_rule(teacher, 0.1, 0.3, 0.5, 2)
    a, y, da, dy = rule.amplitudes, rule.nodes, rule.amplitudes_by_noise, rule.nodes_by_noise
    f, slope = 1 / (1 + y**2), -2 * y / (1 + y**2) ** 2
    found = (da * f) @ a.T + (a * f) @ da.T + (a * slope * dy) @ a.T
    expected = (total(0.3 + 1e-4) - total(0.3 - 1e-4)) / 2e-4
    assert found == pytest.approx(expected, rel=1e-4, abs=3e-6)


# Blocks of the resolvent and their derivatives ----------------------------------------------------


def prepared(problem: Problem) -> tuple[Model, Numbers, Rules, System, Solution]:
    values, _ = broadcast(problem, {})
    model = model_of(problem, "exact", True)
    numbers = numbers_of(problem, values, model)
    rules = rules_for(model, problem.readout, choose(model, problem.readout, numbers)[0], numbers)
    given = Conditional.of(model, rules, numbers)
    system = assemble(model, rules, numbers, given, cut=3e-5)
    return model, numbers, rules, system, solve_fit(system, from_above(system))


def _sampled(problem: Problem, system: System, state: State, d: int, seed: int) -> np.ndarray:
    """theta_a and v/|v| times the resolvent, for step data that are drawn."""
    rng = np.random.default_rng(seed)
    teacher, bulk = TermSum((problem.teacher, *problem.teacher_terms)), system.bulk
    count, m = round(problem.alpha0 * d), teacher.count
    x = rng.standard_normal((count, d))
    y = sum(term.evaluate(x[:, b]) for b, term in enumerate(teacher.terms))
    y = y + problem.noise * rng.standard_normal(count)
    y = y - problem.readout.mean * problem.student.moments.mean
    data, square = (x.T @ (each[:, None] * x) / count for each in (y, y**2))
    v = x.T @ y / count
    theta = bulk.neurons[0] / state.energy[0]
    r, one = bulk.basis.shape[1], np.eye(d)
    whole = np.kron(np.linalg.inv(state.overlaps[0]), one)
    tilt = np.zeros_like(theta) if bulk.tilt is None else bulk.tilt[0]
    for p, u in enumerate(bulk.coordinates[0]):
        moved = one + tilt[p] * data
        covariance = moved @ moved + bulk.jitter[0, p] * square
        whole += theta[p] * np.kron(np.outer(u, u), covariance)
    ends = np.concatenate([teacher.rotation @ np.eye(m, d), v[None] / np.linalg.norm(v)])
    columns = np.einsum("ij,ad->iajd", np.eye(r), ends).reshape(r * (m + 1), r * d).T
    inside = columns.T @ np.linalg.solve(whole, columns)
    return inside.reshape(r, m + 1, r, m + 1).transpose(1, 3, 0, 2)  # [a, b, i, j]


@pytest.mark.parametrize(
    ("student", "readout", "step", "crossed"),
    [("relu", "ones", 5.0, 0.1), ("tanh(z+0.5)", "-1:0.3,2:0.7", 3.0, 0.03)],
)
def test_blocks_along_all_directions_by_sampling(
    student: str, readout: str, step: float, crossed: float
) -> None:
    """G_ab, G_av and G_vv within the scatter of draws, where G_12 is not small."""
    problem = learns("z**2 + 0.6*z", "0.8*z", student=student, readout=readout, step=step)
    *_, system, solution = prepared(problem)
    state = solution.state
    shapes = forms(system, state, equations(system.bulk, state))
    r, n = state.overlaps.shape[-1], state.resolvent.shape[-1]
    between = shapes.teacher[0].reshape(2, n, 2, n)[:, :r, :, :r]
    expected = np.zeros((3, 3, r, r))
    expected[:2, :2] = between.transpose(0, 2, 1, 3)
    to_v = shapes.to_teacher[0].reshape(r, 2, r)
    expected[2, :2], expected[:2, 2] = to_v.swapaxes(0, 1), to_v.transpose(1, 2, 0)
    expected[2, 2] = np.linalg.inv(shapes.solver[0])
    draws = [_sampled(problem, system, state, 300, seed) for seed in range(12)]
    mean, error = np.mean(draws, 0), np.std(draws, 0, ddof=1) / math.sqrt(12)
    size = np.abs(mean).max()
    assert np.all(np.abs(mean - expected) < 4 * error + 0.01 * size)
    assert np.abs(expected[0, 1]).max() > crossed * size


@pytest.mark.parametrize(("student", "readout"), STUDENTS[:3])
def test_frozen_derivative_by_differences(student: str, readout: str) -> None:
    """dJ/dS of g and b_a that are frozen, against J at overlaps on both sides."""
    problem = learns(*THREE, student=student, readout=readout, dimension=400)
    *_, system, solution = prepared(problem)
    rng = np.random.default_rng(1)
    shrunk = solution.shrunk
    r, nodes = system.bulk.basis.shape[1], system.mean.mean.shape[-1]
    g, across = rng.standard_normal((1, nodes)) * 0.1, rng.standard_normal((1, 3 * r))

    def at(by: float) -> float:
        """J at S + by change, with the resolvent that belongs to it."""
        moved = shrunk + by * change
        matrix, diagonal = overlaps_of(system, (system.overlap_map @ moved[..., None])[..., 0])
        state = State(matrix, diagonal, solution.state.energy, solution.state.resolvent)
        for _ in range(8):
            found = respond(system.bulk, state, equations(system.bulk, state))
            state = state.moved(
                np.zeros_like(found.force_shift),
                state.energy + found.energy_shift,
                found.resolvent_shift,
            )
        there = equations(system.bulk, state)
        assert there.residual[0] < 1e-11
        shapes = forms(system, state, there)
        fit = projection(system, state, there, shapes, shrunk)
        kernel = fit.kernel[0] + system.mean.dimension[0] * fit.free[0] @ fit.free[0].T
        vectors = system.bulk.basis * system.mean.kappa
        if system.mean.linear_chaos is not None:
            vectors = np.concatenate([vectors, system.mean.by_variance], 1)
        seen = vectors[0] @ g[0, : vectors.shape[-1]]
        one = across[0]
        return float(
            g[0] @ kernel @ g[0] + 2 * seen @ shapes.cross[0] @ one + one @ shapes.across[0] @ one
        )

    change = system.omega * rng.standard_normal((1, system.omega.size))
    solved = Solved.of(system, solution.state)
    _, by_weight = spread(solved, g, across)
    h = 1e-4
    slope = (at(h) - at(-h)) / (2 * h)
    assert float(np.sum(by_weight * change)) == pytest.approx(slope, rel=2e-5)


# Exact identities ---------------------------------------------------------------------------------


def _same(one: Problem, other: Problem, limit: float = 1e-10) -> None:
    a, b = predict(one), predict(other)
    assert a.status == b.status == "converged"
    assert b.risk == pytest.approx(a.risk, rel=limit)
    assert b.training_error == pytest.approx(a.training_error, rel=limit)
    split, again = a.error_split, b.error_split
    for name in ("along", "across", "out_of_reach", "total"):
        assert getattr(again, name) == pytest.approx(getattr(split, name), rel=1e-8, abs=1e-9)


@pytest.mark.parametrize("dimension", [700, math.inf])
@pytest.mark.parametrize(("student", "readout"), STUDENTS)
def test_a_term_that_is_zero_changes_nothing(student: str, readout: str, dimension: float) -> None:
    fields = {"student": student, "readout": readout, "dimension": dimension}
    for term, limit in (("tanh", 1e-10), ("tanh(z) + 0.2*z**2", 2e-9)):  # as fine as labels are
        for terms in ((term, "0*z"), ("0*z", term)):
            _same(learns(term, **fields), learns(*terms, **fields), limit)


@pytest.mark.parametrize("dimension", [700, pytest.param(math.inf, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("student", "readout"), STUDENTS)
def test_a_rotation_of_the_directions_changes_nothing(
    student: str, readout: str, dimension: float
) -> None:
    """Linear terms are one linear teacher; squares of equal weight have no axes of their own."""
    fields = {"student": student, "readout": readout, "dimension": dimension}
    _same(learns("z", **fields), learns("0.36*z", "-0.48*z", "0.8*z", **fields))
    one = learns("0.3*z**2 + z", "0.3*z**2", "tanh", **fields)
    other = learns("0.3*z**2 + 0.6*z", "tanh", "0.3*z**2 - 0.8*z", **fields)
    _same(one, other)


@pytest.mark.parametrize(
    "given",
    [
        {"bulk": "isotropic"},
        {"step": 0.0},
        {"step_exponent": 0.0},
        {"init": "sphere", "dimension": 300},
        {"step_exponent": 0.25, "dimension": 300},
    ],
    ids=str,
)
def test_terms_may_be_permuted(given: dict[str, Any]) -> None:
    """Four of them, in every regime and with either bulk."""
    terms = (*THREE, "0.4*tanh(z)")
    bulk = {"bulk": given["bulk"]} if "bulk" in given else {}
    fields = {n: v for n, v in given.items() if n != "bulk"} | {"student": "tanh(z+0.5)"}
    risks = [
        predict(learns(*(terms[i] for i in order), **fields), **bulk).risk
        for order in ((0, 1, 2, 3), (3, 1, 0, 2))
    ]
    assert risks[1] == pytest.approx(risks[0], rel=1e-10)


def test_a_point_of_an_array_is_that_point_alone() -> None:
    problem = learns(*THREE, student="relu", readout="signs", dimension=500)
    many = predict(problem, alpha0=np.array([0.8, 2.0, 5.0]), noise=np.array([0.1, 0.3, 0.2]))
    for i, (alpha0, noise) in enumerate(((0.8, 0.1), (2.0, 0.3), (5.0, 0.2))):
        alone = predict(problem.replace(alpha0=alpha0, noise=noise))
        assert many.risk[i] == pytest.approx(alone.risk, rel=1e-8)
        assert many.alignments[i] == pytest.approx(alone.alignments, rel=1e-12)
    assert many.alignments.shape == (3, 3)


@pytest.mark.parametrize("readout", ["ones", "gaussian", "-1:0.3,2:0.7"])
@pytest.mark.parametrize("student", ["tanh", "tanh(z+0.5)"])
def test_small_step_is_its_closed_form(student: str, readout: str) -> None:
    problem = learns("tanh", "0.5*sin(2*z)", "0.3*(z**2-1)", student=student, readout=readout)
    problem = problem.replace(step_exponent=0)
    found, closed = predict(problem), small_step(problem)
    assert found.risk == pytest.approx(closed.risk, rel=1e-10)
    assert found.gain == pytest.approx(closed.gain, rel=1e-9)
    assert found.random_features_risk == pytest.approx(closed.random_features_risk, rel=1e-10)


def test_large_and_infinite_dimension_agree() -> None:
    problem = learns(*THREE, student="relu", readout="signs")
    limit = predict(problem).risk
    gaps = [predict(problem, dimension=d).risk / limit - 1 for d in (1e4, 1e5)]
    assert abs(gaps[1]) < 1e-3
    assert abs(gaps[1]) < 0.3 * abs(gaps[0])


# What is said -------------------------------------------------------------------------------------


def test_alignments_functions_and_parts_of_the_risk() -> None:
    problem = learns(*THREE, student="relu", readout="signs", dimension=600)
    found = predict(problem)
    linear = np.array([activation(term).moments.linear for term in THREE])
    assert found.alignments == pytest.approx(linear / found.gradient_norm, rel=1e-8)
    assert found.alignment == found.alignments[0]
    assert f"{found.alignments[1]:.4g}" in str(found)
    assert " + ".join(map(str, (problem.teacher, *problem.teacher_terms))) in found.title
    split = found.error_split
    assert split.risk == pytest.approx(found.risk, rel=1e-12)
    assert sum(split.across_by_direction) == pytest.approx(split.across, rel=1e-12)
    assert len(split.across_by_direction) == len(found.linear_coefficient) == 3
    moments = [activation(term).moments for term in THREE]
    total = sum(m.second_moment - m.mean**2 for m in moments) + sum(m.mean for m in moments) ** 2
    assert split.total == pytest.approx(total, rel=1e-10)
    assert found.kernel_lower_bound == pytest.approx(sum(m.nonlinear_variance for m in moments))
    assert math.isnan(found.tau_star)
    assert math.isnan(found.theorem_seven_bound)
    assert found.to_dict()["alignments"] == pytest.approx(list(found.alignments))


@pytest.mark.parametrize("step", [0.0, 1.9])
def test_error_by_kappa_averages_to_the_risk(step: float) -> None:
    found = predict(learns(*THREE, student="relu", readout="signs", dimension=600, step=step))
    weights = np.exp(-(found.kappa**2) / 2)
    assert weights @ found.error_by_kappa / weights.sum() == pytest.approx(found.risk, rel=1e-5)
    gap = weights @ (found.target_function - found.learned_function) ** 2 / weights.sum()
    assert gap < found.risk


def test_output_alignment_is_that_of_one_direction() -> None:
    fields = {"student": "relu", "readout": "signs", "dimension": 600}
    one, two = predict(learns("tanh", **fields)), predict(learns("tanh", "0*z", **fields))
    for name in ("output_alignment", "test_loss", "training_loss"):
        assert getattr(two, name) == pytest.approx(getattr(one, name), rel=1e-7)


@pytest.mark.parametrize(("student", "readout"), STUDENTS)
def test_doubts_are_those_of_one_direction(student: str, readout: str) -> None:
    """Beside a term that is zero; the share that a bend of none takes from the fit is 1e-3."""
    fields = {"student": student, "readout": readout, "dimension": 400}
    one, two = (predict(learns(*terms, **fields)) for terms in (("relu",), ("relu", "0*z")))
    assert two.model_error == pytest.approx(one.model_error, rel=2e-3)
    assert two.model_error_reason == one.model_error_reason


def test_covariance_across_is_that_of_sampled_rows() -> None:
    """C_bb of every term's own direction across the step, from drawn step data."""
    problem = learns("z**2 + 0.8*z", "-z**2 + 0.3*z", student="tanh(z+0.5)", dimension=2000)
    model, numbers, rules, *_ = prepared(problem)
    found = of_the_step(model, rules, numbers, Conditional.of(model, rules, numbers))
    law = Conditional.of(model, rules, numbers).law
    rng, d = np.random.default_rng(2), 2000
    sampled = []
    for _ in range(4):
        x = rng.standard_normal((round(problem.alpha0 * d), d))
        y = sum(
            t.evaluate(x[:, b]) for b, t in enumerate((problem.teacher, *problem.teacher_terms))
        )
        y = y + problem.noise * rng.standard_normal(len(x)) - model.offset
        v = x.T @ y / len(x)
        v /= np.linalg.norm(v)
        ends = np.eye(2, d) - v[:2, None] * v
        ends /= np.linalg.norm(ends, axis=1)[:, None]
        moved = ends + law.tilt[0, 0] * ((ends @ x.T) * y) @ x / len(x)
        rough = ((ends @ x.T) ** 2) @ y**2 / len(x)
        sampled.append(np.sum(moved**2, 1) + law.jitter[0, 0] * rough)
    assert found.across[0, :, 0] == pytest.approx(np.mean(sampled, 0), rel=0.05)


@pytest.mark.parametrize(
    "given",
    [{"labels": "sign"}, {"loss": "huber:1"}, {"noise_law": "t:8"}, {"intercept": True}],
    ids=str,
)
def test_what_the_average_does_not_know_is_refused(given: dict[str, Any]) -> None:
    problem = learns("tanh", "relu", dimension=200, **given)
    with pytest.raises(InvalidParameter, match="teacher-terms must be empty with"):
        predict(problem)


def test_more_directions_than_four_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="teacher-terms must be at most 3"):
        predict(learns("tanh", "z", "z", "z", "z"))
    with pytest.raises(InvalidParameter, match=r"teacher.terms"):
        predict(learns("tanh"), teacher_terms="relu")


def test_networks_and_layers_beside_the_theory() -> None:
    """``compare`` and ``check`` draw the same terms."""
    problem = learns("tanh", "relu", student="relu", readout="signs", dimension=200)
    beside = compare(problem, 200, replicates=6, seed=1)
    assert beside.simulation.options["teacher_terms"] == ["relu"]
    assert abs(beside["gradient_norm"].relative) < 0.05
    assert abs(beside["risk"].relative) < 0.2
    checked = predict(problem, check=3).check
    assert abs(checked.relative) < 0.05
    assert "tanh + relu" in checked.title
