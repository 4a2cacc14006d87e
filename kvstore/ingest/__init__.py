"""Ingestion of files: finding, reading, extracting, embedding and storing them, in batches and by several processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..readers import READERS, add_line_readers, formats

if TYPE_CHECKING:
    from ..readers.raw_document import FormatReader

__all__ = ["READERS", "formats"]


def _get_written_readers() -> dict[str, FormatReader]:
    """Return the readers of derived texts; their module is imported on first use."""
    from .written_lines import get_written_readers

    return get_written_readers()


add_line_readers(_get_written_readers)
