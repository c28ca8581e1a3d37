"""The counters of benchmarks/house.py, on pieces of code with known answers."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

PATH = Path(__file__).parent.parent / "benchmarks" / "house.py"


@pytest.fixture(scope="module")
def house() -> Any:
    spec = importlib.util.spec_from_file_location("house", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["house"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def counts(house: Any, text: str) -> Any:
    found = house.Counts()
    found.add(text, "piece.py")
    return found


def test_calls(house: Any) -> None:
    found = counts(
        house, "f(1, 2, 3, 4, 5)\ng(1, 2, 3, 4, 5, 6)\nh(1, 2, 3, 4, 5, 6, 7, *x, a=1)\n"
    )
    assert (found.calls_many, found.calls_too_many) == (2, 1)
    assert found.longest_call == (8, "h in piece.py:3")


def test_parameters(house: Any) -> None:
    text = """
class A:
    def f(self, a: Any, b: Any | None, c: dict[str, Any], *args: Any, d: int = 1, **more: Any): ...
def g(x: Array, y: Float[Array, "d N"], z: NDArray[np.float64] | None, w: Float[Array, " d"]): ...
"""
    found = counts(house, text)
    assert (found.parameters, found.any_parameters) == (10, 4)
    assert (found.array_parameters, found.shapeless) == (4, 2)
    assert found.longest_signature == (6, "f in piece.py")


@pytest.mark.parametrize(
    ("annotation", "shape"),
    [
        ("int", None),
        ("Sequence[str]", None),
        ("Literal['a', 'b']", None),
        ("np.ndarray", False),
        ("Sequence[Array]", False),
        ('Float[Array, "n"] | None', True),
        ('tuple[Float[Array, "n"], Array]', False),
    ],
)
def test_shapes(house: Any, annotation: str, shape: bool | None) -> None:
    found = counts(house, f"def f(x: {annotation}): ...")
    assert (found.array_parameters, found.shapeless) == (shape is not None, shape is False)


def test_lengths(house: Any) -> None:
    body = "\n".join("    x = 1" for _ in range(60))
    found = counts(house, f"def f():\n{body}\n\ndef g():\n    x = 1\n" + "y = 1\n" * 400)
    assert (found.long_functions, found.longest_function) == (1, (61, "f in piece.py"))
    assert (found.long_files, found.lines) == (1, 464)
    assert counts(house, f"a = '{'x' * 94}'\nb = '{'x' * 95}'\n").long_lines == 1


def test_comments_and_tokens(house: Any) -> None:
    text = '"""About."""\n\n# why\nx = f(\n    1,\n    2,\n)  # also why\ny = 1  # noqa: E1\n'
    found = counts(house, text)
    assert found.comments == 2
    assert found.code_lines == 5
    assert found.tokens == 11  # x = f ( 1 , 2 ) y = 1
    assert counts(house, "x = f(1, 2)\ny = 1\n").tokens == found.tokens
    assert counts(house, "x = 1  # fmt: skip\n").formatter_off == 1


def test_hidden_imports(house: Any) -> None:
    text = (
        "import a\ndef f():\n    import jax\n    from b.c import d\n    import matplotlib.pyplot\n"
    )
    assert counts(house, text).hidden_imports == ["piece.py:4 b.c"]


def test_the_table_has_a_column_a_tree(house: Any, tmp_path: Path) -> None:
    for name, lines in (("one", 3), ("two", 5)):
        for folder in ("src", "tests"):
            (tmp_path / name / folder).mkdir(parents=True)
            (tmp_path / name / folder / "a.py").write_text("x = 1\n" * lines)
            (tmp_path / name / folder / "empty.py").write_text("")
    told = [line.split() for line in house.table([tmp_path / "one", tmp_path / "two"]).splitlines()]
    assert ["lines", "3", "5"] in told
    assert ["tokens", "of", "code", "9", "15"] in told
