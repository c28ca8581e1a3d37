"""The tables of an experiment file as pydantic models: what they may hold, all faults at once.

A fault has the path of its place in the file: ``simulate.models``, ``axes.alpha[2]``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from firststep.checks import choice, dimension_value, whole
from firststep.errors import Fault, InvalidParameter, nearest, shown
from firststep.inputs import GAUSSIAN, InputLaw, input_law
from firststep.records import underscored
from firststep.simulation.backends import BACKENDS
from firststep.simulation.design import Training
from firststep.simulation.kinds import MODELS
from firststep.sweep.grid import Grid, axis_values, listed, moved
from firststep.teacher_terms import teacher_terms as read_terms
from firststep.theory.one_step.question import BULKS

SIMULATED = "simulated"  # theory at the sizes of the simulation
LARGEST = 10**9  # d, test samples, rows of a block: far beyond any memory
MOST_REPLICATES = 10**6


# How a value is read ------------------------------------------------------------------------------


def _checked(check: Callable[[Any], Any]) -> BeforeValidator:
    """What a check returns; its faults are those of the field, whatever it calls it."""

    def read(value: Any) -> Any:
        try:
            return check(value)
        except InvalidParameter as error:
            raise InvalidParameter.from_faults(moved(f, "") for f in error.faults) from None

    return BeforeValidator(read)


def _each(check: Callable[[Any], Any]) -> BeforeValidator:
    """One or several values, each once, each as the check returns it."""

    def read(value: Any) -> tuple[Any, ...]:
        found, faults = [], []
        for each in listed(value):
            try:
                found.append(check(each))
            except InvalidParameter as error:
                faults += [moved(fault, "") for fault in error.faults]
        if faults:
            raise InvalidParameter.from_faults(faults)
        return tuple(dict.fromkeys(found))

    return BeforeValidator(read)


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidParameter("name", "a text", value)
    return value


def _table(value: Any) -> dict[str, Any]:
    """A table with underscores in its names."""
    if not isinstance(value, Mapping):
        raise InvalidParameter("", "a table", value)
    for name in value:
        if not isinstance(name, str):
            raise InvalidParameter("", "a table of names", name)
    return underscored(value)


def _groups(value: Any) -> list[Any]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InvalidParameter(
            "zip", 'a list of lists of axes, such as [["alpha", "alpha0"]]', value
        )
    return list(value)


def _theory_dimension(value: Any) -> Any:
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


def _readable_axes(value: Any) -> dict[str, tuple[Any, ...]]:
    found, faults = _axes(_table(value))
    if faults:
        raise InvalidParameter.from_faults(faults)
    return found


# The tables ---------------------------------------------------------------------------------------


class Table(BaseModel):
    """A table of the file. Names may have hyphens; an unknown one is a fault."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)
    called: ClassVar[str]

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        table = _table(given)
        made, faults = None, []
        try:
            made = handler(table)
        except ValidationError as error:
            faults += cls._faults(error)
        faults += cls._together(table, made)
        if made is None or faults:
            raise InvalidParameter.from_faults(dict.fromkeys(faults))
        return made

    @classmethod
    def _together(cls, table: Mapping[str, Any], made: Self | None) -> list[Fault]:
        """What is wrong with entries that are right by themselves; ``made``: if all of them are."""
        return []

    @classmethod
    def _faults(cls, error: ValidationError) -> list[Fault]:
        """Every fault pydantic found, in our form, under the name of its entry."""
        faults: list[Fault] = []
        for detail in error.errors():
            path = str(detail["loc"][0])
            cause = detail.get("ctx", {}).get("error")
            if isinstance(cause, InvalidParameter):
                faults += [moved(fault, _joined(path, fault.parameter)) for fault in cause.faults]
            elif detail["type"] == "missing":
                hint = str(cls.model_fields[path].description)
                faults.append(Fault(path, "given", "nothing", hint))
            elif detail["type"] == "extra_forbidden":
                names = [name.replace("_", "-") for name in cls.model_fields]
                hint = nearest(path.replace("_", "-"), names) or f"the names are {', '.join(names)}"
                given = shown(detail["input"])
                faults.append(Fault(path, f"a part of {cls.called}", given, hint))
            else:
                faults.append(Fault(path, detail["msg"], shown(detail["input"])))
        return faults


