"""What the gradient step does to the neurons. Every constant of the step is computed here.

A neuron of readout value at moves by etat at [c1 v + g(w)], etat = eta/sqrt N. Write a = etat at,
yhat for the residual label, mh_j = E yhat^j, M = X0^T diag(yhat) X0/n0,
S' = X0^T diag(yhat^2) X0/n0, X[f] = sum_nu f(yhat_nu) x_nu/n0 (so v = X[yhat]). Then

    |v|^2 = E[G yhat]^2 + mh_2/alpha0,   gamma = E[G yhat]/|v|,   rho = sqrt(mh_2/alpha0)/|v|

Along vh = v/|v| the neuron has u = a c1 |v|; its remaining part has covariance C/d with

    C = (1 + e M)^2 + chi S',   e = a c2,   chi = a^2 tau'/alpha0
    c = tr C/d = 1 + 2 e mh_1 + e^2 (mh_1^2 + mh_2/alpha0) + chi mh_2.

Own output. The step is taken on y - f, f(x) = (1/N) sum_j at_j s(<w_j, x>) the network before it,
and E[f(x) x] = (c1/N) U, U = sum_j at_j w_j. Write w_j = at_j U/(N A) + (a part independent of U),
A = E at^2. Along the readout the rows then have, after the step, at times

    etat c1 (v + (b/N) U),   b = (Lbar - q A)/(etat c1 A),   q = etat c1^2 l''
    Lbar = sum_p pi_p at_p^2 (1 + e_p mh_1)/A

and nothing else (l'' is the curvature of the step's loss, 1 for the square): at finite d the spike
is along v + (b/N) U, of squared length |v|^2 + eps^2 with
eps^2 = b^2 A/N, and U knows nothing of v or theta:

    gamma = E[G yhat]/sqrt(|v|^2 + eps^2),   rho = sqrt((mh_2/alpha0 + eps^2)/(|v|^2 + eps^2)).

Inputs N(0, Omega), with O_k, T_k and the traces of ``medium``. What the fit sees of a vector is
its length |v|_Omega^2 = v^T Omega v, and kappa = <x, v>/|v|_Omega:

    |v|_Omega^2 = E[G yhat]^2 T_2 + mh_2 O_2/alpha0,   gamma = E[G yhat] T_1/|v|_Omega
    u = a c1 |v|_Omega,   c = tr Omega C/d
      = 1 + 2 e mh_1 O_2 + e^2 (mh_1^2 O_3 + mh_2 O_2/alpha0) + chi mh_2 O_2

and along U the rows have b(Omega) U, b(varpi) = (1 + varpi (etat c2 mh_1 E at^3/A - q A))/(etat c1
A), so that eps^2 = (A/N) <varpi b(varpi)^2>. Omega = 1 gives the formulas above.

A change of these formulas is made in this file alone. (The simulator's spiked model has its own
copy in simulation/weights, so that its agreement with the theory is evidence.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firststep.activations import Activation
from firststep.numerics.library import library_of
from firststep.problem import Problem
from firststep.structure import Structure, structure_of, without_structure
from firststep.theory.medium import ISOTROPIC, Medium
from firststep.theory.norms import norms_in_medium
from firststep.theory.student import SlopeConstants
from firststep.theory.teacher import TermSum

if TYPE_CHECKING:
    from firststep.typing import Array, Float


class Residual(NamedTuple):
    """Moments of the residual label yhat = s*(G) + noise eps - offset, offset = E[at] c0."""

    along: Float[Array, " batch"] | float  # E[G yhat]
    first: Float[Array, " batch"] | float  # mh_1
    second: Float[Array, " batch"] | float  # mh_2


def refuse_other_losses(problem: Problem, *, terms: bool = False) -> None:
    """The equations here are those of ridge regression on real labels with Gaussian noise.

    ``terms``: they know a teacher of several directions.
    """
    hint = "predict(...) or simulate(...) may have it"
    known = problem.replace(teacher_terms=()) if terms and problem.teacher_terms else problem
    known.refuse_beyond_plain("left at its default here", hint)


def spectrum_alone(problem: Problem) -> Structure | None:
    """The spectrum of the inputs of a problem that has nothing else beyond the plain question."""
    structure = structure_of(problem)  # refuses inputs that are no N(0, Omega)
    refuse_other_losses(without_structure(problem))
    return structure


def residual_of(
    teacher: Activation | TermSum, offset: float, noise: Float[Array, " batch"] | float
) -> Residual:
    """The moments, from those of the teacher. mh_2 is a sum of squares: nothing cancels.

    Of several terms ``along`` is |c*|, the linear part along its own direction.
    """
    moments = teacher.moments
    first = moments.mean - offset
    second = moments.linear**2 + moments.nonlinear_variance + first**2 + noise**2
    return Residual(along=moments.linear, first=first, second=second)


def gradient_square(
    residual: Residual, alpha0: Float[Array, " batch"] | float, medium: Medium = ISOTROPIC
) -> Float[Array, " batch"] | float:
    """|v|_Omega^2; |v|^2 where Omega = 1."""
    return residual.along**2 * medium.t[2] + residual.second * medium.o[2] / alpha0


def plain_gradient_square(
    residual: Residual, alpha0: Float[Array, " batch"], medium: Medium
) -> Float[Array, " batch"]:
    """|v|^2, whatever Omega is."""
    return residual.along**2 * medium.t[1] + residual.second / alpha0


class OwnOutput(NamedTuple):
    """What the output of the network before its step is made of, at finite d."""

    width: Float[Array, " batch"]  # N
    readout_square: float  # A = E at^2
    readout_cube: float  # E at^3
    curvature: float = 1.0  # l'' of the loss of the step, where the network is before it

    def squared_shift(
        self,
        student: SlopeConstants,
        first: Float[Array, " batch"] | float,
        rate: Float[Array, " batch"],
        medium: Medium = ISOTROPIC,
    ) -> Float[Array, " batch"]:
        """eps^2 with mh_1 = ``first``; 0 for a student without E s'."""
        if student.c1 == 0:
            return 0 * rate
        square = self.readout_square
        lift = rate * student.c2 * first * self.readout_cube / square  # Lbar - 1
        pull = rate * student.c1**2 * self.curvature * square  # q A
        if medium is ISOTROPIC:
            shift = (1 + lift - pull) / (rate * student.c1 * square)  # b
            return shift**2 * square / self.width
        tilt, size = lift - pull, rate * student.c1 * square
        mean = 1 + 2 * tilt * medium.o[2] + tilt**2 * medium.o[3]
        return mean / size**2 * square / self.width

    def shift_on_levels(
        self,
        student: SlopeConstants,
        first: Float[Array, " batch"],
        rate: Float[Array, " batch"],
        medium: Medium,
    ) -> Float[Array, "batch s"]:
        """(A/N) b(varpi)^2 on the levels."""
        levels, rate = library_of(rate).xp.asarray(medium.levels), rate[:, None]
        if student.c1 == 0:
            return 0 * rate * levels
        square = self.readout_square
        lift = rate * student.c2 * first[:, None] * self.readout_cube / square
        tilt = lift - rate * student.c1**2 * self.curvature * square
        shift = (1 + tilt * levels) / (rate * student.c1 * square)
        return shift**2 * square / self.width[:, None]


