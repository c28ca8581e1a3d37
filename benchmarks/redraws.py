"""OneStepRegressor() beside one step and xRFM: ``python benchmarks/redraws.py``.

Prints the tables of docs/estimators.md, "Redraws": the data that the defaults were chosen by, then
the nine of benchmarks/estimators.py. xRFM (which needs torch) is no dependency of this library: the
script runs under any Python that has it (``pip install xrfm==0.4.5``), and without that column
elsewhere. Ten minutes on a busy core.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from estimators import DATA, Array, Sample, drawn, friedman, shipped, spread, table
from firststep import OneStepRegressor

try:
    import torch
    from xrfm import xRFM
except ImportError:
    xRFM = None  # noqa: N816

REPEATS = {"chosen by": 3, "compared": 5}
# A small validation grid: 12 points, up to five iterations each, stopped early.
BANDWIDTHS, RIDGES, ITERATIONS, HELD = (3.0, 10.0, 30.0), (1e-3, 1e-2, 1e-1, 1.0), 5, 0.2


# Data that the defaults were chosen by ------------------------------------------------------------


def directions(rng: np.random.Generator, n: int, d: int, count: int) -> tuple[Array, Array]:
    """x ~ N(0, I_d) and its projections on orthonormal directions."""
    x = rng.standard_normal((n, d))
    return x, x @ np.linalg.qr(rng.standard_normal((d, count)))[0]


def interaction(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    x = rng.standard_normal((n, 15))
    noise = 0.3 * rng.standard_normal(n)
    return x, x[:, 0] * x[:, 1] + x[:, 2] * np.abs(x[:, 3]) + noise


def additive(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    x = rng.uniform(-1, 1, (n, 30))
    return x, np.sin(3 * x[:, :6] + np.arange(6)).sum(axis=1) + 0.5 * rng.standard_normal(n)


def three_directions(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    x, z = directions(rng, n, 50, 3)
    y = np.sin(2 * z[:, 0]) + z[:, 1] ** 2 / 2 + np.tanh(2 * z[:, 2])
    return x, y + 0.3 * rng.standard_normal(n)


def two_mixed(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    x, z = directions(rng, n, 80, 2)
    y = np.logaddexp(0, 2 * z[:, 0]) + np.maximum(z[:, 1], -0.5)
    return x, y + 0.25 * rng.standard_normal(n)


def single_relu(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    x, z = directions(rng, n, 60, 1)
    return x, np.maximum(2 * z[:, 0] - 0.5, 0) + 0.3 * rng.standard_normal(n)


def weak_linear(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Correlated columns and much noise."""
    x = rng.standard_normal((n, 3)) @ rng.standard_normal((3, 10))
    x = x + 0.7 * rng.standard_normal((n, 10))
    y = x @ (rng.standard_normal(10) / np.sqrt(10))
    y = y / y.std() + 0.3 * np.maximum(x[:, 0], 0)
    return x, y + 1.2 * rng.standard_normal(n)


