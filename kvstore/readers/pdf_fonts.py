"""The text state of a PDF page: its fonts, and how far a shown text moves the pen.
A *code* is the number of a letter in a font. The operator ``TJ`` shows strings of codes; the numbers among them are
gaps: they move the pen back by thousandths of the font size.

In: the operators of a page and their operands, as pypdf reports them. Out: advances in text units, and operands whose
word gaps pypdf recognizes.

Source: PDF 32000-1, 9.2.4, 9.3, 9.4.4 and 9.7.4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

#: Widths and gaps are in thousandths of a letter's height (9.2.4).
GLYPH_UNITS = 1000
#: The minimum gap between words, in thousandths of a letter's height, and a gap that pypdf recognizes in any font.
MIN_WORD_GAP = 140
RECOGNIZED_GAP = 1000
#: The minimum width of a space; a narrower one is canceled by the word spacing.
_MIN_SPACE_WIDTH = 50
#: The maximum number of codes of a string whose character spacing separates words; longer strings are letterspaced.
_MAX_SPACED_CODES = 3
#: The maximum number of widths of a font; there are no more two-byte codes.
_MAX_WIDTHS = 1 << 16
#: The default width of a composite font without ``DW`` (9.7.4.3).
_DEFAULT_WIDTH = 1000.0
#: The standard fonts whose codes are not codes of letters (9.6.2.2).
_SYMBOL_FONTS = ("Symbol", "ZapfDingbats")


class _FontWidths(NamedTuple):
    """The number of bytes per code, the widths of codes, and the default width, in thousandths of a letter's height."""

    bytes_per_code: int
    widths_by_code: dict[int, float]
    default_width: float


@dataclass(frozen=True, slots=True)
class _TextState:
    """The text state of a page (PDF 32000-1, 9.3): the font, and how far a code moves the pen.

    ``is_single_byte`` is True if each byte is a code. ``size`` and the spacings are in text units.
    """

    font_widths: _FontWidths | None = None
    is_single_byte: bool = False
    size: float = 0.0
    character_spacing: float = 0.0
    word_spacing: float = 0.0
    horizontal_scale: float = 1.0


