"""``firststep explore``: serve the page of the explorer, or write it."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import secrets
import socket
import sys
import threading
import webbrowser
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from cyclopts import Parameter

import firststep
from firststep.checks import whole
from firststep.cli.flags import NO_PROBLEM, ProblemFlags, number
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
    return _serve(host, place, browser, count, start)


def _checked(fields: dict[str, Any]) -> Problem:
    """A problem that the page can show: one ridge, within its bounds, with a theory."""
    problem = Problem(**fields)
    told = problem.to_dict()
    if "alpha0" not in problem.model_fields_set:
        del told["alpha0"]
    checked = PageProblem.of(told)
    firststep.predict(checked)
    return checked


def _serve(host: str, port: int, browser: bool, workers: int | None, start: Problem | None) -> int:
    import uvicorn

    from firststep.web.protocol import PatientProtocol
    from firststep.web.server import LOCAL, Explorer, application

    is_local = host in ("127.0.0.1", "localhost", "::1")
    token = None if is_local else secrets.token_urlsafe(24)
    listener = _listen(host, port)
    bound = listener.getsockname()[1]
    shown = "127.0.0.1" if host == "localhost" else f"[{host}]" if ":" in host else host
    address = (
        f"http://{shown}:{bound}/"
        + (f"?{urlencode({'token': token})}" if token else "")
        + _fragment(start)
    )
    explorer = Explorer(workers)
    app = application(explorer, LOCAL if is_local else None, token)

    class Server(uvicorn.Server):  # type: ignore[misc]  # uvicorn is not followed by mypy
        async def startup(self, sockets: object = None) -> None:
            await super().startup(sockets=sockets)
            # Whoever reads the address finds the page, and Ctrl-C ends it properly.
            _announce(address, is_local, browser)

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


def _announce(address: str, is_local: bool, browser: bool) -> None:
    print(f"firststep explorer: {address}\nCtrl-C ends it", flush=True)
    if not is_local:
        print(
            "warning: other machines can reach this address, and whoever has the token can use "
            "this machine's processors; the connection is not encrypted",
            file=sys.stderr,
            flush=True,
        )
    if browser:  # in a thread: some browsers keep their caller waiting
        threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()


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