class StepDirection(NamedTuple):
    """Length and direction of the spike: v, and at finite d the own output's part with it."""

    length: Float[Array, " batch"]  # |v|, or sqrt(|v|^2 + eps^2)
    alignment: Float[Array, " batch"]  # gamma = theta . vh
    misalignment: Float[Array, " batch"]  # rho = sqrt(1 - gamma^2), without its cancellation

    @classmethod
    def of(
        cls,
        residual: Residual,
        alpha0: Float[Array, " batch"],
        shift: Float[Array, " batch"] | float = 0.0,
        medium: Medium = ISOTROPIC,
    ) -> StepDirection:
        """With eps^2 = ``shift``.

        Where all residual labels are zero any direction will do: |v| = rho = 1, gamma = 0.
        """
        xp = library_of(residual.second).xp
        turned = residual.along**2 * max(medium.t[2] - medium.t[1] ** 2, 0.0)
        across = residual.second * medium.o[2] / alpha0 + turned + shift
        square = gradient_square(residual, alpha0, medium) + shift
        silent = square <= 0
        norm = xp.sqrt(xp.where(silent, 1.0, square))
        gamma = residual.along * medium.t[1] / norm
        return cls(norm, gamma, xp.sqrt(xp.where(silent, 1.0, across)) / norm)


