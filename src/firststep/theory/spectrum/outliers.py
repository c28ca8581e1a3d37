"""Eigenvalues that leave the bulk of the weights or of the kernel.

Outside the bulk the equations have a real solution at ridge = -z, and the mean features put back
what the bulk was taken without. An eigenvalue of the whole matrix lies where
det(1 + Kmean diag S) = 0, Kmean as in ``one_step.mean`` at finite d:

    Kmean = d mu0^T (beta pi)^(1/2) Ec^-1 (beta pi)^(1/2) mu0
            + sum_q sum_p Theta_p psi^q psi^q + C^T F C
    Ec = D + (1 - q a a^T) diag(E - D) (1 - q a a^T)     (diag E without the network's own output)

For the weights (mu0 = u kappa, mu1 = S = 1) and one readout value, q = 0, this is
1/G_vv + N u^2/E + (2 beta/E) (du/dQ)^2 = 0, the last term for Gaussian rows only. After a small
step G_vv^-1 = 1 + beta/E and E = -z + 1/(1 + beta/E):
[Ba]'s z = (1 + theta^2)(beta + theta^2)/theta^2, theta^2 = N u^2.

The determinant has poles as well as zeros: G_vv = 0, and G_vv itself has the poles of G_tt, the
eigenvalues that the teacher's direction pulls out of the bulk of the step's data. So roots are
found by counting. With neg(X) the number of negative eigenvalues, the inertia of Schur complements
gives for the number of eigenvalues above z, up to those of the bulk,

    count(z) = neg(S^-1 + Kmean) - neg(S) + neg(G_tt) - neg(G_vv) + neg(E) - neg(Ec)

which falls by one at every outlier and nowhere else. It holds above the bulk and in its gaps.
Kmean = Psi^T X Psi with few rows of Psi (mu0, psi^q, C) and X block diagonal. With
X = V diag(x) V^T and pos(X) the number of positive eigenvalues,

    neg(S^-1 + Kmean) - neg(S) = pos(sgn x + |x|^(1/2) V^T Psi S Psi^T V |x|^(1/2)) - pos(X).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy  # whose parts load when they are used: interpolate and optimize take long

from firststep.errors import NotConverged
from firststep.numerics.batches import joined, take
from firststep.theory.one_step.mean import forms
from firststep.theory.one_step.projection import row_vectors
from firststep.theory.one_step.resolvent import equations, start
from firststep.theory.one_step.system import State, flip
from firststep.theory.spectrum.resolvent import CONVERGED, TRUSTED, Ensemble, Track, Turned, polish

if TYPE_CHECKING:
    from firststep.typing import Array, Bool, Float, Int

_POINTS = 40  # of the first look above the bulk
_SECTIONS = 8  # points put between two where the count differs
_PRECISION = 1e-6  # of an outlier, relative
# Distance from the edge, relative, where the look begins: nearer than that an outlier is the edge.
_NEAREST = 1e-4


def above(track: Track, edge: float) -> list[float]:
    """The outliers above the edge of the bulk, largest first."""
    highest = _highest(track, edge)
    return _roots(track, edge + np.geomspace(_NEAREST * edge, highest - edge, _POINTS), edge, 1.0)


def between(track: Track, low: float, high: float) -> list[float]:
    """The outliers in a gap of the bulk."""
    if high - low < 0.02 * high:
        return []
    away = np.geomspace(_NEAREST * high, (high - low) / 2, _POINTS // 2)
    return _roots(track, (high - away)[::-1], high, -1.0) + _roots(track, low + away, low, 1.0)


def _highest(track: Track, edge: float) -> float:
    """A place above every outlier: far out the eigenvalues of -Kmean S fall like 1/z."""
    z = 1e3 * edge
    for _ in range(8):
        found = _mean_part(track.made, *_real(_solve(track, np.array([z]))))
        largest = float(np.linalg.eigvals(-found.kernel @ found.gram).real.max()) * z
        if largest < 0.1 * z:
            return 4 * (max(largest, 0.0) + edge)
        z = 100 * largest
    told = f"the outliers of the {track.made.of} could not be found: its mean is too large"
    raise NotConverged(f"{told}; try a smaller step")


def _solve(track: Track, z: Float[Array, " z"]) -> Turned:
    """The solution at real z: beyond the track, where nothing is near, by Newton's method alone."""
    near = z < track.x[-1]
    parts = []
    if near.any():
        parts.append(track.on_axis(z[near]))
    if not near.all():
        ridge = -z[~near]
        parts.append(polish(track.made, start(track.made.at(ridge)), ridge, CONVERGED, 16))
    return joined(parts)


def _real(found: Turned) -> tuple[State, Float[Array, "z K"]]:
    return State(*[each.real for each in found.state]), found.shrunk.real


def _is_real(track: Track, found: Turned) -> Bool[Array, " z"]:
    """Solved outside the bulk and the slivers that nodes make of unbounded labels or readouts."""
    m = track.transform(found.state)
    return (found.change < TRUSTED) & (np.abs(m.imag) < 1e-9 * np.abs(m))


