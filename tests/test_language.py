"""The language's text side: what parses, to what, and what is said of what does not."""

from __future__ import annotations

import contextlib
import doctest
import re
import time
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples
from page_running import read_language_pages

from kvstore import errors
from kvstore.errors import StatementError
from kvstore.language import parser
from kvstore.language import statements as s
from kvstore.language.bounded_query import READ_STATEMENTS
from kvstore.language.grammar_parsing import get_keywords, list_expected_terminals
from kvstore.language.parser import parse
from kvstore.language.questions import find_unquoted_question
from kvstore.sql import condition, literals
from kvstore.sql import tokens as token_module
from kvstore.sql.table_catalog import get_sql_tables
from kvstore.sql.tokens import is_complete, iter_tokens, split_statements
from kvstore_shell import layout

PAGE = read_language_pages()
EXAMPLES: list[str] = re.findall(r"^```sql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)

#: Every form of the language and what it means.
FORMS: list[tuple[str, s.Statement]] = [
    ("LOOKUP 'a'", s.Lookup(("a",))),
    ("lookup 'it''s', 'b' limit 3", s.Lookup(("it's", "b"), 3)),
    ("EXPAND", s.Expand()),
    ("EXPAND 'a' UP DEPTH 2 IN TREE 't' LIMIT 9", s.Expand("a", "up", 2, "t", 9)),
    ("EXPAND LIMIT 9 DOWN", s.Expand(None, "down", limit=9)),
    ("EXPAND topics", s.ExpandIndex("topics")),
    ("EXPAND communities DEPTH 2", s.ExpandIndex("communities", 2)),
    ("SEARCH 'x'", s.Search("x")),
    (
        "SEARCH 'x' USING lexical WHERE source LIKE 'hr/%' AND (a = 1 OR top = 2) TOP 3",
        s.Search("x", "lexical", "source LIKE 'hr/%' AND (a = 1 OR top = 2)", 3),
    ),
    (
        "RETRIEVE 'q' USING bridge DEPTH 2 TOP 5 WITHIN 100 TOKENS WHERE bytes > 1 "
        'WITH (pool = 0.5, "a b" = -1, c = true)',
        s.Retrieve("q", "bridge", 2, 5, 100, "bytes > 1", {"pool": 0.5, "a b": -1, "c": True}),
    ),
    (
        "RETRIEVE 'q' WHERE bytes > CAST('1' AS INTEGER) AS SEGMENTS WITHIN 9 TOKENS",
        s.Retrieve("q", within=9, where="bytes > CAST('1' AS INTEGER)", as_segments=True),
    ),
    ("ASK 'q' AS SEGMENTS WITH (penalty = 0.3)", s.Ask("q", options={"penalty": 0.3}, as_segments=True)),
    ("ASK 'q'", s.Ask("q")),
    ("ASK 'q' MODEL 'm' TOP 1 WITH (x = word)", s.Ask("q", top=1, options={"x": "word"}, model="m")),
    ("INGEST 'docs'", s.Ingest("docs")),
    ("INGEST 'a.jsonl' AS Units", s.Ingest("a.jsonl", "units")),
    ("EXTRACT units", s.Extract("units")),
    ("EXTRACT UNITS SHARE 0.5 WHERE key < 'b' MODEL 'm'", s.Extract("UNITS", 0.5, where="key < 'b'", model="m")),
    ("EXTRACT units WITHIN 5000 TOKENS BY random", s.Extract("units", within=5000, by="random")),
    ("INGEST 'a.csv' AS pairs WITH (delimiter = ';')", s.Ingest("a.csv", "pairs", {"delimiter": ";"})),
    ("INSERT DOCUMENT 'k' TEXT 't'", s.InsertDocument("k", "t")),
    ("INSERT DOCUMENT 'k' WHOLE TEXT 't'", s.InsertDocument("k", "t", whole=True)),
    ("INSERT DOCUMENT 'k' TITLE 'h' TEXT 't' META '{}'", s.InsertDocument("k", "t", "h", "{}")),
    (
        "INSERT DOCUMENT 'k' AS markdown SOURCE 's' TEXT 't'",
        s.InsertDocument("k", "t", source="s", format="markdown"),
    ),
    ("UPDATE DOCUMENT 'k' SET TEXT = 't', META = '{}'", s.UpdateDocument("k", text="t", meta="{}")),
    ("UPDATE documents SET title = 'A, B' WHERE (1)", s.UpdateDocuments("title = 'A, B' WHERE (1)")),
    ("DELETE DOCUMENT 'k'", s.DeleteDocument("k")),
    ("DELETE FROM documents WHERE key = 'k'", s.DeleteDocuments("key = 'k'")),
    ("INSERT EDGE 'a' UNDER 'b'", s.InsertEdge("a", "b")),
    ("DELETE EDGE 'a' UNDER 'b' IN TREE 't'", s.DeleteEdge("a", "b", "t")),
    ("MERGE ENTITY 'a' INTO 'b'", s.MergeEntity("a", "b")),
    ("UNMERGE ENTITY 'a'", s.UnmergeEntity("a")),
    ("ALIAS 'a' FOR 'b'", s.CreateAlias("a", "b")),
    ("DROP ALIAS 'a'", s.DropAlias("a")),
    ("CREATE INDEX hnsw WITH (m = 16)", s.CreateIndex("hnsw", {"m": 16})),
    ("DROP INDEX hnsw", s.DropIndex("hnsw")),
    ("REFRESH", s.Refresh()),
    ("REFRESH INDEX hnsw", s.Refresh("hnsw")),
    ("REFRESH WITHIN 9 TOKENS", s.Refresh(within=9)),
    ("REFRESH INDEX topics MODEL 'm' WITHIN 9 TOKENS", s.Refresh("topics", "m", 9)),
    ("BEGIN", s.Begin()),
    ("COMMIT", s.Commit()),
    ("ROLLBACK", s.Rollback()),
    ("SELECT ';', 1 -- ;\n + 2", s.Select("SELECT ';', 1 -- ;\n + 2")),
    ("WITH a AS (SELECT 1) SELECT * FROM a", s.Select("WITH a AS (SELECT 1) SELECT * FROM a")),
    ("SHOW TABLES", s.Show("tables")),
    ("SHOW INDEXES", s.Show("indexes")),
    ("SHOW STRATEGIES", s.Show("strategies")),
    ("SHOW SETTINGS", s.Show("settings")),
    ("SHOW STATS", s.Show("stats")),
    ("SHOW SPENT", s.Show("spent")),
    ("DESCRIBE chunks", s.DescribeTable("chunks")),
    ("DESCRIBE DOCUMENT 'k'", s.DescribeDocument("k")),
    ("DESCRIBE ENTITY 'e'", s.DescribeEntity("e")),
    ("DESCRIBE STRATEGY bridge", s.DescribeStrategy("bridge")),
    ("DESCRIBE community '1/vienna'", s.DescribeItem("community", "1/vienna")),
    ("""DESCRIBE "document" 'k'""", s.DescribeItem("document", "k")),
    ("EXPLAIN ASK 'q'", s.Explain(s.Ask("q"))),
    ("EXPLAIN ANALYZE SELECT 1", s.Explain(s.Select("SELECT 1"), True)),
    ("CHECK", s.Check()),
    ("CHECK REPAIR", s.Check(True)),
    ("COMPACT", s.Compact()),
    ("BACKUP TO 'p'", s.Backup("p")),
    ("EXPORT TO 'p'", s.Export("p")),
    ("EXPORT TO 'p.parquet' TABLE chunks", s.Export("p.parquet", "chunks")),
    ("COPY (SELECT ')' IN (1)) TO 'p.csv'", s.Copy(s.Select("SELECT ')' IN (1)"), "p.csv")),
    (
        "COPY (SEARCH 'x' WHERE key IN ('a') TOP 3) TO 'p.csv'",
        s.Copy(s.Search("x", where="key IN ('a')", top=3), "p.csv"),
    ),
    ("COPY (EXPLAIN ASK 'q' AS SVG) TO 'p.csv'", s.Copy(s.Explain(s.Ask("q"), as_svg=True), "p.csv")),
    ("IMPORT FROM 'p'", s.ImportFile("p")),
    ("SET top = 5", s.SetSetting("top", 5)),
    ("SET strategy = bridge", s.SetSetting("strategy", "bridge")),
]


def parse_statement(text: str, parameters: Any = ()) -> s.Statement:
    (parsed,) = parse(text, parameters)
    return parsed.statement


@pytest.mark.parametrize(("text", "statement"), FORMS)
def test_every_form_parses_to_its_dataclass(text: str, statement: s.Statement) -> None:
    assert parse_statement(text) == statement
    assert parse_statement(text + " ; -- and a comment") == statement
    assert parse_statement(str(statement)) == statement


def test_every_statement_has_a_form() -> None:
    assert {type(statement) for _, statement in FORMS} == set(s.Statement.__subclasses__())


# Whole statements, made up -------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(blacklist_categories=["Cs"]), max_size=20)
NAMES = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=8)
COUNTS = st.integers(0, 10**17)
CONDITIONS = st.sampled_from(
    ["1", "key = 'a;b'", "(a OR b) AND meta ->> 'x' = 'it''s'", "title IS NOT NULL", '"end" < 3']
)
VALUES = st.one_of(TEXTS, st.integers(-(10**17), 10**17), st.floats(allow_nan=False), st.booleans(), st.none())
OPTIONS = st.dictionaries(NAMES, VALUES, max_size=3)

