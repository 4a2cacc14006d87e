"""Source code: a file becomes Markdown, a section a definition, its name the heading and its text a block of code.

In: a file of one of the languages of :mod:`.code_languages`, in UTF-8 (or as marked or named). Out: one document of
format ``markdown``: the text of the file, word for word and in its order, in fenced blocks of code. A definition
(function, class, method, type) begins a section whose heading is its name, after those of what it stands in
(``Store.open``); comments and decorators above it belong to it. What stands between definitions goes under the name of
what it stands in, at the top level under that of the file. The names of the definitions are so names as those of other
headings are. Damaged code is cut where the parser still finds definitions. A language without a grammar (shells, SQL,
settings) is cut at lines that open a definition, or stays whole. What a program wrote (an index that a site searches, a
script made small) is passed over: nobody reads lines so long. Languages with a grammar need tree-sitter and that
(``kvstore[documents]``); without them a ReaderError.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from ...errors import ReaderError
from ...extras import import_extra
from .code_languages import LANGUAGES, Language
from .decoding import decode_text
from .markdown_blocks import MarkdownBlock, join_blocks, make_code_block, make_heading
from .raw_document import Origin, RawDocument, ReadOptions, SkippedPart

#: Definitions within definitions that have sections of their own, and characters of one that is worth cutting.
_MAX_DEPTH = 4
_MIN_SPLIT_CHARACTERS = 600
#: Characters that most of a file's text is in lines of, which nobody wrote by hand.
_MAX_LINE_CHARACTERS = 2000
_NAME_FIELDS = ("name", "declarator", "type")


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument | SkippedPart]:
    """Yield the file's one document."""
    text = decode_text(stream.read(), origin.name, options.encoding)
    if 2 * sum(len(line) for line in text.split("\n") if len(line) > _MAX_LINE_CHARACTERS) > len(text):
        yield SkippedPart(origin.name, "generated code")
        return
    path = PurePosixPath(origin.name)
    language = LANGUAGES.get(path.suffix.lower())
    if language is None:
        suffixes = ", ".join(LANGUAGES)
        raise ReaderError(
            f"{origin.name}: is of no language that is read AS code (suffixes: {suffixes}); read it AS text"
        )
    data = text.encode()
    if language.package:
        parser = _load_parser(language, f"{origin.name}: reading {language.name}")
        marks = _iter_marks(parser.parse(data).root_node, data, language, ())
    else:
        marks = _iter_line_marks(text, language)
    blocks = list(_build_sections(marks, data, path.name, language))
    yield RawDocument(origin.key, path.name, join_blocks(blocks) + "\n", {"language": language.name}, "markdown")


def _load_parser(language: Language, purpose: str) -> Any:
    """The parser of a language; raises ReaderError where the library is not there."""
    tree_sitter = import_extra("tree_sitter", "documents", purpose, error=ReaderError)
    grammar = import_extra(language.package, "documents", purpose, error=ReaderError)
    return tree_sitter.Parser(tree_sitter.Language(getattr(grammar, language.function)()))


