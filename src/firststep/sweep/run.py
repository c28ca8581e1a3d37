"""``run_sweep``: an experiment, its store and its results."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from firststep.checks import whole
from firststep.errors import InvalidParameter, StoreError
from firststep.store import LOST, REFUSED, Store
from firststep.sweep import table
from firststep.sweep.engine import Tally, Watcher, execute
from firststep.sweep.executors import Dask, Executor, ThisMachine
from firststep.sweep.experiment import Experiment
from firststep.sweep.units import describe

if TYPE_CHECKING:
    import pandas
    import xarray
    from distributed import Client


@dataclass(frozen=True, eq=False)
class Sweep:
    """The results of an experiment, as far as they are computed.

    ``rows`` has one entry per result; ``summary`` one per point, with means and standard errors
    over replicates; ``frame`` and ``dataset`` are the same for pandas and xarray.
    """

    experiment: Experiment
    rows: tuple[table.Row, ...]
    tally: Tally
    failures: tuple[str, ...] = field(default=())

    @property
    def complete(self) -> bool:
        """Whether every result is there, with a number."""
        return self.tally.finished == self.tally.wanted and not self.failures

    def summary(self) -> list[table.Row]:
        return table.summary(self.rows)

    def frame(self) -> pandas.DataFrame:
        """A pandas DataFrame, one row per result."""
        return table.frame(self.rows)

    def dataset(self) -> xarray.Dataset:
        """An xarray Dataset over the axes of the experiment."""
        return table.dataset(self.experiment, self.rows)

    def to_csv(self, path: str | Path) -> None:
        table.write_csv(self.rows, Path(path))

    def to_parquet(self, path: str | Path) -> None:
        table.write_parquet(self.rows, Path(path))

    def to_netcdf(self, path: str | Path) -> None:
        table.write_netcdf(self.dataset(), Path(path))

    def __str__(self) -> str:
        tally = self.tally
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return f"{self.experiment.describe()}\n  {tally.finished} of {tally.wanted} results{failed}"

    __repr__ = __str__


def read(experiment: object) -> Experiment:
    """An experiment from itself, a dictionary, or the path of a TOML file."""
    if isinstance(experiment, Experiment):
        return experiment
    if isinstance(experiment, Mapping):
        return Experiment.from_dict(experiment)
    if isinstance(experiment, str | Path):
        return Experiment.from_toml(experiment)
    raise InvalidParameter(
        "experiment", "an Experiment, a dictionary or the path of a TOML file", experiment
    )


def shard_of(text: object) -> tuple[int, int]:
    """(i, n) of a text such as 3/16."""
    allowed = "i/n with whole numbers 1 <= i <= n, such as 3/16"
    try:
        part, parts = (whole("shard", each, 1) for each in str(text).split("/"))
    except (InvalidParameter, ValueError):
        raise InvalidParameter("shard", allowed, text) from None
    if part > parts:
        raise InvalidParameter("shard", allowed, text)
    return part, parts


def run_sweep(
    experiment: object,
    store: str | Path | None = None,
    *,
    workers: object = None,
    dask: str | Client | None = None,
    shard: object = None,
    retry: bool = False,
    watch: Watcher | None = None,
) -> Sweep:
    """Compute what is missing of an experiment and return all of it.

    Args:
        experiment: an ``Experiment``, a dictionary of the shape of its TOML file, or the path of
            such a file.
        store: the file of results; what it holds is not computed again. Without one the results
            live only in what is returned.
        workers: processes of this machine; default: as many as there are cores.
        dask: the address of a Dask scheduler or a ``distributed.Client``, instead of this machine.
        shard: "i/n": only this part of the work, for job arrays.
        retry: compute again what had no answer before.
        watch: called with a ``Tally`` after every unit of work.
    """
    question = read(experiment)
    with _opened(store) as place:
        state = advance(
            question, place, workers=workers, dask=dask, shard=shard, retry=retry, watch=watch
        )
        return Sweep(
            question,
            tuple(table.rows(table.places(question), place.numbers())),
            state.tally,
            state.failures,
        )


class State(NamedTuple):
    """How far a sweep is."""

    tally: Tally
    failures: tuple[str, ...]


def advance(
    experiment: Experiment,
    store: Store,
    *,
    workers: object = None,
    dask: str | Client | None = None,
    shard: object = None,
    retry: bool = False,
    watch: Watcher | None = None,
) -> State:
    """Compute what is missing, without reading the rest."""
    units = experiment.units() if shard is None else experiment.shard(*shard_of(shard))
    if dask is not None and workers is not None:
        raise InvalidParameter("workers", "left out with dask", workers, "the cluster has its own")
    executor: Executor = Dask(dask) if dask is not None else ThisMachine(workers)
    tally = execute(units, store, executor, experiment=experiment.name, retry=retry, watch=watch)
    keys = {wanted.key for unit in units for wanted in unit.wanted}
    return State(tally, _failures(store, keys, _counted(store, keys, tally)))


def _counted(store: Store, keys: set[str], tally: Tally) -> dict[str, str]:
    """What is on the disk: nothing is said to be done that is not there."""
    statuses = store.statuses()
    there = sum(key in statuses for key in keys)
    if there < tally.finished:
        raise StoreError(
            f"{store.path} has {there} of the {tally.finished} results of this sweep: it was "
            "changed by something else while the sweep ran; the same command computes the rest"
        )
    return statuses


def standing(experiment: Experiment, store: Store) -> State:
    """How far a sweep is; nothing is computed."""
    statuses = store.statuses()
    keys = {wanted.key for unit in experiment.units() for wanted in unit.wanted}
    return _state(store, keys, statuses)


def results(experiment: Experiment, store: Store) -> Sweep:
    """What a store holds of an experiment; nothing is computed."""
    places, found = list(table.places(experiment)), store.numbers()
    state = _state(
        store, {place.key for place in places}, {key: status for key, (status, *_) in found.items()}
    )
    return Sweep(experiment, tuple(table.rows(places, found)), state.tally, state.failures)


def _state(store: Store, keys: set[str], statuses: Mapping[str, str]) -> State:
    return State(
        Tally(
            wanted=len(keys), found=sum(key in statuses for key in keys), spoiled=len(store.spoiled)
        ),
        _failures(store, keys, statuses),
    )


def _failures(store: Store, keys: set[str], statuses: Mapping[str, str]) -> tuple[str, ...]:
    bad = [key for key in keys if statuses.get(key) in (REFUSED, LOST)]
    return tuple(describe(record) for record in store.records(bad)) if bad else ()


@contextmanager
def _opened(path: str | Path | None) -> Iterator[Store]:
    with tempfile.TemporaryDirectory() as folder:
        with Store(Path(folder) / "results.db" if path is None else path) as store:
            yield store
