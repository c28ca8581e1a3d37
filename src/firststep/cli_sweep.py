"""The commands on sweeps and figures: ``firststep sweep ...`` and ``firststep reproduce``."""

from __future__ import annotations

import json
import re
import sys
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from firststep.errors import InvalidParameter, StoreError
from firststep.problem import choice
from firststep.results import Interrupted

sweep_app = App(name="sweep", help="Grids of problems: run, come back to, plot and export them.")

_Experiment = Annotated[
    Path, Parameter(help="TOML file of the experiment; firststep sweep init writes one")
]
_Store = Annotated[
    Path | None, Parameter(help="file of results; default: the experiment's name with .db")
]


def _flag(text: str) -> Parameter:
    return Parameter(help=text, negative=())


@sweep_app.command
def init(
    path: Annotated[Path, Parameter(help="where to write it")] = Path("experiment.toml"),
    *,
    force: Annotated[bool, _flag("replace a file that is there")] = False,
) -> int:
    """Write a commented example of an experiment."""
    if path.exists() and not force:
        raise InvalidParameter(
            "path", "a file that does not exist yet", str(path), "--force replaces it"
        )
    text = files("firststep.sweep").joinpath("example.toml").read_text(encoding="utf-8")
    try:
        path.write_text(text.replace("EXPERIMENT", str(path)), encoding="utf-8")
    except OSError as error:
        raise InvalidParameter(
            "path", "a file that can be written", str(path), error.strerror or ""
        ) from None
    print(f"wrote {path}; next: firststep sweep run {path}")
    return 0


@sweep_app.command
def run(
    experiment: _Experiment,
    *,
    store: _Store = None,
    workers: Annotated[
        str | None,
        Parameter(help="processes; default: as many as there are cores", allow_leading_hyphen=True),
    ] = None,
    shard: Annotated[
        str | None, Parameter(help="i/n: only the i-th of n parts of the work, for job arrays")
    ] = None,
    dask: Annotated[
        str | None,
        Parameter(help="address of a Dask scheduler, tcp://host:port, instead of this machine"),
    ] = None,
    retry: Annotated[bool, _flag("compute again what had no answer before")] = False,
) -> int:
    """Compute what is missing. What the store holds is not computed again, so the same command continues a sweep.

    Example: firststep sweep init ridge.toml && firststep sweep run ridge.toml && firststep sweep plot ridge.toml
    """
    from firststep.store import Store
    from firststep.sweep.run import advance, read
    from firststep.sweep.watching import Watch, text

    question = read(experiment)
    place = _place(experiment, store)
    print(question.describe(), file=sys.stderr)
    names = tuple(name for axis in question.axes for name in axis.values)
    state: dict[str, Any] = {}
    with Watch(names) as watch, Store(place) as opened:

        def keep(tally: Any) -> None:
            state["tally"] = tally
            watch(tally)

        try:
            done = advance(
                question, opened, workers=workers, dask=dask, shard=shard, retry=retry, watch=keep
            )
        except KeyboardInterrupt:
            told = text(state["tally"]) if "tally" in state else "nothing new"
            raise Interrupted(
                None, f"interrupted: {told} in {place}; the same command continues"
            ) from None
    print(f"{text(done.tally, names)}: {place}")
    return _failures(done.failures, place)


sweep_app.command(run, name="resume")


def _failures(failures: tuple[str, ...], place: Path, most: int = 20) -> int:
    if not failures:
        return 0
    for line in failures[:most]:
        print(f"failed: {line}", file=sys.stderr)
    more = f" ({len(failures) - most} more)" if len(failures) > most else ""
    print(
        f"error: {len(failures)} results have no number{more}; --retry computes them again",
        file=sys.stderr,
    )
    return 1


def _place(experiment: Path, store: Path | None) -> Path:
    return experiment.with_suffix(".db") if store is None else store


def _held(experiment: Path, store: Path | None) -> Any:
    """What the store holds of an experiment."""
    from firststep.store import Store
    from firststep.sweep.run import read, results

    question = read(experiment)
    with Store(_place(experiment, store), create=False) as place:
        return results(question, place)


@sweep_app.command
def status(
    experiment: _Experiment,
    *,
    store: _Store = None,
    json_: Annotated[
        bool, Parameter(name="--json", help="print one JSON object", negative=())
    ] = False,
) -> int:
    """Say how far a sweep is, and what failed. Exit code 1 if something failed."""
    from firststep.store import Store
    from firststep.sweep.run import read, standing

    question, place = read(experiment), _place(experiment, store)
    with Store(place, create=False) as opened:
        tally, failures = standing(question, opened)
    if json_:
        told = {
            "name": question.name,
            "wanted": tally.wanted,
            "finished": tally.finished,
            "failed": len(failures),
        }
        print(json.dumps({**told, "failures": list(failures), "store": str(place)}))
        return 1 if failures else 0
    print(
        f"{question.describe()}\n  {tally.finished} of {tally.wanted} results"
        + (f", {len(failures)} failed" if failures else "")
    )
    return _failures(failures, place)


@sweep_app.command
def export(
    experiment: _Experiment,
    *,
    store: _Store = None,
    csv: Annotated[Path | None, Parameter(help="write a CSV file, one row per result")] = None,
    parquet: Annotated[
        Path | None, Parameter(help="write a Parquet file, one row per result")
    ] = None,
    netcdf: Annotated[
        Path | None, Parameter(help="write a netCDF file with the axes as dimensions")
    ] = None,
) -> int:
    """Write the results to files."""
    if not (csv or parquet or netcdf):
        raise InvalidParameter(
            "export", "given one or more of --csv, --parquet, --netcdf", "nothing"
        )
    held = _held(experiment, store)
    for path, write in ((csv, held.to_csv), (parquet, held.to_parquet), (netcdf, held.to_netcdf)):
        if path is not None:
            try:
                write(path)
            except OSError as error:
                raise InvalidParameter(
                    "export", "a file that can be written", str(path), error.strerror or str(error)
                ) from None
            print(f"wrote {path}: {len(held.rows)} rows")
    if held.tally.finished < held.tally.wanted:
        print(
            f"note: the sweep is not complete: {held.tally.finished} of {held.tally.wanted} results",
            file=sys.stderr,
        )
    return 0


