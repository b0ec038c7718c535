# A fresh clone needs python3 (3.11 or newer), make and git; npm is used when it is there.
# Everything made lies in .venv and the user's cache. `make demo` and `make test` do all the rest.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip --disable-pip-version-check --quiet install
PYTEST_OPTIONS ?=
MANIFESTS := pyproject.toml emulator/__init__.py

.PHONY: demo test test-long bench lint fmt mutants fault-matrix docs crash-matrix hostile requirements clean

## The main job on this machine: deploy, run, SIGKILL the host, recover. FIXTURE=dir and KILL_AT=n vary it.
demo: $(VENV)/ready
	@$(RUN) -m emulator.demo $(if $(FIXTURE),--fixture "$(FIXTURE)") $(if $(KILL_AT),--kill-at "$(KILL_AT)")

## Every test but the long ones, a process for each core. PYTEST_OPTIONS=-n0 for one process.
test: $(VENV)/ready-dev
	@$(RUN) -m pytest -n auto --dist loadfile -m "not long and not bench" $(PYTEST_OPTIONS)

## The long tests: kill points, soaks, installs.
test-long: $(VENV)/ready-dev
	@$(RUN) -m pytest -m long $(PYTEST_OPTIONS)

## Figures, printed.
bench: $(VENV)/ready-dev
	@$(RUN) -m pytest -m bench -s $(PYTEST_OPTIONS)

## Style and types; changes nothing.
lint: $(VENV)/ready-dev
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy

## Format the code and repair what can be repaired.
fmt: $(VENV)/ready-dev
	@$(RUN) -m ruff check --fix .
	@$(RUN) -m ruff format .

## Break the code on purpose, one spot at a time: the tests of the requirement must fail. ONLY=DW narrows it.
mutants: $(VENV)/ready-dev
	@$(RUN) -m tests.mutants $(ONLY)

## Write docs/state-tables.md from the tables in the code.
docs: $(VENV)/ready-dev
	@$(RUN) -m tests.state_tables
	@$(RUN) -m tests.emulator.runstore.exactness
	@$(RUN) -m tests.emulator.runtime.resolution_cases
	@$(RUN) -m emulator.cli support --document > docs/support.md

## SIGKILL the Host API at every fault point of every create, update and delete, restart, ask again: a matrix.
crash-matrix: $(VENV)/ready-dev
	@$(RUN) -m tests.crash_matrix

## A thousand hostile requests over TLS, bodies of 100 MB among them: figures. STORM_SEED=n varies them.
hostile: $(VENV)/ready-dev
	@$(RUN) -m pytest -q -s tests/emulator/front/test_storm.py $(PYTEST_OPTIONS)

## Kill the host, a runner and the gateway at every occasion of every fault point of the engine, for each kind of step;
## prints a matrix for each.
fault-matrix: $(VENV)/ready-dev
	@$(RUN) -m tests.emulator.workflow.fault_matrix
	@$(RUN) -m tests.emulator.workflow.process_matrix

## Renew the hashed requirements from pyproject.toml (needs uv).
requirements:
	@for each in runtime:pyproject.toml dev:"pyproject.toml --group dev" node:requirements/node.in \
	    build:requirements/build.in; do \
	  uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-emit-index-url --no-header \
	    --upgrade $${each#*:} -o requirements/$${each%%:*}.txt || exit 1; \
	done

clean:
	rm -rf $(VENV) build dist *.egg-info

# --- stamps: each is older than what it is made from, or it is made again -------------------------------------

$(VENV)/made:
	@command -v $(PYTHON) >/dev/null || { echo "takohost: $(PYTHON) is not installed; Python 3.11 or newer is needed" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "takohost: Python 3.11 or newer is needed, $(PYTHON) is $$($(PYTHON) -V 2>&1); try: make PYTHON=python3.11" >&2; exit 2; }
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/installed: requirements/runtime.txt requirements/build.txt $(MANIFESTS) | $(VENV)/made
	@echo "installing takohost"
	@$(PIP) --require-hashes -r requirements/build.txt -r requirements/runtime.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/installed-dev: requirements/dev.txt | $(VENV)/made
	@echo "installing the tools of the tests"
	@$(PIP) --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/ready: package-lock.json requirements/node.txt $(VENV)/installed
	@command -v npm >/dev/null || $(VENV)/bin/takohost install-runtime >/dev/null 2>&1 || { \
	  echo "npm is not on PATH: installing it from the package index"; \
	  $(PIP) --require-hashes -r requirements/node.txt; }
	@$(VENV)/bin/takohost install-runtime
	@$(RUN) -m compileall -q host emulator
	@touch $@

$(VENV)/ready-dev: $(VENV)/installed-dev $(VENV)/ready
	@touch $@
