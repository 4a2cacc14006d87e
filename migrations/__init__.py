"""Formats of a store, and the steps that migrate an older one to the current format. A *step* leads from one format to
the next; the *format record* of a store has the number of its format.

In: the LMDB environment of a store, with the writer lock held. On disk: the record ``format`` of the ``meta`` table,
which contains the format number (see ``format_record``). Out: the steps that ran. Each step is a frozen module that
uses raw keys and bytes only, never the current codecs. A step and the record of it commit together, so a failed step
leaves the store in the previous format. A newer or older format raises :class:`~kvstore.errors.StoreFormatError`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType

import lmdb

from kvstore.errors import CorruptionError, StoreFormatError

__all__ = ["CURRENT_FORMAT", "STEPS", "Step", "check_format", "format_record", "migrate", "read_format"]

#: A step: migrates the store from the previous format to its format, within the given transaction.
Step = Callable[[lmdb.Environment, "lmdb.Transaction[bytes]"], None]

#: The format that this version reads and writes.
CURRENT_FORMAT = 6


def _make_step(number: int) -> Step:
    """Return the step that leads to format ``number``; its module is imported when the step runs."""

    def step(environment: lmdb.Environment, transaction: lmdb.Transaction[bytes]) -> None:
        """Import the module of the format, and run its migration."""
        import_module(f"{__name__}.format_{number}").migrate(environment, transaction)

    return step


#: The step from the previous format to each format; format 0 is an empty environment.
STEPS: Mapping[int, Step] = MappingProxyType({number: _make_step(number) for number in range(1, CURRENT_FORMAT + 1)})

META_TABLE = b"meta"
FORMAT_KEY = b"format"
#: A format is one byte, as msgpack writes the integers 0 to 127; the CRC-32 of that byte follows, little-endian.
RECORD_SIZE = 5


def check_format(number: int, current: int = CURRENT_FORMAT) -> None:
    """Raise StoreFormatError unless ``number`` is the format that this version reads; the message names the remedy."""
    if number > current:
        raise StoreFormatError(
            f"the store has format {number}, written by a newer kvstore; this one reads format {current}: upgrade "
            "kvstore"
        )
    if number < current:
        raise StoreFormatError(
            f"the store has format {number}, written by an older kvstore; this one reads format {current}; migrate "
            "it, keeping a copy, with: kvstore migrate STORE"
        )


def format_record(number: int) -> bytes:
    """Return the stored bytes of format ``number`` (0 to 127), e.g. ``01 1b df 05 a5`` for format 1."""
    payload = bytes([number])
    return payload + zlib.crc32(payload).to_bytes(4, "little")


def read_format(environment: lmdb.Environment) -> int:
    """Return the format of the store in ``environment``, 0 if it has none; raises CorruptionError for a bad record."""
    with environment.begin() as transaction:
        if transaction.get(META_TABLE) is None:
            return 0
        meta = environment.open_db(META_TABLE, txn=transaction, create=False)
        record = transaction.get(FORMAT_KEY, db=meta)
    if record is None:
        return 0
    if len(record) != RECORD_SIZE or record != format_record(record[0]):
        raise CorruptionError(
            f"table meta, key format: not a valid format record ({record.hex()}); restore the store from a backup"
        )
    return record[0]


def migrate(environment: lmdb.Environment, steps: Mapping[int, Step] = STEPS) -> list[int]:
    """Migrate the store to the newest format of ``steps``; return the formats of the steps that ran.

    The list is empty if the store already has this format. Raises StoreFormatError for a newer store, and any error of
    a step; earlier steps remain committed.
    """
    current = max(steps)
    stored_format = read_format(environment)
    if stored_format > current:
        check_format(stored_format, current)
    completed = []
    for number in range(stored_format + 1, current + 1):
        with environment.begin(write=True) as transaction:
            steps[number](environment, transaction)
            meta = environment.open_db(META_TABLE, txn=transaction)
            transaction.put(FORMAT_KEY, format_record(number), db=meta)
        completed.append(number)
    return completed
