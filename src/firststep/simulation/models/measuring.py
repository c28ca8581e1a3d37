"""What is measured in a replicate: sums over the test set, and the names of what a step leaves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep.errors import NotConverged
from firststep.simulation.models.observables import KAPPA_CENTERS, kappa_indicators

if TYPE_CHECKING:
    from firststep.simulation.backends import Backend, Place
    from firststep.simulation.data.rows import Data, Predictions
    from firststep.simulation.design import Design
    from firststep.simulation.kinds import Measured
    from firststep.typing import Array, Float

SCALARS = (
    "gradient_norm",
    "alignment",
    "spike_strength",
    "teacher_overlap_weights",
    "teacher_overlap_update",
    "rank_one_error",
)
PAIRS = ("singular_values_weights", "singular_values_update")
OVERLAPS = ("teacher_overlaps", "teacher_overlaps_update")  # with several terms only


def nothing_measured(design: Design) -> Measured:
    """The measurements of a step where none was taken."""
    overlaps = OVERLAPS if design.teacher_terms else ()
    return {
        **dict.fromkeys(SCALARS, math.nan),
        **{name: np.full(2, np.nan) for name in PAIRS},
        **{name: np.full(1 + len(design.teacher_terms), np.nan) for name in overlaps},
    }


def test_sums(
    data: Data, direction: Float[Array, " d"], predictions: Predictions, columns: int
) -> tuple[Array, ...]:
    """Sums over the test set: e^2, e^4, and by bins of kappa the count, prediction and teacher."""
    design, backend, bins = data.design, data.backend, len(KAPPA_CENTERS)

    def add_block(carry: tuple[Any, ...], start: Place, count: int) -> tuple[Any, ...]:
        inputs = data.inputs("test", start, count)
        truth = data.clean_labels(inputs)
        predicted = predictions(inputs, start, count)
        square = (predicted - truth[:, None]) ** 2
        inside = kappa_indicators(inputs @ direction, backend.xp, backend.dtype)
        new = (
            square.sum(axis=0),
            (square**2).sum(axis=0),
            inside.sum(axis=0),
            inside.T @ predicted,
            inside.T @ truth,
        )
        return tuple(old + more for old, more in zip(carry, new, strict=True))

    zero = tuple(map(backend.zeros, ((columns,), (columns,), (bins,), (bins, columns), (bins,))))
    return backend.fold(add_block, zero, design.test_samples, design.block)


def finish_test(sums: tuple[Array, ...], samples: int, backend: Backend) -> Measured:
    """Risk, its test-set standard error, and the learned and target functions by bins of kappa."""
    square, fourth, counts, predicted, truth = (
        backend.to_host(each).astype(float) for each in sums
    )
    risk = square / samples
    if not np.all(np.isfinite(risk)):
        raise NotConverged(
            "the test risk is not finite: the student or the teacher overflows on these inputs"
        )
    variance = np.maximum(fourth / samples - risk**2, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        learned, target = predicted / counts[:, None], truth / counts
    return dict(
        risk=risk,
        risk_test_error=np.sqrt(variance / max(samples - 1, 1)),
        learned_function=learned.T,
        target_function=target,
        kappa_counts=counts,
    )
