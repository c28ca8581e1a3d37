"""The server of the explorer: routes, limits and safety. Worker processes do the computing."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import sys
import traceback
from collections import OrderedDict
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from firststep.simulation.running.simulate import available_cores
from firststep.web.about import about
from firststep.web.checked import Json
from firststep.web.pages import guide, media_type, read_static
from firststep.web.pool import Pool, Refused, server_says
from firststep.web.simulations import Simulations

# Limits: wide for what the page sends, narrow enough that no one request can hold the machine.
LONGEST_BODY = 64 * 1024  # bytes; the page sends less than 2 kB
DEEPEST_BODY = 20  # brackets; the page sends 3, and Python's own parser fails on thousands
PATIENCE = 10.0  # seconds a request may take to arrive
SECONDS = 15.0  # of one theory request: what the page asks takes less than one, as a rule
REPLICATE_SECONDS = 900.0  # of one network: longer ones are for the command line
MEMORY = 3 * 2**30  # bytes of one worker: the largest network that is accepted has 2e9
WAITING = 64  # requests of all open pages together
CACHED_BYTES = 32 * 2**20
# What the hand waits for, with the exact curve; the rest leaves a worker free.
AT_ONCE = ("point", "take")
COOKIE = "firststep-token"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Kept:
    """Answers that were given before, the least used forgotten first."""

    def __init__(self, most: int = CACHED_BYTES) -> None:
        self._most, self._size = most, 0
        self._answers: OrderedDict[str, bytes] = OrderedDict()

    def get(self, key: str) -> bytes | None:
        found = self._answers.get(key)
        if found is not None:
            self._answers.move_to_end(key)
        return found

    def put(self, key: str, answer: bytes) -> None:
        if key not in self._answers:
            self._answers[key] = answer
            self._size += len(key) + len(answer)
        while self._size > self._most:
            old, gone = self._answers.popitem(last=False)
            self._size -= len(old) + len(gone)


class Explorer:
    """What the routes share."""

    def __init__(self, workers: int | None = None) -> None:
        cores = workers or available_cores()
        # One is kept for what the hand waits for; a page seldom asks for five things at once.
        size = max(3, min(5, cores + 1))
        self.theory = Pool(size=size, waiting=WAITING, seconds=SECONDS, memory=MEMORY)
        self.networks = Pool(
            size=cores, waiting=4 * cores, seconds=REPLICATE_SECONDS, memory=MEMORY, nice=10
        )
        self.simulations = Simulations(self.networks, self.theory)
        self.kept = Kept()
        self.ending = asyncio.Event()  # set when the server is told to end
        self.static = read_static()
        self.pages = {
            "/": Response(self.static["index.html"], media_type=media_type("index.html")),
            "/guide": Response(guide(), media_type=media_type("guide.html")),
            "/api/about": JSONResponse(about()),
        }

    @contextlib.asynccontextmanager
    async def life(self, _: Starlette) -> AsyncIterator[None]:
        await self.theory.start()
        try:
            yield
        finally:
            await self.theory.close()
            await self.networks.close()

    async def page(self, request: Request) -> Response:
        return self.pages[request.url.path]

    async def file(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self.static:
            return refuse(server_says(404, "there is no such file"))
        return Response(self.static[name], media_type=media_type(name))

    async def ask(self, call: str, request: Request) -> Response:
        """Any call that a theory worker answers."""
        try:
            body = await read_json(request)
            if call == "estimate":
                return JSONResponse(await self.simulations.estimate(body))
            key = call + json.dumps(body, sort_keys=True)
            answer = self.kept.get(key)
            if answer is None:
                at_once = call in AT_ONCE or (
                    call == "curve" and isinstance(body, dict) and body.get("line") == "exact"
                )
                ask = self.theory.ask if at_once else self.theory.ask_aside
                answer = json.dumps(await ask(call, body, request.is_disconnected)).encode()
                self.kept.put(key, answer)
            return Response(answer, media_type="application/json")
        except Refused as error:
            return refuse(error)

    async def simulate(self, request: Request) -> Response | Stream:
        try:
            body = await read_json(request)
        except Refused as error:
            return refuse(error)
        return Stream(self.simulations.run(body), self.ending)


class Stream(Response):
    """Lines of JSON as they come.

    The work behind them ends as soon as the client is gone or the server ends.
    """

    def __init__(self, lines: AsyncIterator[Json], ending: asyncio.Event) -> None:
        super().__init__(media_type="application/x-ndjson")
        self._lines, self._ending = lines, ending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del self.headers["content-length"]
        begun = False

        async def body(text: bytes, more: bool) -> None:
            await send({"type": "http.response.body", "body": text, "more_body": more})

        async def write() -> None:
            nonlocal begun
            async for line in self._lines:
                if not begun:
                    status = line.get("status", 200) if line["kind"] == "error" else 200
                    head = {"status": status, "headers": self.raw_headers}
                    await send({"type": "http.response.start", **head})
                    begun = True
                await body(json.dumps(line).encode() + b"\n", True)
            await body(b"", False)

        async def gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        tasks = [asyncio.create_task(each) for each in (write(), gone(), self._ending.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            await self._lines.aclose()  # type: ignore[attr-defined]
        if isinstance(done[0], Exception) and not isinstance(done[0], OSError):
            raise done[0]
        if self._ending.is_set() and begun:
            await body(b"", False)


def refuse(error: Refused) -> Response:
    return JSONResponse({"errors": error.errors}, status_code=error.status)


async def read_json(request: Request) -> Any:
    """The body as JSON, of bounded length.

    The content type keeps other sites from posting here through a browser.
    """
    if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
        raise server_says(415, "the request must be application/json")
    body = b""
    try:
        async with asyncio.timeout(PATIENCE):
            async for part in request.stream():
                body += part
                if len(body) > LONGEST_BODY:
                    raise server_says(413, f"the request must be at most {LONGEST_BODY} bytes long")
    except TimeoutError:
        raise server_says(408, f"the request must arrive within {PATIENCE:g} s") from None
    except ClientDisconnect:
        raise server_says(499, "the request was withdrawn") from None
    if _depth(body) > DEEPEST_BODY:
        raise server_says(422, "the request must be a plain JSON object")
    try:
        found = json.loads(body)
        json.dumps(found, ensure_ascii=False).encode()  # half of a surrogate pair is no text
        return found
    except ValueError:
        raise server_says(422, "the request must be a JSON object") from None


def _depth(body: bytes) -> int:
    """At least how deep the brackets of a text go."""
    deepest = depth = 0
    for byte in body:
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


class Guard:
    """Before every request: is the host one of ours, is the token right?

    After it: the headers that keep the page to itself.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: frozenset[str] | None,
        token: str | None,
        embed: str | None = None,
    ) -> None:
        self._app, self._hosts, self._token = app, hosts, token
        self._headers = headers_for(embed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *self._headers]
            await send(message)

        inside = self._without_token(scope)
        request = Request(inside or scope, receive)
        answer = self._refusal(request, is_known=inside is not None)
        scope = inside or scope
        await (answer or self._app)(scope, receive, guarded)

    def _without_token(self, scope: Scope) -> Scope | None:
        """A request beneath /~TOKEN/, as a page in another's frame makes them, without that."""
        begin = f"/~{self._token}/".encode()
        path = scope["path"].encode()
        if self._token is None or not hmac.compare_digest(path[: len(begin)], begin):
            return None
        return {
            **scope,
            "path": scope["path"][len(begin) - 1 :],
            "raw_path": path[len(begin) - 1 :],
        }

    def _refusal(self, request: Request, *, is_known: bool) -> Response | None:
        host = request.headers.get("host", "")
        if self._hosts is not None and host.rsplit(":", 1)[0] not in self._hosts:
            return refuse(server_says(421, "this explorer answers only to the local machine"))
        if self._token is None or is_known:
            return None
        given = request.query_params.get("token")
        if given is not None and hmac.compare_digest(given.encode(), self._token.encode()):
            # Without its first slashes "//elsewhere" would be an address on another host.
            path = "/" + request.url.path.lstrip("/\\")
            answer = RedirectResponse(path, status_code=303)
            answer.set_cookie(COOKIE, self._token, httponly=True, samesite="strict")
            return answer
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if any(
            hmac.compare_digest(t.encode(), self._token.encode())
            for t in (request.cookies.get(COOKIE, ""), bearer)
        ):
            return None
        return refuse(
            server_says(401, "a token is needed: open the address that firststep explore printed")
        )


