"""CHECK of derived structures, such as the passage graph: each table has exactly the rows that follow from the core.
The *core* is the documents, names and edges. A *delta* describes changes to it.

In: a state and the readable documents. The structures are built from the whole core in a scratch store on disk, in
batches, and compared with the stored ones: record by record, and row by row as in the dump if records of a table
differ. Out: a sentence for each missing or extra row. Memory use is one batch, plus sums of hashes of the compared
rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..arguments import format_count
from ..errors import KvstoreError, StoreFullError
from ..registry import list_structures
from ..registry.contract import Delta, DumpRow, Structure
from ..storage.environment import Environment, View
from ..structures.documents.documents import DocumentRecord
from ..structures.logical import InternalNames
from ..structures.state import State
from .full_delta import iter_full_deltas
from .hash_sums import find_differences

#: The maximum number of rows reported per table.
_MAX_REPORTED_ROWS = 10


def check_structures(state: State, documents: Iterable[DocumentRecord]) -> Iterator[str]:
    """Yield a sentence for missing and extra rows of derived structures (such as the passage graph), a few per table.

    Builds the structures again from ``documents`` in a scratch store, and compares the records.
    """
    if not list_structures():
        return
    with _create_scratch_folder() as folder, Environment.open(Path(folder) / "rebuilt", scratch=True) as scratch:
        for delta in iter_full_deltas(state, documents):
            scratch.write_with_growth(lambda write, delta=delta: _apply_delta(state, write, delta))  # type: ignore[misc]
        with scratch.snapshot() as snapshot, State(snapshot, state.settings) as expected_state:
            for structure in list_structures():
                for table in structure.tables:
                    try:
                        if not _has_same_records(state.lmdb, snapshot, table.name):
                            # A new state has no caches, so that only stored rows are compared.
                            with State(state.lmdb, state.settings) as stored_state:
                                yield from _describe_differences(structure, table.name, stored_state, expected_state)
                    except KvstoreError as error:
                        yield str(error)


def _create_scratch_folder() -> TemporaryDirectory[str]:
    """Return a new temporary folder for the scratch store; raise StoreFullError if it cannot be created."""
    try:
        return TemporaryDirectory(prefix="kvstore-check-")
    except OSError as error:
        raise StoreFullError(
            f"CHECK needs a temporary folder: {error}; set the environment variable TMPDIR to a folder with free space"
        ) from error


def _apply_delta(state: State, write: Any, delta: Delta) -> None:
    """Apply a delta (changes) of ``state`` to every derived structure, and write them to the scratch store."""
    for structure in list_structures():
        structure.make_maintainer(state, write).apply_delta(delta)


def _has_same_records(stored_view: View, expected_view: View, table: str) -> bool:
    """True if a table has the same records in both views."""
    if stored_view.count(table) != expected_view.count(table):
        return False
    return all(
        stored_record == expected_record
        for stored_record, expected_record in zip(stored_view.scan(table), expected_view.scan(table), strict=True)
    )


def _describe_differences(
    structure: Structure[Any], table: str, stored_state: State, expected_state: State
) -> Iterator[str]:
    """Yield a sentence for each row of a table that only one of the two states has, up to a limit.

    A last sentence has the number of further rows.
    """

    def read_rows(state: State) -> Iterable[DumpRow]:
        """Return the rows of the table as in the dump, with internal ids."""
        return structure.dump(state.get_part(structure), InternalNames())[table]

    differences = find_differences(lambda: read_rows(stored_state), lambda: read_rows(expected_state))
    for row, difference in islice(differences, _MAX_REPORTED_ROWS):
        problem = "has a row that does not follow from the documents" if difference > 0 else "lacks a row"
        yield f"{structure.name}: table {table} {problem}: {row}"
    num_more = sum(1 for _ in differences)
    if num_more:
        yield f"{structure.name}: table {table} differs in {format_count(num_more, 'more row')}"
