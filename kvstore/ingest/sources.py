"""Resolution of paths, folders and globs to the files to read, each with the key of its document. A *root* is the
folder in which files are searched; their paths relative to it become keys. The *coverage* of a search is a root with a
test for the files taken from it, by which documents are pruned.

In: paths, and addresses that fsspec reads, such as ``s3://bucket/folder`` (:mod:`.remote_files`). A folder is walked in
sorted order. A pattern with ``**``, ``*`` or ``?`` is matched below its fixed prefix. Hidden names (names that begin
with a dot, or that an operating system reserves), links to folders, links to files outside the root, and stores are
skipped. Out: :class:`Sources`.

In a folder, files with known suffixes are taken (with the suffixes of the format, if a format is named), or files that
match the ``include`` patterns. Files and folders that match an ``exclude`` pattern are skipped. Local files with an
unknown suffix are taken if their content shows their format (:mod:`.readers.content_format`). The other files are
counted by suffix. Sphinx's copies of page sources are counted separately if the pages exist. A file that is named is
taken with any name, and a file that a pattern matches is taken with any suffix. A missing path and a pattern without
matches are ReaderErrors; a folder that cannot be listed is a failure.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ..errors import InputError, ReaderError
from ..readers import ReadFailure, check_format, describe_skipped, find_format
from ..readers.content_format import MAX_START_BYTES, detect_format, is_hidden
from ..storage.location import DATA_FILE, WRITER_FILE, find_access_error
from . import remote_files
from .path_patterns import compile_glob, make_exclusion, make_filter
from .remote_files import is_address

#: The paths at which sites built by Sphinx keep the sources of pages for display: ``site/_sources/guide/a.rst.txt`` is
#: the source of ``site/guide/a.html``.
_PAGE_SOURCE_PATTERN = re.compile(r"(?P<above>(?:.*/)?)_sources/(?P<page>.+?)(?:\.(?:rst|md|ipynb))?\.txt")
_WILDCARD_PATTERN = re.compile(r"[*?]")
#: A backslash that looks like the escape of a byte that is not UTF-8.
_ESCAPE_PATTERN = re.compile(r"\\(?=x[0-9a-f]{2})")


@dataclass(frozen=True)
class Source:
    """A file to read: ``key`` names its document, ``format`` is the format to read (None: detect it).

    ``path`` is the path or address as it was found: it can be opened, and names the file in messages. ``location`` is
    the address, or the absolute path with the links in its folders resolved. ``root`` is the named folder, or the fixed
    prefix of the pattern. It is an address or an absolute path without links, so that it does not depend on how it was
    written; None for a single file. All but ``path`` are valid Unicode, even if the names contain other bytes.
    """

    path: str
    key: str
    format: str | None
    root: str | None
    location: str

    @property
    def name(self) -> str:
        """The file's name without its folders."""
        *_, name = self.path.split("/")
        return name

    @property
    def is_remote(self) -> bool:
        """True if the file has an address rather than a path."""
        return is_address(self.path)

    @property
    def size(self) -> int:
        """The size in bytes; 0 if the file cannot be accessed."""
        with suppress(OSError, ReaderError):
            return remote_files.get_size(self.path) if self.is_remote else os.stat(self.path).st_size
        return 0

    def open(self) -> BinaryIO:
        """Open the file for reading. Raises OSError, and ReaderError for an address that cannot be read."""
        return remote_files.open_remote(self.path) if self.is_remote else open(self.path, "rb")


@dataclass(frozen=True)
class Coverage:
    """A named folder and the files that would be taken from it; documents of vanished files can be pruned.

    ``accepts`` is true for the path in the folder of a file that would be taken.
    """

    root: str
    accepts: Callable[[str], bool]

    def covers(self, location: str) -> bool:
        """True if a file at this location, a path or an address, would be ingested from the root if it existed."""
        root = self.root.rstrip("/")
        # Older versions stored the path below the root as the location.
        return self.accepts(location.removeprefix(root + "/"))


