"""Aliases: what the user says of names, that one stands for another.

In: statements, "this name means that entity", each an ``alias`` (which makes the name known as well) or a ``merge``
(of two names that are known). On disk: ``aliases`` (normal form of the name → the statement) and ``alias_members``
(normal form of the entity → the names stated for it), kept equal. Out: the name that a name stands for, and all names
that stand for the same.

Statements are kept as they were made and followed when they are read, one after the other, so that each can be taken
back without a trace. A name stands for the last name on its way that the store knows: a statement whose entity is gone
changes nothing until the entity is back. The caller lets no circle arise; one met here is a CorruptionError.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...errors import CorruptionError
from ...storage import records
from ...storage.environment import View, WriteView
from ...text.normalize import to_entity_key
from .. import tables
from ..filter.entity_filter import EntityFilter, FilterEntry

ALIAS = "alias"
MERGE = "merge"


@dataclass(frozen=True, slots=True)
class Alias:
    """A name that stands for an entity, both as typed; ``kind`` is ``alias`` or ``merge``."""

    name: str
    entity: str
    kind: str

    @property
    def key(self) -> str:
        """The normal form of the name."""
        return to_entity_key(self.name)

    @property
    def target(self) -> str:
        """The normal form of the entity."""
        return to_entity_key(self.entity)


@dataclass(frozen=True, slots=True)
class Identity:
    """What a known name stands for: every known name of the same entity, the one it is shown under first."""

    names: tuple[tuple[str, FilterEntry], ...]

    @property
    def key(self) -> str:
        """The normal form of the name it is shown under."""
        return self.names[0][0]

    @property
    def entry(self) -> FilterEntry:
        """The filter's entry of the name it is shown under."""
        return self.names[0][1]

    @property
    def entities(self) -> list[int]:
        """The ids of all its names."""
        return [entry.entity for _, entry in self.names]


class Aliases:
    """The aliases of one view."""

    def __init__(self, view: View) -> None:
        self._view = view

    def get(self, key: str) -> Alias | None:
        """What was stated of a name (its normal form), or None."""
        encoded_key = key.encode()
        value = self._view.get(tables.ALIASES, encoded_key)
        return None if value is None else Alias(*records.unpack(value, tables.ALIASES, encoded_key))

    def scan(self) -> Iterator[tuple[str, Alias]]:
        """All statements in order of the names' normal forms."""
        for key, value in self._view.scan(tables.ALIASES):
            yield bytes(key).decode(), Alias(*records.unpack(value, tables.ALIASES, bytes(key)))

    def list_direct_aliases(self, target: str) -> list[str]:
        """Normal forms of the names that were stated for an entity (its normal form), in order."""
        key = target.encode()
        value = self._view.get(tables.ALIAS_MEMBERS, key)
        names: list[str] = [] if value is None else records.unpack(value, tables.ALIAS_MEMBERS, key)
        return names

    def scan_members(self) -> Iterator[tuple[str, list[str]]]:
        """All entities that names were stated for, with those names."""
        for key, value in self._view.scan(tables.ALIAS_MEMBERS):
            yield bytes(key).decode(), records.unpack(value, tables.ALIAS_MEMBERS, bytes(key))

    def follow_aliases(self, key: str) -> Iterator[str]:
        """The names that a name stands for, one statement after the other; none where nothing was stated of it."""
        seen = {key}
        while (alias := self.get(key)) is not None:
            key = alias.target
            if key in seen:
                raise CorruptionError(f"the aliases of {key!r} go in a circle; run CHECK, and restore from a backup")
            seen.add(key)
            yield key

    def list_all_aliases(self, key: str) -> list[str]:
        """The names whose way leads to a name, nearest first."""
        names = [key]
        for name in names:
            names += self.list_direct_aliases(name)
        return names[1:]

    def resolve(self, key: str, entity_filter: EntityFilter) -> Identity | None:
        """What a name (its normal form) stands for, or None where the store does not know it."""
        entry = entity_filter.find(key)
        if entry is None:
            return None
        display_key = key
        for next_key in self.follow_aliases(key):
            next_entry = entity_filter.find(next_key)
            if next_entry is not None:
                display_key, entry = next_key, next_entry
        alias_entries = ((name, entity_filter.find(name)) for name in self.list_all_aliases(display_key))
        return Identity(
            (
                (display_key, entry),
                *((name, next_entry) for name, next_entry in alias_entries if next_entry is not None),
            )
        )


class AliasWriter(Aliases):
    """The aliases of one write transaction."""

    def __init__(self, view: WriteView) -> None:
        super().__init__(view)
        self._write = view

    def put(self, alias: Alias) -> None:
        """Keep a statement of a name of which nothing is stated."""
        fields = [alias.name, alias.entity, alias.kind]
        self._write.put(tables.ALIASES, alias.key.encode(), records.pack(fields))
        self._put_members(alias.target, [*self.list_direct_aliases(alias.target), alias.key])

    def remove(self, alias: Alias) -> None:
        """Forget a statement that is kept."""
        self._write.delete(tables.ALIASES, alias.key.encode())
        self._put_members(alias.target, [name for name in self.list_direct_aliases(alias.target) if name != alias.key])

    def _put_members(self, target: str, names: list[str]) -> None:
        if names:
            self._write.put(tables.ALIAS_MEMBERS, target.encode(), records.pack(sorted(names)))
        else:
            self._write.delete(tables.ALIAS_MEMBERS, target.encode())
