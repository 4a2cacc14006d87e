"""Index files: built, extended and renamed into place while others read and write. A file has a random *token*; it is
trusted only if the record of the index in the store has this token. The *epoch* counts the repairs that renumbered ids;
a file of an earlier epoch cannot be extended.

In: an open environment and a kind of index. On disk: the index file, and its token in the ``indexes`` table, which is
committed before the file is renamed into place. Out: whether a file was built. One thread of one process builds a file
at a time.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...errors import IndexUnavailableError, LockTimeoutError
from ...process.frozen_dataclass import frozen_dataclass
from ...settings import FixedSettings
from ...storage import index_file
from ...storage.environment import Environment
from ..state import State
from ..vectors.vectors import Matrix
from .index import BuildTools, FileIndex, Index, Indexes, IndexRecord, IndexWriter
from .index_reading import is_trusted, read_index

if TYPE_CHECKING:
    from ..open_indexes import OpenIndexes

#: Seconds to wait for the writer lock in each attempt.
_LOCK_RETRY_SECONDS = 0.5


@frozen_dataclass
class IndexProgress:
    """The progress of an index build: ``done`` of ``total`` steps are finished; ``unit`` is the word for a step.

    ``kept`` is true if completed steps are kept although later ones fail.
    """

    kind: str
    done: int
    total: int
    unit: str = "steps"
    kept: bool = False


#: Receives the progress of an index.
ReportProgress = Callable[[IndexProgress], None]


def make_build_tools(
    index_kind: Index,
    embed: Callable[[Sequence[str]], Matrix],
    progress: ReportProgress | None = None,
    is_cancelled: Callable[[], bool] | None = None,
) -> BuildTools:
    """Return the callbacks for a build of an index: embedding of texts, progress reports, and cancellation.

    ``progress`` receives an :class:`IndexProgress` for each report (None: no reports). The build is cancelled once
    ``is_cancelled`` returns true (None: never).
    """

    def report(num_done: int, total: int) -> None:
        """Report progress to the caller, if the caller asked for it."""
        if progress is not None:
            progress(IndexProgress(index_kind.name, num_done, total))

    return BuildTools(embed, report, is_cancelled or (lambda: False))


class IndexFiller(ABC):
    """The base class of objects that fill and remove indexes of certain kinds."""

    #: The open indexes of the store, whose caches the states use; None for no caches.
    _open_indexes: OpenIndexes | None = None

    def __init__(
        self, environment: Environment, settings: FixedSettings, embed: Callable[[Sequence[str]], Matrix]
    ) -> None:
        """Create a builder for the store of ``environment``; ``embed`` returns unit vectors, shape (n, dimension)."""
        self._environment = environment
        self._settings = settings
        self._embed = embed

    @abstractmethod
    def refresh(self, index_kind: Any, progress: ReportProgress | None = None) -> bool:
        """Update an index to the last commit; return True if that changed anything.

        ``progress`` receives the progress (None: no reports).
        """

    @abstractmethod
    def drop(self, index_kind: Any, progress: ReportProgress | None = None) -> None:
        """Remove an index from the store, with all its contents; ``progress`` gets the progress (None: no reports)."""

    @contextmanager
    def _open_state(self) -> Iterator[State]:
        """Yield the state of the last commit, open within the block."""
        with self._environment.snapshot() as snapshot, State(snapshot, self._settings, self._open_indexes) as state:
            yield state


class IndexBuilder(IndexFiller):
    """Builds the index files of a store."""

    def refresh(
        self,
        index_kind: FileIndex[Any, Any],
        progress: ReportProgress | None = None,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> bool:
        """Update the file of a kind of index to the last commit; return True if there is a new file.

        ``progress`` receives the completed steps. Once ``is_cancelled`` returns true, the build ends, and its completed
        part is kept (None: a refresh that the user requested, which is not cancelled). Returns False if the store has
        no such index, needs no file, or the file is up to date. Raises IndexUnavailableError, LockTimeoutError,
        EmbedderError.
        """
        self._environment.verify_path()  # the directory may belong to another store by now
        path = index_file.build_index_path(self._environment.path, index_kind.name)
        with index_file.open_draft(path) as draft:
            record = self.find_record_to_build(index_kind)
            if record is None:
                return False
            try:
                # A refresh that the user requested has time to verify the whole file. A background refresh verifies
                # only the arrays that it reuses.
                is_background = is_cancelled is not None
                epoch, old = read_index(self._environment, index_kind, path, verify_all=not is_background)
            except (FileNotFoundError, IndexUnavailableError):
                epoch, old = record.epoch, None

            if epoch != record.epoch:  # ids have been renumbered, so the file cannot be extended
                old = None
            tools = make_build_tools(index_kind, self._embed, progress, is_cancelled)
            content = index_kind.build(self._open_read_state, old, record, tools)
            if content is None:
                return False
            token = os.urandom(16)
            head = {**content.head, "kind": index_kind.name, "token": token, "epoch": record.epoch}
            draft.write(head, content.arrays, content.parts)
            del content, old
            return self._trust_and_publish(draft, record, token, is_cancelled)

    def drop(self, index_kind: FileIndex[Any, Any], progress: ReportProgress | None = None) -> None:
        """Drop an index and delete its file.

        ``progress`` is not called; builders of other kinds of indexes report their progress with it.
        """
        self._environment.write_with_growth(lambda view: IndexWriter(view).drop(index_kind))
        index_file.remove_files(index_file.build_index_path(self._environment.path, index_kind.name))

    def find_record_to_build(self, index_kind: FileIndex[Any, Any]) -> IndexRecord | None:
        """Return the record (options, tokens) of an index; None if there is no such index or it needs no file yet."""
        with self._open_state() as state:
            record = Indexes(state.lmdb).get(index_kind)
            needs_file = index_kind.explain_exact_search(record, state) is None
            return record if needs_file else None

    def compute_next_check(self, index_kind: FileIndex[Any, Any]) -> int:
        """Return the chunk id at which to check again if a store that needs no index file yet needs one.

        A small store is searched without a file.
        """
        with self._open_state() as state:
            return index_kind.compute_next_check(Indexes(state.lmdb).get(index_kind), state)

    def find_next_and_due_chunk(self, index_kind: FileIndex[Any, Any], record: IndexRecord) -> tuple[int, int]:
        """Return two chunk ids: the next unused id of the store, and the id at which the index file is to be extended.

        The extension is due once the first is not below the second. An index without a readable file lacks all chunks.
        ``record`` has the options of the index.
        """
        path = index_file.build_index_path(self._environment.path, index_kind.name)
        try:
            head = index_file.read_head(
                path, index_kind.name, lambda token: is_trusted(self._environment, index_kind, token)
            )
        except (FileNotFoundError, IndexUnavailableError):
            head = None
        with self._open_state() as state:
            return state.counters.next_chunk, index_kind.compute_extension_start(head, record, state)

    def _trust_and_publish(
        self, draft: index_file.Draft, record: IndexRecord, token: bytes, is_cancelled: Callable[[], bool] | None
    ) -> bool:
        """Add the (random) token of a written file to the record of its index, and rename the file into place.

        Returns False if the index was dropped or created again during the build. Waits for other writers up to the
        store's lock timeout or, if ``is_cancelled`` is given, until it returns true. Raises LockTimeoutError.
        """
        while True:
            try:
                is_record_current = self._environment.write_with_growth(
                    lambda view: IndexWriter(view).add_trusted_token(record, token),
                    timeout=None if is_cancelled is None else _LOCK_RETRY_SECONDS,
                )
                break
            except LockTimeoutError:
                if is_cancelled is None or is_cancelled():
                    raise
        if is_record_current:
            draft.publish()
        return is_record_current

    @contextmanager
    def _open_read_state(self) -> Iterator[State]:
        """Open a state for a large single read, and release its pages from the memory of the process afterwards."""
        with self._open_state() as state:
            yield state
        self._environment.release_pages()
