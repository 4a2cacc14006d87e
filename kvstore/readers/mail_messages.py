"""Mail: each message is a document; its attachments are read by their suffixes as separate documents.
A *part* is a MIME part of a message: a text, an attachment, or a container of other parts.

In: a message (``.eml``, RFC 5322 and MIME) or a file of messages (``.mbox``, RFC 4155; ``>From`` lines as in mboxrd). A
line ``From`` begins a message if it has a time of day or a header follows it.

Out: documents of format ``markdown``. A document's key is the message id; if that is missing or another message uses
it, the key is the file's key (and the message's number). The title is the subject. Metadata are ``from``, ``to``,
``cc``, ``date`` (ISO 8601), ``in_reply_to`` and the names of the ``attachments``. The text begins with the lines
``From:`` and ``Date:`` of the message, because users ask for author and date. The body follows: the plain parts, or the
HTML if the plain parts are missing or have much less text. Quoted text is a block quotation, and so is a signature,
after the word ``Signature:``. A message quoted above the reply follows it. Attachments have metadata ``attached_to``.

A file that is not mail is a ReaderError. In a file of messages, an invalid message is a ReadFailure, and the next one
is read. :mod:`.mail_parser` limits parts and fields.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Container, Iterator
from contextlib import suppress
from email.header import decode_header, make_header
from email.message import Message
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import PurePosixPath
from typing import BinaryIO

from ..errors import ReaderError
from .decoding import SURROGATE_PATTERN, clean_text
from .mail_parser import InvalidMailError, parse_message
from .markdown_blocks import MarkdownBlock, join_blocks, make_paragraph, make_quote
from .raw_document import JSON, EnclosedFile, Item, Origin, RawDocument, ReadFailure, ReadOptions, SkippedPart
from .text import SIGNATURE_PATTERN, get_quote_depth, join_flowed_lines

#: The maximum size in bytes of a message in a file of messages.
_MAX_MESSAGE_BYTES = 256 << 20
#: The number of bytes of the first line of such a file that are read.
_MAX_FIRST_LINE_BYTES = 1 << 16
#: The maximum depth of nested quotations.
_MAX_QUOTE_DEPTH = 20
_HEADER_PATTERN = re.compile(rb"[!-9;-~]+[ \t]*:|>?From \S")  # Subject:
_FROM_LINE_PATTERN = re.compile(rb"From (?:\S|$)")  # From ann@tea.org Sat Jan 31 23:59:00 2020
_TIMED_FROM_LINE_PATTERN = re.compile(rb"From \S.*\d\d:\d\d")  # the same, with a time
_ESCAPED_FROM_PATTERN = re.compile(rb">+From ")  # >From here on
_FORWARD_LINE_PATTERN = re.compile(
    r"-{2,}\s*(?:Original Message|Forwarded message|Ursprüngliche Nachricht)\s*-{2,}\s*$", re.I
)
#: The line above a signature, which is a block quotation like quoted text.
_SIGNATURE_LABEL = "Signature:"
_ITEM_PATTERN = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+\S")
#: Invisible parts of HTML. Unclosed markup extends to the end, so that no part of a text is scanned twice.
_MARKUP_PATTERN = re.compile(
    r"<(style|script|title)\b(?:.*?</\1\s*>|.*)|<!--(?:.*?-->|.*)|<[^>]*(?:>|\Z)|&\w+;", re.IGNORECASE | re.DOTALL
)
#: The minimum ratio of words in the plain form to words in the HTML form for the plain form to be used.
_MIN_PLAIN_SHARE = 0.3
#: The encodings that mail programs mean by the names they declare, as in browsers (WHATWG Encoding, 4.2).
_ENCODING_ALIASES = {
    "gb2312": "gb18030", "gbk": "gb18030", "gb_2312-80": "gb18030", "x-gbk": "gb18030", "hz-gb-2312": "hz",
    "shift_jis": "cp932", "shift-jis": "cp932", "x-sjis": "cp932", "windows-31j": "cp932",
    "ks_c_5601-1987": "cp949", "euc-kr": "cp949", "iso-2022-kr": "iso2022_kr", "big5": "big5hkscs",
    "iso-8859-1": "cp1252", "latin1": "cp1252", "us-ascii": "utf-8", "iso-8859-9": "cp1254", "tis-620": "cp874",
    "windows-874": "cp874", "iso-8859-8-i": "iso-8859-8", "unicode-1-1-utf-7": "utf-7", "x-mac-roman": "mac_roman",
}  # fmt: skip


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[Item | EnclosedFile]:
    """Yield the document of a mail message, and its attachments.

    Raises ReaderError if the file is not mail, is empty, or exceeds the limits of a message.
    """
    try:
        yield from _read_message(stream.read(), origin, origin.key, options)
    except InvalidMailError as error:
        raise ReaderError(f"{origin.name}: {error}") from None


def read_mbox(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[Item | EnclosedFile]:
    """Yield each message of an mbox file and its attachments; an invalid message is a ReadFailure.

    Raises ReaderError if the file is empty or does not begin with a line ``From …``, which precedes each message.
    """
    first_line = stream.readline(_MAX_FIRST_LINE_BYTES)
    origin.require_content(first_line.removeprefix(BOM_UTF8), "is empty")
    if _FROM_LINE_PATTERN.match(first_line) is None:
        raise ReaderError(f"{origin.name}: is not an mbox file (it does not begin with a line 'From ')")
    for number, (num_bytes, message_bytes) in enumerate(_split_mbox(stream), 1):
        message_name = f"{origin.name}, message {number}"
        try:
            if num_bytes > _MAX_MESSAGE_BYTES:
                raise InvalidMailError(f"has {num_bytes:,} bytes; the limit for a message is {_MAX_MESSAGE_BYTES:,}")
            message_origin = Origin(message_name, origin.key)
            yield from _read_message(message_bytes, message_origin, f"{origin.key}:{number}", options)
        except InvalidMailError as error:
            yield ReadFailure(message_name, str(error))


def _split_mbox(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield (size in bytes, content) of each message of an mbox file, whose first line is already read.

    A line ``From …`` after a blank line begins a message if it contains a time or a header follows it. Content beyond
    ``_MAX_MESSAGE_BYTES`` is dropped, but counted in the size.
    """
    lines: list[bytes] = []
    num_bytes = 0
    is_blank = False  # True if the previous line is blank
    line = stream.readline()
    while line:
        next_line = stream.readline()
        may_begin_message = is_blank and _FROM_LINE_PATTERN.match(line) is not None
        if may_begin_message and (_TIMED_FROM_LINE_PATTERN.match(line) or _HEADER_PATTERN.match(next_line)):
            yield num_bytes, b"".join(lines)
            lines, num_bytes, is_blank = [], 0, False
        else:
            is_blank = not line.strip()
            num_bytes += len(line)
            if num_bytes <= _MAX_MESSAGE_BYTES:
                lines.append(line[1:] if _ESCAPED_FROM_PATTERN.match(line) else line)  # ">From" is "From"
        line = next_line
    yield num_bytes, b"".join(lines)


