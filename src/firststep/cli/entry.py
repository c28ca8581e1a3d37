"""One command line from its words to its exit code."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Sequence

from cyclopts import CycloptsError

from firststep.cli.app import app
from firststep.cli.output import complain, show
from firststep.errors import FirststepError, InvalidParameter
from firststep.results import Interrupted, versions

UNFORESEEN = 70  # EX_SOFTWARE of sysexits.h


def run(arguments: Sequence[str] | None = None) -> int:
    """The exit code of one command line: 0 done, 1 failed, 2 wrong input, 70 a fault of ours, 130
    interrupted.
    """
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    as_json = any(each.split("=")[0] == "--json" for each in tokens)
    try:
        result = app(tokens, exit_on_error=False, print_error=False, help_on_error=False)
        return result if isinstance(result, int) else 0
    except CycloptsError as error:
        complain(" ".join(str(error).split()))
        return 2
    except InvalidParameter as error:
        complain(str(error))
        return 2
    except FirststepError as error:
        if (partial := getattr(error, "result", None)) is not None:
            show(partial, as_json)
        complain(str(error))
        return 1
    except KeyboardInterrupt as error:
        if isinstance(error, Interrupted) and error.result is not None:
            show(error.result, as_json)
        print(str(error) or "interrupted", file=sys.stderr)
        return 130
    except MemoryError:
        complain("out of memory; try a smaller --dimension or fewer --workers")
        return 1
    except Exception as error:
        if isinstance(error, OSError) and error.filename is None:  # our output: main says so
            raise
        complain(_unforeseen(error))
        return UNFORESEEN


def _unforeseen(error: Exception) -> str:
    """One line for a fault of ours; all of it in a file."""
    first = (" ".join(str(error).split()) or "no message")[:200]
    told = f"an unforeseen {type(error).__name__}: {first}"
    try:
        number, name = tempfile.mkstemp(prefix="firststep-", suffix=".txt")
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(f"{sys.argv}\n{versions()}\n")
            traceback.print_exception(error, file=file)
    except OSError:
        return told
    return f"{told} (this is a fault of firststep: please report it with {name})"


def main() -> None:
    try:
        code = run()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except BrokenPipeError:  # the reader of our output has gone: nobody to tell
        os._exit(1)
    except OSError as error:
        complain(f"the output could not be written: {error.strerror}")
        os._exit(1)
    if code == 130:
        os._exit(130)  # do not wait for anything
    sys.exit(code)
