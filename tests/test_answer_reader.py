"""The answer reader: its weights, that a reading depends on nothing but its window, and the answers made from it."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

import kvstore
from kvstore.answering.answer_reader import reader as reader_module
from kvstore.answering.answer_reader.reader import FOLDER, MODEL_FILE, AnswerReader, ReaderOutput, load_reader
from kvstore.answering.answer_types import detect_answer_type, find_contrasts, is_contrary
from kvstore.answering.question_form import find_topic
from kvstore.integrations.store_tools import StoreTools
from kvstore.models.language import find_english_folder

TEXT = (
    "The harbor was dug in 1802. Its crane was built by Ada Quill. The keeper lives in the tower. "
    "Boats pay twelve euros a night."
)


@pytest.fixture(scope="module")
def reader() -> AnswerReader:
    answer_reader = load_reader()
    if answer_reader is None:
        pytest.skip("the weights of the answer reader are not installed")
    return answer_reader


def test_damaged_weights_are_not_loaded(reader: AnswerReader, tmp_path: Path) -> None:
    folder = tmp_path / "reader"
    weights = find_english_folder(FOLDER)
    assert weights is not None
    shutil.copytree(weights, folder)
    data = bytearray((folder / MODEL_FILE).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / MODEL_FILE).write_bytes(data)
    with pytest.raises(ValueError, match="damaged"):
        AnswerReader(folder)


def test_a_reading_does_not_depend_on_the_other_windows(reader: AnswerReader) -> None:
    windows = [sentence + "." for sentence in TEXT.rstrip(".").split(". ")]
    question = "Who built the crane?"
    readings = reader.read(question, windows)
    assert readings == [reader.read(question, [window])[0] for window in windows]
    best = max(range(len(windows)), key=lambda number: readings[number].logit)
    assert windows[best][readings[best].start : readings[best].end] == "Ada Quill"


def test_logits_do_not_depend_on_the_processor(reader: AnswerReader) -> None:
    """The expected logits were computed with sums in 32 bits; sums in 16 bits overflow: the first is .3 less."""
    window = "A row: price: 5; unit: kg; stock: 17"
    questions = ("What do boats pay a night?", "When was the bridge opened?")
    logits = [reader.read(question, [window])[0].logit for question in questions]
    assert logits == pytest.approx([-3.56, -3.271], abs=0.05)


def test_logits_are_the_same_with_and_without_vnni(reader: AnswerReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "_has_vnni", lambda: False)
    window = "The bridge was opened in 1931. A row: price: 5; unit: kg; stock: 17"
    folder = find_english_folder(FOLDER)
    assert folder is not None
    outputs = AnswerReader(folder).read("When was the bridge opened?", [window])
    assert outputs == reader.read("When was the bridge opened?", [window])


def test_the_confidence_reads_the_best_sentence_with_the_one_before_it(
    reader: AnswerReader, harbor: kvstore.Store
) -> None:
    asker = harbor._make_asker()
    with asker.open_query("What do boats pay a night?", {}) as (strategy, query):
        evidence = asker.retrieve_evidence(strategy, query)
        _, reading = asker._read_evidence(query, evidence, {})
    assert reading is not None
    texts = (
        "Harbor. Boats pay twelve euros a night.",
        "Harbor. The keeper lives in the tower. Boats pay twelve euros a night.",
    )
    logit_alone, in_context = (answer.logit for answer in reader.read("What do boats pay a night?", texts))
    assert (reading.best.logit, reading.logit_in_context) == (logit_alone, (logit_alone + in_context) / 2)


@pytest.fixture(scope="module")
def harbor(reader: AnswerReader, tmp_path_factory: pytest.TempPathFactory) -> Iterator[kvstore.Store]:
    """Yield a store with the default embedder."""
    with kvstore.open(tmp_path_factory.mktemp("harbor") / "store", settings={"language": "rules"}) as store:
        store.put("harbor", TEXT, title="Harbor")
        yield store


@pytest.mark.parametrize("answer_reader", ["on", "off"])
@pytest.mark.parametrize("least_confidence", [0, 1])
def test_a_sentence_that_documents_repeat_is_shown_once(
    reader: AnswerReader, tmp_path: Path, answer_reader: str, least_confidence: float
) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        for year in (2021, 2022, 2023):
            text = f"The foundation was established on 3 June 2019. It had {year - 2017} members."
            store.put(f"report-{year}", text, title=f"Report {year}")
        store.put("history", "On 3 June 2019 the foundation began its work in a harbor office.", title="History")
        store.set("answer_reader", answer_reader)
        store.set("least_confidence", least_confidence)
        answer = store.ask("When was the foundation established?", words=60).text
    assert answer.count("established on 3 June 2019") == 1
    assert "harbor office" in answer


def test_salutations_and_fields_of_mails_do_not_follow_an_answer(reader: AnswerReader, tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        for number, salutation in enumerate(["Hi Bo,", "Dear Mr. Bo South,"]):
            header = f"From: Ada North <ada@bridge.example>\nDate: Mon, 26 Feb 2024 10:0{number}:00 +0000"
            body = f"{salutation}\n\nwe start on Monday, 4 March 2024, at 9:30 in room Elbe. The budget is 45,000 euro."
            store.put(f"mail-{number}", f"{header}\n\n{body}", title="Kickoff of the bridge project")
        answer = store.ask("Which room is the kickoff in?").text
        assert "in room Elbe" in answer.partition("[1]")[0]
        assert not any(text in answer for text in ("Hi Bo", "Dear", "From:", "Date:"))
        assert "Ada North" in store.ask("Who wrote the mail about the kickoff?").text


@pytest.mark.parametrize(
    ("question", "topic"),
    [
        ("Tell me about late arrivals.", "late arrivals."),
        ("Can you give me a short overview of parking?", "parking?"),
        ("What do the documents say about dogs?", "dogs?"),
        ("Explain the solar filter rules", "the solar filter rules"),
        ("parking for staff", "parking for staff"),
        ("Explain how the filter is cleaned", None),
        ("What do boats pay a night?", None),
        ("room 12", None),
        ("Name the chairman", None),
        ("the deposit for a barn in the summer of next year", None),
    ],
)
def test_topics_are_distinguished_from_questions_for_facts(question: str, topic: str | None) -> None:
    assert find_topic(question) == topic


@pytest.mark.parametrize(
    "question", ["Tell me about birthday parties", "birthday parties", "Overview of birthday parties"]
)
def test_a_topic_is_answered_with_excerpts_about_it(reader: AnswerReader, store: kvstore.Store, question: str) -> None:
    store.put(
        "booking",
        "# Booking\n\n## Birthday parties\n\nNew this year: parties on Sunday mornings, for 14 children. The fun lasts "
        "100 minutes. Bring a cake; we have plates.\n\n## Late arrival\n\nDoors close when the show begins.\n",
        format="markdown",
    )
    store.put("rules", "Open shoes are forbidden in the workshop. The kettle is for volunteers only.", title="Rules")
    answer = store.ask(question)
    assert answer.outcome == "answered"
    assert "parties on Sunday mornings" in answer.text
    assert "lasts 100 minutes" in answer.text
    assert "Open shoes" not in answer.text
    assert store.ask(question.replace("birthday parties", "swimming pools")).outcome != "answered"


@pytest.mark.parametrize("question", ["Tell me about Ewan Strand.", "Describe Ewan Strand", "ewan strand"])
def test_a_name_is_answered_with_the_opening_of_the_document_about_it(
    reader: AnswerReader, tmp_path: Path, question: str
) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("ewan", "Ewan Strand was born in Port Averill in 1978. He likes tea.", title="Ewan Strand")
        store.put("nuala", "The oil is fried twice. Ewan Strand says that it is good lamp oil.", title="Nuala Finch")
        store.put("ruth", "Ewan Strand was her assistant, and alone found the mistake.", title="Ruth Ashby")
        answer = store.ask(question)
    assert not answer.abstained
    assert "born in Port Averill" in answer.text.partition("[1]")[0]


@pytest.mark.parametrize("question", ["Who is Aoife Byrne?", "who's Aoife Byrne"])
def test_who_is_asks_for_more_than_a_mention(reader: AnswerReader, tmp_path: Path, question: str) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("minutes", "Present: Dominik Kranz, Ingrid Voss, Aoife Byrne. A second crane is needed.")
        store.put("laptops", "asset: L-102\nmodel: MacBook Air\nuser: Aoife Byrne", title="inventory")
        store.put("p3", "Aoife Byrne leads the workshop in Cork and certifies every hull.", title="Aoife Byrne")
        assert store.ask(question).text.startswith("Aoife Byrne leads the workshop in Cork")


def test_who_is_prefers_a_position_to_the_opening_of_a_life(reader: AnswerReader, tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("workshop", "The head of the workshop in Cork is Aoife Byrne, who has held the post since 2020.")
        store.put("p3", "Aoife Byrne was born in Kiel and has worked for the company since 2009.", title="Aoife Byrne")
        assert store.ask("Who is Aoife Byrne?").text.startswith("The head of the workshop in Cork is Aoife Byrne")


def test_a_short_item_of_a_list_is_one_statement(reader: AnswerReader, tmp_path: Path) -> None:
    item = "Look at the tank of the slewing ring. Top up with Vactra if it is under the mark."
    others = "- The winch needs oil every May. Ask Ada Quill.\n- Water goes into the boiler. Never use sea water.\n"
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("crane", f"# The crane\n\n- {item}\n{others}", format="markdown")
        answer = store.ask("Which oil is used in the slewing ring tank?")
        assert answer.outcome == "answered" and answer.text.partition("\n\n")[0].endswith(f"{item} [1]")


def test_the_steps_of_a_plain_text_are_shown_together(reader: AnswerReader, tmp_path: Path) -> None:
    text = (
        "Pancakes\n\nMethod:\n1. Mix flour and half of the milk. Take a fork.\n2. Add eggs and\nthe rest of the milk.\n"
        "3. Let it rest for 30 minutes.\n\nServes 4.\n"
    )
    steps = (
        "Method:\n1. Mix flour and half of the milk. Take a fork.\n2. Add eggs and the rest of the milk.\n"
        "3. Let it rest for 30 minutes. [1]"
    )
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("pancakes", text)
        assert steps in store.ask("How do I make pancakes?").text


def test_rows_about_other_things_do_not_follow_an_answer(reader: AnswerReader, tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        car = "| work | date | cost |\n|---|---|---|\n| oil | 2023-01-10 | 90 |\n| tyres | 2023-10-02 | 420 |\n"
        store.put("car", car, format="markdown")
        store.put("log", "2024-05-01 10:05:11 WARN disk usage 91%\n2024-05-01 10:08:00 INFO retry in 30 s")
        answer = store.ask("When were the tyres changed?").text
        assert "2023-10-02" in answer.partition("[1]")[0]
        assert "2024-05-01" not in answer


def test_the_sender_of_a_mail_answers_only_questions_about_senders(reader: AnswerReader, tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        header = "From: Irena Novak <accounts@clearwater-linen.example>\nDate: Mon, 05 Aug 2024 10:00:00 +0000"
        body = "Hello,\n\nplease find the July invoice: 412.80 + VAT. We only charged for 4 missing towels."
        store.put("mail", f"{header}\n\n{body}", title="Invoice 20817 (July) and towels")
        amount = store.ask("what was the invoice from clearwater linen in july").text
        assert "412.80" in amount.partition("[1]")[0] and "From:" not in amount
        assert "Irena Novak" in store.ask("Who sent the invoice from Clearwater Linen?").text
        assert "05 Aug 2024" in store.ask("What is the date of the mail about the invoice?").text


RANGES = """
# Parcels

Who pays for the freight: on orders below $500 the customer pays, from $500 up we pay ground freight.

- up to 1 kg: 4.50
- up to 5 kg: 6.90
- up to 10 kg: 9.90

| years of service | days of leave |
|---|---|
| 0-4 | 20 |
| 5-9 | 24 |
| 10 or more | 28 |

