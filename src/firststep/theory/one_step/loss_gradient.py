"""Derivatives of the numbers of a fit with any loss, or of binary labels, for arrays of JAX.

At the solution x = (log V, m, t, log v) is its own image, x = F(x, p), and the numbers are R(x, p)
with p = (alpha, beta, alpha0, step, ridge, noise). So, with dp one of the unit vectors,

    (1 - F_x) dx = F_p dp,   dR = R_x dx + R_p dp.

F is one pass of the map of ``loss_fit``, with (E, Z) as functions of S and p by a last step of
Newton's at their solution. The equations are the same code on arrays of JAX, whose derivatives
along (dx, dp) are exact; nodes that are split where a score bends move with what moves the bend.
The nodes of kappa and the basis of mu1 stay, and of the labels' nodes the derivative is known. The
linear equation is solved by GMRES, in the metric of the residual: F_x is compact, and some 20
directions do.

Numbers are those of the NumPy solver: values must be known, outside of jit and vmap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from firststep.errors import InvalidParameter
from firststep.losses import Loss
from firststep.numerics.threads import one_thread
from firststep.problem import Problem
from firststep.theory.channel import Channel
from firststep.theory.loss_fixed_point import metric_of, packed, unpacked
from firststep.theory.loss_report import line, numbers
from firststep.theory.one_step.differentiable import Plan, known_values, rules_of
from firststep.theory.one_step.fit import response_of
from firststep.theory.one_step.labels import label_rule
from firststep.theory.one_step.loss_fit import LossFit, image
from firststep.theory.one_step.moments import Conditional, assemble_in, combination_of
from firststep.theory.one_step.nodes import label_arrays, rules_for
from firststep.theory.one_step.prediction import Prediction
from firststep.theory.one_step.question import (
    NUMERIC,
    Model,
    across,
    broadcast,
    given_fields,
    model_of,
    moves,
    numbers_of,
)
from firststep.theory.one_step.resolvent import equations, overlaps_of
from firststep.theory.one_step.solve import Point, labels_of
from firststep.theory.one_step.solve_loss import LossSolver
from firststep.theory.one_step.system import State, System, apply, unfold

if TYPE_CHECKING:
    from firststep.typing import Array, Float

    Values = Mapping[str, Float[Array, " batch"]]

NUMBERS = (
    "risk",
    "test_loss",
    "training_loss",
    "error_rate",
    "training_error_rate",
    "output_alignment",
)
_TOLERANCE = 1e-10  # of the linear equation, relative
_ENOUGH = 1e-7  # of it, where rounding stops GMRES
_MOST_DIRECTIONS = 150  # of GMRES: five times what the hardest of the tests take
_SPARE = 8  # label nodes are counted in eights, so that near problems share what is compiled


@dataclass(frozen=True, eq=False)
class DifferentiableLosses:
    """What ``predict`` returns for JAX arrays where labels are binary or the loss another one.

    Numbers to differentiate, once; nan where there is no such number. ``prediction`` is the whole
    answer at these values, in NumPy.
    """

    prediction: Prediction
    risk: Float[Array, "*shape"]
    test_loss: Float[Array, "*shape"]
    training_loss: Float[Array, "*shape"]
    error_rate: Float[Array, "*shape"]
    training_error_rate: Float[Array, "*shape"]
    output_alignment: Float[Array, "*shape"]


def known_fields(problem: Problem, fields: Mapping[str, Any]) -> dict[str, Float[Array, "*shape"]]:
    """The numbers behind the fields, or what speaks against that."""
    shape = np.broadcast_shapes(*(np.shape(value) for value in fields.values()))
    known = {name: known_values(value) for name, value in fields.items()}
    for name, value in known.items():
        if value is None or value.ndim > len(shape):
            hint = "leave predict out of jit and vmap; arrays will do"
            allowed = "known where it is used, with binary labels or another loss"
            raise InvalidParameter(name, allowed, "a traced value", hint)
    return {name: value for name, value in known.items() if value is not None}


def differentiable(
    problem: Problem, found: Prediction, fields: Mapping[str, Any]
) -> DifferentiableLosses:
    """A prediction at known fields as numbers to differentiate by those that JAX traces."""
    given = given_fields(problem, fields)
    traced = [name for name, value in given.items() if isinstance(value, jax.core.Tracer)]
    values, shape = broadcast(problem, known_fields(problem, fields))
    with jax.enable_x64(True):
        slopes = _slopes(problem, found.bulk, values, found.points, traced)
        slopes = slopes.reshape(len(NUMBERS), len(traced), *shape)
        at = [jnp.asarray(given[name], float) for name in traced]
        shown = {
            name: _hung(np.asarray(getattr(found, name)), slopes[i], at)
            for i, name in enumerate(NUMBERS)
        }
        if not problem.labels.is_binary:  # no such number, and nothing for a chain rule to meet
            for name in ("error_rate", "training_error_rate"):
                shown[name] = jnp.full(shape, jnp.nan)
    return DifferentiableLosses(prediction=found, **shown)


def _hung(
    value: Float[Array, "*shape"],
    slopes: Float[Array, "traced *shape"],
    at: list[Float[Array, "..."]],
) -> Float[Array, "*shape"]:
    """A known value, with known derivatives by ``at``."""

    @jax.custom_jvp
    def number(*at: Float[Array, "..."]) -> Float[Array, "*shape"]:
        return jnp.asarray(value)

    @number.defjvp
    def change(
        at: tuple[Float[Array, "..."], ...], moves: tuple[Float[Array, "..."], ...]
    ) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
        each = [_once(slope, *at) * move for slope, move in zip(slopes, moves, strict=True)]
        return jnp.asarray(value), sum(each, jnp.zeros_like(value))

    return number(*at)


@jax.custom_jvp
def _once(slope: Float[Array, "*shape"], *at: Float[Array, "..."]) -> Float[Array, "*shape"]:
    """A derivative that has none itself."""
    return jnp.asarray(slope)


@_once.defjvp
def _refused(at: tuple[Any, ...], moves: tuple[Any, ...]) -> tuple[Any, Any]:
    hint = "differences of first derivatives will do"
    allowed = "a first one, with binary labels or another loss"
    raise InvalidParameter("derivative", allowed, "a second one", hint)


# One point after the other ------------------------------------------------------------------------


class _Plan(NamedTuple):
    """What is fixed when the programs are compiled."""

    plan: Plan
    loss: Loss
    constant: bool
    floor: float  # of the channel
    is_noisy: bool  # whether the noise is part of the law of labels +-1


class _Nodes(NamedTuple):
    """A solution's constants: where nodes are, and what is held there."""

    combination: Float[Array, "1 r P"]  # B by rows of mu1
    state: State
    step_noise: Float[Array, " 1"]
    # The rule of real labels at that noise, and its derivative.
    labels: Float[Array, "1 J"]
    label_weights: Float[Array, "1 3 J"]
    labels_by_noise: Float[Array, "1 J"]
    weights_by_noise: Float[Array, "1 3 J"]


