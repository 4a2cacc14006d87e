"""The first documents of a store, which are linked to the names in them only after the last one has arrived.

In: documents as they are stored. Out: the same documents in batches, read from the store again, to be linked. With all
names known, each text is searched for names only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from ..structures.documents.documents import DocumentRecord, Section
from ..structures.state import State

#: The number of chunks linked together, of documents whose linking was deferred. Each takes 20 kB of memory.
_MAX_LINKED_CHUNKS = 1024
#: The number of batches whose postings are written together, because most terms occur in every batch.
_BATCHES_PER_FLUSH = 4


@dataclass(slots=True)
class UnlinkedDocuments:
    """The unlinked documents of a store's first load, in batches that are linked together.

    ``batches`` have their ids with the names of their languages. The documents of a batch, with about
    :data:`_MAX_LINKED_CHUNKS` chunks, are linked together.
    """

    batches: list[dict[int, str | None]] = field(default_factory=list)
    #: The number of chunks in the last batch, and the number of batches when a flush was last due.
    _batch_chunks: int = _MAX_LINKED_CHUNKS
    _num_batches_flushed: int = 0

    def add(self, document: int, language: str | None, num_chunks: int) -> None:
        """Add an unlinked document (an id), with its language, to the last batch of documents to link together.

        If that batch has enough chunks already, begin another.
        """
        if self._batch_chunks >= _MAX_LINKED_CHUNKS:
            self.batches.append({})
            self._batch_chunks = 0
        self.batches[-1][document] = language
        self._batch_chunks += num_chunks

    def begin_flush_if_due(self) -> bool:
        """If enough batches were added since the last flush of their postings, record a new flush and return True.

        The caller must then write the postings. Otherwise, return False.
        """
        if len(self.batches) < self._num_batches_flushed + _BATCHES_PER_FLUSH:
            return False
        self._num_batches_flushed = len(self.batches)
        return True


class UnlinkedDocument(NamedTuple):
    """A stored document that is not linked to names yet: the arguments of :meth:`.Linker.link_document`."""

    record: DocumentRecord
    sections: list[Section]
    #: The text of each chunk, and its section.
    chunks: Iterable[tuple[str, int]]
    parts: Mapping[str, Any]
    language: str | None


def iter_unlinked_documents(
    state: State, languages: Mapping[int, str | None], read_derived_parts: Callable[[int], Mapping[str, Any]]
) -> Iterator[UnlinkedDocument]:
    """Yield documents as the input for linking them to the names in their texts, in the order of ``languages``.

    Their texts are read together. ``languages`` has the name of the language of each document, by id.
    ``read_derived_parts`` takes a document id, and returns what each derivation computed from it, by name.
    """
    records, sections_by_document = state.documents.get_many(languages), state.documents.get_sections_many(languages)
    stored_chunks = iter(state.chunks.get_many([chunk for record in records.values() for chunk in record.chunk_ids()]))
    chunks_by_document = {
        document: list(islice(stored_chunks, records[document].chunk_count)) for document in languages
    }
    texts = state.documents.read_text_slices(
        {
            document: [(chunk.start, chunk.end) for chunk in document_chunks]
            for document, document_chunks in chunks_by_document.items()
        }
    )
    for document, document_chunks in chunks_by_document.items():
        chunks = zip(texts[document], (chunk.section for chunk in document_chunks), strict=True)
        parts = read_derived_parts(document)
        yield UnlinkedDocument(
            records[document], sections_by_document[document], chunks=chunks, parts=parts, language=languages[document]
        )