Ann Lee was mayor of Hale from 1939 to 1945. Tom Berg was mayor from 1946 to 1952.
"""


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("What does a parcel of 3 kg cost?", "up to 5 kg: 6.90"),
        ("Who pays freight on an order of $700?", "from $500 up we pay"),
        ("How many days of leave do I get after 7 years of service?", "5-9"),
        ("days of leave after 12 years", "10 or more"),
        ("Who was mayor of Hale in 1948?", "Tom Berg"),
    ],
)
def test_a_number_is_found_in_the_range_that_includes_it(
    reader: AnswerReader, tmp_path: Path, question: str, sentence: str
) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("rules", RANGES, format="markdown")
        answer = store.ask(question)
        assert answer.outcome == "answered" and sentence in answer.text.partition("[1]")[0]


DOSES = """
# Doses for children

The ward takes children from 12 years only:

| Drug | Age | Dose | Maximum in 24 hours |
|---|---|---|---|
| Paracetamol | 12–15 years | 500 mg every 6 h | 3 g |
| Paracetamol | 16–17 years | 1 g every 6 h | 4 g |
| Ibuprofen | 12–17 years | 300 mg three times a day | 1.2 g |
"""


def test_a_row_of_the_same_thing_has_the_range_of_the_question(reader: AnswerReader, tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("doses-2025-10", DOSES, format="markdown")
        text = store.ask("What is the maximum of paracetamol in 24 hours for a 13 year old?").text.partition("[1]")[0]
        assert "Paracetamol" in text and "12–15 years" in text
        assert store.ask("What is the maximum of paracetamol in 24 hours for a 9 year old?").outcome == "nearest"


ROTA = """\
BEGIN:VCALENDAR
VERSION:2.0
BEGIN:VEVENT
DTSTART:20251107T180000
DTEND:20251110T083000
SUMMARY:On call: Owen Blake
STATUS:CANCELLED
END:VEVENT
BEGIN:VEVENT
DTSTART:20251107T180000
DTEND:20251110T083000
SUMMARY:On call: Simone Acht
END:VEVENT
BEGIN:VEVENT
DTSTART:20251110T180000
DTEND:20251114T083000
SUMMARY:On call: Lewis Ryce
END:VEVENT
END:VCALENDAR
"""


@pytest.mark.parametrize(("date", "name"), [("8 November", "Simone Acht"), ("12 November", "Lewis Ryce")])
def test_a_day_within_an_appointment_has_its_person(reader: AnswerReader, tmp_path: Path, date: str, name: str) -> None:
    (tmp_path / "rota.ics").write_text(ROTA, newline="\r\n")
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.execute("INGEST ?", (str(tmp_path / "rota.ics"),))
        answer = store.ask(f"Who is on call on {date}?")
        assert answer.outcome == "answered" and name in answer.text.partition("[1]")[0]


@pytest.mark.parametrize(
    ("unit", "outcome"), [("Kestrel", "answered"), ("ICU", "nearest"), ("the Teal unit", "nearest")]
)
def test_a_document_without_the_name_does_not_answer(
    reader: AnswerReader, tmp_path: Path, unit: str, outcome: str
) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        managers = "Ward managers (Heron: Helen Marsh; Kestrel: David Marsh) answer for the keys and order books."
        store.put("policy", f"{managers} They are locked up at night.", title="Policy")
        store.put("report", "Two ampoules were found in the fluid drawer of the ICU. The Teal unit has none.")
        answer = store.ask(f"Who is the ward manager of {unit}?")
        assert answer.outcome == outcome and (outcome == "nearest" or "David Marsh" in answer.text)
        store.put("policy", f"{managers} Bea Lund is the ward manager of intensive care units.", title="Policy")
        assert store.ask("Who is the ward manager of the ICU?").outcome == "answered"


HANDOVER = """\
BED 1  Mr Ash, 71, colon (Mr Kapadia)
  Used 38 mg in 24 h. Plan: PCA down tomorrow, oxycodone 5 mg
