"""The command ``kvstore``: what it prints where, and its exit status."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import kvstore
from kvstore.language import delete_unused_store, list_expected_terminals
from kvstore_shell.cli import run
from kvstore_shell.statement_help import SYNTAX_LINES

KVSTORE = [sys.executable, "-c", "from kvstore_shell.cli import main; main()"]
TEXT = "Maria Jensen works at Acme Corporation. Leave lasts twenty weeks."

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run_kvstore(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs the command in this process and returns its status, output and errors."""
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str, stdin: str | bytes = "") -> tuple[int, str, str]:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        status = run(list(arguments))
        out, error = capsys.readouterr()
        return status, out, error

    return command


@pytest.fixture
def store(run_kvstore: Run) -> str:
    """Return the path of a store with one document."""
    status, _, error = run_kvstore(
        "shell", "s", "--embedder", "hashing", "-c", f"INSERT DOCUMENT 'a' TITLE 'A' TEXT '{TEXT}'"
    )
    assert status == 0, error
    return "s"


def start_kvstore(*arguments: str, cwd: Path, **options: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
        [*KVSTORE, *arguments],
        cwd=cwd,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


# Shell ---------------------------------------------------------------------------------------------------------------


def test_statements_from_c_f_and_stdin(run_kvstore: Run, store: str, tmp_path: Path) -> None:
    (tmp_path / "script.sql").write_text(
        "-- a comment\nSELECT key\nFROM documents; .print done;\n.print 'two  words'\n"
    )
    assert run_kvstore("shell", store, "-c", "SELECT 1 AS a", "-c", "SELECT 2 AS b; SELECT 3 AS c;")[:2] == (
        0,
        "a\n1\nb\n2\nc\n3\n",
    )
    status, out, error = run_kvstore("shell", store, "-f", "script.sql")
    assert (status, out) == (1, "key\na\ntwo  words\n"), "a command begins a line"
    assert "script.sql: line 3, column 17" in error
    assert run_kvstore("shell", store, stdin="SELECT key FROM documents;\nSELECT 'a;\nb' AS t")[:2] == (
        0,
        "key\na\nt\na;\\nb\n".replace("a;\\nb", "a;\\nb"),
    )
    assert run_kvstore("shell", store, "-f", "-", stdin="SELECT 1 AS x")[:2] == (0, "x\n1\n")


def test_results_and_everything_else_are_kept_apart(run_kvstore: Run, store: str) -> None:
    assert run_kvstore("shell", store, "-c", "INSERT DOCUMENT 'b' TEXT 'Some text.'") == (
        0,
        "",
        "1 document inserted\n",
    )
    status, out, error = run_kvstore("shell", store, "-c", "LOOKUP 'Maria Jensn'")
    assert (status, out.count("\n")) == (0, 1)
    assert error == "no entity is called 'Maria Jensn'; did you mean 'Maria Jensen'?\n"


def test_a_failure_is_reported_and_the_rest_continues(run_kvstore: Run, store: str) -> None:
    script = "SELECT 1 AS a;\nSELEC 2;\n.nonsense\nSELECT 3 AS b;\n"
    status, out, error = run_kvstore("shell", store, stdin=script)
    assert (status, out) == (1, "a\n1\nb\n3\n")
    assert "line 2, column 1" in error
    assert ".nonsense" in error
    assert "Traceback" not in error
    assert run_kvstore("shell", store, "--bail", stdin=script)[:2] == (1, "a\n1\n")


def test_output_to_a_full_disk_is_reported_without_its_number(store: str, tmp_path: Path) -> None:
    command = [*KVSTORE, "shell", store, "-c", "SELECT 1"]
    with open("/dev/full", "w") as output:
        process = subprocess.run(command, cwd=tmp_path, stdout=output, stderr=subprocess.PIPE, text=True)
    assert (process.returncode, process.stderr) == (1, "error: No space left on device\n")


def test_an_error_of_a_script_names_file_and_line(run_kvstore: Run, store: str, tmp_path: Path) -> None:
    script = "SELECT 1;\n\n  DELETE DOCUMENT 'x';\n.read nowhere.sql\nSEARCH 'x'\n WHERE foo;\n.nope\n"
    (tmp_path / "a.sql").write_text(script)
    for name, run_script in (
        ("a.sql", lambda: run_kvstore("shell", store, "-f", "a.sql")),
        ("a.sql", lambda: run_kvstore("shell", store, "-c", ".read a.sql")),
        ("standard input", lambda: run_kvstore("shell", store, stdin=script)),
    ):
        status, _, error = run_script()
        assert status == 1
        assert re.findall(r"^error: (.*?): ", error, re.MULTILINE) == [name] * 4
        assert re.findall(r"line \d+(?:, column \d+)?", error) == ["line 3", "line 4", "line 6, column 8", "line 7"]
        assert "Errno" not in error
    status, _, error = run_kvstore("shell", store, "-f", "nowhere.sql")
    assert (status, error.startswith("error: the script nowhere.sql cannot be read (No such file")) == (1, True)


def test_bail_and_the_end_of_a_script_roll_back(run_kvstore: Run, store: str) -> None:
    script = "BEGIN; INSERT DOCUMENT 'b' TEXT 'Text.'; INSERT DOCUMENT 'b' TEXT 'Text.'; COMMIT;"
    status, _, error = run_kvstore("shell", store, "--bail", stdin=script)
    assert status == 1
    assert "rolled back" in error
    assert run_kvstore("shell", store, "-c", "SELECT count(*) FROM documents")[1] == "count(*)\n1\n"
    status, _, error = run_kvstore("shell", store, stdin=script)
    assert (status, "rolled back" in error) == (1, False)
    assert run_kvstore("shell", store, "-c", "SELECT count(*) FROM documents")[1] == "count(*)\n2\n"
    status, _, error = run_kvstore("shell", store, "-c", "BEGIN; DELETE DOCUMENT 'b'")
    assert status == 1
    assert error.endswith("error: the open transaction was rolled back; end it with COMMIT to keep its changes\n")
    assert run_kvstore("shell", store, "-c", "SELECT count(*) FROM documents")[1] == "count(*)\n2\n"
    script = f"BEGIN; DELETE DOCUMENT 'b';\n.open {store}\n.print after;"
    status, output, error = run_kvstore("shell", store, "--bail", stdin=script)
    assert (status, output, error.count("rolled back")) == (1, "", 1)
    status, output, error = run_kvstore("shell", store, stdin=script)
    assert (status, output, error.count("rolled back")) == (1, "after;\n", 1)


def test_readonly_and_missing_stores(run_kvstore: Run, store: str) -> None:
    status, _, error = run_kvstore("shell", store, "--readonly", "-c", "DELETE DOCUMENT 'a'")
    assert (status, "read-only" in error) == (1, True)
    for command in (
        ["shell", "none", "--readonly", "-c", "CHECK"],
        ["ask", "none", "x"],
        ["info", "none"],
        ["check", "none"],
        ["migrate", "none"],
        *([["explore", "none"]] if find_spec("uvicorn") else []),
    ):
        status, out, error = run_kvstore(*command)
        assert (status, out) == (1, "")
        assert error.startswith("error: none: there is no store here")
        assert not Path("none").exists()
    assert run_kvstore("shell", "new", "--embedder", "hashing", "-c", "CHECK")[0] == 0
    status, _, error = run_kvstore("shell", "new", "--embedder", "all-MiniLM-L6-v2", "-c", "CHECK")
    assert (status, "hashing" in error) == (2, True)


def test_a_command_that_can_read_nothing_creates_no_store(run_kvstore: Run) -> None:
    Path("notes.txt").write_text("No export.")
    for command, reason in (
        (["ingest", "new", "missing", "none*.txt"], "'missing': there is no such file or folder"),
        (["shell", "new", "-c", "INGEST 'missing'"], "'missing': there is no such file or folder"),
        (["shell", "new", "-c", "IMPORT FROM 'missing.jsonl'"], "missing.jsonl: cannot be read"),
        (["shell", "new", "-c", "IMPORT FROM 'notes.txt'"], "and INGEST reads other files"),
    ):
        status, out, error = run_kvstore(*command)
        assert (status, out, reason in error) == (1, "", True), error
        assert not Path("new").exists()
    Path("bad.pdf").write_bytes(b"%PDF-1.4\nThis is no PDF.")
    for command in (
        ["ingest", "new", "bad.pdf", "--embedder", "hashing"],
        ["ingest", "new", "notes.txt", "--embedder", "hashing", "--as", "jsonl"],
        *(
            ["shell", "new", *options, "-c", statement]
            for options in ([], ["--embedder", "hashing"])
            for statement in (
                "INSERT EDGE 'a' UNDER 'a'",
                "SET nosuch = 3",
                "CREATE INDEX nosuch",
                "INGEST 'bad.pdf'",
                "BEGIN; INSERT EDGE 'a' UNDER 'b'; INSERT EDGE 'a' UNDER 'a'",
            )
        ),
    ):
        status, _, error = run_kvstore(*command)
        assert status == 1, (command, error)
        assert not Path("new").exists(), command
    # A failure after something was stored, and one in a store that exists, delete nothing.
    assert run_kvstore("shell", "new", "-c", "INSERT EDGE 'a' UNDER 'b'", "-c", "SET nosuch = 3")[0] == 1
    assert run_kvstore("shell", "new", "-c", "SELECT child FROM edges")[1] == "child\na\n"
    with kvstore.open("empty", embedder="hashing"):
        pass
    assert run_kvstore("shell", "empty", "-c", "SET nosuch = 3")[0] == 1
    assert run_kvstore("ingest", "empty", "bad.pdf")[0] == 1
    with kvstore.open("empty") as store:
        assert not delete_unused_store(store), "another opening created it"
    assert (Path("empty") / "data.mdb").exists()
    shutil.rmtree("new")
    assert run_kvstore("ingest", "new", "missing", "notes.txt", "--embedder", "hashing")[0] == 1
    assert run_kvstore("shell", "new", "-c", "SELECT key FROM documents")[1] == "key\nnotes.txt\n"


MODES = {
    "tsv": "a\tb\n1\tx\\ty\n\t\n",
    "csv": "a,b\n1,x\ty\n,\n",
    "json": '[\n{"a": 1, "b": "x\\ty"},\n{"a": null, "b": ""}\n]\n',
    "jsonl": '{"a": 1, "b": "x\\ty"}\n{"a": null, "b": ""}\n',
    "markdown": "| a | b |\n| --- | --- |\n| 1 | x&#9;y |\n|  |  |\n",
    "line": "a = 1\nb = x y\n\na = NULL\nb =\n",
    "table": "    a | b\n------+-----\n    1 | x y\n NULL |\n",
    "box": "┌──────┬─────┐\n│    a │ b   │\n├──────┼─────┤\n│    1 │ x y │\n│ NULL │     │\n└──────┴─────┘\n",
}


@pytest.mark.parametrize("mode", MODES)
def test_modes(run_kvstore: Run, store: str, mode: str) -> None:
    query = "SELECT 1 AS a, 'x' || char(9) || 'y' AS b UNION ALL SELECT NULL, ''"
    assert run_kvstore("shell", store, "--mode", mode, "-c", query)[1] == MODES[mode]


def test_commands_print_rows_as_json(run_kvstore: Run, store: str) -> None:
    assert json.loads(run_kvstore("shell", store, "--json", "-c", "SELECT 1 AS a")[1]) == [{"a": 1}]
    assert {"name": "documents", "value": 1} in json.loads(run_kvstore("info", store, "--json")[1])
    for command in (["check", store], ["compact", store], ["plugins"]):
        assert isinstance(json.loads(run_kvstore(*command, "--json")[1]), list)
        assert run_kvstore(*command, "--json", "--mode", "csv")[:2] == (2, "")


def test_a_number_that_is_wider_than_the_numbers_before_it_is_not_divided(run_kvstore: Run, store: str) -> None:
    query = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n LIMIT 10000"
    assert run_kvstore("shell", store, "--mode", "table", "-c", query)[1].endswith("\n 9999\n 10000\n")


def test_metadata_are_objects_in_json(run_kvstore: Run, store: str) -> None:
    insert = "INSERT DOCUMENT 'b' TEXT 'It is.' META '{\"year\": 2024, \"tags\": [\"ä\"]}'"
    queries = ("-c", 'SELECT key, meta, title AS "value" FROM documents ORDER BY key', "-c", "DESCRIBE DOCUMENT 'b'")
    _, out, _ = run_kvstore("shell", store, "--mode", "jsonl", "-c", insert, *queries)
    first_row, second_row, *described = map(json.loads, out.splitlines())
    expected = {"year": 2024, "tags": ["ä"]}
    assert (first_row["meta"], second_row["meta"]) == ({}, expected)
    assert {row["property"]: row["value"] for row in described}["meta"] == expected
    _, out, _ = run_kvstore(
        "shell", store, "--mode", "jsonl", "-c", "SELECT '{no' AS meta, '{\"a\": NaN}' AS meta, '{}' AS other"
    )
    assert json.loads(out) == {"meta": "{no", "meta:1": '{"a": NaN}', "other": "{}"}
    assert (
        run_kvstore("shell", store, "--mode", "csv", "-c", "SELECT meta FROM documents WHERE key = 'a'")[1]
        == "meta\n{}\n"
    )
    with kvstore.open(store) as opened:
        assert opened.execute("SELECT meta FROM documents WHERE key = 'a'").fetchall() == [("{}",)]


def test_json_of_no_rows_and_citations_of_an_answer(run_kvstore: Run, store: str) -> None:
    assert run_kvstore("shell", store, "--mode", "json", "-c", "SELECT 1 AS a WHERE 0")[1] == "[]\n"
    status, out, _ = run_kvstore(
        "ask", store, "How long does leave last?", "--mode", "json", "--using", "lexical", "--top", "1"
    )
    (answer,) = json.loads(out)
    assert (status, answer["citations"][0]["document"], answer["extractive"]) == (0, "a", True)


def test_dot_commands(run_kvstore: Run, store: str, tmp_path: Path) -> None:
    (tmp_path / "inner.sql").write_text(".print inside\nSELECT 1 AS one;\n")
    script = """
.mode csv
.once once.csv
SELECT 1 AS a;
.output all.csv
SELECT 2 AS b;
.output
.read inner.sql
.tables
.schema trees
.show
.open nowhere
.timer on
SELECT 3 AS c;
.help once
.quit
SELECT 4 AS never;
"""
    status, out, error = run_kvstore("shell", store, stdin=script)
    assert status == 1
    assert (tmp_path / "once.csv").read_text() == "a\n1\n"
    assert (tmp_path / "all.csv").read_text() == "b\n2\n"
    assert out.startswith("inside\none\n1\ndocuments\nchunks\n")
    assert 'CREATE TABLE "trees" ("name" TEXT, "nodes" INTEGER, "source" TEXT);\n' in out
    assert "mode: csv" in out
    assert out.endswith("c\n3\n.once FILE  send the next result to a file\n")
    assert "nowhere: there is no store here" in error
    assert "1 row, " in error


def test_help_shows_the_syntax_of_statements(run_kvstore: Run, store: str) -> None:
    _, out, _ = run_kvstore("shell", store, "-c", ".help INSERT", "-c", ".help show")
    assert out.splitlines()[1:] == [
        "INSERT EDGE 'child' UNDER 'parent' [IN TREE 'tree']",
        "SHOW TABLES | INDEXES | STRATEGIES | SETTINGS | STATS | SPENT",
        ".show  show the settings of the shell",
    ]
    assert out.startswith("INSERT DOCUMENT 'key' ")
    pages = sorted((Path(__file__).parents[1] / "docs" / "language").glob("*.md"))
    blocks = [block for page in pages for block in re.findall("^```text\n(.*?)^```", page.read_text(), re.M | re.S)[:1]]
    first_words = {word for line in SYNTAX_LINES for word in line.split()[:1]}
    documented = re.sub(r"\n {2,}", " ", "".join(blocks)).splitlines()
    assert sorted(line for line in documented if line.split()[0] in first_words) == sorted(SYNTAX_LINES)
    assert first_words >= list_expected_terminals("") - {"QUERY", "$END"}
    assert run_kvstore("shell", store, "-c", ".help leave it")[2].startswith("error: there is no command .leave")


def test_a_script_that_reads_itself_ends(run_kvstore: Run, store: str, tmp_path: Path) -> None:
    (tmp_path / "loop.sql").write_text(".read loop.sql\n")
    status, _, error = run_kvstore("shell", store, "-f", "loop.sql")
    assert status == 1
    assert "check whether a script reads itself" in error


def test_a_script_that_is_not_utf8(run_kvstore: Run, store: str) -> None:
    status, out, error = run_kvstore("shell", store, stdin=b"SELECT 1 AS a;\nSELECT '\xff';\n")
    assert (status, out) == (1, "")
    assert "line 2 is not UTF-8" in error


# Wrong usage ---------------------------------------------------------------------------------------------------------


def test_units_are_ingested(run_kvstore: Run, tmp_path: Path) -> None:
    (tmp_path / "tea.md").write_text("Tea is made from leaves.")
    (tmp_path / "units.jsonl").write_text('{"id": "tea.md", "units": ["Tea is made from the leaves of a bush."]}')
    assert run_kvstore("ingest", "s", str(tmp_path / "tea.md"), "--embedder", "hashing")[0] == 0
    assert run_kvstore("ingest", "s", str(tmp_path / "units.jsonl"), "--as", "units")[0] == 0
    with kvstore.open("s") as store:
        assert store.describe_document("tea.md")["written_units"] == 1


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["shell", "s", "--mode", "nonsense"],
        ["ingest", "s"],
        ["ingest", "s", "x", "-o", "nonsense"],
        ["ingest", "s", "x", "--as", "nonsense"],
        ["ingest", "s", ".", "-o", "nonsense=1"],
        ["ingest", "s", ".", "-o", "encoding=nonsense"],
        ["ingest", "s", ".", "--engine", "nonsense"],
        ["ingest", "s", ".", "--include", ""],
        ["ingest", "s", ".", "--embedder", "nonsense"],
        ["ingest", "s", ".", "--language", "nonsense"],
        ["watch", "s", ".", "-o", "nonsense=1"],
        ["demo", "--embedder", "nonsense"],
        ["ask", "s", "q", "--top", "0"],
        ["ask", "s", "q", "--top", str(10**76)],
        ["ask", "s", "q", "--depth", str(10**76)],
        ["ask", "s", "q", "--within", str(10**76)],
        ["ask", "s"],
    ],
)
def test_wrong_usage(run_kvstore: Run, arguments: list[str]) -> None:
    assert run_kvstore(*arguments)[:2] == (2, "") or (not arguments and run_kvstore()[0] == 2)
    assert not Path("s").exists()


