"""The explorer as one file: the page, its modules, and a grid of answers computed beforehand.

It works by double click.
"""

from __future__ import annotations

import base64
import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep.errors import InvalidParameter, NotConverged
from firststep.problem import Problem
from firststep.results import plain
from firststep.simulation.running.simulate import available_cores
from firststep.simulation.running.workers import Workers
from firststep.theory.loss_numbers import has_other_loss
from firststep.theory.one_step.error_split import ErrorSplit
from firststep.theory.one_step.finite_size import sized_numbers
from firststep.theory.one_step.model_error import FLAGGED
from firststep.theory.one_step.predict import predict
from firststep.theory.one_step.prediction import Prediction
from firststep.theory.one_step.question import BULKS
from firststep.theory.teacher import teacher_of
from firststep.web import answers, takeaway
from firststep.web.about import about
from firststep.web.answers import ALIGNMENT
from firststep.web.asked import AXES
from firststep.web.checked import Json
from firststep.web.curves import LEAST_OF_A_BAND
from firststep.web.meaning import kind_of, main_quantity, offered
from firststep.web.presets import DEFAULTS
from firststep.web.recorded import recorded
from firststep.web.single_file import single_file
from firststep.web.words import LINES, MAP_QUANTITIES, QUANTITIES, SPLIT
from firststep.writing import write_text

if TYPE_CHECKING:
    from firststep.typing import Array, Float

Axes = dict[str, list[float]]
# The grid: small enough for some 50 000 problems in a minute or two and 7 MB; where a problem takes
# long (a Gaussian readout, another loss), a fifteenth of that, and of one that takes longer still
# (noisy labels +-1) a sixtieth.
ORDER = ("beta", "alpha0", "alpha", "step", "ridge")  # the axes of every array, the slowest first
FINE = {"alpha": 17, "beta": 7, "alpha0": 7, "step": 9, "ridge": 7}
COARSE = {"alpha": 9, "beta": 3, "alpha0": 5, "step": 5, "ridge": 5}
COARSEST = {"alpha": 7, "beta": 2, "alpha0": 4, "step": 4, "ridge": 4}
ENDS = {
    "alpha": (0.25, 16.0),
    "beta": (0.5, 4.0),
    "alpha0": (0.5, 32.0),
    "step": (0.1, 10.0),
    "ridge": (1e-4, 10.0),
}
KAPPA = np.linspace(-4, 4, 25)  # drawn with straight lines between
WEIGHTS_DIMENSION = 100  # of the networks whose singular values are drawn
LONG = 240.0  # seconds beyond which a coarser grid is taken
NOT_FITTED = ("alignment", "gain")  # the same for all lines, or of two of them
LONGEST = 1800.0  # seconds that the coarsest may take
DRAWN = ("learned", "target", "weights", "before", "model_error_reason")


def write_page(path: Path, problem: Problem) -> int:
    """Compute the grid around a problem and write the page."""
    if path.suffix not in (".html", ".htm"):
        raise InvalidParameter("export", "the name of an .html file", str(path))
    if not path.parent.is_dir():
        raise InvalidParameter("export", "a file in a folder that exists", str(path))
    begin = time.monotonic()
    seconds = _seconds_of_a_point(problem)
    cores = available_cores()
    sizes = _sizes(seconds / cores)
    axes = {name: _axis(problem, name, sizes[name]) for name in ORDER}
    points = math.prod(len(values) for values in axes.values())
    print(
        f"a grid of {points} problems, about {max(1, round(seconds * points / cores))} s; "
        "then the stories, about half a minute",
        file=sys.stderr,
        flush=True,
    )
    text = single_file(shipped(problem, axes, cores))
    try:
        write_text(path, text)
    except OSError as error:
        raise InvalidParameter(
            "export", "a file that can be written", str(path), error.strerror or ""
        ) from None
    print(f"wrote {path}: {len(text) / 1e6:.1f} MB, {time.monotonic() - begin:.0f} s")
    return 0


def _sizes(seconds: float) -> dict[str, int]:
    """The finest grid that does not take long; by the seconds of one of its points."""
    for sizes in (FINE, COARSE):
        if seconds * math.prod(sizes.values()) < LONG:
            return sizes
    whole = seconds * math.prod(COARSEST.values())
    if whole > LONGEST:
        allowed = "of a problem that is solved faster"
        hint = "try a larger ridge, or firststep explore without --export"
        raise InvalidParameter("export", allowed, f"a grid of {whole / 3600:.1g} hours", hint)
    return COARSEST


