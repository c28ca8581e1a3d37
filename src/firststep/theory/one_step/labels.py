"""The law of a label of the gradient step, as a small matrix-valued quadrature.

The pair (yhat, G), yhat = s*(G) + noise eps - offset with G, eps ~ N(0, 1), enters the theory only
through E[G^a f(yhat)] with a = 0, 1, 2 and f rational: its poles lie around the origin, no nearer
than a width known from the step. The compression of multiplication by yhat to the space spanned by
{1, G} times

    1, y, y^2, ...   and   1/(1 + y^2/w^2)^b, y/(1 + y^2/w^2)^b,

w on a ladder from that width up to the size of yhat, has eigenvalues y_j and eigenvectors that
give weights with E[G^a f(yhat)] = sum_j w^a_j f(y_j), exactly for products of two of these
functions (a rational Gauss rule) and to many digits for all f with poles in that range.
Polynomials alone would need thousands of nodes for long steps on few samples.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from firststep.activations import Activation
from firststep.numerics.batches import joined, take
from firststep.numerics.linear_algebra import tall_qr
from firststep.numerics.quadrature import REACH, gaussian_panels, panels
from firststep.numerics.threads import one_thread

if TYPE_CHECKING:
    from firststep.typing import Array, Float

Mixture: TypeAlias = tuple[tuple[float, float], ...]  # weights and standard deviations of Gaussians

_RATIO = 3.0  # of neighbouring rungs of the ladder of widths
# The last rung, in sizes of yhat: of a Gaussian noise, and of one with labels far beyond the size.
TOP, _MIXED_TOP = 4.0, 40.0
_NODES = 10  # of a Gauss-Legendre panel
_MIXED_NODES = 8  # of a panel of the errors of a mixture, which are twice as long from 0 outwards
ERRORS = 53  # nodes of eps where nothing is narrow
NEGLIGIBLE = 1e-20  # mass of a point
_DEPENDENT = 1e-9  # a function that adds less than this of itself to the span is left out
_MOST_ZEROS = 20  # of the label, towards which panels are graded


class LabelRule(NamedTuple):
    """Nodes and weights, and how they move with the noise."""

    nodes: Float[Array, " J"]  # y
    weights: Float[Array, "3 J"]  # w
    nodes_by_noise: Float[Array, " J"]
    weights_by_noise: Float[Array, "3 J"]


class _Points(NamedTuple):
    """Points (yhat, G, eps) with masses."""

    label: Float[Array, " points"]
    direction: Float[Array, " points"]
    error: Float[Array, " points"]
    mass: Float[Array, " points"]

    def heavier_than(self, least: float) -> _Points:
        return take(self, self.mass > least)

    def seen_by_moments(self, least: float) -> _Points:
        """Those that the first six moments can tell, however light."""
        size = math.sqrt(float(np.sum(self.mass * self.label**2)))
        return take(self, self.mass * (1 + (self.label / max(size, 1e-300)) ** 6) > least)


@lru_cache(maxsize=256)
def label_rule(
    teacher: Activation, offset: float, noise: float, width: float, detail: int
) -> LabelRule:
    """The rule for poles no nearer to zero than about ``width``; more nodes with more ``detail``.

    With the space held fixed, d/dnoise of the compressed yhat is the compressed eps; nodes and
    weights follow by perturbation. One BLAS thread, so that a rule that is kept has the same last
    digit wherever it was made.
    """
    return _label_rule(_fine_law(teacher, offset, noise, width), width, detail)


@lru_cache(maxsize=64)
def mixed_label_rule(
    teacher: Activation, offset: float, noise: Mixture, width: float, detail: int
) -> LabelRule:
    """The same where the noise is a mixture of Gaussians (weight, standard deviation); how it moves
    with the noise is not known.
    """
    return _label_rule(_mixed_law(teacher, offset, noise, width), width, detail, _MIXED_TOP)


@one_thread
def _label_rule(points: _Points, width: float, detail: int, top: float = TOP) -> LabelRule:
    label, direction, error, mass = points
    root = np.sqrt(mass)
    size = math.sqrt(float(np.sum(mass * label**2)))
    if size == 0:
        alone = np.array([[1.0], [0.0], [1.0]])
        return LabelRule(np.zeros(1), alone, np.zeros(1), np.zeros((3, 1)))
    functions = powers_and_bumps(label, size, (width, top * size), detail)
    columns = np.stack([root * f * g for f in functions for g in (1.0, direction)], axis=1)
    found = Compression.of(columns, label, error, size)
    one, g = found.components(root), found.components(root * direction)
    nodes, moved, turn = found.nodes, found.moved, found.turn
    by_one, by_g = turn @ one, turn @ g
    return LabelRule(
        nodes=nodes,
        weights=np.stack([one**2, one * g, g**2]),
        nodes_by_noise=np.diagonal(moved).copy(),
        weights_by_noise=np.stack([2 * one * by_one, by_one * g + one * by_g, 2 * g * by_g]),
    )


class Compression(NamedTuple):
    """Multiplication by yhat on a span of functions: its eigenvalues, and the way there."""

    nodes: Float[Array, " J"]
    basis: Float[Array, "points columns"]  # orthonormal
    onto: Float[Array, "columns J"]  # eigenvectors in that basis
    moved: Float[Array, "J J"]  # the compressed eps
    turn: Float[Array, "J J"]  # of the eigenvectors, by the noise

    @classmethod
    def of(
        cls,
        columns: Float[Array, "points columns"],
        label: Float[Array, " points"],
        error: Float[Array, " points"],
        size: float,
    ) -> Compression:
        """On the span of the columns, functions times the roots of the masses; ``size`` of yhat."""
        # An orthonormal basis of the span, by QR and the singular values of R.
        columns /= np.linalg.norm(columns, axis=0)
        q, upper = tall_qr(columns)
        left, sizes, _ = np.linalg.svd(upper)
        left = left[:, sizes > _DEPENDENT]
        nodes, vectors = np.linalg.eigh(left.T @ (q.T @ (label[:, None] * q)) @ left)
        onto = left @ vectors
        moved = onto.T @ (q.T @ (error[:, None] * q)) @ onto
        gaps = nodes[:, None] - nodes[None, :]
        apart = np.abs(gaps) > _DEPENDENT * size
        turn = np.where(apart, moved / np.where(gaps == 0, 1.0, gaps), 0.0)
        np.fill_diagonal(turn, 0.0)
        return cls(nodes, q, onto, moved, turn)

    def components(self, column: Float[Array, " points"]) -> Float[Array, " J"]:
        """<f, l> of a function times the roots of the masses."""
        return (column @ self.basis) @ self.onto


def powers_and_bumps(
    label: Float[Array, " points"], size: float, ladder: tuple[float, float], detail: int
) -> list[Float[Array, " points"]]:
    """The powers and the bumps of the module's docstring, on a ladder between two widths."""
    functions = [np.ones_like(label)]
    functions += [(label / size) ** power for power in range(1, 3 + detail)]
    rung = min(max(ladder[0], 1e-4 * size), 3 * size)
    while rung < ladder[1]:
        bump = 1 / (1 + (label / rung) ** 2)
        for order in range(1, detail + 2):
            functions += [bump**order, bump**order * label / rung]
        rung *= _RATIO
    return functions


