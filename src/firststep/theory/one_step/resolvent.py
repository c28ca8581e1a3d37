"""The bulk of the trained weights: the deterministic equivalent of its resolvent.

Given kappa, the features of the neurons of readout value p are mu0 + mu1 <r_i, x> + sqrt(mu2) xi_i
with rows r_i of covariance C_p/d. With mu1[p, k] = sum_a U[p, a] B[a, k], overlaps
M = B diag(S) B^T (r x r) and Theta_p = beta pi_p/E_p, all that the ridge fit needs of the rows is
the resolvent

    (M^-1 + sum_p Theta_p U_p U_p^T (x) C_p)^-1,     C_p = (1 + e_p M_data)^2 + chi_p S'.

With A0, A1, A2 = sum_p Theta_p e_p^j U_p U_p^T (j = 0, 1, 2) it is the first block of the inverse
of a symmetric pencil, L0 (x) 1 + H1 (x) M_data + H2 (x) S', of size n = 2r:

    L0 = ( M^-1 + A0 - A1 A2^-1 A1^T   -A1 A2^-1 )    H1 = (  0   -1 )
         (      -A2^-1 A1^T             -A2^-1   )         ( -1    0 )
    H2 = ( sum_p Theta_p chi_p U_p U_p^T   0 )
         (              0                  0 )

Its normalised trace g solves, with the label rule y_l, w_l,

    g = (L0 + q)^-1,   q = sum_l w_l Q_l,   Q_l = Delta_l H_l                                  (g)
    Delta_l = (1 + H_l g/alpha0)^-1,   H_l = y_l H1 + y_l^2 H2
    E_p = D_p + a_p^T Z a_p + chi_p b_p^T (sum_l w_l y_l^2 g Delta_l) b_p                      (E)
    D_p = ridge + sum_k S_k mu2[p, k]

with b_p = (U_p, 0), a_p = (U_p, e_p U_p). The unknown is not g but
Z = (1, M_data)^T G (1, M_data), G the resolvent above:

    g = F Z F^T - diag(0, A2),   F = (1, 0; -A1^T, -A2)
    R Z = K,   K = (1, -q12; 0, -q22),   R = (M^-1 + q11, 0; q21, 1) + K (A0, A1; A1^T, A2)

in which no inverse of A2 appears: nothing breaks where readout values have tiny weight or e is
small.

If e = 0 (students with E[z s'] = 0, or the isotropic bulk C_p = c_p) the second block is absent:
n = r, Z = g, L0 = M^-1 + sum_p Theta_p c_p U_p U_p^T with c_p = 1 for the exact bulk, and
a_p = sqrt(c_p) U_p.

Inputs N(0, Omega). The resolvent has M^-1 (x) Omega^-1 for M^-1 (x) 1: on a level varpi of Omega,
with A = (A0, A1; A1^T, A2) and rows multiplied by varpi,

    R Z(varpi) = K,   K = (varpi, -varpi^2 q12; 0, -varpi q22)
    R = (M^-1 + varpi^2 q11, 0; varpi q21, 1) + K A
    one block: Z(varpi) = varpi (M^-1 + varpi sum_p Theta_p a_p a_p^T + varpi^2 q)^-1

and three averages are needed: Z, the unknown, is <varpi Z(varpi)>; (E) has <Z(varpi)> in the place
of the first Z; and <Z_11(varpi)/varpi> is what V has of it, in ``force``. Typed neurons (``typed``,
one block) have (1 + eps g_p varpi) a_p for a_p on a level, and <(1 + eps g_p varpi)^2 Z> in (E).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.numerics.library import library_of
from firststep.numerics.linear_algebra import block_matrix
from firststep.theory.one_step.system import Bulk, Levels, State, System, flip, triangle, unpack

if TYPE_CHECKING:
    from firststep.typing import Array, Bool, Float

SETTLED = 0.02  # relative gap of Z at which Newton's method is safe
MOST_SETTLING = 60  # a damped step halves the gap at worst: 60 of them lose all digits of it


class Pencil(NamedTuple):
    """The pieces of (g) and (E) that do not depend on Z."""

    inverse: Float[Array, "batch r r"]  # M^-1
    theta: Float[Array, "batch P"]
    ends: Float[Array, "batch P n"]  # a_p
    padded: Float[Array, "batch P n"]  # b_p
    kernels: Float[Array, "batch J n n"]  # H_l
    base: Float[Array, "batch r r"]  # M^-1 (+ sum_p Theta_p a_p a_p^T with one block)
    # None with one block:
    lower: Float[Array, "batch P n"] | None = None  # (0, e_p U_p)
    moments: Float[Array, "batch n n"] | None = None  # (A0, A1; A1^T, A2)
    frame: Float[Array, "batch n n"] | None = None  # F
    lean: Float[Array, "batch P"] | None = None  # eps g_p

    @classmethod
    def of(
        cls, bulk: Bulk, overlaps: Float[Array, "batch r r"], energy: Float[Array, "batch P"]
    ) -> Pencil:
        """The pencil at given overlaps and energies."""
        xp = library_of(energy).xp
        u, labels = bulk.coordinates, bulk.labels
        theta = bulk.neurons / energy
        inverse = library_of(overlaps).linalg.inv(overlaps)
        second = flip(u) @ (u * (theta * bulk.jitter)[..., None])  # H2
        square = (labels**2)[:, :, None, None] * second[:, None]
        if bulk.tilt is None:
            a = u * xp.sqrt(bulk.isotropic)[..., None]
            base = inverse + flip(a) @ (a * theta[..., None])
            lean = bulk.lean
            return cls(inverse, theta, ends=a, padded=u, kernels=square, base=base, lean=lean)
        r = u.shape[-1]
        tilted, zero = u * bulk.tilt[..., None], xp.zeros_like(u)
        ends = xp.concatenate([u, tilted], -1)
        moments = flip(ends) @ (ends * theta[..., None])
        side = xp.zeros_like(square) - labels[:, :, None, None] * np.eye(r)
        upper = xp.broadcast_to(np.eye(r, 2 * r), (*theta.shape[:1], r, 2 * r))
        return cls(
            inverse=inverse,
            theta=theta,
            ends=ends,
            lower=xp.concatenate([zero, tilted], -1),
            padded=xp.concatenate([u, zero], -1),
            kernels=block_matrix(square, flip(side), side, xp.zeros_like(square)),
            base=inverse,
            moments=moments,
            frame=xp.concatenate([upper, -moments[:, r:]], 1),
        )

    def trace(
        self, z: Float[Array, "batch n n"], size: Float[Array, " batch"] | None = None
    ) -> Float[Array, "batch n n"]:
        """g of Z: F Z F^T - ``size`` diag(0, A2)."""
        if self.moments is None or self.frame is None:
            return z
        r = z.shape[-1] // 2
        second = self.moments[:, r:, r:]
        if size is not None:
            second = second * size[:, None, None]
        padded = library_of(z).xp.pad(second, ((0, 0), (r, 0), (r, 0)))
        return self.frame @ z @ flip(self.frame) - padded

    def invert(self, q: Float[Array, "batch n n"]) -> Float[Array, "batch n n"]:
        """Z of (L0 + q)^-1: symmetric."""
        lib = library_of(q)
        xp = lib.xp
        if self.moments is None:
            return lib.linalg.inv(self.base + q)
        r = q.shape[-1] // 2
        one = xp.zeros_like(self.inverse) + np.eye(r)
        none = xp.zeros_like(one)
        right = block_matrix(one, -q[:, :r, r:], none, -q[:, r:, r:])
        system = block_matrix(self.base + q[:, :r, :r], none, q[:, r:, :r], one)
        z = lib.linalg.solve(system + right @ self.moments, right)
        return (z + flip(z)) / 2

    def on_levels(
        self, q: Float[Array, "batch n n"], levels: Levels
    ) -> Float[Array, "batch s n n"]:
        """Z(varpi): symmetric."""
        lib = library_of(q)
        xp, value = lib.xp, levels.value[:, :, None, None]
        inverse = self.inverse[:, None]
        if levels.bare is not None:
            inverse = inverse * levels.bare[:, :, None, None]
        if self.moments is None:
            system = inverse + value * (self._rows(levels) + value * q[:, None])
            return value * lib.linalg.inv(system)
        r = q.shape[-1] // 2
        q11, q12, q21, q22 = (q[:, None, a, b] for a in _halves(r) for b in _halves(r))
        one = xp.zeros_like(value * q11) + np.eye(r)
        none = xp.zeros_like(one)
        right = block_matrix(value * one, -(value**2) * q12, none, -value * q22)
        system = block_matrix(inverse + value**2 * q11, none, value * q21, one)
        z = lib.linalg.solve(system + right @ self.moments[:, None], right)
        return (z + flip(z)) / 2

    def _rows(self, levels: Levels) -> Float[Array, "batch s n n"]:
        """sum_p Theta_p (1 + eps g_p varpi)^2 a_p a_p^T."""
        if self.lean is None:
            return (flip(self.ends) @ (self.ends * self.theta[..., None]))[:, None]
        weights = stretch(self.lean, levels) ** 2 * self.theta[:, None]  # (., s, P)
        pairs = self.ends[:, :, :, None] * self.ends[:, :, None, :]
        found = weights @ pairs.reshape(*pairs.shape[:2], -1)
        return found.reshape(*found.shape[:2], *pairs.shape[2:])

    def framed(
        self, z: Float[Array, "batch n n"], size: Float[Array, " batch"] | None = None
    ) -> Float[Array, "batch n n"]:
        """Phi = Z F^T + ``size`` diag(0, 1), or Z with one block."""
        if self.frame is None:
            return z
        n = z.shape[-1]
        corner = np.diag(np.arange(n) >= n // 2)
        return z @ flip(self.frame) + (corner if size is None else corner * size[:, None, None])


def stretch(lean: Float[Array, "batch P"], levels: Levels) -> Float[Array, "batch s P"]:
    """1 + eps g_p varpi."""
    return 1 + levels.value[:, :, None] * lean[:, None]


def _halves(r: int) -> tuple[slice, slice]:
    return slice(0, r), slice(r, None)


class Image(NamedTuple):
    """What (g) makes of Z."""

    z: Float[Array, "batch n n"]
    trace: Float[Array, "batch n n"]  # g
    delta: Float[Array, "batch J n n"]  # Delta_l
    source: Float[Array, "batch J n n"]  # Q_l
    levels: Float[Array, "batch s n n"] | None = None  # Z(varpi), where Omega is not 1


class Equations(NamedTuple):
    """(E) and (g) at a state."""

    pencil: Pencil
    image: Image
    crossing: Float[Array, "batch J r r"]  # the first block of g Delta_l
    inner: Float[Array, "batch r r"]  # Z_11, or <Z_11(varpi)/varpi>
    energy_gap: Float[Array, "batch P"]  # right minus left of (E)
    resolvent_gap: Float[Array, "batch n n"]  # and of (g), in Z
    residual: Float[Array, " batch"]  # the largest, relative, of (E) and (g)
    # v = (vech of M^-1 - M^-1 g_11 M^-1 with multiplicities, Theta), the gradient of a potential:
    # alpha V_k = sum_i v_i Lambda_ik.
    force: Float[Array, "batch Y"]


def average(
    weights: Float[Array, "batch J"], matrices: Float[Array, "batch J n m"]
) -> Float[Array, "batch n m"]:
    """sum_l w_l X_l."""
    batch, count, n, m = matrices.shape
    return (weights[:, None, :] @ matrices.reshape(batch, count, n * m)).reshape(batch, n, m)


def resolvent_map(bulk: Bulk, pencil: Pencil, z: Float[Array, "batch n n"]) -> Image:
    """The image of Z under (g), with what it is made of."""
    g = pencil.trace(z)
    crossed = pencil.kernels @ (g / bulk.alpha0[:, None, None])[:, None]
    delta = library_of(z).linalg.inv(np.eye(g.shape[-1]) + crossed)
    source = delta @ pencil.kernels
    q = average(bulk.label_weights[:, 0], source)
    q = (q + flip(q)) / 2
    if bulk.levels is None:
        return Image(pencil.invert(q), g, delta, source)
    found = pencil.on_levels(q, bulk.levels)
    mean = average(bulk.levels.mass * bulk.levels.value, found)
    return Image(mean, g, delta, source, found)


def relative_gap(
    new: Float[Array, "batch n n"], old: Float[Array, "batch n n"]
) -> Float[Array, " batch"]:
    """The largest change of an entry z_ij, relative to sqrt(z_ii z_jj)."""
    xp = library_of(old).xp
    size = xp.sqrt(xp.maximum(xp.einsum("bii->bi", xp.abs(old)), 1e-300))
    return xp.max(xp.abs(new - old) / (size[:, :, None] * size[:, None, :]), axis=(-2, -1))


def equations(bulk: Bulk, state: State) -> Equations:
    """(E) and (g) at a state: what they map it to, and how far that is."""
    xp = library_of(state.energy).xp
    r, u, z = state.overlaps.shape[-1], bulk.coordinates, state.resolvent
    pencil = Pencil.of(bulk, state.overlaps, state.energy)
    image = resolvent_map(bulk, pencil, z)
    # b_p g Delta_l b_q lives in the first block
    crossing = (image.trace[:, None] @ image.delta)[:, :, :r, :r]
    quadratic = bulk.label_weights[:, 0] * bulk.labels**2
    plain, minus = z, z[:, :r, :r]
    if bulk.levels is not None and image.levels is not None:
        value, mass, *_ = bulk.levels
        plain, minus = average(mass, image.levels), average(mass / value, image.levels)[:, :r, :r]
    own = xp.sum((pencil.ends @ plain) * pencil.ends, -1)
    if pencil.lean is not None and bulk.levels is not None and image.levels is not None:
        more = average(mass * value**2, image.levels)
        own = own + 2 * pencil.lean * xp.sum((pencil.ends @ image.z) * pencil.ends, -1)
        own = own + pencil.lean**2 * xp.sum((pencil.ends @ more) * pencil.ends, -1)
    rough = bulk.jitter * xp.sum((u @ average(quadratic, crossing)) * u, -1)
    energy_gap = state.diagonal + own + rough - state.energy
    relative = xp.max(xp.abs(energy_gap) / state.energy, axis=-1)
    rows, columns, times = triangle(r)
    by_matrix = pencil.inverse - pencil.inverse @ minus @ pencil.inverse
    return Equations(
        pencil=pencil,
        image=image,
        crossing=crossing,
        inner=minus,
        energy_gap=energy_gap,
        resolvent_gap=image.z - z,
        residual=xp.maximum(relative, relative_gap(image.z, z)),
        force=xp.concatenate([by_matrix[:, rows, columns] * times, pencil.theta], 1),
    )


# To begin with ------------------------------------------------------------------------------------


def overlaps_of(
    system: System, packed: Float[Array, "batch Y"]
) -> tuple[Float[Array, "batch r r"], Float[Array, "batch P"]]:
    """M and D of y = Lambda S. Rows of B that are not used get a unit diagonal and stay apart."""
    idle = system.bulk.idle
    size = idle.shape[-1]
    matrix, diagonal = unpack(packed, size)
    return matrix + idle[:, :, None] * np.eye(size), diagonal + system.ridge[:, None]


def start(system: System) -> State:
    """Above the solution: S = omega."""
    xp = library_of(system.ridge).xp
    packed = xp.sum(system.overlap_map * system.omega, -1)
    return above(system, *overlaps_of(system, packed))


def above(
    system: System, overlaps: Float[Array, "batch r r"], diagonal: Float[Array, "batch P"]
) -> State:
    """Above the solution at these overlaps: E from the trivial bound on the resolvent."""
    xp = library_of(diagonal).xp
    u = system.bulk.coordinates
    energy = diagonal + system.variance * xp.sum((u @ overlaps) * u, -1)
    return State(overlaps, diagonal, energy, first_resolvent(system.bulk, overlaps, energy))


def first_resolvent(
    bulk: Bulk, overlaps: Float[Array, "batch r r"], energy: Float[Array, "batch P"]
) -> Float[Array, "batch n n"]:
    """Z to begin with at given overlaps and energies.

    Without the data's fluctuations for one block (an upper bound), with M_data replaced by its
    first two moments for two.
    """
    lib = library_of(energy)
    xp = lib.xp
    pencil = Pencil.of(bulk, overlaps, energy)
    if bulk.levels is not None:
        return _first_on_levels(bulk, pencil, bulk.levels)
    if pencil.moments is None:
        return lib.linalg.inv(pencil.base)
    r, weights = overlaps.shape[-1], bulk.label_weights[:, 0]
    alpha0 = bulk.alpha0[:, None, None]
    first = xp.sum(weights * bulk.labels, -1)[:, None, None]
    second = xp.sum(weights * bulk.labels**2, -1)[:, None, None] / alpha0
    kernel = average(weights, pencil.kernels)[:, :r, :r]
    a0, a1 = pencil.moments[:, :r, :r], pencil.moments[:, :r, r:]
    shifted = a0 + first * (a1 + flip(a1)) + (first**2 + second) * pencil.moments[:, r:, r:]
    z11 = lib.linalg.inv(pencil.base + kernel + shifted)
    return block_matrix(z11, first * z11, first * z11, (first**2 + second) * z11)


def _first_on_levels(bulk: Bulk, pencil: Pencil, levels: Levels) -> Float[Array, "batch n n"]:
    """The same on the levels: M_data is about mh_1 Omega there, of second moment M_2."""
    lib = library_of(pencil.theta)
    xp, r = lib.xp, pencil.inverse.shape[-1]
    value, weights = levels.value[:, :, None, None], bulk.label_weights[:, 0]
    size, alpha0 = levels.mass * levels.value, bulk.alpha0[:, None, None, None]
    if pencil.moments is None:
        none = xp.zeros_like(pencil.inverse)
        return average(size, pencil.on_levels(none, levels))
    m1 = xp.sum(weights * bulk.labels, -1)[:, None, None, None] * value
    m2 = m1**2 + xp.sum(weights * bulk.labels**2, -1)[:, None, None, None] / alpha0 * value
    kernel = average(weights, pencil.kernels)[:, None, :r, :r]
    a0, a1 = pencil.moments[:, None, :r, :r], pencil.moments[:, None, :r, r:]
    rows = a0 + m1 * (a1 + flip(a1)) + m2 * pencil.moments[:, None, r:, r:]
    system = pencil.inverse[:, None] + value * (rows + value * kernel)
    z11 = value * lib.linalg.inv(system)
    return average(size, block_matrix(z11, m1 * z11, m1 * z11, m2 * z11))


class _Settling(NamedTuple):
    z: Float[Array, "batch n n"]
    image: Float[Array, "batch n n"]  # what (g) makes of it
    is_far: Bool[Array, " batch"]
    steps: int


def settle(bulk: Bulk, state: State) -> State:
    """Z brought near its equation at fixed overlaps and energies.

    Newton's method is then safe far from the solution. One block: plain iteration, monotone from
    above. Two blocks: damped iteration.
    """
    lib = library_of(state.energy)
    xp, pencil = lib.xp, Pencil.of(bulk, state.overlaps, state.energy)

    def look(z: Float[Array, "batch n n"], steps: int) -> _Settling:
        image = resolvent_map(bulk, pencil, z).z
        return _Settling(z, image, ~(relative_gap(image, z) < SETTLED), steps)

    def going(at: _Settling) -> Bool[Array, ""]:
        return xp.any(at.is_far) & (at.steps < MOST_SETTLING)

    def move(at: _Settling) -> _Settling:
        better = at.image if bulk.tilt is None else (at.z + at.image) / 2
        return look(xp.where(at.is_far[:, None, None], better, at.z), at.steps + 1)

    return state._replace(resolvent=lib.loop(going, move, look(state.resolvent, 0)).z)


def packed_overlaps(system: System, state: State) -> Float[Array, "batch Y"]:
    """y = (vech M, D - ridge) of a state."""
    size = state.overlaps.shape[-1]
    rows, columns, _ = triangle(size)
    inside = state.overlaps - system.bulk.idle[:, :, None] * np.eye(size)
    plain = state.diagonal - system.ridge[:, None]
    return library_of(plain).xp.concatenate([inside[:, rows, columns], plain], 1)
