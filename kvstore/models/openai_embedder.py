"""The embedder behind an OpenAI-compatible ``/embeddings`` endpoint.

In: texts, sent in batches. Out: the server's vectors, scaled to length 1. An answer of the wrong shape raises
EmbedderError; see ``endpoint.py`` for addresses, keys, attempts and timeouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import EmbedderError
from .endpoint import Endpoint
from .protocol import Embeddings, normalised
from .timeouts import Timeouts

#: The number of texts per request.
BATCH_SIZE = 128


class OpenAIEmbedder:
    """An embedder that requests its vectors from a server.

    ``dimension`` requests vectors with that many components; without it, the number is taken from the first answer.
    ``timeout`` is in seconds: an attempt can take that long for one text, and up to twice as long for
    :data:`BATCH_SIZE` texts, from the connection to the last byte of the answer.
    """

    poor = False

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,
        attempts: int = 4,
        dimension: int | None = None,
    ) -> None:
        """Create an embedder that requests vectors of ``model`` from the server ``base_url``.

        By default, ``base_url`` and ``api_key`` come from the environment, and the server is OpenAI's. A request is
        tried up to ``attempts`` times, each for ``timeout`` seconds, or up to twice as long for many texts.
        ``dimension`` is the number of components (None: the server decides). Raises EmbedderError for an invalid
        address, key or timeout.
        """
        timeouts = Timeouts(connect=timeout, first_part=timeout, next_part=timeout, attempts=attempts)
        self._endpoint = Endpoint(EmbedderError, base_url=base_url, api_key=api_key, timeouts=timeouts)
        self._timeout = timeout
        self._model = model
        self._requested_dimension = dimension
        self._known_dimension = dimension
        self.name = f"openai:{model}"
        self.description = f"the model {model} of {self._endpoint.base_url}"

    @property
    def dimension(self) -> int:
        """The number of components of a vector. If it was not given, the first use embeds a word to find out."""
        if self._known_dimension is None:
            self._known_dimension = int(self.embed(["dimension"]).shape[1])
        return self._known_dimension

    def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return the unit vectors of ``texts``, shape (len(texts), dimension); records an unknown dimension.

        Raises EmbedderError.
        """
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        batches = [self._fetch_vectors(texts[start : start + BATCH_SIZE]) for start in range(0, len(texts), BATCH_SIZE)]
        dimensions = {batch.shape[1] for batch in batches}
        if self._known_dimension:
            dimensions.add(self._known_dimension)
        if len(dimensions) > 1:
            raise EmbedderError(
                f"{self.name}: the server returned vectors with different numbers of components {sorted(dimensions)}; "
                "check the model and its option dimension"
            )
        (self._known_dimension,) = dimensions
        return normalised(np.concatenate(batches))

    def embed_query(self, text: str) -> Embeddings:
        """Return the unit vector of a question, shape (dimension,). Raises EmbedderError."""
        vector: Embeddings = self.embed([text])[0]
        return vector

    def _fetch_vectors(self, texts: Sequence[str]) -> Embeddings:
        """Request the vectors of ``texts``, at most :data:`BATCH_SIZE`, from the server, and return them unscaled.

        Raises EmbedderError if the request fails, or if the answer does not have one finite vector for each text.
        """
        # Servers reject an empty input, but accept a blank.
        payload: dict[str, Any] = {
            "model": self._model,
            "input": [text or " " for text in texts],
            "encoding_format": "float",
        }
        if self._requested_dimension is not None:
            payload["dimensions"] = self._requested_dimension
        # The more texts a request has, the longer it may take: up to twice the timeout for a full batch.
        answer = self._endpoint.post("embeddings", payload, self._timeout * (1 + len(texts) / BATCH_SIZE))
        try:
            rows = sorted(answer["data"], key=lambda row: row["index"])
            vectors = np.array([row["embedding"] for row in rows], dtype=np.float32)
        except (KeyError, TypeError, ValueError) as error:
            reason = self._endpoint.extract_message(repr(error))
        else:
            reason = ""
        if reason:  # raised here, because the original error can contain what the server repeated, such as the key
            raise EmbedderError(
                f"{self._endpoint.base_url}/embeddings: the response is not a list of vectors ({reason}); is this an "
                "OpenAI-compatible endpoint?"
            )
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
            raise EmbedderError(
                f"{self._endpoint.base_url}/embeddings: the response to {len(texts)} texts has the shape "
                f"{vectors.shape}, or numbers that are not finite; check the model"
            )
        return vectors
