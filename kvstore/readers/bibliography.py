r"""BibTeX bibliographies: each entry becomes a document.
An entry has a type, a key and fields: ``@book{knuth84, title = {The TeXbook}}``. *Abbreviations* are names of texts,
which ``@string`` entries define.

In: a ``.bib`` file in UTF-8 (or in the encoding that a byte-order mark or option names). Out: documents of format
``text``. A document's key is the entry's key; if that is missing or another file uses it, the key is the file's key and
the line number. The title is the ``title`` field. The text has lines ``Title: ...``, ``Authors: ...`` and
``name: value`` for the other fields, then the abstract and notes. Abbreviations (``@string``) are expanded, and LaTeX
accents and commands become letters. Metadata are ``type``, ``author`` (a list) and the other fields, with plain numbers
as numbers. Comments, preambles and text between entries are dropped. An unclosed entry is a ReadFailure. A file without
an entry is a ReaderError.

Source: Patashnik, BibTeXing (1988), 2 and 3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from .decoding import decode_text
from .field_lines import MONTHS, format_entry
from .raw_document import JSON, Item, Origin, RawDocument, ReadFailure, ReadOptions, choose_other_key
from .scalars import parse_number

_ENTRY_PATTERN = re.compile(r"@[ \t]*(?P<type>[A-Za-z]\w*)\s*(?P<opening>[{(])")  # @book{
_KEY_PATTERN = re.compile(r"\s*([^\s,{}()]*)\s*,?")  # knuth1984,
_FIELD_PATTERN = re.compile(r"[\s,]*([A-Za-z][\w:+/.-]*)\s*=\s*")  # , author =
_BARE_VALUE_PATTERN = re.compile(r"[^\s,#{}\"()]+")  # 1984, or the name of a macro, such as jan
_CONCATENATION_PATTERN = re.compile(r"\s*#\s*")  # the "#" between two values
_ENTRY_END_PATTERN = re.compile(r"[\s,]*[})]")
_BRACES_PATTERN = re.compile(r"\\[{}]|[{}]")
_QUOTES_PATTERN = re.compile(r'\\.|[{}"]', re.S)
_PEOPLE_FIELDS = ("author", "editor")
#: Fields that become paragraphs, and fields that only programs use.
_PARAGRAPH_FIELDS = ("abstract", "note", "annote", "annotation", "comment")
_IGNORED_FIELDS = frozenset(
    "file owner timestamp date-added date-modified bdsk-url-1 bdsk-url-2 bdsk-file-1 groups".split()
)


class _UnclosedEntryError(Exception):
    """Raised if an entry ends without its closing brace or quote."""


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[Item]:
    """Yield a document for each BibTeX entry, and a failure for an unclosed entry.

    Raises ReaderError if the file has no entry, or cannot be decoded.
    """
    text = decode_text(stream.read(), origin.name, options.encoding)
    abbreviations = {month[:3].lower(): month for month in MONTHS}
    used_keys: set[str] = set()
    offset = 0
    line_number = 1  # the number of the line at line_number_offset
    line_number_offset = 0
    has_entries = has_unclosed_entry = False
    while (entry_match := _ENTRY_PATTERN.search(text, offset)) is not None:
        line_number += text.count("\n", line_number_offset, entry_match.start())
        line_number_offset = entry_match.start()
        entry_type = entry_match["type"].lower()
        # After an unclosed entry, an entry ends at the latest before the next one.
        next_match = _ENTRY_PATTERN.search(text, entry_match.end()) if has_unclosed_entry else None
        entry = _BibEntry(text, entry_match, next_match.start() if next_match else len(text))
        try:
            fields = {} if entry_type in ("comment", "preamble") else entry.read_fields(abbreviations)
            offset = entry.find_end()
        except _UnclosedEntryError:
            has_entries = has_unclosed_entry = True
            yield ReadFailure(f"{origin.name}:{line_number}", "the entry that begins here is not closed; add its brace")
            offset = entry_match.end()
            continue
        if entry_type == "string":
            abbreviations |= fields
        elif fields:
            has_entries = True
            default_key = f"{origin.key}:{line_number}"
            own_key = entry.key or default_key
            yield _build_document(entry_type, own_key, fields, choose_other_key(own_key, default_key, used_keys))
    origin.require_content(has_entries, "has no entry (@article{...})")


class _BibEntry:
    """One entry of a file, which ends before the offset ``_max_end``; ``_offset`` is the offset to read next."""

    def __init__(self, text: str, entry_match: re.Match[str], max_end: int) -> None:
        """Prepare to parse the entry of ``text`` that begins at ``entry_match``, up to the offset ``max_end``."""
        self._text = text
        self._entry_match = entry_match  # of _ENTRY_PATTERN
        self._max_end = max_end
        self._offset = entry_match.end()  # everything before it is parsed
        self.key = ""

    def read_fields(self, abbreviations: Mapping[str, str]) -> dict[str, str]:
        """Return the field values by lowercase name, still with LaTeX markup, and set ``self.key``.

        The first of several fields with the same name counts. ``abbreviations`` has the values of ``@string`` names.
        Raises _UnclosedEntryError if a value is not closed.
        """
        if self._entry_match["type"].lower() != "string":
            key = self._match_next(_KEY_PATTERN)
            self.key = key[1] if key is not None else ""
        fields: dict[str, str] = {}
        while (field := self._match_next(_FIELD_PATTERN)) is not None:
            value_pieces = [self._read_value(abbreviations)]
            while self._match_next(_CONCATENATION_PATTERN) is not None:
                value_pieces.append(self._read_value(abbreviations))
            fields.setdefault(field[1].lower(), "".join(value_pieces))
        return fields

    def find_end(self) -> int:
        """Return the offset after the entry. Raises _UnclosedEntryError if its closing brace is missing.

        An entry in braces can have other text after its last field, which is skipped. An entry in parentheses ends
        after its last field.
        """
        if self._match_next(_ENTRY_END_PATTERN) is not None or self._entry_match["opening"] == "(":
            return self._offset
        return self._find_closing_brace(self._entry_match.end())

    def _match_next(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Return the match of a pattern at the current offset, and move the offset after it; None without a match."""
        match = pattern.match(self._text, self._offset, self._max_end)
        if match is not None:
            self._offset = match.end()
        return match

    def _read_value(self, abbreviations: Mapping[str, str]) -> str:
        """Read and return one operand of a field's value, in which ``#`` concatenates operands (``jan # "~1"``).

        It is a text in braces or quotes, a number, or the text of an abbreviation; empty if the operand is missing.
        Raises _UnclosedEntryError if its brace or quote is not closed.
        """
        start = self._offset + 1  # after the brace or quote
        if self._text.startswith("{", self._offset):
            self._offset = self._find_closing_brace(start)
            return self._text[start : self._offset - 1]
        if self._text.startswith('"', self._offset):
            self._offset = self._find_closing_quote(start)
            return self._text[start : self._offset - 1]
        bare = self._match_next(_BARE_VALUE_PATTERN)
        return "" if bare is None else abbreviations.get(bare[0].lower(), bare[0])

    def _find_closing_brace(self, start: int) -> int:
        """Return the offset after the closing brace of a group whose content begins at ``start``.

        Raises _UnclosedEntryError if it is missing.
        """
        depth = 1
        for brace in _BRACES_PATTERN.finditer(self._text, start, self._max_end):
            depth += {"{": 1, "}": -1}.get(brace[0], 0)  # an escaped brace does not count
            if not depth:
                return brace.end()
        raise _UnclosedEntryError

    def _find_closing_quote(self, start: int) -> int:
        """Return the offset after the closing quote of a text that begins at ``start``.

        Raises _UnclosedEntryError if it is missing.
        """
        depth = 0
        for delimiter in _QUOTES_PATTERN.finditer(self._text, start, self._max_end):
            if delimiter[0] == '"' and depth <= 0:  # a quote in braces is text
                return delimiter.end()
            depth += {"{": 1, "}": -1}.get(delimiter[0], 0)
        raise _UnclosedEntryError


