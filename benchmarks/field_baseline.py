"""Baseline: the same equations solved as the field does it now, to compare time and accuracy with.

    python benchmarks/field_baseline.py

In the manner of [Cui]'s notebook (theory.ipynb of SPOC-group/OneStepGD_asymptotics): a random 2000
x 2000 matrix drawn inside the "theory" and diagonalised by ``numpy.linalg.eigh``, forms along
vectors from its eigenvectors, then damped iteration (1/2) on a handful of order parameters in which
every integral over kappa is a ``scipy.integrate.quad``, in every iteration, of conditional moments
from an inner Gauss-Hermite rule: eight integrals, nine with the exact bulk. For accuracy, other
than there: 41 inner nodes (as fast as its 19, which err by 1e-4 at large steps) and a stop at a
relative change below 1e-6, not an absolute one below 1e-4. For speed: an integrand evaluates
moments about once, in plain numpy; the notebook does so again at each mention, by quadpy.

``tabulated=True`` is kinder: the moments once, at 40 nodes kappa (too few for 1e-5 at large steps),
then sums; eigenvalues only with forms along theta and v as integrals (then the sample moves the
risk by 1e-4, not by some 1e-3 as forms from eigenvectors do).

Covered: student tanh, erf or sin, a smooth teacher, readout ``ones``, rows on the sphere, d
infinite, step exponent 1/2, one ridge: ``spectrum="sampled"``  theory-exact.md section 7, traces
over the eigenvalues of S' = X0^T diag(yhat^2) X0 / n0 at d = 2000; ``spectrum="none"``
theory.md section 4, the isotropic bulk of [Cui]: C = c I, nothing drawn, the second term of (3)
included.

The letters are those of the theory pages. With one readout value everything depends on S through K0
= sum_k S_k mu1_k^2 and D = lam + sum_k S_k mu2_k, and s(kappa) = 1/(1 + V(kappa)) is an explicit
function of K0 and E.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
from scipy.integrate import quad
from scipy.special import erf
from threadpoolctl import threadpool_limits

from firststep import Problem

D_SAMPLED, KAPPA_NODES, INNER_NODES, LABEL_NODES, DAMPING, LIMIT = 2000, 40, 41, 100, 0.5, 10_000
FUNCTIONS = {
    "tanh": (np.tanh, lambda z: 1 - math.tanh(z) ** 2),
    "erf": (erf, lambda z: 2 / math.sqrt(math.pi) * math.exp(-z * z)),
    "sin": (np.sin, math.cos),
}
Mean = Callable[[Callable[[SimpleNamespace], float]], float]
Kernel = Callable[[float, float], tuple[np.ndarray, np.ndarray, float]]


def gaussian(function: Callable[[float], float]) -> float:
    """E f(z), z ~ N(0, 1), by quad."""
    return quad(lambda z: function(z) * math.exp(-z * z / 2), -np.inf, np.inf)[0] / math.sqrt(
        2 * math.pi
    )


def hermite(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of E f(z)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes, weights / weights.sum()


def label_mean(
    problem: Problem,
) -> Callable[[Callable[[np.ndarray, np.ndarray], np.ndarray]], float]:
    """f -> E f(yhat, G), yhat = y = s*(G) + noise eps (an odd student starts at output zero)."""
    (G, weights), (eps, noise_weights) = (
        hermite(LABEL_NODES),
        hermite(LABEL_NODES if problem.noise else 1),
    )
    y, both = problem.teacher(G)[:, None] + problem.noise * eps, np.outer(weights, noise_weights)
    return lambda f: float((both * f(y, G[:, None])).sum())


def step_constants(problem: Problem) -> SimpleNamespace:
    """Student and label moments, spike, bulk variance, and Om/d of section 7, on the sphere.

    Om/d is the covariance of (delta u_i, delta c_i).
    """
    slope, mean, alpha0, e = (
        FUNCTIONS[str(problem.student)][1],
        label_mean(problem),
        problem.alpha0,
        problem.step,
    )
    c1 = gaussian(slope)
    c3 = gaussian(lambda z: (z * z - 1) * (slope(z) - c1))
    tau, s3, s4 = (gaussian(lambda z, j=j: (slope(z) - c1) ** j) for j in (2, 3, 4))
    phi2 = gaussian(lambda z: (z * (slope(z) - c1) - c3 * z) ** 2)
    m2, m4, c1s = mean(lambda y, G: y * y), mean(lambda y, G: y**4), mean(lambda y, G: y * G)
    v = math.sqrt(c1s**2 + m2 / alpha0)
    y2kt2 = (mean(lambda y, G: (y * (y / alpha0 + c1s * G)) ** 2) + m2**2 / alpha0) / v**2
    y3kt = mean(lambda y, G: y**3 * (y / alpha0 + c1s * G)) / v
    Om_uu, Om_uc = 1 + e**2 * tau / alpha0 * y2kt2, 2 * e * c3 * v + e**3 * y3kt * s3 / alpha0**2
    Om_cc = 4 * e**2 * (c3**2 * v**2 + m2 * phi2 / alpha0) + e**4 / alpha0**2 * (
        m4 * (s4 - tau**2) / alpha0 + 2 * tau**2 * m2**2
    )
    gamma, rho, chi = c1s / v, math.sqrt(m2 / alpha0) / v, e**2 * tau / alpha0
    return SimpleNamespace(
        v=v,
        gamma=gamma,
        rho=rho,
        chi=chi,
        u=e * c1 * v,
        c=1 + chi * m2,
        y2kt2=y2kt2,
        y3kt=y3kt,
        Om=np.array([[Om_uu, Om_uc], [Om_uc, Om_cc]]),
        scale=np.array([1 / rho, chi, e**3 * s3 / alpha0**2]),
    )


def mean_over_kappa(problem: Problem, step: SimpleNamespace, tabulated: bool) -> Mean:
    """f -> E f(at), at = the moments of theory.md section 3 given kappa.

    They are mu0, mu1, mu2, mu0c = dmu0/dc and h() = h0, h1, h2.
    """
    z, weights = hermite(INNER_NODES)
    student, teacher = (
        FUNCTIONS.get(str(function), (function,))[0]
        for function in (problem.student, problem.teacher)
    )
    rows, root = weights * np.stack([np.ones_like(z), z, z * z - 1]), math.sqrt(step.c)

    def of_teacher(kappa: float) -> tuple[float, float, float]:
        values = teacher(step.gamma * kappa + step.rho * z)
        return *(rows[:2] @ values).tolist(), float(weights @ values**2) + problem.noise**2

    def given(kappa: float) -> SimpleNamespace:
        values = student(step.u * kappa + root * z)
        mu0, linear, quadratic = (rows @ values).tolist()
        mu1, mu2, mu0c = (
            linear / root,
            float(weights @ values**2) - mu0**2 - linear**2,
            quadratic / (2 * step.c),
        )
        return SimpleNamespace(
            kappa=kappa, mu0=mu0, mu1=mu1, mu2=mu2, mu0c=mu0c, h=lambda: of_teacher(kappa)
        )

    if not tabulated:
        return lambda f: gaussian(lambda kappa: f(given(kappa)))
    kappa, om = hermite(KAPPA_NODES)
    points, h = [vars(given(k)) for k in kappa], np.array([of_teacher(k) for k in kappa]).T
    table = SimpleNamespace(
        **{name: np.array([point[name] for point in points]) for name in points[0] if name != "h"},
        h=lambda: h,
    )
    return lambda f: float(om @ f(table))


def sample(problem: Problem, step: SimpleNamespace, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """S', and the columns rho zeta, S' v/|v|, X0^T yhat^3/n0, v/|v|.

    X0 is n0 x 2000, with theta the first coordinate.
    """
    rng, n0 = np.random.default_rng(seed), round(problem.alpha0 * D_SAMPLED)
    X0 = rng.standard_normal((n0, D_SAMPLED))
    yhat = problem.teacher(X0[:, 0]) + problem.noise * rng.standard_normal(n0)
    v, third = X0.T @ yhat / np.linalg.norm(X0.T @ yhat), X0.T @ yhat**3 / n0
    zeta = np.eye(1, D_SAMPLED)[0] - v[0] * v
    X0 *= yhat[:, None]
    S = X0.T @ X0 / n0
    return S, np.stack([step.rho * zeta / np.linalg.norm(zeta), S @ v, third, v], axis=1)


def integrated_forms(
    step: SimpleNamespace, mean: Callable, alpha0: float, eigenvalues: np.ndarray, z: float
) -> np.ndarray:
    """Forms of Q = (S' - z)^-1 between the columns of ``sample``, theta for zeta.

    m(z) is a trace, the rest are integrals.
    """
    m = float(np.mean(1 / (eigenvalues - z))) / alpha0
    Qtt = 1 / (mean(lambda y, G: (y * G) ** 2 / (1 + y * y * m)) - z)
    g1, g3 = (mean(lambda y, G, j=j: y**j * G / (1 + y * y * m)) for j in (1, 3))
    p2, p4, p6 = (mean(lambda y, G, j=j: y**j / (1 + y * y * m)) for j in (2, 4, 6))
    Qvv, Qtv, Q3v = (
        (p2 * m + Qtt * g1**2) / step.v**2,
        Qtt * g1 / step.v,
        (p4 * m + Qtt * g1 * g3) / step.v,
    )
    Qt3, QSv, tS, S3 = (
        Qtt * g3,
        1 + z * Qvv,
        step.gamma + z * Qtv,
        step.y3kt + z * Q3v,
    )  # S Q = I + z Q
    SS, Q33 = step.y2kt2 + z * QSv, p6 * m + Qtt * g3**2
    return np.array(
        [[Qtt, tS, Qt3, Qtv], [tS, SS, S3, QSv], [Qt3, S3, Q33, Q3v], [Qtv, QSv, Q3v, Qvv]]
    )


def bulk_of(
    problem: Problem, step: SimpleNamespace, seed: int, spectrum: str, tabulated: bool
) -> tuple[np.ndarray, Kernel]:
    """Eigenvalues of C; (K0, E) -> blocks of the mean part: Phi-Phi, Phi-zeta, zeta-zeta (Tz)."""
    beta = problem.beta
    if spectrum == "none":
        return np.array([step.c]), lambda K0, E: (
            np.diag([beta * step.c / E, 0]),
            np.zeros(2),
            1 / (K0 + E / (beta * step.c)),
        )
    S, columns = sample(problem, step, seed)
    eigenvalues, basis = (np.linalg.eigvalsh(S), None) if tabulated else np.linalg.eigh(S)
    vectors, label = None if tabulated else basis.T @ columns, label_mean(problem)

    def kernel(K0: float, E: float) -> tuple[np.ndarray, np.ndarray, float]:
        a = beta * K0 / E
        z = -(1 + a) / (a * step.chi)
        if tabulated:
            Q = integrated_forms(step, label, problem.alpha0, eigenvalues, z)
        else:
            Q = vectors.T @ (vectors / (eigenvalues - z)[:, None])
        R = (
            np.outer(step.scale, step.scale)
            * (Q - np.outer(Q[3], Q[3]) / Q[3, 3])[:3, :3]
            / (a * step.chi)
        )  # zeta, b1, b2v
        return beta / E * (step.Om - a * R[1:, 1:]), beta / E * R[1:, 0], (1 - R[0, 0]) / K0

    return 1 + step.chi * eigenvalues, kernel


def response(
    beta: float, C: np.ndarray, kernel: Kernel, x: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """K0 T; -d(T, beta/E) and dJ by d(K0, D): implicit derivatives of (1), differences for J."""
    (K0, D, E, _, linear), b = x[:5].tolist(), x[5:7]

    def potential(K0: float, E: float) -> float:
        inside, cross, Tz = kernel(K0, E)
        return b @ inside @ b + 2 * cross @ b * linear + Tz * linear**2

    a = beta * K0 / E
    filled, q = float(np.mean(a * C / (1 + a * C))), np.mean(C / (1 + a * C) ** 2)
    dK0, dE = np.array([1.0, 0.0]), np.array([q, 1]) / (1 - (filled - a * q) / beta)
    dT = (q * (beta * dK0 - a * dE) / E - filled / K0 * dK0) / K0
    dJ = np.zeros(2)
    for i, h in enumerate((1e-4 * K0, 1e-4 * D)):
        dJ[i] = (
            potential(K0 + h * dK0[i], E + h * dE[i]) - potential(K0 - h * dK0[i], E - h * dE[i])
        ) / (2 * h)
    return filled, np.stack([-dT, beta * dE / E**2]), dJ


def update(
    problem: Problem, C: np.ndarray, kernel: Kernel, mean: Mean, x: np.ndarray
) -> tuple[np.ndarray, Callable, Callable]:
    """New order parameters K0, D, E, w, mu1.f, Phi^T g, q, all from the old ones x.

    s and e, functions of the moments, at x.
    """
    alpha, beta = problem.alpha, problem.beta
    (K0, D, E, w, linear), b, q = x[:5].tolist(), x[5:7], x[7:]
    inside, cross, Tz = kernel(K0, E)
    filled, by_overlap, dJ = response(beta, C, kernel, x)
    V1, V2, t1 = filled / K0 / alpha, beta / E / alpha, float(cross @ b + Tz * linear)
    (m1, m2), (e1, e2) = (
        (inside @ b + cross * linear).tolist(),
        (by_overlap @ q / alpha - dJ).tolist(),
    )

    def s(at: SimpleNamespace) -> float:
        return 1 / (1 + V1 * at.mu1**2 + V2 * at.mu2)

    def learned(at: SimpleNamespace) -> float:
        return w * at.mu0 + m1 * at.kappa * at.mu1 + m2 * at.mu0c

    def g(at: SimpleNamespace) -> float:
        return s(at) * (at.h()[0] - learned(at))

    def e(at: SimpleNamespace) -> float:
        m, (h0, h1, h2) = learned(at), at.h()
        return h2 - 2 * m * h0 + m**2 - 2 * t1 * at.mu1 * h1 + e1 * at.mu1**2 + e2 * at.mu2

    new = [
        mean(lambda at: s(at) * at.mu1**2),
        mean(lambda at: s(at) * at.mu2) + problem.ridges[0],
        D + E / beta * filled,
        w + mean(lambda at: at.mu0 * g(at)) / mean(lambda at: s(at) * at.mu0**2),
        mean(lambda at: s(at) * at.mu1 * at.h()[1]),
        mean(lambda at: at.kappa * at.mu1 * g(at)),
        mean(lambda at: at.mu0c * g(at)) if C.size > 1 else 0.0,
        mean(lambda at: s(at) ** 2 * at.mu1**2 * e(at)),
        mean(lambda at: s(at) ** 2 * at.mu2 * e(at)),
    ]
    return np.array(new), s, e


def solve_as_the_field_does(
    problem: Problem,
    tolerance: float = 1e-6,
    seed: int = 0,
    spectrum: str = "sampled",
    tabulated: bool = False,
) -> dict[str, float]:
    """Risk, training error, iterations and seconds; d is infinite except in the sample.

    See the module's docstring.
    """
    started = time.perf_counter()
    covered = (
        str(problem.student) in FUNCTIONS
        and problem.readout.values == (1.0,)
        and problem.init == "sphere"
    )
    covered = (
        covered
        and problem.dimension == math.inf
        and problem.step_exponent == 0.5
        and problem.takes_step
    )
    if (
        not covered
        or problem.teacher.kinks
        or len(problem.ridges) != 1
        or spectrum not in ("sampled", "none")
    ):
        raise ValueError("outside of what the module's docstring says is covered")
    step = step_constants(problem)
    C, kernel = bulk_of(problem, step, seed, spectrum, tabulated)
    mean = mean_over_kappa(problem, step, tabulated)
    K, L = mean(lambda at: at.mu1**2), mean(lambda at: at.mu2)
    x = np.array(
        [K / 2, L / 2 + problem.ridges[0], L + step.c * K + problem.ridges[0], 1, 0, 0, 0, 0, 0]
    )
    vanishing = np.array(
        [0, 0, 0, 0.01, 0.01, 0.01, 0.01, 0, 0]
    )  # where a parameter may be zero, its change is absolute
    iterations, (new, s, e) = 0, update(problem, C, kernel, mean, x)
    while not np.all(np.abs(new - x) < tolerance * np.maximum(np.abs(x), vanishing)):
        if iterations == LIMIT:
            raise ArithmeticError(f"not converged after {LIMIT} iterations")
        x, iterations = DAMPING * new + (1 - DAMPING) * x, iterations + 1
        new, s, e = update(problem, C, kernel, mean, x)
    risk, training_error = mean(e) - problem.noise**2, mean(lambda at: s(at) ** 2 * e(at))
    return dict(
        risk=risk,
        training_error=training_error,
        iterations=iterations,
        seconds=time.perf_counter() - started,
    )


def main() -> None:
    with threadpool_limits(1):
        ratios = dict(alpha=3, beta=1, alpha0=2, step=3, ridge=0.1 / 3)
        problem = Problem(student="tanh", teacher="sin", readout="ones", init="sphere", **ratios)
        for spectrum, bulk in (
            ("sampled", "exact bulk, sampled 2000 x 2000"),
            ("none", "isotropic bulk [Cui]"),
        ):
            for tabulated, how in ((False, "quad in every iteration"), (True, "tabulated once")):
                found = solve_as_the_field_does(problem, spectrum=spectrum, tabulated=tabulated)
                print(
                    f"{bulk}, {how}: risk {found['risk']:.8f}, training error "
                    f"{found['training_error']:.8f}, ",
                    end="",
                )
                print(f"{found['iterations']} iterations, {found['seconds']:.2f} s", flush=True)


if __name__ == "__main__":
    main()
