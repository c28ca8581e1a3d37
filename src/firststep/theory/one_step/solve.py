"""Solve a batch of problems that share a model: coarse nodes, then fine ones, finer where needed.

Every second node of the fine rules makes the coarse ones, so the coarse solution starts the fine
one two or three Newton steps from its end, and the difference of the two risks measures the
quadrature error. Halving the spacing of these rules squares the relative error of analytic
integrands; we count on the power 1.7 only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.losses import loss_of
from firststep.numerics.batches import each, take
from firststep.numerics.pages import keep_pages
from firststep.numerics.threads import one_thread
from firststep.readouts import ReadoutLaw
from firststep.theory.binary import BinaryLabels
from firststep.theory.channel import Channel, Output, RealLabels
from firststep.theory.loss_fixed_point import ACCEPTED as ENOUGH
from firststep.theory.loss_report import Report, on_a_line
from firststep.theory.one_step.fit import ACCEPTED, Iterate, Solution
from firststep.theory.one_step.model_error import (
    Doubts,
    ModelError,
    Scatter,
    StepDoubts,
    doubts_of,
    estimated,
    of_the_step,
)
from firststep.theory.one_step.moments import Conditional, assemble
from firststep.theory.one_step.nodes import FINEST, GAUSSIAN, Resolution, Rules, choose, rules_for
from firststep.theory.one_step.question import Model, Numbers
from firststep.theory.one_step.risk import Outcome, outcome
from firststep.theory.one_step.starts import Ladder, lower, raised, restrict, thinned
from firststep.theory.one_step.system import System, Target
from firststep.theory.teacher import TermSum

if TYPE_CHECKING:
    from firststep.typing import Array, Float

AIM = 1e-8  # relative quadrature error we refine down to
KINKED_AIM = 1e-7  # where the student or the teacher has a kink
RESOLVED = 1e-6  # and the largest we accept
RESOLVED_LOSS = 1e-3  # the same with another loss, where the numbers are losses and error rates
REACH = 6.4  # of kappa in error rates: beyond, the tails of the variance are rounding
SQUARE = loss_of("square")
# Of v, in units of E (g/s)^2 (the square loss: of the error): it is what is left of such terms, and
# next to nothing at enormous ridges. Found beside the limits of error rates; at most twice that.
ROUNDING = 5e-16
_POWER = 1.7  # of the gap between coarse and fine nodes in the error of the fine ones
_LEVELS = 4  # of refinement: beyond, a fine rule is worse conditioned than it is accurate
_CHUNK = 4_000_000  # student evaluations at once: 32 MB
_CACHED = 1_600_000  # numbers that stay in the cache


class AcrossTerms(NamedTuple):
    """The direction of the first of several terms, theta = along vh + sum_a first_a zeta_a."""

    along: float
    first: Float[Array, " m"]

    @classmethod
    def of(cls, teacher: TermSum, gamma: float, rho: float) -> AcrossTerms:
        parts = teacher.rotation[:, 0]
        return cls(gamma * float(parts[0]), parts * np.array([rho, *[1.0] * (teacher.count - 1)]))


_NOTHING = np.full(1, np.nan)


def _nothing() -> Float[Array, "1"]:
    return _NOTHING


@dataclass(frozen=True, eq=False)
class Point:
    """The answer for one problem; none, if its linear algebra broke down."""

    resolution: Resolution
    risk: float = math.nan
    training_error: float = math.nan
    quadrature_error: float = math.nan
    residual: float = math.inf
    iterations: int = 0
    kappa: Float[Array, " K"] = field(default_factory=_nothing)
    omega: Float[Array, " K"] = field(default_factory=_nothing)
    shrunk: Float[Array, " K"] = field(default_factory=_nothing)  # S
    learned: Float[Array, " K"] = field(default_factory=_nothing)  # m
    linear_coefficient: Float[Array, "*m K"] = field(default_factory=_nothing)  # t
    error: Float[Array, " K"] = field(default_factory=_nothing)  # e, label noise included
    target: Target = field(default_factory=lambda: Target(_NOTHING, _NOTHING, _NOTHING))
    doubts: Doubts | None = None  # at finite d
    label_variance: Float[Array, " K"] = field(
        default_factory=_nothing
    )  # of y given the teacher's coordinate
    # What the samples pull at the fit; of several directions, what lies along each of them.
    channel: Channel | AcrossTerms | None = None
    # With another loss than the square, or a free constant:
    output: Output | None = None  # what the fit says on a new sample
    fitted: Report | None = None
    rounding_of_fit: float = 0.0  # relative, of its v
    is_typed: bool = False  # whether its equations are those of typed neurons

    @property
    def degrees_of_freedom(self) -> float:
        """Trace of the hat matrix over n."""
        if self.fitted is not None:
            return self.fitted.degrees_of_freedom
        return float(1 - self.shrunk.sum())

    @cached_property
    def report(self) -> Report:
        """Losses and error rates; for the square loss without new equations.

        V = omega/S - 1 and v = e - h2 + 2 m h0 - m^2 + 2 t h1. What knows no scale of the output,
        error rates and alignment, is nan where v is rounding.
        """
        assert self.channel is not None
        if self.fitted is not None:
            found = self.fitted
        elif isinstance(self.channel, AcrossTerms):
            return self._report_of_terms(self.channel)
        else:
            m, t, inside = self.learned, self.linear_coefficient, np.abs(self.kappa) <= REACH
            output = Output(self.omega / self.shrunk - 1, m, t, self._variance)
            channel = replace(self.channel, shift=self.channel.shift[inside])
            found = on_a_line(channel, each(lambda x: x[inside], output), self.kappa[inside])
        if self.rounding <= RESOLVED_LOSS:
            return found
        of_no_scale = ("error_rate", "training_error_rate", "output_alignment")
        return found._replace(**dict.fromkeys(of_no_scale, math.nan))

    @property
    def _variance(self) -> Float[Array, " K"]:
        (h0, h1, h2), m, t = self.target, self.learned, self.linear_coefficient
        return self.error - h2 + 2 * m * h0 - m**2 + 2 * t * h1

    @cached_property
    def rounding(self) -> float:
        """The relative error of v that rounding makes."""
        if self.fitted is not None:
            return self.rounding_of_fit
        size, left = (float(self.omega @ row) for row in (self.error, self._variance))
        return ROUNDING * size / max(left, 1e-300)

    def _report_of_terms(self, across: AcrossTerms) -> Report:
        """The same of a teacher of several directions; u is the coordinate of its first term."""
        (h0, h1, h2), m, t = self.target, self.learned, self.linear_coefficient
        square = self.omega @ (self.error - h2 + 2 * m * h0 + 2 * np.sum(t * h1, 0))
        shared = float(self.omega @ (across.along * self.kappa * m + across.first @ t))
        return Report(
            training_loss=self.training_error,
            test_loss=float(self.omega @ self.error),
            error_rate=math.nan,
            training_error_rate=math.nan,
            risk=self.risk,
            output_square=float(square),
            output_alignment=shared / math.sqrt(square) if square > 0 else math.nan,
            degrees_of_freedom=float(1 - self.shrunk.sum()),
        )

    def model_error(self, of: str) -> ModelError | None:
        """How far networks of that size may be from one of ``WEIGHTS``; None at d = infinity."""
        if self.doubts is None:
            return None
        assert self.channel is not None
        loss = SQUARE if isinstance(self.channel, AcrossTerms) else self.channel.loss
        return estimated(self.doubts, of, of_margins=loss.is_margin)

    @property
    def converged(self) -> bool:
        enough = ACCEPTED if self.fitted is None else ENOUGH
        return bool(self.residual < enough and np.isfinite(self.risk))

    @property
    def resolved(self) -> bool:
        known = self.channel
        is_binary = isinstance(known, Channel) and isinstance(known.labels, BinaryLabels)
        if is_binary and self.rounding > RESOLVED_LOSS:
            return False
        if self.fitted is not None:
            return self.quadrature_error <= RESOLVED_LOSS * abs(self.fitted.test_loss) + 1e-12
        return self.quadrature_error <= RESOLVED * abs(self.risk) + 1e-12

    @property
    def is_good(self) -> bool:
        """Whether its numbers may be used."""
        return self.converged and self.resolved


class Batch(NamedTuple):
    """Problems of one model, readout and resolution."""

    model: Model
    readout: ReadoutLaw
    resolution: Resolution
    numbers: Numbers


@one_thread
def solve(model: Model, readout: ReadoutLaw, numbers: Numbers) -> list[Point]:
    """One Point per problem, in order. Problems with the same resolution are solved together."""
    keep_pages()
    aim = KINKED_AIM if model.student.kinks or model.target.kinks else AIM
    resolutions = choose(model, readout, numbers)
    points: list[Point | None] = [None] * len(resolutions)
    waiting = list(range(len(resolutions)))
    for level in range(_LEVELS):
        groups: dict[Resolution, list[int]] = {}
        for place in waiting:
            groups.setdefault(resolutions[place], []).append(place)
        waiting = []
        for resolution, some in _chunks(groups):
            batch = Batch(model, readout, resolution, take(numbers, some))
            for place, point in zip(some, _attempt(batch), strict=True):
                if points[place] is not None and not point.converged:
                    continue  # finer nodes were ill-conditioned: the coarser answer stands
                points[place] = point
                too_coarse = point.quadrature_error > aim * abs(point.risk) + 1e-15
                may_refine = level + 1 < _LEVELS and resolution.kappa_spacing > FINEST
                if point.converged and too_coarse and may_refine:
                    resolutions[place] = resolution.finer()
                    waiting.append(place)
        if not waiting:
            break
    return [point for point in points if point is not None]


def _chunks(groups: dict[Resolution, list[int]]) -> list[tuple[Resolution, list[int]]]:
    """Groups of problems in pieces that fit in memory."""
    pieces = []
    for resolution, members in groups.items():
        size = max(1, int(_CHUNK * resolution.kappa_spacing / 20 / resolution.student.nodes))
        pieces += [(resolution, members[i : i + size]) for i in range(0, len(members), size)]
    return pieces


def _attempt(batch: Batch) -> list[Point]:
    """A batch together; if its linear algebra breaks down, each problem alone."""
    try:
        return _solve_batch(batch)
    except np.linalg.LinAlgError:
        count = batch.numbers.alpha.size
        if count == 1:
            return [Point(batch.resolution)]
        alone = (batch._replace(numbers=take(batch.numbers, [i])) for i in range(count))
        return [point for each in alone for point in _attempt(each)]


def _solve_batch(batch: Batch) -> list[Point]:
    model, readout, resolution, numbers = batch
    rules = rules_for(model, readout, resolution, numbers)
    detail = resolution._replace(label_detail=max(resolution.label_detail - 1, 0))
    less_detailed = rules_for(model, readout, detail, numbers)
    with np.errstate(all="ignore"):
        given = Conditional.shared(model, rules, numbers)
        fine = assemble(model, rules, numbers, given, cut=resolution.rank_cut)
        if rules.kind == GAUSSIAN:  # fewer nodes have a basis of their own
            few, some = thinned(less_detailed, given)
            coarse = assemble(model, few, numbers, some, cut=10 * resolution.rank_cut)
            ladder = Ladder(fine, coarse)
        else:
            ladder = Ladder(fine, restrict(fine, less_detailed))
        is_estimated = numbers.dimension is not None and not model.is_isotropic
        step = of_the_step(model, rules, numbers, given) if is_estimated else None
    return [
        point
        for some in _cached_parts(fine)
        for point in _solve_part(
            batch._replace(numbers=take(numbers, some)),
            rules,
            ladder=ladder.part(some),
            step=take(step, some),
        )
    ]


def _cached_parts(system: System) -> list[slice]:
    """Parts of a batch whose largest arrays, n^4 numbers a problem, stay in the cache."""
    blocks = 1 if system.bulk.tilt is None else 2
    size = max(3, _CACHED // (blocks * system.bulk.basis.shape[1]) ** 4)
    return [slice(i, i + size) for i in range(0, system.size, size)]


def _solve_part(
    batch: Batch, rules: Rules, *, ladder: Ladder, step: StepDoubts | None
) -> list[Point]:
    """Problems on fine and on coarse nodes."""
    fine, rough = ladder.fine, lower(ladder)
    solution = raised(ladder, rough)
    errors = _outcome(fine, solution)
    noise = batch.numbers.noise
    rough_error = _outcome(ladder.coarse, rough).test_error
    risk, rough_risk = errors.test_error - noise**2, rough_error - noise**2
    size = np.maximum(np.abs(risk), 1e-300)
    gap = np.minimum(np.nan_to_num(np.abs(risk - rough_risk) / size, nan=1.0), 1.0)
    error = size * np.maximum(gap**_POWER, _floor(rules))
    solution = solution._replace(iterations=solution.iterations + rough.iterations)
    doubts = None
    if step is not None:
        with np.errstate(all="ignore"):
            scatter = Scatter.of(errors, fine.omega)
            iterate = Iterate(solution.state, solution.shrunk)
            doubts = doubts_of(fine, iterate, scatter, step, noise**2)
    places = zip(range(fine.size), risk, error, strict=True)
    points = [_point(batch.resolution, fine, solution, errors, one) for one in places]
    for i, point in enumerate(points):
        gamma, rho = float(fine.mean.alignment[i]), float(fine.mean.misalignment[i])
        channel: Channel | AcrossTerms
        if batch.model.several is not None:
            channel = AcrossTerms.of(batch.model.several, gamma, rho)
            variance = np.full_like(fine.mean.kappa, noise[i] ** 2)
        else:
            labels = labels_of(batch.model, float(noise[i]))
            channel = Channel(SQUARE, labels, gamma * fine.mean.kappa, rho)
            variance = label_variance(channel)
        doubt = take(doubts, i)
        points[i] = replace(point, doubts=doubt, channel=channel, label_variance=variance)
    return points


def labels_of(model: Model, noise: float) -> BinaryLabels | RealLabels:
    """The law of the labels of a fit whose noise has this standard deviation."""
    assert not isinstance(model.teacher, TermSum)
    return model.labels or RealLabels.of_deviation(model.teacher, model.noise_law, noise)


def label_variance(channel: Channel) -> Float[Array, " K"]:
    """Of y given the teacher's coordinate, by node: what no fit explains."""
    if isinstance(channel.labels, BinaryLabels):
        return channel.labels.variance(channel.shift, channel.scale)
    return np.full_like(channel.shift, channel.labels.noise_variance)