class _Line(NamedTuple):
    """The finer nodes of kappa on which the numbers are integrals, and the spline that leads to
    them, which is linear.
    """

    kappa: Float[Array, " fine"]
    omega: Float[Array, " fine"]
    spline: Float[Array, "fine K"]


class _Place(NamedTuple):
    """x and p, or a change of them."""

    x: Float[Array, "4 K"]
    p: Float[Array, " fields"]  # in the order of NUMERIC


def _slopes(
    problem: Problem, bulk: str, values: Values, points: Sequence[Point], names: Sequence[str]
) -> Float[Array, "numbers names points"]:
    """Derivatives of NUMBERS by ``names``; nan where there is no solution."""
    slopes = np.full((len(NUMBERS), len(names), len(points)), np.nan)
    for i, point in enumerate(points if names else ()):
        if point.is_good:
            own = {name: each[i : i + 1] for name, each in values.items()}
            slopes[:, :, i] = _slopes_of(problem, bulk, own, point, names)
    return slopes


@one_thread
def _slopes_of(
    problem: Problem, bulk: str, values: Values, point: Point, names: Sequence[str]
) -> Float[Array, "numbers names"]:
    """Of one point."""
    steps = bool(moves(problem, values)[0])
    model = model_of(problem.replace(noise=float(values["noise"][0])), bulk, steps)
    if point.output is None:  # least squares: the same equations, on nodes for any loss
        solver = LossSolver(model, problem.readout, problem.loss, constant=False)
        point = solver(across(numbers_of(problem, values, model)))[0]
    output = point.output
    if output is None or point.channel is None:
        return np.full((len(NUMBERS), len(names)), np.nan)
    plan, nodes, omega = _prepared(problem, model, values, point)
    finer, weights = line(output, point.kappa)
    spline = _Line(finer, weights, _spline(point.kappa, finer))
    at = _Place(packed(output), np.array([values[name][0] for name in NUMERIC]))
    of_image, of_numbers = (partial(each, at, nodes) for each in _compiled(plan))
    metric = metric_of(output, omega)
    nothing = _Place(0 * at.x, 0 * at.p)
    slopes = []
    for name in names:
        change = nothing._replace(p=1.0 * (np.array(list(NUMERIC)) == name))
        drawn = np.asarray(of_image(change))
        x = _solved(lambda x: x - np.asarray(of_image(nothing._replace(x=x))), drawn, metric)
        slopes.append(np.asarray(of_numbers(spline, change._replace(x=x))))
    return np.stack(slopes, 1)


