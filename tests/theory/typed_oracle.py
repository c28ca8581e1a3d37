"""Typed neurons, equation by equation, solved by plain damped iteration: an oracle, not a tool.

Inputs N(0, Omega) of finite d, an odd student, readout values that are all one, a step that is
taken, the square loss. Neurons are typed by g_i = w_i.v and by the fluctuation of u_i; the
equations are those of docs/theory.md, section 11 ("Typed neurons"). Nothing of ``firststep.theory``
is used: all eigenvalues are summed, labels are a grid, and every derivative is a complex step
through maps that are analytic in all their arguments. Leading axes are batch axes.

What the library has at finite d beside them (its d - 1 directions of the bulk, the common mode of
|x|^2, the network's own output) is left out here, as in the published numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from firststep.activations import Activation, activation
from firststep.numerics.quadrature import gaussian_expectation, shifted_moments

H_STEP = 1e-30  # of the complex step
DAMPING = 0.6
TOLERANCE = 1e-11
FLOOR = 1e-8  # where the rounding of some machines ends; what is compared is known to 1e-5
REACH = 7.5  # of kappa
# Of the basis of mu1: the risk feels its square. Below, K_e is hard to invert and sweeps are many.
RANK_CUT = 2e-3
LABEL_NODES = (48, 8)  # of G and of the noise


class Failed(ArithmeticError):
    """The iteration did not converge."""


@dataclass
class Question:
    """One problem: eigenvalues of mean one, shares t of the teacher in them."""

    student: Activation
    teacher: Activation
    eigenvalues: np.ndarray
    shares: np.ndarray
    alpha: float
    beta: float
    alpha0: float
    step: float
    ridge: float
    noise: float
    on_sphere: bool
    nodes: int = 7  # of each of the two numbers that type a neuron; 5 change nothing
    is_whole: bool = True  # with what types are to each other along b in E_p, which hardly counts

    @property
    def dimension(self) -> int:
        return self.eigenvalues.size

    @classmethod
    def of_row(cls, row: dict[str, Any], ridge: float, *, dimension: int, noise: float) -> Question:
        """A row of tests/data/structured_tables.json."""
        kind, _, rest = row["inputs"].partition(":")
        j = np.arange(1.0, dimension + 1)
        if kind == "power-law":
            values = j ** -float(rest)
        else:
            ratio, share = map(float, rest.split(":"))
            values = np.where(j <= round(share * dimension), ratio, 1.0)
        values = values / values.mean()
        kind, _, rest = row["overlaps"].partition(":")
        few = round(float(rest) * dimension) if rest else 0
        theta = {
            "equal": 0 * j + 1.0,
            "top": 1.0 * (j <= few),
            "bottom": 1.0 * (j > dimension - few),
        }[kind]
        shares = values * theta**2
        numbers = {name: row[name] for name in ("alpha", "beta", "alpha0", "step")}
        return cls(
            student=activation(row["student"]),
            teacher=activation(row["teacher"]),
            eigenvalues=values,
            shares=shares / shares.sum(),
            ridge=ridge,
            noise=noise,
            on_sphere=row["init"] == "sphere",
            **numbers,
        )


# What does not depend on the fit ------------------------------------------------------------------


@dataclass
class Setup:
    """The step, the types and their conditional moments."""

    question: Question
    o: np.ndarray  # O_0, O_1, ...
    labels: tuple[np.ndarray, np.ndarray, np.ndarray]  # y, G, mass
    length: float  # |v|_Omega
    gamma: float
    rho: float
    chi: float
    spread: float  # V
    by_nodes: tuple[float, float, float]  # V_w + V_n, V_2, V_3
    slant: float  # r
    epsilon: float
    masses: np.ndarray  # pi_p
    g: np.ndarray  # g_p
    y: np.ndarray  # y_p
    u: np.ndarray
    c: np.ndarray
    kappa: np.ndarray
    omega: np.ndarray
    mu0: np.ndarray  # (P, K)
    mu2: np.ndarray
    by_variance: np.ndarray
    basis: np.ndarray  # B (r, K)
    coordinates: np.ndarray  # U (P, r)
    psi: list[np.ndarray]
    chaos: float  # k_3
    h0: np.ndarray
    h1: np.ndarray
    h2: np.ndarray


def student_moments(student: Activation) -> dict[str, float]:
    """Of s' = c1 + q, odd students: c3 = E[q He2], tau' = E q^2, r2 = E[q^2 He2]/2, s3 = E q^3, and
    the variances C11, C22 of z q, q^2 without their He0, He1 and He2 parts.
    """

    def first(z: np.ndarray) -> np.ndarray:
        slope = student.evaluate_derivative(z)
        return np.stack([slope, z * slope])

    c1, c2 = gaussian_expectation(first, student.kinks).value
    assert abs(c2) < 1e-12

    def powers(z: np.ndarray) -> np.ndarray:
        q = student.evaluate_derivative(z) - c1
        he2 = z * z - 1
        return np.stack([q * he2, q**2, q**2 * he2 / 2, q**3, (z * q) ** 2, q**4])

    c3, tau, r2, s3, zq, fourth = gaussian_expectation(powers, student.kinks).value
    return dict(
        c1=c1, c3=c3, tau=tau, r2=r2, s3=s3, c11=zq - c3**2, c22=fourth - tau**2 - 2 * r2**2
    )


def label_grid(question: Question) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    g, wg = np.polynomial.hermite_e.hermegauss(LABEL_NODES[0])
    n, wn = np.polynomial.hermite_e.hermegauss(LABEL_NODES[1])
    y = question.teacher.evaluate(g)[:, None] + question.noise * n
    mass = wg[:, None] * wn / (wg.sum() * wn.sum())
    keep = mass.ravel() > 1e-22
    return y.ravel()[keep], np.repeat(g, n.size)[keep], mass.ravel()[keep]


def types(count: int, slant: float) -> tuple[np.ndarray, ...]:
    """Masses, z_1, x_p and y_p of a product Gauss-Hermite rule."""
    z, w = np.polynomial.hermite_e.hermegauss(count)
    w = w / w.sum()
    one, two = (each.ravel() for each in np.meshgrid(z, z, indexing="ij"))
    masses = (w[:, None] * w).ravel()
    across = math.sqrt(1 - slant**2)
    x = slant * one + across * two
    return masses, one, x, (x - slant * one) / (1 - slant**2)


def setup(question: Question) -> Setup:
    d, a, alpha0 = question.dimension, question.step, question.alpha0
    varpi, t = question.eigenvalues, question.shares
    o = np.array([np.mean(varpi**k) for k in range(8)])
    teacher = np.array([np.sum(t * varpi**k) for k in range(8)])  # T_k
    labels = label_grid(question)
    y, big_g, mass = labels
    m = [float(mass @ y**j) for j in range(7)]
    along = float(mass @ (big_g * y))  # c1*
    moments = student_moments(question.student)
    c1, c3, tau = moments["c1"], moments["c3"], moments["tau"]
    # the step
    nu = [along**2 * teacher[k + 1] + m[2] / alpha0 * o[k + 1] for k in range(5)]
    length = math.sqrt(nu[1])
    gamma = along * teacher[1] / length
    rho = math.sqrt(1 - gamma**2)
    chi = a**2 * tau / alpha0
    epsilon = a * c3
    # types
    plain = nu[0]  # |v|^2
    v_g = plain / d
    v_w, v_2, v_3 = nu[2] / nu[1], nu[3] / nu[1], nu[4] / nu[1]
    words = float(mass @ (y**2 * (y * o[2] / alpha0 + big_g * along * teacher[2]) ** 2))
    words += m[2] * (nu[3] - (along * teacher[2]) ** 2)
    v_n = chi * words / nu[1]
    spread = v_w + v_n + epsilon**2 * (v_g * v_3 + nu[1] * v_w**2 / d)
    slant = length / math.sqrt(spread * plain)
    masses, one, x, y_p = types(question.nodes, slant)
    g = math.sqrt(v_g) * one
    u = a * c1 * length + epsilon * length * v_w / d + math.sqrt(spread / d) * x
    c = 1 + chi * m[2] * o[2] + 2 * epsilon * g * o[2] + epsilon**2 * g**2 * o[3]
    c = c - (v_w + v_n + 2 * epsilon * g * v_2 + epsilon**2 * g**2 * v_3) / d
    # conditional moments
    width = min(0.3, 0.45 * float(np.sqrt(np.min(c)) + 0.2) / float(np.max(np.abs(u))))
    width = min(width, 0.5 * math.sqrt(rho**2 + 0.36) / max(gamma, 1e-9))
    half = math.ceil(REACH / width)
    kappa = width * np.arange(-half, half + 1)
    omega = np.exp(-(kappa**2) / 2)
    omega = omega / omega.sum()
    found = shifted_moments(
        question.student.evaluate, u[:, None] * kappa, np.sqrt(c)[:, None] + 0 * kappa
    )
    kernel_root = np.sqrt(masses)[:, None] * found.slope * np.sqrt(omega)
    left, sigma, _ = np.linalg.svd(kernel_root, full_matrices=False)
    left = left[:, sigma > RANK_CUT * sigma[0]]
    basis = (left / sigma[: left.shape[1]]).T @ (np.sqrt(masses)[:, None] * found.slope)
    coordinates = found.slope @ (basis * omega).T
    coordinates = coordinates @ np.linalg.inv((basis * omega) @ basis.T)
    target = shifted_moments(question.teacher.evaluate, gamma * kappa, rho + 0 * kappa)
    h1 = target.slope * rho
    return Setup(
        question=question,
        o=o,
        labels=labels,
        length=length,
        gamma=gamma,
        rho=rho,
        chi=chi,
        spread=spread,
        by_nodes=(v_w + v_n, v_2, v_3),
        slant=slant,
        epsilon=epsilon,
        masses=masses,
        g=g,
        y=y_p,
        u=u,
        c=c,
        kappa=kappa,
        omega=omega,
        mu0=found.mean,
        mu2=found.scatter,
        by_variance=found.by_variance,
        basis=basis,
        coordinates=coordinates,
        psi=kernel_functions(question, moments, (m, o, chi, length), kappa, found),
        chaos=a**3 / alpha0**2 * o[2] * moments["s3"],
        h0=target.mean,
        h1=h1,
        h2=target.scatter + target.mean**2 + h1**2 + question.noise**2,
    )


def kernel_functions(
    question: Question,
    moments: dict[str, float],
    step: tuple[list[float], np.ndarray, float, float],
    kappa: np.ndarray,
    found: Any,
) -> list[np.ndarray]:
    """Two functions whose kernel is the 2 x 2 one of the norms, A = Omega + beta2 S'."""
    m, o, chi, length = step
    a, alpha0, s = question.step, question.alpha0, 1.0 if question.on_sphere else 0.0
    beta2 = o[2] / alpha0 * a**2 * moments["r2"]
    trace = 1 + beta2 * m[2]
    with_omega = o[2] + beta2 * m[2] * o[2]
    square = o[2] + 2 * beta2 * m[2] * o[2] + beta2**2 * (m[4] / alpha0 + m[2] ** 2 * o[2])
    own = 4 * a**2 * o[2] ** 2 * m[2] * moments["c11"]
    own += a**4 * m[4] / alpha0**2 * o[2] ** 2 * moments["c22"]
    rest = own / alpha0 + 4 * chi * m[2] * (o[3] - o[2] ** 2) + 2 * chi**2 * m[2] ** 2 * o[4]
    by_norm = a * length * moments["c3"] / 2  # u_Q
    kernel = np.array(
        [
            [2 * by_norm**2 * (o[2] - s), 2 * by_norm * (with_omega - s * trace)],
            [2 * by_norm * (with_omega - s * trace), 2 * (square - s * trace**2) + rest],
        ]
    )
    values, vectors = np.linalg.eigh(kernel)
    both = np.stack([kappa * found.slope, found.by_variance])
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return [np.einsum("a,apk->pk", root[:, i], both) for i in range(2)]


