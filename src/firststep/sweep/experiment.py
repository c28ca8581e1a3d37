"""``Experiment``: a base problem, axes, and what to compute at every point of their grid. Read from TOML or a dictionary.

name = "example"
seed = 0
zip = [["alpha", "alpha0"]]          # these axes advance together; all others are crossed

[problem]                            # fields of Problem, but for the dimension
[axes]                               # lists, { linspace = [first, last, count] }, { logspace = [first, last, count] }
[predict]                            # theory: bulk, dimension (inf, numbers, or "simulated")
[simulate]                           # networks: models, dimension, replicates, and options of simulate
"""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from firststep.compare import BULKS, at_size
from firststep.errors import Fault, InvalidParameter, nearest, shown
from firststep.inputs import GAUSSIAN, input_law
from firststep.problem import Problem, choice, dimension_value, ridge_values, underscored, whole
from firststep.simulation.backends import BACKENDS
from firststep.simulation.design import MODELS, Training
from firststep.sweep.units import Replicate, Unit, predictions
from firststep.teacher_terms import teacher_terms
from firststep.theory.one_step.predict import BULKS as THEORY_BULKS

MOST_POINTS = 10_000_000
_PARTS = ("name", "seed", "zip", "problem", "axes", "predict", "simulate")
_PREDICT = ("bulk", "dimension")
_OPTIONS = (
    "steps",
    "batches",
    "reuse",
    "parameterization",
    "kernel",
    "test_samples",
    "backend",
    "device",
    "dtype",
    "block",
    "optimizer",
    "inputs",
    "teacher_terms",
)
_SIMULATE = ("models", "dimension", "replicates", *_OPTIONS)
_SPACES = ("linspace", "logspace")
SIMULATED = "simulated"  # theory at the sizes of the simulation