def _read_message(
    message_bytes: bytes, origin: Origin, default_key: str, options: ReadOptions
) -> Iterator[Item | EnclosedFile]:
    """Yield the document of a message, then its attachments; those of unknown formats are SkippedParts.

    The key is the id, or ``default_key`` without an id. With an id, ``default_key`` is the ``other_key``, used if
    another message of the ingest has the same id. Raises InvalidMailError if the bytes are not mail, have no content,
    or exceed a limit.
    """
    message_bytes = message_bytes.removeprefix(BOM_UTF8)
    if not message_bytes.strip():
        raise InvalidMailError("is empty; there is nothing to store")
    if _HEADER_PATTERN.match(message_bytes.lstrip()) is None:
        raise InvalidMailError("is not mail (it does not begin with a header such as 'From: ...')")
    message = parse_message(message_bytes)
    bodies, attachments = _split_attachments(message)
    blocks = _move_quoted_message([block for body in bodies for block in _build_blocks(body, origin.name, options)])
    subject = _get_header(message, "Subject")
    message_id = _get_header(message, "Message-ID").strip("<> ")
    key, other_key = (message_id, default_key) if message_id else (default_key, None)
    if not blocks and not subject and not attachments:
        raise InvalidMailError("has neither a subject nor text; there is nothing to store")
    body_blocks = blocks or [make_paragraph(subject or "A message without text.")]
    text = join_blocks([*_iter_header_blocks(message), *body_blocks]) + "\n"
    meta = _build_meta(message, [name for name, _ in attachments])
    yield RawDocument(key, title=subject or None, text=text, meta=meta, format="markdown", other_key=other_key)
    for name, part in attachments:
        yield _make_attachment(name, part, origin, key, other_key)


