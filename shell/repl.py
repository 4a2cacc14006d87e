"""The interactive shell: a prompt with history, colors, completion and a toolbar, which shows the state of the store.
The *console* has the store and the settings of the shell, and runs statements.

In: statements that end with ``;``, possibly on several lines, and dot commands. Out: results below the prompt. Ctrl-C
clears the typed text, or cancels the running statement and rolls it back; twice in a row at an empty prompt, or Ctrl-D,
leaves. History is stored under XDG_STATE_HOME; if that fails, the shell reports it and goes on without history.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout, suppress
from typing import TYPE_CHECKING

from prompt_toolkit import Application, PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, ThreadedCompleter
from prompt_toolkit.completion import Completion as PromptCompletion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.defaults import create_output
from prompt_toolkit.styles import Style

from kvstore import language
from kvstore.errors import KvstoreError
from kvstore.language import find_unquoted_question, is_complete, iter_tokens
from kvstore.language.statement_completion import StatementCatalog

from .completion import SQL_WORDS, complete
from .configuration import configure
from .console import Bail, Console, ShellExit, get_state_folder
from .masking import mask_line, mask_lines
from .pager import get_default_pager
from .script import COMMAND_PREFIXES, DOTLESS_COMMANDS, can_begin_statement, expand_questions, split_items
from .store_opener import StoreOpener

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

_STYLE = Style.from_dict(
    {
        "keyword": "bold ansiblue",
        "string": "ansigreen",
        "number": "ansicyan",
        "comment": "italic ansibrightblack",
        "parameter": "ansimagenta",
        "bad": "ansired",
        "command": "bold",
        "bottom-toolbar": "noreverse ansibrightblack",
    }
)


def run_repl(console: Console, opener: StoreOpener, *, warn: bool = True) -> int:
    """Read statements at a prompt and run them until the user leaves; return 0, the exit status.

    Ctrl-C twice at an empty prompt also leaves, and so does a failed statement if the console stops at errors.
    ``opener`` opens the store once the first prompt is drawn; an error from opening it is raised here. If ``warn`` is
    False, no statement needs a confirmation.
    """
    console.confirm = _confirm_effect if warn else None
    console.pager = get_default_pager()
    console.is_interactive = True
    configure(console)
    toolbar = Toolbar(console)
    catalog = LiveCatalog(console)
    session = _make_session(console, catalog, toolbar)
    _open_after_prompt(session.app, console, opener, toolbar)
    console.notify(f"{console.path}; .help lists the commands, Ctrl-D leaves the shell")
    was_interrupted = False
    while True:
        try:
            if opener.is_done:
                toolbar.refresh()
            catalog.clear_cache()
            session.editing_mode = EditingMode.VI if console.keys == "vi" else EditingMode.EMACS
            draft, console.draft = console.draft, ""
            text = session.prompt(default=draft)
        except KeyboardInterrupt:
            is_empty = not session.default_buffer.text
            if was_interrupted and is_empty:
                return 0
            was_interrupted = is_empty
            continue
        except EOFError:
            return 0
        was_interrupted = False
        try:
            _run_text(console, text)
        except (ShellExit, Bail):
            return 0


def _run_text(console: Console, text: str) -> None:
    """Run the statements and commands of a typed text; Ctrl-C cancels them. Raises ShellExit and Bail to leave."""
    try:
        console.store  # noqa: B018 (waits until it is open)
        for item in split_items(_expand_shortcuts(text)):
            console.run(item)
    except KeyboardInterrupt:
        console.notify("canceled")


def _make_session(console: Console, catalog: LiveCatalog, toolbar: Toolbar) -> PromptSession[str]:
    """Return a prompt that reads whole statements, with history, completion, colors and a toolbar."""
    session: PromptSession[str] = PromptSession(
        message=lambda: mask_line(console.prompt.replace("\\d", console.path.name)),  # \d is the store's name
        prompt_continuation=lambda width, *_: console.continuation or "...> ".rjust(width),
        multiline=Condition(lambda: not _is_complete_input(session.default_buffer.text)),
        history=_open_history(console),
        auto_suggest=AutoSuggestFromHistory(),
        completer=ThreadedCompleter(StoreCompleter(catalog)),
        complete_while_typing=True,
        lexer=StatementLexer(),
        bottom_toolbar=toolbar.get_text,
        style=_STYLE,
        color_depth=ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else None,
        output=create_output(always_prefer_tty=True),  # standard error if results go to a pipe or file
        enable_open_in_editor=True,
        enable_suspend=True,  # Ctrl-Z
        enable_system_prompt=False,
    )
    return session


def _open_after_prompt(application: Application[str], console: Console, opener: StoreOpener, toolbar: Toolbar) -> None:
    """Start background work after the first prompt is drawn, so that no key press waits for it.

    ``opener`` opens the store that ``console`` and ``toolbar`` use. Its counts are then shown in the toolbar, and the
    parser is loaded. An error from opening the store ends the prompt.
    """

    def start(_: Application[str]) -> None:
        """Start opening the store, and wait for it in a thread; remove this callback, which is called once."""
        application.after_render -= start
        opener.start()
        threading.Thread(target=wait_and_load, args=(application.loop,), daemon=True).start()

    def wait_and_load(loop: AbstractEventLoop) -> None:
        """Wait for the store, then update the toolbar and load the parser; ``loop`` is the event loop of the prompt."""
        try:
            console.store  # noqa: B018 (waits)
        except Exception as error:
            with suppress(RuntimeError):  # the prompt has already ended
                loop.call_soon_threadsafe(_end_prompt, application, error)
            return
        toolbar.refresh()
        application.invalidate()
        language.list_expected_terminals("")  # loads the parser

    application.after_render += start


def _end_prompt(application: Application[str], error: Exception) -> None:
    """End a prompt with an error, if it is still active."""
    if application.is_running and not application.is_done:
        application.exit(exception=error)


def _is_complete_input(text: str) -> bool:
    """True if Enter runs the typed text: it is a dot command, or only questions and complete statements.

    Text that can only be an error is also complete, so that its error is reported immediately: a question after ASK
    without quotes, and a text whose first word begins no statement.
    """
    statements = _expand_shortcuts(text).rstrip()
    if statements.lstrip().startswith(COMMAND_PREFIXES) or find_unquoted_question(text) is not None:
        return True
    if _begins_with_invalid_word(statements):
        return True
    while True:  # drop the command lines at the end, which need no semicolon
        before, _, last_line = statements.rpartition("\n")
        if not before or not last_line.startswith(COMMAND_PREFIXES):
            return is_complete(statements)
        statements = before.rstrip()


def _begins_with_invalid_word(text: str) -> bool:
    """True if the first token is a word that begins no statement."""
    for token in iter_tokens(text):
        if token.kind not in ("space", "comment", "semicolon"):
            return token.kind == "word" and not can_begin_statement(token.text)
    return False


def _expand_shortcuts(text: str) -> str:
    """Return the commands or statements to run for a typed or pasted text.

    ``quit``, ``exit`` and ``help`` need no dot, as in other shells, and a question needs no ASK.
    """
    word = text.strip().rstrip(";").lower()
    return f".{word}" if word in DOTLESS_COMMANDS else expand_questions(text)


def _confirm_effect(effect: str) -> bool:
    """Ask the user to confirm an ``effect`` of a statement, such as "deletes every document"; return True if they do.

    The statement is not repeated in the question, because the user has just typed it.
    """
    try:
        with redirect_stdout(sys.stderr):  # standard output may be a file
            reply = input(f"this {effect}; continue? [y/N] ")
    except (EOFError, KeyboardInterrupt):
        return False
    return reply.strip().lower() in ("y", "yes")


def _open_history(console: Console) -> History:
    """Return the history in its file, or in memory if the file cannot be written."""
    path = get_state_folder() / "history"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a", encoding="utf-8").close()
    except OSError as error:
        console.notify(f"history is not saved: {error}")
        return InMemoryHistory()
    return FileHistory(str(path))


class Toolbar:
    """The line under the prompt: the store's name, its state, and its numbers of documents and entities."""

    def __init__(self, console: Console) -> None:
        """Create a toolbar that says that the store of ``console`` is being opened; :meth:`refresh` updates it."""
        self._console = console
        self._text = f"{console.path.name}  opening"

    def refresh(self) -> None:
        """Read the state of the store and the counts of documents and entities again. This may read the disk."""
        store = self._console.store
        parts = [store.path.name]
        if store.readonly:
            parts.append("read-only")
        if store.in_transaction:
            parts.append("transaction open")
        try:
            statistics = store.statistics()
            parts += [
                language.format_count(int(statistics["documents"]), "document"),
                language.format_count(int(statistics["entities"]), "entity"),
            ]
            if not statistics["documents"]:
                parts.append("INGEST 'FOLDER'; stores the files of a folder")
        except KvstoreError as error:
            parts.append(str(error))
        self._text = "  ".join(parts)

    def get_text(self) -> str:
        """Return the text of the toolbar, masked, with the input mode if the key bindings are vi's."""
        vi_mode = f"{get_app().vi_state.input_mode.value}  " if self._console.keys == "vi" else ""
        return vi_mode + mask_line(self._text)


