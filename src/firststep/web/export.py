"""The explorer as one file: the page, its modules, and a grid of answers computed beforehand. It works by double click."""

from __future__ import annotations

import base64
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firststep.errors import InvalidParameter, NotConverged
from firststep.problem import Problem
from firststep.results import plain
from firststep.simulation.running.simulate import available_cores
from firststep.simulation.running.workers import Workers
from firststep.theory.one_step.predict import predict
from firststep.theory.one_step.prediction import ErrorSplit
from firststep.web import answers, asked, takeaway
from firststep.web.about import about
from firststep.web.presets import DEFAULTS
from firststep.web.single_file import single_file

Array = NDArray[np.float64]
ORDER = ("beta", "alpha0", "alpha", "step", "ridge")  # the axes of every array, the slowest first
FINE = {"alpha": 17, "beta": 7, "alpha0": 7, "step": 9, "ridge": 7}
COARSE = {"alpha": 9, "beta": 3, "alpha0": 5, "step": 5, "ridge": 5}
ENDS = {
    "alpha": (0.25, 16.0),
    "beta": (0.5, 4.0),
    "alpha0": (0.5, 32.0),
    "step": (0.1, 10.0),
    "ridge": (1e-4, 10.0),
}
KAPPA = np.linspace(-4, 4, 25)
WEIGHTS_DIMENSION = 100
LONG = 240.0  # seconds beyond which the coarse grid is taken
PER_POINT = (
    "risk",
    "training_error",
    "alignment",
    "gain",
    "isotropic_risk",
    "isotropic_training_error",
)
DRAWN = ("learned", "target", "weights", "before")
SPLIT = ("learned", "along", "across", "out_of_reach", "fluctuation")


def write_page(path: Path, problem: Problem) -> int:
    """Compute the grid around a problem and write the page."""
    if path.suffix not in (".html", ".htm"):
        raise InvalidParameter("export", "the name of an .html file", str(path))
    if not path.parent.is_dir():
        raise InvalidParameter("export", "a file in a folder that exists", str(path))
    begin = time.monotonic()
    seconds = _seconds_of_a_point(problem)
    cores = available_cores()
    sizes = FINE if seconds * math.prod(FINE.values()) / cores < LONG else COARSE
    axes = {name: _axis(problem, name, sizes[name]) for name in ORDER}
    points = math.prod(len(values) for values in axes.values())
    print(
        f"a grid of {points} problems, about {max(1, round(seconds * points / cores))} s",
        file=sys.stderr,
        flush=True,
    )
    text = single_file(shipped(problem, axes, cores))
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidParameter(
            "export", "a file that can be written", str(path), error.strerror or ""
        ) from None
    print(f"wrote {path}: {len(text) / 1e6:.1f} MB, {time.monotonic() - begin:.0f} s")
    return 0


def _seconds_of_a_point(problem: Problem) -> float:
    """Both bulks, measured on a few points."""
    ridges = np.geomspace(*ENDS["ridge"], 7)
    predict(problem, ridge=ridges)
    begin = time.perf_counter()
    for bulk in ("exact", "isotropic"):
        predict(problem, bulk=bulk, ridge=ridges, alpha=np.geomspace(*ENDS["alpha"], 5)[:, None])
    return (time.perf_counter() - begin) / 35


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

    def __init__(self, problem: Problem, axes: dict[str, list[float]]) -> None:
        self.problem, self.axes = problem, axes

    def __call__(self, place: tuple[float, float]) -> dict[str, Array]:
        beta, alpha0 = place
        fixed = self.problem.replace(beta=beta, alpha0=alpha0)
        alpha, step, ridge = (np.array(self.axes[name]) for name in ORDER[2:])
        fields: dict[str, Any] = {
            "alpha": alpha[:, None, None],
            "step": step[None, :, None],
            "ridge": ridge[None, None, :],
        }
        exact, isotropic = predict(fixed, **fields), predict(fixed, bulk="isotropic", **fields)
        found = {name: getattr(exact, name) for name in PER_POINT[:4]}
        found |= {
            f"isotropic_{name}": getattr(isotropic, name) for name in ("risk", "training_error")
        }
        still = predict(fixed.replace(alpha0=0.0), alpha=alpha[:, None], ridge=ridge[None, :])
        found |= {"still_risk": still.risk, "still_training_error": still.training_error}
        total = fixed.teacher.moments.second_moment
        solved = [point if point.converged and point.resolved else None for point in exact.points]
        nothing = np.full(len(KAPPA), np.nan)
        learned = [
            nothing if each is None else np.interp(KAPPA, each.kappa, each.learned)
            for each in solved
        ]
        target = [
            nothing if each is None else np.interp(KAPPA, each.kappa, each.target[0])
            for each in solved
        ]
        parts = [
            None if each is None else ErrorSplit.of(each, total, fixed.noise) for each in solved
        ]
        split = [
            [math.nan if part is None else getattr(part, name) for name in SPLIT] for part in parts
        ]
        shaped = {
            "learned": np.array(learned),
            "target": np.array(target),
            "split": np.array(split),
        }
        found |= {name: values.reshape(*exact.shape, -1) for name, values in shaped.items()}
        found["target"] = found["target"][0, :, 0]  # the same for every alpha and ridge
        return {**found, **self._weights(fixed, step)}

    def _weights(self, problem: Problem, steps: Array) -> dict[str, Array]:
        values, marks = [], []
        for step in steps:
            body = {
                name: value
                for name, value in problem.replace(step=float(step)).to_dict().items()
                if name != "dimension"
            }
            found = answers.weights(
                {"problem": {**body, "dimension": "inf"}, "dimension": WEIGHTS_DIMENSION}
            )
            values.append(found["values"])
            marks.append(
                [
                    *(found["edge"] or (math.nan, math.nan)),
                    math.nan if found["outlier"] is None else found["outlier"],
                ]
            )
            before = found["before"]
        return {"weights": np.array(values), "before": np.array(before), "marks": np.array(marks)}


