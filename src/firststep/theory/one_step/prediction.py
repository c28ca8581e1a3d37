"""``Prediction``: what the theory says of one problem, or of an array of them."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firststep.errors import NotConverged
from firststep.problem import Problem
from firststep.results import aligned, as_html, plain
from firststep.theory.closed_forms import TauStar, WeightSpectrum, tau_star, weight_spectrum
from firststep.theory.one_step.solve import Point

Array = NDArray[np.float64]

CONVERGED, NOT_CONVERGED, NOT_RESOLVED = "converged", "not converged", "not resolved"

# Quantities of the table, with the words that explain them.
SHOWN = {
    "risk": "test risk",
    "quadrature_error": "  its numerical error, at most about",
    "training_error": "training error",
    "random_features_risk": "random features (no step)",
    "gain": "gain over random features",
    "kernel_lower_bound": "kernel lower bound",
    "alignment": "alignment of the step with the teacher",
    "gradient_norm": "gradient norm |v|",
    "spike_strength": "spike strength",
    "bulk_variance": "bulk variance",
    "degrees_of_freedom": "degrees of freedom / samples",
    "tau_star": "tau*, best one-step feature misfit",
    "tau_minimiser": "  reached at kappa =",
    "theorem_seven_bound": "bound of [Ba] Theorem 7 (C = 1)",
    "outlier": "top singular value of W1",
    "outlier_overlap": "  squared overlap of its vector with the teacher",
}


def _value(value: Any) -> Any:
    return float(value) if np.ndim(value) == 0 else value


@dataclass(frozen=True)
class ErrorSplit:
    """The parts of the risk, and the power of the teacher they are parts of."""

    total: float  # E[s*^2]
    along: float  # m(kappa) is not E[y|kappa]: shrinkage by the ridge, features that cannot bend as the teacher does
    across: float  # the linear part of what the step left of the teacher's direction, not learned
    out_of_reach: float  # the rest of the teacher across the step: no function that the network can become has it
    fluctuation: (
        float  # the scatter of the fit about its mean: finite samples, label noise, random features
    )

    @classmethod
    def of(cls, point: Point, total: float, noise: float) -> ErrorSplit:
        """With E[y|kappa, zeta] = h0 + h1 zeta + (what is not linear in zeta):

        along = E(m - h0)^2, across = E(t - h1)^2, out_of_reach = E[s*^2 - h0^2 - h1^2], fluctuation = what is left of the risk.
        """
        h0, h1, square = point.target
        along, across = (
            float(np.sum(point.omega * miss**2))
            for miss in (point.learned - h0, point.linear_coefficient - h1)
        )
        beyond = float(np.sum(point.omega * (square - noise**2 - h0**2 - h1**2)))
        return cls(total, along, across, beyond, point.risk - along - across - beyond)

    @property
    def risk(self) -> float:
        return self.along + self.across + self.out_of_reach + self.fluctuation

    @property
    def learned(self) -> float:
        """The power of the teacher less the risk; negative where the network does worse than predicting nothing."""
        return self.total - self.risk


@dataclass(frozen=True, eq=False)
class Prediction:
    """The exact asymptotics of a problem. Numbers are floats, or arrays of the shape of the fields that were given as arrays.

    A point that could not be solved has status "not converged" (the equations) or "not resolved" (the quadrature) and nan for its
    numbers. ``prediction[i]`` is the prediction of one point; the functions of kappa belong to single points.
    """

    problem: Problem
    bulk: str
    fields: Mapping[str, Array]  # the fields given as arrays, broadcast to one shape
    shape: tuple[int, ...]
    points: tuple[Point, ...]
    step_constants: Mapping[str, Array]  # spike strength and bulk variance
    baseline: Any  # computes the random-features risk, once, when asked
    seconds: float
    versions: Mapping[str, str]

    @property
    def kind(self) -> str:
        """Which theory, in words."""
        return f"{self.bulk} bulk"

    def _collect(self, name: str) -> Any:
        return _value(
            np.array([getattr(point, name) for point in self.points], float).reshape(self.shape)
        )

    def _solved(self, name: str) -> Any:
        values = [getattr(p, name) if p.converged and p.resolved else math.nan for p in self.points]
        return _value(np.array(values, float).reshape(self.shape))

    @property
    def risk(self) -> Any:
        """Test error against the noise-free teacher."""
        return self._solved("risk")

    @property
    def training_error(self) -> Any:
        return self._solved("training_error")

    @property
    def quadrature_error(self) -> Any:
        """Estimate of the numerical error of the risk."""
        return self._collect("quadrature_error")

    @property
    def residual(self) -> Any:
        """Largest relative residual of the equations."""
        return self._collect("residual")

    @property
    def iterations(self) -> Any:
        counts = np.array([point.iterations for point in self.points]).reshape(self.shape)
        return int(counts) if counts.ndim == 0 else counts

    @property
    def status(self) -> Any:
        words = [
            NOT_CONVERGED if not p.converged else NOT_RESOLVED if not p.resolved else CONVERGED
            for p in self.points
        ]
        return words[0] if self.shape == () else np.array(words).reshape(self.shape)

    @property
    def alignment(self) -> Any:
        """gamma = theta . v/|v|; 0 without a step."""
        return self._collect("alignment")

    @property
    def gradient_norm(self) -> Any:
        """|v|; nan without a step."""
        return _value(np.asarray(self.step_constants["gradient_norm"]).reshape(self.shape))

    @property
    def spike_strength(self) -> Any:
        """r = (eta/sqrt N) E[s'] |v|: a neuron of readout value at carries r at along v/|v|."""
        return _value(np.asarray(self.step_constants["spike_strength"]).reshape(self.shape))

    @property
    def bulk_variance(self) -> Any:
        """Mean over neurons of tr C/d, the squared norm of a row without its spike; 1 without a step."""
        return _value(np.asarray(self.step_constants["bulk_variance"]).reshape(self.shape))

    @property
    def degrees_of_freedom(self) -> Any:
        """Trace of the hat matrix over the number of samples, 1 - E[s(kappa)]."""
        return self._solved("degrees_of_freedom")

    @property
    def kernel_lower_bound(self) -> float:
        return self.problem.kernel_lower_bound

    @cached_property
    def random_features_risk(self) -> Any:
        """R0: the same fit without the step."""
        return _value(np.asarray(self.baseline(), float).reshape(self.shape))

    @property
    def gain(self) -> Any:
        """delta = R0 - R1."""
        return _value(np.asarray(self.random_features_risk) - np.asarray(self.risk))

    @cached_property
    def _tau(self) -> TauStar:
        try:
            return tau_star(self.problem.student, self.problem.teacher)
        except NotConverged:  # a bound that cannot be computed is left out, the rest stands
            return TauStar(math.nan, math.nan, math.nan)

    @property
    def tau_star(self) -> float:
        """inf_kappa E[(s*(x1) - E_x2 s(kappa x1 + x2))^2], [Ba] (5.1)."""
        return self._tau.value

    @property
    def tau_minimiser(self) -> float:
        return self._tau.minimiser

    @property
    def theorem_seven_bound(self) -> Any:
        """10 tau* + sqrt(tau* d/n) + d/n: [Ba] Theorem 7 with its constant set to 1."""
        ratio = 1 / np.asarray(self.fields.get("alpha", self.problem.alpha), float)
        return _value(
            np.broadcast_to(10 * self.tau_star + np.sqrt(self.tau_star * ratio) + ratio, self.shape)
        )

    @cached_property
    def spectrum(self) -> WeightSpectrum | None:
        """Outlier of W1 and its overlaps in the small-step regime; None elsewhere, and for arrays."""
        if self.shape != () or not self.problem.takes_step or self.problem.step_exponent != 0:
            return None
        return weight_spectrum(self.problem)

    @property
    def outlier(self) -> float:
        """Top singular value of W1 (the edge of the bulk below the threshold); nan where the theory gives none."""
        return self.spectrum.top if self.spectrum else math.nan

    @property
    def outlier_overlap(self) -> float:
        """Squared overlap of its left singular vector with the teacher."""
        return self.spectrum.teacher_overlap if self.spectrum else math.nan

    # Functions of kappa ------------------------------------------------------------------------------------------------------

    @property
    def _point(self) -> Point:
        if self.shape != ():
            raise AttributeError(
                "the functions of kappa belong to single points: use prediction[i]"
            )
        if self.status != CONVERGED:
            raise AttributeError(f"the point is {self.status}: it has no functions of kappa")
        return self.points[0]

    @cached_property
    def _shown(self) -> NDArray[np.bool_]:
        return np.abs(self._point.kappa) <= 5.0

    @property
    def kappa(self) -> Array:
        """kappa = x . v/|v| (x . theta without a step), from -5 to 5."""
        return np.asarray(self._point.kappa[self._shown])

    @property
    def learned_function(self) -> Array:
        """m(kappa) = E[prediction | kappa]."""
        point = self._point
        m = (
            point.learned
            if self.problem.takes_step
            else point.learned + point.linear_coefficient * point.kappa
        )
        return np.asarray(m[self._shown])

    @property
    def target_function(self) -> Array:
        """E[y | kappa]."""
        point = self._point
        target = (
            point.target[0]
            if self.problem.takes_step
            else self.problem.teacher.evaluate(point.kappa)
        )
        return np.asarray(target[self._shown])

    @property
    def linear_coefficient(self) -> Array:
        """t(kappa): the prediction's coefficient on the rest of the teacher's direction, zeta."""
        point = self._point
        return np.asarray(
            (
                point.linear_coefficient
                if self.problem.takes_step
                else np.zeros_like(point.linear_coefficient)
            )[self._shown]
        )

    @property
    def error_by_kappa(self) -> Array:
        """E[(prediction - s*)^2 | kappa]; its Gaussian mean is the risk."""
        point = self._point
        noise = float(self.fields.get("noise", self.problem.noise)) ** 2
        if self.problem.takes_step:
            return np.asarray((point.error - noise)[self._shown])
        bias = (
            self.problem.teacher.evaluate(point.kappa)
            - point.learned
            - point.linear_coefficient * point.kappa
        ) ** 2
        return np.asarray((bias + point.risk - np.sum(point.omega * bias))[self._shown])

    @cached_property
    def error_split(self) -> ErrorSplit:
        """Where the risk comes from."""
        noise = float(self.fields.get("noise", self.problem.noise))
        return ErrorSplit.of(self._point, self.problem.teacher.moments.second_moment, noise)

    def __getitem__(self, place: Any) -> Prediction:
        if self.shape == ():
            raise TypeError("this prediction is a single point")
        chosen = np.arange(len(self.points)).reshape(self.shape)[place]
        flat = np.atleast_1d(chosen).ravel()
        fields = {name: values[place] for name, values in self.fields.items()}
        problem = self.problem
        if np.ndim(chosen) == 0:
            problem = problem.replace(**{name: float(value) for name, value in fields.items()})
        constants = {
            name: np.asarray(values).ravel()[flat] for name, values in self.step_constants.items()
        }

        def baseline() -> Any:
            return np.asarray(self.random_features_risk)[place]

        points = tuple(self.points[i] for i in flat)
        return Prediction(
            problem,
            self.bulk,
            fields,
            np.shape(chosen),
            points,
            constants,
            baseline,
            self.seconds * flat.size / len(self.points),
            self.versions,
        )

    def __len__(self) -> int:
        if self.shape == ():
            raise TypeError("this prediction is a single point")
        return self.shape[0]

    def to_dict(self) -> dict[str, Any]:
        """Plain values fit for JSON."""
        table: dict[str, Any] = {"problem": self.problem.to_dict(), "bulk": self.bulk}
        if self.shape != ():
            table["fields"] = {
                name: plain(np.asarray(values)) for name, values in self.fields.items()
            }
        for name in SHOWN:
            table[name] = plain(
                np.asarray(getattr(self, name))
                if np.ndim(getattr(self, name))
                else getattr(self, name)
            )
        table["status"] = self.status if self.shape == () else self.status.tolist()
        table["residual"] = plain(self.residual)
        table["iterations"] = self.iterations if self.shape == () else self.iterations.tolist()
        if self.shape == () and self.status == CONVERGED:
            for name in (
                "kappa",
                "learned_function",
                "target_function",
                "linear_coefficient",
                "error_by_kappa",
            ):
                table[name] = plain(getattr(self, name))
        return {**table, "seconds": self.seconds, "versions": dict(self.versions)}

    def rows(self) -> Iterator[tuple[str, str]]:
        """The lines of the table of a single point."""
        for name, words in SHOWN.items():
            value = getattr(self, name)
            if math.isfinite(value) or (name == "tau_minimiser" and not math.isnan(value)):
                yield (
                    words,
                    f"{value:.3g}"
                    if name == "quadrature_error"
                    else f"{value:.8g}"
                    if name == "risk"
                    else f"{value:.6g}",
                )

    @property
    def title(self) -> str:
        size = (
            "d = infinity"
            if self.problem.dimension == math.inf
            else f"d = {self.problem.dimension:g}"
        )
        return f"theory ({self.bulk} bulk): {self.problem.student} learns {self.problem.teacher}, {size}"

    def __str__(self) -> str:
        if self.shape != ():
            return self._array_text()
        lines = list(self.rows())
        width = max(len(words) for words, _ in lines)
        end = f"  {self.status}: residual {self.residual:.1e} after {self.iterations} Newton steps"
        return "\n".join(
            [self.title, *(f"  {words:<{width}}  {value}" for words, value in lines), end]
        )

    __repr__ = __str__

    def _array_text(self) -> str:
        names = list(self.fields)
        lines = [[*names, "risk", "training error", "random features", "status"]]
        columns = [np.broadcast_to(self.fields[name], self.shape).ravel() for name in names]
        results = [np.ravel(v) for v in (self.risk, self.training_error, self.random_features_risk)]
        for i, status in enumerate(np.ravel(self.status)):
            lines.append(
                [*(f"{c[i]:.5g}" for c in columns), *(f"{r[i]:.6g}" for r in results), str(status)]
            )
        shown = lines if len(lines) <= 61 else [*lines[:31], ["..."] * len(lines[0]), *lines[-30:]]
        return "\n".join([self.title, *aligned(shown)])

    def _repr_html_(self) -> str:
        if self.shape != ():
            return f"<pre>{html.escape(self._array_text())}</pre>"
        return as_html(self.title, self.rows())
