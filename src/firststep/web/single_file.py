"""The page, its modules and its data joined into one file."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping
from typing import Any

from firststep.web.pages import read_static

_IMPORT = re.compile(r"^import \{[^}]*\} from '(\.[\w./-]+)';\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(async function|function|class|const|let)\b)", re.MULTILINE)
_POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:\">"
)


def imported(name: str, source: str) -> list[str]:
    """The modules that a module imports, as paths from the folder of the page."""
    folder = posixpath.dirname(name)
    return [posixpath.normpath(posixpath.join(folder, path)) for path in _IMPORT.findall(source)]


def bundle(static: Mapping[str, bytes], entry: str = "main.js") -> str:
    """All modules in one: every module after those it imports.

    Their top-level names are distinct, which a test checks.
    """
    done: list[str] = []
    parts: list[str] = []

    def add(name: str, above: tuple[str, ...] = ()) -> None:
        if name in done:
            return
        if name in above:
            raise RuntimeError(f"modules import each other: {' -> '.join([*above, name])}")
        source = static[name].decode()
        for wanted in imported(name, source):
            add(wanted, (*above, name))
        done.append(name)
        parts.append(f"// {name}\n" + _EXPORT.sub("", _IMPORT.sub("", source)))

    add(entry)
    return "\n".join(parts)


def single_file(data: Mapping[str, Any]) -> str:
    """The page with its style, its modules and its data inside."""
    static = read_static()
    numbers = json.dumps(data, allow_nan=False).replace("</", "<\\/")
    script = bundle(static).replace("</script", "<\\/script")
    inside = {
        '<link rel="stylesheet" href="static/style.css">': (
            f"{_POLICY}\n<style>\n{static['style.css'].decode()}\n</style>"
        ),
        '<script type="module" src="static/main.js"></script>': (
            f'<script type="application/json" id="offline">{numbers}</script>\n'
            f'<script type="module">\n{script}\n</script>'
        ),
    }
    page = static["index.html"].decode()
    for link in inside:
        if page.count(link) != 1:
            raise RuntimeError(f"index.html must have {link} once")
    for link, content in inside.items():
        page = page.replace(link, content)
    return page
