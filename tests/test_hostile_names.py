"""Hostile names, texts and answers on a real terminal: none moves the cursor, and programs get them unchanged."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pexpect
import pytest

import kvstore
from kvstore_shell.masking import mask_line, mask_lines

#: A title for the window, a cleared screen, C1 for the same, a bell, backspaces, DEL, another direction of writing.
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\x9d0;owned\x9c\x07\b\b\x7f\x0e\x85\u202eevil"
#: The same as a name of a file, with bytes that are no UTF-8.
FILE = HOSTILE.encode() + b"\x9b\xff.txt"

#: Bytes below 0x20 but line ends and tabs, and DEL; C1 as characters.
CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
C1 = re.compile("[\x80-\x9f]")

MODES = ("table", "box", "json", "jsonl", "csv", "tsv", "markdown", "line")
RUN = """
import json, sys
from kvstore_shell.cli import run
for arguments in json.load(open(sys.argv[1])):
    print("=====", flush=True)
    run(arguments)
    sys.stdout.flush()
"""


class Server(BaseHTTPRequestHandler):
    """A model server whose every part is hostile; the model's name says how."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        model = request["model"]
        refused = {"refuses": 400, "is-busy": 503}.get(model)
        self.send_response(refused or 200, "\x1b[2J\x9b31m")
        kind = "text/\x1b[31m" if model == "odd-type" else "application/json"
        self.send_header("Content-Type", kind)
        self.end_headers()
        message = {"role": "assistant", "content": f"Twenty {HOSTILE} weeks [1] [\x1b[2J].", "reasoning": HOSTILE}
        body: dict[str, Any] = {"choices": [{"message": message, "finish_reason": "stop"}]}
        if refused or model == "breaks":
            body = {"error": {"message": HOSTILE}}
        text = json.dumps(body).encode()
        self.wfile.write(b"\x1b[2J\x9b" if model == "no-json" else text)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a store and files, all of whose names are hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    with kvstore.open(folder / f"store{HOSTILE}", embedder="hashing", settings={"language": "rules"}) as store:
        heading = HOSTILE.replace("\x85", "")
        text = f"# Leave {heading}\n\nParental leave {HOSTILE} lasts twenty weeks. Ask Maria{HOSTILE} Jensen.\r\n"
        store.put(f"leave{HOSTILE}", text, title=f"Leave {HOSTILE}", format="markdown", meta={HOSTILE: HOSTILE})
        store.put("\x1b[2J.txt", f"{HOSTILE}\t{HOSTILE}", source=HOSTILE)
        store.put_edge(f"Jensen {HOSTILE}", f"Payroll{HOSTILE}", tree=f"tree{HOSTILE}")
        store.put_triples("\x1b[2J.txt", [(f"a{HOSTILE}", HOSTILE, f"b{HOSTILE}")])
        store.alias(f"MJ{HOSTILE}", f"Jensen {HOSTILE}")
    files = folder / "files"
    files.mkdir()
    (files / os.fsdecode(FILE)).write_text(f"A text {HOSTILE} in a file.")
    (files / f"bad{HOSTILE}.pdf").write_bytes(b"%PDF-1.4 \x1b[2J")
    (files / f"bad{HOSTILE}.jsonl").write_text('{"text": 7, "id": "' + "\\u001b[2J" + '"}\n{\x1b[2J\n')
    (files / f"rows{HOSTILE}.csv").write_text(f"id,title,text\n{HOSTILE},{HOSTILE},Some text.\n")
    (files / f"odd{HOSTILE}.x{HOSTILE}").write_text("of an unknown suffix")
    (folder / f"script{HOSTILE}.sql").write_text(
        f"SELECT '{HOSTILE}' AS \"{HOSTILE}\";\nLOOKUP '{HOSTILE}'; nonsense{HOSTILE};"
    )
    return folder


