"""SQLite with sqlite-vec and FTS5: three tables that share a row number, one transaction per change.

``vec0`` holds the vectors, with the metadata as columns that it filters during the comparison. FTS5 ranks by BM25. A
hybrid query combines both rankings by reciprocal ranks (Cormack, Clarke and Büttcher, SIGIR 2009) in one statement, as
the documentation of sqlite-vec shows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .peer import Found, Peer

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
    WITH near AS (
        SELECT id, row_number() OVER (ORDER BY distance) AS place FROM vectors WHERE embedding MATCH ?1 AND k = 50
    ), said AS (
        SELECT rowid AS id, row_number() OVER (ORDER BY rank) AS place FROM words WHERE words MATCH ?2
        ORDER BY rank LIMIT 50
    ), shares AS (
        SELECT id, 1.0 / (60 + place) AS share FROM near UNION ALL SELECT id, 1.0 / (60 + place) FROM said
    )
    SELECT key, text FROM (SELECT id, sum(share) AS score FROM shares GROUP BY id ORDER BY score DESC LIMIT ?3)
    JOIN documents USING (id) ORDER BY score DESC
"""


class SqliteVec(Peer):
    """SQLite through apsw, which can load extensions even if Python's own module was built without them."""

    name = "sqlite-vec"
    needs = ("sqlite_vec", "apsw")
    setup = "WAL, synchronous FULL, vec0 with metadata columns, FTS5 (porter) over an external content table"

    def load(self, batches: Iterable[Batch]) -> None:
        import os

        os.makedirs(self.folder, exist_ok=True)
        self.open()
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute(_SCHEMA)
        number = 0
        for documents, vectors in batches:
            with self.connection:
                for document, vector in zip(documents, vectors, strict=True):
                    number += 1
                    self._insert(number, document, vector.tobytes())
        self.connection.execute("INSERT INTO words(words) VALUES ('optimize')")
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.close()

    def open(self) -> None:
        import apsw
        import sqlite_vec

        self.connection = apsw.Connection(f"{self.folder}/documents.db")
        self.connection.enable_load_extension(True)
        sqlite_vec.load(self.connection)
        self.connection.execute("PRAGMA synchronous = FULL")

    def close(self) -> None:
        self.connection.close()

    def search_by_vector(self, vector: bytes, top: int) -> Found:
        return self._rows(_NEAREST, (vector, top))

    def search_filtered(self, vector: bytes, top: int, field: str, value: int) -> Found:
        return self._rows(f"{_NEAREST} AND {field} = ?3", (vector, top, value))

    def search_by_words(self, question: str, top: int) -> Found:
        statement = "SELECT rowid AS id, rank AS distance FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
        return self._rows(statement, (_build_match_query(question), top))

    def search_hybrid(self, question: str, vector: bytes, top: int) -> Found:
        return list(self.connection.execute(_HYBRID, (vector, _build_match_query(question), top)))

    def replace(self, document: Document, vector: bytes) -> None:
        with self.connection:
            number = self._take_out(document.key)
            self._insert(number, document, vector)

    def delete_keys(self, keys: Sequence[str]) -> None:
        with self.connection:
            for key in keys:
                self._take_out(key)

    def delete_where(self, field: str, value: int) -> None:
        with self.connection:
            statement = f"SELECT key FROM vectors JOIN documents USING (id) WHERE {field} = ?"
            for (key,) in self.connection.execute(statement, (value,)).fetchall():
                self._take_out(key)

    def _insert(self, number: int, document: Document, vector: bytes) -> None:
        execute = self.connection.execute
        execute("INSERT INTO documents VALUES (?, ?, ?, ?)", (number, document.key, document.title, document.text))
        execute("INSERT INTO vectors VALUES (?, ?, ?, ?)", (number, vector, document.shelf, document.drawer))
        execute("INSERT INTO words(rowid, title, text) VALUES (?, ?, ?)", (number, document.title, document.text))

    def _take_out(self, key: str) -> int:
        execute = self.connection.execute
        number, title, text = execute("SELECT id, title, text FROM documents WHERE key = ?", (key,)).fetchone()
        execute("INSERT INTO words(words, rowid, title, text) VALUES ('delete', ?, ?, ?)", (number, title, text))
        execute("DELETE FROM vectors WHERE id = ?", (number,))
        execute("DELETE FROM documents WHERE id = ?", (number,))
        return int(number)

    def _rows(self, ranking: str, values: Sequence[Any]) -> Found:
        statement = f"WITH ranking AS MATERIALIZED ({ranking}) SELECT key, text FROM ranking JOIN documents USING (id)"
        return list(self.connection.execute(f"{statement} ORDER BY distance", values))


def _build_match_query(question: str) -> str:
    """Return a question as an FTS5 expression that matches any of its words."""
    return " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
