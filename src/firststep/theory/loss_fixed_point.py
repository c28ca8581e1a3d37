"""The fixed point of a fit with any loss: one iteration for both theories.

The unknowns are x = (log V, m, t, log v) on the nodes; a map gives what the fit makes of them, and
F(x) = map(x) - x. The residual is the root of

    sum_k omega_k [(dlog V)^2 + (dm/sigma)^2 + (dt/sigma)^2 + (dlog v)^2],   sigma^2 = sum omega v,

t one row, or several where the teacher has several terms.

Steps are x + theta F, theta = 1/2 while the residual is above 1; below 0.3 Anderson's mixing over
the last points, by least squares in the metric of the residual. Where it does not come down, the
history is forgotten and some plain steps are taken: the residual is not monotone while log V
travels, so there is no way back to the best point. Where it never was below 0.3 steps are halved
from then on: a hinge whose margin few samples reach makes whole steps go round in a circle. What
the mixing has learned of F, pairs (dx, dF), serves the next problem of a curve too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.errors import NotConverged
from firststep.numerics.library import library_of
from firststep.theory.channel import Output

if TYPE_CHECKING:
    from firststep.typing import Array, Float

TOLERANCE = 1e-8
ACCEPTED = 1e-6  # reached if rounding in the tails stops the iteration above the tolerance
MOST_EVALUATIONS = 400  # eight times what the slowest of some hundred problems took
NEAR = 0.3  # residual below which steps are mixed
FAR = 1.0  # and above which they are halved
_MEMORY = 5
_PATIENCE = 30  # evaluations in which the residual should halve
_SHORT = 10  # the same where it is accepted already
_MOST_RESETS = 4  # of the history: beyond, rounding stops the iteration
_PLAIN = 15  # steps without mixing after that
_LARGEST_MOVE = 1.5  # of a logarithm
_CUT = 1e-8  # of the least squares


class Pair(NamedTuple):
    """A change of the unknowns, and of F with it."""

    x: Float[Array, "rows K"]
    gap: Float[Array, "rows K"]


class Start(NamedTuple):
    """Where to begin, and pairs of a problem nearby."""

    output: Output
    pairs: tuple[Pair, ...] = ()


class FixedPoint(NamedTuple):
    """What the fit says, and how well that was solved."""

    output: Output
    residual: float
    evaluations: int
    pairs: tuple[Pair, ...] = ()  # the last ones


def cold(omega: Float[Array, " K"], leverage: Float[Array, " K"], slopes: int = 1) -> Output:
    """A place to begin: nothing learned."""
    nothing = 0 * omega if slopes == 1 else np.zeros((slopes, omega.size))
    return Output(leverage, 0 * omega, nothing, 0.5 + 0 * omega)


def fixed_point(
    image: Callable[[Output], Output],
    start: Start,
    omega: Float[Array, " K"],
    tolerance: float = TOLERANCE,
) -> FixedPoint:
    """The output that is its own image."""
    x, pairs = packed(start.output), start.pairs
    before: Pair | None = None  # the last point and its F, if steps from there are mixed
    best, since, plain, resets, halved = np.inf, 0, 0, 0, 0
    smallest = (np.inf, start.output)
    for count in range(1, MOST_EVALUATIONS + 1):
        output = unpacked(x)
        gap = packed(image(output)) - x
        metric = metric_of(output, omega)
        residual = float(np.sqrt(np.sum((metric * gap) ** 2)))
        if not np.isfinite(residual):
            break
        if residual < smallest[0]:
            smallest = (residual, output)
        is_near = residual < NEAR and plain == 0
        if not is_near:
            pairs, before = (), None
        elif before is not None:
            pairs = (*pairs[1 - _MEMORY :], Pair(x - before.x, gap - before.gap))
        before = Pair(x, gap) if is_near else None
        if residual <= tolerance:
            return FixedPoint(output, residual, count, pairs)
        since += 1
        if residual < best / 2:
            best, since = residual, 0
        if since > _SHORT and smallest[0] <= ACCEPTED:  # rounding: it does not come down further
            return FixedPoint(smallest[1], smallest[0], count, pairs)
        if since > _PATIENCE:
            if resets == _MOST_RESETS:
                break
            pairs, before, best, since, plain, resets = (), None, residual, 0, _PLAIN, resets + 1
            halved += smallest[0] > NEAR  # it has never been near: it goes round
        plain = max(plain - 1, 0)
        move = 0.5 ** (halved + (residual > FAR)) * gap
        if pairs:
            move = _mixed(gap, pairs, metric)
        x = _inside(x, move)
    raise NotConverged(
        f"the equations of the fit did not converge: the residual stayed at {smallest[0]:.1e}; "
        "try a larger ridge"
    )


def packed(output: Output) -> Float[Array, "rows K"]:
    """The unknowns."""
    leverage, m, t, v = output
    xp = library_of(m).xp
    ends = [xp.log(xp.maximum(each, 1e-300)) for each in (leverage, v)]
    return xp.stack([ends[0], m, *xp.atleast_2d(t), ends[1]])


def unpacked(x: Float[Array, "rows K"]) -> Output:
    """The output they stand for."""
    exp = library_of(x).xp.exp
    return Output(exp(x[0]), x[1], x[2] if len(x) == 4 else x[2:-1], exp(x[-1]))


def metric_of(output: Output, omega: Float[Array, " K"]) -> Float[Array, "rows K"]:
    """What the residual weighs changes of the unknowns by."""
    size = float(np.sqrt(omega @ output.variance))
    root = np.sqrt(omega)
    slopes = [root / size] * len(np.atleast_2d(output.slope))
    return np.stack([root, root / size, *slopes, root])


def _inside(x: Float[Array, "rows K"], move: Float[Array, "rows K"]) -> Float[Array, "rows K"]:
    """The next point: no logarithm moves by more than 1.5, and v stays above t^2."""
    after = x + move
    for row in (0, -1):
        after[row] = x[row] + np.clip(move[row], -_LARGEST_MOVE, _LARGEST_MOVE)
    after[-1] = np.maximum(after[-1], np.log(np.sum(after[2:-1] ** 2, 0) * 1.0001 + 1e-300))
    return after


def _mixed(
    gap: Float[Array, "rows K"], pairs: tuple[Pair, ...], metric: Float[Array, "rows K"]
) -> Float[Array, "rows K"]:
    """Anderson's step: the combination of F and its past changes that is smallest."""
    columns = np.stack([(metric * pair.gap).ravel() for pair in pairs], -1)
    size = np.maximum(np.linalg.norm(columns, axis=0), 1e-300)
    share = np.linalg.lstsq(columns / size, (metric * gap).ravel(), rcond=_CUT)[0] / size
    both = np.stack([pair.gap + pair.x for pair in pairs])
    return np.asarray(gap - np.tensordot(share, both, 1))
