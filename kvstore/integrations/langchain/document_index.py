"""LangChain's document index: a retriever that also stores documents."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, ClassVar

from langchain_core.documents import Document
from langchain_core.indexing.base import DeleteResponse, DocumentIndex, UpsertResponse

from . import stored_documents
from .retriever import KvstoreRetriever
from .stored_documents import DocumentOrigin


class KvstoreDocumentIndex(KvstoreRetriever, DocumentIndex):
    """A store as LangChain's document index: a :class:`KvstoreRetriever` that also adds and deletes documents.

    If there is no store at the path, one is created with the ``embedding``. ``namespace`` labels the documents that are
    added through it, for a record manager.
    """

    namespace: str = ""
    _creates_store: ClassVar[bool] = True

    def upsert(self, items: Sequence[Document], /, **kwargs: Any) -> UpsertResponse:
        """Put documents, replacing those with the same ids; those without text are skipped and returned as failed.

        There is one commit per ``batch_size`` documents, a keyword argument (default: one in total).
        """
        keys = stored_documents.assign_keys(items)
        origin = DocumentOrigin(self.namespace, time.time())
        stored_ids = stored_documents.put_documents(
            self._question_store.store, items, keys, origin, kwargs.get("batch_size")
        )
        failed_keys = set(keys).difference(stored_ids)
        return UpsertResponse(succeeded=stored_ids, failed=[key for key in keys if key in failed_keys])

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> DeleteResponse:
        """Delete documents by id, in one commit. Raises ValueError if no ids are given."""
        if ids is None:
            raise ValueError("delete() takes the ids of documents; give a list of them")
        # Deleting needs no embedder or language model.
        with self._question_store.store.transaction(models=False) as transaction:
            deleted_keys = [key for key in dict.fromkeys(ids) if transaction.delete(key)]
        return DeleteResponse(num_deleted=len(deleted_keys), num_failed=0, succeeded=deleted_keys, failed=[])

    def get(self, ids: Sequence[str], /, **kwargs: Any) -> list[Document]:
        """Return the documents with these ids, in the order of ``ids``. Missing documents are omitted."""
        return stored_documents.load_documents(self._question_store.store, ids)
