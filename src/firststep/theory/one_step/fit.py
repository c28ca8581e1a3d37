"""The fit of the readout: the ridge equations, solved by Newton's method in the overlaps.

    y = (vech M, D) = Lambda S,   S_k = omega_k/(1 + V_k)
    V_k = (1/alpha) (Lambda^T v(y))_k  [+ H_kk/n at finite d]

v(y) is the gradient of a potential, with (E, Z) solved along with y. S -> omega/(1 + V) is
monotone and concave, so Newton's method started above the solution, at S = omega, comes down to it
monotonically whatever the ridge.

``ReadoutFit`` is the seam: another fit is another class with these three methods. It changes how S
follows from V, and nothing of the resolvent or of the mean features. (Other losses of the readout,
for which S also depends on what is learned, are in ``loss_fit``.)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.numerics.library import library_of
from firststep.numerics.newton import BestResidual, Memory, Method, newton
from firststep.theory.one_step.mean import forms
from firststep.theory.one_step.projection import projection, smoother
from firststep.theory.one_step.resolvent import Equations, equations, packed_overlaps, settle, start
from firststep.theory.one_step.response import Response, respond
from firststep.theory.one_step.system import Bulk, State, System, apply, flip, solve_each, unpack

if TYPE_CHECKING:
    from firststep.typing import Array, Float

TOLERANCE = 1e-12  # relative residual of every unknown
ACCEPTED = 1e-9  # reached if rounding stops the iteration above the tolerance
MOST_ITERATIONS = 200  # never seen: the slowest problems take about 60
PATIENCE = 30  # steps without half the residual: a problem that stays there is hopeless
PATIENCE_NEAR = 5  # the same from a start that was thought near: there are safer ones
NEAR = 1e-2  # residual below which Newton's method needs no settling
# Of the residual in one step: while it falls so fast the last response serves again, as a chord.
_GOOD_FALL = 0.1
_LARGEST_FALL = 0.1  # of E and S in one step: further down the linear model says nothing


class Iterate(NamedTuple):
    """A state and its weights S."""

    state: State
    shrunk: Float[Array, "batch K"]  # S


class Look(NamedTuple):
    """What the equations make of an iterate."""

    at: Equations
    asked: Float[Array, "batch K"]  # S = omega/(1 + V)
    # Lambda S - y: with the S asked for at d = infinity; with the iterate's own at finite d, where
    # S is the unknown and the gap zero but for its derivative.
    gap: Float[Array, "batch Y"]
    residual: Float[Array, " batch"]  # the largest, relative
    keep: Iterate
    coupling: Float[Array, "batch K K"] | None = None  # H_kl H_lk, at finite d


class Solution(NamedTuple):
    """The solved equations."""

    state: State
    shrunk: Float[Array, "batch K"]  # S
    residual: Float[Array, " batch"]
    iterations: Float[Array, " batch"]

    @property
    def is_good(self) -> Float[Array, " batch"]:
        """Whether the numbers may be used."""
        return self.residual < ACCEPTED


class ReadoutFit(Method[System, Iterate, Look]):
    """How the readout is fitted, as equations for the state and S."""


class RidgeFit(ReadoutFit):
    """The square loss with a ridge."""

    def prepare(
        self, system: System, iterate: Iterate, residual: Float[Array, " batch"]
    ) -> Iterate:
        """Far from the solution Z is settled first."""
        lib = library_of(residual)
        is_near = lib.xp.all(residual < NEAR)
        settled = partial(settle, system.bulk)
        state = lib.either(is_near, lambda given: given, settled, iterate.state)
        return iterate if state is iterate.state else iterate._replace(state=state)

    def examine(self, system: System, iterate: Iterate) -> Look:
        """The equations at an iterate."""
        state, before = iterate
        at = equations(system.bulk, state)
        xp, packed = library_of(before).xp, packed_overlaps(system, state)
        mapping, omega, d = system.overlap_map, system.omega, system.mean.dimension
        if d is None:
            asked = shrunk_weights(system, at, 0.0)
            gap = xp.sum(mapping * asked[:, None, :], -1) - packed
            residual = xp.maximum(at.residual, _overlap_gap(state, gap, packed))
            return Look(at, asked, gap, residual, keep=Iterate(state, asked))
        fit = projection(system, state, at, forms(system, state, at), before)
        leverage, coupling = smoother(fit, omega.size)
        asked = shrunk_weights(system, at, leverage / (system.alpha * d)[:, None])
        # In the far tails, where omega vanishes, S need not be known to its last digits.
        change = xp.max(xp.abs(asked / before - 1) * xp.minimum(1.0, 100 * omega), -1)
        gap = apply(mapping, before) - packed
        residual = xp.maximum(at.residual, change)
        return Look(at, asked, gap, residual, keep=iterate, coupling=coupling)

    def step(self, system: System, iterate: Iterate, look: Look) -> Iterate:
        """The next iterate, by a response of its own."""
        return _towards(system, iterate, look, response_of(system.bulk, iterate.state, look.at))

    def step_again(
        self, system: System, iterate: Iterate, look: Look, memory: Memory
    ) -> tuple[Iterate, Memory]:
        """A chord step where the last response still serves: its derivatives, the new gaps."""
        if isinstance(memory, _Kept) and memory.response.chord is not None:
            is_falling = look.residual < _GOOD_FALL * memory.residual
            if np.all(is_falling & (look.residual < NEAR)):
                found = memory.response.chord.renewed(memory.response, look.at)
                after = _towards(system, iterate, look, found)
                return after, memory._replace(residual=look.residual)
        found = response_of(system.bulk, iterate.state, look.at)
        return _towards(system, iterate, look, found), _Kept(found, look.residual)


class _Kept(NamedTuple):
    """The last response, and the residual before the step that it made."""

    response: Response
    residual: Float[Array, " batch"]


def _towards(system: System, iterate: Iterate, look: Look, found: Response) -> Iterate:
    """The next iterate.

    d = infinity: in y, with S = omega/(1 + V) a function of (y, E, Z). Finite d: in S itself, as
    the spread of the fitted mean, H_kk/n, moves with S by dH_kk/dS_l = -H_kl H_lk. What multiplies
    a gap is a constant to differentiation: at the solution the gap is zero.
    """
    state, before = iterate
    lib = library_of(before)
    xp, d = lib.xp, system.mean.dimension
    if d is None or look.coupling is None:
        change, after = overlap_step(system, found, look.asked, look.gap), look.asked
    else:
        mapping, pull = _pull(system, look.asked)
        curvature = flip(mapping) @ found.force_by_overlap @ mapping
        curvature = curvature - lib.frozen(look.coupling) / d[:, None, None]
        force = found.force_shift + apply(found.force_by_overlap, look.gap)
        right = look.asked - before - pull * apply(flip(mapping), force)
        moved = solve_each(np.eye(system.omega.size) + pull[:, :, None] * curvature, right)
        after = before * xp.maximum(1 + moved / before, _LARGEST_FALL)
        change = look.gap + apply(mapping, after - before)
    energy, resolvent = found.along(change)
    part = xp.ones_like(system.alpha)
    if d is None:
        part = _inside(*lib.frozen((state, change, energy)))
    part = part[:, None]
    # E stays positive.
    energy = state.energy * xp.maximum(1 + part * energy / state.energy, _LARGEST_FALL)
    return Iterate(state.moved(part * change, energy, part * resolvent), after)


def overlap_step(
    system: System, found: Response, shrunk: Float[Array, "batch K"], gap: Float[Array, "batch Y"]
) -> Float[Array, "batch Y"]:
    """dy of S = omega/(1 + V), V = Lambda^T v(y, E, Z)/alpha and y = Lambda S:

        (1 + A dv/dy) dy = Lambda S - y - A dv,   A = Lambda diag(S^2/(omega alpha)) Lambda^T,

    where dv is the change of v by the step of (E, Z) at fixed y.
    """
    mapping, pull = _pull(system, shrunk)
    moved = (mapping * pull[:, None, :]) @ flip(mapping)
    right = gap - apply(moved, found.force_shift)
    return solve_each(np.eye(right.shape[-1]) + moved @ found.force_by_overlap, right)


def _pull(
    system: System, shrunk: Float[Array, "batch K"]
) -> tuple[Float[Array, "batch Y K"], Float[Array, "batch K"]]:
    """Lambda and S^2/(omega alpha), constants to differentiation."""
    frozen = library_of(shrunk).frozen
    return (frozen(system.overlap_map), frozen(shrunk**2 / (system.omega * system.alpha[:, None])))


RIDGE = RidgeFit()


def solve(
    system: System, iterate: Iterate, tolerance: float = TOLERANCE, *, is_near: bool = False
) -> Solution:
    """Newton steps until every residual is below the tolerance, or as good as rounding allows;
    ``is_near``: from a start that is thought to need no settling.
    """
    patience = PATIENCE_NEAR if is_near else PATIENCE
    rule = BestResidual(tolerance, ACCEPTED, patience, MOST_ITERATIONS)
    (state, shrunk), residual, iterations = newton(RIDGE, system, iterate, rule, is_near=is_near)
    return Solution(state, shrunk, residual, iterations)


def from_above(system: System) -> Iterate:
    """The safe place to begin: S = omega."""
    omega = library_of(system.alpha).xp.broadcast_to(system.omega, (system.size, system.omega.size))
    return Iterate(start(system), omega)


def shrunk_weights(
    system: System, at: Equations, extra: Float[Array, "batch K"] | float
) -> Float[Array, "batch K"]:
    """S = omega/(1 + V)."""
    variance = apply(flip(system.overlap_map), at.force) / system.alpha[:, None] + extra
    return system.omega / (1 + variance)


def _overlap_gap(
    state: State, gap: Float[Array, "batch Y"], packed: Float[Array, "batch Y"]
) -> Float[Array, " batch"]:
    """The largest gap of M, relative to its largest entry, and of D, relative to itself."""
    xp = library_of(gap).xp
    count = gap.shape[-1] - state.diagonal.shape[-1]
    size = xp.max(xp.abs(packed[:, :count]), -1) + 1e-300
    of_matrix = xp.max(xp.abs(gap[:, :count]), -1) / size
    return xp.maximum(of_matrix, xp.max(xp.abs(gap[:, count:]) / state.diagonal, -1))


def _inside(
    state: State, change: Float[Array, "batch Y"], energy: Float[Array, "batch P"]
) -> Float[Array, " batch"]:
    """The fraction of a step that keeps E, D > 0 and M positive definite."""
    lib = library_of(change)
    xp, linalg = lib.xp, lib.linalg
    matrix, diagonal = unpack(change, state.overlaps.shape[-1])
    lower = linalg.cholesky(state.overlaps)
    half = linalg.solve(lower, matrix)
    relative = linalg.solve(lower, flip(half))
    smallest = xp.min(linalg.eigvalsh((relative + flip(relative)) / 2), -1)
    smallest = xp.minimum(smallest, xp.min(energy / state.energy, -1))
    smallest = xp.minimum(smallest, xp.min(diagonal / state.diagonal, -1))
    return xp.where(smallest < -0.9, 0.9 / xp.maximum(-smallest, 0.9), 1.0)


def response_of(bulk: Bulk, state: State, at: Equations) -> Response:
    """The response, a constant to differentiation but for the gaps it is applied to."""
    frozen = library_of(state.energy).frozen
    gaps = {"energy_gap": at.energy_gap, "resolvent_gap": at.resolvent_gap}
    found = respond(frozen(bulk), frozen(state), frozen(at)._replace(**gaps))
    return found._replace(
        force_by_overlap=frozen(found.force_by_overlap),
        energy_by_overlap=frozen(found.energy_by_overlap),
        resolvent_by_overlap=frozen(found.resolvent_by_overlap),
    )
