"""What the page may ask: every request is a model, with bounds on the work it can cause."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field, ValidationInfo, field_validator, model_validator

from firststep.checks import number, whole
from firststep.errors import InvalidParameter
from firststep.label_faults import LATER
from firststep.problem import Problem
from firststep.results import LOSSES
from firststep.theory.teacher import teacher_of
from firststep.web.checked import Json, Request, Sent, one_of, whole_number
from firststep.web.meaning import refuse_meaningless
from firststep.web.words import FIELDS, LINES, MAP_QUANTITIES, MODELS, OPTIONS, QUANTITIES

if TYPE_CHECKING:
    from firststep.numerics.batches import Places
    from firststep.typing import Array, Float

AXES = tuple(name for name, field in FIELDS.items() if field.axis)
SCALES = ("log", "linear")
PREDICTED_LINES = tuple(name for name, line in LINES.items() if not line.level)
MEASURED = ("risk", "training_error", "alignment", *LOSSES)  # of a network
TEXTS = tuple(name for name, field in FIELDS.items() if field.is_free_text)
LAWS = tuple(name for name, field in FIELDS.items() if field.kind == "law")

# Bounds, so that no request takes minutes or gigabytes: on texts, on numbers that enter sizes or
# quadratures, on grids, on simulations.
LONGEST_TEXT = 200
RANGES = {name: field.bounds for name, field in FIELDS.items() if field.bounds is not None}
MOST_POINTS = 120
MOST_MAP_POINTS = 400
MOST_MAP_SIDE = 96
MOST_AT = 24
LARGEST_DIMENSION = 2000
MOST_REPLICATES = 200
LARGEST_SEED = 10**9
LARGEST_WEIGHTS = 600  # rows and columns of a first layer whose singular values are drawn
USUAL_WEIGHTS = 300  # dimension of that layer where the theory is at d = infinity
LARGEST_STEP = 1e9  # d^3 alpha0 beta, a quarter of the operations of the step of that layer
NO_BOUND = 1e-12  # a kernel lower bound below this is 0: the teacher is linear


class PageProblem(Sent, Problem):
    """A problem as the page sends it: plain texts and numbers, within the bounds of the page."""

    also_known: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def _absent(cls) -> dict[str, None]:
        return dict.fromkeys(name for name in TEXTS if name not in LATER)

    @classmethod
    def _table(cls, given: object) -> Json:
        """An alpha0 of null follows alpha."""
        table = super()._table(given)
        if table.get("alpha0", 0) is None:
            del table["alpha0"]
        return table

    @field_validator(*TEXTS, *LAWS, mode="before")
    @classmethod
    def _text(cls, value: object, info: ValidationInfo) -> str:
        if not isinstance(value, str):
            raise InvalidParameter(str(info.field_name), "a text", value)
        if len(value) > LONGEST_TEXT:
            allowed = f"at most {LONGEST_TEXT} characters long"
            raise InvalidParameter(str(info.field_name), allowed, value)
        return value

    @field_validator("inputs", mode="before")
    @classmethod
    def _no_file(cls, value: object) -> object:
        """Whoever reaches the page may not look at the files of this machine."""
        if str(value).partition(":")[0].strip().lower() not in OPTIONS["inputs"]:
            allowed = "gaussian, power-law:A or two-level:RATIO:SHARE in the explorer"
            raise InvalidParameter("inputs", allowed, value, "no file is read for the page")
        return value

    @field_validator("teacher_overlaps", mode="before")
    @classmethod
    def _no_list(cls, value: object) -> object:
        """Networks and theory have dimensions of their own, and a list of components has one."""
        if "," in str(value):
            allowed = "a law such as top:0.1 in the explorer"
            raise InvalidParameter("teacher-overlaps", allowed, value)
        return value

    @field_validator(*RANGES, mode="before")
    @classmethod
    def _number(cls, value: object, info: ValidationInfo) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidParameter(str(info.field_name), "a number", value)
        return value

    @field_validator(*RANGES, mode="after")
    @classmethod
    def _within(cls, value: float, info: ValidationInfo) -> float:
        low, high = RANGES[str(info.field_name)]
        if not low <= value <= high:
            allowed = f"from {low:g} to {high:g} in the explorer"
            raise InvalidParameter(str(info.field_name), allowed, value)
        return value


@dataclass(frozen=True)
class Axis:
    """A field and the values it takes."""

    name: str
    values: Float[Array, " points"]

    def at(self, places: Places) -> Axis:
        """Some of its values."""
        return Axis(self.name, self.values[places])


def _in_range(value: object, info: ValidationInfo) -> float:
    """A number that the axis may have; where there is no axis its own fault is enough."""
    if "axis" not in info.data:
        return math.nan
    low, high = RANGES[info.data["axis"]]
    return number("", value, low, high=high)


class Along(Request):
    """An axis, its ends and its scale."""

    axis: Annotated[str, one_of(AXES)]
    first: float = Field(alias="from")
    last: float = Field(alias="to")
    scale: Annotated[str, one_of(SCALES)] = "log"

    _ends = field_validator("first", "last", mode="before")(_in_range)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.first < self.last:
            raise InvalidParameter("to", "larger than from", self.last)
        if self.scale == "log" and self.first <= 0:
            raise InvalidParameter("from", "larger than 0 on a logarithmic axis", self.first)
        return self

    def spaced(self, count: int) -> Axis:
        space = np.geomspace if self.scale == "log" else np.linspace
        values = space(self.first, self.last, count)
        values[0], values[-1] = self.first, self.last
        return Axis(self.axis, values)


class Curve(Along):
    """One line of the curve panel, or some of its points: by their places, where each is slow."""

    problem: PageProblem
    points: Annotated[int, whole_number(2, MOST_POINTS)]
    line: Annotated[str, one_of(PREDICTED_LINES)] = "exact"
    quantity: Annotated[str, one_of(QUANTITIES)] = "risk"
    places: list[int] | None = None

    @field_validator("places", mode="before")
    @classmethod
    def _on_the_axis(cls, places: object, info: ValidationInfo) -> list[int] | None:
        if places is None or "points" not in info.data:
            return None
        most = info.data["points"]
        if not isinstance(places, list) or not 1 <= len(places) <= most:
            raise InvalidParameter("", f"a list of 1 to {most} places", places)
        return [whole("", place, 0, most - 1) for place in places]

    @model_validator(mode="after")
    def _has_a_ridge_to_choose(self) -> Self:
        if self.line == "optimal-ridge" and self.axis == "ridge":
            raise InvalidParameter("line", f"another than {self.line} along the ridge", self.line)
        return self

    @model_validator(mode="after")
    def _has_a_meaning(self) -> Self:
        refuse_meaningless(self.quantity, QUANTITIES, self.problem)
        return self


class Point(Request):
    """Everything about one problem."""

    problem: PageProblem


class Weights(Request):
    """The first layer of one network; the dimension, if none is asked for, is a usual one."""

    problem: PageProblem
    dimension: int = Field(default=None, validate_default=True)

    @field_validator("problem", mode="after")
    @classmethod
    def _small(cls, problem: PageProblem) -> PageProblem:
        least, most = _weights_dimensions(problem)
        if least > max(most, 2):
            ratios = {name: getattr(problem, name) for name in ("alpha", "beta", "alpha0")}
            name = min((name for name in ratios if ratios[name] > 0), key=lambda name: ratios[name])
            allowed = f"at least {1 / max(most, 2):.2g} to draw the weights of one network"
            raise InvalidParameter(name, allowed, f"{ratios[name]:g}")
        return problem

    @field_validator("dimension", mode="before")
    @classmethod
    def _drawable(cls, value: object, info: ValidationInfo) -> int:
        if "problem" not in info.data:
            return 0
        problem: PageProblem = info.data["problem"]
        least, most = _weights_dimensions(problem)
        if value is not None:
            return whole("", value, least, max(least, most))
        usual = problem.dimension if problem.dimension < math.inf else USUAL_WEIGHTS
        return max(least, int(min(usual, most)))


def _weights_dimensions(problem: Problem) -> tuple[int, int]:
    """The least dimension with a sample and a neuron, and the largest that is drawn at once."""
    ratios = (problem.alpha, problem.beta, problem.alpha0)
    least = math.ceil(max(2.0, *(1 / ratio for ratio in ratios if ratio > 0)))
    work = max(problem.alpha0, 0.01) * problem.beta
    widest = LARGEST_WEIGHTS / max(1.0, problem.beta)
    return least, int(min(widest, (LARGEST_STEP / work) ** (1 / 3)))


class Side(Along):
    """One side of a phase diagram."""

    count: Annotated[int, whole_number(2, MOST_MAP_SIDE)]


class Map(Request):
    """Some rows of a phase diagram."""

    problem: PageProblem
    x: Side
    y: Side
    quantity: Annotated[str, one_of(MAP_QUANTITIES)] = "risk"
    rows: list[int]

    @field_validator("rows", mode="before")
    @classmethod
    def _few_rows(cls, rows: object, info: ValidationInfo) -> list[int]:
        if "x" not in info.data or "y" not in info.data:
            return []
        if (
            not isinstance(rows, list)
            or not 1 <= len(rows) * info.data["x"].count <= MOST_MAP_POINTS
        ):
            allowed = f"a list, with at most {MOST_MAP_POINTS} points in all its rows"
            raise InvalidParameter("", allowed, rows)
        return [whole("", row, 0, info.data["y"].count - 1) for row in rows]

    @model_validator(mode="after")
    def _has_two_axes(self) -> Self:
        if self.x.axis == self.y.axis:
            raise InvalidParameter("y.axis", "another than x.axis", self.y.axis)
        refuse_meaningless(self.quantity, MAP_QUANTITIES, self.problem)
        if (
            self.quantity == "ratio"
            and teacher_of(self.problem).moments.nonlinear_variance <= NO_BOUND
        ):
            allowed, hint = "risk or gain for a linear teacher", "its kernel lower bound is 0"
            raise InvalidParameter("quantity", allowed, self.quantity, hint)
        return self


class Networks(Request):
    """A simulation: networks of one problem at some values of an axis."""

    problem: PageProblem
    axis: Annotated[str, one_of(AXES)]
    at: list[float]
    dimension: Annotated[int, whole_number(10, LARGEST_DIMENSION)]
    replicates: Annotated[int, whole_number(1, MOST_REPLICATES)]
    seed: Annotated[int, whole_number(0, LARGEST_SEED)] = 0
    model: Annotated[str, one_of(MODELS)] = "network"

    @field_validator("at", mode="before")
    @classmethod
    def _places(cls, values: object, info: ValidationInfo) -> list[float]:
        if not isinstance(values, list) or not 1 <= len(values) <= MOST_AT:
            raise InvalidParameter("", f"a list of 1 to {MOST_AT} numbers", values)
        return [_in_range(value, info) for value in values]

    @model_validator(mode="after")
    def _has_sizes(self) -> Self:
        for problem in self.problems:
            problem.sizes()
        return self

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(
            self.problem.replace(dimension=self.dimension, **{self.axis: value})
            for value in self.at
        )


class Task(Request):
    """One replicate of one point of a simulation."""

    request: Networks
    index: int
    number: int

    @field_validator("index", "number", mode="before")
    @classmethod
    def _asked_for(cls, value: object, info: ValidationInfo) -> int:
        if "request" not in info.data:
            return 0
        asked: Networks = info.data["request"]
        count = len(asked.at) if info.field_name == "index" else asked.replicates
        return whole("", value, 0, count - 1)


class Take(Along):
    """A question to take away, with networks if there are any."""

    problem: PageProblem
    points: Annotated[int, whole_number(2, MOST_POINTS)]
    simulate: Networks | None = None

    @field_validator("simulate", mode="before")
    @classmethod
    def _along_the_axis(cls, given: object, info: ValidationInfo) -> Any:
        """Networks of the problem and the axis of the question."""
        if not given or not {"problem", "axis"} <= info.data.keys():
            return None
        own = {name: info.data[name] for name in ("problem", "axis")}
        return Networks.model_validate(given, context=own)