def _floor(rules: Rules) -> float:
    """The smallest relative error claimed: what other nodes change, seen over many problems."""
    if rules.kind == GAUSSIAN:
        return 5e-9
    return 1e-9 if rules.student.cuts or rules.teacher.cuts else 1e-10


def _outcome(system: System, solution: Solution) -> Outcome:
    with np.errstate(all="ignore"):
        return outcome(system, solution.state, solution.shrunk)


def _point(
    resolution: Resolution,
    system: System,
    solution: Solution,
    errors: Outcome,
    one: tuple[int, float, float],
) -> Point:
    """One of the problems: its number, its risk and the quadrature error of that."""
    i, risk, quadrature_error = one
    is_good = bool(solution.is_good[i])
    return Point(
        resolution=resolution,
        risk=float(risk) if is_good else math.nan,
        training_error=float(errors.training_error[i]) if is_good else math.nan,
        quadrature_error=float(quadrature_error),
        residual=float(solution.residual[i]),
        iterations=int(solution.iterations[i]),
        kappa=system.mean.kappa,
        omega=system.omega,
        shrunk=solution.shrunk[i],
        learned=errors.learned[i],
        linear_coefficient=errors.linear_coefficient[i],
        error=errors.error[i],
        target=take(system.mean.target, i),
    )
