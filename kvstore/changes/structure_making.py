"""What a store has not yet of what the systems keep beside the spine, or has in an older version, is made from it.

In: an open environment. On disk: the tables of those structures, emptied and filled again in one commit, portion by
portion; readers see the store as before, or with them.
"""

from __future__ import annotations

import logging

from ..settings import FixedSettings
from ..storage.environment import Environment, WriteTransaction
from ..structures.state import State
from ..systems import list_structures
from ..systems.versions import find_outdated, write_versions
from .everything import build_full_delta

_log = logging.getLogger("kvstore")


def rebuild_outdated(environment: Environment, settings: FixedSettings) -> None:
    """Make every structure that the store has not as this kvstore maintains it; raises LockTimeoutError and
    StoreFullError, and the store is as before then."""

    def rebuild_structures(view: WriteTransaction) -> None:
        names = find_outdated(view)  # another process may just have made them
        outdated_structures = [structure for structure in list_structures() if structure.name in names]
        for table in (table for structure in outdated_structures for table in structure.tables):
            view.clear(table.name)
        # LMDB keeps the last commit readable beside the transaction that follows it.
        with environment.snapshot() as snapshot, State(snapshot, settings) as state:
            followers = [structure.make_maintainer(state, view) for structure in outdated_structures]
            for delta in build_full_delta(state, state.documents.scan()):
                for follower in followers:
                    follower.apply_delta(delta)
        write_versions(view)
        _log.info("%s: made anew: %s", environment.path, ", ".join(sorted(names)))

    environment.write_with_growth(rebuild_structures)
