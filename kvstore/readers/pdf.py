"""PDF: the text layer of all pages becomes one document.

In: a PDF file. Out: one document of format ``text``. Lines are joined into paragraphs, hyphenated words are restored,
and pages are separated by a blank line. Rows of a table and entries of a list are separate paragraphs, a term is on a
line above its definition, columns follow one another, and ligatures are expanded. Running heads and page numbers are
dropped and reported in ``left_out``; the option ``navigation=keep`` keeps them. The title is the one in the file's
metadata if it is meaningful, else a title at the beginning of the text. ``meta['pages']`` counts the pages,
``meta['pages_without_text']`` the pages that are images. A file that is damaged, locked with a password or without a
text layer is a ReaderError, and so is a missing pypdf.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, BinaryIO

from ..errors import ReaderError
from ..extras import import_extra
from .decoding import clean_text
from .raw_document import JSON, LeftOut, Origin, RawDocument, ReadOptions, clean_property_title
from .text import find_title

#: Ligatures belong to the font, not to the text.
_LIGATURES = str.maketrans(
    {"\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl", "\ufb05": "st", "\ufb06": "st"}
)
#: The minimum gap between columns beyond a word space, in letter heights, and the minimum length of a column's lines in
#: characters.
_COLUMN_GAP = 1.4
_MIN_COLUMN_CHARACTERS = 25
#: The minimum gap between words, in thousandths of a letter's height, and a gap that pypdf recognizes in any font.
_MIN_WORD_GAP = 140
_SURE_GAP = 1000
#: The minimum width of a space; a narrower one is canceled by the word spacing.
_MIN_SPACE_WIDTH = 50
#: The maximum number of codes of a string whose character spacing separates words; longer strings are letterspaced.
_MAX_SPACED_CODES = 3
#: The maximum number of widths of a font; there are no more two-byte codes.
_MAX_WIDTHS = 1 << 16
_BULLET_PATTERN = re.compile(r"[•◦▪‣●○■∙]\s")
#: A line shorter than this share of the page's usual line length ends its paragraph.
_SHORT_LINE_SHARE = 0.6
#: Limits for running heads: the number of lines at the top and bottom of a page that can be running heads; the minimum
#: number of pages with the same line; the minimum share of the pages between the first and last of them (left and right
#: pages can alternate); the height tolerance in points; and the maximum number of characters.
_NUM_EDGE_LINES = 2
_MIN_RUNNING_PAGES = 3
_MIN_RUNNING_SHARE = 0.4
_HEIGHT_TOLERANCE = 3
_MAX_RUNNING_CHARACTERS = 150
_NUMBER_PATTERN = re.compile(r"\d+|\b(?=[ivxlc])(?:x[lc]|l?x{0,3})(?:i[xv]|v?i{0,3})\b")
_PAGE_NUMBER_PATTERN = re.compile(r"\W*(?:(?:[Pp]age|[Ss]eite|p\.)\W*)?#(?:\W*(?:of|von|/)\W*#)?\W*")
#: A word or hyphenated compound, and the last word before a hyphen at the end of a line.
_COMPOUND_PATTERN = re.compile(r"[^\W\d_]+(?:[-\u2010][^\W\d_]+)*")
_LAST_WORD_PATTERN = re.compile(rf"{_COMPOUND_PATTERN.pattern}(?=.$)")
_HYPHENATED_PATTERN = re.compile(r"[^\W\d_][-\u2010\u00ad]$")


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Yield the file's one document."""
    import_extra("pypdf", "documents", f"{origin.name}: reading PDF", error=ReaderError)
    import pypdf
    from pypdf.errors import DependencyError

    with _silence_logger("pypdf"):
        try:
            reader = pypdf.PdfReader(stream)
            if reader.is_encrypted and not reader.decrypt(""):
                raise ReaderError(f"{origin.name}: is locked with a password; store an unlocked copy")
            pen = _PenTracker()
            pages = [_read_page_lines(page, pen) for page in reader.pages]
            title = reader.metadata.title if reader.metadata is not None else None
        except (ReaderError, MemoryError):
            raise
        except DependencyError as error:
            raise ReaderError(f"{origin.name}: is encrypted, and {error}; store an unlocked copy") from None
        except Exception as error:  # pypdf raises many kinds of exceptions on damaged files
            raise ReaderError(
                f"{origin.name}: is damaged or no PDF ({type(error).__name__}: {error}); open it and save it again"
            ) from None
    if not any(pages):
        raise ReaderError(f"{origin.name}: has no text layer ({len(pages)} pages of images); run OCR first")
    kept_pages, left_out = (pages, ()) if options.navigation == "keep" else _remove_running_lines(pages)
    spellings = _Spellings(kept_pages)
    text = "\n\n".join(filter(None, (_build_page_text(lines, spellings) for lines in kept_pages)))
    meta: dict[str, JSON] = {"pages": len(pages)}
    num_blank = sum(not lines for lines in pages)
    if num_blank:
        meta["pages_without_text"] = num_blank
    title = clean_property_title(clean_text(title)) if isinstance(title, str) else ""
    yield RawDocument(origin.key, title or find_title(text), text + "\n", meta, "text", left_out)


