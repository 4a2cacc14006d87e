"""DOCX: a Word document becomes Markdown, in the order of its body.

In: a ``.docx`` file. Out: one document of format ``markdown``: headings, lists, tables, code, quotations, text boxes
and footnotes; tables of contents, deleted and hidden text are left out. The title is that of the file's properties,
else the first paragraph styled as title or as heading of level one. A file that is no DOCX, is locked with a password
or has no text is a ReaderError, and so is the absence of python-docx.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from ...errors import ReaderError
from ...extras import required
from .markdown_blocks import document
from .packages import Package
from .raw_document import Origin, RawDocument, ReadOptions


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Yield the file's one document."""
    reading = f"{origin.name}: reading DOCX"
    docx = required("docx", "documents", reading, package="python-docx", error=ReaderError)
    from .docx_blocks import Body

    packed = Package(stream, origin.name, "DOCX")
    stream.seek(0)
    with packed.guarded():
        package: Any = docx.Document(stream)
        body = Body(package)
        blocks = body.blocks()
        title = package.core_properties.title
    if not blocks:
        raise ReaderError(f"{origin.name}: has no text; there is nothing to store")
    title = " ".join(title.split()) or body.title
    yield RawDocument(origin.key, title, document(blocks) + "\n", {}, "markdown")
