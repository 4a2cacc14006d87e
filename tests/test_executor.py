"""Statements carried out on a store: what they give, what they change, and what they refuse."""

from __future__ import annotations

import contextlib
import io
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples
from model_server import Server, answer_context, answer_units, stream_answer
from page_running import WIDTH, find_difference, parse_blocks, read_language_pages

import kvstore
from kvstore import errors
from kvstore.database.transaction import Transaction
from kvstore.language import query_handlers
from kvstore.language.grammar_parsing import get_keywords
from kvstore.language.parser import parse
from kvstore_shell import render

PAGE = read_language_pages()
LEAVE = "Parental leave lasts twenty weeks. Maria Jensen approves it at Acme Corporation."
PAY = "Wages are paid on the last day. Maria Jensen signs them."
TREE = "Payroll,Finance\nFinance,Administration\n"


def fill_store(store: kvstore.Store) -> kvstore.Store:
    """Put two documents and a tree."""
    store.put("hr/leave", LEAVE, title="Leave", meta={"year": 2024})
    store.put("hr/pay", PAY, title="Pay")
    store.put("tree.csv", TREE, format="pairs")
    return store


@pytest.fixture
def filled_store(copy_store: Callable[..., kvstore.Store]) -> kvstore.Store:
    """Return a store of two documents and a tree."""
    return copy_store(fill_store)


@pytest.fixture(scope="module")
def readonly_example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kvstore.Store]:
    """Yield the same store, for tests that change nothing."""
    path = tmp_path_factory.mktemp("unchanged") / "store"
    with kvstore.open(path, embedder="hashing", settings={"language": "rules"}) as store:
        yield fill_store(store)
        assert store.check() == []


