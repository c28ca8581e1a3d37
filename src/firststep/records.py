"""Records: frozen, validated, all faults at once; from keywords and from TOML files."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from firststep.errors import Fault, InvalidParameter, nearest, shown

Place = tuple[int | str, ...]  # where pydantic found something


class Record(BaseModel):
    """Named values, checked when they are given. Hyphens in names are underscores."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)
    also_known: ClassVar[tuple[str, ...]] = ()  # words that are read and are no fields
    called: ClassVar[str] = ""  # the record in a message, if not by the name of its class
    entries: ClassVar[tuple[str, str]] = ("field", "fields")  # what one is called, and all of them

    def __init__(self, **values: object) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise InvalidParameter.from_faults(self._faults(error)) from None

    # As pydantic marks its own: a record inside another is read by ``_read``, without this.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def of(cls, table: object) -> Self:
        """The record in a table that somebody wrote."""
        try:
            return cls.model_validate(table)
        except ValidationError as error:
            raise InvalidParameter.from_faults(cls._faults(error)) from None

    @model_validator(mode="wrap")
    @classmethod
    def _read(
        cls, given: object, make: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        """Every fault of the names, of the entries and of what they are together.

        The context of the validation holds entries that may not be given.
        """
        if isinstance(given, cls):
            return given
        own, table = info.context or {}, cls._table(given)
        names = [name for name in _names(cls) if name not in own] if own else _names(cls)
        strange = [name for name in table if name not in names]
        faults = [cls._unknown(name, shown(table.pop(name)), names) for name in strange]
        made = None
        try:
            made = make({**cls._absent(), **table, **own})
        except ValidationError as error:
            faults += cls._faults(error)
        faults += cls._together(table, made)
        if made is None or faults:
            raise InvalidParameter.from_faults(dict.fromkeys(faults))
        return made

    @classmethod
    def _faults(cls, error: ValidationError) -> list[Fault]:
        """Every fault pydantic found, in our form."""
        faults: list[Fault] = []
        for detail in error.errors():
            kind, place = detail["type"], detail["loc"]
            cause = detail.get("ctx", {}).get("error")
            if isinstance(cause, InvalidParameter):
                faults += [cls._placed(place, fault) for fault in cause.faults]
            elif kind == "missing":
                meaning = cls.model_fields[str(place[0])].description or ""
                faults.append(cls._placed(place, Fault("", "given", "nothing", meaning)))
            elif kind != "default_factory_not_called":  # it follows a field at fault
                fault = Fault("", detail["msg"], shown(detail["input"]))
                faults.append(cls._placed(place, fault))
        return faults

    # What may differ ------------------------------------------------------------------------------

    @classmethod
    def _table(cls, given: object) -> dict[str, Any]:
        """What was given, by the names of the fields."""
        return underscored(given)

    @classmethod
    def _absent(cls) -> dict[str, None]:
        """Fields whose own checks say what is wrong if they are not given."""
        return {}

    @classmethod
    def _placed(cls, place: Place, fault: Fault) -> Fault:
        """A fault under the name of its parameter; a check may have said it."""
        path = ".".join(map(str, place)).replace("_", "-")
        return fault if fault.parameter else fault.at(path or cls.__name__.lower())

    @classmethod
    def _unknown(cls, name: str, given: str, names: Iterable[str]) -> Fault:
        one, all_of_them = cls.entries
        known = [each.replace("_", "-") for each in names]
        hint = nearest(name.replace("_", "-"), known) or f"the {all_of_them} are {', '.join(known)}"
        return cls._placed(
            (name,), Fault("", f"a {one} of {cls.called or cls.__name__}", given, hint)
        )

    @classmethod
    def _together(cls, table: Mapping[str, Any], made: Self | None) -> list[Fault]:
        """What is wrong with entries that are right by themselves; ``made``: if all of them are."""
        return []

    # Copies and files -----------------------------------------------------------------------------

    def replace(self, **changes: object) -> Self:
        """A copy with some fields changed. Fields left at their default stay so."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self)(**{**given, **underscored(changes)})

    def to_dict(self) -> dict[str, Any]:
        """Plain values that build the same record again, fit for JSON."""
        return {name: getattr(self, name) for name in type(self).model_fields}

    def to_toml(self) -> str:
        """The record as TOML text, one field a line, with the names of the command line.

        What is none is left out.
        """
        given = {name: value for name, value in self.to_dict().items() if value is not None}
        lines = (f"{name.replace('_', '-')} = {_in_toml(value)}" for name, value in given.items())
        return "\n".join(lines) + "\n"

    @classmethod
    def from_toml(cls, path: str | Path, **changes: object) -> Self:
        """The record written in a TOML file, with some fields changed."""
        return cls(**{**read_toml(path), **changes})

    def __str__(self) -> str:
        parts = (f"{name}={value!r}" for name, value in self.to_dict().items())
        return f"{type(self).__name__}({', '.join(parts)})"

    def __repr__(self) -> str:
        return str(self)


@cache
def _names(record: type[Record]) -> tuple[str, ...]:
    """What may be given."""
    fields = (field.alias or name for name, field in record.model_fields.items())
    return (*fields, *record.also_known)


def _in_toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value if value == "inf" else json.dumps(value, ensure_ascii=False)
    return str(value)


def read_toml(path: str | Path, parameter: str = "problem") -> dict[str, Any]:
    """The table in a TOML file, keys with underscores."""
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        allowed, why = "a readable TOML file", error.strerror or ""
    except ValueError as error:  # no TOML, no UTF-8, or a number of thousands of digits
        allowed, why = "a valid TOML file", str(error)
    except RecursionError:
        allowed, why = "a valid TOML file", "its tables are nested too deep"
    else:
        return underscored(table)
    raise InvalidParameter(parameter, allowed, str(path), why)


def underscored(table: object) -> dict[str, Any]:
    """A table with underscores for hyphens; the same key given both ways is refused."""
    if not isinstance(table, Mapping):
        raise InvalidParameter("", "a table", table)
    renamed: dict[str, Any] = {}
    for key, value in table.items():
        if not isinstance(key, str):
            raise InvalidParameter("", "a table of names", key)
        if (name := key.replace("-", "_")) in renamed:
            raise InvalidParameter(key, "given once", "twice, with a hyphen and with an underscore")
        renamed[name] = value
    return renamed
