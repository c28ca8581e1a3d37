"""Curves: one problem with several values of one field, or of two, from the command line.

The field with most values is the axis of the curve, the other one tells the curves apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from firststep.compare import BULKS, at_size
from firststep.errors import InvalidParameter, NotConverged
from firststep.problem import Problem
from firststep.results import Interrupted, Shown, plain, versions, with_error
from firststep.simulation.running.simulate import simulate
from firststep.sweep.units import alike, solve_together
from firststep.writing import write_csv

FIELDS = ("alpha", "beta", "alpha0", "step", "ridge", "noise", "flip", "threshold", "step_exponent")
WHOLE = ("dimension",)
MOST = 10_000  # values of one field
TOLD = ("seed", "replicates", "model")  # of a simulation, in what is written
SYNTAX = (
    "numbers such as 0,1,3, or a range such as 0.3..10:30 (on a log scale; from 0 or below evenly)"
)
Values = tuple[float, ...]


class Question(NamedTuple):
    """A problem, and the fields that have several values."""

    problem: Problem  # at the first of them
    axis: str
    values: Values
    by: str | None = None
    by_values: Values = ()

    @property
    def size(self) -> int:
        """How many points."""
        return len(self.values) * max(1, len(self.by_values))

    @property
    def curves(self) -> list[tuple[float | None, list[Problem]]]:
        """For every value of ``by`` the problems along the axis."""
        found = []
        for value in self.by_values or (None,):
            base = self.problem if self.by is None else self.problem.replace(**{self.by: value})
            found.append((value, [base.replace(**{self.axis: each}) for each in self.values]))
        return found


def asked(given: Mapping[str, Any]) -> Problem | Question:
    """What the fields of a problem ask, given as texts: one problem, or curves."""
    several = {name: found for name in (*FIELDS, *WHOLE) if (found := _several(name, given))}
    moved = [name for name in several if name != "ridge"]
    if not moved:
        return Problem(**given)
    if len(several) > 2:
        allowed = "two fields with several values at most: an axis and the curves"
        raise InvalidParameter(list(several)[2].replace("_", "-"), "one number", "several", allowed)
    axis, *others = sorted(several, key=lambda name: -len(several[name]))
    first = {name: values[0] for name, values in several.items()}
    problem = Problem(**{**given, **first})
    by = others[0] if others else None
    question = Question(problem, axis, several[axis], by, several[by] if by else ())
    for _, problems in question.curves:  # every fault before any work
        _refuse_same(axis, problems)
    return question


def along_ridges(problem: Problem) -> Question | None:
    """Several ridges as a curve."""
    if len(problem.ridges) < 2:
        return None
    return Question(problem.replace(ridge=problem.ridges[0]), "ridge", problem.ridges)


def _refuse_same(axis: str, problems: Sequence[Problem]) -> None:
    values = [getattr(problem, axis) for problem in problems]
    for place, value in enumerate(values):
        if value in values[:place]:
            raise InvalidParameter(axis.replace("_", "-"), "different values", f"{value:g} twice")


def _several(name: str, given: Mapping[str, Any]) -> Values:
    """The values of a field that has several; none where it has one."""
    source = given.get(name)
    if isinstance(source, list | tuple):  # the ridge's flag takes one text or more
        source = ",".join(str(each) for each in source)
    if not isinstance(source, str):
        return ()
    parts = [part for part in source.replace(",", " ").split() if part]
    if len(parts) < 2 and ".." not in source:
        return ()
    if any(part[-1] in ".:" or part[0] in ".:" for part in parts if ".." not in part):
        raise _fault(name, source)
    return tuple(value for part in parts for value in _part(name, part, source))


def _part(name: str, part: str, source: str) -> Values:
    if ".." not in part:
        try:
            value = float(part)
        except ValueError:
            raise _fault(name, source) from None
        is_known = math.isfinite(value) or (name in WHOLE and value == math.inf)
        if not is_known or (name in WHOLE and value % 1 != 0 and value != math.inf):
            raise _fault(name, source)
        return (value,)
    try:
        ends, count_text = part.split(":")
        low, high = (float(end) for end in ends.split(".."))
        count = int(count_text)
    except ValueError:
        raise _fault(name, source) from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high) or not 2 <= count <= MOST:
        hint = f"a range needs first < last and 2 to {MOST} values"
        raise InvalidParameter(name.replace("_", "-"), SYNTAX, source, hint)
    spaced = np.geomspace(low, high, count) if low > 0 else np.linspace(low, high, count)
    if name in WHOLE:
        spaced = np.unique(np.round(spaced))
    return tuple(float(f"{value:.12g}") for value in spaced)


def _fault(name: str, source: str) -> InvalidParameter:
    return InvalidParameter(name.replace("_", "-"), SYNTAX, source)


class Point(NamedTuple):
    """One place of one curve: what theory and networks say; nan where one was not asked."""

    value: float
    by: float | None
    theory: float
    model_error: float
    simulated: float
    standard_error: float
    status: str

    @property
    def z(self) -> float:
        """Difference over the standard error of the simulation."""
        return (self.theory - self.simulated) / self.standard_error if self.standard_error else 0.0


@dataclass(frozen=True, eq=False, repr=False)
class Curves(Shown):
    """The risk (the error rate of binary labels) along a field, of theory, networks or both."""

    question: Question
    points: tuple[Point, ...]
    options: Mapping[str, Any]  # of the simulation: seed, replicates, model
    has_theory: bool
    has_networks: bool
    interrupted: bool = False

    @property
    def measure(self) -> str:
        return "error_rate" if self.question.problem.labels.is_binary else "risk"

    @property
    def title(self) -> str:
        problem, question = self.question.problem, self.question
        along = f"along {question.axis} at {len(question.values)} values"
        kinds = [
            word
            for word, there in (("theory", self.has_theory), ("networks", self.has_networks))
            if there
        ]
        told = f"{problem.student} learns {problem.teacher}"
        return f"{self.measure.replace('_', ' ')} ({', '.join(kinds)}): {told}, {along}"

    @property
    def head(self) -> Sequence[str]:
        by = [self.question.by] if self.question.by else []
        words = [*by, self.question.axis]
        if self.has_theory:
            words += ["theory", "±"]
        if self.has_networks:
            words.append("networks")
        if self.has_theory and self.has_networks:
            words.append("z")
        return [*words, "status"] if self.has_theory else words

    def rows(self) -> Iterator[tuple[str, ...]]:
        for point in self.points:
            cells = [] if self.question.by is None else [f"{point.by:g}"]
            cells.append(f"{point.value:.6g}")
            if self.has_theory:
                cells += [f"{point.theory:.6g}", f"{point.model_error:.2g}"]
            if self.has_networks:
                cells.append(with_error(point.simulated, point.standard_error))
            if self.has_theory and self.has_networks:
                cells.append(f"{point.z:+.1f}" if math.isfinite(point.z) else "-")
            yield tuple([*cells, point.status] if self.has_theory else cells)

    def notes(self) -> Iterator[str]:
        if self.interrupted:
            yield "interrupted: only the finished points are shown"

    def to_dict(self) -> dict[str, Any]:
        """Plain values fit for JSON."""
        question = self.question
        table = {
            name: [plain(getattr(point, name)) for point in self.points] for name in self._told
        }
        return {
            "problem": question.problem.to_dict(),
            "quantity": self.measure,
            "axis": question.axis,
            question.axis: [plain(point.value) for point in self.points],
            **({question.by: [plain(p.by) for p in self.points]} if question.by else {}),
            **table,
            "status": [point.status for point in self.points],
            "options": dict(self.options),
            "versions": versions(),
        }

    @property
    def _told(self) -> list[str]:
        """The numbers of a point that there are."""
        theory = ["theory", "model_error"] if self.has_theory else []
        return theory + (["simulated", "standard_error"] if self.has_networks else [])

    def to_csv(self, path: Path) -> Path:
        """One row a point."""
        by = [self.question.by] if self.question.by else []
        lines: list[list[object]] = [[*by, self.question.axis, *self._told, "status"]]
        for point in self.points:
            first = [point.by] if by else []
            numbers = (getattr(point, name) for name in self._told)
            lines.append([*first, point.value, *map(_cell, numbers), point.status])
        write_csv(path, lines)
        return path


def _cell(value: float) -> float | None:
    return value if math.isfinite(value) else None


def predicted(question: Question, bulk: str = "exact", neurons: object = "auto") -> Curves:
    """The theory of all points; one that cannot be solved says so in its status."""
    points: list[Point] = []
    for by, problems in question.curves:
        found = _theory(problems, bulk, neurons)
        for value, (number_, error, status) in zip(question.values, found, strict=True):
            points.append(Point(value, by, number_, error, math.nan, math.nan, status))
    return Curves(question, tuple(points), {"bulk": bulk}, has_theory=True, has_networks=False)


def _theory(
    problems: Sequence[Problem], bulk: str, neurons: object = "auto"
) -> list[tuple[float, float, str]]:
    """Number, finite-size error and status of each problem, those alike in one batch."""
    found: list[tuple[float, float, str]] = [(math.nan, math.nan, "")] * len(problems)
    for places in alike(problems).values():
        some = [problems[place] for place in places]
        result = solve_together(some, bulk, neurons)
        rate = result.problem.labels.is_binary
        numbers = np.ravel(result.error_rate if rate else result.risk)
        errors = np.ravel(result.error_rate_model_error if rate else result.model_error)
        for place, *each in zip(places, numbers, errors, np.ravel(result.status), strict=True):
            found[place] = (float(each[0]), float(each[1]), str(each[2]))
    return found


def compared(question: Question, *, model: str = "network", **options: Any) -> Curves:
    """Networks and the theory of their size at every point."""
    if model not in BULKS:
        hint = "the theory describes only these; simulate runs the others"
        raise InvalidParameter("model", "one of " + ", ".join(BULKS), model, hint)

    def theory(problem: Problem) -> Problem:
        return at_size(problem, None, model)

    return simulated(question, theory=theory, bulk=BULKS[model], model=model, **options)


def simulated(
    question: Question,
    *,
    theory: Callable[[Problem], Problem] | None = None,
    bulk: str = "exact",
    **options: Any,
) -> Curves:
    """Networks at every point, and beside them the theory of the problem that ``theory`` makes of
    it. Ctrl-C raises ``Interrupted`` with the points that are finished.
    """
    places = [
        (by, value, problem)
        for by, some in question.curves
        for value, problem in zip(question.values, some, strict=True)
    ]
    known: dict[str, Any] = {name: options[name] for name in TOLD if name in options}
    made = partial(Curves, question, options=known, has_networks=True)
    made = partial(made, has_theory=theory is not None)
    points: list[Point] = []
    for done, (by, value, problem) in enumerate(places):
        try:
            run = simulate(problem, **options)
        except (Interrupted, KeyboardInterrupt):
            left = f"interrupted: {done} of {len(places)} points are finished"
            raise Interrupted(made(tuple(points), interrupted=True), left) from None
        except NotConverged as fault:
            raise NotConverged(f"at {question.axis} = {value:g}: {fault}") from None
        measured = run.error_rate if problem.labels.is_binary else run.risk
        mean, error = (np.ravel(each)[0] for each in (measured.mean, measured.standard_error))
        numbers = (math.nan, math.nan, "")
        if theory is not None:
            (numbers,) = _theory([theory(problem)], bulk)
        measure = {"simulated": float(mean), "standard_error": float(error)}
        points.append(Point(value, by, numbers[0], numbers[1], status=numbers[2], **measure))
    return made(tuple(points))
