"""A copy of a data file with nothing empty in it: every record appended in key order, so that every page is full.

In: a transaction and the path of the copy. On disk: an LMDB file, flushed by the
caller. LMDB's own compaction would keep pages as empty as they are. Records that the tables count and a cursor does not
meet are a CorruptionError.
"""

from __future__ import annotations

from pathlib import Path

import lmdb

from ..errors import CorruptionError
from .mapped_pages import release_pages
from .page_transaction import PageTransaction

#: Bytes of records that are copied in one transaction, which holds them in memory; then the pages read are let go.
BATCH_BYTES = 1 << 22
#: Bytes of pages that these transactions take beside those of the records, and free for the next.
_TRANSIENT_BYTES = 1 << 20


def write_dense_copy(source: PageTransaction, target: Path, max_bytes: int) -> None:
    """Append every record of all tables to the file ``target``, missing or empty, which takes at most ``max_bytes``.

    Raises what LMDB raises, and CorruptionError where records are missing; ``target`` is of no use then.
    """
    tables = source.tables()
    with lmdb.open(
        str(target),
        subdir=False,
        map_size=max_bytes + _TRANSIENT_BYTES,
        max_dbs=max(1, len(tables)),
        lock=False,
        sync=False,  # flushed at the end
        lib_version=0,
    ) as environment:
        transaction, size = environment.begin(write=True), 0
        try:
            for name, table in sorted(tables.items()):
                target_table = environment.open_db(name.encode(), txn=transaction)
                num_copied = 0
                with source.cursor(table) as cursor:
                    for key, value in cursor:
                        num_copied += transaction.put(key, value, append=True, db=target_table)
                        size += len(key) + len(value)
                        if size >= BATCH_BYTES:
                            transaction.commit()
                            release_pages(value)
                            transaction, size = environment.begin(write=True), 0
                num_records = source.count(table)
                if num_copied != num_records:
                    raise CorruptionError(
                        f"of {num_records} records of table {name} only {num_copied} can be read in order, so "
                        "nothing was "
                        "changed; run CHECK, and restore the store from a backup"
                    )
            transaction.commit()
        finally:
            transaction.abort()
