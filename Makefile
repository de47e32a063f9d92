# Each target creates .venv if it is missing, and updates it when pyproject.toml has changed. The demo installs only what
# treering needs to run; all other targets also install the development dependencies.

PYTHON ?= python3
BIN := .venv/bin
RUNS := .venv/runs
READY := .venv/ready
PIP := $(BIN)/pip install -qq --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test check bench bench-full soak clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s  %s\n", $$1, $$2 }' Makefile

demo: $(RUNS) ## play a short story with several agents, and draw the resulting tree
	@$(BIN)/treering demo

test: $(READY) ## run all tests but the soak, on asyncio, uvloop and trio where that matters
	$(BIN)/pytest -q -n auto --dist worksteal

check: $(READY) ## check style, types, and the imports between packages
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports --no-logo

bench: $(READY) ## measure what operations cost, as ratios within one run
	$(BIN)/python -m bench

bench-full: $(READY) ## the same at full scale, with every peer and charts; takes an hour
	$(BIN)/python -m bench prepare
	$(BIN)/python -m bench run --scale full --output bench/results/full.json
	$(BIN)/python -m bench plot bench/results/full.json --to docs/benchmarks
	$(BIN)/python -m bench soak --output bench/results/soak.json --to docs/benchmarks

soak: $(READY) ## run the long tests
	$(BIN)/pytest -m soak -s

clean: ## remove what the other targets created
	rm -rf .venv .node .bench build dist src/*.egg-info .*_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUNS): pyproject.toml
	@echo 'creating .venv' >&2
	@$(PYTHON) -m venv .venv
	@$(PIP) -e .
	@touch $@

$(READY): $(RUNS)
	@echo 'installing development dependencies' >&2
	@$(PIP) -e '.[dev]'
	@touch $@
