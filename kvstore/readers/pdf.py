"""PDF: the text layer of all pages becomes one document.
A *running line* is repeated at the head or foot of pages. The *cells* of a line are its texts between wide gaps. The
*leading* is the usual distance between lines. Lengths are in points, and y grows upward.

In: a PDF file. Out: one document of format ``text``. Lines are joined into paragraphs, hyphenated words are restored,
and pages are separated by a blank line. A table of three or more columns is one paragraph with a line for each row and
aligned cells; other rows and entries of a list are separate paragraphs. A term is on a line above its definition,
columns of text follow one another, and ligatures are expanded. Running heads and page numbers are dropped and reported
in ``left_out``; the ``navigation=keep`` option keeps them. The title is the one in the file's metadata if it is
meaningful, else a title at the beginning of the text. ``meta['pages']`` counts the pages,
``meta['pages_without_text']`` the pages that are images. A file that is damaged, locked with a password or without a
text layer is a ReaderError, and so is a missing pypdf.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import BinaryIO, NamedTuple

from ..errors import ReaderError
from ..extensions.extras import import_extra
from .decoding import clean_text
from .field_lines import align_columns
from .pdf_fonts import PenTracker
from .pdf_lines import PageLine, read_page_lines
from .raw_document import (
    JSON,
    MAX_EXCERPT_CHARACTERS,
    NavigationPart,
    Origin,
    RawDocument,
    ReadOptions,
    clean_property_title,
)
from .text import find_title

_BULLET_PATTERN = re.compile(r"[•◦▪‣●○■∙]\s")
#: The number of a clause with parts (``4.2``) that begins with a capital, and the end of the clause before it.
_CLAUSE_START_PATTERN = re.compile(r"\d{1,3}(?:\.\d{1,3})+\.?\s+[^\W\d_a-z]")
_CLAUSE_END_PATTERN = re.compile(r"[.:;][\"'”’)]*$")  # tea."
#: A line shorter than this share of the page's usual line length ends its paragraph.
_SHORT_LINE_SHARE = 0.6
#: The maximum distance of two lines of a paragraph, relative to the usual distance on the page, and the maximum
#: difference of their letter sizes, relative to the size.
_MAX_LEADING = 1.45
_MAX_SIZE_DIFFERENCE = 0.12
#: The minimum number of columns of a table. A line of two cells can be a term next to its definition.
_MIN_COLUMNS = 3
#: The minimum indentation that has a meaning, and the maximum offset between aligned lines, in letter heights.
_MIN_INDENT = 0.8
_MAX_ALIGNED_OFFSET = 0.5
#: Limits for running heads: the number of lines at the top and bottom of a page that can be running heads; the minimum
#: number of pages with the same line; the minimum share of the pages between the first and last of them (left and right
#: pages can alternate); the height tolerance in points; and the maximum number of characters.
_NUM_EDGE_LINES = 2
_MIN_RUNNING_PAGES = 3
_MIN_RUNNING_SHARE = 0.4
_HEIGHT_TOLERANCE = 3
_MAX_RUNNING_CHARACTERS = 150
_NUMBER_PATTERN = re.compile(r"\d+|\b(?=[ivxlc])(?:x[lc]|l?x{0,3})(?:i[xv]|v?i{0,3})\b")  # 12 or xiv
#: A number that can be a page number, unlike a year: *Total of 2023*, *Total of 2024*.
_DIGITS_PATTERN = re.compile(r"(?<!\d)(?!(?:19|20)\d\d(?!\d))\d{1,4}(?!\d)")
_PAGE_WORD = r"(?:[Pp]age|[Ss]eite|[Pp][aá]gina|p\.|S\.)"
#: A page number, in a line with ``#`` in place of each number: ``page # of #``.
_PAGE_NUMBER_PATTERN = re.compile(rf"\W*(?:{_PAGE_WORD}\W*)?#(?:\W*(?:of|von|sur|de|di|van|/)\W*#)?\W*")
_PAGE_LABEL_PATTERN = re.compile(rf"(?<!\w){_PAGE_WORD}\W*#")
#: A word or hyphenated compound, and the last word before a hyphen at the end of a line.
_COMPOUND_PATTERN = re.compile(r"[^\W\d_]+(?:[-\u2010][^\W\d_]+)*")
_LAST_WORD_PATTERN = re.compile(rf"{_COMPOUND_PATTERN.pattern}(?=.$)")
_HYPHENATED_PATTERN = re.compile(r"[^\W\d_][-\u2010\u00ad]$")  # the end of "bot-" before "tle"


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Yield the text of all pages of a PDF file as one document.

    Running heads, running feet and page numbers are omitted, unless the ``navigation`` option is ``keep``. Raises
    ReaderError if the file is damaged, locked, or has no text, or if pypdf is not installed.
    """
    import_extra("pypdf", "documents", f"{origin.name}: reading PDF", error=ReaderError)
    import pypdf
    from pypdf.errors import DependencyError

    with _silence_logger("pypdf"):
        try:
            reader = pypdf.PdfReader(stream)
            if reader.is_encrypted and not reader.decrypt(""):
                raise ReaderError(f"{origin.name}: is protected by a password; ingest a copy without one")
            pen = PenTracker()
            pages = [read_page_lines(page, pen) for page in reader.pages]
            title = reader.metadata.title if reader.metadata is not None else None
        except (ReaderError, MemoryError):
            raise
        except DependencyError as error:
            raise ReaderError(f"{origin.name}: is encrypted, and {error}; ingest an unencrypted copy") from None
        except Exception as error:  # pypdf raises many kinds of exceptions on damaged files
            raise ReaderError(
                f"{origin.name}: is damaged or not PDF ({type(error).__name__}: {error}); open it and save it again"
            ) from None
    if not any(pages):
        raise ReaderError(f"{origin.name}: has no text layer ({len(pages)} pages of images); run OCR first")
    content_pages, left_out = (pages, ()) if options.navigation == "keep" else _remove_running_lines(pages)
    spellings = _Spellings(content_pages)
    text = "\n\n".join(filter(None, (_build_page_text(lines, spellings) for lines in content_pages)))
    meta: dict[str, JSON] = {"pages": len(pages)}
    num_blank = sum(not lines for lines in pages)
    if num_blank:
        meta["pages_without_text"] = num_blank
    title = clean_property_title(clean_text(title)) if isinstance(title, str) else ""
    yield RawDocument(
        origin.key, title=title or find_title(text), text=text + "\n", meta=meta, format="text", left_out=left_out
    )


