r"""Statements that the user saved under names, in the shell (``\ns``) and on the explorer's SQL page.

In: ``kvstore/queries.json`` under XDG_CONFIG_HOME, an object of names and statements. Out: the same, changed.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import InputError

#: The maximum number of saved statements, and of characters of a name and of a statement.
_MAX_QUERIES, _MAX_NAME_CHARS, _MAX_STATEMENT_CHARS = 500, 60, 20_000


def get_config_folder() -> Path:
    """Return the folder of the user's settings: ``kvstore`` in XDG_CONFIG_HOME if it is absolute, else in ~/.config."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base and os.path.isabs(base) else Path.home() / ".config") / "kvstore"


def load_queries() -> dict[str, str]:
    """Return the statements that the user saved, by name, in order of name; none if their file does not exist.

    Raises InputError for a damaged or unreadable file.
    """
    path = get_config_folder() / "queries.json"
    try:
        queries = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: the saved statements cannot be read ({error}); repair or remove the file") from None
    if not isinstance(queries, dict):
        raise InputError(f"{path}: the file is not a JSON object that maps names to statements; repair or remove it")
    return {name: str(statement) for name, statement in sorted(queries.items())}


def save_query(name: str, statement: str) -> None:
    """Save a statement, replacing one with the same name.

    Raises InputError for an invalid name or statement, for too many statements, or for a file that cannot be read or
    written.
    """
    name, statement = name.strip(), statement.strip()
    if not name or any(character.isspace() for character in name) or len(name) > _MAX_NAME_CHARS:
        raise InputError(f"a name must be one word of at most {_MAX_NAME_CHARS} characters, not {name[:80]!r}")
    if not statement or len(statement) > _MAX_STATEMENT_CHARS:
        raise InputError(
            f"a saved statement must have 1 to {_MAX_STATEMENT_CHARS:,} characters, not {len(statement):,}"
        )
    with _lock_queries():
        queries = load_queries() | {name: statement}
        if len(queries) > _MAX_QUERIES:
            raise InputError(f"there are {_MAX_QUERIES} saved statements, which is the limit; delete some first")
        _write_queries(queries)


def delete_query(name: str) -> None:
    """Delete a saved statement. Raises InputError for an unknown name, or a file that cannot be read or written."""
    with _lock_queries():
        queries = load_queries()
        if queries.pop(name, None) is None:
            raise InputError(format_missing_message(name, queries))
        _write_queries(queries)


def format_missing_message(name: str, queries: dict[str, str]) -> str:
    """Return the error message for a name without a saved statement; it lists the saved names."""
    names = ", ".join(queries) or "none yet"
    return f"no statement is saved as {name!r}; saved statements: {names}"


@contextmanager
def _lock_queries() -> Iterator[None]:
    """Hold a lock within the block, so that two tabs or processes do not overwrite each other's changes.

    Creates the folder of the user's settings. Raises InputError if that fails.
    """
    folder = get_config_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"{folder / 'queries.json'}: the statement cannot be saved ({error.strerror})") from None
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write_queries(queries: dict[str, str]) -> None:
    """Write the saved statements, by name, to the user's file, atomically. Raises InputError if that fails."""
    path = get_config_folder() / "queries.json"
    new_file = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        new_file.write_text(json.dumps(queries, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        os.replace(new_file, path)
    except OSError as error:
        raise InputError(f"{path}: the statement cannot be saved ({error.strerror})") from None