def test_a_store_a_folder_or_a_question_without_a_command_is_answered_with_one(
    run_kvstore: Run, store: str, tmp_path: Path
) -> None:
    for word, hint in (
        (store, f"kvstore shell {store}"),
        (str(tmp_path), f"kvstore ingest STORE {tmp_path}"),
        ("who keeps it? " * 99, "kvstore ask STORE 'who keeps it? "),
        ("nothing-of-the-kind", ""),
        ("", ""),
    ):
        status, _, error = run_kvstore(word)
        assert status == 2
        assert f"No such command '{word}'." in error
        assert hint in error
        assert ("kvstore ingest" in error) == (word == str(tmp_path))


def test_a_statement_after_the_store_is_answered_with_the_option_for_it(run_kvstore: Run, store: str) -> None:
    status, _, error = run_kvstore("shell", store, "SELECT 1")
    assert status == 2
    assert "Got unexpected extra argument (SELECT 1). To run a statement: -c 'SELECT 1'" in error


def test_a_dry_run_is_not_answered_with_the_option_that_deletes(run_kvstore: Run, store: str) -> None:
    status, _, error = run_kvstore("ingest", store, ".", "--dry-run")
    assert status == 2
    assert "No such option '--dry-run'. To estimate an ingest" in error and "EXPLAIN INGEST 'PATH'" in error
    assert "--prune" not in error


