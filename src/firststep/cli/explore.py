"""``firststep explore``: serve the page of the explorer, or write it."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import re
import secrets
import socket
import sys
import threading
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlencode, urlsplit

from cyclopts import Parameter

import firststep
from firststep.checks import whole
from firststep.cli.flags import NO_PROBLEM, ProblemFlags, number
from firststep.cli.qr_code import in_half_blocks, qr_code
from firststep.errors import BackendUnavailable, InvalidParameter
from firststep.problem import Problem
from firststep.web.asked import PageProblem
from firststep.web.meaning import main_quantity
from firststep.web.presets import DEFAULTS, PROBLEM


def explore(
    problem: ProblemFlags = NO_PROBLEM,
    *,
    host: Annotated[
        str,
        Parameter(
            help="address to listen on; others than 127.0.0.1 need the token that is printed"
        ),
    ] = "127.0.0.1",
    port: Annotated[str, number("port; default: a free one")] = "0",
    browser: Annotated[
        bool, Parameter(help="open the page in the browser", negative="--no-browser")
    ] = True,
    embed: Annotated[
        str | None,
        Parameter(help="let pages of this origin, https://course.example, show it in a frame"),
    ] = None,
    workers: Annotated[str | None, number("processes for simulations; default: by cores")] = None,
    export: Annotated[
        Path | None,
        Parameter(help="write one self-contained HTML file with a precomputed grid instead"),
    ] = None,
) -> int:
    """Serve the interactive page on this machine, or write it as one file that works by double
    click.

    Example: firststep explore --student relu --teacher tanh --readout signs
    """
    given = problem.given()  # the other fields are the page's own
    start = _checked({**PROBLEM, **given}) if given else None
    if export is not None:
        from firststep.web.export import write_page  # the page and its words: only this needs them

        return write_page(export, start or Problem(**PROBLEM))
    for package in ("starlette", "uvicorn"):
        if importlib.util.find_spec(package) is None:
            hint = "try: pip install 'firststep[explore]'"
            raise BackendUnavailable(package, "installed for the explorer", "nothing", hint)
    place = whole("port", port, 0, 65535)
    count = None if workers is None else whole("workers", workers, 1, 1024)
    frame = None if embed is None else _origin(embed)
    return _serve(Place(host, place, frame), browser, count, start)


@dataclass(frozen=True)
class Place:
    """Where the explorer listens, and whose pages may show it in a frame."""

    host: str
    port: int
    embed: str | None

    @property
    def is_local(self) -> bool:
        return self.host in ("127.0.0.1", "localhost", "::1")


def _origin(text: str) -> str:
    """One origin as browsers write it: a scheme, a host and perhaps a port."""
    parts = urlsplit(text)
    with contextlib.suppress(ValueError):
        bare = f"{parts.scheme}://{parts.netloc}"
        named = re.fullmatch(r"[\w.-]+|\[[0-9a-fA-F:]+\]", parts.netloc.rsplit(":", 1)[0])
        if parts.scheme in ("http", "https") and named and parts.port != 0 and text == bare:
            return text
    allowed = "one origin: http or https, a host and perhaps a port, such as https://course.example"
    raise InvalidParameter("embed", allowed, text)


def _checked(fields: dict[str, Any]) -> Problem:
    """A problem that the page can show: one ridge, within its bounds, with a theory."""
    problem = Problem(**fields)
    told = problem.to_dict()
    if "alpha0" not in problem.model_fields_set:
        del told["alpha0"]
    checked = PageProblem.of(told)
    firststep.predict(checked)
    return checked


def _serve(place: Place, browser: bool, workers: int | None, start: Problem | None) -> int:
    import uvicorn

    from firststep.web.protocol import PatientProtocol
    from firststep.web.server import LOCAL, Explorer, application

    token = None if place.is_local else secrets.token_urlsafe(24)
    listener = _listen(place.host, place.port)
    port = listener.getsockname()[1]
    told = _Told(place, port, token, _fragment(start))
    explorer = Explorer(workers)
    app = application(explorer, LOCAL if place.is_local else None, token, place.embed)

    class Server(uvicorn.Server):  # type: ignore[misc]  # uvicorn is not followed by mypy
        async def startup(self, sockets: object = None) -> None:
            await super().startup(sockets=sockets)
            # Whoever reads the address finds the page, and Ctrl-C ends it properly.
            _announce(told, browser)

        def handle_exit(self, sig: int, frame: object) -> None:
            explorer.ending.set()  # streams of simulations end, so that nothing has to be cut off
            super().handle_exit(sig, frame)

    settings = uvicorn.Config(
        app,
        http=PatientProtocol,
        log_level="critical",
        access_log=False,
        limit_concurrency=200,  # a page opens a handful of connections: far more is an attack
        timeout_keep_alive=30,  # seconds; a reader who thinks for a while need not connect again
        timeout_graceful_shutdown=1,  # Ctrl-C ends at once for whoever waits at the terminal
        server_header=False,
        lifespan="on",
    )
    # Ctrl-C is how the explorer ends: uvicorn has shut down by then.
    with contextlib.suppress(KeyboardInterrupt):
        Server(settings).run(sockets=[listener])
    return 0


@dataclass(frozen=True)
class _Told:
    """The addresses that are printed."""

    place: Place
    port: int
    token: str | None
    fragment: str

    def at(self, host: str) -> str:
        shown = "127.0.0.1" if host == "localhost" else f"[{host}]" if ":" in host else host
        query = f"?{urlencode({'token': self.token})}" if self.token else ""
        return f"http://{shown}:{self.port}/{query}{self.fragment}"

    @property
    def address(self) -> str:
        return self.at(self.place.host)

    @property
    def for_others(self) -> str | None:
        """The address that other machines use; 0.0.0.0 is only where this one listens."""
        if self.place.is_local:
            return None
        host = self.place.host
        seen = _own_address(host) if host in ("0.0.0.0", "::", "") else host
        return self.at(seen) if seen else None

    @property
    def in_a_frame(self) -> str:
        """Cookies of a page in another's frame are kept from it: the token is in the path."""
        host = urlsplit(self.for_others or self.address).netloc
        path = f"~{self.token}/" if self.token else ""
        return f"http://{host}/{path}{self.fragment}"


