"""What the page calls things, and one sentence on each: the tables of words.toml."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Annotated, Any, Literal, get_args

import pydantic

from firststep import activations, label_laws, noise_laws, readouts
from firststep.inputs import overlaps
from firststep.label_faults import LATER
from firststep.losses import LOSSES
from firststep.problem import Problem
from firststep.records import Record
from firststep.web.checked import Json

# Kinds of problem: ridge regression on real labels, another fit of real labels, labels +-1.
KINDS = ("ridge", "loss", "classes")


class Word(Record):
    """How a thing is called and what it is."""

    name: str
    label: str
    explanation: str
    more: str = ""  # for the guide

    @property
    def title(self) -> str:
        return self.label

    def about(self) -> Json:
        """For the page, with its place in the guide."""
        return {**self.model_dump(mode="json", exclude={"more", "slider"}), "anchor": self.name}


class Parameter(Record):
    """A number or a text behind the name of a law, as 1 in huber:1: its first value, and the ends
    of its slider; a text has none.
    """

    symbol: str
    default: float | str
    slider: tuple[float, float] | None = None
    scale: Literal["log", "linear"] = "log"

    def about(self) -> Json:
        low, high = self.slider or (None, None)
        return {**self.model_dump(mode="json", exclude={"slider"}), "low": low, "high": high}


def _as_several(source: object) -> object:
    """Most laws have one parameter, and so one table of it."""
    return (source,) if isinstance(source, dict) else source


Parameters = Annotated[tuple[Parameter, ...], pydantic.BeforeValidator(_as_several)]


class Field(Word):
    """A field of a problem: its control, its first value and what may be asked of it."""

    symbol: str
    default: bool | float | str
    kind: Literal[
        "number", "activation", "readout", "text", "choice", "dimension", "law", "switch"
    ] = "number"
    slider: tuple[float, float] | None = None
    scale: Literal["log", "linear"] = "log"
    zero: bool = False  # 0 is allowed besides the range of the slider
    optional: bool = False  # may follow alpha
    options: tuple[float | str, ...] = ()
    bounds: tuple[float, float] | None = None
    axis: bool = False
    parameters: dict[str, Parameters] = pydantic.Field(default_factory=dict)  # of laws, by name

    @property
    def title(self) -> str:
        return f"{self.label} {self.symbol}".strip()

    @property
    def is_free_text(self) -> bool:
        return self.kind in ("activation", "readout", "text")

    def about(self) -> Json:
        low, high = self.slider or (None, None)
        parameters = {
            name: [each.about() for each in several] for name, several in self.parameters.items()
        }
        ends = {"low": low, "high": high}
        # A link leaves out what came later, where it is at its default.
        return {**super().about(), **ends, "parameters": parameters, "later": self.name in LATER}


class Line(Word):
    """A line of the curve panel."""

    color: str
    dash: str = ""
    on: bool = True
    band: bool = True  # a prediction of the network, which has a finite-size error
    level: str = ""  # comes with the exact line, as this attribute of the problem or prediction
    quantities: tuple[str, ...]
    kinds: tuple[str, ...] = KINDS


class Quantity(Word):
    """What curves and maps show."""

    kinds: tuple[str, ...] = KINDS
    scale: Literal["log", "linear"] = "log"  # of its axis, to begin with
    # Values that are all smaller than this are next to nothing, and drawn so on a linear axis.
    floor: float = 0.0


# Besides the names, one example of each kind of text that may be typed.
_ACTIVATIONS = (*activations.names(), "centered(relu)", "tanh(2*z) + 0.5*(z**2-1)")
OPTIONS: dict[str, tuple[str, ...]] = {
    "student": _ACTIVATIONS,
    "teacher": _ACTIVATIONS,
    "readout": (*readouts.names(), "1:0.5,3:0.5"),
    "init": get_args(Problem.model_fields["init"].annotation),
    "loss": tuple(LOSSES),
    "step_loss": tuple(LOSSES),
    "labels": label_laws.KINDS,
    "noise_law": noise_laws.KINDS,
    "inputs": ("gaussian", "power-law", "two-level"),  # those of no file that have a theory
    "teacher_overlaps": overlaps.LAWS,
    "teacher_terms": ("relu", "relu,tanh"),
}
_TOLD: dict[str, dict[str, Any]] = tomllib.loads(
    files("firststep.web").joinpath("words.toml").read_text("utf-8")
)


def _words(table: str) -> dict[str, Word]:
    return {name: Word(name=name, **row) for name, row in _TOLD[table].items()}


def _quantities(table: str) -> dict[str, Quantity]:
    return {name: Quantity(name=name, **row) for name, row in _TOLD[table].items()}


FIELDS = {
    name: Field(**{"name": name, "options": OPTIONS.get(name, ()), **row})
    for name, row in _TOLD["fields"].items()
}
GROUPS: dict[str, list[str]] = _TOLD["groups"]  # of the fields, as they stand on the page
QUANTITIES = _quantities("quantities")
_ON_MAPS = ("error_rate", "test_loss", "risk", "gain")
MAP_QUANTITIES = {n: QUANTITIES[n] for n in _ON_MAPS} | _quantities("map_quantities")
LINES = {
    name: Line(**{"name": name, "quantities": tuple(QUANTITIES), **row})
    for name, row in _TOLD["lines"].items()
}
MODELS = _words("models")
SPLIT = _words("split")
WORDS = _words("words")


def guide_words() -> list[Word]:
    """All of them, in the order of the guide."""
    tables = (FIELDS, QUANTITIES, LINES, WORDS)
    return [word for table in tables for word in table.values()]
