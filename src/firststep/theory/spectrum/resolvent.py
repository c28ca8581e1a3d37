"""The equations of the trained layer at complex ridge: the resolvents of its matrices on the real axis.

Two matrices of size N x N, both positive:

    weights:  W1^T W1, whose eigenvalues are the squared singular values of W1
    kernel:   F^T F/n, F = s(X W1) the features of n fresh samples: what the ridge is added to

For ridge > 0 the equations (g), (E) of ``bulk`` with S_k = omega_k/(1 + V_k) give (1/N) tr (A + ridge)^-1 = sum_p pi_p/E_p for the
kernel A without its mean part. They are analytic in the ridge, so at ridge = -z they give the Stieltjes transform of its spectrum,

    m(z) = (1/N) tr (A - z)^-1 = sum_p pi_p/E_p(-z),   Im z > 0,     density(x) = Im m(x + i0)/pi.

The weights are the kernel of a linear student on infinitely many samples: mu0 = u kappa, mu1 = 1, mu2 = 0, S_k = omega_k. Then
M = 1, D = ridge, and kappa enters only by E kappa^2 = 1, so that two nodes +-1 do.

The way to the real axis. At ridge = x > 0, that is z = x e^(i pi), Newton's method from above is safe (``ridge_equations``). From
there z = x e^(i phi) is turned down to phi = 0 in steps, each predicted from the two before it and corrected by Newton's method
with the response of ``bulk``. All x are turned together. Those already turned to the angle ``HANDOVER`` are interpolated to start
more of them from there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.special
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from firststep.errors import NotConverged
from firststep.numerics.quadrature import ShiftedMoments
from firststep.problem import Problem
from firststep.theory.one_step.fit import solve_numpy, start
from firststep.theory.one_step.moments import Setup, assemble, conditional
from firststep.theory.one_step.nodes import choose, rules_for
from firststep.theory.one_step.predict import broadcast, check_regime, model_of, moves, numbers_of
from firststep.theory.one_step.resolvent import (
    State,
    apply,
    equations,
    overlap_map,
    respond,
    triangle,
    unfold,
)

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

MATRICES = ("weights", "kernel")
LIMIT = (
    10**9
)  # the dimension that stands for infinity: what grows with N is then far beyond everything else
RANK_CUT = 5e-3  # of the basis of mu1; the spectrum feels its square
# On the real axis poles come near the nodes: how the resolution of ``predict`` is changed, how where that is not enough, and with
# fewer values of a Gaussian readout to see what depends on them (with few neurons per dimension each tends to a band of its own).
RESOLUTIONS = (
    {"labels": 3, "kappa": 0.5, "readout": 1.5},
    {"labels": 8, "kappa": 0.2, "readout": 1.0},
    {"labels": 3, "kappa": 0.5, "readout": 2.2},
)
HANDOVER = 0.1  # angle/pi
SPACING = 0.2  # of log x, less than that angle
FIRST_ANGLES = (0.8, 0.6, 0.45, 0.32, 0.22, 0.15, HANDOVER)
LAST_ANGLES = (0.06, 0.03, 0.012, 0.004, 0.0)
SMALL_ANGLES = (*np.linspace(0.95, 0.1, 18), *np.geomspace(0.085, 0.0005, 24), 0.0)
CONVERGED = 1e-6  # relative change of E in the last Newton step: its square is what is left
_ROUGH = 0.1  # the same on the way
LOWEST = 1e-9  # of the mean eigenvalue: where the search ends
_UNSEEN = 2e-4  # smoothed density beyond which no bulk is looked for
_CHUNK = 96  # points solved together


class _Arrays:
    """NumPy, but not ``numpy`` itself: ``bulk`` may then make no assumption on whether numbers are real."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


arrays: Any = _Arrays()


@dataclass(frozen=True, eq=False)
class Ensemble:
    """A random matrix of a problem: what its equations are made of."""

    problem: Problem
    of: str
    setup: Setup  # of one problem
    omega: Array
    alpha: float  # infinite for the weights: S = omega
    zeros: float  # share of the N eigenvalues that are zero
    is_square: bool  # the bulk reaches down to zero
    scale: float  # (1/N) tr of the matrix without its mean part

    @property
    def has_many_values(self) -> bool:
        """Whether the readout is a Gaussian one, in many values, and the neurons differ."""
        return bool(self.setup.bulk.mass.shape[-1] > 8)

    def copies(self, count: int) -> Setup:
        """The same problem ``count`` times."""
        return self.setup.part(np.zeros(count, int))


