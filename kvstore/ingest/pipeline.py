"""Files in, documents stored: reading, extracting, embedding and committing in batches.

In: paths and globs. On disk: nothing but what each batch's commit brings, so that an interruption keeps whole
documents and a second run goes on where the first stopped. Out: an :class:`IngestReport`. A bad file, row or document
is one :class:`Failure` with its reason; the rest goes on. Files of what others found in documents
bring none: what they state joins the documents that the store has.
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
from .pace import Pace
from .readers import READERS, RawFact, ReadOptions, SkippedPart, check_format, find_format, get_trusted_size
from .sources import Coverage, Source, find_sources, format_skipped
from .worker import Job, Limits

#: A batch is committed when it holds this many chunks or documents. In a large store it is this share of the store's
#: chunks, up to so many: a commit writes every page that it changes, and what a few hundred chunks change lies on half
#: of the pages, so that a batch eight times as large writes twice as much.
BATCH_CHUNKS = 512
BATCH_DOCUMENTS = 512
STORE_SHARE = 16
MOST_TOGETHER = 4096
#: What workers have embedded already waits so many seconds for more, up to as many together: new names are then sought
#: in older texts a few times, not at every few hundred chunks, and an interruption costs no more than these seconds.
QUICK_SECONDS = 5.0
#: It is committed before it takes more memory than this. What is extracted was measured to take no more than so much a
#: chunk, and so much a byte of text, beside its vector.
BATCH_BYTES = 1 << 26
BYTES_PER_EXTRACTED_CHUNK, BYTES_PER_EXTRACTED_CHARACTER = 4096, 40

#: Files stored under two keys that a remark names.
_MAX_DUPLICATES_SHOWN = 3

#: Without being told, an ingest starts workers for so many bytes of files: below, starting them costs more than they
#: save. A file larger than its reader is trusted with is read by a worker always.
MIN_BYTES_FOR_WORKERS = 1 << 20
#: Failures that are told, a line each; there may be one for every row of a file.
_MAX_PROBLEMS_SHOWN = 100
#: Workers are as many as there are processors beside the writer's, and no more than this: each holds models.
MAX_WORKERS = 4


@dataclass(slots=True)
class IngestReport:
    """What an ingest did; ``documents`` and ``chunks`` count those written, ``seconds`` is wall time.

    ``skipped_by`` counts the files passed over by reason (``suffix .png``, ``no suffix``, ``links to folders``, ...),
    ``skipped`` is their sum. ``remarks`` are sentences about what was ingested as asked and may not be meant so.
    Documents that a file states something of count as changed where that changes anything, and else as unchanged.
    ``left_out`` says of each page that was read how many of its characters were left out as navigation, if any.
    ``problems`` tells the ``failures`` as people read them, those beyond the first hundred by their number.
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
        """``skipped_by`` in words, such as ``2 .png, 1 no suffix``."""
        return format_skipped(self.skipped_by)

    @property
    def problems(self) -> list[str]:
        """The failures, a line each: what and why."""
        lines = [f"{failure.place}: {failure.reason}" for failure in self.failures[:_MAX_PROBLEMS_SHOWN]]
        num_more = len(self.failures) - len(lines)
        return [*lines, f"... and {num_more:,} more that could not be read"] if num_more else lines


