"""Stores, snapshots, transactions and results for asyncio: the methods of the synchronous ones, as coroutines. A
wrapper calls the methods of the synchronous object ``_target`` in its ``_threads``. Each transaction has its own
thread, and so have the statements of a store.

In: an object of the synchronous interface, and the threads of its calls. Out: an object with the same methods. The
methods are listed by name, so that editors and type checkers know their arguments and results.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack

from ..database.snapshot import Snapshot
from ..database.transaction import Transaction
from ..language.bounded_query import BoundedQueries
from ..language.cursor import Cursor, Row
from ..settings import QUERY_ROWS, QUERY_TIMEOUT, FixedSettings
from ..store.store import Store
from .call_threads import AsyncStream, AwaitableContext, CallThreads, ClosingContext, run_in_thread

if TYPE_CHECKING:
    import os
    from pathlib import Path
    from types import TracebackType

    from ..answering.answer import Answer, AnswerPieces
    from ..ingest.ingest_interface import Ingestion, IngestOptions, IngestProgress, IngestReport
    from ..models.embedder import Embedder
    from ..retrieval.evidence import Evidence
    from ..retrieval.question_clauses import Clauses

#: The number of rows that an iteration over a cursor reads per call.
_ROWS_PER_CALL = 100


def _format_target(target: object) -> str:
    """Return the ``repr`` of a wrapped object, with ``<kvstore.aio.`` in place of ``<kvstore.``."""
    return repr(target).replace("<kvstore.", "<kvstore.aio.", 1)


class AsyncCursor(ClosingContext):
    """The result of one statement; see :class:`kvstore.Cursor`. Iterate it with ``async for``."""

    def __init__(self, cursor: Cursor, threads: CallThreads) -> None:
        """Wrap the synchronous ``cursor``; its rows are read in ``threads``."""
        self._target = cursor
        self._threads = threads
        self.kind, self.columns, self.types = cursor.kind, cursor.columns, cursor.types
        self.description, self.rowcount = cursor.description, cursor.rowcount
        self.message, self.problems, self.failed = cursor.message, cursor.problems, cursor.failed

    def __repr__(self) -> str:
        """Return the ``repr`` of the wrapped object, with ``kvstore.aio`` in place of ``kvstore``."""
        return _format_target(self._target)

    fetchone = run_in_thread(Cursor.fetchone)
    fetchmany = run_in_thread(Cursor.fetchmany)
    fetchall = run_in_thread(Cursor.fetchall)
    to_arrow = run_in_thread(Cursor.to_arrow)
    to_dicts = run_in_thread(Cursor.to_dicts)
    to_pandas = run_in_thread(Cursor.to_pandas)

    async def __aiter__(self) -> AsyncIterator[Row]:
        """Yield the remaining rows; each batch of rows is read in a thread."""
        while rows := await self.fetchmany(_ROWS_PER_CALL):
            for row in rows:
                yield row

    async def close(self) -> None:
        """Drop the remaining rows; closing twice is allowed."""
        await self._threads.run_to_end(self._target.close)


class AsyncAnswerPieces(AsyncStream[str]):
    """The text of an answer in pieces; see :class:`kvstore.AnswerPieces`."""

    def __init__(self, pieces: AnswerPieces, threads: CallThreads) -> None:
        """Wrap the synchronous iterator ``pieces`` over an answer's text; its calls run in ``threads``."""
        super().__init__(pieces, threads)
        self._pieces = pieces
        self.evidence: Evidence = pieces.evidence

    @property
    def answer(self) -> Coroutine[Any, Any, Answer]:
        """The whole answer, to be awaited; waits for the remaining pieces."""
        return self._threads.run(self._call_exclusively, lambda: self._pieces.answer)


class AsyncIngestion(AsyncStream["IngestProgress"]):
    """An ingest that runs while it is iterated; see :class:`kvstore.Ingestion`."""

    def __init__(self, ingestion: Ingestion, threads: CallThreads) -> None:
        """Wrap the synchronous iterator ``ingestion``; its steps run in ``threads``."""
        super().__init__(ingestion, threads)
        self.report: IngestReport = ingestion.report


