# `make run` and `make test` are all there is to know; `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8000
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# everything here is many processes: what one of them compiled, the others only read
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help install install-test run test check unit reference e2e screenshots stress interop clients azure s3 matrix image bench bench-pages clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.installed ## Make .venv with the pinned dependencies

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "Python is missing: install Python 3.11 to 3.14, or name it with make PYTHON=/path/to/python3."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not ((3, 11) <= sys.version_info < (3, 15)))' || { echo "$$($(PYTHON) --version) does not fit: install Python 3.11 to 3.14, or name it with make PYTHON=/path/to/python3."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "The virtual environment could not be made: install Python's venv module (Debian: apt install python3-venv) and check that this directory is writable."; exit 1; }

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing dependencies into $(VENV) (a few minutes the first time) …"
	@$(BIN)/python -m pip install -q -c constraints.txt -e '.[server]' || { echo "Dependencies could not be installed: check that the package index can be reached and that the disk is not full, then run make again."; exit 1; }
	@touch $@

install-test: $(VENV)/.installed-test ## Make .venv with what the tests need as well

$(VENV)/.installed-test: $(VENV)/.installed
	@$(BIN)/python -m pip install -q -c constraints.txt -e '.[server,test]' || { echo "Test dependencies could not be installed: check that the package index can be reached, then run make again."; exit 1; }
	@touch $@

run: install ## Start everything with a demo lake; prints the URL and a login link
	@exec $(BIN)/python manage.py up --port $(PORT)

test: install-test check unit e2e ## Run every check and test, real services included

check: export SECRET_KEY := checking-only-never-used-to-sign-anything
check: install-test ## Lint, templates, types, layers, migrations; whether every test can be imported
	@$(BIN)/mypy & types=$$!; \
	{ $(BIN)/ruff check . && $(BIN)/ruff format --check . \
	&& $(BIN)/djlint --lint --quiet templates lakeui && $(BIN)/lint-imports && $(BIN)/deptry . \
	&& $(BIN)/python manage.py makemigrations --check --dry-run \
	&& { found=$$($(BIN)/pytest --collect-only -qq) || { echo "$$found"; false; }; }; } || { kill $$types; exit 1; }; \
	wait $$types

unit: install-test ## Tests but for the browser's, each in whichever of four processes is free
	@$(BIN)/python -m tests.prerequisites
	@$(BIN)/pytest -n 4 --dist loadgroup

reference: install-test ## Tests that read tables of other engines, where ../shared holds them
	@$(BIN)/pytest -n 2 --dist loadgroup -m "reference and not stress" tests/engine tests/lakeui/catalog

e2e: install-test ## Journeys in Chromium; skipped aloud where it is missing
	@DJANGO_ALLOW_ASYNC_UNSAFE=true $(BIN)/pytest -n 3 --dist loadgroup -m e2e tests/e2e

screenshots: install-test ## Pictures of every page into screenshots/
	@DJANGO_ALLOW_ASYNC_UNSAFE=true $(BIN)/python -m tests.e2e.screenshots

stress: install-test ## Hunt for races in parts (hours); RESUME=1 goes on, MINUTES=60 ends in time
	@$(BIN)/python -m tests.stress $(if $(RESUME),--resume) $(if $(MINUTES),--minutes $(MINUTES))

interop: install-test ## Take turns with delta-spark at the same tables; skipped aloud without Maven
	@$(BIN)/pytest -m interop tests/interop tests/workers/test_generated_clients.py

clients: install-test ## Run public clients' tests on this engine; S=mack runs one, WRITE=1 writes docs/interoperability.md
	@$(BIN)/python -m tests.clients $(S) $(if $(WRITE),--write)

azure: install-test ## Test the stores against an Azure emulator; skipped aloud without npm
	@$(BIN)/python -m tests.engine.storage.azurite

s3: install-test ## Test Spark on a second S3 server; skipped aloud without Go or Maven
	@$(BIN)/python -m tests.engine.storage.versitygw

matrix: install-test ## Run a few tests on each Python and Java of this machine; prints a table
	@$(BIN)/python -m tests.matrix

image: install-test ## Build and try the image's file system without a container engine; skipped aloud without debootstrap
	@$(BIN)/python -m tests.image

bench: install-test ## Side-by-side ratios into benchmarks/results.md; S=B15 shows one, WRITE=1 writes it
	@$(BIN)/python -m pip install -q -c constraints.txt -e '.[bench]'
	@$(BIN)/python -m benchmarks $(S) $(if $(WRITE),--write)

bench-pages: install-test ## Pages over ten million mirrored commits in two databases, into the same file (half an hour, 20 GB)
	@$(BIN)/python -m benchmarks.dashboard_load --write
	@$(BIN)/python -m benchmarks.dashboard_load --postgres --connections 16 --write

clean: ## Remove the environment, caches and everything the embedded stack kept
	@rm -rf $(VENV) var screenshots .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build *.egg-info
