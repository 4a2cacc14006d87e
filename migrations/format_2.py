"""Format 2: derived data is rebuilt, and user statements about an edge are stored in one table.

Since this format, names and relations can come from a parser, the forest separates accepted edges from stated ones, and
chunks and entities form a graph. A store of format 1 was read by rules, and stays so: its settings say ``language:
rules``. All derived data must be rebuilt from the documents, which a frozen step cannot do. Instead, the step writes
the record ``rebuild`` to ``meta``, and the caller of the migration rebuilds the store first.

On disk, each value followed by its CRC-32, little-endian: ``settings`` in ``meta`` is a msgpack map. ``documents`` were
msgpack maps and become lists of their values, without the root of their abstracts and with the time of change in
seconds. ``texts`` were UTF-8 and get a leading zero byte. ``chunks``, which lead to the vectors, were packed numbers
and become msgpack lists. ``stated_edges`` (child node u64, parent node u64, big-endian) was the two names in msgpack
and becomes the two names and the tree's. ``nodes`` (node u64) is tree and entity, u32 little-endian; ``trees`` (tree
u32, big-endian) is the name in msgpack. ``rebuild`` in ``meta`` is empty. A damaged document, text or chunk is left
unchanged, and the rebuild reports it. Frozen: never edit.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from datetime import datetime

import lmdb
import msgpack

from kvstore.errors import CorruptionError

_CHUNK = struct.Struct("<QQQIiIIH")
_DOCUMENT = (
    *("key", "title", "source", "format", "meta", "digest", "size", "changed", "first_group", "groups", "uppers"),
    *("own_vectors", "origin"),
)


def migrate(environment: lmdb.Environment, transaction: lmdb.Transaction[bytes]) -> None:
    """Convert the settings, stated edges, documents, texts and chunks, and request a rebuild.

    The settings gain ``language``, and each stated edge gains its tree.
    """
    meta = environment.open_db(b"meta", txn=transaction)
    stored = transaction.get(b"settings", db=meta)
    if stored is None:
        return  # a new store that has no records yet
    settings = {"language": "rules", **msgpack.unpackb(_verify_and_strip_checksum(stored, "meta", b"settings"))}
    transaction.put(b"settings", _append_checksum(msgpack.packb(settings)), db=meta)
    transaction.put(b"rebuild", b"", db=meta)
    for table, convert in ((b"documents", _convert_document), (b"texts", _convert_text), (b"chunks", _convert_chunk)):
        if transaction.get(table) is not None:
            _convert_table(environment, transaction, table, convert)
    if transaction.get(b"stated_edges") is not None:
        _add_tree_names(environment, transaction)


def _convert_table(
    environment: lmdb.Environment,
    transaction: lmdb.Transaction[bytes],
    table: bytes,
    convert: Callable[[bytes], bytes],
) -> None:
    """Convert the value of every record of a table; values with a wrong checksum are left unchanged."""
    records = environment.open_db(table, txn=transaction, create=False)
    with transaction.cursor(db=records) as cursor:
        keys = [bytes(key) for key in cursor.iternext(values=False)]
    for key in keys:
        value = bytes(transaction.get(key, db=records) or b"")
        if _append_checksum(value[:-4]) == value:
            transaction.put(key, _append_checksum(convert(value[:-4])), db=records)


def _convert_document(body: bytes) -> bytes:
    """Return a document as a list of its values, with the time of change in seconds."""
    fields = msgpack.unpackb(body)
    fields["changed"] = int(datetime.fromisoformat(fields["changed"]).timestamp())
    return bytes(msgpack.packb([fields[name] for name in _DOCUMENT]))


def _convert_text(body: bytes) -> bytes:
    """Return a text with a leading zero byte."""
    return b"\x00" + body


def _convert_chunk(body: bytes) -> bytes:
    """Return a chunk as a msgpack list of its numbers."""
    return bytes(msgpack.packb(_CHUNK.unpack(body)))


def _add_tree_names(environment: lmdb.Environment, transaction: lmdb.Transaction[bytes]) -> None:
    """Add the name of its tree to each edge that the user stated; raise CorruptionError for a damaged record."""
    stated, nodes, trees = (
        environment.open_db(table, txn=transaction, create=False) for table in (b"stated_edges", b"nodes", b"trees")
    )
    with transaction.cursor(db=stated) as cursor:
        edges = [(bytes(key), bytes(value)) for key, value in cursor]
    for key, value in edges:
        child, parent = msgpack.unpackb(_verify_and_strip_checksum(value, "stated_edges", key))
        node = _verify_and_strip_checksum(transaction.get(key[:8], db=nodes), "nodes", key[:8])
        tree_id, _ = struct.unpack("<II", node)
        tree_key = struct.pack(">I", tree_id)
        tree = msgpack.unpackb(_verify_and_strip_checksum(transaction.get(tree_key, db=trees), "trees", tree_key))
        transaction.put(key, _append_checksum(msgpack.packb([child, parent, tree])), db=stated)


def _append_checksum(body: bytes) -> bytes:
    """Return a record with its CRC-32, little-endian, appended."""
    return body + zlib.crc32(body).to_bytes(4, "little")


def _verify_and_strip_checksum(value: bytes | None, table: str, key: bytes) -> bytes:
    """Return a record without its CRC-32; raise CorruptionError if it is missing or does not match."""
    body, checksum = (b"", b"") if value is None else (bytes(value[:-4]), bytes(value[-4:]))
    if zlib.crc32(body).to_bytes(4, "little") != checksum:
        raise CorruptionError(
            f"table {table}, key {key.hex()}: missing, or its checksum does not match; restore the store from a backup"
        )
    return body
