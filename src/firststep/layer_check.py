"""``check_layers``: the average theory against first layers drawn at the problem's own size.

``predict`` averages over networks and keeps leading orders in 1/d. Here a few first layers are
drawn and trained as ``simulate`` does it, and the equations of the given layer are solved for each:
its W1 is exact, and only the ridge and the test data are averaged. Compared is the number that a
fit is judged by: the risk of ridge regression, the error rate of binary labels, the test loss of
another loss of real ones.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # whose parts load when they are used: special takes a twentieth of the import

from firststep.checks import choice, whole
from firststep.compare import at_size
from firststep.errors import FirststepError, InvalidParameter, NotEnoughMemory
from firststep.problem import Problem, Sizes
from firststep.results import Estimate, Interrupted, Shown, plain_fields, versions, with_error
from firststep.simulation.backends import available_memory
from firststep.simulation.running.layer import first_layer
from firststep.simulation.running.simulate import replicate_cost
from firststep.theory.given_layer.missing import common_mode, heaviness
from firststep.theory.given_layer.predict import predict_features
from firststep.theory.loss_numbers import main_number
from firststep.theory.one_step.predict import predict
from firststep.theory.one_step.prediction import Prediction
from firststep.theory.one_step.question import BULKS

if TYPE_CHECKING:
    from firststep.typing import Array, Float

    Progress = Callable[[int, int], None]

MOST = 100  # layers: what they cannot tell is for a simulation
AGREES, DIFFERS, UNDECIDED, UNRELIABLE = "agrees", "differs", "undecided", "unreliable"
# Relative difference that a verdict lets pass. The layers themselves are mostly within it of
# simulations where nothing below speaks against it (docs/validation.md).
TOLERANCE = 0.05
# Of Student's interval, which a difference must leave, and which must be within the tolerance: few
# layers know their spread badly.
LEVEL = 0.95
# The fourth moment of a feature over its squared second, by neuron: up to here the layers were at
# most 4 % below simulations, beyond it 4 to 32 %.
HEAVY = 0.13
# Common mode that is missing, relative to the risk: half of what passes, because up to twice the
# estimate was found.
MISSING = TOLERANCE / 2
_SQUARES = 6  # N x N matrices alive in the equations of a layer: 5.3 measured

_NUMBERS = ("spread", "theory", "difference", "relative", "z")  # of a check, in JSON


@dataclass(frozen=True, eq=False, repr=False)
class LayerCheck(Shown):
    """A number of the average theory, and of first layers that were drawn at its size.

    ``quantity`` is its name: risk, error_rate or test_loss.

    The theory is taken at the whole numbers n, N, n0 of the layers. ``outcome`` is one word:
    "agrees", "differs", "undecided" (the layers scatter too much), or "unreliable" (the equations
    of a given layer are known to be off for such a problem); ``verdict`` is one line.
    """

    problem: Problem
    bulk: str
    sizes: Sizes
    theory: float
    layers: int  # asked for
    seed: int  # layer i is that of replicate i of simulate with this seed
    # The quantity by layer; nan where the equations could not be solved.
    risks: Float[Array, " layers"]
    seconds: float
    versions: Mapping[str, str]
    failures: Mapping[int, str] = field(default_factory=dict)  # why, by the number of the layer
    interrupted: bool = False
    theory_risk: float = math.nan  # where the quantity is another

    @property
    def quantity(self) -> str:
        """What is compared: the number that a fit is judged by."""
        return main_number(self.problem)

    @property
    def _words(self) -> str:
        """The quantity in words; the risk goes without saying."""
        return "" if self.quantity == "risk" else self.quantity.replace("_", " ")

    @property
    def estimate(self) -> Estimate:
        return Estimate(self.risks)

    @property
    def solved(self) -> int:
        """How many layers have a number."""
        return int(np.isfinite(self.risks).sum())

    @property
    def mean(self) -> float:
        """Mean of the layers that could be solved; nan if there is none."""
        return float(self.estimate.mean)

    @property
    def spread(self) -> float:
        """Standard deviation between layers; nan for a single one."""
        return self.standard_error * math.sqrt(self.solved)

    @property
    def standard_error(self) -> float:
        """Of the mean; nan for a single layer."""
        return float(self.estimate.standard_error)

    @property
    def difference(self) -> float:
        """Theory less layers."""
        return self.theory - self.mean

    @property
    def relative(self) -> float:
        return self.difference / self.mean if self.mean else math.nan

    @property
    def z(self) -> float:
        """Difference in standard errors of the mean; nan for a single layer."""
        return self.difference / self.standard_error if self.standard_error > 0 else math.nan

    @cached_property
    def doubts(self) -> tuple[str, ...]:
        """What the equations of a given layer are known to miss in such a problem."""
        found = []
        heavy = heaviness(self.problem.student) / self.sizes.width
        if heavy > HEAVY:
            found.append(
                f"the features of {self.problem.student} have tails too heavy for N = "
                f"{self.sizes.width}, and layers as well as the theory tend to be too low"
            )
        risk = self.mean if self.quantity == "risk" else self.theory_risk
        missing = common_mode(self.problem, self.sizes.dimension) / risk
        if missing > MISSING:
            found.append(
                "the layers lack the common mode of |x|^2, "
                f"about {100 * missing:.2g} % of their risk here, which the theory has"
            )
        return tuple(found)

    @property
    def outcome(self) -> str:
        """One word: agrees, differs, undecided or unreliable."""
        if self.solved == 0:
            return UNDECIDED
        if self.doubts:
            return UNRELIABLE
        if self.solved == 1:
            return UNDECIDED
        limit = scipy.special.stdtrit(self.solved - 1, (1 + LEVEL) / 2)
        if abs(self.relative) > TOLERANCE:
            return DIFFERS if self.standard_error == 0 or abs(self.z) > limit else UNDECIDED
        is_known = limit * self.standard_error <= TOLERANCE * self.mean
        return AGREES if is_known else UNDECIDED

    @property
    def verdict(self) -> str:
        """One line: how far apart theory and layers are, and what to make of it."""
        if self.solved == 0:
            return f"{self._drawn} could not be solved: the check says nothing; simulate"
        numbers = f"{with_error(self.mean, self.standard_error)} against {self.theory:.4g}"
        apart = f"{100 * self.relative:+.2g} %"
        errors = f", {self.z:+.1f} s.e." if math.isfinite(self.z) else ""
        words = f"{self._words} " if self._words else ""
        told = f"{self._drawn}: {words}{numbers} ({apart}{errors})"
        lost = f"; {self._lost}" if self.failures else ""
        if self.outcome == UNRELIABLE:
            why = "; ".join(self.doubts)
            return f"the average theory cannot be judged by {told}: {why}; simulate{lost}"
        if self.outcome == DIFFERS:
            side = "above" if self.relative > 0 else "below"
            size = f"{100 * abs(self.relative):.2g} % {side}"
            return f"the average theory is {size} {told}: do not trust it here; simulate{lost}"
        if self.outcome == AGREES:
            within = math.ceil(1000 * abs(self.relative)) / 10
            return f"the average theory is within {within:g} % of {told}{lost}"
        if self.solved == 1:
            return f"undecided by {told}: one layer has no spread; ask for more{lost}"
        return f"undecided by {told}: {self._wanted}{lost}"

    @property
    def _of(self) -> str:
        return f"{self._words}: " if self._words else ""

    @property
    def _drawn(self) -> str:
        count = self.solved or len(self.risks)
        return f"{count} layer{'s' if count != 1 else ''} drawn at d = {self.sizes.dimension}"

    @property
    def _lost(self) -> str:
        return f"{len(self.failures)} of {len(self.risks)} layers could not be solved"

    @property
    def _wanted(self) -> str:
        """How many layers would know their mean well enough."""
        wanted = math.ceil((2 * self.spread / (TOLERANCE * self.mean)) ** 2)
        wanted = max(wanted, 2 * len(self.risks))
        return f"ask for about {wanted} layers" if wanted <= MOST else "simulate"

    def to_dict(self) -> dict[str, Any]:
        """Plain values fit for JSON."""
        return {
            "problem": self.problem.to_dict(),
            "bulk": self.bulk,
            **asdict(self.sizes),
            "layers": self.layers,
            "seed": self.seed,
            self.quantity: self.estimate.to_dict(),
            **plain_fields(self, *_NUMBERS),
            "outcome": self.outcome,
            "verdict": self.verdict,
            "failures": {str(number): why for number, why in self.failures.items()},
            "seconds": self.seconds,
            "versions": dict(self.versions),
            "interrupted": self.interrupted,
        }

    def rows(self) -> Iterator[tuple[str, str]]:
        """The lines of the table: what, and its value."""
        yield f"{self._of}average theory", f"{self.theory:.6g}"
        yield from self.found()

    def found(self) -> Iterator[tuple[str, str]]:
        """The same without the theory: these lines are also in the table of a prediction."""
        yield f"{self._of}mean of {self._drawn}", with_error(self.mean, self.standard_error)
        if math.isfinite(self.spread):
            yield "spread between layers", f"{self.spread:.3g}"
        if math.isfinite(self.relative):
            errors = f", {self.z:+.1f} standard errors" if math.isfinite(self.z) else ""
            yield "theory less layers", f"{100 * self.relative:+.2f} %{errors}"
        if self.failures:
            yield "layers that could not be solved", str(len(self.failures))

    @property
    def title(self) -> str:
        sizes, problem = self.sizes, self.problem
        steps = f"n0 = {sizes.step_samples}, n = {sizes.samples}"
        parts = f"d = {sizes.dimension}, N = {sizes.width}, {steps}, seed {self.seed}"
        teacher = " + ".join(map(str, (problem.teacher, *problem.teacher_terms)))
        learns = f"{problem.student} learns {teacher}"
        return f"theory ({self.bulk} bulk) against given layers: {learns}, {parts}"

    def notes(self) -> Iterator[str]:
        yield f"  {self.verdict}"
        for number, why in self.failures.items():
            yield f"  layer {number}: {why}"
        if self.interrupted:
            yield f"interrupted: {len(self.risks)} of {self.layers} layers are finished"


def check_layers(
    problem: Problem,
    layers: int = 3,
    *,
    seed: int = 0,
    bulk: str = "exact",
    progress: Progress | None = None,
) -> LayerCheck:
    """Draw first layers at the problem's dimension, solve each, and put the theory next to them.

    Layer i is the one that ``simulate(problem, seed=seed)`` trains in its replicate i, so that the
    two can be compared layer by layer. ``predict_features`` solves the equations of the layer as it
    is; no ridge and no test data are drawn. ``predict(problem, check=layers)`` does the same and
    keeps the prediction.

    Args:
        problem: of a finite dimension, with one ridge value.
        layers: how many, 1 to 100. One has no spread; a few tell a difference of tens of per cent,
            some ten to twenty one of a few.
        seed: of the layers.
        bulk: of the theory that is checked; the layers are those of the network in any case.
        progress: called with the number of layers finished and asked for.
    """
    asked = Asked.checked(problem, layers, seed, bulk)
    return asked.against(predict(asked.problem, bulk=asked.bulk), progress)


@dataclass(frozen=True)
class Asked:
    """A check that may begin: its arguments are in order, and the layers fit in memory."""

    problem: Problem  # at the whole numbers of the layers
    layers: int
    seed: int
    bulk: str

    @classmethod
    def checked(cls, problem: object, layers: object, seed: object, bulk: object) -> Asked:
        question = Problem.asked(problem)
        count = whole("layers", layers, 1, MOST)
        if question.dimension == math.inf:
            hint = "the layers are drawn at a finite size, for instance 200"
            raise InvalidParameter("dimension", "a whole number >= 2 for a check", "inf", hint)
        if isinstance(question.ridge, tuple):
            given = f"{len(question.ridge)} values"
            raise InvalidParameter("ridge", "a single number for a check", given)
        sized = at_size(question, None, "network")
        _refuse_beyond_memory(sized)
        return cls(sized, count, whole("seed", seed, 0), choice("bulk", bulk, BULKS))

    def against(self, theory: Prediction, progress: Progress | None = None) -> LayerCheck:
        """Draw and solve the layers; Ctrl-C leaves those that are finished."""
        begin = time.perf_counter()
        risks: list[float] = []
        failures: dict[int, str] = {}

        def result(interrupted: bool) -> LayerCheck:
            return LayerCheck(
                problem=self.problem,
                bulk=self.bulk,
                sizes=self.problem.sizes(),
                theory=float(getattr(theory, main_number(self.problem))),
                layers=self.layers,
                seed=self.seed,
                risks=np.array(risks),
                seconds=time.perf_counter() - begin,
                versions=versions(),
                failures=failures,
                interrupted=interrupted,
                theory_risk=float(theory.risk),
            )

        try:
            for number in range(self.layers):
                try:
                    risk = layer_number(self.problem, self.seed, number)
                except FirststepError as error:  # of this layer: the question is in order
                    risk, failures[number] = math.nan, " ".join(str(error).split())
                risks.append(risk)
                if progress is not None:
                    progress(number + 1, self.layers)
        except KeyboardInterrupt:
            done = f"interrupted: {len(risks)} of {self.layers} layers finished"
            raise Interrupted(result(True) if risks else None, done) from None
        return result(False)


def layer_number(problem: Problem, seed: int, number: int) -> float:
    """The main number of one layer: that of replicate ``number`` of ``simulate``."""
    layer = first_layer(problem, seed=seed, replicate=number)
    with np.errstate(all="ignore"):  # what is not finite is refused, not warned about
        teacher = layer.directions if problem.teacher_terms else layer.teacher
        found = predict_features(layer.after, problem, teacher, initial=layer.before)
    return float(getattr(found, main_number(problem)))


def _refuse_beyond_memory(problem: Problem) -> None:
    """Say so before any work if the step or the equations do not fit."""
    sizes, free = problem.sizes(), available_memory()
    equations = 8 * (_SQUARES * sizes.width**2 + 4 * sizes.dimension * sizes.width)
    needed = max(equations, replicate_cost(problem)[1])
    if free is not None and needed > 0.9 * free:
        hint = f"one layer needs {needed / 1e9:.3g} GB, {free / 1e9:.3g} GB are free"
        raise NotEnoughMemory("dimension", "smaller with these ratios", sizes.dimension, hint)
