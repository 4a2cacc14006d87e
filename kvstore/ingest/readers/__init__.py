"""Readers: files of every format become documents, each in one of three canonical forms.

In: a path or bytes. Out: :class:`RawDocument` objects (plain text, Markdown or pairs), :class:`RawFact` objects for
documents that are there already, and :class:`ReadFailure` objects for bad rows. HTML, PDF and DOCX are converted, so
that later stages parse one form only. A file that cannot be read at all is a :class:`~kvstore.errors.ReaderError` that
names it, the place and the remedy. A format's module, and the library it needs, is imported when the first file of that
format is read. Formats and suffixes that are not ours may be those of installed packages (:mod:`.plugin_reader`).
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from math import inf
from pathlib import PurePosixPath
from typing import BinaryIO, cast

from ...entry_points import PluginGroup
from ...errors import InputError, ReaderError
from .code_languages import LANGUAGES
from .content_format import MAX_START_BYTES, detect_format
from .decoding import detect_marked_encoding
from .plugin_reader import PluginReader, make_plugin_reader
from .raw_document import (
    JSON,
    EnclosedFile,
    FormatReader,
    Item,
    LeftOut,
    Origin,
    RawDocument,
    RawFact,
    ReadFailure,
    ReadOptions,
    SkippedPart,
)

__all__ = [
    "FORMATS",
    "JSON",
    "READERS",
    "READING",
    "Item",
    "LeftOut",
    "RawDocument",
    "RawFact",
    "ReadFailure",
    "ReadOptions",
    "SkippedPart",
    "check_format",
    "describe_skipped",
    "find_format",
    "get_reader_version",
    "get_suffixes",
    "get_trusted_size",
    "formats",
    "read",
    "read_bytes",
]

#: The number of the rules by which files are read; raised when a reader makes another text of a file, so that the next
#: ingest reads again what older readers have read.
READING = 8

#: Bytes of the largest file that is read as a whole; formats of rows are read line by line and have no limit.
MAX_FILE_BYTES = 256 << 20


#: Files within files within a file that are read, and the bytes that all of them may have together.
_MAX_ENCLOSED_DEPTH = 3
_MAX_ENCLOSED_BYTES = 512 << 20


@dataclass(frozen=True)
class _Format:
    """Where a format's reader is, what its files are called, and how they are read.

    A suffix stands for the first format that has it. Files of ``has_rows`` are read line by line. A file of more than
    ``trusted_bytes`` bytes is read by another process, because the reader can be made to hang or crash; inf for none. The
    ``reader`` of an installed package stands in place of a module of ours.
    """

    module: str
    function: str
    suffixes: tuple[str, ...]
    has_rows: bool = False
    trusted_bytes: float = inf
    reader: FormatReader | None = None


#: Bytes of text up to which what a reader does with it takes no time worth another process.
_MAX_TRUSTED_TEXT_BYTES = 1 << 17

_FORMATS = {
    "text": _Format("text", "read", (".txt", ".text", ".log")),
    "markdown": _Format("markdown", "read", (".md", ".markdown", ".mdown", ".mkd", ".mdx", ".qmd", ".rmd")),
    # The parser may take a time that grows with the square of the length: the worst of the shapes tried (those of
    # tests/test_readers.py and 80 others) takes 0.7 s at this size, 46 s at eight times.
    "html": _Format("html", "read", (".html", ".htm", ".xhtml"), trusted_bytes=_MAX_TRUSTED_TEXT_BYTES),
    "rst": _Format("restructured_text", "read", (".rst",), trusted_bytes=_MAX_TRUSTED_TEXT_BYTES),
    "asciidoc": _Format("asciidoc", "read", (".adoc", ".asciidoc"), trusted_bytes=_MAX_TRUSTED_TEXT_BYTES),
    "org": _Format("org_mode", "read", (".org",), trusted_bytes=_MAX_TRUSTED_TEXT_BYTES),
    "man": _Format("man_page", "read", (".man", ".mdoc"), trusted_bytes=_MAX_TRUSTED_TEXT_BYTES),
    "xml": _Format(
        "xml_documents",
        "read",
        (".xml", ".dbk", ".docbook", ".tei", ".rss", ".atom", ".fb2", ".dita"),
        trusted_bytes=_MAX_TRUSTED_TEXT_BYTES,
    ),
    "latex": _Format("latex", "read", (".tex", ".ltx", ".latex"), trusted_bytes=_MAX_TRUSTED_TEXT_BYTES),
    "subtitles": _Format("subtitles", "read", (".srt", ".vtt"), trusted_bytes=_MAX_TRUSTED_TEXT_BYTES),
    "pdf": _Format("pdf", "read", (".pdf",), trusted_bytes=0),
    "docx": _Format("docx", "read", (".docx", ".docm", ".dotx", ".dotm"), trusted_bytes=0),
    "odt": _Format("odt", "read", (".odt", ".ott", ".fodt"), trusted_bytes=0),
    "odp": _Format("odp", "read", (".odp", ".otp", ".fodp"), trusted_bytes=0),
    "epub": _Format("epub", "read", (".epub",), trusted_bytes=0),
    "pptx": _Format("slides", "read", (".pptx", ".pptm", ".ppsx", ".ppsm", ".potx", ".potm"), trusted_bytes=0),
    "xlsx": _Format("sheets", "read", (".xlsx", ".xlsm", ".xltx", ".xltm"), trusted_bytes=0),
    "ods": _Format("sheets", "read", (".ods", ".ots", ".fods"), trusted_bytes=0),
    "rows": _Format("sheets", "read_rows", (".xlsx", ".xlsm", ".ods", ".fods"), trusted_bytes=0),
    "rtf": _Format("rtf", "read", (".rtf",), trusted_bytes=0),
    "mail": _Format("mail_messages", "read", (".eml",), trusted_bytes=0),
    "mbox": _Format("mail_messages", "read_mbox", (".mbox",), has_rows=True, trusted_bytes=0),
    "calendar": _Format("calendar_entries", "read", (".ics", ".ical"), trusted_bytes=_MAX_TRUSTED_TEXT_BYTES),
    "contacts": _Format("contact_cards", "read", (".vcf", ".vcard"), trusted_bytes=_MAX_TRUSTED_TEXT_BYTES),
    "bibtex": _Format("bibliography", "read", (".bib",), trusted_bytes=_MAX_TRUSTED_TEXT_BYTES),
    "notebook": _Format("notebook", "read", (".ipynb",), trusted_bytes=_MAX_TRUSTED_TEXT_BYTES),
    "code": _Format("source_code", "read", tuple(LANGUAGES), trusted_bytes=_MAX_TRUSTED_TEXT_BYTES),
    "csv": _Format("tabular", "read_rows", (".csv", ".tsv"), has_rows=True),
    "jsonl": _Format("json_lines", "read", (".jsonl", ".ndjson"), has_rows=True),
    "json": _Format("json_lines", "read_value", (".json",), trusted_bytes=_MAX_TRUSTED_TEXT_BYTES),
    "pairs": _Format("tabular", "read_pairs", (".csv", ".tsv")),
    "triples": _Format("triples", "read", (".jsonl", ".ndjson"), has_rows=True),
    "gzip": _Format("archives", "read_gzip", (".gz", ".tgz"), has_rows=True, trusted_bytes=0),
    "bzip2": _Format("archives", "read_bzip2", (".bz2", ".tbz", ".tbz2"), has_rows=True, trusted_bytes=0),
    "xz": _Format("archives", "read_xz", (".xz", ".txz"), has_rows=True, trusted_bytes=0),
    "zip": _Format("archives", "read_zip", (".zip",), has_rows=True, trusted_bytes=0),
    "tar": _Format("archives", "read_tar", (".tar",), has_rows=True, trusted_bytes=0),
}
#: The names that ``INGEST ... AS`` knows, besides those of the texts that systems keep of documents.
FORMATS = tuple(_FORMATS)
#: The format that a suffix stands for: the first that has it.
_FORMATS_BY_SUFFIX = {suffix: format for format, entry in reversed(_FORMATS.items()) for suffix in entry.suffixes}
#: Formats of texts with marks, which are texts as well.
_MARKUP_FORMATS = ("markdown", "rst", "asciidoc")
#: How those are read.
_WRITTEN_FORMAT = _Format("written_lines", "reader_of", (".jsonl", ".ndjson"), has_rows=True)


#: Those of installed packages. A stranger's reader is not trusted with a file of any size.
READERS = PluginGroup(
    "reader", get_reserved_names=lambda: (*FORMATS, *_list_written_formats()), convert=make_plugin_reader
)


def formats() -> tuple[str, ...]:
    """Every name that ``INGEST ... AS`` knows."""
    return (*FORMATS, *_list_written_formats(), *READERS.load_usable())


def _list_written_formats() -> list[str]:
    from ...systems import get_written_facts

    return [name for name, fact in get_written_facts().items() if fact.in_files]


def get_reader_version(format: str | None) -> str:
    """Another where another reader of an installed package reads files of a format; empty for ours."""
    plugin = None if format is None or format in _FORMATS else READERS.get(format)
    return "" if plugin is None else plugin.version


def check_format(format: str) -> None:
    """Raise an InputError, with the nearest name, if there is no format of this name."""
    _get_format(format)


def _get_format(format: str) -> _Format:
    if format in _FORMATS:
        return _FORMATS[format]
    if format in _list_written_formats():
        return _WRITTEN_FORMAT
    plugin = READERS.get(format)
    if plugin is not None:
        return _build_plugin_format(plugin)
    known_formats = formats()
    near_names = get_close_matches(format, known_formats, 1)
    hint = f"; did you mean {near_names[0]}?" if near_names else ""
    raise InputError(f"there is no format {format!r}{hint} (formats: {', '.join(known_formats)})")


def _build_plugin_format(plugin: PluginReader) -> _Format:
    return _Format("", "", plugin.suffixes, plugin.rows, trusted_bytes=0, reader=plugin.read)


def find_format(name: str) -> str | None:
    """The format that the suffix of a file name stands for, or None if it stands for none.

    >>> [find_format(name) for name in ("a.md", "_sources/faq.rst.txt", "LICENSE")]
    ['markdown', 'rst', None]
    """
    path = PurePosixPath(name)
    suffix = path.suffix.lower()
    own_format = _FORMATS_BY_SUFFIX.get(suffix)
    if own_format == "text":  # the source of a page, as sites offer it to be looked at: guide.rst.txt
        inner_format = _FORMATS_BY_SUFFIX.get(PurePosixPath(path.stem).suffix.lower())
        return inner_format if inner_format in _MARKUP_FORMATS else own_format
    if own_format is not None or not suffix:
        return own_format
    return next((format for format, plugin in READERS.load_usable().items() if suffix in plugin.suffixes), None)


def describe_skipped(name: str) -> str:
    """What a file that no format reads is counted by: its suffix.

    >>> describe_skipped("a/b.PNG"), describe_skipped("b")
    ('suffix .png', 'no suffix')
    """
    suffix = PurePosixPath(name).suffix.lower()
    return f"suffix {suffix}" if suffix else "no suffix"


def get_suffixes(format: str) -> tuple[str, ...]:
    """The suffixes of a format's files."""
    return _get_format(format).suffixes


