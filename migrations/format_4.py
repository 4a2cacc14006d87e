"""Format 4: a store records its derived structures, each with a version.

A kvstore that supports an additional structure therefore builds it, and one that does not support a stored structure
does not write. A store of format 3 had one structure, the graph of chunks, in what is now version 1. Names, relations
and chunk boundaries in code follow other rules since this format. As in format 2, the step writes the record
``rebuild`` to ``meta``, and the caller of the migration rebuilds the store first.

On disk, each value followed by its CRC-32, little-endian: ``structures`` in ``meta`` is a msgpack map from names to
versions; ``settings`` exists in every finished store; ``rebuild`` is empty. Frozen: never edit.
"""

from __future__ import annotations

import zlib

import lmdb
import msgpack


def migrate(environment: lmdb.Environment, transaction: lmdb.Transaction[bytes]) -> None:
    """Record the structures of a store of format 3, and request a rebuild."""
    meta = environment.open_db(b"meta", txn=transaction)
    if transaction.get(b"settings", db=meta) is None:
        return  # a new store that has no records yet
    body = msgpack.packb({"passage_graph": 1})
    transaction.put(b"structures", body + zlib.crc32(body).to_bytes(4, "little"), db=meta)
    transaction.put(b"rebuild", b"", db=meta)
