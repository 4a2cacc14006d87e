"""Handles that are dropped without being closed: the store closes at once, with the cyclic garbage collector off.

Every public method of Store, Snapshot, Transaction, the database API and the shipped adapters is called. A method that
has no call here fails the test.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

import kvstore
from kvstore import dbapi, errors
from kvstore.integrations.explore.followed_store import FollowedStore
from kvstore.integrations.store_tools import StoreTools
from kvstore.registry import STRATEGIES
from kvstore.storage.environment import Environment, _environments

Call = Callable[[Any, Path], Any]

RULES = {"language": "rules"}
QUESTION = "Who took tea to India?"
CONDITIONS = (None, "key = 'tea'")

#: Calls of the methods that Store, Snapshot and Transaction share; the path is a folder to write to.
READING: dict[str, Call] = {
    "aliases": lambda store, folder: store.aliases(),
    "ask": lambda store, folder: [
        store.ask(QUESTION, using=name, where=condition) for name in STRATEGIES for condition in CONDITIONS
    ],
    "ask_pieces": lambda store, folder: store.ask_pieces(QUESTION),
    "count": lambda store, folder: (store.count(), store.count("key = 'tea'")),
    "describe": lambda store, folder: store.describe("community", "0/darjeeling"),
    "describe_document": lambda store, folder: store.describe_document("tea"),
    "describe_entity": lambda store, folder: store.describe_entity("India"),
    "dump": lambda store, folder: store.dump(),
    "expand": lambda store, folder: store.expand("India"),
    "get": lambda store, folder: store.get("tea"),
    "get_many": lambda store, folder: store.get_many(["tea", "milk"]),
    "indexes": lambda store, folder: store.indexes(),
    "keys": lambda store, folder: (store.keys(), store.keys(where={"year": 2024})),
    "lookup": lambda store, folder: store.lookup("India"),
    "names": lambda store, folder: store.names("i"),
    "nearest_names": lambda store, folder: store.nearest_names("Indai"),
    "neighbours": lambda store, folder: store.neighbours("India"),
    "not_in_dump": lambda store, folder: store.not_in_dump(),
    "outline": lambda store, folder: store.outline("topics"),
    "prompt": lambda store, folder: store.prompt(QUESTION),
    "retrieve": lambda store, folder: [
        store.retrieve(QUESTION, using=name, where=condition) for name in STRATEGIES for condition in CONDITIONS
    ],
    "search": lambda store, folder: store.search("tea"),
    "state": lambda store, folder: store.state().__enter__(),
    "triples": lambda store, folder: store.triples("tea"),
    "vectors": lambda store, folder: store.vectors([("tea", 0)]),
    "weigh": lambda store, folder: store.weigh(QUESTION),
}

CHANGING: dict[str, Call] = {
    "alias": lambda store, folder: store.alias("Bharat", "India"),
    "delete": lambda store, folder: store.delete("coffee"),
    "delete_edge": lambda store, folder: store.delete_edge("Darjeeling", "India", tree="places"),
    "delete_many": lambda store, folder: store.delete_many(["coffee"]),
    "delete_where": lambda store, folder: store.delete_where("key = 'coffee'"),
    "drop_alias": lambda store, folder: store.drop_alias("Hind"),
    "merge": lambda store, folder: store.merge("Darjeeling", "India"),
    "put": lambda store, folder: store.put("milk", "Milk goes into tea, says Robert Fortune."),
    "put_edge": lambda store, folder: store.put_edge("Assam", "India", tree="places"),
    "put_many": lambda store, folder: store.put_many([{"key": "milk", "text": "Milk goes into tea."}]),
    "put_triples": lambda store, folder: store.put_triples("tea", [("Robert Fortune", "went to", "India")]),
    "set_origins": lambda store, folder: store.set_origins({"tea": "/a/folder"}),
    "unmerge": lambda store, folder: store.unmerge("Robbie"),
    "update": lambda store, folder: store.update("tea", title="Of tea"),
}

STORE: dict[str, Call] = {
    **READING,
    **CHANGING,
    "backup": lambda store, folder: store.backup(folder / "copy"),
    "check": lambda store, folder: store.check(),
    "close": lambda store, folder: store.close(),
    "closed": lambda store, folder: store.closed,
    "compact": lambda store, folder: store.compact(),
    "create_index": lambda store, folder: [
        store.create_index(kind) for kind in ("synonyms", "vectors", "communities") if is_absent(store, kind)
    ],
    "describe_strategy": lambda store, folder: store.describe_strategy("graph"),
    "describe_table": lambda store, folder: store.describe_table("documents"),
    "drop_index": lambda store, folder: store.drop_index("units"),
    "embed": lambda store, folder: store.embed(["Tea."]),
    "embedder": lambda store, folder: store.embedder,
    "execute": lambda store, folder: store.execute("SELECT text FROM chunks"),
    "explain": lambda store, folder: store.explain("ASK 'Who took tea to India?'", analyze=True),
    "export": lambda store, folder: store.export(folder / "all.jsonl"),
    "export_table": lambda store, folder: store.export_table(folder / "chunks.arrow"),
    "extract": lambda store, folder: store.extract("relations"),
    "flush": lambda store, folder: (store.lookup("India"), store.flush()),
    "forecast_extract": lambda store, folder: store.forecast_extract("relations"),
    "forecast_ingest": lambda store, folder: store.forecast_ingest(write_page(folder)),
    "forecast_refresh": lambda store, folder: store.forecast_refresh(),
    "spent": lambda store, folder: store.spent(),
    "import_": lambda store, folder: (store.export(folder / "all.jsonl"), store.import_(folder / "all.jsonl")),
    "in_transaction": lambda store, folder: (store.execute("BEGIN"), store.in_transaction),
    "ingest": lambda store, folder: store.ingest(write_page(folder), workers=0),
    "ingest_progress": lambda store, folder: store.ingest_progress(write_page(folder), workers=0).__iter__(),
    "interrupt": lambda store, folder: store.interrupt(),
    "language_model": lambda store, folder: store.language_model("none"),
    "path": lambda store, folder: store.path,
    "query": lambda store, folder: store.query("SELECT key FROM documents"),
    "readonly": lambda store, folder: store.readonly,
    "refresh": lambda store, folder: store.refresh(),
    "repair": lambda store, folder: store.repair(),
    "session": lambda store, folder: (store.session(), store.session().count()),
    "set": lambda store, folder: store.set("top", 3),
    "settings": lambda store, folder: store.settings,
    "settings_table": lambda store, folder: store.settings_table(),
    "snapshot": lambda store, folder: store.snapshot(),
    "statistics": lambda store, folder: store.statistics(),
    "strategies": lambda store, folder: store.strategies(),
    "tables": lambda store, folder: store.tables(),
    "transaction": lambda store, folder: store.transaction(),
}

SNAPSHOT: dict[str, Call] = {**READING, "close": lambda snapshot, folder: snapshot.close()}

TRANSACTION: dict[str, Call] = {
    **READING,
    **CHANGING,
    "commit": lambda transaction, folder: (transaction.put("milk", "Milk goes into tea."), transaction.commit()),
    "open": lambda transaction, folder: transaction.open,
    "rollback": lambda transaction, folder: (transaction.put("milk", "Milk goes into tea."), transaction.rollback()),
}

CONNECTION: dict[str, Call] = {
    "autocommit": lambda connection, folder: connection.autocommit,
    "close": lambda connection, folder: connection.close(),
    "commit": lambda connection, folder: (
        connection.execute("INSERT DOCUMENT 'milk' TEXT 'Milk goes into tea.'"),
        connection.commit(),
    ),
    "cursor": lambda connection, folder: connection.cursor(),
    "execute": lambda connection, folder: connection.execute("INSERT DOCUMENT 'milk' TEXT 'Milk goes into tea.'"),
    "in_transaction": lambda connection, folder: connection.in_transaction,
    "rollback": lambda connection, folder: connection.rollback(),
}

CURSOR: dict[str, Call] = {
    "close": lambda cursor, folder: cursor.close(),
    "description": lambda cursor, folder: cursor.description,
    "execute": lambda cursor, folder: cursor.execute("SELECT text FROM chunks"),
    "executemany": lambda cursor, folder: cursor.executemany("DELETE DOCUMENT ?", [("coffee",)]),
    "fetchall": lambda cursor, folder: cursor.fetchall(),
    "fetchmany": lambda cursor, folder: cursor.fetchmany(1),
    "fetchone": lambda cursor, folder: cursor.fetchone(),
    "lastrowid": lambda cursor, folder: cursor.lastrowid,
    "message": lambda cursor, folder: cursor.message,
    "setinputsizes": lambda cursor, folder: cursor.setinputsizes([]),
    "setoutputsize": lambda cursor, folder: cursor.setoutputsize(1),
}

#: The arguments of each tool of StoreTools, and the other methods that it has.
TOOLS: dict[str, dict[str, Any]] = {
    "retrieve": {"question": QUESTION},
    "ask": {"question": QUESTION},
    "lookup": {"name": "India"},
    "expand": {"name": "India"},
    "select": {"sql": "SELECT key FROM documents"},
    "document": {"key": "tea"},
    "overview": {},
    "put": {"key": "milk", "text": "Milk goes into tea."},
    "delete": {"key": "coffee"},
    "put_edge": {"child": "Assam", "parent": "India"},
    "alias": {"name": "Bharat", "entity": "India"},
}
STORE_TOOLS: dict[str, Call] = {
    **{name: lambda tools, folder, name=name: tools.call(name, TOOLS[name]) for name in TOOLS},  # type: ignore[misc]
    "call": lambda tools, folder: tools.call("select", {"sql": "SELECT nothing FROM documents"}),
    "call_tool": lambda tools, folder: tools.call_tool("retrieve", {"question": QUESTION}),
    "format_error": lambda tools, folder: tools.format_error(errors.InputError("the key 'tea' is taken")),
    "list_documents": lambda tools, folder: tools.list_documents("", 10),
    "build_prompt": lambda tools, folder: tools.build_prompt(QUESTION),
    "read_text": lambda tools, folder: tools.read_text("tea"),
    "warm_up": lambda tools, folder: warm_tools(tools),
    "truncate_result": lambda tools, folder: tools.truncate_result("Tea."),
}

FOLLOWED: dict[str, Call] = {
    "close": lambda followed, folder: followed.close(),
    "interrupt": lambda followed, folder: (count_in_session(followed), followed.interrupt()),
    "path": lambda followed, folder: followed.path,
    "open_session": lambda followed, folder: count_in_session(followed),
}

#: Calls that raise an error, which must not keep the store open once it is handled.
FAILING: dict[str, Call] = {
    "a document that is no text": lambda store, folder: store.put("x", ""),
    "a statement that cannot be parsed": lambda store, folder: store.execute("SELEC 1"),
    "a column that is missing": lambda store, folder: store.execute("SELECT nothing FROM documents").fetchall(),
    "a statement after others": lambda store, folder: store.execute("SELECT 1; SELECT nothing FROM documents"),
    "a bounded query": lambda store, folder: store.query("SELECT nothing FROM documents"),
    "an entity that is missing": lambda store, folder: store.describe_entity("Atlantis"),
    "an alias of what is missing": lambda store, folder: store.alias("Lyonesse", "Atlantis"),
    "an index that is there": lambda store, folder: store.create_index("units"),
    "an index that is unknown": lambda store, folder: store.create_index("nothing"),
    "a file that is missing": lambda store, folder: store.import_(folder / "missing.jsonl"),
    "a backup that would replace": lambda store, folder: store.backup(folder),
    "a strategy that is unknown": lambda store, folder: store.ask(QUESTION, using="nothing"),
    "a condition that is wrong": lambda store, folder: store.ask(QUESTION, where="nothing = 1"),
    "a second transaction": lambda store, folder: (store.transaction(), store.put("x", "Text."), store.put("y", "T.")),
    "a transaction in a transaction": lambda store, folder: begin_twice(store),
    "a transaction of another thread": lambda store, folder: use_in_other_thread(store),
    "a snapshot that is closed": lambda store, folder: read_closed_snapshot(store),
    "an error of the caller": lambda store, folder: raise_in_transaction(store),
    "a compaction beside a snapshot": lambda store, folder: compact_with_snapshot(store),
}


def count_in_session(followed: FollowedStore) -> int:
    with followed.open_session() as session:
        return session.count()


def warm_tools(tools: StoreTools) -> None:
    tools.warm_up()
    for thread in threading.enumerate():
        if thread.name == "kvstore warm":
            thread.join()


def is_absent(store: kvstore.Store, kind: str) -> bool:
    return kind not in {index.kind for index in store.indexes() if index.state == "ready"}


def write_page(folder: Path) -> Path:
    (folder / "page.md").write_text("# Milk\n\nMilk goes into tea.")
    return folder / "page.md"


def begin_twice(store: kvstore.Store) -> None:
    with store.transaction() as transaction:
        transaction.put("x", "Some text.")
        store.put("y", "Some text.")


def use_in_other_thread(store: kvstore.Store) -> None:
    raised: list[BaseException] = []

    def put_document() -> None:
        try:
            transaction.put("x", "Some text.")
        except errors.KvstoreError as error:
            raised.append(error)

    transaction = store.transaction()
    thread = threading.Thread(target=put_document)
    thread.start()
    thread.join()
    del put_document
    raise raised.pop()


def read_closed_snapshot(store: kvstore.Store) -> None:
    snapshot = store.snapshot()
    snapshot.close()
    snapshot.ask(QUESTION)


def raise_in_transaction(store: kvstore.Store) -> None:
    with store.transaction() as transaction:
        transaction.put("x", "Some text.")
        for row in store.execute("SELECT text FROM chunks"):
            raise errors.KvstoreError(str(row))


def compact_with_snapshot(store: kvstore.Store) -> None:
    snapshot = store.snapshot()
    store._session.environment.compact(timeout=0)
    snapshot.close()


def list_public_names(kind: type, *, module_prefix: str = "") -> set[str]:
    """Return the public methods and properties of a class; optionally only those that a module prefix defines."""
    classes = [base for base in kind.__mro__ if base.__module__.startswith(module_prefix)]
    return {name for base in classes for name in vars(base) if not name.startswith("_") and hasattr(kind, name)} - {
        "model_config",
        "model_fields",
        "model_post_init",
    }


def list_open_environments(path: Path) -> list[Environment]:
    """Return the environments of the store at ``path`` that are alive and open."""
    return [
        environment
        for environment in list(_environments)
        if environment.path.resolve() == path.resolve() and not environment.closed
    ]


def open_descriptors(path: Path, *endings: str) -> list[str]:
    """Return the open files of this process below ``path`` with these endings."""
    targets = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            targets.append(os.readlink(descriptor))
    return [target for target in targets if target.startswith(f"{path.resolve()}/") and target.endswith(endings)]


def read_first(result: Any) -> None:
    """Read the first item of an iterator."""
    if isinstance(result, Iterator):
        next(result, None)


@pytest.fixture(scope="module")
def original_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with documents, names, edges, an alias, a merge, triples and indexes."""
    path = tmp_path_factory.mktemp("original") / "store"
    with kvstore.open(path, embedder="hashing", settings=RULES) as store:
        store.put("tea", "Tea is made from leaves. Robert Fortune took it to India.", title="Tea")
        store.put("coffee", "Coffee is brewed from seeds. Maria Jensen sold it in Darjeeling.", meta={"year": 2024})
        store.put_edge("Darjeeling", "India", tree="places")
        store.alias("Hind", "India")
        store.put_edge("Robbie", "Fortune", tree="people")
        store.merge("Robbie", "Robert Fortune")
        store.put_triples("tea", [("Robert Fortune", "took tea to", "India")])
        for year in range(1848, 1852):
            store.put(f"year {year}", f"In {year} Robert Fortune met Maria Jensen in Darjeeling. India was far.")
        for kind in ("units", "topics", "communities"):
            store.create_index(kind)
        assert store.outline("communities")
    return path


