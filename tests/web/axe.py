"""axe-core, which finds what keeps people from using a page, from its npm package.

Left out, and said so, where npm cannot bring it; FIRSTSTEP_BROWSER=required makes that a failure.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from playwright.sync_api import Page

PACKAGE = "axe-core@4.14.1"
INTEGRITY = (
    "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NP"
    "jCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
)
SECONDS = 120  # npm may take so long
RUN = """async () => {
  const found = await axe.run(document, { resultTypes: ['violations'] });
  return found.violations.flatMap(({ id, help, nodes }) => nodes.map(
    (node) => `${id}: ${help}: ${node.target.join(' ')} ${node.failureSummary || ''}`));
}"""


def axe_source(cache: Path) -> str:
    """The script, fetched once; a package that is not the one named is refused."""
    script = cache / f"{PACKAGE}.js"
    if not script.exists():
        _fetch(script)
    return script.read_text()


def _fetch(script: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        _without("npm is not installed")
    folder = script.parent / f"fetching-{os.getpid()}"
    folder.mkdir(exist_ok=True)
    try:
        command = [str(npm), "pack", PACKAGE, "--silent", "--pack-destination", str(folder)]
        subprocess.run(command, check=True, capture_output=True, timeout=SECONDS, cwd=folder)
        packed = next(folder.glob("*.tgz"))
        sha512 = base64.b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode()
        assert f"sha512-{sha512}" == INTEGRITY, f"{PACKAGE} is not what it was"
        with tarfile.open(packed) as archive:
            member = archive.extractfile("package/axe.min.js")
            assert member is not None
            (folder / "axe.js").write_bytes(member.read())
        (folder / "axe.js").replace(script)
    except (subprocess.SubprocessError, StopIteration) as error:
        _without(f"npm cannot bring {PACKAGE}: {error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _without(reason: str) -> None:
    if os.environ.get("FIRSTSTEP_BROWSER") == "required":
        pytest.fail(f"FIRSTSTEP_BROWSER=required, but {reason}")
    pytest.skip(f"accessibility is not checked: {reason}")


def violations(page: Page, source: str) -> list[str]:
    """What axe-core has against the page as it stands."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(source)
    found: list[str] = page.evaluate(RUN)
    return found
