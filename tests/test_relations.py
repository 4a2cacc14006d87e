"""Relations found in documents: in prose by the parse, in nested lists and headings by the layout."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc

import kvstore
from kvstore.errors import InputError, LanguageError
from kvstore.extraction.extraction import extract, extract_document, extract_documents
from kvstore.extraction.noun_phrases import NounPhrases
from kvstore.extraction.relations import extract_statements
from kvstore.extraction.syntax import iter_sentences
from kvstore.extraction.validation import validate
from kvstore.models.language import open_language
from kvstore.settings import FixedSettings
from kvstore.text.normalize import to_entity_key

GOLD = Path(__file__).parent / "relations_gold" / "sentences.jsonl"
RULES = FixedSettings(language="rules")
ENGLISH = FixedSettings(language="en")

VOCAB = spacy.blank("en").vocab

Triple = tuple[str, str, str]


def find_triples(text: str, settings: FixedSettings = ENGLISH, format: str = "text") -> list[Triple]:
    return [(r.child, r.parent, r.kind) for r in extract("k", text, settings, format=format).relations]


def measure_gold_set(part: str) -> tuple[float, float]:
    """Return precision and recall on one part of the gold set."""
    lines = [json.loads(line) for line in GOLD.read_text(encoding="utf-8").splitlines()]
    lines = [line for line in lines if line["part"] == part]
    pipeline = open_language("en")
    assert pipeline is not None

    def extract_triples(_: str, parses: object) -> set[Triple]:
        return {
            (to_entity_key(statement.child), to_entity_key(statement.parent), statement.kind)
            for parse in parses  # type: ignore[attr-defined]
            for sentence in iter_sentences(parse.doc)
            for statement in extract_statements(sentence)
        }

    num_found = num_expected = num_correct = 0
    for line, got in zip(lines, pipeline.parse_texts([line["text"] for line in lines], extract_triples), strict=True):
        gold = {(to_entity_key(child), to_entity_key(parent), kind) for child, parent, kind in line["relations"]}
        num_found += len(got)
        num_expected += len(gold)
        num_correct += len(got & gold)
    return num_correct / num_found, num_correct / num_expected


def test_the_gold_set_matches_its_description() -> None:
    lines = [json.loads(line) for line in GOLD.read_text(encoding="utf-8").splitlines()]
    assert len({line["text"] for line in lines}) == 150
    assert sum(line["part"] == "held out" for line in lines) == 50
    assert {kind for line in lines for _, _, kind in line["relations"]} == {
        *("is_a", "part_of", "belongs_to", "depends_on", "located_in", "of")
    }


@pytest.mark.parametrize("part", ["tuning", "held out"])
def test_relations_of_the_gold_set_are_found(part: str) -> None:
    precision, recall = measure_gold_set(part)
    assert precision >= 0.85
    assert recall >= 0.70


CLEAR = [
    # As pipelines with the labels of ClearNLP parse them.
    (
        "Python is a language .".split(),
        "NNP VBZ DT NN .".split(),
        "PROPN AUX DET NOUN PUNCT".split(),
        "python be a language .".split(),
        [1, 1, 3, 1, 1],
        "nsubj ROOT det attr punct".split(),
        [("Python", "language", "is_a")],
    ),
    (
        "The kernel is contained in the system .".split(),
        "DT NN VBZ VBN IN DT NN .".split(),
        "DET NOUN AUX VERB ADP DET NOUN PUNCT".split(),
        "the kernel be contain in the system .".split(),
        [1, 3, 3, 3, 3, 6, 4, 3],
        "det nsubjpass auxpass ROOT prep det pobj punct".split(),
        [("kernel", "system", "part_of")],
    ),
    (
        "Tools such as hammers and saws .".split(),
        "NNS JJ IN NNS CC NNS .".split(),
        "NOUN ADJ ADP NOUN CCONJ NOUN PUNCT".split(),
        "tool such as hammer and saw .".split(),
        [0, 2, 0, 2, 3, 3, 0],
        "ROOT amod prep pobj cc conj punct".split(),
        [("hammer", "tool", "is_a"), ("saw", "tool", "is_a")],
    ),
]


@pytest.mark.parametrize(("words", "tags", "pos", "lemmas", "heads", "deps", "expected"), CLEAR)
def test_pipelines_with_other_labels_state_the_same(
    words: list[str],
    tags: list[str],
    pos: list[str],
    lemmas: list[str],
    heads: list[int],
    deps: list[str],
    expected: list[Triple],
) -> None:
    doc = Doc(VOCAB, words=words, tags=tags, pos=pos, lemmas=lemmas, heads=heads, deps=deps)
    (sentence,) = iter_sentences(doc)
    assert [(s.child, s.parent, s.kind) for s in extract_statements(sentence)] == expected


LABELS = """
    nsubj nsubj:pass obj obl nmod nmod:poss nmod:desc case det amod compound flat conj cc appos acl acl:relcl advcl cop
    aux advmod mark xcomp punct