CALLS = ("curve", "band", "point", "words", "weights", "map", "estimate", "take")
LOCAL = frozenset({"127.0.0.1", "localhost", "[::1]"})


def headers_for(embed: str | None) -> list[tuple[bytes, bytes]]:
    """Those of every answer; frames only for pages of ``embed``, or for none."""
    told = dict(HEADERS)
    if embed is not None:
        name = "Content-Security-Policy"
        told[name] = told[name].replace("frame-ancestors 'none'", f"frame-ancestors {embed}")
    return [(name.lower().encode(), value.encode()) for name, value in told.items()]


def application(
    explorer: Explorer,
    hosts: frozenset[str] | None = LOCAL,
    token: str | None = None,
    embed: str | None = None,
) -> ASGIApp:
    """The ASGI application.

    ``hosts``: the names it answers to (None: any); ``token``: what every request must bring;
    ``embed``: the origin whose pages may show it in a frame.
    """
    routes = [
        *(Route(path, explorer.page) for path in explorer.pages),
        Route("/static/{name:path}", explorer.file),
        Route("/api/simulate", explorer.simulate, methods=["POST"]),
        *(Route(f"/api/{call}", partial(explorer.ask, call), methods=["POST"]) for call in CALLS),
    ]
    app = Starlette(
        routes=routes,
        lifespan=explorer.life,
        exception_handlers={404: _missing, 405: _missing, 500: _failed},
    )
    return Guard(app, hosts, token, embed)


async def _missing(_: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    nothing, other = "there is nothing at this address", "this address takes other requests"
    return refuse(server_says(status, nothing if status == 404 else other))


async def _failed(request: Request, error: Exception) -> Response:
    told = "".join(traceback.format_exception(error)).rstrip()
    print(f"explorer: {request.url.path} failed\n{told}", file=sys.stderr, flush=True)
    return refuse(server_says(500, f"the explorer failed on this request: {type(error).__name__}"))
