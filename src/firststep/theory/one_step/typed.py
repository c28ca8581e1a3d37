"""Typed neurons: what neurons see of a few leading directions, where a spectrum is steep.

Of an odd student, one readout value and inputs N(0, Omega) of finite d, each neuron has two numbers
of its own: g = w.v of variance V_g = |v|^2/d, and the fluctuation of its u. The step moves its row
by eps g Omega w, eps = a c3, so that rows of the same g have C = (1 + eps g Omega)^2 + chi S'. With

    nu_k = v^T Omega^k v = c1*^2 T_(k+1) + mh_2 O_(k+1)/alpha0 [+ <(A/N) b^2 varpi^k>, k > 0]
    V_w = nu_2/nu_1,   V_2 = nu_3/nu_1,   V_3 = nu_4/nu_1,   V_n = chi v^T Omega S' Omega v/nu_1
    v^T Omega S' Omega v = E[yhat^2 (yhat O_2/alpha0 + G c1* T_2)^2] + mh_2 (nu_3 - (c1* T_2)^2)
    V = V_w + V_n + eps^2 (V_g V_3 + nu_1 V_w^2/d),   r the correlation of g and u

the types are the nodes of a product Gauss-Hermite rule (z1, z2) with

    g = sqrt V_g z1,   x = r z1 + sqrt(1 - r^2) z2,   y = z2/sqrt(1 - r^2)
    u = a c1 |v| + eps |v| V_w/d + sqrt(V/d) x
    c = 1 + chi mh_2 O_2 + 2 eps g O_2 + (eps g)^2 O_3 - (V_w + V_n + 2 eps g V_2 + (eps g)^2 V_3)/d

in the place of readout values. The mean row of a type lies along one direction b. With

    K_e = sum_p Theta_p (V_w + V_n + 2 eps g_p V_2 + (eps g_p)^2 V_3)/V U_p U_p^T
    dK = sum_p Theta_p (y_p^2 - 1/(1 - r^2)) U_p U_p^T,   Y = sqrt d sum_p Theta_p y_p mu0_p U_p

it takes the place of kappa B in C (``mean``), and what is made of F, X and T is, with F = (F_vv,
F_vc; ., F_cc), X and X_c their parts along v and along the norms,

    G0 = K_e^-1 (V K_e - F_vv) K_e^-1/V,   A = (1 + dK G0)^-1,   S = A dK
    F  -> ( -G0 A   A^T K_e^-1 F_vc/sqrt V                  )
          (   .     F_cc + F_cv K_e^-1 S K_e^-1 F_vc/V      )
    X  -> A^T K_e^-1 X/sqrt V,   X_c -> X_c + F_cv K_e^-1 S K_e^-1 X/V
    T  -> T + X^T K_e^-1 S K_e^-1 X/V

For one value and to first order in the spreads it is what ``mean`` has. J is that of ``risk`` with
b_v replaced by beta, and more terms in Theta: with s = Y g and zeta = -(F (s; t) + X b_z)_1,

    beta = K_e^-1 (s - dK zeta)/sqrt V
    dJ = ... + V beta^T (-dK_e) beta + 2 sqrt V zeta^T dK_e beta + zeta^T d(dK) zeta - 2 zeta^T ds

What types are to each other along b adds (y_p^2 - 1/(1 - r^2)) U_p^T G_bb U_p/d to E_p: it moves no
risk by more than 1.5e-4, and is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.numerics.library import library_of
from firststep.numerics.linear_algebra import block_matrix
from firststep.theory.loss_numbers import has_other_loss
from firststep.theory.medium import ISOTROPIC, Medium
from firststep.theory.one_step.system import Bulk, Mean, Types, apply, flip
from firststep.theory.step import StepLaw

if TYPE_CHECKING:
    from firststep.problem import Problem
    from firststep.theory.one_step.question import Model
    from firststep.theory.student import SlopeConstants
    from firststep.typing import Array, Float

# The word for the equations of a point, and what ``predict`` may be asked for.
TYPED, PLAIN, AUTO = "typed", "plain", "auto"
NEURONS = (AUTO, PLAIN)
# varpi_max^2/d beyond which neurons are typed. Risks move there by less than half of the error that
# is stated of them at d = 1500, 0.5 %, and by tens of per cent on the steepest spectra.
STEEP = 0.05
NODES = 5  # of each of z1 and z2: the risk to 1e-5; 4 give it to 1e-4, 3 to 4e-4
# Of the basis of mu1, wider than that of other problems: K_e is inverted, and at 1e-6 it is lost in
# rounding. The risk is that of a tenth of it to 1e-5, 1e-4 at the longest steps.
TYPED_CUT = 1e-4
_NEAREST = 1 - 1e-9  # of r to one


def typed_model(model: Model, problem: Problem) -> Model:
    """The model with typed neurons where they are known and needed, or as it is."""
    known = model.constants.is_odd and model.constants.c1 != 0 and model.several is None
    known = known and model.has_own_output and model.labels is None and not has_other_loss(problem)
    known = known and model.medium is not ISOTROPIC
    alike = len({abs(value) for value in problem.readout.values}) == 1
    largest = max(model.medium.levels)
    if not known or not alike or largest**2 <= STEEP * problem.dimension:
        return model
    return model._replace(is_typed=True, medium=model.medium.on_levels())


def type_nodes() -> tuple[Float[Array, " P"], Float[Array, " P"], Float[Array, " P"]]:
    """z1, z2 and masses."""
    z, w = np.polynomial.hermite_e.hermegauss(NODES)
    w = w / w.sum()
    one, two = np.meshgrid(z, z, indexing="ij")
    return one.ravel(), two.ravel(), (w[:, None] * w).ravel()


class StepNodes(NamedTuple):
    """What of the step's nodes the types need."""

    labels: Float[Array, "batch J"]
    weights: Float[Array, "batch 3 J"]
    alpha0: Float[Array, " batch"]
    rate: Float[Array, "batch P"]  # a: of all neurons alike
    dimension: Float[Array, " batch"]