def ensemble(problem: Problem, of: str, bulk: str, level: int = 0) -> Ensemble:
    """The matrix ``of`` (weights or kernel) after the step of a problem; infinity is a dimension of 1e9.

    ``level`` chooses among ``RESOLUTIONS``.
    """
    values, _ = broadcast(problem, {"ridge": 1.0})
    check_regime(problem, values)
    if problem.dimension == math.inf:
        problem = problem.replace(dimension=LIMIT)
    steps = bool(moves(problem, values)[0])
    model, numbers = model_of(problem, bulk, steps), numbers_of(problem, values, steps)
    usual, finer = choose(model, problem.readout, numbers)[0], RESOLUTIONS[level]
    resolution = usual._replace(
        label_detail=int(finer["labels"]),
        kappa_spacing=usual.kappa_spacing * finer["kappa"],
        readout_spacing=usual.readout_spacing
        * max(0.6, finer["readout"] * min(1.0, math.sqrt(problem.beta))),
    )
    rules = rules_for(model, problem.readout, resolution, numbers)
    linear = of == "weights"
    if linear:
        rules = rules._replace(kappa=np.array([-1.0, 1.0]), omega=np.array([0.5, 0.5]))
    with np.errstate(all="ignore"):
        given = conditional(model, rules, numbers, np, scipy.special)
        if linear:
            shift = given.law.spike[:, :, None] * rules.kappa
            given = given._replace(
                student=ShiftedMoments(shift, np.ones_like(shift), 0 * shift, 0 * shift)
            )
        setup = assemble(model, rules, numbers, given, None, np, lambda x: x, RANK_CUT)
    if (
        linear and setup.mean.feedback is not None
    ):  # a linear student resolves all of its own output
        setup = setup._replace(
            mean=setup.mean._replace(feedback=numbers.rate * model.constants.slope**2)
        )
    ranks = [1.0]
    if linear or not np.any(setup.bulk.remainder > 1e-12 * setup.bulk.remainder.max(initial=1.0)):
        ranks.append(1 / problem.beta)
    if not linear:
        ranks.append(problem.alpha / problem.beta)
    share = setup.bulk.mass[0] / setup.bulk.mass[0].sum()
    scale = float(share @ start(setup.bulk, np.zeros(1), rules.omega, setup.variance, np).energy[0])
    alpha = math.inf if linear else problem.alpha
    is_square = ranks.count(min(ranks)) > 1
    return Ensemble(problem, of, setup, rules.omega, alpha, 1 - min(ranks), is_square, scale)


def first_state(made: Ensemble, ridge: Array) -> State:
    """The state to begin with at a ridge far from the spectrum, of either sign."""
    setup = made.copies(ridge.size)
    return start(setup.bulk, ridge, made.omega, setup.variance, np)


class Turned(NamedTuple):
    """The solution at points x e^(i phi)."""

    state: State
    weights: Any  # S
    change: Array  # of the last Newton step, relative: how well it is solved

    def part(self, places: Any) -> Turned:
        return Turned(self.state.part(places), self.weights[places], self.change[places])

    def put(self, places: Any, others: Turned) -> None:
        """Replace some of the points."""
        for old, new in zip((*self.state, *self[1:]), (*others.state, *others[1:]), strict=True):
            old[places] = new


def joined(parts: list[Turned]) -> Turned:
    """Several sets of points as one."""
    if len(parts) == 1:
        return parts[0]
    arrays = [
        np.concatenate(each)
        for each in zip(*((*part.state, *part[1:]) for part in parts), strict=True)
    ]
    return Turned(State(*arrays[:4]), *arrays[4:])


