"""The results of an experiment as tables: rows, means, CSV, Parquet, pandas and xarray."""

from __future__ import annotations

import gc
import importlib.util
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from firststep import writing
from firststep.errors import BackendUnavailable
from firststep.label_faults import LATER
from firststep.problem import Problem
from firststep.results import LOSSES
from firststep.simulation.models.measuring import SCALARS
from firststep.store import DONE, key_of
from firststep.sweep.experiment import Experiment
from firststep.sweep.units import PREDICTED, Predictions, Replicate, Wanted, identity

if TYPE_CHECKING:
    import pandas
    import xarray

Row = dict[str, Any]
FIELDS = tuple(Problem.model_fields)
WHAT = ("verb", "model", "bulk", "replicate", "seed", "status", "reason", "seconds")
MEASURED = (*("risk", "risk_test_error", "training_error"), *SCALARS, "kernel_lower_bound", *LOSSES)
NUMBERS = tuple(dict.fromkeys((*MEASURED, *PREDICTED)))
COLUMNS = (*WHAT[:5], *FIELDS, *WHAT[5:], *NUMBERS)


class Place(NamedTuple):
    """Where a result stands in the table: its key and the first columns of its row."""

    key: str
    what: tuple[Any, ...]  # verb, model, bulk, replicate, seed
    fields: Mapping[str, Any]  # of the problem


def places(experiment: Experiment) -> Iterator[Place]:
    """Every result that an experiment wants, in the order of its grid."""
    for point in experiment.points:
        for asked, problem in experiment.theory_problems(point):
            fields = {**point.problem.to_dict(), "dimension": asked}
            text = identity(problem)
            for bulk in experiment.bulks:
                key = Wanted(text, Predictions((), bulk).computation, 0).key
                yield Place(key, ("predict", "theory", bulk, 0, ""), fields)
        for d in experiment.dimensions:
            problem = point.problem.replace(dimension=d)
            fields = problem.to_dict()
            for model in experiment.models:
                (first,) = Replicate(problem, model, experiment.seed, 0, experiment.options).wanted
                for number in range(experiment.replicates):
                    key = key_of(first.problem, first.computation, number)
                    yield Place(key, ("simulate", model, "", number, experiment.seed), fields)


def rows(places: Iterable[Place], found: Mapping[str, tuple[str, str, str, float]]) -> list[Row]:
    """One row per result that is there. ``found``: ``Store.numbers``."""
    with _without_collection():
        return [_row(place, found[place.key]) for place in places if place.key in found]


def _row(place: Place, found: tuple[str, str, str, float]) -> Row:
    status, numbers, reason, seconds = found
    return {
        **dict(zip(WHAT[:5], place.what, strict=True)),
        **place.fields,
        "status": status,
        "reason": reason,
        "seconds": seconds,
        **json.loads(numbers),
    }


def cell(row: Mapping[str, Any], name: str) -> Any:
    """An entry of a row: none if it is not there, and of a field that came later its default."""
    return row.get(name, LATER.get(name))


@contextmanager
def _without_collection() -> Iterator[None]:
    """No search for reference cycles meanwhile: many small dictionaries make it slow."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def summary(rows: Sequence[Row]) -> list[Row]:
    """One entry per problem and computation, over the replicates.

    ``mean`` and ``standard_error`` of every number, and ``count``.
    """
    names = ("verb", "model", "bulk", "seed", *FIELDS)
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["status"] == DONE:
            key = tuple(cell(row, name) for name in names)
            groups.setdefault(key, []).append(row)
    found = []
    for members in groups.values():
        entry = {name: cell(members[0], name) for name in names}
        entry["count"] = len(members)
        entry["mean"], entry["standard_error"] = {}, {}
        for name in NUMBERS:
            values = np.array(
                [v for v in (row.get(name) for row in members) if v is not None], float
            )
            if values.size:
                entry["mean"][name] = float(values.mean())
                error = values.std(ddof=1) / math.sqrt(values.size) if values.size > 1 else math.nan
                entry["standard_error"][name] = float(error)
        found.append(entry)
    return found


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """All rows; a number that is not there is left empty."""
    writing.write_csv(path, [COLUMNS, *([cell(row, name) for name in COLUMNS] for row in rows)])


def columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Column by column: fit for Parquet and pandas.

    The dimension is a number, inf where theory takes the limit.
    """
    table: dict[str, list[Any]] = {}
    for name in COLUMNS:
        values: list[Any] = [cell(row, name) for row in rows]
        if name == "dimension":
            values = [float(value) for value in values]
        elif name == "seed":
            values = [None if value == "" else value for value in values]
        elif name in NUMBERS:
            values = [math.nan if value is None else float(value) for value in values]
        table[name] = values
    return table


