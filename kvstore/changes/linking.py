"""The links between names and the text locations that mention them. An *occurrence* is a span of a text that is a known
name. The *addresses* of an entity are tree nodes, and the *abstracts* (summaries of chunks) of texts that mention it. A
*delta* describes the changes for derived structures.

Linking works in both directions. In: documents just written, names just introduced, and deletions. On disk:
``mentions`` and ``place_mentions`` (location → names) and the block lists of the entity filter (name → locations), kept
consistent. A mention is a function of a name and a text only. The rank of an address is a function of the name's
mentions in that abstract (:mod:`kvstore.structures.filter.addresses`). Out: a :class:`~kvstore.registry.contract.Delta`
for the structures that systems derive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..registry.contract import AddedChunk, AddedDocument, Delta
from ..structures.documents.chunks import AbstractRecord, ChunkRecord
from ..structures.documents.documents import DocumentRecord, Section
from ..structures.filter import addresses
from ..structures.filter.entity_filter import SearchKeys
from ..structures.forest.forest_writer import NodeEntityPairs
from ..structures.names.mentions import (
    HeadingOccurrence,
    MentionWriter,
    Occurrence,
    add_headings,
    collect_addresses,
    iter_headed_abstracts,
)
from ..structures.state import State
from ..structures.text_candidates import union_sorted
from ..text.blocks import to_plain_text
from ..text.languages import open_document_stemmers
from ..text.normalize import fold, fold_to_bytes
from ..text.words import list_guaranteed_terms, split_words
from .fingerprint_cache import FingerprintCache
from .full_delta import iter_batches

#: The number of documents searched for new names together; their texts are in memory at once.
_MAX_BATCH_DOCUMENTS = 256
_ABOVE_ALL_ADDRESSES = (1 << 64) - 1
#: Addresses below it have the ranks of names in titles and headings, or of tree nodes.
_FIRST_BODY_ADDRESS = addresses.make_address(addresses.MIN_BODY_RANK, 0)


class _StoredChunk(NamedTuple):
    """A stored chunk, and the indexes of the new names that can occur in it or in its headings."""

    id: int
    record: ChunkRecord
    name_indexes: list[int]


class _NewNames:
    """Newly known names, by their index in ``ids_by_key``, and a search for them in texts."""

    def __init__(self, ids_by_key: Mapping[str, int], max_words: int) -> None:
        """Create a search for the names in ``ids_by_key``, which has the entity of each name by its normal form.

        The index of a name is its position in ``ids_by_key``. ``max_words`` is the maximum number of words of a name.
        """
        self.entities = list(ids_by_key.values())
        self._search_keys = SearchKeys([key.encode() for key in ids_by_key], max_words)

    def find_in_text(self, text: str, name_indexes: list[int]) -> list[Occurrence]:
        """Return the occurrences in a text of some names; ``name_indexes`` are their positions in ``ids_by_key``."""
        matches = self._search_keys.find_in_text(fold_to_bytes(text), name_indexes)
        if not matches:  # the words occur, but not next to each other, or only in a heading
            return []
        folded, occurrences = fold(text), []  # with the offsets in the original text
        for name_index, folded_start, folded_end in matches:
            start, end = folded.to_original_span(folded_start, folded_end)
            occurrences.append(Occurrence(self.entities[name_index], start, end - start))
        return occurrences

    def find_in_headings(
        self, record: DocumentRecord, sections: list[Section], name_indexes: list[int]
    ) -> set[HeadingOccurrence]:
        """Return the occurrences of the names with these indexes in the title and headings of a document."""
        occurrences: set[HeadingOccurrence] = set()
        if not sections:  # only the title can contain a name, and in the common case it does not
            folded_title = fold_to_bytes(to_plain_text(record.title or ""))
            if not self._search_keys.find_in_text(folded_title, name_indexes):
                return occurrences
        for heading in iter_headed_abstracts(record, sections):
            folded_text = fold_to_bytes(heading.text)
            for name_index, start, end in self._search_keys.find_in_text(folded_text, name_indexes):
                occurrences.add(
                    heading.make_occurrence(
                        self.entities[name_index],
                        " ".join(folded_text[start:end].decode().split()),  # the normal form of the name
                    )
                )
        return occurrences


class Linker:
    """Links names with the chunks and headings that mention them, during one set of changes. It writes mentions
    immediately, and collects the addresses of entities for :meth:`flush` and the changes for derived structures for
    :meth:`build_delta`.
    """

    def __init__(self, state: State, mentions: MentionWriter, fingerprints: FingerprintCache) -> None:
        """Create a linker without collected changes.

        ``mentions`` writes mentions, and ``fingerprints`` (Bloom filters) shows which texts cannot contain a name.
        """
        self._state = state
        self._filter = state.filter
        self._mentions = mentions
        self._fingerprints = fingerprints
        self._max_name_words = state.settings.name_words
        #: By entity, the addresses (places that mention it) to add and to remove; and its normal form.
        self._added_addresses: dict[int, list[int]] = {}
        self._removed_addresses: dict[int, list[int]] = {}
        self._keys: dict[int, str] = {}
        #: The chunks of new documents, whose addresses :meth:`flush` collects.
        self._new_chunks: list[int] = []
        #: The new documents; by document, the older chunks that changed, and older chunks with other mentions; and the
        #: older documents with other names in their titles or headings.
        self._new_documents: dict[int, AddedDocument] = {}
        self._changed_chunks: dict[int, set[int]] = {}
        self._chunks_with_changed_mentions: dict[int, dict[int, AddedChunk]] = {}
        self._documents_with_changed_headings: dict[int, DocumentRecord] = {}
        #: The records before and after the change of each document whose metadata alone changed.
        self._metadata_changes: list[tuple[DocumentRecord, DocumentRecord]] = []
        #: The removed names that each chunk mentioned.
        self._removed_names_by_chunk: dict[int, set[int]] = {}
        #: The normal forms of the names that became known and unknown, by entity.
        self._names_added: dict[int, str] = {}
        self._names_removed: dict[int, str] = {}
        #: The change of the count of each link (two entities and the kind of link).
        self._links: dict[tuple[int, int, int], int] = {}

    def flush(self) -> None:
        """Write the collected changes of addresses (where an entity occurs) to the entity filter, removals first.

        An address is a text or tree node with a rank, which says how well it fits the entity. Of several addresses with
        the same text, only the best is written.
        """
        for entity, new_addresses in self._mentions.collect_addresses(self._new_chunks, []).items():
            self._added_addresses.setdefault(entity, []).extend(new_addresses)
        self._new_chunks.clear()
        for addresses_by_entity, update_filter in (
            (self._removed_addresses, self._filter.remove_address_lists),
            (self._added_addresses, self._filter.add_address_lists),
        ):
            self._load_missing_keys(addresses_by_entity)
            entities = sorted(addresses_by_entity, key=self._keys.__getitem__)
            if entities:
                address_lists = map(addresses_by_entity.__getitem__, entities)
                update_filter(
                    list(map(self._keys.__getitem__, entities)), list(map(addresses.list_best_addresses, address_lists))
                )
            addresses_by_entity.clear()

    def build_delta(self, *, expect_more: bool) -> Delta:
        """Return the collected changes as a delta, from which derived structures such as the graph are updated.

        Must be called after the last change. With ``expect_more``, deltas with further new documents follow.
        """
        # Each document is reported under one kind of change. If it has several, its chunks are reported as changed.
        mentions, headings = self._chunks_with_changed_mentions, self._documents_with_changed_headings
        for document in headings.keys() & (self._changed_chunks.keys() | mentions.keys()):
            self.mark_changed(document, headings.pop(document).chunk_ids())
        for document in self._changed_chunks.keys() & mentions.keys():
            self.mark_changed(document, mentions.pop(document))
        headed_chunks = (record.chunk_ids() for record in headings.values())
        changed_chunks = set(chain(*self._changed_chunks.values(), *mentions.values(), *headed_chunks))
        removed_mentions = {
            chunk: entities for chunk, entities in self._removed_names_by_chunk.items() if chunk not in changed_chunks
        }
        return Delta(
            added=list(self._new_documents.values()),
            changed_metadata=self._metadata_changes,
            changed_chunks=self._changed_chunks,
            changed_mentions={document: list(chunks.values()) for document, chunks in mentions.items()},
            changed_headings=list(headings.values()),
            removed_mentions=removed_mentions,
            names_added=self._names_added,
            names_removed=self._names_removed,
            links=self._links,
            expect_more=expect_more,
        )

    def change_link(self, first_entity: int, second_entity: int, kind: int, change: int) -> None:
        """Record a ``change`` of the number of links of a ``kind``, such as ``TRIPLE_LINK``, between two entities."""
        link = first_entity, second_entity, kind
        self._links[link] = self._links.get(link, 0) + change

    def report_metadata_change(self, record: DocumentRecord, new_record: DocumentRecord) -> None:
        """Record that only the metadata of a document changed, for the derived structures."""
        self._metadata_changes.append((record, new_record))

    def cache_keys(self, keys: Mapping[int, str]) -> None:
        """Cache the keys (normal forms) of entities, by id."""
        self._keys.update(keys)

    def add_node_addresses(self, nodes: NodeEntityPairs) -> None:
        """Collect addresses at tree nodes, which :meth:`flush` adds; ``nodes`` are pairs (node, entity)."""
        for node, entity in nodes:
            self._added_addresses.setdefault(entity, []).append(addresses.make_address(addresses.NODE_RANK, node))

    def remove_node_addresses(self, nodes: NodeEntityPairs) -> None:
        """Collect addresses at tree nodes, which :meth:`flush` removes; ``nodes`` are pairs (node, entity)."""
        for node, entity in nodes:
            self._removed_addresses.setdefault(entity, []).append(addresses.make_address(addresses.NODE_RANK, node))

    def link_document(
        self,
        record: DocumentRecord,
        sections: list[Section],
        chunks: Iterable[tuple[str, int]],
        parts: Mapping[str, Any],
        language: str | None,
    ) -> None:
        """Find all known names in the chunks, title and headings of a new document, and write these mentions.

        Also collects the addresses of the names (where each occurs) for :meth:`flush`, the document for
        :meth:`build_delta`, and fingerprints, which later rule out that a name occurs in a text. ``chunks`` are pairs
        of text and section. ``parts`` are what derivations computed from the document, by name.
        """
        texts: dict[int, bytes] = {}
        added_chunks: list[AddedChunk] = []
        for chunk, (text, section) in zip(record.chunk_ids(), chunks, strict=True):
            folded = fold(text)
            texts[chunk] = folded.data
            occurrences = self._filter.find_mentions(folded, self._max_name_words, self._keys, Occurrence)
            occurrences = self._mentions.put_chunk(chunk, occurrences)
            added_chunks.append(AddedChunk(chunk, text.encode(), section, occurrences))
        self._new_chunks += texts
        self._new_documents[record.id] = AddedDocument(
            record, sections, chunks=added_chunks, parts=parts, language=language
        )
        folded_headings, heading_occurrences = self._find_in_new_headings(record, sections)
        self._fingerprints.add(record.id, folded_headings, texts)
        if heading_occurrences:
            self._mentions.put_headings(record.id, heading_occurrences)
            add_headings(self._added_addresses, heading_occurrences)

    def _find_in_new_headings(
        self, record: DocumentRecord, sections: list[Section]
    ) -> tuple[list[bytes], set[HeadingOccurrence]]:
        """Return the title and headings of a new document, folded, and the occurrences of known names in them."""
        folded_headings: list[bytes] = []
        occurrences: set[HeadingOccurrence] = set()
        for heading in iter_headed_abstracts(record, sections):
            folded = fold(heading.text)
            folded_headings.append(folded.data)
            occurrences.update(
                heading.make_occurrence(entity, self._keys[entity])
                for entity, _, _ in self._filter.find_mentions(folded, self._max_name_words, self._keys, Occurrence)
            )
        return folded_headings, occurrences

    def unlink_documents(self, documents: Sequence[DocumentRecord]) -> None:
        """Remove all mentions in documents that are about to be deleted, and the addresses that lead to them.

        :meth:`flush` writes the removal of the addresses. Recorded changes of the documents' chunks are dropped.
        """
        ids = [record.id for record in documents]
        chunks = [chunk for record in documents for chunk in record.chunk_ids()]
        addresses_by_entity = self._mentions.collect_addresses(chunks, ids)
        self._load_missing_keys(addresses_by_entity)
        for entity, removed_addresses in addresses_by_entity.items():
            self._removed_addresses.setdefault(entity, []).extend(removed_addresses)
        for document in ids:
            self._changed_chunks.pop(document, None)
        self._mentions.remove(chunks, ids)

    def unlink_entities(self, removed_keys: Mapping[int, str]) -> None:
        """Remove the mentions of entities that are no longer known; ``removed_keys`` has their normal forms by id.

        The caller removes their entries in the entity filter.
        """
        self._names_removed.update(removed_keys)
        # No tree has an unknown name, so each address is an abstract, a node in a document's tree of summaries.
        address_lists = self._filter.list_addresses_below(list(removed_keys.values()), _ABOVE_ALL_ADDRESSES)
        all_addresses = list(chain.from_iterable(address_lists))
        abstract_ids = list(dict.fromkeys(address & addresses.TARGET_MASK for address in all_addresses))
        headed_ids = {address & addresses.TARGET_MASK for address in all_addresses if address < _FIRST_BODY_ADDRESS}
        abstracts = self._state.abstracts.get_many(abstract_ids)
        headed_documents = dict.fromkeys(
            abstract.document for id, abstract in zip(abstract_ids, abstracts, strict=True) if id in headed_ids
        )
        self._unlink_from_headings(list(headed_documents), removed_keys)
        leaves = [abstract for abstract in abstracts if not abstract.level]
        self._unlink_from_chunks(leaves, removed_keys)

    def _unlink_from_headings(self, documents: Sequence[int], removed_keys: Mapping[int, str]) -> None:
        """Remove the mentions of the removed entities (the keys of ``removed_keys``) in the headings of documents.

        The headings of a document that had such a mention are marked as changed.
        """
        stored_mentions = self._mentions.get_heading_occurrences_many(documents)
        document_records = self._state.documents.get_many(documents)
        for document, occurrences in zip(documents, stored_mentions, strict=True):
            remaining_occurrences = [occurrence for occurrence in occurrences if occurrence.entity not in removed_keys]
            if len(remaining_occurrences) < len(occurrences):
                self._mentions.put_headings(document, remaining_occurrences)
                self._documents_with_changed_headings[document] = document_records[document]

    def _unlink_from_chunks(self, leaves: Iterable[AbstractRecord], removed_keys: Mapping[int, str]) -> None:
        """Remove the mentions of the removed entities (the keys of ``removed_keys``) in the chunks below ``leaves``.

        The leaves are abstracts (summaries) of the lowest level. Derived structures do not count a mention inside
        another one ("York" in "New York"). So if a removed mention contained another one, the mentions of the chunk are
        counted again.
        """
        documents_by_chunk = {
            chunk: leaf.document for leaf in leaves for chunk in range(leaf.first_chunk, leaf.last_chunk + 1)
        }
        # By document, the chunks in which a remaining mention was inside a removed one.
        recounted_chunks: dict[int, list[int]] = {}
        for chunk, removed in self._mentions.remove_entities(documents_by_chunk, removed_keys).items():
            if removed.covered_others:
                recounted_chunks.setdefault(documents_by_chunk[chunk], []).append(chunk)
            else:
                self._removed_names_by_chunk[chunk] = removed.entities
        for batch in iter_batches(recounted_chunks.items(), _MAX_BATCH_DOCUMENTS):
            self._schedule_recounts(dict(batch))

    def _schedule_recounts(self, chunks: Mapping[int, Sequence[int]]) -> None:
        """Add chunks (ids by document) to the delta, with their texts and mentions, so that mentions are counted again.

        A removed name in these chunks contained another one ("New York" and "York"), which counts separately from now
        on. If the delta already has changed chunks of a document, these chunks are added to them instead.
        """
        for document, record in self._state.documents.get_many(chunks).items():
            is_reported = document in self._changed_chunks or document in self._documents_with_changed_headings
            if is_reported or _has_markup(record.title):
                self.mark_changed(document, chunks[document])
        ids = [chunk for document in chunks if document not in self._changed_chunks for chunk in chunks[document]]
        chunk_records = dict(zip(ids, self._state.chunks.get_many(ids), strict=True))
        ranges: dict[int, list[tuple[int, int]]] = {}
        for chunk_record in chunk_records.values():
            ranges.setdefault(chunk_record.document, []).append((chunk_record.start, chunk_record.end))
        texts = chain.from_iterable(self._state.documents.read_text_slices(ranges).values())
        mentions = self._mentions.get_occurrences_many(ids)
        for (chunk, chunk_record), text, occurrences in zip(chunk_records.items(), texts, mentions, strict=True):
            self._chunks_with_changed_mentions.setdefault(chunk_record.document, {})[chunk] = AddedChunk(
                chunk, text.encode(), chunk_record.section, occurrences
            )

    def mark_changed(self, document: int, chunks: Iterable[int]) -> None:
        """Mark chunks of a document for the update of derived structures, because their facts or names changed.

        Does nothing for a new document, because the delta (the input of that update) has all its chunks anyway.
        """
        if document not in self._new_documents:
            self._changed_chunks.setdefault(document, set()).update(chunks)

    def link_new_names(self, ids_by_key: Mapping[str, int], *, in_stored_chunks: bool) -> None:
        """Record names that became known; ``ids_by_key`` has the entity of each by its normal form.

        With ``in_stored_chunks``, also link them to the stored chunks and headings that mention them. Only texts that
        have all words of a name, by the postings, are searched.
        """
        keys_by_id = {entity: key for key, entity in ids_by_key.items()}
        self._names_added.update(keys_by_id)
        self._keys.update(keys_by_id)
        if not in_stored_chunks or not self._state.counters.chunks:
            return
        names_by_chunk: dict[int, list[int]] = {}
        for name_index, chunks in self._find_candidates(list(ids_by_key)):
            for chunk in chunks.tolist():
                names_by_chunk.setdefault(chunk, []).append(name_index)
        if not names_by_chunk:
            return
        chunks_by_document: dict[int, list[_StoredChunk]] = {}
        ids = sorted(names_by_chunk)
        for chunk, record in zip(ids, self._state.chunks.get_many(ids), strict=True):
            chunks_by_document.setdefault(record.document, []).append(
                _StoredChunk(chunk, record, names_by_chunk[chunk])
            )
        names = _NewNames(ids_by_key, self._max_name_words)
        for batch in iter_batches(chunks_by_document.items(), _MAX_BATCH_DOCUMENTS):
            self._link_stored_documents(dict(batch), names)

    def _find_candidates(self, new_keys: Sequence[str]) -> Iterator[tuple[int, npt.NDArray[np.uint64]]]:
        """Yield the index of each new name that may occur in stored chunks, with the ids of these chunks, ascending.

        A chunk is a candidate if its text, title and headings contain all words of the name, in any order. The
        fingerprints (Bloom filters) of recently stored texts rule out some of these.
        """
        postings = self._state.postings
        stemmers = open_document_stemmers(self._state.settings.stemmer, self._state.counters.languages)
        # The terms of each name that can occur in texts, once for each stemmer, because documents differ in language.
        term_sets_by_index = {
            index: {frozenset(list_guaranteed_terms(key, stem)) for stem in stemmers}
            for index, key in enumerate(new_keys)
            if 0 < len(split_words(key)) <= self._max_name_words
        }
        all_terms = list(dict.fromkeys(chain.from_iterable(chain.from_iterable(term_sets_by_index.values()))))
        sizes = dict(zip(all_terms, postings.get_sizes(all_terms), strict=True))
        for index, term_sets in term_sets_by_index.items():
            chunk_arrays = [
                postings.find_chunks_with_terms(
                    name_terms, sizes, partial(self._fingerprints.filter_candidates, new_keys[index])
                )
                for name_terms in term_sets
                if all(sizes[term].postings for term in name_terms)  # most new names contain a new word
            ]
            chunks = union_sorted(chunk_arrays)
            if len(chunks):
                yield index, chunks

    def _link_stored_documents(self, candidates: Mapping[int, Sequence[_StoredChunk]], new_names: _NewNames) -> None:
        """Find new names in stored documents, write these mentions, and collect the addresses and changed chunks.

        ``candidates`` has by document id the chunks whose words include all words of a new name. These chunks, and the
        titles and headings of the documents, are searched.
        """
        records = self._state.documents.get_many(candidates)
        sections_by_document = self._state.documents.get_sections_many(candidates)
        mentioned_chunks = self._find_in_chunks(candidates, new_names)
        all_mentions = self._put_new_mentions(list(chain.from_iterable(mentioned_chunks.values())))
        for document, older_chunks in candidates.items():
            document_chunks = mentioned_chunks.get(document, [])
            name_indexes = sorted(set(chain.from_iterable(older_chunk.name_indexes for older_chunk in older_chunks)))
            headings = new_names.find_in_headings(records[document], sections_by_document[document], name_indexes)
            if headings:
                self._mentions.put_headings(document, [*self._mentions.get_heading_occurrences(document), *headings])
            if document_chunks and (headings or _has_markup(records[document].title)):
                self.mark_changed(document, records[document].chunk_ids())
            elif headings:
                self._documents_with_changed_headings[document] = records[document]
            elif document_chunks:
                self._chunks_with_changed_mentions.setdefault(document, {}).update(
                    (added_chunk.id, added_chunk._replace(mentions=all_mentions[added_chunk.id]))
                    for added_chunk in document_chunks
                )
            else:
                continue
            new_mentions = {added_chunk.id: added_chunk.mentions for added_chunk in document_chunks}
            for entity, new_addresses in collect_addresses(new_mentions, headings).items():
                self._added_addresses.setdefault(entity, []).extend(new_addresses)

    def _put_new_mentions(self, chunks: Sequence[AddedChunk]) -> dict[int, list[Occurrence]]:
        """Add the mentions of new names in ``chunks`` to the stored mentions; return all mentions by chunk id."""
        stored_mentions = self._mentions.get_occurrences_many(chunk.id for chunk in chunks)
        return {
            chunk.id: self._mentions.put_chunk(chunk.id, [*stored_occurrences, *chunk.mentions])
            for chunk, stored_occurrences in zip(chunks, stored_mentions, strict=True)
        }

    def _find_in_chunks(
        self, candidates: Mapping[int, Sequence[_StoredChunk]], new_names: _NewNames
    ) -> dict[int, list[AddedChunk]]:
        """Return the candidate chunks that mention new names, with these mentions, by document.

        ``candidates`` has by document the chunks whose words include all words of a new name.
        """
        texts = self._state.documents.read_text_slices(
            {
                document: [(older_chunk.record.start, older_chunk.record.end) for older_chunk in older_chunks]
                for document, older_chunks in candidates.items()
            }
        )
        mentioned_chunks: dict[int, list[AddedChunk]] = {}
        for document, older_chunks in candidates.items():
            for (chunk, record, name_indexes), text in zip(older_chunks, texts[document], strict=True):
                occurrences = new_names.find_in_text(text, name_indexes)
                if occurrences:
                    mentioned_chunks.setdefault(document, []).append(
                        AddedChunk(chunk, text.encode(), record.section, occurrences)
                    )
        return mentioned_chunks

    def _load_missing_keys(self, entities: Iterable[int]) -> None:
        """Load the normal forms of these entities into ``_keys``, except those that it already has."""
        missing_ids = [entity for entity in entities if entity not in self._keys]
        if missing_ids:
            records = self._state.entities.get_many(missing_ids)
            self._keys.update((entity, record.key) for entity, record in zip(missing_ids, records, strict=True))


def _has_markup(title: str | None) -> bool:
    """True if a title has markup.

    Mentions are found in its plain text, but the passage graph finds names in the title as stored, so these can differ.
    The rows of the graph must then be derived again.
    """
    return title is not None and to_plain_text(title) != title