@pytest.mark.parametrize(
    ("word", "remedy"),
    [("list", "SELECT key FROM documents"), ("LS", "kvstore info STORE"), ("add", "kvstore ingest STORE PATH"),
     ("search", "kvstore ask STORE QUESTION"), ("repair", "kvstore check --repair STORE")],
)  # fmt: skip
def test_a_command_of_other_programs_is_answered_with_the_one_that_means_it(
    run_kvstore: Run, word: str, remedy: str
) -> None:
    status, _, error = run_kvstore(word)
    assert status == 2
    assert f"No such command '{word}'. To " in error and remedy in error
    assert "Did you mean" not in error


@pytest.mark.slow
def test_a_script_makes_a_store_only_to_store_something(run_kvstore: Run, store: str) -> None:
    for statement in (
        "SELECT 1",
        "CHECK",
        "ASK 'Who?'",
        ".tables",
        "DELETE DOCUMENT 'a'",
        "SHOW STATS",
        "EXPORT TO 'x.jsonl'",
    ):
        status, out, error = run_kvstore("shell", "typo", "-c", statement)
        assert (status, out) == (1, "")
        assert error == (
            "error: typo: there is no store here; create one with INSERT DOCUMENT, INGEST or IMPORT, "
            "or with kvstore ingest typo FOLDER\n"
        )
    Path("pages").mkdir()
    assert "no store here" in run_kvstore("shell", "pages", "-c", "SELECT 1")[2]
    Path("pages/page.txt").write_text("It is a text.")
    assert run_kvstore("shell", "pages", "-c", "SELECT 1")[2] == (
        "error: pages: not a store (data.mdb is missing, but there is page.txt); choose another path\n"
    )
    Path("page.txt").write_text("It is a text.")
    assert "this is a file, but a store is a directory" in run_kvstore("shell", "page.txt", "-c", "SHOW STATS")[2]
    assert "did you mean SELECT" in run_kvstore("shell", "typo", "-c", "SELCT 1")[2]
    assert "no store here" in run_kvstore("shell", "typo", stdin="SELECT 1;\nSELECT 2;\n")[2]
    assert run_kvstore("shell", "typo", "-c", f".open {store}", "-c", "SELECT key FROM documents")[1] == "key\na\n"
    assert run_kvstore("shell", "typo", "-c", "INSERT DOCUMENT 7")[0] == 1
    assert not Path("typo").exists()
    result = run_kvstore(
        "shell", "typo", "-c", "SELECT 1", "-c", "INSERT DOCUMENT 'a' TEXT 'It is.'", "-c", "SELECT key FROM documents"
    )
    assert result[:2] == (1, "key\na\n")
    assert (
        run_kvstore("shell", "other", stdin="BEGIN; INSERT DOCUMENT :k TEXT 'It is.'; COMMIT;")[0] == 1
    )  # :k has no value
    assert run_kvstore("shell", "other", "-p", "k=b", stdin="BEGIN; INSERT DOCUMENT :k TEXT 'It is.'; COMMIT;")[0] == 0