@contextmanager
def _silence_logger(library: str) -> Iterator[None]:
    """Suppress a library's warnings about a file; the ReaderError is sufficient."""
    logger = logging.getLogger(library)
    previous_level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(previous_level)


@dataclass(slots=True)
class _PageLine:
    """A line of a page: its pieces with their x positions, and its letter size, in points.

    A line of several pieces has wide gaps: a row of a table, a term beside its definition, or columns of text.
    """

    x: float
    y: float
    size: float
    pieces: list[tuple[float, str]]
    after_blank: bool = False
    end: float | None = None  # the x position after its last letter, if known

    @property
    def text(self) -> str:
        return " ".join(" ".join(text.split()) for _, text in self.pieces)


@dataclass(frozen=True, slots=True)
class _ShownText:
    """The text that one operator shows: its position, its number of characters or bytes, and its end, if known."""

    x: float
    y: float
    count: int
    end: float | None


#: The number of bytes per code, the widths of codes, and the default width, in thousandths of a letter's height.
_Widths = tuple[int, dict[int, float], float]


@dataclass(frozen=True, slots=True)
class _TextState:
    """The text state of a page (PDF 32000-1, 9.3): the font, and how far a code moves the pen.

    ``single_byte``: each byte is a code. ``size`` and the spacings are in text units; ``scale`` is a factor.
    """

    widths: _Widths | None = None
    single_byte: bool = False
    size: float = 0.0
    characters: float = 0.0
    words: float = 0.0
    scale: float = 1.0


