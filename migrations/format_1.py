"""Format 1, the first: an empty environment gets the table ``meta``.

On disk: LMDB named databases, of which only ``meta`` must exist; the first record of any other table creates it. The
runner adds the record of the format; the creator of the store adds its settings. Frozen: never edit.
"""

from __future__ import annotations

import lmdb


def migrate(environment: lmdb.Environment, transaction: lmdb.Transaction[bytes]) -> None:
    """Create the table ``meta``."""
    environment.open_db(b"meta", txn=transaction, create=True)
