"""Stores for the tests: filled, spoiled, on a disk that is full."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from firststep.store import DONE, Record, Store, canonical

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

/* Writes beyond LEFT bytes in all fail as on a full disk. */
static long left = -1;

static int is_full(size_t count) {
    if (left < 0) left = getenv("LEFT") ? atol(getenv("LEFT")) : 1L << 60;
    if ((long)count > left) { errno = ENOSPC; return 1; }
    left -= count;
    return 0;
}

ssize_t pwrite64(int file, const void *from, size_t count, off_t at) {
    static ssize_t (*real)(int, const void *, size_t, off_t);
    if (!real) real = dlsym(RTLD_NEXT, "pwrite64");
    return is_full(count) ? -1 : real(file, from, count, at);
}

ssize_t pwrite(int file, const void *from, size_t count, off_t at) {
    return pwrite64(file, from, count, at);
}
"""


def record(number: int, status: str = DONE, risk: float = 0.5) -> Record:
    numbers = {"risk": risk} if status == DONE else {}
    return Record(
        canonical({"alpha": float(number)}),
        canonical({"verb": "test"}),
        0,
        status,
        numbers,
        {"many": [0.1] * 50},
        "why",
    )


def filled(path: Path, count: int = 400) -> None:
    with Store(path) as store:
        run = store.begin_run({"numpy": "2"}, "test")
        store.add([record(number, risk=number / 7) for number in range(count)], run)


def originals(count: int = 400) -> dict[str, float]:
    """The risk of every key of a filled store."""
    return {record(number).key: number / 7 for number in range(count)}


def risks(path: Path) -> dict[str, float | None]:
    with Store(path, readonly=True) as store:
        return {each.key: each.numbers["risk"] for each in store.records()}


def changed(path: Path, *statements: str) -> int:
    """Change a store as another program would; how many rows the last statement changed."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        return [connection.execute(each).rowcount for each in statements][-1]


def asked(path: Path, question: str) -> object:
    """One value of a store, as SQLite has it."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(question).fetchone()[0]


def spoil(path: Path, rng: random.Random) -> str:
    """One of the things that happen to files; what it was."""
    data = bytearray(path.read_bytes())
    kind = rng.choice(["bits", "bytes", "zeros", "noise", "cut", "swap"])
    place = rng.randrange(len(data))
    page = place // 4096 * 4096
    if kind == "bits":
        for _ in range(rng.randrange(1, 20)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == "bytes":
        data[place : place + 64] = rng.randbytes(64)[: len(data) - place]
    elif kind == "zeros":
        data[page : page + 4096] = bytes(len(data[page : page + 4096]))
    elif kind == "noise":
        data[page : page + 4096] = rng.randbytes(len(data[page : page + 4096]))
    elif kind == "cut":
        del data[max(place, 8 * 4096) :]  # not all of it: what has no rows left cannot be saved
    else:  # two pages change places
        other = rng.randrange(len(data)) // 4096 * 4096
        first, second = data[page : page + 4096], data[other : other + 4096]
        data[page : page + 4096], data[other : other + 4096] = second, first
    path.write_bytes(data)
    return f"{kind} at {place}"


def small_disk(folder: Path, kilobytes: int) -> None:
    """Mount a disk of so many kilobytes; skip where that is not allowed."""
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={kilobytes}k", "none", str(folder)]
    done = subprocess.run(["mount", *options], capture_output=True)
    if done.returncode:
        pytest.skip("no disk can be mounted here")


def full_disk_library(folder: Path) -> Path:
    """A library whose writes fail after so many bytes, to be loaded before the others."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    source, library = folder / "full.c", folder / "full.so"
    source.write_text(SHIM)
    flags = ["-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    if subprocess.run([compiler, *flags], capture_output=True).returncode:
        pytest.skip("the C compiler makes no shared libraries here")
    return library
