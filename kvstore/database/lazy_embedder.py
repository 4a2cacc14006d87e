"""The embedder of an open store, which is loaded when a text is first embedded.
A *supplied* embedder is an object that the calling program passed; its vectors are checked and normalized.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..errors import EmbedderError

if TYPE_CHECKING:
    from ..models.embedder import Embedder, EmbeddingCache
    from ..settings import FixedSettings
    from ..structures.vectors.vectors import Matrix


class LazyEmbedder:
    """The embedder of an open store, loaded when first needed; it is thread-safe.

    It is separate from :class:`.OpenStore` so that objects that embed texts do not keep the store open.
    """

    def __init__(self, path: Path, settings: FixedSettings, embedder: Embedder | None) -> None:
        """Use ``embedder`` if the program passed one, or else load the embedder that ``settings`` name on first use."""
        self._path = path
        self._settings = settings
        self._embedder = embedder
        #: True if the embedder is an object passed by the calling program, which other processes cannot load.
        self.is_supplied = embedder is not None
        self._lock = threading.Lock()

    def load(self) -> Embedder:
        """Load the embedder at the first call, and return it.

        Raises EmbedderError if its package is missing or the program must pass the embedder.
        """
        with self._lock:
            if self._embedder is None:
                from ..models.embedder import is_named_embedder, open_recorded_embedder

                name = self._settings.embedder
                if not is_named_embedder(name):
                    raise EmbedderError(
                        f"embedder {name!r} is unknown; pass the embedder that this store was created with, "
                        f"kvstore.open({str(self._path)!r}, embedder=...), or install the package that provides it"
                    )
                self._embedder = open_recorded_embedder(name, self._settings.weights)
            return self._embedder

    def use_supplied(self, embedder: Embedder) -> None:
        """Use an embedder that the calling program passed, unless an embedder is in use already."""
        with self._lock:
            if self._embedder is None:
                self._embedder, self.is_supplied = embedder, True

    def replace_embedder(self, settings: FixedSettings) -> None:
        """Replace the embedder with the embedder that ``settings`` name, which is loaded when first needed."""
        with self._lock:
            self._settings, self._embedder, self.is_supplied = settings, None, False

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return the unit vectors of these texts, shape (n, dimension). Without texts, the embedder is not loaded."""
        if texts:
            embedder = self.load()
            vectors = embedder.embed(texts)
            return self._to_unit_vectors(vectors, shape=(len(texts),)) if self.is_supplied else vectors
        import numpy as np

        return np.empty((0, self._settings.dimension), np.float32)

    def embed_query(self, text: str) -> Matrix:
        """Return the unit vector of a question, shape (dimension,).

        If the program's embedder has no method ``embed_query``, its ``embed`` computes the vector.
        """
        embedder = self.load()
        if self.is_supplied and not hasattr(embedder, "embed_query"):
            return cast("Matrix", self.embed([text])[0])
        vector = embedder.embed_query(text)
        return self._to_unit_vectors(vector, shape=()) if self.is_supplied else vector

    def _to_unit_vectors(self, vectors: Any, shape: tuple[int, ...]) -> Matrix:
        """Return the vectors of the program's embedder as unit vectors of the store's dimension.

        ``shape`` is the expected shape without the dimension. Raises EmbedderError for another shape or invalid values.
        """
        from ..models.protocol import to_unit_vectors

        return to_unit_vectors(vectors, (*shape, self._settings.dimension), f"the embedder {self._settings.embedder}")

    def embed_cached(self, texts: Sequence[str]) -> Matrix:
        """Return the unit vectors of texts, shape (n, dimension). The vectors of recent texts come from a cache."""
        return self._cache.embed(texts, self.embed)

    @cached_property
    def _cache(self) -> EmbeddingCache:
        """The cache of vectors of sentences in evidence; created on first use, because only answers need it."""
        from ..models.embedder import EmbeddingCache

        return EmbeddingCache()