def _build_document(entry_type: str, key: str, fields: dict[str, str], other_key: str | None) -> RawDocument:
    """Return the document of an entry; ``entry_type`` is its type, such as ``article``.

    ``fields`` has the values by name, with LaTeX markup. ``other_key`` replaces ``key`` if another file has this key.
    """
    plain_fields = {
        name: _remove_latex(value) for name, value in fields.items() if name not in _IGNORED_FIELDS and value.strip()
    }
    meta: dict[str, JSON] = {"type": entry_type}
    authors: list[tuple[str, str]] = []
    lines: list[tuple[str, str]] = []
    paragraphs: list[str] = []
    for name, value in plain_fields.items():
        if name in _PEOPLE_FIELDS:
            people = [_format_person(person) for person in re.split(r"\s+and\s+", fields[name]) if person.strip()]
            meta[name] = [*people]
            people_lines = authors if name == "author" else lines  # authors come first, after the title
            people_lines.append((f"{name.title()}s", ", ".join(people)))
        elif name in _PARAGRAPH_FIELDS:
            paragraphs.append(value)
        elif name != "title":
            meta[name] = parse_number(value)
            lines.append((name, value))
    title = plain_fields.get("title", "")
    text = format_entry([("Title", title), *authors, *lines], paragraphs)
    return RawDocument(key, title=title or None, text=text, meta=meta, format="text", other_key=other_key)


def _format_person(source: str) -> str:
    """Return a person's name, given by its LaTeX source, in natural order: ``Hill, Ann`` becomes ``Ann Hill``.

    A name in braces, such as an organization's, is not reordered.
    """
    name = _remove_latex(source)
    name_parts = [name_part.strip() for name_part in name.split(",")]
    if source.strip().startswith("{") or len(name_parts) == 1:
        return name
    # First name, last name, suffix: "Hill, Jr., Ann" becomes "Ann Hill Jr."
    return " ".join(filter(None, (name_parts[-1], name_parts[0], *name_parts[1:-1])))


def _remove_latex(value: str) -> str:
    """Return the value of a field on one line without LaTeX markup; accents and commands become letters."""
    if "\\" in value or "$" in value:
        from .latex import render_line

        value = render_line(value)
    return " ".join(value.replace("{", "").replace("}", "").replace("~", " ").replace("--", "–").split())
