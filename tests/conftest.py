"""Shared settings: examples are chosen the same way every time, so a failure can be repeated."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec

# Read when the libraries load, also by the processes that tests start. One thread each: pytest runs
# several processes. What XLA compiles is run once or twice, so it is not optimised: four times
# faster; `make test-slow` runs the same tests with the compiler as users have it (XLA_FLAGS="").
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_use_fusion_emitters=false --xla_cpu_multi_thread_eigen=false",
)

# What one process has compiled serves the others of this run.
if "PYTEST_XDIST_WORKER" not in os.environ:
    folder = tempfile.mkdtemp(prefix="firststep-compiled-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", folder)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

# Some machines forbid to keep compiled modules; each of the processes that tests start would then
# compile a hundred.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Large arrays go back to the system when they are freed (glibc keeps them otherwise).
os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(2**23))
os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", str(2**23))

# On a busy machine Dask tells of connections that close while it shuts down: no fault of a test.
os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "critical")

# A shell ignores Ctrl-C for what it runs in the background, and processes inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    with contextlib.suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGINT, signal.default_int_handler)

import psutil
import pytest
from hypothesis import settings

from firststep import Problem

settings.register_profile("firststep", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("firststep")

# Files that take longest first: workers get whole files, and none should begin a long one when the
# other is about to end. The browser takes more memory than any other: it comes when neither process
# has compiled much yet, after the kernels of the notebooks, beside two files that take little.
LONGEST = (
    "test_notebooks.py",
    "test_predict.py",
    "test_docs.py",
    "test_cli.py",
    "test_page.py",
    "test_spectra.py",
    "test_theory.py",
    "test_faults.py",
    "test_network.py",
    "test_server.py",
    "test_differentiable.py",
    "test_estimators.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.name, len(place)))
    has_jax = find_spec("jax") is not None
    for item in items:
        if not has_jax and item.get_closest_marker("needs_jax"):
            item.add_marker(pytest.mark.skip(reason="JAX is not installed: firststep[jax]"))


# Bytes a process of the tests may keep after a test: a compiled program has 1.5 MB, and is soon
# loaded again from the folder above.
MOST = 550_000_000
GROWN = 200_000_000  # bytes since it last gave some back: less is not worth the time that takes
_left = 0  # bytes that giving back has left


def forget_compiled_programs() -> None:
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):  # glibc keeps what was freed until told
            ctypes.CDLL("libc.so.6").malloc_trim(0)


@pytest.fixture(autouse=True)
def memory_stays_small() -> Iterator[None]:
    global _left
    yield
    if psutil.Process().memory_info().rss > max(MOST, _left + GROWN):
        forget_compiled_programs()
        _left = psutil.Process().memory_info().rss


@pytest.fixture(scope="module", autouse=True)
def programs_of_one_file() -> Iterator[None]:
    """What JAX has compiled for one file is of no use to the next."""
    yield
    forget_compiled_programs()


@pytest.fixture
def generic() -> Problem:
    """A problem where nothing vanishes: non-odd student, mixed teacher, noise, three readout
    values, Gaussian rows.
    """
    return Problem(
        student="tanh(1.3*z) + 0.4*(z**2-1)",
        teacher="sin(z) + 0.3*z**2",
        alpha=2.5,
        beta=1.5,
        alpha0=3.0,
        step=0.7,
        ridge=0.05,
        noise=0.2,
        readout="-1:0.25,0.5:0.5,2:0.25",
    )
