"""The store: one directory, opened in-process.

In: a path. Out: a :class:`Store`, with every reading method on the last commit, changes as transactions, and the
language. Nothing heavy is loaded until it is used: the embedder with the first text to embed, the parser with the
first statement.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from .changing import Changing
from .errors import DocumentNotFoundError, InputError, LockTimeoutError, ReadOnlyError
from .indexing import Indexing
from .models.embedder import Embedder, open_embedder
from .reading import Context, Reading
from .settings import FixedSettings, SessionSettings
from .storage.environment import CompactReport, Environment
from .storage.environment import Snapshot as StorageSnapshot
from .storage.open_indexes import OpenIndexes
from .storage.place_cache import PlaceCache
from .storage.store_view import StoreView
from .storage.temperatures import HitCounts
from .storage.triples import DocumentTriples
from .transaction import Transaction

if TYPE_CHECKING:
    from .exchange import ExportReport, ImportReport
    from .ingest.file_documents import FileDocument
    from .ingest.forecast import Forecast
    from .ingest.pipeline import IngestProgress, IngestReport
    from .ingest.worker import Job
    from .models.llm import LanguageModel
    from .query.cursor import Cursor
    from .query.descriptions import Table
    from .query.session import Writable
    from .repair import RepairReport
    from .retrieval.evidence import Step
    from .retrieval.query import Strategy
    from .retrieval.reranking import Rerank
    from .storage.index_building import IndexProgress
    from .storage.ingested_files import IngestedFile


class Snapshot(Reading):
    """One state of a store, unchanged by later commits; made by :meth:`Store.snapshot`, closed by its context or
    ``close()``.

    >>> with store.snapshot() as snapshot:
    ...     _ = store.delete("tea")
    ...     snapshot.get("tea") is None, store.get("tea") is None
    (False, True)
    """

    def __init__(self, store: Context) -> None:
        self._context = store
        self._snapshot: StorageSnapshot = store.environment.snapshot()
        self.view = StoreView(self._snapshot, store.settings, store.open_indexes, store.place_cache)

    def close(self) -> None:
        """Let the snapshot go; using it afterwards raises ClosedError."""
        self._snapshot.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def reading(self) -> Iterator[StoreView]:
        with self._snapshot.pin():
            yield self.view


class Store(Reading, Changing):
    """An open store; see :func:`kvstore.open`. May be shared between threads; a forked child must open its own.

    >>> import kvstore, tempfile
    >>> store = kvstore.open(tempfile.mkdtemp() + "/store", embedder="hashing")
    >>> with store.transaction() as transaction:
    ...     _ = transaction.put("tea", "Tea is made from leaves. Robert Fortune took it to India.", title="Tea")
    ...     _ = transaction.put("coffee", "Coffee is brewed from roasted seeds.", meta={"year": 2024})
    ...     _ = transaction.put_edge("Darjeeling", "India", tree="places")
    """

    def __init__(self, environment: Environment, settings: FixedSettings, embedder: Embedder | None) -> None:
        self._context = self
        self.environment = environment
        self.settings = settings
        self.session = SessionSettings()
        self.hits = HitCounts()
        self.last_lookup: tuple[str, ...] = ()
        self.begun: Writable | None = None
        self.open_indexes = OpenIndexes(environment, settings.dimension)
        self._indexing = Indexing(self)
        self.place_cache = PlaceCache()
        self._embedder = embedder
        #: Whether the embedder is an object of the program's own, which no other process has.
        self.embedder_given = embedder is not None
        self._embedder_lock = threading.Lock()
        #: The reranker that was last asked for, by name: it may hold a model.
        self._reranker: tuple[str, Rerank | None] | None = None

    @property
    def path(self) -> Path:
        """The store's directory."""
        return self.environment.path

    @property
    def readonly(self) -> bool:
        """Whether it was opened to read only."""
        return self.environment.readonly

    @property
    def embedder(self) -> Embedder:
        """The store's embedder, loaded on first use; raises EmbedderError where its package is missing."""
        with self._embedder_lock:
            if self._embedder is None:
                self._embedder = open_embedder(self.settings.embedder)
            return self._embedder

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Unit vectors of some texts, shape (n, dimension); the embedder is not loaded for none."""
        return self.embedder.embed(texts) if texts else np.empty((0, self.settings.dimension), np.float32)

    def language_model(self, name: str | None = None) -> LanguageModel | None:
        """The language model that ASK has answer: of this name, else the session's, else the environment's.

        None where none is named, or ``none``. Raises ModelError for an address that is none.

        >>> store.set("base_url", "http://localhost:11434/v1")
        >>> store.language_model("qwen3:4b").url
        'http://localhost:11434/v1/chat/completions'
        """
        from .models.llm import language_model

        return language_model(name, self.session)

    def reranker(self, name: str | None = None) -> Rerank | None:
        """What puts rankings into another order: of this name, else the session's; None for ``none``.

        Raises RerankerError for a name that can be no reranker's.

        >>> store.reranker("none") is None, store.reranker("combination") is None
        (True, False)
        """
        wanted = name or self.session.reranker
        if wanted == "none":
            return None
        if self._reranker is None or self._reranker[0] != wanted:
            from .retrieval.reranking import reranker_named

            self._reranker = wanted, reranker_named(wanted)
        return self._reranker[1]

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
            self.environment.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def snapshot(self) -> Snapshot:
        """One state of the store, to read from more than once.

        >>> with store.snapshot() as snapshot:
        ...     len(snapshot.keys()), len(snapshot.search("tea", using="lexical"))
        (2, 1)
        """
        return Snapshot(self)

    @contextmanager
    def reading(self) -> Iterator[StoreView]:
        with self.snapshot() as snapshot:
            yield snapshot.view

    # Changing

    def transaction(self, *, timeout: float | None = None) -> Transaction:
        """Begin the store's one write transaction, waiting at most ``timeout`` seconds for another writer.

        Raises LockTimeoutError naming the holder, and ReadOnlyError.

        >>> with store.transaction() as transaction:
        ...     transaction.delete("tea"), transaction.keys(), store.keys()
        (True, ['coffee'], ['coffee', 'tea'])
        """
        if self.readonly:
            raise ReadOnlyError(f"{self.path} was opened read-only; open it for writing to change it")
        return Transaction(self, timeout)

    def ingest(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        format: str | None = None,
        prune: bool = False,
        options: Mapping[str, Any] | None = None,
        progress: Callable[[IngestProgress], None] | None = None,
        workers: int | None = None,
        time_limit: float = 120.0,
    ) -> IngestReport:
        """Bring files, folders and globs into the store, a commit a batch; see :func:`kvstore.ingest.pipeline.ingest`.

        Bad files are reported, not raised. ``prune`` removes documents whose files vanished from a folder named here.
        ``workers`` processes read, extract and embed (0: this one; None: as many as the files are worth); a file at
        which one is silent for ``time_limit`` seconds, or ends, is reported.

        >>> folder = tempfile.mkdtemp()
        >>> _ = open(folder + "/milk.md", "w").write("# Milk\\n\\nMilk goes into tea.")
        >>> report = store.ingest(folder)
        >>> report.added, report.failures, store.keys("milk")
        (1, [], ['milk.md'])
        """
        from .ingest.pipeline import ingest

        if self.readonly:
            raise ReadOnlyError(f"{self.path} was opened read-only; open it for writing to ingest")
        given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        return ingest(
            _Commits(self),
            [os.fspath(path) for path in given],
            format=format,
            prune=prune,
            options=options,
            progress=progress,
            workers=workers,
            time_limit=time_limit,
        )

    def forecast_ingest(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        format: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Forecast:
        """What :meth:`ingest` would do, estimated from a sample of the files; nothing is changed, no endpoint called.

        >>> folder = tempfile.mkdtemp()
        >>> _ = open(folder + "/cream.md", "w").write("# Cream\\n\\nCream goes into coffee.")
        >>> forecast = store.forecast_ingest(folder)
        >>> forecast.files, forecast.documents, forecast.chunks, forecast.calls
        (1, 1, 1, 0)
        """
        from .ingest.forecast import forecast

        given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        return forecast(_Commits(self), [os.fspath(path) for path in given], format, options or {})

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
            Changes(view, self.settings, temperature_sort=self.session.temperature_sort).finish(hits)
        self.hits.forget(hits)

    def committed(self) -> None:
        """Learn that a transaction of this store has changed something: the index of vectors may have to grow."""
        self._indexing.extend()

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

    def count_hit(self, key: str) -> None:
        """Count one hit of an entity for its temperature."""
        if not self.readonly:
            self.hits.add(key)

    def check(self) -> list[str]:
        """Every violated invariant of the store as a sentence; an empty list when it is sound.

        >>> store.check()
        []
        """
        from .storage.check import check

        with self.reading() as view:
            return list(check(view))

    def repair(self) -> RepairReport:
        """Check the store and, where anything is violated, make everything derived again from the documents.

        Documents, edges and aliases that are damaged themselves are lost, and said to be. One commit; raises
        LockTimeoutError, ReadOnlyError, StoreFullError, and what the embedder raises where vectors are damaged.

        >>> store.repair().found
        []
        """
        from .repair import RepairReport, rebuild

        found = self.check()
        if not found:
            return RepairReport([])
        rebuilt = rebuild(self.environment, self.settings, self.embed)
        return RepairReport(found, rebuilt, self.check())

    def backup(self, path: str | os.PathLike[str], *, compact: bool = True) -> None:
        """Copy the store as of now into a new directory, while others read and write.

        ``compact`` leaves out free pages; without it the copy waits for the writer's lock. Raises InputError when
        ``path`` exists, StoreFullError when it cannot be written.

        >>> store.backup(tempfile.mkdtemp() + "/copy")
        """
        self.environment.copy_to(path, compact=compact)

    def export(self, path: str | os.PathLike[str]) -> ExportReport:
        """Write all documents, triples, edges and aliases as JSON lines, in one state.

        See :func:`kvstore.exchange.export`. Raises InputError when ``path`` exists, StoreFullError when it cannot be
        written.

        >>> store.export(tempfile.mkdtemp() + "/all.jsonl")
        ExportReport(documents=2, triples=0, edges=1, aliases=0)
        """
        from .exchange import export

        with self.reading() as view:
            return export(view, path)

    def import_(self, path: str | os.PathLike[str]) -> ImportReport:
        """Read what :meth:`export` wrote, a commit a batch, in place of what has the same key.

        See :func:`kvstore.exchange.import_file`. Raises InputError naming the line.

        >>> path = tempfile.mkdtemp() + "/all.jsonl"
        >>> _ = store.export(path)
        >>> _ = store.delete("tea")
        >>> store.import_(path)
        ImportReport(documents=1, triples=0, edges=0, aliases=0, unchanged=2)
        """
        from .exchange import import_file

        return import_file(self, path)

    def compact(self) -> CompactReport:
        """Give the space of deleted data back to the file system; says how large the file was and is.

        Needs room for a second file, and keeps this process's readers and writers waiting. Raises TransactionError
        while another process has the store open, or when snapshots or transactions of this one stay open; also
        StoreFullError, ReadOnlyError, LockTimeoutError. The store is as before then.

        >>> report = store.compact()
        >>> report.bytes_after <= report.bytes_before
        True
        """
        from .storage.compaction import compact

        return compact(self.environment, self.settings.dimension)

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
        [('strategy', 'graph'), ('top', 8)]
        """
        fixed = [(name, value, True) for name, value in asdict(self.settings).items()]
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


