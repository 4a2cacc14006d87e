"""Fill and empty maintained indexes of stored documents. Such an index has, for each document, a *part*: the data that
a *derivation* computes from the document, such as its sentences, and the vectors of the texts in it.

In: an open environment and an index. On disk: the parts (derived data) of documents and their vectors, in batches. Each
batch is a commit that records the progress, so an interruption costs one batch, and the next call continues after the
last one. A document put during the build gets its parts immediately. Out: True if anything was done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from ..errors import CorruptionError
from ..models.embedder import collect_vectors
from ..process.frozen_dataclass import frozen_dataclass
from ..registry.contract import MaintainedIndex, iter_unbuilt_documents
from ..registry.derivation import StoredDerivation, list_stored_derivations
from ..registry.structure_versions import require_maintained, write_versions
from ..storage import records
from ..storage.environment import View, WriteTransaction
from ..structures import tables
from ..structures.derived_parts import DerivedPartWriter, list_derivation_tables
from ..structures.indexes.index import Indexes, IndexRecord, IndexWriter
from ..structures.indexes.index_building import IndexFiller, IndexProgress, ReportProgress
from ..structures.state import State
from ..structures.vectors.vectors import Matrix
from .document_completion import read_chunked_text

#: The maximum numbers of texts and documents in a batch, which is embedded and committed when it reaches one of them.
_MAX_BATCH_TEXTS, _MAX_BATCH_DOCUMENTS = 1024, 256


@frozen_dataclass
class _DerivedDocument:
    """The data that an index derives from a stored document, the texts in it to embed, and the facts it used."""

    document: int
    facts: Mapping[str, Any]
    part: Any
    texts: Sequence[str]


class MaintainedIndexBuilder(IndexFiller):
    """Fills and empties the maintained indexes of a store."""

    def refresh(self, index: MaintainedIndex, progress: ReportProgress | None = None) -> bool:
        """Continue filling an index with data derived from each document, or emptying an index that is being dropped.

        ``progress`` is called with the progress before each batch. Returns False if there was nothing to do. Raises
        LockTimeoutError, StoreFullError and the embedder's errors; finished batches remain.
        """
        has_changed = False
        num_left = num_documents = 0
        while True:
            with self._environment.snapshot() as snapshot:
                record = Indexes(snapshot).get(index)
                if record is None or not record.state:  # the index was dropped or is complete
                    return has_changed
                if record.state.get("dropping"):
                    break
                if not has_changed:  # before the first batch
                    num_left = sum(1 for _ in iter_unbuilt_documents(record, snapshot))
                    num_documents = snapshot.count(tables.DOCUMENTS)
                if progress is not None:
                    num_done = num_documents - num_left
                    progress(IndexProgress(index.name, num_done, total=num_documents, unit="documents", kept=True))
                batch = self._derive_batch(index, record, snapshot)
            # Embedding takes most of the time and must not block other writers.
            spaces: list[dict[str, Sequence[str]]] = [
                {index.name: derived_document.texts} for derived_document in batch
            ]
            vectors = [
                vectors_by_space[index.name]
                for vectors_by_space in collect_vectors(spaces, self._embed, known_vectors={})
            ]
            self._environment.write_with_growth(partial(self._store_batch, index, record, batch, vectors))
            num_left, has_changed = max(0, num_left - len(batch)), True
        self.drop(index, progress)
        return True

    def drop(self, index: MaintainedIndex, progress: ReportProgress | None = None) -> None:
        """Remove an index: first its derived data of documents, in batches, then its tables and its own record.

        ``progress``, unless None, is called after each batch with the number of documents left.
        """
        self._environment.write_with_growth(lambda view: _mark_dropping(index, view))
        while True:
            try:
                num_left = self._environment.write_with_growth(lambda view: self._remove_batch(index, view))
            except CorruptionError:  # unreadable parts can be removed: nothing refers to them
                num_left = 0
            if progress is not None:
                progress(IndexProgress(index.name, done=0, total=num_left, unit="documents", kept=True))
            if not num_left:
                break
        self._environment.write_with_growth(lambda view: _finish_drop(index, view))

    def _derive_batch(self, index: MaintainedIndex, record: IndexRecord, snapshot: View) -> list[_DerivedDocument]:
        """Derive the data (parts) of an index for the next batch of documents without such data.

        ``record`` has the progress of the index.
        """
        stored_derivation = _find_stored_derivation(index, snapshot)
        batch: list[_DerivedDocument] = []
        num_texts = 0
        with State(snapshot, self._settings) as state:
            for document in islice(iter_unbuilt_documents(record, snapshot), _MAX_BATCH_DOCUMENTS):
                text = read_chunked_text(state, state.documents.get(document), index.derivation.facts)
                part = stored_derivation.derive_part(text, self._settings)
                batch.append(
                    _DerivedDocument(
                        document, text.facts, part, stored_derivation.list_texts(part, text, self._settings)
                    )
                )
                num_texts += len(batch[-1].texts)
                if num_texts >= _MAX_BATCH_TEXTS:
                    break
        return batch

    def _store_batch(
        self,
        index: MaintainedIndex,
        record: IndexRecord,
        batch: Sequence[_DerivedDocument],
        vectors: Sequence[Matrix],
        view: WriteTransaction,
    ) -> None:
        """Store the data derived from a batch of documents, and record the progress of the index.

        Does nothing if the index no longer has the ``record`` that it had when the batch was derived. Stops at the
        first document whose facts changed; the next batch derives it again. ``vectors`` has the vectors of each
        document of the batch.
        """
        require_maintained(view)
        if Indexes(view).get(index) != record:
            return
        state = State(view, self._settings)
        parts = DerivedPartWriter(view, index.derivation, self._settings.dimension)
        next_document = record.state["built"]  # the lowest document id that the index has not reached
        for derived_document, rows in zip(batch, vectors, strict=True):
            if view.get(tables.DOCUMENTS, records.encode_u64(derived_document.document)) is not None:
                document = state.documents.get(derived_document.document)
                if read_chunked_text(state, document, index.derivation.facts).facts != derived_document.facts:
                    break
                parts.put(derived_document.document, derived_document.part, rows)
            next_document = derived_document.document + 1
        parts.vectors.flush()
        updated_record = replace(record, state={**record.state, "built": next_document})
        is_complete = next(iter_unbuilt_documents(updated_record, view), None) is None
        IndexWriter(view).put(replace(updated_record, state={}) if is_complete else updated_record)

    def _remove_batch(self, index: MaintainedIndex, view: WriteTransaction) -> int:
        """Remove the data derived from a batch of documents; return the number of documents with data left."""
        parts = DerivedPartWriter(view, index.derivation, self._settings.dimension)
        for document in [document for document, _ in islice(parts.scan(), _MAX_BATCH_DOCUMENTS)]:
            parts.remove(document)
        parts.vectors.flush()
        return parts.document_count


def _find_stored_derivation(index: MaintainedIndex, view: View) -> StoredDerivation:
    """Return the derivation of an index (a computation on each document) with its stored options and progress."""
    return next(
        stored_derivation
        for stored_derivation in list_stored_derivations(view)
        if stored_derivation.derivation is index.derivation
    )


def _mark_dropping(index: MaintainedIndex, view: WriteTransaction) -> None:
    """Record in the store that an index is being dropped, so that commits no longer keep its data up to date."""
    record = Indexes(view).get(index)
    if record is not None:
        IndexWriter(view).put(replace(record, is_created=False, state={"dropping": True}))


def _finish_drop(index: MaintainedIndex, view: WriteTransaction) -> None:
    """Remove the record of an index, clear its tables, and record the versions of the remaining derived data."""
    for table in list_derivation_tables(index.derivation):
        view.clear(table.name)
    IndexWriter(view).drop(index)
    write_versions(view)
