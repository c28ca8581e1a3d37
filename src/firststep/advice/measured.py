"""The risk without a step, after one, after several, and of a linear fit: on rows held out.

Rows are cut into K folds. Every model is fitted on the rows outside a fold, where it also chooses
its step and its ridge, and judged on those inside: each row is predicted once, by fits that know
nothing of it. Models are compared by the differences of their squared errors row by row, which
leaves out what makes a row hard for all of them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from firststep.advice.intervals import Interval, mean_of_rows, share_of_rows
from firststep.advice.ridge import LinearFit
from firststep.errors import NotConverged
from firststep.estimators import OneStepRegressor

if TYPE_CHECKING:
    from firststep.typing import Array, Float, Int

NO_STEP, ONE_STEP, SEVERAL = "no step", "one step", "three steps"
LINEAR, MEAN, REDRAWS = "linear", "mean", "redraws"
STEPS = 3  # of the model of several
MODELS: Mapping[str, dict[str, Any]] = {
    NO_STEP: {"steps": 1, "step": 0},
    ONE_STEP: {"steps": 1, "step": "auto"},
    SEVERAL: {"steps": STEPS, "step": "auto"},
}
# What is asked of the differences: who is better than whom, by how much.
GAINS = {
    "one step over no step": (NO_STEP, ONE_STEP),
    "three steps over no step": (NO_STEP, SEVERAL),
    "three steps over one": (ONE_STEP, SEVERAL),
    "no step over linear": (LINEAR, NO_STEP),
    "one step over linear": (LINEAR, ONE_STEP),
    "three steps over linear": (LINEAR, SEVERAL),
    "linear over mean": (MEAN, LINEAR),
    "no step over mean": (MEAN, NO_STEP),
    "one step over mean": (MEAN, ONE_STEP),
    "three steps over mean": (MEAN, SEVERAL),
}
# Of redraws, where they are measured.
MORE_GAINS = {
    f"redraws over {words}": (worse, REDRAWS)
    for words, worse in (
        ("no step", NO_STEP),
        ("one", ONE_STEP),
        ("three steps", SEVERAL),
        ("linear", LINEAR),
        ("mean", MEAN),
    )
}
FOLDS_FEW, FOLDS_MANY, MANY = 10, 5, 1500  # folds up to so many rows, and beyond
REPEATED = 500  # rows up to which the folds are drawn twice
# Rows and columns up to which redraws are measured too: a fit takes ten times as long as one step
# there, and grows faster.
REDRAWN_ROWS, REDRAWN_COLUMNS = 2000, 200


@dataclass(frozen=True)
class Measured:
    """Mean squared errors on rows held out, and their differences, in the units of y squared."""

    variance: float  # of y
    risks: dict[str, Interval]
    gains: dict[str, Interval]
    determination: dict[str, Interval]  # R^2: the share of the error of the mean that a fit saves
    folds: int  # fits of every model
    # The step that every fold chose; 0: none was better.
    steps_chosen: dict[str, tuple[float, ...]]

    def relative(self, gain: str) -> Interval:
        """A gain over the risk that it is a gain on, of which it is no more than all."""
        worse, _ = (GAINS | MORE_GAINS)[gain]
        return self.gains[gain].scaled(1 / self.risks[worse].value).clipped(-math.inf, 1.0)

    @property
    def is_learned(self) -> bool:
        """Whether any fit predicts better than the mean, at 95 %."""
        names = [LINEAR, NO_STEP, ONE_STEP, *([REDRAWS] if REDRAWS in self.risks else [])]
        return any(self.gains[f"{name} over mean"].is_positive for name in names)


def regressor(name: str, *, width: int, seed: int, **options: Any) -> OneStepRegressor:
    """The estimator behind a name; that of redraws chooses its width by itself."""
    if name == REDRAWS:
        return OneStepRegressor(random_state=seed, **options)
    return OneStepRegressor(width=width, random_state=seed, **{**MODELS[name], **options})


def fold_count(rows: int) -> int:
    """More folds where fits are cheap and every row counts."""
    return FOLDS_FEW if rows <= MANY else FOLDS_MANY


def folds_of(rows: int, seed: int) -> Int[Array, "repeats n"]:
    """The number of the fold of every row: as even as can be, at random; twice of few rows."""
    numbers, repeats = np.arange(rows) % fold_count(rows), 2 if rows <= REPEATED else 1
    rngs = [np.random.default_rng((seed, 1, repeat)) for repeat in range(repeats)]
    return np.array([rng.permutation(numbers) for rng in rngs])


def models_of(rows: int, columns: int) -> tuple[str, ...]:
    """What is fitted."""
    is_small = rows <= REDRAWN_ROWS and columns <= REDRAWN_COLUMNS
    return (LINEAR, *MODELS, *([REDRAWS] if is_small else []))


def fit_count(rows: int, columns: int) -> int:
    """How many fits there are."""
    return len(models_of(rows, columns)) * fold_count(rows) * (2 if rows <= REPEATED else 1)


def in_parallel(
    tasks: Sequence[Callable[[], Any]], done: Callable[[], None] | None = None
) -> list[Any]:
    """The answers of tasks, in order; threads as there are cores, one BLAS thread each.

    So the result does not depend on how many there are.
    """

    def answer(task: Callable[[], Any]) -> Any:
        found = task()
        if done is not None:
            done()
        return found

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    with threadpool_limits(1):
        pool = ThreadPoolExecutor(max(1, min(cores or 1, len(tasks))))
        try:
            return list(pool.map(answer, tasks))
        finally:  # Ctrl-C: what has not begun does not begin
            pool.shutdown(wait=True, cancel_futures=True)


def measure(
    inputs: Float[Array, "n d"],
    target: Float[Array, " n"],
    *,
    width: int,
    seed: int,
    done: Callable[[], None] | None = None,
) -> Measured:
    """K folds of every model."""
    models = models_of(*inputs.shape)
    asked = GAINS | (MORE_GAINS if REDRAWS in models else {})
    folds = folds_of(len(target), seed)
    held = [each == number for each in folds for number in range(fold_count(len(target)))]
    tasks = [
        _fold(name, inputs, target, rows, width=width, seed=seed + place)
        for name in models
        for place, rows in enumerate(held)
    ]
    found = iter(in_parallel(tasks, done))
    errors = {name: np.empty(folds.shape) for name in (MEAN, *models)}
    chosen: dict[str, list[float]] = {name: [] for name in models}
    places = [(place // fold_count(len(target)), rows) for place, rows in enumerate(held)]
    for repeat, rows in places:
        errors[MEAN][repeat, rows] = (target[rows] - target[~rows].mean()) ** 2
    for name in models:
        for repeat, rows in places:
            errors[name][repeat, rows], step = next(found)
            chosen[name].append(step)
    gains = {
        words: mean_of_rows(errors[worse] - errors[better], folds)
        for words, (worse, better) in asked.items()
    }
    return Measured(
        variance=float(target.var()),
        risks={name: mean_of_rows(squares, folds) for name, squares in errors.items()},
        gains=gains,
        determination={
            name: share_of_rows(errors[MEAN] - errors[name], errors[MEAN], folds).clipped(
                -math.inf, 1.0
            )
            for name in models
        },
        folds=len(held),
        steps_chosen={name: tuple(chosen[name]) for name in MODELS},
    )


def _fold(
    name: str,
    inputs: Float[Array, "n d"],
    target: Float[Array, " n"],
    held: Any,
    *,
    width: int,
    seed: int,
) -> Callable[[], tuple[Float[Array, " held"], float]]:
    """Squared errors on the rows held out, and the step that was chosen."""

    def run() -> tuple[Float[Array, " held"], float]:
        labels = target[~held]
        if np.ptp(labels) == 0:  # a target that hardly varies: nothing to fit
            return (target[held] - labels[0]) ** 2, 0.0
        model = LinearFit() if name == LINEAR else regressor(name, width=width, seed=seed)
        try:
            model.fit(inputs[~held], labels)
        except NotConverged:  # such a fit predicts the mean
            return (target[held] - labels.mean()) ** 2, 0.0
        return (target[held] - model.predict(inputs[held])) ** 2, getattr(model, "step_", 0.0)

    return run