BED 2  Mrs Dooley, 58, gall bladder. Home tomorrow. TTO written, letter printed and in the folder
BED 4  Mr Weir, 66, AAA repair. K 3.1 -> bag running since 15:30
"""


def test_the_facts_of_one_bed_are_not_those_of_the_next(reader: AnswerReader, tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("handover", HANDOVER, title="Handover")
        answer = store.ask("How much oxycodone is planned for Mr Ash?")
        assert "oxycodone 5 mg" in answer.text and "Dooley" not in answer.text.partition("[1]")[0]
        assert "oxycodone" not in store.ask("What is planned for Mrs Dooley?").text.partition("[1]")[0]


REPORT = """\
INCIDENT REPORT                      Form M-5
---------------------------------------------
Ward          : Kestrel
Reported by   : Rosalind Peake
---------------------------------------------
WHAT HAPPENED
The dose was drawn up in a Luer syringe because there were no purple
syringes left. I was called away and connected it to the cannula.
The patient said that his arm burned.
"""


def test_the_rules_and_titles_of_a_form_are_not_part_of_its_sentences(reader: AnswerReader, tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("report", REPORT, title="Report 17")
        text = store.ask("Why was the dose drawn up in a Luer syringe?").text.partition("[1]")[0]
        assert "no purple syringes left" in text and "---" not in text and "cannula" not in text
        assert "Rosalind Peake" in store.ask("Who reported the incident?").text


def test_the_answering_sentence_comes_first_with_its_words(harbor: kvstore.Store) -> None:
    answer = harbor.ask("Who built the crane of the harbor?")
    assert answer.outcome == "answered"
    assert "Its crane was built by Ada Quill." in answer.text.partition(" [1]")[0]
    assert answer.answer_span is not None and answer.answer_span.text == "Ada Quill"
    assert answer.text[answer.answer_span.start : answer.answer_span.end] == "Ada Quill"
    harbor.set("answer_reader", "off")
    by_rules = harbor.ask("Who built the crane of the harbor?")
    harbor.set("answer_reader", "on")
    assert by_rules.answer_span is None and "Ada Quill" in by_rules.text


def test_a_question_for_two_facts_gets_a_sentence_for_each(harbor: kvstore.Store) -> None:
    answer = harbor.ask("Who built the crane, and what do boats pay?")
    assert [citation.text for citation in answer.citations] == [
        "The harbor was dug in 1802. Its crane was built by Ada Quill.",
        "Boats pay twelve euros a night.",
    ]
    assert [(part.question, part.citation, part.span and part.span.text) for part in answer.parts] == [
        ("Who built the crane?", 1, "Ada Quill"),
        ("what do boats pay?", 2, "twelve euros a night"),
    ]
    assert all(part.span and answer.text[part.span.start : part.span.end] == part.span.text for part in answer.parts)
    # The tool for language models has the words without their offsets, which are those of the unquoted text.
    result = StoreTools(harbor).call_tool("ask", {"question": "Who built the crane, and what do boats pay?"})
    assert result.data is not None and result.data["parts"] == [
        {
            "question": part.question,
            "citation": part.citation,
            "verdict": None,
            "answer_span": part.span and part.span.text,
        }
        for part in answer.parts
    ]
    same_paragraph = harbor.ask("Who built the crane, and when was the harbor dug?")
    assert len(same_paragraph.citations) == 1  # the second sentence is displayed with the one that it precedes
    assert [(part.citation, part.span and part.span.text) for part in same_paragraph.parts] == [
        (1, "Ada Quill"),
        (1, "1802"),
    ]
    partial = harbor.ask("Who built the crane, and who painted the lighthouse of Ferrol?")
    assert partial.outcome == "answered" and len(partial.citations) == 1
    assert "The documents do not say: who painted the lighthouse of Ferrol?" in partial.text
    assert partial.parts[1].citation is None
    yes_no = harbor.ask("Did Ada Quill paint the lighthouse of Ferrol, and what do boats pay?")
    assert [part.citation for part in yes_no.parts] == [None, 1] and "twelve euros" in yes_no.text
    same_sentence = harbor.ask("Is a night in the harbor free of charge for boats, and what do boats pay?")
    assert [part.citation for part in same_sentence.parts] == [1, 1] and "do not say" not in same_sentence.text
    assert harbor.ask("Where does the keeper live?").parts == ()


def test_the_second_part_of_a_question_can_omit_its_subject(reader: AnswerReader, tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put(
            "meters",
            "Malene wants to replace the old meter. She will compare the Ostermann D5 and the Lyra DX-2 by the end of "
            "May. The budget is 110,000 crowns.",
            title="Density meter",
        )
        for thing in "pump scale fridge boiler mill kettle filter press tank hose valve".split():
            store.put(thing, f"There is money for the {thing}: the {thing} may cost up to 3,000 crowns. Ada buys it.")
        answer = store.ask("Which two meters will Malene compare, and how much money is there for it?")
        assert [part.span and part.span.text for part in answer.parts][1] == "110,000 crowns", answer.text
        partial = store.ask("Which two meters will Malene compare, and who won the World Cup?")
        assert [part.citation for part in partial.parts] == [1, None]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is the deposit for a berth?", "Year: 2024/25; Rent of a berth: £46; Deposit: 24"),
        ("What do we pay for a berth now?", "Year: 2024/25; Rent of a berth: £46"),
        ("What was the rent of a berth in 2022/23?", "Year: 2022/23; Rent of a berth: £44"),
        (
            "May dogs be off the lead on the quay?",
            "As amended 2023 (current): Dogs may be off the lead",
        ),
        ("When was a berth £44 a year?", "Year: 2022/23"),
    ],
)
def test_the_entry_of_the_latest_year_answers_unless_the_question_has_a_year(
    reader: AnswerReader, tmp_path: Path, question: str, answer: str
) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        rents = "\n".join(f"| {year}/{year - 1999} | £{year - 1978} | {year - 2000} |" for year in (2022, 2023, 2024))
        store.put("rents", f"| Year | Rent of a berth | Deposit |\n| --- | --- | --- |\n{rents}\n", format="markdown")
        rules = (
            "*2009:* Dogs shall be kept on a lead.",
            "*As amended 2016:* Dogs may be off the lead on the quay.",
            "*As amended 2023 (current):* Dogs may be off the lead on the quay before 10 am and after 6 pm only.",
        )
        store.put("byelaws", "# Byelaws\n\n## Dogs\n\n" + "\n\n".join(rules) + "\n", format="markdown")
        paragraphs = [
            text for text in store.ask(question).text.split("\n\n") if not text.startswith("The documents do")
        ]
    assert answer in paragraphs[0], paragraphs


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (
            "What is the rent with the slipway?",
            "the rent is £210 a month for the boathouse, and £260 with the slipway.",
        ),
        ("How many keys does the tenant get?", "the tenant gets four keys."),
        ("How old must a tenant be?", "a tenant is 18 or older."),
        ("What does a lost key cost?", "A lost key costs £30."),
    ],
)
def test_an_amendment_at_the_end_replaces_the_section_above(
    reader: AnswerReader, tmp_path: Path, question: str, answer: str
) -> None:
    lease = (
        "# Lease of the boathouse\n",
        "## § 2 Rent\n\nThe tenant pays a rent of £180 a month for the boathouse, and £220 with the slipway.\n",
        "## § 3 Keys\n\nThe tenant gets two keys. A lost key costs £30.\n",
        "## § 4 Age\n\nA tenant is 21 or older.\n",
        "## Amendment 1 of 15 June 2023\n\n- § 3: the tenant gets four keys.\n- § 4: a tenant is 18 or older.\n",
        "## Amendment 2 of 1 March 2025\n\n"
        "- § 2: the rent is £210 a month for the boathouse, and £260 with the slipway.\n",
    )
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("lease", "\n".join(lease), format="markdown")
        assert store.ask(question).text.partition(" [1]")[0].endswith(answer), store.ask(question).text


@pytest.mark.parametrize(
    ("question", "outcome"),
    [
        ("What is the Fenilox dose for goats?", "answered"),
        ("What is the Fenilox dose for sheep?", "nearest"),
        ("What is the Torvan dose for sheep?", "answered"),
    ],
)
def test_a_row_below_the_heading_of_another_thing_does_not_answer(
    reader: AnswerReader, tmp_path: Path, question: str, outcome: str
) -> None:
    tables = {"Goats": ("Fenilox | 4 mg/kg", "Torvan | 2 mg/kg"), "Sheep": ("Torvan | 9 mg/kg", "Mirola | 1 mg/kg")}
    sections = (
        f"## {animal}\n\n| Drug | Dose |\n| --- | --- |\n" + "".join(f"| {row} |\n" for row in rows)
        for animal, rows in tables.items()
    )
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("doses", "# Doses\n\n" + "\n".join(sections), format="markdown")
        answer = store.ask(question)
    assert answer.outcome == outcome, answer.text


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who managed to get the jammed lock gate moving again for the boat after the high water?", "Keeper Hobbs"),
        ("When did the boat get to the closed lock after the long trip down the river?", "23:27"),
    ],
)
def test_a_question_with_details_that_the_text_lacks_is_answered(
    reader: AnswerReader, tmp_path: Path, question: str, answer: str
) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put(
            "log",
            "Vale 11 reached the lock gate at 23:27 and moored below the weir. The skipper went ashore to ring the "
            "keeper.\n\nThe gate was stuck since the flood. Keeper Hobbs opened it by hand.",
        )
        store.put("house", "The lounge is let to members for 60 euros a day. Fires are lit only by the warden.")
        store.put("rules", "Nobody under 16 walks the dogs. Raw food is not accepted since the freezer broke in May.")
        result = store.ask(question)
    assert result.outcome == "answered" and answer in result.text, result.text


def test_a_noun_that_only_another_document_has_lowers_the_confidence(reader: AnswerReader, tmp_path: Path) -> None:
    confidences = []
    for instrument in ("flute", "trumpet"):
        with kvstore.open(tmp_path / instrument, settings={"language": "rules"}) as store:
            store.put("prices", "Hiring an instrument costs £40 a term. The piano lesson costs £25. Tea is free.")
            store.put("cupboard", f"The {instrument} is in the cupboard of the music room.")
            confidences.append(store.ask("How much does it cost to hire a trumpet?").confidence)
    assert confidences[1] < confidences[0] - 0.02, confidences


def test_a_question_for_two_dates_is_answered_for_each(reader: AnswerReader, tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        for month, amount in (("March", "1,370"), ("April", "1,275"), ("May", "1,190")):
            text = f"# Report of {month} 2025\n\n- Cash at the bank: {amount} euros\n- Cash spent so far: 827 euros\n"
            store.put(f"{month}.md", text, format="markdown")
        answer = store.ask("How much cash was at the bank in March and April 2025?")
    assert "1,370" in answer.text and "1,275" in answer.text and "1,190" not in answer.text, answer.text
    assert [part.citation for part in answer.parts] == [1, 2]


def test_a_pronoun_in_the_second_part_means_the_subject_of_the_first(reader: AnswerReader, tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("skerry", "The tower on the Skerry was built by Ada Quill. It was first lit in 1871.", title="Skerry")
        store.put("head", "Tolland Head was built by Tom Berg. It was first lit in 1902.", title="Tolland Head")
        answer = store.ask("Who built the tower on the Skerry and when was it first lit?")
        assert [part.span and part.span.text for part in answer.parts] == ["Ada Quill", "1871"]


def test_two_qualities_of_one_thing_are_asked_about_that_thing(reader: AnswerReader, tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("punt", "The punt was built in Hale. It is painted green. The punt is 6 meters long and 90 cm wide.")
        store.put("river", "The river is 40 km long, flows fast and is 12 meters wide at its mouth.")
        answer = store.ask("How long and how wide is the punt?")
        assert [citation.text for citation in answer.citations] == ["The punt is 6 meters long and 90 cm wide."]
        assert [part.citation for part in answer.parts] == [1, 1]


@pytest.mark.parametrize(
    ("question", "verdict"),
    [
        ("Does the keeper live in the tower?", "yes"),
        ("Was the harbor dug in 1820?", "no"),
        ("Was the crane of the harbor painted by Ada Quill?", None),
        ("Who lives in the tower?", None),
    ],
)
def test_yes_or_no_is_returned_if_the_sentence_settles_it(
    harbor: kvstore.Store, question: str, verdict: str | None
) -> None:
    assert harbor.ask(question).verdict == verdict


def test_the_yes_or_no_below_the_same_question_is_quoted_and_settles_it(reader: AnswerReader, tmp_path: Path) -> None:
    text = (
        "# Can I bring an assistance dog?\n\nYes. Tell the box office when you book, and your dog gets a seat.\n\n"
        "# Can I pay by check?\n\nNo. We take cards and cash at the till.\n\n# Do cats stay at home?\n\n"
        "No. Cats may come if they are in a basket."
    )
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("faq", text, format="markdown")
        dog, check, cats = map(
            store.ask, ("Can I bring my assistance dog?", "Can I pay by check?", "Can cats come in a basket?")
        )
    assert dog.text.partition("[1]")[0].endswith("Yes. Tell the box office when you book, and your dog gets a seat. ")
    assert (dog.verdict, check.verdict) == ("yes", "no") and cats.verdict != "no"


def test_the_sentence_before_a_pronoun_does_not_settle_a_question(reader: AnswerReader, tmp_path: Path) -> None:
    text = "The harbor office opens at 7:30. It is closed on Sundays. The master is Ida Berg. She never rests."
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("harbor", text, title="Harbor office")
        answer = store.ask("Is the office open on Sundays?")
        rests = store.ask("Does Ida Berg rest?")
    assert answer.text.startswith("Harbor office: It is closed on Sundays.") and answer.verdict is None
    assert rests.verdict == "no"


def test_a_pronoun_in_the_answer_to_a_part_is_explained(reader: AnswerReader, tmp_path: Path) -> None:
    text = "The harbor master is Ingrid Solberg. She approves longer stays, within three days of the request."
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("harbor", f"Dogs must be on a leash. {text}", title="Harbor office")
        approval = store.ask("Who approves longer stays, and by when?")
        answer = store.ask("Who is the harbor master, and who approves longer stays?")
    assert approval.text == f"{text} [1]"
    assert answer.text.count("Ingrid Solberg") == 1 and "She approves longer stays" in answer.text


def test_numbered_steps_are_listed_with_their_numbers(reader: AnswerReader, tmp_path: Path) -> None:
    steps = "1. Switch the oven off.\n2. Brush out the crumbs.\n3. Wipe the stone with a dry cloth. Never use water."
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("oven", f"# HB-4 oven\n\nIt has four decks.\n\n## Cleaning\n\n{steps}", format="markdown")
        answer = store.ask("How do I clean the oven?")
    assert answer.text.startswith(f"HB-4 oven > Cleaning:\n{steps} [1]"), answer.text


def test_a_foreign_question_is_refused_even_if_the_reader_likes_a_sentence(
    reader: AnswerReader, tmp_path: Path
) -> None:
    sentence, question = "Jeder Mitarbeiter hat 25 Tage Urlaub.", "Who wins the election?"
    assert reader.read(question, [sentence])[0].logit > 0
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("leave", sentence)
        assert store.ask(question).outcome == "nearest"


def test_a_long_question_is_read_if_a_sentence_settles_it(harbor: kvstore.Store) -> None:
    answer = harbor.ask("How many euros do boats pay for a night in the harbor, apart from other fees and charges?")
    assert answer.answer_span is not None and answer.answer_span.text.startswith("twelve")
    chain = harbor.ask(
        "Which famous engineer built cranes for the navy before the person whose tower the keeper painted?"
    )
    assert chain.answer_span is None and chain.confidence <= 0.5


def test_a_row_answers_a_long_question_that_its_other_cells_make_unlike_it(
    reader: AnswerReader, tmp_path: Path
) -> None:
    (tmp_path / "roster.csv").write_text(
        "Driver,Tractor,Mon 16 Jun,Tue 17 Jun,Wed 18 Jun,Thu 19 Jun,Fri 20 Jun,Sat 21 Jun,ADR card until,Remarks\n"
        "Lee Brannigan,FX21 HMB,Brigg 2x,Brigg 2x,yard,Lincoln,Lincoln,off,2026-08,light duties\n"
        "Shaun Pickersgill,FX20 WDL,Doncaster,Doncaster,off,Brigg 2x,Brigg 2x,off,2026-02,no reversing left-hand\n"
        "Musa Conteh,YJ23 RRE,Manchester,Stoke,Manchester,off,Nottingham,Cleethorpes,2028-03,nights away allowed\n",
        encoding="utf-8",
    )
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.ingest(tmp_path / "roster.csv", workers=0)
        answer = store.ask(
            "A customer asks until when Shaun Pickersgill's ADR card allows him to transport dangerous goods by lorry?"
        )
    assert answer.outcome == "answered" and "2026-02" in answer.text, answer.text


def test_a_question_of_six_words_about_a_linked_thing_needs_one_sentence(reader: AnswerReader, tmp_path: Path) -> None:
    (tmp_path / "inventory.csv").write_text(
        "Inventory no.,Instrument,Maker,Room,Bought,Price (kr),Responsible\n"
        "TI-023,Microscope Okular M2,Fossum,L1,2023-01-17,38700,Ingrid Solvang\n"
        "TI-015,pH meter Syra 7,Elgaard,L2,2020-02-20,14900,Malene Tveit\n",
        encoding="utf-8",
    )
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.ingest(tmp_path / "inventory.csv", workers=0)
        store.put("mail", "The service contract with Fossum covers the balances. Last year the audit had two findings.")
        answer = store.ask("Is the microscope Okular M2 covered by a service contract?")
    assert answer.outcome == "nearest", answer.text


def test_the_sentence_before_explains_a_pronoun_and_gives_a_reason(reader: AnswerReader, tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("leave", "Parental leave lasts twenty weeks. Maria Jensen approves it.")
        store.put("meeting", "The hall was flooded on Monday. For this reason, the meeting moved to the school.")
        approval = store.ask("Who approves parental leave?")
        assert [citation.text for citation in approval.citations][:2] == [
            "leave: Maria Jensen approves it.",
            "Parental leave lasts twenty weeks.",
        ]
        reason = store.ask("Why did the meeting move to the school?")
        assert "The hall was flooded on Monday." in reason.citations[0].text


def test_words_limit_the_context(harbor: kvstore.Store) -> None:
    question = "Who built the crane of the harbor?"
    (short,) = harbor.execute(f"ASK '{question}' WORDS 8").fetchall()
    (long,) = harbor.execute(f"ASK '{question}' WORDS 200").fetchall()
    assert len(short[1]) == 1 < len(long[1])
    assert long[0].startswith(short[0])


def test_a_missing_reader_is_reported_once(
    harbor: kvstore.Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(reader_module, "find_english_folder", lambda name: tmp_path)
    load_reader.cache_clear()
    try:
        with pytest.warns(UserWarning, match="answer reader is not installed"):
            assert "Ada Quill" in harbor.ask("Who built the crane of the harbor?").text
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            harbor.ask("Who built the crane of the harbor?")
    finally:
        load_reader.cache_clear()


@pytest.mark.parametrize(
    ("question", "text", "is_missing"),
    [
        ("What does the plumber charge?", "The plumber charges 85 euros.", False),
        ("What does the plumber charge?", "The plumber came on 3 May 2024.", True),
        ("What does the plumber charge?", "Plumber 0171 99 12 44", True),
        ("How much is the rent?", "Rent: 1,150", False),
        ("What do I pay if I lock myself out?", "Lockout: at any time", True),
        ("What does the tour cost?", "Service: tour; Price: free of charge", False),
        ("What does the tour cost?", "Members pay half the price.", False),
        ("What does the tour cost?", "The tour is free for children.", False),
        ("What does the tour cost?", "Feel free to ask for a tour.", True),
        ("How long may a booking be?", "A booking may last three days.", False),
        ("How long may a booking be?", "A booking is made by mail.", True),
        ("What share of the pay is kept?", "70 % of the pay is kept.", False),
        ("How often may I swim free?", "Members swim free once a week.", False),
        ("How much notice must I give?", "Give one month's notice.", False),
        ("How much notice must I give?", "Give notice in section 4.", True),
        ("How much holiday pay do I get?", "Holiday pay is 80 euros.", False),
        ("How many keys do I get?", "Each tenant gets one key.", False),
        ("How many keys do I get?", "For a lost key, one must pay.", True),
        ("How many disks fail?", "Error E-1407: a disk fails.", True),
        ("Who is the plumber?", "The plumber came late.", False),
        ("How heavy is the anchor?", "The anchor is 20 m long.", True),
        ("How heavy is the anchor?", "Anchor; weight (kg): 20", False),
        ("How many litres does the tank hold?", "The generator runs for nine hours on one tank.", True),
        ("How many litres does the tank hold?", "The tank holds four hundred litres.", False),
        ("How many kilometres is the walk?", "The walk is 7.5 km long.", False),
        ("How long is the hose?", "Hose: 20m", False),
        ("How long was it the capital?", "It was the capital until 1796.", False),
        ("How long has the dog been bred?", "It has been bred for several years.", False),
        ("How often is it updated?", "It is updated every month.", False),
        ("How often is it updated?", "It is updated regularly.", False),
        ("How often is it updated?", "It is updated by the staff.", True),
        ("What time does the pool open?", "It is open on the first Saturday.", True),
        ("What time does the pool open?", "It opens at 9 and closes at 5.", False),
        ("What color is the cat?", "The cat likes salmon.", True),
        ("What color is the cat?", "A ginger cat.", False),
        ("What is the serial number of the boiler?", "Boiler; inventory no.: TI-011", True),
        ("What is the serial number of the boiler?", "Boiler; S/N: KX-12", False),
        ("What is the license plate of the van?", "The van is on space 22.", True),
        ("What is the license plate of the van?", "Van, AB12 CDE", False),
        ("How high is the mountain?", "It is 2,643 ft high.", False),
        ("What is the fee?", "Admission is free.", False),
        ("What controls wages?", "Competition controls wages.", False),
        ("What limits the speed?", "The wind limits the speed.", False),
        ("What size is the mattress?", "A queen mattress.", False),
        ("When was the dog sold?", "The dog was sold to a farmer.", True),
        ("When was the dog sold?", "The dog was sold after the summer.", False),
        ("When do the fireworks start?", "Gates 5.30 pm, fireworks 7 pm.", False),
        ("When is the show?", "Show: Sat 6 Sept", False),
        ("When do the fireworks start?", "Fireworks: 7 pumps", True),
        ("On which day is the lesson?", "The lessons are on Tuesdays.", False),
    ],
)
def test_the_form_of_amounts_is_demanded(question: str, text: str, is_missing: bool) -> None:
    assert detect_answer_type(question).is_missing_in(text) == is_missing


def test_a_date_in_the_question_identifies_the_document(reader: AnswerReader, tmp_path: Path) -> None:
    keepers = ["Ann", "Bea", "Cleo", "Dora", "Ella", "Fay", "Gwen", "Hana", "Ines", "Jana"]
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        for number, keeper in enumerate(keepers, 1):
            date = f"2026-03-{number:02}"
            text = (
                f"# Council\n\n- Date: {date}\n\n## Roles\n\n- Facilitator: {keeper} Berg\n\n## Agenda\n\nThe harbor."
            )
            store.put(f"minutes/{date}.md", text, format="markdown")
        answer = store.ask("Who was the facilitator of the council on 2026-03-07?")
    assert "Facilitator: Gwen Berg" in answer.text.partition(" [1]")[0], answer.text


@pytest.mark.parametrize(
    "question", ["What is the value of thin_after_days?", "What is thin_after_days set to?", "value of poll_interval_s"]
)
def test_a_setting_is_found_by_its_key_as_it_is_written(reader: AnswerReader, tmp_path: Path, question: str) -> None:
    text = "[storage]\nthin_after_days = 45\nkeep_days = 900\n\n[poll]\npoll_interval_s = 30\nbatch_size = 12\n"
    with kvstore.open(tmp_path / "store") as store:
        store.put("fermwatch.toml", text)
        answer = store.ask(question)
    assert answer.outcome == "answered"
    assert ("45" if "days" in question else "30") in answer.text.split("\n\n")[0]


@pytest.mark.parametrize(
    ("question", "answer"),
    [("How much does the meter weigh?", "4.5 kg"), ("What is the phone extension of Bjarne Lunde?", "extension 412")],
)
def test_a_weight_and_a_telephone_extension_have_forms(
    reader: AnswerReader, tmp_path: Path, question: str, answer: str
) -> None:
    with kvstore.open(tmp_path / "store") as store:
        store.put("meter", "The meter measures 0.5 to 60 liters per minute. Bjarne Lunde phones on 12 May.")
        store.put("note", "Without its stand, it weighs 4.5 kg. Bjarne Lunde: extension 412.", title="Meter")
        assert answer in store.ask(question).text.split("\n\n")[0]


def test_the_newest_thing_has_the_latest_date_in_the_past_and_no_row_is_an_average(
    reader: AnswerReader, tmp_path: Path
) -> None:
    rows = ["| Instrument | Bought | Next calibration | Price |", "| --- | --- | --- | --- |"]
    rows += ["| Scale | 2019-03-01 | 2027-05-01 | $900 |", "| Meter | 2024-06-01 | 2026-02-01 | $400 |"]
    with kvstore.open(tmp_path / "store") as store:
        store.put("instruments", "# Instruments\n\n" + "\n".join(rows), format="markdown")
        assert "Meter" in store.ask("Which instrument is the newest?").text.split("\n\n")[0]
        assert store.ask("What is the average price of an instrument?").outcome == "nearest"


@pytest.mark.parametrize(
    ("question", "shop"),
    [
        ("Which shop opened first?", "Birch"),
        ("Which shop was the last to open?", "Cedar"),
        ("Which shop closed first?", "Alder"),
        ("Who is the manager of the shop that closed last?", "Birch"),
        ("Which shop opened the latest?", "Cedar"),
        ("Which was the earliest shop to close?", "Alder"),
    ],
)
def test_first_and_last_compare_the_dates_that_the_verb_names(
    reader: AnswerReader, tmp_path: Path, question: str, shop: str
) -> None:
    rows = ["| Shop | Manager | Opened | Closed |", "| --- | --- | --- | --- |"]
    rows += ["| Alder | Ann Lund | 12 May 2011 | 3 March 2019 |", "| Birch | Per Holm | 1 June 2008 | 9 April 2021 |"]
    rows += ["| Cedar | Mia Roth | 20 July 2015 | 30 January 2020 |"]
    with kvstore.open(tmp_path / "store") as store:
        store.put("shops", "# Shops\n\n" + "\n".join(rows), format="markdown")
        assert f"Shop: {shop}" in store.ask(question).text.split("\n\n")[0]
        assert store.ask("Which shop opened last year?").outcome == "nearest"


@pytest.mark.parametrize("question", ["What is the average rainfall in Oslo?", "What is the mean rainfall in Oslo?"])
def test_a_row_can_have_an_average(reader: AnswerReader, tmp_path: Path, question: str) -> None:
    rows = ["| City | Mean rainfall | Population |", "| --- | --- | --- |", "| Oslo | 763 | 700000 |"]
    with kvstore.open(tmp_path / "store") as store:
        store.put("cities", "# Cities\n\n" + "\n".join([*rows, "| Rome | 878 | 2800000 |"]), format="markdown")
        assert store.ask(question).outcome == "answered"
        assert store.ask("What is the average population of the cities?").outcome == "nearest"


@pytest.mark.parametrize(
    "question",
    [
        "What does the board pay for the roof of the depot, 1600 euros or less?",
        "What does the board pay for the roof of the depot after 2019?",
    ],
)
def test_an_amount_or_the_limit_of_a_period_is_no_other_year(
    reader: AnswerReader, tmp_path: Path, question: str
) -> None:
    with kvstore.open(tmp_path / "store") as store:
        store.put("history", "The depot was built in 2019 for 1600 euros.")
        store.put("budget-2024.md", "# Budget\n\nThe board pays 900 euros for the roof of the depot.")
        assert "900 euros" in store.ask(question).text.split("\n\n")[0]


@pytest.mark.parametrize(("year", "outcome"), [(2026, "answered"), (2023, "nearest")])
def test_a_document_of_another_year_does_not_answer(
    reader: AnswerReader, tmp_path: Path, year: int, outcome: str
) -> None:
    with kvstore.open(tmp_path / "store") as store:
        store.put("minutes-2026-04-28.md", "# Meeting\n\nThe Brandreth Foundation gives £20,000 for the loop.")
        answer = store.ask(f"How much did the Brandreth Foundation give in {year}?")
    assert answer.outcome == outcome
    assert "£20,000" in answer.text


@pytest.mark.parametrize(("month", "outcome"), [("March", "answered"), ("April", "nearest")])
def test_a_numeric_date_is_in_its_month(reader: AnswerReader, tmp_path: Path, month: str, outcome: str) -> None:
    rows = (
        "gyle,beer,brewed,brewer,litres,fermenter,yeast,notes",
        "G11,Saison Sunday,2025-03-20,Ines Duarte,790,FV3,Belle Saison,Packaged a week early.",
        "G17,Hazel Mild,2025-04-15,Ines Duarte,810,FV3,Windsor,Colour a shade lighter.",
        "G18,Regatta Gold,2025-05-20,Bo Hollis,600,FV3,Nottingham,Seasonal for the regatta.",
    )
    (tmp_path / "batches.csv").write_text("\n".join(rows))
    with kvstore.open(tmp_path / "store") as store:
        store.ingest(tmp_path / "batches.csv")
        answer = store.ask(f"Which yeast was used for the Saison Sunday in {month}?")
    assert answer.outcome == outcome and "yeast: Belle Saison" in answer.text


@pytest.mark.parametrize("month", ["Sept. 2025", "Sep 2025", "2025-09", "09/2025"])
def test_a_month_is_known_by_its_abbreviation_and_number(reader: AnswerReader, tmp_path: Path, month: str) -> None:
    table = f"| Month | Renewed | Left |\n|---|---|---|\n| {month} | 14 | 3 |"
    with kvstore.open(tmp_path / "store") as store:
        store.put("members", f"# Membership\n\n## Renewals\n\n{table}\n", format="markdown")
        assert store.ask("How many members left in September 2025?").outcome == "answered"
        assert store.ask("How many members left in October 2025?").outcome == "nearest"


@pytest.mark.parametrize(
    ("day", "outcome"), [("a Friday", "answered"), ("Saturdays", "answered"), ("a Sunday", "nearest")]
)
@pytest.mark.parametrize("column", ["Fri–Sat", "Fridays and Saturdays"])
def test_a_weekday_is_known_by_its_abbreviation_and_in_a_range(
    reader: AnswerReader, tmp_path: Path, column: str, day: str, outcome: str
) -> None:
    table = (
        f"| Activity | Mon–Thu | {column} |\n|---|---|---|\n| Live music | none | 19:00–22:30 |\n| Dogs | yes | yes |"
    )
    with kvstore.open(tmp_path / "store") as store:
        store.put("licence", f"# Licence\n\n## Hours granted\n\n{table}\n", format="markdown")
        answer = store.ask(f"Until when may live music be played on {day}?")
    assert answer.outcome == outcome and "19:00–22:30" in answer.text


def test_a_list_is_read_with_the_sentence_that_introduces_it(reader: AnswerReader, tmp_path: Path) -> None:
    text = (
        "## Donors\n\nWe received donations from:\n\n- Arnold Quill\n- Ada Berg\n\n## Gifts\n\nA gift is worth 5 euros."
    )
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("donors", f"# Harbor fund\n\n{text}", format="markdown")
        answer = store.ask("From whom did we receive donations?")
    assert "Arnold Quill" in answer.text and "Ada Berg" in answer.text, answer.text


def test_the_persons_below_a_heading_are_listed(reader: AnswerReader, tmp_path: Path) -> None:
    persons = "- Ann Lee, chair\n- Bo Ray\n- Cy Day, secretary"
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("rules", f"# Rules\n\n## Members of the audit committee\n\n{persons}", format="markdown")
        answer = store.ask("Who sits on the audit committee?")
        assert answer.text.startswith(f"Rules > Members of the audit committee:\n{persons} [1]"), answer.text
        answer = store.ask("Who is the secretary of the audit committee?")
        assert answer.text.startswith("Rules > Members of the audit committee: Cy Day, secretary [1]"), answer.text


def test_a_sentence_of_two_words_answers(reader: AnswerReader, tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("rules", "# Rules\n\n## Kitchen\n\nDogs forbidden.\n\n## Hall\n\nIt is big.", format="markdown")
        answer = store.ask("Are dogs allowed in the kitchen?")
    assert answer.text == "Kitchen: Dogs forbidden. [1]"


def test_a_row_of_a_table_answers_only_about_its_cells(reader: AnswerReader, tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "prices") as store:
        rows = ("Item | Hire | Deposit", "---|---|---", "Tile cutter | 3 EUR | 20 EUR", "Sander | 22 EUR | 150 EUR")
        table = "\n".join(f"| {row} |" for row in rows)
        store.put("prices", f"# Weekly hire\n\n{table}\n", title="Prices", format="markdown")
        answer = store.ask("What deposit do I pay for the sander?")
        assert answer.outcome == "answered" and "150 EUR" in answer.text.partition("\n")[0]
        assert store.ask("What deposit do I pay for the chipper?").outcome == "nearest"


def test_a_sentence_that_lacks_the_words_of_a_yes_or_no_question_is_only_the_nearest(harbor: kvstore.Store) -> None:
    assert harbor.ask("Does the harbor rent kayaks?").outcome != "answered"


def test_the_reader_gets_the_sentence_that_asks(harbor: kvstore.Store) -> None:
    answer = harbor.ask(
        "My cousin admires old machines and takes all of us to museums. Who built the crane of the harbor?"
    )
    assert answer.answer_span is not None and answer.answer_span.text == "Ada Quill"


CHANGES = """# Changes

