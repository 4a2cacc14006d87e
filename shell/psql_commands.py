"""Equivalents of psql commands, for users who are used to psql.

In: a line that begins with a backslash. Out: a sentence that names the command to type instead.
"""

from __future__ import annotations

_COPY = ".import FILE brings a file in, and .output FILE sends results to one"
_LOOK = ".mode names the ways in which results are written"
_TABLES = ".tables lists the tables, .schema NAME or DESCRIBE NAME; shows the columns of one"

#: The equivalent of each psql command, by its name without modifiers.
_REPLACEMENTS = {
    "?": ".help lists the commands",
    "a": _LOOK,
    "c": ".open STORE opens another store",
    "conninfo": ".show shows the store",
    "copy": _COPY,
    "d": _TABLES,
    "df": "SHOW STRATEGIES; lists the ways to find evidence",
    "di": "SHOW INDEXES; lists the indexes",
    "dt": _TABLES,
    "dv": _TABLES,
    "e": ".edit edits the last statement",
    "echo": ".print TEXT writes a text",
    "g": "a statement is run by ; at its end",
    "h": ".help lists the commands, SHOW TABLES; is a good start",
    "H": _LOOK,
    "i": ".read FILE runs a script",
    "ir": ".read FILE runs a script",
    "l": "a store is a folder, and .open STORE opens another",
    "o": ".output FILE sends results to a file",
    "p": ".edit shows the last statement",
    "prompt": ".parameter NAME VALUE gives :NAME a value",
    "pset": _LOOK,
    "q": ".quit leaves",
    "s": ".history shows the last statements",
    "set": ".parameter NAME VALUE gives :NAME a value",
    "t": _LOOK,
    "timing": ".timer on prints how long each statement took",
    "watch": ".watch SECONDS runs the last statement again and again",
    "x": ".mode line shows one column under another",
}


def suggest_replacement(line: str) -> str:
    """Return what to type instead of a command of psql."""
    word = line.removeprefix("\\").split(maxsplit=1)[0] if line.strip("\\ ") else ""
    replacement = _REPLACEMENTS.get(word) or _REPLACEMENTS.get(word.rstrip("+S"))
    if replacement is None:
        return f"there is no command \\{word}; commands begin with a dot, and .help lists them"
    return f"\\{word} is a command of psql; here {replacement}"
