"""Embedders of installed packages (*plugins*), by the entry points ``kvstore.embedders``. An embedder's name is that of
its plugin, or begins with it and a colon.

In: the object of an entry point, which is called with the part of the embedder's name after the colon, if there is a
colon. Out: an embedder whose failures are errors that name it. A store records the name of its embedder, and every
process that opens the store creates the embedder by this name. The name that an embedder reports must therefore be the
requested name, or create the same embedder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..errors import EmbedderError, KvstoreError, PluginError
from ..extensions.entry_points import Plugin, format_error
from .protocol import Embedder, Embeddings, to_unit_vectors

Result = TypeVar("Result")

#: A function that creates the embedder of a name, with options.
EmbedderFactory = Callable[[str, Mapping[str, Any]], Embedder]


def build_factory(plugin: Plugin, make: Any) -> EmbedderFactory:
    """Return a function that creates embedders of a plugin, an installed package, by their name and options.

    ``make`` is the object of the plugin's entry point. It is called with the part of the embedder's name after the
    colon, if there is one, and with the options.

    Raises PluginError if ``make`` cannot be called.
    """
    if not callable(make):
        raise PluginError(f"it must be a class or function that returns an embedder, not {make!r:.80}")

    def create_embedder(name: str, options: Mapping[str, Any]) -> Embedder:
        """Return the embedder with this name; failures of the package become EmbedderErrors that name the package."""
        _, _, argument = name.partition(":")
        arguments = [argument] if argument else []
        return _call_plugin(plugin, lambda: PluginEmbedder(plugin, make(*arguments, **options)))

    return create_embedder


class PluginEmbedder:
    """A wrapper of a package's embedder: its failures, and vectors of a wrong shape, become EmbedderErrors."""

    def __init__(self, plugin: Plugin, embedder: Any) -> None:
        """Wrap the embedder that a plugin created; raises EmbedderError if its name does not belong to the plugin."""
        self._plugin = plugin
        self._embedder = embedder
        self.name = embedder.name
        if not isinstance(self.name, str) or self.name.partition(":")[0] != plugin.name:
            raise EmbedderError(
                f"{plugin} has the name {self.name!r:.80}, by which no store could find it again; its name must be "
                f"{plugin.name!r}, or begin with {plugin.name + ':'!r}"
            )
        self.description = str(getattr(embedder, "description", "")) or str(plugin)
        self.poor = bool(getattr(embedder, "poor", False))

    @property
    def dimension(self) -> int:
        """The number of components of a vector. Raises EmbedderError if it is not a whole number above 0."""
        dimension = _call_plugin(self._plugin, lambda: self._embedder.dimension)
        if not isinstance(dimension, int) or dimension < 1:
            raise EmbedderError(f"{self._plugin}: its dimension must be a whole number above 0, not {dimension!r:.80}")
        return dimension

    def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return the unit vectors of ``texts``, shape (len(texts), dimension). Raises EmbedderError."""
        vectors = _call_plugin(self._plugin, lambda: self._embedder.embed(texts))
        return to_unit_vectors(vectors, (len(texts), self.dimension), str(self._plugin))

    def embed_query(self, text: str) -> Embeddings:
        """Return the unit vector of a question, shape (dimension,). Raises EmbedderError."""
        vector = _call_plugin(self._plugin, lambda: self._embedder.embed_query(text))
        return to_unit_vectors(vector, (self.dimension,), str(self._plugin))

    def load(self) -> None:
        """Load the model, if the package's embedder has a method for that."""
        load = getattr(self._embedder, "load", None)
        if load is not None:
            _call_plugin(self._plugin, load)


def _call_plugin(plugin: Plugin, call: Callable[[], Result]) -> Result:
    """Return the result of ``call``, which runs a package's code.

    Its exceptions become EmbedderErrors, except MemoryError and kvstore's own errors.
    """
    try:
        return call()
    except (KvstoreError, MemoryError):
        raise
    except Exception as error:
        raise EmbedderError(f"{plugin} failed ({format_error(error)}); fix the package, or uninstall it") from error
