"""Format 3: terms are found by other rules, and what is derived is made anew.

Since this format accents fold, technical tokens and the parts of joined words are terms, and writing without spaces is
cut into characters: a store's ``tokenizer`` is ``words-2``. Names, chunk borders and what follows from them changed
with it. As before format 2, the step leaves the record ``rebuild`` in ``meta``, and whoever migrates rebuilds the store
before anything else.

On disk: ``settings`` in ``meta`` is a msgpack map, followed by its CRC-32, little-endian; ``rebuild`` is empty. Frozen:
never edit.
"""

from __future__ import annotations

import zlib

import lmdb
import msgpack

from kvstore.errors import CorruptionError


def migrate(environment: lmdb.Environment, transaction: lmdb.Transaction[bytes]) -> None:
    """Name the tokenizer in the settings, and ask for a rebuild."""
    meta = environment.open_db(b"meta", txn=transaction)
    stored = transaction.get(b"settings", db=meta)
    if stored is None:
        return  # a store in the making: it has nothing yet
    body, checksum = bytes(stored[:-4]), bytes(stored[-4:])
    if zlib.crc32(body).to_bytes(4, "little") != checksum:
        raise CorruptionError("table meta, key settings: its checksum does not match; restore the store from a backup")
    settings = msgpack.packb({**msgpack.unpackb(body), "tokenizer": "words-2"})
    transaction.put(b"settings", settings + zlib.crc32(settings).to_bytes(4, "little"), db=meta)
    transaction.put(b"rebuild", b"", db=meta)
