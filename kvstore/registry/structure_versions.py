"""Versions of derived data: those in a store, and those that this version of kvstore maintains.
Derived data are *structures*, which every commit updates, and *derivations*, which compute data from one document.

In: a state of the store. On disk: ``structures`` in ``meta``: msgpack map, name → version, written when a store is
created and whenever one of them is rebuilt. Out: the data that is missing or old, the data that can be built, and the
unknown data. kvstore must not write to a store with unknown data, which would become stale.
"""

from __future__ import annotations

from ..errors import StoreFormatError
from ..storage import records
from ..storage.view import View, WriteView
from ..structures import tables
from . import list_manifests

_KEY = b"structures"
#: The structure whose version shows how triples introduce names, and the first version with the current rule:
#: only phrases that are written like proper names.
_GRAPH_NAME, _MIN_GRAPH_VERSION = "passage_graph", 2


def _get_expected_versions(view: View) -> dict[str, int]:
    """Return this kvstore's versions of the derived data that the store of ``view`` keeps, by name."""
    # A derivation with the name of an index is kept only in stores that have the index.
    return {
        name: version
        for manifest in list_manifests()
        for name, version in (*manifest.structures.items(), *manifest.derivations.items())
        if name not in manifest.indexes or has_index(view, name)
    }


def has_index(view: View, name: str) -> bool:
    """True if the store that ``view`` reads has the index with this name. The index's system is not imported."""
    key = name.encode()
    value = view.get(tables.INDEXES, key)
    # The record of a dropped index can be stored as None.
    return value is not None and records.unpack(value, tables.INDEXES, key) is not None


def read_versions(view: View) -> dict[str, int]:
    """Return the stored versions of the derived data in the store of ``view``, by name."""
    value = view.get(tables.META, _KEY)
    return {} if value is None else records.unpack(value, tables.META, _KEY)


def write_versions(view: WriteView) -> None:
    """Record in the store of ``view`` this kvstore's versions of its derived data."""
    view.put(tables.META, _KEY, records.pack(_get_expected_versions(view)))


def find_outdated(view: View) -> set[str]:
    """Return the names of the derived data that the store of ``view`` lacks or has in an old version."""
    stored_versions = read_versions(view)
    return {name for name, version in _get_expected_versions(view).items() if stored_versions.get(name, 0) < version}


def explain_migration(view: View) -> str | None:
    """Return why the store that ``view`` reads must be migrated, as the end of a sentence; None if opening it suffices.

    Opening a store rebuilds outdated structures. Outdated derivations, which are computed from the text of each
    document, take long to compute again, so the user starts that. The same holds for a store whose version took all
    subjects and objects of imported triples for names, because the mentions of these names must be removed.
    """
    if view.count(tables.TRIPLES) and read_versions(view).get(_GRAPH_NAME, 0) < _MIN_GRAPH_VERSION:
        return "an earlier version of kvstore took every phrase of its imported relations for a name"
    derivation_names = {name for manifest in list_manifests() for name in manifest.derivations}
    outdated_names = ", ".join(sorted(find_outdated(view) & derivation_names))
    return f"its {outdated_names} data is missing or outdated" if outdated_names else None


def explain_read_only(view: View) -> str | None:
    """Return why kvstore must not change the store that ``view`` reads, as the end of a sentence; None if it may.

    The reason is derived data that this kvstore does not know, or knows only in an older version, and so cannot keep up
    to date.
    """
    known_versions: dict[str, int] = {}
    for manifest in list_manifests():
        known_versions |= {**manifest.structures, **manifest.derivations}
    unknown_data = [
        f"{name} (version {version})"
        for name, version in read_versions(view).items()
        if version > known_versions.get(name, 0)
    ]
    if not unknown_data:
        return None
    names = ", ".join(unknown_data)
    return f"it contains {names}, which this version of kvstore cannot update; upgrade kvstore to change the store"


def require_maintained(view: View) -> None:
    """Raise StoreFormatError if derived data of the store is missing, outdated, or newer than this kvstore supports."""
    if read_versions(view) == _get_expected_versions(view):
        return
    reason, outdated_names = explain_read_only(view), find_outdated(view)
    if reason is None and outdated_names:
        reason = f"its {', '.join(sorted(outdated_names))} data is missing or outdated; open the store again"
    if reason is not None:
        raise StoreFormatError(f"the store cannot be changed: {reason}")
