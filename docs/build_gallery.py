"""Write docs/gallery.md and its pictures from a folder made by ``firststep reproduce``.

Also prints the table of verdicts.

firststep reproduce all --full --out figures
python docs/build_gallery.py figures
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from PIL import Image

from firststep.figures import catalogue

HERE = Path(__file__).parent
PICTURES = HERE / "images" / "gallery"
WIDTH = 1500  # pixels
INTRODUCTION = """# Gallery

Every figure is made by one command, which writes a PNG, a PDF, the data as CSV and a verdict on how
theory and simulation compare. Without `--full` it uses smaller networks and takes about a minute.
Theory is drawn as lines, simulation as points with one standard error. The verdicts are in
[validation.md](validation.md#figures).

This page is written by `docs/build_gallery.py`.
"""


def shrink(source: Path, target: Path) -> None:
    """A picture for the page: narrower, with a palette."""
    with Image.open(source) as picture:
        plain = picture.convert("RGB")
        if plain.width > WIDTH:
            plain = plain.resize(
                (WIDTH, round(plain.height * WIDTH / plain.width)), Image.Resampling.LANCZOS
            )
        plain.quantize(128, dither=Image.Dither.NONE).save(target, optimize=True)


def table(verdicts: list[dict[str, Any]]) -> str:
    """The verdicts in Markdown."""
    head = (
        "| figure | d | replicates | points | largest abs z | largest score (limit) "
        "| largest relative difference | verdict |"
    )
    lines = [head, "|" + " --- |" * 8]
    for each in verdicts:
        if each["points"]:
            scores = f"{each['largest_z']:.2f} | {each['largest_score']:.2f} ({each['limit']:.2f})"
            word = "agree" if each["agrees"] else f"{each['apart']} apart"
            found = f"{each['points']} | {scores} | {100 * each['largest_relative']:.2f} % | {word}"
        else:
            found = "0 | | | | no theory to compare"
        lines.append(
            f"| `{each['figure']}` | {each['dimension']} | {each['replicates']} | {found} |"
        )
    return "\n".join(lines)


def main() -> None:
    folder = Path(sys.argv[1])
    PICTURES.mkdir(parents=True, exist_ok=True)
    parts, verdicts = [INTRODUCTION], []
    for name in catalogue.NAMES:
        about = json.loads((folder / f"{name}.json").read_text())
        verdicts.append(about)
        shrink(folder / f"{name}.png", PICTURES / f"{name}.png")
        command = f"firststep reproduce {name}" + (" --full" if about["full"] else "")
        text = f"{about['source']}. {about['caption']}"
        parts.append(
            "## "
            f"{about['title']}\n\n{text}\n\n![{name}](images/gallery/{name}.png)\n\n```\n{command}\n```\n"
        )
    (HERE / "gallery.md").write_text("\n".join(parts))
    print(table(verdicts))


if __name__ == "__main__":
    main()