""".split()
FORMS = """
    A Tom cat cats consists of such as including , and or other the which is part make up for example no if ; 7 -
""".split()
random_words = st.lists(
    st.tuples(
        st.sampled_from(FORMS),
        st.sampled_from("NN NNS NNP JJ DT IN VBZ VBN CD , WDT CC".split()),
        st.sampled_from("NOUN PROPN VERB ADJ ADP DET PUNCT".split()),
        st.sampled_from(LABELS),
        st.integers(0, 30),
    ),
    min_size=1,
    max_size=16,
)


@given(random_words, st.randoms(use_true_random=False))
def test_any_tree_of_words_is_read(words: list[tuple[str, str, str, str, int]], chance: random.Random) -> None:
    # A parser may say anything: every word hangs on one of those before it in some order, the first on none.
    order = list(range(len(words)))
    chance.shuffle(order)
    heads = {place: order[words[place][4] % at] if at else place for at, place in enumerate(order)}
    doc = Doc(
        VOCAB,
        words=[word[0] for word in words],
        tags=[word[1] for word in words],
        pos=[word[2] for word in words],
        lemmas=[word[0].lower() for word in words],
        heads=[heads[place] for place in range(len(words))],
        deps=["ROOT" if heads[place] == place else word[3] for place, word in enumerate(words)],
    )
    for sentence in iter_sentences(doc):
        NounPhrases(sentence).find_terms()
        for statement in extract_statements(sentence):
            assert to_entity_key(statement.child) != to_entity_key(statement.parent)
            assert 0 <= statement.start < statement.end <= len(doc.text)
            assert 0 < statement.confidence <= 1


def test_a_long_list_is_gathered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser may take thousands of words in a row for a list: each of them is looked at a few times, not by each."""
    count = 1000
    looked_at = 0
    is_phrase = NounPhrases.is_phrase_head

    def count_and_test(self: NounPhrases, place: int) -> bool:
        nonlocal looked_at
        looked_at += 1
        return is_phrase(self, place)

    monkeypatch.setattr(NounPhrases, "is_phrase_head", count_and_test)
    words = ["x"] * count
    labels = ["ROOT", *["appos"] * (count - 1)]
    kinds = {"tags": ["NN"] * count, "pos": ["NOUN"] * count, "lemmas": words}
    doc = Doc(VOCAB, words, heads=[0] * count, deps=labels, **kinds)
    for sentence in iter_sentences(doc):
        assert extract_statements(sentence) == []
    assert count - 1 <= looked_at <= 4 * count


def test_a_document_without_a_parse_states_nothing() -> None:
    assert list(iter_sentences(spacy.blank("en")("Whales are mammals."))) == []


NESTED = """# Zoology

## Introduction

Some words.

## Vertebrates

### Mammals

- Whales: they are large
  - Blue whale

    They are blue.
  - Narwhal
    1. Tusk
  - They swim far, and sing.
    - Song
- Bats

Text between lists.

- Fur

## How to count them

### Done

### Pitfall traps
"""


def test_nested_lists_and_headings_are_hierarchies() -> None:
    assert find_triples(NESTED, RULES, "markdown") == [
        ("Vertebrates", "Zoology", "heading"),
        ("Mammals", "Vertebrates", "heading"),
        ("Blue whale", "Whales", "list"),
        ("Narwhal", "Whales", "list"),
        ("Tusk", "Narwhal", "list"),
        ("Song", "Whales", "list"),
        ("Pitfall traps", "Zoology", "heading"),
    ]


