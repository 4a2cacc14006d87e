"""The shell: output that parses back, scripts in pieces, completion, and a conversation in a real terminal."""

from __future__ import annotations

import csv
import html
import io
import json
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pexpect
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples
from page_running import read_language_pages

import kvstore
from kvstore.errors import StatementError
from kvstore.language import is_complete, iter_tokens
from kvstore.language.description_handlers import list_described_kinds
from kvstore.language.index_handlers import list_index_kinds
from kvstore.language.parser import parse
from kvstore.registry import STRATEGIES
from kvstore_shell import cli, command_options, completion, layout, psql_commands, render
from kvstore_shell.completion import Completion, complete
from kvstore_shell.console import _describe_mass_change
from kvstore_shell.dot_commands import COMMANDS
from kvstore_shell.progress import ProgressLine
from kvstore_shell.repl import _confirm_effect, _expand_shortcuts, _is_complete_input
from kvstore_shell.script import ScriptError, ScriptItem, expand_questions, read_items, split_items

PAGE = read_language_pages()
EXAMPLES: list[str] = re.findall(r"^```sql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)

# Output --------------------------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(blacklist_categories=["Cs"]), max_size=12)
VALUES = st.one_of(TEXTS, st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none())
TABLES = st.integers(1, 4).flatmap(lambda width: st.lists(st.tuples(*[VALUES] * width), max_size=4))
COLUMNS = ("a", "b c", "ünï", "a")
STATEMENT_COLUMNS = {
    "ASK": "answer citations extractive model dropped confidence abstained outcome answer_span verdict parts".split(),
    "LOOKUP": "entity temperature tree level parent document abstract text".split(),
}


def write_rows(rows: Sequence[Sequence[Any]], mode: str, width: int | None = None, kind: str = "SELECT") -> str:
    out = io.StringIO()
    columns = STATEMENT_COLUMNS.get(kind) or COLUMNS[: len(rows[0]) if rows else 1]
    count = render.write_result(kind, columns, rows, out, mode=mode, width=width)
    assert count == len(rows)
    return out.getvalue()


def format_plain_rows(rows: Sequence[Sequence[Any]]) -> list[list[str]]:
    return [[layout.format_plain(value) if value is not None else "" for value in row] for row in rows]


@given(TABLES)
def test_json_and_jsonl_parse_back(rows: list[tuple[Any, ...]]) -> None:
    names = ["a", "b c", "ünï", "a:1"]
    expected = [dict(zip(names, row, strict=False)) for row in rows]
    assert json.loads(write_rows(rows, "json")) == expected
    assert [json.loads(line) for line in write_rows(rows, "jsonl").split("\n")[:-1]] == expected


@given(TABLES)
def test_csv_and_tsv_parse_back(rows: list[tuple[Any, ...]]) -> None:
    head = list(COLUMNS[: len(rows[0]) if rows else 1])
    parsed_rows = list(csv.reader(io.StringIO(write_rows(rows, "csv"), newline="")))
    # A row of one empty field is written "" and an empty line is none.
    assert [row or [""] for row in parsed_rows] == [head, *format_plain_rows(rows)]
    escapes = {"\\\\": "\\", "\\t": "\t", "\\n": "\n", "\\r": "\r"}
    lines = write_rows(rows, "tsv").split("\n")[:-1]
    fields = [[re.sub(r"\\.", lambda m: escapes[m[0]], field) for field in line.split("\t")] for line in lines]
    assert fields == [head, *format_plain_rows(rows)]


@given(TABLES)
def test_markdown_parses_back(rows: list[tuple[Any, ...]]) -> None:
    head, rule, *lines = write_rows(rows, "markdown").split("\n")[:-1]

    def split_cells(line: str) -> list[str]:
        # A bar inside a cell has a backslash before it, never a space.
        cells = [re.sub(r"\\([\\|])", r"\1", cell.replace("<br>", "\n")) for cell in line[2:-2].split(" | ")]
        return [html.unescape(cell) for cell in cells]

    width = len(rows[0]) if rows else 1
    assert split_cells(head) == list(COLUMNS[:width])
    assert rule == "|" + " --- |" * width
    assert [split_cells(line) for line in lines] == format_plain_rows(rows)


@given(TABLES, st.integers(20, 200) | st.none(), st.sampled_from(["table", "box", "line"]))
def test_tables_fit_the_terminal(rows: list[tuple[Any, ...]], width: int | None, mode: str) -> None:
    lines = write_rows(rows, mode, width).split("\n")
    if width is not None:
        assert max(map(layout.measure_width, lines)) <= width
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "".join(lines))


def test_wide_characters_are_measured() -> None:
    text = write_rows([("日本", "x"), ("a", "y")], "box")
    assert text.split("\n")[3:5] == ["│ 日本 │ x   │", "│ a    │ y   │"]
    assert list(layout.wrap("日本語 text", 6)) == ["日本語", "text"]
    assert layout.truncate("日本語", 5) == "日本…"


def test_a_table_too_wide_for_its_columns_turns_vertical() -> None:
    columns = [f"column{number}" for number in range(12)]
    out = io.StringIO()
    render.write_result("SELECT", columns, [["some longer text here"] * 12], out, mode="table", width=80)
    assert out.getvalue().startswith(" column0 = some longer text here\n")


def test_no_text_can_drive_the_terminal() -> None:
    for mode in ("table", "box", "line"):
        assert "\x1b" not in write_rows([("\x1b[31mred\x07", "\u202eevil")], mode, 80)
    assert "\x1b" not in write_rows(
        [("e", "t", 0, "e", "", "\x1b]0;x\x07"), ("e", "t", 1, "\x1b[2J", "e", "")], "table", 80, "EXPAND"
    )
    assert "\x1b" not in write_rows(
        [("\x1b[2J", [], True, None, [], 1.0, False, "answered", None, None, [])], "table", 80, "ASK"
    )


def test_expand_is_a_tree_on_a_terminal() -> None:
    rows = [
        ("Vacuum", "manual", 0, "Vacuum", "", ""),
        ("Vacuum", "manual", -1, "Care", "Vacuum", "Vacuum is under Care"),
        ("Vacuum", "manual", -2, "Everything", "Care", "Care is under Everything"),
        ("Vacuum", "manual", 1, "Autovacuum", "Vacuum", "Autovacuum is under Vacuum"),
        ("Vacuum", "manual", 1, "Full", "Vacuum", ""),
        ("Vacuum", "manual", 2, "Launcher", "Autovacuum", ""),
        ("Vacuum", "manual", 0, "…", "", "more below: cut at 6 nodes"),
        ("Vacuum", "page", 0, "Page", "", ""),
        ("Vacuum", "page", 1, "Part", "Page", "What the part says."),
    ]
    assert write_rows(rows, "table", 60, "EXPAND") == (
        "Vacuum  in manual\n"
        "├─ above\n"
        "│  └─ Care\n"
        "│     └─ Everything\n"
        "├─ below\n"
        "│  ├─ Autovacuum\n"
        "│  │  └─ Launcher\n"
        "│  └─ Full\n"
        "… more below: cut at 6 nodes\n"
        "\n"
        "Vacuum  in page\n"
        "└─ below\n"
        "   └─ Part  What the part says.\n"
    )
    assert write_rows(rows, "tsv", None, "EXPAND").count("\n") == 10