def _joined(path: str, rest: str) -> str:
    return f"{path}.{rest}" if rest else path


class Predict(Table):
    """Theory."""

    called: ClassVar[str] = "[predict]"

    bulk: Annotated[tuple[str, ...], _each(lambda v: choice("bulk", v, BULKS))] = ("exact",)
    dimension: Annotated[tuple[Any, ...], _each(_theory_dimension)] = ("inf",)


_NOT_OPTIONS = ("models", "dimension", "replicates")
# Options that came later, with their defaults: left out there, so that old keys stay.
_LATER = {"optimizer": Training().optimizer, "inputs": str(GAUSSIAN), "teacher_terms": ()}
_SIZE = _checked(lambda v: whole("size", v, 2, LARGEST))


class Simulate(Table):
    """Networks. Options are kept as they are given: they are part of the keys of the results."""

    called: ClassVar[str] = "[simulate]"

    models: Annotated[tuple[str, ...], _each(lambda v: choice("models", v, MODELS))] = ("network",)
    dimension: Annotated[tuple[int, ...], _each(lambda v: whole("dimension", v, 2, LARGEST))] = (
        Field(description="the size d of the networks, for instance 400")
    )
    replicates: Annotated[int, _checked(lambda v: whole("replicates", v, 1, MOST_REPLICATES))] = 10
    steps: Any = 1
    batches: Any = "fresh"
    reuse: Any = False
    parameterization: Any = "mean-field"
    kernel: Any = None
    test_samples: Annotated[int | None, _SIZE] = None
    backend: Annotated[str, _checked(lambda v: choice("backend", v, BACKENDS))] = "numpy"
    device: Any = None
    dtype: Any = None
    block: Annotated[int | None, _SIZE] = None
    optimizer: Any = "gradient"
    inputs: Annotated[InstanceOf[InputLaw], _checked(input_law)] = GAUSSIAN
    teacher_terms: Annotated[tuple[Any, ...], _checked(read_terms)] = ()

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
        names = ("steps", "batches", "reuse", "parameterization", "optimizer")
        asked = {name: table.get(name, cls.model_fields[name].default) for name in names}
        try:
            Training(**asked)
        except InvalidParameter as error:
            return [moved(fault, "") for fault in error.faults]
        size = made.inputs.dimension if made is not None else None
        if made is not None and size is not None and made.dimension != (size,):
            allowed = f"{size}, the number of columns of the inputs"
            return [Fault("dimension", allowed, shown(list(made.dimension)))]
        return []


class Asked(Table):
    """An experiment file."""

    called: ClassVar[str] = "an experiment"

    name: Annotated[str, _checked(_name)] = "sweep"
    seed: Annotated[int, _checked(lambda v: whole("seed", v, 0))] = 0
    zip: Annotated[list[Any], _checked(_groups)] = Field(default_factory=list)
    problem: Annotated[dict[str, Any], _checked(_table)] = Field(default_factory=dict)
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
    def of(cls, table: Any) -> Asked:
        """The tables, or all that is wrong with them."""
        try:
            return cls.model_validate(table)
        except ValidationError as error:
            causes = [detail.get("ctx", {}).get("error") for detail in error.errors()]
            raise InvalidParameter.from_faults(
                moved(fault, fault.parameter or "experiment")
                for cause in causes
                if isinstance(cause, InvalidParameter)
                for fault in cause.faults
            ) from None

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
            problem, given = (_table(table.get(name, {})) for name in ("problem", "axes"))
            groups = _groups(table.get("zip", []))
        except InvalidParameter:
            return faults  # said of the table itself; what is in it cannot be judged
        axes, unread = _axes(given)
        grid, more = Grid.checked(problem, axes, groups)
        if made is not None:
            made._grid = grid
        missing = {f"problem.{fault.parameter.split('.')[0]}" for fault in unread}
        return faults + [
            fault for fault in more if fault.parameter not in missing or fault.allowed != "given"
        ]
