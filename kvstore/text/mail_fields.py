"""The fields of a mail header, and of other lines that begin with a label (``Born in: Paris``). A *mail header* is a
paragraph of fields, each a name and a value (RFC 5322, section 2.2).

In: a paragraph, or its span in a text. Out: if it is a header or a field with an address, and its parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from .patterns import compile_lazily

#: Fields that mails begin with, fields of any name, and fields of mails with an address.
_MAIL_FIELD_PATTERN = compile_lazily(
    r"^(?:From|To|Cc|Date|Sent|Subject|Reply-To|Message-ID): \S", re.MULTILINE | re.IGNORECASE
)
_FIELD_PATTERN = compile_lazily(r"^[\w-]+:(?:[ \t]|$)", re.MULTILINE)
_ADDRESS_FIELD_PATTERN = compile_lazily(r"(?:From|To|Cc|Sender|Reply-To): [^\n]*<[^<>\s][^<>\s@]*+@[^<>\s]++>\s*")
#: The label of a field on a line below the first one: a few words before a colon.
_LABEL_PATTERN = compile_lazily(r"(?<=\n)[ \t]*[^\W\d_][\w '’()-]{0,40}:(?=[ \t])")


def is_mail_header(text: str, start: int, end: int) -> bool:
    """True if the text from ``start`` to ``end`` begins with a mail field (``From:``) and contains another one.

    >>> is_mail_header("From: Ada\\nTo: Charles", 0, 21), is_mail_header("To: Charles", 0, 11)
    (True, False)
    """
    if text.find("\n", start, end) < 0:
        return False
    return _MAIL_FIELD_PATTERN.match(text, start) is not None and len(_MAIL_FIELD_PATTERN.findall(text, start, end)) > 1


def is_address_field(text: str) -> bool:
    """True if a text is exactly one address field of a mail header, such as ``From``, with an address in ``<>``.

    >>> is_address_field("From: Juno Ferreira <juno@example.org>"), is_address_field("From: Juno")
    (True, False)
    """
    return _ADDRESS_FIELD_PATTERN.fullmatch(text) is not None


def split_mail_fields(header: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end offset of each field of a mail header.

    A field that continues on further lines includes them.
    """
    return pairwise([*(match.start() for match in _FIELD_PATTERN.finditer(header)), len(header)])


def split_field_lines(text: str) -> list[str]:
    r"""Split a text before each line, except the first, that begins with the label of a field (``Born in:``).

    Without such a line, the result is a list of the whole text.

    >>> split_field_lines("Name: Ada\nBorn in: Paris\nor Rome")
    ['Name: Ada\n', 'Born in: Paris\nor Rome']
    """
    if ":" not in text or "\n" not in text:  # most texts
        return [text]
    starts = [0, *(match.start() for match in _LABEL_PATTERN.finditer(text)), len(text)]
    return [text[start:end] for start, end in pairwise(starts)]