LOCATIONS: list[tuple[object, ...]] = [
    ("Vacuum", 3, "manual", 1, "Care", None, None, "Vacuum is under Care; above Full"),
    ("Vacuum", 3, None, 1, "Upkeep", "pages/vacuum.md", 2, "Routine vacuum of tables, and what VACUUM leaves to do."),
    ("Vacuum", 3, None, 0, "Upkeep", "pages/vacuum.md", 0, "A vacuum at night, with all the words that make it long."),
    ("Vacuum", 3, "relations", 0, None, None, None, "Vacuum is a root"),
    ("\x1b[2JPump", 0, None, 0, None, "pumps", 0, "A \x1b[31mpump\U0010fffc is no vacuum."),
]


def test_lookup_is_prose_with_the_name_marked_on_a_terminal() -> None:
    assert write_rows(LOCATIONS, "table", 44, "LOOKUP") == (
        "Vacuum\n"
        "  in tree manual\n"
        "    *Vacuum* is under Care; above Full\n"
        "  pages/vacuum.md › Upkeep\n"
        "    Routine *vacuum* of tables, and what\n"
        "    *VACUUM* leaves to do.\n"
        "    A *vacuum* at night, with all the words\n"
        "    that make it long.\n"
        "  in tree relations\n"
        "    *Vacuum* is a root\n"
        "\n"
        "�[2JPump\n"
        "  pumps\n"
        "    A �[31mpump is no vacuum.\n"
    )
    assert all(layout.measure_width(line) <= 80 for line in write_rows(LOCATIONS, "table", 80, "LOOKUP").splitlines())


def test_a_name_that_two_lines_share_is_marked_in_both_and_no_line_is_too_long() -> None:
    row = ("Disk Space", 0, None, 0, None, "a", 0, "It is not very much disk space.")
    assert write_rows([row], "table", 30, "LOOKUP").splitlines()[2:] == [
        "    It is not very much *disk*",
        "    *space*.",
    ]
    assert write_rows([row], "table", 29, "LOOKUP").splitlines()[2:] == ["    It is not very much", "    *disk space*."]
    for width in range(20, 60):
        assert all(
            layout.measure_width(line) <= width for line in write_rows([row], "table", width, "LOOKUP").split("\n")
        )


@pytest.mark.parametrize("mode", ["box", "line", "tsv", "json"])
def test_every_other_mode_keeps_all_columns_of_lookup(mode: str) -> None:
    columns = ("entity", "temperature", "tree", "level", "parent", "document", "abstract", "text")
    out = io.StringIO()
    render.write_result("LOOKUP", columns, LOCATIONS, out, mode=mode, width=200)
    assert all(name in out.getvalue() for name in (*columns, "manual", "is under Care", "Upkeep"))


def test_help_and_messages_break_between_words() -> None:
    lines = list(
        layout.format_definitions([(".mode [MODE]", "how results are written: table, box"), (".q", "leave")], 30)
    )
    assert lines == [
        ".mode [MODE]  how results are",
        "              written: table,",
        "              box",
        ".q            leave",
    ]
    assert list(layout.format_definitions([(".q", "leave")], None)) == [".q  leave"]
    message = "error: here .tables lists the tables\n  SELECT this line is shown with a caret;\n  ^"
    assert layout.wrap_message(message, 20) == (
        "error: here .tables\nlists the tables\n  SELECT this line is shown with a caret;\n  ^"
    )
    assert layout.wrap_message(message, None) == message


def test_hits_are_prose_on_a_terminal_and_leave_their_places_to_programs() -> None:
    columns = ("rank", "score", "document", "ordinal", "text", "path", "kind", "spans", "chunk")
    row = (1, 0.5, "hr/leave", 5, "Leave lasts.", "vector", "chunk", [{"document": "hr/leave"}], 5)
    out = io.StringIO()
    render.write_result("RETRIEVE", columns, [row], out, mode="table", width=80)
    assert out.getvalue() == "1. hr/leave, chunk 5, 0.5, vector\n   Leave lasts.\n"
    with_heading = (*row[:4], "## Leave\n\nLeave lasts\n30 days.\n\n\n\n# a\n# comment", *row[5:])
    out = io.StringIO()
    render.write_result("RETRIEVE", columns, [with_heading], out, mode="table", width=80)
    assert out.getvalue().splitlines()[1:] == ["   Leave", "   Leave lasts 30 days.", "   # a # comment"]
    for mode, has_offsets in (("line", True), ("json", True)):
        out = io.StringIO()
        render.write_result("RETRIEVE", columns, [row], out, mode=mode, width=200)
        assert ("spans" in out.getvalue()) == has_offsets
        assert out.getvalue().count("chunk") == 1 + has_offsets  # the kind, and the deprecated name of ordinal
        assert "Leave lasts." in out.getvalue()


def test_an_answer_and_relatives_have_their_shapes_in_a_pipe_too() -> None:
    place = {"document": "hr/leave", "ordinal": 5, "start": 0, "end": 9}
    citation = {"number": 1, **place, "kind": "chunk", "spans": [place]}
    row = ("Leave lasts twenty weeks. [1]", [citation], True, None, [], 0.9, False, "answered", None, None, [])
    text = write_rows([row], "table", None, "ASK")
    assert text.startswith("Leave lasts twenty weeks. [1]\n\n  [1] hr/leave, chunk 5, bytes 0 to 9\n")
    assert "{" not in text
    assert write_rows([("Oslo", "towns", 1, "Harbour", "Oslo", "")], "table", None, "EXPAND") == (
        "Oslo  in towns\n└─ below\n   └─ Harbour\n"
    )


def test_the_words_that_answer_are_bold_on_a_terminal() -> None:
    words = {"text": "twenty weeks", "start": 12, "end": 24}
    row = ("Leave lasts twenty weeks. [1]", [], True, None, [], 0.9, False, "answered", words, None, [])
    assert write_rows([row], "table", 18, "ASK") == ("Leave lasts \x1b[1mtwenty\x1b[22m\n\x1b[1mweeks\x1b[22m. [1]\n")
    assert "\x1b" not in write_rows([row], "table", None, "ASK")


def test_the_items_of_a_list_in_an_answer_have_a_hanging_indent() -> None:
    row = ("To do:\n\n- water the plants [1]\n10. feed the cat [2]", [], True, None, [], 0.9, False, "answered")
    lines = write_rows([(*row, None, None, [])], "table", 18, "ASK").splitlines()
    assert lines == ["To do:", "", "- water the plants", "  [1]", "10. feed the cat", "    [2]"]


