"""The reading of sources (files), in this process or by workers. An *item* of a source is a document, a fact about a
stored document, a failure or a skipped part. The settings of a new store are chosen by the language of its first
documents.

In: sources, in order. On disk: only the settings that a new store takes from the language of its first documents. Out:
the documents, facts, skipped parts and failures of each source.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

from ..extraction.validation import ValidDocument
from ..models.language import RULES
from ..readers import find_format, get_trusted_size
from .document_languages import FIRST_DOCUMENTS, DocumentLanguages
from .engines import PROCESSES, start_engine
from .file_documents import (
    FileDocument,
    FileItem,
    NewDocument,
    ReadItem,
    extract_batch,
    read_documents,
    split_into_batches,
)
from .ingest_interface import Destination
from .sources import Source
from .worker import Limits

#: By default an ingest starts workers only for this many bytes of files; for less, starting them costs more than it
#: saves. A worker always reads a file that is larger than its reader is trusted with.
MIN_BYTES_FOR_WORKERS = 1 << 20
#: The maximum number of workers: each holds models. The default is the number of processors minus the writer's.
MAX_WORKERS = 4


@dataclass(slots=True)
class SourceReader:
    """The reader of the sources of one ingest: it reads and extracts them in this process or by workers.

    ``format`` and ``options`` are those of the readers. ``engine`` names where workers run, and ``limits`` restrict the
    memory of each and the time for a file. ``workers`` is None if the size of the files or the engine decides, and 0
    for this process. Workers can also embed the texts.
    """

    destination: Destination
    format: str | None
    options: Mapping[str, Any]
    workers: int | None
    engine: str
    limits: Limits
    #: Settings that a new store took from the language of its first documents.
    chosen_settings: dict[str, str] = field(default_factory=dict)

    def iter_items(self, sources: Sequence[Source]) -> Generator[FileItem | None, None, None]:
        """Yield the items of each source (file) in order, and None at the end of each source.

        The documents are extracted. The caller advances the generator once more after the last source, which releases
        the workers.
        """
        if not sources:
            return
        num_workers = self.workers
        embed_in_workers = True
        if num_workers is None and self.engine == PROCESSES:
            num_workers, embed_in_workers = self._estimate_workers(sources)
        if num_workers == 0:
            yield from self._iter_in_process(sources)
        else:
            yield from self._iter_with_workers(sources, num_workers, embed_in_workers)

    def _iter_with_workers(
        self, sources: Sequence[Source], num_workers: int | None, embed: bool
    ) -> Generator[FileItem | None, None, None]:
        """Yield the items of each source, which workers read, and None at its end.

        The documents are extracted. One more None follows the last source, so that the caller can commit while the
        workers are released. If ``num_workers`` is None, the engine runs as many workers as it can. If ``embed``, they
        also compute vectors, if possible.
        """
        from .worker_pool import WorkerPool

        self._decide_settings(self._iter_sample(sources[:FIRST_DOCUMENTS]))
        with start_engine(self.engine, num_workers, self.destination.open_state) as engine:
            # Keys and addresses of endpoints may exist only in the ingesting process.
            embed = embed and (self.engine == PROCESSES or not self.destination.texts_per_request)
            job = self.destination.make_job(self.format, self.options, embed=embed)
            with WorkerPool(job, sources, engine, self.limits) as pool:
                yield from pool.iter_items()
            engine.release()
            yield None  # the end of the ``with`` block waits for the release

    def _iter_in_process(self, sources: Sequence[Source]) -> Generator[FileItem | None, None, None]:
        """Read the sources in this process; yield the items of each source, and None at its end.

        The documents are extracted. The settings of a new store are chosen before the first item.
        """
        items = self._read_sources(sources)
        first_items: list[ReadItem] = []

        def iter_first_documents() -> Generator[ValidDocument, None, None]:
            """Yield the first documents, and add all items read for them to ``first_items``."""
            # A file with one document has two items: the document and the end.
            for source_index, item in islice(items, 2 * FIRST_DOCUMENTS):
                first_items.append((source_index, item))
                if isinstance(item, NewDocument):
                    yield item.validated

        self._decide_settings(iter_first_documents())
        for batch in split_into_batches(chain(first_items, items)):
            for _, extracted_item in extract_batch(batch, self.destination.settings):
                yield extracted_item

    def _decide_settings(self, documents: Generator[ValidDocument, None, None]) -> None:
        """Give a new store the settings that fit the languages of its first documents, before they are extracted.

        The settings are recorded in ``chosen_settings``, which is empty if the store is not new. ``documents`` is
        closed before they are written, because they cannot be written while a worker that reads documents runs.
        """

        def choose() -> dict[str, str]:
            """Return the settings that fit the documents; called only if the store is new."""
            languages = DocumentLanguages()
            with closing(documents):
                for document in documents:
                    languages.add(document)
                    if languages.is_full:
                        break
            return languages.choose_settings()

        self.chosen_settings = self.destination.decide_settings(choose)

    def _iter_sample(self, sources: Sequence[Source]) -> Generator[ValidDocument, None, None]:
        """Yield the documents of ``sources``, the first files, from which the settings of a new store are chosen.

        They are read in this process or, if a reader might crash, in a worker. The ingest then reads the files again.
        """
        if not any(map(self._is_risky, sources)):  # no worker is needed
            for _, item in self._read_sources(sources):
                if isinstance(item, NewDocument):
                    yield item.validated
            return
        from .engines.processes import ProcessEngine
        from .worker_pool import WorkerPool

        job = self.destination.make_job(self.format, self.options, embed=False)
        job = replace(job, settings=replace(job.settings, language=RULES))  # only the texts are needed
        with WorkerPool(job, sources, ProcessEngine(1), self.limits) as pool:
            for item in pool.iter_items():
                if isinstance(item, FileDocument) and item.extracted is not None:
                    yield item.extracted

    def _read_sources(self, sources: Sequence[Source]) -> Iterator[ReadItem]:
        """Read the sources; yield (index of the source, item) for each item, and (index, None) at the source's end.

        New documents are not extracted yet.
        """
        for source_index, source in enumerate(sources):
            for item in read_documents(source, self.format, self.options, self.get_stored_digest):
                yield source_index, item
            yield source_index, None

    def get_stored_digest(self, key: str) -> bytes | None:
        """Return the digest of the stored document with this key, or None if it is not stored."""
        with self.destination.open_state() as state:
            record = state.documents.find_by_key(key)
        return None if record is None else record.digest

    def _estimate_workers(self, sources: Sequence[Source]) -> tuple[int, bool]:
        """Return the number of workers for the files, and True if the workers should also embed.

        Few small files need one worker, which does not load the embedder, if a reader could fail on them. Otherwise the
        number is 0.
        """
        num_bytes = 0
        has_risky_file = False
        for source in sources:
            num_bytes += source.size
            if num_bytes >= MIN_BYTES_FOR_WORKERS:
                return max(1, min(MAX_WORKERS, (os.cpu_count() or 1) - 1, len(sources))), True
            has_risky_file = has_risky_file or self._is_risky(source)
        return int(has_risky_file), False

    def _is_risky(self, source: Source) -> bool:
        """True if the reader of a file could hang or crash, so that a worker must read it.

        A reader is trusted with files of its format up to a certain size.
        """
        return source.size > get_trusted_size(source.format or self.format or find_format(source.name))
