"""A set of document changes carried into one write transaction, exactly.

In: extracted documents with their vectors, and keys to delete. On disk: every structure of the store, changed so that
what it holds is a function of the surviving documents alone (DESIGN.md, law 2). The order inside: what goes is taken
out, names are counted, names without an introduction left are removed everywhere, new names are looked for in the
older chunks through the postings, then the new documents are recognised, written and linked. Nothing is visible
before the caller commits; any error leaves the transaction to be aborted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ..settings import FixedSettings
from ..storage.chunks import GROUP, AbstractRecord, AbstractWriter, ChunkRecord, ChunkWriter
from ..storage.counters import Counters
from ..storage.documents import DocumentRecord, DocumentWriter, Section, heading_path
from ..storage.entities import EntityRecord, EntityWriter, MentionWriter
from ..storage.entity_filter import EntityFilter
from ..storage.forest import ForestWriter
from ..storage.postings import PostingWriter
from ..storage.vectors import Matrix, VectorWriter
from ..storage.view import WriteView
from ..text.normalize import entity_key
from ..text.words import chunk_terms, stemmer
from .extraction import Extracted, pairs_of
from .linking import Linker


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document ready to be stored: what was extracted, and one unit vector a chunk (shape (chunks, dimension))."""

    extracted: Extracted
    vectors: Matrix
    own_vectors: bool = False
    origin: str | None = None


