"""The law of a label of the step where the teacher has several terms, as a small rule.

What is needed are the weights of E[G_a G_b f(yhat)] for a, b = 0...m, G_0 = 1 and f rational. The
rule is that of ``labels`` with the span of {1, G_1, ..., G_m} times functions of yhat. It keeps the
amplitudes A_al = <G_a, l> of its nodes, of which the weights are products, w^{ab}_l = A_al A_bl.

The law of the label is built term by term. Points (y, A_0, ..., A_b) of the sum of the first b
terms and points z_j of mass p_j along the direction of the next one make the points

    y + s(z_j),   sqrt(p_j) (A_0, ..., A_b, A_0 z_j),

as terms are independent. They are too many to go on with: between two labels that are as near as
functions of the label can tell they are replaced by the few that have the same moments.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.activations import Activation
from firststep.numerics.batches import joined, take
from firststep.numerics.quadrature import REACH, gaussian_panels
from firststep.numerics.threads import one_thread
from firststep.theory.one_step.labels import (
    ERRORS,
    NEGLIGIBLE,
    TOP,
    Compression,
    graded_errors,
    powers_and_bumps,
)
from firststep.theory.teacher import TermSum

if TYPE_CHECKING:
    from firststep.typing import Array, Float

_NODES = 10  # of a panel
_PANEL = 0.85  # of a Gaussian
_RISE = 1.5  # of a term on a panel, in widths: ten Gauss nodes are then good for 1e-9
_MOST_PIECES = 24  # of a panel, where the width is tiny
_BIN = 1.5  # of labels, in widths
_GROWTH = 0.7  # of a bin, in its distance from all poles
_MOST_BINS = 250
_DEGREE = 9  # of what is kept in a bin: exact for polynomials of degree 19


class TermRule(NamedTuple):
    """Nodes and amplitudes, and how they move with the noise."""

    nodes: Float[Array, " J"]  # y
    amplitudes: Float[Array, "m1 J"]  # A_a, a = 0...m, in the rotated directions
    nodes_by_noise: Float[Array, " J"]
    amplitudes_by_noise: Float[Array, "m1 J"]


class _Atoms(NamedTuple):
    """Points of the label with amplitudes along (1, G_1', ..., G_b')."""

    label: Float[Array, " points"]
    amplitudes: Float[Array, "points directions"]


@lru_cache(maxsize=256)
@one_thread
def term_label_rule(
    teacher: TermSum, offset: float, noise: float, width: float, detail: int
) -> TermRule:
    """The rule for poles no nearer to zero than about ``width``, as ``label_rule`` is for one."""
    scale = 2.0 ** math.floor(math.log2(max(width, noise)))
    spread = 2.0 ** math.ceil(math.log2(max(noise, scale)))
    atoms = _rotated(_noiseless(teacher, offset, scale, spread), teacher)
    atoms, error = _noisy(atoms, noise, width)
    label, amplitudes = atoms
    size = math.sqrt(float(np.sum((amplitudes[:, 0] * label) ** 2)))
    if size == 0:
        return still_rule(teacher.count)
    functions = powers_and_bumps(label, size, (width, TOP * size), detail)
    columns = np.concatenate([amplitudes * f[:, None] for f in functions], axis=1)
    found = Compression.of(columns, label, error, size)
    components = np.stack([found.components(column) for column in amplitudes.T])
    return TermRule(
        nodes=found.nodes,
        amplitudes=components,
        nodes_by_noise=np.diagonal(found.moved).copy(),
        amplitudes_by_noise=components @ found.turn.T,
    )


def still_rule(count: int, label: float = 0.0) -> TermRule:
    """One label that knows nothing of the teacher: E[G_a G_b f] = delta_ab f(label)."""
    nodes, amplitudes = np.full(1 + count, label), np.eye(1 + count)
    return TermRule(nodes, amplitudes, 0 * nodes, 0 * amplitudes)


def _rotated(atoms: _Atoms, teacher: TermSum) -> _Atoms:
    """Along (1, G_1, ..., G_m): G_a = sum_b O_ab G_b'."""
    first, own = atoms.amplitudes[:, :1], atoms.amplitudes[:, 1:]
    return atoms._replace(amplitudes=np.concatenate([first, own @ teacher.rotation.T], axis=1))


@lru_cache(maxsize=64)
def _noiseless(teacher: TermSum, offset: float, scale: float, noise: float) -> _Atoms:
    """The sum of the terms less the offset, for functions that vary over ``scale``.

    What is still to be added to a label spreads over some deviations, so that poles are anywhere
    in that range; beyond it, and at the end, functions vary over the distance from it. ``noise``
    is not below the last of what is added, and rounded, so that many share the points.
    """
    variances = [term.moments.second_moment - term.moments.mean**2 for term in teacher.terms]
    means = [term.moments.mean for term in teacher.terms]
    atoms = _grid(teacher.terms[0], scale)
    for place, term in enumerate(teacher.terms[1:], start=1):
        fresh = _grid(term, scale)
        label = atoms.label[:, None] + fresh.label
        old = atoms.amplitudes[:, None] * fresh.amplitudes[None, :, :1]
        new = atoms.amplitudes[:, None, :1] * fresh.amplitudes[None, :, 1:]
        whole = np.concatenate([old, new], axis=2).reshape(label.size, -1)
        spread = 4 * math.sqrt(sum(variances[place + 1 :]) + noise**2)
        zero = offset - sum(means[place + 1 :])
        atoms = _compressed(_Atoms(label.ravel(), whole), (zero, spread), scale)
    return atoms._replace(label=atoms.label - offset)


