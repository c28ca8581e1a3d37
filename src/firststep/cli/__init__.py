"""The command line: parse, call the library, print. No mathematics."""

from firststep.cli.entry import main, run

__all__ = ["main", "run"]
