"""Figures of classifiers: the known threshold by second routes, and every figure at a tiny size."""

from __future__ import annotations

import math
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.optimize import linprog

from firststep import predict
from firststep.figures import catalogue
from firststep.figures.core import make
from firststep.figures.separability import COVER, FLIP, known_threshold, problem
from firststep.figures.shape import Scale
from firststep.sweep.executors import ThisMachine

if TYPE_CHECKING:
    from firststep.typing import Array, Float


def test_the_threshold_is_cover_s_where_labels_say_nothing() -> None:
    assert known_threshold(problem(1.0, 1e-4)) == pytest.approx(COVER, rel=1e-3)
    assert known_threshold(problem(1.0, 1.0).replace(flip=0.4999)) == pytest.approx(COVER, rel=1e-6)
    wider = [known_threshold(problem(1.0, beta)) for beta in (0.5, 1.0, 2.0, 4.0)]
    assert wider == sorted(wider)
    assert wider[0] > COVER


def separable(features: Float[Array, "n N"], labels: Float[Array, " n"]) -> bool:
    """Whether some b has y (phi . b) >= 1 for all samples: a linear program."""
    found = linprog(
        np.zeros(features.shape[1]),
        A_ub=-labels[:, None] * features,
        b_ub=-np.ones(len(labels)),
        bounds=(None, None),
        method="highs",
    )
    return bool(found.status == 0)


def test_the_threshold_is_that_of_networks() -> None:
    """All of some random networks can separate a quarter fewer samples, none a quarter more."""
    rng, d = np.random.default_rng(1), 100
    asked = problem(1.0, 0.8)
    width = round(0.8 * d)
    edge = known_threshold(asked)
    for share, expected in ((0.75, True), (1.25, False)):
        n = round(share * edge * width)
        for _ in range(3):
            weights = rng.standard_normal((d, width)) / math.sqrt(d)
            x = rng.standard_normal((n, d))
            labels = np.sign(x[:, 0]) * np.where(rng.random(n) < FLIP, -1, 1)
            assert separable(np.tanh(x @ weights), labels) == expected


@pytest.mark.parametrize(("beta", "flip"), [(1.0, 0.3), (2.0, 0.2)])
def test_the_theory_of_any_loss_has_the_same_threshold(beta: float, flip: float) -> None:
    asked = problem(1.0, beta).replace(flip=flip)
    edge = known_threshold(asked)
    below, above = predict(asked, alpha=np.array([0.95, 1.03]) * edge * beta).training_error_rate
    assert below < 0.01
    assert above > 0.05


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("separability", marks=pytest.mark.slow),  # a grid of thresholds
        "label-flips",
        "intercept-threshold",
    ],
)
def test_it_is_made_at_any_size(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firststep.figures.shape.LINE_POINTS", 2)
    module, points = import_module(f"firststep.figures.{name.replace('-', '_')}"), 1
    dimension = 40
    if name == "label-flips":  # its optima take seconds: tests/figures/test_figures.py has them
        points = 2
        monkeypatch.setattr(module, "best", lambda *_: np.array([0.05, 0.5]))
    elif name == "separability":
        dimension = 80  # smaller ones are hard to solve at its ridge
        monkeypatch.setattr(module, "HALVINGS", 1)
    scale = Scale(dimension, replicates=2, points=points)
    made = make(catalogue.figure(name), tmp_path, scale, executor=ThisMachine(workers=1))
    assert made.verdict.points > 0
    assert all(math.isfinite(row["simulated"]) for row in made.rows)
    assert {row["quantity"] for row in made.rows} <= {"error_rate", "training_error_rate"}
    assert all(path.stat().st_size > 100 for path in made.files)
