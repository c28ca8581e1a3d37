"""What a fit with any loss comes to: losses, 0-1 errors, risk, from what it says on the nodes.

    training loss        sum_k omega_k E l(y, f0 + V g)
    test loss            sum_k omega_k E l(y, f0)
    error rate           sum_k omega_k P(y f0 < 0), f0 = 0 a half     (binary labels)
    training error rate  sum_k omega_k P(y (f0 + V g) < 0)
    risk                 sum_k omega_k E (E[y | u] - f0)^2
    E f^2                sum_k omega_k (m^2 + v)
    alignment            sum_k omega_k (gamma.kappa m + rho t)/sqrt(E f^2 E u^2)
    degrees of freedom   sum_k omega_k s_k V_k     (square loss: 1 - sum_k omega_k s_k)

For the losses of residuals l = 2 g r - b g^2 at the residual r = x - V g of a sample in the fit,
b = 1 where the loss is smooth and 0 for the quantile loss, so that
E l = 2 E[g x] - (b + 2 V) E g^2; on a new sample the same at V = 0.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.numerics.library import library_of
from firststep.theory.binary import BinaryLabels
from firststep.theory.channel import Channel, Output, tame

if TYPE_CHECKING:
    from firststep.typing import Array, Float

_FINE = 0.6  # spacing of kappa in units of sqrt(v)/m': the trapezoid's error is some 1e-9
_FINEST = 0.02
_SEEN = 4.0  # |kappa| up to which steep places count
NO_LEVERAGE = 1e-6  # stands for V = 0, where the score of the quantile loss is a jump


class Report(NamedTuple):
    """The numbers of one fit; nan where there is no such thing."""

    training_loss: float
    test_loss: float
    error_rate: float
    training_error_rate: float
    risk: float
    output_square: float  # E f^2
    output_alignment: float  # E[f u]/sqrt(E f^2 E u^2)
    degrees_of_freedom: float


_NOTHING = Report(*8 * [math.nan])


def report(channel: Channel, output: Output, omega: Float[Array, " K"]) -> Report:
    """All of them."""
    found = numbers(channel, output, omega)
    return Report(**{name: float(value) for name, value in found.items()})


def numbers(
    channel: Channel, output: Output, omega: Float[Array, " K"]
) -> dict[str, Float[Array, ""]]:
    """All of them by name, in the array library of the output."""
    output = tame(output)
    xp = library_of(output.mean).xp
    losses = _binary if isinstance(channel.labels, BinaryLabels) else _real
    *of_loss, slope = losses(channel, output)
    names = ("training_loss", "test_loss", "error_rate", "training_error_rate", "risk")
    found = {name: omega @ each for name, each in zip(names, of_loss, strict=True)}
    total = omega @ (channel.shift**2 + channel.scale**2)  # E u^2
    square = omega @ (output.mean**2 + output.variance)
    shared = omega @ (channel.shift * output.mean + channel.scale * output.slope)
    return {
        **found,
        "output_square": square,
        "output_alignment": shared / xp.sqrt(xp.where(square > 0, square * total, math.nan)),
        "degrees_of_freedom": omega @ (slope * output.leverage),
    }


def on_a_line(channel: Channel, output: Output, kappa: Float[Array, " K"]) -> Report:
    """The report on a finer trapezoid rule in one kappa, between whose nodes all is smooth.

    The 0-1 error varies over sqrt(v)/m', which may be narrower than anything in the layer.
    """
    return report(*_finer(channel, output, kappa))


def new_samples_on_a_line(channel: Channel, output: Output, kappa: Float[Array, " K"]) -> Report:
    """Of that report the test loss and the error rate alone, by half of its work."""
    channel, output, omega = _finer(channel, output, kappa)
    output = tame(output)
    if isinstance(channel.labels, BinaryLabels):
        at = channel.flat(output, at_zero=True)
        f0, classes = channel.classes(output, at)
        loss, wrong = 2 * [0 * output.mean]
        for y, mass, _ in classes:
            loss = loss + at.total(mass * channel.loss.value(np.array(y), f0))
            wrong = wrong + at.total(mass * _wrong(y, f0))
        return _NOTHING._replace(test_loss=float(omega @ loss), error_rate=float(omega @ wrong))
    loss, _ = _residual_loss(channel, _new(channel, output))
    return _NOTHING._replace(test_loss=float(omega @ loss))


def _finer(
    channel: Channel, output: Output, kappa: Float[Array, " K"]
) -> tuple[Channel, Output, Float[Array, " fine"]]:
    """The channel, the output and the weights of the nodes on that rule."""
    from scipy.interpolate import CubicSpline  # slow to load

    fine, omega = line(output, kappa)
    if len(fine) == len(kappa):
        return channel, output, omega
    leverage, m, t, v = tame(output)
    rows = np.stack([np.log(leverage), m, t, np.log(v)])
    log_leverage, m, t, log_v = CubicSpline(kappa, rows, axis=1)(fine)
    between = Output(np.exp(log_leverage), m, t, np.exp(log_v))
    shift = np.interp(fine, kappa, channel.shift)
    return replace(channel, shift=shift), between, omega


def line(
    output: Output, kappa: Float[Array, " K"]
) -> tuple[Float[Array, " fine"], Float[Array, " fine"]]:
    """Nodes and weights of that rule."""
    spacing = float(kappa[1] - kappa[0])
    steepness = np.abs(np.gradient(output.mean, kappa)) / np.sqrt(tame(output).variance)
    seen = np.abs(kappa) < _SEEN
    times = math.ceil(spacing / max(_FINE / max(float(steepness[seen].max()), 1e-9), _FINEST))
    fine = np.linspace(kappa[0], kappa[-1], times * (len(kappa) - 1) + 1) if times > 1 else kappa
    omega = np.exp(-(fine**2) / 2)
    return fine, omega / omega.sum()


def _binary(channel: Channel, output: Output) -> list[Float[Array, " K"]]:
    """Training loss, test loss, error rate, training error rate, risk and s by node."""
    assert isinstance(channel.labels, BinaryLabels)
    at = channel.flat(output, at_zero=True)
    f0, classes = channel.classes(output, at)
    leverage = output.leverage[at.node]
    h0, h1, *totals = 7 * [0 * output.mean]
    for y, mass, along in classes:
        label = np.array(y)
        _, slope, point = channel.loss.score(label, f0, leverage)
        values = [channel.loss.value(label, f) for f in (point, f0)]
        values += [_wrong(y, f0), _wrong(y, point), slope]
        totals = [total + at.total(mass * x) for total, x in zip(totals, values, strict=True)]
        h0, h1 = h0 + at.total(y * mass), h1 + at.total(y * along)
    crossed = output.mean * h0 + output.slope * h1
    known = 1 - channel.labels.variance(channel.shift, channel.scale)
    risk = known - 2 * crossed + output.mean**2 + output.variance
    return [*totals[:4], risk, totals[4]]


def _real(channel: Channel, output: Output) -> list[Float[Array, " K"]]:
    test_loss, _ = _residual_loss(channel, _new(channel, output))
    training_loss, slope = _residual_loss(channel, output)
    zeta, mass, target = channel.rest()
    gap = target - output.mean[:, None] - output.slope[:, None] * zeta
    risk = (mass * gap**2).sum(-1) + output.variance - output.slope**2
    none = np.nan * risk
    return [training_loss, test_loss, none, none, risk, slope]


def _wrong(y: float, f: Float[Array, " z"]) -> Float[Array, " z"]:
    return (y * f < 0) + 0.5 * (f == 0)


def _new(channel: Channel, output: Output) -> Output:
    """The output on samples that pull at nothing."""
    least = 0.0 if channel.loss.is_smooth else NO_LEVERAGE
    return output._replace(leverage=0 * output.leverage + least)


def _residual_loss(
    channel: Channel, output: Output
) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
    """E l at the proximal point, and s, by node."""
    bend = 1.0 if channel.loss.is_smooth else 0.0
    loss, slope = 0 * output.mean, 0 * output.mean
    for _, mass, of in channel.residuals(output):
        value = 2 * of.crossed - (bend + 2 * output.leverage[:, None]) * of.square
        loss = loss + (mass * value).sum(-1)
        slope = slope + (mass * of.slope).sum(-1)
    return loss, slope
