"""Index files bound to states, and the status of each index. The *content* of a file is the same for all states; a kind
of index *binds* it to a state: it returns a reader that omits chunks missing in that state. The *epoch* counts the
repairs that renumbered ids; each makes all older files unusable.

In: a state of an open store, and a kind. Out: the index bound to that state. An unusable file is treated as missing,
and SHOW INDEXES reports the reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import IndexUnavailableError
from ...storage import index_file
from .generations import GenerationIndex, bind_generation
from .index import Content, FileIndex, Index, IndexContent, Indexes, IndexReader, IndexRecord, IndexStatus

if TYPE_CHECKING:
    from ...storage.environment import Environment
    from ...storage.index_file import LazyIndexFile
    from ..open_indexes import OpenIndexes
    from ..state import State

#: The maximum number of attempts to read a file that is being replaced.
_MAX_ATTEMPTS = 3


def is_trusted(environment: Environment, index_kind: FileIndex[Any, Any], token: bytes) -> bool:
    """True if the store's record of an index has the ``token`` of a file, so that the file belongs to this store."""
    with environment.snapshot() as snapshot:
        record = Indexes(snapshot).get(index_kind)
    return record is not None and token in record.tokens


def read_index(
    environment: Environment, index_kind: FileIndex[Content, Any], path: Path, *, verify_all: bool = False
) -> tuple[int, Content]:
    """Return the epoch (it grows when ids are renumbered) and the content of an index file.

    ``verify_all`` also verifies the arrays that are otherwise verified row by row during searches. Raises
    FileNotFoundError if there is no file, and IndexUnavailableError if it is damaged, of another store, or incomplete.
    """
    checked_in_place = () if verify_all else index_kind.checked_in_place
    # Another process may replace the file before its parts (additional files) are read, so try again.
    for _ in range(_MAX_ATTEMPTS):
        head, arrays = index_file.read(
            path, index_kind.name, partial(is_trusted, environment, index_kind), checked_in_place
        )
        try:
            parts = index_file.read_parts(path, head, checked_in_place)
        except FileNotFoundError as error:
            missing_part = Path(error.filename).name
            continue
        try:
            return head["epoch"], index_kind.read(IndexContent(head, arrays, parts))
        except KeyError as error:
            raise IndexUnavailableError(
                f"{path}: written by another version of kvstore, without {error}; REFRESH rebuilds it"
            ) from error
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:  # written by another program
            raise IndexUnavailableError(f"{path}: it cannot be read ({error}); REFRESH rebuilds it") from error
    raise IndexUnavailableError(f"{path}: its part {missing_part} is missing; REFRESH rebuilds it")


def get_index_file(
    open_indexes: OpenIndexes, index_kind: FileIndex[Content, Any]
) -> LazyIndexFile[tuple[int, Content]]:
    """Return the file of an index, whose epoch (it grows when ids are renumbered) and content are read on first use."""
    # Bind only the environment: a reader function that refers to ``open_indexes`` would be a reference cycle.
    return open_indexes.get_index_file(index_kind.name, partial(read_index, open_indexes.environment, index_kind))


def bind_index(
    state: State, index_kind: FileIndex[Any, IndexReader] | GenerationIndex[IndexReader]
) -> IndexReader | None:
    """Return the reader of an index for a state, or None if the store has no such index or it is unusable."""
    if isinstance(index_kind, GenerationIndex):
        return bind_generation(state, index_kind)
    record = Indexes(state.lmdb).get(index_kind)
    if record is None or state.open_indexes is None:
        return None
    content = _get_content(state.open_indexes, index_kind, record)
    return None if content is None else index_kind.bind(content, record, state)


def reject_file(state: State, index_kind: FileIndex[Any, Any], error: IndexUnavailableError) -> None:
    """Stop using the file of an index; ``error`` describes damage that was found only when a part of it was read."""
    assert state.open_indexes is not None
    file = get_index_file(state.open_indexes, index_kind)
    file.reject(f"{file.path}: {error}")


def list_statuses(state: State, kinds: Iterable[Index]) -> list[IndexStatus]:
    """Return the status of each index of a state: first the indexes that every commit updates, then ``kinds``.

    The list is empty if the state does not belong to an open store.
    """
    open_indexes, change = state.open_indexes, state.counters.change
    if open_indexes is None:
        return []
    # These two are updated by every commit, so they are never behind.
    exact_statuses = [
        IndexStatus(kind, "exact", built=change, stale=0, detail="part of every commit")
        for kind in ("entities", "lexical")
    ]
    statuses = (_get_status(open_indexes, state, kind) for kind in kinds)
    return exact_statuses + [status for status in statuses if status is not None]


def _get_content(open_indexes: OpenIndexes, index_kind: FileIndex[Any, Any], record: IndexRecord) -> Any:
    """Return the content of the file, or None if it is missing, unusable or older than the last renumbering of ids."""
    epoch_and_content = get_index_file(open_indexes, index_kind).get()
    if epoch_and_content is None:
        return None
    epoch, content = epoch_and_content
    return content if epoch == record.epoch else None


def _get_status(open_indexes: OpenIndexes, state: State, index_kind: Index) -> IndexStatus | None:
    """Return the status of an index in a state, or None if the store does not have it.

    The status is exact (searched without a file), building, ready, damaged or absent.
    """
    record, change = Indexes(state.lmdb).get(index_kind), state.counters.change
    if not isinstance(index_kind, FileIndex):
        return None if record is None else index_kind.get_status(record, state)
    exact_reason = index_kind.explain_exact_search(record, state)
    if exact_reason is not None:
        return IndexStatus(index_kind.name, "exact", built=change, stale=0, detail=exact_reason)
    if record is None:
        return None
    content, file = _get_content(open_indexes, index_kind, record), get_index_file(open_indexes, index_kind)
    built_change, lag = (0, change) if content is None else (content.change, index_kind.compute_lag(content, state))
    if index_file.is_being_built(file.path):
        return IndexStatus(index_kind.name, "building", built_change, lag, detail=index_kind.building_detail)
    if content is not None:
        return IndexStatus(index_kind.name, "ready", built_change, lag, detail=index_kind.describe(content))
    if file.exists:
        detail = file.problem or "built before the store was rebuilt; REFRESH rebuilds it"
        return IndexStatus(index_kind.name, "damaged", built=0, stale=change, detail=detail)
    detail = file.problem or "not built yet; REFRESH INDEX builds it"
    return IndexStatus(index_kind.name, "absent", built=0, stale=change, detail=detail)
