"""Rebuilding derived structures that a store lacks or has in an older version.

In: an open environment. On disk: the tables of those structures, emptied and filled again in one commit, a bounded
number of documents at a time. Reading processes see the store without the change or with all of it.
"""

from __future__ import annotations

from ..process.logger import get_logger
from ..registry import list_structures
from ..registry.structure_versions import find_outdated, write_versions
from ..settings import FixedSettings
from ..storage.environment import Environment, WriteTransaction
from ..structures.state import State
from .full_delta import iter_full_deltas


def rebuild_outdated(environment: Environment, settings: FixedSettings) -> None:
    """Rebuild every derived structure, such as the passage graph, that the store lacks or has in a different version.

    Raises LockTimeoutError and StoreFullError; the store is then unchanged.
    """

    def rebuild_structures(view: WriteTransaction) -> None:
        """Clear the outdated structures, and fill them from the last commit."""
        names = find_outdated(view)  # another process may just have built them
        outdated_structures = [structure for structure in list_structures() if structure.name in names]
        for table in (table for structure in outdated_structures for table in structure.tables):
            view.clear(table.name)
        # LMDB keeps the last commit readable during the transaction that follows it.
        with environment.snapshot() as snapshot, State(snapshot, settings) as state:
            maintainers = [structure.make_maintainer(state, view) for structure in outdated_structures]
            for delta in iter_full_deltas(state, state.documents.scan()):
                for maintainer in maintainers:
                    maintainer.apply_delta(delta)
        write_versions(view)
        get_logger().info("%s: rebuilt %s", environment.path, ", ".join(sorted(names)))

    environment.write_with_growth(rebuild_structures)
