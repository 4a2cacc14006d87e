"""The indexes of an open store: made, dropped, brought up to date on request, and extended in the background.

In: a kind of index, its options. On disk: its record in the store (a commit), and its file beside ``data.mdb``. After a
commit that leaves many chunks outside the file of kind ``vectors`` a thread of this process adds them; it holds no
snapshot for long and no lock but for the moment in which the new file is given its name, and ends when the store is
closed, keeping what it has done.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..errors import InputError, KvstoreError
from ..settings import FixedSettings
from ..storage.environment import Environment, WriteView
from ..structures.counters import Counters
from ..structures.indexes.index_building import Progress, VectorIndexBuilder
from ..structures.indexes.index_file import path_of
from ..structures.indexes.indexes import (
    KINDS,
    SYNONYMS,
    VECTORS,
    Indexes,
    IndexRecord,
    IndexWriter,
    checked_options,
    kind_named,
)
from ..structures.indexes.open_indexes import OpenIndexes
from ..structures.indexes.synonym_building import SynonymBuilder
from ..structures.indexes.vector_search import uses_file

_log = logging.getLogger("kvstore")


class Indexed(Protocol):
    """What is needed of the store."""

    environment: Environment
    settings: FixedSettings
    open_indexes: OpenIndexes

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]: ...


class Indexing:
    """Makes, drops and refreshes the indexes of one open store. Any thread may call it."""

    def __init__(self, store: Indexed) -> None:
        self._store = store
        path = path_of(store.environment.path, VECTORS)
        self._vectors = VectorIndexBuilder(store.environment, path, store.settings.dimension)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        #: Before new chunks are numbered from here on, there cannot be enough of them outside the file.
        self._enough_at = 0

    def create(self, kind: str, options: Mapping[str, Any], progress: Progress | None = None) -> None:
        """Say that the store has an index, and build it; raises InputError where it has it already."""
        kind = kind_named(kind)
        given = checked_options(kind, options)

        def create(view: WriteView) -> None:
            stored = Indexes(view).get(kind)
            if stored is not None and stored.created:
                raise InputError(
                    f"there is an index {kind} already; REFRESH brings it up to date, DROP INDEX removes it"
                )
            # What the default index has built serves the new one, where it is built alike.
            IndexWriter(view).put(replace(stored or IndexRecord(kind), options=given, created=True))

        self._store.environment.write_with_growth(create)
        self._enough_at = 0
        self.refresh(kind, progress)

    def drop(self, kind: str) -> None:
        """Take an index and its file away; raises InputError where there is none."""
        kind = kind_named(kind)

        def drop(view: WriteView) -> None:
            if Indexes(view).get(kind) is None:
                raise InputError(f"there is no index {kind}; CREATE INDEX makes it")
            IndexWriter(view).drop(kind)

        self._store.environment.write_with_growth(drop)
        path_of(self._store.environment.path, kind).unlink(missing_ok=True)

    def refresh(self, kind: str | None = None, progress: Progress | None = None) -> list[str]:
        """Bring one index, or all, up to the last commit; the kinds that have a new file.

        Raises InputError where there is no such index, IndexUnavailableError where it cannot be built or somebody else
        is building it, LockTimeoutError.
        """
        wanted = None if kind is None else kind_named(kind)
        with self._store.environment.snapshot() as snapshot:
            records = [record for record in Indexes(snapshot).all() if wanted in (None, record.kind)]
        if not records and wanted is not None:
            raise InputError(f"there is no index {wanted}; CREATE INDEX makes it")
        return [record.kind for record in records if self._refresh(record.kind, progress)]

    def sizes(self) -> dict[str, int]:
        """Bytes of the index files that there are, by the names of SHOW STATS."""
        paths = {kind: path_of(self._store.environment.path, kind) for kind in KINDS}
        return {f"index_{kind}_bytes": path.stat().st_size for kind, path in paths.items() if path.exists()}

    def extend(self, next_chunk: int) -> None:
        """Have new chunks added in the background, where there are many: to be called after a commit.

        Every chunk has a number below ``next_chunk``. Raises nothing: the commit has succeeded, whatever becomes of the
        index.
        """
        if next_chunk < self._enough_at:
            return
        try:
            with self._store.environment.snapshot() as snapshot:
                record = Indexes(snapshot).get(VECTORS)
                if record is None or not uses_file(record, Counters.load(snapshot)):
                    return
            with self._lock:
                if self._thread is None and not self._stopped.is_set():
                    self._thread = threading.Thread(target=self._extend, args=(record,), name="kvstore index")
                    self._thread.start()
        except KvstoreError as error:
            self._failed(error)

    def stop(self) -> None:
        """End the work in the background, keeping what it has done; waits for that."""
        self._stopped.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _extend(self, record: IndexRecord) -> None:
        _log.info("%s: extending the index of vectors in the background", self._store.environment.path)
        try:
            while not self._cancelled():
                lag, stop = self._vectors.lag()
                self._enough_at = stop + record.count("extend_after") - lag
                if self._enough_at > stop or not self._vectors.refresh(cancelled=self._cancelled):
                    break
        except KvstoreError as error:
            self._failed(error)
        finally:
            with self._lock:
                self._thread = None

    def _failed(self, error: KvstoreError) -> None:
        _log.warning("%s: the index of vectors was not extended: %s", self._store.environment.path, error)
        self._store.open_indexes.vectors.file.problem = str(error)

    def _cancelled(self) -> bool:
        # A program that ends without closing its store does not wait for an index.
        return self._stopped.is_set() or not threading.main_thread().is_alive()

    def _refresh(self, kind: str, progress: Progress | None) -> bool:
        if kind == SYNONYMS:
            store = self._store
            path = path_of(store.environment.path, kind)
            return SynonymBuilder(store.environment, path, store.settings.dimension, store.embed).refresh(progress)
        self.stop()  # what is done here need not be done there
        self._stopped.clear()
        return self._vectors.refresh(progress)
