"""LangChain's record manager, which keeps its records in the documents themselves.

In: what ``langchain_core.indexing.index`` says of documents. In the store: nothing but the documents, and in the origin
of each the namespace and the moment at which it was confirmed last. A document and its record are written in one
commit and go in one, so that they cannot disagree, wherever a process ends.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Self

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.indexing import RecordManager
from langchain_core.runnables import run_in_executor

from ... import Store
from ..opened import resolve_store
from .embeddings import make_embedder
from .stored_documents import ORIGIN_PREFIX, DocumentOrigin

#: Documents that are asked about at once.
_BATCH_SIZE = 500


class KvstoreRecordManager(RecordManager):
    """A store as the record manager of what is put into it.

    ``path`` is that of a store, with the ``embedding`` that it was made by, ``store`` one that is open. ``namespace``
    is that of the vector store or document index whose documents these are. ``source_id_key`` says which of the
    metadata a document's group is, or is a function of the document: the same that ``index()`` is given, because the
    group is read from the document and kept nowhere else.
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
        super().__init__(namespace)
        self.store, self._owns_store = resolve_store(
            "KvstoreRecordManager", path, store, make_embedder(embedding), create=False
        )
        self._source_id_key = source_id_key

    def close(self) -> None:
        """Close the store, if it was opened here."""
        if self._owns_store:
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create_schema(self) -> None:
        """Does nothing: the store has all it needs."""

    async def acreate_schema(self) -> None:
        """Does nothing: the store has all it needs."""

    def get_time(self) -> float:
        """The time of this machine, in seconds since 1970."""
        return time.time()

    async def aget_time(self) -> float:
        """The time of this machine, in seconds since 1970."""
        return self.get_time()

    def update(
        self,
        keys: Sequence[str],
        *,
        group_ids: Sequence[str | None] | None = None,
        time_at_least: float | None = None,
    ) -> None:
        """Confirm documents; what is not in the store has no record and is passed over.

        A record is at least as new as ``time_at_least``, though the clock may have been set back meanwhile. Raises
        ValueError for another number of groups than of keys, and for a group that is not the document's.
        """
        if group_ids and len(group_ids) != len(keys):
            raise ValueError(f"there are {len(keys):,} keys and {len(group_ids):,} groups; give one for each, or none")
        for batch in _split_batches(list(zip(keys, group_ids or [None] * len(keys), strict=True))):
            self._check_groups(batch)
        moment = max(self.get_time(), time_at_least or 0.0)
        new_origins: dict[str, str | None] = {}
        for key, origin, _ in self._load_origins(keys):
            parsed = DocumentOrigin.parse(origin)
            # What was put in by this run is confirmed by its own commit.
            is_fresh = parsed is not None and time_at_least is not None and parsed.confirmed >= time_at_least
            if parsed is None or parsed.namespace != self.namespace or not is_fresh:
                new_origins[key] = str(DocumentOrigin(self.namespace, moment))
        if new_origins:
            self.store.set_origins(new_origins)

    def _check_groups(self, batch: Sequence[tuple[str, str | None]]) -> None:
        groups = {key: group for key, group in batch if group is not None}
        for key, actual_group in self._iter_groups(list(groups)):
            if actual_group != groups[key]:
                raise ValueError(
                    f"document {key!r} is of group {groups[key]!r}, and its metadata say {actual_group!r}: give "
                    "the record "
                    f"manager the source_id_key of index(), in place of {self._source_id_key!r}"
                )

    def exists(self, keys: Sequence[str]) -> list[bool]:
        """Whether the store has documents of these keys."""
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
        """Keys of documents of the namespace, in order: confirmed before, after, and of some groups."""
        matching_keys: list[str] = []
        for key, origin, _ in self._load_origins(None if not group_ids else self._list_group_keys(group_ids)):
            parsed = DocumentOrigin.parse(origin)
            if parsed is None or parsed.namespace != self.namespace:
                continue
            if (before and parsed.confirmed >= before) or (after and parsed.confirmed <= after):
                continue
            matching_keys.append(key)
            if limit and len(matching_keys) == limit:
                break
        return matching_keys

    def delete_keys(self, keys: Sequence[str]) -> None:
        """Does what is left to do: with a document its record has gone, and with a record its document goes."""
        self.store.delete_many(list(keys))

    def _list_group_keys(self, groups: Sequence[Any]) -> list[str]:
        """Keys of the documents of some groups."""
        unique_groups = list(dict.fromkeys(groups))
        if isinstance(self._source_id_key, str):
            return self.store.keys(where={self._source_id_key: {"$in": unique_groups}})
        keys = [key for key, origin, _ in self._load_origins(None) if DocumentOrigin.parse(origin) is not None]
        return [key for key, group in self._iter_groups(keys) if group in unique_groups]

    def _iter_groups(self, keys: Sequence[str]) -> Iterator[tuple[str, Any]]:
        """The group of each document, as its metadata say."""
        for batch in _split_batches(keys):
            for stored in self.store.get_many(batch):
                if stored is None:
                    continue
                if isinstance(self._source_id_key, str):
                    yield stored.key, stored.meta.get(self._source_id_key)
                else:
                    document = Document(id=stored.key, page_content=stored.text, metadata=stored.meta)
                    yield stored.key, self._source_id_key(document)

    def _load_origins(self, keys: Sequence[str] | None) -> Iterator[tuple[str, str | None, str]]:
        """Key, origin and moment of the last change of documents; None: of all that came through here, in order."""
        columns = "SELECT key, origin, changed FROM documents WHERE"
        if keys is None:
            yield from self.store.execute(f"{columns} origin LIKE '{ORIGIN_PREFIX}%' ORDER BY key").fetchall()
            return
        for batch in _split_batches(keys):
            placeholders = ", ".join("?" * len(batch))
            yield from self.store.execute(f"{columns} key IN ({placeholders})", batch).fetchall()

    async def aupdate(
        self,
        keys: Sequence[str],
        *,
        group_ids: Sequence[str | None] | None = None,
        time_at_least: float | None = None,
    ) -> None:
        """As :meth:`update`."""
        await run_in_executor(None, self.update, keys, group_ids=group_ids, time_at_least=time_at_least)

    async def aexists(self, keys: Sequence[str]) -> list[bool]:
        """As :meth:`exists`."""
        results: list[bool] = await run_in_executor(None, self.exists, keys)
        return results

    async def alist_keys(
        self,
        *,
        before: float | None = None,
        after: float | None = None,
        group_ids: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[str]:
        """As :meth:`list_keys`."""
        keys: list[str] = await run_in_executor(
            None, self.list_keys, before=before, after=after, group_ids=group_ids, limit=limit
        )
        return keys

    async def adelete_keys(self, keys: Sequence[str]) -> None:
        """As :meth:`delete_keys`."""
        await run_in_executor(None, self.delete_keys, keys)


def _split_batches(items: Sequence[Any]) -> Iterator[list[Any]]:
    remaining = iter(items)
    while batch := list(islice(remaining, _BATCH_SIZE)):
        yield batch
