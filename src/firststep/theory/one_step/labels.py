"""The law of a label of the gradient step, as a small matrix-valued quadrature.

The pair (yhat, G), yhat = s*(G) + noise eps - offset with G, eps ~ N(0, 1), enters the theory only through E[G^a f(yhat)] with
a = 0, 1, 2 and f rational: its poles lie around the origin, no nearer than a width known from the step. The compression of
multiplication by yhat to the space spanned by {1, G} times

    1, y, y^2, ...   and   1/(1 + y^2/w^2)^b, y/(1 + y^2/w^2)^b,   w on a ladder from that width up to the size of yhat,

has eigenvalues y_j and eigenvectors that give weights with E[G^a f(yhat)] = sum_j w^a_j f(y_j), exactly for products of two of
these functions (a rational Gauss rule) and to many digits for all f with poles in that range. Polynomials alone would need
thousands of nodes for long steps on few samples.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from firststep.activations import Activation
from firststep.numerics.linear_algebra import tall_qr
from firststep.numerics.quadrature import legendre
from firststep.numerics.threads import one_thread

Array = NDArray[np.float64]
_REACH = 8.5
_RATIO = 3.0  # of neighbouring rungs of the ladder of widths


class LabelRule(NamedTuple):
    """Nodes and weights, and how they move with the noise."""

    nodes: Array  # y (J)
    weights: Array  # w (3, J)
    nodes_by_noise: Array
    weights_by_noise: Array


@lru_cache(maxsize=256)
def label_rule(
    teacher: Activation, offset: float, noise: float, width: float, detail: int
) -> LabelRule:
    """The rule for poles no nearer to zero than about ``width``; ``detail`` 0, 1, 2, ...: more nodes.

    With the space held fixed, d/dnoise of the compressed yhat is the compressed eps; nodes and weights follow by perturbation.
    One BLAS thread, so that a rule that is kept has the same last digit wherever it was made.
    """
    return _label_rule(teacher, offset, noise, width, detail)


@one_thread
def _label_rule(
    teacher: Activation, offset: float, noise: float, width: float, detail: int
) -> LabelRule:
    label, direction, error, mass = _fine_law(teacher, offset, noise, width)
    root = np.sqrt(mass)
    size = math.sqrt(float(np.sum(mass * label**2)))
    if size == 0:
        return LabelRule(
            np.zeros(1), np.array([[1.0], [0.0], [1.0]]), np.zeros(1), np.zeros((3, 1))
        )
    functions = [np.ones_like(label)]
    functions += [(label / size) ** power for power in range(1, 3 + detail)]
    rung = min(max(width, 1e-4 * size), 3 * size)
    while rung < 4 * size:
        bump = 1 / (1 + (label / rung) ** 2)
        for order in range(1, detail + 2):
            functions += [bump**order, bump**order * label / rung]
        rung *= _RATIO
    # An orthonormal basis of the span, by QR and the singular values of R; what adds less than 1e-9 of itself is left out.
    columns = np.stack([root * f * g for f in functions for g in (1.0, direction)], axis=1)
    columns /= np.linalg.norm(columns, axis=0)
    q, upper = tall_qr(columns)
    left, sizes, _ = np.linalg.svd(upper)
    left = left[:, sizes > 1e-9]
    nodes, vectors = np.linalg.eigh(left.T @ (q.T @ (label[:, None] * q)) @ left)
    onto = left @ vectors
    constant, linear = (root @ q) @ onto, ((root * direction) @ q) @ onto
    moved = onto.T @ (q.T @ (error[:, None] * q)) @ onto
    gaps = nodes[:, None] - nodes[None, :]
    turn = np.where(np.abs(gaps) > 1e-9 * size, moved / np.where(gaps == 0, 1.0, gaps), 0.0)
    np.fill_diagonal(turn, 0.0)
    by_constant, by_linear = turn @ constant, turn @ linear
    weights = np.stack([constant**2, constant * linear, linear**2])
    by_noise = np.stack(
        [
            2 * constant * by_constant,
            by_constant * linear + constant * by_linear,
            2 * linear * by_linear,
        ]
    )
    return LabelRule(nodes, weights, np.diagonal(moved).copy(), by_noise)


def _fine_law(
    teacher: Activation, offset: float, noise: float, width: float
) -> tuple[Array, Array, Array, Array]:
    """Many points (yhat, G, eps) with masses: fine enough for functions of yhat that vary over ``width`` near zero."""
    z, mass = _teacher_grid(teacher, offset, max(width, noise))
    target = teacher.evaluate(z) - offset
    if noise == 0:
        keep = mass > 1e-22
        return target[keep], z[keep], np.zeros(int(keep.sum())), mass[keep]
    eps = np.linspace(-_REACH, _REACH, 53)
    eps_mass = np.exp(-(eps**2) / 2)
    eps_mass /= eps_mass.sum()
    if width < noise:
        near = np.abs(target) < (_REACH + 1) * noise
    else:
        near = np.zeros(target.shape, bool)
    far = ~near
    labels = [(target[far, None] + noise * eps).ravel()]
    directions = [np.repeat(z[far], eps.size)]
    errors = [np.tile(eps, int(far.sum()))]
    masses = [(mass[far, None] * eps_mass).ravel()]
    if near.any():
        steps = width / noise * 2.0 ** np.arange(math.ceil(math.log2(2 * _REACH * noise / width)))
        offsets = np.concatenate([-steps[::-1], [0.0], steps])
        fixed = np.arange(-_REACH, _REACH + 0.5, 1.7)
        centre = (-target[near] / noise)[:, None]
        edges = np.sort(
            np.concatenate(
                [centre + offsets, np.broadcast_to(fixed, (centre.size, fixed.size))], axis=1
            ),
            axis=1,
        )
        edges = np.clip(edges, -_REACH, _REACH)
        unit, unit_mass = legendre(10)
        half = np.diff(edges, axis=1)[:, :, None] / 2
        nodes = ((edges[:, :-1] + edges[:, 1:])[:, :, None] / 2 + half * unit).reshape(
            centre.size, -1
        )
        density = (
            (half * unit_mass).reshape(centre.size, -1)
            * np.exp(-(nodes**2) / 2)
            / math.sqrt(2 * math.pi)
        )
        labels.append((target[near, None] + noise * nodes).ravel())
        directions.append(np.repeat(z[near], nodes.shape[1]))
        errors.append(nodes.ravel())
        masses.append((mass[near, None] * density).ravel())
    label, direction, error, total = (
        np.concatenate(each) for each in (labels, directions, errors, masses)
    )
    keep = total > 1e-20
    return label[keep], direction[keep], error[keep], total[keep]


def _teacher_grid(teacher: Activation, offset: float, width: float) -> tuple[Array, Array]:
    """Gauss-Legendre panels for N(0, 1), split at the kinks and graded towards the points where s* = offset."""
    scan = np.linspace(-_REACH, _REACH, 1701)
    gap = np.abs(teacher.evaluate(scan) - offset)
    lowest = (
        np.flatnonzero(
            (gap[1:-1] <= gap[:-2]) & (gap[1:-1] < gap[2:]) & (gap[1:-1] < 3 * width + 0.02)
        )
        + 1
    )
    edges: list[Array] = [
        np.arange(-_REACH, _REACH + 0.1, 0.85),
        np.array([k for k in teacher.kinks if abs(k) < _REACH], float),
    ]
    for place in lowest[:20]:
        slope = max(np.max(np.abs(np.diff(gap[max(place - 3, 0) : place + 4]))) * 100, 1e-3)
        scale = width / slope
        if scale < 0.5:
            steps = scale * 2.0 ** np.arange(math.ceil(math.log2(1 / scale)))
            edges.append(scan[place] + np.concatenate([-steps[::-1], [0.0], steps]))
    cuts = np.unique(np.clip(np.concatenate(edges), -_REACH, _REACH))
    unit, unit_mass = legendre(10)
    half = np.diff(cuts)[:, None] / 2
    z = ((cuts[:-1] + cuts[1:])[:, None] / 2 + half * unit).ravel()
    return z, (half * unit_mass).ravel() * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
