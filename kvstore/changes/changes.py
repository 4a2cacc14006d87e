"""One set of changes to documents, edges and aliases, applied exactly within one write transaction.

In: a :class:`~kvstore.changes.pending.PendingChanges`: extracted documents with their vectors, other stated facts
(:mod:`~kvstore.changes.facts`), and deletions. On disk: every structure of the store, changed so that its content is a
function of the surviving facts alone (docs/design.md, law 2). Order: remove what is deleted; count names; remove names
without an introduction everywhere; search the older chunks for new names through the postings; recognize, write and
link the new documents; update the structures of systems. Nothing is visible before the caller commits. Any error leaves
the transaction to be aborted.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from ..extraction.abstracts import AbstractTree
from ..extraction.extraction import ExtractedDocument
from ..extraction.validation import pack_chunks
from ..process.collection_pause import pause_collection
from ..registry import list_structures
from ..registry.contract import RELATION_LINK
from ..registry.derivation import list_stored_derivations
from ..registry.fact import ChangeContext, DocumentFact, StatedFact
from ..registry.structure_versions import require_maintained
from ..settings import FixedSettings
from ..storage.view import WriteView
from ..structures.counters import Counters
from ..structures.derived_parts import DerivedPartWriter
from ..structures.documents.chunks import AbstractWriter, ChunkRecord, ChunkWriter
from ..structures.documents.documents import DocumentRecord, DocumentWriter, Section, build_heading_path
from ..structures.documents.ingested_files import IngestedFileWriter
from ..structures.filter.entity_filter import EntityFilter
from ..structures.forest.forest import Assertion
from ..structures.forest.forest_writer import ForestWriter
from ..structures.names.entities import EntityWriter
from ..structures.names.mentions import MentionWriter
from ..structures.postings import PostingWriter
from ..structures.state import State
from ..structures.vectors.vectors import CHUNK_VECTORS, Matrix, VectorWriter
from ..text.languages import find_stemmed_language
from ..text.normalize import to_entity_key
from ..text.words import MULTILINGUAL, count_chunk_terms, get_document_stemmer
from .facts import iter_document_facts
from .full_delta import make_parts_reader
from .linking import Linker
from .name_changes import NameChanges
from .pending import EmbeddedPart, MetadataChange, PendingChanges, PendingDocument
from .trace_cache import TraceCache
from .unlinked_documents import UnlinkedDocuments, iter_unlinked_documents


@dataclass(frozen=True, slots=True)
class _LinkingContext(ChangeContext):
    """The context in which facts are stored. ``linker`` has more methods than facts use, which only link tree nodes."""

    linker: Linker


class Changes:
    """Writes sets of changes within one write transaction. Call :meth:`finish` before the commit."""

    def __init__(
        self, view: WriteView, settings: FixedSettings, entity_filter: EntityFilter, traces: TraceCache | None = None
    ) -> None:
        """Open a writer for each kind of data in the store on ``view``, a write transaction.

        ``entity_filter`` is the index from names to entities. ``traces`` has fingerprints of recently stored texts,
        which rule out that a name occurs in them (None: the fingerprints of this transaction only). Raises
        StoreFormatError if the store has structures of a version that this kvstore does not maintain.
        """
        require_maintained(view)
        self._view = view
        self._settings = settings
        self.counters = Counters.load(view)
        self.documents = DocumentWriter(view)
        self._chunks = ChunkWriter(view)
        self._abstracts = AbstractWriter(view, self.documents)
        self._entities = EntityWriter(view)
        self._mentions = MentionWriter(view)
        self._postings = PostingWriter(view)
        self._vectors = VectorWriter(view, settings.dimension)
        self.forest = ForestWriter(view, self.counters)
        self.filter = entity_filter
        self._traces = traces or TraceCache()
        self._traces.begin(self.counters)
        # Maintainers read the writing parts, which include changes that are not in the transaction yet.
        state = self.state = State(view, settings)
        state.counters, state.documents, state.chunks = self.counters, self.documents, self._chunks
        state.abstracts, state.entities, state.mentions = self._abstracts, self._entities, self._mentions
        state.forest, state.filter, state.postings = self.forest, self.filter, self._postings
        state.vectors = self._vectors
        self._derived_writers = [
            (stored_derivation, DerivedPartWriter(view, stored_derivation.derivation, settings.dimension))
            for stored_derivation in list_stored_derivations(view)
        ]
        state.derived_parts = {stored_derivation.name: parts for stored_derivation, parts in self._derived_writers}
        self._unlinked: UnlinkedDocuments | None = None
        self._maintainers = [structure.make_maintainer(state, view) for structure in list_structures()]

    @pause_collection()
    def apply(self, pending: PendingChanges, *, more_follow: bool = False) -> None:
        """Write pending changes: delete and replace items, and store new documents, edges and aliases.

        ``more_follow``: further batches follow at once. As long as batches only add documents, linking them to names
        then waits for :meth:`write_back`: with all names known, each text is searched for names only once.
        """
        documents, stated_facts = pending.new_documents, pending.list_stated_facts()
        only_adds_documents = self._only_adds_documents(pending)
        if not only_adds_documents:
            if self._unlinked is not None:
                self._link_unlinked(self._unlinked)
            more_follow = False
        if more_follow and self._unlinked is None:
            self._unlinked = UnlinkedDocuments()
        linker = Linker(self.state, self._mentions, self._traces)
        context = _LinkingContext(self.state, self._view, self.forest, linker)
        names = NameChanges(self._entities, self.filter)

        # Remove what is deleted or replaced.
        if not only_adds_documents:
            for removed_records in self.documents.iter_by_keys(pending.documents):
                self._remove_documents(removed_records, context, names)
        for key, origin in pending.origins.items():
            self.documents.set_origin(key, origin)
        for key, metadata_change in pending.metadata.items():
            self._change_metadata(key, metadata_change, linker)

        # Count names, remove names without an introduction, and link new names to the older chunks.
        self._collect_name_changes(documents, stated_facts, context, names)
        ids = self._write_names(names, linker)

        # Write and link what is new.
        for new_document in documents:
            self._add_document(new_document, ids, names, linker)
        for fact, key, value in stated_facts:
            if value is not None:
                fact.put(context, ids, key, value)
                self._update_fact_links(fact, key, value, context, change=1)
        for key, parts in pending.parts.items():
            self._replace_parts(key, parts)
        # Classify the edges of deferred trees; this returns the changes in the numbers of accepted edges.
        for (child_entity, parent_entity), change in self.forest.reduction.classify_deferred_trees().items():
            linker.change_link(child_entity, parent_entity, RELATION_LINK, change)
        for file in pending.files:
            IngestedFileWriter(self._view).put(file, self.documents)
        self._update_structures(linker)
        # Most terms occur in every batch, so the postings of documents that are linked later are written less often.
        if self._unlinked is None or self._unlinked.begin_flush_if_due():
            self._postings.flush()
        for vectors in (self._vectors, *(parts.vectors for _, parts in self._derived_writers)):
            vectors.flush()

    def _change_metadata(self, key: str, change: MetadataChange, linker: Linker) -> None:
        """Replace the metadata of a stored document, and report the change to the derived structures.

        The next ingest reads the document's file again, as after any other change of the document.
        """
        record = self.documents.find_by_key(key)
        assert record is not None  # it was stored before the batch, and the batch does not delete it
        new_record = replace(record, meta=change.meta, digest=change.digest, changed_at=int(time.time()))
        self.documents.put_record(new_record)
        IngestedFileWriter(self._view).remove([record.source])
        linker.report_metadata_change(record, new_record)

    def _collect_name_changes(
        self,
        documents: Iterable[PendingDocument],
        stated_facts: Iterable[tuple[StatedFact[Any, Any], Any, Any]],
        context: _LinkingContext,
        names: NameChanges,
    ) -> None:
        """Remove the earlier values of stated facts, and add the names of new facts and documents to ``names``.

        Also counts the names of new facts as introductions (statements that make a name known). The names of a document
        are counted when it is stored.
        """
        for fact, key, value in stated_facts:
            self._withdraw_fact(fact, key, fact.find(self.state, key), context, names)
            introduced_names = [] if value is None else fact.list_introductions(value)
            for spelling, kind in introduced_names:
                names.introduce(to_entity_key(spelling), spelling, kind)
                self.counters.introductions += 1
        for new_document in documents:
            for introduction in new_document.extracted.introductions:
                names.introduce(introduction.key, introduction.form, introduction.kind)

    def _add_document(
        self, new_document: PendingDocument, ids: Mapping[str, int], names: NameChanges, linker: Linker
    ) -> None:
        """Write a new document, and link it to the names in it, unless linking is deferred.

        ``ids`` has the entities of the names that it makes known, by key (normal form), and ``names`` their records.
        """
        extracted = new_document.extracted
        record, sections = self._store_document(new_document, ids, names, linker)
        if self._unlinked is not None:
            self._unlinked.add(record.id, extracted.language, record.chunk_count)
        else:
            chunks = ((draft.text, draft.section) for draft in extracted.chunks)
            linker.link_document(record, sections, chunks, extracted.parts, extracted.language)

    @property
    def can_defer_linking(self) -> bool:
        """True if no document of the store is linked yet, so new documents can be linked after the last has arrived."""
        return self._unlinked is not None or not self.counters.documents

    def _only_adds_documents(self, pending: PendingChanges) -> bool:
        """True if the changes only add documents to a store that has no linked documents yet.

        None of the documents may replace a stored one.
        """
        has_deletions = len(pending.new_documents) < len(pending.documents)
        if not self.can_defer_linking or has_deletions or pending.metadata or pending.list_stated_facts():
            return False
        return not any(self.documents.iter_by_keys(pending.documents))

    def _link_unlinked(self, unlinked: UnlinkedDocuments) -> None:
        """Link the documents whose linking to the names in them was deferred; no documents are deferred afterwards.

        Their texts are read from the store again.
        """
        self._unlinked = None
        read_derived_parts = make_parts_reader(self.state)
        for documents in unlinked.batches:
            linker = Linker(self.state, self._mentions, self._traces)
            for unlinked_document in iter_unlinked_documents(self.state, documents, read_derived_parts):
                linker.link_document(*unlinked_document)
            self._update_structures(linker)
        self._postings.flush()

    def _update_structures(self, linker: Linker) -> None:
        """Write what ``linker`` collected: the addresses of names (where each occurs), and their mentions.

        Then update derived structures, such as the passage graph, from the collected changes.
        """
        linker.flush()
        delta = linker.build_delta()
        for maintainer in self._maintainers:
            maintainer.apply_delta(delta)
        self._mentions.flush()

    def finish(self, lookup_counts: Mapping[str, int] | None = None) -> None:
        """Count the commit, and write all data held in memory to the transaction.

        Documents whose linking to the names in them was deferred are linked first. ``lookup_counts`` (by entity key)
        are added to the temperatures of entities, their numbers of lookups.
        """
        if lookup_counts:
            self.filter.add_hits(lookup_counts)
            self.counters.hits += sum(lookup_counts.values())
        self.counters.change += 1
        self.write_back()

    def write_back(self) -> None:
        """Write all data held in memory to the transaction, so that reads through it see the data.

        Documents whose linking to the names in them was deferred are linked first.
        """
        if self._unlinked is not None:
            with pause_collection():
                self._link_unlinked(self._unlinked)
        self.filter.flush()
        self.counters.save(self._view)

    def _remove_documents(
        self, documents: Sequence[DocumentRecord], context: _LinkingContext, names: NameChanges
    ) -> None:
        """Remove documents, with everything that belongs to them, from all structures.

        Their introductions, the statements that make names known, are withdrawn.
        """
        ids = [record.id for record in documents]
        for record in documents:
            for maintainer in self._maintainers:
                maintainer.remove_document(record)
        for fact, key, value in iter_document_facts(self.state, *documents):
            self._withdraw_fact(fact, key, value, context, names)
        introductions = self._entities.get_introductions(*ids)
        context.linker.add_keys(names.withdraw_slots(introductions))
        self._entities.remove_introductions(ids)
        self.counters.introductions -= len(introductions)
        context.linker.unlink_documents(documents)
        self._remove_chunks(documents)
        for document in ids:
            context.linker.unlink_nodes(self.forest.remove_document_edges(document))
            for stored_derivation, parts in self._derived_writers:
                # An index that is being dropped still has parts, although it is not maintained.
                if stored_derivation.has_part(document) or parts.find(document) is not None:
                    parts.remove(document)
        self._abstracts.remove(abstract for record in documents for abstract in record.iter_abstract_ids())
        IngestedFileWriter(self._view).remove(record.source for record in documents)
        self.documents.remove(documents)
        self.counters.documents -= len(documents)
        self.counters.text_bytes -= sum(record.size for record in documents)
        self.counters.abstracts -= sum(len(record.groups) + len(record.uppers) for record in documents)

    def _remove_chunks(self, documents: Sequence[DocumentRecord]) -> None:
        """Remove the chunks of documents with their postings and vectors."""
        chunks = [chunk for record in documents for chunk in record.chunk_ids()]
        stored_chunks = iter(zip(chunks, self._chunks.get_many(chunks), strict=True))
        sections_by_document = self.documents.get_sections_many(record.id for record in documents)
        for record in documents:
            sections, text = sections_by_document[record.id], self.documents.read_text(record.id)
            language = find_stemmed_language(self._settings.stemmer, record.meta, text)
            stem = get_document_stemmer(self._settings.stemmer, language)
            if language is not None:
                self.counters.count_language(language, change=-1)
            for chunk, chunk_record in islice(stored_chunks, record.chunk_count):
                chunk_text = text[chunk_record.start : chunk_record.end].decode()
                path = build_heading_path(sections, chunk_record.section)
                self._postings.remove(chunk, count_chunk_terms(record.title, path, chunk_text, stem).keys())
                self._vectors.remove(chunk_record.block, chunk_record.row)
                self.counters.words -= chunk_record.words
        self._chunks.remove(chunks)
        self.counters.chunks -= len(chunks)

    def _withdraw_fact(
        self, fact: StatedFact[Any, Any], key: object, value: object, context: _LinkingContext, names: NameChanges
    ) -> None:
        """Remove the ``value`` of a fact (None: nothing is stated), and withdraw the introductions of its names.

        An introduction is a statement that makes a name known.
        """
        if value is None:
            return
        introduced_names = list(fact.list_introductions(value))
        entities = self.filter.find_many([to_entity_key(spelling) for spelling, _ in introduced_names])
        for entity, (spelling, kind) in zip(entities, introduced_names, strict=True):
            names.withdraw(int(entity), spelling, kind)
        self.counters.introductions -= len(introduced_names)
        self._update_fact_links(fact, key, value, context, change=-1)
        fact.remove(context, key, value)

    def _update_fact_links(
        self, fact: StatedFact[Any, Any], key: Any, value: object, context: _LinkingContext, change: int
    ) -> None:
        """Add ``change`` (1 or -1) to the counts of the links between entities that a fact of a document states.

        Marks the document's chunks as changed if the fact affects derived structures, such as the passage graph. Does
        nothing if the fact is not about a document.
        """
        if not isinstance(fact, DocumentFact):
            return
        record = self.documents.find_by_key(key)
        if record is not None:
            for link in fact.list_links(self.state, value):
                context.linker.change_link(*link, change)
            if fact.affects_structures:
                context.linker.mark_changed(record.id, record.chunk_ids())

    def _store_relations(
        self, extracted: ExtractedDocument, document: int, ids: Mapping[str, int], linker: Linker
    ) -> None:
        """Store the relations that a document states as edges of the forest, and link new tree nodes to their entities.

        ``ids`` has the entity of each name by its key (normal form).
        """
        edges: dict[tuple[str, int, int], list[Assertion]] = {}
        for relation in extracted.relations:
            tree = relation.get_tree_name(extracted.key, extracted.meta)
            child, parent = (ids[to_entity_key(name)] for name in (relation.child, relation.parent))
            assertion = Assertion(document, relation.kind, relation.confidence, relation.start, relation.end)
            edges.setdefault((tree, child, parent), []).append(assertion)
        linker.link_nodes(self.forest.add_document_edges(document, edges))

    def _write_names(self, names: NameChanges, linker: Linker) -> dict[str, int]:
        """Write the records of changed names, remove names without an introduction, and link new names to older chunks.

        An introduction is a statement that makes a name known. Returns the entities of the names that the changes
        introduce, new or not, by key (normal form).
        """
        linker.flush()  # so that the filter has the current addresses of the names to remove
        removed = names.find_unintroduced()
        if removed:
            linker.unlink_entities(removed)
            for key in removed.values():
                self.filter.delete(key)
            self._entities.remove(removed)
            self.counters.entities -= len(removed)
        new_keys = names.find_new_keys()
        new_ids = list(range(self.counters.next_entity, self.counters.next_entity + len(new_keys)))
        self.counters.next_entity += len(new_keys)
        self.counters.entities += len(new_keys)
        self.filter.insert_many(new_keys, new_ids)
        ids_by_key = dict(zip(new_keys, new_ids, strict=True))
        ids = names.write_records(ids_by_key)
        self._entities.put_names(ids_by_key)
        linker.link_new_names(ids_by_key, in_stored_chunks=self._unlinked is None)
        return ids

    def _store_document(
        self, pending: PendingDocument, ids: Mapping[str, int], names: NameChanges, linker: Linker
    ) -> tuple[DocumentRecord, list[Section]]:
        """Write a new document and its derived parts, count it, and return its record and sections.

        ``ids`` has the entities of the names that it introduces, by key (normal form). ``names`` has the index of the
        slot of each entity's record that counts these introductions. The caller links the names that the document
        mentions.
        """
        extracted, counters = pending.extracted, self.counters
        document = counters.next_document
        counters.next_document += 1
        # A group has the chunks below one leaf abstract.
        groups = extracted.tree.leaf_sizes if extracted.tree else []
        first_group = counters.next_group
        abstract_ids = self._store_abstracts(document, extracted.tree)
        record = DocumentRecord(
            id=document,
            key=extracted.key,
            title=extracted.title,
            source=extracted.source,
            format=extracted.format,
            meta=extracted.meta,
            digest=extracted.digest,
            size=len(extracted.text),
            changed_at=int(time.time()) if pending.changed_at is None else pending.changed_at,
            first_group=first_group,
            groups=groups,
            uppers=abstract_ids[len(groups) :],
            own_vectors=pending.own_vectors,
            origin=pending.origin,
            left_out=extracted.left_out,
            own_chunks=pack_chunks(extracted.own_chunks),
        )
        # A section extracted from a text has the index of its abstract among the abstracts of the document.
        sections = [replace(section, abstract=abstract_ids[section.abstract]) for section in extracted.sections]
        self.documents.put(record, extracted.text, sections)
        introduced_entities = [(ids[name.key], name) for name in extracted.introductions]
        slots = [(entity, names.slots[entity, name.form, name.kind]) for entity, name in introduced_entities]
        self._entities.put_introductions(document, slots)
        self._store_chunks(record, extracted, pending.vectors[CHUNK_VECTORS.name])
        for stored_derivation, parts in self._derived_writers:
            if stored_derivation.is_maintained:
                parts.put(document, extracted.parts[stored_derivation.label], pending.vectors[stored_derivation.label])
        if extracted.relations:
            self._store_relations(extracted, document, ids, linker)
        counters.documents += 1
        if self._settings.stemmer == MULTILINGUAL:
            counters.count_language(extracted.language or "", change=1)
        counters.text_bytes += record.size
        counters.introductions += len(extracted.introductions)
        return record, sections

    def _store_abstracts(self, document: int, tree: AbstractTree | None) -> list[int]:
        """Write the abstracts (summaries) of a new document, and return their ids: the leaves, then those above them.

        ``tree`` is None for a document without chunks. The ids are the next ones of the counters, which are increased.
        """
        if tree is None:
            return []
        counters, num_leaves = self.counters, len(tree.leaf_sizes)
        abstract_records = tree.build_records(document, counters.next_group, counters.next_upper)
        counters.next_group += num_leaves  # the id of a leaf is the number of its group of chunks
        counters.next_upper += len(abstract_records) - num_leaves
        counters.abstracts += len(abstract_records)
        for abstract, abstract_record in abstract_records.items():
            self._abstracts.put(abstract, abstract_record)
        return list(abstract_records)

    def _store_chunks(self, record: DocumentRecord, extracted: ExtractedDocument, vectors: Matrix) -> None:
        """Write the chunks of a new document with their postings and ``vectors``, one per chunk."""
        counters = self.counters
        for ordinal, (chunk, draft) in enumerate(zip(record.chunk_ids(), extracted.chunks, strict=True)):
            block, row = self._vectors.add(chunk, vectors[ordinal], counters.next_vector_block)
            # The block is a new one if all others were full.
            counters.next_vector_block = max(counters.next_vector_block, block + 1)
            chunk_record = ChunkRecord(
                document=record.id,
                start=draft.start,
                end=draft.end,
                ordinal=ordinal,
                section=draft.section,
                words=draft.length,
                block=block,
                row=row,
            )
            self._chunks.put(chunk, chunk_record)
            self._postings.add(chunk, draft.terms, draft.length)
            counters.words += draft.length
        counters.chunks += record.chunk_count

    def _replace_parts(self, key: str, new_parts: Mapping[str, EmbeddedPart]) -> None:
        """Replace derived parts of a stored document, such as its sentences, by ``new_parts``.

        Facts on which these parts depend have changed. ``key`` is the document's key, and ``new_parts`` has the new
        parts by the label of their derivation.
        """
        record = self.documents.find_by_key(key)
        for stored_derivation, parts in self._derived_writers:
            if record is not None and stored_derivation.label in new_parts and stored_derivation.has_part(record.id):
                parts.remove(record.id)
                parts.put(record.id, *new_parts[stored_derivation.label])
