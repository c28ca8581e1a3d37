"""``steps="auto"``: the first layer drawn anew from the gradient, in turn with exact readouts.

The network is f(x) = b0 + B^T s(W^T x + c) on inputs in standard units, with W = a R Z: Z is d x N,
its columns of length chi_d and orthogonal in blocks of d (Gaussian columns, drawn more evenly),
c_i ~ N(0, biases^2), and a > 0. It starts from R = I/sqrt d, which is the initial layer of
one step. One redraw is

    M = (1/n) sum_i J_i J_i^T,    J_i = d f/d x (x_i) = W [s'(W^T x_i + c) o B],   B the ridge fit,
    R = ((1 - u) M/tr M + u I/d)^(1/2),      u = min(1/2, d/(2 n)),

so that neurons come to look where the fit depends on x. Gradient steps on W do the same slowly:
their sum spreads along the same directions (docs/estimators.md has what was tried). u takes back
the part of M that is noise: with d columns and n rows it is of the order d/n. M may be its diagonal
alone, for functions of a few columns.

How many redraws, all of M or its diagonal, the scale a, and a ridge before each redraw and for the
readout are chosen by ``redraw_search``. With few rows, f is the mean of two such networks with the
same choices, each with a Z and c of its own, redrawn and fitted on all rows. A row of weight 2
counts as two rows; squares and J_i J_i^T are summed over the outputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.errors import NotConverged
from firststep.estimators.fits import OVERFLOW
from firststep.estimators.weighted_ridge import WeightedRidge

if TYPE_CHECKING:
    from firststep.activations import Activation
    from firststep.typing import Array, Float

    Root = Float[Array, "d d"]  # R

# These numbers were chosen on the first set of data of docs/estimators.md.
SHRINK = 0.5
# A redraw learns from a fit with a thirtieth of the ridge that predicts best, which sees weak
# directions too; along single columns that is not needed.
LESS = 3
ROWS = 900  # held out in turn in several parts while the rows are fewer than about so many
FOLDS = 5  # parts at most
FEW = 300  # rows below which two layers are averaged; with more the second costs too much time
RIDGES = 10.0 ** np.arange(-5, 3.01, 0.5)  # in units of WeightedRidge.unit


class Sample(NamedTuple):
    """Rows in standard units and what each counts."""

    inputs: Float[Array, "n d"]
    targets: Float[Array, "n T"]
    weights: Float[Array, " n"]

    @property
    def total(self) -> float:
        return float(self.weights.sum())

    def at(self, rows: Array) -> Sample:
        return Sample(self.inputs[rows], self.targets[rows], self.weights[rows])


class Draw(NamedTuple):
    """Z and c, of the widest layer; the first columns are those of narrower ones."""

    directions: Float[Array, "d N"]
    biases: Float[Array, " N"]


def folds(rows: int) -> int:
    """Parts that are held out, one after the other."""
    return min(max(1, round(ROWS / rows)), FOLDS, rows)


@dataclass(frozen=True)
class Widths:
    """Neurons while it is searched, between the redraws of the last fit, and of its readout."""

    search: int
    redraws: int
    readout: int
    layers: int = 1  # networks that are averaged

    @classmethod
    def auto(cls, rows: int) -> Widths:
        """2000 neurons; the search takes as many as there are rows, from 500 to 1000, and where
        several parts are held out in turn that many times fewer, but 500: with 250 it often missed
        what 200 rows say. With few rows, two layers of 2000 each.
        """
        search = min(1000, max(500, rows // folds(rows)))
        return cls(search, min(1000, max(500, rows)), 2000, 2 if rows < FEW else 1)

    @classmethod
    def of_classes(cls, rows: int) -> Widths:
        """Four neurons a row, from 500 to 2000, and half as many at least in the search: for
        classes more made no difference beyond chance.
        """
        search = min(1000, max(250, rows // folds(rows)))
        return cls(search, min(1000, max(250, rows)), min(2000, max(500, 4 * rows)))

    @classmethod
    def given(cls, width: int) -> Widths:
        return cls(min(width, 1000), min(width, 1000), width)


@dataclass(frozen=True)
class Plan:
    """What is to be done on all rows."""

    ridges: tuple[int, ...]  # places on the path, for each redraw and then for the readout
    is_diagonal: bool
    scale: float
    errors: tuple[float, ...]  # held out, after 0, 1, 2 ... redraws at scale 1
    error: float  # of the plan itself

    @property
    def redraws(self) -> int:
        return len(self.ridges) - 1


class Layer(NamedTuple):
    """What a fit gives: W, R R^T of the root R that it was drawn with, and the readout."""

    weights: Float[Array, "d N"]
    moments: Float[Array, "d d"]
    readout: Float[Array, "N T"]
    centre: Float[Array, " N"]
    offset: Float[Array, " T"]
    penalty: float


def orthogonal_draw(rng: np.random.Generator, columns: int, width: int, biases: float) -> Draw:
    """Z in blocks of orthogonal columns of length chi_d, and c."""
    count = math.ceil(width / columns)
    normal, squares = np.empty((count, columns, columns)), np.empty((count, columns))
    for place in range(count):
        normal[place] = rng.standard_normal((columns, columns))
        squares[place] = rng.chisquare(columns, columns)
    turned, upper = np.linalg.qr(normal)
    signs = np.where(np.diagonal(upper, axis1=1, axis2=2) < 0, -1.0, 1.0)
    turned *= (signs * np.sqrt(squares))[:, None]
    directions = turned.transpose(1, 0, 2).reshape(columns, -1)[:, :width]
    return Draw(np.ascontiguousarray(directions), biases * rng.standard_normal(width))


def learned_root(moments: Float[Array, "d d"], count: float, is_diagonal: bool) -> Root:
    """R of M = ``moments`` from ``count`` rows."""
    columns = len(moments)
    share = min(0.5, SHRINK * columns / count)
    trace = float(np.trace(moments))
    even = np.eye(columns) / columns
    if not trace > 0:
        return np.sqrt(even)
    mixed = (1 - share) * moments / trace + share * even
    if is_diagonal:
        return np.diag(np.sqrt(np.diag(mixed)))
    values, vectors = np.linalg.eigh(mixed)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def averaged(layers: list[Layer]) -> Layer:
    """The mean of networks fitted on the same rows, as one layer with all their neurons."""
    if len(layers) == 1:
        return layers[0]
    return Layer(
        weights=np.concatenate([each.weights for each in layers], axis=1),
        moments=np.mean([each.moments for each in layers], axis=0),
        readout=np.concatenate([each.readout for each in layers]) / len(layers),
        centre=np.concatenate([each.centre for each in layers]),
        offset=layers[0].offset,  # the mean of the targets, in all of them
        penalty=float(np.mean([each.penalty for each in layers])),
    )


class Network:
    """The layers of one fit for every R and scale."""

    def __init__(
        self, student: Activation, draw: Draw, widths: Widths, ridges: Array | None = None
    ) -> None:
        self.student, self.draw, self.widths = student, draw, widths
        self._given = None if ridges is None else np.sort(ridges)

    def other(self, draw: Draw) -> Network:
        """The same with another Z and c."""
        return Network(self.student, draw, self.widths, self._given)

    @property
    def ridges(self) -> int:
        """How many there are to choose from, from the smallest to the largest."""
        return len(RIDGES if self._given is None else self._given)

    def weights(self, root: Root, scale: float, width: int) -> Float[Array, "d N"]:
        return scale * root @ self.draw.directions[:, :width]

    def _before(
        self, inputs: Float[Array, "n d"], weights: Float[Array, "d N"]
    ) -> Float[Array, "n N"]:
        found = inputs @ weights
        found += self.draw.biases[: weights.shape[1]]
        return found

    def features(
        self, inputs: Float[Array, "n d"], weights: Float[Array, "d N"]
    ) -> Float[Array, "n N"]:
        """s(X W + c)."""
        return self.student.evaluate(self._before(inputs, weights))

    def ridge(self, sample: Sample, weights: Float[Array, "d N"]) -> WeightedRidge:
        found = WeightedRidge(self.features(sample.inputs, weights), sample.targets, sample.weights)
        if not found.is_finite:
            raise NotConverged(OVERFLOW)
        return found

    def penalty(self, ridge: WeightedRidge, place: int, count: float) -> float:
        """p of ``WeightedRidge``; given ridges are those of (1/n) sum r^2 + ridge |B|^2."""
        if self._given is None:
            return float(RIDGES[place]) * ridge.unit
        return count * float(self._given[place])

    def lower(self, place: int, is_diagonal: bool) -> int:
        """The place of the ridge of the fit that a redraw learns from."""
        return place if is_diagonal or self._given is not None else max(0, place - LESS)

    def moments(
        self, sample: Sample, weights: Float[Array, "d N"], readout: Float[Array, "N T"]
    ) -> Float[Array, "d d"]:
        """sum_i v_i J_i J_i^T."""
        slope = self.student.evaluate_derivative(self._before(sample.inputs, weights))
        slope *= np.sqrt(sample.weights)[:, None]
        total = np.zeros((len(weights), len(weights)))
        for column in readout.T:
            gradients = slope @ (column[:, None] * weights.T)
            total += gradients.T @ gradients
        return total

    def root(self, sample: Sample, plan: Plan) -> Root:
        """R after the redraws of a plan on these rows."""
        columns, count = sample.inputs.shape[1], sample.total
        root = np.eye(columns) / math.sqrt(columns)
        for place in plan.ridges[:-1]:
            weights = self.weights(root, 1.0, self.widths.redraws)
            lower = self.lower(place, plan.is_diagonal)
            _, readout, _ = self._solved(sample, weights, (lower, place))
            moments = self.moments(sample, weights, readout)
            root = learned_root(moments, count, plan.is_diagonal)
        return root

    def fit(self, sample: Sample, plan: Plan) -> Layer:
        """The redraws and the readout of a plan, on these rows."""
        root = self.root(sample, plan)
        weights = self.weights(root, plan.scale, self.widths.readout)
        ridge, readout, penalty = self._solved(sample, weights, (plan.ridges[-1],))
        return Layer(weights, root @ root.T, readout, ridge.centre, ridge.offset, penalty)

    def _solved(
        self, sample: Sample, weights: Float[Array, "d N"], places: tuple[int, ...]
    ) -> tuple[WeightedRidge, Float[Array, "N T"], float]:
        """With the first of the ridges, or the next larger one, that rounding allows."""
        ridge = self.ridge(sample, weights)
        for place in (*places, *range(places[-1] + 1, self.ridges)):
            penalty = self.penalty(ridge, place, sample.total)
            found = ridge.solve(penalty)
            if found is not None:
                return ridge, found, penalty
        raise NotConverged("no ridge gave a fit that can be trusted: try larger ridges")
