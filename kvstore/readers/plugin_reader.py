"""Readers of installed packages, registered as entry points ``kvstore.readers`` under the names of their formats.

In: the object of an entry point: a module or any other object with ``suffixes``, such as ``(".adoc",)``, and a function
``read(stream, origin, options)`` (:mod:`.raw_document`). If its ``rows`` attribute is true, its files are read line by
line and can be of any size. Out: a reader whose failures are ReaderErrors that name the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from ..errors import KvstoreError, PluginError, ReaderError
from ..extensions.entry_points import Plugin, format_error
from .raw_document import FormatReader, Item, Origin, RawDocument, RawFact, ReadFailure, ReadOptions


@dataclass(frozen=True, slots=True)
class PluginReader:
    """A reader of an installed package; ``version`` is the name and version of the package.

    If ``has_rows``, its files are read line by line.
    """

    suffixes: tuple[str, ...]
    has_rows: bool
    read: FormatReader
    version: str


def make_plugin_reader(plugin: Plugin, reader: Any) -> PluginReader:
    """Return the reader of an installed package; ``reader`` is the object of its entry point.

    Raises PluginError if the object is not a reader.
    """
    suffixes = getattr(reader, "suffixes", None)
    if not isinstance(suffixes, (tuple, list)) or not all(_is_suffix(suffix) for suffix in suffixes):
        raise PluginError(f"its suffixes must be a tuple of lowercase suffixes such as '.adoc', not {suffixes!r:.80}")
    read = getattr(reader, "read", None)
    if not callable(read):
        raise PluginError("it has no function read(stream, origin, options)")

    def read_guarded(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[Item]:
        """Call the reader of the package; any failure becomes a ReaderError that names the file and the package."""
        try:
            for item in read(stream, origin, options):
                if not isinstance(item, (RawDocument, RawFact, ReadFailure)):
                    raise PluginError(f"it yielded {item!r:.80}, which is not a kvstore.RawDocument")
                yield item
        except (MemoryError, ReaderError):
            raise
        except KvstoreError as error:
            raise ReaderError(f"{origin.name}: {plugin}: {error}") from error
        except Exception as error:
            raise ReaderError(f"{origin.name}: {plugin} failed ({format_error(error)})") from error

    version = f"{plugin.package} {plugin.version}"
    return PluginReader(tuple(suffixes), bool(getattr(reader, "rows", False)), read_guarded, version)


def _is_suffix(value: object) -> bool:
    """True if a value is a suffix such as ``.adoc``, in lowercase."""
    return isinstance(value, str) and value.startswith(".") and len(value) > 1 and value == value.lower()