def get_trusted_size(format: str | None) -> float:
    """Bytes of the largest file of a format (None: of text) whose reader cannot be made to hang or crash."""
    return _get_format(format or "text").trusted_bytes


def read(
    path: str | os.PathLike[str], key: str, format: str | None = None, options: Mapping[str, object] | None = None
) -> Iterator[Item]:
    """Read a file: yield its documents in order, and a failure for each bad row.

    ``key`` is the document's key (of a file of rows: the start of the keys of rows that have none of their own).
    ``format`` defaults to what the suffix says, for an unknown suffix to how the file begins (mail, a page), and else
    to text. ``options``: see ReadOptions.
    Raises InputError for an unknown format or option, and ReaderError while iterating.
    """
    return read_opened(lambda: open(path, "rb"), str(path), key, format, options)


def read_bytes(
    data: bytes, key: str, format: str | None = None, options: Mapping[str, object] | None = None
) -> Iterator[Item]:
    """Read a file's content that is already in memory; like :func:`read`, with ``key`` in place of the path."""
    return read_opened(partial(io.BytesIO, data), key, key, format, options)


def read_opened(
    open_stream: Callable[[], BinaryIO],
    name: str,
    key: str,
    format: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Iterator[Item]:
    """Read what is ``open_stream`` when the first document is asked for, and can be sought in; like :func:`read`, with its
    name as messages have it."""
    read_options = ReadOptions.parse(options)
    if format is not None:
        check_format(format)
    return _read_opened(open_stream, Origin(name, key), format, read_options)


def _read_opened(
    open_stream: Callable[[], BinaryIO], origin: Origin, format: str | None, options: ReadOptions
) -> Iterator[Item]:
    try:
        with open_stream() as stream:
            yield from _read_stream(stream, origin, format, options, _EnclosureState())
    except OSError as error:
        raise ReaderError(f"{origin.name}: cannot be read: {error.strerror or error}") from None


@dataclass
class _EnclosureState:
    """How deep in a file what is read stands, and the bytes of files within it that are read yet."""

    depth: int = 0
    bytes_left: int = _MAX_ENCLOSED_BYTES


def _read_stream(
    stream: BinaryIO, origin: Origin, format: str | None, options: ReadOptions, enclosure: _EnclosureState
) -> Iterator[Item]:
    start = stream.read(MAX_START_BYTES)
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    if size == len(start) and _is_blank(start):
        yield SkippedPart(origin.name, "empty")
        return
    chosen_format = format or find_format(origin.name)
    if chosen_format is None:
        if b"\0" in start and options.encoding is None and detect_marked_encoding(start) is None:
            raise ReaderError(f"{origin.name}: is a binary file of an unknown suffix; name its format with AS")
        chosen_format = detect_format(start) or "text"
    entry = _get_format(chosen_format)
    if size > MAX_FILE_BYTES and not entry.has_rows:
        raise ReaderError(
            f"{origin.name}: has {size:,} bytes; the limit of a file of this format is {MAX_FILE_BYTES:,}: divide it"
        )
    for item in _load_reader(chosen_format, entry)(stream, origin, options):
        if isinstance(item, EnclosedFile):
            yield from _read_enclosed(item, options, enclosure)
        else:
            yield item


def _is_blank(data: bytes) -> bool:
    """Whether a file has nothing but white space and a byte-order mark."""
    text = data.decode(detect_marked_encoding(data) or "utf-8", "replace").replace("\ufeff", "")
    return not text or text.isspace()


def _load_reader(format: str, entry: _Format) -> FormatReader:
    if entry.reader is not None:
        return entry.reader
    reader = getattr(import_module(f".{entry.module}", __package__), entry.function)
    return cast(FormatReader, reader(format) if entry is _WRITTEN_FORMAT else reader)


def _read_enclosed(enclosed: EnclosedFile, options: ReadOptions, enclosure: _EnclosureState) -> Iterator[Item]:
    """The documents of a file within a file, which if it cannot be read is a failure among its neighbours."""
    enclosure.bytes_left -= enclosed.size
    if enclosure.depth >= _MAX_ENCLOSED_DEPTH or enclosure.bytes_left < 0:
        limit = (
            f"{_MAX_ENCLOSED_DEPTH} files within files"
            if enclosure.depth >= _MAX_ENCLOSED_DEPTH
            else f"{_MAX_ENCLOSED_BYTES:,} bytes"
        )
        yield ReadFailure(enclosed.name, f"is not read: the limit of what a file encloses is {limit}; unpack it")
        return
    enclosure.depth += 1
    try:
        data = enclosed.read_content()
        if find_format(enclosed.name) is None and detect_format(data[:MAX_START_BYTES]) is None:
            yield SkippedPart(enclosed.name, describe_skipped(enclosed.name))
            return
        origin = Origin(enclosed.name, enclosed.key)
        for item in _read_stream(io.BytesIO(data), origin, None, options, enclosure):
            yield _add_enclosing_meta(item, enclosed) if isinstance(item, RawDocument) else item
    except ReaderError as error:
        yield ReadFailure(enclosed.name, str(error).removeprefix(f"{enclosed.name}: "))
    except Exception as error:  # what unpacks it fails in more ways than there are formats
        yield ReadFailure(enclosed.name, f"is damaged ({type(error).__name__}: {error}); unpack it and save it anew")
    finally:
        enclosure.depth -= 1


def _add_enclosing_meta(document: RawDocument, enclosed: EnclosedFile) -> RawDocument:
    """A document of a file within a file, with what that says of it."""
    other_key = document.other_key
    if other_key is None and enclosed.other_key is not None and document.key.startswith(enclosed.key):
        other_key = enclosed.other_key + document.key.removeprefix(enclosed.key)
    return replace(document, meta={**enclosed.meta, **document.meta}, other_key=other_key)
