"""RAPTOR: summaries of whole documents, trees of abstracts by cosine, and questions that ask for an overview."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import kvstore
from kvstore.errors import InputError
from kvstore.retrieval.evidence import Hit
from kvstore.retrieval.overview import is_overview_question
from kvstore.systems.raptor import ordered_chunks, summary, topic_index, topics
from kvstore.text.words import count_text_tokens

SUBJECTS = ["herons", "glaciers", "turbines", "violins", "orchards", "lanterns"]
CHATTER = "Well, as I was saying, and as you know, it went on and on like this for hours. "
OVERVIEW = "What are the main topics of these documents?"
MODES = ("cover", "collapsed", "traversal", "leaves")


def make_long_text(subjects: list[str]) -> str:
    return "\n\n".join(
        f"# On {subject}\n\nThis part praises {subject}. Later {subject} were praised again. {CHATTER * 12}"
        for subject in subjects
    )


def put_documents(store: kvstore.Store) -> None:
    store.put("long", make_long_text(SUBJECTS), title="Long", format="markdown")
    store.put("short", "Whales sing in the sea. Sailors listen to whales at night.", title="Short")
    store.put("kinds", "Tug,Ship\nShip,Vessel", format="pairs")


@pytest.fixture
def filled_store(copy_store: Callable[..., kvstore.Store]) -> kvstore.Store:
    return copy_store(put_documents, {"chunk_tokens": 40})


def read_spans(store: kvstore.Store, hit: Hit) -> list[str]:
    """Return the texts of the documents at the spans of a hit."""
    texts = {span.document: store.get(span.document) for span in hit.spans}
    return [texts[span.document].text.encode()[span.start : span.end].decode() for span in hit.spans]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "question",
    [
        *("Summarize the whole meeting.", "What is the plot of the story?", "What were the topics of the meeting?"),
        *(
            "What is this document about?",
            "Give me an overview",
            "tl;dr",
            "Sum up everything",
            "What are the key points?",
        ),
        *("What's the decision of the whole meeting?", "Describe the report.", "What topics are covered?"),
        *("Give me a summary of the paper in 3 sentences", "What are these documents about?"),
        *("What is in this folder?", "Which files are there?", "list all documents", "what's in here?"),
        *("How many files are in the store?", "How many documents are there?"),
    ],
)
def test_a_question_on_the_whole_asks_for_an_overview(question: str) -> None:
    assert is_overview_question(question)


@pytest.mark.parametrize(
    "question",
    [
        *("Summarize what was said about the budget.", "What is the decision on the remote control?", "Who met?"),
        *("What is a document?", "What is an event?", "Where is the meeting?", "Summarize the life of Ada Lovelace."),
        *("What documents do I need?", "What is in the soup?", "Which documents mention leave?"),
        *("What happened in 1999?", "What is tea about?", "Describe the engine.", "Overview of the indexes", ""),
    ],
)
def test_a_question_for_something_in_particular_does_not(question: str) -> None:
    assert not is_overview_question(question)


def test_an_overview_covers_the_whole_and_cites_every_sentence(filled_store: kvstore.Store) -> None:
    evidence = filled_store.retrieve(OVERVIEW, using="raptor", within=160)
    assert {hit.kind for hit in evidence.hits} == {"summary"}
    summary = " ".join(hit.text for hit in evidence.hits)
    assert [subject for subject in [*SUBJECTS, "hales"] if subject not in summary] == []
    assert count_text_tokens(summary) <= 160
    assert [(hit.document, hit.start) for hit in evidence.hits] == sorted((h.document, h.start) for h in evidence.hits)
    for hit in evidence.hits:
        assert " ".join(read_spans(filled_store, hit)) == hit.text
        assert (hit.document, hit.ordinal, hit.start, hit.end) == tuple(asdict(hit.spans[0]).values())
    steps = {step.name: step.detail for step in evidence.steps}
    assert steps["choose mode"].startswith("cover")
    assert "every sentence" in steps["read documents"]


@pytest.mark.parametrize("top", [1, 2, 4, 8])
def test_a_summary_has_the_requested_number_of_parts(filled_store: kvstore.Store, top: int) -> None:
    hits = filled_store.retrieve("Summarize everything", using="raptor", top=top, where="key = 'long'").hits
    assert min(top, len(SUBJECTS)) <= len(hits) <= top
    assert sum(count_text_tokens(hit.text) for hit in hits) <= 40 * top
    ends = [(hit.spans[0].start, hit.spans[-1].end) for hit in hits]
    assert all(previous[1] <= following[0] for previous, following in pairwise(ends))


def test_a_question_for_a_detail_gets_the_results_of_hybrid(filled_store: kvstore.Store) -> None:
    question = "Who listens to the whales?"
    hits, plain = (filled_store.retrieve(question, using=using).hits for using in ("raptor", "hybrid"))
    assert hits == plain
    assert filled_store.retrieve(question, using="raptor", options={"mode": "leaves"}).hits == plain


def test_words_of_a_question_count_in_a_cover(filled_store: kvstore.Store) -> None:
    options = {"mode": "cover"}
    texts = {
        subject: filled_store.retrieve(f"What of {subject}?", using="raptor", within=14, options=options).hits[0].text
        for subject in ("violins", "lanterns")
    }
    assert all(subject in text for subject, text in texts.items())


@pytest.mark.parametrize("limit", ["_MAX_FULL_TEXT_BYTES", "_MAX_ABSTRACTS", "_MAX_DOCUMENTS"])
def test_documents_that_are_too_long_are_read_by_their_abstracts(
    filled_store: kvstore.Store, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, limit, 0)
    if limit == "_MAX_ABSTRACTS":
        monkeypatch.setattr(summary, "_MAX_FULL_TEXT_BYTES", 0)
    evidence = filled_store.retrieve(OVERVIEW, using="raptor", within=160)
    detail = {step.name: step.detail for step in evidence.steps}["read documents"]
    assert {"_MAX_FULL_TEXT_BYTES": "over chunks", "_MAX_ABSTRACTS": "over documents", "_MAX_DOCUMENTS": "every"}[
        limit
    ] in detail
    assert {hit.document for hit in evidence.hits} == {"long", "short"}
    assert all(" ".join(read_spans(filled_store, hit)) == hit.text for hit in evidence.hits)


@pytest.mark.parametrize("mode", ["collapsed", "traversal"])
def test_trees_are_read_by_cosine_without_repetition(filled_store: kvstore.Store, mode: str) -> None:
    hits = filled_store.retrieve("herons and glaciers", using="raptor", top=12, options={"mode": mode}).hits
    assert {hit.kind for hit in hits} == {"chunk", "summary"}
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    for hit in hits:
        assert " ".join(read_spans(filled_store, hit)) == hit.text
    spans = [span for hit in hits for span in hit.spans]
    assert len(set(spans)) > len(hits) / 2
    for number, hit in enumerate(hits):
        before = [span for earlier in hits[:number] for span in earlier.spans]
        inside = [
            any(o.document == s.document and o.start <= s.start and s.end <= o.end for o in before) for s in hit.spans
        ]
        assert not all(inside)


def test_a_traversal_keeps_so_many_of_each_level(filled_store: kvstore.Store) -> None:
    def get_step_detail(**options: Any) -> str:
        evidence = filled_store.retrieve("herons", using="raptor", options={"mode": "traversal", **options})
        return next(step.detail for step in evidence.steps if step.name == "go down")

    assert get_step_detail(width=1).startswith("level by level 1 of 2, 1 of ")
    assert get_step_detail(levels=1).count(" of ") == 2
    assert get_step_detail().count(" of ") > 2


def test_an_invalid_mode_is_reported(filled_store: kvstore.Store) -> None:
    with pytest.raises(InputError, match="raptor: option mode must be one of auto, cover.*did you mean cover"):
        filled_store.execute("RETRIEVE 'x' USING raptor WITH (mode = covers)")


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_is_a_function_of_the_documents(make_store: Callable[..., kvstore.Store], mode: str) -> None:
    rng = random.Random(mode)
    texts = {f"d{number}": make_long_text(rng.sample(SUBJECTS, 3)) for number in range(5)}
    results = []
    for name in ("lived", "fresh"):
        store = make_store(name, settings={"chunk_tokens": 40})
        keys = sorted(texts, reverse=name == "lived")
        for key in keys if name == "fresh" else [*keys, "gone", keys[2]]:
            store.put(key, texts.get(key, "Zebras trot."), format="markdown")
        if name == "lived":
            store.delete("gone")
        results.append(
            [
                store.retrieve(question, using="raptor", options={"mode": mode}, **clauses).hits
                for question in (OVERVIEW, "violins", "Zebras")
                for clauses in ({"top": 3}, {"top": 9, "within": 120}, {"where": "key > 'd2'"})
            ]
        )
    assert results[0] == results[1]
    assert not any("ebra" in hit.text for hits in results[0] for hit in hits)


@pytest.mark.parametrize("mode", MODES)
def test_an_empty_store_has_nothing_to_sum_up(store: kvstore.Store, mode: str) -> None:
    assert store.retrieve(OVERVIEW, using="raptor", options={"mode": mode}).hits == []
    store.put("kinds", "Tug,Ship", format="pairs")
    assert store.retrieve(OVERVIEW, using="raptor", options={"mode": mode}).hits == []


# Answers --------------------------------------------------------------------------------------------------------------


def test_an_answer_to_an_overview_cites_sentence_by_sentence(filled_store: kvstore.Store) -> None:
    answer = filled_store.ask("Summarize all documents.", using="raptor")
    assert (answer.abstained, answer.extractive, answer.confidence, answer.remarks) == (False, True, 1.0, [])
    assert [subject for subject in [*SUBJECTS, "hales"] if subject not in answer.text] == []
    assert count_text_tokens(answer.text) < 400
    for citation in answer.citations:
        document = filled_store.get(citation.document)
        assert document is not None
        assert document.text.encode()[citation.start : citation.end].decode() == citation.text
        assert f"{citation.text} [{citation.number}]" in answer.text
        assert citation.kind == "summary"
    longer = filled_store.ask("Summarize all documents.", using="raptor", within=800)
    assert [span for hit in longer.evidence.hits for span in hit.spans] == [c.spans[0] for c in longer.citations]
    explained = {row[0]: row[1] for row in filled_store.execute("EXPLAIN ASK 'Summarize all documents.' USING raptor")}
    assert explained["weigh confidence"].startswith("1.00: the question asks for an overview")


def test_an_overview_shows_links_as_people_read_them(store: kvstore.Store) -> None:
    text = "The [harbor master](people.md#ann) keeps the `log` of\nthe [west\npier][1].\n\n[1]: https://example.org/west-pier/log\n"
    store.put("pier", text, format="markdown")
    answer = store.ask("Summarize the documents.", using="raptor")
    assert answer.text == "The harbor master keeps the log of the west pier. [1]"


def test_a_retrieval_for_an_overview_is_referred_to_cover(filled_store: kvstore.Store) -> None:
    assert "USING raptor" in (filled_store.execute(f"RETRIEVE '{OVERVIEW}'").message or "")
    assert "hint" in {row[0] for row in filled_store.execute(f"EXPLAIN RETRIEVE '{OVERVIEW}'")}
    assert any("USING raptor" in remark for remark in filled_store.ask(OVERVIEW, using="lexical").remarks)
    assert not filled_store.execute(f"RETRIEVE '{OVERVIEW}' USING raptor").message
    assert "hint" not in {row[0] for row in filled_store.execute("EXPLAIN RETRIEVE 'Do whales sing?'")}
    assert filled_store.retrieve("Do whales sing?").hint is None


def test_an_overview_lists_the_documents_with_their_opening_sentences(filled_store: kvstore.Store) -> None:
    answer = filled_store.ask(OVERVIEW)
    assert answer.text.splitlines() == [
        "The store has 2 documents:",
        "",
        "- Long: This part praises herons. [1]",
        "- Short: Whales sing in the sea. [2]",
    ]
    assert (answer.outcome, answer.confidence, answer.remarks) == ("answered", 1.0, [])
    assert [(citation.document, citation.text) for citation in answer.citations] == [
        ("long", "This part praises herons."),
        ("short", "Whales sing in the sea."),
    ]
    assert "Whales sing in the sea." in filled_store.prompt(OVERVIEW).user
    assert "list documents" in {row[0] for row in filled_store.execute(f"EXPLAIN ASK '{OVERVIEW}'")}
    assert filled_store.ask(OVERVIEW, where="key = 'long'").text.startswith("On herons: This part praises herons. [1]")


def test_an_overview_samples_many_documents_and_counts_rows_of_a_file_as_one_source(
    store: kvstore.Store, tmp_path: Path
) -> None:
    for number in range(10):
        store.put(f"note-{number}", f"Note {number} tells how to grow radishes in winter.")
    (tmp_path / "prices.csv").write_text("item,price\nbeet,2\nkale,3\n")
    store.ingest(tmp_path)
    answer = store.ask("What is in this folder?", top=4)
    assert [citation.document for citation in answer.citations] == ["note-0", "note-2", "note-5", "note-8"]
    assert answer.text.startswith("The store has 12 documents from 11 sources, among them:\n\n- note-0: Note 0 tells")
    assert answer.remarks == ["SELECT key, title FROM documents lists all documents"]
    everything = store.ask("List all documents", top=20).text
    assert "from 11 sources:" in everything
    assert "- prices.csv (2 documents): item: beet price: 2 [11]" in everything
    short = store.ask("List all documents", top=20, words=20)
    assert "among them:" in short.text
    assert len(short.citations) == 2
    assert store.ask("What is in this folder?", where="key = 'nothing'").outcome == "nothing"


def test_a_summary_of_a_named_document_quotes_its_sentences_by_section(store: kvstore.Store) -> None:
    store.put("leave-2024", "# Leave policy 2024\n\nStaff get 20 days of leave.", format="markdown")
    text = "# Leave policy 2025\n\n## Days\n\nStaff get 25 days of leave.\n\n## Requests\n\nAsk your manager in May."
    store.put("leave-2025", text, format="markdown")
    store.put("menu", "The canteen serves soup on Monday.", title="Canteen menu")
    answer = store.ask("Summarize the leave policy 2025")
    assert answer.text == "Days: Staff get 25 days of leave. [1]\n\nRequests: Ask your manager in May. [2]"
    assert {citation.document for citation in answer.citations} == {"leave-2025"}
    assert store.ask("Summarize the leave policy").text.startswith(
        "The question names 2 documents:\n\n- Leave policy 2024"
    )
    assert store.ask("Give me a summary of the canteen menu").text == "The canteen serves soup on Monday. [1]"
    for question in ("What is the leave policy 2025 about?", "What are the main points of the leave policy 2025?"):
        assert store.ask(question).text == answer.text
    assert store.ask("Summarize the leave policy 2025", words=8).text == "Days: Staff get 25 days of leave. [1]"
    assert store.ask("Summarize the leave policy 2025", where="key = 'menu'").outcome != "answered"


def test_the_first_lines_name_a_document_without_a_title(store: kvstore.Store) -> None:
    text = "No. 61\nminutes of the assembly of 3 May\n\nThe roof leaks. The repair begins in June."
    store.put("a61", text, source="a61.txt")
    store.put("a62", "No. 62\nminutes of the board\n\nThe river rises. Boats stay ashore.", source="a62.txt")
    answer = store.ask("Summarize the minutes of the assembly")
    assert "The roof leaks." in answer.text and {citation.document for citation in answer.citations} == {"a61"}


def test_a_model_is_given_the_summary(filled_store: kvstore.Store) -> None:
    prompt = filled_store.prompt("Summarize all documents.", using="raptor")
    assert {hit.kind for hit in prompt.passages} == {"summary"}
    assert all(subject in prompt.user for subject in SUBJECTS)


# Topics above documents -----------------------------------------------------------------------------------------------


def put_topics(store: kvstore.Store) -> None:
    for subject in SUBJECTS[:3]:
        for number in range(4):
            praise = f"The {subject} of {subject} are {subject} indeed, say {subject}."
            text = f"Keeper number{number} writes of {subject}. {praise}"
            store.put(f"{subject}{number}", text, title=subject.capitalize())
    store.execute("CREATE INDEX topics WITH (size = 4)")


@pytest.fixture
def topic_store(copy_store: Callable[..., kvstore.Store], monkeypatch: pytest.MonkeyPatch) -> kvstore.Store:
    """Return a store with twelve documents on three subjects and their topics."""
    monkeypatch.setattr(topic_index, "_MAX_LEVELS", 2)
    return copy_store(put_topics, {"chunk_tokens": 40})


def test_an_overview_of_a_store_is_ordered_by_topics(topic_store: kvstore.Store) -> None:
    evidence = topic_store.retrieve(OVERVIEW, using="raptor", top=8, within=200)
    assert {hit.kind for hit in evidence.hits} == {"summary"}
    subjects = [{span.document[:-1] for span in hit.spans} for hit in evidence.hits]
    assert all(len(of) == 1 for of in subjects)
    assert set().union(*subjects) == set(SUBJECTS[:3])
    assert any("documents on" in hit.path and hit.title for hit in evidence.hits)
    for hit in evidence.hits:
        assert " ".join(read_spans(topic_store, hit)) == hit.text
    fewer = topic_store.retrieve(OVERVIEW, using="raptor", top=2, within=200).hits
    assert 1 <= len(fewer) <= 2
    alone = topic_store.retrieve(OVERVIEW, using="raptor", where="key < 'h'").hits
    assert {span.document for hit in alone for span in hit.spans} <= {f"glaciers{number}" for number in range(4)}
    assert all("chunk" in hit.path for hit in alone)


@pytest.mark.parametrize("mode", ["collapsed", "traversal"])
def test_trees_reach_up_to_topics(topic_store: kvstore.Store, mode: str) -> None:
    options = {"mode": mode, "width": 12}
    hits = topic_store.retrieve("What of herons?", using="raptor", top=50, options=options).hits
    topics = [hit for hit in hits if hit.path.startswith("topic")]
    assert topics
    assert all(hit.kind == "summary" and hit.text for hit in topics)
    assert all(" ".join(read_spans(topic_store, hit)) == hit.text for hit in topics)
    alone = topic_store.retrieve("What of herons?", using="raptor", top=50, options=options, where="key < 'h'").hits
    assert {hit.document[:-1] for hit in alone} == {"glaciers"}
    assert not [hit for hit in alone if hit.path.startswith("topic")]


@pytest.mark.parametrize("mode", ["collapsed", "traversal"])
def test_both_trees_are_read_as_one(make_store: Callable[..., kvstore.Store], mode: str) -> None:
    store = make_store(settings={"chunk_tokens": 40})
    subjects = {"ships": "The harbour is deep", "roses": "A garden was laid out", "coins": "Silver was weighed"}
    for subject, text in subjects.items():
        for number in range(4):
            store.put(f"{subject}{number}", f"{text} by {number} men. It was here that Ada Brandt worked on {subject}.")
    question, options = "What did Ada Brandt do?", {"mode": mode, "width": 20}

    def retrieve_hits() -> list[Hit]:
        return store.retrieve(question, using="raptor", top=60, options=options).hits

    store.execute("CREATE INDEX topics WITH (size = 4)")
    assert not [hit for hit in retrieve_hits() if _is_related(hit)]
    store.execute("DROP INDEX topics; CREATE INDEX topics WITH (size = 4, relatedness = 1)")
    hits = retrieve_hits()
    leaf = next(hit for hit in hits if _is_related(hit))
    assert (leaf.kind, leaf.title) == ("summary", "Ada Brandt")
    assert {span.document[:-1] for span in leaf.spans} == set(subjects)
    assert all("Ada Brandt worked" in sentence for sentence in read_spans(store, leaf))
    chunks = [hit.document for hit in hits if hit.kind == "chunk"]
    assert len(set(chunks)) == len(chunks), "a chunk below both trees is shown once"
    for subject in ("ships", "roses"):
        store.delete_where(f"key LIKE '{subject}%'")
    assert {span.document[:-1] for hit in retrieve_hits() for span in hit.spans} == {"coins"}


@pytest.mark.matrix
@pytest.mark.parametrize("mode", ["collapsed", "traversal"])
@pytest.mark.parametrize("options", ["size = 4", "size = 4, soft = 0.3", "size = 3, relatedness = 1"])
def test_stored_sums_of_vectors_agree_with_all_vectors(
    make_store: Callable[..., kvstore.Store], mode: str, options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def list_answers(stored_above: int) -> list[list[tuple[object, ...]]]:
        monkeypatch.setattr(ordered_chunks, "MAX_SUMMED_CHUNKS", stored_above)
        monkeypatch.setattr(topics, "MAX_SUMMED_CHUNKS", stored_above)
        store = make_store(f"above {stored_above}", settings={"chunk_tokens": 40})
        for subject in SUBJECTS[:3]:
            for number in range(6):
                store.put(f"{subject}{number}", f"Ada Brandt saw {number} {subject}. {subject} are {subject} to her.")
        store.execute(f"CREATE INDEX topics WITH ({options})")
        answers = []
        for change in (None, "glaciers1", "harbour", None):
            if change == "harbour":
                store.put(change, "Ada Brandt saw the harbour. It had herons.")
            elif change is not None:
                store.delete(change)
            for question in SUBJECTS[:3]:
                mode_options = {"mode": mode, "width": 9}
                hits = store.retrieve(f"What are {question}?", using="raptor", top=60, options=mode_options).hits
                assert any(hit.path.startswith("topic") for hit in hits)
                answers.append([(hit.score, hit.document, hit.ordinal, hit.text, hit.path) for hit in hits])
        return answers

    assert list_answers(1) == list_answers(1000)


def _is_related(hit: Hit) -> bool:
    return "related content" in hit.path


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("long", [False, True])
def test_topics_omit_deleted_and_include_new_documents(
    topic_store: kvstore.Store, mode: str, long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if long:
        monkeypatch.setattr(summary, "_MAX_FULL_TEXT_BYTES", 0)
    for number in range(4):
        topic_store.delete(f"herons{number}")
    topic_store.put("lanterns", "Lanterns light the harbour. The lanterns are lit at dusk.", title="Lanterns")
    options = {"mode": mode, "width": 50}
    for question in (OVERVIEW, "herons", "lanterns"):
        hits = topic_store.retrieve(question, using="raptor", top=50, within=5000, options=options).hits
        hit_texts = " ".join(f"{hit.text} {hit.title} {hit.path}" for hit in hits).lower()
        assert "heron" not in hit_texts
        assert "lanterns light the harbour" in hit_texts or (mode == "leaves" and question == "herons")
        assert "glaciers" in hit_texts or mode == "leaves"
    answer = topic_store.ask(OVERVIEW, using="raptor")
    assert "heron" not in answer.text.lower()
    assert "lanterns" in answer.text.lower()


@pytest.mark.parametrize("which", ["finest", "coarsest", "largest"])
def test_of_very_many_topics_coarser_ones_are_summed_up_or_the_largest(
    topic_store: kvstore.Store, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_store.execute("DROP INDEX topics")
    topic_store.execute("CREATE INDEX topics WITH (size = 2)")
    counted = topic_store.execute("SELECT level, count(*) FROM topics GROUP BY level ORDER BY level").fetchall()
    (_, finest), (_, coarsest) = counted
    most = {"finest": finest, "coarsest": finest - 1, "largest": coarsest - 1}[which]
    monkeypatch.setattr(summary, "_MAX_FULL_TEXT_BYTES", 0)
    monkeypatch.setattr(summary, "_MAX_TOPICS", most)
    evidence = topic_store.retrieve(OVERVIEW, using="raptor", top=50, within=5000)
    read = {step.name: step.count for step in evidence.steps}["read documents"]
    assert read == {"finest": finest, "coarsest": coarsest, "largest": coarsest - 1}[which], counted
    assert evidence.hits
    assert all(" ".join(read_spans(topic_store, hit)) == hit.text for hit in evidence.hits)


class History:
    """A store with topics whose documents are added and deleted; each document has a unique word."""

    def __init__(self, store: kvstore.Store, seed: int) -> None:
        self.store = store
        self.rng = random.Random(seed)
        self.documents: dict[str, str] = {}
        self.marks: set[str] = set()
        self._change()
        self.options = f"(size = 4, relatedness = {seed % 2})"
        store.execute(f"CREATE INDEX topics WITH {self.options}")

    def apply_changes(self) -> None:
        for _ in range(self.rng.randrange(1, 4)):
            self._change()
        if self.rng.random() < 0.3:
            self.store.execute("REFRESH INDEX topics")

    def _change(self) -> None:
        key = f"d{self.rng.randrange(8)}"
        if key in self.documents and self.rng.random() < 0.5:
            del self.documents[key]
            self.store.delete(key)
            return
        mark = f"mark{self.rng.randrange(10**9)}"
        about = self.rng.sample(SUBJECTS, 2)
        self.marks.add(mark)
        self.documents[key] = (
            f"The {mark} praises {about[0]}. {mark.capitalize()} also loves {about[1]} and {about[0]}."
        )
        self.store.put(key, self.documents[key], title=f"Of {mark}")

    def iter_results(self, store: kvstore.Store) -> Iterator[tuple[str, list[Hit]]]:
        for question in (OVERVIEW, "Who loves violins?"):
            for mode in MODES:
                options = {"mode": mode, "width": 20}
                yield (
                    f"{question} {mode}",
                    store.retrieve(question, using="raptor", top=60, within=9000, options=options).hits,
                )


def check_history(make_store: Callable[..., kvstore.Store], seed: int) -> None:
    history = History(make_store(f"lived{seed}"), seed)
    for _ in range(6):
        history.apply_changes()
        living = " ".join(history.documents.values()).lower()
        for question, hits in history.iter_results(history.store):
            hit_texts = " ".join(f"{hit.text} {hit.title} {hit.path}" for hit in hits).lower()
            assert not [mark for mark in history.marks if mark in hit_texts and mark not in living], question
            if OVERVIEW in question and "leaves" not in question:
                assert not [mark for mark in history.marks if mark in living and mark not in hit_texts], question
    history.store.execute("REFRESH INDEX topics")
    fresh = make_store(f"fresh{seed}")
    with fresh.transaction() as transaction:
        for key in sorted(history.documents):
            mark = history.documents[key].split()[1]
            transaction.put(key, history.documents[key], title=f"Of {mark}")
    fresh.execute(f"CREATE INDEX topics WITH {history.options}")
    assert list(history.iter_results(history.store)) == list(history.iter_results(fresh))


@pytest.mark.slow
def test_results_of_raptor_follow_a_history(make_store: Callable[..., kvstore.Store]) -> None:
    for seed in range(3):
        check_history(make_store, seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_results_of_raptor_follow_100_histories(make_store: Callable[..., kvstore.Store], part: int) -> None:
    for seed in range(100 + 20 * part, 120 + 20 * part):
        check_history(make_store, seed)
