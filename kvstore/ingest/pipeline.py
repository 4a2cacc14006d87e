"""Files in, documents stored: reading, extracting, embedding and committing in batches.

In: paths and globs. On disk: nothing but what each batch's commit brings, so that an interruption keeps whole
documents and a second run goes on where the first stopped. Out: an :class:`IngestReport`. A bad file, row or document
is one :class:`Failure` with its reason; the rest goes on. Files of triples bring no documents: they join the documents
that the store has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ..errors import InputError, ReaderError
from ..settings import FixedSettings
from ..storage.triples import DocumentTriples
from .examination import examine, stated_triples
from .extraction import Extracted, derive
from .readers import RawDocument, RawTriples, read
from .sources import Source, find_sources

#: A batch is committed when it holds this many chunks or documents.
BATCH_CHUNKS = 256
BATCH_DOCUMENTS = 256


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that was not ingested: the file (and row), and why."""

    place: str
    reason: str


@dataclass(slots=True)
class IngestReport:
    """What an ingest did; ``documents`` and ``chunks`` count those written, ``seconds`` is wall time.

    Documents that a file of triples speaks of count as changed where their triples did, and else as unchanged.
    """

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    skipped: int = 0
    failures: list[Failure] = field(default_factory=list)
    documents: int = 0
    chunks: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class IngestProgress:
    """How far an ingest is: files done of all, chunks written, and what is being read."""

    done: int
    total: int
    chunks: int
    chunks_per_second: float
    seconds_left: float | None
    current: str


class Destination(Protocol):
    """Where documents go: the store, as the pipeline needs it."""

    settings: FixedSettings

    def digest_of(self, key: str) -> bytes | None:
        """The digest of the stored document of this key, or None."""
        ...

    def keys_from(self, root: str) -> Iterator[str]:
        """Keys of the stored documents that were ingested from a folder."""
        ...

    def settle_origins(self, origins: Mapping[str, str | None]) -> None:
        """Say in which folder unchanged documents were found last."""
        ...

    def write(self, batch: Sequence[tuple[Extracted, str | None]], deleted: Sequence[str]) -> None:
        """Embed and commit documents, each with the folder it came from, and delete others."""
        ...

    def join_triples(self, triples: Mapping[str, DocumentTriples], more: Set[str]) -> Mapping[str, bool | InputError]:
        """Commit triples in place of those of their documents, or (``more``) besides them.

        Says for each key whether that changed anything, or why it could not be.
        """
        ...


def ingest(
    destination: Destination,
    paths: Sequence[str | Path],
    *,
    format: str | None = None,
    prune: bool = False,
    options: Mapping[str, Any] | None = None,
    progress: Callable[[IngestProgress], None] | None = None,
) -> IngestReport:
    """Bring the documents under ``paths`` into ``destination``; with ``prune``, remove those that vanished from a
    folder."""
    return _Ingest(destination, format, dict(options or {}), progress).run(paths, prune)


