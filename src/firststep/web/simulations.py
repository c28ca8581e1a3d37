"""Simulations of the explorer: one at a time, streamed as they run, ended at once when nobody listens."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator
from typing import Any

import numpy as np

from firststep.web.asked import MEASURED
from firststep.web.checked import Json
from firststep.web.pool import Pool, Refused, server_says

OVERHEAD = 0.01  # seconds of a replicate besides its operations
FIRST_RATE = 1.5e10  # operations a second, until the first replicate is measured
MOST_WAITING = 8
ALIVE = 1.0  # seconds between signs of life


class Simulations:
    """The queue of simulations over a pool of workers of their own."""

    def __init__(self, pool: Pool, theory: Pool) -> None:
        self._pool, self._theory = pool, theory
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._operations, self._seconds = (
            FIRST_RATE,
            1.0,
        )  # what was measured so far, of this machine

    async def estimate(self, body: Any) -> Json:
        """How long a simulation will take."""
        cost = await self._theory.ask("cost", body)
        seconds = cost["total"] / (self._operations / self._seconds) + OVERHEAD * cost["tasks"]
        seconds /= min(self._pool.size, cost["tasks"])
        return {
            "seconds": seconds,
            "workers": self._pool.size,
            "text": f"about {_spoken(seconds)} on {self._pool.size} core"
            + ("s" if self._pool.size > 1 else ""),
        }

    async def run(self, body: Any) -> AsyncIterator[Json]:
        """Lines of a stream, ending with ``done`` or ``error``. Closing the iterator ends the simulation at once."""
        try:
            cost = await self._theory.ask("cost", body)
            if self._waiting >= MOST_WAITING:
                raise server_says(429, "too many simulations are waiting: try again later")
        except Refused as error:
            yield {
                "kind": "error",
                "message": str(error),
                "status": error.status,
                "errors": error.errors,
            }
            return
        self._waiting += 1
        try:
            while self._turn.locked():
                yield {"kind": "queued", "ahead": self._waiting - 1}
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(ALIVE):
                        await self._turn.acquire()
                        self._turn.release()
            await self._turn.acquire()
        finally:
            self._waiting -= 1
        try:
            async for line in self._work(body, cost):
                yield line
        finally:
            self._turn.release()

    async def _work(self, body: Any, cost: Json) -> AsyncIterator[Json]:
        begin = time.monotonic()
        tasks = [
            (index, number)
            for number in range(cost["replicates"])
            for index in range(len(cost["x"]))
        ]
        values: list[dict[str, list[float]]] = [{name: [] for name in MEASURED} for _ in cost["x"]]
        yield {"kind": "started", "total": len(tasks), "workers": self._pool.size}
        left = iter(tasks)
        running: dict[asyncio.Task[Any], tuple[int, float]] = {}
        done = 0
        try:
            while True:
                while len(running) < self._pool.size and (task := next(left, None)) is not None:
                    call = self._pool.ask(
                        "replicate",
                        {"request": body, "index": task[0], "number": task[1]},
                        drop=True,
                    )
                    running[asyncio.create_task(call)] = (task[0], time.monotonic())
                if not running:
                    break
                finished, _ = await asyncio.wait(
                    running, timeout=ALIVE, return_when=asyncio.FIRST_COMPLETED
                )
                if not finished:
                    yield {"kind": "alive", "done": done, "total": len(tasks)}
                for each in finished:
                    index, started = running.pop(each)
                    done += 1
                    x = cost["x"][index]
                    try:
                        found = each.result()
                    except Refused as error:
                        yield {
                            "kind": "failed",
                            "index": index,
                            "x": x,
                            "message": str(error),
                            "done": done,
                            "total": len(tasks),
                        }
                        continue
                    self._operations += cost["work"][index]
                    self._seconds += max(time.monotonic() - started - OVERHEAD, 1e-4)
                    for name, kept in values[index].items():
                        if found[name] is not None:
                            kept.append(found[name])
                    told = {name: _mean(kept) for name, kept in values[index].items()}
                    count = len(values[index]["risk"])
                    yield {
                        "kind": "point",
                        "index": index,
                        "x": x,
                        "count": count,
                        "values": told,
                        "done": done,
                        "total": len(tasks),
                    }
        finally:
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        yield {"kind": "done", "seconds": time.monotonic() - begin}


def _mean(values: list[float]) -> list[float | None] | None:
    """Mean and standard error."""
    if not values:
        return None
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else None
    return [float(np.mean(values)), error]


def _spoken(seconds: float) -> str:
    if seconds < 1.5:
        return "a second"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