# The equations ------------------------------------------------------------------------------------


def triangle(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows, columns = np.triu_indices(size)
    return rows, columns, np.where(rows == columns, 1.0, 2.0)


def pack(matrix: np.ndarray) -> np.ndarray:
    rows, columns, _ = triangle(matrix.shape[-1])
    return matrix[..., rows, columns]


def unpack(packed: np.ndarray, size: int) -> np.ndarray:
    rows, columns, _ = triangle(size)
    place = np.zeros((size, size), int)
    place[rows, columns] = place[columns, rows] = np.arange(rows.size)
    return packed[..., place]


def flip(matrix: np.ndarray) -> np.ndarray:
    return np.swapaxes(matrix, -1, -2)


@dataclass
class Fixed:
    """What a sweep at given (M, D, E, Zh) makes: the images, the force, and the mean's matrices."""

    energy: np.ndarray
    resolvent: np.ndarray
    force: np.ndarray
    theta: np.ndarray
    along: np.ndarray  # G_bb
    crossed: np.ndarray  # G_zb
    across: np.ndarray  # T
    inverse: np.ndarray  # M^-1
    bent: tuple[np.ndarray, np.ndarray, np.ndarray]  # G_b3, G_33, G_z3


def sweep(
    case: Setup, overlaps: np.ndarray, diagonal: np.ndarray, energy: np.ndarray, big: np.ndarray
) -> Fixed:
    """All at (M, D, E, Zh), with leading batch axes."""
    q, u, eps, g = case.question, case.coordinates, case.epsilon, case.g
    d, alpha0, chi = q.dimension, q.alpha0, case.chi
    inverse = np.linalg.inv(overlaps)
    theta = q.beta * case.masses / energy

    def gram(weights: np.ndarray) -> np.ndarray:
        return np.einsum("...p,pa,pb->...ab", weights, u, u)

    k0, kg, kgg = (gram(theta * f) for f in (1.0, eps * g, eps**2 * g**2))
    # the samples of the step
    y, big_g, mass = case.labels
    square = (y**2)[:, None, None]
    one = np.eye(u.shape[1])
    delta = np.linalg.inv(one + square * (chi / alpha0) * (k0 @ big)[..., None, :, :])
    source = delta @ (square * chi * k0[..., None, :, :])  # Q_l
    seen = big[..., None, :, :] @ delta

    def over_labels(weights: np.ndarray, what: np.ndarray) -> np.ndarray:
        return np.einsum("l,...lab->...ab", weights, what)

    def q_ab(a: int, b: int) -> np.ndarray:
        found = over_labels(mass * big_g**a * y**b, source)
        return (found + flip(found)) / 2

    # the levels
    varpi = q.eigenvalues[:, None, None]
    mean = q_ab(0, 0)
    system = inverse[..., None, :, :] + varpi * (
        k0[..., None, :, :]
        + varpi * ((mean + 2 * kg)[..., None, :, :] + varpi * kgg[..., None, :, :])
    )
    z = varpi * np.linalg.inv(system)

    def average(power: int, weights: np.ndarray | None = None) -> np.ndarray:
        w = np.full(d, 1 / d) if weights is None else weights
        return np.einsum("s,...sab->...ab", w * q.eigenvalues**power, z)

    hat, bar, low, high = average(1), average(0), average(-1), average(2)
    # along theta, tau and v; of Zh its image, so that M^-1 + V K_e - G_vv^-1 is of second order in
    # the rows off the solution too
    p0, p1, p2 = (average(k - 1, q.shares) for k in range(3))
    extra = q_ab(2, 0) - mean
    know = extra @ np.linalg.inv(one + p2 @ extra)
    tt, ts, ss = p0 - p1 @ know @ p1, p1 - p1 @ know @ p2, p2 - p2 @ know @ p2

    def moment(a: int, b: int) -> float:
        return float(mass @ (big_g**a * y**b))

    def to_teacher(j: int) -> np.ndarray:
        return moment(1, j) * ts - ts @ q_ab(1, j) @ hat / alpha0

    def between(i: int, j: int) -> np.ndarray:
        qi, qj = q_ab(1, i), q_ab(1, j)
        own = (moment(0, i + j) * hat - hat @ q_ab(0, i + j) @ hat / alpha0) / alpha0
        mixed = moment(1, i) * ss @ qj @ hat + moment(1, j) * hat @ qi @ ss
        both = hat @ qi @ ss @ qj @ hat / alpha0**2
        return own + moment(1, i) * moment(1, j) * ss - mixed / alpha0 + both

    size = case.length
    g_vv, g_tv = between(1, 1) / size**2, to_teacher(1) / size
    v3 = between(1, 3) / size
    solver = np.linalg.inv(g_vv)
    # a type's own direction b
    spread, (v_wn, v_2, v_3) = case.spread, case.by_nodes
    k_e = (v_wn * k0 + 2 * v_2 * kg + v_3 * kgg) / spread
    inner = np.linalg.inv(k_e)
    excess = case.y**2 - 1 / (1 - case.slant**2)
    k_more = gram(theta * excess)
    bb0 = inner @ (inverse + spread * k_e - solver) @ inner / spread
    zb0 = (case.gamma * one - g_tv @ solver) @ inner / (case.rho * math.sqrt(spread))
    b30 = -inner @ solver @ v3 / math.sqrt(spread)
    left = np.linalg.inv(one + k_more @ bb0)  # (1 + dK G0)^-1
    bb, zb = bb0 @ left, zb0 @ left
    zz0 = (tt - g_tv @ solver @ flip(g_tv)) / case.rho**2
    zz = zz0 - zb0 @ left @ k_more @ flip(zb0)
    z30 = (to_teacher(3) - g_tv @ solver @ v3) / case.rho
    c30 = between(3, 3) - flip(v3) @ solver @ v3
    b3 = flip(left) @ b30
    z3 = z30 - zb0 @ left @ k_more @ b30
    c3 = c30 - flip(b30) @ left @ k_more @ b30
    # the energies
    rough = chi * over_labels(mass * y**2, seen)

    def form(matrix: np.ndarray) -> np.ndarray:
        return np.einsum("pa,...ab,pb->...p", u, matrix, u)

    own = form(bar + rough) + 2 * eps * g * form(hat) + (eps * g) ** 2 * form(high)
    if q.is_whole:
        own = own + excess * form(bb) / d
    rows, columns, times = triangle(u.shape[1])
    by_matrix = inverse - inverse @ low @ inverse
    return Fixed(
        energy=diagonal + own,
        resolvent=(hat + flip(hat)) / 2,
        force=np.concatenate([by_matrix[..., rows, columns] * times, theta], -1),
        theta=theta,
        along=(bb + flip(bb)) / 2,
        crossed=zb,
        across=inverse - inverse @ zz @ inverse,
        inverse=inverse,
        bent=(b3, c3, z3),
    )


def kernel_of(case: Setup, at: Fixed) -> np.ndarray:
    """K_mean."""
    d, u = case.question.dimension, case.coordinates
    theta = at.theta[:, None]
    own = np.einsum("pa,pk->ak", u, theta * case.y[:, None] * case.mu0) * math.sqrt(d)  # sqrt d Y
    bent = case.chaos * np.einsum("pa,pk->ak", u, theta * case.by_variance)
    b3, c3, _ = at.bent
    cross = own.T @ b3 @ bent
    kernel = d * case.mu0.T @ (theta * case.mu0) - own.T @ at.along @ own
    kernel = kernel - cross - cross.T - bent.T @ c3 @ bent
    for psi in case.psi:
        kernel = kernel + psi.T @ (theta * psi)
    return kernel


def quadratic_form(case: Setup, at: Fixed, g: np.ndarray, b_z: np.ndarray) -> np.ndarray:
    """J = g^T Kmean g + 2 (sqrt d Y g)^T G_zb^T M^-1 b_z + ... + b_z^T T b_z at frozen g, b_z."""
    d, u, theta = case.question.dimension, case.coordinates, at.theta
    drive, bend = case.mu0 @ g, case.by_variance @ g
    own = np.einsum("...p,pa->...a", theta * case.y * drive, u) * math.sqrt(d)
    bent = case.chaos * np.einsum("...p,pa->...a", theta * bend, u)
    b3, c3, z3 = at.bent
    left = np.einsum("...ab,b->...a", at.inverse, b_z)

    def pair(x: np.ndarray, matrix: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.einsum("...a,...ab,...b->...", x, matrix, y)

    total = d * np.sum(theta * drive**2, -1) - pair(own, at.along, own)
    total = total - 2 * pair(own, b3, bent) - pair(bent, c3, bent)
    for psi in case.psi:
        total = total + np.sum(theta * (psi @ g) ** 2, -1)
    total = total + 2 * pair(left, at.crossed, own) + 2 * pair(left, z3, bent)
    return total + np.einsum("a,...ab,b->...", b_z, at.across, b_z)


@dataclass
class Answer:
    """The risk, and what it is made of."""

    risk: float
    training_error: float
    sweeps: int
    shrunk: np.ndarray
    learned: np.ndarray
    linear_coefficient: np.ndarray
    force_by_overlap: np.ndarray


def overlap_map(case: Setup) -> np.ndarray:
    rows, columns, _ = triangle(case.basis.shape[0])
    return np.concatenate([case.basis[rows] * case.basis[columns], case.mu2])


def solve(question: Question, most: int = 400) -> Answer:
    """Damped iteration of (E, Zh, S), then the errors."""
    case = setup(question)
    q, r = question, case.basis.shape[0]
    mapping, omega = overlap_map(case), case.omega
    count, n = r * (r + 1) // 2, q.alpha * q.dimension
    shrunk = omega.copy()
    packed = mapping @ shrunk
    overlaps, diagonal = unpack(packed[:count], r), packed[count:] + q.ridge
    energy = diagonal + case.c * np.einsum(
        "pa,ab,pb->p", case.coordinates, overlaps, case.coordinates
    )
    big = np.linalg.inv(
        np.linalg.inv(overlaps)
        + np.einsum(
            "p,pa,pb->ab", q.beta * case.masses / energy, case.coordinates, case.coordinates
        )
    )
    gap, sweeps = math.inf, 0
    while gap > TOLERANCE:
        sweeps += 1
        packed = mapping @ shrunk
        overlaps, diagonal = unpack(packed[:count], r), packed[count:] + q.ridge
        at = sweep(case, overlaps, diagonal, energy, big)
        kernel = kernel_of(case, at)
        root = np.sqrt(shrunk)
        inner = np.linalg.inv(np.eye(omega.size) + root[:, None] * kernel * root)
        spread = (1 - np.diag(inner)) / shrunk  # H_kk
        asked = omega / (1 + mapping.T @ at.force / q.alpha + spread / n)
        gap = max(
            np.max(np.abs(at.energy / energy - 1)),
            np.max(np.abs(at.resolvent - big)) / np.max(np.abs(big)),
            np.max(np.abs(asked / shrunk - 1) * np.minimum(1.0, 100 * omega)),
        )
        if sweeps >= most and gap > FLOOR:
            raise Failed(f"the gap stayed at {gap:.1e}")
        if gap <= TOLERANCE or sweeps >= most:
            break
        energy = energy + DAMPING * (at.energy - energy)
        big = big + DAMPING * (at.resolvent - big)
        shrunk = shrunk * (asked / shrunk) ** DAMPING
    return errors(case, (overlaps, diagonal, energy, big), shrunk, at, sweeps)


def errors(
    case: Setup,
    state: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    shrunk: np.ndarray,
    at: Fixed,
    sweeps: int,
) -> Answer:
    q, (overlaps, diagonal, energy, big) = case.question, state
    d, omega, mapping = q.dimension, case.omega, overlap_map(case)
    kernel = kernel_of(case, at)
    b_z = case.basis @ (shrunk * case.h1)
    b3, c3, z3 = at.bent
    del b3, c3
    theta, u = at.theta[:, None], case.coordinates
    own = np.einsum("pa,pk->ak", u, theta * case.y[:, None] * case.mu0) * math.sqrt(d)
    bent = case.chaos * np.einsum("pa,pk->ak", u, theta * case.by_variance)
    push = own.T @ at.crossed.T @ at.inverse + bent.T @ z3.T @ at.inverse  # (K, r)
    one = np.eye(omega.size)
    smooth = np.linalg.inv(one + kernel * shrunk)
    m = smooth @ (kernel @ (shrunk * case.h0) + push @ b_z)
    g = shrunk * (case.h0 - m)
    t = case.basis.T @ (push.T @ g + at.across @ b_z)
    # derivatives by complex steps in (y, E, Zh)
    count = overlaps.shape[0] * (overlaps.shape[0] + 1) // 2
    base = np.concatenate([pack(overlaps), diagonal, energy, pack(big)])
    size = case.masses.size
    moved = base + 1j * H_STEP * np.eye(base.size)
    cuts = np.cumsum([count, size, size])
    parts = np.split(moved, cuts, axis=-1)
    r = overlaps.shape[0]
    chunks = [
        sweep_parts(case, [part[i : i + 24] for part in parts], r, g, b_z)
        for i in range(0, base.size, 24)
    ]
    images, forces, forms = (np.concatenate(each) for each in zip(*chunks, strict=True))
    known = count + size  # the y, of which E and Zh are functions
    response = np.linalg.solve(
        np.eye(base.size - known) - images[known:].T, images[:known].T
    )  # (x, y)
    by_y = forces[:known].T + forces[known:].T @ response
    slope = mapping.T @ (forms[:known] + forms[known:] @ response)
    curvature = -mapping.T @ by_y @ mapping
    hat = smooth @ kernel  # H
    curvature = curvature + hat * hat.T / d
    shrinkage = shrunk / omega
    deterministic = case.h2 - 2 * m * case.h0 + m**2 - 2 * t * case.h1 - slope
    top = curvature * (omega * shrinkage**2 / q.alpha)
    error = np.linalg.solve(one - top, deterministic)
    return Answer(
        risk=float(omega @ error - q.noise**2),
        training_error=float(omega @ (shrinkage**2 * error)),
        sweeps=sweeps,
        shrunk=shrunk,
        learned=m,
        linear_coefficient=t,
        force_by_overlap=by_y,
    )


def sweep_parts(
    case: Setup, parts: list[np.ndarray], r: int, g: np.ndarray, b_z: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    overlaps, diagonal, energy, big = parts
    found = sweep(case, unpack(overlaps, r), diagonal, energy, unpack(big, r))
    image = np.concatenate([found.energy, pack(found.resolvent)], -1)
    form = quadratic_form(case, found, g, b_z)
    return image.imag / H_STEP, found.force.imag / H_STEP, form.imag / H_STEP
