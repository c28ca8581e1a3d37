"""Requests as pydantic models: frozen, no unknown names, every fault said at once in our form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BeforeValidator

from firststep.checks import choice, whole
from firststep.errors import Fault, InvalidParameter, nearest
from firststep.records import Place, Record

Json = dict[str, Any]
INSIDE = ("problem", "simulate", "request")  # parts whose fields go by their own names


class Sent(Record):
    """A JSON object with known names."""

    @classmethod
    def _table(cls, given: object) -> Json:
        if not isinstance(given, Mapping):
            raise InvalidParameter("", "a JSON object", given)
        return dict(given)

    @classmethod
    def _unknown(cls, name: str, given: str, names: Iterable[str]) -> Fault:
        return Fault(f".{name}", "one of " + ", ".join(names), given, nearest(name, names))


class Request(Sent):
    """What the page asks; what is missing is null to its field, which says what it should be."""

    @classmethod
    def _absent(cls) -> dict[str, None]:
        fields = cls.model_fields.items()
        return {field.alias or name: None for name, field in fields if field.is_required()}

    @classmethod
    def _placed(cls, place: Place, fault: Fault) -> Fault:
        """Under where it was found and what the check calls it.

        >>> Request._placed(("x",), Fault("axis", "", "")).parameter
        'x.axis'
        >>> Request._placed(("problem",), Fault("student", "", "")).parameter
        'student'
        >>> Request._placed((), Fault(".hello", "", "")).parameter
        'request.hello'
        """
        if fault.parameter.startswith("."):  # a name nobody knows
            return fault.at(".".join(map(str, place or ("request",))) + fault.parameter)
        path = [str(part) for part in (*place, fault.parameter) if part != ""]
        kept = [part for part in path[:-1] if part not in INSIDE] + path[-1:]
        return fault.at(".".join(kept) or "request")


def one_of(options: Iterable[str]) -> BeforeValidator:
    return BeforeValidator(lambda value: choice("", value, options))


def whole_number(low: int, high: int) -> BeforeValidator:
    return BeforeValidator(lambda value: whole("", value, low, high))
