"""The fit of the mean features: a bordered linear system, and the smoother that it makes.

Kernel, forms and the border of functions that are fitted all but freely are those of ``mean``. At
finite d a second set of nodes is in the common mode of the inputs; where nothing but the border
reaches it, it is eliminated: with V the border there, delta becomes delta + V^T V.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.numerics.library import library_of
from firststep.numerics.linear_algebra import block_matrix, thin_svd
from firststep.theory.one_step.mean import Forms
from firststep.theory.one_step.resolvent import Equations
from firststep.theory.one_step.system import Bulk, Mean, State, System, apply, flip, solve_each
from firststep.theory.one_step.typed import type_vectors

if TYPE_CHECKING:
    from firststep.typing import Array, Float

# Singular values below this part of the largest are rounding: an odd student has no mean features
# without a step.
_ROUNDING = 1e-13


class Projection(NamedTuple):
    """The fit of the mean: nu = sqrt S (h0 - m) solves (1 + sqrt S Kmean sqrt S) nu = right."""

    smooth: Float[Array, "batch seen seen"]  # 1 + sqrt S (kernel) sqrt S on the nodes it sees
    directions: Float[Array, "batch nodes columns"]  # of the border: sqrt S free turn
    root: Float[Array, "batch nodes"]  # sqrt S
    # Kmean without its first part; nothing in the common mode, where it sees one set of nodes.
    seen_kernel: Float[Array, "batch seen seen"]
    # The columns of the border are sqrt S free turn, with the slacks on the diagonal.
    free: Float[Array, "batch nodes functions"]
    turn: Float[Array, "batch functions columns"]
    slack: Float[Array, "batch columns"]

    @property
    def kernel(self) -> Float[Array, "batch nodes nodes"]:
        """Kmean without its first part on all nodes."""
        more = self.root.shape[-1] - self.seen_kernel.shape[-1]
        pad = library_of(self.root).xp.pad
        return pad(self.seen_kernel, ((0, 0), (0, more), (0, more)))

    @property
    def functions(self) -> Float[Array, "batch nodes columns"]:
        """The columns of the border without sqrt S."""
        return self.free @ self.turn

    @property
    def bordered(self) -> Float[Array, "batch m m"]:
        """((smooth, U), (U^T, -delta - V^T V)), V the rows of the border on unseen nodes."""
        seen, unseen = self.parts
        corner = -self.slack[:, :, None] * np.eye(self.slack.shape[-1])
        if unseen.shape[1]:
            corner = corner - flip(unseen) @ unseen
        return block_matrix(self.smooth, seen, flip(seen), corner)

    @property
    def parts(self) -> tuple[Float[Array, "batch s columns"], Float[Array, "batch u columns"]]:
        """The border on the nodes that the kernel sees, and on the others."""
        count = self.smooth.shape[-1]
        return self.directions[:, :count], self.directions[:, count:]

    def solve(
        self, right: Float[Array, "batch nodes"]
    ) -> tuple[Float[Array, "batch nodes"], Float[Array, "batch columns"]]:
        """nu, and the weights of the border's functions."""
        xp, (_, unseen) = library_of(right).xp, self.parts
        count = self.smooth.shape[-1]
        below = -apply(flip(unseen), right[:, count:]) if unseen.shape[1] else 0 * self.slack
        answer = solve_each(self.bordered, xp.concatenate([right[:, :count], below], 1))
        nu, weights = answer[:, :count], answer[:, count:]
        if unseen.shape[1]:
            nu = xp.concatenate([nu, right[:, count:] - apply(unseen, weights)], 1)
        return nu, weights


def readout_share(mean: Mean, state: State) -> Float[Array, "batch P"]:
    """t_p = at_p sqrt(pi_p phi_p/A) sqrt(E_p - D_p)."""
    assert mean.along_readout is not None
    return mean.along_readout * library_of(state.energy).xp.sqrt(rows_energy(state))


def rows_energy(state: State) -> Float[Array, "batch P"]:
    """E_p - D_p, positive also where it is below the rounding of E_p."""
    xp = library_of(state.energy).xp
    return xp.maximum(state.energy - state.diagonal, 1e-17 * state.energy)


