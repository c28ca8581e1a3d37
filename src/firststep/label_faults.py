"""What is wrong with the labels and losses of a problem, taken together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from firststep.activations import Activation
from firststep.errors import Fault
from firststep.label_laws import LabelLaw
from firststep.losses import Loss


class Asked(Protocol):
    """The fields of a Problem that are looked at."""

    teacher: Activation
    noise: float
    loss: Loss
    labels: LabelLaw
    teacher_terms: tuple[Activation, ...]
    threshold: float
    intercept: bool
    step_loss: Loss

    @property
    def ridges(self) -> tuple[float, ...]: ...


# Fields that came later, with their defaults as plain values: left out of ``to_dict`` there.
OF_THE_FIT = {
    "loss": "square",
    "labels": "real",
    "flip": 0.0,
    "threshold": 0.0,
    "intercept": False,
    "step_loss": "square",
    "noise_law": "gaussian",
}
OF_THE_DATA = {"inputs": "gaussian", "teacher_overlaps": "equal", "teacher_terms": ""}
LATER = {**OF_THE_FIT, **OF_THE_DATA}


def plain_value(value: object) -> object:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return value if isinstance(value, int | float) else str(value)


def of_the_labels(problem: Asked) -> Iterator[Fault]:
    """What the law of the labels has no use for, and a teacher of one class only."""
    law, given = str(problem.labels), {n: plain_value(getattr(problem, n)) for n in OF_THE_FIT}
    others = ("noise_law",) if problem.labels.is_binary else ("flip", "threshold")
    for name in others:
        if given[name] != LATER[name]:
            hint = "" if problem.labels.is_binary else "try labels sign, for y = +-1"
            allowed = f"{LATER[name]} with labels {law}".replace("0.0", "0")
            yield Fault(name.replace("_", "-"), allowed, str(given[name]), hint)
    if problem.labels.kind == "logit" and problem.noise > 0:
        hint = "its labels are random by themselves"
        yield Fault("noise", f"0 with labels {law}", f"{problem.noise:g}", hint)
    if problem.labels.kind == "sign" and problem.noise == 0:
        yield from _of_one_class(problem)


def _of_one_class(problem: Asked) -> Iterator[Fault]:
    """The range of the teacher, on inputs of which none is rarer than 1e-8."""
    ends = [_ends(each) for each in (problem.teacher, *problem.teacher_terms)]
    low, high = (sum(column) for column in zip(*ends, strict=True))  # of independent directions
    if low < problem.threshold < high:
        return
    seen = f"the teacher is from {low:.4g} to {high:.4g}, so all labels are of one class"
    if problem.threshold == 0:
        allowed = "a function that changes its sign, with labels sign"
        given = " + ".join(map(str, (problem.teacher, *problem.teacher_terms)))
        yield Fault("teacher", allowed, given, f"{seen}; try a threshold")
    else:
        allowed = f"between {low:.4g} and {high:.4g}, the range of the teacher"
        yield Fault("threshold", allowed, f"{problem.threshold:g}", "all labels are of one class")


def _ends(function: Activation) -> tuple[float, float]:
    points = np.unique(np.concatenate([np.linspace(-5.6, 5.6, 4001), function.kinks]))
    with np.errstate(all="ignore"):
        values = function.evaluate(points)
    return float(np.nanmin(values)), float(np.nanmax(values))


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
