"""The arrows between modules, what importing costs, and that the documents agree with the code."""

from __future__ import annotations

import ast
import contextlib
import graphlib
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import firststep
from firststep.problem import Problem
from tests.backends import needs_jax

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "firststep"
# What a folder holds, from the ground floor to the roof. A file or a folder may import only from
# the floors below its own, wherever in the file the import stands. "" is the package itself.
# theory and simulation share problem and numerics, never each other.
ROOMS: dict[str, list[set[str]]] = {
    "": [
        {"errors", "handwriting", "typing", "writing"},
        {"registry", "checks", "records", "numerics", "readouts"},
        {"evaluation", "losses", "label_laws", "noise_laws"},
        {"expressions"},
        {"kinks"},
        {"parsing"},
        {"activations"},
        {"teacher_terms", "bayes", "label_faults", "inputs"},
        {"structure"},
        {"data_faults", "fields"},
        {"problem"},
        {"given_layer"},
        {"results"},
        {"theory", "simulation", "trained"},
        {"estimators"},
        {"store"},
        {"compare"},
        {"spectrum", "layer_check"},
        {"predicting"},
        {"sweep"},
        {"curves", "plots"},
        {"figures", "advice"},
        {"web"},
        {"cli"},
        {"__main__"},
    ],
    "inputs": [{"files", "law"}, {"data", "laws", "overlaps"}, {"structured"}, {"texts"}],
    "numerics": [
        {"in_parts", "threads", "devices", "pages", "sample_covariance"},
        {"library"},
        {"batches", "linear_algebra", "quadrature", "special"},
        {"newton", "neuron_moments", "crossings", "chebyshev", "hinge"},
    ],
    "theory": [
        {"student", "binary", "medium", "teacher"},
        {"norms", "channel", "terms"},
        {"step"},
        {"closed_forms", "loss_report", "loss_fixed_point", "loss_numbers"},
        {"terms_channel"},
        {"one_step", "given_layer"},
        {"spectrum"},
    ],
    "theory/closed_forms": [{"random_features", "bound"}, {"small_step"}, {"weights"}],
    "theory/one_step": [
        {"orders"},
        {"question", "free_functions", "labels", "system", "least_error", "words"},
        {"step_noise", "term_labels", "typed"},
        {"nodes"},
        {"moments", "resolvent", "triangles", "term_doubts"},
        {"level_response", "level_kicks", "term_mean"},
        {"response", "mean"},
        {"term_risk", "projection"},
        {"fit", "risk"},
        {"model_error", "starts"},
        {"loss_fit"},
        {"solve", "differentiable"},
        {"solve_loss", "error_split", "finite_size"},
        {"functions", "in_words"},
        {"prediction", "loss_response"},
        {"loss_gradient"},
        {"predict"},
        {"optimum"},
    ],
    "theory/given_layer": [
        {"directions", "nodes", "matrices", "missing"},
        {"layer"},
        {"fit", "loss_fit"},
        {"risk"},
        {"prediction"},
        {"predict"},
    ],
    "theory/spectrum": [{"bare"}, {"resolvent"}, {"outliers"}, {"law"}],
    "simulation": [
        {"randomness", "kinds"},
        {"backends", "design"},
        {"data"},
        {"weights"},
        {"fit"},
        {"models"},
        {"running"},
    ],
    "simulation/data": [{"teachers"}, {"rows"}],
    "simulation/weights": [{"draw", "optimizers", "whitening"}],
    "simulation/fit": [{"features", "ridge", "geometry"}, {"convex", "left_out"}, {"readout"}],
    "simulation/models": [{"observables"}, {"measuring"}, {"baselines", "network"}],
    "simulation/running": [
        {"workers", "measures"},
        {"diagnosis"},
        {"options"},
        {"execute"},
        {"simulate", "given"},
        {"layer"},
        {"spectra"},
    ],
    "estimators": [
        {"class_fits", "kernel", "targets", "weighted_ridge"},
        {"ridge_path", "rows", "softmax_ridge"},
        {"fits"},
        {"class_search", "loss_fit", "training", "redraws"},
        {"redraw_search"},
        {"base", "redrawn"},
        {"redrawing", "redrawn_classes"},
        {"classifier", "learners"},
    ],
    "trained": [
        {"files", "noise", "outliers", "singular"},
        {"tensors", "noise_fit"},
        {"scaling"},
        {"bulk"},
        {"look"},
        {"inspection"},
    ],
    "advice": [
        {"intervals", "ridge", "sources"},
        {"direction", "measured"},
        {"tables"},
        {"learning_curve", "matched"},
        {"recommended"},
        {"verdict"},
        {"pictures"},
        {"report"},
        {"record"},
        {"asking"},
    ],
    "store": [{"record", "pages"}, {"database"}, {"rescue"}],
    "sweep": [
        {"grid", "units"},
        {"asked", "executors"},
        {"engine", "experiment"},
        {"table", "watching"},
        {"run"},
    ],
    "web": [
        {"checked"},
        {"pool", "protocol", "words"},
        {"meaning", "pages", "presets"},
        {"asked"},
        {"about", "curves", "simulations", "single_file", "takeaway"},
        {"answers", "server"},
        {"recorded"},
        {"export", "worker"},
    ],
    "cli": [
        {"attach", "flags", "output", "qr_code"},
        {"curves"},
        {
            "advise",
            "baselines",
            "compare",
            "demo",
            "diagnose",
            "explore",
            "features",
            "inspect",
            "models",
            "optimize",
            "predict",
            "reproduce",
            "simulate",
            "spectrum",
            "sweep",
        },
        {"app"},
        {"entry"},
        {"__main__"},
    ],
}
WRONG: set[tuple[str, str]] = set()  # arrows that point the wrong way and are to be mended


