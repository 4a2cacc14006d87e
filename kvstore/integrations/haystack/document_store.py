"""Haystack's document store. Haystack's ``filters`` are conditions on the id and the metadata of documents."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from haystack import default_from_dict, default_to_dict
from haystack.dataclasses import Document
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError

from ... import Store
from ...arguments import check_text
from ...errors import InputError
from ..adapter_store import AdapterStore, make_async, resolve_store
from ..blank_texts import skip_blank_texts
from .filters import build_condition
from .stored_documents import load_documents, to_put_arguments

Filters = dict[str, Any]


class KvstoreDocumentStore(AdapterStore):
    """A store as Haystack's document store.

    ``path`` is the path of a store, ``store`` an open one. A missing store is created with the ``embedder`` (the name
    of a kvstore embedder; ``none:DIMENSION`` if the pipeline embeds every document and question) and the creation
    ``settings``. Documents are returned in the order of their ids, with embeddings of length 1. Documents without text
    are skipped with a warning; blobs and sparse embeddings are not stored. Raises the errors of opening a store and of
    putting documents.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        store: Store | None = None,
        embedder: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Open or create the store at ``path``, or use ``store``; a new store gets ``embedder`` and ``settings``."""
        self._embedder, self._settings = embedder, settings
        self.store, self._owns_store = resolve_store("KvstoreDocumentStore", path, store, embedder, settings)

    def to_dict(self) -> dict[str, Any]:
        """Return the path and the settings, from which :meth:`from_dict` opens the store."""
        settings = None if self._settings is None else dict(self._settings)
        description: dict[str, Any] = default_to_dict(
            self, path=str(self.store.path), embedder=self._embedder, settings=settings
        )
        return description

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> KvstoreDocumentStore:
        """Open the store whose path and settings are in ``data``, a result of :meth:`to_dict`."""
        document_store: KvstoreDocumentStore = default_from_dict(cls, data)
        return document_store

    def count_documents(self) -> int:
        """Return the number of documents."""
        return self.store.count()

    def count_documents_by_filter(self, filters: Filters) -> int:
        """Return the number of documents that satisfy the filters."""
        return len(self._find_keys(filters))

    def filter_documents(self, filters: Filters | None = None) -> list[Document]:
        """Return the documents that satisfy the filters, or all, in the order of their ids. Raises FilterError."""
        with self.store.snapshot() as state:
            return load_documents(state, self._find_keys(filters, state))

    def _find_keys(self, filters: Filters | None, reader: Any = None) -> list[str]:
        """Return the keys of the documents that satisfy the filters, or all keys, in order.

        ``reader`` is a snapshot or a transaction to read from, instead of the store. Raises FilterError.
        """
        try:
            keys: list[str] = (reader or self.store).keys(where=build_condition(filters))
        except InputError as error:
            raise FilterError(str(error)) from error
        return keys

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        """Put documents in one commit, except those without text, and return the number of documents written.

        With the policy FAIL or NONE, which mean the same, an existing document raises DuplicateDocumentError. Nothing
        is then stored, unless another process has written the existing document during the call. Raises ValueError for
        anything but a list of documents.
        """
        if not isinstance(documents, list) or not all(isinstance(document, Document) for document in documents):
            raise ValueError("write_documents() takes a list of Haystack documents")
        rows = skip_blank_texts([to_put_arguments(document) for document in documents], "documents")
        if policy == DuplicatePolicy.OVERWRITE:
            self.store.put_many(rows)
            return len(rows)
        keys = [row["key"] for row in rows]
        if policy != DuplicatePolicy.SKIP:
            with self.store.snapshot() as state:
                _reject_duplicates([key for key, count in Counter(keys).items() if count > 1 or key in state])
        written_flags = self.store.put_many(rows, replace=False)  # False for each document that existed
        if policy != DuplicatePolicy.SKIP:  # another process may have just written one of them
            _reject_duplicates([key for key, is_written in zip(keys, written_flags, strict=True) if not is_written])
        return sum(written_flags)

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete the documents with these ids in one commit; unknown ids are ignored."""
        self.store.delete_many(document_ids)

    def delete_all_documents(self) -> None:
        """Delete all documents in one commit."""
        self.store.delete_where({})  # the empty condition matches every document

    def delete_by_filter(self, filters: Filters) -> int:
        """Delete the documents that satisfy the filters in one commit; return their number."""
        with self.store.transaction(models=False) as transaction:  # deleting needs no embedder or language model
            return transaction.delete_many(self._find_keys(filters, transaction))

    def update_by_filter(self, filters: Filters, meta: dict[str, Any]) -> int:
        """Set the fields in ``meta`` in the metadata of the documents that satisfy the filters; return their number.

        All documents are updated in one commit.
        """
        with self.store.transaction() as transaction:
            keys = self._find_keys(filters, transaction)
            for document in transaction.get_many(keys):
                if document is not None:
                    transaction.update(document.key, meta={**document.meta, **meta})
        return len(keys)

    # Metadata

    def _list_metadata(self, filters: Filters | None = None) -> list[dict[str, Any]]:
        """Return the metadata of each document that satisfies the filters; without filters, of all documents."""
        with self.store.snapshot() as state:
            documents = state.get_many(self._find_keys(filters, state))
            return [document.meta for document in documents if document is not None]

    def count_unique_metadata_by_filter(self, filters: Filters, metadata_fields: list[str]) -> dict[str, int]:
        """Return, by field, the number of distinct values in the documents that satisfy the filters."""
        metadata = self._list_metadata(filters)
        return {name: len(_find_unique_values(metadata, name)) for name in metadata_fields}

    def get_metadata_fields_info(self) -> dict[str, dict[str, str]]:
        """Return the type of each metadata field, by its name: ``boolean``, ``int``, ``float`` or ``keyword``.

        A field has the type of its value in the last document that has one.
        """
        type_names = {bool: "boolean", int: "int", float: "float"}
        return {
            name: {"type": type_names.get(type(value), "keyword")}
            for metadata in self._list_metadata()
            for name, value in metadata.items()
            if value is not None
        }

    def get_metadata_field_min_max(self, metadata_field: str) -> dict[str, Any]:
        """Return ``min`` and ``max`` of a field; both are None if it is missing or its values cannot be compared."""
        values = _find_unique_values(self._list_metadata(), metadata_field)
        try:
            return {"min": min(values, default=None), "max": max(values, default=None)}
        except TypeError:
            return {"min": None, "max": None}

    def get_metadata_field_unique_values(
        self,
        metadata_field: str,
        search_term: str | None = None,
        from_: int = 0,
        size: int = 10,
        filters: Filters | None = None,
    ) -> tuple[list[Any], int]:
        """Return up to ``size`` distinct values of a field from index ``from_`` on, and the number of all of them.

        With ``search_term``, only the values that contain it, ignoring case, are returned and counted. ``filters``
        select the documents (None: all).
        """
        values = _find_unique_values(self._list_metadata(filters), metadata_field)
        matching_values = [
            value for value in values if search_term is None or search_term.lower() in str(value).lower()
        ]
        return matching_values[from_ : from_ + size], len(matching_values)

    count_documents_async = make_async(count_documents)
    count_documents_by_filter_async = make_async(count_documents_by_filter)
    count_unique_metadata_by_filter_async = make_async(count_unique_metadata_by_filter)
    delete_all_documents_async = make_async(delete_all_documents)
    delete_by_filter_async = make_async(delete_by_filter)
    delete_documents_async = make_async(delete_documents)
    filter_documents_async = make_async(filter_documents)
    get_metadata_field_min_max_async = make_async(get_metadata_field_min_max)
    get_metadata_field_unique_values_async = make_async(get_metadata_field_unique_values)
    get_metadata_fields_info_async = make_async(get_metadata_fields_info)
    update_by_filter_async = make_async(update_by_filter)
    write_documents_async = make_async(write_documents)


def _reject_duplicates(duplicates: Sequence[str]) -> None:
    """Raise DuplicateDocumentError if there are ``duplicates``: keys that exist, or that one call repeats."""
    if duplicates:
        raise DuplicateDocumentError(f"there is already a document {duplicates[0]!r}; write it with OVERWRITE or SKIP")


def _find_unique_values(metadata: Sequence[Mapping[str, Any]], field: str) -> list[Any]:
    """Return the distinct values of a metadata field, sorted by their text; ``1`` and ``"1"`` are distinct.

    ``metadata`` has the metadata of each document. ``field`` can begin with ``meta.``.
    """
    check_text("metadata_field", field)
    name = field.removeprefix("meta.")
    values = {repr(fields[name]): fields[name] for fields in metadata if fields.get(name) is not None}
    return sorted(values.values(), key=lambda value: (str(value), type(value).__name__))
