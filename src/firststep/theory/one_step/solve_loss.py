"""Solve problems with another loss than the square, or a free constant, one after the other.

Each on coarse nodes and then on finer ones, until the test loss and the error rate stay: the fit on
finer nodes starts at the one on coarser ones, and the first at that of the problem before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.errors import NotConverged
from firststep.losses import Loss
from firststep.numerics.batches import take
from firststep.numerics.threads import one_thread
from firststep.readouts import ReadoutLaw
from firststep.theory.channel import SMALLEST_SLOPE, Channel, tame
from firststep.theory.loss_fixed_point import FixedPoint, Pair, Start, packed, unpacked
from firststep.theory.loss_report import Report, new_samples_on_a_line, on_a_line
from firststep.theory.one_step.fit import Iterate
from firststep.theory.one_step.loss_fit import LossFit
from firststep.theory.one_step.model_error import Doubts, StepDoubts, doubts_of, of_the_step
from firststep.theory.one_step.moments import Conditional, assemble
from firststep.theory.one_step.nodes import Resolution, Rules, choose, rules_for
from firststep.theory.one_step.question import Model, Numbers
from firststep.theory.one_step.solve import ROUNDING, Point, label_variance, labels_of
from firststep.theory.one_step.system import System

if TYPE_CHECKING:
    from firststep.typing import Array, Float

REACH = 6.4  # of kappa: beyond, the tails of S are rounding
# Relative change of the test loss and the error rate on finer nodes: what is left is its square.
AIM = 1e-4
TOLERANCE = 3e-8
_ROUGH = 1e-5  # on coarse nodes
_LEVELS = 4
# Points of a curve begin beyond the last fit, on the parabola of the last three. Farther than twice
# the step before a curve says little; what is aside of a line by a tenth is not on it.
_FARTHEST, _ASIDE, _POINTS = 2.0, 0.1, 3
_LARGEST_GUESS = 1.0  # of a logarithm, or of the output
_KEPT = 8  # places on nodes: a curve along alpha has two


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
    report: Report  # of the first one, on new samples alone
    care: int  # which of _CARES
    doubted: Callable[[], StepDoubts]

    @property
    def system(self) -> System:
        return self.fit.system

    @property
    def channel(self) -> Channel:
        return self.fit.channel

    def learned(self, kappa: Float[Array, " K"]) -> tuple[Pair, ...]:
        """What the iteration learned of its map, on the same nodes."""
        return self.found.pairs if np.array_equal(self.system.mean.kappa, kappa) else ()

    def gap(self, other: _Attempt) -> float:
        """The largest relative change of the test loss and the error rate."""
        pairs = [
            (getattr(self.report, name), getattr(other.report, name))
            for name in ("test_loss", "error_rate")
        ]
        known = [abs(a - b) / max(abs(a), 1e-300) for a, b in pairs if not math.isnan(a)]
        return max(known)


class _Seen(NamedTuple):
    """A problem that was solved: its fit on coarse nodes, and on the next finer ones."""

    numbers: Numbers
    first: _Attempt
    second: _Attempt

    def refined(self, kappa: Float[Array, " K"]) -> Float[Array, "4 K"] | float:
        """What finer nodes changed, if they were these."""
        if not np.array_equal(self.second.system.mean.kappa, kappa):
            return 0.0
        return packed(self.second.found.output) - _rows(self.first, kappa)


StartOn = Callable[["Float[Array, ' K']"], Start]  # given nodes


class _Placed(NamedTuple):
    """Everything on the nodes of a problem."""

    rules: Rules
    given: Conditional
    system: System


@dataclass(frozen=True)
class LossSolver:
    """Problems of one model, with one loss."""

    model: Model
    readout: ReadoutLaw
    loss: Loss
    constant: bool
    kept: dict[tuple[object, ...], _Placed] = field(default_factory=dict)

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
                    points[place], fits = self._one(one, resolution, seen)
                seen = [*seen[1 - _POINTS :], _Seen(one, *fits)]
            except (NotConverged, np.linalg.LinAlgError):
                points[place], seen = Point(resolution), []
        return [points[place] for place in range(len(resolutions))]

    def _one(
        self, numbers: Numbers, resolution: Resolution, seen: list[_Seen]
    ) -> tuple[Point, tuple[_Attempt, _Attempt]]:
        """Finer nodes until nothing moves; and the first two fits, for the next problem."""
        resolution = _coarser(resolution)._replace(reach=REACH)
        care = seen[-1].first.care if seen else 0  # what the last one needed this one will need
        first = self._attempt(numbers, resolution, _ahead(seen, numbers), _ROUGH, least_care=care)
        fits, gap = [first], math.inf
        for level in range(_LEVELS):
            coarse = fits[-1]
            start = partial(_between, coarse, seen[-1] if seen and level == 0 else None)
            finer = coarse.resolution.finer()
            fine = self._attempt(numbers, finer, start, TOLERANCE, least_care=coarse.care)
            gap = max(fine.gap(coarse), fine.channel.floor)
            fits.append(fine)
            if gap <= max(AIM, fine.channel.floor):
                break
        evaluations = sum(fit.found.evaluations for fit in fits)
        return self._point(fits[-1], gap, evaluations), (fits[0], fits[1])

    def _attempt(
        self,
        numbers: Numbers,
        resolution: Resolution,
        start: StartOn | None,
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
        start: StartOn | None,
        tolerance: float,
    ) -> _Attempt:
        resolution = resolution._replace(rank_cut=_CARES[care].cut)
        rules, given, system = self._placed(numbers, resolution)
        gamma, rho = float(system.mean.alignment[0]), float(system.mean.misalignment[0])
        labels = labels_of(self.model, float(numbers.noise[0]))
        channel = Channel(self.loss, labels, gamma * rules.kappa, rho, floor=_CARES[care].floor)
        fit = LossFit(system, channel, self.constant)
        found = fit.solve(None if start is None else start(rules.kappa), tolerance)
        told = new_samples_on_a_line if tolerance == _ROUGH else on_a_line
        return _Attempt(
            resolution=resolution,
            fit=fit,
            found=found,
            report=told(channel, found.output, rules.kappa),
            care=care,
            doubted=partial(of_the_step, self.model, rules, numbers, given),
        )

    def _placed(self, numbers: Numbers, resolution: Resolution) -> _Placed:
        """Rules, moments and equations; those of a problem before that differs in alpha and ridge
        only are the same but for these numbers.
        """
        alpha, ridge = numbers.alpha, numbers.ridge
        rest = numbers._replace(alpha=None, ridge=None)  # type: ignore[arg-type]
        key = (resolution, *(None if value is None else float(value[0]) for value in rest))
        found = self.kept.get(key)
        if found is None:
            rules = rules_for(self.model, self.readout, resolution, numbers)
            given = Conditional.of(self.model, rules, numbers)
            system = assemble(self.model, rules, numbers, given, cut=resolution.rank_cut)
            found = _Placed(rules, given, system)
            if len(self.kept) == _KEPT:
                self.kept.clear()
            self.kept[key] = found
        return found._replace(system=found.system._replace(alpha=alpha, ridge=ridge))

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
        pull, omega = fine.fit.pull(fine.found.output), system.omega
        size = float(omega @ pull.square) / float(omega @ pull.slope) ** 2
        return Point(
            resolution=fine.resolution,
            risk=fine.report.risk,
            quadrature_error=min(gap, 1.0) * fine.report.test_loss,
            residual=fine.found.residual,
            iterations=evaluations,
            kappa=system.mean.kappa,
            omega=omega,
            shrunk=omega * pull.slope,
            learned=m,
            linear_coefficient=t,
            error=h2 - 2 * (m * h0 + t * h1) + m**2 + v,
            target=target,
            doubts=self._doubts(fine),
            label_variance=label_variance(channel),
            channel=channel,
            output=fine.found.output,
            fitted=fine.report,
            rounding_of_fit=ROUNDING * size / max(float(omega @ v), 1e-300),
        )


def _coarser(resolution: Resolution) -> Resolution:
    """The one of which this is the finer one."""
    return resolution._replace(
        kappa_spacing=2 * resolution.kappa_spacing,
        readout_spacing=2 * resolution.readout_spacing,
        label_width=2 * resolution.label_width,
        label_detail=max(resolution.label_detail - 1, 0),
    )


def _between(coarse: _Attempt, seen: _Seen | None, kappa: Float[Array, " K"]) -> Start:
    """The output of a fit on finer nodes, with what these changed in the problem before."""
    change = 0.0 if seen is None else _bounded(seen.refined(kappa))
    output = tame(unpacked(_rows(coarse, kappa) + change))
    return Start(output, () if seen is None else seen.second.learned(kappa))


def _rows(before: _Attempt, kappa: Float[Array, " K"]) -> Float[Array, "4 K"]:
    """The unknowns of a fit on other nodes."""
    from scipy.interpolate import CubicSpline  # slow to load

    nodes = before.system.mean.kappa
    inside = np.clip(kappa, nodes[0], nodes[-1])
    return np.asarray(CubicSpline(nodes, packed(before.found.output), axis=1)(inside))


def _bounded(change: Float[Array, "4 K"] | float) -> Float[Array, "4 K"]:
    return np.clip(change, -_LARGEST_GUESS, _LARGEST_GUESS)


def _ahead(seen: list[_Seen], numbers: Numbers) -> StartOn | None:
    """Where to begin: at the last fit, or beyond it where the last ones lead here on a line."""
    if not seen:
        return None
    weights = _weights([each.numbers for each in seen], numbers)

    def beyond(kappa: Float[Array, " K"]) -> Start:
        rows = [_rows(each.first, kappa) for each in seen[-len(weights) :]]
        change = sum(w * (each - rows[-1]) for w, each in zip(weights, rows, strict=True))
        output = tame(unpacked(rows[-1] + _bounded(change)))
        return Start(output, seen[-1].first.learned(kappa))

    return beyond


def _weights(before: list[Numbers], now: Numbers) -> list[float]:
    """Of as many of the last problems as are on a line with this one, in the logarithms of their
    numbers: those of the polynomial through them. 1 of the last alone if it is far from it.
    """
    names = [name for name in Numbers._fields if name != "dimension"]
    logs = [
        np.log(np.maximum([float(getattr(each, name)[0]) for name in names], 1e-300))
        for each in (*before, now)
    ]
    step = logs[-1] - logs[-2]
    square = max(float(step @ step), 1e-300)
    places = [0.0]  # of the last problems, in units of the step from the last to this one
    for one in logs[-3::-1]:
        back = one - logs[-2]
        place = float(back @ step) / square
        aside = float(np.linalg.norm(back - place * step))
        is_next = place < places[0] - 1 / _FARTHEST
        if not is_next or aside > _ASIDE * float(np.linalg.norm(back)):
            break
        places.insert(0, place)
    return [
        math.prod((1 - other) / (place - other) for other in places if other != place)
        for place in places
    ]
