"""What a simulation returns: every replicate, means with standard errors, and all that is needed to run it again."""

from __future__ import annotations

import html
import math
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firststep.problem import Problem, Sizes

Array = NDArray[np.float64]

# Scalar measurements shown in tables, with the words that explain them.
SHOWN = {
    "risk": "test risk",
    "risk_test_error": "  test-set error of one replicate",
    "training_error": "training error",
    "gradient_norm": "gradient norm |v|",
    "alignment": "alignment of the step with the teacher",
    "spike_strength": "spike strength",
    "singular_values_weights": "leading singular values of W1",
    "singular_values_update": "leading singular values of W1 - W0",
    "teacher_overlap_weights": "squared overlap, top vector of W1 and teacher",
    "teacher_overlap_update": "squared overlap, top vector of W1 - W0 and teacher",
    "teacher_overlaps": "alignment of the step with each direction of the teacher",
    "teacher_overlaps_update": "squared overlap, top vector of W1 - W0 and each direction",
    "rank_one_error": "|G0 - A| / |G0|",
}


@dataclass(frozen=True)
class Estimate:
    """A quantity measured on every replicate: the first axis of ``values`` counts replicates."""

    values: Array

    @property
    def mean(self) -> Any:
        """Mean over replicates: a float, or an array if the quantity has entries (ridge values, bins, ...).

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

    def __str__(self) -> str:
        means, errors = np.atleast_1d(self.mean), np.atleast_1d(self.standard_error)
        return ", ".join(
            with_error(m, e) for m, e in zip(means.ravel(), errors.ravel(), strict=True)
        )


def _plain(value: Any) -> Any:
    return float(value) if np.ndim(value) == 0 else value


def plain(value: Any) -> Any:
    """Arrays as lists and nan as None, for JSON."""
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


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table of text, indented, its columns below each other."""
    widths = [max(len(line[place]) for line in table) for place in range(len(table[0]))]
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


@dataclass(frozen=True, eq=False)
class Simulation:
    """Replicates of one experiment at finite size.

    Each measurement is an ``Estimate``, by attribute: ``simulation.risk.mean``, ``simulation.alignment.values``. With several ridge
    values, risk, training_error and learned_function have one entry per ridge, in the order of ``problem.ridges``.
    """

    problem: Problem
    model: str
    options: Mapping[str, Any]  # training options, kernel, test samples, backend, dtype
    sizes: Sizes
    seed: int
    measurements: Mapping[str, Array]
    kappa: Array  # centres of the bins of learned_function and target_function
    kernel_lower_bound: float  # m2* - c0*^2 - c1*^2 of the teacher, all terms together; nan unless the inputs are Gaussian
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
            "dimension": self.dimension,
            "samples": self.sizes.samples,
            "width": self.sizes.width,
            "step_samples": self.sizes.step_samples,
            "replicates": self.replicates,
            "seed": self.seed,
            **estimates,
            "kappa": plain(self.kappa),
            "kernel_lower_bound": plain(self.kernel_lower_bound),
            "seconds": self.seconds,
            "versions": dict(self.versions),
            "interrupted": self.interrupted,
        }

    def rows(self) -> Iterator[tuple[str, str]]:
        """The lines of the table: what, and its value with standard error."""
        ridges = self.problem.ridges
        for name, words in SHOWN.items():
            if name not in self.measurements:
                continue
            estimate = Estimate(self.measurements[name])
            if np.all(np.isnan(estimate.values)):
                continue
            if name == "risk_test_error":
                means = np.atleast_1d(estimate.mean)
                if len(ridges) == 1:
                    yield words, with_error(float(means[0]), math.nan)
            elif name in ("risk", "training_error") and len(ridges) > 1:
                means, errors = np.atleast_1d(estimate.mean), np.atleast_1d(estimate.standard_error)
                for ridge, mean, error in zip(ridges, means, errors, strict=True):
                    yield f"{words} at ridge {ridge:.4g}", with_error(mean, error)
            else:
                yield words, str(estimate)
        if math.isfinite(self.kernel_lower_bound):
            yield "kernel lower bound", f"{self.kernel_lower_bound:.6g}"

    @property
    def title(self) -> str:
        sizes = self.sizes
        step = (
            "" if self.model == "features" else f"n0 = {sizes.step_samples}, "
        )  # a given layer has its step behind it
        parts = f"d = {sizes.dimension}, N = {sizes.width}, {step}n = {sizes.samples}"
        count = f"{self.replicates} replicate{'s' if self.replicates != 1 else ''}"
        terms = self.options.get("teacher_terms", ())
        several = f" ({1 + len(terms)} directions)" if terms else ""
        teacher = " + ".join([str(self.problem.teacher), *terms]) + several
        law = self.options.get("inputs", "gaussian")
        inputs = "" if law == "gaussian" else f"{law} inputs, "
        return f"{self.model}: {self.problem.student} learns {teacher}, {inputs}{parts}, {count}, seed {self.seed}"

    def __str__(self) -> str:
        lines = list(self.rows())
        width = max(len(words) for words, _ in lines)
        note = "\ninterrupted: only the finished replicates are shown" if self.interrupted else ""
        return (
            "\n".join([self.title, *(f"  {words:<{width}}  {value}" for words, value in lines)])
            + note
        )

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return as_html(self.title, self.rows())


@dataclass(frozen=True, eq=False)
class Baselines:
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

    def to_dict(self) -> dict[str, Any]:
        first = self.simulations[0].to_dict()
        common = (
            "problem",
            "dimension",
            "samples",
            "width",
            "step_samples",
            "replicates",
            "seed",
            "kernel_lower_bound",
        )
        each = ("model", "options", "risk", "risk_test_error", "training_error", "seconds")
        return {
            **{key: first[key] for key in common},
            "baselines": [{key: s.to_dict()[key] for key in each} for s in self.simulations],
            "seconds": sum(s.seconds for s in self.simulations),
            "versions": first["versions"],
            "interrupted": any(s.interrupted for s in self.simulations),
        }

    def rows(self) -> Iterator[tuple[str, str, str, str]]:
        """The lines of the table: model, ridge, risk, training error."""
        for each in self.simulations:
            risk, training = each.risk, each.training_error
            columns = zip(
                each.problem.ridges,
                *(
                    np.atleast_1d(v)
                    for v in (
                        risk.mean,
                        risk.standard_error,
                        training.mean,
                        training.standard_error,
                    )
                ),
                strict=True,
            )
            for ridge, r, r_error, t, t_error in columns:
                yield each.model, f"{ridge:.4g}", with_error(r, r_error), with_error(t, t_error)
        if math.isfinite(self.kernel_lower_bound):
            yield "kernel lower bound", "", f"{self.kernel_lower_bound:.6g}", ""

    @property
    def title(self) -> str:
        first = self.simulations[0]
        return f"baselines{first.title.removeprefix(first.model)}"

    def __str__(self) -> str:
        table = [("model", "ridge", "test risk", "training error"), *self.rows()]
        note = (
            ["interrupted: the last model is incomplete"]
            if any(each.interrupted for each in self)
            else []
        )
        return "\n".join([self.title, *aligned(table), *note])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_html(self.title, self.rows(), ("model", "ridge", "test risk", "training error"))


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run. ``result`` holds what is finished (a Simulation or Baselines), or None; the text says how much it is."""

    def __init__(self, result: Simulation | Baselines | None, message: str) -> None:
        self.result = result
        super().__init__(message)
