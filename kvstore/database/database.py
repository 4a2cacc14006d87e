"""The Database class: every operation on an open store except statements of its language.
A *pending* document is one to be stored. The *session* has the settings of the user and the data of the open store.

In: a handle of an open store. Out: changes, each in a separate transaction; ingest, import and export; checks,
repair, backups and compaction; indexes and counts. Models are loaded when first needed, and never while the writer's
lock is held.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from ..arguments import check_clauses, check_integer, check_options
from ..errors import InputError
from ..process.logger import get_logger
from ..settings import TIME_LIMIT
from ..storage.environment import CompactReport
from .handle import Handle, copy_signature, make_one_shot

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..changes.facts import ExportReport, ImportReport
    from ..changes.pending import PendingDocument
    from ..changes.repair import RepairReport
    from ..ingest.forecast import Forecast
    from ..ingest.ingest_interface import Ingestion, IngestOptions, IngestProgress, IngestReport
    from ..structures.indexes.generation_building import WritingForecast
    from ..structures.indexes.index_building import IndexProgress
    from ..structures.spending import Spending
    from .index_worker import RefreshedKinds
    from .model_extraction import ExtractionForecast, ExtractionProgress, ExtractionReport


class Database(Handle):
    """An open store; :class:`kvstore.Store` adds the language."""

    # Changes, each in a separate transaction

    @copy_signature(lambda transaction: transaction.put)
    def put(
        self, key: str, text: str, *, vectors: npt.ArrayLike | None = None, origin: str | None = None, **properties: Any
    ) -> bool:
        """Store a document, and return True if that changes anything; embeds it before taking the writer's lock."""
        from ..changes.pending import make_pending_change
        from ..extraction.validation import validate

        self._require_writable()
        valid_document = validate(key, text, **properties)  # the other arguments of Transaction.put, such as title
        with self.state() as state:
            document = make_pending_change(state, valid_document, vectors, origin)
        return document is not None and self._put_pending([document])[0]

    @copy_signature(lambda transaction: transaction.put_many)
    def put_many(self, documents: Iterable[Mapping[str, Any]], *, replace: bool = True) -> list[bool]:
        """Store documents, mappings of the arguments of ``put``; return for each True if that changes anything.

        Without ``replace``, documents whose keys are stored are skipped.
        """
        from .checked_documents import chunk_changed_documents, validate_documents
        from .transaction import Transaction

        self._require_writable()
        checked_documents = validate_documents(documents, Transaction.put)
        with self.state() as state:
            pending_documents = chunk_changed_documents(state, checked_documents, replace=replace)
        change_flags = self._put_pending(list(pending_documents.values()), replace=replace)
        flags_by_index = dict(zip(pending_documents, change_flags, strict=True))
        return [flags_by_index.get(index, False) for index in range(len(checked_documents))]

    def _put_pending(self, documents: Sequence[PendingDocument], *, replace: bool = True) -> list[bool]:
        """Store documents in one transaction, and return for each True if it changes anything.

        Documents that are cut into chunks are first embedded, with all data derived from them; for the others, only
        the metadata changes. Without ``replace``, a document whose key is already stored is skipped.
        """
        from ..changes.document_completion import derive_documents, embed_documents

        if not documents:
            return []
        derived_documents = derive_documents([document for document in documents if document.is_chunked], self.settings)
        embed = self._session.store.embedder.embed
        embedded_documents = iter(embed_documents(derived_documents, self.settings, self.state, embed))
        documents = [next(embedded_documents) if document.is_chunked else document for document in documents]
        with self.transaction(models=False) as transaction:
            return [transaction._put(document, replace=replace) for document in documents]

    update = make_one_shot(lambda transaction: transaction.update, models_for=("text", "title"))
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

    def ingest(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        format: str | None = None,
        prune: bool = False,
        include: str | Sequence[str] = (),
        exclude: str | Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        progress: Callable[[IngestProgress], None] | None = None,
        workers: int | None = None,
        engine: str = "processes",
        time_limit: float = TIME_LIMIT,
        memory_limit: float | None = None,
    ) -> IngestReport:
        """Ingest files, folders and globs, with one commit per batch.

        Unreadable files are reported and raise no error. ``prune`` removes documents whose files, or whose rows in a
        file, no longer exist in ``paths``. ``include`` lists patterns such as ``*.adoc``: in folders, files with
        matching names are read whatever their suffix is. ``exclude`` lists patterns of files and folders to skip, such
        as ``drafts``, without removing their documents. ``options`` are those of WITH, such as ``encoding``.

        ``workers`` is the number of processes that read, extract and embed (0: this process; None: as many as the files
        justify). They run on this machine or on a Ray ``engine`` (``ray://local``, ``ray://HOST:PORT``). A file is
        reported as unreadable if its worker makes no progress for ``time_limit`` seconds, needs more than
        ``memory_limit`` megabytes (None: its share of half the machine's memory), or crashes. If this ingest wrote most
        of the store's file and no other process has it open, the file is compacted at the end.

        >>> folder = tempfile.mkdtemp()
        >>> _ = open(folder + "/milk.md", "w").write("# Milk\\n\\nMilk goes into tea.")
        >>> report = store.ingest(folder)
        >>> report.added, report.failures, store.keys("milk")
        (1, [], ['milk.md'])
        """
        ingest_options: IngestOptions = {
            "format": format,
            "prune": prune,
            "include": include,
            "exclude": exclude,
            "options": options,
            "workers": workers,
            "engine": engine,
            "time_limit": time_limit,
            "memory_limit": memory_limit,
        }
        with self.ingest_progress(paths, **ingest_options) as ingestion:
            for step in ingestion:
                if progress is not None:
                    progress(step)
        return ingestion.report

    def ingest_progress(
        self, paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], **options: Unpack[IngestOptions]
    ) -> Ingestion:
        """Ingest files, folders and globs, as an iterator that yields the progress after each step.

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
        self._require_writable("open it for writing to ingest", finalizes_settings=False)
        check_options("options", options.get("options"))
        return create_ingestion(IngestDestination(self), paths, **options)

    def forecast_ingest(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        format: str | None = None,
        include: str | Sequence[str] = (),
        exclude: str | Sequence[str] = (),
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
        return build_forecast(IngestDestination(self), paths, format, options or {}, include, exclude)

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
        """Have a model write texts about passages of documents, such as ``units`` (statements), and store them.

        ``share`` (a fraction of all tokens to send) or ``within`` (a number of tokens) limits what is sent. ``by`` then
        names the method that selects the passages: ``confusability`` (default), ``bleu``, ``pagerank`` or ``random``.
        ``where`` selects documents. Each answer is committed on arrival and never requested again, so an interrupted
        extraction continues with the next call. Raises InputError if no model is named or a limit is out of range, and
        ModelError if the model cannot be called.

        >>> store.extract("units", model="none")
        Traceback (most recent call last):
        kvstore.errors.InputError: EXTRACT needs a language model; specify one with MODEL (model=), or SET model
        """
        from .model_extraction import ModelExtraction

        self._require_writable("open it for writing to extract")
        language_model = self._session.get_language_model(model)
        if language_model is None:
            raise InputError("EXTRACT needs a language model; specify one with MODEL (model=), or SET model")
        extraction = ModelExtraction(self, kind, where=where, parameters=parameters, share=share, within=within, by=by)
        try:
            return extraction.run(language_model, progress)
        finally:
            self._record_spending("EXTRACT", language_model)

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
        (2, 1)
        """
        from .model_extraction import ModelExtraction

        extraction = ModelExtraction(self, kind, where=where, parameters=parameters, share=share, within=within, by=by)
        return extraction.forecast()

    def import_(self, path: str | os.PathLike[str]) -> ImportReport:
        """Import a file written by :meth:`export`, with one commit per batch; items with the same key are replaced.

        Returns the numbers of changed and unchanged items. Compacts the store's data file if it has grown much. Raises
        InputError, which names the line.

        >>> path = tempfile.mkdtemp() + "/all.jsonl"
        >>> _ = store.export(path)
        >>> _ = store.delete("tea")
        >>> store.import_(path)
        ImportReport(documents=1, triples=0, edges=0, aliases=0, unchanged=2)
        """
        from .exchange import import_file

        self._require_writable("open it for writing to import")
        report = import_file(self, path)
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
            return [*self._session.environment.describe_page_faults(), *check_state(state)]

    def repair(self) -> RepairReport:
        """Check the store and, if an invariant is violated, rebuild all derived data from the documents.

        Damaged documents, triples, edges, aliases and index options are lost, and the report lists them. The repair is
        one commit. The file then holds both old and new data; it is compacted if it is not large and no other process
        has it open. If pages of the file are damaged, a new file replaces it; this raises TransactionError if another
        process has the store open. Also raises LockTimeoutError, ReadOnlyError, StoreFullError, and, if vectors are
        damaged, the embedder's errors.

        >>> store.repair().found
        []
        """
        from ..changes.compaction import compact_if_sparse
        from ..changes.repair import RepairReport, rebuild_store

        problems = self.check()
        if not problems:
            return RepairReport([])
        self._session.store.load_models()
        rebuilt = rebuild_store(self._session.environment, self.settings, self._session.store.embedder.embed)
        self._session.store.open_indexes.clear_caches()
        compact_if_sparse(self._session.environment)
        outcome = f"rebuilt from {rebuilt.documents} documents, {len(rebuilt.lost)} things lost"
        get_logger().warning("%s: %d problems were found; %s", self.path, len(problems), outcome)
        return RepairReport(problems, rebuilt, self.check())

    def backup(self, path: str | os.PathLike[str], *, compact: bool = True) -> None:
        """Copy the current state of the store into a new directory; others can read and write during the copy.

        ``compact`` omits free pages. Without it, the copy takes the writer's lock, so others can only read. Raises
        InputError if ``path`` exists, StoreFullError if it cannot be written.

        >>> store.backup(tempfile.mkdtemp() + "/copy")
        """
        self._session.environment.copy_to(path, compact=compact)

    def export(self, path: str | os.PathLike[str]) -> ExportReport:
        """Write all documents, triples, edges and aliases of one state as JSON lines; return the number of each.

        Raises InputError if ``path`` exists or has a suffix other than ``.jsonl`` or ``.ndjson``, StoreFullError if it
        cannot be written.

        >>> store.export(tempfile.mkdtemp() + "/all.jsonl")
        ExportReport(documents=2, triples=0, edges=1, aliases=0)
        """
        from .exchange import export

        with self.state() as state:
            return export(state, path)

    def export_table(self, path: str | os.PathLike[str], table: str = "chunks") -> int:
        """Write a table that SELECT can read to a new ``.parquet`` or ``.arrow`` file; return the number of rows.

        The rows are from one state of the store. The file of ``chunks`` also contains the vectors, in a ``vector``
        column of fixed-size lists, so embedding viewers can open it. See :mod:`kvstore.database.table_export`. Raises
        InputError for an unknown table or suffix or if ``path`` exists, MissingExtraError without the ``arrow`` extra,
        StoreFullError if the file cannot be written.

        >>> store.export_table("chunks.csv")
        Traceback (most recent call last):
        kvstore.errors.InputError: chunks.csv: unsupported file type; choose a name that ends in .parquet or .arrow
        """
        from ..registry.table_reader import TableReader
        from .table_export import export_table

        with self.state() as state:
            return export_table(TableReader(state, self.settings_table), table, path)

    def compact(self) -> CompactReport:
        """Return the space of deleted data to the file system; the report has the file size before and after.

        Needs room for a second file, and blocks readers and writers of this process while it runs. Raises
        TransactionError if another process has the store open, or if snapshots or transactions of this process stay
        open; also StoreFullError, ReadOnlyError and LockTimeoutError. The store is unchanged after an error.

        >>> report = store.compact()
        >>> report.bytes_after == (store.path / "data.mdb").stat().st_size
        True
        """
        from ..changes.compaction import compact_store

        return compact_store(self._session.environment, self.settings.dimension, self._session.lock_timeout)

    def flush(self, timeout: float | None = None) -> None:
        """Add the lookups counted since the last commit to the temperatures of entities, and record use of models.

        Waits at most ``timeout`` seconds for another writer (default: the handle's ``lock_timeout``). A read-only
        handle does nothing.

        >>> _ = store.lookup("India")
        >>> store.flush()
        >>> store.lookup("India")[0].temperature
        1
        """
        if not self.readonly:
            self._session.environment.require_open()
            self._session.store.flush(self._session.lock_timeout if timeout is None else float(timeout))

    # Indexes

    def create_index(
        self,
        kind: str,
        options: Mapping[str, Any] | None = None,
        *,
        progress: Callable[[IndexProgress], None] | None = None,
    ) -> None:
        """Create an index of a kind, such as ``synonyms``, and build it.

        If interrupted, the index exists but is not complete, and :meth:`refresh` continues. Raises InputError for an
        unknown kind or option or if the index exists, IndexUnavailableError if it cannot be built, EmbedderError and
        ReadOnlyError.

        >>> store.create_index("synonyms", {"similarity": 0.7})
        >>> [index.state for index in store.indexes() if index.kind == "synonyms"]
        ['ready']
        """
        self._session.store.index_manager.create(kind, options or {}, progress)

    def drop_index(self, kind: str) -> None:
        """Remove an index and its contents; raises InputError if it does not exist. If interrupted, call it again.

        >>> store.create_index("vectors", {"exact_below": 50_000})
        >>> store.drop_index("vectors")
        """
        self._session.store.index_manager.drop(kind)

    def refresh(
        self,
        kind: str | None = None,
        *,
        model: str | None = None,
        within: int | None = None,
        progress: Callable[[IndexProgress], None] | None = None,
    ) -> RefreshedKinds:
        """Bring one index, or all, up to date with the last commit; returns the kinds that changed, as a list.

        With ``model`` or ``within``, a language model (the one named, else the session's, else the environment's)
        writes the texts of new and changed groups, the largest groups first. At most ``within`` tokens are sent; the
        next call continues. The ``written`` attribute of the list has a :class:`~kvstore.WritingReport` per kind: what
        was written, what it cost, and what failed. Raises InputError if the index does not exist or no model is named,
        and IndexUnavailableError if the index cannot be built or another process is building it. Also raises
        LockTimeoutError, EmbedderError, ReadOnlyError, and ModelError, which keeps everything written before it.

        >>> store.create_index("synonyms")
        >>> store.put("milk", "Robert Fortune drank it with milk.")
        True
        >>> store.refresh()
        ['synonyms']
        """
        self._require_writable("open it without readonly to refresh its indexes")
        if model is None and within is None:
            return self._session.store.index_manager.refresh(kind, progress)
        if within is not None:
            check_integer("within", within, 1)
        from ..models.structured import StructuredModel

        language_model = self._session.get_language_model(model)
        if language_model is None:
            raise InputError("no language model is set; specify MODEL 'name', or SET model = 'name'")
        try:
            return self._session.store.index_manager.refresh(kind, progress, StructuredModel(language_model, within))
        finally:
            self._record_spending("REFRESH", language_model)

    def forecast_refresh(self, kind: str | None = None) -> dict[str, WritingForecast]:
        """Forecast the texts that :meth:`refresh` would have a model write, by kind of index.

        Changes nothing and calls no model. Raises InputError if the index does not exist.

        >>> store.create_index("topics")
        >>> store.forecast_refresh("topics")["topics"].calls
        1
        """
        return self._session.store.index_manager.forecast(kind)

    # Counts

    def spent(self) -> list[Spending]:
        """Return the requests and tokens spent on language models since the store was created, by statement and model.

        >>> store.spent()
        []
        """
        from ..structures.spending import read_spending, sum_spending

        with self._session.environment.snapshot() as snapshot:
            return sum_spending([*read_spending(snapshot), *self._session.store.spending])

    def statistics(self) -> dict[str, int | float | str]:
        """Return counts and sizes of everything in the store, like SHOW STATS.

        >>> store.statistics()["documents"]
        2
        """
        from ..changes.statistics import collect_statistics

        with self.state() as state:
            file_statistics = self._session.environment.statistics()
            return collect_statistics(state, file_statistics) | self._session.store.index_manager.measure_sizes()
