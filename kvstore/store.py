"""The store: one directory, opened in-process.

In: a path. Out: a :class:`Store`, with every reading method on the last commit, changes as transactions, and the
language. Nothing heavy is loaded until it is used: the embedder with the first text to embed, the parser with the
first statement.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self

from .database.changing import Changing
from .database.ingesting import Ingesting
from .database.keeping import Keeping
from .errors import InputError, LockTimeoutError, ReadOnlyError
from .storage import tables
from .storage.change_buffer import SOON_READ
from .storage.environment import Environment, WriteTransaction

if TYPE_CHECKING:
    from .ingest.pipeline import IngestProgress
    from .language.cursor import Cursor
    from .language.session import Writable
    from .models.embedder import Embedder
    from .retrieval.evidence import Step
    from .retrieval.query import Strategy
    from .settings import FixedSettings
    from .sql.descriptions import Table
    from .structures.indexes.index_building import IndexProgress

_log = logging.getLogger("kvstore")


class Store(Keeping, Changing, Ingesting):
    """An open store; see :func:`kvstore.open`. May be shared between threads; a forked child must open its own.

    ``len(store)`` is the number of its documents, ``key in store`` says whether there is one of this key, and iterating
    gives the keys in order; a store is true though it is empty.

    >>> import kvstore, tempfile
    >>> store = kvstore.open(tempfile.mkdtemp() + "/store", embedder="hashing")
    >>> with store.transaction() as transaction:
    ...     _ = transaction.put("tea", "Tea is made from leaves. Robert Fortune took it to India.", title="Tea")
    ...     _ = transaction.put("coffee", "Coffee is brewed from roasted seeds.", meta={"year": 2024})
    ...     _ = transaction.put_edge("Darjeeling", "India", tree="places")
    """

    def __init__(self, environment: Environment, settings: FixedSettings, embedder: Embedder | None) -> None:
        super().__init__(environment, settings, embedder)
        #: What BEGIN has opened, by thread: where a thread ends, its transaction is dropped, and so rolled back.
        self._begun_by = threading.local()

    def __repr__(self) -> str:
        if self.closed:
            return f"<kvstore.Store {str(self.path)!r}, closed>"
        return f"<kvstore.Store {str(self.path)!r}{', read-only' if self.readonly else ''}>"

    def close(self) -> None:
        """Roll back the transaction that is open, in whatever thread, fold in temperatures where the writer's lock is
        free, and close; does nothing when that is done.

        Waits, at most as long as for a lock, for other threads to come out of the methods they are in and for open
        snapshots; raises TransactionError then, and the store stays open.
        """
        context = self._context
        if context.environment.closed:
            return
        self._closing = True
        try:
            self._roll_back()
            context.indexing.stop()
            # Counts may be lost, data never; whoever writes now must not be kept waiting.
            for finish in (self._flush_at_once, self._settle):
                try:
                    finish()
                except LockTimeoutError as error:
                    _log.debug("%s: left to the next writer while closing: %s", self.path, error)
                except Exception as error:
                    _log.warning("%s: closed without its last counts and merges: %s", self.path, error)
            self._roll_back()
            context.environment.close()
        finally:
            self._closing = False

    def _roll_back(self) -> None:
        """Roll back the transaction that is open, if one is; raises TransactionError where a thread is at work in
        it."""
        transaction = None if self._last_transaction is None else self._last_transaction()
        if transaction is not None:
            transaction._end_with_store(self._context.environment.lock_timeout)

    def _flush_at_once(self) -> None:
        self.flush(timeout=0)

    def _settle(self) -> None:
        """Put recent changes in place where there are so many that whoever opens the store next would notice."""
        if self.readonly:
            return
        with self.state() as view:
            waiting = sum(len(part) for _, part in view.lmdb.scan(tables.RECENT))
        if waiting > SOON_READ:
            _log.info("%s: %d bytes of recent changes are put in their places", self.path, waiting)
            self._context.environment.write_with_growth(WriteTransaction.settle, timeout=0)

    @property
    def in_transaction(self) -> bool:
        """Whether this thread has a transaction open that BEGIN began."""
        return self._begun is not None

    @property
    def _begun(self) -> Writable | None:
        """The transaction that BEGIN opened in this thread."""
        return getattr(self._begun_by, "transaction", None)

    @_begun.setter
    def _begun(self, transaction: Writable | None) -> None:
        self._begun_by.transaction = transaction

    @property
    def _begun_elsewhere(self) -> str | None:
        """The name of the other thread that has a transaction open, where one has."""
        transaction = None if self._last_transaction is None else self._last_transaction()
        return None if transaction is None else transaction._other_owner()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def flush(self, timeout: float | None = None) -> None:
        """Fold the temperatures counted since the last commit into the entity filter.

        >>> _ = store.lookup("India")
        >>> store.flush()
        >>> store.lookup("India")[0].temperature
        1
        """
        context = self._context
        if self.readonly or not len(context.hits):
            return
        from .changes.changes import Changes

        def fold(view: WriteTransaction) -> None:
            sorts = context.session.temperature_sort
            entity_filter = context.kept_filter.take(view, hash_seed=self.settings.hash_seed, temperature_sort=sorts)
            Changes(view, self.settings, entity_filter).finish(hits)

        with context.hits.taken() as hits:
            context.environment.write_with_growth(fold, timeout)

    # Indexes

    def create_index(
        self,
        kind: str,
        options: Mapping[str, Any] | None = None,
        *,
        progress: Callable[[IndexProgress], None] | None = None,
    ) -> None:
        """Make an index, ``vectors`` or ``synonyms``, and build its file.

        Interrupted, it stays without a file: :meth:`refresh` goes on. Raises InputError for an unknown kind or option,
        or where there is one already, IndexUnavailableError where it cannot be built, EmbedderError, ReadOnlyError.

        >>> store.create_index("synonyms", {"similarity": 0.7})
        >>> [index.state for index in store.indexes() if index.kind == "synonyms"]
        ['ready']
        """
        self._context.indexing.create(kind, options or {}, progress)

    def drop_index(self, kind: str) -> None:
        """Remove an index and its file; searches are exact without it. Raises InputError where there is none.

        >>> store.create_index("vectors", {"exact_below": 50_000})
        >>> store.drop_index("vectors")
        """
        self._context.indexing.drop(kind)

    def refresh(self, kind: str | None = None, *, progress: Callable[[IndexProgress], None] | None = None) -> list[str]:
        """Bring one index, or all, up to the last commit; returns the kinds that have a new file.

        Raises InputError where there is no such index, IndexUnavailableError where it cannot be built or another
        process is building it, LockTimeoutError, EmbedderError, ReadOnlyError.

        >>> store.create_index("synonyms")
        >>> store.put("milk", "Robert Fortune drank it with milk.")
        True
        >>> store.refresh()
        ['synonyms']
        """
        if self.readonly:
            raise ReadOnlyError(f"{self.path} was opened read-only; open it without readonly to refresh its indexes")
        return self._context.indexing.refresh(kind, progress)

    # Looking

    def execute(
        self,
        sql: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        *,
        progress: Callable[[IngestProgress | IndexProgress], None] | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Cursor:
        """Run the statements of a text one after another, and return the cursor of the last.

        ``parameters`` are values for ``?`` (a sequence) or ``:name`` (a mapping); the language is described in
        ``kvstore/language/LANGUAGE.md``. ``progress`` hears how far an INGEST or an index is, ``on_text`` what a
        language model writes as it comes (see :meth:`ask`). A text that cannot be parsed raises StatementError before
        anything is run.

        >>> cursor = store.execute("SELECT key, chunks FROM documents WHERE key LIKE ?", ("t%",))
        >>> cursor.columns, cursor.fetchall()
        (('key', 'chunks'), [('tea', 1)])
        """
        from .language.executor import execute

        return execute(self, sql, parameters, progress=progress, on_text=on_text)

    def explain(
        self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = (), *, analyze: bool = False
    ) -> list[Step]:
        """The steps by which one statement comes to its rows, as EXPLAIN gives them; ``analyze``: what each cost.

        Raises StatementError for a text that is not one LOOKUP, EXPAND, SEARCH, RETRIEVE, ASK or SELECT, and what that
        raises.

        >>> [step.detail for step in store.explain("SELECT title FROM documents WHERE key = 'tea'")]
        ['SCAN documents BY key = ?']
        """
        from .language.executor import explain

        return explain(self, sql, parameters, analyze=analyze)

    def tables(self) -> list[Table]:
        """The tables that SELECT reads.

        >>> [table.name for table in store.tables()][:3]
        ['documents', 'chunks', 'abstracts']
        """
        from .sql import descriptions

        return descriptions.tables()

    def describe_table(self, name: str) -> Table:
        """One table that SELECT reads, with its columns; raises InputError for a name that no table has.

        >>> store.describe_table("documents").columns[0]
        Column(name='key', type='TEXT', index='equality, range')
        """
        from .sql import descriptions

        return descriptions.table(name)

    def statistics(self) -> dict[str, int | float | str]:
        """Counts and sizes of everything in the store, as SHOW STATS gives them.

        >>> store.statistics()["documents"]
        2
        """
        from .changes.statistics import statistics

        with self.state() as view:
            return statistics(view, self._context.environment.statistics()) | self._context.indexing.sizes()

    def settings_table(self) -> list[tuple[str, Any, bool]]:
        """All settings: name, value, and whether it was fixed when the store was made.

        >>> [(name, value) for name, value, fixed in store.settings_table() if not fixed][:2]
        [('strategy', 'adaptive'), ('top', 8)]
        """
        from .structures.language_version import fixed_settings

        with self.state() as view:
            fixed = fixed_settings(view)
        return fixed + [(name, value, False) for name, value in asdict(self._context.session).items()]

    def strategies(self) -> list[Strategy]:
        """The strategies that a query can name, each with its name, description and options.

        >>> "bridge" in [strategy.name for strategy in store.strategies()]
        True
        """
        from .systems import STRATEGIES

        return list(STRATEGIES.values())

    def describe_strategy(self, name: str) -> Strategy:
        """One strategy, with its description and options; raises UnknownStrategyError.

        >>> store.describe_strategy("lexical").name
        'lexical'
        """
        from .systems import strategy_named

        return strategy_named(name)

    def set(self, name: str, value: Any) -> None:
        """Change a setting of this session; raises InputError for an unknown name or a bad value.

        >>> store.set("top", 3)
        >>> len(store.retrieve("What is tea made from?").hits) <= 3
        True
        """
        if name == "strategy":
            from .systems import strategy_named

            value = strategy_named(str(value)).name
        if name == "reranker":
            from .retrieval.reranking import reranker_named

            reranker_named(str(value))
        if name == "base_url" and value:
            from .models.endpoint import check_address

            check_address(str(value), InputError)
        self._context.session = self._context.session.changed(name, value)
