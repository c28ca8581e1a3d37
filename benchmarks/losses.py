"""One logistic replicate against the ridge replicate and scikit-learn, in one process, one thread.

    python benchmarks/losses.py                      d = N = 1000, n = 3000
    python benchmarks/losses.py --dimension 300      smaller

The ratios are medians over rounds in which the two take turns: other programs slow both. Our fits
have a duality gap of 1e-9; at its default tol scikit-learn stops at 1e-6 to 4e-4 of the objective.
Each fit by scikit-learn is told with how far its objective is above ours; ``same`` is the largest
tol at which that is at most 1e-7, and what is shown of it is a fit at the same objective.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time
from collections.abc import Callable

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

from firststep import Problem, first_layer, simulate
from firststep.losses import loss_of
from firststep.simulation.fit.convex import Fit, Question
from firststep.simulation.fit.geometry import geometry_of
from firststep.simulation.randomness import HostDraws

SAME = 1e-7  # of the objective


def timed(function: Callable[[], object]) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def ratio(ours: Callable[[], object], theirs: Callable[[], object], rounds: int) -> str:
    pairs = [(timed(ours), timed(theirs)) for _ in range(rounds)]
    one, other = np.median(np.array(pairs), axis=0)
    share = np.median([a / b for a, b in pairs])
    return f"{one:7.2f} s against {other:7.2f} s: {share:.2f} times"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dimension", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    d, rounds = given.dimension, given.rounds
    base = dict(student="tanh", teacher="tanh", alpha=3, beta=1, readout="ones", step=1.0)
    ridge = Problem(**base, ridge=0.01)
    for loss in ("logistic", "squared-hinge", "hinge"):
        asked = Problem(**base, ridge=0.01, labels="sign", flip=0.05, loss=loss)
        told = ratio(
            lambda asked=asked: simulate(asked, d, 1, workers=1),
            lambda: simulate(ridge, d, 1, workers=1),
            rounds,
        )
        print(f"replicate, {loss} against ridge regression: {told}", flush=True)
    features, labels = rows_of(Problem(**base, ridge=0.01, labels="sign", flip=0.05), d)
    for strength in (0.1, 0.01, 0.0001):
        C = 1 / (2 * len(labels) * strength)
        plain, lbfgs = dict(C=C, fit_intercept=False), dict(max_iter=100_000)
        for name, model in (
            ("logistic", LogisticRegression(**plain, **lbfgs)),
            ("logistic, same", LogisticRegression(**plain, **lbfgs)),
            ("logistic, same", LogisticRegression(**plain, solver="newton-cholesky")),
            ("squared-hinge", LinearSVC(**plain, dual=False)),
            ("hinge", SVC(C=C, kernel="linear")),
        ):
            beside(name, model, (features, labels), strength, rounds)


def rows_of(asked: Problem, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Features of one network after its step, and labels."""
    layer, n, draws = first_layer(asked, d), asked.sizes(d).samples, HostDraws(0, 0)
    inputs = draws.rows("ridge inputs", 0, n, d)
    features = np.tanh(inputs @ layer.after)
    flips = np.where(draws.uniform("ridge labels", n) < asked.flip, -1.0, 1.0)
    return features, np.sign(inputs @ layer.teacher) * flips


def beside(
    name: str,
    model: BaseEstimator,
    rows: tuple[np.ndarray, np.ndarray],
    strength: float,
    rounds: int,
) -> None:
    """Our fit against that of scikit-learn, and how much lower our objective is."""
    (features, labels), (loss, _, same) = rows, name.partition(",")
    question = Question(loss_of(loss), labels, loss == "hinge")

    def ours() -> float:
        fit = Fit(question, geometry_of(features))
        (found,) = fit.path((strength,))
        return fit.objective(found, strength)

    def theirs() -> float:
        model.fit(features, labels)
        b, constant = np.ravel(model.coef_), model.intercept_
        margins = question.loss.value(labels, features @ b + constant)
        return float(margins.mean() + strength * b @ b)

    best = ours()
    excess = theirs() / best - 1
    while same and excess > SAME and model.tol > 1e-14:
        model = clone(model).set_params(tol=model.tol / 10)
        excess = theirs() / best - 1
    told = ratio(ours, lambda: model.fit(features, labels), 1 if loss == "hinge" else rounds)
    who = f"{type(model).__name__} {getattr(model, 'solver', '')} tol {model.tol:g}"
    print(f"fit, {name}, ridge {strength:g}, against {who} ({excess:+.0e}): {told}", flush=True)


if __name__ == "__main__":
    main()
