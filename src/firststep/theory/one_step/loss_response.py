"""How the numbers of a fit with any loss respond to the fields of a problem.

At the solution x = (log V, m, t, log v) is its own image, x = F(x, p), and the numbers are R(x, p)
with p = (alpha, beta, alpha0, step, ridge, noise). So, with dp one of the unit vectors,

    (1 - F_x) dx = F_p dp,   dR = R_x dx + R_p dp.

F is one pass of the map of ``loss_fit``, with (E, Z) as functions of S and p by a last step of
Newton's at their solution. The equations are the same code on arrays of JAX, whose derivatives
along (dx, dp) are exact; nodes that are split where a score bends move with what moves the bend.
The nodes of kappa and the basis of mu1 stay, and of the labels' nodes the derivative is known. The
linear equation is solved by GMRES in the metric of the residual: F_x is compact, and some ten
directions do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from firststep.errors import NotConverged
from firststep.losses import Loss
from firststep.numerics.threads import one_thread
from firststep.problem import Problem
from firststep.theory.channel import Channel, Output
from firststep.theory.loss_fixed_point import metric_of, packed, unpacked
from firststep.theory.loss_report import line, numbers
from firststep.theory.one_step.differentiable import Plan, rules_of
from firststep.theory.one_step.fit import response_of
from firststep.theory.one_step.labels import LabelRule, label_rule
from firststep.theory.one_step.loss_fit import LossFit, image
from firststep.theory.one_step.moments import Conditional, assemble_in, combination_of
from firststep.theory.one_step.nodes import Resolution, Rules, rules_for
from firststep.theory.one_step.question import NUMERIC, Model, across, model_of, moves, numbers_of
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
_MOST_DIRECTIONS = 80  # of GMRES: a dozen did where they were counted, ridges of 1e-5 among them
_SPARE = 8  # label nodes are counted in eights, so that near problems share what is compiled


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
    rule: LabelRule  # of real labels at that noise, and its derivative; a batch of one
    # The finer nodes of kappa on which the numbers are integrals, and the spline that leads there.
    kappa: Float[Array, " fine"]
    omega: Float[Array, " fine"]
    spline: Float[Array, "fine K"]


class _Place(NamedTuple):
    """x and p, or a change of them."""

    x: Float[Array, "4 K"]
    p: Float[Array, " fields"]  # in the order of NUMERIC


def slopes_of(
    problem: Problem, bulk: str, values: Values, points: Sequence[Point], names: Sequence[str]
) -> Float[Array, "numbers names points"]:
    """Derivatives of NUMBERS by ``names`` at every point; nan where there is no solution."""
    slopes = np.full((len(NUMBERS), len(names), len(points)), np.nan)
    for i, point in enumerate(points if names else ()):
        if point.is_good:
            own = {name: each[i : i + 1] for name, each in values.items()}
            with contextlib.suppress(NotConverged, np.linalg.LinAlgError):
                slopes[:, :, i] = _at_point(problem, bulk, own, point, names)
    return slopes


@one_thread
def _at_point(
    problem: Problem, bulk: str, values: Values, point: Point, names: Sequence[str]
) -> Float[Array, "numbers names"]:
    """Of one point."""
    model = model_of(
        problem.replace(noise=float(values["noise"][0])), bulk, bool(moves(problem, values)[0])
    )
    if point.output is None:  # least squares: the same equations, on the nodes of other losses
        solver = LossSolver(model, problem.readout, problem.loss, problem.intercept)
        point = solver(across(numbers_of(problem, values, model)))[0]
    if point.output is None or not isinstance(point.channel, Channel):
        return np.full((len(NUMBERS), len(names)), np.nan)
    plan, nodes = _prepared(problem, model, values, (point, point.output, point.channel))
    at = _Place(packed(point.output), np.array([values[name][0] for name in NUMERIC]))
    of_image, of_numbers = (partial(each, at, nodes) for each in _compiled(plan))
    metric = metric_of(point.output, point.omega)
    nothing = _Place(0 * at.x, 0 * at.p)

    def rest(x: Float[Array, "4 K"]) -> Float[Array, "4 K"]:
        return x - np.asarray(of_image(nothing._replace(x=x)))

    slopes = []
    for name in names:
        change = nothing._replace(p=1.0 * (np.array(list(NUMERIC)) == name))
        x = _solved(rest, np.asarray(of_image(change)), metric)
        slopes.append(np.asarray(of_numbers(change._replace(x=x))))
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
    found, _ = gmres(matrix, wanted, rtol=_TOLERANCE, atol=0.0, restart=_MOST_DIRECTIONS, maxiter=1)
    rest = np.linalg.norm(scaled(found) - wanted)
    if not rest <= _ENOUGH * np.linalg.norm(wanted):
        return np.full_like(metric, np.nan)
    return np.asarray(found.reshape(metric.shape) / metric)


def _prepared(
    problem: Problem, model: Model, values: Values, found: tuple[Point, Output, Channel]
) -> tuple[_Plan, _Nodes]:
    """What is fixed at a solution."""
    from scipy.interpolate import CubicSpline  # slow to load

    point, output, channel = found
    resolution, plain = point.resolution, numbers_of(problem, values, model)
    known = across(plain)
    rules = rules_for(model, problem.readout, resolution, known)
    with np.errstate(all="ignore"):
        given = Conditional.of(model, rules, known)
        combination = combination_of(given, rules, resolution.rank_cut)
        fit = LossFit(
            assemble_in(model, rules, known, given, combination), channel, problem.intercept
        )
        fit.image(output)  # (E, Z) at the solution
    tables = _label_tables(model, resolution, plain.step_noise, rules)
    finer, weights = line(output, rules.kappa)
    law, is_noisy = model.labels, False
    if law is not None:
        is_noisy = law.law.kind == "sign" and not law.is_step
        law = replace(law, noise=1.0 if is_noisy else 0.0)  # the noise itself is in p
    plan = Plan(
        model=model._replace(labels=law),
        readout=problem.readout,
        # Without what the programs do not use, so that near problems share them.
        resolution=resolution._replace(label_width=0.0, label_detail=0, rank_cut=0.0),
        step_exponent=problem.step_exponent,
        dimension=float(problem.dimension),
        rank=combination.shape[1],
        label_nodes=tables[0].shape[1],
        moving=bool(np.any(known.rate)),
    )
    nodes = _Nodes(
        combination=combination,
        state=fit.state,
        step_noise=plain.step_noise,
        rule=tables,
        kappa=finer,
        omega=weights,
        spline=np.asarray(CubicSpline(rules.kappa, np.eye(rules.kappa.size))(finer)),
    )
    return _Plan(plan, problem.loss, problem.intercept, channel.floor, is_noisy), nodes


def _label_tables(
    model: Model, resolution: Resolution, noise: Float[Array, " 1"], rules: Rules
) -> LabelRule:
    """The rule of real labels with its derivative by the noise, on a multiple of eight nodes."""
    nodes, weights = rules.labels, rules.label_weights
    by_noise = 0 * nodes, 0 * weights
    if model.steps and model.labels is None:
        width, detail = resolution.label_width, resolution.label_detail
        rule = label_rule(model.teacher, model.offset, float(noise[0]), width, detail)
        by_noise = rule.nodes_by_noise[None], rule.weights_by_noise[None]
    spare = -nodes.shape[-1] % _SPARE
    tables = (nodes, weights, *by_noise)
    return LabelRule(*(np.pad(x, [*(x.ndim - 1) * [(0, 0)], (0, spare)]) for x in tables))


# The equations in JAX -----------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _compiled(plan: _Plan) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Changes of the image, and of the numbers."""

    def of_image(at: _Place, nodes: _Nodes, change: _Place) -> Float[Array, "4 K"]:
        return jax.jvp(lambda at: _image(plan, nodes, at), (at,), (change,))[1]

    def of_numbers(at: _Place, nodes: _Nodes, change: _Place) -> Float[Array, " numbers"]:
        return jax.jvp(lambda at: _numbers(plan, nodes, at), (at,), (change,))[1]

    return jax.jit(of_image), jax.jit(of_numbers)


