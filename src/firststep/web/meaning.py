"""What kind of question a problem is, what can be shown of it, and which values go together.

The rules are the library's own: every value is tried on a problem, and what is said against it is
the reason that the page shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from firststep.errors import Fault, InvalidParameter
from firststep.problem import Problem
from firststep.structure import structure_of
from firststep.theory.loss_numbers import has_other_loss
from firststep.web.checked import Json
from firststep.web.words import FIELDS, QUANTITIES, Field, Line, Quantity

# The fit that is fast: its curves are asked for in one piece. Error rates and losses of labels that
# are random given the input are not, whatever the fit: by law of the labels the field that makes
# them so, or None where they always are.
FAST: Json = {"loss": "square", "intercept": False}
SPREAD = {"sign": "noise", "logit": None}
SPECTRA = tuple(name for name in FIELDS["inputs"].options if name != "gaussian")  # slow at finite d
DECIDING = ("labels", "inputs")  # fields whose law says which values others may have
_TRIAL: Json = {  # nothing speaks against it
    **{"student": "tanh", "teacher": "z", "alpha": 1.0, "beta": 1.0},
    "dimension": 100,  # a power law has no limit
}


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
    """The options of a field; of a law those that have a place in some problem."""
    field = FIELDS[name]
    if field.kind != "law" or name in DECIDING:
        return field.options
    return tuple(o for o in field.options if any(_has_place(field, o, by) for by in DECIDING))


@cache
def rules() -> Json:
    """For every law of what decides the fields that have fewer values with it, and why."""
    labels = FIELDS["labels"].options
    binary = [n for n in labels if Problem(**_TRIAL, labels=_text("labels", n)).labels.is_binary]
    limits = {decider: _limits(decider) for decider in DECIDING}
    slow = {"fast": FAST, "spread": SPREAD, "spectra": SPECTRA}
    return {**slow, "binary": binary, "limits": limits}


def _limits(decider: str) -> Json:
    others = [field for field in FIELDS.values() if field.name not in (*DECIDING, *_TRIAL)]
    return {
        str(law): {each.name: limit for each in others if (limit := _limit(each, decider, law))}
        for law in FIELDS[decider].options
    }


def _limit(field: Field, decider: str, law: str | float) -> Json | None:
    """The values that a law leaves of a field, if they are not all."""
    values = {each: _fault(field.name, each, decider, law) for each in _tried(field, decider)}
    faults = [fault for fault in values.values() if fault is not None]
    if not faults:
        return None
    hint = f" ({faults[0].hint})" if faults[0].hint else ""
    why = f"{field.label} must be {faults[0].allowed}{hint}"
    return {"allowed": [name for name, fault in values.items() if fault is None], "why": why}


def _tried(field: Field, decider: str) -> tuple[str | float, ...]:
    """Values of a field, of those that some law of what decides has a place for."""
    values: tuple[str | float, ...] = ()
    if field.kind == "law":
        values = field.options
    elif field.kind == "text":
        values = (str(field.default), *field.options[:1])
    elif field.kind == "number" and field.slider is not None and field.slider[0] <= 0:
        values = (0.0, field.slider[1])  # what can be switched off
    return tuple(each for each in values if _has_place(field, each, decider))


def _has_place(field: Field, option: str | float, decider: str) -> bool:
    return any(_fault(field.name, option, decider, law) is None for law in FIELDS[decider].options)


def _text(name: str, option: str | float) -> str | float:
    """A law with the first values of its parameters."""
    field = FIELDS[name]
    own = {**FIELDS["loss"].parameters, **field.parameters}  # losses of the step are losses
    if not isinstance(option, str) or option not in own:
        return option
    values = (each.default for each in own[option])
    return ":".join([option, *(v if isinstance(v, str) else f"{v:g}" for v in values)])


def _fault(name: str, option: str | float, decider: str, law: str | float) -> Fault | None:
    """What the library has against a value of a field where another field says what goes."""
    try:
        made = Problem(**{**_TRIAL, decider: _text(decider, law), name: _text(name, option)})
    except InvalidParameter as error:
        own = (fault for fault in error.faults if fault.parameter.replace("-", "_") == name)
        return next(own, None)
    default = FIELDS[name].default
    if name == "teacher_overlaps" and option != default and structure_of(made) is None:
        return Fault(name, f"{default} with inputs {law}", str(option), "they have no axes")
    return None
