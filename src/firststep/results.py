"""What comes back: how results are shown, and what a simulation returns.

A simulation keeps every replicate, means with standard errors, and all that is needed to run it
again.
"""

from __future__ import annotations

import html
import math
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep.errors import shown
from firststep.problem import Problem, Sizes
from firststep.typing import Array

if TYPE_CHECKING:
    from firststep.typing import Float

# Scalar measurements shown in tables, with the words that explain them.
SHOWN = {
    "risk": "test risk",
    "risk_test_error": "  test-set error of one replicate",
    "training_error": "training error",
    "test_loss": "test loss",
    "training_loss": "training loss",
    "error_rate": "test error rate (0-1)",
    "training_error_rate": "training error rate (0-1)",
    "output_alignment": "alignment of the output with the teacher",
    "gradient_norm": "gradient norm |v|",
    "alignment": "alignment of the step with the teacher",
    "update_alignment": "alignment of the change of the weights with the teacher",
    "spike_strength": "spike strength",
    "singular_values_weights": "leading singular values of W1",
    "singular_values_update": "leading singular values of W1 - W0",
    "teacher_overlap_weights": "squared overlap, top vector of W1 and teacher",
    "teacher_overlap_update": "squared overlap, top vector of W1 - W0 and teacher",
    "teacher_overlaps": "alignment of the step with each direction of the teacher",
    "teacher_overlaps_update": "squared overlap, top vector of W1 - W0 and each direction",
    "rank_one_error": "|G0 - A| / |G0|",
}


# Those of other losses and labels: one entry a ridge.
LOSSES = ("test_loss", "training_loss", "error_rate", "training_error_rate", "output_alignment")


@dataclass(frozen=True)
class Estimate:
    """A quantity measured on every replicate: the first axis of ``values`` counts replicates."""

    values: Float[Array, "replicates ..."]

    @property
    def mean(self) -> Any:
        """Mean over replicates: a float, or an array of the entries (ridge values, bins, ...).

        Replicates where an entry is undefined (an empty bin of kappa) do not count for it.
        """
        count = np.sum(np.isfinite(self.values), axis=0)
        total = np.nansum(self.values, axis=0)
        return _plain(
            np.divide(total, count, out=np.full(np.shape(total), np.nan), where=count > 0)
        )

    @property
    def standard_error(self) -> Any:
        """Standard error of the mean over replicates; nan for a single one."""
        count = np.sum(np.isfinite(self.values), axis=0)
        squares = np.nansum((self.values - self.mean) ** 2, axis=0)
        error = np.full(np.shape(squares), np.nan)
        np.divide(
            squares, np.maximum(count - 1, 1) * np.maximum(count, 1), out=error, where=count > 1
        )
        return _plain(np.sqrt(error))

    def to_dict(self) -> dict[str, Any]:
        return {key: plain(getattr(self, key)) for key in ("mean", "standard_error", "values")}

    def texts(self) -> list[str]:
        """Each entry with its standard error."""
        return [*map(with_error, np.ravel(self.mean), np.ravel(self.standard_error))]

    def __str__(self) -> str:
        return ", ".join(self.texts())


def _plain(value: Float[Array, "..."]) -> Any:
    return float(value) if np.ndim(value) == 0 else value


def plain(value: Any) -> Any:
    """Arrays as lists, what is not finite as None, for JSON."""
    if isinstance(value, np.ndarray):
        return [plain(each) for each in value]
    number = float(value)
    return number if math.isfinite(number) else None


def versions(*more: str) -> dict[str, str]:
    """Python, the platform and the packages a result was made with."""
    found = {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }
    return found | {
        package: _installed(package) for package in ("firststep", "numpy", "scipy", *more)
    }


@lru_cache
def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed as a package"


def with_error(value: float, error: float) -> str:
    """A number with its standard error, to two digits of the error: 0.1234 ± 0.0012."""
    if not math.isfinite(value):
        return "-"
    if not math.isfinite(error) or error <= 0:
        return f"{value:.6g}"
    digits = max(0, 1 - math.floor(math.log10(error)))
    return (
        f"{value:.{digits}f} ± {error:.{digits}f}" if digits < 12 else f"{value:.6g} ± {error:.2g}"
    )


def plain_fields(source: object, *names: str) -> dict[str, Any]:
    """Attributes by name, as plain values for JSON."""
    return {name: plain(getattr(source, name)) for name in names}


def per_cent(share: float) -> str:
    """A share with two digits; from 100 on whole."""
    return f"{100 * share:.0f} %" if abs(share) >= 0.995 else f"{100 * share:.2g} %"


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table of text, indented, its columns below each other."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  " + "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
        for line in table
    ]


