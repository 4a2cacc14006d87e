"""Embedders of installed packages, by the entry points ``kvstore.embedders``.

In: the object of an entry point, which is called with the part of the embedder's name after the colon, if any. Out: an
embedder whose failures are errors that name it. A store keeps its name, and every process that opens the store creates
it again, so the name that it reports must be the requested one, or lead to the same embedder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ..errors import EmbedderError, KvstoreError, PluginError
from ..extensions.entry_points import Plugin, format_error
from .protocol import Embedder, Embeddings

Given = TypeVar("Given")

#: Makes the embedder of a name, with options.
EmbedderFactory = Callable[[str, Mapping[str, Any]], Embedder]


def build_factory(plugin: Plugin, make: Any) -> EmbedderFactory:
    """Return a factory for the embedder of an entry point. Raises PluginError if the object is not one."""
    if not callable(make):
        raise PluginError(f"it is no class or function that makes an embedder, but {make!r:.80}")

    def create_embedder(name: str, options: Mapping[str, Any]) -> Embedder:
        argument = name.partition(":")[2]
        return _call_plugin(plugin, lambda: PluginEmbedder(plugin, make(*[argument] if argument else [], **options)))

    return create_embedder


class PluginEmbedder:
    """An embedder of a package; what it raises, and vectors of a wrong shape, are an EmbedderError that names it."""

    def __init__(self, plugin: Plugin, embedder: Any) -> None:
        self._plugin = plugin
        self._embedder = embedder
        self.name = embedder.name
        if not isinstance(self.name, str) or self.name.partition(":")[0] != plugin.name:
            raise EmbedderError(
                f"{plugin} calls itself {self.name!r:.80}, under which no store finds it again; its name is "
                f"{plugin.name!r}, or begins with {plugin.name + ':'!r}"
            )
        self.description = str(getattr(embedder, "description", "")) or str(plugin)
        self.poor = bool(getattr(embedder, "poor", False))

    @property
    def dimension(self) -> int:
        """The number of components of a vector."""
        dimension = _call_plugin(self._plugin, lambda: self._embedder.dimension)
        if not isinstance(dimension, int) or dimension < 1:
            raise EmbedderError(f"{self._plugin} has the dimension {dimension!r:.80}, which is no whole number above 0")
        return dimension

    def embed(self, texts: Sequence[str]) -> Embeddings:
        """The vectors of passages: shape (len(texts), dimension); raises EmbedderError."""
        vectors = _call_plugin(self._plugin, lambda: self._embedder.embed(texts))
        return self._check_vectors(vectors, (len(texts), self.dimension))

    def embed_query(self, text: str) -> Embeddings:
        """The vector of a question: shape (dimension,); raises EmbedderError."""
        vector = _call_plugin(self._plugin, lambda: self._embedder.embed_query(text))
        return self._check_vectors(vector, (self.dimension,))

    def load(self) -> None:
        """Load what it embeds with, where it has a method for that."""
        load = getattr(self._embedder, "load", None)
        if load is not None:
            _call_plugin(self._plugin, load)

    def _check_vectors(self, values: npt.ArrayLike, shape: tuple[int, ...]) -> Embeddings:
        vectors = _call_plugin(self._plugin, lambda: np.asarray(values, np.float32))
        if vectors.shape != shape or not np.isfinite(vectors).all():
            raise EmbedderError(
                f"{self._plugin} gave vectors of the shape {vectors.shape}, or numbers that are not finite; asked for "
                f"{shape}"
            )
        return vectors


def _call_plugin(plugin: Plugin, call: Callable[[], Given]) -> Given:
    """Call a package's code and return its result; what it raises becomes an EmbedderError."""
    try:
        return call()
    except (KvstoreError, MemoryError):
        raise
    except Exception as error:
        raise EmbedderError(f"{plugin} failed ({format_error(error)}); mend the package, or uninstall it") from error
