"""Language pipelines: what is read, in which pieces, and what missing packages and pipelines get."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstore.errors import LanguageError
from kvstore.models import language
from kvstore.models.language import Parse, open_language, pieces
from kvstore.models.noun_chunks import noun_chunks

spacy = pytest.importorskip("spacy")


def parsed(*words: tuple[str, str, int, str]) -> spacy.tokens.Doc:
    """A document of (word, part of speech, head, relation)."""
    forms, kinds, heads, relations = zip(*words, strict=True)
    return spacy.tokens.Doc(spacy.vocab.Vocab(), words=forms, pos=kinds, heads=heads, deps=relations)


def chunks(doc: spacy.tokens.Doc) -> list[str]:
    return [doc[start:end].text for start, end, _ in noun_chunks(doc)]


def test_noun_chunks_leave_out_prepositions_conjunctions_and_the_words_around_a_predicate() -> None:
    doc = parsed(
        ("Robert", "PROPN", 5, "nsubj"),
        ("Moore", "PROPN", 0, "flat"),
        ("is", "AUX", 5, "cop"),
        ("the", "DET", 5, "det"),
        ("new", "ADJ", 5, "amod"),
        ("head", "NOUN", 5, "ROOT"),
        ("of", "ADP", 8, "case"),
        ("index", "NOUN", 8, "compound"),
        ("pages", "NOUN", 5, "nmod"),
        ("and", "CCONJ", 11, "cc"),
        ("dead", "ADJ", 11, "amod"),
        ("tuples", "NOUN", 8, "conj"),
    )
    assert chunks(doc) == ["Robert Moore", "the new head", "index pages", "dead tuples"]


def test_an_owner_is_a_phrase_of_its_own() -> None:
    doc = parsed(
        ("She", "PRON", 1, "nsubj"),
        ("read", "VERB", 1, "ROOT"),
        ("the", "DET", 3, "det"),
        ("writer", "NOUN", 6, "nmod:poss"),
        ("'s", "PART", 3, "case"),
        ("first", "ADJ", 6, "amod"),
        ("book", "NOUN", 1, "obj"),
        ("in", "ADP", 9, "case"),
        ("her", "PRON", 9, "nmod:poss"),
        ("garden", "NOUN", 1, "obl"),
    )
    assert chunks(doc) == ["She", "the writer", "first book", "her garden"]


def test_noun_chunks_need_a_parse() -> None:
    with pytest.raises(ValueError, match="no parser"):
        list(noun_chunks(spacy.blank("en")("Dogs bark.")))


@given(st.text(alphabet="ab. \n", max_size=400), st.integers(4, 60))
def test_pieces_cover_the_text_in_order_and_keep_to_the_limit(text: str, limit: int) -> None:
    spans = pieces(text, limit)
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(end - start <= limit for start, end in spans)
    assert all(before[1] == after[0] for before, after in pairwise(spans))


def test_a_piece_ends_where_a_paragraph_does_else_a_line_a_sentence_a_word() -> None:
    def first(text: str) -> str:
        return text[slice(*pieces(text, 20)[0])]

    assert first("One two. Three\n\nfour. Five\nsix seven eight") == "One two. Three\n\n"
    assert first("One two. Three\nfour. Five six seven eight") == "One two. Three\n"
    assert first("One two three. Four five six") == "One two three. "
    assert first("One two three four five six") == "One two three four "
    assert first("x" * 30) == "x" * 20


def test_rules_ask_for_no_pipeline_and_an_empty_name_is_refused() -> None:
    assert open_language("rules") is None
    with pytest.raises(LanguageError, match="'en', 'rules' or the name of a spaCy pipeline"):
        open_language(" ")


def read_nothing(text: str, parses: Sequence[Parse]) -> None:
    raise AssertionError("nothing was to be read")


@pytest.mark.parametrize("name", ["xx_no_such_pipeline", "/no/such/folder"])
def test_a_pipeline_that_is_not_installed_says_how_to_get_it(name: str) -> None:
    pipeline = open_language(name)
    assert pipeline is not None
    with pytest.raises(LanguageError, match=r"spacy download .*or use 'en'"):
        list(pipeline.read(["text"], read_nothing))


def test_spacy_missing_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    pipeline = open_language(language.ENGLISH)
    assert pipeline is not None
    with pytest.raises(LanguageError, match="pip install spacy, or make the store with language = 'rules'"):
        list(pipeline.read(["text"], read_nothing))


def test_a_pipeline_without_a_parser_is_refused(tmp_path: Path) -> None:
    spacy.blank("de").to_disk(tmp_path)
    pipeline = open_language(str(tmp_path))
    assert pipeline is not None
    with pytest.raises(LanguageError, match="has no parser"):
        list(pipeline.read(["text"], read_nothing))
