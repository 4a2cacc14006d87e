"""The metadata of hits for frameworks: the document, the offsets and the path of a hit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import Document, Hit, Snapshot


def load_hit_documents(state: Snapshot, hits: Sequence[Hit]) -> list[tuple[Hit, Document]]:
    """Return the hits, each with the document that contains it, as it is in ``state``."""
    keys = list(dict.fromkeys(hit.document for hit in hits))
    documents = {document.key: document for document in state.get_many(keys) if document is not None}
    return [(hit, documents[hit.document]) for hit in hits]


def build_hit_metadata(hit: Hit) -> dict[str, Any]:
    """Return a hit without its text as metadata for a framework; ``start`` and ``end`` are bytes of its document.

    A span is a list of the document's key, the chunk's ordinal, the start and the end. ``chunk`` is the deprecated name
    of ``ordinal``.
    """
    return {
        "document": hit.document,
        "ordinal": hit.ordinal,
        "chunk": hit.ordinal,
        "start": hit.start,
        "end": hit.end,
        "rank": hit.rank,
        "score": hit.score,
        "path": hit.path,
        "heading": hit.heading,
        "title": hit.title,
        "kind": hit.kind,
        "spans": [[span.document, span.ordinal, span.start, span.end] for span in hit.spans],
    }