def test_a_question_without_quotes_costs_its_line_alone(run_kvstore: Run, store: str) -> None:
    script = "ASK who's there\nSELECT 1 AS a;\nsearch leave; SELECT 2 AS b;\nASK\n'Who?';\nRETRIEVE which TOP 3"
    status, out, error = run_kvstore("shell", store, "--mode", "csv", stdin=script)
    assert status == 1
    assert out.startswith("a\n1\nb\n2\nanswer,")
    for place, statement in (
        ("line 1, column 5", "ASK 'who''s there'"),
        ("line 3, column 8", "SEARCH 'leave'"),
        ("line 6, column 10", "RETRIEVE 'which'"),
    ):
        word = statement.split(" ")[0]
        assert f"{place}: the text after {word} is not in single quotes; write {statement}\n" in error
    script = "Who's there?\nSELECT 1 AS a;\nASK 'Who?'\nSELECT 2 AS b;"
    status, out, error = run_kvstore("shell", store, "--mode", "csv", stdin=script)
    assert (status, out) == (1, "a\n1\n")
    assert "line 1, column 1: to ask a question, write ASK 'Who''s there?';\n" in error
    assert "found SELECT; if a statement begins here, end the one before it with ';'\n  SELECT 2 AS b;" in error


def test_the_words_of_a_question_need_no_quotes(run_kvstore: Run, store: str) -> None:
    assert run_kvstore("ask", store, "How", "long", "is", "leave", "--json") == run_kvstore(
        "ask", store, "How long is leave", "--json"
    )
    assert run_kvstore("ask", store)[0] == 2