@pytest.fixture
def path(original_store: Path, tmp_path: Path) -> Path:
    """Return a copy of that store."""
    return Path(shutil.copytree(original_store, tmp_path / "store"))


@pytest.fixture(autouse=True)
def without_collector() -> Iterator[None]:
    """Switch the cyclic garbage collector off."""
    enabled = gc.isenabled()
    gc.disable()
    yield
    if enabled:
        gc.enable()


def assert_closed(path: Path, *dropped: weakref.ref[Any]) -> None:
    """Assert that the store is closed and can be opened again at once."""
    assert [reference() for reference in dropped if reference() is not None] == []
    assert list_open_environments(path) == []
    assert open_descriptors(path, ".mdb", ".lock") == []
    with kvstore.open(path, readonly=True) as store:
        assert store.count() >= 1
    with kvstore.open(path) as store:
        store.put("again", "Opened again.")


def assert_each_closes(
    path: Path, calls: Mapping[str, Call], open_handle: Callable[[Path], Any], *, may_fail: bool = False
) -> None:
    """Assert that the store is closed after each call of a dropped handle."""
    for name, call in calls.items():
        folder = Path(tempfile.mkdtemp(dir=path.parent))
        copy = Path(shutil.copytree(path, folder / "store"))
        handle = open_handle(copy)
        dropped = weakref.ref(handle)
        with suppress(errors.KvstoreError) if may_fail else nullcontext():
            read_first(call(handle, folder))
        del handle
        try:
            assert_closed(copy, dropped)
        except BaseException as error:
            raise AssertionError(f"{name}: {error}") from error


