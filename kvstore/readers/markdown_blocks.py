"""Markdown output of the readers that convert other formats, so that later stages parse one form only.
A *block* is a paragraph, heading, list, table, quotation or code block.

:class:`InlineBuilder` collects the running text of one paragraph. Functions create :class:`MarkdownBlock` objects from
finished parts, and :func:`join_blocks` joins them. Literal text is escaped only if it would open a block (``#``, ``-
``, ``1. `` at the start of a line, ``|`` in a table cell). All other text is unchanged, so that names are found
verbatim.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import unquote

_MAX_HEADING_LEVEL = 6
#: The maximum number of columns or rows that a table cell spans.
MAX_SPAN = 50
#: The maximum number of characters of a cell that is repeated in each row that it spans.
MAX_REPEATED_CHARACTERS = 1000
#: The minimum number of digits of a telephone number in a text.
_MIN_TELEPHONE_DIGITS = 5
_LINE_BREAK_PATTERN = re.compile(r" ?\n ?")
#: Soft hyphens, zero-width spaces and joiners, and stray byte-order marks, which are removed.
_INVISIBLE_CHARACTERS = dict.fromkeys(map(ord, "\u00ad\u200b\u2060\ufeff"))
_BLOCK_OPENER_PATTERN = re.compile(
    r"#{1,6}(?=\s|$)|[-+*](?=\s|$)|>|`{3}|~{3}|\||=+$|-+$|(?:\*\s*){3,}$|(?:_\s*){3,}$|<(?=[!?/A-Za-z])|\[(?=[^\]]+\]:)"
)
#: The possible first characters of a block opener.
_OPENER_CHARACTERS = frozenset("#-+*>`~|=_<[")
_NUMBERED_ITEM_PATTERN = re.compile(r"(\d{1,9})([.)])(?=\s|$)")  # 1. tea
_ITEM_MARKER_PATTERN = re.compile(r"\s*(?:-|\d+\.) ")
_CLOSING_HASHES_PATTERN = re.compile(r"\s+#+$")  # the end of "## Green tea ##"
_WORD_BREAK_PATTERN = re.compile(r"\W.|.\W", re.S)
_EXPONENT_PATTERN = re.compile(r"[-−+]?\d+|[-−]?n")  # -2
#: The last character of a base, which comes before its exponent.
_BASE_END_PATTERN = re.compile(r"[^\W_]|\)")
_BACKTICKS_PATTERN = re.compile(r"`+")
#: The characters around struck-out text until it is marked, a gap in it, and a sentence or the last words of a line.
STRUCK_START, STRUCK_END = "\x02", "\x03"
_STRUCK_PATTERN = re.compile("\x02([^\x02\x03]*)\x03")
_STRUCK_GAP_PATTERN = re.compile("\x03([ \t]*)\x02")
_STRUCK_PIECE_PATTERN = re.compile(r"\S(?:[^\n]*?[.!?](?=\s)|[^\n]*\S)?")
_BRACKETS_TO_PARENTHESES = str.maketrans("[]", "()")


@dataclass(frozen=True, slots=True)
class MarkdownBlock:
    """A block of Markdown with its source ``text``; ``kind`` is paragraph, heading, list, code, table or quote."""

    kind: str
    text: str


class ListItem(NamedTuple):
    """An item of a list: its marker, which is ``-`` or a number such as ``1.``, and its blocks."""

    marker: str
    blocks: list[MarkdownBlock]


class EmphasisStart(NamedTuple):
    """The position where emphasis begins: the number of ``take_paragraphs`` calls before it, and its first text."""

    num_takes: int
    text_index: int


def find_contact_address(target: str, text: str) -> str:
    """Return the mail address or telephone number of a link's ``target``, unless the ``text`` of the link has one.

    >>> find_contact_address("mailto:ada%40example.org?subject=Keys", "Ada")
    'ada@example.org'
    """
    scheme, _, rest = target.strip().partition(":")
    address = unquote(rest.partition("?")[0]).strip()
    if not address.isprintable():  # %00 is a control character
        return ""
    if scheme.lower() == "mailto":
        has_address = "@" in text or " at " in text  # ada at example.org
        return address if "@" in address and not has_address else ""
    if scheme.lower() == "tel":
        return address if sum(map(str.isdecimal, text)) < _MIN_TELEPHONE_DIGITS else ""
    return ""


def mark_struck(text: str) -> str:
    """Return a text with ``~~`` around its struck-out parts, which are between ``STRUCK_START`` and ``STRUCK_END``.

    Each sentence and line of a part has marks of its own, as texts are cut there. A part with a tilde has none.

    >>> mark_struck("Pay \x02now.\x03 \x02Or \x03\x02never \x03again.")
    'Pay ~~now.~~ ~~Or never~~ again.'
    """
    return _STRUCK_PATTERN.sub(
        lambda part: part[1] if "~" in part[1] else _STRUCK_PIECE_PATTERN.sub(r"~~\g<0>~~", part[1]),
        _STRUCK_GAP_PATTERN.sub(r"\1", text),
    )


def is_exponent(text: str, last_character: str) -> bool:
    """True if superscript text is an exponent; ``last_character`` ends the text before it.

    >>> is_exponent("-6", "0"), is_exponent("st", "1"), is_exponent("2", " ")
    (True, False, False)
    """
    return bool(_EXPONENT_PATTERN.fullmatch(text) and _BASE_END_PATTERN.match(last_character))


class InlineBuilder:
    """A builder of a paragraph: white space collapses, a line break is a ``\\n``, two begin a new paragraph.
    ``_texts`` are the pieces collected so far; ``_code_end`` and ``_emphasis_end`` are its lengths after the last code
    and emphasis. With ``plain``, code and emphasis are not marked, as in headings.
    """

    def __init__(self, plain: bool = False) -> None:
        """Create a builder of an empty paragraph; with ``plain``, code and emphasis are not marked."""
        self.plain = plain
        self._texts: list[str] = []
        self._images: list[str] = []  # alternative texts, which are also in ``_texts``
        # To detect text that directly continues code or emphasis; -1 if none can.
        self._code_end = -1
        self._emphasis_end = -1
        self._is_emphasized = False  # True within emphasis
        self._is_struck = False  # True within struck-out text
        self._num_takes = 0  # the number of calls to take_paragraphs; each call ends open emphasis
        self._needs_space = False  # True if the next text must not continue the last word

    def add_text(self, text: str) -> None:
        """Add literal text, after a space if :meth:`separate_words` was called and the text would continue a word.

        If the text continues a word that begins with emphasis, remove the emphasis.
        """
        if not text:
            return
        text = _collapse_whitespace(text)
        if text[0].isalnum() and len(self._texts) == self._emphasis_end and not self._needs_space:
            # The last two texts are the emphasized text and the space after it, which is empty here.
            self._texts[-2] = self._texts[-2].removeprefix("*").removesuffix("*")
        if self._needs_space:
            last_character = self.get_last_character()
            if text[0].isalnum() and (last_character.isalnum() or last_character in "`*"):
                self._texts.append(" ")
            self._needs_space = False
        self._texts.append(text)

    def add_exponent(self, text: str) -> bool:
        """Add superscript text after ``^`` if it is an exponent of the text before it, as in ``10^6``, and return True.

        Otherwise, as in ``21st``, return False.
        """
        if not is_exponent(text, self.get_last_character()):
            return False
        self.add_text(f"^{text}")
        return True

    def separate_words(self) -> None:
        """Separate the text that is added next from the last word by a space, unless there is one already."""
        self._needs_space = True

    def add_image(self, alternative: str) -> None:
        """Add the alternative text of an image, separated from the words around it.

        Unless it is blank, it is also recorded for :meth:`take_lone_images`.
        """
        alternative = alternative.translate(_INVISIBLE_CHARACTERS)
        if alternative.strip():
            self._images.append(alternative)
        self.separate_words()
        self.add_text(alternative)
        self.separate_words()

    def break_line(self) -> None:
        """End the line without ending the paragraph."""
        self._texts.append("\n")

    def add_code(self, text: str) -> None:
        """Add inline code; code directly after code continues it, unless this would join two words."""
        text = _collapse_whitespace(text if text.isascii() else text.translate(_INVISIBLE_CHARACTERS))
        code = text.strip()
        if not code or self.plain:
            self.add_text(text)
            return
        if text[0] == " ":
            self.add_text(" ")
        continues_code = len(self._texts) == self._code_end and "`" not in code
        # The last text then is a code span, whose last character before the backtick is at index -2.
        if continues_code and _WORD_BREAK_PATTERN.fullmatch(self._texts[-1][-2] + code[0]):
            self._texts[-1] = f"{self._texts[-1][:-1]}{code}`"
        else:
            self._texts += [" "] if continues_code else []
            self._texts.append(make_code_span(code))
        self._code_end = -1 if "`" in code else len(self._texts)
        if text[-1] == " ":
            self.add_text(" ")

    def start_emphasis(self) -> EmphasisStart | None:
        """Begin emphasis, and return its position, which the caller must pass to :meth:`end_emphasis`.

        Return None if the emphasis will not be marked: inside other emphasis, and in plain text.
        """
        if self.plain or self._is_emphasized:
            return None
        self._is_emphasized = True
        return EmphasisStart(self._num_takes, len(self._texts))

    def end_emphasis(self, emphasis_start: EmphasisStart | None) -> None:
        """End the emphasis that began at ``emphasis_start`` (None: no emphasis): put ``*`` around the text added since.

        Text is not marked if it is empty, is code, contains ``*``, spans several blocks, or begins within a word. If it
        ends within a word, :meth:`add_text` removes the marks.
        """
        if emphasis_start is None:
            return
        self._is_emphasized = False
        num_takes, start = emphasis_start
        text = "".join(self._texts[start:])
        stripped = text.strip()
        # The text spans several blocks if take_paragraphs was called within it, or if it has several paragraphs.
        if num_takes != self._num_takes or "\n\n" in stripped:
            return
        if not stripped or "*" in stripped or stripped[0] == stripped[-1] == "`":
            return
        space_before = text[: len(text) - len(text.lstrip())]
        space_after = text[len(text.rstrip()) :]
        if not space_before and stripped[0].isalnum() and self._ends_with_word(start):
            return
        self._texts[start:] = [space_before, f"*{stripped}*", space_after]
        self._emphasis_end = -1 if space_after else len(self._texts)

    def start_strike(self) -> bool:
        """Begin struck-out text, which is marked even in plain text. Return False if it has begun already."""
        if self._is_struck:
            return False
        self._is_struck = True
        self._texts.append(STRUCK_START)
        return True

    def end_strike(self) -> None:
        """End the struck-out text. Emphasis that began in it must have ended."""
        self._is_struck = False
        self._texts.append(STRUCK_END)

    def _ends_with_word(self, end: int) -> bool:
        """True if the last nonempty text before the index ``end`` ends with a letter or digit."""
        texts = (self._texts[index] for index in reversed(range(end)))  # a slice would be copied for each emphasis
        return next((text[-1].isalnum() for text in texts if text), False)

    def get_last_character(self) -> str:
        """Return the last character added, or an empty string if no text was added."""
        return next((text[-1] for text in reversed(self._texts) if text), "")

    def take_lone_images(self) -> list[str]:
        """If only images were collected, return their alternative texts and discard the collected text.

        Otherwise, return an empty list and change nothing.
        """
        images = self._images.copy()
        # Emphasis around an image adds stars.
        if not images or _remove_spaces_and_stars("".join(self._texts)) != _remove_spaces_and_stars("".join(images)):
            return []
        self.take_paragraphs()  # discards the text
        return images

    def take_paragraphs(self) -> list[str]:
        """Return the texts of the paragraphs collected since the last call, not yet escaped, and clear them."""
        self._num_takes += 1
        self._images.clear()
        if not self._texts:
            return []
        text = "".join(self._texts)
        if not text.isascii():
            text = text.translate(_INVISIBLE_CHARACTERS)
        if STRUCK_START in text:
            text = mark_struck(text)
        self._texts.clear()
        self._code_end = self._emphasis_end = -1
        self._needs_space = False
        if "  " in text:
            text = re.sub(" {2,}", " ", text)
        if "\n" in text:
            lines = _LINE_BREAK_PATTERN.sub("\n", text).strip()
            return [part.strip() for part in re.split(r"\n{2,}", lines) if part.strip()]
        line = text.strip()
        return [line] if line else []


def _remove_spaces_and_stars(text: str) -> str:
    """Return a text without white space and asterisks, for comparison."""
    return "".join(text.replace("*", "").split())


def _collapse_whitespace(text: str) -> str:
    """Return a text with every run of white space replaced by one space."""
    if text.isprintable() and "  " not in text:  # the space is the only printable white space
        return text
    line = " ".join(text.split())
    if not line:
        return " "
    return f"{' ' if text[0].isspace() else ''}{line}{' ' if text[-1].isspace() else ''}"


def make_code_span(text: str) -> str:
    """Return a text as inline code, between more backticks than it contains in a row."""
    if "`" not in text:
        return f"`{text}`"
    ticks = "`" * (1 + max(map(len, _BACKTICKS_PATTERN.findall(text))))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def make_paragraph(text: str) -> MarkdownBlock:
    """Return a paragraph of one or more lines; characters that would begin another block are escaped."""
    if "\n" not in text:  # the common case
        return MarkdownBlock("paragraph", _escape_line(text))
    return MarkdownBlock("paragraph", "\n".join(map(_escape_line, text.split("\n"))))


def make_image(alternative: str) -> MarkdownBlock:
    """Return a paragraph with an image without a target, ``![alternative]()``; answers do not quote images."""
    text = " ".join(alternative.split()).translate(_BRACKETS_TO_PARENTHESES)
    return MarkdownBlock("paragraph", f"![{text}]()")


def _escape_line(line: str) -> str:
    """Return a line with a backslash before the character that would make it a heading, an item or another block."""
    first_character = line[:1]
    if first_character.isdecimal():
        number = _NUMBERED_ITEM_PATTERN.match(line)
        return line if number is None else f"{number[1]}\\{line[number.end(1) :]}"  # "1. tea" becomes "1\. tea"
    opens_block = first_character in _OPENER_CHARACTERS and _BLOCK_OPENER_PATTERN.match(line)
    return f"\\{line}" if opens_block else line


def make_heading(level: int, text: str) -> MarkdownBlock:
    """Return a heading on one line; ``level`` is 1 to 6, and a lower or higher level becomes the nearest of these."""
    title = _CLOSING_HASHES_PATTERN.sub("", " ".join(text.split()))
    return MarkdownBlock("heading", f"{'#' * max(1, min(level, _MAX_HEADING_LEVEL))} {title}")


def make_code_block(code: str, language: str = "") -> MarkdownBlock:
    """Return a code block in ``language`` (empty: unknown), without blank lines at its ends.

    Nonbreaking spaces in the code become spaces. The fence has more backticks than the code has in a row.
    """
    code = code.replace("\r\n", "\n").replace("\u00a0", " ").strip("\n")
    max_backticks = max(map(len, _BACKTICKS_PATTERN.findall(code)), default=0)
    fence = "`" * max(3, max_backticks + 1)
    return MarkdownBlock("code", f"{fence}{language}\n{code}\n{fence}")


def make_quote(blocks: Sequence[MarkdownBlock]) -> MarkdownBlock:
    """Return a block quotation with these blocks in it."""
    return MarkdownBlock("quote", "\n".join(f"> {line}".rstrip() for line in join_blocks(blocks).split("\n")))


def make_list(items: Sequence[tuple[str, Sequence[MarkdownBlock]]]) -> MarkdownBlock:
    """Return a Markdown list of (marker, blocks of the item) pairs, such as :class:`ListItem` objects.

    Lines after an item's first line are indented. If an item has more than a paragraph and a list, blank lines separate
    all items.
    """
    rendered_items: list[str] = []
    has_long_items = False
    for marker, blocks in items:
        kinds = [block.kind for block in blocks]
        is_short = len(kinds) == 1 or kinds == ["paragraph", "list"]
        has_long_items = has_long_items or not is_short
        body = ("\n" if is_short else "\n\n").join(block.text for block in blocks)
        indent = " " * (len(marker) + 1)
        rendered_items.append(f"{marker} " + re.sub(r"\n(?=[^\n])", "\n" + indent, body))
    return MarkdownBlock("list", ("\n\n" if has_long_items else "\n").join(rendered_items))


def prepend_label(label: str, blocks: list[MarkdownBlock]) -> list[MarkdownBlock]:
    """Return blocks with a label at the start of the first paragraph, or as a paragraph before another block."""
    if blocks and blocks[0].kind == "paragraph":
        return [MarkdownBlock("paragraph", f"{label} {blocks[0].text}"), *blocks[1:]]
    return [MarkdownBlock("paragraph", label), *blocks]


def prepend_term(term: str, blocks: list[MarkdownBlock]) -> list[MarkdownBlock]:
    """Return the blocks of a definition or note with its term or label put before its first paragraph: ``term: text``.

    Without a term, the blocks are unchanged; without blocks, the term becomes a paragraph.
    """
    if not term:
        return blocks
    return prepend_label(f"{term.removesuffix(':')}:" if blocks else term, blocks)


def make_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> MarkdownBlock:
    """Return a Markdown table of cell texts; ``header`` can be empty, and rows can have fewer or more cells."""
    num_columns = max([len(header), *map(len, rows)])
    header_line = _format_row([*header, *[""] * (num_columns - len(header))])
    return MarkdownBlock("table", "\n".join([header_line, "|" + " --- |" * num_columns, *map(_format_row, rows)]))


def _format_row(cells: Sequence[str]) -> str:
    """Return the line of a table row, with escaped ``|`` in its cells."""
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def render_one_line(blocks: Sequence[MarkdownBlock]) -> str:
    """Return Markdown blocks as one line for a table cell; semicolons separate items, rows and unfinished sentences."""
    line = ""
    for block in blocks:
        if block.kind == "code":
            _opening_fence, *code_lines, _closing_fence = block.text.split("\n")
            block_line = make_code_span(" ".join(" ".join(code_lines).split()))
        elif block.kind == "list":
            block_line = "; ".join(
                _ITEM_MARKER_PATTERN.sub("", item, count=1) for item in block.text.split("\n") if item.strip()
            )
        elif block.kind == "table":
            header, _rule, *rows = block.text.split("\n")
            # [2:-2]: without the first and the last bar.
            block_line = "; ".join(row[2:-2].replace(" | ", ", ") for row in (header, *rows))
        else:
            block_line = " ".join(block.text.split())
        if line:
            line += " " if line.endswith((".", ":", ";", ",", "!", "?")) else "; "
        line += block_line
    return line


def join_blocks(blocks: Sequence[MarkdownBlock]) -> str:
    """Return the Markdown text of blocks, with blank lines between them."""
    return "\n\n".join(block.text for block in blocks)
