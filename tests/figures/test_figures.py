"""The quick form of every figure: it is made, and its theory agrees with its simulation. Minutes:
``make test-slow``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from firststep.figures import catalogue
from firststep.figures.core import make

WITHOUT_THEORY = {
    "ba-fig2",
    "ba-rank-one",
    "steep-steps",
}  # trajectories, a rate that is proved up to constants, and steps that are simulated only


@pytest.mark.slow
@pytest.mark.parametrize("name", catalogue.NAMES)
def test_quick_form(name: str, tmp_path: Path) -> None:
    figure = catalogue.figure(name)
    made = make(figure, tmp_path, figure.quick)
    assert made.verdict.agrees, str(made.verdict)
    assert (made.verdict.points > 0) == (name not in WITHOUT_THEORY)
    assert all(path.stat().st_size > 100 for path in made.files)
