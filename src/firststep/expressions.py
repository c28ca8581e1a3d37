"""Functions of one variable z as small trees: differentiated, printed, evaluated on NumPy or JAX.

A tree is built by ``parsing.parse`` from text or by ``trace`` (by calling a NumPy function on the
symbol z). Equal subtrees are one object, so a function and its derivative share the work.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from firststep.evaluation import PLAIN
from firststep.evaluation import evaluate as evaluate

if TYPE_CHECKING:
    Number: TypeAlias = "Expression | float"  # what an expression can be combined with

MAX_PRINTED = 20_000  # characters: a tree that shares subtrees can be exponentially longer in print
_interned: weakref.WeakValueDictionary[tuple[Any, ...], Expression] = weakref.WeakValueDictionary()


class Expression:
    """One node: an operation, its arguments, and a value for constants and wrappers."""

    __slots__ = ("__weakref__", "arguments", "operation", "value")
    operation: str
    arguments: tuple[Expression, ...]
    value: float

    def __add__(self, other: Number) -> Expression:
        return _add(self, _lift(other))

    def __radd__(self, other: Number) -> Expression:
        return _add(_lift(other), self)

    def __sub__(self, other: Number) -> Expression:
        return _add(self, -_lift(other))

    def __rsub__(self, other: Number) -> Expression:
        return _add(_lift(other), -self)

    def __mul__(self, other: Number) -> Expression:
        return _multiply(self, _lift(other))

    def __rmul__(self, other: Number) -> Expression:
        return _multiply(_lift(other), self)

    def __truediv__(self, other: Number) -> Expression:
        return _divide(self, _lift(other))

    def __rtruediv__(self, other: Number) -> Expression:
        return _divide(_lift(other), self)

    def __pow__(self, other: Number) -> Expression:
        return _power(self, _lift(other))

    def __rpow__(self, other: Number) -> Expression:
        return _power(_lift(other), self)

    def __neg__(self) -> Expression:
        return _multiply(constant(-1.0), self)

    def __pos__(self) -> Expression:
        return self

    def __abs__(self) -> Expression:
        return apply("abs", self)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Number, **options: object
    ) -> Any:
        """NumPy functions of z become nodes, so that an ordinary NumPy callable can be traced."""
        name = _UFUNCS.get(ufunc.__name__)
        if method != "__call__" or options or name is None:
            return NotImplemented
        return name(*(_lift(each) for each in inputs))

    def __str__(self) -> str:
        return _text(self, 0)

    def __repr__(self) -> str:
        return f"Expression({self})"


def make_node(
    operation: str, arguments: tuple[Expression, ...] = (), value: float = 0.0
) -> Expression:
    key = (operation, value, *map(id, arguments))
    found = _interned.get(key)
    if found is None:
        found = Expression.__new__(Expression)
        found.operation, found.arguments, found.value = operation, arguments, value
        _interned[key] = found
    return found


Z = make_node("z")


def constant(value: float) -> Expression:
    value = float(value)
    if not math.isfinite(value):
        raise OverflowError("a constant is not finite")
    return make_node("constant", (), value + 0.0)


def _lift(value: Number) -> Expression:
    if isinstance(value, Expression):
        return value
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        return constant(float(value))
    raise TypeError(f"{type(value).__name__} is not a number")


def _is(node: Expression, value: float) -> bool:
    return node.operation == "constant" and node.value == value


def _add(a: Expression, b: Expression) -> Expression:
    if a.operation == b.operation == "constant":
        return constant(a.value + b.value)
    if _is(a, 0.0):
        return b
    return a if _is(b, 0.0) else make_node("add", (a, b))


def _multiply(a: Expression, b: Expression) -> Expression:
    if b.operation == "constant":
        a, b = b, a
    if a.operation == "constant":
        if b.operation == "constant":
            return constant(a.value * b.value)
        if a.value in (0.0, 1.0):
            return b if a.value else constant(0.0)
        if b.operation == "multiply" and b.arguments[0].operation == "constant":
            return _multiply(constant(a.value * b.arguments[0].value), b.arguments[1])
    return make_node("multiply", (a, b))


def _divide(a: Expression, b: Expression) -> Expression:
    if b.operation == "constant":
        if b.value == 0.0:
            raise ZeroDivisionError("division by zero")
        if a.operation == "constant":
            return constant(a.value / b.value)
        return _multiply(constant(1 / b.value), a)
    return a if _is(a, 0.0) else make_node("divide", (a, b))


def _power(base: Expression, exponent: Expression) -> Expression:
    if exponent.operation != "constant":
        if base.operation == "constant" and base.value > 0:
            return apply("exp", math.log(base.value) * exponent)
        raise ValueError("a power needs a constant exponent or a positive constant base")
    if base.operation == "constant":
        value = base.value**exponent.value
        if isinstance(value, complex):
            raise ValueError("a power of a negative constant needs an integer exponent")
        return constant(value)
    if exponent.value in (0.0, 1.0):
        return base if exponent.value else constant(1.0)
    return make_node("power", (base,), exponent.value)


# df/du of an elementary function in terms of u and f (``evaluation.EVALUATE`` has f). These rules,
# the chain rule below and nothing else make every derivative; the tests compare them with JAX's.
_DERIVATIVE: dict[str, Callable[[Expression, Expression], Expression]] = {
    "exp": lambda u, f: f,
    "log": lambda u, f: 1 / u,
    "sqrt": lambda u, f: 0.5 / f,
    "sin": lambda u, f: apply("cos", u),
    "cos": lambda u, f: -apply("sin", u),
    "tanh": lambda u, f: 1 - f**2,
    "sinh": lambda u, f: apply("cosh", u),
    "cosh": lambda u, f: apply("sinh", u),
    "arctan": lambda u, f: 1 / (1 + u**2),
    "erf": lambda u, f: (2 / math.sqrt(math.pi)) * apply("exp", -(u**2)),
    "sigmoid": lambda u, f: f * (1 - f),
    "softplus": lambda u, f: apply("sigmoid", u),
    "relu": lambda u, f: apply("heaviside", u),
    "abs": lambda u, f: apply("sign", u),
    "sign": lambda u, f: constant(0.0),
    "heaviside": lambda u, f: constant(0.0),
}
KINKED = {"relu", "abs", "sign", "heaviside", "maximum", "minimum"}


def apply(name: str, *arguments: Expression) -> Expression:
    """The elementary function ``name`` of other expressions; constants are folded."""
    node = make_node(name, arguments)
    if all(each.operation == "constant" for each in arguments):
        with np.errstate(all="ignore"):
            return constant(float(evaluate([node], np.zeros(1))[0][0]))
    return node


def _hermite(degree: int) -> Callable[[Expression], Expression]:
    def polynomial(u: Expression) -> Expression:
        previous, current = constant(1.0), u
        for k in range(1, degree):
            previous, current = current, u * current - k * previous
        return current

    return polynomial


def _elementary(name: str) -> Callable[..., Expression]:
    return lambda *arguments: apply(name, *arguments)


# Every function a user may write. The first group is also the list of named activations.
ACTIVATIONS: dict[str, Callable[[Expression], Expression]] = {
    "tanh": _elementary("tanh"),
    "erf": _elementary("erf"),
    "sin": _elementary("sin"),
    "relu": _elementary("relu"),
    "softplus": _elementary("softplus"),
    "gelu": lambda u: 0.5 * u * (1 + apply("erf", u / math.sqrt(2))),
    "sigmoid": _elementary("sigmoid"),
    "sign": _elementary("sign"),
    "abs": _elementary("abs"),
    "identity": lambda u: u,
    "hermite2": _hermite(2),
    "hermite3": _hermite(3),
    "hermite4": _hermite(4),
    "silu": lambda u: u * apply("sigmoid", u),
}
FUNCTIONS: dict[str, Callable[..., Expression]] = {
    **ACTIVATIONS,
    **{name: _elementary(name) for name in ("exp", "log", "sqrt", "cos", "sinh", "cosh", "arctan")},
}
WRAPPED = ("centered", "normalized")  # operations that print their argument by its name
TWO_ARGUMENTS = {"maximum": _elementary("maximum"), "minimum": _elementary("minimum")}
CONSTANTS = {"pi": math.pi, "e": math.e}
_UFUNCS: dict[str, Callable[..., Expression]] = {
    **{name: _elementary(name) for name in (*PLAIN, "erf", "maximum", "minimum") if name != "abs"},
    "absolute": _elementary("abs"),
    "fabs": _elementary("abs"),
    "expit": _elementary("sigmoid"),
    "add": _add,
    "subtract": lambda a, b: a - b,
    "multiply": _multiply,
    "divide": _divide,
    "power": _power,
    "float_power": _power,
    "square": lambda a: a**2,
    "negative": lambda a: -a,
    "positive": lambda a: a,
    "reciprocal": lambda a: 1 / a,
}


def walk(expression: Expression) -> Iterator[Expression]:
    """Every distinct node, arguments before the nodes that use them."""
    seen: set[int] = set()
    stack = [(expression, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((each, False) for each in node.arguments)


def differentiate(expression: Expression) -> Expression:
    """d/dz by the chain rule. Almost everywhere: a jump (sign) has derivative 0."""
    slopes: dict[int, Expression] = {}
    for node in walk(expression):
        slopes[id(node)] = _slope(node, [slopes[id(each)] for each in node.arguments])
    return slopes[id(expression)]


def _slope(node: Expression, slopes: list[Expression]) -> Expression:
    operation, u = node.operation, node.arguments
    if operation == "z":
        return constant(1.0)
    if operation == "constant":
        return constant(0.0)
    if operation == "add":
        return slopes[0] + slopes[1]
    if operation == "multiply":
        return slopes[0] * u[1] + u[0] * slopes[1]
    if operation == "divide":
        return slopes[0] / u[1] - (node / u[1]) * slopes[1]
    if operation == "power":
        return node.value * u[0] ** (node.value - 1) * slopes[0]
    if operation == "centered":
        return slopes[0]
    if operation == "normalized":
        return slopes[0] / node.value
    if operation == "maximum":
        return slopes[1] + apply("heaviside", u[0] - u[1]) * (slopes[0] - slopes[1])
    if operation == "minimum":
        return slopes[1] + apply("heaviside", u[1] - u[0]) * (slopes[0] - slopes[1])
    return _DERIVATIVE[operation](u[0], node) * slopes[0]


def check_size(expression: Expression) -> None:
    """Refuse what would print without end, by adding up lengths without printing."""
    lengths: dict[int, int] = {}
    for node in walk(expression):
        lengths[id(node)] = 12 + sum(lengths[id(each)] for each in node.arguments)
    if lengths[id(expression)] > MAX_PRINTED:
        raise ValueError("too large: its functions are nested too often")


def to_nodes(expression: Expression) -> list[tuple[str, tuple[int, ...], float]]:
    """The tree as a list of (operation, places of the arguments in it, value), for pickling."""
    order = list(walk(expression))
    place = {id(node): number for number, node in enumerate(order)}
    return [
        (node.operation, tuple(place[id(each)] for each in node.arguments), node.value)
        for node in order
    ]


def from_nodes(nodes: list[tuple[str, tuple[int, ...], float]]) -> Expression:
    made: list[Expression] = []
    for operation, places, value in nodes:
        made.append(make_node(operation, tuple(made[place] for place in places), value))
    return made[-1]


def trace(function: Callable[[Any], Any]) -> Expression | None:
    """The expression a NumPy function computes; None if it does what cannot be followed."""
    try:
        made = _lift(function(Z))
        check_size(made)
        return made
    except Exception:  # any failure inside foreign code means: not traceable
        return None


_PRECEDENCE = {"add": 1, "multiply": 2, "divide": 2, "power": 4}


def _text(node: Expression, parent: int) -> str:
    operation, arguments = node.operation, node.arguments
    if operation == "z":
        return "z"
    if operation == "constant":
        text = min(f"{node.value:.17g}", repr(node.value), key=len).removesuffix(".0")
        return f"({text})" if node.value < 0 and parent else text
    if operation in _PRECEDENCE:
        level = _PRECEDENCE[operation]
        if operation == "power":
            exponent = f"{node.value:.17g}" if node.value >= 0 else f"({node.value:.17g})"
            text = f"{_text(arguments[0], level + 1)}**{exponent}"
        elif operation == "add":
            second = _text(arguments[1], 0 if _negative(arguments[1]) else level + 1)
            joined = f" - {second[1:]}" if second[0] == "-" else f" + {second}"
            text = _text(arguments[0], level) + joined
        elif operation == "multiply" and arguments[0].operation == "constant":
            first = "-" if arguments[0].value == -1.0 else _text(arguments[0], 0) + "*"
            text = first + _text(arguments[1], level + 1)
        else:
            sign = {"multiply": "*", "divide": "/"}[operation]
            text = f"{_text(arguments[0], level)}{sign}{_text(arguments[1], level + 1)}"
        return f"({text})" if level < parent else text
    if operation == "heaviside":
        return f"(0.5 + 0.5*sign({_text(arguments[0], 0)}))"
    inner = [name_of(each) if operation in WRAPPED else _text(each, 0) for each in arguments]
    return f"{operation}({', '.join(inner)})"


def _negative(node: Expression) -> bool:
    """Whether the text of the node starts with a minus that can become a subtraction."""
    first = node.arguments[0] if node.operation == "multiply" else node
    return first.operation == "constant" and first.value < 0


def name_of(expression: Expression) -> str:
    """The shortest text that parses back to the expression: its name if it has one."""
    for name, function in ACTIVATIONS.items():
        if function(Z) is expression:
            return name
    return str(expression)