class _PenTracker:
    """A tracker of the text state that computes how far a text moves the pen (PDF 32000-1, 9.3 and 9.4.4).

    pypdf ignores word spacing (``Tw``) and takes the resulting displacement for a gap. It does not report where a text
    ends. Between two fonts, it ignores word gaps narrower than half of its estimate of a space. This class computes the
    positions from the widths in the file's fonts (9.2.4 and 9.7.4.3).
    """

    def __init__(self) -> None:
        self._page: Any = None
        self._widths_by_font: dict[
            int, tuple[Any, _Widths | None]
        ] = {}  # by the id of the font, which is kept alive here
        self._state = _TextState()
        self._saved_states: list[_TextState] = []

    def start_page(self, page: Any) -> None:
        """Begin another page, whose first font is not yet set."""
        self._page, self._state, self._saved_states = page, _TextState(), []

    def track_operator(self, operator: bytes, operands: Sequence[Any]) -> None:
        """Update the text state for an operator."""
        if operator == b"q":
            self._saved_states.append(self._state)
        elif operator == b"Q" and self._saved_states:
            self._state = self._saved_states.pop()
        elif operator == b"Tf" and len(operands) > 1:
            self._set_font(str(operands[0]), operands[1])
        elif operands and isinstance(operands[0], (int, float)):
            number = float(operands[0])
            if operator == b"Tc":
                self._state = replace(self._state, characters=number)
            elif operator == b"Tw":
                self._state = replace(self._state, words=number)
            elif operator == b"Tz":
                self._state = replace(self._state, scale=number / 100)

    def _set_font(self, name: str, size: Any) -> None:
        single_byte, widths = False, None
        try:
            font = self._page["/Resources"]["/Font"][name].get_object()
            single_byte = font["/Subtype"] != "/Type0"
            if id(font) not in self._widths_by_font:
                self._widths_by_font[id(font)] = font, None
                self._widths_by_font[id(font)] = font, _read_widths(font)
            widths = self._widths_by_font[id(font)][1]
        except Exception:  # a missing, damaged or unknown font has no widths
            pass
        height = float(size) if isinstance(size, (int, float)) else 0.0
        self._state = replace(self._state, widths=widths, single_byte=single_byte, size=height)

    def measure_advance(self, parts: Sequence[Any]) -> float | None:
        """Return how far the shown text moves the pen, in text units, or None if the font has no widths."""
        state = self._state
        if state.widths is None:
            return None
        code_size, widths, default = state.widths
        total = spacing = 0.0
        for part in parts:
            if isinstance(part, (int, float)):
                total -= float(part)
                continue
            codes = _get_codes(part)
            if not codes or len(codes) % code_size:
                return None
            total += sum(
                widths.get(int.from_bytes(codes[offset : offset + code_size], "big"), default)
                for offset in range(0, len(codes), code_size)
            )
            spacing += state.characters * (len(codes) // code_size) + state.words * (
                codes.count(b" ") if code_size == 1 else 0
            )
        return (total * state.size / 1000 + spacing) * state.scale

    def add_word_gaps(self, parts: Sequence[Any]) -> list[Any]:
        """Return the operands of TJ, with spacings that separate words replaced by gaps between strings.

        Ghostscript writes text of groff in this way: ``(st)`` with a wide ``Tc`` ends one word and begins the next, and
        in ``(eg a)`` a negative ``Tw`` cancels the whole space. Longer strings with a wide ``Tc`` are letterspaced.
        """
        state = self._state
        if not state.single_byte or not state.size:
            return list(parts)
        character_spacing, word_spacing = (spacing * 1000 / state.size for spacing in (state.characters, state.words))
        strings = [_get_codes(part) for part in parts if not isinstance(part, (int, float))]
        if character_spacing >= _MIN_WORD_GAP and all(1 < len(codes) <= _MAX_SPACED_CODES for codes in strings):
            # pypdf counts character spacing itself. The gaps move the pen by 0, and the spacing after the last code is
            # undone.
            return [*self._insert_gaps(parts, b"", [-_SURE_GAP, _SURE_GAP]), character_spacing]
        if not word_spacing:
            return list(parts)
        width = state.widths[1].get(ord(" ")) if state.widths is not None else None
        if word_spacing < 0 and width is not None and width + character_spacing + word_spacing < _MIN_SPACE_WIDTH:
            return self._insert_gaps(parts, b" ", [-width - character_spacing - word_spacing])
        return self._insert_gaps(parts, b" ", [b" ", -word_spacing])

    def compensate_scale(self, advance: float | None) -> list[float]:
        """Return the adjustment that moves the pen back after a condensed text, because pypdf ignores ``Tz``."""
        state = self._state
        if advance is None or not state.size or not 0 < state.scale < 1:
            return []
        return [(advance / state.scale - advance) * 1000 / state.size]

    @staticmethod
    def _insert_gaps(parts: Sequence[Any], separator: bytes, gap: Sequence[Any]) -> list[Any]:
        """Return the operands with ``gap`` in place of each code ``separator`` in their strings.

        If ``separator`` is empty, ``gap`` is inserted between all codes of a string.
        """
        gaps: list[Any] = []
        for part in parts:
            if isinstance(part, (int, float)):
                gaps.append(part)
                continue
            codes = _get_codes(part)
            for number, piece in enumerate(
                codes.split(separator) if separator else [codes[n : n + 1] for n in range(len(codes))]
            ):
                gaps += [*(gap if number else ()), *([piece] if piece else ())]
        return gaps


