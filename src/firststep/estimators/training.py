"""From rows to a trained network: the step, the choice of its size and of the ridge, and the fit of the readout.

The network is f(x) = (1/N) sum_i at_i s(<w_i, x>) on inputs in standard units. One step with its readout fixed is

    W1 = W0 + etat G,    G = (1/n0) X^T [(r at^T) o s'(X W0)],    r = y - f(X),

which is [Ba] (2.1) with the large learning rate eta = etat sqrt(N). The readout is then fitted anew by ridge regression.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from firststep.errors import NotConverged, NotEnoughMemory
from firststep.estimators.kernel import Kernel
from firststep.estimators.ridge_path import ridge_fit, ridge_path
from firststep.estimators.rows import BOTH, FIRST, SECOND, Rows
from firststep.readouts import ReadoutLaw
from firststep.simulation.backends import make_backend
from firststep.simulation.randomness import HostDraws
from firststep.simulation.weights.draw import draw_readout

Array = NDArray[Any]
MOVES = (
    0.25,
    0.5,
    1.0,
    2.0,
    4.0,
    8.0,
)  # sizes tried of the change of the pre-activations, next to 0
HELD = 0.25  # share of the rows held out to choose by where the readout is fitted on the rows of the step
LARGEST_WEIGHT = 1e100  # beyond this, squares of weights overflow
OVERFLOW = "the features are not finite: the student overflows on these inputs; try a smaller step or a bounded student"


@dataclass(frozen=True)
class Settings:
    """What a fit is asked for, checked."""

    width: int
    step: float | None  # None: to be chosen
    steps: int
    fraction: float
    refit: str
    ridges: Array
    law: ReadoutLaw
    seed: int

    @property
    def reuses(self) -> bool:
        """Whether the readout is fitted on the rows of the step."""
        return self.fraction == 1.0

    @property
    def first_share(self) -> float:
        """The share of the rows that the step sees before anything is refitted."""
        return 1 - HELD if self.reuses else self.fraction


@dataclass(frozen=True)
class Choice:
    """The step sizes and ridges tried, their errors (one row for every step size), and the places of the least."""

    candidates: Array
    errors: Array
    step: int
    ridge: int


@dataclass(frozen=True)
class Trained:
    """What a fit gives, on the host. ``solution`` is b of ridge_path.py with the means it belongs to, or None if not asked for."""

    initial: Array
    weights: Array
    readout: Array
    step: float
    choice: Choice | None
    solution: tuple[Array, Array, float] | None


def draw(settings: Settings, varying: NDArray[np.bool_]) -> tuple[Array, Array]:
    """W0, columns N(0, I/d) on the columns that vary and 0 on the others, and at. The same numbers for every backend."""
    draws, host = HostDraws(settings.seed, 0), make_backend("numpy")
    weights = draws.rows("weights", 0, len(varying), settings.width) / math.sqrt(
        max(1, int(varying.sum()))
    )
    return weights * varying[:, None], draw_readout(host, draws, settings.law, settings.width)


class Training:
    """One fit. To be used inside ``kernel.scope()``."""

    def __init__(self, kernel: Kernel, rows: Rows, settings: Settings) -> None:
        self._kernel, self._rows, self._settings = kernel, rows, settings
        self._check_memory()
        initial, readout = draw(settings, rows.varying)
        self._initial, self._readout = (
            kernel.backend.to_device(initial),
            kernel.backend.to_device(readout),
        )
        self._fitted = FIRST if settings.reuses else SECOND

    def run(self, with_readout: bool) -> Trained:
        """Choose the step and the ridge, then refit as asked. Without the readout, what only it needs is left out."""
        settings, rows, choice, solution = self._settings, self._rows, None, None
        step, ridge, slope = settings.step, math.nan, None
        if with_readout or step is None:
            slope = None if step == 0 else self._gradient(FIRST, self._initial)
            choice = self._choose(self._candidates(slope), slope)
            step, ridge = (
                float(choice.candidates[choice.step]),
                float(settings.ridges[choice.ridge]),
            )
        assert step is not None
        weights = (
            self._stepped(BOTH, step, None)
            if settings.refit == "all"
            else self._stepped(FIRST, step, slope)
        )
        if with_readout:
            part = self._fitted if settings.refit == "none" else BOTH
            fit = ridge_fit(self._kernel, rows.blocks(part), rows.count(part), weights, ridge)
            coefficients, centre, offset = (
                self._kernel.backend.to_host(each).astype(float) for each in fit
            )
            if not np.all(np.isfinite(coefficients)):
                raise NotConverged(OVERFLOW)
            solution = coefficients, centre, float(offset)
        host = self._kernel.backend.to_host
        return Trained(
            host(self._initial), host(weights), host(self._readout), step, choice, solution
        )

    def _gradient(self, part: str, weights: Any) -> Any:
        return self._kernel.gradient(
            self._rows.blocks(part), self._rows.count(part), weights, self._readout
        )

    def _stepped(self, part: str, step: float, slope: Any) -> Any:
        """W after all steps on the rows of a part; ``slope`` is G at W0 where it is known."""
        weights = self._initial
        for number in range(self._settings.steps if step > 0 else 0):
            change = slope if number == 0 and slope is not None else self._gradient(part, weights)
            weights = weights + step * change
        if not float(self._kernel.backend.xp.abs(weights).max()) < LARGEST_WEIGHT:
            raise NotConverged(
                "the weights overflowed in the gradient step: the step or the slope of the student is too large"
            )
        return weights

    def _candidates(self, slope: Any) -> Array:
        """The step given; or 0 and the steps at which |X etat G| = move * |X W0| over the rows of the step, moves from 1/4 to 8."""
        if self._settings.step is not None:
            return np.array([self._settings.step])
        before, moved = self._kernel.spread(self._rows.blocks(FIRST), self._initial, slope)
        if not (0 < moved < math.inf and 0 < before < math.inf):
            return np.zeros(1)
        return np.array([0.0, *(move * math.sqrt(before / moved) for move in MOVES)])

    def _choose(self, candidates: Array, slope: Any) -> Choice:
        errors = np.array([self._errors(float(step), slope) for step in candidates])
        finite = np.isfinite(errors)
        if (
            self._rows.count(self._fitted) == 1 and not finite.any()
        ):  # nothing to choose by: random features, most ridge
            return Choice(candidates, errors, 0, int(np.argmax(self._settings.ridges)))
        if not finite.any():
            raise NotConverged(
                "no step and ridge gave a fit that can be trusted: try larger ridges, a smaller step or float64"
            )
        least = errors[finite].min()
        places = np.argwhere(finite & (errors <= least * (1 + 1e-9)))
        step, ridge = min(
            places.tolist(),
            key=lambda place: (candidates[place[0]], -self._settings.ridges[place[1]]),
        )
        return Choice(candidates, errors, step, ridge)

    def _errors(self, step: float, slope: Any) -> Array:
        """For every ridge: leave-one-out on the rows of the readout; on held-out rows where the step saw the former."""
        kernel, rows, ridges = self._kernel, self._rows, self._settings.ridges
        weights = self._stepped(FIRST, step, slope)
        count = rows.count(self._fitted)
        path = ridge_path(kernel, lambda: rows.blocks(self._fitted), count, weights, ridges)
        if path is None:
            return np.full(len(ridges), np.inf)
        if not self._settings.reuses:
            return path.errors
        held = kernel.errors(
            rows.blocks(SECOND),
            rows.count(SECOND),
            weights,
            path.centre,
            path.offset,
            path.solutions,
        )
        return np.where(path.trusted & np.isfinite(held), held, np.inf)

    def _check_memory(self) -> None:
        width, columns, rows, backend = (
            self._settings.width,
            self._rows.columns,
            self._rows,
            self._kernel.backend,
        )
        count = rows.count(BOTH)
        square = 5 * width**2 if count >= width else 4 * count * width + 5 * count**2
        numbers = square + 4 * columns * width + rows.block * (4 * width + 2 * columns)
        limit = backend.memory_limit()
        if limit is not None and numbers * backend.dtype.itemsize > limit:
            needed, free = numbers * backend.dtype.itemsize / 1e9, limit / 1e9
            hint = f"the fit needs {needed:.3g} GB and {free:.3g} GB is free"
            raise NotEnoughMemory("width", "small enough for the fit to fit in memory", width, hint)


def leading_update(before: Array, after: Array) -> tuple[Array, Array]:
    """The two leading singular values of W1 - W0 and its top left singular vector, its largest entry positive.

    From the smaller of the two Gram matrices; the vector is 0 without a step.
    """
    update = np.asarray(after, dtype=float) - before
    tall = update.shape[0] > update.shape[1]
    gram = update.T @ update if tall else update @ update.T
    last = len(gram) - 1
    squares, vectors = scipy.linalg.eigh(gram, subset_by_index=(max(0, last - 1), last))
    values = np.sqrt(np.maximum(squares[::-1], 0.0))
    values = np.concatenate([values, np.zeros(2 - len(values))])
    if values[0] == 0:
        return values, np.zeros(len(update))
    direction = update @ vectors[:, -1] / values[0] if tall else vectors[:, -1]
    return values, direction * np.sign(direction[np.argmax(np.abs(direction))])
