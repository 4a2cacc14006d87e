"""Relations: statements by a document that one name is the child of another, with the span of the statement. A *block*
is a heading, list item or paragraph of a text. A *pair* is a row (child, parent) of a document of format ``pairs``.

In: the blocks of a text, or a document of format ``pairs``. Out: :class:`Relation` objects of full confidence, from an
item of a nested list to the item that contains it, from a heading to the one above it, and from the child of a pair to
its parent. In lists and headings, only names count: a sentence, a question or a generic heading (*Introduction*, *See
also*) is skipped, and its children go to the nearest name above it.

Relations from data (pairs, nested lists, headings) belong to the tree of their document. Relations from prose
(:mod:`.prose`) belong to one tree of the whole store.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import InputError
from ..process.frozen_dataclass import frozen_dataclass
from ..structures.forest.forest import DATA_KINDS, RELATIONS_TREE
from ..text.blocks import Block
from ..text.name_words import GENERIC_HEADINGS
from ..text.names import get_title_forms, is_informative_heading
from ..text.normalize import to_entity_key, to_nfc
from ..text.patterns import compile_lazily
from ..text.words import FUNCTION_WORDS
from .chunking import ByteOffsets

LIST, HEADING, PAIR_KIND = "list", "heading", "pair"
_MAX_NAME_WORDS = 6

#: Function words that a name can contain; with any other, the text is a phrase or a sentence.
_JOINING_WORDS = frozenset("of the and or for in to with on by a an from at as under over between".split())
_EXPLANATION_PATTERN = compile_lazily(r"\s*(?::\s|\s[-–—]\s).*\Z", re.DOTALL)
_TASK_MARKER_PATTERN = compile_lazily(r"\A\[[ xX]\]\s+")
_SENTENCE_MARK_PATTERN = compile_lazily(r"[.?!;:](?:\s|\Z)|[,=<>{}|\\]|\w\(")


@frozen_dataclass
class Relation:
    """A statement that ``child`` is below ``parent`` in a hierarchy. Both are as written and differ in normal form.

    ``kind`` is the construction that states it, and ``confidence`` is between 0 and 1. Bytes ``start`` to ``end`` of
    the document's text are the sentence or row that states it.
    """

    child: str
    parent: str
    kind: str
    confidence: float
    start: int
    end: int

    def get_tree_name(self, key: str, meta: Mapping[str, Any]) -> str:
        """Return the name of the tree that stores the relation, given the key and the metadata of its document.

        It is the document's own tree for lists, headings and pairs, and the shared tree of relations for prose.
        """
        return get_own_tree_name(key, meta) if self.kind in DATA_KINDS else RELATIONS_TREE


class _Ancestor(NamedTuple):
    """A heading or list item that contains others, with its name if it has one."""

    level: int
    name: str | None


def get_own_tree_name(key: str, meta: Mapping[str, Any]) -> str:
    """Return the name of a document's own tree: its ``tree`` metadata field, or else its key."""
    return str(meta.get("tree") or key)


def extract_structural_relations(
    blocks: Sequence[Block], byte_offsets: ByteOffsets, is_english: bool = True
) -> list[Relation]:
    """Return the relations between the headings and list items among ``blocks``.

    The child of a relation is the name in a heading or item, and its parent the name in the heading or item around it.
    A pair of names occurs once for each kind of relation. ``byte_offsets`` maps each character of the text to its byte
    offset; ``is_english`` is True if any of the text is English.
    """
    relations: dict[tuple[str, str, str], Relation] = {}
    for kind, child, parent, block in _iter_pairs(blocks, is_english):
        child_key, parent_key = to_entity_key(child), to_entity_key(parent)
        if child_key != parent_key and (child_key, parent_key, kind) not in relations:
            start, end = int(byte_offsets[block.start]), int(byte_offsets[block.end])
            relation = Relation(child, parent, kind, confidence=1.0, start=start, end=end)
            relations[child_key, parent_key, kind] = relation
    return list(relations.values())


class _NamePair(NamedTuple):
    """The names of a heading or list item (``child``) and of the nearest one above it, and the block of the child."""

    kind: str
    child: str
    parent: str
    block: Block