def test_the_issue(path: Path) -> None:
    assert kvstore.open(path).count() == kvstore.open(path).count() == 6
    assert kvstore.open(path, readonly=True).count() == kvstore.open(path, readonly=True).count() == 6


@pytest.mark.slow
@pytest.mark.parametrize("readonly", [False, True])
def test_every_method_of_a_store(path: Path, readonly: bool) -> None:
    assert list_public_names(kvstore.Store) == set(STORE)
    needs_model = {"extract", "forecast_extract"}
    arrow = {"export_table"}
    model_free_calls = {name: call for name, call in STORE.items() if name not in needs_model | arrow}
    assert_each_closes(path, model_free_calls, lambda path: kvstore.open(path, readonly=readonly), may_fail=readonly)
    remaining_calls = {name: STORE[name] for name in needs_model | arrow}
    assert_each_closes(path, remaining_calls, lambda path: kvstore.open(path, readonly=readonly), may_fail=True)


@pytest.mark.parametrize("readonly", [False, True])
def test_every_method_of_a_snapshot(path: Path, readonly: bool) -> None:
    assert list_public_names(kvstore.Snapshot) == set(SNAPSHOT)
    assert_each_closes(path, SNAPSHOT, lambda path: kvstore.open(path, readonly=readonly).snapshot())


