# Each target makes .venv when there is none, and renews it when pyproject.toml has changed: with what treering needs to
# run, and for all but the demo with what its developers need, too.

PYTHON ?= python3
BIN := .venv/bin
RUNS := .venv/runs
READY := .venv/ready
PIP := $(BIN)/pip install -qq --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test check bench bench-full soak clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s  %s\n", $$1, $$2 }' Makefile

demo: $(RUNS) ## play a short story with several agents, and show the tree it leaves
	@$(BIN)/treering demo

test: $(READY) ## every test on asyncio, uvloop and trio, but for the soak
	$(BIN)/pytest -q -n auto --dist worksteal

check: $(READY) ## style, types, and the arrows between the packages
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports --no-logo

bench: $(READY) ## what things cost, as ratios within one run
	$(BIN)/python -m bench

bench-full: $(READY) ## the same at full size, beside every peer, with charts; takes an hour
	$(BIN)/python -m bench prepare
	$(BIN)/python -m bench run --scale full --output bench/results/full.json
	$(BIN)/python -m bench plot bench/results/full.json --to docs/benchmarks
	$(BIN)/python -m bench soak --output bench/results/soak.json --to docs/benchmarks

soak: $(READY) ## the long proofs
	$(BIN)/pytest -m soak -s

clean: ## remove what the other targets made
	rm -rf .venv .node .bench build dist src/*.egg-info .*_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUNS): pyproject.toml
	@echo 'making .venv' >&2
	@$(PYTHON) -m venv .venv
	@$(PIP) -e .
	@touch $@

$(READY): $(RUNS)
	@echo 'adding what tests and checks need' >&2
	@$(PIP) -e '.[dev]'
	@touch $@
