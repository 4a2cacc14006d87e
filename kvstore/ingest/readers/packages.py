"""Packages: ZIP archives, and formats whose files are such (DOCX, EPUB, OpenDocument, PPTX, XLSX).

In: a stream. Out: the archive, opened, once it is known that unpacking it stays within bounds. What is packed small may
unpack to any size, but never to more than its directory declares; an archive that declares more than
``LARGEST_UNPACKED`` bytes, or more than ``MAX_PARTS`` parts, is a ReaderError before anything is unpacked.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, BinaryIO
from xml.etree.ElementTree import Element

from ...errors import ReaderError
from .xml_tree import parse_xml

#: Bytes of the largest package, unpacked.
LARGEST_UNPACKED = 512 << 20
#: Parts of the largest package.
MAX_PARTS = 100_000

_OLE_SIGNATURE = b"\xd0\xcf\x11\xe0"
_ENCRYPTED_FLAG = 1


class Package:
    """A package of parts, each read when it is asked for; ``content_type`` is what messages call the format."""

    def __init__(self, stream: BinaryIO, name: str, kind: str) -> None:
        """Raises ReaderError for what is locked, too large, or no package at all."""
        stream.seek(0)
        if stream.read(4) == _OLE_SIGNATURE:
            suffix = kind.lower()
            raise ReaderError(
                f"{name}: is an old .{suffix.removesuffix('x')} file or locked with a password; save it as an open "
                f".{suffix}"
            )
        stream.seek(0)
        self._name, self._kind = name, kind
        try:
            self._archive = zipfile.ZipFile(stream)
        except Exception as error:  # a damaged directory fails in more ways than BadZipFile
            raise _make_damage_error(name, kind, error) from None
        entries = self._archive.infolist()
        num_unpacked_bytes = sum(entry.file_size for entry in entries)
        if num_unpacked_bytes > LARGEST_UNPACKED or len(entries) > MAX_PARTS:
            raise ReaderError(
                f"{name}: unpacks to {num_unpacked_bytes:,} bytes in {len(entries):,} parts; the limit is "
                f"{LARGEST_UNPACKED:,} "
                f"bytes in {MAX_PARTS:,} parts: divide it"
            )
        if any(entry.flag_bits & _ENCRYPTED_FLAG for entry in entries):
            raise ReaderError(f"{name}: is locked with a password; save it without one")
        self.parts = tuple(entry for entry in entries if not entry.is_dir())
        self._names = {entry.filename for entry in self.parts}

    def __contains__(self, part: str) -> bool:
        """Whether there is a part of this name."""
        return part in self._names

    def read_part(self, part: str) -> bytes:
        """The bytes of a part; raises KeyError where there is none, and what zipfile raises for a damaged one."""
        return self._archive.read(part)

    def read_tree(self, part: str) -> Element:
        """A part of XML; raises as :meth:`read_part`, and XmlError."""
        return parse_xml(self.read_part(part))

    def convert_errors(self) -> AbstractContextManager[None]:
        """While its parts are read: see :func:`convert_errors`."""
        return convert_errors(self._name, self._kind)


def open_main_part(
    stream: BinaryIO, package_class: Any, part_factory: Any, part_class: type, content_types: Iterable[str]
) -> Any:
    """The main part of a package of Office Open XML; raises ValueError where it is none that is ``part_class``.

    ``package_class`` is the class by which a library opens one, ``part_factory`` its factory of parts, which learns that those of
    ``content_types``, content types that the library does not know, are made as what is ``part_class`` is.
    """
    for content_type in content_types:
        part_factory.part_type_for.setdefault(content_type, part_class)
    part = package_class.open(stream).main_document_part
    if not isinstance(part, part_class):
        raise ValueError(f"its main part is {part.content_type}")
    return part


@contextmanager
def convert_errors(name: str, kind: str) -> Iterator[None]:
    """While a file is read that may be damaged: whatever fails then, but a want of memory, is a ReaderError."""
    try:
        yield
    except (ReaderError, MemoryError):
        raise
    except Exception as error:  # a damaged package fails in zipfile, zlib, XML and libraries, each in its own ways
        raise _make_damage_error(name, kind, error) from None


def _make_damage_error(name: str, kind: str, error: Exception) -> ReaderError:
    description = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return ReaderError(f"{name}: is damaged or no {kind} ({description}); open it and save it anew")
