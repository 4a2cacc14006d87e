"""Format 1, the first: an empty environment gets the table ``meta``.

On disk: LMDB named databases, of which only ``meta`` must exist; every other table is made by the first record put into
it. The runner adds the format's own record; the settings of the store are its maker's to add. Frozen: never edit.
"""

from __future__ import annotations

import lmdb


def migrate(environment: lmdb.Environment, transaction: lmdb.Transaction[bytes]) -> None:
    """Make the table ``meta``."""
    environment.open_db(b"meta", txn=transaction, create=True)
