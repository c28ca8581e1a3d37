"""Where Newton's method begins: on few nodes from above, on more from what the fewer ones gave.

Every second node of a rule makes a coarser one, whose solution starts the fine nodes two or three
Newton steps from the end. With a Gaussian readout both have bases of their own, and Z passes by

    T = B omega b^T,   Z = Z0 + T (z - z0) T^T

with b, z of the coarser nodes, both bases orthonormal under their weights, and Z0, z0 what is known
of Z before the equations are solved (``first_resolvent``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.numerics.batches import Places, each, pick, put, take
from firststep.theory.one_step.fit import TOLERANCE, Iterate, Solution, from_above
from firststep.theory.one_step.fit import solve as solve_fit
from firststep.theory.one_step.moments import Conditional
from firststep.theory.one_step.nodes import Rules
from firststep.theory.one_step.resolvent import first_resolvent, overlaps_of
from firststep.theory.one_step.system import State, System, apply, flip

if TYPE_CHECKING:
    from firststep.typing import Array, Float

SURE = 1e-11  # residual beyond which what rounding leaves may be seen in the risk
ROUGH = 1e-9  # residual of the coarse solution: its risk need not be better than RESOLVED


class Ladder(NamedTuple):
    """A batch of problems on fine and on coarse nodes."""

    fine: System
    coarse: System

    def part(self, places: Places) -> Ladder:
        """Some of the problems."""
        return Ladder(self.fine.part(places), self.coarse.part(places))


def lower(ladder: Ladder) -> Solution:
    """The solution on coarse nodes, from above."""
    return _from_above(ladder.coarse, ROUGH)


def raised(ladder: Ladder, low: Solution) -> Solution:
    """The solution on fine nodes. What does not come to an end from the coarse solution as it is,
    is solved in the safest way: with Z begun anew.
    """
    found = _carried(ladder, low)
    if found is None:
        return _safely(ladder, low)
    hard = ~(found.residual < SURE)
    if np.any(hard):
        put(found, hard, _safely(ladder.part(hard), take(low, hard)))
    return found


def _carried(ladder: Ladder, low: Solution) -> Solution | None:
    """From a start that is thought near; None where its linear algebra breaks down."""
    fine, coarse = ladder
    try:
        return solve_fit(fine, prolong(fine, coarse, low), is_near=True)
    except np.linalg.LinAlgError:
        return None


def _safely(ladder: Ladder, low: Solution) -> Solution:
    fine, coarse = ladder
    found = solve_fit(fine, prolong(fine, coarse, low, carry=False))
    lost = ~found.is_good
    if np.any(lost):
        found = pick(lost, _from_above(fine, TOLERANCE), found)
    return found


def _from_above(system: System, tolerance: float) -> Solution:
    return solve_fit(system, from_above(system), tolerance)


# Fewer nodes --------------------------------------------------------------------------------------


def thinned(rules: Rules, given: Conditional) -> tuple[Rules, Conditional]:
    """Every second kappa and every second readout value."""
    omega, masses = rules.omega[::2], rules.masses[:, ::2]
    few = rules._replace(
        kappa=rules.kappa[::2],
        omega=omega / omega.sum(),
        readout=rules.readout[:, ::2],
        masses=masses / masses.sum(-1, keepdims=True),
    )
    shared = ("direction", "vector_products", "own_shift")
    own = {name: v[:, ::2] for name, v in given.law._asdict().items() if name not in shared}
    student = each(lambda array: array[:, ::2, ::2], given.student)
    target = each(lambda array: array[..., ::2], given.target)
    return few, Conditional(given.law._replace(**own), student, target)


def restrict(system: System, rules: Rules) -> System:
    """The same functions and basis on every second kappa, with the labels of ``rules``."""
    bulk, mean = system.bulk, system.mean
    omega = rules.omega[::2] / rules.omega[::2].sum()

    def half(x: Float[Array, "*shape K"]) -> Float[Array, "*shape half"]:
        return x[..., ::2]

    def halves(x: Float[Array, "*shape nodes"]) -> Float[Array, "*shape fewer"]:
        """Also where a second set of nodes follows the first."""
        sets = x.reshape(*x.shape[:-1], -1, mean.kappa.size)[..., ::2]
        return sets.reshape(*x.shape[:-1], -1)

    return system._replace(
        bulk=bulk._replace(
            basis=half(bulk.basis),
            scatter=half(bulk.scatter),
            labels=rules.labels,
            label_weights=rules.label_weights,
            amplitudes=rules.amplitudes,
        ),
        mean=mean._replace(
            mean=halves(mean.mean),
            by_variance=half(mean.by_variance),
            fluctuations=each(halves, mean.fluctuations),
            kappa=half(mean.kappa),
            free=None if mean.free is None else mean.free[:, ::2],
            target=each(half, mean.target),
        ),
        overlap_map=half(system.overlap_map),
        omega=omega,
    )


# And back -----------------------------------------------------------------------------------------


def prolong(fine: System, coarse: System, solution: Solution, *, carry: bool = True) -> Iterate:
    """The coarse solution on the fine nodes: log S/omega and log E interpolated, Z carried over, or
    begun anew where it does not fit.
    """
    with np.errstate(all="ignore"):
        ratio = np.log(solution.shrunk / coarse.omega)
        shrunk = np.exp(between(ratio, fine.omega.size)) * fine.omega
        matrix, diagonal = overlaps_of(fine, apply(fine.overlap_map, shrunk))
        energy, resolvent = solution.state.energy, solution.state.resolvent
        if energy.shape[-1] != fine.variance.shape[-1]:
            energy = np.exp(between(np.log(energy), fine.variance.shape[-1]))
            seen = resolvent
            resolvent = first_resolvent(fine.bulk, matrix, energy)
            if carry:
                known = first_resolvent(coarse.bulk, solution.state.overlaps, solution.state.energy)
                resolvent = resolvent + carried(fine, coarse, seen - known)
    return Iterate(State(matrix, diagonal, energy, resolvent), shrunk)


def carried(
    fine: System, coarse: System, matrix: Float[Array, "batch m m"]
) -> Float[Array, "batch n n"]:
    """T X T^T, with T of every block."""
    turn = (fine.bulk.basis[..., ::2] * coarse.omega) @ flip(coarse.bulk.basis)
    (batch, r, s), blocks = turn.shape, matrix.shape[-1] // turn.shape[-1]
    apart = matrix.reshape(batch, blocks, s, blocks, s).swapaxes(2, 3)
    found = turn[:, None, None] @ apart @ flip(turn)[:, None, None]
    return found.swapaxes(2, 3).reshape(batch, blocks * r, blocks * r)


def between(values: Float[Array, "batch half"], count: int) -> Float[Array, "batch count"]:
    """Values on nodes and, by cubic interpolation, halfway between them; an even number of nodes
    ends half a step beyond the last value, on its line.
    """
    half = values.shape[1]
    full = np.empty((values.shape[0], 2 * half))
    full[:, :-1:2] = values
    full[:, 1:-2:2] = (values[:, :-1] + values[:, 1:]) / 2
    inner = 9 * (values[:, 1:-2] + values[:, 2:-1]) - values[:, :-3] - values[:, 3:]
    full[:, 3:-4:2] = inner / 16
    full[:, -1] = (3 * values[:, -1] - values[:, -2]) / 2
    return full[:, :count]
