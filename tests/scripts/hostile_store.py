"""A hostile week for a store: kills at random moments, full disks, corrupted files.

    python tests/scripts/hostile_store.py [--kills 200] [--disks 20] [--corruptions 100] [--seed 0]

Each round ends with the question: is every committed result in the table, with the number that was
written, or named as lost? One line a kind of attack, and exit code 1 if the answer was no once.
Full disks need a machine where a small disk can be mounted.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from firststep.errors import StoreError
from firststep.store import Store, repair
from tests.store.making import filled, originals, record, risks, spoil

ROWS = 150
# Commits results one by one and says so after each commit.
WRITER = """
import sys
from firststep.store import Store
from tests.store.making import record
first = int(sys.argv[2])
with Store(sys.argv[1]) as store:
    for number in range(first, first + 100_000):
        store.add([record(number, risk=number / 7)], 0)
        print(number, flush=True)
"""


def writer(path: Path, first: int) -> subprocess.Popen[str]:
    root = Path(__file__).resolve().parent.parent.parent
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(first)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=root,
    )


def committed(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """The last number a writer said it committed, once it has ended; and its last complaint."""
    said, complained = process.communicate()
    whole = [line for line in said.splitlines(keepends=True) if line.endswith("\n")]
    return int(whole[-1]) if whole else -1, complained.strip().splitlines()[-1:]


def all_there(path: Path, last: int) -> bool:
    """Every number up to the last one committed is in the table, and right."""
    found = risks(path)
    return all(found.get(record(number).key) == number / 7 for number in range(last + 1))


def kills(rounds: int, rng: random.Random, folder: Path) -> Counter[str]:
    """kill -9 of a process that writes as fast as it can, again and again on one store."""
    path, count, last = folder / "kills.db", Counter[str](), -1
    for _ in range(rounds):
        process = writer(path, last + 1)
        assert process.stdout is not None
        process.stdout.readline()  # it has begun to write
        time.sleep(rng.uniform(0, 0.2))
        process.send_signal(signal.SIGKILL)
        now, _ = committed(process)
        last = max(last, now, last + 1)
        try:
            count["all there" if all_there(path, last) else "LOST"] += 1
        except StoreError:
            count["REFUSED"] += 1
    return count


def disks(rounds: int, rng: random.Random, folder: Path) -> Counter[str]:
    """A disk that fills up while a process writes, then gets more room."""
    count: Counter[str] = Counter()
    for number in range(rounds):
        disk = folder / f"disk{number}"
        disk.mkdir()
        size = rng.randrange(300, 3000)
        options = ["-t", "tmpfs", "-o", f"size={size}k", "none", str(disk)]
        if subprocess.run(["mount", *options], capture_output=True).returncode:
            return Counter({"no disk can be mounted here": rounds})
        try:
            process = writer(disk / "a.db", 0)
            last, complaint = committed(process)
            told = "the disk is full" in "".join(complaint)
            subprocess.run(["mount", "-o", f"remount,size={8 * size}k", str(disk)], check=True)
            is_right = told and all_there(disk / "a.db", last)
            with Store(disk / "a.db") as store:
                store.add([record(10**6)], 0)
            count["all there, and goes on" if is_right else "LOST"] += 1
        except StoreError:
            count["REFUSED"] += 1
        finally:
            subprocess.run(["umount", str(disk)], check=True)
    return count


def corruptions(rounds: int, rng: random.Random, folder: Path) -> Counter[str]:
    """Bits, bytes and pages changed, and files cut short."""
    count: Counter[str] = Counter()
    right = originals(ROWS)
    for number in range(rounds):
        path = folder / f"bad{number}.db"
        filled(path, ROWS)
        spoil(path, rng)
        try:
            with Store(path, readonly=True) as store:
                found = {each.key: each.numbers["risk"] for each in store.records()}
                named = len(store.spoiled)
            how = "read" if not named else "read, spoiled rows named"
            is_right = len(found) + named >= ROWS
        except StoreError as error:
            if "repair" not in str(error):
                raise
            try:
                rescue = repair(path)
                found, is_right = risks(path), rescue.saved > 0
                how = "refused, then repaired"
            except StoreError:
                found, is_right, how = {}, True, "refused, nothing left to save"
        is_right &= found.items() <= right.items()
        count[how if is_right else "WRONG"] += 1
        path.unlink(missing_ok=True)
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, default in (("kills", 200), ("disks", 20), ("corruptions", 100), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    bad = False
    for attack in (kills, disks, corruptions):
        with tempfile.TemporaryDirectory() as folder:
            rounds = getattr(given, attack.__name__)
            count = attack(rounds, random.Random(given.seed), Path(folder))
        print(f"{attack.__name__}: " + ", ".join(f"{n} {what}" for what, n in count.items()))
        bad |= any(what.isupper() for what in count)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
