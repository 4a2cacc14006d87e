"""Rerankers that read the question and a text together: the cross-encoders of sentence-transformers.

In: a question and texts; a model reads the first few hundred tokens of both. Out: a score for each text; higher is
better. The model is loaded on first use. A missing package or model raises RerankerError that says what to install.

Source: Nogueira and Cho, "Passage Re-ranking with BERT", 2019.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import RerankerError
from ..extensions.extras import find_first_missing
from .hub_access import explain_missing_model, must_load_locally
from .protocol import BATCH_SIZE, INSTALL_MODELS, TORCH_PACKAGES
from .torch_runtime import hide_progress_bars


class CrossEncoderReranker:
    """A reranker with any cross-encoder of one output that sentence-transformers loads, by name or by folder."""

    def __init__(self, name: str) -> None:
        """Create a reranker with the cross-encoder ``name``, which is loaded on first use."""
        self.name = name
        self._lock = threading.Lock()
        self._model: Any = None

    def scores(self, question: str, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return the relevance of each of ``texts`` to the question, shape (len(texts),). Raises RerankerError."""
        if not texts:
            return np.empty(0, np.float32)
        model = self._load_model()
        try:
            pairs = [(question, text) for text in texts]
            scores = np.asarray(model.predict(pairs, batch_size=BATCH_SIZE, show_progress_bar=False), np.float32)
        except (RuntimeError, ValueError) as error:
            raise RerankerError(f"reranker {self.name!r}: failed on {len(texts)} texts: {error}") from error
        if scores.shape != (len(texts),) or not np.isfinite(scores).all():
            raise RerankerError(
                f"reranker {self.name!r} returned scores of shape {scores.shape} for {len(texts)} texts, or scores "
                "that are not finite; use a cross-encoder with one output"
            )
        return scores

    def _load_model(self) -> Any:
        """Return the model, which is loaded on the first call; raises RerankerError."""
        with self._lock:
            if self._model is None:
                missing_package = find_first_missing(TORCH_PACKAGES)
                if missing_package is not None:
                    raise RerankerError(
                        f"reranker {self.name!r} needs the package {missing_package}; run {INSTALL_MODELS}"
                    )
                from sentence_transformers import CrossEncoder

                is_local = must_load_locally(self.name)
                try:
                    with hide_progress_bars():
                        self._model = CrossEncoder(self.name, local_files_only=is_local)
                except (OSError, RuntimeError, ValueError, ImportError) as error:
                    reason = explain_missing_model(self.name) if is_local and isinstance(error, OSError) else ""
                    raise RerankerError(f"reranker {self.name!r} cannot be loaded: {reason or error}") from error
            return self._model