def test_every_method_of_a_transaction(path: Path) -> None:
    assert list_public_names(kvstore.Transaction) == set(TRANSACTION)
    assert_each_closes(path, TRANSACTION, lambda path: kvstore.open(path).transaction())


@pytest.mark.parametrize("readonly", [False, True])
def test_calls_that_fail(path: Path, readonly: bool) -> None:
    def expect_failure(name: str, call: Call) -> Call:
        def call_and_fail(store: Any, folder: Path) -> None:
            with pytest.raises(errors.KvstoreError):
                read_first(call(store, folder))
                pytest.fail(f"{name} raised no error")

        return call_and_fail

    calls = {name: expect_failure(name, call) for name, call in FAILING.items()}
    assert_each_closes(path, calls, lambda path: kvstore.open(path, readonly=readonly))


def test_a_cursor_outlives_its_handle(path: Path) -> None:
    cursor = kvstore.open(path).execute("SELECT text FROM chunks")
    assert cursor.fetchone() is not None
    assert kvstore.open(path).count() == 6  # another handle on the store that the cursor reads
    assert cursor.fetchone() is not None
    del cursor
    assert_closed(path)


def test_pieces_of_an_answer_outlive_their_handle(path: Path) -> None:
    pieces = kvstore.open(path).ask_pieces(QUESTION)
    next(iter(pieces))
    assert kvstore.open(path).count() == 6
    del pieces
    assert_closed(path)