class Changes:
    """Document changes of one write transaction; :meth:`finish` must be called before the commit."""

    def __init__(self, view: WriteView, settings: FixedSettings) -> None:
        self._view = view
        self._settings = settings
        self.counters = Counters.load(view)
        self.documents = DocumentWriter(view)
        self._chunks = ChunkWriter(view)
        self._abstracts = AbstractWriter(view)
        self._entities = EntityWriter(view)
        self._mentions = MentionWriter(view)
        self._postings = PostingWriter(view)
        self._vectors = VectorWriter(view, settings.dimension)
        self._forest = ForestWriter(view, self.counters)
        self.filter = EntityFilter(view, hash_seed=settings.hash_seed)

    def apply(self, prepared: Sequence[Prepared], deleted: Sequence[str] = ()) -> None:
        """Store documents in place of those of the same key, and delete others; keys are each named once."""
        linker = Linker(
            self.documents,
            self._chunks,
            self._abstracts,
            self._entities,
            self._mentions,
            self._postings,
            self.filter,
            self._settings,
        )
        changed_names = _NameChanges(self._entities, self.filter)
        for key in [item.extracted.key for item in prepared] + list(deleted):
            record = self.documents.find(key)
            if record is not None:
                self._take_out(record, linker, changed_names)
        self._postings.flush()
        for item in prepared:
            for name in item.extracted.introductions:
                changed_names.introduce(name.key, name.form, name.kind)
        ids = self._settle_names(changed_names, linker)
        for item in prepared:
            self._put_in(item, ids, linker)
        linker.flush()
        self._postings.flush()
        self._vectors.flush()

    def finish(self, hits: Mapping[str, int] | None = None) -> None:
        """Fold in temperatures, write the private pages and the counters."""
        if hits:
            self.filter.fold_temperatures(hits)
        self.counters.change += 1
        self.write_back()

    def write_back(self) -> None:
        """Put what is held privately into the transaction, so that reading through its view sees everything."""
        self.filter.flush()
        self.counters.save(self._view)

    def _take_out(self, record: DocumentRecord, linker: Linker, names: _NameChanges) -> None:
        """Remove a document and all that is its own; its names lose one introduction each."""
        outline = self.documents.outline(record.id)
        stem = stemmer(self._settings.stemmer)
        linker.unlink_document(record)
        for chunk in record.chunk_ids():
            stored = self._chunks.get(chunk)
            text = self.documents.text_slice(record.id, stored.start, stored.end)
            path = heading_path(outline, stored.section)
            self._postings.remove(chunk, chunk_terms(record.title, path, text, stem).keys())
            self._vectors.remove(stored.block, stored.row)
            self._chunks.remove(chunk)
            self.counters.words -= stored.words
        if record.format == "pairs":
            self._withdraw_edges(record, linker)
        for abstract in record.abstract_ids():
            self._abstracts.remove(abstract)
        for entity, form, kind in self._entities.introduced(record.id):
            names.withdraw(entity, form, kind)
            self.counters.introductions -= 1
        self._entities.remove_introduced(record.id)
        self.documents.remove(record)
        self.counters.documents -= 1
        self.counters.chunks -= record.chunk_count
        self.counters.text_bytes -= record.size
        self.counters.abstracts -= len(record.groups) + len(record.uppers)

    def _withdraw_edges(self, record: DocumentRecord, linker: Linker) -> None:
        pairs = pairs_of(self.documents.text(record.id).decode())
        ids = self._edge_entities(pairs)
        for child, parent in pairs:
            gone = self._forest.remove_edge(tree_of(record), ids[child], ids[parent], record.id)
            for node, entity in gone:
                linker.unlink_node(entity, node)

    def _edge_entities(self, pairs: Sequence[tuple[str, str]]) -> dict[str, int]:
        names = sorted({name for pair in pairs for name in pair})
        found = self.filter.find_many([entity_key(name) for name in names])
        return dict(zip(names, map(int, found), strict=True))

    def _settle_names(self, names: _NameChanges, linker: Linker) -> dict[str, int]:
        """Write the counts of all names touched; removes those without introduction, finds the new ones in older
        chunks."""
        linker.flush()
        for entity, record in names.without_introduction():
            linker.unlink_entity(entity, record.key)
            self.filter.delete(record.key)
            self._entities.remove(entity, record.key)
            self.counters.entities -= 1
        new = names.new_keys()
        numbers = list(range(self.counters.next_entity, self.counters.next_entity + len(new)))
        self.counters.next_entity += len(new)
        self.counters.entities += len(new)
        self.filter.insert_many(new, numbers)
        ids = names.settle(dict(zip(new, numbers, strict=True)))
        for key, number in zip(new, numbers, strict=True):
            self._entities.put_name(key, number)
        linker.link_older(dict(zip(new, numbers, strict=True)))
        return ids

    def _put_in(self, item: Prepared, ids: Mapping[str, int], linker: Linker) -> None:
        """Write a new document and link the names it mentions; ``ids`` are those of the names introduced."""
        extracted = item.extracted
        counters = self.counters
        document = counters.next_document
        counters.next_document += 1
        groups = extracted.tree.groups if extracted.tree else []
        first_group = counters.next_group
        counters.next_group += len(groups)
        abstract_ids = self._put_abstracts(extracted, document, first_group)
        record = DocumentRecord(
            id=document,
            key=extracted.key,
            title=extracted.title,
            source=extracted.source,
            format=extracted.format,
            meta=extracted.meta,
            digest=extracted.digest,
            size=len(extracted.text),
            changed=datetime.now(UTC).isoformat(timespec="seconds"),
            first_group=first_group,
            groups=groups,
            root=abstract_ids[-1] if abstract_ids else None,
            uppers=abstract_ids[len(groups) :],
            own_vectors=item.own_vectors,
            origin=item.origin,
        )
        outline = [
            Section(s.level, s.title, s.parent, s.start, s.end, abstract_ids[s.abstract]) for s in extracted.outline
        ]
        self.documents.put(record, extracted.text, outline)
        self._entities.put_introduced(
            document, [(ids[name.key], name.form, name.kind) for name in extracted.introductions]
        )
        for ordinal, (chunk, draft) in enumerate(zip(record.chunk_ids(), extracted.chunks, strict=True)):
            block, row = self._vectors.add(chunk, item.vectors[ordinal], counters.next_vector_block)
            counters.next_vector_block = max(counters.next_vector_block, block + 1)
            stored = ChunkRecord(document, draft.start, draft.end, ordinal, draft.section, draft.length, block, row)
            self._chunks.put(chunk, stored)
            self._postings.add(chunk, draft.terms, draft.length)
            counters.words += draft.length
        linker.link_document(record, outline, [draft.text for draft in extracted.chunks])
        self._state_edges(extracted, record, linker)
        counters.documents += 1
        counters.chunks += record.chunk_count
        counters.text_bytes += record.size
        counters.abstracts += len(abstract_ids)
        counters.introductions += len(extracted.introductions)

    def _state_edges(self, extracted: Extracted, record: DocumentRecord, linker: Linker) -> None:
        if extracted.edges:
            ids = self._edge_entities(extracted.edges)
            for child, parent in extracted.edges:
                for node, entity in self._forest.add_edge(tree_of(record), ids[child], ids[parent], record.id):
                    linker.link_node(entity, node)

    def _put_abstracts(self, extracted: Extracted, document: int, first_group: int) -> list[int]:
        """Write the abstract tree; returns the id of every draft."""
        tree = extracted.tree
        if tree is None:
            return []
        uppers = len(tree.drafts) - tree.leaves
        first_upper = self.counters.next_upper
        self.counters.next_upper += uppers
        ids = [*range(first_group, first_group + tree.leaves), *range(first_upper, first_upper + uppers)]
        chunk_ids = [GROUP * (first_group + g) + j for g, size in enumerate(tree.groups) for j in range(size)]
        for number, draft in zip(ids, tree.drafts, strict=True):
            heading = extracted.outline[draft.section].title if draft.section >= 0 else extracted.title
            parent = None if draft.parent is None else ids[draft.parent]
            record = AbstractRecord(
                document,
                parent,
                draft.level,
                chunk_ids[draft.first_chunk],
                chunk_ids[draft.last_chunk],
                [ids[child] for child in draft.children],
                heading,
                draft.text,
            )
            self._abstracts.put(number, record)
        return ids


