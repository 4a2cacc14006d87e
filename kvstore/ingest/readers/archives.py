"""Archives: the files in a ``.zip``, and the one in a ``.gz``, are read as if they stood alone.

In: a ZIP archive, or a file packed by gzip. Out: the documents of its files; the key of each is that of the archive
and its path there (``papers.zip/2024/one.pdf``), of a packed file the key of the file. Of an archive the files of known
suffixes are read that are not hidden. A file that cannot be read is a ReadFailure among its neighbours; an archive that
is damaged or locked, that unpacks to more than the limits of :mod:`.packages` allow, or that has no file of a known
suffix, is a ReaderError.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import PurePosixPath
from typing import BinaryIO

from ...errors import ReaderError
from .packages import LARGEST_UNPACKED, Package
from .raw_document import Enclosed, Origin, ReadOptions

_BLOCK = 1 << 20


def read_gzip(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[Enclosed]:
    """Yield the file that is packed."""
    data = bytearray()
    try:
        with gzip.GzipFile(fileobj=stream) as packed:
            while block := packed.read(_BLOCK):
                data += block
                if len(data) > LARGEST_UNPACKED:
                    raise ReaderError(
                        f"{origin.name}: unpacks to more than {LARGEST_UNPACKED:,} bytes, which is the limit: divide it"
                    )
    except (OSError, EOFError, zlib.error) as error:
        raise ReaderError(f"{origin.name}: is damaged or not packed by gzip ({error}); pack it anew") from None
    name = origin.name.removesuffix(PurePosixPath(origin.name).suffix)
    yield Enclosed(name, origin.key, len(data), partial(bytes, data), {})


def read_zip(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[Enclosed]:
    """Yield the files of the archive, in the order of their paths."""
    from . import format_of

    package = Package(stream, origin.name, "ZIP archive")
    found = False
    for part in sorted(package.parts, key=lambda part: part.filename):
        path = part.filename.replace("\\", "/").lstrip("/")
        hidden = any(step.startswith(("__MACOSX", ".")) for step in path.split("/"))
        if hidden or format_of(path) is None:
            continue
        found = True
        content = partial(package.read, part.filename)
        yield Enclosed(f"{origin.name}/{path}", f"{origin.key}/{path}", part.file_size, content, {})
    if not found:
        raise ReaderError(f"{origin.name}: has no file of a known suffix; unpack it, and name the format with AS")
