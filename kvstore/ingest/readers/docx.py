"""DOCX: a Word document becomes Markdown, in the order of its body.

In: a ``.docx`` file. Out: one document of format ``markdown``: headings, lists, tables, code, quotations, text boxes
and footnotes; tables of contents, deleted and hidden text are left out. The title is that of the file's properties,
else the first paragraph styled as title or as heading of level one. A file that is no DOCX, is locked with a password
or has no text is a ReaderError, and so is the absence of python-docx.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from typing import Any, BinaryIO

from ...errors import ReaderError
from ...extras import required
from .markdown_blocks import document
from .raw_document import Origin, RawDocument, ReadOptions

#: Bytes of the largest document, unpacked.
LARGEST_UNPACKED = 512 << 20

_OLE = b"\xd0\xcf\x11\xe0"


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Yield the file's one document."""
    reading = f"{origin.name}: reading DOCX"
    docx = required("docx", "documents", reading, package="python-docx", error=ReaderError)
    from .docx_blocks import Body

    if stream.read(4) == _OLE:
        raise ReaderError(f"{origin.name}: is an old .doc file or locked with a password; save it as an open .docx")
    stream.seek(0)
    try:
        # What is packed small may unpack to any size; no more is unpacked than is declared here.
        unpacked = sum(entry.file_size for entry in zipfile.ZipFile(stream).infolist())
        if unpacked > LARGEST_UNPACKED:
            raise ReaderError(
                f"{origin.name}: unpacks to {unpacked:,} bytes; the limit is {LARGEST_UNPACKED:,}: divide the document"
            )
        stream.seek(0)
        package: Any = docx.Document(stream)
        body = Body(package)
        blocks = body.blocks()
        title = package.core_properties.title
    except (ReaderError, MemoryError):
        raise
    except Exception as error:  # a damaged package fails in zipfile, lxml and python-docx, each in its own ways
        raise ReaderError(
            f"{origin.name}: is damaged or no DOCX ({type(error).__name__}: {error}); open it and save it anew"
        ) from None
    if not blocks:
        raise ReaderError(f"{origin.name}: has no text; there is nothing to store")
    title = " ".join(title.split()) or body.title
    yield RawDocument(origin.key, title, document(blocks) + "\n", {}, "markdown")