def _seconds_of_a_point(problem: Problem) -> float:
    """All bulks, measured on a few points."""
    if has_other_loss(problem):  # a point takes as long alone as among others
        fields = {"ridge": np.geomspace(*ENDS["ridge"], 3), "alpha": np.array(ENDS["alpha"])}
    else:
        fields = {
            "ridge": np.geomspace(*ENDS["ridge"], 7),
            "alpha": np.geomspace(*ENDS["alpha"], 5),
        }
        predict(problem, ridge=fields["ridge"])
    begin = time.perf_counter()
    for bulk in _bulks(problem):
        predict(problem, bulk=bulk, ridge=fields["ridge"], alpha=fields["alpha"][:, None])
    return (time.perf_counter() - begin) / (len(fields["ridge"]) * len(fields["alpha"]))


def _bulks(problem: Problem) -> tuple[str, ...]:
    """The isotropic theory doubles the time, which is long enough with another loss."""
    return ("exact",) if has_other_loss(problem) else BULKS


def _axis(problem: Problem, name: str, count: int) -> list[float]:
    """Round values over the usual range, and the problem's own."""
    own = float(getattr(problem, name))
    if not math.isfinite(own) or own <= 0:
        own = ENDS[name][0]
    usual = [float(f"{value:.2g}") for value in np.geomspace(*ENDS[name], count)]
    near = min(usual, key=lambda value: abs(math.log(value / own)))
    kept = [
        value
        for value in usual
        if value != near or abs(math.log(near / own)) > 0.5 * math.log(usual[1] / usual[0])
    ]
    return sorted({*kept, own})


class Chunk:
    """The answers for one value of beta and alpha0: what a worker computes."""

    def __init__(self, problem: Problem, axes: Axes, total: float) -> None:
        self.problem, self.axes, self.total = problem, axes, total

    def __call__(self, place: tuple[float, float]) -> dict[str, Array]:
        beta, alpha0 = place
        fixed = self.problem.replace(beta=beta, alpha0=alpha0)
        alpha, step, ridge = (np.array(self.axes[name]) for name in ORDER[2:])
        fields: dict[str, Any] = {
            "alpha": alpha[:, None, None],
            "step": step[None, :, None],
            "ridge": ridge[None, None, :],
        }
        found = {bulk: predict(fixed, bulk=bulk, **fields) for bulk in _bulks(self.problem)}
        still = predict(fixed.replace(alpha0=0.0), alpha=alpha[:, None], ridge=ridge[None, :])
        exact, shown = found.pop("exact"), offered(QUANTITIES, self.problem)
        return {
            **{name: getattr(exact, name) for name in shown},
            **{
                f"{bulk}_{name}": getattr(each, name)
                for bulk, each in found.items()
                for name in self._fitted("isotropic")
            },
            **{f"still_{name}": getattr(still, name) for name in self._fitted("random-features")},
            **self._levels(exact),
            **self._gain(exact, still),
            **self._alignments(exact),
            **self._errors(exact, still),
            **self._functions(exact),
            **self._weights(fixed, step),
        }

    def _fitted(self, line: str) -> list[str]:
        """What a line besides the exact one shows: all that it has without further fits."""
        own = [name for name in LINES[line].quantities if name not in NOT_FITTED]
        return [name for name in own if name in offered(QUANTITIES, self.problem)]

    def _levels(self, exact: Prediction) -> dict[str, Array]:
        """The lines that come with the exact one and depend on the axes."""
        levels = [LINES[name].level for name in offered(LINES, self.problem)]
        own = [name for name in levels if name and not hasattr(self.problem, name)]
        return {name: np.broadcast_to(getattr(exact, name), exact.shape) for name in own}

    def _gain(self, exact: Prediction, still: Prediction) -> dict[str, Array]:
        """In the error rate, for the map."""
        if kind_of(self.problem) != "classes":
            return {}
        without = np.asarray(still.error_rate)[:, None, :]  # whatever the step
        return {"error_gain": without - np.asarray(exact.error_rate)}

    def _alignments(self, exact: Prediction) -> dict[str, Array]:
        """With the direction of each term of the teacher, if there are several."""
        if not self.problem.teacher_terms:
            return {}
        columns = np.moveaxis(exact.alignments, -1, 0)
        return {f"{ALIGNMENT}{number}": each for number, each in enumerate(columns, 1)}

    def _errors(self, exact: Prediction, still: Prediction) -> dict[str, Array]:
        """Finite-size errors; at d = infinity they would take ten times as long as all the rest."""
        if self.problem.dimension == math.inf or not np.isfinite(exact.model_error).any():
            return {}
        return {
            **{name: getattr(exact, name) for name in exact.sized},
            **{f"still_{name}": getattr(still, name) for name in still.sized},
            "model_error_reason": exact.model_error_reason,
        }

    def _functions(self, exact: Prediction) -> dict[str, Array]:
        """The learned function, its target and the parts of the error at every point."""
        nothing = np.full(2 * len(KAPPA) + len(SPLIT), np.nan)
        rows = []
        for each in exact.points:
            if not each.is_good:
                rows.append(nothing)
                continue
            parts = ErrorSplit.of(each, self.total)
            row = (
                np.interp(KAPPA, each.kappa, each.learned),
                np.interp(KAPPA, each.kappa, each.target[0]),
                [getattr(parts, name) for name in SPLIT],
            )
            rows.append(np.concatenate(row))
        cuts = (len(KAPPA), 2 * len(KAPPA))
        learned, target, split = np.split(np.reshape(rows, (*exact.shape, -1)), cuts, axis=-1)
        # The target is the same for every alpha and ridge.
        return {"learned": learned, "target": target[0, :, 0], "split": split}

    def _weights(self, problem: Problem, steps: Float[Array, " steps"]) -> dict[str, Array]:
        values, marks = [], []
        for step in steps:
            fields = {**problem.replace(step=float(step)).to_dict(), "dimension": "inf"}
            found = answers.weights({"problem": fields, "dimension": WEIGHTS_DIMENSION})
            values.append(found["values"])
            edges, outlier = found["edge"] or (None, None), found["outlier"]
            marks.append([math.nan if mark is None else mark for mark in (*edges, outlier)])
        return {
            "weights": np.array(values),
            "before": np.array(found["before"]),  # the step changes nothing before it
            "marks": np.array(marks),
        }


