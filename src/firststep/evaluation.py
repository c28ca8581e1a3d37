"""Values of expression trees at an array: NumPy's in blocks that stay in the cache, or JAX's.

In NumPy two patterns are computed as what they mean, because their parts lose digits or time:
1 + erf(v/sqrt 2) = 2 P(N(0, 1) < v), and exp(-u^2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from firststep.numerics import special
from firststep.numerics.library import Library, library_of

if TYPE_CHECKING:
    from firststep.expressions import Expression
    from firststep.typing import Array, Float

    Value: TypeAlias = Float[Array, "*shape"] | float  # of a node: a float of a constant
    # (library, z, values of other nodes) -> the value of a node
    Operation: TypeAlias = Callable[..., Value]


def _of_library(name: str) -> Operation:
    return lambda lib, *arguments: getattr(lib.xp, name)(*arguments)


def _softplus(lib: Library, u: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """In JAX as in NumPy: logaddexp, which is what ``special`` has there, has other last digits."""
    return lib.xp.maximum(u, 0) + lib.xp.log1p(lib.xp.exp(-lib.xp.abs(u)))


PLAIN = ("exp", "log", "sqrt", "sin", "cos", "tanh", "sinh", "cosh", "arctan", "abs", "sign")
# Elementary functions of a library: how to evaluate f(u).
EVALUATE: dict[str, Operation] = {
    **{name: _of_library(name) for name in (*PLAIN, "maximum", "minimum")},
    "erf": lambda lib, u: special.erf(u),
    "sigmoid": lambda lib, u: special.sigmoid(u) if lib.is_numpy else 1 / (1 + lib.xp.exp(-u)),
    "softplus": lambda lib, u: special.softplus(u) if lib.is_numpy else _softplus(lib, u),
    "relu": lambda lib, u: lib.xp.maximum(u, 0),
    "heaviside": lambda lib, u: (u > 0).astype(u.dtype),
}


class _Step(NamedTuple):
    """The value of one node, and the nodes whose values are not needed after it."""

    node: int
    operation: Operation
    arguments: tuple[int, ...]
    done: tuple[int, ...]


def evaluate(
    expressions: Sequence[Expression], z: Float[Array, "*shape"], lib: Library | None = None
) -> list[Float[Array, "*shape"]]:
    """Values of several expressions at the array ``z``; common subexpressions are computed once."""
    lib = library_of(z) if lib is None else lib
    steps = _steps(expressions, lib)
    working = sum(bool(step.arguments) for step in steps)
    if lib.is_numpy and working > 1 and z.size > special.BLOCK:
        return _evaluate_in_blocks(expressions, steps, z, lib)
    return _run(expressions, steps, z, lib)


def _evaluate_in_blocks(
    expressions: Sequence[Expression], steps: list[_Step], z: Float[Array, "*shape"], lib: Library
) -> list[Float[Array, "*shape"]]:
    """The same numbers: each is that of its own z. Between two steps a block stays in the cache."""
    flat = z.reshape(-1)
    whole: list[Float[Array, "*shape"]] = []
    for start in range(0, z.size, special.BLOCK):
        part = slice(start, start + special.BLOCK)
        values = _run(expressions, steps, flat[part], lib)
        whole = whole or [np.empty(z.size, value.dtype) for value in values]
        for out, value in zip(whole, values, strict=True):
            out[part] = value
    return [out.reshape(z.shape) for out in whole]


def _run(
    expressions: Sequence[Expression], steps: list[_Step], z: Float[Array, "*shape"], lib: Library
) -> list[Float[Array, "*shape"]]:
    values: dict[int, Value] = {}
    for node, operation, arguments, done in steps:
        values[node] = operation(lib, z, *(values[each] for each in arguments))
        for each in done:
            del values[each]
    return [_as_array(values[id(root)], z, lib) for root in expressions]


def _steps(expressions: Sequence[Expression], lib: Library) -> list[_Step]:
    """What to compute in turn."""
    order = list(_in_turn(expressions, lib))
    last = {id(each): place for place, (_, _, used) in enumerate(order) for each in used}
    kept = {id(root) for root in expressions}
    done: list[list[int]] = [[] for _ in order]
    for node, place in last.items():
        if node not in kept:
            done[place].append(node)
    return [
        _Step(id(node), operation, tuple(id(each) for each in used), tuple(done[place]))
        for place, (node, operation, used) in enumerate(order)
    ]


def _in_turn(
    expressions: Sequence[Expression], lib: Library
) -> Iterator[tuple[Expression, Operation, tuple[Expression, ...]]]:
    """Every node that is needed, with what it is computed from before it."""
    seen: set[int] = set()
    stack = [(root, False) for root in reversed(expressions)]
    ways: dict[int, tuple[Operation, tuple[Expression, ...]]] = {}
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node, *ways[id(node)]
        elif id(node) not in seen:
            seen.add(id(node))
            known = _recognised(node) if lib.is_numpy else None
            ways[id(node)] = known or (partial(_evaluate_node, node), node.arguments)
            stack.append((node, True))
            stack.extend((each, False) for each in ways[id(node)][1])


def _recognised(node: Expression) -> tuple[Operation, tuple[Expression, ...]] | None:
    """1 + erf(w) and exp(-(w**2)), from v where w = v/sqrt 2, 2 v/sqrt 2, ..

    Rounding v/sqrt 2 costs digits in the tails: v^2 units in the last place.
    """
    if node.operation == "add":
        one, other = node.arguments
        if other.operation == "constant":
            one, other = other, one
        if one.operation == "constant" and one.value == 1.0 and other.operation == "erf":
            times, inner = _times_root_two(other.arguments[0])
            return partial(_doubled_normal, times), (inner,)
    if node.operation == "exp":
        inner = node.arguments[0]
        if inner.operation == "multiply" and inner.arguments[0].operation == "constant":
            minus, square = inner.arguments
            if minus.value == -1.0 and square.operation == "power" and square.value == 2.0:
                times, base = _times_root_two(square.arguments[0])
                if times == math.sqrt(2):
                    return partial(_gaussian, 1.0, 1.0), (base,)
                return partial(_gaussian, times, 0.5), (base,)
    return None


def _times_root_two(w: Expression) -> tuple[float, Expression]:
    """sqrt 2 w as a number times an expression, which is exact for w = v/sqrt 2."""
    if w.operation == "multiply" and w.arguments[0].operation == "constant":
        number = w.arguments[0].value * math.sqrt(2)
        rounded = round(number * 1024) / 1024
        if rounded and abs(number - rounded) <= 4e-16 * abs(rounded):
            return rounded, w.arguments[1]
    return math.sqrt(2), w


def _doubled_normal(
    times: float, lib: Library, z: Float[Array, "*shape"], v: Value
) -> Float[Array, "*shape"]:
    scaled = v if times == 1.0 else times * v
    return special.doubled_normal(_as_array(scaled, z, lib))


def _gaussian(
    times: float, rate: float, lib: Library, z: Float[Array, "*shape"], v: Value
) -> Float[Array, "*shape"]:
    scaled = v if times == 1.0 else times * v
    return special.gaussian(_as_array(scaled, z, lib), rate)


def _as_array(value: Value, z: Float[Array, "*shape"], lib: Library) -> Float[Array, "*shape"]:
    return lib.xp.full(z.shape, value, dtype=z.dtype) if isinstance(value, float) else value


def _evaluate_node(
    node: Expression, lib: Library, z: Float[Array, "*shape"], *arguments: Value
) -> Value:
    operation = node.operation
    if operation == "z":
        return z
    if operation == "constant":
        return node.value
    if operation == "add":
        return arguments[0] + arguments[1]
    if operation == "multiply":
        return arguments[0] * arguments[1]
    if operation == "divide":
        return arguments[0] / arguments[1]
    if operation == "power":
        u, exponent = arguments[0], node.value
        is_small = exponent == int(exponent) and 2 <= exponent <= 64
        return _integer_power(u, int(exponent)) if is_small else u**exponent
    if operation == "centered":
        return arguments[0] - node.value
    if operation == "normalized":
        return arguments[0] / node.value
    return EVALUATE[operation](lib, *(_as_array(each, z, lib) for each in arguments))


def _integer_power(u: Value, exponent: int) -> Value:
    """u**k by squaring: several times faster than a general power."""
    while not exponent & 1:
        u, exponent = u * u, exponent >> 1
    result = u
    while exponent := exponent >> 1:
        u = u * u
        if exponent & 1:
            result = result * u
    return result
