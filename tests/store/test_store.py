"""The store: what it keeps, what it refuses, and what a damaged one gives back."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from firststep import StoreDamaged, StoreError
from firststep.store import APPLICATION, LOST, REFUSED, Store, repair
from tests.store.making import filled, record


def test_rows_come_back_to_the_last_digit(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    filled(path, 20)
    with Store(path) as store:
        found = {each.key: each for each in store.records()}
        assert found[record(13).key].numbers["risk"] == 13 / 7
        assert len(store.statuses()) == 20
        assert store.runs()[0]["versions"] == {"numpy": "2"}


def test_what_is_done_stays_and_what_failed_is_replaced(tmp_path: Path) -> None:
    with Store(tmp_path / "a.db") as store:
        store.add([record(1), record(2, REFUSED), record(3, LOST)], 0)
        store.add([record(1, risk=9.0), record(2, risk=8.0), record(3, REFUSED)], 0)
        found = {each.key: each for each in store.records()}
        assert found[record(1).key].numbers["risk"] == 0.5
        assert found[record(2).key].numbers["risk"] == 8.0
        assert found[record(3).key].status == REFUSED


def test_two_stores_write_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a.db"

    def write(first: int) -> None:
        with Store(path) as store:
            for number in range(first, first + 60):
                store.add([record(number)], 0)

    threads = [threading.Thread(target=write, args=(first,)) for first in (0, 30, 60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Store(path) as store:
        assert len(store.statuses()) == 120


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store"):
        Store(tmp_path / "none.db", create=False)
    with pytest.raises(StoreError, match="folder of the store"):
        Store(tmp_path / "none" / "a.db")
    text = tmp_path / "text.db"
    text.write_text("not a database at all\n" * 20)
    with pytest.raises(StoreDamaged, match="repair"):
        Store(text)
    empty = tmp_path / "empty.db"
    empty.touch()
    with pytest.raises(StoreDamaged, match="is empty"):
        Store(empty)
    with pytest.raises(StoreError, match="cannot be read"):
        Store(tmp_path)
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE birds (name TEXT)")
    connection.close()
    with pytest.raises(StoreError, match="not a firststep store"):
        Store(other)


@pytest.mark.parametrize(("schema", "words"), [(3, "newer firststep"), (0, "damaged")])
def test_other_schemas_are_refused(tmp_path: Path, schema: int, words: str) -> None:
    path = tmp_path / "a.db"
    filled(path, 1)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version={schema}")
    assert connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION
    connection.close()
    with pytest.raises(StoreError, match=words):
        Store(path)


@pytest.mark.parametrize("fraction", [0.9, 0.5, 0.2])
def test_a_store_cut_short_is_recognised_and_repaired(tmp_path: Path, fraction: float) -> None:
    path = tmp_path / "a.db"
    filled(path)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(int(size * fraction))
    with pytest.raises(StoreDamaged, match="sweep repair"):
        Store(path)
    saved, _, kept = repair(path)
    assert kept.exists()
    assert 0.5 * fraction * 400 < saved <= 400
    with Store(path) as store:
        found = list(store.records())
        assert len(found) == saved
        originals = {record(number).key: number / 7 for number in range(400)}
        assert all(each.numbers["risk"] == originals[each.key] for each in found)
        store.add([record(1000)], 0)  # and it can be written again
    with pytest.raises(StoreError, match="earlier repair"):
        repair(path)


def test_pages_of_noise_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    filled(path)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2 // 4096 * 4096)
        file.write(b"\x5a" * 4096 * 3)
    saved, spoiled, _ = repair(path)
    assert 340 < saved < 400
    assert saved + spoiled <= 400


def test_a_file_without_a_header_has_nothing_to_save(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"SQL")
    with pytest.raises(StoreDamaged, match="nothing can be saved"):
        repair(path)
    noise = tmp_path / "noise.db"
    noise.write_bytes(b"\x00" * 9000)
    with pytest.raises(StoreError):
        repair(noise)


def test_a_full_disk_keeps_what_is_written(tmp_path: Path) -> None:
    """SQLite's own limit on the size of the file gives the error of a full disk."""
    path = tmp_path / "a.db"
    with Store(path) as store:
        store._connection.execute("PRAGMA max_page_count=40")
        written: list[int] = []

        def write_on() -> None:
            for number in range(1000):
                store.add([record(number)], 0)
                written.append(number)

        with pytest.raises(StoreError, match="disk is full"):
            write_on()
        assert set(store.statuses()) == {record(number).key for number in written}
        assert len(written) > 10
    with Store(path) as store:
        store.add([record(5000)], 0)
        assert len(store.statuses()) == len(written) + 1


def test_merging(tmp_path: Path) -> None:
    filled(tmp_path / "a.db", 10)
    with Store(tmp_path / "b.db") as other:
        other.add(
            [record(number) for number in range(5, 15)], other.begin_run({"numpy": "3"}, "second")
        )
    with Store(tmp_path / "a.db") as store:
        assert store.merge(tmp_path / "b.db") == 5
        assert len(store.statuses()) == 15
        assert [run["versions"]["numpy"] for run in store.runs()] == ["2", "3"]
