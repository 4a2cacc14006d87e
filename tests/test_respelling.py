"""British and American spelling, typing errors and dates: a question finds what is written in another way."""

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
    ("The water is off.", "When is the watr off?", "When is the water off?"),
    # The first word is the question word that was meant.
    ("The house has a gate.", "Wich house has a gate?", "Which house has a gate?"),
    ("The house has a gate.", "wher is the gate?", "where is the gate?"),
    ("Dose: 5 ml. Wich is a town.", "Dose of the drug in wich", "Dose of the drug in wich"),
    ("A wich is a salt town.", "wich is a town", "wich is a town"),
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


#: The same for terms that the documents write in another form (None: the question stays).
FORMS = [
    # Acronyms, in capitals or in lower case.
    ("Recovery time objective of orders: 4 hours", "the RTO of orders?", "the recovery time objective of orders?"),
    ("Paid time off in days: 25", "how much pto is there in days", "how much paid time off is there in days"),
    ("The driver has an estimated time of arrival.", "ETA of the driver", "estimated time of arrival of the driver"),
    ("The terms of service of the port", "Who wrote the port's TOS?", "Who wrote the port's terms of service?"),
    ("Nobody asked the order to rest.", "What is the RTO of the order?", None),
    ("Recovery time objective of an order", "Who is the NATO of an order?", None),
    # Versions and numbers.
    ("Version 2 of the API ends; version 3.1 stays.", "When end v2 and V3.1?", "When end version 2 and version 3.1?"),
    ("The API v4 is new.", "Is version 4 new?", "Is v4 new?"),
    ("Version 2.5 is out, with 3 keys.", "When is v2 out? version 3? v2.5.1?", None),
    ("There are 20 chairs and 12 tables.", "twenty chairs, twelve tables", "20 chairs, 12 tables"),
    ("An 8-year-old came with 35 guests.", "eight-year-old, thirty-five guests", "8-year-old, 35 guests"),
    ("Thirty-five guests and two keys", "35 guests, 2 keys, 35% on 2/3", "thirty-five guests, two keys, 35% on 2/3"),
    ("At 20:30 a ton of 1.8 t", "twenty tons, eight tons, a two", None),
    # Nouns of phrasal verbs, and words that are written together or apart.
    ("They lock us out, and roll it back.", "the lockout? a rollback?", "the lock out? a roll back?"),
    ("Hand the pager over. Signing guests in takes long.", "the handover at signin", "the hand over at sign in"),
    ("Hand the pager over. Signs: in a cab I wait in.", "handover, a cabin by Signin", "hand over, a cabin by Signin"),
    ("Nobody rolls. Back there is a roll.", "How long is a rollback?", None),
    ("There is a lockout of the bank.", "are we locked out of the bank", "are we lockout of the bank"),
    ("A time zone, a post-mortem", "Which timezone has postmortems?", "Which time zone has post mortems?"),
    ("A timezone, a greenhouse", "Which time zone has green houses?", "Which timezone has greenhouses?"),
    ("A zone for a time. The form is in it. It is removed.", "timezone, inform, remove reds", None),
    # Clipped words, and contractions without an apostrophe.
    ("# The pantomime\n\nA pantomime\n\n# Its end\n\nThe pantomime ends.", "the end of panto", "the end of pantomime"),
    ("# A pantomime\n\nHere.\n\n# A pantograph\n\nIt draws.", "when is the panto", None),
    ("Who is it?", "whos it? dont we know whats up", "who's it? don't we know what's up"),
]  # fmt: skip


def test_a_term_is_sought_in_the_form_of_the_documents(make_store: Any) -> None:
    store: kvstore.Store = make_store(embedder="hashing:16", settings={"language": "rules"})
    for stored, question, sought in FORMS:
        store.put("a", stored, format="markdown")
        store.put("b", stored, format="markdown")
        with store.state() as state:
            assert respell_question(question, state)[0] == (sought or question)
    store.put("a", "The recovery time objective of the archive is 4 hours.")
    store.put("b", "The archive opens at 9.", meta={"team": "office"})
    steps = {row[0]: row[1] for row in store.execute("EXPLAIN ASK 'What is the RTO of the archive?'")}
    assert steps["respell question"] == "as in the documents: RTO → recovery time objective"
    answer = store.ask("What is the RTO of the archive?")
    assert "4 hours" in answer.text and not answer.abstained
    # Documents that the condition excludes support no form, and a name that no document has stays unknown.
    assert "No document mentions RTO." in store.ask("What is the RTO of the archive?", where={"team": "office"}).text
    assert "No document mentions NATO." in store.ask("What is the NATO of the archive?").text


