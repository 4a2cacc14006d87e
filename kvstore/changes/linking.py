"""Linking names to the places they are mentioned in, both ways.

In: documents just written, names just introduced, and what is about to go. On disk: ``mentions`` and
``place_mentions`` (place → names) and the block lists of the entity filter (name → places), kept equal. A mention is a
function of a name and a text, nothing else; the rank of an address is a function of the name's mentions in that
abstract (:mod:`kvstore.structures.filter.addresses`). Out: a :class:`~kvstore.systems.contract.Delta`, for what the
systems keep beside the spine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..structures.documents.chunks import FIRST_UPPER, GROUP, ChunkRecord
from ..structures.documents.documents import DocumentRecord, Section
from ..structures.filter import addresses
from ..structures.filter.entity_filter import SoughtKeys
from ..structures.forest.forest_writer import NodePairs
from ..structures.names.mention_addresses import RankedPlaces, mention_addresses
from ..structures.names.mention_recognition import Mention, headed_abstracts, mentions_in
from ..structures.names.mentions import HeadingOccurrence, MentionWriter, Occurrence
from ..structures.state import State
from ..systems.contract import Added, AddedChunk, Delta
from ..text.blocks import plain
from ..text.normalize import Folded, fold, folded_data
from ..text.words import stemmer, terms, words
from .everything import portions
from .trace_cache import TraceCache

#: Documents in which new names are looked for together: their texts are in memory then.
_TOGETHER = 256


class _OlderChunk(NamedTuple):
    """A stored chunk, and the numbers of the new names that may be in it, or in what stands above it."""

    id: int
    stored: ChunkRecord
    names: list[int]


class _NewNames:
    """Names that have just become known, by number, and where they occur."""

    def __init__(self, new: Mapping[str, int], most_words: int) -> None:
        self.entities = list(new.values())
        self._keys = SoughtKeys([key.encode() for key in new], most_words)

    def in_text(self, folded: Folded, names: list[int]) -> list[Occurrence]:
        """Where some of them are mentioned in a text."""
        return [
            Occurrence(self.entities[name], folded.original(start), folded.original(end) - folded.original(start))
            for name, start, end in self._keys.places(folded.data, names)
        ]

    def in_headings(self, record: DocumentRecord, outline: list[Section], names: list[int]) -> set[HeadingOccurrence]:
        """Those of some of them that the title and headings of a document mention."""
        found: set[HeadingOccurrence] = set()
        if not outline and not (record.title and self._keys.places(folded_data(plain(record.title)), names)):
            return found  # as of most
        for headed in headed_abstracts(record, outline):
            data = folded_data(headed.text)
            for name, start, end in self._keys.places(data, names):
                found.add(headed.occurrence(self.entities[name], " ".join(data[start:end].decode().split())))
        return found


class Linker:
    """Keeps mentions and block lists equal over one set of changes; address changes are gathered until
    :meth:`flush`."""

    def __init__(self, state: State, mentions: MentionWriter, traces: TraceCache) -> None:
        self._state = state
        self._filter = state.filter
        self._mentions = mentions
        self._traces = traces
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

    def introduce(self, new: Mapping[str, int]) -> None:
        """Take note of names that have just become known."""
        added = {entity: key for key, entity in new.items()}
        self._names_added.update(added)
        self._keys.update(added)

    def link_document(
        self,
        record: DocumentRecord,
        outline: list[Section],
        chunks: Iterable[tuple[str, int]],
        parts: Mapping[str, Any],
    ) -> None:
        """Find every known name in a new document's ``chunks`` (text and section), title and headings, and link it;
        ``parts`` are what is derived of it, by derivation."""
        rows: dict[int, list[Occurrence]] = {}
        texts: dict[int, bytes] = {}
        written: list[AddedChunk] = []
        for chunk, (text, section) in zip(record.chunk_ids(), chunks, strict=True):
            folded = fold(text)
            texts[chunk] = folded.data
            found = self._filter.mentions(folded, self._name_words, self._keys, Occurrence)
            rows[chunk] = self._mentions.put_chunk(chunk, found)
            written.append(AddedChunk(chunk, text.encode(), section, rows[chunk]))
        self._new[record.id] = Added(record, outline, written, parts)
        heading_rows: set[HeadingOccurrence] = set()
        above: list[bytes] = []
        for headed in headed_abstracts(record, outline):
            folded = fold(headed.text)
            above.append(folded.data)
            heading_rows.update(headed.occurrence(one.entity, one.key) for one in self._mentions_in(folded))
        self._traces.note(record.id, above, texts)
        if heading_rows:
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
        for chunk, rows in zip(chunks, self._mentions.in_chunks(chunks), strict=True):
            lost = [row for row in rows if row.entity in gone]
            if lost:
                left = self._mentions.put_chunk(chunk, (row for row in rows if row.entity not in gone))
                if any(_inside(row, other) for other in lost for row in left):
                    self.touch(owners[chunk // GROUP], [chunk])
                else:
                    self._unnamed[chunk] = {row.entity for row in lost}

    def touch(self, document: int, chunks: Iterable[int]) -> None:
        """Say that of chunks of a document something has changed besides their texts."""
        if document not in self._new:
            self._touched.setdefault(document, set()).update(chunks)

    def link_older(self, new: Mapping[str, int]) -> None:
        """Find names that have just become known in the documents already stored, through the postings."""
        if self._state.postings.empty:
            return
        by_chunk: dict[int, list[int]] = {}
        for name, chunks in self._candidates(list(new)):
            for chunk in chunks.tolist():
                by_chunk.setdefault(chunk, []).append(name)
        by_document: dict[int, list[_OlderChunk]] = {}
        ids = sorted(by_chunk)
        for chunk, stored in zip(ids, self._state.chunks.get_many(ids), strict=True):
            by_document.setdefault(stored.document, []).append(_OlderChunk(chunk, stored, by_chunk[chunk]))
        names = _NewNames(new, self._name_words)
        for portion in portions(by_document.items(), _TOGETHER):
            self._link_older_documents(dict(portion), names)

    def _candidates(self, new: Sequence[str]) -> Iterator[tuple[int, npt.NDArray[np.uint64]]]:
        """For each new name, by its place, the chunks that have all its words, in text or title or headings, less
        those that are known not to have it."""
        stem, postings = stemmer(self._state.settings.stemmer), self._state.postings
        fit = (name for name, key in enumerate(new) if 0 < len(words(key)) <= self._name_words)
        terms_of = {name: set(terms(new[name], stem)) for name in fit}
        every = list(dict.fromkeys(chain.from_iterable(terms_of.values())))
        sizes = dict(zip(every, postings.sizes(every), strict=True))
        for name, found in terms_of.items():
            if all(sizes[term].postings for term in found):  # most new names have a word that is new too
                common = postings.containing(found, sizes, partial(self._traces.that_may_have, new[name]))
                if len(common):
                    yield name, common

    def _link_older_documents(self, candidates: Mapping[int, Sequence[_OlderChunk]], names: _NewNames) -> None:
        """Find new names in stored documents."""
        stated = self._state.documents.get_many(candidates)
        outlines = self._state.documents.outlines(candidates)
        texts = self._state.documents.text_slices(
            {document: [(one.stored.start, one.stored.end) for one in some] for document, some in candidates.items()}
        )
        mentioned: dict[int, list[AddedChunk]] = {}
        for document, some in candidates.items():
            for (chunk, stored, sought), text in zip(some, texts[document], strict=True):
                found = names.in_text(fold(text), sought)
                if found:  # else the words of a name stand apart, or in a heading
                    mentioned.setdefault(document, []).append(AddedChunk(chunk, text.encode(), stored.section, found))
        rows = {one.id: one.mentions for some in mentioned.values() for one in some}
        known = self._mentions.in_chunks(rows)
        every = {
            chunk: self._mentions.put_chunk(chunk, [*before, *rows[chunk]])
            for chunk, before in zip(rows, known, strict=True)
        }
        for document, some in candidates.items():
            here = mentioned.get(document, [])
            sought = sorted({name for one in some for name in one.names})
            headings = names.in_headings(stated[document], outlines[document], sought)
            if headings:
                self._mentions.put_headings(document, [*self._mentions.in_headings(document), *headings])
            # Marks in a title hide names from what reads it as it is written.
            title = stated[document].title
            if headings or (here and title and plain(title) != title):
                self.touch(document, stated[document].chunk_ids())
            elif here:
                self._mentioned[document] = [one._replace(mentions=every[one.id]) for one in here]
            for entity, pairs in mention_addresses({one.id: rows[one.id] for one in here}, headings).items():
                self._added.setdefault(entity, []).extend(pairs)

    def _mentions_in(self, folded: Folded) -> list[Mention]:
        found = list(mentions_in(self._filter, folded, self._name_words))
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