def shipped(problem: Problem, axes: Axes, cores: int) -> Json:
    """Everything the page needs, fit for JSON; arrays as base64 of little-endian numbers."""
    places = [(beta, alpha0) for beta in axes["beta"] for alpha0 in axes["alpha0"]]
    centre = predict(problem)
    total = centre.error_split.total
    with Workers(cores) as workers:
        found = {}
        for place, answer in workers.survive(Chunk(problem, axes, total), places):
            if isinstance(answer, BaseException):
                raise answer
            found[place] = answer
    chunks = [found[place] for place in range(len(places))]
    padded = ("weights", "before")
    size = max(chunk["weights"].shape[1] for chunk in chunks)
    stacked = {
        name: np.array(
            [_padded(chunk[name], size) if name in padded else chunk[name] for chunk in chunks]
        )
        for name in chunks[0]
    }
    if not np.isfinite(stacked["risk"]).any():
        raise NotConverged("no point of the grid could be solved")
    reasons: list[str] = []
    if "model_error_reason" in stacked:  # by number
        words, numbers = np.unique(stacked["model_error_reason"], return_inverse=True)
        reasons = words.tolist()
        stacked["model_error_reason"] = numbers.reshape(stacked["risk"].shape).astype(float)
    about_it = _about_offline(problem, axes)
    about_it["stories"], told = recorded(about_it["defaults"], cores)
    return {
        "about": about_it,
        "recorded": told,
        "order": list(ORDER),
        "axes": axes,
        "kappa": plain(KAPPA),
        "density": answers.density(KAPPA),
        "teacher": plain(np.interp(KAPPA, centre.kappa, centre.teacher_function)),
        "split": list(SPLIT),
        "reasons": reasons,
        "flagged_above": FLAGGED,
        "least_of_a_band": LEAST_OF_A_BAND,
        "sized": sized_numbers(problem),
        "arrays": {name: _packed(values, name in DRAWN) for name, values in stacked.items()},
        "dimension": WEIGHTS_DIMENSION,
        "levels": _levels(problem),
        "besides": _besides(problem),
        "weights_notes": [note] if (note := answers.why_no_spectrum(problem)) else [],
        "split_note": answers.why_no_split(problem),
        "total": total,
        "take": _templates(problem),
        "point": answers.point_words(problem),
    }


