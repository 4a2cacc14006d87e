"""Format 5: abstracts consist of the sentences that cover most of a document's content.

The record formats are unchanged, but their contents follow another rule since this format. As in format 2, the step
writes the record ``rebuild`` to ``meta``, and the caller of the migration rebuilds the store first.

On disk: ``rebuild`` is empty; ``settings`` exists in every finished store. Frozen: never edit.
"""

from __future__ import annotations

import lmdb


def migrate(environment: lmdb.Environment, transaction: lmdb.Transaction[bytes]) -> None:
    """Request a rebuild."""
    meta = environment.open_db(b"meta", txn=transaction)
    if transaction.get(b"settings", db=meta) is not None:  # else a new store that has no records yet
        transaction.put(b"rebuild", b"", db=meta)
