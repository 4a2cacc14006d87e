"""Versions of what the systems keep beside the spine: what a store has, and what this kvstore maintains.

In: a view. On disk: ``structures`` in ``meta``: msgpack map, name → version; written when a store is made and whenever
one of them is made anew. Out: what is missing or old, which can be made, and what is not known here, for whose sake
this kvstore must not write: it would leave it behind.
"""

from __future__ import annotations

from ..errors import StoreFormatError
from ..storage import records
from ..storage.view import View, WriteView
from ..structures import tables
from . import list_outlines

_KEY = b"structures"


def _get_known_versions() -> dict[str, int]:
    """The version that this kvstore makes of each."""
    versions: dict[str, int] = {}
    for outline in list_outlines():
        versions |= {**outline.structures, **outline.derivations}
    return versions


def _get_expected_versions(view: View) -> dict[str, int]:
    """The version that this kvstore makes of each that a store keeps."""
    versions: dict[str, int] = {}
    for outline in list_outlines():
        versions |= outline.structures
        versions |= {
            n: version for n, version in outline.derivations.items() if n not in outline.indexes or _has_index(view, n)
        }
    return versions


def _has_index(view: View, name: str) -> bool:
    key = name.encode()
    value = view.get(tables.INDEXES, key)
    return value is not None and records.unpack(value, tables.INDEXES, key) is not None


def read_versions(view: View) -> dict[str, int]:
    """The version that a store has of each."""
    value = view.get(tables.META, _KEY)
    return {} if value is None else records.unpack(value, tables.META, _KEY)


def write_versions(view: WriteView) -> None:
    """Record that everything that a store keeps is there as this kvstore makes it."""
    view.put(tables.META, _KEY, records.pack(_get_expected_versions(view)))


def find_outdated(view: View) -> set[str]:
    """What a store has not, or in an older version."""
    stored = read_versions(view)
    return {name for name, version in _get_expected_versions(view).items() if stored.get(name, 0) < version}


def explain_migration(view: View) -> str | None:
    """Why a store must be migrated, as the end of a sentence: what it lacks is made from texts, which takes long."""
    missing = ", ".join(
        sorted(find_outdated(view) & {name for outline in list_outlines() for name in outline.derivations})
    )
    return f"it has no {missing} as this kvstore derives it" if missing else None


def explain_read_only(view: View) -> str | None:
    """Why a store must not be changed by this kvstore, as the end of a sentence; None where it may."""
    known_versions = _get_known_versions()
    unknown = [
        f"{name} (version {version})"
        for name, version in read_versions(view).items()
        if version > known_versions.get(name, 0)
    ]
    if not unknown:
        return None
    return f"it keeps {', '.join(unknown)}, which this kvstore does not maintain; update kvstore to change it"


def require_maintained(view: View) -> None:
    """Raise StoreFormatError unless a store has what this kvstore maintains, and nothing else."""
    reason = explain_read_only(view)
    if reason is None and find_outdated(view):
        reason = f"it has no {', '.join(sorted(find_outdated(view)))} as this kvstore maintains it; open it again"
    if reason is not None:
        raise StoreFormatError(f"the store cannot be changed: {reason}")
