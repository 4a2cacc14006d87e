"""British and American spelling, and typing errors: a question finds what is written in another way."""

from __future__ import annotations

from typing import Any

import kvstore
from kvstore.retrieval.respelling import respell_question

#: What is stored, what is asked, and how it is sought.
SPELLINGS = [
    ("An organization is run.", "Who runs the organisation?", "Who runs the organization?"),
    ("They were organised.", "how is it organized", "how is it organised"),
    ("What colors there are.", "Which colour is it?", "Which color is it?"),
    ("The centre of behaviour.", "center, behavioral", "centre, behavioural"),
    ("A catalog of licenses.", "the catalogue of licences", "the catalog of licenses"),
    ("Anemia and aluminum programs", "anaemia aluminium programmes", "anemia aluminum programs"),
    # What some document has stays, and so do names and words that are no spelling of each other.
    ("A color and a colour.", "the colour", "the colour"),
    ("An organization.", "What is Organisation?", "What is Organisation?"),
    ("She is for it, and files it.", "shoe, four, filling", "shoe, four, filling"),
    # Typing errors: letters in the wrong order, a wrong, a missing and an additional letter; in rare words too.
    ("Our location.", "Which locatoin, whixh mornign, whose summmer?", "Which location, whixh morning, whose summer?"),
    ("The haemolysis and the houses", "haemolisis, haemoolysis, hooses", "haemolysis, haemolysis, houses"),
    # Words of English stay, and so do names, other forms of words, identifiers and what some document has.
    ("A route, a horse, a bcak", "house, router, bcak, Hosre", "house, router, bcak, Hosre"),
    ("A route of the owner", "--no-onwer routee.txt rotue@lan", "--no-onwer routee.txt rotue@lan"),
]


def test_a_word_is_sought_as_the_documents_spell_it(make_store: Any) -> None:
    store: kvstore.Store = make_store(embedder="hashing:16", settings={"language": "rules"})
    for stored, question, sought in SPELLINGS:
        store.put("a", stored)
        with store.state() as state:
            assert respell_question(question, state)[0] == sought


#: The same in a store of German words.
COMPOUNDS = [
    ("Die Abrechnung ist im März fällig.", "Wo ist die Reisekostenabrechnung?", "Wo ist die Reisekosten-Abrechnung?"),
    ("Der Ausweis der Bücherei ist neu.", "Was kostet ein Büchereiausweis?", "Was kostet ein Bücherei-Ausweis?"),
    ("Die Kündigungsfrist ist lang.", "Was ist die Frist der Kündigung?", "Was ist die Kündigungsfrist der Kündigung?"),
    ("Die Satzung braucht eine Änderung.", "Wer will eine Satzungsänderung?", "Wer will eine Satzungs-Änderung?"),
    # Known words stay, and so do words without a known last part, names and parts of words.
    ("Der Büchereiausweis ist ein Ausweis.", "Was kostet ein Büchereiausweis?", "Was kostet ein Büchereiausweis?"),
    ("Die Bücherei ist neu.", "Was kostet ein Büchereiausweis?", "Was kostet ein Büchereiausweis?"),
    ("Die Ordnung und die Rung.", "Wo ist die Versicherung der Hausordnung-Nord?", None),
]


def test_german_compounds_are_divided_and_composed(make_store: Any) -> None:
    store: kvstore.Store = make_store(embedder="hashing:16", settings={"language": "rules", "stemmer": "german"})
    for stored, question, sought in COMPOUNDS:
        store.put("a", stored)
        with store.state() as state:
            assert respell_question(question, state)[0] == (sought or question)
    store.put("a", "Die Kündigungsfrist beträgt drei Monate.")
    store.put("b", "Die Miete beträgt dreihundert Euro.")
    assert store.search("Welche Frist hat die Kündigung?", using="lexical")[0].document == "a"
    steps = {row[0]: row[1] for row in store.execute("EXPLAIN SEARCH 'Welche Frist hat die Kündigung?'")}
    assert steps["respell question"] == "no document has Frist → Kündigungsfrist"


def test_every_strategy_finds_the_other_spelling_and_explain_reports_it(make_store: Any) -> None:
    store: kvstore.Store = make_store(embedder="hashing:16", settings={"language": "rules"})
    store.put("a", "The team is colored red.")
    store.put("b", "Nothing of this.")
    evidence = store.retrieve("Which coloured team?", using="lexical")
    assert [hit.document for hit in evidence.hits] == ["a"]
    assert evidence.hits[0].score == store.retrieve("Which colored team?", using="lexical").hits[0].score
    assert evidence.question == "Which coloured team?"
    steps = {row[0]: row[1] for row in store.execute("EXPLAIN SEARCH 'which coloured team'")}
    assert steps["respell question"] == "no document has coloured → colored"
    store.put("c", "A coloured pencil.")
    assert "respell question" not in {row[0] for row in store.execute("EXPLAIN SEARCH 'which coloured team'")}
