"""A fit with ``steps="auto"`` from arrays to the layer in the units of the data.

Equal rows are merged into one whose weight is their sum, in an order that depends on the rows
alone: a row of weight 2 is the same as two rows, never on both sides of a split, and the order of
the rows does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firststep.errors import InvalidParameter, NotEnoughMemory
from firststep.estimators.redraw_search import held_out, search
from firststep.estimators.redraws import (
    Draw,
    Layer,
    Network,
    Plan,
    Sample,
    Widths,
    averaged,
    orthogonal_draw,
)
from firststep.estimators.targets import too_large
from firststep.simulation.backends import make_backend

if TYPE_CHECKING:
    from firststep.activations import Activation
    from firststep.typing import Array, Bool, Float

BIASES = 1.0  # their standard deviation with steps="auto"


@dataclass(frozen=True)
class Asked:
    """The arguments, checked."""

    student: Activation
    width: int | None  # None: by the rows
    biases: float
    ridges: Float[Array, " ridges"] | None
    standardize: bool
    seed: int


@dataclass(frozen=True)
class Units:
    """Means and standard deviations, and which columns are of any use."""

    varying: Bool[Array, " columns"]
    mean: Float[Array, " columns"]
    scale: Float[Array, " columns"]
    target_mean: Float[Array, " T"]
    target_scale: Float[Array, " T"]

    def placed(self, rows: Float[Array, "d ..."]) -> Float[Array, "columns ..."]:
        """Rows of the columns that vary, and 0 for the others."""
        found = np.zeros((len(self.varying), *rows.shape[1:]))
        found[self.varying] = rows
        return found


@dataclass(frozen=True)
class Redrawn:
    """What a fit gives; the layer and Z are those of the columns that vary, in standard units, and
    of all networks that are averaged.
    """

    layer: Layer
    plan: Plan
    draw: Draw
    units: Units
    total: float  # of the weights


@dataclass(frozen=True)
class Ready:
    """Distinct rows in standard units, their units, and the networks that may be drawn."""

    sample: Sample
    network: Network
    rng: np.random.Generator
    units: Units


def prepared(
    inputs: Float[Array, "n d"],
    targets: Float[Array, "n T"],
    weights: Float[Array, " n"],
    asked: Asked,
    auto: Callable[[int], Widths],
) -> Ready:
    """Rows merged and in standard units, and the draw; ``auto`` has the widths for so many rows."""
    inputs, targets, weights = merged(inputs, targets, weights)
    mean, scale, varying = _units(inputs, weights, "X")
    target_mean, target_scale, _ = _units(targets, weights, "y")
    if not asked.standardize:
        mean, scale = np.zeros_like(mean), np.ones_like(scale)
        varying = np.ones_like(varying)
    if not varying.any():
        varying = np.ones_like(varying)  # nothing to learn from: the constant is found all the same
    sample = Sample(
        ((inputs - mean) / scale)[:, varying], (targets - target_mean) / target_scale, weights
    )
    widths = auto(len(inputs)) if asked.width is None else Widths.given(asked.width)
    _check_memory(sample, widths)
    rng = np.random.default_rng(asked.seed)
    draw = orthogonal_draw(rng, int(varying.sum()), widths.readout, asked.biases)
    network = Network(asked.student, draw, widths, asked.ridges)
    return Ready(sample, network, rng, Units(varying, mean, scale, target_mean, target_scale))


def fit_redrawn(
    inputs: Float[Array, "n d"],
    targets: Float[Array, "n T"],
    weights: Float[Array, " n"],
    asked: Asked,
) -> Redrawn:
    """Search and fit on all rows."""
    ready = prepared(inputs, targets, weights, asked, Widths.auto)
    with np.errstate(all="ignore"):  # overflow is found by its results
        plan, _ = search(ready.network, held_out(ready.sample, ready.rng))
        layer, draw = _fit_layers(ready, plan, asked)
    return Redrawn(layer, plan, draw, ready.units, ready.sample.total)


def _fit_layers(ready: Ready, plan: Plan, asked: Asked) -> tuple[Layer, Draw]:
    """The plan on all rows with the draw of the search, and with others; their mean."""
    columns, widths = ready.sample.inputs.shape[1], ready.network.widths
    networks = [ready.network]
    while len(networks) < widths.layers:
        draw = orthogonal_draw(ready.rng, columns, widths.readout, asked.biases)
        networks.append(ready.network.other(draw))
    layer = averaged([each.fit(ready.sample, plan) for each in networks])
    directions, biases = zip(*(each.draw for each in networks), strict=True)
    return layer, Draw(np.concatenate(directions, axis=1), np.concatenate(biases))


def merged(
    inputs: Float[Array, "n d"], targets: Float[Array, "n T"], weights: Float[Array, " n"]
) -> tuple[Float[Array, "m d"], Float[Array, "m T"], Float[Array, " m"]]:
    """Distinct rows in their own order and the sums of their weights, in double precision."""
    used = weights > 0
    if used.sum() < 2:
        raise InvalidParameter(
            "sample_weight", "positive for at least 2 rows", f"{int(used.sum())} such rows"
        )
    both = np.concatenate([inputs[used], targets[used]], axis=1, dtype=np.float64) + 0.0
    rows, places = np.unique(both, axis=0, return_inverse=True)
    columns = inputs.shape[1]
    total = np.bincount(places.ravel(), weights=weights[used])
    return np.ascontiguousarray(rows[:, :columns]), rows[:, columns:], total


def _units(
    values: Float[Array, "n k"], weights: Float[Array, " n"], name: str
) -> tuple[Float[Array, " k"], Float[Array, " k"], Bool[Array, " k"]]:
    """Means, standard deviations (1 of a constant) and which columns are not constant."""
    with np.errstate(over="ignore", invalid="ignore"):
        share = weights / weights.sum()
        mean = share @ values
        variance = share @ (values - mean) ** 2
    if not np.all(np.isfinite(variance)):
        raise too_large(name)
    rounding = np.finfo(np.float64).eps * len(values)
    varying = variance > rounding * variance + (rounding * mean) ** 2
    return mean, np.where(varying, np.sqrt(variance), 1.0), varying


def _check_memory(sample: Sample, widths: Widths) -> None:
    rows, columns = sample.inputs.shape
    width = widths.readout
    small = min(rows, width)
    numbers = 5 * rows * width + 2 * small**2 + 4 * columns**2 + 3 * columns * width
    limit = make_backend("numpy").memory_limit()
    if limit is not None and 8 * numbers > limit:
        hint = f"the fit needs {8 * numbers / 1e9:.3g} GB and {limit / 1e9:.3g} GB is free"
        allowed = "small enough for all features of all rows to fit in memory"
        raise NotEnoughMemory("width", allowed, width, hint)


def ridge_of(found: Redrawn) -> float:
    """The penalty in the units of (1/n) sum r^2 + ridge |b|^2, b the readout of f."""
    return found.layer.penalty / found.total


def moments_of(found: Redrawn) -> Float[Array, "columns columns"]:
    """R R^T (of several layers the mean) on all columns, of trace 1: how much each is looked at."""
    product = found.layer.moments
    varying = found.units.varying
    both = np.zeros((len(varying),) * 2)
    both[np.ix_(varying, varying)] = product / np.trace(product)
    return both


def initial_of(found: Redrawn) -> Float[Array, "columns N"]:
    """Z/sqrt d, the layer without a redraw."""
    directions = found.draw.directions
    return found.units.placed(directions / math.sqrt(len(directions)))
