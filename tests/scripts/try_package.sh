#!/usr/bin/env bash
# Installs a wheel or an sdist without extras into an empty environment and uses it:
#   tests/scripts/try_package.sh dist/firststep-*.whl [python]
set -euo pipefail
package=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
python=${2:-python3}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$python" -m venv "$place/venv"
cd "$place" # not in the checkout, whose source must play no part
"$place/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$package"
problem=(--student tanh --teacher sin --alpha 3 --beta 1 --alpha0 4 --step 3 --ridge 0.03 --readout ones)
"$place/venv/bin/firststep" predict "${problem[@]}"
"$place/venv/bin/firststep" compare "${problem[@]}" --dimension 60 --replicates 3
"$place/venv/bin/firststep" sweep init
"$place/venv/bin/python" - <<'PYTHON'
from importlib.resources import files
from importlib.util import find_spec

import firststep

assert find_spec("jax") is None, "an install without extras has no JAX"
for folder, name in (("web", "static/index.html"), ("web", "static/main.js"), ("sweep", "example.toml")):
    assert files(f"firststep.{folder}").joinpath(name).is_file(), name
for module in ("web.about", "web.pages", "sweep.run", "simulation.running.simulate"):
    __import__(f"firststep.{module}")
problem = firststep.Problem(student="tanh", teacher="sin", alpha=2, beta=1)
try:
    firststep.simulate(problem, 20, 1, backend="jax")
except firststep.FirststepError as error:
    assert "\n" not in str(error), error
    print(f"without JAX: {error}")
else:
    raise SystemExit("there is JAX after all")
print("firststep", firststep.__version__, "works")
PYTHON
