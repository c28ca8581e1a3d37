"""An advice as one HTML file: words, tables and pictures inside, nothing loaded from elsewhere."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from firststep import plots
from firststep.errors import InvalidParameter
from firststep.results import as_html
from firststep.writing import write_text

if TYPE_CHECKING:
    from firststep.advice.record import Advice

# Nothing may be loaded or run: the pictures are data of the page itself.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #1a1a1a; background: #fff; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.verdict { font-size: 1.15rem; border-left: 5px solid #0072B2; padding: .4rem 1rem; }
.no { border-color: #D55E00; } .warning { color: #D55E00; font-weight: 600; }
table { border-collapse: collapse; margin: 1rem 0; } caption { text-align: left; color: #555; }
td, th { padding: .2rem .8rem .2rem 0; text-align: left; border-bottom: 1px solid #ddd; }
img { max-width: 100%; } code { background: #f2f2f2; padding: .1rem .3rem; }
footer { color: #555; font-size: .85rem; margin-top: 2rem; }
"""


def check_path(given: object) -> Path:
    """Before the work: a report that cannot be written is said at once."""
    if not isinstance(given, str | Path):
        raise InvalidParameter("report", "the name of an .html file", given)
    path = Path(given)
    if path.suffix.lower() not in (".html", ".htm"):
        raise InvalidParameter("report", "the name of an .html file", str(path))
    if not path.absolute().parent.is_dir():
        raise InvalidParameter("report", "a file in a folder that exists", str(path))
    plots.require()
    return path


def write_report(found: Advice, path: Path) -> Path:
    """Write the page."""
    check_path(path)
    try:
        write_text(path, page(found))
    except OSError as error:
        why = error.strerror or ""
        raise InvalidParameter("report", "a file that can be written", str(path), why) from None
    return path


def page(found: Advice) -> str:
    """The whole page as text."""
    said = html.escape
    kind = "verdict" if found.answer == "yes" else "verdict no"
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    options = ", ".join(f"{name} {value}" for name, value in found.options.items())
    head = ("rows", "fit", "predicted", "measured")
    curve = as_html("Over the variance of the target", found.curve_table(), head)
    parts = [
        f"<h1>{said(found.title)}</h1>",
        f'<p class="{kind}">{said(found.sentence)}</p>',
        *(f'<p class="warning">{said(each)}</p>' for each in found.warnings),
        f"<ul>{_items(found.reasons)}</ul>",
        f"<p>Recommended: <code>{said(found.recommended.call)}</code></p>",
        f'<p><img alt="{_ALT}" src="data:image/png;base64,{_picture(found)}"></p>',
        "<h2>Risks</h2>",
        as_html("Intervals at 95 %", found.table(), found.head),
        "<h2>Learning curve</h2>",
        curve,
        *_theory(found),
        f"<ul>{_items(found.notes_on_data)}</ul>",
        f"<footer>{said(options)}; {said(versions)}; {found.seconds:.1f} s.</footer>",
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{said(found.title)}</title><style>{_STYLE}</style></head><body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


_ALT = "risks, the learned function, its columns and the learning curve"


def _items(texts: Iterable[str]) -> str:
    return "".join(f"<li>{html.escape(text)}</li>" for text in texts)


def _theory(found: Advice) -> list[str]:
    parts = ["<h2>The theory beside the data</h2>"]
    parts += [f"<p>Inputs: {html.escape(found.trust.word)}.</p>"]
    parts += [f"<ul>{_items(found.trust.reasons)}</ul>"] if found.trust.reasons else []
    matched = found.matched
    if matched is None:
        return [*parts, f"<p>No matched problem: {html.escape(found.matched_reason)}.</p>"]
    rows = [
        (name, str(risk), f"{100 * matched.model_error[name]:.1f} %", str(matched.measured[name]))
        for name, risk in matched.predicted.items()
    ]
    title = "Risk over the variance of the target: step and readout on halves of the rows"
    told = html.escape(f"{matched.problem}")
    head = ("network", "predicted", "its model error", "measured")
    return [*parts, as_html(title, rows, head), f"<p><code>{told}</code></p>"]


def _picture(found: Advice) -> str:
    file = io.BytesIO()
    found.figure().savefig(file, format="png", dpi=110)
    return base64.b64encode(file.getvalue()).decode()