class PenTracker:
    """A tracker of the text state that computes how far a text moves the pen (PDF 32000-1, 9.3 and 9.4.4).
    ``_state`` has the current font, its size and the spacings. pypdf sees only gaps, not spacings, and does not report
    where a text ends.

    Between two fonts, it ignores word gaps narrower than half of its estimate of a space. This class computes the
    positions from the widths in the file's fonts (9.2.4 and 9.7.4.3).
    """

    def __init__(self) -> None:
        """Create a tracker without a page; :meth:`start_page` sets it."""
        self._page: Any = None  # the current page of pypdf
        #: By the id of the font object, which is stored too, because ids of deleted objects are used again.
        self._widths_by_font: dict[int, tuple[Any, _FontWidths | None]] = {}
        self._state = _TextState()
        self._saved_states: list[_TextState] = []  # saved by the operator q and restored by Q

    def start_page(self, page: Any) -> None:
        """Reset the text state for a new page."""
        self._page, self._state, self._saved_states = page, _TextState(), []

    def track_operator(self, operator: bytes, operands: Sequence[Any]) -> None:
        """Update the text state for an operator; other operators are ignored.

        ``q`` saves the state and ``Q`` restores it. ``Tf`` selects the font, ``Tc`` and ``Tw`` set the spacing of
        characters and words, and ``Tz`` sets the horizontal scale in percent.
        """
        if operator == b"q":
            self._saved_states.append(self._state)
        elif operator == b"Q" and self._saved_states:
            self._state = self._saved_states.pop()
        elif operator == b"Tf" and len(operands) > 1:
            self._select_font(str(operands[0]), operands[1])
        elif operands and isinstance(operands[0], (int, float)):
            operand = float(operands[0])
            if operator == b"Tc":
                self._state = replace(self._state, character_spacing=operand)
            elif operator == b"Tw":
                self._state = replace(self._state, word_spacing=operand)
            elif operator == b"Tz":
                self._state = replace(self._state, horizontal_scale=operand / 100)

    def _select_font(self, name: str, size: Any) -> None:
        """Handle the operator ``Tf``: select the font with the resource ``name``, in ``size`` text units.

        The widths of a font that cannot be read are None. Widths are cached for each font object.
        """
        is_single_byte = False
        font_widths: _FontWidths | None = None
        try:
            font = self._page["/Resources"]["/Font"][name].get_object()
            is_single_byte = font["/Subtype"] != "/Type0"
            if id(font) not in self._widths_by_font:
                self._widths_by_font[id(font)] = font, None  # if the next line raises an exception
                self._widths_by_font[id(font)] = font, _read_widths(font)
            font_widths = self._widths_by_font[id(font)][1]
        except Exception:  # a missing, damaged or unknown font has no widths
            pass
        font_size = float(size) if isinstance(size, (int, float)) else 0.0
        self._state = replace(self._state, font_widths=font_widths, is_single_byte=is_single_byte, size=font_size)

    def measure_advance(self, operands: Sequence[Any]) -> float | None:
        """Return how far the text that ``TJ`` shows with these ``operands`` moves the pen, in text units.

        Return None if the font has no widths, or if a string is empty or ends within a code.
        """
        state = self._state
        if state.font_widths is None:
            return None
        bytes_per_code, widths_by_code, default_width = state.font_widths
        glyph_widths = spacing = 0.0
        for operand in operands:
            if isinstance(operand, (int, float)):
                glyph_widths -= float(operand)
                continue
            codes = _get_codes(operand)
            if not codes or len(codes) % bytes_per_code:
                return None
            glyph_widths += sum(
                widths_by_code.get(int.from_bytes(codes[offset : offset + bytes_per_code], "big"), default_width)
                for offset in range(0, len(codes), bytes_per_code)
            )
            num_spaces = codes.count(b" ") if bytes_per_code == 1 else 0
            spacing += state.character_spacing * (len(codes) // bytes_per_code) + state.word_spacing * num_spaces
        return (glyph_widths * state.size / GLYPH_UNITS + spacing) * state.horizontal_scale

    def add_word_gaps(self, operands: Sequence[Any]) -> list[Any]:
        """Return the operands of ``TJ``, with gaps in place of character and word spacings that separate words.

        Ghostscript separates words of groff by spacings. In ``(st)``, a wide character spacing ends one word and begins
        the next. In ``(eg a)``, a negative word spacing cancels the space, which is no word end. In strings of more
        than ``_MAX_SPACED_CODES`` codes, a wide character spacing is letterspacing.
        """
        state = self._state
        if not state.is_single_byte or not state.size:
            return list(operands)
        # In thousandths of the font size, as the numbers among the operands.
        character_spacing, word_spacing = (
            spacing * GLYPH_UNITS / state.size for spacing in (state.character_spacing, state.word_spacing)
        )
        strings = [_get_codes(operand) for operand in operands if not isinstance(operand, (int, float))]
        if character_spacing >= MIN_WORD_GAP and all(1 < len(codes) <= _MAX_SPACED_CODES for codes in strings):
            # pypdf counts character spacing itself. The gaps move the pen by 0, and the spacing after the last code is
            # undone.
            return [*self._insert_gaps(operands, b"", [-RECOGNIZED_GAP, RECOGNIZED_GAP]), character_spacing]
        if not word_spacing:
            return list(operands)
        space_width = state.font_widths.widths_by_code.get(ord(" ")) if state.font_widths is not None else None
        if space_width is not None and word_spacing < 0:
            visible_width = space_width + character_spacing + word_spacing
            if visible_width < _MIN_SPACE_WIDTH:  # the spacing cancels the space: it separates no words
                return self._insert_gaps(operands, b" ", [-visible_width])
        return self._insert_gaps(operands, b" ", [b" ", -word_spacing])

    def compensate_scale(self, advance: float | None) -> list[float]:
        """Return the gap for ``TJ`` that moves the pen back after a condensed text, as a list of one number.

        pypdf ignores the horizontal scale, and so moves the pen too far. ``advance`` is how far the text really moves
        it, in text units (:meth:`measure_advance`). The list is empty if the text is not condensed.
        """
        state = self._state
        if advance is None or not state.size or not 0 < state.horizontal_scale < 1:
            return []
        return [(advance / state.horizontal_scale - advance) * GLYPH_UNITS / state.size]

    @staticmethod
    def _insert_gaps(operands: Sequence[Any], separator: bytes, gap: Sequence[Any]) -> list[Any]:
        """Return the operands of ``TJ`` with those in ``gap`` in place of each ``separator`` in the strings.

        If ``separator`` is empty, ``gap`` is inserted between all codes of a string.
        """
        new_operands: list[Any] = []
        for operand in operands:
            if isinstance(operand, (int, float)):
                new_operands.append(operand)
                continue
            codes = _get_codes(operand)
            pieces = codes.split(separator) if separator else [bytes([code]) for code in codes]
            for index, piece in enumerate(pieces):
                if index:
                    new_operands += gap
                if piece:
                    new_operands.append(piece)
        return new_operands


def _get_codes(string: Any) -> bytes:
    """Return the character codes of a string operand: bytes, or a text that pypdf decoded; empty for other objects."""
    return string if isinstance(string, bytes) else getattr(string, "original_bytes", b"")


def _read_widths(font: Any) -> _FontWidths | None:
    """Return the widths of a font; None if its encoding is unknown, or if it has more than ``_MAX_WIDTHS`` widths.

    ``font`` is the font's dictionary in the file; a missing or unknown entry raises an exception. A composite font
    (Type 0) has codes of two bytes, and every other font codes of one byte.
    """
    kind = font["/Subtype"]
    if kind == "/Type0":
        # Other encodings map codes to glyphs by a table that kvstore does not read.
        return _read_composite_widths(font) if font["/Encoding"] == "/Identity-H" else None
    if kind == "/Type1" and "/Widths" not in font:  # one of the 14 standard fonts
        name = str(font["/BaseFont"]).removeprefix("/")
        # Codes of other encodings (PDF 32000-1, 9.6.5) differ from cp1252.
        if name in _SYMBOL_FONTS or not isinstance(font.get("/Encoding", ""), str):
            return None
        return _get_standard_widths(name)
    first_code = int(font["/FirstChar"])
    # The unit of glyphs is 1/GLYPH_UNITS, except in a Type 3 font, which has its own unit (PDF 32000-1, 9.6.5).
    scale = float(font["/FontMatrix"][0]) * GLYPH_UNITS if kind == "/Type3" else 1.0
    widths = [float(width.get_object()) * scale for width in font["/Widths"].get_object()]
    return _FontWidths(bytes_per_code=1, widths_by_code=dict(enumerate(widths, first_code)), default_width=0.0)


def _read_composite_widths(font: Any) -> _FontWidths | None:
    """Return the widths of a composite font, whose codes have two bytes; None if it has more than ``_MAX_WIDTHS``."""
    descendant = font["/DescendantFonts"].get_object()[0].get_object()
    widths_by_code: dict[int, float] = {}
    array = [element.get_object() for element in descendant["/W"].get_object()] if "/W" in descendant else []
    index = num_widths = 0
    while index < len(array):  # entries are "first [width ...]" or "first last width"
        first_code, width_entry = int(array[index]), array[index + 1]
        num_codes = len(width_entry) if isinstance(width_entry, list) else int(width_entry) + 1 - first_code
        num_widths += num_codes
        if num_widths > _MAX_WIDTHS:
            return None
        if isinstance(width_entry, list):
            widths_by_code.update(enumerate((float(width.get_object()) for width in width_entry), first_code))
            index += 2
        else:
            widths_by_code.update(dict.fromkeys(range(first_code, first_code + num_codes), float(array[index + 2])))
            index += 3
    default_width = float(descendant.get("/DW", _DEFAULT_WIDTH))
    return _FontWidths(bytes_per_code=2, widths_by_code=widths_by_code, default_width=default_width)


def _get_standard_widths(name: str) -> _FontWidths:
    """Return the widths of a standard font, such as Helvetica, which a file need not have (PDF 32000-1, 9.6.2.2).

    Raises an exception if the font is not a standard font, or if this version of pypdf lacks the widths.
    """
    from pypdf._codecs.core_font_metrics import CORE_FONT_METRICS

    widths = CORE_FONT_METRICS[name].character_widths
    characters = bytes(range(256)).decode("cp1252", "replace")
    widths_by_code = {code: float(widths.get(character, 0)) for code, character in enumerate(characters)}
    return _FontWidths(bytes_per_code=1, widths_by_code=widths_by_code, default_width=0.0)
