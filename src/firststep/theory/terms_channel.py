"""The channel of a teacher of several terms: what the samples pull at a fit, by node of kappa.

Given kappa and zeta of ``terms`` the prediction on a new sample is f0 ~ N(m + p, v - |t|^2) with
p = sum_l t_l zeta_l, and the fit asks for s, E g, E zeta_l g and E g^2.

Real labels: x = y - f0 is Gaussian given zeta, and the score a clipped line of it, as in
``channel``; the integral over zeta is left.

Binary labels: everything is a function of y = +-1 and f0. On a grid in p its means over
f0 ~ N(m + p, v - |t|^2) are sums over one set of panels in f0, which are split where the score
bends; from there they are interpolated, and averaged over zeta with P(y = 1 | s).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from firststep.losses import Loss
from firststep.numerics.quadrature import panels
from firststep.theory.channel import (
    SMALLEST_SLOPE,
    Clipped,
    Output,
    Pull,
    RealLabels,
    bends,
    square_slope,
    tame,
)
from firststep.theory.loss_report import NO_LEVERAGE, Report
from firststep.theory.terms import REACH, Rest, Terms

if TYPE_CHECKING:
    from firststep.typing import Array, Float

    Rows: TypeAlias = Float[Array, "rows K"]
    # Of the label, f0 and V: one row a function.
    Functions: TypeAlias = Callable[
        [Float[Array, ""], Float[Array, "K f"], Float[Array, "K 1"]], Float[Array, "q K f"]
    ]

_AT_ONCE = 400_000  # nodes whose functions are in memory together
_SPACING = 0.25  # of the grid in p, in standard deviations of f0 around it
_MOST = 600  # its points
_STENCIL = 6  # points of the grid from which one value is interpolated
_PANEL, _NODES = 0.8, 7  # width of a panel in f0, in the same, and nodes on it


@dataclass(frozen=True)
class TermsChannel:
    """A loss and a law of labels on the nodes."""

    loss: Loss
    terms: Terms
    real: RealLabels | None  # none: labels +-1
    shift: Float[Array, " K"]  # gamma.kappa of the first term
    at: Rest
    floor: float = SMALLEST_SLOPE

    def pull(self, output: Output) -> Pull:
        """The four expectations; s not below ``floor`` of its largest, or of the square loss's."""
        output = tame(output)
        made = _pull_of_real if self.real else _pull_of_binary
        slope, mean, square, *along = self._joined(made, output)
        usual = float((1 / (1 + output.leverage)).max())
        least = self.floor * max(float(slope.max()), usual)
        every = np.array(along) if output.slope.ndim == 2 else along[0]
        return Pull(np.maximum(slope, least), mean, every, square)

    def report(self, output: Output, omega: Float[Array, " K"]) -> Report:
        """What ``loss_report`` says of a single term; u = <x, theta> of the first."""
        output = tame(output)
        made = _report_of_real if self.real else _report_of_binary
        *rows, slope = self._joined(made, output)
        training_loss, test_loss, error_rate, training_error_rate, risk = (
            float(omega @ row) for row in rows
        )
        mixing, slopes = self.terms.mixing[0], np.atleast_2d(output.slope)
        total = float(omega @ self.shift**2) + float(mixing @ mixing)
        square = float(omega @ (output.mean**2 + output.variance))
        shared = float(omega @ (self.shift * output.mean + mixing @ slopes))
        return Report(
            training_loss=training_loss,
            test_loss=test_loss,
            error_rate=error_rate,
            training_error_rate=training_error_rate,
            risk=risk,
            output_square=square,
            output_alignment=shared / math.sqrt(square * total) if square > 0 else math.nan,
            degrees_of_freedom=float(omega @ (slope * output.leverage)),
        )

    def _joined(self, made: Callable[[_Part], Rows], output: Output) -> Rows:
        """Some nodes after the other, so that the arrays stay small."""
        count, nodes = self.at.mass.shape
        size = max(1, _AT_ONCE // nodes)
        parts = [slice(start, start + size) for start in range(0, count, size)]
        return np.concatenate([made(_Part.of(self, output, part)) for part in parts], axis=1)


class _Part(NamedTuple):
    """Some of the nodes of kappa; columns are to broadcast against nodes of zeta or f0."""

    channel: TermsChannel
    zeta: Float[Array, "r K z"]
    mass: Float[Array, "K z"]
    said: Float[Array, "K z"]
    leverage: Float[Array, "K 1"]
    mean: Float[Array, "K 1"]
    slope: Float[Array, "r K"]
    spread: Float[Array, "K 1"]  # sqrt(v - |t|^2)
    variance: Float[Array, " K"]

    @classmethod
    def of(cls, channel: TermsChannel, output: Output, part: slice) -> _Part:
        inner = output.variance - square_slope(output.slope)
        return cls(
            channel=channel,
            zeta=channel.at.zeta[:, part],
            mass=channel.at.mass[part],
            said=channel.at.said[part],
            leverage=output.leverage[part, None],
            mean=output.mean[part, None],
            slope=np.atleast_2d(output.slope)[:, part],
            spread=np.sqrt(inner[part, None]),
            variance=output.variance[part],
        )

    @property
    def pulled(self) -> Float[Array, "K z"]:
        """p."""
        return np.einsum("lk,lkz->kz", self.slope, self.zeta)

    def risk(self, target: Float[Array, "K z"]) -> Float[Array, " K"]:
        """E (target - f0)^2."""
        gap = target - self.mean - self.pulled
        return np.sum(self.mass * gap**2, -1) + self.spread[:, 0] ** 2


# Real labels --------------------------------------------------------------------------------------


def _clipped(part: _Part, leverage: Float[Array, "K 1"]) -> Iterator[tuple[float, Clipped]]:
    """By component of the noise: its weight and the residual's expectations."""
    loss, labels = part.channel.loss, part.channel.real
    assert labels is not None
    line = loss.clip(leverage)
    if line is None:
        raise TypeError(f"{loss} is a loss of labels +-1")
    mu = part.said - part.mean - part.pulled
    for weight, scale in labels.seen_by(loss):
        yield weight, Clipped.of(mu, np.sqrt(part.spread**2 + scale**2), *line)


def _pull_of_real(part: _Part) -> Rows:
    totals = np.zeros((3 + len(part.zeta), len(part.mean)))
    for weight, of in _clipped(part, part.leverage):
        functions = (of.slope, of.mean, of.square, *(part.zeta * of.mean))
        totals += [weight * np.sum(part.mass * function, -1) for function in functions]
    return totals


def _report_of_real(part: _Part) -> Rows:
    bend = 1.0 if part.channel.loss.is_smooth else 0.0
    new = np.full_like(part.leverage, (1 - bend) * NO_LEVERAGE)
    losses, slopes = np.zeros((2, 2, len(part.mean)))
    for place, leverage in enumerate((part.leverage, new)):
        for weight, of in _clipped(part, leverage):
            value = 2 * of.crossed - (bend + 2 * leverage) * of.square
            losses[place] += weight * np.sum(part.mass * value, -1)
            slopes[place] += weight * np.sum(part.mass * of.slope, -1)
    risk = part.risk(part.said)
    none = np.full_like(risk, np.nan)
    return np.stack([*losses, none, none, risk, slopes[0]])


# Binary labels ------------------------------------------------------------------------------------


def _pull_of_binary(part: _Part) -> Rows:
    loss = part.channel.loss

    def functions(y: Float[Array, ""], f0: Rows, leverage: Rows) -> Float[Array, "3 K f"]:
        g, slope, _ = loss.score(y, f0, leverage)
        return np.stack([slope, g, g * g])

    totals = np.zeros((3 + len(part.zeta), len(part.mean)))
    for mass, means in _classes(part, functions, at_zero=False):
        totals[:3] += np.sum(mass * means, -1)
        totals[3:] += np.sum(mass * means[1] * part.zeta, -1)
    return totals


def _report_of_binary(part: _Part) -> Rows:
    loss = part.channel.loss

    def functions(y: Float[Array, ""], f0: Rows, leverage: Rows) -> Float[Array, "5 K f"]:
        _, slope, point = loss.score(y, f0, leverage)
        losses = [loss.value(y, f) for f in (point, f0)]
        wrong = [(y * f < 0) + 0.5 * (f == 0) for f in (f0, point)]
        return np.stack([*losses, *wrong, slope])

    totals = np.zeros((5, len(part.mean)))
    for mass, means in _classes(part, functions, at_zero=True):
        totals += np.sum(mass * means, -1)
    risk = part.risk(2 * part.channel.terms.chance(part.said) - 1)
    return np.stack([*totals[:4], risk, totals[4]])


def _classes(
    part: _Part, functions: Functions, *, at_zero: bool
) -> Iterator[tuple[Float[Array, "K z"], Float[Array, "q K z"]]]:
    """For y = +-1 the masses of the nodes of zeta, and the means of the functions over f0 there."""
    up = part.channel.terms.chance(part.said)
    far = math.sqrt(len(part.zeta)) * REACH * np.sqrt(np.sum(part.slope**2, 0))[:, None]
    far = np.maximum(far, 1e-6 * part.spread)  # of p
    points = math.ceil(float((2 * far / part.spread).max()) / _SPACING) + _STENCIL
    grid = np.linspace(-1, 1, min(points, _MOST))
    f0, lengths = _panels(part, far, at_zero)
    off = f0[:, None] - part.mean[..., None] - (far * grid)[..., None]
    off = off / part.spread[..., None]
    density = np.exp(-np.minimum(off**2, 1400) / 2) / math.sqrt(2 * math.pi)
    weights = density * (lengths / part.spread)[:, None]  # nodes of kappa, grid, f0
    places = (part.pulled / far + 1) * (grid.size - 1) / 2
    values = np.concatenate([functions(np.array(y), f0, part.leverage) for y in (1.0, -1.0)])
    plus, minus = np.split(_between(np.einsum("kpf,qkf->qkp", weights, values), places), 2)
    yield part.mass * up, plus
    yield part.mass * (1 - up), minus


def _panels(
    part: _Part, far: Float[Array, "K 1"], at_zero: bool
) -> tuple[Float[Array, "K f"], Float[Array, "K f"]]:
    """Nodes in f0 with their lengths, over all that m + p and its spread reach."""
    span = far + REACH * part.spread
    count = math.ceil(min(float((2 * span / part.spread).max()) / _PANEL, _MOST))
    edges = part.mean + span * np.linspace(-1, 1, count + 1)
    every = bends(part.channel.loss, part.leverage, at_zero)
    inner = np.concatenate([x + 0 * part.mean for x in every], axis=1) if every else edges[:, :0]
    inside = np.clip(inner, part.mean - span, part.mean + span)
    return panels(np.sort(np.concatenate([edges, inside], axis=1), axis=1), _NODES)


def _between(table: Float[Array, "q K p"], places: Float[Array, "K z"]) -> Float[Array, "q K z"]:
    """Values on a regular grid, at places in units of its spacing, by Lagrange's polynomials."""
    first = np.clip(np.floor(places).astype(int) - _STENCIL // 2 + 1, 0, table.shape[-1] - _STENCIL)
    x, found = places - first, np.zeros((len(table), *places.shape))
    for i in range(_STENCIL):
        others = [j for j in range(_STENCIL) if j != i]
        weight = np.prod([(x - j) / (i - j) for j in others], axis=0)
        index = np.broadcast_to(first + i, (len(table), *first.shape))
        found = found + weight * np.take_along_axis(table, index, -1)
    return found
