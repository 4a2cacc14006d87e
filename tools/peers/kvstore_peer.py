"""kvstore itself: one document per text, names by rule, precomputed vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .peer import Peer, Results, to_array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .corpus import Batch, Document


class Kvstore(Peer):
    """A kvstore store; every commit updates all structures: words, names, mentions, the graph of chunks, vectors."""

    name = "kvstore"
    needs = ("kvstore",)
    setup = (
        "language rules, chunk_tokens 2000 (a passage is one chunk), loaded in one transaction, index of vectors made, "
        "durability full"
    )

    def load(self, batches: Iterable[Batch]) -> None:
        """Create the store in :attr:`folder` with all documents of the batches, and its indexes."""
        import kvstore

        settings = {"language": "rules", "chunk_tokens": 2000}
        store = kvstore.open(self.folder, embedder="none:384", settings=settings)
        with store:
            with store.transaction() as transaction:
                for documents, vectors in batches:
                    for document, vector in zip(documents, vectors, strict=True):
                        transaction.put(
                            document.key,
                            document.text,
                            title=document.title,
                            meta={"shelf": document.shelf, "drawer": document.drawer},
                            vectors=vector,
                        )
            store.refresh()  # builds the vector index, which is otherwise built in the background

    def open(self) -> None:
        """Open the store that :meth:`load` created."""
        import kvstore

        self.store = kvstore.open(self.folder, create=False)

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def search_by_vector(self, vector: bytes, top: int) -> Results:
        """Return (key, text) of the ``top`` documents nearest to a vector (float32, as bytes), best first."""
        return self._search("", vector, top, using="vector")

    def search_filtered(self, vector: bytes, top: int, field: str, value: int) -> Results:
        """Return (key, text) of the ``top`` nearest documents whose ``field`` (shelf or drawer) has this value."""
        return self._search("", vector, top, using="vector", where=f"meta ->> '{field}' = ?", parameters=(value,))

    def search_by_words(self, question: str, top: int) -> Results:
        """Return (key, text) of the ``top`` documents for a question by BM25, best first."""
        return [(hit.document, hit.text) for hit in self.store.search(question, using="lexical", top=top)]

    def search_hybrid(self, question: str, vector: bytes, top: int) -> Results:
        """Return (key, text) of the ``top`` documents for a question and its vector, best first."""
        return self._search(question, vector, top, using="hybrid")

    def replace(self, document: Document, vector: bytes) -> None:
        """Replace the stored document that has the key of ``document``."""
        self.store.put(
            document.key,
            document.text,
            title=document.title,
            meta={"shelf": document.shelf, "drawer": document.drawer},
            vectors=to_array(vector),
        )

    def delete_keys(self, keys: Sequence[str]) -> None:
        """Delete the documents with these keys."""
        with self.store.transaction() as transaction:
            transaction.delete_many(keys)

    def delete_where(self, field: str, value: int) -> None:
        """Delete the documents whose ``field`` has this value."""
        self.store.delete_where(f"meta ->> '{field}' = ?", (value,))

    def make_strategy_searches(self) -> dict[str, Callable[[str, bytes, int], Results]]:
        """Return the search functions of the strategies that other systems lack, by name."""

        def make_search(name: str) -> Callable[[str, bytes, int], Results]:
            """Return the search function of one strategy."""
            return lambda question, vector, top: [
                (hit.document, hit.text)
                for hit in self.store.retrieve(question, using=name, vector=to_array(vector), top=top).hits
            ]

        return {name: make_search(name) for name in ("graph", "hipporag", "bridge", "cft")}

    def _search(self, question: str, vector: bytes, top: int, **clauses: Any) -> Results:
        """Return (key, text) of the hits; ``clauses`` are further arguments of ``Store.search``.

        kvstore rejects an empty question, so "?" replaces it.
        """
        hits = self.store.search(question or "?", vector=to_array(vector), top=top, **clauses)
        return [(hit.document, hit.text) for hit in hits]
