"""The description of a table, and the two tables that the engine itself reads; all others are passed to it."""

from __future__ import annotations

from ..process.frozen_dataclass import frozen_dataclass

META = "meta"
RECENT = "recent"


@frozen_dataclass
class LmdbTable:
    """A table: its name, and whether small changes to it go through the change buffer.

    Tables that are read without a view, or written in bulk, are not buffered.
    """

    name: str
    buffered: bool = True
