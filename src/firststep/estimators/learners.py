"""``OneStepRegressor`` and ``OneStepFeatures``: numbers as targets, and the features alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, RegressorMixin, TransformerMixin

from firststep.errors import InvalidParameter
from firststep.estimators.base import RIDGES_EXACT, RIDGES_FITTED, OneStep, loss_among
from firststep.estimators.fits import ReadoutFit, RidgeFit
from firststep.estimators.kernel import Kernel
from firststep.estimators.loss_fit import LossFit
from firststep.estimators.redrawing import Redrawing
from firststep.estimators.redrawn import fit_redrawn
from firststep.estimators.rows import Rows
from firststep.estimators.targets import Numbers, RobustNumbers, Targets
from firststep.estimators.training import Settings, Trained
from firststep.losses import Huber, Loss

if TYPE_CHECKING:
    from firststep.typing import Array, Float

# Residuals beyond this many robust standard deviations count with their absolute value: 95 % of
# the efficiency of least squares with Gaussian noise (Huber 1964).
DELTA = 1.345
LOSSES = ("square", "huber", "quantile")
LOSSES_ALLOWED = "square, huber, huber:DELTA or quantile:THETA"


class OneStepRegressor(RegressorMixin, Redrawing):
    """Ridge regression on the features of a two-layer network whose first layer has learned.

    Without arguments, the regressor to use: ``steps="auto"`` draws the first layer anew from the
    second moments of the fit's gradient, in turn with exact readouts, as often as rows held out
    say, with biases and a width by the number of rows. The equations are in
    ``firststep.estimators.redraws``, the rules and a comparison in docs/estimators.md. It takes
    several targets and weights of rows. Data, features (n x N) and a Gram matrix (the smaller of n
    and N squared) are in memory, some five times n N numbers in all.

    With a width, the one-step network of the theory,
    f(x) = (1/N) sum_i at_i s(<w_i, x>), w_i ~ N(0, I/d), on inputs and targets in standard units.
    With its readout at fixed, one step
    W1 = W0 + etat (1/n0) X^T [(r at^T) o s'(X W0)], r = y - f(X), is taken on a part of the
    samples: that of a ``Problem`` with this ``step`` and ``step_exponent`` 1/2. The readout is then
    fitted with a free intercept on the others, minimising (1/n)|y - b0 - F b|^2 + ridge |b|^2,
    F = s(X W1), for a path of ridge values with exact leave-one-out errors. docs/estimators.md has
    the rules, a comparison with other regressors and the limits.

    Args:
        width: N, the number of neurons. auto: with redraws 2000, and with fewer than 300 distinct
            rows the mean of two networks of 2000 with the same choices, 4000 in all; otherwise 512.
        student: the activation s: a name, an expression in z, or a function, as for ``activation``.
        step: etat, or auto: of 0 (random features) and six sizes that change the pre-activations by
            1/4 to 8 times their own size, the one which, with its best ridge, has the least
            leave-one-out error.
        steps: auto, redraws, with NumPy, float64, the square loss and ``fit`` only; ``step``,
            ``step_fraction``, ``refit``, ``readout`` and ``block`` are of no use then. A whole
            number: gradient steps, all on the same samples. None: auto if ``width`` and ``step``
            are auto and redraws are possible, and 1 otherwise.
        step_fraction: the share of the samples that the step sees while step and ridge are chosen;
            the readout is fitted on the others. 1 or all: both see the same samples, and a quarter
            of all is held out to choose by.
        refit: what is done over with all samples once step and ridge are chosen: all (step and
            readout), readout, or none.
        ridges: positive numbers, or a range such as 1e-4..1e2:13; by default 41 values from 1e-8 N
            to 100 N.
        readout: the law of at: gaussian, ones, signs, or as for ``readout_law``.
        standardize: centre the columns of X and divide them by their standard deviation; constant
            columns are left out.
        backend: numpy or jax.
        device: auto, cpu or gpu.
        dtype: float64 or float32.
        block: rows per block; the result depends on it by rounding only.
        random_state: seed of W0, at and the split of the samples.
        loss: square, or huber, huber:DELTA, quantile:THETA: the mean of that loss takes the place
            of (1/n)|y - b0 - F b|^2, and approximate leave-one-out errors choose step and ridge,
            by default among 21 ridges. The targets are then centred by their median and divided by
            1.4826 times their median absolute deviation, DELTA (1.345 for huber) is in that unit,
            and residuals pull in the step with at most DELTA (quantile: 1.345), so that outliers
            do not steer it. The features of all rows must fit in memory.
        biases: the standard deviation of fixed biases c_i ~ N(0, biases^2) inside of s, with
            redraws; auto is 1. One-step networks have none (auto or 0).

    After redraws: ``weights_`` (W, d x N), ``biases_``, ``coef_`` (N, or targets x N) and
    ``intercept_`` (the prediction is intercept_ + coef_ . s(W^T x + biases_)/sqrt N), ``steps_``
    (how many), ``moments_`` (R R^T, of two networks the mean, d x d of trace 1: along what the fit
    depends on the inputs),
    ``is_diagonal_``, ``stretch_`` (the scale a), ``held_errors_`` (mean squares in standard units
    after 0, 1, 2 ... redraws), ``ridge_``, ``singular_values_``, ``spike_ratio_``, ``direction_``,
    ``mean_``, ``scale_``, ``n_features_in_`` and ``feature_names_in_``.

    With a whole number of steps, after ``fit`` or ``fit_stream``: ``weights_`` (W1, d x N, for
    inputs in standard units), ``readout_`` (at), ``coef_`` and ``intercept_`` (the prediction is
    intercept_ + coef_ . s(W1^T x)/sqrt N), ``step_``, ``ridge_``,
    ``step_candidates_``, ``ridges_`` and ``loo_errors_``
    (candidates x ridges, mean squared or mean loss in the units of y; with ``step_fraction`` 1 on
    the held-out samples; infinite where they cannot be trusted or the path of ridges had ended),
    ``singular_values_`` (the two leading ones of W1 - W0), ``spike_ratio_`` (the first over the
    second: large if the step is one direction), ``direction_`` (that direction in the space of the
    inputs), ``mean_``, ``scale_``, ``n_features_in_`` and ``feature_names_in_``.
    """

    def __init__(
        self,
        width: object = "auto",
        student: object = "tanh(z+1)",
        step: object = "auto",
        steps: object = None,
        step_fraction: object = 0.5,
        refit: str = "all",
        ridges: object = None,
        readout: object = "gaussian",
        standardize: bool = True,
        backend: str = "numpy",
        device: str = "auto",
        dtype: str = "float64",
        block: int | None = None,
        random_state: object = None,
        loss: object = "square",
        biases: object = "auto",
    ) -> None:
        super().__init__(
            width=width,
            student=student,
            step=step,
            steps=steps,
            step_fraction=step_fraction,
            refit=refit,
            ridges=ridges,
            readout=readout,
            standardize=standardize,
            backend=backend,
            device=device,
            dtype=dtype,
            block=block,
            random_state=random_state,
        )
        self.loss = loss
        self.biases = biases

    @property
    def _otherwise(self) -> str:
        return "a whole number of steps, a loss or a backend"

    def _plain(self) -> dict[str, tuple[bool, object]]:
        is_square = isinstance(self.loss, str) and self.loss.strip().lower() == "square"
        return {**super()._plain(), "loss": (is_square, "square")}

    def _fit_redraws(self, X: object, y: object, sample_weight: object) -> Self:
        asked = self._asked()
        inputs, targets = self._accepted(X, y, ensure_min_samples=2, multi_output=True)
        weights = self._weights_of(sample_weight, inputs)
        columns = targets[:, None] if targets.ndim == 1 else targets
        found = fit_redrawn(inputs, columns, weights, asked)
        self._keep_layer(found)
        layer, units, width = found.layer, found.units, found.layer.weights.shape[1]
        coefficients = layer.readout * units.target_scale
        constant = layer.offset - layer.centre @ layer.readout
        intercept = units.target_mean + units.target_scale * constant
        is_single = targets.ndim == 1
        self.coef_ = math.sqrt(width) * (coefficients[:, 0] if is_single else coefficients.T)
        self.intercept_ = float(intercept[0]) if is_single else intercept
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        try:
            tags.target_tags.multi_output = self._redraws()
        except InvalidParameter:  # fit says what is wrong
            tags.target_tags.multi_output = False
        return tags

    def predict(self, X: object) -> Float[Array, "n ..."]:
        """The predicted targets, one for each row of ``X``; a column for each of several."""
        return self._apply(X, lambda features, coefficients: features @ coefficients) + (
            self.intercept_
        )

    def _loss(self) -> Loss:
        if isinstance(self.loss, str) and self.loss.strip().lower() == "huber":
            return Huber(DELTA)
        hint = "OneStepClassifier has the losses of classes"
        return loss_among(LOSSES, self.loss, LOSSES_ALLOWED, hint)

    @property
    def _decade(self) -> int:
        return RIDGES_EXACT if self._loss().name == "square" else RIDGES_FITTED

    @property
    def _pull_limit(self) -> float:
        loss = self._loss()
        if loss.name == "square":
            return math.inf
        return loss.delta if isinstance(loss, Huber) else DELTA

    def _targets(self) -> Targets:
        return Numbers() if self._loss().name == "square" else RobustNumbers()

    def _readout_fit(self, kernel: Kernel, rows: Rows, settings: Settings) -> ReadoutFit:
        loss = self._loss()
        if loss.name == "square":
            return RidgeFit(kernel, rows, settings.ridges)
        return LossFit(kernel, rows, settings.ridges, loss=loss, intercept=True)

    def _keep(self, trained: Trained, rows: Rows, settings: Settings) -> None:
        super()._keep(trained, rows, settings)
        self.steps_, self.biases_ = settings.steps, np.zeros(settings.width)
        assert trained.solution is not None
        assert isinstance(rows.targets, Numbers)
        mean, scale = rows.targets.mean, rows.targets.scale
        coefficients, centre, offset = trained.solution
        self.coef_ = math.sqrt(settings.width) * scale * coefficients
        intercept = float(offset) - float(centre @ coefficients)
        self.intercept_ = mean + scale * intercept
        # the units of y: a quantile's loss is a length, the others are squares
        self.loo_errors_ = self.loo_errors_ * (
            scale if self._loss().name == "quantile" else scale**2
        )


class OneStepFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, OneStep):
    """The features s(W1^T x)/sqrt N of a two-layer network after one gradient step, a transformer.

    Arguments and attributes are those of ``OneStepRegressor``, without the coefficients. With a
    step that is given nothing has to be chosen: ``ridges`` is not used, and ``ridge_`` and the
    errors do not exist.
    """

    _with_readout = False

    def transform(self, X: object) -> Float[Array, "n N"]:
        """s(W1^T x)/sqrt N, one row for each row of ``X``."""
        return self._apply(X, lambda features, _: features)

    def _keep(self, trained: Trained, rows: Rows, settings: Settings) -> None:
        super()._keep(trained, rows, settings)
        assert isinstance(rows.targets, Numbers)
        if trained.choice is not None:
            self.loo_errors_ = self.loo_errors_ * rows.targets.scale**2

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
