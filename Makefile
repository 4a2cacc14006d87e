# make demo       a tour of the store, from a fresh clone
# make test       the tests; make test-slow: those that take long; make lint: style, types, floors of the house
# make clean      remove what was built
#
# Everything runs in .venv, made here with the first suitable Python found; PYTHON=... names another.

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TYPING := build/typing
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
	"$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
	&& { echo "$$python"; break; }; done)

# An activated environment must not be the one that pip and pytest see.
unexport VIRTUAL_ENV PYTHONHOME PYTHONPATH

.PHONY: demo test test-slow lint style types floors clean install

demo: install
	$(BIN)/kvstore demo

test: install
	$(BIN)/python -m pytest -q -n 2

test-slow: install
	$(BIN)/python -m pytest -q -n 2 -m slow

lint: style types floors

style: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	mkdir -p $(TYPING)
	ln -sfn ../../cext $(TYPING)/kvstore_cext
	ln -sfn ../../shell $(TYPING)/kvstore_shell
	ln -sfn ../../migrations $(TYPING)/kvstore_migrations
	$(BIN)/mypy

floors: install
	$(BIN)/lint-imports

install: $(INSTALLED)

$(INSTALLED): pyproject.toml setup.py $(wildcard cext/*.pyx cext/*.pxd cext/*.pxi) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[local,documents,llm,test]'
	touch $@

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer with venv found; install one, or name it: make PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache .grimp_cache
	rm -f cext/*.c cext/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
