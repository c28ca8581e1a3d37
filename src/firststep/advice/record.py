"""What ``advise`` gives back: the verdict first, then all it rests on."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firststep.advice.direction import Direction
from firststep.advice.intervals import plain
from firststep.advice.learning_curve import Curve
from firststep.advice.matched import Matched, Trust
from firststep.advice.measured import Measured
from firststep.advice.pictures import draw
from firststep.advice.recommended import Recommended
from firststep.advice.report import write_report
from firststep.advice.verdict import Verdict
from firststep.results import Shown, aligned, as_html


@dataclass(frozen=True, eq=False, repr=False)
class Advice(Shown):
    """Whether a step of feature learning helps on a table, with what it was decided by.

    ``answer`` is yes or no, ``sentence`` says it with numbers, ``causes`` name why not, ``reasons``
    are sentences. Intervals are at 95 %. Risks of ``measured`` are mean squared errors in the units
    of the target; those of ``matched``, ``curve`` and ``recommended`` are over its variance.
    """

    name: str
    target: str
    rows: int  # that were looked at
    total_rows: int
    columns: tuple[str, ...]
    verdict: Verdict
    measured: Measured
    direction: Direction
    trust: Trust
    matched: Matched | None
    matched_reason: str  # why there is none
    recommended: Recommended
    curve: Curve
    notes_on_data: tuple[str, ...]
    warnings: tuple[str, ...]
    options: Mapping[str, Any]
    seconds: float
    versions: Mapping[str, str]

    @property
    def answer(self) -> str:
        return self.verdict.answer

    @property
    def sentence(self) -> str:
        return self.verdict.sentence

    @property
    def causes(self) -> tuple[str, ...]:
        return self.verdict.causes

    @property
    def reasons(self) -> tuple[str, ...]:
        return self.verdict.reasons

    @property
    def title(self) -> str:
        return f"{self.name}: {self.target} from {len(self.columns)} columns, {self.rows} rows"

    @property
    def head(self) -> Sequence[str]:
        return "fit", "squared error on new rows", "R²"

    def rows_of_table(self) -> Iterator[tuple[str, str, str]]:
        """Every model with its risk and R²."""
        determination = self.measured.determination
        for name, risk in self.measured.risks.items():
            yield name, str(risk), str(determination.get(name, ""))

    table = rows_of_table

    def curve_table(self) -> Iterator[tuple[str, str, str, str]]:
        """Rows, model, risk predicted and measured, over the variance of the target."""
        for name, points in self.curve.points.items():
            for point in points:
                measured = "" if point.measured is None else str(point.measured)
                yield f"{point.rows}", name, str(point.predicted), measured

    def body(self) -> Iterator[str]:
        yield self.sentence
        yield from (f"warning: {warning}" for warning in self.warnings)
        yield ""
        yield from (f"- {reason}" for reason in self.reasons)
        yield f"- Recommended: {self.recommended.call}."
        yield ""
        yield from aligned([self.head, *self.table()])
        yield ""
        yield "Learning curve, over the variance of the target:"
        head = ("rows", "fit", "predicted", "measured")
        yield from aligned([head, *self.curve_table()])
        yield from (f"({note})" for note in self.notes_on_data)

    def _repr_html_(self) -> str:
        reasons = "".join(f"<li>{html.escape(reason)}</li>" for reason in self.reasons)
        answer = f"<p><b>{html.escape(self.sentence)}</b></p><ul>{reasons}</ul>"
        return answer + as_html(self.title, self.table(), self.head)

    def to_dict(self) -> dict[str, Any]:
        """Plain values fit for JSON."""
        found = {
            name: plain(getattr(self, name))
            for name in self.__dataclass_fields__
            if name != "verdict"
        }
        direction = found["direction"]
        direction["overlap_needs_rows"] = direction.pop("samples_for_half")
        found["recommended"]["call"] = self.recommended.call
        return {**plain(self.verdict), "level": 0.95, **found}

    def report(self, path: str | Path) -> Path:
        """Write an HTML report with its pictures inside; needs matplotlib."""
        return write_report(self, Path(path))

    def figure(self) -> Any:
        """The pictures of the report as a figure of matplotlib."""
        return draw(self)
