"""The one reader of ``teacher_terms``: the s_j of y = s*(<x, theta>) + sum_j s_j(<x, theta_j>)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

from firststep.activations import Activation, activation
from firststep.errors import InvalidParameter

ALLOWED = "activations, such as relu or relu,tanh"


def teacher_terms(source: object) -> tuple[Activation, ...]:
    """The terms meant by a text such as ``relu,tanh``, one activation, several, or nothing."""
    if source is None or (isinstance(source, str) and not source.strip()):
        return ()
    parts: Iterable[Any]
    if isinstance(source, str):
        parts = _split(source)
    elif isinstance(source, Activation) or callable(source):
        parts = (source,)
    elif isinstance(source, Iterable) and not isinstance(
        source, Mapping | Set
    ):  # these have no order
        parts = source
    else:
        raise InvalidParameter("teacher-terms", ALLOWED, source)
    return tuple(_term(each) for each in parts)


def _split(text: str) -> list[str]:
    """Parts between the commas that no parenthesis encloses."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _term(source: object) -> Activation:
    made = activation(source, parameter="teacher-terms")
    try:
        _ = made.moments
    except InvalidParameter as error:
        raise error.at("teacher-terms") from None
    return made