class AsyncQueryable:
    """The reading methods of stores, snapshots and transactions."""

    _target: Any
    _threads: CallThreads

    def __repr__(self) -> str:
        """Return the ``repr`` of the wrapped object, with ``kvstore.aio`` in place of ``kvstore``."""
        return _format_target(self._target)

    aliases = run_in_thread(Store.aliases)
    ask = run_in_thread(Store.ask)
    count = run_in_thread(Store.count)
    describe = run_in_thread(Store.describe)
    describe_document = run_in_thread(Store.describe_document)
    describe_entity = run_in_thread(Store.describe_entity)
    expand = run_in_thread(Store.expand)
    get = run_in_thread(Store.get)
    get_many = run_in_thread(Store.get_many)
    indexes = run_in_thread(Store.indexes)
    keys = run_in_thread(Store.keys)
    lookup = run_in_thread(Store.lookup)
    names = run_in_thread(Store.names)
    nearest_names = run_in_thread(Store.nearest_names)
    neighbours = run_in_thread(Store.neighbours)
    not_in_dump = run_in_thread(Store.not_in_dump)
    outline = run_in_thread(Store.outline)
    prompt = run_in_thread(Store.prompt)
    retrieve = run_in_thread(Store.retrieve)
    search = run_in_thread(Store.search)
    triples = run_in_thread(Store.triples)
    vectors = run_in_thread(Store.vectors)
    weigh = run_in_thread(Store.weigh)

    def ask_pieces(
        self, question: str, *, model: str | None = None, words: int | None = None, **clauses: Unpack[Clauses]
    ) -> AwaitableContext[AsyncAnswerPieces]:
        """Answer a question as an async iterator over the text, which yields it in pieces as the model writes it.

        The arguments are those of :meth:`kvstore.Store.ask_pieces`.
        """

        async def start() -> AsyncAnswerPieces:
            """Start the answer in a thread."""
            ask = partial(self._target.ask_pieces, question, model=model, words=words, **clauses)
            return AsyncAnswerPieces(await self._threads.run(ask), self._threads)

        return AwaitableContext(start())

    def dump(self) -> AsyncStream[str]:
        """Return an async iterator over the statements of :meth:`kvstore.Store.dump`, which recreate the store."""
        return AsyncStream(self._target.dump(), self._threads)


class AsyncSnapshot(ClosingContext, AsyncQueryable):
    """One state of a store; see :class:`kvstore.Snapshot`."""

    def __init__(self, snapshot: Snapshot, threads: CallThreads) -> None:
        """Wrap ``snapshot``; its methods run in ``threads``."""
        self._target = snapshot
        self._threads = threads

    async def close(self) -> None:
        """Close the snapshot; closing twice is allowed."""
        await self._threads.run_to_end(self._target.close)


