"""What the documents tell people to type works."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from firststep import Comparison, Problem, compare
from firststep.cli import run
from tests.backends import needs_jax

ROOT = Path(__file__).parent.parent
SMALLER = {
    "1000": "40",
    "500": "30",
    "400": "40",
    "300": "40",
    "200": "40",
    "replicates=10": "replicates=2",
    "Workers(4)": "Workers(1)",
}


def blocks(page: str, language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```", (ROOT / page).read_text(), flags=re.S | re.M)
    return [text for kind, text in found if kind == language]


PAGES = (
    "README",
    "advise",
    "api",
    "estimators",
    "inputs",
    "inspect",
    "layers",
    "simulation",
    "structure",
    "sweeps",
)


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
        for large, small in SMALLER.items():
            code = code.replace(large, small)
        exec(compile(code, page, "exec"), scope)


HEADLINES = ["README.md", "docs/start.md"]
RUN_ONLY = ("dimension", "replicates", "seed")


def headlines(page: str) -> dict[str, tuple[dict[str, str], str]]:
    """The flags and the output that a page shows of predict, simulate and compare."""
    found = {}
    for command, output in pairwise(blocks(page, "")):
        words = shlex.split(command.replace("\\\n", " "))
        if words[1:2] in (["predict"], ["simulate"], ["compare"]) and words[1] not in found:
            names = [name.removeprefix("--") for name in words[2::2]]
            found[words[1]] = dict(zip(names, words[3::2], strict=True)), output
    return found


@lru_cache
def compared(flags: tuple[tuple[str, str], ...]) -> Comparison:
    given = dict(flags)
    replicates, seed = given.pop("replicates"), given.pop("seed")
    return compare(Problem(**given), replicates=replicates, seed=seed)


def without_rounding(text: str) -> list[str]:
    """The lines that are the same on every machine; "..." stands for lines that are left out."""
    told = ("residual", "numerical error", "  ...")
    return [line for line in text.splitlines() if not any(word in line for word in told)]


@pytest.mark.parametrize("page", HEADLINES)
def test_the_headlines_are_of_one_problem(page: str) -> None:
    """Otherwise a reader sees a theory that misses its simulation."""
    shown = headlines(page)
    assert set(shown) == {"predict", "simulate", "compare"}
    assert shown["simulate"][0] == shown["compare"][0]
    problems = [
        {name: value for name, value in flags.items() if name not in RUN_ONLY}
        for flags, _ in shown.values()
    ]
    assert problems[0] == problems[1] == problems[2]


@pytest.mark.parametrize("page", HEADLINES)
def test_the_headlines_are_what_is_printed(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = headlines(page)
    flags, output = shown["predict"]
    assert run(["predict", *(f"--{name}={value}" for name, value in flags.items())]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in without_rounding(output) if line not in printed] == []
    flags, output = shown["compare"]
    found = compared(tuple(flags.items()))
    assert output.splitlines() == str(found).splitlines()
    assert shown["simulate"][1].splitlines() == str(found.simulation).splitlines()


def test_the_problem_file_of_the_docs_is_valid(tmp_path: Path) -> None:
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
