"""The mean features and what the fit makes of them.

In neuron space the mean feature at kappa is, for neuron i of value p,
mu0[p, k] + kappa mu1[p, k] du_i + mu0'[p, k] dc_i with fluctuations du_i (along vh) and dc_i (of
the squared norm) of order 1/sqrt d; mu0' = d mu0/dc. Their kernel is

    Kmean = d sum_p Theta_p mu0 mu0 + sum_q sum_p Theta_p psi^q psi^q + C^T F C
    C = (kappa B; mu0')

where the psi^q are fluctuations that know nothing of the rows, and F the quadratic form of the
rows' part,

    F = ( G_vv^-1 - M^-1                           G_vv^-1 A_v                              )
        (       .          diag(Theta |X[h_p]|^2) - sum_ij R_i^T Z_ij R_j + A_v^T G_vv^-1 A_v )

Blocks of the resolvent, in the coordinates (1, M_data) of Z, between theta and X[yhat^j],
j = 1, 2, 3 (v = X[yhat]), with F the frame of ``resolvent``, Phi = Z F^T + D, D = diag(0, 1),
x_j = E[G yhat^j], e_b = E yhat^b and q^a_b = sum_l w^a_l y_l^b Q_l:

    Z_tt = Z of (L0 + q^2_0)^-1,   Phi_t = Z_tt F^T + D,   g_t = F Z_tt F^T - diag(0, A2)
    Z_tj = x_j Z_tt - Phi_t q^1_j Phi^T/alpha0
    Z_ij = (e_(i+j) Z - Phi q^0_(i+j) Phi^T/alpha0)/alpha0 + x_i x_j Z_tt
           - (x_i Phi_t q^1_j Phi^T + x_j Phi q^1_i Phi_t^T)/alpha0
           + Phi q^1_i g_t q^1_j Phi^T/alpha0^2
    G_tt = (Z_tt)_11,   G_tv = (Z_t1)_11/|v|,   G_vv = (Z_11)_11/|v|^2
    R_j  = Theta_p (h_pj a_p + k_pj b_p)    [one block: Theta_p (h_pj + k_pj) U_p]
    A_v  = (sum_j Z_1j R_j)_1/|v|,   A_t = (sum_j Z_tj R_j)_1
    X    = (gamma - G_vv^-1 G_vt) M^-1/rho,   X_c = (A_t - G_tv G_vv^-1 A_v)^T M^-1/rho
    T    = M^-1 - M^-1 (G_tt - G_tv G_vv^-1 G_vt) M^-1/rho^2

Inputs N(0, Omega), tau = Omega theta the direction in which a sample knows its label, with the
averages <.>_t over the teacher's part of the spectrum and d = q^2_0 - q^0_0:

    Z0_tt = <Z/varpi>_t,   Z0_ts = <Z>_t,   Z0_ss = <varpi Z>_t            (s stands for tau)
    P0_t = Z0_ts F^T + D,   P0_s = Z0_ss F^T + T_1 D,   g0 = F Z0_ss F^T - T_1 diag(0, A2)
    K = d (1 + g0 d)^-1
    Z_tt = Z0_tt - P0_t K P0_t^T,   Z_ts = Z0_ts - P0_t K P0_s^T,   Z_ss = Z0_ss - P0_s K P0_s^T

and in Z_tj, Z_ij above x_j Z_tt is x_j Z_ts, x_i x_j Z_tt is x_i x_j Z_ss, with Phi_s, g_s of Z_ss,
in Z_ij, and Z = <varpi Z(varpi)>. |v| is |v|_Omega. (Omega = 1: all three are Z_tt above.)

Typed neurons (``typed``): Y in the place of kappa B, and F, X, X_c, T made of those above, which
have Z of the image there: what is left of M^-1 + V K_e - G_vv^-1 is of second order in the rows.

Own output. At finite d the spike is along v + (b/N) U, U = sum_j at_j w_j (``theory.step``), and
|v| above is its length. U knows nothing of the step's data, so that with eps^2 = b^2 A/N

    G_vv = ((Z_11)_11 + eps^2 Z_11block)/|v|^2

(Z_11block the first block of Z; with levels eps^2 Z_11block is <(A/N) b^2 Z_11(varpi)>), G_tv and
A_v see the new length only, and what the rows have along the readout is in the spike: in the first
part of Kmean the noise E_p of the neurons becomes

    diag(E_p) - t t^T,   t_p = at_p sqrt(pi_p phi_p/A) sqrt(E_p - D_p)

with phi_p the share of a trained row that is the old row.

Common mode. All features share the fluctuation of |x|^2 = d + sqrt(2d) xi:
mu0 + sqrt(2/d) c mu0' xi. Where the mean features are no larger than that (small steps, readouts
with a mean, students with E[s He2] != 0) it counts. Then functions of (kappa, xi) that are linear
in xi are kept as a second set of K nodes with the same S, on which the target vanishes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.numerics.library import library_of
from firststep.numerics.linear_algebra import block_matrix
from firststep.theory.one_step.resolvent import Equations, average
from firststep.theory.one_step.system import Bulk, State, System, flip
from firststep.theory.one_step.term_mean import TermForms, forms_of_terms
from firststep.theory.one_step.typed import TypedRows

if TYPE_CHECKING:
    from firststep.typing import Array, Float


class Forms(NamedTuple):
    """The quadratic form F and its companions: what depends on the resolvent, not on the target.

    Of a teacher of m directions those with an index theta are m blocks (``term_mean``).
    """

    rows: Float[Array, "batch m m"]  # F, m = r + P, or r without norm fluctuations
    cross: Float[Array, "batch m r"]  # (X; X_c)
    across: Float[Array, "batch r r"]  # T
    known: Known
    phi: Float[Array, "batch n n"]  # Phi
    solver: Float[Array, "batch r r"]  # G_vv^-1
    to_teacher: Float[Array, "batch r r"]  # G_vt
    # None without norm fluctuations that know of the rows:
    sources: Float[Array, "batch 3 n P"] | None = None  # R_j
    along_v: Float[Array, "batch r P"] | None = None  # A_v
    typed: TypedRows | None = None  # of typed neurons

    @property
    def teacher(self) -> Float[Array, "batch n n"]:
        """Z_tt."""
        return self.known.teacher

    @property
    def phi_teacher(self) -> Float[Array, "batch n n"]:
        """Phi_t."""
        return self.known.phi_teacher


class Known(NamedTuple):
    """The blocks along theta and tau, with what the samples know of tau."""

    teacher: Float[Array, "batch n n"]  # Z_tt
    mixed: Float[Array, "batch n n"]  # Z_ts
    samples: Float[Array, "batch n n"]  # Z_ss
    phi_teacher: Float[Array, "batch n n"]  # Phi_t
    phi_samples: Float[Array, "batch n n"]  # Phi_s
    trace: Float[Array, "batch n n"]  # g_s
    excess: Float[Array, "batch n n"] | None = None  # d, where Omega is not 1


class _Blocks(NamedTuple):
    """Those along theta and tau, Z_tj and Z_ij."""

    known: Known
    to_teacher: dict[int, Float[Array, "batch n n"]]
    between: dict[tuple[int, int], Float[Array, "batch n n"]]


def forms(system: System, state: State, at: Equations) -> Forms:
    """The matrices of the module's docstring at a state."""
    bulk, mean = system.bulk, system.mean
    if bulk.amplitudes is not None:
        return _of_terms(forms_of_terms(system, state, at))
    if mean.types is not None:
        state = state._replace(resolvent=at.image.z)
    r = bulk.basis.shape[1]
    norm, gamma, rho = (v[:, None, None] for v in (mean.length, mean.alignment, mean.misalignment))
    blocks = _blocks(bulk, state, at, (1,) if mean.linear_chaos is None else (1, 2, 3))
    inverse, teacher = at.pencil.inverse, blocks.known.teacher
    gvv = blocks.between[1, 1][:, :r, :r]
    if mean.own_shift is not None:
        gvv = gvv + along_readout(system, state, at)[:, :r, :r]
    gvv = gvv / norm**2
    gtv = blocks.to_teacher[1][:, :r, :r] / norm
    gvt = flip(gtv)
    solver = library_of(gvv).linalg.inv(gvv)
    left = teacher[:, :r, :r] - gtv @ solver @ gvt
    plain = Forms(
        rows=solver - inverse,
        cross=(gamma * np.eye(r) - solver @ gvt) @ inverse / rho,
        across=inverse - inverse @ left @ inverse / rho**2,
        known=blocks.known,
        phi=at.pencil.framed(state.resolvent),
        solver=solver,
        to_teacher=gvt,
    )
    found = plain if mean.linear_chaos is None else _with_norms(system, at, blocks, plain)
    if mean.types is None:
        return found
    parts = found.rows, found.cross, found.across
    typed = TypedRows.of(bulk, mean.types, at.pencil.theta, parts)
    rows, cross, across = typed.forms
    return found._replace(rows=rows, cross=cross, across=across, typed=typed)


