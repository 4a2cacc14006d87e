"""DuckDB: one table, vectors as arrays of fixed length, compared by a full scan.

Its vector and full-text indexes are extensions that it downloads; without a network there is no BM25 here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .peer import Peer, Results, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .corpus import Batch, Document

_SCHEMA = """
    CREATE TABLE documents (
        key VARCHAR PRIMARY KEY, title VARCHAR, text VARCHAR, shelf INTEGER, drawer INTEGER, vector FLOAT[384]
    )
"""
_NEAREST = """
    SELECT key, text FROM documents {where} ORDER BY array_cosine_similarity(vector, ?::FLOAT[384]) DESC LIMIT ?
"""


class DuckDB(Peer):
    """A DuckDB table, with a full scan of its vectors."""

    name = "duckdb"
    needs = ("duckdb", "pyarrow")
    setup = "FLOAT[384] and array_cosine_similarity, primary key on key, inserts from Arrow; fts where it is installed"

    def load(self, batches: Iterable[Batch]) -> None:
        """Create the store in :attr:`folder` with all documents of the batches, and its indexes."""
        import os

        import pyarrow as pa

        os.makedirs(self.folder, exist_ok=True)
        self.open()
        self.connection.execute(_SCHEMA)
        for documents, vectors in batches:
            columns = [pa.array(column) for column in zip(*documents, strict=True)]
            columns.append(pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), 384))
            batch = pa.table(columns, names=["key", "title", "text", "shelf", "drawer", "vector"])
            self.connection.register("batch", batch)
            self.connection.execute("INSERT INTO documents SELECT * FROM batch")
            self.connection.unregister("batch")
        if self._load_full_text_search():
            self.connection.execute("PRAGMA create_fts_index('documents', 'key', 'title', 'text')")
        self.connection.execute("CHECKPOINT")
        self.close()

    def open(self) -> None:
        """Open the store that :meth:`load` created."""
        import duckdb

        self.connection = duckdb.connect(f"{self.folder}/documents.duckdb")

    def close(self) -> None:
        """Close the store."""
        self.connection.close()

    def search_by_vector(self, vector: bytes, top: int) -> Results:
        """Return (key, text) of the ``top`` documents nearest to a vector (float32, as bytes), best first."""
        return self._query(_NEAREST.format(where=""), (_to_list(vector), top))

    def search_filtered(self, vector: bytes, top: int, field: str, value: int) -> Results:
        """Return (key, text) of the ``top`` nearest documents whose ``field`` (shelf or drawer) has this value."""
        return self._query(_NEAREST.format(where=f"WHERE {field} = ?"), (value, _to_list(vector), top))

    def search_by_words(self, question: str, top: int) -> Results:
        """Return (key, text) of the ``top`` documents for a question by BM25, best first."""
        if not self._load_full_text_search():
            raise UnsupportedError("the extension fts is not installed")
        return self._query(
            "SELECT key, text FROM (SELECT key, text, fts_main_documents.match_bm25(key, ?) AS score FROM documents) "
            "WHERE score IS NOT NULL ORDER BY score DESC LIMIT ?",
            (question, top),
        )

    def replace(self, document: Document, vector: bytes) -> None:
        """Replace the stored document that has the key of ``document``."""
        self.connection.execute(
            "INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?, ?, ?::FLOAT[384])", (*document, _to_list(vector))
        )

    def delete_keys(self, keys: Sequence[str]) -> None:
        """Delete the documents with these keys."""
        self.connection.execute("DELETE FROM documents WHERE key IN (SELECT unnest(?))", (list(keys),))

    def delete_where(self, field: str, value: int) -> None:
        """Delete the documents whose ``field`` has this value."""
        self.connection.execute(f"DELETE FROM documents WHERE {field} = ?", (value,))

    def _load_full_text_search(self) -> bool:
        """Load the extension ``fts``; return False if it is not installed."""
        import duckdb

        try:
            self.connection.execute("LOAD fts")
        except duckdb.Error:
            return False
        return True

    def _query(self, statement: str, values: Sequence[Any]) -> Results:
        """Return the keys and texts that a query selects."""
        return [(key, text) for key, text in self.connection.execute(statement, values).fetchall()]


def _to_list(vector: bytes) -> Any:
    """Return a vector as a list of numbers."""
    from array import array

    return array("f", vector).tolist()
