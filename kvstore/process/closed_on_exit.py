"""Closing of an object at the end of a ``with`` block."""

from __future__ import annotations

from typing import Self


class ClosedOnExit:
    """A mixin that calls ``close`` of its class at the end of a ``with`` block."""

    def close(self) -> None:
        """Release the resources of the object; subclasses must implement this method."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        """Return the object itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the object."""
        self.close()