#: The same in a store of German words.
COMPOUNDS = [
    ("Die Abrechnung ist im März fällig.", "Wo ist die Reisekostenabrechnung?", "Wo ist die Reisekosten-Abrechnung?"),
    ("Der Ausweis der Bücherei ist neu.", "Was kostet ein Büchereiausweis?", "Was kostet ein Bücherei-Ausweis?"),
    ("Die Kündigungsfrist ist lang.", "Was ist die Frist der Kündigung?", "Was ist die Kündigungsfrist der Kündigung?"),
    ("Die Satzung braucht eine Änderung.", "Wer will eine Satzungsänderung?", "Wer will eine Satzungs-Änderung?"),
    ("Beitrittserklärung: Wir erklären es.", "Was kostet der Beitritt?", "Was kostet der beitrittserklar?"),
    ("Der Schriftsteller hat eine Stelle.", "Was kostet die Schrift?", None),
    ("Die Beitrittserklärung ist neu.", "Was kostet der Beitritt?", None),
    # Known words stay, and so do words without a known last part, names and parts of words.
    ("Der Büchereiausweis ist ein Ausweis.", "Was kostet ein Büchereiausweis?", "Was kostet ein Büchereiausweis?"),
    ("Die Seite zeigt den Start.", "Was zeigt die Startseite?", "Was zeigt die Start-Seite?"),
    ("Die Bücherei ist neu.", "Was kostet ein Büchereiausweis?", "Was kostet ein Büchereiausweis?"),
    ("Das ist derzeit für Mitglieder.", "Wo ist die Mitgliederzeitung?", None),
    ("Die Ordnung und die Rung.", "Wo ist die Versicherung der Hausordnung-Nord?", None),
    ("Das ist der Plan der Isterin.", "Wann kommt die Bürgermeisterin?", None),
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
    assert steps["respell question"] == "as in the documents: Frist → Kündigungsfrist"


def test_german_compounds_are_known_by_documents_in_other_languages(make_store: Any) -> None:
    store: kvstore.Store = make_store(embedder="hashing:16", settings={"stemmer": "multilingual"})
    store.put("a", "Die Lade steht in der Station.", meta={"lang": "de"})
    store.put("b", "Price list: Ladestation Duo CHF 98.00, Händlerschulungen 15.00", meta={"lang": "en"})
    store.put("c", "Was este din sat.", meta={"lang": "ro"})
    for question, sought in (
        ("Was kostet die Ladestation?", None),
        ("Wer hält die Schulungen der Händler?", "Wer hält die Händlerschulungen der Händler?"),
        ("Was kostet das Auto?", None),
    ):
        with store.state() as state:
            assert respell_question(question, state)[0] == (sought or question)
    assert "Ladestation Duo CHF 98.00" in store.ask("Was kostet die Ladestation Duo?").text.partition("\n")[0]


#: The same in stores of other languages: another form of a word, a compound, and a typing error.
FOREIGN_WORDS = [
    ("portuguese", "A inscrição custa 5 euros.", "Quanto custam as inscrições?", "Quanto custam as inscricao?"),
    ("portuguese", "O estacionamento é novo.", "onde fica o estacionamneto", "onde fica o estacionamento"),
    ("swedish", "Rektorn heter Ek.", "Vem är rektor?", "Vem är rektorn?"),
    ("swedish", "Anmäl den som är sjuk.", "Hur ska jag sjukanmäla mig?", "Hur ska jag sjuk-anmala mig?"),
    ("swedish", "Kajakhyra.", "Vad kostar det att hyra kajak?", "Vad kostar det att kajakhyra kajak?"),
    ("danish", "Priser på cykelleje.", "Hvad koster leje af en cykel?", "Hvad koster cykelleje af en cykel?"),
    ("danish", "Priser på leje.", "Hvad koster leje af en cykel?", None),
    ("dutch", "De opening en de tijden.", "Wat zijn de openingstijden?", "Wat zijn de openings-tijden?"),
    ("russian", "Это главный бухгалтер.", "Кто главный бугхалтер?", "Кто главный бухгалтер?"),
    ("russian", "Это кровать.", "сколько стоит кравать", "сколько стоит кровать"),
    ("german", "Der Jahresbeitrag ist hoch.", "was kostet der jahresbeitarg", "was kostet der jahresbeitrag"),
    # German nouns and participles.
    ("german", "Die Heizungswartung ist im Juni.", "Wann ist Heizungswartng?", "Wann ist Heizungswartung?"),
    ("german", "Die Genossen gründeten den Verein.", "wann gegründet", "wann grundet"),
    ("german", "Der Verein wurde von drei Genossen gegründet.", "wer gründete ihn", "wer gegrundet ihn"),
    ("german", "Die Anrechnung, die wir fordern, fördert.", "Wo ist die Abrechnung der Förderung?", None),
    ("german", "Das Gesetz und das Gericht", "setzen, gestern, richten, richtet", None),
    # Known words stay, and so do capitalized words, short words and words of documents with other last letters.
    ("spanish", "Se puede pasar.", "¿Hay que pagar?", None),
    ("spanish", "La estación cierra.", "¿Dónde está la Estacoin?", None),
    ("italian", "La prenotazione.", "il prenotazionx", None),
    ("none", "The location.", "which locatoin", None),
]


def test_unknown_words_of_other_languages_are_replaced_by_similar_ones(make_store: Any) -> None:
    for number, (stemmer, stored, question, sought) in enumerate(FOREIGN_WORDS):
        store: kvstore.Store = make_store(f"s{number}", embedder="hashing:16", settings={"stemmer": stemmer})
        store.put("a", stored)
        with store.state() as state:
            assert respell_question(question, state)[0] == (sought or question)


def test_a_german_question_in_other_words_than_the_documents_is_answered(make_store: Any) -> None:
    store: kvstore.Store = make_store(settings={"stemmer": "german"})
    store.put("verein", "# Der Verein\n\nAm 17. Juni 1926 gründeten 28 Postbeamte den Verein.", format="markdown")
    store.put("technik", "# Technik\n\nDie Heizungswartung im Ahornweg ist am 18. Juli 2026.", format="markdown")
    store.put("miete", "# Miete\n\nDie Erklärung zur Miete ist im Voraus fällig.", format="markdown")
    store.put(
        "satzung",
        "# Satzung\n\nNötig ist eine Beitrittserklärung. Bei der Aufnahme ist ein Geld von 75 € zu zahlen.",
        format="markdown",
    )
    for question, fact in (
        ("Wann wurde der Verein gegründet?", "17. Juni 1926"),
        ("Wann ist die Heizungswartng im Ahornweg?", "18. Juli 2026"),
        ("Wie viel muss man beim Beitritt zahlen?", "75 €"),
    ):
        answer = store.ask(question)
        assert fact in answer.text.split("\n\n")[0] and not answer.abstained, question


def test_every_strategy_finds_the_other_spelling_and_explain_reports_it(make_store: Any) -> None:
    store: kvstore.Store = make_store(embedder="hashing:16", settings={"language": "rules"})
    store.put("a", "The team is colored red.")
    store.put("b", "Nothing of this.")
    evidence = store.retrieve("Which coloured team?", using="lexical")
    assert [hit.document for hit in evidence.hits] == ["a"]
    assert evidence.hits[0].score == store.retrieve("Which colored team?", using="lexical").hits[0].score
    assert evidence.question == "Which coloured team?"
    steps = {row[0]: row[1] for row in store.execute("EXPLAIN SEARCH 'which coloured team'")}
    assert steps["respell question"] == "as in the documents: coloured → colored"
    store.put("d", "The water is off.")
    assert [hit.document for hit in store.search("watr", using="lexical")] == ["d"]
    store.put("c", "A coloured pencil.")
    assert "respell question" not in {row[0] for row in store.execute("EXPLAIN SEARCH 'which coloured team'")}


#: Documents, a question, and the question that is searched instead (None: the same).
DATES = [
    ("2026-03-14: The crane is repaired.", "Who came on 14 March 2026?", "Who came on 2026-03-14?"),
    ("2026-03-14: The crane is repaired.", "On March 14th, 2026 or March 15?", "On 2026-03-14 or March 15?"),
    ("2025-03-14 and 2026-03-14", "Who came on Mar. 14?", "Who came on 2026-03-14?"),
    ("Closed on 03/14/2026 and 3/15/26.", "on 14 March 2026, 2026-03-15", "on 03/14/2026, 3/15/26"),
    ("On the 1st of April 2026 we met.", "Who met on 04/01/2026?", "Who met on 1st of April 2026?"),
    ("# Minutes, April 1, 2026\n\nWe met.", "Who met on 2026-04-01?", "Who met on April 1, 2026?"),
    ("2026-05-03 and 3 May 2026", "on 3 May 2026?", None),
    ("Rota: late on Thu 19 Mar", "Who is late on 3/19/2026?", "Who is late on 19 Mar 2026?"),
    ("Am 03.10.2026 ist geschlossen.", "Wann ist am 3. Oktober 2026 offen?", "Wann ist am 03.10.2026 offen?"),
    ("Le 1er mars 2026, le port est fermé.", "Quand le port est-il fermé, le 01/03/2026 ?", "1er mars 2026"),
    ("El 14/08/2026 la oficina cierra.", "¿Qué pasa en la oficina el 14 de agosto de 2026?", "14/08/2026"),
    ("С 3 марта 2026 года офис закрыт.", "Когда закрыт офис, 2026-03-03?", "3 марта 2026"),
    ("2026年3月14日休業", "2026-03-14はどうですか", "2026年3月14日"),
    # Nothing changes: the parts of other dates, another year, dates that do not exist, and numbers that are no dates.
    ("2026-03-02 and 2025-05-14 and 2026-05-01", "on 14 March 2026? on 2 May?", None),
    ("2026-03-14", "on 14 March 2025? 31 February 2026? 2026-13-14? version 3.14.2026.1, 14 marches", None),
    ("2026-03-14", "14 March 2026 was it?", "2026-03-14 was it?"),
]


def test_a_date_is_searched_in_the_form_of_the_documents(make_store: Any) -> None:
    store: kvstore.Store = make_store(embedder="hashing:16", settings={"language": "rules"})
    for stored, question, expected in DATES:
        store.put("a", stored, format="markdown")
        with store.state() as state:
            respelled = respell_question(question, state)[0]
        assert respelled == question if expected is None else expected in respelled, respelled
    store.put("a", "2026-03-14: The crane is repaired.")
    store.put("b", "14 March 2026: The office is closed.", meta={"team": "office"})
    store.put("c", "Nothing of this.")
    with store.state() as state:
        assert respell_question("Who repaired the crane on March 14?", state)[0].endswith("2026-03-14?")
        assert respell_question("Is the office closed on March 14?", state)[0].endswith("14 March 2026?")
    answer = store.ask("What happened on March 14, 2026?", where={"team": "office"})
    assert "crane" not in answer.text
    with store.state() as state:
        step = next(row for row in store.execute("EXPLAIN SEARCH 'March 14' WHERE key = 'b'") if "respell" in row[0])
    assert step[1] == "as in the documents: March 14 → 14 March 2026"


def test_pasted_lines_are_not_respelled(make_store: Any) -> None:
    store: kvstore.Store = make_store(embedder="hashing:16", settings={"language": "rules"})
    store.put("a", "Our location on 2026-03-14.")
    with store.state() as state:
        assert respell_question("Which locatoin?" + " 12 March 2031" * 90, state) == (
            "Which locatoin?" + " 12 March 2031" * 90, []
        )  # fmt: skip
        assert respell_question("Which locatoin?" + " x" * 400, state)[1] == [("locatoin", "location")]


def test_the_form_of_a_date_does_not_depend_on_the_order_of_the_documents(make_store: Any) -> None:
    texts = [f"{form}: note {number}." for number in range(20) for form in ("2026-03-14", "14.03.2026", "Mar 14, 2026")]
    respelled = set()
    for name, ordered in (("forward", texts), ("backward", texts[::-1])):
        store: kvstore.Store = make_store(name, embedder="hashing:16", settings={"language": "rules"})
        store.put_many([{"key": text, "text": text} for text in ordered])
        with store.state() as state:
            respelled.add(respell_question("What is the note of 14 March 2026?", state)[0])
    assert len(respelled) == 1
