"""The grid of an experiment: its axes, crossed or zipped, and what is wrong with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

from firststep.checks import ridge_values, whole
from firststep.errors import Fault, InvalidParameter, nearest, shown
from firststep.label_faults import OF_THE_DATA
from firststep.problem import Problem

MOST_POINTS = 10_000_000  # more would not fit in memory as points
MOST_VALUES = 1_000_000  # of one linspace or logspace
SEARCHED = 10_000  # values among which repeated ones are looked for: the search is quadratic
SPACES: dict[str, Callable[..., Any]] = {"linspace": np.linspace, "logspace": np.geomspace}
VALUES_ALLOWED = (
    "a list of values, { linspace = [first, last, count] } or { logspace = [first, last, count] }"
)


@dataclass(frozen=True)
class Axis:
    """Axes that advance together, under the name of the first."""

    name: str
    values: Mapping[str, tuple[Any, ...]]

    def __len__(self) -> int:
        return len(self.values[self.name])


def listed(value: object) -> list[Any]:
    """A list of what is given, be it one thing or several."""
    return list(value) if _is_list(value) else [value]


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


# One axis -----------------------------------------------------------------------------------------


def axis_values(name: str, given: object) -> tuple[Any, ...]:
    """The values of an axis, from a list, an array, a range, or the text of several ridges."""
    if isinstance(given, Mapping):
        return _spaced(name, given)
    if name == "ridge" and isinstance(given, str):
        found = ridge_values(given)
        return found if isinstance(found, tuple) else (found,)
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if not _is_list(given) or not given:
        raise InvalidParameter(name, VALUES_ALLOWED, given)
    values = tuple(given)
    if name in OF_THE_DATA:  # several terms or components may be a list: they are one value
        values = tuple(",".join(map(str, each)) if _is_list(each) else each for each in values)
    few = values if len(values) < SEARCHED else ()
    repeated = sorted({repr(value) for value in few if few.count(value) > 1})
    if repeated:
        raise InvalidParameter(name, "values that differ", f"{repeated[0]} twice")
    return values


def _spaced(name: str, given: Mapping[str, Any]) -> tuple[float, ...]:
    """{ linspace = [first, last, count] } or { logspace = [first, last, count] }."""
    kind = next(iter(given), "")
    if len(given) != 1 or kind not in SPACES:
        hint = nearest(str(kind), SPACES)
        raise InvalidParameter(name, VALUES_ALLOWED, dict(given), hint)
    ends, least = given[kind], 0.0 if kind == "logspace" else -math.inf
    try:
        first, last = float(ends[0]), float(ends[1])
        count = whole("count", ends[2], 1, MOST_VALUES)
        if len(ends) != 3 or not (least < first < math.inf and least < last < math.inf):
            raise ValueError
    except (TypeError, ValueError, IndexError, KeyError):
        positive = " with first, last > 0" if kind == "logspace" else ""
        raise InvalidParameter(f"{name}.{kind}", f"[first, last, count]{positive}", ends) from None
    return tuple(float(value) for value in SPACES[kind](first, last, count))


# The grid -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """The fields that do not vary, and the axes of the others."""

    problem: Mapping[str, Any]
    axes: tuple[Axis, ...]

    @classmethod
    def checked(
        cls, problem: Mapping[str, Any], axes: Mapping[str, tuple[Any, ...]], groups: Sequence[Any]
    ) -> tuple[Grid, list[Fault]]:
        """The grid of a [problem], its [axes] and the groups to zip, with all its faults."""
        base, along = dict(problem), dict(axes)
        faults = []
        for part, table in (("problem", base), ("axes", along)):
            if "dimension" in table:
                hint = "the dimension belongs to [predict] and [simulate]"
                given = shown(table.pop("dimension"))
                faults.append(Fault(f"{part}.dimension", "left out", given, hint))
        for name in [name for name in base if name in along]:
            given = shown(base.pop(name))
            faults.append(Fault(f"problem.{name}", "left out, as it is an axis", given))
        try:  # several ridges are an axis
            ridges = ridge_values(base.get("ridge", 0.0))
        except InvalidParameter:
            pass  # the problem says it below
        else:
            if isinstance(ridges, tuple):
                along["ridge"] = ridges
                del base["ridge"]
        zipped, more = _zipped(along, groups)
        faults += _problem_faults(base, zipped)
        points = math.prod(len(axis) for axis in zipped)
        if points > MOST_POINTS:
            allowed = f"a grid of at most {MOST_POINTS:.0e} points"
            more.append(Fault("axes", allowed, str(points)))
        return cls(base, zipped), faults + more


def _problem_faults(base: Mapping[str, Any], axes: tuple[Axis, ...]) -> Iterable[Fault]:
    """Every place of every axis, with the others at their first."""
    first = {name: values[0] for axis in axes for name, values in axis.values.items()}

    def faults(**changes: object) -> list[tuple[str, Fault]]:
        try:
            Problem(**{**base, **first, **changes})._require_text()
        except InvalidParameter as error:
            return [(fault.parameter.replace("-", "_"), fault) for fault in error.faults]
        return []

    for name, fault in faults():
        yield fault.at(f"axes.{name}[0]" if name in first else f"problem.{name}")
    for axis in axes:
        for place in range(1, len(axis)):
            changes = {name: values[place] for name, values in axis.values.items()}
            for name, fault in faults(**changes):
                if name in changes:
                    yield fault.at(f"axes.{name}[{place}]")
    ridges = next((axis.values["ridge"] for axis in axes if "ridge" in axis.values), ())
    if any(isinstance(value, Sequence) for value in ridges):
        yield Fault("axes.ridge", "single numbers", shown(ridges))


def _zipped(
    axes: Mapping[str, tuple[Any, ...]], groups: Sequence[Any]
) -> tuple[tuple[Axis, ...], list[Fault]]:
    """The axes with those of a group together, under the first of its names."""
    together: dict[str, list[str]] = {}
    seen: set[str] = set()
    faults = []
    for number, group in enumerate(groups):
        names = [str(name).replace("-", "_") for name in listed(group)]
        fault = _group_fault(f"zip[{number}]", group, axes, seen)
        if fault is not None:
            faults.append(fault)
            continue
        seen.update(names)
        together[names[0]] = names
    followers = seen - set(together)
    return tuple(
        Axis(name, {each: axes[each] for each in together.get(name, [name])})
        for name in axes
        if name not in followers
    ), faults


def _group_fault(
    path: str, group: object, axes: Mapping[str, tuple[Any, ...]], seen: set[str]
) -> Fault | None:
    if not _is_list(group) or len(group) < 2:
        return Fault(path, "a list of two or more axes", shown(group))
    names = [str(name).replace("-", "_") for name in group]
    unknown = next((name for name in names if name not in axes), None)
    if unknown is not None:
        hint = nearest(unknown, axes) or f"the axes are {', '.join(axes)}"
        return Fault(path, "made of axes", unknown, hint)
    if seen & set(names):
        return Fault(path, "axes that are zipped once", sorted(seen & set(names))[0])
    if len({len(axes[name]) for name in names}) > 1:
        lengths = ", ".join(f"{name} {len(axes[name])}" for name in names)
        return Fault(path, "axes of one length", lengths)
    return None
