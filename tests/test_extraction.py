"""Chunks, outlines and abstract trees: what is derived from one document."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kvstore
from kvstore.errors import InputError
from kvstore.extraction.chunking import MAX_CHUNK_LENGTH, chunk_text
from kvstore.extraction.extraction import extract
from kvstore.extraction.stated_relations import Relation, parse_pairs
from kvstore.settings import FixedSettings
from kvstore.structures.documents.documents import build_heading_path
from kvstore.structures.filter.entity_filter import find_occurrences, select_occurring_keys
from kvstore.text.blocks import format_summary_sentence, parse_blocks
from kvstore.text.words import count_text_tokens

SETTINGS = FixedSettings(embedder="hashing:16", dimension=16, chunk_tokens=20)

PIECES = st.sampled_from(
    ["# Top", "## Part", "### Detail", "Short one.", "A longer sentence that goes on for a while, is it not? ",
     "- item", "é ß 漢字", "```\ncode = 1\nmore = 2\n```", "| a | b |\n|---|---|\n| 1 | 2 |", "word " * 60, "x" * 300]
)  # fmt: skip


@settings(deadline=None)  # the first document of a format loads its parser
@given(st.lists(PIECES, min_size=1, max_size=25).map("\n\n".join), st.sampled_from(["markdown", "text"]))
def test_every_character_lies_in_one_chunk_and_one_leaf(text: str, form: str) -> None:
    extracted = extract("k", text, SETTINGS, format=form, title="Title")
    data = text.encode()
    end = 0
    for chunk in extracted.chunks:
        assert not data[end : chunk.start].decode().strip()
        assert data[chunk.start : chunk.end].decode() == chunk.text
        assert chunk.start < chunk.end
        end = chunk.end
    assert not data[end:].decode().strip()
    tree = extracted.tree
    assert tree is not None
    assert sum(tree.leaf_sizes) == len(extracted.chunks)
    assert all(1 <= size <= 5 for size in tree.leaf_sizes)
    root = len(tree.nodes) - 1
    for number, node in enumerate(tree.nodes):
        assert (node.parent is None) == (number == root)
        below = extracted.chunks[node.first_chunk : node.last_chunk + 1]
        assert node.summary
        for start, end in node.summary:
            assert below[0].start <= start < end <= below[-1].end
            assert format_summary_sentence(data[start:end].decode())
        assert [tree.nodes[child].parent for child in node.children] == [number] * len(node.children)
        assert len(node.children) != 1, "a node above one child says nothing new"
    assert all(0 <= section.abstract <= root for section in extracted.sections)


def test_chunks_are_about_as_long_as_configured_and_end_with_sentences() -> None:
    text = " ".join(f"This is sentence number {n} of a long and even text." for n in range(200))
    _, chunks = chunk_text(text, parse_blocks(text, "text"), 100)
    sizes = [count_text_tokens(text[chunk.start : chunk.end]) for chunk in chunks]
    assert all(70 <= size <= 130 for size in sizes)
    assert all(text[chunk.start : chunk.end].endswith(".") for chunk in chunks)


def test_a_chunk_never_crosses_a_heading() -> None:
    text = "# A\n\nOne.\n\n## B\n\nTwo.\n\n## C\n\n### D\n\nThree."
    sections, chunks = chunk_text(text, parse_blocks(text, "markdown"), 100)
    assert [section.title for section in sections] == ["A", "B", "C", "D"]
    assert [section.parent for section in sections] == [-1, 0, 0, 2]
    assert [text[chunk.start : chunk.end].split("\n")[-1] for chunk in chunks] == ["One.", "Two.", "Three."]
    assert [chunk.section for chunk in chunks] == [0, 1, 3]


@pytest.mark.parametrize("size", [20, 40, 100])
def test_no_chunk_begins_inside_a_unit(size: int) -> None:
    filler = "The keeper writes down the weather of every watch in his own hand. " * 3
    options = "".join(
        f"- `-{letter}`, `--{letter}-lamp`: Lights lamp {letter}. It burns long.\n" for letter in "abcdefgh"
    )
    rows = "".join(f"| lamp {number} | {number} litres of oil |\n" for number in range(30))
    code = "".join(f"light(lamp={number}, wick=2)\n" for number in range(30))
    text = (
        f"{filler}{filler}The lamps are lit so:\n\n```python\n{code}```\n\n{filler}"
        f"These options there are:\n\n{options}\n"
        f"{filler}What each of them takes\n\n| lamp | oil |\n| --- | --- |\n{rows}\n{filler}\n\n"
        f"```\nlight()\ndim()\n```\n"
    )
    _, chunks = chunk_text(text, parse_blocks(text, "markdown"), size)
    begins = [text[chunk.start :].split("\n")[0] for chunk in chunks]
    unsplit = ("It burns", "light()", "dim()") if size > 20 else ()  # what is longer than a chunk is cut
    for part in (*unsplit, "```", "light(lamp=0", "- `-a`", "| lamp | oil |", "| --- ", "| lamp 0 "):
        assert not [begin for begin in begins if begin.startswith(part)], part
    assert len(chunks) > 8
    assert max(sentence.tokens for chunk in chunks for sentence in chunk.sentences) <= 2 * size
    assert max(sum(sentence.tokens for sentence in chunk.sentences) for chunk in chunks) <= 4 * size


@pytest.mark.parametrize("text", ["word " * 200_000, "x" * 1_000_000, "é" * 100_000, "a," * 100_000])
def test_text_without_any_sentence_is_cut_within_bounds(text: str) -> None:
    _, chunks = chunk_text(text, parse_blocks(text, "text"), 100)
    assert all(chunk.end - chunk.start <= 2 * MAX_CHUNK_LENGTH for chunk in chunks)
    assert len(chunks) > 5


def test_a_leaf_ends_with_its_top_level_section() -> None:
    text = "# Book\n\n" + "\n\n".join(f"## Part {n}\n\n" + "Words of this part go on. " * 10 for n in range(3))
    extracted = extract("k", text, SETTINGS, format="markdown")
    assert extracted.tree is not None
    for node in extracted.tree.nodes[: extracted.tree.num_leaves]:
        top = {
            build_heading_path(extracted.sections, chunk.section)[1]
            for chunk in extracted.chunks[node.first_chunk : node.last_chunk + 1]
        }
        assert len(top) == 1


def test_the_tree_follows_headings() -> None:
    body = "Some words stand here for a while. " * 25
    text = "# Book\n\n" + "\n\n".join(f"## Part {n}\n\n{body}" for n in range(3))
    extracted = extract("k", text, SETTINGS, format="markdown", title="Book")
    tree = extracted.tree
    assert tree is not None
    root = tree.nodes[-1]
    titles = [extracted.sections[tree.nodes[child].section].title for child in root.children]
    assert titles == ["Part 0", "Part 1", "Part 2"]


def test_a_tree_without_headings_follows_similarity() -> None:
    topics = ["The ship sailed over the sea with sailors and sails. ", "Bread is baked from flour in a hot oven. "]
    text = "\n\n".join((topics[0] * 60, topics[1] * 60))
    extracted = extract("k", text, SETTINGS)
    tree = extracted.tree
    assert tree is not None
    leaves_of = {}
    for number, node in enumerate(tree.nodes[: tree.num_leaves]):
        words = set(extracted.chunks[node.first_chunk].text.split())
        leaves_of[number] = "sea" in words
    borders = [n for n in range(1, tree.num_leaves) if leaves_of[n] != leaves_of[n - 1]]
    assert len(borders) == 1
    # Some node of the tree holds the leaves of one topic and none of the other.
    assert any(
        {leaves_of[n] for n in range(tree.num_leaves) if d.first_chunk <= tree.nodes[n].first_chunk <= d.last_chunk}
        == {True}
        for d in tree.nodes[tree.num_leaves :]
    )


def test_a_summary_does_not_depend_on_how_sets_are_ordered() -> None:
    """The first two sentences weigh the same; which set of words comes in which order, their hashes decide."""
    summaries = set()
    for vocabulary in range(60):
        words = [f"word{vocabulary:02}{letter}" for letter in "abcdefghijkl"]
        sentences = [["So", "as", *words], words, *(words[:size] for size in (3, 5, 7, 9))]
        tree = extract("k", "".join(" ".join(sentence).capitalize() + ". " for sentence in sentences), SETTINGS).tree
        assert tree is not None
        summaries.add(tuple(tree.nodes[0].summary))
    assert len(summaries) == 1


def test_extraction_is_a_pure_function() -> None:
    text = "# Ada\n\nAda Lovelace met Charles Babbage. " * 30
    extracted = extract("k", text, SETTINGS, format="markdown", title="T", meta={"a": 1})
    other = extract("k", text, SETTINGS, format="markdown", title="T", meta={"a": 1})
    assert extracted == other


OF_ANOTHER_PROCESS = """
import sys
from kvstore.extraction.extraction import extract
from kvstore.settings import FixedSettings
print(extract("k", sys.argv[1], FixedSettings(language="rules")).tree)
"""


def test_extraction_does_not_depend_on_the_order_of_sets() -> None:
    """Python orders sets of words in another way in every process, and sums of weights differ with their order."""
    chance = random.Random(286)  # of the texts drawn so, one whose summary differed
    words = "Reid ship pier the of Ellen tea water stone harbour captain letters seven".split()
    text = " ".join(" ".join(chance.choices(words, k=chance.randint(3, 9))) + "." for _ in range(30))
    outputs = {
        subprocess.check_output(
            [sys.executable, "-c", OF_ANOTHER_PROCESS, text], env={**os.environ, "PYTHONHASHSEED": seed}
        )
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert b"summary=[(" in outputs.pop()


@pytest.mark.matrix
@pytest.mark.parametrize("mark", [".", "#", "* ", "x\n===\n", "#### x\n# y\n", "a. ", "\n", "`", "[", "。", '."'])
def test_texts_of_one_mark_cost_no_more_than_their_length(mark: str) -> None:
    """With quadratic time, some of these texts took minutes."""
    text = "Port Ellen. " + mark * (100_000 // len(mark))
    assert extract("k", text, SETTINGS, format="markdown").chunks


def test_line_ends_are_one_kind() -> None:
    windows = extract("k", "# A\r\n\r\nText one.\r\n", SETTINGS, format="markdown")
    assert windows.digest == extract("k", "# A\n\nText one.\n", SETTINGS, format="markdown").digest


def test_pairs_are_read_once_and_never_point_to_themselves() -> None:
    assert parse_pairs('Tüg,Ship\n"Tüg ",SHIP\nShip,ship\n"A, B",Ship\n') == [
        Relation("Tüg", "Ship", "pair", 1.0, 0, 9),
        Relation("A, B", "Ship", "pair", 1.0, 33, 44),
    ]
    with pytest.raises(InputError, match="two names"):
        parse_pairs("a,b\nc\n")


@given(st.text("abc .,-\n", max_size=60), st.lists(st.text("abc .,-", max_size=6), max_size=8))
def test_the_keys_that_occur_in_a_text_are_those_with_an_occurrence(text: str, names: list[str]) -> None:
    data, keys = text.encode(), [name.encode() for name in names]
    assert select_occurring_keys(data, keys, 2) == [key for key in keys if find_occurrences(data, key, 2)]


HEADED = {
    "underlined": (
        "Screen\n======\n\nAll about it.\n\nWindows\n-------\nA window has a number.\n\n"
        "  *****\n  KEYS\n  *****\n"
        "  Ctrl-A is one.\n\nName      Number\n----------------\nAnn       12\n",
        ["Screen", "Screen > Windows", "Screen > Windows > KEYS"],
    ),
    "numbered": (
        "          1.  Introduction\n\nYou dream.\n\n          2.  Rooms\n\nThey have walls.\n\n"
        "2.1.  Doorways\n\nOpen.\n\n"
        "7.  Not in order\n\nText.\n\n2.2.  Traps (^')\n\nMind them.\n",
        ["1. Introduction", "2. Rooms", "2. Rooms > 2.1. Doorways", "2. Rooms > 2.2. Traps (^')"],
    ),
    "numbered lines": (
        "1. Tickets\n1.1 A ticket is valid for an hour.\n1.2 Children pay nothing.\n\n"
        "2. Dogs\n2.1 They need a muzzle.\n\n3. Delay\n3.1 The fare is paid back.\n",
        ["1. Tickets", "2. Dogs", "3. Delay"],
    ),
    "annexes": (
        "1. Services\n\n1.1 Patches come monthly.\n\n2. Fees\n\n2.1 They are due.\n\n3. Data\n\n3.1 They stay here.\n\n"
        "Annex B is part of it.\n\nSchedule a visit within two weeks\n\nAnnex B – Rates\n\nA night costs 215 euros.\n\n"
        "Amendment 1 (14 January 2025)\n\nClause 3 is deleted.\n",
        ["1. Services", "2. Fees", "3. Data", "Annex B – Rates", "Amendment 1 (14 January 2025)"],
    ),
    "articles": (
        "STATUTS\n\nArticle 1er. Objet\nL'orgue.\n\nArticle 2. Membres\nLa cotisation.\n\n"
        "ARTICLE 3 – BUREAU\n\nIl se réunit.\n",
        [None, "Article 1er. Objet", "Article 2. Membres", "ARTICLE 3 – BUREAU"],
    ),
    "items of minutes": (
        "ATA\n\nPonto 1 - Contas\nForam aprovadas.\n\nPonto 2 - Telhado\nDeixa entrar água.\n\n"
        "Artigo do jornal.\n\nPonto 3 - Regata\nÉ em maio.\n",
        [None, "Ponto 1 - Contas", "Ponto 2 - Telhado", "Ponto 3 - Regata"],
    ),
    "articles without titles": ("§ 1\nEins.\n\n§ 2\nZwei.\n\n§ 3\nDrei.\n", ["§ 1", "§ 2", "§ 3"]),
    "articles of a sentence": ("§ 1 Es gilt das\nhier.\n\n§ 2 Und dies.\n\n§ 3 Auch das.\n", [None]),
    "a list": ("1. Apples\n\n2. Pears\n\n3. Plums and quinces\n", [None]),
    "versions": ("1.1  Doors close\n\n1.0  Doors open\n\n0.9  Nothing\n", [None]),
    "asked": (
        "Q: The screen is black when\n   I press the button.\nA: Turn it on.\n\nQ. I have lost my key\n\n"
        "A. Ask at the desk.\n\n"
        "Q: This is no question.\n\nIt has no answer.\n",
        ["The screen is black when I press the button.", "I have lost my key"],
    ),
}


@pytest.mark.parametrize("kind", HEADED)
def test_headings_of_plain_text_open_sections(kind: str, store: kvstore.Store) -> None:
    text, headings = HEADED[kind]
    store.put("plain", text)
    rows = store.execute("SELECT heading FROM chunks ORDER BY ordinal").fetchall()
    assert [*dict.fromkeys(heading for (heading,) in rows)] == headings


def test_a_question_opens_a_section_if_no_heading_does(store: kvstore.Store) -> None:
    text = "The W7\n\nQ: Why does it leak?\nA: Use less soap.\n\nQ2. Why does it smell?\nA: Air the drum.\n"
    store.put("plain", text)
    store.put(
        "marked", "# The W7\n\n**Why does it leak?**\n\nUse less soap.\n\nIs it **really?** It is.", format="markdown"
    )
    headings = "SELECT heading FROM chunks WHERE document = ? ORDER BY ordinal"
    assert store.execute(headings, ["plain"]).fetchall() == [(None,), ("Why does it leak?",), ("Why does it smell?",)]
    assert store.execute(headings, ["marked"]).fetchall() == [("The W7 > Why does it leak?",)]


def test_a_name_ends_before_the_line_of_a_field() -> None:
    def list_name_forms(text: str) -> set[str]:
        return {name.form for name in extract("k", text, SETTINGS).introductions if name.kind == "name"}

    card = "Name: Ashdown Joinery\nOrganization: Ashdown Joinery Ltd.\nMeets in: Wickenby\nHall on the first Monday"
    assert "Ashdown Joinery" in list_name_forms(card) and not any(
        "Organization" in form for form in list_name_forms(card)
    )
    row = "nom: Gratin\ncode: S-88\nauteur: Odile Roy\ndescription: Éplucher les cardons et les cuire dans un blanc."
    assert list_name_forms(row) == {"Odile Roy", "S-88"}
    assert "Membres La" not in list_name_forms(
        "Les Membres\nLa cotisation de Marie Curie est de 22 euros par an pour tous."
    )


def test_the_author_of_a_mail_in_any_language_is_a_name() -> None:
    head = "From: Jörg Wendelin <w@rat.example>\n\nDate: Wed, 05 Mar 2025\n\n"
    text = f"{head}Die Arbeiten beginnen im Juli und dauern lange."
    names = {name.form for name in extract("k", text, SETTINGS).introductions}
    assert "Jörg Wendelin" in names and "Date" not in names
