"""The notebooks of examples/ run in a fresh kernel, and the outputs kept in them are what this
library gives.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import pytest

from tests.backends import needs_jax

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "examples"
NAMES = (
    "a_sweep_on_a_cluster",
    "classification",
    "reproduce_a_figure",
    "tour",
    "your_own_activation",
    "your_own_data",
)
# Twice the others, or what the others do too.
SLOW = ("a_sweep_on_a_cluster", "classification", "reproduce_a_figure", "your_own_activation")
NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?")
SOMEWHERE = re.compile(
    r"(?<![\w.~])(?:/(?:home|root|tmp|usr|var|opt|work|mnt|Users|private)/|[A-Z]:\\)"
)


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def outputs(notebook: Any) -> list[Any]:
    return [
        output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs
    ]


def execute(notebooks: Sequence[Path], folder: Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own: what Jupyter warns about is not our business, and its event loops
    end with it. Each notebook has a fresh kernel.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    return subprocess.run(
        [sys.executable, FOLDER / "execute.py", *notebooks, "--out", folder],
        env={**environment, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=1200,
    )


def texts(notebook: Any) -> list[str]:
    """What the code cells print, without how closely equations were solved."""
    found = []
    for cell in notebook.cells:
        printed = [
            o.text if o.output_type == "stream" else o.data.get("text/plain", "")
            for o in cell.get("outputs", ())
        ]
        found.append(
            "\n".join(
                line for text in printed for line in text.splitlines() if "residual" not in line
            )
        )
    return found


def differences(text: str, other: str) -> list[str]:
    """Words that are not the same, and numbers that are not to about two per cent or one and a half
    of their last digits.
    """
    words, others = (" ".join(NUMBER.sub("#", each).split()) for each in (text, other))
    if words != others:
        return [f"{words!r} became {others!r}"]
    pairs = zip(NUMBER.findall(text), NUMBER.findall(other), strict=True)
    return [f"{one} became {two}" for one, two in pairs if not close(one, two)]


def close(one: str, two: str) -> bool:
    first, second = float(one), float(two)
    largest = max(abs(first), abs(second))
    if "." not in one and "e" not in one:
        return abs(first - second) <= 0.01 * largest  # counts are the same
    digits, _, power = one.partition("e")
    last = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
    return largest < 1e-9 or abs(first - second) <= 0.02 * largest + 1.5 * last


def test_numbers_are_compared_to_their_digits() -> None:
    assert not differences(
        "risk 0.0830 ± 0.0016, 8 points, error 2e-12",
        "risk  0.0831 ± 0.0017, 8 points, error 7e-11",
    )
    assert differences("risk 0.0830 ± 0.0016", "risk 0.0900 ± 0.0016") == ["0.0830 became 0.0900"]
    assert differences("8 points", "9 points") == ["8 became 9"]
    assert differences("8 points", "8 curves")


def test_every_notebook_is_known() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == sorted(NAMES)
    for page in (FOLDER / "README.md", ROOT / "docs" / "notebooks.md"):
        for name in NAMES:
            assert f"{name}.ipynb" in page.read_text(), f"{page.name} does not name {name}.ipynb"


@pytest.mark.parametrize("name", NAMES)
def test_what_is_kept(name: str) -> None:
    path = FOLDER / f"{name}.ipynb"
    notebook = read(path)
    nbformat.validate(notebook)
    assert path.stat().st_size < 500_000
    assert notebook.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    kinds = [cell.cell_type for cell in notebook.cells]
    assert 8 <= len(kinds) <= 20
    assert notebook.cells[0].source.startswith("# ")
    for before, kind in itertools.pairwise(kinds):
        assert kind == "markdown" or before == "markdown", "words come before code"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), (
        "not executed from the start: make notebooks"
    )
    assert not any(cell.metadata for cell in notebook.cells)
    kept = outputs(notebook)
    assert any("image/png" in output.get("data", ()) for output in kept)
    assert not [
        output for output in kept if output.output_type == "error" or output.get("name") == "stderr"
    ]
    shown = [
        text
        for o in kept
        for kind, text in o.get("data", {"text": o.get("text")}).items()
        if kind != "image/png"
    ]
    written = "\n".join([*shown, *(cell.source for cell in notebook.cells)])
    assert "Traceback" not in written
    assert "Warning" not in written
    for place in (ROOT, Path(sys.prefix), Path(tempfile.gettempdir()), Path.home()):
        assert place == Path("/") or f"{place}{os.sep}" not in written, place
    assert not SOMEWHERE.search(written), SOMEWHERE.search(written)


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name: str) -> None:
    words = "\n".join(
        cell.source for cell in read(FOLDER / f"{name}.ipynb").cells if cell.cell_type == "markdown"
    )
    for target in re.findall(r"\]\(([^)#]+)\)", words):
        assert "://" in target or (FOLDER / target).exists(), target


def uses_jax(name: str) -> bool:
    cells = [cell for cell in read(FOLDER / f"{name}.ipynb").cells if cell.cell_type == "code"]
    return any("jax" in cell.source for cell in cells)


def to_run(name: str) -> Any:
    """A notebook as a parameter; one whose code uses JAX needs it."""
    marks = [needs_jax] if uses_jax(name) else []
    return pytest.param(name, marks=[*marks, *([pytest.mark.slow] if name in SLOW else [])])


class Executed(NamedTuple):
    """Where the notebooks are that ran to their end, and what was said of the others."""

    folder: Path
    complaints: str


@pytest.fixture(scope="module")
def executed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Executed:
    """Those that are asked for, one after the other; one that fails does not stop the rest."""
    asked = [item.callspec.params["name"] for item in request.session.items if runs(item)]
    has_jax = find_spec("jax") is not None
    names = [name for name in asked if has_jax or not uses_jax(name)]
    folder = tmp_path_factory.mktemp("notebooks")
    done = execute([FOLDER / f"{name}.ipynb" for name in names], folder)
    assert done.returncode == (len(list(folder.iterdir())) < len(names)), done.stderr
    return Executed(folder, done.stderr)


def runs(item: Any) -> bool:
    return item.path == Path(__file__) and item.originalname == "test_it_runs_and_says_what_is_kept"


@pytest.mark.parametrize("name", [to_run(name) for name in NAMES])
def test_it_runs_and_says_what_is_kept(name: str, executed: Executed) -> None:
    path = FOLDER / f"{name}.ipynb"
    if not (executed.folder / path.name).exists():
        pytest.fail(executed.complaints[-6000:], pytrace=False)
    kept, fresh = read(path), read(executed.folder / path.name)
    complaints = [output.text for output in outputs(fresh) if output.get("name") == "stderr"]
    assert not complaints, f"{path.name} writes to stderr: {complaints}"
    found = [
        each
        for texts_ in zip(texts(kept), texts(fresh), strict=True)
        for each in differences(*texts_)
    ]
    assert not found, (
        f"{path.name} says something else now (make notebooks, and read what it says): {found}"
    )
    pictures = [
        sum("image/png" in output.get("data", ()) for output in outputs(each))
        for each in (kept, fresh)
    ]
    assert pictures[0] == pictures[1]


def test_a_cell_that_fails_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "wrong.ipynb"
    cells = [
        nbformat.v4.new_code_cell("import firststep"),
        nbformat.v4.new_code_cell('firststep.activation("tnh")'),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    (tmp_path / "out").mkdir()
    done = execute([path], tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr.startswith("wrong.ipynb: ")
    assert 'firststep.activation("tnh")' in done.stderr
    assert "InvalidParameter: activation must be a named activation" in done.stderr
    assert "\x1b" not in done.stderr
    assert not list((tmp_path / "out").iterdir())