class _Ingest:
    def __init__(
        self,
        destination: Destination,
        format: str | None,
        options: Mapping[str, Any],
        progress: Callable[[IngestProgress], None] | None,
    ) -> None:
        self._destination = destination
        self._format = format
        self._options = options
        self._progress = progress
        self._report = IngestReport()
        self._started = time.monotonic()
        self._batch: list[tuple[Extracted, str | None]] = []
        self._seen: dict[str, str] = {}
        self._roots: set[str] = set()
        self._unread: set[str] = set()
        self._unchanged: dict[str, str | None] = {}
        # Of documents that triples were found for: where, what waits for the next commit, and what was committed.
        self._triple_places: dict[str, str] = {}
        self._triples: dict[str, DocumentTriples] = {}
        self._joined: set[str] = set()

    def run(self, paths: Sequence[str | Path], prune: bool) -> IngestReport:
        sources = self._sources(paths)
        for done, source in enumerate(sources):
            self._tell(done, len(sources), source.key)
            self._read(source)
        self._write()
        self._join_triples()
        self._destination.settle_origins(self._unchanged)
        if prune:
            self._prune()
        self._report.seconds = time.monotonic() - self._started
        self._tell(len(sources), len(sources), "")
        return self._report

    def _sources(self, paths: Sequence[str | Path]) -> list[Source]:
        found: list[Source] = []
        for path in paths:
            try:
                sources = find_sources([path], self._format)
            except ReaderError as error:
                self._fail(str(path), error)
                continue
            found += sources.files
            self._report.skipped += sources.skipped.total()
            self._report.failures += [Failure(failure.place, failure.reason) for failure in sources.failures]
            self._roots |= {str(folder) for folder in sources.folders}
            if sources.failures:
                self._unread |= {str(folder) for folder in sources.folders}
        return found

    def _read(self, source: Source) -> None:
        try:
            items = read(source.path, source.key, source.format or self._format, self._options)
            for number, item in enumerate(items, 1):
                if isinstance(item, RawTriples):
                    self._take_triples(item)
                elif isinstance(item, RawDocument):
                    self._take(item, source, str(source.path) if number == 1 else f"{source.path}, document {number}")
                else:
                    self._report.failures.append(Failure(item.place, item.reason))
                    self._unread.add(str(source.root))
        except (ReaderError, OSError) as error:
            self._fail(str(source.path), error)
            self._unread.add(str(source.root))

    def _take(self, raw: RawDocument, source: Source, place: str) -> None:
        if raw.key in self._seen:
            first = self._seen[raw.key]
            reason = f"the key {raw.key!r} was used in this ingest already, by {first}; give each document its own key"
            self._report.failures.append(Failure(place, reason))
            return
        self._seen[raw.key] = place
        root = str(source.root) if source.root else None
        try:
            given = examine(raw.key, raw.text, title=raw.title, source=source.key, meta=raw.meta, format=raw.format)
            stored = self._destination.digest_of(raw.key)
            if stored == given.digest:
                self._report.unchanged += 1
                self._unchanged[raw.key] = root
                return
            extracted = derive(given, self._destination.settings)
        except InputError as error:
            self._fail(place, error)
            self._unread.add(str(source.root))
            return
        if stored is None:
            self._report.added += 1
        else:
            self._report.changed += 1
        self._batch.append((extracted, root))
        if len(self._batch) >= BATCH_DOCUMENTS or sum(len(e.chunks) for e, _ in self._batch) >= BATCH_CHUNKS:
            self._write()

    def _take_triples(self, raw: RawTriples) -> None:
        try:
            found = stated_triples(raw.triples, raw.names)
        except InputError as error:
            self._fail(raw.place, error)
            return
        # A file may speak of a document in several lines.
        self._triples[raw.key] = self._triples.get(raw.key, DocumentTriples()).joined(found)
        self._triple_places.setdefault(raw.key, raw.place)
        if len(self._triples) > BATCH_DOCUMENTS:
            self._join_triples()

    def _join_triples(self) -> None:
        outcomes = self._destination.join_triples(self._triples, self._joined) if self._triples else {}
        for key, outcome in outcomes.items():
            if isinstance(outcome, InputError):
                self._fail(self._triple_places[key], outcome)
            elif key not in self._joined:
                self._joined.add(key)
                self._report.changed += outcome
                self._report.unchanged += not outcome
                self._report.documents += outcome
        self._triples = {}

    def _write(self, deleted: Sequence[str] = ()) -> None:
        if self._batch or deleted:
            self._destination.write(self._batch, deleted)
            self._report.documents += len(self._batch)
            self._report.chunks += sum(len(extracted.chunks) for extracted, _ in self._batch)
            self._batch = []

    def _prune(self) -> None:
        for root in sorted(self._roots):
            if root in self._unread:
                reason = (
                    "nothing of this folder is pruned, because some of it could not be read; mend that and run again"
                )
                self._report.failures.append(Failure(root, reason))
                continue
            gone = [key for key in self._destination.keys_from(root) if key not in self._seen]
            self._report.removed += len(gone)
            self._write(gone)

    def _fail(self, place: str, error: Exception) -> None:
        # Readers name the file in their message; here it is named beside it.
        reason = str(error).removeprefix(f"{place}: ").removeprefix(f"{place!r}: ")
        self._report.failures.append(Failure(place, reason))

    def _tell(self, done: int, total: int, current: str) -> None:
        if self._progress is None:
            return
        elapsed = max(time.monotonic() - self._started, 1e-9)
        left = elapsed / done * (total - done) if done else None
        chunks = self._report.chunks
        self._progress(IngestProgress(done, total, chunks, chunks / elapsed, left, current))
