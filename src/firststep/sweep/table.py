"""The results of an experiment as tables: rows, means over replicates, CSV, Parquet, pandas and xarray."""

from __future__ import annotations

import csv
import gc
import importlib.util
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from firststep.errors import BackendUnavailable
from firststep.problem import Problem
from firststep.store import DONE, key_of
from firststep.sweep.experiment import Experiment
from firststep.sweep.units import PREDICTED, Predictions, Replicate, Wanted, identity

Row = dict[str, Any]
FIELDS = tuple(Problem.model_fields)
WHAT = ("verb", "model", "bulk", "replicate", "seed", "status", "reason", "seconds")
MEASURED = (
    "risk",
    "risk_test_error",
    "training_error",
    "gradient_norm",
    "alignment",
    "spike_strength",
    "teacher_overlap_weights",
    "teacher_overlap_update",
    "rank_one_error",
    "kernel_lower_bound",
)
NUMBERS = tuple(dict.fromkeys((*MEASURED, *PREDICTED)))
COLUMNS = (*WHAT[:5], *FIELDS, *WHAT[5:], *NUMBERS)


class Place(NamedTuple):
    """Where a result stands in the table: the key of its record and the first columns of its row."""

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
    verb, model, bulk, replicate, seed = place.what
    return {
        "verb": verb,
        "model": model,
        "bulk": bulk,
        "replicate": replicate,
        "seed": seed,
        **place.fields,
        "status": status,
        "reason": reason,
        "seconds": seconds,
        **json.loads(numbers),
    }


@contextmanager
def _without_collection() -> Iterator[None]:
    """No search for reference cycles meanwhile: many small dictionaries make it slow, and there are none."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def summary(rows: Sequence[Row]) -> list[Row]:
    """One entry per problem and computation: ``mean``, ``standard_error`` and ``count`` of every number over the replicates."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["status"] == DONE:
            key = tuple(row[name] for name in ("verb", "model", "bulk", "seed", *FIELDS))
            groups.setdefault(key, []).append(row)
    found = []
    for members in groups.values():
        entry = {name: members[0][name] for name in ("verb", "model", "bulk", "seed", *FIELDS)}
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

    def write(partial: Path) -> None:
        with partial.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows(
                [row.get(name) for name in COLUMNS] for row in rows
            )  # None is written as nothing

    _replace(path, write)


def columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Column by column: fit for Parquet and pandas.

    The dimension is a number, inf where theory takes the limit.
    """
    table: dict[str, list[Any]] = {}
    for name in COLUMNS:
        values: list[Any] = [row.get(name) for row in rows]
        if name == "dimension":
            values = [float(value) for value in values]
        elif name == "seed":
            values = [None if value == "" else value for value in values]
        elif name in NUMBERS:
            values = [math.nan if value is None else float(value) for value in values]
        table[name] = values
    return table


def frame(rows: Sequence[Row]) -> Any:
    _require("pandas")
    import pandas

    return pandas.DataFrame(columns(rows))


def write_parquet(rows: Sequence[Row], path: Path) -> None:
    _require("pyarrow")
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table(columns(rows))
    _replace(path, lambda partial: pyarrow.parquet.write_table(table, partial))


def dataset(experiment: Experiment, rows: Sequence[Row]) -> Any:
    """Every number over the axes: ``theory_risk`` over (bulk, theory_dimension, axes), ``risk`` over (model, dimension, axes, replicate).

    Zipped axes are coordinates along the first of them. What is not computed is nan.
    """
    _require("xarray")
    import xarray

    axes = [axis.name for axis in experiment.axes]
    coordinates: dict[str, Any] = {}
    for axis in experiment.axes:
        for name, values in axis.values.items():
            coordinates[name] = (axis.name, np.array(values))
    asked = list(
        dict.fromkeys(
            d for point in experiment.points[:1] for d, _ in experiment.theory_problems(point)
        )
    )
    theory = [float(d) for d in asked]
    if experiment.bulks:
        coordinates |= {"bulk": list(experiment.bulks), "theory_dimension": theory}
    if experiment.models:
        coordinates |= {"model": list(experiment.models), "dimension": list(experiment.dimensions)}
        coordinates["replicate"] = np.arange(experiment.replicates)
    shape = experiment.shape
    arrays: dict[str, Any] = {}
    for prefix, names, lead, tail in (
        (
            "theory_",
            PREDICTED if experiment.bulks else (),
            (len(experiment.bulks), len(theory)),
            (),
        ),
        (
            "",
            MEASURED if experiment.models else (),
            (len(experiment.models), len(experiment.dimensions)),
            (experiment.replicates,),
        ),
    ):
        for name in names:
            arrays[prefix + name] = np.full((*lead, *shape, *tail), math.nan)
    place_of = _places(experiment)
    for row in rows:
        place = place_of[_fields_key(row)]
        is_theory = row["verb"] == "predict"
        if is_theory:
            where: tuple[Any, ...] = (
                experiment.bulks.index(row["bulk"]),
                theory.index(float(row["dimension"])),
                *place,
            )
        else:
            where = (
                experiment.models.index(row["model"]),
                experiment.dimensions.index(row["dimension"]),
                *place,
                row["replicate"],
            )
        for name in PREDICTED if is_theory else MEASURED:
            value = row.get(name)
            if value is not None:
                arrays[("theory_" if is_theory else "") + name][where] = value
    dims = {
        True: ("bulk", "theory_dimension", *axes),
        False: ("model", "dimension", *axes, "replicate"),
    }
    variables = {
        name: (dims[name.startswith("theory_")], values) for name, values in arrays.items()
    }
    about = {
        "name": experiment.name,
        "seed": experiment.seed,
        "problem": json.dumps(dict(experiment.problem), default=str),
    }
    return xarray.Dataset(variables, coordinates, about)


def _places(experiment: Experiment) -> dict[tuple[Any, ...], tuple[int, ...]]:
    return {_fields_key(point.problem.to_dict()): point.place for point in experiment.points}


def _fields_key(fields: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(fields[name] for name in FIELDS if name != "dimension")


def write_netcdf(data: Any, path: Path) -> None:
    """NetCDF 3 by SciPy: needs nothing but xarray."""
    _replace(path, lambda partial: data.to_netcdf(partial, engine="scipy"))


def _require(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise BackendUnavailable(
            package, "installed for this", "nothing", "try: pip install 'firststep[tables]'"
        )


def _replace(path: Path, write: Any) -> None:
    """A file that is there whole or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write(partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