@contextmanager
def _silence_logger(library: str) -> Iterator[None]:
    """Suppress what a library logs in the ``with`` block, because a ReaderError reports its failures."""
    logger = logging.getLogger(library)
    previous_level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(previous_level)


def _remove_running_lines(pages: Sequence[list[PageLine]]) -> tuple[list[list[PageLine]], tuple[NavigationPart, ...]]:
    """Return (lines of each page without running heads, running feet and page numbers, removed lines).

    A running line is among the first or last of its page. At the same height, other pages have a line that differs only
    in numbers. It must occur on ``_MIN_RUNNING_PAGES`` pages, and on ``_MIN_RUNNING_SHARE`` of the pages between its
    first and last page, because chapter heads change. Two pages are enough for a line with the number of the page. If
    nothing else would be left, all lines are kept.
    """
    running_lines: dict[int, NavigationPart] = {}  # by the id of the line
    for (edge, _, normalized), occurrences in _group_edge_lines(pages).items():
        page_indexes = sorted({page_index for page_index, _ in occurrences})
        num_pages_between = page_indexes[-1] - page_indexes[0] + 1
        is_numbered = edge == "foot" or _PAGE_LABEL_PATTERN.search(normalized) is not None
        min_pages = 2 if is_numbered and _has_page_numbers(occurrences) else _MIN_RUNNING_PAGES
        if len(page_indexes) < max(min_pages, _MIN_RUNNING_SHARE * num_pages_between):
            continue
        reason = "page number" if _PAGE_NUMBER_PATTERN.fullmatch(normalized) else f"running {edge}"
        for page_index, line in occurrences:
            excerpt = line.text[:MAX_EXCERPT_CHARACTERS]
            running_lines[id(line)] = NavigationPart(f"page {page_index + 1}", reason, len(line.text), excerpt)
    content_pages = [[line for line in lines if id(line) not in running_lines] for lines in pages]
    if not any(content_pages):
        return list(pages), ()
    return content_pages, tuple(
        running_lines[id(line)] for lines in pages for line in lines if id(line) in running_lines
    )