BY_FIELD: dict[str, st.SearchStrategy[Any]] = {
    "entities": st.lists(TEXTS, min_size=1, max_size=3).map(tuple),
    "direction": st.sampled_from(["up", "down", "both"]),
    "subject": st.sampled_from(["tables", "indexes", "strategies", "settings", "stats", "spent"]),
    "format": st.none()
    | st.sampled_from(["text", "markdown", "html", "pdf", "docx", "csv", "jsonl", "pairs", "triples"]),
    "assignments": st.builds("title = {}, meta = '{{}}' WHERE {}".format, CONDITIONS, CONDITIONS),
    "options": OPTIONS,
    "share": st.none() | st.floats(0, 1),
    "by": st.none() | NAMES,
    "value": VALUES,
    "analyze": st.booleans(),
    "as_segments": st.booleans(),
    "whole": st.booleans(),
    "repair": st.booleans(),
    "table": NAMES,
    "strategy": NAMES,
    "kind": NAMES,
}


def make_statements(kind: type) -> st.SearchStrategy[Any]:
    """Return a strategy for statements of one kind with any values in their fields."""
    if kind is s.Select:
        return st.sampled_from([s.Select("SELECT 1"), s.Select("VALUES ('a;', \"b\")"), s.Select("select (1)")])
    if kind is s.Explain:
        inner_kinds = [inner for inner in s.Statement.__subclasses__() if inner is not s.Explain]
        return st.builds(s.Explain, st.one_of(list(map(make_statements, inner_kinds))), st.booleans())
    if kind is s.Copy:
        return st.builds(s.Copy, st.one_of([make_statements(reading) for reading in READ_STATEMENTS]), TEXTS)
    values = {}
    for field in fields(kind):
        optional = "None" in str(field.type)
        if field.name in BY_FIELD:
            values[field.name] = BY_FIELD[field.name]
        elif field.name == "where":
            values[field.name] = st.none() | CONDITIONS if optional else CONDITIONS
        elif "int" in str(field.type):
            values[field.name] = st.none() | COUNTS
        elif field.name in ("using", "index"):
            values[field.name] = st.none() | NAMES
        elif kind is s.SetSetting:
            values[field.name] = NAMES
        else:
            values[field.name] = st.none() | TEXTS if optional else TEXTS
    statements = st.builds(kind, **values)
    if kind is s.UpdateDocument:  # which sets something
        return statements.filter(lambda update: (update.text, update.title, update.meta) != (None, None, None))
    return statements


