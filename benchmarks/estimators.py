"""OneStepRegressor beside other regressors: ``python benchmarks/estimators.py``.

Three minutes on one idle core.

With ``--device gpu`` (or cpu): JAX on that device beside NumPy on all cores instead, the same fit.

Prints the tables of docs/estimators.md and draws docs/images/estimators.png. Data come with
scikit-learn or are drawn here.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import RBFSampler
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from firststep import OneStepRegressor, plots

Array = np.ndarray[Any, Any]
Sample = tuple[Array, Array, Array, Array]
WIDTH = 300
REPEATS = 5
ALPHAS = np.geomspace(1e-4, 1e4, 25)
OURS = "one step"
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "estimators.png"


# Data: train and test inputs and targets of one repeat --------------------------------------------


def shipped(load: Callable[..., Any]) -> Callable[[int], Sample]:
    def sample(seed: int) -> Sample:
        x, y = load(return_X_y=True)
        train, test, y_train, y_test = train_test_split(
            x, y.astype(float), test_size=0.25, random_state=seed
        )
        return train, y_train, test, y_test

    return sample


def drawn(
    make: Callable[[int, np.random.Generator], tuple[Array, Array]], count: int
) -> Callable[[int], Sample]:
    def sample(seed: int) -> Sample:
        x, y = make(count + 2000, np.random.default_rng(seed))
        return x[:count], y[:count], x[count:], y[count:]

    return sample


def friedman(
    function: Callable[..., Any], noise: float
) -> Callable[[int, np.random.Generator], tuple[Array, Array]]:
    return lambda n, rng: function(n, noise=noise, random_state=int(rng.integers(2**31)))


def teacher(
    d: int, directions: int, function: Callable[[Array], Array]
) -> Callable[[int, np.random.Generator], tuple[Array, Array]]:
    """y = sum of function(<x, theta_k>) over orthonormal directions + 0.2 eps, x ~ N(0, I)."""

    def make(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        x, thetas = (
            rng.standard_normal((n, d)),
            np.linalg.qr(rng.standard_normal((d, directions)))[0],
        )
        return x, function(x @ thetas).sum(axis=1) + 0.2 * rng.standard_normal(n)

    return make


DATA: dict[str, Callable[[int], Sample]] = {
    "diabetes": shipped(datasets.load_diabetes),
    "breast cancer": shipped(datasets.load_breast_cancer),
    "wine": shipped(datasets.load_wine),
    "digits": shipped(datasets.load_digits),
    "friedman 1": drawn(friedman(datasets.make_friedman1, 1.0), 1000),
    "friedman 2": drawn(friedman(datasets.make_friedman2, 100.0), 1000),
    "one tanh": drawn(teacher(100, 1, lambda z: np.tanh(3 * z)), 2000),
    "two relu": drawn(teacher(100, 2, lambda z: np.maximum(z, 0)), 2000),
    "noise": drawn(lambda n, rng: (rng.standard_normal((n, 20)), rng.standard_normal(n)), 1000),
}


# Regressors ---------------------------------------------------------------------------------------


class RBFFeatures(BaseEstimator):  # type: ignore[misc]
    """Random Fourier features and ridge; the scale and the ridge by leave-one-out, as ours."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, x: Array, y: Array) -> RBFFeatures:
        best = -np.inf
        for factor in (0.1, 0.3, 1.0, 3.0):
            sampler = RBFSampler(
                gamma=factor / x.shape[1], n_components=WIDTH, random_state=self.seed
            )
            model = make_pipeline(StandardScaler(), sampler, RidgeCV(ALPHAS)).fit(x, y)
            if model[-1].best_score_ > best:
                best, self.model_ = model[-1].best_score_, model
        return self

    def predict(self, x: Array) -> Array:
        return np.asarray(self.model_.predict(x))


def kernel_ridge(d: int) -> Any:
    grid = {
        "kernelridge__gamma": [f / d for f in (0.1, 0.3, 1.0)],
        "kernelridge__alpha": [0.01, 0.1, 1.0, 10.0],
    }
    inner = GridSearchCV(make_pipeline(StandardScaler(), KernelRidge(kernel="rbf")), grid, cv=3)
    return TransformedTargetRegressor(inner, transformer=StandardScaler())