def _make_attachment(
    name: str, part: Message, origin: Origin, key: str, other_key: str | None
) -> EnclosedFile | SkippedPart:
    """Return an attachment with the file name ``name`` as a file to read; a SkippedPart if its format is unknown.

    ``key`` and ``other_key`` are the keys of its message.
    """
    from . import describe_skipped, find_format

    path = f"{origin.name}/{name}"
    if find_format(name) is None:  # unreadable; the message lists its name
        return SkippedPart(path, describe_skipped(name))
    content = _get_payload(part)
    return EnclosedFile(
        path,
        f"{key}/{name}",
        size=len(content),
        read_content=partial(bytes, content),
        meta={"attached_to": key},
        other_key=f"{other_key}/{name}" if other_key else None,
    )


def _build_meta(message: Message, attachment_names: list[str]) -> dict[str, JSON]:
    """Return the metadata of a message: its people, the message that it answers, its date and its attachments."""
    meta: dict[str, JSON] = {}
    for field, header in (("from", "From"), ("to", "To"), ("cc", "Cc"), ("in_reply_to", "In-Reply-To")):
        value = _get_header(message, header)
        if value:
            meta[field] = value.strip("<> ") if field == "in_reply_to" else value
    date = _parse_date(_get_header(message, "Date"))
    if date:
        meta["date"] = date
    if attachment_names:
        meta["attachments"] = [*attachment_names]
    return meta


def _iter_header_blocks(message: Message) -> Iterator[MarkdownBlock]:
    """Yield a paragraph with the author of a message, and one with its date, if the message has these headers."""
    for field in ("From", "Date"):
        value = _get_header(message, field)
        if value:
            yield make_paragraph(f"{field}: {value}")


def _split_attachments(message: Message) -> tuple[list[Message], list[tuple[str, Message]]]:
    """Return the MIME parts that are the text of a message, and its attachments as (unique file name, MIME part).

    Other parts, such as a picture without a file name, are dropped.
    """
    bodies: list[Message] = []
    attachments: dict[str, Message] = {}
    last_numbers: Counter[str] = Counter()
    stack = [message]
    while stack:
        part = stack.pop()
        content_type = part.get_content_type()
        if content_type == "message/rfc822" or part.get_content_disposition() == "attachment" or _get_file_name(part):
            name = _get_file_name(part) or ("message.eml" if content_type == "message/rfc822" else "attachment")
            attachments[_make_unique_name(name, attachments, last_numbers)] = part
        elif content_type == "multipart/alternative":
            alternative = _choose_alternative(part)
            stack += [alternative] if alternative is not None else []
        elif part.is_multipart():
            inner_parts = [inner_part for inner_part in part.get_payload() if isinstance(inner_part, Message)]
            stack += reversed(inner_parts)
        elif _is_text_type(content_type):
            bodies.append(part)
    return bodies, list(attachments.items())


def _is_text_type(content_type: str) -> bool:
    """True if MIME parts of a content type are displayed as text.

    All text types are, also unknown ones (RFC 2046, 4.1.4), except calendars, cards and style sheets.
    """
    return content_type.startswith("text/") and content_type not in (
        "text/calendar",
        "text/vcard",
        "text/x-vcard",
        "text/css",
    )


