"""``Experiment``: a base problem, axes, and what to compute at every point of their grid.

Read from TOML or a dictionary:

name = "example"
seed = 0
zip = [["alpha", "alpha0"]]  # these axes advance together; all others are crossed

[problem]   # fields of Problem, but for the dimension
[axes]      # lists, { linspace = [first, last, count] }, { logspace = [first, last, count] }
[predict]   # theory: bulk, dimension (inf, numbers, or "simulated")
[simulate]  # networks: models, dimension, replicates, and options of simulate
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from firststep.compare import at_size
from firststep.errors import InvalidParameter
from firststep.problem import Problem
from firststep.records import read_toml
from firststep.sweep.asked import SIMULATED, Asked
from firststep.sweep.grid import Axis
from firststep.sweep.units import Replicate, Unit, predictions


@dataclass(frozen=True)
class Point:
    """One point of the grid: its place along every axis, the values there, and its problem."""

    place: tuple[int, ...]
    values: Mapping[str, Any]
    problem: Problem


@dataclass(frozen=True)
class Experiment:
    """A validated experiment."""

    problem: Mapping[str, Any]  # the fields that do not vary
    axes: tuple[Axis, ...]
    name: str = "sweep"
    seed: int = 0
    bulks: tuple[str, ...] = ()  # of the theory; none: no theory
    theory_dimensions: tuple[Any, ...] = ()
    models: tuple[str, ...] = ()  # simulated; none: no simulation
    dimensions: tuple[int, ...] = ()
    replicates: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    # Reading --------------------------------------------------------------------------------------

    @classmethod
    def from_toml(cls, path: str | Path) -> Experiment:
        """The experiment in a TOML file; its name, unless it has one, is that of the file."""
        return cls.from_dict({"name": Path(path).stem, **read_toml(path, "experiment")})

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Experiment:
        """The experiment in a dictionary of the shape of the TOML file; all faults at once."""
        asked = Asked.of(table)
        parts: dict[str, Any] = {}
        if asked.predict is not None:
            parts |= dict(bulks=asked.predict.bulk, theory_dimensions=asked.predict.dimension)
        if asked.simulate is not None:
            parts |= dict(
                models=asked.simulate.models,
                dimensions=asked.simulate.dimension,
                replicates=asked.simulate.replicates,
                options=asked.simulate.options,
            )
        grid = asked.grid
        made = cls(grid.problem, grid.axes, name=asked.name, seed=asked.seed, **parts)
        made._check_sizes()
        return made

    def _check_sizes(self) -> None:
        """Sizes that round to zero are found before anything runs."""
        first = {name: each[0] for axis in self.axes for name, each in axis.values.items()}
        faults = []
        for d, axis in itertools.product(self.dimensions, self.axes or (None,)):
            for place in range(len(axis) if axis else 1):
                along = axis.values if axis else {}
                values = {name: each[place] for name, each in along.items()}
                try:
                    Problem(**{**self.problem, **first, **values}).sizes(d)
                except InvalidParameter as error:
                    faults += [fault.at(f"simulate.{fault.parameter}") for fault in error.faults]
        if faults:
            raise InvalidParameter.from_faults(dict.fromkeys(faults))

    # The grid -------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis) for axis in self.axes)

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """Every point of the grid, the last axis fastest."""
        found = []
        for place in itertools.product(*(range(len(axis)) for axis in self.axes)):
            values = {
                name: each[i]
                for axis, i in zip(self.axes, place, strict=True)
                for name, each in axis.values.items()
            }
            found.append(Point(place, values, Problem(**{**self.problem, **values})))
        return tuple(found)

    def theory_problems(self, point: Point) -> list[tuple[Any, Problem]]:
        """The problems theory solves at a point, with the dimension as it was asked for."""
        found: list[tuple[Any, Problem]] = []
        for asked in self.theory_dimensions:
            if asked == SIMULATED:
                found += [(d, at_size(point.problem, d, "network")) for d in self.dimensions]
            else:
                found.append((asked, point.problem.replace(dimension=asked)))
        return found

    def units(self) -> list[Unit]:
        """All the work: theory first, then one replicate of everything, then the next."""
        units: list[Unit] = []
        problems = [problem for point in self.points for _, problem in self.theory_problems(point)]
        for bulk in self.bulks:
            units += predictions(dict.fromkeys(problems), bulk)
        settings = list(self._simulated())
        for number in range(self.replicates):
            units += [
                Replicate(problem, model, self.seed, number, self.options)
                for problem, model in settings
            ]
        return units

    def _simulated(self) -> Iterator[tuple[Problem, str]]:
        """Problems and models to simulate: points that differ only in the ridge share networks."""
        groups: dict[Problem, list[float]] = {}
        for point in self.points:
            groups.setdefault(point.problem.replace(ridge=1.0), []).extend(point.problem.ridges)
        for d in self.dimensions:
            for shared, ridges in groups.items():
                values = tuple(dict.fromkeys(ridges))
                problem = shared.replace(
                    ridge=values if len(values) > 1 else values[0], dimension=d
                )
                for model in self.models:
                    yield problem, model

    def shard(self, part: int, parts: int) -> list[Unit]:
        """Every ``parts``-th unit, from number ``part`` (1, 2, ...)."""
        return self.units()[part - 1 :: parts]

    def describe(self) -> str:
        """The experiment in two or three lines."""
        grid = (
            " x ".join(f"{'+'.join(axis.values)} ({len(axis)})" for axis in self.axes)
            or "one problem"
        )
        lines = [f"{self.name}: {grid}, {math.prod(self.shape)} points"]
        if self.bulks:
            sizes = ", ".join(str(d) for d in self.theory_dimensions)
            lines.append(f"  theory: {', '.join(self.bulks)} bulk, d = {sizes}")
        if self.models:
            sizes = ", ".join(str(d) for d in self.dimensions)
            count = f"{self.replicates} replicates, seed {self.seed}"
            lines.append(f"  networks: {', '.join(self.models)}, d = {sizes}, {count}")
        return "\n".join(lines)
