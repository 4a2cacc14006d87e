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

from ..structures.documents.chunks import FIRST_UPPER_ABSTRACT, GROUP, ChunkRecord
from ..structures.documents.documents import DocumentRecord, Section
from ..structures.filter import addresses
from ..structures.filter.entity_filter import SoughtKeys
from ..structures.forest.forest_writer import NodePairs
from ..structures.names.mention_addresses import RankedTargets, mention_addresses
from ..structures.names.mention_recognition import Mention, iter_headed_abstracts, mentions_in
from ..structures.names.mentions import HeadingOccurrence, MentionWriter, Occurrence
from ..structures.state import State
from ..systems.contract import Added, AddedChunk, Delta
from ..text.blocks import plain
from ..text.normalize import Folded, fold, fold_to_bytes
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

    def find_in_text(self, folded: Folded, names: list[int]) -> list[Occurrence]:
        """Where some of them are mentioned in a text."""
        return [
            Occurrence(self.entities[name], folded.original(start), folded.original(end) - folded.original(start))
            for name, start, end in self._keys.places(folded.data, names)
        ]

    def in_headings(self, record: DocumentRecord, outline: list[Section], names: list[int]) -> set[HeadingOccurrence]:
        """Those of some of them that the title and headings of a document mention."""
        occurrences: set[HeadingOccurrence] = set()
        if not outline and not (record.title and self._keys.places(fold_to_bytes(plain(record.title)), names)):
            return occurrences  # as of most
        for headed in iter_headed_abstracts(record, outline):
            data = fold_to_bytes(headed.text)
            for name, start, end in self._keys.places(data, names):
                occurrences.add(headed.occurrence(self.entities[name], " ".join(data[start:end].decode().split())))
        return occurrences


