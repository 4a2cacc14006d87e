"""LangChain's record manager, which keeps its records in the documents themselves. An indexing run *confirms* each
document that it finds in its source. The document's *origin* records its namespace and the time of its last
confirmation. Its *group* is a value of its metadata.

In: calls from ``langchain_core.indexing.index``. In the store: only the documents. A document and its record are
written and deleted in one commit, so that they always agree, even after a crash.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.indexing import RecordManager

from ... import Store
from ...arguments import format_count
from ..adapter_store import AdapterStore, make_async, resolve_store
from .embeddings import make_embedder
from .stored_documents import ORIGIN_PREFIX, DocumentOrigin, split_batches

#: The number of documents per query.
_BATCH_SIZE = 500


class KvstoreRecordManager(AdapterStore, RecordManager):
    """A store as the record manager of the documents stored in it. ``namespace`` is the namespace of the vector store
    or document index that added the documents. ``source_id_key`` is the metadata field with a document's group, or a
    function that returns the group of a document.

    ``path`` is the path of a store, with the ``embedding`` it was created with; ``store`` is an open store.
    ``source_id_key`` must be the one passed to ``index()``, because the group is read from the document and not stored
    elsewhere.
    """

    def __init__(
        self,
        namespace: str = "",
        *,
        path: str | os.PathLike[str] | None = None,
        store: Store | None = None,
        embedding: Embeddings | str | None = None,
        source_id_key: str | Callable[[Document], Any] = "source",
    ) -> None:
        """Open the store at ``path``, which must exist, or use ``store``; the class describes the arguments."""
        super().__init__(namespace)
        self.store, self._owns_store = resolve_store(
            "KvstoreRecordManager", path, store, make_embedder(embedding), create=False
        )
        self._source_id_key = source_id_key

    def create_schema(self) -> None:
        """Do nothing, because the store needs no schema."""

    def get_time(self) -> float:
        """Return the time of this machine, in seconds since 1970."""
        return time.time()

    def update(
        self, keys: Sequence[str], *, group_ids: Sequence[str | None] | None = None, time_at_least: float | None = None
    ) -> None:
        """Record in one commit that an indexing run has confirmed documents: it found them in its source.

        Keys without a document are skipped, and so are documents of this namespace that were confirmed at
        ``time_at_least`` or later. The time of a record is at least ``time_at_least``, even if the clock was set back.
        ``group_ids`` are the documents' groups, which are only checked. Raises ValueError if there are not as many as
        keys, and for a group that is not the document's.
        """
        if group_ids and len(group_ids) != len(keys):
            raise ValueError(
                f"got {format_count(len(keys), 'key')} but {format_count(len(group_ids), 'group')}; pass one per key, "
                "or none"
            )
        for batch in split_batches(zip(keys, group_ids or [None] * len(keys), strict=True), _BATCH_SIZE):
            self._check_groups(batch)
        confirmation_time = max(self.get_time(), time_at_least or 0.0)
        min_time = math.inf if time_at_least is None else time_at_least
        new_origins: dict[str, str | None] = {}
        for key, origin in self._load_origins(keys):
            stored_origin = DocumentOrigin.parse(origin)  # None if it was not added through LangChain
            # Documents added by this run are confirmed by their own commit.
            is_confirmed = stored_origin is not None and stored_origin.confirmed_at >= min_time
            if stored_origin is None or stored_origin.namespace != self.namespace or not is_confirmed:
                new_origins[key] = str(DocumentOrigin(self.namespace, confirmation_time))
        if new_origins:
            self.store.set_origins(new_origins)

    def _check_groups(self, batch: Sequence[tuple[str, str | None]]) -> None:
        """Raise ValueError if the group in a document's metadata differs from its group in ``batch``.

        ``batch`` has pairs of key and group; a group of None is not checked.
        """
        expected_groups = {key: group for key, group in batch if group is not None}
        for key, actual_group in self._iter_groups(list(expected_groups)):
            if actual_group != expected_groups[key]:
                raise ValueError(
                    f"document {key!r} is in group {expected_groups[key]!r}, but in {actual_group!r} by its metadata: "
                    f"give the record manager the source_id_key of index() instead of {self._source_id_key!r}"
                )

    def exists(self, keys: Sequence[str]) -> list[bool]:
        """Return a list with True for each key whose document the store has, else False."""
        with self.store.snapshot() as state:
            return [key in state for key in keys]

    def list_keys(
        self,
        *,
        before: float | None = None,
        after: float | None = None,
        group_ids: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[str]:
        """Return the keys of documents of the namespace, at most ``limit`` (None: all).

        Only documents of the groups ``group_ids``, confirmed by an indexing run before the time ``before`` and after
        the time ``after``, are returned. An omitted argument sets no condition.
        """
        matching_keys: list[str] = []
        for key, origin in self._load_origins(None if not group_ids else self._list_group_keys(group_ids)):
            stored_origin = DocumentOrigin.parse(origin)
            if stored_origin is None or stored_origin.namespace != self.namespace:
                continue
            is_too_late = before and stored_origin.confirmed_at >= before
            is_too_early = after and stored_origin.confirmed_at <= after
            if is_too_late or is_too_early:
                continue
            matching_keys.append(key)
            if limit and len(matching_keys) == limit:
                break
        return matching_keys

    def delete_keys(self, keys: Sequence[str]) -> None:
        """Delete documents with their records; keys without a document are ignored."""
        self.store.delete_many(list(keys))

    def _list_group_keys(self, groups: Sequence[Any]) -> list[str]:
        """Return the keys of the documents whose group is one of ``groups``.

        If a function returns the group of a document, only documents that were added through LangChain are considered.
        """
        unique_groups = list(dict.fromkeys(groups))
        if isinstance(self._source_id_key, str):
            return self.store.keys(where={self._source_id_key: {"$in": unique_groups}})
        keys = [key for key, origin in self._load_origins(keys=None) if DocumentOrigin.parse(origin) is not None]
        return [key for key, group in self._iter_groups(keys) if group in unique_groups]

    def _iter_groups(self, keys: Sequence[str]) -> Iterator[tuple[str, Any]]:
        """Yield (key, group) of each stored document with one of ``keys``.

        The group is the value of the metadata field ``_source_id_key``, or the result of this function.
        """
        for batch in split_batches(keys, _BATCH_SIZE):
            for stored_document in self.store.get_many(batch):
                if stored_document is None:
                    continue
                if isinstance(self._source_id_key, str):
                    yield stored_document.key, stored_document.meta.get(self._source_id_key)
                else:
                    document = Document(
                        id=stored_document.key, page_content=stored_document.text, metadata=stored_document.meta
                    )
                    yield stored_document.key, self._source_id_key(document)

    def _load_origins(self, keys: Sequence[str] | None) -> Iterator[tuple[str, str | None]]:
        """Yield (key, origin) of the documents with these keys; an origin is the text of a :class:`DocumentOrigin`.

        With None, yield all documents that were added through LangChain, in order of key.
        """
        selection = "SELECT key, origin FROM documents WHERE"
        if keys is None:
            yield from self.store.execute(f"{selection} origin LIKE '{ORIGIN_PREFIX}%' ORDER BY key").fetchall()
            return
        for batch in split_batches(keys, _BATCH_SIZE):
            placeholders = ", ".join("?" * len(batch))
            yield from self.store.execute(f"{selection} key IN ({placeholders})", batch).fetchall()

    acreate_schema = make_async(create_schema)
    aget_time = make_async(get_time)
    aupdate = make_async(update)
    aexists = make_async(exists)
    alist_keys = make_async(list_keys)
    adelete_keys = make_async(delete_keys)
