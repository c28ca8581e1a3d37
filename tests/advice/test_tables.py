"""Tables of every kind become the same rows; what cannot be learned from is said in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from firststep import InvalidParameter, NotEnoughMemory
from firststep.advice import sources, tables
from firststep.advice.tables import make_plan, read_table

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((30, 3)).round(6)
PRICE = (ROWS @ [1.0, 2.0, 3.0]).round(6)
FRAME = pd.DataFrame(ROWS, columns=["a", "b", "c"]).assign(price=PRICE)


def read(source: Any, y: Any = None, target: Any = None, drop: Any = (), **options: Any) -> Any:
    plan = make_plan(source, y, target, drop, rows=options.get("rows"), width=16)
    return read_table(plan, seed=options.get("seed", 0))


def written(path: Path, kind: str) -> Path:
    made = path / f"table.{kind}"
    if kind == "npy":
        np.save(made, FRAME.to_numpy())
    elif kind == "parquet":
        FRAME.to_parquet(made)
    else:
        FRAME.to_csv(made, index=False)
    return made


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy", "frame", "array"])
def test_every_kind_gives_the_same_rows(kind: str, tmp_path: Path) -> None:
    source: Any = {"frame": FRAME, "array": FRAME.to_numpy()}.get(kind)
    found = read(written(tmp_path, kind) if source is None else source, target=-1)
    assert np.allclose(found.inputs, ROWS)
    assert np.allclose(found.target, PRICE)
    assert found.total_rows == 30
    if kind not in ("npy", "array"):
        assert found.columns == ("a", "b", "c")
        assert found.target_name == "price"


def test_the_target_by_name_by_place_and_by_itself() -> None:
    by_name, by_place = read(FRAME, target="price"), read(FRAME, target="4")
    alone = read(FRAME[["a", "b", "c"]], FRAME["price"])
    for each in (by_place, alone):
        assert np.array_equal(each.inputs, by_name.inputs)
        assert np.array_equal(each.target, by_name.target)
    assert alone.target_name == "price"
    assert read(FRAME, target=1, drop="b,-1").columns == ("c",)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_with_quotes_blank_lines_and_no_header(delimiter: str, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    lines = [delimiter.join([f'"{a}"', f" {b} ", "1e0", f"{c}"]) for a, b, c in ROWS]
    path.write_text("\n\n".join(lines) + "\n\n")
    found = read(path, target=4)
    assert np.allclose(found.inputs, ROWS[:, :2])  # the third is constant
    assert found.notes == ("constant and left out: column 3",)


def test_pieces_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for the rows, and not for which of them are drawn."""
    path = written(tmp_path, "csv")
    whole = read(path, target="price", rows=12)
    assert len(whole.target) == 12
    assert "12 of the 30 rows" in whole.notes[0]
    monkeypatch.setattr(sources, "CHUNK", 7)
    pieces = read(path, target="price", rows=12)
    assert np.array_equal(whole.inputs, pieces.inputs)
    assert not np.array_equal(whole.inputs, read(path, target="price", rows=12, seed=1).inputs)


def test_a_sample_is_drawn_evenly() -> None:
    """Every row has the same chance, first or last."""
    numbers = np.column_stack([np.arange(60.0), np.arange(60.0) % 7])
    counts = np.zeros(60)
    for seed in range(400):
        counts[read(numbers, target=2, rows=20, seed=seed).inputs[:, 0].astype(int)] += 1
    spread = np.sqrt(400 / 3 * 2 / 3)
    assert np.abs(counts - 400 / 3).max() < 4.5 * spread
    assert abs(counts[:30].sum() - counts[30:].sum()) < 4 * spread * np.sqrt(60)


def test_copies_and_leaks_are_said() -> None:
    made = FRAME.assign(again=FRAME["a"], euros=1.1 * PRICE - 3, one=1.0)
    found = read(made, target="price")
    assert found.columns == ("a", "b", "c", "euros")
    assert found.notes == ("constant and left out: one", "copies and left out: again (of a)")
    assert found.warnings[0].startswith("euros is a copy of the target (correlation 1.00000)")
    assert not read(FRAME, target="price").warnings


def test_two_values_are_a_note() -> None:
    found = read(ROWS, PRICE > 0)
    assert set(found.target) == {0.0, 1.0}
    assert "OneStepClassifier" in found.notes[0]


