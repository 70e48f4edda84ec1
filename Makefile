# Every target that runs something sets up first, so that no old kernel goes on running after an
# edit. `make` alone prints what there is.

PY      := .venv/bin/python
BENCH   := .venv/bin/tidewire bench match
FILTERS ?= 100000
SEEDS   ?= 0..999
FUZZ_S  ?= 60
CHAOS_S ?= 180
KERNEL_TESTS = $(wildcard tests/kernel tests/matching tests/dataplane tests/property)

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench bench-quick sim papers screenshots docs constraints sanitize fuzz chaos clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## .venv with the pinned packages, and the kernel built from the sources as they stand
	@tools/setup.sh

demo: setup ## see it work: a network, people who want different things, and a channel on Spark
	@.venv/bin/tidewire demo

test: check ## everything: the checks, then the whole test suite, with a browser for the console's pages
	@tools/test_programs.sh
	$(PY) -m pytest --numprocesses 2 --dist loadfile

check: setup ## style, formatting, types, and which room may import which
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy src tests tools conftest.py
	.venv/bin/lint-imports

bench: setup ## the matcher on three workloads, beside the numpy scan (FILTERS=100000)
	$(BENCH) --workload stock --filters $(FILTERS)
	$(BENCH) --workload ranges --filters $(FILTERS)
	$(BENCH) --workload selective --filters $(FILTERS)

bench-quick: setup ## under three minutes: writes the ledger of ratios, fails on a drop of 15 %
	$(PY) -m tidewire.benchmarks.ledger

sim: setup ## long random runs: networks with faults in virtual time (SEEDS=0..999), then the property tests at length
	.venv/bin/tidewire sim --seeds $(SEEDS)
	$(PY) -m pytest -m hypothesis --hypothesis-profile=long

papers: setup ## the tests that cite the five papers, golden values among them
	$(PY) -m pytest $$($(PY) -m tools.papers_table --tests)
	@echo "paper section, module, test, experiment: docs/papers/README.md"

screenshots: setup ## both pages of the console at three widths, light and dark, to build/screenshots/
	@tools/test_programs.sh
	$(PY) -m tests.browser.screenshots

docs: setup ## write the generated parts of the documents again, then check every link
	$(PY) -m tools.papers_table --write
	$(PY) -m tools.check_links

constraints: ## choose the pinned packages anew, with the hashes of all their files
	tools/constraints.sh

sanitize: setup ## the kernel's tests under AddressSanitizer and UBSan
	tools/sanitize.sh $(KERNEL_TESTS)

fuzz: setup ## inputs that are almost right, then the kernel's tests, sanitized: about ten minutes (FUZZ_S=60 for each kind)
	TIDEWIRE_FUZZ_S=$(FUZZ_S) $(PY) -m pytest -s tests/fuzz
	TIDEWIRE_FUZZ_S=$(FUZZ_S) tools/sanitize.sh tests/fuzz -k "broker_hears or as_bytes"
	TIDEWIRE_FUZZ_S=$(FUZZ_S) tools/sanitize.sh $(KERNEL_TESTS) -m hypothesis --hypothesis-profile=fuzz

chaos: setup ## real brokers, executors and drivers of Spark, killed at random moments, under load: ten minutes (CHAOS_S=180)
	TIDEWIRE_CHAOS_S=$(CHAOS_S) $(PY) -m pytest -s tests/chaos

clean: ## forget everything that can be made again
	rm -rf .venv build dist .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests tools -name __pycache__ -prune -exec rm -rf {} +
	find src -name '*.so' -delete -o -name '*.bin' -delete
