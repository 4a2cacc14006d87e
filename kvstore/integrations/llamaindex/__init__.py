"""LlamaIndex over a store: a vector store, and a retriever by any strategy.

A node is a document of the store here, of one chunk: its id is the key, and its vector is that which LlamaIndex made.
A store that was filled in other ways can be read through these as well. The extra ``llamaindex`` brings what this
needs.

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

from ...extras import import_extra

import_extra("llama_index.core", "llamaindex", "kvstore.integrations.llamaindex", package="llama-index-core")

from .retriever import KvstoreRetriever  # noqa: E402
from .vector_store import KvstoreVectorStore  # noqa: E402

__all__ = ["KvstoreRetriever", "KvstoreVectorStore"]