@sweep_app.command
def plot(
    experiment: _Experiment,
    *,
    store: _Store = None,
    x: Annotated[str | None, Parameter(help="axis to draw along; default: the longest one")] = None,
    y: Annotated[str, Parameter(help="risk, training_error, alignment, ...")] = "risk",
    where: Annotated[
        list[str] | None,
        Parameter(
            help="fix a field: --where ridge=0.01 step=2", consume_multiple=True, negative=()
        ),
    ] = None,
    out: Annotated[
        Path | None,
        Parameter(help="picture; .png, .pdf or .svg; default: the experiment's name with .png"),
    ] = None,
) -> int:
    """Draw a quantity along an axis: theory as lines, simulation as points with one standard error."""
    from firststep.figures import of_sweep

    fixed = {}
    for each in where or []:
        name, equal, value = each.partition("=")
        if not equal:
            raise InvalidParameter("where", "name=value", each)
        fixed[name.replace("-", "_")] = value
    target = experiment.with_suffix(".png") if out is None else out
    choice("out", target.suffix, (".png", ".pdf", ".svg"))
    held = _held(experiment, store)
    try:
        written = of_sweep.write(
            held, target, None if x is None else x.replace("-", "_"), y.replace("-", "_"), fixed
        )
    except OSError as error:
        raise InvalidParameter(
            "out", "a file that can be written", str(target), error.strerror or str(error)
        ) from None
    print(f"wrote {written}")
    return 0


@sweep_app.command
def repair(store: Annotated[Path, Parameter(help="a damaged file of results")]) -> int:
    """Save what can be read of a damaged store; the damaged file is kept beside it."""
    from firststep.store import repair as mend

    count, kept = mend(store)
    print(f"saved {count} results in {store}; the damaged file is {kept}")
    return 0


@sweep_app.command
def merge(
    store: Annotated[Path, Parameter(help="the store that receives the results")],
    others: Annotated[list[Path], Parameter(help="stores to copy from", consume_multiple=True)],
) -> int:
    """Bring the results of several stores, of a job array for instance, into one."""
    from firststep.store import Store

    missing = [path for path in others if not path.exists()]
    if missing:
        raise StoreError(f"there is no store {missing[0]}")
    with Store(store) as target:
        for path in others:
            print(f"{path}: {target.merge(path)} new results")
    return 0


def reproduce(
    names: Annotated[
        list[str], Parameter(help="figures, all, or list", consume_multiple=True, negative=())
    ],
    *,
    quick: Annotated[bool, _flag("small sizes, about a minute each (the default)")] = False,
    full: Annotated[bool, _flag("the papers' sizes and replicates: minutes to hours")] = False,
    out: Annotated[Path, Parameter(help="folder for pictures, tables and stores")] = Path(
        "figures"
    ),
    workers: Annotated[
        str | None,
        Parameter(help="processes; default: as many as there are cores", allow_leading_hyphen=True),
    ] = None,
    backend: Annotated[
        str | None, Parameter(help="numpy or jax; default: jax for --full if there is a GPU")
    ] = None,
) -> int:
    """Make figures of the papers, and ours: picture, PDF, data and verdict. ``firststep reproduce list`` lists them.

    Example: firststep reproduce ba-fig1 --out figures
    """
    from firststep.figures import catalogue
    from firststep.figures.core import make, resized
    from firststep.sweep.executors import ThisMachine
    from firststep.sweep.watching import Watch

    if names == ["list"]:
        for name in catalogue.NAMES:
            figure = catalogue.figure(name)
            print(f"{name:<26}{figure.source}: {_plain(figure.title)}")
        return 0
    if quick and full:
        raise InvalidParameter("quick", "given without --full", "both")
    chosen = [
        catalogue.figure(name)
        for name in (catalogue.NAMES if names == ["all"] else dict.fromkeys(names))
    ]
    apart = []
    for figure in chosen:
        scale = figure.full if full else figure.quick
        name = backend or ("jax" if full and _has_gpu() else "numpy")
        choice("backend", name, ("numpy", "jax"))
        if name == "jax":
            scale = resized(scale, options={**scale.options, "backend": "jax"})
        with Watch() as watch:
            try:
                made = make(figure, out, scale, ThisMachine(1 if name == "jax" else workers), watch)
            except KeyboardInterrupt:
                told = f"interrupted in {figure.name}: what is finished is in {out}; the same command continues"
                raise Interrupted(None, told) from None
        print(f"{figure.name} ({figure.source}): {made.verdict}")
        print("wrote " + ", ".join(str(path) for path in made.files))
        if not made.verdict.agrees:
            apart.append(figure.name)
    if apart:
        print(f"error: theory and simulation disagree in {', '.join(apart)}", file=sys.stderr)
    return 1 if apart else 0


def _plain(title: str) -> str:
    """A title without its TeX."""
    return re.sub(r"[$\\{}]", "", re.sub(r"\{(\w+)\}", r"(\1)", title))


def _has_gpu() -> bool:
    import jax

    try:
        return any(device.platform == "gpu" for device in jax.devices())
    except RuntimeError:
        return False