class StepConstants(NamedTuple):
    """What the step adds to a neuron, by powers of its readout value at."""

    direction: StepDirection
    spike: Float[Array, " batch"]  # r = etat c1 times the length: u = r at
    tilt: Float[Array, " batch"]  # etat c2: e = tilt at
    jitter: Float[Array, " batch"]  # etat^2 tau'/alpha0: chi = jitter at^2
    by_readout: Float[Array, " batch"]  # c = 1 + by_readout at + by_square at^2
    by_square: Float[Array, " batch"]

    @classmethod
    def of(
        cls,
        student: SlopeConstants,
        residual: Residual,
        alpha0: Float[Array, " batch"],
        rate: Float[Array, " batch"],
        own: OwnOutput | None = None,
        medium: Medium = ISOTROPIC,
    ) -> StepConstants:
        """The constants at etat = ``rate``."""
        shift = 0.0 if own is None else own.squared_shift(student, residual.first, rate, medium)
        direction = StepDirection.of(residual, alpha0, shift, medium)
        tilt, jitter = rate * student.c2, rate**2 * student.tau / alpha0
        _, _, o2, o3, *_ = medium.o
        second = residual.first**2 * o3 + residual.second * o2 / alpha0  # tr Omega M^2/d
        return cls(
            direction=direction,
            spike=rate * student.c1 * direction.length,
            tilt=tilt,
            jitter=jitter,
            by_readout=2 * tilt * residual.first * o2,
            by_square=tilt**2 * second + jitter * residual.second * o2,
        )

    def variance(
        self, readout: Float[Array, "*shape"] | float, square: Float[Array, "*shape"] | float
    ) -> Float[Array, "*shape"]:
        """c of a readout value and its square, or its mean over the two moments of a law."""
        return 1 + self.by_readout * readout + self.by_square * square


class StepLaw(NamedTuple):
    """The step on the nodes. P: readout values; axes of length 3: the powers 1, 2, 3 of yhat."""

    direction: StepDirection
    spike: Float[Array, "batch P"]  # u
    tilt: Float[Array, "batch P"]  # e
    jitter: Float[Array, "batch P"]  # chi
    variance: Float[Array, "batch P"]  # c
    variance_by_norm: Float[Array, "batch P"]  # dc/dQ, Q = |w|^2
    spike_by_norm: Float[Array, "batch P"]  # du/dQ
    norm_variance: Float[Array, "batch P"]  # nu = d Var(|r|^2 given |w|) of chaos order >= 2
    linear_chaos: Float[Array, "batch P 3"]  # h_j: |r|^2 has the part w . sum_j h_j X[yhat^j]
    # k_j: Cov of the row and the rest is sum_j k_j X[yhat^j]
    higher_chaos: Float[Array, "batch P 3"]
    vector_products: Float[Array, "batch 3 3"]  # X[yhat^i] . X[yhat^j]
    # phi = (1 + e mh_1)^2/c: the share of a row that is the old row; <varpi (1 + e mh_1 varpi)^2>/c
    kept: Float[Array, "batch P"]
    # eps^2, or (A/N) b^2 on the levels of Omega, where the own output counts
    own_shift: Float[Array, " batch"] | Float[Array, "batch s"] | None


