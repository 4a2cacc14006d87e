"""Source code: a file becomes Markdown, with one section for each definition.
A *boundary* is an offset where a definition begins or ends. A *node* is one of tree-sitter's syntax tree; a *wrapper*
only encloses a definition, such as a decorator.

In: a file in one of the languages of :mod:`.code_languages`, in UTF-8 (or in the encoding that a byte-order mark or
option names). Out: one document of format ``markdown`` with the text of the file, verbatim and in order, in fenced code
blocks. A definition (function, class, method, type) begins a section. The heading is its name after the names of its
enclosing definitions (``Store.open``). Comments and decorators above it belong to it. Text between definitions goes
under the name of the enclosing definition, or of the file at the top level. The names of definitions thus become names
like other headings.

Invalid code is split at the definitions that the parser still finds. A language without a grammar (shells, SQL,
settings) is split at lines that open a definition, or not at all. Generated files (search indexes, minified scripts)
are skipped if most of their text is in overlong lines. Languages with a grammar need tree-sitter and the grammar
(``kvstore-db[documents]``); if they are missing, the result is a ReaderError.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any, BinaryIO, NamedTuple

from ..errors import ReaderError
from ..extensions.extras import import_extra
from .code_languages import LANGUAGES, Language
from .decoding import decode_text
from .markdown_blocks import MarkdownBlock, join_blocks, make_code_block, make_heading
from .raw_document import Origin, RawDocument, ReadOptions, SkippedPart

#: The maximum depth of definitions with separate sections, and the minimum size in bytes of a definition to be split.
_MAX_DEPTH = 4
_MIN_SPLIT_BYTES = 600
#: The maximum length of a line of handwritten code; a file that is mostly in longer lines is generated.
_MAX_LINE_CHARACTERS = 2000
_NAME_FIELDS = ("name", "declarator", "type")
_MAX_NAME_CHARACTERS = 200


class _Boundary(NamedTuple):
    """An offset in bytes where the enclosing definitions change, and their names from there on, outermost first."""

    offset: int
    names: tuple[str, ...]


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument | SkippedPart]:
    """Yield a file of source code as one document, with a heading above each definition.

    Generated code becomes a SkippedPart. Raises ReaderError if the file is blank or cannot be decoded, if its suffix is
    not one of a known language, or if the grammar of the language is not installed.
    """
    text = decode_text(stream.read(), origin.name, options.encoding)
    num_generated_characters = sum(len(line) for line in text.split("\n") if len(line) > _MAX_LINE_CHARACTERS)
    if 2 * num_generated_characters > len(text):
        yield SkippedPart(origin.name, "generated code")
        return
    path = PurePosixPath(origin.name)
    language = LANGUAGES.get(path.suffix.lower())
    if language is None:
        suffixes = ", ".join(LANGUAGES)
        raise ReaderError(
            f"{origin.name}: its suffix does not belong to a known programming language (known: {suffixes}); ingest it "
            "AS text"
        )
    source_bytes = text.encode()
    if language.package:
        parser = _load_parser(language, f"{origin.name}: reading {language.name}")
        boundaries = _iter_boundaries(parser.parse(source_bytes).root_node, source_bytes, language, names=())
    else:
        boundaries = _iter_line_boundaries(text, language)
    blocks = list(_iter_sections(boundaries, source_bytes, path.name, language))
    yield RawDocument(
        origin.key,
        title=path.name,
        text=join_blocks(blocks) + "\n",
        meta={"language": language.name},
        format="markdown",
    )


def _load_parser(language: Language, purpose: str) -> Any:
    """Return the parser of a language; raises ReaderError, which names ``purpose``, if the library is missing."""
    tree_sitter = import_extra("tree_sitter", "documents", purpose, error=ReaderError)
    grammar = import_extra(language.package, "documents", purpose, error=ReaderError)
    return tree_sitter.Parser(tree_sitter.Language(getattr(grammar, language.function)()))


def _iter_boundaries(node: Any, data: bytes, language: Language, names: tuple[str, ...]) -> Iterator[_Boundary]:
    """Yield a boundary at the start and at the end of each definition in a node of the syntax tree.

    ``names`` are the names of the definitions around the node, the outermost first. ``data`` is the file, and
    ``language`` has the types of nodes that are definitions. A long definition is also divided at the definitions
    inside it.
    """
    for start, end, definition in _iter_definitions(node, language):
        inner_names = (*names, _get_definition_name(definition, data))
        yield _Boundary(start, inner_names)
        if end - start >= _MIN_SPLIT_BYTES and len(inner_names) < _MAX_DEPTH:
            yield from _iter_boundaries(definition, data, language, inner_names)
        yield _Boundary(end, names)


class _CodeDefinition(NamedTuple):
    """A definition in a file: its span in bytes, which includes the comments directly above it, and its node."""

    start: int
    end: int
    node: Any


def _iter_definitions(node: Any, language: Language) -> Iterator[_CodeDefinition]:
    """Yield the outermost definitions in a node of the syntax tree, in order, each with the comments directly above it.

    ``language`` has the types of nodes that are definitions, wrappers of a definition (such as a decorator), or bodies
    with definitions inside.
    """
    comment_start: int | None = None
    comment_row = -2  # the last row of the comment; -2 is not above any row
    for child in node.children:
        if "comment" in child.type or child.type in ("attribute_item", "attribute_list"):
            if comment_start is None or child.start_point[0] > comment_row + 1:
                comment_start = child.start_byte
            comment_row = child.end_point[0]
            continue
        start = child.start_byte
        if comment_start is not None and child.start_point[0] <= comment_row + 1:  # the comment is directly above it
            start = comment_start
        comment_start = None
        if child.type in language.definitions and _is_definition(child):
            yield _CodeDefinition(start, child.end_byte, child)
        elif child.type in language.wrappers:
            definition = _find_wrapped_definition(child, language)
            if definition is not None:
                yield _CodeDefinition(start, child.end_byte, definition)
        elif child.type in language.bodies:
            yield from _iter_definitions(child, language)
        elif child.type == "lexical_declaration":  # JavaScript and TypeScript: const name = () => ...
            declarator = _find_assigned_function(child)
            if declarator is not None:
                yield _CodeDefinition(start, child.end_byte, declarator)


def _is_definition(node: Any) -> bool:
    """True if a node of a type in ``Language.definitions`` really defines something.

    A type specifier without a body only uses the type, as in ``struct point p;``.
    """
    return not node.type.endswith("_specifier") or node.child_by_field_name("body") is not None


def _find_wrapped_definition(node: Any, language: Language) -> Any | None:
    """Return the definition inside a wrapper, such as a decorator or an export, or None.

    ``language`` has the types of the nodes that are definitions or wrappers.
    """
    for child in node.named_children:
        if child.type in language.definitions and _is_definition(child):
            return child
        definition = _find_wrapped_definition(child, language) if child.type in language.wrappers else None
        if child.type == "lexical_declaration" and definition is None:
            definition = _find_assigned_function(child)
        if definition is not None:
            return definition
    return None


def _find_assigned_function(node: Any) -> Any | None:
    """Return the declarator (name and value) of a JavaScript constant that is a function or class; None for others."""
    for child in node.named_children:
        value = child.child_by_field_name("value")
        if value is not None and value.type in ("arrow_function", "function_expression", "function", "class"):
            return child
    return None


def _get_definition_name(node: Any, data: bytes) -> str:
    """Return the name of a definition, such as ``Store.Open`` for the Go method ``func (s *Store) Open()``.

    A definition without a name gets the words before its body or, without such words, the type of its node. ``data`` is
    the file.
    """
    name_node = _find_name_node(node)
    name = " ".join(_get_node_text(name_node, data).split())
    if name_node is node:  # no name: the words before the body
        name = name.partition("{")[0].partition("(")[0].strip()
    name = name[:_MAX_NAME_CHARACTERS]
    if node.child_by_field_name("name") is None and name_node.type.startswith("generic"):  # impl<T> Store<T>
        name = name.partition("<")[0]
    receiver = node.child_by_field_name("receiver")
    if receiver is not None:  # Go: func (s *Store) Open()
        words = _get_node_text(receiver, data).strip("()").split()
        if words:
            name = f"{words[-1].lstrip('*').partition('[')[0]}.{name}"
    return name or node.type


def _find_name_node(definition: Any) -> Any:
    """Return the node with the name of a definition: one of its fields, else an identifier, else the definition."""
    field_nodes = map(definition.child_by_field_name, _NAME_FIELDS)
    name_node = next((field_node for field_node in field_nodes if field_node is not None), None)
    for _ in range(_MAX_DEPTH * 2):  # declarators can be nested: int (*name(void))(int)
        if name_node is None or "declarator" not in name_node.type:
            break
        name_node = name_node.child_by_field_name("declarator") or next(iter(name_node.named_children), None)
    if name_node is None:
        return next((child for child in definition.named_children if "identifier" in child.type), definition)
    return name_node


def _get_node_text(node: Any, data: bytes) -> str:
    """Return the source text of a node; ``data`` is the file."""
    return data[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _iter_line_boundaries(text: str, language: Language) -> Iterator[_Boundary]:
    """Yield a boundary where each definition begins, in a language without a grammar, by its ``definition_pattern``.

    A definition includes the comments directly above it, and ends where the next one begins.
    """
    pattern = re.compile(language.definition_pattern, re.I) if language.definition_pattern else None
    offset = 0
    comment_start: int | None = None  # the offset of the comments directly above this line
    for line in text.splitlines(keepends=True):
        match = pattern.match(line) if pattern is not None else None
        if match:
            name = match["name"].strip('"`[] ')  # names in SQL can be quoted
            yield _Boundary(offset if comment_start is None else comment_start, (name,))
        if not line.lstrip().startswith(language.comment):
            comment_start = None
        elif comment_start is None:
            comment_start = offset
        offset += len(line.encode())


def _iter_sections(
    boundaries: Iterable[_Boundary], data: bytes, file_name: str, language: Language
) -> Iterator[MarkdownBlock]:
    """Yield a heading and a code block for every stretch of a file with the same enclosing definitions.

    ``data`` is the content of the file, which is in the programming language ``language``. ``boundaries`` are the
    offsets at which the definitions change. The heading has their names, or is ``file_name`` without definitions.
    """
    file_end = _Boundary(len(data), ())
    sections = [_Boundary(0, ())]
    for (start, names), (end, _) in pairwise([*boundaries, file_end]):
        # Brackets and blank lines belong to the section above them.
        if names != sections[-1].names and any(map(str.isalnum, data[start:end].decode("utf-8", "replace"))):
            sections.append(_Boundary(start, names))
    for (start, names), (end, _) in pairwise([*sections, file_end]):
        code = data[start:end].decode("utf-8", "replace")
        if code.strip():
            yield make_heading(len(names) + 1, ".".join(names) or file_name)
            yield make_code_block(code, language.name)
