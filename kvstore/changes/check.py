"""CHECK: every invariant of every structure, in both directions. To *introduce* a name is to make it known as an
entity. The *addresses* of an entity are the texts and tree nodes where it occurs. *Postings* map words to chunks. An
*abstract* is a summary of chunks.

In: one view. Out: a sentence for each violation with its location; nothing for a sound store. Damage found by a decoder
is reported, and the rest is still checked. Reads the whole store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from ..arguments import RETIRED_OPTIONS
from ..errors import CorruptionError, KvstoreError
from ..registry import INDEXES, get_buffered_tables, list_generation_indexes
from ..registry.fact import DocumentFact, StatedFact
from ..registry.structure_versions import explain_read_only
from ..storage.change_buffer import check_change_buffer
from ..storage.records import U64
from ..structures import tables
from ..structures.counters import Counters
from ..structures.documents.chunks import GROUP_SIZE, ChunkRecord
from ..structures.documents.documents import DocumentRecord, Section, build_heading_path
from ..structures.filter import addresses
from ..structures.indexes.generations import check_generation
from ..structures.indexes.index import Indexes
from ..structures.indexes.written_texts import WrittenTexts
from ..structures.language_version import check_language_version
from ..structures.names.entities import ENTITIES_PER_BLOCK, EntityRecord
from ..structures.names.mentions import (
    HeadingOccurrence,
    Occurrence,
    collect_addresses,
    find_mentions,
    iter_headed_abstracts,
)
from ..structures.postings import encode_term
from ..structures.state import State
from ..structures.vectors.vectors import FREE_ID, Ids, Vectors
from ..text.languages import choose_stemmer_language
from ..text.normalize import fold, to_entity_key
from ..text.words import count_chunk_terms, get_document_stemmer
from .facts import list_stated_fact_kinds
from .forest_check import check_forest
from .hash_sums import MASK, HashSums, choose_array_size, find_differences
from .structure_check import check_structures
from .vector_check import check_blocks, check_derived

#: The number of normal forms cached while texts are read.
_MAX_KEYS = 1 << 16
_MAX_REPORTED_NAMES = 10
#: Postings store larger numbers as these.
_MAX_FREQUENCY = (1 << 8) - 1
_MAX_LENGTH = (1 << 16) - 1


def check_state(state: State) -> Iterator[str]:
    """Yield every violated invariant of the store as a sentence, and each sentence once."""
    seen: set[str] = set()
    for problem in _Checker(state).run():
        if problem not in seen:
            seen.add(problem)
            yield problem


class _Checker:
    """The checks of one state, in the order of :meth:`run`: later checks use the sums that earlier ones collected."""

    def __init__(self, state: State) -> None:
        """Create the checks of ``state``; this reads only the sizes of two tables."""
        self._state = state
        #: The number of documents by the language that decides their stems.
        self._languages: Counter[str] = Counter()
        #: The size of the text of each document, by its id, and the ids of the documents that can be read.
        self._size_by_document: dict[int, int] = {}
        self._readable_documents: list[int] = []
        #: The lowest id that the next group of chunks can have: above the groups of all documents.
        self._min_next_group = 0
        #: Normal forms of mentioned entities, cached for recognition.
        self._keys: dict[int, str] = {}
        #: The totals that the checks have counted, by the name of the counter.
        self._totals: Counter[str] = Counter()
        # Checksums (sums of hashes) of data that would not fit into memory: for each chunk, of its postings and vector
        # location; for each entity, of its introductions and addresses.
        chunks, entities = (choose_array_size(state.lmdb, table) for table in (tables.CHUNKS, tables.ENTITIES))
        self._posting_checksums = HashSums(chunks)
        self._vector_checksums = HashSums(chunks)
        #: Vectors without a record of verified blocks: each read verifies the block again.
        self._vectors = Vectors(state.lmdb, state.settings.dimension)
        self._introduction_checksums = HashSums(ENTITIES_PER_BLOCK * entities)
        self._address_checksums = HashSums(ENTITIES_PER_BLOCK * entities)

    def run(self) -> Iterator[str]:
        """Yield the violations that all checks find. Unreadable data ends its check, and the next check continues."""
        checks: list[Callable[[], Iterator[str]]] = [
            self._check_change_buffer,
            self._check_document_keys,
            self._check_postings,
            self._check_chunk_vectors,
            self._check_documents,
            self._check_orphans,
            lambda: check_derived(self._state, self._size_by_document),
            self._check_forest,
            *(partial(self._check_facts, fact) for fact in list_stated_fact_kinds()),
            lambda: self._state.aliases.check(self._state.entities.find_id),
            self._check_entities,
            lambda: self._state.filter.check(),
            lambda: check_structures(self._state, map(self._state.documents.get, self._readable_documents)),
            self._check_files,
            self._check_counters,
            self._check_indexes,
            partial(check_language_version, self._state),
        ]
        for run_check in checks:
            try:
                yield from run_check()
            except KvstoreError as error:
                yield str(error)

    def _check_change_buffer(self) -> Iterator[str]:
        """Yield a sentence for each fault of the segments (stored batches of changes) of the change buffer."""
        # A newer version of kvstore may buffer tables that this one does not know; the store is then read-only.
        if explain_read_only(self._state.lmdb) is None:
            yield from check_change_buffer(self._state.lmdb.scan(tables.RECENT), get_buffered_tables())

    def _check_document_keys(self) -> Iterator[str]:
        """Yield a sentence for each document that is not found by its key, and for each key without a document.

        Collects the sizes of the texts, and the lowest id that the next group of chunks can have.
        """
        for record in self._state.documents.scan():
            self._size_by_document[record.id] = record.size
            self._min_next_group = max(self._min_next_group, record.first_group + len(record.groups))
            if self._state.documents.find_id(record.key) != record.id:
                yield f"document {record.id}: the table of keys does not find it by its key {record.key!r}"
        if len(self._size_by_document) != self._state.lmdb.count(tables.DOCUMENT_KEYS):
            yield "the table of document keys has keys of documents that are not stored"

    def _check_postings(self) -> Iterator[str]:
        """Yield a sentence for each fault in the order and the counts of postings (word → chunks that contain it).

        Also sums the hashes of the postings of each chunk, to compare them later with the text of the chunk.
        """
        # The postings of a term are stored in blocks. Their counts are stored only for terms with several blocks.
        expected_sizes: dict[bytes, tuple[int, int]] = {}
        for term, blocks in groupby(self._state.postings.scan(), key=itemgetter(0)):
            num_postings = num_blocks = 0
            previous_chunk = -1
            prefix = term + b"\x00"
            for _, block in blocks:
                chunks = block.chunks.astype(np.int64)
                if (np.diff(chunks) <= 0).any() or chunks[0] <= previous_chunk:
                    yield f"postings of {term!r} are not in order at chunk {chunks[0]}"
                previous_chunk = int(chunks[-1])
                num_postings += len(chunks)
                num_blocks += 1
                columns = (chunks.tolist(), block.frequencies.tolist(), block.lengths.tolist())
                for chunk, frequency, length in zip(*columns, strict=True):
                    self._posting_checksums.add(chunk, (prefix, frequency, length))
            if num_blocks > 1:
                expected_sizes[term] = num_postings, num_blocks
        for term, size in self._state.postings.scan_sizes():
            if size != expected_sizes.pop(term, (0, 0)):
                yield f"term {term!r} has wrong counts: {size.postings} postings in {size.blocks} blocks"
        yield from (f"term {term!r} has no counts" for term in expected_sizes)

    def _check_chunk_vectors(self) -> Iterator[str]:
        """Yield a sentence for each fault of the blocks of chunk vectors.

        Also sums the hashes of the vector locations of each chunk, to compare them later with the record of the chunk.
        """
        duplicate_chunks: list[int] = []

        def add_block(block: int, ids: Ids) -> None:
            """Add the hash of each chunk's location in a block to the sum of that chunk."""
            for row, chunk in enumerate(ids.tolist()):
                if chunk != FREE_ID:
                    if self._vector_checksums[chunk]:  # an earlier row also has this chunk
                        duplicate_chunks.append(chunk)
                    self._vector_checksums.add(chunk, (block, row))

        yield from check_blocks(self._state, self._vectors, add_block)
        yield from (f"chunk {chunk} has two vectors" for chunk in duplicate_chunks)

    def _check_documents(self) -> Iterator[str]:
        """Yield a sentence for each fault of the documents, and collect the ids of readable documents."""
        for record in map(self._state.documents.get, self._size_by_document):
            try:
                yield from self._check_document(record)
                self._readable_documents.append(record.id)
            except KvstoreError as error:
                yield f"document {record.key!r}: {error}"

    def _check_document(self, record: DocumentRecord) -> Iterator[str]:
        """Yield a sentence for each fault in the chunks, mentions and summaries of a document, and add to the totals.

        They must follow from the document's text.
        """
        state = self._state
        text = state.documents.read_text(record.id)
        if len(text) != record.size:
            yield f"document {record.key!r}: {len(text)} bytes of text, {record.size} recorded"
        sections = state.documents.get_sections(record.id)
        language = choose_stemmer_language(state.settings.stemmer, record.meta, text)
        stem = get_document_stemmer(state.settings.stemmer, language)
        if language is not None:
            self._languages[language] += 1
        chunks = list(record.chunk_ids())
        occurrences_by_chunk = dict(zip(chunks, state.mentions.get_occurrences_many(chunks), strict=True))
        yield from self._check_chunks(record, text, sections, occurrences_by_chunk, stem)
        heading_occurrences = state.mentions.get_heading_occurrences(record.id)
        yield from self._check_headings(record, sections, heading_occurrences)
        for entity, entity_addresses in collect_addresses(occurrences_by_chunk, heading_occurrences).items():
            for address in addresses.list_best_addresses(entity_addresses):
                self._address_checksums.add(entity, (address,))
        yield from self._check_abstracts(record, sections)
        for introduction in state.entities.get_introductions(record.id):
            self._count_introduction(*introduction)
        self._totals.update(documents=1, chunks=record.chunk_count, text_bytes=record.size)
        self._totals["abstracts"] += len(record.groups) + len(record.uppers)

    def _check_chunks(
        self,
        record: DocumentRecord,
        text: bytes,
        sections: list[Section],
        occurrences_by_chunk: Mapping[int, list[Occurrence]],
        stem: Callable[[str], str],
    ) -> Iterator[str]:
        """Yield a sentence for each fault in the chunks of a document.

        ``occurrences_by_chunk`` has the stored mentions of each chunk of the document, in order, and ``stem`` is the
        stemming function of the document.
        """
        end = 0
        chunk_records = self._state.chunks.get_many(list(occurrences_by_chunk))
        for ordinal, (chunk_record, (chunk, occurrences)) in enumerate(
            zip(chunk_records, occurrences_by_chunk.items(), strict=True)
        ):
            is_own_chunk = (chunk_record.document, chunk_record.ordinal) == (record.id, ordinal)
            if not is_own_chunk or not end <= chunk_record.start < chunk_record.end:
                yield f"document {record.key!r}: chunk {chunk} has a wrong document, ordinal or range"
            end = chunk_record.end
            chunk_text = text[chunk_record.start : end].decode()
            path = build_heading_path(sections, chunk_record.section)
            yield from self._check_chunk(record, chunk, chunk_record, chunk_text, path, occurrences, stem)
        if end > record.size:
            yield f"document {record.key!r}: its chunks end at {end}, its text at {record.size}"

    def _check_headings(
        self, record: DocumentRecord, sections: list[Section], occurrences: list[HeadingOccurrence]
    ) -> Iterator[str]:
        """Yield a sentence if the stored ``occurrences`` differ from the names in a document's title and headings."""
        expected_occurrences: set[HeadingOccurrence] = set()
        for heading in iter_headed_abstracts(record, sections):
            mentions = find_mentions(self._state.filter, fold(heading.text), self._state.settings.name_words)
            expected_occurrences.update(heading.make_occurrence(mention.entity, mention.key) for mention in mentions)
        is_stored_twice = len(set(occurrences)) < len(occurrences)
        if expected_occurrences != set(occurrences) or is_stored_twice:
            yield f"document {record.key!r}: its stored mentions differ from the names in its title and headings"

    def _count_introduction(self, entity: int, slot: int) -> None:
        """Count a statement that makes a name known, for the later checks of the entities and of the counters.

        ``slot`` is the index of the slot with the name's spelling and kind in the record of the entity.
        """
        self._introduction_checksums.add(entity, (slot,))
        self._totals["introductions"] += 1

    def _check_chunk(
        self,
        record: DocumentRecord,
        chunk: int,
        chunk_record: ChunkRecord,
        chunk_text: str,
        path: list[str],
        occurrences: list[Occurrence],
        stem: Callable[[str], str],
    ) -> Iterator[str]:
        """Yield a sentence for each fault in the postings, words, vector location and mentions of a chunk.

        They must follow from its text and its heading ``path``. ``stem`` is the stemming function of its document, and
        ``occurrences`` are its stored mentions. Also adds its words to the totals.
        """
        terms = count_chunk_terms(record.title, path, chunk_text, stem)
        num_words = sum(terms.values())
        length = min(num_words, _MAX_LENGTH)
        postings = ((encode_term(term), min(count, _MAX_FREQUENCY), length) for term, count in terms.items())
        # The order of the postings does not matter, so sums of hashes modulo 2**64 are compared.
        expected_sum = sum(map(hash, postings))
        if self._posting_checksums.pop_sum(chunk) != expected_sum & MASK:
            yield f"document {record.key!r}: the postings of chunk {chunk} do not match its text"
        if chunk_record.words != num_words:
            yield f"document {record.key!r}: chunk {chunk} has {num_words} words, {chunk_record.words} recorded"
        self._totals["words"] += chunk_record.words
        yield from self._check_vector_location(record, chunk, chunk_record)
        if len(self._keys) > _MAX_KEYS:
            self._keys.clear()
        if occurrences != self._state.filter.find_mentions(
            fold(chunk_text), self._state.settings.name_words, self._keys, Occurrence
        ):
            yield f"document {record.key!r}: the stored mentions of chunk {chunk} differ from the names in its text"

    def _check_vector_location(self, record: DocumentRecord, chunk: int, chunk_record: ChunkRecord) -> Iterator[str]:
        """Yield a sentence if the vector of a chunk is not at the location (block, row) in the chunk's record."""
        if self._vector_checksums.pop_sum(chunk) != hash((chunk_record.block, chunk_record.row)) & MASK:
            try:
                self._vectors.get_row_ids(chunk_record.block)
            except CorruptionError as error:  # the same for every chunk of the block, and reported once
                yield str(error)
            else:
                yield f"document {record.key!r}: the vector of chunk {chunk} is not at the location in its record"

    def _check_abstracts(self, record: DocumentRecord, sections: list[Section]) -> Iterator[str]:
        """Yield a sentence for each fault in the tree of abstracts (summaries) of a document.

        The spans of their sentences, their parents and their children are checked.
        """
        for abstract in record.iter_abstract_ids():
            node = self._state.abstracts.get(abstract)
            # The spans of the summary sentences must be in order, and within the chunks of the abstract.
            offsets = [self._state.chunks.get(node.first_chunk).start]
            offsets += [offset for span in node.summary for offset in span]
            offsets.append(self._state.chunks.get(node.last_chunk).end)
            if offsets != sorted(offsets) or not -1 <= node.section < len(sections):
                yield f"document {record.key!r}: abstract {abstract} has sentences outside its chunks or a bad section"
            self._state.abstracts.read_text(node)  # raises if a sentence begins or ends inside a character
            if node.document != record.id or (node.parent is None) != (abstract == record.root):
                yield f"document {record.key!r}: abstract {abstract} has a wrong document or parent"
            for child in node.children:
                child_node = self._state.abstracts.get(child)
                if child_node.parent != abstract or not (
                    node.first_chunk <= child_node.first_chunk <= child_node.last_chunk <= node.last_chunk
                ):
                    yield f"document {record.key!r}: abstract {child} is not a valid child of {abstract}"
            if node.parent is not None and abstract not in self._state.abstracts.get(node.parent).children:
                yield f"document {record.key!r}: abstract {abstract} is not among the children of {node.parent}"

    def _check_orphans(self) -> Iterator[str]:
        """Yield a sentence for postings, vectors, chunks, mentions and abstracts whose document does not exist.

        The check of each document has reset the checksums of its chunks' postings and vectors to 0, so a nonzero
        checksum belongs to no document.
        """
        documents = self._size_by_document  # the ids of all documents are its keys
        for chunk in self._posting_checksums.iter_nonzero():
            yield f"postings exist for chunk {chunk}, which no document owns"
        for chunk in self._vector_checksums.iter_nonzero():
            yield f"a vector is stored for chunk {chunk}, which no document owns"
        for chunk, chunk_record in self._state.chunks.scan():
            if chunk_record.document not in documents:
                yield f"chunk {chunk} belongs to document {chunk_record.document}, which is not stored"
        for chunk, _ in self._state.mentions.scan():
            if self._state.chunks.find(chunk) is None:
                yield f"mentions are stored for chunk {chunk}, which does not exist"
        for abstract, node in self._state.abstracts.scan():
            if node.document not in documents:
                yield f"abstract {abstract} belongs to document {node.document}, which is not stored"

    def _check_facts(self, fact: StatedFact[Any, Any]) -> Iterator[str]:
        """Yield a sentence for each fact of a kind with a missing document, or with a name that is not known.

        A fact makes its names known (it introduces them), so an unknown name is a fault. Introductions are counted by
        entity, spelling and kind of name, for the check of the entities.
        """
        if isinstance(fact, DocumentFact):  # its records are keyed by the id of the document
            for row_key, _ in self._state.lmdb.scan(fact.row_table):
                document = U64.unpack(row_key)[0]
                if document not in self._size_by_document:
                    yield f"{fact.plural} are stored for document {document}, which does not exist"
        for key, value in fact.scan(self._state):
            for spelling, kind in fact.list_introductions(value):
                entity = self._state.entities.find_id(to_entity_key(spelling))
                if entity is None:
                    yield f"{fact.name} {key!r} introduces {spelling!r}, which is not a known name"
                else:
                    self._count_introduction(entity, self._state.entities.get(entity).get_slot_index(spelling, kind))

    def _check_files(self) -> Iterator[str]:
        """Yield a sentence for each document of an ingested file that is not stored, or has another source."""
        for file in self._state.ingested_files.scan():
            for key in file.documents:
                record = self._state.documents.find_by_key(key)
                problem = f"file {file.source!r} is recorded as ingested, but its document {key!r}"
                if record is None:
                    yield f"{problem} is not stored"
                elif record.source != file.source:
                    yield f"{problem} has the source {record.source!r}"

    def _check_forest(self) -> Iterator[str]:
        """Yield a sentence for each fault of the trees of names; count the edges.

        Also sums the hashes of the addresses (here tree nodes) of each entity, to compare them later with its list.
        """
        forest = self._state.forest
        self._totals["edges"] = sum(1 for _ in forest.iter_edges())
        for node, node_record in forest.iter_nodes():
            self._address_checksums.add(node_record.entity, (addresses.make_address(addresses.NODE_RANK, node),))
        yield from check_forest(self._state, self._size_by_document)

    def _check_entities(self) -> Iterator[str]:
        """Yield a sentence for each entity that differs from the indexes of names or from what earlier checks counted.

        The earlier checks added up the introductions of each entity and its addresses. Also counts the entities.
        """
        state = self._state
        yield from self._check_name_indexes()
        stated_kinds = {kind for fact in list_stated_fact_kinds() for kind in fact.kinds}
        for entity, record in state.entities.scan():
            if not self._has_valid_introductions(entity, record):
                yield f"entity {record.key!r}: its introductions do not match the documents, edges and aliases"
            stored_addresses = state.filter.get_addresses(record.key).tolist()
            # Only a name in a fact of the user can be without an occurrence in a text or tree.
            introduced_kinds = {slot.kind for slot in record.slots if slot.num_introductions}
            if not stored_addresses and not introduced_kinds <= stated_kinds:
                yield f"entity {record.key!r}: only documents introduce it, but none mentions it or has it in a tree"
            address_sum = sum(hash((address,)) for address in stored_addresses) & MASK
            if self._address_checksums[entity] != address_sum or stored_addresses != sorted(set(stored_addresses)):
                yield f"entity {record.key!r}: its block list does not match its mentions and nodes"
            self._totals["entities"] += 1

    def _check_name_indexes(self) -> Iterator[str]:
        """Yield a sentence for differences between the entities, the name index, and the entity filter."""
        state = self._state
        differences = find_differences(
            lambda: ((key, entry.entity) for key, entry in state.filter.iter_entries()), state.entities.iter_names
        )
        for key in sorted({key for (key, _), _ in differences})[:_MAX_REPORTED_NAMES]:
            yield f"entity {key!r} is in the entity filter or in the table of entities, but not in both"
        record_differences = find_differences(
            lambda: ((record.key, entity) for entity, record in state.entities.scan()), state.entities.iter_names
        )
        if any(record_differences):
            yield "the name index does not match the entities"

    def _has_valid_introductions(self, entity: int, record: EntityRecord) -> bool:
        """True if the slots of an entity's record agree with the introductions that earlier checks have counted.

        An introduction is a statement that makes the name known; a slot counts those with one spelling and kind. The
        used slots must differ in spelling or kind, and the last slot must be used.
        """
        used_slots = [slot for slot in record.slots if slot.num_introductions]
        has_duplicates = len({(slot.spelling, slot.kind) for slot in used_slots}) < len(used_slots)
        expected_sum = sum(slot.num_introductions * hash((index,)) for index, slot in enumerate(record.slots))
        return (
            not has_duplicates
            and self._introduction_checksums[entity] == expected_sum & MASK
            and bool(record.slots[-1].num_introductions)  # the writer removes unused slots at the end
        )

    def _check_indexes(self) -> Iterator[str]:
        """Yield a sentence for each fault in the options of indexes, and in the tables of indexes that REFRESH builds.

        Also reads all texts that a language model wrote for indexes; raises CorruptionError for a damaged text.
        """
        for index in INDEXES.values():
            record = Indexes(self._state.lmdb).get(index)
            known_options = index.options.keys() | RETIRED_OPTIONS.get(index.name, frozenset())
            unknown_options = sorted(record.options.keys() - known_options) if record is not None else []
            if unknown_options:
                yield f"index {index.name} has unknown options: {', '.join(unknown_options)}"
        for generation_index in list_generation_indexes():
            yield from check_generation(self._state, generation_index)
        written_texts = WrittenTexts(self._state.lmdb)
        for digest in written_texts.iter_digests():
            written_texts.get(digest)  # raises CorruptionError if the text is damaged

    def _check_counters(self) -> Iterator[str]:
        """Yield a sentence for each stored counter that differs from the total that the other checks counted."""
        counters = Counters.load(self._state.lmdb)
        for name in ("documents", "chunks", "words", "text_bytes", "abstracts", "entities", "introductions", "edges"):
            if getattr(counters, name) != self._totals[name]:
                yield f"the store has {self._totals[name]} {name}, but its counter has {getattr(counters, name)}"
        if counters.languages != self._languages:
            yield f"the documents have the languages {dict(self._languages)}, but the counter has {counters.languages}"
        if counters.next_group < self._min_next_group or counters.next_document <= max(
            self._size_by_document, default=0
        ):
            yield f"the next ids are in use already: chunks have ids up to {GROUP_SIZE * self._min_next_group}"