def list_commands(folder: Path) -> list[list[str]]:
    store = str(folder / f"store{HOSTILE}")
    missing = str(folder / f"missing{HOSTILE}")
    script = str(folder / f"script{HOSTILE}.sql")
    files = str(folder / "files")

    def shell(*statements: str, mode: str = "table") -> list[str]:
        return ["shell", store, "--mode", mode, *(word for text in statements for word in ("-c", text))]

    tables = ("documents", "chunks", "entities", "mentions", "trees", "edges", "triples", "aliases", "nodes")
    command_lines = [shell(*(f"SELECT * FROM {table}" for table in tables), mode=mode) for mode in MODES]
    command_lines += [shell(f"SELECT '{HOSTILE}' AS \"a{HOSTILE}\", x'1b5b324a'", mode=mode) for mode in MODES]
    command_lines += [
        shell(*(f"{verb} 'Jensen {HOSTILE}'" for verb in ("LOOKUP", "EXPAND", "DESCRIBE ENTITY"))),
        shell(f"EXPAND 'Jensen {HOSTILE}' UP IN TREE 'tree{HOSTILE}'", mode="tsv"),
        shell(f"LOOKUP 'Maria{HOSTILE}x'"),
        shell(f"SEARCH 'parental {HOSTILE} leave' USING lexical"),
        shell("RETRIEVE 'parental leave'", "EXPLAIN ANALYZE RETRIEVE 'parental leave'", mode="csv"),
        shell(f"DESCRIBE DOCUMENT 'leave{HOSTILE}'", f"DESCRIBE DOCUMENT 'none{HOSTILE}'"),
        shell(f"SELECT * FROM \"{HOSTILE}\"", f"SELECT {HOSTILE}", f"SET \"{HOSTILE}\" = 1", f"SET top = '{HOSTILE}'"),
        shell(f"INSERT DOCUMENT 'leave{HOSTILE}' TEXT 'again'", f"DELETE DOCUMENT 'none{HOSTILE}'"),
        shell(f"INSERT EDGE '{HOSTILE}' UNDER '{HOSTILE}'", f"ALIAS '{HOSTILE}' FOR 'none{HOSTILE}'"),
        shell(f"INGEST '{missing}'", f"EXPLAIN INGEST '{files}'", f"INGEST '{files}' AS \"{HOSTILE}\""),
        shell(f"EXPORT TO '{missing}/x'", f"IMPORT FROM '{script}'", f"BACKUP TO '{script}'"),
        shell(f"ASK 'x' USING \"{HOSTILE}\"", f"ASK 'x' MODEL '{HOSTILE}'", f"CREATE INDEX \"{HOSTILE}\""),
        shell("SHOW STATS", "SHOW SETTINGS", "SHOW INDEXES", "SHOW TABLES", "CHECK", mode="json"),
        shell(f".mode {HOSTILE}", f".{HOSTILE}", f".print {HOSTILE}", f".output {missing}/x"),
        shell(f".open {missing}", ".show"),
        shell(".dump", ".timer on", f".read {missing}", f".read '{script}'", f".prompt {HOSTILE}", ".show"),
        ["shell", store, "-f", script],
        ["shell", store, "-f", missing],
        ["shell", missing, "--readonly", "-c", "CHECK"],
        ["shell", store, f"--{HOSTILE}"],
        ["shell", store, "--mode", HOSTILE],
        ["shell", store, "--embedder", HOSTILE, "-c", "CHECK"],
        ["ingest", store, files],
        ["ingest", store, files, "--workers", "1"],
        ["ingest", store, missing, f"{files}/*{HOSTILE}"],
        ["ingest", store, f"{files}/bad*.jsonl", "--as", "triples"],
        ["ingest", store, files, "--as", HOSTILE],
        ["ingest", store, files, "-o", HOSTILE],
        ["ingest", store, files, "-o", f"{HOSTILE}=1"],
        ["ingest", store, files, "-o", f"delimiter={HOSTILE}"],
        ["ask", store, f"parental {HOSTILE} leave?"],
        ["ask", store, "parental leave?", "--using", HOSTILE],
        ["ask", missing, "parental leave?"],
        *(
            ["ask", store, f"How long is parental leave, {model}?", "--model", model, "--mode", mode]
            for model, mode in (
                ("answers", "table"), ("answers", "json"), ("answers", "tsv"), ("refuses", "table"),
                ("odd-type", "table"),
                ("breaks", "table"), ("no-json", "table"), ("is-busy", "table"), (HOSTILE, "table"),
            )
        ),
        ["info", store],
        ["info", missing, "--mode", "json"],
        ["check", store],
        ["backup", store, str(folder / f"copy{HOSTILE}")],
        ["backup", store, str(folder / f"copy{HOSTILE}")],
        ["migrate", store],
        ["migrate", missing],
        ["compact", missing],
        [HOSTILE],
    ]  # fmt: skip
    return command_lines