def step_law(
    student: SlopeConstants,
    labels: Float[Array, "batch J"],
    label_weights: Float[Array, "batch 3 J"],
    *,
    alpha0: Float[Array, " batch"],
    rate: Float[Array, " batch"],
    readout: Float[Array, "batch P"],
    own: OwnOutput | None = None,
    medium: Medium = ISOTROPIC,
    on_sphere: bool = False,
    beside: Float[Array, "batch more J"] | None = None,
) -> StepLaw:
    """The step on the nodes of the label rule and of the readout, at etat = ``rate``.

    X[yhat^i] . X[yhat^j] = E yhat^(i+j)/alpha0 + T_1 sum_a E[G_a yhat^i] E[G_a yhat^j].
    ``on_sphere``: whether |w| = 1. ``beside``: the weights of E[G_a f(yhat)], a >= 2, of a teacher
    of several directions.
    """
    xp = library_of(labels).xp
    powers = [labels**j for j in range(7)]
    moment = [xp.sum(label_weights[:, 0] * each, -1) for each in powers]  # mh_j
    along = xp.stack([xp.sum(label_weights[:, 1] * powers[j], -1) for j in (1, 2, 3)], -1)
    gram = xp.stack([xp.stack([moment[i + j] for j in (1, 2, 3)], -1) for i in (1, 2, 3)], -2)
    shared = along[:, :, None] * along[:, None, :] * medium.t[1]
    if beside is not None:
        others = xp.stack([xp.sum(beside * powers[j][:, None], -1) for j in (1, 2, 3)], -1)
        shared = shared + others.swapaxes(-1, -2) @ others
    products = gram / alpha0[:, None, None] + shared
    residual = Residual(along=along[:, 0], first=moment[1], second=moment[2])
    constants = StepConstants.of(student, residual, alpha0, rate, own, medium=medium)
    size = xp.sqrt(gradient_square(residual, alpha0, medium))[:, None]
    by_value = StepConstants(constants.direction, *(each[:, None] for each in constants[1:]))
    a = rate[:, None] * readout
    tilt, jitter = by_value.tilt * readout, by_value.jitter * readout**2
    alpha0 = alpha0[:, None]
    m1, m2, m3, m4 = (each[:, None] for each in moment[1:5])
    step, moments, (_, _, o2, o3, *_) = (a, tilt, jitter), (m1, m2, m3, m4), medium.o
    if medium is ISOTROPIC:
        by_norm, norm_variance = _norm_fluctuations(student, step, moments, alpha0)
    else:
        by_norm, norm_variance = norms_in_medium(
            student, step, moments, alpha0, medium=medium, on_sphere=on_sphere
        )
    lift, zero = o2 + tilt * m1 * o3, xp.zeros_like(a)  # L
    c2, c3, r1 = student.c2, student.c3, student.r1
    k3 = a**3 / alpha0**2 * o2 * student.cubic_fluctuation
    h = [2 * a * c3 * lift, a**2 / alpha0 * o2 * (2 * c2 * c3 + r1), zero]
    k = [zero, 2 * a / alpha0 * lift * (tilt * c3 + a * r1), k3]
    variance = by_value.variance(readout, readout**2)
    return StepLaw(
        direction=constants.direction,
        spike=by_value.spike * readout,
        tilt=tilt,
        jitter=jitter,
        variance=variance,
        variance_by_norm=by_norm,
        spike_by_norm=a * size * c3 / 2,
        norm_variance=norm_variance,
        linear_chaos=xp.stack(h, -1),
        higher_chaos=xp.stack(k, -1),
        vector_products=products,
        kept=xp.minimum(_kept(tilt * m1, medium) / variance, 1.0),
        own_shift=None if own is None else _own_shift(own, student, moment[1], rate, medium),
    )


def _kept(lift: Float[Array, "batch P"], medium: Medium) -> Float[Array, "batch P"]:
    """<varpi (1 + e mh_1 varpi)^2>."""
    if medium is ISOTROPIC:
        return (1 + lift) ** 2
    return 1 + 2 * lift * medium.o[2] + lift**2 * medium.o[3]


def _own_shift(
    own: OwnOutput,
    student: SlopeConstants,
    first: Float[Array, " batch"],
    rate: Float[Array, " batch"],
    medium: Medium,
) -> Float[Array, " batch"] | Float[Array, "batch s"]:
    """eps^2, or on the levels of Omega (A/N) b(varpi)^2."""
    if medium is ISOTROPIC:
        return own.squared_shift(student, first, rate)
    return own.shift_on_levels(student, first, rate, medium)