def _choose_alternative(part: Message) -> Message | None:
    """Return the alternative of a ``multipart/alternative`` MIME part that is read (RFC 2046, 5.1.4).

    This is the plain text if it has enough words compared with the longest alternative, else the last other alternative
    with words. If no alternative has words, return the plain text, which can be empty, or None without plain text.
    """
    payload = part.get_payload() if part.is_multipart() else []
    alternatives = [alternative for alternative in payload if isinstance(alternative, Message)]
    word_counts = {id(alternative): _count_words(alternative) for alternative in alternatives}
    plain_texts = (alternative for alternative in alternatives if alternative.get_content_type() == "text/plain")
    plain_text = next(plain_texts, None)
    max_words = max(word_counts.values(), default=0)
    num_plain_words = word_counts[id(plain_text)] if plain_text is not None else 0
    if num_plain_words and num_plain_words >= _MIN_PLAIN_SHARE * max_words:
        return plain_text
    for alternative in reversed(alternatives):
        if alternative is not plain_text and word_counts[id(alternative)]:
            return alternative
    return plain_text


def _count_words(alternative: Message) -> int:
    """Return the number of visible words in one alternative of a ``multipart/alternative`` MIME part.

    The words of attachments, which have file names, do not count.
    """
    text_parts = [text_part for text_part in alternative.walk() if _is_text_type(text_part.get_content_type())]
    unnamed_parts = [text_part for text_part in text_parts if not _get_file_name(text_part)]
    return sum(len(_MARKUP_PATTERN.sub(" ", _decode_text(text_part)).split()) for text_part in unnamed_parts)


def _get_file_name(part: Message) -> str:
    """Return the file name of a MIME part without folders, or an empty string if it has no valid name."""
    with suppress(Exception):  # ignore a name in an invalid encoding
        name = part.get_filename()
        if name:
            return " ".join(clean_text(re.split(r"[/\\]", name)[-1]).split()).strip(". ")
    return ""


def _make_unique_name(name: str, used_names: Container[str], last_numbers: Counter[str]) -> str:
    """Return a file name, with a number (from 2) before its suffix if it is already used.

    ``last_numbers`` has the last number of each name, so that many files of one name do not try every number; it is
    updated.
    """
    path = PurePosixPath(name)
    unique_name = name
    while unique_name in used_names:
        last_numbers[name] = max(2, last_numbers[name] + 1)
        unique_name = f"{path.stem}-{last_numbers[name]}{path.suffix}"
    return unique_name


def _get_payload(part: Message) -> bytes:
    """Return the decoded content of a MIME part; a message in a message is returned as its source."""
    if part.get_content_type() == "message/rfc822":
        payload = part.get_payload()  # a list of one message
        inner_message = payload[0] if isinstance(payload, list) and payload else None
        return inner_message.as_bytes() if isinstance(inner_message, Message) else b""
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else b""


def _decode_text(part: Message) -> str:
    """Return the text of a MIME part, decoded by its character set or, if that fails, as UTF-8, cp1252 or Latin-1."""
    payload = _get_payload(part)
    charset = str(part.get_content_charset() or "utf-8").lower()
    for encoding in (_ENCODING_ALIASES.get(charset, charset), charset, "utf-8", "cp1252"):
        with suppress(LookupError, ValueError):
            return clean_text(payload.decode(encoding)).replace("\0", "")
    return clean_text(payload.decode("latin-1")).replace("\0", "")


def _build_blocks(part: Message, name: str, options: ReadOptions) -> list[MarkdownBlock]:
    """Return the Markdown blocks of a MIME part with HTML or plain text; empty if it is blank.

    ``name`` identifies the mail in errors; HTML is read with the ``options`` of the ingest.
    """
    text = _decode_text(part)
    if not text.strip():
        return []
    if part.get_content_type() == "text/html":
        from .html import convert_markup

        return convert_markup(text, name, options)
    if str(part.get_param("format") or "").lower() == "flowed":  # RFC 3676
        text = join_flowed_lines(text, delete_space=str(part.get_param("delsp") or "").lower() == "yes")
    return list(_iter_plain_blocks(text.split("\n")))


