"""A process that answers requests: JSON lines in, JSON lines out. Started by ``Worker`` of pool.py.

The server computes nothing itself: a request that takes too long, or too much memory, costs a
worker and not the page.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import traceback
import warnings

from firststep.errors import Fault, FirststepError, InvalidParameter
from firststep.web.checked import Json


def refusal(message: str) -> list[Json]:
    """The errors of an answer that no field is to blame for, as the page shows them."""
    return [{"parameter": "server", "message": message}]


def _told(fault: Fault) -> Json:
    field = fault.parameter.removeprefix("problem.").replace("-", "_")
    return {"parameter": field, "message": str(fault)}


def answer(message: Json) -> Json:
    """{"ok": result} or {"errors": [...], "status": HTTP status}."""
    from firststep.web.answers import CALLS

    try:
        return {"ok": CALLS[message["call"]](message["body"])}
    except InvalidParameter as error:
        errors = [_told(fault) for fault in error.faults]
    except FirststepError as error:
        errors = refusal(" ".join(str(error).split()))
    except MemoryError:
        errors = refusal("this needs more memory than the explorer may use")
    return {"errors": errors, "status": 422}


def main() -> None:
    """Serve until the pipe closes, which it does when the server ends, however it ends."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # anything printed goes to stderr, not into the answers
    memory, nice = (int(text) for text in sys.argv[1:3])
    _restrain(memory, nice)
    inbox: queue.SimpleQueue[str] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            inbox.put(line)
        os._exit(0)  # at once, whatever is being computed: nobody waits for it

    threading.Thread(target=listen, daemon=True).start()
    warnings.simplefilter("ignore", RuntimeWarning)  # what overflows is found and refused
    import firststep.web.answers  # noqa: F401  the slow imports, before the first request

    while True:
        line = inbox.get()
        try:
            text = json.dumps(answer(json.loads(line)), allow_nan=False)
        except Exception as error:  # a fault of ours: said as such, and the worker lives on
            told = refusal(f"the explorer failed on this request: {type(error).__name__}")
            detail = "".join(traceback.format_exception(error)).rstrip()
            text = json.dumps({"errors": told, "status": 500, "detail": detail})
        answers.write(text + "\n")
        answers.flush()


def _restrain(memory: int, nice: int) -> None:
    """Bytes of data at most, and how far others go first."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        os.nice(nice)
    except (ImportError, OSError, ValueError):  # not everywhere
        pass
