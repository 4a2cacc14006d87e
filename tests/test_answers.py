"""Answers that need no language model: what they say, what they bring along, and when they say that there is none."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import kvstore
from kvstore.answering.answer_forms import ANSWER_FORMS
from kvstore.answering.answer_types import AnswerType, ForeignAnswerType, detect_answer_type
from kvstore.answering.mismatches import blank_decimals
from kvstore.answering.question_form import find_asking_sentence, is_yes_no_question, split_question
from kvstore.answering.question_names import PassageWords, find_question_names
from kvstore.answering.snippet_scoring import _find_technical_tokens
from kvstore.retrieval.phrase_search import find_quoted_phrases
from kvstore.text.question_words import load_question_words
from kvstore.text.words import get_function_words, get_stemmer


@pytest.fixture
def ask(make_store: Callable[..., kvstore.Store]) -> Callable[..., kvstore.Answer]:
    """Return a function that asks a store of one text, which always answers."""

    def ask_text(text: str, question: str, *, title: str | None = None, format: str = "text") -> kvstore.Answer:
        store = make_store(f"store-{len(text)}")
        store.set("least_confidence", 0)
        store.put("k", text, title=title, format=format)
        answer = store.ask(question)
        stored = store.get("k")
        assert stored is not None
        for citation in answer.citations:
            assert stored.text.encode()[citation.start : citation.end].decode()
        return answer

    return ask_text


@pytest.fixture
def german_store(make_store: Callable[..., kvstore.Store]) -> kvstore.Store:
    """Return a new, empty store of German texts."""
    return make_store(settings={"stemmer": "german"})


def test_an_answer_prints_as_its_text(ask: Callable[..., kvstore.Answer]) -> None:
    answer = ask("Tea is made from leaves.", "What is tea made from?")
    assert str(answer) == answer.text == "Tea is made from leaves. [1]"
    assert "citations=[Citation(number=1" in repr(answer) and "evidence" not in repr(answer)


def test_the_sentence_that_answers_comes_first_in_writing_without_spaces(ask: Callable[..., kvstore.Answer]) -> None:
    text = "图书馆建于一九二〇年。馆内有三层书架。入口旁有一个小花园。周一闭馆，其他日子九点开门。"
    assert ask(text, "周一闭馆吗？").text.startswith("周一闭馆，其他日子九点开门。")


def test_a_sentence_of_a_section_comes_first_without_the_sentences_before_it(
    ask: Callable[..., kvstore.Answer],
) -> None:
    text = "**Artículo 17. Voto.** Cada socio tiene un voto. Nadie puede llevar más de dos delegaciones de otro socio."
    answer = ask(text, "¿Cuántas delegaciones puede llevar un socio?", format="markdown")
    assert answer.text.startswith("Artículo 17. Voto: Nadie puede llevar más de dos delegaciones")


def test_the_newest_version_of_a_document_answers_unless_the_question_names_a_year_or_the_old_one(
    make_store: Callable[..., kvstore.Store],
) -> None:
    store = make_store()
    store.set("least_confidence", 0)
    for year, days in ((2023, "ten"), (2025, "thirty")):
        text = f"A member may keep the harbor key for {days} days."
        store.put(f"rules-{year}", text, title=f"Harbor rules {year}")
    store.put("rules", "A guest may keep the harbor key for two days.", title="Rules of the lodge")

    def answer(question: str) -> str:
        return store.ask(question).text.partition(" [1]")[0]

    assert "thirty days" in answer("How long may a member keep the harbor key?")
    assert "ten days" in answer("How long could a member keep the harbor key in 2023?")
    store.put("mooring-2023", "Dogs are allowed. The anchor of 1750 is in the shed.", title="Mooring rules 2023")
    store.put("mooring-2025", "Cats are allowed. The anchor is in the loft.", title="Mooring rules 2025")
    assert "Cats" in answer("Since 2023, are cats allowed?")
    assert "shed" in answer("Where is the anchor of 1750?")


def test_the_years_of_file_names_show_the_newest_version_of_documents_with_one_title(
    make_store: Callable[..., kvstore.Store],
) -> None:
    store = make_store(settings={"stemmer": "portuguese"})
    store.set("least_confidence", 0)
    for year, days in ((2023, 7), (2025, 14)):
        text = f"Cada sócio pode reservar um barco com a antecedência de {days} dias."
        store.put(f"normas_{year}.md", text, title="Normas do clube")
    question = "Com que antecedência pode um sócio reservar um barco"
    assert "14 dias" in store.ask(f"{question}?").text.partition(" [1]")[0]
    assert "7 dias" in store.ask(f"{question} nas normas antigas, de 2023?").text.partition(" [1]")[0]


def test_a_document_cites_nothing_and_its_marks_are_not_shown(ask: Callable[..., kvstore.Answer]) -> None:
    answer = ask("The *Heron* was built in 1902. [2] She sank in Corrin Sound.[7]", "When was the Heron built?")
    assert "[2]" not in answer.text and "[7]" not in answer.text
    titled = ask("It was built in 1902.", "When was the Heron built?", title="The tender *Heron*", format="markdown")
    assert titled.text == "The tender Heron: It was built in 1902. [1]"


def test_links_of_notes_and_stars_are_shown_as_people_read_them(ask: Callable[..., kvstore.Answer]) -> None:
    notes = "The phone is set to day mode with *21#, says [[people/Kees|Kees]] of the [[Front desk]]."
    text = ask(notes, "How is the phone set to day mode?", format="markdown").text
    assert text.startswith("The phone is set to day mode with *21#, says Kees of the Front desk.")
    code = "The wrapper passes *all* of `**options` on to the printer, 2 * 3 of them at most."
    text = ask(code, "What does the wrapper pass on to the printer?", format="markdown").text
    assert text.startswith("The wrapper passes all of **options on to the printer, 2 * 3 of them at most.")
    crime = "The police gave the theft of the wheels the crime number 25*388104."
    text = ask(crime, "What is the crime number of the theft?").text
    assert text.startswith(crime)
    link = "The fee is paid with the [`pay` form of\nthe harbor](forms.md#pay), if &lt; 3&nbsp;pounds or `&lt;[a](b)`."
    text = ask(link, "How is the fee paid?", format="markdown").text
    assert text.startswith("The fee is paid with the pay form of the harbor, if < 3 pounds or &lt;[a](b).")


def test_a_sentence_brings_the_one_that_it_points_back_to(ask: Callable[..., kvstore.Answer]) -> None:
    text = (
        "The pump is primed with oil. However, this must never be done while the turbine is running hot. Bread is nice."
    )
    answer = ask(text, "What must never be done while the turbine is running hot?")
    assert answer.text.startswith("The pump is primed with oil. However, this must never be done")


def test_a_definition_brings_its_term(ask: Callable[..., kvstore.Answer]) -> None:
    text = (
        "OPTIONS\n       -q, --quiet\n              Suppress the banner at the start.\n\n"
        "       -z     Compress what is written.\n"
    )
    assert "-q, --quiet: Suppress the banner at the start." in ask(text, "What does --quiet do?").text
    options = "Options:\n\n- `--quiet`: Suppress the banner. Errors are shown all the same.\n- `--loud`: Ring a bell.\n"
    answer = ask(options, "Are errors shown with --quiet?", format="markdown")
    assert "--quiet: Errors are shown all the same." in answer.text and "Ring" not in answer.text


def test_a_lead_in_brings_the_block_that_it_announces(ask: Callable[..., kvstore.Answer]) -> None:
    text = (
        "Bread is nice.\n\nTo start the server, run this command:\n\n```sh\nserverctl start\n```\n\nThe sky is blue.\n"
    )
    answer = ask(text, "How do I start the server?", format="markdown")
    assert "run this command:\n    serverctl start" in answer.text
    assert "```" not in answer.text


def test_a_sentence_without_its_subject_follows_the_title(ask: Callable[..., kvstore.Answer]) -> None:
    answer = ask("She was born in Riga in 1911.", "Where was Anna Kalnins born?", title="Anna Kalnins")
    assert answer.text == "Anna Kalnins: She was born in Riga in 1911. [1]"


def test_headings_synopses_and_drawings_are_no_answer(ask: Callable[..., kvstore.Answer]) -> None:
    text = (
        "NAME\n       frob - turn the widgets\n\nSYNOPSIS\n       frob [-a] [-b FILE] widget...\n\nDESCRIPTION\n"
        "       The frob command turns every widget once.\n\n"
        "       +-----+----+\n       | widget |\n       +-----+----+\n"
    )
    answer = ask(text, "What does the frob command turn?")
    assert "turns every widget once" in answer.text
    assert not any(part in answer.text for part in ("NAME", "SYNOPSIS", "[-a]", "+--"))


def test_a_table_row_is_quoted_with_its_header(ask: Callable[..., kvstore.Answer]) -> None:
    text = "| Shift | Officer |\n| --- | --- |\n| Morning | Farid Osei |\n| Night | Dermot Quill |\n"
    assert (
        "Shift: Night; Officer: Dermot Quill"
        in ask(text, "Who is the officer of the night shift?", format="markdown").text
    )


def test_a_column_with_a_colon_is_quoted_with_one_colon(ask: Callable[..., kvstore.Answer]) -> None:
    text = "| Shift: | Officer: |\n| --- | --- |\n| Morning | Farid Osei |\n| Night | Dermot Quill |\n"
    assert (
        "Shift: Night; Officer: Dermot Quill"
        in ask(text, "Who is the officer of the night shift?", format="markdown").text
    )


def test_a_row_of_a_table_of_properties_is_quoted_as_a_property(ask: Callable[..., kvstore.Answer]) -> None:
    text = "# Project\n\n|  |  |\n| --- | --- |\n| Status | In progress |\n| Due | 3 May 2024 |\n"
    assert "Due: 3 May 2024" in ask(text, "When is the project due?", format="markdown").text


def test_an_answer_shows_what_a_page_shows(ask: Callable[..., kvstore.Answer]) -> None:
    page = """# Leave {#leave}

