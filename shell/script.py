"""Scripts: a stream of bytes in, statements and dot commands out, each as soon as it is complete.

In: UTF-8 from a file, a pipe or a string. Out: :class:`ScriptItem` by piece, with the line it begins on. A dot command
is a line that begins with ``.`` where no statement is under way, and so is one that begins with ``\\``, a command of
psql. A statement whose ``;`` is missing at the end counts
as complete. Bytes that are not UTF-8 are a ScriptError that names the line.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from kvstore.language import find_unquoted_question, tokens

_BLOCK_BYTES = 1 << 16
#: What a line that is a command begins with: a dot, or the backslash of psql.
COMMAND_MARKS = (".", "\\")
#: Characters of a statement, which is read as a whole: the longest document, each of its characters escaped, and more.
_MAX_PIECE = 128 << 20


class ScriptError(Exception):
    """A script cannot be read."""


@dataclass(frozen=True, slots=True)
class ScriptItem:
    """A statement with its ``;``, or a dot command, and the line and column (from 1) where it begins."""

    text: str
    line: int = 1
    column: int = 1
    is_command: bool = False


def read_items(stream: BinaryIO) -> Iterator[ScriptItem]:
    """The pieces of a stream, read as it comes; an unfinished line is waited for."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    read = getattr(stream, "read1", stream.read)
    buffer, line, position = "", 1, 0
    at_end = False
    while not at_end:
        block = read(_BLOCK_BYTES)
        at_end = not block
        try:
            buffer += decoder.decode(block, final=at_end)
        except UnicodeDecodeError as error:
            line_number = line + (buffer + block[: error.start].decode(errors="replace")).count("\n")
            raise ScriptError(f"line {line_number} is not UTF-8; save the script as UTF-8") from None
        stop = len(buffer) if at_end else buffer.rfind("\n") + 1
        for item, position_after in _iter_items(buffer[:stop], position, line, at_end):
            yield item
            position = position_after
        # Whole lines that are done with are dropped; the line that goes on is kept, for its columns.
        consumed = buffer.rfind("\n", 0, position) + 1
        line += buffer.count("\n", 0, consumed)
        buffer, position = buffer[consumed:], position - consumed
        if len(buffer) - position > _MAX_PIECE:
            raise ScriptError(
                f"line {line}: the statement from here on has more than {_MAX_PIECE:,} characters, the limit; end it "
                "with ';' or divide it"
            )


def split_items(text: str) -> list[ScriptItem]:
    """The pieces of a whole text."""
    return [item for item, _ in _iter_items(text, 0, 1, True)]


def _iter_items(text: str, position: int, line: int, at_end: bool) -> Iterator[tuple[ScriptItem, int]]:
    """Complete pieces of ``text`` from ``position`` on, and the character after each; ``line`` numbers its first
    line."""
    counted_to = 0
    while (start := _find_start(text, position)) is not None:
        line += text.count("\n", counted_to, start)
        counted_to = start
        line_start = text.rfind("\n", 0, start) + 1
        column = start - line_start + 1
        if text[start] in COMMAND_MARKS and not text[line_start:start].strip():
            end = text.find("\n", start)
            position = len(text) if end < 0 else end + 1
            yield ScriptItem(text[start:position].strip(), line, column, is_command=True), position
            continue
        line_end = text.find("\n", start)
        line_end = len(text) if line_end < 0 else line_end
        if find_unquoted_question(text[start:line_end]) is not None:
            # It cannot become valid: it ends with its line, so that its error costs no other statement.
            stop = text.find(";", start, line_end)
            position = line_end if stop < 0 else stop + 1
            yield ScriptItem(text[start:position], line, column), position
            continue
        for token in tokens(text, start):
            if token.kind == "semicolon":
                position = token.end
                break
        else:
            if at_end:
                yield ScriptItem(text[start:].rstrip(), line, column), len(text)
            return
        yield ScriptItem(text[start:position], line, column), position


def _find_start(text: str, position: int) -> int | None:
    """Where the next piece begins; stray ``;`` are passed over."""
    for token in tokens(text, position):
        if token.kind not in ("space", "comment", "semicolon"):
            return token.start
    return None
