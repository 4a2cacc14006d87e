"""The characters of symbol fonts: Word stores a symbol as a character code and a font, not in Unicode.

In: the font and the code of a ``w:sym`` element (ECMA-376 part 1, 17.3.3.30). Out: the Unicode character. Only the
letters and operators of the font Symbol and the marks of Wingdings with a meaning of their own are converted.
"""

from __future__ import annotations

_SYMBOL_CHARACTERS = {  # by the code in the font
    0x20: (" !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_ αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"),
    0xA0: "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…  ↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑",
    0xF1: "〉∫",
}
_WINGDINGS_CHARACTERS = {
    0x6C: "●",
    0x6E: "■",
    0x6F: "□",
    0x71: "□",
    0x78: "☒",
    0xA7: "▪",
    0xA8: "☐",
    0xDF: "←",
    0xE0: "→",
    0xE1: "↑",
    0xE2: "↓",
    0xE8: "→",
    0xFB: "✗",
    0xFC: "✓",
    0xFD: "☒",
    0xFE: "☑",
}
_CHARACTERS_BY_FONT = {
    "symbol": {
        start + index: character
        for start, characters in _SYMBOL_CHARACTERS.items()
        for index, character in enumerate(characters)
    },
    "wingdings": _WINGDINGS_CHARACTERS,
}


def decode_symbol(font: str, code: str) -> str:
    """Return the character with a hexadecimal code in a font; an empty string if it is unknown.

    Symbol fonts have their codes in a private area of Unicode; other fonts have Unicode.

    >>> decode_symbol("Symbol", "F06D"), decode_symbol("Wingdings", "F0FE"), decode_symbol("Arial", "2264")
    ('μ', '☑', '≤')
    """
    try:
        number = int(code, 16)
        if font.lower() in _CHARACTERS_BY_FONT:
            return _CHARACTERS_BY_FONT[font.lower()].get(number & 0xFF, "")
        return "" if 0xE000 <= number <= 0xF8FF else chr(number)
    except (ValueError, OverflowError):
        return ""
