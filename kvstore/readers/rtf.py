"""RTF: a Rich Text Format document becomes plain text, with blank lines between its paragraphs.
A *group* is markup in braces, such as a footnote or a box. A *token* is a control word, a character or plain text.

In: an ``.rtf`` file. Out: one document of format ``text``. The text of a box follows the paragraph it is anchored in,
and footnotes come last. Hidden and deleted text is dropped, and struck-out text is put between ``~~``. The title is the
one in the information group, else a title at the beginning of the text. A file that is not RTF or has no text is a
ReaderError, and so is a missing striprtf.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby, takewhile
from typing import BinaryIO

from ..errors import ReaderError
from ..extensions.extras import import_extra
from .decoding import clean_text
from .field_lines import align_columns
from .markdown_blocks import STRUCK_END, STRUCK_START, mark_struck
from .raw_document import Origin, RawDocument, ReadOptions, clean_property_title
from .text import find_title

_TITLE_PATTERN = re.compile(r"\{\\title\s([^{}]{1,1000})\}")  # {\title Tea}
_MACINTOSH_PATTERN = re.compile(r"\\ansicpg10000(?!\d) ?")
#: The number of characters that are searched for the code page.
_MAX_HEADER_CHARACTERS = 1000
_SURROGATES_PATTERN = re.compile("[\ud800-\udbff][\udc00-\udfff]")
#: Groups outside the text, which the library drops, and the ends of paragraphs.
_FOOTNOTE_OR_BOX_PATTERN = re.compile(r"\{(?:\\\*)?\\(?P<kind>footnote|shp)(?![a-z])|(?<!\\)\\par(?![a-z])")
_BOX_TEXT_PATTERN = re.compile(r"\{\\shptxt(?![a-z])")
_BRACE_PATTERN = re.compile(r"\\[\\{}]|[{}]")
#: Formats of characters that change the text: struck out (once or twice), deleted, hidden; and an old list number.
_FORMAT_PATTERN = re.compile(r"\\(?:striked?|deleted|v|pntext)(?![a-z])")
_STRIKES = frozenset(("strike", "striked"))
_OMISSIONS = frozenset(("deleted", "v"))
_TOKEN_PATTERN = re.compile(
    r"\\(?P<word>[A-Za-z]{1,32})(?P<number>-?\d{1,10})? ?|[{}]|\\'[\da-fA-F]{2}|\\[^A-Za-z]|[^\\{}]+"
)
#: Control words that stand for characters.
_CHARACTER_WORDS = frozenset(
    "u tab emdash endash emspace enspace qmspace bullet lquote rquote ldblquote rdblquote".split()
)
#: The number in an old list number: ``1``, ``a.`` or ``(iv)``, and the number of characters that are searched for it.
_LIST_NUMBER_PATTERN = re.compile(r"\d|[a-z][.)]", re.IGNORECASE)
_MAX_NUMBER_CHARACTERS = 300


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Yield the text of an RTF file as one document.

    Raises ReaderError if the file is not RTF, is damaged or has no text, or if striprtf is not installed.
    """
    library = import_extra("striprtf.striprtf", "documents", f"{origin.name}: reading RTF", error=ReaderError)
    to_plain_text: Callable[..., str] = library.rtf_to_text
    file_bytes = stream.read().removeprefix(BOM_UTF8)
    origin.require_content(file_bytes, "is empty")
    if not file_bytes.lstrip().startswith(b"{\\rtf"):
        raise ReaderError(f"{origin.name}: is not RTF (it does not begin with {{\\rtf); ingest it AS text")
    # Non-ASCII characters are written as escapes; any other non-ASCII byte is read in the most common code page.
    markup = file_bytes.decode("cp1252", "replace")
    if _MACINTOSH_PATTERN.search(markup[:_MAX_HEADER_CHARACTERS]):  # Python has another name for this code page
        markup = _MACINTOSH_PATTERN.sub("", markup, count=1)
        to_plain_text = partial(to_plain_text, encoding="mac_roman")
    try:
        decoded = to_plain_text(_move_footnotes_and_boxes(_apply_formats(markup)), errors="replace")
        decoded = mark_struck(decoded).replace(STRUCK_START, "").replace(STRUCK_END, "")
        # Characters beyond the first plane are written as surrogate pairs.
        decoded = _SURROGATES_PATTERN.sub(
            lambda surrogates: surrogates[0].encode("utf-16", "surrogatepass").decode("utf-16"), decoded
        )
        text = clean_text(decoded).replace("\0", "")
        title_match = _TITLE_PATTERN.search(markup)
        title_text = (
            " ".join(to_plain_text(f"{{\\rtf1 {title_match[1]}}}", errors="replace").split()) if title_match else ""
        )
    except Exception as error:  # the library raises various exceptions on damaged files
        raise ReaderError(f"{origin.name}: is damaged ({type(error).__name__}: {error}); save it again") from None
    paragraphs = _split_paragraphs(text)
    origin.require_content(paragraphs)
    text = "\n\n".join(paragraphs) + "\n"
    title = clean_property_title(title_text) or find_title(text)
    yield RawDocument(origin.key, title, text, meta={}, format="text")


