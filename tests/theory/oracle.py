"""The equations of the theory, transcribed one by one and solved by plain damped iteration: an
oracle, not a tool.

``exact``      the exact theory in its first form, equations 1-26 with 9a-9i, for ``bulk="exact"``
and ``bulk="isotropic"``;
``isotropic``  the isotropic bulk in its own P x P form (spiked random features: what model
``spiked`` simulates);
``odd_single`` the special case with its scalar transforms (odd student, one |readout value|).

Nothing of ``firststep.theory`` is used. The letters are those of the pages; numbers in comments are
their equation numbers. Every derivative with respect to S is a complex step through a map that is
analytic in all its arguments (no conjugation, no modulus), with one linear solve for the implicit
part. Leading axes are batch axes: B perturbations are evaluated at once.

Choices the pages leave open:
- d infinite is taken analytically: m is the weighted projection on span{mu0[p, .]} plus the rest
(``mean_part``), whose rank is cut
  at ``mean_tolerance`` relative to the size of the features; the N term of J drops out.
- N = beta d and n = alpha d are not rounded at finite d, and eta-tilde = step * N**(step_exponent -
1/2).
- no step (alpha0 = 0 or step = 0): eta-tilde = 0, and v is whatever alpha0 = 1 would give; nothing
depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from firststep.activations import Activation
from firststep.numerics.quadrature import gaussian_expectation
from firststep.problem import Problem

H_STEP = 1e-30  # of the complex step
REACH = 8.5  # of kappa


class Failed(ArithmeticError):
    """The iteration did not converge."""


# Quadrature ---------------------------------------------------------------------------------------


def expectation(function: Callable[[np.ndarray], np.ndarray], kinks: Any = ()) -> np.ndarray:
    return gaussian_expectation(function, kinks).value


def panels(
    shift: np.ndarray,
    scale: np.ndarray,
    kinks: Any,
    width: float = 0.25,
    count: int = 24,
    reach: float = 9.5,
):
    """z and weights (..., nodes) for E f(shift + scale z), Gauss-Legendre panels split at every
    kink; f may be steep.
    """
    unit, unit_weights = np.polynomial.legendre.leggauss(count)
    regular = np.broadcast_to(
        np.arange(-reach, reach + width / 2, width), (*shift.shape, round(2 * reach / width) + 1)
    )
    cuts = [np.clip((kink - shift) / scale, -reach, reach)[..., None] for kink in kinks]
    edges = np.sort(np.concatenate([regular, *cuts], axis=-1), axis=-1)
    half = np.diff(edges, axis=-1)[..., None] / 2
    z = ((edges[..., 1:] + edges[..., :-1])[..., None] / 2 + half * unit).reshape(*shift.shape, -1)
    weights = (
        (half * unit_weights).reshape(*shift.shape, -1)
        * np.exp(-z * z / 2)
        / math.sqrt(2 * math.pi)
    )
    return z, weights


def evaluate(activation: Activation, x: np.ndarray) -> np.ndarray:
    return np.asarray(activation.evaluate(x.ravel())).reshape(x.shape)


def shifted(activation: Activation, shift: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, ...]:
    """E s, E z s, E (s - E s - z E z s)^2, E He2 s, E s^2 at s = s(shift + scale z), row by row to
    save memory.
    """
    out = [np.empty(shift.shape) for _ in range(5)]
    for index in np.ndindex(shift.shape[:-1]):
        z, w = panels(shift[index], scale[index], activation.kinks)
        s = evaluate(activation, shift[index][..., None] + scale[index][..., None] * z)
        zero, one = (w * s).sum(-1), (w * z * s).sum(-1)
        rest = s - zero[..., None] - one[..., None] * z
        for store, value in zip(
            out,
            (zero, one, (w * rest**2).sum(-1), (w * (z * z - 1) * s).sum(-1), (w * s * s).sum(-1)),
            strict=True,
        ):
            store[index] = value
    return tuple(out)


# Eqs. 1-9c: everything that does not depend on S --------------------------------------------------


@dataclass
class Labels:
    """The law of (yhat, G): a fine grid for moments."""

    y: np.ndarray
    G: np.ndarray
    w: np.ndarray

    def mean(self, values: Any) -> float:
        return float((self.w * values).sum())


def label_grid(problem: Problem, shift: float) -> Labels:
    one = np.ones(1)
    G, w = (v[0] for v in panels(0 * one, one, problem.teacher.kinks))
    clean = evaluate(problem.teacher, G) - shift
    if problem.noise == 0:
        return Labels(clean, G, w)
    # Functions of y are analytic: with 20, 32 and 64 nodes risks are the same to the last bit.
    eps, weights = np.polynomial.hermite_e.hermegauss(24)
    y = clean[:, None] + problem.noise * eps
    return Labels(y.ravel(), np.repeat(G, eps.size), (w[:, None] * weights / weights.sum()).ravel())


def block_lanczos(labels: Labels, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """4. Nodes y_j and weights w^a_j, E[G^a f(yhat)] = sum_j w^a_j f(y_j): block Lanczos of
    diag(yhat) from {1, G}.
    """
    root = np.sqrt(labels.w)
    Q, first = np.linalg.qr(np.stack([root, root * labels.G], axis=1))
    blocks = [Q]
    T = np.zeros((2 * steps, 2 * steps))
    for i in range(steps):
        basis = np.concatenate(blocks, axis=1)
        new = labels.y[:, None] * blocks[-1]
        T[: 2 * i + 2, 2 * i : 2 * i + 2] = basis.T @ new
        if i == steps - 1:
            break
        for _ in range(2):
            new = new - basis @ (basis.T @ new)
        Q, upper = np.linalg.qr(new)
        if abs(upper[0, 0] * upper[1, 1]) < 1e-20:
            raise Failed(f"the labels take too few values for {steps} block steps")
        T[2 * i + 2 : 2 * i + 4, 2 * i : 2 * i + 2] = upper
        blocks.append(Q)
    T = (np.tril(T) + np.tril(T, -1).T + np.triu(T) + np.triu(T, 1).T) / 2
    nodes, vectors = np.linalg.eigh(T)
    ends = first.T @ vectors[:2]
    return nodes, np.stack([ends[0] ** 2, ends[0] * ends[1], ends[1] ** 2])


@dataclass
class Setup:
    """Step data (1-3), features (5, 6), fluctuations (7, 8, 9b, 9c) on the nodes."""

    problem: Problem
    kappa: np.ndarray
    om: np.ndarray
    at: np.ndarray
    pi: np.ndarray
    N: float
    n: float
    alpha0: float
    norm_v: float
    gamma: float
    rho: float
    u: np.ndarray
    e: np.ndarray
    chi: np.ndarray
    c: np.ndarray
    mu0: np.ndarray
    mu1: np.ndarray
    mu2: np.ndarray
    mu0c: np.ndarray
    h0: np.ndarray
    h1: np.ndarray
    h2: np.ndarray
    psi1: np.ndarray
    psi2: np.ndarray
    nu: np.ndarray
    slope_u: np.ndarray
    slope_c: np.ndarray
    h: np.ndarray  # (3, P): h_{pj}
    k: np.ndarray
    labels: Labels
    student: dict[str, float]

    @property
    def infinite(self) -> bool:
        return math.isinf(self.N)


def gaussian_readout(count: int, sinh_scale: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Hermite, or the trapezoid in x for at = sinh_scale * sinh(x).

    Functions of c(at) are singular near at = i O(1/etat), where Gauss-Hermite converges like
    exp(-O(sqrt P)); the map puts the nodes where they are needed.
    """
    if sinh_scale is None:
        at, pi = np.polynomial.hermite_e.hermegauss(count)
        return at, pi / pi.sum()
    x = np.linspace(-1, 1, count) * math.asinh(8.5 / sinh_scale)
    at = sinh_scale * np.sinh(x)
    pi = np.cosh(x) * np.exp(-at * at / 2)
    return at, pi / pi.sum()