def _of_terms(found: TermForms) -> Forms:
    """Of a teacher of several directions; Omega = 1."""
    same = found.teacher, found.teacher, found.teacher, found.phi_teacher, found.phi_teacher
    known = Known(*same, found.trace)
    alone = ("known", "typed")
    others = {name: getattr(found, name) for name in Forms._fields if name not in alone}
    return Forms(known=known, **others)


def along_readout(system: System, state: State, at: Equations) -> Float[Array, "batch n n"]:
    """eps^2 Z; on the levels of Omega <(A/N) b^2 Z(varpi)>."""
    shift, levels = system.mean.own_shift, system.bulk.levels
    assert shift is not None
    if levels is None or at.image.levels is None:
        return shift[:, None, None] * state.resolvent
    return average(levels.mass * shift, at.image.levels)


def _known(bulk: Bulk, at: Equations) -> Known:
    pencil, source, w = at.pencil, at.image.source, bulk.label_weights
    if bulk.levels is None or at.image.levels is None:
        teacher = pencil.invert(average(w[:, 2], source))
        phi, trace = pencil.framed(teacher), pencil.trace(teacher)
        return Known(
            teacher=teacher,
            mixed=teacher,
            samples=teacher,
            phi_teacher=phi,
            phi_samples=phi,
            trace=trace,
        )
    (value, _, share, along, _), z = bulk.levels, at.image.levels
    plain, mixed, samples = (average(f, z) for f in (share / value, share, share * value))
    phi, phi_samples = pencil.framed(mixed), pencil.framed(samples, along)
    trace, excess = pencil.trace(samples, along), average(w[:, 2] - w[:, 0], source)
    n = trace.shape[-1]
    seen = excess @ library_of(trace).linalg.inv(np.eye(n) + trace @ excess)  # K
    left, right = phi @ seen, phi_samples @ seen
    plain = plain - left @ flip(phi)
    mixed = mixed - left @ flip(phi_samples)
    samples = samples - right @ flip(phi_samples)
    return Known(
        teacher=(plain + flip(plain)) / 2,
        mixed=mixed,
        samples=(samples + flip(samples)) / 2,
        phi_teacher=pencil.framed(mixed),
        phi_samples=pencil.framed(samples, along),
        trace=pencil.trace(samples, along),
        excess=excess,
    )


