"""Haystack adapters of a store: a document store, and a retriever with any strategy.

A Haystack document is stored as a document with one chunk: its id is the key, its metadata is the metadata, and its
vector comes from the pipeline's embedder or from the store's own. The adapters also read stores that were filled in
other ways. Needs the ``haystack`` extra.

>>> from haystack import Document
>>> from kvstore.integrations.haystack import KvstoreDocumentStore, KvstoreRetriever
>>> import kvstore, tempfile
>>> documents = KvstoreDocumentStore(store=kvstore.open(tempfile.mkdtemp() + "/store", embedder="hashing"))
>>> documents.write_documents([Document(id="tea", content="Tea is made from leaves."), Document(content="Milk.")])
2
>>> [document.id for document in KvstoreRetriever(documents, top_k=1).run("What is tea made from?")["documents"]]
['tea']
"""

from __future__ import annotations

from ...extensions.extras import import_extra

import_extra("haystack", "haystack", "kvstore.integrations.haystack", package="haystack-ai")

from .document_store import KvstoreDocumentStore  # noqa: E402
from .retriever import KvstoreRetriever  # noqa: E402

__all__ = ["KvstoreDocumentStore", "KvstoreRetriever"]