def typed_law(
    law: StepLaw, student: SlopeConstants, step: StepNodes, medium: Medium
) -> tuple[StepLaw, Types]:
    """The step of neurons of one value, given on P equal ones, as that of P types."""
    xp = library_of(law.spike).xp
    y, w, d, alpha0 = step.labels, step.weights, step.dimension, step.alpha0
    (_, _, o2, o3, *_), t, (z1, z2, _) = medium.o, medium.t, type_nodes()

    def moment(a: int, power: int) -> Float[Array, " batch"]:
        return xp.sum(w[:, a] * y**power, -1)

    along, second = moment(1, 1), moment(0, 2)
    levels, masses = np.array(medium.levels), np.array(medium.masses)
    own = 0 * law.spike[:, :1] if law.own_shift is None else law.own_shift * masses
    nu = [along**2 * t[k + 1] + second / alpha0 * medium.o[k + 1] for k in range(5)]
    whole = [nu[k] + xp.sum(own * levels**k, -1) for k in range(5)]
    size = whole[1]
    v_w, v_2, v_3 = (each / size for each in whole[2:])
    lifted = along * t[2]
    words = moment(0, 4) * (o2 / alpha0) ** 2 + 2 * moment(1, 3) * o2 / alpha0 * lifted
    words = words + moment(2, 2) * lifted**2 + second * (whole[3] - lifted**2)
    v_wn = v_w + law.jitter[:, 0] * words / size
    epsilon = step.rate[:, 0] * student.c3
    v_g = nu[0] / d
    spread = v_wn + epsilon**2 * (v_g * v_3 + size * v_w**2 / d)
    slant = xp.minimum(nu[1] / xp.sqrt(size * spread * nu[0]), _NEAREST)[:, None]
    across = xp.sqrt(1 - slant**2)
    lean, d = (epsilon * xp.sqrt(v_g))[:, None] * z1, d[:, None]
    shares = v_wn[:, None] + 2 * lean * v_2[:, None] + lean**2 * v_3[:, None]
    shift = (epsilon * xp.sqrt(size) * v_w)[:, None] / d
    moved = xp.sqrt(spread[:, None] / d) * (slant * z1 + across * z2)
    variance = law.variance + 2 * lean * o2 + lean**2 * o3 - shares / d
    pull = z2 / across
    types = Types(
        lean=lean,
        pull=pull,
        excess=pull**2 - 1 / across**2,
        share=shares / spread[:, None],
        spread=spread,
    )
    typed = law._replace(
        spike=law.spike + shift + moved, variance=variance, linear_chaos=0 * law.linear_chaos
    )
    return typed, types