def setup(
    problem: Problem, kappa_nodes: int, readout_nodes: int, sinh_scale: float | None = None
) -> Setup:
    student = problem.student
    d = problem.dimension
    N, n = problem.beta * d, problem.alpha * d
    if problem.takes_step:
        if math.isinf(d) and problem.step_exponent != 0.5:
            raise Failed("at infinite d only step_exponent 0.5 is covered")
        etat = problem.step * (N ** (problem.step_exponent - 0.5) if math.isfinite(N) else 1.0)
        alpha0 = problem.alpha0
    else:
        etat, alpha0 = 0.0, 1.0

    kappa = np.linspace(-REACH, REACH, kappa_nodes)
    om = np.exp(-kappa * kappa / 2)
    om /= om.sum()
    if problem.readout.is_gaussian:
        at, pi = gaussian_readout(readout_nodes, sinh_scale)
    else:
        at, pi = np.array(problem.readout.values), np.array(problem.readout.weights)

    # 1, 7, 8, 9: moments of the student
    def slopes(z: np.ndarray) -> np.ndarray:
        s, sp = student.evaluate(z), student.evaluate_derivative(z)
        He2, He3 = z * z - 1, z**3 - 3 * z
        return np.stack([s, sp, z * sp, sp * He2, sp * He3])

    c0, c1, c2, c3, c4 = expectation(slopes, student.kinks)

    def rest(z: np.ndarray) -> np.ndarray:
        q = student.evaluate_derivative(z) - c1 - c2 * z
        He2 = z * z - 1
        zq, qq = z * q, q * q
        return np.stack(
            [qq, z * q * He2, qq * He2, z * qq, q * qq]
            + [f * He for f in (zq, qq) for He in (1 + 0 * z, z, He2)]
            + [zq * zq, zq * qq, qq * qq]
        )

    values = expectation(rest, student.kinks)
    taup, b2, r2, r1, s3 = values[0], values[1] / 2, values[2] / 2, values[3], values[4]
    low = values[5:11].reshape(2, 3) / np.array([1, 1, math.sqrt(2)])
    gram = (
        np.array([[values[11], values[12]], [values[12], values[13]]]) - low @ low.T
    )  # (z q, q^2) beyond He2

    # 2
    labels = label_grid(problem, c0 * float(pi @ at))
    m1, m2, m3, m4 = (labels.mean(labels.y**j) for j in (1, 2, 3, 4))
    c1s = labels.mean(labels.G * labels.y)
    norm_v = math.sqrt(c1s**2 + m2 / alpha0)
    gamma = c1s / norm_v
    rho = math.sqrt(m2 / alpha0) / norm_v  # sqrt(1 - gamma^2), without cancellation

    # 3
    a = etat * at
    u, e, chi = a * c1 * norm_v, a * c2, a**2 * taup / alpha0
    c = 1 + 2 * e * m1 + e**2 * (m1**2 + m2 / alpha0) + chi * m2

    # 5, 6
    root_c = np.sqrt(c)[:, None] * np.ones_like(kappa)
    mu0, zs, mu2, he2s, _ = shifted(student, u[:, None] * kappa, root_c)
    mu1, mu0c = zs / root_c, he2s / (2 * c[:, None])
    h0, h1, _, _, squared = shifted(
        problem.teacher, gamma * kappa[None], rho * np.ones((1, kappa.size))
    )

    # 7
    dc1, dc2 = (
        c3 / 2,
        c4 / 2,
    )  # d/dQ E f(sqrt(Q) z) = E f He2 / 2 at Q = 1; the -c2 of 1/sqrt(Q) cancels E[He3 + 2 z]/2
    slope_square = expectation(
        lambda z: student.evaluate_derivative(z) ** 2 * (z * z - 1), student.kinks
    )[0]
    dtau = slope_square / 2 - 2 * c1 * dc1 - c2**2 - 2 * c2 * dc2
    slope_u = a * norm_v * dc1
    de, dchi = a * dc2, a**2 * dtau / alpha0
    w2 = m1**2 + m2 / alpha0
    slope_c = (1 + 2 * e * m1 + e**2 * w2) + (2 * de * m1 + 2 * e * de * w2) + dchi * m2
    psi1 = math.sqrt(2) * (kappa * mu1 * slope_u[:, None] + mu0c * slope_c[:, None])
    if problem.init == "sphere":
        psi1 = 0 * psi1

    # 8
    be1 = 2 * a * b2 * (1 + e * m1)
    be2 = (2 * a * b2 * e + a**2 * r2) / alpha0
    k1, k2, k3, k4 = (m / alpha0**j for j, m in enumerate((m1, m2, m3, m4)))
    M1, M2 = k1, k2 + k1**2
    M3, M4 = k3 + 3 * k2 * k1 + k1**3, k4 + 4 * k3 * k1 + 2 * k2**2 + 6 * k2 * k1**2 + k1**4
    SP, SM, SS = m2, m3 / alpha0 + m2 * m1, m4 / alpha0 + m2**2
    SMM = m4 / alpha0**2 + 2 * m3 * m1 / alpha0 + m2**2 / alpha0 + m2 * m1**2
    p = 2 * e + be1
    trA = 1 + p * M1 + e**2 * M2 + be2 * SP
    trA2 = (
        1
        + 2 * p * M1
        + 2 * e**2 * M2
        + 2 * be2 * SP
        + p**2 * M2
        + 2 * p * e**2 * M3
        + 2 * p * be2 * SM
        + e**4 * M4
        + 2 * e**2 * be2 * SMM
        + be2**2 * SS
    )
    y = labels.y
    varh = np.empty_like(a)
    for i in range(a.size):
        f1 = 2 * a[i] * y * (1 + e[i] * (y / alpha0 + m1))
        f2 = a[i] ** 2 * y**2 / alpha0
        varh[i] = labels.mean(
            f1 * f1 * gram[0, 0] + 2 * f1 * f2 * gram[0, 1] + f2 * f2 * gram[1, 1]
        )
    nu = 2 * (trA2 - trA**2) + varh / alpha0 + 4 * e**2 * chi * m2**2 / alpha0 + 2 * chi**2 * m2**2
    psi2 = np.sqrt(np.maximum(nu, 0))[:, None] * mu0c

    # 9b, 9c
    h = np.stack([2 * a * c3 * (1 + e * m1), a**2 / alpha0 * (2 * c2 * c3 + r1), 0 * a])
    k = np.stack(
        [
            0 * a,
            2 * a / alpha0 * (1 + e * m1) * (e * c3 + a * r1),
            a**3 / alpha0**2 * (c2**2 * c3 + 2 * c2 * r1 + s3),
        ]
    )
    moments = dict(
        c0=c0,
        c1=c1,
        c2=c2,
        c3=c3,
        c4=c4,
        taup=taup,
        b2=b2,
        r1=r1,
        r2=r2,
        s3=s3,
        trA_gap=float(np.abs(trA - slope_c).max()),
    )
    return Setup(
        problem,
        kappa,
        om,
        at,
        pi,
        N,
        n,
        alpha0,
        norm_v,
        gamma,
        rho,
        u,
        e,
        chi,
        c,
        mu0,
        mu1,
        mu2,
        mu0c,
        h0[0],
        h1[0],
        squared[0] + problem.noise**2,
        psi1,
        psi2,
        nu,
        slope_u,
        slope_c,
        h,
        k,
        labels,
        moments,
    )


