"""Format 4: a store says which structures it keeps beside its documents, each in which version.

So a kvstore that knows another structure makes it, and one that does not know what is kept does not write. A store of
format 3 kept one, the graph of passages, in the version that is 1 since then. Names, relations and the borders of
chunks at code follow other rules since this format: as before format 2, the step leaves the record ``rebuild`` in
``meta``, and whoever migrates rebuilds the store before anything else.

On disk, each value followed by its CRC-32, little-endian: ``structures`` in ``meta`` is a msgpack map from names to
versions; ``settings`` is there in every store that is made; ``rebuild`` is empty. Frozen: never edit.
"""

from __future__ import annotations

import zlib

import lmdb
import msgpack


def migrate(environment: lmdb.Environment, transaction: lmdb.Transaction[bytes]) -> None:
    """Write down what a store of format 3 keeps, and ask for a rebuild."""
    meta = environment.open_db(b"meta", txn=transaction)
    if transaction.get(b"settings", db=meta) is None:
        return  # a store in the making: it has nothing yet
    body = msgpack.packb({"passage_graph": 1})
    transaction.put(b"structures", body + zlib.crc32(body).to_bytes(4, "little"), db=meta)
    transaction.put(b"rebuild", b"", db=meta)
