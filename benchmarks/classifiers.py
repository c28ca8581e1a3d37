"""OneStepClassifier beside other classifiers: ``python benchmarks/classifiers.py``.

Two minutes on one idle core. Prints the tables of docs/estimators.md. Data come with scikit-learn
or are drawn here, as in ``benchmarks/estimators.py``.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from estimators import Array, Sample, drawn, shipped, spread, table
from firststep import OneStepClassifier

WIDTH = 300
REPEATS = 3
GRID = np.geomspace(1e-4, 1e4, 9)


def directions(d: int, count: int, seed: np.random.Generator) -> Array:
    return np.linalg.qr(seed.standard_normal((d, count)))[0]


def one_sign(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """The sign of <x, theta>, a tenth of the labels turned round."""
    theta = directions(100, 1, rng)[:, 0]
    x = rng.standard_normal((n, 100))
    return x, ((x @ theta > 0) != (rng.random(n) < 0.1)).astype(int)


def band(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Whether <x, theta> is between -1/2 and 1: no plane tells the two apart."""
    theta = directions(60, 1, rng)[:, 0]
    x = rng.standard_normal((n, 60))
    return x, ((x @ theta > -0.5) & (x @ theta < 1)).astype(int)


def largest(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Which of five coordinates along hidden directions is the largest, with some noise."""
    thetas = directions(60, 5, rng)
    x = rng.standard_normal((n, 60))
    return x, np.argmax(x @ thetas + 0.3 * rng.standard_normal((n, 5)), axis=1)


def noise(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    return rng.standard_normal((n, 20)), (rng.random(n) < 0.3).astype(int)


def few_digits(seed: int) -> Sample:
    """600 rows: all of them are learned well by anything."""
    x, y, tests, truth = shipped(datasets.load_digits)(seed)
    return x[:600], y[:600], tests, truth


DATA: dict[str, Callable[[int], Sample]] = {
    "breast cancer": shipped(datasets.load_breast_cancer),
    "wine": shipped(datasets.load_wine),
    "digits": few_digits,
    "one sign": drawn(one_sign, 1000),
    "band": drawn(band, 1000),
    "largest of five": drawn(largest, 1000),
    "noise": drawn(noise, 600),
}


def logistic() -> Any:
    return make_pipeline(
        StandardScaler(),
        LogisticRegressionCV(
            Cs=GRID, cv=3, scoring="neg_log_loss", use_legacy_attributes=False, l1_ratios=(0,)
        ),
    )


def tuned(model: Any, grid: dict[str, Any]) -> Any:
    return GridSearchCV(make_pipeline(StandardScaler(), model), grid, cv=3)


METHODS: dict[str, Callable[[int, int], Any]] = {
    "one step": lambda seed, d: OneStepClassifier(WIDTH, random_state=seed),
    "no step": lambda seed, d: OneStepClassifier(WIDTH, step=0, random_state=seed),
    "one step, squared hinge": lambda seed, d: OneStepClassifier(
        WIDTH, loss="squared-hinge", random_state=seed
    ),
    "logistic": lambda seed, d: logistic(),
    "linear SVC": lambda seed, d: tuned(LinearSVC(), {"linearsvc__C": GRID[:7]}),
    "SVC (RBF)": lambda seed, d: tuned(
        SVC(), {"svc__C": [0.3, 1, 3, 10, 30], "svc__gamma": [f / d for f in (0.1, 0.3, 1.0)]}
    ),
}
WITH_PROBABILITIES = ("one step", "no step", "logistic")


def log_loss(model: Any, tests: Array, truth: Array) -> float:
    """Mean of -log P(class) in nats."""
    chances = model.predict_log_proba(tests)
    return float(-np.mean(chances[np.arange(len(truth)), np.searchsorted(model.classes_, truth)]))


def measure() -> tuple[Array, Array, Array]:
    """Error rates, log losses (nan: no probabilities), fit seconds; data x methods x repeats."""
    rates, losses, seconds = np.full((3, len(DATA), len(METHODS), REPEATS), np.nan)
    for i, sample in enumerate(DATA.values()):
        for seed in range(REPEATS):
            x, y, tests, truth = sample(seed)
            for j, (name, make) in enumerate(METHODS.items()):
                model, begin = make(seed, x.shape[1]), time.process_time()
                model.fit(x, y)
                seconds[i, j, seed] = time.process_time() - begin
                rates[i, j, seed] = np.mean(model.predict(tests) != truth)
                if name in WITH_PROBABILITIES:
                    losses[i, j, seed] = log_loss(model, tests, truth)
    return rates, losses, seconds


def cells(values: Array, scale: float, digits: int) -> list[str]:
    return [f"{scale * v.mean():.{digits}f} ± {scale * spread(v):.{digits}f}" for v in values]


def main() -> None:
    warnings.simplefilter("ignore")  # of solvers that stop early
    begin = time.process_time()
    with threadpool_limits(1):
        rates, losses, seconds = measure()
    names = list(METHODS)
    print(f"test error rate in %, {REPEATS} repeats, width {WIDTH}\n")
    table(names, ((name, cells(rates[i], 100, 1)) for i, name in enumerate(DATA)))
    places = [names.index(name) for name in WITH_PROBABILITIES]
    print("test log loss\n")
    rows = ((name, cells(losses[i, places], 1, 3)) for i, name in enumerate(DATA))
    table(list(WITH_PROBABILITIES), rows)
    print("fit seconds (median over repeats)\n")
    medians = np.median(seconds, axis=-1)
    table(names, ((name, [f"{s:.2g}" for s in medians[i]]) for i, name in enumerate(DATA)))
    print(f"{time.process_time() - begin:.0f} s in all")


if __name__ == "__main__":
    main()
