"""Blank texts, which frameworks pass on and a store does not accept: a warning, and metadata fields without them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

#: The number of keys that the warning contains.
_MAX_SHOWN = 3


def warn_blank_texts(keys: Sequence[str], total: int, noun: str) -> None:
    """Warn that the documents with these keys were skipped because they have no text.

    ``total`` is the number of all documents of the call, and ``noun`` names them in the warning. Without keys there is
    no warning.
    """
    if keys:
        num_more = len(keys) - _MAX_SHOWN
        key_list = ", ".join(map(repr, keys[:_MAX_SHOWN])) + (f" and {num_more:,} more" if num_more > 0 else "")
        # The warning names the line that called the adapter.
        warnings.warn(f"{len(keys):,} of {total:,} {noun} have no text and were skipped: {key_list}", stacklevel=4)


def get_text_field(metadata: Mapping[str, Any], name: str) -> str | None:
    """Return the value of the metadata field ``name`` if it is a string that is not blank, else None."""
    value = metadata.get(name)
    return value if isinstance(value, str) and value.strip() else None
