"""The store of an *adapter*, a class by which another framework, such as LangChain, uses a store. The store is an open
one, or one that the adapter opens. A store *without an embedder* (``none:DIMENSION``) needs vectors from its users.

In: a path or a store, and the framework's embedding, if any. Out: the store, and True if the adapter must close it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from .. import Store
from .. import open as open_store
from ..errors import InputError, StoreNotFoundError
from ..process.closed_on_exit import ClosedOnExit
from .framework_embedder import FrameworkEmbedder

#: The prefix of the embedder name of a store without an embedder.
_NO_EMBEDDER_PREFIX = "none:"
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def make_async(
    method: Callable[Concatenate[Any, Parameters], Result],
) -> Callable[Concatenate[Any, Parameters], Coroutine[Any, Any, Result]]:
    """Return a coroutine method that runs ``method`` in a thread, with the same signature and docstring."""

    @wraps(method)
    async def call(self: Any, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """Run ``method`` in a thread, and return its result."""
        return await asyncio.to_thread(method, self, *args, **kwargs)

    return call


class AdapterStore(ClosedOnExit):
    """A mixin for adapters that have a store.

    At the end of the adapter's ``with`` block, the store is closed if the adapter opened it.
    """

    store: Store
    _owns_store: bool

    def close(self) -> None:
        """Close the store if this adapter opened it."""
        if self._owns_store:
            self.store.close()


class QuestionStore(AdapterStore):
    """A mixin for adapters that ask a store questions; the framework embeds them if the store has no embedder.

    A store that has an embedder must have been created with the framework's embedder.
    """

    def __init__(
        self,
        adapter: str,
        path: str | os.PathLike[str] | None,
        store: Store | None,
        embedder: str | FrameworkEmbedder | None,
        *,
        create: bool = False,
    ) -> None:
        """Open the store at ``path``, or use ``store``; ``adapter`` is the class name that errors begin with.

        ``embedder`` is for a new store, or embeds the questions to a store that was created without an embedder. With
        ``create``, a missing store is created. Raises InputError for contradictory arguments, and the errors of
        :func:`kvstore.open`.
        """
        self._embedder: FrameworkEmbedder | None = None
        if isinstance(embedder, FrameworkEmbedder) and _has_supplied_vectors(path, store):
            self._embedder, embedder = embedder, None
        self.store, self._owns_store = resolve_store(adapter, path, store, embedder, create=create)

    def build_retrieve_arguments(self, question: str, vector: Any, fill: str) -> dict[str, Any]:
        """Return the arguments ``vector`` and ``options`` of :meth:`kvstore.Store.retrieve` for a question, by name.

        If ``vector`` is None, the framework's embedder computes it, if there is one. ``fill`` names the search that
        adds hits if a strategy returns few. It becomes ``none`` if neither the question nor the store can supply a
        vector.
        """
        if vector is None and self._embedder is not None:
            vector = self._embedder.embed_query(question)
        lacks_vectors = vector is None and _lacks_embedder(self.store)
        return {"vector": vector, "options": {"fill": "none" if lacks_vectors else fill}}


def _has_supplied_vectors(path: str | os.PathLike[str] | None, store: Store | None) -> bool:
    """True if the store, open or at ``path``, exists and was created without an embedder."""
    if isinstance(store, Store):
        return _lacks_embedder(store)
    if store is not None or path is None or isinstance(path, Store):
        return False  # invalid arguments, which resolve_store rejects
    try:
        with open_store(path, readonly=True) as opened_store:
            return _lacks_embedder(opened_store)
    except StoreNotFoundError:
        return False


def _lacks_embedder(store: Store) -> bool:
    """True if a store was created without an embedder, so that its users supply the vectors."""
    return store.settings.embedder.startswith(_NO_EMBEDDER_PREFIX)


def resolve_store(
    adapter: str,
    path: str | os.PathLike[str] | None,
    store: Store | None,
    embedder: str | FrameworkEmbedder | None,
    settings: Mapping[str, Any] | None = None,
    *,
    create: bool = True,
) -> tuple[Store, bool]:
    """Return the store for an adapter, and True if this function opened it, so that the adapter must close it.

    With ``create``, a missing store at ``path`` is created with ``embedder`` and ``settings``. ``adapter`` is the class
    name that errors begin with. Raises InputError unless exactly one of path and store is given, and for an open
    store with ``settings`` or another embedder than its own. Also raises the errors of :func:`kvstore.open`.
    """
    if isinstance(path, Store):
        raise InputError(
            f"{adapter}: the first argument must be a path, not a Store; pass an open store as store=store"
        )
    if (path is None) == (store is None):
        raise InputError(f"{adapter} takes either a path or a store: path='my-store', or store=kvstore.open(...)")
    if store is None:
        assert path is not None
        return open_store(path, create=create, embedder=embedder, settings=settings), True
    if not isinstance(store, Store):
        remedy = "its attribute store" if isinstance(store, AdapterStore) else "a path as path="
        raise InputError(
            f"{adapter}: store must be a Store from kvstore.open(), not {type(store).__name__}; pass {remedy}"
        )
    if settings:
        raise InputError(f"{adapter}: the settings of an open store are fixed; omit settings")
    if embedder is not None and getattr(embedder, "name", embedder) != store.settings.embedder:
        raise InputError(
            f"{adapter}: the embedder of the store is {store.settings.embedder!r}; omit the embedding, or use it to "
            "create a store at another path"
        )
    return store, False