def test_a_store_that_is_full(path: Path) -> None:
    store = kvstore.open(path, max_bytes=1 << 20)
    with pytest.raises(errors.StoreFullError):
        store.put_many([{"key": f"note {number}", "text": "word " * 13_000, "chunks": "whole"} for number in range(30)])
    del store
    assert_closed(path)


def test_a_question_that_is_interrupted(path: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    store = kvstore.open(path)
    with pytest.raises(errors.QueryInterruptedError):
        store.query(endless, timeout=0.05)
    with pytest.raises(errors.QueryInterruptedError):
        threading.Timer(0.05, store.interrupt).start()
        store.query(endless)
    for thread in threading.enumerate():
        if thread.name == "kvstore query" or isinstance(thread, threading.Timer):
            thread.join()  # it ends at the next step of SQLite
    del store, thread
    assert_closed(path)


def test_an_index_that_is_extended_in_the_background(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kvstore.structures.indexes.index_building import IndexBuilder

    began = threading.Event()

    def build(*_: Any, is_cancelled: Callable[[], bool], **__: Any) -> bool:
        began.set()
        while not is_cancelled():
            pass
        return False

    store = kvstore.open(path)
    monkeypatch.setattr(IndexBuilder, "refresh", build)
    monkeypatch.setattr(IndexBuilder, "find_next_and_due_chunk", lambda *_: (1, 0))
    monkeypatch.setattr(IndexBuilder, "find_record_to_build", lambda *_: object())
    store.put("milk", "Milk goes into tea.")
    assert began.wait(10)
    del store
    monkeypatch.undo()
    assert_closed(path)


def test_every_method_of_a_connection(path: Path) -> None:
    assert list_public_names(dbapi.StoreConnection, module_prefix="kvstore") == set(CONNECTION) | {
        name for name in vars(dbapi.StoreConnection) if inspect.isclass(vars(dbapi.StoreConnection)[name])
    }
    assert_each_closes(path, CONNECTION, lambda path: dbapi.connect(path))
    assert_each_closes(path, CONNECTION, lambda path: dbapi.connect(path, readonly=True), may_fail=True)


def test_every_method_of_a_database_cursor(path: Path) -> None:
    def open_cursor(path: Path) -> Any:
        return dbapi.connect(path).execute("SELECT text FROM chunks")

    assert list_public_names(dbapi.StoreCursor, module_prefix="kvstore") - {
        "arraysize",
        "rowcount",
        "connection",
    } == set(CURSOR)
    assert_each_closes(path, CURSOR, open_cursor)
    failing_calls: dict[str, Call] = {
        "an error": lambda cursor, folder: cursor.execute("SELECT nothing FROM documents")
    }
    assert_each_closes(path, failing_calls, open_cursor, may_fail=True)


@pytest.mark.parametrize("condition", [None, "key <> 'coffee'"])
def test_every_tool(path: Path, condition: str | None) -> None:
    def open_tools(path: Path) -> StoreTools:
        return StoreTools(kvstore.open(path), write=True, where=condition)

    assert list_public_names(StoreTools) == set(STORE_TOOLS)
    assert set(StoreTools(kvstore.open(path), write=True).tools) == set(TOOLS)
    assert_each_closes(path, STORE_TOOLS, open_tools, may_fail=True)


def test_the_server_of_tools(path: Path) -> None:
    pytest.importorskip("mcp")
    from mcp import Client

    from kvstore.integrations.mcp_server import make_server

    async def call_tools(tools: StoreTools) -> None:
        async with Client(make_server(tools)) as client:
            for name, arguments in TOOLS.items():
                await client.call_tool(name, arguments)
            await client.call_tool("select", {"sql": "SELECT nothing FROM documents"})
            resources = (await client.list_resources()).resources
            await client.read_resource(resources[0].uri)
            await client.get_prompt("answer", {"question": QUESTION})

    store = kvstore.open(path)
    asyncio.run(call_tools(StoreTools(store, write=True)))
    store.close()  # a server of the SDK is in reference cycles of its own
    assert_closed(path)


def test_the_store_that_the_explorer_follows(path: Path) -> None:
    assert list_public_names(FollowedStore) | {"path"} == set(FOLLOWED)
    assert_each_closes(path, FOLLOWED, FollowedStore)


@pytest.mark.slow
def test_every_page_of_the_explorer(path: Path) -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("jinja2")
    from starlette.testclient import TestClient

    from kvstore.integrations.explore.application import PAGES, make_explorer

    followed = FollowedStore(path)
    client: Any = TestClient(make_explorer(followed, token="t", port=8642), base_url="http://127.0.0.1:8642")
    assert client.get("/", params={"token": "t"}).status_code == 200
    for page in PAGES:
        name = {"/doc/": "tea", "/entity/": "India"}.get(page.url, "")
        for suffix in ("", ".json", *page.representations):
            address = "/index" if page.url == "/" and suffix else page.url + name
            arguments = {"q": QUESTION, "question": QUESTION, "sql": "SELECT key FROM documents"}
            assert client.get(address + suffix, params=arguments).status_code < 500
    assert client.get("/sql", params={"sql": "SELECT nothing FROM documents", "q": "x"}).status_code < 500
    assert client.get("/doc/nothing").status_code == 404
    followed.close()  # applications of Starlette and templates of Jinja are in reference cycles of their own
    assert_closed(path)


def test_the_dialect_of_sqlalchemy(path: Path) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")

    engine = sqlalchemy.create_engine(f"kvstore:///{path}")
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text("SELECT key FROM documents")).fetchone()
        with pytest.raises(sqlalchemy.exc.DBAPIError):
            connection.execute(sqlalchemy.text("SELECT nothing FROM documents"))
    inspector = sqlalchemy.inspect(engine)
    for table in inspector.get_table_names():
        inspector.get_columns(table)
    engine.dispose()
    assert_closed(path)


def list_vector_store_calls() -> dict[str, Call]:
    """Return calls of LangChain's vector store."""
    from langchain_core.documents import Document

    milk = Document("Milk goes into tea.", id="milk")
    return {
        "add_documents": lambda store, folder: store.add_documents([milk]),
        "add_texts": lambda store, folder: store.add_texts(["Milk goes into tea."]),
        "close": lambda store, folder: store.close(),
        "delete": lambda store, folder: store.delete(["coffee"]),
        "embeddings": lambda store, folder: store.embeddings.embed_query(QUESTION),
        "from_texts": lambda store, folder: type(store).from_texts(["Milk."], store=store.store),
        "get_by_ids": lambda store, folder: store.get_by_ids(["tea"]),
        "max_marginal_relevance_search": lambda store, folder: store.max_marginal_relevance_search(QUESTION, k=2),
        "max_marginal_relevance_search_by_vector": lambda store, folder: store.max_marginal_relevance_search_by_vector(
            store.embeddings.embed_query(QUESTION), k=2
        ),
        "record_manager": lambda store, folder: store.record_manager().list_keys(),
        "similarity_search": lambda store, folder: store.similarity_search(QUESTION, using="hybrid"),
        "similarity_search_by_vector": lambda store, folder: store.similarity_search_by_vector(
            store.embeddings.embed_query(QUESTION)
        ),
        "similarity_search_with_score": lambda store, folder: store.similarity_search_with_score(QUESTION),
        # Of LangChain's own base class:
        "asimilarity_search": lambda store, folder: asyncio.run(store.asimilarity_search(QUESTION)),
        "as_retriever": lambda store, folder: store.as_retriever().invoke(QUESTION),
    }


def list_record_manager_calls() -> dict[str, Call]:
    """Return calls of LangChain's record manager."""
    return {
        "acreate_schema": lambda manager, folder: asyncio.run(manager.acreate_schema()),
        "adelete_keys": lambda manager, folder: asyncio.run(manager.adelete_keys(["coffee"])),
        "aexists": lambda manager, folder: asyncio.run(manager.aexists(["tea"])),
        "aget_time": lambda manager, folder: asyncio.run(manager.aget_time()),
        "alist_keys": lambda manager, folder: asyncio.run(manager.alist_keys()),
        "aupdate": lambda manager, folder: asyncio.run(manager.aupdate(["tea"])),
        "close": lambda manager, folder: manager.close(),
        "create_schema": lambda manager, folder: manager.create_schema(),
        "delete_keys": lambda manager, folder: manager.delete_keys(["coffee"]),
        "exists": lambda manager, folder: manager.exists(["tea"]),
        "get_time": lambda manager, folder: manager.get_time(),
        "list_keys": lambda manager, folder: manager.list_keys(),
        "update": lambda manager, folder: manager.update(["tea"]),
    }


def list_retriever_calls() -> dict[str, Call]:
    """Return calls of LangChain's retriever and, where it has them, of its document index."""
    return {
        "close": lambda retriever, folder: retriever.close(),
        "invoke": lambda retriever, folder: retriever.invoke(QUESTION),
        "ainvoke": lambda retriever, folder: asyncio.run(retriever.ainvoke(QUESTION)),
        "batch": lambda retriever, folder: retriever.batch([QUESTION, "What is coffee?"]),
        "stream": lambda retriever, folder: retriever.stream(QUESTION),
    }


def list_document_index_calls() -> dict[str, Call]:
    """Return calls of LangChain's document index."""
    from langchain_core.documents import Document

    return {
        **list_retriever_calls(),
        "delete": lambda index, folder: index.delete(["coffee"]),
        "get": lambda index, folder: index.get(["tea"]),
        "upsert": lambda index, folder: index.upsert([Document("Milk goes into tea.", id="milk")]),
    }


def list_embeddings_calls() -> dict[str, Call]:
    """Return calls of LangChain's embeddings."""
    return {
        "embed_documents": lambda embeddings, folder: embeddings.embed_documents(["Milk goes into tea."]),
        "embed_query": lambda embeddings, folder: embeddings.embed_query(QUESTION),
    }


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("KvstoreVectorStore", list_vector_store_calls),
        ("KvstoreRecordManager", list_record_manager_calls),
        ("KvstoreRetriever", list_retriever_calls),
        ("KvstoreDocumentIndex", list_document_index_calls),
        ("KvstoreEmbeddings", list_embeddings_calls),
    ],
)
def test_every_method_of_an_adapter_for_langchain(path: Path, name: str, calls: Callable[[], dict[str, Call]]) -> None:
    pytest.importorskip("langchain_core")
    from kvstore.integrations import langchain

    kind = getattr(langchain, name)

    def open_adapter(path: Path) -> Any:
        if name == "KvstoreEmbeddings":
            return kind(kvstore.open(path))
        return kind(path=path)

    assert {"Kvstore" + suffix for suffix in ("VectorStore", "RecordManager", "Retriever", "DocumentIndex")} | {
        "KvstoreEmbeddings"
    } == set(langchain.__all__)
    assert list_public_names(kind, module_prefix="kvstore") <= set(calls())
    assert_each_closes(path, calls(), open_adapter)


