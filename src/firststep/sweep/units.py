"""Units of work: what a worker computes in one go, and the records it makes.

A chunk of predictions is solved in one batch. A replicate of a simulation is run for all its ridge
values together. Either makes one record per problem with a single ridge, so that a grid that
changes finds again what it shares with the old one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from firststep.errors import FirststepError
from firststep.problem import Problem
from firststep.results import LOSSES
from firststep.simulation.kinds import MODELS
from firststep.simulation.running.simulate import PER_RIDGE, simulate
from firststep.store import DONE, LOST, REFUSED, Record, canonical, clean, key_of
from firststep.theory.one_step.predict import predict
from firststep.theory.one_step.prediction import Prediction
from firststep.theory.one_step.question import NUMERIC

# Raised when a change of the code changes its numbers: old results are then computed again.
THEORY_REVISION, SIMULATION_REVISION = 2, 1
CHUNK = 64  # predictions solved together: most of the gain of a batch, little lost on a fault
PREDICTED = (
    "risk",
    "training_error",
    "random_features_risk",
    "gain",
    "kernel_lower_bound",
    "alignment",
    "gradient_norm",
    "spike_strength",
    "bulk_variance",
    "degrees_of_freedom",
    "quadrature_error",
    "model_error",
    "residual",
    "iterations",
)


class Wanted(NamedTuple):
    """One result somebody wants: the identity of a record."""

    problem: str
    computation: str
    replicate: int

    @property
    def key(self) -> str:
        return key_of(*self)

    def record(self, status: str, reason: str = "", **found: object) -> Record:
        """What became of it; ``found``: numbers, arrays and seconds, as in ``Record``."""
        empty: dict[str, Any] = dict(numbers={}, arrays={})
        return Record(**self._asdict(), status=status, reason=reason, **{**empty, **found})


def identity(problem: Problem) -> str:
    """The canonical text of a problem with a single ridge."""
    return canonical(problem.to_dict())


@dataclass(frozen=True)
class Predictions:
    """Problems that differ only in numbers, each with a single ridge, solved in one batch."""

    problems: tuple[Problem, ...]
    bulk: str = "exact"

    @property
    def computation(self) -> str:
        return canonical({"verb": "predict", "bulk": self.bulk, "revision": THEORY_REVISION})

    @cached_property
    def wanted(self) -> tuple[Wanted, ...]:
        return tuple(Wanted(identity(problem), self.computation, 0) for problem in self.problems)

    def records(self) -> list[Record]:
        begin = time.perf_counter()
        try:
            found = self._together()
        except FirststepError as error:
            if len(self.problems) > 1:  # one of them is at fault: each by itself
                return [
                    record
                    for problem in self.problems
                    for record in Predictions((problem,), self.bulk).records()
                ]
            passed = time.perf_counter() - begin
            return [self.wanted[0].record(REFUSED, _line(error), seconds=passed)]
        seconds = (time.perf_counter() - begin) / len(self.problems)
        return [
            wanted.record(REFUSED if reason else DONE, reason, numbers=numbers, seconds=seconds)
            for wanted, (numbers, reason) in zip(self.wanted, found, strict=True)
        ]

    def _together(self) -> list[tuple[dict[str, float | None], str]]:
        found = solve_together(self.problems, self.bulk)
        names = PREDICTED if found.problem.is_plain else (*PREDICTED, *LOSSES)
        columns = {name: np.broadcast_to(getattr(found, name), found.shape) for name in names}
        answers: list[tuple[dict[str, float | None], str]] = []
        residuals = np.ravel(found.residual)
        for status, residual, *values in zip(
            found.status, residuals, *columns.values(), strict=True
        ):
            if status == "converged":
                named = zip(columns, values, strict=True)
                answers.append(({name: clean(value) for name, value in named}, ""))
            else:
                told = f"{status}: residual {residual:.1e}, no number is returned"
                answers.append(({}, told))
        return answers


def alike(problems: Iterable[Problem]) -> dict[str, list[int]]:
    """The places of problems that differ only in numbers, by what they have in common."""
    groups: dict[str, list[int]] = {}
    for place, problem in enumerate(problems):
        rest = {name: value for name, value in problem.to_dict().items() if name not in NUMERIC}
        groups.setdefault(canonical(rest), []).append(place)
    return groups


def solve_together(problems: Sequence[Problem], bulk: str, neurons: object = "auto") -> Prediction:
    """Problems that differ only in numbers, in one batch."""
    fields = {name: np.array([getattr(problem, name) for problem in problems]) for name in NUMERIC}
    return predict(problems[0], bulk=bulk, neurons=neurons, **fields)


@lru_cache(maxsize=4096)
def _identities(problem: Problem) -> tuple[str, ...]:
    """The canonical text of a problem at each of its ridge values."""
    table = problem.to_dict()
    return tuple(canonical({**table, "ridge": ridge}) for ridge in problem.ridges)


@lru_cache(maxsize=4096)
def _simulation(model: str, seed: int, options: tuple[tuple[str, Any], ...]) -> str:
    told = {"verb": "simulate", "model": model, "seed": seed, "revision": SIMULATION_REVISION}
    return canonical({**dict(options), **told})


@lru_cache(maxsize=4096)
def _without_step(problem: Problem, model: str) -> Problem:
    """The problem as its model sees it: whatever the step for models that take none."""
    return problem if MODELS[model].has_step else problem.replace(step=0.0, alpha0=problem.alpha)


@dataclass(frozen=True)
class Replicate:
    """One replicate of a simulation, at one or several ridge values."""

    problem: Problem  # with a finite dimension
    model: str
    seed: int
    replicate: int
    options: Mapping[str, Any] = field(default_factory=dict)
    kept: frozenset[float] | None = None  # the ridge values whose records are wanted; None: all

    @property
    def computation(self) -> str:
        return _simulation(self.model, self.seed, tuple(sorted(self.options.items())))

    @property
    def wanted(self) -> tuple[Wanted, ...]:
        computation = self.computation
        texts = _identities(_without_step(self.problem, self.model))
        return tuple(Wanted(texts[place], computation, self.replicate) for place in self._places)

    @property
    def _places(self) -> list[int]:
        """Of the ridge values whose records are wanted."""
        ridges = self.problem.ridges
        return [place for place, r in enumerate(ridges) if self.kept is None or r in self.kept]

    def only(self, ridges: Iterable[float]) -> Replicate:
        """The same replicate with the records of some ridge values.

        All of them are computed: how a ridge path is solved depends on its length, and the last
        digits with it. So a result is the same to the bit whatever was there before.
        """
        return replace(self, kept=frozenset(ridges))

    def records(self) -> list[Record]:
        begin = time.perf_counter()
        try:
            found = simulate(
                _without_step(self.problem, self.model),
                replicates=1,
                seed=self.seed,
                model=self.model,
                first_replicate=self.replicate,
                workers=1,
                **self.options,
            )
        except FirststepError as error:
            passed = time.perf_counter() - begin
            return [each.record(REFUSED, _line(error), seconds=passed) for each in self.wanted]
        seconds = (time.perf_counter() - begin) / len(self.wanted)
        several = isinstance(self.problem.ridge, tuple)
        records = []
        for place, wanted in zip(self._places, self.wanted, strict=True):
            numbers: dict[str, float | None] = {}
            arrays: dict[str, Any] = {}
            for name, values in found.measurements.items():
                one = values[0][place] if several and name in PER_RIDGE else values[0]
                if np.ndim(one) == 0:
                    numbers[name] = clean(float(one))
                else:
                    arrays[name] = [clean(each) for each in np.ravel(one)]
            numbers["kernel_lower_bound"] = clean(found.kernel_lower_bound)
            records.append(wanted.record(DONE, numbers=numbers, arrays=arrays, seconds=seconds))
        return records


Unit = Predictions | Replicate


def _line(error: BaseException) -> str:
    return "; ".join(str(error).splitlines())


def compute(unit: Unit) -> list[Record]:
    """The records of a unit; nothing it does can end the sweep."""
    try:
        return unit.records()
    except MemoryError:
        reason, status = "out of memory", LOST
    except Exception as error:  # a fault of ours: kept with its name, the others go on
        reason, status = f"{type(error).__name__}: {_line(error)}", REFUSED
    return [wanted.record(status, reason) for wanted in unit.wanted]


def lost(unit: Unit, reason: str) -> list[Record]:
    """The records of a unit whose worker died."""
    return [wanted.record(LOST, reason) for wanted in unit.wanted]


def predictions(problems: Iterable[Problem], bulk: str = "exact") -> Iterator[Predictions]:
    """Problems in chunks, those that differ only in numbers together."""
    asked = list(problems)
    for places in alike(asked).values():
        for first in range(0, len(places), CHUNK):
            chunk = places[first : first + CHUNK]
            yield Predictions(tuple(asked[place] for place in chunk), bulk)


def remaining(
    units: Iterable[Unit], statuses: Mapping[str, str], retry: bool = False
) -> list[Unit]:
    """The units with something left to do.

    What is done, has no answer (unless ``retry``) or is in an earlier unit is left out.
    """
    finished = {DONE} if retry else {DONE, REFUSED}
    left: list[Unit] = []
    claimed: set[str] = set()
    for unit in units:
        keys = [wanted.key for wanted in unit.wanted]
        missing = [key not in claimed and statuses.get(key) not in finished for key in keys]
        if not any(missing):
            continue
        claimed.update(keys)
        if isinstance(unit, Replicate) and not all(missing):
            pairs = zip(unit.problem.ridges, missing, strict=True)
            unit = unit.only(ridge for ridge, is_missing in pairs if is_missing)
        left.append(unit)
    return left


def describe(record: Record) -> str:
    """A record in words, for a list of failures."""
    problem, computation = json.loads(record.problem), json.loads(record.computation)
    who = computation.get("model") or f"theory ({computation['bulk']} bulk)"
    which = f", replicate {record.replicate}" if computation["verb"] == "simulate" else ""
    numbers = ", ".join(
        f"{name} {problem[name]:g}"
        for name in ("alpha", "beta", "alpha0", "step", "ridge", "noise")
    )
    question = f"{problem['student']} learns {problem['teacher']}, {numbers}"
    return f"{who}{which}: {question}, d {problem['dimension']}: {record.reason}"
