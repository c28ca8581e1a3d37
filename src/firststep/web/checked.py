"""Requests as pydantic models: frozen, no unknown names, every fault said at once in our form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)

from firststep.checks import choice, whole
from firststep.errors import Fault, InvalidParameter, nearest, shown

Json = dict[str, Any]
Path = tuple[int | str, ...]
Made = TypeVar("Made")
INSIDE = ("problem", "simulate", "request")  # parts whose fields go by their own names


class Request(BaseModel):
    """A JSON object with known names."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="wrap")
    @classmethod
    def _object(cls, given: Any, make: ModelWrapValidatorHandler[Self]) -> Self:
        """What is missing is null to its field, which then says what it should be."""
        if isinstance(given, cls):
            return given
        fields = {field.alias or name: field for name, field in cls.model_fields.items()}
        missing = dict.fromkeys(name for name, field in fields.items() if field.is_required())
        return strictly(given, fields, lambda table: make({**missing, **table}))

    @classmethod
    def of(cls, given: Any) -> Self:
        """The request, or ``InvalidParameter`` with all its faults."""
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            raise InvalidParameter.from_faults(faults(error)) from None


def strictly(given: Any, names: Iterable[str], make: Callable[[dict[str, Any]], Made]) -> Made:
    """What ``make`` makes of a JSON object; unknown names are faults beside those it finds."""
    if not isinstance(given, Mapping):
        raise InvalidParameter("", "a JSON object", given)
    names = tuple(names)
    strange = [
        Fault(f".{name}", "one of " + ", ".join(names), shown(value), nearest(str(name), names))
        for name, value in given.items()
        if name not in names
    ]
    try:
        made = make({name: given[name] for name in names if name in given})
    except ValidationError as error:
        raise InvalidParameter.from_faults([*strange, *faults(error)]) from None
    except InvalidParameter as error:
        raise InvalidParameter.from_faults([*strange, *error.faults]) from None
    if strange:
        raise InvalidParameter.from_faults(strange)
    return made


def faults(error: ValidationError) -> list[Fault]:
    """What pydantic found, in our form; a check leaves the name of its field to pydantic."""
    found: list[Fault] = []
    for detail in error.errors():
        cause = detail.get("ctx", {}).get("error")
        told = (
            cause.faults
            if isinstance(cause, InvalidParameter)
            else (Fault("", detail["msg"], shown(detail["input"])),)
        )
        found += [replace(fault, parameter=_named(detail["loc"], fault)) for fault in told]
    return found


def _named(path: Path, fault: Fault) -> str:
    """The name of a parameter from where it was found and from what the check calls it.

    >>> _named(("x",), Fault("axis", "", ""))
    'x.axis'
    >>> _named(("problem",), Fault("student", "", ""))
    'student'
    >>> _named((), Fault(".hello", "", ""))
    'request.hello'
    """
    if fault.parameter.startswith("."):  # a name nobody knows
        return ".".join(map(str, path or ("request",))) + fault.parameter
    parts = [*map(str, path), *([fault.parameter] if fault.parameter else [])]
    return ".".join([part for part in parts[:-1] if part not in INSIDE] + parts[-1:]) or "request"


def one_of(options: Iterable[str]) -> BeforeValidator:
    return BeforeValidator(lambda value: choice("", value, options))


def whole_number(low: int, high: int) -> BeforeValidator:
    return BeforeValidator(lambda value: whole("", value, low, high))