def _group_edge_lines(pages: Sequence[list[PageLine]]) -> dict[tuple[str, int, str], list[tuple[int, PageLine]]]:
    """Return the first and last lines of all pages, as pairs (page index, line), grouped by their place and text.

    The key of a group is (``head`` or ``foot``, height in steps of the tolerance, text with ``#`` for each number).
    """
    groups: dict[tuple[str, int, str], list[tuple[int, PageLine]]] = {}
    for page_index, lines in enumerate(pages):
        lines_from_top = sorted(lines, key=lambda line: -line.y)
        edge_lines = [("head", line) for line in lines_from_top[:_NUM_EDGE_LINES]]
        edge_lines += [("foot", line) for line in lines_from_top[_NUM_EDGE_LINES:][-_NUM_EDGE_LINES:]]
        for edge, line in edge_lines:
            normalized = _NUMBER_PATTERN.sub("#", line.text)
            if len(normalized) <= _MAX_RUNNING_CHARACTERS:
                key = (edge, round(line.y / _HEIGHT_TOLERANCE), normalized)
                groups.setdefault(key, []).append((page_index, line))
    return groups


def _has_page_numbers(occurrences: Sequence[tuple[int, PageLine]]) -> bool:
    """True if a number at the same position in each line, such as the last one, rises by one from page to page.

    ``occurrences`` are pairs (index of a page, line on it); the lines differ only in numbers.
    """
    # If a number is the page number, its difference from the page's index is the same in each line.
    differences = [
        [int(number) - page_index for number in _DIGITS_PATTERN.findall(line.text)] for page_index, line in occurrences
    ]
    return any(len(set(column)) == 1 for column in zip(*differences, strict=False))


class _Spellings:
    """The words of a text, in folded case; they decide whether a hyphen at the end of a line is kept."""

    def __init__(self, pages: Iterable[Sequence[PageLine]]) -> None:
        """Collect the words and hyphenated compounds of the lines of all pages, in folded case."""
        self._words = {
            _normalize_word(word) for lines in pages for line in lines for word in _COMPOUND_PATTERN.findall(line.text)
        }

    def join_hyphenated(self, text: str, line: str) -> str:
        """Join a text that ends in a hyphen with the next line.

        A soft hyphen is removed. If the document also contains the word within a line, with a hyphen or without one but
        not both, that spelling is used. Otherwise the hyphen is removed before a lowercase letter and kept before other
        characters.
        """
        last_word, first_word = _LAST_WORD_PATTERN.search(text), _COMPOUND_PATTERN.match(line)
        keep_hyphen = not line[0].islower()
        if text[-1] == "\u00ad":
            keep_hyphen = False
        elif last_word is not None and first_word is not None:
            is_unhyphenated_known, is_hyphenated_known = (
                _normalize_word(last_word[0] + hyphen + first_word[0]) in self._words for hyphen in ("", "-")
            )
            keep_hyphen = keep_hyphen if is_unhyphenated_known == is_hyphenated_known else is_hyphenated_known
        return (text if keep_hyphen else text[:-1]) + line


def _normalize_word(word: str) -> str:
    """Return a word in folded case and with ASCII hyphens."""
    return word.replace("\u2010", "-").casefold()


def _build_page_text(lines: Sequence[PageLine], spellings: _Spellings) -> str:
    """Return the text of one page, empty if it has no lines; the positions of lines determine the paragraphs.

    ``spellings`` has the words of the whole document, to join words that are hyphenated at line ends.
    """
    if not lines:
        return ""
    layout = _measure_layout(lines)
    tables = {id(rows[0]): rows for rows in _find_tables(lines)}  # by the id of the first row
    table_lines = {id(row) for rows in tables.values() for row in rows}
    paragraphs: list[str] = []
    num_lines = 0  # of the current paragraph
    for previous, line, next_line in zip([None, *lines], lines, [*lines[1:], None], strict=False):
        if id(line) in table_lines:
            if id(line) in tables:
                cells = [[" ".join(cell.text.split()) for cell in row.cells] for row in tables[id(line)]]
                paragraphs.append(align_columns(cells))
            continue
        separator = None
        if previous is not None and id(previous) not in table_lines:
            separator = _choose_separator(previous, line, next_line, num_lines, layout)
        if separator is None:
            paragraphs.append(line.text)
            num_lines = 1
            continue
        num_lines += 1
        if separator == " " and _HYPHENATED_PATTERN.search(paragraphs[-1]) is not None:
            paragraphs[-1] = spellings.join_hyphenated(paragraphs[-1], line.text)
        else:
            paragraphs[-1] += separator + line.text
    return "\n\n".join(paragraphs)


