"""The graph of chunks and entities as a structure: its maintenance, its dump, and its statistics for SHOW STATS. The
*row* of a chunk has an edge to each entity that it mentions; its *mention bits* say how. A *link* joins two entities. A
*delta* describes changes of documents, names and links.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat

from ...registry.contract import AddedChunk, Delta, DumpRow, LmdbTable, load_added_chunks
from ...storage.view import WriteView
from ...structures.documents.document_triples import EntityPair
from ...structures.documents.documents import DocumentRecord, Section
from ...structures.logical import LogicalNames
from ...structures.state import State
from .edges import TITLE_LINK, EdgeRow
from .graph import (
    CHUNKS_PER_BATCH,
    ENTITY_DEGREES,
    ENTITY_LINKS,
    ENTITY_PASSAGES,
    PASSAGE_ENTITIES,
    GraphWriter,
    PassageGraph,
)
from .restricted_graph import RestrictedPassageGraph
from .rows import DocumentRows, encode_mention_counts, find_title_pair, find_unmentioned_pairs, list_triple_pairs


class GraphMaintainer:
    """The writer of the graph: rebuilds the rows of all chunks whose mentions, title, headings or triples changed."""

    def __init__(self, state: State, write: WriteView) -> None:
        """Create a writer of the graph of ``state`` in the transaction ``write``; there are no pending changes yet."""
        self._state = state
        self._graph = GraphWriter(write)
        self._removed_chunks: list[int] = []

    def remove_document(self, record: DocumentRecord) -> None:
        """Collect the removal of a document's chunks, and of the link between the two forms of its title.

        The second form lacks the part in parentheses at the end. :meth:`apply_delta` writes both changes.
        """
        self._removed_chunks.extend(record.chunk_ids())
        self._change_title_link(record, -1)

    def apply_delta(self, delta: Delta) -> None:
        """Write the changes of edges, links and degrees (chunk counts of entities) that follow from ``delta``.

        The delta has new documents, and changes of stored chunks: in ``removed_mentions`` the entities that a chunk no
        longer mentions, in ``changed_mentions`` all other changes of mentions, in ``changed_headings`` the documents
        with other names in their titles and headings, and in ``changed_chunks`` the chunks with several of these
        changes, or with changed triples. Removals, which :meth:`remove_document` collected, are written too.
        """
        if delta.removed_mentions:
            self._graph.remove_entities(delta.removed_mentions)
        self._graph.put_chunks({chunk: {} for chunk in self._removed_chunks})
        self._removed_chunks.clear()
        for link, change in delta.links.items():
            self._graph.change_link(*link, change)
        whole_documents = [*(added_document.record for added_document in delta.added), *delta.changed_headings]
        changed_ids = chain(delta.changed_chunks, delta.changed_mentions, (record.id for record in whole_documents))
        pairs_by_document = list_triple_pairs(self._state, changed_ids)
        rows: dict[int, EdgeRow] = {}
        for added_document in delta.added:
            self._change_title_link(added_document.record, 1)
            pairs = pairs_by_document.get(added_document.record.id, [])
            rows |= self._build_rows(added_document.record, added_document.sections, added_document.chunks, pairs)
        for document in sorted(delta.changed_chunks):
            loaded_chunks = load_added_chunks(self._state, document, sorted(delta.changed_chunks[document]))
            rows |= self._build_rows_of_stored_document(document, loaded_chunks, pairs_by_document.get(document, []))
        self._put_changed_mentions(delta, pairs_by_document, rows)
        self._put_changed_headings(delta, pairs_by_document, rows)
        self._graph.put_chunks(rows)
        self._graph.flush(expect_more=delta.expect_more)

    def _put_changed_mentions(
        self, delta: Delta, pairs_by_document: Mapping[int, list[EntityPair]], rows: dict[int, EdgeRow]
    ) -> None:
        """Write how the chunks in ``delta.changed_mentions`` now mention their entities; only their mentions changed.

        If triples of a document connect entities (``pairs_by_document``), the rows of its chunks are built again, and
        added to ``rows``: which chunks mention a triple depends on the mentions in all chunks of the document.
        """
        mention_counts: dict[int, EdgeRow] = {}
        for document in sorted(delta.changed_mentions):
            chunks = delta.changed_mentions[document]
            if document in pairs_by_document:
                rows |= self._build_rows_of_stored_document(document, chunks, pairs_by_document[document])
            else:
                mention_counts |= {chunk.id: encode_mention_counts(chunk) for chunk in chunks}
            if len(mention_counts) >= CHUNKS_PER_BATCH:
                self._graph.put_mentions(mention_counts, delta.names_removed.keys())
                mention_counts = {}
        if mention_counts:
            self._graph.put_mentions(mention_counts, delta.names_removed.keys())

    def _put_changed_headings(
        self, delta: Delta, pairs_by_document: Mapping[int, list[EntityPair]], rows: dict[int, EdgeRow]
    ) -> None:
        """Write the names in the titles and headings of ``delta.changed_headings`` to the rows of the chunks below.

        The rows of a document with triples (``pairs_by_document``) are built again, as in
        :meth:`_put_changed_mentions`.
        """
        heading_flags: dict[int, EdgeRow] = {}
        sections_by_document = self._state.documents.get_sections_many(record.id for record in delta.changed_headings)
        for record in delta.changed_headings:
            chunks, sections = list(record.chunk_ids()), sections_by_document[record.id]
            if record.id in pairs_by_document:
                loaded_chunks = load_added_chunks(self._state, record.id, chunks)
                rows |= self._build_rows(record, sections, loaded_chunks, pairs_by_document[record.id])
                continue
            chunk_sections = [chunk.section for chunk in self._state.chunks.get_many(chunks)] if sections else None
            # Without texts and mentions, the rows have only the names in the title and headings.
            headed_chunks = [
                AddedChunk(chunk, b"", section, [])
                for chunk, section in zip(chunks, chunk_sections or repeat(-1), strict=False)
            ]
            heading_flags |= self._build_rows(record, sections, headed_chunks, [])
        if heading_flags:
            self._graph.put_headings(heading_flags, delta.names_removed.keys())

    def _build_rows_of_stored_document(
        self, document: int, chunks: Sequence[AddedChunk], pairs: Sequence[EntityPair]
    ) -> dict[int, EdgeRow]:
        """Return the edges of each of the ``chunks`` of a stored document, by chunk id.

        An edge says that the chunk mentions an entity, and how often and where. ``pairs`` are the pairs of entities
        that triples of the document connect.
        """
        documents = self._state.documents
        return self._build_rows(documents.get(document), documents.get_sections(document), chunks, pairs)

    def _build_rows(
        self, record: DocumentRecord, sections: list[Section], chunks: Sequence[AddedChunk], pairs: Sequence[EntityPair]
    ) -> dict[int, EdgeRow]:
        """Return the edges of each of the ``chunks`` of a document, by chunk id.

        An edge says that the chunk mentions an entity, and how often and where. ``sections`` are the sections of the
        document, and ``pairs`` the pairs of entities that its triples connect.
        """
        unmentioned_pairs = (
            find_unmentioned_pairs(pairs, self._state.mentions.get_occurrences_many(record.chunk_ids()))
            if pairs
            else set()
        )
        rows = DocumentRows(
            record, sections, pairs=pairs, entity_filter=self._state.filter, max_words=self._state.settings.name_words
        )
        return {chunk.id: rows.build_row(chunk, unmentioned_pairs) for chunk in chunks}

    def _change_title_link(self, record: DocumentRecord, change: int) -> None:
        """Add ``change`` (1 or -1) to the count of the link between a document's title and its short form.

        The short form is the title without the part in parentheses at its end. Does nothing if there is no such part,
        or if the document has no chunks.
        """
        if not record.title or not record.groups:
            return
        pair = find_title_pair(record.title, self._state.settings.name_words)
        if pair is not None:
            full_title, short_title = map(int, self._state.filter.find_entities(pair))
            self._graph.change_link(full_title, short_title, TITLE_LINK, change)


class GraphStructure:
    """The graph as a structure of the store."""

    name = "passage_graph"
    version = 3
    tables = (
        LmdbTable(PASSAGE_ENTITIES),
        LmdbTable(ENTITY_PASSAGES),
        LmdbTable(ENTITY_DEGREES),
        LmdbTable(ENTITY_LINKS),
    )
    make_maintainer = GraphMaintainer

    def read(self, state: State) -> PassageGraph:
        """Return the graph of ``state``, limited to the documents that the query allows if the state is restricted."""
        return PassageGraph(state.lmdb) if state.allowed is None else RestrictedPassageGraph(state)

    def dump(self, content: PassageGraph, names: LogicalNames) -> Mapping[str, Iterable[DumpRow]]:
        """Return the rows of each table of the graph, with names, keys and ordinals in place of internal ids.

        ``content`` is the graph, and ``names`` converts the ids.
        """
        return {
            PASSAGE_ENTITIES: (
                (names.name_chunk(chunk), names.name_entity(entity), mention_bits)
                for chunk, row in content.iter_chunk_rows()
                for entity, mention_bits in row.items()
            ),
            ENTITY_PASSAGES: (
                (names.name_entity(entity), names.name_chunk(chunk), mention_bits)
                for entity, chunk, mention_bits in content.iter_block_list_edges()
            ),
            ENTITY_DEGREES: (
                (
                    names.name_entity(degree.entity),
                    degree.total,
                    degree.informative,
                    degree.has_links,
                    names.name_chunk(degree.only_chunk) if degree.only_chunk else None,
                    degree.mention_bits,
                )
                for degree in content.iter_degrees()
            ),
            ENTITY_LINKS: (
                (names.name_entity(entity), names.name_entity(link.other), link.kind, link.multiplicity)
                for entity, link in content.iter_links()
            ),
        }

    def compute_statistics(self, content: PassageGraph) -> Mapping[str, int]:
        """Return the numbers of chunks, and of links between entities, in the graph, for SHOW STATS."""
        return content.count_records()


GRAPH = GraphStructure()
