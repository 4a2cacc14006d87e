"""Mail headers: fields with names and values (RFC 5322, section 2.2).

In: a text and the span of a paragraph or a part of one. Out: whether it is a mail header, and its fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from .patterns import compile_lazily

#: Fields that mails begin with, and fields of any name.
_MAIL_FIELD_PATTERN = compile_lazily(
    r"^(?:From|To|Cc|Date|Sent|Subject|Reply-To|Message-ID): \S", re.MULTILINE | re.IGNORECASE
)
_FIELD_PATTERN = compile_lazily(r"^[\w-]+:(?:[ \t]|$)", re.MULTILINE)


def is_mail_header(text: str, start: int, end: int) -> bool:
    """True if a span of a text begins with a mail field, such as ``From:``, and contains at least one other.

    >>> is_mail_header("From: Ada\\nTo: Charles", 0, 21), is_mail_header("To: Charles", 0, 11)
    (True, False)
    """
    if text.find("\n", start, end) < 0:
        return False
    return _MAIL_FIELD_PATTERN.match(text, start) is not None and len(_MAIL_FIELD_PATTERN.findall(text, start, end)) > 1


def split_mail_fields(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each header field in a span; a folded field includes all its lines."""
    return pairwise([*(match.start() for match in _FIELD_PATTERN.finditer(text, start, end)), end])
