"""What is wrong with the labels and losses of a problem, taken together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import numpy as np

from firststep.activations import Activation
from firststep.errors import Fault
from firststep.label_laws import LabelLaw
from firststep.losses import Loss

if TYPE_CHECKING:
    from firststep.typing import Array, Float

_RAREST = 1e-8  # chance of a class: no data set that fits in a machine has it


class Asked(Protocol):
    """The fields of a Problem that are looked at."""

    teacher: Activation
    noise: float
    loss: Loss
    labels: LabelLaw
    threshold: float
    intercept: bool
    step_loss: Loss

    @property
    def ridges(self) -> tuple[float, ...]: ...


# Fields that came later, with their defaults as plain values: left out of ``to_dict`` there.
LATER = {
    "loss": "square",
    "labels": "real",
    "flip": 0.0,
    "threshold": 0.0,
    "intercept": False,
    "step_loss": "square",
    "noise_law": "gaussian",
}


def plain_value(value: object) -> object:
    return value if isinstance(value, int | float) else str(value)


def of_the_labels(problem: Asked) -> Iterator[Fault]:
    """What the law of the labels has no use for, and a teacher of one class only."""
    law, given = str(problem.labels), {name: plain_value(getattr(problem, name)) for name in LATER}
    others = ("noise_law",) if problem.labels.is_binary else ("flip", "threshold")
    for name in others:
        if given[name] != LATER[name]:
            hint = "" if problem.labels.is_binary else "try labels sign, for y = +-1"
            allowed = f"{LATER[name]} with labels {law}".replace("0.0", "0")
            yield Fault(name.replace("_", "-"), allowed, str(given[name]), hint)
    if problem.labels.kind == "logit" and problem.noise > 0:
        hint = "its labels are random by themselves"
        yield Fault("noise", f"0 with labels {law}", f"{problem.noise:g}", hint)
    if problem.labels.is_binary:
        yield from _of_one_class(problem)


def _of_one_class(problem: Asked) -> Iterator[Fault]:
    """The range of the teacher, on inputs of which none is rarer than 1e-8; where labels are
    random without flips, a class that is rarer than that.
    """
    points = np.unique(np.concatenate([np.linspace(-5.6, 5.6, 4001), problem.teacher.kinks]))
    with np.errstate(all="ignore"):
        values = problem.teacher.evaluate(points)
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    is_sure = problem.labels.kind == "sign" and problem.noise == 0
    has_both = low < problem.threshold < high
    if has_both or (not is_sure and _rarer(problem, points, values) >= _RAREST):
        return
    seen = f"the teacher is from {low:.4g} to {high:.4g}, so all labels are of one class"
    law, near = f"labels {problem.labels.kind}", "between" if is_sure else "near or between"
    if problem.threshold == 0:
        allowed = f"a function that changes its sign, with {law}"
        yield Fault("teacher", allowed, str(problem.teacher), f"{seen}; try a threshold")
    else:
        allowed = f"{near} {low:.4g} and {high:.4g}, the range of the teacher"
        yield Fault("threshold", allowed, f"{problem.threshold:g}", "all labels are of one class")


def _rarer(problem: Asked, points: Float[Array, " z"], values: Float[Array, " z"]) -> float:
    """The chance of the rarer class, but for flips."""
    with np.errstate(all="ignore"):
        chance = problem.labels.probability(
            values, noise=problem.noise, threshold=problem.threshold, flip=0.0
        )
    mass = np.exp(-(points**2) / 2) * np.gradient(points) / np.sqrt(2 * np.pi)
    return float(min(np.nansum(mass * chance), np.nansum(mass * (1 - chance))))


def of_the_losses(problem: Asked) -> Iterator[Fault]:
    """Losses that do not fit the labels, and ridges without which there is no minimum."""
    of_margins = {True: "binary", False: "real"}
    is_square = problem.loss.name == "square"
    if not is_square and problem.loss.is_margin != problem.labels.is_binary:
        allowed = ("square, huber:DELTA or quantile:THETA with real labels", "sign")
        if problem.labels.is_binary:
            allowed = ("square, logistic, hinge or squared-hinge with binary labels", "real")
        hint = f"{problem.loss.name} is a loss of {of_margins[problem.loss.is_margin]} labels"
        yield Fault("loss", allowed[0], str(problem.loss), f"{hint}: try labels {allowed[1]}")
    if problem.step_loss.name not in ("square", "logistic"):
        why = "it has no gradient" if not problem.step_loss.is_smooth else "only these are known"
        yield Fault("step-loss", "square or logistic", str(problem.step_loss), why)
    elif problem.step_loss.is_margin and not problem.labels.is_binary:
        hint = "logistic is a loss of binary labels: try labels sign"
        yield Fault("step-loss", "square with real labels", str(problem.step_loss), hint)
    if not (is_square and not problem.intercept) and min(problem.ridges) == 0:
        what = f"loss {problem.loss}" if not is_square else "an intercept"
        yield Fault("ridge", f"positive with {what}", "0", "there may be no minimum")