STATEMENTS = st.one_of([make_statements(kind) for kind in s.Statement.__subclasses__()])


@settings(max_examples=num_examples(500), deadline=None)
@given(STATEMENTS)
def test_the_text_of_a_statement_parses_back_to_it(statement: s.Statement) -> None:
    assert is_dataclass(statement)
    assert parse_statement(str(statement)) == statement


def test_white_space_in_an_unquoted_question_is_read_in_linear_time() -> None:
    start = time.process_time()
    question = "a" + " " * 100_000 + "b"
    assert find_unquoted_question(f"ASK {question} TOP 3") == question
    assert time.process_time() - start < 1


# Wrong texts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "column", "expected"),
    [
        ("LOKUP 'a'", 1, 1, "did you mean LOOKUP?"),
        ("what's a cover text?", 1, 1, "to ask a question, write ASK 'what''s a cover text?';"),
        ("\nHow many bells are there ;", 2, 1, "ASK 'How many bells are there'"),
        ("SELCT 1", 1, 1, "did you mean SELECT?"),
        ("LOOKUP 'a' LIMT 3", 1, 12, "did you mean LIMIT?"),
        ("ASK 'What's the draught?'", 1, 10, "write a quote inside a string twice, as in 'it''s'"),
        ("LOOKUP 'Widow's Beacon'", 1, 14, "write a quote inside a string twice, as in 'it''s'"),
        ("LOOKUP 'Widow's and Bob's'", 1, 14, "write a quote inside a string twice, as in 'it''s'"),
        ("SELECT 'it's'", 1, 11, "write a quote inside a string twice, as in 'it''s'"),
        ("exit", 1, 1, "no statement begins with exit; .exit leaves the shell"),
        ("parental  leave;", 1, 1, "begins with parental; to search for text, write SEARCH 'parental leave';"),
        ("LOOKUP a", 1, 8, "text is written in single quotes: 'a'"),
        ('LOOKUP "a"', 1, 8, "text is written in single quotes: 'a'"),
        ("LOOKUP 'a", 1, 8, "never closed"),
        ("LOOKUP", 1, 7, "ends too early; expected a string"),
        ("DELETE FROM documents", 1, 22, "expected WHERE; WHERE true selects all documents"),
        ("LOOKUP 'a';\n\nEXPAND 'b' DEEPTH 2", 3, 12, "did you mean DEPTH?"),
        ("EXPAND UP DOWN", 1, 11, "UP, DOWN or BOTH is repeated"),
        ("EXPAND DEPTH 1.5", 1, 14, "whole number"),
        ("SEARCH 'a' WHERE (b = 1 TOP 3", 1, 18, "never closed"),
        ("SEARCH 'a' WHERE b) = 1", 1, 19, "has no matching '('"),
        ("SEARCH 'a' WHERE TOP 3", 1, 18, "expected a condition"),
        ("COPY (SELECT 1 TO 'x'", 1, 22, "ends too early; expected ')'"),
        ("COPY (SEARCH 'a' WHERE b)) TO 'x'", 1, 26, "expected TO, found )"),
        ("SEARCH 'a' LIMIT 2", 1, 12, "did you mean TOP?"),
        ("COPY (CHECK) TO 'x'", 1, 7, "expected ASK, DESCRIBE, EXPAND, EXPLAIN, LOOKUP"),
        ("COPY (SEARCH 'a' AS SVG) TO 'x'", 1, 18, "write EXPLAIN SEARCH ... AS SVG"),
        ("ASK 'q' WITH (a = 1, a = 2)", 1, 22, "is repeated"),
        ("INSERT DOCUMENT 'k' TITLE 'x'", 1, 30, "expected AS, META, SOURCE, TEXT, TITLE or WHOLE"),
        ("UPDATE DOCUMENT 'k' SET TEXT = 'a', TEXT = 'b'", 1, 37, "is repeated"),
        ("DELETE FROM chunks WHERE 1", 1, 13, "expected DOCUMENTS"),
        ("SHOW TABELS", 1, 6, "did you mean TABLES?"),
        ("CHECK REPAIR now", 1, 14, "expected the end of the statement"),
        ("LOOKUP #", 1, 8, "'#' is not valid in a statement"),
        ("SELECT 1 /* and", 1, 10, "never closed"),
        ("LOOKUP '\udc80'", 1, 9, "not Unicode"),
    ],
)
def test_an_error_names_the_place_and_the_remedy(text: str, line: int, column: int, expected: str) -> None:
    with pytest.raises(StatementError) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    message, line_text, caret = str(caught.value).split("\n")
    assert expected in message
    assert caret.index("^") == line_text.index(line_text.strip()) + column - 1


