"""OneStepClassifier() beside other classifiers and xRFM: ``python benchmarks/redrawn_classes.py``.

Prints the tables of docs/estimators.md, "Classes": seven sets that nothing was chosen by, then
those that the defaults were chosen by (``compared`` or ``chosen`` as an argument: one of the two).
As with benchmarks/redraws.py the column of xRFM is there under a Python that has it
(``pip install xrfm==0.4.5``). Half an hour on one idle core.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from classifiers import band, largest, logistic, one_sign
from estimators import WIDTH, Array, Sample, drawn, shipped, spread, table
from firststep import OneStepClassifier
from redraws import BANDWIDTHS, FIRST_SEED, HELD, RIDGES, clusters, directions, xrfm_model

try:
    import torch
    from xrfm import xRFM
except ImportError:
    xRFM = None  # noqa: N816

REPEATS = {"compared": 5, "chosen by": 3}


def of_classes(sample: Callable[[int], Sample]) -> Callable[[int], Sample]:
    """Labels as whole numbers."""

    def made(seed: int) -> Sample:
        x, y, tests, truth = sample(seed)
        return x, y.astype(int), tests, truth.astype(int)

    return made


COMPARED: dict[str, Callable[[int], Sample]] = {
    "breast cancer": of_classes(shipped(datasets.load_breast_cancer)),
    "wine": of_classes(shipped(datasets.load_wine)),
    "digits": of_classes(shipped(datasets.load_digits)),
    "iris": of_classes(shipped(datasets.load_iris)),
    "one sign": drawn(one_sign, 1000),
    "band": drawn(band, 1000),
    "largest of five": drawn(largest, 1000),
}


# Data that the defaults were chosen by ------------------------------------------------------------


def coin(logits: Array, rng: np.random.Generator) -> Array:
    """1 with probability sigmoid(logits)."""
    return (rng.random(len(logits)) < 1 / (1 + np.exp(-logits))).astype(int)


def halves(seed: int) -> Sample:
    """Whether the diabetes of a patient has progressed by more than 140."""
    x, y, tests, truth = shipped(datasets.load_diabetes)(seed)
    return x, (y > 140).astype(int), tests, (truth > 140).astype(int)


def xor(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Whether two of 15 columns have one sign, 5 % turned round."""
    x = rng.standard_normal((n, 15))
    return x, ((x[:, 0] * x[:, 1] > 0) ^ (rng.random(n) < 0.05)).astype(int)