class Linker:
    """Keeps mentions and block lists equal over one set of changes; address changes are gathered until
    :meth:`flush`."""

    def __init__(self, state: State, mentions: MentionWriter, traces: TraceCache) -> None:
        self._state = state
        self._filter = state.filter
        self._mentions = mentions
        self._traces = traces
        self._name_words = state.settings.name_words
        self._added: dict[int, RankedTargets] = {}
        self._removed: dict[int, RankedTargets] = {}
        self._keys: dict[int, str] = {}
        self._new: dict[int, Added] = {}
        self._touched_chunks: dict[int, set[int]] = {}
        self._unnamed_chunks: dict[int, set[int]] = {}
        self._mentioned: dict[int, list[AddedChunk]] = {}
        self._names_added: dict[int, str] = {}
        self._names_removed: dict[int, str] = {}
        self._links: dict[tuple[int, int, int], int] = {}

    def flush(self) -> None:
        """Carry the gathered address changes into the block lists, removals first."""
        for addresses_by_entity, change in (
            (self._removed, self._filter.remove_many),
            (self._added, self._filter.add_many),
        ):
            self._load_keys(addresses_by_entity)
            entities = {self._keys[entity]: entity for entity in addresses_by_entity}
            keys = sorted(entities)
            if keys:
                change(keys, [addresses.best(addresses_by_entity[entities[key]]) for key in keys])
            addresses_by_entity.clear()

    def delta(self) -> Delta:
        """What has changed for those who follow the spine; to be called when all of it is written."""
        for document in self._touched_chunks.keys() & self._mentioned.keys():
            self._touched_chunks[document].update(chunk.id for chunk in self._mentioned.pop(document))
        touched = set(chain.from_iterable(self._touched_chunks.values()))
        return Delta(
            list(self._new.values()),
            self._touched_chunks,
            self._mentioned,
            {chunk: entities for chunk, entities in self._unnamed_chunks.items() if chunk not in touched},
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
        added_chunks: list[AddedChunk] = []
        for chunk, (text, section) in zip(record.chunk_ids(), chunks, strict=True):
            folded = fold(text)
            texts[chunk] = folded.data
            occurrences = self._filter.mentions(folded, self._name_words, self._keys, Occurrence)
            rows[chunk] = self._mentions.put_chunk(chunk, occurrences)
            added_chunks.append(AddedChunk(chunk, text.encode(), section, rows[chunk]))
        self._new[record.id] = Added(record, outline, added_chunks, parts)
        heading_rows: set[HeadingOccurrence] = set()
        folded_headings: list[bytes] = []
        for headed in iter_headed_abstracts(record, outline):
            folded = fold(headed.text)
            folded_headings.append(folded.data)
            heading_rows.update(headed.occurrence(mention.entity, mention.key) for mention in self._mentions_in(folded))
        self._traces.note(record.id, folded_headings, texts)
        if heading_rows:
            self._mentions.put_headings(record.id, heading_rows)
        for entity, pairs in mention_addresses(rows, heading_rows).items():
            self._added.setdefault(entity, []).extend(pairs)

    def unlink_documents(self, documents: Sequence[DocumentRecord]) -> None:
        """Remove all mentions of documents that are about to go, and their addresses."""
        ids = [record.id for record in documents]
        chunks = [chunk for record in documents for chunk in record.chunk_ids()]
        rows = dict(zip(chunks, self._mentions.in_chunks(chunks), strict=True))
        addresses_by_entity = mention_addresses(rows, chain.from_iterable(self._mentions.get_in_headings_many(ids)))
        self._load_keys(addresses_by_entity)
        for entity, pairs in addresses_by_entity.items():
            self._removed.setdefault(entity, []).extend(pairs)
        for document in ids:
            self._touched_chunks.pop(document, None)
        self._mentions.remove(chunks, ids)

    def unlink_entities(self, gone: Mapping[int, str]) -> None:
        """Remove the mentions of names that nothing introduces any more; their block lists go with the filter
        entries."""
        self._names_removed.update(gone)
        entities_by_abstract: dict[int, set[int]] = {}
        for entity, key in gone.items():
            for number in self._filter.addresses(key).tolist():
                entities_by_abstract.setdefault(addresses.split(number)[1], set()).add(entity)
        abstracts_by_id = dict(
            zip(entities_by_abstract, self._state.abstracts.get_many(entities_by_abstract), strict=True)
        )
        owners = {abstract_id: abstract.document for abstract_id, abstract in abstracts_by_id.items()}
        documents = list(dict.fromkeys(owners.values()))
        for document, heading_rows in zip(documents, self._mentions.get_in_headings_many(documents), strict=True):
            remaining = [row for row in heading_rows if row.entity not in gone]
            if len(remaining) < len(heading_rows):
                self._mentions.put_headings(document, remaining)
                self.touch(document, self._state.documents.get(document).chunk_ids())
        leaves = [abstract_id for abstract_id in entities_by_abstract if abstract_id < FIRST_UPPER_ABSTRACT]
        chunks = [chunk for abstract_id in leaves for chunk in range(GROUP * abstract_id, GROUP * abstract_id + GROUP)]
        for chunk, rows in zip(chunks, self._mentions.in_chunks(chunks), strict=True):
            removed_rows = [row for row in rows if row.entity in gone]
            if removed_rows:
                remaining_rows = self._mentions.put_chunk(chunk, (row for row in rows if row.entity not in gone))
                if any(_inside(row, removed_row) for removed_row in removed_rows for row in remaining_rows):
                    self.touch(owners[chunk // GROUP], [chunk])
                else:
                    self._unnamed_chunks[chunk] = {row.entity for row in removed_rows}

    def touch(self, document: int, chunks: Iterable[int]) -> None:
        """Say that of chunks of a document something has changed besides their texts."""
        if document not in self._new:
            self._touched_chunks.setdefault(document, set()).update(chunks)

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
        for chunk, record in zip(ids, self._state.chunks.get_many(ids), strict=True):
            by_document.setdefault(record.document, []).append(_OlderChunk(chunk, record, by_chunk[chunk]))
        names = _NewNames(new, self._name_words)
        for portion in portions(by_document.items(), _TOGETHER):
            self._link_older_documents(dict(portion), names)

    def _candidates(self, new: Sequence[str]) -> Iterator[tuple[int, npt.NDArray[np.uint64]]]:
        """For each new name, by its place, the chunks that have all its words, in text or title or headings, less
        those that are known not to have it."""
        stem, postings = stemmer(self._state.settings.stemmer), self._state.postings
        searchable = (name for name, key in enumerate(new) if 0 < len(words(key)) <= self._name_words)
        terms_by_name = {name: set(terms(new[name], stem)) for name in searchable}
        all_terms = list(dict.fromkeys(chain.from_iterable(terms_by_name.values())))
        sizes = dict(zip(all_terms, postings.sizes(all_terms), strict=True))
        for name, name_terms in terms_by_name.items():
            if all(sizes[term].postings for term in name_terms):  # most new names have a word that is new too
                common = postings.containing(name_terms, sizes, partial(self._traces.that_may_have, new[name]))
                if len(common):
                    yield name, common

    def _link_older_documents(self, candidates: Mapping[int, Sequence[_OlderChunk]], names: _NewNames) -> None:
        """Find new names in stored documents."""
        records = self._state.documents.get_many(candidates)
        outlines = self._state.documents.outlines(candidates)
        texts = self._state.documents.text_slices(
            {document: [(item.stored.start, item.stored.end) for item in some] for document, some in candidates.items()}
        )
        mentioned: dict[int, list[AddedChunk]] = {}
        for document, some in candidates.items():
            for (chunk, record, name_numbers), text in zip(some, texts[document], strict=True):
                occurrences = names.find_in_text(fold(text), name_numbers)
                if occurrences:  # else the words of a name stand apart, or in a heading
                    mentioned.setdefault(document, []).append(
                        AddedChunk(chunk, text.encode(), record.section, occurrences)
                    )
        rows = {item.id: item.mentions for some in mentioned.values() for item in some}
        stored_mentions = self._mentions.in_chunks(rows)
        merged_mentions = {
            chunk: self._mentions.put_chunk(chunk, [*previous, *rows[chunk]])
            for chunk, previous in zip(rows, stored_mentions, strict=True)
        }
        for document, some in candidates.items():
            document_chunks = mentioned.get(document, [])
            name_numbers = sorted({name for item in some for name in item.names})
            headings = names.in_headings(records[document], outlines[document], name_numbers)
            if headings:
                self._mentions.put_headings(document, [*self._mentions.in_headings(document), *headings])
            # Marks in a title hide names from what reads it as it is written.
            title = records[document].title
            if headings or (document_chunks and title and plain(title) != title):
                self.touch(document, records[document].chunk_ids())
            elif document_chunks:
                self._mentioned[document] = [
                    item._replace(mentions=merged_mentions[item.id]) for item in document_chunks
                ]
            for entity, pairs in mention_addresses(
                {item.id: rows[item.id] for item in document_chunks}, headings
            ).items():
                self._added.setdefault(entity, []).extend(pairs)

    def _mentions_in(self, folded: Folded) -> list[Mention]:
        mentions = list(mentions_in(self._filter, folded, self._name_words))
        self._keys.update((mention.entity, mention.key) for mention in mentions)
        return mentions

    def _load_keys(self, entities: Iterable[int]) -> None:
        """Have the normal forms of some entities at hand."""
        missing = [entity for entity in entities if entity not in self._keys]
        if missing:
            records = self._state.entities.get_many(missing)
            self._keys.update((entity, record.key) for entity, record in zip(missing, records, strict=True))


def _inside(one: Occurrence, other: Occurrence) -> bool:
    """Whether all that ``one`` covers ``other`` covers too."""
    return other.start <= one.start and one.start + one.length <= other.start + other.length
