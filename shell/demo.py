"""The tour: shows the features of a store on the sample that comes with the package.

In: a path for the store and the embedder to use, both optional. Out: each statement as a user would type it, and its
result, on standard output. Every line is the output of a real run.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from kvstore import sample
from kvstore.language import format_literal

from . import render
from .command_options import open_command_store
from .layout import wrap_message

#: The width of the tour's output if it does not go to a terminal.
_DEFAULT_WIDTH = 120


def run_tour(path: Path | None, embedder: str | None) -> int:
    """Show kvstore's features on a new store at ``path`` (None: on a temporary store); return the exit status.

    ``embedder`` names the embedder of the store (None: the best one installed).
    """
    if path is not None:
        return _Tour(path, embedder).run(keep_store=True)
    with tempfile.TemporaryDirectory(prefix="kvstore-demo-") as folder:
        return _Tour(Path(folder) / "demo", embedder).run(keep_store=False)


class _Tour:
    """One run of the tour on the store at ``path``, which it creates."""

    def __init__(self, path: Path, embedder: str | None) -> None:
        """Prepare the tour; :meth:`run` creates the store with this embedder (None: the best one installed)."""
        self._path = path
        self._embedder = embedder
        num_columns, _ = shutil.get_terminal_size(fallback=(_DEFAULT_WIDTH, 0))
        self._width = num_columns if sys.stdout.isatty() else _DEFAULT_WIDTH

    def run(self, *, keep_store: bool) -> int:
        """Create the store, run the tour, and return the exit status.

        If ``keep_store``, the last lines show how to use the store; otherwise, how to keep it.
        """
        with open_command_store(self._path, create=True, embedder=self._embedder) as store:
            self._store = store
            self._ingest()
            self._show_names()
            self._show_queries()
            self._change_document()
        self._print_farewell(keep_store)
        return 0

    def _ingest(self) -> None:
        """Ingest the sample documents and their tree."""
        self._print_heading("1. Ingest: a folder of files becomes a store")
        self._show(f"INGEST {format_literal(os.fspath(sample.folder()))}")
        self._show(f"INGEST {format_literal(os.fspath(sample.hierarchy()))} AS pairs")
        self._show("SHOW STATS", max_rows=8)

    def _show_names(self) -> None:
        """Show names, their mentions and their trees."""
        self._print_heading("2. Names: where a name is mentioned, and what is above and below it")
        query = (
            "SELECT name, mentions FROM entities JOIN nodes ON nodes.entity = name\n"
            "WHERE level > 0 AND children > 0 ORDER BY mentions DESC, name LIMIT 3"
        )
        self._show(query)
        (name, _), *_ = self._store.execute(query).fetchall()
        self._show(f"LOOKUP {format_literal(name)} LIMIT 4")
        self._show("EXPAND DEPTH 2 LIMIT 20")  # expands the name of the last LOOKUP

    def _show_queries(self) -> None:
        """Show questions, an explanation, and a query in SQL."""
        self._print_heading("3. Questions: an answer, with citations")
        *_, updated_question = sample.UPDATE  # asked later, in the part about updates
        questions = [question for question, _ in sample.QUESTIONS if question != updated_question]
        for question in questions[:2]:
            self._show(f"ASK {format_literal(question)}")
        self._print_heading("4. Explanation: how the answer was found")
        self._show(f"EXPLAIN ANALYZE ASK {format_literal(questions[0])} USING bridge")
        self._print_heading("5. SQL: queries over everything that the store contains")
        self._show(
            "SELECT entity, count(DISTINCT document) AS documents, count(*) AS mentions\n"
            "FROM mentions GROUP BY entity ORDER BY documents DESC, mentions DESC LIMIT 5"
        )

    def _change_document(self) -> None:
        """Show an update and its effect on an answer."""
        self._print_heading("6. Updates: a document changes, and so does the answer, in one commit")
        key, old, new, question = sample.UPDATE
        self._show(f"ASK {format_literal(question)}")
        document = self._store.get(key)
        assert document is not None  # the sample contains it
        text = document.text.replace(old, new)
        self._print_prompt(f"UPDATE DOCUMENT {format_literal(key)} SET TEXT = '… {new} …'")
        print(self._store.execute("UPDATE DOCUMENT ? SET TEXT = ?", (key, text)).message)
        self._show(f"ASK {format_literal(question)}")
        self._show("CHECK")

    def _print_farewell(self, keep_store: bool) -> None:
        """Print what to try next; ``keep_store`` says if the store of the tour still exists."""
        self._print_heading("Next steps")
        if keep_store:
            print(f"  kvstore shell {self._path}         query this store; .help lists the commands")
        else:
            print("  kvstore demo --store demo-store    run the tour and keep the store")
        print("  kvstore ingest my-store FOLDER     create a store of your own documents")
        print("  kvstore ask my-store 'QUESTION'    ask it a question")

    def _show(self, statement: str, *, max_rows: int | None = None) -> None:
        """Print a statement as a user types it, run it, and print at most ``max_rows`` rows of its result."""
        self._print_prompt(statement)
        cursor = self._store.execute(statement)
        if cursor.columns:
            result = cursor.fetchall()
            render.write_result(
                cursor.kind, cursor.columns, result[:max_rows], sys.stdout, mode="table", width=self._width
            )
            if max_rows is not None and len(result) > max_rows:
                print(f" … {len(result) - max_rows} more")
        for text in filter(None, (cursor.message, *cursor.problems)):
            print(text)

    def _print_prompt(self, statement: str) -> None:
        """Print a statement after the prompt of the shell."""
        print("\n" + wrap_message(f"kvstore> {statement};", self._width))

    def _print_heading(self, text: str) -> None:
        """Print the heading of a part of the tour."""
        print(f"\n== {text}")