def _roots(track: Track, z: Float[Array, " z"], edge: float, side: float) -> list[float]:
    """Where the count falls between the z (ascending); states from splines in log |z - edge|."""
    made = track.made
    first = _solve(track, z)
    real = _is_real(track, first)
    if real.sum() < 4:
        return []
    z = z[real]
    state, shrunk = _real(take(first, real))
    order = np.argsort(np.abs(z - edge))
    splines = [
        scipy.interpolate.CubicSpline(np.log(np.abs(z - edge)[order]), each[order])
        for each in state
    ]

    def look(places: Float[Array, " z"]) -> tuple[Float[Array, " z"], Int[Array, " z"]]:
        """The places outside the bulk, and the count there."""
        guess = State(*[spline(np.log(np.abs(places - edge))) for spline in splines])
        found = polish(made, guess, -places, CONVERGED, 12)
        solved = found.change < TRUSTED
        if not solved.all():
            found = _solve(track, places)
            solved = _is_real(track, found)
        return places[solved], counts(made, *_real(take(found, solved)))

    found: list[float] = []
    brackets = _falls(z, counts(made, state, shrunk))
    fractions = np.arange(1, _SECTIONS + 1) / (_SECTIONS + 1)
    while brackets:
        a, b, m, n = brackets.pop()
        if b - a <= _PRECISION * b:
            found += [(a + b) / 2] * (m - n)
            continue
        ends = np.log(np.abs(np.array([a, b]) - edge))
        away = np.exp(ends[0] + (ends[1] - ends[0]) * fractions)
        places, numbers = look(np.sort(edge + side * away))
        if places.size:
            brackets += _falls(np.array([a, *places, b]), np.array([m, *numbers, n]))
    return sorted(found, reverse=True)


def _falls(z: Float[Array, " z"], count: Int[Array, " z"]) -> list[tuple[float, float, int, int]]:
    return [
        (float(a), float(b), int(m), int(n))
        for a, b, m, n in zip(z, z[1:], count, count[1:], strict=False)
        if m > n
    ]


class _MeanPart(NamedTuple):
    kernel: Float[Array, "z m m"]  # X
    gram: Float[Array, "z m m"]  # Psi S Psi^T
    teacher: Float[Array, "z r r"]  # G_tt
    gradient: Float[Array, "z r r"]  # G_vv
    energy: Float[Array, "z P P"]  # Ec


def counts(made: Ensemble, state: State, shrunk: Float[Array, "z K"]) -> Int[Array, " z"]:
    """count(z) at real solutions."""
    found = _mean_part(made, state, shrunk)
    x, vectors = np.linalg.eigh(found.kernel)
    root = vectors * np.sqrt(np.abs(x))[:, None, :]
    whole = np.sign(x)[:, :, None] * np.eye(x.shape[-1]) + flip(root) @ found.gram @ root
    mean = negative(-whole) - np.sum(x > 0, -1)
    own_output = np.sum(state.energy < 0, -1) - negative(found.energy)
    return mean + negative(found.teacher) - negative(found.gradient) + own_output


def negative(matrices: Float[Array, "z m m"]) -> Int[Array, " z"]:
    """How many eigenvalues of each symmetric matrix are below zero."""
    return np.sum(np.linalg.eigvalsh((matrices + flip(matrices)) / 2) < 0, -1)


def _mean_part(made: Ensemble, state: State, shrunk: Float[Array, "z K"]) -> _MeanPart:
    system = made.system.part(np.zeros(state.energy.shape[0], int))
    bulk, mean = system.bulk, system.mean
    assert mean.dimension is not None
    at = equations(bulk, state)
    shapes, theta = forms(system, state, at), at.pencil.theta
    one = np.eye(theta.shape[-1])
    energy, turn = state.energy[:, :, None] * one, made.own_turn
    if turn is not None:
        rows = (state.energy - state.diagonal)[:, None, :]
        energy = state.diagonal[:, :, None] * one + (turn * rows) @ turn
    root, d = np.sqrt(bulk.neurons), mean.dimension[:, None, None]
    coherent = d * root[:, :, None] * np.linalg.inv(energy) * root[:, None, :]
    blocks = [coherent, *(theta[:, :, None] * one for _ in mean.fluctuations), shapes.rows]
    nodes = mean.mean.shape[-1]
    psi = [np.pad(f, ((0, 0), (0, 0), (0, nodes - f.shape[-1]))) for f in mean.fluctuations]
    vectors = np.concatenate([mean.mean, *psi, row_vectors(system)], 1)
    sizes = np.cumsum([0, *(block.shape[-1] for block in blocks)])
    kernel = np.zeros((len(energy), sizes[-1], sizes[-1]))
    for block, first, last in zip(blocks, sizes, sizes[1:], strict=False):
        kernel[:, first:last, first:last] = (block + flip(block)) / 2
    tiled = np.tile(shrunk, (1, vectors.shape[-1] // shrunk.shape[-1]))
    r = bulk.basis.shape[1]
    return _MeanPart(
        kernel=kernel,
        gram=(vectors * tiled[:, None, :]) @ flip(vectors),
        teacher=shapes.known.samples[:, :r, :r],
        gradient=np.linalg.inv(shapes.solver),
        energy=energy,
    )