def perceptron(seed: int) -> Any:
    network = MLPRegressor(
        hidden_layer_sizes=(WIDTH,), early_stopping=True, max_iter=500, random_state=seed
    )
    return TransformedTargetRegressor(
        make_pipeline(StandardScaler(), network), transformer=StandardScaler()
    )


METHODS: dict[str, Callable[[int, int], Any]] = {
    OURS: lambda seed, d: OneStepRegressor(WIDTH, random_state=seed),
    "no step": lambda seed, d: OneStepRegressor(WIDTH, step=0, random_state=seed),
    "ridge": lambda seed, d: make_pipeline(StandardScaler(), RidgeCV(ALPHAS)),
    "RBF features": lambda seed, d: RBFFeatures(seed),
    "RBF kernel": lambda seed, d: kernel_ridge(d),
    "MLP": lambda seed, d: perceptron(seed),
    "boosted trees": lambda seed, d: HistGradientBoostingRegressor(random_state=seed),
}
# What the defaults were chosen against; each changes one argument.
CHOICES: dict[str, dict[str, Any]] = {
    "default": {},
    "refit readout": {"refit": "readout"},
    "refit none": {"refit": "none"},
    "fraction all": {"step_fraction": "all"},
    "relu": {"student": "relu"},
    "tanh": {"student": "tanh"},
    "3 steps": {"steps": 3},
}


def measure(methods: dict[str, Callable[[int, int], Any]], repeats: int) -> tuple[Array, Array]:
    """Test R^2 and fit seconds, data x methods x repeats."""
    scores, seconds = np.zeros((2, len(DATA), len(methods), repeats))
    for i, sample in enumerate(DATA.values()):
        for seed in range(repeats):
            x, y, tests, truth = sample(seed)
            for j, make in enumerate(methods.values()):
                model, begin = make(seed, x.shape[1]), time.perf_counter()
                model.fit(x, y)
                seconds[i, j, seed] = time.perf_counter() - begin
                scores[i, j, seed] = r2_score(truth, model.predict(tests))
    return scores, seconds


def table(methods: list[str], rows: Iterator[tuple[str, list[str]]]) -> None:
    print("| data | " + " | ".join(methods) + " |")
    print("| --- |" + " --- |" * len(methods))
    for name, cells in rows:
        print(f"| {name} | " + " | ".join(cells) + " |")
    print(flush=True)


def spread(values: Array) -> Array:
    """Standard error of the mean over the last axis."""
    return np.asarray(values.std(axis=-1, ddof=1) / np.sqrt(values.shape[-1]))


def draw(means: Array, errors: Array) -> None:
    """A row for every data set, the methods one under the other in it."""
    colors = ("red", "orange", "grey", "sky", "blue", "green", "pink")
    with plots.figure(8.0, 7.6) as (figure, axes):
        for i in range(1, len(DATA), 2):
            axes.axhspan(i - 0.5, i + 0.5, color="#F2F2F2", zorder=0)
        for j, (name, color, marker) in enumerate(zip(METHODS, colors, "ooXsD^v", strict=True)):
            rows = np.arange(len(DATA)) + (j - (len(METHODS) - 1) / 2) * 0.12
            size = 8 if name == OURS else 6
            axes.errorbar(
                means[:, j],
                rows,
                xerr=errors[:, j],
                fmt=marker,
                color=plots.COLORS[color],
                markersize=size,
                linewidth=1.2,
                markeredgecolor="white",
                markeredgewidth=0.5,
                label=name,
            )
        axes.axvline(0, color="#888888", linewidth=0.8, zorder=1)
        axes.set_yticks(range(len(DATA)), list(DATA))
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(DATA) - 0.5, -0.5)
        axes.set_xlim(float(means.min()) - 0.04, 1.0)
        axes.grid(visible=False, axis="y")
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(f"test R², mean and standard error of {REPEATS} repeats")
        figure.legend(
            *axes.get_legend_handles_labels(),
            ncols=len(METHODS),
            loc="outside upper center",
            columnspacing=1.2,
            handletextpad=0.2,
        )
        figure.savefig(PICTURE, dpi=140)


