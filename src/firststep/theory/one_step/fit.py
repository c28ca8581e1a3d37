"""The ridge equations, solved by Newton's method in the overlaps.

    y = (vech M, D) = Lambda S,   S_k = omega_k/(1 + V_k),   V_k = (1/alpha) (Lambda^T v(y))_k  [+ H_kk/n at finite d]

v(y) is the gradient of a potential, with (E, Z) solved along with y. S -> omega/(1 + V) is monotone and concave, so Newton's
method started above the solution, at S = omega, comes down to it monotonically whatever the ridge.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from firststep.theory.one_step.resolvent import (
    Bulk,
    Equations,
    Pencil,
    State,
    apply,
    average,
    equations,
    overlap_map,
    overlaps,
    pencil_of,
    relative_gap,
    resolvent_map,
    respond,
    take,
    triangle,
    unfold,
)
from firststep.theory.one_step.risk import Mean, forms, projection, smoother

TOLERANCE = 1e-12  # relative residual of every unknown
ACCEPTED = 1e-9  # reached if rounding stops the iteration above the tolerance
MOST_ITERATIONS = 200
NEAR = 1e-2  # residual below which Newton's method needs no settling
SETTLED = 0.02  # relative gap of Z at which it is settled


class Solution(NamedTuple):
    state: State
    weights: Any  # S (., K)
    residual: Any  # (.)
    iterations: Any  # (.)


class Fit(NamedTuple):
    """What the equations make of a state."""

    at: Equations
    weights: Any  # S = omega/(1 + V) (., K)
    coupling: Any  # H_kl H_lk at finite d, else None
    gap: Any  # y asked for minus y, at d = infinity; Lambda S - y, zero but for derivatives, at finite d
    residual: Any  # the largest, relative

    def part(self, places: Any) -> Fit:
        """Some of the problems."""
        pencil = Pencil(*take(tuple(self.at.pencil), places))
        at = Equations(pencil, *take(tuple(self.at)[1:], places))
        return Fit(at, *take(tuple(self)[1:], places))


def weights_of(mapping: Any, slope: Any, omega: Any, alpha: Any, extra: Any, xp: Any) -> Any:
    """S = omega/(1 + V)."""
    variance = apply(xp.swapaxes(mapping, 1, 2), slope) / alpha[:, None] + extra
    return omega / (1 + variance)


def start(bulk: Bulk, ridge: Any, omega: Any, variance: Any, xp: Any) -> State:
    """Above the solution: S = omega and E from the trivial bound on the resolvent."""
    mapping = overlap_map(bulk, xp)
    matrix, diagonal = overlaps(bulk, xp.sum(mapping * omega, -1), ridge, xp)
    u = bulk.coordinates
    energy = diagonal + variance * xp.sum((u @ matrix) * u, -1)
    return State(matrix, diagonal, energy, first_resolvent(bulk, matrix, energy, xp))


def first_resolvent(bulk: Bulk, matrix: Any, energy: Any, xp: Any) -> Any:
    """Z to begin with at given overlaps and energies: without the data's fluctuations for one block (an upper bound), with
    M_data replaced by its first two moments for two."""
    pencil = pencil_of(bulk, matrix, energy, xp)
    if bulk.tilt is None:
        return xp.linalg.inv(pencil.base)
    r = matrix.shape[-1]
    first = xp.sum(bulk.label_weights[:, 0] * bulk.labels, -1)[:, None, None]
    second = (
        xp.sum(bulk.label_weights[:, 0] * bulk.labels**2, -1)[:, None, None]
        / bulk.alpha0[:, None, None]
    )
    mean_kernel = average(bulk.label_weights[:, 0], pencil.kernels)[:, :r, :r]
    a0, a1, a2 = pencil.moments[:, :r, :r], pencil.moments[:, :r, r:], pencil.moments[:, r:, r:]
    shifted = a0 + first * (a1 + xp.swapaxes(a1, 1, 2)) + (first**2 + second) * a2
    z11 = xp.linalg.inv(pencil.base + mean_kernel + shifted)
    top = xp.concatenate([z11, first * z11], 2)
    return xp.concatenate([top, xp.concatenate([first * z11, (first**2 + second) * z11], 2)], 1)


def settle_numpy(bulk: Bulk, state: State, enough: float = SETTLED, most: int = 60) -> State:
    """Z brought near its equation at fixed overlaps and energies, so that Newton's method is safe far from the solution.

    One block: plain iteration, monotone from above. Two blocks: damped iteration.
    """
    one_block = bulk.tilt is None
    pencil, z = pencil_of(bulk, state.overlaps, state.energy, np), state.resolvent
    for _ in range(most):
        image = resolvent_map(bulk, pencil, z, np)[0]
        far = ~(relative_gap(image, z, np) < enough)
        if not far.any():
            break
        z = np.where(far[:, None, None], image if one_block else (z + image) / 2, z)
    return state._replace(resolvent=z)


def examine(
    bulk: Bulk,
    mean: Mean,
    mapping: Any,
    state: State,
    before: Any,
    ridge: Any,
    omega: Any,
    alpha: Any,
    xp: Any,
    stop: Any,
) -> Fit:
    """The equations at a state; ``before`` is S at finite d, where it is the unknown (y = Lambda S)."""
    at = equations(bulk, state, xp)
    size = state.overlaps.shape[-1]
    rows, columns, _ = triangle(size)
    inside = state.overlaps - bulk.idle[:, :, None] * np.eye(size)
    packed = xp.concatenate([inside[:, rows, columns], state.diagonal - ridge[:, None]], 1)
    if mean.dimension is None:
        weights = weights_of(mapping, at.slope, omega, alpha, 0.0, xp)
        gap = xp.sum(mapping * weights[:, None, :], -1) - packed
        matrix_gap = xp.max(xp.abs(gap[:, : rows.size]), -1) / (
            xp.max(xp.abs(inside), axis=(-2, -1)) + 1e-300
        )
        overlap_gap = xp.maximum(
            matrix_gap, xp.max(xp.abs(gap[:, rows.size :]) / state.diagonal, -1)
        )
        return Fit(at, weights, None, gap, xp.maximum(at.residual, overlap_gap))
    shapes = forms(bulk, mean, state, at, xp)
    leverage, coupling = smoother(
        projection(bulk, mean, state, at, shapes, before, xp, stop), omega.size, xp
    )
    weights = weights_of(
        mapping, at.slope, omega, alpha, leverage / (alpha * mean.dimension)[:, None], xp
    )
    overlap_gap = xp.max(xp.abs(weights / before - 1) * xp.minimum(1.0, 100 * omega), -1)
    return Fit(
        at, weights, coupling, apply(mapping, before) - packed, xp.maximum(at.residual, overlap_gap)
    )


def newton_step(
    bulk: Bulk,
    mean: Mean,
    mapping: Any,
    state: State,
    before: Any,
    fit: Fit,
    omega: Any,
    alpha: Any,
    xp: Any,
) -> tuple[State, Any]:
    """The next state and its S, after ``fit`` at this one.

    d = infinity: in y, with S = omega/(1 + V) a function of (y, E, Z). Finite d: in S itself, as the spread of the fitted mean,
    H_kk/n, moves with S by dH_kk/dS_l = -H_kl H_lk.
    """
    found = respond(bulk, state, fit.at, xp)
    size = state.overlaps.shape[-1]
    count = size * (size + 1) // 2
    transposed = xp.swapaxes(mapping, 1, 2)
    pull = fit.weights**2 / (omega * alpha[:, None])
    if mean.dimension is None:
        moved = (mapping * pull[:, None, :]) @ transposed
        right = fit.gap - apply(moved, found.slope_shift)
        change = _solve(np.eye(right.shape[-1]) + moved @ found.slope_by_overlap, right, xp)
        after = fit.weights
    else:
        curvature = (
            transposed @ found.slope_by_overlap @ mapping
            - fit.coupling / mean.dimension[:, None, None]
        )
        slope_shift = found.slope_shift + apply(found.slope_by_overlap, fit.gap)
        right = fit.weights - before - pull * apply(transposed, slope_shift)
        moved = _solve(np.eye(omega.size) + pull[:, :, None] * curvature, right, xp)
        after = before * xp.maximum(1 + moved / before, 0.1)
        change = fit.gap + apply(mapping, after - before)
    energy_change = found.energy_shift + apply(found.energy_by_overlap, change)
    resolvent_change = found.resolvent_shift + apply(found.resolvent_by_overlap, change)
    fraction = (
        _inside(state, change, energy_change, xp) if mean.dimension is None else xp.ones_like(alpha)
    )
    by = fraction[:, None]
    energy = state.energy * xp.maximum(1 + by * energy_change / state.energy, 0.1)
    moved_state = State(
        state.overlaps + by[:, :, None] * unfold(change[:, :count], size),
        state.diagonal + by * change[:, count:],
        energy,
        state.resolvent + by[:, :, None] * unfold(resolvent_change, state.resolvent.shape[-1]),
    )
    return moved_state, after


def _inside(state: State, change: Any, energy_change: Any, xp: Any) -> Any:
    """The fraction of a step that keeps E, D > 0 and M positive definite."""
    size = state.overlaps.shape[-1]
    count = size * (size + 1) // 2
    lower = xp.linalg.cholesky(state.overlaps)
    half = xp.linalg.solve(lower, unfold(change[:, :count], size))
    relative = xp.linalg.solve(lower, xp.swapaxes(half, 1, 2))
    smallest = xp.min(xp.linalg.eigvalsh((relative + xp.swapaxes(relative, 1, 2)) / 2), -1)
    smallest = xp.minimum(smallest, xp.min(energy_change / state.energy, -1))
    smallest = xp.minimum(smallest, xp.min(change[:, count:] / state.diagonal, -1))
    return xp.where(smallest < -0.9, 0.9 / xp.maximum(-smallest, 0.9), 1.0)


def _solve(matrix: Any, vector: Any, xp: Any) -> Any:
    return xp.linalg.solve(matrix, vector[..., None])[..., 0]


def solve_numpy(
    bulk: Bulk,
    mean: Mean,
    state: State,
    before: Any,
    ridge: Any,
    omega: Any,
    alpha: Any,
    tolerance: float = TOLERANCE,
) -> Solution:
    """Newton steps until every residual is below the tolerance, or below ``ACCEPTED`` and no longer falling.

    Problems that are done leave the batch.
    """
    count = alpha.size
    kept, weights = State(*[np.array(each) for each in state]), np.zeros((count, omega.size))
    best, stalled, iterations = np.full(count, np.inf), np.zeros(count, int), np.zeros(count, int)
    places, residual = np.arange(count), best
    mapping = overlap_map(bulk, np)
    with np.errstate(all="ignore"):
        for _ in range(MOST_ITERATIONS):
            try:
                if not np.all(residual < NEAR):
                    state = settle_numpy(bulk, state)
                fit = examine(
                    bulk, mean, mapping, state, before, ridge, omega, alpha, np, lambda x: x
                )
                residual = np.where(np.isfinite(fit.residual), fit.residual, np.inf)
                better = residual < best[places]
                for kept_part, part in zip(kept, state, strict=True):
                    kept_part[places[better]] = part[better]
                weights[places[better]] = (fit.weights if mean.dimension is None else before)[
                    better
                ]
                stalled[places] = np.where(residual < 0.5 * best[places], 0, stalled[places] + 1)
                best[places] = np.minimum(residual, best[places])
                iterations[places] += 1
                going = ~finished(best[places], stalled[places], tolerance)
                if not going.any():
                    break
                if not going.all():
                    places, residual = places[going], residual[going]
                    bulk, mean, state, fit = (
                        bulk.part(going),
                        mean.part(going),
                        state.part(going),
                        fit.part(going),
                    )
                    mapping, before, ridge, alpha = take((mapping, before, ridge, alpha), going)
                state, before = newton_step(
                    bulk, mean, mapping, state, before, fit, omega, alpha, np
                )
            except np.linalg.LinAlgError:
                break
    return Solution(kept, weights, best, iterations)


def finished(best: Any, stalled: Any, tolerance: float) -> Any:
    """Whether to stop: converged, as good as rounding allows, or hopeless. ``stalled`` counts steps without half the residual."""
    return (best < tolerance) | ((best < ACCEPTED) & (stalled >= 1)) | (stalled >= 30)


def column(flags: Any, dimensions: int) -> Any:
    """One flag per problem, shaped to choose between arrays of ``dimensions`` axes."""
    return flags.reshape(-1, *([1] * (dimensions - 1)))