@dataclass(frozen=True, slots=True)
class IngestProgress:
    """How far an ingest is: files done of all (``known``: before this one), chunks written, and what is being read.

    ``bytes_done`` of ``bytes`` of the files that must be read are done; of the file being read that is an estimate from
    the texts it gave. ``seconds_left`` follows from them, at the pace of the last while; None until that is known.
    ``documents`` and ``chunks`` are committed.
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
    """Where documents go: the store, as the pipeline needs it."""

    @property
    def settings(self) -> FixedSettings:
        """The settings that the store was made with."""
        ...

    @property
    def texts_per_request(self) -> int:
        """How many texts the embedder sends to an endpoint at once; 0 where it needs none."""
        ...

    def decide_settings(self, choose: Callable[[], Mapping[str, str]]) -> dict[str, str]:
        """Give a new store the settings that ``choose`` returns, unless they are fixed; return those that changed."""
        ...

    def embed(self, texts: Sequence[str]) -> Matrix:
        """The vectors of some texts, shape (n, dimension)."""
        ...

    def open_state(self) -> AbstractContextManager[State]:
        """What is stored, while the context is open."""
        ...

    def settle_origins(self, origins: Mapping[str, str | None]) -> None:
        """Say in which folder unchanged documents were found last."""
        ...

    def make_job(self, format: str | None, options: Mapping[str, Any], *, embed: bool) -> Job:
        """What workers are told; with ``embed`` they make the vectors too, where that is possible."""
        ...

    def write(
        self,
        batch: Sequence[tuple[FileDocument, str | None]],
        deleted: Sequence[str] = (),
        files: Sequence[tuple[IngestedFile, list[bytes]]] = (),
    ) -> None:
        """Commit extracted documents, each with the folder it came from; embeds what is not yet.

        In the same commit others are deleted, and files recorded as ingested, each with the digests of its documents.
        """
        ...

    def store_facts(
        self, facts: Mapping[str, Sequence[RawFact]], added_keys: Set[str]
    ) -> tuple[dict[str, bool], list[Failure]]:
        """Commit what is stated of documents in place of what was, or (``added_keys``) besides it.

        Says for each key whether that changed anything, and what could not be committed.
        """
        ...


class IngestOptions(TypedDict, total=False):
    """What may be said of an ingest beside its paths, and which files of folders it takes: see :func:`create_ingestion`."""

    format: str | None
    prune: bool
    options: Mapping[str, Any] | None
    workers: int | None
    engine: str
    time_limit: float
    memory_limit: float | None


class Ingestion(Iterator[IngestProgress]):
    """An ingest that goes on while it is iterated over, in the thread that does; each step says how far it is.

    ``report`` is what was done so far. Whoever stops early, or closes it, or leaves its context, keeps what was
    committed, and the same ingest goes on from there.
    """

    def __init__(self, steps: Generator[IngestProgress, None, None], report: IngestReport) -> None:
        self._steps = steps
        self.report = report

    def __next__(self) -> IngestProgress:
        return next(self._steps)

    def close(self) -> None:
        """End its workers, and drop what is not committed."""
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
    """What brings the documents under ``paths`` into ``destination``, when it is iterated over, and calls ``on_finish``;
    with ``prune``, it removes those whose files vanished from what the folders and patterns among them cover.

    ``include``: see :func:`~kvstore.ingest.sources.find_sources`.

    ``workers`` is how many processes read, extract and embed (0: this one; None: what the files are worth, or the
    engine has room for), ``engine`` where they run (:mod:`.engines`); what comes of it is the same. A file at which a
    worker is silent for ``time_limit`` seconds is a failure, and so is one for which it wants more than
    ``memory_limit`` megabytes (None: its share of half of the machine's). Raises InputError for a format, an option or
    an engine that is none, and an empty path; EngineError where the engine cannot be had, or is lost.
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
    """A document of this ingest: where it stands, and its digest, empty where the store has that.

    ``is_stored``: the store had the same, be it from another file.
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
        #: When the first document of the batch came, and whether all of them are embedded.
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
        # What is stated of documents, by their keys: what waits for the next commit, and of which some was committed.
        self._facts: dict[str, list[RawFact]] = {}
        self._stored_fact_keys: set[str] = set()

    def iter_steps(self, paths: Sequence[str | Path], prune: bool) -> Generator[IngestProgress, None, None]:
        """Ingest; an interrupt passes through, the last step having counted every commit before it."""
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
            # Whatever the workers needed is given up while the last batch is written.
            next(items, None)
            # What is left of it and what is pruned go in one commit: a file that was renamed is never missing.
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
            # A file that several paths stand for is read once, unless they give it several keys.
            sources_by_location |= {(source.key, source.location): source for source in path_sources.files}
            self._report.skipped_by += path_sources.skipped
            self._report.failures += [Failure(failure.place, failure.reason) for failure in path_sources.failures]
            self._coverages += path_sources.covered
            if path_sources.failures:
                self._unread_roots |= {covered.root for covered in path_sources.covered}
        self._report.skipped = self._report.skipped_by.total()
        return list(sources_by_location.values())

    def _find_known_file(self, visit: FileVisit) -> IngestedFile | None:
        """What is recorded of a file that need not be read."""
        with self._destination.open_state() as state:
            file = state.ingested_files.get(visit.location)
        return file if visit.matches_record(file) else None

    def _iter_items(self, sources: Sequence[Source]) -> Generator[FileItem | None, None, None]:
        """What each source holds, in order; None after the last of each, and perhaps once more, when the workers have
        ended."""
        workers, embed = self._workers, True
        if workers is None and self._engine == PROCESSES:
            workers, embed = self._estimate_workers(sources)
        if workers != 0 and sources:
            from .worker_pool import WorkerPool

            with closing(self._sample(sources[:FIRST_DOCUMENTS])) as documents:
                self._decide_settings(documents)
            with start_engine(self._engine, workers, self._destination.open_state) as engine:
                # What keys and addresses of endpoints the process that ingests has, others need not.
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
        """Read the documents in some files, before workers read them with the settings that are chosen."""
        if not any(map(self._is_risky, sources)):
            for _, item in self._read_sources(sources):
                if isinstance(item, NewDocument):
                    yield item.validated
            return
        from .engines.processes import ProcessEngine
        from .worker_pool import WorkerPool

        job = self._destination.make_job(self._format, self._options, embed=False)
        job = replace(job, settings=replace(job.settings, language=RULES))  # only the texts are wanted
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
        """The digest of the stored document of this key, or None."""
        with self._destination.open_state() as state:
            record = state.documents.find_by_key(key)
        return None if record is None else record.digest

    def _estimate_workers(self, sources: Sequence[Source]) -> tuple[int, bool]:
        """How many workers the files are worth, and whether it is worth that these load the embedder too."""
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
            # A file may speak of a document in several lines.
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
            # What becomes of this one depends on another file, which may change or vanish.
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
        # Only where it came from another file may it be the same under another digest.
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
        """Whether a document says what the first of its key does, wherever it stands."""
        if file_document.extracted is None:  # it is as the store had it before
            return seen.is_stored
        return _compute_digest_at(file_document.extracted, seen.location) == (
            seen.digest or self._get_stored_digest(file_document.key)
        )

    def _is_batch_full(self) -> bool:
        """Whether what waits is worth a commit."""
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
        """Seconds that a batch waits for more: towards the end fewer and fewer, since the workers that find the rest go
        on during a commit, and nobody works beside the last one."""
        seconds_left = self._pace.seconds_left()
        return QUICK_SECONDS if seconds_left is None else min(QUICK_SECONDS, seconds_left)

    def _note_other_key(self, key: str, visit: FileVisit) -> None:
        """Note where the same file is stored under another key already: another folder above it was named then."""
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
        """Note which readers of installed packages cannot be used, where one of them may have been wanted."""
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
        """The keys of the documents that are to be pruned."""
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
    """Whether a document is the stored one in another file."""
    if document is None or record is None or document.source == record.source:
        return False
    return _compute_digest_at(document, record.source) == record.digest


def _compute_digest_at(document: ExtractedDocument, source: str | None) -> bytes:
    """The digest that a document would have if it stood in another file."""
    content = document.title, source, document.meta, document.format, document.text
    return compute_digest(*content, left_out=document.left_out, own_chunks=document.own_chunks)
