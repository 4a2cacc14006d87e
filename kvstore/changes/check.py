"""CHECK: every invariant of every structure, both ways.

In: one view. Out: a sentence for each violation, naming its place; nothing where the store is sound. Damage that a
decoder meets is reported as such and the rest is checked all the same. Reads the whole store.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ..errors import KvstoreError
from ..storage.change_buffer import check_change_buffer
from ..storage.records import U64
from ..storage.view import View
from ..structures import tables
from ..structures.counters import Counters
from ..structures.documents.chunks import GROUP, ChunkRecord
from ..structures.documents.documents import DocumentRecord, Section, build_heading_path
from ..structures.filter import addresses
from ..structures.indexes.generations import check_generation
from ..structures.indexes.indexes import Indexes
from ..structures.indexes.written_texts import WrittenTexts
from ..structures.language_version import check_language_version
from ..structures.names.aliases import ALIAS, MERGE
from ..structures.names.entities import BLOCK
from ..structures.names.mention_addresses import mention_addresses
from ..structures.names.mention_recognition import iter_headed_abstracts, mentions_in
from ..structures.names.mentions import Occurrence
from ..structures.postings import encode_term
from ..structures.state import State
from ..structures.vectors.vectors import FREE, Ids, Vectors
from ..systems import INDEXES, get_buffered_tables, list_generation_kinds
from ..systems.fact import DocumentFact, StatedFact
from ..systems.versions import unmaintained
from ..text.normalize import fold, to_entity_key
from ..text.words import count_chunk_terms, stemmer
from .facts import stated
from .forest_check import check_forest
from .hash_sums import MASK, HashSums, differing
from .structure_check import check_structures
from .vector_check import check_blocks, check_derived

#: Normal forms that are kept while texts are read.
_MAX_KEYS = 1 << 16


def check(view: State) -> Iterator[str]:
    """Every violated invariant of the store, as a sentence."""
    yield from _Checker(view).run()


class _Checker:
    def __init__(self, view: State) -> None:
        self._view = view
        self._stem = stemmer(view.settings.stemmer)
        #: Documents with the sizes of their texts, and which of them can be read.
        self._sizes: dict[int, int] = {}
        self._sound: list[int] = []
        self._last_group = 0
        #: Normal forms of entities that texts mention, which recognition need not make again.
        self._keys: dict[int, str] = {}
        self._totals: Counter[str] = Counter()
        # What would not fit into memory is summed: of each chunk the postings and the place of its vector, of each
        # entity its introductions and addresses.
        chunks, entities = (_room(view.lmdb, table) for table in (tables.CHUNKS, tables.ENTITIES))
        self._posting_sums = HashSums(chunks)
        self._rows = HashSums(chunks)
        self._introduced = HashSums(BLOCK * entities)
        self._address_sums = HashSums(BLOCK * entities)

    def run(self) -> Iterator[str]:
        checks: list[Callable[[], Iterator[str]]] = [
            self._check_change_buffer,
            self._read_documents,
            self._read_postings,
            self._read_vectors,
            self._check_documents,
            self._check_orphans,
            lambda: check_derived(self._view, self._sizes),
            self._check_forest,
            *(partial(self._check_facts, fact) for fact in stated()),
            self._check_aliases,
            self._check_entities,
            self._check_filter,
            lambda: check_structures(self._view, map(self._view.documents.get, self._sound)),
            self._check_files,
            self._check_counters,
            self._check_indexes,
            partial(check_language_version, self._view),
        ]
        for run_check in checks:
            try:
                yield from run_check()
            except KvstoreError as error:
                yield str(error)

    def _check_change_buffer(self) -> Iterator[str]:
        if unmaintained(self._view.lmdb) is None:  # else there are changes of tables that are not known here
            yield from check_change_buffer(self._view.lmdb.scan(tables.RECENT), get_buffered_tables())

    def _read_documents(self) -> Iterator[str]:
        for record in self._view.documents.scan():
            self._sizes[record.id] = record.size
            self._last_group = max(self._last_group, record.first_group + len(record.groups))
            if self._view.documents.identify(record.key) != record.id:
                yield f"document {record.id}: its key {record.key!r} does not lead to it"
        if len(self._sizes) != self._view.lmdb.count(tables.DOCUMENT_KEYS):
            yield "there are document keys without a document"

    def _read_postings(self) -> Iterator[str]:
        previous: tuple[bytes, int] = (b"", -1)
        postings: Counter[bytes] = Counter()  # of the terms with more than one block
        blocks: Counter[bytes] = Counter()
        previous_size = 0
        for term, block in self._view.postings.scan():
            chunks = block.chunks.astype(np.int64)
            if (np.diff(chunks) <= 0).any() or (term == previous[0] and chunks[0] <= previous[1]):
                yield f"postings of {term!r} are not in order at chunk {chunks[0]}"
            if term == previous[0]:
                postings[term] += len(chunks) + (0 if blocks[term] else previous_size)
                blocks[term] = 1 + (blocks[term] or 1)
            previous, previous_size = (term, int(chunks[-1])), len(chunks)
            prefix = term + b"\x00"
            columns = (chunks.tolist(), block.frequencies.tolist(), block.lengths.tolist())
            for chunk, frequency, length in zip(*columns, strict=True):
                self._posting_sums.add(chunk, (prefix, frequency, length))
        for term, size in self._view.postings.counted():
            if size != (postings.pop(term, 0), blocks.pop(term, 0)):
                yield f"term {term!r} is counted wrongly: {size.postings} postings in {size.blocks} blocks"
        yield from (f"term {term!r} is not counted" for term in postings)

    def _read_vectors(self) -> Iterator[str]:
        duplicates: list[int] = []

        def take(number: int, ids: Ids) -> None:
            for row, chunk in enumerate(ids.tolist()):
                if chunk != FREE:
                    if self._rows[chunk]:
                        duplicates.append(chunk)
                    self._rows.add(chunk, (number, row))

        # Every block is read anew, whatever was verified before.
        yield from check_blocks(self._view, Vectors(self._view.lmdb, self._view.settings.dimension), take)
        yield from (f"chunk {chunk} has two vectors" for chunk in duplicates)

    def _check_documents(self) -> Iterator[str]:
        for record in map(self._view.documents.get, self._sizes):
            try:
                yield from self._check_document(record)
                self._sound.append(record.id)
            except KvstoreError as error:
                yield f"document {record.key!r}: {error}"

    def _check_document(self, record: DocumentRecord) -> Iterator[str]:
        state = self._view
        text = state.documents.text(record.id)
        if len(text) != record.size:
            yield f"document {record.key!r}: {len(text)} bytes of text, {record.size} recorded"
        outline = state.documents.outline(record.id)
        chunks = list(record.chunk_ids())
        rows = dict(zip(chunks, state.mentions.in_chunks(chunks), strict=True))
        end = 0
        for ordinal, (chunk, chunk_record) in enumerate(zip(chunks, state.chunks.get_many(chunks), strict=True)):
            if (chunk_record.document, chunk_record.ordinal) != (
                record.id,
                ordinal,
            ) or not end <= chunk_record.start < chunk_record.end:
                yield f"document {record.key!r}: chunk {chunk} is out of place"
            end = chunk_record.end
            piece = text[chunk_record.start : chunk_record.end].decode()
            yield from self._check_chunk(
                record, chunk, chunk_record, piece, build_heading_path(outline, chunk_record.section), rows[chunk]
            )
        if end > record.size:
            yield f"document {record.key!r}: its chunks end at {end}, its text at {record.size}"
        heading_rows = state.mentions.in_headings(record.id)
        expected_mentions = {
            headed.occurrence(mention.entity, mention.key)
            for headed in iter_headed_abstracts(record, outline)
            for mention in mentions_in(state.filter, fold(headed.text), state.settings.name_words)
        }
        if expected_mentions != set(heading_rows) or len(expected_mentions) != len(heading_rows):
            yield f"document {record.key!r}: the mentions in its title and headings are not those stored"
        for entity, pairs in mention_addresses(rows, heading_rows).items():
            for address in addresses.best(pairs):
                self._address_sums.add(entity, (address,))
        yield from self._check_abstracts(record, outline)
        for introduction in state.entities.introductions(record.id):
            self._count_introduction(*introduction)
        self._totals.update(documents=1, chunks=record.chunk_count, text_bytes=record.size)
        self._totals["abstracts"] += len(record.groups) + len(record.uppers)

    def _count_introduction(self, entity: int, place: int) -> None:
        self._introduced.add(entity, (place,))
        self._totals["introductions"] += 1

    def _check_chunk(
        self,
        record: DocumentRecord,
        chunk: int,
        stored: ChunkRecord,
        piece: str,
        path: list[str],
        rows: list[Occurrence],
    ) -> Iterator[str]:
        terms = count_chunk_terms(record.title, path, piece, self._stem)
        length = min(sum(terms.values()), 65535)
        expected = sum(hash((encode_term(term), min(count, 255), length)) for term, count in terms.items())
        if self._posting_sums.take(chunk) != expected & MASK:
            yield f"document {record.key!r}: the postings of chunk {chunk} are not those of its text"
        if stored.words != sum(terms.values()):
            yield f"document {record.key!r}: chunk {chunk} has {sum(terms.values())} words, {stored.words} recorded"
        self._totals["words"] += stored.words
        if self._rows.take(chunk) != hash((stored.block, stored.row)) & MASK:
            yield f"document {record.key!r}: the vector of chunk {chunk} is not where the chunk says"
        if len(self._keys) > _MAX_KEYS:
            self._keys.clear()
        if rows != self._view.filter.mentions(fold(piece), self._view.settings.name_words, self._keys, Occurrence):
            yield f"document {record.key!r}: the mentions of chunk {chunk} are not those in its text"

    def _check_abstracts(self, record: DocumentRecord, outline: list[Section]) -> Iterator[str]:
        for abstract in record.abstract_ids():
            node = self._view.abstracts.get(abstract)
            offsets = [self._view.chunks.get(node.first_chunk).start]
            offsets += [offset for span in node.summary for offset in span]
            offsets.append(self._view.chunks.get(node.last_chunk).end)
            if offsets != sorted(offsets) or not -1 <= node.section < len(outline):
                yield f"document {record.key!r}: abstract {abstract} sums up what is not below it"
            self._view.abstracts.text(node)  # raises where a sentence begins or ends inside a character
            if node.document != record.id or (node.parent is None) != (abstract == record.root):
                yield f"document {record.key!r}: abstract {abstract} is out of place"
            for child in node.children:
                child_node = self._view.abstracts.get(child)
                if child_node.parent != abstract or not (
                    node.first_chunk <= child_node.first_chunk <= child_node.last_chunk <= node.last_chunk
                ):
                    yield f"document {record.key!r}: abstract {child} is no child of {abstract}"
            if node.parent is not None and abstract not in self._view.abstracts.get(node.parent).children:
                yield f"document {record.key!r}: abstract {abstract} is unknown to its parent {node.parent}"

    def _check_orphans(self) -> Iterator[str]:
        documents = self._sizes
        for chunk in self._posting_sums.left():
            yield f"postings name chunk {chunk}, which no document owns"
        for chunk in self._rows.left():
            yield f"a vector is kept for chunk {chunk}, which no document owns"
        for chunk, chunk_record in self._view.chunks.scan():
            if chunk_record.document not in documents:
                yield f"chunk {chunk} belongs to document {chunk_record.document}, which is not stored"
        for chunk, _ in self._view.mentions.scan():
            if self._view.chunks.find(chunk) is None:
                yield f"mentions are kept for chunk {chunk}, which is not stored"
        for abstract, node in self._view.abstracts.scan():
            if node.document not in documents:
                yield f"abstract {abstract} belongs to document {node.document}, which is not stored"

    def _check_facts(self, fact: StatedFact[Any, Any]) -> Iterator[str]:
        if isinstance(fact, DocumentFact):
            for row, _ in self._view.lmdb.scan(fact.tables[0]):
                document = U64.unpack(row)[0]
                if document not in self._sizes:
                    yield f"{fact.plural} are kept for document {document}, which is not stored"
        for key, value in fact.scan(self._view):
            for form, kind in fact.introductions(value):
                entity = self._view.entities.identify(to_entity_key(form))
                if entity is None:
                    yield f"{fact.name} {key!r}: {form!r}, which it makes known, is not known as a name"
                else:
                    self._count_introduction(entity, self._view.entities.get(entity).place(form, kind))

    def _check_files(self) -> Iterator[str]:
        for file in self._view.ingested_files.scan():
            for key in file.documents:
                record = self._view.documents.find(key)
                if record is None or record.source != file.source:
                    yield f"file {file.source!r} is recorded as ingested, but its document {key!r} is not stored"

    def _check_forest(self) -> Iterator[str]:
        forest = self._view.forest
        self._totals["edges"] = sum(1 for _ in forest.edges())
        for node, node_record in forest.nodes():
            self._address_sums.add(node_record.entity, (addresses.address(addresses.NODE, node),))
        yield from check_forest(self._view, self._sizes)

    def _check_aliases(self) -> Iterator[str]:
        aliases = self._view.aliases
        members: dict[str, list[str]] = {}
        for key, alias in aliases.scan():
            members.setdefault(alias.target, []).append(key)
            if key != alias.key or alias.kind not in (ALIAS, MERGE):
                yield f"alias {key!r} is kept under another name, or is of no known kind"
            if alias.kind == ALIAS and self._view.entities.identify(key) is None:
                yield f"alias {key!r} is not known as a name"
        if dict(aliases.members()) != members:
            yield "the entities that have aliases do not agree with the aliases"
        for key in sorted({name for names in members.values() for name in names}):
            deque(aliases.path(key), maxlen=0)  # raises where they go in a circle

    def _check_entities(self) -> Iterator[str]:
        state = self._view
        to_entity_pairs = partial(map, lambda known: (known[0], known[1].entity))
        differences = differing(lambda: to_entity_pairs(state.filter.keys()), state.entities.names)
        for key in sorted({key for (key, _), _ in differences})[:10]:
            yield f"entity {key!r} is known to the filter or to the table of entities, not to both"
        if any(differing(lambda: ((r.key, entity) for entity, r in state.entities.scan()), state.entities.names)):
            yield "the index of names does not agree with the entities"
        stated_kinds = {kind for fact in stated() for kind in fact.kinds}
        for entity, record in state.entities.scan():
            slots = [slot for slot in record.slots if slot.times]
            expected_sum = sum(slot.times * hash((slot_number,)) for slot_number, slot in enumerate(record.slots))
            has_duplicates = len({slot[:2] for slot in slots}) < len(slots)
            if has_duplicates or self._introduced[entity] != expected_sum & MASK or not record.slots[-1].times:
                yield f"entity {record.key!r}: its introductions are not those of the documents, edges and aliases"
            stored_addresses = state.filter.addresses(record.key).tolist()
            if not stored_addresses and not stated_kinds.issuperset(slot.kind for slot in slots):
                yield f"entity {record.key!r}: a document introduces it that neither mentions it nor has it in a tree"
            address_sum = sum(hash((address,)) for address in stored_addresses) & MASK
            if self._address_sums[entity] != address_sum or stored_addresses != sorted(set(stored_addresses)):
                yield f"entity {record.key!r}: its block list does not agree with its mentions and nodes"
            self._totals["entities"] += 1

    def _check_filter(self) -> Iterator[str]:
        yield from self._view.filter.check()

    def _check_indexes(self) -> Iterator[str]:
        for kind in INDEXES.values():
            record = Indexes(self._view.lmdb).get(kind)
            unknown_options = sorted(record.options.keys() - kind.options.keys()) if record is not None else []
            if unknown_options:
                yield f"index {kind.name} is kept with options that there are not: {', '.join(unknown_options)}"
        for generation_kind in list_generation_kinds():
            yield from check_generation(self._view, generation_kind)
        written_texts = WrittenTexts(self._view.lmdb)
        for content in written_texts.contents():
            written_texts.get(content)

    def _check_counters(self) -> Iterator[str]:
        counters = Counters.load(self._view.lmdb)
        for name in ("documents", "chunks", "words", "text_bytes", "abstracts", "entities", "introductions", "edges"):
            if getattr(counters, name) != self._totals[name]:
                yield f"{self._totals[name]} {name} are stored, {getattr(counters, name)} are counted"
        if counters.next_group < self._last_group or counters.next_document <= max(self._sizes, default=0):
            yield f"ids would be used again: chunk ids up to {GROUP * self._last_group} are taken"


def _room(view: View, table: str) -> int:
    """How many numbers to keep sums of by place: all up to the greatest key of a table, unless few are in use."""
    try:
        last = next(view.scan(table, reverse=True), None)
        return 0 if last is None else min(int.from_bytes(last[0], "big"), 64 * view.count(table)) + 1
    except KvstoreError:  # which whoever reads the table meets again
        return 0
