"""Write and remove the content of documents: records, texts, outlines, abstracts, chunks and derived parts. An
*abstract* is a summary; a *leaf* abstract summarizes one *group* of chunks. A *part* is what a *derivation*, such as
the splitting into sentences, computes from one document.

In: extracted documents with their vectors, and the records of stored ones. On disk: the tables of these data, but not
the names in a document and the links to them. All counters of the content are updated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

from ..extraction.abstracts import AbstractTree
from ..extraction.extraction import ExtractedDocument
from ..extraction.validation import pack_chunks
from ..registry.derivation import list_stored_derivations
from ..settings import FixedSettings
from ..storage.view import WriteView
from ..structures.counters import Counters
from ..structures.derived_parts import DerivedPartWriter
from ..structures.documents.chunks import AbstractWriter, ChunkRecord, ChunkWriter
from ..structures.documents.documents import (
    DocumentRecord,
    DocumentWriter,
    Section,
    build_heading_path,
    get_current_second,
)
from ..structures.postings import PostingWriter
from ..structures.state import State
from ..structures.vectors.vectors import CHUNK_VECTORS, Matrix, VectorWriter
from ..text.languages import choose_stemmer_language
from ..text.words import count_chunk_terms, get_document_stemmer
from .pending import EmbeddedPart, PendingDocument


class DocumentContentWriter:
    """Writes and removes the content of documents within one write transaction."""

    def __init__(self, view: WriteView, settings: FixedSettings, counters: Counters) -> None:
        """Open a writer for each kind of content on ``view``, a write transaction; ``counters`` are updated."""
        self._settings = settings
        self._counters = counters
        self.documents = DocumentWriter(view)
        self._chunks = ChunkWriter(view)
        self._abstracts = AbstractWriter(view, self.documents)
        self.postings = PostingWriter(view)
        self._vectors = VectorWriter(view, settings.dimension)
        self._derived_writers = [
            (stored_derivation, DerivedPartWriter(view, stored_derivation.derivation, settings.dimension))
            for stored_derivation in list_stored_derivations(view)
        ]

    def share_writers(self, state: State) -> None:
        """Make ``state`` read through these writers, whose changes are not all in the transaction yet."""
        state.documents, state.chunks, state.abstracts = self.documents, self._chunks, self._abstracts
        state.postings, state.vectors = self.postings, self._vectors
        state.derived_parts = {
            stored_derivation.name: part_writer for stored_derivation, part_writer in self._derived_writers
        }

    def flush_vectors(self) -> None:
        """Write the changed blocks of vectors (of chunks and of data derived from documents) to the transaction."""
        for vectors in (self._vectors, *(part_writer.vectors for _, part_writer in self._derived_writers)):
            vectors.flush()

    def store(self, pending: PendingDocument) -> tuple[DocumentRecord, list[Section]]:
        """Write and count a new document with its chunks, abstracts and parts; return its record and sections.

        Parts of a derivation that is being dropped are not written.
        """
        extracted, counters = pending.extracted, self._counters
        # Chunks are numbered in groups, one per leaf abstract (lowest summary); _store_abstracts advances next_group.
        document, first_group = counters.next_document, counters.next_group
        counters.next_document += 1
        abstract_ids = self._store_abstracts(document, extracted.tree)
        record = _build_record(document, pending, first_group, abstract_ids)
        # A section extracted from a text has the index of its abstract among the abstracts of the document.
        sections = [replace(section, abstract=abstract_ids[section.abstract]) for section in extracted.sections]
        self.documents.put(record, extracted.text, sections)
        self._store_chunks(record, extracted, pending.vectors[CHUNK_VECTORS.name])
        for stored_derivation, part_writer in self._derived_writers:
            if stored_derivation.is_maintained:
                part_writer.put(
                    document, extracted.parts[stored_derivation.label], pending.vectors[stored_derivation.label]
                )
        counters.documents += 1
        language = choose_stemmer_language(self._settings.stemmer, extracted.meta, extracted.text)
        if language is not None:
            counters.change_language_count(language, change=1)
        counters.text_bytes += record.size
        return record, sections

    def _store_abstracts(self, document: int, tree: AbstractTree | None) -> list[int]:
        """Write the abstracts (summaries) of a new document, and return their ids: the leaves, then those above them.

        ``tree`` is None for a document without chunks. The ids are the next ones of the counters, which are increased.
        """
        if tree is None:
            return []
        counters, num_leaves = self._counters, len(tree.leaf_sizes)
        abstract_records = tree.build_records(document, counters.next_group, counters.next_upper)
        counters.next_group += num_leaves  # the id of a leaf is the number of its group of chunks
        counters.next_upper += len(abstract_records) - num_leaves
        counters.abstracts += len(abstract_records)
        for abstract, abstract_record in abstract_records.items():
            self._abstracts.put(abstract, abstract_record)
        return list(abstract_records)

    def _store_chunks(self, record: DocumentRecord, extracted: ExtractedDocument, vectors: Matrix) -> None:
        """Write and count the chunks of a new document, with their postings and ``vectors``, one per chunk."""
        counters = self._counters
        for ordinal, (chunk, draft) in enumerate(zip(record.chunk_ids(), extracted.chunks, strict=True)):
            block, row = self._vectors.add(chunk, vectors[ordinal], counters.next_vector_block)
            # The block is a new one if all others were full.
            counters.next_vector_block = max(counters.next_vector_block, block + 1)
            chunk_record = ChunkRecord(
                document=record.id,
                start=draft.start,
                end=draft.end,
                ordinal=ordinal,
                section=draft.section,
                words=draft.length,
                block=block,
                row=row,
            )
            self._chunks.put(chunk, chunk_record)
            self.postings.add(chunk, draft.terms, draft.length)
            counters.words += draft.length
        counters.chunks += record.chunk_count

    def remove(self, documents: Sequence[DocumentRecord]) -> None:
        """Remove the content of documents, and update the counters; the names in them must be unlinked already."""
        self._remove_chunks(documents)
        for record in documents:
            for stored_derivation, part_writer in self._derived_writers:
                # has_part is False for an index that is being dropped, which can still have a part of this document.
                if stored_derivation.has_part(record.id) or part_writer.find(record.id) is not None:
                    part_writer.remove(record.id)
        self._abstracts.remove(abstract for record in documents for abstract in record.iter_abstract_ids())
        self.documents.remove(documents)
        self._counters.documents -= len(documents)
        self._counters.text_bytes -= sum(record.size for record in documents)
        self._counters.abstracts -= sum(len(record.groups) + len(record.uppers) for record in documents)

    def _remove_chunks(self, documents: Sequence[DocumentRecord]) -> None:
        """Remove the chunks of documents with their postings and vectors, and update the counters."""
        chunks = [chunk for record in documents for chunk in record.chunk_ids()]
        stored_chunks = iter(zip(chunks, self._chunks.get_many(chunks), strict=True))
        ids = [record.id for record in documents]
        sections_by_document = self.documents.get_sections_many(ids)
        for record, text in zip(documents, self.documents.iter_texts(ids), strict=True):
            sections = sections_by_document[record.id]
            language = choose_stemmer_language(self._settings.stemmer, record.meta, text)
            stem = get_document_stemmer(self._settings.stemmer, language)
            if language is not None:
                self._counters.change_language_count(language, change=-1)
            for chunk, chunk_record in islice(stored_chunks, record.chunk_count):
                chunk_text = text[chunk_record.start : chunk_record.end].decode()
                path = build_heading_path(sections, chunk_record.section)
                self.postings.remove(chunk, count_chunk_terms(record.title, path, chunk_text, stem).keys())
                self._vectors.remove(chunk_record.block, chunk_record.row)
                self._counters.words -= chunk_record.words
        self._chunks.remove(chunks)
        self._counters.chunks -= len(chunks)

    def replace_parts(self, key: str, new_parts: Mapping[str, EmbeddedPart]) -> None:
        """Replace the parts of a stored document that depend on changed facts; do nothing if the document is missing.

        ``key`` is the document's key, and ``new_parts`` has the new parts by the label (name and options) of their
        derivation.
        """
        record = self.documents.find_by_key(key)
        for stored_derivation, part_writer in self._derived_writers:
            if record is not None and stored_derivation.label in new_parts and stored_derivation.has_part(record.id):
                part_writer.remove(record.id)
                part_writer.put(record.id, *new_parts[stored_derivation.label])


def _build_record(document: int, pending: PendingDocument, first_group: int, abstract_ids: list[int]) -> DocumentRecord:
    """Return the record of a new document with the id ``document``.

    ``first_group`` is the number of its first group of chunks, and ``abstract_ids`` has its summaries (abstracts), the
    leaves first.
    """
    extracted = pending.extracted
    # A group has the chunks below one leaf abstract.
    groups = extracted.tree.leaf_sizes if extracted.tree else []
    return DocumentRecord(
        id=document,
        key=extracted.key,
        title=extracted.title,
        source=extracted.source,
        format=extracted.format,
        meta=extracted.meta,
        digest=extracted.digest,
        size=len(extracted.text),
        changed_at=get_current_second() if pending.changed_at is None else pending.changed_at,
        first_group=first_group,
        groups=groups,
        uppers=abstract_ids[len(groups) :],
        own_vectors=pending.own_vectors,
        origin=pending.origin,
        left_out=extracted.left_out,
        own_chunks=pack_chunks(extracted.own_chunks),
    )
