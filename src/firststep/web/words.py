"""What the page calls things, and one sentence on each: the tables of words.toml."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any, Literal, get_args

from firststep import activations, readouts
from firststep.problem import Problem
from firststep.records import Record
from firststep.web.checked import Json


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


class Field(Word):
    """A field of a problem: its control, its first value and what may be asked of it."""

    symbol: str
    group: str
    default: float | str
    kind: Literal["number", "activation", "readout", "choice", "dimension"] = "number"
    slider: tuple[float, float] | None = None
    scale: Literal["log", "linear"] = "log"
    zero: bool = False  # 0 is allowed besides the range of the slider
    optional: bool = False  # may follow alpha
    options: tuple[float | str, ...] = ()
    bounds: tuple[float, float] | None = None
    axis: bool = False

    @property
    def title(self) -> str:
        return f"{self.label} {self.symbol}"

    @property
    def is_free_text(self) -> bool:
        return self.kind in ("activation", "readout")

    def about(self) -> Json:
        low, high = self.slider or (None, None)
        return {**super().about(), "low": low, "high": high}


class Line(Word):
    """A line of the curve panel."""

    color: str
    dash: str = ""
    on: bool = True
    band: bool = True  # a prediction of the network, which has a finite-size error
    quantities: tuple[str, ...] = ("risk", "training_error", "alignment", "gain")


# Besides the names, one example of each kind of text that may be typed.
_ACTIVATIONS = (*activations.names(), "centered(relu)", "tanh(2*z) + 0.5*(z**2-1)")
OPTIONS: dict[str, tuple[str, ...]] = {
    "student": _ACTIVATIONS,
    "teacher": _ACTIVATIONS,
    "readout": (*readouts.names(), "1:0.5,3:0.5"),
    "init": get_args(Problem.model_fields["init"].annotation),
}
_TOLD: dict[str, dict[str, Any]] = tomllib.loads(
    files("firststep.web").joinpath("words.toml").read_text("utf-8")
)


def _words(table: str) -> dict[str, Word]:
    return {name: Word(name=name, **row) for name, row in _TOLD[table].items()}


FIELDS = {
    name: Field(**{"name": name, "options": OPTIONS.get(name, ()), **row})
    for name, row in _TOLD["fields"].items()
}
LINES = {name: Line(name=name, **row) for name, row in _TOLD["lines"].items()}
QUANTITIES = _words("quantities")
MAP_QUANTITIES = {name: QUANTITIES[name] for name in ("risk", "gain")} | _words("map_quantities")
MODELS = _words("models")
SPLIT = _words("split")
WORDS = _words("words")


def guide_words() -> list[Word]:
    """All of them, in the order of the guide."""
    tables = (FIELDS, QUANTITIES, LINES, WORDS)
    return [word for table in tables for word in table.values()]
