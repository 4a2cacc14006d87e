"""CHECK REPAIR: rebuild all derived data from the stored facts and the options of indexes. A *fact* is data that a user
added, such as a document or an edge. A *derivation* computes data from one document, such as its sentences, whose texts
are embedded in a vector space of the derivation.

In: a store whose derived structures are damaged, or were built by the rules of an older format. On disk: one write
transaction that empties every table and fills it from the state before. Reading processes see the old store or the new
one, and a crash leaves the old one. If pages of the data file are damaged, the transaction fills a new data
file, and a damaged page loses only its own records. Ids continue and are never reused. Temperatures and vectors are
kept if they can be read; texts without a vector are embedded again. Out: a :class:`RebuildReport`. A damaged
fact (:mod:`~kvstore.changes.facts`) or option cannot be rebuilt: it is listed there and removed from the store. The
records of ingested files are not kept, so the files are read again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..errors import CorruptionError, InputError, KvstoreError
from ..extraction.extraction import ExtractedDocument, extract_document
from ..extraction.validation import add_vectors_to_digest
from ..models.embedder import collect_vectors
from ..registry import INDEXES, list_store_tables
from ..registry.derivation import collect_missing_texts, derive_parts, list_context_facts, list_maintained_derivations
from ..registry.fact import DocumentFact, StatedFact
from ..registry.structure_versions import write_versions
from ..settings import FixedSettings
from ..storage import records
from ..storage.environment import Environment, ReadTransaction, WriteTransaction
from ..structures import tables
from ..structures.counters import Counters
from ..structures.documents.chunks import FIRST_UPPER_ABSTRACT, GROUP_SIZE
from ..structures.documents.documents import DocumentRecord, Documents
from ..structures.filter.entity_filter import EntityFilter
from ..structures.indexes.index import Indexes, IndexWriter
from ..structures.indexes.written_texts import WrittenTexts, WrittenTextWriter
from ..structures.language_version import put_language_version, put_settings
from ..structures.names.entities import ENTITIES_PER_BLOCK
from ..structures.state import State
from ..structures.vectors.vectors import CHUNK_VECTORS, Matrix
from . import facts
from .changes import Changes
from .document_completion import complete_pending, read_derived_vectors
from .full_delta import iter_batches
from .pending import PendingChanges, PendingDocument, validate_stored

Embed = Callable[[Sequence[str]], Matrix]

#: The number of chunks, or of other facts, that are put together in one batch.
_MAX_BATCH = 4096

Result = TypeVar("Result")


@dataclass(slots=True)
class RebuildReport:
    """The result of a rebuild: the numbers of restored documents and chunks, and of chunks that were embedded again.

    ``lost`` has a sentence for each item of data that could not be read.
    """

    documents: int = 0
    chunks: int = 0
    embedded: int = 0
    lost: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RepairReport:
    """The result of CHECK REPAIR: the problems found, the rebuild, and the remaining problems."""

    found: list[str]
    rebuilt: RebuildReport | None = None
    remaining: list[str] = field(default_factory=list)

    @property
    def lost(self) -> list[str]:
        """A sentence about each item of data that could not be read and is lost; empty if nothing was rebuilt."""
        return [] if self.rebuilt is None else self.rebuilt.lost


def rebuild_store(environment: Environment, settings: FixedSettings, embed: Embed) -> RebuildReport:
    """Rebuild all derived data in one commit, or in a new data file if pages of the current one are damaged.

    Raises the errors of the embedder if texts must be embedded again, LockTimeoutError, ReadOnlyError, StoreFullError,
    and TransactionError if the data file must be replaced while another process has the store open. After an error the
    store is unchanged.
    """

    def run_rebuild(snapshot: ReadTransaction, view: WriteTransaction) -> RebuildReport:
        """Rebuild the store of ``snapshot`` in ``view``, and return the report, which lists the skipped damage."""
        lost = snapshot.skip_damage()
        lost += _describe_lost_pages(snapshot)
        with State(snapshot, settings) as state:
            rebuilt = _Rebuilder(state, view, embed).run()
        rebuilt.lost = [*lost, *rebuilt.lost]
        return rebuilt

    def run_in_place(view: WriteTransaction) -> RebuildReport:
        """Rebuild the last commit in its own data file, and return the report."""
        # LMDB keeps the last commit readable during the transaction that replaces it.
        with environment.snapshot() as snapshot:
            return run_rebuild(snapshot, view)

    if environment.describe_page_faults():
        return environment.rewrite(run_rebuild)
    return environment.write_with_growth(run_in_place)


def _describe_lost_pages(snapshot: ReadTransaction) -> Iterator[str]:
    """Yield a sentence for each damaged page whose records cannot be rebuilt."""
    fact_tables = [fact.row_table for fact in facts.list_fact_kinds()]
    for table in dict.fromkeys([tables.RECENT, *fact_tables, tables.INDEXES, tables.WRITTEN]):
        for damage in snapshot.describe_damaged_pages(table):
            yield f"records of table {table}: {damage}; restore a backup, or put the missing records again"


class _OldDocument(NamedTuple):
    """A document of the old store, extracted again, and the vectors of its chunks; None if they cannot be read."""

    record: DocumentRecord
    extracted: ExtractedDocument
    vectors: Matrix | None

    @property
    def vectors_by_space(self) -> dict[str, Matrix]:
        """The vectors of its chunks, by vector space; empty if they cannot be read."""
        return {} if self.vectors is None else {CHUNK_VECTORS.name: self.vectors}


class _Rebuilder:
    """Rebuilds a store from the facts (data that users added) of an old state, within one write transaction."""

    def __init__(self, old_state: State, view: WriteTransaction, embed: Embed) -> None:
        """Create a rebuilder of ``old_state`` in ``view``; ``embed`` computes the vectors that cannot be read."""
        self._old_state = old_state
        self._view = view
        self._settings = old_state.settings
        self._embed = embed
        self._report = RebuildReport()

    def run(self) -> RebuildReport:
        """Clear all tables except META, refill them from the old state, and return the report.

        By their dependencies, the order is: settings, indexes, texts that models wrote, documents, other data that
        users added, and the numbers of lookups of entities.
        """
        counters = self._load_counters()
        self._clear_tables()
        put_settings(self._view, self._settings)
        put_language_version(self._view, self._settings)
        counters.save(self._view)
        self._report.lost += IndexWriter(self._view).renew_records(Indexes(self._old_state.lmdb), INDEXES.values())
        write_versions(self._view)
        self._derivations = list_maintained_derivations(self._view)
        self._copy_written_texts()
        entity_filter = EntityFilter(self._view, hash_seed=self._settings.hash_seed)
        changes = Changes(self._view, self._settings, entity_filter)
        for documents in self._iter_documents():
            changes.apply(PendingChanges({document.extracted.key: document for document in documents}))
        self._restore_facts(changes)
        changes.filter.add_hits(self._read_temperatures())
        changes.finish()
        return self._report

    def _clear_tables(self) -> None:
        """Clear all tables except META, which is copied from the old state if the data file is a new one."""
        if not self._view.count(tables.META):  # a new file
            for key, value in self._old_state.lmdb.scan(tables.META):
                self._view.put(tables.META, key, value)
        fact_tables = (table for fact in facts.list_fact_kinds() for table in fact.tables)
        for table in dict.fromkeys([*(table.name for table in list_store_tables()), *fact_tables]):
            if table != tables.META:
                self._view.clear(table)
        self._view.delete(tables.META, tables.REBUILD_KEY)  # a migration sets it to request this rebuild

    def _restore_facts(self, changes: Changes) -> None:
        """Apply the readable facts of all kinds except documents, such as edges and triples, in batches."""
        for fact in facts.list_stated_fact_kinds():
            for batch in iter_batches(self._iter_facts(fact, changes.documents), _MAX_BATCH):
                pending = PendingChanges()
                for key, value in batch:
                    pending.put_fact(fact, key, value)
                complete_pending(pending, changes.state, self._embed, self._read_old_vectors)
                changes.apply(pending)

    def _copy_written_texts(self) -> None:
        """Copy the readable texts that language models wrote.

        Their keys are digests of content, so they are still valid; writing them again would cost money.
        """
        old_texts, new_texts = WrittenTexts(self._old_state.lmdb), WrittenTextWriter(self._view)
        for digest in old_texts.iter_digests():
            text = self._try_read("a text that a model wrote", old_texts.get, digest)
            if text is not None:
                new_texts.copy(digest, text)

    def _load_counters(self) -> Counters:
        """Return counters with the change number, the number of lookups and the next ids of the old store.

        All totals, such as the number of documents, are 0; the rebuild computes them again. If the old counters are
        damaged, substitutes are used.
        """
        try:
            old_counters = Counters.load(self._old_state.lmdb)
        except KvstoreError:
            old_counters = self._build_substitute_counters()
        next_ids = {
            field.name: getattr(old_counters, field.name)
            for field in fields(Counters)
            if field.name.startswith("next_")
        }
        return Counters(change=old_counters.change, hits=old_counters.hits, **next_ids)

    def _build_substitute_counters(self) -> Counters:
        """Return substitutes for damaged counters: next ids above all ids in use, and a change number never used."""

        def get_next_key(table: str) -> int:
            """Return the number after the largest key of a table, whose keys are numbers; 1 if the table is empty."""
            last_record = next(self._old_state.lmdb.scan(table, reverse=True), None)
            return 1 if last_record is None else int.from_bytes(last_record[0], "big") + 1

        # The chunks of a group (leaf abstract) have consecutive ids, so the next group begins after the last chunk.
        next_group = -(-get_next_key(tables.CHUNKS) // GROUP_SIZE)  # rounded up
        # The entities are stored in blocks of consecutive ids, keyed by the number of the block.
        next_entity = ENTITIES_PER_BLOCK * get_next_key(tables.ENTITIES)
        return Counters(
            # Caches are keyed by change number, so no number may be used again. No store has had as many changes
            # as there are milliseconds since 1970.
            change=time.time_ns() // 1_000_000,
            next_document=get_next_key(tables.DOCUMENTS),
            next_group=next_group,
            # The table has leaf abstracts, too, whose ids are all below those of upper abstracts.
            next_upper=max(FIRST_UPPER_ABSTRACT, get_next_key(tables.ABSTRACTS)),
            next_entity=next_entity,
            next_tree=get_next_key(tables.TREES),
            next_node=get_next_key(tables.NODES),
            next_vector_block=get_next_key(tables.VECTORS),
        )

    def _iter_documents(self) -> Iterator[list[PendingDocument]]:
        """Yield the readable documents in batches, extracted again; report unreadable ones as lost."""
        batch: list[_OldDocument] = []
        num_chunks = 0
        row_keys: set[bytes] = set()
        for row_key, _ in self._old_state.lmdb.scan(tables.DOCUMENTS):
            row_keys.add(row_key)
            document = self._try_read(
                facts.DOCUMENTS.describe_row(row_key), self._extract_document, records.U64.unpack(row_key)[0]
            )
            if document is None:
                continue
            batch.append(document)
            num_chunks += max(1, len(document.extracted.chunks))
            if num_chunks >= _MAX_BATCH:
                yield self._prepare_documents(batch)
                batch, num_chunks = [], 0
        yield self._prepare_documents(batch)
        with suppress(KvstoreError):  # if the keys are damaged too, the damaged pages are listed
            for key in list(self._old_state.documents.iter_keys()):
                document_id = self._old_state.documents.find_id(key)
                if document_id is not None and records.encode_u64(document_id) not in row_keys:
                    self._report.lost.append(f"document {key!r}: its record cannot be read; put it again")

    def _extract_document(self, document_id: int) -> _OldDocument:
        """Return a stored document with its content extracted again, and its vectors if they can be read.

        If the vectors were supplied by the user and cannot be read, the report lists them as lost.
        """
        record = self._old_state.documents.get(document_id)
        text = self._old_state.documents.read_text(document_id).decode()
        extracted = extract_document(validate_stored(record, text), self._settings)
        vectors = self._read_vectors(record, extracted)
        if record.own_vectors:
            if vectors is None:
                self._report.lost.append(
                    f"document {record.key!r}: the vectors supplied with it are lost; put it again with them"
                )
            else:
                extracted = add_vectors_to_digest(extracted, vectors)
        return _OldDocument(record, derive_parts(extracted, self._settings, self._derivations), vectors)

    def _read_vectors(self, record: DocumentRecord, extracted: ExtractedDocument) -> Matrix | None:
        """Return the stored vectors of a document's chunks, or None if they cannot be read or do not fit its chunks.

        ``extracted`` has the chunks as they are now derived from the document's text.
        """
        try:
            chunk_records = [self._old_state.chunks.get(chunk) for chunk in record.chunk_ids()]
            spans = [(chunk.start, chunk.end, chunk.section) for chunk in chunk_records]
            if spans != [(draft.start, draft.end, draft.section) for draft in extracted.chunks]:
                return None
            locations = [(chunk.block, chunk.row) for chunk in chunk_records]
            if self._old_state.vectors.get_ids(locations) != list(record.chunk_ids()):
                return None
            vectors = self._old_state.vectors.gather(locations)
        except KvstoreError:
            return None
        return vectors if np.isfinite(vectors).all() else None

    def _read_context_facts(self, record: DocumentRecord) -> dict[str, Any]:
        """Return the facts about a document that are embedded with its chunks, by kind; {} if they cannot be read."""
        names = {fact.name for fact in list_context_facts(self._settings)}
        try:
            document_facts = facts.iter_document_facts(self._old_state, record) if names else ()
            return {fact.name: value for fact, _, value in document_facts if fact.name in names}
        except KvstoreError:
            return {}

    def _read_old_vectors(self, key: str, texts: Set[str]) -> dict[tuple[str, str], Matrix]:
        """Return the old vectors of ``texts`` that were derived from a document, by (vector space, text).

        Texts without a readable vector are omitted.
        """
        try:
            record = self._old_state.documents.find_by_key(key)
            return {} if record is None else read_derived_vectors(self._old_state, record, texts)
        except KvstoreError:
            return {}  # unreadable vectors are computed again

    def _prepare_documents(self, batch: Sequence[_OldDocument]) -> list[PendingDocument]:
        """Return the documents of a batch with all their vectors, old or embedded now, and count them in the report."""
        # For each document and by vector space, the texts without an old vector of a chunk.
        missing_texts: list[dict[str, Sequence[str]]] = []
        # The old vectors of derived texts, such as sentences; they are not embedded again.
        reusable_vectors: dict[tuple[str, str], Matrix] = {}
        for document in batch:
            context_facts = self._read_context_facts(document.record) if document.vectors is None else {}
            texts_by_space = collect_missing_texts(
                document.extracted, document.vectors_by_space, self._settings, self._derivations, context_facts
            )
            missing_texts.append(texts_by_space)
            texts = set(chain(*texts_by_space.values()))
            reusable_vectors.update(self._read_old_vectors(document.record.key, texts))
        new_vectors = collect_vectors(missing_texts, self._embed, reusable_vectors)
        return [self._prepare_document(*item) for item in zip(batch, new_vectors, strict=True)]

    def _prepare_document(self, document: _OldDocument, new_vectors: Mapping[str, Matrix]) -> PendingDocument:
        """Return a document with its old vectors and ``new_vectors``, by vector space, and count it in the report."""
        has_old_chunk_vectors = document.vectors is not None
        self._report.documents += 1
        self._report.chunks += len(document.extracted.chunks)
        self._report.embedded += 0 if has_old_chunk_vectors else len(document.extracted.chunks)
        return PendingDocument(
            content=document.extracted,
            vectors={**document.vectors_by_space, **new_vectors},
            own_vectors=document.record.own_vectors and has_old_chunk_vectors,
            origin=document.record.origin,
            changed_at=document.record.changed_at,
        )

    def _iter_facts(self, fact: StatedFact[Any, Any], documents: Documents) -> Iterator[tuple[Any, Any]]:
        """Yield the key and the value of each readable fact of a kind, such as edges; report others as lost.

        A fact about a document is lost if the document is not among ``documents``, the documents of the rebuilt store.
        """
        for row_key, _ in self._old_state.lmdb.scan(fact.row_table):
            description = fact.describe_row(row_key)
            key_and_value = self._try_read(description, fact.read, self._old_state, row_key)
            if key_and_value is None:
                continue
            key, _ = key_and_value
            if isinstance(fact, DocumentFact) and documents.find_by_key(key) is None:
                self._report.lost.append(f"{description}: document {key!r} is lost; put it and its {fact.plural} again")
            else:
                yield key_and_value

    def _read_temperatures(self) -> Mapping[str, int]:
        """Return the temperatures (numbers of lookups) of entities by key; empty if the old filter is damaged."""
        try:
            entries = self._old_state.filter.iter_entries()
            return {key: entry.temperature for key, entry in entries if entry.temperature}
        except KvstoreError:
            return {}  # these counts do not influence answers

    def _try_read(self, description: str, read: Callable[..., Result], *arguments: Any) -> Result | None:
        """Call ``read`` and return its result; if it finds damage, report ``description`` as lost and return None."""
        try:
            return read(*arguments)
        except (CorruptionError, InputError, ValueError) as error:
            self._report.lost.append(f"{description}: {error}")
            return None
