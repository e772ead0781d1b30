# Each of these is enough on a fresh clone: it sets up what it needs, visibly, and then does its work.
#   make demo    a node, producers, two groups, a crash in the middle, a replay, a report
#   make test    every test                make check   format, lint, types
#   make bench   side by side with Apache Kafka
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)

.PHONY: help install system demo test test-kafka check torture bench docs clean

help:
	@sed -n '2,4p' Makefile | cut -c3-

install: $(STAMP)

$(STAMP): pyproject.toml setup.py
	@test -n "$(PYTHON)" || { echo "Millstream needs Python 3.11 or newer; none was found on PATH." >&2; exit 1; }
	@echo "==> virtual environment in $(VENV) ($$($(PYTHON) --version))"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@echo "==> packages (a minute or two the first time)"
	@$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

system:
	@bash tools/system-packages

demo: install
	@$(BIN)/python examples/shop/demo.py

test: install system
	@$(BIN)/python -m pytest -n 2 --dist loadgroup

test-kafka: install system
	@MILLSTREAM_TEST_TARGET=kafka $(BIN)/python -m pytest tests/clients

check: install
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python -m docs.generate --check
	@$(BIN)/python -m pytest tests/architecture

torture: install
	@$(BIN)/python -m tests.faults.torture --minutes 10

bench: install system
	@$(BIN)/python -m benchmarks.run --write

docs: install
	@$(BIN)/python -m docs.generate

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache build dist