def _get_codes(part: Any) -> bytes:
    """Return the codes of a shown string."""
    return part if isinstance(part, bytes) else getattr(part, "original_bytes", b"")


def _read_widths(font: Any) -> _Widths | None:
    """Return the widths of a font, or None if its codes are unknown."""
    if font["/Subtype"] != "/Type0":
        first_code = int(font["/FirstChar"])
        # A Type 3 font has its own unit (9.6.5).
        unit = float(font["/FontMatrix"][0]) * 1000 if font["/Subtype"] == "/Type3" else 1.0
        widths = [float(width.get_object()) * unit for width in font["/Widths"].get_object()]
        return 1, dict(enumerate(widths, first_code)), 0.0
    if font["/Encoding"] != "/Identity-H":
        return None
    descendant = font["/DescendantFonts"].get_object()[0].get_object()
    widths_by_code: dict[int, float] = {}
    entries = [part.get_object() for part in descendant["/W"].get_object()] if "/W" in descendant else []
    index = num_widths = 0
    while index < len(entries):
        first_code, width_entry = int(entries[index]), entries[index + 1]
        count = len(width_entry) if isinstance(width_entry, list) else int(width_entry) + 1 - first_code
        num_widths += count
        if num_widths > _MAX_WIDTHS:
            return None
        if isinstance(width_entry, list):
            widths_by_code.update(enumerate((float(width.get_object()) for width in width_entry), first_code))
            index += 2
        else:
            widths_by_code.update(dict.fromkeys(range(first_code, first_code + count), float(entries[index + 2])))
            index += 3
    return 2, widths_by_code, float(descendant.get("/DW", 1000))


class _LineCollector:
    """A collector that receives the texts of a page from pypdf, in content order, and makes lines of them.

    pypdf reports a text when its line ends or its font changes. The positions of the parts of a line therefore come
    from the operators that show them (PDF 32000-1, 9.4.3).
    """

    def __init__(self, pen: _PenTracker) -> None:
        self.lines: list[_PageLine] = []
        self._open_line: _PageLine | None = None
        self._after_blank = False
        self._shown_texts: list[_ShownText] = []
        self._pen = pen

    def track_operator(
        self, operator: bytes, operands: Sequence[Any], outer: Sequence[float], inner: Sequence[float]
    ) -> None:
        """Process an operator before pypdf executes it."""
        self._pen.track_operator(operator, operands)
        if operator not in (b"Tj", b"TJ", b"'", b'"') or not operands:
            return
        operand = operands[-1] if operator != b"TJ" else operands[0]
        pieces = list(operand) if isinstance(operand, list) else [operand]
        count = sum(len(piece) - piece.count(" ") for piece in pieces if isinstance(piece, str))
        count += sum(len(piece) for piece in pieces if isinstance(piece, bytes))
        x, y = _get_position(outer, inner)
        advance = self._pen.measure_advance(pieces)
        end = None if advance is None else x + advance * (inner[0] * outer[0] + inner[1] * outer[2])
        self._shown_texts.append(_ShownText(x, y, count, end))
        if operator == b"TJ" and isinstance(operand, list):
            operand[:] = [*_widen_word_gaps(self._pen.add_word_gaps(operand)), *self._pen.compensate_scale(advance)]

    def collect_text(
        self, text: str, outer: Sequence[float], inner: Sequence[float], font: object, size: float
    ) -> None:
        """Process a text with the matrices that position it."""
        shown_texts, self._shown_texts = self._shown_texts, []
        x, y = _get_position(outer, inner)
        size = max(1.0, abs(size) * (abs((inner[3] or inner[1]) * (outer[3] or outer[1])) or 1.0))
        parts = clean_text(text).translate(_LIGATURES).split("\n")
        for number, part in enumerate(parts):
            if number:
                self._after_blank = self._after_blank or self._open_line is None
                self._open_line = None
            if part.strip():
                part_texts = shown_texts if len([part for part in parts if part.strip()]) == 1 else []
                for start, piece in _split_at_gaps(part, x, y, size, part_texts):
                    self._add_piece(piece, start, y, size)
                if self._open_line is not None:
                    self._open_line.end = shown_texts[-1].end if shown_texts and number == len(parts) - 1 else None

    def _add_piece(self, text: str, x: float, y: float, size: float) -> None:
        line = self._open_line
        if line is None or abs(line.y - y) > 0.7 * max(size, line.size):
            self._open_line = _PageLine(x, y, size, [(x, text)], self._after_blank)
            self.lines.append(self._open_line)
            self._after_blank = False
            return
        start, last_text = line.pieces[-1]
        if (
            line.end is not None
            and x - line.end > _MIN_WORD_GAP * size / 1000
            and last_text.strip()
            and not last_text[-1].isspace()
        ):
            last_text += " "
        if _is_wide_gap(x - start, len(last_text.strip()), size):
            line.pieces.append((x, text))
        else:
            line.pieces[-1] = start, last_text + text