def fetch_rows(store: kvstore.Store, text: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
    return store.execute(text, parameters).fetchall()


@pytest.mark.slow
def test_every_example_of_the_page_runs(
    store: kvstore.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KVSTORE_LLM_URL", server.url)
    monkeypatch.setenv("KVSTORE_LLM_MODEL", "stub")
    answers_by_schema = {"units": answer_units, "context": answer_context}
    server.respond = lambda request: (
        answers_by_schema[request["response_format"]["json_schema"]["name"]](request)
        if "response_format" in request
        else stream_answer("So it is [1].")
    )
    (tmp_path / "handbook").mkdir()
    (tmp_path / "handbook" / "wages.md").write_text("# Wages\n\nThe Payroll pays wages to every employee.\n")
    (tmp_path / "archive" / "2023").mkdir(parents=True)
    (tmp_path / "archive" / "2023" / "moves.md").write_text("# Moves\n\nThe Payroll moved to Oslo.\n")
    (tmp_path / "triples.jsonl").write_text('{"id": "hr/leave", "triples": [["Maria Jensen", "works in", "Payroll"]]}')
    (tmp_path / "units.jsonl").write_text(
        '{"id": "hr/leave", "units": ["Parental leave was approved by Maria Jensen."]}'
    )
    (tmp_path / "departments.csv").write_text("child;parent\nPayroll;Finance\nFinance;Administration\n")
    for example in parse_blocks(PAGE):
        if example.language == "python":
            exec(example.text, {"store": store})
        if example.language != "sql":
            continue
        printed = io.StringIO()
        for parsed in parse(example.text):
            again = re.match(r"CREATE INDEX (communities|topics|units)", str(parsed.statement))
            if again and again[1] in {index.kind for index in store.indexes()}:
                store.drop_index(again[1])  # each part of the page can be read alone
            cursor = store.execute(str(parsed.statement))
            result_rows = cursor.fetchall()
            assert not cursor.failed, cursor.problems
            if cursor.kind in (
                "LOOKUP",
                "EXPAND",
                "SEARCH",
                "RETRIEVE",
                "ASK",
                "SELECT",
                "SHOW",
                "DESCRIBE",
                "EXPLAIN",
            ):
                assert result_rows, parsed.statement
                assert {len(row) for row in result_rows} == {len(cursor.columns)}
            if cursor.columns:
                render.write_result(cursor.kind, cursor.columns, result_rows, printed, mode="table", width=WIDTH)
            if cursor.message:
                print(cursor.message, file=printed)
        if example.expected is not None:
            fault = find_difference(example.expected.splitlines(), printed.getvalue().splitlines())
            assert fault is None, (fault, printed.getvalue())
    assert (tmp_path / "backup-of-today").is_dir()
    assert {key for (key,) in fetch_rows(store, "SELECT key FROM documents")} >= {
        "hr/leave",
        "wages.md",
        "departments.csv",
    }


# Queries -------------------------------------------------------------------------------------------------------------


def test_lookup_and_expand_have_the_rows_of_the_methods(filled_store: kvstore.Store) -> None:
    cursor = filled_store.execute("LOOKUP 'payroll', 'MARIA  jensen' LIMIT 5")
    assert cursor.columns == ("entity", "temperature", "tree", "level", "parent", "document", "abstract", "text")
    result_rows = cursor.fetchall()
    assert {row[0] for row in result_rows} == {"Payroll", "Maria Jensen"}
    assert result_rows[0][2:5] == ("tree.csv", 2, "Finance")
    cursor = filled_store.execute("EXPAND DEPTH 2")
    assert cursor.columns == ("entity", "tree", "level", "relative", "via", "text")
    assert cursor.fetchall() == [astuple(row) for row in filled_store.expand(depth=2)]
    assert fetch_rows(filled_store, "EXPAND 'Payroll' UP DEPTH 1") == [
        astuple(r) for r in filled_store.expand("Payroll", direction="up")
    ]
    assert [row[3] for row in fetch_rows(filled_store, "EXPAND 'Finance' DOWN IN TREE 'tree.csv' LIMIT 5")] == [
        "Finance",
        "Payroll",
    ]


def test_an_unknown_name_has_no_rows_and_a_hint(filled_store: kvstore.Store) -> None:
    cursor = filled_store.execute("LOOKUP 'Maria Jensn'")
    assert cursor.fetchall() == []
    assert cursor.message == "no entity is called 'Maria Jensn'; did you mean 'Maria Jensen'?"
    message = filled_store.execute("LOOKUP 'Jensen'").message
    assert message == "no entity is called 'Jensen'; did you mean 'Maria Jensen'?", "a part of a name finds the name"
    message = filled_store.execute("LOOKUP 'Xq'").message
    assert message == "no entity is called 'Xq'; SELECT name FROM entities lists the names"


def test_search_and_retrieve_have_the_rows_of_the_methods(filled_store: kvstore.Store) -> None:
    cursor = filled_store.execute("SEARCH 'wages' TOP 2")
    assert cursor.columns == ("rank", "score", "document", "ordinal", "text", "chunk")
    hits = filled_store.search("wages", top=2)
    assert cursor.fetchall() == [
        (hit.rank, hit.score, hit.document, hit.ordinal, hit.text, hit.ordinal) for hit in hits
    ]
    cursor = filled_store.execute("RETRIEVE 'Who is Maria Jensen?' USING bridge TOP 1 WHERE key = 'hr/pay'")
    assert cursor.columns == ("rank", "score", "document", "ordinal", "text", "path", "kind", "spans", "chunk")
    (row,) = cursor.fetchall()
    assert (row[2], bool(row[5]), row[6]) == ("hr/pay", True, "chunk")
    (span,) = row[7]
    document = filled_store.get("hr/pay")
    assert document is not None
    assert document.text.encode()[span["start"] : span["end"]].decode() == row[4]
    assert (span["document"], span["ordinal"], span["chunk"]) == ("hr/pay", row[3], row[3])


def test_ask_answers_with_citations(filled_store: kvstore.Store) -> None:
    cursor = filled_store.execute("ASK 'How long is parental leave?'")
    assert cursor.columns[:7] == ("answer", "citations", "extractive", "model", "dropped", "confidence", "abstained")
    assert cursor.columns[7:] == ("outcome", "answer_span", "verdict", "parts")
    ((answer, citations, extractive, model, dropped, confidence, abstained, outcome, span, *rest),) = cursor.fetchall()
    # The answer reader does not read a store of the hashing embedder.
    assert (outcome, span, rest) == ("answered", None, [None, []])
    assert (extractive, model, dropped, abstained) == (True, None, [], False)
    assert 0.5 <= confidence <= 1
    citation = citations[0]
    assert set(citation) == {"number", "document", "source", "ordinal", "chunk", "start", "end", "kind", "spans"}
    place = {name: citation[name] for name in ("document", "ordinal", "start", "end", "chunk")}
    assert (citation["kind"], citation["spans"]) == ("chunk", [place])
    document = filled_store.get(citation["document"])
    assert document is not None
    cited = document.text.encode()[citation["start"] : citation["end"]].decode()
    assert f"{cited} [{citation['number']}]" in answer


def test_ask_reports_that_the_store_has_no_answer(filled_store: kvstore.Store) -> None:
    cursor = filled_store.execute("ASK 'Which volcano in Iceland erupted near Grindavik?'")
    ((answer, citations, _, model, _, confidence, abstained, outcome, span, *_),) = cursor.fetchall()
    assert (outcome, span) == ("nearest", None)
    assert answer.startswith("The documents do not say this. No document mentions Iceland or Grindavik.")
    assert abstained and model is None and confidence < 0.5
    assert [citation["number"] for citation in citations] == list(range(1, len(citations) + 1))
    filled_store.execute("SET least_confidence = 0")
    cursor = filled_store.execute("ASK 'Which volcano in Iceland erupted near Grindavik?'")
    assert cursor.message == "no document mentions Iceland or Grindavik; the answer may be about something else"
    assert cursor.fetchall()[0][6] is False


def test_explain_shows_the_confidence_and_its_parts(filled_store: kvstore.Store) -> None:
    for statement in ("RETRIEVE 'Who is Maria Jensen?'", "ASK 'Who is Maria Jensen?'"):
        (detail,) = [row[1] for row in filled_store.execute(f"EXPLAIN {statement}") if row[0] == "weigh confidence"]
        assert all(part in detail for part in ("coverage", "amount", "phrases", "unnamed", "missing")), detail
        assert detail.endswith("reaches the threshold 0.25")


def test_explain_shows_the_steps(filled_store: kvstore.Store) -> None:
    assert filled_store.execute("EXPLAIN ASK 'Who is Maria Jensen?' USING bridge").columns == ("step", "detail", "rows")
    cursor = filled_store.execute("EXPLAIN ANALYZE RETRIEVE 'Who is Maria Jensen?' USING bridge")
    assert cursor.columns == ("step", "detail", "rows", "milliseconds", "pages")
    assert any("Maria Jensen" in str(row[1]) or "maria jensen" in str(row[1]) for row in cursor.fetchall())
    assert [row[2] for row in fetch_rows(filled_store, "EXPLAIN LOOKUP 'Payroll'")] == [1, 1, 1, 1]
    assert [row[2] for row in fetch_rows(filled_store, "EXPLAIN LOOKUP 'nobody'")] == [1, 0, 0, 0]
    assert fetch_rows(filled_store, "EXPLAIN EXPAND 'Payroll' UP")[0][2] == 2
    assert fetch_rows(filled_store, "EXPLAIN SEARCH 'wages' USING lexical")
    (plan,) = fetch_rows(filled_store, "EXPLAIN SELECT * FROM chunks WHERE document = 'hr/pay'")
    assert plan[1].endswith("BY document = ?")
    with pytest.raises(errors.StatementError, match="EXPLAIN takes"):
        filled_store.execute("EXPLAIN CHECK")


@pytest.mark.parametrize(
    "statement",
    [
        "LOOKUP 'Maria Jensen'",
        "EXPAND 'Payroll'",
        "SEARCH 'wages' USING lexical",
        "RETRIEVE 'Who is Maria Jensen?' USING bridge",
        "ASK 'Who is Maria Jensen?' WHERE key = 'hr/pay'",
        "SELECT count(*) FROM mentions JOIN documents ON document = key",
    ],
)
def test_explain_analyze_shows_the_cost_of_each_step(filled_store: kvstore.Store, statement: str) -> None:
    *steps, total = fetch_rows(filled_store, f"EXPLAIN ANALYZE {statement}")
    assert total[:2] == ("run", "the whole statement")
    costs = [step for step in steps if step[0] != "plan"]
    assert costs
    assert all(0 <= milliseconds <= total[3] and 0 <= pages <= total[4] for *_, milliseconds, pages in costs)
    assert 0 < sum(step[4] for step in costs) <= total[4]
    filled_store.execute("BEGIN")
    assert {row[4] for row in fetch_rows(filled_store, f"EXPLAIN ANALYZE {statement}")} == {None}
    filled_store.execute("ROLLBACK")


@pytest.mark.slow
def test_explain_analyze_counts_the_pages_that_a_query_reads(store: kvstore.Store) -> None:
    choose = random.Random(1)
    for number in range(100):
        store.put(f"{number:03}", " ".join(f"{choose.getrandbits(32):08x}" for _ in range(1000)))
    read = {
        row[1]: row[4] for row in fetch_rows(store, "EXPLAIN ANALYZE SELECT title FROM documents WHERE key = '050'")
    }
    assert 1 <= read["documents"] <= 2
    read = {row[1]: row[4] for row in fetch_rows(store, "EXPLAIN ANALYZE SELECT sum(length(text)) FROM chunks")}
    assert read["chunks"] >= 100 * 1000 * 4 // 4096, "every text lies on pages of its own"


# Changing ------------------------------------------------------------------------------------------------------------


def test_documents_are_inserted_updated_and_deleted(filled_store: kvstore.Store) -> None:
    assert filled_store.execute("INSERT DOCUMENT 'a' TITLE 'A' TEXT 'Some text.' META '{\"x\": 1}'").rowcount == 1
    filled_store.execute("UPDATE DOCUMENT 'a' SET TEXT = 'Other text.'")
    document = filled_store.get("a")
    assert document is not None
    assert (document.text, document.title, document.meta) == ("Other text.", "A", {"x": 1})
    assert filled_store.execute("UPDATE DOCUMENT 'a' SET TITLE = 'A'").rowcount == 0
    filled_store.execute("UPDATE DOCUMENT 'a' SET TITLE = 'B', META = '{}'")
    document = filled_store.get("a")
    assert document is not None
    assert (document.text, document.title, document.meta) == ("Other text.", "B", {})
    filled_store.execute("UPDATE DOCUMENT 'a' SET TITLE = null, META = NULL")
    assert filled_store.execute("SELECT title, meta FROM documents WHERE key = 'a'").fetchall() == [(None, "{}")]
    filled_store.execute("UPDATE DOCUMENT 'a' SET TITLE = 'C', META = '{\"x\": 2}'")
    assert filled_store.execute("UPDATE DOCUMENT 'a' SET TITLE = ?, META = ?", (None, None)).rowcount == 1
    assert filled_store.execute("SELECT title, meta FROM documents WHERE key = 'a'").fetchall() == [(None, "{}")]
    with pytest.raises(errors.StatementError, match="expected a string"):
        filled_store.execute("UPDATE DOCUMENT 'a' SET TEXT = NULL")
    filled_store.execute("INSERT DOCUMENT 'n' SOURCE NULL TITLE NULL TEXT 'Some text.' META NULL")
    filled_store.execute("INSERT DOCUMENT 'p' SOURCE ? TITLE ? TEXT 'Some text.' META ?", (None, None, None))
    inserted = filled_store.execute("SELECT source, title, meta FROM documents WHERE key IN ('n', 'p')").fetchall()
    assert inserted == [(None, None, "{}")] * 2
    assert filled_store.execute("DELETE FROM documents WHERE key IN ('n', 'p')").rowcount == 2
    filled_store.execute("DELETE DOCUMENT 'a'")
    assert filled_store.get("a") is None
    assert filled_store.execute("DELETE FROM documents WHERE meta ->> 'year' = 2024").rowcount == 1
    assert [key for (key,) in fetch_rows(filled_store, "SELECT key FROM documents")] == ["hr/pay", "tree.csv"]


def test_an_update_of_documents_evaluates_expressions(store: kvstore.Store) -> None:
    store.put("hr/a", "Maria Jensen signs.", title="Leave", meta={"year": 2024})
    store.put("hr/b", "Ana Ruiz signs.", title="Pay")
    store.put("it/c", "Bo Li codes.")

    def list_documents(*columns: str) -> list[Any]:
        return store.execute(f"SELECT {', '.join(columns)} FROM documents ORDER BY key").fetchall()

    cursor = store.execute(
        "update documents set TITLE = upper(title), meta = json_set(meta, '$.team', :team) where key like 'hr/%'",
        {"team": "People, and (Pay)"},
    )
    assert (cursor.rowcount, cursor.message) == (2, "2 documents updated")
    assert list_documents("title", "meta ->> 'team'", "meta ->> 'year'") == [
        ("LEAVE", "People, and (Pay)", 2024), ("PAY", "People, and (Pay)", None), (None, None, None)
    ]  # fmt: skip
    cursor = store.execute(
        "UPDATE documents SET content = replace(content, 'Maria Jensen', ?) WHERE content MATCH 'maria'", ("Eva Lund",)
    )
    assert cursor.rowcount == 1
    assert [hit.document for hit in store.search("Eva Lund", using="lexical")] == ["hr/a"]
    assert store.lookup("Maria Jensen") == []
    assert store.execute('UPDATE documents SET "title" = key, meta = NULL').rowcount == 3
    assert store.execute("UPDATE documents SET title = key").rowcount == 0, "nothing changed"
    store.execute("BEGIN; UPDATE documents SET title = 'T'; UPDATE documents SET title = title || key")
    store.execute("ROLLBACK; UPDATE documents SET title = NULL WHERE title < 'i'")
    assert list_documents("title", "meta") == [(None, "{}"), (None, "{}"), ("it/c", "{}")]
    with pytest.raises(errors.StatementError, match="new content of document 'it/c' must be text, not NULL"):
        store.execute("UPDATE documents SET content = CASE key WHEN 'hr/a' THEN 'changed' END")
    assert list_documents("content") == [("Eva Lund signs.",), ("Ana Ruiz signs.",), ("Bo Li codes.",)]


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("text = 'x'", 1, "UPDATE cannot change text; did you mean content?"),
        ("key = 'x'", 1, "it can change content, meta, title"),
        ("title = 'x', Title = 'y'", 14, "title is assigned twice"),
        ("title", 6, "expected title = and a value"),
        ("title 'x'", 7, "expected title = and a value"),
        ("title = 'x',", 13, "expected an assignment"),
        ("title = 'x' WHERE", 18, "expected a condition after WHERE"),
        ("title = 'x' WHERE ttle = 'x'", 19, "did you mean title?"),
        ("title = uper(key)", 9, "did you mean upper?"),
        ("title = 'x', meta = foo WHERE 1", 21, "there is no column foo"),
        ("title = 'x' USING y", 13, "expected the end of the statement"),
        ("title = 'x' WHERE 1) UNION SELECT (1", 20, "no matching"),
        ("title = 'x' FROM documents UNION SELECT key, content = 'y'", 13, "FROM is not valid here"),
        ("title = 'x' whre WHERE key = 'hr/pay'", 13, "whre is not valid here"),
        ("title = 'x' || , meta = '{}'", 15, "the value ends too early"),
        ("title = 'x' WHERE key =", 24, "the condition ends too early"),
        ("title = SELECT 'x'", 9, "put parentheses around a query in it"),
        ("title = 'x' WHERE SELECT 1", 19, "put parentheses around a query in it"),
        ("title = max(key)", 9, "misuse of aggregate"),
        ("meta = '{}', title = 'x' || count(*) WHERE 1", 29, "misuse of aggregate"),
        ("title = 'x', WHERE 1", 14, "expected an assignment"),
        ("meta = '[1]'", -20, "the new meta of document 'hr/leave' must be a JSON object"),
    ],
)
def test_errors_in_an_update_of_documents_point_at_the_error(
    filled_store: kvstore.Store, text: str, column: int, message: str
) -> None:
    before = fetch_rows(filled_store, "SELECT key, title, meta FROM documents")
    with pytest.raises(errors.StatementError, match=re.escape(message)) as error:
        filled_store.execute(f"UPDATE documents SET {text}")
    assert error.value.column == len("UPDATE documents SET ") + column
    assert fetch_rows(filled_store, "SELECT key, title, meta FROM documents") == before


