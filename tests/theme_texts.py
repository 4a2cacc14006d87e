"""Texts on a few themes, each with names of its own: what communities and topics are found in."""

from __future__ import annotations

#: Names that are mentioned together, by theme.
THEMES = {
    "harbour": ["Port Ellery", "Dock Marston", "Captain Orlov", "Kestrel Ferry", "Lighthouse Brann", "Sound Hollis"],
    "orchard": ["Orchard Velda", "Farmer Quill", "Cider Mill Tam", "Lake Tarn", "Apple Russet", "Village Oxley"],
    "railway": ["Station Moorby", "Engine Halcyon", "Viaduct Crane", "Driver Pell", "Tunnel Wyre", "Line Ambrose"],
    "theatre": ["Theatre Lyra", "Actress Soane", "Play Meridian", "Critic Dunmore", "Stage Rook", "Hall Persis"],
}


def theme_text(theme: str, number: int) -> str:
    """One short text on a theme: three of its names, and what is said of them."""
    names = THEMES[theme]
    one, two, three = (names[(number * step + number // 6 + step) % len(names)] for step in (1, 2, 3))
    return (
        f"{one} was joined with {two} in the year {1900 + number}. People of the {theme} remember how {three} "
        f"and {one} were seen together, and what was written of {two} then filled {number + 2} pages."
    )


def theme_documents(each: int) -> dict[str, str]:
    """Keys and texts, ``each`` of every theme."""
    return {f"{theme}-{number}": theme_text(theme, number) for theme in THEMES for number in range(each)}
