"""The fit with any convex loss, and with a free constant, on average over networks.

One pass of the map (V, m, t, v) -> (V, m, t, v), with s, E g, E zeta g, E g^2 of the channel:

    S = omega s,   h0 = m + E g/s,   h1 = t + E zeta g/s
    M, D of Lambda S; (E, Z) solved there
    alpha V = Lambda^T v(y)  [+ H_kk/d at finite d]
    m, t of ``risk`` with these h0 and h1; g = S (h0 - m) and S h1 frozen in J
    v = -dJ/dS + mt^2 + (1/alpha) sum_l (-d(alpha V_k)/dS_l + H_kl H_lk/d) omega_l E g_l^2

with mt the part of m in the common mode. S vanishes in the tails, so nothing is divided by it:

    m = C^T (X; X_c) b_z + K g + (border)
    H = K - K sqrt S (1 + sqrt S K sqrt S)^-1 sqrt S K,   K = Kmean

and a free constant adds u u^T/(1.S u), u = 1 - H S 1, to H.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.linalg

from firststep.errors import NotConverged
from firststep.numerics.library import library_of
from firststep.theory.channel import Channel, Output, Pull, tame
from firststep.theory.loss_fixed_point import FixedPoint, Start, cold, fixed_point
from firststep.theory.one_step.fit import NEAR, from_above, solve
from firststep.theory.one_step.model_error import Scatter
from firststep.theory.one_step.projection import Projection, projection, row_vectors
from firststep.theory.one_step.resolvent import (
    above,
    equations,
    overlaps_of,
    packed_overlaps,
    settle,
    start,
)
from firststep.theory.one_step.response import Response, respond
from firststep.theory.one_step.risk import Solved, bulk_curvature, outcome, spread
from firststep.theory.one_step.system import Bulk, State, System, apply, flip, unfold

if TYPE_CHECKING:
    from firststep.typing import Array, Float

SETTLED = 1e-11  # residual of (E, Z) at given overlaps
ACCEPTED = 1e-8  # where rounding stops it
_MOST_STEPS = 60
_LARGEST_FALL = 0.1  # of E in one step
_CHANGE = 1e-3  # of v, relative: as good as derivatives by it need to be


@dataclass
class LossFit:
    """One problem on its nodes (a batch of one), a channel there, the state of the last pass."""

    system: System
    channel: Channel
    constant: bool

    def __post_init__(self) -> None:
        self.state: State = start(self.system)
        self.curvature: Float[Array, "1 K K"]  # of the last pass
        self.shrunk: Float[Array, "1 K"]  # S, of the last pass
        self._last: tuple[Output, Pull] | None = None
        self._response: Response | None = None  # at the state of the last pass

    def solve(self, before: Start | None, tolerance: float) -> FixedPoint:
        """The fixed point, from an output near it if there is one, else from the ridge fit, else
        from nothing.
        """
        for is_ridge in (False, True):
            try:
                near = self._ridge_fit() if is_ridge else before
                if near is not None:
                    return fixed_point(self.image, near, self.system.omega, tolerance)
            except (NotConverged, np.linalg.LinAlgError):
                pass
            self.state, self._response = start(self.system), None
        return fixed_point(self.image, Start(self._cold()), self.system.omega, tolerance)

    def _cold(self) -> Output:
        """Nothing learned."""
        omega = self.system.omega
        self._settle(omega[None] / 2)
        at = equations(self.system.bulk, self.state)
        leverage = apply(flip(self.system.overlap_map), at.force)[0] / self.system.alpha[0]
        return cold(omega, leverage)

    def _ridge_fit(self) -> Start | None:
        """What ridge regression says, where it can be solved.

        Mean features that are fitted freely are thrown far by a loss that is flat where labels are
        far from its start; ridge regression is not, and ends where most labels are near.
        """
        system, (h0, h1, h2) = self.system, self.system.mean.target
        solution = solve(system, from_above(system), NEAR)
        if not solution.residual[0] <= NEAR:
            return None
        self.state, self._response = solution.state, None
        found = outcome(system, solution.state, solution.shrunk)
        m, t = found.learned, found.linear_coefficient
        v = found.error - h2 + 2 * (m * h0 + t * h1) - m**2
        leverage = system.omega / solution.shrunk - 1
        return Start(tame(Output(leverage[0], m[0], t[0], np.maximum(v[0], 1e-12 * h2[0]))))

    def pull(self, output: Output) -> Pull:
        """What the samples pull there; that of the last output is kept."""
        if self._last is None or self._last[0] is not output:
            self._last = (output, self.channel.pull(output))
        return self._last[1]

    def image(self, output: Output) -> Output:
        """What the fit makes of an output."""
        pull = self.pull(output)
        shrunk = (self.system.omega * pull.slope)[None]
        self._settle(shrunk)
        found = image(self.system, self.state, pull, output, self.constant)
        self.curvature, self.shrunk, self._response = found.curvature, shrunk, found.response
        return found.output

    def scatter(self, output: Output) -> Scatter:
        """Of the last pass: with C its curvature over alpha,

        e = E (y - f0)^2 = h2 - 2 (m h0 + t h1) + m^2 + v,   e - e_det = C omega E g^2
        Top_kl = C_kl omega_l dE g_l^2/dv_l              (square loss: s^2 for the derivative)
        """
        omega, (h0, h1, h2), (_, m, t, v) = self.system.omega, self.system.mean.target, output
        error = h2[0] - 2 * (m * h0[0] + t * h1[0]) + m**2 + v
        square = self.pull(output).square
        noise = apply(self.curvature, (omega * square)[None])[0]
        moved = self.channel.pull(output._replace(variance=(1 + _CHANGE) * v)).square
        follows = omega * (moved - square) / (_CHANGE * v)
        return Scatter(
            total=np.sum(omega * error, keepdims=True),
            plain=np.sum(omega * (error - noise), keepdims=True),
            top=self.curvature * follows,
        )

    def share_of_constant(self, output: Output) -> float:
        """Of E f^2: what the scatter of a free constant adds to v, at finite d. With u and 1.S u of
        the module's docstring, what the Q of the fit with it has and that without it lacks. Nothing
        where every sample pulls at it: by a smooth loss its scatter is Gaussian, however large.
        """
        system, omega = self.system, self.system.omega
        if not self.constant or self.channel.loss.is_smooth or system.mean.dimension is None:
            return 0.0
        solved = Solved.of(system, self.state)
        squares = []
        for constant in (False, True):
            fit = projection(
                system, self.state, solved.at, solved.shapes, self.shrunk, constant=constant
            )
            squares.append(_smoother(fit, omega.size, constant)[1])
        noise = (omega * self.pull(output).square)[None] / system.mean.dimension
        added = apply(squares[1] - squares[0], noise / system.alpha)[0]
        total = float(np.sum(omega * (output.mean**2 + output.variance)))
        return max(float(np.sum(omega * added)), 0.0) / max(total, 1e-300)

    def _settle(self, shrunk: Float[Array, "1 K"]) -> None:
        """(E, Z) at the overlaps of S, from those of the last pass or else from above."""
        packed = apply(self.system.overlap_map, shrunk)
        try:
            self.state = settled(self.system.bulk, self._moved(packed))
        except (NotConverged, np.linalg.LinAlgError):
            safe = above(self.system, *overlaps_of(self.system, packed))
            self.state = settled(self.system.bulk, safe)

    def _moved(self, packed: Float[Array, "1 Y"]) -> State:
        """The state of the last pass at other overlaps, to first order in their change."""
        matrix, diagonal = overlaps_of(self.system, packed)
        state, found = self.state._replace(overlaps=matrix, diagonal=diagonal), self._response
        if found is None:
            return state
        energy, resolvent = found.along(packed - packed_overlaps(self.system, self.state))
        size = state.resolvent.shape[-1]
        return state._replace(
            energy=state.energy * np.maximum(1 + energy / state.energy, _LARGEST_FALL),
            resolvent=state.resolvent + unfold(resolvent, size),
        )


def settled(bulk: Bulk, state: State) -> State:
    """(E, Z) solved at the overlaps of a state, by Newton's method."""
    best = np.inf
    for _ in range(_MOST_STEPS):
        at = equations(bulk, state)
        residual = float(at.residual[0])
        if residual < SETTLED or (residual < ACCEPTED and residual > best / 2):
            return state
        best = min(best, residual)
        if residual > NEAR or not np.isfinite(residual):
            state = settle(bulk, state)
            at = equations(bulk, state)
        found = respond(bulk, state, at)
        energy = state.energy * np.maximum(1 + found.energy_shift / state.energy, _LARGEST_FALL)
        moved = unfold(found.resolvent_shift, state.resolvent.shape[-1])
        state = state._replace(energy=energy, resolvent=state.resolvent + moved)
    raise NotConverged(f"the resolvent did not converge: the residual stayed at {best:.1e}")


