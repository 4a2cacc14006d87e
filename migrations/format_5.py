"""Format 5: the abstracts of a document are summed up by the sentences that cover most of what it says.

Records are as they were; what is in them follows another rule since this format. As before format 2, the step leaves
the record ``rebuild`` in ``meta``, and whoever migrates rebuilds the store before anything else.

On disk: ``rebuild`` is empty; ``settings`` is there in every store that is made. Frozen: never edit.
"""

from __future__ import annotations

import lmdb


def migrate(environment: lmdb.Environment, transaction: lmdb.Transaction[bytes]) -> None:
    """Ask for a rebuild."""
    meta = environment.open_db(b"meta", txn=transaction)
    if transaction.get(b"settings", db=meta) is not None:  # else a store in the making: it has nothing yet
        transaction.put(b"rebuild", b"", db=meta)
