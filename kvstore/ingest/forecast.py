"""A forecast of an ingest: a sample of the files is read, and its cost is scaled by bytes.

In: the arguments of :func:`kvstore.ingest.pipeline.create_ingestion`. On disk: nothing. Out: a :class:`Forecast`. A
worker reads the sample, for a few seconds at most. Embedding is timed on a few texts if the embedder runs locally; an
endpoint is not called.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from ..errors import ReaderError
from ..registry.derivation import StoredDerivation, collect_missing_texts, derive_parts, list_maintained_derivations
from ..settings import FixedSettings
from .engines.processes import ProcessEngine
from .file_documents import FileDocument
from .file_visit import FileVisit, compute_reading_digest
from .ingest_interface import Destination, list_ingest_patterns, list_paths
from .sources import Source, find_sources
from .worker import Limits
from .worker_pool import WorkerPool

#: The number of sampled files, the time limit in seconds, and the number of texts that embedding is timed on.
MAX_SAMPLE_FILES = 24
SAMPLE_SECONDS = 5.0
MAX_TIMED_TEXTS = 16
#: The approximate number of characters per token (English prose, common vocabularies).
CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Forecast:
    """The forecast of an ingest. Everything from ``sampled`` on is estimated from that many files.

    ``known`` files are unchanged since an earlier ingest, and ``bytes`` counts the others. ``embedder`` is the
    embedder's name, ``tokens`` counts the tokens to embed, and ``calls`` the requests to an endpoint (0 without one).
    ``seconds`` excludes commits, which run in parallel with the workers; None if timing the embedder would need a
    request. ``failures`` are messages about paths and files that cannot be read, and ``left_out`` the elements of the
    sampled pages that are omitted as navigation.
    """

    files: int
    known: int
    bytes: int
    skipped: int
    skipped_by: Mapping[str, int]
    sampled: int
    documents: int
    chunks: int
    embedder: str
    tokens: int
    calls: int
    seconds: float | None
    failures: list[str]
    left_out: list[NavigationSummary] = field(default_factory=list)


@dataclass(slots=True)
class NavigationSummary:
    """An element that is omitted from pages as navigation, such as ``nav.menu``, and the ``reason``.

    ``pages`` is the number of sampled pages with it, ``characters`` its length on all of them, and ``text`` its first
    words on the first page.
    """

    element: str
    reason: str
    pages: int
    characters: int
    text: str


def build_forecast(
    destination: Destination,
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    format: str | None,
    options: Mapping[str, Any],
    include: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
) -> Forecast:
    """Forecast an ingest of ``paths`` into ``destination`` from a sample of the files that it would read.

    ``format``, ``options``, ``include`` and ``exclude`` are the arguments of the ingest. Paths and files that cannot be
    read are listed as failures. Raises the other errors that the ingest would raise before it reads a file.
    """
    files, skipped, failures = _find_files(list_paths(paths), format, *list_ingest_patterns(include, exclude))
    new_files = _select_new_files(destination, files, compute_reading_digest(format, options))
    num_bytes = sum(source.size for source in new_files)
    sample = (  # evenly spaced files
        [new_files[index * len(new_files) // MAX_SAMPLE_FILES] for index in range(MAX_SAMPLE_FILES)]
        if len(new_files) > MAX_SAMPLE_FILES
        else new_files
    )
    start_time = time.monotonic()
    content = _read_sample(destination, sample, format, options)
    seconds = time.monotonic() - start_time
    scale = num_bytes / content.bytes_read if content.bytes_read else 0.0  # from the sample to all new files
    texts = content.texts
    texts_per_request = destination.texts_per_request
    seconds_per_text = None if texts_per_request else _time_embedding(destination, texts)
    return Forecast(
        files=len(files),
        known=len(files) - len(new_files),
        bytes=num_bytes,
        skipped=skipped.total(),
        skipped_by=dict(sorted(skipped.items())),
        sampled=len(sample),
        documents=round(content.documents * scale),
        chunks=round(content.chunks * scale),
        embedder=destination.settings.embedder,
        tokens=round(sum(map(len, texts)) * scale / CHARACTERS_PER_TOKEN),
        calls=math.ceil(round(len(texts) * scale) / texts_per_request) if texts_per_request else 0,
        seconds=None if seconds_per_text is None else scale * (seconds + seconds_per_text * len(texts)),
        failures=failures,
        left_out=sorted(content.left_out.values(), key=lambda part: (-part.characters, part.element, part.reason)),
    )


def _find_files(
    paths: Sequence[str | Path], format: str | None, include: Sequence[str], exclude: Sequence[str]
) -> tuple[list[Source], Counter[str], list[str]]:
    """Return the files that an ingest of ``paths`` would read, the numbers of skipped files by reason, and failures.

    ``include`` and ``exclude`` have patterns for the files in folders, and ``format`` is the format of all files (None:
    by their names). A failure is a message about a path or file that cannot be read.
    """
    files: list[Source] = []
    skipped: Counter[str] = Counter()
    failures: list[str] = []
    for path in paths:
        try:
            path_sources = find_sources([path], format, include, exclude)
        except ReaderError as error:
            failures.append(str(error))
            continue
        files += path_sources.files
        skipped += path_sources.skipped
        failures += [f"{failure.place}: {failure.reason}" for failure in path_sources.failures]
    return files, skipped, failures


@dataclass(slots=True)
class _SampleContent:
    """The content of the sampled files: ``chunks`` and the embedding ``texts`` come from new documents only."""

    bytes_read: float = 0.0
    documents: int = 0
    chunks: int = 0
    texts: list[str] = field(default_factory=list)
    left_out: dict[tuple[str, str], NavigationSummary] = field(default_factory=dict)

    def add(
        self, file_document: FileDocument, settings: FixedSettings, derivations: Sequence[StoredDerivation]
    ) -> None:
        """Count a document of a sampled file; if it is new, also its chunks and the texts to embed.

        These include the texts of ``derivations``, data that the store computes from documents.
        """
        self.documents += 1
        self._add_navigation(file_document)
        if file_document.extracted is not None:
            self.chunks += len(file_document.extracted.chunks)
            document = derive_parts(file_document.extracted, settings, derivations)
            missing_texts = collect_missing_texts(
                document, embedded_spaces=(), settings=settings, derivations=derivations
            )
            self.texts += chain(*missing_texts.values())

    def _add_navigation(self, page: FileDocument) -> None:
        """Add the navigation that was omitted from a page to the summaries, one per HTML element and reason."""
        keys_on_page: set[tuple[str, str]] = set()
        for navigation in page.left_out:
            key = navigation.element, navigation.reason
            new_summary = NavigationSummary(*key, pages=0, characters=0, text=navigation.text)
            summary = self.left_out.setdefault(key, new_summary)
            if key not in keys_on_page:
                summary.pages += 1
            summary.characters += navigation.characters
            keys_on_page.add(key)


def _select_new_files(destination: Destination, files: Sequence[Source], reading_digest: bytes) -> list[Source]:
    """Return the files that are new or changed since an earlier ingest that read files in the same way.

    ``reading_digest`` identifies this way: the format, the options and the versions of kvstore and its readers.
    """
    with destination.open_state() as state:
        records = state.ingested_files
        return [
            file for file in files if not FileVisit(file, reading_digest).matches_record(records.get(file.location))
        ]


def _read_sample(
    destination: Destination, sample: Sequence[Source], format: str | None, options: Mapping[str, Any]
) -> _SampleContent:
    """Read and extract files in a worker for up to ``SAMPLE_SECONDS`` seconds, and return what they contain.

    ``format`` and ``options`` say how files are read. The result has the texts that an ingest would embed.
    """
    content = _SampleContent()
    if not sample:
        return content
    deadline = time.monotonic() + SAMPLE_SECONDS
    job = destination.make_job(format, options, embed=False)
    with destination.open_state() as state:
        derivations = list_maintained_derivations(state.lmdb)
    with WorkerPool(job, sample, ProcessEngine(1), Limits()) as pool:
        items = pool.iter_items()
        for source in sample:
            file_bytes = 0.0
            while (item := next(items)) is not None:  # None ends the items of the file
                if isinstance(item, FileDocument):
                    content.add(item, destination.settings, derivations)
                    if item.extracted is not None:
                        file_bytes += len(item.extracted.text)
                if time.monotonic() > deadline:
                    # The last file counts as read up to the length of its texts, or as a whole without any text.
                    content.bytes_read += min(file_bytes or math.inf, max(1, source.size))
                    return content
            content.bytes_read += source.size
    return content


def _time_embedding(destination: Destination, texts: Sequence[str]) -> float:
    """Return the seconds that the embedder needs per text, measured on a few texts."""
    timed_texts = texts[:MAX_TIMED_TEXTS]
    destination.embed(timed_texts[:1])  # loads the model
    start_time = time.monotonic()
    destination.embed(timed_texts)
    return (time.monotonic() - start_time) / max(1, len(timed_texts))
