"""ODT: an OpenDocument text becomes Markdown.

In: an ``.odt`` file. Out: one document of format ``markdown`` (:mod:`.opendocument_text` describes its content). The
title is the one in the file's properties, else the first paragraph styled as title or level-one heading. A file that is
not ODT, is locked with a password or has no text is a ReaderError.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from .markdown_blocks import join_blocks
from .opendocument import open_opendocument
from .opendocument_text import OpenDocumentConverter
from .raw_document import Origin, RawDocument, ReadOptions


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Convert an OpenDocument text to Markdown, and yield it as one document.

    Raises ReaderError if the file is not ODT, is damaged or locked, or has no text.
    """
    with open_opendocument(stream, origin.name, "ODT", "text") as opendocument:
        text = OpenDocumentConverter(opendocument.trees)
        blocks = text.build_document_blocks(opendocument.body)
    origin.require_content(blocks)
    yield RawDocument(
        origin.key, opendocument.title or text.title, join_blocks(blocks) + "\n", meta={}, format="markdown"
    )
