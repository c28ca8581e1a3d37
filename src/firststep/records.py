"""Records: frozen, validated, all faults at once; from keywords and from TOML files."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from firststep.errors import Fault, InvalidParameter, nearest, shown


class Record(BaseModel):
    """Named values, checked when they are given. Hyphens in names are underscores."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)
    also_known: ClassVar[tuple[str, ...]] = ()  # words that are read and are no fields

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise InvalidParameter.from_faults(self._faults(error)) from None

    @model_validator(mode="before")
    @classmethod
    def _with_underscores(cls, values: Any) -> Any:
        return underscored(values)

    @classmethod
    def _faults(cls, error: ValidationError) -> list[Fault]:
        """Every fault pydantic found, in our form."""
        faults: list[Fault] = []
        for detail in error.errors():
            cause = detail.get("ctx", {}).get("error")
            if isinstance(cause, InvalidParameter):
                faults.extend(cause.faults)
            elif detail["type"] != "default_factory_not_called":  # it follows a field at fault
                faults.append(cls._fault(detail["type"], detail["loc"], detail))
        return faults

    @classmethod
    def _fault(cls, kind: str, place: tuple[int | str, ...], detail: Mapping[str, Any]) -> Fault:
        path = ".".join(str(part) for part in place).replace("_", "-")
        parameter = path or cls.__name__.lower()
        if kind == "missing":
            meaning = cls.model_fields[str(place[0])].description
            return Fault(parameter, "given", "nothing", meaning or "")
        given = shown(detail["input"])
        if kind == "extra_forbidden":
            known = [name.replace("_", "-") for name in (*cls.model_fields, *cls.also_known)]
            hint = nearest(parameter, known) or f"the fields are {', '.join(known)}"
            return Fault(parameter, f"a field of {cls.__name__}", given, hint)
        return Fault(parameter, detail["msg"], given)

    def replace(self, **changes: Any) -> Self:
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
    def from_toml(cls, path: str | Path, **changes: Any) -> Self:
        """The record written in a TOML file, with some fields changed."""
        return cls(**{**read_toml(path), **changes})

    def __str__(self) -> str:
        parts = (f"{name}={value!r}" for name, value in self.to_dict().items())
        return f"{type(self).__name__}({', '.join(parts)})"

    def __repr__(self) -> str:
        return str(self)


def _in_toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value if value == "inf" else f'"{value}"'
    return str(value)


def read_toml(path: str | Path) -> dict[str, Any]:
    """The table in a TOML file, keys with underscores."""
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        why = error.strerror or ""
        raise InvalidParameter("problem", "a readable TOML file", str(path), why) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidParameter("problem", "a valid TOML file", str(path), str(error)) from None
    return underscored(table)


def underscored(table: Mapping[str, Any]) -> dict[str, Any]:
    """Keys with underscores for hyphens; the same key given both ways is refused."""
    renamed: dict[str, Any] = {}
    for key, value in table.items():
        if (name := key.replace("-", "_")) in renamed:
            raise InvalidParameter(key, "given once", "twice, with a hyphen and with an underscore")
        renamed[name] = value
    return renamed
