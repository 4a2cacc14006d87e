"""Readers that convert files of every format into documents in one of three canonical forms.
An *enclosed* file is nested in another, such as an archive. A *trusted* file is so small that its reader cannot hang or
crash; others are read in another process.

In: a path or bytes. Out: :class:`RawDocument` objects (plain text, Markdown or pairs), :class:`RawFact` objects for
existing documents, and :class:`ReadFailure` objects for invalid rows. HTML, PDF and DOCX are converted, so that later
stages parse one form only. An unreadable file raises :class:`~kvstore.errors.ReaderError`, which names the file, the
position and the remedy. A format's module and its library are imported when the first file of that format is read.
Installed packages can add formats and suffixes (:mod:`.plugin_reader`).
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from math import inf
from pathlib import PurePosixPath
from typing import BinaryIO, cast

from ..errors import InputError, ReaderError, suggest
from ..extensions.entry_points import PluginGroup
from .code_languages import LANGUAGES
from .content_format import MAX_START_BYTES, detect_format
from .decoding import detect_bom_encoding
from .plugin_reader import make_plugin_reader
from .raw_document import (
    JSON,
    EnclosedFile,
    FormatReader,
    Item,
    NavigationPart,
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
    "NavigationPart",
    "RawDocument",
    "RawFact",
    "ReadFailure",
    "ReadOptions",
    "SkippedPart",
    "add_line_readers",
    "check_format",
    "describe_skipped",
    "find_format",
    "get_reader_version",
    "get_suffixes",
    "get_trusted_size",
    "list_formats",
    "read",
    "read_bytes",
]

#: The version of the reading rules. Raise it when a reader produces different text, so that the next ingest reads again
#: the files that older readers read.
READING = 16

#: The maximum size in bytes of a file that is read whole. Formats of rows are read line by line and have no limit.
MAX_FILE_BYTES = 256 << 20

#: The maximum depth of nested files, and the maximum total size in bytes of all files nested in one file.
_MAX_ENCLOSED_DEPTH = 3
_MAX_ENCLOSED_BYTES = 512 << 20


@dataclass(frozen=True)
class _Format:
    """The reader of a format, its suffixes, and how its files are read.

    A suffix selects the first format that has it. Files of a ``has_rows`` format are read line by line. A file of more
    than ``trusted_bytes`` bytes is read in another process, because its content could make the reader hang or crash;
    inf disables this. A ``reader`` that a package registered replaces ``module`` and ``function``.
    """

    module: str
    function: str
    suffixes: tuple[str, ...]
    has_rows: bool = False
    trusted_bytes: float = inf
    reader: FormatReader | None = None


#: Texts of up to this many bytes are parsed so fast that another process does not pay off.
_MAX_TRUSTED_TEXT_BYTES = 1 << 17
#: The time to parse invalid code grows with the cube of its length: 1 s for this many bytes, 20 s for 16 kB.
_MAX_TRUSTED_CODE_BYTES = 1 << 12

_FORMATS = {
    "text": _Format("text", "read", (".txt", ".text", ".log")),
    "markdown": _Format("markdown", "read", (".md", ".markdown", ".mdown", ".mkd", ".mdx", ".qmd", ".rmd")),
    # The parser's time can grow with the square of the length. The worst of all inputs tried (in
    # tests/test_readers.py, and 80 others) takes 0.7 s at this size and 46 s at eight times this size.
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
    "code": _Format("source_code", "read", tuple(LANGUAGES), trusted_bytes=_MAX_TRUSTED_CODE_BYTES),
    "csv": _Format("tabular", "read_rows", (".csv", ".tsv"), has_rows=True),
    "jsonl": _Format("json_lines", "read", (".jsonl", ".ndjson"), has_rows=True),
    "parquet": _Format("parquet", "read", (".parquet",), has_rows=True, trusted_bytes=0),
    "json": _Format("json_lines", "read_value", (".json",), trusted_bytes=_MAX_TRUSTED_TEXT_BYTES),
    "pairs": _Format("tabular", "read_pairs", (".csv", ".tsv")),
    "triples": _Format("triples", "read", (".jsonl", ".ndjson"), has_rows=True),
    "gzip": _Format("archives", "read_gzip", (".gz", ".tgz"), has_rows=True, trusted_bytes=0),
    "bzip2": _Format("archives", "read_bzip2", (".bz2", ".tbz", ".tbz2"), has_rows=True, trusted_bytes=0),
    "xz": _Format("archives", "read_xz", (".xz", ".txz"), has_rows=True, trusted_bytes=0),
    "zip": _Format("archives", "read_zip", (".zip",), has_rows=True, trusted_bytes=0),
    "tar": _Format("archives", "read_tar", (".tar",), has_rows=True, trusted_bytes=0),
}
#: The format names that ``INGEST ... AS`` accepts, except the formats of texts that systems derive from documents.
FORMATS = tuple(_FORMATS)
#: The format of each suffix; the first format that has the suffix wins.
_FORMATS_BY_SUFFIX = {suffix: format for format, entry in reversed(_FORMATS.items()) for suffix in entry.suffixes}
#: Text formats with markup, which are also text.
_MARKUP_FORMATS = ("markdown", "rst", "asciidoc")
#: Functions that return the readers which other packages have added, by format.
_line_reader_sources: list[Callable[[], Mapping[str, FormatReader]]] = []


#: Readers of installed packages. They are never trusted, even with small files.
READERS = PluginGroup("reader", get_reserved_names=lambda: (*FORMATS, *_get_line_readers()), convert=make_plugin_reader)


def list_formats() -> tuple[str, ...]:
    """Return all format names that ``INGEST ... AS`` accepts."""
    return (*FORMATS, *_get_line_readers(), *READERS.load_usable())


def add_line_readers(get_readers: Callable[[], Mapping[str, FormatReader]]) -> None:
    """Register a function that returns readers of further JSON Lines formats, by format name.

    Another kvstore package calls this, so that this package need not import it.
    """
    _line_reader_sources.append(get_readers)


def _get_line_readers() -> dict[str, FormatReader]:
    """Return the readers of JSON Lines formats that other kvstore packages registered, by format name."""
    return {name: reader for get_readers in _line_reader_sources for name, reader in get_readers().items()}


def get_reader_version(format: str | None) -> str:
    """Return the version of the plugin that reads a format; "" for built-in formats, unknown formats and None.

    Raises PluginError if the plugin is broken.
    """
    plugin = None if format is None or format in _FORMATS else READERS.get(format)
    return "" if plugin is None else plugin.version


def check_format(format: str) -> None:
    """Raise InputError, which suggests the nearest name, for an unknown format; PluginError if its plugin is broken."""
    _get_format(format)


def _get_format(format: str) -> _Format:
    """Return a format by its name: a built-in format, one that another kvstore package registered, or a plugin's.

    Raises InputError, with the nearest name if any, for an unknown name, and PluginError if the plugin is broken.
    """
    if format in _FORMATS:
        return _FORMATS[format]
    line_reader = _get_line_readers().get(format)
    if line_reader is not None:
        return _Format(module="", function="", suffixes=(".jsonl", ".ndjson"), has_rows=True, reader=line_reader)
    plugin = READERS.get(format)
    if plugin is not None:  # its files are never trusted (trusted_bytes is 0), so they are read in another process
        return _Format("", "", plugin.suffixes, plugin.has_rows, trusted_bytes=0, reader=plugin.read)
    known_formats = list_formats()
    suggestion = suggest(format, known_formats)
    hint = f"; did you mean {suggestion}?" if suggestion else ""
    raise InputError(f"there is no format {format!r}{hint} (formats: {', '.join(known_formats)})")


def find_format(name: str) -> str | None:
    """Return the format that the suffix of a file name selects, or None if no format has the suffix.

    A markup suffix before ``.txt`` wins.

    >>> [find_format(name) for name in ("a.md", "_sources/faq.rst.txt", "LICENSE")]
    ['markdown', 'rst', None]
    """
    path = PurePosixPath(name)
    suffix = path.suffix.lower()
    builtin_format = _FORMATS_BY_SUFFIX.get(suffix)
    if builtin_format == "text":  # the source of a page as some sites publish it: guide.rst.txt
        inner_format = _FORMATS_BY_SUFFIX.get(PurePosixPath(path.stem).suffix.lower())
        return inner_format if inner_format in _MARKUP_FORMATS else builtin_format
    if builtin_format is not None or not suffix:
        return builtin_format
    return next((format for format, plugin in READERS.load_usable().items() if suffix in plugin.suffixes), None)


def describe_skipped(name: str) -> str:
    """Return the label under which a skipped file of an unknown format is counted: its suffix.

    >>> describe_skipped("a/b.PNG"), describe_skipped("b")
    ('suffix .png', 'no suffix')
    """
    suffix = PurePosixPath(name).suffix.lower()
    return f"suffix {suffix}" if suffix else "no suffix"


def get_suffixes(format: str) -> tuple[str, ...]:
    """Return the file name suffixes that select a format, such as ``.md``. Raises InputError for an unknown format."""
    return _get_format(format).suffixes


def get_trusted_size(format: str | None) -> float:
    """Return the file size in bytes up to which a format's reader is safe: it neither hangs nor crashes.

    A larger file is read in another process. The result is infinite if the reader is always safe. A ``format`` of None
    is ``text``. Raises InputError for an unknown format.
    """
    return _get_format(format or "text").trusted_bytes


def read(
    path: str | os.PathLike[str], key: str, format: str | None = None, options: Mapping[str, object] | None = None
) -> Iterator[Item]:
    """Read a file: yield its documents (or facts) in order, skipped parts, and failures of rows and nested files.

    ``key`` is the document's key; in a file of many documents, it is the prefix of keys of rows without a key.
    ``format`` defaults to the format of the suffix. If the suffix is unknown, the start of the file decides (mail,
    HTML), and the fallback is text. ``options`` are those of ``INGEST ... WITH (...)``, such as ``encoding``. Raises
    InputError for an unknown format or option, and ReaderError while iterating.
    """
    return read_stream(lambda: open(path, "rb"), str(path), key, format, options)


def read_bytes(
    data: bytes, key: str, format: str | None = None, options: Mapping[str, object] | None = None
) -> Iterator[Item]:
    """Read a file's content from memory: yield its documents (or facts), skipped parts and failures.

    ``key`` is the document's key, and its suffix selects the format unless ``format`` names it. ``options`` are those
    of ``INGEST ... WITH (...)``, such as ``encoding``. Raises InputError for an unknown format or option, and
    ReaderError while iterating.
    """
    return read_stream(partial(io.BytesIO, data), key, key, format, options)


def read_stream(
    open_stream: Callable[[], BinaryIO],
    name: str,
    key: str,
    format: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Iterator[Item]:
    """Read a file from a seekable stream: yield its documents (or facts), skipped parts and failures.

    ``open_stream`` opens the stream when the first document is requested. ``name`` is the file name in messages; its
    suffix, or else the start of the file, selects the format unless ``format`` names it. ``key`` is the document's key,
    or, in a file of many documents, the prefix of the keys of rows without a key. ``options`` are those of
    ``INGEST ... WITH (...)``. Raises InputError for an unknown format or option, and ReaderError while iterating.
    """
    read_options = ReadOptions.parse(options)
    if format is not None:
        check_format(format)
    return _iter_items(open_stream, Origin(name, key), format, read_options)


def _iter_items(
    open_stream: Callable[[], BinaryIO], origin: Origin, format: str | None, options: ReadOptions
) -> Iterator[Item]:
    """Open a stream and yield its documents, facts about stored documents (triples), failures and skipped parts.

    If ``format`` is None, the file's name or its first bytes determine it. Raises ReaderError if it cannot be read.
    This generator is separate from ``read_stream``, which checks its arguments before the iteration begins.
    """
    try:
        with open_stream() as stream:
            yield from _read_file(stream, origin, format, options, _EnclosureState())
    except OSError as error:
        raise ReaderError(f"{origin.name}: cannot be read: {error.strerror or error}") from None


@dataclass
class _EnclosureState:
    """The nesting depth of the file being read, and the bytes of nested files that may still be read."""

    depth: int = 0
    bytes_left: int = _MAX_ENCLOSED_BYTES


def _read_file(
    stream: BinaryIO, origin: Origin, format: str | None, options: ReadOptions, enclosure: _EnclosureState
) -> Iterator[Item]:
    """Yield the documents, facts, failures and skipped parts of one file, and of the files nested in it.

    A fact is a statement about a stored document, such as its triples. Without ``format``, the name or the first bytes
    of the file determine it. ``enclosure`` counts the depth and the bytes of nested files, which are limited. Raises
    ReaderError if the file cannot be read.
    """
    start = stream.read(MAX_START_BYTES)
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    if size == len(start) and _is_blank(start):
        yield SkippedPart(origin.name, "empty")
        return
    format_name = format or find_format(origin.name)
    if format_name is None:
        if b"\0" in start and options.encoding is None and detect_bom_encoding(start) is None:
            raise ReaderError(
                f"{origin.name}: is a binary file in an unknown format; convert it, or specify its format with AS "
                "(on the command line: --as)"
            )
        format_name = detect_format(start) or "text"
    file_format = _get_format(format_name)
    if size > MAX_FILE_BYTES and not file_format.has_rows:
        raise ReaderError(
            f"{origin.name}: has {size:,} bytes; the limit for this format is {MAX_FILE_BYTES:,}: split it"
        )
    for item in _load_reader(file_format)(stream, origin, options):
        if isinstance(item, EnclosedFile):
            yield from _read_enclosed(item, options, enclosure)
        else:
            yield item


def _is_blank(data: bytes) -> bool:
    """True if a file is empty or contains only white space and byte-order marks."""
    text = data.decode(detect_bom_encoding(data) or "utf-8", "replace").replace("\ufeff", "")
    return not text or text.isspace()


def _load_reader(format: _Format) -> FormatReader:
    """Return the function that reads files of a format; its module is imported on first use."""
    if format.reader is not None:
        return format.reader
    return cast(FormatReader, getattr(import_module(f".{format.module}", __package__), format.function))


def _read_enclosed(enclosed_file: EnclosedFile, options: ReadOptions, enclosure: _EnclosureState) -> Iterator[Item]:
    """Yield the documents, facts, failures and skipped parts of a nested file, such as a file of an archive.

    A file that cannot be read, or not to its end, yields a failure instead of raising. A file of an unknown format is
    a skipped part. ``enclosure`` counts the depth and the bytes of nested files, and is updated.
    """
    enclosure.bytes_left -= enclosed_file.size
    if enclosure.depth >= _MAX_ENCLOSED_DEPTH or enclosure.bytes_left < 0:
        limit = (
            f"{_MAX_ENCLOSED_DEPTH} levels"
            if enclosure.depth >= _MAX_ENCLOSED_DEPTH
            else f"{_MAX_ENCLOSED_BYTES:,} bytes in total"
        )
        yield ReadFailure(enclosed_file.name, f"was not read: files within a file are limited to {limit}; unpack it")
        return
    enclosure.depth += 1
    try:
        content = enclosed_file.read_content()
        if find_format(enclosed_file.name) is None and detect_format(content[:MAX_START_BYTES]) is None:
            yield SkippedPart(enclosed_file.name, describe_skipped(enclosed_file.name))
            return
        origin = Origin(enclosed_file.name, enclosed_file.key)
        for item in _read_file(io.BytesIO(content), origin, format=None, options=options, enclosure=enclosure):
            yield _add_enclosing_meta(item, enclosed_file) if isinstance(item, RawDocument) else item
    except ReaderError as error:
        yield ReadFailure(enclosed_file.name, str(error).removeprefix(f"{enclosed_file.name}: "))
    except Exception as error:  # decompressors raise many kinds of exceptions
        yield ReadFailure(
            enclosed_file.name, f"is damaged ({type(error).__name__}: {error}); unpack it and save it again"
        )
    finally:
        enclosure.depth -= 1


def _add_enclosing_meta(document: RawDocument, enclosed_file: EnclosedFile) -> RawDocument:
    """Return a document of a nested file with the metadata and the ``other_key`` that the outer file assigned to it.

    The document's own values take precedence. ``other_key`` replaces ``key`` if another document has that key. The key
    of a document begins with the key of its file, so its ``other_key`` begins with the ``other_key`` of the file.
    """
    other_key = document.other_key
    if other_key is None and enclosed_file.other_key is not None and document.key.startswith(enclosed_file.key):
        other_key = enclosed_file.other_key + document.key.removeprefix(enclosed_file.key)
    return replace(document, meta={**enclosed_file.meta, **document.meta}, other_key=other_key)
