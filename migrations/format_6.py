"""Format 6: which documents have a value in their metadata is kept beside them; so is the most that a posting scores.

A block of postings says what bounds the score of its postings, and terms with several blocks how many they have.

The change buffer keeps patches of values: the step puts its segments, which held values whole, into their tables, so
that temperatures are carried over; everything else in them is made again, so a segment that is damaged is passed over.

The step leaves the record ``rebuild`` in ``meta``, and whoever migrates rebuilds the store before anything else: what
lies in the tables that are derived is not read.

On disk: ``recent`` is segment → msgpack map, and its CRC-32: table → map of keys to values, nil for a record that is
removed; keys ascend from the oldest. ``rebuild`` is empty; ``settings`` is there in every store that is made. Frozen
once it is released.
"""

from __future__ import annotations

import zlib

import lmdb
import msgpack


def migrate(environment: lmdb.Environment, transaction: lmdb.Transaction[bytes]) -> None:
    """Merge the change buffer, and ask for a rebuild."""
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
    if transaction.get(b"settings", db=meta) is not None:  # else a store in the making: it has nothing yet
        transaction.put(b"rebuild", b"", db=meta)