# Linear algebra on batches, without conjugation ---------------------------------------------------


def tr(matrix: np.ndarray) -> np.ndarray:
    return np.swapaxes(matrix, -1, -2)


def cholesky(A: np.ndarray) -> np.ndarray:
    """Lower C with C C^T = A, analytic in A (np.linalg.cholesky would conjugate)."""
    r = A.shape[-1]
    C = np.zeros_like(A)
    for j in range(r):
        C[..., j, j] = np.sqrt(A[..., j, j] - (C[..., j, :j] ** 2).sum(-1))
        for i in range(j + 1, r):
            C[..., i, j] = (A[..., i, j] - (C[..., i, :j] * C[..., j, :j]).sum(-1)) / C[..., j, j]
    return C


def quad(left: np.ndarray, middle: np.ndarray, right: np.ndarray) -> np.ndarray:
    """left_k^T middle right_l for columns k, l."""
    return tr(left) @ middle @ right


def directions(
    function: Callable[..., tuple[np.ndarray, ...]], point: tuple[np.ndarray, ...], chunk: int
) -> np.ndarray:
    """Jacobian of the flattened ``function`` in the flattened real ``point`` by complex steps,
    (outputs, inputs).
    """
    sizes = [x.size for x in point]
    total = sum(sizes)
    columns = []
    for start in range(0, total, chunk):
        count = min(chunk, total - start)
        flat = np.concatenate([x.ravel() for x in point])[None] + np.zeros((count, 1), complex)
        flat[np.arange(count), start + np.arange(count)] += 1j * H_STEP
        parts = np.split(flat, np.cumsum(sizes)[:-1], axis=1)
        out = function(
            *(part.reshape(count, *x.shape) for part, x in zip(parts, point, strict=True))
        )
        columns.append(np.concatenate([o.reshape(count, -1) for o in out], axis=1).imag / H_STEP)
    return np.concatenate(columns).T


