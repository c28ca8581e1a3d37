"""The fit of the readout on features: the seam where another loss is put.

A fit gets features and labels in blocks or collected (``FeatureRows``) and the ridges, and gives
back one solution b (N numbers, for features without the 1/sqrt N) and one training error a ridge.
The losses of ``firststep.losses`` are fitted by ``ConvexFit``, ridge regression by ``RidgeFit``; to
add a way to fit: a class like them, registered in ``FITS``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import numpy as np

from firststep.registry import Registry
from firststep.simulation.data.rows import Data
from firststep.simulation.fit.convex import Question, solve_losses
from firststep.simulation.fit.geometry import geometry_of
from firststep.simulation.fit.ridge import solve_gram

if TYPE_CHECKING:
    from firststep.simulation.backends import Backend, Place
    from firststep.simulation.data.rows import Replicate
    from firststep.simulation.design import Design
    from firststep.simulation.fit.features import FeatureMap, Layer
    from firststep.typing import Array, Float

    # F^T F (see Backend.add_gram), F^T y and |y|^2
    Sums: TypeAlias = tuple[Float[Array, "N N"], Float[Array, " N"], Float[Array, ""]]

Carry = TypeVar("Carry")


class Fitted(NamedTuple):
    solution: Float[Array, "N ridges"]  # on the device
    training_error: Float[Array, " ridges"]  # on the host
    intercept: Float[Array, " ridges"] | None = None  # on the device; none: zero


class FeatureRows:
    """The features and labels that the readout is fitted on. Its methods can be compiled."""

    def __init__(self, design: Design, backend: Backend, feature_map: FeatureMap) -> None:
        self.design, self.backend, self._map = design, backend, feature_map
        self._name = "step" if design.training.reuse else "ridge"

    def fold(
        self,
        replicate: Replicate,
        layer: Layer,
        body: Callable[[Carry, Float[Array, "count N"], Float[Array, " count"]], Carry],
        carry: Carry,
    ) -> Carry:
        """carry = body(carry, features, labels) over the blocks."""
        data = Data.of(self.design, self.backend, replicate)
        features, samples = self._map(data, layer, "ridge"), self.design.sizes.samples
        errors = data.errors(self._name, samples)

        def add_block(carry: Carry, start: Place, count: int) -> Carry:
            inputs, targets = data.labelled(self._name, start, count, errors)
            return body(carry, features(inputs, start, count), targets)

        return self.backend.fold(add_block, carry, samples, self.design.block)

    def collect(
        self, replicate: Replicate, layer: Layer
    ) -> tuple[Float[Array, "n N"], Float[Array, " n"]]:
        """All features and labels at once."""
        design, data = self.design, Data.of(self.design, self.backend, replicate)
        features, samples = self._map(data, layer, "ridge"), design.sizes.samples

        def rows_of(start: Place, count: int) -> tuple[Any, Any]:
            inputs = data.inputs(self._name, start, count)
            return features(inputs, start, count), data.clean_labels(inputs)[:, None]

        columns = (design.sizes.width, 1)
        collected, clean = self.backend.collect(rows_of, samples, columns, design.block)
        return collected, data.labels_of(clean[:, 0], data.errors(self._name, samples))


class ReadoutFit(ABC):
    """Minimises a loss of the labels and F b, plus a ridge. An object serves every replicate."""

    name: ClassVar[str]
    meaning: ClassVar[str]

    def __init__(self, rows: FeatureRows) -> None:
        self.rows = rows

    @abstractmethod
    def __call__(self, replicate: Replicate, layer: Layer, ridges: tuple[float, ...]) -> Fitted:
        """Solutions and training errors for every ridge."""


FITS: Registry[ReadoutFit] = Registry("loss")


@FITS.add
class RidgeFit(ReadoutFit):
    """Primal where n >= N, from F^T F in blocks; dual where n < N, from all features."""

    name, meaning = "square", "(1/n)|y - F b|^2 + ridge |b|^2"

    def __init__(self, rows: FeatureRows) -> None:
        super().__init__(rows)
        compiled = rows.backend.compile
        self._gram, self._collect = compiled(self._gram_stage), compiled(rows.collect)
        self._primal = compiled(self._primal_stage)

    def _gram_stage(self, replicate: Replicate, layer: Layer) -> Sums:
        """The sums, in blocks."""
        backend, width = self.rows.backend, self.rows.design.sizes.width

        def add(
            carry: Sums, features: Float[Array, "count N"], targets: Float[Array, " count"]
        ) -> Sums:
            gram, right, square = carry
            return (
                backend.add_gram(gram, features),
                right + targets @ features,
                square + targets @ targets,
            )

        zero = (backend.zeros((width, width)), backend.zeros((width,)), backend.zeros(()))
        return self.rows.fold(replicate, layer, add, zero)

    def _primal_stage(
        self,
        features: Float[Array, "n N"],
        targets: Float[Array, " n"],
        dual: Float[Array, "n ridges"],
    ) -> tuple[Float[Array, "N ridges"], Float[Array, " ridges"]]:
        """b = F^T c and the training error."""
        solution = features.T @ dual
        return solution, ((targets[:, None] - features @ solution) ** 2).mean(axis=0)

    def __call__(self, replicate: Replicate, layer: Layer, ridges: tuple[float, ...]) -> Fitted:
        backend, n = self.rows.backend, self.rows.design.sizes.samples
        shifts = tuple(n * ridge for ridge in ridges)
        if self.rows.design.is_primal:
            gram, right, square = self._gram(replicate, layer)
            right_host = backend.to_host(right).astype(float)
            solution = solve_gram(backend, gram, right, shifts)
            error = explained_error(right_host, backend.to_host(solution), shifts, float(square))
            return Fitted(solution, error / n)
        features, targets = self._collect(replicate, layer)
        dual = solve_gram(backend, backend.outer_gram(features), targets, shifts)
        solution, training_error = self._primal(features, targets, dual)
        return Fitted(solution, backend.to_host(training_error))


@FITS.add
class ConvexFit(ReadoutFit):
    """Any convex loss, with or without a free constant, from all features.

    They are fitted on the host in double precision, whatever the backend (``fit.convex``).
    """

    name, meaning = "convex", "(1/n) sum l(y, F b + b0) + ridge |b|^2"

    def __init__(self, rows: FeatureRows) -> None:
        super().__init__(rows)
        self._collect = rows.backend.compile(rows.collect)

    def __call__(self, replicate: Replicate, layer: Layer, ridges: tuple[float, ...]) -> Fitted:
        backend, targets = self.rows.backend, self.rows.design.targets
        features, labels = (
            np.asarray(backend.to_host(each), np.float64)
            for each in self._collect(replicate, layer)
        )
        geometry = geometry_of(features)
        question = Question(targets.loss, labels, targets.intercept)
        coordinates, constants = solve_losses(question, geometry, ridges)
        solution = coordinates if self.rows.design.is_primal else features.T @ coordinates
        predicted = features @ solution + constants
        training_error = ((labels[:, None] - predicted) ** 2).mean(axis=0)
        return Fitted(backend.to_device(solution), training_error, backend.to_device(constants))


def explained_error(
    right: Float[Array, " N"],
    solution: Float[Array, "N ridges"],
    shifts: tuple[float, ...],
    square: float,
) -> Float[Array, " ridges"]:
    """|y - F b|^2 = |y|^2 - b.F^T y - shift |b|^2 for the ridge solution b."""
    host = solution.astype(float)
    explained = right @ host + np.asarray(shifts) * np.einsum("ij,ij->j", host, host)
    return np.maximum(square - explained, 0.0)
