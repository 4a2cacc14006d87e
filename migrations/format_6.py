"""Format 6: which documents have a value in their metadata is kept beside them; so is the most that a posting scores.

A block of postings says what bounds the score of its postings, and terms with several blocks how many they have.

The step leaves the record ``rebuild`` in ``meta``, and whoever migrates rebuilds the store before anything else: what
lies in the tables that are derived is not read.

On disk: ``rebuild`` is empty; ``settings`` is there in every store that is made. Frozen once it is released.
"""

from __future__ import annotations

import lmdb


def migrate(environment: lmdb.Environment, transaction: lmdb.Transaction[bytes]) -> None:
    """Ask for a rebuild."""
    meta = environment.open_db(b"meta", txn=transaction)
    if transaction.get(b"settings", db=meta) is not None:  # else a store in the making: it has nothing yet
        transaction.put(b"rebuild", b"", db=meta)