def clusters(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Numbers of 8 classes, each of 3 clusters in 3 dimensions behind 40 columns."""
    classes = rng.integers(0, 8, n)
    means = 3 * rng.standard_normal((24, 3))
    z = means[3 * classes + rng.integers(0, 3, n)] + 0.6 * rng.standard_normal((n, 3))
    x = np.tanh(z @ rng.standard_normal((3, 40)) + rng.standard_normal(40))
    return x + 0.15 * rng.standard_normal((n, 40)), classes.astype(float)


def heavy_noise(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    return rng.standard_normal((n, 40)), rng.standard_t(4, n)


def radial(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    x = rng.standard_normal((n, 8))
    return x, np.cos(2 * np.linalg.norm(x[:, :4], axis=1)) + 0.2 * rng.standard_normal(n)


def swiss_roll(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    x, place = datasets.make_swiss_roll(n, noise=0.5, random_state=int(rng.integers(2**31)))
    return np.hstack([x, 3 * rng.standard_normal((n, 7))]), place


CHOSEN_BY: dict[str, Callable[[int], Sample]] = {
    "iris as numbers": shipped(datasets.load_iris),
    "friedman 3": drawn(friedman(datasets.make_friedman3, 0.1), 1000),
    "interaction": drawn(interaction, 1000),
    "additive": drawn(additive, 1000),
    "three directions": drawn(three_directions, 2000),
    "two mixed": drawn(two_mixed, 1600),
    "single relu": drawn(single_relu, 1000),
    "weak linear": drawn(weak_linear, 300),
    "clusters": drawn(clusters, 1200),
    "heavy noise": drawn(heavy_noise, 800),
    "radial": drawn(radial, 1500),
    "swiss roll": drawn(swiss_roll, 1000),
}
FIRST_SEED = 1000  # of these; the nine have seeds from 0


# Methods ------------------------------------------------------------------------------------------


def xrfm_model(bandwidth: float, ridge: float, seed: int, *, metric: str) -> Any:
    """xRFM with one choice."""
    kernel = dict(kernel="l2", bandwidth=bandwidth, exponent=1.0, diag=False)
    fit = dict(reg=ridge, iters=ITERATIONS, verbose=False, early_stop_rfm=True)
    return xRFM(
        rfm_params={"model": {**kernel, "bandwidth_mode": "constant"}, "fit": fit},
        device=torch.device("cpu"),
        tuning_metric=metric,
        n_threads=1,
        verbose=False,
        random_state=seed,
    )


class Xrfm:
    """xRFM, bandwidth and ridge by a fifth of the rows held out, which also stop its iterations."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, x: Array, y: Array) -> Xrfm:
        self.units = x.mean(0), x.std(0) + 1e-12, y.mean(), y.std()
        mean, scale, offset, size = self.units
        parts = train_test_split(
            ((x - mean) / scale).astype(np.float32),
            ((y - offset) / size).astype(np.float32)[:, None],
            test_size=HELD,
            random_state=self.seed,
        )
        fitted, held, wanted, truth = (torch.tensor(each) for each in parts)
        best = np.inf
        for bandwidth in BANDWIDTHS:
            for ridge in RIDGES:
                model = xrfm_model(bandwidth, ridge, self.seed, metric="mse")
                model.fit(fitted, wanted, held, truth)
                apart = np.asarray(model.predict(held)).ravel() - truth.numpy().ravel()
                if (error := float((apart**2).mean())) < best:
                    best, self.model = error, model
        return self

    def predict(self, x: Array) -> Array:
        mean, scale, offset, size = self.units
        scaled = torch.tensor(((x - mean) / scale).astype(np.float32))
        return np.asarray(self.model.predict(scaled)).ravel() * size + offset


METHODS: dict[str, Callable[[int], Any]] = {
    "redraws": lambda seed: OneStepRegressor(random_state=seed),
    "one step": lambda seed: OneStepRegressor(300, random_state=seed),
}
if xRFM is not None:
    METHODS["xRFM"] = Xrfm


def compare(name: str, data: dict[str, Callable[[int], Sample]], first: int) -> None:
    """Test R^2, and fit seconds over those of the last method."""
    rows = []
    for title, sample in data.items():
        scores, seconds = np.zeros((2, len(METHODS), REPEATS[name]))
        for repeat in range(REPEATS[name]):
            x, y, tests, truth = sample(first + repeat)
            for place, make in enumerate(METHODS.values()):
                model, begin = make(repeat), time.process_time()
                model.fit(x, y)
                seconds[place, repeat] = time.process_time() - begin
                scores[place, repeat] = r2_score(truth, model.predict(tests))
        cells = [f"{each.mean():.3f} ± {spread(each):.3f}" for each in scores]
        apart = scores[0] - scores[-1]
        ratio = np.median(seconds[0] / seconds[-1])
        rows.append((title, [*cells, f"{apart.mean():+.3f} ± {spread(apart):.3f}", f"{ratio:.2g}"]))
        print(title, *rows[-1][1], flush=True)
    last = list(METHODS)[-1]
    print(f"\n{name}, test R², {REPEATS[name]} repeats\n")
    table([*METHODS, f"redraws − {last}", f"seconds over {last}'s"], iter(rows))


def main() -> None:
    begin = time.process_time()
    if xRFM is not None:
        torch.set_num_threads(1)
    with threadpool_limits(1):
        compare("compared", DATA, 0)
        compare("chosen by", CHOSEN_BY, FIRST_SEED)
    print(f"{time.process_time() - begin:.0f} s in all")


if __name__ == "__main__":
    main()
