"""``advise``: one table, one question, all the evidence in turn."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep.advice.direction import find_direction
from firststep.advice.learning_curve import learning_curve
from firststep.advice.matched import Matched, Trust, judge_inputs, match_problem
from firststep.advice.measured import NO_STEP, ONE_STEP, fit_count, measure
from firststep.advice.recommended import Chosen, choose, recommend
from firststep.advice.record import Advice
from firststep.advice.report import check_path, write_report
from firststep.advice.tables import FEWEST_ROWS, Table, make_plan, read_table
from firststep.advice.verdict import Evidence, decide
from firststep.checks import whole
from firststep.results import versions

if TYPE_CHECKING:
    from firststep.typing import Array, Float

WIDTH = 256  # of the networks that are measured
CURVE_FITS = 4  # of the learning curve: two models, a half and a quarter of the rows
STAGES = 4  # direction, inputs, matched problem, recommendation


class _Bar:
    """Counts what is finished."""

    def __init__(self, progress: Callable[[int, int], None] | None, total: int) -> None:
        self._progress, self._total, self._finished = progress, total, 0

    def __call__(self) -> None:
        self._finished += 1
        if self._progress is not None:
            self._progress(min(self._finished, self._total), self._total)


def advise(
    X: Any,
    y: Any = None,
    *,
    target: str | int | None = None,
    drop: Any = (),
    rows: int | None = None,
    width: int = WIDTH,
    seed: int = 0,
    report: str | Path | None = None,
    announce: Callable[[str], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Advice:
    """Would a step of feature learning help on these data, by how much, and if not, why?

    Every risk is measured on rows held out from all choices; intervals are at 95 %. docs/advise.md
    says what each number is, and how often the intervals hold.

    Args:
        X: a table of numbers: an array of samples x columns, a data frame, or a file (.csv,
            .parquet, .npy).
        y: the target, one number for every row; or none, and ``target``.
        target: the column of X that is the target: its name, or its place from 1 (-1: the last).
        drop: columns to leave out, by name or place; several in a list or between commas.
        rows: how many rows, drawn at random, are looked at: by default all up to 20 000, fewer of
            more than a thousand columns. All rows are read once, in pieces.
        width: neurons of the networks that are measured.
        seed: of folds, weights and samples of rows.
        report: an .html file to write, with pictures inside; needs matplotlib.
        announce: called with one line, what is going to be read and the memory it takes, before
            anything is read.
        progress: called with the number of parts finished and their total.

    Returns:
        An ``Advice``: ``answer`` (yes or no), ``sentence``, ``causes``, ``reasons``, the numbers
        they rest on, ``to_dict()``, ``report(path)`` and ``figure()``.
    """
    begin = time.perf_counter()
    seed, width = whole("seed", seed, 0, 2**31 - 1000), whole("width", width, 2, 10**5)
    most = None if rows is None else whole("rows", rows, FEWEST_ROWS, 10**7)
    plan = make_plan(X, y, target, drop, rows=most, width=width)
    path = None if report is None else check_path(report)
    if announce is not None:
        announce(str(plan))
    table = read_table(plan, seed=seed)
    options = {"seed": seed, "width": width}
    found = _advised(table, progress, width=width, seed=seed, begin=begin, options=options)
    if path is not None:
        write_report(found, path)
    return found


def _advised(
    table: Table,
    progress: Callable[[int, int], None] | None,
    *,
    width: int,
    seed: int,
    begin: float,
    options: dict[str, Any],
) -> Advice:
    n = len(table.target)
    bar = _Bar(progress, fit_count(*table.inputs.shape) + CURVE_FITS + STAGES)
    measured = measure(table.inputs, table.target, width=width, seed=seed, done=bar)
    x, y = _standard(table.inputs), _standard(table.target)
    direction = find_direction(x, y, width=width, seed=seed)
    bar()
    trust = judge_inputs(x, seed=seed)
    bar()
    chosen = choose(x, y, measured.steps_chosen, width=width, seed=seed)
    recommended = recommend(x, y, measured, chosen, width=width, seed=seed)
    bar()
    matched, why = _matched(x, y, trust, chosen, width=width, seed=seed)
    bar()
    risks = {name: risk.scaled(1 / measured.variance) for name, risk in measured.risks.items()}
    step = chosen[ONE_STEP].step
    curve = learning_curve(
        x, y, direction, risks=risks, step=step, width=width, seed=seed, done=bar
    )
    evidence = Evidence(
        rows=n,
        columns=table.columns,
        target=table.target_name,
        measured=measured,
        direction=direction,
        trust=trust,
        matched=matched,
        recommended=recommended,
        curve=curve,
    )
    return Advice(
        name=Path(table.name).name,  # no folders of a machine in what is handed on
        target=table.target_name,
        rows=n,
        total_rows=table.total_rows,
        columns=table.columns,
        verdict=decide(evidence),
        measured=measured,
        direction=direction,
        trust=trust,
        matched=matched,
        matched_reason=why,
        recommended=recommended,
        curve=curve,
        notes_on_data=table.notes,
        warnings=table.warnings,
        options=options,
        seconds=time.perf_counter() - begin,
        versions=versions("scikit-learn"),
    )


def _matched(
    x: Float[Array, "n d"],
    y: Float[Array, " n"],
    trust: Trust,
    chosen: dict[str, Chosen],
    *,
    width: int,
    seed: int,
) -> tuple[Matched | None, str]:
    ridges = {name: chosen[name].ridge for name in (NO_STEP, ONE_STEP)}
    return match_problem(
        x, y, trust, step=chosen[ONE_STEP].step, ridges=ridges, width=width, seed=seed
    )


def _standard(values: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
    """Mean 0 and variance 1, column by column; a column that is constant to rounding becomes 0."""
    centred = values - values.mean(axis=0)
    spread = centred.std(axis=0)
    return centred / np.where(spread > 0, spread, 1.0)