def test_a_question_that_is_not_utf8_and_a_condition_without_documents(run_kvstore: Run, store: str) -> None:
    status, _, error = run_kvstore("ask", store, "\udcff")
    assert status == 2 and "Invalid value for QUESTION: the question is not valid UTF-8" in error
    status, _, error = run_kvstore("ask", store, "Who is Maria?", "--where", "key = 'b'")
    assert (status, error) == (0, "warning: no document satisfies the condition of --where\n")


def test_an_error_names_the_remedy(run_kvstore: Run, store: str) -> None:
    Path("rows.jsonl").write_text('{"id": "b"}\n')
    for command, remedy in (
        (("ask", store, "Who?", "--using", "fastest"), "choose one of: vector, lexical"),
        (("graph", store, "Nobody", "--to", "graph.svg"), "SELECT name FROM entities lists the names"),
        (("ingest", store, "rows.jsonl"), "or -o text=NAME on the command line"),
        (("ingest", "new", "rows.jsonl", "--setting", "top=5"), "change it with SET top = VALUE"),
        (("shell", store, "-c", "SELECT * FROM xyz"), "the tables are documents, chunks"),
    ):
        status, _, error = run_kvstore(*command)
        assert status and remedy in " ".join(error.split()), error


def test_a_condition_is_shown_as_it_was_typed(run_kvstore: Run, store: str) -> None:
    for condition, message in (
        (
            "foo = 1",
            "line 1, column 1: there is no column foo; meta ->> 'foo' reads a field of the metadata\n  foo = 1\n  ^\n",
        ),
        ("key =", "line 1, column 6: the condition ends too early\n  key =\n       ^\n"),
        (
            "key = 'a'\n  AND foo = 1",
            "line 2, column 7: there is no column foo; meta ->> 'foo' reads a field of the metadata\n"
            "    AND foo = 1\n        ^\n",
        ),
        ("key = :name", "line 1, column 7: no value was given for :name\n  key = :name\n        ^\n"),
        (
            "key = 'a' USING lexical",
            "line 1, column 11: USING is not part of a condition\n  key = 'a' USING lexical\n            ^\n",
        ),
    ):
        assert run_kvstore("ask", store, "Who?", "--where", condition) == (2, "", f"error: {message}")
        if ":name" not in condition and find_spec("mcp") is not None:
            assert run_kvstore("mcp", store, "--where", condition) == (2, "", f"error: {message}")


def test_help_needs_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys; from kvstore_shell.cli import run; status = run(['--help']);"
        "heavy = {'numpy', 'lmdb', 'lark', 'apsw', 'torch', 'prompt_toolkit', 'wcwidth'} & set(sys.modules);"
        "sys.exit(f'{heavy}' if heavy else status)"
    )
    process = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (0, "")
    assert "ingest" in process.stdout


def test_the_list_of_commands_shows_whole_sentences(run_kvstore: Run) -> None:
    _, help_text, _ = run_kvstore("--help")
    summaries = re.findall(r"^  [a-z]+  +(.*)$", help_text.partition("Commands:\n")[2], re.MULTILINE)
    assert len(summaries) >= 16
    assert [summary for summary in summaries if summary.endswith("...")] == []


# Ingest --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (folder / "one.md").write_text("# One\n\nMaria Jensen wrote this.\n")
    (folder / "sub" / "two.txt").write_text("Robert Fortune wrote that.\n")
    return folder


def test_ingest_a_folder(run_kvstore: Run, folder: Path) -> None:
    status, out, error = run_kvstore("ingest", "s", "docs", "--embedder", "hashing")
    assert (status, out) == (0, "")
    assert error.splitlines()[-1].startswith(
        "2 added, 0 changed, 0 unchanged, 0 removed, 0 skipped, 0 failed; 2 chunks in "
    )
    assert "2 unchanged" in run_kvstore("ingest", "s", "docs")[2]
    (folder / "one.md").unlink()
    assert "1 removed" in run_kvstore("ingest", "s", "docs", "--prune")[2]
    assert run_kvstore("shell", "s", "-c", "SELECT key FROM documents")[1] == "key\nsub/two.txt\n"
    assert run_kvstore("ingest", "s", "docs", "--quiet") == (0, "", "")


def test_bad_files_are_reported_and_the_rest_continues(run_kvstore: Run, folder: Path) -> None:
    (folder / "bad.txt").write_bytes(b"caf\xe9 \x80\x81")
    (folder / "empty.txt").write_text("")
    (folder / "twice.csv").write_text("a,a\n1,2\n")
    status, _, error = run_kvstore("ingest", "s", "docs", "missing.txt", "--embedder", "hashing", "--quiet")
    assert status == 1
    messages = error.splitlines()
    assert any("bad.txt: " in line for line in messages)
    assert "docs/twice.csv:1: the header contains the column 'a' twice; rename one of them" in messages
    assert any(line.startswith("missing.txt: ") for line in messages)
    assert "Traceback" not in error
    status, out, error = run_kvstore("ingest", "s", "docs", "missing.txt", "--json", "--quiet")
    report = json.loads(out)
    assert (status, report["added"], report["failures"] != []) == (1, 0, True)
    assert "missing.txt" in {failure["place"] for failure in report["failures"]}
    assert run_kvstore("shell", "s", "-c", "SELECT count(*) FROM documents")[1] == "count(*)\n2\n"
    assert run_kvstore("check", "s") == (0, "", "the store is sound\n")


