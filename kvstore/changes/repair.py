"""Repair: everything derived is made again from the stored facts and options of indexes.

In: a store whose derived structures are damaged, or were made by the rules of an older format. On disk: one write
transaction that empties every table and fills it again from the state before, so that readers see the old store or the
new one and a crash leaves the old. If pages of the data file are damaged, that transaction fills a new data file, and a
damaged page loses only its own records. Ids go on from where they were and are never used twice; temperatures and
vectors are carried over where they can be read, and texts without a vector are embedded anew. Out: a :class:`Rebuilt`.
A fact (:mod:`~kvstore.changes.facts`) or an option that is damaged itself cannot be made again: it is named there and
is not in the store any more. Which files were ingested is not kept: they are read again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from ..errors import CorruptionError, InputError, KvstoreError
from ..extraction.extraction import Extracted, add_vectors_to_digest, collect_vectors, extract
from ..extraction.own_chunks import unpack_chunks
from ..settings import FixedSettings
from ..storage import records
from ..storage.environment import Environment, ReadTransaction, WriteTransaction
from ..structures import tables
from ..structures.counters import Counters
from ..structures.documents.chunks import GROUP
from ..structures.documents.documents import DocumentRecord, Documents
from ..structures.filter.entity_filter import EntityFilter
from ..structures.indexes.indexes import Indexes, IndexWriter
from ..structures.indexes.written_texts import WrittenTexts, WrittenTextWriter
from ..structures.language_version import put_language_version, put_settings
from ..structures.names.entities import BLOCK
from ..structures.state import State
from ..structures.vectors.vectors import CHUNK_VECTORS, Matrix
from ..systems import INDEXES, store_tables
from ..systems.chunk_texts import list_context_facts
from ..systems.derivation import derive_parts, list_missing_texts
from ..systems.fact import DocumentFact, StatedFact
from ..systems.kept_derivations import kept_derivations
from ..systems.versions import write_versions
from . import facts
from .changes import Changes
from .embedding_reuse import read_derived_vectors
from .pending import Pending, Prepared, complete

Embed = Callable[[Sequence[str]], Matrix]

#: Chunks, or facts of another kind than documents, that are put in at once.
_PORTION = 4096

Read = TypeVar("Read")


@dataclass(slots=True)
class Rebuilt:
    """What a rebuild did: documents and chunks put in again, chunks embedded anew, and what was lost, as sentences."""

    documents: int = 0
    chunks: int = 0
    embedded: int = 0
    lost: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What CHECK REPAIR met and did: the problems found, the rebuild they led to, and the problems that remain."""

    found: list[str]
    rebuilt: Rebuilt | None = None
    remaining: list[str] = field(default_factory=list)

    @property
    def lost(self) -> list[str]:
        """What could not be read and is gone, as sentences."""
        return [] if self.rebuilt is None else self.rebuilt.lost


def rebuild(environment: Environment, settings: FixedSettings, embed: Embed) -> Rebuilt:
    """Make everything derived again, in one commit, or in a new data file if pages of this one are damaged.

    Raises what the embedder raises when texts must be embedded anew, LockTimeoutError, ReadOnlyError, StoreFullError,
    and TransactionError if the data file must be replaced while another process has the store open; the store is as
    before then.
    """

    def run(before: ReadTransaction, view: WriteTransaction) -> Rebuilt:
        lost = before.pass_over_damage()
        lost += _describe_lost_pages(before)
        with State(before, settings) as state:
            rebuilt = _Rebuilder(state, view, embed).run()
        rebuilt.lost[:0] = lost
        return rebuilt

    def run_in_place(view: WriteTransaction) -> Rebuilt:
        # LMDB keeps the last commit readable beside the transaction that replaces it.
        with environment.snapshot() as before:
            return run(before, view)

    if environment.find_page_faults():
        return environment.rewrite(run)
    return environment.write_with_growth(run_in_place)


def _describe_lost_pages(before: ReadTransaction) -> Iterator[str]:
    """A sentence for each damaged page whose records cannot be made again."""
    stated = [fact.tables[0] for fact in facts.all_facts()]
    for table in dict.fromkeys([tables.RECENT, *stated, tables.INDEXES, tables.WRITTEN]):
        for damage in before.find_damaged_pages(table):
            yield f"records of table {table}: {damage}; restore a backup, or put again what is missing"


