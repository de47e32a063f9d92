# Each target creates .venv if it is missing, and updates it when pyproject.toml has changed. The demo installs only what
# treering and its server need to run; all other targets also install the development dependencies.

PYTHON ?= python3
BIN := .venv/bin
PYTHONS := .venv/pythons
RUNS := .venv/runs
READY := .venv/ready
NODE := .frameworks/node/ready
PIP := $(BIN)/pip install -qq --disable-pip-version-check

# Tests start hundreds of processes. Without cached bytecode each of them compiles the library anew, which takes as long
# as all else in its start, and each run of pytest rewrites all assertions again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-pythons interop browser screenshots check check-mypy check-pyright check-style check-house docs mutants bench bench-full soak clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s  %s\n", $$1, $$2 }' Makefile

demo: $(RUNS) ## play a short story, and draw its tree; `.venv/bin/treering demo --serve` shows agents in a browser
	@$(BIN)/treering demo

test: $(READY) ## run all tests, on asyncio, uvloop and trio where that matters
	$(BIN)/pytest -q -n auto --dist worksteal

test-pythons: ## run all tests on every CPython from 3.11 on that is installed
	@failed=; for version in $$(.ci/pythons | cut -d ' ' -f 1); do \
		echo "Python $$version"; \
		$(MAKE) --silent $(PYTHONS)/$$version/ready && \
			$(PYTHONS)/$$version/bin/pytest -q -n auto --dist worksteal || failed="$$failed $$version"; \
	done; test -z "$$failed" || { echo "failed on Python$$failed" >&2; exit 1; }

interop: $(READY) $(NODE) ## run frameworks' own tests, others' clients and real programs, installed in .frameworks/ and .node/
	$(BIN)/pytest -q -m interop tests/adapters tests/handing_over tests/importing tests/mcp tests/server

browser: $(READY) ## open the viewer in Chromium and look at what it shows and does
	$(BIN)/pytest -q -m browser -n 2 --dist loadfile tests/viewer

screenshots: $(READY) ## draw each page of the viewer, wide and narrow, light and dark, into .screenshots/
	$(BIN)/python -m tests.viewer.screenshots .screenshots

check: check-mypy check-pyright check-style check-house ## check style, types, the imports between packages, and the figures of the house

check-style: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo

check-mypy: $(READY)
	$(BIN)/mypy

check-pyright: $(READY)
	$(BIN)/pyright --pythonpath $(BIN)/python

check-house: $(READY)
	$(BIN)/python -m bench house --check

docs: $(READY) ## build the site of the documentation into site/; a dead link or a missing name is an error
	$(BIN)/python -m zensical build --strict --clean

mutants: $(READY) ## plant small faults, one at a time, and list those that no test notices; takes an hour or two
	$(BIN)/python -m tests.mutants $(if $(RESUME),--resume)

bench: $(READY) ## measure what operations cost, as ratios within one run
	$(BIN)/python -m bench

bench-full: $(READY) ## the same at full scale, with every peer and charts; takes an hour and a half
	$(BIN)/python -m bench prepare
	$(BIN)/python -m bench run --scale full --output bench/results/full.json
	$(BIN)/python -m bench plot bench/results/full.json --to docs/benchmarks
	$(BIN)/python -m bench growth --scale full --output bench/results/growth.json --to docs/benchmarks
	$(BIN)/python -m bench soak --output bench/results/soak.json --to docs/benchmarks

soak: $(READY) ## prove at length, for hours; SOAK=0.1 for a tenth, RESUME=1 to continue
	$(BIN)/python -m tests.soak --scale $(or $(SOAK),1) $(if $(RESUME),--resume)
	SOAK=$(or $(SOAK),1) $(BIN)/pytest -q -m 'soak or hypothesis'

clean: ## remove what the other targets created
	rm -rf .venv .node .frameworks .bench .mutants .soak .screenshots .cache build dist site src/*.egg-info .*_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUNS): pyproject.toml
	@echo 'creating .venv' >&2
	@$(PYTHON) -m venv .venv
	@$(PIP) -e '.[server]'
	@touch $@

$(READY): $(RUNS)
	@echo 'installing development dependencies' >&2
	@$(PIP) -e '.[dev]'
	@touch $@

$(NODE): Makefile
	@mkdir -p $(@D)
	@if command -v npm >/dev/null; then npm install --silent --no-save --prefix $(@D) @ag-ui/client@1.0.0; \
		else echo 'npm is not installed, so no page is tried out' >&2; fi
	@touch $@

$(PYTHONS)/%/ready: pyproject.toml
	@echo 'creating $(@D)' >&2
	@python=$$(.ci/pythons | sed -n 's/^$* //p'); test -n "$$python" || { echo 'Python $* is not installed' >&2; exit 1; }; \
		"$$python" -m venv $(@D)
	@$(@D)/bin/pip install -qq --disable-pip-version-check -e '.[test]'
	@touch $@
