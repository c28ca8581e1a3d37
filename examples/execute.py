"""Execute the notebooks of this folder.

``make notebooks`` keeps their outputs in them; the tests run them elsewhere.

python examples/execute.py                        all, in place
python examples/execute.py tour.ipynb --out DIR   some, written to another folder

A notebook runs in a kernel of this very Python, in an empty folder, on one thread and without a
GPU; settings and kernels that are installed for Jupyter or IPython on the machine play no part.
What is written has no times, no versions and no machine in it.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib.font_manager  # noqa: F401  the list of fonts is made here: a kernel would complain that it takes long
import nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

HERE = Path(__file__).parent
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
SECONDS = 300  # a cell may take


class ThisPython(KernelSpecManager):
    """Whatever kernel is asked for, it is the Python that runs this."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        words = ["-m", "ipykernel_launcher", "-f", "{connection_file}", "--log-level=ERROR"]
        return KernelSpec(argv=[sys.executable, *words], **KERNEL)


def environment(folder: Path) -> dict[str, str]:
    """What the kernel sees: one thread, the CPU, pictures in the notebook, no other settings."""
    without = ("MPLBACKEND", "PYTHONWARNINGS", "PYTHONSTARTUP")
    kept = {name: value for name, value in os.environ.items() if name not in without}
    own = {
        name: str(folder)
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    }
    return {
        **kept,
        **own,
        "OMP_NUM_THREADS": "1",
        "JAX_PLATFORMS": "cpu",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }


def execute(path: Path) -> Any:
    """The notebook with the outputs of a fresh run.

    A cell that fails ends the run with its error.
    """
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as settings, tempfile.TemporaryDirectory() as work:
        os.environ["JUPYTER_RUNTIME_DIR"] = (
            settings  # of the file that tells the kernel where to listen
        )
        manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=ThisPython())
        client = NotebookClient(
            notebook,
            km=manager,
            timeout=SECONDS,
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": work}},
        )
        client.owns_km = True  # the kernel ends with its notebook, not with this process
        client.execute(env=environment(Path(settings)))
    return tidy(notebook)


def tidy(notebook: Any) -> Any:
    """Without what differs from one machine to the next."""
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    )
    for number, cell in enumerate(notebook.cells, 1):
        cell.id, cell.metadata = f"cell-{number}", nbformat.from_dict({})
        for output in cell.get("outputs", ()):
            if "metadata" in output:
                output.metadata = nbformat.from_dict({})
    return notebook


def complaint(path: Path, error: Exception) -> str:
    """The cell that failed and why, without colours."""
    return f"{path.name}: " + re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip()


def main() -> int:
    parser = argparse.ArgumentParser(description="Execute the notebooks of this folder.")
    parser.add_argument("names", nargs="*", help="file names; default: all")
    parser.add_argument("--out", type=Path, help="folder to write them to; default: in place")
    asked = parser.parse_args()
    os.environ.setdefault(
        "JUPYTER_PLATFORM_DIRS", "1"
    )  # what Jupyter will do by default, and warns about until then
    failed = 0
    for path in [HERE / name for name in asked.names] or sorted(HERE.glob("*.ipynb")):
        try:
            done = execute(path)
        except (CellExecutionError, DeadKernelError, TimeoutError) as error:
            print(complaint(path, error), file=sys.stderr)
            failed += 1
            continue
        target = (asked.out or path.parent) / path.name
        nbformat.write(done, target)
        print(f"{path.name}: {sum(cell.cell_type == 'code' for cell in done.cells)} cells executed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