class DataTraces(NamedTuple):
    """Normalised traces of words in M and S'; m: M, s: S'."""

    m: Float[Array, "batch 1"]
    m2: Float[Array, "batch 1"]
    m3: Float[Array, "batch 1"]
    m4: Float[Array, "batch 1"]
    s: Float[Array, "batch 1"]
    sm: Float[Array, "batch 1"]
    smm: Float[Array, "batch 1"]
    ss: Float[Array, "batch 1"]

    def of_square(
        self,
        by_data: Float[Array, "batch P"],
        by_square: Float[Array, "batch P"],
        by_jitter: Float[Array, "batch P"],
    ) -> Float[Array, "batch P"]:
        """tr A^2/d of A = 1 + b M + f M^2 + g S'."""
        b, f, g = by_data, by_square, by_jitter
        square = 1 + 2 * b * self.m + (b**2 + 2 * f) * self.m2 + 2 * b * f * self.m3
        square = square + f**2 * self.m4 + 2 * g * (self.s + b * self.sm + f * self.smm)
        return square + g**2 * self.ss


def data_traces(
    moments: tuple[Float[Array, "batch 1"], ...], alpha0: Float[Array, "batch 1"]
) -> DataTraces:
    """From mh_1 to mh_4, by free cumulants: a word of l letters M -> yhat, S' -> yhat^2 has the
    cumulant E[product]/alpha0^(l-1).
    """
    m1, m2, m3, m4 = moments
    k2, k3, k4 = m2 / alpha0, m3 / alpha0**2, m4 / alpha0**3
    return DataTraces(
        m=m1,
        m2=k2 + m1**2,
        m3=k3 + 3 * k2 * m1 + m1**3,
        m4=k4 + 4 * k3 * m1 + 2 * k2**2 + 6 * k2 * m1**2 + m1**4,
        s=m2,
        sm=m3 / alpha0 + m2 * m1,
        smm=m4 / alpha0**2 + 2 * m3 * m1 / alpha0 + m2**2 / alpha0 + m2 * m1**2,
        ss=m4 / alpha0 + m2**2,
    )


def _norm_fluctuations(
    student: SlopeConstants,
    step: tuple[Float[Array, "batch P"], Float[Array, "batch P"], Float[Array, "batch P"]],
    moments: tuple[Float[Array, "batch 1"], ...],
    alpha0: Float[Array, "batch 1"],
) -> tuple[Float[Array, "batch P"], Float[Array, "batch P"]]:
    """dc/dQ = tr A/d and nu, where A is the quadratic form of w in |r|^2:

    A  = 1 + (2 e + beta1) M + e^2 M^2 + beta2 S',  beta1 = 2 a b2 L,  L = 1 + e mh_1
    nu = 2 [tr A^2/d - (tr A/d)^2] + own/alpha0 + 4 e^2 chi mh_2^2/alpha0 + 2 chi^2 mh_2^2
    beta2 = (2 a b2 e + a^2 r2)/alpha0
    """
    (a, e, chi), (m1, m2, m3, m4) = step, moments
    b2, (c11, c12, c22) = student.b2, student.covariances
    lift = 1 + e * m1
    beta1 = 2 * a * b2 * lift
    beta2 = (2 * a * b2 * e + a**2 * student.r2) / alpha0
    traces = data_traces(moments, alpha0)
    b, f = 2 * e + beta1, e**2
    trace = 1 + b * m1 + f * traces.m2 + beta2 * m2
    square = traces.of_square(b, f, beta2)
    own = (
        4 * a**2 * (lift**2 * m2 + 2 * lift * e * m3 / alpha0 + (e / alpha0) ** 2 * m4) * c11
        + 4 * a**3 / alpha0 * (lift * m3 + e * m4 / alpha0) * c12
        + a**4 * m4 / alpha0**2 * c22
    )
    rest = 4 * e**2 * chi * m2**2 / alpha0 + 2 * chi**2 * m2**2
    return trace, 2 * (square - trace**2) + own / alpha0 + rest
