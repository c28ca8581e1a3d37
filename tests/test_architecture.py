"""The arrows between modules, what importing costs, and that the documents agree with the code."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import firststep
from firststep.problem import Problem

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "firststep"
# Each part may import only from the parts before it. theory and simulation share problem and numerics, never each other.
LAYERS = [
    {"errors", "typing"},
    {"registry"},
    {"numerics"},
    {"expressions"},
    {"parsing"},
    {"activations", "readouts"},
    {"teacher_terms"},
    {"problem", "inputs"},
    {"given_layer", "records"},
    {"results"},
    {"theory", "simulation"},
    {"estimators"},
    {"store"},
    {"compare"},
    {"spectrum"},
    {"sweep"},
    {"plots"},
    {"figures"},
    {"web"},
    {"cli_sweep", "cli_explore", "cli_features", "cli_spectrum"},
    {"cli", "__main__"},
]


def _part(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and node.module.split(".")[0] == "firststep"
        ):
            names = (
                [node.module.split(".")[1]]
                if "." in node.module
                else [alias.name for alias in node.names]
            )
            found.update(names)
        elif isinstance(node, ast.Import):
            found.update(
                a.name.split(".")[1] for a in node.names if a.name.startswith("firststep.")
            )
    return found


def test_data_flows_one_way() -> None:
    level = {part: number for number, layer in enumerate(LAYERS) for part in layer}
    for path in SOURCE.rglob("*.py"):
        part = _part(path)
        if part == "__init__":
            continue
        assert part in level, f"{path} has no place in the layers"
        for imported in _imports(path):
            if imported == part or imported not in level:
                continue
            assert level[imported] < level[part], f"{path.name} ({part}) imports {imported}"


def test_importing_is_light() -> None:
    program = "import firststep, sys; print([m for m in ('jax', 'matplotlib', 'sklearn', 'rich', 'cyclopts') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_public_names_exist_and_are_documented() -> None:
    api = (ROOT / "docs" / "api.md").read_text()
    for name in firststep.__all__:
        assert getattr(firststep, name) is not None
        assert f"`{name}`" in api or f"`{name}(" in api or name == "__version__", name


def test_modules_stay_small() -> None:
    for path in SOURCE.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 500, path


def test_notation_maps_every_field() -> None:
    notation = (ROOT / "docs" / "notation.md").read_text()
    for name in Problem.model_fields:
        assert f"`{name}`" in notation, name


def test_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == firststep.__version__
    assert firststep.__version__ in (ROOT / "CHANGELOG.md").read_text()
