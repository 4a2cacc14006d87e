"""The graph of chunks and entities as a structure: what maintains it, what the dump and SHOW STATS say of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...storage.view import WriteView
from ...structures.documents.document_triples import EntityPair
from ...structures.documents.documents import DocumentRecord, Section
from ...structures.logical import Logical
from ...structures.state import State
from ..contract import AddedChunk, Delta, DumpRow, LmdbTable, stored_chunks
from .edges import TITLE_LINK, EdgeRow
from .graph import (
    ENTITY_HEADS,
    ENTITY_LINKS,
    ENTITY_PASSAGES,
    PASSAGE_ENTITIES,
    TOGETHER,
    GraphWriter,
    PassageGraph,
)
from .restricted_graph import RestrictedPassageGraph
from .rows import DocumentRows, count_mentions, find_title_pair, list_stated_pairs, unmentioned


class GraphMaintainer:
    """Makes the rows of all chunks anew of which a mention, title, heading or triple has changed."""

    def __init__(self, state: State, write: WriteView) -> None:
        self._state = state
        self._graph = GraphWriter(write)
        self._gone: list[int] = []

    def leaving(self, record: DocumentRecord) -> None:
        self._gone.extend(record.chunk_ids())
        self._change_title_link(record, -1)

    def follow(self, delta: Delta) -> None:
        self._graph.forget(delta.unnamed)
        self._graph.put_chunks({chunk: {} for chunk in self._gone})
        self._gone.clear()
        for link, change in delta.links.items():
            self._graph.change_link(*link, change)
        rows: dict[int, EdgeRow] = {}
        for record, outline, chunks, _ in delta.added:
            self._change_title_link(record, 1)
            rows |= self._rows(record, outline, chunks, list_stated_pairs(self._state, record.id))
        for document in sorted(delta.touched):
            chunks = stored_chunks(self._state, document, sorted(delta.touched[document]))
            rows |= self._stored_rows(document, chunks, list_stated_pairs(self._state, document))
        counts: dict[int, EdgeRow] = {}
        for document in sorted(delta.mentioned):
            pairs = list_stated_pairs(self._state, document)
            if pairs:  # which of them a chunk belongs to follows from its mentions, and from those of other chunks
                rows |= self._stored_rows(document, delta.mentioned[document], pairs)
            else:
                counts |= {chunk.id: count_mentions(chunk) for chunk in delta.mentioned[document]}
            if len(counts) >= TOGETHER:
                self._graph.put_mentions(counts)
                counts = {}
        self._graph.put_chunks(rows)
        self._graph.put_mentions(counts)
        self._graph.flush()

    def _stored_rows(
        self, document: int, chunks: Sequence[AddedChunk], pairs: Sequence[EntityPair]
    ) -> dict[int, EdgeRow]:
        documents = self._state.documents
        return self._rows(documents.get(document), documents.outline(document), chunks, pairs)

    def _rows(
        self,
        record: DocumentRecord,
        outline: list[Section],
        chunks: Sequence[AddedChunk],
        pairs: Sequence[EntityPair],
    ) -> dict[int, EdgeRow]:
        """What each of some chunks of a document names."""
        lone_pairs = unmentioned(pairs, self._state.mentions.in_chunks(record.chunk_ids())) if pairs else set()
        rows = DocumentRows(record, outline, pairs, self._state.filter, self._state.settings.name_words)
        return {chunk.id: rows.row(chunk, lone_pairs) for chunk in chunks}

    def _change_title_link(self, record: DocumentRecord, by: int) -> None:
        pair = find_title_pair(record.title, self._state.settings.name_words) if record.groups else None
        if pair is not None:
            full_title, short_title = map(int, self._state.filter.find_many(pair))
            self._graph.change_link(full_title, short_title, TITLE_LINK, by)


class GraphStructure:
    """The graph among the structures of a store."""

    name = "passage_graph"
    version = 1
    tables = (
        LmdbTable(PASSAGE_ENTITIES),
        LmdbTable(ENTITY_PASSAGES),
        LmdbTable(ENTITY_HEADS),
        LmdbTable(ENTITY_LINKS),
    )

    def read(self, state: State) -> PassageGraph:
        return PassageGraph(state.lmdb) if state.allowed is None else RestrictedPassageGraph(state)

    def follower(self, state: State, write: WriteView) -> GraphMaintainer:
        return GraphMaintainer(state, write)

    def dump(self, read: PassageGraph, names: Logical) -> Mapping[str, Iterable[DumpRow]]:
        return {
            PASSAGE_ENTITIES: (
                (names.chunk(chunk), names.entity(entity), features)
                for chunk, row in read.all_chunks()
                for entity, features in row.items()
            ),
            ENTITY_PASSAGES: (
                (names.entity(entity), names.chunk(chunk), features)
                for entity, chunk, features in read.iter_listed_chunks()
            ),
            ENTITY_HEADS: (
                (names.entity(entity), *degree, names.chunk(chunk) if chunk else None, features)
                for entity, *degree, chunk, features in read.iter_entities()
            ),
            ENTITY_LINKS: (
                (names.entity(entity), names.entity(link.other), link.kind, link.times)
                for entity, link in read.iter_links()
            ),
        }

    def counts(self, read: PassageGraph) -> Mapping[str, int]:
        return read.counts()


GRAPH = GraphStructure()
