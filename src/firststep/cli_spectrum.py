"""The command ``firststep spectrum``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from firststep.problem import Problem
from firststep.theory.spectrum.resolvent import MATRICES


def command(
    flags: Any,
    given: Callable[[Any], Mapping[str, Any]],
    bar: Any,
    show: Callable[[Any, bool], None],
) -> Callable[..., int]:
    """The command, from what all commands share: flags of the problem and how to read them, progress bar, how to print."""

    def spectrum(
        problem: Any = flags(),  # noqa: B008
        *,
        of: Annotated[str, Parameter(help="one of " + ", ".join(MATRICES))] = "weights",
        bulk: Annotated[
            str,
            Parameter(help="exact: the true network; isotropic: the spiked random features model"),
        ] = "exact",
        replicates: Annotated[str, Parameter(help="networks", allow_leading_hyphen=True)] = "4",
        seed: Annotated[
            str, Parameter(help="seed of all random numbers", allow_leading_hyphen=True)
        ] = "0",
        out: Annotated[
            Path | None,
            Parameter(help="draw it: a .png, .pdf or .svg file, with its data as .csv beside it"),
        ] = None,
        json: Annotated[
            bool, Parameter(help="print one JSON object and nothing else", negative=())
        ] = False,
    ) -> int:
        """Print the spectrum of the first layer, or of its kernel, after the step: predicted and simulated.

        Example: firststep spectrum --of weights --student tanh --teacher sin --alpha 2 --beta 1 --step 2 --dimension 500
        """
        from firststep.figures import spectra as drawing
        from firststep.spectrum import spectrum as compute

        if out is not None:
            drawing.prepare(out)
        question = Problem(**given(problem))
        with bar(json, "spectrum") as progress:
            found = compute(
                question, of, replicates=replicates, seed=seed, bulk=bulk, progress=progress
            )
        show(found, json)
        if out is not None:
            written = drawing.write(found, out)
            if not json:
                print("wrote " + " and ".join(os.fspath(path) for path in written))
        return 0

    spectrum.__annotations__["problem"] = flags
    return spectrum