def _grid(term: Activation, scale: float) -> _Atoms:
    """Panels for N(0, 1), split at the kinks, on which the term rises by about ``scale``."""
    kinks = [kink for kink in term.kinks if abs(kink) < REACH]
    edges = np.unique([*np.arange(-REACH, REACH + 0.1, _PANEL).clip(-REACH, REACH), *kinks])
    scan = np.linspace(edges[:-1], edges[1:], 17, axis=1)[:, 1:-1]
    rise = np.ptp(term.evaluate(scan), axis=1)
    # Far out nothing has mass, and a panel need not be fine.
    weight = np.exp(-(np.abs(scan).min(1) ** 2) / 2)
    pieces = np.ceil(rise * np.minimum(1, 1e3 * weight) / (_RISE * scale))
    counts = np.clip(pieces, 1, _MOST_PIECES).astype(int)
    cells = zip(itertools.pairwise(edges), counts, strict=True)
    fine = [np.linspace(low, high, n + 1)[:-1] for (low, high), n in cells]
    z, mass = gaussian_panels(np.append(np.concatenate(fine), edges[-1]), _NODES)
    amplitudes = np.sqrt(mass)[:, None] * np.stack([np.ones_like(z), z], axis=1)
    return _heavier(_Atoms(term.evaluate(z), amplitudes))


def _heavier(atoms: _Atoms) -> _Atoms:
    """Those that the first six moments of the label can tell, along any direction: a point may
    have no mass of its own, where a term is even.
    """
    mass = np.sum(atoms.amplitudes**2, 1)
    size = max(math.sqrt(float(np.sum(mass * atoms.label**2))), 1e-300)
    return take(atoms, mass * (1 + (atoms.label / size) ** 6) > NEGLIGIBLE)


def _compressed(atoms: _Atoms, poles: tuple[float, float], scale: float) -> _Atoms:
    """Fewer points: in every bin those of the rule for polynomials times the directions."""
    atoms = _heavier(atoms)
    order = np.argsort(atoms.label, kind="stable")
    atoms = take(atoms, order)
    edges = _bins(float(atoms.label[0]), float(atoms.label[-1]), poles, scale)
    cuts = np.searchsorted(atoms.label, edges[1:-1])
    bounds = [0, *cuts, atoms.label.size]
    pairs = itertools.pairwise(bounds)
    parts = [_in_a_bin(take(atoms, slice(low, high))) for low, high in pairs if high > low]
    return joined(parts)


def _bins(
    low: float, high: float, poles: tuple[float, float], scale: float
) -> Float[Array, " edges"]:
    """Edges from low to high: of ``scale`` among the poles, growing with the distance from them."""
    zero, spread = poles
    least = max(_BIN * scale, (high - low) / _MOST_BINS)
    edges = [zero]
    for sign, end in ((1, high - zero), (-1, zero - low)):
        at = 0.0
        while at < end:
            at += max(least, _GROWTH * (at - spread))
            edges.append(zero + sign * at)
    return np.sort(np.array(edges))


def _in_a_bin(atoms: _Atoms) -> _Atoms:
    """The points whose rule is exact for products of two polynomials of the degree kept."""
    label, amplitudes = atoms
    directions = amplitudes.shape[1]
    if label.size <= directions * (_DEGREE + 1):
        return atoms
    middle, half = (label[0] + label[-1]) / 2, max((label[-1] - label[0]) / 2, 1e-300)
    t = (label - middle) / half
    powers = np.polynomial.chebyshev.chebvander(t, _DEGREE)
    columns = (powers[:, :, None] * amplitudes[:, None]).reshape(label.size, -1)
    found = Compression.of(columns, t, np.zeros_like(t), 1.0)
    kept = np.stack([found.components(column) for column in amplitudes.T], axis=1)
    return _Atoms(middle + half * found.nodes, kept)


def _noisy(atoms: _Atoms, noise: float, width: float) -> tuple[_Atoms, Float[Array, " points"]]:
    """With the Gaussian noise added, and its error at every point."""
    if noise == 0:
        return atoms, np.zeros_like(atoms.label)
    near = (
        np.abs(atoms.label) < (REACH + 1) * noise if width < noise else atoms.label != atoms.label
    )
    eps = np.linspace(-REACH, REACH, ERRORS)
    density = np.exp(-(eps**2) / 2)
    even = np.broadcast_to(eps, (int((~near).sum()), eps.size))
    parts = [(take(atoms, ~near), even, np.broadcast_to(density / density.sum(), even.shape))]
    if near.any():
        parts.append((take(atoms, near), *graded_errors(atoms.label[near], noise, width)))
    labels = [(some.label[:, None] + noise * error).ravel() for some, error, _ in parts]
    size = atoms.amplitudes.shape[1]
    whole = [
        (some.amplitudes[:, None] * np.sqrt(mass)[:, :, None]).reshape(mass.size, size)
        for some, _, mass in parts
    ]
    error = np.concatenate([each.ravel() for _, each, _ in parts])
    found = _Atoms(np.concatenate(labels), np.concatenate(whole))
    kept = np.sum(found.amplitudes**2, 1) > NEGLIGIBLE
    return take(found, kept), error[kept]