def _blocks(bulk: Bulk, state: State, at: Equations, powers: tuple[int, ...]) -> _Blocks:
    xp = library_of(state.energy).xp
    y, w, alpha0 = bulk.labels, bulk.label_weights, bulk.alpha0[:, None, None]
    z, source, known = state.resolvent, at.image.source, _known(bulk, at)
    phi = at.pencil.framed(z)

    def moment(a: int, power: int) -> Float[Array, "batch 1 1"]:
        return xp.sum(w[:, a] * y**power, -1)[:, None, None]

    # q^1_j Phi^T/alpha0
    linear = {j: average(w[:, 1] * y**j, source) @ flip(phi) / alpha0 for j in powers}
    to_teacher = {j: moment(1, j) * known.mixed - known.phi_teacher @ linear[j] for j in powers}
    between = {}
    for i, j in ((i, j) for i in powers for j in powers if i <= j):
        own = phi @ average(w[:, 0] * y ** (i + j), source) @ flip(phi) / alpha0
        crossed = moment(1, i) * (known.phi_samples @ linear[j])
        other = moment(1, j) * (known.phi_samples @ linear[i])
        shared = moment(1, i) * moment(1, j) * known.samples
        shared = shared + flip(linear[i]) @ known.trace @ linear[j]
        total = (moment(0, i + j) * z - own) / alpha0 + shared - crossed - flip(other)
        between[i, j] = total
        between[j, i] = flip(total)
    return _Blocks(known, to_teacher, between)


def _with_norms(system: System, at: Equations, blocks: _Blocks, plain: Forms) -> Forms:
    """The forms with the fluctuations of the rows' norms that know of the rows."""
    mean, pencil = system.mean, at.pencil
    h, k, products = mean.linear_chaos, mean.higher_chaos, mean.vector_products
    assert h is not None
    xp, r = library_of(h).xp, plain.solver.shape[-1]
    theta = pencil.theta[:, :, None]
    norm, rho = mean.length[:, None, None], mean.misalignment[:, None, None]
    sources = xp.einsum("bpn,bpj->bjnp", pencil.ends, theta * h)
    sources = sources + xp.einsum("bpn,bpj->bjnp", pencil.padded, theta * k)
    own = pencil.theta * xp.einsum("bpi,bij,bpj->bp", h, products, h)
    powers, between = (1, 2, 3), blocks.between
    along_v = sum(between[1, j] @ sources[:, j - 1] for j in powers)[:, :r] / norm
    along_t = sum(blocks.to_teacher[j] @ sources[:, j - 1] for j in powers)[:, :r]
    seen = sum(
        flip(sources[:, i - 1]) @ between[i, j] @ sources[:, j - 1] for i in powers for j in powers
    )
    mixed = plain.solver @ along_v
    norms = own[:, :, None] * np.eye(own.shape[1]) - seen + flip(along_v) @ mixed
    cross = flip(along_t - flip(plain.to_teacher) @ mixed) @ pencil.inverse / rho
    return plain._replace(
        rows=block_matrix(plain.rows, mixed, flip(mixed), norms),
        cross=xp.concatenate([plain.cross, cross], 1),
        sources=sources,
        along_v=along_v,
    )
