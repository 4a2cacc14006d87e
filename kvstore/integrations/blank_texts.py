"""Blank texts, which frameworks pass on and a store does not accept: a warning, and metadata fields without them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

#: The number of keys that the warning contains.
_MAX_SHOWN = 3


def skip_blank_texts(rows: Sequence[dict[str, Any]], noun: str) -> list[dict[str, Any]]:
    """Return the rows whose ``text`` is not blank, and warn about the others; ``noun`` names them in the warning."""
    keys = [row["key"] for row in rows if not row["text"].strip()]
    if keys:
        num_more = len(keys) - _MAX_SHOWN
        key_list = ", ".join(map(repr, keys[:_MAX_SHOWN])) + (f" and {num_more:,} more" if num_more > 0 else "")
        # The warning names the line that called the adapter.
        warnings.warn(f"{len(keys):,} of {len(rows):,} {noun} have no text and were skipped: {key_list}", stacklevel=4)
    return [row for row in rows if row["text"].strip()]


def get_text_field(metadata: Mapping[str, Any], name: str) -> str | None:
    """Return the value of the metadata field ``name`` if it is a string that is not blank, else None."""
    value = metadata.get(name)
    return value if isinstance(value, str) and value.strip() else None
