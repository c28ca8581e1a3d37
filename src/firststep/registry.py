"""Classes registered once, by name: what help, error messages and tables are made from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

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

    def checked(self, name: Any) -> type[T]:
        """The class of this name, or an error that lists the names there are."""
        if not isinstance(name, str) or name not in self._classes:
            allowed = "one of " + ", ".join(self)
            raise InvalidParameter(self._parameter, allowed, name, nearest(str(name), self))
        return self._classes[name]

    def __getitem__(self, name: str) -> type[T]:
        return self._classes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)


class Names(Sequence[str]):
    """Names of a registry's classes for which ``keep`` holds; classes added later are seen too."""

    def __init__(self, registry: Registry[T], keep: Callable[[Any], bool]) -> None:
        self._registry, self._keep = registry, keep

    def _found(self) -> tuple[str, ...]:
        return tuple(name for name, entry in self._registry.items() if self._keep(entry))

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[str, ...]: ...
    def __getitem__(self, place: int | slice) -> str | tuple[str, ...]:
        return self._found()[place]

    def __len__(self) -> int:
        return len(self._found())

    def __repr__(self) -> str:
        return repr(self._found())


class Texts(Mapping[str, str]):
    """One text of every class of a registry that has it, by name."""

    def __init__(self, registry: Registry[T], attribute: str) -> None:
        self._registry, self._attribute = registry, attribute

    def _found(self) -> dict[str, str]:
        texts = {name: getattr(each, self._attribute) for name, each in self._registry.items()}
        return {name: text for name, text in texts.items() if text}

    def __getitem__(self, name: str) -> str:
        return self._found()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())
