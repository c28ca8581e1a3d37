"""Solve problems with another loss than the square, or a free constant, one after the other.

Each on coarse nodes and then on finer ones, until the test loss and the error rate stay: the fit on
finer nodes starts at the one on coarser ones, and the first at that of the problem before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.errors import NotConverged
from firststep.losses import Loss
from firststep.numerics.batches import take
from firststep.numerics.threads import one_thread
from firststep.readouts import ReadoutLaw
from firststep.theory.channel import SMALLEST_SLOPE, Channel, Output, tame
from firststep.theory.loss_fixed_point import FixedPoint, packed, unpacked
from firststep.theory.loss_report import Report, on_a_line
from firststep.theory.one_step.fit import Iterate
from firststep.theory.one_step.loss_fit import LossFit
from firststep.theory.one_step.model_error import Doubts, StepDoubts, doubts_of, of_the_step
from firststep.theory.one_step.moments import Conditional, assemble
from firststep.theory.one_step.nodes import Resolution, choose, rules_for
from firststep.theory.one_step.question import Model, Numbers
from firststep.theory.one_step.solve import Point, label_variance, labels_of
from firststep.theory.one_step.system import System

if TYPE_CHECKING:
    from firststep.typing import Array, Float

REACH = 6.4  # of kappa: beyond, the tails of S are rounding
# Relative change of the test loss and the error rate on finer nodes: what is left is its square.
AIM = 1e-4
TOLERANCE = 3e-8
_ROUGH = 1e-5  # on coarse nodes
_LEVELS = 4
# Points of a curve begin beyond the last fit, on the line of the last two. Farther than twice the
# step before a line says little; what is aside of it by a tenth is not on it.
_FARTHEST, _ASIDE = 2.0, 0.1
_LARGEST_GUESS = 1.0  # of a logarithm, or of the output


class _Care(NamedTuple):
    """How small the functions of the basis of mu1 and the slopes s may be.

    S vanishes in the tails and where a hinge is certain, and functions that live there make the
    overlaps M ill-conditioned. The numbers feel the square of the cut, and the floor.
    """

    cut: float
    floor: float


_CARES = (_Care(4e-5, SMALLEST_SLOPE), _Care(4e-4, 1e-6), _Care(2e-3, 3e-4))


class _Attempt(NamedTuple):
    """A fit on some nodes."""

    resolution: Resolution
    fit: LossFit
    found: FixedPoint
    report: Report
    care: int  # which of _CARES
    doubted: Callable[[], StepDoubts]

    @property
    def system(self) -> System:
        return self.fit.system

    @property
    def channel(self) -> Channel:
        return self.fit.channel

    def gap(self, other: _Attempt) -> float:
        """The largest relative change of the test loss, the training loss and the error rate."""
        pairs = [
            (getattr(self.report, name), getattr(other.report, name))
            for name in ("test_loss", "error_rate")
        ]
        known = [abs(a - b) / max(abs(a), 1e-300) for a, b in pairs if not math.isnan(a)]
        return max(known)


class _Seen(NamedTuple):
    """A problem that was solved, and its fit on coarse nodes."""

    numbers: Numbers
    first: _Attempt


Start = Callable[["Float[Array, ' K']"], Output]  # an output on given nodes, to begin with


@dataclass(frozen=True)
class LossSolver:
    """Problems of one model, with one loss."""

    model: Model
    readout: ReadoutLaw
    loss: Loss
    constant: bool

    @one_thread
    def __call__(self, numbers: Numbers) -> list[Point]:
        """One Point per problem, in order."""
        points: dict[int, Point] = {}
        seen: list[_Seen] = []
        resolutions = choose(self.model, self.readout, numbers)
        order = np.argsort(-numbers.ridge, kind="stable")  # small ridges from larger ones
        for place in map(int, order):
            resolution, one = resolutions[place], take(numbers, [place])
            try:
                with np.errstate(all="ignore"):
                    points[place], first = self._one(one, resolution, seen)
                seen = [*seen[-1:], _Seen(one, first)]
            except (NotConverged, np.linalg.LinAlgError):
                points[place], seen = Point(resolution), []
        return [points[place] for place in range(len(resolutions))]

    def _one(
        self, numbers: Numbers, resolution: Resolution, seen: list[_Seen]
    ) -> tuple[Point, _Attempt]:
        """Finer nodes until nothing moves; and the fit on the coarsest, for the next problem."""
        resolution = _coarser(resolution)._replace(reach=REACH)
        care = seen[-1].first.care if seen else 0  # what the last one needed this one will need
        first = self._attempt(numbers, resolution, _ahead(seen, numbers), _ROUGH, least_care=care)
        coarse, gap, evaluations = first, math.inf, first.found.evaluations
        for _ in range(_LEVELS):
            finer = coarse.resolution.finer()
            start = partial(_between, coarse)
            fine = self._attempt(numbers, finer, start, TOLERANCE, least_care=coarse.care)
            gap, coarse = max(fine.gap(coarse), fine.channel.floor), fine
            evaluations += fine.found.evaluations
            if gap <= max(AIM, fine.channel.floor):
                break
        return self._point(coarse, gap, evaluations), first

    def _attempt(
        self,
        numbers: Numbers,
        resolution: Resolution,
        start: Start | None,
        tolerance: float,
        *,
        least_care: int,
    ) -> _Attempt:
        """A fit on some nodes, with more care where rounding stops it."""
        care = least_care
        while True:
            try:
                return self._with_care(numbers, resolution, care, start, tolerance)
            except (NotConverged, np.linalg.LinAlgError):
                if care + 1 == len(_CARES):
                    raise
                care += 1

    def _with_care(
        self,
        numbers: Numbers,
        resolution: Resolution,
        care: int,
        start: Start | None,
        tolerance: float,
    ) -> _Attempt:
        resolution = resolution._replace(rank_cut=_CARES[care].cut)
        rules = rules_for(self.model, self.readout, resolution, numbers)
        given = Conditional.of(self.model, rules, numbers)
        system = assemble(self.model, rules, numbers, given, cut=resolution.rank_cut)
        gamma, rho = float(system.mean.alignment[0]), float(system.mean.misalignment[0])
        labels = labels_of(self.model, float(numbers.noise[0]))
        channel = Channel(self.loss, labels, gamma * rules.kappa, rho, floor=_CARES[care].floor)
        fit = LossFit(system, channel, self.constant)
        found = fit.solve(None if start is None else start(rules.kappa), tolerance)
        told = on_a_line(channel, found.output, rules.kappa)
        return _Attempt(
            resolution=resolution,
            fit=fit,
            found=found,
            report=told,
            care=care,
            doubted=partial(of_the_step, self.model, rules, numbers, given),
        )

    def _doubts(self, fine: _Attempt) -> Doubts | None:
        """The reasons to doubt it, at finite d; None elsewhere."""
        if not fine.system.is_finite or self.model.is_isotropic:
            return None
        fit, variance = fine.fit, label_variance(fine.channel)
        unexplained = np.sum(fit.system.omega * variance, keepdims=True)
        scatter = fit.scatter(fine.found.output)
        iterate = Iterate(fit.state, fit.shrunk)
        doubts = doubts_of(fit.system, iterate, scatter, fine.doubted(), unexplained)
        share = fit.share_of_constant(fine.found.output)
        return take(doubts._replace(constant=np.full(1, share)), 0)

    def _point(self, fine: _Attempt, gap: float, evaluations: int) -> Point:
        system, channel, (_, m, t, v) = fine.system, fine.channel, fine.found.output
        target = take(system.mean.target, 0)
        h0, h1, h2 = target
        return Point(
            resolution=fine.resolution,
            risk=fine.report.risk,
            quadrature_error=min(gap, 1.0) * fine.report.test_loss,
            residual=fine.found.residual,
            iterations=evaluations,
            kappa=system.mean.kappa,
            omega=system.omega,
            shrunk=system.omega * channel.pull(fine.found.output).slope,
            learned=m,
            linear_coefficient=t,
            error=h2 - 2 * (m * h0 + t * h1) + m**2 + v,
            target=target,
            doubts=self._doubts(fine),
            label_variance=label_variance(channel),
            channel=channel,
            output=fine.found.output,
            fitted=fine.report,
        )


def _coarser(resolution: Resolution) -> Resolution:
    """The one of which this is the finer one."""
    return resolution._replace(
        kappa_spacing=2 * resolution.kappa_spacing,
        readout_spacing=2 * resolution.readout_spacing,
        label_width=2 * resolution.label_width,
        label_detail=max(resolution.label_detail - 1, 0),
    )


def _between(before: _Attempt, kappa: Float[Array, " K"]) -> Output:
    """The output of a fit on other nodes."""
    return tame(unpacked(_rows(before, kappa)))


def _rows(before: _Attempt, kappa: Float[Array, " K"]) -> Float[Array, "4 K"]:
    """Its unknowns on other nodes."""
    from scipy.interpolate import CubicSpline  # slow to load

    nodes = before.system.mean.kappa
    inside = np.clip(kappa, nodes[0], nodes[-1])
    return np.stack([CubicSpline(nodes, row)(inside) for row in packed(before.found.output)])


def _ahead(seen: list[_Seen], numbers: Numbers) -> Start | None:
    """Where to begin: at the last fit, or beyond it if the last two are on a line with this one."""
    if not seen:
        return None
    last = seen[-1]
    share = _share(seen[0].numbers, last.numbers, numbers) if len(seen) > 1 else 0.0
    if share == 0:
        return partial(_between, last.first)

    def beyond(kappa: Float[Array, " K"]) -> Output:
        one, two = (_rows(each.first, kappa) for each in seen)
        change = np.clip(share * (two - one), -_LARGEST_GUESS, _LARGEST_GUESS)
        return tame(unpacked(two + change))

    return beyond


def _share(one: Numbers, two: Numbers, now: Numbers) -> float:
    """How much farther it is, over the step before, in the logarithms of the numbers; 0 if these
    three problems are not on a line or it is far.
    """
    names = [name for name in Numbers._fields if name != "dimension"]
    logs = [
        np.log(np.maximum([float(getattr(each, name)[0]) for name in names], 1e-300))
        for each in (one, two, now)
    ]
    before, after = logs[1] - logs[0], logs[2] - logs[1]
    length = float(before @ before)
    share = float(before @ after) / length if length > 0 else 0.0
    rest = float(np.linalg.norm(after - share * before))
    is_line = 0 < share <= _FARTHEST and rest <= _ASIDE * float(np.linalg.norm(after))
    return share if is_line else 0.0