@pytest.mark.slow
def test_every_method_of_the_adapters_for_llamaindex(path: Path) -> None:
    pytest.importorskip("llama_index.core")
    from llama_index.core.schema import TextNode
    from llama_index.core.vector_stores.types import VectorStoreQuery

    from kvstore.integrations import llamaindex

    node = TextNode(id_="milk", text="Milk goes into tea.", embedding=[1.0] + [0.0] * 255)
    vectors: dict[str, Call] = {
        "add": lambda store, folder: store.add([node]),
        "class_name": lambda store, folder: store.class_name(),
        "clear": lambda store, folder: store.clear(),
        "client": lambda store, folder: store.client,
        "close": lambda store, folder: store.close(),
        "delete": lambda store, folder: store.delete("coffee"),
        "delete_nodes": lambda store, folder: store.delete_nodes(["coffee"]),
        "get": lambda store, folder: store.get("tea"),
        "get_nodes": lambda store, folder: store.get_nodes(["tea"]),
        "query": lambda store, folder: store.query(VectorStoreQuery(query_embedding=[1.0] * 256, similarity_top_k=2)),
    }
    retriever: dict[str, Call] = {
        "close": lambda retriever, folder: retriever.close(),
        "retrieve": lambda retriever, folder: retriever.retrieve(QUESTION),
        "aretrieve": lambda retriever, folder: asyncio.run(retriever.aretrieve(QUESTION)),
    }
    assert set(llamaindex.__all__) == {"KvstoreRetriever", "KvstoreVectorStore"}
    assert list_public_names(llamaindex.KvstoreVectorStore, module_prefix="kvstore") <= set(vectors)
    assert list_public_names(llamaindex.KvstoreRetriever, module_prefix="kvstore") <= set(retriever)
    assert_each_closes(path, vectors, lambda path: llamaindex.KvstoreVectorStore(path))
    assert_each_closes(path, retriever, lambda path: llamaindex.KvstoreRetriever(path))


