"""Whatever a user gives, an error is one of kvstore's, or a TypeError for a wrong call, and names what is wrong."""

from __future__ import annotations

import copy
import fcntl
import inspect
import math
import pickle
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kvstore
from kvstore import errors
from kvstore.arguments import format_value

pytestmark = pytest.mark.public_api

#: A list that is too deep to be written, also for Python 3.13.
DEEP: list[Any] = []
for _ in range(20_000):
    DEEP = [DEEP]
#: A list that contains itself.
CYCLE: list[Any] = []
CYCLE.append(CYCLE)
WRONG: list[Any] = [0, -1, float("nan"), 2**70, "", "a\0b", "\ud800", "x" * 5000, b"x", [1], {1: 2}, object()]
WRONG += [DEEP, Decimal("1.5"), ["\ud800"]]
#: Arguments that every value fits, or that only take time.
LEFT_OUT = {"progress", "on_text", "timeout", "workers", "models", "value"}
#: What a method is given besides the wrong value.
RIGHT: dict[str, Any] = {
    "key": "tea",
    "text": "Some text.",
    "where": "key = 'x'",
    "triples": [("a", "b", "c")],
    "sql": "SELECT 1",
    "question": "What is tea?",
    "kind": "vectors",
    "keys": ["a"],
    "texts": ["a"],
}
CLAUSES = ("using", "depth", "top", "within", "where", "options", "vector", "parameters", "reranker")


class DataFrame(list[str]):
    """A fake data frame: its items are the names of its columns."""

    columns = ("key", "text")


def iter_calls() -> Iterator[tuple[type, str, str, bool, dict[str, Any]]]:
    """Yield every argument of every public method with the arguments that the call requires."""
    known = set()
    for class_ in (kvstore.Store, kvstore.Snapshot, kvstore.Transaction):
        for method, function in inspect.getmembers(class_, inspect.isfunction):
            inherited = (
                class_ is not kvstore.Store and hasattr(kvstore.Store, method) and method not in ("put", "update")
            )
            if method[0] == "_" or method in ("close", "state") or inherited:
                continue
            parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
            names = [(p.name, p.kind is p.VAR_POSITIONAL) for p in parameters if p.kind is not p.VAR_KEYWORD]
            if len(names) < len(parameters):
                names += [(name, False) for name in CLAUSES]
            needed = {p.name: RIGHT.get(p.name, "nowhere") for p in parameters if p.default is p.empty and p.kind < 2}
            for name, several in names:
                if name not in LEFT_OUT and (class_, method, name) not in known:
                    known.add((class_, method, name))
                    yield class_, method, name, several, needed


def call_and_ignore_errors(call: Callable[[], Any]) -> None:
    try:
        result = call()
        if isinstance(result, kvstore.Cursor):
            result.fetchall()
    except (errors.KvstoreError, TypeError):
        pass


def call_with_wrong_values(store: kvstore.Store, wrong: list[Any]) -> None:
    for class_, method, name, several, needed in iter_calls():
        for value in wrong:

            def call_method(target: Any, method: str = method, name: str = name, value: Any = value) -> Any:
                arguments = {} if several else {**needed, name: value}  # noqa: B023
                return getattr(target, method)(*([value] if several else []), **arguments)  # noqa: B023

            def call_on_class(class_: type = class_, call_method: Callable[..., Any] = call_method) -> Any:
                if class_ is kvstore.Store:
                    return call_method(store)
                with store.transaction() if class_ is kvstore.Transaction else store.snapshot() as target:
                    return call_method(target)

            try:
                call_and_ignore_errors(call_on_class)
            except Exception as error:
                raise AssertionError(f"{class_.__name__}.{method}({name}={format_value(value)}): {error!r}") from error
            if store.in_transaction:
                store.execute("ROLLBACK")


