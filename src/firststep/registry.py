"""Classes registered once, by name: what help, error messages and tables are made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

from firststep.errors import InvalidParameter, nearest

T = TypeVar("T")
C = TypeVar("C", bound=type)


class Registry(Mapping[str, type[T]], Generic[T]):
    """Classes by their ``label``, in the order in which they were added."""

    def __init__(self, parameter: str, label: str = "name") -> None:
        self._parameter, self._label = parameter, label
        self._classes: dict[str, type[T]] = {}

    def add(self, entry: C) -> C:
        """Register a class; written above it as a decorator."""
        name = getattr(entry, self._label)
        if name in self._classes:
            raise ValueError(f"there is already a {self._parameter} called {name}")
        self._classes[name] = entry
        return entry

    def remove(self, name: str) -> None:
        del self._classes[name]

    def checked(self, name: object) -> type[T]:
        """The class of this name, or an error that lists the names there are."""
        if not isinstance(name, str) or name not in self._classes:
            allowed = "one of " + ", ".join(self)
            raise InvalidParameter(self._parameter, allowed, name, nearest(str(name), self))
        return self._classes[name]

    def where(self, attribute: str) -> dict[str, Any]:
        """The attribute by name, of the classes for which it is true or not empty."""
        found = {name: getattr(entry, attribute) for name, entry in self._classes.items()}
        return {name: value for name, value in found.items() if value}

    def __getitem__(self, name: str) -> type[T]:
        return self._classes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)