def _own_address(host: str) -> str | None:
    """That of this machine's way out; nothing is sent to find it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    far = "2001:db8::1" if family == socket.AF_INET6 else "192.0.2.1"  # for documentation only
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((far, 9))
            return str(probe.getsockname()[0])
    except OSError:
        return None


def _announce(told: _Told, browser: bool) -> None:
    address = told.address
    print(f"firststep explorer: {address}\nCtrl-C ends it", flush=True)
    if told.place.embed:
        print(f"in a frame on {told.place.embed}: {told.in_a_frame}", flush=True)
    if told.for_others:
        _show_others(told.for_others)
    if not told.place.is_local:
        print(
            "warning: other machines can reach this address, and whoever has the token can use "
            "this machine's processors; the connection is not encrypted",
            file=sys.stderr,
            flush=True,
        )
    if browser:  # in a thread: some browsers keep their caller waiting
        threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()


def _show_others(address: str) -> None:
    """The address for others, and as a QR code for the telephones in the room."""
    print(f"for others: {address}", flush=True)
    try:
        code = in_half_blocks(qr_code(address))
        code.encode(sys.stdout.encoding or "ascii")
    except (ValueError, LookupError):  # a long problem in the address, or a terminal without blocks
        return
    print(code, flush=True)


def _listen(host: str, port: int) -> socket.socket:
    """A socket of our own, so that the port is known before the server starts."""
    listener = None
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # With its protocol named: asyncio sends small packets at once only then, 40 ms sooner.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        if listener is not None:
            listener.close()
        hint = error.strerror or str(error)
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise InvalidParameter("host", "an address of this machine", host, hint) from None
        allowed = f"one that can be listened on at {host}"
        raise InvalidParameter("port", allowed, port, hint) from None
    return listener


def _fragment(start: Problem | None) -> str:
    """The state of the page that shows a problem, and what it is about."""
    if start is None:
        return ""
    told = start.to_dict()
    fields = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in told.items()
        if name in start.model_fields_set
    }
    if main_quantity(start) != DEFAULTS["quantity"]:
        fields["quantity"] = main_quantity(start)
    return "#" + urlencode(fields, quote_via=quote)
