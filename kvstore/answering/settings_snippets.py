"""Snippets of configuration files: one per setting, with the keys that contain it. A *group* is the content of one
snippet: a setting, all settings of a list item, the values of a list, or a comment alone. A *section* begins with a
header such as ``[servers]``.

In: the code of a file in YAML, JSON, TOML or INI. Out: a snippet for each group, displayed on one line with its
comment: ``beacon.sms_provider: pingvoce  # contract until August``. A comment that is not directly above a value is a
snippet of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import NamedTuple

from ..text.patterns import compile_lazily
from .snippets import PassageBlock, Snippet

#: The suffixes of configuration files.
_SUFFIXES = frozenset((".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf", ".properties"))
#: An empty line, a fence of code, or a line of JSON that only begins or ends an object or a list.
_MARK_PATTERN = compile_lazily(r"(?:`{3,}|~{3,})[\w-]*|[{}\[\],]*|---|\.\.\.")
#: The marks of a comment. A comment after a value follows a blank, and no quotation mark opens before it.
_COMMENT_PATTERN = compile_lazily(r"(?:#+|;+|//+)(?=\s|\w)\s*")
_TRAILING_COMMENT_PATTERN = compile_lazily(
    r"(?P<value>(?:\"[^\"]*\"|'[^']*'|[^\"'])*?)(?<!\s)\s++(?:#+|;+|//+)\s+(?P<comment>\S.*)"
)
#: The header of a section in TOML or INI. Two brackets (``[[servers]]``) open an item of a list.
_SECTION_PATTERN = compile_lazily(r"(?P<brackets>\[{1,2})\s*(?P<name>[^\[\]]+?)\s*\]{1,2}\s*(?:[#;].*)?")
#: A key with its value. A key without quotation marks has at most four words, or is a path such as ``/users/{id}``.
_SETTING_PATTERN = compile_lazily(
    r"(?P<key>\"[^\"]+\"|'[^']+'|/[^\s:\"',]+|[^\s:={}\[\]\"',-][^\s:={}\[\]\"',]*(?: [^\s:={}\[\]\"',]+){0,3})"
    r"(?::(?=\s|\Z)|\s*=)\s*(?P<value>.*)"
)
_ITEM_PATTERN = compile_lazily(r"-(?:\s+|\Z)|\{\Z")
#: The values of a key whose settings or text are on the lines below.
_MULTILINE_VALUES = frozenset(("", "{", "[", "|", ">", "|-", ">-", "|+", ">+"))
#: A word in the name of a key. ``maxReplicas`` has two.
_WORD_PATTERN = compile_lazily(r"[^\W\d_](?:[^\W_A-Z]|[A-Z](?![a-z]))*|\d+")
#: The line below the header of a Markdown table, without its outer bars.
_TABLE_RULE_PATTERN = compile_lazily(r"[\s:|-]+")
#: The separator of the values of a list in the display.
_VALUE_SEPARATOR = ", "
#: The maximum number of lines in one snippet.
_MAX_LINES = 8


def is_configuration_file(document: str) -> bool:
    """True if a document key is the path of a configuration file.

    >>> is_configuration_file("config/app.yaml"), is_configuration_file("config/app.py")
    (True, False)
    """
    return PurePosixPath(document).suffix.lower() in _SUFFIXES


def split_settings(block: PassageBlock, text_before: str = "") -> Iterator[Snippet]:
    """Yield the settings in a block of code of a configuration file as snippets.

    ``text_before`` is the text of the section before the block's passage. It has the keys that contain the first
    settings of the block.
    """
    offset = len(text_before)
    for group in _SettingsParser().parse(text_before + block.text[: block.end]):
        if group.end > offset + block.start:
            start = max(group.start - offset, block.start)
            displayed_text = str(group)
            words = " ".join(_WORD_PATTERN.findall(displayed_text))
            yield Snippet(
                start=start,
                end=group.end - offset,
                text=displayed_text,
                kind="table",
                block_index=block.block_index,
                cell_text=f"{displayed_text} {words}",  # a question can name a key as it is written
            )


@dataclass(slots=True)
class _SettingGroup:
    """A group: characters ``start`` to ``end`` of the code, with its ``keys``, outermost first. ``contents`` are its
    settings or values as written, which ``separator`` separates in the display. ``item_indent`` is the indentation of
    the settings of a list item in characters, and -1 for any other group.
    """

    start: int
    end: int
    keys: tuple[str, ...]
    contents: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    separator: str = ""
    item_indent: int = -1

    def __str__(self) -> str:
        """Return the keys, the settings or values, and the comments on one line."""
        content, comment = self.separator.join(self.contents), " ".join(self.comments)
        path = ".".join(self.keys)
        if not content:
            return f"{path}: {comment}" if path else comment
        if path:  # a single setting continues the path of its keys
            path += ": " if self.separator else "."
        return f"{path}{content}{'  # ' if comment else ''}{comment}"

    @property
    def is_value_list(self) -> bool:
        """True for values of a list, which commas separate in the display."""
        return self.separator == _VALUE_SEPARATOR

    def add_comment(self, comment: str, end: int) -> None:
        """Add a comment, unless it is empty, and extend the group to character ``end`` of the code."""
        self.comments += [comment] if comment else []
        self.end = end


class _Key(NamedTuple):
    """A key with settings on the lines below it, and the indentation of its line in characters."""

    indent: int
    name: str


class _SettingsParser:
    """Parses the code of a configuration file into groups of settings, line by line. The *open keys* contain the
    current line. The *current group* is the last one, which the next line can continue.
    """

    def __init__(self) -> None:
        """Create a parser for one file, in which no section or key is open yet."""
        self._section: tuple[str, ...] = ()  # the name in the last section header, if there was one
        self._keys: list[_Key] = []  # the keys that contain the current line, outermost first
        self._group: _SettingGroup | None = None  # the last group, which the current line can continue
        self._opens_item = False  # True after a header such as [[servers]], which opens an item of a list
        self._columns: list[str] = []  # of the Markdown table that the current line continues
        self._last_text: _SettingGroup | None = None  # the last group of values, such as the text above a table

    def parse(self, code: str) -> Iterator[_SettingGroup]:
        """Yield the groups of settings in the code in order; each becomes a snippet."""
        next_start = 0
        for line in code.splitlines(keepends=True):
            line_start, next_start = next_start, next_start + len(line)
            indent = len(line) - len(line.lstrip())
            yield from self._parse_line(line.strip(), indent, line_start + indent, line_start + len(line.rstrip()))
        yield from self._end_group()

    def _end_group(self) -> Iterator[_SettingGroup]:
        """Yield the current group if there is one. The next line cannot continue it."""
        if self._group is not None:
            if self._group.is_value_list:
                self._last_text = self._group
            yield self._group
            self._group = None

    def _parse_line(self, content: str, indent: int, start: int, end: int) -> Iterator[_SettingGroup]:
        """Parse a line of code, and yield the group of settings before it if it ends that group.

        ``content`` is the line without white space at its ends, ``indent`` its indentation in characters, and ``start``
        and ``end`` are its offsets in the code.
        """
        header = None if indent else _SECTION_PATTERN.fullmatch(content)
        if header is not None:
            yield from self._end_group()
            self._section, self._keys, self._opens_item = (header["name"],), [], len(header["brackets"]) == 2
            return
        if _MARK_PATTERN.fullmatch(content):
            if content == "---":  # another YAML document
                self._section, self._keys = (), []
            # A bracket on a line of its own does not end a list.
            if self._group is not None and not (content and self._group.separator):
                yield from self._end_group()
            return
        item_marker = _ITEM_PATTERN.match(content)
        marker_size = item_marker.end() if item_marker else 0
        indent += marker_size
        while self._keys and self._keys[-1].indent >= indent:
            self._keys.pop()
        new_group = _SettingGroup(start, end, keys=(*self._section, *(key.name for key in self._keys)))
        if len(content) > 1 and content[0] == content[-1] == "|":
            yield from self._parse_table_row(content[1:-1], new_group, indent)
            return
        self._columns = []
        comment_mark = _COMMENT_PATTERN.match(content)
        if comment_mark is not None:
            if self._group is None or self._group.contents:
                yield from self._end_group()
                self._group = new_group
            self._group.add_comment(content[comment_mark.end() :], end)
            return
        yield from self._parse_setting(content[marker_size:], new_group, indent, has_marker=item_marker is not None)

    def _parse_table_row(self, row: str, new_group: _SettingGroup, indent: int) -> Iterator[_SettingGroup]:
        """Parse a row of a Markdown table, in a description, into ``new_group``; yield the group before it, if any.

        ``row`` has no outer bars. A header, and the line below it, only yield the group before them.
        """
        cells = [cell.strip() for cell in row.split("|")]
        if not self._columns:
            self._columns = cells
            yield from self._end_group()
        elif not _TABLE_RULE_PATTERN.fullmatch(row):
            content = "; ".join(f"{name}: {cell}" for name, cell in zip(self._columns, cells, strict=False))
            new_group.contents, new_group.separator = [content], "; "
            if self._last_text is not None and self._last_text.keys == new_group.keys:
                new_group.contents = [f"{self._last_text.contents[-1].rstrip(':.')}: {content}"]
                new_group.comments = list(self._last_text.comments)
            yield from self._append_group(new_group, indent, can_continue=False)

    def _parse_setting(
        self, content: str, new_group: _SettingGroup, indent: int, *, has_marker: bool
    ) -> Iterator[_SettingGroup]:
        """Parse a setting or a value of a list into ``new_group``; yield the group before it if it ends that group.

        A key whose settings or text are on the lines below becomes one of the open keys instead. ``indent`` is its
        indentation in characters. ``has_marker`` is True if it follows the marker of a list item.
        """
        trailing = _TRAILING_COMMENT_PATTERN.fullmatch(content)
        value, comment = (trailing["value"], trailing["comment"]) if trailing else (content, "")
        new_group.add_comment(comment, new_group.end)
        value = value.removesuffix(",")
        setting = _SETTING_PATTERN.fullmatch(value)
        if setting is None:
            new_group.contents, new_group.separator = [value], _VALUE_SEPARATOR
            yield from self._append_group(new_group, indent, can_continue=True)
            self._opens_item = False
            return
        key = setting["key"].strip("\"'")
        if setting["value"] in _MULTILINE_VALUES:
            yield from self._end_group()
            self._group = new_group if comment else None
            self._keys.append(_Key(indent, key))
            return
        new_group.contents = [key + value[setting.end("key") :]]
        follows_version = self._group is not None and str(self._group).startswith("apiVersion:")
        is_name = key == "name" and new_group.keys == (*self._section, "metadata")
        if (not new_group.keys and key == "kind" and follows_version) or (is_name and len(self._section) == 1):
            # The kind and name of a Kubernetes resource contain its settings.
            self._section += (setting["value"].strip("\"'"),)
        if has_marker or self._opens_item:
            new_group.separator, new_group.item_indent = "; ", indent
        # A setting after the marker of a list item begins another item.
        yield from self._append_group(new_group, indent, can_continue=not has_marker)
        self._opens_item = False

    def _append_group(self, group: _SettingGroup, indent: int, *, can_continue: bool) -> Iterator[_SettingGroup]:
        """Merge ``group`` into the current group, or yield the current group as complete and replace it with ``group``.

        ``group`` has only the setting or value of one line, whose indentation is ``indent``. It is merged only if
        ``can_continue`` is True and both groups are values of one list or settings of one list item. A current group
        of comments alone is merged into ``group`` instead.
        """
        current = self._group
        if current is None:
            self._group = group
            return
        if not current.contents:  # comments alone
            self._group = replace(group, start=current.start, comments=current.comments + group.comments)
            return
        is_in_same_list = current.is_value_list if group.is_value_list else current.item_indent == indent
        has_room = current.keys == group.keys and len(current.contents) < _MAX_LINES
        if can_continue and is_in_same_list and has_room:
            current.contents += group.contents
            current.comments += group.comments
            current.end = group.end
        else:
            yield from self._end_group()
            self._group = group
