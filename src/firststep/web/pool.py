"""Worker processes of the explorer, a bounded queue before them, and a limit on every request."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Awaitable, Callable, Iterator

from firststep.simulation.running.workers import child_command, child_environment
from firststep.web.checked import Json

LONGEST_ANSWER = 8 * 2**20  # bytes: many times the longest, the weights at d = 600
LONGEST_REPORT = 2000  # characters of a request that failed
Unwanted = Callable[[], Awaitable[bool]]


class Refused(Exception):
    """A request that gets no answer: ``status`` of HTTP, and the errors as the page shows them."""

    def __init__(self, status: int, errors: list[Json]) -> None:
        super().__init__(errors[0]["message"])
        self.status, self.errors = status, errors


def server_says(status: int, message: str) -> Refused:
    return Refused(status, [{"parameter": "server", "message": message}])


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

    def __init__(
        self, *, size: int, waiting: int, seconds: float, memory: int, nice: int = 0
    ) -> None:
        self.size, self._most, self._seconds = size, waiting, seconds
        self._all = [Worker(memory, nice) for _ in range(size)]
        self._free: asyncio.Queue[Worker] = asyncio.Queue()
        for worker in self._all:
            self._free.put_nowait(worker)
        self._waiting = 0
        self._aside = asyncio.Semaphore(max(1, size - 1))
        self._running: set[asyncio.Task[Json]] = set()

    async def start(self) -> None:
        for worker in self._all:
            await worker.start()

    async def close(self) -> None:
        for task in self._running:
            task.cancel()
        for worker in self._all:
            await worker.kill()

    @contextlib.contextmanager
    def _line(self) -> Iterator[None]:
        """A place in the line of those who wait, unless it is full."""
        if self._waiting >= self._most:
            raise server_says(429, "too many requests are waiting: try again in a moment")
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    async def ask_aside(self, call: str, body: object, unwanted: Unwanted | None = None) -> Json:
        """``ask`` for what can wait: one worker is always left for what cannot."""
        with self._line():
            await self._aside.acquire()
        try:
            return await self.ask(call, body, unwanted)
        finally:
            self._aside.release()

    async def ask(
        self, call: str, body: object, unwanted: Unwanted | None = None, *, drop: bool = False
    ) -> Json:
        """The result of a call, or ``Refused``.

        ``unwanted``: asked when the turn comes; what nobody waits for any more is not computed.
        ``drop``: a cancelled request ends its worker at once; otherwise the worker finishes what
        it has begun, which takes no longer than the limit.
        """
        with self._line():
            worker = await self._free.get()
        if unwanted is not None and await unwanted():
            self._free.put_nowait(worker)
            raise server_says(499, "the request was withdrawn")
        conversation = asyncio.create_task(self._converse(worker, {"call": call, "body": body}))
        self._running.add(conversation)
        conversation.add_done_callback(self._running.discard)
        if drop:
            return await conversation
        try:
            return await asyncio.shield(conversation)
        except asyncio.CancelledError:  # nobody reads the answer: its error counts as seen
            conversation.add_done_callback(lambda task: task.cancelled() or task.exception())
            raise

    async def _converse(self, worker: Worker, message: Json) -> Json:
        """One request to one worker, which is then free again, new if it had to be ended."""
        answer: Json | None = None
        try:
            async with asyncio.timeout(self._seconds):
                answer = await worker.ask(message)
        except TimeoutError:
            text = (
                f"this takes longer than {self._seconds:g} s: the explorer gave up; "
                "the command line has no limit"
            )
            raise server_says(504, text) from None
        except (OSError, ValueError):
            text = (
                "the process that computed this ended (too little memory?): try a smaller problem"
            )
            raise server_says(503, text) from None
        finally:
            if answer is None:
                await asyncio.shield(worker.kill())
            self._free.put_nowait(worker)
        if "detail" in answer:  # a fault of ours: whoever runs the server can report it
            told = json.dumps(message)[:LONGEST_REPORT]
            print(f"explorer: {told} failed\n{answer['detail']}", file=sys.stderr, flush=True)
        if "ok" not in answer:
            raise Refused(answer["status"], answer["errors"])
        found: Json = answer["ok"]
        return found
