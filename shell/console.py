"""Console: runs statements and dot commands against a store, and writes results and messages. A *dot command*, such as
``.help``, controls the shell itself. A *StoreOpener* opens or creates a store in a thread once it is started.

In: statements and dot commands of a script or a prompt, an open store. Out: results on the output stream in the chosen
mode, everything else (messages, problems, errors) on the error stream. A failure is reported in one message and,
without ``bail``, the next statement runs. The exit status records whether anything failed.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import kvstore
from kvstore.errors import KvstoreError, StatementError, StoreNotFoundError
from kvstore.rendering.row_formats import RowCounter

from . import render
from .layout import wrap_message
from .pager import PagedStream
from .script import ScriptError, ScriptItem, read_items
from .store_opener import StoreOpener

_INTEGER_PATTERN = re.compile(r"-?(?:0|[1-9]\d{0,17})", re.ASCII)
_REAL_PATTERN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d{1,3})?", re.ASCII)

#: The initial prompt of the shell.
DEFAULT_PROMPT = "kvstore> "
#: The maximum nesting of .read.
_MAX_READ_DEPTH = 16
#: The statements that find nothing in an empty store.
_SEARCH_STATEMENTS = frozenset({"ASK", "LOOKUP", "RETRIEVE", "SEARCH"})


class ShellExit(Exception):
    """Raised when the user leaves the shell."""


class Bail(Exception):
    """Raised after a failed statement if the rest of the script must not run."""


class Console:
    """The state of one shell: the store, which may still be opening, the output, and the shell's settings.

    The dot command ``.open`` replaces the store.
    """

    def __init__(
        self,
        store: kvstore.Store | StoreOpener,
        *,
        mode: str | None = None,
        bail: bool = False,
        out: TextIO | None = None,
        confirm: Callable[[str], bool] | None = None,
        parameters: Mapping[str, Any] | None = None,
        run_command: Callable[[Console, str], None] | None = None,
    ) -> None:
        """Create a console for ``store``; it writes results to ``out`` (default: standard output) in format ``mode``.

        ``bail`` stops a script at the first failure. ``confirm`` asks before a statement that is hard to undo; its
        argument is the effect of the statement. ``parameters`` are the values of ``:name`` in statements.
        ``run_command`` runs dot commands.
        """
        self._store = store
        #: Runs dot commands; None if only statements are allowed.
        self._run_command = run_command
        self.out: TextIO = out or sys.stdout
        self.mode = mode or ("table" if self.is_terminal else "tsv")
        #: The mode to return to from ``.expanded``.
        self.collapsed_mode = "table" if self.mode == "line" else self.mode
        #: True if a script stops at the first failure.
        self.bail = bail
        #: Asks before a statement that is hard to undo; None never asks.
        self.confirm = confirm
        #: True if the time of each statement is printed.
        self.timer = False
        #: The values of ``:name`` in statements.
        self.parameters: dict[str, Any] = dict(parameters or {})
        #: The key bindings for editing: emacs or vi.
        self.keys = "emacs"
        #: The prompt, with ``\\d`` for the store's name, and the prompt of further lines; None: right-aligned under the
        #: first.
        self.prompt = DEFAULT_PROMPT
        self.continuation: str | None = None
        #: The command that shows results longer than the screen; None shows them directly.
        self.pager: str | None = None
        #: True if a person is waiting, so INGEST shows its progress.
        self.is_interactive = False
        #: The initial text of the next prompt (``.edit``), and the last statement.
        self.draft = ""
        self.last_statement = ""
        #: True if a store that was created by a failed script and has no content is deleted at the end.
        self.deletes_unused_store = False
        #: True if anything failed, which decides the exit status.
        self.has_failed = False
        #: The file for the next result only (``.once``); later results go to ``out`` again.
        self.once_path: Path | None = None
        #: The number of nested scripts that are being run.
        self._read_depth = 0
        #: True if the answer of the current statement was shown while the model wrote it.
        self._is_answer_shown = False

    @property
    def store(self) -> kvstore.Store:
        """The open store. If it is still being opened, wait for it; an error from opening it is raised here.

        A missing store raises StoreNotFoundError until a statement that can store something creates it. A path that is
        a file or another directory raises NotAStoreError.
        """
        if isinstance(self._store, StoreOpener):
            if not self._store.is_started:
                try:
                    kvstore.open(self.path, create=False).close()
                except StoreNotFoundError:
                    raise StoreNotFoundError(
                        f"{self.path}: there is no store here; create one with INSERT DOCUMENT, INGEST or IMPORT, or "
                        f"with kvstore ingest {self.path} FOLDER"
                    ) from None
                self._store.start()  # another process has created the store
            self._store = self._store.wait_for_store()
        return self._store

    @property
    def path(self) -> Path:
        """The store's directory."""
        return self._store.path

    @property
    def is_terminal(self) -> bool:
        """True if results go to a terminal."""
        return self.out.isatty()

    @property
    def width(self) -> int | None:
        """The width in cells of the terminal that results go to; None if they go elsewhere."""
        return shutil.get_terminal_size().columns if self.is_terminal else None

    def run_items(self, items: Iterable[ScriptItem], name: str = "") -> None:
        """Run statements and dot commands of a script called ``name``, and report failures.

        Raises Bail at the first failure if the ``bail`` setting (stop at the first error) is on.
        """
        try:
            for item in items:
                self.run(item, name)
        except ScriptError as error:
            self.fail(f"{name}: {error}" if name else str(error))

    def run(self, item: ScriptItem, name: str = "") -> None:
        """Run one statement or dot command, and report its failure.

        In a script called ``name``, the message has this name and the line. Raises ShellExit, BrokenPipeError if the
        user has left the pager, and Bail after a failure if ``bail`` is set. With ``KVSTORE_TRACEBACK``, every error is
        raised.
        """
        try:
            if item.is_command and self._run_command is not None:
                self._run_command(self, item.text)
            else:
                self._run_statement(item)
        except (ShellExit, Bail, BrokenPipeError):
            raise
        except Exception as error:
            if os.environ.get("KVSTORE_TRACEBACK"):
                raise
            self.fail(_format_script_error(error, item, name) if name else describe_error(error))

    def repeat(self) -> bool:
        """Run the last statement again; return True on success, and report a failure."""
        failed_before, self.has_failed = self.has_failed, False
        self.run(ScriptItem(self.last_statement))
        is_successful = not self.has_failed
        self.has_failed = self.has_failed or failed_before
        return is_successful

    @contextmanager
    def disable_pager(self) -> Iterator[None]:
        """Disable the pager within the ``with`` block."""
        pager, self.pager = self.pager, None
        try:
            yield
        finally:
            self.pager = pager

    def _run_statement(self, item: ScriptItem) -> None:
        """Run a statement, and write its result and messages; ask first if it can change many documents.

        A missing store is created if the statement can store something.
        """
        if self.confirm is not None and not self.store.readonly:
            effect = _describe_mass_change(item.text)
            if effect is not None and not self.confirm(effect):
                self.notify("the statement was not run")
                return
        start_time = time.perf_counter()
        # Pad the text to its position in the script, so that the position in an error is that in the script.
        text = "\n" * (item.line - 1) + " " * (item.column - 1) + item.text
        self.last_statement = item.text
        self._create_missing_store(text)
        with self._execute(text) as cursor:
            rows = self.write(cursor.kind, cursor.columns, cursor) if cursor.columns else 0
            if cursor.message:
                self.notify(cursor.message)
            elif cursor.columns and not rows and self.is_interactive and self.mode in ("table", "box", "line"):
                self.notify("0 rows")  # a result without rows may have no lines
            if cursor.kind in _SEARCH_STATEMENTS and not len(self.store) and not self.store.in_transaction:
                self.notify("the store is empty; INGEST 'FOLDER' stores files (on the command line: kvstore ingest)")
            for problem in cursor.problems:
                self.notify(problem)
            if self.timer:
                row_count = f"{rows:,} row{'' if rows == 1 else 's'}, " if cursor.columns else ""
                self.notify(f"{row_count}{1000 * (time.perf_counter() - start_time):,.1f} ms")
            if cursor.failed:
                self.fail()

    def _create_missing_store(self, text: str) -> None:
        """Start creating the store if it is missing and the statement ``text`` can store something."""
        if isinstance(self._store, StoreOpener) and not self._store.is_started:
            from kvstore.language import can_fill_store

            if can_fill_store(text, self.parameters):
                self._store.start()

    def _execute(self, text: str) -> kvstore.Cursor:
        """Run a statement and return its cursor; meanwhile, show its progress, or an answer while a model writes it.

        Set ``_is_answer_shown`` if any text of an answer was shown. On Ctrl-C, report the work that is saved, and raise
        KeyboardInterrupt.
        """
        from .interrupts import DeferredInterrupts
        from .progress import ProgressLine
        from .streaming import AnswerStream

        progress_line = ProgressLine(sys.stderr, silent=not self.is_interactive)
        is_streamed = self.mode == "table" and self.once_path is None
        answer = AnswerStream(self.out, self.width) if is_streamed and self.width is not None else None
        try:
            with DeferredInterrupts() as interrupts:
                show_text = None if answer is None else answer.show
                return self.store.execute(
                    text, self.parameters, progress=interrupts.wrap_callback(progress_line.show), on_text=show_text
                )
        except KeyboardInterrupt:
            progress_line.close()
            if progress_line.is_resumable:
                self.notify(
                    f"interrupted; {progress_line.describe_saved_progress()}; run the same statement again to continue"
                )
            elif progress_line.resumable_index:
                self.notify(
                    f"interrupted; {progress_line.describe_saved_progress()}; "
                    f"REFRESH INDEX {progress_line.resumable_index} continues"
                )
            raise
        finally:
            progress_line.close()
            if answer is not None:
                answer.finish()
            self._is_answer_shown = answer is not None and answer.has_output

    def write(self, kind: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
        """Write the result of a statement, whose first word is ``kind``; return the number of rows.

        The result goes to the file of ``.once`` if it is set, else to the pager if it is long, else to the output.
        """
        if self.once_path is not None:
            path, self.once_path = self.once_path, None
            with open(path, "w", encoding="utf-8") as file:
                return render.write_result(kind, columns, rows, file, mode=self.mode)
        counter = RowCounter(rows)
        with self._open_page() as page:
            render.write_result(
                kind, columns, counter, page, mode=self.mode, width=self.width, is_answer_shown=self._is_answer_shown
            )
        return counter.count

    def write_lines(self, lines: Iterable[str]) -> None:
        """Write lines of text to the output, through the pager if they are longer than the screen."""
        with self._open_page() as page:
            page.write("".join(f"{line}\n" for line in lines))

    @contextmanager
    def _open_page(self) -> Iterator[render.Writable]:
        """Yield the output, or on a terminal the pager, which shows text that is longer than the screen."""
        if self.pager is None or not self.is_terminal:
            yield self.out
            self.out.flush()
            return
        stream = PagedStream(self.out, self.pager)
        with suppress(BrokenPipeError):  # the user has left the pager
            yield stream
        stream.close()

    def run_script(self, path: str) -> None:
        """Run the statements and dot commands of a file; raise ValueError if it is unreadable or nested too deeply."""
        if self._read_depth == _MAX_READ_DEPTH:
            raise ValueError(
                f"{path}: .read is nested {_MAX_READ_DEPTH} levels deep; check whether a script reads itself"
            )
        try:
            file = open(path, "rb")  # noqa: SIM115 (closed below)
        except OSError as error:
            raise ValueError(f"the script {path} cannot be read ({error.strerror}); check the path") from error
        with file:
            self._read_depth += 1
            try:
                self.run_items(read_items(file), path)
            finally:
                self._read_depth -= 1

    def redirect_output(self, path: str | None) -> None:
        """Send results to a file from now on; None: to standard output again."""
        output = sys.stdout if path is None else open(path, "w", encoding="utf-8")  # noqa: SIM115 (kept open)
        self.close_output()
        self.out = output

    def close_output(self) -> None:
        """Close the output file, if there is one, and write to standard output again."""
        if self.out is not sys.stdout:
            self.out.close()
            self.out = sys.stdout

    def change_store(self, new_store: kvstore.Store) -> None:
        """Close the store and use ``new_store`` instead.

        Raises Bail if the ``bail`` setting is on and a script left a transaction open, which is rolled back.
        """
        is_successful = self._close_store()
        self._store = new_store
        self.deletes_unused_store = False
        if self.bail and not is_successful:
            raise Bail

    def finish(self) -> None:
        """Roll back an open transaction, and close the store and the output file."""
        self._close_store()
        self.close_output()

    def _close_store(self) -> bool:
        """Close the store, after rolling back an open transaction with a message; in a script, that is a failure.

        Return False if it is a failure. If ``deletes_unused_store`` is set and anything failed, a store without content
        is deleted.
        """
        is_successful = True
        if not isinstance(self._store, StoreOpener) and self._store.in_transaction:
            self._store.execute("ROLLBACK")
            if self.is_interactive:
                self.notify("the open transaction was rolled back")
            else:
                self.has_failed, is_successful = True, False
                self.notify("error: the open transaction was rolled back; end it with COMMIT to keep its changes")
        if self.deletes_unused_store and self.has_failed and not isinstance(self._store, StoreOpener):
            from kvstore.language import delete_unused_store

            delete_unused_store(self._store)
        self._store.close()
        return is_successful

    def notify(self, text: str) -> None:
        """Write a message for the user to standard error; on a terminal it is wrapped at spaces."""
        write_message(text)

    def fail(self, message: str | None = None) -> None:
        """Record a failure, and report ``message``, or nothing if None; raises Bail if ``bail`` is set."""
        self.has_failed = True
        if message is not None:
            self.notify(f"error: {message}")
        if self.bail:
            raise Bail


def write_message(text: str) -> None:
    """Write a message to standard error; on a terminal it is wrapped at spaces."""
    width = shutil.get_terminal_size().columns if sys.stderr.isatty() else None
    print(wrap_message(text, width), file=sys.stderr, flush=True)


def _format_script_error(error: Exception, item: ScriptItem, name: str) -> str:
    """Return the message of an error in the script ``name``, with the line of ``item``, the statement that failed.

    If the error shows a position itself, the line is left out.
    """
    has_position = isinstance(error, StatementError) and error.line is not None
    position = "" if has_position else f"line {item.line}: "
    return f"{name}: {position}{describe_error(error)}"


def describe_error(error: Exception) -> str:
    """Return the message of an error for the user, without a traceback."""
    if isinstance(error, OSError) and error.strerror is not None:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    if isinstance(error, (KvstoreError, OSError, ValueError)):
        return str(error)
    return f"{type(error).__name__}: {error}; set KVSTORE_TRACEBACK=1 to print the traceback"


def _describe_mass_change(statement: str) -> str | None:
    """Describe the effect of a statement that can change many documents; return None for any other statement.

    These statements are DELETE FROM, and UPDATE documents without WHERE.
    """
    from kvstore.language import iter_tokens

    words = [token.text.upper() for token in iter_tokens(statement) if token.kind not in ("space", "comment")]
    if words[:2] == ["DELETE", "FROM"]:  # without WHERE, it is an error
        return "deletes every document that satisfies the condition" if "WHERE" in words else None
    if words[:2] != ["UPDATE", "DOCUMENTS"]:
        return None
    depth = 0  # of parentheses; a WHERE inside them belongs to a subquery
    for word in words:
        depth += (word == "(") - (word == ")")
        if word == "WHERE" and depth == 0:
            return None
    return "updates every document"


def parse_parameter_value(text: str) -> str | int | float:
    """Parse a parameter value: a number if ``text`` is written like one, else text, plain or in single quotes.

    >>> [parse_parameter_value(text) for text in ("2024", "-1.5", "007", "'2024'")]
    [2024, -1.5, '007', '2024']
    """
    if _INTEGER_PATTERN.fullmatch(text):
        return int(text)
    if _REAL_PATTERN.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return text


def get_state_folder() -> Path:
    """Return the folder of the shell's history file: ``kvstore`` under XDG_STATE_HOME (default: ~/.local/state).

    The XDG specification says that a relative path is ignored.
    """
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base and os.path.isabs(base) else Path.home() / ".local" / "state") / "kvstore"