def _widen_word_gaps(parts: Sequence[Any]) -> list[Any]:
    """Return the operands of TJ with every word gap widened enough for pypdf to recognize it.

    pypdf compares a gap with half the width of the font's space, or an estimate of it, and then loses most spaces of
    justified text. The pen position is unchanged, because the added width is subtracted after the gap.
    """
    gaps: list[Any] = []
    for part in parts:
        if isinstance(part, (int, float)) and -_SURE_GAP < part <= -_MIN_WORD_GAP:
            gaps += [-_SURE_GAP, _SURE_GAP + part]
        else:
            gaps.append(part)
    return gaps


def _get_position(outer: Sequence[float], inner: Sequence[float]) -> tuple[float, float]:
    return (
        inner[4] * outer[0] + inner[5] * outer[2] + outer[4],
        inner[4] * outer[1] + inner[5] * outer[3] + outer[5],
    )


def _is_wide_gap(distance: float, letters: int, size: float) -> bool:
    """True if the distance between the starts of two texts exceeds the first text and a space."""
    # Letters are about half as wide as high. The longer a text is, the less certain is its end.
    return distance > (0.62 * letters + _COLUMN_GAP) * size


def _split_at_gaps(
    text: str, x: float, y: float, size: float, shown_texts: Sequence[_ShownText]
) -> Iterator[tuple[float, str]]:
    """Yield the parts of a text, split at wide gaps between the shown texts, with their x positions."""
    texts_on_line = [(text.x, text.count) for text in shown_texts if abs(text.y - y) < 0.3 * size and text.count]
    total = sum(count for _, count in texts_on_line)
    letters = len("".join(text.split()))
    offset, letters_shown, start, letters_in_part = 0, 0, x, 0
    for (left_x, count), (right_x, _) in pairwise(texts_on_line):
        letters_shown += count
        letters_in_part += count
        width = round(letters_in_part * letters / total)
        if not _is_wide_gap(right_x - start, width, size) or right_x < left_x:
            continue
        split_offset = _find_space_after(text, round(letters_shown * letters / total))
        if offset < split_offset < len(text):
            yield start, text[offset:split_offset]
            offset, start, letters_in_part = split_offset, right_x, 0
    yield start, text[offset:]


def _find_space_after(text: str, count: int) -> int:
    """Return the word end nearest to ``count`` letters; shown and reported texts can differ slightly."""
    ends = [match.end() for match in re.finditer(r"\S+", text)]
    letters = 0
    best_end, best_distance = len(text), 4
    previous = 0
    for end in ends:
        letters += len(text[previous:end].strip())
        previous = end
        if abs(letters - count) < best_distance:
            best_end, best_distance = end, abs(letters - count)
    return best_end


def _read_page_lines(page: Any, pen: _PenTracker) -> list[_PageLine]:
    """Return the lines of one page in content order, columns one after another."""
    pen.start_page(page)
    collector = _LineCollector(pen)
    with _show_as_arrays(page):
        page.extract_text(visitor_operand_before=collector.track_operator, visitor_text=collector.collect_text)
    return _reorder_columns(collector.lines)


