"""Decoding of bytes to text: byte-order marks, encodings, NUL bytes, line ends and control characters.

In: the bytes of a file. Out: ``str`` with ``\\n`` line ends that can be encoded as UTF-8. Bytes that are invalid in the
encoding are a ReaderError, which names the byte, its offset and the option that helps. A NUL is a ReaderError too.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from io import TextIOWrapper
from typing import BinaryIO

from ..errors import ReaderError

_BYTE_ORDER_MARKS = (  # UTF-32 first: its little-endian mark begins with the mark of UTF-16
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_BLOCK_BYTES = 1 << 20
#: Encodings that a page or an XML file can declare: the encodings of the web. Python has more codecs, and some
#: codecs are not encodings.
WEB_ENCODING_PATTERN = re.compile(
    r"utf-?8|us-ascii|ascii|windows-?(?:125\d|874)|cp125\d|(?:cp|ibm)866|iso-?8859-?\d{1,2}|latin-?\d{1,2}|koi8-?[ru]"
    r"|gbk|gb2312|gb18030|big5(?:-hkscs)?|euc-?(?:jp|kr)|shift_?jis|iso-2022-jp|macintosh|tis-620",
    re.I,
)

#: A command to a terminal, such as ESC ``[1m`` (bold), or a character that a backspace removes.
_TERMINAL_SEQUENCE_PATTERN = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[^\n]\x08")
_PAGE_BREAK_PATTERN = re.compile("[\f\u2029]")
_LINE_BREAK_PATTERN = re.compile("[\v\x85\u2028]")
_CONTROL_PATTERN = re.compile("[\x00-\x08\x0e-\x1f\x7f]")
#: Half of a surrogate pair, which UTF-8 cannot encode.
SURROGATE_PATTERN = re.compile("[\ud800-\udfff]")
_UNUSUAL_PATTERN = re.compile("[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")


def detect_bom_encoding(start: bytes) -> str | None:
    """Return the encoding that a byte-order mark at the start of a file declares, or None."""
    return next((encoding for mark, encoding in _BYTE_ORDER_MARKS if start.startswith(mark)), None)


def is_utf8(data: bytes) -> bool:
    """True if bytes are valid UTF-8. Many files that declare another encoding are UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def decode_file(data: bytes, file_name: str, encoding: str | None) -> str:
    """Decode a whole file by ``encoding``, else by its byte-order mark, else as UTF-8.

    Raises ReaderError for an invalid byte or a NUL; ``file_name`` is the file in the message.
    """
    used_encoding = encoding or detect_bom_encoding(data) or "utf-8"
    try:
        text = data.decode(used_encoding)
    except UnicodeError as error:
        raise _make_decode_error(file_name, used_encoding, error, offset=0) from None
    check_nul(text, file_name)
    return text.removeprefix("\ufeff")


def decode_text(data: bytes, file_name: str, encoding: str | None = None) -> str:
    """Decode a whole file by ``encoding``, else by its byte-order mark, else as UTF-8, and clean its text.

    Line ends become ``\\n``, and control characters are dropped. Raises ReaderError if the file is blank or cannot be
    decoded; ``file_name`` is the file in the message.
    """
    text = clean_text(decode_file(data, file_name, encoding))
    if not text or text.isspace():
        raise ReaderError(f"{file_name}: is empty; there is nothing to store")
    return text


def check_nul(text: str, file_name: str) -> None:
    """Raise ReaderError if ``text``, the text of a file, contains a NUL: the file is binary, or UTF-16."""
    offset = text.find("\0")
    if offset >= 0:
        raise ReaderError(
            f"{file_name}: is a binary file (NUL at character {offset}); specify its format with AS, "
            "or use WITH (encoding = 'utf-16') if it is UTF-16 text"
        )


def iter_decoded_lines(stream: BinaryIO, file_name: str, encoding: str | None, newline: str = "") -> Iterator[str]:
    """Yield the decoded lines of a seekable stream, split as by ``open(newline=...)``, without a byte-order mark.

    An empty stream yields one empty line. Without ``encoding``, the byte-order mark determines it, else it is UTF-8.
    Raises ReaderError for invalid bytes; ``file_name`` is the file in the message.
    """
    stream.seek(0)
    used_encoding = encoding or detect_bom_encoding(stream.read(4)) or "utf-8"
    stream.seek(0)
    lines = iter(TextIOWrapper(stream, encoding=used_encoding, newline=newline))
    try:
        yield next(lines, "").removeprefix("\ufeff")
        yield from lines
    except UnicodeError:
        raise _locate_decode_error(stream, file_name, used_encoding) from None


def _locate_decode_error(stream: BinaryIO, file_name: str, encoding: str) -> ReaderError:
    """Read a stream again after a decoding error, and return an error with the offset of its first invalid byte.

    If all bytes are valid now, the error says that the file changed. ``encoding`` is the encoding of the stream, and
    ``file_name`` the file in the message.
    """
    stream.seek(0)
    decoder = codecs.getincrementaldecoder(encoding)()
    offset = 0
    while True:
        block = stream.read(_BLOCK_BYTES)
        num_pending_bytes = len(decoder.getstate()[0])  # an incomplete character at the end of the last block
        try:
            decoder.decode(block, final=not block)
        except UnicodeError as error:
            return _make_decode_error(file_name, encoding, error, offset - num_pending_bytes)
        if not block:
            return ReaderError(f"{file_name}: changed while it was read; run the ingest again")
        offset += len(block)


def _make_decode_error(file_name: str, encoding: str, error: UnicodeError, offset: int) -> ReaderError:
    """Return the ReaderError for a file that is not valid in ``encoding``.

    ``error`` is the codec's error for some bytes of the file, which begin at ``offset``.
    """
    label = encoding.upper()
    remedy = (
        "save it as UTF-8, or, if all files of the ingest have the same encoding, specify that encoding: "
        "WITH (encoding = 'cp1252'), options={'encoding': 'cp1252'} in Python, or -o encoding=cp1252 on the command "
        "line"
    )
    if not isinstance(error, UnicodeDecodeError):
        return ReaderError(f"{file_name}: is not valid {label} ({error}); {remedy}")
    byte = error.object[error.start]
    return ReaderError(
        f"{file_name}: byte 0x{byte:02X} at offset {offset + error.start} is not valid {label}; {remedy}"
    )


def clean_text(text: str) -> str:
    """Normalize line ends to ``\\n`` and page breaks to a blank line; drop terminal escapes and control characters.

    A lone surrogate, which UTF-8 cannot encode, becomes U+FFFD.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if _UNUSUAL_PATTERN.search(text):
        text = _TERMINAL_SEQUENCE_PATTERN.sub("", text)
        text = _PAGE_BREAK_PATTERN.sub("\n\n", text)
        text = _LINE_BREAK_PATTERN.sub("\n", text)
        text = _CONTROL_PATTERN.sub("", text)
        text = SURROGATE_PATTERN.sub("\ufffd", text)
    return text


def collapse_whitespace(text: str) -> str:
    """Return a text on one line with single spaces."""
    return " ".join(text.split())
