"""From rows to a trained network: the step, the choice of its size and ridge, the readout.

The network is f(x) = (1/N) sum_i at_i s(<w_i, x>) on inputs in standard units. One step with its
readout fixed is

    W1 = W0 + etat G,    G = (1/n0) X^T [(r at^T) o s'(X W0)],    r = y - f(X),

which is [Ba] (2.1) with the large learning rate eta = etat sqrt(N). The readout is then fitted anew
(``fits``, ``loss_fit``). With K > 2 classes the network has K outputs with at of N x K and labels
+-1, one column a class; the step is that of the sum of their square losses, r at^T = R At^T.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from firststep.errors import NotConverged, NotEnoughMemory
from firststep.estimators.fits import ReadoutFit
from firststep.estimators.kernel import Affine, Outputs
from firststep.estimators.rows import BOTH, FIRST, SECOND
from firststep.readouts import ReadoutLaw
from firststep.simulation.backends import make_backend
from firststep.simulation.randomness import HostDraws
from firststep.simulation.weights.draw import draw_readout

if TYPE_CHECKING:
    from firststep.estimators.kernel import Weights
    from firststep.estimators.ridge_path import Ridges
    from firststep.typing import Array, Bool, Float

# Sizes tried of the change of the pre-activations, next to 0: from a step that hardly shows to one
# that leaves nothing of the initial weights.
MOVES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
# Share of the rows held out to choose by where the readout is fitted on the rows of the step:
# leave-one-out would not know that the step has seen the row that is left out.
HELD = 0.25
LARGEST_WEIGHT = 1e100  # beyond this, squares of weights overflow
TIE = 1e-9  # relative difference of errors that is rounding: the shorter step and larger ridge win


@dataclass(frozen=True)
class Settings:
    """What a fit is asked for, checked."""

    width: int
    step: float | None  # None: to be chosen
    steps: int
    fraction: float
    refit: str
    ridges: Ridges
    law: ReadoutLaw
    seed: int
    limit: float = math.inf  # of the residual that pulls in the step

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
    """The step sizes tried, the errors of each with every ridge, and the places of the least."""

    candidates: Float[Array, " steps"]
    errors: Float[Array, "steps ridges"]
    step: int
    ridge: int
    rates: Float[Array, "steps ridges"] | None = None  # shares of rows in the wrong class


@dataclass(frozen=True)
class Trained:
    """What a fit gives, on the host."""

    initial: Weights
    weights: Weights
    readout: Float[Array, "N ..."]
    step: float
    choice: Choice | None
    solution: Affine | None  # b of ridge_path.py with its means, if asked for


def draw(
    settings: Settings, varying: Bool[Array, " d"], outputs: int = 1
) -> tuple[Weights, Float[Array, "N ..."]]:
    """W0, columns N(0, I/d) on the columns that vary and 0 on the others, and at.

    The same numbers for every backend. Of several outputs the first has the at of a single one.
    """
    draws, host, width = HostDraws(settings.seed, 0), make_backend("numpy"), settings.width
    columns = max(1, int(varying.sum()))
    weights = draws.rows("weights", 0, len(varying), width) / math.sqrt(columns)
    readout = draw_readout(host, draws, settings.law, width * outputs)
    if outputs > 1:
        readout = np.ascontiguousarray(readout.reshape(outputs, width).T)
    return weights * varying[:, None], readout


class Training:
    """One fit. To be used inside ``kernel.scope()``."""

    def __init__(self, fit: ReadoutFit, settings: Settings) -> None:
        self._fit, self._settings = fit, settings
        self._kernel, self._rows = fit.kernel, fit.rows
        self._check_memory()
        initial, readout = draw(settings, self._rows.varying, self._rows.targets.outputs)
        to_device = self._kernel.backend.to_device
        self._initial, self._readout = to_device(initial), to_device(readout)
        constant = self._rows.targets.constant
        self._outputs = Outputs(self._readout, to_device(np.asarray(constant)), settings.limit)
        self._fitted = FIRST if settings.reuses else SECOND

    def run(self, with_readout: bool) -> Trained:
        """Choose the step and the ridge, then refit as asked.

        Without the readout, what only it needs is left out.
        """
        settings, choice, solution = self._settings, None, None
        step, gradient = settings.step, None
        if with_readout or step is None:
            gradient = None if step == 0 else self._gradient(FIRST, self._initial)
            choice = self._choose(self._candidates(gradient), gradient)
            step = float(choice.candidates[choice.step])
        assert step is not None
        weights = (
            self._stepped(BOTH, step)
            if settings.refit == "all"
            else self._stepped(FIRST, step, gradient)
        )
        if with_readout and choice is not None:
            part = self._fitted if settings.refit == "none" else BOTH
            solution = self._fit.fit(weights, part, float(settings.ridges[choice.ridge]))
        host = self._kernel.backend.to_host
        return Trained(
            initial=host(self._initial),
            weights=host(weights),
            readout=host(self._readout),
            step=step,
            choice=choice,
            solution=solution,
        )

    def _gradient(self, part: str, weights: Weights) -> Weights:
        return self._kernel.gradient(
            self._rows.blocks(part), self._rows.count(part), weights, self._outputs
        )

    def _stepped(self, part: str, step: float, gradient: Weights | None = None) -> Weights:
        """W after all steps on the rows of a part; ``gradient`` is G at W0 where it is known."""
        weights = self._initial
        for number in range(self._settings.steps if step > 0 else 0):
            known = gradient if number == 0 else None
            weights = weights + step * (self._gradient(part, weights) if known is None else known)
        if not float(self._kernel.backend.xp.abs(weights).max()) < LARGEST_WEIGHT:
            raise NotConverged(
                "the weights overflowed in the gradient step: "
                "the step or the slope of the student is too large"
            )
        return weights

    def _candidates(self, gradient: Weights | None) -> Float[Array, " steps"]:
        """The step given; or 0 and those at which |X etat G| = move * |X W0|, of the MOVES."""
        if self._settings.step is not None or gradient is None:
            return np.array([self._settings.step])
        before, moved = self._kernel.spread(self._rows.blocks(FIRST), self._initial, gradient)
        if not (0 < moved < math.inf and 0 < before < math.inf):
            return np.zeros(1)
        return np.array([0.0, *(move * math.sqrt(before / moved) for move in MOVES)])

    def _choose(self, candidates: Float[Array, " steps"], gradient: Weights | None) -> Choice:
        ridges = self._settings.ridges
        held = SECOND if self._settings.reuses else None
        tried = [
            self._fit.judge(self._stepped(FIRST, float(step), gradient), self._fitted, held)
            for step in candidates
        ]
        errors = np.array([each.errors for each in tried])
        rates = [each.rates for each in tried if each.rates is not None]
        finite, shares = np.isfinite(errors), np.array(rates) if rates else None
        # One row, or one class, is nothing to choose by: random features, most ridge.
        if (self._rows.count(self._fitted) == 1 or np.isnan(errors).any()) and not finite.any():
            return Choice(candidates, errors, step=0, ridge=int(np.argmax(ridges)), rates=shares)
        if not finite.any():
            raise NotConverged(
                "no step and ridge gave a fit that can be trusted: "
                "try larger ridges, a smaller step or float64"
            )
        places = np.argwhere(finite & (errors <= errors[finite].min() * (1 + TIE)))
        step, ridge = min(
            places.tolist(), key=lambda place: (candidates[place[0]], -ridges[place[1]])
        )
        return Choice(candidates, errors, step=step, ridge=ridge, rates=shares)

    def _check_memory(self) -> None:
        # Rather too many than too few: the fit, W and its changes, and what a block needs.
        settings, rows, backend = self._settings, self._rows, self._kernel.backend
        width, count = settings.width, rows.count(BOTH)
        held = self._fit.memory(count, width)
        numbers = held + 4 * rows.columns * width + rows.block * (4 * width + 2 * rows.columns)
        limit = backend.memory_limit()
        if limit is not None and numbers * backend.dtype.itemsize > limit:
            needed, free = numbers * backend.dtype.itemsize / 1e9, limit / 1e9
            hint = f"the fit needs {needed:.3g} GB and {free:.3g} GB is free"
            raise NotEnoughMemory("width", "small enough for the fit to fit in memory", width, hint)


def leading_update(
    before: Weights, after: Weights
) -> tuple[Float[Array, " 2"], Float[Array, " d"]]:
    """The two leading singular values of W1 - W0 and its top left singular vector.

    From the smaller of the two Gram matrices. The largest entry of the vector is positive; without
    a step it is 0.
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
