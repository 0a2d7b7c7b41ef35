# Every target makes its own virtual environment in $(VENV) and installs what it needs; only make and Python >= 3.11 are assumed.
# Choose another interpreter with `make test PYTHON=/path/to/python3.12`, another number of test processes with `make test JOBS=4`.
.DEFAULT_GOAL := help
.PHONY: help demo figures compiled test test-all test-bounds test-exhaustive test-versions lint format bench docs docs-check dist clean

VENV ?= .venv
JOBS ?= auto
SUITABLE = -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))'
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p $(SUITABLE) >/dev/null 2>&1 && { command -v $$p; break; }; done)
BIN = $(VENV)/bin
# One BLAS thread per test process: the processes already fill the cores.
ONE_THREAD = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
# Byte code is kept, whatever the environment says: tests start some hundred processes that would each compile the sources.
export PYTHONDONTWRITEBYTECODE =

help:
	@echo "make demo     fit classifiers and a count regressor to real data, print a table, write plots to demo-output/"
	@echo "make figures  draw the figures of README and doc"
	@echo "make test     run the tests but for the exhaustive ones"
	@echo "make test-all run every test; make test-exhaustive, of what make test leaves out, the part that CI runs"
	@echo "make test-versions run the tests with the oldest packages, and with the newest under every Python that is found"
	@echo "make test-bounds runs the models' tests with the bounds of compiled loops checked; make test-all does so too"
	@echo "make lint     ruff, mypy and who may import whom"
	@echo "make bench    print our figures beside other packages'"
	@echo "make docs     build the documentation into doc/_build/html, with its gallery"
	@echo "make docs-check builds it, looks for broken links and opens it in a browser, if there is a Chromium"
	@echo "make dist     build sdist and wheel into dist/, check them, try the wheel in an environment of its own"

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "No Python >= 3.11 with venv and ensurepip found; pass PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# $(VENV)/.installed-EXTRA marks the environment as holding the package and that extra of pyproject.toml. Byte code is made
# of what is imported, when it is: of all of it pip takes as long as to install it.
$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable ".[$*]"
	@touch $@

demo: $(VENV)/.installed-plot
	MPLBACKEND=Agg $(BIN)/python -m examples.demo

# The figures of README and doc.
figures: $(VENV)/.installed-plot
	MPLBACKEND=Agg $(BIN)/python -m examples.demo --output doc/_static
	MPLBACKEND=Agg $(BIN)/python -m examples.group_effects --output doc/_static
	MPLBACKEND=Agg $(BIN)/python -m examples.gp_bands --output doc/_static
	MPLBACKEND=Agg $(BIN)/python -m examples.van_drivers --output doc/_static
	MPLBACKEND=Agg $(BIN)/python -m tools.desks

PYTEST = $(ONE_THREAD) MPLBACKEND=Agg $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test: compiled
	$(PYTEST) -m "not exhaustive" $(PYTEST_ARGS)

test-all: $(VENV)/.installed-dev test-bounds
	$(PYTEST) $(PYTEST_ARGS)

# What the processes of the tests would each compile, once for all of them.
compiled: $(VENV)/.installed-dev
	$(ONE_THREAD) $(BIN)/python -m sksvi.precompile --n-jobs $(JOBS:auto=-1)

# The models' tests with every index of their compiled loops checked; compiled anew, elsewhere than the others.
test-bounds: $(VENV)/.installed-dev
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(VENV)/numba-bounds $(PYTEST) -m "not exhaustive" tests/models tests/families

test-exhaustive: $(VENV)/.installed-dev
	$(PYTEST) -m "exhaustive and not complete" $(PYTEST_ARGS)

test-versions:
	.ci/test-versions

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/house.py

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed-bench
	MPLBACKEND=Agg $(BIN)/python -m benchmarks

docs: $(VENV)/.installed-docs
	$(ONE_THREAD) $(BIN)/python -m sphinx -W --keep-going -b html doc doc/_build/html
	@echo "Open doc/_build/html/index.html"

# The built site: links inside it, and a walk in a browser (Debian's chromium, or another one on the path).
docs-check: $(VENV)/.installed-docs-check docs
	SKSVI_SITE=doc/_build/html $(BIN)/python -m pytest tests/site
dist: $(VENV)/.installed-dist
	.ci/dist $(BIN)/python

clean:
	rm -rf build dist *.egg-info doc/_build doc/auto_examples doc/reference/generated doc/reference/backreferences demo-output bench-output
	rm -rf .pytest_cache .mypy_cache .ruff_cache
