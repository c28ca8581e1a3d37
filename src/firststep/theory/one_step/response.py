"""How (E, Z) respond to the overlaps: one linear solve for (dE, vech dZ).

With s_p = F Z a_p, l_p = (0, e_p U_p) and Phi = Z F^T + diag(0, 1) (one block: Phi = Z):

    dg = F dZ F^T - sum_p (s_p l_p^T + l_p s_p^T + l_p l_p^T) dTheta_p     (one block: dg = dZ)
    dZ = -Z_1 dM^-1 Z_1^T - sum_p Z a_p a_p^T Z dTheta_p
         - sum_l w_l Phi Delta_l dH_l Delta_l^T Phi^T + (1/alpha0) sum_l w_l Phi Q_l dg Q_l Phi^T
    dE_p = dD_p + a_p^T dZ a_p + chi_p d(b_p^T (sum_l w_l y_l^2 g Delta_l) b_p)

and dTheta_p = -(Theta_p/E_p) dE_p.

The linear system of a large pencil is kept: a chord step, with new gaps in the place of those that
the derivatives were taken at, costs a tenth of a new response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.numerics.batches import joined, take
from firststep.numerics.library import library_of
from firststep.numerics.linear_algebra import Factors, block_matrix, solve_linear
from firststep.theory.one_step.level_response import LARGE, Changes, respond_on_levels
from firststep.theory.one_step.resolvent import Equations, Pencil
from firststep.theory.one_step.system import Bulk, State, apply, flip, triangle
from firststep.theory.one_step.triangles import pair_places

if TYPE_CHECKING:
    from firststep.typing import Array, Float


# Numbers of an array of label nodes, readout values and pencil: 2 MB.
_AT_ONCE = 250_000


class Chord(NamedTuple):
    """What a response was solved with, kept for other gaps."""

    factors: Factors  # of the system for (dE, vech dZ)
    force: Float[Array, "batch Y unknowns"]  # dv/d(E, vech Z) at fixed y

    def renewed(self, found: Response, at: Equations) -> Response:
        """The Newton step of (E, Z) for the gaps of ``at``, by the derivatives of ``found``."""
        count = at.energy_gap.shape[-1]
        rows, columns, _ = triangle(at.resolvent_gap.shape[-1])
        gaps = np.concatenate([at.energy_gap, at.resolvent_gap[:, rows, columns]], 1)
        shift = self.factors.solve(gaps[..., None])[..., 0]
        return found._replace(
            force_shift=apply(self.force, shift),
            energy_shift=shift[:, :count],
            resolvent_shift=shift[:, count:],
        )


class Response(NamedTuple):
    """The linear response of (E, Z) and of the force v to the overlaps y = (vech M, D)."""

    force_shift: Float[Array, "batch Y"]  # of v when (E, Z) take their Newton step at fixed y
    force_by_overlap: Float[Array, "batch Y Y"]  # dv/dy
    energy_shift: Float[Array, "batch P"]
    energy_by_overlap: Float[Array, "batch P Y"]  # dE/dy
    resolvent_shift: Float[Array, "batch n2"]  # vech of dZ
    resolvent_by_overlap: Float[Array, "batch n2 Y"]  # vech of dZ/dy
    chord: Chord | None = None  # with NumPy, of a large pencil

    def along(
        self, change: Float[Array, "batch Y"]
    ) -> tuple[Float[Array, "batch P"], Float[Array, "batch n2"]]:
        """dE and vech dZ of the Newton step, where y moves by ``change``."""
        energy = self.energy_shift + apply(self.energy_by_overlap, change)
        return energy, self.resolvent_shift + apply(self.resolvent_by_overlap, change)


class _ByTheta(NamedTuple):
    """What a change of Theta_p does directly."""

    to_energy: Float[Array, "batch P P"]  # d(chi_q b_q (...) b_q)/dTheta_p at fixed Z
    to_resolvent: Float[Array, "batch P n n"]  # dZ/dTheta_p
    through: Float[Array, "batch P n n"]  # sum_l w_l y_l^2 (Delta_l b_p)(Delta_l b_p)^T
    lifted: Float[Array, "batch J n n"]  # Phi Q_l F


def respond(bulk: Bulk, state: State, at: Equations) -> Response:
    """The response at a state; ``at`` are the equations there. In NumPy a few problems at a time:
    arrays that leave the cache cost more than the work on them.
    """
    if library_of(state.energy).is_numpy:
        size, numbers = state.energy.shape[0], bulk.labels.shape[1] * state.resolvent.shape[-1]
        some = max(1, _AT_ONCE // (numbers * state.energy.shape[1]))
        if size > some:
            pieces = [slice(i, i + some) for i in range(0, size, some)]
            return joined([_respond(*take((bulk, state, at), each)) for each in pieces])
    return _respond(bulk, state, at)


def _respond(bulk: Bulk, state: State, at: Equations) -> Response:
    if bulk.levels is not None:
        return _in_a_medium(state, at, respond_on_levels(bulk, state, at))
    xp = library_of(state.energy).xp
    z, image, pencil = state.resolvent, at.image.z, at.pencil
    (count, r), n = bulk.coordinates.shape[1:], z.shape[-1]
    rows, columns, times = triangle(n)
    by_theta = _by_theta(bulk, state, at)
    by_z = by_theta.through  # d tr_p/dZ
    if pencil.frame is not None:
        by_z = flip(pencil.frame)[:, None] @ by_z @ pencil.frame[:, None]
    ends = pencil.ends
    by_z = ends[:, :, :, None] * ends[:, :, None, :] + bulk.jitter[:, :, None, None] * by_z
    phi = pencil.theta / state.energy
    system = block_matrix(
        np.eye(count) + by_theta.to_energy * phi[:, None, :],
        -by_z[:, :, rows, columns] * times,
        flip(by_theta.to_resolvent[:, :, rows, columns] * phi[..., None]),
        _by_resolvent(bulk, by_theta.lifted),
    )
    r_rows, r_columns, r_times = triangle(r)
    f = image[:, :, :r] @ pencil.inverse
    straight = f[:, rows][:, :, r_rows] * f[:, columns][:, :, r_columns]
    mirrored = f[:, rows][:, :, r_columns] * f[:, columns][:, :, r_rows]
    by_matrix = straight + mirrored * (r_times == 2)
    batch = z.shape[0]
    unit = xp.broadcast_to(np.eye(count), (batch, count, count))
    top = [at.energy_gap[:, :, None], xp.zeros((batch, count, r_rows.size)), unit]
    low = [at.resolvent_gap[:, rows, columns][:, :, None], by_matrix]
    low = [*low, xp.zeros((batch, rows.size, count))]
    right = xp.concatenate([xp.concatenate(top, 2), xp.concatenate(low, 2)], 1)
    factors, answer = solve_linear(system, right, is_kept=n >= LARGE)
    energy, resolvent = answer[:, :count], answer[:, count:]
    rows, columns, _ = triangle(n)
    is_inner = (rows < r) & (columns < r)
    force = _force(state, pencil, z[:, :r, :r], energy, resolvent[:, is_inner])
    found = _response(force, energy, resolvent)
    if factors is None:
        return found
    seen = np.zeros((r_rows.size, count + rows.size))
    seen[:, count:] = np.eye(rows.size)[is_inner]
    by_unknowns = np.broadcast_to(seen, (batch, *seen.shape))
    return found._replace(chord=_chord(factors, state, pencil, by_unknowns))


def _in_a_medium(state: State, at: Equations, found: Changes) -> Response:
    """Where Omega is not 1 the force has <Z_11/varpi> in the place of Z_11."""
    force = _force(state, at.pencil, at.inner, found.energy, found.inner)
    response = _response(force, found.energy, found.resolvent)
    if found.factors is None or found.inner_by_unknowns is None:
        return response
    chord = _chord(found.factors, state, at.pencil, found.inner_by_unknowns)
    return response._replace(chord=chord)


def _chord(
    factors: Factors, state: State, pencil: Pencil, by_unknowns: Float[Array, "batch r2 unknowns"]
) -> Chord:
    """``by_unknowns``: what the force sees of the unknowns, Z_11 or <Z_11/varpi>."""
    (batch, count), unknowns = state.energy.shape, by_unknowns.shape[-1]
    slope = np.zeros((batch, count, unknowns))
    slope[:, np.arange(count), np.arange(count)] = -pencil.theta / state.energy
    _, _, times = triangle(pencil.inverse.shape[-1])
    by_matrix = -_congruence(pencil.inverse, pencil.inverse) @ by_unknowns * times[:, None]
    return Chord(factors, np.concatenate([by_matrix, slope], 1))


def _response(
    force: Float[Array, "batch Y columns"],
    energy: Float[Array, "batch P columns"],
    resolvent: Float[Array, "batch n2 columns"],
) -> Response:
    return Response(
        force_shift=force[:, :, 0],
        force_by_overlap=force[:, :, 1:],
        energy_shift=energy[:, :, 0],
        energy_by_overlap=energy[:, :, 1:],
        resolvent_shift=resolvent[:, :, 0],
        resolvent_by_overlap=resolvent[:, :, 1:],
    )


def _by_theta(bulk: Bulk, state: State, at: Equations) -> _ByTheta:
    chi = bulk.jitter
    weights, labels, u = bulk.label_weights[:, 0], bulk.labels, bulk.coordinates
    pencil, image, source, delta = at.pencil, at.image.z, at.image.source, at.image.delta
    n, r = image.shape[-1], u.shape[-1]
    quadratic = weights * labels**2
    flat_first = at.crossing.reshape(*at.crossing.shape[:2], r * r)
    fourth = (quadratic * labels**2 / bulk.alpha0[:, None])[:, :, None]
    pairs = (flip(flat_first * fourth) @ flat_first).reshape(-1, r, r, r, r)
    pairs = pairs.swapaxes(2, 3).reshape(-1, r * r, r * r)
    squared = (u[:, :, :, None] * u[:, :, None, :]).reshape(*u.shape[:2], r * r)
    to_energy = -chi[:, :, None] * chi[:, None, :] * (squared @ pairs @ flip(squared))
    by_value = on_labels(pencil.padded, delta)  # Delta_l b_p
    through = flip(by_value * quadratic[:, None, :, None]) @ by_value
    phi = pencil.framed(image)
    lift = phi[:, None] @ source  # Phi Q_l
    end = image[:, None] @ pencil.ends[..., None]
    kernel_part = phi[:, None] @ through @ flip(phi)[:, None]
    to_resolvent = -(end @ flip(end)) - chi[:, :, None, None] * kernel_part
    if pencil.frame is None or pencil.lower is None:
        return _ByTheta(to_energy, to_resolvent, through, lift)
    low = pencil.lower
    s = pencil.ends @ state.resolvent @ flip(pencil.frame) + low / 2
    half = s[:, :, :, None] * low[:, :, None, :]
    flat_g = -(half + flip(half)).reshape(*half.shape[:2], n * n)  # dg/dTheta_p at fixed Z
    to_energy = to_energy + chi[:, :, None] * (through.reshape(flat_g.shape) @ flip(flat_g))
    each = weights / bulk.alpha0[:, None]
    product = flip(on_labels(s, lift) * each[:, None, :, None]) @ on_labels(low, lift)
    to_resolvent = to_resolvent - product - flip(product)
    return _ByTheta(to_energy, to_resolvent, through, lift @ pencil.frame[:, None])


def on_labels(
    vectors: Float[Array, "batch P n"], matrices: Float[Array, "batch J m n"]
) -> Float[Array, "batch P J m"]:
    """X_l v_p: one product of matrices."""
    (batch, count, n), (labels, m) = vectors.shape, matrices.shape[1:3]
    columns = matrices.reshape(batch, labels * m, n)
    return (vectors @ flip(columns)).reshape(batch, count, labels, m)


def _by_resolvent(bulk: Bulk, lifted: Float[Array, "batch J n n"]) -> Float[Array, "batch n2 n2"]:
    """The matrix of dZ -> dZ - (1/alpha0) sum_l w_l Phi Q_l F dZ F^T Q_l Phi^T on triangles."""
    xp = library_of(lifted).xp
    n = lifted.shape[-1]
    _, _, times = triangle(n)
    flat = lifted.reshape(*lifted.shape[:2], n * n)
    weighted = flat * (bulk.label_weights[:, 0] / bulk.alpha0[:, None])[:, :, None]
    table = (flip(weighted) @ flat).reshape(-1, n**4)  # [a, c, b, d]: dg_cd moves dZ_ab
    straight, crossed = pair_places(n, n)  # and so does dg_dc
    both = xp.take(table, straight, axis=1) + xp.take(table, crossed, axis=1)
    return np.eye(times.size) - both * (times / 2)


def _force(
    state: State,
    pencil: Pencil,
    block: Float[Array, "batch r r"],
    energy: Float[Array, "batch P columns"],
    moved: Float[Array, "batch r2 columns"],
) -> Float[Array, "batch Y columns"]:
    """The change of v: by the Newton step of (E, Z) in the first column, by y in the others.

    ``block`` is Z_11, ``moved`` its change.
    """
    xp = library_of(energy).xp
    (batch, count), r = energy.shape[:2], state.overlaps.shape[-1]
    _, _, times = triangle(r)
    inverse = pencil.inverse
    inner = inverse @ block @ inverse
    plain = _congruence(inverse, inverse)
    mixed = _congruence(inverse, inner) + _congruence(inner, inverse)
    none = xp.zeros((batch, times.size, 1)), xp.zeros((batch, times.size, count))
    direct = xp.concatenate([none[0], mixed - plain, none[1]], 2)
    by_matrix = (direct - plain @ moved) * times[:, None]
    return xp.concatenate([by_matrix, -(pencil.theta / state.energy)[..., None] * energy], 1)


def _congruence(
    left: Float[Array, "batch r r"], right: Float[Array, "batch r r"]
) -> Float[Array, "batch r2 r2"]:
    """The matrix of dM -> left dM right^T on upper triangles, not yet symmetrised."""
    rows, columns, times = triangle(left.shape[-1])
    one = left[:, rows][:, :, rows] * right[:, columns][:, :, columns]
    other = left[:, rows][:, :, columns] * right[:, columns][:, :, rows]
    return one + other * (times == 2)
