"""A store as the long-term memory of LangGraph's agents.

An item is a document: its namespace and key are the key, its value is in the metadata, and the indexed fields are the
text, one chunk per field. Search by a question uses any search of the store. Needs the ``langgraph`` extra.

>>> from kvstore.integrations.langgraph import KvstoreStore
>>> import kvstore, tempfile
>>> memory = KvstoreStore(store=kvstore.open(tempfile.mkdtemp() + "/store", embedder="hashing"), fields=["fact"])
>>> memory.put(("users", "ana"), "drink", {"fact": "Ana drinks green tea.", "day": 3})
>>> memory.put(("users", "ana"), "city", {"fact": "Ana lives in Porto.", "day": 4})
>>> [item.key for item in memory.search(("users",), query="Which tea does she drink?", limit=1)]
['drink']
>>> memory.search(("users", "ana"), filter={"day": {"$gt": 3}})[0].value["fact"]
'Ana lives in Porto.'
"""

from __future__ import annotations

from ...extensions.extras import import_extra

import_extra("langgraph.store", "langgraph", "kvstore.integrations.langgraph", package="langgraph-checkpoint")

from .item_store import KvstoreStore  # noqa: E402

__all__ = ["KvstoreStore"]
