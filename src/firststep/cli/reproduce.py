"""``firststep reproduce``: the figures of the papers, and ours."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from firststep.checks import choice
from firststep.cli.flags import Processes, several, switch
from firststep.cli.output import complain
from firststep.errors import InvalidParameter
from firststep.results import Interrupted
from firststep.sweep.executors import ThisMachine
from firststep.sweep.watching import Watch

FOLDER = Path("figures")


def reproduce(
    names: Annotated[list[str], several("figures, all, or list")],
    *,
    quick: Annotated[bool, switch("small sizes, about a minute each (the default)")] = False,
    full: Annotated[bool, switch("the papers' sizes and replicates: minutes to hours")] = False,
    out: Annotated[Path, Parameter(help="folder for pictures, tables and stores")] = FOLDER,
    workers: Processes = None,
    backend: Annotated[
        str | None, Parameter(help="numpy or jax; default: jax for --full if there is a GPU")
    ] = None,
) -> int:
    """Make figures of the papers, and ours: picture, PDF, data and verdict. ``firststep reproduce
    list`` lists them.

    Example: firststep reproduce ba-fig1 --out figures
    """
    # Loaded here: every figure, and the statistics of scipy, which no other command needs.
    from firststep.figures import catalogue
    from firststep.figures.core import make, resized

    if names == ["list"]:
        for name in catalogue.NAMES:
            figure = catalogue.figure(name)
            print(f"{name:<26}{figure.source}: {_plain(figure.title)}")
        return 0
    if quick and full:
        raise InvalidParameter("quick", "given without --full", "both")
    wanted = catalogue.NAMES if names == ["all"] else dict.fromkeys(names)
    chosen = [catalogue.figure(name) for name in wanted]
    apart = []
    for figure in chosen:
        machine = backend or ("jax" if full and _has_gpu() else "numpy")
        choice("backend", machine, ("numpy", "jax"))
        scale = figure.full if full else figure.quick
        if machine == "jax":
            scale = resized(scale, options={**scale.options, "backend": "jax"})
        executor = ThisMachine(1 if machine == "jax" else workers)
        with Watch() as watch:
            try:
                made = make(figure, out, scale, executor, watch)
            except KeyboardInterrupt:
                told = f"interrupted in {figure.name}: what is finished is in {out}"
                raise Interrupted(None, f"{told}; the same command continues") from None
        print(f"{figure.name} ({figure.source}): {made.verdict}")
        print("wrote " + ", ".join(str(path) for path in made.files))
        if not made.verdict.agrees:
            apart.append(figure.name)
    if apart:
        complain(f"theory and simulation disagree in {', '.join(apart)}")
    return 1 if apart else 0


def _plain(title: str) -> str:
    """A title without its TeX."""
    return re.sub(r"[$\\{}]", "", re.sub(r"\{(\w+)\}", r"(\1)", title))


def _has_gpu() -> bool:
    if importlib.util.find_spec("jax") is None:
        return False
    import jax

    try:
        return any(device.platform == "gpu" for device in jax.devices())
    except RuntimeError:
        return False