def _move_quoted_message(blocks: list[MarkdownBlock]) -> list[MarkdownBlock]:
    """Return the blocks of a message; a quoted message above the reply is moved below it.

    The line that introduces the quotation (``Ann wrote:``) moves with it; if there is none, one is added. If a reply
    quotes in several places, it answers each quotation below it, so the blocks are returned unchanged.
    """
    quote_indexes = [
        index
        for index, block in enumerate(blocks)
        if block.kind == "quote" and not block.text.startswith(f"> {_SIGNATURE_LABEL}")
    ]
    if len(quote_indexes) != 1:
        return blocks
    (quote_index,) = quote_indexes
    introduction, quote, reply = blocks[:quote_index], blocks[quote_index], blocks[quote_index + 1 :]
    if len(introduction) > 1 or not reply:
        return blocks
    if any(not block.text.rstrip().endswith(":") for block in introduction):
        return blocks
    return [*reply, *(introduction or [make_paragraph("Quoted message:")]), quote]


def _iter_plain_blocks(lines: list[str], depth: int = 0) -> Iterator[MarkdownBlock]:
    """Yield the blocks of plain text: paragraphs, block quotations and signatures.

    The lines after a forward line (``---- Forwarded message ----``) become a quotation. ``depth`` is the number of
    quotations around the text.
    """
    start = 0
    while start < len(lines):
        line = lines[start]
        end = start + 1
        if get_quote_depth(line):
            while end < len(lines) and get_quote_depth(lines[end]):
                end += 1
            # "> text" becomes "text".
            quoted_lines = [re.sub(r"^\s?>[ ]?", "", text_line, count=1) for text_line in lines[start:end]]
            if max(depth, get_quote_depth(line)) < _MAX_QUOTE_DEPTH:
                yield from _iter_quote(quoted_lines, depth)
            else:
                yield make_quote([make_paragraph("\n".join(quoted_lines))])
        elif depth < _MAX_QUOTE_DEPTH and _FORWARD_LINE_PATTERN.match(line.strip()):
            end = len(lines)
            yield make_paragraph(line.strip())
            yield from _iter_quote(lines[start + 1 :], depth)
        elif SIGNATURE_PATTERN.match(line):
            while end < len(lines) and not get_quote_depth(lines[end]):
                end += 1
            signature_lines = [text_line.strip() for text_line in lines[start + 1 : end] if text_line.strip()]
            if signature_lines:
                yield make_quote([make_paragraph("\n".join([_SIGNATURE_LABEL, *signature_lines]))])
        elif line.strip():
            while end < len(lines) and _continues_paragraph(lines[end]):
                end += 1
            text_lines = [
                text_line if _ITEM_PATTERN.match(text_line) else make_paragraph(text_line.strip()).text
                for text_line in lines[start:end]
            ]
            yield MarkdownBlock("paragraph", "\n".join(text_lines).strip())
        start = end


def _iter_quote(lines: list[str], depth: int) -> Iterator[MarkdownBlock]:
    """Yield the block quotation of lines of plain text inside ``depth`` other quotations, unless it would be empty."""
    blocks = list(_iter_plain_blocks(lines, depth + 1))
    if blocks:
        yield make_quote(blocks)


def _continues_paragraph(line: str) -> bool:
    """True if a line of plain text continues the paragraph above it: it is not blank, a quotation or a signature."""
    return bool(line.strip()) and not get_quote_depth(line) and not SIGNATURE_PATTERN.match(line)


def _get_header(message: Message, name: str) -> str:
    """Return a header as one line of text, or an empty string if it is missing or unreadable."""
    with suppress(Exception):  # nonstandard headers raise undocumented exceptions in the parser
        value = message[name]
        text = "" if value is None else str(value)
        if "\ufffd" not in text and not SURROGATE_PATTERN.search(text):
            return " ".join(clean_text(text).split())
    with suppress(Exception):  # unencoded non-ASCII characters, which some programs write
        raw = str(dict(message.raw_items())[name])
        header_bytes = raw.encode("utf-8", "surrogateescape")
        with suppress(UnicodeDecodeError):
            return " ".join(clean_text(str(make_header(decode_header(header_bytes.decode())))).split())
        return " ".join(clean_text(header_bytes.decode("cp1252", "replace")).split())
    return ""


def _parse_date(value: str) -> str:
    """Return the value of a ``Date`` header in ISO 8601, or an empty string if it is invalid."""
    with suppress(ValueError, TypeError, IndexError, OverflowError):
        return parsedate_to_datetime(value).isoformat()
    return ""
