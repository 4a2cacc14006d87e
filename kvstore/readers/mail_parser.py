"""The parser of mail: MIME messages (RFC 5322) within limits on their parts and fields.

In: the bytes of a message. Out: the message as the standard library represents it, or an InvalidMailError.

Messages with overlong fields, too many parts or too deep nesting are invalid, because the standard library's time grows
with the square of these.
"""

from __future__ import annotations

import re
from email import policy
from email.message import EmailMessage, Message
from email.parser import BytesParser
from functools import lru_cache
from itertools import count
from typing import Any

#: The maximum number of parts of a message, and their maximum depth.
_MAX_PARTS = 10_000
_MAX_DEPTH = 50
#: The maximum number of characters of a field, of an address list, and of one parsed address.
_MAX_FIELD_CHARACTERS = 4_096
_MAX_ADDRESS_LIST_CHARACTERS = 1 << 18
_MAX_ADDRESS_CHARACTERS = 998
#: The maximum cost of parsing an address list, and the cost of each address in it besides the square of its length.
_MAX_PARSING_COST = 1 << 25
_ADDRESS_COST = 1_000
_ADDRESS_FIELDS = ("from", "to", "cc")
#: The fields that the reader or the standard library parses, whose length is limited.
_PARSED_FIELDS = frozenset(
    "subject message-id in-reply-to date content-type content-disposition content-transfer-encoding".split()
    + list(_ADDRESS_FIELDS)
)
#: One address of a list; commas in quoted strings belong to it.
_ADDRESS_PATTERN = re.compile(r'(?:[^,"\\]++|\\.?|"(?:[^"\\]++|\\.)*+"?)++', re.DOTALL)
#: An address that the standard library would return unchanged, after slow parsing: bare, or after plain words.
_BARE_ADDRESS = r"[\w+-]++(?:\.[\w+-]++)*+@[\w-]++(?:\.[\w-]++)*+"
_PLAIN_ADDRESS_PATTERN = re.compile(rf"{_BARE_ADDRESS}|(?:[A-Za-z]++ )++<{_BARE_ADDRESS}>", re.ASCII)


class InvalidMailError(Exception):
    """Raised for bytes that are not a valid message; its message is the reason."""


class _MailPart(EmailMessage):
    """A message or a part of one, with limits on the number and depth of parts.

    The parser attaches a part before it reads its content, so the limits hold during parsing.
    """

    depth = 0

    def __init__(self, policy: Any = None) -> None:
        """Create an empty MIME part; the parser of the standard library passes its ``policy``."""
        super().__init__(policy)
        self._part_numbers = count(1)  # counts the parts; ``attach`` gives all parts of a message the same counter

    def attach(self, payload: Any) -> None:
        """Add ``payload``, a MIME part, to this one.

        Raises InvalidMailError if the message has too many parts or nests them too deeply.
        """
        payload.depth = self.depth + 1
        payload._part_numbers = self._part_numbers  # one count for all parts of the message
        if next(self._part_numbers) > _MAX_PARTS:
            raise InvalidMailError(f"has more than {_MAX_PARTS:,} parts, the limit for a message; split it")
        if payload.depth > _MAX_DEPTH:
            raise InvalidMailError(
                f"nests parts more than {_MAX_DEPTH} levels deep, the limit for a message; unpack it"
            )
        super().attach(payload)


class _MailPolicy(policy.EmailPolicy):
    """The policy of the standard library, with limits on field lengths; each value is parsed once."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        """Split ``sourcelines``, the lines of a header field, into its name and value.

        Raises InvalidMailError if the value is too long and the field is one of those that are parsed.
        """
        name, value = super().header_source_parse(sourcelines)
        is_address_list = name.lower() in _ADDRESS_FIELDS
        max_characters = _MAX_ADDRESS_LIST_CHARACTERS if is_address_list else _MAX_FIELD_CHARACTERS
        if len(value) > max_characters and name.lower() in _PARSED_FIELDS:
            raise InvalidMailError(
                f"has {len(value):,} characters in the field {name}, and the limit is {max_characters:,}; shorten it, "
                "or ingest the file AS text"
            )
        return name, value

    def header_fetch_parse(self, name: str, value: Any) -> Any:
        """Return the parsed value of a field."""
        return _parse_field(name, value)  # cached, because the reader reads a field several times


@lru_cache(maxsize=16)
def _parse_field(name: str, value: Any) -> Any:
    """Parse a field like the standard library; the addresses of a very long list are parsed one by one.

    The result is cached, because fields are read several times.
    """
    if name.lower() in _ADDRESS_FIELDS and len(value) > _MAX_ADDRESS_CHARACTERS:
        return _parse_long_address_list(name, value)
    return _parse_short_field(name, value)


def _parse_short_field(name: str, value: Any) -> Any:
    """Parse a field like the standard library; a value with thousands of nested comments is returned verbatim."""
    try:
        return policy.default.header_fetch_parse(name, value)
    except RecursionError:
        return str(value)


def _parse_long_address_list(name: str, value: str) -> str:
    """Return an address list with each address parsed separately.

    An address that needs no parsing or is too long is returned verbatim. Parsing takes time quadratic in the length of
    an address, so all addresses are verbatim once their total cost exceeds ``_MAX_PARSING_COST``.
    """
    addresses = [address.strip() for address in _ADDRESS_PATTERN.findall(value)]
    cost = 0
    for index, address in enumerate(addresses):
        if len(address) > _MAX_ADDRESS_CHARACTERS or _PLAIN_ADDRESS_PATTERN.fullmatch(address):
            continue
        cost += len(address) ** 2 + _ADDRESS_COST
        if cost > _MAX_PARSING_COST:
            break
        addresses[index] = str(_parse_short_field(name, address))
    return ", ".join(addresses)


_MESSAGE_PARSER = BytesParser(_class=_MailPart, policy=_MailPolicy())


def parse_message(message_bytes: bytes) -> Message:
    """Parse the bytes of a message and return it. Raises InvalidMailError if it is damaged or exceeds a limit."""
    try:
        return _MESSAGE_PARSER.parsebytes(message_bytes)
    except InvalidMailError:
        raise
    except Exception as error:  # nonstandard messages raise undocumented exceptions in the parser
        raise InvalidMailError(f"is damaged ({type(error).__name__}: {error})") from None
