"""The equations of the trained layer at complex ridge: the resolvents of its matrices.

Two matrices of size N x N, both positive:

    weights:  W1^T W1, whose eigenvalues are the squared singular values of W1
    kernel:   F^T F/n, F = s(X W1) the features of n fresh samples: what the ridge is added to

For ridge > 0 the equations (g), (E) of ``one_step.resolvent`` with S_k = omega_k/(1 + V_k) give
(1/N) tr (A + ridge)^-1 = sum_p pi_p/E_p for the kernel A without its mean part. They are analytic
in the ridge, so at ridge = -z they give the Stieltjes transform of its spectrum,

    m(z) = (1/N) tr (A - z)^-1 = sum_p pi_p/E_p(-z),   Im z > 0,     density(x) = Im m(x + i0)/pi.

The weights are the kernel of a linear student on infinitely many samples: mu0 = u kappa, mu1 = 1,
mu2 = 0, S_k = omega_k. Then M = 1, D = ridge, and kappa enters only by E kappa^2 = 1, so that two
nodes +-1 do. Where the inputs have a covariance Omega, the weights are those of a fit on N(0, I)
after a step on N(0, Omega): M^-1 stands for M^-1/varpi in the pencil of every level, and lengths
are plain (``bare_law``). The kernel is that of section 11 of docs/theory.md as it stands.

The way to the real axis. At ridge = x > 0, that is z = x e^(i pi), Newton's method from above is
safe (``one_step.fit``). From there z = x e^(i phi) is turned down to phi = 0 in steps, each
predicted from the two before it and corrected by Newton's method. All x are turned together. Those
already turned to the angle ``HANDOVER`` are interpolated to start more of them from there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy  # whose parts load when they are used: interpolate and optimize take long

from firststep.errors import InvalidParameter, NotConverged
from firststep.numerics.batches import each, joined, put, take
from firststep.numerics.newton import LastStep, Method, newton
from firststep.numerics.quadrature import ShiftedMoments
from firststep.problem import Problem
from firststep.structure import without_structure
from firststep.theory.medium import ISOTROPIC
from firststep.theory.one_step.fit import Iterate, overlap_step, shrunk_weights, solve
from firststep.theory.one_step.fit import from_above as start_above
from firststep.theory.one_step.moments import Conditional, assemble
from firststep.theory.one_step.nodes import GAUSSIAN, Rules, choose, rules_for
from firststep.theory.one_step.question import (
    Model,
    Numbers,
    broadcast,
    check_regime,
    medium_of,
    model_of,
    moves,
    numbers_of,
)
from firststep.theory.one_step.resolvent import equations, packed_overlaps, start
from firststep.theory.one_step.response import respond
from firststep.theory.one_step.system import State, System, apply
from firststep.theory.spectrum.bare import bare_law

if TYPE_CHECKING:
    from firststep.typing import Array, Bool, Complex, Float

MATRICES = ("weights", "kernel")
# The dimension that stands for infinity: what grows with N is then far beyond everything else.
LIMIT = 10**9
RANK_CUT = 5e-3  # of the basis of mu1; the spectrum feels its square
HANDOVER = 0.1  # angle/pi
SPACING = 0.2  # of log x, less than that angle
FIRST_ANGLES = (0.8, 0.6, 0.45, 0.32, 0.22, 0.15, HANDOVER)
LAST_ANGLES = (0.06, 0.03, 0.012, 0.004, 0.0)
SMALL_ANGLES = (*np.linspace(0.95, 0.1, 18), *np.geomspace(0.085, 0.0005, 24), 0.0)
CONVERGED = 1e-6  # relative change of E in the last Newton step: its square is what is left
TRUSTED = 1e-5  # the same, and the largest that is believed
_ROUGH = 0.1  # the same on the way
_ABOVE = 1e-6  # residual of the solution at ridge = x, which only starts the way
LOWEST = 1e-9  # of the mean eigenvalue: where the search ends
MOSTLY_ZEROS = 10.0  # over the share of values that are not: from a tenth on nothing changes
_UNSEEN = 2e-4  # smoothed density beyond which no bulk is looked for
_CHUNK = 96  # points solved together: their arrays stay in the cache


class Finer(NamedTuple):
    """How the resolution of ``predict`` is changed: on the real axis poles come near the nodes."""

    labels: int  # detail of the label rule
    kappa: float  # factor of the spacing
    readout: float  # factor of the spacing of a Gaussian readout


# Where the first is not enough, the second. The third has fewer values of a Gaussian readout, to
# see what depends on them: with few neurons per dimension each tends to a band of its own.
RESOLUTIONS = (Finer(3, 0.5, 1.5), Finer(8, 0.2, 1.0), Finer(3, 0.5, 2.2))


@dataclass(frozen=True, eq=False)
class Ensemble:
    """A random matrix of a problem: what its equations are made of."""

    problem: Problem
    of: str
    system: System  # of one problem, at d finite
    alpha: float  # infinite for the weights: S = omega
    has_many_values: bool  # the readout is a Gaussian one, in many values, and the neurons differ
    zeros: float  # share of the N eigenvalues that are zero
    is_square: bool  # the bulk reaches down to zero
    scale: float  # (1/N) tr of the matrix without its mean part
    own_turn: Float[Array, "P P"] | None  # what the own output leaves of the rows

    def at(self, ridge: Complex[Array, " x"] | Float[Array, " x"]) -> System:
        """The same problem at several ridges."""
        return self.system.part(np.zeros(ridge.size, int))._replace(
            ridge=ridge, alpha=np.full(ridge.size, self.alpha)
        )


def ensemble(
    problem: Problem, of: str, bulk: str, level: int = 0, *, limit: int = LIMIT
) -> Ensemble:
    """The matrix ``of`` (weights or kernel) after the step; infinity is the dimension ``limit``.

    ``level`` chooses among ``RESOLUTIONS``.
    """
    values, _ = broadcast(problem, {"ridge": 1.0})
    if problem.dimension == math.inf and problem.moves_weights:
        _refuse_between(problem.step_exponent)
    check_regime(problem, values)
    medium = medium_of(problem)
    problem = without_structure(problem)
    if problem.dimension == math.inf:
        problem = problem.replace(dimension=limit)
    steps = bool(moves(problem, values)[0])
    whole = model_of(problem, bulk, steps)._replace(medium=medium)
    model = whole._replace(has_own_output=False)  # ``own_turn`` has it, to first order
    numbers = numbers_of(problem, values, whole)
    rules = _rules(problem, of, model, numbers, RESOLUTIONS[level])
    system = _system(of, model, rules, numbers)
    ranks = [1.0]
    scatter = system.bulk.scatter
    if of == "weights" or not np.any(scatter > 1e-12 * scatter.max(initial=1.0)):
        ranks.append(1 / problem.beta)
    if of == "kernel":
        ranks.append(problem.alpha / problem.beta)
    share = system.bulk.neurons[0] / system.bulk.neurons[0].sum()
    return Ensemble(
        problem=problem,
        of=of,
        system=system,
        alpha=math.inf if of == "weights" else problem.alpha,
        has_many_values=rules.kind == GAUSSIAN,
        zeros=1 - min(ranks),
        is_square=ranks.count(min(ranks)) > 1,
        scale=float(share @ start(system._replace(ridge=np.zeros(1))).energy[0]),
        own_turn=_own_turn(of, model, rules, numbers) if whole.has_own_output else None,
    )


def _refuse_between(exponent: float) -> None:
    """Say so if a step is neither small nor large: its spectrum has no limit."""
    if exponent not in (0.0, 0.5):
        hint = "give a finite dimension; at d = infinity spectra are of the small and large step"
        raise InvalidParameter("step-exponent", "0 or 0.5 at d = infinity", exponent, hint)


def _own_turn(of: str, model: Model, rules: Rules, numbers: Numbers) -> Float[Array, "P P"]:
    """1 - q a a^T, a_p = at_p sqrt(pi_p): what the own output leaves of the rows.

    The step is taken on y - f and moves every row by -(q/N) at_i sum_j at_j w_j, q = etat c1^2. The
    linear weights resolve all of it; features only q A <= 1, beyond which it is part of the spike.
    """
    q = numbers.rate[0] * model.constants.c1**2
    q = q if of == "weights" else min(q, 1 / model.readout_square)
    a = rules.readout[0] * np.sqrt(rules.masses[0])
    turn: Float[Array, "P P"] = np.eye(a.size) - q * np.outer(a, a)
    return turn


def _rules(problem: Problem, of: str, model: Model, numbers: Numbers, finer: Finer) -> Rules:
    usual = choose(model, problem.readout, numbers)[0]
    wider = max(0.6, finer.readout * min(1.0, math.sqrt(problem.beta)))
    resolution = usual._replace(
        label_detail=finer.labels,
        kappa_spacing=usual.kappa_spacing * finer.kappa,
        readout_spacing=usual.readout_spacing * wider,
    )
    rules = rules_for(model, problem.readout, resolution, numbers)
    if of == "kernel":
        return rules
    return rules._replace(kappa=np.array([-1.0, 1.0]), omega=np.array([0.5, 0.5]))


def _system(of: str, model: Model, rules: Rules, numbers: Numbers) -> System:
    with np.errstate(all="ignore"):
        given = Conditional.of(model, rules, numbers)
        if of == "weights":
            if model.medium is not ISOTROPIC:
                law = bare_law(model, rules, numbers, given.law)
                given = given._replace(law=law)
            shift = given.law.spike[:, :, None] * rules.kappa
            linear = ShiftedMoments(shift, np.ones_like(shift), 0 * shift, 0 * shift)
            given = given._replace(student=linear)
        system = assemble(model, rules, numbers, given, cut=RANK_CUT)
        levels = system.bulk.levels
        if of == "kernel" or levels is None:
            return system
        return system._replace(bulk=system.bulk._replace(levels=levels._replace(bare=levels.value)))


class Turned(NamedTuple):
    """The solution at points x e^(i phi)."""

    state: State
    shrunk: Complex[Array, "x K"]  # S
    change: Float[Array, " x"]  # of the last Newton step, relative: how well it is solved


class _Look(NamedTuple):
    """A Newton step, already taken."""

    keep: Iterate
    residual: Float[Array, " x"]


class ComplexFit(Method[System, Iterate, _Look]):
    """The ridge equations at complex ridge, in y = (vech M, D - ridge), E and Z.

    The step is that of ``one_step.fit.overlap_step``; for the weights, alpha = infinity, dy is
    the gap of y.
    """

    def prepare(self, system: System, iterate: Iterate, residual: Float[Array, " x"]) -> Iterate:
        return iterate

    def step(self, system: System, iterate: Iterate, look: _Look) -> Iterate:
        return look.keep

    def examine(self, system: System, iterate: Iterate) -> _Look:
        """A step; a point whose equations are singular stays where it is, with infinite change."""
        try:
            return self._newton_step(system, iterate.state)
        except np.linalg.LinAlgError:
            if system.size == 1:
                return _Look(each(np.copy, iterate), np.array([np.inf]))
            half = system.size // 2
            parts = (slice(None, half), slice(half, None))
            looks = [self.examine(system.part(some), take(iterate, some)) for some in parts]
            return joined(looks)

    def _newton_step(self, system: System, state: State) -> _Look:
        at = equations(system.bulk, state)
        found = respond(system.bulk, state, at)
        shrunk = shrunk_weights(system, at, 0.0)
        gap = apply(system.overlap_map, shrunk) - packed_overlaps(system, state)
        overlaps = overlap_step(system, found, shrunk, gap)
        energy, resolvent = found.along(overlaps)
        after = state.moved(overlaps, state.energy + energy, resolvent)
        change = np.max(np.abs(energy / state.energy), -1)
        return _Look(Iterate(after, shrunk), np.where(np.isfinite(change), change, np.inf))


COMPLEX = ComplexFit()


def polish(
    made: Ensemble,
    state: State,
    ridge: Complex[Array, " x"] | Float[Array, " x"],
    enough: float,
    most: int,
) -> Turned:
    """At most ``most`` Newton steps, until every change is small enough."""
    system = made.at(ridge)
    omega = np.broadcast_to(system.omega + 0 * ridge[:, None], (ridge.size, system.omega.size))
    found = newton(COMPLEX, system, Iterate(state, omega), LastStep(enough, most))
    return Turned(found.iterate.state, found.iterate.shrunk, found.residual)


def turn(
    made: Ensemble, x: Float[Array, " x"], state: State, begin: float, angles: tuple[float, ...]
) -> Turned:
    """From a solution at angle ``begin`` (times pi) through ``angles``: exact at the last only."""
    before, at, places = None, state, (begin, begin)
    for angle in angles:
        guess = at
        if before is not None:
            ratio = (angle - places[1]) / (places[1] - places[0])
            guess = State(*[new + ratio * (new - old) for new, old in zip(at, before, strict=True)])
        last = angle == angles[-1]
        enough, most = (CONVERGED, 16) if last else (_ROUGH, 4)
        found = polish(made, guess, ridge_at(x, angle), enough, most)
        before, at, places = at, found.state, (places[1], angle)
    return found


def ridge_at(x: Float[Array, " x"], angle: float) -> Complex[Array, " x"]:
    """-z = -x e^(i pi angle); on the real axis itself exactly so."""
    return -x + 0j if angle == 0 else x * np.exp(1j * math.pi * (angle - 1))


def from_above(made: Ensemble, x: Float[Array, " x"], angles: tuple[float, ...]) -> Turned:
    """From ridge = x > 0, where Newton's method is safe, through ``angles``."""
    system = made.at(x)
    system = system._replace(mean=system.mean._replace(dimension=None))
    solved = solve(system, start_above(system), _ABOVE)
    state = each(lambda array: array.astype(complex), solved.state)
    return turn(made, x, state, 1.0, angles)


