"""LangChain adapters of a store: a vector store, a retriever with any strategy, a document index, and a record manager.

A LangChain document is stored as a document with one chunk: its id is the key, its metadata is the metadata, and its
vector comes from the application's embedding or from the store's own. The adapters also read stores that were filled in
other ways. Needs the ``langchain`` extra.

>>> from langchain_core.documents import Document
>>> from kvstore.integrations.langchain import KvstoreVectorStore
>>> import kvstore, tempfile
>>> vectors = KvstoreVectorStore(store=kvstore.open(tempfile.mkdtemp() + "/store", embedder="hashing"))
>>> vectors.add_documents([Document("Tea is made from leaves.", id="tea"), Document("Milk is white.", id="milk")])
['tea', 'milk']
>>> [document.id for document in vectors.similarity_search("What is tea made from?", k=1)]
['tea']
"""

from __future__ import annotations

from ...extensions.extras import import_extra

import_extra("langchain_core", "langchain", "kvstore.integrations.langchain", package="langchain-core")

from .document_index import KvstoreDocumentIndex  # noqa: E402
from .embeddings import KvstoreEmbeddings  # noqa: E402
from .record_manager import KvstoreRecordManager  # noqa: E402
from .retriever import KvstoreRetriever  # noqa: E402
from .vector_store import KvstoreVectorStore  # noqa: E402

__all__ = [
    "KvstoreDocumentIndex",
    "KvstoreEmbeddings",
    "KvstoreRecordManager",
    "KvstoreRetriever",
    "KvstoreVectorStore",
]
