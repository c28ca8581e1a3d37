"""The files of the page, read once; the server opens no file while it runs."""

from __future__ import annotations

import html
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

from firststep.web.words import Word, guide_words

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

_GUIDE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Guide to the firststep explorer</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="static/style.css"></head>
<body class="guide"><main>
<h1>Guide to the explorer</h1>
<p>A two-layer network f(x) = (1/√N) aᵀσ(Wᵀx) sees n₀ samples of a teacher y = σ*(⟨x, θ⟩) + noise,
takes one gradient step on W with its readout fixed, and then has its readout fitted, by ridge
regression or with another loss, on n fresh samples. Labels may also be ±1. n₀, n and N are
proportional to the dimension d. Every number on the page is computed by the library; the equations
are in its documentation, docs/theory.md.</p>
<dl>
{sections}
</dl>
</main></body></html>
"""


def read_static() -> dict[str, bytes]:
    """Content of every file of the page, by its path from the folder ``static``."""

    def read(folder: Traversable, above: str) -> Iterator[tuple[str, bytes]]:
        for entry in folder.iterdir():
            if entry.is_dir():
                yield from read(entry, f"{above}{entry.name}/")
            elif any(entry.name.endswith(end) for end in TYPES):
                yield above + entry.name, entry.read_bytes()

    return dict(read(files("firststep.web").joinpath("static"), ""))


def media_type(name: str) -> str:
    return TYPES["." + name.rsplit(".", 1)[-1]]


def guide() -> str:
    """One page that explains every control, line and quantity."""

    def section(word: Word) -> str:
        anchor, title = html.escape(word.name), html.escape(word.title)
        text = html.escape(f"{word.explanation} {word.more}")
        return f'<dt id="{anchor}">{title}</dt><dd>{text}</dd>'

    return _GUIDE.replace("{sections}", "\n".join(section(word) for word in guide_words()))
