"""How fast the explorer answers: ``python benchmarks/explorer.py``.

One client that moves a slider, the same while a simulation runs, and twenty clients at once. Every
request is a new problem, so that nothing is answered from memory. All traffic stays on 127.0.0.1,
and the number of requests is fixed.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

PROBLEM: dict[str, Any] = {
    "student": "tanh",
    "teacher": "sin",
    "alpha": 2.0,
    "beta": 1.0,
    "alpha0": 8.0,
    "step": 2.0,
    "step_exponent": 0.5,
    "ridge": 0.03,
    "noise": 0.1,
    "readout": "ones",
    "init": "gaussian",
    "dimension": "inf",
}
CLASSIFIER = {**PROBLEM, "teacher": "z", "noise": 0.0, "labels": "sign", "loss": "logistic"}
NETWORKS = {
    "axis": "alpha",
    "at": [1.0, 2.0, 4.0],
    "dimension": 900,
    "replicates": 50,
    "seed": 0,
    "model": "network",
}


def curve(number: float, **changes: Any) -> dict[str, Any]:
    """A curve of 60 points at a ridge that no other request has."""
    problem = {**PROBLEM, **changes, "ridge": 0.03 * (1 + number)}
    return {
        "problem": problem,
        "axis": "alpha",
        "from": 0.25,
        "to": 16.0,
        "scale": "log",
        "points": 60,
        "line": "exact",
        "quantity": "risk",
    }


async def move(
    client: httpx.AsyncClient, count: int, pause: float = 0.0, **changes: Any
) -> list[float]:
    """Times of a slider moved ``count`` times; the next request waits for the last answer."""
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        answer = await client.post("/api/curve", json=curve(random.random(), **changes))
        answer.raise_for_status()
        times.append(time.perf_counter() - begin)
        await asyncio.sleep(pause)
    return times


async def classify(client: httpx.AsyncClient, count: int) -> tuple[list[float], ...]:
    """Times to the current point, to a coarse curve and to all of it, of a logistic classifier.

    Asked for as the page does: the point, and the curve in parts on two lanes, coarse first.
    """
    coarse = [[place] for place in (0, 32, 16, 8, 24)]
    finer = [*range(4, 32, 8), *range(2, 32, 4), *range(1, 32, 2)]
    fine = [finer[start : start + 4] for start in range(0, len(finer), 4)]
    points: list[float] = []
    rough: list[float] = []
    whole: list[float] = []
    for _ in range(count):
        problem = {**CLASSIFIER, "ridge": 0.03 * (1 + random.random())}
        begin = time.perf_counter()

        async def point(problem: dict[str, Any] = problem, begin: float = begin) -> float:
            answer = await client.post("/api/point", json={"problem": problem})
            answer.raise_for_status()
            return time.perf_counter() - begin

        body = {**curve(0), "problem": problem, "points": 33, "quantity": "error_rate"}

        async def lane(parts: list[list[int]], body: dict[str, Any] = body) -> None:
            while parts:
                answer = await client.post("/api/curve", json={**body, "places": parts.pop(0)})
                answer.raise_for_status()

        first = asyncio.create_task(point())
        for parts, times in ((coarse, rough), (fine, whole)):
            left = list(parts)
            await asyncio.gather(lane(left), lane(left))
            times.append(time.perf_counter() - begin)
        points.append(await first)
    return points, rough, whole


def told(times: list[float]) -> str:
    late = sorted(times)[int(0.95 * len(times))]
    return f"median {1000 * statistics.median(times):.0f} ms, 95 % {1000 * late:.0f} ms"


async def measure(address: str) -> None:
    limits = httpx.Limits(max_connections=100)
    async with httpx.AsyncClient(base_url=address, timeout=60, limits=limits) as client:
        await move(client, 6)
        for label, changes in (
            ("tanh, ones", {}),
            ("relu, signs", {"student": "relu", "readout": "signs"}),
            ("tanh, gaussian", {"readout": "gaussian"}),
        ):
            await move(client, 4, **changes)
            print(
                f"slider to new curve of 60 points, {label}: "
                f"{told(await move(client, 30, **changes))}"
            )
        await classify(client, 2)
        names = ("current point", "curve of 5 points", "curve of 33 points")
        for name, times in zip(names, await classify(client, 12), strict=True):
            print(f"slider to new {name}, logistic classifier: {told(times)}")
        async with client.stream(
            "POST", "/api/simulate", json={**NETWORKS, "problem": PROBLEM}
        ) as answer:
            lines = answer.aiter_lines()
            await anext(lines)
            await asyncio.sleep(2)
            print(
                "the same while networks are simulated on every core: "
                f"{told(await move(client, 30))}"
            )
        many = [move(client, 15, pause=random.uniform(0, 0.1)) for _ in range(20)]
        begin = time.perf_counter()
        times = [each for some in await asyncio.gather(*many) for each in some]
        rate = len(times) / (time.perf_counter() - begin)
        print(
            f"20 clients that move sliders, {len(times)} requests: {told(times)}, {rate:.0f} a "
            "second, no error"
        )


def main() -> None:
    random.seed(0)
    command = [str(Path(sys.executable).parent / "firststep"), "explore", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        asyncio.run(measure(address))
    finally:
        process.terminate()
        process.wait(20)


if __name__ == "__main__":
    main()
