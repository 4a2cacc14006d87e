"""Keeping a store: the methods that check, repair, copy, export and compact it.

In: paths. On disk: a copy, one file, or the store's own file whole or smaller. Out: reports of what was done.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from ..storage.environment import CompactReport
from .opened import Opened

if TYPE_CHECKING:
    from ..changes.repair import RepairReport
    from .exchange import ExportReport

_log = logging.getLogger("kvstore")


class Keeping(Opened):
    """The methods that keep a store sound, small and safe."""

    def check(self) -> list[str]:
        """Every violated invariant of the store as a sentence; an empty list when it is sound.

        >>> store.check()
        []
        """
        from ..changes.check import check

        with self.state() as view:
            return list(check(view))

    def repair(self) -> RepairReport:
        """Check the store and, where anything is violated, make everything derived again from the documents.

        Documents, triples, edges, aliases and options of indexes that are damaged themselves are lost, and said to be.
        One commit; raises LockTimeoutError, ReadOnlyError, StoreFullError, and what the embedder raises where vectors
        are damaged. The file, which holds the old and the new then, is compacted where it is not large and nobody else
        has it open.

        >>> store.repair().found
        []
        """
        from ..changes.compaction import compact_if_sparse
        from ..changes.repair import RepairReport, rebuild

        found = self.check()
        if not found:
            return RepairReport([])
        self._context.load_models()
        rebuilt = rebuild(self._context.environment, self.settings, self._context.embed)
        compact_if_sparse(self._context.environment)
        _log.warning(
            "%s: %d problems were found; rebuilt from %d documents, %d things lost",
            self.path,
            len(found),
            rebuilt.documents,
            len(rebuilt.lost),
        )
        return RepairReport(found, rebuilt, self.check())

    def backup(self, path: str | os.PathLike[str], *, compact: bool = True) -> None:
        """Copy the store as of now into a new directory, while others read and write.

        ``compact`` leaves out free pages; without it the copy waits for the writer's lock. Raises InputError when
        ``path`` exists, StoreFullError when it cannot be written.

        >>> store.backup(tempfile.mkdtemp() + "/copy")
        """
        self._context.environment.copy_to(path, compact=compact)

    def export(self, path: str | os.PathLike[str]) -> ExportReport:
        """Write all documents, triples, edges and aliases as JSON lines, in one state.

        See :func:`kvstore.database.exchange.export`. Raises InputError when ``path`` exists, StoreFullError when it
        cannot be written.

        >>> store.export(tempfile.mkdtemp() + "/all.jsonl")
        ExportReport(documents=2, triples=0, edges=1, aliases=0)
        """
        from .exchange import export

        with self.state() as view:
            return export(view, path)

    def compact(self) -> CompactReport:
        """Give the space of deleted data back to the file system; says how large the file was and is.

        Needs room for a second file, and keeps this process's readers and writers waiting. Raises TransactionError
        while another process has the store open, or when snapshots or transactions of this one stay open; also
        StoreFullError, ReadOnlyError, LockTimeoutError. The store is as before then.

        >>> report = store.compact()
        >>> report.bytes_after <= report.bytes_before
        True
        """
        from ..changes.compaction import compact

        return compact(self._context.environment, self.settings.dimension)
