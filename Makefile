# What developers and CI run. Needs python3 >= 3.11 with pip and venv, and make; everything else is installed into .venv.

PYTHON ?= python3
ARGS ?=
# One test process more than there are cores: some tests wait for the disk or for another process.
JOBS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
VENV := .venv
BIN := $(VENV)/bin
RUNNABLE := $(VENV)/.runnable
INSTALLED := $(VENV)/.installed
LOCK := requirements/dev.txt
SOURCES := pyproject.toml hatch_build.py $(wildcard generate/*.py)

# Hundreds of tests start processes, each of which would compile the same modules again.
unexport PYTHONDONTWRITEBYTECODE

# pip reads its options from the environment too. Indexes, proxies and certificates stay in force;
# the ones that would put packages somewhere other than the virtual environment do not.
CLEAN_ENV := env -u PIP_USER -u PIP_TARGET -u PIP_PREFIX -u PIP_ROOT -u PIP_PYTHON
PIP := $(CLEAN_ENV) $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help venv run test pythons check peers fuzz bench lock dist clean

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(INSTALLED) ## Create .venv with Kapi (editable) and the developer tools

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Kapi needs Python 3.11 or newer; run: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "Creating $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)

# What `make run` needs, and no developers' tools: seconds instead of minutes on an empty machine. pip lists what it
# fetches, so that the wait is not silent.
$(RUNNABLE): $(SOURCES) tools/install_run.py | $(BIN)/python
	@echo "Installing Kapi and the packages it needs into $(VENV) ..."
	@$(CLEAN_ENV) $(BIN)/python tools/install_run.py
	@touch $@

# Exactly the versions, and the files, that the lock names; the build backend is among them, so nothing else is fetched.
$(INSTALLED): $(SOURCES) $(LOCK) | $(BIN)/python
	@echo "Installing Kapi and the developer tools into $(VENV) ..."
	@$(PIP) install --quiet --require-hashes --requirement $(LOCK)
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $(RUNNABLE) $@

run: $(RUNNABLE) ## Start a control plane and the demo controller (ARGS="--bind 127.0.0.1:0 --once" ...)
	@$(BIN)/kapi demo $(ARGS)

test: $(INSTALLED) ## Run the tests that need only Python (ARGS="tests/unit/api -k selectors" ...)
	bash tests/run $(BIN)/python --numprocesses $(JOBS) --dist worksteal $(ARGS)

pythons: $(INSTALLED) ## Run the quick unit tests on the other Pythons that are installed
	bash tests/pythons --numprocesses $(JOBS) $(ARGS)

check: $(INSTALLED) ## Lint, format, types, architecture, documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_tree.py
	$(BIN)/python tools/check_lock.py
	$(BIN)/python tools/write_reference.py --check
	$(BIN)/python tools/check_docs.py

peers: $(INSTALLED) ## Run the tests against real kubectl and other people's clients
	@if [ -e tests/wire/install ]; then bash tests/wire/install; fi
	bash tests/run $(BIN)/python --numprocesses $(JOBS) --dist worksteal tests/wire $(ARGS)

fuzz: $(INSTALLED) ## Send random valid and hostile requests to a live server (ARGS="--seconds 600 --seed 7", "--replay FILE")
	PYTHONPATH=tests:tests/security:tests/reliability $(BIN)/python -m fuzz $(ARGS)

bench: $(INSTALLED) ## Measure (ARGS="--compare main" compares this tree with a commit)
	$(BIN)/python -m bench $(ARGS)

lock: $(INSTALLED) ## Lock the newest packages that pyproject.toml allows, with the hashes of their files
	@$(PIP) install --quiet 'uv>=0.5'
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-annotate --quiet --upgrade --custom-compile-command 'make lock' --output-file $(LOCK)
	$(BIN)/python tools/check_lock.py

dist: $(INSTALLED) ## Build the sdist, the wheel, and compiled wheels for the Pythons that are installed, into dist/
	$(BIN)/python -m hatchling build --target sdist --target wheel
	bash tools/compiled_wheels

clean: ## Remove what was built, generated or cached; .venv stays and is brought up to date by the next target
	rm -rf build dist src/kapi/api/builtin src/kapi/schema/builtin/definitions.bin
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests tools bench generate -type d -name __pycache__ -prune -exec rm -rf {} +
	rm -f $(RUNNABLE) $(INSTALLED)