@pytest.mark.parametrize(
    ("text", "column", "remedy"),
    [
        ("INSERT INTO documents VALUES ('a')", 8, "INSERT DOCUMENT 'key' TITLE"),
        ("insert or replace into documents values (1)", 8, "UPDATE DOCUMENT 'key' SET"),
        ("PRAGMA journal_mode", 1, "SHOW SETTINGS lists the settings"),
        ("PRAGMA table_info(documents)", 1, "did you mean DESCRIBE table?"),
        ("PRAGMA integrity_check", 1, "did you mean CHECK?"),
        ("CREATE TABLE t (a)", 8, "the tables are fixed; SHOW TABLES lists them; INSERT DOCUMENT"),
        ("CREATE TEMP TABLE t (a)", 8, "the tables are fixed"),
        ("CREATE VIEW v AS SELECT 1", 8, "WITH name AS"),
        ("CREATE INDEX i ON documents (meta)", 16, "CREATE INDEX takes a kind"),
        ("ATTACH 'other' AS o", 1, ".open STORE"),
        ("UPDATE chunks SET text = 'x'", 8, "did you mean UPDATE documents SET?"),
        ("DROP TABLE documents", 6, "DELETE FROM documents WHERE"),
        ("COPY (SELECT 1) TO STDOUT", 20, "a SELECT prints its rows; .mode csv"),
        ("DROP DOCUMENT 'a'", 6, "did you mean DELETE DOCUMENT?"),
        ("FROM documents LIMIT 3", 1, "did you mean SELECT * FROM documents?"),
        ("from the lighthouse to the sea", 1, "write SEARCH 'from the lighthouse"),
        ("DELETE documents WHERE 1", 8, "did you mean DELETE FROM documents WHERE?"),
        ("DELETE FROM chunks WHERE 1", 13, "did you mean DELETE FROM documents WHERE?"),
        ("EXPLAIN QUERY PLAN SELECT 1", 9, "did you mean EXPLAIN SELECT?"),
        ("SHOW DATABASES", 6, "kvstore.open()"),
        ("COPY documents FROM 'x.csv'", 6, "INGEST 'file' stores the rows of a file"),
        ("BEGIN TRANSACTION", 7, "BEGIN, COMMIT and ROLLBACK take no options"),
        ("SAVEPOINT a", 1, "a transaction has no savepoints; ROLLBACK undoes all of it"),
        ("ROLLBACK TO a", 10, "a transaction has no savepoints"),
        ("ABORT", 1, "did you mean ROLLBACK?"),
        ("SELECT 1; INSERT INTO documents VALUES ('a')", 18, "INSERT DOCUMENT 'key'"),
        # A misspelt word is still one.
        ("UPDATE DOCUMNET 'a' SET TITLE = 'x'", 8, "did you mean DOCUMENT?"),
        ("INSERT DOCUMNET 'a' TEXT 'x'", 8, "did you mean DOCUMENT?"),
        ("CREATE INDX vectors", 8, "did you mean INDEX?"),
    ],
)
def test_a_statement_of_another_database_is_answered_with_the_equivalent(text: str, column: int, remedy: str) -> None:
    with pytest.raises(StatementError) as caught:
        parse(text)
    assert caught.value.column == column
    assert remedy in str(caught.value).split("\n")[0]


