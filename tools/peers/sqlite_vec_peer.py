"""SQLite with sqlite-vec and FTS5: three tables that share a row number, one transaction per change.

``vec0`` holds the vectors, with the metadata as columns that it filters during the comparison. FTS5 ranks by BM25. A
hybrid query combines both rankings by reciprocal ranks (Cormack, Clarke and Büttcher, SIGIR 2009) in one statement, as
the documentation of sqlite-vec shows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .peer import Peer, Results

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .corpus import Batch, Document

_SCHEMA = """
    CREATE TABLE documents (id INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, title TEXT, text TEXT NOT NULL);
    CREATE VIRTUAL TABLE vectors USING vec0(
        id INTEGER PRIMARY KEY, embedding float[384] distance_metric=cosine, shelf INTEGER, drawer INTEGER
    );
    CREATE VIRTUAL TABLE words USING fts5(
        title, text, content='documents', content_rowid='id', tokenize='porter unicode61'
    );
"""
_NEAREST = "SELECT id, distance FROM vectors WHERE embedding MATCH ?1 AND k = ?2"
_HYBRID = """
    WITH nearest AS (
        SELECT id, row_number() OVER (ORDER BY distance) AS position FROM vectors WHERE embedding MATCH ?1 AND k = 50
    ), lexical AS (
        SELECT rowid AS id, row_number() OVER (ORDER BY rank) AS position FROM words WHERE words MATCH ?2
        ORDER BY rank LIMIT 50
    ), shares AS (
        SELECT id, 1.0 / (60 + position) AS share FROM nearest UNION ALL SELECT id, 1.0 / (60 + position) FROM lexical
    )
    SELECT key, text FROM (SELECT id, sum(share) AS score FROM shares GROUP BY id ORDER BY score DESC LIMIT ?3)
    JOIN documents USING (id) ORDER BY score DESC
"""


class SqliteVec(Peer):
    """A SQLite database through apsw, which can load extensions even if Python's own module was built without them."""

    name = "sqlite-vec"
    needs = ("sqlite_vec", "apsw")
    setup = "WAL, synchronous FULL, vec0 with metadata columns, FTS5 (porter) over an external content table"

    def load(self, batches: Iterable[Batch]) -> None:
        """Create the store in :attr:`folder` with all documents of the batches, and its indexes."""
        import os

        os.makedirs(self.folder, exist_ok=True)
        self.open()
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute(_SCHEMA)
        row_id = 0
        for documents, vectors in batches:
            with self.connection:
                for document, vector in zip(documents, vectors, strict=True):
                    row_id += 1
                    self._insert(row_id, document, vector.tobytes())
        self.connection.execute("INSERT INTO words(words) VALUES ('optimize')")
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.close()

    def open(self) -> None:
        """Open the store that :meth:`load` created."""
        import apsw
        import sqlite_vec

        self.connection = apsw.Connection(f"{self.folder}/documents.db")
        self.connection.enable_load_extension(True)
        sqlite_vec.load(self.connection)
        self.connection.execute("PRAGMA synchronous = FULL")

    def close(self) -> None:
        """Close the store."""
        self.connection.close()

    def search_by_vector(self, vector: bytes, top: int) -> Results:
        """Return (key, text) of the ``top`` documents nearest to a vector (float32, as bytes), best first."""
        return self._query(_NEAREST, (vector, top))

    def search_filtered(self, vector: bytes, top: int, field: str, value: int) -> Results:
        """Return (key, text) of the ``top`` nearest documents whose ``field`` (shelf or drawer) has this value."""
        return self._query(f"{_NEAREST} AND {field} = ?3", (vector, top, value))

    def search_by_words(self, question: str, top: int) -> Results:
        """Return (key, text) of the ``top`` documents for a question by BM25, best first."""
        statement = "SELECT rowid AS id, rank AS distance FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
        return self._query(statement, (_build_match_query(question), top))

    def search_hybrid(self, question: str, vector: bytes, top: int) -> Results:
        """Return (key, text) of the ``top`` documents for a question and its vector, best first."""
        return list(self.connection.execute(_HYBRID, (vector, _build_match_query(question), top)))

    def replace(self, document: Document, vector: bytes) -> None:
        """Replace the stored document that has the key of ``document``."""
        with self.connection:
            row_id = self._delete_row(document.key)
            self._insert(row_id, document, vector)

    def delete_keys(self, keys: Sequence[str]) -> None:
        """Delete the documents with these keys."""
        with self.connection:
            for key in keys:
                self._delete_row(key)

    def delete_where(self, field: str, value: int) -> None:
        """Delete the documents whose ``field`` has this value."""
        with self.connection:
            statement = f"SELECT key FROM vectors JOIN documents USING (id) WHERE {field} = ?"
            for (key,) in self.connection.execute(statement, (value,)).fetchall():
                self._delete_row(key)

    def _insert(self, row_id: int, document: Document, vector: bytes) -> None:
        """Insert a document into the three tables with the same row id."""
        execute = self.connection.execute
        execute("INSERT INTO documents VALUES (?, ?, ?, ?)", (row_id, document.key, document.title, document.text))
        execute("INSERT INTO vectors VALUES (?, ?, ?, ?)", (row_id, vector, document.shelf, document.drawer))
        execute("INSERT INTO words(rowid, title, text) VALUES (?, ?, ?)", (row_id, document.title, document.text))

    def _delete_row(self, key: str) -> int:
        """Delete a document from the three tables, and return its row id.

        The full-text table stores no texts, so the deleted text must be passed to it again.
        """
        execute = self.connection.execute
        row_id, title, text = execute("SELECT id, title, text FROM documents WHERE key = ?", (key,)).fetchone()
        execute("INSERT INTO words(words, rowid, title, text) VALUES ('delete', ?, ?, ?)", (row_id, title, text))
        execute("DELETE FROM vectors WHERE id = ?", (row_id,))
        execute("DELETE FROM documents WHERE id = ?", (row_id,))
        return int(row_id)

    def _query(self, ranking: str, values: Sequence[Any]) -> Results:
        """Return the keys and texts of the documents that a ranking (id, distance) selects, nearest first."""
        statement = f"WITH ranking AS MATERIALIZED ({ranking}) SELECT key, text FROM ranking JOIN documents USING (id)"
        return list(self.connection.execute(f"{statement} ORDER BY distance", values))


def _build_match_query(question: str) -> str:
    """Return a question as an FTS5 expression that matches any of its words."""
    return " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