def mean_part(
    s: Setup, S: np.ndarray, E: np.ndarray, K1: np.ndarray, X: np.ndarray, tolerance: float
) -> tuple[np.ndarray, ...]:
    """m, g = S (h0 - m) and H of 19, 20 with K = sum_p (N pi_p/E_p) mu0 mu0^T + K1 (real, no
    batch).
    """
    if not s.infinite:
        K = (s.mu0.T * (s.N * s.pi / E)) @ s.mu0 + K1
        left = np.eye(S.size) + K * S
        solved = np.linalg.solve(left, np.column_stack([K, K @ (S * s.h0) + X]))
        m = solved[:, -1]
        return m, S * (s.h0 - m), solved[:, :-1]
    root = np.sqrt(S)
    A = root[:, None] * (s.mu0 * np.sqrt(s.pi / E)[:, None]).T
    size = math.sqrt(
        float(((s.mu0**2 + s.c[:, None] * s.mu1**2 + s.mu2) * (s.pi / E)[:, None] * S).sum())
    )
    left, values, _ = np.linalg.svd(A, full_matrices=True)
    Z = left[:, int((values > tolerance * size).sum()) :]
    inner = np.eye(Z.shape[1]) + Z.T @ (root[:, None] * K1 * root) @ Z
    g = root * (Z @ np.linalg.solve(inner, Z.T @ (root * (s.h0 - X))))
    return s.h0 - g / S, g, np.zeros_like(K1)


def errors(
    s: Setup,
    S: np.ndarray,
    m: np.ndarray,
    t: np.ndarray,
    dJ: np.ndarray,
    T: np.ndarray,
    H: np.ndarray,
) -> dict[str, Any]:
    """22-24."""
    small = S / s.om
    edet = s.h2 - 2 * m * s.h0 + m**2 - 2 * t * s.h1 - dJ
    over_d = 0.0 if s.infinite else 1 / s.problem.dimension
    top = (T + over_d * H * H.T) * (s.om * small**2) / s.problem.alpha
    e = np.linalg.solve(np.eye(S.size) - top, edet)
    return dict(
        risk=float(s.om @ e - s.problem.noise**2),
        training_error=float((s.om * small**2) @ e),
        e=e,
        edet=edet,
        m=m,
        t=t,
        kappa=s.kappa,
        om=s.om,
        S=S,
        T=T,
        H=H,
        setup=s,
        asymmetry=float(np.abs((T - T.T) * np.sqrt(s.om * s.om[:, None])).max()),
    )


def iterate(
    step: Callable[..., tuple[np.ndarray, ...]],
    state: tuple[np.ndarray, ...],
    damping: tuple[float, ...],
    scale: Callable[..., tuple[np.ndarray, ...]],
    tolerance: float,
    limit: int,
) -> tuple[tuple[np.ndarray, ...], float, int]:
    """Damped iteration until max |F(x) - x| / scale <= tolerance for every unknown; keeps the best
    once rounding stalls it.
    """
    best, best_state, since = math.inf, state, 0
    for count in range(limit):
        new = step(*state)
        residual = max(
            float((np.abs(b - a) / size).max())
            for a, b, size in zip(state, new, scale(*state), strict=True)
        )
        if not math.isfinite(residual):
            raise Failed(f"not finite after {count} iterations")
        if residual < best * 0.999:
            best, best_state, since = residual, state, 0
        else:
            since += 1
        if residual <= tolerance or (since > 60 and best < 100 * tolerance):
            return best_state, best, count
        state = tuple(a + w * (b - a) for a, b, w in zip(state, new, damping, strict=True))
    raise Failed(f"residual {residual:.1e} after {limit} iterations (best {best:.1e})")


# (a) the exact theory ------------------------------------------------------------