def _modules() -> dict[str, Path]:
    """Every module but the front doors of folders, by its place in the package."""
    return {
        path.relative_to(SOURCE).with_suffix("").as_posix(): path
        for path in sorted(SOURCE.rglob("*.py"))
        if path.name != "__init__.py"
    }


def _place(name: str) -> str | None:
    """Where ``firststep.a.b`` is: a/b, if that is a file or a folder of the package."""
    place = SOURCE.joinpath(*name.split(".")[1:])
    known = place.with_suffix(".py").exists() or (place / "__init__.py").exists()
    return place.relative_to(SOURCE).as_posix() if known and place != SOURCE else None


def _imports(path: Path) -> set[str]:
    """What a file imports of the package when it runs, at its top or inside a function."""
    names: list[str | None] = []
    tree = ast.parse(path.read_text())
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in (node for node in ast.walk(tree) if node not in typing_only):
        if isinstance(node, ast.Import):
            names += [_place(a.name) for a in node.names if a.name.startswith("firststep.")]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level or module.split(".")[0] == "firststep":
                assert not node.level, f"{path}: imports are written in full"
                names += [_place(f"{module}.{a.name}") or _place(module) for a in node.names]
    return {name for name in names if name is not None}


def _floors(room: str) -> dict[str, int]:
    return {name: floor for floor, names in enumerate(ROOMS[room]) for name in names}


def test_every_file_has_its_floor() -> None:
    for room in ROOMS:
        folder = SOURCE / room
        there = {path.stem for path in folder.glob("*.py")} - {"__init__"}
        there |= {path.parent.name for path in folder.glob("*/__init__.py")}
        assert there == set(_floors(room)), room or "firststep"
    for room in ("theory", "simulation"):
        for folder in (SOURCE / room).glob("*/__init__.py"):
            assert folder.parent.relative_to(SOURCE).as_posix() in ROOMS


def test_data_flows_one_way() -> None:
    wrong = set()
    for name, path in _modules().items():
        for imported in _imports(path):
            parts, others = name.split("/"), imported.split("/")
            shared = 0
            while shared < min(len(parts), len(others)) and parts[shared] == others[shared]:
                shared += 1
            room = "/".join(parts[:shared])
            if room not in ROOMS or shared in (len(parts), len(others)):
                continue  # a room without floors; or the front door of one's own folder
            floors = _floors(room)
            if floors[others[shared]] >= floors[parts[shared]]:
                wrong.add((name, imported))
    assert wrong == WRONG


def test_no_import_goes_round_in_a_circle() -> None:
    """An import inside a function counts: it would hide the circle, not break it."""
    arrows = {
        name: {other for other in _imports(path) if (name, other) not in WRONG and other != name}
        for name, path in _modules().items()
    }
    assert list(graphlib.TopologicalSorter(arrows).static_order())


def test_importing_is_light() -> None:
    program = (
        "import firststep, sys; heavy = ('jax', 'matplotlib', 'sklearn', 'rich', 'cyclopts'); "
        "print([name for name in heavy if name in sys.modules])"
    )
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


@needs_jax  # one of the modules is the theory in JAX
@pytest.mark.parametrize("page", ["theory.md", "spectra.md", "layers.md"])
def test_pages_name_what_there_is(page: str) -> None:
    """Every `room.module.name` of a page on the theory is a name of the code."""
    text = (ROOT / "docs" / page).read_text()
    rooms = r"(?:theory\.)?(?:one_step|given_layer|spectrum|closed_forms|student|step)"
    for name in re.findall(rf"`({rooms}(?:\.\w+)+)`", text):
        parts = name.removeprefix("theory.").split(".")
        found = importlib.import_module("firststep.theory")
        for part in parts:
            with contextlib.suppress(ModuleNotFoundError):
                importlib.import_module(f"{found.__name__}.{part}")
            assert hasattr(found, part), f"{page}: {name}"
            found = getattr(found, part)


def test_words_of_the_theory_are_in_the_code() -> None:
    """The last table of notation.md: every word of it is a field or a name in theory/."""
    notation = (ROOT / "docs" / "notation.md").read_text()
    table = notation.split("## Inside the theory")[1]
    source = "\n".join(path.read_text() for path in (SOURCE / "theory").rglob("*.py"))
    source += (SOURCE / "numerics" / "quadrature.py").read_text()
    for row in table.splitlines():
        if row.startswith("| `"):
            for word in re.findall(r"`(\w+)`", row.split("|")[1]):
                assert re.search(rf"\b{word}\b", source), word


def test_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == firststep.__version__
    assert firststep.__version__ in (ROOT / "CHANGELOG.md").read_text()
