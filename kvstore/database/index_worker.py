"""Creation, removal, refresh and background extension of the indexes of an open store. An index is a *file*, tables
that every commit updates, or *generations*, the results of builds. A file that lacks many new chunks is *due* for
extension. A *companion* file is built and dropped with another index.

In: a kind of index and its options. On disk: the index record in the store (one commit), and the index contents, such
as a file next to ``data.mdb``. If a commit leaves many chunks outside the file of an automatic kind, a thread of this
process adds them. The thread holds no snapshot for long, and a lock only while it renames the new file. It ends when
the store is closed, and keeps the work it has finished.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..errors import InputError, KvstoreError
from ..process.logger import get_logger
from ..registry import INDEXES, get_index, list_automatic_indexes, list_generation_indexes
from ..registry.contract import MaintainedIndex
from ..registry.structure_versions import require_maintained, write_versions
from ..settings import FixedSettings
from ..storage.environment import WriteView
from ..storage.index_file import build_index_path, list_files
from ..storage.locks import MaintenanceThread
from ..structures.indexes.generations import GenerationIndex
from ..structures.indexes.index import FileIndex, Index, Indexes, IndexRecord, IndexWriter, validate_options
from ..structures.indexes.index_building import IndexBuilder, IndexFiller, ReportProgress
from ..structures.indexes.index_reading import get_index_file
from ..structures.open_indexes import OpenIndexes
from ..structures.vectors.vectors import Matrix

if TYPE_CHECKING:
    from ..models.structured import StructuredModel
    from ..structures.indexes.generation_building import GenerationBuilder, WritingForecast, WritingReport


class RefreshedKinds(list[str]):
    """The names of the kinds of index that a refresh changed; ``written`` reports what a model wrote for each kind."""

    def __init__(self, kinds: Iterable[str], reports: Sequence[WritingReport] = ()) -> None:
        """Create the list of the kinds of index that a refresh changed, such as ``vectors``.

        ``reports`` describe the texts that a model wrote for the indexes of these kinds.
        """
        super().__init__(kinds)
        self.written = list(reports)


class IndexManager:
    """The service that creates, drops and refreshes the indexes of one open store; it is thread-safe. It builds files
    with ``_file_builder``, and generations with ``_generations``. A background thread extends files that are due.
    """

    def __init__(
        self, open_indexes: OpenIndexes, settings: FixedSettings, embed: Callable[[Sequence[str]], Matrix]
    ) -> None:
        """Create the manager of the indexes of a store; ``embed`` returns the vectors of texts."""
        self._open_indexes = open_indexes
        self._environment = open_indexes.environment
        self._settings = settings
        self._embed = embed
        self._file_builder = IndexBuilder(open_indexes.environment, settings, embed)
        self._lock = threading.Lock()
        #: The background thread that extends indexes, or None.
        self._thread: threading.Thread | None = None
        self._stop_requested = threading.Event()
        #: For each kind, the next chunk id below which an extension cannot be due yet.
        self._next_due_chunk: dict[str, int] = {}

    @cached_property
    def _generations(self) -> GenerationBuilder:
        """The builder of generations (the results of builds of indexes such as ``topics``), imported on first use."""
        from ..structures.indexes.generation_building import GenerationBuilder

        return GenerationBuilder(self._open_indexes, self._settings, self._embed)

    def create(self, kind: str, options: Mapping[str, Any], progress: ReportProgress | None = None) -> None:
        """Create an index of a kind with these options: store its record in one commit, then build it.

        A default index, which every store has, is marked as created. ``progress`` is called with the progress. Raises
        InputError for an unknown kind or option, and if the index was created before; also the errors of
        :meth:`refresh`.
        """
        index = _get_named_index(kind)
        valid_options = validate_options(index, options)

        def create_record(view: WriteView) -> None:
            """Store the records of the index and its companion indexes; raise InputError if it was created before."""
            require_maintained(view)
            existing_record = Indexes(view).get(index)
            if existing_record is not None and existing_record.is_created:
                raise InputError(
                    f"index {index.name} already exists; REFRESH brings it up to date, DROP INDEX removes it"
                )
            # Keep the record of a default index, so that its file can be reused if it is built the same way.
            record = replace(existing_record or IndexRecord(index), options=valid_options, is_created=True)
            IndexWriter(view).put(index.prepare_record(record, view))
            for companion in _list_companions(index):
                IndexWriter(view).put(companion.prepare_record(IndexRecord(companion), view))
            write_versions(view)  # an index can add derived data to the store, whose version is recorded

        self._environment.write_with_growth(create_record)
        self._next_due_chunk.pop(index.name, None)  # the new options can change when an extension is due
        self.refresh(index.name, progress)

    def drop(self, kind: str, progress: ReportProgress | None = None) -> None:
        """Remove an index with its contents and its companions (index files that are built and dropped with it).

        ``progress`` is called with the progress. Raises InputError if the index does not exist, or is itself a
        companion of another one.
        """
        index = _get_named_index(kind)
        with self._environment.snapshot() as snapshot:
            if Indexes(snapshot).get(index) is None:
                raise _make_missing_error(index)
        for member in (*_list_companions(index), index):
            self._get_builder(member).drop(member, progress)

    def refresh(
        self, kind: str | None = None, progress: ReportProgress | None = None, writer: StructuredModel | None = None
    ) -> RefreshedKinds:
        """Bring one index (None: all) up to date with the last commit; return the kinds that changed.

        ``progress`` is called with the progress. ``writer`` is a language model that writes the texts of indexes, such
        as summaries of topics, within its token limit (None: no model writes). Raises InputError if the index does not
        exist, IndexUnavailableError if it cannot be built or is being built elsewhere, LockTimeoutError, and the
        model's errors.
        """
        with self._environment.snapshot() as snapshot:
            existing_indexes = [
                index for index in self._select_indexes(kind) if Indexes(snapshot).get(index) is not None
            ]
        changed_kinds = [index.name for index in existing_indexes if self._refresh(index, progress)]
        if kind is None:
            # A crash may have left rows of indexes that do not exist.
            for missing_index in (index for index in list_generation_indexes() if index not in existing_indexes):
                self._generations.remove_unused(missing_index)
        reports: list[WritingReport] = []
        if writer is not None:
            for generation_index in (index for index in existing_indexes if isinstance(index, GenerationIndex)):
                reports.append(self._generations.write_texts(generation_index, writer, progress))
        changed_kinds += [report.kind for report in reports if report.texts]
        return RefreshedKinds(dict.fromkeys(changed_kinds), reports)

    def forecast(self, kind: str | None = None) -> dict[str, WritingForecast]:
        """Forecast the texts that :meth:`refresh` would have a model generate, by kind of index; change nothing.

        Only existing indexes that store generations (results of builds) have such texts. Raises InputError if ``kind``
        does not exist.
        """
        with self._environment.snapshot() as snapshot:
            indexes_with_records = [(index, Indexes(snapshot).get(index)) for index in self._select_indexes(kind)]
        return {
            index.name: self._generations.forecast(index, record)
            for index, record in indexes_with_records
            if isinstance(index, GenerationIndex) and record is not None
        }

    def _select_indexes(self, kind: str | None) -> list[Index]:
        """Return the index of a kind (None: of every kind), each followed by the index files that are built with it.

        Raises InputError if a kind is given and the store has no index of this kind.
        """
        if kind is None:
            named_indexes = [index for index in INDEXES.values() if not getattr(index, "companion_of", "")]
        else:
            named_index = _get_named_index(kind)
            with self._environment.snapshot() as snapshot:
                if Indexes(snapshot).get(named_index) is None:
                    raise _make_missing_error(named_index)
            named_indexes = [named_index]
        return [member for index in named_indexes for member in (index, *_list_companions(index))]

    def measure_sizes(self) -> dict[str, int]:
        """Return the sizes of the existing index files in bytes, by their names in SHOW STATS."""
        sizes: dict[str, int] = {}
        for kind in (name for name, index in INDEXES.items() if isinstance(index, FileIndex)):
            path = build_index_path(self._environment.path, kind)
            if path.exists():
                sizes[f"index_{kind}_bytes"] = sum(file.stat().st_size for file in list_files(path))
        return sizes

    def extend_due_indexes(self, next_chunk: int) -> None:
        """Start adding new chunks to index files in the background, if there are many; called after each commit.

        ``next_chunk`` is the id of the next new chunk. Raises nothing, because the commit has already succeeded.
        """
        due_indexes = [index for index in list_automatic_indexes() if self._is_possibly_due(index, next_chunk)]
        with self._lock:
            if due_indexes and self._thread is None and not self._stop_requested.is_set():
                self._thread = MaintenanceThread(target=self._extend_files, args=(due_indexes,), name="kvstore index")
                self._thread.start()

    def stop(self) -> None:
        """Stop the background thread, and wait for its end unless this is that thread. Its finished work is kept."""
        self._stop_requested.set()
        with self._lock:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _is_possibly_due(self, index: FileIndex[Any, Any], next_chunk: int) -> bool:
        """True if an automatic index may have enough new chunks to be extended; ``next_chunk`` is the next chunk id.

        If the store is too small to need its file, the chunk id at which to check again is recorded, so that the next
        commits are cheap. An error while reading the store is recorded for the status of the index.
        """
        if next_chunk < self._next_due_chunk.get(index.name, 0):
            return False
        try:
            if self._file_builder.find_record_to_build(index) is not None:  # the index needs a file
                return True
            self._next_due_chunk[index.name] = self._file_builder.compute_next_check(index)
        except KvstoreError as error:
            self._record_failure(index, error)
        return False

    def _extend_files(self, indexes: Sequence[FileIndex[Any, Any]]) -> None:
        """Extend index files in the background thread while they are due for extension."""
        try:
            for index in indexes:
                get_logger().info("%s: extending the index of %s in the background", self._environment.path, index.name)
                try:
                    while not self._is_cancelled() and self._extend_if_due(index):
                        pass
                except KvstoreError as error:
                    self._record_failure(index, error)
        finally:
            with self._lock:
                self._thread = None

    def _extend_if_due(self, index: FileIndex[Any, Any]) -> bool:
        """Add the new chunks to an index file if there are enough; return True if the file changed.

        Records the chunk id at which the file is due for extension, which :meth:`_is_possibly_due` compares.
        """
        record = self._file_builder.find_record_to_build(index)
        if record is None:  # the index was dropped, or needs no file
            return False
        next_chunk, due_chunk = self._file_builder.find_next_and_due_chunk(index, record)
        self._next_due_chunk[index.name] = due_chunk
        is_due = next_chunk >= due_chunk
        return is_due and self._file_builder.refresh(index, is_cancelled=self._is_cancelled)

    def _record_failure(self, index: FileIndex[Any, Any], error: KvstoreError) -> None:
        """Log a failed extension, and record it for the status of the index."""
        get_logger().warning("%s: the index of %s was not extended: %s", self._environment.path, index.name, error)
        get_index_file(self._open_indexes, index).problem = str(error)

    def _is_cancelled(self) -> bool:
        """True if the background thread must end: it was stopped, or the program is exiting."""
        # A program that exits without closing its store must not wait for an index.
        return self._stop_requested.is_set() or not threading.main_thread().is_alive()

    def _refresh(self, index: Index, progress: ReportProgress | None) -> bool:
        """Bring an index up to date with the last commit; return True if that changed anything.

        If the index is extended automatically, first stop the background thread that does so.
        """
        if index.automatic:
            self.stop()  # the refresh does the background thread's work
            self._stop_requested.clear()  # it may be started again
        return self._get_builder(index).refresh(index, progress)

    def _get_builder(self, index: Index) -> IndexFiller:
        """Return the object that builds and removes an index, which depends on the class of the index.

        An index is a file, tables that every commit updates, or generations (results of builds).
        """
        if isinstance(index, FileIndex):
            return self._file_builder
        if isinstance(index, MaintainedIndex):
            from ..changes.index_maintenance import MaintainedIndexBuilder

            return MaintainedIndexBuilder(self._environment, self._settings, self._embed)
        return self._generations


def _list_companions(index: Index) -> list[FileIndex[Any, Any]]:
    """Return the companions of an index: indexes whose files are created, refreshed and dropped with it."""
    return [
        companion
        for companion in INDEXES.values()
        if isinstance(companion, FileIndex) and companion.companion_of == index.name
    ]


def _get_named_index(kind: str) -> Index:
    """Return the index of this kind; raises InputError if it is unknown, or is built and dropped with another index."""
    index = get_index(kind)
    if isinstance(index, FileIndex) and index.companion_of:
        raise InputError(
            f"index {index.name} is created, refreshed and dropped together with {index.companion_of}; use "
            f"{index.companion_of}"
        )
    return index


def _make_missing_error(index: Index) -> InputError:
    """Return the error for an index that the store does not have."""
    return InputError(f"there is no index {index.name}; CREATE INDEX creates it")
