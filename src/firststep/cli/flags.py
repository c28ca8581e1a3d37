"""The flags that commands share, each written once.

Flags hold the text that was typed: the library parses and checks it, so that a mistake is
answered in the same words here and in Python.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, TypeVar

from cyclopts import Parameter

from firststep.problem import Problem
from firststep.records import Record, read_toml
from firststep.simulation.running.options import Run

T = TypeVar("T")


def number(text: str) -> Parameter:
    """A flag whose value may begin with a hyphen: a number, or an expression in z."""
    return Parameter(help=text, allow_leading_hyphen=True)


def switch(text: str) -> Parameter:
    """A flag that is there or not."""
    return Parameter(help=text, negative=())


def several(text: str) -> Parameter:
    """A flag with one value or more."""
    return Parameter(help=text, consume_multiple=True, negative=())


def told(record: type[Record], name: str) -> str:
    """What a field of a record says of itself."""
    return record.model_fields[name].description or ""


def either(names: Iterable[str]) -> str:
    """a, b or c."""
    *others, last = names
    return f"{', '.join(others)} or {last}"


Bulk = Annotated[
    str, Parameter(help="exact: the true network; isotropic: the spiked random features model")
]
Json = Annotated[bool, switch("print one JSON object and nothing else")]
Seed = Annotated[str, number(told(Run, "seed"))]
Backend = Annotated[str, Parameter(help=told(Run, "backend"))]
Device = Annotated[str, Parameter(help=told(Run, "device"))]
Processes = Annotated[str | None, number("processes; default: as many as there are cores")]


class Options:
    """Flags that are options of the library by the same names."""

    def options(self) -> dict[str, Any]:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # every subclass is a dataclass
        return {each.name: getattr(self, each.name) for each in fields if each.name != "json"}


@Parameter(name="*", group="Run")
@dataclasses.dataclass(frozen=True, kw_only=True)
class RunFlags(Options):
    """How to run: shared by simulate, compare and baselines."""

    replicates: Annotated[str, number(told(Run, "replicates"))] = "10"
    seed: Seed = "0"
    backend: Backend = "numpy"
    device: Device = "auto"
    dtype: Annotated[str, Parameter(help=told(Run, "dtype"))] = "float64"
    workers: Annotated[str | None, number(told(Run, "workers"))] = None
    test_samples: Annotated[str | None, Parameter(help=told(Run, "test_samples"))] = None
    json: Json = False


def _flag_a_field(cls: type[T]) -> type[T]:
    """A dataclass with one flag for each field of Problem, and two more."""

    def flag(text: str | None, **options: Any) -> Parameter:
        return Parameter(help=text, group="Problem", negative=(), **options)

    fields: list[Any] = []
    for name, field in Problem.model_fields.items():
        is_several, is_switch = name == "ridge", field.annotation is bool
        is_told = not (field.is_required() or field.default_factory or name == "dimension")
        is_told = is_told and field.default != ()
        default = "" if is_switch or not is_told else f" [default: {field.default}]"
        text, typed = f"{field.description}{default}", bool if is_switch else str
        made = flag(text, allow_leading_hyphen=not is_several, consume_multiple=is_several)
        kind = list[str] if is_several else typed
        fields.append((name, Annotated[kind | None, made], None))
    convention = flag(
        "ba: (1/n)|y - Phi a|^2 + (ridge/N)|a|^2; cui: sum |y - Phi a|^2 + ridge |a|^2 "
        "[default: ba]",
        allow_leading_hyphen=True,
    )
    file = flag("TOML file with some of these fields; flags override it", name="--problem")
    fields.append(("ridge_convention", Annotated[str | None, convention], None))
    fields.append(("problem_file", Annotated[Path | None, file], None))
    found = dataclasses.make_dataclass(
        cls.__name__,
        fields,
        bases=(cls,),
        namespace={"__module__": cls.__module__},
        frozen=True,
        kw_only=True,
    )
    return Parameter(name="*")(found)


@_flag_a_field
class ProblemFlags(Options):
    """A flag for every field of Problem."""

    problem_file: Path | None

    def given(self) -> dict[str, Any]:
        """The fields that the file or the flags give; flags come first."""
        flags = {name: value for name, value in self.options().items() if value is not None}
        file = flags.pop("problem_file", None)
        return {**(read_toml(file) if file else {}), **flags}

    def problem(self) -> Problem:
        return Problem(**self.given())


# What a command is called with where no such flag is typed.
NO_PROBLEM, NO_RUN = ProblemFlags(), RunFlags()
