"""The figures of the house: how long its calls, signatures, functions and lines are, and how many.

    python benchmarks/house.py [TREE] [--base TREE]

prints one table for a tree (this one, if none is named), beside those of another one with --base.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

LONG_LINE, LONG_FUNCTION, LONG_FILE = 100, 60, 400
MANY, TOO_MANY = 5, 8  # positional arguments of a call: more than the first, as many as the second
# Packages that are loaded where they are used: heavy, or optional.
LAZY = {"jax", "matplotlib", "sklearn", "starlette", "uvicorn", "pandas", "xarray", "pyarrow"}
LAZY |= {"rich", "distributed", "dask", "scipy", "jaxtyping"}
# Annotations that say "an array" and nothing of its shape.
SHAPELESS = {"Array", "NDArray", "ndarray", "np.ndarray", "numpy.ndarray", "jax.Array"}
LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT}
LAYOUT |= {tokenize.ENCODING, tokenize.ENDMARKER}
PRAGMA = re.compile(r"#\s*(?:noqa|type:|fmt:|pragma|!)")  # for tools, not for readers

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Counts:
    """What is counted in a number of files; of what is long, the longest with its name."""

    calls_many: int = 0
    calls_too_many: int = 0
    longest_call: tuple[int, str] = (0, "-")
    parameters: int = 0
    any_parameters: int = 0
    array_parameters: int = 0
    shapeless: int = 0
    longest_signature: tuple[int, str] = (0, "-")
    long_lines: int = 0
    long_functions: int = 0
    longest_function: tuple[int, str] = (0, "-")
    long_files: int = 0
    longest_file: tuple[int, str] = (0, "-")
    lines: int = 0
    code_lines: int = 0
    comments: int = 0
    formatter_off: int = 0
    tokens: int = 0
    hidden_imports: list[str] = field(default_factory=list)

    @property
    def any_share(self) -> float:
        return self.any_parameters / max(self.parameters, 1)

    @property
    def shapeless_share(self) -> float:
        return self.shapeless / max(self.array_parameters, 1)

    @property
    def comment_share(self) -> float:
        return self.comments / max(self.code_lines, 1)

    def add(self, text: str, name: str) -> None:
        """Count one file."""
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                self._call(node, name)
            elif isinstance(node, Function):
                self._function(node, name)
        self.hidden_imports += [f"{name}:{line} {module}" for line, module in hidden_imports(tree)]
        self._text(text, tree, name)

    def _call(self, node: ast.Call, name: str) -> None:
        count = len(node.args)
        self.calls_many += count > MANY
        self.calls_too_many += count >= TOO_MANY
        called = ast.unparse(node.func).split("\n")[0][:40]
        self.longest_call = max(self.longest_call, (count, f"{called} in {name}:{node.lineno}"))

    def _function(self, node: Function, name: str) -> None:
        parameters = list(_parameters(node))
        for each in parameters:
            self.any_parameters += is_any(each.annotation)
            shape = has_shape(each.annotation)
            self.array_parameters += shape is not None
            self.shapeless += shape is False
        self.parameters += len(parameters)
        place = f"{node.name} in {name}"
        self.longest_signature = max(self.longest_signature, (len(parameters), place))
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        self.long_functions += length > LONG_FUNCTION
        self.longest_function = max(self.longest_function, (length, place))

    def _text(self, text: str, tree: ast.Module, name: str) -> None:
        lines = text.splitlines()
        self.lines += len(lines)
        self.long_lines += sum(len(line) > LONG_LINE for line in lines)
        self.long_files += len(lines) > LONG_FILE
        self.longest_file = max(self.longest_file, (len(lines), name))
        self.formatter_off += len(re.findall(r"#\s*fmt:\s*(?:skip|off)", text))
        docstrings = {(each.lineno, each.col_offset) for each in _docstrings(tree)}
        found = list(tokenize.generate_tokens(io.StringIO(text).readline))
        self.comments += sum(
            each.type == tokenize.COMMENT and not PRAGMA.match(each.string) for each in found
        )
        code = [each for each in found if each.type not in LAYOUT and each.start not in docstrings]
        self.code_lines += len(
            {line for each in code for line in range(each.start[0], each.end[0] + 1)}
        )
        # The comma before a closing bracket is there because lines are broken so: no token.
        self.tokens += len(code) - sum(
            first.string == "," and second.string in ")]}" for first, second in pairwise(code)
        )


def _parameters(node: Function) -> Iterator[ast.arg]:
    """All parameters but self and cls, *args and **kwargs among them."""
    given = node.args
    for each in (*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg):
        if each is not None and each.arg not in ("self", "cls"):
            yield each


def is_any(annotation: ast.expr | None) -> bool:
    """Whether an annotation says nothing: Any, or Any | None."""
    if annotation is None:
        return False
    return ast.unparse(annotation).replace("typing.", "") in ("Any", "Any | None", "Optional[Any]")


def has_shape(annotation: ast.expr | None) -> bool | None:
    """Whether an array has its shape in the annotation; None where no array can be seen."""
    if annotation is None:
        return None
    found: list[bool] = []
    inside: set[int] = set()  # names that belong to an array already counted
    for node in ast.walk(annotation):
        if id(node) in inside:
            continue
        if isinstance(node, ast.Subscript):
            is_bare = ast.unparse(node.value) in SHAPELESS
            is_shaped = (  # Float[Array, "d N"]
                isinstance(node.slice, ast.Tuple)
                and ast.unparse(node.slice.elts[0]) in SHAPELESS
                and isinstance(node.slice.elts[-1], ast.Constant)
            )
            if is_bare or is_shaped:
                found.append(is_shaped)
                inside.update(id(each) for each in ast.walk(node))
        elif isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in SHAPELESS:
            found.append(False)
            inside.update(id(each) for each in ast.walk(node))
    return all(found) if found else None


def hidden_imports(tree: ast.Module) -> list[tuple[int, str]]:
    """Imports inside functions, but for packages that are loaded late on purpose."""
    found = set()
    for function in ast.walk(tree):
        if not isinstance(function, Function):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or "."]
            else:
                continue
            found |= {(node.lineno, name) for name in names if name.split(".")[0] not in LAZY}
    return sorted(found)


def _docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | Function) and node.body:
            value = getattr(node.body[0], "value", None)
            if isinstance(value, ast.Constant) and ast.get_docstring(node, clean=False) is not None:
                yield value


def counted(folder: Path) -> Counts:
    """The counts of all Python files below a folder."""
    counts = Counts()
    for path in sorted(folder.rglob("*.py")):
        counts.add(path.read_text(encoding="utf-8"), str(path.relative_to(folder)))
    return counts


def _longest(pair: tuple[int, str]) -> str:
    return f"{pair[0]}: {pair[1]}"


ROWS: tuple[tuple[str, Callable[[Counts], str]], ...] = (
    (f"calls with more than {MANY} positional arguments", lambda c: f"{c.calls_many}"),
    (f"calls with {TOO_MANY} or more", lambda c: f"{c.calls_too_many}"),
    ("  the longest", lambda c: _longest(c.longest_call)),
    ("parameters", lambda c: f"{c.parameters}"),
    ("  of them bare Any", lambda c: f"{c.any_parameters} ({c.any_share:.1%})"),
    ("  arrays without a shape", lambda c: f"{c.shapeless} ({c.shapeless_share:.0%} of arrays)"),
    ("longest signature", lambda c: _longest(c.longest_signature)),
    (f"lines over {LONG_LINE} columns", lambda c: f"{c.long_lines}"),
    (f"functions over {LONG_FUNCTION} lines", lambda c: f"{c.long_functions}"),
    ("  the longest", lambda c: _longest(c.longest_function)),
    (f"files over {LONG_FILE} lines", lambda c: f"{c.long_files}"),
    ("  the longest", lambda c: _longest(c.longest_file)),
    ("comments over lines of code", lambda c: f"{c.comment_share:.1%}"),
    ("formatter switched off", lambda c: f"{c.formatter_off}"),
    ("imports hidden in functions", lambda c: f"{len(c.hidden_imports)}"),
    ("lines", lambda c: f"{c.lines}"),
    ("  of code", lambda c: f"{c.code_lines}"),
    ("tokens of code", lambda c: f"{c.tokens}"),
)
TEST_ROWS = tuple(row for row in ROWS if row[0] in ("lines", "  of code", "tokens of code"))


def table(trees: list[Path]) -> str:
    """The table, a column a tree."""
    lines = [["", *(f"{tree}" for tree in trees)]]
    for folder, rows in (("src", ROWS), ("tests", TEST_ROWS)):
        counts = [counted(tree / folder) for tree in trees]
        lines.append([folder, *("" for _ in trees)])
        lines += [[f"  {words}", *(value(each) for each in counts)] for words, value in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    own = Path(__file__).resolve().parent.parent
    parser.add_argument("tree", type=Path, nargs="?", default=own)
    parser.add_argument("--base", type=Path, help="another tree, shown first")
    parser.add_argument("--hidden", action="store_true", help="name the hidden imports")
    given = parser.parse_args()
    print(table([*([given.base] if given.base else []), given.tree]))
    if given.hidden:
        print("\n".join(counted(given.tree / "src").hidden_imports))


if __name__ == "__main__":
    main()