All changes of the Tern compass app.

## [1.4.0] - 2026-03-04
### Added
- Tide tables for the northern harbors.

## [1.3.2](https://example.org/1.3.2) (17 January 2026)
### Fixed
- The needle no longer sticks in the cold.
"""


@pytest.mark.parametrize(("version", "date"), [("1.4.0", "2026-03-04"), ("v1.3.2", "17 January 2026"), ("1.2.9", None)])
def test_the_heading_of_a_release_answers_when_it_was_released(
    reader: AnswerReader, tmp_path: Path, version: str, date: str | None
) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("CHANGES.md", CHANGES, format="markdown")
        answer = store.ask(f"When was {version} released?")
        tested = store.ask("When was 1.4.0 tested?")
    assert (answer.answer_span and answer.answer_span.text) == date, answer.text
    assert (answer.outcome == "answered") == (date is not None)
    assert tested.outcome == "nearest"


@pytest.mark.parametrize(
    ("question", "entry"),
    [
        ("Which release introduced tide tables?", "[1.4.0] - 2026-03-04 > Added: Tide tables"),
        ("Which version fixed the sticking needle?", "The needle no longer sticks"),
        ("Which release introduced moon phases?", None),
    ],
)
def test_a_list_of_changes_answers_which_release_changed_something(
    reader: AnswerReader, tmp_path: Path, question: str, entry: str | None
) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("CHANGES.md", CHANGES, format="markdown")
        answer = store.ask(question)
    assert (answer.outcome == "answered") == (entry is not None), answer.text
    assert entry is None or entry in answer.text.split("\n\n")[0]


@pytest.mark.parametrize(
    ("question", "heading"),
    [
        ("What is the latest version of Tern?", "[1.10.0] - 2026-05-02"),
        ("What is the current version of the Tern app, and when was it released?", "[1.10.0] - 2026-05-02"),
        ("What is the latest version of the Linux kernel?", None),
    ],
)
def test_a_list_of_changes_has_the_latest_version(
    reader: AnswerReader, tmp_path: Path, question: str, heading: str | None
) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("CHANGES.md", f"{CHANGES}\n## [1.10.0] - 2026-05-02\n- Fixed the light.\n", format="markdown")
        store.put(
            "upgrade.md", "# Upgrade\n\nGo from version 1.2 to 1.4 first, then to the latest.\n", format="markdown"
        )
        answer = store.ask(question)
    assert (answer.outcome == "answered") == (heading is not None), answer.text
    assert heading is None or heading in answer.text.split("\n\n")[0]


@pytest.mark.parametrize(
    ("question", "text"),
    [
        (
            "What's new in 1.4?",
            "[1.4.0] - 2026-03-04: Added: Tide tables for the northern harbors. [1]\n\n"
            "[1.4.0] - 2026-03-04: Removed: The star chart. [2]",
        ),
        ("What was removed in Tern 1.4.0?", "[1.4.0] - 2026-03-04: Removed: The star chart. [1]"),
        ("What changed in 1.7?", None),
    ],
)
def test_the_changes_in_a_version_are_quoted(
    reader: AnswerReader, tmp_path: Path, question: str, text: str | None
) -> None:
    changes = CHANGES.replace("\n\n## [1.3.2]", "\n### Removed\n- The star chart.\n\n## [1.3.2]")
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("CHANGES.md", changes, format="markdown")
        answer = store.ask(question)
    assert (answer.outcome == "answered") == (text is not None), answer.text
    assert text is None or answer.text == text


@pytest.mark.parametrize(
    ("question", "number"),
    [
        ("When was version 2.3.4 released?", "2.3.4"),
        ("When was version 2.7 released?", "2.7"),
        ("When was version 2.3 released?", None),
    ],
)
def test_a_version_that_no_document_has_is_not_answered(
    reader: AnswerReader, tmp_path: Path, question: str, number: str | None
) -> None:
    table = "| Version | Released |\n|---|---|\n| 2.4 | 2025-09-15 |\n| 2.3 | 2025-05-27 |\n| 2.2 | 2025-02-03 |\n"
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("versions.md", f"# Supported versions\n\n{table}", format="markdown")
        answer = store.ask(question)
    assert (answer.outcome == "answered") == (number is None), answer.text
    assert number is None or f"No document mentions {number}." in answer.text


@pytest.mark.parametrize("lease", ["90s", "90 min", "2h", "3 d"])
def test_a_short_unit_of_time_is_a_duration(reader: AnswerReader, tmp_path: Path, lease: str) -> None:
    rows = f"| Lease of a job | {lease} |\n| Keeping of the log of a job | 30 days |"
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("defaults.md", f"# Defaults\n\n| Setting | Default |\n|---|---|\n{rows}\n", format="markdown")
        answer = store.ask("How long is the lease of a job?")
    assert answer.outcome == "answered" and lease in answer.text.split("\n\n")[0], answer.text


def test_a_sentence_without_a_subject_is_read_with_the_one_before_it(reader: AnswerReader, tmp_path: Path) -> None:
    text = (
        "The diesel pump is dropped in June, because parts are rare. Proposed by Ada Quill, accepted with four votes."
    )
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("minutes.md", f"# Minutes of May\n\n{text} The vote against came from Ole Voss.\n", format="markdown")
        answer = store.ask("Who proposed dropping the diesel pump?")
    assert answer.outcome == "answered" and "Ada Quill" in answer.text.split("\n\n")[0], answer.text


def test_the_day_of_a_date_is_not_a_range_of_years(reader: AnswerReader, tmp_path: Path) -> None:
    text = "Team offsite\nWhen: Wednesday, 19 November 2025 (2025-11-19)\nWhere: Hotel Aurora, Lichtaart\n"
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("offsite", text, title="Team offsite")
        answer = store.ask("Where was the team offsite in 2024?")
    assert answer.confidence < 0.5, answer.text


def test_a_reply_between_quoted_lines_is_read_with_the_quoted_question(reader: AnswerReader, tmp_path: Path) -> None:
    text = (
        "Hello Ole,\n\nsee below.\n\n> 1. We have 200 sheep. How long does the shearing take?\n\nAbout two days.\n\n"
        "> 2. We are short of hay. Where is the nearest depot?\n\nIn Moss, next to the mill.\n"
    )
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("mail", text, title="Your sheep")
        answer = store.ask("Where is the nearest depot for hay?")
    assert answer.outcome == "answered", answer.text
    assert "In Moss, next to the mill." in answer.text and "Where is the nearest depot?" in answer.text


PLANS = """# Plans of Tern