def _iter_pairs(blocks: Sequence[Block], is_english: bool) -> Iterator[_NamePair]:
    """Yield a pair of names for each heading or list item among ``blocks`` that is below another one.

    A generic word as a heading (*Notes*) is recognized, and skipped, only if the document ``is_english``.
    """
    # The enclosing headings and list items, outermost first.
    headings: list[_Ancestor] = []
    items: list[_Ancestor] = []
    for block in blocks:
        if block.kind == "heading":
            items.clear()
            yield from _pair_with_parent(HEADING, headings, block, _get_heading_name(block.title, is_english))
        elif block.kind == "item" and block.title:
            yield from _pair_with_parent(LIST, items, block, _get_item_name(block.title))
        elif block.level == 0:  # text outside the list ends it
            items.clear()


def _pair_with_parent(kind: str, ancestors: list[_Ancestor], block: Block, name: str | None) -> Iterator[_NamePair]:
    """Yield the pair of ``name``, the name in a heading or item (``block``), and the nearest name above it, if any.

    ``kind`` is the kind of the pair. ``ancestors`` are the headings or items before the block. The list is updated:
    those that do not contain the block are removed, and the block is added.
    """
    while ancestors and ancestors[-1].level >= block.level:
        ancestors.pop()
    parent = next((ancestor.name for ancestor in reversed(ancestors) if ancestor.name), None)
    if name and parent:
        yield _NamePair(kind, name, parent, block)
    ancestors.append(_Ancestor(block.level, name))


def _get_heading_name(title: str, is_english: bool) -> str | None:
    """Return the name in a heading, or None if it has none.

    An everyday word alone is not a name if the document ``is_english``.
    """
    spellings = get_title_forms(title)
    if not spellings:
        return None
    name, name_without_parentheses = spellings[0], spellings[-1]
    return name if _is_name(name) and is_informative_heading(name_without_parentheses, is_english) else None


def _get_item_name(title: str) -> str | None:
    """Return the name in a list item before its explanation ("NAME: ..." or "NAME - ..."), or None if it has none."""
    term = _EXPLANATION_PATTERN.sub("", _TASK_MARKER_PATTERN.sub("", to_nfc(title))).strip(" .,:")
    return term if _is_name(term) else None


def _is_name(text: str) -> bool:
    """True if a text can be a name: a few words without the punctuation and function words of sentences.

    It must have a letter, and not be a generic heading, such as "Introduction".
    """
    words = text.lower().split()
    if not 0 < len(words) <= _MAX_NAME_WORDS or _SENTENCE_MARK_PATTERN.search(text):
        return False
    if words[0] in FUNCTION_WORDS - {"the"} or words[-1] in FUNCTION_WORDS:
        return False
    if any(word in FUNCTION_WORDS and word not in _JOINING_WORDS for word in words):
        return False
    return any(map(str.isalpha, text)) and " ".join(words) not in GENERIC_HEADINGS


def parse_pairs(text: str) -> list[Relation]:
    """Return the relations in a document of format ``pairs``, lines of CSV, in document order and each pair once.

    The span of a relation is its row, without the line end. A pair of two equal names is omitted. Raises InputError for
    a row that is not a pair of names.
    """
    import csv

    lines = io.StringIO(text).readlines()
    relations: dict[tuple[str, str], Relation] = {}
    reader = csv.reader(lines)
    line, start = 0, 0  # the index and the byte offset of the first line of the next row
    try:
        for row in reader:
            size = sum(len(row_line.encode()) for row_line in lines[line : reader.line_num])
            if len(row) != 2 or not all(cell.strip() for cell in row):
                raise InputError(f"a pair must have two names, child and parent, not {row!r}")
            child, parent = (" ".join(cell.split()) for cell in row)
            child_key, parent_key = to_entity_key(child), to_entity_key(parent)
            if child_key != parent_key and (child_key, parent_key) not in relations:
                end = start + size - (1 if lines[reader.line_num - 1].endswith("\n") else 0)
                relation = Relation(child, parent, PAIR_KIND, confidence=1.0, start=start, end=end)
                relations[child_key, parent_key] = relation
            line, start = reader.line_num, start + size
    except csv.Error as error:
        raise InputError(f"pairs must be lines of CSV, child and parent: {error}") from None
    return list(relations.values())