@dataclass(frozen=True)
class Sources:
    """The sources in order; iterating yields them.

    ``coverages`` are the named folders, complete or restricted by a pattern. ``skipped`` is the number of skipped files
    by reason. ``failures`` are for folders and files that exist but cannot be accessed, and ``unreadable_locations``
    are their locations.
    """

    files: tuple[Source, ...]
    coverages: tuple[Coverage, ...]
    skipped: Counter[str]
    failures: tuple[ReadFailure, ...]
    unreadable_locations: tuple[str, ...]

    def __iter__(self) -> Iterator[Source]:
        """Return an iterator over the files, in order."""
        return iter(self.files)

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self.files)


def find_sources(
    paths: Iterable[str | os.PathLike[str]],
    format: str | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> Sources:
    """Return the files that paths, folders and patterns refer to.

    If ``include`` has patterns, a file is taken from a folder only if its name matches one of them, with any suffix. A
    pattern with a ``/`` matches paths in the folder. Files and folders that match a pattern of ``exclude`` are not
    taken from folders and patterns. Raises ReaderError for a path that does not exist or is neither a file nor a
    folder, and for a pattern without matches; InputError for an unknown format and an empty path.
    """
    if format is not None:
        check_format(format)
    search = _FileSearch(format, include, exclude)
    for path in paths:
        search.add_path(os.fspath(path))
    failures = tuple(search.failures)
    unreadable_locations = tuple(_get_location(Path(failure.place)) for failure in failures)
    return Sources(
        files=tuple(search.files),
        coverages=tuple(search.coverages),
        skipped=search.skipped,
        failures=failures,
        unreadable_locations=unreadable_locations,
    )


def check_source(path: str, format: str | None = None) -> None:
    """Raise ReaderError or InputError if a path cannot be ingested, without reading folders or listing remote files.

    A local pattern must match a file. For a remote pattern, only the folder of its files must exist. ``format`` is the
    format of all files (None: it depends on their names).
    """
    if format is not None:
        check_format(format)
    if is_address(path):
        remote_files.list_remote(path, with_files=False)
    else:
        local_path = os.path.expanduser(path)
        if not (os.path.isdir(local_path) or os.path.isfile(local_path)):
            find_sources([path])  # raises the error, unless the path is a pattern that matches files


#: The files by which a folder is recognized as a store.
_STORE_FILES = frozenset((DATA_FILE, WRITER_FILE))
#: The singular of each reason in the plural.
_SINGULARS = {
    "links to folders": "link to a folder",
    "links out of the folder": "link out of the folder",
    "stores": "store",
    "links in archives": "link in an archive",
    "paths outside the archive": "path outside the archive",
}
#: The suffixes of old formats of office files and mail, with the suffixes of formats that are read instead.
_OTHER_SUFFIXES = {".doc": ".docx", ".xls": ".xlsx", ".ppt": ".pptx", ".msg": ".eml"}


def format_skipped(counts_by_reason: Mapping[str, int]) -> str:
    """Return the numbers of skipped files by reason as text, the most frequent reason first.

    The text also says in which format the user can save files of an old format.

    >>> format_skipped({"suffix .png": 2, "no suffix": 1, "suffix .wiki": 2})
    '2 .png, 2 .wiki, 1 no suffix'
    >>> format_skipped({"links to folders": 1})
    '1 link to a folder'
    >>> format_skipped({"suffix .doc": 2, "suffix .msg": 1})
    '2 .doc, 1 .msg; save .doc as .docx, .msg as .eml'
    """
    counts = []
    for reason, count in sorted(counts_by_reason.items(), key=lambda item: (-item[1], item[0])):
        noun = _SINGULARS.get(reason, reason) if count == 1 else reason
        counts.append(f"{count:,} {noun.removeprefix('suffix ')}")
    remedies = [f"{old} as {new}" for old, new in _OTHER_SUFFIXES.items() if f"suffix {old}" in counts_by_reason]
    return ", ".join(counts) + (f"; save {', '.join(remedies)}" if remedies else "")


class _FileSearch:
    """A search for the files of several paths, with the results that :class:`Sources` describes."""

    def __init__(self, format: str | None, include: Sequence[str], exclude: Sequence[str]) -> None:
        """Create a search that has found no files yet.

        ``format`` is the format of all files (None: their names determine it). ``include`` has patterns of the files to
        take from folders, and ``exclude`` has patterns of the files and folders to skip.
        """
        self.files: list[Source] = []
        self.coverages: list[Coverage] = []
        self.skipped: Counter[str] = Counter()
        self.failures: list[ReadFailure] = []
        self._format = format
        self._has_include = bool(include)
        #: A predicate: true if a file, given by its path in a folder, is ingested from the folder.
        self._accepts = make_filter(format, include)
        #: A predicate: true if a file or folder, given by its escaped path in the ingested folder, is skipped. Pruning
        #: knows only escaped paths, and must not remove the documents of skipped files.
        self._is_excluded = make_exclusion(exclude)

    def add_path(self, requested_path: str) -> None:
        """Add the files of ``requested_path``, a path, address or pattern as the caller wrote it.

        Raises InputError if it is empty, and ReaderError if it does not exist, cannot be read, or matches no file.
        """
        if not requested_path:
            raise InputError("the path is empty; use . for the current folder")
        if is_address(requested_path):
            self._add_address(requested_path)
            return
        path = Path(os.path.expanduser(requested_path))
        if os.path.isdir(path):
            self._add_folder(path)
        elif os.path.isfile(path):
            self._add_file(str(path), path.name, root=None, location=_get_location(path))
        elif "\0" not in requested_path and os.path.lexists(path):
            raise ReaderError(f"{requested_path}: is a device or a broken link; specify a file or a folder")
        else:
            wildcard_index = next(
                (index for index, part in enumerate(path.parts) if _WILDCARD_PATTERN.search(part)), None
            )
            if wildcard_index is None:
                raise ReaderError(f"{requested_path!r}: {_explain_missing(path)}")
            root, pattern = Path(*path.parts[:wildcard_index]), "/".join(path.parts[wildcard_index:])
            self._add_matches(root, pattern, requested_path)

    def _add_file(
        self, path: str, relative_path: str, root: str | None, location: str, detected_format: str | None = None
    ) -> None:
        """Add a file; its content is inspected if neither the caller nor its name determine the format.

        ``path`` is the file to open, and ``relative_path``, its path in the ``root`` folder (None: the file was named
        directly), becomes the key of its document. ``location`` is the path or address that is stored with its
        documents. ``detected_format`` is the format that its content shows, if the content was already inspected.
        """
        format = detected_format or self._format or find_format(relative_path) or _detect_format(path)
        self.files.append(Source(path, _escape_path(relative_path), format=format, root=root, location=location))

    def _is_accepted_by_name(self, relative_path: str) -> bool:
        """True if a file in a folder, which the patterns accept, is ingested without inspecting its content.

        The caller named patterns or a format, or the name of the file has the suffix of a known format.
        """
        return self._has_include or self._format is not None or find_format(relative_path) is not None

    def _record_skipped(self, relative_path: str) -> None:
        """Record that a file is skipped, with the reason, such as its suffix."""
        self.skipped[describe_skipped(relative_path)] += 1

    def _add_address(self, address: str) -> None:
        """Add the file at an address, or the files that its folder contains or its pattern matches.

        Also record that the search covers all such files of the folder. Raises ReaderError if the address does not
        exist or cannot be read, or if its pattern matches no file.
        """
        listing = remote_files.list_remote(address)
        if listing.pattern is None and not listing.is_folder:
            self._add_file(address, address.rpartition("/")[2], root=None, location=address)
            return
        glob = compile_glob(listing.pattern) if listing.pattern else None  # None: the whole folder was named
        accepts = self._accepts if glob is None else lambda relative_path: glob.fullmatch(relative_path) is not None
        self._add_coverage(listing.root, accepts)
        num_files_before = len(self.files)
        for relative_path in listing.files:
            if self._is_excluded(relative_path):
                self.skipped["excluded"] += 1
            elif accepts(relative_path) and (glob is not None or self._is_accepted_by_name(relative_path)):
                location = f"{listing.root}/{relative_path}"
                self._add_file(location, relative_path, listing.root, location)
            elif glob is None:
                self._record_skipped(relative_path)
        if glob is not None and len(self.files) == num_files_before:
            raise ReaderError(
                f"{address!r}: no file matches this pattern; check the pattern, or specify the folder itself"
            )

    def _add_folder(self, root: Path) -> None:
        """Add the files of a folder that match the patterns to include or, without patterns, have a known format.

        Also record that the search covers all such files. The other files are counted as skipped; without patterns,
        so are Sphinx sources whose HTML pages are in the folder.
        """
        real_root = _escape_path(os.path.realpath(root))
        self._add_coverage(real_root, self._accepts)
        for path, relative_path in self._walk_folder(
            root, max_depth=None, selects=self._accepts if self._has_include else None
        ):
            if not self._accepts(relative_path):
                self._record_skipped(relative_path)
            elif not self._has_include and _has_built_page(root, relative_path):
                self.skipped["sources of pages"] += 1
            elif self._is_accepted_by_name(relative_path):
                self._add_file(str(path), relative_path, real_root, _get_location(path))
            elif (detected_format := _detect_format(str(path))) is not None:
                self._add_file(str(path), relative_path, real_root, _get_location(path), detected_format)
            else:
                self._record_skipped(relative_path)

    def _add_coverage(self, root: str, accepts: Callable[[str], bool]) -> None:
        """Record that the search covers the files in ``root`` that ``accepts`` accepts and no pattern excludes."""
        self.coverages.append(Coverage(root, lambda path: accepts(path) and not self._is_excluded(path)))

    def _add_matches(self, root: Path, pattern: str, requested_path: str) -> None:
        """Add the files below a folder that match a pattern, and record that the search covers all such files.

        ``requested_path`` is the whole pattern for messages. Raises ReaderError if the folder does not exist, or if no
        file matches.
        """
        if not os.path.isdir(root):
            raise ReaderError(f"{requested_path!r}: there is no folder {root} (from {Path.cwd()}); check the pattern")
        glob = compile_glob(pattern)
        real_root = _escape_path(os.path.realpath(root))
        self._add_coverage(real_root, lambda relative_path: glob.fullmatch(relative_path) is not None)
        num_files_before = len(self.files)
        max_depth = None if "**" in pattern else pattern.count("/")
        for path, relative_path in self._walk_folder(root, max_depth, glob.fullmatch):
            if glob.fullmatch(relative_path):
                self._add_file(str(path), relative_path, real_root, _get_location(path))
        if len(self.files) == num_files_before:
            raise ReaderError(
                f"{requested_path!r}: no file matches this pattern; check the pattern, or specify the folder itself"
            )

    def _walk_folder(
        self, root: Path, max_depth: int | None, selects: Callable[[str], object] | None
    ) -> Iterator[tuple[Path, str]]:
        """Yield (path, path relative to the root) of the files below a folder, at most ``max_depth`` folders down.

        ``max_depth`` None means no limit. Hidden and excluded names, links to folders and stores are counted as
        skipped. Unreadable folders and files are added to the failures. ``selects`` is true for the relative paths of
        the wanted files (None: all are wanted); broken links that are not wanted are only counted as skipped.
        """
        real_root = os.path.realpath(root)
        pending = [(root, "", 0)]  # a stack of (path, relative path, depth)
        while pending:
            path, relative_path, depth = pending.pop()
            if relative_path and not os.path.isdir(path):
                if selects is not None and not selects(relative_path) and not os.path.exists(path):
                    self._record_skipped(relative_path)
                elif self._accept_file(path, real_root):
                    yield path, relative_path
                continue
            if relative_path and os.path.islink(path):
                # The target inside the root is visited under its own name, and a link may form a cycle.
                self.skipped["links to folders"] += 1
                continue
            if max_depth is not None and depth > max_depth:
                continue
            try:
                names = sorted(os.listdir(path), reverse=True)  # the last is popped first
            except OSError as error:
                self.failures.append(ReadFailure(str(path), f"cannot be listed: {error.strerror}"))
                continue
            if _STORE_FILES.issubset(names):  # its ingest log is not a document
                self.skipped["stores"] += 1
                continue
            prefix = relative_path + "/" if relative_path else ""
            pending += [(path / name, prefix + name, depth + 1) for name in self._select_names(names, prefix)]

    def _select_names(self, names: Sequence[str], prefix: str) -> list[str]:
        """Return the names in a folder that are neither hidden nor excluded, and count the others as skipped.

        ``prefix`` precedes each name in its path relative to the root.
        """
        visible_names = [name for name in names if not is_hidden(name)]
        if len(visible_names) < len(names):
            self.skipped["hidden"] += len(names) - len(visible_names)
        selected_names = [name for name in visible_names if not self._is_excluded(_escape_path(prefix + name))]
        if len(selected_names) < len(visible_names):
            self.skipped["excluded"] += len(visible_names) - len(selected_names)
        return selected_names

    def _accept_file(self, path: Path, real_root: str) -> bool:
        """Return True for a regular file in the root; count any other path as skipped or record a failure."""
        if not os.path.exists(path):
            self.failures.append(
                ReadFailure(str(path), "cannot be accessed: it is a broken link, or you have no permission")
            )
        elif os.path.islink(path) and not Path(os.path.realpath(path)).is_relative_to(real_root):
            self.skipped["links out of the folder"] += 1
        elif not os.path.isfile(path):
            self.skipped["not a regular file"] += 1
        else:
            return True
        return False


def _has_built_page(root: Path, relative_path: str) -> bool:
    """True if a file is the Sphinx source of an HTML page in the same tree, which contains the same text."""
    match = _PAGE_SOURCE_PATTERN.fullmatch(relative_path)  # a file in Sphinx's folder of page sources
    return match is not None and os.path.isfile(root / f"{match['above']}{match['page']}.html")


def _detect_format(path: str) -> str | None:
    """Return the format of a file by its first bytes, or None if unknown, unreadable or an address."""
    if is_address(path):
        return None
    with suppress(OSError), open(path, "rb") as stream:
        return detect_format(stream.read(MAX_START_BYTES))
    return None


def _get_location(path: Path) -> str:
    """Return the absolute path of a file as text, with the links in its folders resolved."""
    return _escape_path(os.path.join(os.path.realpath(path.parent), path.name))


def _explain_missing(path: Path) -> str:
    """Return the reason why there is no readable file or folder at a path, and what to do."""
    error = None if "\0" in str(path) else find_access_error(path)  # a null character would raise ValueError
    if isinstance(error, PermissionError):
        return f"cannot be accessed ({error.strerror}); check the permissions of its folders"
    return f"there is no such file or folder (from {Path.cwd()}); check the path"


def _escape_path(path: str) -> str:
    r"""Escape a path as valid Unicode, uniquely for every path.

    Bytes that are not UTF-8 become ``\xNN``, and a backslash before a similar sequence becomes ``\x5c``.

    >>> [_escape_path(os.fsdecode(name)) for name in (b"caf\xc3\xa9", b"caf\xe9", b"caf\\xe9")]
    ['café', 'caf\\xe9', 'caf\\x5cxe9']
    """
    path = _ESCAPE_PATTERN.sub(r"\\x5c", path.replace(os.sep, "/"))
    return os.fsencode(path).decode("utf-8", "backslashreplace")
