"""What to fit: number of steps, step, ridge and width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firststep.advice.learning_curve import levels
from firststep.advice.measured import (
    LINEAR,
    MEAN,
    MODELS,
    NO_STEP,
    ONE_STEP,
    REDRAWS,
    SEVERAL,
    Measured,
    in_parallel,
    regressor,
)
from firststep.errors import NotConverged
from firststep.estimators import OneStepFeatures

if TYPE_CHECKING:
    from firststep.typing import Array, Float

WIDTHS = (64, 128, 256, 512)
ENOUGH = 1.02  # a width whose risk is within this factor of the least will do


@dataclass(frozen=True)
class Recommended:
    """``OneStepRegressor(width=…, steps=…, step=…)``, redraws, or a linear fit."""

    model: str  # mean, linear, no step, one step, three steps, redraws
    width: int
    steps: int
    step: float
    ridge: float
    width_risks: dict[int, float]  # over the variance of y, readout on half of the rows

    @property
    def call(self) -> str:
        """The estimator as it would be written."""
        if self.model == MEAN:
            return "the mean: nothing better was found"
        if self.model == LINEAR:
            return "ridge regression on the columns in standard units: scikit-learn's RidgeCV"
        if self.model == REDRAWS:
            return "OneStepRegressor(), which redraws its first layer"
        step = f"{self.step:.3g}" if self.step else "0"
        steps = f", steps={self.steps}" if self.steps > 1 else ""
        return f"OneStepRegressor(width={self.width}{steps}, step={step})"


@dataclass(frozen=True)
class Chosen:
    """Step and ridge, both by leave-one-out errors."""

    step: float
    ridge: float


def choose(
    x: Float[Array, "n d"],
    y: Float[Array, " n"],
    steps_chosen: dict[str, tuple[float, ...]],
    *,
    width: int,
    seed: int,
) -> dict[str, Chosen]:
    """Of every model, in standard units: the median step of the folds, the ridge of all rows.

    One choice of the step is at times far off; the median of those of the folds hardly ever.
    """

    def task(name: str) -> Callable[[], Chosen]:
        def run() -> Chosen:
            step = float(np.median(steps_chosen[name]))
            try:
                fitted = regressor(name, width=width, seed=seed, step=step).fit(x, y)
            except NotConverged:
                return Chosen(0.0, float(width))
            return Chosen(step, float(fitted.ridge_))

        return run

    return dict(zip(MODELS, in_parallel([task(name) for name in MODELS]), strict=True))


def recommend(
    x: Float[Array, "n d"],
    y: Float[Array, " n"],
    measured: Measured,
    chosen: dict[str, Chosen],
    *,
    width: int,
    seed: int,
) -> Recommended:
    """The simplest model that nothing is told to be better than, and a width that is enough."""
    gains = measured.gains
    model = NO_STEP
    if gains["one step over no step"].is_positive:
        model = SEVERAL if gains["three steps over one"].is_positive else ONE_STEP
    elif gains["three steps over no step"].is_positive:
        model = SEVERAL
    words = "one" if model == ONE_STEP else model
    usual = model if gains[f"{model} over linear"].is_positive else LINEAR
    redrawn = [gains.get(f"redraws over {each}") for each in (words, "linear")]
    if all(each is not None and each.is_positive for each in redrawn):
        usual = REDRAWS
    steps = 3 if model == SEVERAL else 1
    found = chosen[model]
    tried = _widths(x, y, step=found.step, steps=steps, seed=seed)
    least = min(tried.values(), default=0.0)
    enough = [size for size, risk in tried.items() if risk <= ENOUGH * least]
    return Recommended(
        model=usual if measured.is_learned else MEAN,
        width=min(enough, default=width),
        steps=steps,
        step=found.step,
        ridge=found.ridge,
        width_risks=tried,
    )


def _widths(
    x: Float[Array, "n d"], y: Float[Array, " n"], *, step: float, steps: int, seed: int
) -> dict[int, float]:
    """Least leave-one-out risks, the step on half of the rows, the readout on the other."""
    first = np.random.default_rng((seed, 8)).permutation(len(y)) < len(y) // 2

    def task(width: int) -> Callable[[], float]:
        def run() -> float:
            layer = OneStepFeatures(width=width, steps=steps, step=step, random_state=seed)
            try:
                features = layer.fit(x[first], y[first]).transform(x[~first])
                return levels(features, y[~first]).least_risk(int((~first).sum()))[0]
            except NotConverged:
                return float("inf")

        return run

    found = in_parallel([task(width) for width in WIDTHS])
    return {width: risk for width, risk in zip(WIDTHS, found, strict=True) if np.isfinite(risk)}