class AsyncTransaction(AsyncQueryable):
    """Changes that become visible together or not at all; see :class:`kvstore.Transaction`.

    Its calls run in order in a separate thread. Leaving its context commits, or rolls back after an exception, which
    includes the cancellation of the task.
    """

    def __init__(self, transaction: Transaction, threads: CallThreads) -> None:
        """Wrap ``transaction``; ``threads`` has the only thread that may use it."""
        self._target = transaction
        self._threads = threads

    alias = run_in_thread(Transaction.alias)
    delete = run_in_thread(Transaction.delete)
    delete_edge = run_in_thread(Transaction.delete_edge)
    delete_many = run_in_thread(Transaction.delete_many)
    delete_where = run_in_thread(Transaction.delete_where)
    drop_alias = run_in_thread(Transaction.drop_alias)
    merge = run_in_thread(Transaction.merge)
    put = run_in_thread(Transaction.put)
    put_edge = run_in_thread(Transaction.put_edge)
    put_many = run_in_thread(Transaction.put_many)
    put_triples = run_in_thread(Transaction.put_triples)
    set_origins = run_in_thread(Transaction.set_origins)
    unmerge = run_in_thread(Transaction.unmerge)
    update = run_in_thread(Transaction.update)

    @property
    def open(self) -> bool:
        """True if the transaction can still be used."""
        return bool(self._target.open)

    async def commit(self) -> None:
        """Make the changes durable and visible; an error leaves the store unchanged and ends the transaction."""
        await self._threads.run_to_end(self._target.commit)

    async def rollback(self) -> None:
        """Discard all changes; does nothing if the transaction has ended."""
        await self._threads.run_to_end(self._target.rollback)

    async def __aenter__(self) -> Self:
        """Return the transaction, which the end of the ``async with`` block commits or rolls back."""
        return self

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, or roll back after an exception; then end the thread of the transaction."""
        try:
            await self._threads.run_to_end(self._target.__exit__, error_type, error, trace)
        finally:
            self._threads.close()


class AsyncStore(ClosingContext, AsyncQueryable):
    """An open store; see :func:`open`. Its methods are those of :class:`kvstore.Store`, as coroutines."""

    def __init__(self, store: Store, threads: CallThreads) -> None:
        """Wrap ``store``; its methods run in ``threads``, and its statements in a separate thread."""
        self._target: Store = store
        self._threads = threads
        #: The thread that runs all statements, because a transaction that BEGIN opened belongs to one thread.
        self._statement_thread = CallThreads(1, "statements")

    backup = run_in_thread(Store.backup)
    check = run_in_thread(Store.check)
    compact = run_in_thread(Store.compact)
    create_index = run_in_thread(Store.create_index)
    describe_strategy = run_in_thread(Store.describe_strategy)
    describe_table = run_in_thread(Store.describe_table)
    drop_index = run_in_thread(Store.drop_index)
    embed = run_in_thread(Store.embed)
    export = run_in_thread(Store.export)
    export_table = run_in_thread(Store.export_table)
    extract = run_in_thread(Store.extract)
    flush = run_in_thread(Store.flush)
    forecast_extract = run_in_thread(Store.forecast_extract)
    forecast_ingest = run_in_thread(Store.forecast_ingest)
    forecast_refresh = run_in_thread(Store.forecast_refresh)
    import_ = run_in_thread(Store.import_)
    language_model = run_in_thread(Store.language_model)
    refresh = run_in_thread(Store.refresh)
    repair = run_in_thread(Store.repair)
    set = run_in_thread(Store.set)
    settings_table = run_in_thread(Store.settings_table)
    spent = run_in_thread(Store.spent)
    statistics = run_in_thread(Store.statistics)
    strategies = run_in_thread(Store.strategies)
    tables = run_in_thread(Store.tables)
    # Changes, each in a separate transaction
    alias = run_in_thread(Store.alias)
    delete = run_in_thread(Store.delete)
    delete_edge = run_in_thread(Store.delete_edge)
    delete_many = run_in_thread(Store.delete_many)
    delete_where = run_in_thread(Store.delete_where)
    drop_alias = run_in_thread(Store.drop_alias)
    merge = run_in_thread(Store.merge)
    put = run_in_thread(Store.put)
    put_edge = run_in_thread(Store.put_edge)
    put_many = run_in_thread(Store.put_many)
    put_triples = run_in_thread(Store.put_triples)
    set_origins = run_in_thread(Store.set_origins)
    unmerge = run_in_thread(Store.unmerge)
    update = run_in_thread(Store.update)

    @property
    def path(self) -> Path:
        """The store's directory."""
        return self._target.path

    @property
    def readonly(self) -> bool:
        """True if this handle cannot change the store."""
        return self._target.readonly

    @property
    def closed(self) -> bool:
        """True if this handle can no longer be used."""
        return self._target.closed

    @property
    def settings(self) -> FixedSettings:
        """The settings that the store was created with."""
        return self._target.settings

    @property
    def embedder(self) -> Embedder:
        """The store's embedder; raises EmbedderError if its package is missing."""
        return self._target.embedder

    @property
    def in_transaction(self) -> Coroutine[Any, Any, bool]:
        """True, when awaited, if a transaction that BEGIN started is open."""
        return self._statement_thread.run(lambda: self._target.in_transaction)

    def session(self) -> AsyncStore:
        """Open another session on the same store, with separate settings and a separate BEGIN."""
        return AsyncStore(self._target.session(), self._threads)

    async def close(self) -> None:
        """Roll back the transaction that BEGIN opened, wait for running calls, and close the store.

        Closing twice is allowed.
        """
        # ``Store.close`` rolls back and waits. It runs in the statement thread, after the statements before it. Even if
        # this task is cancelled, ``run_to_end`` waits for its end.
        await self._statement_thread.run_to_end(self._target.close)
        # Only this session has this thread. All sessions share ``self._threads``, which therefore stay open.
        self._statement_thread.close()

    def snapshot(self) -> AwaitableContext[AsyncSnapshot]:
        """Open a snapshot: one state of the store, for several reads."""

        async def start() -> AsyncSnapshot:
            """Open the snapshot in a thread."""
            return AsyncSnapshot(await self._threads.run(self._target.snapshot), self._threads)

        return AwaitableContext(start())

    def transaction(self, *, timeout: float | None = None, models: bool = True) -> AwaitableContext[AsyncTransaction]:
        """Begin a write transaction; wait at most ``timeout`` seconds for the store's current one to end.

        Await the result, or enter it with ``async with``. The arguments are those of :meth:`kvstore.Store.transaction`.
        """

        async def start() -> AsyncTransaction:
            """Begin the transaction in a new thread, to which it belongs."""
            threads = CallThreads(1, "transaction")
            future = threads.submit(self._target.transaction, timeout=timeout, models=models)
            try:
                return AsyncTransaction(await asyncio.wrap_future(future), threads)
            except BaseException:  # even if the task is cancelled while the thread waits for the lock
                threads.submit(_roll_back, future)
                threads.close()
                raise

        return AwaitableContext(start())

    def execute(
        self,
        sql: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        *,
        progress: Callable[[Any], None] | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> AwaitableContext[AsyncCursor]:
        """Run statements in order; await the result to get the cursor of the last one.

        The arguments are those of :meth:`kvstore.Store.execute`.
        """

        async def start() -> AsyncCursor:
            """Run the statements in the statement thread, because a transaction that BEGIN opened belongs to it."""
            run = partial(self._target.execute, sql, parameters, progress=progress, on_text=on_text)
            return AsyncCursor(await self._statement_thread.run(run), self._statement_thread)

        return AwaitableContext(start())

    def query(
        self,
        sql: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        *,
        timeout: float | None = QUERY_TIMEOUT,
        max_rows: int | None = QUERY_ROWS,
    ) -> AwaitableContext[AsyncCursor]:
        """Run one reading statement within limits of time and rows; await the result to get the cursor.

        Cancelling the task stops the statement. The arguments are those of :meth:`kvstore.Store.query`.
        """

        async def start() -> AsyncCursor:
            """Run the statement in a thread; interrupt it if the task is cancelled."""
            queries = BoundedQueries()
            run = partial(queries.run, self._target, sql, parameters, timeout, max_rows)
            try:
                return AsyncCursor(await self._threads.run(run), self._threads)
            except asyncio.CancelledError:
                queries.interrupt()
                raise

        return AwaitableContext(start())

    async def explain(
        self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = (), *, analyze: bool = False
    ) -> list[Any]:
        """Return the execution steps of one statement; see :meth:`kvstore.Store.explain`."""
        return await self._statement_thread.run(self._target.explain, sql, parameters, analyze=analyze)

    def ingest_progress(
        self, paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], **options: Unpack[IngestOptions]
    ) -> AwaitableContext[AsyncIngestion]:
        """Ingest files, folders and globs as an async iterator over the progress.

        The arguments are those of :meth:`kvstore.Store.ingest_progress`.
        """

        async def start() -> AsyncIngestion:
            """Start the ingest in a thread."""
            run = partial(self._target.ingest_progress, paths, **options)
            return AsyncIngestion(await self._threads.run(run), self._threads)

        return AwaitableContext(start())

    async def ingest(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        progress: Callable[[IngestProgress], None] | None = None,
        **options: Unpack[IngestOptions],
    ) -> IngestReport:
        """Ingest files, folders and globs, and return the report; ``progress`` is called in the event loop.

        The arguments are those of :meth:`kvstore.Store.ingest`. If the task is cancelled, the ingest stops after its
        current step; everything committed is kept.
        """
        async with self.ingest_progress(paths, **options) as ingestion:
            async for step in ingestion:
                if progress is not None:
                    progress(step)
        return ingestion.report


def _roll_back(future: Future[Transaction]) -> None:
    """Roll back the transaction that ``future`` returns, unless it was cancelled or failed to begin one.

    Runs in the thread of the transaction, after the call that begins it.
    """
    if not future.cancelled() and future.exception() is None:
        future.result().rollback()
