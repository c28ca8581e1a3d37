"""How commands are attached: functions by the names that are typed, or groups of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

from cyclopts import App

Command = Callable[..., int] | App


def attach(app: App, commands: Mapping[str, Command]) -> App:
    """The app with its commands, whose help is their docstring, each paragraph on one line."""
    for typed, command in commands.items():
        if isinstance(command, App):
            app.command(command)
            continue
        paragraphs = (inspect.getdoc(command) or "").split("\n\n")
        told = "\n\n".join(" ".join(each.split()) for each in paragraphs)
        app.command(command, name=typed, help=told)
    return app
