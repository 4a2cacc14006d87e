"""Shared fixtures: stores that are checked at the end of a test, and model servers."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis_profile
import model_server
import pytest
from groups import mark_groups
from long_first import put_long_first

if TYPE_CHECKING:
    from kvstore import Store

hypothesis_profile.load_profile()

# Tests never use a model that the user of this machine has configured.
for _variable in ("KVSTORE_LLM_MODEL", "KVSTORE_LLM_URL", "KVSTORE_LLM_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
    os.environ.pop(_variable, None)

if os.environ.get("KVSTORE_TEST_NO_GC"):
    # Handles that are dropped must also close without the cyclic garbage collector.
    gc.disable()

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that runs the tests in its background has them ignore Ctrl-C, and so would every process they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


#: Suites of the group ``conformance`` whose imports take seconds.
_FRAMEWORK_SUITES = {"test_haystack.py", "test_langchain.py", "test_langgraph.py", "test_llamaindex.py"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the setting of pytest-asyncio if that is not installed."""
    if find_spec("pytest_asyncio") is None:
        parser.addini("asyncio_default_fixture_loop_scope", "a setting of pytest-asyncio")


def pytest_configure() -> None:
    """Stop if the environment is older than the checkout."""
    if find_spec("kvstore_english") is None:
        pytest.exit("kvstore_english is missing: make install, or pip install --no-deps --editable tools/english", 4)


def pytest_sessionstart() -> None:
    """Let the fast tests commit without waiting for the disk.

    A flush guards against a power failure, which no test can cause. The tests with many examples flush, and so does
    every new Python process that a test starts; a fork of this one does not.
    """
    if hypothesis_profile.IS_THOROUGH:
        return
    import lmdb

    open_environment = lmdb.open

    def open_without_flushes(*arguments: Any, **options: Any) -> lmdb.Environment:
        return open_environment(*arguments, **options | {"sync": False})

    lmdb.open = open_without_flushes
    os.fsync = lambda _: None


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Mark tests by group, then let every process begin with its share of the long tests of those that are selected."""
    mark_groups(items)
    yield
    processes = int(getattr(config, "workerinput", {}).get("workercount", 1))
    items[:] = put_long_first(items, lambda item: item.get_closest_marker("long") is not None, processes)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the suites of frameworks if none of their tests is selected."""
    is_suite = collection_path.name in _FRAMEWORK_SUITES
    return True if is_suite and "not conformance" in config.getoption("markexpr") else None


def pytest_collection_finish() -> None:
    """Exclude the test modules and what they import from garbage collection.

    A full collection of these half a million objects takes a third of a second, and many tests cause one.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def limit_cpu_time() -> Iterator[Callable[[float], None]]:
    """Yield a function that fails the test after so many seconds of CPU time of its process."""

    def limit(seconds: float) -> None:
        def fail_test(*_: object) -> None:
            pytest.fail(f"not finished after {seconds:g} s of CPU time")

        signal.signal(signal.SIGPROF, fail_test)
        signal.setitimer(signal.ITIMER_PROF, seconds)

    previous_handler = signal.getsignal(signal.SIGPROF)
    yield limit
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, previous_handler)


@pytest.fixture
def make_store(tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Yield a function that opens stores below ``tmp_path``, by default with the hashing embedder and names by rule.

    At the end of the test, every store that is still open must pass CHECK, and is closed.
    """
    import kvstore

    stores: list[Store] = []

    def make(name: str = "store", **options: Any) -> Store:
        path = tmp_path / name
        if not path.exists():
            options.setdefault("embedder", "hashing")
            options["settings"] = {"language": "rules", **options.get("settings", {})}
        store = kvstore.open(path, **options)
        stores.append(store)
        return store

    yield make
    findings = {}
    for store in stores:
        if not store.closed:
            findings[store.path.name] = store.check()
            store.close()
    assert not any(findings.values()), findings


@pytest.fixture(scope="session")
def template_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the stores that ``copy_store`` copies."""
    return tmp_path_factory.mktemp("filled")


@pytest.fixture
def copy_store(make_store: Callable[..., Store], template_folder: Path, tmp_path: Path) -> Callable[..., Store]:
    """Return a function that opens a copy of a store; each test process fills that store once."""
    import kvstore

    def copy(fill: Callable[[Store], object], settings: Mapping[str, Any] | None = None, **options: Any) -> Store:
        template = template_folder / f"{fill.__module__}.{fill.__qualname__}"
        if not template.exists():
            with kvstore.open(
                template, embedder="hashing", settings={"language": "rules", **(settings or {})}
            ) as store:
                fill(store)
        name = options.pop("name", "store")
        shutil.copytree(template, tmp_path / name)
        return make_store(name, **options)

    return copy


@pytest.fixture(scope="session")
def make_needed_indexes() -> Callable[[Store], None]:
    """Return a function that creates every index that a strategy needs."""
    from kvstore.registry import STRATEGIES

    def make(store: Store) -> None:
        needed = (getattr(strategy, "needs", None) for strategy in STRATEGIES.values())
        for kind in sorted({kind for kind in needed if kind is not None} - {index.kind for index in store.indexes()}):
            store.create_index(kind)

    return make


@pytest.fixture
def store(make_store: Callable[..., Store]) -> Store:
    """Return a new, empty store with the hashing embedder; it must pass CHECK at the end of the test."""
    return make_store()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[model_server.Server]:
    """Yield a language model server; the environment names it and the model ``tiny``."""
    from kvstore.models import endpoint, llm

    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(endpoint, "FIRST_PAUSE", 0.001)
    with model_server.Server() as llm_server:
        monkeypatch.setenv(llm.URL_VARIABLE, llm_server.url)
        monkeypatch.setenv(llm.KEY_VARIABLE, model_server.KEY)
        monkeypatch.setenv(llm.MODEL_VARIABLE, "tiny")
        thread = threading.Thread(target=llm_server.serve_forever, args=(0.01,))
        thread.start()
        yield llm_server
        llm_server.released.set()
        llm_server.shutdown()
        thread.join()


@pytest.fixture
def exclusive_ray() -> Iterator[None]:
    """Run one test at a time over all processes: these tests kill every Ray process."""
    pytest.importorskip("ray", reason="the extra ray is not installed; make test-slow installs it")
    with (Path(tempfile.gettempdir()) / f"kvstore-ray-tests-{os.getuid()}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
