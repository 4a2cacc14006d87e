"""The ingest pipeline: files are read, extracted, embedded and committed in batches.

In: paths and globs. On disk: only the commit of each batch, so that an interruption keeps whole documents and a second
run continues where the first stopped. Out: an :class:`IngestReport`. A bad file, row or document becomes one
:class:`Failure` with its reason, and the rest continues. Files of external extraction results contain no documents:
their facts are joined to documents of the store.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol, Self, TypedDict

from ..errors import InputError, ReaderError
from ..extraction.extraction import ExtractedDocument
from ..extraction.validation import ValidDocument, compute_digest
from ..models.language import RULES
from ..readers import READERS, RawFact, ReadOptions, SkippedPart, check_format, find_format, get_trusted_size
from ..settings import TIME_LIMIT, FixedSettings
from ..structures.documents.documents import DocumentRecord
from ..structures.documents.ingested_files import IngestedFile
from ..structures.state import State
from ..structures.vectors.vectors import Matrix
from .document_languages import FIRST_DOCUMENTS, DocumentLanguages
from .engines import PROCESSES, check_engine, start_engine
from .file_documents import (
    Failure,
    FileDocument,
    FileItem,
    NewDocument,
    ReadItem,
    extract_portion,
    make_failure,
    read_documents,
    split_portions,
)
from .file_visit import FileVisit, compute_reading_digest
from .sources import Coverage, Source, find_sources, format_skipped
from .throughput import Pace
from .worker import Job, Limits

#: The number of chunks or documents at which a batch is committed. In a large store the limit is this share of the
#: store's chunks, up to a maximum. A commit writes every page that it changes, and the changes of a few hundred chunks
#: touch half of the pages; a batch eight times as large writes only twice as much.
BATCH_CHUNKS = 512
BATCH_DOCUMENTS = 512
STORE_SHARE = 16
MOST_TOGETHER = 4096
#: Batches that workers have already embedded wait this many seconds for more, up to the maximum. New names are then
#: searched in older texts only a few times instead of at every few hundred chunks. An interruption loses no more than
#: these seconds.
QUICK_SECONDS = 5.0
#: A batch is committed before it uses more memory than this. An extracted chunk and a byte of text were measured to use
#: no more than the amounts below, without the vectors.
BATCH_BYTES = 1 << 26
BYTES_PER_EXTRACTED_CHUNK, BYTES_PER_EXTRACTED_CHARACTER = 4096, 40

#: The maximum number of doubly stored files that a remark names.
_MAX_DUPLICATES_SHOWN = 3

#: By default an ingest starts workers only for this many bytes of files; for less, starting them costs more than it
#: saves. A worker always reads a file that is larger than its reader is trusted with.
MIN_BYTES_FOR_WORKERS = 1 << 20
#: The maximum number of failures that are listed; there may be one for every row of a file.
_MAX_PROBLEMS_SHOWN = 100
#: The maximum number of workers: each holds models. The default is the number of processors minus the writer's.
MAX_WORKERS = 4


@dataclass(slots=True)
class IngestReport:
    """The outcome of an ingest. ``documents`` and ``chunks`` count those written; ``seconds`` is wall time.

    ``skipped_by`` counts the skipped files by reason (``suffix .png``, ``no suffix``, ``links to folders``, ...), and
    ``skipped`` is their sum. ``remarks`` are sentences about possibly unintended effects. Documents to which a file
    adds facts count as changed if that changes anything, else as unchanged. ``left_out`` maps each page that was read
    to the number of characters omitted as navigation, if any. ``problems`` formats the ``failures``; beyond the first
    hundred it gives only their number.
    """

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    skipped: int = 0
    known: int = 0
    failures: list[Failure] = field(default_factory=list)
    documents: int = 0
    chunks: int = 0
    seconds: float = 0.0
    left_out: dict[str, int] = field(default_factory=dict)
    skipped_by: Counter[str] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)

    @property
    def skips(self) -> str:
        """``skipped_by`` as text, such as ``2 .png, 1 no suffix``."""
        return format_skipped(self.skipped_by)

    @property
    def problems(self) -> list[str]:
        """The failures, one line each, with place and reason."""
        lines = [f"{failure.place}: {failure.reason}" for failure in self.failures[:_MAX_PROBLEMS_SHOWN]]
        num_more = len(self.failures) - len(lines)
        return [*lines, f"... and {num_more:,} more that could not be read"] if num_more else lines


@dataclass(frozen=True, slots=True)
class IngestProgress:
    """The progress of an ingest: files done and total (``known``: done by earlier ingests), chunks written, and the
    current file.

    ``bytes_done`` of ``bytes`` of the files to read are done; for the current file this is an estimate from its texts.
    ``seconds_left`` is computed from them at the recent speed, None while that is unknown. ``documents`` and ``chunks``
    are committed.
    """

    done: int
    total: int
    chunks: int
    chunks_per_second: float
    seconds_left: float | None
    current: str
    known: int = 0
    bytes_done: int = 0
    bytes: int = 0
    documents: int = 0


class Destination(Protocol):
    """The destination of documents: the store, as seen by the pipeline."""

    @property
    def settings(self) -> FixedSettings:
        """The creation-time settings of the store."""
        ...

    @property
    def texts_per_request(self) -> int:
        """The number of texts that the embedder sends to an endpoint per request; 0 if it needs no endpoint."""
        ...

    def decide_settings(self, choose: Callable[[], Mapping[str, str]]) -> dict[str, str]:
        """Give a new store the settings that ``choose`` returns, unless they are fixed; return the changed ones."""
        ...

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return the vectors of texts, shape (n, dimension)."""
        ...

    def open_state(self) -> AbstractContextManager[State]:
        """Return a context manager of the current state."""
        ...

    def settle_origins(self, origins: Mapping[str, str | None]) -> None:
        """Record the folder in which each unchanged document was last found."""
        ...

    def make_job(self, format: str | None, options: Mapping[str, Any], *, embed: bool) -> Job:
        """Return the job for workers. With ``embed`` they also compute the vectors, if possible."""
        ...

    def write(
        self,
        batch: Sequence[tuple[FileDocument, str | None]],
        deleted: Sequence[str] = (),
        files: Sequence[tuple[IngestedFile, list[bytes]]] = (),
    ) -> None:
        """Commit extracted documents, each with its origin folder, and embed those without vectors.

        The same commit deletes other documents and records files as ingested, each with the digests of its documents.
        """
        ...

    def store_facts(
        self, facts: Mapping[str, Sequence[RawFact]], added_keys: Set[str]
    ) -> tuple[dict[str, bool], list[Failure]]:
        """Commit the facts about documents; they replace earlier facts or (``added_keys``) are added to them.

        Returns for each key whether anything changed, and the facts that could not be committed.
        """
        ...