def build_environment(folder: Path, address: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    homes = {f"XDG_{name}_HOME": str(folder / "home") for name in ("STATE", "CONFIG", "CACHE")}
    return {**inherited, **homes, "TERM": "xterm", "no_proxy": "127.0.0.1", "KVSTORE_LLM_URL": address}


@pytest.mark.slow
@pytest.mark.parametrize("traceback", ["", "1"])
def test_no_command_lets_a_hostile_name_reach_the_terminal(folder: Path, address: str, traceback: str) -> None:
    command_lines = list_commands(folder)
    assert len(command_lines) >= 60
    file = folder / "commands.json"
    file.write_text(json.dumps(command_lines))
    child = pexpect.spawn(
        sys.executable,
        ["-c", RUN, str(file)],
        dimensions=(40, 100),
        env={**build_environment(folder, address), "KVSTORE_TRACEBACK": traceback},
        timeout=120,
    )
    child.expect(pexpect.EOF)
    child.wait()
    assert child.exitstatus == 0
    shown = child.before.split(b"=====\r\n")[1:]
    assert len(shown) == len(command_lines)
    for command, output in zip(command_lines, shown, strict=True):
        assert not CONTROL.search(output), (command, output)
        assert not C1.search(output.decode()), (command, output)
        assert b"\xe2\x80\xae" not in output, (command, output)
    # They were shown, that is.
    assert sum(b"owned" in output for output in shown) > 50
    assert not any("�[1m" in output.decode() for output in shown), "nor do we command it"
    ingest_output = shown[
        command_lines.index(["ingest", str(folder / f"store{HOSTILE}"), str(folder / "files")])
    ].decode()
    assert "bad" in ingest_output
    assert "failed" in ingest_output


def test_a_pipe_gets_the_stored_bytes_and_masked_messages(folder: Path, address: str) -> None:
    store = str(folder / f"store{HOSTILE}")
    code = "from kvstore_shell.cli import main; main()"
    query = f"SELECT key FROM documents WHERE key = 'leave{HOSTILE}'; LOOKUP 'none{HOSTILE}'"
    process = subprocess.run(
        [sys.executable, "-c", code, "shell", store, "--mode", "tsv", "-c", query],
        capture_output=True,
        env=build_environment(folder, address),
        check=False,
    )
    assert process.stdout.decode().split("\n")[1] == f"leave{HOSTILE}"
    assert b"none" in process.stderr
    assert not CONTROL.search(process.stderr)


@pytest.mark.slow
def test_the_prompt_the_toolbar_and_the_menu_show_no_control_character(folder: Path, address: str) -> None:
    child = pexpect.spawn(
        sys.executable,
        ["-c", "from kvstore_shell.cli import main; main()", "shell", str(folder / f"store{HOSTILE}")],
        dimensions=(40, 100),
        env={**build_environment(folder, address), "PAGER": "cat"},
        timeout=30,
        encoding="utf-8",
    )
    log: list[str] = []

    def expect_text(text: str) -> None:
        while child.expect_exact(["\x1b[6n", text]) == 0:
            log.append(str(child.before))
            child.send("\x1b[1;1R")
        log.append(str(child.before))

    expect_text("kvstore>")
    expect_text("documents")  # in the toolbar, beside the store's name
    child.send(".prompt '\\d> '\r")
    expect_text("store")
    child.send("DESCRIBE DOCUMENT '\t")
    expect_text("document")
    child.send("\x03")
    child.send("EXPAND 'Jensen' IN TREE '\t")
    expect_text("tree")
    child.send("\x03")
    child.send("SELECT key, title FROM documents;\r")
    expect_text("Leave")
    child.send(".quit\r")
    child.expect(pexpect.EOF)
    shown = "".join([*log, str(child.before)])
    assert "]0;owned" in shown
    assert "\x1b]0;owned" not in shown
    assert "\x1b[2J\x9b" not in shown
    assert not re.search("[\x07\x0e\x7f\x80-\x9f\u202e]", shown)


def test_masked_characters() -> None:
    assert mask_line("a\tb\r\n\x1b\x85\x9b\ud800ü日") == "a�b������ü日"
    assert mask_lines("a\tb\r\nc\rd\n\x1b\x9b\u2066") == "a\tb\r\nc�d\n���"
    assert mask_lines("Grüße, 日本 🎉") == "Grüße, 日本 🎉"
