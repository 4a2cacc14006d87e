"""A warning for blank texts, which frameworks pass on and a store does not accept."""

from __future__ import annotations

import warnings
from collections.abc import Sequence


def warn_blank_texts(keys: Sequence[str], total: int, noun: str) -> None:
    """Warn that the documents with these keys were skipped because they have no text.

    ``total`` is the number of all documents of the call, and ``noun`` names them in the warning. Without keys there is
    no warning.
    """
    if keys:
        key_list = ", ".join(map(repr, keys[:3])) + (f" and {len(keys) - 3:,} more" if len(keys) > 3 else "")
        warnings.warn(f"{len(keys):,} of {total:,} {noun} have no text and were skipped: {key_list}", stacklevel=4)
