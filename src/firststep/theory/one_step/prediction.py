"""``Prediction``: what the theory says of one problem, or of an array of them."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep.activations import Activation
from firststep.errors import NotConverged
from firststep.problem import Problem
from firststep.results import Shown, aligned, on_inputs, per_cent, plain
from firststep.theory.closed_forms.bound import TauStar, tau_star
from firststep.theory.closed_forms.weights import WeightSpectrum, weight_spectrum
from firststep.theory.loss_numbers import LossNumbers, shown_of
from firststep.theory.one_step.finite_size import FiniteSize
from firststep.theory.one_step.functions import CONVERGED, FUNCTIONS, FunctionsOfKappa
from firststep.theory.one_step.in_words import in_words
from firststep.theory.one_step.least_error import (
    LeastError,
    bayes_error,
    direction_error,
    least_errors,
)
from firststep.theory.one_step.solve import Point
from firststep.theory.one_step.words import (
    AGAINST_THE_TEACHER,
    ALIGNMENTS,
    OF_THE_LABELS,
    OF_THE_RIDGE,
    SHOWN,
)
from firststep.theory.teacher import TermSum, teacher_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from firststep.numerics.batches import Places
    from firststep.typing import Array, Float

    Values = float | Float[Array, "*shape"]  # a float of a single point

NOT_CONVERGED, NOT_RESOLVED = "not converged", "not resolved"
_MOST_LINES = 61  # of the text of an array: more than a screen says nothing


def _value(value: Float[Array, "*shape"]) -> Values:
    return float(value) if np.ndim(value) == 0 else value


@dataclass(frozen=True, eq=False, repr=False)
class Prediction(FiniteSize, FunctionsOfKappa, LossNumbers, Shown):
    """The exact asymptotics of a problem.

    Numbers are floats, or arrays of the shape of the fields that were given as arrays. A point that
    could not be solved has status "not converged" (the equations) or "not resolved" (the
    quadrature) and nan for its numbers. ``prediction[i]`` is the prediction of one point; the
    functions of kappa belong to single points.
    """

    problem: Problem
    bulk: str
    fields: Mapping[str, Float[Array, "*shape"]]  # those given as arrays, broadcast to one shape
    shape: tuple[int, ...]
    points: tuple[Point, ...]
    step_constants: Mapping[str, Float[Array, " points"]]  # gamma, |v|, spike, bulk variance
    baseline: Callable[[], Float[Array, " points"]]  # the random-features risk, when asked
    nearby: Callable[[], Prediction | None]  # the same at d = 1000, when asked
    again: Callable[..., Any]  # another problem by the same equations: ``predict``
    seconds: float
    versions: Mapping[str, str]
    check: Any = None  # a LayerCheck, where one was asked for

    @property
    def kind(self) -> str:
        """Which theory, in words."""
        return f"{self.bulk} bulk{', typed neurons' if self.is_typed else ''}"

    def _shaped(self, values: ArrayLike) -> Values:
        return _value(np.asarray(values, float).reshape(self.shape))

    def _collect(self, name: str) -> Values:
        return self._shaped([getattr(point, name) for point in self.points])

    def _solved(self, name: str) -> Values:
        return self._shaped([getattr(p, name) if p.is_good else math.nan for p in self.points])

    @property
    def risk(self) -> Values:
        """Test error against the mean of a label: the noise-free teacher, or E[y | x] of binary
        labels.
        """
        return self._solved("risk")

    @property
    def training_error(self) -> Values:
        """Mean square of what the fit leaves of its labels; nan with another loss."""
        return self._solved("training_error")

    def _reported(self, name: str) -> Values:
        good = (getattr(p.report, name) if p.is_good else math.nan for p in self.points)
        return self._shaped(list(good))

    @cached_property
    def bayes_error_rate(self) -> Values:
        """The 0-1 error that no classifier can beat; nan for real labels."""
        return self._least(bayes_error)

    @cached_property
    def direction_error_rate(self) -> Values:
        """The least 0-1 error of whoever knows of an input only kappa = x . v/|v|; nan for real
        labels and without a step.
        """
        return self._least(direction_error)

    def _least(self, error: LeastError) -> Values:
        noise = self.fields.get("noise", np.asarray(self.problem.noise))
        noises = np.broadcast_to(noise, self.shape).ravel()
        alignments = self.step_constants["alignment"]
        return self._shaped(least_errors(error, self.problem, noises, alignments))

    @property
    def quadrature_error(self) -> Values:
        """Estimate of the numerical error of the risk."""
        return self._collect("quadrature_error")

    @property
    def residual(self) -> Values:
        """Largest relative residual of the equations."""
        return self._collect("residual")

    @property
    def iterations(self) -> Any:
        """Newton steps: a whole number, or an array of them."""
        counts = np.array([point.iterations for point in self.points]).reshape(self.shape)
        return int(counts) if counts.ndim == 0 else counts

    @property
    def status(self) -> Any:
        """A word, or an array of words."""
        words = [
            NOT_CONVERGED if not p.converged else NOT_RESOLVED if not p.resolved else CONVERGED
            for p in self.points
        ]
        return words[0] if self.shape == () else np.array(words).reshape(self.shape)

    @property
    def alignment(self) -> Values:
        """gamma = theta . v/|v|, theta the direction of ``teacher``; 0 without a step."""
        return self._shaped(self.step_constants["alignment"])

    @property
    def alignments(self) -> Float[Array, "*shape m"]:
        """theta_b . v/|v| for ``teacher`` and every one of ``teacher_terms``, along the last axis;
        0 without a step.
        """
        found = self.step_constants["alignments"]
        return found.reshape(*self.shape, found.shape[-1])

    @property
    def gradient_norm(self) -> Values:
        """|v|; nan without a step."""
        return self._shaped(self.step_constants["gradient_norm"])

    @property
    def spike_strength(self) -> Values:
        """r = (eta/sqrt N) E[s'] |v|: a neuron of readout value at carries r at along v/|v|."""
        return self._shaped(self.step_constants["spike_strength"])

    @property
    def bulk_variance(self) -> Values:
        """Mean over neurons of tr C/d, a row's squared norm without its spike; 1 without a step."""
        return self._shaped(self.step_constants["bulk_variance"])

    @property
    def degrees_of_freedom(self) -> Values:
        """Trace of the hat matrix over the number of samples, 1 - E[s(kappa)]; with another loss
        the mean of 1 - df/df0.
        """
        return self._solved("degrees_of_freedom")

    @property
    def kernel_lower_bound(self) -> float:
        """E s*^2 less its mean and its linear part, of all terms together: what no fixed kernel can
        beat.
        """
        return self._teacher.moments.nonlinear_variance

    @property
    def _teacher(self) -> Activation | TermSum:
        return teacher_of(self.problem)

    @cached_property
    def random_features_risk(self) -> Values:
        """R0: the same fit without the step."""
        return self._shaped(self.baseline())

    @property
    def gain(self) -> Values:
        """delta = R0 - R1."""
        return _value(np.asarray(self.random_features_risk) - np.asarray(self.risk))

    @cached_property
    def _tau(self) -> TauStar:
        # [Ba] has x ~ N(0, I) and one direction
        if not self.problem.inputs.is_gaussian or self.problem.teacher_terms:
            return TauStar(math.nan, math.nan, math.nan)
        try:
            return tau_star(self.problem.student, self.problem.teacher)
        except NotConverged:  # a bound that cannot be computed is left out, the rest stands
            return TauStar(math.nan, math.nan, math.nan)

    @property
    def tau_star(self) -> float:
        """inf_kappa E[(s*(x1) - E_x2 s(kappa x1 + x2))^2], [Ba] (5.1); nan with several terms."""
        return self._tau.value

    @property
    def tau_minimiser(self) -> float:
        return self._tau.minimiser

    @property
    def theorem_seven_bound(self) -> Values:
        """10 tau* + sqrt(tau* d/n) + d/n: [Ba] Theorem 7 with its constant set to 1."""
        ratio = 1 / np.asarray(self.fields.get("alpha", self.problem.alpha), float)
        bound = 10 * self.tau_star + np.sqrt(self.tau_star * ratio) + ratio
        return _value(np.broadcast_to(bound, self.shape))

    @cached_property
    def spectrum(self) -> WeightSpectrum | None:
        """Outlier of W1 and its overlaps after a small step; None elsewhere, and for arrays."""
        problem = self.problem
        if self.shape != () or not problem.moves_weights or problem.step_exponent != 0:
            return None
        if problem.beyond_plain():
            return None
        return weight_spectrum(self.problem)

    @property
    def outlier(self) -> float:
        """Top singular value of W1 (below the threshold the bulk's edge), or nan."""
        return self.spectrum.top if self.spectrum else math.nan

    @property
    def outlier_overlap(self) -> float:
        """Squared overlap of its left singular vector with the teacher."""
        return self.spectrum.teacher_overlap if self.spectrum else math.nan

    # Parts of an array --------------------------------------------------------------------------

    def __getitem__(self, place: Places | tuple[int | slice, ...]) -> Prediction:
        if self.shape == ():
            raise TypeError("this prediction is a single point")
        chosen = np.arange(len(self.points)).reshape(self.shape)[place]
        flat = np.atleast_1d(chosen).ravel()
        fields = {name: values[place] for name, values in self.fields.items()}
        problem = self.problem
        if np.ndim(chosen) == 0:
            problem = problem.replace(**{name: float(value) for name, value in fields.items()})
        return replace(
            self,
            problem=problem,
            fields=fields,
            shape=np.shape(chosen),
            points=tuple(self.points[i] for i in flat),
            step_constants={name: v[flat] for name, v in self.step_constants.items()},
            baseline=partial(_baseline_of_part, self, place),
            nearby=partial(_nearby_of_part, self, place),
            seconds=self.seconds * flat.size / len(self.points),
        )

    def in_words(self) -> str:
        """Some sentences on a single point: what the step buys, how far that is from the bounds,
        what the rest is, and which small changes would help, each of which has been tried.
        """
        self._point  # noqa: B018  refuses arrays, and points without numbers
        return in_words(self)

    def __len__(self) -> int:
        if self.shape == ():
            raise TypeError("this prediction is a single point")
        return self.shape[0]

    # Text and tables ----------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain values fit for JSON."""
        single = self.shape == ()
        table: dict[str, Any] = {"problem": self.problem.to_dict(), "bulk": self.bulk}
        if self.is_typed:
            table["neurons"] = self.neurons if single else self.neurons.tolist()
        if not single:
            table["fields"] = {name: plain(np.asarray(v)) for name, v in self.fields.items()}
        table.update({name: plain(getattr(self, name)) for name in self._shown()})
        reason = self.model_error_reason
        if self.problem.teacher_terms:
            table["alignments"] = plain(self.alignments)
        table["model_error_reason"] = reason if single else reason.tolist()
        table["status"] = self.status if single else self.status.tolist()
        table["residual"] = plain(self.residual)
        table["iterations"] = self.iterations if single else self.iterations.tolist()
        if single and self.status == CONVERGED:
            table.update({name: plain(getattr(self, name)) for name in FUNCTIONS})
        if self.check is not None:
            table["check"] = self.check.to_dict()
        return {**table, "seconds": self.seconds, "versions": dict(self.versions)}

    def _shown(self) -> dict[str, str]:
        """The quantities of the table with their words."""
        of_a_loss = shown_of(self.problem)
        if not of_a_loss:
            return SHOWN
        loss = {"test_loss": "", "quadrature_error": SHOWN["quadrature_error"]}
        if self.model_error_of == "test_loss":
            loss["model_error"] = SHOWN["model_error"]
        for name, words in of_a_loss.items():
            loss[name] = words
            if name == "error_rate":
                loss["error_rate_model_error"] = SHOWN["model_error"]
        best = OF_THE_LABELS if self.problem.labels.is_binary else {}
        ridge = {n: words for n, words in SHOWN.items() if n not in OF_THE_RIDGE}
        return {**loss, **best, **{n: words for n, words in ridge.items() if n not in loss}}

    def rows(self) -> Iterator[tuple[str, str]]:
        """The lines of the table of a single point."""
        digits = {"quadrature_error": 3, "risk": 8, **dict.fromkeys(self.sized, 2)}
        for name, words in self._shown().items():
            if self.problem.loss.is_margin and name in AGAINST_THE_TEACHER:
                continue
            value = getattr(self, name)
            if math.isfinite(value) or (name == "tau_minimiser" and not math.isnan(value)):
                if name == "alignment" and self.problem.teacher_terms:
                    yield ALIGNMENTS, ", ".join(f"{each:.4g}" for each in self.alignments)
                    continue
                number = self.sized.get(name)
                share = f" ({per_cent(value / getattr(self, number))})" if number else ""
                yield words, f"{value:.{digits.get(name, 6)}g}{share}"
        if self.check is not None:
            yield from self.check.found()

    @property
    def title(self) -> str:
        problem = self.problem
        size = "infinity" if problem.dimension == math.inf else f"{problem.dimension:g}"
        data = f"{on_inputs(problem)}d = {size}"
        return f"theory ({self.kind}): {problem.student} learns {self._teacher}, {data}"

    def body(self) -> list[str]:
        """The table of a single point; of an array a line a point."""
        return aligned([*self.rows()]) if self.shape == () else self._lines()

    def notes(self) -> Iterator[str]:
        """How well a single point was solved, and how its check came out."""
        if self.shape == ():
            steps = f"after {self.iterations} Newton steps"
            yield f"  {self.status}: residual {self.residual:.1e} {steps}"
            if self.bulk == "exact" and self.model_error_reason:
                yield f"  {self.trust()}"
        if self.check is not None:
            yield from self.check.notes()

    def _lines(self) -> list[str]:
        names = list(self.fields)
        if shown_of(self.problem):
            return self._loss_lines(names)
        lines = [[*names, "risk", "±", "training error", "random features", "status"]]
        columns = [np.broadcast_to(self.fields[name], self.shape).ravel() for name in names]
        results = [np.ravel(v) for v in (self.risk, self.training_error, self.random_features_risk)]
        errors = np.ravel(self.model_error)
        for i, status in enumerate(np.ravel(self.status)):
            risk, *others = (f"{r[i]:.6g}" for r in results)
            numbers = [*(f"{c[i]:.5g}" for c in columns), risk, f"{errors[i]:.2g}", *others]
            lines.append([*numbers, str(status)])
        return aligned(_some(lines))

    def _loss_lines(self, names: list[str]) -> list[str]:
        columns = [np.broadcast_to(self.fields[name], self.shape).ravel() for name in names]
        shown = shown_of(self.problem)
        columns += [np.ravel(getattr(self, name)) for name in shown]
        rows = zip(zip(*columns, strict=True), np.ravel(self.status), strict=True)
        lines = [[*(f"{value:.6g}" for value in row), str(status)] for row, status in rows]
        heads = [name.replace("_", " ") for name in shown]
        return aligned(_some([[*names, *heads, "status"], *lines]))

    def _repr_html_(self) -> str:
        if self.shape != ():
            return f"<pre>{html.escape(str(self))}</pre>"
        return super()._repr_html_()


def _some(lines: list[list[str]]) -> list[list[str]]:
    """The first and the last of many lines."""
    half = _MOST_LINES // 2
    if len(lines) <= _MOST_LINES:
        return lines
    return [*lines[: half + 1], ["..."] * len(lines[0]), *lines[-half:]]


def _nearby_of_part(
    whole: Prediction, place: Places | tuple[int | slice, ...]
) -> Prediction | None:
    other = whole.nearby()
    return None if other is None else other[place]


def _baseline_of_part(
    whole: Prediction, place: Places | tuple[int | slice, ...]
) -> Float[Array, " points"]:
    return np.asarray(whole.random_features_risk)[place]
