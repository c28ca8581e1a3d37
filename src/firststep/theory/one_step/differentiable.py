"""The same equations in JAX: differentiable, traceable, on a GPU where there is one.

The solution is found by the Newton iteration of ``fit``, outside of differentiation. The last
Newton steps are taken inside: at the solution, x - J(x)^-1 R(x, parameters) has the derivative
-J^-1 dR/dparameters of the implicit function theorem, whatever the iteration did (one step at
d = infinity; at finite d, where J leaves out terms of order 1/d, several). Nodes are those of the
NumPy solver at the values given, or at the problem's own where the values are not known yet
(inside jit).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from firststep.errors import InvalidParameter
from firststep.problem import Problem
from firststep.readouts import ReadoutLaw
from firststep.theory.one_step.fit import ACCEPTED, RIDGE, Iterate, from_above, shrunk_weights
from firststep.theory.one_step.fit import solve as solve_fit
from firststep.theory.one_step.labels import LabelRule, label_rule
from firststep.theory.one_step.moments import Conditional, assemble
from firststep.theory.one_step.nodes import (
    InnerRule,
    Resolution,
    Rules,
    TermRules,
    amplitude_arrays,
    choose,
    first_weights,
    kappa_rule,
    label_arrays,
    readout_rule,
    rules_for,
)
from firststep.theory.one_step.question import (
    NUMERIC,
    Model,
    across,
    check_regime,
    given_fields,
    model_of,
    numbers_of,
    own_variance,
    refuse_outside,
)
from firststep.theory.one_step.resolvent import equations
from firststep.theory.one_step.risk import outcome
from firststep.theory.one_step.term_labels import TermRule, term_label_rule
from firststep.theory.teacher import TermSum

if TYPE_CHECKING:
    from firststep.typing import Array, Float

    Values = Mapping[str, Float[Array, " batch"]]
    Known = Mapping[str, Float[Array, "*shape"] | None]

# Function values (problems x kappa x readout x student nodes) of one call on arrays whose values
# are known: 32 MB on a CPU, and what keeps a GPU busy without filling its memory.
_AT_ONCE = {"cpu": 4_000_000, "gpu": 200_000_000}
_LEVELS_AT_ONCE = 16  # of the inputs' covariance, in the memory of one without
_SPARE_LABELS = 8  # nodes: the rules of other noises may have a few more than the sample's
_OWN_NODES = 9  # Gauss-Hermite: the own output is a small part of the labels
_LAST_STEPS = 5  # at finite d: each leaves about 1/d of the derivative's error


@dataclass(frozen=True, eq=False)
class Differentiable:
    """What ``predict`` returns for JAX arrays: numbers to differentiate.

    nan where the equations did not converge.
    """

    problem: Problem
    bulk: str
    risk: Float[Array, "*shape"]
    training_error: Float[Array, "*shape"]
    residual: Float[Array, "*shape"]
    resolution: Resolution


class Plan(NamedTuple):
    """What is fixed when the program is compiled."""

    model: Model
    readout: ReadoutLaw
    resolution: Resolution
    step_exponent: float
    dimension: float
    rank: int
    label_nodes: int
    moving: bool


def trace(problem: Problem, bulk: str, fields: Mapping[str, Any]) -> Differentiable:
    """Risk and training error as JAX arrays."""
    with jax.enable_x64(True):
        values = {
            name: jnp.asarray(v, float) if isinstance(v, tuple) else v
            for name, v in given_fields(problem, fields).items()
        }
        known = {name: known_values(value) for name, value in values.items()}
        sample = _sample(problem, known)
        check_regime(problem, sample)
        plan = _plan(problem, bulk, _steps(problem, known), sample)
        shape = jnp.broadcast_shapes(*(jnp.shape(value) for value in values.values()))
        flat = {
            name: jnp.broadcast_to(jnp.asarray(value, float), shape).ravel()
            for name, value in values.items()
        }
        labels, weights = _labels(plan, flat, _flat_known(known, shape))
        count, solve = math.prod(shape), _compiled(plan)
        all_known = all(value is not None for value in known.values())
        size = _part_size(plan, count) if all_known else count
        parts = [
            solve(
                {name: each[i : i + size] for name, each in flat.items()},
                labels[i : i + size],
                weights[i : i + size],
            )
            for i in range(0, count, size)
        ]
        risk, training, residual = (
            jnp.concatenate(each).reshape(shape) for each in zip(*parts, strict=True)
        )
    return Differentiable(
        problem=problem,
        bulk=bulk,
        risk=risk,
        training_error=training,
        residual=residual,
        resolution=plan.resolution,
    )


def known_values(value: object) -> Float[Array, "*shape"] | None:
    """The numbers behind a value, also behind one that is being differentiated; None inside jit."""
    while isinstance(value, jax.core.Tracer):
        inner = getattr(value, "primal", getattr(value, "val", None))
        if not isinstance(inner, (jax.core.Tracer, jax.Array, np.ndarray, float, int)):
            return None
        value = inner
    return np.asarray(value, float)


def _flat_known(known: Known, shape: tuple[int, ...]) -> Known:
    """The known values as flat arrays; None where a value has an axis of its own (vmap)."""
    return {
        name: None if v is None or v.ndim > len(shape) else np.broadcast_to(v, shape).ravel()
        for name, v in known.items()
    }


def _steps(problem: Problem, known: Known) -> bool:
    def present(name: str) -> Float[Array, "*shape"]:
        value = known[name]
        return np.asarray(getattr(problem, name)) if value is None else value

    moving = (present("alpha0") > 0) & (present("step") > 0)
    if np.any(moving) and not np.all(moving):
        allowed = "positive everywhere, or zero everywhere, in arrays of JAX"
        raise InvalidParameter("step", allowed, "both", "predict them apart")
    return bool(np.all(moving))


def _sample(problem: Problem, known: Known, most: int = 64) -> dict[str, Float[Array, " points"]]:
    """Points that stand for the batch when nodes are chosen: its corners and some of its inside."""
    own = {name: np.atleast_1d(getattr(problem, name))[:1].astype(float) for name in NUMERIC}
    flat = {
        name: np.unique(value) if value is not None else own[name] for name, value in known.items()
    }
    extremes = [
        np.unique(np.quantile(values, [0, 0.5, 1], method="nearest")) for values in flat.values()
    ]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*extremes, indexing="ij")])
    if grid.shape[1] > most:
        some = np.linspace(0, grid.shape[1] - 1, most).round().astype(int)
        grid = grid[:, np.unique(some)]
    for name, row in zip(flat, grid, strict=True):
        refuse_outside(name, row)
    return dict(zip(flat, grid, strict=True))


def _plan(problem: Problem, bulk: str, steps: bool, sample: Values) -> Plan:
    model, readout = model_of(problem, bulk, steps), problem.readout
    numbers = across(numbers_of(problem, sample, model))
    resolution = _finest(choose(model, readout, numbers))
    rules = rules_for(model, readout, resolution, numbers)
    with np.errstate(all="ignore"):
        given = Conditional.of(model, rules, numbers)
        system = assemble(model, rules, numbers, given, cut=resolution.rank_cut)
    return Plan(
        model=model,
        readout=readout,
        resolution=resolution,
        step_exponent=problem.step_exponent,
        dimension=float(problem.dimension),
        rank=system.bulk.basis.shape[1],
        label_nodes=rules.labels.shape[1] + _SPARE_LABELS,
        moving=bool(np.any(numbers.rate)),
    )


def _finest(chosen: list[Resolution]) -> Resolution:
    """One that serves all of them."""

    def work(rule: InnerRule | TermRules) -> int:
        return rule.nodes * (1 + len(rule.cuts))

    return chosen[0]._replace(
        kappa_spacing=min(each.kappa_spacing for each in chosen),
        readout_scale=min(each.readout_scale for each in chosen),
        label_width=min(each.label_width for each in chosen),
        label_detail=max(each.label_detail for each in chosen),
        student=max((each.student for each in chosen), key=work),
        teacher=max((each.teacher for each in chosen), key=work),
    )


def _part_size(plan: Plan, count: int) -> int:
    """How many problems are solved at once: equal parts, so that few shapes are compiled."""
    rule = readout_rule(plan.model, plan.readout, plan.resolution, plan.moving)
    kappa, _ = kappa_rule(plan.resolution.kappa_spacing)
    pieces = min(1 + len(plan.resolution.student.cuts), 3)
    inner = rule.values.size * plan.resolution.student.nodes * pieces
    inner *= 1 + len(plan.model.medium.levels) // _LEVELS_AT_ONCE
    at_once = _AT_ONCE.get(jax.default_backend(), _AT_ONCE["cpu"])
    size = max(1, at_once // (kappa.size * max(inner, kappa.size)))
    return math.ceil(count / math.ceil(count / size))


@lru_cache(maxsize=64)
def _compiled(plan: Plan) -> Callable[..., tuple[Array, Array, Array]]:
    compiled: Callable[..., tuple[Array, Array, Array]] = jax.jit(partial(_solve, plan))
    return compiled


def _solve(
    plan: Plan,
    values: Values,
    labels: Float[Array, "batch J"],
    label_weights: Float[Array, "batch rows J"],
) -> tuple[Float[Array, " batch"], Float[Array, " batch"], Float[Array, " batch"]]:
    """Risk, training error and residual of a flat batch.

    ``label_weights``: three rows of weights, or the amplitudes of a teacher of several directions.
    """
    numbers = across(numbers_of(plan, values, plan.model))
    rules = rules_of(plan, labels, label_weights)
    given = Conditional.of(plan.model, rules, numbers)
    cut = plan.resolution.rank_cut
    system = assemble(plan.model, rules, numbers, given, cut=cut, rank=plan.rank)
    still = lax.stop_gradient(system)
    solution = solve_fit(still, from_above(still))

    def polish(iterate: Iterate, _: None = None) -> tuple[Iterate, None]:
        return RIDGE.step(system, iterate, RIDGE.examine(system, iterate)), None

    begin = lax.stop_gradient(Iterate(solution.state, solution.shrunk))
    if system.is_finite:
        (state, shrunk), _ = lax.scan(polish, begin, None, length=_LAST_STEPS)
    else:  # S as a function of the polished state
        state = polish(begin)[0].state
        shrunk = shrunk_weights(system, equations(system.bulk, state), 0.0)
    errors = outcome(system, state, shrunk)
    is_good = solution.residual < ACCEPTED
    risk = jnp.where(is_good, errors.test_error - numbers.noise**2, jnp.nan)
    return risk, jnp.where(is_good, errors.training_error, jnp.nan), solution.residual


def rules_of(
    plan: Plan, labels: Float[Array, "batch J"], label_weights: Float[Array, "batch rows J"]
) -> Rules:
    """The nodes; kappa stays in NumPy, as functions of it alone are computed once for all."""
    batch = labels.shape[0]
    kappa, omega = kappa_rule(plan.resolution.kappa_spacing, plan.resolution.reach)
    kind, values, masses = readout_rule(plan.model, plan.readout, plan.resolution, plan.moving)
    amplitudes = None if plan.model.several is None else label_weights
    return Rules(
        kappa=kappa,
        omega=jnp.asarray(omega),
        kind=kind,
        readout=jnp.broadcast_to(values, (batch, values.size)),
        masses=jnp.broadcast_to(masses, (batch, masses.size)),
        labels=labels,
        label_weights=label_weights if amplitudes is None else first_weights(amplitudes),
        amplitudes=amplitudes,
        student=plan.resolution.student,
        teacher=plan.resolution.teacher,
    )


def _labels(
    plan: Plan, values: Values, known: Known
) -> tuple[Float[Array, "batch J"], Float[Array, "batch rows J"]]:
    """The label rule at the known noise of the step, with its derivative hung on the noise given.

    The own output is a part of that noise which depends on beta. Inside jit, where beta is not
    known, the rule is that of the label noise alone, crossed with one of the own output.
    """
    noise = known["noise"]
    if noise is None:
        hint = "leave it out of jit and vmap; arrays will do"
        raise InvalidParameter("noise", "known where it is used", "a traced value", hint)
    model, resolution = plan.model, plan.resolution
    if not model.steps:
        arrays = label_arrays if model.several is None else amplitude_arrays
        still, still_weights = arrays(model, resolution, noise)
        return jnp.asarray(still), jnp.asarray(still_weights)
    if known["beta"] is not None:
        needed = {**dict.fromkeys(NUMERIC, noise), "beta": known["beta"]}
        total = numbers_of(plan, values, model).step_noise
        return _label_tables(plan, total, numbers_of(plan, needed, model).step_noise)
    labels, weights = _label_tables(plan, values["noise"], noise)
    if not model.has_own_output:
        return labels, weights
    own = jnp.sqrt(own_variance(model, values["beta"] * plan.dimension))
    xi, mass = np.polynomial.hermite_e.hermegauss(_OWN_NODES)
    labels = labels[:, :, None] + own[:, None, None] * xi
    mass = mass / mass.sum()
    weights = weights[..., None] * (mass if model.several is None else np.sqrt(mass))
    return labels.reshape(labels.shape[0], -1), weights.reshape(*weights.shape[:2], -1)


def _label_tables(
    plan: Plan, noise: Float[Array, " batch"], known: Float[Array, " batch"]
) -> tuple[Float[Array, "batch J"], Float[Array, "batch rows J"]]:
    """Label rules of several noises."""
    model, resolution, size = plan.model, plan.resolution, plan.label_nodes
    unique, places = np.unique(known, return_inverse=True)
    several = model.several
    rows = 3 if several is None else 1 + several.count
    shapes = ((size,), (rows, size), (size,), (rows, size))
    tables = [np.zeros((unique.size, *shape)) for shape in shapes]
    width, detail = resolution.label_width, resolution.label_detail
    for row, value in enumerate(unique):
        rule: LabelRule | TermRule
        if isinstance(model.teacher, TermSum):
            rule = term_label_rule(model.teacher, model.offset, float(value), width, detail)
        else:
            rule = label_rule(model.teacher, model.offset, float(value), width, detail)
        for table, part in zip(tables, rule, strict=True):
            table[row, ..., : part.shape[-1]] = part
    nodes, weights, by_nodes, by_weights = (jnp.asarray(each)[places.ravel()] for each in tables)
    move = noise - lax.stop_gradient(noise)
    return nodes + by_nodes * move[:, None], weights + by_weights * move[:, None, None]