def _iter_marks(
    node: Any, data: bytes, language: Language, names: tuple[str, ...]
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Where text begins to stand in other definitions: the byte, and their names, the outermost first."""
    for start, definition, end in _iter_definitions(node, language):
        inner_names = (*names, _get_definition_name(definition, data))
        yield start, inner_names
        if end - start >= _MIN_SPLIT_CHARACTERS and len(inner_names) < _MAX_DEPTH:
            yield from _iter_marks(definition, data, language, inner_names)
        yield end, names


def _iter_definitions(node: Any, language: Language) -> Iterator[tuple[int, Any, int]]:
    """The outermost definitions in a node: where each begins with what is said above it, and where it ends."""
    comment_start: int | None = None
    comment_row = -2
    for child in node.children:
        if "comment" in child.type or child.type in ("attribute_item", "attribute_list"):
            if comment_start is None or child.start_point[0] > comment_row + 1:
                comment_start = child.start_byte
            comment_row = child.end_point[0]
            continue
        start = (
            comment_start if comment_start is not None and child.start_point[0] <= comment_row + 1 else child.start_byte
        )
        comment_start = None
        if child.type in language.definitions and _is_defining(child):
            yield start, child, child.end_byte
        elif child.type in language.wrappers:
            definition = _find_wrapped_definition(child, language)
            if definition is not None:
                yield start, definition, child.end_byte
        elif child.type in language.bodies:
            yield from _iter_definitions(child, language)
        elif child.type == "lexical_declaration" and (declarator := _find_assigned_function(child)) is not None:
            yield start, declarator, child.end_byte


def _is_defining(node: Any) -> bool:
    """Whether a node has a body or is one by itself: ``struct point p;`` only uses a type."""
    return not node.type.endswith("_specifier") or node.child_by_field_name("body") is not None


def _find_wrapped_definition(node: Any, language: Language) -> Any | None:
    """The definition that a wrapper stands around, or None."""
    for child in node.named_children:
        if child.type in language.definitions and _is_defining(child):
            return child
        if child.type in language.wrappers and (definition := _find_wrapped_definition(child, language)) is not None:
            return definition
        if child.type == "lexical_declaration" and (declarator := _find_assigned_function(child)) is not None:
            return declarator
    return None


def _find_assigned_function(node: Any) -> Any | None:
    """The declarator of ``const name = () => ...``, or None."""
    for child in node.named_children:
        value = child.child_by_field_name("value")
        if value is not None and value.type in ("arrow_function", "function_expression", "function", "class"):
            return child
    return None


def _get_definition_name(node: Any, data: bytes) -> str:
    """What a definition is called."""
    receiver = node.child_by_field_name("receiver")
    name_node = next(
        (field_node for field in _NAME_FIELDS if (field_node := node.child_by_field_name(field)) is not None), None
    )
    for _ in range(_MAX_DEPTH * 2):  # a declarator stands in a declarator: int (*name(void))(int)
        if name_node is None or "declarator" not in name_node.type:
            break
        name_node = name_node.child_by_field_name("declarator") or next(iter(name_node.named_children), None)
    if name_node is None:
        name_node = next((child for child in node.named_children if "identifier" in child.type), node)
    name = " ".join(data[name_node.start_byte : name_node.end_byte].decode("utf-8", "replace").split())
    name = name.partition("{")[0].partition("(")[0].strip()[:200] if name_node is node else name[:200]
    if node.child_by_field_name("name") is None and name_node.type.startswith("generic"):  # impl<T> Store<T>
        name = name.partition("<")[0]
    if receiver is not None:  # Go: func (s *Store) Open()
        words = data[receiver.start_byte : receiver.end_byte].decode("utf-8", "replace").strip("()").split()
        if words:
            name = f"{words[-1].lstrip('*').partition('[')[0]}.{name}"
    return name or node.type


def _iter_line_marks(text: str, language: Language) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The same of a language without a grammar: a definition ends where the next begins."""
    opening = re.compile(language.opening, re.I) if language.opening else None
    offset = 0
    comment_start: int | None = None
    for line in text.splitlines(keepends=True):
        match = opening.match(line) if opening is not None else None
        if match:
            yield offset if comment_start is None else comment_start, (match["name"].strip('"`[] '),)
        if not line.lstrip().startswith(language.comment):
            comment_start = None
        elif comment_start is None:
            comment_start = offset
        offset += len(line.encode())


def _build_sections(
    marks: Iterable[tuple[int, tuple[str, ...]]], data: bytes, file: str, language: Language
) -> Iterator[MarkdownBlock]:
    """A heading and a block of code for every part of the file that stands in other definitions than that before it."""
    parts: list[tuple[int, tuple[str, ...]]] = []
    marks = [(0, ()), *marks]
    for (start, names), (end, _) in pairwise([*marks, (len(data), ())]):
        # Brackets, and blank lines, belong to what stands above them.
        if not parts or (parts[-1][1] != names and any(map(str.isalnum, data[start:end].decode("utf-8", "replace")))):
            parts.append((start, names))
    for (start, names), (end, _) in pairwise([*parts, (len(data), ())]):
        code = data[start:end].decode("utf-8", "replace")
        if code.strip():
            yield make_heading(min(6, len(names) + 1), ".".join(names) or file)
            yield make_code_block(code, language.name)
