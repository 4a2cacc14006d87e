"""Imports before the first answer of a process: none that only writing, answering or a model needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import cast

import pytest

import kvstore
from kvstore.language.executor import _HANDLER_MODULES, load_handler
from kvstore.language.statements import Statement
from kvstore.registry import STRATEGIES, SYSTEMS, DeferredStrategy
from kvstore.sql.table_catalog import get_sql_tables

#: A process that opens a store and finds something.
ASKING = """
import sys, kvstore
with kvstore.open(sys.argv[1]) as store:
    assert store.search("harbour", using="lexical")
print(*sys.modules)
"""
#: Packages that nothing of this needs, each the first of many.
UNASKED = (
    "kvstore.answering",
    "kvstore.changes.changes",
    "kvstore.database.index_worker",
    "kvstore.database.owned_transaction",
    "kvstore.database.transaction",
    "kvstore.extraction",
    "kvstore.retrieval.dense_search",
    "kvstore.retrieval.phrase_search",
    "kvstore.structures.filter.entity_filter",
    "kvstore.structures.forest.forest",
    "kvstore.structures.vectors.vector_cache",
    "kvstore.text.text_query",
    "kvstore_migrations.format_6",
    "asyncio",
    "difflib",
    "email",
    "hashlib",
    "httpx",
    "importlib.metadata",
    "importlib.resources",
    "logging",
    "spacy",
    "statistics",
    "urllib.request",
)


def list_loaded_modules(path: Path, call: str) -> list[str]:
    """Return the modules that a new process has loaded after a call of a method of a small store."""
    with kvstore.open(path, embedder="hashing:16", settings={"language": "rules"}) as store:
        store.put("a", "The harbour is open.")
    program = ASKING.replace('search("harbour", using="lexical")', call)
    process = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return process.stdout.split()


def test_to_find_something_a_process_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    loaded = list_loaded_modules(tmp_path / "store", 'search("harbour", using="lexical")')
    assert [name for name in UNASKED if any(module == name or module.startswith(f"{name}.") for module in loaded)] == []
    searching = {type(strategy.strategy).__module__ for strategy in STRATEGIES.values()}  # type: ignore[attr-defined]
    assert searching.intersection(loaded) == {"kvstore.systems.lexical.strategy"}
    folders = {f"kvstore.systems.{name}" for name in SYSTEMS}
    assert folders.intersection(loaded) == {"kvstore.systems.lexical"}


#: Packages that a query of documents does not need.
UNQUERIED = (
    "kvstore.answering.answer",
    "kvstore.changes.changes",
    "kvstore.database.owned_transaction",
    "kvstore.database.transaction",
    "kvstore.derived",
    "kvstore.extraction",
    "kvstore.ingest",
    "kvstore.language.document_handlers",
    "kvstore.readers",
    "kvstore.sql.store_tables",
    "kvstore.structures.filter.entity_filter",
    "kvstore.structures.postings",
    "kvstore.systems",
    "kvstore.text.blocks",
    "kvstore.text.text_query",
    "difflib",
    "lark",
    "numpy",
    "regex",
)


def test_a_query_loads_neither_systems_nor_other_statements(tmp_path: Path) -> None:
    loaded = list_loaded_modules(tmp_path / "store", 'execute("SELECT * FROM documents").fetchall()')
    assert [
        name for name in UNQUERIED if any(module == name or module.startswith(f"{name}.") for module in loaded)
    ] == []


def test_a_query_of_a_systems_table_loads_that_system_alone(tmp_path: Path) -> None:
    loaded = list_loaded_modules(tmp_path / "store", 'execute("SELECT count(*) FROM units").fetchall()')
    folders = {f"kvstore.systems.{name}" for name in SYSTEMS}
    assert folders.intersection(loaded) == {"kvstore.systems.cue"}


@pytest.mark.parametrize("call", ['put("b", "The Harbour of Ellen is closed.")', 'put("a", "Closed.")'])
def test_a_new_document_loads_only_the_system_with_an_automatic_index(tmp_path: Path, call: str) -> None:
    loaded = list_loaded_modules(tmp_path / "store", call)
    folders = {f"kvstore.systems.{name}" for name in SYSTEMS}
    assert folders.intersection(loaded) == {"kvstore.systems.dense"}


def test_deleting_loads_no_code_that_only_a_new_document_needs(tmp_path: Path) -> None:
    loaded = list_loaded_modules(tmp_path / "store", 'delete("a")')
    rules = {"kvstore.extraction.prose", "kvstore.extraction.relations", "kvstore.extraction.syntax"}
    index_code = {"kvstore.database.index_worker", "kvstore.systems.dense"}
    systems = {f"kvstore.systems.{name}" for name in SYSTEMS}
    assert (rules | index_code | systems | {"hashlib", "kvstore.sql"}).intersection(loaded) == set()


def test_an_answer_loads_no_code_for_models_that_do_not_answer(tmp_path: Path) -> None:
    loaded = list_loaded_modules(tmp_path / "store", 'ask("Is the harbour open?").citations')
    unneeded = {"kvstore.models.llm", "kvstore.answering.answer_reader.reader", "onnxruntime", "tomllib"}
    assert unneeded.intersection(loaded) == set()


def test_every_statement_has_a_handler() -> None:
    statements = Statement.__subclasses__()
    rules = " ".join(_HANDLER_MODULES.values()).split()
    assert sorted(rules) == sorted(statement.rule for statement in statements)
    assert all(callable(load_handler(statement)) for statement in statements)


def test_every_table_has_the_name_of_the_catalog() -> None:
    assert all(table.name == name for name, table in get_sql_tables().items())


def test_a_store_that_is_opened_leaves_the_environment_as_it_was() -> None:
    program = "import os; had = dict(os.environ); import kvstore; kvstore.open; import numpy; assert had == os.environ"
    for environment in ({}, {"OPENBLAS_THREAD_TIMEOUT": "22"}):
        subprocess.run([sys.executable, "-c", program], env={**os.environ, **environment}, check=True)


def test_earlier_questions_do_not_change_a_strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    instances: list[str] = []

    class RecordingStrategy:
        name, description, options, needs = "late", "of this test", {}, "units"

        def __init__(self) -> None:
            instances.append("late")

    monkeypatch.setitem(
        sys.modules, "late_module", cast("ModuleType", SimpleNamespace(RecordingStrategy=RecordingStrategy))
    )
    late = DeferredStrategy("late", "late_module", "RecordingStrategy")
    assert late.name == "late"
    assert not instances
    assert not hasattr(late, "_get_private_block")
    assert (late.description, late.options, late.needs) == ("of this test", {}, "units")
    assert not hasattr(late, "overview")
    assert instances == ["late"]


@pytest.mark.parametrize("using", ["hybrid", "adaptive", "graph"])
def test_no_strategy_loads_masked_arrays(tmp_path: Path, using: str) -> None:
    """numpy does for its own operations on sets, which takes longer than the search."""
    with kvstore.open(tmp_path / "store", embedder="hashing:16", settings={"language": "rules"}) as store:
        for number in range(6):
            store.put(f"harbour {number}", f"The Harbour of Ellen {number % 2} is open. Ann Miller keeps it.")
    program = ASKING.replace(
        'search("harbour", using="lexical")', f'retrieve("When is the Harbour of Ellen open?", using={using!r}).hits'
    )
    process = subprocess.run([sys.executable, "-c", program, str(tmp_path / "store")], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert "numpy.ma" not in process.stdout.split()
    assert not {"kvstore.systems.cue", "kvstore.extraction"}.intersection(process.stdout.split())  # there are no units


def test_opening_loads_neither_questions_nor_words(tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "store", embedder="hashing:16", settings={"language": "rules"}) as store:
        store.put("a", "The harbour is open.")
    opening = "import sys, kvstore; kvstore.open(sys.argv[1]); print(*sys.modules)"
    process = subprocess.run([sys.executable, "-c", opening, str(tmp_path / "store")], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    unopened = {
        "numpy",
        "kvstore.language",
        "kvstore.retrieval.query",
        "kvstore.retrieval.evidence",
        "kvstore.text.words",
    }
    assert not unopened.intersection(process.stdout.split())
