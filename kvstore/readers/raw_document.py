"""Input and output of readers: the origin of the bytes, the options, documents and failures of rows.
A *row* is a part of a file that becomes a separate document, such as a line of CSV or a message of a mailbox.

A reader is a function ``(stream, origin, options)`` that yields :class:`RawDocument` objects, or :class:`RawFact`
objects for existing documents, in file order. An unreadable file raises :class:`~kvstore.errors.ReaderError`. An
invalid row in a file of many documents is yielded as a :class:`ReadFailure`, and the other rows are still read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import BinaryIO, TypeAlias

from ..errors import InputError, ReaderError, suggest

JSON: TypeAlias = "str | int | float | bool | list[JSON] | dict[str, JSON] | None"


#: The maximum length of the first words in a :class:`NavigationPart`.
MAX_EXCERPT_CHARACTERS = 80


@dataclass(frozen=True)
class NavigationPart:
    """A part of a page that is navigation, not content: its element, the reason, its length and its first words."""

    element: str
    reason: str
    characters: int
    text: str


@dataclass(frozen=True)
class RawDocument:
    """A document after reading and before chunking.

    ``key`` is its key in the store. ``text`` is in the form that ``format`` names: ``text`` (plain, blank lines between
    paragraphs), ``markdown``, or ``pairs`` (one CSV line ``child,parent`` per edge, the tree's name in ``meta``).
    ``left_out`` lists the parts that were removed as navigation. ``other_key`` replaces ``key`` if another document of
    the same ingest already has that key and different content.
    """

    key: str
    title: str | None
    text: str
    meta: dict[str, JSON]
    format: str
    left_out: tuple[NavigationPart, ...] = ()
    other_key: str | None = None


#: Default titles of new files, and the additions of programs to the name of a printed file.
_DEFAULT_TITLE_PATTERN = re.compile(
    r"\(?(?:untitled|anonymous|unspecified|unknown|unbenannt|ohne titel|sans titre|sin título|senza titolo)\)?"
    r"(?: (?:document|spreadsheet|presentation))?[ -]?\d*"
    r"|(?:document|dokument|documento|book|mappe|map|classeur|libro|cartel|pasta|presentation|präsentation|presentatie"
    r"|présentation|presentación|presentazione|apresentação) ?\d+|slide ?1"
    r"|(?:powerpoint|pptxgenjs)[ -](?:presentation|präsentation)|présentation powerpoint|presentación de powerpoint"
    r"|word document|(?:about|blob|data|file|https?):\S+|.+\.x?html?",  # browsers use the address or the file name
    re.IGNORECASE,
)
#: A mark of a title that is a file name, as in "Microsoft Word - tea.docx".
_PRINTED_NAME_PATTERN = re.compile(
    r"Microsoft (?:Office )?(?:Word|PowerPoint|Excel) - |(?<=\w)\.(?:docx?|pptx?|xlsx?|odt|rtf|tex|dvi|indd|qxd)\Z"
)


def clean_property_title(title: str | None) -> str:
    """Clean the title in the properties of a file: return it on one line; empty for a default title or an address.

    >>> clean_property_title("Microsoft Word - Lease of shed 3.doc"), clean_property_title("Untitled 1")
    ('Lease of shed 3', '')
    """
    cleaned = _PRINTED_NAME_PATTERN.sub("", " ".join((title or "").split()))
    return "" if _DEFAULT_TITLE_PATTERN.fullmatch(cleaned) else cleaned


def choose_other_key(key: str, default_key: str, used_keys: set[str]) -> str | None:
    """Return the key that a row gets if another file uses ``key``: ``default_key``, or None if there is no other.

    There is no other key if both are equal. If an earlier row of the file has ``key``, the result is None too, because
    a repeated key is an error to report. ``used_keys`` has the keys of earlier rows; the row's key is added.
    """
    if key == default_key or key in used_keys:
        return None
    used_keys.add(key)
    return default_key


@dataclass(frozen=True)
class ReadFailure:
    """An invalid row: ``place`` is ``file:line``, ``reason`` says what is wrong and what to do."""

    place: str
    reason: str


@dataclass(frozen=True)
class RawFact:
    """A statement about the document with the key ``key``.

    ``line`` has the form of an export (:mod:`kvstore.changes.facts`) and is not checked yet; ``place`` is
    ``file:line``.
    """

    key: str
    line: Mapping[str, JSON]
    place: str


@dataclass(frozen=True)
class SkippedPart:
    """A skipped part of a file that is otherwise read.

    ``reason`` is the label under which such parts are counted, as for files of a folder (``suffix .png``). ``detail``
    is an optional message on this part.
    """

    place: str
    reason: str
    detail: str = ""


Item: TypeAlias = RawDocument | RawFact | ReadFailure | SkippedPart


@dataclass(frozen=True)
class EnclosedFile:
    """A file within a file, such as an attachment, which is read like a separate file.

    ``name`` is its name in messages, ``key`` the key of its document (for rows: their key prefix) and ``size`` its size
    in bytes. ``read_content`` returns its bytes; if it raises an exception, the file is unreadable. ``meta`` is added
    to the metadata of its documents, without replacing fields. ``other_key`` is an alternative to ``key``, as in
    :class:`RawDocument`.
    """

    name: str
    key: str
    size: int
    read_content: Callable[[], bytes]
    meta: Mapping[str, JSON]
    other_key: str | None = None


@dataclass(frozen=True)
class Origin:
    """The origin of bytes: ``name`` is the file's name in messages, ``key`` the key of its document."""

    name: str
    key: str

    def require_content(self, content: object, problem: str = "has no text") -> None:
        """Raise ReaderError if ``content``, which was read from the file, is empty or blank.

        ``problem`` is what the message says about the file.
        """
        if not content or (isinstance(content, str | bytes) and content.isspace()):
            raise ReaderError(f"{self.name}: {problem}; there is nothing to store")


@dataclass(frozen=True)
class ReadOptions:
    """The options of ``INGEST ... WITH (...)`` for readers; each reader uses its own.

    * ``encoding``: the character encoding of text formats, any text codec of Python.
    * ``delimiter``: the cell delimiter, one character or ``tab`` (csv, pairs).
    * ``text``, ``title``, ``key``: names of the columns or fields that hold them (csv, jsonl, rows).
    * ``child``, ``parent``: names of the two columns (pairs). ``tree``: the tree of the pairs (pairs).
    * ``sheet``: the sheet whose rows are documents, by default the first (rows).
    * ``navigation``: ``keep`` keeps everything; ``drop`` (default) drops navigation (html), running heads and page
      numbers (pdf), or dates, footers, slide numbers (pptx, odp) and hidden slides (pptx).
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
        """Convert ``options`` (None: no options) to :class:`ReadOptions`.

        Raises InputError for an unknown name or an invalid value.
        """
        option_names = [field.name for field in fields(cls)]
        values: dict[str, str] = {}
        for name, value in (options or {}).items():
            if name not in option_names:
                suggestion = suggest(name, option_names)
                hint = f"; did you mean {suggestion}?" if suggestion else ""
                raise InputError(f"no reader has an option {name!r}{hint} (options: {', '.join(option_names)})")
            if not isinstance(value, str) or not value:
                raise InputError(f"the reader option {name} must be a string that is not empty, not {value!r}")
            values[name] = value
        encoding = values.get("encoding", "utf-8")
        if not is_known_encoding(encoding):
            raise InputError(f"there is no encoding {encoding!r}; use one such as 'utf-8', 'latin-1' or 'cp1252'")
        if "delimiter" in values:
            values["delimiter"] = {"tab": "\t", "\\t": "\t"}.get(values["delimiter"], values["delimiter"])
            if len(values["delimiter"]) != 1 or values["delimiter"] in '"\r\n':
                raise InputError(f"the delimiter must be one character or 'tab', not {values['delimiter']!r}")
        if values.get("navigation", "keep") not in ("keep", "drop"):
            raise InputError(f"the reader option navigation must be 'keep' or 'drop', not {values['navigation']!r}")
        return cls(**values)


def is_known_encoding(name: str) -> bool:
    """True if Python has a codec of this name that encodes text."""
    try:
        "".encode(name)
    except (LookupError, ValueError):
        return False
    return True


FormatReader: TypeAlias = Callable[[BinaryIO, Origin, ReadOptions], Iterator[Item | EnclosedFile]]
