"""The documents that an ingest commits together, and when they are enough for a commit."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from ..extraction.extraction import ExtractedDocument
from ..structures.vectors.vectors import Matrix

#: The number of chunks or documents at which a batch is committed. In a large store the limit is the number of its
#: chunks divided by ``STORE_DIVISOR``, up to a maximum. A commit writes every page that it changes, and the changes of
#: a few hundred chunks touch half of the pages; a batch eight times as large writes only twice as much.
BATCH_CHUNKS = 512
BATCH_DOCUMENTS = 512
STORE_DIVISOR = 16
MAX_BATCH_SIZE = 4096
#: Batches that workers have already embedded wait this many seconds for more, up to the maximum. New names are then
#: searched in older texts only a few times instead of at every few hundred chunks. An interruption loses no more than
#: these seconds.
MAX_WAIT_SECONDS = 5.0
#: A batch is committed before it uses more memory than this. An extracted chunk and a byte of text were measured to use
#: no more than the amounts below, without the vectors.
BATCH_BYTES = 1 << 26
BYTES_PER_EXTRACTED_CHUNK = 4096
BYTES_PER_EXTRACTED_BYTE = 40


class BatchedDocument(NamedTuple):
    """A document to commit, its vectors by name of the space if they are known, and its origin.

    The origin is the folder in which its file was found, or None.
    """

    extracted: ExtractedDocument
    vectors: Mapping[str, Matrix]
    origin: str | None


class DocumentBatch:
    """The new and changed documents for the next commit of an ingest."""

    def __init__(self) -> None:
        """Create an empty batch."""
        self.documents: list[BatchedDocument] = []
        self.num_chunks = 0
        self._text_bytes = 0
        self._start_time = 0.0  # the arrival time of the first document
        #: True if all documents already have vectors, or need none.
        self._is_embedded = True

    def add(self, document: BatchedDocument) -> None:
        """Add a document."""
        if not self.documents:
            self._start_time = time.monotonic()
        self._is_embedded &= bool(document.vectors or not document.extracted.chunks)
        self.documents.append(document)
        self.num_chunks += len(document.extracted.chunks)
        self._text_bytes += len(document.extracted.text)

    def is_full(self, stored_chunks: int, dimension: int, seconds_left: float | None) -> bool:
        """True if the batch is large enough to commit.

        The limits grow with ``stored_chunks``, the number of chunks in the store, whose vectors have ``dimension``
        components. ``seconds_left`` is the estimated time left of the ingest (None: unknown).
        """
        size_limit = min(stored_chunks // STORE_DIVISOR, MAX_BATCH_SIZE)  # in chunks, and also in documents
        # A few seconds of waiting for more documents save commits, each of which searches older texts for new names.
        # The wait shrinks toward the end, because workers run in parallel with every commit except the last one.
        max_wait = MAX_WAIT_SECONDS if seconds_left is None else min(MAX_WAIT_SECONDS, seconds_left)
        if self._is_embedded and time.monotonic() < self._start_time + max_wait:
            size_limit = MAX_BATCH_SIZE
        chunk_bytes = BYTES_PER_EXTRACTED_CHUNK + 4 * dimension  # with a vector of 32-bit floats
        memory_bytes = BYTES_PER_EXTRACTED_BYTE * self._text_bytes + chunk_bytes * self.num_chunks  # an estimate
        return (
            len(self.documents) >= max(BATCH_DOCUMENTS, size_limit)
            or self.num_chunks >= max(BATCH_CHUNKS, size_limit)
            or memory_bytes >= BATCH_BYTES
        )