def _split_paragraphs(text: str) -> list[str]:
    """Return the nonblank lines of a text as paragraphs, but the rows of a table as one paragraph.

    The bars that end cells are removed. Paragraphs without text, such as an empty table, are omitted.
    """
    paragraphs: list[str] = []
    nonblank_lines = [" ".join(line.split()) for line in text.split("\n") if line.strip()]
    for num_cells, row_lines in groupby(nonblank_lines, _count_cells):  # adjacent lines with the same number of cells
        if num_cells > 1:
            rows = [[cell.strip() for cell in line.removesuffix("|").split("|")] for line in row_lines]
            paragraphs.append(align_columns(rows))
        else:
            paragraphs += (line.removesuffix("|").strip() if num_cells else line for line in row_lines)
    return [paragraph for paragraph in paragraphs if paragraph.strip()]


def _count_cells(line: str) -> int:
    """Return the number of cells of a table row, in which a bar ends each cell; 0 for any other line."""
    return line.count("|") if line.endswith("|") else 0


def _apply_formats(markup: str) -> str:
    """Return the markup without hidden and deleted text, with marks around struck-out text, and with old list numbers.

    Old list numbers (``{\\pntext 1.}``) become plain text, unless the paragraph has a new one (``{\\listtext 1.}``).
    """
    if not _FORMAT_PATTERN.search(markup):
        return markup
    markup = markup.replace(STRUCK_START, "").replace(STRUCK_END, "")
    pieces: list[str] = []
    outer_formats: list[frozenset[str]] = []  # the formats before each open group
    formats: frozenset[str] = frozenset()  # the names in _STRIKES and _OMISSIONS that apply
    has_number = is_marked = False  # is_marked: a struck-out piece has begun
    offset = 0
    while (token := _TOKEN_PATTERN.match(markup, offset)) is not None:
        offset = token.end()
        text, word = token[0], token["word"]  # the word is None for a character or plain text
        is_character = text not in ("{", "}", "\\*") and (word is None or word in _CHARACTER_WORDS)
        if is_character and formats & _OMISSIONS:
            continue
        if is_marked != (is_character and bool(formats & _STRIKES)):
            pieces.append(STRUCK_END if is_marked else STRUCK_START)
            is_marked = not is_marked
        if text == "{":
            outer_formats.append(formats)
        elif text == "}":
            formats = outer_formats.pop() if outer_formats else frozenset()
        elif word == "plain":
            formats = frozenset()
        elif word in _STRIKES or word in _OMISSIONS:
            formats = formats - {word} if token["number"] == "0" else formats | {word}
        elif word == "bin":  # bytes, such as those of a picture
            offset += int(token["number"] or 0)
            text = markup[token.start() : offset]
        elif word in ("par", "listtext"):
            has_number = word == "listtext"
        elif word == "pntext" and not has_number:
            tokens = (match[0] for match in _TOKEN_PATTERN.finditer(markup, offset, offset + _MAX_NUMBER_CHARACTERS))
            number = "".join(part for part in takewhile("}".__ne__, tokens) if part[0] != "\\")
            text = "" if _LIST_NUMBER_PATTERN.search(number) else text
        pieces.append(text)
    return "".join((*pieces, STRUCK_END if is_marked else "", markup[offset:]))


def _move_footnotes_and_boxes(markup: str) -> str:
    """Return the markup with box texts below their paragraphs and numbered footnotes at the end.

    From an unclosed footnote or box on, the markup stays as it is.
    """
    if "\\footnote" not in markup and "\\shptxt" not in markup:
        return markup
    pieces: list[str] = []
    footnotes: list[str] = []
    boxes: list[str] = []
    offset = 0
    while (group := _FOOTNOTE_OR_BOX_PATTERN.search(markup, offset)) is not None:
        if group["kind"] is None:  # the end of a paragraph
            pieces += [markup[offset : group.end()], *boxes]
            boxes.clear()
            offset = group.end()
            continue
        end = _find_group_end(markup, group.start())
        if end < 0:  # an unclosed group
            break
        pieces.append(markup[offset : group.start()])
        if group["kind"] == "footnote":
            footnotes.append(markup[group.end() : end - 1])
            pieces.append(f"[{len(footnotes)}]")
        elif (box := _BOX_TEXT_PATTERN.search(markup, group.end(), end)) is not None:
            boxes.append(f"{{{markup[box.end() : _find_group_end(markup, box.start()) - 1]}\\par }}")
        offset = end
    moved_markup = "".join((*pieces, markup[offset:]))
    last_brace = moved_markup.rfind("}")
    end_groups = [*boxes, *(f"{{[{number}] {text}}}\\par " for number, text in enumerate(footnotes, 1))]
    if not end_groups or last_brace < 0:
        return moved_markup
    return f"{moved_markup[:last_brace]}\\par {''.join(end_groups)}{moved_markup[last_brace:]}"


def _find_group_end(markup: str, start: int) -> int:
    """Return the offset after the group of ``markup`` whose opening brace is at ``start``, or -1 if it is unclosed."""
    depth = 0
    for brace in _BRACE_PATTERN.finditer(markup, start):
        if len(brace[0]) == 1:  # not escaped
            depth += 1 if brace[0] == "{" else -1
            if depth == 0:
                return brace.end()
    return -1
