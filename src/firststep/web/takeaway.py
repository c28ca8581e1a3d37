"""The question on the page as text to take away: Python, a command line, an experiment file.

All values are texts here, so that the single-file page can be given the same lines with places
for its numbers.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from firststep.web.asked import Networks, Take
from firststep.web.words import FIELDS

ORDER = tuple(name for name in FIELDS if name != "dimension")
TEXTS = tuple(name for name in ORDER if isinstance(FIELDS[name].default, str))


@dataclass(frozen=True)
class Question:
    """A problem and the axis along which it is looked at."""

    fields: Mapping[str, str]  # as given; alpha0 is left out where it follows alpha
    dimension: str  # "" at infinity
    axis: str
    ends: tuple[str, str, str]  # first, last, count
    scale: str
    networks: Networks | None = None

    @property
    def at(self) -> str:
        return ", ".join(shown(x) for x in self.networks.at) if self.networks else ""


def shown(value: float) -> str:
    return f"{value:.6g}"


def question(wanted: Take) -> Question:
    problem, told = wanted.problem, wanted.problem.to_dict()
    names = [name for name in ORDER if name != "alpha0" or "alpha0" in problem.model_fields_set]
    return Question(
        fields={n: str(told[n]) if n in TEXTS else shown(told[n]) for n in names},
        dimension="" if problem.dimension == float("inf") else str(int(problem.dimension)),
        axis=wanted.axis,
        ends=(shown(wanted.first), shown(wanted.last), str(wanted.points)),
        scale=wanted.scale,
        networks=wanted.simulate,
    )


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
        "  # curve.risk, curve.training_error, curve.gain, ...",
    ]
    if asked.networks is not None:
        size = ", ".join(f"{name}={value!r}" for name, value in _sizes(asked.networks).items())
        lines += [
            "networks = [",
            f"    firststep.simulate(problem.replace({asked.axis}=x), {size})",
            f"    for x in [{asked.at}]",
            "]",
            "print([network.risk for network in networks])",
        ]
    return "\n".join(lines) + "\n"


def _sizes(run: Networks) -> dict[str, int | str]:
    return {name: getattr(run, name) for name in ("dimension", "replicates", "seed", "model")}


def command(asked: Question) -> str:
    flags = " ".join(
        f"--{name.replace('_', '-')} {_safe(value)}" for name, value in asked.fields.items()
    )
    size = f" --dimension {asked.dimension}" if asked.dimension else ""
    lines = [f"firststep predict {flags}{size}"]
    if asked.networks is not None:
        size = " ".join(f"--{name} {value}" for name, value in _sizes(asked.networks).items())
        lines.append(f"firststep simulate {flags} {size}")
    return "\n".join(lines) + "\n"


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
    if name not in TEXTS:
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