class _PageLayout(NamedTuple):
    """The usual length of a full line of a page, in characters, and the usual distance between lines, in points."""

    usual_length: int
    leading: float


def _measure_layout(lines: Sequence[PageLine]) -> _PageLayout:
    """Return the usual line length and distance of a page that has lines."""
    lengths = sorted(len(line.text) for line in lines)
    usual_length = lengths[len(lengths) * 9 // 10]  # the ninth decile, to ignore short lines of headings and tables
    # The distances between adjacent lines, without gaps between blocks and jumps to the next column.
    steps = sorted(previous.y - line.y for previous, line in pairwise(lines) if 0 < previous.y - line.y < 3 * line.size)
    return _PageLayout(usual_length, leading=steps[len(steps) // 2] if steps else 0.0)  # the median


def _find_tables(lines: Sequence[PageLine]) -> Iterator[list[PageLine]]:
    """Yield the rows of each table: two or more lines of three or more aligned cells (texts between wide gaps)."""
    rows: list[PageLine] = []
    for line in lines:
        if rows and _has_same_columns(rows[0], line):
            rows.append(line)
            continue
        if len(rows) > 1:
            yield rows
        rows = [line] if len(line.cells) >= _MIN_COLUMNS else []
    if len(rows) > 1:
        yield rows


def _has_same_columns(row: PageLine, line: PageLine) -> bool:
    """True if a line has as many cells (texts between wide gaps) as ``row``, and each begins in the same column."""
    starts = [cell.x for cell in row.cells]
    ends = [*starts[1:], math.inf]  # a column ends where the next one starts
    return len(line.cells) == len(starts) and all(
        start - _MAX_ALIGNED_OFFSET * line.size <= cell.x < end
        for start, end, cell in zip(starts, ends, line.cells, strict=True)
    )


def _choose_separator(
    previous: PageLine, line: PageLine, next_line: PageLine | None, num_lines: int, layout: _PageLayout
) -> str | None:
    """Return the separator between a line and the ``previous`` line: a space or newline; None if a paragraph begins.

    ``next_line`` is the line after both (None: the page ends). ``num_lines`` is the number of lines of the paragraph
    above. Lines are compared with the ``layout`` of the page.
    """
    distance_down, distance_right, em = previous.y - line.y, line.x - previous.x, line.size
    if line.after_blank or _BULLET_PATTERN.match(line.text) or len(line.cells) > 1:
        return None
    if _CLAUSE_START_PATTERN.match(line.text) and _CLAUSE_END_PATTERN.search(previous.text):
        return None  # "4.2 The tenant", below the end of a sentence
    # A line of the usual length, or with a hyphen at its end, usually continues; a short line ends its paragraph.
    is_full = (
        len(previous.text) >= _SHORT_LINE_SHARE * layout.usual_length
        or _HYPHENATED_PATTERN.search(previous.text) is not None
    )
    if distance_down <= 0:  # the next column, or an irregular order
        return " " if is_full else None
    if distance_down > _MAX_LEADING * layout.leading:
        return None
    if abs(line.size - previous.size) > _MAX_SIZE_DIFFERENCE * previous.size:
        return None
    if len(previous.cells) > 1:  # a definition continues below itself, a row of a table does not
        return " " if distance_right > em else None
    if distance_right > _MIN_INDENT * em:
        if _BULLET_PATTERN.match(previous.text):
            return " "
        return _choose_indented_separator(line, next_line, is_full) if num_lines == 1 else None
    if distance_right < -_MIN_INDENT * em:  # only the first line of the paragraph is indented, or another part begins
        return " " if num_lines == 1 and is_full else None
    return " " if is_full else None


def _choose_indented_separator(line: PageLine, next_line: PageLine | None, is_full: bool) -> str | None:
    """Return the separator before a line that is farther to the right than the only line of the paragraph above it.

    It is a newline if the line above is a term, which is not full, and the line begins its definition. It is a space if
    the line above is full (``is_full``), and ``next_line`` is below the line. Otherwise, return None: a paragraph
    begins.
    """
    max_offset = _MAX_ALIGNED_OFFSET * line.size
    is_continued = next_line is not None and next_line.y < line.y and abs(next_line.x - line.x) < max_offset
    if is_full:
        return " " if is_continued else None
    is_definition = is_continued or next_line is None or next_line.x < line.x - max_offset
    return "\n" if is_definition else None
