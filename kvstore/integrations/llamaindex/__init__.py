"""LlamaIndex adapters of a store: a vector store, and a retriever with any strategy.

A node is stored as a document with one chunk: its id is the key, and its vector is the one from LlamaIndex. The
adapters also read stores that were filled in other ways. Needs the ``llamaindex`` extra.

>>> from llama_index.core.schema import TextNode
>>> from llama_index.core.vector_stores import VectorStoreQuery
>>> from kvstore.integrations.llamaindex import KvstoreVectorStore
>>> import tempfile
>>> vectors = KvstoreVectorStore(tempfile.mkdtemp() + "/store")
>>> vectors.add([TextNode(id_="tea", text="Tea is made from leaves.", embedding=[1.0, 0.0])])
['tea']
>>> vectors.query(VectorStoreQuery(query_embedding=[1.0, 1.0])).ids
['tea']
"""

from __future__ import annotations

from ...extensions.extras import import_extra

import_extra("llama_index.core", "llamaindex", "kvstore.integrations.llamaindex", package="llama-index-core")

from .retriever import KvstoreRetriever  # noqa: E402
from .vector_store import KvstoreVectorStore  # noqa: E402

__all__ = ["KvstoreRetriever", "KvstoreVectorStore"]