def coherent_energy(mean: Mean, state: State) -> Float[Array, "batch P P"]:
    """diag(E_p) - t t^T."""
    t = readout_share(mean, state)
    return state.energy[:, :, None] * np.eye(t.shape[-1]) - t[:, :, None] * t[:, None, :]


def _coherent(bulk: Bulk, mean: Mean, state: State) -> Float[Array, "batch P nodes"]:
    """Functions whose Gram matrix over P is the first part of Kmean over d."""
    lib = library_of(state.energy)
    if mean.along_readout is None:
        return mean.mean * lib.xp.sqrt(bulk.neurons / state.energy)[..., None]
    features = mean.mean * lib.xp.sqrt(bulk.neurons)[..., None]
    return lib.linalg.solve(lib.linalg.cholesky(coherent_energy(mean, state)), features)


def projection(
    system: System,
    state: State,
    at: Equations,
    shapes: Forms,
    shrunk: Float[Array, "batch K"],
    constant: bool = False,
) -> Projection:
    """The bordered system ((1 + F, U), (U^T, -delta)) at the weights S = ``shrunk``.

    N sum_p (pi_p/E_p) mu0 mu0 in directions scaled to length one. In direction i of singular value
    sigma_i of sqrt S mu0^T sqrt(Theta/beta), delta = (1/N)/(1/N + sigma^2): zero for d = infinity,
    where the mean features are fitted freely. ``constant``: a function 1 is fitted freely too, one
    more column, sqrt S/|sqrt S| with delta = 0, and nothing in the common mode.
    """
    bulk, mean, theta = system.bulk, system.mean, at.pencil.theta
    lib = library_of(state.energy)
    xp = lib.xp
    vectors = row_vectors(system, at, is_wide=False)
    kernel = flip(vectors) @ shapes.rows @ vectors
    for psi in mean.fluctuations:
        kernel = _added(kernel, flip(psi) @ (psi * theta[..., None]))
    seen = kernel.shape[-1]
    root = xp.tile(xp.sqrt(shrunk), (1, mean.mean.shape[-1] // shrunk.shape[-1]))
    near = root[:, :seen]
    smooth = np.eye(seen) + near[:, :, None] * kernel * near[:, None, :]
    if mean.free is None:
        free = flip(_coherent(bulk, mean, state))
    else:  # nothing of it in the common mode
        free = xp.pad(mean.free, ((0, 0), (0, root.shape[-1] - mean.free.shape[-2]), (0, 0)))
    if constant and mean.dimension is None:
        free = xp.concatenate(
            [xp.broadcast_to(free, (*root.shape, free.shape[-1])), _one(root, shrunk.shape[-1])], 2
        )
    columns = root[:, :, None] * free
    _, sigma, right = thin_svd(lib.frozen(columns))
    if mean.free is None:
        features = xp.max(mean.mean**2, axis=(-2, -1)) + xp.max(bulk.scatter, axis=(-2, -1))
        largest = features * xp.max(theta, -1) * xp.sum(shrunk, -1)
    else:
        largest = xp.max(sigma, -1) ** 2
    kept = sigma > _ROUNDING * xp.sqrt(lib.frozen(largest))[:, None]
    floor = 0 * sigma[:, :1] if mean.dimension is None else 1.0 / mean.dimension[:, None]
    length = xp.where(kept, xp.sqrt(floor + sigma**2), 1.0)
    directions = xp.where(kept[:, None, :], (columns @ flip(right)) / length[:, None, :], 0.0)
    slack = xp.where(kept, floor / length**2, 1.0)
    turn = xp.where(kept[:, None, :], flip(right) / length[:, None, :], 0.0)
    if constant and mean.dimension is not None:
        one = _one(root, shrunk.shape[-1])
        size_of_one = xp.sqrt(xp.sum(shrunk, -1))[:, None, None]
        free, turn = xp.concatenate([free, one], 2), _bordered(turn, 1 / size_of_one)
        directions = xp.concatenate([directions, root[:, :, None] * one / size_of_one], 2)
        slack = xp.pad(slack, ((0, 0), (0, 1)))
    return Projection(
        smooth=smooth,
        directions=directions,
        root=root,
        seen_kernel=kernel,
        free=free,
        turn=turn,
        slack=slack,
    )


def _added(
    one: Float[Array, "batch m m"], other: Float[Array, "batch n n"]
) -> Float[Array, "batch most most"]:
    """The sum of two kernels, of which one may see one set of nodes only."""
    xp, size = library_of(one).xp, max(one.shape[-1], other.shape[-1])

    def wide(kernel: Float[Array, "batch m m"]) -> Float[Array, "batch most most"]:
        more = size - kernel.shape[-1]
        return xp.pad(kernel, ((0, 0), (0, more), (0, more))) if more else kernel

    return wide(one) + wide(other)


def _one(root: Float[Array, "batch nodes"], count: int) -> Float[Array, "batch nodes 1"]:
    """The function 1 on the ``count`` nodes of kappa; the common mode has none of it."""
    xp = library_of(root).xp
    return xp.zeros_like(root)[:, :, None] + (np.arange(root.shape[-1]) < count)[:, None]


def _bordered(
    turn: Float[Array, "batch m n"], corner: Float[Array, "batch 1 1"]
) -> Float[Array, "batch m1 n1"]:
    """diag(turn, corner)."""
    xp = library_of(turn).xp
    batch, m, n = turn.shape
    return block_matrix(turn, xp.zeros((batch, m, 1)), xp.zeros((batch, 1, n)), corner)


def row_vectors(
    system: System, at: Equations | None = None, *, is_wide: bool = True
) -> Float[Array, "batch m nodes"]:
    """C = (kappa B; mu0'), nothing in the common mode; of typed neurons (Y; mu0') at a state, of
    which Y has a part there. ``is_wide``: with the zeros of the common mode.
    """
    bulk, mean = system.bulk, system.mean
    xp, is_typed = library_of(bulk.basis).xp, mean.types is not None and at is not None
    nodes = mean.mean.shape[-1] if is_wide or is_typed else mean.kappa.size

    def wide(vectors: Float[Array, "batch m K"]) -> Float[Array, "batch m nodes"]:
        more = nodes - vectors.shape[-1]
        return xp.pad(vectors, ((0, 0), (0, 0), (0, more))) if more else vectors

    if mean.types is None or at is None:
        vectors = wide(bulk.basis * mean.kappa)
    else:
        vectors = type_vectors(bulk, mean, at.pencil.theta)
    if mean.linear_chaos is None:
        return vectors
    return xp.concatenate([vectors, wide(mean.by_variance)], 1)


def smoother(
    fit: Projection, nodes: int
) -> tuple[Float[Array, "batch K"], Float[Array, "batch K K"]]:
    """H_kk and H_kl H_lk of H = (1 + Kmean S)^-1 Kmean, summed over the sets of nodes.

    From sqrt S H sqrt S = 1 - (1 + sqrt S Kmean sqrt S)^-1. With ((a, b), (b^T, c)) the inverse of
    the bordered matrix and V the border on unseen nodes it is ((1 - a, b V^T), (., -V c V^T)).
    """
    lib = library_of(fit.root)
    xp, count, (_, unseen) = lib.xp, fit.smooth.shape[-1], fit.parts
    inverse = lib.linalg.inv(fit.bordered)
    inner = np.eye(count) - inverse[:, :count, :count]
    squares = inner * flip(inner)
    diagonal = xp.einsum("bkk->bk", inner)
    weights = 1 / fit.root[:, :nodes] ** 2
    sets = count // nodes
    diagonal = diagonal.reshape(-1, sets, nodes).sum(1) if sets > 1 else diagonal
    if sets > 1:
        squares = squares.reshape(-1, sets, nodes, sets, nodes).sum((1, 3))
    if unseen.shape[1]:
        across = inverse[:, :count, count:] @ flip(unseen)
        apart = unseen @ inverse[:, count:, count:]
        diagonal = diagonal - xp.sum(apart * unseen, -1)
        apart = apart @ flip(unseen)
        across = across**2
        squares = squares + across + flip(across) + apart * flip(apart)
    return diagonal * weights, squares * weights[:, :, None] * weights[:, None, :]
