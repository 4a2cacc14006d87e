"""Answers that need no language model: what they say, what they bring along, and when they say that there is none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import kvstore
from kvstore.answering.question_kinds import kind_of
from kvstore.answering.question_names import PassageWords, names_of


@pytest.fixture
def ask(make_store: Callable[..., kvstore.Store]) -> Callable[..., kvstore.Answer]:
    """Ask a store of one text, which always answers."""

    def asked(text: str, question: str, *, title: str | None = None, format: str = "text") -> kvstore.Answer:
        store = make_store(f"store-{len(text)}")
        store.set("least_confidence", 0)
        store.put("k", text, title=title, format=format)
        answer = store.ask(question)
        stored = store.get("k")
        assert stored is not None
        for citation in answer.citations:
            assert stored.text.encode()[citation.start : citation.end].decode()
        return answer

    return asked


def test_an_answer_prints_as_its_text(ask: Callable[..., kvstore.Answer]) -> None:
    answer = ask("Tea is made from leaves.", "What is tea made from?")
    assert str(answer) == answer.text == "Tea is made from leaves. [1]"


def test_a_document_cites_nothing_and_its_marks_are_not_shown(ask: Callable[..., kvstore.Answer]) -> None:
    answer = ask("The *Heron* was built in 1902. [2] She sank in Corrin Sound.[7]", "When was the Heron built?")
    assert "[2]" not in answer.text and "[7]" not in answer.text
    titled = ask("It was built in 1902.", "When was the Heron built?", title="The tender *Heron*", format="markdown")
    assert titled.text == "The tender Heron: It was built in 1902. [1]"


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
    listed = "Options:\n\n- `--quiet`: Suppress the banner. Errors are shown all the same.\n- `--loud`: Ring a bell.\n"
    answer = ask(listed, "Are errors shown with --quiet?", format="markdown")
    assert "--quiet: Suppress the banner." in answer.text and "Ring" not in answer.text


def test_a_lead_in_brings_the_block_that_it_announces(ask: Callable[..., kvstore.Answer]) -> None:
    text = (
        "Bread is nice.\n\nTo start the server, run this command:\n\n```sh\nserverctl start\n```\n\nThe sky is blue.\n"
    )
    answer = ask(text, "How do I start the server?", format="markdown")
    assert "run this command:\n    serverctl start" in answer.text
    assert "```" not in answer.text


def test_what_does_not_name_its_subject_stands_behind_the_title(ask: Callable[..., kvstore.Answer]) -> None:
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


def test_a_row_of_a_table_is_told_under_the_words_of_its_head(ask: Callable[..., kvstore.Answer]) -> None:
    text = "| Shift | Officer |\n| --- | --- |\n| Morning | Farid Osei |\n| Night | Dermot Quill |\n"
    assert (
        "Shift: Night; Officer: Dermot Quill"
        in ask(text, "Who is the officer of the night shift?", format="markdown").text
    )


def test_the_same_page_twice_is_told_once(store: kvstore.Store) -> None:
    store.set("least_confidence", 0)
    for key in "ab":
        store.put(key, "Tea is made from leaves.")
    assert store.ask("What is tea made from?").text == "Tea is made from leaves. [1]"


def test_what_a_question_asks_for_decides_among_equals(ask: Callable[..., kvstore.Answer]) -> None:
    text = "The bridge over the Aare was opened with a great feast. The bridge over the Aare was opened in 1883."
    assert ask(text, "When was the bridge over the Aare opened?").text.startswith("The bridge")
    assert kind_of("When was it opened?").met_by("It was opened in 1883.")
    assert not kind_of("When was it opened in 1883?").met_by("It was opened in 1883.")
    assert kind_of("Which option sets the depth?").met_by("Use --levels for that.")
    assert kind_of("What does VACUUM do?").met_by("The VACUUM command rebuilds the file.")
    assert not kind_of("What does VACUUM do?").met_by("Unless it is full, this follows a VACUUM.")


def test_what_is_not_there_is_not_answered(store: kvstore.Store) -> None:
    store.put("leave", "Parental leave lasts twenty weeks. Maria Jensen approves it.", title="Leave")
    answer = store.ask("Which volcano erupted near Grindavik in Iceland?")
    assert answer.abstained and answer.confidence < 0.5
    assert answer.text.startswith("Nothing in the store answers this. No document of it names Grindavik or Iceland.")
    assert [citation.document for citation in answer.citations] == [hit.document for hit in answer.evidence.hits]
    known = store.ask("How long does parental leave last?")
    assert not known.abstained and known.confidence > 0.5 and not known.remarks


def test_scattered_words_of_a_name_are_not_the_name(store: kvstore.Store) -> None:
    store.put("bath", "Blood Bath is a film directed by Jack Hill. The film found good reviews.")
    store.put("carr", "Jane Carr is a director of British nationality. Her film is Dark Water.")
    store.put("port", "Many people came to the port. The weather was good.")
    asked = "What nationality is the director of the film {}?"
    unknown, known = (store.weigh(asked.format(name))[1] for name in ("Good People", "Dark Water"))
    assert known.unnamed == 0 and unknown.unnamed > 0.3 and not unknown.unknown
    assert unknown.value < known.value - 0.3


def test_what_a_question_names() -> None:
    def named(question: str) -> list[str]:
        return [name.shown for name in names_of(question)]

    assert named("Who led the Duke of York's men from Sund to Vale?") == ["Duke of York", "Sund", "Vale"]
    assert named("Restarting the pump after --no-wait in pump_mode") == ["--no-wait", "pump_mode"]
    assert named("Creating a New Table") == named("CREATING A NEW TABLE") == []
    passage = PassageWords("The Duke of York (Sund, 1402) starts with --no-wait.")
    assert [passage.has(name) for name in names_of("Is the Duke of York from Sund or York Vale?")] == [
        True,
        True,
        False,
    ]
    assert [passage.has(name) for name in names_of("Are --no-wait and --wait-no options?")] == [True, False]


def test_an_unknown_name_is_told_beside_an_answer(store: kvstore.Store) -> None:
    store.put("leave", "Parental leave lasts twenty weeks. Maria Jensen approves it.", title="Leave")
    store.set("least_confidence", 0)
    answer = store.ask("How long does parental leave last, says Gretel?")
    assert answer.remarks == ["no document names Gretel; the answer may be about something else"]


def test_confidence_does_not_depend_on_the_size_of_the_store(make_store: Callable[..., kvstore.Store]) -> None:
    found = []
    for others in (0, 40):
        store = make_store(f"of-{others}")
        store.put("leave", "Parental leave lasts twenty weeks. Maria Jensen approves it.", title="Leave")
        for number in range(others):
            store.put(f"other-{number}", f"Pump {number} is oiled before it is started, and again in the evening.")
        for question in ("How long does parental leave last?", "Which volcano erupted in Iceland?"):
            found.append(store.ask(question).confidence)
    assert found[0] == pytest.approx(found[2], abs=0.1) and found[1] == pytest.approx(found[3], abs=0.1)


def test_the_fields_of_a_mail_are_no_part_of_its_sentences(ask: Callable[..., kvstore.Answer]) -> None:
    mail = (
        "From: Juno Ferreira <juno@clay.example>\nTo: members@clay.example\nDate: Wed, 11 Mar 2026 17:21:00 +0100\n"
        "Subject: The fitter found a\n crack\n\nMr Valk took the burner out and found a crack in the arch.\n"
    )
    answer = ask(mail, "Who found the crack in the kiln?")
    assert "\nMr Valk took the burner out" in f"\n{answer.text}"
    assert "Date" not in answer.text
    assert "Juno Ferreira" in ask(f"{mail}Juno\n", "From whom is the mail to members@clay.example?").text


def test_code_stays_with_the_sentence_before_it(ask: Callable[..., kvstore.Answer]) -> None:
    told = (
        "The pump is old.\n\nYou can see how old the turbine is with\n\n    turbine --age\n\nto be sure. Tea is nice.\n"
    )
    answer = ask(told, "How can I see how old the turbine is?", format="markdown")
    assert "with\n    turbine --age" in answer.text
    page = (
        "SKIPPING\n       A range of logs can be skipped as well. For example:\n\n           $ lamp skip 5..6\n\n"
        "       This tells the lamp that neither is read.\n"
    )
    assert "For example:\n    $ lamp skip 5..6" in ask(page, "How do I skip a range of logs?").text


def test_a_sentence_that_counts_on_a_list_brings_it(ask: Callable[..., kvstore.Answer]) -> None:
    text = "The index is log.search and log.uids. It is safe to delete both of these to build it again. Bread is nice."
    assert "log.search" in ask(text, "What is safe to delete to build it again?").text


def test_what_is_comes_before_what_was_changed(store: kvstore.Store) -> None:
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


def test_a_definition_is_told_to_its_end(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store(settings={"chunk_tokens": 24})
    page = (
        "SETTINGS\n       LampCountMax\n              How many lamps are lit without an answer, see below.\n\n"
        "       LampInterval\n              Sets the seconds that pass between two lamps, counted from the first.\n"
        "              A keeper who is asleep hears a bell then, and none where that is zero.\n"
    )
    store.put("lamp", page, format="text")
    first = store.ask("What does LampInterval do?", top=1).text.partition("[1]")[0]
    assert first.startswith("LampInterval: Sets the seconds") and "hears a bell" in first
