"""Pruning: the documents that an ingest covers and did not find any more. A *coverage* is a folder, its *root*, with a
test for the files that the ingest takes from it. A *location* is the path or address of a file or folder.

In: the covered folders, the read files that were named directly, and the keys that the ingest found. Out: the keys of
the documents to remove: those of files that no longer exist, and those of rows, messages or members that are no longer
in their file. The documents of files that could not be read are kept.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Set

from ..structures.documents.documents import DocumentRecord
from ..structures.state import State
from .sources import Coverage


def find_vanished_keys(
    state: State,
    coverages: Iterable[Coverage],
    locations: Set[str],
    seen_keys: Container[str],
    unreadable_locations: Container[str],
) -> list[str]:
    """Return the keys of the documents that are no longer in covered folders or files.

    ``locations`` are the files named directly whose documents may have vanished. ``seen_keys`` are the keys that the
    ingest found, and ``unreadable_locations`` the files and folders that it could not read.
    """
    keys: dict[str, None] = {}
    coverages_by_root: dict[str, list[Coverage]] = {}
    for coverage in coverages:
        coverages_by_root.setdefault(coverage.root, []).append(coverage)
    for root, root_coverages in sorted(coverages_by_root.items()):
        for record in state.documents.scan_origin(root):
            is_covered = any(coverage.covers(record.source or record.key) for coverage in root_coverages)
            if is_covered and record.key not in seen_keys and not _is_unreadable(root, record, unreadable_locations):
                keys[record.key] = None
    if locations:
        for record in state.documents.scan():
            if record.source in locations and record.key not in seen_keys and record.source not in unreadable_locations:
                keys[record.key] = None
    return list(keys)


def _is_unreadable(root: str, record: DocumentRecord, unreadable_locations: Container[str]) -> bool:
    """True if the file of a document in the ``root`` folder, or a folder that contains it, could not be read."""
    location = record.source or record.key
    # Older versions stored the path below the root as the location.
    path = location if location.startswith(root) else f"{root}/{location}"
    while path and path not in unreadable_locations:
        path = path.rpartition("/")[0]
    return bool(path)
