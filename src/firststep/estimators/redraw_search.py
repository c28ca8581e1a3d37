"""What ``redraws`` is to do, chosen by the error on rows held out.

1. Without a redraw: the best ridge.
2. One redraw with all of M and one with its diagonal, each with its best ridge; the better goes on.
3. Redraws until one gains less than half a per cent, six at most; the number with the least error.
4. The scale a, doubled or halved from 1 while that pays; at a new one also without redraws.
5. If all this is hardly better than the means, the largest ridge without redraws.

A ridge is found by walking on the path from the last one. With few rows, several parts are held out
in turn and their errors added; each part has layers of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.errors import NotConverged
from firststep.estimators.fits import OVERFLOW
from firststep.estimators.redraws import Network, Plan, Sample, folds, learned_root

if TYPE_CHECKING:
    from firststep.estimators.redraws import Root
    from firststep.typing import Array, Float, Int

    Parts = list[tuple[Sample, Sample]]  # rows to fit and rows held out

# These numbers, too, were chosen on the first set of data of docs/estimators.md.
MOST = 6  # redraws
GAIN = 0.995  # the error of a redraw over the least before it, above which no other is made
HELD = 0.2  # share of the rows that are held out
# Where the best error is within this share, over the rows held out, of that of the means, it may be
# luck: the square of a t statistic of 2.4, which the best of some forty fits to noise reaches.
DOUBT = 6.0
START, STRIDE = 8, 4  # where the first walk begins on the path, and how it does
SCALES = (0.03, 64.0)  # a stays between


class Searched(NamedTuple):
    """A plan and, for every part, the root R of its layer."""

    plan: Plan
    roots: list[Root]


def search(network: Network, parts: Parts) -> Searched:
    """The number of redraws, all of M or its diagonal, the scale and the ridges."""
    columns = parts[0][0].inputs.shape[1]
    start = [np.eye(columns) / math.sqrt(columns) for _ in parts]
    first = Look(network, parts, start, 1.0)
    first.walk(min(START, network.ridges - 1), STRIDE)
    lines = [
        Line(first, is_diagonal) for is_diagonal in ((False, True) if columns > 1 else (True,))
    ]
    for each in lines:
        each.extend()
    line = min(lines, key=lambda each: min(each.errors))
    while len(line.errors) <= MOST and line.errors[-1] <= GAIN * min(line.errors[:-1]):
        line.extend()
    best = int(np.argmin(line.errors))
    plan = Plan(
        ridges=tuple(line.places[: best + 1]),
        is_diagonal=line.is_diagonal,
        scale=1.0,
        errors=tuple(line.errors),
        error=line.errors[best],
    )
    plan = _scaled(network, parts, plan, line)
    rows = sum(test.total for _, test in parts)
    if not plan.error * (1 + DOUBT / rows) < constant_error(parts):
        plan = replace(plan, ridges=(network.ridges - 1,), scale=1.0, error=line.errors[0])
    return Searched(plan, line.roots[plan.redraws])


def constant_error(parts: Parts) -> float:
    """The error of the means."""
    square = total = 0.0
    for train, test in parts:
        mean = train.weights @ train.targets / train.total
        square += float(test.weights @ ((test.targets - mean) ** 2).sum(axis=1))
        total += test.total
    return square / total


def held_out(
    sample: Sample, rng: np.random.Generator, classes: Int[Array, " n"] | None = None
) -> Parts:
    """Pairs of rows to fit and rows held out: of every class its share, where there are classes."""
    count = len(sample.inputs)
    order = rng.permutation(count)
    parts = folds(count)
    pieces = min(count, max(parts, round(1 / HELD)))
    if classes is None:
        held = np.array_split(order, pieces)[:parts]
    else:
        dealt = order[np.argsort(classes[order], kind="stable")]
        held = [dealt[place::pieces] for place in range(parts)]
    found = []
    for piece in held:
        fitted = np.ones(count, dtype=bool)
        fitted[piece] = False
        found.append((sample.at(np.flatnonzero(fitted)), sample.at(piece)))
    return found


def walk(error: Callable[[int], float], start: int, stride: int, count: int) -> tuple[int, float]:
    """The place among ``count`` with the least error, downhill from ``start`` in shorter and
    shorter strides, and that error.
    """
    seen: dict[int, float] = {}

    def at(place: int) -> float:
        if place not in seen:
            seen[place] = error(place)
        return seen[place]

    here = start
    at(here)
    while True:
        better = [
            place
            for place in (here - stride, here + stride)
            if 0 <= place < count and at(place) < at(here)
        ]
        if better:
            here = better[0]
        elif stride == 1:
            return here, at(here)
        else:
            stride = max(1, stride // 2)


class Look:
    """One layer tried on every part."""

    def __init__(self, network: Network, parts: Parts, roots: list[Root], scale: float) -> None:
        self.network, self.parts, self.roots = network, parts, roots
        width = network.widths.search
        self._layers = [network.weights(root, scale, width) for root in roots]
        self._fits = [
            network.ridge(train, weights)
            for (train, _), weights in zip(parts, self._layers, strict=True)
        ]
        self._held = [
            network.features(test.inputs, weights) - fit.centre
            for (_, test), weights, fit in zip(parts, self._layers, self._fits, strict=True)
        ]
        self._known: dict[int, list[Float[Array, "N T"] | None]] = {}
        self.place, self.error = 0, math.inf

    def walk(self, start: int, stride: int) -> None:
        """Find the best ridge."""
        self.place, self.error = walk(self._error, start, stride, self.network.ridges)
        self._held = []
        if not math.isfinite(self.error):
            raise NotConverged(OVERFLOW)

    def _solutions(self, place: int) -> list[Float[Array, "N T"] | None]:
        if place not in self._known:
            penalty = self.network.penalty
            self._known[place] = [
                fit.solve(penalty(fit, place, train.total))
                for fit, (train, _) in zip(self._fits, self.parts, strict=True)
            ]
        return self._known[place]

    def _error(self, place: int) -> float:
        """Mean squared error on the rows held out, summed over the outputs."""
        square = total = 0.0
        for found, features, fit, (_, test) in zip(
            self._solutions(place), self._held, self._fits, self.parts, strict=True
        ):
            if found is None:
                return math.inf
            apart = test.targets - fit.offset - features @ found
            square += float(test.weights @ (apart**2).sum(axis=1))
            total += test.total
        return square / total if math.isfinite(square) else math.inf

    def learned(self, is_diagonal: bool) -> list[Root]:
        """R of every part after another redraw."""
        lower = self.network.lower(self.place, is_diagonal)
        found = []
        for number, (train, _) in enumerate(self.parts):
            readout = self._solutions(lower)[number]
            if readout is None:
                readout = self._solutions(self.place)[number]
            assert readout is not None, "its error is finite"
            moments = self.network.moments(train, self._layers[number], readout)
            found.append(learned_root(moments, train.total, is_diagonal))
        return found


@dataclass
class Line:
    """Redraws one after the other; only the last layer is kept, of the others what was found."""

    last: Look
    is_diagonal: bool

    def __post_init__(self) -> None:
        self.errors, self.places = [self.last.error], [self.last.place]
        self.roots = [self.last.roots]

    def extend(self) -> None:
        """Another redraw."""
        before = self.last
        self.last = Look(before.network, before.parts, before.learned(self.is_diagonal), 1.0)
        self.last.walk(before.place, 1)
        self.errors.append(self.last.error)
        self.places.append(self.last.place)
        self.roots.append(self.last.roots)


def _scaled(network: Network, parts: Parts, plan: Plan, line: Line) -> Plan:
    """The scale: halved or doubled while that pays; then without redraws at the new one."""
    for factor in (0.5, 2.0):
        while SCALES[0] < plan.scale * factor < SCALES[1]:
            look = Look(network, parts, line.roots[plan.redraws], plan.scale * factor)
            look.walk(plan.ridges[-1], 1)
            if not look.error < plan.error:
                break
            ridges = (*plan.ridges[:-1], look.place)
            plan = replace(plan, ridges=ridges, scale=plan.scale * factor, error=look.error)
        if plan.scale != 1.0:
            break
    if plan.redraws and plan.scale != 1.0:
        look = Look(network, parts, line.roots[0], plan.scale)
        look.walk(line.places[0], 1)
        if look.error < plan.error:
            plan = replace(plan, ridges=(look.place,), error=look.error)
    return plan