def _image(plan: _Plan, nodes: _Nodes, at: _Place) -> Float[Array, "4 K"]:
    """F."""
    system, channel_on = _system(plan, nodes, at.p)
    output, state = unpacked(at.x), nodes.state
    pull = channel_on(system.mean.kappa).pull(output)
    overlaps = overlaps_of(system, apply(system.overlap_map, (system.omega * pull.slope)[None]))
    state = state._replace(overlaps=overlaps[0], diagonal=overlaps[1])
    found = response_of(system.bulk, state, equations(system.bulk, state))
    state = state._replace(
        energy=state.energy + found.energy_shift,
        resolvent=state.resolvent + unfold(found.resolvent_shift, state.resolvent.shape[-1]),
    )
    return packed(image(system, state, pull, output, plan.constant).output)


def _numbers(plan: _Plan, nodes: _Nodes, at: _Place) -> Float[Array, " numbers"]:
    """R."""
    _, channel_on = _system(plan, nodes, at.p)
    found = numbers(channel_on(nodes.kappa), unpacked(at.x @ nodes.spline.T), nodes.omega)
    return jnp.stack([found[name] for name in NUMBERS])


def _system(
    plan: _Plan, nodes: _Nodes, p: Float[Array, " fields"]
) -> tuple[System, Callable[[Float[Array, " K"]], Channel]]:
    """The equations, and the channel on nodes of kappa."""
    own, values = plan.plan, {name: p[i : i + 1] for i, name in enumerate(NUMERIC)}
    plain, model = numbers_of(own, values, own.model), own.model
    if model.labels is not None and plan.is_noisy:
        model = model._replace(labels=replace(model.labels, noise=values["noise"][0]))
    if model.labels is not None and model.steps:
        noise = plain.step_noise[0] if model.has_own_output else 0.0
        rule = model.labels.step_rule(model.step_loss, model.offset, noise)
        labels, weights = (jnp.asarray(each)[None] for each in rule)
    else:
        move = plain.step_noise - nodes.step_noise
        labels = nodes.rule.nodes + nodes.rule.nodes_by_noise * move
        weights = nodes.rule.weights + nodes.rule.weights_by_noise * move
    rules, known = rules_of(own, labels, weights), across(plain)
    given = Conditional.of(model, rules, known)
    system = assemble_in(model, rules, known, given, nodes.combination)
    gamma, rho = system.mean.alignment[0], system.mean.misalignment[0]
    law = labels_of(model, values["noise"][0])

    def channel_on(kappa: Float[Array, " K"]) -> Channel:
        return Channel(plan.loss, law, gamma * kappa, rho, floor=plan.floor)

    return system, channel_on
