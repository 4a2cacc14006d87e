"""Names that a store takes in, as its users meet them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kvstore
from kvstore.extraction.document_names import find_occurring_keys
from kvstore.extraction.extraction import extract
from kvstore.settings import FixedSettings
from kvstore.text.names import SentenceNames
from kvstore.text.normalize import to_entity_key

GERMAN = """# Die Geschichte der Rechenmaschine

Der Bau der Maschine ist nicht einfach. Die Idee hatte ein Lehrer, und er wurde mit der Zeit berühmt.

## Einleitung

Das Werk ist für die Leser, die es mit `kvstore` lesen. Wir haben es auf den Tisch gelegt.
"""


def list_names(store: kvstore.Store) -> dict[str, str]:
    return {row[0]: row[1] for row in store.execute("SELECT name, kind FROM entities").fetchall()}


@pytest.mark.parametrize("language", ["en", "rules"])
def test_a_name_inside_a_longer_one_is_looked_up(make_store: Callable[..., kvstore.Store], language: str) -> None:
    store = make_store(settings={"language": language})
    store.put("ada", "She wrote about the Analytical Engine of Charles Babbage.")
    assert [row.document for row in store.lookup("Charles Babbage")] == ["ada"]
    assert [row.document for row in store.lookup("Analytical Engine")] == ["ada"]


@pytest.mark.parametrize("language", ["en", "rules"])
def test_a_text_in_another_language_has_no_names_but_titles_and_code(
    make_store: Callable[..., kvstore.Store], language: str
) -> None:
    store = make_store(settings={"language": language})
    store.put("de", GERMAN, format="markdown", title="Rechenmaschine")
    assert list_names(store) == {
        "Rechenmaschine": "title",
        "Die Geschichte der Rechenmaschine": "heading",
        "kvstore": "code",
    }


@pytest.mark.parametrize("language", ["en", "rules"])
def test_common_words_are_not_names(make_store: Callable[..., kvstore.Store], language: str) -> None:
    store = make_store(settings={"language": language})
    text = (
        "## Done\n\nSee initdb(1) for more. Disk space is what a server needs.\n\n## Introduction\n\n"
        "Some words.\n\n```\nPlain *pDb, /* Looks like this */\n```\n\n| Column | Type |\n|---|---|\n| Ada | it |\n"
    )
    store.put("a", text, format="markdown")
    assert not list_names(store).keys() & {
        "Done",
        "Introduction",
        "initdb(1",
        "pDb, /",
        "Column",
        "Plain",
        "space",
        "server",
    }


def test_a_singular_that_never_occurs_is_not_a_name(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store(settings={"language": "rules"})
    store.put("a", "# Foreign Keys\n\nForeign keys point to others.", format="markdown")
    assert "Foreign Key" not in list_names(store)
    store.put("a", "# Foreign Keys\n\nA foreign key points to another.", format="markdown")
    assert "Foreign Key" in list_names(store)


def test_terms_are_names_as_they_are_written_too(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store(settings={"language": "en"})
    store.put("a", "It knows access methods. Every access method of SQL/MED is read over TCP/IP.")
    names = list_names(store)
    assert {"access methods", "access method", "SQL/MED", "TCP/IP"} <= names.keys()
    store.put("b", "- dirty read: A transaction reads what another has not committed yet.", format="markdown")
    assert "dirty read" in list_names(store)


MAIL = """From: Juno Ferreira <juno@ferreira.example>
To: "Lindqvist, Petra" <petra@alder.example>, Tomasz Wilk
Date: Tue, 17 Mar 2026 09:12:00 +0100
Subject: Re: Kiln schedule for spring

