"""How Sphinx builds these pages: ``make docs`` writes them to docs/_build/html.

Nothing is loaded from the network.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from sphinx import addnodes
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

import firststep

project = "firststep"
author = "The firststep authors"
version = release = firststep.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx-mathjax-offline"]
exclude_patterns = ["_build"]
nitpicky = True
smartquotes = False  # s' is a derivative
highlight_language = "none"  # unmarked blocks are commands and what they print

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3  # links such as page.md#section, as on GitHub

mathjax3_config = {"chtml": {"scale": 0.9}}  # the size of the text around it

html_theme = "furo"
html_title = f"firststep {release}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_copy_source = False
html_show_copyright = False

autodoc_typehints = "none"  # the texts say what is allowed
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 120
toc_object_entries_show_parents = "hide"


def docstring_as_markup(
    app: Any, kind: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Docstrings are plain text: only ``code`` is markup, not |v|^2 or c1*.

    Indented paragraphs are kept; Args become a list.
    """
    written: list[str] = []
    within = "text"
    for before, line in zip(["", *lines], lines, strict=False):
        if line.strip() and not line.startswith(" "):
            within = "arguments" if line == "Args:" else "text"
        elif line.strip() and not before.strip() and within == "text":
            within = "literal"
            written += ["::", ""]
        if line == "Args:":
            written += [":Arguments:"]
        elif within == "arguments":
            written.append(
                re.sub(
                    r"^ {4}(\w[\w, ]*): ",
                    r"    * ``\1``: ",
                    re.sub(r"^ {5,}", " " * 6, plain(line)),
                )
            )
        else:
            written.append(line if within == "literal" else plain(line))
    if kind == "class" and hasattr(obj, "model_fields"):
        written += [
            ":Fields:",
            *(
                f"    * ``{field}``: {plain(info.description)}"
                for field, info in obj.model_fields.items()
            ),
            "",
        ]
    lines[:] = written


def plain(line: str) -> str:
    """The line, markup of reStructuredText escaped outside of ``code``, public names linked."""
    parts = re.split(r"(``.+?``)", line)
    parts[::2] = [re.sub(r"([*|`\\]|_(?!\w))", r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [
        f":py:obj:`{name}`" if (name := part.strip("`")) in firststep.__all__ else part
        for part in parts[1::2]
    ]
    return "".join(parts)


def short_signature(
    app: Any,
    kind: str,
    name: str,
    obj: Any,
    options: Any,
    arguments: str | None,
    returns: str | None,
) -> Any:
    """Fields of a problem without validators; none for results, which nobody builds by hand."""
    if arguments is None:
        return None
    if kind == "class" and hasattr(obj, "model_fields"):
        defaults = {"alpha0": "alpha", "readout": "'gaussian'"}  # the others are plain values
        fields = [
            field if info.is_required() else f"{field}={defaults.get(field, repr(info.default))}"
            for field, info in obj.model_fields.items()
        ]
        return f"(*, {', '.join(fields)})", None
    if kind == "exception" or (kind == "class" and hasattr(obj, "__dataclass_fields__")):
        return "", None
    return None


def check_reference(app: Any, env: Any) -> None:
    """Every public name has its place in reference.md."""
    known = {name for name, *_ in env.get_domain("py").get_objects()}
    for name in firststep.__all__:
        if f"firststep.{name}" not in known and not name.startswith("__"):
            logging.getLogger(__name__).warning(
                "docs/reference.md does not show firststep.%s", name
            )


class FilesOutside(SphinxTransform):
    """Links to files outside docs/, such as ../README.md, lead to copies; folders are text."""

    default_priority = 400

    def apply(self, **options: Any) -> None:
        folder = Path(self.env.srcdir)
        for link in list(self.document.findall(addnodes.pending_xref)):
            if link.get("reftype") != "myst" or link["reftarget"] in self.env.found_docs:
                continue
            target = folder / link["reftarget"]
            page = target.with_name(target.name + ".md")
            if link["refdomain"] == "doc" and page.is_file():
                path = os.path.relpath(page, folder)
                link.replace_self(
                    addnodes.download_reference("", "", *link.children, reftarget=f"/{path}")
                )
            elif target.is_dir():
                link.replace_self(link.children)


def setup(app: Any) -> None:
    app.add_transform(FilesOutside)
    app.connect("env-check-consistency", check_reference)
    app.connect("autodoc-process-docstring", docstring_as_markup)
    app.connect("autodoc-process-signature", short_signature)
