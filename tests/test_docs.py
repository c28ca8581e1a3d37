"""What the documents tell people to type works."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from firststep.cli import run
from tests.backends import needs_jax

ROOT = Path(__file__).parent.parent
SMALLER = [("1000", "40"), ("500", "30"), ("replicates=20", "replicates=2")]


def blocks(page: str, language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```", (ROOT / page).read_text(), flags=re.S | re.M)
    return [text for kind, text in found if kind == language]


PAGES = ("README", "api", "estimators", "inputs", "layers", "simulation", "sweeps")


def with_examples(page: str) -> Any:
    """A page as a parameter; one whose examples use JAX needs it."""
    path = f"{page}.md" if page == "README" else f"docs/{page}.md"
    marks = [needs_jax] if any("jax" in code for code in blocks(path, "python")) else []
    return pytest.param(path, id=page, marks=marks)


@pytest.mark.parametrize("page", [with_examples(page) for page in PAGES])
def test_python_examples_run(page: str) -> None:
    import firststep

    scope: dict[str, object] = {"firststep": firststep}
    scope["problem"] = firststep.Problem(student="tanh", teacher="sin", alpha=3, beta=1)
    found = blocks(page, "python")
    assert found
    for code in found:
        for large, small in SMALLER:
            code = code.replace(large, small)
        exec(compile(code, page, "exec"), scope)


def test_the_command_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    commands = [
        block for block in blocks("README.md", "") if block.startswith("firststep simulate")
    ]
    assert len(commands) == 1
    arguments = shlex.split(commands[0].replace("\\\n", " "))[1:]
    smaller = [{"1000": "30", "20": "2"}.get(word, word) for word in arguments]
    assert run(smaller) == 0
    printed = capsys.readouterr().out
    shown = next(
        block for block in blocks("README.md", "") if block.startswith("network: tanh learns sin")
    )
    for line in shown.splitlines()[1:]:
        assert line[:50] in printed  # the words of the table, not its numbers


def test_the_problem_file_of_the_docs_is_valid(tmp_path: Path) -> None:
    from firststep import Problem

    path = tmp_path / "problem.toml"
    path.write_text(blocks("docs/api.md", "toml")[0])
    assert len(Problem.from_toml(path).ridges) == 13


def test_the_experiments_of_the_docs_are_valid(tmp_path: Path) -> None:
    from importlib.resources import files

    from firststep import Experiment

    path = tmp_path / "experiment.toml"
    for text in (
        blocks("docs/sweeps.md", "toml")[0],
        files("firststep.sweep").joinpath("example.toml").read_text(),
    ):
        path.write_text(text)
        assert len(Experiment.from_toml(path).points) in (9 * 9 * 2 * 2, 9 * 2 * 2)


def test_every_link_leads_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_no_page_is_unfinished() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        assert "@@" not in page.read_text(), page


def test_the_documents_build_without_a_warning(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-E",
        "-W",
        "-n",
        "-d",
        tmp_path / "trees",
        ROOT / "docs",
        tmp_path / "html",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "html" / "theory.html").exists()
