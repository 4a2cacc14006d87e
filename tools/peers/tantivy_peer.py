"""Tantivy: BM25 over titles and texts, with English stemming; it stores no vectors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .peer import Peer, Results

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .corpus import Batch, Document


class Tantivy(Peer):
    """A tantivy index: segments that a writer commits and merges."""

    name = "tantivy"
    needs = ("tantivy",)
    setup = "en_stem on title and text, raw key, texts stored; one writer, one commit at the end of a load"

    def load(self, batches: Iterable[Batch]) -> None:
        """Create the store in :attr:`folder` with all documents of the batches, and its indexes."""
        import os

        import tantivy

        os.makedirs(self.folder, exist_ok=True)
        schema = tantivy.SchemaBuilder()
        schema.add_text_field("key", stored=True, tokenizer_name="raw")
        schema.add_text_field("title", stored=True, tokenizer_name="en_stem")
        schema.add_text_field("text", stored=True, tokenizer_name="en_stem")
        for field in ("shelf", "drawer"):
            schema.add_integer_field(field, stored=True, indexed=True)
        index = tantivy.Index(schema.build(), path=self.folder)
        writer = index.writer()
        for documents, _ in batches:
            for document in documents:
                writer.add_document(_make_tantivy_document(tantivy, document))
        writer.commit()
        writer.wait_merging_threads()

    def open(self) -> None:
        """Open the store that :meth:`load` created."""
        import tantivy

        self.tantivy = tantivy
        self.index = tantivy.Index.open(self.folder)
        self.searcher = self.index.searcher()

    def search_by_words(self, question: str, top: int) -> Results:
        """Return (key, text) of the ``top`` documents for a question by BM25, best first."""
        query = self.index.parse_query(" ".join(re.findall(r"\w+", question)).lower(), ["title", "text"])
        hits = self.searcher.search(query, top).hits
        documents = [self.searcher.doc(address) for _, address in hits]
        return [(document.get_first("key"), document.get_first("text")) for document in documents]

    def replace(self, document: Document, vector: bytes) -> None:
        """Replace the stored document that has the key of ``document``."""
        writer = self.index.writer()
        writer.delete_documents("key", document.key)
        writer.add_document(_make_tantivy_document(self.tantivy, document))
        writer.commit()
        writer.wait_merging_threads()

    def delete_keys(self, keys: Sequence[str]) -> None:
        """Delete the documents with these keys."""
        writer = self.index.writer()
        for key in keys:
            writer.delete_documents("key", key)
        writer.commit()
        writer.wait_merging_threads()

    def delete_where(self, field: str, value: int) -> None:
        """Delete the documents whose ``field`` has this value."""
        writer = self.index.writer()
        writer.delete_documents(field, value)
        writer.commit()
        writer.wait_merging_threads()


def _make_tantivy_document(tantivy: Any, document: Document) -> Any:
    """Return a document as a Document of tantivy; ``tantivy`` is the module."""
    return tantivy.Document(
        key=document.key, title=document.title, text=document.text, shelf=document.shelf, drawer=document.drawer
    )