class _Commits:
    """The store as the ingest pipeline sees it: one commit a batch."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.settings = store.settings
        self.embed = store.embed

    @property
    def texts_per_request(self) -> int:
        from .models.openai_embedder import BATCH, OpenAIEmbedder

        return BATCH if isinstance(self._store.embedder, OpenAIEmbedder) else 0

    def digest_of(self, key: str) -> bytes | None:
        with self._store.snapshot() as snapshot:
            record = snapshot.view.documents.find(key)
            return None if record is None else record.digest

    def keys_from(self, root: str) -> Iterator[str]:
        with self._store.snapshot() as snapshot:
            yield from [record.key for record in snapshot.view.documents.scan() if record.origin == root]

    def settle_origins(self, origins: Mapping[str, str | None]) -> None:
        with self._store.snapshot() as snapshot:
            find = snapshot.view.documents.find
            stored = ((key, origin, find(key)) for key, origin in origins.items() if origin)
            moved = {key: origin for key, origin, record in stored if record and record.origin != origin}
        if moved:
            with self._store.transaction() as transaction:
                transaction.settle_origins(moved)

    def job(self, format: str | None, options: Mapping[str, Any], *, embed: bool) -> Job:
        from .ingest.worker import Job

        embedder = self.settings.embedder if embed and not self._store.embedder_given else None
        return Job(str(self._store.path.resolve()), self.settings, format, dict(options), embedder)

    def ingested(self, source: str) -> IngestedFile | None:
        with self._store.snapshot() as snapshot:
            return snapshot.view.ingested_files.get(source)

    def write(
        self,
        batch: Sequence[tuple[FileDocument, str | None]],
        deleted: Sequence[str] = (),
        files: Sequence[tuple[IngestedFile, list[bytes]]] = (),
    ) -> None:
        # Embedding takes most of the time: other writers need not wait for it.
        found = [(document.extracted, document.vectors, origin) for document, origin in batch if document.extracted]
        texts = [text for extracted, made, _ in found if made is None for text in extracted.embedding_texts()]
        embedded = self._store.embed(texts)
        row = 0
        with self._store.transaction() as transaction:
            for extracted, made, origin in found:
                vectors = made
                if vectors is None:
                    vectors = embedded[row : row + len(extracted.chunks)]
                    row += len(vectors)
                transaction.put_extracted(extracted, vectors, origin=origin)
            transaction.delete_many(deleted)
            transaction.settle_files(files)

    def join_triples(self, triples: Mapping[str, DocumentTriples], more: Set[str]) -> Mapping[str, bool | InputError]:
        outcomes: dict[str, bool | InputError] = {}
        with self._store.transaction() as transaction:
            for key, found in triples.items():
                try:
                    outcomes[key] = transaction.put_triples(key, found.triples, names=found.names, more=key in more)
                except (DocumentNotFoundError, InputError) as error:
                    outcomes[key] = error if isinstance(error, InputError) else InputError(str(error))
        return outcomes
