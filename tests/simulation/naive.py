"""The experiment written as plainly as possible, on the same random numbers: nothing in blocks, every matrix formed."""

from __future__ import annotations

import math

import numpy as np

from firststep.problem import Problem
from firststep.simulation.randomness import HostDraws


def data(problem: Problem, draws: HostDraws, d: int, count: int, purpose: str, theta: np.ndarray, index: int = 0):  # type: ignore[no-untyped-def]
    x = draws.rows(f"{purpose} inputs", 0, count, d, index)
    clean = problem.teacher(x @ theta)
    noise = draws.vector(f"{purpose} noise", count, index) if purpose != "test" else np.zeros(count)
    return x, clean + problem.noise * noise


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
):
    """Risk and training error for every ridge, and the weights before and after training."""
    draws, sizes = HostDraws(seed, number), problem.sizes(d)
    n, n0, width = sizes.samples, sizes.step_samples, sizes.width
    theta = draws.vector("teacher", d)
    theta /= np.linalg.norm(theta)
    w0 = draws.rows("weights", 0, d, width) / math.sqrt(d)
    if problem.init == "sphere":
        w0 /= np.linalg.norm(w0, axis=0)
    if problem.readout.is_gaussian:
        at = draws.vector("readout", width)
    else:
        edges = np.cumsum(problem.readout.weights)
        at = np.array(
            [problem.readout.values[int(np.searchsorted(edges[:-1], u, side="right"))] for u in draws.uniform("readout", width)]
        )
    a = at / math.sqrt(width)
    eta = problem.step * width**problem.step_exponent
    front = 1 / math.sqrt(width) if parameterization == "mean-field" else 1.0
    w = w0.copy()
    if problem.takes_step:
        for t in range(steps):
            x0, y0 = data(problem, draws, d, n0, "step", theta, t if batches == "fresh" else 0)
            z = x0 @ w
            outer = np.outer(front * (y0 - front * problem.student(z) @ a), a)
            g0 = x0.T @ (outer * problem.student.derivative(z)) / n0
            w = w + eta * (math.sqrt(width) if parameterization == "mean-field" else 1.0) * g0
    x, y = data(problem, draws, d, n, "step" if reuse else "ridge", theta)
    phi = problem.student(x @ w) / math.sqrt(width)
    x_test, y_test = data(problem, draws, d, test_samples, "test", theta)
    phi_test = problem.student(x_test @ w) / math.sqrt(width)
    risks, training = [], []
    for ridge in problem.ridges:
        stacked = np.vstack([phi / math.sqrt(n), math.sqrt(ridge / width) * np.eye(width)])
        coefficients = np.linalg.lstsq(stacked, np.concatenate([y / math.sqrt(n), np.zeros(width)]), rcond=None)[0]
        risks.append(np.mean((phi_test @ coefficients - y_test) ** 2))
        training.append(np.mean((phi @ coefficients - y) ** 2))
    return dict(risk=np.array(risks), training=np.array(training), w0=w0, w=w, theta=theta, at=at, phi=phi, y=y)