def _solved(
    operator: Callable[[Float[Array, "4 K"]], Float[Array, "4 K"]],
    right: Float[Array, "4 K"],
    metric: Float[Array, "4 K"],
) -> Float[Array, "4 K"]:
    """dx of (1 - F_x) dx = F_p dp; nan where it cannot be solved."""
    from scipy.sparse.linalg import LinearOperator, gmres  # slow to load

    def scaled(y: Float[Array, " n"]) -> Float[Array, " n"]:
        return (metric * operator(y.reshape(metric.shape) / metric)).ravel()

    wanted = (metric * right).ravel()
    matrix = LinearOperator((wanted.size, wanted.size), matvec=scaled, dtype=float)
    found, _ = gmres(
        matrix, wanted, rtol=_TOLERANCE, atol=0.0, restart=_MOST_DIRECTIONS, maxiter=1
    )
    rest = np.linalg.norm(scaled(found) - wanted)
    if not rest <= _ENOUGH * np.linalg.norm(wanted):
        return np.full_like(metric, np.nan)
    return np.asarray(found.reshape(metric.shape) / metric)


def _spline(kappa: Float[Array, " K"], finer: Float[Array, " fine"]) -> Float[Array, "fine K"]:
    from scipy.interpolate import CubicSpline  # slow to load

    return np.asarray(CubicSpline(kappa, np.eye(kappa.size))(finer))


def _prepared(
    problem: Problem, model: Model, values: Values, point: Point
) -> tuple[_Plan, _Nodes, Float[Array, " K"]]:
    """What is fixed, (E, Z) at the solution, and omega."""
    resolution, channel = point.resolution, point.channel
    assert channel is not None and point.output is not None
    plain = numbers_of(problem, values, model)
    known = across(plain)
    rules = rules_for(model, problem.readout, resolution, known)
    with np.errstate(all="ignore"):
        given = Conditional.of(model, rules, known)
        combination = combination_of(given, rules, resolution.rank_cut)
        system = assemble_in(model, rules, known, given, combination)
        fit = LossFit(system, channel, problem.intercept)
        fit.image(point.output)
    labels = _label_tables(model, point, plain.step_noise, rules.labels, rules.label_weights)
    law, is_noisy = model.labels, False
    if law is not None:
        is_noisy = law.law.kind == "sign" and not law.is_step
        law = replace(law, noise=1.0 if is_noisy else 0.0)  # the noise itself is in p
    plan = Plan(
        model=model._replace(labels=law),
        readout=problem.readout,
        resolution=resolution,
        step_exponent=problem.step_exponent,
        dimension=float(problem.dimension),
        rank=combination.shape[1],
        label_nodes=labels[0].shape[1],
        moving=bool(np.any(known.rate)),
    )
    nodes = _Nodes(combination, fit.state, plain.step_noise, *labels)
    return (
        _Plan(plan, problem.loss, problem.intercept, channel.floor, is_noisy),
        nodes,
        rules.omega,
    )


