"""LanceDB: one table, bitmap indexes on the metadata, its own full-text index.

Vectors are compared without an index: its documentation recommends one for 100,000 rows or more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .peer import Peer, Results, to_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .corpus import Batch, Document

#: The columns that a query returns.
_COLUMNS = ["key", "text"]


class LanceDB(Peer):
    """A LanceDB table: Arrow columns in fragments; a change creates a new version."""

    name = "lancedb"
    needs = ("lancedb", "pyarrow")
    setup = "create_table from batches, BTREE on key, BITMAP on shelf and drawer, native FTS on text; exact vectors"

    def load(self, batches: Iterable[Batch]) -> None:
        """Create the store in :attr:`folder` with all documents of the batches, and its indexes."""
        import lancedb
        import pyarrow as pa

        schema = _make_schema(pa)
        rows = pa.RecordBatchReader.from_batches(schema, (_to_record_batch(pa, schema, batch) for batch in batches))
        table = lancedb.connect(self.folder).create_table("documents", rows)
        table.create_scalar_index("key", index_type="BTREE")
        for field in ("shelf", "drawer"):
            table.create_scalar_index(field, index_type="BITMAP")
        table.create_fts_index("text", language="English", stem=True, remove_stop_words=True)
        table.optimize()

    def open(self) -> None:
        """Open the store that :meth:`load` created."""
        import lancedb

        self.table = lancedb.connect(self.folder).open_table("documents")

    def search_by_vector(self, vector: bytes, top: int) -> Results:
        """Return (key, text) of the ``top`` documents nearest to a vector (float32, as bytes), best first."""
        return _read_results(self._query_nearest(vector, top))

    def search_filtered(self, vector: bytes, top: int, field: str, value: int) -> Results:
        """Return (key, text) of the ``top`` nearest documents whose ``field`` (shelf or drawer) has this value."""
        return _read_results(self._query_nearest(vector, top).where(f"{field} = {value}", prefilter=True))

    def search_by_words(self, question: str, top: int) -> Results:
        """Return (key, text) of the ``top`` documents for a question by BM25, best first."""
        return _read_results(self.table.search(question, query_type="fts").select(_COLUMNS).limit(top))

    def search_hybrid(self, question: str, vector: bytes, top: int) -> Results:
        """Return (key, text) of the ``top`` documents for a question and its vector, best first."""
        query = self.table.search(query_type="hybrid").vector(to_array(vector)).text(question).distance_type("cosine")
        return _read_results(query.select(_COLUMNS).limit(top))

    def replace(self, document: Document, vector: bytes) -> None:
        """Replace the stored document that has the key of ``document``."""
        import pyarrow as pa

        from .corpus import Batch

        schema = _make_schema(pa)
        row = pa.Table.from_batches([_to_record_batch(pa, schema, Batch([document], to_array(vector).reshape(1, -1)))])
        self.table.merge_insert("key").when_matched_update_all().when_not_matched_insert_all().execute(row)

    def delete_keys(self, keys: Sequence[str]) -> None:
        """Delete the documents with these keys."""
        self.table.delete("key IN ({})".format(", ".join(f"'{key}'" for key in keys)))

    def delete_where(self, field: str, value: int) -> None:
        """Delete the documents whose ``field`` has this value."""
        self.table.delete(f"{field} = {value}")

    def _query_nearest(self, vector: bytes, top: int) -> Any:
        """Return an unfinished query for the ``top`` nearest rows by cosine."""
        return self.table.search(to_array(vector)).distance_type("cosine").select([*_COLUMNS, "_distance"]).limit(top)


def _make_schema(pa: Any) -> Any:
    """Return the schema of the table; ``pa`` is the ``pyarrow`` module."""
    return pa.schema(
        [
            ("key", pa.string()),
            ("text", pa.string()),
            ("shelf", pa.int32()),
            ("drawer", pa.int32()),
            ("vector", pa.list_(pa.float32(), 384)),
        ]
    )


def _to_record_batch(pa: Any, schema: Any, batch: Batch) -> Any:
    """Return documents and their vectors as a batch of Arrow; ``pa`` is the ``pyarrow`` module."""
    documents, vectors = batch
    return pa.RecordBatch.from_arrays(
        [
            pa.array([document.key for document in documents]),
            pa.array([f"{document.title}\n\n{document.text}" for document in documents]),
            pa.array([document.shelf for document in documents], pa.int32()),
            pa.array([document.drawer for document in documents], pa.int32()),
            pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), 384),
        ],
        schema=schema,
    )


def _read_results(query: Any) -> Results:
    """Run a query, and return its keys and texts."""
    rows = query.to_arrow()
    return list(zip(rows["key"].to_pylist(), rows["text"].to_pylist(), strict=True))
