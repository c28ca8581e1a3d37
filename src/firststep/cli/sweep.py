"""``firststep sweep``: grids of problems."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from firststep import store as stores
from firststep.checks import choice
from firststep.cli.attach import attach
from firststep.cli.flags import Processes, several, switch
from firststep.cli.output import complain
from firststep.errors import InvalidParameter, StoreError
from firststep.figures import of_sweep
from firststep.results import Interrupted
from firststep.store import Store
from firststep.sweep.engine import Tally
from firststep.sweep.run import Sweep, advance, read, results, standing
from firststep.sweep.watching import Watch, text
from firststep.writing import is_standard_output, write_text

EXAMPLE = Path("experiment.toml")
PICTURES = (".png", ".pdf", ".svg")
MOST_FAILURES = 20  # that are told one by one: they fit a terminal
Experiment = Annotated[
    Path, Parameter(help="TOML file of the experiment; firststep sweep init writes one")
]
Place = Annotated[
    Path | None, Parameter(help="file of results; default: the experiment's name with .db")
]


def _target(what: str) -> Parameter:
    return Parameter(help=f"write {what}; - is standard output", allow_leading_hyphen=True)


def init(
    path: Annotated[Path, Parameter(help="where to write it")] = EXAMPLE,
    *,
    force: Annotated[bool, switch("replace a file that is there")] = False,
) -> int:
    """Write a commented example of an experiment."""
    if path.exists() and not force:
        raise InvalidParameter(
            "path", "a file that does not exist yet", str(path), "--force replaces it"
        )
    example = files("firststep.sweep").joinpath("example.toml").read_text(encoding="utf-8")
    with _writing("path", path):
        write_text(path, example.replace("EXPERIMENT", str(path)))
    print(f"wrote {path}; next: firststep sweep run {path}")
    return 0


def run(
    experiment: Experiment,
    *,
    store: Place = None,
    workers: Processes = None,
    shard: Annotated[
        str | None, Parameter(help="i/n: only the i-th of n parts of the work, for job arrays")
    ] = None,
    dask: Annotated[
        str | None,
        Parameter(help="address of a Dask scheduler, tcp://host:port, instead of this machine"),
    ] = None,
    retry: Annotated[bool, switch("compute again what had no answer before")] = False,
) -> int:
    """Compute what is missing. What the store holds is not computed again, so the same command
    continues a sweep.

    Example: firststep sweep init ridge.toml && firststep sweep run ridge.toml && firststep sweep
    plot ridge.toml
    """
    question = read(experiment)
    place = _place(experiment, store)
    print(question.describe(), file=sys.stderr)
    names = tuple(name for axis in question.axes for name in axis.values)
    with Watch(names) as watch, Store(place) as opened:
        try:
            done = advance(
                question, opened, workers=workers, dask=dask, shard=shard, retry=retry, watch=watch
            )
        except KeyboardInterrupt:
            told = f"interrupted: {text(standing(question, opened).tally)} in {place}"
            raise Interrupted(None, f"{told}; the same command continues") from None
    _tell_spoiled(done.tally, "were computed again if this sweep needs them")
    print(f"{text(done.tally, names)}: {place}")
    return _tell_failures(done.failures)


def status(
    experiment: Experiment,
    *,
    store: Place = None,
    json: Annotated[bool, switch("print one JSON object")] = False,
) -> int:
    """Say how far a sweep is, and what failed. Exit code 1 if something failed."""
    question, place = read(experiment), _place(experiment, store)
    with Store(place, readonly=True) as opened:
        tally, failures = standing(question, opened)
    _tell_spoiled(tally, "are left out; firststep sweep run computes them again")
    if json:
        told = {
            "name": question.name,
            "wanted": tally.wanted,
            "finished": tally.finished,
            "failed": len(failures),
            "failures": list(failures),
            "spoiled": tally.spoiled,
            "store": str(place),
        }
        print(jsonlib.dumps(told))
        return 1 if failures else 0
    failed = f", {len(failures)} failed" if failures else ""
    print(f"{question.describe()}\n  {tally.finished} of {tally.wanted} results{failed}")
    return _tell_failures(failures)


def export(
    experiment: Experiment,
    *,
    store: Place = None,
    csv: Annotated[Path | None, _target("a CSV file, one row per result")] = None,
    parquet: Annotated[Path | None, _target("a Parquet file, one row per result")] = None,
    netcdf: Annotated[Path | None, _target("a netCDF file with the axes as dimensions")] = None,
) -> int:
    """Write the results to files."""
    if not (csv or parquet or netcdf):
        raise InvalidParameter(
            "export", "given one or more of --csv, --parquet, --netcdf", "nothing"
        )
    held = _held(experiment, store)
    for path, write in ((csv, held.to_csv), (parquet, held.to_parquet), (netcdf, held.to_netcdf)):
        if path is not None:
            with _writing("export", path):
                write(path)
            told = sys.stderr if is_standard_output(path) else sys.stdout
            print(f"wrote {path}: {len(held.rows)} rows", file=told)
    if held.tally.finished < held.tally.wanted:
        finished = f"{held.tally.finished} of {held.tally.wanted} results"
        print(f"note: the sweep is not complete: {finished}", file=sys.stderr)
    return 0


def plot(
    experiment: Experiment,
    *,
    store: Place = None,
    x: Annotated[str | None, Parameter(help="axis to draw along; default: the longest one")] = None,
    y: Annotated[
        str | None,
        Parameter(
            help="risk, training_error, error_rate, alignment, ...; default: the error rate of "
            "binary labels, the test loss of other losses of real ones, the risk else"
        ),
    ] = None,
    where: Annotated[list[str] | None, several("fix a field: --where ridge=0.01 step=2")] = None,
    out: Annotated[
        Path | None,
        Parameter(help="picture; .png, .pdf or .svg; default: the experiment's name with .png"),
    ] = None,
) -> int:
    """Draw a quantity along an axis: theory as lines, simulation as points with one standard error;
    beside error rates the Bayes error.
    """
    fixed = {}
    for each in where or []:
        name, equal, value = each.partition("=")
        if not equal:
            raise InvalidParameter("where", "name=value", each)
        fixed[name.replace("-", "_")] = value
    target = experiment.with_suffix(".png") if out is None else out
    choice("out", target.suffix, PICTURES)
    held = _held(experiment, store)
    axis, quantity = (None if name is None else name.replace("-", "_") for name in (x, y))
    with _writing("out", target):
        written = of_sweep.write(held, target, axis, quantity, fixed)
    print(f"wrote {written}")
    return 0


def repair(store: Annotated[Path, Parameter(help="a damaged file of results")]) -> int:
    """Save what can be read of a damaged store; the damaged file is kept beside it."""
    done = stores.repair(store)
    spoiled = f"{done.spoiled} rows were spoiled and are left out; " if done.spoiled else ""
    print(f"saved {done.saved} results in {store}; {spoiled}the damaged file is {done.kept}")
    return 0


def merge(
    store: Annotated[Path, Parameter(help="the store that receives the results")],
    others: Annotated[list[Path], Parameter(help="stores to copy from", consume_multiple=True)],
) -> int:
    """Bring the results of several stores, of a job array for instance, into one."""
    missing = [path for path in others if not path.exists()]
    if missing:
        raise StoreError(f"there is no store {missing[0]}")
    with Store(store) as target:
        for path in others:
            print(f"{path}: {target.merge(path)} new results")
    return 0


def _place(experiment: Path, store: Path | None) -> Path:
    return experiment.with_suffix(".db") if store is None else store


def _held(experiment: Path, store: Path | None) -> Sweep:
    """What the store holds of an experiment."""
    question = read(experiment)
    with Store(_place(experiment, store), readonly=True) as place:
        held = results(question, place)
    _tell_spoiled(held.tally, "are left out; firststep sweep run computes them again")
    return held


def _tell_spoiled(tally: Tally, fate: str) -> None:
    if tally.spoiled:
        told = f"{tally.spoiled} rows of the store are not what was written (their checksum says)"
        print(f"warning: {told}: they {fate}", file=sys.stderr)


def _tell_failures(failures: tuple[str, ...]) -> int:
    """Say what failed; the exit code."""
    if not failures:
        return 0
    for line in failures[:MOST_FAILURES]:
        print(f"failed: {line}", file=sys.stderr)
    hidden = len(failures) - MOST_FAILURES
    more = f" ({hidden} more)" if hidden > 0 else ""
    complain(f"{len(failures)} results have no number{more}; --retry computes them again")
    return 1


@contextmanager
def _writing(parameter: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = error.strerror or str(error)
        raise InvalidParameter(parameter, "a file that can be written", str(path), hint) from None


sweep = attach(
    App(name="sweep", help="Grids of problems: run, come back to, plot and export them."),
    {
        "init": init,
        "run": run,
        "resume": run,
        "status": status,
        "export": export,
        "plot": plot,
        "repair": repair,
        "merge": merge,
    },
)