@contextmanager
def _show_as_arrays(page: Any) -> Iterator[None]:
    """Replace all text operators of a page by TJ, the only operator with gaps (PDF 32000-1, 9.4.3).

    The content of forms is unchanged, and so is invalid content.
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
        if operator == b'"':
            operations += [([operands[0]], b"Tw"), ([operands[1]], b"Tc")]
        if operator != b"Tj":
            operations.append(([], b"T*"))
        operations.append(([ArrayObject([operands[-1]])], b"TJ"))
    content.operations = operations
    previous_contents = page.raw_get(name)
    page[name] = content
    try:
        yield
    finally:
        page[name] = previous_contents  # pages stay in memory together, but their converted content need not


def _remove_running_lines(pages: Sequence[list[_PageLine]]) -> tuple[list[list[_PageLine]], tuple[LeftOut, ...]]:
    """Return the lines of pages without running heads and page numbers, and the removed lines.

    Such a line is among the first or last of its page. At the same height, other pages have a line that differs only in
    numbers. It must occur on ``_MIN_RUNNING_PAGES`` pages, and on ``_MIN_RUNNING_SHARE`` of the pages between its first
    and last page, because chapter heads change. If nothing else would be left, all lines are kept.
    """
    lines_by_position: dict[tuple[str, int, str], list[tuple[int, _PageLine]]] = {}
    for number, lines in enumerate(pages):
        by_height = sorted(lines, key=lambda line: -line.y)
        edges = [("head", line) for line in by_height[:_NUM_EDGE_LINES]]
        edges += [("foot", line) for line in by_height[_NUM_EDGE_LINES:][-_NUM_EDGE_LINES:]]
        for edge, line in edges:
            normalized = _NUMBER_PATTERN.sub("#", line.text)
            if len(normalized) <= _MAX_RUNNING_CHARACTERS:
                lines_by_position.setdefault((edge, round(line.y / _HEIGHT_TOLERANCE), normalized), []).append(
                    (number, line)
                )
    running: dict[int, LeftOut] = {}
    for (edge, _, normalized), entries in lines_by_position.items():
        page_numbers = sorted({number for number, _ in entries})
        if len(page_numbers) < _MIN_RUNNING_PAGES or len(page_numbers) < _MIN_RUNNING_SHARE * (
            page_numbers[-1] - page_numbers[0] + 1
        ):
            continue
        reason = "page number" if _PAGE_NUMBER_PATTERN.fullmatch(normalized) else f"running {edge}"
        for number, line in entries:
            running[id(line)] = LeftOut(f"page {number + 1}", reason, len(line.text), line.text[:80])
    kept_pages = [[line for line in lines if id(line) not in running] for lines in pages]
    if not any(kept_pages):
        return list(pages), ()
    return kept_pages, tuple(running[id(line)] for lines in pages for line in lines if id(line) in running)


class _Spellings:
    """The words of a text in any case; they decide whether a hyphen at the end of a line is kept."""

    def __init__(self, pages: Iterable[Sequence[_PageLine]]) -> None:
        self._words = {
            _normalize_word(word) for lines in pages for line in lines for word in _COMPOUND_PATTERN.findall(line.text)
        }

    def join_hyphenated(self, text: str, line: str) -> str:
        """Join a text that ends in a hyphen with the next line.

        A soft hyphen is removed. If the text contains the word elsewhere, with or without a hyphen, that spelling is
        used. Otherwise the hyphen is removed before a lowercase letter and kept before other characters.
        """
        last_word, first_word = _LAST_WORD_PATTERN.search(text), _COMPOUND_PATTERN.match(line)
        keep_hyphen = not line[0].islower()
        if text[-1] == "\u00ad":
            keep_hyphen = False
        elif last_word is not None and first_word is not None:
            is_unhyphenated_known, is_hyphenated_known = (
                _normalize_word(last_word[0] + mark + first_word[0]) in self._words for mark in ("", "-")
            )
            keep_hyphen = keep_hyphen if is_unhyphenated_known == is_hyphenated_known else is_hyphenated_known
        return (text if keep_hyphen else text[:-1]) + line


def _normalize_word(word: str) -> str:
    return word.replace("\u2010", "-").casefold()


def _build_page_text(lines: Sequence[_PageLine], spellings: _Spellings) -> str:
    """Return the text of one page; the positions of lines determine the paragraphs."""
    if not lines:
        return ""
    lengths = sorted(len(line.text) for line in lines)
    usual_length = lengths[len(lengths) * 9 // 10]  # the ninth decile, to ignore short lines of headings and tables
    steps = sorted(previous.y - line.y for previous, line in pairwise(lines) if 0 < previous.y - line.y < 3 * line.size)
    leading = steps[len(steps) // 2] if steps else 0.0
    paragraphs: list[str] = []
    num_lines = 0  # number of lines of the paragraph
    for previous, line, following in zip([None, *lines], lines, [*lines[1:], None], strict=False):
        joint = (
            _choose_joint(previous, line, following, num_lines, leading, usual_length) if previous is not None else None
        )
        if joint is None:
            paragraphs.append(line.text)
            num_lines = 1
            continue
        num_lines += 1
        if joint == "" or joint == " ":
            paragraph_start = paragraphs[-1]
            is_hyphenated = _HYPHENATED_PATTERN.search(paragraph_start) is not None
            paragraphs[-1] = (
                spellings.join_hyphenated(paragraph_start, line.text)
                if is_hyphenated
                else f"{paragraph_start} {line.text}"
            )
        else:
            paragraphs[-1] += joint + line.text
    return "\n\n".join(paragraphs)


def _choose_joint(
    previous: _PageLine, line: _PageLine, following: _PageLine | None, num_lines: int, leading: float, usual_length: int
) -> str | None:
    """Return the string that joins a line to the line above (a space or newline), or None if a paragraph begins."""
    down, right, em = previous.y - line.y, line.x - previous.x, line.size
    if line.after_blank or _BULLET_PATTERN.match(line.text) or len(line.pieces) > 1:
        return None
    is_full = (
        len(previous.text) >= _SHORT_LINE_SHARE * usual_length or _HYPHENATED_PATTERN.search(previous.text) is not None
    )
    if down <= 0:  # the next column, or an irregular order
        return " " if is_full else None
    if down > 1.45 * leading or abs(line.size - previous.size) > 0.12 * previous.size:
        return None
    if len(previous.pieces) > 1:  # a definition continues below itself, a row of a table does not
        return " " if right > em else None
    if right > 0.8 * em:
        is_continued = following is not None and following.y < line.y and abs(following.x - line.x) < 0.5 * em
        if _BULLET_PATTERN.match(previous.text):
            return " "
        if num_lines == 1 and not is_full and (is_continued or following is None or following.x < line.x - 0.5 * em):
            return "\n"  # a term with its definition below it, to the right
        return " " if num_lines == 1 and is_continued and is_full else None
    if right < -0.8 * em:
        return " " if num_lines == 1 and is_full else None
    return " " if is_full else None


def _reorder_columns(lines: list[_PageLine]) -> list[_PageLine]:
    """Return the lines of a page; if most lines have two long pieces at two positions, the left column comes first."""
    split_lines = [line for line in lines if len(line.pieces) == 2]
    if len(split_lines) < max(5, 0.5 * len(lines)):
        return lines
    second_starts = sorted(line.pieces[1][0] for line in split_lines)
    middle = second_starts[len(second_starts) // 2]
    columns = [line for line in split_lines if abs(line.pieces[1][0] - middle) < line.size]
    lengths = [sorted(len(line.pieces[side][1].strip()) for line in columns) for side in (0, 1)]
    if (
        len(columns) < 0.8 * len(split_lines)
        or min(side_lengths[len(side_lengths) // 2] for side_lengths in lengths) < _MIN_COLUMN_CHARACTERS
    ):
        return lines
    left: list[_PageLine] = []
    right: list[_PageLine] = []
    for line in lines:
        for x, text in line.pieces:
            (right if x > middle - line.size else left).append(
                _PageLine(x, line.y, line.size, [(x, text)], line.after_blank)
            )
    return left + right
