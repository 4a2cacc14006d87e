"""Language pipelines: what is read, in which pieces, and what missing packages and pipelines get."""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kvstore
from kvstore.changes.dump import dump
from kvstore.errors import LanguageError
from kvstore.models import language
from kvstore.models.language import LanguagePipeline, Parse, open_language, split_pieces
from kvstore.models.lean_import import hide_unneeded_modules
from kvstore.models.noun_chunks import iter_noun_chunks

with hide_unneeded_modules():
    import spacy
    from spacy.tokens import Doc

ROOT = Path(__file__).resolve().parent.parent


def make_parsed_document(*words: tuple[str, str, int, str]) -> Doc:
    """Return a document of (word, part of speech, head, relation)."""
    forms, kinds, heads, relations = zip(*words, strict=True)
    return Doc(spacy.vocab.Vocab(), words=forms, pos=kinds, heads=heads, deps=relations)


def list_noun_chunks(doc: Doc) -> list[str]:
    return [doc[start:end].text for start, end, _ in iter_noun_chunks(doc)]


def test_noun_chunks_leave_out_prepositions_conjunctions_and_the_words_around_a_predicate() -> None:
    doc = make_parsed_document(
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
    assert list_noun_chunks(doc) == ["Robert Moore", "the new head", "index pages", "dead tuples"]


def test_an_owner_is_a_phrase_of_its_own() -> None:
    doc = make_parsed_document(
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
    assert list_noun_chunks(doc) == ["She", "the writer", "first book", "her garden"]


def test_noun_chunks_need_a_parse() -> None:
    with pytest.raises(ValueError, match="no parser"):
        list(iter_noun_chunks(spacy.blank("en")("Dogs bark.")))


@given(st.text(alphabet="ab. \n", max_size=400), st.integers(4, 60))
def test_pieces_cover_the_text_in_order_and_keep_to_the_limit(text: str, limit: int) -> None:
    spans = split_pieces(text, limit)
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(end - start <= limit for start, end in spans)
    assert all(before[1] == after[0] for before, after in pairwise(spans))


def test_a_piece_ends_at_a_paragraph_line_sentence_or_word_in_this_order() -> None:
    def get_first_piece(text: str) -> str:
        return text[slice(*split_pieces(text, 20)[0])]

    assert get_first_piece("One two. Three\n\nfour. Five\nsix seven eight") == "One two. Three\n\n"
    assert get_first_piece("One two. Three\nfour. Five six seven eight") == "One two. Three\n"
    assert get_first_piece("One two three. Four five six") == "One two three. "
    assert get_first_piece("One two three four five six") == "One two three four "
    assert get_first_piece("x" * 30) == "x" * 20


def test_rules_ask_for_no_pipeline_and_an_empty_name_is_refused() -> None:
    assert open_language("rules") is None
    with pytest.raises(LanguageError, match="'en', 'rules' or the name of a spaCy pipeline"):
        open_language(" ")


def refuse_to_read(text: str, parses: Sequence[Parse]) -> None:
    raise AssertionError("nothing was to be read")


@pytest.mark.parametrize("name", ["xx_no_such_pipeline", "/no/such/folder"])
def test_the_error_of_a_missing_pipeline_says_how_to_install_it(name: str) -> None:
    pipeline = open_language(name)
    assert pipeline is not None
    with pytest.raises(LanguageError, match=r"spacy download .*or use 'en'"):
        list(pipeline.parse_texts(["text"], refuse_to_read))


@pytest.mark.parametrize(
    ("name", "remedy"), [("en", r"pip install 'kvstore-db\[english\]'"), ("de_core_news_sm", "pip install spacy")]
)
def test_spacy_missing_names_the_package(monkeypatch: pytest.MonkeyPatch, name: str, remedy: str) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "spacy" else find_spec(name))
    with pytest.raises(LanguageError, match=f"needs spacy; {remedy}, or create the store with language = 'rules'"):
        list(LanguagePipeline(name).parse_texts(["text"], refuse_to_read))


def test_a_pipeline_without_a_parser_is_refused(tmp_path: Path) -> None:
    spacy.blank("de").to_disk(tmp_path)
    pipeline = open_language(str(tmp_path))
    assert pipeline is not None
    with pytest.raises(LanguageError, match="has no parser"):
        list(pipeline.parse_texts(["text"], refuse_to_read))


# -- The English pipeline of kvstore-db-english

ENGLISH = ROOT / "tools" / "english" / "kvstore_english" / "pipeline"
TREEBANKS = ROOT.parent / "shared" / "data" / "treebank"


@pytest.fixture(scope="module")
def pipeline() -> LanguagePipeline:
    pipeline = open_language()
    assert pipeline is not None
    return pipeline


def parse_pieces(pipeline: LanguagePipeline, text: str, list_pieces: Callable[[Doc], list[str]]) -> list[str]:
    return next(
        pipeline.parse_texts([text], lambda _, parses: [piece for parse in parses for piece in list_pieces(parse.doc)])
    )


def test_english_finds_noun_phrases(pipeline: LanguagePipeline) -> None:
    text = "A checkpoint writes all dirty pages to disk. Robert Moore's friends live in New York."
    phrases = parse_pieces(pipeline, text, lambda doc: [chunk.text for chunk in doc.noun_chunks])
    assert phrases == ["A checkpoint", "all dirty pages", "disk", "Robert Moore", "friends", "New York"]


def test_english_knows_base_forms(pipeline: LanguagePipeline) -> None:
    text = "The women were writing queries, and she had bought the biggest boxes; it does not matter."
    lemmas = "the woman be write query , and she have buy the big box ; it do not matter .".split()
    assert parse_pieces(pipeline, text, lambda doc: [token.lemma_ for token in doc]) == lemmas


def test_english_ends_sentences_by_the_parse(pipeline: LanguagePipeline) -> None:
    text = "Dr. Smith wrote to the U.S. embassy. Nobody answered him\n\nThe letter was lost in the mail."
    sentences = parse_pieces(pipeline, text, lambda doc: [sentence.text.strip() for sentence in doc.sents])
    assert sentences == [
        "Dr. Smith wrote to the U.S. embassy.",
        "Nobody answered him",
        "The letter was lost in the mail.",
    ]


def test_a_long_text_is_read_in_pieces_with_offsets(pipeline: LanguagePipeline) -> None:
    text = "\n\n".join(f"The index number {number} holds dead tuples." for number in range(1200))
    assert len(text) > language.MAX_PIECE_LENGTH

    def join_pieces(text: str, parses: Sequence[Parse]) -> str:
        assert [parse.start for parse in parses] == [start for start, _ in split_pieces(text)]
        return "".join(parse.doc.text for parse in parses)

    assert list(pipeline.parse_texts([text, "", "Short."], join_pieces)) == [text, "", "Short."]


def test_words_are_cached_until_there_are_many_then_dropped_after_their_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(language, "MAX_BATCH_CHARACTERS", 500)
    monkeypatch.setattr(language, "MAX_CACHED_WORDS", 1000)
    pipeline = LanguagePipeline("en")
    texts = (" ".join(f"word{number}x{place} is here." for place in range(50)) for number in range(40))
    sizes = list(pipeline.parse_texts(texts, lambda _, parses: len(parses[0].doc.vocab.strings)))
    # A text is a batch of its own; each brings 50 new words.
    assert sizes[0] + 50 <= sizes[1] <= sizes[-1] < sizes[0] + 10 * 50


def test_a_parse_is_the_same_whatever_is_parsed_with_it(pipeline: LanguagePipeline) -> None:
    words = "the old engine of a mill that Watt built in Leeds was sold to its owner , and she likes it .".split()
    choose = random.Random(5)
    texts = [" ".join(choose.choices(words, k=choose.randint(1, 60))) for _ in range(150)]

    def list_annotations(_: str, parses: Sequence[Parse]) -> list[object]:
        doc = parses[0].doc
        return [doc.tensor.tobytes(), *((word.tag_, word.pos_, word.dep_, word.head.i) for word in doc)]

    alone = [annotations for text in texts for annotations in pipeline.parse_texts([text], list_annotations)]
    assert list(pipeline.parse_texts(texts, list_annotations)) == alone
    assert list(pipeline.parse_texts(texts[::-1], list_annotations)) == alone[::-1]


@pytest.mark.slow
def test_a_process_of_kvstore_alone_reads_without_torch_and_programs_of_spacy() -> None:
    code = """
import sys
from kvstore import process
from kvstore.models.language import open_language
process.runs_only_kvstore = True
pipeline = open_language()
pipeline.load()
pipeline.load()
assert not any(name.partition(".")[0] in ("torch", "typer", "rich", "requests") for name in sys.modules)
print(next(pipeline.parse_texts(["Dogs bark."], lambda text, parses: [token.lemma_ for token in parses[0].doc])))
import torch
from spacy.cli.info import info
assert callable(info)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("['dog', 'bark', '.']\n", "")


def test_threads_share_a_pipeline(pipeline: LanguagePipeline) -> None:
    texts = [f"The engine number {number} was built by Watt." for number in range(40)]

    def list_lemmas(_: str, parses: Sequence[Parse]) -> list[str]:
        return [token.lemma_ for parse in parses for token in parse.doc]

    alone = list(pipeline.parse_texts(texts, list_lemmas))
    with ThreadPoolExecutor(4) as threads:
        assert all(
            lemmas == alone
            for lemmas in threads.map(lambda _: list(pipeline.parse_texts(texts, list_lemmas)), range(8))
        )


@pytest.mark.slow
def test_english_needs_no_network_and_no_spacy_before_it_reads() -> None:
    code = """
import socket, sys
def refuse(*arguments, **options):
    raise AssertionError("the network was asked")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
from kvstore.models.language import open_language
pipeline = open_language()
assert "spacy" not in sys.modules
print(next(pipeline.parse_texts(["Dogs bark."], lambda text, parses: [token.lemma_ for token in parses[0].doc])))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("['dog', 'bark', '.']\n", "")


def test_english_names_its_authors() -> None:
    text = (ROOT / "tools" / "english" / "LICENSE.md").read_text(encoding="utf-8")
    for name in ("CC BY-SA 4.0", "GUM", "English Web Treebank", "Wikipedia", "Wikivoyage", "Wikinews", "MiniLM"):
        assert name in text


# -- Stores where kvstore-db-english is not installed


@pytest.fixture
def without_english(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hide kvstore-db-english."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "kvstore_english" else find_spec(name)
    )
    language.open_language.cache_clear()
    language.get_language_version.cache_clear()
    yield
    language.open_language.cache_clear()
    language.get_language_version.cache_clear()


PROSE = "James Watt repaired the engine. The engine was built by Newcomen, and it was in the mill."


@pytest.mark.usefixtures("without_english")
def test_without_english_a_new_store_uses_rules_and_says_how_to_install_it(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "watt.md").write_text(PROSE)
    with pytest.warns(
        UserWarning, match=r"names in the new store only by rules.*pip install 'kvstore-db\[english\]'"
    ) as warned:
        store = kvstore.open(tmp_path / "store", embedder="hashing")
    assert [warning.filename for warning in warned] == [__file__]
    with store:
        assert store.ingest(tmp_path / "notes").remarks == []
        assert store.settings.language == "rules" and store.lookup("James Watt")
        assert store.check() == []
        with store.state() as state:
            content = dump(state)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kvstore.open(tmp_path / "store").close()
        with kvstore.open(tmp_path / "rules", embedder="hashing", settings={"language": "rules"}) as store:
            store.ingest(tmp_path / "notes")
            with store.state() as state:
                assert dump(state) == content


@pytest.mark.usefixtures("without_english")
def test_without_english_its_language_is_refused_before_a_store_is_created(tmp_path: Path) -> None:
    with pytest.raises(LanguageError, match=r"'en' needs kvstore_english; pip install 'kvstore-db\[english\]'"):
        kvstore.open(tmp_path / "store", embedder="hashing", settings={"language": "en"})
    assert not (tmp_path / "store").exists()


def test_without_english_a_store_of_it_answers_and_refuses_new_prose(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with kvstore.open(tmp_path / "store", embedder="hashing") as store:
        assert store.settings.language == "en"
        store.put("watt", PROSE)
        answer = store.ask("Who built the engine?")
    request.getfixturevalue("without_english")
    with kvstore.open(tmp_path / "store") as store:
        assert str(store.ask("Who built the engine?")) == str(answer)
        assert store.check() == []
        with pytest.raises(LanguageError, match=r"pip install 'kvstore-db\[english\]'"):
            store.put("boulton", "Matthew Boulton sold the engine.")
        assert store.keys() == ["watt"]
        assert store.delete("watt")


@pytest.mark.slow
@pytest.mark.skipif(not TREEBANKS.is_dir(), reason=f"there are no treebanks in {TREEBANKS}")
def test_english_is_as_accurate_as_was_promised() -> None:
    tool = ROOT / "tools" / "train_language.py"
    command = [sys.executable, tool, "--treebanks", TREEBANKS, "--evaluate", ENGLISH, "--json"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    figures = json.loads(run.stdout)
    assert figures["gum"]["upos"] >= 0.955
    assert figures["gum"]["las"] >= 0.805
    assert figures["ewt"]["upos"] >= 0.94
    assert figures["ewt"]["las"] >= 0.80
