"""The derivations that a store keeps: those of every store, and those that CREATE INDEX made it keep.

In: a view. Out: each with the options of its index, and of which documents the store has its parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..settings import FixedSettings
from ..storage.view import View
from ..structures.indexes.indexes import Indexes
from . import INDEXES, SYSTEMS
from .contract import ChunkedText, Derivation, MaintainedIndex


@dataclass(frozen=True, slots=True)
class StoredDerivation:
    """A derivation as a store keeps it; ``options`` are all those of its index.

    Documents of ids from ``built`` to before ``until`` have no part yet. One that is not ``maintained`` any more is
    being dropped: what is left of it goes with its documents.
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
        """What parts on their way to a store are called: another where they are derived with other options."""
        return " ".join([self.name, *(f"{name}={value}" for name, value in sorted(self.options.items()))])

    def has_part(self, document: int) -> bool:
        """Whether a stored document of this id has a part."""
        return self.maintained and not self.built <= document < self.until

    def derive(self, document: ChunkedText, settings: FixedSettings) -> Any:
        """The part of a document."""
        return self.derivation.derive(document, settings, self.options)

    def list_texts(self, part: Any, document: ChunkedText, settings: FixedSettings) -> Sequence[str]:
        """The texts of a part that have vectors: none in a store without an embedder."""
        return () if settings.embedder.startswith("none:") else self.derivation.list_texts(part, document)


def get_derivation(name: str) -> Derivation:
    """The derivation of a name that :func:`list_maintained_derivations` gave."""
    derivations = [derivation for system in SYSTEMS.values() for derivation in system.derivations]
    derivations += [kind.derivation for kind in INDEXES.values() if isinstance(kind, MaintainedIndex)]
    return next(derivation for derivation in derivations if derivation.name == name)


def list_stored_derivations(view: View) -> list[StoredDerivation]:
    """All of which a store has parts, those that are being dropped too."""
    derivations = [StoredDerivation(derivation) for system in SYSTEMS.values() for derivation in system.derivations]
    for kind in INDEXES.values():
        record = Indexes(view).get(kind) if isinstance(kind, MaintainedIndex) else None
        if record is not None:
            assert isinstance(kind, MaintainedIndex)
            state = record.state
            options = {name: record.options.get(name, option.default) for name, option in kind.options.items()}
            progress = state.get("built", 0), state.get("until", 0)
            derivations.append(StoredDerivation(kind.derivation, options, *progress, not state.get("dropping")))
    return derivations


def list_maintained_derivations(view: View) -> list[StoredDerivation]:
    """Those that every commit maintains."""
    return [derivation for derivation in list_stored_derivations(view) if derivation.maintained]