def tree_of(record: DocumentRecord) -> str:
    """The name of the tree that a document of pairs states: its ``tree`` metadatum, or else its key."""
    return str(record.meta.get("tree") or record.key)


class _NameChanges:
    """How introductions change in one apply, name by name; written once at the end."""

    def __init__(self, entities: EntityWriter, entity_filter: EntityFilter) -> None:
        self._entities = entities
        self._filter = entity_filter
        self._known: dict[int, EntityRecord] = {}
        self._deltas: dict[str, list[tuple[str, str, int]]] = {}
        self._ids: dict[str, int] = {}

    def introduce(self, key: str, form: str, kind: str) -> None:
        self._deltas.setdefault(key, []).append((form, kind, 1))

    def withdraw(self, entity: int, form: str, kind: str) -> None:
        record = self._known.get(entity)
        if record is None:
            record = self._known[entity] = self._entities.get(entity)
            self._ids[record.key] = entity
        _count(record, form, kind, -1)

    def without_introduction(self) -> list[tuple[int, EntityRecord]]:
        """Known names that nothing introduces any more, in this apply or before."""
        return [
            (entity, record)
            for entity, record in self._known.items()
            if not record.forms and record.key not in self._deltas
        ]

    def new_keys(self) -> list[str]:
        """Names introduced that the store does not know yet, in order."""
        unknown = [key for key in self._deltas if key not in self._ids]
        for key, entity in zip(unknown, self._filter.find_many(unknown), strict=True):
            if entity:
                self._ids[key] = int(entity)
        return sorted(key for key in unknown if key not in self._ids)

    def settle(self, new: Mapping[str, int]) -> dict[str, int]:
        """Write the records of all names touched and still introduced; returns the ids of those introduced here."""
        self._ids.update(new)
        for key, changes in self._deltas.items():
            entity = self._ids[key]
            if entity not in self._known:
                self._known[entity] = EntityRecord(key) if key in new else self._entities.get(entity)
            for form, kind, delta in changes:
                _count(self._known[entity], form, kind, delta)
        for entity, record in self._known.items():
            if record.forms:
                self._entities.put(entity, record)
        return {key: self._ids[key] for key in self._deltas}


def _count(record: EntityRecord, form: str, kind: str, delta: int) -> None:
    for counts, item in ((record.forms, form), (record.kinds, kind)):
        counts[item] = counts.get(item, 0) + delta
        if not counts[item]:
            del counts[item]
