"""The tables of an experiment file as pydantic models: what they may hold, all faults at once.

A fault has the path of its place in the file: ``simulate.models``, ``axes.alpha[2]``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, InstanceOf, PrivateAttr

from firststep.checks import MAX_SIZE, choice, dimension_value, whole
from firststep.errors import Fault, InvalidParameter, shown
from firststep.inputs import GAUSSIAN, InputLaw, input_law
from firststep.label_faults import OF_THE_DATA
from firststep.records import Place, Record, underscored
from firststep.simulation.backends import BACKENDS
from firststep.simulation.design import Training
from firststep.simulation.kinds import MODELS
from firststep.sweep.grid import Grid, axis_values, listed
from firststep.teacher_terms import teacher_terms as read_terms
from firststep.theory.one_step.question import BULKS

SIMULATED = "simulated"  # theory at the sizes of the simulation
MOST_REPLICATES = 10**6


# How a value is read ------------------------------------------------------------------------------


def _checked(check: Callable[[Any], Any]) -> BeforeValidator:
    """What a check returns; its faults are those of the field, whatever it calls it."""

    def read(value: object) -> Any:
        try:
            return check(value)
        except InvalidParameter as error:
            raise error.at("") from None

    return BeforeValidator(read)


def _each(check: Callable[[Any], Any]) -> BeforeValidator:
    """One or several values, each once, each as the check returns it."""

    def read(value: object) -> tuple[Any, ...]:
        found: list[Any] = []
        faults: list[Fault] = []
        for each in listed(value):
            try:
                found.append(check(each))
            except InvalidParameter as error:
                faults += error.at("").faults
        if faults:
            raise InvalidParameter.from_faults(faults)
        return tuple(dict.fromkeys(found))

    return BeforeValidator(read)


def _name(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidParameter("name", "a text", value)
    return value


def _groups(value: object) -> list[Any]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InvalidParameter(
            "zip", 'a list of lists of axes, such as [["alpha", "alpha0"]]', value
        )
    return list(value)


def _theory_dimension(value: object) -> Any:
    """inf, a number, or the sizes of the simulation."""
    if value == SIMULATED:
        return value
    d = dimension_value(value)
    return "inf" if d == math.inf else d


def _axes(given: Mapping[str, Any]) -> tuple[dict[str, tuple[Any, ...]], list[Fault]]:
    """The axes that can be read, and the faults of the others."""
    found: dict[str, tuple[Any, ...]] = {}
    faults: list[Fault] = []
    for name, each in given.items():
        try:
            found[name] = axis_values(name, each)
        except InvalidParameter as error:
            faults += error.faults
    return found, faults


def _readable_axes(value: object) -> dict[str, tuple[Any, ...]]:
    found, faults = _axes(underscored(value))
    if faults:
        raise InvalidParameter.from_faults(faults)
    return found


# The tables ---------------------------------------------------------------------------------------


class Table(Record):
    """A table of the file; a fault has the path of its entry."""

    entries: ClassVar[tuple[str, str]] = ("part", "names")

    @classmethod
    def _placed(cls, place: Place, fault: Fault) -> Fault:
        path = [*map(str, place[:1]), fault.parameter]
        return fault.at(".".join(part for part in path if part) or "experiment")


class Predict(Table):
    """Theory."""

    called: ClassVar[str] = "[predict]"

    bulk: Annotated[tuple[str, ...], _each(lambda v: choice("bulk", v, BULKS))] = ("exact",)
    dimension: Annotated[tuple[Any, ...], _each(_theory_dimension)] = ("inf",)


_NOT_OPTIONS = ("models", "dimension", "replicates")
# Options that came later, with their defaults: left out there, so that old keys stay.
_LATER = {
    "optimizer": Training().optimizer,
    "inputs": str(GAUSSIAN),
    "teacher_terms": (),
    "weight_decay": Training().weight_decay,
    "damping": Training().damping,
}
_SIZE = _checked(lambda v: whole("size", v, 2, MAX_SIZE))


class Simulate(Table):
    """Networks. Options are kept as they are given: they are part of the keys of the results."""

    called: ClassVar[str] = "[simulate]"

    models: Annotated[tuple[str, ...], _each(lambda v: choice("models", v, MODELS))] = ("network",)
    dimension: Annotated[tuple[int, ...], _each(lambda v: whole("dimension", v, 2, MAX_SIZE))] = (
        Field(description="the size d of the networks, for instance 400")
    )
    replicates: Annotated[int, _checked(lambda v: whole("replicates", v, 1, MOST_REPLICATES))] = 10
    steps: object = 1
    batches: object = "fresh"
    reuse: object = False
    parameterization: object = "mean-field"
    kernel: object = None
    test_samples: Annotated[int | None, _SIZE] = None
    backend: Annotated[str, _checked(lambda v: choice("backend", v, BACKENDS))] = "numpy"
    device: object = None
    dtype: object = None
    block: Annotated[int | None, _SIZE] = None
    optimizer: object = "gradient"
    inputs: Annotated[InstanceOf[InputLaw], _checked(input_law)] = GAUSSIAN
    teacher_terms: Annotated[tuple[Any, ...], _checked(read_terms)] = ()
    weight_decay: object = 0.0
    damping: object = Training().damping

    @property
    def options(self) -> dict[str, Any]:
        """The options of ``simulate`` that are given, as they enter the keys."""
        texts = {
            "inputs": str(self.inputs),  # that of a file has its hash
            "teacher_terms": tuple(str(term) for term in self.teacher_terms),
        }
        found = {
            name: texts[name] if name in texts else getattr(self, name)
            for name in type(self).model_fields
            if name in self.model_fields_set and name not in _NOT_OPTIONS
        }
        return {name: value for name, value in found.items() if (name, value) not in _LATER.items()}

    @classmethod
    def _together(cls, table: Mapping[str, Any], made: Self | None) -> list[Fault]:
        names = Training.model_fields
        asked = {name: table.get(name, cls.model_fields[name].default) for name in names}
        try:
            Training(**asked)
        except InvalidParameter as error:
            return list(error.at("").faults)
        size = made.inputs.dimension if made is not None else None
        if made is not None and size is not None and made.dimension != (size,):
            allowed = f"{size}, the number of columns of the inputs"
            return [Fault("dimension", allowed, shown(list(made.dimension)))]
        return []


def _given_twice(
    simulate: Simulate, problem: Mapping[str, Any], axes: Mapping[str, tuple[Any, ...]]
) -> list[Fault]:
    """Inputs and terms that both the problem and the simulation have."""
    own = {**{name: (value,) for name, value in problem.items()}, **axes}
    return [
        Fault(f"simulate.{name}", f"left out where the problem has {name}", shown(str(given)))
        for name, given in simulate.options.items()
        if name in OF_THE_DATA
        and any(str(v) not in ("", OF_THE_DATA[name]) for v in own.get(name, ()))
    ]


class Asked(Table):
    """An experiment file."""

    called: ClassVar[str] = "an experiment"

    name: Annotated[str, _checked(_name)] = "sweep"
    seed: Annotated[int, _checked(lambda v: whole("seed", v, 0))] = 0
    zip: Annotated[list[Any], _checked(_groups)] = Field(default_factory=list)
    problem: Annotated[dict[str, Any], _checked(underscored)] = Field(default_factory=dict)
    axes: Annotated[dict[str, tuple[Any, ...]], BeforeValidator(_readable_axes)] = Field(
        default_factory=dict
    )
    predict: Predict | None = None
    simulate: Simulate | None = None
    _grid: Grid = PrivateAttr()

    @property
    def grid(self) -> Grid:
        return self._grid

    @classmethod
    def _together(cls, table: Mapping[str, Any], made: Self | None) -> list[Fault]:
        faults = []
        if table.get("predict") is None and table.get("simulate") is None:
            allowed = "given, or simulate, or both: what to compute"
            hint = "an empty [predict] table will do"
            faults.append(Fault("predict", allowed, "nothing", hint))
        theory = made.predict if made is not None and made.simulate is None else None
        if theory is not None and SIMULATED in theory.dimension:
            allowed = "inf or a number where nothing is simulated"
            faults.append(Fault("predict.dimension", allowed, SIMULATED))
        try:
            problem, given = (underscored(table.get(name, {})) for name in ("problem", "axes"))
            groups = _groups(table.get("zip", []))
        except InvalidParameter:
            return faults  # said of the table itself; what is in it cannot be judged
        axes, unread = _axes(given)
        if made is not None and made.simulate is not None:
            faults += _given_twice(made.simulate, problem, axes)
        grid, more = Grid.checked(problem, axes, groups)
        if made is not None:
            made._grid = grid
        missing = {f"problem.{fault.parameter.split('.')[0]}" for fault in unread}
        return faults + [
            fault for fault in more if fault.parameter not in missing or fault.allowed != "given"
        ]
