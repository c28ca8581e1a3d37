"""How a command is attached: a function by its name and docstring, or a group of commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from cyclopts import App

Command = Callable[..., int] | App


def attach(app: App, command: Command, **options: Any) -> None:
    """Add a command; its help is the docstring, each paragraph on one line."""
    if not isinstance(command, App):
        paragraphs = (inspect.getdoc(command) or "").split("\n\n")
        options["help"] = "\n\n".join(" ".join(each.split()) for each in paragraphs)
    app.command(command, **options)


def group(name: str, text: str, commands: Iterable[Command], **options: Any) -> App:
    """Several commands under one name."""
    app = App(name=name, help=text, **options)
    for command in commands:
        attach(app, command)
    return app