class StatementLexer(Lexer):
    """A lexer that colors the language's own tokens, and masks control characters."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        """Return a function that takes the index of a line and returns its pieces, each with its style."""
        lines: list[StyleAndTextTuples] = [[]]
        if document.text.startswith(COMMAND_PREFIXES):
            lines = [[("class:command", mask_lines(line))] for line in document.lines]
        else:
            for token in iter_tokens(document.text):
                style = _get_style(token.kind, token.text)
                for part_index, part in enumerate(token.text.split("\n")):
                    if part_index:
                        lines.append([])
                    lines[-1].append((style, mask_lines(part)))
        return lambda line_index: lines[line_index] if line_index < len(lines) else []


def _get_style(kind: str, text: str) -> str:
    """Return the style class of a token of a ``kind``, such as "word" or "number"; empty for plain text."""
    if kind == "word":
        word = text.upper()
        return "class:keyword" if word in language.get_keywords() or word in SQL_WORDS else ""
    return f"class:{kind}" if kind in ("string", "number", "comment", "parameter", "bad") else ""


class StoreCompleter(Completer):
    """A completer for prompt-toolkit, which calls :func:`complete`."""

    def __init__(self, catalog: LiveCatalog) -> None:
        """Create a completer that offers the names in ``catalog``."""
        self._catalog = catalog

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[PromptCompletion]:
        """Yield the completions of the text before the cursor."""
        text_before = document.text_before_cursor
        try:
            completions = complete(text_before, self._catalog)
        except KvstoreError:
            return  # the statement, not the completion, reports a closed or damaged store
        for completion in completions:
            yield PromptCompletion(
                completion.text,
                completion.start - len(text_before),
                display=mask_line(completion.text),
                display_meta=completion.kind,
            )


class LiveCatalog(StatementCatalog):
    """A completion catalog of the open store and the file system."""

    def __init__(self, console: Console) -> None:
        """Create a catalog of the store of ``console``, which can open another store later."""
        super().__init__(lambda: console.store)  # .open replaces the store of the console

    def list_paths(self, prefix: str) -> Sequence[str]:
        """Return the paths of files and folders that begin with a prefix, sorted by name; folders end with a slash.

        Names that begin with a dot are returned only if the prefix has the dot.
        """
        folder, slash, start = prefix.rpartition("/")
        try:
            entries = sorted(os.scandir(os.path.expanduser(folder + slash) or "."), key=lambda entry: entry.name)
        except OSError:
            return []
        visible_entries = (
            entry for entry in entries if entry.name.startswith(start) and (start or entry.name[0] != ".")
        )
        return [folder + slash + entry.name + ("/" if entry.is_dir() else "") for entry in visible_entries]