def test_a_failed_update_of_documents_changes_nothing_in_a_transaction(store: kvstore.Store) -> None:
    for key in ("a", "b", "c"):
        store.put(key, f"The text of {key}.")
    store.put("own", "Ada Lovelace wrote.", vectors=[[1.0] * store.settings.dimension])
    store.execute("BEGIN; UPDATE documents SET title = key WHERE key = 'a'")
    for last_content in ("NULL", "''", "'x'"):
        with pytest.raises(kvstore.KvstoreError):
            store.execute(
                f"UPDATE documents SET title = 'T', content = CASE key WHEN 'own' THEN {last_content} ELSE content END"
            )
    store.execute("COMMIT")
    assert [document.title for document in store.get_many(["a", "b", "c", "own"])] == ["a", None, None, None]


def test_an_update_can_assign_the_unchanged_content_of_a_document_with_chunks_of_its_own(store: kvstore.Store) -> None:
    store.put("own", "Tea is hot. Milk is cold. The sea is salty.", chunks=[(0, 11), (26, 43)])
    store.put("plain", "Tea is hot.")
    before = fetch_rows(store, "SELECT text FROM chunks WHERE document = 'own'")
    assert store.execute("UPDATE documents SET content = content").rowcount == 0
    cursor = store.execute("UPDATE documents SET content = replace(content, 'Milk', 'Cream'), title = 'Drinks'")
    assert cursor.rowcount == 2
    assert store.execute("UPDATE documents SET title = NULL, content = trim(content)").rowcount == 2
    assert fetch_rows(store, "SELECT text FROM chunks WHERE document = 'own'") == before
    assert [document.text for document in store.get_many(["own", "plain"])] == [
        "Tea is hot. Milk is cold. The sea is salty.", "Tea is hot."
    ]  # fmt: skip
    with pytest.raises(
        errors.InputError, match="'own' has your own chunks; pass new chunks together with its new text"
    ):
        store.execute("UPDATE documents SET content = replace(content, 'Tea', 'Cocoa')")
    assert store.check() == []


