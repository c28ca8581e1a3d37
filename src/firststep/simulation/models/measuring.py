"""What is measured in a replicate: sums over the test set, and the names of what a step leaves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep.errors import NotConverged
from firststep.simulation.data.teachers import first_direction
from firststep.simulation.models.observables import KAPPA_CENTERS, kappa_indicators

if TYPE_CHECKING:
    from types import ModuleType

    from firststep.simulation.backends import Backend, Place
    from firststep.simulation.data.rows import Data, Predictions
    from firststep.simulation.design import Design, Targets
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
    turned = ("update_alignment",) if design.optimizer.turns else ()
    return {
        **dict.fromkeys((*SCALARS, *turned), math.nan),
        **{name: np.full(2, np.nan) for name in PAIRS},
        **{name: np.full(1 + len(design.teacher_terms), np.nan) for name in overlaps},
    }


def test_sums(
    data: Data, direction: Float[Array, " d"], predictions: Predictions, columns: int
) -> tuple[Array, ...]:
    """Sums over the test set: e^2, e^4, and by bins of kappa the count, prediction and teacher.

    Beyond ridge regression on real labels also those of ``_more_sums``.
    """
    if not data.design.targets.is_plain:
        return _more_sums(data, direction, predictions, columns)
    design, backend, bins = data.design, data.backend, len(KAPPA_CENTERS)

    def add_block(carry: tuple[Any, ...], start: Place, count: int) -> tuple[Any, ...]:
        inputs = data.inputs("test", start, count)
        truth = data.clean_labels(inputs)
        predicted = predictions(inputs, start, count)
        square = (predicted - truth[:, None]) ** 2
        inside = kappa_indicators(inputs @ direction, backend.xp, backend.dtype)
        new = _block_sums(square, inside, predicted, truth)
        return tuple(old + more for old, more in zip(carry, new, strict=True))

    zero = tuple(map(backend.zeros, ((columns,), (columns,), (bins,), (bins, columns), (bins,))))
    return backend.fold(add_block, zero, design.test_samples, design.block)


def _block_sums(
    square: Float[Array, "count ridges"],
    inside: Float[Array, "count bins"],
    predicted: Float[Array, "count ridges"],
    truth: Float[Array, " count"],
) -> tuple[Array, ...]:
    """Of a block: e^2, e^4, and by bins of kappa the count, prediction and teacher."""
    return (
        square.sum(axis=0),
        (square**2).sum(axis=0),
        inside.sum(axis=0),
        inside.T @ predicted,
        inside.T @ truth,
    )


def _more_sums(
    data: Data, direction: Float[Array, " d"], predictions: Predictions, columns: int
) -> tuple[Array, ...]:
    """The same, then l(y, f), the 0-1 error, f u, f^2 and u^2, u = <x, theta>.

    Binary labels of the test set are not drawn: all is averaged over y with P(y = 1 | x), and the
    teacher is E[y | x]. Of real labels the noise is drawn, but for the square loss.
    """
    design, backend, bins = data.design, data.backend, len(KAPPA_CENTERS)
    targets, noise = design.targets, data.replicate.noise
    is_binary, is_square = targets.labels.is_binary, targets.loss.name == "square"
    errors = None if is_binary or is_square else data.errors("test", design.test_samples)
    theta = first_direction(data.teacher)

    def add_block(carry: tuple[Any, ...], start: Place, count: int) -> tuple[Any, ...]:
        inputs = data.inputs("test", start, count)
        truth, predicted = data.clean_labels(inputs), predictions(inputs, start, count)
        if is_binary:
            up = data.chances(truth)[:, None]
            ones, wrong = backend.xp.ones_like(predicted), half_step(-predicted, backend.xp)
            square = (2 * up - 1 - predicted) ** 2  # against E[y | x], as the theory has it
            loss = up * targets.loss.value(ones, predicted)
            loss = loss + (1 - up) * targets.loss.value(-ones, predicted)
            wrong = up * wrong + (1 - up) * (1 - wrong)
            truth = 2 * up[:, 0] - 1
        else:
            square, wrong = (predicted - truth[:, None]) ** 2, backend.xp.zeros_like(predicted)
            if errors is None:
                loss = square + noise**2 * targets.noise_law.second_moment
            else:
                labels = data.labels_of(truth, backend.slice(errors, start, count))
                loss = targets.loss.value(labels[:, None], predicted)
        inside = kappa_indicators(inputs @ direction, backend.xp, backend.dtype)
        u = inputs @ theta
        new = (
            *_block_sums(square, inside, predicted, truth),
            loss.sum(axis=0),
            wrong.sum(axis=0),
            u @ predicted,
            (predicted**2).sum(axis=0),
            (u @ u)[None],
        )
        return tuple(old + more for old, more in zip(carry, new, strict=True))

    one = (columns,)
    shapes = (one, one, (bins,), (bins, columns), (bins,), one, one, one, one, (1,))
    return backend.fold(
        add_block, tuple(map(backend.zeros, shapes)), design.test_samples, design.block
    )


def half_step(x: Float[Array, "*s"], xp: ModuleType) -> Float[Array, "*s"]:
    """1 above zero, 0 below, one half at zero: a prediction of exactly 0 is half an error."""
    return (1 + xp.sign(x)) / 2


def training_sums(
    targets: Targets,
    labels: Float[Array, " n"],
    predicted: Float[Array, "n ridges"],
    xp: ModuleType,
) -> tuple[Array, Array]:
    """Sums of l(y, f) and of the 0-1 error over samples of the fit."""
    y = labels[:, None]
    return targets.loss.value(y, predicted).sum(axis=0), half_step(-y * predicted, xp).sum(axis=0)


def finish_training(
    sums: tuple[Array, ...], design: Design, backend: Backend
) -> dict[str, Float[Array, " ridges"]]:
    """Their means by name; there is no 0-1 error of real labels."""
    loss, wrong = (backend.to_host(each).astype(float) / design.sizes.samples for each in sums)
    rate = {"training_error_rate": wrong} if design.targets.labels.is_binary else {}
    return {"training_loss": loss, **rate}


def finish_test(sums: tuple[Array, ...], design: Design, backend: Backend) -> Measured:
    """Risk, its test-set standard error, and the learned and target functions by bins of kappa."""
    samples = design.test_samples
    square, fourth, counts, predicted, truth, *more = (
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
    found = dict(
        risk=risk,
        risk_test_error=np.sqrt(variance / max(samples - 1, 1)),
        learned_function=learned.T,
        target_function=target,
        kappa_counts=counts,
    )
    if not more:
        return found
    loss, wrong, along, size, spread = (each / samples for each in more)
    if design.inputs.has_unit_covariance or design.overlaps is not None:
        spread = np.ones(1)
    if not np.all(np.isfinite(loss)):
        raise NotConverged("the test loss is not finite: the predictions overflow")
    with np.errstate(invalid="ignore", divide="ignore"):
        found |= dict(test_loss=loss, output_alignment=along / np.sqrt(size * spread))
    return {**found, "error_rate": wrong} if design.targets.labels.is_binary else found
