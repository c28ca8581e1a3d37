"""What the regressor and the classifier share: redraws where they are asked for or possible.

``redrawn`` and ``redrawn_classes`` do the work.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Self

import numpy as np
from sklearn.utils.validation import _check_sample_weight

from firststep.activations import activation
from firststep.checks import number
from firststep.errors import InvalidParameter
from firststep.estimators.base import Batches, OneStep
from firststep.estimators.redrawn import BIASES, Asked, Redrawn, initial_of, moments_of, ridge_of

if TYPE_CHECKING:
    from firststep.typing import Array, Float

WIDTH = 512  # of a one-step network with width="auto"


def is_auto(value: object) -> bool:
    return isinstance(value, str) and value == "auto"


class Redrawing(OneStep):
    """An estimator whose ``steps`` may be auto, with ``loss`` and ``biases``."""

    _with_readout = True
    biases: object

    def fit(self, X: object, y: object, sample_weight: object = None) -> Self:
        """Train on inputs ``X`` (samples x columns) and targets ``y``.

        With redraws ``sample_weight`` says how many rows each row stands for, the regressor's ``y``
        may have several columns, and all is in memory at once. Otherwise data are read in blocks of
        rows, and both may be mapped from a file.
        """
        if self._redraws():
            return self._fit_redraws(X, y, sample_weight)
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
            if not (len(weights) and weights[0] > 0 and np.all(weights == weights[0])):
                allowed = f"equal and positive with {self._otherwise}"
                hint = "steps='auto' takes others"
                raise InvalidParameter("sample_weight", allowed, "weights that are not", hint)
        return super().fit(X, y)

    def fit_stream(self, batches: Batches) -> Self:
        if is_auto(self.steps):
            hint = "redraws need all rows in memory: use fit"
            raise InvalidParameter("steps", "a whole number with fit_stream", "auto", hint)
        return super().fit_stream(batches)

    fit_stream.__doc__ = OneStep.fit_stream.__doc__

    @property
    @abstractmethod
    def _otherwise(self) -> str:
        """What there are no redraws with."""

    @abstractmethod
    def _fit_redraws(self, X: object, y: object, sample_weight: object) -> Self:
        """``fit`` with redraws."""

    def _plain(self) -> dict[str, tuple[bool, object]]:
        """Of the arguments that redraws depend on: whether they allow them, and what would."""
        return {
            "step": (is_auto(self.step), "auto"),
            "backend": (isinstance(self.backend, str) and self.backend == "numpy", "numpy"),
            "dtype": (isinstance(self.dtype, str) and self.dtype == "float64", "float64"),
        }

    def _redraws(self) -> bool:
        """Whether the first layer is redrawn; refuses what does not go with that."""
        plain = self._plain()
        if is_auto(self.steps):
            for name, (is_plain, wanted) in plain.items():
                if not is_plain:
                    allowed = f"{wanted} with steps='auto'"
                    raise InvalidParameter(name, allowed, getattr(self, name))
            return True
        is_possible = all(is_plain for is_plain, _ in plain.values())
        if self.steps is None and is_auto(self.width) and is_possible:
            return True
        if not is_auto(self.biases) and number("biases", self.biases, 0.0) > 0:
            allowed = "auto or 0 with a whole number of steps"
            raise InvalidParameter("biases", allowed, self.biases, "steps='auto' has biases")
        return False

    def _width(self) -> int:
        return WIDTH if is_auto(self.width) else super()._width()

    def _steps(self) -> int:
        return 1 if self.steps is None or is_auto(self.steps) else super()._steps()

    def _asked(self) -> Asked:
        settings, *_ = self._checked()  # under their names, those that redraws have no use for, too
        return Asked(
            student=activation(self.student, parameter="student"),
            width=None if is_auto(self.width) else super()._width(),
            biases=BIASES if is_auto(self.biases) else number("biases", self.biases, 0.0),
            ridges=None if self.ridges is None else settings.ridges,
            standardize=bool(self.standardize),
            seed=settings.seed,
        )

    def _weights_of(self, sample_weight: object, inputs: Float[Array, "n d"]) -> Float[Array, " n"]:
        return np.asarray(
            _check_sample_weight(sample_weight, inputs, dtype=np.float64, ensure_non_negative=True)
        )

    def _keep_layer(self, found: Redrawn) -> None:
        """All but the coefficients."""
        layer, plan, units = found.layer, found.plan, found.units
        self.mean_, self.scale_ = units.mean, units.scale
        self.weights_, self.biases_ = units.placed(layer.weights), found.draw.biases
        self.moments_, self.stretch_ = moments_of(found), plan.scale
        self.steps_, self.held_errors_ = plan.redraws, np.array(plan.errors)
        self.is_diagonal_, self.ridge_ = plan.is_diagonal, ridge_of(found)
        self._keep_update(initial_of(found), self.weights_)
        self._n_features_out = layer.weights.shape[1]
