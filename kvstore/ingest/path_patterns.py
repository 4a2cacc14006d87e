"""The patterns of an ingest, which select files and folders by their paths in the ingested folder. A pattern without
``/`` applies to the last name of a path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

from ..readers import find_format, get_suffixes
from ..readers.content_format import has_ambiguous_name

#: The beginning of a pattern that refers to the ingested folder: ``./drafts`` means its ``drafts`` folder.
_START_PATTERN = re.compile(r"\A(?:\.?/)+")


def make_filter(format: str | None, include: Sequence[str]) -> Callable[[str], bool]:
    """Return a predicate that is true if a file, given by its path in a folder, is ingested from the folder.

    If ``include`` has patterns, the file must match one of them. Otherwise its suffix must be one of ``format`` or, if
    ``format`` is None, of any format. Names that do not show the format, such as ``LICENSE``, are then included too.
    """
    if include:
        return _compile_globs(include)
    if format is not None:
        suffixes = get_suffixes(format)
        return lambda relative_path: PurePosixPath(relative_path).suffix.lower() in suffixes
    return lambda relative_path: find_format(relative_path) is not None or has_ambiguous_name(relative_path)


def make_exclusion(exclude: Sequence[str]) -> Callable[[str], bool]:
    """Return a predicate that is true if a path in a folder, or one of its parent folders, matches a pattern.

    >>> is_excluded = make_exclusion(["drafts/", "*.log", "/old"])
    >>> [is_excluded(path) for path in ("hr/drafts/leave.md", "hr/run.log", "old/a.md", "hr/old/leave.md")]
    [True, True, True, False]
    """
    if not exclude:
        return lambda relative_path: False
    matches = _compile_globs([pattern.rstrip("/") for pattern in exclude])

    def is_excluded(relative_path: str) -> bool:
        """True if the path or one of its parent folders matches."""
        names = relative_path.split("/")
        # For "a/b/c.md": "a", "a/b" and "a/b/c.md".
        paths = ("/".join(names[:depth]) for depth in range(1, len(names) + 1))
        return any(map(matches, paths))

    return is_excluded


def _compile_globs(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Return a predicate that is true if a path matches a pattern; without ``/``, a pattern matches the last component.

    >>> [_compile_globs([pattern])("hr/a.md") for pattern in ("*.md", "hr/*.md", "/*.md")]
    [True, True, False]
    """
    globs = [("/" in pattern, compile_glob(_START_PATTERN.sub("", pattern))) for pattern in patterns]

    def matches_glob(relative_path: str) -> bool:
        """True if the path matches one of the patterns."""
        name = relative_path.rpartition("/")[2]
        return any(glob.fullmatch(relative_path if has_folders else name) for has_folders, glob in globs)

    return matches_glob


def compile_glob(pattern: str) -> re.Pattern[str]:
    """Translate a glob to a regular expression.

    ``**`` matches any number of folders; ``*`` and ``?`` match within a name. For example, ``docs/**/*.md`` matches
    ``docs/a.md`` and ``docs/b/a.md``.
    """
    expression = ""
    segments = pattern.split("/")
    for index, segment in enumerate(segments):
        is_last = index == len(segments) - 1
        if segment == "**":
            expression += ".*" if is_last else "(?:[^/]+/)*"
            continue
        for character in segment:
            expression += {"*": "[^/]*", "?": "[^/]"}.get(character, re.escape(character))
        expression += "" if is_last else "/"
    return re.compile(expression, re.S)
