"""Script reader: splits a stream of bytes into statements and dot commands, each as soon as it is complete. A *plain
question* has neither ASK nor quotes; an *unquoted question* has ASK, but no quotes.

In: UTF-8 from a file, a pipe or a string. Out: one :class:`ScriptItem` per statement or command, with its first line. A
dot command is a line that begins with ``.`` outside a statement. A line that begins with ``\\``, a command of psql, is
treated the same way. A question without ASK or quotes is invalid and ends with its line. A last statement without ``;``
counts as complete. Bytes that are not UTF-8 raise a ScriptError that names the line. At the prompt, questions without
ASK are valid: :func:`expand_questions` replaces them with statements.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from kvstore import language
from kvstore.language import find_plain_question, find_unquoted_question, iter_tokens

_BLOCK_BYTES = 1 << 16
#: The first character of a command line: a dot, or the backslash of psql.
COMMAND_PREFIXES = (".", "\\")
#: The commands that need no dot at the prompt.
DOTLESS_COMMANDS = ("quit", "exit", "help")
_COMMAND_PATTERN = re.compile(r"[.\\][a-z]+\b|\\\?|--|(?:quit|exit|help)\s*;?\s*\Z")  # .tables, \d or quit
_QUOTE_OR_END_PATTERN = re.compile(r"[;'\"]|--|/\*")
#: The number of characters that show whether a question begins, and the maximum length of its lines together.
_MAX_START_CHARACTERS, _MAX_QUESTION_CHARACTERS = 200, 2000
#: The number of characters of a line that show whether it is a question without ASK or quotes.
_MAX_FIRST_LINE_CHARACTERS = 4096
#: The maximum length of a statement in characters; room for the longest document with every character escaped.
_MAX_STATEMENT_CHARACTERS = 128 << 20


class ScriptError(Exception):
    """Raised for a script that cannot be read."""


@dataclass(frozen=True, slots=True)
class ScriptItem:
    """A statement with its ``;``, or a dot command, and the line and column (from 1) where it begins."""

    text: str
    line: int = 1
    column: int = 1
    is_command: bool = False


def read_items(stream: BinaryIO) -> Iterator[ScriptItem]:
    """Yield the statements and dot commands of a stream, each as soon as its last line is read.

    Raises ScriptError for bytes that are not UTF-8, and for a statement that is too long.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    read = getattr(stream, "read1", stream.read)  # read1 does not wait for a whole block
    buffer = ""
    line = 1  # the number of the first line of the buffer
    position = 0  # the offset in the buffer after the last statement
    at_end = False
    while not at_end:
        # A long unfinished statement is parsed again with each block, so the blocks of a file grow with it.
        block = read(max(_BLOCK_BYTES, len(buffer) - position))
        at_end = not block
        try:
            buffer += decoder.decode(block, final=at_end)
        except UnicodeDecodeError as error:
            line_number = line + (buffer + block[: error.start].decode(errors="replace")).count("\n")
            raise ScriptError(f"line {line_number} is not UTF-8; save the script as UTF-8") from None
        lines_end = len(buffer) if at_end else buffer.rfind("\n") + 1
        for item, position_after in _iter_items(buffer[:lines_end], position, line, at_end):
            yield item
            position = position_after
        # Drop finished lines; the unfinished line is kept, so that columns stay right.
        consumed_end = buffer.rfind("\n", 0, position) + 1
        line += buffer.count("\n", 0, consumed_end)
        buffer, position = buffer[consumed_end:], position - consumed_end
        if len(buffer) - position > _MAX_STATEMENT_CHARACTERS:
            raise ScriptError(
                f"line {line}: the statement that begins here has more than {_MAX_STATEMENT_CHARACTERS:,} characters; "
                "end it with ';', or split it"
            )


def split_items(text: str) -> list[ScriptItem]:
    """Return the statements and dot commands of a whole text."""
    return [item for item, _ in _iter_items(text, 0, 1, at_end=True)]


def expand_questions(text: str) -> str:
    """Return typed or pasted text with each question without ASK replaced by an ASK statement.

    A question ends before a line that begins a statement, a command or, after a question mark, another question. In a
    text with a question, ``quit``, ``exit`` and ``help`` get the dot of a command. Other texts are unchanged.

    >>> expand_questions("who signs\\n it?\\nSELECT 1;"), expand_questions("SELECT 1")
    ("ASK 'who signs it?';\\nSELECT 1;", 'SELECT 1')
    """
    parts: list[str] = []
    has_question = False
    position = _skip_space(text, 0)
    while position < len(text):
        end = _find_question_end(text, position)
        if end is not None:
            parts.append(f"ASK {language.format_literal(find_plain_question(text[position:end]) or '')};")
            has_question = True
        else:
            end = _find_statement_end(text, position)
            word = text[position:end].rstrip().removesuffix(";").rstrip().lower()
            parts.append(f".{word}" if word in DOTLESS_COMMANDS else text[position:end])
        position = _skip_space(text, end)
    return "\n".join(parts) if has_question else text


def _skip_space(text: str, position: int) -> int:
    """Return the offset of the first character from ``position`` on that is not white space, or the end."""
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _find_question_end(text: str, start: int) -> int | None:
    """Return the end offset of a plain question that begins at ``start``, or None if the text is not a question.

    The question ends before the first line that begins another statement or command.
    """
    if find_plain_question(text[start : start + _MAX_START_CHARACTERS]) is None:
        return None
    end = line_start = text.find("\n", start) + 1  # 0 after the last line
    while line_start and line_start - start <= _MAX_QUESTION_CHARACTERS:
        if _begins_item(text, line_start, text[start:line_start].rstrip()):
            break
        end = line_start = text.find("\n", line_start) + 1
    end = end or len(text)
    return None if find_plain_question(text[start:end]) is None else end


