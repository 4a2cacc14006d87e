"""Format 3: the tokenizer changes, and derived data is rebuilt.

Since this format, accents fold, technical tokens and the parts of joined words are terms, and scripts without spaces
are split into characters: a store's ``tokenizer`` is ``words-2``. Names, chunk boundaries and everything derived from
them changed too. As in format 2, the step writes the record ``rebuild`` to ``meta``, and the caller of the migration
rebuilds the store first.

On disk: ``settings`` in ``meta`` is a msgpack map, followed by its CRC-32, little-endian; ``rebuild`` is empty. Frozen:
never edit.
"""

from __future__ import annotations

import zlib

import lmdb
import msgpack

from kvstore.errors import CorruptionError


def migrate(environment: lmdb.Environment, transaction: lmdb.Transaction[bytes]) -> None:
    """Write the tokenizer to the settings, and request a rebuild."""
    meta = environment.open_db(b"meta", txn=transaction)
    stored = transaction.get(b"settings", db=meta)
    if stored is None:
        return  # a new store that has no records yet
    body, checksum = bytes(stored[:-4]), bytes(stored[-4:])
    if zlib.crc32(body).to_bytes(4, "little") != checksum:
        raise CorruptionError("table meta, key settings: its checksum does not match; restore the store from a backup")
    settings = msgpack.packb({**msgpack.unpackb(body), "tokenizer": "words-2"})
    transaction.put(b"settings", settings + zlib.crc32(settings).to_bytes(4, "little"), db=meta)
    transaction.put(b"rebuild", b"", db=meta)
