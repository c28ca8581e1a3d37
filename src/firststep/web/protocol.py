"""HTTP connections that must say what they want in good time.

The server takes a bounded number of connections; without this, as many that never finish their
headers would shut out everybody else for as long as they liked.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol


class PatientProtocol(H11Protocol):  # type: ignore[misc]  # uvicorn is not followed by mypy
    """uvicorn's, with a limit on the time that the headers of a request may take."""

    patience = 10.0  # seconds from the opening, or from the first byte of a later request
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._watch()
        else:
            self._forget()

    def _watch(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.patience, self._end)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()