def test_no_value_of_an_argument_gives_another_error(
    store: kvstore.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store.put("tea", "Tea is made from leaves. Robert Fortune took it to India.", title="Tea")
    call_with_wrong_values(store, WRONG)


@pytest.mark.parametrize("name", ["path", "embedder", "settings", "lock_timeout", "max_bytes", "durability"])
def test_a_store_is_opened_with_nothing_wrong(name: str, tmp_path: Path) -> None:
    for number, value in enumerate(WRONG):
        arguments = {"path": tmp_path / str(number), "embedder": "hashing", name: value}
        call_and_ignore_errors(lambda arguments=arguments: kvstore.open(**arguments).close())
    with pytest.raises(errors.ArgumentError, match="NUL"):
        kvstore.open("a\0b")
    with pytest.raises(errors.ArgumentError, match="NUL"):
        kvstore.migrate("a\0b")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT cast(x'ff' as text)", "UTF-8"),
        ("EXPLAIN ANALYZE SELECT cast(x'ff' as text)", "UTF-8"),
        ("SELECT key FROM documents WHERE key = cast(x'ff' as text)", "UTF-8"),
        ("BACKUP TO 'a\0b'", "NUL"),
        ("EXPORT TO 'a\0b'", "NUL"),
        ("IMPORT FROM 'a\0b'", "NUL"),
        ("INGEST 'a\0b'", "NUL"),
        ("EXPLAIN INGEST 'a\0b'", "NUL"),
        ("BACKUP TO ''", "a path that is not empty"),
        ("EXPORT TO ''", "a path that is not empty"),
        ("IMPORT FROM ''", "a path that is not empty"),
        (f"BACKUP TO '{'x' * 5000}'", "4,096 bytes"),
        (f"EXPORT TO 'x/{'x' * 300}'", "255 bytes per name"),
        ("RETRIEVE 'x' TOP 0", "top takes 1 to 10,000, not 0"),
        ("RETRIEVE 'x' DEPTH 65", "depth takes 0 to 64, not 65"),
        ("ASK 'x' WITHIN 0 TOKENS", "within takes 1 or more, not 0"),
        ("SET top = 5.5", "top must be a whole number, not 5.5"),
        ("SET token_timeout = 'soon'", "token_timeout must be a number, not 'soon'"),
        ("ASK 'x' WORDS 0", "words takes 1 to 10,000, not 0"),
        ("LOOKUP 'x' LIMIT 0", "limit takes 1 or more, not 0"),
        ("EXPAND 'x' LIMIT 0", "limit takes 1 or more, not 0"),
        ("CREATE INDEX vectors WITH (exact_below = 9e999)", "exact_below must be a whole number"),
    ],
)
def test_the_error_of_a_statement_names_the_problem(store: kvstore.Store, statement: str, message: str) -> None:
    with pytest.raises(errors.KvstoreError) as caught:
        store.execute(statement).fetchall()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda store: store.ask("x", top=0), "top takes 1 to 10,000, not 0"),
        (lambda store: store.ask("x", top="3"), "ask(): top must be a whole number, not str '3'"),
        (
            lambda store: store.ask("x", top=np.ones(2)),
            "top must be a whole number, not ndarray array([1., 1.])",
        ),
        (lambda store: store.ask("x", top=DEEP), "ask(): top must be a whole number, not a list that cannot be shown"),
        (lambda store: store.flush(timeout=Decimal(1)), "flush(): timeout must be a number, not Decimal Decimal('1')"),
        (lambda store: store.ask("x", usng="b"), "ask() has no argument 'usng'; did you mean 'using'?"),
        (lambda store: store.retrieve("x", topp=1), "retrieve() has no argument 'topp'; did you mean 'top'?"),
        (lambda store: store.prompt("x", wehre="1"), "prompt() has no argument 'wehre'; did you mean 'where'?"),
        (lambda store: store.put("a", "b", titel="c"), "put() has no argument 'titel'; did you mean 'title'?"),
        (lambda store: store.get(ids=["a"]), "get() has no argument 'ids'; its argument is key"),
        (lambda store: store.delete(where="1"), "delete() has no argument 'where'; its argument is key"),
        (lambda store: store.set("tops", 3), "there is no session setting 'tops'; did you mean top?"),
        (lambda store: store.put("a"), "put() is missing the argument 'text'"),
        (
            lambda store: store.vectors(["a"]),
            "a chunk must be an id or a pair (document key, ordinal), not 'a'",
        ),
        (lambda store: store.create_index(), "create_index() is missing the argument 'kind'"),
        (
            lambda store: store.put("a", "b", "c"),
            "put() takes 2 positional arguments (key, text), not 3; pass the others by name",
        ),
        (
            lambda store: store.ingest("a", "b"),
            "ingest() takes 1 positional argument (paths), not 2; pass the others by name",
        ),
        (lambda store: store.get("a", "b"), "get() takes 1 positional argument (key), not 2; remove the others"),
        (
            lambda store: store.put_many({"key": "a", "text": "A."}),
            "put_many(): documents must be a sequence of mappings, not one mapping; put() stores one document",
        ),
        (
            lambda store: store.put_many(DataFrame()),
            "put_many(): documents must be a sequence of mappings, not DataFrame; pass its rows: "
            'to_dict("records") in pandas, to_dicts() in polars',
        ),
        (
            lambda store: store.keys(where="topic = 'tea'"),
            "there is no column topic; tables that have it: topics, topic_members; meta ->> 'topic' reads a field",
        ),
        (
            lambda _: kvstore.open("x", embeder="hashing"),  # type: ignore[call-arg]
            "kvstore.open() has no argument 'embeder'; did you mean 'embedder'?",
        ),
        (lambda _: kvstore.open("x", readonly=True), "check the path, or create one with kvstore.open()"),
        (lambda store: store.backup(store.path / "copy"), "copy: is inside the store"),
        (lambda store: store.delete_where(""), "the condition is empty; the condition true selects all documents"),
        (lambda store: store.describe("topics", "0"), "choose one of: community"),
        (
            lambda store: store.search("x", where=["year"]),
            "search(): where must be text or a mapping of names to values, not list",
        ),
        (
            lambda store: store.retrieve("x", where=["year"]),
            "retrieve(): where must be text or a mapping of names to values, not list",
        ),
        (
            lambda store: store.delete_where(1),
            "delete_where(): where must be text or a mapping of names to values, not int 1",
        ),
        (lambda store: store.lookup("x", limit=10**76), "limit takes 1 to 9,223,372,036,854,775,807, not an int of 77"),
        (lambda store: store.expand("x", depth=10**76), "depth takes 0 to 9,223,372,036,854,775,807, not an int of 77"),
        (
            lambda store: store.expand("x", limit=2**63),
            "limit takes 1 to 9,223,372,036,854,775,807, not 9",
        ),
        (
            lambda store: store.retrieve("x", within=10**76),
            "within takes 1 to 9,223,372,036,854,775,807, not an int of 77",
        ),
        (
            lambda store: store.names(limit=10**5000),
            "limit must be a whole number of at most 308 digits, not an int",
        ),
        (lambda store: store.ingest("x", time_limit=10**5000), "time_limit must be a number of at most 308 digits"),
        (lambda store: store.ingest("x", options={"a": 10**5000}), "options must map names to text or numbers"),
        (
            lambda store: store.retrieve("x", options={"fill": 10**76}),
            "option fill must be one of none, hybrid, not 1000",
        ),
        (lambda store: store.set("top", 10**5000), "top must be a number of at most 308 digits"),
        (lambda store: store.count("bytes < ?", (10**5000,)), "a parameter is a whole number of more than 64 bits"),
        (
            lambda store: store.query("SELECT 1", timeout=10**76),
            "the timeout must be a number of seconds above 0, at most 9,2",
        ),
        (
            lambda store: store.query("SELECT 1", timeout=math.inf),
            "the timeout must be a number of seconds above 0, at most 9,2",
        ),
        (lambda store: store.execute("SELECT 1").fetchmany(10**76), "size takes 0 to 9,223,372,036,854,775,807"),
        (lambda store: store.execute("SELECT 1").fetchmany(-1), "size takes 0 or more, not -1"),
        (lambda store: store.execute("LOOKUP 'x' LIMIT ?", (10**76,)), "from 0 to 10^18 - 1, but the value"),
        (lambda store: store.execute("SET top = ?", (10**5000,)), "a number of more than 308 digits; pass it as text"),
        (lambda store: store.execute("SET top = ?", (10**76,)), "top must be between"),
        (lambda store: store.get(5), "get(): key must be text, not int 5"),
        (lambda store: store.lookup("x", 5), "lookup(): names must be text, not int 5"),
        (lambda store: store.names(limit=-1), "limit takes 0 to"),
        (lambda store: store.put("k", 5), "put(): text must be text, not int 5"),
        (lambda store: store.put_triples("k", [("a", "b", 5)]), "a triple is a subject"),
        (lambda store: store.search("x", where="key = ?", parameters=(object(),)), "a parameter must be text"),
        (
            lambda store: store.transaction().delete_many("tea"),
            "keys must be a sequence, such as a list, not str",
        ),
        (lambda store: store.ingest(["a\0b"]), "a path to ingest must be a path without NUL characters"),
        (lambda store: store.ingest("x", options={1: 2}), "options must map names to text or numbers"),
        (lambda store: kvstore.open("x", embedder=5), "embedder must be a name, or an object"),
        (
            lambda store: kvstore.open("x", embedder=SimpleNamespace(name="mine", embed=len)),
            "the embedder mine has no dimension",
        ),
        (lambda store: store.execute(5), "execute(): sql must be text, not int 5"),
        (lambda store: store.ingest("x", prune="false"), "ingest(): prune must be True or False, not str 'false'"),
        (lambda store: store.put_many([], replace=None), "replace must be True or False, not NoneType None"),
        (lambda store: store.retrieve("x", as_segments="no"), "as_segments must be True or False, not str 'no'"),
        (lambda store: store.transaction(models=2), "transaction(): models must be True or False, not int 2"),
        (lambda _: kvstore.open("x", readonly="no"), "readonly must be True or False, not str 'no'"),  # type: ignore[arg-type]
        (lambda store: store.retrieve(["\ud800"]), "a question must be text that can be written as UTF-8"),
        (lambda store: store.ingest("x", progress=5), "ingest(): progress must be a function, not int 5"),
        (lambda store: store.put("a", "A.", meta={"b": "\ud800"}), "field 'b': it contains half of a surrogate pair"),
        (lambda store: store.put("a", "A.", meta={"b": {"c": DEEP}}), "nested more than 100 levels deep; flatten"),
        (lambda store: store.put("a", "A.", meta={"b": CYCLE}), "field 'b': a list or a mapping contains itself"),
    ],
)
def test_the_error_of_a_call_names_the_problem(
    store: kvstore.Store, call: Callable[[kvstore.Store], Any], message: str
) -> None:
    with pytest.raises((errors.KvstoreError, TypeError)) as caught:
        call(store)
    assert message in str(caught.value)


