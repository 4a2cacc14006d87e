"""Tests of the kinds of paragraphs that are not sentences: each is recognized and split as its row says."""

from __future__ import annotations

import pytest

from kvstore.answering.block_kinds import BLOCK_KINDS, BlockKind, find_block_kind

#: The displayed snippets of the example of each kind.
SNIPPETS = {
    "bill": ["Milk 1.20", "Bread 3.40"],
    "timestamped": ["[3.12.26, 18:22] Bo: Who has it?", "[3.12.26, 18:24] Al: Me."],
    "record": ["country: Albania; income: 10620"],
    "columns": ["Monday: closed", "Friday: 10:00 - 18:00"],
    "line list": ["Dentist 0171 55 23", "Blue bins on Tuesday"],
}


@pytest.mark.parametrize("kind", BLOCK_KINDS, ids=[kind.name for kind in BLOCK_KINDS])
def test_the_example_of_a_kind_is_recognized_and_split(kind: BlockKind) -> None:
    assert find_block_kind(kind.example) is kind
    text = f"Before.\n\n{kind.example}\n\nAfter."
    start = text.index(kind.example)
    snippets = list(kind.split(text, start, start + len(kind.example), 1))
    assert [snippet.text for snippet in snippets] == SNIPPETS[kind.name]
    assert all(text[snippet.start : snippet.end] in kind.example for snippet in snippets)


@pytest.mark.parametrize("paragraph", ["The port of\nBergen is old.", "At 9:30\nor 10:00.", "Ann: Is it high?"])
def test_sentences_have_no_kind(paragraph: str) -> None:
    assert find_block_kind(paragraph) is None