def test_an_answer_is_wrapped_with_numbered_citations() -> None:
    place = {"document": "hr/leave", "ordinal": 5, "start": 0, "end": 9}
    citation = {"number": 1, **place, "kind": "chunk", "spans": [place]}
    row = (
        "Leave lasts twenty weeks, and not one week more. [1]",
        [citation],
        True,
        None,
        [],
        0.9,
        False,
        "answered",
        None,
        "yes",
        [],
    )
    text = write_rows([row], "table", 30, "ASK")
    assert text.startswith("Yes.\nLeave lasts twenty weeks, and\nnot one week more. [1]\n\n  [1] hr/leave, chunk 5")
    assert "Extractive" in text
    abstained = (
        "The documents do not say this. Nearest:\n\nLeave ends. [1]",
        [citation],
        True,
        None,
        [],
        0.1,
        True,
        "nearest",
        None,
        None,
        [],
    )
    assert "Extractive" not in write_rows([abstained], "table", 80, "ASK")
    segment = citation | {"kind": "segment", "spans": [place, place | {"ordinal": 7}]}
    assert "[1] hr/leave, chunks 5 to 7, bytes 0 to 9" in write_rows(
        [(row[0], [segment], *row[2:])], "table", 80, "ASK"
    )
    report = citation | {"kind": "report", "spans": [place, place | {"document": "hr/pay", "ordinal": 9}]}
    assert "chunk 5, bytes 0 to 9, and 1 more document" in write_rows(
        [(row[0], [report], *row[2:])], "table", 80, "ASK"
    )
    assert max(map(len, text.split("\n"))) <= 30
    assert text.split("\n")[4:6] == ["  [1] hr/leave, chunk 5, bytes", "      0 to 9"]
    message = citation | {"document": "keel1@x.org", "source": "/mail/keel.eml"}
    assert "[1] keel1@x.org (/mail/keel.eml), chunk 5" in write_rows(
        [(row[0], [message], *row[2:])], "table", 80, "ASK"
    )
    message = citation | {"document": "m1@x.org", "source": "/mail/inbox.mbox"}
    output = write_rows([(row[0], [message], *row[2:])], "table", 80, "ASK")
    assert "[1] m1@x.org (/mail/inbox.mbox), chunk 5" in output
    page = citation | {"source": "/work/hr/leave"}
    assert "[1] hr/leave, chunk 5" in write_rows([(row[0], [page], *row[2:])], "table", 80, "ASK")


def test_the_command_line_offers_the_modes_and_formats_there_are() -> None:
    assert tuple(render.MODES) == command_options.MODES
    for form in kvstore.FORMATS:
        parse(f"INGEST 'x' AS {form}")


# Scripts -------------------------------------------------------------------------------------------------------------


def test_pieces_of_a_script() -> None:
    script = "-- first\nSELECT 1; SELECT\n'a;\n.b';\n.mode csv\n ;; .tables \n/* . */ CHECK"
    assert split_items(script) == [
        ScriptItem("SELECT 1;", 2, 1),
        ScriptItem("SELECT\n'a;\n.b';", 2, 11),
        ScriptItem(".mode csv", 5, 1, True),
        ScriptItem(".tables \n/* . */ CHECK", 6, 5),
    ]
    assert split_items("who is it?\nWhere is it; CHECK\n") == [
        ScriptItem("who is it?", 1, 1),
        ScriptItem("Where is it;", 2, 1),
        ScriptItem("CHECK", 2, 14),
    ]