def _label_tables(
    model: Model,
    point: Point,
    noise: Float[Array, " 1"],
    labels: Float[Array, "1 J"],
    label_weights: Float[Array, "1 3 J"],
) -> tuple[Float[Array, "1 J"], ...]:
    """The rule of real labels and its derivative by the noise, on a multiple of eight nodes."""
    tables = [labels, label_weights, 0 * labels, 0 * label_weights]
    if model.steps and model.labels is None:
        width, detail = point.resolution.label_width, point.resolution.label_detail
        rule = label_rule(model.teacher, model.offset, float(noise[0]), width, detail)
        tables[2:] = [rule.nodes_by_noise[None], rule.weights_by_noise[None]]
    spare = -labels.shape[1] % _SPARE
    return tuple(np.pad(each, [(0, 0)] * (each.ndim - 1) + [(0, spare)]) for each in tables)


# The equations in JAX -----------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _compiled(plan: _Plan) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Changes of the image, and of the numbers."""

    def of_image(at: _Place, nodes: _Nodes, change: _Place) -> Float[Array, "4 K"]:
        return jax.jvp(lambda at: _image(plan, nodes, at), (at,), (change,))[1]

    def of_numbers(
        at: _Place, nodes: _Nodes, finer: _Line, change: _Place
    ) -> Float[Array, " numbers"]:
        return jax.jvp(lambda at: _numbers(plan, nodes, finer, at), (at,), (change,))[1]

    return jax.jit(of_image), jax.jit(of_numbers)


def _image(plan: _Plan, nodes: _Nodes, at: _Place) -> Float[Array, "4 K"]:
    """F."""
    model, system = _system(plan, nodes, at.p)
    output, state = unpacked(at.x), nodes.state
    pull = _channel(plan, model, system, at.p, system.mean.kappa).pull(output)
    overlaps = overlaps_of(system, apply(system.overlap_map, (system.omega * pull.slope)[None]))
    state = state._replace(overlaps=overlaps[0], diagonal=overlaps[1])
    found = response_of(system.bulk, state, equations(system.bulk, state))
    state = state._replace(
        energy=state.energy + found.energy_shift,
        resolvent=state.resolvent + unfold(found.resolvent_shift, state.resolvent.shape[-1]),
    )
    return packed(image(system, state, pull, output, plan.constant))


def _numbers(plan: _Plan, nodes: _Nodes, finer: _Line, at: _Place) -> Float[Array, " numbers"]:
    """R."""
    model, system = _system(plan, nodes, at.p)
    channel = _channel(plan, model, system, at.p, finer.kappa)
    found = numbers(channel, unpacked(at.x @ finer.spline.T), finer.omega)
    return jnp.stack([getattr(found, name) for name in NUMBERS])


def _system(
    plan: _Plan, nodes: _Nodes, p: Float[Array, " fields"]
) -> tuple[Model, System]:
    """The model with what the noise is to it, and the equations."""
    (own, *_), values = plan, {name: p[i : i + 1] for i, name in enumerate(NUMERIC)}
    plain, model = numbers_of(own, values, own.model), own.model
    if model.labels is not None and plan.is_noisy:
        model = model._replace(labels=replace(model.labels, noise=values["noise"][0]))
    if model.labels is not None and model.steps:
        noise = plain.step_noise[0] if model.has_own_output else 0.0
        rule = model.labels.step_rule(model.step_loss, model.offset, noise)
        labels, weights = (jnp.asarray(each)[None] for each in rule)
    else:
        move = plain.step_noise - nodes.step_noise
        labels = nodes.labels + nodes.labels_by_noise * move[:, None]
        weights = nodes.label_weights + nodes.weights_by_noise * move[:, None, None]
    rules, known = rules_of(own, labels, weights), across(plain)
    given = Conditional.of(model, rules, known)
    return model, assemble_in(model, rules, known, given, nodes.combination)


def _channel(
    plan: _Plan,
    model: Model,
    system: System,
    p: Float[Array, " fields"],
    kappa: Float[Array, " K"],
) -> Channel:
    labels = labels_of(model, p[list(NUMERIC).index("noise")])
    shift, rho = system.mean.alignment[0] * kappa, system.mean.misalignment[0]
    return Channel(plan.loss, labels, shift, rho, floor=plan.floor)
