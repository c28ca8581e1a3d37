"""What kind of question a problem is, what can be shown of it, and which values go together.

The rules are the library's own: every value is tried on a problem, and what is said against it is
the reason that the page shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from firststep.errors import Fault, InvalidParameter
from firststep.problem import Problem
from firststep.theory.loss_numbers import has_other_loss
from firststep.web.checked import Json
from firststep.web.words import FIELDS, QUANTITIES, Field, Line, Quantity

# The fit that is fast: its curves are asked for in one piece. Error rates and losses of labels that
# are random given the input are not, whatever the fit: by law of the labels the field that makes
# them so, or None where they always are.
FAST: Json = {"loss": "square", "intercept": False}
SPREAD = {"sign": "noise", "logit": None}
_TRIAL: Json = {"student": "tanh", "teacher": "z", "alpha": 1.0, "beta": 1.0}  # nothing against it


def kind_of(problem: Problem) -> str:
    """Which of ``words.KINDS``."""
    if problem.labels.is_binary:
        return "classes"
    return "loss" if has_other_loss(problem) else "ridge"


def offered(words: Mapping[str, Quantity] | Mapping[str, Line], problem: Problem) -> list[str]:
    """Names of what has a meaning for a problem."""
    kind = kind_of(problem)
    return [name for name, word in words.items() if kind in word.kinds]


def main_quantity(problem: Problem) -> str:
    """What a problem is about."""
    return offered(QUANTITIES, problem)[0]


def refuse_meaningless(given: str, words: Mapping[str, Quantity], problem: Problem) -> None:
    """Say so of a quantity that this kind of problem does not have."""
    known = offered(words, problem)
    if given not in known:
        allowed = "one of " + ", ".join(known)
        hint = f"labels {problem.labels}, loss {problem.loss}"
        raise InvalidParameter("quantity", allowed, given, hint)


@cache
def usable(name: str) -> tuple[str | float, ...]:
    """The options of a field; of a law those that go with some labels."""
    field = FIELDS[name]
    if field.kind != "law" or name == "labels":
        return field.options
    texts = [_text(FIELDS["labels"], str(each)) for each in FIELDS["labels"].options]

    def has_place(option: str | float) -> bool:
        return any(_fault(name, _text(field, str(option)), labels) is None for labels in texts)

    return tuple(filter(has_place, field.options))


@cache
def rules() -> Json:
    """For every law of the labels the fields that have fewer values with it, and why."""
    labels = {str(name): _text(FIELDS["labels"], str(name)) for name in FIELDS["labels"].options}
    others = [field for field in FIELDS.values() if field.name not in ("labels", *_TRIAL)]
    limits = {
        name: {field.name: limit for field in others if (limit := _limit(field, text))}
        for name, text in labels.items()
    }
    binary = [n for n, text in labels.items() if Problem(**_TRIAL, labels=text).labels.is_binary]
    return {"fast": FAST, "spread": SPREAD, "binary": binary, "with_labels": limits}


def _limit(field: Field, labels: str) -> Json | None:
    """The values that are left of a field, if they are not all."""
    values = dict(_tried(field, labels))
    faults = [fault for fault in values.values() if fault is not None]
    if not faults:
        return None
    hint = f" ({faults[0].hint})" if faults[0].hint else ""
    why = f"{field.label} must be {faults[0].allowed}{hint}"
    return {"allowed": [name for name, fault in values.items() if fault is None], "why": why}


def _tried(field: Field, labels: str) -> Iterator[tuple[str | float, Fault | None]]:
    """Values of a field, and what the library has against each."""
    if field.kind == "law":
        for name in map(str, usable(field.name)):
            yield name, _fault(field.name, _text(field, name), labels)
    elif field.kind == "number" and field.slider is not None and field.slider[0] <= 0:
        for value in (0.0, field.slider[1]):  # what can be switched off
            yield value, _fault(field.name, value, labels)


def _text(field: Field, name: str) -> str:
    """A law with the first value of its parameter."""
    own = {**FIELDS["loss"].parameters, **field.parameters}  # losses of the step are losses
    if name not in own:
        return name
    value = own[name].default
    return f"{name}:{value}" if isinstance(value, str) else f"{name}:{value:g}"


def _fault(name: str, value: object, labels: str) -> Fault | None:
    try:
        Problem(**{**_TRIAL, "labels": labels, name: value})
    except InvalidParameter as error:
        own = (fault for fault in error.faults if fault.parameter.replace("-", "_") == name)
        return next(own, None)
    return None
