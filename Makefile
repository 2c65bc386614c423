# Everything runs in a virtual environment of its own; a fresh machine needs python3, g++ and make.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
EXTRAS ?= dev,test,bdd,peers,ray
CORE   := $(wildcard src/_core/*/*)

.PHONY: all demo test cluster quick torture lint docs wheel bench clean
all: $(VENV)/.built

$(VENV)/.ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check scikit-build-core nanobind cmake ninja
	touch $@

$(VENV)/.built: $(VENV)/.ready CMakeLists.txt $(CORE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -e '.[$(EXTRAS)]'
	touch $@

test: $(VENV)/.built
	$(BIN)/python -m pytest -m "not cluster" -n auto --dist loadfile

cluster: $(VENV)/.built   # the tests that start a Ray cluster: minutes, and several processes at once
	$(BIN)/python -m pytest -m cluster tests/workers

quick: $(VENV)/.built
	POLVET_QUICK=1 $(BIN)/python -m pytest -m "not slow and not cluster" -x -n 2

torture: $(VENV)/.built   # random worlds, plans, policies, kills and damaged files for TORTURE_SECONDS (20 minutes); false claims
	$(BIN)/python -m tests.torture
	$(BIN)/python -m tests.attack --claims 10000

lint: $(VENV)/.built
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(VENV)/.documented
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

$(VENV)/.documented: $(VENV)/.built mkdocs.yml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -e '.[docs]'
	touch $@

wheel: $(VENV)/.built
	PYTHON=$(BIN)/python .ci/wheel

demo: $(VENV)/.built
	POLVET=$(BIN)/polvet sh examples/demo.sh

bench: $(VENV)/.built
	for script in exploring mdp policies simulation termination safety shields fuzzing repair verification debugging; do \
	    $(BIN)/python -m benchmarks.$$script || exit 1; done

clean:
	rm -rf $(VENV) build
