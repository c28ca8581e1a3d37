"""``compare`` and ``compare_features``: theory and simulation of one problem, or of one first
layer, side by side.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from firststep.errors import InvalidParameter
from firststep.problem import Problem
from firststep.results import (
    LOSSES,
    Interrupted,
    Shown,
    Simulation,
    per_cent,
    plain,
    plain_fields,
    with_error,
)
from firststep.simulation.design import Training, chosen_data, own_structure, refuse_model
from firststep.simulation.kinds import MODELS
from firststep.simulation.running.given import simulate_features
from firststep.simulation.running.simulate import simulate
from firststep.theory.given_layer.predict import predict_features
from firststep.theory.given_layer.prediction import FeaturePrediction
from firststep.theory.one_step.predict import predict
from firststep.theory.one_step.prediction import Prediction

# The models the theory is exact for, with the bulk that describes them.
BULKS = {"network": "exact", "spiked": "isotropic", "random-features": "exact"}
# Options of simulate that the theory knows at their defaults only, with these defaults.
DEFAULTS: Mapping[str, Any] = {
    **vars(Training()),
    **{
        name: inspect.signature(simulate).parameters[name].default
        for name in ("teacher_terms", "training")
    },
}
# What predict_features and simulate_features are both told of a layer.
LAYER = ("teacher_terms", "bias", "covariance", "neurons")
# What is compared: by ridge, and once where a step is taken.
BY_RIDGE = ("risk", "training_error")
OF_THE_STEP = ("alignment", "spike_strength", "gradient_norm")
HEAD = ("", "theory", "simulation", "difference", "z")


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


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Shown):
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
        """Plain values fit for JSON."""
        names = ("ridge", "theory", "simulated", "standard_error", "difference", "relative", "z")
        rows = [{"quantity": row.quantity, **plain_fields(row, *names)} for row in self.quantities]
        simulation = self.simulation.to_dict()
        return {
            "problem": simulation["problem"],
            "model": simulation["model"],
            **asdict(self.simulation.sizes),
            "replicates": simulation["replicates"],
            "seed": simulation["seed"],
            "bulk": self.prediction.bulk,
            "comparison": rows,
            "largest_z": plain(self.largest_z),
            "prediction": self.prediction.to_dict(),
            "simulation": simulation,
            "seconds": self.prediction.seconds + self.simulation.seconds,
        }

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The lines of the table: quantity, theory, simulation, difference and z-score."""
        several = len(self.problem.ridges) > 1
        for row in self.quantities:
            by_ridge = several and math.isfinite(row.ridge)
            yield (
                row.quantity.replace("_", " ") + (f" at ridge {row.ridge:.4g}" if by_ridge else ""),
                f"{row.theory:.6g}",
                with_error(row.simulated, row.standard_error),
                f"{100 * row.relative:+.2f} %" if math.isfinite(row.relative) else "-",
                f"{row.z:+.1f}" if math.isfinite(row.z) else "-",
            )

    @property
    def title(self) -> str:
        return f"theory ({self.prediction.kind}) against {self.simulation.title}"

    @property
    def head(self) -> Sequence[str]:
        return HEAD

    def notes(self) -> Iterator[str]:
        found = self.prediction
        if isinstance(found, Prediction) and np.all(np.isfinite(found.model_error)):
            yield f"  {_finite_size(found)}"
        if self.simulation.interrupted:
            yield "interrupted: only the finished replicates are compared"


def _finite_size(found: Prediction) -> str:
    """The largest finite-size errors of the theory, and their reason where one is large."""
    told = []
    for name, number in found.sized.items():
        shares = np.ravel(getattr(found, name)) / np.abs(np.ravel(getattr(found, number)))
        told.append(f"{number.replace('_', ' ')} about {per_cent(float(shares.max()))}")
    line = f"finite-size error of the predicted {', '.join(told)}".replace(" about", ": about", 1)
    flagged = np.flatnonzero(np.ravel(found.is_flagged))
    if not flagged.size:
        return line
    main = np.ravel(found.model_error)[flagged]
    worst = flagged[
        int(np.argmax(main / np.abs(np.ravel(getattr(found, found.model_error_of)))[flagged]))
    ]
    return f"{line}; {np.ravel(found.model_error_reason)[worst]}"


