"""The ``firststep`` command.

It imports the library inside the guard, so that Ctrl-C while it loads is as quiet as later.
"""

import os


def main() -> None:
    try:
        from firststep.cli import main as run

        run()
    except KeyboardInterrupt:
        os.write(2, b"interrupted\n")
        os._exit(130)
