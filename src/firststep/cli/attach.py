"""How commands are attached: functions by the names that are typed, or groups of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from cyclopts import App

Command = Callable[..., int] | App


def group(name: str, text: str, commands: Mapping[str, Command], **options: Any) -> App:
    """Several commands under one name.

    The help of a command is its docstring, each paragraph on one line.
    """
    app = App(name=name, help=text, **options)
    for typed, command in commands.items():
        if isinstance(command, App):
            app.command(command)
            continue
        paragraphs = (inspect.getdoc(command) or "").split("\n\n")
        told = "\n\n".join(" ".join(each.split()) for each in paragraphs)
        app.command(command, name=typed, help=told)
    return app
