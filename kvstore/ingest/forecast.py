"""What an ingest would do: a sample of the files is read, and what it costs is scaled by their bytes.

In: what :func:`kvstore.ingest.pipeline.create_ingestion` takes. On disk: nothing. Out: a :class:`Forecast`. The sample is
read by a worker, for a few seconds at most; embedding is timed on a few of its texts where the embedder runs here, and
an endpoint is not called.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from ..errors import ReaderError
from ..systems.derivation import derive_parts, list_missing_texts
from ..systems.kept_derivations import list_maintained_derivations
from .engines.processes import ProcessEngine
from .file_documents import FileDocument
from .file_visit import FileVisit, compute_reading_digest
from .pipeline import Destination
from .sources import Source, find_sources
from .worker import Limits
from .worker_pool import WorkerPool

#: Files that are read, the seconds that is given, and the texts that embedding is timed on.
MAX_SAMPLE_FILES = 24
SAMPLE_SECONDS = 5.0
MAX_TIMED_TEXTS = 16
#: Tokens of a text are about as many as its characters divided by this (English prose in the usual vocabularies).
CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Forecast:
    """What an ingest would find and do; everything from ``sampled`` on is estimated from that many files.

    ``ingested_files`` files would be passed over, ``bytes`` are those of the others. ``embedder`` is its name, ``tokens`` are
    those of the texts it would get, ``calls`` the requests to an endpoint, 0 where it needs none. ``seconds`` leave out
    the commits, which run beside the workers; None where the embedder cannot be timed without being called.
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
    """What is left out of pages as navigation: an element, why, on how many of the sampled pages, with how many
    characters in all, and how it begins on the first."""

    element: str
    reason: str
    pages: int
    characters: int
    text: str


def build_forecast(
    destination: Destination,
    paths: Sequence[str | Path],
    format: str | None,
    options: Mapping[str, Any],
    include: Sequence[str] = (),
) -> Forecast:
    """Say what an ingest of ``paths`` would do; raises what it would raise before it reads a file."""
    reading_digest = compute_reading_digest(format, options)
    files: list[Source] = []
    failures: list[str] = []
    skipped: Counter[str] = Counter()
    for path in paths:
        try:
            path_sources = find_sources([path], format, include)
        except ReaderError as error:
            failures.append(str(error))
            continue
        files += path_sources.files
        skipped += path_sources.skipped
        failures += [f"{failure.place}: {failure.reason}" for failure in path_sources.failures]
    with destination.open_state() as state:
        ingested_files = state.ingested_files
        new_files = [
            file
            for file in files
            if not FileVisit(file, reading_digest).matches_record(ingested_files.get(file.location))
        ]
    size = sum(source.size for source in new_files)
    sample = (
        [new_files[index * len(new_files) // MAX_SAMPLE_FILES] for index in range(MAX_SAMPLE_FILES)]
        if len(new_files) > MAX_SAMPLE_FILES
        else new_files
    )
    started = time.monotonic()
    left_out: dict[tuple[str, str], NavigationSummary] = {}
    bytes_read, documents, chunks, texts = _read_sample(destination, sample, format, options, failures, left_out)
    seconds = time.monotonic() - started
    scale = size / bytes_read if bytes_read else 0.0
    texts_per_request = destination.texts_per_request
    seconds_per_text = None if texts_per_request else _time_embedding(destination, texts)
    return Forecast(
        len(files),
        len(files) - len(new_files),
        size,
        skipped.total(),
        dict(sorted(skipped.items())),
        len(sample),
        round(documents * scale),
        round(chunks * scale),
        destination.settings.embedder,
        round(sum(map(len, texts)) * scale / CHARACTERS_PER_TOKEN),
        -(-round(len(texts) * scale) // texts_per_request) if texts_per_request else 0,
        None if seconds_per_text is None else scale * (seconds + seconds_per_text * len(texts)),
        failures,
        sorted(left_out.values(), key=lambda part: (-part.characters, part.element, part.reason)),
    )


def _read_sample(
    destination: Destination,
    sample: Sequence[Source],
    format: str | None,
    options: Mapping[str, Any],
    failures: list[str],
    left_out: dict[tuple[str, str], NavigationSummary],
) -> tuple[float, int, int, list[str]]:
    """Bytes read of a sample, the documents in it, and of those that are new the chunks and the texts to embed."""
    if not sample:
        return 0.0, 0, 0, []
    deadline = time.monotonic() + SAMPLE_SECONDS
    bytes_read, documents, chunks = 0.0, 0, 0
    texts: list[str] = []
    job = destination.make_job(format, options, embed=False)
    with destination.open_state() as state:
        derivations = list_maintained_derivations(state.lmdb)
    with WorkerPool(job, sample, ProcessEngine(1), Limits()) as pool:
        items = pool.iter_items()
        for source in sample:
            file_bytes = 0.0
            while (item := next(items)) is not None:
                if isinstance(item, FileDocument):
                    documents += 1
                    _add_left_out(left_out, item)
                    if item.extracted is not None:
                        file_bytes += len(item.extracted.text)
                        chunks += len(item.extracted.chunks)
                        document = derive_parts(item.extracted, destination.settings, derivations)
                        texts += chain(*list_missing_texts(document, (), destination.settings, derivations).values())
                if time.monotonic() > deadline:
                    # What gave nothing in that time is likely to be read.
                    return bytes_read + min(file_bytes or math.inf, max(1, source.size)), documents, chunks, texts
            bytes_read += source.size
    return bytes_read, documents, chunks, texts


def _add_left_out(left_out: dict[tuple[str, str], NavigationSummary], page: FileDocument) -> None:
    seen: set[tuple[str, str]] = set()
    for part in page.left_out:
        name = part.element, part.reason
        summary = left_out.setdefault(name, NavigationSummary(*name, 0, 0, part.text))
        summary.pages += name not in seen
        summary.characters += part.characters
        seen.add(name)


def _time_embedding(destination: Destination, texts: Sequence[str]) -> float:
    """How long embedding takes, once the embedder is loaded."""
    timed_texts = texts[:MAX_TIMED_TEXTS]
    destination.embed(timed_texts[:1])
    started = time.monotonic()
    destination.embed(timed_texts)
    return (time.monotonic() - started) / max(1, len(timed_texts))
