"""What the scikit-learn estimators share: their arguments, the doors for data, and training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from firststep.activations import activation
from firststep.checks import choice, number, ridge_values, whole
from firststep.errors import InvalidParameter, NotConverged
from firststep.estimators.fits import OVERFLOW, ReadoutFit, RidgeFit
from firststep.estimators.kernel import Kernel, make_kernel
from firststep.estimators.rows import Rows, Split, array_reader
from firststep.estimators.targets import Numbers, Targets
from firststep.estimators.training import Settings, Trained, Training, leading_update
from firststep.losses import Loss, loss_of
from firststep.readouts import readout_law
from firststep.simulation.backends import BACKENDS, DEVICES, DTYPES, block_rows

if TYPE_CHECKING:
    from firststep.estimators.rows import Piece, Reader
    from firststep.typing import Array, Float

Batches = Callable[[], Iterable[tuple[Any, Any]]]
REFITS = ("all", "readout", "none")
RIDGES_EXACT = 4  # a decade, from one eigendecomposition
RIDGES_FITTED = 2  # a decade, where each is a fit
TRUE_OR_FALSE = (bool, np.bool_)
KINDS = (np.float64, np.float32)  # of numbers that are used as they are; others become the first


class OneStep(BaseEstimator):
    """Training, shared by all estimators.

    A subclass says what targets it takes, how the readout is fitted on them and what it keeps.
    """

    _with_readout: bool

    def __init__(
        self,
        width: object = 512,
        student: object = "tanh(z+1)",
        step: object = "auto",
        steps: object = 1,
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
        return self._fit(array_reader(*self._accepted(X, y, ensure_min_samples=2)))

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
                yield self._accepted(*piece, reset=not known)
                known = True

        return self._fit(read)

    def _accepted(self, X: object, y: object, **options: Any) -> Piece:
        """X and y as arrays, or one line that says what is wrong with them."""
        inputs, targets = self._validated(X, y, y_numeric=True, **options)
        # scikit-learn lets texts and dates through as targets
        if targets.dtype.kind in "USmM":
            given, hint = f"entries of type {targets.dtype.name}", "OneStepClassifier takes classes"
            raise InvalidParameter("y", "numbers", given, hint)
        return inputs, targets

    def _validated(self, *data: object, **options: Any) -> Any:
        """scikit-learn's checks; what is not finite is refused in one line."""
        try:
            return validate_data(self, *data, dtype=KINDS, **options)
        except ValueError as error:
            words = str(error)
            for found in ("NaN", "infinity"):
                for name in ("X", "y"):
                    if words.startswith(f"Input {name} contains {found}"):
                        hint = "leave such rows out, or fill them in"
                        raise InvalidParameter(name, "finite numbers", found, hint) from None
            raise

    def _fit(self, reader: Reader) -> Self:
        settings, kernel, block, standardize = self._checked()
        rows = Rows(
            reader,
            Split(settings.first_share, settings.seed),
            kernel.backend,
            targets=self._targets(),
            width=settings.width,
            block=block,
            standardize=standardize,
        )
        with kernel.scope():
            fit = self._readout_fit(kernel, rows, settings)
            trained = Training(fit, settings).run(self._with_readout)
        self._keep(trained, rows, settings)
        return self

    def _targets(self) -> Targets:
        return Numbers()

    def _readout_fit(self, kernel: Kernel, rows: Rows, settings: Settings) -> ReadoutFit:
        return RidgeFit(kernel, rows, settings.ridges)

    def _checked(self) -> tuple[Settings, Kernel, int | None, bool]:
        """The arguments, each checked under its own name."""
        if not isinstance(self.standardize, TRUE_OR_FALSE):
            raise InvalidParameter("standardize", "True or False", self.standardize)
        width = self._width()
        settings = Settings(
            width=width,
            step=None if isinstance(self.step, str) and self.step == "auto" else _step(self.step),
            steps=self._steps(),
            fraction=_fraction(self.step_fraction),
            refit=choice("refit", self.refit, REFITS),
            ridges=_ridges(self.ridges, width, self._decade),
            law=readout_law(self.readout),
            seed=_seed(self.random_state),
            limit=self._pull_limit,
        )
        return settings, self._kernel(), self._block(), bool(self.standardize)

    def _width(self) -> int:
        return whole("width", self.width, 1, 10**6)

    def _steps(self) -> int:
        return whole("steps", self.steps, 1, 10**6)

    @property
    def _decade(self) -> int:
        """Ridges in a decade of the path there is by default."""
        return RIDGES_EXACT

    @property
    def _pull_limit(self) -> float:
        """Of the residuals in the step."""
        return math.inf

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
        self._keep_update(trained.initial, trained.weights)
        if trained.choice is not None:
            self.step_candidates_, self.ridges_ = trained.choice.candidates, settings.ridges
            self.ridge_ = float(settings.ridges[trained.choice.ridge])
            self.loo_errors_ = trained.choice.errors
        self._n_features_out = settings.width

    def _keep_update(self, before: Float[Array, "d N"], after: Float[Array, "d N"]) -> None:
        self.singular_values_, self.direction_ = leading_update(before, after)
        first, second = self.singular_values_
        self.spike_ratio_ = (
            math.nan if first == 0 else math.inf if second == 0 else float(first / second)
        )

    def _lifted(
        self, inputs: Float[Array, "n d"]
    ) -> tuple[Float[Array, "n columns"], Float[Array, "columns N"]]:
        """Inputs in standard units and W1; with biases, a column of ones and a row of them."""
        scaled, biases = (inputs - self.mean_) / self.scale_, getattr(self, "biases_", None)
        if biases is None or not biases.any():
            return scaled, self.weights_
        ones = np.ones((len(scaled), 1), dtype=scaled.dtype)
        return np.hstack([scaled, ones]), np.vstack([self.weights_, biases])

    def _apply(
        self, X: object, then: Callable[[Float[Array, "n N"], Float[Array, "N ..."]], Any]
    ) -> Float[Array, "n ..."]:
        """then(s(x W1)/sqrt N, coefficients on the device) of all rows, computed in blocks."""
        check_is_fitted(self)
        inputs = self._validated(X, reset=False)
        kernel = self._kernel()
        backend, width = kernel.backend, self.weights_.shape[1]
        size = self._block() or block_rows(width, inputs.shape[1], backend)
        parts = []
        with kernel.scope():
            weights = backend.to_device(self._lifted(inputs[:0])[1])
            coefficients = backend.to_device(np.transpose(getattr(self, "coef_", 0.0)))
            for start in range(0, len(inputs), size):
                scaled, _ = self._lifted(inputs[start : start + size])
                features = kernel.features(backend.to_device(scaled), weights) / math.sqrt(width)
                parts.append(backend.to_host(then(features, coefficients)))
        found = np.concatenate(parts)
        if not np.all(np.isfinite(found)):
            raise NotConverged(OVERFLOW)
        return found


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


def _ridges(value: object, width: int, decade: int) -> Float[Array, " ridges"]:
    if value is None:
        # From hardly any to one that leaves little but the mean.
        return width * np.geomspace(1e-8, 1e2, 10 * decade + 1)
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


def loss_among(names: tuple[str, ...], value: object, allowed: str, hint: str) -> Loss:
    """The loss meant by a text, if it is one of these."""
    try:
        found = loss_of(value)
    except InvalidParameter as error:
        (fault,) = error.faults
        raise InvalidParameter("loss", allowed, value, fault.hint) from None
    if found.name not in names:
        raise InvalidParameter("loss", allowed, value, hint)
    return found
