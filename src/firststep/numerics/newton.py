"""Newton's method on a batch of problems: one driver for every set of equations.

A ``Method`` says how a state is examined and how the next one follows; a rule says when to stop
and which state to keep. With NumPy, problems that are done leave the batch; with JAX all of them
go on together until the last is done, inside one compiled loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import numpy as np

from firststep.numerics.batches import Places, each, pick, put, take
from firststep.numerics.library import NUMPY, Library, library_of

if TYPE_CHECKING:
    from firststep.typing import Array, Bool, Float, Int

System = TypeVar("System", bound="Batch")
Asked = TypeVar("Asked", bound="Batch", contravariant=True)
Kept = TypeVar("Kept", covariant=True)
Iterate = TypeVar("Iterate", bound=tuple[Any, ...])
Seen = TypeVar("Seen", bound="Look[Any]")


Memory: TypeAlias = "tuple[Any, ...] | None"  # arrays, with an axis of problems
_NOTHING_KEPT: Memory = None


class Batch(Protocol):
    """Equations of several problems."""

    @property
    def size(self) -> int: ...

    def part(self, places: Places) -> Self: ...


class Look(Protocol[Kept]):
    """What a method sees at an iterate: a tuple of arrays with these two among them."""

    @property
    def keep(self) -> Kept: ...  # what to keep of it

    @property
    def residual(self) -> Float[Array, " batch"]: ...


class Method(Protocol[Asked, Iterate, Seen]):
    """The equations of a batch, and their Newton step."""

    def prepare(self, system: Asked, iterate: Iterate, residual: Float[Array, " batch"]) -> Iterate:
        """The iterate made fit for a step, where the last residual calls for it; else itself."""
        ...

    def examine(self, system: Asked, iterate: Iterate) -> Seen: ...

    def step(self, system: Asked, iterate: Iterate, look: Seen) -> Iterate: ...

    def step_again(
        self, system: Asked, iterate: Iterate, look: Seen, memory: Memory
    ) -> tuple[Iterate, Memory]:
        """A step that may use what the last one kept, None at first (NumPy only)."""
        return self.step(system, iterate, look), None


@dataclass(frozen=True)
class BestResidual:
    """Keep the iterate of the least residual.

    Stop below ``tolerance``; or below ``accepted`` once the residual no longer halves; or after
    ``patience`` steps in which it did not.
    """

    tolerance: float
    accepted: float
    patience: int
    most: int

    def better(
        self, residual: Float[Array, " batch"], best: Float[Array, " batch"]
    ) -> Bool[Array, " batch"]:
        return residual < best

    def finished(
        self, best: Float[Array, " batch"], stalled: Int[Array, " batch"]
    ) -> Bool[Array, " batch"]:
        close = (best < self.accepted) & (stalled >= 1)
        return (best < self.tolerance) | close | (stalled >= self.patience)


@dataclass(frozen=True)
class LastStep:
    """Keep the last iterate; the residual is the size of the step that led to it.

    Stop where it is below ``tolerance``, or not finite.
    """

    tolerance: float
    most: int

    def better(
        self, residual: Float[Array, " batch"], best: Float[Array, " batch"]
    ) -> Bool[Array, " batch"]:
        return np.ones(residual.shape, bool)

    def finished(
        self, best: Float[Array, " batch"], stalled: Int[Array, " batch"]
    ) -> Bool[Array, " batch"]:
        return (best < self.tolerance) | ~np.isfinite(best)


Rule: TypeAlias = BestResidual | LastStep


class Found(NamedTuple, Generic[Iterate]):
    """What came of it."""

    iterate: Iterate
    residual: Float[Array, " batch"]
    iterations: Int[Array, " batch"]


class _Progress(NamedTuple):
    best: Float[Array, " batch"]
    stalled: Int[Array, " batch"]  # steps in which the residual did not halve

    @classmethod
    def none(cls, count: int, lib: Library) -> _Progress:
        return cls(lib.xp.full((count,), lib.xp.inf), lib.xp.zeros((count,), int))

    def after(self, residual: Float[Array, " batch"], better: Bool[Array, " batch"]) -> _Progress:
        xp = library_of(residual).xp
        stalled = xp.where(residual < 0.5 * self.best, 0, self.stalled + 1)
        return _Progress(xp.where(better, residual, self.best), stalled)


Carry: TypeAlias = "tuple[Iterate, Iterate, _Progress, Float[Array, ' batch'], int]"


def newton(
    method: Method[System, Iterate, Seen],
    system: System,
    iterate: Iterate,
    rule: Rule,
    *,
    is_near: bool = False,
) -> Found[Iterate]:
    """Newton steps until the rule says that every problem is done. ``is_near``: the first iterate
    is looked at before it is prepared (NumPy only).
    """
    with np.errstate(all="ignore"):  # what is not finite is found and refused, not warned about
        if _library(iterate).is_numpy:
            return _by_parts(method, system, iterate, rule, is_near)
        return _together(method, system, iterate, rule)


def _library(tree: object) -> Library:
    """That of the first array."""
    return _library(tree[0]) if isinstance(tree, tuple) else library_of(tree)


def _by_parts(
    method: Method[System, Iterate, Seen],
    system: System,
    iterate: Iterate,
    rule: Rule,
    is_near: bool,
) -> Found[Iterate]:
    count = system.size
    kept, total = iterate, _Progress.none(count, NUMPY)
    places, iterations = np.arange(count), np.zeros(count, int)
    residual, memory = total.best, _NOTHING_KEPT
    for number in range(rule.most):
        try:
            if number == 0 and is_near:
                iterate, look = _seen_first(method, system, iterate)
            else:
                iterate = method.prepare(system, iterate, residual)
                look = method.examine(system, iterate)
            residual = np.where(np.isfinite(look.residual), look.residual, np.inf)
            progress = take(total, places)
            better = rule.better(residual, progress.best)
            if number == 0:
                kept = each(np.array, look.keep)  # a copy, of the type of the answer
            put(kept, places[better], take(look.keep, better))
            progress = progress.after(residual, better)
            put(total, places, progress)
            iterations[places] += 1
            going = ~rule.finished(*progress)
            if not going.any():
                break
            if not going.all():
                places, residual, system = places[going], residual[going], system.part(going)
                iterate, look = take(iterate, going), take(look, going)
                memory = take(memory, going)
            iterate, memory = method.step_again(system, iterate, look, memory)
        except np.linalg.LinAlgError:
            break
    return Found(kept, total.best, iterations)


def _seen_first(
    method: Method[System, Iterate, Seen], system: System, iterate: Iterate
) -> tuple[Iterate, Seen]:
    """A first iterate that is thought near, prepared where it is not, and the look at it."""
    look = method.examine(system, iterate)
    residual = np.where(np.isfinite(look.residual), look.residual, np.inf)
    prepared = method.prepare(system, iterate, residual)
    return prepared, look if prepared is iterate else method.examine(system, prepared)


def _together(
    method: Method[System, Iterate, Seen], system: System, iterate: Iterate, rule: Rule
) -> Found[Iterate]:
    lib = _library(iterate)
    xp = lib.xp

    def going(carry: Carry[Iterate]) -> Bool[Array, ""]:
        _, _, progress, _, count = carry
        return xp.any(~rule.finished(*progress)) & (count < rule.most)

    def body(carry: Carry[Iterate]) -> Carry[Iterate]:
        iterate, kept, progress, residual, count = carry
        iterate = method.prepare(system, iterate, residual)
        look = method.examine(system, iterate)
        after = method.step(system, iterate, look)
        residual = xp.where(xp.isfinite(look.residual), look.residual, xp.inf)
        better = rule.better(residual, progress.best)
        kept = pick(better, look.keep, kept)
        return after, kept, progress.after(residual, better), residual, count + 1

    begin = _Progress.none(system.size, lib)
    carry = (iterate, iterate, begin, begin.best, 0)
    _, kept, progress, _, count = lib.loop(going, body, carry)
    return Found(kept, progress.best, xp.full(progress.best.shape, count))