def newton_step(
    made: Ensemble, setup: Setup, mapping: Any, state: State, ridge: Complex | Array
) -> Turned:
    """One step of Newton's method at complex ridge, in y = (vech M, D - ridge), E and Z.

    y = Lambda S with S = omega/(1 + V), V = Lambda^T v(y, E, Z)/alpha: the step dy solves

        (1 + A dv/dy) dy = Lambda S - y - A dv,   A = Lambda diag(S^2/(omega alpha)) Lambda^T,

    where dv is the change of v by the step of (E, Z) at fixed y. Both come from ``bulk.respond``.
    """
    bulk = setup.bulk
    at = equations(bulk, state, arrays)
    size = state.overlaps.shape[-1]
    rows, columns, _ = triangle(size)
    inside = state.overlaps - bulk.idle[:, :, None] * np.eye(size)
    packed = np.concatenate([inside[:, rows, columns], state.diagonal - ridge[:, None]], 1)
    across = np.swapaxes(mapping, 1, 2)
    weights = made.omega / (1 + apply(across, at.slope) / made.alpha)
    gap = apply(mapping, weights) - packed
    found = respond(bulk, state, at, arrays)
    if made.alpha < math.inf:
        pull = (mapping * (weights**2 / (made.omega * made.alpha))[:, None, :]) @ across
        right = gap - apply(pull, found.slope_shift)
        system = np.eye(right.shape[-1]) + pull @ found.slope_by_overlap
        gap = np.linalg.solve(system, right[..., None])[..., 0]
    energy = found.energy_shift + apply(found.energy_by_overlap, gap)
    resolvent = found.resolvent_shift + apply(found.resolvent_by_overlap, gap)
    after = State(
        state.overlaps + unfold(gap[:, : rows.size], size),
        state.diagonal + gap[:, rows.size :],
        state.energy + energy,
        state.resolvent + unfold(resolvent, state.resolvent.shape[-1]),
    )
    change = np.max(np.abs(energy / state.energy), -1)
    return Turned(after, weights, np.where(np.isfinite(change), change, np.inf))


def polish(
    made: Ensemble, state: State, ridge: Complex | Array, enough: float, most: int
) -> Turned:
    """Newton steps until every change is small enough; points that are done wait."""
    setup = made.copies(ridge.size)
    mapping = overlap_map(setup.bulk, np)
    found = _guarded_step(made, setup, mapping, state, ridge)
    for _ in range(most - 1):
        places = np.flatnonzero(~(found.change < enough) & np.isfinite(found.change))
        if not places.size:
            break
        more = _guarded_step(
            made, setup.part(places), mapping[places], found.state.part(places), ridge[places]
        )
        found.put(places, more)
    return found


def _guarded_step(
    made: Ensemble, setup: Setup, mapping: Any, state: State, ridge: Complex | Array
) -> Turned:
    """``newton_step``; a point whose equations are singular stays where it is, with an infinite change."""
    try:
        return newton_step(made, setup, mapping, state, ridge)
    except np.linalg.LinAlgError:
        if ridge.size == 1:
            return Turned(
                state,
                np.broadcast_to(made.omega + 0 * ridge[0], (1, made.omega.size)).copy(),
                np.array([np.inf]),
            )
        half = ridge.size // 2
        parts = [
            _guarded_step(made, setup.part(some), mapping[some], state.part(some), ridge[some])
            for some in (slice(None, half), slice(half, None))
        ]
        return joined(parts)


def turn(made: Ensemble, x: Array, state: State, begin: float, angles: tuple[float, ...]) -> Turned:
    """From a solution at angle ``begin`` (times pi) through ``angles``; only the last one is solved to the end."""
    before, at, places = None, state, (begin, begin)
    for angle in angles:
        guess = at
        if before is not None:
            ratio = (angle - places[1]) / (places[1] - places[0])
            guess = State(*[new + ratio * (new - old) for new, old in zip(at, before, strict=True)])
        last = angle == angles[-1]
        found = polish(
            made, guess, ridge_at(x, angle), CONVERGED if last else _ROUGH, 16 if last else 4
        )
        before, at, places = at, found.state, (places[1], angle)
    return found


def ridge_at(x: Array, angle: float) -> Complex:
    """-z = -x e^(i pi angle); on the real axis itself exactly so."""
    return np.asarray(-x + 0j if angle == 0 else x * np.exp(1j * math.pi * (angle - 1)))


def from_above(made: Ensemble, x: Array, angles: tuple[float, ...]) -> Turned:
    """From ridge = x > 0, where Newton's method is safe, through ``angles``."""
    setup = made.copies(x.size)
    omega = np.broadcast_to(made.omega, (x.size, made.omega.size))
    mean, alpha = setup.mean._replace(dimension=None), np.full(x.size, made.alpha)
    solved = solve_numpy(setup.bulk, mean, first_state(made, x), omega, x, made.omega, alpha, 1e-6)
    return turn(made, x, State(*[each.astype(complex) for each in solved.state]), 1.0, angles)


