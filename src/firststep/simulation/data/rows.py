"""Rows of data: the one place where inputs and labels enter the kernels.

The laws of ``firststep.inputs`` make rows of the Gaussian streams of a replicate. An array of data
is read through a random order of its rows, drawn for every replicate: rows [0, n) are the ridge
data, then come the test data, then one batch after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from firststep.inputs.laws import interpolate, student_table
from firststep.simulation.data.teachers import PLAIN, Metric, clean_labels
from firststep.structure import teacher_components

if TYPE_CHECKING:
    from firststep.simulation.backends import Backend, Draws, Place
    from firststep.simulation.data.teachers import Directions
    from firststep.simulation.design import Design
    from firststep.typing import Array, Float, Int

Predictions = Callable[[Any, Any, int], Any]  # (inputs, start, count) -> one row for every input


class Key(NamedTuple):
    """The key of a replicate's streams, and the arrays of its law of inputs."""

    key: Any
    shared: tuple[Array, ...] = ()  # by all replicates
    own: tuple[Array, ...] = ()
    metric: Metric = PLAIN  # of the problem's own spectrum


class Replicate(NamedTuple):
    """What the data of one replicate are made from. Compiled code takes it as an argument."""

    key: Key
    teacher: Directions | None = None  # theta, or all directions
    noise: Float[Array, ""] | float = 0.0  # standard deviation of the label noise


class InputArrays:
    """Makes the keys of replicates; what all replicates share is put on the device once."""

    def __init__(self, design: Design, backend: Backend) -> None:
        self._design, self._backend = design, backend
        self._shared: tuple[Array, ...] | None = None
        self._metric = PLAIN

    def key(self, seed: int, number: int) -> Key:
        backend, law, d = self._backend, self._design.inputs, self._design.sizes.dimension
        key = backend.key(seed, number)
        if self._shared is None:
            host = law.shared_arrays(d)
            self._shared = tuple(backend.to_device(each) for each in host)
            if self._design.overlaps is not None:
                (root,) = host  # of a law with a spectrum
                self._metric = self._metric_of(root, self._shared[0])
        own = law.own_arrays(backend.xp, backend.draws(key), d)
        return Key(key, self._shared, own, self._metric)

    def _metric_of(self, root: Float[Array, " d"], on_device: Float[Array, " d"]) -> Metric:
        overlaps = self._design.overlaps
        assert overlaps is not None
        if overlaps.is_random:
            return Metric(on_device)
        theta = teacher_components(overlaps, root**2)
        return Metric(on_device, self._backend.to_device(theta))


@dataclass(frozen=True)
class Data:
    """A replicate opened: its random numbers, its inputs and its labels."""

    design: Design
    backend: Backend
    replicate: Replicate
    draws: Draws

    @classmethod
    def of(cls, design: Design, backend: Backend, replicate: Replicate) -> Data:
        return cls(design, backend, replicate, backend.draws(replicate.key.key))

    @property
    def teacher(self) -> Directions:
        assert self.replicate.teacher is not None
        return self.replicate.teacher

    def inputs(
        self, data: str, start: Place, count: int, batch: int = 0
    ) -> Float[Array, "count d"]:
        """Rows start .. start + count of the data set called step, ridge or test."""
        return self.design.inputs.rows(Block(self, data, start, count, batch))

    def clean_labels(self, inputs: Float[Array, "count d"]) -> Float[Array, " count"]:
        """s*(<x, theta>) + sum_j s_j(<x, theta_j>), one for every row."""
        return clean_labels(self.backend, self.design, inputs, self.teacher)

    def errors(self, data: str, samples: int, batch: int = 0) -> Float[Array, " samples"]:
        """What is random in the labels of a whole data set: eps, or uniforms of binary labels."""
        targets, xp = self.design.targets, self.backend.xp
        if targets.labels.is_binary:
            return self.draws.uniform(f"{data} labels", samples, batch)
        law, normal = targets.noise_law, self.draws.vector(f"{data} noise", samples, batch)
        if law.kind == "t":
            table = student_table(law.freedom) * math.sqrt(law.second_moment)
            return interpolate(xp, xp.asarray(table, dtype=self.backend.dtype), normal)
        if law.kind == "mixture":
            steps = self.backend.to_device(np.cumsum(law.weights)[:-1])
            chosen = self.draws.uniform(f"{data} labels", samples, batch)
            places = xp.searchsorted(steps, chosen, side="right")
            return self.backend.to_device(law.scales)[places] * normal
        return normal

    def chances(self, clean: Float[Array, " count"]) -> Float[Array, " count"]:
        """P(y = 1 | s) of binary labels, from what the teacher says."""
        targets = self.design.targets
        return targets.labels.probability(
            clean, noise=self.replicate.noise, threshold=targets.threshold, flip=targets.flip
        )

    def labels_of(
        self, clean: Float[Array, " count"], errors: Float[Array, " count"]
    ) -> Float[Array, " count"]:
        """s + noise eps; binary labels are 1 where a uniform is below their probability."""
        if self.design.targets.labels.is_binary:
            above = errors < self.chances(clean)
            return self.backend.xp.where(above, 1.0, -1.0).astype(clean.dtype)
        return clean + self.replicate.noise * errors

    def labels(
        self, inputs: Float[Array, "count d"], errors: Float[Array, " count"]
    ) -> Float[Array, " count"]:
        """The labels of inputs, with the errors of these rows."""
        return self.labels_of(self.clean_labels(inputs), errors)

    def labelled(
        self, data: str, start: Place, count: int, errors: Float[Array, " all"]
    ) -> tuple[Float[Array, "count d"], Float[Array, " count"]]:
        """Inputs and labels of a block, with the errors of the whole data set."""
        inputs = self.inputs(data, start, count)
        return inputs, self.labels(inputs, self.backend.slice(errors, start, count))


@dataclass(frozen=True)
class Block:
    """What a law of the inputs sees of a block of rows (``firststep.inputs.law.Block``)."""

    source: Data
    data: str
    start: Place
    count: int
    batch: int

    @property
    def xp(self) -> Any:
        return self.source.backend.xp

    @property
    def special(self) -> ModuleType:
        return self.source.backend.library.special

    @property
    def arrays(self) -> tuple[Array, ...]:
        key = self.source.replicate.key
        return (*key.shared, *key.own)

    def entries(self) -> Float[Array, "count d"]:
        return self._rows("inputs", self.source.design.sizes.dimension)

    def scales(self) -> Float[Array, "count 1"]:
        return self._rows("scales", 1)

    def _rows(self, purpose: str, columns: int) -> Float[Array, "count columns"]:
        streams, name = self.source.draws, f"{self.data} {purpose}"
        return streams.rows(name, self.start, self.count, columns, self.batch)

    def part(self, order: Int[Array, " all"]) -> Int[Array, " count"]:
        """Of an order of all rows; ridge and test data do not depend on what the steps take."""
        design = self.source.design
        first = design.sizes.samples + design.test_samples + self.batch * design.sizes.step_samples
        if self.data == "ridge" or (design.training.reuse and self.data == "step"):
            first = 0
        elif self.data == "test":
            first = design.sizes.samples
        return self.source.backend.slice(order, first + self.start, self.count)
