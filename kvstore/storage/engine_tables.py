"""What a table is, and the two tables that the engine itself reads; all others are handed to it."""

from __future__ import annotations

from dataclasses import dataclass

META = "meta"
RECENT = "recent"


@dataclass(frozen=True, slots=True)
class LmdbTable:
    """A table: its name, and whether its records are small and scattered, so that they go through the change buffer."""

    name: str
    buffered: bool = False