Prices per month.

| | Hobby | Team | Business |
|---|---|---|---|
| Price | €0 | €79 | €490 |
| Members | 2 | 15 | unlimited |
| Job runs included | 5,000 | 150,000 | 2,000,000 |
| Each further 1,000 runs | – | €0.40 | €0.25 |
| Schedules | 20 | 500 | unlimited |
| Longest run of a job | 30 min | 6 h | 48 h |
| Parallel jobs | 3 | 50 | 400 |
| Audit log | no | 30 days | 1 year |
"""


def test_a_row_is_read_with_the_column_that_the_question_names(reader: AnswerReader, tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("plans.md", PLANS, format="markdown")
        answer = store.ask("How many members can a Team workspace have?")
    assert "Members; Hobby: 2; Team: 15" in answer.text.split("\n\n")[0], answer.text


def test_a_row_in_another_part_of_the_table_of_a_hit_is_read(reader: AnswerReader, tmp_path: Path) -> None:
    notes = (
        "Schedules of a hobby plan can be paused. How to write schedules is described in the guide for hobby users."
        " Schedules are allowed to have seconds. Schedules that overlap are not allowed on a plan. A hobby plan has no"
        " schedules with seconds. Hobby schedules run in the night. Schedules are deleted after a year. Hobby plans are"
        " allowed to export schedules. All schedules are in UTC."
    ).split(". ")
    with kvstore.open(tmp_path / "store", settings={"language": "rules", "chunk_tokens": 64}) as store:
        store.put("plans.md", PLANS, format="markdown")
        for number, note in enumerate(notes):
            text = f"{note}. The rest of this note is about the harbor and its crane."
            store.put(f"note-{number}", text, title=f"Note {number}")
        answer = store.ask("How many schedules are allowed on Hobby?")
    first_paragraph = answer.text.split("\n\n")[0]
    assert "Schedules; Hobby: 20" in first_paragraph and "Members" not in first_paragraph, answer.text


def test_a_question_names_a_row_as_it_is_written(reader: AnswerReader, tmp_path: Path) -> None:
    rows = (
        "| no_leader | No node leads for 60 s |\n| pg_disk | The volume is full |\n| lag_high | The replica is late |"
    )
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("alerts.md", f"# Runbook\n\n| Alert | Meaning |\n|---|---|\n{rows}\n", format="markdown")
        answer = store.ask("What does pg_disk mean?")
    assert answer.confidence > 0.8, answer.text
    assert "Alert: pg_disk; Meaning: The volume is full" in answer.text.split("\n\n")[0]


@pytest.mark.parametrize(("year", "is_answered"), [(2025, True), (2023, False)])
def test_a_row_with_the_date_of_another_year_is_no_answer(
    reader: AnswerReader, tmp_path: Path, year: int, is_answered: bool
) -> None:
    rows = "| 2025-02-03 | Crane motor | 310 EUR |\n| 2025-05-09 | Harbor light | 45 EUR |"
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("costs.md", f"# Repairs\n\n| Date | Item | Cost |\n|---|---|---|\n{rows}\n", format="markdown")
        answer = store.ask(f"What did the repair of the crane motor cost in {year}?")
    assert (answer.outcome == "answered") == is_answered, answer.text


MAIL = """From: Billing <billing@acme.example>
Date: Tue, 5 Mar 2024 10:00:00 +0000
Subject: Invoice 4711

