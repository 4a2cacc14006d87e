"""Index files built, extended and renamed into place, while others read and write.

In: an open environment and a kind of index. On disk: the index file, and its token in the table ``indexes``, committed
before the file gets its name. Out: whether a file was made. One process and thread makes a file at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...errors import IndexUnavailableError, LockTimeoutError
from ...settings import FixedSettings
from ...storage import index_file
from ...storage.environment import Environment
from ..state import State
from ..vectors.vectors import Matrix
from .index import BuildTools, FileIndex, IndexRecord
from .index_reading import read_index, trusts
from .indexes import Indexes, IndexWriter

#: Seconds between two attempts to get the writer's lock for a moment.
_LOCK_RETRY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How far an index is: steps (``unit``) done of all; ``kept`` where what is done stays when the rest is not."""

    kind: str
    done: int
    total: int
    unit: str = "steps"
    kept: bool = False


#: Hears how far an index is.
ReportProgress = Callable[[IndexProgress], None]


class IndexBuilder:
    """Builds the index files of a store; ``embed`` gives unit vectors of texts."""

    def __init__(
        self, environment: Environment, settings: FixedSettings, embed: Callable[[Sequence[str]], Matrix]
    ) -> None:
        self._environment = environment
        self._settings = settings
        self._embed = embed

    def refresh(
        self,
        kind: FileIndex[Any, Any],
        progress: ReportProgress | None = None,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> bool:
        """Bring a file up to the last commit; True when there is a new one.

        ``progress`` hears of steps done. When ``is_cancelled`` says so the work ends, and what the kind has done until
        then is kept. False where the store has no such index, does without a file, or the file is as new as the store.
        Raises IndexUnavailableError, LockTimeoutError, EmbedderError.
        """
        self._environment.require_place()  # the folder may be another store's by now
        path = index_file.build_index_path(self._environment.path, kind.name)
        with index_file.open_draft(path) as draft:
            record = self.find_needed_record(kind)
            if record is None:
                return False
            try:
                # Who asks for it has time to verify all; in the background that is done with what is gone on with.
                epoch, old = read_index(self._environment, kind, path, verify_all=is_cancelled is None)
            except (FileNotFoundError, IndexUnavailableError):
                epoch, old = record.epoch, None

            def report(num_done: int, total: int) -> None:
                if progress is not None:
                    progress(IndexProgress(kind.name, num_done, total))

            tools = BuildTools(self._embed, report, is_cancelled or (lambda: False))
            content = kind.build(self._open_read_state, old if epoch == record.epoch else None, record, tools)
            if content is None:
                return False
            token = os.urandom(16)
            head = {**content.head, "kind": kind.name, "token": token, "epoch": record.epoch}
            draft.write(head, content.arrays, content.parts)
            del content, old
            return self._publish(draft, record, token, is_cancelled)

    def drop(self, kind: FileIndex[Any, Any], progress: ReportProgress | None = None) -> None:
        """Take an index and its file away."""
        self._environment.write_with_growth(lambda view: IndexWriter(view).drop(kind))
        index_file.remove_files(index_file.build_index_path(self._environment.path, kind.name))

    def find_needed_record(self, kind: FileIndex[Any, Any]) -> IndexRecord | None:
        """The record of an index that needs a file now."""
        with self._open_state() as state:
            record = Indexes(state.lmdb).get(kind)
            return None if kind.explain_no_file(record, state) is not None else record

    def extension(self, kind: FileIndex[Any, Any], record: IndexRecord) -> tuple[int, int]:
        """The number that the next new chunk may have, and from which number on an automatic kind is extended."""
        path = index_file.build_index_path(self._environment.path, kind.name)
        try:
            head = index_file.read_head(path, kind.name, lambda token: trusts(self._environment, kind, token))
        except (FileNotFoundError, IndexUnavailableError):
            head = None
        with self._open_state() as state:
            return state.counters.next_chunk, kind.compute_extension_start(head, record, state)

    def _publish(
        self, draft: index_file.Draft, record: IndexRecord, token: bytes, is_cancelled: Callable[[], bool] | None
    ) -> bool:
        """Let a written file be trusted and give it its name; False where its index was dropped or made anew meanwhile.

        Waits for other writers as long as the store's lock timeout says; with ``is_cancelled``, until that is true. Raises
        LockTimeoutError.
        """
        while True:
            try:
                is_trusted = self._environment.write_with_growth(
                    lambda view: IndexWriter(view).trust(record, token),
                    None if is_cancelled is None else _LOCK_RETRY_SECONDS,
                )
                break
            except LockTimeoutError:
                if is_cancelled is None or is_cancelled():
                    raise
        if is_trusted:
            draft.publish()
        return is_trusted

    @contextmanager
    def _open_read_state(self) -> Iterator[State]:
        """A state of which much is read, once: it counts no more as memory of the process then."""
        with self._open_state() as state:
            yield state
        self._environment.release_pages()

    @contextmanager
    def _open_state(self) -> Iterator[State]:
        with self._environment.snapshot() as snapshot, State(snapshot, self._settings) as state:
            yield state
