"""The store: one directory, opened in-process. The class Store adds statements of the language to Database.

In: a path. Out: a :class:`Store`, with every reading method on the last commit, changes as transactions, and the
language. Heavy components are loaded on first use: the embedder with the first text to embed, the parser with the
first statement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..database.database import Database
from ..settings import QUERY_ROWS, QUERY_TIMEOUT

if TYPE_CHECKING:
    from ..database.model_extraction import ExtractionProgress
    from ..ingest.ingest_interface import IngestProgress
    from ..language.bounded_query import BoundedQueries
    from ..language.cursor import Cursor
    from ..retrieval.evidence import Step
    from ..sql.descriptions import Table
    from ..structures.indexes.index_building import IndexProgress


class Store(Database):
    """An open store; see :func:`kvstore.open`. Threads can share it; a forked child must open its own.

    ``len(store)`` is the number of documents, ``key in store`` is true if a document has this key, and iterating yields
    the keys in order. A store is true even if it is empty.

    >>> import kvstore, tempfile
    >>> store = kvstore.open(tempfile.mkdtemp() + "/store", embedder="hashing")
    >>> with store.transaction() as transaction:
    ...     _ = transaction.put("tea", "Tea is made from leaves. Robert Fortune took it to India.", title="Tea")
    ...     _ = transaction.put("coffee", "Coffee is brewed from roasted seeds.", meta={"year": 2024})
    ...     _ = transaction.put_edge("Darjeeling", "India", tree="places")
    """

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook displays: the path and counts of the contents, or that it is closed."""
        from ..rendering import markup

        if self.closed:
            return markup.render_remark(repr(self))
        statistics = self.statistics()
        names = ("documents", "chunks", "entities", "edges")
        rows = [(name, statistics[name]) for name in names] + [("embedder", self.settings.embedder)]
        return markup.render_table((str(self.path), ""), rows)

    def execute(
        self,
        sql: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        *,
        progress: Callable[[IngestProgress | IndexProgress | ExtractionProgress], None] | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Cursor:
        """Run the statements of a script in order, and return the cursor of the last.

        ``parameters`` are values for ``?`` (a sequence) or ``:name`` (a mapping). The language is described in
        ``kvstore/language/LANGUAGE.md``. ``progress`` is called with the progress of an INGEST, an EXTRACT or the build
        of an index, and ``on_text`` with the text from a language model as it arrives (see :meth:`ask`). A text that
        cannot be parsed raises StatementError before anything is run.

        >>> cursor = store.execute("SELECT key, chunks FROM documents WHERE key LIKE ?", ("t%",))
        >>> cursor.columns, cursor.fetchall()
        (('key', 'chunks'), [('tea', 1)])
        """
        from ..language.executor import execute

        return execute(self, sql, parameters, progress=progress, on_text=on_text)

    def query(
        self,
        sql: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        *,
        timeout: float | None = QUERY_TIMEOUT,
        max_rows: int | None = QUERY_ROWS,
    ) -> Cursor:
        """Run exactly one reading statement within limits. Use it for queries from people you do not trust.

        The statement must be a LOOKUP, EXPAND, SEARCH, RETRIEVE, ASK, SELECT, SHOW or DESCRIBE, or the EXPLAIN of one;
        any other statement raises StatementError before it runs. After ``timeout`` seconds, or on :meth:`interrupt`,
        the statement stops with QueryInterruptedError. Rows after the first ``max_rows`` are omitted, and the cursor's
        message says so (None: no limit). The query cannot create a text of more than 1 MB. It reads the last commit, so
        it cannot be used inside BEGIN.

        >>> store.query("SELECT key FROM documents ORDER BY key", max_rows=1).fetchall()
        [('coffee',)]
        >>> store.query("SELECT 1; DELETE FROM documents WHERE 1")
        Traceback (most recent call last):
        kvstore.errors.StatementError: query() runs exactly one statement, not 2; use execute() to run several
        """
        return self._bounded_queries.run(self, sql, parameters, timeout, max_rows)

    def interrupt(self) -> None:
        """Stop the queries of this session that other threads are running. They raise QueryInterruptedError.

        >>> store.interrupt()
        """
        self._bounded_queries.interrupt()

    @cached_property
    def _bounded_queries(self) -> BoundedQueries:
        """The running calls of :meth:`query` in this session, which :meth:`interrupt` stops."""
        from ..language.bounded_query import BoundedQueries

        return BoundedQueries()

    def explain(
        self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = (), *, analyze: bool = False
    ) -> list[Step]:
        """Return the execution steps of one statement, as EXPLAIN shows them; with ``analyze``, also the cost of each.

        Raises StatementError unless the text is one LOOKUP, EXPAND, SEARCH, RETRIEVE, ASK, SELECT, INGEST, EXTRACT or
        REFRESH (the last three only without ``analyze``), and any error of that statement.

        >>> [step.detail for step in store.explain("SELECT title FROM documents WHERE key = 'tea'")]
        ['SCAN documents BY key = ?']
        """
        from ..language.executor import explain

        return explain(self, sql, parameters, analyze=analyze)

    def tables(self) -> list[Table]:
        """Return the tables that SELECT reads.

        >>> [table.name for table in store.tables()][:3]
        ['documents', 'chunks', 'abstracts']
        """
        from ..sql import descriptions

        return descriptions.list_tables()

    def describe_table(self, name: str) -> Table:
        """Return one table that SELECT reads, with its columns. Raises InputError for an unknown name.

        >>> store.describe_table("documents").columns[0]
        Column(name='key', type='TEXT', index='equality, range')
        """
        from ..sql import descriptions

        return descriptions.get_table(name)
