"""Evaluation of a store: questions made by rule, files of questions, figures, advice, the command and its page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kvstore
from kvstore.errors import InputError
from kvstore.evaluation import evaluate_store, make_questions, read_questions, write_questions
from kvstore.evaluation.asked_questions import ask_questions, compute_area_under_curve, compute_metrics
from kvstore.evaluation.comparison import _build_advice
from kvstore.evaluation.question_files import make_question
from kvstore.evaluation.question_making import SOURCES
from kvstore.evaluation.report_page import format_report_page
from kvstore_shell.cli import run

DOCUMENTS = {
    "pier.md": "# The pier\n\n## Opening hours\n\nThe pier opens at seven in the morning and closes at sunset "
    "every day.\n\n"
    "The lamp house was built in 1891 by the harbour board. A bollard is a short post that holds the rope "
    "of a ship.\n\n"
    "| berth | depth |\n|---|---|\n| North berth | 4 metres |\n| South berth | 6 metres |\n",
    "crane.md": "# The crane\n\n## Safety rules\n\nNobody walks below the hook while a load hangs on it, not even the "
    "guard.\n\n"
    "The steam engine was replaced in 1954 by a motor.\n\n- Weight limit: 12 tonnes\n",
}


@pytest.fixture
def harbor_store(store: kvstore.Store) -> kvstore.Store:
    for key, text in DOCUMENTS.items():
        store.put(key, text, format="markdown")
    return store


def test_questions_come_from_all_sources(harbor_store: kvstore.Store) -> None:
    harbor_store.put(
        "house", "House\n\nSpare key: under the third flowerpot\n\nThe bins are emptied every Tuesday morning."
    )
    questions = make_questions(harbor_store)
    answerable = [question for question in questions if question.kind == "answerable"]
    assert {question.part for question in answerable} == set(SOURCES)
    for question in answerable:
        (key,) = question.gold
        assert question.span is not None
        passage = harbor_store.get(key).text.encode()[slice(*question.span)].decode()
        assert all(answer in passage for answer in question.answers), question
    by_answer = {question.answers: question.text for question in answerable if question.answers}
    assert "lamp house" in by_answer[("1891",)] and "built" in by_answer[("1891",)]
    assert "weight limit" in by_answer[("12 tonnes",)]
    assert "spare key" in by_answer[("under the third flowerpot",)]
    assert "What are emptied every Tuesday morning?" in {question.text for question in answerable}


def test_no_document_has_the_words_of_a_near_miss(harbor_store: kvstore.Store) -> None:
    near = [question for question in make_questions(harbor_store) if question.kind == "near"]
    assert near and all(not question.gold for question in near)
    assert any("lamp house" in question.text and "replaced" in question.text for question in near)


def test_questions_do_not_depend_on_the_history_of_a_store(make_store: Any) -> None:
    first, second = make_store("first"), make_store("second")
    for key in sorted(DOCUMENTS):
        first.put(key, DOCUMENTS[key], format="markdown")
    second.put("gone", "# Gone\n\n## Lost things\n\nA thing that is gone cannot be found by anybody who looks for it.")
    for key in sorted(DOCUMENTS, reverse=True):
        second.put(key, DOCUMENTS[key], format="markdown")
    second.delete("gone")
    assert [question.text for question in make_questions(first)] == [
        question.text for question in make_questions(second)
    ]


def test_other_languages_are_asked_in_words(store: kvstore.Store) -> None:
    text = (
        "# Die Heizung\n\n## Der Druck\n\nDer Druck wird im Keller gemessen, und er soll nicht unter einem Bar liegen. "
        "Wenn er zu niedrig ist, wird Wasser nachgefüllt, bis die Anzeige wieder im grünen Bereich ist."
    )
    store.put("heizung", text, format="markdown")
    assert [question.text for question in make_questions(store)] == ["Die Heizung Der Druck"]


def test_a_file_of_questions_is_read_as_it_was_written(harbor_store: kvstore.Store, tmp_path: Path) -> None:
    questions = make_questions(harbor_store)
    path = tmp_path / "questions.jsonl"
    write_questions(path, questions)

    def list_fields(questions: Any) -> list[Any]:
        return [(item.text, item.kind, item.gold, item.span, item.answers, item.part) for item in questions]

    assert list_fields(read_questions(path)) == list_fields(questions)


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "has no questions"),
        ("{", "questions.jsonl:1: is not JSON"),
        ('{"answer": "x"}', "questions.jsonl:1: has no question"),
        ('{"question": "Who?"}\n{"question": " "}', "questions.jsonl:2: has no question"),
        ('[{"question": "Who?"}]', "is a JSON list; write one object per line"),
        ('\n[\n  {"question": "Who?"},\n  {"question": "When?"}\n]\n', "is a JSON list; write one object per line"),
        ('{"question": "x", "kind": "y"}', "the kind 'y' is not one of answerable, near, foreign"),
        ('{"question": "x", "start": 1, "end": 2}', "start and end must be byte offsets in one document"),
        ('{"question": "x", "gold": "key"}', "answers and gold must be lists of strings"),
    ],
)
def test_an_invalid_file_of_questions_is_named(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_questions(path)


def test_lines_of_text_are_questions_without_a_known_answer(tmp_path: Path) -> None:
    path = tmp_path / "questions.txt"
    path.write_text("When does the pier open?\n\nWho guards it?\n")
    assert [question.text for question in read_questions(path)] == ["When does the pier open?", "Who guards it?"]
    (tmp_path / "rows.jsonl").write_text('{"question": "Who?", "answer": null}\n{"question": "How?", "answer": "so"}')
    assert [question.kind for question in read_questions(tmp_path / "rows.jsonl")] == ["near", "answerable"]
    path.write_text("[Pier] When does it open?\n")
    assert [question.text for question in read_questions(path)] == ["[Pier] When does it open?"]
    for start in ("\ufeff", "\n"):  # a byte-order mark, as other systems write it, or a blank line
        path.write_text(
            start + '{"question": "Who guards\u2028it?"}\r\n\r\n{"question": "When?"}\r\n', encoding="utf-8"
        )
        assert [question.text for question in read_questions(path)] == ["Who guards\u2028it?", "When?"]


def test_figures_count_hits_answers_and_refusals(harbor_store: kvstore.Store) -> None:
    questions = [
        make_question("When does the pier open?", answers=["seven"], gold=["pier.md"]),
        make_question("When was the lamp house built?", answers=["1754"], gold=["crane.md"]),
        make_question("Who painted the Night Watch?", "near"),
    ]
    outcomes = ask_questions(harbor_store, questions, using="lexical", model="none")
    figures = compute_metrics(outcomes)
    assert (figures["answerable"], figures["near"], figures["near_refused"]) == (2, 1, 1)
    assert (figures["hit@1"], figures["answered"], figures["right_all"]) == (0.5, 1, 0.5)
    assert outcomes[0].is_right and not outcomes[1].is_right and not outcomes[2].answered


def test_a_question_with_a_span_is_right_if_the_span_is_cited(harbor_store: kvstore.Store) -> None:
    text = DOCUMENTS["crane.md"]
    start = text.index("Nobody")
    right = make_question("What are the safety rules of the crane?", gold=["crane.md"], span=(start, start + 20))
    wrong = make_question("What are the safety rules of the crane?", gold=["pier.md"], span=(0, 20))
    outcomes = ask_questions(harbor_store, [right, wrong], model="none")
    assert [outcome.is_right for outcome in outcomes] == [True, False]
    assert outcomes[0].has_hit(3) and not outcomes[1].has_hit(1)


def test_a_report_compares_strategies_and_settings(harbor_store: kvstore.Store) -> None:
    report = evaluate_store(harbor_store, strategies=["lexical"], limit=6)
    names = [(row.compared, row.name) for row in report.rows if row.is_current]
    assert names == [
        ("strategy", "adaptive"),
        ("reranker", "none"),
        ("least_confidence", "0.25"),
        ("chunk_tokens", "100"),
    ]
    assert {row.name for row in report.rows if row.compared == "strategy"} == {"adaptive", "lexical"}
    assert {row.name for row in report.rows if row.compared == "chunk_tokens"} == {"50", "100", "200"}
    assert report.current.figures["hit@8"] == 1
    refused = [row.figures["refused"] for row in report.rows if row.compared == "least_confidence"]
    assert refused == sorted(refused, key=lambda share: share or 0)  # a higher threshold refuses more
    assert json.loads(json.dumps(report.to_dict()))["questions"] == dict(report.counts)
    page = format_report_page(report)
    assert page.count('class="bar"') > 20 and "http" not in page and "<script" not in page


def test_a_store_without_documents_has_no_questions(store: kvstore.Store) -> None:
    with pytest.raises(InputError, match="no questions can be generated from its documents"):
        evaluate_store(store)


def test_near_misses_alone_are_evaluated(harbor_store: kvstore.Store) -> None:
    near = [question for question in make_questions(harbor_store) if question.kind == "near"]
    report = evaluate_store(harbor_store, near, strategies=["hybrid"], compare_chunk_sizes=False)
    assert report.current.figures["refused"] is not None
    assert report.current.figures["right"] is None and report.current.figures["hit@3"] is None


def test_gold_documents_that_the_store_does_not_have_are_reported(
    harbor_store: kvstore.Store, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    questions = tmp_path / "questions.jsonl"
    rows = [("When does the pier open?", "pier.md"), ("How high is it?", "tower.md"), ("Is it open?", "Pier.md")]
    questions.write_text("".join(json.dumps({"question": text, "document": key}) + "\n" for text, key in rows))
    command = ["evaluate", str(harbor_store.path), "--strategy", "lexical", "--no-chunk-sizes", "--questions"]
    assert run([*command, str(questions)]) == 0
    message = "the store lacks 2 gold documents, so their questions cannot get a hit: 'Pier.md', 'tower.md'"
    assert message in capfd.readouterr().err
    assert run([*command, str(questions), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["missing_documents"] == ["Pier.md", "tower.md"]


def test_a_setting_is_advised_on_questions_that_it_was_not_chosen_on() -> None:
    # Setting a is better on the first half.
    assert _build_advice("strategy", "a", {"a": [1, 1, 0, 0], "b": [0, 1, 0, 1]}) is None
    better = _build_advice("strategy", "a", {"a": [0] * 40, "b": [1] * 40})
    assert better is not None and (better.name, better.gain, better.is_certain) == ("b", 1, True)
    lucky = _build_advice("strategy", "a", {"a": [0, 1] * 20, "b": [1, 0] * 20})
    assert lucky is not None and not lucky.is_certain and "keep a" in str(lucky)


def test_the_area_under_the_curve_counts_pairs_in_order() -> None:
    assert compute_area_under_curve([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]) == 0.75


def test_the_command_prints_writes_and_fails_below_a_bound(
    harbor_store: kvstore.Store, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["evaluate", str(harbor_store.path), "--strategy", "lexical", "--limit", "6", "--no-chunk-sizes"]
    page, saved = tmp_path / "report.html", tmp_path / "questions.jsonl"
    assert run([*command, "--html", str(page), "--save-questions", str(saved), "--fail-below", "hit@8=0.5"]) == 0
    printed = capfd.readouterr()
    assert printed.out.startswith("setting\thit@1") and "strategy lexical\t" in printed.out
    assert page.read_text().startswith("<!doctype html>")
    assert run([*command, "--questions", str(saved), "--json", "--fail-below", "refused=1"]) in (0, 1)
    assert json.loads(capfd.readouterr().out)["rows"][0]["name"] == "adaptive"
    assert run([*command, "--html", "/dev/full"]) == 1
    printed = capfd.readouterr()
    assert printed.out.startswith("setting\thit@1"), "the report is not lost"
    assert "/dev/full: cannot be written (No space left on device); choose another path" in printed.err
    questions = tmp_path / "own.txt"
    questions.write_text("When does the pier open?\n")
    command += ["--questions", str(questions)]
    assert run([*command, "--fail-below", "hit@3=0.5"]) == 1
    assert "hit@3 was not measured" in capfd.readouterr().err
    assert run([*command, "--questions", "missing.txt"]) == 1
    assert "missing.txt: cannot be read (No such file or directory)" in capfd.readouterr().err


def test_the_command_rejects_options_before_it_measures(
    harbor_store: kvstore.Store, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstore.evaluation.evaluate_store", lambda *_, **__: pytest.fail("it measured"))
    command = ["evaluate", str(harbor_store.path)]
    assert run([*command, "--fail-below", "speed=0.5"]) == 2
    assert "'speed' is not the name of a figure; figures are hit@1, " in capfd.readouterr().err
    for option in ("--html", "--save-questions"):
        assert run([*command, option, str(tmp_path / "missing" / "file")]) == 2
        assert "missing does not exist; create it first" in capfd.readouterr().err
    assert run([*command, "--fail-below", "1.5"]) == 2
    assert "not a share from 0 to 1" in capfd.readouterr().err
