"""The answers of the explorer: a checked request in, plain JSON values out.

All numbers come from the library.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from firststep.errors import InvalidParameter, NotConverged, NotEnoughMemory
from firststep.label_faults import LATER
from firststep.problem import Problem
from firststep.results import plain
from firststep.simulation.running.layer import first_layer
from firststep.simulation.running.simulate import replicate_cost, simulate
from firststep.structure import without_structure
from firststep.theory.one_step.predict import predict
from firststep.theory.one_step.prediction import Prediction
from firststep.theory.one_step.words import AGAINST_THE_TEACHER
from firststep.theory.spectrum.law import spectral_law
from firststep.web import asked, takeaway
from firststep.web.asked import MEASURED
from firststep.web.checked import Json, Request
from firststep.web.curves import (
    along,
    band_of,
    levels_of,
    line_of,
    notes_on,
    predicted,
    unsolved,
    without_step,
)
from firststep.web.meaning import kind_of, offered
from firststep.web.words import LINES, QUANTITIES, SPLIT, WORDS, Word

if TYPE_CHECKING:
    from firststep.activations import Activation
    from firststep.typing import Array, Float

ALIGNMENT = "alignment_"  # and a number: with the direction of that term of the teacher
LONGEST_TERM = 16  # characters of a term beside its number
ROUNDING = 1e-12  # of the power of the teacher: what is smaller is shown as 0
LARGEST_MEMORY = 2 * 10**9  # bytes of one replicate, less than a worker may have
LARGEST_WORK = 2e14  # operations of one simulation: some hours of one core
_STEP = ("alignment", "gradient_norm", "spike_strength", "bulk_variance", "degrees_of_freedom")
_GAINS = ("random_features_risk", "gain", "kernel_lower_bound")
_RATES = (
    "error_rate",
    "error_rate_model_error",
    "random_features_error_rate",
    "bayes_error_rate",
    "direction_error_rate",
)
_LOSSES = ("test_loss", "model_error", "training_loss")
POINT_VALUES = {  # by the kind of problem
    "ridge": ("risk", "model_error", *_GAINS, "training_error", *_STEP, "quadrature_error"),
    "loss": (*_LOSSES, "risk", *_GAINS, "output_alignment", *_STEP, "quadrature_error"),
    "classes": (
        *(*_RATES, "training_error_rate", *_LOSSES, "risk"),
        *("output_alignment", *_STEP, "quadrature_error"),
    ),
}
ERRORS = (
    "model_error",
    "error_rate_model_error",
    "quadrature_error",
)  # shown however small they are
NO_SPECTRUM = (
    "The edge and the outlier are predicted for teachers of one direction, and for steps on real "
    "labels with Gaussian noise; the bars are those of one network all the same."
)
DIRECTION = "The cosine between the direction that the step learned and that of this term: {}."
Asked = TypeVar("Asked", bound=Request)


def _answers(model: type[Asked]) -> Callable[[Callable[[Asked], Json]], Callable[[Any], Json]]:
    """A function of a checked request as one of what was sent."""

    def checked(function: Callable[[Asked], Json]) -> Callable[[Any], Json]:
        @functools.wraps(function)
        def answer(body: object) -> Json:
            return function(model.of(body))

        return answer

    return checked


@_answers(asked.Curve)
def curve(wanted: asked.Curve) -> Json:
    """One line of the curve panel, with its band.

    At d = infinity the band takes ten times as long as the line, so that it is asked for later.
    """
    axis, found, extra = line_of(wanted)
    told = {
        "x": plain(axis.values),
        "y": plain(along(axis, getattr(found, wanted.quantity))),
        "band": None if wanted.problem.dimension == math.inf else band_of(wanted, axis, found),
        "extra": extra,
        "levels": levels_of(wanted, found),
        "notes": notes_on(count := unsolved(found), max(1, math.prod(found.shape))),
        "unsolved": count,
    }
    if wanted.places is not None:
        whole = len(axis.values) == wanted.points
        told["places"] = list(range(wanted.points)) if whole else wanted.places
    return told


@_answers(asked.Curve)
def band(wanted: asked.Curve) -> Json:
    """The band of one line of the curve panel."""
    axis, found, _ = line_of(wanted)
    return {"band": band_of(wanted, axis, found)}


@_answers(asked.Point)
def point(wanted: asked.Point) -> Json:
    """Everything about the current problem."""
    problem = wanted.problem
    try:
        found = predict(problem)
    except NotConverged as error:
        nothing: Json = {
            name: []
            for name in ("values", "kappa", "learned", "target", "teacher", "density", "split")
        }
        unknown = dict.fromkeys(
            (*QUANTITIES, "total", "model_error_reason", "is_flagged", "split_note")
        )
        return {**nothing, **unknown, "notes": [str(error)]}
    words, shown = point_words(problem), offered(QUANTITIES, problem)
    for word in words["values"]:
        word["value"] = _value(found, word["name"])
        if word["name"] in found.sized:
            number = getattr(found, found.sized[word["name"]])
            word["share"] = plain(getattr(found, word["name"]) / number) if number else None
    return {
        **words,
        **{name: plain(getattr(found, name)) if name in shown else None for name in QUANTITIES},
        **_split(found, words["split"]),
        "model_error_reason": found.model_error_reason,
        "is_flagged": found.is_flagged,
        "kappa": plain(found.kappa),
        "learned": plain(found.learned_function),
        "target": plain(found.target_function),
        "teacher": plain(found.teacher_function),
        "density": density(found.kappa),
        "notes": [],
    }


@_answers(asked.Point)
def words(wanted: asked.Point) -> Json:
    """The current problem read out; nothing where it has no numbers."""
    try:
        return {"words": predict(wanted.problem).in_words()}
    except NotConverged:
        return {"words": ""}


def _split(found: Prediction, words: list[Json]) -> Json:
    """The parts of the error, or why there are none."""
    reason = why_no_split(found.problem)
    if reason:
        return {"split": [], "total": None, "split_note": reason}
    split = found.error_split
    for word in words:
        word["value"] = _rounded(getattr(split, word["name"]), split.total)
    return {"split": words, "total": plain(split.total), "split_note": ""}


def why_no_split(problem: Problem) -> str:
    """What speaks against the parts of the error; nothing, as a rule."""
    if not problem.loss.is_margin:
        return ""
    return (
        f"The output of a fit with {problem.loss} loss is not on the scale of its labels: only its "
        "sign counts, and its error has no such parts."
    )


def density(kappa: Float[Array, " nodes"]) -> list[float]:
    """How often an input has this kappa."""
    told: list[float] = plain(np.exp(-(kappa**2) / 2) / math.sqrt(2 * math.pi))
    return told


def _value(found: Prediction, name: str) -> float | None:
    if name == "random_features_error_rate":
        value = float(without_step(found.problem, {}).error_rate)
    elif name.startswith(ALIGNMENT):
        value = float(found.alignments[int(name.removeprefix(ALIGNMENT)) - 1])
    else:
        value = float(getattr(found, name))
    total = found.problem.teacher.moments.second_moment
    return _rounded(value, 0.0 if name in ERRORS else total)


def _rounded(value: float, total: float) -> float | None:
    """Without what is only rounding."""
    kept: float | None = 0.0 if abs(value) < ROUNDING * total else plain(value)
    return kept


def point_words(problem: Problem) -> dict[str, list[Json]]:
    """How the values and the parts of the error of a point are called."""
    words = {**WORDS, **LINES, **QUANTITIES}
    off_scale = AGAINST_THE_TEACHER if problem.loss.is_margin else ()
    names = (name for name in POINT_VALUES[kind_of(problem)] if name not in off_scale)
    return {
        "values": [each for name in names for each in _rows(words[name], problem)],
        "split": [{**word.about(), "anchor": "split"} for word in SPLIT.values()],
    }


def _rows(word: Word, problem: Problem) -> list[Json]:
    """One row a number; of several terms an alignment with the direction of each."""
    if word.name != "alignment" or not problem.teacher_terms:
        return [word.about()]
    return [
        {
            **word.about(),
            "name": f"{ALIGNMENT}{number}",
            "label": f"{word.label} with {number}: {shortened(term)}",
            "explanation": DIRECTION.format(term),
        }
        for number, term in enumerate((problem.teacher, *problem.teacher_terms), 1)
    ]


def shortened(term: Activation) -> str:
    """A name, or the beginning of an expression."""
    text = str(term)
    return text if len(text) <= LONGEST_TERM else f"{text[:LONGEST_TERM]}…"


@_answers(asked.Weights)
def weights(wanted: asked.Weights) -> Json:
    """Singular values of the first layer of one network.

    With the predicted edges and outlier at its dimension.
    """
    sized = wanted.problem.replace(dimension=wanted.dimension)
    layer = first_layer(sized)
    told: Json = {"edge": None, "outlier": None, "notes": []}
    if why_no_spectrum(sized):
        told["notes"] = [why_no_spectrum(sized)]
    else:
        try:
            law = spectral_law(_layer_alone(sized))
            above = (value for value in law.outliers if value > law.edges[1])
            told |= {"edge": list(law.edges), "outlier": next(above, None)}
        except NotConverged as error:
            told["notes"] = [str(error)]
    return {
        **told,
        "dimension": wanted.dimension,
        "width": layer.after.shape[1],
        "values": plain(np.linalg.svd(layer.after, compute_uv=False)),
        "before": plain(np.linalg.svd(layer.before, compute_uv=False)),
    }


def _layer_alone(problem: Problem) -> Problem:
    """The first layer does not know how the readout is fitted, nor without a step any data."""
    if not problem.moves_weights:
        return problem.replace(**LATER)
    return problem.replace(loss="square", intercept=False)


def why_no_spectrum(problem: Problem) -> str:
    """What speaks against a prediction of the singular values; nothing, as a rule."""
    return NO_SPECTRUM if without_structure(_layer_alone(problem)).beyond_plain() else ""


@_answers(asked.Map)
def map_(wanted: asked.Map) -> Json:
    """Some rows of a phase diagram."""
    across, up = wanted.x.spaced(wanted.x.count), wanted.y.spaced(wanted.y.count)
    fields = {across.name: across.values[None, :], up.name: up.values[wanted.rows][:, None]}
    found = predicted(wanted.problem, fields)
    if wanted.quantity == "ratio":
        values = np.asarray(found.risk) / found.kernel_lower_bound
    elif wanted.quantity == "error_gain":
        still = np.asarray(without_step(wanted.problem, fields).error_rate)
        values = still - np.asarray(found.error_rate)
    else:
        values = getattr(found, wanted.quantity)
    return {
        "x": plain(across.values),
        "y": plain(up.values),
        "rows": wanted.rows,
        "values": plain(values),
        "notes": notes_on(unsolved(found), math.prod(found.shape)),
    }


@_answers(asked.Networks)
def cost(wanted: asked.Networks) -> Json:
    """Operations of every point of a simulation, and of all of it; too large ones are refused."""
    costs = [replicate_cost(problem, wanted.model) for problem in wanted.problems]
    memory = max(memory for _, memory in costs)
    if memory > LARGEST_MEMORY:
        hint = (
            f"one network needs {memory / 1e9:.2g} GB, "
            f"at most {LARGEST_MEMORY / 1e9:g} in the explorer"
        )
        raise NotEnoughMemory("dimension", "smaller with these ratios", wanted.dimension, hint)
    total = sum(work for work, _ in costs) * wanted.replicates
    if total > LARGEST_WORK:
        allowed = "fewer, or a smaller dimension: this would take hours"
        hint = "firststep sweep runs as much as you like"
        raise InvalidParameter("replicates", allowed, wanted.replicates, hint)
    return {
        "work": [work for work, _ in costs],
        "total": total,
        "tasks": len(costs) * wanted.replicates,
        "x": wanted.at,
        "replicates": wanted.replicates,
    }


@_answers(asked.Task)
def replicate(task: asked.Task) -> Json:
    """One replicate of one point of a simulation."""
    wanted = task.request
    found = simulate(
        wanted.problems[task.index],
        replicates=1,
        seed=wanted.seed,
        model=wanted.model,
        first_replicate=task.number,
        workers=1,
    )
    measured = {name: found.measurements.get(name) for name in MEASURED}
    return {
        name: None if values is None else plain(float(values[0]))
        for name, values in measured.items()
    }


@_answers(asked.Take)
def take(wanted: asked.Take) -> Json:
    """The question as Python, as a command and as an experiment."""
    return takeaway.texts(takeaway.question(wanted))


CALLS: Mapping[str, Callable[[Any], Json]] = {
    "curve": curve,
    "band": band,
    "point": point,
    "words": words,
    "weights": weights,
    "map": map_,
    "cost": cost,
    "replicate": replicate,
    "take": take,
}