class Track:
    """Solutions at ``HANDOVER`` on a logarithmic grid of x that holds the bulk, from which those on the real axis start."""

    def __init__(self, made: Ensemble) -> None:
        self.made = made
        x = made.scale * np.exp(np.arange(math.log(3e-4), math.log(300.0), SPACING))
        if made.is_square:  # near zero a power of x
            x = np.concatenate([made.scale * np.geomspace(1e-6, 3e-4, 12)[:-1], x])
        states = [self._turned(x)]
        while (
            not made.is_square
            and x[0] > LOWEST * made.scale
            and self._seen(states[0].part([0]), x[:1])
        ):
            below = x[0] * np.exp(SPACING * np.arange(-16, 0))
            x, states = np.concatenate([below, x]), [self._turned(below), *states]
        while self._seen(states[-1].part([-1]), x[-1:]):
            above = x[-1] * np.exp(SPACING * np.arange(1, 13))
            x, states = np.concatenate([x, above]), [*states, self._turned(above)]
        self.x = x
        self.state = State(*[np.concatenate(each) for each in zip(*states, strict=True)])
        self._between = [CubicSpline(np.log(x), each) for each in self.state]

    def _turned(self, x: Array) -> State:
        return _in_chunks(lambda some: from_above(self.made, some, FIRST_ANGLES), x).state

    def _seen(self, state: State, x: Array) -> bool:
        """Whether the bulk may reach as far as x."""
        return bool(self.smoothed(state, x)[0] > _UNSEEN)

    def smoothed(self, state: State, x: Array) -> Array:
        """Im(z m)/pi at ``HANDOVER``: the density per unit of log x, smoothed; beside the bulk it falls like 1/x and x."""
        return np.asarray((-ridge_at(x, HANDOVER) * self.transform(state)).imag / math.pi)

    @cached_property
    def density_on_grid(self) -> Any:
        """The density on the grid; where even its smoothed form is small there is none."""
        found = np.zeros_like(self.x)
        near = self.smoothed(self.state, self.x) > _UNSEEN
        found[near] = self.density(self.x[near])
        return found

    def on_axis(self, x: Array) -> Turned:
        """The solution at z = x + i0."""

        def solve(some: Array) -> Turned:
            guess = State(*[spline(np.log(some)) for spline in self._between])
            found = turn(self.made, some, guess, HANDOVER, LAST_ANGLES)
            lost = np.flatnonzero(~self._trusted(found))
            if lost.size:  # again in smaller steps, and at last all the way from ridge = x
                found.put(
                    lost,
                    turn(self.made, some[lost], guess.part(lost), HANDOVER, SMALL_ANGLES[-25:]),
                )
                lost = lost[~self._trusted(found.part(lost))]
            if lost.size:
                found.put(lost, from_above(self.made, some[lost], SMALL_ANGLES))
            return found

        return _in_chunks(solve, x)

    def _trusted(self, found: Turned) -> NDArray[np.bool_]:
        """Solved, on the branch with Im 1/E_p >= 0: 1/E_p is the transform of the neurons of value p alone."""
        energy = found.state.energy
        return np.asarray((found.change < 1e-5) & np.all(energy.imag < 1e-9 * np.abs(energy), -1))

    def transform(self, state: State) -> Complex:
        """m = sum_p pi_p/E_p."""
        mass = self.made.setup.bulk.mass[0]
        return np.asarray(np.sum(mass / mass.sum() / state.energy, -1))

    def density(self, x: Array) -> Array:
        """x Im m(x + i0)/pi: eigenvalues per unit of log x, as a share of N."""
        found = self.on_axis(x)
        if not np.all(self._trusted(found)):
            raise NotConverged(
                f"the spectrum of the {self.made.of} could not be computed at {x[~self._trusted(found)][0]:.4g}: "
                "the equations did not converge; try a smaller step"
            )
        return np.asarray(np.maximum(self.transform(found.state).imag, 0.0) * x / math.pi)


def _in_chunks(solve: Any, x: Array) -> Turned:
    return joined([solve(x[i : i + _CHUNK]) for i in range(0, x.size, _CHUNK)])
