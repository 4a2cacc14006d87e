"""The indexes of an open store: made, dropped, brought up to date on request, and extended in the background.

In: a kind of index, its options. On disk: its record in the store (a commit), and what it holds, such as a file beside
``data.mdb``. After a commit that leaves much outside the file of an automatic kind a thread of this process adds it; it
holds no snapshot for long and no lock but for the moment in which the new file is given its name, and ends when the
store is closed, keeping what it has done.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from ..changes.index_maintenance import MaintainedIndexBuilder
from ..errors import InputError, KvstoreError
from ..settings import FixedSettings
from ..storage.environment import WriteView
from ..storage.index_file import path_of
from ..structures.indexes.index import FileIndex, Index, IndexRecord, checked_options
from ..structures.indexes.index_building import IndexBuilder, ReportProgress
from ..structures.indexes.index_reading import file_of
from ..structures.indexes.indexes import Indexes, IndexWriter
from ..structures.open_indexes import OpenIndexes
from ..structures.vectors.vectors import Matrix
from ..systems import INDEXES, index_named
from ..systems.contract import MaintainedIndex
from ..systems.versions import put_versions, require_maintained

_log = logging.getLogger("kvstore")


class Builder(Protocol):
    """What fills and empties the indexes of some kinds."""

    def refresh(self, kind: Any, progress: ReportProgress | None = None) -> bool:
        """Bring an index up to the last commit; True where that changed anything."""
        ...

    def drop(self, kind: Any, progress: ReportProgress | None = None) -> None:
        """Take an index of the store away, with all it holds."""
        ...


class Indexing:
    """Makes, drops and refreshes the indexes of one open store. Any thread may call it."""

    def __init__(
        self, open_indexes: OpenIndexes, settings: FixedSettings, embed: Callable[[Sequence[str]], Matrix]
    ) -> None:
        self._open_indexes = open_indexes
        self._environment = open_indexes.environment
        self._builder = IndexBuilder(open_indexes.environment, settings, embed)
        maintained = MaintainedIndexBuilder(open_indexes.environment, settings, embed)
        self._builders: list[tuple[Any, Builder]] = [(FileIndex, self._builder), (MaintainedIndex, maintained)]
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        #: By kind: before new chunks are numbered from here on, there cannot be enough of them outside the file.
        self._enough_at: dict[str, int] = {}

    def create(self, kind: str, options: Mapping[str, Any], progress: ReportProgress | None = None) -> None:
        """Say that the store has an index, and build it; raises InputError where it has it already."""
        index = index_named(kind)
        given = checked_options(index, options)

        def create(view: WriteView) -> None:
            require_maintained(view)
            stored = Indexes(view).get(index)
            if stored is not None and stored.created:
                raise InputError(
                    f"there is an index {index.name} already; REFRESH brings it up to date, DROP INDEX removes it"
                )
            # What the default index has built serves the new one, where it is built alike.
            record = replace(stored or IndexRecord(index), options=given, created=True)
            IndexWriter(view).put(index.begun(record, view))
            put_versions(view)

        self._environment.write_with_growth(create)
        self._enough_at.pop(index.name, None)
        self.refresh(index.name, progress)

    def drop(self, kind: str, progress: ReportProgress | None = None) -> None:
        """Take an index and what it holds away; raises InputError where there is none."""
        index = index_named(kind)
        with self._environment.snapshot() as snapshot:
            if Indexes(snapshot).get(index) is None:
                raise _missing(index)
        self._builder_of(index).drop(index, progress)

    def refresh(self, kind: str | None = None, progress: ReportProgress | None = None) -> list[str]:
        """Bring one index, or all, up to the last commit; the kinds that have a new file.

        Raises InputError where there is no such index, IndexUnavailableError where it cannot be built or somebody else
        is building it, LockTimeoutError.
        """
        wanted = list(INDEXES.values()) if kind is None else [index_named(kind)]
        with self._environment.snapshot() as snapshot:
            there = [index for index in wanted if Indexes(snapshot).get(index) is not None]
        if kind is not None and not there:
            raise _missing(wanted[0])
        return [index.name for index in there if self._refresh(index, progress)]

    def sizes(self) -> dict[str, int]:
        """Bytes of the index files that there are, by the names of SHOW STATS."""
        files = (name for name, kind in INDEXES.items() if isinstance(kind, FileIndex))
        paths = {kind: path_of(self._environment.path, kind) for kind in files}
        return {f"index_{kind}_bytes": path.stat().st_size for kind, path in paths.items() if path.exists()}

    def extend(self, next_chunk: int) -> None:
        """Have new chunks added in the background, where there are many: to be called after a commit.

        Every chunk has a number below ``next_chunk``. Raises nothing: the commit has succeeded, whatever becomes of the
        index.
        """
        files = (kind for kind in INDEXES.values() if isinstance(kind, FileIndex))
        due = [kind for kind in files if self._may_be_due(kind, next_chunk)]
        with self._lock:
            if due and self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(target=self._extend, args=(due,), name="kvstore index")
                self._thread.start()

    def stop(self) -> None:
        """End the work in the background, keeping what it has done; waits for that."""
        self._stopped.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _may_be_due(self, kind: FileIndex[Any, Any], next_chunk: int) -> bool:
        if not kind.automatic or next_chunk < self._enough_at.get(kind.name, 0):
            return False
        try:
            return self._builder.needed(kind) is not None
        except KvstoreError as error:
            return self._failed(kind, error)

    def _extend(self, kinds: Sequence[FileIndex[Any, Any]]) -> None:
        try:
            for kind in kinds:
                _log.info("%s: extending the index of %s in the background", self._environment.path, kind.name)
                try:
                    while not self._cancelled() and self._extended(kind):
                        pass
                except KvstoreError as error:
                    self._failed(kind, error)
        finally:
            with self._lock:
                self._thread = None

    def _extended(self, kind: FileIndex[Any, Any]) -> bool:
        """Extend a file where that is due; False where it is not, or there was nothing to be done."""
        record = self._builder.needed(kind)
        if record is None:
            return False
        next_chunk, self._enough_at[kind.name] = self._builder.extension(kind, record)
        due = self._enough_at[kind.name] <= next_chunk
        return due and self._builder.refresh(kind, cancelled=self._cancelled)

    def _failed(self, kind: FileIndex[Any, Any], error: KvstoreError) -> bool:
        _log.warning("%s: the index of %s was not extended: %s", self._environment.path, kind.name, error)
        file_of(self._open_indexes, kind).problem = str(error)
        return False

    def _cancelled(self) -> bool:
        # A program that ends without closing its store does not wait for an index.
        return self._stopped.is_set() or not threading.main_thread().is_alive()

    def _refresh(self, kind: Index, progress: ReportProgress | None) -> bool:
        if kind.automatic:
            self.stop()  # what is done here need not be done there
            self._stopped.clear()
        return self._builder_of(kind).refresh(kind, progress)

    def _builder_of(self, kind: Index) -> Builder:
        return next(builder for kinds, builder in self._builders if isinstance(kind, kinds))


def _missing(kind: Index) -> InputError:
    return InputError(f"there is no index {kind.name}; CREATE INDEX makes it")