def test_the_caret_points_to_the_position_in_wide_text() -> None:
    with pytest.raises(StatementError) as caught:
        parse("LOOKUP '日本' x")
    _, line_text, caret = str(caught.value).split("\n")
    assert line_text == "  LOOKUP '日本' x"
    assert caret == "  " + " " * 14 + "^"  # two characters that take two cells each


def test_a_long_line_is_shown_around_the_place() -> None:
    with pytest.raises(StatementError) as caught:
        parse("LOOKUP '" + "a" * 100_000 + "' LIMT 1")
    assert len(str(caught.value)) < 500


@pytest.mark.matrix
@pytest.mark.parametrize("example", EXAMPLES)
def test_every_prefix_of_every_example_parses_or_gets_an_error(example: str) -> None:
    for end in range(len(example)):
        with contextlib.suppress(StatementError):
            parse(example[:end])
        list_expected_terminals(example[:end])


WORDS = st.sampled_from(
    [
        *sorted(get_keywords()),
        "'a'",
        '"b"',
        "c",
        "title",
        "?",
        ":d",
        "1",
        "-2.5",
        "(",
        ")",
        ",",
        "=",
        ";",
        "'",
        '"',
        "--",
        "/*",
        "*",
        "\n",
        "#",
    ]
)


@settings(max_examples=num_examples(2000), deadline=None)
@given(st.lists(WORDS, max_size=12).map(" ".join), st.sampled_from([(), ("x",), {"d": 1}]))
def test_any_words_parse_or_get_an_error(text: str, parameters: Any) -> None:
    try:
        parsed = parse(text, parameters)
    except StatementError:
        pass
    else:
        if not parameters:
            script = ";".join(str(item.statement) for item in parsed)
            assert [item.statement for item in parse(script)] == [item.statement for item in parsed]
    list_expected_terminals(text)


@given(st.text(max_size=60))
def test_tokens_lose_nothing(text: str) -> None:
    tokens = list(iter_tokens(text))
    assert "".join(token.text for token in tokens) == text
    assert all(text[token.start : token.end] == token.text for token in tokens)


