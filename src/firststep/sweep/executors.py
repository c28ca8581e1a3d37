"""Where units are computed: in this process, in workers of this machine, or on a Dask cluster.

The results are the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from firststep.checks import whole
from firststep.errors import BackendUnavailable, InvalidParameter, WorkerFailed
from firststep.simulation.running.simulate import available_cores, fitting_replicates
from firststep.simulation.running.workers import Workers
from firststep.store import Record
from firststep.sweep.units import Replicate, Unit, compute, lost

if TYPE_CHECKING:
    from distributed import Client

_IN_FLIGHT = 4  # units sent ahead to a Dask worker thread: it never waits for the network
_LEAST_AHEAD = 8  # in all: a worker that joins finds something to do
_DASK_TIMEOUT = "10s"  # for a scheduler to answer


class Executor(Protocol):
    def run(self, units: Sequence[Unit]) -> Iterator[list[Record]]:
        """The records of each unit as it finishes, in any order."""
        ...

    def describe(self) -> str: ...


class ThisMachine:
    """Worker processes with one BLAS thread each; ``workers=1`` computes in this process."""

    def __init__(self, workers: object = None) -> None:
        self.asked = None if workers is None else whole("workers", workers, 1, 10_000)

    def describe(self) -> str:
        return "this machine"

    def count(self, units: Sequence[Unit]) -> int:
        """As many processes as asked for, or as cores and memory allow; one for a GPU."""
        on_device = any(
            isinstance(unit, Replicate) and unit.options.get("backend") == "jax" for unit in units
        )
        if on_device:
            if self.asked is not None and self.asked > 1:
                hint = "one device runs one replicate at a time"
                raise InvalidParameter("workers", "1 with the jax backend", self.asked, hint)
            return 1
        if self.asked is not None:
            return max(1, min(self.asked, len(units)))
        return max(1, min(available_cores(), len(units), *_fitting(units)))

    def run(self, units: Sequence[Unit]) -> Iterator[list[Record]]:
        count = self.count(units)
        if count == 1:
            for unit in units:
                yield compute(unit)
            return
        with Workers(count) as workers:
            for place, answer in workers.survive(compute, units):
                yield _records(units[place], answer)


def _fitting(units: Sequence[Unit]) -> list[int]:
    """How many of the largest replicates fit in memory together."""
    replicates = [unit for unit in units if isinstance(unit, Replicate)]
    kinds = {(unit.problem.dimension, unit.model): unit for unit in replicates}
    largest = max((d for d, _ in kinds), default=0)
    found = []
    for (d, model), unit in kinds.items():
        if d == largest:
            widest = max(
                (u.problem for u in replicates if u.problem.dimension == d),
                key=lambda p: (p.beta, p.alpha, p.alpha0),
            )
            with contextlib.suppress(InvalidParameter):  # the unit itself will say what is wrong
                found.append(fitting_replicates(widest, model, unit.options))
    return [count for count in found if count is not None]


def _records(unit: Unit, answer: object) -> list[Record]:
    if isinstance(answer, list):
        return answer
    kind = "" if isinstance(answer, WorkerFailed) else f"{type(answer).__name__}: "
    return lost(unit, f"{kind}{answer}")


class Dask:
    """A Dask cluster: the address of a scheduler, or a ``distributed.Client``.

    The workers need firststep and its dependencies. Dask sends the unit of a worker that dies to
    another one.
    """

    def __init__(self, client: str | Client) -> None:
        if importlib.util.find_spec("distributed") is None:
            raise BackendUnavailable(
                "dask", "installed", "nothing", "try: pip install 'firststep[cluster]'"
            )
        self._own = isinstance(client, str)
        self.client = _connected(client) if isinstance(client, str) else client

    def describe(self) -> str:
        workers = len(self.client.scheduler_info(n_workers=-1)["workers"])
        return f"a Dask cluster of {workers} worker{'s' if workers != 1 else ''}"

    def run(self, units: Sequence[Unit]) -> Iterator[list[Record]]:
        """A cluster that is gone ends the run: what came before is in the store."""
        try:
            yield from self._run(units)
        except (Exception, asyncio.CancelledError) as error:
            raise WorkerFailed(
                f"the Dask cluster does not answer any more ({type(error).__name__}): "
                "finished results are kept, and the same command continues"
            ) from None

    def _run(self, units: Sequence[Unit]) -> Iterator[list[Record]]:
        from distributed import as_completed

        threads = sum(self.client.nthreads().values())
        ahead = max(_LEAST_AHEAD, _IN_FLIGHT * threads)
        waiting = iter(enumerate(units))
        places: dict[str, int] = {}

        def send() -> Any:
            for place, unit in waiting:
                future = self.client.submit(compute, unit, pure=False)
                places[future.key] = place
                return future
            return None

        first = [future for future in (send() for _ in range(ahead)) if future is not None]
        try:
            finished = as_completed(first, loop=self.client.loop)
            for future in finished:
                unit = units[places.pop(future.key)]
                error = future.exception()
                told = f"the cluster lost it: {error}"
                yield future.result() if error is None else lost(unit, told)
                future.release()
                following = send()
                if following is not None:
                    finished.add(following)
        finally:
            if places:
                with contextlib.suppress(Exception):
                    self.client.cancel(list(places), force=True)
            if self._own:
                with contextlib.suppress(Exception):
                    self.client.close()


def _connected(address: str) -> Client:
    from distributed import Client

    for name in logging.root.manager.loggerDict:
        if name.split(".")[0] == "distributed":  # of a scheduler that is gone we say so ourselves
            logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        return Client(address, timeout=_DASK_TIMEOUT, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        allowed = "the address of a running scheduler, such as tcp://host:8786"
        hint = " ".join(str(error).split())
        raise InvalidParameter("dask", allowed, address, hint) from None
