"""Hierarchies in the layout of a document: nested lists, and headings below headings.

In: the blocks of a text. Out: :class:`~kvstore.extraction.relation.Relation` objects of full confidence, from an item
of a nested list to the item that contains it, and from a heading to the one above it. Only names count. A sentence, a
question or a generic heading (*Introduction*, *See also*) is skipped; its children go to the nearest name above it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from ..text.blocks import Block
from ..text.name_words import GENERIC_HEADINGS
from ..text.names import get_title_forms, is_informative_heading
from ..text.normalize import to_entity_key
from ..text.patterns import compile_lazily
from ..text.words import FUNCTION_WORDS
from .relation import Relation

LIST, HEADING = "list", "heading"
_MAX_NAME_WORDS = 6

#: Function words that a name can contain; with any other, the text is a phrase or a sentence.
_JOINING_WORDS = frozenset("of the and or for in to with on by a an from at as under over between".split())
_EXPLANATION_PATTERN = compile_lazily(r"\s*(?::\s|\s[-–—]\s).*\Z", re.DOTALL)
_TASK_MARKER_PATTERN = compile_lazily(r"\A\[[ xX]\]\s+")
_SENTENCE_MARK_PATTERN = compile_lazily(r"[.?!;:](?:\s|\Z)|[,=<>{}|\\]|\w\(")


def extract_outline_relations(
    blocks: Sequence[Block], byte_offsets: npt.NDArray[np.int64], english: bool = True
) -> list[Relation]:
    """Return the relations in the lists and headings of a text, each pair of names once per kind.

    ``byte_offsets`` maps each character of the text to its byte offset; ``english`` is True if any of the text is
    English.
    """
    relations: dict[tuple[str, str, str], Relation] = {}
    for kind, child, parent, block in _iter_pairs(blocks, english):
        key = to_entity_key(child), to_entity_key(parent), kind
        if key[0] != key[1] and key not in relations:
            span = int(byte_offsets[block.start]), int(byte_offsets[block.end])
            relations[key] = Relation(child, parent, kind, 1.0, *span)
    return list(relations.values())


def _iter_pairs(blocks: Sequence[Block], english: bool) -> Iterator[tuple[str, str, str, Block]]:
    """Yield the kind, child and parent of each pair, and the block of the child.

    A generic word as a heading (*Notes*) is recognized only if the document is ``english``.
    """
    headings: list[tuple[int, str | None]] = []
    items: list[tuple[int, str | None]] = []
    for block in blocks:
        if block.kind == "heading":
            items.clear()
            yield from _push_name(HEADING, headings, block, _get_heading_name(block.title, english))
        elif block.kind == "item" and block.title:
            yield from _push_name(LIST, items, block, _get_item_name(block.title))
        elif block.level == 0:
            items.clear()


def _push_name(
    kind: str, ancestors: list[tuple[int, str | None]], block: Block, name: str | None
) -> Iterator[tuple[str, str, str, Block]]:
    """Add the name of a block to ``ancestors``, and yield its pair with the nearest name above it.

    ``ancestors`` has the levels and names of the enclosing blocks. Blocks at the level of the block or below are
    removed from it.
    """
    while ancestors and ancestors[-1][0] >= block.level:
        ancestors.pop()
    parent = next((ancestor for _, ancestor in reversed(ancestors) if ancestor), None)
    if name and parent:
        yield kind, name, parent, block
    ancestors.append((block.level, name))


def _get_heading_name(title: str, english: bool) -> str | None:
    """Return the name that a heading states, or None if it has no name or, in ``english``, only an everyday word."""
    forms = get_title_forms(title)
    return forms[0] if forms and _is_name(forms[0]) and is_informative_heading(forms[-1], english) else None


def _get_item_name(title: str) -> str | None:
    """Return the name that a list item states before its explanation, or None."""
    term = _EXPLANATION_PATTERN.sub("", _TASK_MARKER_PATTERN.sub("", title)).strip(" .,:")
    return term if _is_name(term) else None


def _is_name(form: str) -> bool:
    """True if a text can be a name: a few words without the punctuation and function words of sentences."""
    words = form.lower().split()
    if not 0 < len(words) <= _MAX_NAME_WORDS or _SENTENCE_MARK_PATTERN.search(form):
        return False
    if words[0] in FUNCTION_WORDS - {"the"} or words[-1] in FUNCTION_WORDS:
        return False
    if any(word in FUNCTION_WORDS and word not in _JOINING_WORDS for word in words):
        return False
    return any(character.isalpha() for character in form) and " ".join(words) not in GENERIC_HEADINGS
