"""``OneStepClassifier``: two classes or several, by any convex loss of labels +-1."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.special import log_expit, logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import type_of_target

from firststep.errors import InvalidParameter
from firststep.estimators.base import RIDGES_FITTED, TRUE_OR_FALSE, loss_among
from firststep.estimators.fits import ReadoutFit
from firststep.estimators.kernel import Kernel
from firststep.estimators.loss_fit import LossFit
from firststep.estimators.redrawing import Redrawing
from firststep.estimators.redrawn_classes import fit_classes, indicators
from firststep.estimators.rows import Rows
from firststep.estimators.targets import Classes, Targets
from firststep.estimators.training import Settings, Trained
from firststep.losses import Loss

if TYPE_CHECKING:
    from firststep.estimators.rows import Piece
    from firststep.typing import Array, Float

LOSSES = ("logistic", "squared-hinge", "hinge", "square")
LOSSES_ALLOWED = "logistic, squared-hinge, hinge or square"


def _has_probabilities(model: OneStepClassifier) -> bool:
    if model._loss().name == "logistic":
        return True
    told = f"probabilities need loss='logistic', not {model.loss!r}"
    raise AttributeError(f"{told}; CalibratedClassifierCV adds them to any loss")


class OneStepClassifier(ClassifierMixin, Redrawing):
    """A linear classifier on the features of a two-layer network whose first layer has learned.

    Without arguments, the classifier to use: ``steps="auto"`` draws the first layer anew from the
    second moments of the gradient of a fit to labels +-1, as often as rows held out say, with
    biases and a width by the number of rows (docs/estimators.md, "Redraws" and "Classes"). On the
    last layer (1/n) sum_i l(y_i, b0 + F_i B) + ridge |B|^2 is minimised, its ridge chosen by the
    same loss on rows held out. The logistic loss of several classes is then
    -log softmax(b0 + F B)_class; the other losses are fitted one class against the rest. Rows may
    have weights. Data, features (n x N) and a Gram matrix are in memory.

    With a width, the one-step network of the theory, with labels y = +-1 and inputs in standard
    units: W1 = W0 + etat (1/n0) X^T [(r at^T) o s'(X W0)], r = y - c - f(X), where the constant c
    is the mean of y with an intercept and 0 without. The readout is then fitted anew, minimising
    (1/n) sum_i l(y_i, b0 + F_i b) + ridge |b|^2, F = s(X W1), for a path of ridges with approximate
    leave-one-out errors. (scikit-learn's C is 1/(2 n ridge).)

    With K > 2 classes the network has K outputs, a column of labels and of at for each class (+1
    the class, -1 the rest), and one first layer: r at^T = R At^T, the gradient of the sum of the K
    square losses. Each output is fitted by itself on the shared features, with one ridge for all;
    the largest output is the class. docs/estimators.md has the reasons, a comparison with other
    classifiers and the limits.

    Args:
        width: N, the number of neurons. auto: with redraws four times the number of distinct rows,
            but at least 500 and at most 2000; otherwise 512.
        student: the activation s: a name, an expression in z, or a function, as for ``activation``.
        step: etat, or auto: of 0 (random features) and six sizes that change the pre-activations by
            1/4 to 8 times their own size, the one which, with its best ridge, has the least
            leave-one-out loss.
        steps: auto, redraws, with NumPy, float64, an intercept and ``fit`` only; ``step``,
            ``step_fraction``, ``refit``, ``readout`` and ``block`` are of no use then. A whole
            number: gradient steps, all on the same samples. None: auto if ``width`` and ``step``
            are auto and redraws are possible, and 1 otherwise.
        step_fraction: the share of the samples that the step sees while step and ridge are chosen;
            the readout is fitted on the others. 1 or all: both see the same samples, and a quarter
            of all is held out to choose by.
        refit: what is done over with all samples once step and ridge are chosen: all (step and
            readout), readout, or none.
        ridges: positive numbers, or a range such as 1e-4..1e2:13; by default 21 values from 1e-8 N
            to 100 N, with redraws 19 by the size of the features. They are tried from the largest
            down until the error is twice its least (with redraws 1.03 times).
        readout: the law of at: gaussian, ones, signs, or as for ``readout_law``.
        standardize: centre the columns of X and divide them by their standard deviation; constant
            columns are left out.
        backend: numpy or jax, of all but the fits, which are NumPy's.
        device: auto, cpu or gpu.
        dtype: float64 or float32.
        block: rows per block; the result depends on it by rounding only.
        random_state: seed of W0, at and the split of the samples.
        loss: logistic, squared-hinge, hinge or square.
        intercept: whether there is a free constant b0, not penalised.
        biases: the standard deviation of fixed biases c_i ~ N(0, biases^2) inside of s, with
            redraws; auto is 1. One-step networks have none (auto or 0).

    After redraws: ``classes_``, ``weights_`` (W, d x N), ``biases_``, ``coef_`` (one row, or one a
    class), ``intercept_`` (``decision_function`` is intercept_ + s(W^T x + biases_)/sqrt N .
    coef_), ``steps_`` (how many), ``moments_`` (R R^T, d x d of trace 1: along what the fit depends
    on the inputs), ``is_diagonal_``, ``stretch_`` (the scale a), ``held_errors_`` (mean squares of
    labels in standard units after 0, 1, 2 ... redraws), ``held_loss_`` and ``held_error_rate_``
    (of the readout chosen, on rows held out; nan where there was nothing to judge by), ``ridge_``,
    ``singular_values_``, ``spike_ratio_``, ``direction_``, ``mean_``, ``scale_``,
    ``n_features_in_`` and ``feature_names_in_``.

    With a whole number of steps, after ``fit`` or ``fit_stream``: ``classes_``, ``coef_`` (one row,
    or one a class) and ``intercept_`` (``decision_function`` is intercept_ + s(W1^T x)/sqrt N .
    coef_), ``weights_`` (W1), ``readout_`` (at, or N x K), ``step_``, ``ridge_``,
    ``step_candidates_``, ``ridges_``,
    ``loo_errors_`` and ``loo_error_rates_`` (candidates x ridges: mean loss, over classes too, and
    share of wrong classes; with ``step_fraction`` 1 on the held-out samples; infinite where they
    cannot be trusted or the path had ended), ``singular_values_``, ``spike_ratio_``,
    ``direction_``, ``mean_``, ``scale_``, ``n_features_in_`` and ``feature_names_in_``.
    """

    _is_softmax = False

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
        loss: object = "logistic",
        intercept: bool = True,
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
        self.intercept = intercept
        self.biases = biases

    @property
    def _otherwise(self) -> str:
        return "a whole number of steps, no intercept or a backend"

    def _plain(self) -> dict[str, tuple[bool, object]]:
        is_free = isinstance(self.intercept, TRUE_OR_FALSE) and bool(self.intercept)
        return {**super()._plain(), "intercept": (is_free, True)}

    def _fit_redraws(self, X: object, y: object, sample_weight: object) -> Self:
        loss, asked = self._loss(), self._asked()
        inputs, labels = self._accepted(X, y, ensure_min_samples=2)
        weights = self._weights_of(sample_weight, inputs)
        used, classes = weights > 0, Classes(has_constant=True)
        classes.add(labels[used])
        classes.finish()
        codes = np.searchsorted(classes.values, labels[used])
        found, chosen = fit_classes(
            inputs[used], indicators(codes, classes.count), weights[used], asked, loss
        )
        self._keep_layer(found)
        layer, width = found.layer, found.layer.weights.shape[1]
        self.classes_ = classes.values
        self.coef_ = math.sqrt(width) * np.ascontiguousarray(layer.readout.T)
        self.intercept_ = layer.offset - layer.centre @ layer.readout
        self.held_loss_, self.held_error_rate_ = chosen.loss, chosen.error_rate
        self._is_softmax = True
        return self

    def decision_function(self, X: object) -> Float[Array, "n ..."]:
        """The outputs: positive for the second of two classes, or a column for each of several."""
        outputs = self._apply(X, lambda features, coefficients: features @ coefficients)
        outputs = outputs + self.intercept_
        return outputs[:, 0] if len(self.classes_) == 2 else outputs

    def predict(self, X: object) -> Array:
        """The class of each row of ``X``."""
        outputs = self.decision_function(X)
        places = outputs > 0 if outputs.ndim == 1 else np.argmax(outputs, axis=1)
        return self.classes_[places.astype(int)]

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: object) -> Float[Array, "n K"]:
        """Probabilities of the classes, logistic loss only: sigmoid(f) for two; for several
        softmax(f) after redraws, and after one step the sigmoid of every output over their sum.
        """
        return np.exp(self._log_probabilities(X))

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: object) -> Float[Array, "n K"]:
        """The logarithms of ``predict_proba``, also of those that are too small for it."""
        return self._log_probabilities(X)

    def _log_probabilities(self, X: object) -> Float[Array, "n K"]:
        outputs = self.decision_function(X)
        if outputs.ndim == 1:
            return np.stack([log_expit(-outputs), log_expit(outputs)], axis=1)
        logarithms = outputs if self._is_softmax else log_expit(outputs)
        return logarithms - logsumexp(logarithms, axis=1, keepdims=True)

    def _loss(self) -> Loss:
        hint = "OneStepRegressor has the losses of numbers"
        return loss_among(LOSSES, self.loss, LOSSES_ALLOWED, hint)

    @property
    def _decade(self) -> int:
        return RIDGES_FITTED

    def _accepted(self, X: object, y: object, **options: Any) -> Piece:
        inputs, targets = self._validated(X, y, **options)
        kind = type_of_target(targets, input_name="y")
        if kind not in ("binary", "multiclass"):
            given, hint = f"Unknown label type: {kind}", "OneStepRegressor takes numbers"
            raise InvalidParameter("y", "labels of classes", given, hint)
        return inputs, targets

    def _targets(self) -> Targets:
        self._loss()
        if not isinstance(self.intercept, TRUE_OR_FALSE):
            raise InvalidParameter("intercept", "True or False", self.intercept)
        return Classes(has_constant=bool(self.intercept))

    def _readout_fit(self, kernel: Kernel, rows: Rows, settings: Settings) -> ReadoutFit:
        pulls = rows.targets.outputs > 1 and settings.step != 0
        if pulls and len(settings.law.values) == 1:
            hint = "the outputs of three classes or more would pull as one"
            raise InvalidParameter("readout", "a law of several values", self.readout, hint)
        return LossFit(
            kernel, rows, settings.ridges, loss=self._loss(), intercept=bool(self.intercept)
        )

    def _keep(self, trained: Trained, rows: Rows, settings: Settings) -> None:
        super()._keep(trained, rows, settings)
        assert trained.solution is not None
        assert trained.choice is not None
        assert isinstance(rows.targets, Classes)
        coefficients, _, offset = trained.solution
        self.classes_ = rows.targets.values
        self.coef_ = math.sqrt(settings.width) * np.atleast_2d(coefficients.T)
        self.intercept_ = np.atleast_1d(offset)
        self.loo_error_rates_ = trained.choice.rates
        self.steps_, self.biases_ = settings.steps, np.zeros(settings.width)
        self._is_softmax = False