def test_links_in_lists_and_headings_are_read_as_their_text() -> None:
    text = """# [Kvasir](../README.md)

- [Consensus seeking](#consensus-seeking)
  - [Commit queue](#queue "The queue") and [labels][1]

## [![Build](x.svg)](ci) Pull [requests](a_(b).md)
"""
    extracted = extract("k", text, RULES, format="markdown")
    assert {(r.child, r.parent) for r in extracted.relations} == {
        ("Commit queue and labels", "Consensus seeking"),
        ("Build Pull requests", "Kvasir"),
    }
    assert {"Kvasir", "Build Pull requests"} <= {section.title for section in extracted.sections}
    assert not [name.form for name in extracted.introductions if "[" in name.form or "(" in name.form]


def test_marks_of_transcripts_are_no_names() -> None:
    transcript = (
        "So {vocalsound} the committee {disfmarker} met {disfmarker} them, and {disfmarker} they left {pause} then."
    )
    introductions = extract("k", " ".join([transcript] * 3), ENGLISH).introductions
    assert not [name.form for name in introductions if "vocal" in name.key or "disf" in name.key]


def test_a_hierarchy_is_in_the_tree_of_its_document(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store(settings={"language": "rules"})
    store.put("zoo.md", NESTED, format="markdown", meta={"tree": "zoo"})
    rows = store.execute("SELECT child, parent, tree, kind, confidence, document FROM edges WHERE child = 'Tusk'")
    assert [tuple(row) for row in rows] == [("Tusk", "Narwhal", "zoo", "list", 1.0, "zoo.md")]
    store.delete("zoo.md")
    assert store.execute("SELECT * FROM edges").fetchall() == []


def test_html_lists_are_hierarchies(make_store: Callable[..., kvstore.Store], tmp_path: Path) -> None:
    store = make_store(settings={"language": "rules"})
    page = tmp_path / "page.html"
    page.write_text("<h1>Fruit</h1><ul><li>Citrus<ul><li>Lemon</li><li>Orange</li></ul></li><li>Pome</li></ul>")
    store.ingest(page)
    rows = store.execute("SELECT child, parent, kind FROM edges ORDER BY child")
    assert [tuple(row) for row in rows] == [("Lemon", "Citrus", "list"), ("Orange", "Citrus", "list")]


def test_a_key_too_long_for_the_name_of_a_tree_states_no_outline() -> None:
    assert extract("k" * 500, NESTED, RULES, format="markdown").relations == []
    assert extract("k" * 500, NESTED, RULES, format="markdown", meta={"tree": "zoo"}).relations


TEXT = (
    "PostgreSQL is a relational database. Its planner is not part of the kernel.\n\n"
    "| a | b |\n|---|---|\n| Cats are animals | x |\n\n"
    "```\nDogs are animals.\n```\n\n"
    "- They use databases such as *PostgreSQL* and [MySQL](https://example.org/). Is Rust a language?\n"
)


def test_a_relation_carries_the_bytes_of_its_sentence() -> None:
    extracted = extract("k", "Äpfel. " + TEXT, ENGLISH, format="markdown")
    sentences = {
        (relation.child, relation.parent): extracted.text[relation.start : relation.end].decode()
        for relation in extracted.relations
    }
    assert sentences == {
        ("PostgreSQL", "relational database"): "PostgreSQL is a relational database.",
        ("PostgreSQL", "database"): TEXT[TEXT.index("- They") : TEXT.index(" Is Rust")],
        ("MySQL", "database"): TEXT[TEXT.index("- They") : TEXT.index(" Is Rust")],
    }
    assert {name.key for name in extracted.introductions} >= {"postgresql", "mysql", "relational database", "database"}


def test_relations_of_a_document_do_not_depend_on_earlier_documents() -> None:
    texts = [f"{name} is a town. The river of {name} belongs to the county." for name in ("Aro", "Belt", "Corve")]
    alone = [extract("k", text, ENGLISH).relations for text in texts]
    assert alone == [extract("k", text, ENGLISH).relations for text in texts]
    assert alone[::-1] == [extract("k", text, ENGLISH).relations for text in texts[::-1]]
    long = extract("k", "\n\n".join(texts * 40), ENGLISH).relations
    assert {(r.child, r.parent, r.kind) for r in long} == {
        (r.child, r.parent, r.kind) for relations in alone for r in relations
    }


def test_documents_derived_together_equal_documents_derived_alone() -> None:
    body = "Aro is a town. The river of Aro belongs to the county."
    texts = [body, "| a | b |\n|---|---|\n| 1 | 2 |", NESTED, "tug,ship", "tug", body * 30, "---", TEXT]
    formats = ["text", "markdown", "markdown", "pairs", "pairs", "text", "markdown", "markdown"]
    documents = [validate("k", text, format=form) for text, form in zip(texts, formats, strict=True)]
    for settings in (ENGLISH, RULES):
        together = list(extract_documents(documents, settings))
        for document, result in zip(documents, together, strict=True):
            if isinstance(result, InputError):
                with pytest.raises(InputError, match=re.escape(str(result))):
                    extract_document(document, settings)
            else:
                assert result == extract_document(document, settings)
        assert [isinstance(result, InputError) for result in together].count(True) == 1


def test_terms_used_more_than_once_become_names() -> None:
    once = extract("k", "They wrote about solar energy.", ENGLISH)
    assert "solar energy" not in {name.key for name in once.introductions}
    twice = extract("k", "They wrote about solar energy. She likes solar energy.", ENGLISH)
    assert "solar energy" in {name.key for name in twice.introductions}


#: Sentences, and the relations of each that tell something outside it.
TOLD: dict[str, set[Triple]] = {
    "Aro is a town located in Norway.": {("Aro", "town", "is_a"), ("Aro", "Norway", "located_in")},
    "Orla Venn is the director and producer of Bent Water, a low budget drama.": {
        ("Orla Venn", "director", "is_a"),
        ("Orla Venn", "producer", "is_a"),
        ("Orla Venn", "Bent Water", "of"),
    },
    "Edmund, Duke of Aro and Corve, was the brother of Rhoda Tarn.": {("Edmund", "Rhoda Tarn", "of")},
    "Other important towns include Aro and Corve.": {("Aro", "town", "is_a"), ("Corve", "town", "is_a")},
    "Most distributions include JPEG.": set(),
    "Karl Tarn, also Carl Tarn (5 September 1815, Corvemouth), was a conductor.": {("Karl Tarn", "conductor", "is_a")},
    "Henrik Tarn ) was a conductor.": set(),
    "Um Orla Venn is a conductor.": set(),
    "Most tables are rowid tables.": set(),
    "All other SQLite versions are patches.": set(),
    "The band signed to the Committee is a group of the Committee.": set(),
    "It writes styles including jazz and hip-hop.": {("jazz", "style", "is_a")},
    "Orla Venn was the daughter of a Corve baker.": set(),
    "One team is responsible for data acquisition and other teams are responsible for analysis.": set(),
    "Bookmark Bookmarks are pointers.": set(),
}


def test_relations_of_complete_names_that_hold_in_general_are_shown() -> None:
    assert {sentence: set(find_triples(sentence)) for sentence in TOLD} == TOLD


def test_relations_follow_their_document(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store(settings={"language": "en"})
    store.put("a", "Cats are animals.")
    store.put("b", "She keeps animals such as cats and dogs.")

    def list_edges() -> list[tuple[str, ...]]:
        rows = store.execute("SELECT child, parent, tree, kind, document FROM edges ORDER BY child, document")
        return [tuple(row) for row in rows]

    assert list_edges() == [
        ("cat", "animal", "relations", "is_a", "a"),
        ("cat", "animal", "relations", "is_a", "b"),
        ("dog", "animal", "relations", "is_a", "b"),
    ]
    rows = store.execute("EXPAND 'animal' DOWN IN TREE 'relations'").fetchall()
    assert ("dog", "She keeps animals such as cats and dogs.") in [(row[3], row[-1]) for row in rows]
    store.put("b", "Dogs are mammals.")
    assert list_edges() == [
        ("cat", "animal", "relations", "is_a", "a"),
        ("dog", "mammal", "relations", "is_a", "b"),
    ]
    store.delete("a")
    assert list_edges() == [("dog", "mammal", "relations", "is_a", "b")]


def test_a_store_is_not_created_with_a_missing_language(tmp_path: Path) -> None:
    with pytest.raises(LanguageError, match="xx_no_such_pipeline"):
        kvstore.open(tmp_path / "store", embedder="hashing", settings={"language": "xx_no_such_pipeline"})
    assert not (tmp_path / "store").exists()


def test_terms_are_names_of_several_words() -> None:
    pipeline = open_language("en")
    assert pipeline is not None
    (terms,) = pipeline.parse_texts(
        ["The large query planner estimates the cost."],
        lambda _, parses: [term.form for s in iter_sentences(parses[0].doc) for term in NounPhrases(s).find_terms()],
    )
    assert terms == ["query planner"]
