"""Vectors of texts that stay: a document that is put anew is embedded where its text has changed, and nowhere else.

In: the store as it is, and the documents that are to come without vectors. Out: the embedding texts that chunks of the
stored documents of the same keys have as well, with their vectors. A document with vectors of its own keeps none.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..extraction.extraction import Extracted, embedding_text
from ..structures.documents.documents import heading_path
from ..structures.state import State
from ..structures.vectors.vectors import Matrix


def reusable_embeddings(view: State, documents: Iterable[Extracted]) -> dict[str, Matrix]:
    """The vectors, by embedding text, that documents can take over from those they take the place of."""
    kept: dict[str, Matrix] = {}
    for extracted in documents:
        record = view.documents.find(extracted.key)
        if record is None or record.own_vectors:
            continue
        wanted = set(extracted.embedding_texts())
        outline, text = view.documents.outline(record.id), view.documents.text(record.id)
        places: dict[str, tuple[int, int]] = {}
        for chunk in map(view.chunks.get, record.chunk_ids()):
            path = heading_path(outline, chunk.section)
            embedded = embedding_text(record.title, path, text[chunk.start : chunk.end].decode())
            if embedded in wanted:
                places[embedded] = chunk.block, chunk.row
        kept.update(zip(places, view.vectors.gather(list(places.values())), strict=True))
    return kept
