"""Records of options: frozen, validated, all faults at once; from keywords and TOML files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from firststep.errors import Fault, InvalidParameter, nearest, shown
from firststep.problem import read_toml, underscored

R = TypeVar("R", bound="Record")


class Record(BaseModel):
    """Named values, checked when they are given. Hyphens in names are underscores."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

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
                continue
            parameter = ".".join(str(part) for part in detail["loc"]).replace("_", "-")
            allowed, hint = detail["msg"], ""
            if detail["type"] == "extra_forbidden":
                known = [name.replace("_", "-") for name in cls.model_fields]
                allowed = f"a field of {cls.__name__}"
                hint = nearest(parameter, known) or f"the fields are {', '.join(known)}"
            faults.append(Fault(parameter, allowed, shown(detail["input"]), hint))
        return faults

    def replace(self: R, **changes: Any) -> R:
        """A copy with some fields changed."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self)(**{**given, **underscored(changes)})

    def to_dict(self) -> dict[str, Any]:
        """Plain values that build the same record again, fit for JSON."""
        return {name: getattr(self, name) for name in type(self).model_fields}

    def to_toml(self) -> str:
        """The record as TOML text, one field a line; what is none is left out."""
        lines = []
        for name, value in self.to_dict().items():
            text = str(value).lower() if isinstance(value, bool) else repr(value)
            if value is not None:
                lines.append(f"{name.replace('_', '-')} = {text.replace(chr(39), chr(34))}")
        return "\n".join(lines) + "\n"

    @classmethod
    def from_toml(cls: type[R], path: str | Path, **changes: Any) -> R:
        """The record written in a TOML file, with some fields changed."""
        return cls(**{**read_toml(path), **changes})

    def __str__(self) -> str:
        given = (f"{name}={getattr(self, name)!r}" for name in type(self).model_fields)
        return f"{type(self).__name__}({', '.join(given)})"

    __repr__ = __str__