def _begins_item(text: str, line_start: int, question: str) -> bool:
    """True if the line at ``line_start`` begins a statement, command or question, instead of continuing ``question``.

    After ``?`` or ``;``, any of these can begin. Otherwise the question continues, except before a complete statement
    whose first word is in capitals: words such as *show* and *with* also occur in questions.
    """
    is_ended = question.endswith(("?", "？", "؟", ";"))
    while text.startswith((" ", "\t"), line_start):
        line_start += 1
    line_end = text.find("\n", line_start)
    line = text[line_start : len(text) if line_end < 0 else line_end]
    if is_ended and (find_plain_question(line) is not None or _COMMAND_PATTERN.match(line)):
        return True
    first_word = re.match(r"[A-Za-z]+", line)
    is_capitalized = first_word is not None and first_word[0].isupper()
    if first_word is None or not (is_ended or is_capitalized):
        return False
    # The line, up to a quote or comment, must begin a statement. Most lines fail here, before the rest is read.
    if not can_begin_statement(_QUOTE_OR_END_PATTERN.split(line, maxsplit=1)[0]):
        return False
    # Without ";", the shell would wait for more, so a line that can be a part of the question begins no statement.
    return _begins_statement(text, line_start, can_be_unfinished=is_ended and is_capitalized)


def _begins_statement(text: str, start: int, *, can_be_unfinished: bool) -> bool:
    """True if a valid statement begins at ``start``; it must end with ``;`` unless ``can_be_unfinished``."""
    if not can_be_unfinished and text.find(";", start) < 0:
        return False
    # An error near the beginning is found without reading the rest of the text.
    if not can_begin_statement(text[start:]):
        return False
    semicolon_end = _find_semicolon_end(text, start)
    if semicolon_end is None:
        return can_be_unfinished
    # True if the statement can end at its semicolon; QUERY_TEXT means that a SELECT may continue, or end.
    terminals = language.list_expected_terminals(text[start : semicolon_end - 1])
    return not terminals.isdisjoint(("$END", "QUERY_TEXT"))


def can_begin_statement(text: str) -> bool:
    """True if the grammar has a statement that begins with this text, which may be incomplete."""
    return bool(language.list_expected_terminals(text))


def _find_statement_end(text: str, start: int) -> int:
    """Return the end offset of the statement, the command line or the comment line that begins at ``start``."""
    if text.startswith((*COMMAND_PREFIXES, "--"), start):
        line_end = text.find("\n", start)
        return len(text) if line_end < 0 else line_end
    return _find_semicolon_end(text, start) or len(text)


def _find_semicolon_end(text: str, start: int) -> int | None:
    """Return the offset after the semicolon that ends the statement at ``start``, or None if it is unfinished."""
    return next((token.end for token in iter_tokens(text, start) if token.kind == "semicolon"), None)


def _iter_items(text: str, position: int, line: int, at_end: bool) -> Iterator[tuple[ScriptItem, int]]:
    """Yield the complete statements and dot commands from ``position`` on, each with its end offset.

    ``line`` is the number of the first line of ``text``. If ``at_end``, a last statement without ``;`` is complete. A
    question without ASK or quotes, which is invalid in a script, is yielded as a statement that ends with its line.
    """
    counted_end = line_start = 0  # the line ends before this offset are counted in ``line``
    while (start := _find_start(text, position)) is not None:
        last_line_end = text.rfind("\n", counted_end, start)
        if last_line_end >= 0:
            line += text.count("\n", counted_end, start)
            line_start = last_line_end + 1
        counted_end = start
        column = start - line_start + 1
        if text[start] in COMMAND_PREFIXES and not text[line_start:start].strip():
            end = text.find("\n", start)
            position = len(text) if end < 0 else end + 1
            yield ScriptItem(text[start:position].strip(), line, column, is_command=True), position
            continue
        statement_end = _find_invalid_question_end(text, start) or _find_semicolon_end(text, start)
        if statement_end is None:
            if at_end:
                yield ScriptItem(text[start:].rstrip(), line, column), len(text)
            return
        position = statement_end
        yield ScriptItem(text[start:position], line, column), position


def _find_invalid_question_end(text: str, start: int) -> int | None:
    """Return the end offset of the plain or unquoted question that begins at ``start``, or None if there is none.

    In a script, this question is invalid. It ends with its line, so that its error affects no other statement.
    """
    first_line = text[start : start + _MAX_FIRST_LINE_CHARACTERS].partition("\n")[0]
    if find_plain_question(first_line) is None and find_unquoted_question(first_line) is None:
        return None
    line_end = text.find("\n", start)
    line_end = len(text) if line_end < 0 else line_end
    semicolon = text.find(";", start, line_end)
    return line_end if semicolon < 0 else semicolon + 1


def _find_start(text: str, position: int) -> int | None:
    """Return the offset of the next statement or dot command from ``position`` on, or None; stray ``;`` are skipped."""
    for token in iter_tokens(text, position):
        if token.kind not in ("space", "comment", "semicolon"):
            return token.start
    return None
