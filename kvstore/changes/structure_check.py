"""CHECK of what the systems keep beside the spine: each table holds what follows from the spine, and nothing besides.

In: a state and the documents that can be read. What everything in the spine makes of an empty store is made in a
scratch store on disk, portion by portion, and compared with what is stored: record by record, and where a table has
other records, row by row as the dump tells them. Out: a sentence for each row that is missing or too many. Memory holds
a portion, and of the rows compared no more than sums of hashes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..errors import KvstoreError, StoreFullError
from ..storage.environment import Environment, View
from ..structures.documents.documents import DocumentRecord
from ..structures.logical import InternalNames
from ..structures.state import State
from ..systems import list_structures
from ..systems.contract import Delta, DumpRow, Structure
from .everything import build_full_delta
from .hash_sums import find_differences

#: Rows told of a table.
_MAX_REPORTED_ROWS = 10


def check_structures(state: State, documents: Iterable[DocumentRecord]) -> Iterator[str]:
    """Every row that is missing or too many, as a sentence."""
    if not list_structures():
        return
    with (
        _make_folder() as folder,
        Environment.open(Path(folder) / "made", scratch=True) as scratch,
    ):
        for delta in build_full_delta(state, documents):
            scratch.write_with_growth(lambda write, delta=delta: _apply_delta(state, write, delta))  # type: ignore[misc]
        with scratch.snapshot() as snapshot, State(snapshot, state.settings) as expected_state:
            for structure in list_structures():
                for table in structure.tables:
                    try:
                        if not _has_same_records(state.lmdb, snapshot, table.name):
                            # Anew: nothing that other views have kept is what is on disk.
                            with State(state.lmdb, state.settings) as stored_state:
                                yield from _describe_differences(structure, table.name, stored_state, expected_state)
                    except KvstoreError as error:
                        yield str(error)


def _make_folder() -> TemporaryDirectory[str]:
    try:
        return TemporaryDirectory(prefix="kvstore-check-")
    except OSError as error:
        raise StoreFullError(
            f"CHECK needs a folder for what it makes again: {error}; name one with room in the variable TMPDIR"
        ) from error


def _apply_delta(state: State, write: Any, delta: Delta) -> None:
    for structure in list_structures():
        structure.make_maintainer(state, write).apply_delta(delta)


def _has_same_records(stored_view: View, expected: View, table: str) -> bool:
    if stored_view.count(table) != expected.count(table):
        return False
    return all(
        stored_record == expected_record
        for stored_record, expected_record in zip(stored_view.scan(table), expected.scan(table), strict=True)
    )


def _describe_differences(structure: Structure[Any], table: str, stored_state: State, expected: State) -> Iterator[str]:
    def read_rows(state: State) -> Iterable[DumpRow]:
        return structure.dump(state.get_part(structure), InternalNames())[table]

    differences = find_differences(lambda: read_rows(stored_state), lambda: read_rows(expected))
    for row, times in islice(differences, _MAX_REPORTED_ROWS):
        problem = "has a row that nothing in the store makes" if times > 0 else "lacks a row"
        yield f"{structure.name}: table {table} {problem}: {row}"
    num_more = sum(1 for _ in differences)
    if num_more:
        yield f"{structure.name}: table {table} differs in {num_more} more rows"
