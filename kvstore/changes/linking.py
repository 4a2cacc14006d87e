"""Linking names to the places they are mentioned in, both ways.

In: documents just written, names just introduced, triples, and what is about to go. On disk: ``mentions`` and
``place_mentions`` (place → names) and the block lists of the entity filter (name → places), kept equal; and the graph,
whose rows are made anew for every passage of which a mention has changed. A mention is a function of a name and a text,
nothing else; the rank of an address is a function of the name's mentions in that abstract
(:mod:`kvstore.structures.filter.addresses`), a row of the graph of all mentions in the passage
(:mod:`kvstore.structures.passages`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ..extraction.extraction import ChunkDraft
from ..settings import FixedSettings
from ..structures.documents.chunks import FIRST_UPPER, GROUP, Abstracts, Chunks
from ..structures.documents.documents import DocumentRecord, Documents, Section
from ..structures.documents.triples import DocumentTriples, Triples
from ..structures.filter import addresses
from ..structures.filter.entity_filter import EntityFilter, occurrences
from ..structures.forest.forest_writer import Nodes
from ..structures.graph import TITLE_LINK, TRIPLE_LINK, GraphWriter
from ..structures.names.entities import Entities
from ..structures.names.mentions import MentionWriter, Occurrence
from ..structures.names.places import Places, places_of
from ..structures.names.recognition import Mention, headed_places, mentions_in
from ..structures.passages import DocumentPassages, Passage, title_pair, unmentioned
from ..structures.postings import Postings
from ..text.normalize import fold
from ..text.words import stemmer, terms, words


class Linker:
    """Keeps mentions and block lists equal over one set of changes; address changes are gathered until
    :meth:`flush`."""

    def __init__(
        self,
        documents: Documents,
        chunks: Chunks,
        abstracts: Abstracts,
        entities: Entities,
        mentions: MentionWriter,
        postings: Postings,
        entity_filter: EntityFilter,
        graph: GraphWriter,
        triples: Triples,
        settings: FixedSettings,
    ) -> None:
        self._documents = documents
        self._chunks = chunks
        self._abstracts = abstracts
        self._entities = entities
        self._mentions = mentions
        self._postings = postings
        self._filter = entity_filter
        self._graph = graph
        self._triples = triples
        self._settings = settings
        self._added: dict[str, Places] = {}
        self._removed: dict[str, Places] = {}
        self._keys: dict[int, str] = {}
        self._stale: dict[int, set[int]] = {}
        # The mentions of chunks as they were written last; of documents put: record, outline, and of each chunk its
        # text and section.
        self._rows: dict[int, list[Occurrence]] = {}
        self._new: dict[int, tuple[DocumentRecord, list[Section], list[tuple[bytes, int]]]] = {}

    def flush(self) -> None:
        """Carry the gathered address changes into the block lists, removals first."""
        for gathered, change in ((self._removed, self._filter.remove_many), (self._added, self._filter.add_many)):
            keys = sorted(gathered)
            if keys:
                change(keys, [addresses.of_places(gathered[key]) for key in keys])
            gathered.clear()

    def flush_graph(self) -> None:
        """Make the graph's rows of all passages anew that were touched; to be called when all mentions are written."""
        for document in sorted(self._stale):
            self._put_passages(document, self._stale[document])
        self._stale.clear()
        self._rows.clear()
        self._new.clear()
        self._graph.flush()

    def learn(self, keys: Mapping[int, str]) -> None:
        """Take note of the normal forms of entities."""
        self._keys.update(keys)

    def link_nodes(self, made: Nodes) -> None:
        """Give entities the addresses of tree nodes."""
        for node, entity in made:
            self._added.setdefault(self._key(entity), []).append((node, addresses.NODE))

    def unlink_nodes(self, gone: Nodes) -> None:
        """Take the addresses of tree nodes from their entities."""
        for node, entity in gone:
            self._removed.setdefault(self._key(entity), []).append((node, addresses.NODE))

    def link_document(self, record: DocumentRecord, outline: list[Section], chunks: Sequence[ChunkDraft]) -> None:
        """Find every known name in a new document's chunks, title and headings, and link it."""
        rows: dict[int, list[Occurrence]] = {}
        for chunk, draft in zip(record.chunk_ids(), chunks, strict=True):
            found = self._mentions_in(draft.text)
            rows[chunk] = [Occurrence(entity, start, end - start) for entity, start, end, _ in found]
            self._put_mentions(chunk, rows[chunk])
        self._new[record.id] = record, outline, [(draft.text.encode(), draft.section) for draft in chunks]
        place_rows = {
            place.occurrence(mention.entity, mention.key)
            for place in headed_places(record, outline)
            for mention in self._mentions_in(place.text)
        }
        self._mentions.put_places(record.id, place_rows)
        for entity, pairs in places_of(rows, place_rows).items():
            self._added.setdefault(self._key(entity), []).extend(pairs)
        self._touch(record.id, record.chunk_ids())
        self._change_title_link(record, 1)

    def unlink_document(self, record: DocumentRecord) -> None:
        """Remove all mentions of a document that is about to go, and their addresses."""
        rows = self._mentions_of(record)
        place_rows = self._mentions.in_places(record.id)
        for entity, pairs in places_of(rows, place_rows).items():
            self._removed.setdefault(self._key(entity), []).extend(pairs)
        for chunk in rows:
            self._put_mentions(chunk, [])
            self._graph.put_passage(chunk, {})
        self._stale.pop(record.id, None)
        self._new.pop(record.id, None)
        self._change_title_link(record, -1)
        self._mentions.put_places(record.id, ())

    def unlink_entity(self, entity: int, key: str) -> None:
        """Remove the mentions of a name that nothing introduces any more; its block list goes with the filter entry."""
        for number in self._filter.addresses(key):
            _, place = addresses.split(int(number))
            document = self._abstracts.get(place).document
            place_rows = self._mentions.in_places(document)
            kept = [row for row in place_rows if row.entity != entity]
            if len(kept) < len(place_rows):
                self._mentions.put_places(document, kept)
                self._touch(document, self._documents.get(document).chunk_ids())
            if place < FIRST_UPPER:
                for chunk in range(GROUP * place, GROUP * place + GROUP):
                    rows = self._mentions_in_chunk(chunk)
                    if rows:
                        self._put_mentions(chunk, [row for row in rows if row.entity != entity])
                        self._touch(document, [chunk])

    def change_triples(self, record: DocumentRecord, triples: DocumentTriples, by: int) -> None:
        """Say of the triples of a document once more (or less) what they join; their names must be known."""
        for one, other in self._pairs(triples):
            if one != other:
                self._graph.change_link(one, other, TRIPLE_LINK, by)
        self._touch(record.id, record.chunk_ids())

    def link_older(self, new: Mapping[str, int]) -> None:
        """Find names that have just become known in the documents already stored, through the postings."""
        self._keys.update((entity, key) for key, entity in new.items())
        if self._postings.empty:
            return
        by_chunk: dict[int, list[str]] = {}
        for key, chunks in self._candidates(new):
            for chunk in map(int, chunks):
                by_chunk.setdefault(chunk, []).append(key)
        by_document: dict[int, dict[int, list[str]]] = {}
        for chunk in sorted(by_chunk):
            by_document.setdefault(self._chunks.get(chunk).document, {})[chunk] = by_chunk[chunk]
        for document, candidates in by_document.items():
            self._link_older_document(document, candidates, new)

    def _candidates(self, new: Mapping[str, int]) -> Iterator[tuple[str, npt.NDArray[np.uint64]]]:
        """For each new name the chunks that have all its words, in text or title or headings."""
        stem = stemmer(self._settings.stemmer)
        chunks_of: dict[str, npt.NDArray[np.uint64]] = {}
        for key in new:
            if not 0 < len(words(key)) <= self._settings.name_words:
                continue
            for term in (found := set(terms(key, stem))):
                if term not in chunks_of:
                    chunks_of[term] = self._postings.get(term).chunks
            common: npt.NDArray[np.uint64] | None = None
            for chunks in sorted((chunks_of[term] for term in found), key=len):
                common = chunks if common is None else np.intersect1d(common, chunks, assume_unique=True)
                if not len(common):
                    break
            if common is not None and len(common):
                yield key, common

    def _link_older_document(self, document: int, candidates: Mapping[int, list[str]], new: Mapping[str, int]) -> None:
        rows: dict[int, list[Occurrence]] = {}
        for chunk, keys in candidates.items():
            stored = self._chunks.get(chunk)
            folded = fold(self._documents.text_slice(document, stored.start, stored.end))
            found = [
                Occurrence(new[key], folded.original(start), folded.original(end) - folded.original(start))
                for key in keys
                for start, end in occurrences(folded.data, key.encode(), self._settings.name_words)
            ]
            if found:
                rows[chunk] = found
                self._put_mentions(chunk, self._mentions_in_chunk(chunk) + found)
        self._touch(document, rows)
        record = self._documents.get(document)
        every = sorted({key for keys in candidates.values() for key in keys})
        place_rows = {
            place.occurrence(new[key], key)
            for place in headed_places(record, self._documents.outline(document))
            for key in self._occurring(fold(place.text).data, every)
        }
        if place_rows:
            self._mentions.put_places(document, [*self._mentions.in_places(document), *place_rows])
            self._touch(document, record.chunk_ids())
        for entity, pairs in places_of(rows, place_rows).items():
            self._added.setdefault(self._key(entity), []).extend(pairs)

    def _touch(self, document: int, chunks: Iterable[int]) -> None:
        self._stale.setdefault(document, set()).update(chunks)

    def _put_passages(self, document: int, chunks: set[int]) -> None:
        new = self._new.get(document)
        record, outline = new[:2] if new else (self._documents.get(document), self._documents.outline(document))
        mentions = self._mentions_of(record)
        pairs = self._pairs(self._triples.of(document))
        lone = unmentioned(pairs, list(mentions.values()))
        rows = DocumentPassages(record, outline, pairs, self._filter, self._settings.name_words)
        texts = dict(zip(record.chunk_ids(), new[2], strict=True)) if new else self._texts(document, chunks)
        for chunk in sorted(chunks):
            text, section = texts[chunk]
            self._graph.put_passage(chunk, rows.row(Passage(chunk, text, section, mentions[chunk]), lone))

    def _texts(self, document: int, chunks: set[int]) -> dict[int, tuple[bytes, int]]:
        """The text of some chunks of a stored document, and the section each is in."""
        text = self._documents.text(document)
        stored = zip(chunks, self._chunks.get_many(chunks), strict=True)
        return {chunk: (text[one.start : one.end], one.section) for chunk, one in stored}

    def _mentions_of(self, record: DocumentRecord) -> dict[int, list[Occurrence]]:
        """The mentions in each chunk of a document."""
        chunks = list(record.chunk_ids())
        stored = [chunk for chunk in chunks if chunk not in self._rows]
        rows = dict(zip(stored, self._mentions.in_chunks(stored), strict=True))
        return {chunk: self._rows[chunk] if chunk in self._rows else rows[chunk] for chunk in chunks}

    def _mentions_in_chunk(self, chunk: int) -> list[Occurrence]:
        rows = self._rows.get(chunk)
        return self._mentions.in_chunk(chunk) if rows is None else rows

    def _put_mentions(self, chunk: int, rows: list[Occurrence]) -> None:
        self._rows[chunk] = rows
        self._mentions.put_chunk(chunk, rows)

    def _pairs(self, triples: DocumentTriples) -> list[tuple[int, int]]:
        """The entities that triples join, each pair once."""
        keys = sorted(set(triples.pairs()))
        ones, others = (self._filter.find_many([pair[end] for pair in keys]).tolist() for end in (0, 1))
        return list(zip(ones, others, strict=True))

    def _change_title_link(self, record: DocumentRecord, by: int) -> None:
        pair = title_pair(record.title, self._settings.name_words) if record.groups else None
        if pair is not None:
            whole, shorter = map(int, self._filter.find_many(pair))
            self._graph.change_link(whole, shorter, TITLE_LINK, by)

    def _occurring(self, data: bytes, keys: Iterable[str]) -> Iterator[str]:
        return (key for key in keys if occurrences(data, key.encode(), self._settings.name_words))

    def _mentions_in(self, text: str) -> list[Mention]:
        found = list(mentions_in(self._filter, fold(text), self._settings.name_words))
        self._keys.update((mention.entity, mention.key) for mention in found)
        return found

    def _key(self, entity: int) -> str:
        key = self._keys.get(entity)
        if key is None:
            key = self._keys[entity] = self._entities.get(entity).key
        return key