def frame(rows: Sequence[Row]) -> pandas.DataFrame:
    _require("pandas")
    import pandas

    return pandas.DataFrame(columns(rows))


def write_parquet(rows: Sequence[Row], path: Path) -> None:
    _require("pyarrow")
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table(columns(rows))
    writing.write_file(path, lambda partial: pyarrow.parquet.write_table(table, partial))


def dataset(experiment: Experiment, rows: Sequence[Row]) -> xarray.Dataset:
    """Every number over the axes; what is not computed is nan.

    ``theory_risk`` over (bulk, theory_dimension, axes), ``risk`` over (model, dimension, axes,
    replicate), and so on. Zipped axes are coordinates along the first of them.
    """
    _require("xarray")
    import xarray

    kinds = _kinds(experiment)
    arrays = {
        (verb, name): np.full([len(values) for values in kind.along.values()], math.nan)
        for verb, kind in kinds.items()
        for name in kind.numbers
    }
    place_of = _places(experiment)
    for row in rows:
        kind = kinds[row["verb"]]
        where = kind.where(row, place_of[_fields_key(row)])
        for name in kind.numbers:
            value = row.get(name)
            if value is not None:
                arrays[row["verb"], name][where] = value
    variables = {
        kinds[verb].prefix + name: (tuple(kinds[verb].along), values)
        for (verb, name), values in arrays.items()
    }
    coordinates: dict[str, Any] = {
        name: (axis.name, np.array(values))
        for axis in experiment.axes
        for name, values in axis.values.items()
    }
    for kind in kinds.values():
        coordinates |= {name: kind.along[name] for name in (*kind.lead, *kind.tail)}
    about = {
        "name": experiment.name,
        "seed": experiment.seed,
        "problem": json.dumps(dict(experiment.problem), default=str),
    }
    return xarray.Dataset(variables, coordinates, about)


class Kind(NamedTuple):
    """Theory or simulation in a dataset: its numbers, and what they vary with."""

    prefix: str  # of the names of its numbers
    numbers: tuple[str, ...]
    columns: tuple[str, str]  # of a row, along the first two dimensions
    lead: Mapping[str, Sequence[Any]]  # these two, before the axes of the experiment
    axes: Mapping[str, Sequence[Any]]
    tail: Mapping[str, Sequence[Any]]  # after them

    @property
    def along(self) -> dict[str, Sequence[Any]]:
        """Every dimension with its values."""
        return {**self.lead, **self.axes, **self.tail}

    def where(self, row: Row, place: tuple[int, ...]) -> tuple[int, ...]:
        """The place of a row in the arrays, from that of its point in the grid."""
        pairs = zip(self.lead.values(), self.columns, strict=True)
        first = [
            values.index(float(row[column]) if column == "dimension" else row[column])
            for values, column in pairs
        ]
        return (*first, *place, *(row[name] for name in self.tail))


def _kinds(experiment: Experiment) -> dict[str, Kind]:
    """What an experiment computes, by the verb of its rows."""
    axes = {axis.name: range(len(axis)) for axis in experiment.axes}
    found = {}
    if experiment.bulks:
        asked = (d for d, _ in experiment.theory_problems(experiment.points[0]))
        sizes = [float(d) for d in dict.fromkeys(asked)]
        found["predict"] = Kind(
            prefix="theory_",
            numbers=(*PREDICTED, *LOSSES),
            columns=("bulk", "dimension"),
            lead={"bulk": list(experiment.bulks), "theory_dimension": sizes},
            axes=axes,
            tail={},
        )
    if experiment.models:
        found["simulate"] = Kind(
            prefix="",
            numbers=MEASURED,
            columns=("model", "dimension"),
            lead={"model": list(experiment.models), "dimension": list(experiment.dimensions)},
            axes=axes,
            tail={"replicate": list(range(experiment.replicates))},
        )
    return found


def _places(experiment: Experiment) -> dict[tuple[Any, ...], tuple[int, ...]]:
    return {_fields_key(point.problem.to_dict()): point.place for point in experiment.points}


def _fields_key(fields: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(cell(fields, name) for name in FIELDS if name != "dimension")


def write_netcdf(data: xarray.Dataset, path: Path) -> None:
    """NetCDF 3 by SciPy: needs nothing but xarray."""
    writing.write_file(path, lambda partial: data.to_netcdf(partial, engine="scipy"))


def _require(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise BackendUnavailable(
            package, "installed for this", "nothing", "try: pip install 'firststep[tables]'"
        )