def test_a_negative_parameter_after_a_minus_does_not_begin_a_comment(store: kvstore.Store) -> None:
    for year in (2023, 2024):
        store.put(str(year), "A text.", meta={"year": year})
    assert store.execute("UPDATE documents SET title = 'T' || (1-?) WHERE key = '2023'", (-2,)).rowcount == 1
    assert (
        store.execute("UPDATE documents SET title = title || ?WHERE meta ->> 'year' = ?AND 1", (3, 2023)).rowcount == 1
    )
    assert store.execute("DELETE FROM documents WHERE meta ->> 'year' = 2021-? AND key <> ''", (-2,)).rowcount == 1
    assert [(document.key, document.title) for document in store.get_many(["2023", "2024"]) if document] == [
        ("2024", None)
    ]
    with pytest.raises(errors.StatementError, match="3 is not valid here|near"):
        store.execute("DELETE FROM documents WHERE 2?", (3,))


def test_an_update_keeps_format_source_and_origin(store: kvstore.Store, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.md").write_text("# One\n\nText of one.\n")
    store.execute("INGEST ?", (str(folder),))
    before = store.get("a.md")
    store.execute("UPDATE DOCUMENT 'a.md' SET TITLE = 'Another'")
    after = store.get("a.md")
    assert before is not None
    assert after is not None
    assert (after.format, after.source, after.text) == (before.format, before.source, before.text)
    (folder / "a.md").unlink()
    store.execute("INGEST ? WITH (prune = true)", (str(folder),))
    assert store.get("a.md") is None, "the updated document still belongs to its folder"


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("INSERT DOCUMENT 'hr/pay' TEXT 'x'", errors.InputError, "UPDATE DOCUMENT changes it"),
        ("INSERT DOCUMENT 'a' TEXT 'x' META '{'", errors.StatementError, "META is not JSON"),
        ("INSERT DOCUMENT 'a' TEXT 'x' META 'b'", errors.StatementError, "; write it as '{\"year\": 2024}'"),
        (
            "INSERT DOCUMENT 'a' TEXT 'x' META '{\"y\": NaN}'",
            errors.StatementError,
            "NaN is not a JSON value; use null",
        ),
        ("INSERT DOCUMENT 'a' TEXT 'x' META '[]'", errors.StatementError, "a JSON object"),
        ("INSERT DOCUMENT '' TEXT 'x'", errors.InputError, "key"),
        ("INSERT DOCUMENT 'a' TEXT ''", errors.InputError, "empty"),
        ("UPDATE DOCUMENT 'hr/pya' SET TEXT = 'x'", errors.DocumentNotFoundError, "did you mean 'hr/pay'?"),
        ("DELETE DOCUMENT 'hr/pya'", errors.DocumentNotFoundError, "did you mean 'hr/pay'?"),
        ("DELETE DOCUMENT ''", errors.DocumentNotFoundError, "there is no document ''"),
        ("DELETE FROM documents WHERE ttle = 'x'", errors.StatementError, "did you mean title?"),
        ("DESCRIBE DOCUMENT 'nowhere'", errors.DocumentNotFoundError, "there is no document 'nowhere'"),
        ("DESCRIBE ENTITY 'Maria Jensn'", errors.EntityNotFoundError, "did you mean 'Maria Jensen'?"),
        ("VACUUM", errors.StatementError, "did you mean COMPACT?"),
        ("reindex;", errors.StatementError, "did you mean REFRESH?"),
        ("DESCRIBE ENTITY ''", errors.EntityNotFoundError, "no entity is called ''"),
        ("DESCRIBE documnets", errors.StatementError, "did you mean documents?"),
        ("DESCRIBE STRATEGY brige", errors.UnknownStrategyError, "did you mean bridge?"),
        ("RETRIEVE 'x' USING brige", errors.UnknownStrategyError, "did you mean bridge?"),
        ("RETRIEVE 'x' USING bridge WITH (nonsense = 1)", errors.InputError, "nonsense"),
        ("SET strategy = brige", errors.UnknownStrategyError, "did you mean bridge?"),
        ("SET nonsense = 1", errors.InputError, "nonsense"),
        ("SET top = 0", errors.InputError, "top"),
        ("EXPAND", errors.InputError, "last LOOKUP"),
        ("EXPAND 'Payrol'", errors.EntityNotFoundError, "did you mean 'Payroll'?"),
        ("ASK ''", errors.InputError, "empty"),
        ("ASK 'Who is Maria Jensen?' MODEL 'm'", errors.ModelError, "'m'"),
        ("INGEST 'x' WITH (prune = 1)", errors.StatementError, "true or false"),
        ("COMMIT", errors.TransactionError, "BEGIN opens one"),
        ("ROLLBACK", errors.TransactionError, "BEGIN opens one"),
        ("", errors.StatementError, "no statement"),
        ("MERGE ENTITY 'Payrol' INTO 'Finance'", errors.EntityNotFoundError, "did you mean 'Payroll'?"),
        ("UNMERGE ENTITY 'Payroll'", errors.InputError, "'Payroll' is not merged"),
        ("ALIAS 'pay' FOR 'Payrol'", errors.EntityNotFoundError, "did you mean 'Payroll'?"),
        ("DROP ALIAS 'Payroll'", errors.InputError, "'Payroll' is not an alias"),
        ("INSERT EDGE 'a' UNDER 'A'", errors.InputError, "its own parent"),
        ("DELETE EDGE 'a' UNDER 'b' IN TREE 't'", errors.InputError, "no edge 'a' under 'b' in tree 't'"),
        ("DELETE EDGE 'Payroll' UNDER 'Finance' IN TREE 'tree.csv'", errors.InputError, "because document 'tree.csv'"),
        ("IMPORT FROM 'nowhere.jsonl'", errors.InputError, "nowhere.jsonl"),
        ("CREATE INDEX vector", errors.InputError, "did you mean vectors?"),
        ("CREATE INDEX vectors WITH (exact_bellow = 1)", errors.InputError, "did you mean exact_below?"),
        ("CREATE INDEX vectors WITH (m = 1)", errors.InputError, "between 4 and 100"),
        ("CREATE INDEX vectors WITH (m = 4.5)", errors.InputError, "whole number"),
        ("DROP INDEX synonyms", errors.InputError, "CREATE INDEX creates it"),
        ("REFRESH INDEX synonyms", errors.InputError, "CREATE INDEX creates it"),
    ],
)
def test_an_impossible_statement_is_reported_and_changes_nothing(
    readonly_example: kvstore.Store, text: str, error: type[errors.KvstoreError], message: str
) -> None:
    before = fetch_rows(readonly_example, "SELECT * FROM documents")
    with pytest.raises(error, match=re.escape(message)):
        readonly_example.execute(text)
    assert fetch_rows(readonly_example, "SELECT * FROM documents") == before