Dear customer, please pay invoice 4711 over 310 euros by 2 April 2024.
"""


@pytest.mark.parametrize(
    ("question", "first_paragraph"),
    [
        ("When was the mail about invoice 4711 sent?", "Invoice 4711: Date: Tue, 05 Mar 2024 10:00:00 +0000 [1]"),
        ("Who sent the invoice?", "Invoice 4711: From: Billing <billing@acme.example> [1]"),
        ("By when must I pay invoice 4711?", "please pay invoice 4711 over 310 euros by 2 April 2024. [1]"),
    ],
)
def test_the_sender_and_the_date_of_a_mail_answer_only_about_the_mail(
    reader: AnswerReader, tmp_path: Path, question: str, first_paragraph: str
) -> None:
    (tmp_path / "invoice.eml").write_text(MAIL, encoding="utf-8")
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.ingest(tmp_path / "invoice.eml", workers=1)
        answer = store.ask(question)
    assert answer.outcome == "answered"
    assert answer.text.split("\n\n")[0].endswith(first_paragraph)


@pytest.mark.parametrize(
    "question", ["Who was copied on the mail about invoice 4711?", "To whom was invoice 4711 sent?"]
)
def test_the_sender_of_a_mail_is_no_recipient(reader: AnswerReader, tmp_path: Path, question: str) -> None:
    (tmp_path / "invoice.eml").write_text(MAIL, encoding="utf-8")
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.ingest(tmp_path / "invoice.eml", workers=1)
        assert "From:" not in store.ask(question).text


def test_a_date_in_the_title_is_shown_with_the_sentence_that_it_dates(reader: AnswerReader, tmp_path: Path) -> None:
    text = "# Harbor board, 9 June 2026\n\n## Crane\n\nThe board sold the crane to the yard in Alder Street."
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("minutes/june.md", text, format="markdown")
        answer = store.ask("When did they sell the crane?")
    assert answer.text.startswith("Harbor board, 9 June 2026: The board sold the crane"), answer.text
    assert answer.answer_span is not None and answer.answer_span.text == "9 June 2026"


TANKS = """# Fuel tanks

| Property | Value |
|---|---|
| Weight | 84 kg |
| Seal | rubber |

`refill_hours`
: Time between two refills. Default: 36.