class TypedRows(NamedTuple):
    """The matrices of the types at a state."""

    inner: Float[Array, "batch r r"]  # K_e^-1
    excess: Float[Array, "batch r r"]  # dK
    root: Float[Array, "batch 1 1"]  # sqrt V
    forms: tuple[
        Float[Array, "batch m m"], Float[Array, "batch m r"], Float[Array, "batch r r"]
    ]  # F, (X; X_c) and T

    @classmethod
    def of(
        cls,
        bulk: Bulk,
        types: Types,
        theta: Float[Array, "batch P"],
        plain: tuple[
            Float[Array, "batch m m"], Float[Array, "batch m r"], Float[Array, "batch r r"]
        ],
    ) -> TypedRows:
        """What is made of the plain F, (X; X_c) and T."""
        lib = library_of(theta)
        inv, u = lib.linalg.inv, bulk.coordinates
        rows, cross, across = plain
        r = u.shape[-1]
        k_e = flip(u) @ (u * (theta * types.share)[..., None])
        inner, excess = inv(k_e), flip(u) @ (u * (theta * types.excess)[..., None])
        spread = types.spread[:, None, None]
        root = lib.xp.sqrt(spread)
        g0 = inner @ (spread * k_e - rows[:, :r, :r]) @ inner / spread
        left = inv(np.eye(r) + excess @ g0)  # A
        along = flip(left) @ inner / root
        middle = inner @ left @ excess @ inner / spread
        middle, gbb = (middle + flip(middle)) / 2, g0 @ left
        mixed, beside = rows[:, :r, r:], cross[:, :r]
        new_rows = -(gbb + flip(gbb)) / 2
        new_cross = along @ beside
        if rows.shape[-1] > r:
            norms = rows[:, r:, r:] + flip(mixed) @ middle @ mixed
            turned = along @ mixed
            new_rows = block_matrix(new_rows, turned, flip(turned), norms)
            more = cross[:, r:] + flip(mixed) @ middle @ beside
            new_cross = lib.xp.concatenate([new_cross, more], 1)
        new_across = across + flip(beside) @ middle @ beside
        return cls(inner, excess, root, (new_rows, new_cross, new_across))

    def replaced(
        self, found: Float[Array, "batch m"], across: Float[Array, "batch r"]
    ) -> tuple[Float[Array, "batch r"], Float[Array, "batch r"]]:
        """beta and zeta of found = (s; t) and b_z."""
        rows, cross, _ = self.forms
        r = across.shape[-1]
        zeta = -(apply(rows, found) + apply(cross, across))[:, :r]
        pushed = found[:, :r] - apply(self.excess, zeta)
        return apply(self.inner, pushed) / self.root[:, :, 0], zeta


def type_vectors(
    bulk: Bulk, mean: Mean, theta: Float[Array, "batch P"]
) -> Float[Array, "batch r nodes"]:
    """Y."""
    assert mean.types is not None
    assert mean.dimension is not None
    weights = library_of(theta).xp.sqrt(mean.dimension)[:, None] * theta * mean.types.pull
    return flip(bulk.coordinates * weights[..., None]) @ mean.mean


def by_type(
    bulk: Bulk,
    mean: Mean,
    pair: tuple[Float[Array, "batch r"], Float[Array, "batch r"]],
    g: Float[Array, "batch nodes"],
) -> Float[Array, "batch P"]:
    """The change of J by Theta_p that is not that of ``risk``, of (beta, zeta)."""
    types, d = mean.types, mean.dimension
    assert types is not None
    assert d is not None
    xp = library_of(g).xp
    beta, zeta = (apply(bulk.coordinates, each) for each in pair)
    spread = types.spread[:, None]
    own = types.share * (2 * xp.sqrt(spread) * zeta * beta - spread * beta**2)
    drive = xp.sqrt(d)[:, None] * types.pull * apply(mean.mean, g)
    return own + types.excess * zeta**2 - 2 * zeta * drive
