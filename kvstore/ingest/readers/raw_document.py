"""What every reader takes and yields: where the bytes come from, the options, documents and row-level failures.

A reader is a function ``(stream, origin, options)`` that yields :class:`RawDocument` objects, or :class:`RawFact`
objects for documents that are there already, in file order. What makes the whole file unreadable raises
:class:`~kvstore.errors.ReaderError`; a single bad row of a file of many documents is yielded as a :class:`ReadFailure`
between its neighbours, which are not lost.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import BinaryIO, TypeAlias

from ...errors import InputError

JSON: TypeAlias = "str | int | float | bool | list[JSON] | dict[str, JSON] | None"


@dataclass(frozen=True)
class LeftOut:
    """A part of a page that is no content: the element, why it was left out, its characters and its first words."""

    element: str
    reason: str
    characters: int
    text: str


@dataclass(frozen=True)
class RawDocument:
    """A document as it was read, before it is cut into chunks.

    ``key`` names it in the store. ``text`` is in the form that ``format`` says: ``text`` (plain, blank lines between
    paragraphs), ``markdown``, or ``pairs`` (one CSV line ``child,parent`` an edge, the tree's name in ``meta``).
    ``left_out`` is what of it was taken for navigation. ``other_key`` names it where another document of the same
    ingest has its key already, and says something else.
    """

    key: str
    title: str | None
    text: str
    meta: dict[str, JSON]
    format: str
    left_out: tuple[LeftOut, ...] = ()
    other_key: str | None = None


#: Titles that a program gives a new file, and what one puts before and behind the name of a file that it prints.
_DEFAULT_TITLE_PATTERN = re.compile(
    r"\(?(?:untitled|anonymous|unspecified|unknown|unbenannt|ohne titel|sans titre|sin título|senza titolo)\)?"
    r"(?: (?:document|spreadsheet|presentation))?[ -]?\d*"
    r"|(?:document|dokument|book|mappe|presentation|präsentation) ?\d+|slide ?1"
    r"|(?:powerpoint|pptxgenjs)[ -](?:presentation|präsentation)|présentation powerpoint|presentación de powerpoint",
    re.IGNORECASE,
)
_PRINTED_NAME_PATTERN = re.compile(
    r"Microsoft (?:Office )?(?:Word|PowerPoint|Excel) - |(?<=\w)\.(?:docx?|pptx?|xlsx?|odt|rtf|tex|dvi|indd|qxd)\Z"
)


def clean_property_title(title: str | None) -> str:
    """The title that the properties of a file have, on one line; empty where nobody wrote one.

    >>> clean_property_title("Microsoft Word - Lease of shed 3.doc"), clean_property_title("Untitled 1")
    ('Lease of shed 3', '')
    """
    cleaned = _PRINTED_NAME_PATTERN.sub("", " ".join((title or "").split()))
    return "" if _DEFAULT_TITLE_PATTERN.fullmatch(cleaned) else cleaned


def choose_other_key(key: str, default_key: str, used_keys: set[str]) -> str | None:
    """The ``other_key`` of a row: that of its place, where its own is another and no row before has that.

    A key that the file itself gives twice is a fault of the file, and told. ``used_keys`` are the keys of the rows before,
    to which this one's is added.
    """
    if key == default_key or key in used_keys:
        return None
    used_keys.add(key)
    return default_key


@dataclass(frozen=True)
class ReadFailure:
    """One row that is no document: ``place`` is ``file:line``, ``reason`` says what is wrong and what to do."""

    place: str
    reason: str


@dataclass(frozen=True)
class RawFact:
    """What somebody states of the document of this key: ``line`` as in an export (:mod:`kvstore.changes.facts`),
    not checked yet; ``place`` is ``file:line``."""

    key: str
    line: Mapping[str, JSON]
    place: str


@dataclass(frozen=True)
class SkippedPart:
    """A part of a file that is not read, though the file is: ``reason`` is what such parts are counted by, as files of
    a folder are (``suffix .png``). ``detail``, if anything, is what is said of this one."""

    place: str
    reason: str
    detail: str = ""


Item: TypeAlias = RawDocument | RawFact | ReadFailure | SkippedPart


@dataclass(frozen=True)
class EnclosedFile:
    """A file within a file, such as an attachment, which is read as if it stood alone.

    ``name`` is what messages call it, ``key`` the key of its document (of its rows: the start of their keys), ``size``
    its bytes, which ``read_content`` gives; what that raises makes it unreadable. ``meta`` is put into the metadata of its
    documents where they have no field of that name; ``other_key`` is that of :class:`RawDocument`.
    """

    name: str
    key: str
    size: int
    read_content: Callable[[], bytes]
    meta: Mapping[str, JSON]
    other_key: str | None = None


@dataclass(frozen=True)
class Origin:
    """Where bytes come from: ``name`` is what messages call the file, ``key`` the key of its document."""

    name: str
    key: str


@dataclass(frozen=True)
class ReadOptions:
    """The options of ``INGEST ... WITH (...)`` that readers know; each reader looks at its own.

    ``encoding``: character encoding of the file, any text codec of Python (of formats that are text).
    ``delimiter``: what stands between two cells, one character or ``tab`` (csv, pairs).
    ``text``, ``title``, ``key``: names of the columns or fields that hold them (csv, jsonl, rows).
    ``child``, ``parent``: names of the two columns (pairs). ``tree``: the tree the pairs go into (pairs).
    ``sheet``: the sheet whose rows are documents, where it is not the first (rows).
    ``navigation``: ``keep`` leaves nothing of a page out, ``drop`` (as without it) what is navigation (html), running
    heads and page numbers (pdf), or dates, footers and numbers of slides (pptx, odp).
    """

    encoding: str | None = None
    delimiter: str | None = None
    text: str | None = None
    title: str | None = None
    key: str | None = None
    child: str | None = None
    parent: str | None = None
    tree: str | None = None
    sheet: str | None = None
    navigation: str | None = None

    @classmethod
    def parse(cls, options: Mapping[str, object] | None) -> ReadOptions:
        """Check ``options`` and make them a :class:`ReadOptions`; an unknown name or a bad value is an InputError."""
        option_names = [field.name for field in fields(cls)]
        values: dict[str, str] = {}
        for name, value in (options or {}).items():
            if name not in option_names:
                near_names = get_close_matches(name, option_names, 1)
                hint = f"; did you mean {near_names[0]}?" if near_names else ""
                raise InputError(f"no reader has an option {name!r}{hint} (options: {', '.join(option_names)})")
            if not isinstance(value, str) or not value:
                raise InputError(f"the reader option {name} must be a string that is not empty, not {value!r}")
            values[name] = value
        if "encoding" in values:
            _check_encoding(values["encoding"])
        if "delimiter" in values:
            values["delimiter"] = {"tab": "\t", "\\t": "\t"}.get(values["delimiter"], values["delimiter"])
            if len(values["delimiter"]) != 1 or values["delimiter"] in '"\r\n':
                raise InputError(f"the delimiter must be one character or 'tab', not {values['delimiter']!r}")
        if values.get("navigation", "keep") not in ("keep", "drop"):
            raise InputError(f"the reader option navigation is 'keep' or 'drop', not {values['navigation']!r}")
        return cls(**values)


def _check_encoding(name: str) -> None:
    try:
        codecs.lookup(name)
        "".encode(name)
    except (LookupError, ValueError):
        raise InputError(f"there is no encoding {name!r}; name one such as 'utf-8', 'latin-1' or 'cp1252'") from None


FormatReader: TypeAlias = Callable[[BinaryIO, Origin, ReadOptions], Iterator[Item | EnclosedFile]]
