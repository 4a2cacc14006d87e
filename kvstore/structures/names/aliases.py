"""Aliases: user statements that one name means the entity of another name. The *key* of a name is its normal form. A
name *resolves* to the last known name to which its aliases lead, the *display name*. A name is *known* if the entity
filter has an entry for it: an entity id and counts.

In: statements "this name means that entity", each an ``alias`` (which also makes the name known) or a ``merge`` (of two
known names). On disk: ``aliases`` (normal form of the name → the statement) and ``alias_members`` (normal form of the
entity → its direct aliases), kept consistent. Out: the name that a name resolves to, and all names that resolve to
the same one.

Statements are stored unchanged, and reading follows them one after the other, so a removed statement leaves no trace. A
name resolves to the last known name on its path: a statement whose entity is unknown has no effect until the entity
exists again. The caller prevents cycles; a stored cycle raises CorruptionError.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ...errors import CorruptionError
from ...process.frozen_dataclass import frozen_dataclass
from ...storage import records
from ...storage.view import ViewReader, ViewWriter
from ...text.normalize import to_entity_key
from .. import tables
from ..filter.entity_filter import EntityFilter, FilterEntry

ALIAS = "alias"
MERGE = "merge"


@frozen_dataclass
class Alias:
    """A name and the entity that it refers to, both as typed; ``kind`` is ``alias`` or ``merge``."""

    name: str
    entity: str
    kind: str

    @property
    def key(self) -> str:
        """The normal form of the alias."""
        return to_entity_key(self.name)

    @property
    def target(self) -> str:
        """The normal form of the entity that the alias refers to."""
        return to_entity_key(self.entity)


class Identity(NamedTuple):
    """The entity that a known name resolves to by aliases: all its known names, each with its filter entry, the display
    name first.
    """

    names: tuple[tuple[str, FilterEntry], ...]

    @property
    def key(self) -> str:
        """The normal form of the display name, the name under which the entity is shown."""
        display_key, _ = self.names[0]
        return display_key

    @property
    def entry(self) -> FilterEntry:
        """The filter entry of the display name: its entity, number of addresses (occurrences) and number of lookups."""
        _, display_entry = self.names[0]
        return display_entry

    @property
    def entity_ids(self) -> list[int]:
        """The entity ids of all its names; each known name has its own id."""
        return [entry.entity for _, entry in self.names]


class Aliases(ViewReader):
    """The aliases of one view, a snapshot or a write transaction."""

    def get(self, key: str) -> Alias | None:
        """Return the alias or merge of the name with the normal form ``key``, or None if it has none."""
        encoded_key = key.encode()
        value = self._view.get(tables.ALIASES, encoded_key)
        return None if value is None else Alias(*records.unpack(value, tables.ALIASES, encoded_key))

    def iter_all(self) -> Iterator[tuple[str, Alias]]:
        """Yield the normal form of each name that is an alias, and the alias as typed, in byte order."""
        for key, value in self._view.scan(tables.ALIASES):
            yield bytes(key).decode(), Alias(*records.unpack(value, tables.ALIASES, bytes(key)))

    def list_direct_aliases(self, target: str) -> list[str]:
        """Return the direct aliases of the entity ``target``, sorted; all names are normal forms."""
        key = target.encode()
        value = self._view.get(tables.ALIAS_MEMBERS, key)
        names: list[str] = [] if value is None else records.unpack(value, tables.ALIAS_MEMBERS, key)
        return names

    def scan_direct_aliases(self) -> Iterator[tuple[str, list[str]]]:
        """Yield each entity that has aliases, with its direct aliases; all names are normal forms."""
        for key, value in self._view.scan(tables.ALIAS_MEMBERS):
            yield bytes(key).decode(), records.unpack(value, tables.ALIAS_MEMBERS, bytes(key))

    def follow_aliases(self, key: str) -> Iterator[str]:
        """Yield the names that ``key`` leads to by aliases, one step at a time; all names are normal forms.

        The first is the name that ``key`` is an alias of; nothing is yielded if ``key`` is not an alias. Raises
        CorruptionError if the aliases form a cycle.
        """
        seen = {key}
        while (alias := self.get(key)) is not None:
            key = alias.target
            if key in seen:
                raise CorruptionError(f"the aliases of {key!r} form a cycle; run CHECK, and restore from a backup")
            seen.add(key)
            yield key

    def resolve(self, key: str, entity_filter: EntityFilter) -> Identity | None:
        """Return the entity that a name (its normal form) resolves to, or None if the name is unknown.

        Its display name is the last known name on the path of aliases. Its aliases follow, direct ones and aliases of
        these, nearest first.
        """
        display_entry = entity_filter.find(key)
        if display_entry is None:
            return None
        display_key = key
        for next_key in self.follow_aliases(key):
            next_entry = entity_filter.find(next_key)
            if next_entry is not None:
                display_key, display_entry = next_key, next_entry
        all_names = [display_key]
        for name in all_names:  # grows during the loop
            all_names += self.list_direct_aliases(name)
        known_names = [(display_key, display_entry)]
        for alias in all_names[1:]:
            alias_entry = entity_filter.find(alias)
            if alias_entry is not None:
                known_names.append((alias, alias_entry))
        return Identity(tuple(known_names))

    def check(self, find_entity: Callable[[str], int | None]) -> Iterator[str]:
        """Yield a sentence for each fault of aliases and of the alias lists of entities, for CHECK.

        ``find_entity`` returns the entity of a name (its normal form), or None if the name is unknown. Raises
        CorruptionError if aliases form a cycle.
        """
        members: dict[str, list[str]] = {}
        for key, alias in self.iter_all():
            members.setdefault(alias.target, []).append(key)
            if key != alias.key or alias.kind not in (ALIAS, MERGE):
                yield f"alias {key!r} is stored under another name or has an unknown kind"
            if alias.kind == ALIAS and find_entity(key) is None:
                yield f"alias {key!r} is not a known name"
        if dict(self.scan_direct_aliases()) != members:
            yield "the alias lists of the entities do not match the aliases"
        for key in sorted({name for names in members.values() for name in names}):
            deque(self.follow_aliases(key), maxlen=0)  # raises if the aliases form a cycle


class AliasWriter(ViewWriter, Aliases):
    """The aliases of one write transaction."""

    def put(self, alias: Alias) -> None:
        """Store an alias, by its name and among the aliases of its entity; the name must not be an alias yet."""
        fields = [alias.name, alias.entity, alias.kind]
        self._write_view.put(tables.ALIASES, alias.key.encode(), records.pack(fields))
        self._put_direct_aliases(alias.target, [*self.list_direct_aliases(alias.target), alias.key])

    def remove(self, alias: Alias) -> None:
        """Delete the record of an alias, and remove the alias from the list of its entity's aliases."""
        self._write_view.delete(tables.ALIASES, alias.key.encode())
        remaining_aliases = [name for name in self.list_direct_aliases(alias.target) if name != alias.key]
        self._put_direct_aliases(alias.target, remaining_aliases)

    def _put_direct_aliases(self, target: str, aliases: list[str]) -> None:
        """Store the direct aliases of the entity ``target``, or delete its record if there are none."""
        if aliases:
            self._write_view.put(tables.ALIAS_MEMBERS, target.encode(), records.pack(sorted(aliases)))
        else:
            self._write_view.delete(tables.ALIAS_MEMBERS, target.encode())
