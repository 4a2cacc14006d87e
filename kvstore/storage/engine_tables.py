"""What a table is, and the two tables that the engine itself reads; all others are handed to it."""

from __future__ import annotations

from dataclasses import dataclass

META = "meta"
RECENT = "recent"


@dataclass(frozen=True, slots=True)
class LmdbTable:
    """A table: its name, and whether small changes of it go through the change buffer: not those of a table that is
    read as it lies, or written in bulk."""

    name: str
    buffered: bool = True