@dataclass(frozen=True)
class Axis:
    """Axes that advance together, under the name of the first."""

    name: str
    values: Mapping[str, tuple[Any, ...]]

    def __len__(self) -> int:
        return len(self.values[self.name])


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

    # Reading -----------------------------------------------------------------------------------------------------------------

    @classmethod
    def from_toml(cls, path: str | Path) -> Experiment:
        """The experiment in a TOML file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise InvalidParameter(
                "experiment", "a readable TOML file", str(path), error.strerror or ""
            ) from None
        except UnicodeDecodeError as error:
            raise InvalidParameter(
                "experiment", "a TOML file in UTF-8", str(path), str(error)
            ) from None
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InvalidParameter(
                "experiment", "a valid TOML file", str(path), str(error)
            ) from None
        return cls.from_dict({"name": Path(path).stem, **table})

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Experiment:
        """The experiment in a dictionary of the same shape as the TOML file. All faults are reported at once."""
        return _Reader(table).experiment()

    # The grid ----------------------------------------------------------------------------------------------------------------

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
        """Problems and models to simulate: points that differ only in the ridge share their networks."""
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
            lines.append(
                f"  networks: {', '.join(self.models)}, d = {sizes}, {self.replicates} replicates, seed {self.seed}"
            )
        return "\n".join(lines)


class _Reader:
    """Reads a table and collects what is wrong with it."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.faults: list[Fault] = []
        if not isinstance(table, Mapping):
            raise InvalidParameter("experiment", "a table", table)
        self.table = self._keys("", table, _PARTS)

    def experiment(self) -> Experiment:
        name = self.table.get("name", "sweep")
        if not isinstance(name, str) or not name:
            self._fault("name", "a text", name)
        seed = self._try("seed", lambda: whole("seed", self.table.get("seed", 0), 0), 0)
        problem, axes = self._grid()
        simulate = self._simulate(self.table.get("simulate"))
        predict = self._predict(self.table.get("predict"), bool(simulate.get("models")))
        if "predict" not in self.table and "simulate" not in self.table:
            self._fault(
                "predict",
                "given, or simulate, or both: what to compute",
                "nothing",
                "an empty [predict] table will do",
            )
        if math.prod(len(axis) for axis in axes) > MOST_POINTS:
            self._fault(
                "axes",
                f"a grid of at most {MOST_POINTS:.0e} points",
                math.prod(len(axis) for axis in axes),
            )
        if self.faults:
            raise InvalidParameter.from_faults(self.faults)
        made = Experiment(problem, axes, name, seed, **predict, **simulate)
        _check_sizes(made)
        return made

    def _fault(self, path: str, allowed: str, given: Any, hint: str = "") -> None:
        self.faults.append(Fault(path, allowed, shown(given), hint))

    def _try(self, path: str, check: Any, default: Any = None) -> Any:
        """What a check returns, its faults under our path."""
        try:
            return check()
        except InvalidParameter as error:
            self.faults += [
                Fault(path, fault.allowed, fault.given, fault.hint) for fault in error.faults
            ]
            return default

    def _keys(self, path: str, table: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
        """The entries with known names; the others are faults."""
        named = self._try(path or "experiment", lambda: underscored(table), {})
        for name in named:
            if name not in known:
                shown_names = [each.replace("_", "-") for each in known]
                where = f"{path}.{name}" if path else name
                hint = (
                    nearest(name.replace("_", "-"), shown_names)
                    or f"the names are {', '.join(shown_names)}"
                )
                self._fault(
                    where,
                    f"a part of {'[' + path + ']' if path else 'an experiment'}",
                    named[name],
                    hint,
                )
        return {name: value for name, value in named.items() if name in known}

    def _part(self, name: str) -> Mapping[str, Any]:
        given = self.table.get(name, {})
        if not isinstance(given, Mapping):
            self._fault(name, "a table", given)
            return {}
        return given

    # Problem and axes --------------------------------------------------------------------------------------------------------

    def _grid(self) -> tuple[dict[str, Any], tuple[Axis, ...]]:
        base = self._try("problem", lambda: underscored(self._part("problem")), {})
        axes = {}
        for name, spec in self._try("axes", lambda: underscored(self._part("axes")), {}).items():
            values = self._values(f"axes.{name}", name, spec)
            if values:
                axes[name] = values
        for name, table in (("problem", base), ("axes", axes)):
            if "dimension" in table:
                hint = "the dimension belongs to [predict] and [simulate]"
                self._fault(f"{name}.dimension", "left out", table.pop("dimension"), hint)
        for name in set(base) & set(axes):
            self._fault(f"problem.{name}", "left out, as it is an axis", base.pop(name))
        ridge = base.get("ridge")
        if ridge is not None and "ridge" not in axes:
            several = self._try("problem.ridge", lambda: ridge_values(ridge))
            if isinstance(several, tuple):
                axes["ridge"] = several
                del base["ridge"]
        self._check_problem(base, axes)
        return base, self._zipped(axes)

    def _values(self, path: str, name: str, spec: Any) -> tuple[Any, ...]:
        allowed = "a list of values, { linspace = [first, last, count] } or { logspace = [first, last, count] }"
        if isinstance(spec, Mapping):
            if len(spec) != 1 or next(iter(spec)) not in _SPACES:
                self._fault(path, allowed, dict(spec), nearest(str(next(iter(spec), "")), _SPACES))
                return ()
            kind, ends = next(iter(spec.items()))
            try:
                first, last, count = (
                    float(ends[0]),
                    float(ends[1]),
                    whole("count", ends[2], 1, 1_000_000),
                )
                if len(ends) != 3 or not (math.isfinite(first) and math.isfinite(last)):
                    raise ValueError
                if kind == "logspace" and not (first > 0 and last > 0):
                    raise ValueError
            except (TypeError, ValueError, IndexError, KeyError):
                positive = " with first, last > 0" if kind == "logspace" else ""
                self._fault(f"{path}.{kind}", f"[first, last, count]{positive}", ends)
                return ()
            space = np.linspace if kind == "linspace" else np.geomspace
            return tuple(float(value) for value in space(first, last, count))
        if name == "ridge" and isinstance(spec, str):
            found = self._try(path, lambda: ridge_values(spec), ())
            return found if isinstance(found, tuple) else (found,)
        if isinstance(spec, np.ndarray):
            spec = spec.tolist()
        if not isinstance(spec, Sequence) or isinstance(spec, str) or not spec:
            self._fault(path, allowed, spec)
            return ()
        values = tuple(spec)
        repeated = (
            {repr(value) for value in values if values.count(value) > 1}
            if len(values) < 10_000
            else set()
        )
        if repeated:
            self._fault(path, "values that differ", f"{sorted(repeated)[0]} twice")
        return values

    def _check_problem(self, base: Mapping[str, Any], axes: Mapping[str, tuple[Any, ...]]) -> None:
        """Every value of every axis, with the others at their first."""
        first = {name: values[0] for name, values in axes.items()}

        def faults(changes: Mapping[str, Any]) -> list[Fault]:
            try:
                Problem(**{**base, **first, **changes})._require_text()
            except InvalidParameter as error:
                return list(error.faults)
            except TypeError as error:
                return [Fault("problem", "named by words", shown(str(error)))]
            return []

        for fault in faults({}):
            name = fault.parameter.replace("-", "_")
            path = f"axes.{name}[0]" if name in axes else f"problem.{name}"
            self.faults.append(Fault(path, fault.allowed, fault.given, fault.hint))
        for name, values in axes.items():
            for place, value in enumerate(values[1:], start=1):
                for fault in faults({name: value}):
                    if fault.parameter.replace("-", "_") == name:
                        self.faults.append(
                            Fault(f"axes.{name}[{place}]", fault.allowed, fault.given, fault.hint)
                        )
            if name == "ridge" and any(isinstance(value, Sequence) for value in values):
                self._fault("axes.ridge", "single numbers", values)

    def _zipped(self, axes: Mapping[str, tuple[Any, ...]]) -> tuple[Axis, ...]:
        groups = self.table.get("zip", [])
        allowed = 'a list of lists of axes, such as [["alpha", "alpha0"]]'
        if not isinstance(groups, Sequence) or isinstance(groups, str):
            self._fault("zip", allowed, groups)
            groups = []
        leader: dict[str, tuple[str, ...]] = {}
        seen: set[str] = set()
        for number, group in enumerate(groups):
            path = f"zip[{number}]"
            if not isinstance(group, Sequence) or isinstance(group, str) or len(group) < 2:
                self._fault(path, "a list of two or more axes", group)
                continue
            names = [str(name).replace("-", "_") for name in group]
            unknown = [name for name in names if name not in axes]
            if unknown:
                self._fault(
                    path,
                    "made of axes",
                    unknown[0],
                    nearest(unknown[0], axes) or f"the axes are {', '.join(axes)}",
                )
                continue
            if seen & set(names):
                self._fault(path, "axes that are zipped once", sorted(seen & set(names))[0])
                continue
            lengths = {name: len(axes[name]) for name in names}
            if len(set(lengths.values())) > 1:
                self._fault(
                    path,
                    "axes of one length",
                    ", ".join(f"{name} {length}" for name, length in lengths.items()),
                )
                continue
            seen |= set(names)
            leader[names[0]] = tuple(names)
        followers = seen - set(leader)
        return tuple(
            Axis(name, {each: axes[each] for each in leader.get(name, (name,))})
            for name in axes
            if name not in followers
        )

    # What to compute ---------------------------------------------------------------------------------------------------------

    def _predict(self, given: Any, simulates: bool) -> dict[str, Any]:
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            self._fault("predict", "a table", given)
            return {}
        table = self._keys("predict", given, _PREDICT)
        bulks = [
            self._try("predict.bulk", lambda b=bulk: choice("bulk", b, THEORY_BULKS))
            for bulk in _listed(table.get("bulk", "exact"))
        ]
        dimensions: list[Any] = []
        for each in _listed(table.get("dimension", "inf")):
            if each == SIMULATED:
                if not simulates:
                    self._fault(
                        "predict.dimension", "inf or a number where nothing is simulated", each
                    )
                dimensions.append(each)
            else:
                d = self._try("predict.dimension", lambda e=each: dimension_value(e))
                dimensions.append("inf" if d == math.inf else d)
        return {
            "bulks": tuple(dict.fromkeys(bulks)),
            "theory_dimensions": tuple(dict.fromkeys(dimensions)),
        }

    def _simulate(self, given: Any) -> dict[str, Any]:
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            self._fault("simulate", "a table", given)
            return {}
        table = self._keys("simulate", given, _SIMULATE)
        models = [
            self._try("simulate.models", lambda m=model: choice("models", m, MODELS))
            for model in _listed(table.get("models", "network"))
        ]
        if "dimension" not in table:
            self._fault(
                "simulate.dimension",
                "given",
                "nothing",
                "the size d of the networks, for instance 400",
            )
        dimensions = [
            self._try("simulate.dimension", lambda d=each: whole("dimension", d, 2, 10**9))
            for each in _listed(table.get("dimension", 2))
        ]
        count = self._try(
            "simulate.replicates",
            lambda: whole("replicates", table.get("replicates", 10), 1, 10**6),
            1,
        )
        options = {name: table[name] for name in _OPTIONS if name in table}
        self._later_options(options, dimensions)
        training = {name: options.get(name, default) for name, default in _TRAINING.items()}
        self._try("simulate", lambda: Training(**training))
        if "backend" in options:
            self._try("simulate.backend", lambda: choice("backend", options["backend"], BACKENDS))
        for name in ("test_samples", "block"):
            if name in options:
                options[name] = self._try(
                    f"simulate.{name}", lambda n=name: whole(n, options[n], 2, 10**9)
                )
        return {
            "models": tuple(dict.fromkeys(models)),
            "dimensions": tuple(dict.fromkeys(dimensions)),
            "replicates": count,
            "options": options,
        }

    def _later_options(self, options: dict[str, Any], dimensions: list[Any]) -> None:
        """Options that came later: written one way, and left out at their default, so that the keys of old results stay."""
        if options.get("optimizer") == Training().optimizer:
            del options["optimizer"]
        if "inputs" in options:
            law = self._try("simulate.inputs", lambda: input_law(options["inputs"]), GAUSSIAN)
            options["inputs"] = str(law)  # that of a file has its hash
            if law.is_gaussian:
                del options["inputs"]
            elif law.dimension is not None and dimensions != [law.dimension]:
                self._fault(
                    "simulate.dimension",
                    f"{law.dimension}, the number of columns of the inputs",
                    dimensions,
                )
        if "teacher_terms" in options:
            terms = self._try(
                "simulate.teacher_terms", lambda: teacher_terms(options["teacher_terms"]), ()
            )
            options["teacher_terms"] = tuple(str(term) for term in terms)
            if not terms:
                del options["teacher_terms"]


_TRAINING = {
    "steps": 1,
    "batches": "fresh",
    "reuse": False,
    "parameterization": "mean-field",
    "optimizer": "gradient",
}


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]


def _check_sizes(experiment: Experiment) -> None:
    """Sizes that round to zero are found before anything runs."""
    faults = []
    for d in experiment.dimensions:
        for axis in experiment.axes:
            for place in range(len(axis)):
                values = {name: each[place] for name, each in axis.values.items()}
                first = {
                    name: each[0]
                    for other in experiment.axes
                    for name, each in other.values.items()
                }
                try:
                    Problem(**{**experiment.problem, **first, **values}).sizes(d)
                except InvalidParameter as error:
                    faults += [
                        Fault(f"simulate.{fault.parameter}", fault.allowed, fault.given, fault.hint)
                        for fault in error.faults
                    ]
    if faults:
        raise InvalidParameter.from_faults(dict.fromkeys(faults))


def theory_of(model: str) -> str | None:
    """The bulk whose theory describes a simulated model, or None."""
    return BULKS.get(model)
