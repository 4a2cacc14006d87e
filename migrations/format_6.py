"""Format 6: stores an index of metadata values, and the maximum score of postings.

A block of postings holds an upper bound of the scores of its postings. A term with several blocks holds their number.

The change buffer holds patches of values. The step merges its segments, which held whole values, into their tables, so
that temperatures are kept. Everything else in the segments is rebuilt, so a damaged segment is skipped.

The step writes the record ``rebuild`` to ``meta``, and the caller of the migration rebuilds the store first: the
contents of derived tables are not read.

On disk: ``recent`` is segment → msgpack map, and its CRC-32: table → map of keys to values, nil for a removed record;
keys ascend from the oldest. ``rebuild`` is empty; ``settings`` exists in every finished store. Frozen once it is
released.
"""

from __future__ import annotations

import zlib

import lmdb
import msgpack


def migrate(environment: lmdb.Environment, transaction: lmdb.Transaction[bytes]) -> None:
    """Merge the change buffer, and request a rebuild."""
    if transaction.get(b"recent") is not None:
        recent = environment.open_db(b"recent", txn=transaction)
        with transaction.cursor(db=recent) as cursor:
            segments = [bytes(segment) for segment in cursor.iternext(keys=False)]
        for segment in segments:
            if zlib.crc32(segment[:-4]).to_bytes(4, "little") == segment[-4:]:
                for name, changes in msgpack.unpackb(segment[:-4], strict_map_key=False).items():
                    table = environment.open_db(name.encode(), txn=transaction)
                    for key, value in changes.items():
                        if value is None:
                            transaction.delete(key, db=table)
                        else:
                            transaction.put(key, value, db=table)
        transaction.drop(recent, delete=False)
    meta = environment.open_db(b"meta", txn=transaction)
    if transaction.get(b"settings", db=meta) is not None:  # else a new store that has no records yet
        transaction.put(b"rebuild", b"", db=meta)
