"""The store: one directory, opened in-process.

In: a path. Out: a :class:`Store`, with every reading method on the last commit, changes as transactions, and the
language. Nothing heavy is loaded until it is used: the embedder with the first text to embed, the parser with the
first statement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self

from .changing import Changing
from .errors import InputError, KvstoreError, LockTimeoutError, ReadOnlyError
from .ingesting import Ingesting
from .keeping import Keeping
from .storage import tables
from .storage.environment import WriteTransaction
from .storage.recent import SOON_READ

if TYPE_CHECKING:
    from .ingest.pipeline import IngestProgress
    from .query.cursor import Cursor
    from .query.descriptions import Table
    from .retrieval.evidence import Step
    from .retrieval.query import Strategy
    from .storage.index_building import IndexProgress


class Store(Keeping, Changing, Ingesting):
    """An open store; see :func:`kvstore.open`. May be shared between threads; a forked child must open its own.

    >>> import kvstore, tempfile
    >>> store = kvstore.open(tempfile.mkdtemp() + "/store", embedder="hashing")
    >>> with store.transaction() as transaction:
    ...     _ = transaction.put("tea", "Tea is made from leaves. Robert Fortune took it to India.", title="Tea")
    ...     _ = transaction.put("coffee", "Coffee is brewed from roasted seeds.", meta={"year": 2024})
    ...     _ = transaction.put_edge("Darjeeling", "India", tree="places")
    """

    def close(self) -> None:
        """Fold in temperatures where the writer's lock is free, and close; waits for open snapshots.

        A transaction that BEGIN opened is rolled back.
        """
        if not self.environment.closed:
            if self.begun is not None:
                self.begun.rollback()
                self.begun = None
            self._indexing.stop()
            # Counts may be lost, data never; whoever writes now must not be kept waiting.
            with suppress(LockTimeoutError):
                self.flush(timeout=0)
            with suppress(KvstoreError):
                self._settle()
            self.environment.close()

    def _settle(self) -> None:
        """Put recent changes in place where there are so many that whoever opens the store next would notice."""
        if self.readonly:
            return
        with self.reading() as view:
            waiting = sum(len(part) for _, part in view.view.scan(tables.RECENT))
        if waiting > SOON_READ:
            self.environment.write_with_growth(WriteTransaction.settle, timeout=0)

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
        if self.readonly or not len(self.hits):
            return
        from .ingest.changes import Changes

        hits = self.hits.some()
        with self.environment.write(timeout) as view:
            sorts = self.session.temperature_sort
            entity_filter = self.kept_filter.take(view, hash_seed=self.settings.hash_seed, temperature_sort=sorts)
            Changes(view, self.settings, entity_filter).finish(hits)
        self.hits.forget(hits)

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
        self._indexing.create(kind, options or {}, progress)

    def drop_index(self, kind: str) -> None:
        """Remove an index and its file; searches are exact without it. Raises InputError where there is none.

        >>> store.create_index("vectors", {"exact_below": 50_000})
        >>> store.drop_index("vectors")
        """
        self._indexing.drop(kind)

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
        return self._indexing.refresh(kind, progress)

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
        ``kvstore/query/LANGUAGE.md``. ``progress`` hears how far an INGEST or an index is, ``on_text`` what a language
        model writes as it comes (see :meth:`ask`). A text that cannot be parsed raises StatementError before anything
        is run.

        >>> cursor = store.execute("SELECT key, chunks FROM documents WHERE key LIKE ?", ("t%",))
        >>> cursor.columns, cursor.fetchall()
        (('key', 'chunks'), [('tea', 1)])
        """
        from .query.executor import execute

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
        from .query.executor import explain

        return explain(self, sql, parameters, analyze=analyze)

    def tables(self) -> list[Table]:
        """The tables that SELECT reads.

        >>> [table.name for table in store.tables()][:3]
        ['documents', 'chunks', 'abstracts']
        """
        from .query import descriptions

        return descriptions.tables()

    def describe_table(self, name: str) -> Table:
        """One table that SELECT reads, with its columns; raises InputError for a name that no table has.

        >>> store.describe_table("documents").columns[0]
        Column(name='key', type='TEXT', index='equality, range')
        """
        from .query import descriptions

        return descriptions.table(name)

    def statistics(self) -> dict[str, int | float | str]:
        """Counts and sizes of everything in the store, as SHOW STATS gives them.

        >>> store.statistics()["documents"]
        2
        """
        from .storage.statistics import statistics

        with self.reading() as view:
            return statistics(view, self.environment.statistics()) | self._indexing.sizes()

    def settings_table(self) -> list[tuple[str, Any, bool]]:
        """All settings: name, value, and whether it was fixed when the store was made.

        >>> [(name, value) for name, value, fixed in store.settings_table() if not fixed][:2]
        [('strategy', 'adaptive'), ('top', 8)]
        """
        from .storage.language_version import fixed_settings

        with self.reading() as view:
            fixed = fixed_settings(view)
        return fixed + [(name, value, False) for name, value in asdict(self.session).items()]

    def strategies(self) -> list[Strategy]:
        """The strategies that a query can name, each with its name, description and options.

        >>> "bridge" in [strategy.name for strategy in store.strategies()]
        True
        """
        from .retrieval.strategies import STRATEGIES

        return list(STRATEGIES.values())

    def describe_strategy(self, name: str) -> Strategy:
        """One strategy, with its description and options; raises UnknownStrategyError.

        >>> store.describe_strategy("lexical").name
        'lexical'
        """
        from .retrieval.strategies import strategy_named

        return strategy_named(name)

    def set(self, name: str, value: Any) -> None:
        """Change a setting of this session; raises InputError for an unknown name or a bad value.

        >>> store.set("top", 3)
        >>> len(store.retrieve("What is tea made from?").hits) <= 3
        True
        """
        if name == "strategy":
            from .retrieval.strategies import strategy_named

            value = strategy_named(str(value)).name
        if name == "reranker":
            from .retrieval.reranking import reranker_named

            reranker_named(str(value))
        if name == "base_url" and value:
            from .models.endpoint import check_address

            check_address(str(value), InputError)
        self.session = self.session.changed(name, value)
