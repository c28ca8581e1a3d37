"""Where an expression has kinks, and the two functions that integrate one: centered, normalized."""

from __future__ import annotations

import numpy as np

from firststep.expressions import KINKED, Expression, differentiate, evaluate, make_node, walk
from firststep.numerics.quadrature import gaussian_expectation


def kinks(expression: Expression, reach: float = 12.0) -> tuple[float, ...]:
    """Where s or s' may jump: the sign changes of all arguments of the ``KINKED`` functions."""
    places: set[float] = set()
    for node in walk(expression):
        if node.operation in KINKED:
            first, *second = node.arguments
            places.update(_sign_changes(first - second[0] if second else first, reach))
    return tuple(sorted(places))


def _sign_changes(expression: Expression, reach: float) -> list[float]:
    slope = differentiate(expression)
    if slope.operation == "constant":  # a straight line: solve it exactly
        start = float(evaluate([expression], np.zeros(1))[0][0])
        return [] if slope.value == 0.0 else [-start / slope.value + 0.0]
    grid = np.linspace(-reach, reach, 4801)
    with np.errstate(all="ignore"):
        values = evaluate([expression], grid)[0]
    places = [float(x) for x in grid[values == 0.0]]
    crossing = np.flatnonzero(values[:-1] * values[1:] < 0)
    left, right = grid[crossing], grid[crossing + 1]
    rising = values[crossing] < 0
    for _ in range(60):  # bisection, all brackets at once
        middle = (left + right) / 2
        below = (evaluate([expression], middle)[0] < 0) == rising
        left, right = np.where(below, middle, left), np.where(below, right, middle)
    return places + [float(x) for x in (left + right) / 2]


def centered(expression: Expression) -> Expression:
    """The expression minus its Gaussian mean."""
    found = gaussian_expectation(lambda z: evaluate([expression], z)[0], kinks(expression))
    return make_node("centered", (expression,), float(found.value[0]))


def normalized(expression: Expression) -> Expression:
    """The expression divided by the root of its Gaussian second moment."""
    found = gaussian_expectation(lambda z: evaluate([expression], z)[0] ** 2, kinks(expression))
    square = found.value[0]
    if square <= 1e-28:
        raise ValueError("normalized(...) needs a function that is not zero")
    return make_node("normalized", (expression,), float(np.sqrt(square)))


WRAPPERS = {"centered": centered, "normalized": normalized}