def as_html(title: str, rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> str:
    """A table for a notebook; without a head the first column holds words, to the left."""
    first = "<td>" if head else "<td style='text-align:left'>"
    columns = f"<tr>{''.join(f'<th>{words}</th>' for words in head)}</tr>" if head else ""
    body = "".join(
        f"<tr>{first}" + "</td><td>".join(html.escape(cell) for cell in row) + "</td></tr>"
        for row in rows
    )
    return f"<table><caption>{html.escape(title)}</caption>{columns}{body}</table>"


class Shown:
    """How a result looks as text and in a notebook: a title, a table and notes below it.

    A result says its ``title`` and ``rows()``, tuples of text; it may say the ``head`` of the table
    and ``notes()``. One whose table is something else than its rows overrides ``table``, one whose
    text is no aligned table ``body``. A dataclass that is ``Shown`` is made with ``repr=False``:
    the one that dataclasses write would hide this one.
    """

    rows: Any  # a method, not typed as one: a diagnosis of inputs has a number of this name

    @property
    def title(self) -> str:
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Plain values fit for JSON."""
        raise NotImplementedError

    @property
    def head(self) -> Sequence[str]:
        """The words over the columns; none where the first column says what the second holds."""
        return ()

    def table(self) -> Iterable[Sequence[str]]:
        """The lines of the table, each with as many words as the head."""
        return self.rows()

    def notes(self) -> Iterable[str]:
        """Lines below the table, in text only; those that belong to it begin with two spaces."""
        return ()

    def body(self) -> Iterable[str]:
        """The lines of text between the title and the notes."""
        return aligned([self.head, *self.table()] if self.head else [*self.table()])

    def __str__(self) -> str:
        return "\n".join([self.title, *self.body(), *self.notes()])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return as_html(self.title, self.table(), self.head)


@dataclass(frozen=True, eq=False, repr=False)
class Simulation(Shown):
    """Replicates of one experiment at finite size.

    Each measurement is an ``Estimate``, by attribute: ``simulation.risk.mean``,
    ``simulation.alignment.values``. With several ridge values, risk, training_error and
    learned_function have one entry per ridge, in the order of ``problem.ridges``.
    """

    problem: Problem
    model: str
    options: Mapping[str, Any]  # training options, kernel, test samples, backend, dtype
    sizes: Sizes
    seed: int
    measurements: Mapping[str, Float[Array, "replicates ..."]]
    kappa: Float[Array, " bins"]  # centres of the bins of learned_function and target_function
    # m2* - c0*^2 - c1*^2 of the teacher, all terms together; nan unless the inputs are Gaussian
    kernel_lower_bound: float
    seconds: float
    versions: Mapping[str, str]
    interrupted: bool = False
    replicate_numbers: tuple[int, ...] = field(default=())

    def __getattr__(self, name: str) -> Estimate:
        try:
            values = object.__getattribute__(self, "measurements")[name]
        except (KeyError, AttributeError):
            raise AttributeError(f"Simulation has no measurement {name!r}") from None
        return Estimate(values)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.measurements]

    @property
    def dimension(self) -> int:
        return self.sizes.dimension

    @property
    def replicates(self) -> int:
        return len(self.replicate_numbers)

    def to_dict(self) -> dict[str, Any]:
        """Plain values fit for JSON."""
        estimates = {name: Estimate(values).to_dict() for name, values in self.measurements.items()}
        return {
            "problem": self.problem.to_dict(),
            "model": self.model,
            "options": dict(self.options),
            **asdict(self.sizes),
            "replicates": self.replicates,
            "seed": self.seed,
            **estimates,
            **plain_fields(self, "kappa", "kernel_lower_bound"),
            "seconds": self.seconds,
            "versions": dict(self.versions),
            "interrupted": self.interrupted,
        }

    def rows(self) -> Iterator[tuple[str, str]]:
        """The lines of the table: what, and its value with standard error."""
        ridges = self.problem.ridges
        for name, words in SHOWN.items():
            estimate = Estimate(self.measurements.get(name, np.array(math.nan)))
            if np.all(np.isnan(estimate.values)):
                continue
            if name == "risk_test_error":
                if len(ridges) == 1:
                    yield words, with_error(float(np.ravel(estimate.mean)[0]), math.nan)
            elif name in ("risk", "training_error", *LOSSES) and len(ridges) > 1:
                for ridge, value in zip(ridges, estimate.texts(), strict=True):
                    yield f"{words} at ridge {ridge:.4g}", value
            else:
                yield words, str(estimate)
        if math.isfinite(self.kernel_lower_bound):
            yield "kernel lower bound", f"{self.kernel_lower_bound:.6g}"

    @property
    def title(self) -> str:
        sizes = self.sizes
        # A given layer has its step behind it.
        step = "" if self.model == "features" else f"n0 = {sizes.step_samples}, "
        parts = f"d = {sizes.dimension}, N = {sizes.width}, {step}n = {sizes.samples}"
        count = f"{self.replicates} replicate{'s' if self.replicates != 1 else ''}"
        terms = self.options.get("teacher_terms", ())
        several = f" ({1 + len(terms)} directions)" if terms else ""
        teacher = " + ".join([str(self.problem.teacher), *terms]) + several
        law = self.options.get("inputs", "gaussian")
        inputs = on_inputs(self.problem, law)
        learns = f"{self.problem.student} learns {teacher}"
        return f"{self.model}: {learns}, {inputs}{parts}, {count}, seed {self.seed}"

    def notes(self) -> Iterator[str]:
        if self.interrupted:
            yield "interrupted: only the finished replicates are shown"


def on_inputs(problem: Problem, law: str | None = None) -> str:
    """The law of the inputs and where in it the teacher lies, in a title; nothing of N(0, I)."""
    name = str(problem.inputs) if law is None else law
    words = "" if name == "gaussian" else f"{name} inputs, "
    if str(problem.teacher_overlaps) != "equal":
        words += f"teacher {shown(str(problem.teacher_overlaps), 40)}, "
    return words


@dataclass(frozen=True, eq=False, repr=False)
class Baselines(Shown):
    """Several models of one problem, run on the same teachers, ridge data and test data."""

    simulations: tuple[Simulation, ...]

    def __getitem__(self, model: str) -> Simulation:
        for each in self.simulations:
            if each.model == model:
                return each
        raise KeyError(model)

    def __iter__(self) -> Iterator[Simulation]:
        return iter(self.simulations)

    def __len__(self) -> int:
        return len(self.simulations)

    @property
    def kernel_lower_bound(self) -> float:
        return self.simulations[0].kernel_lower_bound

    @property
    def _columns(self) -> tuple[str, ...]:
        """What the table shows: risks of ridge regression, losses and error rates beyond it."""
        problem = self.simulations[0].problem
        if problem.is_plain:
            return "risk", "training_error"
        rates = ("error_rate", "training_error_rate") if problem.labels.is_binary else ()
        # A score of margins is no estimate of the label: its squared distance says little.
        risk = () if problem.loss.is_margin else ("risk",)
        return *rates, "test_loss", "training_loss", *risk

    @property
    def bayes_error_rate(self) -> float:
        """What no classifier can beat; nan of real labels, and of teachers and inputs for which it
        is not known.
        """
        first = self.simulations[0]
        inputs = first.options.get("inputs")
        other = first.options.get("teacher_terms") or inputs != str(first.problem.inputs)
        return math.nan if other else first.problem.bayes_error_rate

    def to_dict(self) -> dict[str, Any]:
        found = [each.to_dict() for each in self.simulations]
        first = found[0]
        own = ("model", "options", "risk", "risk_test_error", "training_error", "seconds")
        losses = tuple(name for name in LOSSES if name in first)
        known = {} if math.isnan(self.bayes_error_rate) else plain_fields(self, "bayes_error_rate")
        return {
            "problem": first["problem"],
            **asdict(self.simulations[0].sizes),
            **{key: first[key] for key in ("replicates", "seed", "kernel_lower_bound")},
            **known,
            "baselines": [{key: each[key] for key in (*own, *losses)} for each in found],
            "seconds": sum(each.seconds for each in self),
            "versions": first["versions"],
            "interrupted": any(each.interrupted for each in self),
        }

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The lines of the table: model, ridge, then what the head names."""
        names = self._columns
        for each in self.simulations:
            columns = (each.problem.ridges, *(getattr(each, name).texts() for name in names))
            for ridge, *texts in zip(*columns, strict=True):
                yield each.model, f"{ridge:.4g}", *texts
        beside = [""] * (len(names) - 1)
        if math.isfinite(self.kernel_lower_bound):
            yield "kernel lower bound", "", f"{self.kernel_lower_bound:.6g}", *beside
        if math.isfinite(self.bayes_error_rate):
            yield "Bayes error", "", f"{self.bayes_error_rate:.6g}", *beside

    @property
    def title(self) -> str:
        first = self.simulations[0]
        return f"baselines{first.title.removeprefix(first.model)}"

    @property
    def head(self) -> Sequence[str]:
        words = {"risk": "test risk"}
        return "model", "ridge", *(words.get(n, n.replace("_", " ")) for n in self._columns)

    def notes(self) -> Iterator[str]:
        if any(each.interrupted for each in self):
            yield "interrupted: the last model is incomplete"


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run; the text says how much is finished, ``result`` holds it, or is None.

    It is a Simulation, Baselines, a Comparison or a Spectrum: what the call would have returned.
    """

    def __init__(self, result: Shown | None, message: str) -> None:
        self.result = result
        super().__init__(message)
