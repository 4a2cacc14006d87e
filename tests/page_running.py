"""Run the examples of a documentation page from top to bottom in one folder, and compare their output with the page.

A block ``console`` is a terminal session: ``$ `` begins a command, ``> `` continues it, and its output follows; inside
``kvstore shell`` a prompt begins a statement. A block ``sh`` is a script that must succeed. A block ``python`` is a
program. A block ``sql`` has statements for the store that a preceding comment ``<!-- store: PATH -->`` names. If
``prints`` and a block ``text`` follow, that is the expected output, also of a script. A block with ``title="PATH"`` is
a file. A comment ``<!-- model writes: TEXT -->`` before a script sets the answer of the language model. A comment
``<!-- not run: REASON -->`` excludes the next block.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from model_server import Server, stream_answer

from kvstore.ingest.file_visit import SETTLED_SECONDS

ROOT = Path(__file__).resolve().parent.parent
#: The reference pages of the language, whose examples ``test_executor.py`` runs in one store.
LANGUAGE = ROOT / "docs" / "language"
#: The width of the terminal that the pages show.
WIDTH = 100
_BLOCK = re.compile(
    r"(?:<!-- (?:not run: (?P<not_run>.+?)|store: (?P<store>.+?)|model writes: (?P<model_answer>.+?)) -->\n)?"
    r"^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```$"
    r"(?:\n\nprints\n\n```text\n(?P<expected>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
_PROMPT = re.compile(r"(kvstore|   \.\.\.)> ?")
_PROGRESS = re.compile(r"\[[█·]+\] ")
#: The address of the language model on the pages; the tests replace it by that of their own server.
_MODEL_URL = "http://localhost:11434/v1"
#: Times, which differ from run to run.
_TIMES = re.compile(r"\b\d[\d,]*(\.\d+)? (ms|s)\b")


@dataclass(frozen=True)
class Block:
    """One block of code.

    Its ``language`` and text, the path of the file that it is, the expected output, why it is not run, the store of its
    statements, and the answer of the language model.
    """

    language: str
    text: str
    title: str | None = None
    expected: str | None = None
    not_run: str | None = None
    store: str | None = None
    model_answer: str | None = None


@dataclass(frozen=True)
class Command:
    """A command typed in a terminal, the input typed to the program that it starts, and the expected output."""

    typed: str
    input: str
    expected: list[str]


def read_language_pages() -> str:
    """Return LANGUAGE.md and the pages below ``docs/language/``, in the order in which it links to them."""
    overview = ROOT / "kvstore" / "language" / "LANGUAGE.md"
    text = overview.read_text(encoding="utf-8")
    linked = [(overview.parent / link).resolve() for link in re.findall(r"\]\(([^()#\s]+\.md)", text)]
    pages = list(dict.fromkeys(page for page in linked if page.parent == LANGUAGE))
    assert set(pages) == set(LANGUAGE.glob("*.md")), "LANGUAGE.md links to each of its pages"
    return "\n".join([text, *(page.read_text(encoding="utf-8") for page in pages)])


def parse_blocks(page: str) -> list[Block]:
    """Return the blocks of code of a page, in order."""
    return [
        Block(
            match["language"],
            match["text"],
            match["title"],
            match["expected"],
            match["not_run"],
            match["store"],
            match["model_answer"],
        )
        for match in _BLOCK.finditer(page)
    ]


def parse_commands(block: str) -> Iterator[Command]:
    """Yield the commands of a block ``console``."""
    command_lines: list[str] = []
    inputs: list[str] = []
    output: list[str] = []
    for line in [*block.splitlines(), "$ "]:
        if line.startswith("$ "):
            if command_lines:
                yield Command("\n".join(command_lines), "".join(f"{text}\n" for text in inputs), output)
            command_lines, inputs, output = [line[2:]], [], []
        elif line.startswith("> ") and not inputs and not output:
            command_lines.append(line[2:])
        elif prompt := _PROMPT.match(line):
            inputs.append(line[prompt.end() :])
        else:
            output.append(line)


def build_environment(home: Path) -> dict[str, str]:
    """Return the environment of the programs of a page: no user settings, and models that are already exported."""
    bin = Path(sys.executable).parent
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("KVSTORE_", "OPENAI_"))}
    variables |= {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "XDG_STATE_HOME": str(home / "state")}
    variables |= {"XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))}
    variables |= {
        "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "LC_ALL": "C.UTF-8",
    }
    return variables | {"PYTHONIOENCODING": "utf-8", "COLUMNS": str(WIDTH)}


def run_on_terminal(
    arguments: list[str], folder: Path, typed: str, variables: Mapping[str, str]
) -> tuple[int, list[str]]:
    """Run a program whose output is a terminal; return its exit status and the lines that it leaves there."""
    controller, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, WIDTH, 0, 0))
    with subprocess.Popen(
        arguments, cwd=folder, stdin=subprocess.PIPE, stdout=terminal, stderr=terminal, env=dict(variables)
    ) as process:
        os.close(terminal)
        assert process.stdin is not None
        process.stdin.write(typed.encode())
        process.stdin.close()
        output = b"".join(_read_terminal(controller))
        status = process.wait()
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", output.decode()).replace("\r\n", "\n")
    # Only the final state of an overwritten line is output; progress bars are not.
    lines = (line.rpartition("\r")[2].rstrip() for line in text.splitlines())
    return status, [line for line in lines if not _PROGRESS.match(line)]


def _read_terminal(terminal: int) -> Iterator[bytes]:
    try:
        while data := os.read(terminal, 65536):
            yield data
    except OSError:  # the writing process has ended
        pass
    finally:
        os.close(terminal)


def find_difference(expected: list[str], output: list[str]) -> str | None:
    """Return a description of the first line that differs from the expected output; ``...`` matches any lines.

    Blank lines and times do not count.
    """
    remaining = [_TIMES.sub("TIME", line.rstrip()) for line in output if line.strip()]
    skipping = False
    for line in (line.rstrip() for line in expected if line.strip()):
        if line == "...":
            skipping = True
            continue
        pattern = _TIMES.sub("TIME", line)
        if skipping and pattern in remaining:
            remaining = remaining[remaining.index(pattern) :]
        if not remaining or remaining[0] != pattern:
            return f"{line!r} is shown, {remaining[0] if remaining else 'nothing more'!r} is printed"
        remaining, skipping = remaining[1:], False
    return None if skipping or not remaining else f"{remaining[0]!r} is not shown"


@contextmanager
def _serve_model_answer(text: str | None) -> Iterator[str]:
    """Yield the address of a language model that answers every request with a text, or of no model if that is None."""
    if text is None:
        yield _MODEL_URL
        return
    server = Server()
    server.respond = lambda _: stream_answer(text)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.url
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass(frozen=True)
class ExampleRun:
    """An example that was run: its source, exit status, expected output and output."""

    typed: str
    status: int
    expected: list[str] | None
    output: list[str]

    @property
    def fault(self) -> str | None:
        """The difference from the expected output, or None if there is none."""
        if self.expected is None:
            return f"exit status {self.status}: {' '.join(self.output[-1:])}" if self.status else None
        return find_difference(self.expected, self.output)


def run_page(page: str, folder: Path) -> Iterator[ExampleRun]:
    """Run the examples of a page in a folder."""
    home = folder.parent / f"{folder.name}-home"
    home.mkdir()
    variables = build_environment(home)
    status = 0
    for block in parse_blocks(page):
        if block.not_run is not None:
            continue
        if block.title is not None:
            path = folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        if block.language == "console":
            for command in parse_commands(block.text):
                if command.typed.startswith("kvstore ingest"):
                    # A user types it for as long; files that changed just now would be read again.
                    time.sleep(SETTLED_SECONDS)
                # `$?` is that of the command before, as at a terminal.
                line = f"(exit {status}); {command.typed}"
                status, output = run_on_terminal(["bash", "-c", line], folder, command.input, variables)
                yield ExampleRun(command.typed, status, command.expected, output)
        elif block.language == "sh":
            with _serve_model_answer(block.model_answer) as address:
                script = block.text.replace(_MODEL_URL, address)
                status, output = run_on_terminal(["bash", "-e", "-c", script], folder, "", variables)
            yield ExampleRun(
                block.text, status, None if block.expected is None else block.expected.splitlines(), output
            )
        elif block.language == "sql" and (block.store is not None or block.title is None):
            # Without a store, the shell prints what is missing.
            shell = ["kvstore", "shell", *filter(None, [block.store])]
            status, output = run_on_terminal(shell, folder, block.text, variables)
            yield ExampleRun(
                block.text, status, None if block.expected is None else block.expected.splitlines(), output
            )
        elif block.language == "python" and (block.expected is not None or block.title is None):
            status, output = run_on_terminal([sys.executable, "-c", block.text], folder, "", variables)
            yield ExampleRun(
                block.text, status, None if block.expected is None else block.expected.splitlines(), output
            )