class _Rebuilder:
    def __init__(self, before: State, view: WriteTransaction, embed: Embed) -> None:
        self._before = before
        self._view = view
        self._settings = before.settings
        self._embed = embed
        self._report = Rebuilt()

    def run(self) -> Rebuilt:
        counters = self._counters()
        if not self._view.count(tables.META):  # in a new file
            for key, value in self._before.lmdb.scan(tables.META):
                self._view.put(tables.META, key, value)
        fact_tables = (table for fact in facts.all_facts() for table in fact.tables)
        for table in dict.fromkeys([*(table.name for table in store_tables()), *fact_tables]):
            if table != tables.META:
                self._view.clear(table)
        self._view.delete(tables.META, tables.REBUILD)
        put_settings(self._view, self._settings)
        put_language_version(self._view, self._settings)
        counters.save(self._view)
        self._report.lost += IndexWriter(self._view).carry_over_all(Indexes(self._before.lmdb), INDEXES.values())
        write_versions(self._view)
        self._kept = kept_derivations(self._view)
        self._carry_written_texts()
        entity_filter = EntityFilter(self._view, hash_seed=self._settings.hash_seed)
        changes = Changes(self._view, self._settings, entity_filter)
        for documents in self._documents():
            changes.apply(Pending({document.extracted.key: document for document in documents}))
        for fact in facts.stated():
            for batch in _portions(self._facts(fact, changes.documents)):
                pending = Pending()
                for key, value in batch:
                    pending.state(fact, key, value)
                complete(pending, changes.state, self._embed, self._read_old_vectors)
                changes.apply(pending)
        changes.filter.fold_temperatures(self._read_temperatures())
        changes.finish()
        return self._report

    def _carry_written_texts(self) -> None:
        """Take over what language models have written: kept by content, it is as right as it was, and costs money."""
        old_texts, new_texts = WrittenTexts(self._before.lmdb), WrittenTextWriter(self._view)
        for content in old_texts.contents():
            written = self._try_read("a text that a model wrote", old_texts.get, content)
            if written is not None:
                new_texts.carry(content, written)

    def _counters(self) -> Counters:
        """The ids and hits to go on from; every total begins at nothing."""
        try:
            old = Counters.load(self._before.lmdb)
        except KvstoreError:
            old = self._derive_counters()
        next_ids = {
            field.name: getattr(old, field.name) for field in fields(Counters) if field.name.startswith("next_")
        }
        return Counters(change=old.change, hits=old.hits, **next_ids)

    def _derive_counters(self) -> Counters:
        """Ids beyond all that are in use, and a change beyond all, where the counters themselves are damaged."""

        def beyond(table: str) -> int:
            last = next(self._before.lmdb.scan(table, reverse=True), None)
            return 1 if last is None else int.from_bytes(last[0], "big") + 1

        group = -(-beyond(tables.CHUNKS) // GROUP)
        return Counters(
            # What is in memory is known by the change that it is of: none may come again. No store has had as many
            # changes as there are milliseconds since 1970.
            change=time.time_ns() // 1_000_000,
            next_document=beyond(tables.DOCUMENTS),
            next_group=group,
            next_upper=max(1 << 40, beyond(tables.ABSTRACTS)),
            next_entity=BLOCK * beyond(tables.ENTITIES),
            next_tree=beyond(tables.TREES),
            next_node=beyond(tables.NODES),
            next_vector_block=beyond(tables.VECTORS),
        )

    def _documents(self) -> Iterator[list[Prepared]]:
        """The documents that can be read, in portions, extracted anew."""
        batch: list[tuple[DocumentRecord, Extracted, Matrix | None]] = []
        size = 0
        rows: set[bytes] = set()
        for row, _ in self._before.lmdb.scan(tables.DOCUMENTS):
            rows.add(row)
            read = self._try_read(facts.DOCUMENTS.place(row), self._extracted, records.U64.unpack(row)[0])
            if read is None:
                continue
            batch.append(read)
            size += max(1, len(read[1].chunks))
            if size >= _PORTION:
                yield self._prepare_documents(batch)
                batch, size = [], 0
        yield self._prepare_documents(batch)
        with suppress(KvstoreError):  # where the keys are damaged too, the damaged pages are named
            for key in list(self._before.documents.keys()):
                number = self._before.documents.identify(key)
                if number is not None and records.u64(number) not in rows:
                    self._report.lost.append(f"document {key!r}: its record cannot be read; put it again")

    def _extracted(self, number: int) -> tuple[DocumentRecord, Extracted, Matrix | None]:
        record = self._before.documents.get(number)
        text = self._before.documents.text(number).decode()
        extracted = extract(
            record.key,
            text,
            self._settings,
            title=record.title,
            source=record.source,
            meta=record.meta,
            format=record.format,
            left_out=record.left_out,
            chunks=unpack_chunks(record.own_chunks),
        )
        vectors = self._vectors(record, extracted)
        if record.own_vectors:
            if vectors is None:
                self._report.lost.append(
                    f"document {record.key!r}: the vectors it was put with; put it again with them"
                )
            else:
                extracted = add_vectors_to_digest(extracted, vectors)
        return record, derive_parts(extracted, self._settings, self._kept), vectors

    def _vectors(self, record: DocumentRecord, extracted: Extracted) -> Matrix | None:
        """The stored vectors of a document, where they can be read and its chunks are the same as ever."""
        try:
            chunk_records = [self._before.chunks.get(chunk) for chunk in record.chunk_ids()]
            spans = [(chunk.start, chunk.end, chunk.section) for chunk in chunk_records]
            if spans != [(draft.start, draft.end, draft.section) for draft in extracted.chunks]:
                return None
            rows = [(chunk.block, chunk.row) for chunk in chunk_records]
            if self._before.vectors.get_ids(rows) != list(record.chunk_ids()):
                return None
            vectors = self._before.vectors.gather(rows)
        except KvstoreError:
            return None
        return vectors if np.isfinite(vectors).all() else None

    def _read_context(self, record: DocumentRecord) -> dict[str, Any]:
        """What is stated of a document that the vectors of its chunks are made with, as far as it can be read."""
        names = {fact.name for fact in list_context_facts(self._settings)}
        with suppress(KvstoreError):
            document_facts = facts.iter_document_facts(self._before, record) if names else ()
            return {fact.name: value for fact, value in document_facts if fact.name in names}
        return {}

    def _read_old_vectors(self, key: str, texts: Set[str]) -> dict[tuple[str, str], Matrix]:
        """The stored vectors of those of some texts that are derived of a document."""
        with suppress(KvstoreError):  # what cannot be read is embedded anew
            record = self._before.documents.find(key)
            return {} if record is None else read_derived_vectors(self._before, record, texts)
        return {}

    def _prepare_documents(self, waiting: Sequence[tuple[DocumentRecord, Extracted, Matrix | None]]) -> list[Prepared]:
        old_vectors: list[dict[str, Matrix]] = []
        missing: list[dict[str, Sequence[str]]] = []
        carried_vectors: dict[tuple[str, str], Matrix] = {}
        for record, extracted, vectors in waiting:
            old_vectors.append({} if vectors is None else {CHUNK_VECTORS.name: vectors})
            context = self._read_context(record) if vectors is None else {}
            missing.append(list_missing_texts(extracted, old_vectors[-1], self._settings, self._kept, context))
            carried_vectors.update(self._read_old_vectors(record.key, set(chain(*missing[-1].values()))))
        new_vectors = collect_vectors(missing, self._embed, carried_vectors)
        prepared: list[Prepared] = []
        for (record, extracted, _), old, new in zip(waiting, old_vectors, new_vectors, strict=True):
            has_vectors = bool(old)
            has_own_vectors = record.own_vectors and has_vectors
            prepared.append(Prepared(extracted, {**old, **new}, has_own_vectors, record.origin, record.changed_at))
            self._report.documents += 1
            self._report.chunks += len(extracted.chunks)
            self._report.embedded += 0 if has_vectors else len(extracted.chunks)
        return prepared

    def _facts(self, fact: StatedFact[Any, Any], documents: Documents) -> Iterator[tuple[Any, Any]]:
        """The facts of a kind that can be read, of those of documents the ones of which the document can."""
        for row, _ in self._before.lmdb.scan(fact.tables[0]):
            entry = self._try_read(fact.place(row), fact.read, self._before, row)
            if entry is None:
                continue
            if isinstance(fact, DocumentFact) and documents.find(entry[0]) is None:
                self._report.lost.append(f"{fact.place(row)}: document {entry[0]!r} is lost; put it again, and them")
            else:
                yield entry

    def _read_temperatures(self) -> Mapping[str, int]:
        try:
            entries = self._before.filter.keys()
            return {key: entry.temperature for key, entry in entries if entry.temperature}
        except KvstoreError:
            return {}  # counts may be lost, data never

    def _try_read(self, what: str, read: Callable[..., Read], *place: Any) -> Read | None:
        try:
            return read(*place)
        except (CorruptionError, InputError, ValueError) as error:
            self._report.lost.append(f"{what}: {error}")
            return None


Item = TypeVar("Item")


def _portions(items: Iterator[Item]) -> Iterator[list[Item]]:
    batch: list[Item] = []
    for item in items:
        batch.append(item)
        if len(batch) == _PORTION:
            yield batch
            batch = []
    if batch:
        yield batch