`alarm_level`
: The level of an alarm, in liters. Default: 12.
"""


@pytest.mark.parametrize(
    ("question", "fact"),
    [
        ("How heavy are the fuel tanks?", "84 kg"),
        ("What is the default of refill_hours?", "36"),
    ],
)
def test_facts_in_rows_and_definitions_are_shown(
    reader: AnswerReader, tmp_path: Path, question: str, fact: str
) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("tanks.md", TANKS, format="markdown")
        answer = store.ask(question)
    assert answer.outcome == "answered" and fact in answer.text, answer.text


def test_a_window_has_the_question_of_a_reply_once(
    reader: AnswerReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows: list[str] = []
    read = AnswerReader.read

    def record_windows(self: AnswerReader, question: str, texts: Sequence[str]) -> list[ReaderOutput]:
        windows.extend(texts)
        return read(self, question, texts)

    monkeypatch.setattr(AnswerReader, "read", record_windows)
    text = "# Minutes\n\nMarion: Do we have a venue?\n\nOwen: The Corn Exchange is booked for 13 December.\n"
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("minutes.md", text, format="markdown")
        store.ask("Where is the concert in December?")
    replies = [window for window in windows if "Corn Exchange" in window]
    assert replies and all(window.count("Do we have a venue?") == 1 for window in replies), replies


def test_a_row_of_a_long_table_has_the_names_of_its_columns(reader: AnswerReader, tmp_path: Path) -> None:
    rows = "".join(f"| P-{number} | {number} | Quay {number} | It pumps water for boats. |\n" for number in range(200))
    text = f"# Pumps\n\n| Pump | Weight (kg) | Place | Use |\n|---|---|---|---|\n{rows}"
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("pumps.md", text, format="markdown")
        answer = store.ask("Where is the pump P-150?")
    assert "Pump: P-150; Weight (kg): 150; Place: Quay 150; Use:" in answer.text, answer.text


def test_the_row_with_the_identifier_of_the_question_is_first(reader: AnswerReader, tmp_path: Path) -> None:
    trees = ("T240 Yew Bo Ray", "T250 Bay Di Fox", "T260 Pine Bo Ray", "T252 Elm Bo Ray", "T222 Fir Bo Ray")
    rows = "\n".join(",".join(tree.split(" ", 2)) for tree in trees)
    (tmp_path / "trees.csv").write_text(f"Tree id,Species,Gardener\n{rows}\n", encoding="utf-8")
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.ingest(tmp_path / "trees.csv", workers=0)
        answers = [store.ask(f"Who is the gardener of tree {tree[:4]}?").text for tree in trees]
    assert [answer[: len("Tree id: T240")] for answer in answers] == [f"Tree id: {tree[:4]}" for tree in trees]


def test_a_row_about_another_person_does_not_answer(reader: AnswerReader, tmp_path: Path) -> None:
    rows = "Nuala Brannigan,Director,07700 900311\nBethan Crewe,Student,\nEwa Lisowska,Nurse,07700 900866\n"
    (tmp_path / "phones.csv").write_text(f"Name,Role,Mobile\n{rows}", encoding="utf-8")
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.ingest(tmp_path / "phones.csv", workers=0)
        assert store.ask("What is Bethan's mobile number?").abstained
        answer = store.ask("What is Ewa's mobile number?")
    assert "07700 900866" in answer.text.partition(" [1]")[0] and not answer.abstained, answer.text


def test_a_name_that_is_also_a_column_does_not_choose_the_row(reader: AnswerReader, tmp_path: Path) -> None:
    rows = "Gareth Hobbs,FX19 KLD,Leeds,\nDennis Hobbs,FX18 ZZT,Goole,2025-07\nMusa Conteh,YJ23 RRE,Stoke,2028-03\n"
    (tmp_path / "roster.csv").write_text(f"Driver,Tractor,Trip,ADR card until\n{rows}", encoding="utf-8")
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.ingest(tmp_path / "roster.csv", workers=0)
        store.put("course", "Appointment: ADR course\nWhen: Monday, 7 July 2025\nWhere: Hull Training Wharf")
        # The row of Dennis Hobbs has "ADR" only as the name of a column.
        assert store.ask("Until when is Gareth Hobbs's ADR card valid?").confidence < 0.1
        answer = store.ask("Until when is Dennis Hobbs's ADR card valid?")
    assert "2025-07" in answer.text.partition(" [1]")[0] and not answer.abstained, answer.text


def test_a_bare_web_address_answers_only_where(reader: AnswerReader, tmp_path: Path) -> None:
    text = "# Minutes\n\n- https://example.org/agenda-of-the-meeting\n- The agenda was approved.\n"
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("minutes.md", text, format="markdown")
        answers = [store.ask(question).text for question in ("Who approved the agenda?", "Where is the agenda?")]
    assert ["https://" in answer for answer in answers] == [False, True], answers


def test_only_the_next_speaker_of_a_chat_replies_to_a_question(reader: AnswerReader, tmp_path: Path) -> None:
    chat = (
        "Prue: Who has the key of the container?\nHal: I do, it hangs in my porch.\nPrue: When is the manure coming?\n"
        "Desmond: Saturday at ten, from Dawlish Stables.\nDesmond: The ladder in the shed is broken.\n"
        "Olive: I will order a new one on Monday, for 80 pounds.\n"
    )
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("chat", chat)
        store.put("harbor", TEXT)
        assert store.ask("When is the manure coming?").text.startswith("Desmond: Saturday at ten")
        assert store.ask("What does the new ladder cost?").outcome == "answered"


def test_a_chat_with_seconds_answers_a_question_without_a_question_mark(reader: AnswerReader, tmp_path: Path) -> None:
    chat = (
        "[05/06/2025, 12:47:33] Kirsty: does anyone have the key of the genset cupboard\n"
        "[05/06/2025, 12:49:01] Oliver: Musa took it home by accident\n"
        "[06/06/2025, 13:10:18] Carys: the malt customer has paid\n"
    )
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("chat", chat)
        answer = store.ask("Who took the key of the genset cupboard home?")
    assert "Musa" in answer.text.partition(" [1]")[0], answer.text


def test_the_plural_of_an_abbreviation_is_known(reader: AnswerReader, tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("loans.md", "# Loans\n\n- DVDs: 7 days\n- Books: 28 days\n", format="markdown")
        answer = store.ask("For how long can I borrow a DVD?")
    assert "DVDs: 7 days" in answer.text and answer.confidence > 0.6, answer


def test_a_column_can_name_the_unit_of_its_numbers() -> None:
    text = "part_no: T-5; lead_time_days: 21; price_eur: 7; phone: 31"
    questions = ("How many days does the part take?", "What does the part cost?", "What is the phone number?")
    kinds = [detect_answer_type(question) for question in questions]
    assert [kind.name for kind in kinds] == ["duration", "money", "telephone number"]
    assert not any(kind.is_missing_in(text) for kind in kinds)
    assert all(kind.is_missing_in("part_no: T-5; stock: 3") for kind in kinds)


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("What do visitors get when the night is cloudy?", "thing"),
        ("Is the field mandatory when creating an invoice?", "thing"),
        ("Do you know when the office opens?", "time"),
        ("After the fire, when was the tower rebuilt?", "time"),
        ("Since when has the tower been open?", "time"),
        ("What is the maximum depth of a tree?", "number"),
        ("What's the default page size?", "number"),
        ("What is the default log level?", "meaning"),
    ],
)
def test_a_condition_is_no_time_and_a_limit_or_default_size_is_a_number(question: str, kind: str) -> None:
    assert detect_answer_type(question).name == kind


def test_an_entry_that_the_question_names_is_shown_without_the_others(reader: AnswerReader, tmp_path: Path) -> None:
    text = "# Care\n\n- Blades: Turn them every four weeks.\n- Battery: Store it indoors in winter at half charge.\n"
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("mower.md", text, title="Mower", format="markdown")
        store.put("harbor", TEXT)
        answer = store.ask("How should the battery be kept over the winter?")
    assert answer.text.startswith("Mower > Care: Battery: Store it indoors in winter at half charge. [1]"), answer


def test_a_row_is_shown_below_the_caption_of_its_table(reader: AnswerReader, tmp_path: Path) -> None:
    text = "# Lab\n\nLeave the room.\n\nStorage limits\n\n|Substance|Limit|\n|---|---|\n|Acetone|5 l|\n|Styrene|1 l|\n"
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("lab.md", text, format="markdown")
        store.put("harbor", TEXT)
        answer = store.ask("What is the limit for styrene?")
    assert answer.text.startswith("Lab > Storage limits: Substance: Styrene; Limit: 1 l [1]"), answer


@pytest.mark.parametrize(
    "block",
    [
        "Modes:\n\n1. Calm: 8 rpm in the bay\n2. Storm: 90 rpm",
        "\n\n|mode|speed|\n|---|---|\n|calm|8 rpm|\n|storm|90 rpm|",
    ],
)
def test_a_sentence_that_answers_is_shown_without_the_block_after_it(
    reader: AnswerReader, tmp_path: Path, block: str
) -> None:
    sentence = "The lamp is turned by a motor that the keeper starts with code 4711."
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("lamp.md", f"# Lamp\n\n{sentence} {block}\n", format="markdown")
        store.put("harbor", TEXT)
        answer = store.ask("What is the code of the motor of the lamp?")
        assert answer.text == f"{sentence} [1]", answer.text
        modes = store.ask("What is the speed of the lamp in a storm?")
        assert "90 rpm" in modes.text, modes.text


def test_a_lead_in_is_not_shown_without_its_list(reader: AnswerReader, tmp_path: Path) -> None:
    text = (
        "# Lockout\n\nBefore anyone reaches into a crane for repairs:\n\n1. Tell the operator and the lead.\n"
        "2. Put your own padlock on the main switch of the crane. The padlocks hang in the box by the stairs, and each "
        "of them has a name.\n3. Wait for five minutes.\n"
    )
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("crane.md", text, format="markdown")
        answer = store.ask("Where are the padlocks kept?").text
    assert "box by the stairs" in answer and "repairs:" not in answer, answer


def test_a_list_in_the_context_is_shown_with_its_lead_in(reader: AnswerReader, tmp_path: Path) -> None:
    text = (
        "# Harbor fund\n\nThe fund has received a donation from the bank in Quay Street.\n\n## Donors\n\n"
        "We have received donations from:\n\n- Orrin Works\n- Petrel Steel"
    )
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("fund.md", text, format="markdown")
        answer = store.ask("Which bank did the fund receive a donation from?", words=60).text
    assert "Quay Street" in answer.partition("\n")[0], answer
    assert "donations from:\n- Orrin Works\n- Petrel Steel" in answer, answer


@pytest.mark.parametrize(
    ("question", "is_answered"),
    [
        ("What is the largest boat of the yard?", True),
        ("What is the smallest boat of the yard?", False),
    ],
)
def test_a_sentence_about_the_opposite_is_only_the_nearest(
    reader: AnswerReader, tmp_path: Path, question: str, is_answered: bool
) -> None:
    text = "The largest boat of the yard is the Heron. The crane can lift it."
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("yard", text, title="Yard")
        answer = store.ask(question)
    assert (answer.outcome == "answered") == is_answered, answer.text


def test_a_short_number_in_a_column_of_phones_is_a_telephone_number(reader: AnswerReader, tmp_path: Path) -> None:
    table = "| Name | Task | Phone |\n|---|---|---|\n| Ida Berg | boats | 31 |\n| Tom Quill | ropes | 27 |"
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("people.md", f"# Staff of the yard\n\n{table}\n", format="markdown")
        answer = store.ask("What is the phone number of Tom Quill?")
        mail = store.ask("What is the e-mail address of Tom Quill?")
    assert answer.outcome == "answered" and "Phone: 27" in answer.text.partition("\n")[0], answer.text
    assert mail.outcome == "nearest" and "No passage contains any e-mail address." in mail.text


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("How high is the tower?", "The tower rises 20 meters above the ground at low tide."),
        ("How large is the harbor?", "The harbor covers 3 hectares and has 12 berths for small boats."),
        ("Who first founded the museum?", "The museum was founded by Ann Lee; Bo Ray left it last year."),
        ("How many berths does the harbor have at least?", "Most visitors know that the harbor has 12 berths."),
        # The text does not have what the word of the question modifies.
        ("Where is the credit union?", "Pay by debit card at the desk."),
        ("When is the annual dinner?", "The board looks at the accounts in monthly meetings."),
    ],
)
def test_a_text_is_not_contrary(question: str, text: str) -> None:
    assert not is_contrary(find_contrasts(question), text)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("What does a credit card cost?", "A debit card costs 12 euros."),
        ("When are the annual dinners?", "A monthly dinner is held on the first Friday."),
        ("Which bank is the largest?", "The smallest one is that of Moss."),
    ],
)
def test_a_text_with_the_opposite_is_contrary(question: str, text: str) -> None:
    assert is_contrary(find_contrasts(question), text)


def test_an_item_of_a_list_is_shown_once(reader: AnswerReader, tmp_path: Path) -> None:
    text = (
        "Before a backup, these parts must be closed:\n\n- The pump must be closed for 5 minutes.\n"
        "- The valve of the tank must be closed for 12 minutes.\n- The cover must be closed for 3 minutes."
    )
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("tank.md", f"# Tank\n\n{text}", format="markdown")
        answer = store.ask("Before a backup, how long must the valve of the tank be closed?")
    spans = sorted((citation.start, citation.end) for citation in answer.citations)
    assert answer.text.count("The valve of the tank") == 1, answer.text
    assert all(end <= start for (_, end), (start, _) in pairwise(spans)), spans


def test_an_option_of_a_long_list_is_shown_alone(reader: AnswerReader, tmp_path: Path) -> None:
    options = {
        "--all": "Sort the letters of all years instead of those of this year. This takes an hour for an archive.",
        "--depth NUMBER": "Search at most this many folders below the first one. Folders of other users are skipped.",
        "--quiet": "Sort the letters without any messages on the screen. Errors are written to the log file.",
        "--stamp": "Print the day on which each letter came in. The stamp is in the upper right corner of the page.",
        "--undo": "Put the letters back into the order they had before. Only the last run can be undone.",
    }
    items = "\n".join(f"- `{name}`: {text}" for name, text in options.items())
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("sorter.md", f"# sorter\n\n## Options\n\n{items}", format="markdown")
        answer = store.ask("How do I sort letters without messages on the screen?")
    first_paragraph = answer.text.partition("\n\n")[0]
    assert "--quiet: Sort the letters without any messages" in first_paragraph and "\n" not in first_paragraph, (
        answer.text
    )


def test_the_sentence_before_is_shown_first_if_it_has_the_answer(reader: AnswerReader, tmp_path: Path) -> None:
    text = "Tolma is the lamp program of the harbor. This program switches the lamps of all towers on at dusk."
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("lamps.md", f"# Harbor\n\n{text}", format="markdown")
        answer = store.ask("Which program switches the lamps of all towers on at dusk?")
    assert answer.text.startswith(f"{text} [1]"), answer.text
    assert answer.answer_span is not None and answer.answer_span.text == "Tolma"


def test_the_number_of_a_caption_is_part_of_it(reader: AnswerReader, tmp_path: Path) -> None:
    caption, code = "Example 7.2. Manually switching with the lamp command", "lamp on north"
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("towers.md", f"# Towers\n\nThey burn.\n\n*{caption}*\n\n```\n{code}\n```\n", format="markdown")
        answer = store.ask("How do I switch a lamp manually?")
    assert answer.text.startswith(f"{caption}\n    {code} [1]"), answer.text


def test_the_heading_of_a_release_does_not_explain_a_pronoun(reader: AnswerReader, tmp_path: Path) -> None:
    text = "# Changes of Tern\n\n## [2.4.0] - 2026-02-03\n\nIt reads 20 formats, such as CSV.\n\n- Fixed the importer."
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("changes.md", text, format="markdown")
        answer = store.ask("How many formats does it read?")
    assert "It reads 20 formats" in answer.text and answer.text.count("2.4.0") == 1, answer.text


def test_a_quality_is_a_whole_word_of_a_row(reader: AnswerReader, tmp_path: Path) -> None:
    table = "| Property | Value |\n|---|---|\n| Storage hall | 12 m |\n| Crane | 7 m |"
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("port.md", f"# Port of Moss\n\n{table}\n", format="markdown")
        answer = store.ask("How old is the port of Moss?")  # "storage" contains "age"
    assert answer.confidence < 0.5, answer.text


@pytest.mark.parametrize(
    ("text", "is_number"),
    [
        ("Extension: 23", True),
        ("The extension is 4512.", True),
        ("An extension of 14 days costs 5 euros.", False),
        ("The extension is 12 weeks.", False),
    ],
)
def test_an_extension_without_a_unit_is_a_telephone_number(text: str, is_number: bool) -> None:
    assert detect_answer_type("What is the phone number?").is_present_in(text) == is_number


def test_a_sure_answer_is_shown_without_less_likely_sentences(reader: AnswerReader, tmp_path: Path) -> None:
    text = (
        "The rent of the boathouse is 640 euros a month. It is paid by the rowing club. "
        "The rent of the boathouse may rise in March. The deposit is 900 euros."
    )
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("boathouse", text)
        answer = store.ask("What is the monthly rent of the boathouse?")
    assert answer.text == "The rent of the boathouse is 640 euros a month. [1]", answer.text


@pytest.mark.parametrize(
    ("name", "text", "question", "answer"),
    [
        (
            "tide.yaml",
            "gauge:\n  interval_minutes: 6\n  alarm:\n    level_cm: 310   # as agreed with the harbor master\n"
            "    mail: keeper@harbor.example\nexport:\n  format: csv\n",
            "At which level does the alarm of the gauge go off?",
            "gauge.alarm.level_cm: 310  # as agreed with the harbor master",
        ),
        (
            "tide.toml",
            '[gauge]\ninterval_minutes = 6\n\n[export]\n# copies are deleted after\nkeep_days = 45\nformat = "csv"',
            "How many days does the export keep copies?",
            "export.keep_days = 45  # copies are deleted after",
        ),
        (
            "tide.ini",
            "[gauge]\ninterval = 6\n\n[mail]\nserver = post.harbor.example\nport = 587\n",
            "Which port does the mail server use?",
            "mail.port = 587",
        ),
        (
            "tide.json",
            '{"gauge": {"alarm": {"level_cm": 310}, "interval_minutes": 6}, "export": {"format": "csv"}}',
            "What is the interval of the gauge in minutes?",
            "gauge.interval_minutes: 6",
        ),
        (
            "jobs.yaml",
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: gauge\nspec:\n  replicas: 2\n---\n"
            'apiVersion: batch/v1\nkind: CronJob\nmetadata:\n  name: archive\nspec:\n  schedule: "30 5 * * 1-5"\n',
            "When does the archive cronjob run?",
            'CronJob.archive.spec.schedule: "30 5 * * 1-5"',
        ),
        (
            "api.yaml",
            "paths:\n  /berths:\n    post:\n      description: Books a berth for a night.\n  /berths/{id}/close:\n"
            "    post:\n      description: Closes a berth for repairs.\n",
            "Which call closes a berth for repairs?",
            "paths./berths/{id}/close.post.description: Closes a berth for repairs.",
        ),
        (
            "limits.yaml",
            "info:\n  description: |\n    ## Rate limits\n    Limits are per key and minute:\n\n"
            "    | plan | requests/min | burst |\n    |------|-------------:|-------|\n"
            "    | Free | 60 | 10 |\n    | Team | 600 | 70 |\n",
            "How many requests a minute does the team plan get?",
            "info.description: Limits are per key and minute: plan: Team; requests/min: 600; burst: 70  # Rate limits",
        ),
    ],
)
def test_a_setting_is_shown_with_the_keys_that_contain_it(
    reader: AnswerReader, tmp_path: Path, name: str, text: str, question: str, answer: str
) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / name).write_text(text, encoding="utf-8")
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.ingest(tmp_path / "files", workers=0)
        first = store.ask(question).citations[0]
        document = store.get(name)
    assert document is not None
    assert first.text.partition("\n")[0] == f"{name}: {answer}"
    value = answer.partition("  #")[0].rstrip(".").rpartition(".")[2]
    assert value.split()[-1] in document.text.encode()[first.start : first.end].decode()
    assert first.end - first.start < 70


def test_the_reader_sees_the_words_of_a_key_in_camel_case(reader: AnswerReader, tmp_path: Path) -> None:
    text = "gauge:\n  initialDelaySeconds: 20\n  failureThreshold: 3\n  alarmLevel: 310\nexport:\n  maxReplicas: 10\n"
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "scaler.yaml").write_text(text, encoding="utf-8")
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.ingest(tmp_path / "files", workers=0)
        answer = store.ask("initial delay of the gauge?")
    assert answer.outcome == "answered"
    assert "gauge.initialDelaySeconds: 20" in answer.text.partition(" [1]")[0]


def test_an_entry_with_another_number_does_not_answer(reader: AnswerReader, tmp_path: Path) -> None:
    codes = (("0", "success"), ("2", "wrong usage"), ("3", "not authorized"), ("5", "gauge unreachable"), ("7", "idle"))
    page = (
        ".TH TIDECTL 1\n.SH NAME\ntidectl \\- operate the tide gauges\n.SH DESCRIPTION\n.B tidectl\ntalks to gauges.\n"
        ".SH EXIT STATUS\n" + "".join(f".TP\n.B {code}\n{meaning}\n" for code, meaning in codes)
    )
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "tidectl.1").write_text(page, encoding="utf-8")
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.ingest(tmp_path / "files", workers=0)
        assert "5: gauge unreachable" in store.ask("What does exit code 5 of tidectl mean?").text.partition(" [1]")[0]
        assert store.ask("What does exit code 1 of tidectl mean?").outcome == "nearest"


def test_a_changelog_is_that_of_the_product_in_its_folder(reader: AnswerReader, tmp_path: Path) -> None:
    text = "# Changelog\n\n## [{}] - {}\n\n### Deprecated\n\n- `Gauge.levels`; use `Gauge.heights`\n"
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("tidekit/CHANGELOG.md", text.format("3.3.0", "2026-05-07"), format="markdown")
        store.put("portkit/CHANGELOG.md", text.format("1.8.0", "2025-11-02"), format="markdown")
        for product, version in (("tidekit", "3.3.0"), ("portkit", "1.8.0")):
            answer = store.ask(f"Since which {product} version is Gauge.levels deprecated?")
            assert answer.outcome == "answered"
            assert version in answer.text.partition(" [1]")[0]


def test_the_number_in_a_file_name_identifies_the_file(reader: AnswerReader, tmp_path: Path) -> None:
    deciders = {"0007-tide-queue": "Ann Voss", "0012-keys": "Bo Lind", "0019-no-graphs": "Cy Moe"}
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        for name, person in deciders.items():
            text = f"# Decision on {name.partition('-')[2]}\n\n## Status\n\nAccepted.\n\nDeciders: {person}\n"
            store.put(f"adr/{name}.md", text, format="markdown")
        for name, person in deciders.items():
            answer = store.ask(f"Who decided {name[:4]}?")
            assert answer.outcome == "answered", name
            assert person in answer.text.partition(" [1]")[0], name


def test_the_first_settings_of_a_passage_have_the_keys_that_contain_them(reader: AnswerReader, tmp_path: Path) -> None:
    lines = [f"  berth_{number}: {number % 7 + 3}   # meters of water below the quay wall" for number in range(200)]
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "berths.yaml").write_text("depths:\n" + "\n".join(lines), encoding="utf-8")
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.ingest(tmp_path / "files", workers=0)
        assert "depths.berth_150: 6  # meters" in store.ask("How many meters of water are at berth_150?").text


def test_an_item_of_a_quoted_mail_is_shown_alone(reader: AnswerReader, tmp_path: Path) -> None:
    text = (
        "On Tue, Oct 14, 2025 at 6:03 PM Ann Voss wrote:\n\n> What the flood has ruined:\n"
        "> - the carpet of the hall, 200 sq ft\n> - dimmer rack 2\n> - the left end of the piano\n>\n> Keep out.\n"
    )
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("mail.md", text, format="markdown")
        first = store.ask("Which end of the piano is ruined?").citations[0]
    assert first.text.endswith("wrote: the left end of the piano"), first.text


def test_a_file_name_says_what_a_file_without_a_title_is_about(reader: AnswerReader, tmp_path: Path) -> None:
    text = "It costs {} euros a day and {} euros at night.\n\nThe crew locks the gate when it leaves.\n"
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("crane-rules.txt", text.format(36, 20))
        store.put("slip_rules.txt", text.format(24, 15))
        store.put("statutes-2017.txt", "Supporting members pay 30 euros a year.\n\nActive members pay nothing.\n")
        store.put("amendment-2023.txt", "Supporting members pay 45 euros a year.\n\nJunior members pay nothing.\n")
        for question, amount in (
            ("How much does the crane cost at night?", "20 euros"),
            ("How much does the slip cost for a day?", "24 euros"),
            ("How much do members pay under the amendment?", "45 euros"),
        ):
            answer = store.ask(question)
            assert not answer.abstained and amount in answer.text.partition("[1]")[0], question


def test_a_mail_in_a_quoted_mail_has_its_own_author(reader: AnswerReader, tmp_path: Path) -> None:
    text = (
        "From: Ann Voss <ann@harbor.example>\nTo: Bo Lund <bo@harbor.example>\nSubject: Re: Re: crane\n"
        "Date: Thu, 04 Dec 2025 16:22:10 +0000\n\nThank you, I will tell the crew.\n\n"
        "On Tue, 2 Dec 2025 at 09:14, Bo Lund wrote:\n> The slip is free again. I have the key of the shed.\n>\n"
        "> On Mon, 1 Dec 2025 at 11:40, Cy Marsh wrote:\n>> Dear Bo,\n>> the fee for a lift by the crane goes up to\n"
        ">> 310 euros from\n>> January on.\n"
    )
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "crane.eml").write_text(text, encoding="utf-8")
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.ingest(tmp_path / "files", workers=0)
        fee = store.ask("What is the fee for a lift by the crane?").citations[0].text
        key = store.ask("Who has the key of the shed?").citations[0].text
    assert "Cy Marsh wrote" in fee and "up to 310 euros from January on." in fee
    assert "Bo Lund wrote" in key and ">" not in fee


def test_the_address_of_another_person_is_only_the_nearest(reader: AnswerReader, tmp_path: Path) -> None:
    mail = "From: Ruth Castle <ruth@harbor.example>\nSubject: hire\n\nThe hire is settled with Jonah Aber."
    team = "# Crew\n\n- Becca Lind, tickets: becca@harbor.example, 555-0171\n- Jonah Aber, engines\n"
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("mail", mail)
        store.put("crew.md", team, format="markdown")
        assert store.ask("What is Jonah Aber's e-mail address?").abstained
        becca = store.ask("What is Becca Lind's e-mail address?")
        assert not becca.abstained and "becca@harbor.example" in becca.text.partition("[1]")[0]
        phone = store.ask("What is Becca Lind's phone number?")
        assert not phone.abstained and "555-0171" in phone.text.partition("[1]")[0]


def test_a_sentence_with_few_words_of_the_question_has_less_confidence(
    reader: AnswerReader, harbor: kvstore.Store
) -> None:
    asker = harbor._make_asker()
    with asker.open_query("Who built the crane of the harbor?", {}) as (strategy, query):
        _, reading = asker._read_evidence(query, asker.retrieve_evidence(strategy, query), {})
    assert reading is not None and reading.best.coverage > 0.3
    weak = reading._replace(candidates=[reading.best._replace(coverage=0.1)])
    expected = reading.compute_confidence_logit(9.0, 0.0) - 0.4
    assert weak.compute_confidence_logit(9.0, 0.0) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who approves a purchase of $3000?", "Ann Quill"),
        ("Where do boats pay that stay for 9 nights?", "in the office"),
    ],
)
def test_an_amount_that_no_document_mentions_is_no_unknown_name(
    reader: AnswerReader, tmp_path: Path, question: str, answer: str
) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("purchases", "Purchases up to 5000 dollars are approved by Ann Quill, larger ones by Tom Berg.")
        store.put("boats", "Boats that stay for up to 14 nights pay in the office. Others pay the keeper.")
        assert answer in store.ask(question).text.partition("\n\n")[0]
        assert "No document mentions purchase 4711." in store.ask("Who approves purchase 4711?").text


@pytest.mark.parametrize("question", ["How do I get the new key of the depot?", "How can we get a new depot key?"])
def test_a_short_procedure_is_shown_whole(reader: AnswerReader, tmp_path: Path, question: str) -> None:
    steps = "You have to phone. Ask for Mr. Toth at the depot on weekdays. He reads you the new key. Write it down."
    text = (
        f"# Keys\n\n## Depot\n\n{steps}\n\nThe key of the depot changes in May.\n\n## Office\n\nIts lock has a code.\n"
    )
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("keys.md", text, format="markdown")
        store.set("least_confidence", 0)
        assert steps in store.ask(question).text
        assert steps not in store.ask("Who reads the new key of the depot?").text


def test_a_date_is_no_age_and_the_votes_of_another_field_are_not_counted(reader: AnswerReader, tmp_path: Path) -> None:
    form = (
        "# Accident report\n\n| | |\n| --- | --- |\n| Injured person | Kofi Lind (visitor) |\n"
        "| Injury | cut on the thumb |\n| Hospital | St Brannock's |\n| Date and time | 22 March 2025, 11.20 am |\n"
    )
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("report.md", form, format="markdown")
        store.put(
            "list.md", "# Crew\n\n- Chair: Ann Voss, 41 votes\n- Members: Bo Lund, Kofi Lind\n", format="markdown"
        )
        assert store.ask("How old is Kofi Lind?").abstained  # neither a date nor a time is an age
        assert store.ask("How many votes did Kofi Lind get?").abstained  # they are those of an earlier field


@pytest.mark.parametrize(
    ("fields", "question"),
    [
        ("Patient: Ann Lee; Height: 170 cm; Patient: Bob Ray; Weight: 70 kg", "How much does Ann Lee weigh?"),
        ("Doctor: Ann Lee; Patient: Bob Ray; Height: 180 cm", "How tall is Ann Lee?"),
        ("Name: Ann Lee; Weight: 70 kg; Name of the dog: Rex; Age: 3", "How old is Ann Lee?"),
    ],
)
def test_a_field_of_a_form_with_several_names_is_not_surely_about_the_first(
    reader: AnswerReader, tmp_path: Path, fields: str, question: str
) -> None:
    rows = "\n".join(f"| {field.replace(': ', ' | ')} |" for field in fields.split("; "))
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("form.md", f"# Form\n\n| | |\n| --- | --- |\n{rows}\n", format="markdown")
        assert store.ask(question).confidence < 0.6


@pytest.mark.parametrize(
    ("text", "question", "answer"),
    [
        ("The chapel dates from 12 May 1850. It has a tower.", "How old is the chapel?", "1850"),
        (
            "1:12 is the ratio of paint to water.",
            "How many parts of water does the ratio of paint to water have?",
            "1:12",
        ),
        ("| Flat | Price per month |\n|---|---|\n| Flat 3 | 700 |", "How much is the rent for Flat 3?", "700"),
    ],
)
def test_a_date_or_a_price_with_another_name_can_answer(
    reader: AnswerReader, tmp_path: Path, text: str, question: str, answer: str
) -> None:
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("note.md", text, format="markdown")
        result = store.ask(question)
    assert not result.abstained and answer in result.text.partition("[1]")[0]


def test_the_words_of_a_title_do_not_answer(reader: AnswerReader, tmp_path: Path) -> None:
    minutes = "# AGM 10 April 2025\n\n## Motions\n\n- Parking: bay 7 goes to the car club for one year. Carried.\n"
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("minutes.md", minutes, format="markdown")
        store.put("bylaws.txt", "3.3 Motions of members must reach the secretary 10 days before the meeting.\n")
        first = store.ask("When do I have to hand in a motion for the AGM?").text.partition("[1]")[0]
    assert "10 days before" in first


def test_the_deposit_of_a_thing_is_its_column(reader: AnswerReader, tmp_path: Path) -> None:
    fees = "# Hire\n\n| Item | Fee £ | Deposit £ |\n| --- | --- | --- |\n| Cargo bike | 8 | 100 |\n"
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("hire.md", fees, format="markdown")
        assert "100" in store.ask("How much is the deposit for the cargo bike?").text.partition("[1]")[0]


def test_the_plural_of_a_surname_is_the_family(reader: AnswerReader, tmp_path: Path) -> None:
    lease = "# Lease of Yara and Joris Haddad\n\nThe board has agreed to one dog, a whippet called Biscuit.\n"
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("lease.md", lease, format="markdown")
        store.put("news.md", "We welcome the Haddads' daughter Lina, born on 3 August.\n", format="markdown")
        for number in range(30):
            store.put(f"note {number}", f"The lift of block {number} was painted by the crew in week {number}.\n")
        answer = store.ask("What is the name of the Haddads' dog?")
        store.put("office.md", "The office opens at 9 on Mondays as well as on Fridays.", format="markdown")
        store.put("wells.md", "Wells is the caretaker of block 3.", format="markdown")
        assert store.ask("When does Wells open the office?").abstained
    assert not answer.abstained and "Biscuit" in answer.text.partition("[1]")[0]


def test_a_sentence_after_a_table_is_not_read_with_its_last_row(reader: AnswerReader, tmp_path: Path) -> None:
    text = (
        "# Pricing and support tiers\n\n## Plans\n\n| Tier | Price per year | LDAP connector |\n| --- | --- | --- |\n"
        "| Team | €890 | no |\n| Enterprise | €12,500 | yes |\n\n"
        "Each additional pack of 50 machines costs €420 per year in every paid tier.\n"
    )
    with kvstore.open(tmp_path / "store", settings={"language": "rules"}) as store:
        store.put("pricing", text, format="markdown")
        answer = store.ask("How much does the LDAP connector cost on its own?")
    assert answer.outcome == "nearest"
