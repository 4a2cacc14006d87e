"""Texts on a few themes, each with its own names, for the tests of communities and topics."""

from __future__ import annotations

#: Names that are mentioned together, by theme.
THEMES = {
    "harbour": ["Port Ellery", "Dock Marston", "Captain Orlov", "Kestrel Ferry", "Lighthouse Brann", "Sound Hollis"],
    "orchard": ["Orchard Velda", "Farmer Quill", "Cider Mill Tam", "Lake Tarn", "Apple Russet", "Village Oxley"],
    "railway": ["Station Moorby", "Engine Halcyon", "Viaduct Crane", "Driver Pell", "Tunnel Wyre", "Line Ambrose"],
    "theatre": ["Theatre Lyra", "Actress Soane", "Play Meridian", "Critic Dunmore", "Stage Rook", "Hall Persis"],
}


def write_theme_text(theme: str, number: int) -> str:
    """Return a short text on a theme, with three of its names."""
    names = THEMES[theme]
    first, second, third = (names[(number * step + number // 6 + step) % len(names)] for step in (1, 2, 3))
    return (
        f"{first} was joined with {second} in the year {1900 + number}. People of the {theme} remember how {third} "
        f"and {first} were seen together, and what was written of {second} then filled {number + 2} pages."
    )


def write_theme_documents(count: int) -> dict[str, str]:
    """Return ``count`` documents of every theme by key."""
    return {f"{theme}-{number}": write_theme_text(theme, number) for theme in THEMES for number in range(count)}
