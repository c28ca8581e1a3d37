"""``firststep inspect``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import firststep
from firststep.cli.flags import Json, several, switch
from firststep.cli.output import Bar, show_and_draw
from firststep.figures import inspected as drawing


def inspect(
    weights: Annotated[
        str,
        Parameter(
            help="a .safetensors, .npz or .npy file, or one tensor of it, as "
            "model.safetensors:fc1.weight"
        ),
    ],
    *,
    before: Annotated[
        str | None, Parameter(help="the same before training: W - W0 is looked at too")
    ] = None,
    layer: Annotated[
        list[str] | None, several("names of matrices, or patterns with *; default: all")
    ] = None,
    flatten: Annotated[
        bool, switch("look at tensors of more axes too, the first axis against all others")
    ] = False,
    out: Annotated[
        Path | None,
        Parameter(
            help="draw the first matrices: a .png, .pdf or .svg file, with its data as .csv beside "
            "it; or the whole table as .csv"
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Look into a trained model: of every matrix the bulk, what stands out of it with error bars,
    and what training changed. Pairs of LoRA factors are looked at as the change they are.

    Example: firststep inspect model.safetensors --before init.safetensors --layer fc1.weight --out
    fc1.png
    """
    if out is not None:
        drawing.prepare(out)
    with Bar(json, "inspect") as bar:
        found = firststep.inspect(weights, before, layer=layer, flatten=flatten, progress=bar)
    show_and_draw(found, json, out, partial(drawing.write, found))
    return 0
