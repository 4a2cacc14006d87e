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

from model_server import Server, stream

from kvstore.ingest.file_visit import SETTLED_SECONDS

ROOT = Path(__file__).resolve().parent.parent
#: The reference pages of the language, whose examples ``test_executor.py`` runs in one store.
LANGUAGE = ROOT / "docs" / "language"
#: The width of the terminal that the pages show.
WIDTH = 100
_BLOCK = re.compile(
    r"(?:<!-- (?:not run: (?P<why>.+?)|store: (?P<store>.+?)|model writes: (?P<written>.+?)) -->\n)?"
    r"^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```$"
    r"(?:\n\nprints\n\n```text\n(?P<shown>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
_PROMPT = re.compile(r"(kvstore|   \.\.\.)> ?")
_PROGRESS = re.compile(r"\[[█·]+\] ")
#: Where the pages say that a language model is asked; here it is the server of the tests.
_MODEL_URL = "http://localhost:11434/v1"
#: What differs from run to run: times, temporary names.
_TIMES = re.compile(r"\b\d[\d,]*(\.\d+)? (ms|s)\b")


@dataclass(frozen=True)
class Block:
    """One block of code: its ``language`` and text, the path of the file that it is, what it is shown to print, why it
    is not run, where it is not, the store that its statements are for, and what a language model writes for it."""

    language: str
    text: str
    title: str | None = None
    shown: str | None = None
    not_run: str | None = None
    store: str | None = None
    written: str | None = None


@dataclass(frozen=True)
class Command:
    """A command typed in a terminal, the input typed to the program that it starts, and the expected output."""

    typed: str
    input: str
    shown: list[str]


def read_language_pages() -> str:
    """Return LANGUAGE.md and the pages below ``docs/language/``, in the order in which it links to them."""
    overview = ROOT / "kvstore" / "language" / "LANGUAGE.md"
    text = overview.read_text(encoding="utf-8")
    linked = [(overview.parent / link).resolve() for link in re.findall(r"\]\(([^()#\s]+\.md)", text)]
    pages = list(dict.fromkeys(page for page in linked if page.parent == LANGUAGE))
    assert set(pages) == set(LANGUAGE.glob("*.md")), "LANGUAGE.md links to each of its pages"
    return "\n".join([text, *(page.read_text(encoding="utf-8") for page in pages)])


def blocks(page: str) -> list[Block]:
    """The blocks of code of a page, in order."""
    return [
        Block(
            found["language"],
            found["text"],
            found["title"],
            found["shown"],
            found["why"],
            found["store"],
            found["written"],
        )
        for found in _BLOCK.finditer(page)
    ]


def commands(block: str) -> Iterator[Command]:
    """The commands of a block ``console``."""
    typed: list[str] = []
    given: list[str] = []
    shown: list[str] = []
    for line in [*block.splitlines(), "$ "]:
        if line.startswith("$ "):
            if typed:
                yield Command("\n".join(typed), "".join(f"{text}\n" for text in given), shown)
            typed, given, shown = [line[2:]], [], []
        elif line.startswith("> ") and not given and not shown:
            typed.append(line[2:])
        elif prompt := _PROMPT.match(line):
            given.append(line[prompt.end() :])
        else:
            shown.append(line)


def environment(home: Path) -> dict[str, str]:
    """Return the environment of the programs of a page: no user settings, and models that are already exported."""
    bin = Path(sys.executable).parent
    found = {name: value for name, value in os.environ.items() if not name.startswith(("KVSTORE_", "OPENAI_"))}
    found |= {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "XDG_STATE_HOME": str(home / "state")}
    found |= {"XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))}
    found |= {"PATH": f"{bin}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1", "TERM": "dumb", "LC_ALL": "C.UTF-8"}
    return found | {"PYTHONIOENCODING": "utf-8", "COLUMNS": str(WIDTH)}


def run_on_terminal(
    arguments: list[str], folder: Path, given: str, variables: Mapping[str, str]
) -> tuple[int, list[str]]:
    """Run a program whose output is a terminal; returns its exit status and the lines that it leaves there."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, WIDTH, 0, 0))
    with subprocess.Popen(
        arguments, cwd=folder, stdin=subprocess.PIPE, stdout=theirs, stderr=theirs, env=dict(variables)
    ) as process:
        os.close(theirs)
        assert process.stdin is not None
        process.stdin.write(given.encode())
        process.stdin.close()
        printed = b"".join(_read(ours))
        status = process.wait()
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", printed.decode()).replace("\r\n", "\n")
    # Of a line that was written over, what is left; how far a program is goes as it came.
    lines = (line.rpartition("\r")[2].rstrip() for line in text.splitlines())
    return status, [line for line in lines if not _PROGRESS.match(line)]


def _read(terminal: int) -> Iterator[bytes]:
    try:
        while data := os.read(terminal, 65536):
            yield data
    except OSError:  # the writing process has ended
        pass
    finally:
        os.close(terminal)


def different(shown: list[str], printed: list[str]) -> str | None:
    """The first line in which what is shown is not what was printed, ``...`` standing for any lines.

    Blank lines and times do not count.
    """
    left = [_TIMES.sub("TIME", line.rstrip()) for line in printed if line.strip()]
    skipping = False
    for line in (line.rstrip() for line in shown if line.strip()):
        if line == "...":
            skipping = True
            continue
        wanted = _TIMES.sub("TIME", line)
        if skipping and wanted in left:
            left = left[left.index(wanted) :]
        if not left or left[0] != wanted:
            return f"{line!r} is shown, {left[0] if left else 'nothing more'!r} is printed"
        left, skipping = left[1:], False
    return None if skipping or not left else f"{left[0]!r} is not shown"


@contextmanager
def _model_writing(text: str | None) -> Iterator[str]:
    """The address of a language model that answers with a text, whatever it is asked; of none where there is none."""
    if text is None:
        yield _MODEL_URL
        return
    server = Server()
    server.answering = lambda _: stream(text)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.url
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass(frozen=True)
class Ran:
    """A part of a page that was run: what was typed, its exit status, what it is shown to print and what it printed."""

    typed: str
    status: int
    shown: list[str] | None
    printed: list[str]

    @property
    def fault(self) -> str | None:
        """The difference from the expected output, or None if there is none."""
        if self.shown is None:
            return f"exit status {self.status}: {' '.join(self.printed[-1:])}" if self.status else None
        return different(self.shown, self.printed)


def run_page(page: str, folder: Path) -> Iterator[Ran]:
    """Run the examples of a page in a folder."""
    home = folder.parent / f"{folder.name}-home"
    home.mkdir()
    variables = environment(home)
    status = 0
    for block in blocks(page):
        if block.not_run is not None:
            continue
        if block.title is not None:
            path = folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        if block.language == "console":
            for command in commands(block.text):
                if command.typed.startswith("kvstore ingest"):
                    time.sleep(SETTLED_SECONDS)  # who types takes as long; files changed just now would be read again
                # `$?` is that of the command before, as at a terminal.
                typed = f"(exit {status}); {command.typed}"
                status, printed = run_on_terminal(["bash", "-c", typed], folder, command.input, variables)
                yield Ran(command.typed, status, command.shown, printed)
        elif block.language == "sh":
            with _model_writing(block.written) as address:
                script = block.text.replace(_MODEL_URL, address)
                status, printed = run_on_terminal(["bash", "-e", "-c", script], folder, "", variables)
            yield Ran(block.text, status, None if block.shown is None else block.shown.splitlines(), printed)
        elif block.language == "sql" and (block.store is not None or block.title is None):
            # Without a store to run them on, the shell says what is missing.
            asked = ["kvstore", "shell", *filter(None, [block.store])]
            status, printed = run_on_terminal(asked, folder, block.text, variables)
            yield Ran(block.text, status, None if block.shown is None else block.shown.splitlines(), printed)
        elif block.language == "python" and (block.shown is not None or block.title is None):
            status, printed = run_on_terminal([sys.executable, "-c", block.text], folder, "", variables)
            yield Ran(block.text, status, None if block.shown is None else block.shown.splitlines(), printed)
