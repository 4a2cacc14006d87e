"""Equivalents of psql commands, for users who are used to psql.

In: a line that begins with a backslash. Out: a sentence that names the command to type instead.
"""

from __future__ import annotations

_COPY = ".import FILE ingests a file, and .output FILE writes results to one"
_MODE = ".mode sets the format of results"
_TABLES = ".tables lists the tables, .schema NAME or DESCRIBE NAME; shows the columns of one"

#: The equivalent of each psql command, by its name without modifiers.
_REPLACEMENTS = {
    "?": ".help lists the commands",
    "a": _MODE,
    "c": ".open STORE opens another store",
    "conninfo": ".show shows the store",
    "copy": _COPY,
    "d": _TABLES,
    "df": "SHOW STRATEGIES; lists the strategies",
    "di": "SHOW INDEXES; lists the indexes",
    "dt": _TABLES,
    "dv": _TABLES,
    "e": ".edit edits the last statement",
    "echo": ".print TEXT prints text",
    "g": "a statement ends with ;",
    "h": ".help lists the commands, SHOW TABLES; lists the tables",
    "H": _MODE,
    "i": ".read FILE runs a script",
    "ir": ".read FILE runs a script",
    "l": "a store is a folder; .open STORE opens another",
    "o": ".output FILE sends results to a file",
    "p": ".edit shows the last statement",
    "prompt": ".parameter NAME VALUE sets the value of :NAME",
    "pset": _MODE,
    "q": ".quit leaves the shell",
    "s": ".history shows the last statements",
    "set": ".parameter NAME VALUE sets the value of :NAME",
    "t": _MODE,
    "timing": ".timer on prints how long each statement took",
    "watch": ".watch SECONDS repeats the last statement",
    "x": ".mode line prints one column per line",
}


def suggest_replacement(line: str) -> str:
    """Return what to type instead of a command of psql."""
    word = line.removeprefix("\\").split(maxsplit=1)[0] if line.strip("\\ ") else ""
    replacement = _REPLACEMENTS.get(word) or _REPLACEMENTS.get(word.rstrip("+S"))
    if replacement is None:
        return f"there is no command \\{word}; commands begin with a dot, and .help lists them"
    return f"\\{word} is a psql command; in kvstore, {replacement}"
