"""Redraws for classes: the first layer as for numbers, the readout by a loss of classes.

The layer is that of a regression on labels +-1 in standard units (a column of the second of two
classes, a column a class of more), which asks for no fit of its own at every ridge and finds the
same directions. On it the loss is minimised with a free constant, its ridge chosen by the same loss
on the rows held out, on layers that have not seen them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.estimators.class_search import Chosen, Part, choose, make_fit, penalties
from firststep.estimators.redraw_search import held_out, search
from firststep.estimators.redrawn import Asked, Ready, Redrawn, prepared
from firststep.estimators.redraws import Layer, Widths

if TYPE_CHECKING:
    from firststep.estimators.redraw_search import Parts, Searched
    from firststep.losses import Loss
    from firststep.typing import Array, Float, Int


class Classified(NamedTuple):
    """A fit, and how its ridge was found."""

    found: Redrawn
    chosen: Chosen


def indicators(codes: Int[Array, " n"], count: int) -> Float[Array, "n K"]:
    """1 for the class of a row and 0; of two classes the column of the second alone."""
    found = (codes[:, None] == np.arange(count)).astype(float)
    return found[:, 1:] if count == 2 else found


def fit_classes(
    inputs: Float[Array, "n d"],
    labels: Float[Array, "n K"],
    weights: Float[Array, " n"],
    asked: Asked,
    loss: Loss,
) -> Classified:
    """Search and fit on all rows; ``asked.ridges`` are those of the readout."""
    asked, ridges = replace(asked, ridges=None), asked.ridges
    ready = prepared(inputs, 2 * labels - 1, weights, asked, Widths.of_classes)
    with np.errstate(all="ignore"):  # overflow is found by its results
        known = _labels(ready, ready.sample.targets)
        codes = known[:, 0] if known.shape[1] == 1 else np.argmax(known, axis=1)
        parts = held_out(ready.sample, ready.rng, codes.astype(int))
        searched = search(ready.network, parts)
        chosen = choose(_layers(ready, parts, searched), loss, ridges)
        layer = _fit(ready, searched, chosen, loss, ridges)
    found = Redrawn(layer, searched.plan, ready.network.draw, ready.units, ready.sample.total)
    return Classified(found, chosen)


def _labels(ready: Ready, targets: Float[Array, "n K"]) -> Float[Array, "n K"]:
    """Indicators from labels +-1 in standard units."""
    units = ready.units
    return (targets * units.target_scale + units.target_mean > 0).astype(float)


def _layers(ready: Ready, parts: Parts, searched: Searched) -> list[Part]:
    network, scale = ready.network, searched.plan.scale
    found = []
    for (train, test), root in zip(parts, searched.roots, strict=True):
        weights = network.weights(root, scale, network.widths.search)
        part = Part(
            features=partial(network.features, train.inputs, weights),
            labels=_labels(ready, train.targets),
            weights=train.weights,
            held=partial(network.features, test.inputs, weights),
            wanted=_labels(ready, test.targets),
            counted=test.weights,
        )
        found.append(part)
    return found


def _fit(
    ready: Ready,
    searched: Searched,
    chosen: Chosen,
    loss: Loss,
    ridges: Float[Array, " ridges"] | None,
) -> Layer:
    network, sample, plan = ready.network, ready.sample, searched.plan
    root = network.root(sample, plan)
    weights = network.weights(root, plan.scale, network.widths.readout)
    features = network.features(sample.inputs, weights)
    fit = make_fit(loss, features, _labels(ready, sample.targets), sample.weights)
    penalty = penalties(fit, ridges)[chosen.place]
    readout, constant = fit.fit(penalty)
    return Layer(weights, root @ root.T, readout, fit.centre, constant, penalty)
