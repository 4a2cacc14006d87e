"""The Database class: every operation on an open store except statements of its language.

In: an open environment and the settings of its store. Out: reads of the last commit; changes, grouped in a transaction
or each in a separate one; ingest, export, checks, repair, backups, compaction, indexes and settings. Models are loaded
when first needed, and never while the writer's lock is held.
"""

from __future__ import annotations

import inspect
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

import numpy.typing as npt

from ..arguments import (
    MAX_DIGITS,
    check_arguments,
    check_clauses,
    check_integer,
    check_options,
    check_path,
    check_text,
    format_value,
    is_representable,
)
from ..errors import ClosedError, InputError, ReadOnlyError
from ..settings import TIME_LIMIT, FixedSettings, SessionSettings
from ..storage.environment import CompactReport
from ..structures.documents.allowed import AllowedDocuments
from ..structures.state import State
from ..structures.vectors.vectors import Matrix
from .open_store import OpenStore
from .queryable import Queryable
from .session import Session
from .snapshot import Snapshot

if TYPE_CHECKING:
    from ..changes.facts import ExportReport, ImportReport
    from ..changes.pending import PendingDocument
    from ..changes.repair import RepairReport
    from ..ingest.forecast import Forecast
    from ..ingest.ingest_interface import Ingestion, IngestOptions, IngestProgress, IngestReport
    from ..models.embedder import Embedder
    from ..models.llm import LanguageModel
    from ..retrieval.query import Strategy
    from ..structures.indexes.generation_building import WritingForecast
    from ..structures.indexes.index_building import IndexProgress
    from .model_extraction import ExtractionForecast, ExtractionProgress, ExtractionReport, ModelExtraction
    from .transaction import Transaction

_log = logging.getLogger("kvstore")

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class _OneShotMethod:
    """A method of Database with the signature and documentation of a method of Transaction.

    It is built on first access, so that programs that only read never import the transaction module.
    """

    def __init__(self, get_method: Callable[[type[Transaction]], Callable[..., Any]], run: Callable[..., Any]) -> None:
        self._get_method = get_method
        self._run = run

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, database: Database | None, owner: type | None = None) -> Callable[..., Any]:
        from .transaction import Transaction

        method = check_arguments(_build_method(self._get_method(Transaction), self._run))
        setattr(self._owner, self._name, method)
        bound_method: Callable[..., Any] = getattr(owner if database is None else database, self._name)
        return bound_method