@pytest.mark.slow
def test_every_method_of_the_adapters_for_haystack(path: Path) -> None:
    pytest.importorskip("haystack")
    from haystack import Document
    from haystack.document_stores.types import DuplicatePolicy

    from kvstore.integrations import haystack

    filters = {"field": "meta.year", "operator": "==", "value": 2024}
    documents = [Document(id="milk", content="Milk goes into tea."), Document(id="sea", content="It is salty.")]
    calls: dict[str, Call] = {
        "close": lambda store, folder: store.close(),
        "count_documents": lambda store, folder: store.count_documents(),
        "count_documents_by_filter": lambda store, folder: store.count_documents_by_filter(filters),
        "count_unique_metadata_by_filter": lambda store, folder: store.count_unique_metadata_by_filter(
            filters, ["year"]
        ),
        "delete_all_documents": lambda store, folder: (store.delete_all_documents(), store.write_documents(documents)),
        "delete_by_filter": lambda store, folder: store.delete_by_filter(filters),
        "delete_documents": lambda store, folder: store.delete_documents(["coffee"]),
        "filter_documents": lambda store, folder: store.filter_documents(filters),
        "get_metadata_field_min_max": lambda store, folder: store.get_metadata_field_min_max("year"),
        "get_metadata_field_unique_values": lambda store, folder: store.get_metadata_field_unique_values("year"),
        "get_metadata_fields_info": lambda store, folder: store.get_metadata_fields_info(),
        "to_dict": lambda store, folder: store.to_dict(),
        "update_by_filter": lambda store, folder: store.update_by_filter(filters, {"year": 2025}),
        "write_documents": lambda store, folder: store.write_documents(documents, DuplicatePolicy.SKIP),
    }
    calls |= {
        f"{name}_async": lambda store, folder, name=name: asyncio.run(getattr(store, f"{name}_async")(filters))
        for name in ("count_documents_by_filter", "delete_by_filter", "filter_documents")
    }
    names = {
        name.removesuffix("_async")
        for name in list_public_names(haystack.KvstoreDocumentStore, module_prefix="kvstore")
    }
    assert names <= {*calls, "from_dict"}
    assert_each_closes(path, calls, lambda path: haystack.KvstoreDocumentStore(path))
    # Haystack's components contain reference cycles, so a dropped retriever waits for the garbage collector.


def test_every_method_of_the_adapter_for_langgraph(path: Path) -> None:
    pytest.importorskip("langgraph")
    from kvstore.integrations import langgraph

    calls: dict[str, Call] = {
        "abatch": lambda store, folder: asyncio.run(store.aput(("users",), "ann", {"text": "Ann likes tea."})),
        "batch": lambda store, folder: (
            store.put(("users",), "ann", {"text": "Ann likes tea."}),
            store.search(("users",), query="tea"),
            store.get(("users",), "ann"),
            store.list_namespaces(),
        ),
        "close": lambda store, folder: store.close(),
        "supports_ttl": lambda store, folder: store.supports_ttl,
        "sweep_ttl": lambda store, folder: store.sweep_ttl(),
    }
    assert list_public_names(langgraph.KvstoreStore, module_prefix="kvstore") <= set(calls)
    assert_each_closes(path, calls, lambda path: langgraph.KvstoreStore(path))