def _with(value: Any, column: str = "b") -> pd.DataFrame:
    made = FRAME.astype(object) if isinstance(value, str) else FRAME.copy()
    made.loc[[3, 4], column] = value
    return made


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "missing": (
        lambda: read(_with(np.nan), target="price"),
        "X must be finite numbers; got missing values: 2 in b (leave those rows out, or fill",
    ),
    "missing target": (lambda: read(_with(np.nan, "price"), target="price"), "2 in price"),
    "infinite": (lambda: read(_with(np.inf), target="price"), "infinite values: 2 in b"),
    "texts": (
        lambda: read(_with("red").assign(d="x"), target="price"),
        "got texts in b, d, such as red in b (drop=b,d, or encode them as numbers",
    ),
    "texts as target": (
        lambda: read(_with("red", "price"), target="price"),
        "target must be numbers in price; got texts in it, such as red (two classes",
    ),
    "texts as y": (lambda: read(ROWS, ["a", "b"] * 15), "y must be numbers; got texts such as"),
    "dates": (
        lambda: read(FRAME.assign(day=pd.Timestamp("2020-01-01")), target="price"),
        "texts in day",
    ),
    "few rows": (lambda: read(FRAME[:9], target="price"), "at least 10 rows; got 9"),
    "three axes": (lambda: read(np.ones((20, 3, 2)), target=1), "shape 20 x 3 x 2 (reshape"),
    "one axis": (lambda: read(np.ones(20), target=1), "shape 20"),
    "constant target": (
        lambda: read(FRAME.assign(price=2.0), target="price"),
        "target must be a column that varies: price; got one value, 2",
    ),
    "nothing varies": (lambda: read(np.c_[np.ones(20), np.arange(20)], target=2), "not constant"),
    "no target": (lambda: read(FRAME), "the last columns are a, b, c, price"),
    "another target": (lambda: read(FRAME, target="prize"), "did you mean price?"),
    "no such place": (lambda: read(FRAME, target=5), "the place of a column, from 1 to 4"),
    "place zero": (lambda: read(FRAME, target=0), "the place of a column, from 1 to 4"),
    "target twice": (lambda: read(FRAME, PRICE, target="price"), "left out where y is given"),
    "target dropped": (
        lambda: read(FRAME, target="price", drop="price"),
        "drop must be columns other than the target",
    ),
    "all dropped": (lambda: read(FRAME, target="price", drop="a,b,c"), "at least one column"),
    "another length": (lambda: read(ROWS, PRICE[:-1]), "y must be 30 numbers"),
    "labels in columns": (lambda: read(ROWS, ROWS), "y must be one number for every row"),
    "complex": (lambda: read(ROWS + 1j, PRICE), "X must be a table of numbers"),
    "masked": (lambda: read(np.ma.masked_array(ROWS), PRICE), "X must be a table of numbers"),
    "same names": (
        lambda: read(FRAME.rename(columns={"a": "b"}), target="price"),
        "names of their own; got b more than once",
    ),
    "huge": (lambda: read(FRAME * 1e200, target="price"), "numbers up to 1e100"),
    "no file": (lambda: read("/nowhere/table.csv", target=1), "a file that exists"),
    "no table": (lambda: read("table.xlsx", target=1), "type .csv, .parquet, .npy"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_end_in_one_line(case: str) -> None:
    make, words = BAD[case]
    with pytest.raises(InvalidParameter) as caught:
        make()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("csv", "", "its first line is empty"),
        ("csv", "a,b\n1,2\n3\n", "got 1 in line 3 of"),
        ("csv", "a,b\n" + "1,2\n,4\n" * 9, "missing values: 9 in a"),
        ("csv", "a,b\n" + "1,2\nx y,4\n" * 9, "texts in a, such as x y in a"),
        ("csv", "a,b\n" + "1,2\n2,inf\n" * 9, "infinite values: 9 in b"),
        ("csv", "a,b\n", "at least 10 rows; got 0"),
        ("npy", "no array", "a valid .npy file"),
        ("parquet", "no table", "a valid .parquet file"),
    ],
)
def test_bad_files_end_in_one_line(kind: str, text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / f"bad.{kind}"
    path.write_text(text)
    with pytest.raises(InvalidParameter) as caught:
        read(path, target=2)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_memory_is_known_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan(FRAME, None, "price", (), rows=None, width=16)
    assert str(plan).startswith("the frame: 30 rows x 3 columns and price; at most 30 rows and")
    wide = make_plan(np.empty((100_000, 500)), None, 1, (), rows=None, width=256)
    assert wide.most_rows == 20_000
    assert 0.2e9 < wide.memory < 2e9
    wider = make_plan(np.empty((10_000, 5000)), None, 1, (), rows=None, width=256)
    assert wider.most_rows == 4000

    class Small:
        def __init__(self, name: str) -> None: ...

        def memory_limit(self) -> int:
            return 10**6

    monkeypatch.setattr(tables, "make_backend", Small)
    with pytest.raises(NotEnoughMemory, match="rows must be few enough"):
        make_plan(np.empty((100_000, 500)), None, 1, (), rows=None, width=256)


def test_a_long_file_needs_no_more_memory(tmp_path: Path) -> None:
    """The sample and a piece are held, not the table."""
    import tracemalloc

    path = tmp_path / "long.npy"
    table = np.lib.format.open_memmap(path, mode="w+", dtype="float32", shape=(300_000, 8))
    table[:] = np.random.default_rng(0).standard_normal((300_000, 8))
    table.flush()
    plan = make_plan(path, None, -1, (), rows=1000, width=16)
    tracemalloc.start()
    found = read_table(plan, seed=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.total_rows == 300_000
    assert len(found.target) == 1000
    assert peak < 8 * 300_000 * 8 / 2