The gas kiln is out of service. The kiln is old.
"""


@pytest.mark.parametrize("language", ["en", "rules"])
def test_a_mail_names_persons_and_a_subject(make_store: Callable[..., kvstore.Store], language: str) -> None:
    store = make_store(settings={"language": language})
    store.put("mail", MAIL)
    names = list_names(store)
    persons = {"Juno Ferreira", "Lindqvist, Petra", "Tomasz Wilk"}
    assert names.keys() == persons | {"Kiln schedule for spring"} | ({"gas kiln"} if language == "en" else set())
    assert [row.document for row in store.lookup("juno ferreira")] == ["mail"]


def test_a_term_is_a_name_if_it_is_used_again(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store(settings={"language": "en"})
    store.put("once", "The support staff opened the elevator shaft. A patch author needs the log of the day.")
    assert not list_names(store)
    store.put("once", "The lock file is read. Each lock file is new. It prints the error, and the client prints it.")
    assert list_names(store).keys() == {"lock file"}
    wraps = "A wraparound is late. The wraparound was long. They saw the wraparound. Each wraparound is good."
    store.put("once", wraps)
    assert list_names(store).keys() == {"wraparound"}


@pytest.mark.parametrize("word", ["done", "look", "first"])
def test_an_everyday_word_in_code_is_a_name_if_it_is_explained_alone(
    make_store: Callable[..., kvstore.Store], word: str
) -> None:
    store = make_store(settings={"language": "rules"})
    store.put("a", f"They say `{word}` and call `{word}er_x` then.", format="markdown")
    assert word not in list_names(store)
    store.put("a", f"- `{word}`: what it means.", format="markdown")
    assert word in list_names(store)


def test_a_title_with_marks_of_emphasis_is_found(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store(settings={"language": "rules"})
    store.put("a", "Some words.", title="The *Golden* Ass (novel)")
    assert [row.document for row in store.lookup("The Golden Ass")] == ["a"]
    assert store.execute("CHECK").fetchall() == []


PIECES = st.sampled_from(
    ["# Foreign Keys", "## *The* Rest", "Ada's *long list*", "of Charles", "Babbage", "-- ", "A `b_c` of the D",
     "Disk spaces are long. The disk\nspace", "İstanbul'da", "ﬁle Systems", "- Animals\n  - Cats",
     "| A B | c |\n|--|--|",
     "\n\n", ". ", "e\u0301Ab Cd", "Cats are animals.", "x(1) y(2", "St. Mary's Church", "日本語 Name"]
)  # fmt: skip


@given(st.lists(PIECES, min_size=1, max_size=12).map(" ".join), st.sampled_from(["en", "rules"]))
def test_every_name_of_a_document_occurs_in_it_or_in_a_tree(text: str, language: str) -> None:
    settings = FixedSettings(embedder="hashing:16", dimension=16, chunk_tokens=20, language=language)
    extraction = extract("k", f"Words. {text}", settings, format="markdown", title="Old *Title*")
    related = {to_entity_key(form) for relation in extraction.relations for form in (relation.child, relation.parent)}
    keys = {name.key for name in extraction.introductions}
    texts = [
        "Old Title",
        *(section.title for section in extraction.sections),
        *(chunk.text for chunk in extraction.chunks),
    ]
    assert related <= keys
    assert keys - related == find_occurring_keys(texts, keys - related, settings.name_words)


def test_check_verifies_that_every_name_occurs(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store(settings={"language": "rules"})
    store.put("a", "They met Ada Lovelace.")
    store.execute("ALIAS 'Countess' FOR 'Ada Lovelace'")
    assert store.execute("CHECK").fetchall() == []


def test_a_reference_to_a_part_of_a_text_is_cut_off_with_its_connecting_word() -> None:
    assert [name.form for name in SentenceNames(["Ann saw the Vasa Museum of Section 34."]).iter_names(0)] == [
        "Vasa Museum"
    ]


@pytest.mark.parametrize("added", [[], ["blue gate 7"]])
@pytest.mark.parametrize("title", [None, "Doors", "*Doors*", "the old gate 7"])
def test_mentions_inside_a_removed_name_are_counted_again(
    store: kvstore.Store, title: str | None, added: list[str]
) -> None:
    for child in ("old gate 7", "gate 7"):
        store.put_edge(child, "harbor")
    store.put("a", "we saw the old gate 7 and the blue gate 7 there.", title=title)
    assert {hit.document for hit in store.lookup("old gate 7") if hit.document} == {"a"}
    with store.transaction() as transaction:
        transaction.delete_edge("old gate 7", "harbor")
        for child in added:
            transaction.put_edge(child, "harbor")
    assert {hit.document for hit in store.lookup("gate 7") if hit.document} == {"a"}
    assert store.check() == []


@pytest.mark.parametrize("titles", [["L", "Letters"], ["Letters", "L"]])
def test_a_name_that_is_part_of_a_character_is_found(
    make_store: Callable[..., kvstore.Store], titles: list[str]
) -> None:
    store = make_store()
    for key, title in enumerate(titles):
        store.put(str(key), "Ŀ is an L with a dot.", title=title)
    assert {hit.document for hit in store.lookup("L")} == {"0", "1"}
