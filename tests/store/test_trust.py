"""What a store says of itself is true: whole stores are read, damaged rows are never given out."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from firststep import StoreDamaged, StoreError
from firststep.store import DONE, SCHEMA, Store, canonical, pages, repair
from tests.store.making import (
    asked,
    changed,
    filled,
    full_disk_library,
    originals,
    record,
    risks,
    small_disk,
    spoil,
)

WRITE_ON = """
import sys
from firststep.errors import StoreError
from firststep.store import Store
from tests.store.making import record
with Store(sys.argv[1]) as store:
    for number in range(5000):
        try:
            store.add([record(number, risk=number / 7)], 0)
        except StoreError as error:
            print(number, error)
            break
"""


def python(program: str, *arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    found = subprocess.run(command, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert isinstance(found, subprocess.CompletedProcess)
    return found


def written_until_full(path: Path, **environment: str) -> int:
    """How many results a process could write before the disk was full."""
    done = python(WRITE_ON, path, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    count, words = done.stdout.split(maxsplit=1)
    assert "the disk is full" in words
    return int(count)


def killed_after_writing(path: Path, count: int) -> None:
    """The last results stand in the log alone."""
    program = WRITE_ON.replace("range(5000)", f"range({count})")
    python(program + "    import os; os.kill(os.getpid(), 9)", path)
    assert path.with_name(path.name + "-wal").stat().st_size > 0


def has_all(path: Path, count: int) -> None:
    """Every committed result is there, and the next can be written."""
    with Store(path) as store:
        assert len(store.statuses()) == count
        store.add([record(10_000)], 0)
        assert len(store.statuses()) == count + 1
        assert not store.spoiled


@pytest.mark.parametrize("kilobytes", [500, 1200])
def test_a_full_disk_leaves_a_store_that_goes_on(tmp_path: Path, kilobytes: int) -> None:
    """Part of the results stands in the log, and the file is shorter than its head says."""
    disk = tmp_path / "disk"
    small_disk(disk, kilobytes)
    try:
        path = disk / "a.db"
        count = written_until_full(path)
        subprocess.run(["mount", "-o", f"remount,size={4 * kilobytes}k", str(disk)], check=True)
        has_all(path, count)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("left", [300_000, 700_000, 1_500_000])
def test_writes_that_fail_leave_a_store_that_goes_on(tmp_path: Path, left: int) -> None:
    library = full_disk_library(tmp_path)
    path = tmp_path / "a.db"
    count = written_until_full(path, LD_PRELOAD=str(library), LEFT=str(left))
    assert count > 10
    has_all(path, count)


def test_no_open_of_a_store_that_is_being_written_fails(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    filled(path, 1)
    writer = subprocess.Popen([sys.executable, "-c", textwrap.dedent(WRITE_ON), str(path)])
    try:
        before = opens = 0
        while opens < 100 or before < 20:
            with Store(path, readonly=True) as store:
                now = len(store.statuses())
            assert now >= before
            before, opens = now, opens + 1
    finally:
        writer.kill()
        writer.wait()


def test_a_row_that_was_changed_is_left_out_and_computed_again(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    filled(path, 20)
    changed(
        path,
        "UPDATE results SET numbers=replace(numbers, '1', '2') WHERE id=8",
        "UPDATE results SET seconds=5.5 WHERE id=9",
    )
    wrong = {record(7).key, record(8).key}
    for readonly in (True, False):
        with Store(path, readonly=readonly) as store:
            assert set(store.statuses()) == set(originals(20)) - wrong
            assert set(store.numbers()) == set(originals(20)) - wrong
            assert set(store.spoiled.values()) == wrong
    with Store(path) as store:
        store.statuses()
        store.add([record(7, risk=1.0)], 0)
        assert set(store.spoiled.values()) == {record(8).key}
        store.add([record(8, risk=8 / 7)], 0)
    assert risks(path) == originals(20)


def test_a_text_that_is_none_is_a_spoiled_row(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    filled(path, 20)
    data = path.read_bytes()
    place = data.index(canonical({"alpha": 3.0}).encode())
    path.write_bytes(data[:place] + b"\xff\xfe" + data[place + 2 :])
    with Store(path) as store:
        assert len(store.statuses()) == 19
        assert len(list(store.records())) == 19
        assert len(store.spoiled) == 1


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_to_the_file_no_number_is_wrong(tmp_path: Path, seed: int) -> None:
    """After any damage: sound results, or a refusal and a repair that gives back sound ones."""
    path = tmp_path / "a.db"
    filled(path, 120)
    told = spoil(path, random.Random(seed))
    right = originals(120)
    try:
        found = risks(path)
    except StoreError as error:
        if "repair" not in str(error):
            raise
        saved, _, _ = repair(path)
        found = risks(path)
        assert len(found) == saved
    assert found.items() <= right.items(), told
    assert len(found) > 20 or "cut" in told, told
    with Store(path) as store:
        store.statuses()
        store.add([record(number, risk=number / 7) for number in range(120)], 0)
    assert risks(path) == right


@pytest.mark.parametrize("pages_left", [2, 3, 10, 25])
def test_a_file_cut_short_gives_back_every_whole_page(tmp_path: Path, pages_left: int) -> None:
    path = tmp_path / "a.db"
    filled(path)
    data = path.read_bytes()[: pages_left * 4096 + 1000]
    inside = {
        row.values[1].decode()
        for row in pages.rows(data)
        if len(row.values) == 13 and isinstance(row.values[1], bytes)
    }
    path.write_bytes(data)
    saved = repair(path).saved if inside else 0
    assert saved == len(inside)
    assert saved >= 3 * (pages_left - 4)  # four rows a page, but for what finds them
    if saved:
        assert risks(path).items() <= originals().items()


def test_long_rows_are_put_together_from_their_pages(tmp_path: Path) -> None:
    """A record of 40 kB goes on in ten other pages."""
    path = tmp_path / "a.db"
    long = record(1)._replace(arrays={"many": [number / 3 for number in range(2000)]})
    with Store(path) as store:
        store.add([record(0), long, record(2)], 0)
        store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(path.read_bytes())
    data[:100] = bytes(100)
    path.write_bytes(data)
    assert repair(path).saved == 3
    with Store(path) as store:
        assert {each.key: each.arrays for each in store.records()}[long.key] == long.arrays


def test_results_that_are_only_in_the_log_are_saved(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    filled(path, 5)
    killed_after_writing(path, 30)
    with path.open("r+b") as file:
        file.write(b"\x00" * 4096)
    assert repair(path).saved >= 30
    assert len(risks(path)) >= 30
    assert path.with_name("a.db.damaged-wal").exists()


HOLD = """
import sys, time
from firststep.store import Store
with Store(sys.argv[1], readonly=sys.argv[2] == "reads") as store:
    store.statuses()
    print("open", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("how", ["reads", "writes"])
def test_a_store_in_use_is_not_repaired(tmp_path: Path, how: str) -> None:
    path = tmp_path / "a.db"
    filled(path, 5)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(StoreError, match="in use"):
            repair(path)
        other.communicate(b"\n")
    with Store(path), pytest.raises(StoreError, match="in use"):
        repair(path)
    assert repair(path).saved == 5


def test_whoever_writes_to_a_store_that_was_replaced_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with Store(path) as store:
        store.add([record(1)], 0)
        path.rename(tmp_path / "elsewhere.db")
        with pytest.raises(StoreError, match="moved away or replaced"):
            store.add([record(2)], 0)
        filled(path, 1)
        with pytest.raises(StoreError, match="moved away or replaced"):
            store.add([record(2)], 0)


@pytest.mark.parametrize("with_log", [False, True])
def test_a_store_on_a_medium_that_cannot_be_written_is_read(tmp_path: Path, with_log: bool) -> None:
    folder = tmp_path / "medium"
    small_disk(folder, 4000)
    try:
        path = folder / "a.db"
        if with_log:
            killed_after_writing(path, 30)
            (folder / "a.db-shm").unlink()
        else:
            filled(path, 30)
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        assert risks(path) == originals(30)
        with pytest.raises(StoreError, match=r"cannot be used|cannot be written"):
            filled(path, 31)
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_reading_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    filled(path, 3)
    with Store(path, readonly=True) as store:
        assert len(store.statuses()) == 3
        with pytest.raises(StoreError):
            store.add([record(4)], 0)
    assert [each.name for each in tmp_path.iterdir()] == ["a.db"]


def test_a_store_of_an_older_version_gets_its_checksums(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    filled(path, 20)
    changed(
        path,
        "ALTER TABLE results DROP COLUMN checksum",
        "PRAGMA user_version=1",
        "UPDATE results SET problem='{}' WHERE id=4",
    )
    right = {key: risk for key, risk in originals(20).items() if key != record(3).key}
    assert risks(path) == right  # without writing
    assert asked(path, "PRAGMA user_version") == 1
    with Store(path) as store:
        assert set(store.statuses()) == set(right)
    assert asked(path, "PRAGMA user_version") == SCHEMA
    assert asked(path, "SELECT count(*) FROM results WHERE checksum IS NULL") == 1
    assert risks(path) == right


def test_an_index_that_disagrees_with_its_table_is_damage(tmp_path: Path) -> None:
    """Rows that vanish from a page are found: their keys are still in the index."""
    path = tmp_path / "a.db"
    filled(path)
    data = bytearray(path.read_bytes())
    leaf = next(
        start
        for start in range(4096 * 8, len(data), 4096)
        if data[start] == 0x0D and data[start + 4] > 2
    )
    data[leaf + 4] -= 1  # the number of its cells
    path.write_bytes(data)
    with pytest.raises(StoreDamaged, match="sweep repair"):
        Store(path)
    assert repair(path).saved >= 399


def test_the_newer_version_of_a_result_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with Store(path) as store:
        store.add([record(1, "lost"), record(2, "refused")], 0)
        store.add([record(1, risk=0.25)], 0)
        store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    repair(path)
    with Store(path) as store:
        found = {each.key: each for each in store.records()}
    assert found[record(1).key].status == DONE
    assert found[record(1).key].numbers == {"risk": 0.25}
    assert found[record(2).key].status == "refused"