def shipped(problem: Problem, axes: dict[str, list[float]], cores: int) -> dict[str, Any]:
    """Everything the page needs, fit for JSON; arrays as base64 of little-endian numbers."""
    places = [(beta, alpha0) for beta in axes["beta"] for alpha0 in axes["alpha0"]]
    with Workers(cores) as workers:
        chunks: list[Any] = [None] * len(places)
        for place, found in workers.survive(Chunk(problem, axes), places):
            if isinstance(found, BaseException):
                raise found
            chunks[place] = found
    names = [
        *PER_POINT,
        "still_risk",
        "still_training_error",
        "learned",
        "target",
        "split",
        "marks",
    ]
    stacked = {name: np.array([chunk[name] for chunk in chunks]) for name in names}
    size = max(chunk["weights"].shape[1] for chunk in chunks)
    for name in ("weights", "before"):
        stacked[name] = np.array([_padded(chunk[name], size) for chunk in chunks])
    if not np.isfinite(stacked["risk"]).any():
        raise NotConverged("no point of the grid could be solved")
    told = problem.to_dict()
    state = {
        **DEFAULTS,
        **{name: told[name] for name in told if name != "dimension"},
        "dimension": str(told["dimension"]),
    }
    state |= {name: min(axes[name], key=lambda v, own=state[name]: abs(v - own)) for name in ORDER}  # type: ignore[misc]
    state |= {"from": axes["alpha"][0], "to": axes["alpha"][-1], "axis": "alpha"}
    for side, name in (("map_x", "alpha0"), ("map_y", "step")):
        state |= {side: name, f"{side}_from": axes[name][0], f"{side}_to": axes[name][-1]}
    return {
        "about": _about_offline(state, axes),
        "order": list(ORDER),
        "axes": axes,
        "kappa": plain(KAPPA),
        "density": answers.density(KAPPA),
        "split": list(SPLIT),
        "arrays": {name: _packed(values, name in DRAWN) for name, values in stacked.items()},
        "dimension": WEIGHTS_DIMENSION,
        "kernel_lower_bound": problem.kernel_lower_bound,
        "total": problem.teacher.moments.second_moment,
        "take": _templates(problem),
        "point": answers.point_words(),
    }


def _padded(values: Array, size: int) -> Array:
    """Fewer singular values where the width is below the dimension."""
    room = [(0, 0)] * (values.ndim - 1) + [(0, size - values.shape[-1])]
    return np.pad(values, room, constant_values=np.nan)


def _packed(values: Array, drawn: bool) -> dict[str, Any]:
    """float32; what is only drawn as int16 times a unit, the least integer standing for nan."""
    unit = float(np.nanmax(np.abs(values))) / 32767 if drawn else 0.0
    if unit > 0:
        packed: Any = np.where(
            np.isfinite(values), np.round(np.nan_to_num(values) / unit), -32768
        ).astype("<i2")
    else:
        packed = np.ascontiguousarray(values, dtype="<f4")
    return {
        "shape": list(values.shape),
        "unit": unit,
        "data": base64.b64encode(packed.tobytes()).decode(),
    }


def _about_offline(state: dict[str, Any], axes: dict[str, list[float]]) -> dict[str, Any]:
    told = about()
    isotropic = ("risk", "training_error", "alignment")
    lines = [
        {
            **line,
            "quantities": [
                q for q in line["quantities"] if line["name"] != "isotropic" or q in isotropic
            ],
        }
        for line in told["lines"]
        if line["name"] != "optimal-ridge"
    ]
    return {**told, "offline": True, "grid": axes, "defaults": state, "presets": [], "lines": lines}


def _templates(problem: Problem) -> dict[str, dict[str, str]]:
    """For every axis the texts to take away, with places for the numbers of the page."""
    told = problem.to_dict()
    fields = {name: f"{{{name}}}" if name in ORDER else str(told[name]) for name in takeaway.ORDER}
    size = "" if problem.dimension == math.inf else str(int(problem.dimension))
    ends = ("{from}", "{to}", "{points}")
    return {
        axis: takeaway.texts(takeaway.Question(fields, size, axis, ends, "log"))
        for axis in asked.AXES
    }
