"""One logistic replicate against the ridge replicate and scikit-learn, in one process, one thread.

    python benchmarks/losses.py                      d = N = 1000, n = 3000
    python benchmarks/losses.py --dimension 300      smaller

The ratios are medians over rounds in which the two take turns: other programs slow both. Our fits
have a duality gap of 1e-9; at its default tol scikit-learn stops at 1e-6 to 4e-4 of the objective.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time
from collections.abc import Callable

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

from firststep import Problem, first_layer, simulate
from firststep.losses import loss_of
from firststep.simulation.fit.convex import Fit, Question
from firststep.simulation.fit.geometry import geometry_of
from firststep.simulation.randomness import HostDraws


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
    asked = Problem(**base, ridge=0.01, labels="sign", flip=0.05, loss="logistic")
    layer, n, draws = first_layer(asked, d), asked.sizes(d).samples, HostDraws(0, 0)
    inputs = draws.rows("ridge inputs", 0, n, d)
    features = np.tanh(inputs @ layer.after)
    flips = np.where(draws.uniform("ridge labels", n) < 0.05, -1.0, 1.0)
    labels = np.sign(inputs @ layer.teacher) * flips
    for strength in (0.1, 0.01, 0.0001):
        C = 1 / (2 * n * strength)
        plain = dict(C=C, fit_intercept=False)
        for name, model in (
            ("logistic", LogisticRegression(**plain, max_iter=10_000)),
            ("logistic", LogisticRegression(**plain, max_iter=10_000, tol=1e-6)),
            ("logistic", LogisticRegression(**plain, solver="newton-cholesky")),
            ("squared-hinge", LinearSVC(**plain, dual=False)),
            ("hinge", SVC(C=C, kernel="linear")),
        ):
            question = Question(loss_of(name), labels, name == "hinge")
            told = ratio(
                lambda question=question, at=strength: Fit(question, geometry_of(features)).path(
                    (at,)
                ),
                lambda model=model: model.fit(features, labels),
                1 if name == "hinge" else rounds,
            )
            who = f"{type(model).__name__} {getattr(model, 'solver', '')} tol {model.tol:g}"
            print(f"fit, {name}, ridge {strength:g}, against {who}: {told}", flush=True)


if __name__ == "__main__":
    main()