class IngestOptions(TypedDict, total=False):
    """The options of an ingest besides its paths and the patterns of files to include: see :func:`create_ingestion`."""

    format: str | None
    prune: bool
    options: Mapping[str, Any] | None
    workers: int | None
    engine: str
    time_limit: float
    memory_limit: float | None


class Ingestion(Iterator[IngestProgress]):
    """An ingest that runs while it is iterated, in the iterating thread; each step reports the progress.

    ``report`` is the outcome so far. If the caller stops early, closes it or leaves its context, the committed part is
    kept, and the same ingest continues from there.
    """

    def __init__(self, steps: Generator[IngestProgress, None, None], report: IngestReport) -> None:
        self._steps = steps
        self.report = report

    def __next__(self) -> IngestProgress:
        return next(self._steps)

    def close(self) -> None:
        """Stop its workers and drop what is not committed."""
        self._steps.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def create_ingestion(
    destination: Destination,
    paths: Sequence[str | Path],
    *,
    format: str | None = None,
    prune: bool = False,
    include: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    workers: int | None = None,
    engine: str = PROCESSES,
    time_limit: float = TIME_LIMIT,
    memory_limit: float | None = None,
    on_finish: Callable[[], None] = lambda: None,
) -> Ingestion:
    """Return an ingest that stores the documents under ``paths`` in ``destination`` as it is iterated, and finally
    calls ``on_finish``. With ``prune`` it removes documents whose files vanished from the given folders and patterns.

    ``include``: see :func:`~kvstore.ingest.sources.find_sources`.

    ``workers`` is the number of processes that read, extract and embed (0: this process; None: chosen by the size of
    the files, or the capacity of the engine). ``engine`` is where they run (:mod:`.engines`); the result is the same. A
    file fails if its worker is silent for ``time_limit`` seconds, or needs more than ``memory_limit`` megabytes (None:
    its share of half of the machine's memory). Raises InputError for an invalid format, option or engine, and for an
    empty path; EngineError if the engine is unavailable or lost.
    """
    ReadOptions.parse(options)
    if format is not None:
        check_format(format)
    if workers is not None and (not isinstance(workers, int) or not 0 <= workers <= 64):
        raise InputError(f"workers are 0 (this process) to 64 processes, not {workers!r}")
    if not isinstance(time_limit, (int, float)) or not time_limit > 0:
        raise InputError(f"the time limit is a number of seconds above 0, not {time_limit!r}")
    if memory_limit is not None and (not isinstance(memory_limit, (int, float)) or not memory_limit > 0):
        raise InputError(f"the memory limit is a number of megabytes above 0, not {memory_limit!r}")
    check_engine(engine)
    if engine != PROCESSES and workers == 0:
        raise InputError(f"workers of {engine} are 1 to 64, not 0; leave the engine out to ingest in this process")
    limits = Limits(time_limit, memory_limit)
    run = _IngestRun(destination, format, include, dict(options or {}), workers, engine, limits)

    def run_steps() -> Generator[IngestProgress, None, None]:
        yield from run.iter_steps(paths, prune)
        on_finish()

    return Ingestion(run_steps(), run.report)