class Pass(NamedTuple):
    """What the fit makes of an output, C = -dV_k/dS_l there, and the response of (E, Z)."""

    output: Output
    curvature: Float[Array, "1 K K"]
    response: Response


def image(system: System, state: State, pull: Pull, output: Output, constant: bool) -> Pass:
    """The map of the module's docstring, where (E, Z) are those of S = omega s."""
    d, shrunk = system.mean.dimension, (system.omega * pull.slope)[None]
    solved = Solved.of(system, state)
    fit = projection(system, state, solved.at, solved.shapes, shrunk, constant=constant)
    m, shared, t, by_weight = _fitted(solved, fit, pull, output)
    leverage = apply(flip(system.overlap_map), solved.at.force)
    curvature = bulk_curvature(solved)
    if d is not None:
        diagonal, squares = _smoother(fit, system.omega.size, constant)
        leverage, curvature = leverage + diagonal / d, curvature + squares / d
    curvature, leverage = curvature / system.alpha[0], leverage / system.alpha[0]
    noise = apply(curvature, (system.omega * pull.square)[None])[0]
    found = Output(leverage[0], m, t, shared - by_weight + noise)
    return Pass(found, curvature, solved.response)


def _fitted(
    solved: Solved, fit: Projection, pull: Pull, output: Output
) -> tuple[Float[Array, " K"], ...]:
    """m, mt^2, t and dJ/dS."""
    system, nodes = solved.system, fit.root.shape[-1]
    xp, size = library_of(fit.root).xp, system.omega.size
    across = apply(
        system.bulk.basis, (system.omega * (pull.along + pull.slope * output.slope))[None]
    )
    offset = apply(flip(row_vectors(system)), apply(solved.shapes.cross, across))
    wanted = system.omega * (pull.mean + pull.slope * output.mean)
    right = xp.pad(wanted[None] / fit.root[:, :size], ((0, 0), (0, nodes - size)))
    right = right - fit.root * offset
    nu, weights = fit.solve(right)
    g = fit.root * nu
    found = offset + apply(fit.kernel, g) + apply(fit.functions, weights)
    t, by_weight = spread(solved, g, across)
    shared = xp.sum(found[:, size:].reshape(-1, size) ** 2, 0)
    return found[0, :size], shared, t[0], by_weight[0]