def test_nothing_is_done_when_a_later_statement_does_not_parse(filled_store: kvstore.Store) -> None:
    with pytest.raises(errors.StatementError):
        filled_store.execute("DELETE DOCUMENT 'hr/pay'; DELET DOCUMENT 'hr/leave'")
    assert filled_store.get("hr/pay") is not None


def test_statements_run_one_after_another(filled_store: kvstore.Store) -> None:
    cursor = filled_store.execute(
        "INSERT DOCUMENT ? TEXT ?; SELECT count(*) FROM documents WHERE key = ?", ("a", "b c", "a")
    )
    assert cursor.fetchone() == (1,)
    assert cursor.fetchone() is None


def test_ingest_reports_unreadable_files(store: kvstore.Store, tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text("Some text about Robert Fortune.")
    (tmp_path / "bad.txt").write_bytes(b"caf\xe9 and \x80")
    cursor = store.execute("INGEST ?", (str(tmp_path / "*.txt"),))
    counts = dict(zip(cursor.columns, cursor.fetchall()[0], strict=True))
    assert (counts["added"], counts["failed"], cursor.failed) == (1, 1, True)
    assert "bad.txt" in cursor.problems[0]


# Transactions --------------------------------------------------------------------------------------------------------


def test_a_transaction_spans_statements(filled_store: kvstore.Store) -> None:
    filled_store.execute("BEGIN")
    filled_store.execute("INSERT DOCUMENT 'new' TITLE 'Amber Room' TEXT 'It was stolen by nobody.'")
    filled_store.execute("DELETE DOCUMENT 'hr/pay'")
    assert ("new",) in fetch_rows(filled_store, "SELECT key FROM documents")
    assert [row[5] for row in fetch_rows(filled_store, "LOOKUP 'amber room'")] == ["new"]
    assert fetch_rows(filled_store, "SEARCH 'stolen' USING lexical")[0][2] == "new"
    with filled_store.snapshot() as snapshot:
        assert snapshot.get("new") is None
        assert snapshot.get("hr/pay") is not None
    filled_store.execute("COMMIT")
    assert filled_store.get("new") is not None
    assert filled_store.get("hr/pay") is None


def test_edges_are_stated_and_withdrawn(filled_store: kvstore.Store) -> None:
    assert (
        filled_store.execute("INSERT EDGE 'Wage office' UNDER 'Payroll' IN TREE 'tree.csv'").message
        == "1 edge inserted"
    )
    assert filled_store.execute("INSERT EDGE 'wage  OFFICE' UNDER 'payroll' IN TREE 'tree.csv'").rowcount == 0
    filled_store.execute("INSERT EDGE 'Payroll' UNDER 'Finance' IN TREE 'tree.csv'; INSERT EDGE 'a' UNDER 'b'")
    assert fetch_rows(filled_store, "SELECT child, document FROM edges WHERE parent = 'Finance' ORDER BY document") == [
        ("Payroll", None),
        ("Payroll", "tree.csv"),
    ]
    assert fetch_rows(filled_store, "SELECT name, nodes, source FROM trees ORDER BY name") == [
        ("edges", 2, None),
        ("tree.csv", 4, None),
    ]
    assert [row[3] for row in fetch_rows(filled_store, "EXPAND 'Payroll' DOWN")] == ["Payroll", "Wage office"]
    filled_store.execute("DELETE EDGE 'a' UNDER 'b'; DELETE EDGE 'Wage office' UNDER 'Payroll' IN TREE 'tree.csv'")
    filled_store.execute("DELETE EDGE 'Payroll' UNDER 'Finance' IN TREE 'tree.csv'")
    assert fetch_rows(filled_store, "SELECT child, parent, document FROM edges ORDER BY child") == [
        ("Finance", "Administration", "tree.csv"),
        ("Payroll", "Finance", "tree.csv"),
    ]


def test_aliases_and_merges_are_stated_and_withdrawn(filled_store: kvstore.Store) -> None:
    before = fetch_rows(filled_store, "LOOKUP 'Maria Jensen'")
    filled_store.execute("ALIAS 'MJ' FOR 'Maria Jensen'; MERGE ENTITY 'Payroll' INTO 'Acme Corporation'")
    assert [row[4:] for row in fetch_rows(filled_store, "LOOKUP 'mj'")] == [row[4:] for row in before]
    assert fetch_rows(filled_store, "SELECT * FROM aliases") == [
        ("MJ", "Maria Jensen", "alias"),
        ("Payroll", "Acme Corporation", "merge"),
    ]
    assert fetch_rows(filled_store, "SELECT entity FROM aliases WHERE name = 'MJ'") == [("Maria Jensen",)]
    assert fetch_rows(filled_store, "SELECT name FROM aliases WHERE entity = 'Acme Corporation'") == [("Payroll",)]
    assert dict(fetch_rows(filled_store, "DESCRIBE ENTITY 'Maria Jensen'"))["also called"] == "MJ"
    assert dict(fetch_rows(filled_store, "DESCRIBE ENTITY 'payroll'"))["stands for"] == "Acme Corporation"
    assert {row[5] for row in fetch_rows(filled_store, "LOOKUP 'Payroll'")} >= {"hr/leave"}
    assert filled_store.execute("ALIAS 'mj' FOR 'maria jensen'").message == "nothing to change"
    filled_store.put("hr/leave", LEAVE + " It is new.")
    assert len(filled_store.aliases()) == 2, "they survive a change of what they are about"
    with pytest.raises(errors.InputError, match="UNMERGE"):
        filled_store.execute("DROP ALIAS 'Payroll'")
    filled_store.execute("UNMERGE ENTITY 'Payroll'; DROP ALIAS 'MJ'")
    assert fetch_rows(filled_store, "SELECT * FROM aliases") == []
    assert fetch_rows(filled_store, "LOOKUP 'MJ'") == []


def test_edges_and_aliases_belong_to_the_transaction(filled_store: kvstore.Store) -> None:
    filled_store.execute("BEGIN; ALIAS 'MJ' FOR 'Maria Jensen'; INSERT EDGE 'Amber Room' UNDER 'Payroll'")
    assert fetch_rows(filled_store, "LOOKUP 'MJ'")
    assert fetch_rows(filled_store, "SELECT child FROM edges WHERE tree = 'edges'") == [("Amber Room",)]
    with pytest.raises(errors.TransactionError, match="outside BEGIN"):
        filled_store.execute("IMPORT FROM 'x'")
    filled_store.execute("ROLLBACK")
    assert fetch_rows(filled_store, "LOOKUP 'MJ'") == []
    assert fetch_rows(filled_store, "SELECT child FROM edges WHERE tree = 'edges'") == []


def test_an_export_is_imported(
    filled_store: kvstore.Store, make_store: Callable[..., kvstore.Store], tmp_path: Path
) -> None:
    filled_store.execute("ALIAS 'MJ' FOR 'Maria Jensen'; INSERT EDGE 'Amber Room' UNDER 'Payroll'")
    filled_store.put_triples("hr/leave", [("Maria Jensen", "approves", "parental leave")])
    path = str(tmp_path / "all.jsonl")
    cursor = filled_store.execute("EXPORT TO ?", (path,))
    description = "3 documents, the triples of 1 document, 1 edge and 1 alias"
    assert cursor.message == f"{description} written to {path}"
    other = make_store("other")
    assert other.execute("IMPORT FROM ?", (path,)).message == f"{description} imported, 0 unchanged"
    for table in ("aliases", "edges", "mentions", "triples"):
        assert sorted(fetch_rows(other, f"SELECT * FROM {table}"), key=str) == sorted(
            fetch_rows(filled_store, f"SELECT * FROM {table}"), key=str
        )
    again = other.execute("IMPORT FROM ?", (path,)).message
    assert again == "0 documents, 0 edges and 0 aliases imported, 6 unchanged"


def test_show_stats_and_describe_name_triples(filled_store: kvstore.Store) -> None:
    filled_store.put_triples(
        "hr/leave", [("Maria Jensen", "approves", "parental leave"), ("Maria", "is", "Maria Jensen")]
    )
    assert ("documents_with_triples", 1) in fetch_rows(filled_store, "SHOW STATS")
    assert ("triples", 2) in fetch_rows(filled_store, "DESCRIBE DOCUMENT 'hr/leave'")


def test_a_rollback_undoes_everything(filled_store: kvstore.Store) -> None:
    before = fetch_rows(filled_store, "SELECT * FROM chunks")
    filled_store.execute(
        "BEGIN; INSERT DOCUMENT 'new' TEXT 'a b c'; DELETE FROM documents WHERE key <> 'new'; ROLLBACK"
    )
    assert fetch_rows(filled_store, "SELECT * FROM chunks") == before


def test_a_failed_statement_leaves_the_transaction_open(filled_store: kvstore.Store) -> None:
    filled_store.execute("BEGIN; INSERT DOCUMENT 'new' TEXT 'a b c'")
    with pytest.raises(errors.InputError):
        filled_store.execute("INSERT DOCUMENT 'new' TEXT 'a b c'")
    with pytest.raises(errors.TransactionError, match="already open"):
        filled_store.execute("BEGIN")
    with pytest.raises(errors.TransactionError, match="outside BEGIN"):
        filled_store.execute("INGEST 'x'")
    filled_store.execute("COMMIT")
    assert filled_store.get("new") is not None


@pytest.mark.parametrize("error_class", [KeyboardInterrupt, errors.EmbedderError])
def test_an_update_that_ends_halfway_undoes_the_whole_transaction(
    filled_store: kvstore.Store, monkeypatch: pytest.MonkeyPatch, error_class: type[BaseException]
) -> None:
    update, keys = Transaction.update, []

    def update_one(self: Transaction, key: str, **properties: Any) -> bool:
        keys.append(key)
        if len(keys) == 2:
            raise error_class
        return update(self, key, **properties)

    monkeypatch.setattr(Transaction, "update", update_one)
    filled_store.execute("BEGIN; INSERT DOCUMENT 'new' TEXT 'a b c'")
    with pytest.raises(error_class):
        filled_store.execute("UPDATE documents SET title = 'More'")
    with pytest.raises(errors.TransactionError, match="ended the transaction and undid its changes"):
        filled_store.execute("SELECT key FROM documents")
    with pytest.raises(errors.TransactionError, match="none of its changes were committed"):
        filled_store.execute("COMMIT")
    assert fetch_rows(filled_store, "SELECT key FROM documents WHERE key = 'new' OR title = 'More'") == []


def test_a_canceled_query_leaves_the_transaction_open(
    filled_store: kvstore.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled_store.execute("BEGIN; INSERT DOCUMENT 'new' TEXT 'a b c'")
    monkeypatch.setattr(query_handlers, "select", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        filled_store.execute("SELECT key FROM documents")
    filled_store.execute("COMMIT")
    assert filled_store.get("new") is not None


def test_a_transaction_left_open_is_rolled_back_by_close(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store()
    store.execute("BEGIN; INSERT DOCUMENT 'new' TEXT 'a b c'")
    store.close()
    assert make_store().get("new") is None


def test_a_read_only_store_is_not_changed(make_store: Callable[..., kvstore.Store]) -> None:
    make_store().close()
    store = make_store(readonly=True)
    for text in ("INSERT DOCUMENT 'a' TEXT 'b c'", "DELETE FROM documents WHERE 1", "BEGIN", "INGEST 'x'"):
        with pytest.raises(errors.ReadOnlyError):
            store.execute(text)
    assert fetch_rows(store, "SELECT count(*) FROM documents") == [(0,)]


# Inspection ----------------------------------------------------------------------------------------------------------


def test_show_and_describe(filled_store: kvstore.Store) -> None:
    assert {name for name, _, _ in fetch_rows(filled_store, "SHOW TABLES")} >= {"documents", "chunks", "entities"}
    assert {name for name, _ in fetch_rows(filled_store, "SHOW STRATEGIES")} == {
        info.name for info in filled_store.strategies()
    }
    assert fetch_rows(filled_store, "SHOW SETTINGS") == filled_store.settings_table()
    assert fetch_rows(filled_store, "SHOW STATS") == list(filled_store.statistics().items())
    assert [column for column, _, _ in fetch_rows(filled_store, "DESCRIBE trees")] == ["name", "nodes", "source"]
    document = dict(fetch_rows(filled_store, "DESCRIBE DOCUMENT 'hr/pay'"))
    assert (document["title"], document["bytes"], document["chunks"]) == ("Pay", len(PAY), 1)
    entity = dict(fetch_rows(filled_store, "DESCRIBE ENTITY 'maria  JENSEN'"))
    assert (entity["name"], entity["mentions"], entity["abstracts"]) == ("Maria Jensen", 2, 2)
    assert fetch_rows(filled_store, "CHECK") == []


def test_set_changes_the_session(filled_store: kvstore.Store) -> None:
    filled_store.execute("SET top = 1; SET strategy = lexical; SET answer_cache = off")
    settings = {name: value for name, value, _ in filled_store.settings_table()}
    assert (settings["top"], settings["strategy"], settings["answer_cache"]) == (1, "lexical", False)
    assert len(fetch_rows(filled_store, "RETRIEVE 'Maria Jensen'")) == 1


def test_a_backup_is_a_store(filled_store: kvstore.Store, tmp_path: Path) -> None:
    filled_store.execute("BACKUP TO ?", (str(tmp_path / "copy"),))
    with kvstore.open(tmp_path / "copy", create=False) as copy:
        assert fetch_rows(copy, "SELECT key FROM documents") == fetch_rows(filled_store, "SELECT key FROM documents")


@pytest.mark.slow
def test_compact_makes_the_file_smaller(store: kvstore.Store) -> None:
    store.execute("INSERT DOCUMENT 'large' TEXT ?", ("Some words of no use. " * 20_000,))
    store.execute("DELETE DOCUMENT 'large'; INSERT DOCUMENT 'small' TEXT 'a b c'")
    cursor = store.execute("COMPACT")
    assert cursor.columns == ("bytes_before", "bytes_after")
    ((before, after),) = cursor.fetchall()
    assert after < before / 2
    assert fetch_rows(store, "SELECT key FROM documents") == [("small",)]
    store.execute("BEGIN")
    with pytest.raises(errors.TransactionError, match="outside BEGIN"):
        store.execute("COMPACT")
    store.execute("ROLLBACK")


def test_a_cursor_is_one_of_the_database_api(filled_store: kvstore.Store) -> None:
    with filled_store.execute("SELECT key, bytes FROM documents ORDER BY key") as cursor:
        assert cursor.description is not None
        assert [column[0] for column in cursor.description] == ["key", "bytes"]
        assert cursor.fetchone() == ("hr/leave", len(LEAVE))
        assert [key for key, _ in cursor] == ["hr/pay", "tree.csv"]
    assert cursor.fetchall() == []
    assert filled_store.execute("BEGIN; ROLLBACK").description is None


def test_threads_execute_at_once(filled_store: kvstore.Store) -> None:
    failures: list[BaseException] = []

    def execute_statements(number: int) -> None:
        try:
            for turn in range(5):
                filled_store.execute("INSERT DOCUMENT ? TEXT 'Maria Jensen again.'", (f"{number}/{turn}",))
                assert fetch_rows(filled_store, "LOOKUP 'Maria Jensen'")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=execute_statements, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert fetch_rows(filled_store, "SELECT count(*) FROM documents") == [(18,)]


# The methods ---------------------------------------------------------------------------------------------------------


# Error positions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parameters", "wrong"),
    [
        ("SEARCH 'x'\n  WHERE key = 'a' AND yeer = 2 TOP 3", (), "yeer"),
        ("SELECT 1;\nRETRIEVE 'x' WHERE /* all */ key LIKE ? AND tytle = 1 USING bridge", ("abc",), "tytle"),
        ("DELETE FROM documents WHERE key = :key AND\n (key LIKE 'x' || nope)", {"key": "a long value"}, "nope"),
        ("DELETE FROM documents WHERE key IN\n\n(SELECT key FROM chunk)", (), "chunk"),
        ("EXPLAIN ASK 'x' WHERE foo = 1", (), "foo"),
    ],
)
def test_an_error_in_a_condition_shows_its_place_in_the_text(
    filled_store: kvstore.Store, text: str, parameters: Any, wrong: str
) -> None:
    with pytest.raises(errors.StatementError, match=f"no (column|table) {wrong}") as caught:
        filled_store.execute(text, parameters)
    before = text[: text.index(wrong)]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    assert (caught.value.line, caught.value.column) == (line, column)
    shown, caret = str(caught.value).split("\n")[1:]
    assert shown[caret.index("^") :].startswith(wrong)


@pytest.mark.parametrize("in_transaction", [False, True])
def test_only_analyze_counts_lookups(filled_store: kvstore.Store, in_transaction: bool) -> None:
    def get_temperature() -> int:
        filled_store.put("tick", f"A commit folds the counts in, {time.monotonic()}.")
        return int(filled_store.describe_entity("Maria Jensen")["temperature"])

    filled_store.execute("LOOKUP 'Payroll'")
    statements = [
        "LOOKUP 'Maria Jensen'",
        *(f"{word} 'Who is Maria Jensen?' USING bridge" for word in ("RETRIEVE", "ASK")),
    ]
    before = get_temperature()
    if in_transaction:
        filled_store.execute("BEGIN")
    for statement in statements:
        filled_store.execute(f"EXPLAIN {statement}").close()
        filled_store.explain(statement)
    if in_transaction:
        filled_store.execute("COMMIT")
    assert get_temperature() == before
    assert filled_store.execute("EXPAND UP").fetchone()[0] == "Payroll"
    filled_store.execute("EXPLAIN ANALYZE LOOKUP 'Maria Jensen'").close()
    assert get_temperature() == before + 1


def test_search_is_explained_with_its_own_default(filled_store: kvstore.Store) -> None:
    filled_store.set("top", 3)
    assert fetch_rows(filled_store, "EXPLAIN SEARCH 'wages'")[-1][:2] == ("read chunks", "top 10")
    steps = [row[:2] for row in fetch_rows(filled_store, "EXPLAIN RETRIEVE 'wages'")]
    assert ("read chunks", "top 3") in steps and ("read chunks", "top 10") not in steps


# Arbitrary statements ------------------------------------------------------------------------------------------------

WORDS = st.sampled_from(
    [
        *sorted(get_keywords()),
        "'Payroll'",
        "'hr/pay'",
        "'{}'",
        "documents",
        "bridge",
        "key",
        "1",
        "(",
        ")",
        ",",
        "=",
        ";",
        "*",
    ]
)


@settings(
    max_examples=num_examples(300),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(WORDS, min_size=1, max_size=8).map(" ".join))
def test_no_text_ends_in_anything_but_an_error_of_ours(filled_store: kvstore.Store, tmp_path: Path, text: str) -> None:
    with contextlib.chdir(tmp_path), contextlib.suppress(errors.KvstoreError):
        filled_store.execute(text).fetchall()
    if filled_store.in_transaction:
        filled_store.execute("ROLLBACK")
