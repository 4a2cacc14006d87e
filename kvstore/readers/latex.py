r"""LaTeX: the source of an article or a book becomes Markdown that follows its structure.

In: a ``.tex`` file in UTF-8 (or the encoding of ``inputenc`` or the ``encoding`` option). Out: one document of format
``markdown`` with sections, paragraphs, lists, tables, quotations, listings, captions and footnotes; formulas are kept
as source between dollar signs. Macros that the file defines are expanded. Unknown macros are replaced by the text of
their arguments, and layout commands are dropped. Included files are not read but reported, and nothing is executed. The
title is ``\title``, else the first heading; metadata are ``author`` and ``date``. A file with endless macro expansion
or without text is a ReaderError.

Source: Lamport, LaTeX: A Document Preparation System (2nd edition, 1994), appendix C; the LaTeX2e unofficial reference
manual.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from ..errors import ReaderError
from .decoding import decode_text, is_utf8
from .latex_macros import MAX_EXPANDED_CHARACTERS, EndlessMacrosError
from .latex_text import COMMAND_PATTERN, LatexConverter
from .markdown_blocks import join_blocks
from .raw_document import Origin, RawDocument, ReadOptions, SkippedPart

#: The encoding that a file declares: ``\usepackage[latin1]{inputenc}``.
_INPUTENC_PATTERN = re.compile(rb"\\usepackage\s*\[\s*([\w-]{1,30})\s*\]\s*\{inputenc\}")
#: The number of bytes that are searched for the declared encoding.
_MAX_DECLARATION_OFFSET = 20_000
_ENCODINGS = {
    "latin1": "cp1252",
    "latin9": "iso-8859-15",
    "ansinew": "cp1252",
    "applemac": "mac_roman",
    "cp1251": "cp1251",
    "koi8-r": "koi8-r",
}


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument | SkippedPart]:
    """Convert a LaTeX file to Markdown; yield it as one document, and a SkippedPart for each included file.

    A file that only includes others yields a SkippedPart instead of a document. Raises ReaderError if the macros of the
    file expand without end, or if it has no text or cannot be decoded.
    """
    source_bytes = stream.read()
    encoding = options.encoding
    if encoding is None and not is_utf8(source_bytes):
        declaration = _INPUTENC_PATTERN.search(source_bytes[:_MAX_DECLARATION_OFFSET])
        encoding = _ENCODINGS.get(declaration[1].decode("ascii").lower()) if declaration else None
    text = decode_text(source_bytes, origin.name, encoding)
    source = LatexConverter(text)
    try:
        blocks = source.build_blocks()
    except EndlessMacrosError:
        raise ReaderError(
            f"{origin.name}: its macros expand to more than {MAX_EXPANDED_CHARACTERS:,} characters, which is the "
            "limit; remove macros that use themselves, or ingest it AS text"
        ) from None
    if not blocks and source.included_files:
        yield SkippedPart(origin.name, "files that only include others")
    elif not blocks:
        raise ReaderError(f"{origin.name}: has no text (only definitions); there is nothing to store")
    else:
        first_heading = next((block.text.lstrip("# ") for block in blocks if block.kind == "heading"), None)
        text = join_blocks(blocks) + "\n"
        title = source.title or source.first_section or first_heading
        yield RawDocument(origin.key, title=title, text=text, meta=source.meta, format="markdown")
    for _ in source.included_files:
        yield SkippedPart(origin.name, "parts in other files")


def render_line(source: str) -> str:
    """Return LaTeX source, such as a field of a bibliography, as one line of text.

    If its macros expand without end, they and all commands are dropped.
    """
    try:
        return LatexConverter(source).render_line(source, depth=0)
    except EndlessMacrosError:
        return " ".join(COMMAND_PATTERN.sub(" ", source).split())
