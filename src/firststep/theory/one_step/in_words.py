"""A prediction read out: what the step buys, how far that is from the bounds, what the rest is and
what would help.

Every statement is a number of this prediction or of one beside it: what "would help" has been
tried, by changing one field by a quarter, and the samples that "get below the bound" are a place on
the curve along alpha.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.results import per_cent
from firststep.theory.loss_numbers import has_other_loss

if TYPE_CHECKING:
    from firststep.problem import Problem
    from firststep.theory.one_step.prediction import Prediction

NOTHING = 0.005  # a change of the risk by less is none
QUARTER = 1.25
NEGLIGIBLE = 1e-9  # of the teacher's power: a bound, or a risk, that is none
FARTHEST = 1000.0  # alpha up to which the bound is looked for, or a hundred times the present one
_PLACES = 13  # of alpha on the way there
_MOST = 2  # changes that are named

PARTS = {
    "along": "the shape along the step, which the features miss or the ridge shrinks",
    "across": "the linear part of the teacher across the step, which is not learned",
    "out_of_reach": "the part of the teacher across the step that no fit can have",
    "fluctuation": "scatter of the fit: finite samples, label noise and random features",
}


class _Change(NamedTuple):
    """One field moved by a quarter."""

    field: str
    factor: float
    words: str


CHANGES = (
    _Change("alpha", QUARTER, "a quarter more samples in the fit"),
    _Change("alpha0", QUARTER, "a quarter more samples in the step"),
    _Change("beta", QUARTER, "a quarter more neurons"),
    _Change("beta", 1 / QUARTER, "a fifth fewer neurons"),
    _Change("step", QUARTER, "a step longer by a quarter"),
    _Change("step", 1 / QUARTER, "a step shorter by a fifth"),
    _Change("ridge", QUARTER, "a ridge larger by a quarter"),
    _Change("ridge", 1 / QUARTER, "a ridge smaller by a fifth"),
)


class Measure(NamedTuple):
    """The number that a problem is about."""

    name: str
    words: str

    def of(self, found: Prediction) -> float:
        return float(getattr(found, self.name))


def measure_of(found: Prediction) -> Measure:
    if found.problem.labels.is_binary:
        return Measure("error_rate", "error rate")
    return Measure("risk", "risk")


def in_words(found: Prediction) -> str:
    """Some sentences on a single point."""
    return " ".join(sentences(found))


def sentences(found: Prediction) -> Iterator[str]:
    measure = measure_of(found)
    yield what_the_step_does(found, measure)
    beyond = limits_of_labels(found) if found.problem.labels.is_binary else kernel_bound(found)
    if beyond:
        yield beyond
    if measure.of(found) > NEGLIGIBLE * power(found, measure):
        if not found.problem.loss.is_margin:
            yield what_is_left(found)
        yield what_helps(found, measure)
    if found.bulk == "exact" and found.is_flagged:
        yield how_far_off(found)


def power(found: Prediction, measure: Measure) -> float:
    """What predicting nothing costs: the teacher's power, or guessing every other label right."""
    return 0.5 if measure.name == "error_rate" else found.error_split.total


def without_step(found: Prediction, measure: Measure) -> float:
    if measure.name == "risk":
        return float(found.random_features_risk)
    still = found.again(found.problem, step=np.zeros(1))
    return float(np.ravel(still.error_rate)[0])


def what_the_step_does(found: Prediction, measure: Measure) -> str:
    number, (name, words) = measure.of(found), measure
    nothing = power(found, measure)
    if not found.problem.moves_weights:
        share = f", {per_cent(number / nothing)} of that of predicting nothing"
        if name == "error_rate":
            share = ""
        return f"Without a step the {words} is {number:.3g}{share}."
    before = without_step(found, measure)
    if not math.isfinite(before):
        return f"After the step the {words} is {number:.3g}."
    worse = name == "risk" and number > nothing * (1 + NOTHING)
    end = f", worse than predicting nothing ({nothing:.3g})." if worse else "."
    if before <= NEGLIGIBLE * nothing and number <= NEGLIGIBLE * nothing:
        return f"There is nothing left to learn: the {words} is zero with and without a step."
    change = number / before - 1 if before > 0 else math.inf
    if abs(change) < NOTHING:
        told = f"{before:.3g} without it and {number:.3g} with it"
        return f"The step changes next to nothing: the {words} is {told}{end}"
    moved = f"from {before:.3g} to {number:.3g} ({_signed(change)})"
    if change < 0:
        return f"The step cuts the {words} {moved}{end}"
    return f"The step does harm: it raises the {words} {moved}{end}"


