"""txtai: an embeddings database with content (SQLite), a dense index (faiss), a sparse one (BM25), and both combined.

Vectors come from an external function, which looks them up by text. Saving writes the whole database, and unsaved
changes are not durable, so replacing a document costs one save.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from .peer import Peer, Results, to_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .corpus import Batch, Document

#: The vectors of texts to index, and of a question under ``?``. There is one per process, because txtai itself creates
#: the objects that call :func:`get_vectors`.
_VECTORS: dict[str, Any] = {}
#: The maximum number of texts that wait for their vectors while txtai collects a batch.
_MAX_CACHED_TEXTS = 4000


def get_vectors(texts: Sequence[str]) -> Any:
    """Return the vectors that are registered for these texts in ``_VECTORS``, shape (texts, 384); txtai calls this."""
    import numpy as np

    return np.array([_VECTORS[text] for text in texts], np.float32)


class Txtai(Peer):
    """A txtai database; a filter is SQL around ``similar()``, which applies it to the most similar candidates."""

    name = "txtai"
    needs = ("txtai",)
    setup = "content, hybrid (dense and BM25), external vectors; saved after every change"

    def load(self, batches: Iterable[Batch]) -> None:
        """Create the store in :attr:`folder` with all documents of the batches, and its indexes."""
        from txtai import Embeddings

        embeddings = Embeddings(
            method="external", transform=get_vectors, content=True, hybrid=True, columns={"text": "text"}
        )
        embeddings.index(_iter_rows(batches))
        embeddings.save(self.folder)
        embeddings.close()

    def open(self) -> None:
        """Open the store that :meth:`load` created."""
        from txtai import Embeddings

        self.embeddings = Embeddings()
        self.embeddings.load(self.folder, config={"transform": get_vectors})

    def close(self) -> None:
        """Close the store."""
        self.embeddings.close()

    def search_by_vector(self, vector: bytes, top: int) -> Results:
        """Return (key, text) of the ``top`` documents nearest to a vector (float32, as bytes), best first."""
        return self._search("?", vector, top, weights=1.0)

    def search_filtered(self, vector: bytes, top: int, field: str, value: int) -> Results:
        """Return (key, text) of the ``top`` nearest documents whose ``field`` (shelf or drawer) has this value."""
        _VECTORS["?"] = to_array(vector)
        # The weight 1.0 compares vectors only.
        rows = self.embeddings.search(
            f"SELECT id, text FROM txtai WHERE similar(:question, 1.0) AND {field} = :value",
            top,
            parameters={"question": "?", "value": value},
        )
        return [(row["id"], row["text"]) for row in rows]

    def search_by_words(self, question: str, top: int) -> Results:
        """Return (key, text) of the ``top`` documents for a question by BM25, best first."""
        return self._search(question, bytes(4 * 384), top, weights=0.0)

    def search_hybrid(self, question: str, vector: bytes, top: int) -> Results:
        """Return (key, text) of the ``top`` documents for a question and its vector, best first."""
        return self._search(question, vector, top, weights=None)

    def replace(self, document: Document, vector: bytes) -> None:
        """Replace the stored document that has the key of ``document``."""
        from .corpus import Batch

        self.embeddings.upsert(_iter_rows([Batch([document], [to_array(vector)])]))
        self.embeddings.save(self.folder)

    def delete_keys(self, keys: Sequence[str]) -> None:
        """Delete the documents with these keys."""
        self.embeddings.delete(list(keys))
        self.embeddings.save(self.folder)

    def delete_where(self, field: str, value: int) -> None:
        """Delete the documents whose ``field`` has this value."""
        rows = self.embeddings.search(
            f"SELECT id FROM txtai WHERE {field} = :value", 10**9, parameters={"value": value}
        )
        self.delete_keys([row["id"] for row in rows])

    def _search(self, question: str, vector: bytes, top: int, weights: float | None) -> Results:
        """Return (key, text) of the documents for a question and its vector.

        ``weights`` is the share of the vectors in the score, from 0 to 1 (None: txtai's default). txtai computes a
        vector by a function of the text, so ``vector`` is stored where that function finds it.
        """
        _VECTORS[question] = to_array(vector)
        return [(row["id"], row["text"]) for row in self.embeddings.search(question, top, weights=weights)]


def _iter_rows(batches: Iterable[Batch]) -> Iterator[tuple[str, dict[str, Any], None]]:
    """Yield the rows of documents for txtai, (key, fields, no tags), and register vectors for :func:`get_vectors`.

    The vectors of the latest texts only are kept, because txtai requests those soon.
    """
    batches_in_memory: deque[list[str]] = deque()
    for documents, vectors in batches:
        texts = [f"{document.title}\n\n{document.text}" for document in documents]
        _VECTORS.update(zip(texts, vectors, strict=True))
        batches_in_memory.append(texts)
        while sum(map(len, batches_in_memory)) > _MAX_CACHED_TEXTS + len(texts):
            for text in batches_in_memory.popleft():
                _VECTORS.pop(text, None)
        for document, text in zip(documents, texts, strict=True):
            yield document.key, {"text": text, "shelf": document.shelf, "drawer": document.drawer}, None
