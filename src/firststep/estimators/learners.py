"""``OneStepRegressor`` and ``OneStepFeatures``: the scikit-learn estimators."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from firststep.activations import activation
from firststep.checks import choice, number, ridge_values, whole
from firststep.errors import InvalidParameter, NotConverged
from firststep.estimators.kernel import Kernel, make_kernel
from firststep.estimators.rows import Rows, Split, array_reader
from firststep.estimators.training import OVERFLOW, Settings, Trained, Training, leading_update
from firststep.readouts import readout_law
from firststep.simulation.backends import BACKENDS, DEVICES, DTYPES, block_rows

if TYPE_CHECKING:
    from firststep.estimators.rows import Piece, Reader
    from firststep.typing import Array, Float

Batches = Callable[[], Iterable[tuple[Any, Any]]]
REFITS = ("all", "readout", "none")
TRUE_OR_FALSE = (bool, np.bool_)
KINDS = (np.float64, np.float32)  # of numbers that are used as they are; others become the first


def _refuse_texts(targets: Float[Array, " n"]) -> None:
    """scikit-learn lets texts and dates through as targets."""
    if targets.dtype.kind in "USmM":
        given, hint = f"entries of type {targets.dtype.name}", "encode classes as numbers first"
        raise InvalidParameter("y", "numbers", given, hint)


class _OneStep(BaseEstimator):
    """Training, shared by the regressor and the features."""

    _with_readout: bool

    def __init__(
        self,
        width: int = 512,
        student: object = "tanh(z+1)",
        step: object = "auto",
        steps: int = 1,
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
    ) -> None:
        self.width = width
        self.student = student
        self.step = step
        self.steps = steps
        self.step_fraction = step_fraction
        self.refit = refit
        self.ridges = ridges
        self.readout = readout
        self.standardize = standardize
        self.backend = backend
        self.device = device
        self.dtype = dtype
        self.block = block
        self.random_state = random_state

    def fit(self, X: object, y: object) -> Self:
        """Train on inputs ``X`` (samples x columns) and targets ``y``, read in blocks of rows.

        Either may be mapped from a file.
        """
        inputs, targets = validate_data(
            self, X, y, dtype=KINDS, y_numeric=True, ensure_min_samples=2
        )
        _refuse_texts(targets)
        return self._fit(array_reader(inputs, targets))

    def fit_stream(self, batches: Batches) -> Self:
        """Train on data that need not fit in memory; the result is that of ``fit`` on all rows.

        Args:
            batches: a function without arguments that returns an iterator of pairs (X, y), pieces
                of any size. It is called once for every pass over the data and must give the same
                rows in the same order each time.
        """
        if not callable(batches):
            allowed = "a function without arguments that returns an iterator of pairs (X, y)"
            raise InvalidParameter("batches", allowed, batches, "it is called more than once")
        known = False

        def read() -> Iterator[Piece]:
            nonlocal known
            for piece in batches():
                if not (isinstance(piece, tuple | list) and len(piece) == 2):
                    raise InvalidParameter(
                        "batches",
                        "a function whose iterator gives pairs (X, y)",
                        type(piece).__name__,
                    )
                if hasattr(piece[1], "__len__") and len(piece[1]) == 0:
                    continue
                checked = validate_data(self, *piece, dtype=KINDS, y_numeric=True, reset=not known)
                _refuse_texts(checked[1])
                yield checked
                known = True

        return self._fit(read)

    def _fit(self, reader: Reader) -> Self:
        settings, kernel, block, standardize = self._checked()
        rows = Rows(
            reader,
            Split(settings.first_share, settings.seed),
            kernel.backend,
            width=settings.width,
            block=block,
            standardize=standardize,
        )
        with kernel.scope():
            trained = Training(kernel, rows, settings).run(self._with_readout)
        self._keep(trained, rows, settings)
        return self

    def _checked(self) -> tuple[Settings, Kernel, int | None, bool]:
        """The arguments, each checked under its own name."""
        if not isinstance(self.standardize, TRUE_OR_FALSE):
            raise InvalidParameter("standardize", "True or False", self.standardize)
        width = whole("width", self.width, 1, 10**6)
        settings = Settings(
            width=width,
            step=None if isinstance(self.step, str) and self.step == "auto" else _step(self.step),
            steps=whole("steps", self.steps, 1, 10**6),
            fraction=_fraction(self.step_fraction),
            refit=choice("refit", self.refit, REFITS),
            ridges=_ridges(self.ridges, width),
            law=readout_law(self.readout),
            seed=_seed(self.random_state),
        )
        return settings, self._kernel(), self._block(), bool(self.standardize)

    def _block(self) -> int | None:
        return None if self.block is None else whole("block", self.block, 1, 10**9)

    def _kernel(self) -> Kernel:
        return make_kernel(
            activation(self.student, parameter="student"),
            choice("backend", self.backend, BACKENDS),
            choice("device", self.device, DEVICES),
            choice("dtype", self.dtype, DTYPES),
        )

    def _keep(self, trained: Trained, rows: Rows, settings: Settings) -> None:
        self.mean_, self.scale_ = rows.mean, rows.scale
        self.weights_, self.readout_, self.step_ = trained.weights, trained.readout, trained.step
        self.singular_values_, self.direction_ = leading_update(trained.initial, trained.weights)
        first, second = self.singular_values_
        self.spike_ratio_ = (
            math.nan if first == 0 else math.inf if second == 0 else float(first / second)
        )
        if trained.choice is not None:
            self.step_candidates_, self.ridges_ = trained.choice.candidates, settings.ridges
            self.ridge_ = float(settings.ridges[trained.choice.ridge])
            self.loo_errors_ = trained.choice.errors * rows.target_scale**2
        self._n_features_out = settings.width

    def _apply(
        self, X: object, then: Callable[[Float[Array, "n N"], Float[Array, " N"]], Any]
    ) -> Float[Array, "n ..."]:
        """then(s(x W1)/sqrt N, coefficients on the device) of all rows, computed in blocks."""
        check_is_fitted(self)
        inputs = validate_data(self, X, dtype=KINDS, reset=False)
        kernel = self._kernel()
        backend, width = kernel.backend, self.weights_.shape[1]
        size = self._block() or block_rows(width, inputs.shape[1], backend)
        parts = []
        with kernel.scope():
            weights = backend.to_device(self.weights_)
            coefficients = backend.to_device(getattr(self, "coef_", 0.0))
            for start in range(0, len(inputs), size):
                scaled = (inputs[start : start + size] - self.mean_) / self.scale_
                features = kernel.features(backend.to_device(scaled), weights) / math.sqrt(width)
                parts.append(backend.to_host(then(features, coefficients)))
        found = np.concatenate(parts)
        if not np.all(np.isfinite(found)):
            raise NotConverged(OVERFLOW)
        return found


class OneStepRegressor(RegressorMixin, _OneStep):
    """Ridge regression on the features of a two-layer network after one gradient step.

    The network is f(x) = (1/N) sum_i at_i s(<w_i, x>), w_i ~ N(0, I/d), on inputs and targets in
    standard units. With its readout at fixed, one step
    W1 = W0 + etat (1/n0) X^T [(r at^T) o s'(X W0)], r = y - f(X), is taken on a part of the
    samples: that of a ``Problem`` with this ``step`` and ``step_exponent`` 1/2. The readout is then
    fitted with a free intercept on the others, minimising (1/n)|y - b0 - F b|^2 + ridge |b|^2,
    F = s(X W1), for a path of ridge values with exact leave-one-out errors. docs/estimators.md has
    the rules, a comparison with other regressors and the limits.

    Args:
        width: N, the number of neurons.
        student: the activation s: a name, an expression in z, or a function, as for ``activation``.
        step: etat, or auto: of 0 (random features) and six sizes that change the pre-activations by
            1/4 to 8 times their own size, the one which, with its best ridge, has the least
            leave-one-out error.
        steps: gradient steps, all on the same samples.
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

    After ``fit`` or ``fit_stream``: ``weights_`` (W1, d x N, for inputs in standard units),
    ``readout_`` (at), ``coef_`` and ``intercept_`` (the prediction is intercept_ + coef_ . s(W1^T
    x)/sqrt N), ``step_``, ``ridge_``, ``step_candidates_``, ``ridges_`` and ``loo_errors_``
    (candidates x ridges, mean squared; with ``step_fraction`` 1 on the held-out samples),
    ``singular_values_`` (the two leading ones of W1 - W0), ``spike_ratio_`` (the first over the
    second: large if the step is one direction), ``direction_`` (that direction in the space of the
    inputs), ``mean_``, ``scale_``, ``n_features_in_`` and ``feature_names_in_``.
    """

    _with_readout = True

    def predict(self, X: object) -> Float[Array, " n"]:
        """The predicted targets, one for each row of ``X``."""
        return self._apply(X, lambda features, coefficients: features @ coefficients) + (
            self.intercept_
        )

    def _keep(self, trained: Trained, rows: Rows, settings: Settings) -> None:
        super()._keep(trained, rows, settings)
        assert trained.solution is not None
        coefficients, centre, offset = trained.solution
        self.coef_ = math.sqrt(settings.width) * rows.target_scale * coefficients
        intercept = float(offset) - float(centre @ coefficients)
        self.intercept_ = rows.target_mean + rows.target_scale * intercept


class OneStepFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _OneStep):
    """The features s(W1^T x)/sqrt N of a two-layer network after one gradient step, a transformer.

    Arguments and attributes are those of ``OneStepRegressor``, without the coefficients. With a
    step that is given nothing has to be chosen: ``ridges`` is not used, and ``ridge_`` and the
    errors do not exist.
    """

    _with_readout = False

    def transform(self, X: object) -> Float[Array, "n N"]:
        """s(W1^T x)/sqrt N, one row for each row of ``X``."""
        return self._apply(X, lambda features, _: features)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _step(value: object) -> float:
    try:
        return number("step", value, 0.0, high=1e30)
    except InvalidParameter:
        raise InvalidParameter("step", "auto, or a finite number >= 0", value) from None


def _fraction(value: object) -> float:
    if isinstance(value, str) and value == "all":
        return 1.0
    try:
        return number("step_fraction", value, 0.0, strict=True, high=1.0)
    except InvalidParameter:
        raise InvalidParameter("step_fraction", "all, or a number > 0 and <= 1", value) from None


def _ridges(value: object, width: int) -> Float[Array, " ridges"]:
    if value is None:
        # From hardly any to one that leaves little but the mean, four values a decade.
        return width * np.geomspace(1e-8, 1e2, 41)
    allowed = "positive numbers, at most 1e30, or a range such as 1e-4..1e2:13"
    try:
        found = np.atleast_1d(np.asarray(ridge_values(value), dtype=float))
    except InvalidParameter:
        raise InvalidParameter("ridges", allowed, value) from None
    if not found.min() > 0:
        raise InvalidParameter(
            "ridges", allowed, value, "leave-one-out needs a ridge; try a small one"
        )
    return found


def _seed(value: object) -> int:
    try:
        return int(check_random_state(value).randint(2**31 - 1))
    except ValueError:
        raise InvalidParameter(
            "random_state",
            "None, a whole number from 0 to 2**32 - 1, or a numpy RandomState",
            value,
        ) from None
