"""A cache of the vectors of texts that one open store embedded recently.

In: texts, and the embedder's function. Out: the same vectors as without the cache, because the vector of a text does
not depend on the other texts of a call. Questions about the same subject are answered from the same sentences, and
embedding these is most of the cost of an answer without a language model. The cache is bounded, is kept in memory only,
and belongs to one open store, which has one embedder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

import numpy as np

from .protocol import Embeddings

#: The maximum size of all cached vectors: 2,730 of the default embedder, the sentences of about a hundred answers.
MAX_BYTES = 4 << 20


class EmbeddingCache:
    """The vectors of recently embedded texts; it is thread-safe."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = Lock()
        #: The vector of each text, in the order of last use.
        self._vectors: dict[str, Embeddings] = {}
        self._num_bytes = 0

    def embed(self, texts: Sequence[str], embed: Callable[[Sequence[str]], Embeddings]) -> Embeddings:
        """Return the vectors of ``texts``, shape (len(texts), dimension); ``embed`` computes missing vectors."""
        if not texts:
            return embed(texts)
        with self._lock:
            vectors = {text: self._vectors[text] for text in texts if text in self._vectors}
        missing = [text for text in dict.fromkeys(texts) if text not in vectors]
        if missing:
            # A copy, because a row would keep the whole matrix in memory.
            vectors.update((text, row.copy()) for text, row in zip(missing, embed(missing), strict=True))
        with self._lock:
            self._store(vectors)
        return np.stack([vectors[text] for text in texts])

    def _store(self, vectors: dict[str, Embeddings]) -> None:
        """Store vectors as the most recently used, and drop the least recently used vectors beyond the limit."""
        for text, vector in vectors.items():
            replaced = self._vectors.pop(text, None)
            self._vectors[text] = vector
            self._num_bytes += vector.nbytes - (0 if replaced is None else replaced.nbytes)
        while self._num_bytes > self._max_bytes:
            self._num_bytes -= self._vectors.pop(next(iter(self._vectors))).nbytes