def compare(
    problem: Problem,
    dimension: int | None = None,
    replicates: int = 10,
    seed: int = 0,
    *,
    model: str = "network",
    **options: Any,
) -> Comparison:
    """Simulate the problem and put the theory of the same size next to it.

    ``model`` is one the theory is exact for: network (exact bulk), spiked (isotropic bulk) or
    random-features (no step). The theory is taken at the simulation's dimension and at its whole
    numbers n, N, n0. Other options are those of ``simulate``.
    """
    problem = Problem.asked(problem)
    if model not in BULKS:
        hint = "the theory describes only these; simulate(...) runs the others"
        raise InvalidParameter("model", "one of " + ", ".join(BULKS), model, hint)
    _refuse_what_theory_does_not_know(options)
    _refuse_other_data(problem, model, options)
    prediction = predict(at_size(problem, dimension, model), bulk=BULKS[model])
    run = partial(simulate, problem, dimension, replicates, seed, model=model, **options)
    return _compared(prediction, run)


def compare_features(
    weights: object,
    problem: Problem,
    teacher: object,
    *,
    initial: object = None,
    directions: object = "auto",
    **options: Any,
) -> Comparison:
    """Fit a given first layer on fresh data sets, and put what its weights predict next to it.

    The arguments are those of ``predict_features`` and, among ``options``, of
    ``simulate_features``: how many ``replicates`` there are (10), their ``seed`` (0) and so on.
    """
    layer = {name: options.pop(name) for name in LAYER if name in options}
    prediction = predict_features(
        weights, problem, teacher, initial=initial, directions=directions, **layer
    )
    run = partial(simulate_features, weights, problem, teacher, **layer, **options)
    return _compared(prediction, run)


def at_size(problem: Problem, dimension: object, model: str) -> Problem:
    """The problem with the ratios of the whole numbers a simulation uses: what its theory is."""
    sizes = problem.sizes(dimension)
    d = sizes.dimension
    return problem.replace(
        alpha=sizes.samples / d,
        beta=sizes.width / d,
        dimension=d,
        alpha0=0.0 if model == "random-features" else sizes.step_samples / d,
    )


def _refuse_what_theory_does_not_know(options: Mapping[str, Any]) -> None:
    training = options.get("training") or {}
    given = {**(training if isinstance(training, Mapping) else vars(training)), **options}
    for name, only in DEFAULTS.items():
        value = given.get(name, only)
        if isinstance(only, float) and isinstance(value, int):
            value = float(value)  # 0 is 0.0
        if str(value) != str(only):
            hint = "the theory is for one step on fresh Gaussian data; "
            hint += "simulate(...) runs what it does not cover"
            raise InvalidParameter(name, "left at its default in a comparison", given[name], hint)


def _refuse_other_data(problem: Problem, model: str, options: Mapping[str, Any]) -> None:
    """Inputs and terms are the problem's: of others the prediction would know nothing."""
    law, _ = chosen_data(problem, options.get("inputs"))
    if law != problem.inputs:
        hint = f"they are part of the question: Problem(..., inputs={str(law)!r})"
        raise InvalidParameter("inputs", "left at its default in a comparison", str(law), hint)
    overlaps = own_structure(problem, law)
    refuse_model(MODELS[model], law, overlaps, several=bool(problem.teacher_terms))


def _compared(
    prediction: Prediction | FeaturePrediction, run: Callable[[], Simulation]
) -> Comparison:
    """Theory beside what a run returns, or beside what was finished when it was interrupted."""

    def beside(found: Simulation) -> Comparison:
        return Comparison(prediction, found, _quantities(prediction, found))

    try:
        return beside(run())
    except Interrupted as stop:
        if isinstance(stop.result, Simulation):
            stop.result = beside(stop.result)
        raise


def _by_ridge(prediction: Prediction | FeaturePrediction, found: Simulation) -> Iterator[str]:
    """What both sides have at every ridge; with another loss not all of it."""
    if found.problem.is_plain:
        yield from BY_RIDGE
        return
    for name in (each for each in (*LOSSES, *BY_RIDGE) if each in found.measurements):
        both = getattr(prediction, name), getattr(found, name).mean
        if all(np.all(np.isfinite(values)) for values in both):
            yield name


def _quantities(prediction: Prediction | FeaturePrediction, found: Simulation) -> tuple[Row, ...]:
    ridges, once = found.problem.ridges, (math.nan,)
    names = dict.fromkeys(_by_ridge(prediction, found), ridges)
    if isinstance(prediction, Prediction) and prediction.problem.moves_weights:
        names |= {
            name: once for name in OF_THE_STEP if np.all(np.isfinite(getattr(found, name).values))
        }
    rows = []
    for name, places in names.items():
        estimate = getattr(found, name)
        theory = np.ravel(getattr(prediction, name))[: len(places)]
        numbers = (theory, np.ravel(estimate.mean), np.ravel(estimate.standard_error))
        for ridge, *values in zip(places, *numbers, strict=True):
            rows.append(Row(name, ridge, *map(float, values)))
    return tuple(rows)
