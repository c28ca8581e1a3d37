"""Rules that turn what was measured into an answer, its causes and its reasons, in sentences.

Yes: the error on new rows is smaller with a step than without, and smaller than that of a linear
fit, both beyond zero at 95 %. All else is no, with what is known of the cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firststep.advice.intervals import Interval
from firststep.advice.measured import LINEAR, NO_STEP, ONE_STEP, REDRAWS, SEVERAL, Measured

if TYPE_CHECKING:
    from firststep.advice.direction import Direction
    from firststep.advice.learning_curve import Curve
    from firststep.advice.matched import Matched, Trust
    from firststep.advice.recommended import Recommended

NO_LINEAR_PART = 0.05  # of the variance of y: what is less than that is no linear part
POOR_OVERLAP = 0.8  # with the direction there is
MUCH_NOISE = 0.3  # a share of the variance explained that is little
WORTH = 0.05  # a share of the risk that more rows have to save
HEAVY = 0.25  # share of the squared gradient of one row in a hundred; of Gaussian ones 0.06 to 0.1
MANY_TIMES = 10.0  # a loss, over the risk, from which a ratio says more than a percentage
FAINT = 0.10  # a gain, over the risk, that so many rows should be able to tell from zero


@dataclass(frozen=True)
class Verdict:
    """``answer`` is yes or no; ``causes`` name why not, the first is the main one."""

    answer: str
    sentence: str
    causes: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Evidence:
    """All that a verdict is made of."""

    rows: int
    columns: tuple[str, ...]
    target: str
    measured: Measured
    direction: Direction
    trust: Trust
    matched: Matched | None
    recommended: Recommended
    curve: Curve

    @property
    def best(self) -> str:
        """The model of steps that the answer is about."""
        gains = self.measured.gains
        one, several = (
            gains[f"{name} over no step"].is_positive and gains[f"{name} over linear"].is_positive
            for name in (ONE_STEP, SEVERAL)
        )
        better = gains["three steps over one"].is_positive
        return SEVERAL if several and (better or not one) else ONE_STEP

    @property
    def helps(self) -> bool:
        gains, name = self.measured.gains, self.best
        return (
            gains[f"{name} over no step"].is_positive and gains[f"{name} over linear"].is_positive
        )


def decide(found: Evidence) -> Verdict:
    """The answer and what it rests on."""
    causes = () if found.helps else tuple(dict.fromkeys(name for name, _ in _causes(found)))
    told = () if found.helps else tuple(words for _, words in _causes(found))
    return Verdict(
        answer="yes" if found.helps else "no",
        sentence=" ".join([_sentence(found), *_instead(found)]),
        causes=causes,
        reasons=(*told, *_reasons(found)),
    )


def _percent(share: Interval) -> str:
    """67 % (60 to 74 %)."""
    digits = 0 if share.high - share.low > 0.1 else 1
    value, low, high = (
        f"{round(100 * each, digits) + 0.0:.{digits}f}"  # no -0
        for each in (share.value, share.low, share.high)
    )
    return f"{value} % ({low} to {high} %)"


def _sentence(found: Evidence) -> str:
    measured, name = found.measured, found.best
    gain = _percent(measured.relative(f"{name} over no step"))
    levels = measured.determination
    risks = f"R² {levels[NO_STEP].value:.3f} without, {levels[name].value:.3f} with"
    steps, s = ("one step", "s") if name == ONE_STEP else (name, "")
    if found.helps:
        over = _percent(measured.relative(f"{name} over linear"))
        return (
            f"Yes: {steps} of feature learning lower{s} the squared error on new rows by {gain} of "
            f"what it is without ({risks}), and by {over} of that of a linear fit."
        )
    over_nothing = measured.gains[f"{name} over no step"]
    if over_nothing.is_positive:
        return (
            f"No: {steps} lower{s} the error of the network by {gain} ({risks}), but no gain "
            f"over a linear fit (R² {levels[LINEAR].value:.3f}) can be told from zero at 95 %."
        )
    if over_nothing.is_negative:
        return f"No: {steps} make{s} the error larger: the gain is {gain} ({risks})."
    return (
        f"No: no gain from a step can be told from zero at 95 %. It is {gain} of the squared error "
        f"without a step ({risks})."
    )


def _causes(found: Evidence) -> Iterator[tuple[str, str]]:
    """Names of causes, each with its sentence."""
    measured, direction = found.measured, found.direction
    levels = measured.determination
    best = max((LINEAR, NO_STEP, ONE_STEP), key=lambda name: levels[name].value)
    explained = max(levels[best].value, 0.0)
    if not direction.is_known and direction.is_curved:
        yield (
            "no linear part",
            f"No linear part: {found.target} does depend on the columns, but evenly along some "
            "direction, and a first step starts from what is linear "
            f"(|v|² is {direction.strength}; the curved part {direction.curvature:.2f}, of noise "
            f"0 ± {direction.curvature_of_noise:.2f}).",
        )
    if not measured.is_learned:
        yield (
            "nothing to learn",
            f"Nothing to learn was found: no fit predicts {found.target} better than its mean, at "
            f"95 %. It is noise given these columns, or {found.rows} rows are too few to see more.",
        )
    low = direction.strength.high <= NO_LINEAR_PART
    if not direction.is_known and not direction.is_curved and (measured.is_learned or low):
        most = min(direction.strength.high, 1.0)
        yield (
            "no linear part",
            "No linear part: the direction that a step would take cannot be told from noise "
            f"(|v|², the linear part along it, is at most {most:.2g} of the variance).",
        )
    few = direction.is_known and direction.overlap.value < POOR_OVERLAP
    unseen = not direction.is_known and direction.strength.high > NO_LINEAR_PART
    if few or unseen:
        d = len(found.columns)
        needed = 4 * direction.samples_for_half
        enough = f"; 0.9 needs about {needed:.0f} rows" if direction.is_known else ""
        yield (
            "too few samples",
            f"Too few samples for the step: with {found.rows} rows of {d} columns the overlap of "
            f"its direction with the true one is {direction.overlap}{enough}.",
        )
    yield from _enough(found)
    reach = measured.relative("one step over no step")
    if measured.is_learned and (reach.high - reach.low) / 2 > FAINT and not reach.is_negative:
        yield (
            "too few samples",
            f"With {found.rows} rows a gain of less than {100 * (reach.high - reach.low) / 2:.0f} "
            "% of the error cannot be seen.",
        )
    if measured.is_learned and explained < MUCH_NOISE:
        yield (
            "too much noise",
            f"Much noise: the best fit ({best}) explains {100 * explained:.0f} % of the variance "
            f"of {found.target}.",
        )
    if found.trust.word == "not trusted" and direction.heaviest > HEAVY:
        yield (
            "inputs far from Gaussian",
            f"The inputs are far from Gaussian ({found.trust.reasons[0]}): one row in a hundred "
            f"makes {100 * direction.heaviest:.0f} % of the squared gradient.",
        )


def _value(interval: Interval) -> float:
    return interval.value


def _enough(found: Evidence) -> Iterator[tuple[str, str]]:
    """Where something simpler learns all that is learned."""
    measured = found.measured
    levels, over = measured.determination, measured.gains
    if not measured.is_learned:
        return
    more = max(
        (measured.relative(f"{name} over linear") for name in (NO_STEP, ONE_STEP)), key=_value
    )
    if not (over["one step over linear"].is_positive or over["no step over linear"].is_positive):
        told = (
            f"R² {levels[LINEAR]} of a linear fit; what a network gains on it is {_percent(more)}"
        )
        if more.value < -MANY_TIMES:
            yield (
                "a linear fit is enough",
                f"A linear fit is nearly exact (R² {levels[LINEAR].value:.6g}): the error of a "
                f"network is {1 - more.value:.2g} times as large.",
            )
        elif more.value <= FAINT:
            yield "a linear fit is enough", f"A linear fit does as well: {told} of its error."
        else:
            yield (
                "too few samples",
                f"No network is told from a linear fit by {found.rows} rows: {told} of that.",
            )
    elif over["no step over linear"].is_positive:
        yield (
            "random features are enough",
            f"Random features learn it without a step: R² {levels[NO_STEP]} beside "
            f"{levels[ONE_STEP].value:.3f}; with {len(found.columns)} columns "
            "there is little that a direction would add.",
        )


def _instead(found: Evidence) -> Iterator[str]:
    """What helps where a step does not."""
    if found.recommended.model == REDRAWS and not found.helps:
        level = found.measured.determination[REDRAWS].value
        yield f"But redraws of the whole first layer help: R² {level:.3f}."


def _redraws(found: Evidence) -> Iterator[str]:
    """How redraws of the whole layer do beside the better of one step and a linear fit."""
    measured = found.measured
    if REDRAWS not in measured.risks:
        return
    name = ONE_STEP if measured.gains["one step over linear"].value > 0 else LINEAR
    other = "one step" if name == ONE_STEP else "a linear fit"
    gain = "redraws over one" if name == ONE_STEP else "redraws over linear"
    told, level = _percent(measured.relative(gain)), measured.determination[REDRAWS].value
    if measured.gains[gain].is_positive:
        yield (
            f"Redraws of the whole first layer (OneStepRegressor without a width) lower the error "
            f"of {other} by {told}, to R² {level:.3f}."
        )
    elif measured.gains[gain].is_negative:
        yield f"Redraws of the whole first layer do worse than {other}: {told} of its error."
    else:
        yield f"Redraws of the whole first layer are not told from {other} at 95 %: {told}."


def _reasons(found: Evidence) -> Iterator[str]:
    measured, direction = found.measured, found.direction
    yield from _redraws(found)
    several = measured.gains["three steps over one"]
    told = _percent(measured.relative("three steps over one"))
    if several.is_positive:
        yield f"Three steps are better than one, by {told} of its error."
    elif several.is_negative:
        yield f"Three steps are worse than one, by {told} of its error."
    else:
        yield f"Three steps are not told from one at 95 %: {told} of its error."
    cosine = f"{direction.halves_cosine:.2f} ± {direction.halves_scatter:.2f}"
    yield (
        f"The directions found on two halves of the rows have the cosine {cosine}; with all rows "
        f"the overlap with the true one is {direction.overlap}."
    )
    out = "stands out" if direction.spike_stands_out else "does not stand out"
    yield (
        f"The change of the weights {out} as one direction: its first singular value is "
        f"{direction.spike_ratio:.1f} times its second, of a shuffled target "
        f"{direction.spike_of_noise:.1f} ± {direction.spike_of_noise_scatter:.1f} times."
    )
    shares = [
        f"{found.columns[place]} {share:+.2f} ± {error:.2f}"
        for place, share, error in direction.leading_columns()[:3]
    ]
    if direction.is_known:
        yield (
            f"Along that direction lies {_percent(direction.explained)} of the variance of "
            f"{found.target}, {100 * direction.explained_linear:.0f} % as a straight line. It is "
            f"made of {', '.join(shares)} (shares of the squared direction, with their sign)."
        )
    yield _theory(found)
    yield from _rows(found)


def _theory(found: Evidence) -> str:
    trust, matched = found.trust, found.matched
    words = {
        "trusted": "The Gaussian theory can be trusted on these inputs",
        "covariance only": "The theory can be trusted with the covariance of these inputs",
        "not trusted": f"The Gaussian theory is not to be trusted here: {trust.reasons[:1]}",
        "not known": f"Whether the theory holds is not known: {trust.reasons[:1]}",
    }[trust.word]
    words = words.replace("('", "").replace("',)", "")
    if matched is None:
        return f"{words}. No problem of the theory was matched to the data."
    name = ONE_STEP if ONE_STEP in matched.predicted else NO_STEP
    measured, predicted = matched.measured[name], matched.predicted[name]
    apart = predicted.high < measured.low or measured.high < predicted.low
    agrees = "differs from" if apart else "agrees with"
    return (
        f"{words}. For the matched problem (α = {matched.problem.alpha:.3g}, β = "
        f"{matched.problem.beta:.3g}, linear part {matched.linear_part}, noise "
        f"{matched.noise:.2f}) it predicts the risk {predicted} of the variance with {name}, "
        f"which {agrees} {measured} measured on the network that it is about."
    )


def _rows(found: Evidence) -> Iterator[str]:
    """What more rows would save."""
    steps = found.recommended.model in (ONE_STEP, SEVERAL) and ONE_STEP in found.curve.points
    name = ONE_STEP if steps else NO_STEP
    gains = [found.curve.gain_of(name, multiple) for multiple in (2.0, 4.0)]
    twice, four = map(_percent, gains)
    told = f"Twice the rows would lower the risk of {name} by {twice}, four times by {four}."
    if not found.measured.is_learned:
        yield f"{told} More rows than these cannot be judged from a target that is not learned yet."
        return
    worth = [each.value > WORTH for each in gains]
    if not worth[1]:
        advice = f"More rows are hardly worth it: less than {100 * WORTH:.0f} %."
    elif worth[0] and gains[1].value - gains[0].value <= WORTH:
        advice = "Twice the rows are worth it, more hardly."
    else:
        advice = "Four times the rows are worth it."
    if worth[1] and gains[1].low <= 0:
        advice = "More rows may be worth it; that they save anything is not certain."
    bound = " With more rows it may fall further than that." if found.curve.bounded[name] else ""
    yield f"{told} {advice}{bound}"
