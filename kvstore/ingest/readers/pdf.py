"""PDF: the text layer of all pages as one document.

In: a PDF file. Out: one document of format ``text``: paragraphs with their lines joined and words whole that a line
end had hyphenated, a blank line between pages; title from the file's metadata; ``meta['pages']`` counts the pages. A
file that is damaged, locked with a password or without a text layer is a ReaderError, and so is the absence of pypdf.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from ...errors import ReaderError
from .decoding import clean
from .raw_document import Origin, RawDocument, ReadOptions

#: A line shorter than this share of the page's usual line ends its paragraph.
_SHORT_LINE = 0.6
_HYPHENATED = re.compile(r"[^\W\d_][-\u2010\u00ad]$")


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Yield the file's one document."""
    try:
        import pypdf
        from pypdf.errors import DependencyError
    except ImportError:
        raise ReaderError(f"{origin.name}: reading PDF needs pypdf; pip install 'kvstore[documents]'") from None
    with _silence("pypdf"):
        try:
            reader = pypdf.PdfReader(stream)
            if reader.is_encrypted and not reader.decrypt(""):
                raise ReaderError(f"{origin.name}: is locked with a password; store an unlocked copy")
            pages = [_page_text(page.extract_text()) for page in reader.pages]
            title = reader.metadata.title if reader.metadata is not None else None
        except (ReaderError, MemoryError):
            raise
        except DependencyError as error:
            raise ReaderError(f"{origin.name}: is encrypted, and {error}; store an unlocked copy") from None
        except Exception as error:  # on a damaged file pypdf fails in as many ways as there are to damage one
            raise ReaderError(
                f"{origin.name}: is damaged or no PDF ({type(error).__name__}: {error}); open it and save it anew"
            ) from None
    text = "\n\n".join(filter(None, pages))
    if not text:
        raise ReaderError(f"{origin.name}: has no text layer ({len(pages)} pages of images); run OCR first")
    title = " ".join(clean(title).split()) if isinstance(title, str) else ""
    yield RawDocument(origin.key, title or None, text + "\n", {"pages": len(pages)}, "text")


@contextmanager
def _silence(library: str) -> Iterator[None]:
    """Keep a library's warnings about a file out of our output: the one error raised says it all."""
    logger = logging.getLogger(library)
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def _page_text(page: str) -> str:
    """One page: lines joined into paragraphs."""
    lines = [" ".join(line.split()) for line in clean(page).split("\n")]
    lengths = sorted(map(len, filter(None, lines)))
    if not lengths:
        return ""
    usual = lengths[len(lengths) * 9 // 10]  # the ninth decile: full lines, whatever headings and tables there are
    paragraphs: list[str] = []
    goes_on = False
    for line in lines:
        if not line:
            goes_on = False
        elif not goes_on:
            paragraphs.append(line)
        elif _HYPHENATED.search(paragraphs[-1]):
            # A hyphen before a capital belongs to the name; before a small letter it only parts the syllables.
            paragraphs[-1] = (paragraphs[-1][:-1] if line[0].islower() else paragraphs[-1]) + line
        else:
            paragraphs[-1] += " " + line
        if line:
            goes_on = len(line) >= _SHORT_LINE * usual or _HYPHENATED.search(line) is not None
    return "\n\n".join(paragraphs)