def _build_method(method: Callable[..., Any], run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a Database method that calls ``run`` and has the signature and docstring of a Transaction ``method``."""
    signature = inspect.signature(method)
    summary, _, details = (inspect.getdoc(method) or "").partition("\n\n")

    @wraps(method)
    def call(self: Database, /, *args: Any, **kwargs: Any) -> Any:
        try:
            signature.bind(self, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{method.__name__}() {error}") from None
        return run(method, self, *args, **kwargs)

    call.__module__, call.__qualname__ = __name__, f"Database.{method.__name__}"
    call.__doc__ = f"{summary}\n\nIn a transaction of its own.\n\n{details}".rstrip()
    return call


def copy_signature(
    get_method: Callable[[type[Transaction]], Callable[Concatenate[Transaction, Parameters], Result]],
) -> Callable[[Callable[..., Result]], Callable[Concatenate[Database, Parameters], Result]]:
    """Return a decorator that gives a Database method the signature and docstring of a Transaction method."""

    def decorate(function: Callable[..., Result]) -> Any:
        return _OneShotMethod(get_method, lambda method, self, *args, **named: function(self, *args, **named))

    return decorate


def make_one_shot(
    get_method: Callable[[type[Transaction]], Callable[Concatenate[Transaction, Parameters], Result]],
    *,
    models: bool = False,
) -> Callable[Concatenate[Database, Parameters], Result]:
    """Return a Database method that runs a Transaction method in a separate transaction and commits it."""

    def call(method: Callable[..., Result], self: Database, *args: Any, **kwargs: Any) -> Result:
        with self.transaction(models=models) as transaction:
            return method(transaction, *args, **kwargs)

    descriptor: Any = _OneShotMethod(get_method, call)
    return descriptor  # type: ignore[no-any-return]


class Database(Queryable):
    """An open store; :class:`kvstore.Store` adds the language."""

    def __init__(self, store: OpenStore, *, readonly: bool = False, session: SessionSettings | None = None) -> None:
        self._session = Session(store, readonly=readonly or store.environment.readonly, settings=session)
        #: The sessions created from this handle; closing it closes them.
        self._sessions: weakref.WeakSet[Database] = weakref.WeakSet()
        #: The transaction begun last; only its thread can use it.
        self._last_transaction: weakref.ref[Transaction] | None = None
        #: The transaction that BEGIN opened in each thread. When a thread ends, its transaction is rolled back.
        self._open_transactions = threading.local()
        self._closing = False
        with store.lock:
            store.environment.require_open()
            store.handles.add(self)

    def __repr__(self) -> str:
        if self.closed:
            return f"<kvstore.{type(self).__name__} {str(self.path)!r}, closed>"
        return f"<kvstore.{type(self).__name__} {str(self.path)!r}{', read-only' if self.readonly else ''}>"

    @property
    def path(self) -> Path:
        """The store's directory."""
        return self._session.store.environment.path

    @property
    def readonly(self) -> bool:
        """True if the store was opened read-only."""
        return self._session.readonly or self._session.store.environment.readonly

    @property
    def closed(self) -> bool:
        """True if this handle can no longer be used, because it was closed or inherited through a fork."""
        return self._session.closed or self._session.store.environment.closed

    @property
    def settings(self) -> FixedSettings:
        """The settings that the store was created with."""
        return self._session.store.settings

    @property
    def embedder(self) -> Embedder:
        """The store's embedder; raises EmbedderError if its package is missing."""
        return self._session.store.embedder

    def session(self) -> Self:
        """Open another session on the same store, with the same methods.

        A session has separate settings (initially a copy of these), a separate BEGIN and a separate last LOOKUP. It
        ends when it is closed, or when the handle it was created from is closed. If threads share a store, give each
        thread a session.

        >>> with store.session() as session:
        ...     session.set("top", 2)
        ...     _ = session.execute("BEGIN")
        ...     session.in_transaction, store.in_transaction, store.settings == session.settings
        (True, False, True)
        """
        current = self._session
        current.environment.require_open()
        session = type(self)(current.store, readonly=current.readonly, session=current.settings)
        self._sessions.add(session)
        return session

    def close(self) -> None:
        """Roll back the open transaction, even of another thread, and close this handle and its sessions.

        Does nothing if the handle is already closed. Closing the last handle closes the store. Temperatures are saved
        then if the writer's lock is free. The file is compacted if it was created or more than doubled since it was
        opened, no other process has it open, and compaction would not take long. Closing waits, at most as long as for
        a lock, until other threads have left their methods and snapshots are closed; if they do not finish in time, it
        raises TransactionError and the handle stays open.
        """
        if self.closed:
            return
        self._closing = True
        try:
            for session in list(self._sessions):
                session.close()
            self._roll_back()
            self._session.store.remove_handle(self, self._session.settings.temperature_sort)
            self._session.closed = True
        finally:
            self._closing = False

    def _roll_back(self) -> None:
        """Roll back the open transaction, if any; raises TransactionError if a thread is executing a method of it."""
        transaction = None if self._last_transaction is None else self._last_transaction()
        if transaction is not None:
            transaction._end_with_store(self._session.environment.lock_timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return the unit vectors of these texts, shape (n, dimension); no texts do not load the embedder.

        >>> store.embed(["Tea is made from leaves."]).shape
        (1, 256)
        """
        for text in texts:
            check_text("a text to embed", text)
        return self._session.store.embed(texts)

    def language_model(self, name: str | None = None) -> LanguageModel | None:
        """Return the language model that ASK uses: the one named, else the session's, else the environment's.

        Returns None if no model is named, or the name is ``none``. Raises ModelError for an invalid address.

        >>> store.set("base_url", "http://localhost:11434/v1")
        >>> store.language_model("qwen3:4b").url
        'http://localhost:11434/v1/chat/completions'
        """
        return self._session.get_language_model(name)

    def snapshot(self) -> Snapshot:
        """Open a snapshot: one state of the store, for several reads.

        >>> with store.snapshot() as snapshot:
        ...     len(snapshot.keys()), len(snapshot.search("tea", using="lexical"))
        (2, 1)
        """
        return Snapshot(self._session)

    def state(self) -> AbstractContextManager[State]:
        return self._session.open_state()

    def transaction(self, *, timeout: float | None = None, models: bool = True) -> Transaction:
        """Begin the store's only write transaction, waiting at most ``timeout`` seconds for another writer.

        The transaction belongs to the thread that begins it. It is rolled back when it is garbage-collected or the
        store is closed. Other threads read the last commit meanwhile. The models that documents need are loaded before
        the writer's lock is taken; ``models=False`` skips that, for a transaction that puts no documents. A single
        transaction is the fastest way to load a new store: its documents are linked to the names in them at the end,
        when all names are known. Raises LockTimeoutError, which names the lock's holder; TransactionError if this
        thread has a transaction open; and ReadOnlyError.

        >>> with store.transaction() as transaction:
        ...     transaction.delete("tea"), transaction.keys(), store.keys()
        (True, ['coffee'], ['coffee', 'tea'])
        """
        from .transaction import Transaction

        self._require_writable()
        if models:
            self._session.store.load_models()
        transaction = Transaction(self._session, timeout)
        self._last_transaction = weakref.ref(transaction)
        if self._closing:
            transaction.rollback()
            raise ClosedError(f"{self.path}: the store is being closed; open it again")
        return transaction

    def _require_writable(
        self, remedy: str = "open it for writing to change it", *, fixes_settings: bool = True
    ) -> None:
        """Raise ClosedError or ReadOnlyError if the store cannot be changed.

        A change depends on the settings, so this fixes them; an ingest, which chooses them itself, passes
        ``fixes_settings=False``.
        """
        self._session.environment.require_open()
        if self.readonly:
            reason = self._session.environment.why_readonly
            raise ReadOnlyError(reason or f"{self.path} was opened read-only; {remedy}")
        if fixes_settings:
            self._session.store.fix_settings()

    @property
    def in_transaction(self) -> bool:
        """True if this thread has an open transaction that was started with BEGIN."""
        return self._open_transaction is not None

    @property
    def _open_transaction(self) -> Transaction | None:
        """The transaction that BEGIN opened in this thread, or None."""
        return getattr(self._open_transactions, "transaction", None)

    @_open_transaction.setter
    def _open_transaction(self, transaction: Transaction | None) -> None:
        self._open_transactions.transaction = transaction

    @property
    def _other_transaction_thread(self) -> str | None:
        """The name of another thread that has a transaction open, or None."""
        transaction = None if self._last_transaction is None else self._last_transaction()
        return None if transaction is None else transaction._get_other_owner()

    # Changes, each in a separate transaction

    @copy_signature(lambda transaction: transaction.put)
    def put(
        self,
        key: str,
        text: str,
        *,
        vectors: npt.ArrayLike | None = None,
        origin: str | None = None,
        **properties: Any,
    ) -> bool:
        from ..changes.pending import embed_documents, prepare_document
        from ..extraction.validation import validate

        # Do all slow work before taking the writer's lock.
        self._require_writable()
        valid_document = validate(key, text, **properties)
        if vectors is None:
            with self.state() as state:
                record = state.documents.find_by_key(key)
                if record is not None and record.digest == valid_document.digest:
                    return False
        prepared = prepare_document(valid_document, self.settings, vectors, origin)
        (document,) = embed_documents([prepared], self.settings, self._session.open_state, self._session.store.embed)
        with self.transaction(models=False) as transaction:
            return transaction._put(document)

    @copy_signature(lambda transaction: transaction.put_many)
    def put_many(self, documents: Iterable[Mapping[str, Any]]) -> list[bool]:
        from ..changes.pending import begin, derive_documents, embed_documents
        from .checked_documents import check_documents
        from .transaction import Transaction

        self._require_writable()
        checked_documents = check_documents(documents, Transaction.put)
        # Do all slow work before taking the writer's lock.
        pending_documents: dict[int, PendingDocument] = {}
        keys: set[str] = set()
        with self.state() as state:
            for index, checked_document in enumerate(checked_documents):
                record = state.documents.find_by_key(checked_document.document.key)
                is_unchanged = (
                    checked_document.vectors is None
                    and record is not None
                    and record.digest == checked_document.document.digest
                )
                if is_unchanged and checked_document.document.key not in keys:
                    continue
                keys.add(checked_document.document.key)
                with checked_document.locate_errors():
                    pending_documents[index] = begin(
                        checked_document.document, self.settings, checked_document.vectors, checked_document.origin
                    )
        prepared = derive_documents(list(pending_documents.values()), self.settings)
        embedded_documents = embed_documents(
            prepared, self.settings, self._session.open_state, self._session.store.embed
        )
        changes = [False] * len(checked_documents)
        if embedded_documents:
            with self.transaction(models=False) as transaction:
                for index, document in zip(pending_documents, embedded_documents, strict=True):
                    changes[index] = transaction._put(document)
        return changes

    update = make_one_shot(lambda transaction: transaction.update, models=True)
    delete = make_one_shot(lambda transaction: transaction.delete)
    delete_many = make_one_shot(lambda transaction: transaction.delete_many)
    delete_where = make_one_shot(lambda transaction: transaction.delete_where)
    set_origins = make_one_shot(lambda transaction: transaction.set_origins)
    put_triples = make_one_shot(lambda transaction: transaction.put_triples)
    put_edge = make_one_shot(lambda transaction: transaction.put_edge)
    delete_edge = make_one_shot(lambda transaction: transaction.delete_edge)
    alias = make_one_shot(lambda transaction: transaction.alias)
    drop_alias = make_one_shot(lambda transaction: transaction.drop_alias)
    merge = make_one_shot(lambda transaction: transaction.merge)
    unmerge = make_one_shot(lambda transaction: transaction.unmerge)

    # Files in and out

    @property
    def _begin(self) -> Callable[[], Transaction]:
        """A function that begins a transaction for documents that are already extracted and embedded."""
        return partial(self.transaction, models=False)

    def ingest(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        format: str | None = None,
        prune: bool = False,
        include: str | Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        progress: Callable[[IngestProgress], None] | None = None,
        workers: int | None = None,
        engine: str = "processes",
        time_limit: float = TIME_LIMIT,
        memory_limit: float | None = None,
    ) -> IngestReport:
        """Ingest files, folders and globs, with one commit per batch.

        Files that cannot be read are reported and raise nothing. ``prune`` removes documents whose files vanished from
        the folders and patterns in ``paths``. ``include`` holds patterns such as ``*.adoc``: of the files in folders,
        those whose names match one are read, regardless of suffix.

        ``workers`` is the number of processes that read, extract and embed (0: this process; None: as many as the files
        justify). They run on this machine, or on another ``engine`` (``ray://local``, ``ray://HOST:PORT``). A file is
        reported if its worker is silent for ``time_limit`` seconds, needs more than ``memory_limit`` megabytes (None:
        its share of half the machine's memory), or dies. If this ingest wrote most of the store's file and no other
        process has it open, the file is compacted at the end.

        >>> folder = tempfile.mkdtemp()
        >>> _ = open(folder + "/milk.md", "w").write("# Milk\\n\\nMilk goes into tea.")
        >>> report = store.ingest(folder)
        >>> report.added, report.failures, store.keys("milk")
        (1, [], ['milk.md'])
        """
        ingest_options: IngestOptions = {
            "format": format,
            "prune": prune,
            "options": options,
            "workers": workers,
            "engine": engine,
            "time_limit": time_limit,
            "memory_limit": memory_limit,
        }
        with self.ingest_progress(paths, include=include, **ingest_options) as ingestion:
            for step in ingestion:
                if progress is not None:
                    progress(step)
        return ingestion.report

    def ingest_progress(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        include: str | Sequence[str] = (),
        **options: Unpack[IngestOptions],
    ) -> Ingestion:
        """Ingest like :meth:`ingest`, as an iterator that yields the progress after each step.

        Its ``report`` holds the result. The arguments and errors are those of :meth:`ingest`. If the caller stops
        early and closes the iterator or leaves its context, everything committed is kept, and the same ingest continues
        from there.

        >>> folder = tempfile.mkdtemp()
        >>> _ = open(folder + "/rum.md", "w").write("# Rum\\n\\nRum goes into tea.")
        >>> with store.ingest_progress(folder) as ingestion:
        ...     [(step.done, step.total, step.documents) for step in ingestion], ingestion.report.added
        ([(0, 1, 0), (1, 1, 1)], 1)
        """
        from ..ingest.ingest_interface import IngestOptions
        from ..ingest.pipeline import create_ingestion
        from .ingest_destination import IngestDestination

        check_clauses("ingest_progress", options, IngestOptions.__annotations__)
        self._require_writable("open it for writing to ingest", fixes_settings=False)
        check_options("options", options.get("options"))
        destination = IngestDestination(self._session, self._begin)
        settle = self._session.store.growth.compact_if_grown
        return create_ingestion(
            destination, _list_paths(paths), include=_list_patterns(include), on_finish=settle, **options
        )

    def forecast_ingest(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        format: str | None = None,
        include: str | Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
    ) -> Forecast:
        """Estimate the result of :meth:`ingest` from a sample of the files; changes nothing and calls no endpoint.

        >>> folder = tempfile.mkdtemp()
        >>> _ = open(folder + "/cream.md", "w").write("# Cream\\n\\nCream goes into coffee.")
        >>> forecast = store.forecast_ingest(folder)
        >>> forecast.files, forecast.documents, forecast.chunks, forecast.calls
        (1, 1, 1, 0)
        """
        from ..ingest.forecast import build_forecast
        from .ingest_destination import IngestDestination

        check_options("options", options)
        return build_forecast(
            IngestDestination(self._session, self._begin),
            _list_paths(paths),
            format,
            options or {},
            _list_patterns(include),
        )

    def extract(
        self,
        kind: str,
        *,
        share: float | None = None,
        within: int | None = None,
        by: str | None = None,
        where: str | Mapping[str, Any] | None = None,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        model: str | None = None,
        progress: Callable[[ExtractionProgress], None] | None = None,
    ) -> ExtractionReport:
        """Let a language model write texts about the documents' passages, such as their ``units``, and store them.

        ``share`` (a fraction of all tokens to send) or ``within`` (a number of tokens) limits what is sent. ``by`` then
        names the method that selects the passages: ``confusability`` (default), ``bleu``, ``pagerank`` or ``random``.
        ``where`` selects documents. Each answer is committed on arrival and never requested again, so an interrupted
        extraction continues with the next call. Raises InputError if no model is named or a limit is out of range, and
        ModelError if the model cannot be called.

        >>> store.extract("units", model="none")
        Traceback (most recent call last):
        kvstore.errors.InputError: EXTRACT needs a language model; name one with MODEL (model=), or SET model
        """
        self._require_writable("open it for writing to extract")
        language_model = self._session.get_language_model(model)
        if language_model is None:
            raise InputError("EXTRACT needs a language model; name one with MODEL (model=), or SET model")
        extraction = self._prepare_extraction(kind, share, within, by, where, parameters)
        return extraction.run(language_model, self._begin, progress)

    def forecast_extract(
        self,
        kind: str,
        *,
        share: float | None = None,
        within: int | None = None,
        by: str | None = None,
        where: str | Mapping[str, Any] | None = None,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
    ) -> ExtractionForecast:
        """Return the passages, requests and tokens that :meth:`extract` would need; sends nothing.

        >>> forecast = store.forecast_extract("units")
        >>> forecast.passages, forecast.calls
        (2, 2)
        """
        return self._prepare_extraction(kind, share, within, by, where, parameters).forecast()

    def _prepare_extraction(
        self,
        kind: str,
        share: float | None,
        within: int | None,
        by: str | None,
        where: str | Mapping[str, Any] | None,
        parameters: Sequence[Any] | Mapping[str, Any],
    ) -> ModelExtraction:
        from ..registry import get_written_fact
        from ..sql.document_filter import filter_documents
        from .model_extraction import ModelExtraction

        def find_allowed(state: State) -> AllowedDocuments | None:
            return None if where is None else filter_documents(state, where, parameters).allowed

        return ModelExtraction(self._session, get_written_fact(kind), find_allowed, share=share, within=within, by=by)

    def import_(self, path: str | os.PathLike[str]) -> ImportReport:
        """Import a file written by :meth:`export`, with one commit per batch; items with the same key are replaced.

        See :func:`kvstore.database.exchange.import_file`. Raises InputError, which names the line.

        >>> path = tempfile.mkdtemp() + "/all.jsonl"
        >>> _ = store.export(path)
        >>> _ = store.delete("tea")
        >>> store.import_(path)
        ImportReport(documents=1, triples=0, edges=0, aliases=0, unchanged=2)
        """
        from .exchange import import_file

        self._require_writable("open it for writing to import")
        report = import_file(self._session, self._begin, path)
        self._session.store.growth.compact_if_grown()
        return report

    # Soundness, size, safety

    def check(self) -> list[str]:
        """Return each violated invariant of the store as a sentence; an empty list if the store is sound.

        >>> store.check()
        []
        """
        from ..changes.check import check_state

        with self.state() as state:
            return [*self._session.environment.find_page_faults(), *check_state(state)]

    def repair(self) -> RepairReport:
        """Check the store and, if an invariant is violated, rebuild all derived data from the documents.

        Damaged documents, triples, edges, aliases and index options are lost, and the report lists them. The repair is
        one commit. The file then holds both old and new data; it is compacted if it is not large and no other process
        has it open. If pages of the file are damaged, a new file replaces it; this raises TransactionError if another
        process has the store open. Also raises LockTimeoutError, ReadOnlyError, StoreFullError, and, if vectors are
        damaged, the errors of the embedder.

        >>> store.repair().found
        []
        """
        from ..changes.compaction import compact_if_sparse
        from ..changes.repair import RepairReport, rebuild_store

        problems = self.check()
        if not problems:
            return RepairReport([])
        self._session.store.load_models()
        rebuilt = rebuild_store(self._session.environment, self.settings, self._session.store.embed)
        self._session.store.open_indexes.clear_caches()
        compact_if_sparse(self._session.environment)
        _log.warning(
            "%s: %d problems were found; rebuilt from %d documents, %d things lost",
            self.path,
            len(problems),
            rebuilt.documents,
            len(rebuilt.lost),
        )
        return RepairReport(problems, rebuilt, self.check())

    def backup(self, path: str | os.PathLike[str], *, compact: bool = True) -> None:
        """Copy the current state of the store into a new directory; reads and writes continue meanwhile.

        ``compact`` omits free pages; without it the copy waits for the writer's lock. Raises InputError if ``path``
        exists, StoreFullError if it cannot be written.

        >>> store.backup(tempfile.mkdtemp() + "/copy")
        """
        self._session.environment.copy_to(path, compact=compact)

    def export(self, path: str | os.PathLike[str]) -> ExportReport:
        """Write all documents, triples, edges and aliases of one state as JSON lines.

        See :func:`kvstore.database.exchange.export`. Raises InputError if ``path`` exists or has a suffix other than
        ``.jsonl`` or ``.ndjson``, StoreFullError if it cannot be written.

        >>> store.export(tempfile.mkdtemp() + "/all.jsonl")
        ExportReport(documents=2, triples=0, edges=1, aliases=0)
        """
        from .exchange import export

        with self.state() as state:
            return export(state, path)

    def export_table(self, path: str | os.PathLike[str], table: str = "chunks") -> int:
        """Write one state of a SELECT table to a new ``.parquet`` or ``.arrow`` file; returns the number of rows.

        The file of ``chunks`` also contains the vectors, in a column ``vector`` of fixed-size lists, so embedding
        viewers can open it. See :mod:`kvstore.database.table_export`. Raises InputError for an unknown table or suffix
        or if ``path`` exists, MissingExtraError without the extra ``arrow``, StoreFullError if it cannot be written.

        >>> store.export_table("chunks.csv")
        Traceback (most recent call last):
        kvstore.errors.InputError: chunks.csv: a table is written to a file that ends in .parquet or .arrow
        """
        from ..registry.table_reader import Reader
        from .table_export import export_table

        with self.state() as state:
            return export_table(Reader(state, self.settings_table), table, path)

    def compact(self) -> CompactReport:
        """Return the space of deleted data to the file system; the report has the file size before and after.

        Needs room for a second file, and blocks readers and writers of this process meanwhile. Raises TransactionError
        if another process has the store open, or if snapshots or transactions of this process stay open; also
        StoreFullError, ReadOnlyError and LockTimeoutError. The store is unchanged after an error.

        >>> report = store.compact()
        >>> report.bytes_after == (store.path / "data.mdb").stat().st_size
        True
        """
        from ..changes.compaction import compact_store

        return compact_store(self._session.environment, self.settings.dimension)

    def flush(self, timeout: float | None = None) -> None:
        """Write the temperatures counted since the last commit to the entity filter.

        >>> _ = store.lookup("India")
        >>> store.flush()
        >>> store.lookup("India")[0].temperature
        1
        """
        if not self.readonly:
            self._session.environment.require_open()
            self._session.store.flush(self._session.settings.temperature_sort, timeout)

    # Indexes

    def create_index(
        self,
        kind: str,
        options: Mapping[str, Any] | None = None,
        *,
        progress: Callable[[IndexProgress], None] | None = None,
    ) -> None:
        """Create an index of a kind, such as ``synonyms``, and build its file; ``units`` are built inside the store.

        If interrupted, the index has no file or a partial one, and :meth:`refresh` continues. Raises InputError for an
        unknown kind or option or if the index exists, IndexUnavailableError if it cannot be built, EmbedderError and
        ReadOnlyError.

        >>> store.create_index("synonyms", {"similarity": 0.7})
        >>> [index.state for index in store.indexes() if index.kind == "synonyms"]
        ['ready']
        """
        self._session.store.indexing.create(kind, options or {}, progress)

    def drop_index(self, kind: str) -> None:
        """Remove an index and its contents; raises InputError if it does not exist. If interrupted, call it again.

        >>> store.create_index("vectors", {"exact_below": 50_000})
        >>> store.drop_index("vectors")
        """
        self._session.store.indexing.drop(kind)

    def refresh(
        self,
        kind: str | None = None,
        *,
        model: str | None = None,
        within: int | None = None,
        progress: Callable[[IndexProgress], None] | None = None,
    ) -> list[str]:
        """Bring one index, or all, up to the last commit; returns the kinds that changed.

        With ``model`` or ``within``, a language model (the one named, else the session's, else the environment's)
        writes the texts of new and changed groups, the largest groups first. At most ``within`` tokens are sent; the
        next call continues. Raises InputError if the index does not exist or no model is named, IndexUnavailableError
        if the index cannot be built or another process is building it, LockTimeoutError, EmbedderError, ReadOnlyError,
        and ModelError, which keeps everything written before it.

        >>> store.create_index("synonyms")
        >>> store.put("milk", "Robert Fortune drank it with milk.")
        True
        >>> store.refresh()
        ['synonyms']
        """
        self._require_writable("open it without readonly to refresh its indexes")
        writer = None
        if within is not None:
            check_integer("within", within, 1)
        if model is not None or within is not None:
            from ..models.structured import StructuredModel

            language_model = self._session.get_language_model(model)
            if language_model is None:
                raise InputError("no language model is named; give MODEL 'name', or SET model = 'name'")
            writer = StructuredModel(language_model, within)
        return self._session.store.indexing.refresh(kind, progress, writer)

    def forecast_refresh(self, kind: str | None = None) -> dict[str, WritingForecast]:
        """Return what :meth:`refresh` would let a model write, by kind of index; changes nothing and calls no model.

        Raises InputError if the index does not exist.

        >>> store.create_index("topics")
        >>> store.forecast_refresh("topics")["topics"].calls
        1
        """
        return self._session.store.indexing.forecast(kind)

    # Settings and counts

    def statistics(self) -> dict[str, int | float | str]:
        """Return counts and sizes of everything in the store, like SHOW STATS.

        >>> store.statistics()["documents"]
        2
        """
        from ..changes.statistics import collect_statistics

        with self.state() as state:
            return (
                collect_statistics(state, self._session.environment.statistics())
                | self._session.store.indexing.measure_sizes()
            )

    def settings_table(self) -> list[tuple[str, Any, bool]]:
        """Return all settings as (name, value, fixed); fixed settings cannot change after the store is created.

        >>> [(name, value) for name, value, fixed in store.settings_table() if not fixed][:2]
        [('strategy', 'adaptive'), ('top', 8)]
        """
        from ..structures.language_version import list_fixed_settings

        with self.state() as state:
            fixed = list_fixed_settings(state)
        return fixed + [(name, value, False) for name, value in asdict(self._session.settings).items()]

    def strategies(self) -> list[Strategy]:
        """Return the strategies that a query can name, each with its name, description and options.

        >>> "bridge" in [strategy.name for strategy in store.strategies()]
        True
        """
        from ..registry import list_strategies

        return list_strategies()

    def describe_strategy(self, name: str) -> Strategy:
        """Return one strategy, with its description and options; raises UnknownStrategyError.

        >>> store.describe_strategy("lexical").name
        'lexical'
        """
        from ..registry import get_strategy

        return get_strategy(name)

    def set(self, name: str, value: Any) -> None:
        """Change a setting of this session; raises InputError for an unknown name or an invalid value.

        >>> store.set("top", 3)
        >>> len(store.retrieve("What is tea made from?").hits) <= 3
        True
        """
        if isinstance(value, int) and not is_representable(value):
            raise InputError(f"setting {name} is a number of at most {MAX_DIGITS} digits, not {format_value(value)}")
        if name == "strategy":
            from ..registry import get_strategy

            value = get_strategy(str(value)).name
        if name == "reranker":
            from ..retrieval.reranking import make_reranker

            make_reranker(str(value))
        if name == "base_url" and value:
            from ..models.endpoint import check_address

            check_address(str(value), InputError)
        self._session.settings = self._session.settings.replace_setting(name, value)


def _list_patterns(include: str | Sequence[str]) -> list[str]:
    patterns = [include] if isinstance(include, str) else list(include)
    if not all(isinstance(pattern, str) and pattern for pattern in patterns):
        raise InputError(f"a pattern of files to include is a text such as '*.adoc', not {format_value(include)}")
    return patterns


def _list_paths(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return the paths as strings; raises ArgumentError for an invalid path."""
    path_list = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    for path in path_list:
        check_path("a path to ingest", path)
    return [os.fspath(path) for path in path_list]
