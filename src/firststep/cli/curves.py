"""What predict, simulate and compare do with flags that have several values."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from firststep.cli.flags import Options, ProblemFlags
from firststep.cli.output import complain, show_and_draw
from firststep.curves import Curves, Question, along_ridges, asked
from firststep.errors import InvalidParameter
from firststep.figures import curves as drawing
from firststep.figures.spectra import prepare
from firststep.problem import Problem

# What is answered where nothing is asked, or only numbers.
README = {
    "student": "tanh",
    "teacher": "sin",
    "alpha": "3",
    "beta": "1",
    "alpha0": "20",
    "step": "3",
    "ridge": "0.0333",
    "readout": "ones",
    "dimension": "500",
}
Out = Annotated[
    Path | None,
    Parameter(
        help="draw the curves: a .png, .pdf or .svg file, with its data as .csv beside it; "
        "a flag has several values (0,1,3 or 0.3..10:30)"
    ),
]


def question_of(problem: ProblemFlags, out: Path | None) -> Problem | Question:
    """One problem, or curves, where something is to be drawn or flags have several values."""
    given = problem.given()
    if not given.keys() & {"student", "teacher"}:
        rest = {name: value for name, value in README.items() if name not in given}
        told = shlex.join(word for name, value in rest.items() for word in (f"--{name}", value))
        whose = "no student and teacher given: the rest is" if given else "no problem given:"
        print(f"{whose} that of the README, {told}", file=sys.stderr)
        given = rest | given
    question = asked(given)
    if out is None:
        return question
    prepare(out)
    found = along_ridges(question) if isinstance(question, Problem) else question
    if found is None:
        hint = "give one flag several values: --alpha 0.3..10:30"
        raise InvalidParameter("out", "asked of a curve", str(out), hint)
    return found


def changed(options: Mapping[str, Any], *defaults: Options) -> dict[str, Any]:
    """The options that are not at their defaults."""
    usual: dict[str, Any] = {}
    for each in defaults:
        usual |= each.options()
    return {name: value for name, value in options.items() if value != usual[name]}


def command(verb: str, problem: ProblemFlags, options: Mapping[str, Any]) -> str:
    """The command line, with all that a problem file had."""
    words = ["firststep", verb]
    for name, value in {**problem.given(), **options}.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif value is not None and value is not False:
            several = value if isinstance(value, list | tuple) else [value]
            words += [flag, *map(str, several)]
    return shlex.join(words)


def show_curves(found: Curves, out: Path | None, json: bool, made_by: str) -> int:
    """The table, the picture and the exit code."""
    show_and_draw(found, json, out, lambda path: drawing.write(found, path, made_by))
    if all(point.status in ("", "converged") for point in found.points):
        return 0
    complain("some points could not be solved: their status says why, and they have no number")
    return 1