def _smoother(
    fit: Projection, size: int, constant: bool
) -> tuple[Float[Array, "1 K"], Float[Array, "1 K K"]]:
    """H_kk and H_kl H_lk, at finite d."""
    lib = library_of(fit.root)
    xp, root, functions = lib.xp, fit.root[0], fit.functions[0]
    columns = functions.shape[-1] - (1 if constant else 0)
    part = functions[:, :columns]
    kernel = fit.kernel[0] + (part / fit.slack[0, :columns]) @ part.T
    half = root[:, None] * kernel
    lower = lib.linalg.cholesky(np.eye(root.size) + half * root)
    if lib.is_numpy:
        half = scipy.linalg.solve_triangular(lower, half, lower=True, check_finite=False)
    else:
        half = lib.linalg.solve(lower, half)
    smooth = kernel - half.T @ half
    if constant:
        one = 1.0 * (np.arange(root.size) < size)
        left = one - smooth @ (root**2 * one)
        smooth = smooth + xp.outer(left, left) / xp.sum(root**2 * one * left)
    smooth = (smooth + smooth.T) / 2
    sets = root.size // size
    diagonal = xp.diag(smooth).reshape(sets, size).sum(0)
    squares = (smooth**2).reshape(sets, size, sets, size).sum((0, 2))
    return diagonal[None], squares[None]
