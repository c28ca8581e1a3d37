"""What ``predict_features`` returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep.activations import Activation
from firststep.problem import Problem, Sizes
from firststep.results import Shown, plain, plain_fields
from firststep.theory.channel import Channel
from firststep.theory.given_layer.directions import Directions
from firststep.theory.given_layer.nodes import Grid
from firststep.theory.given_layer.risk import Solution
from firststep.theory.loss_numbers import LossNumbers, shown_of
from firststep.theory.loss_report import Report, on_a_line, report
from firststep.theory.terms import LabelMoments
from firststep.theory.terms_channel import TermsChannel

if TYPE_CHECKING:
    from firststep.typing import Array, Bool, Float

    PerRidge = float | Float[Array, " ridges"]

SHOWN_TO = 5.0  # |kappa| up to which functions are shown: beyond, there is next to no input


@dataclass(frozen=True, eq=False, repr=False)
class FeaturePrediction(LossNumbers, Shown):
    """The predicted ridge fit of one given first layer, on average over ridge and test data.

    With several ridge values, risk, training_error and the like have one entry a ridge, in the
    order of ``problem.ridges``; with one they are floats.
    """

    problem: Problem
    sizes: Sizes
    directions: Directions
    alignments: Float[Array, "k J"]  # gamma: components of the teacher's directions along these
    teacher_terms: tuple[Activation, ...]  # beyond the problem's own
    spike_strengths: Float[Array, " k"]  # root mean square over neurons of u
    grid: Grid
    target: LabelMoments
    label_variance: Float[Array, " K"]  # of y given the teacher's coordinates
    channel: Channel | TermsChannel | None  # None where too many terms make the label
    solutions: tuple[Solution, ...]  # one a ridge
    backend: str
    seconds: float
    versions: Mapping[str, str]

    @property
    def bulk(self) -> str:
        """The weights themselves: nothing is assumed of their bulk."""
        return "given"

    @property
    def kind(self) -> str:
        """Which theory, in words."""
        count = self.directions.count
        return f"of the given layer, {count} direction{'s' if count != 1 else ''}"

    def _mean(self, function: Callable[[Solution], Float[Array, " K"]]) -> PerRidge:
        values = [float(self.grid.omega @ function(each)) for each in self.solutions]
        return np.array(values) if isinstance(self.problem.ridge, tuple) else values[0]

    @property
    def risk(self) -> PerRidge:
        """Test error against the mean of a label: the noise-free teacher, or E[y | x] of binary
        labels.
        """
        return self._mean(lambda each: each.error - self.label_variance)

    @property
    def training_error(self) -> PerRidge:
        """Mean square of what the fit leaves of its labels; nan with another loss."""
        if self.has_other_loss:
            return math.nan * self._mean(lambda each: each.error)
        return self._mean(lambda each: each.shrinkage**2 * each.error)

    @property
    def degrees_of_freedom(self) -> PerRidge:
        """Trace of the hat matrix over the number of samples: the mean of 1 - df/df0."""
        if self.has_other_loss:
            return self._mean(lambda each: each.shrinkage * each.output.leverage)
        return 1 - self._mean(lambda each: each.shrinkage)

    # With any loss ------------------------------------------------------------------------------

    @cached_property
    def _reports(self) -> tuple[Report, ...]:
        channel, omega = self.channel, self.grid.omega
        if channel is None:
            raise AttributeError("with so many terms of the teacher there is the risk alone")
        if isinstance(channel, TermsChannel):
            return tuple(channel.report(each.output, omega) for each in self.solutions)
        if self.directions.count == 1:
            kappa = self.grid.kappa[:, 0]
            return tuple(on_a_line(channel, each.output, kappa) for each in self.solutions)
        return tuple(report(channel, each.output, omega) for each in self.solutions)

    def _reported(self, name: str) -> PerRidge:
        values = [getattr(each, name) for each in self._reports]
        return np.array(values) if isinstance(self.problem.ridge, tuple) else values[0]

    @property
    def residual(self) -> float:
        """Largest relative residual of the equations."""
        return max(each.residual for each in self.solutions)

    @property
    def node_error(self) -> float:
        """Largest relative change of the layer's integrals over kappa when nodes are doubled."""
        return self.grid.error

    @property
    def kernel_lower_bound(self) -> float:
        """Of all terms of the teacher: what no fixed kernel can beat."""
        further = sum(each.moments.nonlinear_variance for each in self.teacher_terms)
        return self.problem.kernel_lower_bound + further

    # Functions of kappa -------------------------------------------------------------------------

    @property
    def _inside(self) -> Bool[Array, " K"]:
        return np.linalg.norm(self.grid.kappa, axis=1) <= SHOWN_TO

    @property
    def kappa(self) -> Float[Array, "K k"]:
        """Coordinates along the directions, inside |kappa| <= 5; for one direction a vector."""
        shown = self.grid.kappa[self._inside]
        return shown[:, 0] if self.directions.count == 1 else shown

    def _function(self, values: list[Float[Array, " K"]]) -> Float[Array, "*ridges K"]:
        shown = np.array([each[self._inside] for each in values])
        return shown if isinstance(self.problem.ridge, tuple) else shown[0]

    @property
    def learned_function(self) -> Float[Array, "*ridges K"]:
        """m(kappa) = E[prediction | kappa]."""
        return self._function([each.learned for each in self.solutions])

    @property
    def target_function(self) -> Float[Array, " K"]:
        """E[y | kappa]."""
        return self.target.h0[self._inside]

    @property
    def error_by_kappa(self) -> Float[Array, "*ridges K"]:
        """E[(prediction - s*)^2 | kappa]."""
        return self._function([each.error - self.label_variance for each in self.solutions])

    # Text and tables ----------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain values fit for JSON."""
        chosen, sizes = self.directions, self.sizes
        return {
            "problem": self.problem.to_dict(),
            "teacher_terms": [str(each) for each in self.teacher_terms],
            "dimension": sizes.dimension,
            "width": sizes.width,
            "samples": sizes.samples,
            **plain_fields(self, "risk", "training_error", *shown_of(self.problem)),
            **plain_fields(self, "degrees_of_freedom"),
            "directions": {
                "count": chosen.count,
                "matrix": chosen.matrix,
                "reason": chosen.reason,
                "singular_values": plain(chosen.singular_values),
            },
            **plain_fields(self, "alignments", "spike_strengths", "kernel_lower_bound"),
            "nodes": len(self.grid.omega),
            **plain_fields(self, "node_error", "residual", "kappa", "learned_function"),
            **plain_fields(self, "target_function", "error_by_kappa"),
            "backend": self.backend,
            "seconds": self.seconds,
            "versions": dict(self.versions),
        }

    def _shown(self) -> dict[str, str]:
        """The numbers of the table with their words."""
        shown = shown_of(self.problem)
        if not self.problem.loss.is_margin:
            shown = {**shown, "risk": "test risk"}
        if not self.has_other_loss:
            shown["training_error"] = "training error"
        return {**shown, "degrees_of_freedom": "degrees of freedom / samples"}

    def rows(self) -> Iterator[tuple[str, str]]:
        """The lines of the table."""
        ridges = self.problem.ridges
        for name, words in self._shown().items():
            for ridge, value in zip(ridges, np.atleast_1d(getattr(self, name)), strict=True):
                where = f" at ridge {ridge:.4g}" if len(ridges) > 1 else ""
                yield words + where, f"{value:.6g}"
        if not self.problem.labels.is_binary:
            yield "kernel lower bound", f"{self.kernel_lower_bound:.6g}"
        chosen = self.directions
        yield "directions conditioned on", f"{chosen.count} ({chosen.reason})"
        if chosen.count:
            terms = (", ".join(f"{value:.4g}" for value in term) for term in self.alignments.T)
            strengths = ", ".join(f"{value:.4g}" for value in self.spike_strengths)
            yield "alignment of the teacher with them", "; ".join(terms)
            yield "spike strength, root mean square", strengths

    @property
    def title(self) -> str:
        sizes = self.sizes
        parts = f"d = {sizes.dimension}, N = {sizes.width}, n = {sizes.samples}"
        teacher = " + ".join(str(each) for each in (self.problem.teacher, *self.teacher_terms))
        return f"theory of a given first layer: {self.problem.student} learns {teacher}, {parts}"

    def notes(self) -> Iterator[str]:
        """How well it was solved."""
        counts = sum(each.evaluations for each in self.solutions)
        good = f"{max(self.node_error, 1e-16):.0e}"
        steps = f"{counts} evaluation{'s' if counts != 1 else ''}"
        nodes = f"{len(self.grid.omega)} nodes good to {good}"
        yield f"  residual {self.residual:.1e} after {steps}, {nodes}"
