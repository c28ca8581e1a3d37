"""Solve a batch of problems that share a model: coarse nodes first, then fine ones from there, finer still where needed.

Every second node of the fine rules makes the coarse ones, so the coarse solution starts the fine one two or three Newton steps from
its end, and the difference of the two risks measures the quadrature error. Halving the spacing of these rules squares the
relative error of analytic integrands; we count on the power 1.7 only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.special
from numpy.typing import NDArray

from firststep.numerics.threads import one_thread
from firststep.readouts import ReadoutLaw
from firststep.theory.one_step.fit import (
    ACCEPTED,
    TOLERANCE,
    Solution,
    column,
    first_resolvent,
    solve_numpy,
    start,
)
from firststep.theory.one_step.moments import (
    Conditional,
    Model,
    Numbers,
    Rules,
    Setup,
    assemble,
    shared_conditional,
)
from firststep.theory.one_step.nodes import Resolution, choose, rules_for
from firststep.theory.one_step.resolvent import (
    State,
    apply,
    equations,
    overlap_map,
    overlaps,
    respond,
)
from firststep.theory.one_step.risk import Mean, Outcome, outcome

Array = NDArray[np.float64]

AIM = 1e-8  # relative quadrature error we refine down to
KINKED_AIM = 1e-7  # where the student or the teacher has a kink
RESOLVED = 1e-6  # and the largest we accept
_LEVELS = 4
_CHUNK = 4_000_000  # student evaluations at once
_CACHED = 1_600_000  # numbers


class Point(NamedTuple):
    """The answer for one problem."""

    risk: float
    training_error: float
    quadrature_error: float
    residual: float
    iterations: int
    kappa: Array
    omega: Array
    weights: Array  # S
    learned: Array  # m
    linear: Array  # t
    error: Array  # e, label noise included
    target: tuple[Array, Array, Array]
    alignment: float
    resolution: Resolution

    @property
    def degrees_of_freedom(self) -> float:
        """Trace of the hat matrix over n."""
        return float(1 - self.weights.sum())

    @property
    def converged(self) -> bool:
        return bool(self.residual < ACCEPTED and np.isfinite(self.risk))

    @property
    def resolved(self) -> bool:
        return self.quadrature_error <= RESOLVED * abs(self.risk) + 1e-12


@one_thread
def solve(model: Model, readout: ReadoutLaw, numbers: Numbers) -> list[Point]:
    """One Point per problem, in order. Problems with the same resolution are solved together."""
    aim = KINKED_AIM if model.student.kinks or model.teacher.kinks else AIM
    resolutions = choose(model, readout, numbers)
    points: list[Point | None] = [None] * len(resolutions)
    waiting = list(range(len(resolutions)))
    for level in range(_LEVELS):
        groups: dict[Resolution, list[int]] = {}
        for place in waiting:
            groups.setdefault(resolutions[place], []).append(place)
        waiting = []
        for resolution, members in groups.items():
            for some in _chunks(members, resolution):
                for place, point in zip(
                    some, _attempt(model, readout, resolution, _pick(numbers, some)), strict=True
                ):
                    before = points[place]
                    if before is not None and not point.converged:
                        continue  # finer nodes were too ill-conditioned: the coarser answer stands, with its error
                    points[place] = point
                    too_coarse = (
                        point.converged and point.quadrature_error > aim * abs(point.risk) + 1e-15
                    )
                    if too_coarse and level + 1 < _LEVELS and resolution.kappa_spacing > 0.01:
                        resolutions[place] = resolution.finer()
                        waiting.append(place)
        if not waiting:
            break
    return [point for point in points if point is not None]


def _chunks(members: list[int], resolution: Resolution) -> list[list[int]]:
    size = max(1, int(_CHUNK * resolution.kappa_spacing / 20 / resolution.student.nodes))
    return [members[i : i + size] for i in range(0, len(members), size)]


def _pick(numbers: Numbers, places: Any) -> Numbers:
    return Numbers(*[None if each is None else each[places] for each in numbers])


def _attempt(
    model: Model, readout: ReadoutLaw, resolution: Resolution, numbers: Numbers
) -> list[Point]:
    """A group together; if its linear algebra breaks down, each problem alone, and the one at fault without a number."""
    try:
        return _solve_group(model, readout, resolution, numbers)
    except np.linalg.LinAlgError:
        count = numbers.alpha.size
        if count > 1:
            return [
                point
                for i in range(count)
                for point in _attempt(model, readout, resolution, _pick(numbers, [i]))
            ]
    nothing = np.full(1, np.nan)
    return [
        Point(
            np.nan,
            np.nan,
            np.nan,
            np.inf,
            0,
            nothing,
            nothing,
            nothing,
            nothing,
            nothing,
            nothing,
            (nothing,) * 3,
            np.nan,
            resolution,
        )
    ]


def _same(x: Any) -> Any:
    return x


def _solve_group(
    model: Model, readout: ReadoutLaw, resolution: Resolution, numbers: Numbers
) -> list[Point]:
    rules = rules_for(model, readout, resolution, numbers)
    with np.errstate(all="ignore"):
        given = shared_conditional(model, rules, numbers, scipy.special)
        fine = assemble(model, rules, numbers, given, None, np, _same, resolution.rank_cut)
    detail = resolution._replace(label_detail=max(resolution.label_detail - 1, 0))
    less_detailed = rules_for(model, readout, detail, numbers)
    if rules.values.shape[-1] > 8:  # a Gaussian readout: the coarse nodes have a basis of their own
        few, some = thinned(less_detailed, given)
        with np.errstate(all="ignore"):
            coarse = assemble(model, few, numbers, some, None, np, _same, 10 * resolution.rank_cut)
        omega = few.omega
    else:
        coarse, omega = restrict(fine, less_detailed)
    return [
        point
        for some in _cached_parts(numbers.alpha.size, fine)
        for point in _solve_part(
            resolution, rules, omega, fine.part(some), coarse.part(some), _pick(numbers, some)
        )
    ]


def _cached_parts(count: int, setup: Setup) -> list[Any]:
    """Parts of a batch whose largest arrays, n^4 numbers a problem, stay in the cache."""
    blocks = 1 if setup.bulk.tilt is None else 2
    size = max(3, _CACHED // (blocks * setup.bulk.basis.shape[1]) ** 4)
    return [slice(i, i + size) for i in range(0, count, size)]


def _solve_part(
    resolution: Resolution, rules: Rules, omega: Array, fine: Setup, coarse: Setup, numbers: Numbers
) -> list[Point]:
    """Problems assembled on fine and coarse nodes; ``omega`` are the coarse weights."""
    rough = _from_above(coarse, omega, numbers, 1e-9)
    state, before = prolong(fine, rough, numbers, rules, omega)
    solution = solve_numpy(
        fine.bulk, fine.mean, state, before, numbers.ridge, rules.omega, numbers.alpha
    )
    lost = ~(solution.residual < ACCEPTED)
    if np.any(lost):  # the coarse nodes led astray: begin again on the fine ones
        solution = _merge(lost, _from_above(fine, rules.omega, numbers, TOLERANCE), solution)
    final = _outcome(fine, solution, rules.omega, numbers)
    rough_outcome = _outcome(coarse, rough, omega, numbers)
    return _points(resolution, rules, numbers, fine.mean, solution, final, rough, rough_outcome)


def _from_above(setup: Setup, omega: Array, numbers: Numbers, tolerance: float) -> Solution:
    state = start(setup.bulk, numbers.ridge, omega, setup.variance, np)
    before = np.broadcast_to(omega, (numbers.alpha.size, omega.size))
    return solve_numpy(
        setup.bulk, setup.mean, state, before, numbers.ridge, omega, numbers.alpha, tolerance
    )


def thinned(rules: Rules, given: Conditional) -> tuple[Rules, Conditional]:
    """Every second kappa and every second readout value."""
    masses = rules.masses[:, ::2]
    omega = rules.omega[::2]
    few = rules._replace(
        kappa=rules.kappa[::2],
        omega=omega / omega.sum(),
        values=rules.values[:, ::2],
        masses=masses / masses.sum(-1, keepdims=True),
    )
    per_value = (
        "spike",
        "tilt",
        "noise",
        "variance",
        "variance_by_norm",
        "spike_by_norm",
        "norm_variance",
    )
    law = given.law._replace(
        **{
            name: getattr(given.law, name)[:, ::2]
            for name in (*per_value, "linear_chaos", "higher_chaos")
        }
    )
    student = type(given.student)(*[each[:, ::2, ::2] for each in given.student])
    target = tuple(each[:, ::2] for each in given.target)
    return few, given._replace(law=law, student=student, target=target)


def _merge(where: Array, new: Solution, old: Solution) -> Solution:
    def pick(a: Array, b: Array) -> Array:
        return np.where(column(where, a.ndim), a, b)

    state = State(*[pick(a, b) for a, b in zip(new.state, old.state, strict=True)])
    return Solution(
        state,
        pick(new.weights, old.weights),
        pick(new.residual, old.residual),
        pick(new.iterations, old.iterations),
    )


def _outcome(setup: Setup, solution: Solution, omega: Array, numbers: Numbers) -> Outcome:
    with np.errstate(all="ignore"):
        at = equations(setup.bulk, solution.state, np)
        found = respond(setup.bulk, solution.state, at, np)
        mapping = overlap_map(setup.bulk, np)
        return outcome(
            setup.bulk,
            setup.mean,
            solution.state,
            at,
            found,
            mapping,
            solution.weights,
            omega,
            numbers.alpha,
            np,
            _same,
        )


def _points(
    resolution: Resolution,
    rules: Rules,
    numbers: Numbers,
    mean: Mean,
    solution: Solution,
    final: Outcome,
    rough: Solution,
    rough_outcome: Outcome,
) -> list[Point]:
    risk = final.risk_with_noise - numbers.noise**2
    rough_risk = rough_outcome.risk_with_noise - numbers.noise**2
    size = np.maximum(np.abs(risk), 1e-300)
    gap = np.minimum(np.nan_to_num(np.abs(risk - rough_risk) / size, nan=1.0), 1.0)
    floor = (
        5e-9
        if rules.values.shape[-1] > 8
        else 1e-9
        if rules.student.cuts or rules.teacher.cuts
        else 1e-10
    )
    error = size * np.maximum(gap**1.7, floor)
    bad = ~(solution.residual < ACCEPTED)
    target = mean.target
    return [
        Point(
            float("nan") if bad[i] else float(risk[i]),
            float("nan") if bad[i] else float(final.training_error[i]),
            float(error[i]),
            float(solution.residual[i]),
            int(solution.iterations[i] + rough.iterations[i]),
            rules.kappa,
            rules.omega,
            solution.weights[i],
            final.learned[i],
            final.linear[i],
            final.error[i],
            (target[0][i], target[1][i], target[2][i]),
            float(mean.alignment[i]),
            resolution,
        )
        for i in range(numbers.alpha.size)
    ]


def restrict(setup: Setup, rules: Rules) -> tuple[Setup, Array]:
    """The same functions, in the same basis, on every second kappa, with the labels of ``rules``."""
    bulk, mean = setup.bulk, setup.mean
    omega = rules.omega[::2] / rules.omega[::2].sum()

    def half(x: Any) -> Any:
        return x[..., ::2]

    def halves(x: Any) -> Any:
        """Also where a second set of nodes follows the first."""
        sets = x.reshape(*x.shape[:-1], -1, mean.kappa.size)[..., ::2]
        return sets.reshape(*x.shape[:-1], -1)

    small = bulk._replace(
        basis=half(bulk.basis),
        remainder=half(bulk.remainder),
        labels=rules.labels,
        label_weights=rules.label_weights,
    )
    less = mean._replace(
        mean=halves(mean.mean),
        by_variance=half(mean.by_variance),
        fluctuations=tuple(halves(psi) for psi in mean.fluctuations),
        kappa=half(mean.kappa),
        free=None if mean.free is None else mean.free[::2],
        target=tuple(half(h) for h in mean.target),
    )
    return Setup(small, less, setup.variance), omega


def prolong(
    fine: Setup, solution: Solution, numbers: Numbers, rules: Rules, omega: Array
) -> tuple[State, Array]:
    """The coarse solution on the fine nodes: log S/omega and log E are interpolated, Z carried over where the basis is the same."""
    with np.errstate(all="ignore"):
        before = np.exp(between(np.log(solution.weights / omega))) * rules.omega
        packed = apply(overlap_map(fine.bulk, np), before)
        matrix, diagonal = overlaps(fine.bulk, packed, numbers.ridge, np)
        energy, resolvent = solution.state.energy, solution.state.resolvent
        if energy.shape[-1] != rules.values.shape[-1]:
            energy = np.exp(between(np.log(energy)))
            resolvent = first_resolvent(fine.bulk, matrix, energy, np)
    return State(matrix, diagonal, energy, resolvent), before


def between(values: Array) -> Array:
    """Values on nodes and, by cubic interpolation, halfway between them."""
    full = np.empty((values.shape[0], 2 * values.shape[1] - 1))
    full[:, ::2] = values
    full[:, 1::2] = (values[:, :-1] + values[:, 1:]) / 2
    full[:, 3:-3:2] = (
        9 * (values[:, 1:-2] + values[:, 2:-1]) - values[:, :-3] - values[:, 3:]
    ) / 16
    return full
