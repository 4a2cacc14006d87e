"""The ingest pipeline: files are read, extracted, embedded and committed in batches. A *visit* is a file during the
ingest. An *item* of a file is a document, a fact about a stored document, a failure or a skipped part. The *location*
of a file is its absolute path or address.

In: paths and globs. On disk: only the commit of each batch, so that an interruption keeps whole documents and a second
run continues where the first stopped. Out: an :class:`IngestReport`. A bad file, row or document becomes one
:class:`Failure` with its reason, and the rest continues. Files of external extraction results contain no documents:
their facts are joined to documents of the store.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import ReaderError
from ..readers import READERS, RawFact, ReadOptions, SkippedPart, check_format, find_format
from ..settings import TIME_LIMIT
from ..structures.documents.ingested_files import CompletedFile, IngestedFile
from . import document_batch
from .document_batch import BatchedDocument, DocumentBatch
from .document_languages import DocumentLanguages
from .engines import PROCESSES, check_workers
from .file_documents import Failure, FileDocument, FileItem, compute_digest_for_source, is_moved, make_failure
from .file_visit import FileVisit, compute_reading_digest
from .ingest_interface import Destination, Ingestion, IngestProgress, IngestReport, list_ingest_patterns, list_paths
from .pruning import find_vanished_keys
from .source_reading import SourceReader
from .sources import Coverage, Source, find_sources
from .throughput import Pace
from .worker import Limits

#: The maximum number of files stored under two keys that a remark lists.
_MAX_DUPLICATES_SHOWN = 3


def create_ingestion(
    destination: Destination,
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    format: str | None = None,
    prune: bool = False,
    include: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    workers: int | None = None,
    engine: str = PROCESSES,
    time_limit: float = TIME_LIMIT,
    memory_limit: float | None = None,
) -> Ingestion:
    """Return an ingest that stores the documents of ``paths`` in ``destination`` while it is iterated.

    With ``prune`` it removes documents whose files vanished from the named folders and patterns, and documents that
    vanished from a read file, such as rows. ``include`` has patterns for the names of the files to take from folders;
    without one, files of known formats are taken. ``exclude`` has patterns for the names of files and folders to skip;
    their documents are not pruned.

    ``workers`` is the number of processes that read, extract and embed (0: this process; None: chosen by the size of
    the files, or the capacity of the engine). ``engine`` is where they run (:mod:`.engines`); the result is the same. A
    file fails if its worker is silent for ``time_limit`` seconds, or needs more than ``memory_limit`` megabytes (None:
    its share of half of the machine's memory). Raises InputError for an invalid argument. While it is iterated, the
    ingest raises InputError for an empty path, and EngineError if the engine is unavailable or stops answering.
    """
    path_list, (include_patterns, exclude_patterns) = list_paths(paths), list_ingest_patterns(include, exclude)
    ReadOptions.parse(options)
    if format is not None:
        check_format(format)
    limits = Limits(time_limit, memory_limit)
    check_workers(workers, engine, limits)
    reading_options = dict(options or {})
    reader = SourceReader(
        destination, format=format, options=reading_options, workers=workers, engine=engine, limits=limits
    )
    run = _IngestRun(
        destination, reader, format=format, include=include_patterns, exclude=exclude_patterns, options=reading_options
    )

    def run_steps() -> Generator[IngestProgress, None, None]:
        """Run the ingest and yield its progress; then report its end to the destination."""
        yield from run.iter_steps(path_list, prune)
        destination.finish(path_list, run.report)

    return Ingestion(run_steps(), run.report)


@dataclass(frozen=True, slots=True)
class _SeenDocument:
    """A document of this ingest; ``label`` names it in messages, and ``location`` is its file.

    ``digest`` is empty if the file was not read. ``is_stored`` is true if the store had the same document, possibly
    from another file.
    """

    label: str
    location: str
    digest: bytes
    is_stored: bool


class _IngestRun:
    """One run of an ingest: it processes the items of files in order, and commits the documents in batches. A document
    whose key an earlier document of the run has is renamed, skipped, rejected, or *deferred*: its file is read again at
    the end.
    """

    def __init__(
        self,
        destination: Destination,
        reader: SourceReader,
        format: str | None,
        include: Sequence[str],
        exclude: Sequence[str],
        options: Mapping[str, Any],
    ) -> None:
        """Prepare a run that writes the documents and facts that ``reader`` reads to ``destination``.

        ``include`` and ``exclude`` select files of folders. Files are read with ``format`` (None: the format that their
        names or contents show) and ``options``.
        """
        self._destination = destination
        self._reader = reader
        self._format = format
        self._include, self._exclude = include, exclude
        self._pace = Pace()
        self._num_files_done = 0
        self.report = IngestReport()
        self._start_time = time.monotonic()
        #: The documents for the next commit.
        self._batch = DocumentBatch()
        #: The number of chunks in the store, which limits the size of a batch; None if it must be read again.
        self._stored_chunks: int | None = None
        #: The completely read files, to be recorded in the next commit.
        self._files: list[CompletedFile] = []
        self._reading_digest = compute_reading_digest(format, options)
        #: The documents of this run, by key.
        self._seen_documents: dict[str, _SeenDocument] = {}
        #: The parts of folders that this run covers: stored documents whose files are missing there are removed.
        self._coverages: list[Coverage] = []
        #: Pairs of keys under which one file is stored twice, as text.
        self._duplicate_keys: list[str] = []
        self._languages = DocumentLanguages()
        #: The locations of files and folders that could not be read; their documents are not removed.
        self._unreadable_locations: set[str] = set()
        #: The folders given for unchanged documents, by key.
        self._unchanged_origins: dict[str, str | None] = {}
        #: The facts about documents for the next commit, by key, and the keys of documents with committed facts.
        self._facts: dict[str, list[RawFact]] = {}
        self._stored_fact_keys: set[str] = set()

    def iter_steps(self, paths: Sequence[str | Path], prune: bool) -> Generator[IngestProgress, None, None]:
        """Ingest the files of ``paths``, and yield the progress; with ``prune``, remove documents of vanished files.

        A KeyboardInterrupt is raised again after a last progress that counts every earlier commit.
        """
        sources = self._collect_sources(paths)
        try:
            yield from self._ingest_sources(sources, prune)
        except KeyboardInterrupt:
            yield self._build_progress(self._num_files_done, len(sources), "")
            raise

    def _ingest_sources(self, sources: Sequence[Source], prune: bool) -> Generator[IngestProgress, None, None]:
        """Process the items of all files in order, and yield the progress before each file and after each commit.

        At the end, commit the rest and, with ``prune``, remove documents of vanished files; then complete the report.
        """
        visits = [FileVisit(source, self._reading_digest) for source in sources]
        known_files = [self._find_known_file(visit) for visit in visits]  # None: the file must be read
        self.report.known = len(known_files) - known_files.count(None)
        changed_sources = [source for source, file in zip(sources, known_files, strict=True) if not file]
        self._pace.start(sum(visit.size for visit, file in zip(visits, known_files, strict=True) if file is None))
        with closing(self._reader.iter_items(changed_sources)) as items:
            for num_done, (visit, file) in enumerate(zip(visits, known_files, strict=True)):
                self._num_files_done = num_done
                yield self._build_progress(num_done, len(sources), visit.source.key)
                if file is None:
                    for _ in self._process_changed_file(visit, items):  # after each commit
                        yield self._build_progress(num_done, len(sources), visit.source.key)
                    continue
                for key in file.documents:  # unchanged, so their content and digest are not needed
                    unread_document = FileDocument(key, label=visit.source.path, digest=b"", extracted=None)
                    self._process_item(unread_document, visit)
            # Release the workers' resources while the last batch is written.
            next(items, None)
            if any(visit.deferred_keys for visit in visits):
                yield from self._reread_files([visit for visit in visits if visit.deferred_keys], len(sources))
            # Commit the last batch together with the pruned documents, so that a renamed file is never missing.
            self._write_batch(self._collect_vanished_keys(visits) if prune else ())
        self._store_facts()
        self._destination.update_origins(self._unchanged_origins)
        self._report_duplicates()
        self._report_unused_plugins(sources)
        self.report.remarks += self._languages.iter_remarks(self._destination.settings, self._reader.chosen_settings)
        self.report.seconds = time.monotonic() - self._start_time
        yield self._build_progress(len(sources), len(sources), "")

    def _process_changed_file(self, visit: FileVisit, items: Iterator[FileItem | None]) -> Iterator[None]:
        """Process the items of the file ``visit``, up to the None that ends them; yield after each commit.

        The caller can then report the progress. A completely read file is recorded in the next commit.
        """
        has_documents = False
        while (item := next(items)) is not None:
            chunks_before = self.report.chunks
            self._process_item(item, visit)
            has_documents |= isinstance(item, FileDocument)
            if isinstance(item, FileDocument) and item.extracted is not None:
                self._pace.add_partial(len(item.extracted.text), visit.size)
            if self.report.chunks > chunks_before:
                yield
        if visit.failed and not has_documents:  # a mailbox with an invalid message is read to its end
            self._pace.abandon_file(visit.size)
        else:
            self._pace.end_file(visit.size)
        completed_file = visit.build_completed_file()
        if completed_file is not None:
            self._files.append(completed_file)

    def _reread_files(self, visits: Sequence[FileVisit], num_files: int) -> Generator[IngestProgress, None, None]:
        """Read files again for their deferred documents, whose keys an earlier file took; yield the progress.

        ``num_files`` is the number of all files.
        """
        self._write_batch()  # the readers then no longer recognize the documents as stored
        with closing(self._reader.iter_items([visit.source for visit in visits])) as items:
            for visit in visits:
                while (item := next(items)) is not None:  # None follows the last item of each file
                    if isinstance(item, Failure) or self._is_deferred(item, visit):
                        self._process_item(item, visit)
                yield self._build_progress(self._num_files_done, num_files, visit.source.key)
            next(items, None)  # lets the reader finish
        self.report.failures = list(dict.fromkeys(self.report.failures))  # some are reported by both readings

    def _is_deferred(self, item: FileItem, visit: FileVisit) -> bool:
        """True if an item of the reread file ``visit`` is a document that was deferred and is not yet in the batch."""
        return (
            isinstance(item, FileDocument)
            and item.key in visit.deferred_keys
            and item.extracted is not None
            and item.other_key not in self._seen_documents
        )

    def _collect_sources(self, paths: Sequence[str | Path]) -> list[Source]:
        """Return the files of all paths, each once.

        Also add skipped files and failures to the report, and record which folders this ingest covers, and which files
        and folders could not be read.
        """
        sources_by_location: dict[tuple[str, str], Source] = {}
        for path in paths:
            try:
                path_sources = find_sources([path], self._format, self._include, self._exclude)
            except ReaderError as error:
                self.report.failures.append(make_failure(str(path), error))
                continue
            # A file that several paths refer to is read once, unless they give it several keys.
            sources_by_location |= {(source.key, source.location): source for source in path_sources.files}
            self.report.skipped_by += path_sources.skipped
            self.report.failures += [Failure(failure.place, failure.reason) for failure in path_sources.failures]
            self._coverages += path_sources.coverages
            self._unreadable_locations.update(path_sources.unreadable_locations)
        self.report.skipped = self.report.skipped_by.total()
        if self._include and self.report.skipped and not sources_by_location:
            patterns = ", ".join(map(repr, self._include))
            self.report.remarks.append(
                f"no file matches the include patterns ({patterns}); to match names by their suffix, write '*.md'"
            )
        return list(sources_by_location.values())

    def _find_known_file(self, visit: FileVisit) -> IngestedFile | None:
        """Return the record of a file that is unchanged since an earlier ingest, or None if it must be read."""
        with self._destination.open_state() as state:
            file = state.ingested_files.get(visit.location)
        return file if visit.matches_record(file) else None

    def _process_item(self, item: FileItem, visit: FileVisit) -> None:
        """Add a document of the file ``visit`` to the batch, a fact to the facts, and any other item to the report.

        A failure also marks the file as failed: its documents are kept, and the next ingest reads it again.
        """
        if isinstance(item, RawFact):  # such as triples of a stored document, which can have several lines in a file
            self._facts.setdefault(item.key, []).append(item)
            if len(self._facts) > document_batch.BATCH_DOCUMENTS:
                self._store_facts()
        elif isinstance(item, FileDocument):
            self._process_document(item, visit)
        elif isinstance(item, SkippedPart):
            self._record_skipped(item.reason)
            if item.detail:
                self.report.remarks.append(f"{item.place}: {item.detail}")
        else:
            self.report.failures.append(item)
            self._unreadable_locations.add(visit.location)
            visit.failed = True

    def _record_skipped(self, reason: str) -> None:
        """Record in the report that a file, or a part of a file, was skipped for this reason."""
        self.report.skipped_by[reason] += 1
        self.report.skipped += 1

    def _process_document(self, file_document: FileDocument, visit: FileVisit) -> None:
        """Add a document of the file ``visit`` to the batch unless the store has it; commit the batch if it is full.

        If an earlier document of this ingest has its key, :meth:`_resolve_duplicate_key` renames the document, or
        skips, defers or rejects it.
        """
        earlier_document = self._seen_documents.get(file_document.key)
        if earlier_document is not None:
            renamed_document = self._resolve_duplicate_key(file_document, earlier_document, visit)
            if renamed_document is None:
                return
            file_document = renamed_document
        visit.add_document(file_document.key, file_document.digest)
        with self._destination.open_state() as state:
            record = state.documents.find_by_key(file_document.key)
        extracted = file_document.extracted  # None: the store has the same document
        is_unchanged = extracted is None or (record is not None and record.digest == file_document.digest)
        # A document can equal the stored one under another digest only if it comes from another file.
        is_stored = is_unchanged or is_moved(extracted, record)
        self._seen_documents[file_document.key] = _SeenDocument(
            file_document.label, visit.location, file_document.digest, is_stored
        )
        if file_document.left_out:
            self.report.left_out[file_document.key] = sum(part.characters for part in file_document.left_out)
        if extracted is None or is_unchanged:
            self.report.unchanged += 1
            self._unchanged_origins[file_document.key] = visit.root
        else:
            self._languages.add(extracted)
            # A file that was named directly still belongs to the folder in which an earlier ingest found it.
            known_root = record.origin if record is not None and record.source == visit.location else None
            document = BatchedDocument(extracted, file_document.vectors, origin=visit.root or known_root)
            self._add_to_batch(document, visit, is_new=record is None)

    def _add_to_batch(self, document: BatchedDocument, visit: FileVisit, *, is_new: bool) -> None:
        """Add a new or changed document of the file ``visit`` to the batch, and commit the batch if it is full.

        ``is_new`` is true if the store has no document with its key.
        """
        if is_new:
            self.report.added += 1
            self._record_duplicate_key(document.extracted.key, visit)
        else:
            self.report.changed += 1
        self._batch.add(document)
        if self._is_batch_full():
            self._write_batch()

    def _resolve_duplicate_key(
        self, file_document: FileDocument, earlier_document: _SeenDocument, visit: FileVisit
    ) -> FileDocument | None:
        """Return a document of the file ``visit`` under its ``other_key``, because ``earlier_document`` has its key.

        Returns None if the document cannot be stored now:

        - It is the same as the earlier document. It is counted as skipped.
        - Its content was not read, because the store had it. It is deferred: the file is read again at the end.
        - Its other key is missing, or used too. It is a failure, and the next ingest reads the file again.
        """
        # The outcome for this document depends on that file, which may change or vanish.
        visit.is_independent = visit.is_independent and earlier_document.location == visit.location
        if self._is_duplicate(file_document, earlier_document):
            self._record_skipped("the same document again")
            return None
        if file_document.extracted is None:
            visit.deferred_keys.add(file_document.key)
            return None
        other_key = file_document.other_key
        if other_key is None or other_key in self._seen_documents:
            reason = (
                f"the key {file_document.key!r} was already used in this ingest, by {earlier_document.label}; "
                "give each document its own key"
            )
            self.report.failures.append(Failure(file_document.label, reason))
            visit.failed = True
            return None
        return replace(file_document, key=other_key, extracted=replace(file_document.extracted, key=other_key))

    def _is_duplicate(self, file_document: FileDocument, earlier_document: _SeenDocument) -> bool:
        """True if a document differs from ``earlier_document``, which has the same key, only in its file."""
        if file_document.extracted is None:  # it equals the stored document
            return earlier_document.is_stored
        # The digest of a document whose file was not read in this run is empty.
        earlier_digest = earlier_document.digest or self._reader.get_stored_digest(file_document.key)
        return compute_digest_for_source(file_document.extracted, earlier_document.location) == earlier_digest

    def _is_batch_full(self) -> bool:
        """True if the batch of documents is large enough to commit. The limits grow with the store."""
        if self._stored_chunks is None:
            with self._destination.open_state() as state:
                self._stored_chunks = state.counters.chunks
        dimension = self._destination.settings.dimension
        return self._batch.is_full(self._stored_chunks, dimension, self._pace.estimate_seconds_left())

    def _record_duplicate_key(self, key: str, visit: FileVisit) -> None:
        """Record the file of a visit if it is also stored under another key, which an ingest of another folder gave it.

        ``key`` is the key of a new document of the file.
        """
        if not key.startswith(visit.source.key):
            return
        key_suffix = key.removeprefix(visit.source.key)  # names one of several documents of the file
        names = visit.location.strip("/").split("/")
        with self._destination.open_state() as state:
            for start in range(len(names)):  # a key is the path of a file relative to one of its parent folders
                other_key = "/".join(names[start:]) + key_suffix
                record = None if other_key == key else state.documents.find_by_key(other_key)
                if record is not None and record.source == visit.location:
                    self._duplicate_keys.append(f"{key!r} and {other_key!r}")

    def _report_duplicates(self) -> None:
        """Add a remark on files that are stored under two keys."""
        if self._duplicate_keys:
            keys_text = ", ".join(self._duplicate_keys[:_MAX_DUPLICATES_SHOWN])
            num_more = len(self._duplicate_keys) - _MAX_DUPLICATES_SHOWN
            keys_text += f", and {num_more:,} more" if num_more > 0 else ""
            self.report.remarks.append(
                f"the same file is now stored under two keys: {keys_text}; delete one of them, and always "
                "ingest the same folder"
            )

    def _report_unused_plugins(self, sources: Sequence[Source]) -> None:
        """Add a remark on each broken reader plug-in if it might have read a file of this ingest.

        It might have read files that were skipped because of their suffix, and files whose name shows no format.
        """
        has_skipped_suffix = any(reason.startswith("suffix ") for reason in self.report.skipped_by)
        has_unknown_name = self._format is None and any(find_format(source.key) is None for source in sources)
        if has_skipped_suffix or has_unknown_name:
            broken = (plugin for plugin in READERS.list_plugins() if plugin.problem is not None)
            self.report.remarks += [f"{plugin} was not used: {plugin.problem}" for plugin in broken]

    def _store_facts(self) -> None:
        """Commit the collected facts about stored documents, such as their triples; count the changed documents."""
        if self._facts:
            outcomes, failures = self._destination.store_facts(self._facts, self._stored_fact_keys)
            self.report.failures += failures
            # A document counts once, although several commits can add facts to it.
            new_outcomes = [changed for key, changed in outcomes.items() if key not in self._stored_fact_keys]
            num_changed = sum(new_outcomes)
            self.report.changed += num_changed
            self.report.unchanged += len(new_outcomes) - num_changed
            self.report.documents += num_changed
            self._stored_fact_keys |= outcomes.keys()
            self._facts = {}

    def _write_batch(self, deleted_keys: Sequence[str] = ()) -> None:
        """Commit the batch, the records of its files and the deletion of documents (keys); begin another batch."""
        if self._batch.documents or deleted_keys or self._files:
            self._destination.write(self._batch.documents, deleted_keys, self._files)
            self.report.documents += len(self._batch.documents)
            self.report.chunks += self._batch.num_chunks
            self._batch, self._files = DocumentBatch(), []
            self._stored_chunks = None  # read again before the next batch

    def _collect_vanished_keys(self, visits: Sequence[FileVisit]) -> list[str]:
        """Return the keys of the stored documents that this ingest covers and did not find; count them as removed."""
        locations = {visit.location for visit in visits if visit.root is None and visit.may_lose_documents}
        with self._destination.open_state() as state:
            vanished_keys = find_vanished_keys(
                state, self._coverages, locations, self._seen_documents, self._unreadable_locations
            )
        self.report.removed += len(vanished_keys)
        return vanished_keys

    def _build_progress(self, num_files_done: int, num_files: int, current_key: str) -> IngestProgress:
        """Return the progress after ``num_files_done`` of ``num_files`` files.

        ``current_key`` is the key of the next file.
        """
        elapsed_seconds = max(time.monotonic() - self._start_time, 1e-9)
        report, pace = self.report, self._pace
        # If more text was read than the file sizes predicted, the time left is unknown: the rows of a table, say,
        # become texts with their column names.
        is_rest_unknown = num_files_done < num_files and pace.bytes_done >= pace.total_bytes
        return IngestProgress(
            done=num_files_done,
            total=num_files,
            chunks=report.chunks,
            chunks_per_second=report.chunks / elapsed_seconds,
            seconds_left=None if is_rest_unknown else pace.estimate_seconds_left(),
            current=current_key,
            known=report.known,
            bytes_done=pace.bytes_done,
            bytes=pace.total_bytes,
            documents=report.documents,
        )
