"""``compare`` and ``compare_features``: theory and simulation of one problem, or of one first layer, side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from firststep.errors import InvalidParameter
from firststep.problem import Problem
from firststep.results import Interrupted, Simulation, aligned, as_html, plain, with_error
from firststep.simulation.running.given import simulate_features
from firststep.simulation.running.simulate import simulate
from firststep.theory.given_layer.predict import predict_features
from firststep.theory.given_layer.prediction import FeaturePrediction
from firststep.theory.one_step.predict import predict
from firststep.theory.one_step.prediction import Prediction

# The models the theory is exact for, with the bulk that describes them.
BULKS = {"network": "exact", "spiked": "isotropic", "random-features": "exact"}


# Options of simulate that the theory knows at their defaults only.
DEFAULTS: tuple[tuple[str, Any], ...] = (
    ("steps", 1),
    ("reuse", False),
    ("batches", "fresh"),
    ("parameterization", "mean-field"),
    ("optimizer", "gradient"),
    ("inputs", "gaussian"),
    ("teacher_terms", ()),
    ("training", None),
)


class Row(NamedTuple):
    """One quantity: theory, simulation and how far apart they are."""

    quantity: str
    ridge: float
    theory: float
    simulated: float
    standard_error: float

    @property
    def difference(self) -> float:
        return self.theory - self.simulated

    @property
    def relative(self) -> float:
        return self.difference / self.simulated if self.simulated else math.nan

    @property
    def z(self) -> float:
        """Difference over the standard error of the simulation; nan for a single replicate."""
        return self.difference / self.standard_error if self.standard_error > 0 else math.nan


@dataclass(frozen=True, eq=False)
class Comparison:
    """Theory at the simulation's own size against its replicates."""

    prediction: Prediction | FeaturePrediction
    simulation: Simulation
    quantities: tuple[Row, ...]

    @property
    def problem(self) -> Problem:
        return self.simulation.problem

    @property
    def largest_z(self) -> float:
        scores = [abs(row.z) for row in self.quantities if math.isfinite(row.z)]
        return max(scores, default=math.nan)

    def __getitem__(self, quantity: str) -> Row:
        for row in self.quantities:
            if row.quantity == quantity:
                return row
        raise KeyError(quantity)

    def to_dict(self) -> dict[str, Any]:
        names = (
            "quantity",
            "ridge",
            "theory",
            "simulated",
            "standard_error",
            "difference",
            "relative",
            "z",
        )
        rows = [
            {
                name: getattr(row, name) if name == "quantity" else plain(getattr(row, name))
                for name in names
            }
            for row in self.quantities
        ]
        simulation = self.simulation.to_dict()
        common = (
            "problem",
            "model",
            "dimension",
            "samples",
            "width",
            "step_samples",
            "replicates",
            "seed",
        )
        return {
            **{key: simulation[key] for key in common},
            "bulk": self.prediction.bulk,
            "comparison": rows,
            "largest_z": plain(self.largest_z),
            "prediction": self.prediction.to_dict(),
            "simulation": simulation,
            "seconds": self.prediction.seconds + self.simulation.seconds,
        }

    def rows(self) -> Iterator[tuple[str, ...]]:
        several = len(self.problem.ridges) > 1
        for row in self.quantities:
            name = f"{row.quantity.replace('_', ' ')}" + (
                f" at ridge {row.ridge:.4g}" if several and math.isfinite(row.ridge) else ""
            )
            score = f"{row.z:+.1f}" if math.isfinite(row.z) else "-"
            relative = f"{100 * row.relative:+.2f} %" if math.isfinite(row.relative) else "-"
            yield (
                name,
                f"{row.theory:.6g}",
                with_error(row.simulated, row.standard_error),
                relative,
                score,
            )

    @property
    def title(self) -> str:
        return f"theory ({self.prediction.kind}) against {self.simulation.title}"

    def __str__(self) -> str:
        table = [("", "theory", "simulation", "difference", "z"), *self.rows()]
        note = (
            ["interrupted: only the finished replicates are compared"]
            if self.simulation.interrupted
            else []
        )
        return "\n".join([self.title, *aligned(table), *note])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_html(self.title, self.rows(), ("", "theory", "simulation", "difference", "z"))