def test_a_timeout_is_any_real_number(store: kvstore.Store) -> None:
    for timeout in (np.float32(0.5), np.int64(1), Fraction(1, 2)):
        store.transaction(timeout=timeout).rollback()
        assert store.query("SELECT 1", timeout=timeout).fetchall() == [(1,)]
    for call in (store.transaction, lambda timeout: store.query("SELECT 1", timeout=timeout)):
        with pytest.raises(errors.ArgumentError, match="timeout must be a number of at most 308 digits"):
            call(timeout=Fraction(10**400))


def test_a_timeout_of_any_type_ends_the_wait_for_another_process(store: kvstore.Store) -> None:
    with (store.path / "writer.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for timeout in (np.float32(0.0625), np.float16(0.0625), Fraction(1, 16)):
            with pytest.raises(errors.LockTimeoutError, match=r"within 0\.0625"):
                store.transaction(timeout=timeout)
            connection = kvstore.dbapi.connect(store, timeout=timeout, autocommit=True)
            with pytest.raises(kvstore.dbapi.OperationalError, match=r"within 0\.0625"):
                connection.execute("DELETE DOCUMENT 'a'")
            connection.close()


def test_a_pickled_store_is_refused_with_the_remedy(store: kvstore.Store) -> None:
    for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"cannot be pickled or copied; pass its path, and open the store there"):
            duplicate(store)
