"""The experiment written as plainly as possible, on the same random numbers: nothing in blocks,
every matrix formed.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import linalg, stats

from firststep.activations import activation
from firststep.problem import Problem
from firststep.simulation.randomness import HostDraws


def rows(
    draws: HostDraws,
    d: int,
    count: int,
    purpose: str,
    index: int,
    law: str,
    table=None,
    first: int = 0,
):  # type: ignore[no-untyped-def]
    """The law of the inputs by its definition; quantile functions by scipy.stats. ``table``: data,
    read from row ``first`` on.
    """
    if table is not None:
        order = np.argsort(draws.uniform("data rows", len(table)), kind="stable")
        return table[order[first : first + count]]
    g = draws.rows(f"{purpose} inputs", 0, count, d, index)
    kind, _, number = law.partition(":")
    if kind == "gaussian":
        return g
    if kind == "spectrum":
        return g * np.sqrt(np.array(number.split(",")).astype(float))
    if kind == "rademacher":
        return np.where(g < 0, -1.0, 1.0)
    if kind == "uniform":
        return math.sqrt(12) * (stats.norm.cdf(g) - 0.5)
    p = float(number)
    if kind == "student-t":
        return np.sign(g) * stats.t.isf(stats.norm.sf(np.abs(g)), p) * math.sqrt((p - 2) / p)
    if kind == "power-law":
        variances = np.arange(1, d + 1) ** -p
        return g * np.sqrt(variances * d / variances.sum())
    extra = draws.rows(f"{purpose} scales", 0, count, 1, index)
    if kind == "elliptical-t":
        return g * np.sqrt((p - 2) / stats.chi2.ppf(stats.norm.sf(extra), p))
    assert kind == "mixture"
    axis = draws.vector("mixture direction", d)
    axis = axis / np.linalg.norm(axis)
    rest = g - np.outer(g @ axis, axis)
    return rest + np.outer(
        (np.where(extra[:, 0] < 0, -p, p) + g @ axis) / math.sqrt(1 + p * p), axis
    )


def clean(problem: Problem, x: np.ndarray, theta: np.ndarray, terms: tuple[str, ...]):  # type: ignore[no-untyped-def]
    columns = theta.reshape(len(theta), -1)
    functions = [problem.teacher, *(activation(term) for term in terms)]
    return sum(function(x @ columns[:, j]) for j, function in enumerate(functions))


def data(  # type: ignore[no-untyped-def]
    problem: Problem,
    draws: HostDraws,
    d: int,
    count: int,
    purpose: str,
    theta: np.ndarray,
    index: int = 0,
    law: str = "gaussian",
    terms: tuple[str, ...] = (),
    table=None,
    first: int = 0,
):
    x = rows(draws, d, count, purpose, index, law, table, first)
    noise = draws.vector(f"{purpose} noise", count, index) if purpose != "test" else np.zeros(count)
    return x, clean(problem, x, theta, terms) + problem.noise * noise


def directions(draws: HostDraws, d: int, terms: int):  # type: ignore[no-untyped-def]
    """theta, and the orthonormal directions of further terms by a QR decomposition with positive
    diagonal.
    """
    vectors = [
        draws.vector("teacher", d),
        *(draws.vector("teacher terms", d, j) for j in range(terms)),
    ]
    q, r = np.linalg.qr(np.stack(vectors, axis=1))
    q = q * np.sign(np.diag(r))
    return q if terms else q[:, 0]


class Descent:
    """The optimisers from their textbooks, for a gradient g of the loss (downhill is -g)."""

    def __init__(self, name: str, rate: float, sizes, damping: float = 0.1) -> None:  # type: ignore[no-untyped-def]
        self.name, self.rate, self.t, self.m, self.v = name, rate, 0, 0.0, 0.0
        self.damping = damping
        if name == "adam":
            self.rate = rate / math.sqrt(sizes.width) / math.sqrt(sizes.dimension)

    def turned(self, g, x, covariance):  # type: ignore[no-untyped-def]
        """The other directions, by the plainest route there is."""
        if self.name == "sign":
            return np.where(g > 0, 1.0, np.where(g < 0, -1.0, 0.0))
        if self.name == "muon":
            return linalg.polar(g)[0]  # of full rank
        c = covariance if self.name == "whitened-exact" else x.T @ x / len(x)
        return np.linalg.solve(c + self.damping * np.trace(c) / len(c) * np.eye(len(c)), g)

    def move(self, w, g, x, covariance):  # type: ignore[no-untyped-def]
        self.t += 1
        if self.name in ("sign", "muon", "whitened", "whitened-exact"):
            other = self.turned(g, x, covariance)
            return w - self.rate * np.linalg.norm(g) * other / np.linalg.norm(other)
        if self.name == "gradient":
            return w - self.rate * g
        if self.name == "momentum":
            self.m = 0.9 * self.m + g
            return w - self.rate * self.m
        self.m = 0.9 * self.m + (1 - 0.9) * g
        self.v = 0.999 * self.v + (1 - 0.999) * g**2
        return w - self.rate * (self.m / (1 - 0.9**self.t)) / (
            np.sqrt(self.v / (1 - 0.999**self.t)) + 1e-8
        )


def network(  # type: ignore[no-untyped-def]
    problem: Problem,
    d: int,
    seed: int,
    number: int,
    test_samples: int,
    parameterization: str = "mean-field",
    steps: int = 1,
    batches: str = "fresh",
    reuse: bool = False,
    optimizer: str = "gradient",
    inputs: str = "gaussian",
    teacher_terms: tuple[str, ...] = (),
    table=None,
    theta=None,
    weight_decay: float = 0.0,
    damping: float = 0.1,
):
    """Risk and training error for every ridge, and the weights before and after training.

    ``theta``: the directions of the teacher, if they are not drawn.
    """
    draws, sizes = HostDraws(seed, number), problem.sizes(d)
    n, n0, width = sizes.samples, sizes.step_samples, sizes.width
    theta = directions(draws, d, len(teacher_terms)) if theta is None else theta
    w0 = draws.rows("weights", 0, d, width) / math.sqrt(d)
    if problem.init == "sphere":
        w0 /= np.linalg.norm(w0, axis=0)
    if problem.readout.is_gaussian:
        at = draws.vector("readout", width)
    else:
        edges = np.cumsum(problem.readout.weights)
        at = np.array(
            [
                problem.readout.values[int(np.searchsorted(edges[:-1], u, side="right"))]
                for u in draws.uniform("readout", width)
            ]
        )
    a = at / math.sqrt(width)
    front = 1 / math.sqrt(width) if parameterization == "mean-field" else 1.0
    descent = Descent(optimizer, problem.step * width**problem.step_exponent, sizes, damping)
    covariance = np.eye(d)
    if inputs.startswith("power-law"):
        variances = np.arange(1, d + 1) ** -float(inputs.partition(":")[2])
        covariance = np.diag(variances / variances.mean())
    w = w0.copy()
    common = dict(law=inputs, terms=teacher_terms, table=table)
    if problem.takes_step:
        for t in range(steps):
            batch = t if batches == "fresh" else 0
            start = 0 if reuse else n + test_samples + batch * n0
            x0, y0 = data(problem, draws, d, n0, "step", theta, batch, **common, first=start)
            z = x0 @ w
            outer = np.outer(front * (y0 - front * problem.student(z) @ a), a)
            g0 = x0.T @ (outer * problem.student.derivative(z)) / n0
            g0 = (math.sqrt(width) if parameterization == "mean-field" else 1.0) * g0
            moved = descent.move(w, -g0, x0, covariance)
            w = moved - problem.step * weight_decay * w
    x, y = data(problem, draws, d, n, "step" if reuse else "ridge", theta, **common)
    phi = problem.student(x @ w) / math.sqrt(width)
    x_test, y_test = data(problem, draws, d, test_samples, "test", theta, **common, first=n)
    phi_test = problem.student(x_test @ w) / math.sqrt(width)
    risks, training = [], []
    for ridge in problem.ridges:
        stacked = np.vstack([phi / math.sqrt(n), math.sqrt(ridge / width) * np.eye(width)])
        coefficients = np.linalg.lstsq(
            stacked, np.concatenate([y / math.sqrt(n), np.zeros(width)]), rcond=None
        )[0]
        risks.append(np.mean((phi_test @ coefficients - y_test) ** 2))
        training.append(np.mean((phi @ coefficients - y) ** 2))
    return dict(
        risk=np.array(risks),
        training=np.array(training),
        w0=w0,
        w=w,
        theta=theta,
        at=at,
        phi=phi,
        y=y,
    )
