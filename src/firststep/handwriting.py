"""Expressions as people write them, turned into those of the parser: |z|, 2 tanh(z), 3z², z·z.

Only the text is looked at; what it means is for ``parsing`` to say.
"""

from __future__ import annotations

import re

# Names that mean a function of another name.
SYNONYMS = {"swish": "silu", "atan": "arctan", "tan_h": "tanh", "ln": "log"}
# Functions that are known elsewhere and have no name here, and how they are written.
WRITTEN = {
    "leaky_relu": "maximum(z, 0.01*z)",
    "leakyrelu": "maximum(z, 0.01*z)",
    "elu": "maximum(z, 0) + minimum(exp(z) - 1, 0)",
    "mish": "z*tanh(softplus(z))",
    "heaviside": "0.5 + 0.5*sign(z)",
    "step": "0.5 + 0.5*sign(z)",
    "hardtanh": "maximum(minimum(z, 1), -1)",
    "relu6": "minimum(relu(z), 6)",
    "softsign": "z/(1 + abs(z))",
    "max": "maximum(z, 0)",
    "min": "minimum(z, 0)",
    "square": "z**2",
}
_SIGNS = {"−": "-", "–": "-", "·": "*", "×": "*", "⋅": "*", "÷": "/"}
_POWERS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_TOKEN = re.compile(
    r"\s*(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|\s*(?P<name>[A-Za-z_]\w*)"
    r"|\s*(?P<power>\*\*|\^)"
    r"|\s*(?P<sign>[-+*/(),|])"
)


class Unreadable(ValueError):
    """A text that cannot be read, with the reason."""


def in_full(text: str, variables: tuple[str, ...]) -> str:
    """The text with all its products and abs written out.

    A number, a closing bracket or one of ``variables`` before a name, a number or an opening
    bracket is a factor. A bar closes where one is open at that depth and a value stands before it.
    """
    for sign, plain in _SIGNS.items():
        text = text.replace(sign, plain)
    text = re.sub(r"[⁰¹²³⁴⁵⁶⁷⁸⁹]+", lambda found: "**" + found[0].translate(_POWERS), text)
    out: list[str] = []
    open_bars = [0]  # by depth of brackets
    after = ""  # "value", "function", or nothing of both
    for kind, token in _tokens(text):
        opens = kind in ("number", "name") or token == "("
        if token == "|":
            closes = after == "value" and open_bars[-1] > 0
            open_bars[-1] += -1 if closes else 1
            if not closes and after == "value":
                out.append("*")
            out.append(")" if closes else "abs(")
            after = "value" if closes else ""
            continue
        if opens and after == "value":
            out.append("*")
        elif opens and after == "function" and token != "(":
            raise Unreadable(f"{out[-1]} needs its argument in brackets, as in {out[-1]}(z)")
        if token == "(":
            open_bars.append(0)
        elif token == ")" and (len(open_bars) == 1 or open_bars.pop()):
            raise Unreadable("its brackets do not match")
        out.append("**" if kind == "power" else token)
        is_value = kind == "number" or token == ")" or token in variables
        after = "value" if is_value else "function" if kind == "name" else ""
    if len(open_bars) > 1 or open_bars[0]:
        raise Unreadable("its brackets do not match")
    return "".join(out)


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise Unreadable("it is not a complete expression")
        found.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return found


def hint_for(name: str) -> str:
    """What to write in place of a name that is unknown; nothing if nothing is known of it."""
    if len(name) == 1:
        return "the variable is z"
    written = WRITTEN.get(name.lower())
    return f"write {written}" if written else ""
