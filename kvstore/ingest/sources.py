"""Paths, folders and globs become the files to read, each with the key that its document gets.

In: paths. A folder is walked in sorted order; a pattern with ``**``, ``*`` or ``?`` is matched below its fixed prefix;
what is hidden (its name begins with a dot) is passed over, and so are links to folders and links to files outside the
root. Out: :class:`Sources`. In a folder only files of known suffixes are taken (of those of the format, where one is
named) and the others are counted; a file that is named, or that a pattern matches, is taken whatever its suffix. A path
that does not exist and a pattern that matches nothing are ReaderErrors; a folder that cannot be listed is a failure.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import ReaderError
from .readers import ReadFailure, check_format, format_of, suffixes_of

_WILDCARD = re.compile(r"[*?]")


@dataclass(frozen=True)
class Source:
    """A file to read: ``key`` names its document, ``format`` how to read it (None: by looking at it).

    ``root`` is the folder that was asked for, or the fixed prefix of the pattern, as an absolute path without links, so
    that it is the same however it was written; None for a single file.
    """

    path: Path
    key: str
    format: str | None
    root: Path | None


@dataclass(frozen=True)
class Sources:
    """The files found, in order; iterating yields them.

    ``folders``: the roots of the folders asked for as a whole, of which vanished files may be pruned. ``skipped``: how
    many files were passed over, by reason. ``failures``: folders and files that are there but cannot be looked at.
    """

    files: tuple[Source, ...]
    folders: tuple[Path, ...]
    skipped: Counter[str]
    failures: tuple[ReadFailure, ...]

    def __iter__(self) -> Iterator[Source]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)


def find_sources(paths: Iterable[str | os.PathLike[str]], format: str | None = None) -> Sources:
    """Find the files that paths, folders and patterns stand for.

    Raises ReaderError for a path that does not exist or is no file or folder, and for a pattern that matches nothing;
    InputError for an unknown format.
    """
    if format is not None:
        check_format(format)
    search = _Search(format)
    for path in paths:
        search.add(os.fspath(path))
    return Sources(tuple(search.files), tuple(search.folders), search.skipped, tuple(search.failures))


class _Search:
    def __init__(self, format: str | None) -> None:
        self.files: list[Source] = []
        self.folders: list[Path] = []
        self.skipped: Counter[str] = Counter()
        self.failures: list[ReadFailure] = []
        self._format = format

    def add(self, asked: str) -> None:
        """Add what one path stands for."""
        path = Path(os.path.expanduser(asked))
        if os.path.isdir(path):
            self._add_folder(path)
        elif os.path.isfile(path):
            self._take(path, path.name, None)
        elif "\0" not in asked and os.path.lexists(path):
            raise ReaderError(f"{asked}: is neither a file nor a folder (a device, or a link to nothing)")
        else:
            fixed = next((index for index, part in enumerate(path.parts) if _WILDCARD.search(part)), None)
            if fixed is None:
                raise ReaderError(f"{asked!r}: there is no such file or folder (from {Path.cwd()}); check the path")
            self._add_matches(Path(*path.parts[:fixed]), "/".join(path.parts[fixed:]), asked)

    def _take(self, path: Path, relative: str, root: Path | None) -> None:
        self.files.append(Source(path, _key(relative), self._format or format_of(path.name), root))

    def _add_folder(self, root: Path) -> None:
        real_root = Path(os.path.realpath(root))
        self.folders.append(real_root)
        suffixes = suffixes_of(self._format) if self._format is not None else None
        for path, relative in self._walk(root, None):
            suffix = path.suffix.lower()
            if suffix in suffixes if suffixes is not None else format_of(path.name) is not None:
                self._take(path, relative, real_root)
            else:
                self.skipped[f"suffix {suffix}" if suffix else "no suffix"] += 1

    def _add_matches(self, root: Path, pattern: str, asked: str) -> None:
        if not os.path.isdir(root):
            raise ReaderError(f"{asked!r}: there is no folder {root} (from {Path.cwd()}); check the pattern")
        matches = _translated(pattern)
        real_root = Path(os.path.realpath(root))
        before = len(self.files)
        for path, relative in self._walk(root, None if "**" in pattern else pattern.count("/")):
            if matches.fullmatch(relative):
                self._take(path, relative, real_root)
        if len(self.files) == before:
            raise ReaderError(f"{asked!r}: no file matches this pattern; check it, or name the folder itself")

    def _walk(self, root: Path, depth: int | None) -> Iterator[tuple[Path, str]]:
        """Yield (path, path relative to the root) of the files below a folder, at most ``depth`` folders down."""
        real_root = os.path.realpath(root)
        waiting = [(root, "", 0)]
        while waiting:
            path, relative, level = waiting.pop()
            if relative and not os.path.isdir(path):
                if self._is_readable(path, real_root):
                    yield path, relative
                continue
            if relative and os.path.islink(path):
                # What it leads to inside the root is met under its own name, and a link may lead round in a circle.
                self.skipped["links to folders"] += 1
                continue
            if depth is not None and level > depth:
                continue
            try:
                names = sorted(os.listdir(path), reverse=True)  # a stack: what is pushed last comes first
            except OSError as error:
                self.failures.append(ReadFailure(str(path), f"cannot be listed: {error.strerror}"))
                continue
            prefix = relative + "/" if relative else ""
            waiting += [(path / name, prefix + name, level + 1) for name in names if not name.startswith(".")]

    def _is_readable(self, path: Path, real_root: str) -> bool:
        if not os.path.exists(path):
            self.failures.append(ReadFailure(str(path), "cannot be looked at: a link to nothing, or no permission"))
        elif os.path.islink(path) and not Path(os.path.realpath(path)).is_relative_to(real_root):
            self.skipped["links out of the folder"] += 1
        elif not os.path.isfile(path):
            self.skipped["no regular files"] += 1
        else:
            return True
        return False


def _translated(pattern: str) -> re.Pattern[str]:
    """A glob as a regular expression: ``**`` is any number of folders, ``*`` and ``?`` stay within a name."""
    expression = ""
    parts = pattern.split("/")
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            expression += ".*" if last else "(?:[^/]+/)*"
            continue
        for character in part:
            expression += {"*": "[^/]*", "?": "[^/]"}.get(character) or re.escape(character)
        expression += "" if last else "/"
    return re.compile(expression, re.S)


def _key(relative: str) -> str:
    """A relative path as a document key; bytes of a file name that are no UTF-8 are written ``\\xNN``."""
    return os.fsencode(relative).decode("utf-8", "backslashreplace").replace(os.sep, "/")
