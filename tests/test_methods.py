"""The language and the Python API say the same: each statement and its method, on stores that hold the same."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, astuple
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest
from model_server import Server, answer_units

import kvstore
from kvstore import errors
from kvstore.language import statements as s

Call = Callable[[kvstore.Store], Any]


def list_hit_rows(hits: list[kvstore.Hit], *, path: bool = False) -> list[tuple[Any, ...]]:
    return [
        (
            h.rank,
            h.score,
            h.document,
            h.ordinal,
            h.text,
            *([h.path, h.kind, list_span_rows(h.spans)] if path else []),
            h.ordinal,
        )
        for h in hits
    ]


def list_span_rows(spans: Sequence[kvstore.TextSpan]) -> list[dict[str, Any]]:
    return [asdict(span) | {"chunk": span.ordinal} for span in spans]


def list_answer_rows(answer: kvstore.Answer, store: kvstore.Store) -> list[tuple[Any, ...]]:
    cited = [
        {name: getattr(c, name) for name in ("number", "document", "ordinal", "start", "end")}
        | {"source": store.describe_document(c.document)["source"], "kind": c.kind, "spans": list_span_rows(c.spans)}
        | {"chunk": c.ordinal}
        for c in answer.citations
    ]
    confidence = round(answer.confidence, 3)
    span = None if answer.answer_span is None else asdict(answer.answer_span)
    return [
        (
            answer.text,
            cited,
            answer.extractive,
            answer.model,
            answer.dropped,
            confidence,
            answer.abstained,
            answer.outcome,
            span,
            answer.verdict,
            list(map(asdict, answer.parts)),
        )
    ]


def list_property_rows(properties: dict[str, Any]) -> list[tuple[str, Any]]:
    formatters = {list: "; ".join, dict: json.dumps}
    return [(name, formatters.get(type(value), lambda same: same)(value)) for name, value in properties.items()]


def list_strategy_rows(strategy: Any) -> list[tuple[str, str]]:
    options = strategy.options.items()
    about = [
        (f"option {n}", f"{o.description} ({o.low:g} to {o.high:g}, by default {o.default:g})") for n, o in options
    ]
    return [("name", strategy.name), ("description", strategy.description), *about]


def list_tuples(values: Iterable[Any], width: int | None = None) -> list[tuple[Any, ...]]:
    return [astuple(value)[:width] for value in values]


def get_extraction_row(report: kvstore.ExtractionReport) -> tuple[Any, ...]:
    calls = (report.calls, report.sent, report.received, report.refused)
    return (report.kind, report.model, report.passages, report.copied, *calls, report.left)


def list_single_columns(values: Iterable[Any]) -> list[tuple[Any]]:
    return [(value,) for value in values]


def list_table_rows(tables: Any) -> list[tuple[str, str, str]]:
    return [(table.name, ", ".join(column.name for column in table.columns), table.description) for table in tables]


def make_transaction_call(end: str) -> Call:
    """Return a call that puts a document in a transaction and ends it with a method."""

    def put_and_end(store: kvstore.Store) -> None:
        transaction = store.transaction()
        transaction.put("begun/" + end, "Payroll begins here.")
        getattr(transaction, end)()

    return put_and_end


def make_transaction_statements(end: str) -> str:
    return f"BEGIN; INSERT DOCUMENT 'begun/{end.lower()}' TEXT 'Payroll begins here.'; {end}"


#: The key of a community of two names that two documents name together.
COMMUNITY = "0/eva lund"
#: Of each statement: the class, a text, and the method that does the same. A list it returns is the statement's rows;
#: what the two stores hold afterwards is compared in any case.
PAIRS: list[tuple[type, str, Call]] = [
    (s.Ingest, "INGEST '{folder}/in'", lambda store: store.ingest(f"{get_folder(store)}/in")),
    (s.Extract, "EXTRACT units", lambda store: [get_extraction_row(store.extract("units"))]),
    (
        s.InsertDocument,
        "INSERT DOCUMENT 'pay' TITLE 'Pay' TEXT 'Payroll signs wages.' META '{{\"year\": 2024}}'",
        lambda store: store.put("pay", "Payroll signs wages.", title="Pay", meta={"year": 2024}),
    ),
    (
        s.UpdateDocument,
        "UPDATE DOCUMENT 'pay' SET TITLE = 'Wages', META = '{{\"year\": 2025}}'",
        lambda store: store.update("pay", title="Wages", meta={"year": 2025}),
    ),
    (
        s.Ingest,
        "INGEST '{folder}/triples.jsonl' AS triples",
        lambda x: x.put_triples("pay", [("Payroll", "reports to", "Treasury")], names=["Wage List"]),
    ),
    (
        s.Select,
        "SELECT subject, relation, object FROM triples WHERE document = 'pay'",
        lambda x: list(map(tuple, x.triples("pay"))),
    ),
    (
        s.InsertEdge,
        "INSERT EDGE 'Payroll' UNDER 'Finance' IN TREE 't'",
        lambda x: x.put_edge("Payroll", "Finance", tree="t"),
    ),
    (s.InsertEdge, "INSERT EDGE 'Cashier' UNDER 'Finance'", lambda x: x.put_edge("Cashier", "Finance")),
    (s.DeleteEdge, "DELETE EDGE 'Cashier' UNDER 'Finance'", lambda x: x.delete_edge("Cashier", "Finance")),
    (s.CreateAlias, "ALIAS 'Wage office' FOR 'Payroll'", lambda x: x.alias("Wage office", "Payroll")),
    (s.MergeEntity, "MERGE ENTITY 'Maria Jensen' INTO 'Payroll'", lambda x: x.merge("Maria Jensen", "Payroll")),
    (
        s.Lookup,
        "LOOKUP 'payroll', 'finance' LIMIT 3",
        lambda x: [astuple(row) for row in x.lookup("payroll", "finance", limit=3)],
    ),
    (s.Expand, "EXPAND DEPTH 2", lambda x: list_tuples(x.expand(depth=2))),
    (s.Expand, "EXPAND 'Finance' DOWN", lambda x: list_tuples(x.expand("Finance", direction="down"))),
    (
        s.Search,
        "SEARCH 'wages' USING lexical TOP 2",
        lambda x: list_hit_rows(x.search("wages", using="lexical", top=2)),
    ),
    (s.Search, "SEARCH 'wages' WHERE key LIKE 'p%'", lambda x: list_hit_rows(x.search("wages", where="key LIKE 'p%'"))),
    (
        s.Retrieve,
        "RETRIEVE 'Who signs wages?' USING bridge DEPTH 1 TOP 3 WITHIN 50 TOKENS WITH (pool = 0.5)",
        lambda x: list_hit_rows(
            x.retrieve("Who signs wages?", using="bridge", depth=1, top=3, within=50, options={"pool": 0.5}).hits,
            path=True,
        ),
    ),
    (
        s.Retrieve,
        "RETRIEVE 'Who signs wages?' AS SEGMENTS WITH (penalty = 0.1)",
        lambda x: list_hit_rows(
            x.retrieve("Who signs wages?", as_segments=True, options={"penalty": 0.1}).hits, path=True
        ),
    ),
    (s.Ask, "ASK 'Who signs wages?' TOP 2", lambda x: list_answer_rows(x.ask("Who signs wages?", top=2), x)),
    (s.Select, "SELECT key FROM documents ORDER BY key", lambda x: list_single_columns(x.keys(""))),
    (s.Select, "SELECT name, entity, kind FROM aliases ORDER BY name", lambda x: list_tuples(x.aliases())),
    (s.Select, "SELECT text FROM chunks WHERE document = 'pay'", lambda x: [(x.get("pay").text,)]),
    (
        s.Select,
        "SELECT name FROM entities WHERE key LIKE 'pay%'",
        lambda x: list_single_columns(x.names("pay")),
    ),
    (
        s.Show,
        "SHOW TABLES",
        lambda x: list_table_rows(x.tables()),
    ),
    (s.Show, "SHOW STRATEGIES", lambda x: [(known.name, known.description) for known in x.strategies()]),
    (s.Show, "SHOW SETTINGS", lambda x: x.settings_table()),
    (s.Show, "SHOW SPENT", lambda x: list(map(astuple, x.spent()))),
    (s.Show, "SHOW STATS", lambda x: list(x.statistics().items())),
    (s.DescribeTable, "DESCRIBE chunks", lambda x: list_tuples(x.describe_table("chunks").columns)),
    (s.DescribeDocument, "DESCRIBE DOCUMENT 'pay'", lambda x: list_property_rows(x.describe_document("pay"))),
    (s.DescribeEntity, "DESCRIBE ENTITY 'payroll'", lambda x: list_property_rows(x.describe_entity("payroll"))),
    (s.DescribeStrategy, "DESCRIBE STRATEGY bridge", lambda x: list_strategy_rows(x.describe_strategy("bridge"))),
    (s.Explain, "EXPLAIN SEARCH 'wages'", lambda x: list_tuples(x.explain("SEARCH 'wages'"), 3)),
    (
        s.Explain,
        "EXPLAIN SELECT 1 FROM chunks",
        lambda x: [astuple(step)[:3] for step in x.explain("SELECT 1 FROM chunks")],
    ),
    (
        s.CreateIndex,
        "CREATE INDEX synonyms WITH (similarity = 0.9)",
        lambda x: x.create_index("synonyms", {"similarity": 0.9}),
    ),
    (s.Show, "SHOW INDEXES", lambda x: list_tuples(x.indexes())),
    (s.Refresh, "REFRESH", lambda x: list_single_columns(x.refresh())),
    *(
        (
            s.InsertDocument,
            f"INSERT DOCUMENT '{key}' TEXT 'Tom Berg met Eva Lund.'",
            lambda x, key=key: x.put(key, "Tom Berg met Eva Lund."),
        )
        for key in ("berg", "lund")
    ),
    (s.CreateIndex, "CREATE INDEX communities", lambda x: x.create_index("communities")),
    (
        s.DescribeItem,
        f"DESCRIBE COMMUNITY '{COMMUNITY}'",
        lambda x: list_property_rows(x.describe("community", COMMUNITY)),
    ),
    (s.CreateIndex, "CREATE INDEX topics WITH (size = 5)", lambda x: x.create_index("topics", {"size": 5})),
    (s.ExpandIndex, "EXPAND TOPICS DEPTH 2", lambda x: list_tuples(x.outline("topics", depth=2))),
    (s.DropIndex, "DROP INDEX synonyms", lambda x: x.drop_index("synonyms")),
    (s.SetSetting, "SET top = 3", lambda x: x.set("top", 3)),
    (s.Show, "SHOW SETTINGS", lambda x: x.settings_table()),
    (s.Export, "EXPORT TO '{folder}/{store}.jsonl'", lambda x: x.export(f"{get_folder(x)}/{x.path.name}.jsonl")),
    (
        s.Copy,
        "COPY (SELECT key FROM documents) TO '{folder}/{store}.csv'",
        lambda x: x.execute(f"COPY (SELECT key FROM documents) TO '{get_folder(x)}/{x.path.name}.csv'"),
    ),
    (
        s.UpdateDocuments,
        "UPDATE documents SET title = upper(key) WHERE key LIKE 'b%'",
        lambda x: x.execute("UPDATE documents SET title = upper(key) WHERE key LIKE 'b%'"),
    ),
    (s.UnmergeEntity, "UNMERGE ENTITY 'Maria Jensen'", lambda x: x.unmerge("Maria Jensen")),
    (s.DropAlias, "DROP ALIAS 'Wage office'", lambda x: x.drop_alias("Wage office")),
    (s.DeleteDocument, "DELETE DOCUMENT 'pay'", lambda x: x.delete("pay")),
    (s.DeleteDocuments, "DELETE FROM documents WHERE key LIKE 'b%'", lambda x: x.delete_where("key LIKE ?", ("b%",))),
    (s.ImportFile, "IMPORT FROM '{folder}/{store}.jsonl'", lambda x: x.import_(f"{get_folder(x)}/{x.path.name}.jsonl")),
    (s.Begin, make_transaction_statements("ROLLBACK"), make_transaction_call("rollback")),
    (s.Rollback, make_transaction_statements("ROLLBACK"), make_transaction_call("rollback")),
    (s.Commit, make_transaction_statements("COMMIT"), make_transaction_call("commit")),
    (s.Check, "CHECK", lambda x: list_single_columns(x.check())),
    (s.Check, "CHECK REPAIR", lambda x: list_single_columns(x.repair().found)),
    (s.Backup, "BACKUP TO '{folder}/{store}.backup'", lambda x: x.backup(f"{get_folder(x)}/{x.path.name}.backup")),
    (s.Compact, "COMPACT", lambda x: [astuple(x.compact())]),
]

#: Methods that no statement stands for.
WORDLESS = {
    "ask_pieces",  # ASK, streamed
    "close",
    "dump",  # the shell's .dump shows it
    "embed",
    "export_table",  # EXPORT TO 'x.parquet' TABLE documents; needs an extra
    "flush",  # every commit does
    "forecast_extract",  # EXPLAIN EXTRACT shows it
    "forecast_ingest",  # EXPLAIN INGEST shows it
    "forecast_refresh",  # EXPLAIN REFRESH shows it
    "session",  # a connection is one
    "count",
    "get_many",
    "vectors",
    "delete_many",
    "put_many",
    "set_origins",
    "query",  # a statement within bounds
    "interrupt",
    "ingest_progress",  # INGEST with progress
    "language_model",  # MODEL names it
    "neighbours",  # kvstore graph draws them
    "nearest_names",  # what a message says of a name that is not known
    "not_in_dump",  # .dump reports it
    "prompt",  # EXPLAIN ASK shows it
    "snapshot",
    "state",  # for those who extend kvstore
    "weigh",  # EXPLAIN RETRIEVE shows it
}


def get_folder(store: kvstore.Store) -> Path:
    return store.path.parent


def list_content(store: kvstore.Store) -> list[Any]:
    """Return the whole content of a store except the times of its changes."""
    queries = (
        "SELECT key, title, meta, chunks FROM documents ORDER BY key",
        "SELECT child, parent, tree, document FROM edges ORDER BY child, parent, tree",
        "SELECT * FROM aliases ORDER BY name",
        "SELECT * FROM triples ORDER BY subject",
        "SELECT name, mentions FROM entities ORDER BY name",
        "SELECT name, value FROM settings WHERE NOT fixed",
    )
    return [store.execute(query).fetchall() for query in queries]


def drop_variable_rows(rows: list[Any]) -> list[Any]:
    """Return rows without the times and file sizes, which differ between two equal stores."""
    return [row for row in rows if row[0] not in ("changed", "path", "file_bytes", "used_bytes", "map_bytes")]


def test_each_statement_agrees_with_its_method(
    make_store: Callable[..., kvstore.Store], server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.respond = answer_units
    monkeypatch.setattr(kvstore.Store, "ask", partialmethod(kvstore.Store.ask, model="none"))
    # Otherwise, a file is recorded as ingested only if it did not change in the last seconds.
    monkeypatch.setattr("kvstore.ingest.file_visit.SETTLED_SECONDS", 0)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "people.md").write_text(
        "# People\n\nMaria Jensen runs Payroll for Finance. Payroll signs wages.\n"
    )
    (tmp_path / "in" / "hours.txt").write_text("Finance works from nine to five.\n")
    (tmp_path / "triples.jsonl").write_text(
        '{"id": "pay", "triples": [["Payroll", "reports to", "Treasury"]], "entities": ["Wage List"]}'
    )
    by_statement, by_method = make_store("said"), make_store("called")
    for _, text, call in PAIRS:
        cursor = by_statement.execute(text.format(folder=tmp_path, store="said"))
        rows = cursor.fetchall()
        returned = call(by_method)
        if isinstance(returned, list):
            assert drop_variable_rows(rows) == drop_variable_rows(returned), text
        assert list_content(by_statement) == list_content(by_method), text


def test_every_statement_and_every_method_is_compared() -> None:
    assert {kind for kind, _, _ in PAIRS} == set(s.Statement.__subclasses__())
    used: set[str] = set()
    for _, _, call in PAIRS:
        used.update(call.__code__.co_names)
    public = list_methods(kvstore.Store)
    assert public - WORDLESS == used & public
    assert list_methods(kvstore.Transaction) - public == {"commit", "rollback"}


def list_methods(class_: type) -> set[str]:
    return {name for name, value in inspect.getmembers(class_, inspect.isfunction) if name[0] != "_"}


@pytest.mark.parametrize(
    ("statement", "call"),
    [
        ("DESCRIBE planets", lambda x: x.describe_table("planets")),
        ("DESCRIBE DOCUMENT 'x'", lambda x: x.describe_document("x")),
        ("DESCRIBE ENTITY 'x'", lambda x: x.describe_entity("x")),
        ("DESCRIBE STRATEGY x", lambda x: x.describe_strategy("x")),
        ("DESCRIBE planet 'x'", lambda x: x.describe("planet", "x")),
        ("EXPLAIN BEGIN", lambda x: x.explain("BEGIN")),
        ("EXPLAIN SELECT 1; SELECT 2 FROM x", lambda x: x.explain("SELECT 1; SELECT 2")),
        ("UPDATE DOCUMENT 'x' SET TEXT = 'y'", lambda x: x.update("x", text="y")),
        ("UPDATE DOCUMENT '' SET TEXT = 'y'", lambda x: x.update("", text="y")),
        ("DELETE FROM documents WHERE x", lambda x: x.delete_where("x")),
        ("RETRIEVE 'x' USING x", lambda x: x.retrieve("x", using="x")),
        ("SET x = 1", lambda x: x.set("x", 1)),
    ],
)
def test_both_refuse_the_same(store: kvstore.Store, statement: str, call: Call) -> None:
    with pytest.raises(errors.KvstoreError):
        store.execute(statement)
    with pytest.raises(errors.KvstoreError):
        call(store)


def test_a_change_is_called_alike_on_a_store_and_in_a_transaction(store: kvstore.Store) -> None:
    changes = list_methods(kvstore.Transaction) - list_methods(kvstore.Snapshot) - {"commit", "rollback"}
    assert len(changes) == 14
    for name in changes:
        alone, inside = getattr(kvstore.Store, name), getattr(kvstore.Transaction, name)
        assert inspect.signature(alone) == inspect.signature(inside)
        assert inspect.getdoc(alone) != inspect.getdoc(inside)
        assert "\n\nRuns in its own transaction.\n\n" in str(inspect.getdoc(alone))
        assert "\n>>> " in str(inspect.getdoc(alone))
        with store.transaction(), pytest.raises(TypeError, match=rf"^{name}\(\) is missing the argument"):
            getattr(store, name)()  # reported before waiting for the writer's lock


def test_an_unknown_clause_is_a_type_error(store: kvstore.Store) -> None:
    with pytest.raises(TypeError, match="limit"):
        store.retrieve("x", limit=3)  # type: ignore[call-arg]
