"""The problem of the theory that is nearest to the data, and what it predicts beside the data.

The teacher is a function of one direction and noise. Its linear part is that of the population's
regression of y on the columns: with n rows, d columns and the share R^2 that least squares explains
on the rows it was fitted on,

    c1^2 = 1 - (1 - R^2) (n - 1)/(n - d - 1),

which is unbiased for Gaussian noise. Further coefficients are read off crosswise: with b fitted on
one half of the rows, kappa = <x, b> in units of its own spread on the other half, and
gamma = E[y kappa]/c1 the overlap of the two directions,

    c_k = E[y He_k(kappa)]/(k! gamma^k),     k = 2, 3,

kept, less the square of their error over themselves, where they are beyond two standard errors.
A function that saturates is taken for a tanh with these c_1 and c_3. The noise is all the rest of
the variance of y: what further directions explain counts as noise here. The risk that the theory is
compared with is that of the network it is about: a step on one half of the rows, the readout on the
other, nothing refitted, at the step and ridge that were chosen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.optimize

from firststep.advice.intervals import Interval, mean_of_rows
from firststep.advice.measured import (
    NO_STEP,
    ONE_STEP,
    fold_count,
    folds_of,
    in_parallel,
    regressor,
)
from firststep.errors import FirststepError
from firststep.inputs import DataInputs, SpectrumInputs
from firststep.predicting import predict
from firststep.problem import Problem
from firststep.simulation.running.diagnosis import FEWEST_ROWS, InputDiagnosis, diagnose_inputs

if TYPE_CHECKING:
    from firststep.typing import Array, Float

STUDENT = "tanh(z+1)"  # that of the estimators
FEWEST_PER_COLUMN = 1.5  # rows over columns: below, least squares says nothing
OF_COVARIANCE = "the covariance is not the identity"
UNCERTAIN = "too few to tell"  # of a reason that is no more than a lack of rows
STEEPEST = 20.0  # b of tanh(b z): beyond, it is a sign
MOST_VARIANCE = 0.9999  # of a teacher, of y of variance one
SMALLEST_OVERLAP = 0.3  # gamma below which nothing but the linear part is read off


@dataclass(frozen=True)
class Trust:
    """Whether the Gaussian theory can be trusted on these inputs, and why not."""

    word: str  # trusted, covariance only, not trusted, not known
    reasons: tuple[str, ...]
    diagnosis: InputDiagnosis | None

    @property
    def holds(self) -> bool:
        """With the covariance that was measured."""
        return self.word in ("trusted", "covariance only")

    def to_dict(self) -> dict[str, Any]:
        """Plain values fit for JSON."""
        found = None if self.diagnosis is None else self.diagnosis.to_dict()
        return {"word": self.word, "reasons": list(self.reasons), "diagnosis": found}


@dataclass(frozen=True)
class Matched:
    """The matched problem, its predictions and the same measured; risks over the variance of y."""

    problem: Problem
    linear_part: Interval  # c1^2: the share of the variance of y that is linear in the columns
    coefficients: tuple[float, float, float]  # c_k of He_k, k = 1, 2, 3
    noise: float
    predicted: dict[str, Interval]  # by model: risk on new rows, with their noise
    model_error: dict[str, float]  # how far networks of that size may be, relative
    measured: dict[str, Interval]

    def to_dict(self) -> dict[str, Any]:
        """Plain values fit for JSON."""
        return {
            "problem": {**self.problem.to_dict(), "inputs": str(self.problem.inputs)},
            "linear_part": self.linear_part.to_dict(),
            "coefficients": list(self.coefficients),
            "noise": self.noise,
            "predicted": {name: each.to_dict() for name, each in self.predicted.items()},
            "model_error": dict(self.model_error),
            "measured": {name: each.to_dict() for name, each in self.measured.items()},
        }


def judge_inputs(x: Float[Array, "n d"], *, seed: int) -> Trust:
    """``diagnose_inputs`` of columns in standard units; in words where rows are too few for it."""
    n, d = x.shape
    if n < FEWEST_ROWS or d < 2:
        told = f"{n} rows of {d} columns: the diagnosis needs {FEWEST_ROWS} and 2"
        return Trust("not known", (told,), None)
    try:
        found = diagnose_inputs(DataInputs.of(x, name="the columns in standard units"), seed=seed)
    except FirststepError as error:
        return Trust("not known", (str(error),), None)
    certain = tuple(reason for reason in found.reasons if UNCERTAIN not in reason)
    # beside a covariance that a lack of rows hides the rest of, nothing is known to be wrong
    wrong = [reason for reason in certain if not reason.startswith(OF_COVARIANCE)]
    known = "not trusted" if wrong or len(certain) == len(found.reasons) else "not known"
    word = "covariance only" if found.covariance_only else known
    reasons = (*certain, *(reason for reason in found.reasons if reason not in certain))
    return Trust("trusted" if found.trusted else word, reasons, found)


def linear_part(x: Float[Array, "n d"], y: Float[Array, " n"]) -> Interval | None:
    """c1^2 with its interval; None where rows are too few for least squares."""
    n, d = x.shape
    if n < FEWEST_PER_COLUMN * d + 5:
        return None
    solution, _, rank, _ = np.linalg.lstsq(x, y, rcond=None)
    rest = 1 - float(np.sum((y - x @ solution) ** 2) / np.sum(y**2))
    freedom = n - int(rank) - 1
    value = 1 - (1 - rest) * (n - 1) / freedom
    # of a share of variance with as many columns (Olkin and Finn's, and the chance part)
    kept = min(max(value, 0.0), 1.0)
    squared = 4 * kept * (1 - kept) ** 2 / freedom + 2 * rank * (1 - kept) ** 2 / freedom**2
    return Interval.around(value, math.sqrt(squared))


def _coefficients(
    x: Float[Array, "n d"], y: Float[Array, " n"], c1: float, seed: int
) -> tuple[float, float, float]:
    """c_k of He_k along the direction of the regression, k = 1, 2, 3."""
    first = np.random.default_rng((seed, 7)).permutation(len(y)) < len(y) // 2
    kappa = np.empty(len(y))
    for half in (first, ~first):
        b = np.linalg.lstsq(x[~half], y[~half], rcond=None)[0]
        along = x[half] @ b
        spread = float(along.std())
        kappa[half] = (along - along.mean()) / (spread if spread > 0 else 1.0)
    gamma = min(1.0, float(np.mean(y * kappa)) / c1) if c1 > 0 else 0.0
    if gamma < SMALLEST_OVERLAP:
        return c1, 0.0, 0.0
    found = []
    for degree, values in ((2, kappa**2 - 1), (3, kappa**3 - 3 * kappa)):
        products = y * values
        mean, error = float(products.mean()), float(products.std()) / math.sqrt(len(y))
        # what its own error makes of a square is taken off again
        kept = 1 - (error / mean) ** 2 if abs(mean) > 2 * error else 0.0
        found.append(kept * mean / (math.factorial(degree) * gamma**degree))
    return c1, found[0], found[1]


def _hermite_of_tanh(b: float) -> tuple[float, float, float]:
    """c_1, c_3 and the variance of tanh(b z)."""
    weights = np.exp(-(_Z**2) / 2)
    weights /= weights.sum()
    values = np.tanh(b * _Z)
    third = float(weights @ (values * (_Z**3 - 3 * _Z))) / 6
    return float(weights @ (values * _Z)), third, float(weights @ values**2)


_Z = np.linspace(-8.5, 8.5, 1701)


def _teacher(c: tuple[float, float, float]) -> tuple[str, float]:
    """The teacher as text and its variance.

    What saturates (c_3 against c_1) is a tanh(b z) with these two coefficients, which has the
    higher ones too; all else the polynomial.
    """
    c1, c2, c3 = c
    terms, variance = [f"({c2:.6g})*hermite2(z)"] if c2 else [], 2 * c2**2
    ratio = c3 / c1
    if ratio < -1e-4:

        def miss(b: float) -> float:
            first, third, _ = _hermite_of_tanh(b)
            return third / first - ratio

        b = STEEPEST if miss(STEEPEST) > 0 else float(scipy.optimize.brentq(miss, 1e-3, STEEPEST))
        first, _, square = _hermite_of_tanh(b)
        size = c1 / first
        return " + ".join([f"({size:.6g})*tanh({b:.4g}*z)", *terms]), variance + size**2 * square
    terms += [f"({c3:.6g})*hermite3(z)"] if c3 else []
    return " + ".join([f"({c1:.6g})*z", *terms]), variance + c1**2 + 6 * c3**2


def _fitting(c: tuple[float, float, float]) -> tuple[str, tuple[float, float, float], float]:
    """A teacher of no more variance than there is; its further coefficients give way."""
    for shrink in np.linspace(1, 0, 21).tolist():
        kept = c[0], c[1] * shrink, c[2] * shrink
        text, variance = _teacher(kept)
        if variance <= MOST_VARIANCE:
            return text, kept, variance
    return text, kept, min(variance, 1.0)


def match_problem(
    x: Float[Array, "n d"],
    y: Float[Array, " n"],
    trust: Trust,
    *,
    step: float,
    ridges: dict[str, float],
    width: int,
    seed: int,
) -> tuple[Matched | None, str]:
    """The matched problem; or none, and why."""
    n, d = x.shape
    share = linear_part(x, y)
    if share is None:
        return None, f"{n} rows of {d} columns are too few to estimate the linear part"
    if d < 2:
        return None, "the theory is about many columns"
    if not share.is_positive:
        return None, "no linear part can be told from zero, and a step starts from one"
    linear = math.sqrt(min(share.value, MOST_VARIANCE))
    text, kept, variance = _fitting(_coefficients(x, y, linear, seed))
    fitted = n * (1 - 1 / fold_count(n)) / 2  # rows of the step, and of the readout
    # without a free constant, which costs three times as long and changes no risk by 1 %: features
    # of this student have a mean of their own
    problem = Problem(
        student=STUDENT,
        teacher=text,
        alpha=fitted / d,
        beta=width / d,
        alpha0=fitted / d,
        step=step,
        step_exponent=0.5,
        ridge=ridges[ONE_STEP],
        noise=math.sqrt(max(1 - variance, 0.0)),
        inputs=_inputs(x, y, trust),
        dimension=d,
    )
    asked = {NO_STEP: problem.replace(alpha0=0.0, step=0.0, ridge=ridges[NO_STEP])}
    if step > 0:
        asked = {ONE_STEP: problem, **asked}
    predicted, errors = {}, {}
    for name, each in asked.items():
        try:
            predicted[name], errors[name] = _predicted(each, share, variance)
        except FirststepError as error:
            return None, f"the equations of the matched problem were not solved: {error}"
    measured = {
        name: _unrefitted(x, y, step=float(each.step), ridge=ridges[name], width=width, seed=seed)
        for name, each in asked.items()
    }
    matched = Matched(
        problem=problem,
        linear_part=share,
        coefficients=kept,
        noise=problem.noise,
        predicted=predicted,
        model_error=errors,
        measured=measured,
    )
    return matched, ""


def _inputs(x: Float[Array, "n d"], y: Float[Array, " n"], trust: Trust) -> Any:
    """The spectrum of the rows where it is not that of N(0, I), if it can be known."""
    if trust.word == "trusted":
        return "gaussian"
    try:
        return SpectrumInputs.from_data(x, y)
    except FirststepError:
        return "gaussian"


def _predicted(problem: Problem, share: Interval, variance: float) -> tuple[Interval, float]:
    """The risk with its noise, for the teacher and for the teacher scaled to both ends of c1^2.

    The interval has no other error than that of the linear part; and the model error.
    """
    risks = []
    for end in (share.value, share.high, share.low):
        factor = min(max(end, 0.0) / share.value, MOST_VARIANCE / variance)
        noise = math.sqrt(max(1 - factor * variance, 0.0))
        teacher = f"({math.sqrt(factor):.6g})*({problem.teacher})"
        scaled = problem if end == share.value else problem.replace(teacher=teacher, noise=noise)
        found = predict(scaled)
        risks.append(float(found.risk) + scaled.noise**2)
        if end == share.value:
            error = float(found.model_error)
    return Interval(risks[0], min(risks), max(risks)), error


def _unrefitted(
    x: Float[Array, "n d"],
    y: Float[Array, " n"],
    *,
    step: float,
    ridge: float,
    width: int,
    seed: int,
) -> Interval:
    """The risk of the network of the theory, in folds: step and readout on halves of the rows."""
    folds = folds_of(len(y), seed)[0]

    def task(number: int) -> Any:
        held = folds == number
        name = ONE_STEP if step > 0 else NO_STEP
        options = {"step": step, "ridges": [ridge], "refit": "none"}
        model = regressor(name, width=width, seed=seed + number, **options)
        return lambda: (y[held] - model.fit(x[~held], y[~held]).predict(x[held])) ** 2

    squares = np.empty(len(y))
    for number, each in enumerate(in_parallel([task(k) for k in range(int(folds.max()) + 1)])):
        squares[folds == number] = each
    return mean_of_rows(squares, folds)