def devices(device: str, count: int, d: int, width: int) -> None:
    """Seconds of a fit on NumPy and on JAX once compiled, and how far apart they predict."""
    rng = np.random.default_rng(0)
    x, theta = rng.standard_normal((count, d)), rng.standard_normal(d) / np.sqrt(d)
    y = np.tanh(2 * x @ theta) + 0.3 * rng.standard_normal(count)
    seconds, models = [], []
    for options in ({}, {"backend": "jax", "device": device}, {"backend": "jax", "device": device}):
        begin = time.perf_counter()
        models.append(OneStepRegressor(width, random_state=0, **options).fit(x, y))
        seconds.append(time.perf_counter() - begin)
    apart = np.abs(models[0].predict(x) - models[-1].predict(x)).max()
    host, compiling, compiled = seconds
    print(
        f"{count} x {d}, width {width}: NumPy {host:.2f} s, JAX on {device} {compiled:.2f} s "
        f"({host / compiled:.1f} times),"
    )
    print(f"{compiling:.0f} s the first time, with compilation; predictions differ by {apart:.1e}")


def even_teachers() -> None:
    """y = <x, theta>^2 + 0.2 eps: a step sees it only through the student's second coefficient."""
    print("even teacher, 2000 samples: test R² of no step, one step, three steps")
    for d in (30, 100):
        sample = drawn(teacher(d, 1, np.square), 2000)
        found = np.zeros((3, REPEATS))
        for seed in range(REPEATS):
            x, y, tests, truth = sample(seed)
            for j, options in enumerate(({"step": 0}, {}, {"steps": 3})):
                found[j, seed] = (
                    OneStepRegressor(WIDTH, random_state=seed, **options)
                    .fit(x, y)
                    .score(tests, truth)
                )
        print(f"d = {d}: " + ", ".join(f"{each.mean():.3f} ± {spread(each):.3f}" for each in found))


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1] == "--device":
        devices(sys.argv[2], 20_000, 200, 1000)
        return
    warnings.simplefilter("ignore", ConvergenceWarning)
    begin = time.perf_counter()
    with threadpool_limits(1):
        scores, seconds = measure(METHODS, REPEATS)
    names = list(METHODS)
    means, errors = scores.mean(axis=-1), spread(scores)
    cells = [
        [f"{means[i, j]:.3f} ± {errors[i, j]:.3f}" for j in range(len(names))]
        for i in range(len(DATA))
    ]
    print(f"test R², {REPEATS} repeats, width {WIDTH}\n")
    table(names, zip(DATA, cells, strict=True))
    ratios = np.median(seconds / seconds[:, :1], axis=-1)
    print("fit seconds over those of one step (median over repeats)\n")
    table(names, ((name, [f"{r:.2g}" for r in ratios[i]]) for i, name in enumerate(DATA)))
    print(
        "seconds of one step:",
        ", ".join(
            f"{name} {s:.2g}"
            for name, s in zip(DATA, np.median(seconds[:, 0], axis=-1), strict=True)
        ),
    )
    draw(means, errors)
    with threadpool_limits(1):
        others = {
            name: (lambda seed, d, o=options: OneStepRegressor(WIDTH, random_state=seed, **o))
            for name, options in CHOICES.items()
        }
        scores, _ = measure(others, REPEATS)
    apart = scores - scores[:, :1]
    print("\ntest R² minus that of the default, the same data and seeds\n")
    cells = [
        [
            f"{scores[i, 0].mean():.3f}",
            *(f"{a.mean():+.3f} ± {spread(a):.3f}" for a in apart[i, 1:]),
        ]
        for i in range(len(DATA))
    ]
    table(list(CHOICES), zip(DATA, cells, strict=True))
    with threadpool_limits(1):
        even_teachers()
    print(f"{time.perf_counter() - begin:.0f} s in all")


if __name__ == "__main__":
    main()
