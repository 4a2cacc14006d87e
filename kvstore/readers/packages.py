"""ZIP archives, and the formats that are ZIP packages (DOCX, EPUB, OpenDocument, PPTX, XLSX).
A *part* is a file in the package.

In: a stream. Out: the open archive, after a check of its unpacked size. A small archive can unpack to any size, but
never to more than its directory declares. An archive that declares more than ``MAX_UNPACKED_BYTES`` bytes or more than
``MAX_PARTS`` parts is a ReaderError before anything is unpacked.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, BinaryIO
from xml.etree.ElementTree import Element

from ..errors import ReaderError
from .xml_tree import parse_xml

#: The maximum unpacked size of a package in bytes.
MAX_UNPACKED_BYTES = 512 << 20
#: The maximum number of parts of a package.
MAX_PARTS = 100_000

_OLE_SIGNATURE = b"\xd0\xcf\x11\xe0"
_ENCRYPTED_FLAG = 1


class Package:
    """A package of parts, which are read on demand; ``parts`` has their entries in the directory of the archive."""

    def __init__(self, stream: BinaryIO, file_name: str, format_name: str) -> None:
        """Open the package. Raises ReaderError if it is locked with a password, too large, or not a package.

        ``file_name`` is the name of the file in messages, and ``format_name`` the name of its format, such as ``DOCX``.
        """
        stream.seek(0)
        if stream.read(len(_OLE_SIGNATURE)) == _OLE_SIGNATURE:  # the container of old and of encrypted documents
            suffix = format_name.lower()
            raise ReaderError(
                f"{file_name}: is an old .{suffix.removesuffix('x')} file or protected by a password; "
                f"save it as an unprotected .{suffix} file"
            )
        stream.seek(0)
        self._file_name, self._format_name = file_name, format_name
        try:
            self._archive = zipfile.ZipFile(stream)
        except Exception as error:  # a damaged directory raises more exceptions than BadZipFile
            raise _make_damage_error(file_name, format_name, error) from None
        entries = self._archive.infolist()
        num_unpacked_bytes = sum(entry.file_size for entry in entries)
        if num_unpacked_bytes > MAX_UNPACKED_BYTES or len(entries) > MAX_PARTS:
            raise ReaderError(
                f"{file_name}: unpacks to {num_unpacked_bytes:,} bytes in {len(entries):,} parts; the limit is "
                f"{MAX_UNPACKED_BYTES:,} bytes in {MAX_PARTS:,} parts: split it"
            )
        if any(entry.flag_bits & _ENCRYPTED_FLAG for entry in entries):
            raise ReaderError(f"{file_name}: is protected by a password; save it without one")
        self.parts = tuple(entry for entry in entries if not entry.is_dir())
        self._names = {entry.filename for entry in self.parts}

    def __contains__(self, part: str) -> bool:
        """True if the package contains a part with the path ``part``."""
        return part in self._names

    def read_part(self, part: str) -> bytes:
        """Return the bytes of the part with the path ``part``.

        Raises KeyError if the part is missing, and the exceptions of zipfile if it is damaged.
        """
        return self._archive.read(part)

    def read_tree(self, part: str) -> Element:
        """Return the root element of the XML part with the path ``part``.

        Raises KeyError if the part is missing, and the exceptions of zipfile or XmlError if it is damaged.
        """
        return parse_xml(self.read_part(part))

    def convert_errors(self) -> AbstractContextManager[None]:
        """Return a context manager that turns any failure to read the package, except MemoryError, into ReaderError."""
        return convert_errors(self._file_name, self._format_name)


def open_main_part(
    stream: BinaryIO, package_class: Any, part_factory: Any, part_class: type, content_types: Iterable[str]
) -> Any:
    """Return the main part of an Office Open XML package. Raises ValueError if it is not a ``part_class``.

    ``package_class`` and ``part_factory`` belong to the library, such as python-docx, which knows only the content type
    of documents. The factory is changed to read parts of these ``content_types``, such as templates, in the same way.
    """
    for content_type in content_types:
        part_factory.part_type_for.setdefault(content_type, part_class)
    part = package_class.open(stream).main_document_part
    if not isinstance(part, part_class):
        raise ValueError(f"its main part is {part.content_type}")
    return part


@contextmanager
def convert_errors(file_name: str, format_name: str) -> Iterator[None]:
    """Raise ReaderError, with the file and its format, for any exception but MemoryError in the ``with`` block."""
    try:
        yield
    except (ReaderError, MemoryError):
        raise
    except Exception as error:  # zipfile, zlib, XML parsers and libraries all raise different exceptions
        raise _make_damage_error(file_name, format_name, error) from None


def _make_damage_error(file_name: str, format_name: str, error: Exception) -> ReaderError:
    """Return the error for a file that a library cannot read as ``format_name``, such as DOCX."""
    description = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return ReaderError(f"{file_name}: is damaged or not {format_name} ({description}); open it and save it again")
