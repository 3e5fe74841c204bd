# `make help` lists the targets. All of them work in .venv, which is made when it is needed and
# brought up to date when pyproject.toml or requirements.lock has changed.

PORT ?= 8080
MODEL ?=
ARGS ?=
SEEDS ?= 10000
MINUTES ?= 5
# Processes that share the test files. They wait now and then, so there is one more than a small
# machine has cores. Each collects all tests, which takes ten seconds of a processor, and may serve
# the real model, so more need memory too.
JOBS ?= 3
# Without agents.py, which fetches a gigabyte of agents, and screenshots.py, which draws.
BENCH ?= $(sort $(filter-out bench/_% bench/agents.py bench/screenshots.py,$(wildcard bench/*.py)))

# If none is named, the first Python that is new enough and whole: the system's, since those that
# were compiled on the machine itself often lack its profiles and take a third more time, else one on
# the path. On macOS the system's only asks to be installed.
SYSTEM_PYTHON = $(if $(filter Linux,$(shell uname -s)),/usr/bin/python3)
PYTHON ?= $(shell for python in $(SYSTEM_PYTHON) python3 python3.13 python3.12 python3.11; do \
	$$python -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$python && break; done)

# Which MLX: part of it on macOS, a wheel of its own for a CUDA device, else the CPU's.
BACKEND ?= $(shell if [ "$$(uname -s)" = Darwin ]; then echo; \
	elif nvidia-smi -L >/dev/null 2>&1; then echo cuda; else echo cpu; fi)

VENV := .venv
BIN := $(VENV)/bin
# Two stamps, so that a first `make serve` need not wait for what only development needs.
RUN := $(VENV)/.installed-run
DEV := $(VENV)/.installed-dev
COMPILED := $(VENV)/.compiled
INSTALL = $(BIN)/python packaging/install.py
# Frameworks that agents are made with. They have environments of their own, because they agree
# neither with each other nor with us on what they need.
FRAMEWORKS := $(patsubst tests/sdk/loops/%.lock,build/clients/%/.installed,$(wildcard tests/sdk/loops/*.lock))
# What `make test` tries with a small model of random weights, and `make slow` with the default one.
WEIGHTLESS = tests/sdk tests/actors/test_held_rows.py tests/decisions/test_default_model.py \
	tests/grammar/test_default_model.py tests/processes/test_real_model.py
NODE_CLIENTS := tests/sdk/node/node_modules/.package-lock.json

comma := ,
RUN_EXTRAS = $(if $(BACKEND),[$(BACKEND)])
DEV_EXTRAS = [dev$(if $(BACKEND),$(comma)$(BACKEND))]

# Folders of scripts, where there are any.
SCRIPTS = $(foreach folder,bench examples,$(if $(wildcard $(folder)/*.py),$(folder)))
# All at once: what is ours by links under the name that it is imported by, and all other tests.
TYPED = tests/typing/headrace packaging $(filter-out tests/typing tests/__pycache__,\
	$(patsubst %/,%,$(wildcard tests/*/))) $(wildcard tests/*.py)
# The async rules have nothing to say on files without any of it, and are slow to find that out.
with_async = $(shell grep -rlE 'async|trio' --include='*.py' $(1))
# 102 is left out: it does not know our bounded_cleanup; tests/test_layers.py has a rule that does.
ASYNC_RULES := ASYNC101,ASYNC103,ASYNC104,ASYNC109,ASYNC110,ASYNC119,ASYNC120,ASYNC121,ASYNC123,ASYNC128
# Not for tests: those build what these forbid, and their fixtures are generators.
ASYNC_SOURCE_RULES := ASYNC111,ASYNC113,ASYNC900
# For the kernel alone: handlers above it are async because their callers are.
ASYNC_KERNEL_RULES := ASYNC910

# Else each of the processes compiles all that it imports anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help venv test tests check lint types async format serve bench explore stories soak mutants slow agents clients browser model lock clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

# Checks and tests share the cores: each of them waits a part of its time, for a server or a download.
test: $(DEV)  ## everything that a change must pass: checks and tests
	@$(MAKE) --no-print-directory -j 4 tests check

# Files, and groups of them that share a server (tests/conftest.py), keep their order, in which those
# that take long come early: by their numbers of tests they would come last.
tests: $(DEV) clients browser model $(COMPILED)
	$(BIN)/pytest -m "not slow" -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

check: lint types async  ## lint, format, types and the async rules

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV)
	$(BIN)/mypy $(TYPED) $(SCRIPTS)

async: $(DEV)
	@echo "flake8-async on runtime, actors, http, tests, scripts"
	@$(BIN)/flake8-async --enable $(ASYNC_RULES),$(ASYNC_SOURCE_RULES) $(call with_async,actors http $(SCRIPTS))
	@$(BIN)/flake8-async --enable $(ASYNC_RULES),$(ASYNC_SOURCE_RULES),$(ASYNC_KERNEL_RULES) $(call with_async,runtime)
	@$(BIN)/flake8-async --enable $(ASYNC_RULES) $(call with_async,tests)

format: $(DEV)  ## put every file in the house's format
	$(BIN)/ruff check --fix-only --select I .
	$(BIN)/ruff format .

serve: $(RUN)  ## serve a model: PORT=8080 MODEL=folder-or-hub-id ARGS="--max-rows 8"
	$(BIN)/headrace serve $(MODEL) --port $(PORT) $(ARGS)

bench: $(DEV)  ## measure, with the real model; BENCH=bench/x.py for one script
	@test -n "$(BENCH)" || { echo "there is no script in bench/" >&2; exit 2; }
	@for script in $(BENCH); do echo "== $$script"; $(BIN)/python $$script $(ARGS) || exit 1; done

explore: $(DEV)  ## run SEEDS=10000 schedules of the small scenarios on all cores
	$(BIN)/python -m headrace.runtime.testing.exploring --seeds $(SEEDS) --report build/explored.json $(ARGS)

stories: $(DEV)  ## run the explored tests with more seeds each: SEEDS=1000
	EXPLORE=1 $(BIN)/pytest -m explore --explore-seeds $(SEEDS) --timeout 3600 -o faulthandler_timeout=3600 $(ARGS)

soak: $(DEV)  ## real clients, faults and drops for MINUTES=5; fails if anything is not as promised
	PYTHONPATH=bench $(BIN)/python -m soak --minutes $(MINUTES) $(ARGS)

mutants: $(DEV)  ## put faults into a copy of the tree, and see that tests notice each
	PYTHONPATH=bench $(BIN)/python -m mutation --report build/mutants.md $(ARGS)

slow: $(DEV) $(FRAMEWORKS)  ## the tests that take too long for `make test`, and agents
	$(BIN)/pytest -m slow --timeout 1800 $(ARGS)
	@echo "and those that \`make test\` runs with a small model, with the default one"
	REAL_MODEL=1 $(BIN)/pytest -m "not slow" --timeout 1800 $(WEIGHTLESS)

agents: $(DEV) $(FRAMEWORKS)  ## a loop of an agent through each framework that people use
	$(BIN)/pytest -m slow tests/sdk/test_agents.py $(ARGS)

clients: $(NODE_CLIENTS)  ## install the Node clients that tests try the server with

# Before the tests, or the first that need it wait for it.
model: $(DEV)
	@$(BIN)/headrace pull >/dev/null

# Debian's, which has its driver beside it.
browser:  ## install the browser that tests try the web page with
	@mkdir -p build; if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then :; \
		elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "installing chromium for the tests of the web page"; \
			{ apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y \
				--no-install-recommends chromium chromium-driver; } >build/chromium.log 2>&1 || \
			echo "no chromium (see build/chromium.log): the tests of the web page will be skipped"; \
		else echo "there is no chromium: the tests of the web page will be skipped"; fi

venv: $(DEV)  ## make .venv with all that development needs
	@echo "$(BIN)/headrace is ready"

# Newest versions that pyproject.toml allows, as a fresh environment gets them.
lock:  ## write requirements.lock anew
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --disable-pip-version-check --quiet -e '.$(DEV_EXTRAS)'
	{ echo '# Versions that the checks run with: pip install -c requirements.lock. Made by `make lock`.'; \
		build/lock/bin/python -m pip freeze --exclude-editable; } > build/requirements.lock
	! grep -nE '@|://' build/requirements.lock
	mv build/requirements.lock requirements.lock && rm -rf build/lock

clean:  ## remove .venv and all else that is made here
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -rf tests/sdk/node/node_modules
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "headrace needs Python 3.11 or newer: make PYTHON=/path/to/python" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(RUN): pyproject.toml requirements.lock | $(BIN)/python
	@echo "installing headrace into $(VENV) (a minute or two the first time)"
	$(INSTALL) $(BIN)/python -c requirements.lock -e '.$(RUN_EXTRAS)'
	@touch $@

$(DEV): pyproject.toml requirements.lock | $(BIN)/python
	@echo "installing headrace and its tools into $(VENV) (a minute or two the first time)"
	$(INSTALL) $(BIN)/python -c requirements.lock -e '.$(DEV_EXTRAS)'
	@touch $(RUN) $@

# Once, and while others wait for downloads: else each of the processes that share the tests compiles
# thousands of modules at its start. What cannot be collected is told by the tests.
$(COMPILED): $(DEV)
	@$(BIN)/pytest --collect-only -qq >/dev/null 2>&1 || true
	@touch $@

# A lock file is the `pip freeze` of an environment that has the newest of what it is named for.
build/clients/%/.installed: tests/sdk/loops/%.lock | $(DEV)
	@echo "installing frameworks into $(@D)"
	rm -rf $(@D) && $(BIN)/python -m venv --without-pip $(@D)
	$(INSTALL) $(@D)/bin/python --no-deps -r $<
	@touch $@

$(NODE_CLIENTS): tests/sdk/node/package-lock.json
	@if command -v npm >/dev/null; then cd $(<D) && npm ci --ignore-scripts --no-audit --no-fund; \
		else echo "there is no npm: the checks of the Node clients will be skipped"; fi
