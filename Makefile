# Everything runs in .venv, which is made on first use and again when dependencies change.

PYTHON ?= python3
PIP_FLAGS ?=
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CHEMPROP := .venv-chemprop
OLDEST := .venv-oldest
CORE = $(shell $(BIN)/python -c 'import sys; print("sysmon" if sys.version_info >= (3, 12) else "ctrace")')
WHEEL := .venv-wheel

# One thread per process: two workers with several threads each would only wait for each other.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help demo quick test coverage nightly lint bench docs wheel oldest chemprop clean

help:  ## Show this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

demo: $(READY)  ## Explain a GCN on BA-2Motifs with HPME; writes out/demo
	$(BIN)/hpme demo --out out/demo

quick: $(READY)  ## Run the tests that are not marked slow, browser, cluster or notebooks: 90 seconds
	$(PYTEST) -m 'not slow and not browser and not cluster and not notebooks'

test: lint  ## Lint, type-check and run all tests: 7 minutes
	$(PYTEST)

# Python 3.12 and newer count lines almost for free; before that it takes a third more time.
coverage: $(READY)  ## Run all tests and fail if they reach less than 95 % of src
	COVERAGE_CORE=$(CORE) $(PYTEST) --cov --cov-fail-under=95

nightly: $(READY)  ## Run the tests of properties on 1,000 cases each
	HYPOTHESIS_PROFILE=nightly OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m hypothesis

lint: $(READY)  ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)  ## Measure speed
	$(BIN)/python benchmarks/speed.py

# The variable silences an advertisement against MkDocs 2, which is not used here.
docs: $(READY)  ## Make the documentation in site; runs the notebooks
	HPME_RUN_NOTEBOOKS=1 NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The wheel is tried in an environment that has nothing else of this folder.
wheel: $(READY)  ## Build sdist and wheel in dist, and try the wheel in a fresh environment
	rm -rf dist $(WHEEL)
	$(BIN)/python -m build --no-isolation
	$(PYTHON) -m venv $(WHEEL)
	$(WHEEL)/bin/python -m pip install --quiet $(PIP_FLAGS) -c constraints.txt dist/*.whl
	cd $(WHEEL) && bin/hpme --version && bin/hpme demo --size 40 --graphs 6 --train-steps 3 --out demo
	rm -rf $(WHEEL)

oldest:  ## Run the tests with the lowest versions that pyproject.toml allows
	test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet $(PIP_FLAGS) uv
	$(OLDEST)/bin/uv pip install --python $(OLDEST)/bin/python --resolution lowest-direct \
		-e '.[dev,chem,pandas,serve]'
	OMP_NUM_THREADS=1 $(OLDEST)/bin/python -m pytest -n 2

# Chemprop pins an older RDKit than the pictures in docs/results were drawn with. Of ADMET-AI only the
# published model files and the table of drugs are used.
chemprop:  ## Test Chemprop models, in an environment of their own
	test -x $(CHEMPROP)/bin/python || $(PYTHON) -m venv $(CHEMPROP)
	grep -v '^rdkit==' constraints.txt > $(CHEMPROP)/constraints.txt
	$(CHEMPROP)/bin/python -m pip install --quiet $(PIP_FLAGS) -c $(CHEMPROP)/constraints.txt \
		-e '.[dev,chemprop,parquet]'
	$(CHEMPROP)/bin/python -m pip install --quiet $(PIP_FLAGS) --no-deps admet-ai==2.0.1
	OMP_NUM_THREADS=1 $(CHEMPROP)/bin/python -m pytest tests/models tests/test_examples.py \
		tests/test_notebooks.py -k 'chemprop or admet or published_model'

clean:  ## Remove the environment, results and caches inside this folder
	rm -rf $(VENV) $(CHEMPROP) $(OLDEST) $(WHEEL) dist out site .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "Python 3.10 or newer is needed; run make PYTHON=/path/to/python3"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet $(PIP_FLAGS) -c constraints.txt -e '.[dev,chem,cluster,docs,myerson,parquet,serve]'
	@touch $@
