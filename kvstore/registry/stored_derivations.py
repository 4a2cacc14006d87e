"""The derivations of a store: those that every store keeps, and those that CREATE INDEX added.

In: a state of the store. Out: each derivation with the options of its index, and the documents that have its parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from ..process.frozen_dataclass import frozen_dataclass
from ..settings import FixedSettings
from ..storage.view import View
from ..structures.indexes.index import Indexes
from . import (
    INDEXES,
    list_maintained_index_names,
    list_systems_with_derivations,
    list_systems_with_own_derivations,
)
from .contract import ChunkedText, Derivation, MaintainedIndex
from .structure_versions import has_index


@frozen_dataclass
class StoredDerivation:
    """A derivation of a store. ``options`` are all options of its index.

    Documents with ids from ``built`` to before ``until`` have no part yet. A derivation that is no longer
    ``maintained`` is being dropped; its remaining parts are deleted with their documents.
    """

    derivation: Derivation
    options: Mapping[str, float | str] = field(default_factory=dict)
    built: int = 0
    until: int = 0
    maintained: bool = True

    @property
    def name(self) -> str:
        """The name of the derivation."""
        return self.derivation.name

    @property
    def label(self) -> str:
        """The name and the options of the derivation, which identify its parts (derived data) until they are stored."""
        return " ".join([self.name, *(f"{name}={value}" for name, value in sorted(self.options.items()))])

    def has_part(self, document: int) -> bool:
        """True if a stored document with this id has a part (derived data)."""
        return self.maintained and not self.built <= document < self.until

    def derive_part(self, document: ChunkedText, settings: FixedSettings) -> Any:
        """Derive the part (data) of a document with the options of this store."""
        return self.derivation.derive(document, settings, self.options)

    def list_texts(self, part: Any, document: ChunkedText, settings: FixedSettings) -> Sequence[str]:
        """Return the texts of a part (derived data) that have vectors: none in a store without an embedder."""
        return () if settings.embedder.startswith("none:") else self.derivation.list_texts(part, document)


def get_derivation(name: str) -> Derivation:
    """Return the derivation with a name that :func:`list_maintained_derivations` returned."""
    derivations = [derivation for system in list_systems_with_derivations() for derivation in system.derivations]
    kinds = (kind for system in list_systems_with_derivations() for kind in system.indexes)
    derivations += [kind.derivation for kind in kinds if isinstance(kind, MaintainedIndex)]
    return next(derivation for derivation in derivations if derivation.name == name)


def list_stored_derivations(view: View) -> list[StoredDerivation]:
    """Return the derivations stored in a store: those of all systems and of its indexes, even of dropped ones."""
    systems = list_systems_with_own_derivations()
    derivations = [StoredDerivation(derivation) for system in systems for derivation in system.derivations]
    for name in list_maintained_index_names():
        kind = INDEXES[name] if has_index(view, name) else None  # imports only systems that the store uses
        record = None if kind is None else Indexes(view).get(kind)
        if isinstance(kind, MaintainedIndex) and record is not None:
            progress = record.state
            derivations.append(
                StoredDerivation(
                    kind.derivation,
                    {name: record.options.get(name, option.default) for name, option in kind.options.items()},
                    built=progress.get("built", 0),
                    until=progress.get("until", 0),
                    maintained=not progress.get("dropping"),
                )
            )
    return derivations


def list_maintained_derivations(view: View) -> list[StoredDerivation]:
    """Return the derivations that every commit maintains."""
    return [derivation for derivation in list_stored_derivations(view) if derivation.maintained]
