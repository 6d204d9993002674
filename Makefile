# Two commands do everything: `make walk` trains a quadruped and proves it, `make test` checks the project.
# `make check` answers in two minutes, for every commit.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := PIP_CONSTRAINT= $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# The report's tests run in Chromium; without one they are skipped, so nothing fails where it cannot be had.
CHROMIUM = command -v chromium >/dev/null 2>&1 || { test "$$(id -u)" = 0 && test -f /etc/debian_version && \
  apt-get install --quiet --quiet --yes chromium >/dev/null 2>&1; } || true

.PHONY: help setup dev walk trot check fast test lint types release bench docs tables clean mjlab test-mjlab

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/.ready  ## make .venv with what training and evaluating need

dev: $(VENV)/.ready-dev  ## add what the tests need: every library that is compared, browsers' driver, linters

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Surefoot needs Python 3.11 or newer; set it with: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Setting up $(VENV) (about a minute the first time)"
	@$(PIP) -e .
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready
	@echo "Adding what tests need (a minute or two the first time)"
	@$(PIP) -e '.[dev]'
	@$(CHROMIUM)
	@touch $@

walk: setup  ## train walk-flat on this machine's CPU, evaluate it on the held-out panel, say where everything is
	@$(BIN)/surefoot train walk-flat

trot: setup  ## the same for trot-flat (gait clock and scripted lift)
	@$(BIN)/surefoot train trot-flat

lint: dev
	@$(BIN)/ruff check src tests benchmarks examples scripts docs/*.py
	@$(BIN)/ruff format --check src tests benchmarks examples scripts docs/*.py

# What answers in a minute on one core: the plan of the house, ids and kernels' texts, data, statistics, decisions on files.
FAST := tests/test_architecture.py tests/test_pins.py tests/test_project.py tests/contract tests/artifacts tests/statistics tests/keyed tests/terrain \
  tests/robots tests/rollout tests/compute tests/tasks tests/runs/test_golden.py tests/runs/test_checkpoint.py \
  --ignore=tests/statistics/test_intervals.py

types: dev
	@$(BIN)/mypy

check: lint  ## in two minutes: lint, types, the house's plan, and the tests that need no training
	@$(MAKE) --no-print-directory -j2 types fast

fast: dev
	@$(BIN)/python -m pytest $(FAST)

test: lint types  ## lint, type-check, check that all extras fit together, and test
	@$(BIN)/python -m pip --disable-pip-version-check check
	@$(BIN)/python -m pytest -n 2

release: dev  ## build wheel and sdist into dist/, check them, install them elsewhere and try them (needs a package index, minutes)
	@$(BIN)/python scripts/release.py

MJLAB := .venv-mjlab

mjlab: $(MJLAB)/.ready  ## make .venv-mjlab: mjlab pins an older MuJoCo, so it has an environment of its own

$(MJLAB)/.ready: pyproject.toml constraints-mjlab.txt
	@test -x $(MJLAB)/bin/python || $(PYTHON) -m venv $(MJLAB)
	@PIP_CONSTRAINT= $(MJLAB)/bin/python -m pip install --quiet --disable-pip-version-check \
	  -c constraints-mjlab.txt -e '.[mjlab]' pytest
	@touch $@

test-mjlab: mjlab  ## train one of mjlab's tasks for real, and walk-flat beside it
	@$(MJLAB)/bin/python -m pip --disable-pip-version-check check
	@$(MJLAB)/bin/python -m pytest tests/env/test_mjlab.py

docs: dev  ## build the site into build/docs; broken links, missing anchors and orphans fail
	@$(BIN)/python -m sphinx -q -W --keep-going -E docs build/docs
	@echo "Open build/docs/index.html"

tables: dev  ## fill every table of the documents from the JSON in benchmarks/
	@$(BIN)/python benchmarks/tables.py

bench: dev  ## measure CPU throughput and write benchmarks/cpu_throughput.json
	@$(BIN)/python benchmarks/cpu_throughput.py

clean:  ## remove .venv and caches (runs/ stays)
	rm -rf $(VENV) $(MJLAB) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist src/*.egg-info
