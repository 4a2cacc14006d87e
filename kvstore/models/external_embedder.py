"""No embedder: the user supplies the vectors.

In and out: nothing. Embedding raises EmbedderError that says what to supply.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import EmbedderError
from .protocol import Embeddings


class NullEmbedder:
    """The embedder of a store whose vectors come from outside."""

    poor = False

    def __init__(self, dimension: int) -> None:
        self.name = f"none:{dimension}"
        self.dimension = dimension
        self.description = f"no embedder: every document and question comes with vectors of {dimension} components"

    def embed(self, texts: Sequence[str]) -> Embeddings:
        """Raise EmbedderError."""
        raise EmbedderError(
            f"this store has no embedder ({self.name}); pass vectors of {self.dimension} components, or create a store "
            "with an embedder"
        )

    def embed_query(self, text: str) -> Embeddings:
        """Raise EmbedderError."""
        return self.embed([text])
