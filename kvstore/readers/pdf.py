"""PDF: the text layer of all pages becomes one document.
A *running line* is repeated at the head or foot of pages. The *cells* of a line are its texts between wide gaps. The
*leading* is the usual distance between lines. Lengths are in points, and y grows upward.

In: a PDF file. Out: one document of format ``text``. Lines are joined into paragraphs, hyphenated words are restored,
and pages are separated by a blank line. A table is one paragraph with a line for each row and aligned cells, if at
least three rows have two cells, or two rows have more; other rows and entries of a list are separate paragraphs. A term
is on a line above its definition, columns of text follow one another, and ligatures are expanded. Running heads and
page numbers are dropped and reported in ``left_out``; the ``navigation=keep`` option keeps them. The title is the one
in the file's metadata if it is meaningful, else a title at the beginning of the text. ``meta['pages']`` counts the
pages, ``meta['pages_without_text']`` the pages that are images. A file that is damaged, locked with a password or
without a text layer is a ReaderError, and so is a missing pypdf.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, pairwise, takewhile
from statistics import median_high
from typing import BinaryIO, NamedTuple

from ..errors import ReaderError
from ..extensions.extras import import_extra
from .decoding import clean_text
from .field_lines import align_columns
from .pdf_fonts import PenTracker
from .pdf_lines import MARKER_PATTERN, MIN_CELL_GAP, LineCell, PageLine, read_page_lines
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
#: The number of an item of a list.
_ITEM_NUMBER_PATTERN = re.compile(r"(\d{1,3})[.)]\s")
_CLAUSE_END_PATTERN = re.compile(r"[.:;][\"'”’)]*$")  # tea."
#: A line shorter than this share of the page's usual line length ends its paragraph.
_SHORT_LINE_SHARE = 0.6
#: The maximum distance of two lines of a paragraph, relative to the usual distance on the page, and the maximum
#: difference of their letter sizes, relative to the size.
_MAX_LEADING = 1.45
_MAX_SIZE_DIFFERENCE = 0.12
#: The minimum number of rows of a table, and of one of two columns or with narrow gaps. A line of two cells can also be
#: a term next to its definition, or two texts that have nothing to do with each other.
_MIN_ROWS, _MIN_UNCERTAIN_ROWS = 2, 3
#: The columns of a table are searched in this number of lines. The minimum gap before a column that begins at the same
#: position in several lines, and the maximum difference of its positions, in letter heights.
_MAX_COMPARED_LINES = 12
_MIN_SHARED_GAP, _MAX_SHARED_OFFSET = 0.65, 0.1
#: The maximum distance of two rows, and of a line that continues the cells above it, in letter heights.
_MAX_ROW_DISTANCE, _MAX_CONTINUED_DISTANCE = 4.0, 1.5
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
#: A date, usually the day of printing, in such a line: ``#.#.#``.
_DATE_PATTERN = re.compile(r"#([/.-]) ?#\1 ?#")
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
    first and last page, because chapter heads change. Two pages are enough for a line with the number of the page, and
    for the same line with a date. If nothing else would be left, all lines are kept.
    """
    running_lines: dict[int, NavigationPart] = {}  # by the id of the line
    for (edge, _, normalized), occurrences in _group_edge_lines(pages).items():
        page_indexes = sorted({page_index for page_index, _ in occurrences})
        num_pages_between = page_indexes[-1] - page_indexes[0] + 1
        # A page number at the foot needs no label, such as "Page 3".
        is_numbered = edge == "foot" or _PAGE_LABEL_PATTERN.search(normalized) is not None
        has_date = _DATE_PATTERN.search(normalized) and len({line.text for _, line in occurrences}) == 1
        min_pages = 2 if has_date or (is_numbered and _has_page_numbers(occurrences)) else _MIN_RUNNING_PAGES
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
    tables = {id(table.lines[0]): table for table in _find_tables(lines)}  # by the id of the first line
    table_lines = {id(line) for table in tables.values() for line in table.lines}
    paragraphs: list[str] = []
    num_lines = 0  # of the current paragraph
    for previous, line, next_line in zip([None, *lines], lines, [*lines[1:], None], strict=False):
        if id(line) in table_lines:
            if id(line) in tables:
                header, *others = tables[id(line)].lines
                has_header = header.is_bold and not any(row.is_bold for row in others)
                paragraphs.append(align_columns(tables[id(line)].rows, has_header=has_header))
            continue
        separator = None
        is_next_item = bool(paragraphs) and _is_next_item(paragraphs[-1], line.text)
        if previous is not None and id(previous) not in table_lines and not is_next_item:
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


