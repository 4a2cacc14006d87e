"""Equivalents of commands of psql and pgcli, for users who are used to them.

In: a line that begins with a backslash. Out: the command of the shell that does the same, or a sentence that names the
command to type instead.
"""

from __future__ import annotations

_COPY = "INGEST 'file' ingests a file, and COPY (SELECT ...) TO 'file' writes rows to one"
_MODE = ".mode sets the format of results"
_TABLES = ".tables lists the tables, .schema NAME or DESCRIBE NAME; shows the columns of one"

#: The commands of psql or pgcli that do the same, with the same argument, as a command of the shell.
_EQUIVALENTS = {
    "d": ".describe",
    "dt": ".describe",
    "n": ".saved",
    "nd": ".unsave",
    "ns": ".save",
    "q": ".quit",
    "timing": ".timer",
    "x": ".expanded",
}

#: The equivalent of each other psql command, by its name without modifiers.
_REPLACEMENTS = {
    "?": ".help lists the commands",
    "a": _MODE,
    "c": ".open STORE opens another store",
    "conninfo": ".show shows the store",
    "copy": _COPY,
    "df": "SHOW STRATEGIES; lists the strategies",
    "di": "SHOW INDEXES; lists the indexes",
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
    "s": ".history shows the last statements",
    "set": ".parameter NAME VALUE sets the value of :NAME",
    "t": _MODE,
    "watch": ".watch SECONDS repeats the last statement",
}


def find_equivalent(line: str) -> str | None:
    """Return the command of the shell that does the same as a command of psql, or None.

    >>> find_equivalent(r"\\d+ chunks;"), find_equivalent(r"\\x"), find_equivalent(r"\\copy")
    ('.describe chunks', '.expanded', None)
    """
    word, _, argument = line.removeprefix("\\").rstrip("; ").partition(" ")
    command = _EQUIVALENTS.get(word.rstrip("+S"))  # + and S are modifiers
    argument = argument.strip()
    if command is None or (command == ".quit" and argument):
        return None
    return f"{command} {argument}".rstrip()


def suggest_replacement(line: str) -> str:
    """Return a sentence that says what to type instead of a command of psql."""
    word = line.removeprefix("\\").split(maxsplit=1)[0] if line.strip("\\ ") else ""
    replacement = _REPLACEMENTS.get(word) or _REPLACEMENTS.get(word.rstrip("+S"))
    if replacement is None:
        return f"there is no command \\{word}; commands begin with a dot, and .help lists them"
    return f"\\{word} is a psql command; in kvstore, {replacement}"
