"""The evaluation tool: what it reports of small question sets, and its measures against sums done by hand."""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import kvstore

TOOLS = Path(__file__).parents[1] / "tools"
PASSAGES = [
    {"id": "p1", "title": "Blue Harbour", "text": "Blue Harbour is a film directed by Nora Quill."},
    {"id": "p2", "title": "Nora Quill", "text": "Nora Quill was born in Tolland and makes films."},
    {"id": "p3", "title": "Tolland", "text": "Tolland is a town with a lighthouse."},
    {"id": "p4", "title": "Tea", "text": "Tea is made from leaves."},
]
QUESTIONS = [
    {"question": "Where was the director of Blue Harbour born?", "gold": ["p1", "p2"], "answer": "Tolland"},
    {"question": "Is Tolland a town?", "gold": ["p3"], "answer": "yes"},
    {"question": "What is tea made from?", "gold": ["p4"], "answer": "leaves"},
    {"question": "What of a passage that is not there?", "gold": ["p9"]},
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny"
    folder.mkdir()
    for name, rows in (("corpus", PASSAGES), ("questions", QUESTIONS)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def run_evaluation(*arguments: object) -> dict[str, Any]:
    command = [sys.executable, str(TOOLS / "evaluate.py"), *map(str, arguments), "--embedder", "hashing", "--json"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stderr
    report: dict[str, Any] = json.loads(run.stdout)
    return report


@pytest.mark.slow
def test_one_set_and_one_strategy_are_one_flat_object(data: Path) -> None:
    report = run_evaluation("--data", data, "--strategy", "lexical")
    assert report["dataset"] == "tiny"
    assert report["strategy"] == "lexical"
    assert (report["questions"], report["passages"]) == (3, 4)
    assert report["all@8"] == report["recall@5"] == report["answer@8"] == 1
    assert report["p95_ms"] >= report["p50_ms"] >= report["p50_ms_without_embedding"] > 0


@pytest.mark.slow
def test_ablations_leave_out_one_part_each_and_make_the_index(data: Path) -> None:
    report = run_evaluation("--data", data, "--ablations", "cue")
    names = ["cue", "cue, no update"]
    assert [row["strategy"] for row in report["rows"]] == names
    assert {gain["over"] for gain in report["differences"]} == set(names[1:])
    assert report["rows"][0]["all@8"] == 1


@pytest.mark.slow
def test_options_are_measured_at_other_values(data: Path) -> None:
    command = [
        sys.executable,
        str(TOOLS / "measure_options.py"),
        "--data",
        str(data),
        "--strategy",
        "lexical",
        "--json",
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    assert {(row["option"], row["value"]) for row in rows} >= {("k1", 0.6), ("k1", 2.4), ("b", 0)}
    assert all(row["largest"] == max(row["changes"].values(), key=abs) for row in rows)


@pytest.mark.slow
def test_an_overview_is_measured_by_the_words_of_written_answers(tmp_path: Path) -> None:
    folder = tmp_path / "talks"
    folder.mkdir()
    text = "\n\n".join(
        f"They spoke of {topic}. " + "And on it went. " * 60 for topic in ("herons", "violins", "lanterns")
    )
    rows: dict[str, list[dict[str, Any]]] = {
        "corpus": [{"id": "talk", "title": "Talk", "text": text}],
        "questions": [
            {
                "question": "Summarize the talk.",
                "gold": ["talk"],
                "answers": ["Herons, violins, lanterns", "Herons"],
            },
            {"question": "Who spoke of herons?", "gold": ["talk"], "answer": "They"},
        ],
    }
    for name, records in rows.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in records))
    report = run_evaluation("--overview", "--data", folder, "--strategy", "raptor", "--strategy", "lexical")
    systems = [(row["scope"], row["strategy"]) for row in report["rows"]]
    assert systems == [
        (scope, topic) for scope in ("document", "store") for topic in ("raptor", "lexical", "beginning")
    ]
    assert {row["questions"] for row in report["rows"]} == {1}
    figures = {row["strategy"]: row for row in report["rows"] if row["scope"] == "document"}
    assert (figures["raptor"]["words_400w"], figures["raptor"]["read_400w"] <= 400) == (1, True)
    assert figures["beginning"]["words_400w"] == pytest.approx((2 / 3 + 1) / 2, abs=1e-4)


def test_sets_and_systems_share_a_table_with_paired_differences(data: Path) -> None:
    pytest.importorskip("bm25s")
    pytest.importorskip("hnswlib")
    report = run_evaluation(
        *("--data", data, "--data", f"{data}:2", "--strategy", "lexical", "--strategy", "vector"),
        "--compare",
        "--answers",
    )
    systems = ["lexical", "vector", "bm25s", "dense", "tree-rag", "graph-rag", "ASK lexical", "ASK vector"]
    assert [row["strategy"] for row in report["rows"]] == [*systems, *systems]
    assert {(row["dataset"], row["passages"]) for row in report["rows"]} == {("tiny", 4), ("tiny-2", 2)}
    # Eight documents are all there are; only what walks from names may miss some.
    assert all(row["all@8"] == 1 for row in report["rows"] if row["strategy"] in systems[:4])
    assert 0 < report["rows"][systems.index("ASK lexical")]["f1"] <= 1
    difference = next(gain for gain in report["differences"] if gain["over"] == "vector")
    assert difference["strategy"] == "lexical"
    assert difference["all@8"] == {"difference": 0, "low": 0, "high": 0}


BOOK = "Å harbour lies north.\n\n" + "\n\n".join(f"Page {n} tells of quiet weather. " * 12 for n in range(9))
BOOK += "\n\nThe lighthouse was lit in 1911 by Nora Quill."


@pytest.mark.slow
def test_places_in_documents_are_measured_in_chunks_and_characters(tmp_path: Path) -> None:
    start = BOOK.index("The lighthouse")
    questions = [
        {"question": "When was the lighthouse lit?", "gold": ["b"], "spans": [["b", start, len(BOOK)]], "kind": "x"},
        {"question": "What is the book about?", "gold": ["b"], "spans": [], "kind": "general"},
    ]
    for name, rows in (("corpus", [{"id": "b", "title": None, "text": BOOK}]), ("questions", questions)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = run_evaluation("--data", tmp_path, "--strategy", "lexical", "--segments")
    chunks, segments = report["rows"]
    assert chunks["questions"] == segments["questions"] == 1
    assert chunks["hit@1"] == chunks["recall@2"] == chunks["recall_400w"] == chunks["whole_400w"] == 1
    assert 0 < chunks["iou_1500w"] <= chunks["iou_400w"] == chunks["precision_400w"] < 1
    assert segments["strategy"] == "lexical AS SEGMENTS"
    assert segments["whole_400w"] == 1 and "hit@1" not in segments
    assert report["differences"][0]["recall_400w"]["difference"] == 0


def test_answers_are_measured_by_citations_and_content(monkeypatch: pytest.MonkeyPatch, make_store: Any) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    from evaluation.answers import compute_answer_outcomes, compute_coverage
    from evaluation.passages import TextSpan
    from evaluation.question_sets import Question, QuestionSet

    assert compute_coverage([TextSpan("a", 0, 10)], [TextSpan("a", 5, 20), TextSpan("b", 0, 5)]) == 0.5
    store = make_store()
    text = "Øre is a coin. The lighthouse was lit in 1911 by Nora Quill."
    store.put("b", text)
    place = TextSpan("b", text.index("The"), len(text))
    answered_questions = [
        Question("When was the lighthouse lit?", frozenset("b"), "1911", (place,)),
        Question("Which volcano erupted near Grindavik?", frozenset("b"), "Fagradalsfjall", (place,)),
    ]
    questions = QuestionSet("tiny", Path(), [], answered_questions, details=True)
    right, none = (
        outcome.measures for outcome in compute_answer_outcomes(store, questions, None, "none", lambda text: None)
    )
    assert right["contains"] == right["answered"] == 1 and right["cited"] == pytest.approx(1, abs=0.05)
    assert none["contains"] == none["answered"] == none["cited"] == 0 and none["confidence"] < right["confidence"]


def test_places_are_counted_in_characters(monkeypatch: pytest.MonkeyPatch, make_store: Any) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    from evaluation.measures import compute_span_measures
    from evaluation.passages import Passage, Texts, TextSpan
    from evaluation.question_sets import Question

    store = make_store(settings={"chunk_tokens": 16})
    text = " ".join(f"Åse wrote line {n} of the café book here." for n in range(8))
    store.put("b", text)
    hits = sorted(store.retrieve("line", using="lexical", top=50).hits, key=lambda hit: hit.start)
    passages = [Passage(hit.document, hit.start, hit.end, hit.text) for hit in hits]
    texts = Texts(store)
    places = [texts.locate_passage(passage) for passage in passages]
    assert [text[place.start : place.end] for place in places] == [passage.text for passage in passages]
    # From the end of the first chunk to the beginning of the third.
    gold = TextSpan("b", places[0].end - 5, places[2].start + 3)
    question = Question("?", frozenset({"b"}), None, (gold,))
    measures = compute_span_measures(question, passages, texts)
    assert (measures["hit@1"], measures["recall@2"], measures["recall@5"]) == (1, pytest.approx(2 / 3), 1)
    # The white space between chunks is in none of them.
    common, read = gold.end - gold.start - 2, len(text) - len(places) + 1
    assert measures["recall_400w"] == pytest.approx(common / (common + 2))
    assert measures["precision_400w"] == pytest.approx(common / read)
    assert measures["iou_400w"] == pytest.approx(common / (read + 2))
    assert measures["whole_400w"] == 1
    # Segments are measured by what was found for so many words.
    part = compute_span_measures(question, passages, texts, {400: passages[:2], 1500: passages})
    assert (part["whole_400w"], part["whole_1500w"], "hit@1" in part) == (0, 1, False)
    assert compute_span_measures(Question("?", frozenset(), None, ()), passages, texts)["hit@8"] == 0


PAGE = """<html><head><title>pg_move</title></head><body><div class="refentry"><h2><span class="refentrytitle">pg_move
</span></h2><div class="refsect1"><h2>Options</h2><dl><dt><span class="term"><code class="option">-f</code><br /></span>
<span class="term"><code class="option">--fast</code></span></dt><dd><p>Moves all the rows of a table at once, without
looking at <code class="varname">each_row</code> of them.</p></dd><dt><span class="term"><code class="varname">row_limit
</code> (<code class="type">integer</code>)</span></dt><dd><p>Sets how many rows are moved in one step by the
server.</p></dd></dl></div><div class="sect2"><h3 class="title">4.2. Moving Large Tables</h3><p>A large table is moved
in several
steps of equal size, and each of them is one transaction.</p></div></div></body></html>"""


def test_questions_are_made_from_a_manual_by_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_store: Any
) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    from evaluation.manual import iter_definitions, make_heading_questions, make_manual_sets, make_option_questions

    page = tmp_path / "html" / "pg_move.html"
    page.parent.mkdir()
    page.write_text(PAGE)
    definitions = list(iter_definitions(page))
    assert [text for text, _ in make_option_questions(definitions)] == [
        "What does the option --fast of pg_move do?",
        "row_limit",
    ]
    assert [text for text, _ in make_heading_questions(definitions)] == [
        "What does the manual say about moving large tables?"
    ]
    with tarfile.open(tmp_path / "manual.tar", "w") as archive:
        archive.add(page.parent, "html")
    store = make_store()
    _, (options, headings) = make_manual_sets(store, tmp_path / "manual.tar", tmp_path, lambda _: None)
    text = store.get(next(iter(store.keys()))).text
    pieces = [
        text[span.start : span.end]
        for questions in (options, headings)
        for q in questions.questions
        for span in q.spans
    ]
    begins = [" ".join(piece.split())[:20] for piece in pieces]
    assert begins == ["Moves all the rows o", "Sets how many rows a", "A large table is mov"]


def test_intervals_are_those_of_the_paired_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    from evaluation.measures import Outcome, compute_differences

    def make_outcomes(values: list[float]) -> list[Outcome]:
        return [Outcome({"all@8": value}, 1, 1, 1) for value in values]

    difference = compute_differences(make_outcomes([1, 1, 1, 0] * 25), make_outcomes([0, 1, 0, 0] * 25))["all@8"]
    assert difference["difference"] == 0.5
    # A mean of 100 draws with a standard deviation of 0.5: 1.96 times 0.05 to each side.
    assert difference["low"] == pytest.approx(0.402, abs=0.015)
    assert difference["high"] == pytest.approx(0.598, abs=0.015)


def test_measures_of_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    from evaluation.answers import compute_answer_measures, compute_bert_score, compute_bleu, split_words

    def vectors(text: str) -> Any:
        """Return a unit vector for each word, orthogonal to those of all others."""
        vocabulary = ["the", "cat", "sat", "on", "mat", "dog"]
        return np.eye(len(vocabulary), dtype=np.float32)[[vocabulary.index(word) for word in split_words(text)]]

    measures = compute_answer_measures("The cat sat on the mat. [1, 2]", "The dog sat on the mat", vectors)
    assert measures["rouge-1"] == pytest.approx(5 / 6)
    assert measures["rouge-2"] == pytest.approx(3 / 5)
    assert measures["rouge-l"] == pytest.approx(5 / 6)
    assert measures["f1"] == pytest.approx(3 / 4)
    assert measures["bertscore"] == pytest.approx(5 / 6)
    assert measures["bleu"] == pytest.approx((5 / 6 * 4 / 6 * 3 / 5 * 2 / 4) ** 0.25)
    assert compute_bleu(["cat"], ["the", "cat"]) == pytest.approx(np.exp(-1))
    assert compute_answer_measures("", "the cat", vectors) == dict.fromkeys(measures, 0.0)
    near = np.array([[1, 0], [0.6, 0.8], [0.6, 0.8]], np.float32)
    precision, recall = (1 + 0.8) / 2, (1 + 0.8 + 0.8) / 3
    matched = compute_bert_score(np.eye(2, dtype=np.float32), near)
    assert matched == pytest.approx(2 * precision * recall / (precision + recall))


def test_everyday_questions_name_snippets_and_words_of_their_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))
    from evaluation.answer_sets import load_answer_sets
    from evaluation.question_sets import read_json_lines

    texts: dict[str, set[str]] = {}
    for name in ("train", "prose", "held_out"):
        rows = read_json_lines(TOOLS / "everyday_questions" / f"{name}.jsonl")
        texts[name] = {text for row in rows for text in (row["title"], *row["snippets"]) if text}
        for row in rows:
            snippets = row["snippets"]
            assert row["answered"] and row["near_misses"], row["title"]
            for question, ordinals, words in row["answered"]:
                assert words in snippets[ordinals[0]] and 0 <= min(ordinals) <= max(ordinals) < len(snippets), question
            for question, ordinal in row["near_misses"]:
                assert 0 <= ordinal < len(snippets), question
    assert (texts["train"] | texts["prose"]).isdisjoint(texts["held_out"])
    (answer_set,) = load_answer_sets("everyday", TOOLS, limit=20)
    assert [question.kind for question in answer_set.questions] == ["answerable"] * 20 + ["near"] * 20