def test_an_empty_path_is_wrong_usage(run_kvstore: Run, folder: Path) -> None:
    for arguments in (["ingest", "", "docs"], ["shell", "", "-c", "SELECT 1"], ["info", ""]):
        status, _, error = run_kvstore(*arguments)
        assert status == 2 and "Invalid value for '[STORE]': the path is empty" in error.replace("'STORE'", "'[STORE]'")
    status, _, error = run_kvstore("ingest", "s", "docs", "", "--embedder", "hashing")
    assert status == 2
    assert "a path is empty" in error
    assert not Path("s").exists()


def test_skipped_files_are_counted_by_suffix_and_included_by_pattern(run_kvstore: Run, folder: Path) -> None:
    (folder / "guide.wiki").write_text("The guide was written by Maria Jensen.")
    (folder / "photo.png").write_bytes(b"\x89PNG")
    _, _, error = run_kvstore("ingest", "s", "docs", "--embedder", "hashing")
    assert "2 skipped (1 .png, 1 .wiki), 0 failed" in error
    _, _, error = run_kvstore("ingest", "s", "docs", "--include", "*.wiki", "--as", "text")
    assert "1 added" in error
    assert "3 skipped (1 .md, 1 .png, 1 .txt)" in error
    assert "guide.wiki" in run_kvstore("shell", "s", "-c", "SELECT key FROM documents")[1]
    message = run_kvstore("shell", "s", "-c", "INGEST 'docs' WITH (include = '*.wiki')")[2]
    assert "skipped: 1 .md, 1 .png, 1 .txt" in message
    assert "two.txt" in run_kvstore("ingest", "s", "docs/sub")[2], "the same file under another key"


def test_a_store_is_made_with_settings_of_the_command_line(run_kvstore: Run, folder: Path) -> None:
    options = ("--setting", "chunk_tokens=200", "--language", "rules", "--stemmer", "german", "--embedder", "hashing")
    assert run_kvstore("ingest", "s", "docs", *options)[0] == 0
    assert run_kvstore("shell", "t", *options, "-c", "CHECK")[0] == 0
    for store in ("s", "t"):
        query = "SELECT value FROM settings WHERE name IN ('chunk_tokens', 'language', 'stemmer') ORDER BY name"
        assert run_kvstore("shell", store, "-c", query)[1] == "value\n200\nrules\ngerman\n"
    status, _, error = run_kvstore("ingest", "s", "docs", "--setting", "chunk_tokens=100")
    assert status == 2
    assert "was created with chunk_tokens = 200, not 100" in error
    for setting in ("chunk_tokens=many", "chunk_tokens=1", "chunks=7", "stemmer=klingon"):
        status, _, error = run_kvstore("ingest", "u", "docs", "--setting", setting)
        assert status == 2
        assert setting.partition("=")[0] in error
    assert run_kvstore("ingest", "u", "docs", "--setting", "chunk_tokens")[0] == 2
    assert not Path("u").exists()


def test_ask_of_some_documents_within_a_limit_as_json(run_kvstore: Run, folder: Path) -> None:
    run_kvstore("ingest", "s", "docs", "--embedder", "hashing")
    question = "Who wrote this?"
    (answer,) = json.loads(run_kvstore("ask", "s", question, "--where", "key LIKE 'sub/%'", "--json")[1])
    assert {citation["document"] for citation in answer["citations"]} == {"sub/two.txt"}
    assert answer["citations"][0]["source"] == str(folder.resolve() / "sub" / "two.txt")
    (answer,) = json.loads(run_kvstore("ask", "s", question, "--within", "8", "--json")[1])
    assert len({citation["document"] for citation in answer["citations"]}) == 1
    assert run_kvstore("ask", "s", question, "--where", "key = 'x'; DELETE FROM documents WHERE 1")[0] == 2
    assert run_kvstore("ask", "s", question, "--where", "nonsense = 1")[0] == 2
    assert run_kvstore("ask", "s", question, "--json", "--mode", "tsv")[0] == 2
    assert run_kvstore("ask", "s", question, "--within", "0")[0] == 2


