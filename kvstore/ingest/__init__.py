"""Ingestion of files: finding, reading, extracting, embedding and storing them, in batches and by several processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..readers import READERS, add_line_readers, list_formats

if TYPE_CHECKING:
    from ..readers.raw_document import FormatReader

__all__ = ["READERS", "list_formats"]


def _make_model_text_readers() -> dict[str, FormatReader]:
    """Return the readers of files with texts that a model wrote about stored documents, by format name.

    The readers are imported on the first call.
    """
    from .written_lines import make_model_text_readers

    return make_model_text_readers()


add_line_readers(_make_model_text_readers)