def test_questions_about_folders_name_windows_and_characters_of_them() -> None:
    num_answered = 0
    with lzma.open(TOOLS / "everyday_questions" / "folders.jsonl.xz", "rt", encoding="utf-8") as file:
        for folder in map(json.loads, file):
            windows = folder["windows"]
            assert len(set(windows)) == len(windows)
            for question, answers, others in folder["questions"]:
                answering = [window for window, _ in answers]
                assert question and answering + others and set(answering).isdisjoint(others), question
                assert 0 <= min(answering + others) <= max(answering + others) < len(windows), question
                assert all(not span or 0 <= span[0] < span[1] <= len(windows[window]) for window, span in answers)
                num_answered += bool(answers)
    assert num_answered > 4000


def test_files_that_cannot_be_read_stop_the_measurement(
    store: kvstore.Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))
    from evaluation import answer_sets

    (tmp_path / "club").mkdir()
    (tmp_path / "club" / "rules.txt").write_text("Boats are locked at night.", encoding="utf-8")
    (tmp_path / "club" / "minutes.docx").write_bytes(b"not a document")
    (tmp_path / "club.jsonl").write_text('{"question": "Who took the minutes?", "answer": "Ann"}\n', encoding="utf-8")
    monkeypatch.setattr(answer_sets, "NOTES", tmp_path)
    (answer_set,) = answer_sets.load_answer_sets("notes:club", tmp_path, limit=None)
    with pytest.raises(click.ClickException, match=r"minutes\.docx"):
        answer_set.fill(store)
    assert not list(store.keys())