class Track:
    """Solutions at ``HANDOVER`` on a grid of log x that holds the bulk; others start from them."""

    def __init__(self, made: Ensemble) -> None:

        self.made = made
        # What counts as small is a share of all values; where nearly all are zeros, of the others.
        self.share = min(1.0, MOSTLY_ZEROS * (1 - made.zeros))
        x = made.scale * np.exp(np.arange(math.log(3e-4), math.log(300.0), SPACING))
        if made.is_square:  # near zero a power of x
            x = np.concatenate([made.scale * np.geomspace(1e-6, 3e-4, 12)[:-1], x])
        states = [self._turned(x)]
        lowest = math.inf if made.is_square else LOWEST * made.scale
        while x[0] > lowest and self._seen(take(states[0], [0]), x[:1]):
            below = x[0] * np.exp(SPACING * np.arange(-16, 0))
            x, states = np.concatenate([below, x]), [self._turned(below), *states]
        while self._seen(take(states[-1], [-1]), x[-1:]):
            above = x[-1] * np.exp(SPACING * np.arange(1, 13))
            x, states = np.concatenate([x, above]), [*states, self._turned(above)]
        self.x, self.state = x, joined(states)
        self._between = [scipy.interpolate.CubicSpline(np.log(x), values) for values in self.state]

    def _turned(self, x: Float[Array, " x"]) -> State:
        return _in_chunks(lambda some: from_above(self.made, some, FIRST_ANGLES), x).state

    def _seen(self, state: State, x: Float[Array, " x"]) -> bool:
        """Whether the bulk may reach as far as x."""
        return bool(self.smoothed(state, x)[0] > _UNSEEN * self.share)

    def smoothed(self, state: State, x: Float[Array, " x"]) -> Float[Array, " x"]:
        """Im(z m)/pi at ``HANDOVER``: the density per unit of log x, smoothed, with tails x^-+1."""
        return (-ridge_at(x, HANDOVER) * self.transform(state)).imag / math.pi

    @cached_property
    def density_on_grid(self) -> Float[Array, " x"]:
        """The density on the grid; where even its smoothed form is small there is none."""
        found = np.zeros_like(self.x)
        near = self.smoothed(self.state, self.x) > _UNSEEN * self.share
        if near.any():
            found[near] = self.density(self.x[near])
        return found

    def on_axis(self, x: Float[Array, " x"]) -> Turned:
        """The solution at z = x + i0."""

        def solved(some: Float[Array, " x"]) -> Turned:
            guess = State(*[spline(np.log(some)) for spline in self._between])
            found = turn(self.made, some, guess, HANDOVER, LAST_ANGLES)
            lost = np.flatnonzero(~self._trusted(found))
            if lost.size:  # again in smaller steps, and at last all the way from ridge = x
                again = turn(self.made, some[lost], take(guess, lost), HANDOVER, SMALL_ANGLES[-25:])
                put(found, lost, again)
                lost = lost[~self._trusted(take(found, lost))]
            if lost.size:
                put(found, lost, from_above(self.made, some[lost], SMALL_ANGLES))
            return found

        return _in_chunks(solved, x)

    def _trusted(self, found: Turned) -> Bool[Array, " x"]:
        """Solved, on the branch with Im 1/E_p >= 0, the transform of the neurons of value p."""
        energy = found.state.energy
        right_branch = np.all(energy.imag < 1e-9 * np.abs(energy), -1)
        return (found.change < TRUSTED) & right_branch

    def transform(self, state: State) -> Complex[Array, " x"]:
        """m = sum_p pi_p/E_p."""
        neurons = self.made.system.bulk.neurons[0]
        return np.sum(neurons / neurons.sum() / state.energy, -1)

    def density(self, x: Float[Array, " x"]) -> Float[Array, " x"]:
        """x Im m(x + i0)/pi: eigenvalues per unit of log x, as a share of N."""
        found = self.on_axis(x)
        if not np.all(self._trusted(found)):
            worst = x[~self._trusted(found)][0]
            where = f"the spectrum of the {self.made.of} could not be computed at {worst:.4g}"
            raise NotConverged(f"{where}: the equations did not converge; try a smaller step")
        return np.maximum(self.transform(found.state).imag, 0.0) * x / math.pi


def _in_chunks(solved: Callable[[Float[Array, " x"]], Turned], x: Float[Array, " x"]) -> Turned:
    return joined([solved(x[i : i + _CHUNK]) for i in range(0, x.size, _CHUNK)])
