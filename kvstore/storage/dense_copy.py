"""A dense copy of a data file: every record is appended in key order, so that every page is full.

In: a transaction and the path of the copy. On disk: an LMDB file, flushed by the caller. LMDB's own compaction would
keep partly filled pages as they are. If a cursor finds fewer records than a table counts, CorruptionError is raised.
"""

from __future__ import annotations

from pathlib import Path

import lmdb

from ..errors import CorruptionError
from .mapped_pages import PageTransaction, release_pages

#: Bytes of records copied in one transaction, which holds them in memory; the pages read are released afterwards.
BATCH_BYTES = 1 << 22
#: Bytes of further pages that these transactions allocate, and free for the next.
_TRANSIENT_BYTES = 1 << 20


def write_dense_copy(source: PageTransaction, target: Path, max_bytes: int) -> None:
    """Write every record of all tables, in key order, to the LMDB file ``target``, which must be missing or empty.

    The file may grow to ``max_bytes``. Raises LMDB's errors, and CorruptionError if records are missing; ``target`` is
    then unusable.
    """
    tables = source.get_tables()
    with lmdb.open(
        str(target),
        subdir=False,
        map_size=max_bytes + _TRANSIENT_BYTES,
        max_dbs=max(1, len(tables)),
        lock=False,
        sync=False,  # flushed at the end
        lib_version=0,  # LMDB 0.9, as for the source
    ) as environment:
        transaction, num_bytes = environment.begin(write=True), 0
        try:
            for name, table in sorted(tables.items()):
                target_table = environment.open_db(name.encode(), txn=transaction)
                num_copied = 0
                with source.cursor(table) as cursor:
                    for key, value in cursor:
                        is_in_order = transaction.put(key, value, append=True, db=target_table)
                        num_copied += is_in_order  # only a damaged source has keys out of order
                        num_bytes += len(key) + len(value)
                        if num_bytes >= BATCH_BYTES:
                            transaction.commit()
                            release_pages(value)  # the pages of the source, whose memory map contains the value
                            transaction, num_bytes = environment.begin(write=True), 0
                num_records = source.count(table)
                if num_copied != num_records:
                    raise CorruptionError(
                        f"only {num_copied} of the {num_records} records in table {name} can be read in order, so "
                        "nothing was changed; run CHECK, and restore the store from a backup"
                    )
            transaction.commit()
        finally:
            transaction.abort()  # has no effect after the commit