def _levels(problem: Problem) -> Json:
    """By their lines: a number, or the name of an array."""
    names = {name: LINES[name].level for name in offered(LINES, problem) if LINES[name].level}
    bound = teacher_of(problem).moments.nonlinear_variance
    numbers = {"kernel_lower_bound": bound, "bayes_error_rate": problem.bayes_error_rate}
    return {line: plain(numbers[name]) if name in numbers else name for line, name in names.items()}


def _besides(problem: Problem) -> Json:
    """What is said of a point besides the quantities: a number, or the name of an array."""
    told = {LINES[name].level: value for name, value in _levels(problem).items()}
    if problem.teacher_terms:
        names = (f"{ALIGNMENT}{number + 1}" for number in range(1 + len(problem.teacher_terms)))
        told |= {name: name for name in names}
    if kind_of(problem) == "classes":
        return {**told, "random_features_error_rate": "still_error_rate"}
    return {**told, "random_features_risk": "still_risk"}


def _first_state(problem: Problem, axes: Axes) -> Json:
    """The state of the page that shows the problem, on the grid."""
    told = problem.all_values()
    state = {**DEFAULTS, **told, "dimension": str(told["dimension"])}
    state["quantity"] = main_quantity(problem)
    state["map_quantity"] = offered(MAP_QUANTITIES, problem)[0]
    for name in ORDER:
        nearest = np.argmin(np.abs(np.array(axes[name]) - told[name]))
        state[name] = axes[name][int(nearest)]
    for name, side in (("alpha", ""), ("alpha0", "map_x_"), ("step", "map_y_")):
        state |= {f"{side}from": axes[name][0], f"{side}to": axes[name][-1]}
    return {**state, "axis": "alpha", "map_x": "alpha0", "map_y": "step"}


def _padded(values: Float[Array, "*steps some"], size: int) -> Float[Array, "*steps size"]:
    """Fewer singular values where the width is below the dimension."""
    room = [(0, 0)] * (values.ndim - 1) + [(0, size - values.shape[-1])]
    return np.pad(values, room, constant_values=np.nan)


def _packed(values: Float[Array, "*axes"], drawn: bool) -> Json:
    """float32; what is only drawn as int16 times a unit, the least integer standing for nan."""
    unit = float(np.nanmax(np.abs(values))) / 32767 if drawn else 0.0
    if unit > 0:
        whole = np.round(np.nan_to_num(values) / unit)
        packed = np.where(np.isfinite(values), whole, -32768).astype("<i2")
    else:
        packed = np.ascontiguousarray(values, dtype="<f4")
    return {
        "shape": list(values.shape),
        "unit": unit,
        "data": base64.b64encode(packed.tobytes()).decode(),
    }


def _about_offline(problem: Problem, axes: Axes) -> Json:
    """What the grid can show: no line at the best ridge, and no gain of the isotropic theory."""
    told, state = about(), _first_state(problem, axes)
    left_out = {"optimal-ridge", *BULKS[1:]} - {*_bulks(problem)}
    lines = [line for line in told["lines"] if line["name"] not in left_out]
    for line in lines:
        if line["name"] == "isotropic":
            line["quantities"].remove("gain")
    return {**told, "offline": True, "grid": axes, "defaults": state, "presets": [], "lines": lines}


def _templates(problem: Problem) -> dict[str, dict[str, str]]:
    """For every axis the texts to take away, with places for the numbers of the page."""
    told = takeaway.texts_of(problem)
    fields = {name: f"{{{name}}}" if name in ORDER else text for name, text in told.items()}
    size = "" if problem.dimension == math.inf else str(int(problem.dimension))
    ends = ("{from}", "{to}", "{points}")
    asked_along = {
        axis: takeaway.Question(
            fields=fields,
            dimension=size,
            axis=axis,
            ends=ends,
            scale="log",
            quantities=tuple(offered(QUANTITIES, problem)),
        )
        for axis in AXES
    }
    return {axis: takeaway.texts(question) for axis, question in asked_along.items()}