def _is_next_item(item: str, line: str) -> bool:
    """True if ``line`` begins with the number after that of ``item``: ``6. Lock up.`` after ``5. Clean the tank.``"""
    item_number, line_number = _ITEM_NUMBER_PATTERN.match(item), _ITEM_NUMBER_PATTERN.match(line)
    return item_number is not None and line_number is not None and int(line_number[1]) == int(item_number[1]) + 1


class _PageLayout(NamedTuple):
    """The usual length of a full line of a page in characters; its usual line distance and letter size in points."""

    usual_length: int
    leading: float
    size: float


def _measure_layout(lines: Sequence[PageLine]) -> _PageLayout:
    """Return the usual line length and distance of a page that has lines."""
    lengths = sorted(len(line.text) for line in lines)
    usual_length = lengths[len(lengths) * 9 // 10]  # the ninth decile, to ignore short lines of headings and tables
    # The distances between adjacent lines, without gaps between blocks and jumps to the next column.
    steps = sorted(previous.y - line.y for previous, line in pairwise(lines) if 0 < previous.y - line.y < 3 * line.size)
    leading = steps[len(steps) // 2] if steps else 0.0  # the median
    return _PageLayout(usual_length, leading, size=median_high(line.size for line in lines))


def _find_tables(lines: Sequence[PageLine]) -> Iterator[_AlignedTable]:
    """Yield the tables among the lines of a page: adjacent lines of aligned cells (texts between wide gaps).

    The columns of a table begin at the cells of its first line or at the positions that its lines share, whichever
    gives it more rows.
    """
    index = 0
    while index < len(lines):
        references = (lines[index], _build_reference_line(lines, index))
        tables = (_match_rows(lines, index, line) for line in references if len(line.column_starts) > 1)
        table = max(tables, key=lambda table: (len(table.rows), sum(map(bool, chain(*table.rows)))), default=None)
        if table is not None and _is_table(table):
            yield table
            index += len(table.lines)
        else:
            index += 1


def _build_reference_line(lines: Sequence[PageLine], first: int) -> PageLine:
    """Return an artificial line with an empty cell at each x position where columns of several lines begin.

    The lines are those from ``first`` on, and end before one without a gap. At least two of them, and at least half of
    those below ``first``, must have a column there.
    """
    next_lines = lines[first : first + _MAX_COMPARED_LINES]
    rows = list(takewhile(lambda line: len(line.cells) > 1 or line.gaps, next_lines))
    gaps = [gap for line in rows for gap in line.gaps if gap.width > _MIN_SHARED_GAP]
    starts = sorted([*(cell.x for line in rows for cell in line.cells), *(gap.x for gap in gaps)])
    size = lines[first].size
    cells: list[LineCell] = []
    for x in starts:
        num_aligned = sum(abs(x - start) <= _MAX_SHARED_OFFSET * size for start in starts)
        is_next = not cells or x - cells[-1].x > _MAX_ALIGNED_OFFSET * size
        if is_next and num_aligned >= max(2, (len(rows) - 1) / 2):
            cells.append(LineCell(x, ""))
    return replace(lines[first], cells=cells, gaps=[], end_x=None)


class _AlignedTable(NamedTuple):
    """A table: its lines in order, and the texts of the cells of each row, which can continue over several lines."""

    lines: list[PageLine]
    rows: list[list[str]]


def _match_rows(lines: Sequence[PageLine], start: int, reference: PageLine) -> _AlignedTable:
    """Return the table that begins at ``lines[start]`` and whose columns begin at the cells of the line ``reference``.

    The table is empty if that first line is not a row. A line without a text in the first column continues the cells
    of the row above it.
    """
    table = _AlignedTable([], [])
    for index in range(start, len(lines)):
        line = lines[index]
        distance = table.lines[-1].y - line.y if table.lines else 1.0
        if not 0 < distance <= _MAX_ROW_DISTANCE * line.size:
            break
        cells = _split_into_columns(line, reference)
        if cells is None:
            break
        if not table.rows and line.is_bold and all(cells[1:]):  # a header can lack its first cell
            cells[0] = cells[0] or "–"
        if cells[0]:
            table.rows.append(cells)
        elif table.rows and distance <= _MAX_CONTINUED_DISTANCE * line.size:
            table.rows[-1][:] = [" ".join(filter(None, texts)) for texts in zip(table.rows[-1], cells, strict=True)]
        else:
            break
        table.lines.append(line)
    return table


def _split_into_columns(line: PageLine, reference: PageLine) -> list[str] | None:
    """Return the text of a line in each column of a table, or None if the line does not belong to the table.

    The columns begin at the cells of the line ``reference``, which must have several. A line belongs to the table if

    1. it has a text in each column,
    2. or it continues a row: it has no text in the first column,
    3. or there are more than two columns, and all of its texts are aligned: one in the first column, and another one.
    """
    starts = [*reference.column_starts, reference.end_x or math.inf]
    second_last_start = starts[-3]
    tolerance = _MAX_ALIGNED_OFFSET * line.size
    cells = [""] * (len(starts) - 1)
    pieces = list(_iter_pieces(line))
    has_same_end = abs((line.end_x or 0.0) - (reference.end_x or math.inf)) <= tolerance
    column = -1
    is_aligned = len(cells) > 2
    for index, (x, text, is_cell) in enumerate(pieces):
        aligned_columns = (
            next_column
            for next_column in range(max(column + 1, 1), len(cells))
            if abs(x - starts[next_column]) <= tolerance
        )
        # A long number in the last column can begin left of the others.
        is_right_aligned = has_same_end and index == len(pieces) - 1 and x > second_last_start
        if index == 0 and x < starts[1] - tolerance:
            column = 0
        elif (aligned_column := next(aligned_columns, None)) is not None:
            column = aligned_column
        elif is_right_aligned and column == len(cells) - 2:
            column += 1
        elif is_cell:  # it can be centered
            is_aligned = False
            column = next((c for c in range(column + 1, len(cells)) if starts[c] - tolerance <= x < starts[c + 1]), -1)
            if column < 0:
                return None
        # Any other piece continues the text of the column.
        cells[column] = f"{cells[column]} {text}".strip()
    is_row = all(cells) or not cells[0] or (is_aligned and any(cells[1:]))
    return cells if is_row else None


def _iter_pieces(line: PageLine) -> Iterator[tuple[float, str, bool]]:
    """Split the cells of a line at the gaps in them, and yield the pieces: x position, text, True after a wide gap."""
    for index, (start, text) in enumerate(line.cells):
        gaps = [gap for gap in line.gaps if gap.cell == index]
        offsets = [0, *(gap.offset for gap in gaps), len(text)]
        starts = [(start, True), *((gap.x, gap.width > MIN_CELL_GAP) for gap in gaps)]
        for (x, is_wide), (offset, end) in zip(starts, pairwise(offsets), strict=True):
            yield x, " ".join(text[offset:end].split()), is_wide


def _is_table(table: _AlignedTable) -> bool:
    """True if rows of cells are a table, and not terms with long definitions, a list or a table of contents."""
    num_columns = len(table.rows[0]) if table.rows else 0
    if num_columns != 2:  # the others have two columns
        has_wide_gaps = all(len(line.cells) > 2 for line in table.lines)
        return len(table.rows) >= (_MIN_ROWS if has_wide_gaps else _MIN_UNCERTAIN_ROWS)
    num_continued = len(table.lines) - len(table.rows)  # lines that continue a row, as those of long definitions do
    is_list = all(MARKER_PATTERN.fullmatch(first) for first, _ in table.rows)
    page_numbers = [second for _, second in table.rows if second.isdecimal()]
    is_contents = len(page_numbers) == len(table.rows) and sorted(page_numbers, key=int) == page_numbers
    has_enough_rows = len(table.rows) >= max(_MIN_UNCERTAIN_ROWS, 2 * num_continued)
    return has_enough_rows and not (is_list or is_contents)


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
    scale = max(1.0, line.size / layout.size)  # of the letters of a title
    is_full = (
        len(previous.text) * scale >= _SHORT_LINE_SHARE * layout.usual_length
        or _HYPHENATED_PATTERN.search(previous.text) is not None
    )
    if distance_down <= 0:  # the next column, or an irregular order
        return " " if is_full else None
    if distance_down > _MAX_LEADING * layout.leading * scale:
        return None
    if abs(line.size - previous.size) > _MAX_SIZE_DIFFERENCE * previous.size:
        return None
    if len(previous.cells) > 1:  # a definition continues below itself, a row of a table does not
        return " " if distance_right > em else None
    if distance_right > _MIN_INDENT * em:
        if _BULLET_PATTERN.match(previous.text) or (is_full and _ITEM_NUMBER_PATTERN.match(previous.text)):
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
