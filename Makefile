# make demo: set up and draw the main figure.   make check: lint, types, the fast core of the tests (a minute).
# make test: lint, types, tests (eight to nine minutes on two cores).   Needs only Python 3.11+, make and git.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)
BIN := .venv/bin
READY := .venv/ready
JOBS ?= 2
# Whole files go to a worker, so that what a file prepares is prepared once; tests/conftest.py puts the longest files first.
# One thread each, said before anything loads NumPy.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadscope --no-loadscope-reorder
# The fast core: the rules of the house, expressions and activations, problems and results, quadrature, the parts of the theory,
# the given layer, the network kernel and the ridge path against plain versions, teachers, experiments, the store.
CORE := $(addprefix tests/,test_architecture.py test_activations.py test_expressions.py test_problem.py test_results.py \
	numerics theory/one_step/test_parts.py theory/one_step/test_optimum.py theory/given_layer \
	store simulation/fit simulation/models simulation/data/test_teachers.py sweep/test_experiment.py)

.PHONY: demo check core test test-slow numbers lint format types unit bench bench-quick docs notebooks lock clean

demo: $(READY)
	$(BIN)/firststep demo --out demo

check: lint types core

test: lint types unit

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(READY)
	$(BIN)/mypy

core: $(READY)
	$(PYTEST) -m "not slow and not needs_jax" $(CORE)

unit: $(READY)
	$(PYTEST)

# One process, which may use all cores; and JAX once more with the compiler as users have it.
test-slow: $(READY)
	$(BIN)/python -m pytest -m slow -v
	XLA_FLAGS= $(BIN)/python -m pytest -m "needs_jax and not slow"

# A few hundred results as of version 0.5, within the rounding of another machine.
numbers: $(READY)
	$(BIN)/python tests/scripts/kept_numbers.py --check tests/data/kept_numbers.json --within 1e-7

# A minute: what the main computations cost beside a reference, and which cost more than is kept in benchmarks/quick.json.
bench-quick: $(READY)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/quick.py

bench: $(READY)
	$(BIN)/python benchmarks/run_all.py

docs: $(READY)
	$(BIN)/python -m sphinx -q -E -W --keep-going -n -d docs/_build/doctrees docs docs/_build/html
	@echo "docs/_build/html/index.html"

# Executes the notebooks again, in place, with their outputs.
notebooks: $(READY)
	$(BIN)/python examples/execute.py

# The lock file is made by uv, which only whoever changes the dependencies needs.
lock:
	uv pip compile --universal --python-version 3.11 --extra dev --generate-hashes --no-header --no-annotate pyproject.toml -o requirements.lock

$(READY): requirements.lock pyproject.toml src/firststep_command.py
	@test -n "$(PYTHON)" || { echo "firststep needs Python 3.11 or newer; none was found (set PYTHON=...)"; exit 1; }
	@echo "setting up .venv with $$($(PYTHON) --version) (once, a minute or two)"
	@$(PYTHON) -m venv .venv || { echo "python -m venv failed: on Debian and Ubuntu install the python3-venv package"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

clean:
	rm -rf .venv demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