{{< note >}}
Employees get [twenty-five days](https://x.org/days?x=1) of _paid_ leave a year[^1], see [the table][t].
{{< /note >}}

<details><summary>Carrying over</summary>

{% hint %}
Up to `<five>` days are carried over to the <b>next</b> year ([source](https://x.org)).
{% endhint %}

</details>

![Days of leave a year](leave.png "Leave")
"""
    answer = ask(page, "How many days of paid leave do employees get?", format="markdown")
    assert "Employees get twenty-five days of paid leave a year, see the table." in answer.text
    answer = ask(page, "How many days are carried over to the next year?", format="markdown")
    assert "Up to <five> days are carried over to the next year (source)." in answer.text
    assert not any(mark in answer.text for mark in ("{", "](", "![", "_", "</", "details"))


def test_a_duplicate_page_is_quoted_once(store: kvstore.Store) -> None:
    store.set("least_confidence", 0)
    for key in "ab":
        store.put(key, "Tea is made from leaves.")
    assert store.ask("What is tea made from?").text == "Tea is made from leaves. [1]"


def test_the_kind_of_answer_asked_for_breaks_ties(ask: Callable[..., kvstore.Answer]) -> None:
    text = "The bridge over the Aare was opened with a great feast. The bridge over the Aare was opened in 1883."
    assert ask(text, "When was the bridge over the Aare opened?").text.startswith("The bridge")
    assert detect_answer_type("When was it opened?").is_present_in("It was opened in 1883.")
    assert not detect_answer_type("When was it opened in 1883?").is_present_in("It was opened in 1883.")
    assert detect_answer_type("Which option sets the depth?").is_present_in("Use --levels for that.")
    assert detect_answer_type("What does VACUUM do?").is_present_in("The VACUUM command rebuilds the file.")
    assert not detect_answer_type("What does VACUUM do?").is_present_in("Unless it is full, this follows a VACUUM.")
    assert detect_answer_type("What did Acme want for the repair?").name == "thing"


def test_a_missing_fact_is_not_answered(store: kvstore.Store) -> None:
    store.put("leave", "Parental leave lasts twenty weeks. Maria Jensen approves it.", title="Leave")
    answer = store.ask("Which volcano erupted near Grindavik in Iceland?")
    assert answer.abstained and answer.confidence < 0.5
    assert answer.text.startswith("The documents do not say this. No document mentions Grindavik or Iceland.")
    assert {citation.document for citation in answer.citations} == {hit.document for hit in answer.evidence.hits}
    assert answer.outcome == "nearest"
    excluded = store.ask("How long does Maria Jensen grant leave?", where="key = 'hours'")
    assert excluded.text == "The documents do not say this. The condition selects no documents."
    assert (excluded.outcome, excluded.citations) == ("nothing", [])
    confident = store.ask("How long does parental leave last?")
    assert not confident.abstained and confident.confidence > 0.5 and not confident.remarks


def test_scattered_words_of_a_name_are_not_the_name(store: kvstore.Store) -> None:
    store.put("bath", "Blood Bath is a film directed by Jack Hill. The film found good reviews.")
    store.put("carr", "Jane Carr is a director of British nationality. Her film is Dark Water.")
    store.put("port", "Many people came to the port. The weather was good.")
    question = "What nationality is the director of the film {}?"
    unknown, known_name = (store.weigh(question.format(name))[1] for name in ("Good People", "Dark Water"))
    assert known_name.unnamed == 0 and unknown.unnamed > 0.3 and not unknown.unknown
    assert unknown.value < known_name.value - 0.3


def test_names_in_a_question() -> None:
    def find_names(question: str) -> list[str]:
        return [name.text for name in find_question_names(question)]

    assert find_names("Who led the Duke of York's men from Sund to Vale?") == ["Duke of York", "Sund", "Vale"]
    assert find_names("Restarting the pump after --no-wait in pump_mode") == ["--no-wait", "pump_mode"]
    assert find_names("Is 2,500 more than 3.5 at 10:30?") == ["2,500", "3.5", "10:30"]
    assert find_names("Who pays for 3 nights or $700 in 1998 and on 5 May?") == ["1998", "5 May"]
    assert find_names("What do you keep when I've paid and I'm late?") == []
    assert find_names("Creating a New Table") == find_names("CREATING A NEW TABLE") == []
    passage = PassageWords("The Duke of York (Sund, 1402) starts with --no-wait.")
    assert [passage.has_name(name) for name in find_question_names("Is the Duke of York from Sund or York Vale?")] == [
        True,
        True,
        False,
    ]
    assert find_names("¿Puedo usar vinagre?") == []
    assert [passage.has_name(name) for name in find_question_names("Are --no-wait and --wait-no options?")] == [
        True,
        False,
    ]


def test_the_plural_of_an_abbreviation_is_the_same_name() -> None:
    for question, text in (("Is a PDF allowed?", "PDFs are allowed."), ("Are PDFs allowed?", "A PDF is allowed.")):
        (name,) = find_question_names(question)
        assert name.text == "PDF" and PassageWords(text).has_name(name)
    # Also as a part of a name, and in a marked title.
    for question, text in (
        ("Which CD-ROMs are sold?", "The shop sells CD-ROMs."),
        ("Which CD-ROM is sold?", "The shop sells CD-ROMs."),
        ("谁写了《All DVDs》？", "《All DVDs》的作者是她。"),
    ):
        names = find_question_names(question)
        assert names and all(map(PassageWords(text).has_name, names)), question


def test_german_nouns_are_not_names(store: kvstore.Store) -> None:
    store.put("auto", "Der Wagen war am 14. März in der Werkstatt. Die Inspektion kostete 412 Euro.")
    store.put("garten", "Die Tomaten werden erst im Mai gepflanzt, weil der Boden vorher zu kalt ist.")
    answer = store.ask("Wann war das Auto bei der Inspektion in der Werkstatt?")
    assert not answer.abstained and "14. März" in answer.text and not answer.remarks
    foreign = store.ask("Wann fiel die Mauer in der Hauptstadt?")
    assert foreign.abstained and "names" not in foreign.text
    foreign = store.ask("Wann fiel die Berliner Mauer?")
    assert foreign.abstained and "mentions Berliner Mauer" in foreign.text
    for question, names in (
        ("Wann war die Main-Brücke der DB fertig?", ["DB"]),
        ("Wo wurde Elise Wagenbach geboren?", ["Elise Wagenbach"]),
        ("Was kostet die Wohnung von Frau Seidel im Turnverein Oberau?", ["Seidel", "Turnverein Oberau"]),
        ("Wann darf man Tomaten und Rosen im Garten pflanzen?", []),
        ("Wie alt ist das Haus am Ahornweg 8?", ["Ahornweg 8"]),
        ("Was steht in Ziffer 8 und auf Seite 3?", ["8", "3"]),
        ("Was kosten Brötchen 3 Stück am Freitag 13. Mai?", ["3", "13"]),
        ("Was kostet die Miete im Jahr 2024?", ["2024"]),
    ):
        assert [name.text for name in find_question_names(question, "german")] == names


def test_names_are_found_with_case_endings() -> None:
    name = find_question_names("Сколько мешков было у Джареда Аллена?", "russian")[0]
    text = "Джаред Аллен сделал 136 мешков."
    assert not PassageWords(text).has_name(name)
    assert PassageWords(text, get_stemmer("russian")).has_name(name)
    (name,) = find_question_names("Seit wann ist Marlene Vogt Vorsitzende?", "german")
    assert PassageWords("Vorsitzende ist Marlene Vogt.").has_name(name)
    assert not PassageWords("Vorsitzende ist Marlene Hirsch, und Vogt ist Kassenwart.").has_name(name)


def test_a_noun_after_the_name_of_a_person_is_not_part_of_it(german_store: kvstore.Store) -> None:
    german_store.put(
        "protokoll", "Frau Blum legt die Zahlen vor. Donnerstags um 15 Uhr hat Frau Blum im Büro Sprechstunde."
    )
    german_store.put("plan", "Der Vorstand tagt im Mai um 18 Uhr. Das Büro hat montags um 9 Uhr geöffnet.")
    answer = german_store.ask("Wann hat Frau Blum Geburtstag?")
    assert answer.abstained and "No document mentions Geburtstag." in answer.text
    answer = german_store.ask("Wann hat Frau Blum Sprechstunde?")
    assert answer.weighed is not None and not answer.weighed.unnamed and "15 Uhr" in answer.text
    answer = german_store.ask("Wann hat Frau Kunz Sprechstunde?")
    assert answer.weighed is not None and answer.weighed.unnamed


def test_a_german_noun_and_its_number_are_one_name() -> None:
    (name,) = find_question_names("Wem gehört das Haus 7?", "german")
    function_words, stem = get_function_words("german"), get_stemmer("german")
    for text, has_name in (
        ("Das Haus 7 gehört Ida.", True),
        ("Das Haus Nr. 7 gehört Ida.", True),
        ("Die Häuser 5 und 7 gehören Ida.", True),
        ("Die Häuser 5 bis 9 gehören Ida.", True),
        ("Im 7. Haus wohnt Ida.", True),
        ("Das Haus öffnet um 7 Uhr.", False),
        ("Haus 8 gehört Ida, 7 Häuser gehören Otto.", False),
        ("| Haus 1 | 1957 | 24 |", False),
    ):
        assert PassageWords(text, stem, function_words).has_name(name) == has_name, text


def test_a_number_is_not_that_of_another_thing(german_store: kvstore.Store) -> None:
    german_store.put("kosten.csv:5", "Haus: Ahornweg 1\nBaujahr: 1957\nWohnungen: 24\nHeizkosten je m²: 11,05 €")
    german_store.put("kosten.csv:6", "Haus: Ahornweg 3\nBaujahr: 1958\nWohnungen: 26\nHeizkosten je m²: 5,10 €")
    german_store.put(
        "ordnung", "## § 5 Werkstatt\n\nDie Werkstatt hat 5 Plätze und schließt um 5 Uhr.", format="markdown"
    )
    assert not german_store.ask("Wie viele Wohnungen hat der Ahornweg 3?").abstained
    assert german_store.ask("Wie viele Wohnungen hat der Ahornweg 5?").abstained


def test_the_number_of_a_thing_can_be_in_a_cell(german_store: kvstore.Store) -> None:
    rows = "| Haus | Wohnungen | Baujahr |\n|---|---|---|\n| 5 | 24 | 1957 |\n| 7 | 26 | 1958 |"
    german_store.put("liste", f"# Häuser der Genossenschaft\n\n{rows}", format="markdown")
    answer = german_store.ask("Wie viele Wohnungen hat Haus 7?")
    assert not answer.abstained and "Haus: 7; Wohnungen: 26" in answer.text


def test_a_decimal_is_not_the_number_of_its_digits() -> None:
    text = "§ 14,85 und 1.14 und 1.250,14 und am 14.3."
    assert blank_decimals(text, "Was gilt in 14?") == "§   und 1 und   und am 14.3."
    assert "14,85" in blank_decimals(text, "Was kostet 14,85 Euro?")
    assert blank_decimals("Am 14.03.2026, 14 Uhr", "14") == "Am 14.03.2026, 14 Uhr"


def test_a_section_that_no_document_has_is_not_answered(german_store: kvstore.Store) -> None:
    german_store.put("satzung", "# Satzung\n\n## § 1 Sitz\n\nDer Sitz ist Celle, Markt 14.", format="markdown")
    german_store.put("faq", "Die Satzung regelt in § 3 die Beiträge. Besuch darf nach der Satzung 14 Tage bleiben.")
    assert german_store.ask("Was steht in § 14 der Satzung?").abstained
    assert not german_store.ask("Was steht in § 1 der Satzung?").abstained
    assert not german_store.ask("Was regelt die Satzung in § 3 zu den Beiträgen?").abstained


REGLAMENTO = """# Reglamento

**Artículo 3. Visitas.** Las visitas se registran en conserjería.

**Artículo 4. Pernocta.**
1. Una visita puede pasar la noche dos veces al mes.
2. La solicitud se hace con 48 horas de antelación.

**Artículo 5.**
Los artículos 6, 8 y 9 de los estatutos no se aplican. No se fuma en el edificio.

**Artículo 6. Préstamo.**

6.1. El préstamo dura un mes.

6.2. El préstamo se prolonga una vez.
"""


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("¿Qué dice el artículo 3 del reglamento?", "Las visitas se registran en conserjería."),
        ("¿Qué prevé el art. 4.2 del reglamento?", "2. La solicitud se hace con 48 horas de antelación. [1]"),
        ("¿Qué dice el apartado 2 del artículo 4?", "2. La solicitud se hace con 48 horas de antelación. [1]"),
        ("Que dit l'alinéa 1 de l'article 4 ?", "1. Una visita puede pasar la noche dos veces al mes. [1]"),
        ("Wat staat in artikel 4 lid 2?", "2. La solicitud se hace con 48 horas de antelación. [1]"),
        ("¿Qué establece el art. 5 del reglamento?", "No se fuma en el edificio."),
        ("¿Qué dice el artículo 6.2 del reglamento?", "El préstamo se prolonga una vez."),
    ],
)
def test_articles_and_their_items_are_found_in_several_languages(
    make_store: Callable[..., kvstore.Store], question: str, answer: str
) -> None:
    store = make_store(settings={"stemmer": "spanish"})
    store.put("reglamento", REGLAMENTO, title="Reglamento", format="markdown")
    assert answer in store.ask(question).text


def test_an_article_that_no_document_has_is_not_answered(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store(settings={"stemmer": "spanish"})
    store.put("reglamento", REGLAMENTO, title="Reglamento", format="markdown")
    store.put("acta", "En el punto 7 del acta, el reglamento dice que la cocina cierra a las 27 horas del día 5.")
    for label in ("el artículo 27", "el artículo 7", "el apartado 5 del artículo 4", "el art. 4.5", "la cláusula 12.3"):
        assert store.ask(f"¿Qué dice {label}?").abstained, label
    assert not store.ask("¿Qué dice el artículo 9 de los estatutos?").abstained


def test_the_year_weekday_and_month_of_a_question_must_be_in_the_answer(
    make_store: Callable[..., kvstore.Store],
) -> None:
    store = make_store(settings={"stemmer": "french"})
    store.put("horaires.csv:1", "site: Les Tanneurs\njour: mardi\nmatin: fermé\naprès-midi: 15h00-18h00")
    store.put("horaires.csv:2", "site: Jean-Moulin\njour: mardi\nmatin: fermé\naprès-midi: 13h30-19h00")
    store.put("horaires.csv:3", "site: Jean-Moulin\njour: vendredi\nmatin: fermé\naprès-midi: 14h00-18h30")
    store.put("tarifs", "Le tarif de l'abonnement pour adultes était de 12 euros en 2024 et de 14 euros en 2025.")
    store.put("bureau", "Le bureau du conservateur est ouvert du lundi au jeudi de 9h00 à 17h00.")
    first_line = store.ask("À quelle heure ferme Jean-Moulin le mardi ?").text.split("\n")[0]
    assert "Jean-Moulin; jour: mardi" in first_line and "19h00" in first_line
    assert store.ask("À quelle heure ferme Jean-Moulin le dimanche ?").abstained
    assert not store.ask("À quelle heure ouvre le bureau du conservateur le mercredi ?").abstained
    assert not store.ask("Quel était le tarif de l'abonnement pour adultes en 2024 ?").abstained
    assert store.ask("Quel était le tarif de l'abonnement pour adultes en 2019 ?").abstained


@pytest.mark.parametrize(
    ("language", "text", "question", "other_month"),
    [
        ("czech", "V dubnu bylo v prodejně 7 reklamací.", "Kolik reklamací bylo v dubnu?", "v září"),
        ("polish", "W marcu było u nas 7 reklamacji.", "Ile reklamacji było w marcu?", "w lipcu"),
        ("danish", "I marts var der 7 klager på os.", "Hvor mange klager var der i marts?", "i maj"),
        ("finnish", "Huhtikuussa oli 7 tilausta, mutta se on vähän.", "Montako tilausta oli huhtikuussa?", "elokuussa"),
        ("romanian", "În martie au fost 7 reclamații la noi.", "Câte reclamații au fost în martie?", "în iulie"),
        ("russian", "В марте этого года было 7 жалоб.", "Сколько жалоб было в марте?", "в июле"),
        ("danish", "Butikken er åben om fredagen fra kl. 9.", "Hvornår er butikken åben om fredagen?", "om søndagen"),
    ],
)
def test_the_month_or_weekday_can_be_in_any_grammatical_case(
    make_store: Callable[..., kvstore.Store], language: str, text: str, question: str, other_month: str
) -> None:
    store = make_store(settings={"stemmer": language})
    store.put("a", text)
    assert not store.ask(question).abstained
    month = " ".join(question.split()[-len(other_month.split()) :])
    assert store.ask(question.replace(month, f"{other_month}?")).abstained


def test_a_table_without_function_words_has_the_sentences_of_the_language_of_the_store(
    make_store: Callable[..., kvstore.Store],
) -> None:
    store = make_store(settings={"stemmer": "danish"})
    store.put("priser", "Prisliste pr. 1. januar for tandrensning: 455,00. Bideskinne: 2950,00. Krone: 6900,00.")
    assert "\n\nPrisliste pr. 1. januar for tandrensning: 455,00. [1]" in store.ask("Hvad koster tandrensning?").text


def test_a_date_with_spaces_ends_no_sentence(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store(settings={"stemmer": "german"})
    store.put(
        "preise", "Die Preise für die Sauna gelten ab 15. 3. 2024 und bis zum 1. 5. 2025. Die Sauna ist im Keller."
    )
    answer = store.ask("Ab wann gelten die Preise für die Sauna?").text
    assert answer.startswith("Die Preise für die Sauna gelten ab 15. 3. 2024 und bis zum 1. 5. 2025.")


def test_the_number_after_a_noun_is_not_that_of_another(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store(settings={"stemmer": "spanish"})
    store.put("autobuses", "El autobús de la línea 4 va a la estación. El autobús de las líneas 6 y 7 va al hospital.")
    assert not store.ask("¿Adónde va el autobús de la línea 4?").abstained
    assert not store.ask("¿Adónde va el autobús de la línea 7?").abstained
    assert store.ask("¿Adónde va el autobús de la línea 9?").abstained


def test_an_ordinal_is_not_a_reference_number(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store(settings={"stemmer": "spanish"})
    store.put("premio", "La décima edición del premio de poesía de la ciudad la ganó Marta Soler en el teatro.")
    answer = store.ask("¿Quién ganó la 10.ª edición del premio de poesía de la ciudad?")
    assert not answer.abstained and answer.weighed is not None and "10.ª" not in answer.weighed.unknown


def test_the_amount_or_person_of_another_name_does_not_answer(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store(settings={"stemmer": "spanish"})
    store.put("correo", "El grupo de la tarde lo lleva Nuria Palomeque. Nuria Palomeque cobra 26 euros por hora.")
    store.put("horario", "El profesor Rubén Cotillas tiene el grupo de la mañana, con cuatro clases a la semana.")
    assert "26 euros" in store.ask("¿Cuánto cobra Nuria Palomeque por hora?").text
    assert store.ask("¿Cuánto cobra Rubén Cotillas por hora?").abstained


def test_the_person_after_a_title_answers_who(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store(settings={"stemmer": "french"})
    store.put("gare", "Les agents de la gare sont remplacés en août, et le guichet est fermé pendant les congés.")
    store.put("concert", "Le piano de la salle sera accordé la veille du concert par M. Brunel.")
    answer = store.ask("Qui accorde le piano de la salle ?")
    assert not answer.abstained and "M. Brunel" in answer.text


@pytest.mark.parametrize(
    ("language", "question", "text", "other_text"),
    [
        (
            "spanish",
            "¿Cuál es el teléfono de Ana Ruiz?",
            "Ana Ruiz, tel. 612 345 678, de lunes a viernes por la tarde.",
            "El teléfono del gimnasio está averiado desde marzo.",
        ),
        (
            "french",
            "Quelle est l'adresse électronique de Paul Morel ?",
            "Pour les inscriptions, écrire à Paul Morel (paul.morel@exemple.fr) avant la fin du mois.",
            "La mairie est fermée en mars.",
        ),
        (
            "spanish",
            "¿Cuánto dura el viaje de London a Paris?",
            "El viaje de Londres a París dura dos horas y media en tren.",
            "El museo abre a las nueve.",
        ),
        (
            "german",
            "Wie hoch war die Miete für die Garage 2021?",
            "Seit 2019 beträgt die Miete für die Garage 50 Euro.",
            "Im Jahr 2021 wurde das Dach neu gedeckt.",
        ),
        (
            "german",
            "Was kostet der Eintritt zum Sommerfest 2025?",
            "Der 1987 gegründete Verein lädt zum Sommerfest ein, und der Eintritt zum Sommerfest kostet 5 Euro.",
            "Das Jahr 2025 war trocken.",
        ),
    ],
)
def test_an_abbreviation_another_spelling_or_an_earlier_year_refuses_no_answer(
    language: str, question: str, text: str, other_text: str, make_store: Callable[..., kvstore.Store]
) -> None:
    store = make_store(settings={"stemmer": language})
    store.put("a", text)
    store.put("b", other_text)
    answer = store.ask(question)
    assert not answer.abstained and answer.text.startswith(text)


def test_the_column_of_a_row_can_count_or_have_cents(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store(settings={"stemmer": "german"})
    store.put("geschichte", "Heute gehören der Genossenschaft 134 Wohnungen, und sie hat 1.012 Mitglieder.")
    store.put("häuser.csv:1", "Haus: Birkenallee 17\nBaujahr: 1994\nWohnungen: 36\nMüllabfuhr: 5.012,30 €")
    store.put("häuser.csv:2", "Haus: Birkenallee 19\nBaujahr: 2019\nWohnungen: 28\nMüllabfuhr: 4.012,30 €")
    store.put("tarife.csv:1", "Tarif: Strom für die Wärmepumpe\nArbeitspreis ct/kWh (brutto): 26.47")
    assert "Wohnungen: 36" in store.ask("Wie viele Wohnungen hat die Birkenallee 17?").text.split("\n")[0]
    assert "26.47" in store.ask("Was kostet der Strom für die Wärmepumpe?").text
    assert not store.ask("Was kostet der Strom für die Wärmepumpe?").abstained
    store.put("praxis", "Das CT 3 im Keller wird gewartet, und die Untersuchung dort entfällt.")
    assert store.ask("Was kostet die Untersuchung mit dem CT im Keller?").abstained


def test_the_newest_price_list_answers_even_if_it_is_a_workbook(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store(settings={"stemmer": "french"})
    store.put("tarifs_2024.txt", "Anciens tarifs\n\nCaution de l'auditorium ......... 1 000,00 €\nSac ....... 4,00 €\n")
    rows = "| Service | Tarif |\n|---|---|\n| Sac en toile | 4,00 € |\n| Caution de l'auditorium | 1 200,00 € |"
    store.put("tarifs_2026.xlsx/Services", rows, title="tarifs_2026: Services", format="markdown")
    assert "1 200,00" in store.ask("Quelle est la caution pour l'auditorium ?").text.split("\n")[0]
    assert "1 000,00" in store.ask("Quelle était la caution pour l'auditorium en 2024 ?").text.split("\n")[0]
    store.put("prix_2024.txt", "Service    Tarif\n\nLocation vélos de ville   36,71 €\nLocation remorques   12,33 €\n")
    rows = "| Location | Vélos | Tarif |\n|---|---|---|\n| Ville | vélos de ville | 38,92 € |"
    store.put("prix_2026.xlsx/Locations", rows, title="prix_2026: Location", format="markdown")
    assert "36,71" in store.ask("Quel était le tarif de la location de vélos en ville en 2024 ?").text.split("\n")[0]


def test_the_number_of_the_counted_things_comes_first(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store(settings={"stemmer": "french"})
    store.put(
        "cours",
        "Les élèves du groupe arrivent à neuf heures. Il y a une pause de dix minutes. 25 jeunes élèves du groupe "
        "sont inscrits.",
    )
    assert "25 jeunes élèves" in store.ask("Combien d'élèves sont dans le groupe ?").text.split(".")[0]


def test_a_file_name_is_not_a_telephone_number(german_store: kvstore.Store) -> None:
    text = "Neu in den Aufsichtsrat gewählt wurde Rechtsanwalt Tobias Lenz. Der Überschuss betrug 412.700,00 €."
    german_store.put("2026-03-03-0101-versammlung.md", text)
    german_store.put("anzeige.txt", "Die Telefonnummer von Schlosserin Ida Kern ist 0551 44120.")
    answer = german_store.ask("Welche Telefonnummer hat Rechtsanwalt Lenz?")
    assert answer.abstained and answer.weighed is not None and answer.weighed.formless == "telephone number"
    assert not german_store.ask("Welche Telefonnummer hat Schlosserin Ida Kern?").abstained


def test_the_first_sentence_must_have_what_a_question_asks_for(german_store: kvstore.Store) -> None:
    german_store.put("vertrag", "Für die Genossenschaft unterschreibt Dr. Stefan Reuter.")
    german_store.put(
        "bericht",
        "Der Vorstand, Dr. Stefan Reuter, berichtet über das Geschäftsjahr. Es war wieder ein gutes Jahr mit vielen "
        "neuen Mitgliedern. Die Zahl der Kündigungen ging zurück. Der Jahresüberschuss betrug 412.700,00 €.",
    )
    answer = german_store.ask("Wie hoch ist das Gehalt von Dr. Reuter?")
    assert answer.abstained and ": wrong kind, coverage" in str(answer.weighed)


def test_a_row_without_a_value_in_the_column_of_the_question_does_not_answer(german_store: kvstore.Store) -> None:
    rows = "| Werkstatt | 12 € | |\n| Dachterrasse | 28 € | 42 € |"
    table = f"| Raum | Mitglieder (pro Tag) | Vereine (pro Tag) |\n|---|---|---|\n{rows}"
    german_store.put("preise", f"# Preisliste der Räume\n\n{table}", format="markdown")
    assert "42 €" in german_store.ask("Was kostet die Dachterrasse für Vereine?").text.split("\n")[0]
    assert not german_store.ask("Was kostet die Werkstatt für Mitglieder?").abstained
    assert german_store.ask("Was kostet die Werkstatt für Vereine?").abstained


@pytest.mark.parametrize(
    "question", ["Quel est le nom de la mère de la reine ?", "Où est la gare de la ville ?", "Qui a écrit ce livre ?"]
)
def test_function_words_of_another_language_do_not_answer_a_question(store: kvstore.Store, question: str) -> None:
    store.put("voiture", "La voiture de la famille a été révisée le 14 mars au garage Brunet, et elle est grise.")
    store.put("jardin", "Les tomates sont plantées en mai, parce que la terre est trop froide avant.")
    store.put("club", "La cotisation du club est de 60 euros par an, et le président est Yann Tanguy.")
    assert store.ask(question).abstained
    assert not store.ask("Combien coûte la cotisation du club ?").abstained


def test_an_answer_by_rules_begins_with_the_best_sentence(ask: Callable[..., kvstore.Answer]) -> None:
    notice = (
        "El ascensor estará fuera de servicio, y los vecinos piden ayuda al portero. La piscina abre el 15 de junio. "
        "El horario es de 10 a 21 horas."
    )
    answer = ask(notice, "¿Cuándo abre la piscina de los vecinos?")
    assert answer.text.startswith("La piscina abre el 15 de junio. [1]\n\n")
    assert "El ascensor" in answer.text
    # A row of a table is alone.
    table = "|Taller|Día|\n|---|---|\n|Guitarra clásica|martes|\n|Yoga suave|jueves|\n"
    answer = ask(table, "¿Qué día es el taller de guitarra?", format="markdown")
    assert answer.text.startswith("Taller: Guitarra clásica; Día: martes [1]\n\n")
    # A sentence that begins with a pronoun follows the sentence with its subject.
    answer = ask("The Heron left the dock. She carried lamps.", "What did the Heron carry, lamps or oil?")
    assert answer.text == "The Heron left the dock. She carried lamps. [1]"


def test_unknown_words_of_another_language_lower_the_confidence_with_the_english_embedder(
    make_store: Callable[..., kvstore.Store],
) -> None:
    store = make_store(embedder="all-MiniLM-L6-v2")
    store.set("least_confidence", 0.5)
    notice = (
        "La piscina abre el 15 de junio para los vecinos. Cada vivienda recibe cuatro pases. Las bicicletas se guardan "
        "en el sótano. La cuota de la comunidad sube a 94 euros al mes porque el seguro es más caro."
    )
    store.put("aviso", notice, title="Aviso a los vecinos del edificio Mirasol")
    store.put("harbor", "The harbor was dug in 1802. Its crane was built by Ada Quill, who lives in the tower.")
    answered = ("¿Cuándo abre la piscina?", "¿Por qué sube la cuota de la comunidad?")
    refused = ("¿Cuándo pintan la fachada del edificio Mirasol?", "¿Qué profundidad tiene la piscina?")
    assert [store.ask(question).abstained for question in (*answered, *refused)] == [False, False, True, True]


def test_an_unknown_name_is_reported_next_to_an_answer(store: kvstore.Store) -> None:
    store.put("leave", "Parental leave lasts twenty weeks. Maria Jensen approves it.", title="Leave")
    store.set("least_confidence", 0)
    answer = store.ask("How long does parental leave last, says Gretel?")
    assert answer.remarks == ["no document mentions Gretel; the answer may be about something else"]


def test_confidence_does_not_depend_on_the_size_of_the_store(make_store: Callable[..., kvstore.Store]) -> None:
    confidences = []
    for count in (0, 40):
        store = make_store(f"of-{count}")
        store.put("leave", "Parental leave lasts twenty weeks. Maria Jensen approves it.", title="Leave")
        for number in range(count):
            store.put(f"other-{number}", f"Pump {number} is oiled before it is started, and again in the evening.")
        for question in ("How long does parental leave last?", "Which volcano erupted in Iceland?"):
            confidences.append(store.ask(question).confidence)
    assert confidences[0] == pytest.approx(confidences[2], abs=0.1) and confidences[1] == pytest.approx(
        confidences[3], abs=0.1
    )


def test_the_fields_of_a_mail_are_no_part_of_its_sentences(ask: Callable[..., kvstore.Answer]) -> None:
    mail = (
        "From: Juno Ferreira <juno@clay.example>\nTo: members@clay.example\nDate: Wed, 11 Mar 2026 17:21:00 +0100\n"
        "Subject: The fitter found a\n crack\n\nMr Valk took the burner out and found a crack in the arch.\n"
    )
    answer = ask(mail, "Who found the crack in the kiln?")
    assert "\nMr Valk took the burner out" in f"\n{answer.text}"
    assert "Date" not in answer.text
    assert "Juno Ferreira" in ask(f"{mail}Juno\n", "From whom is the mail to members@clay.example?").text


def test_a_german_question_gets_the_fields_of_a_mail_only_if_it_asks_for_them(
    make_store: Callable[..., kvstore.Store],
) -> None:
    store = make_store(settings={"stemmer": "german"})
    mail = (
        "From: Sabine Petersen <petersen@linden.example>\nTo: alle@linden.example\n"
        "Date: Tue, 23 Jun 2026 15:40:00 +0200\nSubject: Stellplatz\n\n"
        "Ein Stellplatz wird im März frei. Die Tiefgarage hat zwei Einfahrten.\n"
    )
    store.put("mail", mail)
    text = store.ask("Wie hoch ist der Mount Everest?").text
    assert "Stellplatz" in text and "From:" not in text and "Date:" not in text
    assert "petersen@" in store.ask("Wer schrieb die Mail zum Stellplatz?").text


def test_paragraphs_of_a_quotation_are_separate_sentences(ask: Callable[..., kvstore.Answer]) -> None:
    text = "I agree.\n\n> Dear Bo\n>\n> The project starts on Monday in room\n> Elbe.\n>\n> Ada\n"
    answer = ask(text, "Where does the project start?", format="markdown")
    assert answer.text.partition(" [1]")[0] == "The project starts on Monday in room Elbe."


def test_a_table_below_a_list_is_separate(ask: Callable[..., kvstore.Answer]) -> None:
    text = (
        "# Leave\n\n1. Fill in the leave form.\n2. Hand the leave form to Ann.\n\n"
        "| month | leave |\n|---|---|\n| May | 3 |\n| June | 1 |\n"
    )
    answer = ask(text, "What is done with the leave form?", format="markdown").text
    assert "1. Fill in the leave form.\n2. Hand the leave form to Ann. [" in answer
    assert ask(text, "Leave in the month May", format="markdown").text.startswith("month: May; leave: 3 [1]")


def test_the_description_of_an_image_is_no_sentence_of_an_answer(ask: Callable[..., kvstore.Answer]) -> None:
    text = "The form collects a signature.\n\n![The signature form. It has a button. Sign with it.](form.png)\n"
    answer = ask(text, "How does the form collect a signature?", format="markdown")
    assert answer.text == "The form collects a signature. [1]"


def test_a_line_with_a_colon_brings_the_lines_below_it(ask: Callable[..., kvstore.Answer]) -> None:
    text = "Come and see us.\n\nThe office is located at:\nKeizersgracht 617\n1017 DS Amsterdam\n\nTea is nice.\n"
    answer = ask(text, "Where is the office located?", format="markdown")
    assert answer.text.startswith("The office is located at: Keizersgracht 617; 1017 DS Amsterdam [1]")
    contact = "Phone:\n555 1234\nAddress:\nKeizersgracht 617\n1017 DS Amsterdam\nOpen:\nMonday to Friday\n"
    assert ask(contact, "When is it open?").text.startswith("Open: Monday to Friday [1]")
    recipe = "Pancakes for two\n\nIngredients:\n200 g flour\n3 eggs\na pinch of salt\n\nMix the flour with the eggs.\n"
    text = ask(recipe, "What are the ingredients?").text
    assert "Ingredients: 200 g flour; 3 eggs; a pinch of salt [1]" in text


def test_code_stays_with_the_sentence_before_it(ask: Callable[..., kvstore.Answer]) -> None:
    text = (
        "The pump is old.\n\nYou can see how old the turbine is with\n\n    turbine --age\n\nto be sure. Tea is nice.\n"
    )
    answer = ask(text, "How can I see how old the turbine is?", format="markdown")
    assert "with\n    turbine --age" in answer.text
    page = (
        "SKIPPING\n       A range of logs can be skipped as well. For example:\n\n           $ lamp skip 5..6\n\n"
        "       This tells the lamp that neither is read.\n"
    )
    assert "For example:\n    $ lamp skip 5..6" in ask(page, "How do I skip a range of logs?").text


def test_a_sentence_that_counts_on_a_list_brings_it(ask: Callable[..., kvstore.Answer]) -> None:
    text = "The index is log.search and log.uids. It is safe to delete both of these to build it again. Bread is nice."
    assert "log.search" in ask(text, "What is safe to delete to build it again?").text


def test_the_current_state_ranks_above_a_change(store: kvstore.Store) -> None:
    changes = "Fixed: the keeper could not start the horn in fog as a service. Start the horn in fog: fixed once more."
    store.put("changelog.txt", changes)
    store.put("horn.txt", "To start the horn, the keeper turns the brass key. The key hangs beside the door.")
    store.set("least_confidence", 0)
    assert "brass key" in store.ask("How can the keeper start the horn in fog?").text.partition("[1]")[0]
    assert "Fixed" in store.ask("What was fixed of the horn in fog?").text.partition("[1]")[0]


def test_an_option_that_nothing_has_is_not_answered(store: kvstore.Store) -> None:
    store.put(
        "lamp", "--quiet: Suppress the banner of the lamp program at the start.\n\n--loud: Ring a bell.", format="text"
    )
    known, unknown = (store.weigh(f"What does the option {name} of lamp do?")[1] for name in ("--quiet", "--silent"))
    assert known.lacking == 0 and unknown.lacking == 1 and unknown.value < known.value - 0.3


def test_a_definition_is_quoted_to_its_end(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store(settings={"chunk_tokens": 24})
    page = (
        "SETTINGS\n       LampCountMax\n              How many lamps are lit without an answer, see below.\n\n"
        "       LampInterval\n              Sets the seconds that pass between two lamps, counted from the first.\n"
        "              A keeper who is asleep hears a bell then, and none where that is zero.\n"
    )
    store.put("lamp", page, format="text")
    statement = store.ask("What does LampInterval do?", top=1).text.partition("[1]")[0]
    assert statement.startswith("LampInterval: Sets the seconds") and "hears a bell" in statement


def test_a_row_of_a_table_that_was_put_in_answers(store: kvstore.Store, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("name,age,height\nGeorge,32,174\nAnn Bell,25,180\n")
    store.set("least_confidence", 0)
    store.ingest(tmp_path)
    assert store.ask("How old is George?").text.startswith("people: name: George; age: 32; height: 174 [1]")


def test_turns_of_a_talk_are_no_row(ask: Callable[..., kvstore.Answer]) -> None:
    answer = ask("Ann: Is the pump hot?\nBob: It is cold now.", "Is the pump cold?")
    assert "Bob: It is cold now." in answer.text and ";" not in answer.text


@pytest.mark.parametrize("format", ["text", "markdown"])
@pytest.mark.parametrize(
    ("text", "question", "expected"),
    [
        (
            "WiFi guest password: blue-heron-42",
            "What is the guest WiFi password?",
            "WiFi guest password: blue-heron-42",
        ),
        (
            "Dentist 0171 55 23\nBlue bins on Tuesday\nVet 0171 44",
            "When are the blue bins out?",
            "Blue bins on Tuesday",
        ),
        ("- Dentist 0171 55 23\n- Blue bins on Tuesday", "When are the blue bins out?", "Blue bins on Tuesday"),
        ("Dentist 0171 55 23", "What is the number of the dentist?", "Dentist 0171 55 23"),
        ("Alarm code: 4711\n\nSpare key: below the pot", "What is the alarm code?", "Alarm code: 4711"),
        ("Alarm code: 4711\nSpare key: below the pot", "Where is the spare key?", "Spare key: below the pot"),
        ("Tea for two\n\nAlarm: 4711", "What is the code of the alarm?", "Alarm: 4711"),
        (
            "12/03/2026, 18:22 - Bo: the gate\nis stuck\n12/03/2026, 18:24 - Al: oil is in the shed\n"
            "12/03/2026, 19:01 - Bo: it opens again",
            "Where is the oil?",
            "12/03/2026, 18:24 - Al: oil is in the shed",
        ),
        (
            "Jan 23 18:00:04 gw tempd: freezer=-19.4 fridge=3.5\nJan 24 06:31:05 gw mains: restored, outage 6 h 18 min",
            "How long was the outage?",
            "Jan 24 06:31:05 gw mains: restored, outage 6 h 18 min",
        ),
        ("09:00 Doors open\n10:30 Talk by Reid", "When is the talk by Reid?", "10:30 Talk by Reid"),
    ],
)
def test_lines_that_are_jotted_down_answer_line_by_line(
    store: kvstore.Store, format: str, text: str, question: str, expected: str
) -> None:
    store.set("least_confidence", 0)
    store.put("note", text, format=format)
    store.put("chat", "Did you see the gate? It is green now, and Tom says that the plumber comes on Thursday.")
    answer = store.ask(question)
    assert expected in answer.text.partition(" [1]")[0]
    assert answer.citations[0].document == "note"


@pytest.mark.parametrize("question", ["who has the key of the shed", "Has Ann the key of the shed? :)"])
def test_a_message_that_asks_is_quoted_with_its_reply(ask: Callable[..., kvstore.Answer], question: str) -> None:
    chat = (
        f"1/2/2026, 18:22 - Bo: {question}\n1/2/2026, 18:24 - Al: it hangs behind the door of the kitchen\n"
        "1/2/2026, 18:30 - Bo: the dentist called for you\n1/2/2026, 18:31 - Al: I heard it ring"
    )
    text = ask(chat, "Where is the key of the shed?").text.partition(" [1]")[0]
    assert "hangs behind the door" in text and "dentist" not in text


def test_a_sentence_that_runs_over_lines_and_a_title_with_a_colon_are_no_notes(
    ask: Callable[..., kvstore.Answer],
) -> None:
    text = "Guide: Installing pumps\n\nThe pump of\nBergen is installed\nby Captain Reid."
    assert ask(text, "Who installed the pump of Bergen?").text.startswith(
        "The pump of Bergen is installed by Captain Reid. [1]"
    )


def test_prompts_and_marks_in_code_are_shown_and_those_of_a_block_quote_are_not(
    ask: Callable[..., kvstore.Answer],
) -> None:
    doctest = "A grid is drawn with this call:\n\n```pycon\n>>> draw(Grid())\n#####\n```\n"
    assert ask(doctest, "How is a grid drawn?", format="markdown").text.startswith(
        "A grid is drawn with this call:\n    >>> draw(Grid())\n    #####"
    )
    diff = "A grid is drawn with this change:\n\n```\n< draw()\n> draw(Grid())\n```\n"
    assert "    < draw()\n    > draw(Grid())" in ask(diff, "How is a grid drawn?", format="markdown").text
    quoted = "> A grid is drawn with this call:\n>\n> ```\n> draw(Grid())\n> stop()\n> ```\n"
    assert "\ndraw(Grid())\nstop() [1]" in ask(quoted, "How is a grid drawn?", format="markdown").text


def test_source_code_answers_if_nothing_else_is_found(ask: Callable[..., kvstore.Answer]) -> None:
    code = '## Grid\n\n```python\nclass Grid:\n    """Draws lattices of harbours."""\n```\n'
    answer = ask(code, "What does Grid do?", format="markdown")
    assert '"""Draws lattices of harbours."""' in answer.text and len(answer.citations) == 1


def test_source_code_that_is_found_first_is_quoted_with_sentences(store: kvstore.Store) -> None:
    store.set("least_confidence", 0)
    store.put("gauge", "## database\n\n```toml\n[database]\nport = 5433 # of the gauge\n```\n", format="markdown")
    store.put("harbour", "The harbour was dug in 1874 and has a database of ships.", title="The harbour")
    answer = store.ask("Which port has the database of the gauge?")
    assert "port = 5433" in answer.text.partition("[1]")[0]


@pytest.mark.parametrize("gap", ["\n\n", "\n"])
def test_the_relevant_lines_of_a_long_file_are_shown(store: kvstore.Store, gap: str) -> None:
    """With and without empty lines between sections, and even if earlier sentences are about similar things."""
    store.set("least_confidence", 0)
    sections = [f"{name}:\n  workers: {number}\n  level: info" for number, name in enumerate(("web", "mail", "search"))]
    sections += [
        "queues:\n  invoices:\n    retention: 0  # kept for ever\n  video:\n    timeout: 3h",
        "log:\n  level: info",
    ]
    store.put("settings", f"# settings\n\n```yaml\n{gap.join(sections)}\n```\n", format="markdown", title="settings")
    store.put("guide", "A timeout of the video player is shown as a grey frame.\n\nThe video is cut at its timeout.")
    answer = store.ask("What is the timeout of the queue video?")
    citation = next(cited for cited in answer.citations if cited.document == "settings")
    assert "  video:\n    timeout: 3h" in citation.text and "web:" not in citation.text
    stored = store.get("settings")
    assert stored is not None
    assert "timeout: 3h" in stored.text.encode()[citation.start : citation.end].decode()


def test_an_answer_without_a_sentence_has_nothing_to_show(ask: Callable[..., kvstore.Answer]) -> None:
    answer = ask("HARBOUR", "What is the harbour?")
    assert answer.text == "The documents do not say this."
    assert (answer.outcome, answer.citations) == ("nothing", [])


def test_a_file_without_a_title_is_named_by_its_name(store: kvstore.Store) -> None:
    """If a question contains words of the name of a file, its name does not count as missing from the store."""
    text = "Disputes are settled in the courts of the county of Port Ellen, by a judge."
    store.put("statutes/Bell-Charter-1.1", text)
    steps = store.explain("ASK 'Where does the Bell Charter settle disputes?'")
    reason = next(step.detail for step in steps if step.name == "weigh confidence")
    assert "unnamed 0.00" in reason


def test_a_heading_equal_to_the_question_leads_to_its_answer(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store("customers")
    store.set("least_confidence", 0)
    parts = ["# Questions of customers"]
    parts += ["### How do I cancel winter storage?", "Until 15 September free of charge."]
    parts += [
        "### How do I cancel a launching slot?",
        "Up to five days before. After that half of the lift is charged.",
    ]
    store.put("faq", "\n\n".join(parts), format="markdown", title="Questions of customers")
    store.put("minutes", "Winter storage is full with 30 boats, and there is a waiting list.")
    assert "How do I cancel winter storage? Until 15 September free of charge." in (
        store.ask("How do I cancel winter storage?").text
    )


def test_a_question_in_plain_text_brings_its_answer(ask: Callable[..., kvstore.Answer]) -> None:
    text = (
        "Q: Why does the pump not drain?\nA: Clean the filter behind the flap.\n\n"
        "Q: What does error E18 mean?\nA: The hose is bent.\n\n"
        "What does error E23 mean?\n\nThere is something in the base. Close the tap.\n"
    )
    assert ask(text, "What is error E18?").text.startswith("Q: What does error E18 mean? A: The hose is bent.")
    assert "What does error E23 mean? There is something in the base." in ask(text, "What is error E23?").text


@pytest.mark.parametrize(
    "text",
    [
        "Notes of the board\n\nRoof\nThe tiles were laid by Jon Reed in May. They cost 900 euros.\n\n"
        "Garden\nThe pond was dug by Ida Voss and two of her friends.\n\n"
        "Kitchen\nThe stove was sold to a farmer from Hale for 50 euros.",
        "Notes of the board\n\n1. Roof\n40 tiles were laid by Jon Reed in May.\n\n"
        "2. Garden\nThe pond was dug by Ida Voss and two of her friends.",
    ],
)
def test_the_heading_line_of_a_paragraph_is_no_part_of_its_first_sentence(
    make_store: Callable[..., kvstore.Store], text: str
) -> None:
    store = make_store(settings={"chunk_tokens": 32})
    store.set("least_confidence", 0)
    store.put("notes.txt", text)
    for question, sentence in (
        ("Who laid the tiles?", "iles were laid by Jon Reed in May."),
        ("Who dug the pond?", "The pond was dug by Ida Voss"),
    ):
        first_paragraph = store.ask(question).text.partition("\n\n")[0]
        assert sentence in first_paragraph
        assert not any(
            f"{heading} {start}" in first_paragraph for heading in ("Roof", "Garden") for start in ("The", "40")
        )


def test_the_headings_around_an_item_name_its_subject(ask: Callable[..., kvstore.Answer]) -> None:
    text = (
        "# Changes\n\n## 2.3.0\n\n### Removed\n- The old editor is gone.\n\n"
        "## 2.2.0\n\n### Removed\n- The XML feed is gone.\n"
    )
    answer = ask(text, "What was removed in 2.2.0?", title="Changes", format="markdown")
    assert answer.text.startswith("Changes > 2.2.0 > Removed: The XML feed is gone.")


def test_an_item_is_displayed_below_its_headings(ask: Callable[..., kvstore.Answer]) -> None:
    text = "# Lone working\n\n## What is forbidden\n- use the table saw\n- climb a tall ladder\n"
    answer = ask(text, "Who can operate the table saw?", title="Lone working", format="markdown")
    assert answer.text.startswith("Lone working > What is forbidden: use the table saw")
    text = text.replace("# Lone", "# 9.2. Lone")  # the title of a page can be its heading without the number
    answer = ask(text, "Who can operate the table saw?", title="Lone working", format="markdown")
    assert answer.text.startswith("9.2. Lone working > What is forbidden:")


def test_the_title_of_a_text_is_no_answer(ask: Callable[..., kvstore.Answer]) -> None:
    text = "Clearing of the shed\n\nThe shed is cleared on 4 May. Bring gloves."
    answer = ask(text, "When is the clearing of the shed?", title="Clearing of the shed")
    assert answer.text.startswith("The shed is cleared on 4 May.")


def test_a_number_in_the_question_restricts_answers_to_texts_with_it(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store("bills")
    bills = {"2025-014": "1,882.20", "2025-021": "3,691.20", "2025-027": "3,014.40", "2025-033": "13,526.40"}
    for number, total in bills.items():
        text = f"Invoice\n\nTo: Mrs Durrant\n\nLaunching 168.00\nTotal {total}\n\nPayable within 14 days.\n"
        if number == "2025-027":  # only its name identifies it
            store.put(f"bills/{number}.txt", text)
        else:
            store.put(
                f"bills/{number}.html", f"# Invoice {number}\n\n{text}", format="markdown", title=f"Invoice {number}"
            )
    for number, total in bills.items():
        answer = store.ask(f"What was the total of invoice {number}?")
        assert answer.evidence.hits[0].document.startswith(f"bills/{number}.")
        assert f"Total {total}" in answer.text
        assert {citation.document for citation in answer.citations} == {answer.evidence.hits[0].document}


def test_lines_of_a_bill_are_quoted(ask: Callable[..., kvstore.Answer]) -> None:
    text = (
        "Invoice 7\n\nKeel bolts, drawn and renewed 1,310.00\nLifting EUR 322,00\n\nVAT 20% 326.40 €\n\nPayable soon."
    )
    answer = ask(text, "What did lifting cost?")
    assert answer.text.startswith("Lifting EUR 322,00") or "- Lifting EUR 322,00" in answer.text
    assert "VAT 20% 326.40 €" in ask(text, "How much was the VAT?").text


def test_an_identifier_that_no_passage_contains_is_not_answered(
    make_store: Callable[..., kvstore.Store],
) -> None:
    store = make_store("insurance")
    store.put("mail", "Harbour Mutual want 7,850 for the insurance of next year. Renewal date is 2025-05-31.")
    store.put("card", "Northsea Marine, broker of insurances. Telephone: 0551 48 20. Write to desk@northsea.example.")
    assert not store.ask("What does Harbour Mutual want for the insurance of next year?").abstained
    assert not store.ask("What is the telephone number of Northsea Marine?").abstained
    assert not store.ask("What is Northsea Marine's e-mail address?").abstained
    store.delete("card")
    answer = store.ask("What is the phone number of Harbour Mutual?")
    assert answer.abstained and answer.confidence == 0
    assert "No passage contains any telephone number." in answer.text
    assert "no passage contains any telephone number" in str(answer.weighed)
    assert "contains any e-mail address." in store.ask("What is the e-mail address of Harbour Mutual?").text
    assert store.ask("What is Harbour Mutual's website address?").abstained


@pytest.mark.parametrize(
    "unit",
    ["2", "1.2.", "a", "\u00e9", "-", "_", ". ", "? ", "half ", "\u4e2d", "\u4e2da", " ", "\n\n", "\u201c", "A "],
)
def test_forms_of_answers_take_linear_time(unit: str) -> None:
    text = f"A {unit * (20_000 // len(unit))} end"
    german = load_question_words("german")
    assert german is not None
    calls: list[tuple[str, Callable[[], object]]] = [
        ("tokens", lambda: _find_technical_tokens(text)),
        ("kind", lambda: detect_answer_type(text)),
        ("parts", lambda: split_question(text)),
        ("asking sentence", lambda: find_asking_sentence(text)),
        ("yes or no", lambda: is_yes_no_question(text)),
        ("phrases", lambda: find_quoted_phrases(text)),
    ]
    words: frozenset[str] = frozenset()
    calls += [(name, lambda name=name: AnswerType(name, words).is_present_in(text)) for name in ANSWER_FORMS]
    foreign = (ForeignAnswerType(name, words, language_words=german) for name in german.forms)
    calls += [(f"german {kind.name}", lambda kind=kind: kind.is_present_in(text)) for kind in foreign]
    for name, call in calls:
        start = time.process_time()
        call()
        seconds = time.process_time() - start
        assert seconds < 1.5, f"{name}: {seconds:.1f} s"


def test_an_address_after_a_long_line_is_recognized() -> None:
    kind = detect_answer_type("What is the e-mail address of the office?")
    assert kind.is_present_in(f"{'-' * 5000} office@example.org")
    assert not kind.is_present_in("-" * 5000)


def test_the_name_of_a_file_is_searched_if_its_rows_have_no_title(store: kvstore.Store, tmp_path: Path) -> None:
    for name, price in (("winter-storage-2026", 310), ("summer-berths-2026", 420)):
        (tmp_path / f"{name}.csv").write_text(f"berth,price\nB1,{price} EUR\nB2,{price + 5} EUR\n")
    store.ingest(tmp_path / "*.csv")
    answer = store.ask("What does B1 cost in the winter storage 2026?")
    assert answer.outcome == "answered"
    assert "310 EUR" in answer.text
    assert "420" not in answer.text.partition("\n")[0]
    assert store.weigh("What does B1 cost in the winter storage 2031?")[1].unknown == ("2031",)


def test_a_document_whose_key_is_no_file_name_answers(store: kvstore.Store) -> None:
    for key in (".", "..", "/", "a/", "x/.md"):
        store.put(key, f"Tea of {key} is made from leaves.", title="Tea")
        assert "leaves" in store.ask("What is tea made from?", model="none").text


LEASE = """# Lease

## 4. Deposit

The deposit is held in trust.

## 4.1 Amount

The tenant pays a deposit of two rents. It earns no interest.

## 4.2 Return

The landlord returns the deposit within 30 days. Damage is deducted. Section 4.1 is the basis.

# Appendix A: Keys

Each tenant gets two keys.

- 5.1 The tenant keeps in repair:
  - (a) the floors;
  - (b) the doors, except for:
    - (i) locks;
    - (ii) hinges; and
  - (c) the lamps.
- 5.2 The landlord keeps the rest in repair.
"""
STATUTES = """Statutes of the Rowing Club

Contents
1. Name
2. Members
2.1. Admission
3. Fees

1. Name
The club is called Oar and Anchor.

2. Members
Members are admitted by the board.

2.1. Admission
Applicants need two sponsors. The board decides within a month.

3. Fees
Fees are due in January.
"""


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What does section 4.2 of the lease say?", "The landlord returns the deposit within 30 days. Damage"),
        ("What does clause 4.2 say about damage?", "Damage is deducted. Section 4.1"),
        ("Summarize section 4.1", "The tenant pays a deposit of two rents. It earns no interest."),
        ("What is in appendix A?", "Each tenant gets two keys."),
        ("What does clause 4.2 let the landlord do?", "The landlord returns the deposit within 30 days. Damage"),
        ("What does byelaw 2.1 say?", "Applicants need two sponsors. The board decides within a month."),
        ("What does standing order 5.1(b) say?", "(b) the doors, except for: (i) locks; (ii) hinges; and"),
        ("Which byelaw of the statutes covers fees?", "3. Fees: Fees are due in January."),
        ("What does point 5.1(b) say?", "(b) the doors, except for: (i) locks; (ii) hinges; and"),
        (
            "What does clause 5.1 (b)(ii) of the lease require?",
            "Lease > 5.1 The tenant keeps in repair: (ii) hinges; and",
        ),
        (
            "What is section 2.1 of the statutes about?",
            "Applicants need two sponsors. The board decides within a month.",
        ),
        ("Was steht in Artikel 3 der Statutes?", "Fees are due in January."),
        ("Which section of the lease covers the return?", "4.2 Return: The landlord returns the deposit"),
        ("In which chapter of the statutes are fees explained?", "3. Fees: Fees are due in January."),
    ],
)
def test_a_section_that_a_question_names_by_its_number_is_quoted(
    store: kvstore.Store, question: str, answer: str
) -> None:
    store.put("lease", LEASE, title="Lease", format="markdown")
    store.put("statutes", STATUTES, title="Statutes")
    result = store.ask(question)
    assert result.outcome == "answered"
    assert answer in re.sub(r" \[\d+\]", "", result.text)


RUNBOOK = """# Runbook

## 1 Purpose

Tanks move in spring.

## 2 Move a tank

1. Stop the collector.
2. Edit the map.
3. Check the map.

## 3 Restore

1. Copy the archive.
2. Start the collector.
"""
SATZUNG = """# Satzung

## § 1 Name

Der Verein heißt Ruder.

## § 2 Vorstand

(1) Der Vorstand hat drei Mitglieder.

(2) Er beschließt mit einfacher Mehrheit. Die Dividende setzt er fest.
"""


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is step 3 of moving a tank?", "Runbook > 2 Move a tank: 3. Check the map. [1]"),
        ("runbook step 3", "Runbook > 2 Move a tank: 3. Check the map. [1]"),
        ("What is step 2 of Restore?", "Runbook > 3 Restore: 2. Start the collector. [1]"),
        (
            "What does section 2 of the runbook say?",
            "2 Move a tank: 1. Stop the collector. [1] 2. Edit the map. [2] 3.",
        ),
        ("Was steht in § 2 Abs. 1 der Satzung?", "Satzung > § 2 Vorstand: (1) Der Vorstand hat drei Mitglieder. [1]"),
        ("Was gilt nach § 2 Absatz 2?", "(2) Er beschließt mit einfacher Mehrheit."),
        ("Welcher Paragraf regelt den Vorstand?", "Satzung > § 2 Vorstand: (1) Der Vorstand hat"),
        ("In welchem Paragraph steht die Dividende?", "Satzung > § 2 Vorstand:"),
    ],
)
def test_steps_and_paragraphs_are_found_by_their_numbers_and_topics(
    store: kvstore.Store, question: str, answer: str
) -> None:
    store.put("runbook", RUNBOOK, title="Runbook", format="markdown")
    store.put("satzung", SATZUNG, title="Satzung", format="markdown")
    assert answer in store.ask(question).text


def test_a_section_that_no_document_has_is_not_quoted(store: kvstore.Store) -> None:
    store.put("lease", LEASE, title="Lease", format="markdown")
    steps = [step for step, *_ in store.execute("EXPLAIN ASK 'What does section 9 of the lease say?'")]
    assert "lexical search" in steps and "quote section" not in steps


CHAPTERS = "# Sea\n\n## Chapter I\n\nThe crew leaves Celle.\n\n## Chapter II\n\nA storm breaks the mast.\n"
INSTALLATION = "# Install\n\n### Step 1: Unpack\n\nUnpack it.\n\n### Step 2: Start\n\nRun heron start.\n"
SALE = "# Sale\n\n## 3 Fees\n\nFees are due in May.\n\n## 4.2 Return\n\nThe seller takes the goods back.\n"
FILM = "The second part of the film is set in Rome. The clause I signed gives the studio all rights."


@pytest.mark.parametrize(
    "question",
    [
        "What does clause 14 of the lease say?",
        "What does clause 4 of the statutes say?",
        "Under clause 14, who pays the deposit?",
        "What does article 30 say?",
        "What does regulation 30 say?",
        "What does appendix C contain?",
        "What does appendix 2 say?",
        "What happens in chapter 4?",
        "What is step 9 of the runbook?",
        "What does step 4 say?",
        "Wer zahlt nach § 14 die Kaution?",
    ],
)
def test_a_section_that_no_document_has_is_refused(store: kvstore.Store, question: str) -> None:
    for name, text in (("Lease", LEASE), ("Runbook", RUNBOOK), ("Satzung", SATZUNG), ("Sea", CHAPTERS)):
        store.put(name.lower(), text, title=name, format="markdown")
    store.put("statutes", STATUTES, title="Statutes")
    assert store.ask(question).outcome == "nearest"


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What happens in chapter 2?", "Chapter II: A storm breaks the mast."),
        ("What does step 2 say?", "Step 2: Start: Run heron start."),
        ("Where is part 2 of the film set?", "The second part of the film is set in Rome."),
        ("What does the clause I signed give the studio?", "The clause I signed gives the studio all rights."),
        ("Who wrote article 12 of the newsletter?", "Ann Lund"),
        ("Was steht in § 2?", "Satzung > § 2 Vorstand: (1) Der Vorstand hat drei Mitglieder."),
    ],
)
def test_a_section_is_found_by_another_form_of_its_label(store: kvstore.Store, question: str, answer: str) -> None:
    for name, text in (("Sea", CHAPTERS), ("Install", INSTALLATION), ("Satzung", SATZUNG), ("Sale", SALE)):
        store.put(name.lower(), text, title=name, format="markdown")
    store.put("film", FILM, title="Film")
    store.put(
        "law", "# Law\n\n## Article 2\n\nTaxes are due.\n\n## Article 12\n\nCourts are free.\n", format="markdown"
    )
    rows = "| Article | Title | Author |\n|---|---|---|\n| 12 | Fishing | Ann Lund |\n| 13 | Boats | Per Holm |"
    store.put("newsletter", f"# Newsletter\n\n{rows}\n", title="Newsletter", format="markdown")
    assert answer in re.sub(r" \[\d+\]", "", store.ask(question).text)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What do I do in step 2 of the press guide?", "STEP TWO Load the paper."),
        ("What does Anna find in chapter 5?", "In the fifth chapter, Anna finds the letter."),
        ("What is rule 5?", "Rule No. 5 is that nobody eats at the desk."),
        ("Who owns section 2?", "Owner: Ole"),
        ("What is item 4 on the agenda?", "4. Budget (Ann Lund)"),
    ],
)
def test_an_item_of_a_list_is_not_the_section_of_another_document(
    store: kvstore.Store, question: str, answer: str
) -> None:
    items = "1. Welcome\n2. Minutes\n3. Heating\n4. Budget (Ann Lund)\n5. Any other business"
    store.put("agenda", f"# Agenda\n\n{items}\n", title="Agenda", format="markdown")
    steps = "STEP ONE\nClean the rollers.\n\nSTEP TWO\nLoad the paper.\n\nSTEP THREE\nSet the speed to 40.\n"
    store.put("press", f"Guide to the press\n\n{steps}", title="Guide to the press")
    store.put("novel", "In the fifth chapter, Anna finds the letter. It is from Lima.", title="Novel")
    store.put("notes", "Rule No. 5 is that nobody eats at the desk. We delete accounts after 30 days.", title="Notes")
    store.put("areas.csv:2", "Section: 2\nTopic: Windows\nOwner: Ole")
    store.put("areas.csv:3", "Section: 3\nTopic: Roof\nOwner: Kim")
    assert answer in store.ask(question).text.split("\n\n")[0]


def test_a_section_of_two_documents_is_quoted_from_both(store: kvstore.Store) -> None:
    store.put("lease", LEASE, title="Lease", format="markdown")
    store.put("sale", SALE, title="Sale", format="markdown")
    answer = store.ask("What does clause 4.2 say?")
    assert {citation.document for citation in answer.citations} == {"lease", "sale"}
    assert "Lease > 4.2 Return: The landlord" in answer.text
    assert "Sale > 4.2 Return: The seller takes the goods back." in answer.text
    for question in ("What does clause 4.2 of the sale say?", "What does clause 4.2 say about goods?"):
        assert {citation.document for citation in store.ask(question).citations} == {"sale"}


def test_the_number_at_the_end_of_a_sentence_is_not_that_of_an_item(store: kvstore.Store) -> None:
    store.put("sale", "# Sale\n\n## 7 Price\n\nPrices are in schedule 4. Claims expire in May.\n", format="markdown")
    assert "schedule 4. [1] Claims expire" in store.ask("What does clause 7 say?").text


def test_a_section_after_thousands_of_others_is_found(store: kvstore.Store) -> None:
    rules = "".join(f"{number}. Guests leave room {number} clean.\n\n" for number in range(1, 3001))
    store.put("rules", f"House rules\n\n{rules}", title="House rules")
    assert "Guests leave room 2950 clean." in store.ask("What does rule 2950 of the house rules say?").text


def test_a_long_run_of_section_signs_is_read_in_linear_time(
    store: kvstore.Store, limit_cpu_time: Callable[[float], None]
) -> None:
    store.put("lease", LEASE, title="Lease", format="markdown")
    limit_cpu_time(20)
    for question in ("§" * 100_000, "What does section 4.2 say " + "say " * 50_000):
        assert store.ask(question).text


def test_the_number_of_a_thing_is_not_taken_for_that_of_a_section(store: kvstore.Store) -> None:
    store.put("faq", "# Questions\n\n## 4. Delivery\n\nWe deliver in May.\n\n## 5. Price\n\nPrices include tax.\n")
    store.put("list", "Item: 5\nName: Lamp\nPrice: $40")
    assert "$40" in store.ask("How much does item 5 cost?").text


@pytest.mark.parametrize(
    "question", ["Under section 4.1, who pays the deposit?", "Who pays the deposit according to § 4.1 of the lease?"]
)
def test_a_question_for_a_fact_is_answered_from_the_section_that_it_names(store: kvstore.Store, question: str) -> None:
    store.put("lease", LEASE, title="Lease", format="markdown")
    store.put("note", "The landlord pays the deposit of the boat according to section 4.1.", title="Note")
    answer = store.ask(question)
    assert answer.outcome == "answered"
    assert "The tenant pays a deposit of two rents." in answer.text
    assert {citation.document for citation in answer.citations} == {"lease"}
