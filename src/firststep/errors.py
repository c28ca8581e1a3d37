"""What firststep says when it cannot do what was asked.

Every message has one form: the parameter, what is allowed, what was given and, where it helps, what
to try.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Fault:
    """One thing wrong with one parameter."""

    parameter: str
    allowed: str
    given: str
    hint: str = ""

    def __str__(self) -> str:
        # A name that somebody made up may be of several lines.
        text = f"{shown(self.parameter)} must be {self.allowed}; got {self.given}"
        return f"{text} ({self.hint})" if self.hint else text

    def at(self, parameter: str) -> Fault:
        """The same fault of another parameter, or under another path."""
        return replace(self, parameter=parameter)


class FirststepError(Exception):
    """Any failure firststep knows the reason of."""


class InvalidParameter(FirststepError, ValueError):
    """A parameter has a value it cannot have. ``faults`` lists every one found."""

    def __init__(self, parameter: str, allowed: str, given: object, hint: str = "") -> None:
        self.faults: tuple[Fault, ...] = (Fault(parameter, allowed, shown(given), hint),)
        super().__init__(str(self))

    @classmethod
    def from_faults(cls, faults: Iterable[Fault]) -> InvalidParameter:
        error = cls.__new__(cls)
        error.faults = tuple(faults)
        ValueError.__init__(error, str(error))
        return error

    def at(self, parameter: str) -> InvalidParameter:
        """The same faults, of this parameter."""
        return self.from_faults(fault.at(parameter) for fault in self.faults)

    def __str__(self) -> str:
        return "\n".join(str(fault) for fault in self.faults)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_faults, (self.faults,)


class NotEnoughMemory(InvalidParameter):
    """The computation would not fit in memory; raised before any work is done."""


class BackendUnavailable(InvalidParameter):
    """The backend or device asked for does not exist on this machine."""


class WorkerFailed(FirststepError):
    """A worker process ended without an answer.

    ``result`` holds the finished replicates, if there are any.
    """

    result: Any = None


class NotConverged(FirststepError):
    """A numerical solution could not be trusted, and is therefore not returned."""


class StoreError(FirststepError):
    """A file of results cannot be used, or no longer be written."""


class StoreDamaged(StoreError):
    """A file of results is damaged; ``firststep sweep repair`` saves what can be read."""


def shown(value: object, limit: int = 80) -> str:
    """``value`` as a short piece of text for a message."""
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text.split()) or "nothing"
    return text if len(text) <= limit else text[: limit - 1] + "…"


def nearest(name: str, candidates: Iterable[str]) -> str:
    """``did you mean X?`` for the closest candidate, or an empty text."""
    matches = difflib.get_close_matches(name.lower(), list(candidates), n=1, cutoff=0.5)
    return f"did you mean {matches[0]}?" if matches else ""
