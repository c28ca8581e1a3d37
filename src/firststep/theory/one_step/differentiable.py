"""The same equations in JAX: differentiable, traceable, on a GPU where there is one.

The solution is found by the Newton iteration of ``ridge_equations`` in ``lax.while_loop``, outside of differentiation. The last
Newton steps are taken inside: at the solution, x - J(x)^-1 R(x, parameters) has the derivative -J^-1 dR/dparameters of the
implicit function theorem, whatever the iteration did (one step at d = infinity; at finite d, where J leaves out terms of order
1/d, several). Nodes are those of the NumPy solver at the values given, or at the problem's own where the values are not known
yet (inside jit).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax import lax

from firststep.errors import InvalidParameter
from firststep.problem import Problem
from firststep.readouts import ReadoutLaw
from firststep.theory.one_step.fit import (
    ACCEPTED,
    MOST_ITERATIONS,
    NEAR,
    SETTLED,
    TOLERANCE,
    column,
    examine,
    finished,
    newton_step,
    start,
    weights_of,
)
from firststep.theory.one_step.labels import label_rule
from firststep.theory.one_step.moments import (
    Model,
    Numbers,
    Rules,
    assemble,
    conditional,
    kappa_rule,
)
from firststep.theory.one_step.nodes import (
    Resolution,
    choose,
    label_arrays,
    readout_nodes,
    rules_for,
)
from firststep.theory.one_step.predict import (
    NUMERIC,
    check_regime,
    given_fields,
    model_of,
    numbers_of,
    refuse_outside,
)
from firststep.theory.one_step.resolvent import (
    Bulk,
    State,
    equations,
    overlap_map,
    pencil_of,
    relative_gap,
    resolvent_map,
    respond,
)
from firststep.theory.one_step.risk import outcome

# Function values (problems x kappa x readout x student nodes) of one call on arrays whose values are known.
_AT_ONCE = {"cpu": 4_000_000, "gpu": 200_000_000}


@dataclass(frozen=True, eq=False)
class Differentiable:
    """What ``predict`` returns for JAX arrays: numbers to differentiate. nan where the equations did not converge."""

    problem: Problem
    bulk: str
    risk: Any
    training_error: Any
    residual: Any
    resolution: Resolution


class Plan(NamedTuple):
    """What is fixed when the program is compiled."""

    model: Model
    readout: ReadoutLaw
    resolution: Resolution
    exponent: float
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
        known = {name: _known(value) for name, value in values.items()}
        steps = _steps(problem, known)
        sample = _sample(problem, known)
        check_regime(problem, sample)
        plan = _plan(problem, bulk, steps, sample)
        shape = jnp.broadcast_shapes(*(jnp.shape(value) for value in values.values()))
        flat = {
            name: jnp.broadcast_to(jnp.asarray(value, float), shape).ravel()
            for name, value in values.items()
        }
        solve = _compiled(plan)
        count = math.prod(shape)
        at_once = _AT_ONCE.get(jax.default_backend(), _AT_ONCE["cpu"])
        size = (
            max(1, at_once // _cost(plan))
            if all(value is not None for value in known.values())
            else count
        )
        size = math.ceil(count / math.ceil(count / size))  # equal parts: few shapes to compile
        noise = known["noise"]
        if noise is None or noise.ndim > len(shape):
            raise InvalidParameter(
                "noise",
                "known where it is used",
                "a traced value",
                "leave it out of jit and vmap; arrays will do",
            )
        labels, weights = _labels(plan, flat["noise"], np.broadcast_to(noise, shape))
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
    return Differentiable(problem, bulk, risk, training, residual, plan.resolution)


def _known(value: Any) -> Any:
    """The numbers behind a value, also behind one that is being differentiated; None inside jit."""
    while isinstance(value, jax.core.Tracer):
        inner = getattr(value, "primal", getattr(value, "val", None))
        if not isinstance(inner, (jax.core.Tracer, jax.Array, np.ndarray, float, int)):
            return None
        value = inner
    return np.asarray(value, float)


def _steps(problem: Problem, known: Mapping[str, Any]) -> bool:
    present = {
        name: known[name] if known[name] is not None else np.asarray(getattr(problem, name))
        for name in ("alpha0", "step")
    }
    moving = (present["alpha0"] > 0) & (present["step"] > 0)
    if np.any(moving) and not np.all(moving):
        raise InvalidParameter(
            "step",
            "positive everywhere, or zero everywhere, in arrays of JAX",
            "both",
            "predict them apart",
        )
    return bool(np.all(moving))


def _sample(problem: Problem, known: Mapping[str, Any], most: int = 64) -> dict[str, Any]:
    """Points that stand for the batch when nodes are chosen: its corners and some of its inside."""
    own = {
        name: np.atleast_1d(problem.ridges[0] if name == "ridge" else getattr(problem, name))
        for name in NUMERIC
    }
    flat = {
        name: np.unique(value) if value is not None else own[name] for name, value in known.items()
    }
    extremes = [
        np.unique(np.quantile(values, [0, 0.5, 1], method="nearest")) for values in flat.values()
    ]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*extremes, indexing="ij")])
    if grid.shape[1] > most:
        grid = grid[:, np.unique(np.linspace(0, grid.shape[1] - 1, most).round().astype(int))]
    for name, row in zip(flat, grid, strict=True):
        refuse_outside(name, row)
    return dict(zip(flat, grid, strict=True))


def _plan(problem: Problem, bulk: str, steps: bool, sample: Mapping[str, Any]) -> Plan:
    model = model_of(problem, bulk, steps)
    numbers = numbers_of(problem, sample, steps)
    chosen = choose(model, problem.readout, numbers)
    resolution = Resolution(
        min(each.kappa_spacing for each in chosen),
        min(each.readout_scale for each in chosen),
        chosen[0].readout_spacing,
        min(each.label_width for each in chosen),
        max(each.label_detail for each in chosen),
        max((each.student for each in chosen), key=lambda rule: rule.nodes * (1 + len(rule.cuts))),
        max((each.teacher for each in chosen), key=lambda rule: rule.nodes * (1 + len(rule.cuts))),
        chosen[0].rank_cut,
    )
    rules = rules_for(model, problem.readout, resolution, numbers)
    with np.errstate(all="ignore"):
        given = conditional(model, rules, numbers, np, scipy.special)
        found = assemble(model, rules, numbers, given, None, np, lambda x: x, resolution.rank_cut)
    differ = bool(np.any(numbers.rate))
    return Plan(
        model,
        problem.readout,
        resolution,
        problem.step_exponent,
        float(problem.dimension),
        found.bulk.basis.shape[1],
        rules.labels.shape[1] + 8,
        differ,
    )


def _cost(plan: Plan) -> int:
    values, _ = readout_nodes(plan.model, plan.readout, plan.resolution, plan.moving)
    kappa, _ = kappa_rule(plan.resolution.kappa_spacing)
    pieces = 1 + len(plan.resolution.student.cuts)
    return int(
        kappa.size * max(values.size * plan.resolution.student.nodes * min(pieces, 3), kappa.size)
    )


@lru_cache(maxsize=64)
def _compiled(plan: Plan) -> Callable[[dict[str, Any], Any, Any], tuple[Any, Any, Any]]:
    compiled: Callable[[dict[str, Any], Any, Any], tuple[Any, Any, Any]] = jax.jit(
        partial(_solve, plan)
    )
    return compiled


def _solve(
    plan: Plan, values: dict[str, Any], labels: Any, label_weights: Any
) -> tuple[Any, Any, Any]:
    """Risk, training error and residual of a flat batch."""
    numbers = _numbers(plan, values)
    rules = _rules(plan, numbers, labels, label_weights)
    given = conditional(plan.model, rules, numbers, jnp, jax.scipy.special)
    setup = assemble(
        plan.model,
        rules,
        numbers,
        given,
        plan.rank,
        jnp,
        lax.stop_gradient,
        plan.resolution.rank_cut,
    )
    bulk, mean, omega = setup.bulk, setup.mean, rules.omega
    mapping = overlap_map(bulk, jnp)
    frozen = jax.tree.map(lax.stop_gradient, (bulk, mean, mapping, numbers, setup.variance))
    state, weights, residual = _iterate(
        frozen[0], frozen[1], frozen[2], frozen[3], frozen[4], omega
    )

    def polish(carry: tuple[State, Any], _: None) -> tuple[tuple[State, Any], None]:
        state, before = carry
        fit = examine(
            bulk,
            mean,
            mapping,
            state,
            before,
            numbers.ridge,
            omega,
            numbers.alpha,
            jnp,
            lax.stop_gradient,
        )
        return newton_step(bulk, mean, mapping, state, before, fit, omega, numbers.alpha, jnp), None

    start_at = jax.tree.map(lax.stop_gradient, (state, weights))
    (state, weights), _ = lax.scan(
        polish, start_at, None, length=1 if mean.dimension is None else 5
    )
    at = equations(bulk, state, jnp)
    found = respond(bulk, state, at, jnp)
    if mean.dimension is None:  # S as a function of the polished state
        weights = weights_of(mapping, at.slope, omega, numbers.alpha, 0.0, jnp)
    final = outcome(
        bulk, mean, state, at, found, mapping, weights, omega, numbers.alpha, jnp, lax.stop_gradient
    )
    solved = residual < ACCEPTED
    risk = final.risk_with_noise - numbers.noise**2
    return (
        jnp.where(solved, risk, jnp.nan),
        jnp.where(solved, final.training_error, jnp.nan),
        residual,
    )


def _numbers(plan: Plan, values: dict[str, Any]) -> Numbers:
    class Sizes(NamedTuple):
        dimension: float
        step_exponent: float

    return numbers_of(Sizes(plan.dimension, plan.exponent), values, plan.model.steps)  # type: ignore[arg-type]


def _rules(plan: Plan, numbers: Numbers, labels: Any, label_weights: Any) -> Rules:
    batch = numbers.alpha.shape[0]
    kappa, omega = kappa_rule(plan.resolution.kappa_spacing)
    values, masses = readout_nodes(plan.model, plan.readout, plan.resolution, plan.moving)
    return Rules(
        jnp.asarray(kappa),
        jnp.asarray(omega),
        jnp.broadcast_to(values, (batch, values.size)),
        jnp.broadcast_to(masses, (batch, masses.size)),
        labels,
        label_weights,
        plan.resolution.student,
        plan.resolution.teacher,
    )


def _labels(plan: Plan, noise: Any, known: Any) -> tuple[Any, Any]:
    """The label rule at the known noise, with its derivative hung on the noise that may be differentiated."""
    if not plan.model.steps:
        still, still_weights = label_arrays(plan.model, plan.resolution, known.ravel())
        return jnp.asarray(still), jnp.asarray(still_weights)
    size = plan.label_nodes
    offset = plan.model.constants.mean * plan.model.readout_mean
    flat = known.ravel()
    unique, places = np.unique(flat, return_inverse=True)
    tables = [
        np.zeros((unique.size, size)),
        np.zeros((unique.size, 3, size)),
        np.zeros((unique.size, size)),
        np.zeros((unique.size, 3, size)),
    ]
    for row, each in enumerate(unique):
        rule = label_rule(
            plan.model.teacher,
            offset,
            float(each),
            plan.resolution.label_width,
            plan.resolution.label_detail,
        )
        for table, part in zip(tables, rule, strict=True):
            table[row, ..., : part.shape[-1]] = part
    nodes, weights, by_nodes, by_weights = (jnp.asarray(table)[places.ravel()] for table in tables)
    move = noise - lax.stop_gradient(noise)
    return nodes + by_nodes * move[:, None], weights + by_weights * move[:, None, None]


def _settle(bulk: Bulk, state: State) -> State:
    """``ridge_equations.settle_numpy`` in a while loop."""
    pencil = pencil_of(bulk, state.overlaps, state.energy, jnp)
    share = 1.0 if bulk.tilt is None else 0.5

    def far(carry: tuple[Any, Any, Any]) -> Any:
        _, gap, count = carry
        return jnp.any(~(gap < SETTLED)) & (count < 60)

    def move(carry: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        z, gap, count = carry
        moved = z + share * (resolvent_map(bulk, pencil, z, jnp)[0] - z)
        z = jnp.where((gap < SETTLED)[:, None, None], z, moved)
        return z, relative_gap(resolvent_map(bulk, pencil, z, jnp)[0], z, jnp), count + 1

    first = relative_gap(resolvent_map(bulk, pencil, state.resolvent, jnp)[0], state.resolvent, jnp)
    return state._replace(resolvent=lax.while_loop(far, move, (state.resolvent, first, 0))[0])


def _iterate(
    bulk: Bulk, mean: Any, mapping: Any, numbers: Numbers, variance: Any, omega: Any
) -> tuple[State, Any, Any]:
    """Newton steps until all residuals are below the tolerance, keeping the best state of every problem."""
    batch = numbers.alpha.shape[0]
    first = start(bulk, numbers.ridge, omega, variance, jnp)
    whole = jnp.broadcast_to(omega, (batch, omega.size))
    nothing = jnp.full((batch,), jnp.inf)

    def going(carry: Any) -> Any:
        _, _, _, _, best, stalled, count = carry
        return jnp.any(~finished(best, stalled, TOLERANCE)) & (count < MOST_ITERATIONS)

    def body(carry: Any) -> Any:
        state, before, kept, kept_weights, best, stalled, count = carry
        state = lax.cond(jnp.all(best < NEAR), lambda s: s, lambda s: _settle(bulk, s), state)
        fit = examine(
            bulk,
            mean,
            mapping,
            state,
            before,
            numbers.ridge,
            omega,
            numbers.alpha,
            jnp,
            lax.stop_gradient,
        )
        next_state, after = newton_step(
            bulk, mean, mapping, state, before, fit, omega, numbers.alpha, jnp
        )
        residual = jnp.where(jnp.isfinite(fit.residual), fit.residual, jnp.inf)
        better = residual < best
        weights = fit.weights if mean.dimension is None else before

        def pick(new: Any, old: Any) -> Any:
            return jnp.where(column(better, new.ndim), new, old)

        kept = State(*[pick(new, old) for new, old in zip(state, kept, strict=True)])
        stalled = jnp.where(residual < 0.5 * best, 0, stalled + 1)
        return (
            next_state,
            after,
            kept,
            pick(weights, kept_weights),
            jnp.where(better, residual, best),
            stalled,
            count + 1,
        )

    begin = (first, whole, first, whole, nothing, jnp.zeros((batch,), int), 0)
    _, _, kept, weights, best, _, _ = lax.while_loop(going, body, begin)
    return kept, weights, best