class Pencil:
    """Eqs. 10-21 as functions of (S, E, g), each with one batch axis in front."""

    def __init__(
        self, s: Setup, bulk: str, label_nodes: int, rank_tolerance: float, linear_norm: bool
    ) -> None:
        self.s, self.iso = s, bulk == "isotropic"
        self.y, self.w = block_lanczos(s.labels, label_nodes // 2)
        self.linear_norm = linear_norm and not self.iso  # 9a-9i
        root_om, quarter = np.sqrt(s.om), s.pi**0.25
        left, values, right = np.linalg.svd(
            quarter[:, None] * s.mu1 * root_om, full_matrices=False
        )  # 10
        r = int((values > rank_tolerance * values[0]).sum())
        self.r, self.P = r, s.at.size
        self.U = left[:, :r] * values[:r] / quarter[:, None]
        self.B = right[:r] / root_om

    def parts(self, S: np.ndarray, E: np.ndarray) -> dict[str, np.ndarray]:
        """11, 12."""
        s, r, P = self.s, self.r, self.P
        D = s.problem.ridges[0] + S @ s.mu2.T
        C = cholesky(np.einsum("ak,...k,bk->...ab", self.B, S, self.B))
        R = tr(C) @ self.U.T
        ck = np.linalg.solve(
            C, np.broadcast_to(self.B, (*C.shape[:-2], *self.B.shape)).astype(C.dtype)
        )
        Theta = s.problem.beta * s.pi / E
        strength, e, chi = (Theta * s.c, 0 * s.e, 0 * s.chi) if self.iso else (Theta, s.e, s.chi)
        Y0 = np.sqrt(strength)[..., None, :] * R
        Y1 = Y0 * e
        A3 = (R * (Theta * chi)[..., None, :]) @ tr(R)
        L0, H1, H2 = (np.zeros((*S.shape[:-1], r + P, r + P), S.dtype) for _ in range(3))
        L0[..., :, :] = np.eye(r + P)
        L0[..., :r, r:], L0[..., r:, :r] = -Y0, tr(Y0)
        H1[..., :r, r:], H1[..., r:, :r] = -Y1, tr(Y1)
        H2[..., :r, :r] = A3
        return dict(D=D, R=R, ck=ck, Theta=Theta, strength=strength, L0=L0, H1=H1, H2=H2)

    def deltas(self, p: dict[str, np.ndarray], g: np.ndarray) -> np.ndarray:
        """13: Delta_j, (..., J, m, m)."""
        y = self.y[:, None, None]
        H = y * p["H1"][..., None, :, :] + y**2 * p["H2"][..., None, :, :]
        return np.linalg.inv(np.eye(g.shape[-1]) + H @ g[..., None, :, :] / self.s.alpha0)

    def moment(self, Delta: np.ndarray, a: int, b: int) -> np.ndarray:
        """13: N^(a)_b."""
        return np.tensordot(self.w[a] * self.y**b, np.moveaxis(Delta, -3, 0), axes=1)

    def step(self, S: np.ndarray, E: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """13, 14: the map x -> F(S, x), x = (E, g)."""
        s, r = self.s, self.r
        p = self.parts(S, E)
        Delta = self.deltas(p, g)
        N1, N2 = self.moment(Delta, 0, 1), self.moment(Delta, 0, 2)
        new_g = np.linalg.inv(p["L0"] + N1 @ p["H1"] + N2 @ p["H2"])
        R, Theta = p["R"], p["Theta"]
        if self.iso:
            return p["D"] + s.c / np.sqrt(p["strength"]) * (R * g[..., :r, r:]).sum(-2), new_g
        g12 = g[..., :r, r:] + s.e * (g @ N1)[..., :r, r:]
        gN2 = (g @ N2)[..., :r, :r]
        return p["D"] + (R * g12).sum(-2) / np.sqrt(Theta) + s.chi * (R * (gN2 @ R)).sum(-2), new_g

    def bulk(self, S: np.ndarray, E: np.ndarray, g: np.ndarray) -> np.ndarray:
        """15 without the 1/d term: [alpha V_k]_bulk."""
        s, r = self.s, self.r
        ck = self.parts(S, E)["ck"]
        return (ck * ((np.eye(r) - g[..., :r, :r]) @ ck)).sum(-2) + s.problem.beta * (
            (s.pi / E) @ s.mu2
        )

    def blocks(self, S: np.ndarray, E: np.ndarray, g: np.ndarray) -> dict[str, np.ndarray]:
        """16-18 and 9e-9g."""
        s, r = self.s, self.r
        p = self.parts(S, E)
        Delta = self.deltas(p, g)
        inverse = np.linalg.inv
        tt = inverse(
            p["L0"] + self.moment(Delta, 2, 1) @ p["H1"] + self.moment(Delta, 2, 2) @ p["H2"]
        )
        N1 = [None, *(self.moment(Delta, 1, j) for j in (1, 2, 3))]
        gi = inverse(g)

        def form(i: int, j: int) -> np.ndarray:
            return g @ self.moment(Delta, 0, i + j) / s.alpha0 + g @ N1[i] @ gi @ tt @ N1[j]

        tv, vv = tt @ N1[1], form(1, 1)
        eye = np.eye(r)
        Gtt, Gtv, Gvv = tt[..., :r, :r], tv[..., :r, :r] / s.norm_v, vv[..., :r, :r] / s.norm_v**2
        Gvt = tr(Gtv)
        Gi = inverse(Gvv)
        Kv = Gi - eye
        Xv = (s.gamma * eye - Gi @ Gvt) / s.rho
        Tz = eye - (Gtt - Gtv @ Gi @ Gvt) / s.rho**2
        out = dict(**p, Kv=Kv, Xv=Xv, Tz=Tz, tt=tt, tv=tv, vv=vv)
        tau = np.sqrt(p["Theta"])[..., None] * s.mu0c
        if not self.linear_norm:
            zero = np.zeros((*S.shape[:-1], r, self.P), g.dtype)
            return dict(**out, tau=tau, Kvc=zero, Xc=zero, Kcc=tr(zero) @ zero)
        rows = np.sqrt(p["Theta"])[..., None, :] * p["R"]
        kp = [None, *s.k]
        diagonal = [
            None,
            *(np.broadcast_to(np.diag(v), (*S.shape[:-1], self.P, self.P)) for v in s.h),
        ]
        Rj = [None, *(np.concatenate([rows * kp[j], diagonal[j]], axis=-2) for j in (1, 2, 3))]
        Li = [None, *(np.concatenate([tr(rows * kp[i]), -diagonal[i]], axis=-1) for i in (1, 2, 3))]
        Av = sum(form(1, j) @ Rj[j] for j in (1, 2, 3))[..., :r, :] / s.norm_v
        At = sum(tt @ N1[j] @ Rj[j] for j in (1, 2, 3))[..., :r, :]
        Kvc = Gi @ Av
        Xc = (At - Gtv @ Kvc) / s.rho
        Kcc = -sum(Li[i] @ form(i, j) @ Rj[j] for i in (1, 2, 3) for j in (1, 2, 3)) + tr(Av) @ Kvc
        return dict(**out, tau=tau, Kvc=Kvc, Xc=Xc, Kcc=Kcc)

    def mean(
        self, S: np.ndarray, E: np.ndarray, g: np.ndarray, tolerance: float
    ) -> dict[str, np.ndarray]:
        """19, 20 with 9h (real, no batch)."""
        s = self.s
        b = {name: value[0] for name, value in self.blocks(S[None], E[None], g[None]).items()}
        ck, tau, kc = b["ck"], b["tau"], b["ck"] * s.kappa
        weight = (s.problem.beta * s.pi / E)[:, None]
        psi2 = 0 * s.psi2 if self.iso else s.psi2
        cross = kc.T @ b["Kvc"] @ tau
        K1 = (
            s.psi1.T @ (weight * s.psi1)
            + psi2.T @ (weight * psi2)
            + quad(kc, b["Kv"], kc)
            + cross
            + cross.T
            + quad(tau, b["Kcc"], tau)
        )
        f = S * s.h1
        bz = ck @ f
        X = kc.T @ b["Xv"] @ bz + tau.T @ b["Xc"].T @ bz
        m, gg, H = mean_part(s, S, E, K1, X, tolerance)
        bv, bt = kc @ gg, tau @ gg
        t = ck.T @ (b["Xv"].T @ bv + b["Tz"] @ bz + b["Xc"] @ bt)
        return dict(m=m, g=gg, f=f, t=t, H=H, K1=K1, X=X, blocks=b)

    def potential(
        self, S: np.ndarray, E: np.ndarray, g: np.ndarray, gg: np.ndarray, f: np.ndarray
    ) -> np.ndarray:
        """21 with 9h, gg and f frozen."""
        s = self.s
        b = self.blocks(S, E, g)
        psi2 = 0 * s.psi2 if self.iso else s.psi2
        inverse = s.pi / E
        out = s.problem.beta * inverse @ ((s.psi1 @ gg) ** 2 + (psi2 @ gg) ** 2)
        if not s.infinite:
            out = out + s.N * inverse @ (s.mu0 @ gg) ** 2
        bz, bv, bt = b["ck"] @ f, b["ck"] @ (s.kappa * gg), b["tau"] @ gg

        def form(x: np.ndarray, A: np.ndarray, y: np.ndarray) -> np.ndarray:
            return (x * (A @ y[..., None])[..., 0]).sum(-1)

        out = out + form(bv, b["Kv"], bv) + 2 * form(bv, b["Xv"], bz) + form(bz, b["Tz"], bz)
        return out + 2 * form(bv, b["Kvc"], bt) + form(bt, b["Kcc"], bt) + 2 * form(bz, b["Xc"], bt)


def exact(
    problem: Problem,
    bulk: str = "exact",
    kappa_nodes: int = 60,
    readout_nodes: int = 24,
    label_nodes: int = 20,
    rank_tolerance: float = 1e-6,
    mean_tolerance: float = 1e-9,
    sinh_scale: float | None = None,
    linear_norm: bool = True,
    tolerance: float = 1e-13,
    limit: int = 20000,
) -> dict[str, Any]:
    """The exact theory. ``linear_norm=False`` leaves 9a-9i out."""
    s = setup(problem, kappa_nodes, readout_nodes, sinh_scale)
    pencil = Pencil(s, bulk, label_nodes, rank_tolerance, linear_norm)
    r, P, K = pencil.r, pencil.P, kappa_nodes

    def step(S: np.ndarray, E: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, ...]:
        alphaV = pencil.bulk(S[None], E[None], g[None])[0]
        if not s.infinite:
            alphaV = alphaV + np.diag(pencil.mean(S, E, g, mean_tolerance)["H"]) / problem.dimension
        new_E, new_g = pencil.step(S[None], E[None], g[None])
        new_E = np.maximum(new_E[0], pencil.parts(S[None], E[None])["D"][0])  # section 6.4
        return s.om / (1 + alphaV / problem.alpha), new_E, new_g[0]

    S = 0.5 * s.om
    E = problem.ridges[0] + (S * (s.mu2 + s.c[:, None] * s.mu1**2)).sum(-1)
    g = np.linalg.inv(pencil.parts(S[None], E[None])["L0"][0])
    (S, E, g), residual, count = iterate(
        step,
        (S, E, g),
        (0.7, 0.5, 0.5),
        lambda S, E, g: (s.om, E, np.abs(g).max() * np.ones_like(g)),
        tolerance,
        limit,
    )

    # 25: dx/dS = (I - dF/dx)^-1 dF/dS, then every total derivative as one complex step along (dS,
    # dx)
    m = r + P
    chunk = max(8, int(3e6 / (pencil.y.size * m * m)))
    jacobian = directions(pencil.step, (S, E, g), chunk)
    dx = np.linalg.solve(np.eye(P + m * m) - jacobian[:, K:], jacobian[:, :K])  # (state, K)
    mean = pencil.mean(S, E, g, mean_tolerance)
    T, dJ = np.empty((K, K)), np.empty(K)
    for start in range(0, K, chunk):
        pick = np.arange(start, min(K, start + chunk))
        cS = S + 1j * H_STEP * np.eye(K)[pick]
        cE = E + 1j * H_STEP * dx[:P, pick].T
        cg = g + 1j * H_STEP * dx[P:, pick].T.reshape(-1, m, m)
        T[:, pick] = -pencil.bulk(cS, cE, cg).imag.T / H_STEP
        dJ[pick] = pencil.potential(cS, cE, cg, mean["g"], mean["f"]).imag / H_STEP
    out = errors(s, S, mean["m"], mean["t"], dJ, T, mean["H"])
    Kcc = mean["blocks"]["Kcc"]
    return dict(
        **out,
        E=E,
        g=g,
        rank=r,
        residual=residual,
        iterations=count,
        dJ=dJ,
        mean=mean,
        Kcc_asymmetry=float(np.abs(Kcc - Kcc.T).max()),
    )


# (b) the isotropic bulk ------------------------------------------------------------


def isotropic(
    problem: Problem,
    kappa_nodes: int = 60,
    readout_nodes: int = 24,
    mean_tolerance: float = 1e-9,
    sinh_scale: float | None = None,
    second_term: bool = True,
    tolerance: float = 1e-13,
    limit: int = 20000,
) -> dict[str, Any]:
    """Spiked random features. ``second_term=False`` drops kappa mu1 from (3)."""
    s = setup(problem, kappa_nodes, readout_nodes, sinh_scale)
    beta, alpha, lam, K, P = problem.beta, problem.alpha, problem.ridges[0], kappa_nodes, s.at.size

    def forms(S: np.ndarray, E: np.ndarray) -> tuple[np.ndarray, ...]:
        D = lam + S @ s.mu2.T
        K0 = np.einsum("pk,...k,qk->...pq", s.mu1, S, s.mu1)
        root = np.sqrt(beta * s.pi * s.c / E)
        T = (
            root[..., :, None]
            * np.linalg.inv(np.eye(P) + root[..., :, None] * K0 * root[..., None, :])
            * root[..., None, :]
        )
        return D, K0, T

    def one(S: np.ndarray, E: np.ndarray) -> tuple[np.ndarray]:
        """(1). K0 - K0 T K0 = (I + K0 Theta)^-1 K0, cancellation-free."""
        D, K0, _ = forms(S, E)
        theta = beta * s.pi * s.c / E
        inner = np.linalg.solve(np.eye(P) + K0 * theta[..., None, :], K0)
        return (D + s.c * np.diagonal(inner, axis1=-2, axis2=-1),)

    def bulk(S: np.ndarray, E: np.ndarray) -> np.ndarray:
        _, _, T = forms(S, E)
        return (s.mu1 * (T @ s.mu1)).sum(-2) + beta * (s.pi / E) @ s.mu2

    def extra(E: np.ndarray) -> np.ndarray:
        weight = (beta * s.pi / E)[:, None]
        second = s.kappa * s.mu1
        out = second.T @ (weight * s.c[:, None] * second) if second_term else np.zeros((K, K))
        if problem.init == "gaussian":
            out = out + s.mu0c.T @ (weight * 2 * s.c[:, None] ** 2 * s.mu0c)
        return out

    def step(S: np.ndarray, E: np.ndarray) -> tuple[np.ndarray, ...]:
        alphaV = bulk(S, E)
        if not s.infinite:
            alphaV = (
                alphaV
                + np.diag(mean_part(s, S, E, extra(E), 0 * S, mean_tolerance)[2])
                / problem.dimension
            )
        return s.om / (1 + alphaV / alpha), one(S, E)[0]

    S = 0.5 * s.om
    E = lam + (S * (s.mu2 + s.c[:, None] * s.mu1**2)).sum(-1)
    (S, E), residual, count = iterate(
        step, (S, E), (0.5, 0.5), lambda S, E: (s.om, E), tolerance, limit
    )
    m, g, H = mean_part(s, S, E, extra(E), 0 * S, mean_tolerance)
    f = S * s.h1
    t = s.mu1.T @ forms(S, E)[2] @ (s.mu1 @ f)

    def potential(S: np.ndarray, E: np.ndarray) -> np.ndarray:
        T = forms(S, E)[2]
        inverse, linear = s.pi / E, s.mu1 @ f
        out = (linear * (T @ linear)).sum(-1)
        if second_term:
            out = out + beta * inverse @ (s.c * ((s.kappa * s.mu1) @ g) ** 2)
        if problem.init == "gaussian":
            out = out + beta * inverse @ (2 * s.c**2 * (s.mu0c @ g) ** 2)
        if not s.infinite:
            out = out + s.N * inverse @ (s.mu0 @ g) ** 2
        return out

    jacobian = directions(one, (S, E), 64)
    dE = np.linalg.solve(np.eye(P) - jacobian[:, K:], jacobian[:, :K])
    cS, cE = S + 1j * H_STEP * np.eye(K), E + 1j * H_STEP * dE.T
    T, dJ = -bulk(cS, cE).imag.T / H_STEP, potential(cS, cE).imag / H_STEP
    return dict(**errors(s, S, m, t, dJ, T, H), E=E, residual=residual, iterations=count)


# (c) odd students ------------------------------------------------------------


def odd_single(
    problem: Problem,
    kappa_nodes: int = 60,
    mean_tolerance: float = 1e-9,
    tolerance: float = 1e-13,
    limit: int = 20000,
):
    """Odd student, readout ones (or one value; signs are equivalent), exact bulk."""
    values = set(np.abs(problem.readout.values))
    if len(values) != 1:
        raise Failed("section 7 needs one readout value, up to its sign")
    s = setup(problem.replace(readout={values.pop(): 1.0}), kappa_nodes, 1)
    student, beta, alpha, lam, K = (
        problem.student,
        problem.beta,
        problem.alpha,
        problem.ridges[0],
        kappa_nodes,
    )
    un = 1.0 if problem.init == "gaussian" else 0.0
    alpha0, y, G, E_ = s.alpha0, s.labels.y, s.labels.G, s.labels.mean
    c1, c3 = s.student["c1"], s.student["c3"]

    def slope(z: np.ndarray) -> np.ndarray:
        return student.evaluate_derivative(z) - c1

    tau, s3, b2, fourth, phi2 = expectation(
        lambda z: np.stack(
            [
                slope(z) ** 2,
                slope(z) ** 3,
                slope(z) ** 2 * (z * z - 1),
                slope(z) ** 4,
                (z * slope(z) - c3 * z) ** 2,
            ]
        ),
        student.kinks,
    )
    e = float(s.u[0]) / (c1 * s.norm_v)  # etat at
    m2, m4, c1s = E_(y**2), E_(y**4), E_(G * y)
    drift = (y / alpha0 + c1s * G) / s.norm_v  # kt without its xi
    y2kt2 = E_(y**2 * drift**2) + m2 * (m2 / alpha0) / s.norm_v**2
    y3kt = E_(y**3 * drift)
    v = s.norm_v
    Om = np.empty((2, 2))
    Om[0, 0] = 1 + e**2 * (tau / alpha0 * y2kt2 + un * c3**2 * v**2 / 2)
    Om[0, 1] = Om[1, 0] = (
        2 * e * c3 * v
        + un * e * v * c3
        + e**3 * (y3kt * s3 / alpha0**2 + un * c3 * b2 * v * m2 / (2 * alpha0))
    )
    Om[1, 1] = (
        2 * un
        + 4 * e**2 * c3**2 * v**2
        + 4 * e**2 / alpha0 * m2 * phi2
        + e**4 / alpha0**2 * (m4 * (fourth - tau**2) / alpha0 + un * b2**2 * m2**2 / 2)
        + 2 * un * e**2 * b2 * m2 / alpha0
        + 2 * e**4 * tau**2 * m2**2 / alpha0**2
    )
    mu0, mu1, mu2, mu0c = s.mu0[0], s.mu1[0], s.mu2[0], s.mu0c[0]
    Phi = np.stack([s.kappa * mu1, mu0c], axis=1)
    chi = e**2 * tau / alpha0

    def point(S: np.ndarray, E: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        K0 = S @ mu1**2
        a = beta * K0 / E
        return K0, a, -(1 + a) / (a * chi)

    def mean(values: np.ndarray) -> np.ndarray:
        return (s.labels.w * values).sum(-1)

    def inner(S: np.ndarray, E: np.ndarray, m: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """E and m(z0)."""
        K0, a, z0 = point(S, E)
        T = (1 - m / (a * chi)) / K0
        new_m = 1 / (mean(y**2 / (1 + y**2 * m[..., None] / alpha0)) - z0)
        return lam + S @ mu2 + E / beta * K0 * T, new_m

    def resolvent(S: np.ndarray, E: np.ndarray, m: np.ndarray) -> np.ndarray:
        """R between (zeta, b1, b2v)."""
        _, a, z = point(S, E)
        D = 1 + y**2 * m[..., None] / alpha0
        Qtt = 1 / (mean(y**2 * G**2 / D) - z)

        def uu(f: np.ndarray, h: np.ndarray) -> np.ndarray:
            return mean(f * h / D) * m / alpha0 + Qtt * mean(f * G / D) * mean(h * G / D)

        Qvv, Qtv, Q3v = uu(y, y) / v**2, Qtt * mean(y * G / D) / v, uu(y**3, y) / v
        QSv = 1 + z * Qvv  # vh Q S vh
        pair = {
            "tt": Qtt,
            "tS": s.gamma + z * Qtv,
            "t3": Qtt * mean(y**3 * G / D),
            "SS": y2kt2 + z * QSv,
            "S3": y3kt + z * Q3v,
            "33": uu(y**3, y**3),
        }
        with_v = {"t": Qtv, "S": QSv, "3": Q3v}
        # zeta = (theta - gamma vh)/rho, b1, b2v; what lies along v does not matter
        factor = {"t": 1 / s.rho, "S": e**2 * tau / alpha0, "3": e**3 * s3 / alpha0**2}
        names = "tS3"
        rows = [
            [
                factor[i]
                * factor[j]
                * (pair.get(i + j, pair.get(j + i)) - with_v[i] * with_v[j] / Qvv)
                for j in names
            ]
            for i in names
        ]
        return np.moveaxis(np.array(rows), (0, 1), (-2, -1)) / (a * chi)[..., None, None]

    def kernel(S: np.ndarray, E: np.ndarray, m: np.ndarray) -> tuple[np.ndarray, ...]:
        K0, _, _ = point(S, E)
        R = resolvent(S, E, m)
        inside = (beta / E)[..., None, None] * (
            Om - (beta * K0 / E)[..., None, None] * R[..., 1:, 1:]
        )
        cross = (beta / E)[..., None] * R[..., 1:, 0]
        return inside, cross, (1 - R[..., 0, 0]) / K0

    def bulk(S: np.ndarray, E: np.ndarray, m: np.ndarray) -> np.ndarray:
        K0, a, _ = point(S, E)
        T = (1 - m / (a * chi)) / K0
        return T[..., None] * mu1**2 + beta / E[..., None] * mu2

    def solved_mean(S: np.ndarray, E: np.ndarray, m: np.ndarray) -> tuple[np.ndarray, ...]:
        inside, cross, Tz = kernel(S, E, m)
        f = S * s.h1
        X = Phi @ cross * (mu1 @ f)
        learned, g, H = mean_part(
            s, S, np.array([float(E)]), Phi @ inside @ Phi.T, X, mean_tolerance
        )
        t = mu1 * (cross @ (Phi.T @ g)) + Tz * mu1 * (mu1 @ f)
        return learned, g, f, t, H

    def step(S: np.ndarray, E: np.ndarray, m: np.ndarray) -> tuple[np.ndarray, ...]:
        alphaV = bulk(S, E, m)
        if not s.infinite:
            alphaV = alphaV + np.diag(solved_mean(S, E, m)[4]) / problem.dimension
        new_E, new_m = inner(S, E, m)
        return s.om / (1 + alphaV / alpha), new_E, new_m

    S = 0.5 * s.om
    E = np.asarray(lam + S @ (mu2 + mu1**2 * s.c[0]))
    state = (S, E, np.asarray(-1 / point(S, E)[2]))
    (S, E, m), residual, count = iterate(
        step, state, (0.5, 0.5, 0.5), lambda S, E, m: (s.om, E, m), tolerance, limit
    )
    learned, g, f, t, H = solved_mean(S, E, m)

    def potential(S: np.ndarray, E: np.ndarray, m: np.ndarray) -> np.ndarray:
        inside, cross, Tz = kernel(S, E, m)
        b = Phi.T @ g
        out = ((inside @ b) * b).sum(-1) + 2 * (cross @ b) * (mu1 @ f) + Tz * (mu1 @ f) ** 2
        return out if s.infinite else out + s.N / E * (mu0 @ g) ** 2

    def flat(S: np.ndarray, E: np.ndarray, m: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        new_E, new_m = inner(S, E.reshape(-1), m.reshape(-1))
        return new_E, new_m

    jacobian = directions(flat, (S, E.reshape(1), m.reshape(1)), 64)
    dx = np.linalg.solve(np.eye(2) - jacobian[:, K:], jacobian[:, :K])
    cS, cE, cm = S + 1j * H_STEP * np.eye(K), E + 1j * H_STEP * dx[0], m + 1j * H_STEP * dx[1]
    T, dJ = -bulk(cS, cE, cm).imag.T / H_STEP, potential(cS, cE, cm).imag / H_STEP
    return dict(
        **errors(s, S, learned, t, dJ, T, H), E=E, residual=residual, iterations=count, Om=Om
    )
