"""The question on the page as text to take away: Python, a command line, an experiment file.

All values are texts here, so that the single-file page can be given the same lines with places
for its numbers.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import starmap

from firststep.problem import Problem
from firststep.web.asked import Networks, Take
from firststep.web.meaning import offered
from firststep.web.words import FIELDS, QUANTITIES

ORDER = tuple(name for name in FIELDS if name != "dimension")
TEXTS = tuple(name for name in ORDER if isinstance(FIELDS[name].default, str))
SWITCHES = tuple(name for name in ORDER if FIELDS[name].kind == "switch")
MOST_NAMED = 3  # quantities of a curve that the program names


@dataclass(frozen=True)
class Question:
    """A problem and the axis along which it is looked at."""

    # As given; alpha0 is left out where it follows alpha, and what came later at its default.
    fields: Mapping[str, str]
    dimension: str  # "" at infinity
    axis: str
    ends: tuple[str, str, str]  # first, last, count
    scale: str
    quantities: tuple[str, ...]  # those of the problem, the first the one it is about
    networks: Networks | None = None

    @property
    def at(self) -> str:
        return ", ".join(shown(x) for x in self.networks.at) if self.networks else ""


def shown(value: float) -> str:
    return f"{value:.6g}"


def question(wanted: Take) -> Question:
    problem, told = wanted.problem, texts_of(wanted.problem)
    if "alpha0" not in problem.model_fields_set:
        del told["alpha0"]
    return Question(
        fields=told,
        dimension="" if problem.dimension == float("inf") else str(int(problem.dimension)),
        axis=wanted.axis,
        ends=(shown(wanted.first), shown(wanted.last), str(wanted.points)),
        scale=wanted.scale,
        quantities=tuple(offered(QUANTITIES, problem)),
        networks=wanted.simulate,
    )


def texts_of(problem: Problem) -> dict[str, str]:
    """The fields as Python writes them, texts without their quotes."""
    told = problem.to_dict()
    plain = (*TEXTS, *SWITCHES)
    return {n: str(told[n]) if n in plain else shown(told[n]) for n in ORDER if n in told}


def texts(asked: Question) -> dict[str, str]:
    return {"python": python(asked), "command": command(asked), "toml": toml(asked)}


def python(asked: Question) -> str:
    given = [
        f"{name}={value!r}" if name in TEXTS else f"{name}={value}"
        for name, value in asked.fields.items()
    ]
    given += [f"dimension={asked.dimension}"] if asked.dimension else []
    function = "geomspace" if asked.scale == "log" else "linspace"
    lines = [
        "import numpy as np",
        "",
        "import firststep",
        "",
        "problem = firststep.Problem(",
        *(f"    {each}," for each in given),
        ")",
        "print(firststep.predict(problem))",
        f"{asked.axis} = np.{function}({', '.join(asked.ends)})",
        f"curve = firststep.predict(problem, {asked.axis}={asked.axis})"
        f"  # {', '.join(f'curve.{name}' for name in asked.quantities[:MOST_NAMED])}, ...",
    ]
    if asked.networks is not None:
        size = ", ".join(f"{name}={value!r}" for name, value in _sizes(asked.networks).items())
        lines += [
            "networks = [",
            f"    firststep.simulate(problem.replace({asked.axis}=x), {size})",
            f"    for x in [{asked.at}]",
            "]",
            f"print([network.{asked.quantities[0]} for network in networks])",
        ]
    return "\n".join([*lines, *_plotted(asked)]) + "\n"


def _plotted(asked: Question) -> list[str]:
    """The curve as a picture, networks with one standard error."""
    shown_quantity = asked.quantities[0]
    along = asked.axis
    lines = [
        "",
        "import matplotlib.pyplot as plt  # pip install 'firststep[plot]'",
        "",
        "figure, axes = plt.subplots()",
        f'axes.plot({along}, curve.{shown_quantity}, label="one step, exact theory")',
    ]
    if asked.networks is not None:
        measured = f"network.{shown_quantity}"
        lines += [
            "axes.errorbar(",
            f"    [{asked.at}],",
            f"    [{measured}.mean for network in networks],",
            f"    [{measured}.standard_error for network in networks],",
            f'    fmt="o", label="{asked.networks.model}, d = {asked.networks.dimension}",',
            ")",
        ]
    lines += [f'axes.set_xscale("{asked.scale}")']
    if QUANTITIES[shown_quantity].scale == "log":
        lines.append('axes.set_yscale("log")')
    return [
        *lines,
        f'axes.set_xlabel("{along}")',
        f'axes.set_ylabel("{QUANTITIES[shown_quantity].label}")',
        "axes.legend()",
        'figure.savefig("curve.png", dpi=200)',
    ]


def _sizes(run: Networks) -> dict[str, int | str]:
    return {name: getattr(run, name) for name in ("dimension", "replicates", "seed", "model")}


def command(asked: Question) -> str:
    flags = " ".join(starmap(_flag, asked.fields.items()))
    size = f" --dimension {asked.dimension}" if asked.dimension else ""
    lines = [f"firststep predict {flags}{size}"]
    if asked.networks is not None:
        size = " ".join(f"--{name} {value}" for name, value in _sizes(asked.networks).items())
        lines.append(f"firststep simulate {flags} {size}")
    return "\n".join(lines) + "\n"


def _flag(name: str, value: str) -> str:
    """A switch that is off is left out, and so is no flag at all."""
    flag = f"--{name.replace('_', '-')}"
    return flag if name in SWITCHES else f"{flag} {_safe(value)}"


def _safe(value: str) -> str:
    return value if value.startswith("{") else shlex.quote(value)


def toml(asked: Question) -> str:
    run = asked.networks
    lines = [f"seed = {run.seed if run else 0}", "", "[problem]"]
    lines += [
        f"{name} = {_basic(name, value)}"
        for name, value in asked.fields.items()
        if name != asked.axis
    ]
    spacing = "logspace" if asked.scale == "log" else "linspace"
    values = f"[{asked.at}]" if run else f"{{ {spacing} = [{', '.join(asked.ends)}] }}"
    lines += [
        "",
        "[axes]",
        f"{asked.axis} = {values}",
        "",
        "[predict]",
        f"dimension = [{asked.dimension or 'inf'}]",
    ]
    if run is not None:
        lines += [
            "",
            "[simulate]",
            f'models = ["{run.model}"]',
            f"dimension = [{run.dimension}]",
            f"replicates = {run.replicates}",
        ]
    return "\n".join(lines) + "\n"


def _basic(name: str, value: str) -> str:
    """A TOML value; texts have no control characters, which the parser of expressions refuses."""
    if name in SWITCHES:
        return value.lower()
    if name not in TEXTS:
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
