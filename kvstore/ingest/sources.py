"""Paths, folders and globs become the files to read, each with the key that its document gets.

In: paths, and addresses of what fsspec reads, such as ``s3://bucket/folder`` (:mod:`.remote_files`). A folder is walked
in sorted order; a pattern with ``**``, ``*`` or ``?`` is matched below its fixed prefix; what is hidden (its name
begins with a dot, or it is a system's own) is passed over, and so are links to folders and links to files outside the
root. Out: :class:`Sources`. In a folder only files of known suffixes are taken (of those of the format, where one is
named), and those on this machine whose names say nothing of their format but whose content does
(:mod:`.readers.content_format`), or those that one of some patterns includes; the others are counted by their suffixes.
What Sphinx keeps of the sources of pages is counted apart where the pages are there. A file that is named, or that a
pattern matches, is taken whatever its suffix. A path that does not exist and a pattern that matches nothing are
ReaderErrors; a folder that cannot be listed is a failure.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from ..errors import InputError, ReaderError
from . import remote_files
from .readers import ReadFailure, check_format, describe_skipped, find_format, get_suffixes
from .readers.content_format import MAX_START_BYTES, can_be_read, detect_format, is_hidden
from .remote_files import is_address

#: Where sites made by Sphinx keep what a page was made from, to be looked at.
_PAGE_SOURCE_PATTERN = re.compile(r"(?P<above>(?:.*/)?)_sources/(?P<page>.+?)(?:\.(?:rst|md|ipynb))?\.txt")
_WILDCARD_PATTERN = re.compile(r"[*?]")
#: What a name has where another has a byte that is no UTF-8.
_ESCAPE_PATTERN = re.compile(r"\\(?=x[0-9a-f]{2})")


@dataclass(frozen=True)
class Source:
    """A file to read: ``key`` names its document, ``format`` how to read it (None: by looking at it).

    ``path`` is its path or address as it is told, ``location`` its address, or its absolute path, the links in its
    folders followed: where it can be opened, if it is text. ``root`` is the folder that was asked for, or the fixed
    prefix of the pattern, as an address or as an absolute path without links, so that it is the same however it was
    written; None for a single file. All but ``path`` are text whatever bytes the names have.
    """

    place: str
    key: str
    format: str | None
    root: str | None
    location: str

    @property
    def name(self) -> str:
        """Its name, without its folders."""
        return self.place.rpartition("/")[2]

    @property
    def is_remote(self) -> bool:
        """Whether it has an address rather than a path."""
        return is_address(self.place)

    @property
    def size(self) -> int:
        """Its bytes; 0 where it cannot be looked at."""
        with suppress(OSError):
            return remote_files.get_size(self.place) if self.is_remote else os.stat(self.place).st_size
        return 0

    def open(self) -> BinaryIO:
        """Its bytes, to be read; raises OSError, and ReaderError for an address that cannot be read."""
        return remote_files.open_remote(self.place) if self.is_remote else open(self.place, "rb")


@dataclass(frozen=True)
class Coverage:
    """What was asked for of a folder: all files there that would be taken, of which vanished ones may be pruned."""

    root: str
    accepts: Callable[[str], bool]

    def is_covered(self, location: str) -> bool:
        """Whether a file at this location (see :attr:`Source.location`) would be taken if it were there."""
        root = self.root.rstrip("/")
        # Older versions kept the path below the root.
        return self.accepts(location.removeprefix(root + "/"))


@dataclass(frozen=True)
class Sources:
    """The files found, in order; iterating yields them.

    ``covered``: the folders that were asked for, whole or by a pattern. ``skipped``: how many files were passed over,
    by reason. ``failures``: folders and files that are there but cannot be looked at.
    """

    files: tuple[Source, ...]
    covered: tuple[Coverage, ...]
    skipped: Counter[str]
    failures: tuple[ReadFailure, ...]

    def __iter__(self) -> Iterator[Source]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)


def find_sources(
    paths: Iterable[str | os.PathLike[str]], format: str | None = None, include: Sequence[str] = ()
) -> Sources:
    """Find the files that paths, folders and patterns stand for.

    Where ``include`` has patterns, the files taken from folders are those whose names (of a pattern with a ``/``: whose
    paths in the folder) match one of them, whatever their suffixes. Raises ReaderError for a path that does not exist
    or is no file or folder, and for a pattern that matches nothing; InputError for an unknown format and an empty path.
    """
    if format is not None:
        check_format(format)
    search = _FileSearch(format, include)
    for path in paths:
        search.add_path(os.fspath(path))
    return Sources(tuple(search.files), tuple(search.covered), search.skipped, tuple(search.failures))


def format_skipped(skipped: Mapping[str, int]) -> str:
    """Files that were passed over, by reason, the commonest first.

    >>> format_skipped({"suffix .png": 2, "no suffix": 1, "suffix .wiki": 2})
    '2 .png, 2 .wiki, 1 no suffix'
    """
    ranked_reasons = sorted(skipped.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{number:,} {reason.removeprefix('suffix ')}" for reason, number in ranked_reasons)


class _FileSearch:
    def __init__(self, format: str | None, include: Sequence[str]) -> None:
        self.files: list[Source] = []
        self.covered: list[Coverage] = []
        self.skipped: Counter[str] = Counter()
        self.failures: list[ReadFailure] = []
        self._format = format
        self._has_include = bool(include)
        self._accepts = _make_filter(format, include)

    def add_path(self, requested: str) -> None:
        """Add what one path stands for."""
        if not requested:
            raise InputError("an empty path names nothing; write . for the current folder")
        if is_address(requested):
            self._add_address(requested)
            return
        path = Path(os.path.expanduser(requested))
        if os.path.isdir(path):
            self._add_folder(path)
        elif os.path.isfile(path):
            self._add_file(str(path), path.name, None, _get_location(path))
        elif "\0" not in requested and os.path.lexists(path):
            raise ReaderError(f"{requested}: is neither a file nor a folder (a device, or a link to nothing)")
        else:
            fixed = next((index for index, part in enumerate(path.parts) if _WILDCARD_PATTERN.search(part)), None)
            if fixed is None:
                raise ReaderError(f"{requested!r}: there is no such file or folder (from {Path.cwd()}); check the path")
            self._add_matches(Path(*path.parts[:fixed]), "/".join(path.parts[fixed:]), requested)

    def _add_file(self, path: str, relative: str, root: str | None, location: str) -> None:
        self._append_source(
            path, relative, root, location, self._format or find_format(relative) or _detect_format(path)
        )

    def _append_source(self, path: str, relative: str, root: str | None, location: str, format: str | None) -> None:
        self.files.append(Source(path, _to_text(relative), format, root, location))

    def _has_known_format(self, relative: str) -> bool:
        """Whether a file that is taken need not be looked at to know that it can be read."""
        return self._has_include or self._format is not None or find_format(relative) is not None

    def _count_skipped(self, relative: str) -> None:
        self.skipped[describe_skipped(relative)] += 1

    def _add_address(self, address: str) -> None:
        listing = remote_files.list_remote(address)
        if listing.pattern is None and not listing.is_folder:
            self._add_file(address, address.rpartition("/")[2], None, address)
            return
        matches = _compile_glob(listing.pattern) if listing.pattern else None
        accepts = self._accepts if matches is None else lambda relative: matches.fullmatch(relative) is not None
        self.covered.append(Coverage(listing.root, accepts))
        num_before = len(self.files)
        for relative in listing.files:
            if accepts(relative) and (matches is not None or self._has_known_format(relative)):
                self._add_file(f"{listing.root}/{relative}", relative, listing.root, f"{listing.root}/{relative}")
            elif matches is None:
                self._count_skipped(relative)
        if matches is not None and len(self.files) == num_before:
            raise ReaderError(f"{address!r}: no file matches this pattern; check it, or name the folder itself")

    def _add_folder(self, root: Path) -> None:
        real_root = _to_text(os.path.realpath(root))
        self.covered.append(Coverage(real_root, self._accepts))
        for path, relative in self._walk_folder(root, None):
            if not self._accepts(relative):
                self._count_skipped(relative)
            elif not self._has_include and _has_built_page(root, relative):
                self.skipped["sources of pages"] += 1
            elif self._has_known_format(relative):
                self._add_file(str(path), relative, real_root, _get_location(path))
            elif (format := _detect_format(str(path))) is not None:
                self._append_source(str(path), relative, real_root, _get_location(path), format)
            else:
                self._count_skipped(relative)

    def _add_matches(self, root: Path, pattern: str, requested: str) -> None:
        if not os.path.isdir(root):
            raise ReaderError(f"{requested!r}: there is no folder {root} (from {Path.cwd()}); check the pattern")
        matches = _compile_glob(pattern)
        real_root = _to_text(os.path.realpath(root))
        self.covered.append(Coverage(real_root, lambda relative: matches.fullmatch(relative) is not None))
        num_before = len(self.files)
        for path, relative in self._walk_folder(root, None if "**" in pattern else pattern.count("/")):
            if matches.fullmatch(relative):
                self._add_file(str(path), relative, real_root, _get_location(path))
        if len(self.files) == num_before:
            raise ReaderError(f"{requested!r}: no file matches this pattern; check it, or name the folder itself")

    def _walk_folder(self, root: Path, depth: int | None) -> Iterator[tuple[Path, str]]:
        """Yield (path, path relative to the root) of the files below a folder, at most ``depth`` folders down."""
        real_root = os.path.realpath(root)
        pending = [(root, "", 0)]
        while pending:
            path, relative, level = pending.pop()
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
            visible_names = [name for name in names if not is_hidden(name)]
            if len(visible_names) < len(names):
                self.skipped["hidden"] += len(names) - len(visible_names)
            pending += [(path / name, prefix + name, level + 1) for name in visible_names]

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


def _make_filter(format: str | None, include: Sequence[str]) -> Callable[[str], bool]:
    """Whether a file is taken from a folder, by its path there."""
    if include:
        patterns = [("/" in pattern, _compile_glob(pattern)) for pattern in include]
        return lambda relative: any(
            pattern.fullmatch(relative if has_folders else relative.rpartition("/")[2])
            for has_folders, pattern in patterns
        )
    if format is not None:
        suffixes = get_suffixes(format)
        return lambda relative: PurePosixPath(relative).suffix.lower() in suffixes
    return lambda relative: find_format(relative) is not None or can_be_read(relative)


def _has_built_page(root: Path, relative: str) -> bool:
    """Whether a file of a folder is what a page beside it was made from: it says the same once more."""
    source = _PAGE_SOURCE_PATTERN.fullmatch(relative)
    return source is not None and os.path.isfile(root / f"{source['above']}{source['page']}.html")


def _detect_format(path: str) -> str | None:
    """The format of a file on this machine by how it begins, None where that is none or it cannot be read."""
    if is_address(path):
        return None
    with suppress(OSError), open(path, "rb") as stream:
        return detect_format(stream.read(MAX_START_BYTES))
    return None


def _compile_glob(pattern: str) -> re.Pattern[str]:
    """A glob as a regular expression: ``**`` is any number of folders, ``*`` and ``?`` stay within a name."""
    expression = ""
    parts = pattern.split("/")
    for index, part in enumerate(parts):
        is_last = index == len(parts) - 1
        if part == "**":
            expression += ".*" if is_last else "(?:[^/]+/)*"
            continue
        for character in part:
            expression += {"*": "[^/]*", "?": "[^/]"}.get(character) or re.escape(character)
        expression += "" if is_last else "/"
    return re.compile(expression, re.S)


def _get_location(path: Path) -> str:
    return _to_text(os.path.join(os.path.realpath(path.parent), path.name))


def _to_text(path: str) -> str:
    r"""A path as text, another for every path: bytes that are no UTF-8 are written ``\xNN``, and a backslash before
    what looks like that ``\x5c``.

    >>> [_to_text(os.fsdecode(name)) for name in (b"caf\xc3\xa9", b"caf\xe9", b"caf\\xe9")]
    ['café', 'caf\\xe9', 'caf\\x5cxe9']
    """
    path = _ESCAPE_PATTERN.sub(r"\\x5c", path.replace(os.sep, "/"))
    return os.fsencode(path).decode("utf-8", "backslashreplace")