@given(st.lists(STATEMENTS, max_size=4))
def test_a_script_is_split_at_its_semicolons(statements: list[s.Statement]) -> None:
    script = " ;;\n".join(map(str, statements))
    assert [item.statement for item in parse(script)] == statements
    assert len(list(split_statements(script))) == len(statements)
    assert is_complete(script + ";")


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("-- x", True),
        ("LOOKUP 'a'", False),
        ("LOOKUP 'a;'", False),
        ("LOOKUP 'a;", False),
        ("CHECK; ", True),
    ],
)
def test_is_complete(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


# Parameters ----------------------------------------------------------------------------------------------------------


def test_parameters_replace_values() -> None:
    assert parse_statement("LOOKUP ?, ? LIMIT ?", ("it's", "?", 3)) == s.Lookup(("it's", "?"), 3)
    assert parse_statement("SELECT ?, '?'", (1,)) == s.Select("SELECT ?, '?'", (1,))
    assert parse_statement("SELECT :a, :a", {"a": None, "b": 2}) == s.Select("SELECT :a, :a", {"a": None})
    parameters = {"q": "a", "s": "b", "v": 1.5}
    assert parse_statement("ASK :q USING :s WITH (x = :v)", parameters) == s.Ask("a", "b", options={"x": 1.5})
    assert parse_statement("SEARCH 'a' WHERE key = ? TOP ?", ("it's", 2)) == s.Search("a", where="key = 'it''s'", top=2)
    first, second = parse("LOOKUP ?; SELECT ?", ("a", 2))
    assert (first.statement, second.statement) == (s.Lookup(("a",)), s.Select("SELECT ?", (2,)))


@pytest.mark.parametrize(
    ("text", "parameters", "message"),
    [
        ("LOOKUP ?", (), "value, one for each ?, but got 0"),
        ("LOOKUP ?", ("a", "b"), "value, one for each ?, but got 2"),
        ("LOOKUP ?", "a", "write (value,)"),
        ("LOOKUP ?", (1,), "expected text"),
        ("LOOKUP ?", ([],), "bytes or None, not list"),
        ("LOOKUP ?", ("\udc80",), "not Unicode"),
        ("LOOKUP ?", {"a": 1}, "write :name"),
        ("LOOKUP :a", {"b": "c"}, "no value was given for :a"),
        ("LOOKUP :a", ("b",), "give the values as a mapping"),
        ("LOOKUP ?1", ("b",), "write ?"),
        ("LOOKUP 'a' LIMIT ?", (-1,), "a whole number from 0"),
        ("LOOKUP 'a' LIMIT ?", (True,), "a whole number from 0"),
        ("LOOKUP 'a' LIMIT ?", (10**76,), "a whole number from 0 to 10^18 - 1, but the value is an int of 77"),
        ("SEARCH 'a' TOP ?", (10**18,), "a whole number from 0 to 10^18 - 1"),
        ("SET a = ?", (b"x",), "expected text, a number"),
    ],
)
def test_wrong_parameters_get_an_error(text: str, parameters: Any, message: str) -> None:
    with pytest.raises(StatementError, match=re.escape(message)):
        parse(text, parameters)


@pytest.mark.parametrize("module", [condition, errors, literals, parser, token_module, layout])
def test_the_examples_of_docstrings_hold(module: Any) -> None:
    assert doctest.testmod(module).failed == 0


# The page ------------------------------------------------------------------------------------------------------------


def test_every_example_parses() -> None:
    assert len(EXAMPLES) >= 15
    for example in EXAMPLES:
        assert parse(example)


def test_the_page_names_every_keyword_table_and_column() -> None:
    words = set(re.findall(r"\w+", PAGE.upper()))
    assert get_keywords() - words == set()
    for table in get_sql_tables().values():
        (section,) = re.findall(rf"^### `{table.name}`\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)
        cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
        columns = [column for cell in cells for column in re.findall(r"`(\w+)`", cell)]
        assert [column for column in columns if column in table.columns] == list(table.columns)


def test_every_statement_of_the_page_has_an_example() -> None:
    kinds = {type(item.statement) for example in EXAMPLES for item in parse(example)}
    later = {s.CreateIndex, s.DropIndex, s.Refresh}
    assert kinds | later | {s.Commit} == set(s.Statement.__subclasses__())
