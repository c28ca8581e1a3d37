"""Run units and keep their records: what is in the store is not computed again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from firststep.results import versions
from firststep.store import DONE, LOST, REFUSED, Record, Store
from firststep.sweep.executors import Executor, ThisMachine
from firststep.sweep.units import Unit, Wanted, remaining


@dataclass
class Tally:
    """Where a sweep stands. Counts are of results, one per problem, computation and replicate."""

    wanted: int = 0
    found: int = 0  # in the store before this run
    done: int = 0  # by this run
    refused: int = 0
    lost: int = 0
    spoiled: int = 0  # rows of the store that are not what was written: computed again
    began: float = field(default_factory=time.monotonic)
    best: Record | None = None  # least risk of a result of this run

    @property
    def finished(self) -> int:
        return self.found + self.done + self.refused + self.lost

    @property
    def rate(self) -> float:
        """Results a second in this run."""
        passed = time.monotonic() - self.began
        return (self.done + self.refused + self.lost) / passed if passed > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        left = self.wanted - self.finished
        return left / self.rate if self.rate > 0 else None

    def count(self, records: Sequence[Record]) -> None:
        for record in records:
            if record.status == DONE:
                self.done += 1
                risk = record.numbers.get("risk")
                if risk is not None and (
                    self.best is None or risk < (self.best.numbers["risk"] or 0.0)
                ):
                    self.best = record
            elif record.status == REFUSED:
                self.refused += 1
            elif record.status == LOST:
                self.lost += 1


Watcher = Callable[[Tally], None]


def execute(
    units: Sequence[Unit],
    store: Store,
    executor: Executor | None = None,
    *,
    experiment: str = "",
    retry: bool = False,
    watch: Watcher | None = None,
) -> Tally:
    """Compute what the store does not have yet, one transaction for each unit that finishes.

    ``retry`` also computes again what had no answer. Ctrl-C, a full disk and the death of this
    process lose at most the units that were being computed.
    """
    statuses: Mapping[str, str] = store.statuses()
    left = remaining(units, statuses, retry)
    tally = Tally()
    tally.wanted = len({wanted.key for unit in units for wanted in unit.wanted})
    asked = {wanted.key for unit in left for wanted in unit.wanted}
    final = {DONE} if retry else {DONE, REFUSED}
    fresh = {key for key in asked if statuses.get(key) not in final}
    tally.found = tally.wanted - len(fresh)
    tally.spoiled = len(store.spoiled)
    if watch is not None:
        watch(tally)
    if left:
        run = store.begin_run(versions(*_packages(units)), experiment)
        for records in (executor or ThisMachine()).run(left):
            store.add(records, run)
            tally.count([record for record in records if record.key in fresh])
            if watch is not None:
                watch(tally)
    return tally


def _packages(units: Sequence[Unit]) -> tuple[str, ...]:
    on_device = any(getattr(unit, "options", {}).get("backend") == "jax" for unit in units)
    return ("jax", "jaxlib") if on_device else ()


def results_of(units: Sequence[Unit], store: Store) -> dict[Wanted, Record]:
    """The records of units, by what was wanted."""
    keys = [wanted.key for unit in units for wanted in unit.wanted]
    return {
        Wanted(record.problem, record.computation, record.replicate): record
        for record in store.records(keys)
    }
