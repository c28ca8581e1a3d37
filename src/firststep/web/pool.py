"""Worker processes of the explorer: a bounded queue in front of them, a limit on the time of every request."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import Any

from firststep.simulation.running.workers import child_command, child_environment
from firststep.web.checked import Json

LONGEST_ANSWER = 8 * 2**20


class Refused(Exception):
    """A request that gets no answer: ``status`` of HTTP, and the errors as the page shows them."""

    def __init__(self, status: int, errors: list[Json]) -> None:
        super().__init__(errors[0]["message"])
        self.status, self.errors = status, errors


def server_says(status: int, message: str) -> Refused:
    return Refused(status, [{"parameter": "server", "message": message}])


def _too_many() -> Refused:
    return server_says(429, "too many requests are waiting: try again in a moment")


class Worker:
    """One process; it answers one request at a time."""

    def __init__(self, memory: int, nice: int) -> None:
        self._memory, self._nice = memory, nice
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *child_command("firststep.web.worker", "main"),
                str(self._memory),
                str(self._nice),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=child_environment(),
                start_new_session=True,
                limit=LONGEST_ANSWER,
            )
        return self._process

    async def ask(self, message: Json) -> Json:
        """The answer, or ``ConnectionError`` if the process died."""
        process = await self.start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(message).encode() + b"\n")
        await process.stdin.drain()
        line = await process.stdout.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("the worker ended")
        found: Json = json.loads(line)
        return found

    async def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


class Pool:
    """``size`` workers. At most ``waiting`` requests wait for one; each may take ``seconds``."""

    def __init__(self, size: int, waiting: int, seconds: float, memory: int, nice: int = 0) -> None:
        self.size, self._most, self._seconds = size, waiting, seconds
        self._all = [Worker(memory, nice) for _ in range(size)]
        self._free: asyncio.Queue[Worker] = asyncio.Queue()
        for worker in self._all:
            self._free.put_nowait(worker)
        self._waiting = 0
        self._aside = asyncio.Semaphore(max(1, size - 1))
        self._running: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        for worker in self._all:
            await worker.start()

    async def close(self) -> None:
        for task in self._running:
            task.cancel()
        for worker in self._all:
            await worker.kill()

    async def ask_aside(
        self, call: str, body: Any, unwanted: Callable[[], Awaitable[bool]] | None = None
    ) -> Any:
        """The same for what can wait: one worker is always left for what cannot."""
        if self._waiting >= self._most:
            raise _too_many()
        self._waiting += 1
        try:
            await self._aside.acquire()
        finally:
            self._waiting -= 1
        try:
            return await self.ask(call, body, unwanted)
        finally:
            self._aside.release()

    async def ask(
        self,
        call: str,
        body: Any,
        unwanted: Callable[[], Awaitable[bool]] | None = None,
        *,
        drop: bool = False,
    ) -> Any:
        """The result of a call, or ``Refused``.

        ``unwanted``: asked when the turn comes; what nobody waits for any more is not computed. ``drop``: a cancelled request ends
        its worker at once; otherwise the worker finishes what it has begun, which takes no longer than the limit.
        """
        if self._waiting >= self._most:
            raise _too_many()
        self._waiting += 1
        try:
            worker = await self._free.get()
        finally:
            self._waiting -= 1
        if unwanted is not None and await unwanted():
            self._free.put_nowait(worker)
            raise server_says(499, "the request was withdrawn")
        conversation = asyncio.create_task(self._converse(worker, {"call": call, "body": body}))
        self._running.add(conversation)
        conversation.add_done_callback(self._running.discard)
        try:
            answer = await (conversation if drop else asyncio.shield(conversation))
        except asyncio.CancelledError:
            if not drop:
                conversation.add_done_callback(
                    lambda task: task.cancelled() or task.exception()
                )  # nobody reads its answer
            raise
        if "ok" in answer:
            return answer["ok"]
        raise Refused(answer["status"], answer["errors"])

    async def _converse(self, worker: Worker, message: Json) -> Json:
        """One request to one worker, which is free again afterwards, new if it had to be ended."""
        whole = False
        try:
            async with asyncio.timeout(self._seconds):
                answer = await worker.ask(message)
            whole = True
            return answer
        except TimeoutError:
            text = f"this takes longer than {self._seconds:g} s: the explorer gave up; the command line has no limit"
            return {"status": 504, "errors": [{"parameter": "server", "message": text}]}
        except (OSError, ValueError):
            text = (
                "the process that computed this ended (too little memory?): try a smaller problem"
            )
            return {"status": 503, "errors": [{"parameter": "server", "message": text}]}
        finally:
            if not whole:
                await asyncio.shield(worker.kill())
            self._free.put_nowait(worker)
