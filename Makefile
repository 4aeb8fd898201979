# `make demo` and `make test` are the two commands of the README; `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv/bin
# A system-wide collection of the same name must not shadow the checkout.
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
export ANSIBLE_COLLECTIONS_PATH := $(CURDIR)/.collections
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Each task of a play runs in a process of its own; without byte code every one of them would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

SCENARIOS := default nightly_stack sgl_kernel sglang_service
SCENARIOS_FULL := $(sort $(notdir $(patsubst %/molecule.yml,%,$(wildcard molecule/*/molecule.yml))))

# Published engines, by the lock requirements/engines.txt.
ENGINES := $(CURDIR)/.cache/engines

# Scenarios wait for hosts much of the time, so two parts share two cores well. A failed part lets the others finish.
JOBS := 2
SIDE_BY_SIDE = STEP_LOGS=1 $(MAKE) --no-print-directory --keep-going -j$(JOBS)

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 18

.PHONY: setup
setup: ## Debian packages, .venv with the locked tools, the link that makes the checkout a collection
	@tools/setup.sh

.PHONY: setup-full
setup-full:
	@tools/setup.sh full

.PHONY: demo
demo: setup ## boot the lab, run site.yml over ssh, say where the report is; leaves the lab up
	@tools/demo.sh up

.PHONY: demo-down
demo-down: ## remove every trace of the demo
	@tools/demo.sh down

.PHONY: test
test: setup ## what CI runs: under 25 minutes on 2 cores
	@$(SIDE_BY_SIDE) $(addprefix molecule-,$(SCENARIOS)) unit lint sanity
	@echo "make test: all parts passed"

.PHONY: test-full
test-full: setup-full ## every fault and every scenario: under 80 minutes
	@$(SIDE_BY_SIDE) $(addprefix molecule-,$(SCENARIOS_FULL)) unit-full lint sanity lab-tests
	@echo "make test-full: all parts passed"

.PHONY: lint
lint: setup ## ansible-lint (production), ruff, mypy (strict), shellcheck
	@tools/step.sh ruff $(VENV)/ruff check .
	@tools/step.sh ruff-format $(VENV)/ruff format --check .
	@tools/step.sh mypy $(VENV)/mypy -p ansible_collections.blackwell.sglang.plugins
	@tools/step.sh shellcheck shellcheck $$(git ls-files '*.sh') .ci/run
	@tools/step.sh ansible-lint $(VENV)/ansible-lint --offline --profile production -q

.PHONY: unit
unit: setup ## unit tests, but for those that are marked slow (starts of many engines, the real benchmark client)
	@tools/step.sh unit $(VENV)/pytest -q tests/unit -m "not slow"

.PHONY: unit-full
unit-full: setup ## all unit tests, and the option table against four published engines (75 MB, fetched once)
	@tools/step.sh engine-packages $(VENV)/python tools/engine_packages.py $(ENGINES)
	@SGLANG_PACKAGES=$(ENGINES) tools/step.sh unit-full $(VENV)/pytest -q tests/unit

.PHONY: lab-tests
lab-tests: setup ## the lab itself: boots, reboots and leaves no trace
	@tools/step.sh lab-tests $(VENV)/pytest -q tests/lab/tests

.PHONY: sanity
sanity: setup ## ansible-test sanity, all tests, no ignores
	@tools/step.sh sanity tools/sanity.sh

.PHONY: molecule
molecule: $(addprefix molecule-,$(SCENARIOS)) ## the scenarios of the chain

.PHONY: molecule-full
molecule-full: $(addprefix molecule-,$(SCENARIOS_FULL)) ## every scenario

molecule-%: setup ## one scenario, for instance molecule-default
	@tools/step.sh $@ tools/molecule.sh $*

.PHONY: bench
bench: setup ## module calls and seconds of a no-change run against the demo
	@$(VENV)/python tests/bench/no_change.py

.PHONY: lock
lock: setup ## renew the locked requirements
	@.tools/uv/bin/uv pip compile -q --no-header --generate-hashes --universal --python-version 3.12 requirements/dev.in -o requirements/dev.txt
	@.tools/uv/bin/uv pip compile -q --no-header --generate-hashes --universal requirements/uv.in -o requirements/uv.txt