def _signed(change: float) -> str:
    """-70 %; what more than doubles in times."""
    if change > 1:
        return f"{change + 1:.2g} times as much" if math.isfinite(change) else "it was zero"
    return f"{'−' if change < 0 else '+'}{per_cent(abs(change))}"


def how_far_off(found: Prediction) -> str:
    """The finite-size error, where it is large or not known."""
    _, (relative, reason) = found.doubted
    if not math.isfinite(relative):
        return f"How far networks are from this is not known: {reason}."
    if found.problem.dimension == math.inf:
        return f"These are numbers of infinite size: {reason} ({per_cent(relative)})."
    return f"Networks of d = {found.problem.dimension:g} may be {per_cent(relative)} off: {reason}."


def kernel_bound(found: Prediction) -> str:
    """How far from what no fixed kernel can beat with any number of samples that grows as d."""
    bound, risk = found.kernel_lower_bound, float(found.risk)
    if has_other_loss(found.problem) or not bound > NEGLIGIBLE * found.error_split.total:
        return ""
    told = f"the lower bound of all fixed kernels ({bound:.3g})"
    if risk < bound:
        return f"That is {per_cent(1 - risk / bound)} below {told}."
    gap = per_cent(risk / bound - 1) if risk < 3 * bound else f"{risk / bound:.2g} times"
    side = f"{gap} above" if risk < 3 * bound else gap
    return f"That is {side} {told}; {samples_below(found, bound)}."


def samples_below(found: Prediction, bound: float) -> str:
    """Where along alpha the risk falls below the bound for good, everything else as it is."""
    alpha, problem = found.problem.alpha, fixed_step(found)
    places = np.geomspace(alpha, max(FARTHEST, 100 * alpha), _PLACES)
    for _ in range(2):  # the second time between two places of the first
        risks = np.ravel(found.again(problem, alpha=places).risk)
        places = places[np.isfinite(risks)]
        above = np.flatnonzero(risks[np.isfinite(risks)] >= bound)
        last = above[-1] if above.size else 0
        if last == places.size - 1:
            return "more samples in the fit alone do not get below it"
        places = np.geomspace(places[last], places[last + 1], _PLACES)
    return f"with more than about {places[-1]:.2g} d samples in the fit it gets below"


def fixed_step(found: Prediction) -> Problem:
    """The problem with an alpha0 of its own, which does not follow alpha."""
    return found.problem.replace(alpha0=found.problem.alpha0)


def limits_of_labels(found: Prediction) -> str:
    """What the labels allow at all, and what the direction of the step does."""
    best, along = float(found.bayes_error_rate), float(found.direction_error_rate)
    told = f"No classifier can be wrong less often than {best:.3g}"
    if math.isfinite(along) and found.problem.moves_weights:
        told += f", and none that sees the direction of the step alone less often than {along:.3g}"
    return f"{told}."


def what_is_left(found: Prediction) -> str:
    split = found.error_split
    parts = {name: getattr(split, name) for name in PARTS}
    name = max(parts, key=lambda each: parts[each])
    share = parts[name] / split.risk
    head = "Most" if share > 0.5 else "The largest part"
    return f"{head} of what is left ({per_cent(share)}) is {PARTS[name]}."


def tried(found: Prediction, measure: Measure) -> list[tuple[float, str]]:
    """The relative change of the number by every change that can be made, and its words."""
    problem = fixed_step(found)
    moves = [each for each in CHANGES if getattr(problem, each.field) > 0]
    if not problem.moves_weights:
        moves = [each for each in moves if each.field not in ("step", "alpha0")]
    fields = {
        name: np.array(
            [
                getattr(problem, name) * (each.factor if each.field == name else 1.0)
                for each in moves
            ]
        )
        for name in dict.fromkeys(each.field for each in moves)
    }
    numbers = np.ravel(getattr(found.again(problem, **fields), measure.name))
    changes = numbers / measure.of(found) - 1
    return [(float(c), each.words) for c, each in zip(changes, moves, strict=True)]


def what_helps(found: Prediction, measure: Measure) -> str:
    """The best of small changes, tried one by one."""
    better = sorted(each for each in tried(found, measure) if each[0] < -NOTHING)[:_MOST]
    if not better:
        return f"No small change of samples, width, step or ridge lowers it by {per_cent(NOTHING)}."
    (first, words), *others = better
    told = f"{words[0].upper()}{words[1:]} would lower it by {per_cent(-first)}"
    return told + "".join(f", {more} by {per_cent(-change)}" for change, more in others) + "."
