"""One set of changes to documents and other facts, applied exactly within one write transaction. A document or fact
*introduces* the names in it: it makes them known as entities. To *link* a document is to record which known names its
texts mention. A *maintainer* updates a derived structure.

In: a :class:`~kvstore.changes.pending.PendingChanges`: extracted documents with their vectors, other stated facts
(:mod:`~kvstore.changes.facts`), and deletions. On disk: every structure of the store, changed so that its content is a
function of the surviving facts alone (docs/design.md, law 2). Order: remove what is deleted; count names; remove names
without an introduction everywhere; search the older chunks for new names through the postings; recognize, write and
link the new documents; update the structures of systems. Nothing is visible before the caller commits. Any error leaves
the transaction to be aborted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..extraction.extraction import ExtractedDocument
from ..process.collection_pause import pause_collection
from ..registry import list_structures
from ..registry.contract import RELATION_LINK
from ..registry.fact import ChangeContext, DocumentFact, StatedFact
from ..registry.structure_versions import require_maintained
from ..settings import FixedSettings
from ..storage.view import WriteView
from ..structures.counters import Counters
from ..structures.documents.documents import DocumentRecord, get_current_second
from ..structures.documents.ingested_files import IngestedFileWriter
from ..structures.filter.entity_filter import EntityFilter
from ..structures.forest.forest import Assertion
from ..structures.forest.forest_writer import ForestWriter
from ..structures.names.entities import EntityWriter
from ..structures.names.mentions import MentionWriter
from ..structures.state import State
from ..text.normalize import to_entity_key
from .document_content import DocumentContentWriter
from .facts import iter_document_facts
from .fingerprint_cache import FingerprintCache
from .full_delta import make_parts_reader
from .linking import Linker
from .name_changes import NameChanges
from .pending import MetadataChange, PendingChanges, PendingDocument
from .unlinked_documents import UnlinkedDocuments, iter_unlinked_documents


@dataclass(frozen=True, slots=True)
class _LinkingContext(ChangeContext):
    """The context in which facts are stored. Facts use ``linker`` only to link the nodes of trees."""

    linker: Linker


class Changes:
    """Writes sets of changes within one write transaction. Call :meth:`finish` before the commit. In an empty store,
    linking documents to the names in them can be *deferred* until all documents are stored.
    """

    def __init__(
        self,
        view: WriteView,
        settings: FixedSettings,
        entity_filter: EntityFilter,
        fingerprints: FingerprintCache | None = None,
    ) -> None:
        """Open a writer for each kind of data in the store on ``view``, a write transaction.

        ``entity_filter`` is the index from names to entities. ``fingerprints``, a cache of Bloom filters of texts,
        shows which recently stored texts cannot contain a name (None: an empty cache). Raises StoreFormatError if the
        store has structures of a version that this kvstore does not maintain.
        """
        require_maintained(view)
        self._view = view
        self.counters = Counters.load(view)
        self._contents = DocumentContentWriter(view, settings, self.counters)
        self.documents = self._contents.documents
        self._entities = EntityWriter(view)
        self._mentions = MentionWriter(view)
        self.forest = ForestWriter(view, self.counters)
        self.filter = entity_filter
        self._fingerprints = fingerprints or FingerprintCache()
        self._fingerprints.begin(self.counters)
        # Maintainers read through the writers, which include changes that are not in the transaction yet.
        state = self.state = State(view, settings)
        state.counters, state.entities, state.mentions = self.counters, self._entities, self._mentions
        state.forest, state.filter = self.forest, self.filter
        self._contents.share_writers(state)
        self._unlinked_documents: UnlinkedDocuments | None = None
        self._maintainers = [structure.make_maintainer(state, view) for structure in list_structures()]

    @pause_collection()
    def apply(self, pending: PendingChanges, *, expect_more: bool = False) -> None:
        """Write pending changes: delete and replace documents and facts, store new ones, and change metadata.

        With ``expect_more``, the caller is about to apply further batches. In an empty store, batches that only add
        documents are then linked by :meth:`write_back`: with all names known, each text is searched for names only
        once.
        """
        can_defer_linking = self._can_defer_linking_of(pending)
        if not can_defer_linking:
            if self._unlinked_documents is not None:
                self._link_unlinked(self._unlinked_documents)
            expect_more = False
        num_deleted = len(pending.documents) - len(pending.new_documents)
        if num_deleted:
            self._view.expect_changes(num_deleted / max(self.counters.documents, 1))
        if expect_more and self._unlinked_documents is None:
            self._unlinked_documents = UnlinkedDocuments()
        linker = Linker(self.state, self._mentions, self._fingerprints)
        context = _LinkingContext(self.state, self._view, self.forest, linker)
        names = NameChanges(self._entities, self.filter)
        if not can_defer_linking:  # otherwise, no document is deleted or replaced
            for removed_records in self.documents.iter_by_keys(pending.documents):
                self._remove_documents(removed_records, context, names)
        for key, origin in pending.origins.items():
            self.documents.set_origin(key, origin)
        for key, metadata_change in pending.metadata.items():
            self._change_metadata(key, metadata_change, linker)
        for fact, key, _ in pending.list_stated_facts():
            self._remove_fact(fact, key, fact.find(self.state, key), context, names)
        self._introduce_names(pending, names)
        ids = self._write_names(names, linker)
        self._write_new(pending, ids, context, names)
        # In trees with many changes, the accepted edges between entities are decided only now.
        for (child_entity, parent_entity), change in self.forest.reduction.classify_deferred_trees().items():
            linker.change_link(child_entity, parent_entity, RELATION_LINK, change)
        self._update_structures(linker)
        # Most terms occur in every batch. So while linking is deferred, postings are buffered across batches, and
        # written only when a flush is due.
        should_flush = self._unlinked_documents is None or self._unlinked_documents.begin_flush_if_due()
        if should_flush:
            self._contents.postings.flush()
        self._contents.flush_vectors()

    def _write_new(
        self, pending: PendingChanges, ids: Mapping[str, int], context: _LinkingContext, names: NameChanges
    ) -> None:
        """Write and link the new documents and facts, and write the new derived parts and records of files.

        ``ids`` has the entities of the names that they make known, by key (normal form). ``names`` has the slots of
        these entities; a slot counts the statements that make a name known with one spelling and kind.
        """
        for new_document in pending.new_documents:
            self._add_document(new_document, ids, names, context.linker)
        for fact, key, value in pending.list_stated_facts():
            if value is not None:
                fact.put(context, ids, key, value)
                self._update_fact_links(fact, key, value, context, change=1)
        for key, parts in pending.parts.items():
            self._contents.replace_parts(key, parts)
        for file in pending.files:
            IngestedFileWriter(self._view).put(file, self.documents)

    def _change_metadata(self, key: str, change: MetadataChange, linker: Linker) -> None:
        """Replace the metadata of a stored document, and report the change to the derived structures.

        The next ingest reads the document's file again, as after any other change of the document.
        """
        record = self.documents.find_by_key(key)
        assert record is not None  # it was stored before the batch, and the batch does not delete it
        new_record = replace(record, meta=change.meta, digest=change.digest, changed_at=get_current_second())
        self.documents.put_record(new_record)
        IngestedFileWriter(self._view).remove([record.source])
        linker.report_metadata_change(record, new_record)

    def _introduce_names(self, pending: PendingChanges, names: NameChanges) -> None:
        """Add the names that new facts and documents make known to ``names``.

        Also counts the introductions of facts. Those of a document are counted when it is stored.
        """
        for fact, _, value in pending.list_stated_facts():
            introduced_names = [] if value is None else fact.list_introductions(value)
            for spelling, kind in introduced_names:
                names.introduce(to_entity_key(spelling), spelling, kind)
                self.counters.introductions += 1
        for new_document in pending.new_documents:
            for introduction in new_document.extracted.introductions:
                names.introduce(introduction.key, introduction.form, introduction.kind)

    def _add_document(
        self, new_document: PendingDocument, ids: Mapping[str, int], names: NameChanges, linker: Linker
    ) -> None:
        """Write a new document, its introductions and its relations, and link it to the names in it.

        ``ids`` has the entities of the introduced names, by key (normal form). ``names`` has their slots: the record of
        an entity has a slot for each spelling and kind, which counts these introductions in all documents. If linking
        is deferred (:class:`.UnlinkedDocuments`), the document is only added to those that are linked later.
        """
        extracted = new_document.extracted
        record, sections = self._contents.store(new_document)
        # The document's introductions are stored as slots, so that its removal can count them down again.
        entity_slots = [
            (entity := ids[key], names.slots[entity, form, kind]) for key, form, kind in extracted.introductions
        ]
        self._entities.put_introductions(record.id, entity_slots)
        self.counters.introductions += len(extracted.introductions)
        if extracted.relations:
            self._store_relations(extracted, record.id, ids, linker)
        if self._unlinked_documents is not None:
            self._unlinked_documents.add(record.id, extracted.language, record.chunk_count)
        else:
            chunks = ((draft.text, draft.section) for draft in extracted.chunks)
            linker.link_document(record, sections, chunks, extracted.parts, extracted.language)

    @property
    def can_defer_linking(self) -> bool:
        """True if no stored document is linked to names yet, so linking can wait for the last document."""
        return self._unlinked_documents is not None or not self.counters.documents

    def _can_defer_linking_of(self, pending: PendingChanges) -> bool:
        """True if linking the documents of these changes to names can wait for the last document.

        This requires that no stored document is linked yet, and that the changes only add documents and replace none.
        """
        has_deletions = len(pending.new_documents) < len(pending.documents)
        has_other_changes = has_deletions or pending.metadata or pending.list_stated_facts()
        if has_other_changes or not self.can_defer_linking:
            return False
        return not any(self.documents.iter_by_keys(pending.documents))

    def _link_unlinked(self, unlinked: UnlinkedDocuments) -> None:
        """Link the documents whose linking was deferred (``unlinked``), and stop deferring.

        Their texts are read from the store again.
        """
        self._unlinked_documents = None
        read_derived_parts = make_parts_reader(self.state)
        for num_linked, documents in enumerate(unlinked.batches, 1):
            linker = Linker(self.state, self._mentions, self._fingerprints)
            for unlinked_document in iter_unlinked_documents(self.state, documents, read_derived_parts):
                linker.link_document(*unlinked_document)
            self._update_structures(linker, expect_more=num_linked < len(unlinked.batches))
        self._contents.postings.flush()

    def _update_structures(self, linker: Linker, *, expect_more: bool = False) -> None:
        """Write the addresses of names (where each occurs) that ``linker`` collected, and update derived structures.

        Derived structures, such as the passage graph, are updated before the mentions of names are written. With
        ``expect_more``, further new documents follow, and a structure can collect its changes for the last of them.
        """
        linker.flush()
        delta = linker.build_delta(expect_more=expect_more)
        for maintainer in self._maintainers:
            maintainer.apply_delta(delta)
        self._mentions.flush()

    def finish(self, lookup_counts: Mapping[str, int] | None = None) -> None:
        """Count the commit, and write all data held in memory to the transaction.

        Documents whose linking was deferred are linked first. ``lookup_counts`` (by entity key) are added to the
        temperatures of entities, their numbers of lookups.
        """
        if lookup_counts:
            self.filter.add_hits(lookup_counts)
            self.counters.hits += sum(lookup_counts.values())
        self.counters.change += 1
        self.write_back()

    def write_back(self) -> None:
        """Write all data held in memory to the transaction, so that reads through it see the data.

        Documents whose linking was deferred are linked first.
        """
        if self._unlinked_documents is not None:
            with pause_collection():
                self._link_unlinked(self._unlinked_documents)
        self.filter.flush()
        self.counters.save(self._view)

    def _remove_documents(
        self, documents: Sequence[DocumentRecord], context: _LinkingContext, names: NameChanges
    ) -> None:
        """Remove documents, with everything that belongs to them, from all structures.

        ``names`` withdraws their introductions, the statements that make names known. ``context.linker`` unlinks the
        documents, and the tree nodes that only they state.
        """
        ids = [record.id for record in documents]
        for record in documents:
            for maintainer in self._maintainers:
                maintainer.remove_document(record)
        for fact, key, value in iter_document_facts(self.state, *documents):
            self._remove_fact(fact, key, value, context, names)
        introductions = self._entities.get_introductions(*ids)
        context.linker.cache_keys(names.withdraw_all(introductions))
        self._entities.remove_introductions(ids)
        self.counters.introductions -= len(introductions)
        context.linker.unlink_documents(documents)
        context.linker.remove_node_addresses(self.forest.remove_document_edges(ids))
        IngestedFileWriter(self._view).remove(record.source for record in documents)
        self._contents.remove(documents)

    def _remove_fact(
        self, fact: StatedFact[Any, Any], key: object, value: object, context: _LinkingContext, names: NameChanges
    ) -> None:
        """Remove a stated fact, such as an edge or the triples of a document; do nothing if its ``value`` is None.

        The fact introduced the names in it, so each of these names loses one introduction.
        """
        if value is None:
            return
        introduced_names = list(fact.list_introductions(value))
        entities = self.filter.find_entities([to_entity_key(spelling) for spelling, _ in introduced_names])
        for entity, (spelling, kind) in zip(entities, introduced_names, strict=True):
            names.withdraw(int(entity), spelling, kind)
        self.counters.introductions -= len(introduced_names)
        self._update_fact_links(fact, key, value, context, change=-1)
        fact.remove(context, key, value)

    def _update_fact_links(
        self, fact: StatedFact[Any, Any], key: Any, value: object, context: _LinkingContext, change: int
    ) -> None:
        """Add ``change`` (1 or -1) to the counts of the links between entities in a fact about a document.

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
        """Store a document's relations as edges of the forest, and link new tree nodes to their entities.

        ``ids`` has the entity of each name by its key (normal form).
        """
        edges: dict[tuple[str, int, int], list[Assertion]] = {}
        for relation in extracted.relations:
            tree = relation.get_tree_name(extracted.key, extracted.meta)
            child, parent = (ids[to_entity_key(name)] for name in (relation.child, relation.parent))
            assertion = Assertion(document, relation.kind, relation.confidence, relation.start, relation.end)
            edges.setdefault((tree, child, parent), []).append(assertion)
        linker.add_node_addresses(self.forest.add_document_edges(document, edges))

    def _write_names(self, names: NameChanges, linker: Linker) -> dict[str, int]:
        """Write the records of changed names, remove names without an introduction, and link new names to older chunks.

        Returns the entities of the names that the changes introduce, new or not, by key (normal form).
        """
        linker.flush()  # so that the filter has the current addresses of the names to remove
        removed_names = names.find_unintroduced()
        if removed_names:
            linker.unlink_entities(removed_names)
            self.filter.delete_many(removed_names.values())
            self.counters.entities -= len(removed_names)
        new_keys = names.find_new_keys()
        new_ids = list(range(self.counters.next_entity, self.counters.next_entity + len(new_keys)))
        self.counters.next_entity += len(new_keys)
        self.counters.entities += len(new_keys)
        self.filter.insert_many(new_keys, new_ids)
        ids_by_key = dict(zip(new_keys, new_ids, strict=True))
        ids = names.write_records(ids_by_key)
        self._entities.put_names({**dict.fromkeys(removed_names.values()), **ids_by_key})
        linker.link_new_names(ids_by_key, in_stored_chunks=self._unlinked_documents is None)
        return ids
