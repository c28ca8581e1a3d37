"""The ``firststep`` command.

It imports the library inside the guard, so that Ctrl-C while it loads is as quiet as later. While
it loads there is nothing to lose and the signal ends the process by itself: as an exception it can
be caught by what is being imported, and be lost.
"""

import os
import signal


def main() -> None:
    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_usual:  # not where a shell has it ignored
        signal.signal(signal.SIGINT, _leave)
    try:
        from firststep.cli import main as run

        if is_usual:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        _leave()


def _leave(*_: object) -> None:
    os.write(2, b"interrupted\n")
    os._exit(130)