@dataclass(frozen=True, slots=True)
class _SeenDocument:
    """A document of this ingest: its place and its digest, which is empty if the store has it.

    ``is_stored``: true if the store had the same document, possibly from another file.
    """

    place: str
    location: str
    digest: bytes
    is_stored: bool


class _IngestRun:
    def __init__(
        self,
        destination: Destination,
        format: str | None,
        include: Sequence[str],
        options: Mapping[str, Any],
        workers: int | None,
        engine: str,
        limits: Limits,
    ) -> None:
        self._destination = destination
        self._format = format
        self._include = include
        self._options = options
        self._pace = Pace()
        self._files_done = 0
        self._workers = workers
        self._engine = engine
        self._limits = limits
        self.report = self._report = IngestReport()
        self._start_time = time.monotonic()
        self._batch: list[tuple[FileDocument, str | None]] = []
        self._batch_chunks = 0
        self._batch_bytes = 0
        #: The arrival time of the batch's first document, and whether all documents are embedded.
        self._batch_start = 0.0
        self._is_batch_embedded = True
        self._stored_chunks: int | None = None
        self._files: list[tuple[IngestedFile, list[bytes]]] = []
        self._reading_digest = compute_reading_digest(format, options)
        self._seen_documents: dict[str, _SeenDocument] = {}
        self._coverages: list[Coverage] = []
        self._duplicate_keys: list[str] = []
        self._languages = DocumentLanguages()
        #: Settings that a new store took from the language of its first documents.
        self._chosen: dict[str, str] = {}
        self._unread_roots: set[str] = set()
        self._unchanged_origins: dict[str, str | None] = {}
        # The facts about documents by key: those that wait for the next commit, and the keys with committed facts.
        self._facts: dict[str, list[RawFact]] = {}
        self._stored_fact_keys: set[str] = set()

    def iter_steps(self, paths: Sequence[str | Path], prune: bool) -> Generator[IngestProgress, None, None]:
        """Run the ingest. An interrupt propagates after a last step that counts every earlier commit."""
        sources = self._find_sources(paths)
        try:
            yield from self._iter_steps(sources, prune)
        except KeyboardInterrupt:
            yield self._build_progress(self._files_done, len(sources), "")
            raise

    def _iter_steps(self, sources: Sequence[Source], prune: bool) -> Generator[IngestProgress, None, None]:
        visits = [FileVisit(source, self._reading_digest) for source in sources]
        known_files = [self._find_known_file(visit) for visit in visits]
        self._report.known = len(known_files) - known_files.count(None)
        unread = [source for source, file in zip(sources, known_files, strict=True) if not file]
        self._pace.start(sum(visit.size for visit, file in zip(visits, known_files, strict=True) if file is None))
        with closing(self._iter_items(unread)) as items:
            for number, (visit, file) in enumerate(zip(visits, known_files, strict=True)):
                self._files_done = number
                yield self._build_progress(number, len(sources), visit.source.key)
                if file is not None:
                    for key in file.documents:
                        self._take_item(FileDocument(key, visit.source.place, b"", None), visit)
                    continue
                while (item := next(items)) is not None:
                    chunks_before = self._report.chunks
                    self._take_item(item, visit)
                    if isinstance(item, FileDocument) and item.extracted is not None:
                        self._pace.add_partial(len(item.extracted.text), visit.size)
                    if self._report.chunks > chunks_before:
                        yield self._build_progress(number, len(sources), visit.source.key)
                self._pace.end_file(visit.size)
                record = visit.build_record()
                if record is not None:
                    self._files.append(record)
            # Release the workers' resources while the last batch is written.
            next(items, None)
            # Commit the last batch together with the pruned documents, so that a renamed file is never missing.
            self._write_batch(self._list_vanished_keys() if prune else ())
        self._store_facts()
        self._destination.settle_origins(self._unchanged_origins)
        self._report_duplicates()
        self._report_unused_plugins(sources)
        self._report.remarks += self._languages.remarks(self._destination.settings, self._chosen)
        self._report.seconds = time.monotonic() - self._start_time
        yield self._build_progress(len(sources), len(sources), "")

    def _find_sources(self, paths: Sequence[str | Path]) -> list[Source]:
        sources_by_location: dict[tuple[str, str], Source] = {}
        for path in paths:
            try:
                path_sources = find_sources([path], self._format, self._include)
            except ReaderError as error:
                self._add_failure(str(path), error)
                continue
            # A file that several paths refer to is read once, unless they give it several keys.
            sources_by_location |= {(source.key, source.location): source for source in path_sources.files}
            self._report.skipped_by += path_sources.skipped
            self._report.failures += [Failure(failure.place, failure.reason) for failure in path_sources.failures]
            self._coverages += path_sources.covered
            if path_sources.failures:
                self._unread_roots |= {covered.root for covered in path_sources.covered}
        self._report.skipped = self._report.skipped_by.total()
        return list(sources_by_location.values())

    def _find_known_file(self, visit: FileVisit) -> IngestedFile | None:
        """Return the record of a file that need not be read, else None."""
        with self._destination.open_state() as state:
            file = state.ingested_files.get(visit.location)
        return file if visit.matches_record(file) else None

    def _iter_items(self, sources: Sequence[Source]) -> Generator[FileItem | None, None, None]:
        """Yield the items of each source in order, with None after each source, and possibly once more when the
        workers have ended."""
        workers, embed = self._workers, True
        if workers is None and self._engine == PROCESSES:
            workers, embed = self._estimate_workers(sources)
        if workers != 0 and sources:
            from .worker_pool import WorkerPool

            with closing(self._sample(sources[:FIRST_DOCUMENTS])) as documents:
                self._decide_settings(documents)
            with start_engine(self._engine, workers, self._destination.open_state) as engine:
                # Keys and addresses of endpoints may exist only in the ingesting process.
                embed = embed and (self._engine == PROCESSES or not self._destination.texts_per_request)
                job = self._destination.make_job(self._format, self._options, embed=embed)
                with WorkerPool(job, sources, engine, self._limits) as pool:
                    yield from pool.iter_items()
                engine.release()
                yield None
            return
        if not sources:
            return
        items, first = self._read_sources(sources), list[ReadItem]()

        def first_documents() -> Iterator[ValidDocument]:
            for item in islice(items, 2 * FIRST_DOCUMENTS):  # a document and an end of each file
                first.append(item)
                if isinstance(item[1], NewDocument):
                    yield item[1].validated

        self._decide_settings(first_documents())
        for portion in split_portions(chain(first, items)):
            for _, found in extract_portion(portion, self._destination.settings):
                yield found

    def _decide_settings(self, documents: Iterable[ValidDocument]) -> None:
        """Give a new store the settings for the language of the first documents, before anything is derived from
        them."""

        def choose() -> dict[str, str]:
            languages = DocumentLanguages()
            for document in documents:
                languages.add(document)
                if languages.full:
                    break
            return languages.settings()

        self._chosen = self._destination.decide_settings(choose)

    def _sample(self, sources: Sequence[Source]) -> Generator[ValidDocument, None, None]:
        """Read the documents of some files before the workers read them with the chosen settings."""
        if not any(map(self._is_risky, sources)):
            for _, item in self._read_sources(sources):
                if isinstance(item, NewDocument):
                    yield item.validated
            return
        from .engines.processes import ProcessEngine
        from .worker_pool import WorkerPool

        job = self._destination.make_job(self._format, self._options, embed=False)
        job = replace(job, settings=replace(job.settings, language=RULES))  # only the texts are needed
        with WorkerPool(job, sources, ProcessEngine(1), self._limits) as pool:
            for item in pool.iter_items():
                if isinstance(item, FileDocument) and item.extracted is not None:
                    yield item.extracted

    def _read_sources(self, sources: Sequence[Source]) -> Iterator[ReadItem]:
        for number, source in enumerate(sources):
            for item in read_documents(source, self._format, self._options, self._get_stored_digest):
                yield number, item
            yield number, None

    def _get_stored_digest(self, key: str) -> bytes | None:
        """Return the digest of the stored document with this key, or None."""
        with self._destination.open_state() as state:
            record = state.documents.find_by_key(key)
        return None if record is None else record.digest

    def _estimate_workers(self, sources: Sequence[Source]) -> tuple[int, bool]:
        """Return the number of workers for the files, and whether they should load the embedder too."""
        total = 0
        has_risky_file = False
        for source in sources:
            size = source.size
            total += size
            if total >= MIN_BYTES_FOR_WORKERS:
                return max(1, min(MAX_WORKERS, (os.cpu_count() or 1) - 1, len(sources))), True
            has_risky_file = has_risky_file or self._is_risky(source)
        return int(has_risky_file), False

    def _is_risky(self, source: Source) -> bool:
        """True if the reader of a file could hang or crash."""
        return source.size > get_trusted_size(source.format or self._format or find_format(source.name))

    def _take_item(self, item: FileItem, visit: FileVisit) -> None:
        if isinstance(item, RawFact):
            # A file may describe a document in several lines.
            self._facts.setdefault(item.key, []).append(item)
            if len(self._facts) > BATCH_DOCUMENTS:
                self._store_facts()
        elif isinstance(item, FileDocument):
            self._take_document(item, visit)
        elif isinstance(item, SkippedPart):
            self._count_skipped(item.reason)
            if item.detail:
                self._report.remarks.append(f"{item.place}: {item.detail}")
        else:
            self._report.failures.append(item)
            self._unread_roots.add(visit.source.root or "")
            visit.failed = True

    def _count_skipped(self, reason: str) -> None:
        self._report.skipped_by[reason] += 1
        self._report.skipped += 1

    def _take_document(self, file_document: FileDocument, visit: FileVisit) -> None:
        if file_document.key in self._seen_documents:
            seen = self._seen_documents[file_document.key]
            # The outcome for this document depends on another file, which may change or vanish.
            visit.settled = visit.settled and seen.location == visit.location
            if self._is_duplicate(file_document, seen):
                self._count_skipped("the same document again")
                return
            if (
                file_document.extracted is None
                or file_document.other_key is None
                or file_document.other_key in self._seen_documents
            ):
                remedy = "run the ingest again" if file_document.extracted is None else "give each its own key"
                reason = f"the key {file_document.key!r} was used in this ingest already, by {seen.place}; {remedy}"
                self._report.failures.append(Failure(file_document.place, reason))
                visit.failed = True
                return
            file_document = replace(
                file_document,
                key=file_document.other_key,
                extracted=replace(file_document.extracted, key=file_document.other_key),
            )
        visit.add_document(file_document.key, file_document.digest)
        with self._destination.open_state() as state:
            record = state.documents.find_by_key(file_document.key)
        document = file_document.extracted
        unchanged = document is None or (record is not None and record.digest == file_document.digest)
        # A document can equal the stored one under another digest only if it comes from another file.
        is_stored = unchanged or _is_moved(document, record)
        self._seen_documents[file_document.key] = _SeenDocument(
            file_document.place, visit.location, file_document.digest, is_stored
        )
        if file_document.left_out:
            self._report.left_out[file_document.key] = sum(part.characters for part in file_document.left_out)
        if document is None or unchanged:
            self._report.unchanged += 1
            self._unchanged_origins[file_document.key] = visit.root
            return
        self._languages.add(document)
        if record is None:
            self._report.added += 1
            self._note_other_key(file_document.key, visit)
        else:
            self._report.changed += 1
        if not self._batch:
            self._batch_start, self._is_batch_embedded = time.monotonic(), True
        self._is_batch_embedded &= bool(file_document.vectors or not document.chunks)
        self._batch.append((file_document, visit.root))
        self._batch_chunks += len(document.chunks)
        chunk = BYTES_PER_EXTRACTED_CHUNK + 4 * self._destination.settings.dimension
        self._batch_bytes += BYTES_PER_EXTRACTED_CHARACTER * len(document.text) + chunk * len(document.chunks)
        if self._is_batch_full():
            self._write_batch()

    def _is_duplicate(self, file_document: FileDocument, seen: _SeenDocument) -> bool:
        """True if a document equals the first one with its key, wherever it is stored."""
        if file_document.extracted is None:  # it equals the stored document
            return seen.is_stored
        return _compute_digest_at(file_document.extracted, seen.location) == (
            seen.digest or self._get_stored_digest(file_document.key)
        )

    def _is_batch_full(self) -> bool:
        """True if the batch is large enough to commit."""
        if self._stored_chunks is None:
            with self._destination.open_state() as state:
                self._stored_chunks = state.counters.chunks
        batch_limit = min(self._stored_chunks // STORE_SHARE, MOST_TOGETHER)
        if self._is_batch_embedded and time.monotonic() < self._batch_start + self._get_max_wait():
            batch_limit = MOST_TOGETHER
        return (
            len(self._batch) >= max(BATCH_DOCUMENTS, batch_limit)
            or self._batch_chunks >= max(BATCH_CHUNKS, batch_limit)
            or self._batch_bytes >= BATCH_BYTES
        )

    def _get_max_wait(self) -> float:
        """Return the seconds that a batch waits for more. The wait shrinks towards the end: workers continue during
        a commit, but none runs during the last one."""
        seconds_left = self._pace.seconds_left()
        return QUICK_SECONDS if seconds_left is None else min(QUICK_SECONDS, seconds_left)

    def _note_other_key(self, key: str, visit: FileVisit) -> None:
        """Note a file that is already stored under another key, because another parent folder was named then."""
        if not key.startswith(visit.source.key):
            return
        row = key.removeprefix(visit.source.key)
        parts = visit.location.strip("/").split("/")
        with self._destination.open_state() as state:
            for start in range(len(parts)):
                other_key = "/".join(parts[start:]) + row
                record = None if other_key == key else state.documents.find_by_key(other_key)
                if record is not None and record.source == visit.location:
                    self._duplicate_keys.append(f"{key!r} and {other_key!r}")

    def _report_duplicates(self) -> None:
        if self._duplicate_keys:
            keys_text = ", ".join(self._duplicate_keys[:_MAX_DUPLICATES_SHOWN])
            num_more = len(self._duplicate_keys) - _MAX_DUPLICATES_SHOWN
            keys_text += f", and {num_more:,} more" if num_more > 0 else ""
            self._report.remarks.append(
                f"the same file is in the store under two keys now: {keys_text}; delete one of them, and name the same "
                "folder every time"
            )

    def _report_unused_plugins(self, sources: Sequence[Source]) -> None:
        """Add remarks on broken readers of installed packages, if one of them could have read a skipped file."""
        has_unknown_suffix = any(reason.startswith("suffix ") for reason in self._report.skipped_by)
        if has_unknown_suffix or (self._format is None and any(find_format(source.key) is None for source in sources)):
            broken = (plugin for plugin in READERS.list_plugins() if plugin.problem is not None)
            self._report.remarks += [f"{plugin} was not used: {plugin.problem}" for plugin in broken]

    def _store_facts(self) -> None:
        if self._facts:
            outcomes, failures = self._destination.store_facts(self._facts, self._stored_fact_keys)
            self._report.failures += failures
            for changed in (changed for key, changed in outcomes.items() if key not in self._stored_fact_keys):
                self._report.changed += changed
                self._report.unchanged += not changed
                self._report.documents += changed
            self._stored_fact_keys |= outcomes.keys()
            self._facts = {}

    def _write_batch(self, deleted: Sequence[str] = ()) -> None:
        if self._batch or deleted or self._files:
            self._destination.write(self._batch, deleted, self._files)
            self._report.documents += len(self._batch)
            self._report.chunks += self._batch_chunks
            self._batch, self._batch_chunks, self._batch_bytes, self._files = [], 0, 0, []
            self._stored_chunks = None

    def _list_vanished_keys(self) -> list[str]:
        """Return the keys of the documents to prune."""
        vanished: list[str] = []
        roots: dict[str, list[Coverage]] = {}
        for covered in self._coverages:
            roots.setdefault(covered.root, []).append(covered)
        for root, coverages in sorted(roots.items()):
            if root in self._unread_roots:
                reason = (
                    "nothing of this folder is pruned, because some of it could not be read; mend that and run again"
                )
                self._report.failures.append(Failure(root, reason))
                continue
            with self._destination.open_state() as state:
                vanished += [
                    record.key
                    for record in state.documents.scan_origin(root)
                    if record.key not in self._seen_documents
                    and any(covered.is_covered(record.source or record.key) for covered in coverages)
                ]
        self._report.removed += len(vanished)
        return vanished

    def _add_failure(self, place: str, error: Exception) -> None:
        self._report.failures.append(make_failure(place, error))

    def _build_progress(self, done: int, total: int, current: str) -> IngestProgress:
        elapsed = max(time.monotonic() - self._start_time, 1e-9)
        report, pace = self._report, self._pace
        return IngestProgress(
            done,
            total,
            report.chunks,
            report.chunks / elapsed,
            pace.seconds_left(),
            current,
            report.known,
            pace.done,
            pace.total,
            report.documents,
        )


def _is_moved(document: ExtractedDocument | None, record: DocumentRecord | None) -> bool:
    """True if a document is the stored one in another file."""
    if document is None or record is None or document.source == record.source:
        return False
    return _compute_digest_at(document, record.source) == record.digest


def _compute_digest_at(document: ExtractedDocument, source: str | None) -> bytes:
    """Return the digest that a document would have if it came from another file."""
    content = document.title, source, document.meta, document.format, document.text
    return compute_digest(*content, left_out=document.left_out, own_chunks=document.own_chunks)