def _fine_law(teacher: Activation, offset: float, noise: float, width: float) -> _Points:
    """Many points: fine enough for functions of yhat that vary over ``width`` near zero."""
    z, mass = _teacher_grid(teacher, offset, max(width, noise))
    target = teacher.evaluate(z) - offset
    if noise == 0:
        return _Points(target, z, np.zeros(z.size), mass).heavier_than(1e-2 * NEGLIGIBLE)
    near = np.abs(target) < (REACH + 1) * noise if width < noise else np.zeros(z.shape, bool)
    eps = np.linspace(-REACH, REACH, ERRORS)
    density = np.exp(-(eps**2) / 2)
    every = np.broadcast_to(eps, (int((~near).sum()), eps.size))
    points = (target, z, mass)
    parts = [_crossed(take(points, ~near), noise, every, density / density.sum())]
    if near.any():
        errors, density = graded_errors(target[near], noise, width)
        parts.append(_crossed(take(points, near), noise, errors, density))
    return joined(parts).heavier_than(NEGLIGIBLE)


def _crossed(
    points: tuple[Float[Array, " z"], Float[Array, " z"], Float[Array, " z"]],
    noise: float,
    errors: Float[Array, "z eps"],
    error_mass: Float[Array, "*z eps"],
) -> _Points:
    """Every point (s* - offset, G, mass) of the teacher with its own errors."""
    target, z, mass = points
    return _Points(
        label=(target[:, None] + noise * errors).ravel(),
        direction=np.repeat(z, errors.shape[1]),
        error=errors.ravel(),
        mass=(mass[:, None] * error_mass).ravel(),
    )