class SlowStream(io.RawIOBase):
    """A stream that returns its bytes in small blocks."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data, self._size = data, size

    def read1(self, _: int) -> bytes:
        block, self._data = self._data[: self._size], self._data[self._size :]
        return block


FRAGMENTS = st.sampled_from(
    ["SELECT 1", ";", "\n", "'a;''", "'", '"', "-- c;", "/* ; */", ".print x", " ", "é日", "CHECK;\n", "\n.tables\n"]
)


def test_a_statement_beyond_the_limit_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvstore_shell.script._MAX_STATEMENT_CHARACTERS", 1000)
    script = "SELECT 1;\n" * 1000 + "SELECT '" + "a" * 2000
    with pytest.raises(
        ScriptError, match="line 1000: the statement that begins here has more than 1,000 characters; end it"
    ):
        list(read_items(SlowStream(script.encode(), 100)))  # type: ignore[arg-type]


def test_a_long_unfinished_statement_is_parsed_only_a_few_times() -> None:
    class CountingStream(io.BytesIO):
        num_reads = 0

        def read1(self, size: int | None = -1) -> bytes:
            self.num_reads += 1
            return super().read1(size)

    script = b"INSERT DOCUMENT 'a' TEXT '" + b"it''s; \n" * 1_000_000 + b"';\nSELECT 1;SELECT 2;"
    stream = CountingStream(script)
    assert [(item.line, item.column) for item in read_items(stream)] == [(1, 1), (1_000_002, 1), (1_000_002, 10)]
    assert stream.num_reads < 12


@settings(max_examples=num_examples(300))
@given(st.lists(FRAGMENTS, max_size=15).map("".join), st.integers(1, 7))
def test_a_stream_gives_the_pieces_of_its_text(script: str, size: int) -> None:
    assert list(read_items(SlowStream(script.encode(), size))) == split_items(script)  # type: ignore[arg-type]


@given(st.lists(FRAGMENTS, max_size=15).map("".join))
def test_pieces_lose_nothing_but_white_space_and_comments(script: str) -> None:
    def join_tokens(text: str) -> str:
        return "".join(token.text for token in iter_tokens(text) if token.kind not in ("space", "comment", "semicolon"))

    if "." not in script:
        assert (
            join_tokens("".join(piece.text + "\n" for piece in split_items(script))).rstrip()
            == join_tokens(script).rstrip()
        )


def test_a_stream_that_is_not_utf8_names_the_line() -> None:
    with pytest.raises(ScriptError, match="line 3 "):
        list(read_items(io.BytesIO(b"CHECK;\n\n\xff;\n")))


def test_a_statement_is_run_when_it_is_complete() -> None:
    """A stream that has not ended gives what is complete of it."""
    reader, writer = os.pipe()
    with open(reader, "rb") as stream, open(writer, "wb", buffering=0) as sink:
        items = read_items(stream)
        sink.write(b"SELECT 1;\nSELECT 2")
        assert next(items) == ScriptItem("SELECT 1;")


# Completion ----------------------------------------------------------------------------------------------------------


class SmallCatalog:
    """The catalog of a store with a few names."""

    def list_tables(self) -> Mapping[str, Sequence[str]]:
        return {"documents": ["key", "title", "meta"], "chunks": ["id", "document", "end"]}

    def list_strategies(self) -> Mapping[str, Sequence[str]]:
        return {"vector": [], "lexical": [], "hybrid": [], "bridge": ["pool"]}

    def list_settings(self) -> Sequence[str]:
        return ["strategy", "top"]

    def list_trees(self) -> Sequence[str]:
        return ["manual", "map"]

    def list_entity_names(self, prefix: str, limit: int) -> Sequence[str]:
        return [name for name in ("Maria Jensen", "Mary's Room") if name.lower().startswith(prefix.lower())][:limit]

    def list_document_keys(self, prefix: str, limit: int) -> Sequence[str]:
        return [key for key in ("hr/leave", "hr/pay") if key.startswith(prefix)][:limit]

    def list_paths(self, prefix: str) -> Sequence[str]:
        return [path for path in ("docs/", "data.csv", "~/my data.sql") if path.startswith(prefix)]


def list_completions(before: str) -> list[str]:
    return [offered.text for offered in complete(before, SmallCatalog())]


@pytest.mark.parametrize(
    ("before", "texts"),
    [
        ("LOO", ["LOOKUP"]),
        ("loo", ["LOOKUP"]),
        ("SEL", ["SELECT"]),
        ("LOOKUP 'mar", ["'Maria Jensen'", "'Mary''s Room'"]),
        ("LOOKUP 'Maria Jensen', 'mary''", ["'Mary''s Room'"]),
        ("LOOKUP mar", ["'Maria Jensen'", "'Mary''s Room'"]),
        ("LOOKUP 'Maria Jensen' L", ["LIMIT"]),
        ("EXPAND 'x' IN TREE 'ma", ["'manual'", "'map'"]),
        ("EXPAND D", ["DEPTH", "DOWN"]),
        ("SEARCH 'x' USING ", ["vector", "lexical", "hybrid"]),
        ("ASK 'x' USING b", [name for name in STRATEGIES if name[0] == "b"]),
        ("ASK 'x' USING bridge WITH (", ["pool", "reranker"]),
        ("ASK 'x' USING bridge W", ["WHERE", "WITH", "WITHIN", "WORDS"]),
        ("ASK 'x' WHERE ke", ["key"]),
        ("ASK 'x' WHERE key = 'a' A", ["AND", "AS"]),
        ("ASK 'x' WHERE (key = 'a' T", ["title", "THEN"]),
        ("ASK 'x' WHERE key = 'a' TO", ["TOP"]),
        ("DELETE DOCUMENT 'hr/", ["'hr/leave'", "'hr/pay'"]),
        ("UPDATE DOCUMENT 'hr/p", ["'hr/pay'"]),
        ("UPDATE documents SET ", ["content", "meta", "title"]),
        ("UPDATE documents SET t", ["title"]),
        ("UPDATE documents SET title ", []),
        ("UPDATE documents SET title = coalesce(meta, key), ", ["content", "meta"]),
        ("UPDATE documents SET title = (SELECT 1 WHERE 1), m", ["meta"]),
        ("UPDATE documents SET title = substr(key, ti", ["title"]),
        ("UPDATE documents SET title = key WHERE ke", ["key"]),
        ("INSERT DOCUMENT 'hr/p", []),
        ("INGEST 'd", ["'docs/'", "'data.csv'"]),
        ("INGEST 'docs/' WITH (pr", ["prune"]),
        ("INGEST 'docs/' AS j", ["JSONL"]),
        ("SELECT * FROM d", ["documents"]),
        ("SELECT k FROM documents; SELECT * FROM chunks WHERE i", ["id", "IN", "INNER", "INTERSECT", "IS"]),
        ('SELECT "en', ['"end"']),
        ("DESCRIBE ", ["DOCUMENT", "ENTITY", "STRATEGY", "documents", "chunks", *list_described_kinds()]),
        ("DESCRIBE STRATEGY v", ["vector"]),
        ("DESCRIBE comm", ["community"]),
        ("SHOW S", ["SETTINGS", "SPENT", "STATS", "STRATEGIES"]),
        ("CREATE INDEX s", [kind for kind in list_index_kinds() if kind[0] == "s"]),
        ("CREATE INDEX Synonyms WITH (s", ["similarity"]),
        ("CREATE INDEX nothing WITH (", []),
        ("DROP INDEX ", [*list_index_kinds()]),
        ("REFRESH INDEX v", ["vectors"]),
        ("SET s", ["strategy"]),
        ("SET strategy = le", ["lexical"]),
        ("EXPLAIN A", ["ALIAS", "ANALYZE", "ASK"]),
        ("CHECK; SHO", ["SHOW"]),
        ("LOKUP 'a' LI", []),
        ("LOOKUP 'a' -- LI", []),
        (".mo", [".mode"]),
        (".mode j", ["json", "jsonl"]),
        (".timer o", ["on", "off"]),
        (".read d", ["docs/", "data.csv"]),
        (".schema ch", ["chunks"]),
        (r"\d ch", ["chunks"]),
        (r"\dt", [r"\dt"]),
        (r"\n b", ["big"]),
        (r"\i ~/my\ d", [r"~/my\ data.sql"]),
        (".quit ", []),
    ],
)
def test_completion(before: str, texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "load_queries", lambda: {"big": "SELECT 2;", "small": "SELECT 1;"})
    assert list_completions(before) == texts


@pytest.mark.matrix
@pytest.mark.parametrize("example", EXAMPLES)
def test_completion_on_every_prefix_of_every_example(example: str) -> None:
    for end in range(len(example) + 1):
        before = example[:end]
        for offered in complete(before, SmallCatalog()):
            assert isinstance(offered, Completion)
            assert 0 <= offered.start <= len(before)
            if offered.kind in ("keyword", "strategy", "table") and "SELECT" not in before.upper():
                self_standing = before[: offered.start] + offered.text
                _assert_can_continue(self_standing)


def _assert_can_continue(text: str) -> None:
    """Assert that a completion causes no error except at the end of the text."""
    try:
        parse(text)
    except StatementError as error:
        assert "ends too early" in str(error) or "never closed" in str(error)


# A conversation ------------------------------------------------------------------------------------------------------


def wait_for(child: pexpect.spawn[str], *patterns: Any, timeout: int = 30) -> int:
    """Wait for one of several patterns and return its index; answer requests for the cursor position meanwhile.

    A space matches a line break too: where a message is wrapped depends on the length of the paths in it.
    """
    wrapped = [pattern.replace(" ", r"\s+") if isinstance(pattern, str) else pattern for pattern in patterns]
    while (index := child.expect([re.escape("\x1b[6n"), *wrapped], timeout)) == 0:
        child.send("\x1b[1;1R")
    return index - 1


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[..., pexpect.spawn[str]]]:
    """Yield a function that starts the interactive shell on a small store in a pseudo-terminal."""
    with kvstore.open(tmp_path / "s", embedder="hashing") as store:
        store.put("hr/leave", "Maria Jensen approves leave.", title="Leave")
        store.put("tree", "Payroll,Finance\n", format="pairs")
    running: list[pexpect.spawn[str]] = []

    def start_shell(*arguments: str, prompt: str = "kvstore>", redirection: str = "") -> pexpect.spawn[str]:
        environment = {
            **os.environ,
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
            "EDITOR": str(tmp_path / "editor"),
            "PAGER": "sed s/^/paged:/",
            "TERM": "xterm",
            "NO_COLOR": "1",
        }
        # A size in the environment would override that of the terminal.
        for name in ("VISUAL", "COLUMNS", "LINES"):
            environment.pop(name, None)
        command = [sys.executable, "-c", "from kvstore_shell.cli import main; main()", "shell", "s", *arguments]
        child = pexpect.spawn(
            "sh",
            ["-c", f"exec {shlex.join(command)} {redirection}"],
            cwd=str(tmp_path),
            env=environment,
            encoding="utf-8",
            timeout=30,
            dimensions=(40, 100),
        )
        running.append(child)
        wait_for(child, prompt)
        return child

    yield start_shell
    for child in running:
        child.close(force=True)


@pytest.mark.slow
def test_a_conversation(terminal: Callable[..., pexpect.spawn[str]], tmp_path: Path) -> None:
    child = terminal()
    wait_for(child, "2 documents")
    child.send("SELECT key\r")
    wait_for(child, r"\.\.\.>")
    child.send("FROM documents ORDER BY key;\r")
    wait_for(child, "hr/leave")
    wait_for(child, "kvstore>")
    child.send("LOOKUP 'payroll'; EXPAND;\r")
    wait_for(child, "Payroll  in tree")
    wait_for(child, "└─ Finance")
    wait_for(child, "kvstore>")
    child.send("SELEC 1;\r")
    wait_for(child, "did you mean SELECT")
    wait_for(child, "kvstore>")
    child.send("half a statement")
    child.sendintr()
    wait_for(child, "kvstore>")
    child.send(".mode csv\r")
    wait_for(child, "kvstore>")
    child.send("SELECT 'x;y' AS a, 6*7 AS b;\r")
    wait_for(child, "x;y,42")
    wait_for(child, "kvstore>")
    child.send("BEGIN;\r")
    wait_for(child, "transaction open")
    child.sendeof()
    wait_for(child, pexpect.EOF)
    child.wait()
    assert child.exitstatus == 0
    assert "SELECT 'x;y'" in (tmp_path / "state" / "kvstore" / "history").read_text()


def test_a_store_that_cannot_be_opened_ends_the_conversation(
    terminal: Callable[..., pexpect.spawn[str]], tmp_path: Path
) -> None:
    (tmp_path / "s" / "data.mdb").write_bytes(b"no store at all" * 1000)
    child = terminal(prompt="error: ")
    wait_for(child, "data.mdb")
    wait_for(child, pexpect.EOF)
    child.wait()
    assert child.exitstatus == 1
    assert "Traceback" not in child.before


def test_input_typed_while_the_store_opens_is_run(terminal: Callable[..., pexpect.spawn[str]]) -> None:
    child = terminal()
    child.send("SELECT key FROM documents ORDER BY key;\r")
    wait_for(child, "hr/leave")


def test_each_pasted_line_after_a_question_is_run(terminal: Callable[..., pexpect.spawn[str]]) -> None:
    child = terminal()
    child.send(
        "\x1b[200~SELECT 'a;b' AS t;\nwho approves leave?\nSELECT 6*7 AS product;\nwho files it?\nquit\x1b[201~\r"
    )
    wait_for(child, "a;b")
    wait_for(child, "Maria Jensen approves leave")
    wait_for(child, "42")
    wait_for(child, pexpect.EOF)


@pytest.mark.parametrize("line", ["RETRIEVE ?", "SHOW TABLES"])
def test_a_long_paste_after_a_question_is_read_only_a_few_times(
    line: str, limit_cpu_time: Callable[[float], None]
) -> None:
    text = "who rings it?\n" + f"{line}\n" * 10_000 + ";"
    limit_cpu_time(10)  # each line of the first 2,000 characters could begin a statement
    assert expand_questions(text) == text


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("who rings the bell?", "ASK 'who rings the bell?';"),
        ("how do I\nring  the bell", "ASK 'how do I ring the bell';"),
        ("how do I\nshow the list;", "ASK 'how do I show the list';"),
        ("who signs it\nwith the owner?", "ASK 'who signs it with the owner?';"),
        ("what is due?\nShow me all dates", "ASK 'what is due? Show me all dates';"),
        ("who wrote\n'a; SELECT b;'?", "ASK 'who wrote ''a; SELECT b;''?';"),
        ("who rings it\nwhere is it?", "ASK 'who rings it where is it?';"),
        ("who rings it?\n\nWhere is\tit\n", "ASK 'who rings it?';\nASK 'Where is it';"),
        ("who rings it?\nSELECT 'x;\ny' AS t;", "ASK 'who rings it?';\nSELECT 'x;\ny' AS t;"),
        ("who rings it?\nshow tables;", "ASK 'who rings it?';\nshow tables;"),
        ("who rings it\nSELECT 6*7;", "ASK 'who rings it';\nSELECT 6*7;"),
        ("who rings it?\n-- a note\n.tables", "ASK 'who rings it?';\n-- a note\n.tables"),
        ("SELECT 'a?\nwho is b?' AS t;\nwho rings it?", "SELECT 'a?\nwho is b?' AS t;\nASK 'who rings it?';"),
        ("SELECT 1;\nwho rings it?\nexit", "SELECT 1;\nASK 'who rings it?';\n.exit"),
        ("who rings it?\n-- a note\nwhere is it?", "ASK 'who rings it?';\n-- a note\nASK 'where is it?';"),
        ("who rings it\nWITH the owner's bell;", "ASK 'who rings it WITH the owner''s bell';"),
        ("who rings it?\nhelp ;\n\\?", "ASK 'who rings it?';\n.help\n\\?"),
        ("\n" * 300 + "who rings it?", "ASK 'who rings it?';"),
        ("Tell me about the bell", "ASK 'Tell me about the bell';"),
        ("list the keepers\n", "ASK 'list the keepers';"),
        ("Wer läutet die Glocke?", "ASK 'Wer läutet die Glocke?';"),
        ("谁敲钟？\nSELECT 1;", "ASK '谁敲钟？';\nSELECT 1;"),
        ("¿Quién toca?\n¿Cuándo toca?", "ASK '¿Quién toca?';\nASK '¿Cuándo toca?';"),
    ],
)
def test_pasted_questions_end_before_statements(text: str, statements: str) -> None:
    assert _expand_shortcuts(text) == statements
    assert _is_complete_input(text)


def test_an_unfinished_statement_after_a_question_is_not_run() -> None:
    text = "who rings it?\nSELECT key"
    assert _expand_shortcuts(text) == "ASK 'who rings it?';\nSELECT key"
    assert not _is_complete_input(text) and _is_complete_input(f"{text};")


@pytest.mark.parametrize("text", ["parental leave", "SELEC 1", "-- a note\nclear"])
def test_a_word_that_begins_no_statement_is_reported_at_once(text: str) -> None:
    assert _is_complete_input(text), "no further line makes it valid"
    assert not _is_complete_input("-- a note\nSELECT 1") and not _is_complete_input("(SELECT 1")


@pytest.mark.slow
def test_ctrl_c_cancels_a_statement_and_twice_leaves(terminal: Callable[..., pexpect.spawn[str]]) -> None:
    child = terminal()
    child.send("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n;\r")
    wait_for(child, re.escape("\x1b[?2004l"))  # the prompt has let go of the terminal
    time.sleep(0.5)
    child.sendintr()
    wait_for(child, "canceled")
    wait_for(child, "kvstore>")
    child.send("SELECT 6*7 AS answer;\r")
    wait_for(child, "42")
    wait_for(child, "kvstore>")
    # Two that come too close together count as one: press until it leaves.
    for _ in range(10):
        child.sendintr()
        if wait_for(child, pexpect.EOF, pexpect.TIMEOUT, timeout=2) == 0:
            break
    child.wait()
    assert child.exitstatus == 0


@pytest.mark.slow
def test_a_statement_that_can_change_many_documents_asks_first(
    terminal: Callable[..., pexpect.spawn[str]], tmp_path: Path
) -> None:
    child = terminal()
    child.send("DELETE FROM documents WHERE 1;\r")
    wait_for(child, r"\[y/N\] ")
    child.send("n\r")
    wait_for(child, "not run")
    wait_for(child, "kvstore>")
    child.send("DELETE FROM documents WHERE key = 'tree';\r")
    wait_for(child, r"\[y/N\] ")
    child.send("y\r")
    wait_for(child, "1 document deleted")
    wait_for(child, "kvstore>")
    for title in ("'A'", "'A WHERE 1'", "(SELECT 'A' WHERE 1)"):
        child.send(f"UPDATE documents SET title = {title};\r")
        wait_for(child, r"\[y/N\] ")
        child.send("n\r")
        wait_for(child, "not run")
        wait_for(child, "kvstore>")
    child.send("UPDATE documents SET title = 'B' WHERE 1;\r")
    wait_for(child, "1 document updated")
    wait_for(child, "kvstore>")
    child.send(".quit\r")
    wait_for(child, pexpect.EOF)
    with kvstore.open(tmp_path / "s", readonly=True) as store:
        assert [document.title for document in store.get_many(store.keys())] == ["B"]


@pytest.mark.parametrize(
    ("statement", "effect"),
    [
        ("DELETE FROM documents WHERE key = 'tea'", "this deletes every document that satisfies the condition;"),
        ("-- all\nupdate documents SET title = 'B'", "this updates every document;"),
    ],
)
def test_the_confirmation_names_the_effect(monkeypatch: pytest.MonkeyPatch, statement: str, effect: str) -> None:
    questions: list[str] = []

    def reply(question: str) -> str:
        questions.append(question)
        return "y"

    monkeypatch.setattr("builtins.input", reply)
    described_effect = _describe_mass_change(statement)
    assert described_effect is not None and _confirm_effect(described_effect)
    assert questions == [f"{effect} continue? [y/N] "]


def test_a_change_of_a_read_only_store_is_refused_without_a_question(
    terminal: Callable[..., pexpect.spawn[str]],
) -> None:
    child = terminal("--readonly")
    child.send("DELETE FROM documents WHERE key = 'tea';\r")
    assert wait_for(child, "continue?", "opened read-only") == 1


@pytest.mark.slow
def test_tab_completes_from_the_store(terminal: Callable[..., pexpect.spawn[str]]) -> None:
    child = terminal("--readonly")
    wait_for(child, "read-only")
    child.send("DESCRIBE ENTITY 'mar\t")
    wait_for(child, "'Maria Jensen'")
    child.send("\t;\r")
    wait_for(child, "maria jensen")
    wait_for(child, "kvstore>")
    child.sendeof()
    wait_for(child, pexpect.EOF)


@pytest.mark.slow
def test_the_menu_offers_valid_completions(terminal: Callable[..., pexpect.spawn[str]]) -> None:
    child = terminal()
    child.send("SHOW ST\t")
    wait_for(child, "STATS")
    wait_for(child, "STRATEGIES")
    child.send("\t\t;\r")
    wait_for(child, "bridge")
    wait_for(child, "kvstore>")


@pytest.mark.slow
def test_history_is_found_again_after_a_restart(terminal: Callable[..., pexpect.spawn[str]]) -> None:
    child = terminal()
    child.send("SELECT 6*7\r")
    wait_for(child, r"\.\.\.>")
    child.send("AS remembered;\r")
    wait_for(child, "42")
    wait_for(child, "kvstore>")
    child.sendeof()
    wait_for(child, pexpect.EOF)
    child = terminal()
    child.send("\x1b[A")  # arrow up
    wait_for(child, "remembered")
    child.send("\r")
    wait_for(child, "42")
    wait_for(child, "kvstore>")
    child.send("\x12")  # Ctrl-R
    wait_for(child, "reverse-i-search")
    child.send("6*7")
    time.sleep(0.3)
    child.send("\r")
    time.sleep(0.3)  # the search takes the first Enter
    child.send("\r")
    wait_for(child, "42")


@pytest.mark.slow
def test_a_resize_is_followed(terminal: Callable[..., pexpect.spawn[str]]) -> None:
    child = terminal()
    query = "SELECT 'one two three four' AS a, 'five six seven eight' AS b;\r"
    child.send(query)
    wait_for(child, r"one two three four\s+\S*\s*five six seven eight")
    wait_for(child, "kvstore>")
    child.setwinsize(40, 22)
    for _ in range(5):
        time.sleep(0.5)
        child.send("\x1b[A\r")
        narrow = wait_for(child, "a = one two three", r"four\s+\S*\s*five six seven eight") == 0
        wait_for(child, "kvstore>")
        if narrow:
            break
    assert narrow


def test_a_narrow_terminal_shows_the_time_that_an_ingest_still_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("shutil.get_terminal_size", lambda *_: os.terminal_size((80, 24)))
    progress = kvstore.IngestProgress(
        26, 100, 1834, 54.0, 29.0, "minutes/2024-05-31.md", bytes_done=346_900, bytes=1_100_000
    )
    terminal = Terminal()
    ProgressLine(terminal).show(progress)
    line = terminal.getvalue().rpartition("\r")[2]
    assert line == "[██████··············] 29 s left, 26 of 100 files, 346.9 kB of 1.1 MB, 1,834 c…"


@pytest.mark.slow
def test_ctrl_c_undoes_the_statement_it_cancels(terminal: Callable[..., pexpect.spawn[str]], tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(3000):
        (folder / f"{number}.txt").write_text(f"Text {number} of Maria Jensen. " * 20)
    child = terminal()
    child.send("INGEST 'folder';\r")
    wait_for(child, r"of 3,000 files")  # the progress bar
    child.sendintr()
    wait_for(child, "canceled")
    wait_for(child, "kvstore>")
    child.send("CHECK;\r")
    wait_for(child, "the store is sound")
    wait_for(child, "kvstore>")
    child.sendeof()
    wait_for(child, pexpect.EOF)
    with kvstore.open(tmp_path / "s", readonly=True) as store:
        assert len(store.keys()) < 3002


@pytest.mark.slow
def test_a_missing_editor_is_reported(terminal: Callable[..., pexpect.spawn[str]]) -> None:
    child = terminal()
    child.send(".edit\r")
    wait_for(child, "set VISUAL or EDITOR")


@pytest.mark.slow
def test_the_prompt_is_not_written_to_a_file_of_results(
    terminal: Callable[..., pexpect.spawn[str]], tmp_path: Path
) -> None:
    child = terminal(redirection="> rows.tsv")
    child.send("SELECT 6*7 AS answer;\r")
    wait_for(child, "answer")
    wait_for(child, "kvstore>")
    child.send("DELETE FROM documents WHERE key = 'x';\r")
    wait_for(child, "continue\\?")
    child.send("n\r")
    wait_for(child, "was not run")
    wait_for(child, "kvstore>")
    child.sendeof()
    wait_for(child, pexpect.EOF)
    assert (tmp_path / "rows.tsv").read_text() == "answer\n42\n"


@pytest.mark.slow
def test_ctrl_z_inserts_nothing(terminal: Callable[..., pexpect.spawn[str]]) -> None:
    """The system ignores the signal to stop here, because no shell could continue the process."""
    child = terminal()
    child.send("\x1aSELECT 6*7 AS answer;\r")
    wait_for(child, "42")


@pytest.mark.slow
def test_edit_puts_the_edited_text_at_the_prompt(terminal: Callable[..., pexpect.spawn[str]], tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/SELEC/SELECT/ "$1"\n')
    editor.chmod(0o755)
    child = terminal()
    child.send("SELEC 6*7;\r")
    wait_for(child, "did you mean SELECT")
    wait_for(child, "kvstore>")
    child.send(".edit\r")
    wait_for(child, "SELECT")
    child.send("\r")
    wait_for(child, "42")
    wait_for(child, "kvstore>")


@pytest.mark.slow
def test_a_long_result_is_paged(terminal: Callable[..., pexpect.spawn[str]]) -> None:
    child = terminal()
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS nr FROM n LIMIT"
    child.send(f"{numbers} 60;\r")
    wait_for(child, r"paged:\s*60")
    wait_for(child, "kvstore>")
    child.setwinsize(24, 100)
    child.send(".help\r")
    wait_for(child, r"paged:\.help")
    wait_for(child, r"paged:\.show")
    wait_for(child, "kvstore>")
    child.send(".pager head -5\r")
    wait_for(child, "pager head -5")
    child.send(f"{numbers} 100000;\r")  # a pager that is left early
    wait_for(child, "nr")
    wait_for(child, "kvstore>")
    child.send(".pager off\r")
    wait_for(child, "pager off")
    child.send(f"{numbers} 60;\r")
    wait_for(child, r"\n\s*60")
    wait_for(child, "kvstore>")


@pytest.mark.slow
def test_the_configuration_is_read_and_its_default_is_all_comments(
    terminal: Callable[..., pexpect.spawn[str]], tmp_path: Path
) -> None:
    child = terminal()
    child.sendeof()
    wait_for(child, pexpect.EOF)
    config = tmp_path / "config" / "kvstore" / "config"
    lines = config.read_text().splitlines()
    assert "[main]" in lines
    assert all(line.startswith("#") for line in lines if line and line != "[main]")
    changed = re.sub("^# (mode =).*", r"\1 csv", config.read_text(), flags=re.MULTILINE)
    changed = re.sub("^# (prompt =).*", r"\1 <\\d>\nnonsense = 1", changed, flags=re.MULTILINE)
    config.write_text(changed)
    child = terminal(prompt="no such setting")
    wait_for(child, "<s>")
    child.send("SELECT 1 AS one, 2 AS two;\r")
    wait_for(child, "one,two")
    child.send(".prompt '%% '\r")
    wait_for(child, "%% ")


def test_a_dump_makes_the_same_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with kvstore.open("a", embedder="hashing") as store:
        store.put(
            "q'uote\n.quit", "Maria Jensen; it's\n.quit\n-- no comment", title="A 'title'", meta={"x": ["ü", None]}
        )
        store.put("page.md", "# Head\n\nPayroll pays.", format="markdown", source="hr/page.md")
        store.put("tree", "Payroll,Finance\n", format="pairs")
        store.put_edge("Payroll", "Staff", tree="a 'tree'")
        store.alias("the lady", "Maria Jensen")
        store.alias("her", "the lady")
        store.merge("Staff", "Finance")
    assert cli.run(["shell", "a", "-c", ".output dump.sql\n.dump"]) == 0
    assert cli.run(["shell", "b", "--embedder", "hashing", "-f", "dump.sql"]) == 0
    with kvstore.open("a") as first, kvstore.open("b") as second:
        assert Path("dump.sql").read_text() == "".join(f"{statement}\n" for statement in first.dump())
        assert first.not_in_dump() == []
        first.export("a.jsonl")
        second.export("b.jsonl")
        assert second.check() == []
    assert Path("a.jsonl").read_text() == Path("b.jsonl").read_text()


def test_a_dump_reports_inexpressible_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with kvstore.open("a", embedder="hashing") as store:
        store.put("k", "Some text.", vectors=[1.0] * store.settings.dimension)
        store.put("e", "Maria Jensen.", title="Maria Jensen")
        store.alias("MJ", "Maria Jensen")
        store.delete("e")
    assert cli.run(["shell", "a", "-c", ".dump"]) == 1
    error = capsys.readouterr().err
    assert "vectors of 1 document; use EXPORT TO" in error
    assert "'MJ' is an alias of 'Maria Jensen'" in error


def test_the_page_names_every_command() -> None:
    names = set(re.findall(r"`\.(\w+)[^`]*`", PAGE))
    assert set(COMMANDS) - names == set()
    assert names - set(COMMANDS) == {"arrow", "jsonl", "ndjson", "parquet"}, "suffixes of files"


def test_import_is_ingest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("d.csv").write_text("id,text\n7,Seven.\n")
    Path("p.csv").write_text("Payroll,Finance\n")
    commands = ["-c", ".import d.csv documents", "-c", ".import p.csv pairs"]
    assert cli.run(["shell", "s", "--embedder", "hashing", *commands]) == 0
    with kvstore.open("s") as store:
        assert store.keys() == ["7", "p.csv"]
        assert store.get("p.csv").format == "pairs"  # type: ignore[union-attr]
    assert cli.run(["shell", "s", "-c", ".import d.csv nonsense"]) == 1
    assert cli.run(["shell", "s", "-c", ".edit"]) == 1


@pytest.mark.slow
def test_words_of_other_shells_need_no_dot(terminal: Callable[..., pexpect.spawn[str]]) -> None:
    child = terminal()
    child.send("help\r")
    wait_for(child, r"\.schema \[TABLE\]")
    wait_for(child, "kvstore>")
    child.send("quit;\r")
    wait_for(child, pexpect.EOF)
    child.wait()
    assert child.exitstatus == 0


@pytest.mark.slow
def test_ctrl_c_on_typed_text_does_not_count_toward_quitting(terminal: Callable[..., pexpect.spawn[str]]) -> None:
    child = terminal()
    for half in ("SELECT half", "LOOKUP 'half"):
        child.send(half)
        wait_for(child, "half")
        child.sendintr()
        wait_for(child, "kvstore>")
        child.sendintr()
        wait_for(child, "kvstore>")
    child.send("SELECT 6*7;\r")
    wait_for(child, "42")


def test_enter_waits_for_the_semicolon() -> None:
    assert not is_complete("SELECT 1")
    assert is_complete("SELECT 1;")


@pytest.mark.slow
def test_vi_commands_edit_the_input_and_the_toolbar_shows_the_mode(terminal: Callable[..., pexpect.spawn[str]]) -> None:
    child = terminal()
    child.send(".keys vi\r")
    wait_for(child, "vi-insert")
    child.send("SELECT 6 * 7 AS numberx")
    wait_for(child, "numberx")
    child.send("\x1b")
    wait_for(child, "navigation")  # the rest of the word is already there
    child.send("xA;\r")
    wait_for(child, r"number\s+-+\s+42")
    child.send(".keys emacs\r")
    wait_for(child, "keys emacs")


@pytest.mark.slow
def test_a_watched_statement_runs_until_ctrl_c(terminal: Callable[..., pexpect.spawn[str]]) -> None:
    child = terminal()
    child.send(".watch\r")
    wait_for(child, "there is no statement to repeat")
    child.send("SELECT count(*) AS counted FROM documents;\r")
    wait_for(child, r"counted\s+-+")
    child.send(".watch 0.01\r")
    for _ in range(3):
        wait_for(child, r"again in 0\.01 s; Ctrl-C stops")
    child.sendintr()
    wait_for(child, "canceled")
    wait_for(child, "kvstore>")


def test_a_watched_statement_ends_after_so_many_times_or_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("script.sql").write_text(
        "INSERT DOCUMENT 'a' TEXT 'One.';\nSELECT 1 AS one;\n.watch 0 3\n.watch x\n.watch 0 0\nSELEC;\n.watch 0 3\n"
    )
    assert cli.run(["shell", "s", "--embedder", "hashing", "-f", "script.sql"]) == 1
    out, error = capsys.readouterr()
    assert out == "one\n1\n" * 4
    assert error.count("usage: .watch [SECONDS [TIMES]]") == 2
    assert error.count("did you mean SELECT") == 2


def test_commands_of_psql_do_what_they_do_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [
        r"\d+ chunks",
        r"\d",
        r"\x",
        "SELECT 1 AS one;",
        r"\x off",
        r"\timing on",
        "SELECT 2 AS two;",
        r"\h select",
        r"\o rows.txt",
        "SELECT 3 AS three;",
        r"\o",
        r"\i ~/four.sql",
        r"\q",
        "SELEC;",
    ]
    Path("script.sql").write_text("\n".join(lines))
    monkeypatch.setenv("HOME", str(tmp_path))
    Path("four.sql").write_text("SELECT 4 AS four;")
    assert cli.run(["shell", "s", "--embedder", "hashing", "-f", "script.sql"]) == 0
    out, error = capsys.readouterr()
    assert out.startswith("column\ttype\tindex\nid\tINTEGER\tequality, range\n")
    assert "\ndocuments\tstored documents" in out
    assert out.endswith("one = 1\ntwo\n2\nSELECT ...\nfour\n4\n")
    assert Path("rows.txt").read_text() == "three\n3\n"
    assert error.splitlines()[:3] == ["expanded display on", "expanded display off", "timer on"]
    assert error.count(" ms") == 3


def test_statements_are_saved_under_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    lines = [r"\ns two SELECT 'it''s' AS two;", "SELECT 1 AS one;", r"\ns one", r"\n two", r"\nd two", ".saved"]
    Path("script.sql").write_text("\n".join(lines))
    assert cli.run(["shell", "s", "--embedder", "hashing", "-f", "script.sql"]) == 0
    out, error = capsys.readouterr()
    assert out == "one\n1\ntwo\nit's\nname\tstatement\none\tSELECT 1 AS one;\n"
    assert r"saved; \n two runs it" in error and "two is deleted" in error
    assert json.loads(Path("settings/kvstore/queries.json").read_text()) == {"one": "SELECT 1 AS one;"}
    for command, message in (
        (r"\n two", "no statement is saved as 'two'; saved statements: one"),
        (r"\nd two", "no statement is saved as 'two'"),
        (r"\ns", "usage: .save NAME [STATEMENT]"),
        (r"\ns three", "there is no statement to save yet"),
        (r"\n one two", "usage: .saved [NAME]"),
    ):
        assert cli.run(["shell", "s", "-c", command]) == 1
        assert message in capsys.readouterr().err
    lines = ["SELECT 1 AS one;", r".save 'two' SELECT 'a  b' AS two;", ".saved\ttwo", ".save 'my two' SELECT 2"]
    Path("script.sql").write_text("\n".join(lines))
    assert cli.run(["shell", "s", "-f", "script.sql"]) == 1
    out, error = capsys.readouterr()
    assert "two\na  b\n" in out and "a name must be one word of at most 60 characters, not 'my two'" in error
    assert json.loads(Path("settings/kvstore/queries.json").read_text()).keys() == {"one", "two"}
    assert [offered.text for offered in complete(".saved o", SmallCatalog())] == ["one"]
    Path("settings/kvstore/queries.json").write_text("[")
    assert cli.run(["shell", "s", "-c", ".saved"]) == 1
    assert "repair or remove the file" in capsys.readouterr().err


def test_a_result_is_copied_to_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    script = [
        "INSERT DOCUMENT 'a,b' TEXT 'One.';",
        "COPY (SELECT key, chunks FROM documents WHERE key IN ('a,b')) TO 'it''s.csv';",
        "copy (SEARCH 'one') to 'hits.jsonl'",
    ]
    assert cli.run(["shell", "s", "--embedder", "hashing", *(word for line in script for word in ("-c", line))]) == 0
    assert Path("it's.csv").read_bytes() == b'key,chunks\n"a,b",1\n'
    assert json.loads(Path("hits.jsonl").read_text())["document"] == "a,b"
    assert "1 row written to it's.csv" in capsys.readouterr().err
    for statement, message in (
        ("COPY (SELECT 1) TO 'x.doc'", "the suffix selects the format of COPY; choose one of .csv"),
        ("COPY (DELETE DOCUMENT 'a,b') TO 'x.csv'", "expected ASK, DESCRIBE"),
        ("COPY (SELECT * FROM nowhere) TO 'x.csv'", "nowhere"),
        ("COPY (SELECT 1) TO 'hits.jsonl'", "hits.jsonl already exists"),
    ):
        assert cli.run(["shell", "s", "-c", statement]) == 1
        assert message in capsys.readouterr().err
    assert cli.run(["shell", "s", "-c", "SELECT count(*) FROM documents"]) == 0
    assert capsys.readouterr().out == "count(*)\n1\n"
    assert sorted(path.name for path in Path().iterdir()) == ["hits.jsonl", "it's.csv", "s"]


def test_a_result_is_copied_to_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.chdir(tmp_path)
    assert cli.run(["shell", "--embedder", "hashing", "-c", "COPY (SELECT 1 AS one) TO 'one.parquet'"]) == 0
    assert parquet.read_table("one.parquet").to_pylist() == [{"one": 1}]


def test_a_shell_without_a_store_has_an_empty_one_that_it_deletes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    statements = ["-c", "INSERT DOCUMENT 'a' TEXT 'One.'", "-c", "SELECT key FROM documents"]
    before = set(Path("/dev/shm").glob("kvstore-*")) if Path("/dev/shm").exists() else set()
    assert cli.run(["shell", "--embedder", "hashing", *statements]) == 0
    out, error = capsys.readouterr()
    assert out == "key\na\n" and "in memory and is deleted when the shell exits" in error
    assert "the store is empty" not in error
    assert cli.run(["shell", "--embedder", "hashing", "-c", "SEARCH 'one'"]) == 0
    assert (
        "the store is empty; INGEST 'FOLDER' stores files (on the command line: kvstore ingest)"
        in capsys.readouterr().err
    )
    assert cli.run(["shell", "-c", "SELECT 1 AS one"]) == 0
    assert capsys.readouterr().out == "one\n1\n"
    assert not list(Path().iterdir())
    assert before == (set(Path("/dev/shm").glob("kvstore-*")) if Path("/dev/shm").exists() else set())


def test_a_command_of_psql_or_sqlite3_is_answered_with_the_equivalent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [r"\df", r"\pset", r"\zz", "\\", r"\! ls", "SELECT 'a", r"\d' AS t;"]
    Path("script.sql").write_text("\n".join(lines))
    assert cli.run(["shell", "s", "--embedder", "hashing", "-f", "script.sql"]) == 1
    out, error = capsys.readouterr()
    assert out == "t\na\\n\\\\d\n", "inside a statement it is text"
    message_lines = error.splitlines()
    assert r"line 1: \df is a psql command; in kvstore, SHOW STRATEGIES; lists the strategies" in message_lines[0]
    assert r"\pset is a psql command" in message_lines[1]
    assert r"there is no command \zz; commands begin with a dot" in message_lines[2]
    assert "there is no command \\;" in message_lines[3]
    assert "Ctrl-Z suspends the shell" in message_lines[4]
    assert cli.run(["shell", "s", "-c", ".separator ,", "-c", ".indexes", "-c", ".e x"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "error: .separator is a sqlite3 command; in kvstore, .mode sets the format of results",
        "error: .indexes is a sqlite3 command; in kvstore, SHOW INDEXES; lists the indexes",
        "error: there is no command .e; did you mean .exit, .expanded or .edit?",
    ]
    assert _is_complete_input(r"\d"), "at the prompt it needs no semicolon"
    assert _is_complete_input("who rings the bell?"), "a question needs no ASK"
    assert _expand_shortcuts("what's lit? ;") == "ASK 'what''s lit?';"
    assert _expand_shortcuts("SELECT ':what?'") == "SELECT ':what?'"
    assert _is_complete_input("ASK who rings the bell"), "without quotes no further line makes it valid"
    assert not _is_complete_input("ASK"), "the question may stand on the next line"
    assert not _is_complete_input("SELECT key")
    assert not _is_complete_input("select key from documents limit?"), "this question mark is a parameter"
    assert {command.removeprefix(".") for command in psql_commands.EQUIVALENTS.values()} <= set(COMMANDS)
    commands = {word for text in psql_commands._REPLACEMENTS.values() for word in re.findall(r"(?<!\S)\.(\w+)", text)}
    assert commands <= set(COMMANDS)
