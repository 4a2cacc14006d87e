"""Linking names to the places they are mentioned in, both ways.

In: documents just written, names just introduced, and what is about to go. On disk: ``mentions`` and
``place_mentions`` (place → names) and the block lists of the entity filter (name → places), kept equal. A mention is a
function of a name and a text, nothing else; the rank of an address is a function of the name's mentions in that
abstract (:mod:`kvstore.structures.filter.addresses`). Out: a :class:`~kvstore.systems.contract.Delta`, for what the
systems keep beside the spine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..extraction.extraction import Extracted
from ..structures.documents.chunks import FIRST_UPPER, GROUP, ChunkRecord
from ..structures.documents.documents import DocumentRecord, Section
from ..structures.filter import addresses
from ..structures.filter.entity_filter import occurring_keys
from ..structures.forest.forest_writer import NodePairs
from ..structures.names.mention_addresses import RankedPlaces, mention_addresses
from ..structures.names.mention_recognition import Mention, headed_abstracts, mentions_in
from ..structures.names.mentions import MentionWriter, Occurrence
from ..structures.state import State
from ..systems.contract import Added, AddedChunk, Delta
from ..text.blocks import plain
from ..text.normalize import fold
from ..text.words import stemmer, terms, words


class _OlderChunk(NamedTuple):
    """A stored chunk, and the new names that may be in it, or in what stands above it."""

    id: int
    stored: ChunkRecord
    keys: list[bytes]


class Linker:
    """Keeps mentions and block lists equal over one set of changes; address changes are gathered until
    :meth:`flush`."""

    def __init__(self, state: State, mentions: MentionWriter) -> None:
        self._state = state
        self._filter = state.filter
        self._mentions = mentions
        self._name_words = state.settings.name_words
        self._added: dict[int, RankedPlaces] = {}
        self._removed: dict[int, RankedPlaces] = {}
        self._keys: dict[int, str] = {}
        self._new: dict[int, Added] = {}
        self._touched: dict[int, set[int]] = {}
        self._unnamed: dict[int, set[int]] = {}
        self._mentioned: dict[int, list[AddedChunk]] = {}
        self._names_added: dict[int, str] = {}
        self._names_removed: dict[int, str] = {}
        self._links: dict[tuple[int, int, int], int] = {}

    def flush(self) -> None:
        """Carry the gathered address changes into the block lists, removals first."""
        for gathered, change in ((self._removed, self._filter.remove_many), (self._added, self._filter.add_many)):
            self._learn_keys(gathered)
            entities = {self._keys[entity]: entity for entity in gathered}
            keys = sorted(entities)
            if keys:
                change(keys, [addresses.best(gathered[entities[key]]) for key in keys])
            gathered.clear()

    def delta(self) -> Delta:
        """What has changed for those who follow the spine; to be called when all of it is written."""
        for document in self._touched.keys() & self._mentioned.keys():
            self._touched[document].update(chunk.id for chunk in self._mentioned.pop(document))
        touched = set(chain.from_iterable(self._touched.values()))
        return Delta(
            list(self._new.values()),
            self._touched,
            self._mentioned,
            {chunk: entities for chunk, entities in self._unnamed.items() if chunk not in touched},
            self._names_added,
            self._names_removed,
            self._links,
        )

    def change_link(self, one: int, other: int, kind: int, by: int) -> None:
        """Say that two entities belong together so many times more (or less) often."""
        self._links[one, other, kind] = self._links.get((one, other, kind), 0) + by

    def learn(self, keys: Mapping[int, str]) -> None:
        """Take note of the normal forms of entities."""
        self._keys.update(keys)

    def link_nodes(self, made: NodePairs) -> None:
        """Give entities the addresses of tree nodes."""
        for node, entity in made:
            self._added.setdefault(entity, []).append((node, addresses.NODE))

    def unlink_nodes(self, gone: NodePairs) -> None:
        """Take the addresses of tree nodes from their entities."""
        for node, entity in gone:
            self._removed.setdefault(entity, []).append((node, addresses.NODE))

    def link_document(self, record: DocumentRecord, outline: list[Section], extracted: Extracted) -> None:
        """Find every known name in a new document's chunks, title and headings, and link it."""
        rows: dict[int, list[Occurrence]] = {}
        written: list[AddedChunk] = []
        for chunk, draft in zip(record.chunk_ids(), extracted.chunks, strict=True):
            found = self._filter.mentions(fold(draft.text), self._name_words, self._keys, Occurrence)
            rows[chunk] = self._mentions.put_chunk(chunk, found)
            written.append(AddedChunk(chunk, draft.text.encode(), draft.section, rows[chunk]))
        self._new[record.id] = Added(record, outline, written, extracted.parts)
        heading_rows = {
            headed.occurrence(mention.entity, mention.key)
            for headed in headed_abstracts(record, outline)
            for mention in self._mentions_in(headed.text)
        }
        self._mentions.put_headings(record.id, heading_rows)
        for entity, pairs in mention_addresses(rows, heading_rows).items():
            self._added.setdefault(entity, []).extend(pairs)

    def unlink_documents(self, documents: Sequence[DocumentRecord]) -> None:
        """Remove all mentions of documents that are about to go, and their addresses."""
        ids = [record.id for record in documents]
        chunks = [chunk for record in documents for chunk in record.chunk_ids()]
        rows = dict(zip(chunks, self._mentions.in_chunks(chunks), strict=True))
        found = mention_addresses(rows, chain.from_iterable(self._mentions.in_headings_of(ids)))
        self._learn_keys(found)
        for entity, pairs in found.items():
            self._removed.setdefault(entity, []).extend(pairs)
        for document in ids:
            self._touched.pop(document, None)
        self._mentions.remove(chunks, ids)

    def unlink_entities(self, gone: Mapping[int, str]) -> None:
        """Remove the mentions of names that nothing introduces any more; their block lists go with the filter
        entries."""
        self._names_removed.update(gone)
        places: dict[int, set[int]] = {}
        for entity, key in gone.items():
            for number in self._filter.addresses(key).tolist():
                places.setdefault(addresses.split(number)[1], set()).add(entity)
        by_place = dict(zip(places, self._state.abstracts.get_many(places), strict=True))
        owners = {place: abstract.document for place, abstract in by_place.items()}
        documents = list(dict.fromkeys(owners.values()))
        for document, heading_rows in zip(documents, self._mentions.in_headings_of(documents), strict=True):
            kept = [row for row in heading_rows if row.entity not in gone]
            if len(kept) < len(heading_rows):
                self._mentions.put_headings(document, kept)
                self.touch(document, self._state.documents.get(document).chunk_ids())
        leaves = [place for place in places if place < FIRST_UPPER]
        chunks = [chunk for place in leaves for chunk in range(GROUP * place, GROUP * place + GROUP)]
        changed: dict[int, list[Occurrence]] = {}
        for chunk, rows in zip(chunks, self._mentions.in_chunks(chunks), strict=True):
            lost = [row for row in rows if row.entity in gone]
            if lost:
                left = changed[chunk] = [row for row in rows if row.entity not in gone]
                if any(_inside(row, other) for other in lost for row in left):
                    self.touch(owners[chunk // GROUP], [chunk])
                else:
                    self._unnamed[chunk] = {row.entity for row in lost}
        self._mentions.put_chunks(changed)

    def touch(self, document: int, chunks: Iterable[int]) -> None:
        """Say that of chunks of a document something has changed besides their texts."""
        if document not in self._new:
            self._touched.setdefault(document, set()).update(chunks)

    def link_older(self, new: Mapping[str, int]) -> None:
        """Find names that have just become known in the documents already stored, through the postings."""
        self._names_added = {entity: key for key, entity in new.items()}
        self._keys.update(self._names_added)
        if self._state.postings.empty:
            return
        by_chunk: dict[int, list[bytes]] = {}
        for key, chunks in self._candidates(new):
            for chunk in chunks.tolist():
                by_chunk.setdefault(chunk, []).append(key.encode())
        by_document: dict[int, list[_OlderChunk]] = {}
        ids = sorted(by_chunk)
        for chunk, stored in zip(ids, self._state.chunks.get_many(ids), strict=True):
            by_document.setdefault(stored.document, []).append(_OlderChunk(chunk, stored, by_chunk[chunk]))
        entities = frozenset(new.values())
        outlines = self._state.documents.outlines(by_document)
        for document, candidates in by_document.items():
            record = self._state.documents.get(document)
            self._link_older_document(record, outlines[document], candidates, entities)

    def _candidates(self, new: Mapping[str, int]) -> Iterator[tuple[str, npt.NDArray[np.uint64]]]:
        """For each new name the chunks that have all its words, in text or title or headings."""
        stem, postings = stemmer(self._state.settings.stemmer), self._state.postings
        terms_of = {key: set(terms(key, stem)) for key in new if 0 < len(words(key)) <= self._name_words}
        every = list(dict.fromkeys(chain.from_iterable(terms_of.values())))
        sizes = dict(zip(every, postings.sizes(every), strict=True))
        for key, found in terms_of.items():
            if all(sizes[term].postings for term in found):  # most new names have a word that is new too
                common = postings.containing(found, sizes)
                if len(common):
                    yield key, common

    def _link_older_document(
        self, record: DocumentRecord, outline: list[Section], candidates: Sequence[_OlderChunk], new: Set[int]
    ) -> None:
        """Find new names in a stored document."""
        document = record.id
        rows: dict[int, list[Occurrence]] = {}
        mentioned: list[AddedChunk] = []
        for chunk, stored, keys in candidates:
            text = self._state.documents.text_slice(document, stored.start, stored.end)
            folded = fold(text)
            if not occurring_keys(folded.data, keys, self._name_words):
                continue  # the words of a name stand apart, or in a heading
            found = self._filter.mentions(folded, self._name_words, self._keys, Occurrence)
            found = self._mentions.put_chunk(chunk, found)
            mentioned.append(AddedChunk(chunk, text.encode(), stored.section, found))
            rows[chunk] = [mention for mention in found if mention.entity in new]
        every = sorted({key for _, _, keys in candidates for key in keys})
        heading_rows = {
            headed.occurrence(mention.entity, mention.key)
            for headed in headed_abstracts(record, outline)
            if occurring_keys(fold(headed.text).data, every, self._name_words)
            for mention in self._mentions_in(headed.text)
            if mention.entity in new
        }
        if heading_rows:
            self._mentions.put_headings(document, [*self._mentions.in_headings(document), *heading_rows])
        # Marks in a title hide names from what reads it as it is written.
        if heading_rows or (mentioned and record.title and plain(record.title) != record.title):
            self.touch(document, record.chunk_ids())
        elif mentioned:
            self._mentioned[document] = mentioned
        for entity, pairs in mention_addresses(rows, heading_rows).items():
            self._added.setdefault(entity, []).extend(pairs)

    def _mentions_in(self, text: str) -> list[Mention]:
        found = list(mentions_in(self._filter, fold(text), self._name_words))
        self._keys.update((mention.entity, mention.key) for mention in found)
        return found

    def _learn_keys(self, entities: Iterable[int]) -> None:
        """Have the normal forms of some entities at hand."""
        missing = [entity for entity in entities if entity not in self._keys]
        if missing:
            found = self._state.entities.get_many(missing)
            self._keys.update((entity, record.key) for entity, record in zip(missing, found, strict=True))


def _inside(one: Occurrence, other: Occurrence) -> bool:
    """Whether all that ``one`` covers ``other`` covers too."""
    return other.start <= one.start and one.start + one.length <= other.start + other.length