def graded_errors(
    target: Float[Array, " z"], noise: float, width: float
) -> tuple[Float[Array, "z eps"], Float[Array, "z eps"]]:
    """Gauss-Legendre panels in eps, graded towards the zero of the label, with masses."""
    steps = width / noise * 2.0 ** np.arange(math.ceil(math.log2(2 * REACH * noise / width)))
    offsets = np.concatenate([-steps[::-1], [0.0], steps])
    fixed = np.arange(-REACH, REACH + 0.5, 1.7)
    centre = (-target / noise)[:, None]
    everywhere = np.broadcast_to(fixed, (centre.size, fixed.size))
    edges = np.sort(np.concatenate([centre + offsets, everywhere], axis=1), axis=1)
    return gaussian_panels(np.clip(edges, -REACH, REACH), _NODES)


def _mixed_law(teacher: Activation, offset: float, noise: Mixture, width: float) -> _Points:
    """The same for a mixture: every point of the teacher with panels in the error e.

    They are graded towards e = 0, from the narrowest Gaussian to the ends of the broadest, and
    towards the zero of the label; one of no width is the error 0.
    """
    z, mass = _teacher_grid(teacher, offset, max(width, min(scale for _, scale in noise)))
    target = teacher.evaluate(z) - offset
    still = sum(weight for weight, scale in noise if scale == 0)
    broad = [(weight, scale) for weight, scale in noise if scale > 0]
    parts = [_Points(target, z, np.zeros(z.size), still * mass)] if still else []
    if broad:
        errors, density = _mixed_errors(target, broad, width)
        parts.append(_crossed((target, z, (1 - still) * mass), 1.0, errors, density))
    points = joined(parts)
    unknown = np.full_like(points.error, np.nan)
    return points._replace(error=unknown).seen_by_moments(NEGLIGIBLE)


def _mixed_errors(
    target: Float[Array, " z"], broad: list[tuple[float, float]], width: float
) -> tuple[Float[Array, "z e"], Float[Array, "z e"]]:
    """Panels of e for every target, and their masses."""
    weights, scales = np.array(broad).T
    furthest = REACH * scales.max()
    octaves = math.ceil(math.log2(furthest / scales.min()))
    fixed = furthest * 2.0 ** -np.arange(octaves + 1)
    reach = min(furthest, 4 * float(np.abs(target).max()) + width)  # beyond, e itself is the label
    near = width * 2.0 ** np.arange(max(math.ceil(math.log2(2 * reach / width)), 0))
    around = np.concatenate([-near[::-1], [0.0], near])
    everywhere = np.concatenate([-fixed, [0.0], fixed[::-1]])
    every = np.broadcast_to(everywhere, (target.size, everywhere.size))
    edges = np.sort(np.concatenate([around - target[:, None], every], axis=1), axis=1)
    errors, lengths = panels(np.clip(edges, -furthest, furthest), _MIXED_NODES)
    density = np.zeros_like(errors)
    for weight, scale in zip(weights, scales, strict=True):
        density += weight / scale * np.exp(-np.minimum((errors / scale) ** 2, 1400) / 2)
    found = lengths * density
    return errors, found / found.sum(1, keepdims=True)


def _teacher_grid(
    teacher: Activation, offset: float, width: float
) -> tuple[Float[Array, " z"], Float[Array, " z"]]:
    """Panels for N(0, 1), split at the kinks and graded towards the points where s* = offset."""
    scan = np.linspace(-REACH, REACH, 1701)
    gap = np.abs(teacher.evaluate(scan) - offset)
    here, before, after = gap[1:-1], gap[:-2], gap[2:]
    lowest = np.flatnonzero((here <= before) & (here < after) & (here < 3 * width + 0.02)) + 1
    kinks = np.array([k for k in teacher.kinks if abs(k) < REACH], float)
    edges = [np.arange(-REACH, REACH + 0.1, 0.85), kinks]
    for place in lowest[:_MOST_ZEROS]:
        around = np.diff(gap[max(place - 3, 0) : place + 4])
        scale = width / max(np.max(np.abs(around)) * 100, 1e-3)  # the scan has 100 points a unit
        if scale < 0.5:
            steps = scale * 2.0 ** np.arange(math.ceil(math.log2(1 / scale)))
            edges.append(scan[place] + np.concatenate([-steps[::-1], [0.0], steps]))
    cuts = np.unique(np.clip(np.concatenate(edges), -REACH, REACH))
    return gaussian_panels(cuts, _NODES)
