# The commands a developer types. Each says what it does; what is longer than a line lives in ci/.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
DEMO_DIR ?= outputs/demo
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast layouts jax-tests lint format aarch64 bench clean distclean

help: ## this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv with everything pinned, build the native libraries (cached: a second run takes seconds)
	@$(PYTHON) ci/set_up.py

demo: setup ## train the debug Llama 3 for 30 steps on npu:0 with PyTorch (outputs in DEMO_DIR), then a decoder with JAX
	@bash ci/demo.sh "$(DEMO_DIR)"

test: setup ## every test: native (plain, and under AddressSanitizer), then Python, fast and slow
	@bash ci/test.sh

test-fast: setup ## the Python tests that take seconds
	@echo "[test] pytest -m 'not slow'"; .venv/bin/python -m pytest -m "not slow"

lint: setup ## ruff, mypy and clang-format, changing nothing
	@bash ci/lint.sh

format: setup ## rewrite Python and C++ to the house style
	@bash ci/lint.sh --write

aarch64: ## compile the C++ for aarch64 with a cross compiler (after setup)
	@bash ci/aarch64.sh

jax-tests: setup ## JAX's own tests on npu, from JAX_TESTS=the tests folder of jax-ml/jax at the tag of the installed version
	@echo "[jax-tests] python -m tests.conformance.jax $(JAX_TESTS)"; .venv/bin/python -m tests.conformance.jax "$(JAX_TESTS)"

layouts: setup ## train on every parallel layout and compare with one rank (about 20 minutes)
	@echo "[layouts] python -m tests.e2e.layouts"; .venv/bin/python -m tests.e2e.layouts

bench: setup ## the benchmarks, against plain CPU torch
	@echo "[bench] python -m benchmarks"; .venv/bin/python -m benchmarks

clean: ## remove build trees, caches and outputs; keep .venv
	@echo "[clean] build/ outputs/ and caches"; rm -rf build outputs .mypy_cache .ruff_cache .pytest_cache
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean ## clean, and remove .venv too
	@echo "[distclean] .venv"; rm -rf .venv
