"""Snippets of configuration files: one per setting, with the keys that contain it.

In: the code of a file in YAML, JSON, TOML or INI. Out: a snippet for each setting, displayed on one line with its
comment: ``beacon.sms_provider: pingvoce  # contract until August``. The values of a list are one snippet, and so are
the settings of a list item. A comment that is not directly above a value is a snippet of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from ..text.patterns import compile_lazily
from .snippets import PassageBlock, Snippet

#: The suffixes of configuration files.
_SUFFIXES = frozenset((".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf", ".properties"))
#: The fences of code, and the lines of JSON that only begin or end an object or a list.
_MARK_PATTERN = compile_lazily(r"(?:`{3,}|~{3,})[\w-]*|[{}\[\],]*|---|\.\.\.")
#: The marks of a comment. A comment after a value follows a blank, and no quotation mark opens before it.
_COMMENT_PATTERN = compile_lazily(r"(?:#+|;+|//+)(?=\s|\w)\s*")
_TRAILING_COMMENT_PATTERN = compile_lazily(
    r"(?P<value>(?:\"[^\"]*\"|'[^']*'|[^\"'])*?)(?<!\s)\s++(?:#+|;+|//+)\s+(?P<comment>\S.*)"
)
#: The header of a section in TOML or INI. Two brackets open an entry of a list.
_SECTION_PATTERN = compile_lazily(r"(?P<brackets>\[{1,2})\s*(?P<name>[^\[\]]+?)\s*\]{1,2}\s*(?:[#;].*)?")
#: A key with its value. A key without quotation marks has at most four words.
_SETTING_PATTERN = compile_lazily(
    r"(?P<key>\"[^\"]+\"|'[^']+'|[^\s:={}\[\]\"',-][^\s:={}\[\]\"',]*(?: [^\s:={}\[\]\"',]+){0,3})"
    r"(?::(?=\s|\Z)|\s*=)\s*(?P<value>.*)"
)
_ITEM_PATTERN = compile_lazily(r"-(?:\s+|\Z)|\{\Z")
#: The values of a key that has its settings or its text on the lines below.
_OPENINGS = frozenset(("", "{", "[", "|", ">", "|-", ">-", "|+", ">+"))
_WORD_PATTERN = compile_lazily(r"[^\W_]+")
#: The maximum number of lines in one snippet.
_MAX_LINES = 8


def is_configuration_file(document: str) -> bool:
    """True if a document key is the path of a configuration file.

    >>> is_configuration_file("config/app.yaml"), is_configuration_file("config/app.py")
    (True, False)
    """
    return PurePosixPath(document).suffix.lower() in _SUFFIXES


def split_settings(block: PassageBlock, before: str = "") -> Iterator[Snippet]:
    """Yield the settings in a block of code as snippets.

    ``before`` is the code of the section before the passage, which has the keys that contain its first settings.
    """
    offset = len(before)
    for entry in _parse_entries(before + block.text[: block.end]):
        if entry.end > offset + block.start:
            start = max(entry.start - offset, block.start)
            displayed = str(entry)
            words = " ".join(_WORD_PATTERN.findall(displayed))
            yield Snippet(start, entry.end - offset, displayed, "table", block.block_index, cells=words)


@dataclass(slots=True)
class _Entry:
    """A setting at characters ``start`` to ``end`` of the code, or a list of values, or comments without a setting.

    ``path`` has the keys that contain it. ``parts`` are its settings or values as written, and ``separator`` is to be
    put between them. ``indent`` is the indentation of the parts of an item, -1 for another entry.
    """

    start: int
    end: int
    path: tuple[str, ...]
    parts: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    separator: str = ""
    indent: int = -1

    def __str__(self) -> str:
        """Return the keys, the settings and the comments on one line."""
        content, comment = self.separator.join(self.parts), " ".join(self.comments)
        path = ".".join(self.path)
        if not content:
            return f"{path}: {comment}" if path else comment
        # The keys are joined to that of a single setting.
        sign = "" if not path else "." if not self.separator else ": "
        return f"{path}{sign}{content}{'  # ' if comment else ''}{comment}"

    def append(self, part: str, comment: str, end: int) -> None:
        """Append a setting or a value, with the comment after it, that ends at character ``end`` of the code."""
        self.parts.append(part)
        self.comments += [comment] if comment else []
        self.end = end


def _parse_entries(code: str) -> Iterator[_Entry]:
    """Yield the entries of the code of one section, in order."""
    section: tuple[str, ...] = ()
    keys: list[tuple[int, str]] = []  # the keys that contain the line, with their indentation
    entry: _Entry | None = None  # the last one, which can continue
    opens_entry = False  # the header of the section opens an entry of a list
    next_start = 0
    for line in code.splitlines(keepends=True):
        line_start, next_start = next_start, next_start + len(line)
        content = line.strip()
        indent = len(line) - len(line.lstrip())
        start, end = line_start + indent, line_start + len(line.rstrip())
        header = None if indent else _SECTION_PATTERN.fullmatch(content)
        if header is not None or _MARK_PATTERN.fullmatch(content):
            if entry is not None and (header or not content or not entry.separator):
                yield entry
                entry = None
            if header is not None:
                section, keys, opens_entry = (header["name"],), [], len(header["brackets"]) == 2
            continue
        item = _ITEM_PATTERN.match(content)
        indent += item.end() if item else 0
        while keys and keys[-1][0] >= indent:
            keys.pop()
        path = (*section, *(key for _, key in keys))
        comment_mark = _COMMENT_PATTERN.match(content)
        if comment_mark is not None:
            if entry is None or entry.parts:
                yield from filter(None, (entry,))
                entry = _Entry(start, end, path)
            entry.append("", content[comment_mark.end() :], end)
            entry.parts.clear()
            continue
        content = content[item.end() :] if item else content
        trailing = _TRAILING_COMMENT_PATTERN.fullmatch(content)
        value, comment = (trailing["value"], trailing["comment"]) if trailing else (content, "")
        value = value.removesuffix(",")
        setting = _SETTING_PATTERN.fullmatch(value)
        if setting is not None and setting["value"] in _OPENINGS:
            yield from filter(None, (entry,))
            entry = _Entry(start, end, path, comments=[comment]) if comment else None
            keys.append((indent, setting["key"].strip("\"'")))
            continue
        part = value if setting is None else setting["key"].strip("\"'") + value[setting.end("key") :]
        is_item = item is not None or opens_entry
        # A value continues a list of values, and a setting continues the item that it belongs to.
        continues = (
            entry is not None
            and entry.path == path
            and len(entry.parts) < _MAX_LINES
            and (entry.separator == ", " if setting is None else entry.indent == indent and not item)
        )
        if entry is None or not (continues or not entry.parts):
            yield from filter(None, (entry,))
            entry = None
        if entry is None:
            entry = _Entry(start, end, path)
        if not entry.parts:
            entry.path = path
            entry.separator = ", " if setting is None else "; " if is_item else ""
            entry.indent = indent if is_item and setting is not None else -1
        entry.append(part, comment, end)
        opens_entry = False
    yield from filter(None, (entry,))
