"""Equivalents of commands of psql, pgcli and sqlite3, for users who are used to them.

In: a line that begins with a backslash, or the name of a command of sqlite3. Out: the command of the shell that does
the same, or a sentence that names the command to type instead.
"""

from __future__ import annotations

_COPY = "INGEST 'file' ingests a file, and COPY (SELECT ...) TO 'file' writes rows to one"
_MODE = ".mode sets the format of results"
_TABLES = ".tables lists the tables, .schema NAME or DESCRIBE NAME; shows the columns of one"

#: The commands of psql or pgcli that do the same, with the same argument, as a command of the shell.
EQUIVALENTS = {
    "?": ".help",
    "d": ".describe",
    "dt": ".describe",
    "e": ".edit",
    "echo": ".print",
    "h": ".help",
    "i": ".read",
    "n": ".saved",
    "nd": ".unsave",
    "ns": ".save",
    "o": ".output",
    "q": ".quit",
    "s": ".history",
    "timing": ".timer",
    "x": ".expanded",
}

#: The equivalent of each other psql command, by its name without modifiers.
_REPLACEMENTS = {
    "!": "Ctrl-Z suspends the shell",
    "a": _MODE,
    "c": ".open STORE opens another store",
    "conninfo": ".show shows the store",
    "copy": _COPY,
    "df": "SHOW STRATEGIES; lists the strategies",
    "di": "SHOW INDEXES; lists the indexes",
    "dv": _TABLES,
    "g": "a statement ends with ;",
    "H": _MODE,
    "ir": ".read FILE runs a script",
    "l": "a store is a folder; .open STORE opens another",
    "p": ".edit shows the last statement",
    "prompt": ".parameter NAME VALUE sets the value of :NAME",
    "pset": _MODE,
    "set": ".parameter NAME VALUE sets the value of :NAME",
    "t": _MODE,
    "watch": ".watch SECONDS repeats the last statement",
}

#: The equivalent of common commands of sqlite3 that the shell does not have, by their names.
_SQLITE_REPLACEMENTS = {
    "backup": "BACKUP TO 'FOLDER'; copies the store",
    "databases": ".show shows the store",
    "echo": ".print prints text",
    "eqp": "EXPLAIN shows the steps of a statement",
    "indexes": "SHOW INDEXES; lists the indexes",
    "indices": "SHOW INDEXES; lists the indexes",
    "restore": ".open FOLDER opens a backup",
    "separator": _MODE,
    "shell": "Ctrl-Z suspends the shell",
    "stats": "SHOW STATS; lists counts and sizes",
    "system": "Ctrl-Z suspends the shell",
}


def find_equivalent(line: str) -> str | None:
    """Return the command of the shell that does the same as a command of psql, with its argument, or None.

    >>> find_equivalent(r"\\d+ chunks;"), find_equivalent(r"\\x"), find_equivalent(r"\\copy")
    ('.describe chunks', '.expanded', None)
    """
    word, _, argument = line.removeprefix("\\").rstrip("; ").partition(" ")
    command = EQUIVALENTS.get(word.rstrip("+S"))  # + and S are modifiers
    return None if command is None else f"{command} {argument.strip()}".rstrip()


def suggest_replacement(line: str) -> str:
    """Return a sentence that says what to type instead of a command of psql."""
    word = line.removeprefix("\\").split(maxsplit=1)[0] if line.strip("\\ ") else ""
    replacement = _REPLACEMENTS.get(word) or _REPLACEMENTS.get(word.rstrip("+S"))
    if replacement is None:
        return f"there is no command \\{word}; commands begin with a dot, and .help lists them"
    return f"\\{word} is a psql command; in kvstore, {replacement}"


def suggest_sqlite_replacement(name: str) -> str | None:
    """Return a sentence that says what to type instead of a command of sqlite3, or None if it has no such command."""
    replacement = _SQLITE_REPLACEMENTS.get(name)
    return None if replacement is None else f".{name} is a sqlite3 command; in kvstore, {replacement}"