def test_ctrl_c_during_an_ingest_reports_what_is_committed(
    run_kvstore: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kvstore.ingest import document_batch, pipeline

    monkeypatch.setattr(document_batch, "BATCH_DOCUMENTS", 1)
    original = pipeline._IngestRun._process_document

    def raise_interrupt(self: Any, document: Any, visit: Any) -> None:
        original(self, document, visit)
        if self.report.documents == max_documents:
            raise KeyboardInterrupt

    monkeypatch.setattr(pipeline._IngestRun, "_process_document", raise_interrupt)
    for max_documents, summary in ((1, "1 document is committed and kept (1 chunk)"), (0, "nothing was committed")):
        if max_documents == 0:
            monkeypatch.setattr(document_batch, "BATCH_DOCUMENTS", 9)
        status, _, error = run_kvstore("ingest", f"s{max_documents}", "docs", "--embedder", "hashing")
        assert status == 130
        # On a busy machine, a line of progress precedes it.
        assert error.endswith(f"interrupted; {summary}; run the same command again to continue\n")
    monkeypatch.undo()


def test_ctrl_c_is_not_forgotten_if_python_cannot_raise_it(
    run_kvstore: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kvstore.ingest import pipeline

    class RaisesOnDeletion:
        def __del__(self) -> None:
            raise KeyboardInterrupt

    original = pipeline._IngestRun._process_document

    def raise_interrupt(self: Any, document: Any, visit: Any) -> None:
        original(self, document, visit)
        RaisesOnDeletion()

    monkeypatch.setattr(pipeline._IngestRun, "_process_document", raise_interrupt)
    message = "interrupted; nothing was committed; "
    status, out, error = run_kvstore("ingest", "s", "docs", "--embedder", "hashing")
    assert (status, out) == (130, "")
    assert error.endswith(f"{message}run the same command again to continue\n")
    status, _, error = run_kvstore("shell", "s", "-c", "INGEST 'docs'")
    assert status == 130
    assert error.endswith(f"{message}run the same statement again to continue\ninterrupted\n")


def test_ctrl_c_ends_a_script_if_python_cannot_raise_it(
    run_kvstore: Run, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class RaisesOnDeletion:
        def __del__(self) -> None:
            raise KeyboardInterrupt

    original = kvstore.Store.execute

    def raise_interrupt(self: kvstore.Store, text: str, *values: Any, **options: Any) -> kvstore.Cursor:
        RaisesOnDeletion()
        return original(self, text, *values, **options)

    monkeypatch.setattr(kvstore.Store, "execute", raise_interrupt)
    assert run_kvstore("shell", store, stdin="SELECT 1;\nDELETE DOCUMENT 'a';\n") == (130, "", "interrupted\n")


def test_ingest_pairs_with_an_option(run_kvstore: Run, tmp_path: Path) -> None:
    (tmp_path / "tree.csv").write_text("child;parent\nPayroll;Finance\n")
    assert run_kvstore("ingest", "s", "tree.csv", "--as", "pairs", "-o", "delimiter=;", "--embedder", "hashing")[0] == 0
    assert run_kvstore("shell", "s", "-c", "SELECT child, parent FROM edges")[1] == "child\tparent\nPayroll\tFinance\n"


@pytest.mark.slow
@pytest.mark.long
def test_ctrl_c_keeps_committed_documents_and_a_second_run_continues(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(3000):
        (folder / f"{number:04}.txt").write_text(f"Maria Jensen wrote number {number}. " * 30)
    first_process = start_kvstore("ingest", "s", "many", "--embedder", "hashing", cwd=tmp_path)
    data = tmp_path / "s" / "data.mdb"
    deadline = time.monotonic() + 300
    while not (data.exists() and data.stat().st_size > 2_000_000) and time.monotonic() < deadline:
        time.sleep(0.05)
    first_process.send_signal(signal.SIGINT)
    _, error = first_process.communicate(timeout=60)
    assert first_process.returncode == 130, error
    assert "run the same command again" in error
    assert "Traceback" not in error
    with kvstore.open(tmp_path / "s", create=False) as opened:
        num_documents = opened.statistics()["documents"]
        assert opened.check() == []
    assert 0 < int(num_documents) < 3000
    second_process = start_kvstore("ingest", "s", "many", cwd=tmp_path)
    _, error = second_process.communicate(timeout=300)
    assert f"{3000 - int(num_documents)} added, 0 changed, {num_documents} unchanged" in error


# The other commands --------------------------------------------------------------------------------------------------


def test_info_check_backup_and_migrate(run_kvstore: Run, store: str, tmp_path: Path) -> None:
    rows = dict(csv.reader(io.StringIO(run_kvstore("info", store, "--mode", "csv")[1])))
    assert (rows["documents"], rows["embedder"].split(":")[0], rows["path"]) == ("1", "hashing", "s")
    assert run_kvstore("check", store) == (0, "", "the store is sound\n")
    assert run_kvstore("check", store, "--repair", "--mode", "table") == (0, "", "the store is sound\n")
    assert run_kvstore("check", store, "--mode", "json") == (0, "[]\n", "the store is sound\n")
    with kvstore.open(store) as writer, writer.transaction() as writing:
        writing.put("not yet", "Nothing of this.")
        copying = start_kvstore("backup", store, "copy", cwd=tmp_path)
        assert copying.communicate(timeout=60) == ("", "copied s to copy\n"), "while another writes"
    assert run_kvstore("backup", store, "pages", "--no-compact") == (0, "", "copied s to pages\n")
    assert run_kvstore("shell", "copy", "--readonly", "-c", "SELECT key FROM documents")[1] == "key\na\n"
    assert run_kvstore("backup", store, "copy")[0] == 1, "what is there is not written over"
    status, out, error = run_kvstore("compact", store)
    assert (status, error) == (0, "")
    assert out.startswith("bytes_before\tbytes_after\n")
    assert run_kvstore("compact", "nowhere")[0] == 1
    assert run_kvstore("migrate", store)[0] == 0
    Path("file").write_text("not a store")
    status, _, error = run_kvstore("info", "file")
    assert (status, error.count("\n"), error.startswith("error: ")) == (1, 1, True)


def test_check_fails_on_a_damaged_store(run_kvstore: Run, store: str) -> None:
    data = Path(store, "data.mdb")
    content = data.read_bytes()
    place = content.rindex(b"maria jensen")
    data.write_bytes(content[:place] + b"\0" * 10 + content[place + 10 :])
    status, out, error = run_kvstore("check", store)
    assert status == 1
    assert "Traceback" not in error
    assert out.count("\n") > 1 or error.startswith("error: ")


def test_ask(run_kvstore: Run, store: str) -> None:
    status, out, _ = run_kvstore("ask", store, "Where does Maria Jensen work?", "--using", "bridge", "--depth", "0")
    assert status == 0 and "Acme Corporation" in out and "  [1] " in out  # prose, also in a pipe
    status, out, error = run_kvstore("ask", store, "x", "--using", "brige")
    assert (status, out) == (2, "")
    assert "did you mean bridge?" in error
    assert run_kvstore("ask", store, "x", "--using", "lexical, bridge")[0] == 0
    assert run_kvstore("ask", store, "x", "--using", "lexical, brige")[0] == 2
    assert run_kvstore("evaluate", store, "--strategy", "brige")[0] == 2
    if find_spec("mcp") is not None:
        assert run_kvstore("mcp", "new", "--write", "--strategy", "brige")[0] == 2
        assert not Path("new").exists()


@pytest.mark.slow
@pytest.mark.parametrize("reads", [0, 1])
def test_a_closed_pipe_is_no_error(tmp_path: Path, reads: int) -> None:
    with kvstore.open(tmp_path / "s", embedder="hashing"):
        pass
    query = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) SELECT i FROM n"
    process = start_kvstore("shell", "s", "-c", query, cwd=tmp_path)
    assert process.stdout is not None
    assert process.stderr is not None
    for _ in range(reads):
        process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert process.stderr.read() == ""
    process.stderr.close()


@pytest.mark.slow
def test_ctrl_c_ends_a_script_with_130(tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "s", embedder="hashing"):
        pass
    query = (
        "SELECT 1 AS started; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    )
    process = start_kvstore("shell", "s", "-c", query, cwd=tmp_path)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, "interrupted\n")


@pytest.mark.parametrize(("closed", "output"), [("<&-", "1\n1\n"), (">&-", ""), ("<&- >&- 2>&-", "")])
def test_closed_standard_streams_are_no_error(store: str, tmp_path: Path, closed: str, output: str) -> None:
    command = f"{shlex.join([*KVSTORE, 'shell', store, '-c', 'SELECT 1'])} {closed}"
    process = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stdout, process.stderr) == (0, output, "")


def test_output_that_the_terminal_cannot_show_is_escaped(tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "s", embedder="hashing"):
        pass
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    process = subprocess.run(
        [*KVSTORE, "shell", "s", "-c", "SELECT 'Zoë' AS name"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        check=False,
    )
    assert (process.returncode, process.stdout) == (0, b"name\nZo\\xeb\n")


@pytest.mark.slow
def test_the_demo_shows_an_answer_that_changes(run_kvstore: Run) -> None:
    from kvstore import sample

    status, out, error = run_kvstore("demo", "--store", "kept", "--embedder", "hashing")
    assert status == 0, error
    _, old_text, new_text, _ = sample.UPDATE
    assert out.index(old_text) < out.index(new_text)
    assert "the store is sound" in out
    assert max(map(len, out.splitlines())) <= 120, "long statements are wrapped at words"
    assert Path("kept").is_dir()


# Parameters ----------------------------------------------------------------------------------------------------------


def test_the_command_line_sets_values_of_parameters(run_kvstore: Run, store: str, tmp_path: Path) -> None:
    query = "SELECT :year + 1 AS y, :x AS x, :code AS code, typeof(:code) AS t, :text AS text"
    arguments = ["-p", "year=2024", "-p", "x=-1.5e3", "-p", "code=007", "-p", ":text='it''s = 1'"]
    assert (
        run_kvstore("shell", store, *arguments, "-c", query)[1]
        == "y\tx\tcode\tt\ttext\n2025\t-1500.0\t007\ttext\tit's = 1\n"
    )
    assert (
        run_kvstore("shell", store, "-p", "key=a", "-c", "SELECT key FROM documents", "-c", "DESCRIBE DOCUMENT :key")[0]
        == 0
    )
    status, out, _ = run_kvstore(
        "shell", store, stdin=".parameter n 3\nSELECT :n AS n;\n.parameter\n.parameter :n zwei\n.param n\n"
    )
    assert (status, out) == (0, "n\n3\n:n = 3\n:n = 'zwei'\n")
    assert "no value was given for :year" in run_kvstore("shell", store, "-c", "SELECT :year")[2]
    assert "write :name" in run_kvstore("shell", store, "-c", "SELECT ?")[2]
    assert run_kvstore("shell", store, "-p", "year", "-c", "SELECT 1")[0] == 2
    answer = ["ask", store, "Who works at Acme Corporation?", "--mode", "json", "--within", "900", "--using", "hybrid"]
    result = json.loads(run_kvstore(*answer, "--where", "key = :key", "-p", "key=a")[1])
    assert result[0]["citations"][0]["document"] == "a"
    assert json.loads(run_kvstore(*answer, "--where", "key = :key", "-p", "key=b")[1])[0]["citations"] == []


# Completion ----------------------------------------------------------------------------------------------------------


def complete(shell: str, *words: str) -> list[str]:
    """Return the completions of the last word in click's protocol for a shell."""
    line = " ".join(["kvstore", *words])
    variables = {"_KVSTORE_COMPLETE": f"{shell}_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    if shell == "fish":
        variables["COMP_CWORD"] = words[-1]
    process = subprocess.run(KVSTORE, env={**os.environ, **variables}, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


@pytest.mark.slow
def test_every_shell_gets_a_script_and_is_answered(run_kvstore: Run) -> None:
    for shell in ("bash", "zsh", "fish"):
        status, script, _ = run_kvstore("completion", shell)
        assert status == 0
        assert f"_KVSTORE_COMPLETE={shell}_complete" in script
    assert run_kvstore("completion", "tcsh")[0] == 2
    assert complete("bash", "che") == ["plain,check"]
    assert complete("zsh", "check", "s", "--mode", "js") == ["plain", "json", "_", "plain", "jsonl", "_"]
    assert "plain,bridge" in complete("fish", "ask", "s", "question", "--using", "b")
    assert complete("bash", "ask", "") == ["dir,"]
    assert complete("bash", "ingest", "s", "no") == ["file,no"]
    assert "plain,markdown" in complete("bash", "ingest", "s", "--as", "m")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_completes(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "kvstore"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "from kvstore_shell.cli import main; main()" "$@"\n')
    command.chmod(0o755)
    script = (
        "source <(kvstore completion bash); complete -p kvstore; COMP_WORDS=(kvstore comp); COMP_CWORD=1;"
        '_kvstore_completion kvstore; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    process = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True)
    assert process.stdout.splitlines()[1:] == ["compact", "completion"], process.stderr
    assert "_kvstore_completion kvstore" in process.stdout.splitlines()[0]
