"""The ridge equations, solved by Newton's method in the overlaps.

    y = (vech M, D) = Lambda S,   S_k = omega_k/(1 + V_k),   V_k = (1/alpha) (Lambda^T v(y))_k  [+ H_kk/n at finite d]

v(y) is the gradient of a potential, with (E, Z) solved along with y. S -> omega/(1 + V) is monotone and concave, so Newton's
method started above the solution, at S = omega, comes down to it monotonically whatever the ridge.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from firststep.theory.bulk import (
    Bulk,
    State,
    apply,
    average,
    overlap_map,
    overlaps,
    pencil_of,
    relative_gap,
    resolvent_map,
    respond,
    triangle,
    unfold,
)
from firststep.theory.outcome import Mean, forms, projection, smoother

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


class Step(NamedTuple):
    """One Newton step: the next state, and the residual of the one it left."""

    state: State
    weights: Any
    residual: Any


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
    second = xp.sum(bulk.label_weights[:, 0] * bulk.labels**2, -1)[:, None, None] / bulk.alpha0[:, None, None]
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


def newton_step(
    bulk: Bulk, mean: Mean, mapping: Any, state: State, before: Any, ridge: Any, omega: Any, alpha: Any, xp: Any, stop: Any
) -> Step:
    """The Newton step at a state.

    d = infinity: in y, with S = omega/(1 + V) a function of (y, E, Z). Finite d: in S itself, ``before`` (y = Lambda S), as the
    spread of the fitted mean, H_kk/n, moves with S by dH_kk/dS_l = -H_kl H_lk.
    """
    found = respond(bulk, state, xp, with_trace=False)
    size = state.overlaps.shape[-1]
    rows, columns, _ = triangle(size)
    transposed = xp.swapaxes(mapping, 1, 2)
    inside = state.overlaps - bulk.idle[:, :, None] * np.eye(size)
    packed = xp.concatenate([inside[:, rows, columns], state.diagonal - ridge[:, None]], 1)
    if mean.dimension is None:
        weights = weights_of(mapping, found.slope, omega, alpha, 0.0, xp)
        gap = xp.sum(mapping * weights[:, None, :], -1) - packed
        moved = (mapping * (weights**2 / (omega * alpha[:, None]))[:, None, :]) @ transposed
        right = gap - apply(moved, found.slope_shift)
        change = _solve(np.eye(packed.shape[-1]) + moved @ found.slope_by_overlap, right, xp)
        matrix_gap = xp.max(xp.abs(gap[:, : rows.size]), -1) / (xp.max(xp.abs(inside), axis=(-2, -1)) + 1e-300)
        overlap_gap = xp.maximum(matrix_gap, xp.max(xp.abs(gap[:, rows.size :]) / state.diagonal, -1))
    else:
        shapes = forms(bulk, mean, state, found, xp)
        leverage, coupling = smoother(projection(bulk, mean, found, shapes, before, xp, stop), omega.size, xp)
        extra = leverage / (alpha * mean.dimension)[:, None]
        weights = weights_of(mapping, found.slope, omega, alpha, extra, xp)
        pull = (weights**2 / (omega * alpha[:, None]))[:, :, None]
        curvature = transposed @ found.slope_by_overlap @ mapping
        curvature = curvature - coupling / mean.dimension[:, None, None]
        gap = apply(mapping, before) - packed  # zero, but for derivatives
        slope_shift = found.slope_shift + apply(found.slope_by_overlap, gap)
        right = weights - before - pull[:, :, 0] * apply(transposed, slope_shift)
        moved = _solve(np.eye(omega.size) + pull * curvature, right, xp)
        weights_after = before * xp.maximum(1 + moved / before, 0.1)
        change = gap + apply(mapping, weights_after - before)
        overlap_gap = xp.max(xp.abs(weights / before - 1) * xp.minimum(1.0, 100 * omega), -1)
    energy_change = found.energy_shift + apply(found.energy_by_overlap, change)
    resolvent_change = found.resolvent_shift + apply(found.resolvent_by_overlap, change)
    fraction = _inside(state, change, energy_change, xp) if mean.dimension is None else xp.ones_like(alpha)
    by = fraction[:, None]
    energy = state.energy * xp.maximum(1 + by * energy_change / state.energy, 0.1)
    after = State(
        state.overlaps + by[:, :, None] * unfold(change[:, : rows.size], size),
        state.diagonal + by * change[:, rows.size :],
        energy,
        state.resolvent + by[:, :, None] * unfold(resolvent_change, state.resolvent.shape[-1]),
    )
    next_weights = weights if mean.dimension is None else weights_after
    return Step(after, next_weights, xp.maximum(found.residual, overlap_gap))


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
    bulk: Bulk, mean: Mean, state: State, before: Any, ridge: Any, omega: Any, alpha: Any, tolerance: float = TOLERANCE
) -> Solution:
    """Newton steps until every residual is below the tolerance, or below ``ACCEPTED`` and no longer falling."""
    mapping = overlap_map(bulk, np)
    best = np.full(alpha.shape, np.inf)
    stalled = np.zeros(alpha.shape, int)
    iterations = np.zeros(alpha.shape, int)
    result, weights = state, np.zeros((alpha.size, omega.size))
    active = np.ones(alpha.shape, bool)
    residual = best
    for _ in range(MOST_ITERATIONS):
        with np.errstate(all="ignore"):
            try:
                if not np.all(residual < NEAR):
                    state = settle_numpy(bulk, state)
                step = newton_step(bulk, mean, mapping, state, before, ridge, omega, alpha, np, lambda x: x)
            except np.linalg.LinAlgError:
                break
        residual = np.where(np.isfinite(step.residual), step.residual, np.inf)
        better = active & (residual < best)
        pick = [np.where(column(better, new.ndim), new, old) for new, old in zip(state, result, strict=True)]
        result = State(*pick)
        weights = np.where(better[:, None], before if mean.dimension is not None else step.weights, weights)
        stalled = np.where(residual < 0.5 * best, 0, stalled + 1)
        best = np.where(better, residual, best)
        iterations = iterations + active
        active = active & ~finished(best, stalled, tolerance)
        if not active.any():
            break
        before = step.weights
        state = State(*[np.where(column(active, new.ndim), new, old) for new, old in zip(step.state, state, strict=True)])
    return Solution(result, weights, best, iterations)


def finished(best: Any, stalled: Any, tolerance: float) -> Any:
    """Whether to stop: converged, as good as rounding allows, or hopeless. ``stalled`` counts steps without half the residual."""
    return (best < tolerance) | ((best < ACCEPTED) & (stalled >= 3)) | (stalled >= 30)


def column(flags: Any, dimensions: int) -> Any:
    """One flag per problem, shaped to choose between arrays of ``dimensions`` axes."""
    return flags.reshape(-1, *([1] * (dimensions - 1)))
