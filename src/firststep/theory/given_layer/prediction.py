"""What ``predict_features`` returns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firststep.activations import Activation
from firststep.problem import Problem, Sizes
from firststep.results import as_html, plain
from firststep.theory.given_layer.directions import Directions
from firststep.theory.given_layer.equations import Solution
from firststep.theory.given_layer.nodes import Grid

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FeaturePrediction:
    """The predicted ridge fit of one given first layer, on average over the ridge data and the test data.

    With several ridge values, risk, training_error and the like have one entry a ridge, in the order of ``problem.ridges``; with
    one they are floats.
    """

    problem: Problem
    sizes: Sizes
    directions: Directions
    alignments: Array  # gamma: the components of the teacher's directions along these, k x J
    teacher_terms: tuple[Activation, ...]  # beyond the problem's own
    spike_strengths: Array  # root mean square over neurons of u, by direction
    grid: Grid
    target: tuple[Array, Array, Array]  # h0, h1, h2 on the nodes
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
        return f"of the given layer, {self.directions.count} direction{'s' if self.directions.count != 1 else ''}"

    def _per_ridge(self, values: list[float]) -> Any:
        return np.array(values) if isinstance(self.problem.ridge, tuple) else values[0]

    def _mean(self, function: Any) -> Any:
        return self._per_ridge([float(self.grid.omega @ function(each)) for each in self.solutions])

    @property
    def risk(self) -> Any:
        """Test error against the noise-free teacher."""
        return self._mean(lambda each: each.error) - self.problem.noise**2

    @property
    def training_error(self) -> Any:
        return self._mean(lambda each: each.shrinkage**2 * each.error)

    @property
    def degrees_of_freedom(self) -> Any:
        """Trace of the hat matrix over the number of samples."""
        return 1 - self._mean(lambda each: each.shrinkage)

    @property
    def residual(self) -> float:
        """Largest relative residual of the equations."""
        return max(each.residual for each in self.solutions)

    @property
    def node_error(self) -> float:
        """Largest relative change of the layer's integrals over kappa when the nodes are doubled."""
        return self.grid.error

    @property
    def kernel_lower_bound(self) -> float:
        """Of all terms of the teacher: what no fixed kernel can beat."""
        return self.problem.kernel_lower_bound + sum(
            each.moments.nonlinear_variance for each in self.teacher_terms
        )

    # Functions of kappa, for one direction -----------------------------------------------------------------------------------

    @property
    def _shown(self) -> NDArray[np.bool_]:
        return np.asarray(np.linalg.norm(self.grid.kappa, axis=1) <= 5.0)

    @property
    def kappa(self) -> Array:
        """Coordinates along the directions, K x k, inside |kappa| <= 5; for one direction a vector."""
        shown = self.grid.kappa[self._shown]
        return shown[:, 0] if self.directions.count == 1 else shown

    def _function(self, values: list[Array]) -> Array:
        shown = np.array([each[self._shown] for each in values])
        return shown if isinstance(self.problem.ridge, tuple) else shown[0]

    @property
    def learned_function(self) -> Array:
        """m(kappa) = E[prediction | kappa]."""
        return self._function([each.learned for each in self.solutions])

    @property
    def target_function(self) -> Array:
        """E[y | kappa]."""
        return np.asarray(self.target[0][self._shown])

    @property
    def error_by_kappa(self) -> Array:
        """E[(prediction - s*)^2 | kappa]."""
        return self._function([each.error - self.problem.noise**2 for each in self.solutions])

    # Text and tables ------------------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain values fit for JSON."""
        chosen = self.directions
        return {
            "problem": self.problem.to_dict(),
            "teacher_terms": [str(each) for each in self.teacher_terms],
            "dimension": self.sizes.dimension,
            "width": self.sizes.width,
            "samples": self.sizes.samples,
            **{
                name: plain(getattr(self, name))
                for name in ("risk", "training_error", "degrees_of_freedom")
            },
            "directions": {
                "count": chosen.count,
                "matrix": chosen.matrix,
                "reason": chosen.reason,
                "singular_values": plain(chosen.singular_values),
            },
            "alignments": plain(self.alignments),
            "spike_strengths": plain(self.spike_strengths),
            "kernel_lower_bound": plain(self.kernel_lower_bound),
            "nodes": len(self.grid.omega),
            "node_error": plain(self.node_error),
            "residual": plain(self.residual),
            **{
                name: plain(getattr(self, name))
                for name in ("kappa", "learned_function", "target_function", "error_by_kappa")
            },
            "backend": self.backend,
            "seconds": self.seconds,
            "versions": dict(self.versions),
        }

    def rows(self) -> Iterator[tuple[str, str]]:
        """The lines of the table."""
        ridges = self.problem.ridges
        for name, words in (
            ("risk", "test risk"),
            ("training_error", "training error"),
            ("degrees_of_freedom", "degrees of freedom / samples"),
        ):
            for ridge, value in zip(ridges, np.atleast_1d(getattr(self, name)), strict=True):
                yield words + (f" at ridge {ridge:.4g}" if len(ridges) > 1 else ""), f"{value:.6g}"
        yield "kernel lower bound", f"{self.kernel_lower_bound:.6g}"
        yield "directions conditioned on", f"{self.directions.count} ({self.directions.reason})"
        if self.directions.count:
            by_term = "; ".join(
                ", ".join(f"{value:.4g}" for value in term) for term in self.alignments.T
            )
            yield "alignment of the teacher with them", by_term
            yield (
                "spike strength, root mean square",
                ", ".join(f"{value:.4g}" for value in self.spike_strengths),
            )

    @property
    def title(self) -> str:
        sizes = self.sizes
        parts = f"d = {sizes.dimension}, N = {sizes.width}, n = {sizes.samples}"
        teacher = " + ".join(str(each) for each in (self.problem.teacher, *self.teacher_terms))
        return f"theory of a given first layer: {self.problem.student} learns {teacher}, {parts}"

    def __str__(self) -> str:
        lines = list(self.rows())
        width = max(len(words) for words, _ in lines)
        counts = sum(each.evaluations for each in self.solutions)
        plural = "s" if counts != 1 else ""
        end = f"  residual {self.residual:.1e} after {counts} evaluation{plural}, {len(self.grid.omega)} nodes good to {self._good}"
        return "\n".join(
            [self.title, *(f"  {words:<{width}}  {value}" for words, value in lines), end]
        )

    @property
    def _good(self) -> str:
        return f"{max(self.node_error, 1e-16):.0e}" if math.isfinite(self.node_error) else "-"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_html(self.title, self.rows())
