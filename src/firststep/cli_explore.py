"""The command of the explorer: ``firststep explore``."""

from __future__ import annotations

import contextlib
import importlib.util
import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from firststep.errors import BackendUnavailable, InvalidParameter
from firststep.problem import Problem, whole


def explore(
    given: Mapping[str, Any], host: str, port: Any, browser: bool, workers: Any, export: Path | None
) -> int:
    """Serve the page, or write it; ``given``: fields of the problem to begin with, the others are the page's own."""
    from firststep.web.presets import PROBLEM

    start = _checked({**PROBLEM, **given}) if given else None
    if export is not None:
        from firststep.web.export import write_page

        return write_page(export, start or Problem(**PROBLEM))
    for package in ("starlette", "uvicorn"):
        if importlib.util.find_spec(package) is None:
            raise BackendUnavailable(
                package,
                "installed for the explorer",
                "nothing",
                "try: pip install 'firststep[explore]'",
            )
    number = whole("port", port, 0, 65535)
    count = None if workers is None else whole("workers", workers, 1, 1024)
    return _serve(host, number, browser, count, start)


def _checked(fields: dict[str, Any]) -> Problem:
    """A problem that the page can show: one ridge, within its bounds, with a theory."""
    from firststep.theory.one_step.predict import predict
    from firststep.web.asked import problem_of

    problem = Problem(**fields)
    told = problem.to_dict()
    checked = problem_of(
        {
            name: told[name]
            for name in told
            if name != "alpha0" or "alpha0" in problem.model_fields_set
        }
    )
    predict(checked)
    return checked


def _serve(host: str, port: int, browser: bool, workers: int | None, start: Problem | None) -> int:
    import uvicorn

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
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets=sockets)
            _announce(
                address, is_local, browser
            )  # whoever reads the address finds the page, and Ctrl-C ends it properly

        def handle_exit(self, sig: int, frame: Any) -> None:
            explorer.ending.set()  # streams of simulations end, so that nothing has to be cut off
            super().handle_exit(sig, frame)

    settings = uvicorn.Config(
        app,
        log_level="critical",
        access_log=False,
        limit_concurrency=200,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=1,
        server_header=False,
        lifespan="on",
    )
    with contextlib.suppress(
        KeyboardInterrupt
    ):  # uvicorn has shut down by then; Ctrl-C is how the explorer ends
        Server(settings).run(sockets=[listener])
    return 0


def _announce(address: str, is_local: bool, browser: bool) -> None:
    print(f"firststep explorer: {address}\nCtrl-C ends it", flush=True)
    if not is_local:
        print(
            "warning: other machines can reach this address, and whoever has the token can use this machine's processors; "
            "the connection is not encrypted",
            file=sys.stderr,
            flush=True,
        )
    if browser:
        threading.Thread(
            target=webbrowser.open, args=[address], daemon=True
        ).start()  # some browsers keep their caller waiting


def _listen(host: str, port: int) -> socket.socket:
    """A socket of our own, so that the port is known before the server starts."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # With its protocol named: asyncio sends small packets at once only then, 40 ms sooner.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        name = "host" if isinstance(error, socket.gaierror) else "port"
        allowed = (
            "an address of this machine"
            if name == "host"
            else f"one that can be listened on at {host}"
        )
        raise InvalidParameter(
            name, allowed, host if name == "host" else port, error.strerror or str(error)
        ) from None
    return listener


def _fragment(start: Problem | None) -> str:
    """The state of the page that shows a problem."""
    if start is None:
        return ""
    fields = {
        name: value for name, value in start.to_dict().items() if name in start.model_fields_set
    }
    return "#" + urlencode(fields, quote_via=quote)
