"""RTF: a document of the Rich Text Format becomes plain text, its paragraphs with a blank line between them.

In: an ``.rtf`` file. Out: one document of format ``text``; the title is that of its information group. A file that is
no RTF, or has no text, is a ReaderError, and so is the absence of striprtf.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from functools import partial
from typing import BinaryIO

from ...errors import ReaderError
from ...extras import required
from .decoding import clean
from .raw_document import Origin, RawDocument, ReadOptions

_TITLE = re.compile(r"\{\\title\s([^{}]{1,1000})\}")
_MACINTOSH = re.compile(r"\\ansicpg10000(?!\d) ?")
_ROW = re.compile(r".*\|\s*$")


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Yield the file's one document."""
    library = required("striprtf.striprtf", "documents", f"{origin.name}: reading RTF", error=ReaderError)
    plain: Callable[..., str] = library.rtf_to_text
    data = stream.read().removeprefix(BOM_UTF8)
    if not data.strip():
        raise ReaderError(f"{origin.name}: is empty; there is nothing to store")
    if not data.lstrip().startswith(b"{\\rtf"):
        raise ReaderError(f"{origin.name}: is no RTF: it does not begin with {{\\rtf; read it AS text")
    # What is no ASCII is written in escapes; bytes that are none all the same are of the code page that most declare.
    markup = data.decode("cp1252", "replace")
    if _MACINTOSH.search(markup[:1000]):  # a code page that Python knows by another name
        markup, plain = _MACINTOSH.sub("", markup, count=1), partial(plain, encoding="mac_roman")
    try:
        text = clean(plain(markup, errors="replace")).replace("\0", "")
        title = _TITLE.search(markup)
        named = " ".join(plain(f"{{\\rtf1 {title[1]}}}", errors="replace").split()) if title else ""
    except Exception as error:  # a damaged file fails in the library in its own ways
        raise ReaderError(f"{origin.name}: is damaged ({type(error).__name__}: {error}); save it anew") from None
    paragraphs: list[str] = []
    for line in filter(None, (" ".join(line.split()) for line in text.split("\n"))):
        if paragraphs and _ROW.match(line) and _ROW.match(paragraphs[-1]):
            paragraphs[-1] += f"\n{line}"  # the rows of a table stand together
        else:
            paragraphs.append(line)
    if not paragraphs:
        raise ReaderError(f"{origin.name}: has no text; there is nothing to store")
    yield RawDocument(origin.key, named or None, "\n\n".join(paragraphs) + "\n", {}, "text")
