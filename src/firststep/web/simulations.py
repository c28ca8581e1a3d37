"""Simulations of the explorer: one at a time, streamed, ended at once when nobody listens."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator

import numpy as np

from firststep.web.asked import MEASURED
from firststep.web.checked import Json
from firststep.web.pool import Pool, Refused, server_says

# Seconds of a replicate of w operations, OVERHEAD + SMALL w^(2/3) + LARGE w: small networks spend
# their time on activations, large ones on products. Of one core; what this one takes is measured.
OVERHEAD, SMALL, LARGE = 0.003, 1.3e-8, 1.8e-11
TRUST = 0.5  # seconds of networks after which what was measured counts as much as these numbers
MOST_WAITING = 8
ALIVE = 1.0  # seconds between signs of life


class Simulations:
    """The queue of simulations over a pool of workers of their own."""

    def __init__(self, pool: Pool, theory: Pool) -> None:
        self._pool, self._theory = pool, theory
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._measured, self._expected = TRUST, TRUST  # seconds so far, of this machine

    async def estimate(self, body: object) -> Json:
        """How long a simulation will take."""
        cost = await self._theory.ask("cost", body)
        seconds = sum(map(usual_seconds, cost["work"])) * cost["replicates"]
        seconds *= self._measured / self._expected / min(self._pool.size, cost["tasks"])
        cores = f"{self._pool.size} core{'s' if self._pool.size > 1 else ''}"
        text = f"about {_spoken(seconds)} on {cores}"
        return {"seconds": seconds, "workers": self._pool.size, "text": text}

    def learn(self, operations: float, seconds: float) -> None:
        """How long a replicate took here."""
        self._expected += usual_seconds(operations)
        self._measured += seconds

    async def run(self, body: object) -> AsyncIterator[Json]:
        """Lines of a stream, ending with ``done`` or ``error``.

        Closing the iterator ends the simulation at once.
        """
        try:
            cost = await self._theory.ask("cost", body)
            if self._waiting >= MOST_WAITING:
                raise server_says(429, "too many simulations are waiting: try again later")
        except Refused as error:
            told = {"message": str(error), "status": error.status, "errors": error.errors}
            yield {"kind": "error", **told}
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

    async def _work(self, body: object, cost: Json) -> AsyncIterator[Json]:
        """Every point gets its first network before any gets its second."""
        begin = time.monotonic()
        points = [Point(index, x) for index, x in enumerate(cost["x"])]
        left = iter([(number, point) for number in range(cost["replicates"]) for point in points])
        done, total = 0, cost["tasks"]
        running: dict[asyncio.Task[Json], tuple[Point, float]] = {}
        yield {"kind": "started", "total": total, "workers": self._pool.size}
        try:
            while done < total:
                while len(running) < self._pool.size and (task := next(left, None)) is not None:
                    number, point = task
                    wanted = {"request": body, "index": point.index, "number": number}
                    call = asyncio.create_task(self._pool.ask("replicate", wanted, drop=True))
                    running[call] = (point, time.monotonic())
                finished, _ = await asyncio.wait(
                    running, timeout=ALIVE, return_when=asyncio.FIRST_COMPLETED
                )
                if not finished:
                    yield {"kind": "alive", "done": done, "total": total}
                for call in finished:
                    point, started = running.pop(call)
                    done += 1
                    line = point.add(call)
                    if line["kind"] == "point":
                        self.learn(cost["work"][point.index], time.monotonic() - started)
                    yield {**line, "done": done, "total": total}
        finally:
            for call in running:
                call.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        yield {"kind": "done", "seconds": time.monotonic() - begin}


def usual_seconds(operations: float) -> float:
    """Of one replicate."""
    return OVERHEAD + SMALL * operations ** (2 / 3) + LARGE * operations


class Point:
    """A point of the curve and what its networks have measured so far."""

    def __init__(self, index: int, x: float) -> None:
        self.index, self._x = index, x
        self._values: dict[str, list[float]] = {name: [] for name in MEASURED}

    def add(self, finished: asyncio.Task[Json]) -> Json:
        """The line that tells of one more network, or why there is none."""
        place = {"index": self.index, "x": self._x}
        try:
            found = finished.result()
        except Refused as error:
            return {"kind": "failed", **place, "message": str(error)}
        for name, kept in self._values.items():
            if found[name] is not None:
                kept.append(found[name])
        told = {name: _mean(kept) for name, kept in self._values.items()}
        return {"kind": "point", **place, "count": len(self._values["risk"]), "values": told}


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
