# Everything runs in .venv, which is made on first use and again when dependencies change.

PYTHON ?= python3
PIP_FLAGS ?=
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench docs clean

help:  ## Show this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 8

demo: $(READY)  ## Explain a GCN on BA-2Motifs with HPME; writes out/demo
	$(BIN)/hpme demo --out out/demo

# One thread per process: two workers with several threads each would only wait for each other.
test: lint  ## Lint, type-check and run all tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

lint: $(READY)  ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)  ## Measure speed
	$(BIN)/python benchmarks/speed.py

# The variable silences an advertisement against MkDocs 2, which is not used here.
docs: $(READY)  ## Make the documentation in site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:  ## Remove the environment, results and caches inside this folder
	rm -rf $(VENV) out site .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "Python 3.10 or newer is needed; run make PYTHON=/path/to/python3"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet $(PIP_FLAGS) -c constraints.txt -e '.[dev,chem,cluster,docs,myerson]'
	@touch $@