def compare(
    problem: Problem,
    dimension: Any = None,
    replicates: Any = 10,
    seed: Any = 0,
    *,
    model: str = "network",
    **options: Any,
) -> Comparison:
    """Simulate the problem and put the theory of the same size next to it.

    ``model`` is one the theory is exact for: network (exact bulk), spiked (isotropic bulk) or random-features (no step). The theory
    is taken at the simulation's dimension and at its whole numbers n, N, n0. Other options are those of ``simulate``.
    """
    if model not in BULKS:
        allowed = "one of " + ", ".join(BULKS)
        raise InvalidParameter(
            "model",
            allowed,
            model,
            "the theory describes only these; simulate(...) runs the others",
        )
    for name, only in DEFAULTS:
        if name in options and str(options[name]) != str(only):
            hint = "the theory is for one step on fresh Gaussian data; simulate(...) runs what it does not cover"
            raise InvalidParameter(name, "left at its default in a comparison", options[name], hint)
    theory = at_size(problem, dimension, model)
    prediction = predict(theory, bulk=BULKS[model])
    try:
        found = simulate(problem, dimension, replicates, seed, model=model, **options)
    except Interrupted as stop:
        if isinstance(stop.result, Simulation):
            stop.result = _rows(prediction, stop.result)  # type: ignore[assignment]
        raise
    return _rows(prediction, found)


def compare_features(
    weights: Any,
    problem: Problem,
    teacher: Any,
    *,
    replicates: Any = 10,
    seed: Any = 0,
    teacher_terms: Any = (),
    initial: Any = None,
    directions: Any = "auto",
    bias: Any = None,
    covariance: Any = None,
    neurons: str = "columns",
    **options: Any,
) -> Comparison:
    """Fit a given first layer on ``replicates`` fresh data sets, and put what its weights predict next to it.

    The arguments are those of ``predict_features`` and, among ``options``, of ``simulate_features``.
    """
    prediction = predict_features(
        weights,
        problem,
        teacher,
        teacher_terms=teacher_terms,
        initial=initial,
        directions=directions,
        bias=bias,
        covariance=covariance,
        neurons=neurons,
    )
    columns = np.asarray(weights, dtype=float)
    try:
        found = simulate_features(
            columns.T if neurons == "rows" else columns,
            problem,
            teacher,
            replicates=replicates,
            seed=seed,
            teacher_terms=teacher_terms,
            bias=bias,
            covariance=covariance,
            **options,
        )
    except Interrupted as stop:
        if isinstance(stop.result, Simulation):
            stop.result = _rows(prediction, stop.result)  # type: ignore[assignment]
        raise
    return _rows(prediction, found)


def at_size(problem: Problem, dimension: Any, model: str) -> Problem:
    """The problem with the ratios of the whole numbers a simulation uses: what its theory is."""
    sizes = problem.sizes(dimension)
    d = sizes.dimension
    changes: dict[str, Any] = {"alpha": sizes.samples / d, "beta": sizes.width / d, "dimension": d}
    changes["alpha0"] = 0.0 if model == "random-features" else sizes.step_samples / d
    return problem.replace(**changes)


def _rows(prediction: Prediction | FeaturePrediction, found: Simulation) -> Comparison:
    rows = []
    for name in ("risk", "training_error"):
        estimate = getattr(found, name)
        columns = (
            np.atleast_1d(v)
            for v in (getattr(prediction, name), estimate.mean, estimate.standard_error)
        )
        rows += [
            Row(name, ridge, float(a), float(b), float(c))
            for ridge, a, b, c in zip(found.problem.ridges, *columns, strict=True)
        ]
    if isinstance(prediction, Prediction) and prediction.problem.takes_step:
        for name in ("alignment", "spike_strength", "gradient_norm"):
            estimate = getattr(found, name)
            if np.all(np.isfinite(estimate.values)):
                theory = float(np.ravel(getattr(prediction, name))[0])
                rows.append(
                    Row(
                        name, math.nan, theory, float(estimate.mean), float(estimate.standard_error)
                    )
                )
    return Comparison(prediction, found, tuple(rows))
