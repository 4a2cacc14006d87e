"""The lines of a PDF page, in content order, with columns one after another.
pypdf reports the texts of a page, and the operators that show them. The *cells* of a line are its texts between wide
gaps. Positions, sizes and distances are in points, and y grows upward.

In: a page of pypdf. Out: its lines with their positions and letter sizes; ligatures are expanded, and a line is split
into cells at wide gaps.

Source: PDF 32000-1, 9.4.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median_high
from typing import Any, NamedTuple

from .decoding import clean_text
from .pdf_fonts import GLYPH_UNITS, MIN_WORD_GAP, RECOGNIZED_GAP, PenTracker

#: Ligatures belong to the font, not to the text.
_LIGATURES = str.maketrans(
    {"\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl", "\ufb05": "st", "\ufb06": "st"}
)
#: The maximum difference in height of two texts on one line, in letter heights.
_MAX_LINE_OFFSET = 0.7
#: The maximum difference in height of two texts that pypdf reports as one text, in letter heights.
_MAX_BASELINE_OFFSET = 0.3
#: The width of a letter, in letter heights.
_LETTER_WIDTH = 0.62
#: The minimum gap between columns beyond a word space, in letter heights, and the minimum length of a column's lines in
#: characters.
_COLUMN_GAP = 1.4
_MIN_COLUMN_CHARACTERS = 25
#: The minimum gap between two cells of a row, in letter heights. The spaces of justified words are narrower.
MIN_CELL_GAP = 1.15
#: The minimum gap that can separate two cells if other lines have a cell at the same position, in letter heights.
_MIN_INNER_GAP = 0.35
#: The maximum distance of a blank line from the line above it, in letter heights.
_MAX_BLANK_HEIGHT = 6
#: The difference between the numbers of letters of a shown and a reported text from which their ends do not match.
_MAX_LETTER_DIFFERENCE = 4
#: A text continues an ended line if it differs in height, or starts before the end of the line, by at most this, in
#: letter heights.
_MAX_HEIGHT_ERROR = 0.1
_MAX_OVERLAP = 0.2
#: The marker of a list item, and its maximum distance from the text of the item, in letter heights.
MARKER_PATTERN = re.compile(r"[•◦▪‣●○■∙]|\d{1,3}[.)]|[a-z][.)]")
_MAX_MARKER_DISTANCE = 4
#: A page is set in columns if at least this share of its lines has two cells, and this share of them begins its
#: second cell at the usual position.
_MIN_SPLIT_SHARE = 0.5
_MIN_SPLIT_LINES = 5
_MIN_ALIGNED_SHARE = 0.8


class LineCell(NamedTuple):
    """A text of a line between two wide gaps, and the x position of its start in points."""

    x: float
    text: str


class CellGap(NamedTuple):
    """A gap inside a cell that separates two cells if other lines have a cell at the same position.

    ``x`` is the position of the text after the gap, which begins at the character ``offset`` of the cell. ``cell`` is
    the index of the cell, and ``width`` the width of the gap in letter heights.
    """

    cell: int
    offset: int
    x: float
    width: float


@dataclass(slots=True)
class PageLine:
    """A line of a page: its cells (the texts between wide gaps), position and letter size, in points.

    A line of several cells is a row of a table, a term next to its definition, or a line of each column of text.
    """

    x: float
    y: float
    size: float
    cells: list[LineCell]
    after_blank: bool = False  # True if it follows a blank line
    end_x: float | None = None  # the x position after its last letter, if known
    gaps: list[CellGap] = field(default_factory=list)
    is_bold: bool = False  # True if its last text is bold

    @property
    def text(self) -> str:
        """The text of the whole line with single spaces."""
        return " ".join(" ".join(cell.text.split()) for cell in self.cells)

    @property
    def column_starts(self) -> list[float]:
        """The x positions of the texts that can be cells of a table: those before and after wide gaps."""
        return sorted([*(cell.x for cell in self.cells), *(gap.x for gap in self.gaps if gap.width > MIN_CELL_GAP)])


@dataclass(frozen=True, slots=True)
class _ShownText:
    """The text that one operator shows: its position, its number of characters or bytes, and its end, if known."""

    x: float
    y: float
    num_characters: int
    end_x: float | None


@dataclass(frozen=True, slots=True)
class _Separation:
    """The line ends and blank texts that pypdf reported since the last text with letters."""

    ends_line: bool = False
    has_space: bool = False
    has_distant_space: bool = False  # a space that is neither on the open line nor on the next lines
    has_blank_line: bool = False


class _LineCollector:
    """A collector of the lines of a page in content order.
    pypdf reports a text when its line ends or its font changes. The positions of its parts come from ``_shown_texts``:
    the texts that operators have shown since then. ``_open_line`` is the last one, and ``_separation`` the space since.
    """

    def __init__(self, pen: PenTracker) -> None:
        """Create a collector without lines; ``pen`` computes where each shown text ends."""
        self.lines: list[PageLine] = []
        self._open_line: PageLine | None = None  # the last one of the lines
        self._separation = _Separation()
        self._shown_texts: list[_ShownText] = []  # since the last text that pypdf reported
        self._pen = pen

    def track_operator(
        self, operator: bytes, operands: Sequence[Any], transformation: Sequence[float], text_matrix: Sequence[float]
    ) -> None:
        """Update the pen (font and spacing) for an operator of the page, and record the position of the text it shows.

        pypdf calls this before it executes the operator, with the current transformation and text matrices. The
        operands of ``TJ`` are changed in place, so that pypdf recognizes the gaps between words.
        """
        self._pen.track_operator(operator, operands)
        if operator not in (b"Tj", b"TJ", b"'", b'"') or not operands:  # does not show text
            return
        operand = operands[-1] if operator != b"TJ" else operands[0]
        strings_and_gaps = list(operand) if isinstance(operand, list) else [operand]
        # Without spaces, except in strings that pypdf has not decoded.
        num_characters = sum(len(text) - text.count(" ") for text in strings_and_gaps if isinstance(text, str))
        num_characters += sum(len(codes) for codes in strings_and_gaps if isinstance(codes, bytes))
        x, y = _get_position(transformation, text_matrix)
        advance = self._pen.measure_advance(strings_and_gaps)
        # The advance is scaled by both matrices.
        end_x = (
            None
            if advance is None
            else x + advance * (text_matrix[0] * transformation[0] + text_matrix[1] * transformation[2])
        )
        self._shown_texts.append(_ShownText(x, y, num_characters, end_x))
        if operator == b"TJ" and isinstance(operand, list):
            operand[:] = [*_widen_word_gaps(self._pen.add_word_gaps(operand)), *self._pen.compensate_scale(advance)]

    def collect_text(
        self, text: str, transformation: Sequence[float], text_matrix: Sequence[float], font: Any, size: float
    ) -> None:
        """Add a text that pypdf reports to ``lines``, split at wide gaps between the texts that operators have shown.

        The current transformation and the text matrix give its position; ``size`` is the font size in text units. The
        ``font`` is the entry of the page, or None. A text can have line ends, and parts without letters.
        """
        shown_texts, self._shown_texts = self._shown_texts, []
        x, y = _get_position(transformation, text_matrix)
        # Scale the size to points; rotated text has its scale in the second entry of each matrix.
        scale = abs((text_matrix[3] or text_matrix[1]) * (transformation[3] or transformation[1]))
        size = max(1.0, abs(size) * (scale or 1.0))  # a scale of 0 is invalid
        lines = clean_text(text).translate(_LIGATURES).split("\n")
        nonblank_indexes = [index for index, line in enumerate(lines) if line.strip()]
        for index, line in enumerate(lines):
            if index:
                self._record_line_end()
            if not line.strip():
                if line:
                    self._record_spaces(y, size)
                continue
            # The shown texts are assigned to a line only if no other line has text.
            line_texts = shown_texts if len(nonblank_indexes) == 1 else []
            for cell, gaps in _split_at_gaps(line, x, y, size, line_texts):
                self._add_cell_text(cell.text, cell.x, y, size)
                self._add_gaps(gaps, len(cell.text))
            self._separation = _Separation()
            if self._open_line is not None:
                is_last = bool(shown_texts) and index == nonblank_indexes[-1]
                self._open_line.end_x = shown_texts[-1].end_x if is_last else None
                self._open_line.is_bold = "bold" in str((font or {}).get("/BaseFont")).lower()

    def _record_line_end(self) -> None:
        """Record in ``_separation`` that pypdf reported the end of a line.

        A second line end before the next text is a blank line, unless spaces elsewhere on the page preceded it.
        """
        separation = self._separation
        is_blank = separation.ends_line and not separation.has_distant_space
        self._separation = replace(separation, ends_line=True, has_blank_line=separation.has_blank_line or is_blank)

    def _record_spaces(self, y: float, size: float) -> None:
        """Record in ``_separation`` that pypdf reported only spaces, at the height ``y`` in the font size ``size``.

        Spaces elsewhere on the page than just below the open line are *distant*: a line end after them does not count
        as a blank line.
        """
        is_distant = self._separation.has_distant_space or not self._is_below(y, size)
        self._separation = replace(self._separation, has_space=True, has_distant_space=is_distant)

    def _add_cell_text(self, text: str, x: float, y: float, size: float) -> None:
        """Add a text to the open line (after a wide gap, as a new cell), or begin a new line.

        A text at another height begins a new line. So does a text after a line end that pypdf reported, unless it
        continues the open line or is its next cell. The text begins at (x, y), in points, in the font size ``size``.
        """
        line = self._open_line
        separation = self._separation
        self._separation = replace(separation, ends_line=False, has_blank_line=False)
        continues_line = separation.ends_line and line is not None and _continues_line(line, x, y, size)
        is_next_cell = continues_line and line is not None and _has_cell_gap(line, x, size)
        if (
            line is None
            or abs(line.y - y) > _MAX_LINE_OFFSET * max(size, line.size)
            or (separation.ends_line and not continues_line)
        ):
            self._open_line = PageLine(x, y, size, cells=[LineCell(x, text)], after_blank=separation.has_blank_line)
            self.lines.append(self._open_line)
            return
        if line.end_x is None:  # the end of the line is unknown, and so is the gap before the text
            begins_word = separation.has_space or separation.ends_line
        else:
            begins_word = separation.has_space or x - line.end_x > MIN_WORD_GAP * size / GLYPH_UNITS
        start, last_text = line.cells[-1]
        if begins_word and last_text.strip() and not last_text[-1].isspace():
            last_text += " "
        if is_next_cell or _is_wide_gap(x - start, len(last_text.strip()), size):
            line.cells.append(LineCell(x, text))
        else:
            if gap := _find_cell_gap(line.end_x, x, size):
                line.gaps.append(gap._replace(cell=len(line.cells) - 1, offset=len(last_text)))
            line.cells[-1] = LineCell(start, last_text + text)

    def _add_gaps(self, gaps: Sequence[CellGap], num_characters: int) -> None:
        """Add ``gaps`` to the open line. They have offsets in its last text, which has ``num_characters``."""
        if gaps and self._open_line is not None:
            cells = self._open_line.cells
            text_start = len(cells[-1].text) - num_characters
            self._open_line.gaps += [gap._replace(cell=len(cells) - 1, offset=text_start + gap.offset) for gap in gaps]

    def _is_below(self, y: float, size: float) -> bool:
        """True if a text at the height ``y`` is a little below the open line, or if no line is open.

        ``size`` is its font size. All lengths are in points; y grows upward.
        """
        line = self._open_line
        return line is None or 0 < line.y - y < _MAX_BLANK_HEIGHT * max(size, line.size)


def _widen_word_gaps(operands: Sequence[Any]) -> list[Any]:
    """Return the operands of TJ (strings and gaps) with every word gap widened enough for pypdf to recognize it.

    A gap is a negative number, in thousandths of the font size. pypdf compares it with half the width of the font's
    space, or an estimate of it, and then loses most spaces of justified text. The pen position is unchanged, because
    the added width is subtracted after the gap.
    """
    widened_operands: list[Any] = []
    for operand in operands:
        if isinstance(operand, (int, float)) and -RECOGNIZED_GAP < operand <= -MIN_WORD_GAP:
            widened_operands += [-RECOGNIZED_GAP, RECOGNIZED_GAP + operand]
        else:
            widened_operands.append(operand)
    return widened_operands


def _get_position(transformation: Sequence[float], text_matrix: Sequence[float]) -> tuple[float, float]:
    """Return (x, y), the position that the current transformation and the text matrix determine, in points.

    The last two entries of a matrix move a point; the others scale and rotate it (PDF 32000-1, 8.3.3).
    """
    *_, text_x, text_y = text_matrix
    a, b, c, d, e, f = transformation  # the names of the entries in PDF 32000-1, 8.3.3
    return text_x * a + text_y * c + e, text_x * b + text_y * d + f


def _continues_line(line: PageLine, x: float, y: float, size: float) -> bool:
    """True if a text of font size ``size`` at (x, y), in points, is on a line, although pypdf reported the line's end.

    It is at the same height and to the right of the line. pypdf ends a line whenever the pen moves to another height,
    even if it returns before the next text. Some producers do so before each word.
    """
    if abs(line.y - y) > _MAX_HEIGHT_ERROR * size or x <= line.cells[-1].x:
        return False
    return line.end_x is None or x - line.end_x > -_MAX_OVERLAP * size


def _has_cell_gap(line: PageLine, x: float, size: float) -> bool:
    """True if the gap between a line and a text of font size ``size`` at ``x``, to its right, separates two cells."""
    start, last_text = line.cells[-1]
    if line.end_x is None:  # its end is unknown: estimate it from the number of letters
        return _is_wide_gap(x - start, len(last_text.strip()), size)
    return x - line.end_x > MIN_CELL_GAP * size


def _is_wide_gap(distance: float, num_letters: int, size: float) -> bool:
    """True if ``distance``, between the starts of two texts, exceeds the width of the first text plus a column gap.

    The width is estimated from its ``num_letters`` letters. ``size`` is the font size; all lengths are in points.
    """
    # _LETTER_WIDTH is wider than most letters, because the estimate is less certain for a longer text.
    return distance > (_LETTER_WIDTH * num_letters + _COLUMN_GAP) * size


def _find_cell_gap(end_x: float | None, x: float, size: float) -> CellGap | None:
    """Return the gap between a text that ends at ``end_x`` and one that begins at ``x``, or None if it is too narrow.

    Also returns None if the end is unknown. ``size`` is the font size. The caller sets the cell and offset of the gap.
    """
    if end_x is None or x - end_x <= _MIN_INNER_GAP * size:
        return None
    return CellGap(0, 0, x, width=(x - end_x) / size)


def _split_at_gaps(
    text: str, x: float, y: float, size: float, shown_texts: Sequence[_ShownText]
) -> Iterator[tuple[LineCell, list[CellGap]]]:
    """Split a text from pypdf at its wide gaps, and yield the cells, each with the narrower gaps that may separate it.

    The text has the font size ``size`` and begins at (x, y). The gaps are found between ``shown_texts``, the texts that
    the operators of the page have drawn. These can have other letters, such as ligatures, so letter counts are scaled.
    """
    shown_on_line = [
        shown for shown in shown_texts if abs(shown.y - y) < _MAX_BASELINE_OFFSET * size and shown.num_characters
    ]
    total_shown = sum(shown.num_characters for shown in shown_on_line)
    num_letters = len("".join(text.split()))
    offset, start = 0, x  # of the current cell: its offset in the text, and its x position
    gaps: list[CellGap] = []  # of the current cell
    shown_so_far = shown_in_cell = 0  # the numbers of shown letters up to here, in the line and in the current cell
    for shown, next_shown in pairwise(shown_on_line):
        shown_so_far += shown.num_characters
        shown_in_cell += shown.num_characters
        letters_in_cell = round(shown_in_cell * num_letters / total_shown)
        inner_gap = _find_cell_gap(shown.end_x, next_shown.x, size)
        is_wide = _is_wide_gap(next_shown.x - start, letters_in_cell, size) and next_shown.x >= shown.x
        if not (is_wide or inner_gap):
            continue
        split_offset = _find_word_end(text, round(shown_so_far * num_letters / total_shown))
        if not offset < split_offset < len(text):
            continue
        if is_wide:
            yield LineCell(start, text[offset:split_offset]), gaps
            offset, start, shown_in_cell, gaps = split_offset, next_shown.x, 0, []
        elif inner_gap:
            gaps.append(inner_gap._replace(offset=split_offset - offset))
    yield LineCell(start, text[offset:]), gaps


def _find_word_end(text: str, num_letters: int) -> int:
    """Return the offset of the word end whose number of letters before it is nearest to ``num_letters``.

    If it differs by ``_MAX_LETTER_DIFFERENCE`` or more, return the end of the text.
    """
    word_ends = [word.end() for word in re.finditer(r"\S+", text)]
    letters_before = 0
    best_end = len(text)
    best_distance = _MAX_LETTER_DIFFERENCE
    previous_end = 0
    for end in word_ends:
        letters_before += len(text[previous_end:end].strip())
        previous_end = end
        if abs(letters_before - num_letters) < best_distance:
            best_end, best_distance = end, abs(letters_before - num_letters)
    return best_end


def read_page_lines(page: Any, pen: PenTracker) -> list[PageLine]:
    """Return the lines of one page in content order, columns one after another.

    ``pen`` tracks the position of the text that pypdf reports, and caches the fonts of the file.
    """
    pen.start_page(page)
    collector = _LineCollector(pen)
    with _use_array_operators(page):
        page.extract_text(visitor_operand_before=collector.track_operator, visitor_text=collector.collect_text)
    return _reorder_columns(_attach_markers(collector.lines))


@contextmanager
def _use_array_operators(page: Any) -> Iterator[None]:
    """Replace the other text operators of a page with TJ, which takes an array of texts, in the ``with`` block.

    The result looks the same (PDF 32000-1, 9.4.3). The content of form XObjects and invalid content are unchanged.
    """
    from pypdf.generic import ArrayObject, ContentStream, NameObject, StreamObject

    name = NameObject("/Contents")
    contents = page.get(name)
    contents = contents.get_object() if contents is not None else None
    if not isinstance(contents, (ArrayObject, StreamObject)):
        yield
        return
    content = ContentStream(contents, page.pdf, "bytes")
    operations: list[tuple[Any, bytes]] = []
    for operands, operator in content.operations:
        if operator not in (b"Tj", b"'", b'"') or len(operands) < (3 if operator == b'"' else 1):
            operations.append((operands, operator))
            continue
        if operator == b'"':  # sets the spacing of words and characters, then does the same as '
            operations += [([operands[0]], b"Tw"), ([operands[1]], b"Tc")]
        if operator != b"Tj":  # ' moves to the next line, then does the same as Tj
            operations.append(([], b"T*"))
        operations.append(([ArrayObject([operands[-1]])], b"TJ"))
    content.operations = operations
    previous_contents = page.raw_get(name)
    page[name] = content
    try:
        yield
    finally:
        page[name] = previous_contents  # frees the converted content, as all pages stay in memory


def _attach_markers(lines: list[PageLine]) -> list[PageLine]:
    """Merge each list marker that is on its own line into the line of text to its right, which is changed.

    Return the lines without the merged markers. Some producers draw all markers of a page after its text.
    """
    markers = [line for line in lines if MARKER_PATTERN.fullmatch(line.text) is not None]
    merged_ids: set[int] = set()  # of the merged lines
    for marker in markers:
        lines_beside = [
            line
            for line in lines
            if abs(line.y - marker.y) <= _MAX_BASELINE_OFFSET * line.size
            and 0 < line.x - marker.x <= _MAX_MARKER_DISTANCE * line.size
        ]
        if lines_beside:
            item = min(lines_beside, key=lambda line: line.x)
            start, text = item.cells[0]
            item.cells[0] = LineCell(start, f"{marker.text} {text}")
            item.after_blank = True  # so that the item begins a paragraph
            merged_ids.add(id(marker))
    return [line for line in lines if id(line) not in merged_ids]


def _reorder_columns(lines: list[PageLine]) -> list[PageLine]:
    """Return the lines of a page, with the left column before the right one if the page is set in two columns.

    This is the case if many lines have a long text in each column.
    """
    split_lines = [line for line in lines if len(line.cells) == 2]
    if len(split_lines) < max(_MIN_SPLIT_LINES, _MIN_SPLIT_SHARE * len(lines)):
        return lines
    right_start = median_high(line.cells[1].x for line in split_lines)
    aligned_lines = [line for line in split_lines if abs(line.cells[1].x - right_start) < line.size]
    if len(aligned_lines) < _MIN_ALIGNED_SHARE * len(split_lines):
        return lines
    usual_lengths = [median_high(len(line.cells[column].text.strip()) for line in aligned_lines) for column in (0, 1)]
    if min(usual_lengths) < _MIN_COLUMN_CHARACTERS:
        return lines
    left_column: list[PageLine] = []
    right_column: list[PageLine] = []
    for line in lines:
        for x, text in line.cells:
            column = right_column if x > right_start - line.size else left_column
            column.append(PageLine(x, line.y, line.size, cells=[LineCell(x, text)], after_blank=line.after_blank))
    return left_column + right_column