def two_logits(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    x, z = directions(rng, n, 40, 2)
    return x, coin(3 * np.sin(2 * z[:, 0]) + 2 * z[:, 1], rng)


def three_bends(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    x, z = directions(rng, n, 50, 3)
    scores = np.stack([2 * z[:, 0], 2 * np.abs(z[:, 1]) - 1, 1.5 * np.cos(2 * z[:, 2])], axis=1)
    return x, np.argmax(scores + 0.5 * rng.gumbel(size=(n, 3)), axis=1)


def rings(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Four shells of 4 of 10 columns."""
    x = rng.standard_normal((n, 10))
    square = (x[:, :4] ** 2).sum(axis=1) + 0.3 * rng.standard_normal(n)
    return x, np.digitize(square, [2, 4, 6])


def sphere(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    x = rng.standard_normal((n, 10))
    return x, ((x**2).sum(axis=1) > 9.34).astype(int)


def redundant(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    options = {"n_informative": 5, "n_redundant": 8, "n_classes": 4, "n_clusters_per_class": 2}
    seed = int(rng.integers(2**31))
    return datasets.make_classification(  # type: ignore[no-any-return]
        n, 20, class_sep=1.2, flip_y=0.03, random_state=seed, **options
    )


def blobs(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Six Gaussians in 3 dimensions behind 12 columns."""
    means, classes = 2.2 * rng.standard_normal((6, 3)), rng.integers(0, 6, n)
    z = means[classes] + rng.standard_normal((n, 3))
    return z @ rng.standard_normal((3, 12)) + 0.3 * rng.standard_normal((n, 12)), classes


def moons(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Two half moons, turned in 8 columns."""
    x, y = datasets.make_moons(n, noise=0.25, random_state=int(rng.integers(2**31)))
    turned = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    return np.hstack([x, rng.standard_normal((n, 6))]) @ turned, y


def three_shares(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Nothing to learn but 60, 30 and 10 %."""
    return rng.standard_normal((n, 12)), rng.choice(3, n, p=[0.6, 0.3, 0.1])


def weak(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    x = rng.standard_normal((n, 25))
    return x, coin(x @ rng.standard_normal(25) / 5, rng)


def planes(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Three classes that planes tell apart, correlated columns."""
    x = rng.standard_normal((n, 20))
    x[:, 10:] += x[:, :10]
    scores = x @ rng.standard_normal((20, 3)) + 0.3 * rng.standard_normal((n, 3))
    return x, np.argmax(scores, axis=1)


def strokes(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """8 x 8 pictures with much noise: a row, a column, a cross, two short columns, a slope."""
    classes, pictures = rng.integers(0, 5, n), np.zeros((n, 8, 8))
    for kind, picture in zip(classes, pictures, strict=True):
        row, column = rng.integers(1, 6, 2)
        if kind in (0, 2):
            picture[row, :] = 1
        if kind in (1, 2):
            picture[:, column] = 1
        if kind == 3:
            picture[row : row + 3, [column, column + 2]] = 1
        if kind == 4:
            picture[np.arange(8), np.clip(np.arange(8) + row - 3, 0, 7)] = 1
    return (pictures + 0.5 * rng.standard_normal(pictures.shape)).reshape(n, 64), classes


CHOSEN_BY: dict[str, Callable[[int], Sample]] = {
    "diabetes, halves": halves,
    "clusters": of_classes(drawn(clusters, 1200)),
    "xor": drawn(xor, 1000),
    "two logits": drawn(two_logits, 1000),
    "three bends": drawn(three_bends, 1500),
    "rings": drawn(rings, 1000),
    "sphere": drawn(sphere, 800),
    "redundant": drawn(redundant, 600),
    "blobs": drawn(blobs, 200),
    "moons": drawn(moons, 300),
    "three shares": drawn(three_shares, 400),
    "weak": drawn(weak, 300),
    "planes": drawn(planes, 150),
    "strokes": drawn(strokes, 800),
}


# Methods ------------------------------------------------------------------------------------------


class XrfmClasses:
    """xRFM, bandwidth and ridge by the Brier score (its own default) of a fifth held out."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, x: Array, y: Array) -> XrfmClasses:
        self.units, self.classes_ = (x.mean(0), x.std(0) + 1e-12), np.unique(y)
        parts = train_test_split(
            ((x - self.units[0]) / self.units[1]).astype(np.float32),
            y.astype(np.int64),
            test_size=HELD,
            random_state=self.seed,
            stratify=y,
        )
        fitted, held, wanted, truth = (torch.tensor(each) for each in parts)
        indicators, best = np.eye(len(self.classes_))[parts[3]], np.inf
        for bandwidth in BANDWIDTHS:
            for ridge in RIDGES:
                model = xrfm_model(bandwidth, ridge, self.seed, metric="brier")
                model.fit(fitted, wanted, held, truth)
                apart = np.asarray(model.predict_proba(held)) - indicators
                if (error := float((apart**2).sum(axis=1).mean())) < best:
                    best, self.model = error, model
        return self

    def predict_proba(self, x: Array) -> Array:
        mean, scale = self.units
        found = self.model.predict_proba(torch.tensor(((x - mean) / scale).astype(np.float32)))
        return np.asarray(found, dtype=float)


def searched(model: Any, grid: dict[str, Any], scoring: str = "neg_log_loss") -> Any:
    return GridSearchCV(make_pipeline(StandardScaler(), model), grid, cv=3, scoring=scoring)


def machine(d: int) -> Any:
    """C and gamma by the error rate, then a sigmoid of its margins, by three folds each."""
    grid = {"svc__C": [0.3, 1, 3, 10, 30], "svc__gamma": [f / d for f in (0.1, 0.3, 1.0)]}
    return CalibratedClassifierCV(searched(SVC(), grid, "accuracy"), cv=3, ensemble=False)


METHODS: dict[str, Callable[[int, int], Any]] = {
    "redraws": lambda seed, d: OneStepClassifier(random_state=seed),
    "one step": lambda seed, d: OneStepClassifier(WIDTH, random_state=seed),
    "logistic": lambda seed, d: logistic(),
    "SVC (RBF)": lambda seed, d: machine(d),
    "MLP": lambda seed, d: searched(
        MLPClassifier(hidden_layer_sizes=(WIDTH,), random_state=seed),
        {"mlpclassifier__alpha": [1e-2, 1.0]},
    ),
    "boosted trees": lambda seed, d: searched(
        HistGradientBoostingClassifier(early_stopping=True, random_state=seed),
        {"histgradientboostingclassifier__learning_rate": [0.05, 0.2]},
    ),
}
if xRFM is not None:
    METHODS["xRFM"] = lambda seed, d: XrfmClasses(seed)
FEW = ("redraws", "logistic", "xRFM")  # on the data that the defaults were chosen by


def judged(model: Any, tests: Array, truth: Array) -> tuple[float, float]:
    """Error rate in %, and log-loss in nats: no probability below 1e-7 counts."""
    chances = np.clip(model.predict_proba(tests), 1e-7, 1)
    places = np.searchsorted(model.classes_, truth)
    own = chances[np.arange(len(truth)), places] / chances.sum(axis=1)
    return 100 * float(np.mean(chances.argmax(axis=1) != places)), float(-np.log(own).mean())


def measure(
    data: dict[str, Callable[[int], Sample]], names: list[str], first: int, repeats: int
) -> Array:
    """Error rates, log-losses and fit seconds x data x methods x repeats."""
    found = np.zeros((3, len(data), len(names), repeats))
    for i, (title, sample) in enumerate(data.items()):
        for seed in range(repeats):
            x, y, tests, truth = sample(first + seed)
            for j, name in enumerate(names):
                model, begin = METHODS[name](seed, x.shape[1]), time.process_time()
                model.fit(x, y)
                seconds = time.process_time() - begin
                found[:, i, j, seed] = *judged(model, tests, truth), seconds
            cells = [
                f"{name} {a:.1f} {b:.3f} {c:.2g}s"
                for name, (a, b, c) in zip(names, found[:, i, :, seed].T, strict=True)
            ]
            print(title, seed, ", ".join(cells), flush=True)
    return found


def report(
    title: str, data: dict[str, Callable[[int], Sample]], names: list[str], first: int
) -> None:
    repeats = REPEATS[title]
    found = measure(data, names, first, repeats)
    words = (("test error rate in %", 1), ("test log-loss", 3))
    for values, (what, digits) in zip(found[:2], words, strict=True):
        print(f"\n{title}, {what}, {repeats} repeats\n")
        apart = [values[:, 0] - values[:, -1]]
        rows = []
        for name, row, last in zip(data, values, apart[0], strict=True):
            cells = [f"{v.mean():.{digits}f} ± {spread(v):.{digits}f}" for v in row]
            rows.append((name, [*cells, f"{last.mean():+.{digits}f} ± {spread(last):.{digits}f}"]))
        table([*names, f"redraws − {names[-1]}"], iter(rows))
    ratios = np.median(found[2] / found[2][:, -1:], axis=-1)
    print(f"CPU seconds of fits over those of {names[-1]}, all choices included (median)\n")
    table(names, ((name, [f"{r:.2g}" for r in ratios[i]]) for i, name in enumerate(data)))


def main() -> None:
    warnings.simplefilter("ignore")  # of solvers that stop early
    begin, asked = time.process_time(), sys.argv[1:] or ["compared", "chosen"]
    if xRFM is not None:
        torch.set_num_threads(1)
    with threadpool_limits(1):
        if "compared" in asked:
            report("compared", COMPARED, list(METHODS), 0)
        if "chosen" in asked:
            few = [name for name in FEW if name in METHODS]
            report("chosen by", CHOSEN_BY, few, FIRST_SEED)
    print(f"{time.process_time() - begin:.0f} s in all")


if __name__ == "__main__":
    main()
